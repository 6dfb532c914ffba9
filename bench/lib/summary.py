"""From the figures of all rounds to one table."""

from statistics import median

from rows import GROUPS, reference_of

FIGURES = ["proxy_us", "redis_us", "redis_calls", "sum_us", "requests_per_second", "denied_per_second",
           "p50_ms", "p99_ms"]
EARLIER_MAX = 8  # runs that are kept
WORDS = {"proxy_us": "CPU of the proxy", "redis_calls": "Redis calls a request",
         "sum_us": "CPU of the proxy and Redis"}


def _ratios(rounds, name, other, figure):
    """A ratio is taken within a round, where both sides met the same machine."""
    return [figures[name][figure] / figures[other][figure] for figures in rounds]


def _bound(row, bound, rounds):
    if bound.of:
        figures = _ratios(rounds, row.name, bound.of, bound.figure)
        of = f"{WORDS[bound.figure]}, to that of {bound.of}"
    else:
        figures = [figures[row.name][bound.figure] for figures in rounds]
        of = WORDS[bound.figure]
    figure = median(figures)
    return {"of": of, "is": figure, "min": min(figures), "max": max(figures), "at_most": bound.at_most,
            "holds": figure <= bound.at_most}


def _earlier(published):
    """From a row's name to its ratios in earlier runs, the oldest first, each with its time and processor."""
    if not published:
        return {}
    made = {"at": published["at"], "processor": published["machine"]["processor"]}
    return {row["name"]: [*row.get("earlier", []), made | {"ratio": row["ratio"]}][-EARLIER_MAX:]
            for row in published["rows"]}


def between_runs(entry):
    """The least and the greatest ratio of this run and the earlier ones."""
    ratios = [entry["ratio"], *(run["ratio"] for run in entry.get("earlier", []))]
    return min(ratios), max(ratios)


def summarize(rows, rounds, published=None):
    """@rounds: one dict a round, from a row's name to its figures. @published: an earlier run's result. Gives one
    dict a row: medians, and the ratios of earlier runs."""
    summary = []
    earlier = _earlier(published)
    for row in rows:
        mine = [figures[row.name] for figures in rounds]
        ratios = _ratios(rounds, row.name, reference_of(row).name, "proxy_us")
        line = {"name": row.name, "title": row.title, "group": row.group,
                "uses_redis": row.uses_redis, "body": row.load.download or row.load.upload}
        for name in FIGURES:
            values = [figures[name] for figures in mine]
            line |= {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values)}
        line |= {"ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
        line["earlier"] = earlier.get(row.name, [])
        line["bounds"] = [_bound(row, bound, rounds) for bound in row.bounds]
        line["holds"] = all(bound["holds"] for bound in line["bounds"])
        summary.append(line)
    return summary


def _line(entry):
    redis = f"{'-':>9}{'-':>9}"
    if entry["uses_redis"]:
        redis = f"{entry['redis_us']:9.2f}{entry['redis_calls']:9.4f}"
    spread = f"({entry['ratio_min']:.2f}..{entry['ratio_max']:.2f})"
    runs = "{:.2f}..{:.2f}".format(*between_runs(entry))
    return (
        f"{entry['title']:<26}{entry['proxy_us']:9.2f}{redis}{entry['sum_us']:9.2f}"
        f"{entry['ratio']:7.2f} {spread:<13}{runs:>13}{entry['requests_per_second']:9.0f}"
        f"{entry['p99_ms']:8.2f}"
    )


def _bound_line(entry, bound):
    verdict = "holds" if bound["holds"] else "EXCEEDED"
    return (f"{entry['title']:<26}{bound['of']} {bound['is']:.3g} ({bound['min']:.3g}..{bound['max']:.3g}),"
            f" at most {bound['at_most']}: {verdict}")


def table(summary):
    head = (
        f"{'':<26}{'proxy µs':>9}{'Redis µs':>9}{'calls':>9}{'sum µs':>9}{'ratio':>7} {'(min..max)':<13}{'runs':>13}"
        f"{'req/s':>9}{'p99 ms':>8}"
    )
    blocks = []
    for name, group in GROUPS.items():
        lines = [_line(entry) for entry in summary if entry["group"] == name]
        if lines:
            blocks.append("\n".join([group.heading, head, *lines]))
    bounds = [_bound_line(entry, bound) for entry in summary for bound in entry["bounds"]]
    if bounds:
        blocks.append("\n".join(["Bounds", *bounds]))
    return "\n\n".join(blocks)
