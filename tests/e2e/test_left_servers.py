"""A client that leaves does not run more requests at a server than its slots allow: each of them stays
taken until the server has answered, or is done with."""

import re
import threading
import time

import pytest
from hyperframe.frame import GoAwayFrame, PingFrame, SettingsFrame, WindowUpdateFrame

from harness import message
from harness.http2 import NAMES, Http2Client
from harness.http2_server import Http2Server
from harness.reload import reload
from harness.upstream import answer
from harness.wait import soon, until

ATTEMPTS = 30
SLOTS = 2


class Works:
    """A server that works on every request until the test lets it end, and does not look at whether the
    client is still there."""

    def __init__(self, beginning=b"", end=answer()):
        self.beginning = beginning
        self.end = end
        self.lets_end = threading.Event()
        self.lock = threading.Lock()
        self.n_running = 0
        self.most_running = 0

    def __call__(self, peer, request):
        with self.lock:
            self.n_running += 1
            self.most_running = max(self.most_running, self.n_running)
        try:
            peer.send(self.beginning)
            self.lets_end.wait(20)
        finally:
            with self.lock:
                self.n_running -= 1
        peer.send(self.end)


@pytest.fixture(name="works")
def works_that_end_with_the_test():
    made = []

    def make(*args, **how):
        made.append(Works(*args, **how))
        return made[-1]

    yield make
    for one in made:
        one.lets_end.set()


def policy(upstream, top="", response="1m", lease="1h", upstream_rest="", rest="", limits=""):
    return f"""{top}
upstreams: {{api: {{servers: "{upstream.url}", buffer: off, timeout: {{response: {response}}}{upstream_rest}}}}}
limits:
  slots: {{key: global, algorithm: concurrency, rate: {SLOTS}, lease: {lease}}}
  {limits}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [slots{rest}], upstream: api, max_body: 1KiB}}
"""


def free(proxy):
    response = proxy.ask(path="/look")
    return 0 if response.status == 429 else int(re.search(r';r=(\d+)', response.get("RateLimit"))[1]) + 1


def wait_for_free(proxy, n):
    until(lambda: free(proxy) == n, f"{n} free slots")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
A_PART = message.request("GET", "/work", {"Content-Length": "1"})
CHUNKED = message.request("POST", "/work", {"Transfer-Encoding": "chunked"}) + b"1\r\na\r\n"


def reset(client):
    client.reset()


def close_after_the_head(client):
    assert client.reader.head().startswith(b"HTTP/1.1 200")
    client.reset()


def break_the_framing(client):
    client.send(b"nonsense\r\n")
    assert client.read().status == 400


def send_too_much(client):
    client.send(b"800\r\n" + bytes(0x800) + b"\r\n0\r\n\r\n")
    assert client.read().status == 413


WAYS = {
    "reset": (message.request("GET", "/work"), reset, b"", answer()),
    "reset_in_the_answer": (message.request("GET", "/work"), close_after_the_head, HEAD, b"done"),
    "reset_in_the_body": (A_PART, reset, b"", answer()),
    "bad_body": (CHUNKED, break_the_framing, b"", answer()),
    "large_body": (CHUNKED, send_too_much, b"", answer()),
}


def attack(proxy, upstream, request_bytes, leave, n=ATTEMPTS):
    """Send the request and leave as soon as the server has it, again and again. How many it had."""
    for number in range(n):
        n_before = len(upstream.requests)
        client = proxy.send(request_bytes)
        until(lambda: len(upstream.requests) > n_before or not client.is_quiet(0), "a verdict")
        if len(upstream.requests) > n_before:
            leave(client)
        else:
            assert client.read(request_bytes.split()[0].decode()).status == 429
        client.close()
        proxy.lines_of("/work", number + 1)
    return len(upstream.requests)


@pytest.mark.parametrize("request_bytes, leave, beginning, end", WAYS.values(), ids=WAYS.keys())
def test_who_leaves_again_and_again_has_no_more_requests_at_work_than_slots(
        start_in_store, start_upstream, works, request_bytes, leave, beginning, end):
    server = works(beginning, end)
    upstream = start_upstream(server, reads_body=False)
    proxy = start_in_store(policy(upstream))
    assert attack(proxy, upstream, request_bytes, leave) == SLOTS
    assert server.most_running == SLOTS and free(proxy) == 0
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)
    assert proxy.ask(path="/later").status == 200
    lines = proxy.lines_of("/work", ATTEMPTS)
    assert [line["verdict"] for line in lines] == ["allowed"] * SLOTS + ["denied"] * (ATTEMPTS - SLOTS)


