"""Equal requests travel as one call, denials are remembered for a second: what Redis is spared, and
that nothing else changes."""

import collections
import contextlib
import itertools
import json
import random
import re
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.http2 import Http2Client
from harness.rush import N_CONNECTIONS, ask_all_at_once
from harness.wait import rest_of_window, until

N_REQUESTS = 20_000
N_ADMITTED = 6_000
PERIOD_S = 4.0
N_ROUNDS = 40  # of a trace: one request on each connection
N_KEYS = 8
LEFT = re.compile(r'"(\w+)";r=(\d+)')


def store(redis, words=""):
    return f"store: {{redis: '{redis.url}', deadline: 10s, on_failure: deny{words}}}"


def wait_for_links(proxy, workers):
    until(lambda: proxy.stderr().count('msg="link up"') == workers, "Redis")
    return proxy


def start_hot(start, redis, words="", workers=1, limit="rate: 1/day", burst=N_ADMITTED):
    return wait_for_links(start(f"""
        workers: {workers}
        {store(redis, words)}
        log: off
        limits: {{hot: {{key: global, {limit}, burst: {burst}, deny: {{status: 429}}}}}}
        routes: [{{limits: [hot], respond: {{status: 204}}}}]
    """), workers)


def count_calls(redis):
    """Scripts that Redis has run."""
    stats = redis.call("INFO", "commandstats").decode()
    return sum(int(calls) for calls in re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", stats))


@contextlib.contextmanager
def paused(redis):
    redis.pause()
    yield
    redis.resume()


def sources(proxy, path, n):
    return [line["source"] for line in proxy.lines_of(path, n)]


# --- what Redis is spared ---


@pytest.mark.takes(5)
def test_a_hot_key_costs_a_tenth_of_a_call_a_request_and_admits_the_same(start, start_redis):
    redis = start_redis()
    proxy = start_hot(start, redis, ", denial_cache: false")
    calls = count_calls(redis)
    statuses = ask_all_at_once([proxy], N_REQUESTS, while_sending=paused(redis))
    assert statuses == {204: N_ADMITTED, 429: N_REQUESTS - N_ADMITTED}
    assert count_calls(redis) - calls <= N_REQUESTS / 10


@pytest.mark.takes(6)
def test_without_coalescing_and_cache_each_request_is_a_call(start, start_redis):
    redis = start_redis()
    proxy = start_hot(start, redis, ", denial_cache: false, coalesce: false")
    calls = count_calls(redis)
    statuses = ask_all_at_once([proxy], N_REQUESTS)
    assert statuses == {204: N_ADMITTED, 429: N_REQUESTS - N_ADMITTED}
    assert count_calls(redis) - calls >= N_REQUESTS


@pytest.mark.takes(4)
def test_a_denied_key_costs_a_few_calls_a_second(start, start_redis):
    redis = start_redis()
    proxy = start_hot(start, redis, burst=1, workers=2)
    assert ask_all_at_once([proxy], 2 * N_CONNECTIONS)[204] == 1
    calls = count_calls(redis)
    began = time.monotonic()
    assert ask_all_at_once([proxy], N_REQUESTS) == {429: N_REQUESTS}
    seconds = time.monotonic() - began
    # Each worker asks once when a second is over, and those who came meanwhile once more.
    assert count_calls(redis) - calls <= 2 * 2 * (seconds + 2)


# --- nothing else changes ---


@pytest.mark.takes(5)
@pytest.mark.parametrize("limit", [
    "rate: 1/day", "rate: 1/day, algorithm: gcra", "rate: 1/day, algorithm: leaky_bucket",
], ids=["token_bucket", "gcra", "leaky_bucket"])
def test_proxies_with_and_without_thrift_admit_together_exactly_the_limit(start, start_redis, limit):
    redis = start_redis()
    proxies = [start_hot(start, redis, words, workers=2, limit=limit)
               for words in ("", ", coalesce: false", ", denial_cache: false")]
    statuses = ask_all_at_once(proxies, N_REQUESTS)
    assert statuses == {204: N_ADMITTED, 429: N_REQUESTS - N_ADMITTED}


def trace_of(seed):
    """What each connection asks for, round by round: a key, and with the key its cost."""
    chance = random.Random(seed)
    return [[chance.randrange(N_KEYS) for _ in range(N_CONNECTIONS)] for _ in range(N_ROUNDS)]


def expect(trace, limits):
    """What a limit of each key says, when one request is judged after the other."""
    left = {key: dict(limits) for key in range(N_KEYS)}
    expected = []
    for key in (key for asked in trace for key in asked):
        cost = 1 + key % 2
        admits = all(units >= cost for units in left[key].values())
        if admits:
            left[key] = {name: units - cost for name, units in left[key].items()}
        expected.append((204 if admits else 429, dict(left[key])))
    return expected


def replay(proxy, redis, trace):
    """Every answer's status and what it says is left, in the order of asking. Redis does not reply
    before all connections have asked, so that equal requests meet in the proxy."""
    between = proxy.connect()
    clients = [proxy.connect() for _ in range(N_CONNECTIONS)]
    for client in clients:
        assert client.ask(path="/unlimited").status == 204
    answers = []
    for asked in trace:
        # Once it has answered this, the proxy is done with the round before: it reads the next one
        # in the order of sending.
        assert between.ask(path="/unlimited").status == 204
        redis.pause()
        for client, key in zip(clients, asked):
            client.send(message.request("GET", f"/cost-{1 + key % 2}", [("X-Client", str(key))]))
        redis.resume()
        for client in clients:
            answer = client.read()
            left = {name: int(n) for name, n in LEFT.findall(answer.get("RateLimit"))}
            answers.append((answer.status, left))
    return answers


def test_a_recorded_trace_is_answered_alike_coalesced_or_not(start, start_redis, seed):
    trace = trace_of(seed)
    limits = {"small": 90, "large": 150}
    answers, calls = {}, {}
    for words in ("", ", denial_cache: false", ", denial_cache: false, coalesce: false"):
        redis = start_redis()
        proxy = wait_for_links(start(f"""
            workers: 1
            log: off
            {store(redis, words)}
            limits:
              small: {{key: header.x-client, rate: 1/day, burst: {limits["small"]}}}
              large: {{key: header.x-client, rate: 1/day, burst: {limits["large"]},
                       algorithm: gcra}}
            routes:
              - {{match: {{path: /unlimited}}, respond: {{status: 204}}}}
              - {{match: {{path: /cost-2}}, limits: [small, large], cost: 2,
                 respond: {{status: 204}}}}
              - {{limits: [small, large], respond: {{status: 204}}}}
        """), 1)
        calls[words] = -count_calls(redis)
        answers[words] = replay(proxy, redis, trace)
        calls[words] += count_calls(redis)
    coalesced_and_cached, coalesced, plain = answers.values()
    assert plain == expect(trace, limits)
    assert coalesced == plain
    assert coalesced_and_cached == plain
    n_calls_cached, n_calls_coalesced, n_calls_plain = calls.values()
    assert n_calls_plain >= N_ROUNDS * N_CONNECTIONS
    assert n_calls_coalesced <= n_calls_plain / 2
    assert n_calls_cached <= n_calls_plain / 2


# --- denials from here ---


@pytest.mark.takes(6)
def test_a_denial_is_over_when_it_said_and_not_later(start, start_redis):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        limits: {{slow: {{key: global, rate: 1/{PERIOD_S:.0f}s, burst: 1}}}}
        routes: [{{limits: [slow], respond: {{status: 204}}}}]
    """), 1)
    with proxy.connect() as client:
        assert client.ask().status == 204
        admitted_by = time.monotonic()
        n_denied = 0
        while True:
            sent = time.monotonic()
            answer = client.ask(path="/again")
            if answer.status == 204:
                break
            n_denied += 1
            assert answer.status == 429
            assert sent < admitted_by + PERIOD_S, "denied after its time"
            assert 1 <= int(answer.get("Retry-After")) <= PERIOD_S
    assert n_denied > 2
    assert "cache" in sources(proxy, "/again", n_denied + 1)
    assert sources(proxy, "/again", n_denied + 1)[-1] == "redis", "who is admitted has asked"


@pytest.mark.takes(5)
def test_retry_after_always_suffices(start, start_redis):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        limits: {{slow: {{key: global, rate: 1/5s, burst: 1}}}}
        routes: [{{limits: [slow], respond: {{status: 204}}}}]
    """), 1)
    with proxy.connect() as client:
        assert client.ask().status == 204
        for _ in range(20):
            answer = client.ask(path="/again")
        assert answer.status == 429
        assert "cache" in sources(proxy, "/again", 20)
        time.sleep(int(answer.get("Retry-After")))
        assert client.ask().status == 204


