"""leaky_bucket with max_wait: requests are held rather than refused, and leave in order."""

import os
import re
import time

import pytest

from harness import message
from harness.upstream import answer
from harness.wait import until

CLOCKS_S = 0.002  # the store's clock and ours are not the same one


class Arrivals:
    """An upstream's behaviour that notes when each request came."""

    def __init__(self):
        self.at = {}

    def __call__(self, peer, request):
        self.at[request.target] = time.monotonic()
        peer.send(answer())


def shaping(upstream, rate="10/s", max_wait="2s", rest="", top=""):
    return f"""{top}
upstreams: {{api: {{servers: "{upstream.url}"}}}}
limits: {{queue: {{key: global, algorithm: leaky_bucket, rate: {rate}, max_wait: {max_wait}}}}}
routes: [{{limits: [queue], upstream: api{rest}}}]
"""


def send_in_turn(proxies, n):
    """n requests /0, /1 …, each on a connection of its own, taken by the proxies in turn."""
    clients = []
    for i in range(n):
        clients.append(proxies[i % len(proxies)].send(message.request("GET", f"/{i}")))
        time.sleep(0.02)  # so that one is judged before the next comes
    return clients


def assert_kept_apart(arrivals, n, started, gap_s):
    """They came in order, and none before its departure."""
    assert list(arrivals.at) == [f"/{i}" for i in range(n)]
    for i in range(n):
        assert arrivals.at[f"/{i}"] >= started + i * gap_s - CLOCKS_S, f"/{i} was early"
    assert arrivals.at[f"/{n - 1}"] < started + n * gap_s + 1


def test_held_requests_leave_in_order_and_never_early(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals)), workers=1)
    started = time.monotonic()
    clients = send_in_turn([proxy], 9)
    responses = [client.read() for client in clients]
    assert [response.status for response in responses] == [200] * 9
    assert_kept_apart(arrivals, 9, started, 0.1)
    assert responses[0].get("RateLimit-Policy") == '"queue";q=10;w=1'
    for i in range(9):
        held_us = int(proxy.lines_of(f"/{i}", 1)[0].get("held_us", 0))
        assert abs(held_us / 1e6 - 0.08 * i) < 0.08 * i + 0.5
        assert (held_us > 0) == (i > 0)


def test_two_proxies_keep_the_gaps_together(start_sharing, start_upstream):
    arrivals = Arrivals()
    policy = shaping(start_upstream(arrivals))
    proxies = [start_sharing(policy) for _ in range(2)]
    started = time.monotonic()
    clients = send_in_turn(proxies, 10)
    assert [client.read().status for client in clients] == [200] * 10
    assert_kept_apart(arrivals, 10, started, 0.1)


def test_the_gap_after_a_request_is_by_its_cost(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rest=", cost: 3"))
    started = time.monotonic()
    clients = send_in_turn([proxy], 4)
    assert [client.read().status for client in clients] == [200] * 4
    assert_kept_apart(arrivals, 4, started, 0.3)


def test_what_would_wait_too_long_is_refused_until_it_would_not(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rate="1/s", max_wait="1s"))
    clients = send_in_turn([proxy], 2)
    denied = proxy.ask(path="/2")
    assert (denied.status, denied.get("Retry-After")) == (429, "1")
    assert denied.json()["violated-policies"] == ["queue"]
    assert re.fullmatch(r'"queue";r=0;t=1', denied.get("RateLimit"))
    time.sleep(1)
    assert proxy.ask(path="/3").status == 200
    assert [client.read().status for client in clients] == [200] * 2
    assert list(arrivals.at) == ["/0", "/1", "/3"]


def test_an_answer_of_our_own_is_held_too(start_in_store):
    proxy = start_in_store("""
        limits: {queue: {key: global, algorithm: leaky_bucket, rate: 2/s, max_wait: 1s}}
        routes: [{limits: [queue], respond: {status: 204}}]
    """)
    started = time.monotonic()
    assert [proxy.ask().status for _ in range(3)] == [204] * 3
    assert time.monotonic() - started >= 1 - CLOCKS_S


def test_pipelined_requests_are_held_one_after_another(start, start_upstream):
    arrivals = Arrivals()
    proxy = start(shaping(start_upstream(arrivals)))
    started = time.monotonic()
    client = proxy.send(b"".join(message.request("GET", f"/{i}") for i in range(4)))
    assert [client.read().status for _ in range(4)] == [200] * 4
    assert_kept_apart(arrivals, 4, started, 0.1)