# --- when the slot comes back ---


@pytest.mark.parametrize("method, end", [
    ("GET", answer()),
    ("GET", answer("404 Not Found", body=b"")),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("GET", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
    ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: t\r\n\r\n"),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100000)),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(2000000)),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"),
], ids=["whole", "empty", "no_content", "head", "interim", "chunked", "long", "too_long", "events"])
def test_the_slot_comes_back_with_the_answer(start, start_upstream, works, method, end):
    """The server keeps the connection open, and the time that it has is longer than the test."""
    server = works(end=end)
    upstream = start_upstream(server)
    proxy = start(policy(upstream))
    client = proxy.send(message.request(method, "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    assert free(proxy) == SLOTS - 1
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)


REFUSED = {
    "garbage": b"this is not HTTP\r\n\r\n",
    "control_byte": b"HTTP/1.1 200 OK\r\nX-Name: \1\r\nContent-Length: 4\r\n\r\nrow\n",
    "large_head": b"HTTP/1.1 200 OK\r\nX-Name: " + b"x" * 100_000 + b"\r\nContent-Length: 4\r\n\r\n",
    "many_fields": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(300)) + b"\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "bad_chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nrow\n\r\nno chunk\r\n",
}
INTERIMS = {"interims": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 40}


def has_502_or_half(client):
    head = client.reader.head()
    assert head.startswith((b"HTTP/1.1 502", b"HTTP/1.1 200", b"HTTP/1.1 103")), head


@pytest.mark.parametrize("beginning", {**REFUSED, **INTERIMS}.values(), ids={**REFUSED, **INTERIMS}.keys())
def test_a_server_whose_answers_are_refused_has_no_more_requests_at_work_than_slots(
        start, start_upstream, works, beginning):
    """A client can have a server repeat what no answer may contain. The end of its connection tells of the end."""
    server = works(beginning, end=b"")
    upstream = start_upstream(lambda peer, request: (server(peer, request), peer.close()))
    proxy = start(policy(upstream))
    assert attack(proxy, upstream, message.request("GET", "/work"), has_502_or_half, n=6) == SLOTS
    assert server.most_running == SLOTS and free(proxy) == 0
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)
    assert [line["status"] for line in proxy.lines_of("/work", 6)][SLOTS:] == ["429"] * (6 - SLOTS)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_an_answer_that_would_be_refused_does_not_free_the_slot_of_a_client_that_left(
        start, start_upstream, refused):
    lets_answer, lets_end = threading.Event(), threading.Event()

    def work(peer, _):
        lets_answer.wait(20)
        peer.send(refused)
        lets_end.wait(20)
        peer.close()

    upstream = start_upstream(work)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    lets_answer.set()
    time.sleep(0.3)
    assert free(proxy) == SLOTS - 1
    lets_end.set()
    wait_for_free(proxy, SLOTS)


@pytest.mark.takes(20)
def test_the_slot_of_a_refused_answer_comes_back_after_the_time_of_an_answer(start, start_upstream, works):
    upstream = start_upstream(works(REFUSED["control_byte"]))
    proxy = start(policy(upstream, response="1s"))
    assert proxy.ask(path="/work").status == 502
    assert free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)
    until(lambda: not upstream.open_peers(), "the server to learn of it")


def test_a_refused_answer_of_a_cut_request_holds_the_slot_for_the_time_of_an_answer(start, start_upstream):
    """The server is told of the end of the body, and may close at that whatever its handler does."""
    def refuse(peer, _):
        peer.send(REFUSED["control_byte"])
        peer.hang()

    upstream = start_upstream(refuse, reads_body=False)
    proxy = start(policy(upstream, response="2s"))
    assert proxy.send(A_PART).read().status == 502
    until(lambda: not upstream.open_peers(), "the server to close")
    assert free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)


# --- HEAD: the answer has ended, and the handler streams what nobody gets ---


STREAMS = {
    "no_length": b"HTTP/1.1 200 OK\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
}


