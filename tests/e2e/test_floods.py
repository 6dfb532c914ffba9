"""Floods: clients that send as much as they can of what costs most. Others do not feel them."""

import re
import socket
import struct
import threading
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.http2 import Http2Client
from harness.wait import until

MIB = 1024 * 1024
OK = "routes: [{match: {path: /ok}, respond: {status: 200, body: ok}}]\n"
SERVED_WITHIN_S = 10.0  # on a machine that stalls: it is a fraction of a millisecond otherwise


def assert_is_served(client):
    started = time.monotonic()
    assert client.ask(path="/ok").status == 200
    assert time.monotonic() - started < SERVED_WITHIN_S


def is_evicted_or_refused(client):
    """Closed without a word for a later one; or refused, while too many evictions were under way."""
    try:
        return client.read().status == 503
    except message.Cut as cut:
        return cut.partial == b""


def grown(proxy, before):
    return proxy.memory_bytes() - before


def test_a_flood_of_connections_stops_at_the_maximum_and_is_forgotten(start):
    proxy = start("workers: 2\nmax: {connections: 500, connections_per_client: 1000}\n"
                  "timeouts: {idle: 60s}\n" + OK)
    with proxy.connect() as before:
        assert_is_served(before)
        flood = [proxy.connect() for _ in range(800)]
        assert_is_served(before)
        until(lambda: sum(not client.is_quiet(0) for client in flood) == 301, "those beyond it to be closed")
        assert all(is_evicted_or_refused(client) for client in flood if not client.is_quiet(0))
        for client in flood:
            client.close()
        until(lambda: proxy.ask(path="/ok").status == 200, "a place for somebody new")
        assert_is_served(before)


def test_each_request_of_a_pipelined_flood_is_counted_and_answered_in_order(start):
    n_requests, limit = 5000, 100
    proxy = start("limits: {few: {key: client.ip, algorithm: fixed_window, align: first, "
                  f"rate: {limit}/day}}}}\n"
                  "routes: [{limits: [few], respond: {status: 200, body: ok}}]\n")
    with proxy.connect() as client:
        requests = b"".join(message.request("GET", f"/{i}", (), None) for i in range(n_requests))
        sender = threading.Thread(target=client.send, args=(requests,))
        sender.start()
        statuses = [client.read().status for _ in range(n_requests)]
        sender.join()
    assert statuses == [200] * limit + [429] * (n_requests - limit)
    lines = proxy.log_lines(n_requests)
    assert [line["path"] for line in lines] == [f"/{i}" for i in range(n_requests)]


