"""Sections of what no clock of a good day shows: Redis stalls, and comes back."""

from charts import OURS, Bar, Bars, footer, shown
from section import Section, made_of, paragraphs
from words import number, origin, table

QUANTILES = (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"), ("max_ms", "longest"))
# What happens to Redis; the words of bench/README.md are longer.
KINDS = {"none": "is well", "stopped": "stands still", "killed": "dies", "dropped": "vanishes",
         "loading": "says LOADING", "flushed": "loses its scripts", "paused": "CLIENT PAUSE",
         "read-only": "becomes a replica", "slow": "is kept busy"}
RECOVERED = ("shared again after, s", "attempts to connect in a second")  # as bench/outage says it


def _kind(row):
    return KINDS.get(row["kind"], row["kind"])


def _judged(rows, of_recovery):
    """The bounds of how Redis comes back, or the others."""
    return tuple({"title": f"Redis {_kind(row)}"} | bound for row in rows for bound in row.get("bounds", [])
                 if (bound["of"] in RECOVERED) == of_recovery)


def _missed(bounds):
    missed = [f"{bound['title']}: {bound['of']} {number(bound['is'])}, at most {number(bound['at_most'])}"
              for bound in bounds if not bound["holds"]]
    return "**Missed:** " + "; ".join(missed) + "." if missed else "All bounds hold."


def _stalls(title, figures):
    rows = figures["rows"]
    bars = [Bar(f"{_kind(row)}, {name}", row[figure], OURS) for row in rows
            for figure, name in QUANTILES[1:3]]
    deadline = figures["deadline_ms"]
    chart = Bars("outage-latency", "Latency while Redis is in trouble",
                 "ms from when a request was to be sent; those of the outage", bars, footer(figures),
                 mark=deadline, mark_label="deadline", log=True)
    lines = [[_kind(row), number(row["requests"]), number(row["by_redis"]), number(row["local"]),
              row["n_5xx"], *(f"{row[figure]:.2f}" for figure, _ in QUANTILES), f"{row['decision_ms']:.2f}",
              f"{row['stall_ms']:.2f}"]
             for row in rows]
    bounds = _judged(rows, of_recovery=False)
    text = paragraphs(
        f"For {figures['seconds']} s something happens to Redis, with `on_failure: local` and a deadline of {deadline} ms,"
        f" while {figures['rate']:,} requests a second come at times that are drawn beforehand, on"
        f" {figures['connections']} connections. Latency is what clients see of the requests that were to be sent in"
        " the outage, each counted from that time: what a stall holds up is charged, not left out. Beside it stand who"
        " decided, the longest decision by sluice's own account, and the longest that this machine let another process"
        " wait, which no program can answer for. The row where Redis is well is for comparison."
        + (" All of it ran with real-time priority." if figures["realtime"] else ""),
        origin(figures), shown(chart),
        table(["Redis …", "requests>", "by Redis>", "locally>", "5xx>", "p50, ms>", "p99>", "p99.9>", "longest>",
               "longest decision>", "the machine's stall>"], lines), _missed(bounds))
    return Section(title, text, (chart,), bounds)


def _recovery(title, figures):
    rows = [row for row in figures["rows"] if row["kind"] != "none"]
    chart = Bars("outage-recovery", "From the end of the outage to the last decision without Redis", "s",
                 [Bar(_kind(row), row["back_s"], OURS) for row in rows], footer(figures),
                 mark=figures["back_s"], mark_label="at most")
    lines = [[_kind(row), f"{row['back_s']:.2f}", f"{row['connects_per_s']:.1f}"] for row in rows]
    bounds = _judged(rows, of_recovery=True)
    text = paragraphs(
        "From the moment Redis is well again to the last request that was decided without it. Attempts to connect"
        " are those of a second of the outage: whoever knocks too often keeps down what would rise.",
        origin(figures), shown(chart), table(["Redis …", "back after, s>", "attempts to connect/s>"], lines),
        _missed(bounds))
    return Section(title, text, (chart,), bounds)


STALLS = made_of("outage", "Latency while Redis stalls", _stalls)
RECOVERY = made_of("outage", "Time to recover", _recovery)