def read_head(client):
    assert client.read("HEAD").status == 200


def leave_behind_the_head(client):
    read_head(client)
    client.reset()


@pytest.mark.parametrize("leave", [read_head, reset, leave_behind_the_head])
@pytest.mark.parametrize("head", STREAMS.values(), ids=STREAMS.keys())
def test_heads_have_no_more_handlers_at_work_than_slots(start, start_upstream, works, head, leave):
    """The end of the connection tells of the handler's end, since the answer does not."""
    server = works(head, end=b"3\r\nrow\r\n")
    upstream = start_upstream(lambda peer, request: (server(peer, request), peer.close()))
    proxy = start(policy(upstream))
    assert attack(proxy, upstream, message.request("HEAD", "/work"), leave, n=6) == SLOTS
    assert server.most_running == SLOTS and free(proxy) == 0
    assert [request.get("Connection") for request in upstream.requests] == ["close"] * SLOTS
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)


def test_the_slot_of_a_head_comes_back_after_the_time_of_an_answer(start, start_upstream):
    upstream = start_upstream(answer=STREAMS["length"])  # it keeps its connections against the rules
    proxy = start(policy(upstream, response="1s"))
    assert proxy.ask("HEAD", "/work").status == 200
    assert free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)
    until(lambda: not upstream.open_peers(), "the server to learn of it")


@pytest.mark.parametrize("head, rest, connection", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", "close"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "", "close"),
    (b"HTTP/1.1 304 Not Modified\r\n\r\n", "", "close"),
    (STREAMS["no_length"], ", reuse_after_head: true", None),
], ids=["empty", "204", "304", "reuse_after_head"])
def test_a_head_that_nobody_streams_for_frees_its_slot_at_once(start, start_upstream, head, rest, connection):
    upstream = start_upstream(answer=head)
    proxy = start(policy(upstream, upstream_rest=rest))
    for _ in range(2 * SLOTS):
        proxy.ask("HEAD", "/work")
        wait_for_free(proxy, SLOTS)
    assert upstream.last.get("Connection") == connection
    if connection == "close":  # also where the server does not say that it closes
        assert len({request.connection for request in upstream.requests}) == len(upstream.requests), "none is kept"


def test_a_head_without_slots_does_not_have_its_connection_closed(start, start_upstream):
    upstream = start_upstream(answer=STREAMS["length"])
    proxy = start(f"upstreams: {{api: {{servers: '{upstream.url}'}}}}\nroutes: [{{upstream: api}}]\n")
    assert proxy.ask("HEAD", "/work").status == 200
    assert upstream.last.get("Connection") is None


@pytest.mark.parametrize("end_it", ["close", "reset"])
def test_the_slot_comes_back_when_the_server_closes(start, start_upstream, end_it):
    lets_end = threading.Event()

    def work(peer, _):
        lets_end.wait(20)
        getattr(peer, end_it)()

    upstream = start_upstream(work)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    assert free(proxy) == SLOTS - 1
    lets_end.set()
    wait_for_free(proxy, SLOTS)


def test_the_slot_comes_back_when_the_server_does_not_answer_in_time(start, start_upstream, works):
    upstream = start_upstream(works())
    proxy = start(policy(upstream, response="1s"))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    wait_for_free(proxy, SLOTS)


def test_an_answer_that_never_ends_holds_the_slot_for_no_longer_than_a_head(start, start_upstream):
    """It moves, and no timeout would ever pass if that counted."""
    def trickle(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.send(b"1\r\nx\r\n")
            threading.Event().wait(0.05)

    upstream = start_upstream(trickle)
    proxy = start(policy(upstream, response="1s"))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    wait_for_free(proxy, SLOTS)
    until(lambda: not upstream.open_peers(), "the server to learn of it")


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + bytes(1_500_000)


@pytest.mark.parametrize("beginning, leave", [
    (EVENTS, close_after_the_head), (EVENTS, reset), (LONG, close_after_the_head), (STREAMS["length"], read_head),
], ids=["events", "events_unseen", "long", "head"])
def test_an_upstream_may_say_that_its_handlers_work_on(start, start_upstream, works, beginning, leave):
    server = works(beginning)
    upstream = start_upstream(server)
    proxy = start(policy(upstream, response="2s", upstream_rest=", hold_slots: true"))
    sent = message.request("HEAD" if leave is read_head else "GET", "/work")
    assert attack(proxy, upstream, sent, leave, n=4) == SLOTS
    assert server.most_running == SLOTS and free(proxy) == 0
    wait_for_free(proxy, SLOTS)


def test_who_leaves_a_stream_of_events_frees_its_slot_at_once(start, start_upstream, works):
    upstream = start_upstream(works(EVENTS))
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/work"))
    assert client.reader.head().startswith(b"HTTP/1.1 200")
    client.reset()
    wait_for_free(proxy, SLOTS)


@pytest.mark.takes(5)
def test_a_server_that_works_longer_than_the_lease_keeps_the_slot(start_in_store, start_upstream, works):
    server = works()
    upstream = start_upstream(server)
    proxy = start_in_store(policy(upstream, lease="2s"))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert free(proxy) < SLOTS
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)


