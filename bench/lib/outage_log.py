"""What an outage was for the clients, read from sluice's own logs."""

import datetime
import re

SETTLES_S = 0.1  # a line's time is that of its end: what began before is still on its way

LINE = re.compile(r"^time=(\S+) .* status=(\d+) .*?source=(\w+) .*?store_us=(\d+)")
CONNECTS = re.compile(r'msg="Redis was asked".* connects=(\d+)')
LONGEST = re.compile(r'msg="decisions were made".* max_us=(\d+)')


def _seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _lines(path, began_at):
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = LINE.search(line)
            at = _seconds(match.group(1))
            if at >= began_at:
                yield at, int(match.group(2)), match.group(3), int(match.group(4))


def _quantile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1e3


def read_figures(access_log, stderr, began_at, ended_at):
    """Times of decisions in ms, of all requests that ended in the outage; how long after it the last
    request was decided without Redis."""
    lines = list(_lines(access_log, began_at))
    within = [line for line in lines if line[0] <= ended_at + SETTLES_S]
    times = sorted(line[3] for line in within)
    alone_at = [at for at, _, source, _ in lines if source == "local" and at > ended_at]
    said = stderr.read_text(errors="replace")
    return {
        "requests": len(within),
        "by_redis": sum(line[2] == "redis" for line in within),
        "local": sum(line[2] == "local" for line in within),
        "n_5xx": sum(line[1] >= 500 for line in lines),
        "p50_ms": _quantile(times, 0.5),
        "p99_ms": _quantile(times, 0.99),
        "p999_ms": _quantile(times, 0.999),
        "max_ms": int(LONGEST.search(said).group(1)) / 1e3,
        "back_s": max(alone_at, default=ended_at) - ended_at,
        "connects_per_s": int(CONNECTS.search(said).group(1)) / (ended_at - began_at),
    }
