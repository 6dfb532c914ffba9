"""From the figures of all rounds to one table."""

from statistics import median

from rows import DENY, PASS, reference_of

FIGURES = ["proxy_us", "redis_us", "sum_us", "requests_per_second", "p50_ms", "p99_ms"]
HEADINGS = {
    PASS: "Proxied requests (200 from the upstream); ratio to nginx limit_req",
    DENY: "Denied requests (429 from the proxy); ratio to nginx limit_req, 429",
}


def summarize(rows, rounds):
    """@rounds: one dict a round, from a row's name to its figures. Gives one dict a row.

    A ratio is taken within a round, where both sides met the same machine; then the median.
    """
    summary = []
    for row in rows:
        mine = [figures[row.name] for figures in rounds]
        base = [figures[reference_of(row).name] for figures in rounds]
        ratios = [own["proxy_us"] / other["proxy_us"] for own, other in zip(mine, base)]
        line = {"name": row.name, "title": row.title, "answers": row.answers}
        line |= {name: median(figures[name] for figures in mine) for name in FIGURES}
        line |= {"ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
        if row.at_most is not None:
            line |= {"at_most": row.at_most, "holds": line["ratio"] <= row.at_most}
        summary.append(line)
    return summary


def _line(entry):
    redis = f"{entry['redis_us']:9.2f}" if entry["redis_us"] else f"{'-':>9}"
    spread = f"({entry['ratio_min']:.2f}..{entry['ratio_max']:.2f})"
    bound = ""
    if "at_most" in entry:
        verdict = "holds" if entry["holds"] else "EXCEEDED"
        bound = f"  at most {entry['at_most']:.1f}: {verdict}"
    return (
        f"{entry['title']:<22}{entry['proxy_us']:9.2f}{redis}{entry['sum_us']:9.2f}"
        f"{entry['ratio']:7.2f} {spread:<13}{entry['requests_per_second']:9.0f}"
        f"{entry['p99_ms']:8.2f}{bound}"
    )


def table(summary):
    head = (
        f"{'':<22}{'proxy µs':>9}{'Redis µs':>9}{'sum µs':>9}{'ratio':>7} {'(min..max)':<13}"
        f"{'req/s':>9}{'p99 ms':>8}"
    )
    blocks = []
    for answers, heading in HEADINGS.items():
        lines = [_line(entry) for entry in summary if entry["answers"] == answers]
        if lines:
            blocks.append("\n".join([heading, head, *lines]))
    return "\n\n".join(blocks)
