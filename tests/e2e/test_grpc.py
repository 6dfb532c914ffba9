"""gRPC in a policy, in the logs and in the tools: which calls a route takes, how limits deny them, what is told of them."""

import json
import re
import time

import pytest

from harness import program
from harness.admin import addresses
from harness.client import Client
from harness.ports import free_port
from harness.upstream import answer
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
CALL = {"method": "POST", "more": [("content-type", "application/grpc"), ("te", "trailers")]}
MESSAGE = b"\0\0\0\0\x05hello"
OF_GRPC = b"Content-Type: application/grpc\r\n"


def trailers(status):
    return (b"HTTP/1.1 200 OK\r\n" + OF_GRPC + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
            b"Grpc-Status: " + status + b"\r\n\r\n")


def test_a_route_takes_grpc_calls_alone_by_either_version(start, start_upstream, connect):
    calls, others = start_upstream(answer=answer(body=b"call")), start_upstream(answer=answer(body=b"other"))
    proxy = start(f"""{LISTEN}
upstreams: {{calls: {{servers: '{calls.url}'}}, others: {{servers: '{others.url}'}}}}
routes:
  - {{name: calls, match: {{path: /s/*, grpc: true}}, upstream: calls}}
  - {{name: others, match: {{path: /s/*}}, upstream: others}}
""")
    client = connect(proxy)
    assert client.ask(b"", path="/s/m", **CALL).body == b"call"
    assert client.ask(b"", path="/s/m", method="POST", more=[("content-type", "application/grpc-web")]).body == b"other"
    for kind, body in (("application/grpc+proto", b"call"), ("text/plain", b"other")):
        with proxy.send(f"POST /s/m HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n".encode()) as plain:
            assert plain.read().body == body
    two = client.ask(b"", path="/s/m", method="POST",
                     more=[("content-type", "application/grpc"), ("content-type", "text/plain")])
    assert two.status == 400  # servers disagree about which of them counts


@pytest.mark.parametrize("deny, status", [
    ("", "8"), (", deny: {grpc: resource_exhausted}", "8"), (", deny: {status: 403}", "8"),
    (", deny: {grpc: unavailable}", "14"), (", deny: {grpc: unavailable, status: 400, body: x}", "14")])
def test_a_limit_says_what_a_denied_call_gets(start, start_upstream, connect, deny, status):
    proxy = start(f"{LISTEN}limits: {{l: {{key: global, rate: 1/hour{deny}}}}}\ndefaults: {{limits: [l]}}\n"
                  f"upstreams: {{u: {{servers: '{start_upstream().url}'}}}}\nroutes: [{{upstream: u}}]\n")
    client = connect(proxy)
    assert client.ask(b"", **CALL).fields.get("grpc-status") is None
    denied = client.ask(b"", **CALL)
    assert (denied.status, denied.fields["grpc-status"]) == (200, status)
    assert int(denied.fields["grpc-retry-pushback-ms"]) > 3590000
    assert proxy.log_lines(2)[-1]["grpc"] == status


def test_a_limit_may_answer_calls_as_other_requests(start, start_upstream, connect):
    proxy = start(f"{LISTEN}limits: {{l: {{key: global, rate: 1/hour, deny: {{grpc: http}}}}}}\ndefaults: {{limits: [l]}}\n"
                  f"upstreams: {{u: {{servers: '{start_upstream().url}'}}}}\nroutes: [{{upstream: u}}]\n")
    client = connect(proxy)
    assert client.ask(b"", **CALL).status == 200
    denied = client.ask(b"", **CALL)
    assert denied.status == 429 and "grpc-status" not in denied.fields
    assert json.loads(denied.body)["status"] == 429  # the problem document stays
    assert proxy.log_lines(2)[-1]["grpc"] == "none"


def test_what_is_not_a_denial_has_no_pushback(start, start_upstream, connect):
    proxy = start(f"{LISTEN}limits: {{l: {{key: header.x, rate: 1/hour, missing: deny}}}}\ndefaults: {{limits: [l]}}\n"
                  f"upstreams: {{u: {{servers: '{start_upstream().url}'}}}}\nroutes: [{{upstream: u}}]\n")
    lacking = connect(proxy).ask(b"", **CALL)
    assert (lacking.fields["grpc-status"], "grpc-retry-pushback-ms" in lacking.fields) == ("7", False)


