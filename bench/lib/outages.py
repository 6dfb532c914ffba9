"""What can happen to a Redis: each kind begins, and ends with a Redis that answers again."""

import os
import signal
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


OUTAGES = {"none": Nothing, "stopped": Stopped, "killed": Killed, "paused": Paused,
           "read-only": ReadOnly, "slow": Slow}
