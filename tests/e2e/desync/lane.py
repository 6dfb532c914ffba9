"""One client and one upstream on both sides of a proxy, in one thread: a case is sent, what comes out on
either side is kept.

The client sends all it has and ends its side, so the proxy ends too when it has answered: nothing is
waited for by time.
"""

import select
import socket
import time
from dataclasses import dataclass, field

from desync import strict

WITHIN_S = 20.0  # far more than any case takes
PAUSE_S = 0.0005  # between pieces, so that the proxy reads them apart; what it reads is the same either way
READ_BYTES = 1 << 18


@dataclass
class Seen:
    """A request as it reached the upstream, whole."""
    message: strict.Message
    connection: int
    number: int  # over all; the answer tells it


@dataclass
class Observation:
    """What came of one case."""
    answers: bytes = b""  # what the client read
    is_reset: bool = False  # its connection ended with a reset
    requests: list = field(default_factory=list)  # of Seen
    faults: list = field(default_factory=list)  # what the upstream was sent and may not be
    n_cut: int = 0  # requests that reached the upstream in part


class Peer:
    """A connection from the proxy to the upstream."""

    def __init__(self, sock, number):
        self.sock = sock
        self.number = number
        self.data = bytearray()
        self.out = bytearray()
        self.closes = False  # when `out` has gone


class Lane:
    """`answer(seen)` makes the bytes for a request, and whether the upstream closes behind them."""

    def __init__(self, answer=None, rules=strict.SENT):
        self.answer = answer or plain_answer
        self.rules = rules  # that the proxy has to hold
        self.poll = select.epoll()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.poll.register(self.listener, select.EPOLLIN)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.peers = {}
        self.n_connections = 0
        self.n_requests = 0
        self.now = Observation()

    # --- the upstream ---

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.n_connections += 1
            self.peers[sock.fileno()] = Peer(sock, self.n_connections)
            self.poll.register(sock, select.EPOLLIN)

    def _drop(self, peer, resets=False):
        self.poll.unregister(peer.sock)
        del self.peers[peer.sock.fileno()]
        if resets:
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.sock.close()

    def _serve(self, peer):
        try:
            data = peer.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.now.n_cut += len(peer.data) > 0
            self._drop(peer)
            return
        peer.data += data
        try:
            while peer.data and not peer.closes:
                self._read_one(peer)
        except strict.Partial:
            pass
        except strict.Bad as bad:
            self.now.faults.append((bad.rule, bytes(peer.data)))
            self._drop(peer)
            return
        self._flush(peer)

    def _read_one(self, peer):
        message, end = strict.read_request(peer.data, 0, self.rules)
        del peer.data[:end]
        self.n_requests += 1
        seen = Seen(message, peer.number, self.n_requests)
        self.now.requests.append(seen)
        out, closes = self.answer(seen)
        peer.out += out
        peer.closes = closes

    def _flush(self, peer):
        try:
            while peer.out:
                del peer.out[:peer.sock.send(peer.out)]
        except BlockingIOError:
            self.poll.modify(peer.sock, select.EPOLLIN | select.EPOLLOUT)
            return
        except (BrokenPipeError, ConnectionResetError):
            self._drop(peer)
            return
        if peer.closes:
            self._drop(peer, resets=peer.closes == "reset")
        else:
            self.poll.modify(peer.sock, select.EPOLLIN)

    def _turn(self, timeout_s):
        """Serve what is there. How much it was, and whether the client's socket is ready."""
        is_ready = False
        ready = self.poll.poll(max(timeout_s, 0))
        for fd, events in ready:
            peer = self.peers.get(fd)
            if fd == self.listener.fileno():
                self._accept()
            elif peer is None:
                is_ready = True
            elif events & select.EPOLLOUT and peer.out:
                self._flush(peer)
            else:
                self._serve(peer)
        return len(ready), is_ready

    # --- the client ---

    def run(self, address, pieces):
        """Send `pieces` to the proxy at `address`, and see what comes of it."""
        self._drain()
        self.now = Observation()
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            self.poll.register(sock, select.EPOLLIN)
            self._talk(sock, list(pieces))
            self.poll.unregister(sock)
        self._drain()
        return self.now

    def _talk(self, sock, pieces):
        deadline = time.monotonic() + WITHIN_S
        answers = bytearray()
        while True:
            if pieces is not None:
                pieces = self._send(sock, pieces)
            if self._turn(PAUSE_S if pieces is not None else deadline - time.monotonic())[1]:
                try:
                    data = sock.recv(READ_BYTES)
                except BlockingIOError:
                    continue
                except ConnectionResetError:
                    self.now.is_reset = True
                    data = b""
                answers += data
                if not data:
                    break
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end within {WITHIN_S} s, after {bytes(answers)!r}")
        self.now.answers = bytes(answers)

    @staticmethod
    def _send(sock, pieces):
        """What is still to be sent; None when our side has ended."""
        try:
            while pieces:
                n = sock.send(pieces[0])
                if n < len(pieces[0]):
                    pieces[0] = pieces[0][n:]
                    return pieces
                del pieces[0]
                if pieces:
                    return pieces  # the next one after a turn
            sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return pieces
        except OSError:
            pass  # the proxy closed: it does not want to know the rest
        return None

    def _drain(self):
        """Take what the proxy has sent to the upstream, also what is cut."""
        while self._turn(0)[0] > 0:
            pass
        while any(peer.data for peer in self.peers.values()):
            if self._turn(WITHIN_S)[0] == 0:
                cut = next(peer for peer in self.peers.values() if peer.data)
                self.now.faults.append(("M8: a request that was cut stays open", bytes(cut.data)))
                self._drop(cut)

    def close(self):
        for peer in list(self.peers.values()):
            self._drop(peer)
        self.listener.close()
        self.poll.close()


def length_answer(seen, fields=b""):
    """200, told apart from every other answer by its number."""
    body = b"answer %d\n" % seen.number
    head = b"HTTP/1.1 200 OK\r\nX-Number: %d\r\nContent-Length: %d\r\n%s\r\n" % (
        seen.number, len(body), fields)
    return head + (b"" if seen.message.method == b"HEAD" else body)


def plain_answer(seen):
    """The same, framed in one of three ways, and behind an interim response now and then."""
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" if seen.number % 5 == 0 else b""
    answer, closes = _framed_answer(seen)
    return interim + answer, closes


def _framed_answer(seen):
    if seen.number % 3 == 0 and seen.message.method != b"HEAD":
        body = b"answer %d\n" % seen.number
        chunks = b"%x;n=%d\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (len(body), seen.number, body)
        return b"HTTP/1.1 200 OK\r\nX-Number: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (
            seen.number, chunks), False
    if seen.number % 7 == 0:
        return length_answer(seen, b"Connection: close\r\n"), True
    return length_answer(seen), False
