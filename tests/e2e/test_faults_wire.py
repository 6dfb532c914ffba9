"""Faults between a proxy and its Redis: a network that forgets connections, replies that come late, and
replies that a Redis of another kind, or none at all, would give."""

import re
import threading
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.flow import STALLED, Flow, degraded, policy
from harness.relay import Relay
from harness.wait import until

N_CLIENTS = 6


@pytest.fixture(name="relay")
def relay_before_a_redis(start_redis, seed):
    relay = Relay(start_redis(), seed)
    yield relay
    relay.stop()


def test_connections_that_the_network_has_forgotten_are_made_again(start, relay, seed):
    proxy = start(policy(relay.url, N_CLIENTS))
    with Flow([proxy], N_CLIENTS, seed) as flow:
        provoked = time.monotonic()
        relay.is_hole = True
        flow.await_everyone(degraded(["half_open"]), provoked, within=10)
        relay.is_hole = False
        flow.await_sharing()
    assert flow.judge({"half_open", "reset", *STALLED}) > 0
    flow.check_counts(relay.redis)


def test_late_replies_go_to_nobody(start, relay, seed):
    """Some come in time, some a little late, some when the next request waits for its own."""
    proxy = start(policy(relay.url, N_CLIENTS, deadline="20ms"))
    with Flow([proxy], N_CLIENTS, seed) as flow:
        for _ in range(6):
            relay.delay_s = flow.rng.uniform(0.005, 0.03)
            flow.go_on(0.5)
            relay.delay_s = 0
            flow.await_sharing()
    assert flow.judge({*STALLED}) > 0
    flow.check_counts(relay.redis)
    proxy.stop()
    assert int(re.search(r" late_replies=(\d+) ", proxy.stderr()).group(1)) > 0


OK_NUMBERS = b"*8\r\n:1\r\n:1700000000000000\r\n:1\r\n:%d\r\n:0\r\n:0\r\n:0\r\n:0\r\n"
REPLIES = {
    "moved": ("moved", b"-MOVED 3999 127.0.0.1:1\r\n"),
    "ask": ("ask", b"-ASK 3999 127.0.0.1:1\r\n"),
    "tryagain": ("tryagain", b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"),
    "crossslot": ("crossslot", b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"),
    "clusterdown": ("clusterdown", b"-CLUSTERDOWN The cluster is down\r\n"),
    "loading": ("loading", b"-LOADING Redis is loading the dataset in memory\r\n"),
    "oom_as_redis_6_says": ("oom", b"-ERR Error running script (call to f_" + b"0" * 40 +
                            b"): @user_script:541: @user_script: 541: -OOM command not allowed when "
                            b"used memory > 'maxmemory'.\r\n"),
    "noscript_for_ever": ("noscript", b"-NOSCRIPT No matching script. Please use EVAL.\r\n"),
    "wrongtype": ("wrongtype", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    "clock": ("clock", b"-CLOCK the clocks differ by more than a window\r\n"),
    "unknown_command": ("other", b"-ERR unknown command 'EVALSHA'\r\n"),
    "no_resp": ("malformed", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "text": ("malformed", b"+OK\r\n"),
    "nil": ("malformed", b"*-1\r\n"),
    "too_few_numbers": ("malformed", b"*2\r\n:1\r\n:1700000000000000\r\n"),
    "more_left_than_there_is": ("malformed", OK_NUMBERS % (1 << 50)),
    "a_text_without_end": ("malformed", b"$1000000\r\n" + b"x" * 70_000),
    "an_array_without_end": ("malformed", b"*2147483647\r\n" + b":1\r\n" * 20_000),
    "nested": ("malformed", b"*1\r\n" * 20),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_that_are_no_decisions(start, relay, seed, name):
    fault, reply = REPLIES[name]
    started = time.monotonic()
    proxy = start(policy(relay.url, N_CLIENTS))
    with Flow([proxy], N_CLIENTS, seed) as flow:
        flow.go_on(0.3)
        provoked = time.monotonic()
        relay.reply = reply
        flow.await_everyone(degraded([fault]), provoked, within=10)
        flow.go_on(0.3)
        relay.reply = None
        flow.await_sharing()
    assert flow.judge({fault, "reset", *STALLED}) > 0
    flow.check_counts(relay.redis)
    noise = [line for line in proxy.stderr().splitlines() if "mod=store.redis" in line]
    took_s = time.monotonic() - started
    assert len(noise) < 40 + 6 * took_s, "told once per change, and once a second, by each of two workers"


def test_what_redis_has_refused_to_charge_is_not_given_back(start, start_upstream, relay):
    """A head reports a cost beyond the estimate, which is charged at once; then the answer breaks off, which costs nothing."""
    lets_answer, lets_end = threading.Event(), threading.Event()

    def behave(peer, request):
        if request.target == "/whole":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Cost: 40\r\n\r\n")
            return
        lets_answer.wait(20)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX-Cost: 31\r\n\r\na")
        lets_end.wait(20)
        peer.close()

    upstream = start_upstream(behave)
    proxy = start(f"""
workers: 1
admin: 127.0.0.1:0
store: {{redis: '{relay.url}', deadline: 5s}}
upstreams: {{api: {{servers: '{upstream.url}'}}}}
limits: {{units: {{key: global, algorithm: fixed_window, rate: 100/day, refund_on: [server_failed]}}}}
routes:
  - {{match: {{path: /look}}, limits: [units], respond: {{status: 204}}}}
  - {{limits: [units], upstream: api, cost: {{from: response.header.x-cost, estimate: 1, max: 50}}}}
""")

    def left():
        return int(re.search(r";r=(\d+)", proxy.ask(path="/look").get("RateLimit"))[1])

    def count_lost():
        page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
        return sum(map(int, re.findall(r"^sluice_store_settlements_lost_total{.*} (\d+)$", page, re.MULTILINE)))

    assert proxy.ask(path="/whole").status == 200
    assert left() == 59
    client = proxy.send(message.request("GET", "/breaks-off"))
    upstream.wait_for(2)
    relay.reply = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    lets_answer.set()
    until(lambda: count_lost() == 1, "the correction to be refused")
    relay.reply = None
    lets_end.set()
    proxy.lines_of("/breaks-off", 1)
    client.close()
    assert left() == 58
