"""Many connections that ask for the same at once, and the count of what each answer was."""

import collections
import contextlib
import selectors

N_CONNECTIONS = 64
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


def ask_all_at_once(proxies, n_requests, n_connections=N_CONNECTIONS, while_sending=contextlib.nullcontext()):
    """The statuses of n_requests, pipelined on all connections."""
    counters = {}
    with selectors.DefaultSelector() as selector:
        for i in range(n_connections):
            client = proxies[i % len(proxies)].connect()
            n = n_requests * (i + 1) // n_connections - n_requests * i // n_connections
            counters[client.sock] = Counter(client), n
            selector.register(client.sock, selectors.EVENT_READ)
        with while_sending:
            for sock, (_, n) in counters.items():
                sock.sendall(REQUEST * n)
        while selector.get_map():
            for key, _ in selector.select():
                counter, n = counters[key.fileobj]
                counter.read()
                if counter.statuses.total() == n:
                    selector.unregister(key.fileobj)
    return sum((counter.statuses for counter, _ in counters.values()), collections.Counter())
