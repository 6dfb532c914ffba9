"""What passed of a load, and what its limit allowed: from the times of each request as its client saw
them. A request is decided at some time between its sending and its answer; nothing more is assumed."""

import dataclasses

import load
from accuracy_rows import BUCKET, CLOCK, HOUR_S, LIMIT, REFILL_A_MINUTE

US = 1_000_000
HOUR_US = HOUR_S * US
MINUTE_US = 60 * US


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request: when it was sent and answered, in µs since the epoch; whether it passed."""

    sent: int
    done: int
    passed: bool


def read_log(path):
    """Of bench_load. A time is rounded down there: the answer's is rounded up again."""
    return [Seen(one.sent_us, one.done_us + 1, one.status == 200) for one in load.read_log(path)]


def _allowed(kind, start_us, end_us):
    """What a limit allows that is untouched at @start_us, until @end_us."""
    length_us = max(0, end_us - start_us)
    if kind == BUCKET:
        return LIMIT + REFILL_A_MINUTE * length_us // MINUTE_US
    if kind == CLOCK:
        return LIMIT * (1 + max(0, end_us // HOUR_US - start_us // HOUR_US))
    return LIMIT  # the load is far shorter than an hour


def judge(kind, seen):
    """Admitted, and the range that the limit allowed: of decisions that took the longest time possible,
    and the shortest."""
    admitted = sum(one.passed for one in seen)
    most = _allowed(kind, min(one.sent for one in seen), max(one.done for one in seen))
    least = _allowed(kind, min(one.done for one in seen), max(one.sent for one in seen))
    return {"asked": len(seen), "admitted": admitted, "least": least, "most": most,
            "over": max(0, admitted - most), "under": max(0, least - admitted)}


def most_within(seen, period_us):
    """The most that passed within one period, for certain: that were sent after its beginning, and answered
    before its end."""
    passed = sorted((one for one in seen if one.passed), key=lambda one: one.sent)
    return max((sum(other.done < first.sent + period_us for other in passed[i:])
                for i, first in enumerate(passed)), default=0)
