"""Limits in Redis: shared by all proxies, and what is done when Redis cannot answer."""

import collections
import itertools
import re
import threading
import time

import pytest

from harness.admin import Admin, addresses
from harness.wait import Stalls, soon, until

SHARING_RESUMES_WITHIN_S = 2.0
STALL_S = 4.0  # of a busy machine, in all


def policy(redis, rate="100/hour", store="", limit="", deadline="10s", top=""):
    return f"""
        workers: 2
        {top}
        store: {{redis: "{redis}", deadline: {deadline}{store}}}
        limits: {{shared: {{key: global, rate: {rate}{limit}}}}}
        routes: [{{limits: [shared], respond: {{status: 204}}}}]
    """


def sources(proxy):
    return collections.Counter(line.get("source", line["verdict"])
                               for line in proxy.all_log_lines())


PROBES = itertools.count()


def decided_by_redis(proxy):
    """Whether a request just now was."""
    path = f"/probe-{next(PROBES)}-"
    proxy.ask(path=path)
    return proxy.lines_of(path, 1)[0].get("source") in ("redis", "cache")  # of its denials


def wait_for_sharing(proxy, within=SHARING_RESUMES_WITHIN_S + STALL_S):
    """Each worker has a link of its own; who is asked is the kernel's choice."""
    soon(lambda: all(decided_by_redis(proxy) for _ in range(6)), "decisions by Redis", within)


def wait_for_local(proxy, n):
    until(lambda: proxy.stdout().count(b"source=local") >= n, f"{n} decisions by the proxy itself")


def start_sharing_all(start, text):
    """A proxy of two workers whose links are both up."""
    proxy = start(text)
    until(lambda: proxy.stderr().count('msg="link up"') == 2, "both links")
    return proxy


class Flow:
    """Clients that ask without pause; their statuses."""

    def __init__(self, *proxies):
        self.statuses = collections.Counter()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(proxy,))
                         for proxy in proxies for _ in range(2)]

    def _run(self, proxy):
        with proxy.connect() as client:
            while not self._is_over.is_set():
                status = client.ask().status
                with self._lock:
                    self.statuses[status] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, n=50):
        wanted = self.statuses.total() + n
        until(lambda: self.statuses.total() >= wanted, f"{n} more answers")


# --- sharing ---