# --- what else depends on it ---


def test_what_the_client_is_owed_is_settled_once_and_when_it_leaves(
        start_in_store, start_upstream, works):
    server = works()
    upstream = start_upstream(server)
    left = "  - {match: {path: /left}, limits: [work], respond: {status: 500}}\n"
    proxy = start_in_store(policy(
        upstream, rest=", work", limits="work: {key: global, rate: 9/day, refund_on: [client_left, 2xx]}"
    ).replace("routes:\n", "routes:\n" + left))

    def taken_since(n):
        return n - int(re.search(r'"work";r=(\d+)', proxy.ask(path="/left").get("RateLimit"))[1])

    assert taken_since(9) == 1
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    (line,) = proxy.lines_of("/work", 1)
    assert line["fault"] == "the client left" and line["verdict"] == "allowed"
    taken = [1]

    def is_given_back():
        taken[0] += 1
        return taken_since(9) == taken[0]

    until(is_given_back, "what was taken")
    assert free(proxy) < SLOTS
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)
    assert taken_since(9) == taken[0] + 1, "nothing is given back twice"
    assert len(proxy.lines_of("/work", 1)) == 1


def test_a_server_without_room_stays_without_until_it_has_answered(start, start_upstream, works):
    server = works()
    upstream = start_upstream(server)
    proxy = start(policy(upstream, upstream_rest=", max_connections: 1, queue: 0"))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    assert proxy.ask(path="/full").status == 503
    server.lets_end.set()
    until(lambda: proxy.ask(path="/room").status == 200, "room")


def test_a_proxy_that_stops_does_not_wait_for_the_server(start_sharing, start_upstream, works):
    upstream = start_upstream(works())
    stopping, staying = start_sharing(policy(upstream)), start_sharing(policy(upstream))
    for number in range(SLOTS):
        client = stopping.send(message.request("GET", "/work"))
        upstream.wait_for(number + 1)
        client.reset()
    stopping.lines_of("/work", SLOTS)
    assert free(staying) == 0
    stopping.signal()
    assert stopping.wait() == 0
    assert "drain timed out" not in stopping.stderr()
    wait_for_free(staying, SLOTS)


def test_a_policy_that_is_over_gives_its_slots_back(start, start_upstream, works):
    server = works()
    upstream = start_upstream(server)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    proxy.lines_of("/work", 1)
    reload(proxy, policy(upstream, top="max: {head: 8KiB}"))
    assert free(proxy) == SLOTS - 1
    server.lets_end.set()
    wait_for_free(proxy, SLOTS)


def test_without_slots_the_server_learns_at_once_that_the_client_has_left(start, start_upstream):
    upstream = start_upstream(lambda peer, request: peer.hang())
    proxy = start(f"upstreams: {{api: {{servers: '{upstream.url}'}}}}\nroutes: [{{upstream: api}}]\n")
    client = proxy.send(message.request("GET", "/work"))
    upstream.wait_for(1)
    client.reset()
    until(lambda: not upstream.open_peers(), "the end of the connection")


# --- servers that speak HTTP/2 ---


CALL = b"\0\0\0\0\0"
GRPC = [("content-type", "application/grpc"), ("te", "trailers")]


@pytest.fixture(name="http2_server")
def start_http2_server():
    server = Http2Server(behave=lambda peer, request: None, on_head=lambda peer, request: None)
    yield server
    server.stop()
    assert not server.failures, server.failures


