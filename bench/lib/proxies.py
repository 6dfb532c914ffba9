"""The proxies that rows are made of: each function gives what starts one, for a Setting and a row."""

import dataclasses
import hashlib
import pathlib

from stage import free_port, render

PEERS = pathlib.Path(__file__).parent.parent / "peers"
NGINX_MODULES = pathlib.Path("/usr/lib/nginx/modules")
INDENT = "\n            "

# What a careful operator sets where bodies stream: nginx's own defaults move 4 KiB a piece, take an upload whole
# before they ask the upstream, and write to a disk what a client is slow to take.
STREAMING = """client_max_body_size 0;
    client_body_buffer_size 64k;
    proxy_request_buffering off;
    proxy_buffer_size 64k;
    proxy_buffers 8 64k;
    proxy_busy_buffers_size 128k;
    proxy_max_temp_file_size 0;"""


# Fields about the client and the request that a proxy adds to what it forwards.
NGINX_FORWARDED = """proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Request-ID $request_id;
            proxy_set_header Via "1.1 nginx";"""
HAPROXY_FORWARDED = """http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Forwarded-Host %[req.hdr(Host)]
    http-request set-header X-Real-IP %[src]
    http-request set-header Via "1.1 haproxy"
"""
# As sluice's: the server's order, which begins with AES-128.
NGINX_TLS = """ssl_certificate @file@;
        ssl_certificate_key @file@;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_prefer_server_ciphers on;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384;"""
HAPROXY_TLS = " ssl crt @file@ alpn http/1.1 ssl-min-ver TLSv1.2 ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"
HAPROXY_HTTP2 = HAPROXY_TLS.replace("alpn ", "alpn h2,")
SLUICE_TLS = "{address: 127.0.0.1:@port@, tls: {cert: @file@, key: @file@}}"
SLUICE_HTTP2 = "{address: 127.0.0.1:@port@, http: 2}"  # in plain text
# A line for each denied request too, as the others write.
EACH_DENIED = ", denied_lines: 1000000"
# sluice always sends X-Request-ID and Via.
SLUICE_BARE = "request: {remove: [X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Real-IP, Forwarded]}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every row is started with."""

    stage: object
    upstream_port: int
    redis_port: int
    sluice: pathlib.Path  # the program
    cores: set = frozenset()  # that proxies run on; empty: any
    prefix: tuple = ()  # words that stand before each proxy's command
    floor: pathlib.Path = None  # the program bench_floor, where a row is made of it
    certificate: pathlib.Path = None  # with its key in the same file, where a row speaks TLS


def log_path(setting, row):
    return setting.stage.dir / f"{row.name}.log"


def _tls(template, setting, row):
    """What a configuration says where the row's clients speak TLS."""
    return template.replace("@file@", str(setting.certificate)) if setting.certificate and row.load.is_secure else ""


def _streams(row):
    """Requests at a time on a connection, by HTTP/2; 0: by HTTP/1.1, as in rows that say no load."""
    return row.load.streams if hasattr(row, "load") else 0


def _start(setting, row, argv_of_config, config, port, output=None):
    log_path(setting, row).touch()
    path = setting.stage.write(f"{row.name}.conf", config)
    argv = [*setting.prefix, *argv_of_config(path)]
    return setting.stage.start(row.name, argv, port, output, setting.cores)


def floor(is_denied=False):
    """The least that a proxy can do: it relays what comes, or answers it with 429."""
    def start(setting, row):
        port = free_port()
        log_path(setting, row).touch()
        option = "--http2" if _streams(row) else "--tls"
        tls = [option, setting.certificate, setting.certificate] if row.load.is_secure else []
        argv = [*setting.prefix, setting.floor, *tls, str(port), *([] if is_denied else [str(setting.upstream_port)])]
        return setting.stage.start(row.name, argv, port, None, setting.cores)

    return start


def nginx(modules="", limits="", limit="", bodies="", workers=1, is_bare=False):
    """@is_bare: without a log and without forwarding fields."""
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
            access_log="off" if is_bare else f"{log_path(setting, row)} logfmt buffer=64k flush=1s",
            forwarded="" if is_bare else NGINX_FORWARDED,
            port=port,
            ssl=(" ssl" if row.load.is_secure else "") + (" http2" if _streams(row) else ""),
            tls=_tls(NGINX_TLS, setting, row),
            upstream_port=setting.upstream_port,
            modules=modules,
            limits=limits % names,
            limit=limit,
            bodies=bodies,
            workers=workers,
            **names,
        )
        error_log = setting.stage.dir / f"{row.name}.err"
        return _start(
            setting, row, lambda path: ["nginx", "-e", error_log, "-c", path], config, port
        )

    return start


