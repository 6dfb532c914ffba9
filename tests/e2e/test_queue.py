"""Servers that may have so many connections and no more: who waits, in what order, for how long."""

import contextlib
import socket
import threading

import pytest

from harness.admin import Admin, addresses
from harness.upstream import answer
from harness.wait import until

PATIENT = "queue: {wait: 1m}"


def policy(servers, more, workers=1):
    listed = ", ".join(f"\"{server.url}\"" for server in servers)
    return f"""
        workers: {workers}
        admin: 127.0.0.1:0
        upstreams:
          api: {{servers: [{listed}], timeout: {{connect: 5s, idle: 1h}}, {more}}}
        routes: [{{upstream: api}}]
    """


class Slow:
    """A server that answers a request when it is let go, and knows how many it has at once."""

    def __init__(self, start_upstream):
        self.gates = {}
        self.order = []
        self.is_open = False
        self.lock = threading.Lock()
        self.n_busy = 0
        self.n_busy_max = 0
        self.upstream = start_upstream(self._behave)
        self.url = self.upstream.url

    def _behave(self, peer, request):
        with self.lock:
            gate = self.gates.setdefault(request.target, threading.Event())
            if self.is_open:
                gate.set()
            self.order.append(request.target)
            self.n_busy += 1
            self.n_busy_max = max(self.n_busy_max, self.n_busy)
        gate.wait()
        with self.lock:
            self.n_busy -= 1
        peer.send(answer(body=request.target.encode()))

    def let_go(self, target):
        until(lambda: target in self.gates, f"{target} at the server")
        self.gates[target].set()

    def let_all_go(self):
        with self.lock:
            self.is_open = True
            for gate in self.gates.values():
                gate.set()

    def n_connections(self):
        return len(self.upstream.open_peers())


@pytest.fixture(name="slow")
def start_slow(start_upstream):
    server = Slow(start_upstream)
    yield server
    server.let_all_go()


