"""Answers that go on: what comes of them is passed on at once, and interim answers are too."""

import re
import statistics
import threading
import time

import pytest

from harness import message
from harness.upstream import OK, answer
from harness.wait import until

N_EVENTS = 60
EVENT_S = 0.02  # between events
ANSWER = "3s"
SILENT_S = 5.0  # longer than that
EVENT = re.compile(rb"data: ([0-9.]+)\n\n")

UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
OF_1_0 = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
           b"Transfer-Encoding: chunked\r\n\r\n")


def policy(upstream, top="", response="30s", buffer="{}"):
    return f"""
workers: 1
{top}
upstreams: {{api: {{servers: "{upstream.url}", buffer: {buffer}, timeout: {{response: {response}}}}}}}
limits: {{slots: {{key: global, algorithm: concurrency, rate: 100}}}}
routes: [{{limits: [slots], upstream: api}}]
"""


def event():
    return b"data: %.6f\n\n" % time.monotonic()


def send_event(peer, framing):
    if framing == "chunked":
        data = event()
        peer.send(b"%x\r\n%s\r\n" % (len(data), data))
    elif framing == "chunk_open":
        # The chunk goes on behind the event: half a chunk is passed on too.
        data = event()
        peer.send(b"%x\r\n%s" % (len(data) + 2, data))
        threading.Event().wait(EVENT_S)
        peer.send(b":\n\r\n")
    else:
        peer.send(event())


def delays(client, n, is_chunked):
    """Seconds from each event's making to its coming."""
    seen = client.reader.buffer
    found = []
    while True:
        now = time.monotonic()
        for match in EVENT.finditer(seen):
            found.append(now - float(match[1]))
        del seen[:max((match.end() for match in EVENT.finditer(seen)), default=0)]
        assert is_chunked or b"\r\n" not in seen
        if len(found) >= n:
            return found
        seen += client.sock.recv(65536)


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("head, framing", [
    (CHUNKED, "chunked"), (CHUNKED, "chunk_open"), (UNTIL_CLOSE, "close"), (OF_1_0, "close")],
    ids=["chunked", "chunk_open", "until_close", "http_1_0"])
def test_each_event_arrives_within_50_ms(start, start_upstream, head, framing, version):
    def behave(peer, _):
        peer.send(head)
        for _ in range(N_EVENTS):
            send_event(peer, framing)
            threading.Event().wait(EVENT_S)
        peer.hang()

    proxy = start(policy(start_upstream(behave)))

    def median_delay():
        with proxy.send(message.request("GET", "/", version=version)) as client:
            response = message.Response(client.reader.head())
            assert response.is_chunked() == (version == "HTTP/1.1")
            assert response.get("Content-Type") == "text/event-stream"
            return statistics.median(delays(client, N_EVENTS, response.is_chunked()))

    # A machine that stalls holds up some events of some streams, a proxy that gathers holds up all of all.
    until(lambda: median_delay() < 0.05, "events that arrive at once", within=60)


def test_the_head_of_a_stream_arrives_before_its_first_event(start, start_upstream):
    may_go_on = threading.Event()

    def behave(peer, _):
        peer.send(CHUNKED)
        may_go_on.wait(20)
        peer.send(b"0\r\n\r\n")

    client = start(policy(start_upstream(behave))).send(message.request("GET", "/"))
    assert message.Response(client.reader.head()).status == 200
    may_go_on.set()
    assert client.reader.chunked_body() == b""


# --- streams that are silent ---


def silent(head, then=b"4\r\nend\n\r\n0\r\n\r\n", first=b""):
    """An upstream that says nothing for longer than timeout.response, then `then`."""
    def behave(peer, _):
        peer.send(head + first)
        threading.Event().wait(SILENT_S)
        peer.send(then)
    return behave


@pytest.mark.takes(5)
@pytest.mark.parametrize("content_type", [
    "text/event-stream", "Text/Event-Stream ; charset=utf-8"])
def test_a_stream_of_events_may_be_silent_for_longer_than_an_answer(
        start, start_upstream, content_type):
    head = CHUNKED.replace(b"text/event-stream", content_type.encode())
    proxy = start(policy(start_upstream(silent(head)), response=ANSWER))
    assert proxy.ask().body == b"end\n"


@pytest.mark.parametrize("content_type", ["text/plain", "text/event-streams", "x"])
def test_any_other_answer_may_not(start, start_upstream, content_type):
    head = CHUNKED.replace(b"text/event-stream", content_type.encode())
    proxy = start(policy(start_upstream(silent(head)), response=ANSWER))
    with pytest.raises(message.Cut):
        proxy.ask()


@pytest.mark.takes(5)
def test_a_stream_of_events_is_ended_when_it_is_silent_for_too_long(start, start_upstream):
    upstream = start_upstream(silent(CHUNKED))
    proxy = start(policy(upstream, top="timeouts: {tunnel: 1500ms}"))
    with pytest.raises(message.Cut):
        proxy.ask()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