def test_an_answer_from_the_cache_tells_what_redis_told(start, start_redis):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        limits:
          day: {{key: client.ip, rate: 1/day}}
          hour: {{key: client.ip, algorithm: fixed_window, rate: 1/hour}}
          ample: {{key: client.ip, rate: 100/hour}}
          idea: {{key: client.ip, rate: 1/hour, shadow: true}}
        routes: [{{limits: [day, hour, ample, idea], respond: {{status: 204}}}}]
    """), 1)
    rest_of_window(3600, at_least_s=10)
    with proxy.connect() as client:
        assert client.ask(path="/all").status == 204
        answers = [client.ask(path="/all") for _ in range(20)]
    assert set(sources(proxy, "/all", 21)[1:]) == {"redis", "cache"}
    assert {line["shadow"] for line in proxy.lines_of("/all", 21)[1:]} == {"idea"}
    bodies = [json.loads(answer.body) for answer in answers]
    for answer, body in zip(answers, bodies):
        assert body["violated-policies"] == ["day", "hour"]
        assert body["retry-after"] <= bodies[0]["retry-after"]
        members = answer.get("RateLimit").split(", ")
        assert [member.split(";")[0] for member in members] == ['"day"', '"hour"', '"ample"']
        assert [member.split(";")[1] for member in members] == ["r=0", "r=0", "r=99"]


def test_a_limit_that_nothing_is_known_of_is_left_out(start, start_redis):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        limits:
          client: {{key: client.ip, rate: 1/day}}
          path: {{key: path, rate: 100/day}}
        routes: [{{limits: [client, path], respond: {{status: 204}}}}]
    """), 1)
    with proxy.connect() as client:
        assert client.ask(path="/a").status == 204
        assert client.ask(path="/a").status == 429
        answer = client.ask(path="/b")
    assert answer.status == 429
    assert answer.get("RateLimit").startswith('"client";r=0')
    if sources(proxy, "/b", 1) == ["cache"]:
        assert '"path"' not in answer.get("RateLimit")
    assert '"path"' in answer.get("RateLimit-Policy")


