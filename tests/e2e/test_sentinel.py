"""Limits in the Redis that sentinels name: it is found, its failovers are followed, and what they cost
is bounded."""

import collections
import datetime
import pathlib
import random
import re
import socket
import threading
import time

import pytest

from harness import flow, log
from harness.sentinel import DOWN_AFTER_MS, MASTER, NEVER_MS
from harness.wait import until

DEADLINE_S = 0.05  # of flow.policy()
N_CLIENTS = 6
WORKERS = 2
RESUMES_WITHIN_S = 1.0  # after the failover's own time
STALL_S = 4.0           # that a busy machine may add
GIVES_UP_WITHIN_S = 5.0

# What may be seen while a master goes away, and is replaced.
FAILOVER_FAULTS = {"refused", "reset", "half_open", "deadline", "switched", "readonly", "masterdown",
                   "not_found", "loading"}


def by_redis(line):
    return line.get("source") == "redis"


def not_by_redis(line):
    return line.get("source") in ("local", "skipped", None)


def one_limit(url, rate, store="", workers=WORKERS):
    return f"""
        workers: {workers}
        store: {{redis: '{url}', deadline: 10s{store}}}
        limits:
          shared: {{key: global, algorithm: fixed_window, align: first, rate: {rate}/day}}
        routes: [{{limits: [shared], respond: {{status: 204}}}}]
    """


def start_linked(start, text):
    """A proxy whose workers have all found the master."""
    proxy = start(text)
    until(lambda: proxy.stderr().count('msg="link up"') == WORKERS, "the links")
    return proxy


def wait_for_sharing(proxy):
    """Until Redis decides; its answer."""
    def ask():
        path = f"/probe-{random.random()}"
        response = proxy.ask(path=path)
        line, = proxy.lines_of(path, 1)
        return response if line.get("source") in ("redis", "cache") else None

    return until(ask, "a decision by Redis")


# --- it is found ---


@pytest.mark.takes(6)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_master_is_found_though_the_first_sentinel_is_away(start, start_watched, host):
    watched = start_watched(down_after_ms=NEVER_MS)
    watched.sentinels[0].kill()
    proxies = [start_linked(start, one_limit(watched.url.replace("127.0.0.1", host), 100)) for _ in range(2)]
    statuses = collections.Counter(proxies[i % 2].ask(path="/x").status for i in range(120))
    assert statuses == {204: 100, 429: 20}
    for proxy in proxies:
        assert {line["source"] for line in proxy.lines_of("/x", 60)
                if line["verdict"] == "allowed"} == {"redis"}
    assert watched.master().keys()


MANUAL = pathlib.Path(__file__).parents[2] / "docs" / "redis.md"
LOGIN = re.search(r"^ACL SETUSER (.*sentinel\|.*)$", MANUAL.read_text(), re.MULTILINE).group(1)


@pytest.mark.takes(7)
@pytest.mark.parametrize("lines, store", [
    (["requirepass sent1nel"], ", sentinel_password: sent1nel"),
    (["user " + LOGIN.replace(">PASSWORD", ">sent1nel")],
     ", sentinel_user: sluice, sentinel_password: sent1nel"),
], ids=["password", "least_rights"])
def test_sentinels_and_master_have_logins_of_their_own(start, start_watched, lines, store):
    watched = start_watched("--requirepass", "ma5ter", "--masterauth", "ma5ter",
                            lines=[f"sentinel auth-pass {MASTER} ma5ter", *lines],
                            down_after_ms=NEVER_MS)
    proxy = start(one_limit(watched.url, 1000, f", password: ma5ter{store}"))
    wait_for_sharing(proxy)
    old = watched.master()
    watched.ask_for_failover()
    watched.wait_for_failover_from(old)
    until(lambda: "sentinel names another" in proxy.stderr(), "the failover to be followed")
    wait_for_sharing(proxy)
    log = proxy.log_at_end()
    assert "ma5ter" not in log and "sent1nel" not in log


@pytest.mark.takes(5)
def test_a_wrong_password_of_the_sentinels_is_told_and_limits_are_judged_locally(
        start, start_watched):
    watched = start_watched(lines=["requirepass sent1nel"])
    proxy = start(one_limit(watched.url, 10, ", sentinel_password: s3cret"))
    statuses = collections.Counter(proxy.ask().status for _ in range(20))
    assert statuses == {204: 10, 429: 10}
    until(lambda: 'err="a sentinel refuses: WRONGPASS"' in proxy.stderr(), "the refusal in the log")
    assert "s3cret" not in proxy.log_at_end()


def test_what_a_sentinel_says_breaks_no_line_of_the_log(start):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"redis+sentinel://127.0.0.1:{listener.getsockname()[1]}/{MASTER}"
        proxy = start(one_limit(url, 10, workers=1))
        with listener.accept()[0] as connection:
            connection.sendall(b'-NO"\x1b[2J=\\AUTH needed\r\n')
            until(lambda: "no sentinel answers" in proxy.stderr(), "the trouble in the log")
    for line in proxy.stderr().splitlines():
        assert log.parse(line.encode(), "logfmt")


