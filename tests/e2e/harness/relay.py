"""Between a proxy and its Redis: passes every command on and every reply back, or does what a faulty
network, or another kind of Redis, would do."""

import random
import socket
import threading

from harness import redis_tls
from harness.ports import end_accepting


class Relay:
    """Listens at port. `reply`: what scripts are answered instead of by Redis (bytes; None: by
    Redis); `n_replied`: how many were. `is_hole`: takes what comes and says nothing any more, on connections that are then open,
    for ever. `delay_s`: replies to scripts come so much later at most, at random."""

    def __init__(self, redis, seed=0):
        self.redis = redis
        self.reply = None
        self.is_hole = False
        self.delay_s = 0.0
        self.n_accepted = 0
        self.n_replied = 0
        self.rng = random.Random(seed)
        self._is_over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{redis_tls.scheme()}://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # stopped
            self.n_accepted += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with redis_tls.secured(client) as client, \
                    socket.create_connection(("127.0.0.1", self.redis.port)) as server:
                self._pass_on(client, client.makefile("rb"), server, server.makefile("rb"))
        except (OSError, EOFError):
            pass  # one of the two has gone

    def _pass_on(self, client, commands, server, replies):
        while not self._is_over.is_set():
            command = read_value(commands)
            if self.is_hole:
                self._is_over.wait()
                return
            is_script = b"\r\nEVAL" in command[:20]
            if is_script and self.reply is not None:
                self.n_replied += 1
                client.sendall(self.reply)
                continue
            server.sendall(command)
            reply = read_value(replies)
            if is_script and self.delay_s > 0:
                self._is_over.wait(self.rng.random() * self.delay_s)
            if self.is_hole:
                self._is_over.wait()
                return
            client.sendall(reply)

    def stop(self):
        self._is_over.set()
        end_accepting(self._listener, self._accepting)


def read_value(stream):
    """One RESP value, as it stands on the wire."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    if line[:1] == b"$" and line[1:3] != b"-1":
        return line + stream.read(int(line[1:]) + 2)
    if line[:1] == b"*" and line[1:3] != b"-1":
        return line + b"".join(read_value(stream) for _ in range(int(line[1:])))
    return line
