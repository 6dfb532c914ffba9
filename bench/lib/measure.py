"""One interval of load on one row: what it cost, and the proof that the row is what it says."""

import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import time

import h2load
import handshakes
from cpu import cpu_ns
from instructions import Client
from proxies import log_path
from redis_pipe import RedisPipe
from rows import GROUPS
from stage import StageError

WRK_REPORT = pathlib.Path(__file__).parent / "wrk_report.lua"
FIELDS = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "X-Request-ID",
          "Via"]
LOG_SECONDS = 5
LOG_SHARE = 0.99  # of the requests: the last lines may still be in a proxy's buffer
DENIED_SLACK = 0.01  # of the requests: what a quota lets through
STATUS = re.compile(rb"^.* status=(\d+)", re.MULTILINE)  # in a log, the proxy's own, not the upstream's


def _get(row, process, path):
    if row.load.is_secure:
        context = ssl._create_unverified_context()  # the certificate is its own authority
        connection = http.client.HTTPSConnection("127.0.0.1", process.port, timeout=5, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=5)
    connection.request("GET", path)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response, text


def check_fields(row, process):
    """Asks once: the upstream must get every field, and the client those of as many limits as there are."""
    if row.load.streams and row.name.startswith("floor"):
        return  # it speaks HTTP/2 alone
    response, text = _get(row, process, "/fields")
    policies = [policy for policy in (response.getheader("RateLimit-Policy") or "").split(",") if policy]
    if len(policies) != (row.n_limits or 0):
        raise StageError(f"{row.name}: {row.n_limits} limits are meant, and RateLimit-Policy tells of {policies}")
    if GROUPS[row.group].denied == 1:
        return
    if response.status != 200:
        raise StageError(f"{row.name}: GET /fields gave {response.status}: {text[:200]!r}")
    fields = json.loads(text)
    missing = [name for name in FIELDS if not fields[name]]
    if missing and not GROUPS[row.group].is_bare:
        raise StageError(f"{row.name}: the upstream did not get {', '.join(missing)}")


def wrk(load, port, connections, seconds, cores=()):
    """Loads what listens on @port; gives what wrk saw, or handshakes.py where each request has a connection."""
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    if load.streams:
        return h2load.load(port, load, load.connections or connections, seconds, pin)
    if load.handshake:
        return handshakes.load(port, load.path, load.handshake, load.connections, seconds, pin)
    scheme = "https" if load.is_secure else "http"
    argv = ["wrk", "-t1", f"-c{load.connections or connections}", f"-d{seconds}s", "--latency", "--timeout", "10s",
            "-s", str(WRK_REPORT), f"{scheme}://127.0.0.1:{port}{load.path}", "--"]
    argv += [f"paths={load.n_paths}"] if load.n_paths > 1 else []
    argv += [f"spent={load.spent}"] if load.spent else []
    argv += [f"upload={load.upload}"] if load.upload else []
    ended = subprocess.run(argv, capture_output=True, text=True, preexec_fn=pin)
    if ended.returncode != 0 or not ended.stderr.strip().startswith("{"):
        raise StageError(f"wrk ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return json.loads(ended.stderr.strip().splitlines()[0])


def _check_answers(row, seen, n_denied):
    if _requests(row, seen) == 0 or seen["socket_errors"] or seen["timeouts"]:
        raise StageError(f"{row.name}: wrk could not load it: {seen}")
    denied = GROUPS[row.group].denied
    slack = DENIED_SLACK * seen["requests"] + 10 if denied else 0
    if abs(n_denied - denied * seen["requests"]) > slack:
        raise StageError(f"{row.name}: {n_denied:.0f} of {seen['requests']} answers were 429, where {denied:.0%} is meant")
    if abs(seen["not_ok"] - n_denied) > slack:
        raise StageError(f"{row.name}: {seen['not_ok']} answers were not 2xx, and {n_denied:.0f} of them 429")
    if row.load.download and seen["bytes"] < seen["requests"] * row.load.download:
        raise StageError(f"{row.name}: {seen['bytes']} bytes for {seen['requests']} answers")


def _lines(path):
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _await_log(row, path, requests):
    if GROUPS[row.group].is_bare:
        return
    deadline = time.monotonic() + LOG_SECONDS
    while (lines := _lines(path)) < requests:
        if time.monotonic() > deadline:
            raise StageError(f"{row.name}: {lines} log lines for {requests:.0f} requests")
        time.sleep(0.1)


def _denied_part(path):
    """Of the requests in the log, those with 429: wrk counts what is not 2xx or 3xx, whatever it is."""
    statuses = STATUS.findall(path.read_bytes())
    return statuses.count(b"429") / max(1, len(statuses))


def spend(row, process, log):
    """Uses up what is meant to be spent; the lines that this makes in @log are waited for."""
    if not row.load.spent:
        return
    os.truncate(log, 0)
    client = Client(process.port)
    paths = row.load.spent_paths
    for path in paths:
        status = client.ask(path.encode())
        if status not in (200, 429):
            raise StageError(f"{row.name}: {path} gave {status}")
    client.close()
    _await_log(row, log, len(paths))


def _check_calls(row, calls, requests):
    if row.uses_redis and calls < requests * row.calls_at_least:
        raise StageError(f"{row.name}: {calls} calls of Redis for {requests} requests, where at least"
                         f" {row.calls_at_least} each are meant: was the machine busy?")


def _redis_totals(redis):
    """CPU of Redis so far, in nanoseconds, and the scripts it was called for: what decides."""
    if redis is None:
        return 0, 0
    pipe = RedisPipe(redis.port)
    stats = pipe.ask("INFO", "commandstats").decode()
    pipe.close()
    calls = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", stats)
    return cpu_ns(redis.pid), sum(int(number) for number in calls)


def _requests(row, seen):
    """Those that were answered; of long downloads also the parts that were under way when time was up."""
    return max(seen["requests"], seen["bytes"] / row.load.download) if row.load.download else seen["requests"]


def measure(row, process, redis, setting, load):
    """Loads @process for an interval; gives its figures, times in microseconds.

    @redis is the Redis process, or None if the row does not ask it. @load: connections, seconds,
    and the cores wrk runs on (empty: any).
    """
    log = log_path(setting, row)
    spend(row, process, log)
    os.truncate(log, 0)
    redis_before, calls_before = _redis_totals(redis)
    before = cpu_ns(process.pid)
    seen = wrk(row.load, process.port, load.connections, max(1, round(load.seconds * row.load.part)), load.cores)
    process.require_running()
    spent = cpu_ns(process.pid) - before
    redis_after, calls_after = _redis_totals(redis)
    redis_spent, calls = redis_after - redis_before, calls_after - calls_before

    _await_log(row, log, seen["requests"] * LOG_SHARE)
    denied = seen["not_ok"] / max(1, seen["requests"]) if GROUPS[row.group].is_bare else _denied_part(log)
    _check_answers(row, seen, denied * seen["requests"])
    _check_calls(row, calls, seen["requests"])
    requests = _requests(row, seen)
    return {
        "requests": requests,
        "proxy_us": spent / requests / 1e3,
        "redis_us": redis_spent / requests / 1e3,
        "redis_calls": calls / requests,
        "sum_us": (spent + redis_spent) / requests / 1e3,
        "requests_per_second": requests / seen["duration_us"] * 1e6,
        "denied_per_second": denied * requests / seen["duration_us"] * 1e6,
        "p50_ms": seen["p50_us"] / 1e3,
        "p99_ms": seen["p99_us"] / 1e3,
    }
