"""A client whose handshake stays under way as long as a test likes."""

import ctypes
import socket
import struct

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
# Classic BPF on a segment from the TCP header on: what has the flag SYN does not come through.
LOSE_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0x40000))


class Handshake:
    """Begun with `address`, whose every SYN-ACK is lost."""

    def __init__(self, address):
        code = b"".join(struct.pack("HBBI", *one) for one in LOSE_SYN)
        held = ctypes.create_string_buffer(code)
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                             struct.pack("HP", len(LOSE_SYN), ctypes.addressof(held)))
        self.sock.setblocking(False)
        self.sock.connect_ex(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def go_on(self):
        """The next SYN-ACK comes through: a second after the first one, if that was lost."""
        self.sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
