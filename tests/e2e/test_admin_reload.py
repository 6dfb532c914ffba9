"""Reloads and upstreams, as operators ask for them and look at them."""

import os
import signal
import socket

import pytest

from harness import program
from harness.admin import READ_TOKEN, TOKEN, Admin, addresses, audit, bearer, ctl, is_problem
from harness.wait import until


def policy_of(folder, admin=None, rate="5/hour", extra=""):
    return f"""listen: 127.0.0.1:0
workers: 2
admin: {admin or f'"unix:{folder}/admin.sock"'}
limits: {{a: {{key: client.ip, rate: {rate}}}}}
routes: [{{limits: [a], respond: {{status: 204}}}}]
{extra}"""


@pytest.fixture
def proxy(start, tmp_path):
    return start(policy_of(tmp_path))


@pytest.fixture
def unix(proxy):
    return Admin(addresses(proxy)[0])


def rewrite(proxy, text):
    """As an editor saves: whole or not at all. The port stays."""
    text = text.replace("127.0.0.1:0", f"127.0.0.1:{proxy.port}", 1)
    (proxy.folder / "new").write_text(text)
    os.rename(proxy.folder / "new", proxy.folder / "policy.yaml")


def test_a_reload_is_answered_when_it_has_ended(proxy, unix, tmp_path):
    before = unix.read("/v1/reload")
    assert before["generation"] == 1 and before["attempts"] == 0
    rewrite(proxy, policy_of(tmp_path, rate="7/hour"))
    done = unix.change("POST", "/v1/reload")
    assert done["succeeded"] is True and done["generation"] == 2
    assert unix.read("/v1/limits/a")["rates"][0]["units"] == 7
    assert unix.read("/v1/policy")["limits"]["a"]["rate"] == ["7/hour"]
    assert unix.read("/v1/limits/a/keys/127.0.0.1")["rates"][0]["limit"] == 7
    assert unix.read("/v1/reload")["successes"] == 1
    assert 'path=/v1/reload status=200 outcome="generation 2"' in audit(proxy, 1)[0]


def test_what_a_reload_has_changed_is_listed(proxy, unix, tmp_path):
    assert unix.read("/v1/reload")["reloads"] == []
    rewrite(proxy, policy_of(tmp_path, rate="7/hour", extra="upstreams: {u: {servers: 'http://127.0.0.1:9'}}"))
    unix.change("POST", "/v1/reload")
    rewrite(proxy, policy_of(tmp_path, rate="7/our"))
    unix.change("POST", "/v1/reload", status=422)
    more = ", ".join(f"l{i}: {{key: global, rate: {i + 1}/hour}}" for i in range(40))
    text = policy_of(tmp_path, rate="7/hour").replace("limits: {a:", f"limits: {{{more}, a:")
    rewrite(proxy, text.replace("limits: [a]", f"limits: [a, {', '.join(f'l{i}' for i in range(10))}]"))
    unix.change("POST", "/v1/reload")
    third, second, first = unix.read("/v1/reload")["reloads"]
    assert [one["number"] for one in (first, second, third)] == [1, 2, 3]
    assert first["succeeded"] is True and first["generation"] == 2
    assert {"key": "limits.a.rate", "change": "changed", "from": "5/hour", "to": "7/hour"} in first["changes"]
    assert {"key": "upstreams.u", "change": "added", "to": "servers: http://127.0.0.1:9"} in first["changes"]
    assert second["succeeded"] is False and second["generation"] == 2 and second["changes"] == []
    assert len(third["changes"]) == 32 and third["more_changes"] == 40 + 1 + 1 - 32
    assert third["because"] == "it was asked for"
    # A reload without a change, and no more than the latest 16.
    for _ in range(15):
        unix.change("POST", "/v1/reload")
    reloads = unix.read("/v1/reload")["reloads"]
    assert [one["number"] for one in reloads] == list(range(18, 2, -1))
    assert reloads[0]["changes"] == [] and reloads[0]["more_changes"] == 0


def test_a_policy_that_is_not_sound_is_told_and_the_one_before_stays(proxy, unix, tmp_path):
    rewrite(proxy, policy_of(tmp_path, rate="7/our"))
    answer = unix.ask("POST", "/v1/reload", [("Content-Type", "application/json")], b"{}")
    assert "stays in force" in is_problem(answer, 422)
    assert any("policy.yaml:4:" in line and '"7/our"' in line for line in answer.json()["messages"])
    assert unix.read("/v1/limits/a")["rates"][0]["units"] == 5
    assert unix.read("/v1/reload")["succeeded"] is False
    told = ctl(unix.address, "reload")
    assert told.returncode == 1 and '"7/our"' in told.stderr and "stays in force" in told.stderr


