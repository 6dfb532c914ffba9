"""Connections that wait for their clients give way to new ones: a few addresses lock nobody out."""

import collections
import contextlib
import re
import socket
import threading
import time

import pytest

from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

from harness.client import Client
from harness.http2 import Http2Client
from harness.message import Cut
from harness.wait import Stalls, until

OK = "routes: [{match: {path: /ok}, respond: {status: 200, body: ok}}]\n"
GRACE_S = 0.1  # EVICTION_GRACE_US
REQUEST_GRACE_S = 1.0  # EVICTION_REQUEST_GRACE_US
PENDING_MAX = 96  # EVICTIONS_PENDING_MAX
ATTACKERS = [f"127.0.0.{i}" for i in range(2, 7)]


def policy(connections, workers=1, more="", routes=OK):
    return f"workers: {workers}\nmax: {{connections: {connections}}}\n{more}\n{routes}"


def buffered(upstream, buffer):
    return f"upstreams: {{api: {{servers: '{upstream.url}', buffer: {buffer}}}}}\nroutes: [{{upstream: api}}]\n"


def ask(client):
    response = client.ask(path="/ok")
    assert response.status == 200 and response.body == b"ok"


def is_open(client):
    """Neither closed nor told anything; known after what came before has been served."""
    return client.is_quiet(0)


def await_closed(client):
    until(lambda: not client.is_quiet(0), "the connection to be closed")
    assert client.has_ended()


def after(seconds, since):
    """Wait until a time that the proxy counts has passed."""
    time.sleep(max(0.0, since + seconds + 0.02 - time.monotonic()))


def await_accepted(proxy):
    """The kernel shows what waits to be accepted as the receive queue of the listening socket."""
    def none_waits():
        with open("/proc/net/tcp", encoding="ascii") as file:
            sockets = [line.split() for line in file]
        return all(queues.endswith(":00000000") for _, local, _, state, queues, *_ in sockets
                   if state == "0A" and local.endswith(f":{proxy.port:04X}"))

    until(none_waits, "all connections to be accepted")


def after_grace(proxy):
    """Wait until every connection so far may give way."""
    await_accepted(proxy)
    after(GRACE_S, time.monotonic())


def let_in(connect, *arguments, path="/ok"):
    """A new connection that is served. One that comes before the proxy sees that a time has passed is refused, for
    which nobody gives way."""
    def is_served():
        new = connect(*arguments)
        with contextlib.suppress(Cut, OSError):  # refused, and what it sent came too late
            response = new.ask(path=path)
            if response.status == 200:
                return new
            assert response.status == 503
        new.close()
        return None

    return until(is_served, "a connection to give way")


# --- who gives way ---


def test_the_silent_connection_that_is_oldest_gives_way_without_an_answer(start):
    proxy = start(policy(3))
    silent = [proxy.connect() for _ in range(3)]
    after_grace(proxy)
    with let_in(proxy.connect) as new:
        await_closed(silent[0])
        assert is_open(silent[1]) and is_open(silent[2])
    assert not proxy.all_log_lines()[1:], "a silent connection leaves no line"


def test_silent_ones_give_way_before_idle_ones_of_the_same_client(start):
    proxy = start(policy(4))
    idle = [proxy.connect() for _ in range(3)]
    for client in idle:
        ask(client)
    silent = proxy.connect()
    after_grace(proxy)
    with let_in(proxy.connect) as new:
        await_closed(silent)
        assert all(is_open(client) for client in idle)


def test_the_client_with_the_most_silent_connections_gives_way_first(start):
    proxy = start(policy(6))
    few = [proxy.connect("127.0.0.2") for _ in range(2)]
    many = [proxy.connect("127.0.0.3") for _ in range(4)]
    after_grace(proxy)
    with let_in(proxy.connect, "127.0.0.4") as first:
        await_closed(many[0])
        with let_in(proxy.connect, "127.0.0.5") as second:
            await_closed(many[1])
        assert all(is_open(client) for client in few + many[2:])


def test_of_idle_ones_that_of_the_client_with_the_most_that_is_idle_longest_gives_way(start):
    proxy = start(policy(6))
    few = [proxy.connect("127.0.0.2") for _ in range(2)]
    many = [proxy.connect("127.0.0.3") for _ in range(4)]
    for client in few + many + many[:1]:
        ask(client)
    after_grace(proxy)
    with let_in(proxy.connect, "127.0.0.4") as new:
        await_closed(many[1])
        assert all(is_open(client) for client in few + many[:1] + many[2:])


