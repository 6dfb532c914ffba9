"""Figures as text: numbers, tables, and where they come from. All of them are Markdown."""

from measured import COMMANDS

WITHOUT_CLOCK = ("bench/budget", "bench/calls", "bench/bytes-per-key", "bench/accuracy")
MUCH = 0.05  # of the machine's processor time


def number(value, digits=3):
    """So many digits that mean something, thousands apart; all of them of an integer."""
    if value is None:
        return "–"
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def spread(low, high):
    return f"({low:.2f}..{high:.2f})"


def table(heads, rows):
    """@heads: texts; those of columns of numbers end with `>`, and align to the right."""
    rules = ["---:" if head.endswith(">") else "---" for head in heads]
    lines = [[head.removesuffix(">") for head in heads], rules, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def day(figures):
    return figures["at"].replace("T", " ").removesuffix("Z")[:16] + " UTC"


def machine(figures):
    facts = figures["machine"]
    return f"{facts['cores']} cores of {facts['processor']}, Linux {facts['kernel']}"


def busy(figures):
    """What else the machine did meanwhile; empty where no clock has a part in the figures, or nobody has looked."""
    counts = figures["command"].split()[0] in WITHOUT_CLOCK
    if counts or "busy" not in figures:
        return ""
    others, stolen = figures["busy"]["others"], figures["busy"]["stolen"]
    told = f" The machine was busy with something else for {others:.1%} of its processor time"
    told += f", and taken away by its host for {stolen:.1%}." if stolen >= 0.0005 else "."
    return told + (" **All times tell of that.**" if others + stolen > MUCH else "")


def origin(figures):
    """The line that says what made the figures of a section."""
    return f"*[`{figures['command']}`](#what-made-the-figures).*{busy(figures)}"


def unmeasured(name):
    return f"This was not measured yet: `{COMMANDS[name]}` does it."


def _rounds(bound):
    if bound.get("min") == bound.get("max"):
        return ""
    return f"({number(bound['min'])}..{number(bound['max'])})"


def bounds_table(bounds):
    """@bounds: as bench/run keeps them, with the title of their row."""
    rows = [[bound["title"], bound["of"], number(bound["is"]),
             _rounds(bound), number(bound["at_most"]),
             "holds" if bound["holds"] else "**missed**"] for bound in bounds]
    return table(["", "bound", "figure>", "(min..max)>", "at most>", ""], rows)
