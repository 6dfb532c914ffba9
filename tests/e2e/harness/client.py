"""A client that sends exactly these bytes, and knows exactly what it got."""

import socket

from harness import message
from harness.wait import is_readable

TIMEOUT_S = 60.0


class Client:
    """One connection, to (host, port) or the path of a unix socket. `source` is the address that it
    comes from."""

    def __init__(self, address, source=None):
        self.is_unix = isinstance(address, str)
        family = (socket.AF_UNIX if self.is_unix else
                  socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        if source is not None:
            self.sock.bind((source, 0))
        self.sock.connect(address)
        if not self.is_unix:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = message.Reader(self.sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def end(self):
        """End our side; the answer can still come."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self):
        self.sock.close()

    def read(self, method="GET"):
        """The next response, an interim one too. Raises message.Cut if it is not whole."""
        response = message.Response(self.reader.head())
        if method == "HEAD" or response.status < 200 or response.status in (204, 304):
            return response
        if response.is_chunked():
            assert response.get("Content-Length") is None
            response.body = self.reader.chunked_body()
        elif response.get("Content-Length") is not None:
            response.body = self.reader.length_body(int(response.get("Content-Length")))
        else:
            assert response.get("Connection") == "close"
            response.body = self.reader.take_rest()
        return response

    def ask(self, method="GET", path="/", fields=(), body=None, **how):
        self.send(message.request(method, path, fields, body, **how))
        return self.read(method)

    def has_ended(self):
        """The other side has ended the connection, and sent nothing before that."""
        return self.reader.has_ended()

    def is_quiet(self, for_s=0.1):
        """Nothing comes for a while: neither bytes nor the end."""
        return not self.reader.buffer and not is_readable(self.sock, for_s)
