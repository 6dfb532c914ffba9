"""Clients that send or take a body a few bytes at a time, to hold what others need."""

import contextlib
import socket
import threading
import time

import pytest

from harness.client import Client
from harness.wait import Stalls, until

HEAD_S = 1.0  # given in advance
IDLE_S = 2.0
LATE_S = 5.0  # a look each second, and a machine that stalls
POLICY = ("timeouts: {{head: 1s, idle: 2s, body_rate: {rate}}}\n"
          "upstreams: {{api: {{servers: \"{url}\", buffer: off}}}}\nroutes: [{{upstream: api}}]\n")
LENIENT_S = 3.0  # with a machine that stalls
LENIENT = POLICY.replace("head: 1s, idle: 2s", "head: 3s, idle: 3s")
PATIENT = LENIENT.replace("idle: 3s", "idle: 1m")
BIG = 64 * 1024 * 1024


@contextlib.contextmanager
def ends_within(time_s):
    """But for what the machine took."""
    with Stalls() as stalls:
        started = time.monotonic()
        yield
        took_s = time.monotonic() - started
    assert took_s < time_s + stalls.total_s


def trickle(client, pieces, every_s=0.1):
    """Send piece by piece until an answer comes."""
    for piece in pieces:
        try:
            client.send(piece)
        except OSError:
            break  # cut
        if not client.is_quiet(every_s):
            break


def test_a_body_that_trickles_is_408(start, start_upstream):
    upstream = start_upstream()
    proxy = start(POLICY.format(rate="1KiB/s", url=upstream.url))
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n") as client:
        with ends_within(HEAD_S + LATE_S + 1):
            trickle(client, [b"x"] * 1000)
        response = client.read()
        assert response.status == 408 and response.get("Connection") == "close"
    assert proxy.lines_of("/", 1)[0]["fault"] == "the request's body came too slowly"
    until(lambda: upstream.cut_bodies, "the upstream's connection to be cut")


def test_a_chunked_body_that_trickles_is_408(start, start_upstream):
    proxy = start(POLICY.format(rate="1KiB/s", url=start_upstream().url))
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with proxy.send(head) as client:
        with ends_within(HEAD_S + LATE_S + 1):
            trickle(client, [b"1;" + b"e" * 50 + b"\r\nx\r\n"] * 1000)
        assert client.read().status == 408


def test_chunk_lines_without_data_are_no_progress(start, start_upstream):
    """Extensions and sizes are not bytes of the body."""
    proxy = start(POLICY.format(rate="1KiB/s", url=start_upstream().url))
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    with proxy.send(head) as client:
        with ends_within(HEAD_S + LATE_S + 1):
            trickle(client, [b"e"] * 1000)
        assert client.read().status in (400, 408)


def test_chunk_lines_without_data_are_no_progress_where_there_is_no_rate(start, start_upstream):
    proxy = start(POLICY.format(rate="off", url=start_upstream().url))
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    with proxy.send(head) as client:
        with ends_within(IDLE_S + LATE_S + 1):
            trickle(client, [b"e"] * 1000)
        assert client.read().status == 408


def ask_to_go_on(proxy):
    return proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                      b"Content-Length: 2\r\n\r\n")


@pytest.mark.takes(6)
def test_the_time_in_which_a_100_is_waited_for_is_not_the_clients(start, start_upstream):
    def go_on_late(peer, request):
        peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        time.sleep(LENIENT_S + 2)
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.read_body(request)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    upstream = start_upstream(go_on_late, reads_body=False)
    with ask_to_go_on(start(PATIENT.format(rate="1KiB/s", url=upstream.url))) as client:
        assert client.read().status == 103
        assert client.read().status == 100
        client.send(b"ok")
        assert client.read().status == 200


def test_who_waits_for_a_100_does_not_wait_for_ever(start, start_upstream):
    upstream = start_upstream(lambda peer, request: peer.hang(), reads_body=False)
    with ask_to_go_on(start(POLICY.format(rate="1KiB/s", url=upstream.url))) as client:
        with ends_within(IDLE_S + LATE_S + 1):
            assert client.read().status == 408


def test_a_fast_start_does_not_buy_a_slow_rest(start, start_upstream):
    proxy = start(POLICY.format(rate="1KiB/s", url=start_upstream().url))
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" +
                    b"x" * 1_000_000) as client:
        with ends_within(2 + LATE_S + 1):
            trickle(client, [b"x"] * 1000)
        assert client.read().status == 408


