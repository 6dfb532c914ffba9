"""An answer that breaks off does not tell that its handler has ended, where the request was not sent whole, or the policy
says that handlers work on."""

import gzip
import re
import threading

import pytest

from harness import message
from harness.upstream import answer
from harness.wait import until

SLOTS = 2
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nrow\r\n"
EVENTS = HEAD.replace(b"\r\n", b"\r\nContent-Type: text/event-stream\r\n", 1)
FATAL = answer("500 Internal Server Error")
WINDOW = 65535
WAITING = message.request("POST", "/work", {"Content-Length": str(WINDOW + 1)}) + bytes(WINDOW + 1)
UPLOAD = message.request("POST", "/work", {"Transfer-Encoding": "chunked"}) + b"1\r\na\r\n"
GET = message.request("GET", "/work")


def policy(upstream, more="", limit="", rate="1000/day"):
    return f"""
upstreams: {{api: {{servers: "{upstream.url}", buffer: off, timeout: {{response: 4s}}{more}}}}}
limits:
  slots: {{key: global, algorithm: concurrency, rate: {SLOTS}, lease: 1h}}
  charged: {{key: global, algorithm: fixed_window, rate: {rate}{limit}}}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [slots, charged], upstream: api}}
"""


def free(proxy):
    response = proxy.ask(path="/look")
    return 0 if response.status == 429 else int(re.search(r';r=(\d+)', response.get("RateLimit"))[1]) + 1


def breaking(start_upstream, beginning):
    """A server whose answers break off when it has seen some of the request, as nginx does for a body that is too large."""
    def begin(peer, _):
        peer.send(beginning)
        peer.close()

    return start_upstream(begin, reads_body=False)


def ask(proxy, sent, n):
    with proxy.send(sent) as client:
        assert client.reader.head().startswith(b"HTTP/1.1 ")
        proxy.lines_of("/work", n)


@pytest.mark.parametrize("sent, beginning, more, holds", [
    (UPLOAD, HEAD, "", True), (GET, HEAD, "", False), (GET, EVENTS, "", False),
    (GET, HEAD, ", hold_slots: true", True), (GET, EVENTS, ", hold_slots: true", True),
    (GET, FATAL, "", False), (GET, FATAL, ", hold_slots: true", True),  # Apache's, of a program by FastCGI
], ids=["upload", "whole", "events", "held", "held_events", "500", "held_500"])
def test_what_breaks_off_may_hold_its_slot(start, start_upstream, sent, beginning, more, holds):
    proxy = start(policy(breaking(start_upstream, beginning), more))
    for n in range(SLOTS):
        ask(proxy, sent, n + 1)
        if holds:
            assert free(proxy) == SLOTS - 1 - n
    until(lambda: free(proxy) == SLOTS, "the slots to come back")


MATCH, RANGE = {"If-Match": '"zz"'}, {"Range": "bytes=99999-"}
FRESH = {"If-None-Match": '"v1"'}
CONDITIONS = [  # the request's fields, the answer, and whether the slot is held by default, and with hold_slots
    (MATCH, "412 Precondition Failed", True, True), (RANGE, "416 Range Not Satisfiable", True, True),
    (FRESH, "304 Not Modified", False, True), (RANGE, "206 Partial Content", False, True),
    ({}, "412 Precondition Failed", False, False), ({}, "304 Not Modified", False, False),
    (MATCH, "200 OK", False, False),
    ({}, "408 Request Timeout", True, True), ({}, "400 Bad Request", False, False),  # the server's own time limit
]


@pytest.mark.parametrize("hold", [False, True], ids=["default", "hold_slots"])
@pytest.mark.parametrize("fields, line, by_default, with_hold", CONDITIONS)
def test_an_answer_that_is_not_of_the_handler_holds_its_slot(
        start, start_upstream, fields, line, by_default, with_hold, hold):
    upstream = start_upstream(answer=answer(line))
    proxy = start(policy(upstream, ", hold_slots: true" if hold else ""))
    assert proxy.ask(path="/work", fields=fields).status == int(line[:3])
    assert free(proxy) == SLOTS - (with_hold if hold else by_default)
    until(lambda: free(proxy) == SLOTS, "the slots to come back")


CSV = b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n"
EMPTY, UNTIL_CLOSE = CSV + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", CSV + b"Connection: close\r\n\r\n"
NO_LENGTH = CSV + b"Content-Length: 0\r\n\r\n"  # as Rack::ContentLength says it
PACKED = CSV + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"")  # as Rack::Deflater does
HOLD = ", hold_slots: true"
MADE_HEAD = [  # the method, the answer, the upstream's more, and whether the slot is held
    ("POST", EMPTY, HOLD, True), ("POST", UNTIL_CLOSE, HOLD, True), ("POST", EMPTY, "", False),
    ("POST", EMPTY.replace(b"0\r", b"1\r\na\r\n0\r"), HOLD, False), ("GET", EMPTY, HOLD, False),
    ("POST", EMPTY.replace(b"Content-Type", b"X-Type"), HOLD, False),
    ("POST", NO_LENGTH, HOLD, True), ("HEAD", NO_LENGTH, HOLD, True), ("HEAD", NO_LENGTH, "", False),
    ("POST", NO_LENGTH.replace(b"0\r", b"1\r") + b"x", HOLD, False),
    ("POST", PACKED, HOLD, True),
    ("POST", PACKED + b"x", HOLD, False),
    ("POST", EMPTY.replace(b"200 OK", b"422 No"), HOLD, False),
]


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
@pytest.mark.parametrize("method, sent, more, held", MADE_HEAD)
def test_a_post_that_the_server_makes_a_head_may_hold_its_slot(start, start_upstream, method, sent, more, held, leaves):
    """As Rack::MethodOverride does, and Rack::Head then ends the answer behind its head while Rails' Live works on."""
    may_answer = threading.Event()

    def behave(peer, _):
        assert may_answer.wait(10)
        peer.send(sent)
        if b"close" in sent:
            peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, more))
    with proxy.send(message.request(method, "/work", body=b"_method=head" if method == "POST" else b"")) as client:
        upstream.wait_for(1)
        if leaves:
            client.reset()
            proxy.lines_of("/work", 1)
        may_answer.set()
        if not leaves:
            client.read(method)
    if held:
        until(lambda: not upstream.open_peers(), "the server to have answered")
        assert free(proxy) == SLOTS - 1
    until(lambda: free(proxy) == SLOTS, "the slots to come back", 10 if held else 3)


