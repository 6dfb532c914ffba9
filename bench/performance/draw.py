"""Draws charts as SVG with matplotlib: the same data gives the same bytes."""

import io
import re

import matplotlib

from charts import NEUTRAL, OURS, PEER, Bars

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402

COLOURS = {OURS: "#0b6e99", PEER: "#a3adb8", NEUTRAL: "#5f7d95"}
MORE_COLOURS = {OURS: "#7fc4de", PEER: "#d9dee3", NEUTRAL: "#c2d0da"}
LINES = ["#0b6e99", "#d1495b", "#3a7d44", "#8d6a9f", "#e09f3e", "#5f7d95"]
INK, GRID, MARK = "#24292f", "#dfe3e8", "#d1495b"
WIDTH = 8.0  # inches; at 72 points each
BAR_HEIGHT, FRAME_HEIGHT, LINES_HEIGHT = 0.34, 1.35, 4.0
PLAIN = ticker.FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
SETTINGS = {
    "svg.hashsalt": "sluice",  # names of parts are the same each time
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.edgecolor": GRID, "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": "white", "savefig.facecolor": "white",
}


def _finish(figure, axes, chart):
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    figure.text(0.99, 0.01, chart.footer, ha="right", va="bottom", fontsize=7, color="#6a737d")
    output = io.StringIO()
    figure.savefig(output, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return re.sub(r"[ \t]+$", "", output.getvalue(), flags=re.MULTILINE)


def _figure(height):
    figure, axes = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0.16 / height, 1, 1 - 0.16 / height))
    axes.set_axisbelow(True)
    return figure, axes


def _text_of(value):
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _draw_bar(axes, at, bar):
    axes.barh(at, bar.value, height=0.62, color=COLOURS[bar.kind])
    end = bar.value + bar.more
    if bar.more:
        axes.barh(at, bar.more, left=bar.value, height=0.62, color=MORE_COLOURS[bar.kind])
    if bar.low is not None and bar.high is not None:
        axes.errorbar(end, at, xerr=[[max(0, end - bar.low)], [max(0, bar.high - end)]], fmt="none",
                      ecolor=INK, elinewidth=1, capsize=3)
        end = max(end, bar.high)
    axes.annotate(_text_of(bar.value + bar.more), (end, at), xytext=(5, 0), textcoords="offset points",
                  va="center", fontsize=9)


def _legend_of_parts(axes, chart):
    kind = next((bar.kind for bar in chart.bars if bar.kind == OURS), NEUTRAL)
    handles = [matplotlib.patches.Patch(color=colours[kind], label=label)
               for colours, label in zip((COLOURS, MORE_COLOURS), chart.parts)]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles), frameon=False,
                fontsize=9)


def _bars(chart):
    figure, axes = _figure(FRAME_HEIGHT + BAR_HEIGHT * len(chart.bars))
    for at, bar in enumerate(chart.bars):
        _draw_bar(axes, at, bar)
    if chart.mark is not None:
        axes.axvline(chart.mark, color=MARK, linestyle="--", linewidth=1)
        axes.annotate(chart.mark_label, (chart.mark, len(chart.bars) - 0.45), color=MARK, fontsize=8,
                      xytext=(4, 0), textcoords="offset points", va="bottom", annotation_clip=False)
    axes.set_yticks(range(len(chart.bars)), [bar.label for bar in chart.bars])
    axes.set_ylim(len(chart.bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(chart.axis)
    axes.margins(x=0.12)
    ends = [bar.value + bar.more for bar in chart.bars]
    if chart.log:
        axes.set_xscale("log")
    elif not any(ends):
        axes.set_xlim(0, 1)
    if chart.log or max(ends) >= 1000:
        axes.xaxis.set_major_formatter(PLAIN)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    if chart.parts:
        _legend_of_parts(axes, chart)
    return _finish(figure, axes, chart)


def _lines(chart):
    figure, axes = _figure(LINES_HEIGHT)
    for series, colour in zip(chart.series, LINES * len(chart.series)):
        axes.plot([x for x, _ in series.points], [y for _, y in series.points], marker="o", markersize=4,
                  color=colour, label=series.label)
    if chart.by_decades:
        axes.set_xscale("log")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(chart.x_axis)
    axes.set_ylabel(chart.y_axis)
    axes.grid(color=GRID, linewidth=0.8)
    if len(chart.series) > 1:
        axes.legend(loc="best", frameon=False, fontsize=9)
    return _finish(figure, axes, chart)


def draw(chart):
    """The chart as the text of an SVG file."""
    with matplotlib.rc_context(SETTINGS):
        return _bars(chart) if isinstance(chart, Bars) else _lines(chart)


def drawn_by_this(text):
    """Whether an SVG was drawn by this version of matplotlib: another one may set it otherwise."""
    return f"Matplotlib v{matplotlib.__version__}," in text
