"""HTTP/1.1 messages, read byte by byte as strictly as a test wants them."""

import json


class Cut(Exception):
    """The peer closed in the middle of a message; .partial is what had come of its body."""

    def __init__(self, where, partial=b""):
        super().__init__(f"closed in the middle of {where}, after {len(partial)} bytes of body")
        self.partial = partial


class Head:
    """A start line and fields, in their order, as they stood on the wire."""

    def __init__(self, raw):
        assert raw.endswith(b"\r\n\r\n")
        lines = raw[:-4].split(b"\r\n")
        self.raw = raw
        self.start_line = lines[0].decode("latin-1")
        self.fields = []
        for line in lines[1:]:
            name, colon, value = line.decode("latin-1").partition(":")
            assert colon and name and name == name.strip(), f"not a field line: {line!r}"
            self.fields.append((name, value.strip(" \t")))

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def get(self, name):
        """The one value of the field, or None. A field that stands there twice fails the test."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} stands there {len(values)} times: {values}"
        return values[0] if values else None

    def is_chunked(self):
        return (self.get("Transfer-Encoding") or "").lower() == "chunked"


class Response(Head):
    def __init__(self, raw):
        super().__init__(raw)
        self.version, status, self.reason = self.start_line.split(" ", 2)
        assert len(status) == 3
        self.status = int(status)
        self.body = b""

    def json(self):
        return json.loads(self.body)


class Request(Head):
    def __init__(self, raw):
        super().__init__(raw)
        self.method, self.target, self.version = self.start_line.split(" ")
        self.body = b""
        self.connection = None  # number of the upstream connection it came on, from 1


class Reader:
    """Bytes of a socket, taken in the pieces that the grammar names."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = bytearray()

    def _fill(self):
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def take(self, n, where):
        while len(self.buffer) < n:
            if not self._fill():
                raise Cut(where, bytes(self.buffer))
        taken = bytes(self.buffer[:n])
        del self.buffer[:n]
        return taken

    def take_through(self, end, where):
        searched = 0
        while True:
            at = self.buffer.find(end, searched)
            if at >= 0:
                return self.take(at + len(end), where)
            searched = max(0, len(self.buffer) - len(end))
            if not self._fill():
                raise Cut(where, bytes(self.buffer))

    def take_rest(self):
        while self._fill():
            pass
        return self.take(len(self.buffer), "the rest")

    def has_ended(self):
        """Nothing more came, and the peer has ended its side."""
        return not self.buffer and not self._fill()

    def head(self):
        return self.take_through(b"\r\n\r\n", "a head")

    def length_body(self, n):
        return self.take(n, "a body of known length")

    def chunk(self):
        """The next one as we write them: no extensions, no trailers. b"": the last."""
        size = int(self.take_through(b"\r\n", "a chunk line")[:-2], 16)
        content = self.take(size, "a chunk")
        assert self.take(2, "the end of a chunk") == b"\r\n"
        return content

    def chunked_body(self):
        body = bytearray()
        try:
            while chunk := self.chunk():
                body += chunk
            return bytes(body)
        except Cut as cut:
            raise Cut("a chunked body", bytes(body) + cut.partial) from None


def request(method, path, fields=(), body=None, host="a.test", version="HTTP/1.1"):
    """The bytes of a request; a body gets its Content-Length unless the fields frame it."""
    fields = [(name, value) for name, value in dict(fields).items()] if isinstance(
        fields, dict) else list(fields)
    names = {name.lower() for name, _ in fields}
    if host is not None and "host" not in names:
        fields.insert(0, ("Host", host))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        fields.append(("Content-Length", str(len(body))))
    lines = [f"{method} {path} {version}"] + [f"{name}: {value}" for name, value in fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunked(*pieces):
    """A chunked body of these pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