def test_two_proxies_admit_together_exactly_what_one_would(start, start_redis):
    redis = start_redis()
    proxies = [start_sharing_all(start, policy(redis.url)) for _ in range(2)]
    statuses = collections.Counter()

    def run(proxy):
        with proxy.connect() as client:
            mine = [client.ask(path="/shared").status for _ in range(20)]
        statuses.update(mine)

    threads = [threading.Thread(target=run, args=(proxies[i % 2],)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {204: 100, 429: 900}
    for proxy in proxies:
        sources_of = {line["source"] for line in proxy.lines_of("/shared", 500)}
        assert sources_of <= {"redis", "cache"}, "nothing is decided here"


def test_a_limit_in_redis_counts_down_and_lets_in_again_after_retry_after(start, start_redis):
    proxy = start_sharing_all(start, policy(start_redis().url, rate="2/4s"))
    answers = []
    until(lambda: answers.append(proxy.ask()) or answers[-1].status == 429, "the limit")
    denied = answers[-1]
    wait_s = int(denied.get("Retry-After"))
    assert denied.get("RateLimit-Policy") == '"shared";q=2;w=4' and wait_s in (1, 2)
    assert denied.get("RateLimit") == f'"shared";r=0;t={wait_s}'
    time.sleep(wait_s)
    assert proxy.ask().status == 204


def test_several_limits_are_judged_and_charged_together(start, start_redis):
    proxy = start_sharing_all(start, f"""
        workers: 2
        store: {{redis: "{start_redis().url}", deadline: 10s}}
        limits:
          wide: {{key: client.ip, rate: [100/day, 50/hour]}}
          window: {{key: [client.ip, path], algorithm: fixed_window, rate: 2/day}}
        routes: [{{limits: [wide, window], respond: {{status: 204}}}}]
    """)
    answers = [proxy.ask(path="/x") for _ in range(3)]
    assert [answer.status for answer in answers] == [204, 204, 429]
    assert answers[2].json()["violated-policies"] == ["window"]
    left = [answer.get("RateLimit").split(", ")[0].split(";")[1] for answer in answers]
    assert left[0] != left[1] and left[1] == left[2], "a denied request takes nothing"


def test_every_key_has_an_end(start, start_redis):
    redis = start_redis()
    proxy = start_sharing_all(start, f"""
        workers: 2
        store: {{redis: "{redis.url}", deadline: 10s, prefix: mine}}
        limits:
          bucket: {{key: header.x-id, rate: [10/hour, 1000/day]}}
          window: {{key: header.x-id, algorithm: fixed_window, rate: 2/day}}
        routes: [{{limits: [bucket, window], respond: {{status: 204}}}}]
    """)
    for value in ("a", "{b}", "c" * 2000, "d:e", "\xff\xfe"):
        assert proxy.ask(fields={"X-Id": value}).status == 204
    keys = redis.keys()
    assert len(keys) >= 15
    for key in keys:
        assert key.startswith(b"mine:") and len(key) < 400, key
        assert redis.call("PTTL", key) > 0, key


def test_a_secret_keeps_identities_out_of_redis(start, start_redis):
    redis = start_redis()
    proxy = start_sharing_all(start, f"""
        workers: 2
        store: {{redis: "{redis.url}", deadline: 10s, secret: pepper}}
        limits: {{by-key: {{key: header.x-api-key, rate: 5/day}}}}
        routes: [{{limits: [by-key], respond: {{status: 204}}}}]
    """)
    proxy.ask(fields={"X-Api-Key": "top-secret-" + "k" * 100})
    assert redis.keys() and not any(b"top-secret" in key for key in redis.keys())


# --- reaching it ---

ACL = ["--user", "app", "on", ">pw", "~*", "+@all", "--user", "default", "off"]


@pytest.mark.parametrize("options, url, store", [
    (["--requirepass", "pa:ss"], "redis://:pa%3Ass@127.0.0.1:{port}", ""),
    (["--requirepass", "plain"], "redis://127.0.0.1:{port}", ", password: '${PASSWORD}'"),
    (ACL, "redis://app:pw@127.0.0.1:{port}", ""),
    (ACL, "redis://127.0.0.1:{port}", ", user: app, password: pw"),
    ([], "redis://127.0.0.1:{port}/3", ""),
    ([], "unix://{unix}", ""),
], ids=["password_in_the_url", "password_of_the_environment", "user_in_the_url", "user", "database",
        "unix_socket"])
def test_redis_is_reached_as_the_policy_says(start, start_redis, options, url, store):
    redis = start_redis(*options)
    proxy = start(policy(url.format(port=redis.port, unix=redis.unix_path), store=store),
                  env={"PASSWORD": "plain"})
    wait_for_sharing(proxy)
    if url.endswith("/3"):
        assert redis.keys(database=3) and not redis.keys()


def sources_when_told(proxy, n):
    proxy.log_lines(n)
    return dict(sources(proxy))


def test_a_wrong_password_is_told_once_and_the_limit_is_judged_locally(start, start_redis):
    redis = start_redis("--requirepass", "right")
    proxy = start(policy(f"redis://:pa55word@127.0.0.1:{redis.port}", rate="10/hour"))
    statuses = [proxy.ask().status for _ in range(100)]
    assert statuses == [204] * 10 + [429] * 90
    assert sources_when_told(proxy, 100) == {"local": 100}
    until(lambda: "WRONGPASS" in proxy.stderr(), "the complaint")
    # A link that Redis kept waiting meanwhile has something new to tell.
    assert proxy.stderr().count("WRONGPASS") <= 2 + proxy.stderr().count("no answer to the handshake"), \
        "once for each worker's link at most"
    assert "pa55word" not in proxy.stderr()


def test_a_password_that_is_missing_is_told_however_long_the_script_is(start, start_redis):
    """Redis reads no long argument from a client that has not logged in, and says something else of it."""
    redis = start_redis("--requirepass", "right")
    proxy = start(f"""
        store: {{redis: "redis://127.0.0.1:{redis.port}", deadline: 10s}}
        limits:
          exact: {{key: global, algorithm: sliding_log, rate: 10/hour}}
          smooth: {{key: global, algorithm: sliding_window, rate: 10/hour}}
        routes: [{{limits: [exact, smooth], respond: {{status: 204}}}}]
    """)
    assert proxy.ask().status == 204
    line, = proxy.log_lines(1)
    assert (line["source"], line["failure"]) == ("local", "noauth")
    proxy.await_said("NOAUTH")
    assert "Protocol error" not in proxy.log_at_end()


def test_a_server_that_repeats_the_password_does_not_bring_it_into_the_log(start, start_redis):
    redis = start_redis("--rename-command", "AUTH", "")
    proxy = start(policy(f"redis://:pa55word@127.0.0.1:{redis.port}", rate="10/hour"))
    assert proxy.ask().status == 204
    assert "pa55word" not in proxy.await_said("AUTH is refused: ERR")


# --- Redis is away ---


def test_without_redis_at_start_limits_are_judged_at_their_local_share(start, start_redis):
    redis = start_redis()
    redis.kill()
    proxy = start(policy(redis.url, rate="10/hour", store=", proxy_count: 2"))
    answers = [proxy.ask() for _ in range(8)]
    assert [answer.status for answer in answers] == [204] * 5 + [429] * 3
    assert 0 < int(answers[-1].get("Retry-After")) <= 7200
    assert sources_when_told(proxy, 8) == {"local": 8}
    redis.start()
    wait_for_sharing(proxy)


def test_without_redis_a_limit_that_says_allow_admits(start, start_redis):
    redis = start_redis()
    redis.kill()
    proxy = start(policy(redis.url, rate="1/hour", store=", on_failure: allow"))
    answers = [proxy.ask() for _ in range(5)]
    assert [answer.status for answer in answers] == [204] * 5
    assert answers[0].get("RateLimit") is None, "nothing was judged"
    assert sources_when_told(proxy, 5) == {"skipped": 5}


def test_without_redis_a_limit_that_says_deny_is_503(start, start_redis):
    redis = start_redis()
    redis.kill()
    proxy = start(policy(redis.url, limit=", on_failure: deny"))
    answer = proxy.ask()
    assert answer.status == 503 and int(answer.get("Retry-After")) >= 1
    assert answer.get("Content-Type") == "application/problem+json"
    assert answer.get("Cache-Control") == "no-store"
    redis.start()
    wait_for_sharing(proxy)
    until(lambda: all(proxy.ask().status == 204 for _ in range(8)), "all workers to share")


def test_where_limits_differ_deny_wins_local_is_judged_and_allow_is_skipped(start, start_redis):
    redis = start_redis()
    redis.kill()
    proxy = start(f"""
        workers: 1
        store: {{redis: "{redis.url}"}}
        limits:
          denying: {{key: global, rate: 9/day, on_failure: deny}}
          local: {{key: global, rate: 2/day}}
          allowing: {{key: global, rate: 1/day, on_failure: allow}}
        routes:
          - {{match: {{path: /all}}, limits: [denying, local, allowing], respond: {{status: 204}}}}
          - {{match: {{path: /two}}, limits: [local, allowing], respond: {{status: 204}}}}
    """)
    proxy.await_said('msg="no link"')  # what is late is judged by `allowing`, too
    assert proxy.ask(path="/all").status == 503
    answers = [proxy.ask(path="/two") for _ in range(3)]
    assert [answer.status for answer in answers] == [204, 204, 429]
    assert answers[2].json()["violated-policies"] == ["local"]


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_a_fault_of_redis_while_requests_flow_is_no_fault_of_the_proxies(
        start, start_redis, fault):
    redis = start_redis()
    proxies = [start(policy(redis.url, rate="100000/hour", store=", proxy_count: 2", deadline="250ms"))
               for _ in range(2)]
    for proxy in proxies:
        wait_for_sharing(proxy)
    with Flow(*proxies) as flow:
        for i in range(2):
            if fault == "killed":
                redis.kill()
            else:
                redis.pause()
            for proxy in proxies:
                wait_for_local(proxy, 100 * (i + 1))
            if fault == "killed":
                redis.start()
            else:
                redis.resume()
            for proxy in proxies:
                wait_for_sharing(proxy)
            flow.wait_for_more(200)
    assert set(flow.statuses) <= {204, 429}
    for proxy in proxies:
        changes = [line for line in proxy.stderr().splitlines() if "level=warn" in line]
        assert len(changes) < 100, "told once per change, not per request"


def test_a_redis_that_hangs_delays_a_request_by_its_deadline_at_most(start, start_redis):
    redis = start_redis()
    proxy = start(policy(redis.url, rate="100000/hour", deadline="100ms"))
    wait_for_sharing(proxy)
    redis.pause()
    for _ in range(20):
        with Stalls() as stalls:
            started = time.monotonic()
            assert proxy.ask().status == 204
            took_s = time.monotonic() - started
        assert took_s < 0.1 + STALL_S + stalls.total_s
    redis.resume()
    wait_for_sharing(proxy)


def test_forgetting_the_script_is_invisible(start, start_redis):
    redis = start_redis()
    proxy = start_sharing_all(start, policy(redis.url))
    for _ in range(5):
        redis.call("SCRIPT", "FLUSH")
        assert proxy.ask(path="/flushed").status == 204
    assert [line["source"] for line in proxy.lines_of("/flushed", 5)] == ["redis"] * 5


@pytest.mark.parametrize("provoke, undo", [
    (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
    (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
    (["CONFIG", "SET", "min-replicas-to-write", "3"],
     ["CONFIG", "SET", "min-replicas-to-write", "0"]),
], ids=["out_of_memory", "read_only", "too_few_replicas"])
def test_a_redis_that_refuses_to_write_is_a_failure_until_it_writes_again(
        start, start_redis, provoke, undo):
    redis = start_redis()
    proxy = start(policy(redis.url, rate="100000/hour"))
    wait_for_sharing(proxy)
    redis.call(*provoke)
    assert [proxy.ask(path="/refused").status for _ in range(10)] == [204] * 10
    assert {line["source"] for line in proxy.lines_of("/refused", 10)} == {"local"}
    redis.call(*undo)
    wait_for_sharing(proxy)


def test_a_slow_decision_keeps_the_order_of_pipelined_requests(start, start_redis):
    redis = start_redis()
    proxy = start_sharing_all(start, f"""
        workers: 2
        store: {{redis: "{redis.url}", deadline: 1m}}
        limits: {{some: {{key: global, rate: 100/day}}}}
        routes:
          - {{match: {{path: /slow}}, limits: [some], respond: {{status: 210}}}}
          - {{limits: [], respond: {{status: 211}}}}
    """)
    redis.pause()
    with proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
                    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert client.is_quiet(0.2)
        redis.resume()
        assert [client.read().status for _ in range(2)] == [210, 211]


def test_a_client_that_leaves_while_redis_is_asked_costs_nothing(start, start_redis):
    redis = start_redis()
    proxy = start_sharing_all(start, policy(redis.url, deadline="1m", top="admin: 127.0.0.1:0"))
    operator = Admin(addresses(proxy)[0])

    def n_asked():
        page = operator.ask(path="/metrics").body.decode()
        return int(re.search(r"^sluice_coalesce_decisions_total (\d+)$", page, re.MULTILINE).group(1))

    redis.pause()
    clients = [proxy.send(b"GET /left HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(10)]
    until(lambda: n_asked() == 10, "all to be asked for")
    for client in clients:
        assert client.is_quiet(0.02)
        client.reset()
    assert {line["fault"] for line in proxy.lines_of("/left", 10)} == {"the client left"}
    redis.resume()
    wait_for_sharing(proxy)
