"""Fields that the policy reads: no request hides one of them from the upstream, or spells its name in a
way that some servers take for it. The numbers are those of docs/http.md."""

import textwrap

import pytest

from harness import program

POLICY = """
    trusted_proxies: [127.0.0.1]
    limits:
      per-key: {key: header.x-api-key, rate: 1000/day}
      per-session: {key: cookie.sid, rate: 1000/day}
      per-tenant: {key: header.tenant_id, rate: 1000/day}
    upstreams:
      api: {servers: ["http://%s"], balance: hash(header.x-shard)}
    routes:
      - {match: {path: /key}, limits: [per-key, per-tenant], upstream: api}
      - {match: {path: /session}, limits: [per-session], upstream: api}
      - {match: {path: /costly}, limits: [per-key], cost: {from: header.x-cost, max: 5}, upstream: api}
      - {match: {header: {x-plan: gold}}, limits: [], upstream: api}
      - {match: {header: {x-debug: true}}, limits: [], upstream: api}
      - {limits: [], upstream: api}
"""

READ = ["X-Api-Key", "Tenant_Id", "Cookie", "X-Shard", "X-Cost", "X-Plan", "X-Debug",
        "X-Forwarded-For", "Forwarded"]


@pytest.fixture(name="proxy")
def proxy_before_an_upstream(start, start_upstream):
    return start(POLICY % start_upstream().address)


def ask(proxy, *fields, path="/"):
    return proxy.ask("GET", path, fields)


@pytest.mark.parametrize("name", READ)
def test_rule_46_connection_names_no_field_that_the_policy_reads(proxy, name):
    for option in (name, name.upper(), f"close, {name.lower()}"):
        answer = ask(proxy, (name, "1"), ("Connection", option))
        assert (answer.status, b"Connection" in answer.body) == (400, True), option
    assert ask(proxy, ("Connection", name)).status == 400, "without the field"
    assert ask(proxy, (name, "1"), ("Connection", "close")).status == 200
    assert ask(proxy, (name, "1"), ("Connection", "x-other"), ("X-Other", "1")).status == 200


@pytest.mark.parametrize("name", ["X_Api_Key", "x-api_key", "X.Api.Key", "tenant-id", "Tenant.ID",
                                  "X_Shard", "x_cost", "X_Plan", "X_debug"])
def test_rule_20_a_spelling_that_servers_fold_into_a_read_field_is_refused(proxy, name):
    answer = ask(proxy, (name, "1"))
    assert (answer.status, b"spelling" in answer.body) == (400, True)
    assert ask(proxy, (name + "s", "1")).status == 200


def test_rule_20_the_spelling_of_the_policy_passes_in_any_case(proxy):
    assert ask(proxy, ("x-API-key", "1"), ("TENANT_ID", "2"), path="/key").status == 200


@pytest.mark.parametrize("name", ["X-Plan", "X-Cost"])
def test_rule_52_several_lines_of_a_field_that_is_compared_are_refused(proxy, name):
    assert ask(proxy, (name, "1")).status == 200
    for other in ("1", "2"):
        answer = ask(proxy, (name, "1"), (name.lower(), other))
        assert (answer.status, b"several lines" in answer.body) == (400, True)


def test_rule_52_a_field_that_need_only_be_there_may_have_several_lines(proxy):
    assert ask(proxy, ("X-Debug", "1"), ("X-Debug", "2")).status == 200


def test_a_cost_that_stands_twice_alike_is_refused(proxy):
    cost = ("X-Cost", "2")
    assert ask(proxy, ("X-Api-Key", "a"), cost, cost, path="/costly").status == 400
    answer = ask(proxy, ("X-Api-Key", "a"), cost, path="/costly")
    assert answer.status == 200
    assert "r=998" in answer.get("RateLimit")


def test_without_trusted_proxies_their_fields_are_not_read(start, start_upstream):
    proxy = start("upstream: http://%s\nlimit: 10/s\n" % start_upstream().address)
    assert ask(proxy, ("X-Forwarded-For", "1"), ("Connection", "X-Forwarded-For")).status == 200


BY_HOST = """
    upstreams: {api: {servers: ["http://%s"]}}
    limits:
      per-host: {key: KEY, algorithm: fixed_window, rate: 3/day}
      admin: {key: global, algorithm: fixed_window, rate: 2/day}
    routes:
      - {match: {path: /key}, limits: [per-host], upstream: api}
      - {match: {CONDITION}, limits: [admin], upstream: api}
      - {limits: [], upstream: api}
"""


def by_host(address, key, condition):
    return (BY_HOST % address).replace("KEY", key).replace("{CONDITION}", condition)


@pytest.mark.parametrize("key, condition", [
    ("header.host", "{host: admin.test}"), ("host", "{header: {Host: admin.test}}")])
def test_no_policy_reads_a_host_that_the_upstream_does_not_get(tmp_path, key, condition):
    file = tmp_path / "policy.yaml"
    file.write_text("listen: 127.0.0.1:8080\n" + textwrap.dedent(by_host("127.0.0.1:1", key, condition)))
    run = program.command("check", file)
    assert (run.returncode, run.stderr.count(": use host")) == (1, 1), run.stderr


def test_the_host_of_an_absolute_target_counts_whatever_host_stands_beside_it(start, start_upstream):
    upstream = start_upstream()
    proxy = start(by_host(upstream.address, "host", "{host: admin.test}"))
    keyed = [proxy.ask("GET", "http://real.test/key", host=f"h{i}.test").status for i in range(5)]
    routed = [proxy.ask("GET", "http://admin.test/", host=f"h{i}.test").status for i in range(4)]
    assert (keyed, routed) == ([200] * 3 + [429] * 2, [200] * 2 + [429] * 2)
    assert upstream.last.get("Host") == "admin.test"