@pytest.mark.parametrize("limit", [
    "rate: 1/day, charge_denied: true",
    "rate: 1/day, refund_on: [500]",
    "rate: 1/day, charge_on: [404]",
], ids=["charge_denied", "refund_on", "charge_on"])
def test_some_denials_are_asked_each_time(start, start_redis, limit):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        limits: {{own: {{key: client.ip, {limit}}}}}
        routes: [{{limits: [own], respond: {{status: 404}}}}]
    """), 1)
    with proxy.connect() as client:
        statuses = [client.ask(path="/own").status for _ in range(5)]
    assert statuses == [404, 429, 429, 429, 429]
    assert sources(proxy, "/own", 5) == ["redis"] * 5


def test_a_cost_from_the_response_is_asked_each_time(start, start_redis, start_upstream):
    redis = start_redis()
    upstream = start_upstream()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis)}
        upstreams: {{up: {{servers: ["{upstream.url}"]}}}}
        limits: {{own: {{key: client.ip, rate: 1/day}}}}
        routes:
          - {{match: {{path: /told}}, limits: [own], upstream: up,
             cost: {{from: response.header.x-cost, estimate: 1}}}}
          - {{limits: [own], respond: {{status: 204}}}}
    """), 1)
    with proxy.connect() as client:
        statuses = [client.ask(path="/other").status for _ in range(4)]
    assert statuses == [204, 429, 429, 429]
    assert sources(proxy, "/other", 4) == ["redis"] * 4, "another route may correct it"


