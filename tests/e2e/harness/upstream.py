"""An upstream that does what a test says, and remembers every byte it was sent."""

import socket
import threading

from harness import message
from harness.ports import end_accepting, free_port
from harness.wait import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"


class Peer:
    """One connection, as the behaviour of a test sees it."""

    def __init__(self, upstream, sock, number):
        self.upstream = upstream
        self.sock = sock
        self.number = number
        self.n_requests = 0
        self.reader = message.Reader(sock)
        self.is_open = True

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        if self.is_open:
            self.is_open = False
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was first
            self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.is_open = False
        self.sock.close()

    def hang(self):
        """Say nothing until the other side gives up, or the test is over."""
        self.reader.has_ended()

    def read_body(self, request):
        """Read the body of `request`; message.Cut if it never becomes whole."""
        try:
            if request.is_chunked():
                request.body = self.reader.chunked_body()
            elif request.get("Content-Length") is not None:
                request.body = self.reader.length_body(int(request.get("Content-Length")))
        except message.Cut as cut:
            self.upstream.cut_bodies.append(cut.partial)
            raise
        return request.body


class Recorder:
    """A server with the `requests` that it was sent, in the order of their heads."""

    def wait_for(self, n):
        """The request number n, from 1, when it has come."""
        until(lambda: len(self.requests) >= n, f"request {n} at the upstream")
        return self.requests[n - 1]

    @property
    def last(self):
        return self.requests[-1]


class Upstream(Recorder):
    """Listens at 127.0.0.1:port, or at `address`, also the path of a unix socket. `behave(peer, request)`
    answers each request; its body has been read before, unless reads_body is False. `answer`, given
    instead, is sent every time.

    Its port is one that nobody is given when it has stopped: proxies of other tests listen where the
    kernel likes, and must not be asked by those that miss a server there."""

    def __init__(self, behave=None, answer=OK, reads_body=True, address=None):
        self.behave = behave or (lambda peer, request: peer.send(answer))
        self.reads_body = reads_body
        self.requests = []  # in order of their heads
        self.cut_bodies = []  # what had come of bodies that were never whole
        self.n_connections = 0
        self.failures = []  # of the behaviour: they fail the test
        self._peers = []
        self._is_stopping = False
        is_unix = isinstance(address, str)
        self._listener = self._listen(address)
        self.port = None if is_unix else self._listener.getsockname()[1]
        self.address = address if is_unix else f"127.0.0.1:{self.port}"
        self.url = f"unix:{address}" if is_unix else f"http://{self.address}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @staticmethod
    def _listen(address):
        if isinstance(address, str):
            return socket.create_server(address, family=socket.AF_UNIX, backlog=128)
        while address is None:
            try:
                return socket.create_server(("127.0.0.1", free_port()), backlog=128)
            except OSError:
                continue  # somebody was faster
        return socket.create_server(address, backlog=128)

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._is_stopping:
                sock.close()
                return
            if self.port is not None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.n_connections += 1
            peer = Peer(self, sock, self.n_connections)
            self._peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            while peer.is_open:
                self._serve_one(peer)
        except (message.Cut, OSError):
            pass  # the proxy closed: tests look at what came before
        except Exception as failure:
            self.failures.append(failure)
        peer.close()

    def _serve_one(self, peer):
        request = message.Request(peer.reader.head())
        request.connection = peer.number
        peer.n_requests += 1
        if not self.reads_body:
            self.requests.append(request)
        else:
            peer.read_body(request)
            self.requests.append(request)
        self.behave(peer, request)

    def open_peers(self):
        return [peer for peer in self._peers if peer.is_open]

    def stop(self):
        self._is_stopping = True
        end_accepting(self._listener, self._accepting)
        for peer in self._peers:
            peer.close()


def answer(status="200 OK", fields=(), body=b"ok\n", version="HTTP/1.1"):
    """The bytes of a response with a Content-Length."""
    lines = [f"{version} {status}", *(f"{name}: {value}" for name, value in fields),
             f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
