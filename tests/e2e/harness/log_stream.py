"""A stream that the program logs to: a pipe, a unix stream socket or a terminal, whose reader is the test."""

import os
import pty
import socket
import termios
import threading
import tty

KINDS = ("pipe", "socket", "pty")


def _pair(kind):
    """The descriptors (to read, to write)."""
    if kind == "pipe":
        return os.pipe()
    if kind == "socket":
        return [end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    master, slave = pty.openpty()
    tty.setraw(slave)
    return master, slave


class Stream:
    """Nobody reads until `read_on`."""

    def __init__(self, kind):
        self.read_fd, self.write_fd = _pair(kind)
        self._bytes = bytearray()
        self._thread = None

    def fill(self):
        """Let not one more byte fit: write empty lines, or stop the terminal as Ctrl-S does."""
        if os.isatty(self.write_fd):
            termios.tcflow(self.write_fd, termios.TCOOFF)
            return
        os.set_blocking(self.write_fd, False)
        size = 4096
        while size:
            try:
                os.write(self.write_fd, b"\n" * size)
            except BlockingIOError:
                size //= 2
        os.set_blocking(self.write_fd, True)

    def hand_over(self):
        """The program has it now: when that ends, so does the stream."""
        os.close(self.write_fd)
        self.write_fd = None

    def _read(self):
        try:
            while data := os.read(self.read_fd, 65536):
                self._bytes += data
        except OSError:  # a terminal that nobody has open any more
            pass

    def read_on(self):
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def lines(self):
        """Those that have come so far, without those of fill()."""
        return [line for line in bytes(self._bytes).split(b"\n")[:-1] if line]

    def lines_to_the_end(self):
        """All of them, when the program has ended; the last is a whole one."""
        self._thread.join()
        assert self._bytes.endswith(b"\n"), self._bytes[-100:]
        return self.lines()

    def close(self):
        """The reader goes away."""
        if self.read_fd is not None:
            os.close(self.read_fd)
            self.read_fd = None

    def stop(self):
        if self.write_fd is not None:
            self.hand_over()
        if self._thread is not None:
            self._thread.join()
        self.close()