def test_an_unfinished_head_gives_way_after_a_moment_and_is_told_408(start):
    proxy = start(policy(2))
    heads = [proxy.send(b"GET /ok HTTP/1.1\r\nX-Slow: ") for _ in range(2)]
    with proxy.connect() as new:  # neither has had its time
        refused = new.read()
        assert refused.status == 503 and refused.get("Retry-After") == "1" and new.has_ended()
    after(REQUEST_GRACE_S, time.monotonic())
    with let_in(proxy.connect) as new:
        response = heads[0].read()
        assert response.status == 408 and response.get("Connection") == "close" and heads[0].has_ended()
        heads[1].send(b"1\r\nHost: a\r\n\r\n")
        assert heads[1].read().status == 200
    line = next(line for line in proxy.log_lines(3) if line["status"] == "408")
    assert "too many connections" in line["fault"]


def test_a_request_under_way_is_not_evicted(start, start_upstream):
    released = threading.Event()

    def behave(peer, _):
        assert released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

    upstream = start_upstream(behave)
    proxy = start(policy(2, routes=f"upstream: {upstream.url}\n"))
    busy = [proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(2)]
    upstream.wait_for(2)
    after(REQUEST_GRACE_S, time.monotonic())
    with proxy.connect() as new:
        assert new.read().status == 503
    released.set()
    assert [client.read().status for client in busy] == [200, 200]


