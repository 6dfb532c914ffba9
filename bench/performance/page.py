"""The page, and the comparison that README shows: all of it made from the published figures."""

import alone
import cost
import delay
import exactness
import scale
import trouble
from charts import is_empty
from words import bounds_table, busy, day, machine, number, spread, table

INTRODUCTION = """\
# Performance

What sluice costs, beside nginx, HAProxy and nginx with a script in Redis, and what happens to it when Redis is in
trouble. Everything here is made by commands of [bench/](../bench/README.md), which anybody can run, and this page by
`bench/report` from what they wrote ([the files](performance)): a test holds it to them. Ratios carry over to other
machines, as far as anything does; microseconds and requests a second are of the machine that is [named](#what-made-the-figures).
"""
# What no peer publishes comes first.
FIRST = (cost.MIXED, exactness.ACCURACY, trouble.STALLS, trouble.RECOVERY)
COSTS = (cost.PROXIED, cost.DENIED, cost.BARE, cost.TLS, delay.LATENCY, cost.BODY)
ELSEWHERE = ("mixed", *cost.BARE_GROUPS, *cost.TLS_GROUPS, *cost.BODIES)  # groups of rows that README leaves to the page
COUNTED = (cost.CALLS, cost.BUDGET, alone.DECISIONS, alone.BYTES, alone.SCRAPE)


def sections(data):
    return [*(make(data) for make in FIRST + COSTS), *scale.sections(data), *(make(data) for make in COUNTED)]


def charts(data):
    return [chart for section in sections(data) for chart in section.charts if not is_empty(chart)]


def _bounds(found):
    return [bound | {"title": ": ".join(filter(None, (section.title, bound["title"])))}
            for section in found for bound in section.bounds]


def _held(bounds):
    missed = sum(not bound["holds"] for bound in bounds)
    if not bounds:
        return "No bound was judged."
    if not missed:
        return f"All {len(bounds)} bounds that sluice sets itself hold in these figures."
    return (f"Of {len(bounds)} bounds that sluice sets itself, {len(bounds) - missed} hold in these figures and {missed} are"
            " missed.")


def _n_gaps(found):
    gaps = sum(not section.is_measured for section in found)
    return f"**{gaps} of {len(found)} sections of the page still to be measured**" if gaps else "All was measured"


def _gaps(found):
    """What no bound could be judged of."""
    gaps = [section.title for section in found if not section.is_measured]
    return f"{_n_gaps(found)}." + (f" Their bounds are not among these: {'; '.join(gaps)}." if gaps else "")


def _verdict(found):
    bounds = _bounds(found)
    missed = [bound for bound in bounds if not bound["holds"]]
    held = _held(bounds)
    return f"{held[:-1]}:\n\n{bounds_table(missed)}\n\n{_gaps(found)}" if missed else f"{held} {_gaps(found)}"


def _anchor(title):
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _versions(data):
    """Each run, and behind them each version that one of them had."""
    machines = [figures["machine"] for figures in data.values()]
    versions = dict.fromkeys(found[name] for name in ("sluice", "nginx", "haproxy", "redis", "wrk")
                             for found in machines if found.get(name))
    rows = [[f"`{figures['command']}`", day(figures) if "at" in figures else "", machine(figures)]
            for figures in data.values()]
    return table(["command", "when", "machine"], rows) + f"\n\nWith {', '.join(versions)}."


def page(data):
    found = sections(data)
    contents = "\n".join(f"- [{section.title}](#{_anchor(section.title)})" for section in found)
    parts = [INTRODUCTION.rstrip("\n"), _verdict(found), contents]
    parts += [f"## {section.title}\n\n{section.text}" for section in found]
    return "\n\n".join([*parts, "## What made the figures", _versions(data)]) + "\n"


def comparison(data):
    """README's table: what a request costs that has no large body."""
    if "run" not in data:
        return "`bench/run` makes this table; it was not measured yet."
    rows = [[row["title"], number(row["proxy_us"]),
             number(row["redis_us"]) if row["uses_redis"] else "", f"{row['ratio']:.2f}",
             spread(row["ratio_min"], row["ratio_max"]), number(row["requests_per_second"])]
            for row in data["run"]["rows"] if row["group"] not in ELSEWHERE]
    heads = ["", "proxy, µs>", "Redis, µs>", "ratio>", "(min..max)>", "requests/s>"]
    return (table(heads, rows) + f"\n\nMade by `{data['run']['command']}`, {day(data['run'])}, on"
            f" {machine(data['run'])}.{busy(data['run'])} {_held(_bounds(sections(data)))}"
            f" {_n_gaps(sections(data))} ([all of it](docs/performance.md)).")
