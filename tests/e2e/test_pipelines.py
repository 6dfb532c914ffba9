"""Connections that always have another request waiting give way to new ones: they lock nobody out."""

import collections
import concurrent.futures
import selectors
import socket
import threading
import time

import pytest

from harness.message import Cut
from harness.wait import until

OK = "routes: [{match: {path: /ok}, respond: {status: 200, body: ok}}]\n"
GET_OK = b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n"
MANY = 16  # CONNECTIONS_MANY
GRACE_S = 0.1  # EVICTION_GRACE_US
ATTACKERS = [f"127.0.0.{i}" for i in range(2, 6)]


def policy(connections, routes, workers=1):
    return f"workers: {workers}\nmax: {{connections: {connections}}}\nlog: off\n{routes}"


def ask(client):
    response = client.ask(path="/ok")
    assert response.status == 200 and response.body == b"ok"


class PipelineFlood:
    """Connections from a few addresses that never stop sending requests, and read the answers. One
    that is closed or refused is opened anew."""

    def __init__(self, proxy, n_of_each, n_at_once):
        self.proxy, self.requests = proxy, GET_OK * n_at_once
        self.selector = selectors.DefaultSelector()
        self.n_closed = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        for source in ATTACKERS:
            for _ in range(n_of_each):
                self.open(source)

    def open(self, source):
        client = self.proxy.connect(source)
        client.sock.setblocking(False)
        self.selector.register(client.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, (client, source))

    def serve(self, client, events):
        """False: it was closed."""
        try:
            if events & selectors.EVENT_READ and not client.sock.recv(1 << 18):
                return False
            if events & selectors.EVENT_WRITE:
                client.sock.send(self.requests)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def run(self):
        closed = collections.deque()
        while not self.is_over.is_set():
            for key, events in self.selector.select(0.01):
                client, source = key.data
                if not self.serve(client, events):
                    self.selector.unregister(client.sock)
                    client.close()
                    closed.append(source)
                    self.n_closed += 1
            if closed:
                self.open(closed.popleft())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.data[0].close()
        self.selector.close()


def serves_a_new_client(proxy):
    with proxy.connect("127.0.0.8") as new:
        response = new.ask(path="/ok")
    assert response.status in (200, 503)
    return response.status == 200


class Regular:
    """A client that asks now and then. A connection of it that was idle for EVICTION_GRACE_US may
    give way; it then opens another."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.open()

    def open(self):
        self.client = until(self.try_open, "a client to be served", 2)

    def try_open(self):
        self.asked = time.monotonic()
        client = self.proxy.connect("127.0.0.1")
        if client.ask(path="/ok").status == 200:
            return client
        client.close()
        return None

    def ask_in_pipeline(self, n):
        asked = time.monotonic()
        try:
            self.client.send(GET_OK * n)
            first = self.client.read()
        except (Cut, ConnectionError):
            assert time.monotonic() - self.asked >= GRACE_S, "it was not idle for long"
            self.open()
            self.client.send(GET_OK * n)
            first = self.client.read()
        self.asked = asked
        for response in [first, *(self.client.read() for _ in range(n - 1))]:
            assert response.status == 200 and response.get("Connection") is None


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("server_s, n_at_once", [(None, 64), (None, 1), (0.02, 64)])
def test_connections_that_pipeline_for_ever_lock_nobody_out(start, start_upstream, workers, server_s, n_at_once):
    def behave(peer, _):
        time.sleep(server_s)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    routes = OK if server_s is None else f"upstream: {start_upstream(behave).url}\n"
    proxy = start(policy(100, routes, workers))
    regular = [Regular(proxy) for _ in range(3)]
    with PipelineFlood(proxy, 50, n_at_once) as flood:
        until(lambda: flood.n_closed >= 100, "all places to be taken")
        if server_s is not None:  # EVICTIONS_DEFERRED_MAX connections may be waiting for their last answers
            until(lambda: serves_a_new_client(proxy), "a new client to be served", 2)
        for _ in range(12):
            assert serves_a_new_client(proxy)
            for client in regular:
                client.ask_in_pipeline(3)


def test_one_that_pipelines_ends_with_its_answer_and_says_so(start, start_upstream):
    released = threading.Event()

    def behave(peer, request):
        assert request.target == "/ok" or released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    upstream = start_upstream(behave)
    proxy = start(policy(MANY, f"upstream: {upstream.url}\n"))
    many = [proxy.connect("127.0.0.2") for _ in range(MANY)]
    for client in many:
        client.send(GET_OK + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + GET_OK)
        assert client.read().status == 200
    upstream.wait_for(2 * MANY)
    with proxy.connect("127.0.0.3") as new:
        ask(new)
    released.set()
    n_ended = 0
    for client in many:
        response = client.read()
        assert response.status == 200
        if response.get("Connection") == "close":
            n_ended += 1
            with pytest.raises((Cut, OSError)):
                client.read()
        else:
            assert client.read().get("Connection") is None
    assert n_ended == 1


@pytest.mark.parametrize("behind", [GET_OK, b""])
def test_one_gives_way_in_its_first_request_if_another_is_behind_it(start, start_upstream, behind):
    released = threading.Event()

    def behave(peer, _):
        assert released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    upstream = start_upstream(behave)
    proxy = start(policy(MANY, f"upstream: {upstream.url}\n"))
    many = [proxy.connect("127.0.0.2") for _ in range(MANY)]
    for client in many:
        client.send(GET_OK + behind)
    upstream.wait_for(MANY)
    with proxy.connect("127.0.0.3") as new:
        new.send(GET_OK)
        if behind:
            upstream.wait_for(MANY + 1)
        released.set()
        assert new.read().status == (200 if behind else 503)
    assert sum(client.read().get("Connection") == "close" for client in many) == (1 if behind else 0)


def test_a_few_that_pipeline_are_left_alone(start, start_upstream):
    released = threading.Event()

    def behave(peer, _):
        assert released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    upstream = start_upstream(behave)
    proxy = start(policy(MANY - 1, f"upstream: {upstream.url}\n"))
    few = [proxy.connect("127.0.0.2") for _ in range(MANY - 1)]
    for client in few:
        client.send(GET_OK * 2)
    upstream.wait_for(MANY - 1)
    with proxy.connect("127.0.0.3") as new:
        assert new.read().status == 503
    released.set()
    for client in few:
        assert [client.read().get("Connection") for _ in range(2)] == [None, None]


def test_one_that_gives_way_has_the_answer_under_way_whole(start, start_upstream):
    """A close with requests unread would destroy what its client has not read yet."""
    released = threading.Event()
    body = bytes(200_000)

    def behave(peer, _):
        assert released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    upstream = start_upstream(behave)
    proxy = start(policy(MANY, f"upstream: {upstream.url}\n"))
    many = [proxy.connect("127.0.0.2") for _ in range(MANY)]
    for client in many:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        client.send(GET_OK * 3000)
    upstream.wait_for(MANY)
    with proxy.connect("127.0.0.3") as new:
        new.send(GET_OK)
        upstream.wait_for(MANY + 1)
        released.set()
        assert new.read().status == 200
    with concurrent.futures.ThreadPoolExecutor(MANY) as pool:
        responses = list(pool.map(lambda client: client.read(), many))
    assert all(response.body == body for response in responses)
    assert sum(response.get("Connection") == "close" for response in responses) == 1
