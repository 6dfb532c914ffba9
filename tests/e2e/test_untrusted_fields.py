"""Fields that only a trusted proxy can send: of any other peer the policy reads them as absent, as its
servers do not get them either."""

import json
import textwrap

import pytest

from harness import program
from harness.client import Client

TRUSTED, OTHER = "127.0.0.1", "127.0.0.2"

NAMES = ["X-Forwarded-For", "Forwarded", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port",
         "X-Forwarded-Prefix", "X-Request-ID"]

POLICY = """
    trusted_proxies: [127.0.0.1]
    limits:
      few: {key: header.NAME | client.ip, algorithm: fixed_window, rate: 2/day}
      lacking: {key: header.NAME, missing: deny, rate: 9/s}
      costly: {key: client.ip, algorithm: fixed_window, rate: 10/day}
    upstreams:
      api: {servers: ["http://UPSTREAM"]}
    routes:
      - {match: {path: /key}, limits: [few], upstream: api}
      - {match: {path: /missing}, limits: [lacking], upstream: api}
      - {match: {path: /cost}, limits: [costly], cost: {from: header.NAME, max: 4, trust: any}, upstream: api}
      - {match: {path: /match, header: {NAME: "1"}}, respond: {status: 201}}
      - {match: {path: /match, header: {NAME: true}}, respond: {status: 202}}
      - {match: {path: /match, header: {NAME: false}}, respond: {status: 203}}
      - {limits: [], upstream: api}
"""


@pytest.fixture(name="proxy", params=NAMES)
def a_proxy_that_reads_the_field(request, start, start_upstream):
    upstream = start_upstream()
    proxy = start(POLICY.replace("NAME", request.param).replace("UPSTREAM", upstream.address))
    proxy.name = request.param
    return proxy


def ask(proxy, source, *values, path="/match", name=None):
    with Client(proxy.address, source) as client:
        return client.ask("GET", path, [(name or proxy.name, value) for value in values])


def remaining(answer):
    return answer.get("RateLimit").split(";")[1]


