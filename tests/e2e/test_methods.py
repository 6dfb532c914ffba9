"""GET takes HEAD: in routes, keys and costs, and in every command that follows a request."""

import json

import pytest

from harness import program

POLICY = """
listen: 127.0.0.1:0
limits: {few: {key: [client.ip, method], algorithm: fixed_window, rate: 10/day}}
defaults: {limits: [few]}
routes:
  - {name: read, match: {path: /read, method: [GET, POST]}, cost: {GET: 3, default: 2}, respond: {status: 204}}
  - {name: got, match: {path: [/apart, /both], method: GET}, respond: {status: 204}}
  - {name: asked, match: {path: /apart, method: HEAD}, cost: {GET: 3, HEAD: 5}, respond: {status: 204}}
"""
# method, path, route, what is left of the key afterwards
REQUESTS = [("HEAD", "/read", "read", 7), ("GET", "/read", "read", 4), ("POST", "/read", "read", 8),
            ("GET", "/apart", "got", 3), ("HEAD", "/apart", "asked", None),
            ("HEAD", "/both", "got", 2)]


@pytest.fixture(name="policy_file")
def file_of_the_policy(tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    return str(tmp_path / "policy.yaml")


def test_the_proxy_counts_head_as_get(start):
    proxy = start(POLICY)
    with proxy.connect() as client:
        for method, path, _, left in REQUESTS:
            answer = client.ask(method, path)
            assert answer.status == (204 if left is not None else 429), (method, path)
            if left is not None:
                assert f"r={left};" in answer.get("RateLimit"), (method, path)
    assert [line["route"] for line in proxy.log_lines(len(REQUESTS))] == [one[2] for one in REQUESTS]


@pytest.mark.parametrize("method, path, route", [one[:3] for one in REQUESTS])
def test_explain_finds_the_same_route(policy_file, method, path, route):
    found = json.loads(program.command("explain", "--json", policy_file, method, path).stdout)
    assert found["route"] == route
    assert found["limits"][0]["key"].endswith("method=GET" if method == "HEAD" else f"method={method}")


def test_tests_of_a_policy_agree(policy_file, tmp_path):
    steps = "".join(
        f"    - {{request: {method} {path}, from: 192.0.2.1, expect: {{route: {route}, verdict: "
        + (f"allowed, remaining: {left}" if left is not None else "denied") + "}}\n"
        for method, path, route, left in REQUESTS)
    (tmp_path / "tests.yaml").write_text(f"policy: policy.yaml\ntests:\n  - name: methods\n    steps:\n{steps}")
    result = program.command("test", str(tmp_path / "tests.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_replayed_log_agrees(policy_file):
    log = "".join(f'192.0.2.1 - - [23/Nov/2026:08:00:00 +0000] "{method} {path} HTTP/1.1" 200 0\n'
                  for method, path, _, _ in REQUESTS)
    report = json.loads(program.command("replay", "--json", policy_file, "-", stdin=log).stdout)
    assert (report["policy"]["allowed"], report["policy"]["denied"], report["policy"]["no_route"]) == (5, 1, 0)
