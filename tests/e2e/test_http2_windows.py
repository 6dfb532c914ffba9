"""Bodies that wait for the windows of a server of HTTP/2."""

import contextlib
import socket
import threading
import time

import pytest

from hyperframe.frame import DataFrame, SettingsFrame, WindowUpdateFrame

from harness.client import Client
from harness.http2 import Http2Client
from harness.http2_server import Http2Server
from harness.message import request
from harness.wait import until

POLICY = """
workers: 1
upstreams: {{api: {{servers: "{url}", buffer: {{min_upload: off}}}}}}
routes:
  - {{match: {{path: /here}}, respond: {{status: 204}}}}
  - {{upstream: api}}
"""
AS_IT_COMES = POLICY.replace("{{min_upload: off}}", "off")
HELD_S = 0.2


@pytest.fixture(name="serve")
def a_server():
    servers = []

    def begin(window, **options):
        servers.append(Http2Server(settings={SettingsFrame.INITIAL_WINDOW_SIZE: window}, **options))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()
        assert not server.failures, server.failures


def post(proxy, length, body=b""):
    return proxy.send(request("POST", "/", {"Content-Length": str(length)}) + body)


def connections_of(server, clients):
    """The number of the connection that each request came on."""
    until(lambda: len(server.requests) == len(clients), "all requests")
    return [asked.peer.number for asked in server.requests]


@pytest.fixture(name="wait")
def clients_whose_answers_do_not_come(start, serve):
    """Sends requests of clients, of whom nobody is answered."""
    server = serve(1 << 20)
    server.behave = lambda *_: None
    proxy = start(POLICY.format(url=server.url))
    clients = []

    def begin(address, head, body):
        clients.append(Client(proxy.address, source=f"127.0.0.{address}"))
        clients[-1].send(b"POST / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n" + body)
        return connections_of(server, clients)[-1]

    yield begin
    for client in clients:
        client.close()


def test_long_bodies_share_no_connection(wait):
    """A handler that does not read them keeps the window from others."""
    assert wait(2, b"Content-Length: 100", bytes(100)) == 1
    long = wait(3, b"Content-Length: 16385", bytes(16385))
    assert long != 1
    assert wait(3, b"Content-Length: 20000", bytes(20000)) == long  # its client's own
    assert wait(2, b"Content-Length: 100", bytes(100)) == 1
    assert wait(4, b"Transfer-Encoding: chunked", b"5\r\nabcde\r\n0\r\n\r\n") == 1  # it is whole, and so known to be short


def test_bodies_of_many_clients_go_on_several_connections(start, serve):
    """So that those that are not read leave most of a window open."""
    server = serve(1 << 20, grants=False)  # 64 KiB for all
    server.behave = lambda *_: None
    proxy = start(POLICY.format(url=server.url))
    clients = [Client(proxy.address, source=f"127.0.0.{10 + i}") for i in range(6)]
    numbers = []
    for client in clients:
        client.send(request("POST", "/", {"Content-Length": "6000"}) + bytes(6000))
        numbers.append(connections_of(server, clients[:len(numbers) + 1])[-1])
    assert numbers == [1, 1, 2, 2, 3, 3]
    for client in clients:
        client.close()


def test_many_bodies_of_a_client_share_no_connection(wait):
    assert wait(2, b"Content-Length: 100", bytes(100)) == 1
    for _ in range(4):
        assert wait(3, b"Content-Length: 4096", bytes(4096)) == 1
    own = wait(3, b"Content-Length: 1", b"x")
    assert own != 1
    assert wait(4, b"Content-Length: 4096", bytes(4096)) == 1
    assert wait(3, b"Content-Length: 4096", bytes(4096)) == own


def upload(proxy, address, length, body=None):
    """The connection that it came on is last."""
    with Client(proxy.address, source=f"127.0.0.{address}") as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length)
        for piece in body or [bytes(length)]:
            client.send(piece)
            time.sleep(0.05 if body else 0)
        return client.read().status


def test_long_bodies_of_others_follow_on_the_same_connection(start, serve):
    """As by HTTP/1.1: clients need no connection each, if they come one after the other."""
    server = serve(1 << 20)
    proxy = start(POLICY.format(url=server.url))
    for n_pings, address in enumerate((2, 3, 4, 3), 1):
        assert upload(proxy, address, 20_000) == 200
        server.peers[0].await_ping(n_pings)  # it has read the body
    assert proxy.ask().status == 200
    assert [asked.peer.number for asked in server.requests] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("unread, next_one", [(20_000, 1), (45_000, 2)])
def test_a_connection_with_much_that_is_not_read_is_nobody_elses(start, serve, unread, next_one):
    """The server has answered early, and grants nothing of that again: half of 64 KiB would not suffice."""
    server = serve(1 << 20, grants=False)
    server.on_head = lambda peer, request: peer.answer(request.stream)
    server.behave = lambda *_: None
    proxy = start(POLICY.format(url=server.url))
    assert upload(proxy, 2, unread) == 200
    until(lambda: len(server.requests[0].body) == unread or server.requests[0].reset, "all of it")
    server.peers[0].await_ping(1)
    assert upload(proxy, 3, 17_000) == 200
    assert [asked.peer.number for asked in server.requests] == [1, next_one]


