"""Ports that stay ours while nobody listens there."""

import random
import socket

_claims = []  # for as long as this process lives


def _claim(port):
    """False: another test has it, or had it in this process. Claims are names of unix sockets: they are
    known to all processes, and end with theirs."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0a port of a test: {port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False  # somebody listens there


def free_port():
    """A port of 127.0.0.1 that the kernel gives to nobody: not to a connection of a test that runs
    beside this one, nor to who listens at port 0. Nor is anybody else given it here."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest_given = int(file.read().split()[0])
    while True:
        port = random.randrange(10_000, max(lowest_given, 10_100))
        if _is_free(port) and _claim(port):
            return port


def end_accepting(listener, thread):
    """Close it, after the thread that waits in its accept(), also twice: were the descriptor closed and
    given to another listener, an accept() that a signal interrupted would go on with that one."""
    try:
        listener.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # ended before
    thread.join()
    listener.close()
