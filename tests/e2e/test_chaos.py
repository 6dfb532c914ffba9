"""Requests through servers that are killed, stopped, restarted, hang and cut their answers; the long run is
tests/soak/upstreams."""

import asyncio

import pytest

from harness import chaos
from harness.wait import until

LOAD = chaos.Load(n_connections=60, n_requests=1800, pause_s=0.1)


@pytest.mark.parametrize("more", [
    "balance: round_robin",
    "balance: least_requests\n            health: {path: /check/0, interval: 100ms}",
    "max_connections: 20\n            queue: {requests: 100, wait: 30s}",
], ids=["round_robin", "least_requests", "max_connections"])
def test_no_answer_is_wrong_and_no_failure_shows_that_could_be_hidden(start, tmp_path, seed, more):
    proxies = []

    def start_proxy(policy):
        proxies.append(start(policy))
        return proxies[0].port

    report = asyncio.run(chaos.run(tmp_path, start_proxy, LOAD, seed, more))
    print(report)
    assert not report.faults, report.faults[:10]
    until(lambda: proxies[0].n_descriptors() < 100, "what all clients have left to be closed")
