"""grpcio as the client: calls that pass, calls that are denied, and what its retries make of a denial."""

import threading
import time

import grpc
import pytest

from harness.http2_server import Http2Server
from harness.upstream import answer
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
MESSAGE = b"\0\0\0\0\2hi"  # as it is framed
ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n"
          b"7\r\n" + MESSAGE + b"\r\n0\r\nGrpc-Status: 0\r\nX-Trailer: yes\r\n\r\n")
RETRIES = """{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.01s",
  "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}"""
KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


@pytest.fixture(name="channel_to")
def a_channel_to():
    channels = []

    def channel_to(proxy, retries=None):
        options = [("grpc.enable_retries", 1 if retries else 0), ("grpc.use_local_subchannel_pool", 1),
                   *([("grpc.service_config", retries)] if retries else [])]
        channels.append(grpc.insecure_channel(f"127.0.0.1:{proxy.port}", options=options))
        return channels[-1]

    yield channel_to
    for channel in channels:
        channel.close()


def call(channel, kind="unary_unary", timeout=30, metadata=()):
    """The answer of a call with one message, or the error."""
    sent = b"hi" if kind.startswith("unary") else iter([b"hi"])
    stub = getattr(channel, kind)("/pkg.Service/Method")
    try:
        got = stub(sent, timeout=timeout, metadata=metadata)
        return list(got) if kind.endswith("stream") else [got]
    except grpc.RpcError as error:
        return error


def limited(upstream, rate, more=""):
    return (f"{LISTEN}limits: {{calls: {{key: global, {rate}{more}}}}}\ndefaults: {{limits: [calls]}}\n"
            f"upstreams: {{u: {{servers: '{upstream.url}', buffer: off}}}}\n"
            "routes: [{match: {path: /pkg.Service/*, grpc: true}, upstream: u}]\n")


@pytest.mark.parametrize("kind", KINDS)
def test_calls_pass_with_metadata_and_trailers(start, start_upstream, channel_to, kind):
    upstream = start_upstream(answer=ANSWER)
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    assert call(channel_to(proxy), kind, metadata=[("x-meta", "a"), ("x-data-bin", b"\0\xff")]) == [b"hi"]
    assert upstream.last.get("x-meta") == "a" and upstream.last.get("x-data-bin") in ("AP8", "AP8=")
    assert upstream.last.get("TE") == "trailers" and upstream.last.body == MESSAGE
    assert proxy.log_lines(1)[0]["grpc"] == "0"


@pytest.mark.parametrize("settles", ["charge_on: [401]", "refund_on: [server_failed]"])
def test_a_client_that_falls_silent_in_a_call_is_charged(start, channel_to, settles):
    server = Http2Server(on_head=lambda peer, request: peer.head(
        request.stream, fields=[("content-type", "application/grpc")]))
    proxy = start(f"{LISTEN}timeouts: {{tunnel: 1s}}\n"
                  f"limits: {{calls: {{key: global, algorithm: fixed_window, rate: 2/day, {settles}}}}}\n"
                  f"upstreams: {{u: {{servers: '{server.url}'}}}}\n"
                  "routes: [{upstream: u, limits: [calls]}]\n")
    stub = channel_to(proxy).stream_stream("/pkg.Service/Method")
    is_over = threading.Event()

    def messages():
        yield b"hi"
        is_over.wait(20)

    try:
        for n in range(3):
            call = stub(messages(), timeout=20)
            until(lambda n=n: len(proxy.all_log_lines()) > n, "the call's end")
            call.cancel()
        assert [line["status"] for line in proxy.all_log_lines()] == ["200", "200", "429"]
    finally:
        is_over.set()
        server.stop()


@pytest.mark.parametrize("limit, more, is_told", [
    ("algorithm: concurrency, rate: 5", "", False),
    ("rate: 100/day", "cost: {from: response.header.x-cost, estimate: 1, max: 9}, ", False),
    ("rate: 100/day", "", True),
    ("algorithm: concurrency, rate: 5", "request: {set: {Grpc-Timeout: 5S}}, ", True),
])
def test_servers_are_not_told_a_deadline_by_which_a_call_would_seem_over(
        start, start_upstream, channel_to, limit, more, is_told):
    """gRPC's libraries answer then by themselves, in place of a handler that works on."""
    upstream = start_upstream(answer=ANSWER)
    proxy = start(f"{LISTEN}limits: {{calls: {{key: global, {limit}}}}}\n"
                  f"upstreams: {{u: {{servers: '{upstream.url}'}}}}\n"
                  f"routes: [{{upstream: u, {more}limits: [calls]}}]\n")
    assert call(channel_to(proxy), timeout=20, metadata=[("connect-timeout-ms", "20000")]) == [b"hi"]
    assert (upstream.last.get("grpc-timeout") is not None) == is_told
    assert (upstream.last.get("connect-timeout-ms") is not None) == (limit == "rate: 100/day" and not more)