def send(proxy, target, method="GET"):
    client = proxy.send(f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
    client.method = method
    return client


def body_of(client):
    response = client.read()
    assert response.status == 200
    return response.body.decode()


def await_waiting(proxy, n):
    """So many are in the queue: a request that was sent may not have been read."""
    operator = Admin(addresses(proxy)[0])
    until(lambda: operator.read("/v1/upstreams")["upstreams"][0]["waiting"] == n, f"{n} in the queue")


def assert_refused(response, detail):
    assert response.status == 503
    assert int(response.get("Retry-After")) >= 1
    assert detail in response.json()["detail"]


def test_who_waits_is_served_in_order(start, slow):
    proxy = start(policy([slow], f"max_connections: 1, {PATIENT}"))
    clients = [send(proxy, "/0")]
    until(lambda: slow.order == ["/0"], "the first at the server")
    for number in range(1, 6):
        clients.append(send(proxy, f"/{number}", "POST" if number % 2 else "GET"))
        await_waiting(proxy, number)
    assert slow.order == ["/0"] and slow.n_connections() == 1
    for number, client in enumerate(clients):
        slow.let_go(f"/{number}")
        assert body_of(client) == f"/{number}"
    assert slow.order == [f"/{number}" for number in range(6)]
    assert slow.upstream.n_connections == 1, "the connection is handed on"
    lines = proxy.log_lines(6)
    assert "queued_us" not in lines[0]
    assert all(int(line["queued_us"]) > 0 for line in lines[1:])


def test_too_many_that_wait_are_refused_at_once(start, slow):
    proxy = start(policy([slow], "max_connections: 1, queue: {requests: 2, wait: 1m}"))
    clients = [send(proxy, f"/{number}") for number in range(3)]
    until(lambda: len(slow.order) == 1, "one at the server")
    await_waiting(proxy, 2)
    assert_refused(send(proxy, "/late").read(), "as many requests wait")
    slow.let_all_go()
    assert sorted(body_of(client) for client in clients) == ["/0", "/1", "/2"]


def test_a_queue_of_none_lets_nobody_wait(start, slow):
    proxy = start(policy([slow], "max_connections: 1, queue: 0"))
    first = send(proxy, "/0")
    until(lambda: len(slow.order) == 1, "one at the server")
    assert_refused(proxy.ask(), "as many requests wait")
    slow.let_all_go()
    assert body_of(first) == "/0"
    assert proxy.ask(path="/again").status == 200


def test_who_has_waited_long_enough_is_refused(start, slow):
    proxy = start(policy([slow], "max_connections: 1, queue: {wait: 100ms}"))
    first = send(proxy, "/0")
    until(lambda: len(slow.order) == 1, "one at the server")
    with proxy.connect() as client:
        assert_refused(client.ask(path="/1"), "in time")
        assert_refused(client.ask("POST", "/2", body=b"x" * 1000), "in time")
        slow.let_all_go()
        assert body_of(first) == "/0"
        assert client.ask(path="/3").status == 200, "the connection is good for more"
    assert slow.order == ["/0", "/3"]


def test_a_body_that_waits_with_its_request_arrives(start, slow):
    proxy = start(policy([slow], f"max_connections: 1, {PATIENT}"))
    first = send(proxy, "/0")
    until(lambda: len(slow.order) == 1, "one at the server")
    body = bytes(range(256)) * 2000
    second = proxy.connect()
    thread = threading.Thread(target=second.send, args=(
        b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body,))
    thread.start()
    await_waiting(proxy, 1)
    assert second.is_quiet(0.1)
    slow.let_all_go()
    assert body_of(first) == "/0" and body_of(second) == "/1"
    thread.join()
    assert slow.upstream.last.body == body


@pytest.mark.parametrize("how", ["reset", "end", "close"])
def test_who_leaves_is_taken_out_of_the_queue(start, slow, how):
    proxy = start(policy([slow], "max_connections: 1, queue: {requests: 1, wait: 1m}"))
    first = send(proxy, "/0")
    until(lambda: len(slow.order) == 1, "one at the server")
    leaving = send(proxy, "/leaving")
    await_waiting(proxy, 1)
    getattr(leaving, how)()
    line, = proxy.lines_of("/leaving", 1)
    assert line["status"] == "0" and "left" in line["fault"]
    last = send(proxy, "/last")
    await_waiting(proxy, 1)
    slow.let_all_go()
    assert body_of(first) == "/0" and body_of(last) == "/last"
    assert slow.order == ["/0", "/last"]


def test_slots_of_concurrency_are_held_while_waiting(start, slow):
    proxy = start(f"""
        workers: 1
        admin: 127.0.0.1:0
        limits: {{few: {{key: global, algorithm: concurrency, rate: 2}}}}
        upstreams: {{api: {{servers: "{slow.url}", max_connections: 1, {PATIENT}}}}}
        routes: [{{upstream: api, limits: [few]}}]
    """)
    clients = [send(proxy, "/0"), send(proxy, "/1")]
    until(lambda: len(slow.order) == 1, "one at the server")
    await_waiting(proxy, 1)
    assert proxy.ask().status == 429, "both slots are taken"
    slow.let_all_go()
    assert sorted(body_of(client) for client in clients) == ["/0", "/1"]
    until(lambda: proxy.ask().status == 200, "the slots to be free")


def test_connections_are_those_of_all_workers(start, slow):
    proxy = start(policy([slow], f"max_connections: 3, {PATIENT}", workers=4))
    clients = [send(proxy, f"/{number}") for number in range(40)]
    until(lambda: len(slow.order) == 3, "three at the server")
    await_waiting(proxy, 37)
    assert all(client.is_quiet(0.01) for client in clients)
    assert slow.n_connections() == 3 and slow.n_busy == 3
    slow.let_all_go()
    assert sorted(body_of(client) for client in clients) == sorted(f"/{i}" for i in range(40))
    assert slow.n_busy_max == 3 and slow.upstream.n_connections <= 6


def test_an_idle_connection_of_another_worker_is_handed_over(start, start_upstream):
    """Without waiting for its idle timeout, and without a connection more."""
    upstream = start_upstream()
    proxy = start(policy([upstream], f"max_connections: 1, {PATIENT}", workers=4))
    clients = [proxy.connect() for _ in range(24)]  # some of them at each worker
    for _ in range(4):
        for client in clients:
            assert client.ask().status == 200
    assert upstream.n_connections == 1


def test_a_server_with_room_serves_who_waits(start, start_upstream):
    servers = [Slow(start_upstream), Slow(start_upstream)]
    proxy = start(policy(servers, f"max_connections: 1, {PATIENT}"))
    clients = [send(proxy, f"/{number}") for number in range(4)]
    until(lambda: servers[0].n_busy == servers[1].n_busy == 1, "one at each")
    await_waiting(proxy, 2)
    assert all(client.is_quiet(0.02) for client in clients)
    busy = servers[0].order[0]
    servers[0].let_go(busy)
    until(lambda: len(servers[0].order) == 2, "the next at the server that became free")
    for server in servers:
        server.let_all_go()
    assert sorted(body_of(client) for client in clients) == ["/0", "/1", "/2", "/3"]


def test_a_connection_that_dies_makes_room(start, start_upstream):
    go = threading.Event()

    def behave(peer, request):
        if request.target == "/dies":
            go.wait()
            peer.close()
        else:
            peer.send(answer())

    upstream = start_upstream(behave)
    proxy = start(policy([upstream], f"max_connections: 1, {PATIENT}"))
    dying = send(proxy, "/dies", "POST")
    until(lambda: upstream.requests, "it at the server")
    waiting = [send(proxy, f"/{number}") for number in range(3)]
    await_waiting(proxy, 3)
    go.set()
    assert dying.read().status == 502
    assert [client.read().status for client in waiting] == [200] * 3


def test_who_waits_for_a_server_that_goes_away_is_told(start, slow):
    proxy = start(policy([slow], f"max_connections: 1, {PATIENT}"))
    first = send(proxy, "/0")
    until(lambda: slow.order, "one at the server")
    waiting = [send(proxy, "/1"), send(proxy, "/2")]
    await_waiting(proxy, 2)
    slow.upstream.stop()
    assert first.read().status == 502
    assert [client.read().status for client in waiting] == [502, 502]


def test_who_waits_goes_to_a_server_that_comes_in(start, start_upstream):
    gate = threading.Event()
    health = {"answer": answer("500 No")}

    def behave_ill(peer, request):
        if request.target == "/healthz":
            peer.send(health["answer"])
            peer.close()
        else:
            peer.send(answer(body=b"ill"))

    def behave_busy(peer, request):
        if request.target != "/healthz":
            gate.wait()
        peer.send(answer(body=b"busy"))

    ill, busy = start_upstream(behave_ill), start_upstream(behave_busy)
    proxy = start(policy([ill, busy], f"max_connections: 1, {PATIENT}, "
                         "health: {path: /healthz, interval: 20ms, timeout: 1m}"))
    until(lambda: 'msg="server is down"' in proxy.stderr(), "the server to be down")
    first = send(proxy, "/0")
    until(lambda: any(request.target == "/0" for request in busy.requests), "one at the other")
    waiting = [send(proxy, f"/{number}") for number in range(1, 4)]
    await_waiting(proxy, 3)
    health["answer"] = answer()
    assert [body_of(client) for client in waiting] == ["ill"] * 3
    gate.set()
    assert body_of(first) == "busy"


def test_a_proxy_that_stops_serves_who_waits(start, slow):
    proxy = start(policy([slow], f"max_connections: 1, {PATIENT}", workers=4))
    clients = [send(proxy, f"/{number}") for number in range(10)]
    until(lambda: len(slow.order) == 1, "one at the server")
    await_waiting(proxy, 9)
    assert all(client.is_quiet(0.02) for client in clients)
    proxy.signal()
    until(lambda: "draining" in proxy.stderr(), "the signal")
    slow.let_all_go()
    assert sorted(body_of(client) for client in clients) == [f"/{i}" for i in range(10)]
    assert proxy.wait() == 0


def test_hash_spills_over_before_anybody_waits(start, start_upstream):
    servers = [Slow(start_upstream), Slow(start_upstream)]
    proxy = start(policy(servers, "max_connections: 1, balance: hash(method)"))
    clients = [send(proxy, "/0"), send(proxy, "/1")]
    until(lambda: servers[0].n_busy == servers[1].n_busy == 1, "one at each")
    for server in servers:
        server.let_all_go()
    assert [body_of(client) for client in clients] == ["/0", "/1"]


ESTABLISHED = 1


def n_open(upstream):
    """Connections that the proxy has not closed, by the kernel: it tells each end at once, and a server may read
    of it late. Those that are open when they are looked at were open when this began."""
    n = 0
    for peer in upstream.open_peers():
        with contextlib.suppress(OSError):  # the server has closed it meanwhile
            n += peer.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED
    return n


def test_a_rush_over_all_workers_passes_through_few_connections(start, start_upstream):
    """Nobody is forgotten, nobody gets another's answer, and no server ever has a connection more."""
    most = []

    def behave(peer, request):
        most.append(n_open(peer.upstream))
        if peer.n_requests % 7 == 0:
            peer.close()  # a kept connection dies now and then
        else:
            peer.send(answer(body=request.target.encode()))

    servers = [start_upstream(behave), start_upstream(behave)]
    proxy = start(policy(servers, "max_connections: 2, queue: {requests: 1000, wait: 1m}, "
                         "eject: off, retries: 10", workers=4))
    wrong = []

    def run(number):
        for i in range(40):
            with proxy.connect() as client:
                for j in range(3):
                    target = f"/{number}-{i}-{j}"
                    response = client.ask(path=target)
                    if response.status != 200 or response.body != target.encode():
                        wrong.append((target, response.status, response.body))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert max(most) == 2
