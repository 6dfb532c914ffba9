"""Requests that flow while something happens, each client's against limits of its own, and whether
every answer was what its limit's on_failure wants."""

import os
import random
import re
import struct
import threading
import time

from harness import log
from harness.wait import soon, until

KINDS = ("local", "allow", "deny")
UNITS = 1_000_000  # of the first client's limit; the next one's has as many more
COUNTS_AGREE_WITHIN_S = 15.0
SHARING_RESUMES_WITHIN_S = 2.0
STALL_S = 4.0  # of a busy machine, in all
STALLED = ("deadline", "half_open")  # what such a stall looks like in the access log
WATCH_S = 0.005


def policy(redis_url, n_clients, deadline="50ms", workers=2, store=""):
    """Client i asks for /i, whose limit is of the kind KINDS[i % 3]. No two clients have the same
    numbers: an answer that was meant for another shows."""
    limits = "".join(
        f"          limit-{i}: {{key: global, algorithm: fixed_window, align: first, "
        f"rate: {(i + 1) * UNITS}/day, on_failure: {kind_of(i)}}}\n" for i in range(n_clients))
    routes = "".join(
        f"          - {{match: {{path: /{i}}}, limits: [limit-{i}], respond: {{status: 204}}}}\n"
        for i in range(n_clients))
    return (f"        workers: {workers}\n"
            "        trusted_proxies: [127.0.0.1]\n"  # its X-Request-ID is believed: see Flow
            f"        store: {{redis: '{redis_url}', deadline: {deadline}{store}}}\n"
            f"        limits:\n{limits}        routes:\n{routes}")


def kind_of(client):
    return KINDS[client % len(KINDS)]


def degraded(faults):
    """Whether a line is of a request that was decided without Redis because of one of them."""
    return lambda line: line.get("failure") in faults


def shared(line):
    return line.get("source") == "redis"


def charged(redis, client, limit="limit"):
    """Units of a client's limit that Redis, or a cluster, holds for taken: a window's count and its
    start."""
    key, = redis.keys(f"*:{limit}-{client}:*")
    count, _ = struct.unpack("<dd", redis.get(key))
    return int(count)


class Answer:
    """What a client got."""

    def __init__(self, client, number, asked_at, response):
        self.client = client
        self.id = f"{client}-{number}"
        self.asked_at = asked_at
        self.status = response.status
        self.retry_after = response.get("Retry-After")
        self.state = response.get("RateLimit")

    def remaining(self):
        """Of each of its limits, by what stands in front of the client's number."""
        told = re.findall(r'"(\w+)-(\d+)";r=(\d+)', self.state)
        assert told and all(client == str(self.client) for _, client, _ in told), \
            f"another's limit: {self.state}"
        return {limit: int(left) for limit, _, left in told}


