"""The rows of the table: which proxy, which limits, what it is asked for, and what must hold."""

import dataclasses

from proxies import STREAMING, floor, haproxy, nginx, nginx_limit_req, nginx_lua, sluice
from stage import StageError

# A limit that nothing in a run comes near, and one that a run's first request uses up.
AMPLE = 1_000_000
TINY_PER_MINUTE = 1
TINY_PER_HOUR = 1  # what is spent stays spent, however long a run is
# Paths that a row with cold keys asks for: many more than requests can be under way.
COLD_PATHS = 10_000
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclasses.dataclass(frozen=True)
class Load:
    """What a row is asked for."""

    path: str = "/items/1"
    n_paths: int = 1  # below it, asked for in turn
    spent: str = ""  # every second request asks below this path instead, and is denied
    download: int = 0  # bytes of the answer's body, where they are what is measured
    upload: int = 0  # bytes of the request's body
    connections: int = None  # None: as many as the run has
    part: float = 1  # of the seconds that a row has
    is_secure: bool = False  # over TLS
    streams: int = 0  # at a time on a connection, by HTTP/2; 0: by HTTP/1.1
    handshake: str = None  # a connection a request: "full" or "resumed"

    @property
    def spent_paths(self):
        """As wrk_report.lua asks for them."""
        return [f"{self.spent}/{number}" for number in range(2, self.n_paths + 1, 2)] if self.spent else []


@dataclasses.dataclass(frozen=True)
class Bound:
    """What sluice must not exceed: the figure, or its ratio to that of the row @of in the same round."""

    figure: str
    at_most: float
    of: str = None


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    group: str  # of GROUPS
    start: object  # of a Setting and this row: gives the started Process
    load: Load = Load()
    calls_at_least: float = None  # of Redis for a request; None: it is not asked
    n_limits: int = None  # that its answers must tell of; None: they tell of none
    bounds: tuple = ()

    @property
    def uses_redis(self):
        return self.calls_at_least is not None


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows that do the same; the first of them is the one that the others' ratios are taken to."""

    heading: str
    denied: float = 0  # part of the requests that is denied
    is_bare: bool = False  # without a log and forwarding fields


GROUPS = {
    "pass": Group("Proxied requests (200 from the upstream); ratio to nginx limit_req"),
    "deny": Group("Denied requests (429 from the proxy); ratio to nginx limit_req, 429", denied=1),
    "bare": Group("Proxied requests without a log and forwarding fields; ratio to the floor", is_bare=True),
    "bare-deny": Group("Denied requests without a log; ratio to the floor", denied=1, is_bare=True),
    "tls": Group("Proxied requests over kept TLS connections, without a log and forwarding fields; ratio to the floor",
                 is_bare=True),
    "http2": Group("Proxied requests by HTTP/2 over kept TLS connections, 10 at a time on each, without a log and"
                   " forwarding fields; ratio to the floor", is_bare=True),
    "http2-deny": Group("Denied requests by HTTP/2, likewise; ratio to the floor", denied=1, is_bare=True),
    "tls-full": Group("A TLS connection a request, denied, without a log; ratio to the floor", denied=1, is_bare=True),
    "tls-resumed": Group("A resumed TLS connection a request, denied, without a log; ratio to the floor", denied=1,
                         is_bare=True),
    "tls-down": Group("One response of 1 GiB over TLS, again and again; ratio to nginx limit_req"),
    "mixed": Group("Redis in the path, every second request denied, 10,000 keys; ratio to"
                   " nginx + Lua + Redis", denied=0.5),
    "down-64k": Group("Responses of 64 KiB; ratio to nginx limit_req"),
    "down-10m": Group("Responses of 10 MiB; ratio to nginx limit_req"),
    "up-64k": Group("Uploads of 64 KiB; ratio to nginx limit_req"),
    "up-10m": Group("Uploads of 10 MiB; ratio to nginx limit_req"),
}

AMPLE_REQ = (f"{AMPLE}r/s", f"limit_req zone=client burst={AMPLE} nodelay;")
PER_CLIENT = f"key: client.ip, rate: {AMPLE}/s"
PER_PATH = f"key: path, rate: {AMPLE}/s"
TINY = f"key: client.ip, rate: {TINY_PER_MINUTE}/minute"
TINY_PER_PATH = f"key: path, rate: {TINY_PER_HOUR}/hour"
# Not all of one client, and one of them a key that every request has.
THREE = (PER_CLIENT,
         f"key: path, rate: {AMPLE}/s, algorithm: sliding_window",
         f"key: global, rate: {AMPLE}/s, algorithm: fixed_window")
COLD = Load(n_paths=COLD_PATHS)
MIXED = Load(n_paths=COLD_PATHS, spent="/spent")
LONG_HTTP2 = "max: {requests_per_connection: 1000000000}"  # as the others' connections
ONE_EACH = 0.9  # of Redis calls for a request, where no two requests may share one


