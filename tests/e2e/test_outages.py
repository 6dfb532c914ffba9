"""Outages: how often a proxy tries to connect, what passes meanwhile, and what is left behind."""

import collections
import random
import re
import socket
import threading
import time

import pytest

from harness import redis_tls
from harness.admin import Admin, addresses
from harness.flow import Flow, charged, policy
from harness.ports import end_accepting
from harness.wait import soon, until

N_CLIENTS = 6
N_WORKERS = 8
CONNECTS_PER_S = 10
OUTAGE_S = 4.0


class DeafServer:
    """Accepts where a Redis should be, and hangs up, or says nothing."""

    def __init__(self, hangs_up):
        self.hangs_up = hangs_up
        self.n_accepted = 0
        self._accepted = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{redis_tls.scheme()}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # stopped
            self.n_accepted += 1
            if self.hangs_up:
                connection.close()
            else:
                self._accepted.append(connection)

    def stop(self):
        end_accepting(self._listener, self._accepting)


@pytest.fixture(params=["hangs_up", "says_nothing"])
def deaf(request):
    server = DeafServer(request.param == "hangs_up")
    yield server
    server.stop()


def counter(proxy, name):
    """By its own account, when it has stopped."""
    return int(re.search(rf" {name}=(\d+)", proxy.stderr()).group(1))


def n_ups(proxy):
    return proxy.stderr().count('msg="link up"')


def n_losses(proxy):
    return proxy.stderr().count('msg="link lost"')


def await_links(proxy, n):
    until(lambda: n_ups(proxy) - n_losses(proxy) == n, f"{n} links")


def test_all_workers_together_try_to_connect_ten_times_a_second_at_most(start, deaf):
    started = time.monotonic()
    proxy = start(policy(deaf.url, N_CLIENTS, workers=N_WORKERS))
    with proxy.connect() as client:
        while time.monotonic() < started + OUTAGE_S:
            assert client.ask(path="/0").status == 204
    proxy.stop()
    took_s = time.monotonic() - started
    assert N_WORKERS <= counter(proxy, "connects") <= N_WORKERS + CONNECTS_PER_S * took_s
    assert deaf.n_accepted <= counter(proxy, "connects")


def test_a_redis_that_went_is_tried_ten_times_a_second_at_most(start, start_redis):
    redis = start_redis()
    started = time.monotonic()
    proxy = start(policy(redis.url, N_CLIENTS, workers=N_WORKERS))
    await_links(proxy, N_WORKERS)
    gone = time.monotonic()
    redis.kill()
    with proxy.connect() as client:
        while time.monotonic() < gone + OUTAGE_S:
            assert client.ask(path="/0").status == 204
    proxy.stop()
    assert counter(proxy, "connects") <= N_WORKERS + CONNECTS_PER_S * (time.monotonic() - started)


def test_all_workers_are_back_soon_after_an_outage(start, start_redis):
    redis = start_redis()
    proxy = start(policy(redis.url, N_CLIENTS, workers=N_WORKERS))
    await_links(proxy, N_WORKERS)
    redis.kill()
    until(lambda: n_losses(proxy) >= N_WORKERS, "the loss of all")
    time.sleep(1)
    redis.start()
    soon(lambda: n_ups(proxy) - n_losses(proxy) == N_WORKERS, "all links again", within=8)


# --- what is charged ---


def test_scripts_that_are_flushed_all_the_time_are_seen_by_nobody(start, start_redis, seed):
    redis = start_redis()
    proxies = [start(policy(redis.url, N_CLIENTS, deadline="10s")) for _ in range(2)]
    for proxy in proxies:
        await_links(proxy, 2)
    with Flow(proxies, N_CLIENTS, seed) as flow:
        for _ in range(20):
            redis.call("SCRIPT", "FLUSH")
            flow.go_on(0.1)
    assert flow.judge(set()) == 0
    for client in range(N_CLIENTS):
        assert charged(redis, client) == sum(answer.client == client for answer in flow.answers)
    flow.check_counts(redis)


BUCKET = """
    workers: 2
    store: {{redis: "{url}", deadline: 50ms{store}}}
    limits: {{shared: {{key: global, rate: {rate}, burst: {burst}}}}}
    routes: [{{limits: [shared], respond: {{status: 204}}}}]
"""


def test_proxies_that_saw_each_other_share_a_limit_out(start, start_redis):
    redis = start_redis()
    text = BUCKET.format(url=redis.url, store="", rate="9/hour", burst=9)
    proxies = [start(text + "    admin: 127.0.0.1:0\n") for _ in range(3)]
    for proxy in proxies:
        admin = Admin(addresses(proxy)[0])
        until(lambda admin=admin: b"\nsluice_store_instances 3\n" in admin.ask(path="/metrics").body,
              "all three to be seen")
    redis.kill()
    for proxy in proxies:
        until(lambda proxy=proxy: "link lost" in proxy.stderr(), "the loss")
        statuses = [proxy.ask().status for _ in range(10)]
        lines = proxy.lines_of("/", 10)
        assert all(line["source"] == "local" for line in lines)
        assert sorted(statuses) == [204] * 3 + [429] * 7


def test_a_link_that_flaps_lets_no_more_pass_than_one_that_stays_away(start, start_redis):
    redis = start_redis()
    rate, burst = 20, 40
    proxy = start(BUCKET.format(url=redis.url, store=", proxy_count: 2", rate=f"{rate}/s",
                                burst=burst))
    await_links(proxy, 2)
    started = time.monotonic()
    n_asked = 0
    with proxy.connect() as client:
        for round_ in range(6):
            if round_ % 2 == 0:
                redis.kill()
            else:
                redis.start()
            ends, enough = time.monotonic() + 0.7, n_asked + burst
            while time.monotonic() < ends or n_asked < enough:
                n_asked += 1
                assert client.ask(path="/flap").status in (204, 429)
    took_s = time.monotonic() - started
    admitted = collections.Counter(line["source"] for line in proxy.lines_of("/flap", n_asked)
                                   if line["verdict"] == "allowed")
    # Half of the limit is this proxy's while Redis is away. Redis forgets when it is killed.
    assert burst / 2 <= admitted["local"] <= burst / 2 + rate / 2 * took_s + 1
    assert admitted["redis"] <= 3 * burst + rate * took_s + 1


# --- what is left behind ---


def test_a_proxy_killed_at_any_instant_leaves_nothing_that_does_not_end(
        start, start_redis, start_upstream, seed):
    redis = start_redis()
    upstream = start_upstream()
    text = f"""
        workers: 2
        store: {{redis: "{redis.url}", deadline: 2s}}
        limits:
          slots: {{key: global, algorithm: concurrency, rate: 4, lease: 1s}}
          log: {{key: client.ip, algorithm: sliding_log, rate: 900/2s}}
          bucket: {{key: client.ip, rate: [100000/s, 1000000/hour]}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{limits: [slots, log, bucket], upstream: api}}]
    """
    rng = random.Random(seed)
    for _ in range(4):
        proxy = start(text)
        threads = [threading.Thread(target=ask_until_it_is_gone, args=(proxy,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: redis.keys(), "something in Redis")
        time.sleep(rng.uniform(0, 0.3))
        proxy.kill()
        for thread in threads:
            thread.join()
        for key in redis.keys():
            assert redis.call("PTTL", key) != -1, key
    living = start(text)
    until(lambda: living.ask().status == 200, "slots that come back with their lease")


def ask_until_it_is_gone(proxy):
    try:
        with proxy.connect() as client:
            while True:
                client.ask()
    except Exception:
        pass  # cut in the middle of anything
