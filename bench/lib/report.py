"""From the figures of all rounds to one table."""

from statistics import median

from rows import DENY, PASS, reference_of

FIGURES = ["proxy_us", "redis_us", "redis_calls", "sum_us", "requests_per_second", "p50_ms",
           "p99_ms"]
HEADINGS = {
    PASS: "Proxied requests (200 from the upstream); ratio to nginx limit_req",
    DENY: "Denied requests (429 from the proxy); ratio to nginx limit_req, 429",
}


def _ratios(rounds, name, other, figure):
    """A ratio is taken within a round, where both sides met the same machine."""
    return [figures[name][figure] / figures[other][figure] for figures in rounds]


def _bounds(row, line, rounds):
    """Each bound of a row: what it is of, in words, the figure, and whether it holds."""
    bounds = [("ratio", line["ratio"], row.at_most),
              ("Redis calls a request", line["redis_calls"], row.calls_at_most)]
    if row.sum_at_most_of is not None:
        ratio = median(_ratios(rounds, row.name, row.sum_at_most_of, "sum_us"))
        bounds.append((f"sum to that of {row.sum_at_most_of}", ratio, 1))
    return [{"of": of, "is": figure, "at_most": at_most, "holds": figure <= at_most}
            for of, figure, at_most in bounds if at_most is not None]


def summarize(rows, rounds):
    """@rounds: one dict a round, from a row's name to its figures. Gives one dict a row: medians."""
    summary = []
    for row in rows:
        mine = [figures[row.name] for figures in rounds]
        ratios = _ratios(rounds, row.name, reference_of(row).name, "proxy_us")
        line = {"name": row.name, "title": row.title, "answers": row.answers,
                "uses_redis": row.uses_redis}
        line |= {name: median(figures[name] for figures in mine) for name in FIGURES}
        line |= {"ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
        line["bounds"] = _bounds(row, line, rounds)
        line["holds"] = all(bound["holds"] for bound in line["bounds"])
        summary.append(line)
    return summary


def _line(entry):
    redis = f"{'-':>9}{'-':>9}"
    if entry["uses_redis"]:
        redis = f"{entry['redis_us']:9.2f}{entry['redis_calls']:9.4f}"
    spread = f"({entry['ratio_min']:.2f}..{entry['ratio_max']:.2f})"
    return (
        f"{entry['title']:<22}{entry['proxy_us']:9.2f}{redis}{entry['sum_us']:9.2f}"
        f"{entry['ratio']:7.2f} {spread:<13}{entry['requests_per_second']:9.0f}"
        f"{entry['p99_ms']:8.2f}"
    )


def _bound_line(entry, bound):
    verdict = "holds" if bound["holds"] else "EXCEEDED"
    return (f"{entry['title']:<22}{bound['of']} {bound['is']:.4g}, at most {bound['at_most']}:"
            f" {verdict}")


def table(summary):
    head = (
        f"{'':<22}{'proxy µs':>9}{'Redis µs':>9}{'calls':>9}{'sum µs':>9}{'ratio':>7} {'(min..max)':<13}"
        f"{'req/s':>9}{'p99 ms':>8}"
    )
    blocks = []
    for answers, heading in HEADINGS.items():
        lines = [_line(entry) for entry in summary if entry["answers"] == answers]
        if lines:
            blocks.append("\n".join([heading, head, *lines]))
    bounds = [_bound_line(entry, bound) for entry in summary for bound in entry["bounds"]]
    if bounds:
        blocks.append("\n".join(["Bounds", *bounds]))
    return "\n\n".join(blocks)
