"""SIGTERM: what is under way is finished, nothing new is begun, and the program ends."""

import contextlib
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import log, message, program
from harness.admin import Admin, addresses
from harness.handshake import Handshake
from harness.ports import free_port
from harness.upstream import answer
from harness.wait import Stalls, holds_unless_it_stalls, until


class Gate:
    """An upstream's behaviour that answers when the test says so."""

    def __init__(self):
        self.opens = threading.Event()

    def __call__(self, peer, request):
        self.opens.wait()
        peer.send(answer(body=b"late"))


@pytest.fixture(name="gate")
def gate_that_is_open_at_the_end():
    gate = Gate()
    yield gate
    gate.opens.set()


def refuses_connections(proxy):
    try:
        with socket.create_connection(proxy.address, timeout=1):
            return False
    except OSError:
        return True


def test_a_request_under_way_is_finished_and_no_other_is_begun(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"""
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{match: {{path: /busy}}, upstream: api}}]
    """)
    busy = proxy.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    idle = proxy.connect()
    assert idle.ask(path="/idle").status == 404
    proxy.signal(signal.SIGTERM)
    assert idle.has_ended(), "an idle connection is closed"
    until(lambda: refuses_connections(proxy), "new connections to be refused")
    assert proxy.is_running()
    gate.opens.set()
    response = busy.read()
    assert (response.status, response.body) == (200, b"late")
    assert response.get("Connection") == "close" and busy.has_ended()
    assert proxy.wait() == 0
    lines = [log.parse(line, "logfmt") for line in proxy.stdout().splitlines()]
    assert sorted(line["path"] for line in lines) == ["/busy", "/idle"]
    assert "msg=stopped" in proxy.stderr()


def start_settling(start, start_redis, upstream):
    """A proxy with a request under way that will be settled when it is answered."""
    redis = start_redis()
    proxy = start(f"""
        workers: 1
        store: {{redis: "{redis.url}", deadline: 10s, on_failure: deny}}
        limits: {{tries: {{key: client.ip, rate: 100/day, charge_on: [404]}}}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{limits: [tries], upstream: api}}]
    """)
    until(lambda: 'msg="link up"' in proxy.stderr(), "Redis")
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    return redis, proxy, client


def is_told_late(start, start_redis, start_upstream):
    """Whether Redis, which is slow for a moment, is told what became of the last request."""
    gate = Gate()
    redis, proxy, client = start_settling(start, start_redis, start_upstream(gate))
    redis.call("CLIENT", "PAUSE", 200)
    proxy.signal(signal.SIGTERM)
    gate.opens.set()
    assert client.read().status == 200
    assert proxy.wait() == 0
    return "settlements=1 settlements_lost=0" in proxy.stderr()


def test_what_became_of_the_last_requests_is_still_told_to_redis(start, start_redis, start_upstream):
    holds_unless_it_stalls(lambda: is_told_late(start, start_redis, start_upstream), allowed_s=0.3)


ONE_SLOT = """
    workers: 1
    admin: 127.0.0.1:0
    timeouts: {{drain: {drain}}}
    store: {{redis: "{url}", deadline: 10s, on_failure: deny}}
    limits: {{slots: {{key: global, algorithm: concurrency, rate: 1, lease: 1h}}}}
    routes: [{{limits: [slots], respond: {{status: 200}}}}]
"""


def n_calls(proxy):
    """Of Redis, for decisions."""
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    return sum(map(int, re.findall(r"^sluice_store_calls_total{.*} (\d+)$", page, re.MULTILINE)))


def gives_back(start, redis, who_leaves):
    """Whether the slot that Redis gives to a request that is gone is free when the proxy has stopped."""
    policy = ONE_SLOT.format(url=redis.url, drain="200ms" if who_leaves == "proxy" else "30s")
    proxy = start(policy)
    until(lambda: 'msg="link up"' in proxy.stderr() and proxy.ask().status == 200, "Redis")
    until(lambda: redis.keys() == [b"sluice:instances"], "its slot to be given back")
    redis.pause()
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    until(lambda: n_calls(proxy) == 2, "the question")
    if who_leaves == "client":
        client.reset()
    proxy.signal(signal.SIGTERM)
    until(lambda: proxy.stdout().count(b"\n") == 2, "the end of the request")
    with contextlib.suppress(subprocess.TimeoutExpired):
        proxy.process.wait(0.1)  # nothing would tell but its end
    redis.resume()
    assert proxy.wait() == 0
    client.close()
    later = start(policy)
    until(lambda: 'msg="link up"' in later.stderr(), "Redis")
    is_free = later.ask().status == 200
    redis.call("FLUSHALL")
    return is_free


@pytest.mark.parametrize("who_leaves", ["client", "proxy"])
def test_a_slot_that_nobody_waits_for_any_more_is_given_back_before_the_end(
        start, start_redis, who_leaves):
    redis = start_redis()
    holds_unless_it_stalls(lambda: gives_back(start, redis, who_leaves), allowed_s=0.3)


