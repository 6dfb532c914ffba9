"""What operators ask of a running proxy."""

import json
import os
import socket
import threading

import pytest

from harness import program
from harness.admin import (JSON, POLICY, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer,
                           ctl, is_problem)
from harness.client import TIMEOUT_S
from harness.relay import Relay
from harness.upstream import OK
from harness.wait import until


@pytest.fixture(scope="module")
def proxy(start_shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("admin")
    return start_shared(POLICY.format(folder=folder))


@pytest.fixture(scope="module")
def places(proxy):
    return addresses(proxy, 2)


@pytest.fixture(scope="module")
def unix(places):
    return Admin(places[0])


@pytest.fixture(scope="module")
def tcp(places):
    return Admin(places[1])


# --- what there is ---

def test_the_list_names_what_there_is_and_each_answers(unix):
    listed = unix.read("/")["resources"]
    plain = [one["path"] for one in listed if one["method"] == "GET" and "{" not in one["path"]]
    assert {"/", "/healthz", "/readyz", "/v1/limits", "/v1/routes", "/v1/policy"} <= set(plain)
    for path in plain:
        method = "HEAD" if path == "/v1/live" else "GET"  # whose lines do not end
        assert unix.ask(method, path).status == 200, path


def test_health_and_readiness_are_told(unix):
    until(lambda: unix.read("/healthz")["workers"] == 2, "both loops to turn")
    assert unix.read("/healthz")["status"] == "alive"
    assert unix.read("/readyz") == {"status": "ready", "store": {"kind": "memory", "state": "ok"}}


def test_limits_are_told_with_their_numbers_and_routes(unix):
    limits = {limit["name"]: limit for limit in unix.read("/v1/limits")["limits"]}
    assert set(limits) == {"per-client", "per-key", "quiet"}
    one = limits["per-client"]
    assert one["key"] == ["client.ip"] and one["algorithm"] == "token_bucket"
    assert one["rates"] == [{"name": "per-client", "units": 60, "period": "1h", "burst": 5}]
    assert one["routes"] == ["a"] and one["shadow"] is False
    assert [rate["period"] for rate in limits["per-key"]["rates"]] == ["1h", "1d"]
    assert limits["per-key"]["key"] == ["header.x-api-key", "method"]
    assert limits["quiet"]["shadow"] is True
    assert unix.read("/v1/limits/per-client") == one
    assert "no such limit" in unix.read("/v1/limits/none", 404)["detail"]


def test_routes_are_told_in_their_order(unix):
    routes = unix.read("/v1/routes")["routes"]
    assert [route["name"] for route in routes] == ["a", "route-2"]
    assert routes[0]["match"] == {"path": ["/a/{id}/**"], "method": ["GET", "HEAD"]}
    assert routes[0]["limits"] == ["per-client", "per-key"]
    assert routes[1]["respond"] == {"status": 204}


def test_the_policy_is_told_without_its_secrets(unix):
    policy = unix.read("/v1/policy")
    assert policy["limits"]["per-client"]["rate"] == ["60/hour"]
    assert policy["admin"]["token"] == "${REDACTED_1}" and policy["admin"]["read_token"] == "${REDACTED_2}"
    assert "max" not in policy
    assert unix.read("/v1/policy?with=defaults")["max"]["connections"] == 10000
    assert "with" in unix.read("/v1/policy?with=x", 400)["detail"]
    assert TOKEN not in json.dumps(policy)


def test_a_key_is_told_without_charging_it(proxy, unix):
    for _ in range(3):
        assert proxy.ask("GET", "/a/1", [("x-api-key", "hush")]).status == 200
    path = "/v1/limits/per-key/keys/header.x-api-key=hush,method=GET"
    for _ in range(5):
        told = unix.read(path)
    assert [rate["remaining"] for rate in told["rates"]] == [7, 97]
    assert told["allowed"] is True and told["source"] == "memory"
    assert "hush" not in json.dumps(told)
    again = unix.read("/v1/limits/per-key/keys/" + told["key"].replace("#", "%23"))
    assert again["hash"] == told["hash"] and again["rates"][0]["limit"] == 10


def test_a_key_that_is_denied_is_told_so(proxy, unix):
    for _ in range(6):
        status = proxy.ask("GET", "/a/1", source="127.0.0.9").status
    assert status == 429
    told = unix.read("/v1/limits/per-client/keys/127.0.0.9")
    assert told["allowed"] is False and told["rates"][0]["remaining"] == 0
    assert 0 < told["rates"][0]["retry_after_ms"] <= 60_000


def test_a_key_that_was_denied_is_found_by_its_hash(proxy, unix):
    for _ in range(7):
        proxy.ask("GET", "/a/1", source="127.0.0.8")
    told = unix.read("/v1/limits/per-client/keys/127.0.0.8")
    assert told["allowed"] is False
    by_hash = unix.read(f"/v1/limits/per-client/keys/{told['hash']}")
    assert by_hash["key"] == "client.ip=127.0.0.8" and by_hash["rates"][0]["limit"] == 5
    assert "this hash" in is_problem(
        unix.ask("GET", "/v1/limits/per-client/keys/0123456789abcdef0123456789abcdef"), 404)


def test_all_unknown_methods_are_one_key(start_in_store, tmp_path):
    proxy = start_in_store(f"""
        admin: "unix:{tmp_path}/admin.sock"
        limits:
          a: {{key: method, rate: 2/hour}}
        routes: [{{limits: [a], cost: {{PURGE: 1, default: 1}}, respond: {{status: 204}}}}]
        """)
    unix = Admin(addresses(proxy)[0])
    path = "/v1/limits/a/keys/method="
    assert [proxy.ask(method).status for method in ("FOO", "BAR", "PURGE")] == [204, 204, 204]
    until(lambda: unix.read(path + "FOO")["source"] in ("memory", "redis"), "the admin's link")
    for unknown in ("FOO", "ANY", "@other"):
        told = unix.read(path + unknown)
        assert told["key"] == "method=@other" and told["rates"][0]["remaining"] == 0, unknown
    assert unix.read(path + "PURGE")["rates"][0]["remaining"] == 1
    assert "the request's is PURGE" in is_problem(unix.ask("GET", path + "purge"), 400)
    assert proxy.ask("QUX").status == 429
    assert unix.change("DELETE", path + "BAZ")["reset"] is True
    assert unix.read(path + "FOO")["rates"][0]["remaining"] == 2
    until(lambda: proxy.ask("QUX").status == 204, "workers to forget")


# --- what is wrong ---

BAD_KEYS = [
    "x", "client.ip", "client.ip=", "client.ip=x", "client.ip=1.2.3.4,method=GET", "client.ip=1.2.3",
    "client.ip=1.2.3.4%00", "%", "%2", "%zz", "method=GET", "%7B", "%7B%7D", "%7Bclient.ip:9=1.2.3.4%7D",
    "%7Bclient.ip:99999999999999999999=1%7D", "client.ip%23abc",
    "%22", "client.ip=%22", "%FF%FE", ",", ",,", "client.ip=1.2.3.4,", "none,none", "a" * 3000,
    "%7B" * 1000, "client.ip=%0d%0aX:%20y", "header.x=1", "../../healthz", "%2e%2e",
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_a_key_that_is_none_is_refused_with_a_reason(unix, key):
    answer = unix.ask("GET", f"/v1/limits/per-client/keys/{key}")
    is_problem(answer, 404 if "/" in key else 400)
    assert b"\r" not in answer.body


BAD_REQUESTS = {
    "no request at all": b"\0\1\2\3\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "another version": b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "a bare LF": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n",
    "a length that is none": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a space in a name": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a target with spaces": b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a fragment": b"GET /#a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("raw", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_what_is_no_request_is_refused_with_a_reason(unix, raw):
    with unix.connect() as client:
        client.send(raw)
        answer = client.read()
        assert 400 <= answer.status < 600 and answer.status != 500
        is_problem(answer, answer.status)
        assert answer.get("Connection") == "close" and client.has_ended()
    assert unix.ask("GET", "/healthz").status == 200


def test_a_chunk_that_is_none_is_refused(unix):
    with unix.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        is_problem(client.read(), 400)


def test_what_is_too_long_is_refused(unix):
    is_problem(unix.ask("GET", "/" + "a" * 5000), 414)
    is_problem(unix.ask("GET", "/", [(f"a{i}", "b") for i in range(100)]), 431)
    is_problem(unix.ask("GET", "/", [("a", "b" * 20000)]), 431)
    is_problem(unix.ask("POST", "/", [JSON, ("Content-Length", "99999")]), 413)
    chunks = b"4000\r\n" + b"x" * 0x4000 + b"\r\n1\r\nx\r\n0\r\n\r\n"
    is_problem(unix.ask("POST", "/", [JSON, ("Transfer-Encoding", "chunked")], chunks), 413)


def test_what_is_not_there_says_where_to_look(unix):
    assert "GET /" in is_problem(unix.ask("GET", "/v2/limits"), 404)
    answer = unix.ask("POST", "/v1/limits", [JSON], b"{}")
    is_problem(answer, 405)
    assert answer.get("Allow") == "GET, HEAD"


# --- HTTP ---

def test_one_connection_serves_many_requests(unix):
    with unix.connect() as client:
        for _ in range(50):
            assert client.ask("GET", "/healthz", host="localhost").status == 200


def test_requests_that_come_together_are_answered_in_order(unix):
    request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with unix.connect() as client:
        client.send(request % b"healthz" + request % b"none" + request % b"readyz")
        assert [client.read().status for _ in range(3)] == [200, 404, 200]


def test_a_head_is_answered_as_a_get_without_content(unix):
    with unix.connect() as client:
        head = client.ask("HEAD", "/v1/limits", host="localhost")
        got = client.ask("GET", "/v1/limits", host="localhost")
    assert head.status == 200 and head.get("Content-Length") == got.get("Content-Length")


def test_a_request_byte_by_byte_is_a_request(unix):
    with unix.connect() as client:
        for byte in b"POST /v1/limits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
                    b"Content-Length: 2\r\n\r\n{}":
            client.send(bytes([byte]))
        assert client.read().status == 405


def test_who_speaks_http_1_0_is_answered_once(unix):
    with unix.connect() as client:
        client.send(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert client.read().status == 200 and client.has_ended()


def test_who_waits_for_a_100_gets_it_if_it_is_let_in(unix, tcp):
    wish = b"POST /v1/limits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
           b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with unix.connect() as client:
        client.send(wish)
        assert client.read().status == 100
        client.send(b"{}")
        assert client.read().status == 405
    with tcp.connect() as client:
        client.send(wish)
        assert client.read().status == 401


# --- who is slow, or many ---

def test_who_sends_nothing_locks_nobody_out(unix, tcp):
    silent = []
    try:
        for _ in range(200):
            silent.append(socket.create_connection(tcp.address))
            silent[-1].sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert tcp.ask("GET", "/healthz").status == 200
        assert unix.ask("GET", "/healthz").status == 200
    finally:
        for one in silent:
            one.close()


def test_a_head_that_does_not_end_is_given_up(tcp):
    with tcp.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: local")
        is_problem(client.read(), 408)
        assert client.has_ended()


def test_many_at_once_are_all_answered(unix):
    failures = []

    def ask_often():
        try:
            with unix.connect() as client:
                for _ in range(50):
                    assert client.ask("GET", "/v1/policy", host="localhost").status == 200
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=ask_often) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_who_leaves_before_the_answer_leaves_nothing_behind(unix):
    for _ in range(50):
        with unix.connect() as client:
            client.send(b"GET /v1/policy HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    for _ in range(50):
        with unix.connect() as client:
            client.send(b"POST /v1/limits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Content-Length: 100\r\n\r\n{")
    assert unix.ask("GET", "/healthz").status == 200


# --- beginning and end ---

def test_a_proxy_that_drains_is_alive_and_not_ready(start, start_upstream, tmp_path):
    may_answer = threading.Event()

    def behave(peer, _):
        may_answer.wait(TIMEOUT_S)
        peer.send(OK)

    upstream = start_upstream(behave)
    proxy = start(f"""
        admin: "unix:{tmp_path}/admin.sock"
        upstream: {upstream.url}
        """)
    unix = Admin(addresses(proxy)[0])
    held = proxy.connect()
    held.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    proxy.signal()
    until(lambda: "draining" in proxy.stderr(), "the drain")
    until(lambda: unix.ask("GET", "/readyz").status == 503, "unready")
    assert unix.read("/readyz", 503)["status"] == "draining"
    assert unix.read("/healthz")["status"] == "alive"
    assert "about to stop" in is_problem(unix.ask("POST", "/v1/reload", [JSON], b""), 503)
    may_answer.set()
    held.read()
    assert proxy.wait() == 0
    assert not os.path.exists(f"{tmp_path}/admin.sock")


def test_a_socket_that_was_left_behind_is_replaced(start, tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{tmp_path}/admin.sock")
    left.close()
    proxy = start(f'admin: "unix:{tmp_path}/admin.sock"\nroutes: [{{respond: {{status: 204}}}}]\n')
    assert Admin(addresses(proxy)[0]).read("/healthz")["status"] == "alive"


def test_an_address_that_is_taken_is_told_and_nothing_is_served(proxy, places, tmp_path):
    for place, where in ((f"unix:{places[0]}", "socket"), (f"127.0.0.1:{places[1][1]}", "port")):
        policy = tmp_path / f"{where}.yaml"
        policy.write_text(f'listen: 127.0.0.1:0\nadmin: "{place}"\n'
                          "routes: [{respond: {status: 204}}]\n")
        result = program.command("run", str(policy))
        assert result.returncode == 1
        assert 'msg="cannot listen"' in result.stderr and "name another address" in result.stderr
    assert Admin(places[0]).read("/healthz")["workers"] == 2 and proxy.is_running()


def test_a_token_is_taken_from_its_file(start, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    proxy = start(f"""
        admin: {{listen: 127.0.0.1:0, token_file: "{tmp_path}/token"}}
        routes: [{{respond: {{status: 204}}}}]
        """)
    tcp = Admin(addresses(proxy)[0])
    assert tcp.ask("DELETE", "/", [bearer()]).status == 405
    assert tcp.ask("DELETE", "/", [bearer(READ_TOKEN)]).status == 401


def test_redis_that_is_away_is_told_and_makes_nobody_unready(start, start_redis, tmp_path):
    redis = start_redis()
    proxy = start(f"""
        workers: 1
        admin: "unix:{tmp_path}/admin.sock"
        store: {{redis: "{redis.url}", on_failure: local, deadline: 10s}}
        limits: {{a: {{key: client.ip, rate: 5/hour}}}}
        routes: [{{limits: [a], respond: {{status: 204}}}}]
        """)
    unix = Admin(addresses(proxy)[0])
    path = "/v1/limits/a/keys/127.0.0.1"
    until(lambda: 'msg="link up"' in proxy.stderr(), "the worker's link to Redis")
    until(lambda: unix.read("/readyz")["store"]["state"] == "ok", "Redis to be there")
    assert proxy.ask().status == 204
    until(lambda: unix.read(path)["source"] == "redis", "the admin's link to Redis")
    assert unix.read(path)["rates"][0]["remaining"] == 4
    redis.stop()
    until(lambda: unix.read("/readyz")["store"]["state"] == "away", "the loss to be told")
    assert unix.read("/readyz")["reasons"] == ["redis, away: local decisions"]
    assert unix.read(path)["source"] == "local"



def readiness_while_breakers_open(start, relay, folder, limits, on_failure):
    """A proxy whose Redis is connected and answers no script, when all breakers are open."""
    proxy = start(f"""
        workers: 2
        admin: "unix:{folder}/admin.sock"
        store: {{redis: "{relay.url}", on_failure: {on_failure}, deadline: 50ms}}
        limits: {limits}
        routes:
          - {{match: {{path: /a}}, limits: [a], respond: {{status: 204}}}}
          - {{match: {{path: /b}}, limits: [b], respond: {{status: 204}}}}
          - {{limits: [], respond: {{status: 404}}}}
        """)
    admin = Admin(addresses(proxy)[0])
    until(lambda: admin.ask("GET", "/readyz").json()["status"] == "ready", "Redis")
    relay.reply = b"-BUSY Redis is busy running a script.\r\n"

    def is_away():
        proxy.ask(path="/a")
        told = admin.ask("GET", "/readyz").json()
        return told if told["store"]["state"] == "away" else None

    return proxy, admin, until(is_away, "all breakers to be open")


BOTH = "{a: {key: client.ip, rate: 1000/s}, b: {key: client.ip, rate: 1000/s}}"
MIXED = ("{a: {key: client.ip, rate: 1000/s, on_failure: allow}, "
         "b: {key: client.ip, rate: 1000/s, on_failure: deny}}")


@pytest.fixture(name="relay")
def relay_to_redis(start_redis):
    relay = Relay(start_redis())
    yield relay
    relay.stop()


@pytest.mark.parametrize("limits, on_failure, status, words, reason", [
    (BOTH, "local", 200, "degraded", "redis, away: local decisions"),
    (BOTH, "allow", 200, "degraded", "redis, away: no limit holds"),
    (BOTH, "deny", 503, "unready", "redis, away: denied with 503"),
    (MIXED, "local", 200, "degraded",
     "redis, away: no limit holds (1 of 2 limits), denied with 503 (1 of 2 limits)")])
def test_open_breakers_are_told_and_what_becomes_of_requests(
        start, relay, tmp_path, limits, on_failure, status, words, reason):
    proxy, admin, told = readiness_while_breakers_open(start, relay, tmp_path, limits, on_failure)
    answer = admin.ask("GET", "/readyz")
    assert answer.status == status
    assert (told["status"], told["reasons"]) == (words, [reason])
    assert told["store"] == {"kind": "redis", "state": "away", "links": 2, "links_working": 0}
    ready = ctl(addresses(proxy)[0], "ready")
    assert ready.stdout == f"{words}: {reason}\n" and ready.returncode == (0 if status == 200 else 1)
    assert f"{words}: {reason}\n" in ctl(addresses(proxy)[0], "status").stdout
    file = str(proxy.folder / "policy.yaml")
    explained = program.command("explain", file, "GET", "/a", "--live")
    assert f"\nproxy      {reason}\n" in explained.stdout
    relay.reply = None

    def is_well():
        proxy.ask(path="/a")
        return admin.ask("GET", "/readyz").json()["status"] == "ready"

    until(is_well, "the breakers to close")


def test_readiness_names_upstreams_of_which_no_server_is_up(start, start_upstream):
    upstream = start_upstream(lambda peer, _: peer.close())
    proxy = start(f"""
        admin: 127.0.0.1:0
        upstreams: {{api: {{servers: "{upstream.url}", eject: 2, retries: 0}}}}
        routes: [{{upstream: api}}]
        """)
    assert [proxy.ask("POST", source=f"127.0.0.{n}").status for n in (2, 3)] == [502, 502]
    told = Admin(addresses(proxy)[0]).read("/readyz")
    assert (told["status"], told["reasons"]) == ("degraded", ["upstream api: no server is up"])


# --- what changes something ---

def test_a_reset_makes_a_quota_whole(start_in_store, tmp_path):
    proxy = start_in_store(f"""
        admin: "unix:{tmp_path}/admin.sock"
        limits:
          a: {{key: client.ip, rate: [3/hour, 4/day]}}
        routes: [{{limits: [a], respond: {{status: 204}}}}]
        """)
    unix = Admin(addresses(proxy)[0])
    assert [proxy.ask().status for _ in range(4)] == [204, 204, 204, 429]
    path = "/v1/limits/a/keys/127.0.0.1"
    until(lambda: unix.read(path)["source"] in ("memory", "redis"), "the admin's link")
    assert unix.read(path)["allowed"] is False
    done = unix.change("DELETE", path)
    assert done["reset"] is True and done["key"] == "client.ip=127.0.0.1"
    assert [rate["remaining"] for rate in unix.read(path)["rates"]] == [3, 4]
    seen = []
    until(lambda: seen.append(proxy.ask().status) or seen.count(204) == 3, "workers to forget")
    assert proxy.ask().status == 429
    line = audit(proxy, 1)[0]
    assert "msg=changed by=socket" in line and "path=/v1/limits/a/keys/{key} status=200" in line
    assert 'outcome="reset client.ip=127.0.0.1"' in line


def test_a_secret_in_a_key_is_in_no_log(start, tmp_path):
    proxy = start(f"""
        admin: "unix:{tmp_path}/admin.sock"
        limits: {{a: {{key: header.x-api-key, rate: 3/hour}}}}
        routes: [{{limits: [a], respond: {{status: 204}}}}]
        """)
    unix = Admin(addresses(proxy)[0])
    told = unix.change("DELETE", "/v1/limits/a/keys/header.x-api-key=hushhush")
    assert told["key"] == "header#" + told["key"].removeprefix("header#")
    unix.change("DELETE", "/v1/limits/a/keys/hushhush", status=400)
    key = "/v1/limits/a/keys/header.x-api-key=hushhush"
    assert unix.ask("PUT", key, [JSON], b"{}").status == 405
    for path in (key + "/bann", key.replace("keys", "key"), key + "%00", key + "%0"):
        assert unix.ask("DELETE", path).status in (400, 404), path
    assert unix.ask("DELETE", key, [bearer("wrong" * 8)]).status == 401
    assert len(audit(proxy, 8)) == 8 and "hushhush" not in proxy.stderr()


def test_a_reset_without_redis_says_what_it_could_not_reach(start, start_redis, tmp_path):
    redis = start_redis()
    proxy = start(f"""
        admin: "unix:{tmp_path}/admin.sock"
        store: {{redis: "{redis.url}", on_failure: local}}
        limits: {{a: {{key: client.ip, rate: 5/minute}}}}
        routes: [{{limits: [a], respond: {{status: 204}}}}]
        """)
    unix = Admin(addresses(proxy)[0])
    redis.stop()
    path = "/v1/limits/a/keys/127.0.0.1"
    assert "shared store does not answer" in is_problem(unix.ask("DELETE", path), 503)
    assert "msg=\"not changed\"" in audit(proxy, 1)[0]
