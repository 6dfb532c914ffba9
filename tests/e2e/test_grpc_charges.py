"""What a gRPC call costs: its grpc-status counts as the status of HTTP that it stands for."""

import pytest

from harness import message
from harness.http2 import Http2Client
from harness.upstream import answer as plain_answer

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


def call(proxy, path="/s/m"):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path=path, **CALL)


def call_without_trailers(proxy, path="/s/m"):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path=path, method="POST", more=HEAD)


def call_as_text(proxy):
    with Http2Client(proxy.address) as client:
        client.ask(b"", path="/s/m", method="POST", more=[("te", "trailers")])


def by_http1(method="POST", kind="application/grpc"):
    def ask(proxy, path="/s/m"):
        fields = {"Accept": "application/grpc", "Content-Type": kind, "Content-Length": "0"}
        with proxy.send(message.request(method, path, fields)) as client:
            client.read(method)
    return ask


call_by_http1 = by_http1()


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


# --- of servers of HTTP/1.1 ---

def http1_trailers(*trailers):
    return (b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\n"
            + "".join(f"{line}\r\n" for line in trailers).encode() + b"\r\n")


def http1_in_trailers(status):
    return http1_trailers("Grpc-Message: no", f"Grpc-Status: {status}")


def http1_in_the_head(status):
    return plain_answer(fields=[("Content-Type", "application/grpc"), ("Grpc-Status", status)], body=b"")


def http1_as_nginx_does(status):
    return f"HTTP/1.1 204 No Content\r\nGrpc-Status: {status}\r\n\r\n".encode()


def which_limit(start, server, rules, how):
    """Each of the rules, and whether a limit that has it denies one of three calls."""
    limits = "".join(f"  l{n}: {{key: global, algorithm: fixed_window, rate: 2/day, {rule}}}\n"
                     for n, rule in enumerate(rules))
    routes = "".join(f"  - {{match: {{path: /{n}}}, upstream: u, limits: [l{n}]}}\n" for n in range(len(rules)))
    proxy = start(f"listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}\nlimits:\n{limits}"
                  f"upstreams: {{u: {{servers: '{server.url}'}}}}\nroutes:\n{routes}")
    limiting = {}
    for n, rule in enumerate(rules):
        for i in range(3):
            how(proxy, f"/{n}")
            lines = proxy.log_lines(3 * n + i + 1)
        limiting[rule] = [line["status"] == "429" for line in lines[-3:]] == [False, False, True]
    return limiting


def test_a_204_of_a_gateway_of_http1_has_its_status(start, start_upstream):
    for status, rules in (("14", {"charge_on: [2xx]": True}), ("16", {"charge_on: [401]": True}),
                          ("0", {"charge_on: [401]": False})):
        server = start_upstream(answer=http1_as_nginx_does(status))
        assert which_limit(start, server, rules, call_by_http1) == rules


@pytest.mark.parametrize("how", [call, call_by_http1], ids=["http2", "http1"])
def test_a_status_behind_many_trailers_of_http1_is_not_read(start, start_upstream, how):
    server = start_upstream(answer=http1_trailers(*(f"X-{n}: y" for n in range(64)), "Grpc-Status: 0"))
    rules = {"charge_on: [401]": True, "refund_on: [200]": True, "refund_on: [502]": False}
    assert which_limit(start, server, rules, how) == rules


@pytest.mark.parametrize("how", [call_without_trailers, call_by_http1], ids=["http2", "http1"])
@pytest.mark.parametrize("rule", ["charge_on: [401]", "refund_on: [server_failed, 200]"])
def test_a_status_behind_too_many_trailers_of_http1_is_charged(start, start_upstream, how, rule):
    server = start_upstream(answer=http1_trailers("Grpc-Message: " + "x" * 9000, "Grpc-Status: 0"))
    proxy = start(limited(server, rule))
    for n in range(3):
        try:
            how(proxy)
        except (AssertionError, OSError):
            pass  # it is cut
        proxy.log_lines(n + 1)
    assert len(server.requests) == 2


NO_STATUS = {"charge_on: [401]": True, "charge_on: [200]": True, "refund_on: [502]": True, "refund_on: [200]": True,
             "refund_on: [200, 502]": False}


@pytest.mark.parametrize("how", [by_http1("GET"), by_http1(kind="text/plain")], ids=["GET", "text"])
@pytest.mark.parametrize("answer, rules", [
    (http1_in_trailers("0"), {"charge_on: [401]": False, "charge_on: [200]": True, "refund_on: [200]": False}),
    (http1_in_trailers("16"), {"charge_on: [401]": True, "charge_on: [200]": True, "charge_on: [403]": False,
                               "refund_on: [401]": True, "refund_on: [200]": True, "refund_on: [200, 401]": False}),
    (http1_in_the_head("5"), {"charge_on: [404]": True, "charge_on: [200]": True, "charge_on: [403]": False,
                              "refund_on: [404]": True, "refund_on: [2xx]": True, "refund_on: [2xx, 4xx]": False}),
    (http1_trailers(), NO_STATUS)], ids=["0", "16", "5 in the head", "none"])
def test_what_was_no_call_is_charged_by_either_status(start, start_upstream, how, answer, rules):
    """Its client may have chosen the type of the answer: that must not choose its status."""
    assert which_limit(start, start_upstream(answer=answer), rules, how) == rules


def test_an_answer_to_head_has_no_trailers(start, start_upstream):
    server = start_upstream(answer=http1_trailers().partition(b"5\r\n")[0])
    assert which_limit(start, server, NO_STATUS, by_http1("HEAD")) == NO_STATUS


def test_a_304_stays_one(start, start_upstream):
    server = start_upstream(answer=b"HTTP/1.1 304 Not Modified\r\nContent-Type: application/grpc\r\n"
                            b"Grpc-Status: 0\r\n\r\n")
    rules = {"charge_on: [401]": False, "refund_on: [304]": False, "refund_on: [200]": True}
    assert which_limit(start, server, rules, by_http1("GET")) == rules


def test_who_guesses_by_calls_of_http1_is_banned(start, start_upstream):
    server = start_upstream(answer=http1_in_trailers("16"))
    proxy = start(limited(server, "charge_on: [401], ban: {after: 2/hour, for: 1h}").replace("2/day", "100/day")
                  .replace("key: global", "key: client.ip"))
    for n in range(3):
        call_by_http1(proxy)
        proxy.log_lines(n + 1)
    assert [line["status"] for line in proxy.log_lines(3)] == ["200", "200", "429"]