def test_a_body_that_is_buffered_gives_way_after_a_moment_and_is_told_408(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(2, routes=buffered(upstream, "{wait: 1m}")))
    began = time.monotonic()
    bodies = [proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab") for _ in range(2)]
    with proxy.connect() as new:  # neither has had its time
        assert new.read().status == 503
    after(REQUEST_GRACE_S, began)
    with let_in(proxy.connect):
        response = bodies[0].read()
        assert response.status == 408 and response.get("Connection") == "close" and bodies[0].has_ended()
        bodies[1].send(b"cde")
        assert bodies[1].read().status == 200
    line = next(line for line in proxy.log_lines(3) if line["status"] == "408")
    assert "too many connections" in line["fault"]


def test_a_buffered_body_that_has_its_server_is_not_evicted(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(1, routes=buffered(upstream, "{wait: 100ms, min_upload: off}")))
    busy = proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    until(lambda: upstream.n_connections, "the server to be asked")
    after(REQUEST_GRACE_S, time.monotonic())
    with proxy.connect() as new:
        assert new.read().status == 503
    busy.send(b"cde")
    assert busy.read().status == 200


def test_an_http2_connection_whose_bodies_are_all_buffered_gives_way(start, start_upstream):
    released = threading.Event()

    def behave(peer, request):
        assert request.target == "/" or released.wait(60)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    upstream = start_upstream(behave)
    proxy = start(policy(2, more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]", routes=buffered(upstream, "{wait: 1m}")))
    address = proxy.address
    with Http2Client(address) as waiting, Http2Client(address) as busy:
        streams = [waiting.begin(waiting.fields("POST"), ends=False) for _ in range(2)]
        busy.begin(busy.fields("POST"), ends=False)
        slow = busy.begin(busy.fields(path="/slow"))
        upstream.wait_for(1)
        waiting.pong()
        after(REQUEST_GRACE_S, time.monotonic())
        let_in(proxy.connect, path="/").close()
        assert [waiting.answer(stream).status for stream in streams] == [408, 408]
        assert waiting.read_to_end() == "NO_ERROR"
        released.set()
        assert busy.answer(slow).status == 200


def begin_head(client, is_frame_whole):
    """HEADERS without END_HEADERS, or the frame without its last bytes; what would complete the head."""
    block = client.encoder.encode(client.fields(path="/ok"))
    frame = HeadersFrame(1, block, flags=["END_STREAM"] if is_frame_whole else ["END_STREAM", "END_HEADERS"])
    n_sent = None if is_frame_whole else -2
    client.send_raw(frame.serialize()[:n_sent])
    return frame.serialize()[-2:]


def test_an_unfinished_http2_head_gives_way_after_a_moment(start):
    proxy = start(policy(2, more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]"))
    with Http2Client(proxy.address) as block, contextlib.ExitStack() as later:
        block.acknowledges = False  # inside its head that would be a fault
        begin_head(block, is_frame_whole=True)
        frame = later.enter_context(Http2Client(proxy.address))  # the younger one in any case
        rest = begin_head(frame, is_frame_whole=False)
        with proxy.connect() as new:  # neither has had its time
            assert new.read().status == 503
        after(REQUEST_GRACE_S, time.monotonic())
        with let_in(proxy.connect) as new:
            assert block.read_to_end() == "NO_ERROR"
            frame.send_raw(rest)
            assert frame.answer(1).status == 200
    until(lambda: "kind=head" in proxy.stderr(), "the eviction in the log")


@pytest.mark.parametrize("path", ["/none", "/long"])  # an answer that is kept without its exchange, and one with it
def test_http2_answers_that_wait_for_a_closed_window_give_way(start, path):
    routes = OK[:-2] + ", {match: {path: /long}, respond: {status: 200, body: " + 4096 * "x" + "}}]\n"
    proxy = start(policy(2, more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]", routes=routes))
    shut = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    with Http2Client(proxy.address, settings=shut) as one, Http2Client(proxy.address, settings=shut) as other:
        for client in (one, other):
            stream = client.begin(path=path)
            client.read_until(lambda stream=stream, client=client: client.answer_of(stream).heads)
        began = time.monotonic()
        with proxy.connect() as new:  # neither has had its time
            assert new.read().status == 503
        after(REQUEST_GRACE_S / 2, began)
        for client in (one, other):  # a further one gains no time
            client.begin(path=path)
            client.pong()
        after(REQUEST_GRACE_S, began)
        with let_in(proxy.connect) as new:
            assert one.read_to_end() == "NO_ERROR"
            other.pong()
    until(lambda: "kind=idle" in proxy.stderr(), "the eviction in the log")


CONTINUATIONS = HeadersFrame(1, b"\x82", flags=[]).serialize() + 20 * ContinuationFrame(1, b"\x86").serialize()
BROKEN = b"\0\0\4\x08\0\0\0\0\0\0\0\0\0"  # WINDOW_UPDATE of 0
PINGS = 170 * PingFrame(0, b"floods!!").serialize()  # more than are answered at once

EMPTY = HeadersFrame(1, b"\x83\x86\x84\x41\x01a", flags=["END_HEADERS"]).serialize() \
    + 160 * DataFrame(1, b"").serialize() + RstStreamFrame(1, 8).serialize()  # three quarters of the budget


def abuse(proxy, sent, code):
    """A connection that has been told by GOAWAY; when that was."""
    client = Http2Client(proxy.address)
    client.send_raw(sent)
    client.read_until(lambda: client.goaway)
    assert client.goaway[1] == code
    return client, time.monotonic()


@pytest.mark.parametrize("sent, code", [(CONTINUATIONS, "ENHANCE_YOUR_CALM"), (BROKEN, "PROTOCOL_ERROR"), (PINGS, "ENHANCE_YOUR_CALM"), (EMPTY, "NO_ERROR")],
                         ids=["continuations", "broken", "pings", "three_quarters"])
def test_who_floods_is_closed_after_a_pause_and_not_read_in_it(start, sent, code):
    proxy = start(policy(2, more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]"))
    client, told_at = abuse(proxy, sent, code)
    with client:
        client.send_raw(PingFrame(0, b"12345678").serialize())
        assert client.read_to_end() == code
        assert time.monotonic() - told_at > 0.9
        assert not any(isinstance(frame, PingFrame) and frame.opaque_data == b"12345678" for frame in client.frames)


def test_who_floods_gives_way_in_the_pause(start):
    proxy = start(policy(1, more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]"))
    client, _ = abuse(proxy, CONTINUATIONS, "ENHANCE_YOUR_CALM")
    with client, proxy.connect() as new:
        ask(new)
        assert client.read_to_end() == "ENHANCE_YOUR_CALM"


LONG = "x" * 8000
OWN_ANSWERS = OK[:-2] + f", {{match: {{path: /long}}, respond: {{status: 200, body: {LONG}}}}}]\n"
STUBBORN = "timeouts: {head: 1h, idle: 1h, body_rate: off}\n"  # nothing else ends them


def fill_unread(proxy, path, version):
    """A connection whose answers fill its socket, and are not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    sock.connect(proxy.address)
    if version == 1:
        requests = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 30000
    else:
        client = Http2Client(proxy.address, sock=sock)
        client.send_raw = lambda data: sent.append(data)
        sent = []
        for _ in range(2000):
            client.begin(path=path)
        requests = b"".join(sent)
    sock.setblocking(False)
    n_sent, last = 0, time.monotonic()
    while n_sent < len(requests) and time.monotonic() - last < 0.3:  # until the proxy reads no more
        with contextlib.suppress(BlockingIOError):
            n_sent += sock.send(requests[n_sent:n_sent + 4096])
            last = time.monotonic()
    return sock


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", ["/none", "/long"])  # an answer that is kept without its exchange, and one with it
def test_own_answers_that_are_not_read_give_way(start, path, version):
    proxy = start(policy(2, routes=STUBBORN + OWN_ANSWERS, more=(
        "listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]\nlog: off")).replace(
            "max: {", "max: {streams: 1000, requests_per_connection: 100000, "))

    def is_let_in():
        with proxy.connect() as new:
            return new.ask(path="/ok").status == 200

    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(fill_unread(proxy, path, version))
        until(is_let_in, "a connection to give way", within=10)
    until(lambda: "kind=idle" in proxy.stderr(), "the eviction in the log")


@pytest.mark.takes(10)
def test_an_http2_connection_that_gave_up_unread_answers_gives_way(start):
    """It rests, and its socket takes no GOAWAY."""
    proxy = start(policy(1, routes="timeouts: {head: 500ms, idle: 1h}\n" + OWN_ANSWERS,
                         more="listen: [{address: 127.0.0.1:0, http: [2, 1.1]}]"))
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(proxy.address)
        client = Http2Client(proxy.address, sock=sock)
        for _ in range(100):
            client.begin(path="/long")
        proxy.log_lines(100)  # written, or given up

        def is_let_in():
            with proxy.connect() as new:
                return new.ask(path="/ok").status == 200

        until(is_let_in, "the connection to give way", within=10)


def test_an_own_answer_has_a_moment_to_be_read(start):
    proxy = start(policy(1, routes=STUBBORN + OWN_ANSWERS, more="log: off"))
    began = time.monotonic()
    with fill_unread(proxy, "/long", 1):
        while time.monotonic() < began + REQUEST_GRACE_S / 2:
            with proxy.connect() as new:
                assert new.read().status == 503


def test_an_answer_that_lingers_gives_way(start):
    proxy = start(policy(1))
    with proxy.send(b"BAD\r\n\r\nmore") as answered:
        assert answered.read().status == 400
        after_grace(proxy)
        let_in(proxy.connect).close()


# --- who is protected ---


def test_connections_of_trusted_proxies_are_never_evicted(start):
    proxy = start(policy(3, more="trusted_proxies: [127.0.0.9]"))
    pool = [proxy.connect("127.0.0.9") for _ in range(2)]
    ask(pool[1])
    silent = proxy.connect("127.0.0.2")
    after_grace(proxy)
    with let_in(proxy.connect, "127.0.0.3") as new:
        await_closed(silent)
        after_grace(proxy)
        with let_in(proxy.connect, "127.0.0.3") as another:
            await_closed(new)
    for client in pool:
        ask(client)


def test_a_trusted_proxy_takes_the_place_of_another_client(start):
    proxy = start(policy(2, more="trusted_proxies: [127.0.0.9]"))
    silent = [proxy.connect("127.0.0.2") for _ in range(2)]
    after_grace(proxy)
    with let_in(proxy.connect, "127.0.0.9") as trusted:
        await_closed(silent[0])


def test_connections_on_unix_sockets_are_never_evicted(start, tmp_path):
    path = str(tmp_path / "proxy.sock")
    proxy = start(f"listen: [127.0.0.1:0, 'unix:{path}']\n" + policy(2))
    pool = Client(path)
    silent = proxy.connect()
    after_grace(proxy)
    with let_in(proxy.connect) as new:
        await_closed(silent)
    ask(pool)
    pool.close()


def test_all_places_are_protected_ones_then_new_ones_are_refused(start):
    proxy = start(policy(2, more="trusted_proxies: [127.0.0.9]"))
    pool = [proxy.connect("127.0.0.9") for _ in range(2)]
    after_grace(proxy)
    with proxy.connect("127.0.0.2") as new:
        assert new.read().status == 503 and new.has_ended()
    for client in pool:
        ask(client)


PROXIED = """trusted_proxies: [127.0.0.1]
listen: {address: 127.0.0.1:0, proxy_protocol: true}"""


def named(proxy, address):
    return proxy.send(f"PROXY TCP4 {address} 127.0.0.1 1 2\r\n".encode())


def test_with_the_proxy_protocol_the_client_that_is_named_is_ranked_and_its_header_is_no_request(start):
    proxy = start(policy(4, more=PROXIED))
    few = named(proxy, "192.0.2.1")
    many = [named(proxy, "192.0.2.2") for _ in range(3)]
    after_grace(proxy)
    with let_in(named, proxy, "192.0.2.3") as new:
        await_closed(many[0])
        assert is_open(few)
    until(lambda: "client=192.0.2.2 kind=silent" in proxy.stderr(), "the eviction to be logged")


def test_a_connection_that_the_proxy_makes_for_itself_is_protected(start):
    proxy = start(policy(2, more=PROXIED))
    own = proxy.send(b"PROXY UNKNOWN\r\n")
    silent = named(proxy, "192.0.2.1")
    after_grace(proxy)
    with let_in(named, proxy, "192.0.2.2") as new:
        await_closed(silent)
    ask(own)


def test_a_48_of_ipv6_is_one_client(start):
    proxy = start(policy(6, more=PROXIED))

    def of(address):
        return proxy.send(f"PROXY TCP6 {address} ::1 1 2\r\n".encode())

    few = [of("2001:db8:1::1") for _ in range(2)]
    many = [of(f"2001:db8:2:{i}::1") for i in range(4)]
    after_grace(proxy)
    with let_in(of, "2001:db8:3::1") as new:
        await_closed(many[0])
        assert all(is_open(client) for client in few)


# --- the time for the first head ---


def test_a_silent_connection_is_closed_after_timeouts_head_without_an_answer(start):
    proxy = start(policy(10, more="timeouts: {head: 1s, idle: 60s}"))
    began = time.monotonic()
    with proxy.connect() as silent:
        assert silent.has_ended()
    assert 0.9 < time.monotonic() - began < 30


def test_the_first_head_has_its_time_from_accept(start):
    proxy = start(policy(10, more="timeouts: {head: 3s, idle: 60s}"))
    with Stalls() as stalls:
        began = time.monotonic()
        with proxy.connect() as late:
            time.sleep(2.5)
            late.send(b"GET /ok HTTP/1.1\r\n")
            assert late.read().status == 408
        took_s = time.monotonic() - began
    assert took_s < 5.4 + stalls.total_s, "not from its first byte"


def test_later_heads_have_their_time_from_their_first_byte_and_idle_before_it(start):
    proxy = start(policy(10, more="timeouts: {head: 1s, idle: 60s}"))
    with proxy.connect() as client:
        ask(client)
        assert client.is_quiet(1.5)
        client.send(b"GET /ok HTTP/1.1\r\n")
        assert client.is_quiet(0.5)
        client.send(b"Host: a\r\n\r\n")
        assert client.read().status == 200


@pytest.mark.parametrize("header", [False, True])
def test_a_trusted_proxy_keeps_idle_before_its_first_byte(start, header):
    listen = "listen: {address: 127.0.0.1:0, proxy_protocol: true}" if header else ""
    proxy = start(policy(10, more=f"trusted_proxies: [127.0.0.1]\ntimeouts: {{head: 1s, idle: 60s}}\n{listen}"))
    with proxy.connect() as client:
        if header:
            client.send(b"PROXY UNKNOWN\r\n")
        assert client.is_quiet(1.8)
        ask(client)


def test_what_a_proxy_header_names_has_timeouts_head(start):
    proxy = start(policy(10, more=PROXIED + "\ntimeouts: {head: 1s, idle: 60s}"))
    with named(proxy, "192.0.2.1") as client:
        assert client.has_ended()


# --- telling it ---


def test_evictions_are_counted_and_logged_at_most_once_a_second(start, tmp_path):
    path = tmp_path / "admin.sock"
    proxy = start(policy(2, more=f"admin: {{listen: 'unix:{path}'}}"))
    clients = [proxy.connect() for _ in range(2)]
    began = time.monotonic()
    for _ in range(5):
        after_grace(proxy)
        clients.append(let_in(proxy.connect))

    def page():
        with Client(str(path)) as admin:
            return admin.ask(path="/metrics", host="localhost").body.decode()

    n = {kind: int(re.search(rf'sluice_connections_evicted_total{{kind="{kind}"}} (\d+)', page())[1])
         for kind in ("silent", "idle", "head", "body")}
    assert n == {"silent": 2, "idle": 3, "head": 0, "body": 0}
    n_lines = proxy.await_said("connection evicted for a new one").count("connection evicted for a new one")
    assert n_lines <= 1 + (time.monotonic() - began)


def test_descriptors_that_run_out_are_made_free_too(start):
    proxy = start("workers: 1\n" + OK, descriptors=(64, 64))
    silent = [proxy.connect("127.0.0.2") for _ in range(64)]
    after(GRACE_S, time.monotonic())
    for _ in range(20):
        with proxy.connect("127.0.0.3") as client:
            ask(client)
    for client in silent:
        client.close()


# --- floods ---


class SilentFlood:
    """Connections from a few addresses, so many a second, that never say a word."""

    def __init__(self, proxy, per_s, first_bytes=b""):
        self.proxy, self.per_s, self.first_bytes = proxy, per_s, first_bytes
        self.clients = collections.deque()
        self.n = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(1 / self.per_s):
            try:
                client = self.proxy.connect(ATTACKERS[self.n % len(ATTACKERS)])
                client.send(self.first_bytes)
            except OSError:
                continue  # refused: the next one tries again
            self.clients.append(client)
            self.n += 1
            while len(self.clients) > 400:
                self.clients.popleft().close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        for client in self.clients:
            client.close()


@pytest.mark.parametrize("workers", [1, 4])
def test_a_flood_of_silent_connections_locks_nobody_out(start, workers):
    proxy = start(policy(60, workers=workers))
    regular = [proxy.connect("127.0.0.1") for _ in range(10)]
    for client in regular:
        ask(client)
    worst_s = 0.0
    with SilentFlood(proxy, 67) as flood:
        until(lambda: flood.n >= 100, "all places to be taken")
        for _ in range(60):
            began = time.monotonic()
            with proxy.connect("127.0.0.8") as new:
                ask(new)
            worst_s = max(worst_s, time.monotonic() - began)
            for client in regular:
                ask(client)
            time.sleep(0.02)
        assert flood.n >= 120
    assert worst_s < 5.0, "a fraction of a second on a machine that does nothing else"
    assert "too many connections" not in proxy.log_at_end()


@pytest.mark.takes(6)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("first_bytes", [b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n", b"G"])
def test_connections_that_speak_once_and_then_wait_lock_nobody_out(start, workers, first_bytes):
    proxy = start(policy(60, workers=workers))
    regular = [proxy.connect("127.0.0.1") for _ in range(3)]
    n_refused = n_served = 0
    for client in regular:
        ask(client)
    with SilentFlood(proxy, 30, first_bytes) as flood:
        until(lambda: flood.n >= 70, "all places to be taken")
        for _ in range(40):
            try:
                with proxy.connect("127.0.0.8") as new:
                    served = new.ask(path="/ok").status == 200
            except (Cut, OSError):
                served = False
            n_served += served
            n_refused += not served
            for client in regular:
                ask(client)
            time.sleep(0.05)
    assert n_refused == 0 and n_served == 40


@pytest.mark.takes(5)
@pytest.mark.parametrize("workers", [1, 4])
def test_the_maximum_holds_over_all_workers(start, workers):
    n_max = 50
    proxy = start(policy(n_max, workers=workers) + "log: off\n")
    assert proxy.ask(path="/ok").status == 200
    n_own = proxy.n_descriptors()
    most = 0
    with SilentFlood(proxy, 1000) as flood:
        until(lambda: flood.n >= 80, "all places to be taken")
        ends = time.monotonic() + 4
        while time.monotonic() < ends:
            most = max(most, proxy.n_descriptors() - n_own)
    # Descriptors also come with the address that is resolved, the file that is read: a few.
    assert most <= n_max + (1 if workers == 1 else PENDING_MAX) + 8
    until(lambda: proxy.n_descriptors() - n_own <= n_max + 8, "those beyond it to be closed")
