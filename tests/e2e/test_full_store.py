"""More clients than the embedded store has room for: none gets in by pushing another out."""

import collections
import re
import threading

import pytest

from harness import message
from harness.upstream import answer
from harness.wait import until

N_CLIENTS = 24_000  # a table of 1 MiB has room for fewer
BATCH = 400


def flood(proxy, n_clients):
    """One request from each of so many clients; their statuses."""
    statuses = collections.Counter()
    with proxy.connect() as client:
        for first in range(0, n_clients, BATCH):
            addresses = [f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"
                         for i in range(first, first + BATCH)]
            client.send(b"".join(message.request("GET", "/", {"X-Forwarded-For": address})
                                 for address in addresses))
            statuses.update(client.read().status for _ in range(BATCH))
    return statuses


def told_at_the_end(proxy):
    """What the embedded store counted."""
    proxy.stop()
    line = next(line for line in proxy.stderr().splitlines() if "the embedded store held" in line)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}


def ask(proxy, address):
    return proxy.ask(fields={"X-Forwarded-For": address}).status


@pytest.mark.parametrize("full, newcomer", [("shared_counter", {204, 429}), ("deny", {429, 503}),
                                            ("allow", {204})])
def test_a_flood_of_clients_lets_no_denied_one_in(start, full, newcomer):
    proxy = start(f"""
        log: off
        trusted_proxies: 127.0.0.1
        store: {{memory: 1MiB, when_full: {full}}}
        limits: {{once: {{key: client.ip, rate: 1/day}}}}
        routes: [{{limits: [once], respond: {{status: 204}}}}]
    """)
    before = proxy.memory_bytes()
    assert [ask(proxy, "192.0.2.1") for _ in range(2)] == [204, 429]
    statuses = flood(proxy, N_CLIENTS)
    assert set(statuses) <= {204} | newcomer and statuses[204] >= 4000
    if full != "allow":
        assert statuses[204] < N_CLIENTS, "the store never was full"
    assert ask(proxy, "192.0.2.1") == 429
    assert ask(proxy, "10.0.0.1") == 429, "the first of the flood is still denied too"
    assert ask(proxy, "192.0.2.77") in newcomer
    assert proxy.memory_bytes() - before < 24 << 20
    told = told_at_the_end(proxy)
    assert told["keys"] <= told["keys_max"] < N_CLIENTS
    assert told["overflows"] >= N_CLIENTS - told["keys_max"] and told["evictions"] == 0


def test_a_flood_of_clients_that_are_not_denied_is_forgotten(start):
    proxy = start("""
        log: off
        trusted_proxies: 127.0.0.1
        store: {memory: 1MiB, when_full: deny}
        limits: {thrice: {key: client.ip, rate: 3/day}}
        routes: [{limits: [thrice], respond: {status: 204}}]
    """)
    assert [ask(proxy, "192.0.2.1") for _ in range(4)] == [204, 204, 204, 429]
    assert flood(proxy, N_CLIENTS) == {204: N_CLIENTS}
    assert ask(proxy, "192.0.2.1") == 429
    told = told_at_the_end(proxy)
    assert told["keys"] <= told["keys_max"] and told["overflows"] == 0
    assert told["keys"] + told["evictions"] == N_CLIENTS + 1


def test_a_flood_of_clients_sets_no_slot_in_use_free(start, start_upstream):
    gate = threading.Event()

    def hold(peer, _):
        gate.wait(60)
        peer.send(answer())

    upstream = start_upstream(hold)
    proxy = start(f"""
        log: off
        trusted_proxies: 127.0.0.1
        store: {{memory: 1MiB}}
        upstreams: {{slow: {{servers: "{upstream.url}"}}}}
        limits:
          three: {{key: global, algorithm: concurrency, rate: 3}}
          thrice: {{key: client.ip, rate: 3/day}}
        routes:
          - {{match: {{path: /slow}}, limits: [three], upstream: slow}}
          - {{limits: [thrice], respond: {{status: 204}}}}
    """)
    held = [proxy.send(message.request("GET", "/slow")) for _ in range(2)]
    until(lambda: len(upstream.requests) == 2, "two requests under way")
    assert flood(proxy, N_CLIENTS) == {204: N_CLIENTS}
    held.append(proxy.send(message.request("GET", "/slow")))
    until(lambda: len(upstream.requests) == 3, "the third of three slots")
    assert proxy.ask(path="/slow").status == 429
    gate.set()
    assert [client.read().status for client in held] == [200] * 3
    assert told_at_the_end(proxy)["evictions"] > 0