def test_the_cache_can_be_switched_off(start, start_redis):
    redis = start_redis()
    proxy = wait_for_links(start(f"""
        workers: 1
        {store(redis, ", denial_cache: false")}
        limits: {{own: {{key: client.ip, rate: 1/day}}}}
        routes: [{{limits: [own], respond: {{status: 204}}}}]
    """), 1)
    with proxy.connect() as client:
        assert [client.ask(path="/own").status for _ in range(5)] == [204] + [429] * 4
    assert sources(proxy, "/own", 5) == ["redis"] * 5


# --- one client among others ---

N_CALLS = 24  # of one client at a time: 16, and 8 that are counted to nobody


def start_keyed(start, redis, top=""):
    """Each request has a key of its own. What waits for Redis is in no hurry; what fails is let in."""
    return wait_for_links(start(f"""
        workers: 1
        {top}
        store: {{redis: '{redis.url}', deadline: 1m, on_failure: allow}}
        limits: {{own: {{key: header.x-key, rate: 1000/day, charge_on: [401]}}}}
        routes: [{{limits: [own], respond: {{status: 204}}}}]
    """), 1)


KEYS = itertools.count()


def get(path, *fields):
    return "".join([f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Key: {next(KEYS)}\r\n", *fields,
                    "\r\n"]).encode()


def test_one_client_has_so_many_decisions_in_flight_and_is_refused_beyond(start, start_redis):
    redis = start_redis()
    proxy = start_keyed(start, redis, "admin: 127.0.0.1:0")
    with paused(redis):
        flood = [proxy.send(get("/flood")) for _ in range(N_CALLS + 6)]
        other = proxy.connect(source="127.0.0.2")
        other.send(get("/other"))
        lines = proxy.lines_of("/flood", 6)
        assert {line["failure"] for line in lines} == {"too many decisions of this client"}
        assert {line["status"] for line in lines} == {"503"}, "whatever on_failure says"
        assert other.is_quiet(0.02), "it waits for Redis alone"
    assert other.read().status == 204
    statuses = collections.Counter(client.read().status for client in flood)
    assert statuses == {204: N_CALLS, 503: 6}
    assert proxy.lines_of("/other", 1)[0]["source"] == "redis"
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    assert "\nsluice_client_queue_waits_total 6\n" in page
    assert "\nsluice_client_queue_refusals_total 6\n" in page
    assert "\nsluice_store_breaker_openings_total{node=" in page
    assert "breaker opened" not in proxy.log_at_end()


def test_clients_of_a_trusted_proxy_are_told_apart(start, start_redis):
    redis = start_redis()
    proxy = start_keyed(start, redis, "trusted_proxies: [127.0.0.1]")
    with paused(redis):
        clients = [proxy.send(get("/behind", f"X-Forwarded-For: 192.0.2.{i % 2}\r\n"))
                   for i in range(N_CALLS + 16)]
        nameless = [proxy.send(get("/nameless")) for _ in range(N_CALLS + 6)]
        flood = [proxy.send(get("/flood", "X-Forwarded-For: 192.0.2.0\r\n"))
                 for _ in range(6)]
        assert {line["status"] for line in proxy.lines_of("/flood", 6)} == {"503"}
    assert {client.read().status for client in clients + nameless} == {204}
    assert {client.read().status for client in flood} == {503}


