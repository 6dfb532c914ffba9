"""Charts as data: what is drawn, not how. draw.py makes pictures of them."""

import dataclasses

OURS, PEER, NEUTRAL = "ours", "peer", "neutral"


@dataclasses.dataclass(frozen=True)
class Bar:
    label: str
    value: float
    kind: str = NEUTRAL
    low: float = None  # whiskers, if both are known
    high: float = None
    more: float = 0  # a second part, that lies on the first


@dataclasses.dataclass(frozen=True)
class Bars:
    """One bar a row, from top to bottom."""

    name: str
    title: str
    axis: str  # with its unit
    bars: list
    footer: str
    parts: tuple = ()  # names of the two parts of each bar, if it has two
    mark: float = None  # a line across all bars
    mark_label: str = ""
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    label: str
    points: list  # of (x, y)


@dataclasses.dataclass(frozen=True)
class Lines:
    """Series over an x that grows by decades, or by steps."""

    name: str
    title: str
    x_axis: str
    y_axis: str
    series: list
    footer: str
    by_decades: bool = True


def footer(figures):
    """What stands below a chart: its command, day and machine."""
    facts = figures["machine"]
    return f"{figures['command']}, {figures['at'][:10]}, {facts['cores']} cores of {facts['processor']}"


def kind_of(name):
    return OURS if name.startswith("sluice") else PEER


def is_empty(chart):
    """Nothing of what it would show was measured, or nothing bore the load."""
    return not (chart.bars if isinstance(chart, Bars) else chart.series)


def shown(chart):
    return "" if is_empty(chart) else f"![{chart.title}](performance/{chart.name}.svg)"