@pytest.mark.takes(5)
def test_without_sentinels_limits_are_judged_locally_until_one_is_there(start, start_watched):
    watched = start_watched()
    watched.kill_sentinels()
    proxy = start(one_limit(watched.url, 10))
    statuses = collections.Counter(proxy.ask(path="/early").status for _ in range(20))
    assert statuses == {204: 10, 429: 10}
    assert {line["failure"] for line in proxy.lines_of("/early", 20)} <= {"not_found", "deadline"}
    watched.sentinels[1].start()
    wait_for_sharing(proxy)


# --- failovers ---


def down_after(how):
    """Who asks for a failover wants no other one."""
    return DOWN_AFTER_MS if how in ("killed", "paused") else NEVER_MS


def offset(server):
    """How far it is in what is replicated."""
    return int(re.search(rb"^master_repl_offset:(\d+)", server.call("INFO", "replication"),
                         re.MULTILINE).group(1))


def fail(watched, how):
    """Let the master go away; who it was."""
    old = watched.master()
    if how == "killed":
        old.kill()
    elif how == "paused":
        old.pause()
    else:
        if how == "prepared":
            new = watched.replica()
            old.call("CLIENT", "PAUSE", 60_000, "WRITE")
            has = offset(old)
            until(lambda: offset(new) >= has, "the replica to have all")
        watched.ask_for_failover()
    return old


@pytest.mark.takes(9)
@pytest.mark.parametrize("how", ["killed", "paused", "asked_for"])
def test_a_failover_is_no_fault_of_the_proxies_and_is_followed_at_once(
        start, start_watched, seed, how):
    watched = start_watched(down_after_ms=down_after(how))
    proxies = [start(flow.policy(watched.url, N_CLIENTS)) for _ in range(2)]
    with flow.Flow(proxies, N_CLIENTS, seed) as clients:
        clients.go_on(at_most_s=0.5)
        began = time.monotonic()
        old = fail(watched, how)
        if how != "asked_for":
            clients.await_everyone(not_by_redis, began, GIVES_UP_WITHIN_S)
        watched.wait_for_failover_from(old)
        watched.keep_master()
        moved = time.monotonic()
        clients.await_everyone(by_redis, moved, RESUMES_WITHIN_S + STALL_S)
        clients.go_on(at_most_s=0.5)
    clients.judge(FAILOVER_FAULTS)
    watched.wait_until_agreed()
    assert watched.master() is not old
    for proxy in proxies:
        clients.check_decision_times(proxy, DEADLINE_S)


def evaluations(server):
    """Script calls that a server was asked for since it was started."""
    found = re.search(rb"^cmdstat_evalsha:calls=(\d+)", server.call("INFO", "commandstats"),
                      re.MULTILINE)
    return int(found.group(1)) if found else 0


@pytest.mark.takes(12)
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_an_old_master_that_comes_back_is_asked_nothing(start, start_watched, seed, how):
    watched = start_watched()
    proxy = start(flow.policy(watched.url, N_CLIENTS))
    with flow.Flow([proxy], N_CLIENTS, seed) as clients:
        old = fail(watched, how)
        watched.wait_for_failover_from(old)
        watched.keep_master()
        clients.await_everyone(by_redis, time.monotonic(), RESUMES_WITHIN_S + STALL_S)
        if how == "killed":
            old.start()
        else:
            old.resume()
        until(lambda: evaluations(old) == evaluations(old), "what it had been sent before")
        at_first = evaluations(old)
        clients.go_on(at_most_s=2)
    clients.judge(FAILOVER_FAULTS)
    assert evaluations(old) == at_first
    if how == "killed":
        assert at_first == 0


@pytest.mark.takes(15)
def test_when_all_sentinels_are_away_nothing_changes(start, start_watched, seed):
    watched = start_watched(down_after_ms=NEVER_MS)
    proxy = start_linked(start, flow.policy(watched.url, N_CLIENTS, deadline="10s"))
    with flow.Flow([proxy], N_CLIENTS, seed) as clients:
        watched.kill_sentinels()
        clients.go_on(at_most_s=3)
        watched.start_sentinels()
        clients.go_on(at_most_s=3)
    assert clients.judge(faults=set()) == 0
    assert proxy.log_at_end().count('msg="link up"') == WORKERS, "one for each worker, once"


