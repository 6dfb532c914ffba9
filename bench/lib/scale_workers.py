"""1 worker to as many as there are cores: what a request costs, and how many are answered."""

import os

import columns
from others import start_upstream
from proxies import Setting, sluice
from rounds import Interval, medians, ratio_to, run_rounds
from rows import PER_CLIENT, Row
from stage import Stage

CONNECTIONS = 64


def _numbers():
    most, numbers = max(2, os.cpu_count()), [1]
    while numbers[-1] * 2 <= most:
        numbers.append(numbers[-1] * 2)
    return numbers


def measure(given):
    numbers = _numbers()
    rows = [Row(f"workers-{n}", f"{n} workers", "pass", sluice(PER_CLIENT, workers=n))
            for n in numbers]
    with Stage() as stage:
        setting = Setting(stage, start_upstream(stage).port, None, given.sluice, set())
        processes = {row.name: row.start(setting, row) for row in rows}
        rounds = run_rounds(rows, processes, None, setting,
                            Interval(CONNECTIONS, given.seconds, set()), given.rounds)
    return [{"workers": n, "cores": os.cpu_count()}
            | medians(rounds, row.name, ["proxy_us", "requests_per_second", "p99_ms"])
            | ratio_to(rounds, row.name, rows[0].name)
            for n, row in zip(numbers, rows)]


def bounds(_):
    return []


def table(rows):
    return columns.table(
        "Workers, one hot key in the embedded store; ratio of CPU a request to that with one",
        [("workers", "workers", "d"), ("proxy µs", "proxy_us", ".2f"), ("ratio", "ratio", ".3f"),
         ("min", "ratio_min", ".3f"), ("max", "ratio_max", ".3f"),
         ("req/s", "requests_per_second", ".0f"), ("p99 ms", "p99_ms", ".2f")], rows)
