"""Some servers of HTTP/2 stop reading a connection for what one request sends there. Others do not wait for that one."""

import contextlib
import threading
import time

import pytest
from hyperframe.frame import DataFrame, PingFrame

from harness.admin import n_server_http2_connections
from harness.wait import is_readable, until

SERVED = "a request to be served by another connection"
PROMPT_S = 15.0  # the PING of timeouts.ping comes after 30
WATCHED_S = 3.5  # longer than the second until a server is asked whether it reads, and the one that it may take


def policy(server, top=""):
    return f"""
        {top}
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        workers: 1
        trusted_proxies: [127.0.0.1]
        upstreams: {{api: {{servers: "{server.url}", buffer: {{wait: 300ms}}}}}}
        routes: [{{upstream: api}}]
    """


def head(client, path="/", length=None):
    begin = f"GET {path} HTTP/1.1\r\n" if length is None else f"POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n"
    return f"{begin}Host: a\r\nX-Forwarded-For: 198.51.100.{client}\r\n\r\n".encode()


@pytest.fixture(name="begin")
def begin_requests():
    """Send a request, each on a connection of its own, which stays open."""
    with contextlib.ExitStack() as stack:
        def begin(proxy, client, path="/"):
            connection = stack.enter_context(proxy.connect())
            connection.send(head(client, path))
            return connection

        yield begin


def answer_all_but(path):
    def behave(peer, request):
        if request.path != path:
            peer.answer(request.stream)
    return behave


def test_a_short_body_goes_out_whole_however_it_comes(start, start_http2_server, begin):
    server = start_http2_server()
    proxy = start(policy(server).replace("300ms", "30s"))
    assert begin(proxy, 1).read().status == 200
    with proxy.connect() as client:
        client.send(head(2, length=200))
        for _ in range(20):
            assert client.is_quiet(0.005)
            client.send(b"x" * 10)
        assert client.read().status == 200
    posted = server.wait_for(2)
    assert posted.body == b"x" * 200 and posted.peer is server.requests[0].peer
    assert [len(frame.data) for frame in posted.peer.frames if isinstance(frame, DataFrame)] == [200]


@pytest.mark.parametrize("length, is_shared", [(8192, True), (8193, False)])
def test_a_body_that_servers_may_not_keep_has_its_own_connection(start, start_http2_server, begin, length, is_shared):
    server = start_http2_server()
    proxy = start(policy(server))
    assert begin(proxy, 1).read().status == 200
    with proxy.send(head(2, length=length) + b"x" * length) as client:
        assert client.read().status == 200
    assert (server.wait_for(2).peer is server.requests[0].peer) == is_shared


def test_a_body_that_comes_in_pieces_for_long_has_its_own_connection(start, start_http2_server, begin):
    server = start_http2_server()
    proxy = start(policy(server).replace("300ms", "300ms, min_upload: off"))
    assert begin(proxy, 1).read().status == 200
    with proxy.send(head(2, length=2) + b"x") as client:
        posted = server.wait_for(2)
        assert posted.peer is not server.requests[0].peer
        client.send(b"x")
        assert client.read().status == 200
    with proxy.send(head(3, length=1)) as client:  # nothing has come of this one
        asked = server.wait_for(3)
        assert asked.peer not in (server.requests[0].peer, posted.peer)
        client.send(b"x")
        assert client.read().status == 200


@pytest.mark.takes(4)
def test_a_connection_that_is_not_read_takes_no_more_requests(start, start_http2_server, begin):
    reads_on = threading.Event()

    def stop_reading(peer, request):
        if request.path == "/stop":
            reads_on.wait(60)

    server = start_http2_server(on_head=stop_reading)
    proxy = start(policy(server))
    stuck = [begin(proxy, 1, "/stop")]
    server.wait_for(1)

    def is_served():
        stuck.append(begin(proxy, 2))
        return is_readable(stuck[-1].sock, 0.25)

    until(is_served, SERVED, within=PROMPT_S)
    assert stuck.pop().read().status == 200
    assert len(server.peers) == 2
    assert begin(proxy, 3).read().status == 200  # by that one, too
    assert len(server.peers) == 2
    reads_on.set()
    assert [connection.read().status for connection in stuck] == [200] * len(stuck)