def test_a_stream_whose_head_does_not_come_is_a_server_that_hangs(start, start_upstream):
    proxy = start(policy(start_upstream(silent(b"")), response=ANSWER))
    assert proxy.ask().status == 504


def test_a_listener_that_ends_its_side_has_left(start, start_upstream):
    upstream = start_upstream(lambda peer, _: (peer.send(CHUNKED), peer.hang()))
    client = start(policy(upstream)).send(message.request("GET", "/"))
    client.reader.head()
    client.end()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


def test_a_listener_that_has_ended_its_side_before_is_not_waited_with_for_long(
        start, start_upstream):
    may_answer = threading.Event()

    def behave(peer, _):
        may_answer.wait(20)
        peer.send(CHUNKED + b"5\r\nhello\r\n")
        peer.hang()

    upstream = start_upstream(behave)
    client = start(policy(upstream, response="3s")).send(message.request("GET", "/"))
    client.end()
    assert client.is_quiet()
    may_answer.set()
    client.reader.head()
    assert client.reader.take(10, "the stream") == b"5\r\nhello\r\n"
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


@pytest.mark.takes(4)
def test_a_listener_that_has_ended_its_side_before_gets_no_charge_back(start, start_upstream):
    upstream = start_upstream(lambda peer, _: (peer.send(CHUNKED + b"5\r\nhello\r\n"), peer.hang()))
    proxy = start(f"""
        upstreams: {{api: {{servers: "{upstream.url}", timeout: {{response: 2s}}}}}}
        limits: {{day: {{key: global, algorithm: fixed_window, rate: 2/day, refund_on: [server_failed]}}}}
        routes: [{{limits: [day], upstream: api}}]
        """)
    for _ in range(2):
        client = proxy.send(message.request("GET", "/"))
        client.end()
        client.reader.take_through(b"hello", "the event")
        until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")
    assert proxy.ask().status == 429


# --- clients that leave, wholly or by half ---


def streaming(peer, _):
    peer.send(CHUNKED)
    while True:
        send_event(peer, "chunked")
        threading.Event().wait(EVENT_S)


@pytest.mark.parametrize("leave", ["close", "reset"])
def test_a_client_that_leaves_a_stream_ends_the_upstream_at_once(start, start_upstream, leave):
    upstream = start_upstream(streaming)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/"))
    client.reader.take_through(b"data: ", "the stream")
    getattr(client, leave)()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")
    assert proxy.log_lines(1)[0]["fault"] == "the client left"


def test_a_client_that_is_reset_ends_an_upstream_that_is_silent(start, start_upstream):
    upstream = start_upstream(lambda peer, _: (peer.send(CHUNKED), peer.hang()))
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/"))
    client.reader.head()
    client.reset()
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


@pytest.mark.parametrize("request_bytes", [
    message.request("GET", "/"),
    message.request("POST", "/", body=b"x" * 100000),
    message.request("POST", "/", {"Transfer-Encoding": "chunked"}) + message.chunked(b"x" * 1000),
], ids=["get", "length", "chunked"])
def test_a_client_that_has_ended_its_side_gets_its_answer(start, start_upstream, request_bytes):
    may_answer = threading.Event()

    def behave(peer, _):
        may_answer.wait(20)
        peer.send(CHUNKED)
        for _ in range(20):
            peer.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            threading.Event().wait(0.005)
        peer.send(b"0\r\n\r\n")

    upstream = start_upstream(behave)
    client = start(policy(upstream)).send(request_bytes)
    client.end()
    upstream.wait_for(1)
    assert client.is_quiet()
    may_answer.set()
    assert client.read().body == b"x" * 20000
    assert client.has_ended()


@pytest.mark.takes(6)
def test_a_stream_that_is_silent_is_no_failure_of_its_server(start, start_upstream):
    def behave(peer, _):
        peer.send(CHUNKED)
        peer.hang()

    upstream = start_upstream(behave)
    proxy = start(f"""
upstreams:
  api:
    servers: ["{upstream.url}", "{upstream.url.replace('127.0.0.1', '127.0.0.2')}"]
    eject: 1
    timeout: {{response: 4s, connect: 1m}}
    retries: 0
routes: [{{upstream: api}}]
""")
    with proxy.connect() as client:
        client.send(message.request("GET", "/"))
        client.end()
        assert message.Response(client.reader.head()).status == 200
        assert client.has_ended()
    assert f"server={upstream.url} why=" not in proxy.log_at_end()


# --- trailers ---

TRAILERS = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Server-Timing\r\n\r\n"
            b"5;a=b\r\nhello\r\n0\r\nServer-Timing: db;dur=53\r\nContent-Length: 99\r\nX-Sum: 1\r\n\r\n")
WANTED = {"Connection": "TE", "TE": "trailers"}


def chunked_rest(client):
    """What stands on the wire of a chunked body, to its end."""
    client.reader.head()
    return client.reader.take_through(b"\r\n\r\n", "the trailers")


