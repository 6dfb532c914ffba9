"""Tables as text, and bounds."""


def table(title, columns, rows):
    """@columns: heading, name of the figure, and how it is written; what a row lacks is a dash."""
    lines = [title, "".join(f"{heading:>16}" for heading, _, _ in columns)]
    for row in rows:
        cells = ["-" if row.get(name) is None else format(row[name], form)
                 for _, name, form in columns]
        lines.append("".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def bound(of, figure, at_most, low=None, high=None):
    """A bound as it is kept; @low and @high: of the rounds that @figure is the median of."""
    return {"of": of, "is": figure, "min": figure if low is None else low,
            "max": figure if high is None else high, "at_most": at_most,
            "holds": figure <= at_most}


def bound_line(one):
    verdict = "holds" if one["holds"] else "EXCEEDED"
    return (f"{one['of']}: {one['is']:.4g} ({one['min']:.4g}..{one['max']:.4g}), at most"
            f" {one['at_most']}: {verdict}")
