"""Sentinels that watch a master of one's own, and fail it over when it goes away."""

import subprocess

from harness.ports import free_port
from harness.redis import SERVER, Redis, RedisError
from harness.wait import until

MASTER = "mymaster"
DOWN_AFTER_MS = 1000
NEVER_MS = 600_000  # for tests in which a master that stalls is to stay one
FAILOVER_TIMEOUT_MS = 3000
READY_WITHIN_S = 30.0
FAILOVER_WITHIN_S = 30.0


class Sentinel(Redis):
    """One of them: a process with a file of its own, which it rewrites."""

    def __init__(self, folder, master, quorum, down_after_ms, *lines):
        super().__init__(folder)
        self.lines = lines
        self.is_secured = False  # it has a port for TLS if `lines` say so
        self.tls_port = next((int(line.split()[1]) for line in lines if line.startswith("tls-port ")),
                             None)
        self.file = folder / "sentinel.conf"
        self.file.write_text(
            "".join(f"{line}\n" for line in lines if line.startswith("tls-")) +
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {master.announced_port} {quorum}\n"
            f"sentinel down-after-milliseconds {MASTER} {down_after_ms}\n"
            f"sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT_MS}\n"
            + "".join(f"{line}\n" for line in lines if not line.startswith("tls-")))

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([SERVER, str(self.file), "--sentinel"],
                                            stdout=log, stderr=log)
        until(self._answers, "a sentinel to answer", within=READY_WITHIN_S)
        return self

    def _sign_in(self):
        return [line.split()[1] for line in self.lines if line.startswith("requirepass ")]

    def master_port(self):
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])

    def knows(self, n_replicas, n_others):
        """Whether it could take part in a failover now."""
        told = self.call("SENTINEL", "MASTER", MASTER)
        about = dict(zip(told[::2], told[1::2]))
        return (about[b"flags"] == b"master" and int(about[b"num-slaves"]) == n_replicas
                and int(about[b"num-other-sentinels"]) == n_others)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()


class Watched:
    """A master, its replicas, and the sentinels of both."""

    def __init__(self, servers, sentinels):
        self.servers = servers
        self.sentinels = sentinels

    @property
    def url(self):
        scheme = "rediss" if self.sentinels[0].tls_port else "redis"
        hosts = ",".join(f"127.0.0.1:{sentinel.announced_port}" for sentinel in self.sentinels)
        return f"{scheme}+sentinel://{hosts}/{MASTER}"

    def _living(self):
        return [sentinel for sentinel in self.sentinels if sentinel.process.poll() is None]

    def wait_until_ready(self):
        """All know all, and the replicas have what the master has: a failover can succeed."""
        until(lambda: all(sentinel.knows(len(self.servers) - 1, len(self.sentinels) - 1)
                          for sentinel in self._living()),
              "the sentinels to know all", within=READY_WITHIN_S)
        until(lambda: len(self.master().call("ROLE")[2]) == len(self.servers) - 1,
              "the replicas", within=READY_WITHIN_S)

    def master(self):
        """Who it is, as the sentinels that live agree."""
        ports = {sentinel.master_port() for sentinel in self._living()}
        assert len(ports) == 1, ports
        port = ports.pop()
        return next(server for server in self.servers if server.announced_port == port)

    def replica(self):
        return next(server for server in self.servers if server is not self.master())

    def has_moved_from(self, old):
        """One of the sentinels names another master."""
        return any(sentinel.master_port() != old.announced_port for sentinel in self._living())

    def wait_for_failover_from(self, old):
        until(lambda: self.has_moved_from(old), "the failover", within=FAILOVER_WITHIN_S)

    def ask_for_failover(self):
        """It has begun; a replica that has just stalled is not good enough."""
        def is_begun():
            try:
                return self.sentinels[0].call("SENTINEL", "FAILOVER", MASTER)
            except RedisError:
                return False

        until(is_begun, "a replica that can be promoted")

    def keep_master(self):
        """Whoever is the master stays it, also when it stalls."""
        for sentinel in self._living():
            sentinel.call("SENTINEL", "SET", MASTER, "down-after-milliseconds", NEVER_MS)

    def wait_until_agreed(self):
        until(lambda: len({sentinel.master_port() for sentinel in self._living()}) == 1,
              "the sentinels to agree", within=FAILOVER_WITHIN_S)

    def kill_sentinels(self):
        for sentinel in self._living():
            sentinel.kill()

    def start_sentinels(self):
        """Again; they remember what they knew."""
        for sentinel in self.sentinels:
            sentinel.start()
