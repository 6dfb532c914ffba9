"""Clients that read a long answer slowly: a server that waits for them is freed (min_download). A server
that is itself waited for is not taken from them."""

import contextlib
import re
import socket
import threading
import time

import pytest
from hyperframe.frame import SettingsFrame, WindowUpdateFrame

from harness.admin import Admin, addresses
from harness.http2 import Closed, Http2Client
from harness.http2_server import Http2Server
from harness.wait import Stalls, holds_unless_it_stalls, until

MIB = 1 << 20
BIG = 64 * MIB  # more than the buffers of all sockets on the way
SLOW, FAIR = 1024, 20 * 1024  # bytes a second
LOST_S = 8.0  # 5 s saved up, used at 15/16 of a second each second, two checks; and the first block
PHONE = 64 * 1024
STALLED_S = 0.3  # it may be longer: each has a moment in advance, and some more for all of a client
STALL_S = 5.0  # a phone that has saved it up may stand still for so long
WATCHED_S = 9.0
FAULT = "the client reads too slowly for a server to wait for it"
RESET = "ENHANCE_YOUR_CALM"

POLICY = """
listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
workers: 1
admin: 127.0.0.1:0
{top}
upstreams:
  one: {{servers: "{one}"{more}}}
  two: {{servers: "{two}"{more}}}
routes:
- {{match: {{path: /one}}, upstream: one}}
- {{match: {{path: /two}}, upstream: two}}
- {{match: {{path: /off}}, upstream: one, min_download: off}}
"""


class Reader:
    """Asks for @target and takes @rate bytes a second, in a thread of its own."""

    def __init__(self, proxy, target, rate, source="127.0.0.1"):
        self.target, self.rate, self.source = target, rate, source
        self.rests_until = 0.0
        self.n_bytes, self.is_over, self.reset = 0, threading.Event(), None
        self.open(proxy)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        began = time.monotonic()
        with contextlib.suppress(OSError, Closed):
            while not self.is_over.is_set():
                due = (time.monotonic() - began) * self.rate - self.n_bytes
                if due > 0 and time.monotonic() >= self.rests_until:
                    self.take(int(min(max(due, 256), 4096)))
                else:
                    self.is_over.wait(0.01)
        self.is_over.set()

    def rest(self, for_s):
        """Take nothing for so long."""
        self.rests_until = time.monotonic() + for_s

    def stop(self):
        self.is_over.set()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.sock.close()


