"""What a gRPC call costs: its grpc-status counts as the status of HTTP that it stands for."""

import pytest

from harness import message
from harness.http2 import Http2Client

HEAD = [("content-type", "application/grpc")]
CALL = {"method": "POST", "more": [*HEAD, ("te", "trailers")]}


def limited(server, rule):
    return ("listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
            f"limits: {{guesses: {{key: global, algorithm: fixed_window, rate: 2/day, {rule}}}}}\n"
            f"upstreams: {{u: {{servers: '{server.url}'}}}}\nroutes: [{{upstream: u, limits: [guesses]}}]\n")


def in_trailers(status):
    return lambda peer, request: peer.answer(request.stream, b"\0\0\0\0\0", fields=HEAD,
                                             trailers=[("grpc-status", status)])


def in_the_head(status):
    return lambda peer, request: peer.head(request.stream, fields=[*HEAD, ("grpc-status", status)], ends=True)


def as_nginx_does(status):
    return lambda peer, request: peer.head(request.stream, 204, [("grpc-status", status)], ends=True)


def without_a_status(_):
    return lambda peer, request: peer.answer(request.stream, b"\0\0\0\0\0", fields=HEAD)


def call(proxy):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path="/s/m", **CALL)


def call_without_trailers(proxy):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path="/s/m", method="POST", more=HEAD)


def call_as_text(proxy):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path="/s/m", method="POST", more=[("te", "trailers")])


def call_by_http1(proxy):
    with proxy.send(message.request("POST", "/s/m", {"Content-Type": "application/grpc", "Content-Length": "0"})) as client:
        client.read()


def is_limited(proxy, how=call):
    """Whether one of three calls is denied."""
    for n in range(3):
        how(proxy)
        proxy.log_lines(n + 1)
    statuses = sorted(line["status"] for line in proxy.log_lines(3))
    assert statuses[0] == statuses[1] != "429"
    return statuses[2] == "429"


@pytest.mark.parametrize("answer", [in_trailers, in_the_head])
@pytest.mark.parametrize("status, rule, charged", [
    ("16", "charge_on: [401, 403]", True), ("7", "charge_on: [401, 403]", True),
    ("0", "charge_on: [401, 403]", False), ("5", "charge_on: [401, 403]", False),
    ("14", "charge_on: [401, 403]", True), ("4", "charge_on: [2xx]", True),  # a gateway's, that lost another answer
    ("13", "refund_on: [5xx]", False), ("3", "refund_on: [5xx]", True), ("5", "refund_on: [404]", False),
    ("0", "refund_on: [2xx]", False), ("14", "refund_on: [5xx]", True), ("14", "refund_on: [503]", False)])
def test_its_status_decides_what_a_call_is_charged(start, start_http2_server, answer, status, rule, charged):
    server = start_http2_server(behave=answer(status))
    assert is_limited(start(limited(server, rule))) == charged


@pytest.mark.parametrize("answer", [in_trailers, in_the_head])
@pytest.mark.parametrize("how", [call_without_trailers, call_as_text, call_by_http1])
def test_a_call_that_would_not_see_its_status_is_charged_by_it(start, start_http2_server, answer, how):
    server = start_http2_server(behave=answer("16"))
    assert is_limited(start(limited(server, "charge_on: [401]")), how)


@pytest.mark.parametrize("answer, status", [(in_the_head, "8"), (as_nginx_does, "8"), (as_nginx_does, "14")])
def test_an_error_that_a_gateway_may_have_made_is_charged(start, start_http2_server, answer, status):
    """While the handler works on: of more than it takes of a body, or since it has lost the answer."""
    server = start_http2_server(behave=answer(status))
    assert is_limited(start(limited(server, "charge_on: [200]")))


@pytest.mark.parametrize("rule, charged", [
    ("charge_on: [401]", True), ("refund_on: [5xx]", True), ("refund_on: [200]", True), ("refund_on: [502]", False)])
def test_an_answer_without_a_status_is_charged(start, start_http2_server, rule, charged):
    """Trailers that are too long are lost, and a client may have a server repeat a long value in them."""
    server = start_http2_server(behave=without_a_status(None))
    assert is_limited(start(limited(server, rule))) == charged


@pytest.mark.parametrize("rule", ["charge_on: [401]", "refund_on: [server_failed]"])
def test_a_call_whose_trailers_are_refused_is_charged(start, start_http2_server, rule):
    server = start_http2_server(behave=lambda peer, request: peer.answer(
        request.stream, b"\0\0\0\0\0", fields=HEAD, trailers=[("grpc-message", "x" * 70_000), ("grpc-status", "16")]))
    proxy = start(limited(server, rule))
    for n in range(3):
        with Http2Client(proxy.address) as client:
            stream = client.begin(path="/s/m", ends=True, **CALL)
            client.read_until(lambda: client.answer_of(stream).is_ended or client.answer_of(stream).reset)
        proxy.log_lines(n + 1)
    assert [line["status"] for line in proxy.log_lines(3)].count("429") == 1


def serve_calls_by_http1(head, rest):
    return lambda peer, _: peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+json\r\n" + head + b"\r\n" + rest)


BY_HTTP1 = {
    "trailers": (b"Transfer-Encoding: chunked\r\n", b"5\r\n\0\0\0\0\0\r\n0\r\nGrpc-Status: 16\r\n\r\n"),
    "head": (b"Content-Length: 0\r\nGrpc-Status: 16\r\n", b""),
    "none": (b"Content-Length: 5\r\n", b"\0\0\0\0\0"),
}


@pytest.mark.parametrize("how", [call, call_as_text, call_by_http1])
@pytest.mark.parametrize("rule", ["charge_on: [401]", "refund_on: [200]"])
@pytest.mark.parametrize("answer", BY_HTTP1)
def test_a_server_of_http_1_1_tells_how_a_call_ended_too(start, start_upstream, answer, rule, how):
    server = start_upstream(serve_calls_by_http1(*BY_HTTP1[answer]))
    assert is_limited(start(limited(server, rule)), how)


def test_a_call_that_a_server_of_http_1_1_ends_well_is_given_back(start, start_upstream):
    head, rest = BY_HTTP1["trailers"]
    server = start_upstream(serve_calls_by_http1(head, rest.replace(b"16", b"0")))
    assert not is_limited(start(limited(server, "refund_on: [200]")), call_by_http1)


def test_who_guesses_by_calls_is_banned(start, start_http2_server):
    server = start_http2_server(behave=in_trailers("16"))
    proxy = start(limited(server, "charge_on: [401], ban: {after: 2/hour, for: 1h}").replace("2/day", "100/day")
                  .replace("key: global", "key: client.ip"))
    for n in range(3):
        call(proxy)
        proxy.log_lines(n + 1)
    assert sorted(line["status"] for line in proxy.log_lines(3)) == ["200", "200", "429"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [in_the_head("14"), in_the_head("8"), as_nginx_does("14")])
def test_an_error_without_its_cost_that_a_gateway_may_have_made_costs_the_most(start, start_http2_server, answer):
    server = start_http2_server(behave=answer)
    proxy = start("listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
                  "limits: {tokens: {key: global, algorithm: fixed_window, rate: 10/day}}\n"
                  f"upstreams: {{u: {{servers: '{server.url}'}}}}\n"
                  "routes: [{upstream: u, limits: [tokens], cost: {from: response.header.x-cost, estimate: 1, max: 5}}]\n")
    assert is_limited(proxy)
