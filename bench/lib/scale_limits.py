"""1 to 10 limits a request, all of them one decision: in the embedded store and in Redis."""

import columns
from others import start_redis, start_upstream
from proxies import Setting, sluice
from rounds import Interval, medians, ratio_to, run_rounds
from rows import COLD, ONE_EACH, PER_PATH, Row
from stage import Stage

NUMBERS = [1, 2, 3, 5, 10]
CONNECTIONS = 64


def _row(store, n_limits):
    in_redis = store == "redis"
    return Row(f"{store}-{n_limits}", f"{store}, {n_limits} limits", "pass",
               sluice(*[PER_PATH] * n_limits, redis=in_redis), COLD,
               calls_at_least=ONE_EACH if in_redis else None, n_limits=n_limits)


def measure(given):
    named = [(store, n, _row(store, n)) for store in ("memory", "redis") for n in NUMBERS]
    rows = [row for _, _, row in named]
    with Stage() as stage:
        upstream, redis = start_upstream(stage), start_redis(stage)
        setting = Setting(stage, upstream.port, redis.port, given.sluice, set())
        processes = {row.name: row.start(setting, row) for row in rows}
        rounds = run_rounds(rows, processes, redis, setting,
                            Interval(CONNECTIONS, given.seconds, set()), given.rounds)
    return [{"store": store, "limits": n_limits}
            | medians(rounds, row.name, ["proxy_us", "redis_us", "redis_calls"])
            | ratio_to(rounds, row.name, f"{store}-{NUMBERS[0]}")
            for store, n_limits, row in named]


def bounds(_):
    return []


def table(rows):
    return columns.table(
        "Limits a request, of 10,000 keys each; ratio of the proxy's CPU to that with one",
        [("store", "store", ""), ("limits", "limits", "d"), ("proxy µs", "proxy_us", ".2f"),
         ("ratio", "ratio", ".3f"), ("min", "ratio_min", ".3f"), ("max", "ratio_max", ".3f"),
         ("Redis µs", "redis_us", ".2f"), ("calls", "redis_calls", ".2f")], rows)
