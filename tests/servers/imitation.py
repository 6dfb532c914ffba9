"""A server that answers each request with what every one of the real servers would read of it."""

import json
import socketserver
import threading

import reading


def _head(stream):
    """(method, target, fields), or None at the end."""
    line = stream.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").rstrip("\r\n").split(" ")
    fields = []
    while True:
        line = stream.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            return method, target, fields
        name, _, value = line.partition(":")
        fields.append((name, value.strip(" \t")))


def _skip_body(stream, fields):
    named = {name.lower(): value for name, value in fields}
    if named.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = int(stream.readline(), 16)
            stream.read(size)
            stream.readline()
            if size == 0:
                return
    stream.read(int(named.get("content-length", 0)))


class _Handler(socketserver.StreamRequestHandler):
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle(self):
        while True:
            try:
                head = _head(self.rfile)
                if head is None:
                    return
                _skip_body(self.rfile, head[2])
                said = json.dumps(reading.all_readings(*head))
                self.wfile.write(f"HTTP/1.1 200 OK\r\nX-Readings: {said}\r\nContent-Length: 0\r\n\r\n".encode())
                self.wfile.flush()
            except OSError:
                return


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address=("127.0.0.1", 0)):
        super().__init__(address, _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
