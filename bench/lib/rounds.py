"""Rounds over rows: each measures every row once, so that what the machine does meanwhile meets all of them."""

import dataclasses
from statistics import median

import prepare
from measure import measure

WARM_UP_SECONDS = 1


@dataclasses.dataclass(frozen=True)
class Interval:
    """What a row is loaded with, unless it says otherwise itself."""

    connections: int
    seconds: int
    cores: set  # that the load runs on; empty: any


def run_rounds(rows, processes, redis, setting, interval, n_rounds):
    """A list of rounds: from a row's name to its figures. One to warm up comes before."""
    rounds = []
    for number in range(n_rounds + 1):
        warm_up = number == 0
        this = dataclasses.replace(interval, seconds=WARM_UP_SECONDS) if warm_up else interval
        prepare.say("warming up" if warm_up else f"round {number} of {n_rounds}")
        figures = {}
        for row in rows if number % 2 else reversed(rows):  # so that none is always the last
            asked = redis if row.uses_redis else None
            figures[row.name] = measure(row, processes[row.name], asked, setting, this)
            if not warm_up:
                one = figures[row.name]
                prepare.say(f"  {row.title:<26}{one['proxy_us']:7.2f} µs,"
                            f" Redis {one['redis_us']:.2f} µs")
        if not warm_up:
            rounds.append(figures)
    return rounds


def medians(rounds, name, figures):
    return {figure: median(one[name][figure] for one in rounds) for figure in figures}


def ratio_to(rounds, name, other, figure="proxy_us"):
    """Of a figure of one row to that of another in the same round: median and extremes."""
    ratios = [one[name][figure] / one[other][figure] for one in rounds]
    return {"ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
