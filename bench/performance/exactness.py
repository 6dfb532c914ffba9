"""The section of what bench/accuracy measured: what passed, and what the limit allowed."""

from charts import Bar, Bars, footer, kind_of, shown
from section import Section, made_of, paragraphs
from words import number, origin, table


def _range(least, most):
    return f"{least:,}" if least == most else f"{least:,}..{most:,}"


def _chart(figures):
    bars = [Bar(row["title"], row["over_percent"], kind_of(row["name"]), more=row["under_percent"])
            for row in figures["rows"]]
    return Bars("accuracy", f"Admitted beyond the limit, or denied within it, of {figures['requests']:,} requests at once",
                "% of the limit, the worst of all rounds", bars, footer(figures), ("too many", "too few"))


def _edge_chart(figures):
    bars = [Bar(row["title"], row["times"], kind_of(row["name"].removeprefix("edge-"))) for row in figures["edges"]]
    return Bars("accuracy-edge", "The most that passed within any one period, at the edge of a window",
                "limits' worth", bars, footer(figures), mark=1, mark_label="the limit")


def _uses_redis(row):
    return row["name"].startswith("sluice-redis")


def _by_itself(row):
    """Of all rounds together; empty where no Redis was to be asked, or it is not sluice, which tells."""
    return number(row.get("by_itself")) if _uses_redis(row) else ""


def _rush_table(rows):
    lines = [[row["title"], f"{row['limit']:,}", _range(row["admitted_min"], row["admitted_max"]), row["over"],
              row["under"], f"{row['over_percent']:.1f} %", f"{row['under_percent']:.1f} %",
              _by_itself(row)] for row in rows]
    return table(["", "limit>", "admitted>", "too many>", "too few>", "too many>", "too few>",
                  "decided without Redis>"], lines)


def _edge_table(rows):
    lines = [[row["title"], row["limit"], row["most"], f"{row['times']:.2f}", number(row["promise"])] for row in rows]
    return table(["", "limit>", "passed in a period>", "limits' worth>", "promised at most>"], lines)


def _zero(row, of, is_number):
    return {"title": row["title"], "of": of, "is": is_number, "at_most": 0, "holds": is_number == 0}


def _bounds(figures):
    ours = [row for row in figures["rows"] if row["name"].startswith("sluice")]
    bounds = [bound for row in ours for bound in (
        _zero(row, "admitted beyond the limit", row["over"]), _zero(row, "denied within the limit", row["under"]))]
    bounds += [_zero(row, "decided without Redis", row["by_itself"]) for row in ours
               if _uses_redis(row) and "by_itself" in row]
    promised = [row for row in figures["edges"] if row["promise"] is not None]
    return tuple(bounds + [{"title": row["title"], "of": "limits' worth in any one period", "is": row["times"],
                            "at_most": row["promise"], "holds": row["times"] <= row["promise"]} for row in promised])


def _accuracy(title, figures):
    charts = (_chart(figures), _edge_chart(figures))
    bounds = _bounds(figures)
    missed = [f"{bound['title']}: {bound['of']} {number(bound['is'])}" for bound in bounds if not bound["holds"]]
    text = paragraphs(
        f"{figures['requests']:,} requests on {figures['connections']} connections, as fast as they can, each round for a key"
        " that nobody has asked for; two are two proxies that are asked at once. What passed is held against what the limit"
        " allows in that time; the worst of all rounds counts. Decided"
        " without Redis is what sluice left to its own store, since Redis did not answer in time: no shared limit binds that.",
        origin(figures), shown(charts[0]), _rush_table(figures["rows"]),
        "At the edge of a window a client asks for all that is left and then for all that is new: what passed, at most, in"
        " any one period, wherever it begins.",
        shown(charts[1]), _edge_table(figures["edges"]),
        "**Missed:** " + "; ".join(missed) + "." if missed else "sluice holds every limit to the unit.")
    return Section(title, text, charts, bounds)


ACCURACY = made_of("accuracy", "Accuracy under concurrency", _accuracy)
