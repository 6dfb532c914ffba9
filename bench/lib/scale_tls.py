"""TLS: memory of idle connections, and the CPU of a handshake with one worker and with two."""

import contextlib

import columns
import prepare
from cpu import rss_bytes
from crowd import Crowd, raise_descriptors
from measure import check_fields
from others import start_upstream
from proxies import Setting, sluice
from rounds import Interval, medians, ratio_to, run_rounds
from rows import FULL, PER_CLIENT, SECURE, TINY, Row
from stage import Stage, StageError
from surroundings import make_certificate

IDLE = [1000, 4000]
FILES = 20000
SETTINGS = "max: {connections: 17000}\ntimeouts: {idle: 1d, handshake: 1m}"
WARM_UP = 64  # connections before memory is looked at, which come and go
IDLE_BYTES = 24 * 1024  # each at most, beyond what the kernel takes
WORKERS = [1, 2]
DEARER = 1.05  # a handshake with two workers, to one with one


class Connections:
    """Idle TLS connections, each of which has asked once."""

    @staticmethod
    def _bytes_each(setting, n_idle):
        row = Row(f"idle-tls-{n_idle}", "", "tls", sluice(PER_CLIENT, settings=SETTINGS), SECURE, n_limits=1)
        process = row.start(setting, row)
        with Crowd(process.port, WARM_UP, is_secure=True):
            pass
        before = rss_bytes(process.pid)
        with contextlib.ExitStack() as crowds:
            crowd = crowds.enter_context(Crowd(process.port, n_idle, is_secure=True))
            grown = rss_bytes(process.pid) - before
            if (n_left := crowd.count()) != n_idle:
                raise StageError(f"of {n_idle} idle TLS connections {n_left} are left")
        prepare.say(f"  {n_idle} idle TLS connections: {grown / n_idle:.0f} bytes each")
        return grown / n_idle

    @classmethod
    def measure(cls, given):
        if not raise_descriptors(FILES):
            raise StageError(f"tls-connections: {FILES} open files are not allowed here (ulimit -Hn)")
        with Stage() as stage:
            setting = Setting(stage, start_upstream(stage).port, None, given.sluice, certificate=make_certificate(stage))
            return [{"idle": n_idle, "bytes_per_idle": cls._bytes_each(setting, n_idle)} for n_idle in IDLE]

    @staticmethod
    def bounds(rows):
        heaviest = max(rows, key=lambda row: row["bytes_per_idle"])
        return [columns.bound("bytes of an idle TLS connection", heaviest["bytes_per_idle"], IDLE_BYTES)]

    @staticmethod
    def table(rows):
        return columns.table("Idle TLS connections", [("idle", "idle", ",d"), ("bytes each", "bytes_per_idle", ",.0f")], rows)


class Handshakes:
    """A connection a request, each with a full handshake."""

    @staticmethod
    def measure(given):
        rows = [Row(f"handshakes-{n}", f"{n} workers", "tls-full", sluice(TINY, is_bare=True, workers=n), FULL, n_limits=1)
                for n in WORKERS]
        with Stage() as stage:
            setting = Setting(stage, start_upstream(stage).port, None, given.sluice, certificate=make_certificate(stage))
            processes = {row.name: row.start(setting, row) for row in rows}
            for row in rows:
                check_fields(row, processes[row.name])
            rounds = run_rounds(rows, processes, None, setting, Interval(4, given.seconds, set()), given.rounds)
        return [{"workers": n} | medians(rounds, row.name, ["proxy_us", "requests_per_second", "p99_ms"])
                | ratio_to(rounds, row.name, rows[0].name) for n, row in zip(WORKERS, rows)]

    @staticmethod
    def bounds(rows):
        two = rows[-1]
        return [columns.bound("CPU of a handshake with two workers, to that with one", two["ratio"], DEARER,
                              two["ratio_min"], two["ratio_max"])]

    @staticmethod
    def table(rows):
        return columns.table(
            "Full handshakes, a connection a request; ratio of CPU to that with one worker",
            [("workers", "workers", "d"), ("proxy µs", "proxy_us", ".1f"), ("ratio", "ratio", ".3f"),
             ("min", "ratio_min", ".3f"), ("max", "ratio_max", ".3f"),
             ("handshakes/s", "requests_per_second", ".0f"), ("p99 ms", "p99_ms", ".2f")], rows)