def test_ctl_reloads(proxy, unix, tmp_path):
    rewrite(proxy, policy_of(tmp_path, rate="9/hour"))
    told = ctl(unix.address, "reload")
    assert told.returncode == 0 and told.stdout.endswith("reloaded: generation 2 is in force\n")
    assert unix.read("/v1/limits/a")["rates"][0]["units"] == 9


def test_who_may_not_change_may_not_reload(start, tmp_path):
    proxy = start(policy_of(tmp_path, "127.0.0.1:0"))
    tcp = Admin(addresses(proxy)[0])
    assert tcp.ask("POST", "/v1/reload", [("Content-Type", "application/json")]).status == 401
    assert tcp.ask("GET", "/v1/reload").json()["attempts"] == 0


def test_reload_without_a_token_says_what_is_missing(start, tmp_path):
    proxy = start(policy_of(tmp_path, f"{{listen: 127.0.0.1:0, token: {TOKEN}}}"))
    host, port = addresses(proxy)[0]
    url = f"http://{host}:{port}"
    without = program.command("reload", "--url", url)
    assert (without.returncode, without.stdout) == (1, "")
    assert without.stderr == (
        "sluice reload: not reloaded: 401: no token was sent, and this address needs one: give --token-file FILE "
        "or set SLUICE_TOKEN, or ask with --socket PATH over a unix socket, which admin may have too "
        "(admin: [127.0.0.1:9900, unix:/run/sluice/admin.sock])\n")
    wrong = program.command("reload", "--url", url, env={"SLUICE_TOKEN": "x" * 32})
    assert wrong.returncode == 1 and "401: the proxy does not accept the token that was sent" in wrong.stderr
    done = program.command("reload", "--url", url, env={"SLUICE_TOKEN": TOKEN})
    assert (done.returncode, done.stdout) == (0, "reloaded: generation 2 is in force\n")
    elsewhere = program.command("reload", "--url", f"http://127.0.0.1:{proxy.port}")
    assert elsewhere.returncode == 1 and "this is no answer of an admin API of sluice" in elsewhere.stderr


def test_a_reload_takes_no_members(unix):
    answer = unix.ask("POST", "/v1/reload", [("Content-Type", "application/json")], b'{"x": 1}')
    is_problem(answer, 400)
    for body in (b"[]", b"{", b'"x"', b"\xff", b"1", b'{"a": 1, "a": 2}', b"{" * 5000):
        is_problem(unix.ask("POST", "/v1/reload", [("Content-Type", "application/json")], body), 400)