def test_a_slot_stays_behind_a_head_whose_client_has_ended_many_connections(start, start_upstream):
    """There is a bound for connections that one client may have closed in order, and it does not give slots back."""
    may_end = threading.Event()

    def answer_early(peer, request):
        peer.send(CSV + b"Content-Length: 9\r\n\r\n" if request.method == "HEAD" else answer())
        if request.method == "HEAD":
            may_end.wait(60)  # its handler works on

    proxy = start(policy(start_upstream(answer_early, reads_body=False)))
    for _ in range(300):
        with proxy.send(message.request("POST", "/work", {"Content-Length": "9"}) + b"x") as client:
            assert client.read().status == 200
    until(lambda: free(proxy) == SLOTS, "the slots to come back")
    with proxy.send(message.request("HEAD", "/work", {"Content-Length": "9"}) + b"x") as client:
        assert client.read("HEAD").status == 200
    proxy.lines_of("/work", 301)
    assert free(proxy) == SLOTS - 1
    until(lambda: free(proxy) == SLOTS, "the slot to come back", 10)
    may_end.set()


@pytest.mark.parametrize("hold", [False, True], ids=["default", "hold_slots"])
def test_a_post_that_a_server_of_http2_makes_a_head_may_hold_its_slot(start, start_http2_server, hold):
    server = start_http2_server(
        lambda peer, request: peer.head(request.stream, fields=[("content-type", "text/csv")], ends=True))
    proxy = start(policy(server, ", hold_slots: true" if hold else ""))
    assert proxy.ask("POST", "/work").status == 200
    assert free(proxy) == SLOTS - hold
    until(lambda: free(proxy) == SLOTS, "the slots to come back")


@pytest.mark.parametrize("fields, line, n_more", [(MATCH, "412 No", 0), (FRESH, "304 Same", 0), ({}, "304 Same", 9)])
def test_an_answer_that_a_cache_may_have_made_costs_the_most(start, start_upstream, fields, line, n_more):
    cost = "upstream: api, cost: {from: response.header.x-cost, estimate: 1, max: 10}"
    proxy = start(policy(start_upstream(answer=answer(line)), rate="10/day").replace("upstream: api", cost))
    assert proxy.ask(path="/work", fields=fields).status == int(line[:3])
    until(lambda: free(proxy) == SLOTS, "the slots to come back")
    answers = [proxy.ask(path="/work").status for _ in range(10)]
    assert answers.count(429) == 10 - n_more


@pytest.mark.parametrize("limit", [", charge_on: [2xx]", ", refund_on: [4xx]"])
@pytest.mark.parametrize("fields, status, stays", [(MATCH, 412, True), ({}, 412, False), ({}, 408, True)])
def test_an_answer_that_is_not_of_the_handler_is_not_given_back(start, start_upstream, fields, status, stays, limit):
    proxy = start(policy(start_upstream(answer=answer(f"{status} No")), limit=limit, rate="1/day"))
    assert proxy.ask(path="/work", fields=fields).status == status
    until(lambda: free(proxy) == SLOTS, "the slots to come back")
    assert proxy.ask(path="/work").status == (429 if stays else status)


@pytest.mark.parametrize("sent, limit, charged", [
    (UPLOAD, ", refund_on: [server_failed]", True), (UPLOAD, ", charge_on: [401]", True),
    (GET, ", refund_on: [server_failed]", False), (GET, ", charge_on: [401]", False)])
def test_a_client_cannot_have_its_charge_back_by_a_body_that_is_refused(start, start_upstream, sent, limit, charged):
    proxy = start(policy(breaking(start_upstream, HEAD), limit=limit, rate="1/day"))
    ask(proxy, sent, 1)
    until(lambda: free(proxy) == SLOTS, "the slots to come back")
    with proxy.send(GET) as client:
        assert client.reader.head().startswith(b"HTTP/1.1 429" if charged else b"HTTP/1.1 200")


@pytest.mark.parametrize("status", [400, 200])
def test_what_the_server_does_not_take_was_not_sent(start, start_http2_server, status):
    """All of the body has come here, and its last byte waits for a window. The server answers 400, as those do that give a
    body up, or breaks off."""
    def on_data(peer, frame):
        if len(peer.requests[frame.stream_id].body) < WINDOW:
            return
        if status == 400:
            peer.answer(frame.stream_id, status=status)
        else:
            peer.head(frame.stream_id)
            peer.reset(frame.stream_id, "INTERNAL_ERROR")

    server = start_http2_server(settings={})
    server.on_data = on_data
    proxy = start(policy(server, limit=", charge_on: [401], refund_on: [server_failed]", rate="1/day"))
    ask(proxy, WAITING, 1)
    assert free(proxy) == SLOTS - 1
    until(lambda: free(proxy) == SLOTS, "the slot to come back")
    assert proxy.ask(path="/work").status == 429
