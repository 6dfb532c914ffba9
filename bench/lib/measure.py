"""One interval of load on one row: what it cost, and the proof that the row is what it says."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import time

from cpu import cpu_ns
from redis_pipe import RedisPipe
from rows import DENY, PASS, log_path
from stage import StageError

WRK_REPORT = pathlib.Path(__file__).parent / "wrk_report.lua"
FIELDS = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "X-Request-ID",
          "Via"]
LOG_SECONDS = 5
LOG_SHARE = 0.99  # of the requests: the last lines may still be in a proxy's buffer


def check_fields(row, process):
    """Asks once and looks at what the upstream received: every field must be there."""
    if row.answers == DENY:
        return
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=5)
    connection.request("GET", "/fields")
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise StageError(f"{row.name}: GET /fields gave {response.status}: {text[:200]!r}")
    fields = json.loads(text)
    missing = [name for name in FIELDS if not fields[name]]
    if missing:
        raise StageError(f"{row.name}: the upstream did not get {', '.join(missing)}")


def _wrk(row, port, load):
    argv = ["wrk", "-t1", f"-c{load.connections}", f"-d{load.seconds}s", "--latency",
            "-s", str(WRK_REPORT), f"http://127.0.0.1:{port}/items/1"]
    argv += ["--", str(row.n_paths)] if row.n_paths > 1 else []
    pin = (lambda: os.sched_setaffinity(0, load.cores)) if load.cores else None
    ended = subprocess.run(argv, capture_output=True, text=True, preexec_fn=pin)
    if ended.returncode != 0 or not ended.stderr.strip().startswith("{"):
        raise StageError(f"wrk ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return json.loads(ended.stderr.strip().splitlines()[0])


def _check_answers(row, seen):
    if seen["requests"] == 0 or seen["socket_errors"] or seen["timeouts"]:
        raise StageError(f"{row.name}: wrk could not load it: {seen}")
    if row.answers == PASS and seen["not_ok"]:
        raise StageError(f"{row.name}: {seen['not_ok']} of {seen['requests']} answers were not 2xx")
    let_through = seen["requests"] - seen["not_ok"]
    if row.answers == DENY and let_through > 10:
        raise StageError(f"{row.name}: {let_through} of {seen['requests']} answers were no denials")


def _check_status(row, process):
    """wrk counts what is not 2xx or 3xx, whatever it is: here it must be 429."""
    if row.answers == PASS:
        return
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=5)
    connection.request("GET", "/items/1")
    status = connection.getresponse().status
    connection.close()
    if status not in (200, 429):
        raise StageError(f"{row.name}: denied with {status} where 429 is meant")


def _lines(path):
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _check_log(row, path, requests):
    deadline = time.monotonic() + LOG_SECONDS
    while (lines := _lines(path)) < requests * LOG_SHARE:
        if time.monotonic() > deadline:
            raise StageError(f"{row.name}: {lines} log lines for {requests} requests")
        time.sleep(0.1)


def _redis_totals(redis):
    """CPU of Redis so far, in nanoseconds, and the scripts it was called for: what decides."""
    if redis is None:
        return 0, 0
    pipe = RedisPipe(redis.port)
    stats = pipe.ask("INFO", "commandstats").decode()
    pipe.close()
    calls = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", stats)
    return cpu_ns(redis.pid), sum(int(number) for number in calls)


def measure(row, process, redis, setting, load):
    """Loads @process for an interval; gives its figures, times in microseconds.

    @redis is the Redis process, or None if the row does not ask it. @load: connections, seconds,
    and the cores wrk runs on (empty: any).
    """
    log = log_path(setting, row)
    os.truncate(log, 0)
    redis_before, calls_before = _redis_totals(redis)
    before = cpu_ns(process.pid)
    seen = _wrk(row, process.port, load)
    process.require_running()
    spent = cpu_ns(process.pid) - before
    redis_after, calls_after = _redis_totals(redis)
    redis_spent = redis_after - redis_before

    _check_answers(row, seen)
    _check_status(row, process)
    _check_log(row, log, seen["requests"])
    requests = seen["requests"]
    return {
        "requests": requests,
        "proxy_us": spent / requests / 1e3,
        "redis_us": redis_spent / requests / 1e3,
        "redis_calls": (calls_after - calls_before) / requests,
        "sum_us": (spent + redis_spent) / requests / 1e3,
        "requests_per_second": requests / seen["duration_us"] * 1e6,
        "p50_ms": seen["p50_us"] / 1e3,
        "p99_ms": seen["p99_us"] / 1e3,
    }