def test_no_client_chooses_its_counter_by_it(proxy):
    statuses = [ask(proxy, OTHER, str(i), path="/key").status for i in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert [ask(proxy, TRUSTED, str(i), path="/key").status for i in range(4)] == [200] * 4


def test_a_key_lacks_it(proxy):
    assert [ask(proxy, source, "1", path="/missing").status for source in (OTHER, TRUSTED)] == [403, 200]


def test_no_client_chooses_its_route_by_it(proxy):
    for name in {proxy.name, proxy.name.lower(), proxy.name.upper()}:
        assert ask(proxy, OTHER, "1", name=name).status == 203
        assert ask(proxy, TRUSTED, "1", name=name).status == 201
    assert ask(proxy, OTHER, "2").status == 203
    assert ask(proxy, TRUSTED, "2").status == 202


def test_lines_that_are_not_read_are_no_reason_to_refuse(proxy):
    assert ask(proxy, OTHER, "1", "2").status == 203
    assert ask(proxy, OTHER, "").status == 203
    replaced = proxy.name == "X-Request-ID"  # of several none is passed on
    assert ask(proxy, TRUSTED, "1", "2").status == (203 if replaced else 400)


def test_no_client_chooses_its_cost_by_it(proxy):
    assert remaining(ask(proxy, OTHER, "1", path="/cost")) == "r=6"
    assert remaining(ask(proxy, TRUSTED, "1", path="/cost")) == "r=9"


@pytest.fixture(name="policy", params=NAMES)
def a_file_that_reads_the_field(request, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("listen: 127.0.0.1:8080\n" + textwrap.dedent(
        POLICY.replace("NAME", request.param).replace("UPSTREAM", "127.0.0.1:1")))
    return file, request.param


def test_explain_says_the_same(policy):
    file, name = policy
    for source, status in ((OTHER, 203), (TRUSTED, 201)):
        told = program.command("explain", file, "GET", "http://a/match", "--from", source, "-H", f"{name}: 1").stdout
        assert f"answer     {status}" in told, told
        assert (f"{name} is ignored: {source} is not one of trusted_proxies" in told) == (source == OTHER), told


def test_tests_of_a_policy_say_the_same(policy, tmp_path):
    file, name = policy
    steps = [f"      - {{request: GET /match, from: {source}, headers: {{{name}: '1'}}, "
             f"expect: {{status: {status}}}}}\n"
             for source, status in ((OTHER, 203), (TRUSTED, 201))]
    tests = tmp_path / "tests.yaml"
    tests.write_text("policy: policy.yaml\ntests:\n  - name: who sends it\n    steps:\n" + "".join(steps))
    run = program.command("test", tests)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_server_is_not_chosen_by_it(start, start_upstream):
    upstreams = [start_upstream() for _ in range(2)]
    servers = ", ".join(f'"http://{one.address}"' for one in upstreams)
    proxy = start(f"""
        trusted_proxies: [127.0.0.1]
        upstreams: {{api: {{servers: [{servers}], balance: "hash(header.x-forwarded-user | client.ip)"}}}}
        routes: [{{upstream: api}}]
    """)

    def servers_of(source):
        before = [len(one.requests) for one in upstreams]
        for i in range(20):
            assert ask(proxy, source, str(i), path="/", name="X-Forwarded-User").status == 200
        return [len(one.requests) > n for one, n in zip(upstreams, before)].count(True)

    assert (servers_of(OTHER), servers_of(TRUSTED)) == (1, 2)


def test_without_trusted_proxies_no_peer_sends_it(start):
    proxy = start("routes:\n"
                  "  - {match: {header: {X-Forwarded-Proto: http}}, respond: {status: 201}}\n"
                  "  - {respond: {status: 202}}\n")
    assert ask(proxy, OTHER, "http", name="X-Forwarded-Proto").status == 202


@pytest.mark.parametrize("fields, status", [
    ([("Forwarded", "for=192.0.2.1")], 201),
    ([("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.2")], 202),
    ([("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "")], 201),
    ([("X-Request-ID", "r1")], 203),
    ([("X-Request-ID", "r1"), ("X-Request-ID", "r2")], 202),
    ([("X-Request-ID", "r<1>")], 202),
])
def test_of_a_trusted_proxy_nothing_is_read_that_servers_do_not_get(start, fields, status):
    """The list that does not name the client may be the client's own; an id that is not plain is replaced."""
    proxy = start("trusted_proxies: [127.0.0.1]\n"
                  "routes:\n"
                  "  - {match: {header: {Forwarded: true}}, respond: {status: 201}}\n"
                  "  - {match: {header: {X-Request-ID: true}}, respond: {status: 203}}\n"
                  "  - {respond: {status: 202}}\n")
    with Client(proxy.address, TRUSTED) as client:
        assert client.ask("GET", "/", fields).status == status


@pytest.mark.parametrize("trusted, denied", [("", 3), ("trusted_proxies: [127.0.0.1]\n", 0)])
def test_a_replay_takes_it_for_a_proxys_where_the_policy_trusts_one(tmp_path, trusted, denied):
    file = tmp_path / "policy.yaml"
    file.write_text("listen: 127.0.0.1:8080\n" + trusted +
                    "limits: {few: {key: header.x-forwarded-host | client.ip, rate: 1/day, burst: 1}}\n"
                    "routes: [{limits: [few], respond: {status: 204}}]\n")
    log = tmp_path / "log"
    log.write_text("".join(json.dumps({"time": f"2026-01-01T00:00:0{i}Z", "client": "192.0.2.1", "method": "GET",
                                       "path": "/", "forwarded": f"{i}.test"}) + "\n" for i in range(4)))
    run = program.command("replay", file, log, "--json", "--field", "header.X-Forwarded-Host=forwarded")
    assert json.loads(run.stdout)["policy"]["denied"] == denied, run.stdout + run.stderr
