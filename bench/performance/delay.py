"""The section of what bench/latency measured: what a proxy adds to a direct connection."""

from charts import Bar, Bars, footer, kind_of, shown
from section import Section, made_of, paragraphs
from words import bounds_table, number, origin, table


_KEYS = " The cold keys are all made before: a Redis that grows from nothing stops to move its table."
_TRIP = (
    "With Redis a request may add a round trip and 200 µs to the p99. Which round trip is a matter of reading, so both are"
    " judged. Its p99 is what this machine does to the shortest of messages while nothing else runs, and allows more the"
    " noisier the machine is: it is partly in the direct connection's p99 too. Its median is as if nothing ever held a"
    " message up, and charges to the proxy all that does while Redis is asked.")
_HALF_RATES = " It is found anew by each round for the next; the median of all rates is told, which were {} to {}."
_HALF_LOAD = (
    " Busy: of the processors' time, with all that stands around the proxy (the generator, the upstream, Redis), which"
    " share them here. Half a load is the rate at which the busiest of nginx, sluice and sluice with cold keys in Redis"
    " keeps them half busy; the heavy one is half of what the slowest of them bears when each connection asks as soon as"
    " it is answered: what comes in bunches is cheaper.")


def _load(rate, figures):
    half = figures.get("half_load", figures["rates"][-1])  # of a result that does not tell, the highest
    if rate == half:
        return "half load"
    return "a light load" if rate < half else "a heavy load"


def _middle(row):
    """Between which the p99 of half of the rounds lies."""
    return row["added_p99_low_us"], row["added_p99_high_us"]


def _chart(rate, figures):
    rows = [row for row in figures["rows"] if row["rate"] == rate and row["name"] != "direct"
            and not row["saturated"]]
    bars = [Bar(row["title"], row["added_p99_us"], kind_of(row["name"]), *_middle(row)) for row in rows]
    return Bars(f"added-latency-{figures['rates'].index(rate)}", f"Added p99 latency at {_load(rate, figures)},"
                f" {rate:,} requests a second", "µs beyond a direct connection: the median, and the middle half of the rounds", bars,
                footer(figures))


def _cells(row):
    told = [number(row[f"{quantile}_us"]) for quantile in ("p50", "p99", "p999")]
    if "busy" in row:
        told = [f"{row['busy']:.0%}", *told]
    if row["name"] == "direct":
        return [*told, *[""] * 4]
    added = [number(row[f"added_{quantile}_us"]) for quantile in ("p50", "p99", "p999")]
    low, high = _middle(row)
    return [*told, *added, f"({number(low)}..{number(high)})"]


def _title(row):
    """With a mark, where not all rounds could bear the rate."""
    n_saturated, n_rounds = row.get("n_saturated"), row.get("n_rounds")
    if n_saturated is None:  # of a result that does not tell of how many
        return row["title"] + (", **saturated**" if row["saturated"] else "")
    if not n_saturated:
        return row["title"]
    word = "**saturated**" if row["saturated"] else "saturated"
    return f"{row['title']}, {word} in {n_saturated} of {n_rounds} rounds"


def _table(rate, figures):
    rows = [row for row in figures["rows"] if row["rate"] == rate]
    heads = [f"{rate:,} requests/s", *(["busy>"] if "busy" in rows[0] else []), "p50, µs>", "p99>", "p99.9>",
             "added p50>", "added p99>", "added p99.9>", "(middle half of p99)>"]
    return table(heads, [[_title(row), *_cells(row)] for row in rows])


def _latency(title, figures):
    charts = tuple(_chart(rate, figures) for rate in figures["rates"])
    titles = {row["name"]: row["title"] for row in figures["rows"]}
    bounds = tuple({"title": titles.get(bound["name"], bound["name"])} | bound for bound in figures["bounds"])
    trip, half_rates = figures["redis_round_trip_us"], figures.get("half_rates")
    text = paragraphs(
        "Requests are sent at times that are drawn before the first of them, and each is charged from the time at which"
        " it was to be sent: what a stall holds up is counted, not left out (coordinated omission). Added is the row minus"
        f" the direct connection in the same round. A round trip of Redis, quiet: {number(trip['p50'])} µs (p99"
        f" {number(trip['p99'])} µs); the generator itself was late by {number(figures['lag_p99_us'])} µs (p99);"
        " more than 100 µs would tell that it did not get a processor when it wanted one. Saturated:"
        " requests came in faster than they were answered; where that was so in more than half of the rounds, the figures tell"
        " how long the row was loaded, and the chart leaves it out."
        + (_HALF_LOAD if "half_load" in figures else "")
        + (_HALF_RATES.format(number(min(half_rates)), number(max(half_rates))) if half_rates else "")
        + (_KEYS if "keys_ms" in figures else ""),
        origin(figures), *(part for rate, chart in zip(figures["rates"], charts)
                           for part in (shown(chart), _table(rate, figures))),
        _TRIP, bounds_table(bounds))
    return Section(title, text, charts, bounds)


LATENCY = made_of("latency", "Added latency", _latency)
