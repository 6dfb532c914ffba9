"""What an outage was for the clients, from bench_load's log, and for those who decided, from sluice's own."""

import collections
import datetime
import re
import typing

CONNECTS = re.compile(r'msg="Redis was asked".* connects=(\d+)')
FIELD = re.compile(r'(\w+)=("[^"]*"|\S+)')
US = 1e6


class Line(typing.NamedTuple):
    """Of the access log: times in s since the epoch."""

    began: float
    ended: float
    status: str
    source: str  # who decided; "": nobody
    store_us: int  # 0: decided at once, in memory


def _seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _line(text):
    fields = dict(FIELD.findall(text))
    ended = _seconds(fields["time"])
    return Line(ended - int(fields["us"]) / US, ended, fields["status"], fields.get("source", ""),
                int(fields.get("store_us", 0)))


def _quantiles(times):
    ordered = sorted(times)
    return [ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e3 for part in (0.5, 0.99, 0.999, 1)]


def of_clients(asked, when, metronome):
    """Latency of the requests that were to be sent in the outage, in ms, from that time on; and what is left of
    its p99.9 where no request is charged for the time at which the machine stood still."""
    spans = [(one.intended_us / US, one.done_us / US) for one in asked]
    within = [(begin, end) for begin, end in spans if when[0] <= begin <= when[1]]
    p50, p99, p999, most = _quantiles(end - begin for begin, end in within)
    own = _quantiles(end - begin - metronome.stalled_s(begin, end) for begin, end in within)
    return {"requests": len(within), "p50_ms": p50, "p99_ms": p99, "p999_ms": p999, "max_ms": most,
            "own_p999_ms": own[2]}


def of_decisions(access_log, stderr, when, metronome):
    """Who decided the requests of the outage; the longest decision of the whole run, with the machine's stalls in it
    and without; how long after the outage the last one was made without Redis."""
    began_at, ended_at = when
    with open(access_log, encoding="utf-8") as file:
        lines = [_line(text) for text in file]
    within = [line for line in lines if began_at <= line.began <= ended_at]
    alone_at = [line.ended for line in lines if line.source == "local" and line.ended > ended_at]
    own_us = (line.store_us - metronome.stalled_s(line.began, line.ended) * US for line in lines if line.store_us)
    return {
        "by_redis": sum(line.source == "redis" for line in within),
        "local": sum(line.source == "local" for line in within),
        "waited": sum(line.store_us > 0 for line in within),
        "statuses": collections.Counter(line.status for line in within),
        "n_5xx": sum(line.status >= "500" for line in lines if line.began >= began_at),
        "decision_ms": max(line.store_us for line in lines) / 1e3,
        "own_decision_ms": max(own_us, default=0) / 1e3,
        "back_s": max(alone_at, default=ended_at) - ended_at,
        "connects_per_s": int(CONNECTS.search(stderr.read_text(errors="replace")).group(1)) / (ended_at - began_at),
    }
