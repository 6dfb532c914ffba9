"""A real server with two workers, each of which serves one request at a time: slow uploads and slow readers do
not keep it from others. Neither are those ended that may be slow."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness.client import Client
from harness.message import Cut
from harness.ports import free_port
from harness.wait import Stalls, until

APP = """
import hashlib

def application(environ, start_response):
    seen, body = hashlib.sha256(), environ["wsgi.input"]
    while piece := body.read(1 << 20):
        seen.update(piece)
    if environ["PATH_INFO"] == "/events":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return (b"data: %d\\n\\n" % i for i in range(5))
    if environ["PATH_INFO"] == "/big":
        start_response("200 OK", [("Content-Length", "10000000")])
        return [b"x" * 10000000]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [seen.hexdigest().encode()]
"""
POLICY = """
workers: 2
max: {{body: 2GiB}}
upstreams:
  api: {{servers: "{url}"}}
routes:
- {{match: {{path: /paused}}, upstream: api, buffer: off}}
- {{upstream: api}}
"""
BUFFER = 64 * 1024
EVERY_S, PIECE = 0.1, 110  # 1.1 KiB/s
WATCHED_S = 12.0  # more than twice buffer.wait
PROMPT_S = 1.0
FREED_S = 8.0  # min_download: 5 s saved up, and what comes until two checks have seen it
GIB = 1 << 30


class Gunicorn:
    def __init__(self, folder):
        (folder / "app.py").write_text(APP)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(folder / "gunicorn.log", "wb")
        self.process = subprocess.Popen(
            [shutil.which("gunicorn", path="/usr/bin"), "--workers", "2", "--timeout", "120",
             "--bind", f"127.0.0.1:{self.port}", "--chdir", folder, "app:application"],
            stdout=self.log, stderr=self.log, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        until(self._answers, "gunicorn to answer", within=60)

    def _answers(self):
        with contextlib.suppress(OSError, Cut), Client(("127.0.0.1", self.port)) as client:
            return client.ask().status == 200

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.fixture(name="gunicorn")
def start_gunicorn(tmp_path):
    server = Gunicorn(tmp_path)
    yield server
    server.stop()


def head(framing, path="/"):
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode()


LENGTH = "Content-Length: 10000000"
CHUNKED = "Transfer-Encoding: chunked"
EXPECT = "\r\nExpect: 100-continue"
SLOW = {  # what is sent at once, and the pieces that follow
    "length": (head(LENGTH), b"x" * PIECE),
    "chunked": (head(CHUNKED), b"%x\r\n%s\r\n" % (PIECE, b"x" * PIECE)),
    "expect": (head("Content-Length: 60000" + EXPECT), b"x" * PIECE),
    "expect, chunked": (head(CHUNKED + EXPECT), b"%x\r\n%s\r\n" % (PIECE, b"x" * PIECE)),
    "at once, then slowly": (head(LENGTH) + b"x" * BUFFER, b"x" * PIECE),
}


class SlowClients:
    """n clients, each of which comes again a second after it has been turned away."""

    def __init__(self, proxy, n):
        self.proxy = proxy
        self.is_over = threading.Event()
        self.statuses = {kind: [] for kind in SLOW}
        self.threads = [threading.Thread(target=self._run, args=(list(SLOW)[i % len(SLOW)],))
                        for i in range(n)]
        for thread in self.threads:
            thread.start()

    def _run(self, kind):
        first, piece = SLOW[kind]
        while not self.is_over.is_set():
            with contextlib.suppress(OSError, Cut), Client(self.proxy.address) as client:
                client.send(first)
                if EXPECT.encode() in first and client.read().status != 100:
                    continue
                while client.is_quiet(EVERY_S) and not self.is_over.is_set():
                    client.send(piece)
                if not self.is_over.is_set():
                    self.statuses[kind].append(client.read().status)
                    self.is_over.wait(1)

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.takes(12)
def test_20_slow_uploads_do_not_keep_two_workers_from_others(start, gunicorn):
    proxy = start(POLICY.format(url=gunicorn.url))
    clients = SlowClients(proxy, 20)
    ends = time.monotonic() + WATCHED_S
    slowest, n = 0.0, 0
    try:
        while time.monotonic() < ends:
            with Stalls() as stalls:
                began = time.monotonic()
                assert proxy.ask().status == 200
                took = time.monotonic() - began
            slowest, n = max(slowest, took - stalls.total_s), n + 1
            time.sleep(0.05)
    finally:
        clients.stop()
    print(f"{n} answers, the slowest in {slowest:.3f} s; {clients.statuses}")
    assert slowest < PROMPT_S
    for kind, statuses in clients.statuses.items():
        assert statuses and set(statuses) == {408}, (kind, statuses)


class SlowReader(threading.Thread):
    """Takes 1 KiB/s of an answer until it is cut, and asks again."""

    def __init__(self, proxy):
        super().__init__()
        self.proxy = proxy
        self.n_cut = 0
        self.is_over = threading.Event()
        self.start()

    def run(self):
        while not self.is_over.is_set():
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.settimeout(1)
            with sock, contextlib.suppress(ConnectionError):
                sock.connect(self.proxy.address)
                sock.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
                self._read(sock)
            self.n_cut += not self.is_over.is_set()

    def _read(self, sock):
        while not self.is_over.wait(0.5):
            with contextlib.suppress(TimeoutError):
                if not sock.recv(512):
                    return

    def stop(self):
        self.is_over.set()
        self.join()


@pytest.mark.takes(24)
def test_2_slow_readers_do_not_keep_two_workers_from_others(start, gunicorn):
    proxy = start(POLICY.format(url=gunicorn.url))
    readers = [SlowReader(proxy) for _ in range(2)]
    slowest = 0.0
    try:
        ends = time.monotonic() + 2 * WATCHED_S
        while time.monotonic() < ends:
            with Stalls() as stalls:
                began = time.monotonic()
                assert proxy.ask().status == 200
                took = time.monotonic() - began
            slowest = max(slowest, took - stalls.total_s)
            time.sleep(0.05)
    finally:
        for reader in readers:
            reader.stop()
    print(f"the slowest in {slowest:.3f} s")
    assert slowest < FREED_S
    assert all(reader.n_cut > 0 for reader in readers)


@pytest.mark.takes(7)
def test_a_paused_upload_without_a_buffer_passes(start, gunicorn):
    proxy = start(POLICY.format(url=gunicorn.url))
    with proxy.send(head("Content-Length: 2000", "/paused") + b"x" * 1000) as client:
        assert client.is_quiet(7)
        client.send(b"x" * 1000)
        assert client.read().body == hashlib.sha256(b"x" * 2000).hexdigest().encode()


def test_events_pass(start, gunicorn):
    proxy = start(POLICY.format(url=gunicorn.url))
    response = proxy.ask(path="/events")
    assert response.status == 200 and response.body.count(b"data:") == 5


@pytest.mark.takes(6)
def test_a_put_of_1_gib_passes(start, gunicorn):
    proxy = start(POLICY.format(url=gunicorn.url))
    piece = os.urandom(1 << 20)
    seen = hashlib.sha256()
    with proxy.send(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % GIB) as client:
        for _ in range(GIB // len(piece)):
            seen.update(piece)
            client.send(piece)
        response = client.read()
    assert response.status == 200 and response.body == seen.hexdigest().encode()
