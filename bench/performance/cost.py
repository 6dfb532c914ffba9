"""Sections of what bench/run, bench/calls and bench/budget measured: what a request costs."""

from charts import OURS, Bar, Bars, footer, kind_of, shown
from section import Section, bounds_of, made_of, not_measured, paragraphs
from words import bounds_table, number, origin, spread, table

MIB = 1 << 20
BARE_GROUPS = ("bare", "bare-deny")
TLS_GROUPS = {"tls": "Kept connections", "http2": "HTTP/2", "http2-deny": "HTTP/2, denied",
              "tls-full": "Full handshakes", "tls-resumed": "Resumed connections",
              "tls-down": "Long responses"}
BODIES = ("down-64k", "down-10m", "up-64k", "up-10m")


def in_group(figures, *groups):
    return [row for row in figures["rows"] if row["group"] in groups]


def _redis(row, figure):
    return number(row[figure]) if row["uses_redis"] else ""


def _earlier(row):
    """The least and the greatest ratio of earlier runs."""
    ratios = [run["ratio"] for run in row.get("earlier", [])]
    return spread(min(ratios), max(ratios)) if ratios else ""


def _cost_table(rows):
    heads = ["", "proxy, µs>", "Redis, µs>", "calls of Redis>", "ratio>", "(min..max)>", "earlier runs>", "requests/s>",
             "p99, ms>"]
    return table(heads, [[
        row["title"], number(row["proxy_us"]), _redis(row, "redis_us"), _redis(row, "redis_calls"),
        f"{row['ratio']:.2f}", spread(row["ratio_min"], row["ratio_max"]), _earlier(row),
        number(row["requests_per_second"]), number(row["p99_ms"])] for row in rows])


def _ratios(name, title, rows, figures):
    bars = [Bar(row["title"], row["ratio"], kind_of(row["name"]), row["ratio_min"], row["ratio_max"])
            for row in rows]
    return Bars(name, title, f"CPU of the proxy for a request; {rows[0]['title']} = 1", bars, footer(figures),
                mark=1, mark_label=rows[0]["title"])


def _load(figures):
    return (f"{figures['connections']} connections kept alive, {figures['seconds']} s a row and round,"
            " one worker or thread each, the same log line and forwarding fields.")


def _mixed(title, figures):
    rows = in_group(figures, "mixed") + [row for row in in_group(figures, "deny") if row["uses_redis"]]
    bars = [Bar(row["title"], row["requests_per_second"] - row["denied_per_second"], kind_of(row["name"]),
                row["requests_per_second_min"], row["requests_per_second_max"], row["denied_per_second"])
            for row in rows]
    chart = Bars("redis-and-denials", "Requests a second with Redis deciding, some or all denied",
                 "requests a second, (min..max) over the rounds", bars, footer(figures), ("admitted", "denied"))
    lines = [[row["title"], number(row["requests_per_second"]), number(row["denied_per_second"]),
              number(row["proxy_us"]), number(row["redis_us"]), number(row["redis_calls"]), number(row["p99_ms"])]
             for row in rows]
    bounds = bounds_of(in_group(figures, "mixed"))
    heads = ["", "requests/s>", "of them denied/s>", "proxy, µs>", "Redis, µs>", "calls of Redis>", "p99, ms>"]
    text = paragraphs(
        "Ten thousand keys, asked for in turn, half of which have spent what they have for an hour, just before they"
        " are asked for: every second request is a 429, and every decision is Redis's, but for what the denial cache"
        " answers. The row of 429s is one client that is denied each time. Load generator, upstream and Redis share the"
        " machine with the proxy, so that requests a second are bounded by all of them together; the CPU beside them is"
        " the proxy's own.",
        origin(figures), shown(chart), table(heads, lines), bounds_table(bounds))
    return Section(title, text, (chart,), bounds)


def _proxied(title, figures):
    rows = in_group(figures, "pass")
    ratios = _ratios("cpu-ratio", "CPU of a proxied request, compared", rows, figures)
    bars = [Bar(row["title"], row["proxy_us"], kind_of(row["name"]), more=row["redis_us"]) for row in rows]
    both = Bars("cpu-with-redis", "CPU of a proxied request, Redis's included", "µs of CPU a request", bars,
                footer(figures), ("proxy", "Redis"))
    bounds = bounds_of(rows)
    text = paragraphs(
        "The ratio is the figure to read: it is taken within a round, where both sides met the same minute, while"
        " microseconds move with the machine. It leaves Redis out, which nginx's `limit_req` does without: what Redis"
        " spends stands beside it. " + _load(figures), origin(figures), shown(ratios), shown(both),
        _cost_table(rows), bounds_table(bounds))
    return Section(title, text, (ratios, both), bounds)


def _denied(title, figures):
    rows = in_group(figures, "deny")
    chart = _ratios("denied-ratio", "CPU of a denied request, compared", rows, figures)
    bounds = bounds_of(rows)
    text = paragraphs("Each request is answered with 429 by the proxy.", origin(figures), shown(chart),
                      _cost_table(rows), bounds_table(bounds))
    return Section(title, text, (chart,), bounds)


def _bare(title, figures):
    rows = in_group(figures, *BARE_GROUPS)
    chart = _ratios("floor-ratio", "CPU of a request, to the floor", rows, figures)
    bounds = bounds_of(rows)
    text = paragraphs(
        "The floor is one epoll loop that makes the system calls of a proxied request and nothing else: recv, send, recv,"
        " send; for a denial recv, send. It reads no HTTP. Ratios to it carry over to other processors better than those to"
        " nginx. All rows write no log, and add no forwarding fields (sluice always sends `X-Request-ID` and `Via`).",
        origin(figures), shown(chart), _cost_table(rows), bounds_table(bounds))
    return Section(title, text, (chart,), bounds)