@pytest.mark.parametrize("kind", KINDS)
def test_a_denied_call_has_status_8_and_an_exact_pushback(start, start_upstream, channel_to, kind):
    proxy = start(limited(start_upstream(answer=ANSWER), "algorithm: gcra, rate: 4/second, burst: 1"))
    channel = channel_to(proxy)
    assert call(channel, kind) == [b"hi"]
    for _ in range(3):
        error = call(channel, kind)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and error.details() == "Too Many Requests"
        wait_ms = int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"])
        assert 0 < wait_ms <= 250
        time.sleep(wait_ms / 1000)
        assert call(channel, kind) == [b"hi"]
    assert [line["grpc"] for line in proxy.log_lines(7)] == ["0"] + ["8", "0"] * 3


def test_retries_wait_as_long_as_they_are_told(start, start_upstream, channel_to):
    """Five attempts 10 ms apart are allowed to it: it makes one, at the right time."""
    proxy = start(limited(start_upstream(answer=ANSWER), "algorithm: gcra, rate: 2/second, burst: 1"))
    channel = channel_to(proxy, RETRIES)
    assert call(channel) == [b"hi"]
    assert call(channel) == [b"hi"]
    assert [line["grpc"] for line in proxy.log_lines(3)] == ["0", "8", "0"]


def test_retries_do_not_hammer(start, start_upstream, channel_to):
    """No call has the time to wait for an hour: each is one request."""
    upstream = start_upstream(answer=ANSWER)
    proxy = start(limited(upstream, "algorithm: gcra, rate: 1/hour, burst: 1"))
    channel = channel_to(proxy, RETRIES)
    assert call(channel) == [b"hi"]
    for _ in range(3):
        error = call(channel, timeout=1)
        assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert [line["grpc"] for line in proxy.log_lines(4)] == ["0", "8", "8", "8"]
    assert len(upstream.requests) == 1


def test_a_limit_may_call_it_unavailable(start, start_upstream, channel_to):
    proxy = start(limited(start_upstream(answer=ANSWER), "algorithm: gcra, rate: 1/hour, burst: 1",
                          ", deny: {grpc: unavailable}"))
    channel = channel_to(proxy)
    assert call(channel) == [b"hi"]
    assert call(channel).code() is grpc.StatusCode.UNAVAILABLE


def test_a_call_that_no_route_takes_is_unimplemented(start, start_upstream, channel_to):
    upstream = start_upstream()
    proxy = start(f"{LISTEN}upstreams: {{u: {{servers: '{upstream.url}'}}}}\n"
                  "routes: [{match: {path: /other}, upstream: u}]\n")
    assert call(channel_to(proxy)).code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("ends_by", ["deadline", "cancel"])
def test_a_call_that_ends_early_ends_at_its_server(start, start_upstream, channel_to, ends_by):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    pending = channel_to(proxy).unary_unary("/pkg.Service/Method").future(
        b"hi", timeout=0.3 if ends_by == "deadline" else 30)
    upstream.wait_for(1)
    if ends_by == "cancel":
        pending.cancel()
    else:
        assert pending.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: not upstream.open_peers(), "the upstream connection to end")
    line = proxy.log_lines(1)[0]
    assert (line["fault"], line["grpc"]) == ("the client left", "none")


def test_a_hundred_calls_at_a_time_keep_to_the_limit(start, start_upstream, channel_to):
    upstream = start_upstream(lambda peer, request: peer.send(ANSWER))
    proxy = start(limited(upstream, "algorithm: fixed_window, rate: 20/hour"))
    stub = channel_to(proxy).unary_unary("/pkg.Service/Method")
    pending = [stub.future(b"hi", timeout=30) for _ in range(100)]
    codes = [one.code() for one in pending]
    assert codes.count(grpc.StatusCode.OK) == 20 and codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 80


def test_a_server_that_is_away_is_unavailable(start, channel_to):
    proxy = start(f"{LISTEN}upstream: http://127.0.0.1:1")
    error = call(channel_to(proxy))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "grpc-retry-pushback-ms" not in dict(error.trailing_metadata())


def test_an_answer_that_is_no_grpc_is_an_error_of_the_client(start, start_upstream, channel_to):
    proxy = start(f"{LISTEN}upstream: {start_upstream(answer=answer(body=b'page')).url}")
    assert call(channel_to(proxy)).code() in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