@pytest.mark.parametrize("sent, logged", [(b"0", "0"), (b"5", "5"), (b"16", "16"), (b"17", "2"), (b"x y", "2")])
def test_the_log_and_the_metrics_have_the_status_of_the_server(start, start_upstream, connect, sent, logged):
    proxy = start(f"{LISTEN}admin: {{listen: 127.0.0.1:0}}\nupstream: {start_upstream(answer=trailers(sent)).url}")
    answer_ = connect(proxy).ask(b"", **CALL)
    assert dict(answer_.trailers)["grpc-status"] == sent.decode()
    line = proxy.log_lines(1)[0]
    assert (line["version"], line["grpc"], line["status"]) == ("2", logged, "200")
    with Client(addresses(proxy)[0]) as admin:
        page = admin.ask("GET", "/metrics", [("Host", "127.0.0.1")]).body.decode()
    assert re.findall(r"^sluice_grpc_calls_total\{(.*)\} ([1-9]\d*)$", page, re.M) == [(f'status="{logged}"', "1")]


def test_an_answer_without_a_body_has_its_status_in_the_head(start, start_upstream, connect):
    reply = b"HTTP/1.1 200 OK\r\n" + OF_GRPC + b"Grpc-Status: 5\r\nContent-Length: 0\r\n\r\n"
    proxy = start(f"{LISTEN}upstream: {start_upstream(answer=reply).url}")
    assert connect(proxy).ask(b"", **CALL).fields["grpc-status"] == "5"
    assert proxy.log_lines(1)[0]["grpc"] == "5"


