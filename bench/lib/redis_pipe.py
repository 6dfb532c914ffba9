"""A Redis that is asked many things at once: commands out in batches, replies in their order."""

import socket

BATCH = 500  # commands under way: their replies fit the socket's buffers
TIMEOUT_SECONDS = 60


class RedisError(Exception):
    """Redis answered with an error."""


def encode(words):
    """Words of a command as they travel."""
    data = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in data)


def command(words):
    return b"*%d\r\n" % len(words) + encode(words)


class Pattern:
    """A command that is sent many times and differs in one word: all else is encoded once."""

    def __init__(self, before, after):
        self.before = b"*%d\r\n" % (len(before) + 1 + len(after)) + encode(before)
        self.after = encode(after)

    def command(self, word):
        return b"%s$%d\r\n%s\r\n%s" % (self.before, len(word), word, self.after)


class RedisPipe:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def ask(self, *words):
        """The reply to one command."""
        return next(self.ask_all([command(words)]))

    def ask_all(self, commands):
        """The replies to all commands, encoded ones; asks as it is read."""
        batch = []
        for encoded in commands:
            batch.append(encoded)
            if len(batch) == BATCH:
                yield from self._flush(batch)
                batch = []
        yield from self._flush(batch)

    def _flush(self, batch):
        self.socket.sendall(b"".join(batch))
        for _ in batch:
            yield self._reply()

    def _reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"+":
            return rest
        raise RedisError((rest or line).decode(errors="replace"))
