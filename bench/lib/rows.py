"""The rows of the table: which proxy, which limit, and how it is configured."""

import dataclasses
import hashlib
import pathlib

from stage import StageError, free_port, render

PEERS = pathlib.Path(__file__).parent.parent / "peers"
NGINX_MODULES = pathlib.Path("/usr/lib/nginx/modules")

# A limit that nothing in a run comes near, and one that a run's first request uses up.
AMPLE = 1_000_000
TINY_PER_MINUTE = 1
# Paths that a row with cold keys asks for: many more than requests can be under way.
COLD_PATHS = 10_000

PASS = "pass"
DENY = "deny"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    answers: str  # PASS: every answer is the upstream's 200; DENY: every answer is a 429
    start: object  # of a Setting and this row: gives the started Process
    uses_redis: bool = False
    n_paths: int = 1  # that the load asks for in turn
    # Bounds that sluice must not exceed:
    at_most: float = None  # of the ratio to the group's reference
    calls_at_most: float = None  # of Redis calls for a request
    sum_at_most_of: str = None  # of the CPU, proxy's and Redis's: that of the row of this name


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every row is started with."""

    stage: object
    upstream_port: int
    redis_port: int
    sluice: pathlib.Path  # the program
    cores: set  # that proxies run on; empty: any


def log_path(setting, row):
    return setting.stage.dir / f"{row.name}.log"


def _start(setting, row, argv_of_config, config, port, output=None):
    log_path(setting, row).touch()
    path = setting.stage.write(f"{row.name}.conf", config)
    return setting.stage.start(row.name, argv_of_config(path), port, output, setting.cores)


def _nginx(modules="", limits="", limit=""):
    def start(setting, row):
        port = free_port()
        names = {
            "dir": setting.stage.dir,
            "peers": PEERS,
            "redis_port": setting.redis_port,
            "script_sha1": hashlib.sha1((PEERS / "token_bucket.lua").read_bytes()).hexdigest(),
        }
        config = render(
            PEERS / "nginx.conf",
            name=row.name,
            log=log_path(setting, row),
            port=port,
            upstream_port=setting.upstream_port,
            modules=modules,
            limits=limits % names,
            limit=limit,
            **names,
        )
        error_log = setting.stage.dir / f"{row.name}.err"
        return _start(
            setting, row, lambda path: ["nginx", "-e", error_log, "-c", path], config, port
        )

    return start


def _nginx_limit_req(rate, limit):
    return _nginx(
        limits=f"limit_req_zone $binary_remote_addr zone=client:16m rate={rate};",
        limit=f"{limit}\n            limit_req_status 429;",
    )


def _nginx_lua():
    modules = "".join(
        f"load_module {NGINX_MODULES}/{name};\n"
        for name in ("ndk_http_module.so", "ngx_http_lua_module.so")
    )
    options = f"""
        local file = assert(io.open('%(peers)s/token_bucket.lua', 'rb'))
        options = {{
            host = '127.0.0.1', port = %(redis_port)d, rate = {AMPLE}, burst = {AMPLE},
            script = file:read('*a'), sha1 = '%(script_sha1)s',
        }}
        file:close()
        redis_limit = require('redis_limit')
    """
    return _nginx(
        modules=modules,
        limits=f"lua_package_path '%(peers)s/?.lua;;';\n    init_by_lua_block {{{options}    }}",
        limit="access_by_lua_block { redis_limit.check(options) }",
    )


def _haproxy(setting, row):
    port = free_port()
    config = render(
        PEERS / "haproxy.cfg",
        port=port,
        upstream_port=setting.upstream_port,
        requests_per_10s=AMPLE * 10,
    )
    argv = lambda path: ["haproxy", "-db", "-f", path]
    return _start(setting, row, argv, config, port, output=log_path(setting, row))


def _sluice(rate=None, redis=False, key="client.ip"):
    def start(setting, row):
        port = free_port()
        limits = f"limits:\n  per-key:\n    key: {key}\n    rate: {rate}\n" if rate else ""
        config = render(
            PEERS / "sluice.yaml",
            port=port,
            log=log_path(setting, row),
            upstream_port=setting.upstream_port,
            store=f"store: {{redis: 'redis://127.0.0.1:{setting.redis_port}'}}" if redis else "",
            limits=limits,
            limit="per-key" if rate else "",
        )
        return _start(setting, row, lambda path: [setting.sluice, "run", path], config, port)

    return start


AMPLE_RATE = f"{AMPLE}/s"
TINY_RATE = f"{TINY_PER_MINUTE}/minute"

# The first row of each group is the one the others' ratios are taken to.
ROWS = [
    Row("nginx-limit-req", "nginx limit_req", PASS,
        _nginx_limit_req(f"{AMPLE}r/s", f"limit_req zone=client burst={AMPLE} nodelay;")),
    Row("haproxy", "HAProxy stick table", PASS, _haproxy),
    Row("nginx-lua-redis", "nginx + Lua + Redis", PASS, _nginx_lua(), uses_redis=True),
    Row("sluice", "sluice embedded", PASS, _sluice(AMPLE_RATE), at_most=0.9),
    Row("sluice-redis", "sluice Redis, hot key", PASS, _sluice(AMPLE_RATE, redis=True),
        uses_redis=True, at_most=1.0, calls_at_most=0.1, sum_at_most_of="sluice-redis-cold"),
    Row("sluice-redis-cold", "sluice Redis, cold", PASS,
        _sluice(AMPLE_RATE, redis=True, key="path"), uses_redis=True, n_paths=COLD_PATHS),
    Row("nginx-plain", "nginx, no limit", PASS, _nginx()),
    Row("sluice-plain", "sluice, no limit", PASS, _sluice()),
    Row("nginx-429", "nginx limit_req, 429", DENY,
        _nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;")),
    Row("sluice-429", "sluice embedded, 429", DENY, _sluice(TINY_RATE), at_most=0.7),
    Row("sluice-redis-429", "sluice Redis, 429", DENY, _sluice(TINY_RATE, redis=True),
        uses_redis=True, calls_at_most=0.001),
]


def reference_of(row):
    return next(other for other in ROWS if other.answers == row.answers)


def select(names):
    """The rows named and those that they are compared with, in the table's order."""
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise StageError(f"no row is called {name}; there are: {', '.join(known)}")
    if not names:
        return ROWS
    wanted = set(names) | {reference_of(known[name]).name for name in names}
    wanted |= {known[name].sum_at_most_of for name in names}
    return [row for row in ROWS if row.name in wanted]


def is_sluice(row):
    return row.name.startswith("sluice")