class Reader1(Reader):
    """By HTTP/1.1, with little room for what comes."""

    def open(self, proxy):
        self.sock = socket.socket()
        self.sock.settimeout(20)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.sock.bind((self.source, 0))
        self.sock.connect(proxy.address)
        self.sock.sendall(f"GET {self.target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

    def take(self, n):
        piece = self.sock.recv(n)
        if not piece:
            raise Closed()
        self.n_bytes += len(piece)


class Reader2(Reader):
    """By HTTP/2, with windows that are opened as bytes are wanted. One stream does not wait for the server of another
    to begin."""

    n_streams = 1

    def open(self, proxy):
        settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
        self.client = Http2Client(proxy.address, settings=settings)
        self.sock = self.client.sock
        self.streams = [self.client.begin(path=self.target) for _ in range(self.n_streams)]
        self.granted = 0

    def take(self, n):
        for stream in self.streams:
            self.client.send(WindowUpdateFrame(stream, window_increment=n))
        self.granted += n * len(self.streams)
        answers = [self.client.answer_of(stream) for stream in self.streams]
        of_each = self.granted // len(answers)

        def is_due():
            begun = [answer for answer in answers if answer.heads]
            return not begun or any(len(answer.body) < of_each for answer in begun)

        while is_due():
            self.client.read_frame()
            if self.reset is None:
                self.reset = next((answer.reset for answer in answers if answer.reset), None)
            if self.reset:
                raise Closed()
        self.n_bytes = self.granted


KINDS = [(kind, target) for kind in (Reader1, Reader2) for target in ("/one", "/two")]


class Servers:
    """Of either version, each of which knows how many of its answers are under way."""

    def __init__(self, start_upstream):
        self.fields = b"Content-Length: %d\r\n" % BIG
        self.n_held = 0
        self.n_begun = 0
        self.n_bytes = BIG
        self.one = start_upstream(self._send)
        self.two = Http2Server(lambda peer, request: peer.answer_in_time(request.stream, b"x" * BIG))

    def _send(self, peer, _request):
        self.n_held += 1
        self.n_begun += 1
        try:
            peer.send(b"HTTP/1.1 200 OK\r\n" + self.fields + b"\r\n")
            for _ in range(self.n_bytes // 65536):
                peer.send(b"x" * 65536)
        except OSError:
            pass  # cut
        self.n_held -= 1

    def policy(self, more="", top=""):
        return POLICY.format(one=self.one.url, two=self.two.url, more=more, top=top)

    def n_resets(self):
        return sum(request.reset is not None for request in list(self.two.requests))


@pytest.fixture(name="servers")
def start_servers(start_upstream):
    servers = Servers(start_upstream)
    yield servers
    servers.two.stop()


@contextlib.contextmanager
def reading(*readers):
    try:
        yield readers
    finally:
        for reader in readers:
            reader.stop()


def n_ended(proxy):
    page = Admin(addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    return int(re.search(r"^sluice_slow_downloads_total (\d+)$", page, re.MULTILINE)[1])


def stay(readers, for_s=WATCHED_S):
    """Whether none of them loses its answer in that time."""
    ends = time.monotonic() + for_s
    while time.monotonic() < ends:
        if any(reader.is_over.is_set() for reader in readers):
            return False
        time.sleep(0.05)
    return True


def are_kept(start, servers, readers_of, trial=stay):
    """trial(readers) is true of readers_of(proxy), and no server is taken from any, unless they themselves are kept
    waiting for so long that it is right."""
    def holds():
        proxy = start(servers.policy())
        with reading(*readers_of(proxy)) as readers:
            return trial(readers) and n_ended(proxy) == 0

    holds_unless_it_stalls(holds, STALLED_S)


def test_who_keeps_a_server_from_sending_loses_it(start, servers):
    proxy = start(servers.policy())
    with Stalls() as stalls, reading(*(kind(proxy, target, SLOW) for kind, target in KINDS)) as readers:
        began = time.monotonic()
        until(lambda: servers.n_begun == 2 and len(servers.two.requests) == 2, "the servers to send")
        until(lambda: servers.n_held == 0 and servers.n_resets() == 2, "the servers to be free", within=60)
        took_s = time.monotonic() - began
        assert took_s < LOST_S + stalls.total_s
        until(lambda: all(reader.reset == RESET for reader in readers[2:]), "the streams to be reset")
        lines = proxy.lines_of("/one", 2) + proxy.lines_of("/two", 2)
        assert [line["fault"] for line in lines] == [FAULT] * 4
    assert n_ended(proxy) == 4


@pytest.mark.takes(9)
def test_a_slow_link_keeps_its_server(start, servers):
    are_kept(start, servers, lambda proxy: [kind(proxy, target, FAIR) for kind, target in KINDS])


@pytest.mark.takes(9)
def test_a_phone_may_stand_still_once_it_has_saved_that_up(start, servers):
    def stay_though_they_rest(readers):
        is_saved = stay(readers, 2.0)
        for reader in readers:
            reader.rest(STALL_S)
        return is_saved and stay(readers, STALL_S + 2.0)

    are_kept(start, servers, lambda proxy: [kind(proxy, target, PHONE) for kind, target in KINDS],
             stay_though_they_rest)


@pytest.mark.takes(19)
def test_who_leaves_answers_unread_again_and_again_keeps_a_server_for_almost_no_time(start, servers):
    proxy = start(servers.policy())

    def keeps_for(source):
        with reading(Reader1(proxy, "/one", 0, source)):
            until(lambda: servers.n_held == 1, "the server to send")
            began = time.monotonic()
            until(lambda: servers.n_held == 0, "the server to be free", within=60)
            return time.monotonic() - began

    with Stalls() as stalls:
        took_s = [keeps_for("127.0.0.5") for _ in range(8)]
        assert took_s[0] > 1.5  # a link may stand still for a moment
        assert max(took_s[-3:]) < 1.8 + stalls.total_s, took_s
    assert keeps_for("127.0.0.6") > 1.5


@pytest.mark.takes(9)
def test_answers_of_one_connection_share_the_rate(start, servers):
    class Four(Reader2):
        n_streams = 4

    are_kept(start, servers, lambda proxy: [Four(proxy, target, FAIR) for target in ("/one", "/two")])


@pytest.mark.takes(9)
def test_where_it_is_off_a_server_waits_for_who_reads_slowly(start, servers):
    proxy = start(servers.policy())
    with reading(Reader1(proxy, "/off", 2 * SLOW), Reader2(proxy, "/off", 2 * SLOW)) as readers:
        assert stay(readers)
        assert servers.n_held == 2


@pytest.mark.takes(9)
def test_an_answer_that_has_come_whole_holds_no_server(start, servers):
    servers.n_bytes = 64 * 1024
    servers.fields = b"Content-Length: %d\r\n" % servers.n_bytes
    proxy = start(servers.policy())
    with reading(Reader1(proxy, "/one", 2 * SLOW), Reader2(proxy, "/one", 2 * SLOW)) as readers:
        assert stay(readers)
        assert servers.n_held == 0
    assert n_ended(proxy) == 0


@pytest.mark.takes(9)
def test_a_stream_of_events_is_read_as_slowly_as_its_client_wants(start, servers):
    servers.fields = b"Content-Type: text/event-stream\r\nConnection: close\r\n"
    proxy = start(servers.policy())
    with reading(Reader1(proxy, "/one", 2 * SLOW), Reader2(proxy, "/one", 2 * SLOW)) as readers:
        assert stay(readers)
        assert servers.n_held == 2
    assert n_ended(proxy) == 0