@pytest.mark.takes(5)
def test_a_failover_that_no_sentinel_told_is_noticed_when_they_are_back(start, start_watched):
    """Nobody was there to tell of it, and the old master, that was given up, still answers."""
    watched = start_watched(down_after_ms=NEVER_MS)
    proxy = start_linked(start, one_limit(watched.url, 1000))
    old = watched.master()
    new = watched.replica()
    watched.kill_sentinels()
    new.call("REPLICAOF", "NO", "ONE")
    for sentinel in watched.sentinels:
        sentinel.file.write_text(sentinel.file.read_text().replace(
            f"sentinel monitor {MASTER} 127.0.0.1 {old.announced_port}",
            f"sentinel monitor {MASTER} 127.0.0.1 {new.announced_port}"))
    watched.start_sentinels()
    until(lambda: proxy.stderr().count("sentinel names another") >= WORKERS, "the news")
    wait_for_sharing(proxy)
    assert evaluations(new) > 0


# --- what they cost ---


PAUSE_S = 0.002


class Crowd:
    """Clients that ask for one limit, again and again."""

    def __init__(self, proxies, n_clients):
        self.proxies = proxies
        self._is_over = threading.Event()
        self._statuses = collections.deque()
        self._threads = [threading.Thread(target=self._run, args=(proxies[i % len(proxies)],))
                         for i in range(n_clients)]

    def _run(self, proxy):
        with proxy.connect() as client:
            while not self._is_over.is_set():
                self._statuses.append(client.ask(path="/crowd").status)
                time.sleep(PAUSE_S)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        assert set(self._statuses) <= {204, 429}

    def _lines(self):
        """Of what was allowed; lines come after answers."""
        n = len(self._statuses)
        until(lambda: sum(proxy.stdout().count(b" path=/crowd ") for proxy in self.proxies) >= n, f"{n} lines")
        return [line for proxy in self.proxies for line in proxy.all_log_lines()
                if line["verdict"] == "allowed"]

    def admitted(self):
        """How many, by who decided; when the crowd is gone."""
        return collections.Counter(line["source"] for line in self._lines())

    def admitted_since(self, when):
        """How many by Redis from then on, or as long before as this machine may have stalled."""
        since = datetime.datetime.fromtimestamp(when - STALL_S, datetime.timezone.utc)
        return sum(by_redis(line) and datetime.datetime.fromisoformat(line["time"]) >= since
                   for line in self._lines())


def is_replica(server):
    try:
        return server.call("ROLE")[0] == b"slave"
    except OSError:
        return False  # sentinels hang up all clients of who is promoted


@pytest.mark.takes(8)
@pytest.mark.parametrize("how", ["killed", "asked_for", "prepared"])
@pytest.mark.parametrize("rate", [300, 1_000_000])
def test_a_failover_admits_no_more_than_what_replication_lost_and_the_local_shares(
        start, start_watched, how, rate):
    watched = start_watched(down_after_ms=down_after(how))
    proxies = [start_linked(start, one_limit(watched.url, rate, ", proxy_count: 2")) for _ in range(2)]
    new = watched.replica()
    with Crowd(proxies, N_CLIENTS) as crowd:
        replicating = time.time()
        old = fail(watched, how)

        def has_moved():
            nonlocal replicating
            looked_at = time.time()
            if old.process.poll() is None and is_replica(new):
                replicating = looked_at
            return watched.has_moved_from(old)

        until(has_moved, "the failover")
        for proxy in proxies:
            wait_for_sharing(proxy)
    if how == "prepared":
        old.call("CLIENT", "UNPAUSE")
    last = wait_for_sharing(proxies[0])
    admitted = crowd.admitted()
    held = rate - int(re.search(r"r=(\d+)", last.get("RateLimit")).group(1))
    lost = admitted["redis"] - held
    print(f"{how}: admitted {dict(admitted)}, the new master holds {held}, lost {lost}")
    assert -N_CLIENTS <= lost, "no more than was under way is held without an answer"
    assert lost <= (0 if how == "prepared" else crowd.admitted_since(replicating))
    assert admitted["local"] <= 2 * (rate // 2)


# --- a storm ---


class Counting:
    """Listens where a server was, hangs up, and counts who came."""

    def __init__(self, port):
        self.n = 0
        self.sock = socket.create_server(("127.0.0.1", port))
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while True:
            try:
                self.sock.accept()[0].close()
            except OSError:
                return
            self.n += 1

    def stop(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join()


@pytest.mark.takes(9)
def test_while_everything_is_away_a_process_connects_ten_times_a_second_at_most(
        start, start_watched):
    watched = start_watched()
    proxy = start(one_limit(watched.url, 1000, workers=8))
    wait_for_sharing(proxy)
    everybody = [*watched.servers, *watched.sentinels]
    for server in everybody:
        server.kill()
    began = time.monotonic()
    counting = [Counting(server.announced_port) for server in everybody]
    with Crowd([proxy], n_clients=2):
        time.sleep(5)
    for one in counting:
        one.stop()
    lasted = time.monotonic() - began
    n_attempts = sum(one.n for one in counting)
    assert 10 <= n_attempts <= 10 * lasted + 10, (n_attempts, lasted)