def test_a_pipelined_flood_that_is_read_late_has_all_its_answers(start):
    n_requests = 20_000
    proxy = start("routes: [{match: {path: /ok}, respond: {status: 200, body: ok}}]\n")
    requests = b"".join(message.request("GET", "/ok" if i % 2 else "/gone", (), None) for i in range(n_requests))
    with proxy.connect() as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.sock.settimeout(0.5)
        n_sent = 0
        try:
            while n_sent < len(requests):
                n_sent += client.sock.send(requests[n_sent:n_sent + 65536])
        except TimeoutError:
            pass  # the answers that nobody reads hold it up
        assert n_sent < len(requests)
        client.sock.settimeout(30)
        sender = threading.Thread(target=client.send, args=(requests[n_sent:],))
        sender.start()
        statuses = [client.read().status for _ in range(n_requests)]
        sender.join()
    assert statuses == [404, 200] * (n_requests // 2)


def test_who_has_ended_its_side_and_reads_late_has_its_last_answer_whole(start):
    size = 1500
    proxy = start("log: off\nroutes: [{match: {path: /ok}, respond: {status: 200, body: %s}}]\n" % ("x" * size))
    for n_requests in range(30, 110):  # of some the kernel takes the last answer in part
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.settimeout(30)
            client.connect(proxy.address)
            client.sendall(message.request("GET", "/ok", (), None) * n_requests)
            client.shutdown(socket.SHUT_WR)
            time.sleep(0.02)  # as long as it takes to fill the buffers; when it takes longer, nothing is late
            read = b"".join(iter(lambda: client.recv(65536), b""))
        bodies = [answer.partition(b"\r\n\r\n")[2] for answer in read.split(b"HTTP/1.1 200 OK\r\n")[1:]]
        assert [len(body) for body in bodies] == [size] * n_requests


@pytest.mark.parametrize("timeouts", ["head: 1s, idle: 1h", "head: 1h, idle: 2s", "head: 1s, idle: 2s, body_rate: off"])
def test_who_floods_and_never_reads_is_bounded_and_cut(start, timeouts):
    proxy = start(f"timeouts: {{{timeouts}}}\nlog: off\n" + OK)
    with proxy.connect() as other, socket.create_connection(proxy.address) as flood:
        assert_is_served(other)
        before = proxy.memory_bytes()
        flood.settimeout(60)
        requests = message.request("GET", "/ok", (), None) * 1000
        try:
            for _ in range(10_000):
                flood.sendall(requests)
        except OSError:
            pass  # cut: it was that or a thousand times as many
        else:
            raise AssertionError("it took all of it")
        assert grown(proxy, before) < 8 * MIB
        other = proxy.connect()
        assert_is_served(other)


def test_heads_just_below_the_maximum_cost_no_more_than_their_bytes(start):
    """Held open by as many connections as there may be."""
    n_connections = 300
    proxy = start("workers: 1\nmax: {head: 16KiB, connections_per_client: 1000}\n"
                  "timeouts: {head: 60s}\n" + OK)
    with proxy.connect() as other:
        assert_is_served(other)
        before = proxy.memory_bytes()
        head = b"GET /ok HTTP/1.1\r\nHost: a\r\n" + b"".join(
            b"X-%d: %s\r\n" % (i, b"a" * 150) for i in range(90))
        bombs = [proxy.send(head) for _ in range(n_connections)]
        assert_is_served(other)
        assert grown(proxy, before) < n_connections * 128 * 1024  # a sanitizer's share in it
        for client in bombs:
            client.send(b"\r\n")
        assert all(client.read().status == 200 for client in bombs)


def test_a_body_in_chunks_of_a_byte_passes_whole_and_others_do_not_wait_for_it(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"workers: 1\nupstreams: {{api: {{servers: '{upstream.url}'}}}}\n"
                  "routes: [{match: {path: /ok}, respond: {status: 200}}, {upstream: api}]\n")
    body = bytes(i % 251 for i in range(200_000))
    wire = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with proxy.connect() as other, \
            proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") as client:
        sender = threading.Thread(target=client.send, args=(wire,))
        sender.start()
        while sender.is_alive():
            assert_is_served(other)
        assert client.read().status == 200
    assert upstream.requests[0].body == body


def test_extensions_of_chunks_are_bounded_in_all(start, start_upstream):
    proxy = start(f"upstream: {start_upstream().url}\n")
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") as client:
        try:
            client.send((b"1;" + b"e" * 200 + b"\r\nx\r\n") * 10_000)
        except OSError:
            pass  # refused meanwhile
        assert client.read().status == 400


def test_a_connection_that_comes_and_goes_without_a_word_leaves_nothing(start):
    proxy = start("workers: 2\n" + OK)

    def come_and_go():
        for i in range(3000):
            with socket.create_connection(proxy.address) as sock:
                if i % 3 == 0:
                    sock.sendall(b"GET /ok HT")
        assert proxy.ask(path="/ok").status == 200

    come_and_go()  # the first of them fill the pools, and a sanitizer's own
    before = proxy.memory_bytes()
    come_and_go()
    assert grown(proxy, before) < 4 * MIB


def count(proxy, name):
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    return sum(int(n) for n in re.findall(rf"^sluice_store_{name}_total{{.*}} (\d+)$", page, re.MULTILINE))


def test_what_many_requests_give_back_at_once_does_not_fill_redis_before_the_decisions_of_others(
        start, start_redis, start_upstream):
    n_connections, n_streams, few = 5, 60, 16
    redis = start_redis()
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        admin: 127.0.0.1:0
        workers: 1
        store: {{redis: "{redis.url}", deadline: 20s, on_failure: allow}}
        upstreams: {{api: {{servers: "{upstream.url}", max_connections: 1, queue: {{requests: 1000, wait: 60s}}}}}}
        limits:
          api: {{key: [client.ip, path], algorithm: fixed_window, rate: [10/day, 20/week], charge_on: [2xx]}}
          login: {{key: client.ip, algorithm: fixed_window, rate: 5/day, charge_on: [401]}}
        routes:
          - {{match: {{path: /login}}, limits: [login], respond: {{status: 401}}}}
          - {{limits: [api], upstream: api}}
    """)
    until(lambda: 'msg="link up"' in proxy.stderr(), "Redis")
    clients = [Http2Client(proxy.address) for _ in range(n_connections)]
    for i, client in enumerate(clients):
        for j in range(n_streams):
            client.begin(path=f"/{i}/{j}")
    n_requests = n_connections * n_streams
    until(lambda: len(redis.keys("sluice:*:api*")) == 2 * n_requests, "all to be charged")
    upstream.wait_for(1)

    with proxy.connect(source="127.0.0.2") as other:
        assert [other.ask("POST", "/login").status for _ in range(4)] == [401] * 4
        redis.pause()
        for client in clients:
            client.sock.close()
        proxy.log_lines(n_requests + 4)
        assert count(proxy, "settlements") <= few
        other.send(message.request("POST", "/login", (), None) * 3)
        redis.resume()
        assert [other.read().status for _ in range(3)] == [401, 429, 429]
    # As a client leaves, a request of one that is still there may be the next that the server sees.
    until(lambda: count(proxy, "settlements") == n_requests - len(upstream.requests),
          "all but what a server has seen to be given back")
    assert len(upstream.requests) <= n_connections
    assert count(proxy, "settlements_lost") == 0

    def charged():
        return sum(struct.unpack("<dd", redis.get(key))[0] for key in redis.keys("sluice:*:api*"))

    until(lambda: charged() == 2 * len(upstream.requests), "two rates of each request that it has seen to stay charged")