@pytest.mark.takes(4)
def test_a_server_that_takes_long_and_reads_keeps_its_connection(start, start_http2_server, begin):
    def answer_late(peer, request):
        threading.Timer(1.5, peer.answer, (request.stream,)).start()

    server = start_http2_server(behave=answer_late)
    proxy = start(policy(server))
    slow = [begin(proxy, 1)]
    ends = time.monotonic() + WATCHED_S
    until(lambda: slow.append(begin(proxy, 2)) or time.monotonic() > ends, "requests over some time", poll_s=0.3)
    until(lambda: any(isinstance(frame, PingFrame) for frame in list(server.peers[0].frames)), "a PING")
    assert all(connection.read().status == 200 for connection in slow)
    assert len(server.peers) == 1


@pytest.mark.takes(4)
def test_a_long_answer_that_goes_on_does_not_hide_that_nothing_is_read(start, start_http2_server, begin):
    """The server reads nothing more, but still sends what it has begun with."""
    reads_on = threading.Event()

    def stop_reading(peer, request):
        if request.path == "/events":
            def send_events():
                peer.head(request.stream)
                while not reads_on.wait(0.1):
                    peer.data(request.stream, b"event\n")
                peer.data(request.stream, ends=True)

            threading.Thread(target=send_events).start()
        elif request.path == "/stop":
            reads_on.wait(60)

    server = start_http2_server(on_head=stop_reading, behave=answer_all_but("/events"))
    proxy = start(policy(server))
    stuck = [begin(proxy, 1, "/events"), begin(proxy, 2, "/stop")]
    server.wait_for(2)

    def is_served():
        stuck.append(begin(proxy, 3))
        return is_readable(stuck[-1].sock, 0.25)

    try:
        until(is_served, SERVED, within=PROMPT_S)
    finally:
        reads_on.set()
    assert [connection.read().status for connection in stuck] == [200] * len(stuck)


def test_an_unread_connection_does_not_rest(start, start_http2_server, begin):
    """Where all that was on it has timed out, it is closed, and the next request gets a new one."""
    ends = threading.Event()
    server = start_http2_server(on_head=lambda peer, request: request.path == "/stop" and ends.wait(60))
    proxy = start(policy(server, "admin: 127.0.0.1:0").replace("buffer:", "timeout: {response: 3s}, buffer:"))
    try:
        assert begin(proxy, 1, "/stop").read().status == 504
        assert begin(proxy, 2).read().status == 200
        assert len(server.peers) == 2
        until(lambda: n_server_http2_connections(proxy) == 1, "the first to be closed", within=PROMPT_S)
    finally:
        ends.set()


@pytest.mark.takes(7)
def test_a_server_that_hangs_when_it_was_asked_is_found(start, start_http2_server, begin):
    """The PING of timeouts.ping comes all the same."""
    server = start_http2_server(behave=answer_all_but("/slow"))
    proxy = start(policy(server, "timeouts: {ping: 2s}"))
    slow = begin(proxy, 1, "/slow")
    peer = server.wait_for(1).peer
    until(lambda: begin(proxy, 2, "/slow") and any(isinstance(frame, PingFrame) for frame in list(peer.frames)),
          "the server to be asked whether it reads", poll_s=0.3)
    server.answers_pings = False
    until(lambda: peer.is_closed, "the connection to be given up", within=PROMPT_S)
    assert slow.is_quiet(0.0) or slow.read().status == 502


@pytest.mark.takes(4)
def test_a_late_reply_is_waited_for(start, start_http2_server, begin):
    """For timeouts.ping, whatever the PING asked and whenever the connection was last looked at."""
    server = start_http2_server(behave=answer_all_but("/slow"), answers_pings=False)
    proxy = start(policy(server, "timeouts: {ping: 3s}"))
    begin(proxy, 1, "/slow")
    peer = server.wait_for(1).peer
    ends = time.monotonic() + 2.8
    until(lambda: time.monotonic() > ends, "the time before the next look", poll_s=0.1)
    begin(proxy, 2, "/slow")
    until(lambda: any(isinstance(frame, PingFrame) for frame in list(peer.frames)), "a PING")
    ends = time.monotonic() + 1
    until(lambda: time.monotonic() > ends or peer.is_closed, "a second", poll_s=0.1)
    assert not peer.is_closed


def test_a_server_that_answers_is_not_asked(start, start_http2_server, begin):
    """A request behind another's answer waits for no PING."""
    server = start_http2_server(answers_pings=False)
    proxy = start(policy(server))
    for i in range(20):
        with proxy.send(head(i, length=5000) + bytes(5000)) as client:
            assert client.read().status == 200
        assert begin(proxy, i).read().status == 200
    assert len(server.peers) == 1
    assert not any(isinstance(frame, PingFrame) for frame in list(server.peers[0].frames))