def test_waiting_for_a_departure_is_not_idling(start, start_upstream):
    proxy = start(shaping(start_upstream(), rate="1/s",
                          top="timeouts: {head: 100ms, idle: 100ms}"))
    clients = send_in_turn([proxy], 2)
    assert [client.read().status for client in clients] == [200, 200]


# --- who does not wait for it ---

LONG = {"rate": "1/10m", "max_wait": "1h"}


@pytest.mark.parametrize("leave", ["close", "reset", "end"])
@pytest.mark.parametrize("request_bytes", [
    message.request("GET", "/held"),
    message.request("POST", "/held", body=b"all of it"),
    message.request("POST", "/held", {"Content-Length": "99"}) + b"a part",
    message.request("GET", "/held") + message.request("GET", "/next"),
], ids=["get", "post", "part_of_a_body", "pipelined"])
def test_a_client_that_leaves_is_held_no_longer(start, start_upstream, leave, request_bytes):
    upstream = start_upstream()
    proxy = start(shaping(upstream, **LONG))
    assert proxy.ask().status == 200
    client = proxy.send(request_bytes)
    assert client.is_quiet(0.05)
    getattr(client, leave)()
    line = proxy.lines_of("/held", 1)[0]
    assert (line["status"], line["fault"]) == ("0", "the client left")
    assert int(line["held_us"]) < 9e6
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("leave", ["close", "reset", "end"])
def test_a_client_that_leaves_behind_bytes_that_nobody_reads_is_held_no_longer(
        start, start_upstream, leave):
    upstream = start_upstream()
    proxy = start(shaping(upstream, **LONG))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("POST", "/held", {"Content-Length": "99"}))
    for _ in range(2):
        assert client.is_quiet(0.05)
        client.send(b"a part")
    assert client.is_quiet(0.05)
    getattr(client, leave)()
    assert proxy.lines_of("/held", 1)[0]["fault"] == "the client left"
    assert len(upstream.requests) == 1


def test_what_a_held_client_sends_on_is_passed_on_after_its_departure(start, start_upstream):
    upstream = start_upstream()
    proxy = start(shaping(upstream, rate="2/s"))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("POST", "/held", {"Content-Length": "12"}))
    for _ in range(2):
        assert client.is_quiet(0.05)
        client.send(b"a part")
    assert client.read().status == 200
    assert upstream.last.body == b"a part" * 2
    assert client.ask(path="/next").status == 200


def test_more_than_max_held_is_503_until_somebody_leaves(start, start_upstream):
    proxy = start(shaping(start_upstream(), **LONG, top="max: {held: 2}\nworkers: 1"))
    assert proxy.ask().status == 200
    held = [proxy.send(message.request("GET", f"/{i}")) for i in range(2)]
    assert all(client.is_quiet(0.1) for client in held)
    refused = proxy.ask(path="/refused")
    assert refused.status == 503 and refused.get("Content-Type") == "application/problem+json"
    assert refused.get("Retry-After") == "1"
    held[0].reset()
    proxy.lines_of("/0", 1)
    assert proxy.send(message.request("GET", "/3")).is_quiet(0.2)
    assert held[1].is_quiet(0)


def test_a_held_request_costs_no_thread(start, start_upstream):
    proxy = start(shaping(start_upstream(), **LONG))
    assert proxy.ask().status == 200
    threads = len(os.listdir(f"/proc/{proxy.process.pid}/task"))
    held = [proxy.send(message.request("GET", f"/{i}")) for i in range(5)]
    assert all(client.is_quiet(0.05) for client in held)
    assert len(os.listdir(f"/proc/{proxy.process.pid}/task")) == threads


# --- the end of the proxy ---


def test_a_drain_waits_for_departures(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rate="1/s"))
    clients = send_in_turn([proxy], 2)
    assert clients[0].read().status == 200
    proxy.signal()
    assert clients[1].read().status == 200
    assert clients[1].has_ended()
    assert proxy.wait() == 0
    assert arrivals.at["/1"] - arrivals.at["/0"] > 0.9


def test_a_drain_that_is_over_cuts_who_is_held(start_in_store, start_upstream):
    upstream = start_upstream()
    proxy = start_in_store(shaping(upstream, **LONG, top="timeouts: {drain: 200ms}"))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("GET", "/held"))
    assert client.is_quiet(0.1)
    proxy.signal()
    assert client.has_ended()
    assert proxy.wait() == 0
    until(lambda: proxy.lines_of("/held", 1), "the line of the one that was held")
    assert len(upstream.requests) == 1