def test_many_who_ask_at_once_are_all_answered(proxy, unix):
    clients = [unix.connect() for _ in range(20)]
    for client in clients:
        client.send(b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 0\r\n\r\n")
    for client in clients[:5]:
        client.close()
    assert [client.read().status for client in clients[5:]] == [200] * 15
    assert proxy.is_running()


def test_addresses_of_operators_come_and_go_with_the_policy(proxy, unix, tmp_path):
    kept = unix.connect()
    assert kept.ask("GET", "/healthz", host="localhost").status == 200
    rewrite(proxy, policy_of(tmp_path, f'["unix:{tmp_path}/admin.sock", "unix:{tmp_path}/new.sock"]'))
    assert unix.change("POST", "/v1/reload")["succeeded"] is True
    new = Admin(f"{tmp_path}/new.sock")
    assert until(lambda: os.path.exists(new.address), "the new door")
    assert new.read("/healthz")["status"] == "alive"
    assert kept.ask("GET", "/healthz", host="localhost").status == 200
    rewrite(proxy, policy_of(tmp_path, f'["unix:{tmp_path}/new.sock"]'))
    early = unix.connect()
    assert unix.change("POST", "/v1/reload")["succeeded"] is True
    until(lambda: not os.path.exists(unix.address), "the old door to be gone")
    assert kept.has_ended()
    assert early.ask("GET", "/healthz", host="localhost").get("Connection") == "close"
    assert new.read("/v1/reload")["generation"] == 3


def test_an_address_for_operators_that_cannot_be_opened_keeps_the_old_policy(proxy, unix, tmp_path):
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as other:
        for place in (f"127.0.0.1:{other.getsockname()[1]}", f"unix:{tmp_path}/file"):
            rewrite(proxy, policy_of(tmp_path, f'["unix:{tmp_path}/admin.sock", "{place}"]', rate="7/hour"))
            answer = unix.ask("POST", "/v1/reload", [("Content-Type", "application/json")], b"{}")
            assert "stays in force" in is_problem(answer, 422)
            assert any(place in line for line in answer.json()["messages"]), answer.json()
            until(lambda: f"address={place}" in proxy.stderr(), "the fault in the log")
    assert unix.read("/v1/limits/a")["rates"][0]["units"] == 5
    assert (tmp_path / "file").exists()


def test_tokens_come_and_go_with_the_policy(start, tmp_path):
    def admin(token):
        return f'{{listen: ["unix:{tmp_path}/admin.sock", 127.0.0.1:0], token: {token}}}'

    proxy = start(policy_of(tmp_path, admin(TOKEN)))
    unix, tcp = (Admin(place) for place in addresses(proxy, 2))
    assert tcp.ask("DELETE", "/", [bearer()]).status == 405
    rewrite(proxy, policy_of(tmp_path, admin(READ_TOKEN)))
    unix.change("POST", "/v1/reload")
    assert tcp.ask("DELETE", "/", [bearer()]).status == 401
    assert tcp.ask("DELETE", "/", [bearer(READ_TOKEN)]).status == 405


def test_a_token_that_cannot_be_read_leaves_who_may(start, tmp_path):
    proxy = start(policy_of(tmp_path, f'{{listen: ["unix:{tmp_path}/admin.sock", 127.0.0.1:0], '
                                      f'token: {TOKEN}}}'))
    unix, tcp = (Admin(place) for place in addresses(proxy, 2))
    rewrite(proxy, policy_of(tmp_path, f'{{listen: ["unix:{tmp_path}/admin.sock", 127.0.0.1:0], '
                                       'token_file: /nowhere}'))
    unix.change("POST", "/v1/reload")
    until(lambda: "keeps its tokens and addresses" in proxy.stderr(), "the fault in the log")
    assert tcp.ask("DELETE", "/", [bearer()]).status == 405


def test_servers_are_told_with_how_they_are(start, start_upstream, tmp_path):
    upstream = start_upstream()
    proxy = start(f"""
        admin: "unix:{tmp_path}/admin.sock"
        upstreams:
          api:
            servers: ["{upstream.url}", {{url: "http://127.0.0.1:1", weight: 2}}]
            balance: least_requests
            eject: {{failures: 1, for: 1h, max: 1h}}
            max_connections: 5
          other:
            servers: ["http://127.0.0.1:1"]
            health: {{path: "/ok?secret=hush", interval: 200ms, timeout: 100ms, fall: 1}}
        routes:
          - {{match: {{path: /other}}, upstream: other}}
          - {{upstream: api}}
        """)
    unix = Admin(addresses(proxy)[0])

    def told():
        return {one["name"]: one for one in unix.read("/v1/upstreams")["upstreams"]}

    api = told()["api"]
    assert api["balance"] == "least_requests" and api["max_connections"] == 5
    assert api["waiting"] == 0
    assert [server["state"] for server in api["servers"]] == ["up", "up"]
    assert [server["weight"] for server in api["servers"]] == [1, 2]
    assert api["servers"][0] == {"url": upstream.url, "protocol": "1.1", "state": "up", "weight": 1, "requests": 0,
                                 "connections": 0}
    until(lambda: proxy.ask() and told()["api"]["servers"][1]["state"] == "ejected", "the failure")
    assert 0 < told()["api"]["servers"][1]["probe_in_ms"] <= 3600_000
    until(lambda: told()["other"]["servers"][0]["state"] == "fails checks", "the checks")
    assert told()["other"]["health"] == "/ok"
    lines = ctl(unix.address, "upstreams").stdout.splitlines()
    assert lines[0].split() == ["UPSTREAM", "SERVER", "HTTP", "STATE", "WEIGHT", "REQUESTS", "CONNECTIONS",
                                "WAITING"]
    assert lines[2].split()[:4] == ["http://127.0.0.1:1", "1.1", "ejected", "2"]


def test_an_admin_api_that_is_new_is_there_after_the_next_start(start, tmp_path):
    proxy = start("listen: 127.0.0.1:0\nroutes: [{respond: {status: 204}}]\n")
    rewrite(proxy, policy_of(tmp_path))
    proxy.signal(signal.SIGHUP)
    until(lambda: "a restart alone" in proxy.stderr(), "the hint")
    until(lambda: "key=admin" in proxy.stderr(), "the key of the hint")