SECURE = Load(is_secure=True)
HTTP2 = Load(is_secure=True, streams=10, connections=8)
FULL, RESUMED = (Load(is_secure=True, handshake=kind, connections=4) for kind in ("full", "resumed"))
SECURE_DOWN = Load("/bodies/1g", download=GIB, connections=1, part=2, is_secure=True)


def _ratio(at_most, of):
    return Bound("proxy_us", at_most, of)


def _body_rows(group, title, load):
    reference = f"nginx-{group}"
    return [
        Row(reference, f"nginx, {title}", group, nginx_limit_req(*AMPLE_REQ, STREAMING), load),
        Row(f"sluice-{group}", f"sluice, {title}", group, sluice(PER_CLIENT), load, n_limits=1,
            bounds=(_ratio(1, reference),)),
    ]


def _handshake_rows(group, title, load, at_most_of_floor=None):
    names = [f"{name}-{group}" for name in ("floor", "nginx", "haproxy")]
    bounds = [_ratio(1, name) for name in names[1:]]
    bounds += [_ratio(at_most_of_floor, names[0])] if at_most_of_floor else []
    return [
        Row(names[0], f"the floor, {title}", group, floor(is_denied=True), load),
        Row(names[1], f"nginx, {title}", group,
            nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;", is_bare=True), load),
        Row(names[2], f"HAProxy, {title}", group, haproxy(0, is_bare=True), load),
        Row(f"sluice-{group}", f"sluice, {title}", group, sluice(TINY, is_bare=True), load, n_limits=1,
            bounds=tuple(bounds)),
    ]


def _http2_rows(group, title, of_nginx, of_haproxy, of_sluice, ours=None):
    """@ours: the row of ours that does the same by HTTP/1.1."""
    bounds = [_ratio(1.25, f"floor-{group}"), _ratio(1, f"nginx-{group}"), _ratio(1, f"haproxy-{group}")]
    return [
        Row(f"floor-{group}", f"the floor, {title}", group, floor(is_denied=bool(GROUPS[group].denied)), HTTP2),
        Row(f"nginx-{group}", f"nginx, {title}", group, of_nginx, HTTP2),
        Row(f"haproxy-{group}", f"HAProxy, {title}", group, of_haproxy, HTTP2),
        Row(f"sluice-{group}", f"sluice, {title}", group, of_sluice, HTTP2, n_limits=1,
            bounds=tuple(bounds + ([_ratio(1, ours)] if ours else []))),
    ]


ROWS = [
    Row("nginx-limit-req", "nginx limit_req", "pass", nginx_limit_req(*AMPLE_REQ)),
    Row("haproxy", "HAProxy stick table", "pass", haproxy(AMPLE * 10)),
    Row("nginx-lua-redis", "nginx + Lua + Redis, hot", "pass", nginx_lua(AMPLE),
        calls_at_least=ONE_EACH),
    Row("nginx-lua-redis-cold", "nginx + Lua + Redis, cold", "pass", nginx_lua(AMPLE, key="uri"),
        COLD, calls_at_least=ONE_EACH),
    Row("sluice", "sluice embedded", "pass", sluice(PER_CLIENT), n_limits=1,
        bounds=(_ratio(0.75, "nginx-limit-req"),)),
    Row("sluice-redis", "sluice Redis, hot key", "pass", sluice(PER_CLIENT, redis=True),
        calls_at_least=0.001, n_limits=1,
        bounds=(_ratio(0.85, "nginx-limit-req"), Bound("redis_calls", 0.1),
                Bound("sum_us", 1, "sluice-redis-cold"), _ratio(0.35, "nginx-lua-redis"))),
    Row("sluice-redis-cold", "sluice Redis, cold", "pass", sluice(PER_PATH, redis=True), COLD,
        calls_at_least=ONE_EACH, n_limits=1,
        bounds=(_ratio(0.85, "nginx-limit-req"), _ratio(0.35, "nginx-lua-redis-cold"))),
    Row("sluice-redis-three", "sluice Redis, 3 limits", "pass", sluice(*THREE, redis=True), COLD,
        calls_at_least=ONE_EACH, n_limits=3, bounds=(_ratio(0.95, "nginx-limit-req"),)),
    Row("nginx-plain", "nginx, no limit", "pass", nginx()),
    Row("sluice-plain", "sluice, no limit", "pass", sluice()),
    Row("nginx-429", "nginx limit_req, 429", "deny",
        nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;")),
    Row("sluice-429", "sluice embedded, 429", "deny", sluice(TINY), n_limits=1,
        bounds=(_ratio(0.7, "nginx-429"),)),
    Row("sluice-redis-429", "sluice Redis, 429", "deny", sluice(TINY, redis=True),
        calls_at_least=0, n_limits=1,
        bounds=(_ratio(0.55, "nginx-429"), Bound("redis_calls", 0.001))),
    Row("floor", "the floor", "bare", floor()),
    Row("nginx-bare", "nginx limit_req, bare", "bare", nginx_limit_req(*AMPLE_REQ, is_bare=True)),
    Row("sluice-bare", "sluice embedded, bare", "bare", sluice(PER_CLIENT, is_bare=True), n_limits=1,
        bounds=(_ratio(1.15, "floor"),)),
    Row("sluice-redis-bare", "sluice Redis, hot, bare", "bare", sluice(PER_CLIENT, redis=True, is_bare=True),
        calls_at_least=0.001, n_limits=1, bounds=(_ratio(1.2, "floor"),)),
    Row("floor-429", "the floor, 429", "bare-deny", floor(is_denied=True)),
    Row("nginx-bare-429", "nginx 429, bare", "bare-deny",
        nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;", is_bare=True)),
    Row("sluice-bare-429", "sluice 429, bare", "bare-deny", sluice(TINY, is_bare=True), n_limits=1,
        bounds=(_ratio(1.2, "floor-429"),)),
    Row("floor-tls", "the floor, TLS", "tls", floor(), SECURE),
    Row("nginx-tls", "nginx limit_req, TLS", "tls", nginx_limit_req(*AMPLE_REQ, is_bare=True), SECURE),
    Row("haproxy-tls", "HAProxy stick table, TLS", "tls", haproxy(AMPLE * 10, is_bare=True), SECURE),
    Row("sluice-tls", "sluice embedded, TLS", "tls", sluice(PER_CLIENT, is_bare=True), SECURE, n_limits=1,
        bounds=(_ratio(1.15, "floor-tls"), _ratio(1, "nginx-tls"), _ratio(1, "haproxy-tls"))),
    *_http2_rows("http2", "HTTP/2", nginx_limit_req(*AMPLE_REQ, is_bare=True), haproxy(AMPLE * 10, is_bare=True),
                 sluice(PER_CLIENT, is_bare=True, settings=LONG_HTTP2), "sluice-tls"),
    *_http2_rows("http2-deny", "HTTP/2, 429", nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;",
                 is_bare=True), haproxy(0, is_bare=True), sluice(TINY, is_bare=True, settings=LONG_HTTP2)),
    *_handshake_rows("tls-full", "full handshake", FULL, 1.05),
    *_handshake_rows("tls-resumed", "resumed", RESUMED),
    Row("nginx-tls-down", "nginx, 1 GiB, TLS", "tls-down", nginx_limit_req(*AMPLE_REQ, STREAMING), SECURE_DOWN),
    Row("haproxy-tls-down", "HAProxy, 1 GiB, TLS", "tls-down", haproxy(AMPLE * 10), SECURE_DOWN),
    Row("sluice-tls-down", "sluice, 1 GiB, TLS", "tls-down", sluice(PER_CLIENT), SECURE_DOWN, n_limits=1,
        bounds=(_ratio(1.1, "nginx-tls-down"), _ratio(1.1, "haproxy-tls-down"))),
    Row("nginx-lua-redis-mixed", "nginx + Lua, half denied", "mixed",
        nginx_lua(AMPLE, key="uri", spent_per_hour=TINY_PER_HOUR), MIXED,
        calls_at_least=ONE_EACH),
    Row("sluice-redis-mixed", "sluice Redis, half denied", "mixed",
        sluice(PER_PATH, redis=True, spent=TINY_PER_PATH), MIXED, calls_at_least=0.4, n_limits=1,
        bounds=(_ratio(0.35, "nginx-lua-redis-mixed"),)),
    *_body_rows("down-64k", "64 KiB down",
                Load("/bodies/64k", download=64 * KIB, connections=16, part=0.5)),
    *_body_rows("down-10m", "10 MiB down",
                Load("/bodies/10m", download=10 * MIB, connections=8, part=0.5)),
    *_body_rows("up-64k", "64 KiB up",
                Load("/uploads/64k", upload=64 * KIB, connections=16, part=0.5)),
    *_body_rows("up-10m", "10 MiB up",
                Load("/uploads/10m", upload=10 * MIB, connections=4, part=0.5)),
]


def reference_of(row):
    return next(other for other in ROWS if other.group == row.group)


def select(names):
    """The rows named and those that they are compared with, in the table's order."""
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise StageError(f"no row is called {name}; there are: {', '.join(known)}")
    if not names:
        return ROWS
    wanted, found = set(), set(names)
    while found:  # what a row is compared with may be compared with others in turn
        wanted |= found
        found = {bound.of for name in found for bound in known[name].bounds if bound.of}
        found = (found | {reference_of(known[name]).name for name in wanted}) - wanted
    return [row for row in ROWS if row.name in wanted]


def is_sluice(row):
    return row.name.startswith("sluice")


def is_floor(row):
    return row.name.startswith("floor")
