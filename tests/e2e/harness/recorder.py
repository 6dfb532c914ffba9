"""Between a proxy and its Redis: passes on what comes, and remembers every byte that the proxy sent."""

import socket
import threading

from harness.ports import end_accepting


class Recorder:
    """Listens at port. `sent`: the bytes of each connection of the proxy, in the order of accepting."""

    def __init__(self, redis):
        self.redis = redis
        self.sent = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # stopped
            server = socket.create_connection(("127.0.0.1", self.redis.port))
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sent.append(bytearray())
            threading.Thread(target=self._pass_on, args=(client, server, self.sent[-1]),
                             daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, bytearray()),
                             daemon=True).start()

    @staticmethod
    def _pass_on(source, target, kept):
        try:
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of the two has gone

    def mark(self):
        """This moment, for commands(since=...): how much each connection has sent."""
        return [len(sent) for sent in self.sent]

    def commands(self, since=()):
        """Each command that was sent since that mark, as its words, one connection after the other.
        Fails on what is not exactly that."""
        starts = [*since, *[0] * len(self.sent)]
        return [command for sent, start in zip(list(self.sent), starts)
                for command in parse(bytes(sent[start:]))]

    def stop(self):
        end_accepting(self._listener, self._accepting)


def _number(data, at, kind):
    end = data.index(b"\r\n", at)
    word = data[at + 1:end]
    assert data[at:at + 1] == kind and word.isdigit(), f"not a command: {data[at:at + 80]!r}"
    return int(word), end + 2


def parse(data):
    """The commands of a connection: arrays of bulk strings, nothing else, to the last byte."""
    at = 0
    while at < len(data):
        n_words, at = _number(data, at, b"*")
        words = []
        for _ in range(n_words):
            size, at = _number(data, at, b"$")
            words.append(data[at:at + size])
            assert data[at + size:at + size + 2] == b"\r\n", f"not so long: {words[-1]!r}"
            at += size + 2
        yield words
