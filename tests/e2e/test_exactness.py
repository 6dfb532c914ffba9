"""Four proxies, one Redis, one hot key: together they admit what one would, to the unit."""

import collections
import selectors

import pytest

from harness.wait import rest_of_window

N_PROXIES = 4
N_CONNECTIONS = 64
N_REQUESTS = 100_000
N_ADMITTED = 40_000
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
START = b"HTTP/1.1 "
TOLD_BYTES = len(START) + 3


class Counter:
    """The statuses of a connection's responses, counted without reading the rest of them."""

    def __init__(self, client):
        self.sock = client.sock
        self.statuses = collections.Counter()
        self.tail = b""

    def read(self):
        data = self.sock.recv(1 << 20)
        assert data, f"closed after {self.statuses}"
        data = self.tail + data
        at = data.find(START)
        while 0 <= at <= len(data) - TOLD_BYTES:
            self.statuses[int(data[at + len(START):at + TOLD_BYTES])] += 1
            at = data.find(START, at + TOLD_BYTES)
        # What may be the beginning of a start line is read again, a whole one is not.
        self.tail = data[at:] if at >= 0 else data[max(0, len(data) - len(START) + 1):]


def ask_all_at_once(proxies, n_requests):
    """The statuses of n_requests, pipelined on all connections."""
    counters = {}
    with selectors.DefaultSelector() as selector:
        for i in range(N_CONNECTIONS):
            client = proxies[i % len(proxies)].connect()
            n = n_requests * (i + 1) // N_CONNECTIONS - n_requests * i // N_CONNECTIONS
            counters[client.sock] = Counter(client), n
            selector.register(client.sock, selectors.EVENT_READ)
        for sock, (_, n) in counters.items():
            sock.sendall(REQUEST * n)
        while selector.get_map():
            for key, _ in selector.select():
                counter, n = counters[key.fileobj]
                counter.read()
                if counter.statuses.total() == n:
                    selector.unregister(key.fileobj)
    return sum((counter.statuses for counter, _ in counters.values()), collections.Counter())


@pytest.mark.parametrize("words", [
    f"algorithm: token_bucket, rate: 1/day, burst: {N_ADMITTED}",
    f"algorithm: fixed_window, rate: {N_ADMITTED}/day",
], ids=["token_bucket", "fixed_window"])
def test_the_proxies_of_one_redis_admit_exactly_what_the_limit_says(start_sharing, words):
    proxies = [start_sharing(f"""
        log: off
        limits: {{hot: {{key: global, {words}, deny: {{status: 429}}}}}}
        routes: [{{limits: [hot], respond: {{status: 204}}}}]
    """) for _ in range(N_PROXIES)]
    rest_of_window(86400, at_least_s=200)
    statuses = ask_all_at_once(proxies, N_REQUESTS)
    assert statuses == {204: N_ADMITTED, 429: N_REQUESTS - N_ADMITTED}
    redis = start_sharing.redis[0]
    assert len(redis.keys()) == 1, "one limit, one key"
