"""Ports that stay ours while nobody listens there."""

import random
import socket


def free_port():
    """A port of 127.0.0.1 that the kernel gives to nobody: not to a connection of a test that runs
    beside this one, nor to who listens at port 0."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest_given = int(file.read().split()[0])
    while True:
        port = random.randrange(10_000, max(lowest_given, 10_100))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue  # somebody listens there