def policy2(server, **how):
    return policy(server, "listen: {address: 127.0.0.1:0, http: [2, 1.1]}", **how)


def reset_by_http1(proxy, server):
    n_before = len(server.requests)
    with proxy.send(message.request("GET", "/work")) as client:
        until(lambda: len(server.requests) > n_before or not client.is_quiet(0), "a verdict")
        is_allowed = len(server.requests) > n_before
        if is_allowed:
            client.reset()
    return is_allowed


def reset_by_http2(proxy, server, ends=True, **request):
    n_before = len(server.requests)
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work", ends=ends, **request)
        answer_ = client.answer_of(stream)
        until(lambda: len(server.requests) > n_before or answer_.heads or client.pong(), "a verdict")
        is_allowed = len(server.requests) > n_before
        if is_allowed:
            client.reset(stream)
            client.pong()
    return is_allowed


HTTP2_WAYS = {
    "http1": reset_by_http1,
    "http2": reset_by_http2,
    "in_the_body": lambda proxy, server: reset_by_http2(proxy, server, method="POST", ends=False),
    "grpc": lambda proxy, server: reset_by_http2(proxy, server, method="POST", more=GRPC),
    "grpc_in_the_body": lambda proxy, server: reset_by_http2(proxy, server, method="POST", ends=False, more=GRPC),
}


@pytest.mark.parametrize("leave", HTTP2_WAYS.values(), ids=HTTP2_WAYS.keys())
def test_a_server_of_http2_has_no_more_requests_at_work_than_slots_either(start, http2_server, leave):
    proxy = start(policy2(http2_server))
    allowed = [leave(proxy, http2_server) for _ in range(ATTEMPTS)]
    assert allowed == [True] * SLOTS + [False] * (ATTEMPTS - SLOTS)
    assert free(proxy) == 0
    for request in http2_server.requests:
        assert request.reset is None
        request.peer.answer(request.stream)
    wait_for_free(proxy, SLOTS)
    proxy.lines_of("/work", ATTEMPTS)


@pytest.mark.parametrize("end", ["head", "body", "refused", "goaway"])
def test_the_slot_comes_back_with_the_end_of_a_stream(start, http2_server, end):
    proxy = start(policy2(http2_server))
    assert reset_by_http1(proxy, http2_server)
    proxy.lines_of("/work", 1)
    assert free(proxy) == SLOTS - 1
    request = http2_server.last
    if end == "head":
        request.peer.head(request.stream, 204, ends=True)
    elif end == "body":
        request.peer.answer_in_time(request.stream, bytes(200_000))
    elif end == "refused":
        request.peer.reset(request.stream, "REFUSED_STREAM")
    else:
        request.peer.send(GoAwayFrame(0, last_stream_id=request.stream))
        request.peer.close()
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("left", [False, True], ids=["stays", "left"])
def test_the_slot_of_a_head_comes_back_with_the_end_of_its_stream(start, http2_server, left):
    proxy = start(policy2(http2_server))
    client = proxy.send(message.request("HEAD", "/work"))
    http2_server.wait_for(1)
    if left:
        client.reset()
        proxy.lines_of("/work", 1)
    request = http2_server.last
    request.peer.head(request.stream, 200)
    if left:
        request.peer.await_read()
    else:
        assert client.read("HEAD").status == 200
    assert free(proxy) == SLOTS - 1 and request.reset is None
    request.peer.data(request.stream, ends=True)
    wait_for_free(proxy, SLOTS)


HTTP2_REFUSED = {
    "control_byte": [("x-name", "\1")],
    "many_fields": [(f"x-{i}", "a") for i in range(300)],
}


@pytest.mark.parametrize("fields", HTTP2_REFUSED.values(), ids=HTTP2_REFUSED.keys())
@pytest.mark.parametrize("left", [False, True], ids=["stays", "left"])
def test_a_stream_whose_answer_is_refused_holds_the_slot_for_the_time_of_an_answer(start, http2_server, fields, left):
    proxy = start(policy2(http2_server, response="2s"))
    client = proxy.send(message.request("GET", "/work"))
    http2_server.wait_for(1)
    if left:
        client.reset()
        proxy.lines_of("/work", 1)
    request = http2_server.last
    request.peer.head(request.stream, 200, fields=fields)
    if left:
        request.peer.await_read()
    else:
        assert client.read().status == 502
    assert free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)


