"""Instructions of a program in user space, counted by valgrind: the same on any machine and however busy it
is, as long as compiler and libraries are the same."""

import contextlib
import os
import re
import socket

from stage import StageError, free_port

# Which copy of memcpy and the like the C library takes depends on the processor: here the oldest.
WITHOUT = ["AVX512VL", "AVX512F", "AVX2", "AVX", "AVX_Fast_Unaligned_Load", "ERMS", "FSRM", "SSE4_2", "SSE4_1",
           "SSSE3"]
PLAIN_LIBC = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join("-" + name for name in WITHOUT)}
START_SECONDS = 60
TIMEOUT_SECONDS = 60
SETTLED, SETTLES_WITHIN = 20, 500  # requests


class Client:
    """A keep-alive connection that asks for one thing after the other."""

    def __init__(self, port, fields=b""):
        self.fields = fields
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.file = self.socket.makefile("rb")

    def ask(self, path):
        """The status of the answer."""
        self.socket.sendall(b"GET %s HTTP/1.1\r\nHost: bench.example\r\n%s\r\n" % (path, self.fields))
        status = int(self.file.readline().split(b" ")[1])
        n_bytes = 0
        while (line := self.file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                n_bytes = int(value)
        self.file.read(n_bytes)
        return status

    def close(self):
        self.file.close()
        self.socket.close()


def count(stage, name, argv, port, drive):
    """Runs @argv, which listens on @port, has @drive() use it, ends it, and gives the instructions that
    it took from its start to its end."""
    out = stage.dir / f"{name}.callgrind"
    argv = ["valgrind", "--quiet", "--tool=callgrind", "--fair-sched=yes",
            f"--callgrind-out-file={out}", *argv]
    process = stage.start(name, argv, port, environment=os.environ | PLAIN_LIBC,
                          start_seconds=START_SECONDS)
    drive()
    process.require_running()
    process.stop()
    found = re.search(r"^totals: (\d+)$", out.read_text(), re.MULTILINE) if out.exists() else None
    if not found:
        raise StageError(f"{name}: valgrind counted nothing:\n{process.said()}")
    return int(found[1])


def _settle(client, name, status):
    """Asks until the answer is @status for good: the first ones may come before the link to Redis does."""
    n_alike = 0
    for _ in range(SETTLES_WITHIN):
        n_alike = n_alike + 1 if client.ask(b"/settling") == status else 0
        if n_alike == SETTLED:
            return
    raise StageError(f"{name}: of {SETTLES_WITHIN} requests the last were not answered with {status}")


def _ask_all(client, name, n_requests, status):
    for number in range(n_requests):
        seen = client.ask(b"/items/%06d" % number)
        if seen != status:
            raise StageError(f"{name}: request {number} was answered with {seen}")


def per_request(stage, name, write_config, sluice, n_few, n_many, status, beside=None, fields=b""):
    """Instructions of sluice for one request: two runs differ in nothing but the number of requests, so
    what starting and stopping takes falls out.

    @write_config: of a name and a port, gives the policy file. @status: of all answers.
    @beside: of a port, gives a context that lasts as long as the requests. @fields: lines of all requests.
    """
    totals = []
    for n_requests in (n_few, n_many):
        port = free_port()
        config = write_config(f"{name}-{n_requests}", port)
        argv = [sluice, "run", config]

        def drive(n_requests=n_requests, port=port):
            with beside(port) if beside else contextlib.nullcontext():
                client = Client(port, fields)
                _settle(client, name, status)
                _ask_all(client, name, n_requests, status)
                client.close()

        totals.append(count(stage, f"{name}-{n_requests}", argv, port, drive))
    return (totals[1] - totals[0]) / (n_many - n_few)
