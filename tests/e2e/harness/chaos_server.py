"""An upstream that misbehaves when it is told to: python3 -m harness.chaos_server PORT LOG SEED.

Modes come as lines on stdin. A request for /ID/SIZE is answered with SIZE bytes that follow from its
ID, and must bring the body that X-Size tells, made the same way. What becomes of each stands in LOG,
a letter and an ID a line, written before it happens: S the head has come, B a byte of the answer goes
out, H it hangs, W its body was not what it should be; and after it: F the first bytes of the answer
have gone out, E all of it has.
"""

import asyncio
import hashlib
import os
import random
import socket
import struct
import sys

PIECE = 8192
BAD = ("reset", "close", "reset_mid", "close_mid", "half_head", "nonsense", "good")


def body_of(identity, size):
    digest = hashlib.sha256(identity.encode()).digest()
    return (digest * (size // len(digest) + 1))[:size]


class Server:
    def __init__(self, log_path, seed):
        self.log_fd = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.random = random.Random(seed)
        self.mode = "good"
        self.readers = {}  # of each writer

    def log(self, letter, identity):
        os.write(self.log_fd, f"{letter} {identity}\n".encode())

    async def listen_to_orders(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.mode = line.decode().strip()
        os._exit(0)  # whoever gives orders is gone

    def fate(self):
        if self.mode == "bad":
            return self.random.choice(BAD)
        if self.mode in ("hang", "slow"):
            return self.mode if self.random.random() < 0.3 else "good"
        return "good"

    async def serve(self, reader, writer):
        self.readers[writer] = reader
        try:
            while await self.serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the proxy, or its client, has left
        del self.readers[writer]
        writer.close()

    async def serve_one(self, reader, writer):
        """Whether another request may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")
        fields = dict(field.lower().split(": ", 1) for field in fields if field)
        method, target, _ = line.split(" ")
        _, identity, size = target.split("/")
        self.log("S", identity)
        body = await read_body(reader, fields)
        if body != body_of(identity, int(fields.get("x-size", "0"))):
            self.log("W", identity)
        return await getattr(self, self.fate())(writer, identity, method, int(size))

    # --- fates ---

    def begin(self, writer, identity, first):
        """Whoever is killed may be so between any two of these: B may be told of an answer of which no
        byte went out, and a byte may have gone out where F is missing."""
        self.log("B", identity)
        writer.write(first)
        self.log("F", identity)

    async def good(self, writer, identity, method, size):
        first, *rest = answer(identity, method, size)
        self.begin(writer, identity, first)
        for piece in rest:
            await writer.drain()
            writer.write(piece)
        await writer.drain()
        self.log("E", identity)
        return True

    async def slow(self, writer, identity, method, size):
        first, *rest = answer(identity, method, size)
        self.begin(writer, identity, first)
        for piece in rest:
            await writer.drain()
            writer.write(piece)
            await asyncio.sleep(self.random.random() * 0.01)
        await writer.drain()
        self.log("E", identity)
        return True

    async def hang(self, writer, identity, _, __):
        self.log("H", identity)
        await self.readers[writer].read()
        return False

    async def close(self, writer, *_):
        writer.close()
        return False

    async def reset(self, writer, *_):
        reset(writer)
        return False

    async def close_mid(self, writer, identity, method, size):
        await self.send_part(writer, identity, method, size)
        return False

    async def reset_mid(self, writer, identity, method, size):
        await self.send_part(writer, identity, method, size)
        reset(writer)
        return False

    async def half_head(self, writer, identity, _, __):
        self.begin(writer, identity, b"HTTP/1.1 200 OK\r\nX-I")
        await writer.drain()
        return False

    async def nonsense(self, writer, identity, _, __):
        self.begin(writer, identity, b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await writer.drain()
        return False

    async def send_part(self, writer, identity, method, size):
        """All but the end: no length, no last chunk is ever whole."""
        whole = b"".join(answer(identity, method, size))
        self.begin(writer, identity, whole[:self.random.randrange(1, len(whole))])
        await writer.drain()


def answer(identity, method, size):
    """Pieces of the answer: with a length or chunked, as the ID has it."""
    body = body_of(identity, size)
    is_chunked = hashlib.sha256(identity.encode()).digest()[0] % 2 == 0
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    yield f"HTTP/1.1 200 OK\r\nX-Id: {identity}\r\n{framing}\r\n\r\n".encode()
    if method == "HEAD":
        return
    for start in range(0, size, PIECE):
        piece = body[start:start + PIECE]
        yield b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece
    if is_chunked:
        yield b"0\r\n\r\n"


def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                               struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_body(reader, fields):
    if "chunked" not in fields.get("transfer-encoding", ""):
        return await reader.readexactly(int(fields.get("content-length", "0")))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


async def main(port, log_path, seed):
    server = Server(log_path, seed)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", int(port), backlog=1024,
                                           reuse_address=True)
    await asyncio.gather(listening.serve_forever(), server.listen_to_orders())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