def test_rule_32_trailers_are_passed_on_to_who_wants_them_but_for_those_that_must_not(
        start, start_upstream):
    upstream = start_upstream(answer=TRAILERS)
    proxy = start(policy(upstream))
    with proxy.connect() as client:
        for fields in (WANTED, WANTED, {"TE": "trailers"}):  # Go's clients do not name TE in Connection
            client.send(message.request("GET", "/", fields))
            assert chunked_rest(client) == (
                b"5\r\nhello\r\n0\r\nServer-Timing: db;dur=53\r\nX-Sum: 1\r\n\r\n")
            assert upstream.last.get("TE") == "trailers"
            assert upstream.last.get("Connection") == "TE"
    assert upstream.n_connections == 1


@pytest.mark.parametrize("fields", [{}, {"Connection": "TE"}, {"Connection": "TE", "TE": "gzip"}])
def test_trailers_that_nobody_wants_are_dropped(start, start_upstream, fields):
    upstream = start_upstream(answer=TRAILERS)
    client = start(policy(upstream)).send(message.request("GET", "/", fields))
    assert chunked_rest(client) == b"5\r\nhello\r\n0\r\n\r\n"
    assert upstream.last.get("TE") is None and upstream.last.get("Connection") is None


def test_trailers_are_dropped_for_a_client_of_http_1_0(start, start_upstream):
    proxy = start(policy(start_upstream(answer=TRAILERS)))
    assert proxy.ask(fields=WANTED, version="HTTP/1.0").body == b"hello"


def test_rule_46_a_trailer_that_connection_names_stays_here_however_late_it_comes(
        start, start_upstream):
    sent = threading.Event()

    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-secret\r\n\r\n"
                  b"5\r\nhello\r\n")
        sent.wait(20)
        peer.send(b"5\r\nworld\r\n0\r\nX-Secret: 1\r\nX-Sum: 1\r\n\r\n")

    proxy = start(policy(start_upstream(behave)))
    with proxy.send(message.request("GET", "/", WANTED)) as client:
        client.reader.take_through(b"hello\r\n", "the first piece")
        # Others have the memory of the answer's head by now.
        for _ in range(3):
            assert proxy.ask("/", fields={"X-Filler": "y" * 4000, "Host": ""}).status == 400
        sent.set()
        assert client.reader.take_through(b"\r\n\r\n", "the trailers") == (
            b"5\r\nworld\r\n0\r\nX-Sum: 1\r\n\r\n")


def test_a_body_that_is_cut_in_its_trailers_never_looks_whole(start, start_upstream):
    def behave(peer, _):
        peer.send(TRAILERS[:-4])
        peer.close()

    client = start(policy(start_upstream(behave))).send(message.request("GET", "/", WANTED))
    with pytest.raises(message.Cut):
        chunked_rest(client)


# --- interim answers ---

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_rule_63_interim_answers_arrive_when_they_are_sent(start, start_upstream):
    steps = [threading.Event() for _ in range(3)]

    def behave(peer, _):
        for step, data in zip(steps, (GO_ON, HINTS, OK)):
            step.wait(20)
            peer.send(data)

    client = start(policy(start_upstream(behave))).send(message.request("GET", "/"))
    for step, status in zip(steps, (100, 103, 200)):
        step.set()
        response = client.read()
        assert response.status == status
        if status == 103:
            assert response.get("Link") == "</style.css>; rel=preload"
            assert response.get("Connection") is None
    assert client.ask().status == 100  # and the connection goes on


def test_rule_62_no_interim_answer_goes_to_a_client_of_http_1_0(start, start_upstream):
    proxy = start(policy(start_upstream(answer=HINTS + GO_ON + OK)))
    assert proxy.ask(version="HTTP/1.0").status == 200


def test_rule_61_a_client_that_waits_for_100_sends_its_body_when_the_server_wants_it(
        start, start_upstream):
    wants_body = threading.Event()

    def behave(peer, request):
        wants_body.wait(20)
        peer.send(GO_ON)
        assert peer.read_body(request) == b"the body"
        peer.send(answer(body=b"thanks"))

    upstream = start_upstream(behave, reads_body=False)
    client = start(policy(upstream, buffer="off")).send(message.request("POST", "/", {
        "Expect": "100-continue", "Content-Length": "8"}))
    upstream.wait_for(1)
    assert client.is_quiet()
    wants_body.set()
    assert client.read().status == 100
    client.send(b"the body")
    assert client.read().body == b"thanks"


def test_rule_61_a_client_that_waits_for_100_may_be_refused_without_its_body(
        start, start_upstream):
    upstream = start_upstream(answer=answer("403 No", body=b"no"), reads_body=False)
    client = start(policy(upstream, buffer="off")).send(message.request("POST", "/", {
        "Expect": "100-continue", "Content-Length": "8"}))
    response = client.read()
    assert (response.status, response.body) == (403, b"no")
    assert response.get("Connection") == "close" and client.has_ended()
