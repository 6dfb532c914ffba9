"""A server of HTTP/2 that resets a stream may work on: its request keeps its slot for the time of an answer."""

import re

import pytest

from harness import message
from harness.http2 import Http2Client
from harness.wait import until

SLOTS = 2


def policy(*servers, response="2s", rest=""):
    urls = ", ".join(f"'{server.url}'" for server in servers)
    return f"""
listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
upstreams: {{api: {{servers: [{urls}], timeout: {{response: {response}}}{rest}}}}}
limits: {{slots: {{key: global, algorithm: concurrency, rate: {SLOTS}}}}}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [slots], upstream: api}}
"""


def free(proxy):
    response = proxy.ask(path="/look")
    return 0 if response.status == 429 else int(re.search(r';r=(\d+)', response.get("RateLimit"))[1]) + 1


def wait_for_free(proxy, n):
    until(lambda: free(proxy) == n, f"{n} free slots")


def resetting(code):
    return lambda peer, request: peer.reset(request.stream, code)


def never(peer, request):
    pass


@pytest.mark.parametrize("code", ["INTERNAL_ERROR", "PROTOCOL_ERROR", "CANCEL", "NO_ERROR"])
@pytest.mark.parametrize("begins", [False, True], ids=["before_the_head", "behind_the_head"])
@pytest.mark.parametrize("left", [False, True], ids=["stays", "left"])
def test_a_stream_that_its_server_resets_holds_the_slot_for_the_time_of_an_answer(
        start, start_http2_server, code, begins, left):
    """Go resets it for a trailer, or at its WriteTimeout, and lets the handler work."""
    server = start_http2_server(never)
    proxy = start(policy(server))
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work", method="POST")
        request = server.wait_for(1)
        if begins:
            request.peer.head(request.stream, 200)
            client.read_until(lambda: client.answer_of(stream).heads)
        if left:
            client.reset(stream)
            proxy.lines_of("/work", 1)
        request.peer.reset(request.stream, code)
        if left:
            request.peer.await_read()
        else:
            proxy.lines_of("/work", 1)
        assert free(proxy) == SLOTS - 1
        wait_for_free(proxy, SLOTS)


def test_who_has_streams_reset_has_no_more_requests_at_work_than_slots(start, start_http2_server):
    server = start_http2_server(resetting("PROTOCOL_ERROR"))
    proxy = start(policy(server))
    assert [proxy.ask("POST", "/work").status for _ in range(5)] == [502] * SLOTS + [429] * 3
    assert len(server.requests) == SLOTS
    wait_for_free(proxy, SLOTS)


def test_a_stream_that_its_server_resets_behind_a_whole_answer_holds_no_slot(start, start_http2_server):
    def on_head(peer, request):
        peer.answer(request.stream)
        peer.reset(request.stream, "NO_ERROR")

    proxy = start(policy(start_http2_server(never, on_head=on_head), response="1m", rest=", buffer: off"))
    with Http2Client(proxy.address) as client:
        assert client.answer(client.begin(path="/work", method="POST", ends=False)).status == 200
        wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("end", ["answer", "leave", "close"])
def test_a_reset_request_that_is_tried_again_holds_its_slot_unless_it_is_answered(
        start, start_http2_server, end):
    tried = []

    def behave(peer, request):
        tried.append(request)
        if len(tried) == 1:
            peer.reset(request.stream, "INTERNAL_ERROR")

    servers = [start_http2_server(behave) for _ in range(2)]
    proxy = start(policy(*servers, response="2s" if end == "close" else "1m"))
    with proxy.send(message.request("GET", "/work")) as client:
        until(lambda: len(tried) == 2, "the other server to be asked")
        request = tried[1]
        if end == "answer":
            request.peer.answer(request.stream)
            assert client.read().status == 200
        elif end == "leave":
            client.reset()
            proxy.lines_of("/work", 1)
            assert free(proxy) == SLOTS - 1
            request.peer.answer(request.stream)
        else:
            request.peer.close()
            assert client.read().status == 502
            assert free(proxy) == SLOTS - 1
        wait_for_free(proxy, SLOTS)


def test_a_reset_request_that_no_other_server_takes_holds_its_slot(start, start_http2_server):
    server = start_http2_server(resetting("INTERNAL_ERROR"))
    proxy = start(policy(server))
    assert [proxy.ask(path="/work").status for _ in range(5)] == [502] * SLOTS + [429] * 3
    assert len(server.requests) <= 2 * SLOTS  # what a kept connection lost is tried again on another
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("hold_slots", [False, True])
def test_a_stream_of_events_that_its_server_resets_holds_a_slot_only_if_the_policy_says_so(
        start, start_http2_server, hold_slots):
    """As one that its client leaves: clients read it again at once."""
    server = start_http2_server(never)
    proxy = start(policy(server, rest=", hold_slots: true") if hold_slots else policy(server, response="1m"))
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work")
        request = server.wait_for(1)
        request.peer.head(request.stream, fields=[("content-type", "text/event-stream")])
        client.read_until(lambda: client.answer_of(stream).heads)
        request.peer.reset(request.stream, "INTERNAL_ERROR")
        proxy.lines_of("/work", 1)
        if hold_slots:
            assert free(proxy) == SLOTS - 1
        wait_for_free(proxy, SLOTS)
