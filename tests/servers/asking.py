"""Many requests on kept connections, several at a time, and what came back of each."""

import json
import queue
import socket
import threading

READ_BYTES = 1 << 16
TIMEOUT_S = 20.0
N_CONNECTIONS = 4


class Response:
    """status is None where there was no answer that could be read."""

    def __init__(self, status=None, fields=None):
        self.status = status
        self.fields = fields or {}

    def reading(self):
        """What the server that answered says that it read, or None: no handler was reached."""
        text = self.fields.get("x-read")
        return json.loads(text.encode("latin-1").decode("utf-8", "replace")) if text else None

    def readings(self):
        """The same of an imitation, which answers as all servers do: by name."""
        text = self.fields.get("x-readings")
        return json.loads(text) if text else None


class Connection:
    def __init__(self, address):
        self.address = address
        self.sock = None
        self.buffer = b""

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock, self.buffer = None, b""

    def _fill(self):
        data = self.sock.recv(READ_BYTES)
        if not data:
            raise EOFError
        self.buffer += data

    def _take(self, n):
        while len(self.buffer) < n:
            self._fill()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def _take_through(self, end):
        while end not in self.buffer:
            self._fill()
        return self._take(self.buffer.index(end) + len(end))

    def _skip_body(self, fields):
        if fields.get("transfer-encoding") == "chunked":
            while True:
                size = int(self._take_through(b"\r\n"), 16)
                self._take(size + 2)
                if size == 0:
                    return
        elif "content-length" in fields:
            self._take(int(fields["content-length"]))
        else:
            raise EOFError

    def _read(self, is_head):
        status = 100
        while status < 200:
            lines = self._take_through(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ", 2)[1])
        fields = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        response = Response(status, fields)
        try:
            if not is_head and status not in (204, 304):
                self._skip_body(fields)
        except EOFError:
            self.close()
        if fields.get("connection", "").lower() == "close" or self.buffer:
            self.close()
        return response

    def _ask_once(self, raw, is_head):
        if self.sock is None:
            self.sock = socket.create_connection(self.address, TIMEOUT_S)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(raw)
        return self._read(is_head)

    def ask(self, raw):
        """The final response; one without a status where none came."""
        is_head = raw.lstrip().upper().startswith(b"HEAD ")
        for is_last in (False, True):
            is_fresh = self.sock is None
            try:
                return self._ask_once(raw, is_head)
            except (EOFError, OSError, ValueError, IndexError):
                self.close()
                if is_fresh or is_last:
                    break
        return Response()


def ask_all(address, raws, n_connections=N_CONNECTIONS):
    """The response to each, in their order."""
    responses = [None] * len(raws)
    numbers = queue.SimpleQueue()
    for number in range(len(raws)):
        numbers.put(number)

    def work():
        connection = Connection(address)
        while True:
            try:
                number = numbers.get_nowait()
            except queue.Empty:
                connection.close()
                return
            responses[number] = connection.ask(raws[number])

    threads = [threading.Thread(target=work, daemon=True) for _ in range(n_connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return responses
