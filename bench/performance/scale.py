"""The sections of what bench/scale measured, one a topic."""

from charts import Lines, Series, footer, shown
from section import Section, not_measured, paragraphs
from words import bounds_table, number, origin, spread, table

# Heads, and the figures below them; those that are None are the ratio's spread.
COLUMNS = {
    "connections": {"idle connections>": "idle", "bytes each>": "bytes_per_idle",
                    "instructions a request>": "instructions", "proxy, µs a request>": "proxy_us",
                    "ratio>": "ratio", "(min..max)>": None, "requests/s>": "requests_per_second"},
    "keys": {"keys>": "keys", "a decision, ns>": "decision_ns", "a read of as large a table, ns>": "read_ns",
             "bytes a key>": "bytes_per_key"},
    "routes": {"routes differ in": "differ_in", "routes>": "routes", "match, ns>": "match_ns", "load, ms>": "load_ms"},
    "limits": {"store": "store", "limits>": "limits", "proxy, µs a request>": "proxy_us", "ratio>": "ratio",
               "(min..max)>": None, "Redis, µs>": "redis_us", "calls of Redis>": "redis_calls"},
    "workers": {"workers>": "workers", "cores>": "cores", "proxy, µs a request>": "proxy_us", "ratio>": "ratio",
                "(min..max)>": None, "requests/s>": "requests_per_second", "p99, ms>": "p99_ms"},
    "contention": {"store, MiB>": "memory_mib", "keys>": "keys", "threads>": "threads", "locks waited for>": "waited",
                   "when each holder is interrupted>": "waited_interrupted", "decisions/s>": "decisions_per_second"},
    "tls-connections": {"idle TLS connections>": "idle", "bytes each>": "bytes_per_idle"},
    "http2-connections": {"over": "over", "idle HTTP/2 connections>": "idle", "bytes each>": "bytes_per_idle"},
    "tls-handshakes": {"program": "program", "workers or processes>": "workers", "proxy, µs a handshake>": "proxy_us",
                       "ratio>": "ratio", "(min..max)>": None, "handshakes/s>": "requests_per_second", "p99, ms>": "p99_ms"},
}
WORDS = {
    "connections": ("Connections", "Idle keep-alive connections beside a load; bytes of each beyond what the kernel takes,"
                    " and what a request of the load costs meanwhile, to the first row's."),
    "keys": ("Keys", "Keys in the embedded store, in random order, beside what a read of one line of as large a table"
             " costs: what is left of the growth is the processor's caches."),
    "routes": ("Routes", "The compiled matcher, and the policy as it is loaded, with one kind of difference between the"
               " routes at a time."),
    "limits": ("Limits of a request", "All of them one decision; ratio of the proxy's CPU to that with the fewest."),
    "workers": ("Workers", "All on one hot key in the embedded store. With as many workers as cores, the load and the upstream"
                " have no core to themselves: the CPU of a request says more than the requests."),
    "contention": ("Threads in one store", "Threads that decide in one embedded store without a proxy around them: part of"
                   " the locks that had to be waited for, as they run, and when every holder is interrupted while it"
                   " holds one, which is what many more cores than these would be like."),
    "tls-connections": ("Idle TLS connections", "Each has asked once, and waits; bytes beyond what the kernel takes."),
    "http2-connections": ("Idle HTTP/2 connections", "Each has asked 20 times at once, and waits; bytes beyond what the"
                          " kernel takes."),
    "tls-handshakes": ("Handshakes and workers", "A TLS connection a request, with a full handshake (ECDSA on P-256) and a 429;"
                       " ratio of the proxy's CPU to that with one. The processes of nginx share nothing: what a second one costs"
                       " there is the price of the machine, on whose processors the load runs too."),
}
SHARES = ("waited", "waited_interrupted")
WHOLE = ("idle", "keys", "routes", "limits", "workers", "cores", "threads", "memory_mib")


def _cell(row, figure):
    if figure is None:
        return spread(row["ratio_min"], row["ratio_max"])
    value = row.get(figure)
    if isinstance(value, str) or value is None:
        return value or "–"
    if figure in SHARES:
        return f"{100 * value:.2f} %"
    if figure == "ratio":
        return f"{value:.2f}"
    return f"{value:,}" if figure in WHOLE else number(value)


def _series(rows, by, x, y):
    """One a value of @by, in the order in which they come."""
    labels = list(dict.fromkeys(row[by] for row in rows))
    return [Series(str(label), [(row[x], row[y]) for row in rows if row[by] == label]) for label in labels]


def _connections_chart(rows, foot):
    points = [(row["idle"], row["proxy_us"]) for row in rows]
    return Lines("scale-connections", "CPU of a request beside idle connections", "idle connections", "µs a request",
                 [Series("proxy", points)], foot)


def _keys_chart(rows, foot):
    series = [Series("decision", [(row["keys"], row["decision_ns"]) for row in rows]),
              Series("a read of as large a table", [(row["keys"], row["read_ns"]) for row in rows])]
    return Lines("scale-keys", "A decision in the embedded store, by the keys in it", "keys", "ns", series, foot)


def _routes_chart(rows, foot):
    return Lines("scale-routes", "To find a request's route", "routes", "ns",
                 _series(rows, "differ_in", "routes", "match_ns"), foot)


def _limits_chart(rows, foot):
    return Lines("scale-limits", "CPU of the proxy, by the limits of a request", "limits a request", "µs a request",
                 _series(rows, "store", "limits", "proxy_us"), foot, by_decades=False)


CHARTS = {"connections": _connections_chart, "keys": _keys_chart, "routes": _routes_chart, "limits": _limits_chart}


def _topic(name, figures):
    title, words = WORDS[name]
    measured = figures["topics"][name]
    here = figures | {key: measured[key] for key in ("at", "command", "machine", "busy") if key in measured}
    rows = measured["rows"]
    charts = (CHARTS[name](rows, footer(here)),) if name in CHARTS else ()
    bounds = tuple({"title": ""} | bound for bound in measured["bounds"])
    lines = [[_cell(row, figure) for figure in COLUMNS[name].values()] for row in rows]
    text = paragraphs(words, origin(here), *(shown(chart) for chart in charts), table(list(COLUMNS[name]), lines),
                      bounds_table(bounds) if bounds else "")
    return Section(title, text, charts, bounds)


def sections(data):
    """All topics, in the order of the table above."""
    if "scale" not in data:
        return [not_measured("scale", "Scale")]
    return [_topic(name, data["scale"]) if name in data["scale"]["topics"] else not_measured("scale", WORDS[name][0])
            for name in COLUMNS]