def test_a_redis_that_stands_still_holds_the_end_up_for_a_second(
        start, start_redis, start_upstream, gate):
    redis, proxy, client = start_settling(start, start_redis, start_upstream(gate))
    redis.pause()
    proxy.signal(signal.SIGTERM)
    with Stalls() as stalls:
        started = time.monotonic()
        gate.opens.set()
        assert client.read().status == 200
        assert proxy.wait() == 0
        took_s = time.monotonic() - started
    assert 0.9 < took_s < 8 + stalls.total_s
    assert "settlements=1 settlements_lost=1" in proxy.stderr()


def test_sigint_drains_too(start):
    proxy = start("routes: [{respond: {status: 204}}]\n")
    assert proxy.ask().status == 204
    proxy.signal(signal.SIGINT)
    assert proxy.wait() == 0


def test_a_kept_connection_is_closed_after_its_answer(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"upstream: {upstream.url}\n")
    client = proxy.connect()
    client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    proxy.signal()
    until(lambda: refuses_connections(proxy), "the drain")
    gate.opens.set()
    assert client.read().get("Connection") == "close" and client.has_ended()
    client.close()
    assert proxy.wait() == 0


def test_a_second_signal_stops_at_once(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"upstream: {upstream.url}\n")
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    proxy.signal()
    until(lambda: "msg=draining" in proxy.stderr(), "the drain")
    proxy.signal()
    assert proxy.wait() == 1
    assert client.has_ended()
    proxy.check()
    proxy.stop = lambda: None


def test_the_drain_has_an_end(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"timeouts: {{drain: 300ms}}\nupstream: {upstream.url}\n")
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    started = time.monotonic()
    proxy.signal()
    assert client.has_ended()
    assert proxy.wait() == 0
    assert 0.25 < time.monotonic() - started < 20
    assert "drain timed out" in proxy.stderr()


@pytest.mark.parametrize("where", ["queue", "kept"])
def test_a_request_that_the_kernel_already_has_is_still_served(start, where):
    """Sent before the signal, read after it."""
    proxy = start("workers: 1\nroutes: [{respond: {status: 200, body: ok}}]\n")
    client = proxy.connect()
    if where == "kept":
        assert client.ask().status == 200
    else:
        client.close()
    proxy.signal(signal.SIGSTOP)
    if where == "queue":
        client = proxy.connect()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    proxy.signal(signal.SIGTERM)
    proxy.signal(signal.SIGCONT)
    assert client.read().status == 200
    assert client.has_ended()
    client.close()
    assert proxy.wait() == 0


def test_no_line_of_the_log_is_lost_or_torn_at_the_end(start):
    proxy = start("workers: 2\nroutes: [{respond: {status: 204}}]\n")
    with proxy.connect() as client:
        for number in range(300):
            client.ask(path=f"/{number}")
    proxy.signal()
    assert proxy.wait() == 0
    lines = proxy.log_lines(300)
    assert [line["path"] for line in lines] == [f"/{number}" for number in range(300)]


def test_a_connection_that_is_new_has_a_moment_for_its_first_request(start):
    def is_served():
        proxy = start("workers: 1\nroutes: [{respond: {status: 204}}]\n")
        late, silent, idle = proxy.connect(), proxy.connect(), proxy.connect()
        assert idle.ask().status == 204
        proxy.signal()
        assert idle.has_ended(), "the drain has begun"
        try:
            late.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert late.read().get("Connection") == "close" and late.has_ended()
        except (OSError, message.Cut):
            return False  # this machine took the moment
        finally:
            late.close()
        assert silent.has_ended()
        assert proxy.wait() == 0
        return True

    until(is_served, "a machine that does not stall")


def test_one_that_is_let_in_while_the_address_goes_and_stays_silent_holds_nothing_up(start):
    """Its handshake began before the signal and ended after it."""
    def is_let_in():
        proxy = start("timeouts: {drain: 10m}\nroutes: [{respond: {status: 204}}]\n")
        with Handshake(proxy.address) as handshake:
            proxy.signal()
            until(lambda: "msg=draining" in proxy.stderr(), "the drain")
            handshake.go_on()
            connected = select.select([], [handshake.sock], [], 60)[1]
            assert proxy.wait() == 0
            return connected and handshake.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0

    until(is_let_in, "a machine that does not stall")


def test_the_port_is_free_for_the_next_one_when_it_has_ended(start):
    policy = f"listen: 127.0.0.1:{free_port()}\nroutes: [{{respond: {{status: 204}}}}]\n"
    first = start(policy)
    kept = first.connect()
    assert kept.ask().status == 204
    first.signal()
    assert first.wait() == 0
    assert start(policy).ask().status == 204


def test_a_port_in_use_is_an_error_that_says_so(start, tmp_path):
    first = start("routes: [{respond: {status: 204}}]\n")
    (tmp_path / "second.yaml").write_text(
        f"listen: 127.0.0.1:{first.port}\nroutes: [{{respond: {{status: 204}}}}]\n")
    result = program.command("run", str(tmp_path / "second.yaml"))
    assert result.returncode == 1
    assert "cannot listen" in result.stderr and str(first.port) in result.stderr
    assert first.ask().status == 204