def test_a_call_that_its_client_resets_has_no_status(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    client.data(stream, b"", ends=True)
    upstream.wait_for(1)
    client.reset(stream)
    assert proxy.log_lines(1)[0]["grpc"] == "none"


# --- a server of HTTP/1.1 in a group that has others ---


def mixed(upstream, buffer):
    """A server that speaks HTTP/2 and is gone, and one of HTTP/1.1."""
    return (f"{LISTEN}upstreams: {{api: {{servers: ['h2c://127.0.0.1:{free_port()}', '{upstream.url}'], buffer: {buffer}}}}}\n"
            "routes: [{upstream: api}]\n")


def test_a_call_that_begins_holds_no_server_of_http_1_1(start, start_upstream, connect):
    upstream = start_upstream()
    client = connect(start(mixed(upstream, "{wait: 1m}")))
    stream = client.begin(ends=False, **CALL)
    client.data(stream, MESSAGE[:7])
    client.pong()
    time.sleep(0.2)
    assert upstream.n_connections == 0
    client.data(stream, MESSAGE[7:], ends=True)
    assert client.answer(stream).status == 200 and upstream.last.body == MESSAGE


def test_a_call_that_goes_on_slowly_frees_its_server_of_http_1_1(start, start_upstream, connect):
    upstream = start_upstream()
    proxy = start(mixed(upstream, "{size: 1KiB, wait: 300ms}"))
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    client.data(stream, b"x")
    assert client.answer(stream).fields["grpc-status"] == "14"
    assert proxy.log_lines(1)[0]["fault"] == "the request's body came too slowly for a server to wait for it"
    until(lambda: upstream.cut_bodies, "the server's connection to be cut")


# --- what a call may hold of a server of HTTP/2 ---

ANSWER = [("content-type", "application/grpc")]


def calls(server, buffer, top=""):
    return f"{LISTEN}{top}upstreams: {{api: {{servers: '{server.url}', buffer: {buffer}}}}}\nroutes: [{{upstream: api}}]\n"


def test_a_server_is_chosen_with_the_first_message(start, start_http2_server, connect):
    server = start_http2_server()
    proxy = start(calls(server, "{wait: 1m}").replace("[{upstream", "[{match: {grpc: true}, upstream"))
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    client.data(stream, MESSAGE[:-1])
    client.pong()
    time.sleep(0.2)
    assert not server.requests
    client.data(stream, MESSAGE[-1:])  # and no end: more may follow
    call = server.wait_for(1)
    until(lambda: call.body == MESSAGE, "the message at the server")
    time.sleep(1.5)
    client.data(stream, MESSAGE, ends=True)
    assert client.answer(stream).status == 200 and call.body == 2 * MESSAGE


def test_of_a_long_message_the_size_of_the_buffer_is_awaited(start, start_http2_server, connect):
    server = start_http2_server()
    client = connect(start(calls(server, "{size: 1KiB, wait: 1m}")))
    stream = client.begin(ends=False, **CALL)
    client.data(stream, b"\0\0\0\x20\0" + b"x" * 1024)
    server.wait_for(1)
    client.data(stream, b"x" * (0x2000 - 1024), ends=True)
    assert client.answer(stream).status == 200


def test_who_begins_a_message_ends_it(start, start_http2_server, connect):
    server = start_http2_server()
    proxy = start(calls(server, "{wait: 20ms}"))
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    client.data(stream, MESSAGE[:3])
    assert client.answer(stream).fields["grpc-status"] == "14"
    assert proxy.log_lines(1)[0]["fault"] == "the request's body came too slowly for a server to wait for it"
    until(lambda: server.last.reset == "CANCEL", "the server to be told")


def test_a_later_message_that_begins_ends_as_well(start, start_http2_server, connect):
    server = start_http2_server(on_head=lambda peer, request: peer.head(request.stream, fields=ANSWER))
    proxy = start(calls(server, "{wait: 20ms}"))
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    client.data(stream, MESSAGE + MESSAGE[:-1])
    assert client.answer(stream).reset
    assert proxy.log_lines(1)[0]["fault"] == "the request's body came too slowly for a server to wait for it"


def test_a_call_without_a_message_holds_a_server_for_a_moment(start, start_http2_server, connect):
    """A handler may wait for that message, in a thread of its own."""
    server = start_http2_server()
    proxy = start(calls(server, "{wait: 20ms}"))
    client = connect(proxy)
    stream = client.begin(ends=False, **CALL)
    began = time.monotonic()
    assert client.answer(stream).fields["grpc-status"] == "14" and time.monotonic() - began >= 1
    assert proxy.log_lines(1)[0]["fault"] == "the call's first message did not come in time"
    until(lambda: server.last.reset == "CANCEL", "the server to be told")


@pytest.mark.parametrize("buffer, n_answered", [("{wait: 20ms}", 1), ("off", 0), ("{wait: 20ms, min_upload: off}", 0)])
def test_a_call_without_a_message_lasts(start, start_http2_server, connect, buffer, n_answered):
    """Where its server speaks first, or the policy says so."""
    def on_head(peer, request):
        if n_answered:
            peer.head(request.stream, fields=ANSWER)
            peer.data(request.stream, MESSAGE)

    server = start_http2_server(on_head=on_head, behave=lambda peer, request: peer.data(request.stream, b"", ends=True)
                          if n_answered else peer.answer(request.stream))
    client = connect(start(calls(server, buffer)))
    stream = client.begin(ends=False, **CALL)
    server.wait_for(1)
    answer = client.answer_of(stream)
    client.read_until(lambda: len(answer.body) == n_answered * len(MESSAGE))
    time.sleep(2)
    client.data(stream, MESSAGE, ends=True)
    assert client.answer(stream).status == 200 and not answer.reset


def test_a_call_that_waits_for_its_first_message_gives_way(start, start_http2_server, connect):
    proxy = start(calls(start_http2_server(), "{wait: 1m}", "workers: 1\nmax: {connections: 16}\n"))
    held = [connect(proxy) for _ in range(16)]
    for client in held:
        client.begin(ends=False, **CALL)
        client.pong()
    time.sleep(1.5)
    with proxy.connect() as other:
        other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert other.read().status == 200


# --- the tools ---

POLICY = """
listen: [{address: 127.0.0.1:1, http: [2, 1.1]}]
upstreams: {api: {servers: [http://127.0.0.1:2]}}
limits:
  calls: {key: client.ip, algorithm: fixed_window, rate: 2/hour, deny: {grpc: unavailable, status: 503}}
routes:
  - {name: calls, match: {path: /s/*, grpc: true}, limits: [calls], upstream: api}
  - {name: closed, match: {path: /closed}, respond: {status: 403}}
  - {name: rest, match: {path: /**}, limits: [calls], upstream: api}
"""


@pytest.fixture(name="policy")
def a_policy(tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path / "policy.yaml"


def explain(policy, *arguments, code=0):
    result = program.command("explain", str(policy), *arguments)
    assert result.returncode == code, result
    return result.stdout or result.stderr


def test_explain_reads_a_request_by_http_2(policy):
    told = explain(policy, "POST", "/s/m", "--http2", "-H", "Content-Type: application/grpc")
    assert "request    POST /s/m, host localhost, by HTTP/2\n" in told and "1 calls  yes" in told
    other = explain(policy, "POST", "/s/m", "--http2")
    assert "1 calls   no: the field content-type is not that of gRPC" in other
    closed = explain(policy, "POST", "/closed", "--http2", "-H", "Content-Type: application/grpc", code=0)
    assert "answer     403, by the route itself; grpc-status: 7\n" in closed
    as_json = json.loads(explain(policy, "POST", "/closed", "--http2", "-H", "Content-Type: application/grpc", "--json"))
    assert (as_json["request"]["version"], as_json["answer"]["grpc_status"]) == ("2", 7)
    plain = json.loads(explain(policy, "POST", "/closed", "-H", "Content-Type: application/grpc", "--json"))
    assert plain["request"]["version"] == "1.1" and "grpc_status" not in plain["answer"]


@pytest.mark.parametrize("field, why", [("Connection: close", "Connection"), ("TE: gzip", "connection"),
                                        ("X: a\r\nb", "value"), ("Upgrade: h2c", "connection")])
def test_explain_tells_what_breaks_a_rule_of_http_2(policy, field, why):
    told = explain(policy, "GET", "/", "--http2", "-H", field, code=3)
    assert told.startswith("answer     none, as the stream is reset: ") and why.lower() in told.lower()
    as_json = json.loads(explain(policy, "GET", "/", "--http2", "-H", field, "--json", code=3))
    assert why.lower() in as_json["reset"].lower() and as_json["answer"] == {"passes": False, "status": None}


def test_explain_wants_a_listener_that_takes_http_2(tmp_path):
    (tmp_path / "policy.yaml").write_text("listen: 127.0.0.1:1\nupstream: http://127.0.0.1:2\n")
    assert "no listener of the policy takes HTTP/2" in explain(tmp_path / "policy.yaml", "GET", "/", "--http2", code=2)


def test_tests_of_a_policy_know_the_version_and_grpc(policy, tmp_path):
    (tmp_path / "tests.yaml").write_text("""
policy: policy.yaml
defaults: {headers: {Content-Type: application/grpc}}
tests:
  - name: a call by HTTP/2 is denied in words of gRPC
    steps:
      - {request: POST /s/m, version: 2, repeat: 2, expect: {verdict: allowed, route: calls}}
      - {request: POST /s/m, version: 2, expect: {verdict: denied, status: 503, grpc: 14}}
      - {request: POST /s/m, expect: {verdict: denied, status: 503}}
      - {request: POST /closed, version: 2, expect: {status: 403, grpc: 7}}
  - name: heads are read by the rules of the version
    steps:
      - {request: GET /, version: 2, headers: {Connection: close}, expect: {verdict: refused, status: 400}}
      - {request: GET /, headers: {Connection: close}, expect: allowed}
""")
    result = program.command("test", str(tmp_path / "tests.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    (tmp_path / "tests.yaml").write_text("""
policy: policy.yaml
defaults: {version: 2, headers: {Content-Type: application/grpc}}
tests: [{name: wrong, steps: [{request: POST /closed, expect: {grpc: 8}}, {request: GET /, version: 1.1, expect: {grpc: 8}}]}]
""")
    result = program.command("test", str(tmp_path / "tests.yaml"))
    assert result.returncode == 1
    assert re.search(r"grpc: +8.*7", result.stdout, re.S) and re.search(r"grpc: +8.*none", result.stdout, re.S), result.stdout


def test_replay_knows_calls_by_the_log_of_the_proxy(start, start_upstream, connect, tmp_path):
    upstream = start_upstream(answer=trailers(b"0"))
    text = POLICY.replace("127.0.0.1:1,", "127.0.0.1:0,").replace("http://127.0.0.1:2", upstream.url)
    proxy = start(text)
    client = connect(proxy)
    for _ in range(3):
        client.ask(b"", path="/s/m", **CALL)
    client.ask(path="/s/m")
    lines = proxy.log_lines(4)
    assert [line["route"] for line in lines] == ["calls"] * 3 + ["rest"]
    (tmp_path / "policy.yaml").write_text(text)
    (tmp_path / "access.log").write_text("".join(
        " ".join(f'{key}="{value}"' if " " in value else f"{key}={value}" for key, value in line.items()) + "\n"
        for line in lines))
    result = program.command("replay", "--json", str(tmp_path / "policy.yaml"), str(tmp_path / "access.log"))
    assert result.returncode == 0, result.stderr
    routes = {route["name"]: route for route in json.loads(result.stdout)["policy"]["routes"]}
    assert {name: route["requests"] for name, route in routes.items() if route["requests"]} == {"calls": 3, "rest": 1}


def test_replay_says_when_a_log_knows_no_calls(policy, tmp_path):
    (tmp_path / "access.log").write_text('192.0.2.1 - - [20/Nov/2026:23:58:22 +0000] "POST /s/m HTTP/2.0" 200 17 "-" "x"\n')
    result = program.command("replay", str(policy), str(tmp_path / "access.log"))
    assert 'route "calls" takes no request: it matches by grpc' in re.sub(r"\s+", " ", result.stdout), result.stdout


@pytest.mark.parametrize("http, shadow, code", [("[2, 1.1]", "false", 1), ("2", "false", 1), ("1.1", "false", 0),
                                                ("[2, 1.1]", "true", 0)])
def test_what_clients_of_http_2_left_is_not_given_back(tmp_path, http, shadow, code):
    (tmp_path / "policy.yaml").write_text(
        f"listen: {{address: 127.0.0.1:1, http: {http}}}\nupstreams: {{u: {{servers: 'http://127.0.0.1:2'}}}}\n"
        f"limits: {{l: {{key: client.ip, rate: 1/s, refund_on: [client_left], shadow: {shadow}}}}}\n"
        "routes: [{limits: [l], upstream: u}]\n")
    result = program.command("check", str(tmp_path / "policy.yaml"))
    assert result.returncode == code, result
    assert ("client_left lets clients of HTTP/2 go past the limit" in result.stderr) == bool(code)