def end_connection(peer, code):
    if code is not None:
        peer.send(GoAwayFrame(0, last_stream_id=2**31 - 1, error_code=NAMES.index(code)))
    peer.close()


LONG = [("x-long", "x" * 5000)]


@pytest.mark.parametrize("code, more", [("ENHANCE_YOUR_CALM", LONG), ("INTERNAL_ERROR", []), (None, LONG)],
                         ids=["own", "shared", "silent"])
def test_who_ends_its_connection_has_no_more_requests_at_work_than_slots(start, http2_server, code, more):
    """nginx ends a connection for a field of 9000 bytes, and what it has passed on works on."""
    http2_server.on_head = lambda peer, request: request.path == "/kill" and end_connection(peer, code)
    proxy = start(policy2(http2_server, response="2s"))
    with Http2Client(proxy.address) as client:
        for _ in range(5):
            streams = [client.begin(path=path, method="POST", more=more) for path in ("/work", "/kill")]
            assert {client.answer(stream).status for stream in streams} <= {502, 429}
        assert len(http2_server.requests) == SLOTS
        wait_for_free(proxy, SLOTS)
        client.answer(client.begin(path="/kill", method="POST", more=more))
        assert len(http2_server.requests) == SLOTS + 1


@pytest.mark.parametrize("code", ["ENHANCE_YOUR_CALM", None])
def test_who_leaves_and_ends_its_connection_keeps_the_slot(start, http2_server, code):
    proxy = start(policy2(http2_server, response="3s"))
    assert reset_by_http1(proxy, http2_server)
    proxy.lines_of("/work", 1)
    n_before = proxy.n_descriptors()
    end_connection(http2_server.last.peer, code)
    until(lambda: proxy.n_descriptors() < n_before, "the end to be read")
    assert free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)


@pytest.mark.takes(5)
@pytest.mark.parametrize("side, end", [("upload", "reset"), ("upload", "close"), ("upload", "goaway"),
                                       ("download", "close")])
def test_the_slot_of_a_slow_client_comes_back_with_the_end_of_its_stream(start, http2_server, side, end):
    """Unless the client has ended its connection, or the server the stream: then it may work on."""
    response_s = 2 if end in ("close", "reset") else 1
    proxy = start(policy2(http2_server, response=f"{response_s}s"))
    with Http2Client(proxy.address, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10}) as client:
        if side == "upload":
            stream = client.begin(path="/work", method="POST", ends=False)
            client.data(stream, b"a")
        else:
            stream = client.begin(path="/work")
        request = http2_server.wait_for(1)
        if side == "download":
            request.peer.head(request.stream)
            request.peer.data(request.stream, bytes(200))
            client.read_until(lambda: len(client.answer_of(stream).body) == 10)
        time.sleep(response_s + 0.5)  # the client is waited for
        if end == "reset":
            request.peer.reset(request.stream, "INTERNAL_ERROR")
        elif end == "goaway":
            request.peer.send(GoAwayFrame(0, last_stream_id=request.stream))
        if end != "reset":
            request.peer.close()
        assert proxy.lines_of("/work", 1)[0]["fault"] == "the upstream closed the connection while the client was slow"
        assert free(proxy) == SLOTS - (end in ("close", "reset"))
        soon(lambda: free(proxy) == SLOTS, "the slot to come back", within=response_s + 0.2)


def test_an_answer_that_the_client_was_slow_to_take_is_read_to_its_end(start, http2_server):
    proxy = start(policy2(http2_server))
    client = Http2Client(proxy.address, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10})
    stream = client.begin(path="/work")
    http2_server.wait_for(1)
    request = http2_server.last
    request.peer.answer_in_time(request.stream, bytes(200_000))
    client.read_until(lambda: len(client.answer_of(stream).body) == 10)
    client.reset(stream)
    wait_for_free(proxy, SLOTS)
    assert request.reset is None


