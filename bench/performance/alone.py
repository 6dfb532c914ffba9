"""Sections of what needs no peer: decisions of each algorithm, bytes a key, scrapes."""

from charts import OURS, Bar, Bars, footer, shown
from section import Section, made_of, paragraphs
from words import number, origin, table


def _judged(title, of, value, at_most):
    return {"title": title, "of": of, "is": value, "at_most": at_most, "holds": value <= at_most}


def _decision_rows(rows):
    """A dict an algorithm and number of limits: decisions a second by store and number of keys."""
    found = {}
    for row in rows:
        of = found.setdefault((row["algorithm"], row["limits"]), {})
        of[f"{row['store']} {row['keys']}"] = row["decisions_per_second"]
        if row["store"] == "redis":
            of |= {"calls": row["calls_per_decision"], "bytes": row["bytes_per_key"]}
    return found


def _decisions(title, figures):
    rows = _decision_rows(figures["rows"])
    stores = list(dict.fromkeys(f"{row['store']} {row['keys']}" for row in figures["rows"]))
    one_redis = [Bar(algorithm, of["redis 1000"], OURS) for (algorithm, limits), of in rows.items()
                 if limits == 1 and "redis 1000" in of]
    charts = ()
    if one_redis:
        charts = (Bars("decisions-redis", "Decisions a second of one core of Redis, one limit", "decisions a second",
                       one_redis, footer(figures)),)
    heads = ["algorithm", "limits>", *(f"{store.split()[0]}, {int(store.split()[1]):,} keys>" for store in stores),
             "scripts a decision>"]
    lines = [[algorithm, limits, *(number(of.get(store)) for store in stores), number(of.get("calls"))]
             for (algorithm, limits), of in rows.items()]
    text = paragraphs("Decisions a second of CPU time, of a thread with the embedded store and of Redis, without a proxy"
                      " around them ([how](../bench/README.md#benchdecisions)).", origin(figures),
                      *(shown(chart) for chart in charts), table(heads, lines))
    return Section(title, text, charts)


def _bytes(title, figures):
    lines = [[row["algorithm"], row["requests"], f"{row['clients']:,}", number(row["bytes"]), number(row["grown"])]
             for row in figures["rows"]]
    text = paragraphs("What a client's key takes in Redis, after so many requests: `MEMORY USAGE`, and what Redis grew by,"
                      " its tables included.", origin(figures),
                      table(["algorithm", "requests each>", "clients>", "bytes a key>", "grown by>"], lines))
    return Section(title, text)


def _scrape(title, figures):
    lines = [[f"{row['routes']:,}", number(row["page"]), number(row["ms"]), number(row["admin_us"]),
              number(row["workers_us"])] for row in figures["rows"]]
    bounds = tuple(_judged(f"{row['routes']:,} routes", "µs of the workers' CPU a scrape", row["workers_us"],
                           figures["workers_us_at_most"]) for row in figures["rows"])
    text = paragraphs("A scrape of `/metrics` is the admin thread's work; the workers should not notice.", origin(figures),
                      table(["routes>", "bytes of the page>", "ms>", "admin's thread, µs>", "all others, µs>"], lines))
    return Section(title, text, (), bounds)


DECISIONS = made_of("decisions", "Decisions without a proxy", _decisions)
BYTES = made_of("bytes-per-key", "Bytes a key in Redis", _bytes)
SCRAPE = made_of("scrape", "Scrapes", _scrape)
