"""A name server that says what a test wants, over UDP on the loopback address."""

import ipaddress
import socket
import struct
import threading

NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3
A, AAAA = 1, 28


class NameServer:
    """`names` is {name: addresses}; a name that is not there does not exist. `code`, other than
    NO_ERROR, is the answer to every question; None: there is no answer. `questions` are the names
    that were asked for their IPv4 addresses, in order."""

    def __init__(self, ttl=60):
        self.names = {}
        self.ttl = ttl
        self.code = NO_ERROR
        self.questions = []
        self.failures = []
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._sock.getsockname()[1]}"
        self._is_over = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def count(self, name):
        return self.questions.count(name)

    def _serve(self):
        while True:
            data, client = self._sock.recvfrom(4096)
            if self._is_over:
                return
            try:
                answer = self._answer(data)
            except Exception as failure:
                self.failures.append(failure)
                return
            if answer is not None:
                self._sock.sendto(answer, client)

    def _answer(self, data):
        end = data.index(0, 12)  # names in questions have no pointers
        labels, at = [], 12
        while at < end:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        name = ".".join(labels).lower()  # its case is evdns's to choose
        kind = struct.unpack("!H", data[end + 1:end + 3])[0]
        question = data[12:end + 5]
        if kind == A:
            self.questions.append(name)
        if self.code is None:
            return None
        code = self.code
        if code == NO_ERROR and name not in self.names:
            code = NO_SUCH_NAME
        records = [self._record(address) for address in self.names.get(name, ())
                   if code == NO_ERROR and ipaddress.ip_address(address).version ==
                   (4 if kind == A else 6)]
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def _record(self, address):
        packed = ipaddress.ip_address(address).packed
        return struct.pack("!HHHIH", 0xC00C, A if len(packed) == 4 else AAAA, 1, self.ttl,
                           len(packed)) + packed

    def stop(self):
        self._is_over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self._sock.getsockname())
        self._thread.join()
        self._sock.close()
        assert not self.failures, self.failures