def test_a_body_that_breaks_off_does_not_end(start, http2_server):
    """The server would take it for whole. It is cancelled when the time of an answer is over."""
    proxy = start(policy2(http2_server, response="2s"))
    assert reset_by_http2(proxy, http2_server, method="POST", ends=False)
    request = http2_server.last
    proxy.lines_of("/work", 1)
    assert free(proxy) == SLOTS - 1 and request.reset is None
    until(lambda: request.reset, "the stream to be reset")
    assert request.reset == "CANCEL" and not request.is_whole
    wait_for_free(proxy, SLOTS)


def test_bytes_of_a_body_that_wait_for_the_server_are_dropped(start, http2_server):
    http2_server.settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 10}
    proxy = start(policy2(http2_server))
    with Http2Client(proxy.address) as client:
        first = client.begin(path="/first")  # from then on the proxy knows the window
        http2_server.wait_for(1)
        http2_server.last.peer.answer(http2_server.last.stream)
        assert client.answer(first).status == 200
        stream = client.begin(path="/work", method="POST", more=[("content-length", "1000")], ends=False)
        client.data(stream, b"x" * 1000, ends=True)
        until(lambda: len(http2_server.last.body) == 10, "a part of the body")
        client.reset(stream)
        proxy.lines_of("/work", 1)
    request = http2_server.last
    request.peer.send(WindowUpdateFrame(request.stream, window_increment=1000), PingFrame(0, opaque_data=b"x" * 8))
    until(lambda: any(isinstance(frame, PingFrame) for frame in request.peer.frames), "the PING to be answered")
    assert len(request.body) == 10 and not request.is_whole and request.reset is None
    assert free(proxy) == SLOTS - 1
    request.peer.answer(request.stream)
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("hold_slots", [False, True])
def test_a_call_that_is_being_answered_is_cancelled_at_once(start, http2_server, hold_slots):
    proxy = start(policy2(http2_server, response="2s", upstream_rest=", hold_slots: true" if hold_slots else ""))
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work", method="POST", ends=False, more=GRPC)
        client.data(stream, CALL, ends=True)
        http2_server.wait_for(1)
        request = http2_server.last
        request.peer.head(request.stream, fields=GRPC[:1])
        client.read_until(lambda: client.answer_of(stream).heads)
        client.reset(stream)
        until(lambda: request.reset == "CANCEL", "the call to be cancelled")
        if hold_slots:
            assert free(proxy) == SLOTS - 1
        wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("status, http, ends, keeps", [
    ("14", 200, True, True), ("4", 200, True, True), ("8", 200, True, True),  # too large, as a 413
    ("14", 204, True, True), ("13", 200, False, True), ("13", 200, True, False), ("16", 200, True, False)])
def test_an_error_that_a_gateway_may_have_made_does_not_free_the_slot_of_a_call(
        start, http2_server, status, http, ends, keeps):
    proxy = start(policy2(http2_server, response="2s"))
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work", method="POST", ends=False, more=GRPC)
        client.data(stream, CALL, ends=ends)
        until(lambda: http2_server.requests and http2_server.last.body == CALL, "the message at the server")
        request = http2_server.last
        request.peer.head(request.stream, http, [*GRPC[:http == 200], ("grpc-status", status)], ends=True)
        client.read_until(lambda: client.answer_of(stream).is_ended)
        if keeps:
            assert free(proxy) == SLOTS - 1
        wait_for_free(proxy, SLOTS)


def test_a_head_behind_http2_may_hold_its_slot(start, http2_server):
    proxy = start(policy2(http2_server, response="2s", upstream_rest=", hold_slots: true"))
    client = proxy.send(message.request("HEAD", "/work"))
    http2_server.wait_for(1)
    request = http2_server.last
    request.peer.head(request.stream, 200, ends=True)
    assert client.read("HEAD").status == 200 and free(proxy) == SLOTS - 1
    wait_for_free(proxy, SLOTS)


def test_a_call_without_slots_is_cancelled_at_once(start, http2_server):
    proxy = start(f"listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}\n"
                  f"upstreams: {{api: {{servers: '{http2_server.url}'}}}}\nroutes: [{{upstream: api}}]\n")
    with Http2Client(proxy.address) as client:
        stream = client.begin(path="/work", method="POST", ends=False, more=GRPC)
        client.data(stream, CALL, ends=True)
        http2_server.wait_for(1)
        client.reset(stream)
        until(lambda: http2_server.last.reset == "CANCEL", "the call to be cancelled")