def _tls(title, figures):
    groups = {name: in_group(figures, name) for name in TLS_GROUPS}
    charts = tuple(_ratios(f"{name}-ratio", f"{heading}, CPU of the proxy compared", groups[name], figures)
                   for name, heading in TLS_GROUPS.items() if groups[name])
    parts = [part for name, heading in TLS_GROUPS.items() if groups[name]
             for part in (f"**{heading}**", _cost_table(groups[name]))]
    bounds = bounds_of(in_group(figures, *TLS_GROUPS))
    text = paragraphs(
        "TLS 1.3 with AES-128-GCM and a certificate of ECDSA on P-256. The floor is the epoll loop above with the same OpenSSL:"
        " recv, SSL_read, SSL_write, send. Rows of handshakes have a connection a request, which is answered with 429 by the"
        " proxy; they and the kept connections are without a log and forwarding fields. Downloads are as those of the bodies.",
        origin(figures), *(shown(chart) for chart in charts), *parts, bounds_table(bounds))
    return Section(title, text, charts, bounds)


def _bodies(title, figures):
    rows = in_group(figures, *BODIES)
    chart = _ratios("bodies-ratio", "CPU a byte of body, compared", rows, figures)
    chart = Bars(chart.name, chart.title, "CPU of the proxy a byte; nginx = 1", chart.bars, chart.footer, mark=1,
                 mark_label="nginx")
    lines = [[row["title"], number(row["proxy_us"] / (row["body"] / MIB)), f"{row['ratio']:.2f}",
              spread(row["ratio_min"], row["ratio_max"]),
              number(row["requests_per_second"] * row["body"] / MIB)] for row in rows]
    bounds = bounds_of(rows)
    text = paragraphs(
        "Responses and uploads that stream through, each behind the limit of the rows above. nginx has larger buffers"
        " than its defaults, passes uploads on as they come and writes nothing to a disk: what whoever"
        " streams bodies sets ([bench/README.md](../bench/README.md#what-is-the-same-for-all)).",
        origin(figures), shown(chart),
        table(["", "proxy, µs a MiB>", "ratio>", "(min..max)>", "MiB/s>"], lines), bounds_table(bounds))
    return Section(title, text, (chart,), bounds)


def _calls(title, figures):
    rows = [row for row in figures["rows"] if row["group"] in ("pass", "deny", "mixed", *BARE_GROUPS)]
    bars = [Bar(row["title"], row["calls"], kind_of(row["name"]), more=row["waits"]) for row in rows]
    chart = Bars("system-calls", "System calls a request", "system calls a request", bars, footer(figures),
                 ("calls", "waits for events"))
    lines = [[row["title"], f"{row['calls']:.2f}", f"{row['waits']:.2f}",
              *(f"{row['allocations'][name]:.2f}" for name in ("program", "hiredis", "libevent", "others"))]
             for row in figures["rows"]]
    text = paragraphs(
        "Counted, not timed: under strace, and with a library before the program that counts `malloc` and the like by"
        " who calls. A busy proxy waits once for many requests, and sends what a turn of its loop has for Redis at once;"
        " that is why parts of a call are left. What connections take when the load starts is counted too.",
        origin(figures), shown(chart),
        table(["", "system calls>", "waits>", "allocations: program>", "hiredis>", "libevent>", "others>"], lines))
    return Section(title, text, (chart,))


def _budget(title, figures):
    lines = [[f"`{row['path']}`", number(round(row["instructions"])), number(row["budget"]),
              "" if row["change"] is None else f"{row['change']:+.1%}", "holds" if row["holds"] else "**exceeded**"]
             for row in figures["rows"]]
    chart = Bars("instructions", "Instructions a request, in user space", "instructions a request",
                 [Bar(row["path"], row["instructions"], OURS) for row in figures["rows"]], footer(figures))
    built = figures["built_with"]
    text = paragraphs(
        "Of one request that goes through the loop by itself, in user space, libraries included, under"
        f" callgrind (gcc {built['gcc']}, glibc {built['glibc']}). The tests hold them to a budget, without a clock"
        " ([what the paths are](../bench/README.md#benchbudget)).",
        origin(figures), shown(chart), table(["path", "instructions>", "budget>", "change>", ""], lines))
    bounds = tuple({"title": row["path"], "of": "change against the budget", "is": row["change"] or 0,
                    "at_most": 0.05, "holds": row["holds"]} for row in figures["rows"])
    return Section(title, text, (chart,), bounds)


def _where_measured(make, *groups):
    """@make, or word that a run without these groups of rows has not measured it."""
    return lambda title, figures: make(title, figures) if in_group(figures, *groups) else \
        not_measured("run", title)


MIXED = made_of("run", "Redis in the path, and denials happening", _where_measured(_mixed, "mixed"))
PROXIED = made_of("run", "CPU of a proxied request", _where_measured(_proxied, "pass"))
DENIED = made_of("run", "CPU of a denied request", _where_measured(_denied, "deny"))
BARE = made_of("run", "Distance to the floor", _where_measured(_bare, *BARE_GROUPS))
TLS = made_of("run", "TLS", _where_measured(_tls, *TLS_GROUPS))
BODY = made_of("run", "Bodies", _where_measured(_bodies, *BODIES))
CALLS = made_of("calls", "System calls and allocations", _calls)
BUDGET = made_of("budget", "Instructions", _budget)