class Flow:
    """n_clients that ask without pause, over the proxies in turn, from `with` to its end; client i for
    paths[i]."""

    def __init__(self, proxies, n_clients, seed, paths=None):
        self.proxies = proxies
        self.n_clients = n_clients
        self.paths = paths or [f"/{i}" for i in range(n_clients)]
        self.rng = random.Random(seed)
        self.answers = []
        self.failures = []
        self.lines = {}  # of the access logs, by id
        self.failures_told = set()  # there
        self._tails = [log.Tail(proxy.folder / "stdout") for proxy in proxies]
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(n_clients)]
        self._threads.append(threading.Thread(target=self._watch_machine))
        self.stall_s = 0.0  # the longest that this machine let somebody wait who wanted to run
        self._halted_s = dict.fromkeys(proxies, 0.0)  # in all

    def _run(self, client):
        try:
            with self.proxies[client % len(self.proxies)].connect() as connection:
                number = 0
                while not self._is_over.is_set():
                    number += 1
                    asked_at = time.monotonic()
                    response = connection.ask(path=self.paths[client],
                                              fields={"X-Request-ID": f"{client}-{number}"})
                    self.answers.append(Answer(client, number, asked_at, response))
        except Exception as failure:
            self.failures.append(failure)

    def _watch_machine(self):
        while not self._is_over.is_set():
            started = time.monotonic()
            self._is_over.wait(WATCH_S)
            took_s = time.monotonic() - started
            self.stall_s = max(self.stall_s, took_s - WATCH_S)
            for proxy in self.proxies:
                if proxy.is_running() and proxy.is_halted():
                    self._halted_s[proxy] += took_s

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.await_sharing(within=10)
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, at_most_s):
        """Let it flow for a time that nobody knows."""
        time.sleep(self.rng.uniform(0.2, 1) * at_most_s)

    def _read_logs(self):
        for tail in self._tails:
            for line in tail.read():
                self.lines[line["id"]] = line
                self.failures_told.add(line.get("failure"))

    def await_everyone(self, condition, since, within, among=None):
        """Until each client, or each `among` them, had an answer, asked `since` then, whose line meets
        the condition."""
        met = set()
        wanted = set(range(self.n_clients) if among is None else among)
        n_seen = 0
        rest = []  # answers without a line so far

        def look():
            nonlocal n_seen, rest
            assert not self.failures, self.failures[:3]
            self._read_logs()
            come = self.answers[n_seen:]
            n_seen += len(come)
            answers, rest = rest + [answer for answer in come if answer.asked_at >= since], []
            for answer in answers:
                if answer.id not in self.lines:
                    rest.append(answer)
                elif condition(self.lines[answer.id]):
                    met.add(answer.client)
            return met >= wanted

        try:
            soon(look, "all clients", within)
        except AssertionError:
            raise AssertionError(
                f"only clients {sorted(met)} of {sorted(wanted)} within {within} s; the last lines "
                f"are {list(self.lines.values())[-self.n_clients:]}") from None

    def await_fault(self, name):
        """Until some answer tells of it."""
        until(lambda: self._read_logs() or name in self.failures_told, name)

    def await_sharing(self, within=SHARING_RESUMES_WITHIN_S + STALL_S):
        """Until each client had an answer by Redis, from now on."""
        self.await_everyone(shared, time.monotonic(), within)

    # --- what it came to ---

    def judge(self, faults):
        """Every answer was by Redis, or by what the limit says of the faults that were to be."""
        assert not self.failures, self.failures[:3]
        until(lambda: self._read_logs() or len(self.lines) >= len(self.answers), "the access log")
        degraded = 0
        for answer in self.answers:
            line = self.lines[answer.id]
            if line.get("source") == "redis":
                assert answer.status == 204 and "failure" not in line, line
                for left in answer.remaining().values():
                    taken = (answer.client + 1) * UNITS - left
                    assert 0 < taken < UNITS, f"no answer of this limit: {answer.state}"
            else:
                degraded += 1
                assert line["failure"] in faults, line
                self._judge_degraded(answer, line)
        return degraded

    @staticmethod
    def _judge_degraded(answer, line):
        kind = kind_of(answer.client)
        if kind == "deny":
            assert (answer.status, line["verdict"]) == (503, "undecided"), line
            assert int(answer.retry_after) >= 1
        else:
            wanted = {"local": "local", "allow": "skipped"}[kind]
            assert (answer.status, line["source"], line["verdict"]) == (204, wanted, "allowed"), line

    def check_decision_times(self, proxy, deadline_s):
        """By the proxy's own account, but for what the machine took; not under valgrind, which takes far
        more. Ends the proxy."""
        taken_s = self.stall_s + self._halted_s[proxy] + proxy.waited_s()
        proxy.stop()
        if "SLUICE_PROGRAM" in os.environ:
            return
        times = re.search(r'msg="decisions were made" count=(\d+) .*p99_us=(\d+) ', proxy.stderr())
        assert int(times.group(1)) > 50
        assert int(times.group(2)) <= (deadline_s + 0.005 + taken_s) * 1e6, f"{taken_s} s were taken"

    def check_counts(self, redis):
        """What each client is told is what Redis holds: no reply went to another request."""
        for client in range(self.n_clients):
            proxy = self.proxies[client % len(self.proxies)]

            def agrees(client=client, proxy=proxy):
                response = proxy.ask(path=self.paths[client])
                if response.get("RateLimit") is None:
                    return False  # not by Redis
                left = Answer(client, 0, 0, response).remaining()
                return all(left[limit] == (client + 1) * UNITS - charged(redis, client, limit)
                           for limit in left)

            until(agrees, f"the count of client {client}", within=COUNTS_AGREE_WITHIN_S)
