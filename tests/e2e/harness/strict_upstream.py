"""An upstream that reads what it is sent by the letter of the RFCs, and answers what is whole."""

import socket
import threading

from desync import strict


class StrictUpstream:
    """`requests`: the messages that came whole. `faults`: bytes that are none, with the rule that they break."""

    def __init__(self, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"):
        self.answer = answer
        self.requests, self.faults = [], []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        data = bytearray()
        with sock:
            while True:
                try:
                    more = sock.recv(1 << 18)
                except OSError:
                    more = b""
                if not more:
                    return  # what is cut was no request
                data += more
                try:
                    while data:
                        message, end = strict.read_request(data)
                        del data[:end]
                        self.requests.append(message)
                        sock.sendall(self.answer if message.method != b"HEAD" else self.answer.partition(b"ok")[0])
                except strict.Partial:
                    pass
                except strict.Bad as bad:
                    self.faults.append((bad.rule, bytes(data)))
                    return
                except OSError:
                    return

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
