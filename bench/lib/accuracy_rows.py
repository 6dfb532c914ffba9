"""The rows of bench/accuracy: the same limit in each proxy and algorithm, as near as each comes to it."""

import dataclasses

from proxies import haproxy, nginx_limit_req, nginx_lua, sluice
from stage import free_port

HOUR_S = 3600
WORKERS = 4

# The limit of the rush: nearly nothing comes back while it lasts.
LIMIT = 1000
REFILL_A_MINUTE = 1
# The limit of the edge: as many in a period as can be asked for in a small part of it.
EDGE_LIMIT = 250
EDGE_S = 1

# What a limit allows over a time.
BUCKET = "bucket"  # the burst, and what is refilled meanwhile
CLOCK = "clock"  # as many again at each full hour
SLIDING = "sliding"  # as many in any hour


@dataclasses.dataclass(frozen=True)
class AccuracyRow:
    name: str
    title: str
    kind: str  # BUCKET, CLOCK or SLIDING
    starts: tuple  # one a proxy, all of which are asked at once: each as of a Row
    promise: float = None  # of the edge: how many limits' worth may pass in any period; None: not said


BUCKET_WORDS = f"burst: {LIMIT}, rate: {REFILL_A_MINUTE}/minute"
WINDOW_WORDS = f"rate: {LIMIT}/hour"
RUSH = (  # algorithm, kind, parameters
    ("token_bucket", BUCKET, BUCKET_WORDS),
    ("leaky_bucket", BUCKET, BUCKET_WORDS),
    ("gcra", BUCKET, BUCKET_WORDS),
    ("fixed_window", CLOCK, WINDOW_WORDS),
    ("sliding_window", SLIDING, f"{WINDOW_WORDS}, strict: true"),
    ("sliding_log", SLIDING, WINDOW_WORDS),
)
EDGE_WORDS = f"rate: {EDGE_LIMIT}/{EDGE_S}s"
EDGES = (  # name, title, promise, algorithm and parameters
    ("token-bucket", "token_bucket", 2, "algorithm: token_bucket"),
    ("fixed-window", "fixed_window", 2, "algorithm: fixed_window"),
    ("sliding-window", "sliding_window", 2, "algorithm: sliding_window"),
    ("sliding-window-strict", "sliding_window, strict", 1, "algorithm: sliding_window, strict: true"),
    ("sliding-log", "sliding_log", 1, "algorithm: sliding_log"),
)


def _pair_of_haproxies():
    peers = {"a": free_port(), "b": free_port()}
    return tuple(haproxy(LIMIT, "1h", ("string len 64", "path"), "2h", peers=(name, peers))
                 for name in peers)


def _nginx(workers):
    return nginx_limit_req(f"{REFILL_A_MINUTE}r/m", f"limit_req zone=client burst={LIMIT - 1} nodelay;",
                           key="$uri", workers=workers)


def _haproxy(threads):
    return haproxy(LIMIT, "1h", ("string len 64", "path"), "2h", threads)


def _lua():
    return nginx_lua(f"{REFILL_A_MINUTE} / 60", key="uri", burst=LIMIT)


def _sluice(algorithm, words, **given):
    return sluice(f"key: path, algorithm: {algorithm}, {words}", **given)


def rush_rows():
    """Many connections ask for far more than the limit, as fast as they can."""
    token_bucket = "token_bucket", BUCKET_WORDS
    return [
        AccuracyRow("nginx", "nginx limit_req", BUCKET, (_nginx(1),)),
        AccuracyRow("nginx-4", "nginx limit_req, 4 workers", BUCKET, (_nginx(WORKERS),)),
        AccuracyRow("haproxy", "HAProxy stick table", SLIDING, (_haproxy(1),)),
        AccuracyRow("haproxy-4", "HAProxy, 4 threads", SLIDING, (_haproxy(WORKERS),)),
        AccuracyRow("haproxy-two", "HAProxy, two as peers", SLIDING, _pair_of_haproxies()),
        AccuracyRow("lua", "nginx + Lua + Redis", BUCKET, (_lua(),)),
        AccuracyRow("lua-two", "nginx + Lua + Redis, two", BUCKET, (_lua(), _lua())),
        AccuracyRow("sluice", "sluice token_bucket", BUCKET, (_sluice(*token_bucket),)),
        *(AccuracyRow(f"sluice-4-{algorithm}", f"sluice {algorithm}, 4 workers", kind,
                      (_sluice(algorithm, words, workers=WORKERS),))
          for algorithm, kind, words in RUSH),
        AccuracyRow("sluice-redis", "sluice Redis, token_bucket", BUCKET,
                    (_sluice(*token_bucket, redis=True),)),
        *(AccuracyRow(f"sluice-redis-two-{algorithm}", f"sluice Redis, two, {algorithm}", kind,
                      (_sluice(algorithm, words, redis=True),) * 2)
          for algorithm, kind, words in RUSH),
    ]


def edge_rows():
    """All is asked for at the end of a window, and then more, through the next one."""
    nginx = nginx_limit_req(f"{EDGE_LIMIT // EDGE_S}r/s",
                            f"limit_req zone=client burst={EDGE_LIMIT - 1} nodelay;", key="$uri")
    return [
        AccuracyRow("edge-nginx", "nginx limit_req", BUCKET, (nginx,)),
        AccuracyRow("edge-haproxy", f"HAProxy http_req_rate({EDGE_S}s)", SLIDING,
                    (haproxy(EDGE_LIMIT, f"{EDGE_S}s", ("string len 64", "path")),)),
        AccuracyRow("edge-lua", "nginx + Lua + Redis", BUCKET,
                    (nginx_lua(EDGE_LIMIT // EDGE_S, key="uri", burst=EDGE_LIMIT),)),
        *(AccuracyRow(f"edge-sluice-{name}", f"sluice {title}", SLIDING,
                      (sluice(f"key: path, {words}, {EDGE_WORDS}"),), promise)
          for name, title, promise, words in EDGES),
    ]
