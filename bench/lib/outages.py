"""What can happen to a Redis: each kind begins, and ends with a Redis that answers again."""

import os
import signal
import socket
import threading

from redis_pipe import RedisPipe

SLOW_S = 0.05  # longer than a decision may take


class Outage:
    """@start_again: starts a Redis where this one was. @seconds: how long it is to last."""

    def __init__(self, redis, start_again, seconds):
        self.redis = redis
        self.start_again = start_again
        self.seconds = seconds

    def ask(self, *words):
        pipe = RedisPipe(self.redis.port)
        try:
            return pipe.ask(*words)
        finally:
            pipe.close()


class Nothing(Outage):
    """For comparison."""

    def begin(self):
        pass

    def end(self):
        pass


class Stopped(Outage):
    """The process stands still, the kernel goes on taking what it is sent."""

    def begin(self):
        os.kill(self.redis.pid, signal.SIGSTOP)

    def end(self):
        os.kill(self.redis.pid, signal.SIGCONT)


class Killed(Outage):
    """Connections are reset, new ones refused."""

    def begin(self):
        self.redis.child.kill()
        self.redis.child.wait()

    def end(self):
        self.start_again()


class Dropped(Killed):
    """Connections are reset, and new ones get no answer at all, as behind a firewall: in its place
    stands a listener whose queue is full."""

    def begin(self):
        super().begin()
        self.sockets = [socket.socket()]
        self.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sockets[0].bind(("127.0.0.1", self.redis.port))
        self.sockets[0].listen(0)
        for _ in range(2):
            self.sockets.append(socket.socket())
            self.sockets[-1].setblocking(False)
            self.sockets[-1].connect_ex(("127.0.0.1", self.redis.port))

    def end(self):
        for each in self.sockets:
            each.close()
        super().end()


class Loading(Killed):
    """In its place stands one that reads its data all the time, and says so to each command."""

    def begin(self):
        super().begin()
        self.listener = socket.create_server(("127.0.0.1", self.redis.port))
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # it is over
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection):
        try:
            with connection, connection.makefile("rb") as commands:
                while head := commands.readline():
                    for _ in range(int(head[1:])):
                        commands.read(int(commands.readline()[1:]) + 2)
                    connection.sendall(b"-LOADING Redis is loading the dataset in memory\r\n")
        except OSError:
            pass  # closed by one of the two

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already
        super().end()


class Flushed(Outage):
    """Somebody flushes its scripts each second: nobody should notice."""

    def begin(self):
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._flush)
        self.thread.start()

    def _flush(self):
        while not self.is_over.wait(1):
            self.ask("SCRIPT", "FLUSH")

    def end(self):
        self.is_over.set()
        self.thread.join()


class Paused(Outage):
    """It reads commands, and answers when the pause is over: nobody could end it sooner."""

    def begin(self):
        self.ask("CLIENT", "PAUSE", self.seconds * 1000, "ALL")

    def end(self):
        self.ask("PING")


class ReadOnly(Outage):
    """It is made a replica of nobody, and refuses to write."""

    def begin(self):
        self.ask("REPLICAOF", "127.0.0.1", "1")

    def end(self):
        self.ask("REPLICAOF", "NO", "ONE")


class Slow(Outage):
    """It is busy with somebody's slow command, again and again, and answers in between."""

    def begin(self):
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._keep_busy)
        self.thread.start()

    def _keep_busy(self):
        while not self.is_over.is_set():
            self.ask("DEBUG", "SLEEP", SLOW_S)

    def end(self):
        self.is_over.set()
        self.thread.join()


OUTAGES = {"none": Nothing, "stopped": Stopped, "killed": Killed, "dropped": Dropped,
           "loading": Loading, "flushed": Flushed, "paused": Paused, "read-only": ReadOnly,
           "slow": Slow}
