"""10 to 15,000 idle connections beside an active load: memory of each, and what the load costs meanwhile."""

import contextlib
import shutil

import columns
import prepare
from cpu import rss_bytes
from crowd import Crowd, raise_descriptors
from instructions import per_request
from measure import wrk
from others import start_upstream
from proxies import Setting, sluice, sluice_config
from rounds import Interval, medians, ratio_to, run_rounds
from rows import PER_CLIENT, Row
from stage import Stage, StageError

IDLE = [10, 100, 1000, 5000, 10000, 15000]
FILES = 20000  # clients may have all but an eighth of them
SETTINGS = "max: {connections: 17000}\ntimeouts: {idle: 1d}"
ACTIVE = 64
WARM_UP_S = 1  # before memory is looked at: what the load takes is there already
IDLE_BYTES = 2048  # each at most, beyond what the kernel takes
BYTES_FROM = 1000  # connections, before pages are no longer what is seen
COUNTED = 300, 1800  # requests
COUNTED_BESIDE = [10, 5000]  # idle connections, each of which takes its time under valgrind
FLAT = 1.1  # of CPU a request, to that beside 10


def _rows():
    return [Row(f"idle-{n}", f"beside {n} idle", "pass", sluice(PER_CLIENT, settings=SETTINGS))
            for n in IDLE]


def _gather(row, process, n_idle, crowds):
    """Bytes by which each idle connection makes the proxy grow."""
    wrk(row.load, process.port, ACTIVE, WARM_UP_S)
    before = rss_bytes(process.pid)
    crowd = crowds.enter_context(Crowd(process.port, n_idle))
    grown = rss_bytes(process.pid) - before
    prepare.say(f"  {n_idle} idle connections: {grown / n_idle:.0f} bytes each")
    return crowd, grown / n_idle


def _instructions(stage, upstream, sluice_program):
    """Of a request in user space, by the number of idle connections; none where there is no valgrind."""
    def of(n_idle):
        def write_config(run, port):
            text = sluice_config(port, stage.dir / f"{run}.log", upstream.port, [PER_CLIENT],
                                 settings=SETTINGS)
            return stage.write(f"{run}.yaml", text)

        prepare.say(f"  instructions beside {n_idle} idle connections")
        return per_request(stage, f"counted-{n_idle}", write_config, sluice_program, *COUNTED,
                           200, lambda port: Crowd(port, n_idle))

    return {n_idle: of(n_idle) for n_idle in COUNTED_BESIDE} if shutil.which("valgrind") else {}


def measure(given):
    if not raise_descriptors(FILES):
        raise StageError(f"connections: {FILES} open files are not allowed here (ulimit -Hn)")
    rows = _rows()
    with Stage() as stage, contextlib.ExitStack() as crowds:
        upstream = start_upstream(stage)
        counted = _instructions(stage, upstream, given.sluice)
        setting = Setting(stage, upstream.port, None, given.sluice, set())
        processes = {row.name: row.start(setting, row) for row in rows}
        gathered = [_gather(row, processes[row.name], n, crowds) for row, n in zip(rows, IDLE)]
        rounds = run_rounds(rows, processes, None, setting,
                            Interval(ACTIVE, given.seconds, set()), given.rounds)
        for (crowd, _), n_idle in zip(gathered, IDLE):
            if (n_left := crowd.count()) != n_idle:
                raise StageError(f"of {n_idle} idle connections {n_left} are left")
    return [{"idle": n_idle, "bytes_per_idle": grown, "instructions": counted.get(n_idle)}
            | medians(rounds, row.name, ["proxy_us", "requests_per_second", "p99_ms"])
            | ratio_to(rounds, row.name, rows[0].name)
            for row, n_idle, (_, grown) in zip(rows, IDLE, gathered)]


def bounds(rows):
    many = [row for row in rows if row["idle"] >= BYTES_FROM]
    dearest = max(many, key=lambda row: row["ratio"])
    heaviest = max(many, key=lambda row: row["bytes_per_idle"])
    return [columns.bound("bytes of an idle connection", heaviest["bytes_per_idle"], IDLE_BYTES),
            columns.bound(f"CPU a request beside {dearest['idle']:,} idle, to that beside {IDLE[0]}",
                          dearest["ratio"], FLAT, dearest["ratio_min"], dearest["ratio_max"])]


def table(rows):
    return columns.table(
        f"Idle keep-alive connections beside a load on {ACTIVE}; ratio of CPU a request to that beside"
        f" {IDLE[0]}",
        [("idle", "idle", ",d"), ("bytes each", "bytes_per_idle", ".0f"),
         ("instructions", "instructions", ",.0f"),
         ("proxy µs", "proxy_us", ".2f"), ("ratio", "ratio", ".3f"), ("min", "ratio_min", ".3f"),
         ("max", "ratio_max", ".3f"), ("req/s", "requests_per_second", ".0f"),
         ("p99 ms", "p99_ms", ".2f")], rows)