def nginx_limit_req(rate, limit, bodies="", key="$binary_remote_addr", workers=1, is_bare=False):
    return nginx(
        limits=f"limit_req_zone {key} zone=client:16m rate={rate};",
        limit=f"{limit}{INDENT}limit_req_status 429;",
        bodies=bodies,
        workers=workers,
        is_bare=is_bare,
    )


def load_lua():
    return "".join(f"load_module {NGINX_MODULES}/{name};\n"
                   for name in ("ndk_http_module.so", "ngx_http_lua_module.so"))


def nginx_lua(rate, key="remote_addr", spent_per_hour=None, burst=None):
    """@rate: a second, and the burst unless said. @key: nginx's variable. @spent_per_hour: the limit of
    what lies below /spent."""
    def table(name, a_second, burst):
        return (f"{name} = {{host = '127.0.0.1', port = %(redis_port)d, key = '{key}', rate = {a_second},"
                f" burst = {burst}, script = script, sha1 = '%(script_sha1)s'}}")

    spent = table("spent", f"{spent_per_hour} / 3600", spent_per_hour) if spent_per_hour else ""
    init = f"""
        local file = assert(io.open('%(peers)s/token_bucket.lua', 'rb'))
        local script = file:read('*a')
        file:close()
        {table("ample", rate, burst or rate)}
        {spent}
        redis_limit = require('redis_limit')
    """
    which = "ngx.var.uri:find('^/spent/') and spent or ample" if spent else "ample"
    return nginx(
        modules=load_lua(),
        limits=f"lua_package_path '%(peers)s/?.lua;;';\n    init_by_lua_block {{{init}}}",
        limit=f"access_by_lua_block {{ redis_limit.check({which}) }}",
    )


def haproxy(at_most, period="10s", table=("ip", "src"), expire="60s", threads=1, peers=None, is_bare=False):
    """Denies above @at_most requests a @period. @table: the type of its key, and the key. @peers: the name
    of this one among those that tell each other their tables, and the port of each. @is_bare: as nginx()."""
    def start(setting, row):
        port = free_port()
        lines = [f"    peer {name} 127.0.0.1:{at}\n" for name, at in peers[1].items()] if peers else []
        config = render(PEERS / "haproxy.cfg", port=port, upstream_port=setting.upstream_port,
                        at_most=at_most, period=period, type=table[0], key=table[1], expire=expire,
                        threads=threads, shared=" peers all" if peers else "",
                        tls=_tls(HAPROXY_HTTP2 if _streams(row) else HAPROXY_TLS, setting, row) or
                        (" proto h2" if _streams(row) else ""), log="" if is_bare else "log global",
                        forwarded="" if is_bare else HAPROXY_FORWARDED,
                        peers="".join(["peers all\n", *lines]) if peers else "")
        name = ["-L", peers[0]] if peers else []
        argv = lambda path: ["haproxy", "-db", *name, "-f", path]
        return _start(setting, row, argv, config, port, output=log_path(setting, row))

    return start


def sluice_config(port, log, upstream_port, limits, redis_port=None, spent=None, workers=1,
                  settings="", is_bare=False, listen=None, denied_lines=""):
    """The policy's text: @listen: instead of the port; @limits, each a limit's mapping, in Redis or else in the embedded store; @spent:
    that of what lies below /spent; @settings: lines at the top; @is_bare: without a log and forwarding fields; @denied_lines: a key of the log."""
    named = {f"limit-{number}": limit for number, limit in enumerate(limits, 1)}
    all_limits = named | ({"spent": spent} if spent else {})
    lines = [f"  {name}: {{{limit}}}\n" for name, limit in all_limits.items()]
    special = "  - {match: {path: /spent/**}, limits: [spent], upstream: api}\n" if spent else ""
    return render(
        PEERS / "sluice.yaml",
        listen=listen or f"127.0.0.1:{port}",
        workers=workers,
        settings=settings,
        log="off" if is_bare else f"{{format: logfmt, to: {log}{denied_lines}}}",
        forwarded=SLUICE_BARE if is_bare else "",
        upstream_port=upstream_port,
        store=f"store: {{redis: 'redis://127.0.0.1:{redis_port}', deadline: 1s}}" if redis_port else "",
        limits="".join(["limits:\n", *lines]) if lines else "",
        special=special,
        names=", ".join(named),
    )


def sluice(*limits, redis=False, spent=None, **others):
    def start(setting, row):
        port = free_port()
        listen = _tls(SLUICE_TLS, setting, row) or (SLUICE_HTTP2 if _streams(row) else "")
        config = sluice_config(port, log_path(setting, row), setting.upstream_port, limits,
                               setting.redis_port if redis else None, spent,
                               listen=listen.replace("@port@", str(port)), denied_lines=EACH_DENIED, **others)
        return _start(setting, row, lambda path: [setting.sluice, "run", path], config, port)

    return start