@pytest.mark.parametrize("kind", ["one", "cluster"])
def test_a_client_that_resets_its_requests_has_no_more_calls_in_flight(start, start_redis, start_cluster, kind):
    """Redis has the calls still: what their client sends meanwhile waits for its turn."""
    if kind == "one":
        redis = start_redis()
        url, nodes = redis.url, [redis]
    else:
        cluster = start_cluster(n_replicas=0)
        url, nodes = cluster.url, cluster.nodes
    proxy = wait_for_links(start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        workers: 1
        admin: 127.0.0.1:0
        store: {{redis: '{url}', deadline: 1m, on_failure: deny}}
        limits: {{own: {{key: header.x-key, algorithm: sliding_log, rate: 1000/day, charge_on: [401]}}}}
        routes: [{{limits: [own], respond: {{status: 204}}}}]
    """), len(nodes))
    if kind == "cluster":
        until(lambda: f'msg="map of the cluster" owners={len(nodes)} slots=16384' in proxy.stderr(), "the map")
    n_sent = 3 * N_CALLS
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(paused(node))
        with Http2Client(proxy.address) as flood:
            for i in range(n_sent):
                flood.reset(flood.begin(path="/flood", more=[("x-key", str(i))]))
            proxy.lines_of("/flood", n_sent)
            same = proxy.send(get("/same"))
            other = proxy.connect(source="127.0.0.2")
            other.send(get("/other"))
            assert same.is_quiet(0.02)
    assert {same.read().status, other.read().status} == {204}
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    assert f"\nsluice_client_queue_waits_total {n_sent - 16 + 1}\n" in page
    calls = re.findall(r'\nsluice_store_calls_total\{node="[^"]*"\} (\d+)', page)
    assert sum(map(int, calls)) == 16 + 2


@pytest.mark.parametrize("kind", ["one", "cluster"])
@pytest.mark.parametrize("limit", ["fixed_window, align: first", "sliding_log", "sliding_window", "token_bucket"])
@pytest.mark.parametrize("more", ["", ", coalesce: false"])
def test_what_is_reset_before_redis_answers_gets_back_what_charge_on_took(start, start_redis, start_cluster, kind,
                                                                          limit, more):
    redis = start_redis() if kind == "one" else start_cluster(n_masters=3, n_replicas=0)
    nodes = [redis] if kind == "one" else redis.nodes
    proxy = wait_for_links(start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        workers: 1
        store: {{redis: '{redis.url}', deadline: 1m, on_failure: deny{more}}}
        limits: {{shared: {{key: route, algorithm: {limit}, rate: 20/day, charge_on: [204]}}}}
        routes: [{{limits: [shared], respond: {{status: 204}}}}]
    """), len(nodes))
    if kind == "cluster":
        until(lambda: f'msg="map of the cluster" owners={len(nodes)} slots=16384' in proxy.stderr(), "the map")
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(paused(node))
        with Http2Client(proxy.address) as flood:
            for _ in range(12):
                flood.reset(flood.begin(path="/flood"))
            proxy.lines_of("/flood", 12)
    assert [proxy.ask(path="/first").status for _ in range(2)] == [204] * 2  # behind what is given back
    statuses = [proxy.ask(path="/others").status for _ in range(19)]
    assert statuses == [204] * 18 + [429]


def test_what_waits_for_its_turn_is_decided_by_redis(start, start_redis):
    redis = start_redis()
    proxy = start_keyed(start, redis)
    with paused(redis):
        clients = [proxy.send(get("/wait")) for _ in range(3 * N_CALLS)]
        assert all(client.is_quiet(0.001) for client in clients)
    assert {client.read().status for client in clients} == {204}
    assert sources(proxy, "/wait", 3 * N_CALLS) == ["redis"] * (3 * N_CALLS)
