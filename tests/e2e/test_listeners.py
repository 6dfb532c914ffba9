"""Whoever could connect is answered: while addresses come and go, and when the program ends."""

import signal
import time

import pytest

from harness.callers import Callers
from harness.client import Client
from harness.handshake import Handshake
from harness.ports import free_port
from harness.reload import reload

POLICY = """workers: 2
log: off
routes: [{respond: {status: 200, body: ok}}]
"""
SECONDS = 6.0


def check(found):
    assert not found["lost"], (found["lost"], found["told"])
    assert found["answered"] > 100, found


@pytest.mark.parametrize("kind", ["address", "unix"])
def test_nobody_who_could_connect_is_lost_when_an_address_goes(start, tmp_path, kind):
    kept, gone = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    if kind == "unix":
        gone = f"unix:{tmp_path}/s"
    both = f"[{kept}, '{gone}']"
    proxy = start(f"listen: {both}\n" + POLICY)
    callers = Callers(proxy.addresses[1], n_processes=2, n_threads=24)
    try:
        ends, n_changes = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends:
            n_changes += 1
            said = reload(proxy, POLICY, listen=both if n_changes % 2 == 0 else kept)
            assert "the policy is in force" in said, said
    finally:
        found = callers.end()
    check(found)
    assert found["refused"] > 0


def test_an_address_that_goes_may_be_named_again_as_soon_as_the_reload_is_told(start):
    kept, gone = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    both = f"[{kept}, {gone}]"
    proxy = start(f"listen: {both}\n" + POLICY)
    with Handshake(proxy.addresses[1]):  # for its sake a socket stays for a second
        for listen in (kept, both):
            said = reload(proxy, POLICY, listen=listen)
            assert "the policy is in force" in said, said
    with Client(proxy.addresses[1]) as client:
        assert client.ask().status == 200


def test_nobody_who_could_connect_is_lost_when_the_program_ends(start):
    port = free_port()
    callers = Callers(("127.0.0.1", port), n_processes=2, n_threads=24)
    try:
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            proxy = start(f"listen: 127.0.0.1:{port}\n" + POLICY)
            time.sleep(0.1)
            proxy.signal(signal.SIGTERM)
            assert proxy.wait() == 0
    finally:
        found = callers.end()
    check(found)
