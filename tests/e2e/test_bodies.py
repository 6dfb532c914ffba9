"""Bodies of any size, in both directions: whole or visibly not, and never gathered in memory."""

import hashlib
import os
import threading

import pytest

from harness import message
from harness.client import TIMEOUT_S
from harness.upstream import answer
from harness.wait import until

MIB = 1 << 20
LARGE = 64 * MIB
PIECE = os.urandom(MIB)
# ASan keeps freed memory aside; a body that is gathered would still be far above this.
GROWTH_BYTES_MAX = 24 * MIB


def sha(data):
    return hashlib.sha256(data).hexdigest()


LARGE_SHA = sha(PIECE * (LARGE // MIB))


def policy(upstream, more=""):
    return f"workers: 1\n{more}upstream: {upstream.url}\n"


def without_buffer(upstream):
    return (f'workers: 1\nupstreams: {{api: {{servers: "{upstream.url}", buffer: off}}}}\n'
            "routes: [{upstream: api}]\n")


def send_large(send, framing):
    """A body of LARGE bytes, framed."""
    for _ in range(LARGE // MIB):
        send(message.chunked(PIECE)[:-5] if framing == "chunked" else PIECE)
    if framing == "chunked":
        send(b"0\r\n\r\n")


def head_of(first_line, framing):
    field = b"Transfer-Encoding: chunked" if framing == "chunked" else b"Content-Length: %d" % LARGE
    return first_line + b"\r\nHost: a\r\n" + field + b"\r\n\r\n"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_64_mib_pass_up_and_down_byte_for_byte(start, start_upstream, framing):
    def behave(peer, request):
        peer.send(head_of(b"HTTP/1.1 200 OK", framing))
        send_large(peer.send, framing)
        assert sha(request.body) == LARGE_SHA

    upstream = start_upstream(behave)
    proxy = start(policy(upstream))
    before = proxy.memory_bytes()
    with proxy.send(head_of(b"POST / HTTP/1.1", framing)) as client:
        send_large(client.send, framing)
        assert sha(client.read().body) == LARGE_SHA
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX


def test_a_slow_reader_does_not_grow_the_proxy(start, start_upstream):
    sent = []

    def behave(peer, _):
        peer.send(head_of(b"HTTP/1.1 200 OK", "length"))
        for _ in range(LARGE // MIB):
            peer.send(PIECE)
            sent.append(MIB)

    proxy = start(policy(start_upstream(behave)))
    before = proxy.memory_bytes()
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        until(lambda: sent, "the upstream to send")
        stalls = 0
        while stalls < 20:  # the upstream's writes block: the kernel's buffers are full
            n = len(sent)
            client.is_quiet(0.02)
            threading.Event().wait(0.02)
            stalls = stalls + 1 if len(sent) == n else 0
        assert len(sent) < LARGE // MIB
        assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
        assert sha(client.read().body) == LARGE_SHA
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX


def test_a_slow_upstream_does_not_grow_the_proxy(start, start_upstream):
    may_read = threading.Event()

    def behave(peer, request):
        may_read.wait(30)
        assert sha(peer.read_body(request)) == LARGE_SHA
        peer.send(answer())

    proxy = start(policy(start_upstream(behave, reads_body=False)))
    before = proxy.memory_bytes()
    with proxy.send(head_of(b"POST / HTTP/1.1", "length")) as client:
        client.sock.settimeout(0.5)
        n_sent = 0
        body = PIECE * (LARGE // MIB)
        try:
            while n_sent < LARGE:
                n_sent += client.sock.send(body[n_sent:n_sent + MIB])
        except TimeoutError:
            pass  # the proxy does not read on: what we wanted to see
        assert n_sent < LARGE
        assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
        client.sock.settimeout(TIMEOUT_S)
        may_read.set()
        client.send(body[n_sent:])
        assert client.read().status == 200


# --- too large ---


def test_a_body_whose_length_is_too_large_is_413_before_anything_is_sent_on(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, "max: {body: 1KiB}\n"))
    assert proxy.ask("POST", body=b"x" * 1024).status == 200
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n") as client:
        response = client.read()
        assert response.status == 413 and response.get("Content-Type") == "application/problem+json"
        assert response.get("Connection") == "close" and client.has_ended()
    assert len(upstream.requests) == 1


def test_a_chunked_body_is_413_when_it_passes_the_maximum(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, "max: {body: 100KiB}\n"))
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with proxy.send(head + message.chunked(b"x" * 100 * 1024)) as client:
        assert client.read().status == 200
    with proxy.send(head) as client:
        client.send(b"%x\r\n" % (100 * 1024) + b"x" * 100 * 1024 + b"\r\n")
        client.send(b"1\r\nx\r\n")
        assert client.read().status == 413
        assert client.has_ended()
    until(lambda: upstream.cut_bodies, "the upstream's connection to be cut")
    assert len(upstream.requests) == 1


def test_a_route_may_have_its_own_maximum(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"""
        max: {{body: 10B}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes:
          - {{match: {{path: /big}}, max_body: 1KiB, upstream: api}}
          - {{upstream: api}}
    """)
    assert proxy.ask("PUT", "/big", body=b"x" * 1024).status == 200
    assert proxy.ask("PUT", "/", body=b"x" * 11).status == 413


# --- cut short ---


@pytest.mark.parametrize("bytes_sent", [
    b"Content-Length: 10\r\n\r\nhello",
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n9\r\nhello"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_rule_33_a_request_body_that_is_cut_short_is_never_whole_upstream(
        start, start_upstream, bytes_sent, how):
    upstream = start_upstream()
    proxy = start(without_buffer(upstream))
    client = proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + bytes_sent)
    until(lambda: upstream.open_peers(), "the proxy to connect")
    getattr(client, how)()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be cut")
    assert not upstream.requests
    line = proxy.log_lines(1)[0]
    assert line["status"] == "0" and line["fault"] == "the client left"


@pytest.mark.parametrize("cut", ["close", "reset"])
@pytest.mark.parametrize("response", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"])
def test_a_response_that_is_cut_short_never_looks_whole(start, start_upstream, response, cut):
    has_arrived = threading.Event()

    def behave(peer, _):
        peer.send(response)
        has_arrived.wait(10)
        getattr(peer, cut)()

    proxy = start(policy(start_upstream(behave)))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        client.reader.head()
        has_arrived.set()
        rest = client.reader.take_rest()
        assert b"hello" in rest and b"\r\n0\r\n" not in rest and not rest.startswith(b"0\r\n")
    line = proxy.log_lines(1)[0]
    assert line["status"] == "200" and "upstream" in line["fault"]


def test_a_response_body_that_breaks_the_rules_never_looks_whole(start, start_upstream):
    may_go_on = threading.Event()

    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        may_go_on.wait(10)
        peer.send(b"5\r\nhelloXX0\r\n\r\n")

    upstream = start_upstream(behave)
    proxy = start(policy(upstream))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        client.reader.head()
        may_go_on.set()
        assert client.reader.take_rest() == b"5\r\nhello\r\n"
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


def test_a_response_body_that_breaks_the_rules_before_anything_has_passed_is_502(
        start, start_upstream):
    upstream = start_upstream(
        answer=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n")
    assert start(policy(upstream)).ask().status == 502


def test_a_response_until_close_that_is_reset_never_looks_whole(start, start_upstream):
    has_arrived = threading.Event()

    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        has_arrived.wait(10)
        peer.reset()

    proxy = start(policy(start_upstream(behave)))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        client.reader.head()
        has_arrived.set()
        assert client.reader.take_rest() == b"5\r\nhello\r\n"


# --- answers before the end of the request ---


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_rule_60_an_early_answer_reaches_a_client_that_is_still_sending(
        start, start_upstream, framing):
    upstream = start_upstream(answer=answer("403 No", body=b"enough"), reads_body=False)
    proxy = start(policy(upstream))
    with proxy.send(head_of(b"POST / HTTP/1.1", framing)) as client:
        client.send(message.chunked(PIECE)[:-5] if framing == "chunked" else PIECE)
        response = client.read()
        assert (response.status, response.body) == (403, b"enough")
        assert response.get("Connection") == "close" and client.has_ended()
        client.send(PIECE)  # a client that has not looked yet is not reset at once


def test_rule_60_a_denied_upload_gets_its_429_while_it_is_still_sending(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, "limit: 1/day\n"))
    proxy.ask()
    with proxy.send(head_of(b"POST / HTTP/1.1", "length")) as client:
        for _ in range(8):
            client.send(PIECE)
        assert client.read().status == 429
        assert client.has_ended()
    assert len(upstream.requests) == 1


def test_a_small_body_of_a_denied_request_does_not_cost_the_connection(start, start_upstream):
    proxy = start(policy(start_upstream(), "limit: 1/day\n"))
    with proxy.connect() as client:
        assert [client.ask("POST", body=b"small").status for _ in range(3)] == [200, 429, 429]


def test_a_client_that_leaves_in_mid_response_frees_the_upstream(start, start_upstream):
    def behave(peer, _):
        peer.send(head_of(b"HTTP/1.1 200 OK", "length"))
        send_large(peer.send, "length")

    upstream = start_upstream(behave)
    proxy = start(policy(upstream))
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.reader.take(MIB, "the start of the body")
    client.reset()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")
    assert proxy.log_lines(1)[0]["fault"] == "the client left"
