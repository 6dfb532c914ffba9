"""A request by HTTP/2 that gives way to one of another client: what it costs, and how it is named."""

import contextlib
import re
import socket
import threading

import pytest

from harness.http2 import Http2Client
from harness.reload import reload
from harness.upstream import answer
from harness.wait import until

FAULT = "too many requests: it gave way to one of another client"
VICTIM = "127.0.0.2"
LISTEN = "{address: 127.0.0.1:0, http: [2, 1.1]}"


def policy(upstream, limit, top=""):
    return f"""
listen: {LISTEN}
workers: 1
max: {{http2_requests: 10}}
{top}
upstreams: {{api: {{servers: '{upstream}', buffer: off}}}}
limits: {{l: {{key: client.ip, rate: 100/day, {limit}}}}}
routes:
  - {{match: {{path: /look}}, limits: [l], respond: {{status: 401}}}}
  - {{limits: [l], upstream: api}}
"""


@pytest.fixture
def connect_from():
    with contextlib.ExitStack() as stack:
        def connect(proxy, source):
            sock = socket.create_connection(proxy.address, timeout=30, source_address=(source, 0))
            return stack.enter_context(Http2Client(None, sock=sock))

        yield connect


def fill(proxy, connect_from, **request):
    """The victim has two of ten requests, and no other client has more. Returns its connection and streams."""
    victim = connect_from(proxy, VICTIM)
    streams = [victim.begin(**request) for _ in range(2)]
    victim.pong()
    for i, n in enumerate((2, 2, 1, 1, 1, 1)):
        other = connect_from(proxy, f"127.0.0.{i + 3}")
        for _ in range(n):
            other.begin()
        other.pong()
    return victim, streams


def evict(proxy, connect_from, victim, streams):
    """One of two streams gives way. Returns the other."""
    newcomer = connect_from(proxy, "127.0.0.9")
    newcomer.begin()
    newcomer.pong()
    victim.read_until(lambda: any(victim.answer_of(stream).reset for stream in streams))
    resets = {victim.answer_of(stream).reset: stream for stream in streams}
    assert set(resets) == {"ENHANCE_YOUR_CALM", None}
    return resets[None]


def look(proxy):
    return proxy.ask(path="/look", source=VICTIM)


def taken(proxy):
    """Units of the victim, without those of the question."""
    return 99 - int(re.search(r'"l";r=(\d+)', look(proxy).get("RateLimit"))[1])


HEAD_OF_200 = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"
HEAD_OF_401 = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nx"
HEAD_OF_503 = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nx"


@pytest.mark.parametrize("beginning, limit, n", [
    (b"", "charge_on: [401]", 2),
    (b"", "refund_on: [server_failed, 5xx, 2xx]", 2),
    (HEAD_OF_200, "charge_on: [401]", 1),
    (HEAD_OF_401, "charge_on: [401]", 2),
    (HEAD_OF_503, "refund_on: [server_failed, 5xx]", 2),
    (HEAD_OF_503, "refund_on: [503]", 1),
])
def test_it_stays_charged_unless_the_head_that_its_server_sent_says_otherwise(
        start, start_upstream, connect_from, beginning, limit, n):
    upstream = start_upstream(lambda peer, _: (peer.send(beginning), peer.hang()))
    proxy = start(policy(upstream.url, limit))
    victim, streams = fill(proxy, connect_from)
    if beginning:
        for stream in streams:
            victim.read_until(lambda stream=stream: victim.answer_of(stream).body)
    evict(proxy, connect_from, victim, streams)
    (line,) = proxy.log_lines(1)
    assert line["fault"] == FAULT and line["verdict"] == "allowed"
    assert taken(proxy) == n


def test_a_call_stays_charged_though_its_head_tells_no_status(start, start_http2_server, connect_from):
    grpc = ("content-type", "application/grpc")
    server = start_http2_server(lambda peer, request: peer.head(request.stream, fields=[grpc]))
    proxy = start(policy(server.url, "charge_on: [401]"))
    call = [grpc, ("te", "trailers")]
    victim, streams = fill(proxy, connect_from, method="POST", more=call)
    for stream in streams:
        victim.read_until(lambda stream=stream: victim.answer_of(stream).heads)
    evict(proxy, connect_from, victim, streams)
    assert taken(proxy) == 2


def test_its_slots_are_kept_while_its_server_works_on(start, start_upstream, connect_from):
    may_end = threading.Event()
    upstream = start_upstream(lambda peer, _: (may_end.wait(30), peer.send(answer())))
    proxy = start(policy(upstream.url, "algorithm: concurrency").replace("100/day", "2"))
    victim, streams = fill(proxy, connect_from)
    upstream.wait_for(10)
    evict(proxy, connect_from, victim, streams)
    for _ in range(5):
        assert look(proxy).status == 429
    may_end.set()
    until(lambda: look(proxy).status == 401, "the slots")


def test_it_is_no_offence_of_its_client(start, start_upstream, connect_from):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(policy(upstream.url, "charge_on: [client_left], ban: {after: 1/minute, for: 1h}"))
    victim, streams = fill(proxy, connect_from)
    other = evict(proxy, connect_from, victim, streams)
    proxy.log_lines(1)
    assert look(proxy).status == 401
    victim.reset(other)
    until(lambda: look(proxy).status == 429, "a ban of a client that leaves")


def test_it_has_a_status_of_its_own_in_the_combined_format(start, start_upstream, connect_from):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(policy(upstream.url, "charge_on: [401]", top="log: {format: combined}"))
    victim, streams = fill(proxy, connect_from)
    other = evict(proxy, connect_from, victim, streams)
    victim.reset(other)
    lines = until(lambda: (lines := [line for line in proxy.stdout().decode().splitlines() if line.startswith(VICTIM)])
                  and len(lines) == 2 and lines, "two lines")
    assert [line.split('" ')[1].split()[0] for line in lines] == ["444", "499"]


def test_a_client_that_has_become_a_trusted_proxy_gives_up_its_slots_and_goes_on(
        start, start_upstream, connect_from):
    may_end = threading.Event()
    upstream = start_upstream(lambda peer, _: (may_end.wait(30), peer.send(answer())))
    text = policy(upstream.url, "charge_on: [401]")
    proxy = start(text)
    victim, streams = fill(proxy, connect_from)
    reload(proxy, text.replace(f"listen: {LISTEN}", f"trusted_proxies: [{VICTIM}]"), LISTEN)
    newcomers = [connect_from(proxy, f"127.0.0.{i}") for i in range(20, 25)]
    for newcomer in newcomers:
        newcomer.begin()
        newcomer.pong()
    # One took a slot of the proxy, two those of the clients with two; then each has one.
    assert [newcomer.answer_of(1).reset for newcomer in newcomers] == [None] * 3 + ["REFUSED_STREAM"] * 2
    assert len(proxy.log_lines(2)) == 2
    streams += [victim.begin() for _ in range(3)]
    victim.pong()
    may_end.set()
    assert [victim.answer(stream).status for stream in streams] == [200] * 5
