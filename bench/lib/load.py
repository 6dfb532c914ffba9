"""bench_load, the generator of open-loop and closed-loop load, run and understood."""

import json
import os
import subprocess
import typing

from stage import StageError

LONGEST_S = 60  # beyond what it is asked to last


class Asked(typing.NamedTuple):
    """A request of a load: times in µs since the epoch, 0 where it was not answered."""

    intended_us: int
    sent_us: int
    done_us: int
    status: int  # 0: it failed


def read_log(path):
    """Of each request that was sent, in the order in which they were to be."""
    with open(path, encoding="ascii") as file:
        return [Asked(*map(int, line.split())) for line in file]


def run_load(program, ports, path, cores=None, **options):
    """What became of a load, as bench_load tells it. @options: its own, without the dashes, and with _
    for - within; None: left out."""
    argv = [str(program)]
    for name, value in options.items():
        argv += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
    argv += [",".join(map(str, ports)), path]
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    ended = subprocess.run(argv, capture_output=True, text=True, preexec_fn=pin, check=False,
                           timeout=options.get("ms", 0) / 1e3 + LONGEST_S)
    if ended.returncode != 0:
        raise StageError(f"{' '.join(argv)} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)
