"""TLS and HTTP/2: memory of idle connections, and the CPU of a handshake with one worker and with two."""

import contextlib
import os
from statistics import median

import columns
import prepare
from cpu import rss_bytes
from crowd import Crowd, raise_descriptors
from measure import check_fields
from others import start_upstream
from proxies import Setting, nginx_limit_req, sluice
from rounds import Interval, medians, ratio_to, run_rounds
from rows import FULL, PER_CLIENT, SECURE, TINY, TINY_PER_MINUTE, Load, Row
from stage import Stage, StageError
from surroundings import make_certificate

IDLE = [1000, 4000]
FILES = 20000
SETTINGS = "max: {connections: 17000}\ntimeouts: {idle: 1d, handshake: 1m}"
WARM_UP = 64  # connections before memory is looked at, which come and go
IDLE_BYTES = 24 * 1024  # each at most, beyond what the kernel takes
IDLE_HTTP2 = 10000
HTTP2_BYTES = {"plain text": 36 * 1024, "TLS": 56 * 1024}  # likewise
WORKERS = [1, 2]
DEARER = 1.05  # a handshake with two workers, to one with one
ENOUGH_CORES = 4  # for two workers, the load, and the rest


def _bytes_each(setting, n_idle, load, name):
    """By which each of @n_idle connections makes the proxy grow when it has asked."""
    row = Row(f"idle-{n_idle}-{load.streams}-{load.is_secure}", "", "tls", sluice(PER_CLIENT, settings=SETTINGS), load, n_limits=1)
    process = row.start(setting, row)
    kind = {"is_secure": load.is_secure, "is_http2": load.streams > 0}
    with Crowd(process.port, WARM_UP, **kind):
        pass
    before = rss_bytes(process.pid)
    with Crowd(process.port, n_idle, **kind) as crowd:
        grown = rss_bytes(process.pid) - before
        if (n_left := crowd.count()) != n_idle:
            raise StageError(f"of {n_idle} idle connections, {name}, {n_left} are left")
    process.stop()
    prepare.say(f"  {n_idle} idle connections, {name}: {grown / n_idle:.0f} bytes each")
    return grown / n_idle


@contextlib.contextmanager
def _crowded(given):
    """A setting for thousands of connections."""
    if not raise_descriptors(FILES):
        raise StageError(f"idle connections: {FILES} open files are not allowed here (ulimit -Hn)")
    with Stage() as stage:
        yield Setting(stage, start_upstream(stage).port, None, given.sluice, certificate=make_certificate(stage))


class Connections:
    """Idle TLS connections, each of which has asked once."""

    @staticmethod
    def measure(given):
        with _crowded(given) as setting:
            return [{"idle": n_idle, "bytes_per_idle": _bytes_each(setting, n_idle, SECURE, "TLS")} for n_idle in IDLE]

    @staticmethod
    def bounds(rows):
        heaviest = max(rows, key=lambda row: row["bytes_per_idle"])
        return [columns.bound("bytes of an idle TLS connection", heaviest["bytes_per_idle"], IDLE_BYTES)]

    @staticmethod
    def table(rows):
        return columns.table("Idle TLS connections", [("idle", "idle", ",d"), ("bytes each", "bytes_per_idle", ",.0f")], rows)


class Http2Connections:
    """Idle HTTP/2 connections, each of which has asked 20 times at once."""

    @staticmethod
    def measure(given):
        loads = {"plain text": Load(streams=1), "TLS": Load(streams=1, is_secure=True)}
        with _crowded(given) as setting:
            return [{"over": over, "idle": IDLE_HTTP2,
                     "bytes_per_idle": _bytes_each(setting, IDLE_HTTP2, load, f"HTTP/2, {over}")}
                    for over, load in loads.items()]

    @staticmethod
    def bounds(rows):
        return [columns.bound(f"bytes of an idle HTTP/2 connection, {row['over']}", row["bytes_per_idle"],
                              HTTP2_BYTES[row["over"]]) for row in rows]

    @staticmethod
    def table(rows):
        return columns.table("Idle HTTP/2 connections", [("over", "over", ""), ("idle", "idle", ",d"),
                                                         ("bytes each", "bytes_per_idle", ",.0f")], rows)


def _nginx(workers):
    return nginx_limit_req(f"{TINY_PER_MINUTE}r/m", "limit_req zone=client;", workers=workers, is_bare=True)


HANDSHAKERS = {"sluice": lambda n: sluice(TINY, is_bare=True, workers=n), "nginx": _nginx}


def _handshake_row(program, n):
    return Row(f"{program}-handshakes-{n}", f"{program}, {n} at work", "tls-full", HANDSHAKERS[program](n), FULL,
               n_limits=1 if program == "sluice" else 0)


class Handshakes:
    """A connection a request, each with a full handshake. The processes of nginx share nothing: what a second of them
    costs is the price of the machine (the load runs on the same processors), and what workers pay beyond it is what
    they wait for each other."""

    @staticmethod
    def measure(given):
        rows = {(program, n): _handshake_row(program, n) for program in HANDSHAKERS for n in WORKERS}
        with Stage() as stage:
            setting = Setting(stage, start_upstream(stage).port, None, given.sluice, certificate=make_certificate(stage))
            processes = {row.name: row.start(setting, row) for row in rows.values()}
            for row in rows.values():
                check_fields(row, processes[row.name])
            rounds = run_rounds(list(rows.values()), processes, None, setting, Interval(4, given.seconds, set()), given.rounds)
        return [{"program": program, "workers": n, "cores": os.cpu_count()}
                | medians(rounds, row.name, ["proxy_us", "requests_per_second", "p99_ms"])
                | ratio_to(rounds, row.name, rows[program, 1].name)
                | {f"apart{end}": value for end, value in zip(("", "_min", "_max"), _apart(rounds, program, n))}
                for (program, n), row in rows.items()]

    @staticmethod
    def bounds(rows):
        two = next(row for row in rows if row["program"] == "sluice" and row["workers"] == WORKERS[-1])
        bounds = [columns.bound("CPU of a handshake with two workers, to that with one, beside what nginx pays for a"
                                " second process", two["apart"], DEARER, two["apart_min"], two["apart_max"])]
        if two["cores"] >= ENOUGH_CORES:
            bounds.append(columns.bound("CPU of a handshake with two workers, to that with one", two["ratio"], DEARER,
                                        two["ratio_min"], two["ratio_max"]))
        return bounds

    @staticmethod
    def table(rows):
        return columns.table(
            "Full handshakes, a connection a request; ratio of CPU to that with one worker",
            [("program", "program", ""), ("workers", "workers", "d"), ("proxy µs", "proxy_us", ".1f"),
             ("ratio", "ratio", ".3f"), ("min", "ratio_min", ".3f"), ("max", "ratio_max", ".3f"),
             ("handshakes/s", "requests_per_second", ".0f"), ("p99 ms", "p99_ms", ".2f")], rows)


def _apart(rounds, program, n):
    """What @program pays for @n at work, to what nginx does in the same round: median and extremes."""
    def dearer(one, which):
        return one[f"{which}-handshakes-{n}"]["proxy_us"] / one[f"{which}-handshakes-1"]["proxy_us"]

    ratios = [dearer(one, program) / dearer(one, "nginx") for one in rounds]
    return median(ratios), min(ratios), max(ratios)