def test_a_connection_on_which_a_body_was_left_is_nobody_elses(start, serve):
    """The server may be about to end it for resets."""
    server = serve(1 << 20)
    proxy = start(POLICY.format(url=server.url))
    with Client(proxy.address, source="127.0.0.2") as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n" + bytes(25_000))
        until(lambda: server.requests and len(server.requests[0].body) == 25_000, "a part of it")
        client.reset()
    until(lambda: server.requests[0].reset, "the server to be told")
    assert upload(proxy, 3, 20_000) == 200
    assert server.last.peer.number == 2


def test_a_connection_that_has_carried_small_pieces_stays_its_clients(start, serve):
    """The server may be about to end it for them."""
    server = serve(1 << 20)
    proxy = start(AS_IT_COMES.format(url=server.url))
    pieces = [b"x", b"x", bytes(19_998)]
    assert [upload(proxy, 2, 20_000, pieces), upload(proxy, 3, 20_000), upload(proxy, 2, 20_000)] == [200] * 3
    assert [asked.peer.number for asked in server.requests] == [1, 2, 1]


def test_a_body_that_is_not_whole_is_alone_on_its_connection(start, serve):
    """Else others could take the window, and its handler would wait for the rest: Tomcat's threads, 20 of a connection."""
    server = serve(1 << 20)
    proxy = start(POLICY.format(url=server.url).replace("min_upload: off", "wait: 300ms, min_upload: off"))
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(post(proxy, 9000, bytes(2000))) for _ in range(2)]
        server.wait_for(2)
        assert post(proxy, 9000, bytes(9000)).read().status == 200
        assert len({asked.peer.number for asked in server.requests}) == 3
        for client in slow:
            client.send(bytes(7000))
            assert client.read().status == 200


CALL = {"method": "POST", "path": "/a.B/C", "more": [("content-type", "application/grpc"), ("te", "trailers")]}


def message(n_bytes):
    return b"\0" + n_bytes.to_bytes(4, "big") + bytes(n_bytes)


@pytest.fixture(name="connect_from")
def clients_of_grpc(start, serve):
    """A server that answers nobody, and takes 64 KiB of all that it does not read; connections from addresses."""
    server = serve(1 << 20, grants=False)
    server.behave = lambda *_: None
    policy = POLICY.replace("{{upstream", "{{match: {{grpc: true}}, upstream")
    proxy = start("listen: {address: 127.0.0.1:0, http: [2, 1.1]}" + policy.format(url=server.url))
    with contextlib.ExitStack() as stack:
        yield server, lambda address: stack.enter_context(Http2Client(None, sock=socket.create_connection(
            proxy.address, timeout=30, source_address=(f"127.0.0.{address}", 0))))


def begin(server, client, n_bytes, ends):
    """Begin a call with a first message: the connection that it came on."""
    n = len(server.requests)
    client.data(client.begin(ends=False, **CALL), message(n_bytes), ends)
    until(lambda: len(server.requests) > n and len(server.requests[-1].body) > n_bytes, "the call")
    return server.last.peer.number


def test_calls_share_a_connection_that_have_come_whole(connect_from):
    server, connect = connect_from
    unary, stream = connect(5), connect(6)
    assert [begin(server, unary, 10, True) for _ in range(3)] == [1] * 3
    own = begin(server, stream, 10, False)
    assert own != 1 and begin(server, stream, 10, False) == own
    assert begin(server, connect(7), 10, True) == 1


@pytest.mark.takes(5)
def test_a_window_that_opens_by_a_few_bytes_does_not_make_small_frames(start, serve):
    """Tomcat ends a connection for many of them."""
    window, more, step = 65535, 4000, 10
    server = serve(window)
    client = post(start(AS_IT_COMES.format(url=server.url)), window + more, b"x" * (window + more))
    until(lambda: server.requests and len(server.requests[0].body) == window, "a window full")
    peer = server.peers[0]
    n_before = len(peer.frames)
    begun = time.monotonic()
    for _ in range(more // step):
        peer.send(WindowUpdateFrame(1, window_increment=step))
        time.sleep(0.005)  # an update of its own
    assert client.read().status == 200
    took_s = time.monotonic() - begun
    pieces = [len(frame.data) for frame in peer.frames[n_before:] if isinstance(frame, DataFrame)]
    assert sum(pieces) == more
    assert sum(piece < 1024 for piece in pieces[:-1]) <= took_s / HELD_S, pieces


@pytest.mark.takes(5)
def test_bytes_that_wait_do_not_wake_the_proxy_while_the_server_does_not_read(start, serve):
    window = 1 << 20
    server = serve(window)
    goes_on = threading.Event()
    goes_on.set()
    server.on_data = lambda *_: goes_on.wait(60)
    proxy = start(POLICY.format(url=server.url))
    first = post(proxy, window + 4000, b"x" * (window - 500))
    until(lambda: server.requests and len(server.requests[0].body) == window - 500, "all but 500 bytes of a window")
    goes_on.clear()
    first.send(b"x" * 4500)  # 500 have room
    assert proxy.ask(path="/here").status == 204  # and are read
    others = [post(proxy, window) for _ in range(20)]
    senders = [threading.Thread(target=other.send, args=(b"x" * window,)) for other in others]
    for sender in senders:
        sender.start()
    time.sleep(2 * HELD_S)
    before_s = proxy.cpu_s()
    time.sleep(1)
    assert proxy.cpu_s() - before_s < 0.3
    assert proxy.ask(path="/here").status == 204
    goes_on.set()
    for sender in senders:
        sender.join()
    assert [other.read().status for other in others] == [200] * 20
    server.peers[0].send(WindowUpdateFrame(1, window_increment=4000))
    assert first.read().status == 200
