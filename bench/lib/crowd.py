#!/usr/bin/env python3
"""Idle clients: crowd.py PORT N [tls] [http2] opens N keep-alive connections, asks once on each, by HTTP/2
STREAMS times at once, says so, holds them until its input ends, and then says how many the server still holds too."""

import resource
import socket
import ssl
import subprocess
import sys

PER_SOURCE = 1000  # connections of one address
IP_BIND_ADDRESS_NO_PORT = 24  # the port is chosen by connect(), which knows where to
SPARE_FILES = 100
REQUEST = b"GET /items/1 HTTP/1.1\r\nHost: bench.example\r\n\r\n"
TIMEOUT_S = 30
STREAMS = 20  # of an HTTP/2 connection
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME_HEAD = 9  # bytes
GET, PLAIN, SECURE, OK = b"\x82", b"\x86", b"\x87", b"\x88"  # HPACK's numbers of :method, :scheme and :status
PATH, AUTHORITY = b"\x04\x08/items/1", b"\x41\x0dbench.example"


class Crowd:
    """A context: the clients, in a process of their own, since descriptors are counted by process."""

    def __init__(self, port, n_clients, is_secure=False, is_http2=False):
        said = [*(["tls"] if is_secure else []), *(["http2"] if is_http2 else [])]
        self.argv = [sys.executable, "-B", __file__, str(port), str(n_clients), *said]
        self.n_clients = n_clients

    def __enter__(self):
        self.child = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.child.stdout.readline()
        return self

    def count(self):
        """Lets them go; how many were still connected."""
        self.child.stdin.close()
        said = self.child.stdout.readline()
        return int(said) if said else 0

    def __exit__(self, *_):
        if not self.child.stdin.closed:
            self.child.stdin.close()
        self.child.wait()


def raise_descriptors(n_files):
    """So many open files at least, for this process and those it starts; False: it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        if hard < n_files:
            hard = n_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, n_files)), hard))
    except (ValueError, OSError):
        return False
    return True


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def ask_once(client, number):
    client.sendall(REQUEST)
    answer = client.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"crowd: client {number} got {answer[:200]!r}")


def ask_by_http2(client, number):
    head = GET + (SECURE if isinstance(client, ssl.SSLSocket) else PLAIN) + PATH + AUTHORITY
    requests = [frame(HEADERS, END_STREAM | END_HEADERS, 2 * i + 1, head) for i in range(STREAMS)]
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0) + b"".join(requests))
    seen, n_good, n_ended = b"", 0, 0
    while n_ended < STREAMS:
        if not (piece := client.recv(1 << 16)):
            sys.exit(f"crowd: client {number} has {n_ended} answers of {STREAMS}")
        seen += piece
        while len(seen) >= FRAME_HEAD and len(seen) >= (end := FRAME_HEAD + int.from_bytes(seen[:3], "big")):
            n_good += seen[3] == HEADERS and seen[FRAME_HEAD:].startswith(OK)
            n_ended += seen[3] in (DATA, HEADERS) and seen[4] & END_STREAM
            seen = seen[end:]
    if n_good < STREAMS:
        sys.exit(f"crowd: client {number} has {n_good} good answers of {STREAMS}")


def connect(port, number, context, ask):
    client = socket.socket()
    client.settimeout(TIMEOUT_S)
    client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    client.bind((f"127.0.{1 + number // PER_SOURCE}.1", 0))
    client.connect(("127.0.0.1", port))
    client = context.wrap_socket(client) if context else client
    ask(client, number)
    client.setblocking(False)
    return client


def is_open(client):
    try:
        return client.recv(1) != b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def main():
    port, n_clients = int(sys.argv[1]), int(sys.argv[2])
    if not raise_descriptors(n_clients + SPARE_FILES):
        sys.exit(f"crowd: {n_clients} open files are not allowed here")
    is_http2 = "http2" in sys.argv[3:]
    context = ssl._create_unverified_context() if "tls" in sys.argv[3:] else None
    if context and is_http2:
        context.set_alpn_protocols(["h2"])
    ask = ask_by_http2 if is_http2 else ask_once
    clients = [connect(port, number, context, ask) for number in range(n_clients)]
    print("ready", flush=True)
    sys.stdin.read()
    print(sum(is_open(client) for client in clients), flush=True)


if __name__ == "__main__":
    main()
