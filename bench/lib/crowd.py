#!/usr/bin/env python3
"""Idle clients: crowd.py PORT N [tls] opens N keep-alive connections, asks once on each, says so, holds them until
its input ends, and then says how many the server still holds too."""

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


class Crowd:
    """A context: the clients, in a process of their own, since descriptors are counted by process."""

    def __init__(self, port, n_clients, is_secure=False):
        self.argv = [sys.executable, "-B", __file__, str(port), str(n_clients), *(["tls"] if is_secure else [])]
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


def connect(port, number, context):
    client = socket.socket()
    client.settimeout(TIMEOUT_S)
    client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    client.bind((f"127.0.{1 + number // PER_SOURCE}.1", 0))
    client.connect(("127.0.0.1", port))
    client = context.wrap_socket(client) if context else client
    client.sendall(REQUEST)
    answer = client.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"crowd: client {number} got {answer[:200]!r}")
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
    context = ssl._create_unverified_context() if sys.argv[3:] == ["tls"] else None
    clients = [connect(port, number, context) for number in range(n_clients)]
    print("ready", flush=True)
    sys.stdin.read()
    print(sum(is_open(client) for client in clients), flush=True)


if __name__ == "__main__":
    main()
