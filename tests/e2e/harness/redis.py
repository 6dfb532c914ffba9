"""A Redis of one's own, and the faults that a Redis can have."""

import os
import shutil
import signal
import socket
import subprocess

from harness import redis_tls
from harness.ports import free_port
from harness.wait import until

SERVER = os.environ.get("REDIS_SERVER", "redis-server")  # or another that speaks like it: valkey-server
START_WITHIN_S = 30.0

# With REDIS_TLS=1 the proxies of a test speak TLS to each Redis that it starts: see redis_tls.py.

# Of all databases, those without an end of their own.
FIND_ENDLESS_KEYS = """
local endless = {}
for database = 0, 15 do
  if redis.pcall('SELECT', database).err then
    break -- a cluster has one alone
  end
  for _, key in ipairs(redis.call('KEYS', '*')) do
    -- the table of tenants lives; an error: a copy of another node's
    if redis.pcall('PTTL', key) == -1 and not string.find(key, ':tenants$') then
      endless[#endless + 1] = key
    end
  end
end
return endless
"""


class RedisError(Exception):
    """An error reply."""


def _read_reply(stream):
    line = stream.readline()
    if not line:
        raise ConnectionError("it hung up")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    assert kind == b"*", f"not a reply: {line!r}"
    return [_read_reply(stream) for _ in range(int(rest))]


class Redis:
    """A redis-server at 127.0.0.1:port and at a unix socket, without persistence."""

    def __init__(self, folder, *options):
        folder.mkdir()
        self.folder = folder
        self.is_secured = redis_tls.IS_WANTED and not {"--tls-port", "--cluster-enabled"} & set(options)
        options = [*options, *(redis_tls.options(free_port()) if self.is_secured else [])]
        self.options = options
        self.port = free_port()
        words = list(options)
        self.tls_port = int(words[words.index("--tls-port") + 1]) if "--tls-port" in words else None
        self.url = (f"rediss://127.0.0.1:{self.tls_port}" if self.is_secured
                    else f"redis://127.0.0.1:{self.port}")
        self.unix_path = str(folder / "redis.sock")
        self.process = None

    def start(self, *more_options):
        """Start, again too: it is there when this returns, with what it last saved, if it did."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                 "--unixsocket", self.unix_path, "--dir", str(self.folder), *self.options,
                 *more_options],
                stdout=log, stderr=log)
        until(self._answers, "Redis to answer", within=START_WITHIN_S)
        return self

    def _answers(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            self.call("PING")
        except RedisError:
            pass  # it wants a password: it is there
        except OSError:
            return False
        return True

    @property
    def announced_port(self):
        """The one that sentinels and replicas know it by."""
        return self.port if self.is_secured else self.tls_port or self.port

    def _sign_in(self):
        """The words that the options ask for: of the first user, or the password."""
        words = list(self.options)
        if "--user" in words:
            at = words.index("--user")
            return words[at + 1], next(word[1:] for word in words[at:] if word.startswith(">"))
        return words[words.index("--requirepass") + 1:][:1] if "--requirepass" in words else ()

    def call(self, *arguments, database=0):
        """One command on a connection of its own."""
        sign_in = self._sign_in()
        commands = [("AUTH", *sign_in)] if sign_in else []
        commands += [("SELECT", database)] if database else []
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            stream = sock.makefile("rwb")
            for command in [*commands, arguments]:
                parts = [part if isinstance(part, bytes) else str(part).encode()
                         for part in command]
                stream.write(b"*%d\r\n" % len(parts) +
                             b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
                stream.flush()
                reply = _read_reply(stream)
        return reply

    def keys(self, pattern="*", **how):
        return self.call("KEYS", pattern, **how)

    def get(self, key):
        return self.call("GET", key)

    # --- faults ---

    def lose_folder(self):
        """Nothing can be saved there any more."""
        shutil.rmtree(self.folder)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """As if the machine went away: nothing is said to anybody."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Whatever a test did, nothing stays in Redis for ever."""
        if self.process is not None and self.process.poll() is None:
            self.resume()
            endless = self.call("EVAL", FIND_ENDLESS_KEYS, 0)
            self.kill()
            assert not endless, f"{endless} stay for ever"