@pytest.mark.takes(6)
def test_a_body_at_its_rate_arrives_whole(start, start_upstream):
    upstream = start_upstream()
    proxy = start(LENIENT.format(rate="100B/s", url=upstream.url))
    body = b"0123456789" * 100
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n") as client:
        trickle(client, [body[i:i + 25] for i in range(0, 1000, 25)])
        assert client.read().status == 200
    assert upstream.requests[0].body == body


@pytest.mark.takes(7)
def test_the_time_in_which_the_upstream_is_waited_for_is_not_the_clients(start, start_upstream):
    def answer_late(peer, request):
        time.sleep(LENIENT_S + 2)
        peer.read_body(request)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    proxy = start(LENIENT.format(rate="10KiB/s", url=start_upstream(answer_late, reads_body=False).url))
    with proxy.connect() as client:
        assert client.ask("POST", body=b"x" * BIG).status == 200


@pytest.mark.takes(4)
def test_without_a_rate_a_body_may_pause(start, start_upstream):
    proxy = start(LENIENT.format(rate="off", url=start_upstream().url))
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n") as client:
        trickle(client, [b"x"] * 40)
        assert client.read().status == 200


# --- who reads slowly ---


class SlowReader(Client):
    """Has little room for what comes, so that what it does not read stays at the other side."""

    def __init__(self, address):
        self.sock = socket.socket()
        self.sock.settimeout(20)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.connect(address)

    def read_slowly(self, n_bytes, every_s):
        """Until the connection is cut. Tells after how long, and how much it got."""
        started = time.monotonic()
        got = 0
        try:
            while piece := self.sock.recv(n_bytes):
                got += len(piece)
                time.sleep(every_s)
        except OSError:
            pass  # cut, or the test is over
        return time.monotonic() - started, got


def send_big(peer, request):
    try:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BIG)
        for _ in range(BIG // 65536):
            peer.send(b"x" * 65536)
    except OSError:
        pass  # cut


def faults(proxy):
    return [line.get("fault") for line in proxy.lines_of("/", 1)]


def test_who_takes_an_answer_a_few_bytes_at_a_time_is_cut(start, start_upstream):
    proxy = start(POLICY.format(rate="100KiB/s", url=start_upstream(send_big).url))
    with SlowReader(proxy.address) as client:
        client.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        threading.Thread(target=client.read_slowly, args=(100, 0.1), daemon=True).start()
        with ends_within(HEAD_S + 1 + LATE_S + 1):
            assert faults(proxy) == ["the client reads too slowly"]


def test_who_takes_nothing_is_cut(start, start_upstream):
    proxy = start(POLICY.replace("buffer: off", "buffer: off, min_download: off")
                  .format(rate="off", url=start_upstream(send_big).url))
    with SlowReader(proxy.address) as client:
        client.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert faults(proxy) == ["the client does not read"]


def read_in_bits(client):
    """As often as not, each bit lets the proxy write again."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    threading.Thread(target=client.read_slowly, args=(8192, 0.01), daemon=True).start()


def test_who_reads_too_slowly_is_cut_though_it_lets_us_write_within_each_second(start, start_upstream):
    proxy = start(POLICY.format(rate="100MiB/s", url=start_upstream(send_big).url))
    with SlowReader(proxy.address) as client:
        with ends_within(IDLE_S + 2 + LATE_S):
            read_in_bits(client)
            assert faults(proxy) == ["the client reads too slowly"]


@pytest.mark.takes(5)
def test_who_reads_so_and_keeps_the_rate_is_served(start, start_upstream):
    proxy = start(LENIENT.format(rate="1KiB/s", url=start_upstream(send_big).url))
    with SlowReader(proxy.address) as client:
        read_in_bits(client)
        time.sleep(LENIENT_S + 2)
        assert proxy.stdout() == b""


@pytest.mark.takes(6)
def test_a_slow_reader_that_keeps_the_rate_is_served(start, start_upstream):
    """Though so much waits in our socket that nothing can be written for longer than `idle`."""
    proxy = start(LENIENT.format(rate="1KiB/s", url=start_upstream(send_big).url))
    with SlowReader(proxy.address) as client:
        client.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        ended = time.monotonic() + 6
        while time.monotonic() < ended:
            assert client.sock.recv(2048)
            time.sleep(0.05)
        assert proxy.stdout() == b""
