#!/usr/bin/env python3
"""One TLS connection a request: handshakes.py PORT CLIENTS SECONDS full|resumed PATH asks on so many at once, and
tells what wrk_report.lua tells, as JSON. Each client is a thread: what OpenSSL does is done without Python's lock."""

import json
import socket
import ssl
import subprocess
import sys
import threading
import time

TIMEOUT_S = 10
HOST = "bench.example"


def load(port, path, kind, clients, seconds, pin=None):
    """What became of it, in a process of its own."""
    argv = [sys.executable, "-B", __file__, str(port), str(clients), str(seconds), kind, path]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, preexec_fn=pin).stdout)


class Asker:
    """One client after another, each with a connection of its own."""

    def __init__(self, port, path, is_resumed):
        self.port, self.is_resumed = port, is_resumed
        self.request = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.session = None
        self.took_us, self.n_not_ok, self.n_failed = [], 0, 0

    def ask(self):
        """True: as it was meant to be."""
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = self.session if self.is_resumed else None
            with self.context.wrap_socket(plain, server_hostname=HOST, session=session) as client:
                client.sendall(self.request)
                answer = client.recv(4096)
                is_resumed = client.session_reused
                self.session = self.session or client.session
        self.n_not_ok += not answer.startswith(b"HTTP/1.1 2")
        return is_resumed == (session is not None)

    def ask_until(self, end):
        while (begin := time.monotonic()) < end:
            try:
                self.n_failed += not self.ask()
            except OSError:
                self.n_failed += 1
            self.took_us.append((time.monotonic() - begin) * 1e6)


def main():
    port, clients, seconds, kind, path = sys.argv[1:]
    askers = [Asker(int(port), path, kind == "resumed") for _ in range(int(clients))]
    begin = time.monotonic()
    threads = [threading.Thread(target=asker.ask_until, args=(begin + float(seconds),)) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = sorted(us for asker in askers for us in asker.took_us)
    print(json.dumps({
        "requests": len(took), "duration_us": (time.monotonic() - begin) * 1e6, "bytes": 0,
        "p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100],
        "not_ok": sum(asker.n_not_ok for asker in askers),
        "socket_errors": sum(asker.n_failed for asker in askers), "timeouts": 0}))


if __name__ == "__main__":
    main()
