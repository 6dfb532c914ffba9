"""The command: see the package. Runs cases on as many lanes as it is told, each a process with a proxy and
an upstream of its own; ends with 1, and a file that has the case, when something is found.

The last line of the output counts: runs=N found=N
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import time

from desync import vectors
from desync.session import Session

REGRESSION = pathlib.Path(__file__).parent / "regression"


def options():
    parser = argparse.ArgumentParser(prog="desync", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--seed", type=int, help="of the first case (default: another one each time)")
    parser.add_argument("--lanes", type=int, default=os.cpu_count(), help="at once (default: a core's each)")
    parser.add_argument("--found", type=pathlib.Path, default=REGRESSION, metavar="FOLDER",
                        help="where what is found is kept (default: among the regression tests)")
    return parser.parse_args()


def keep(case, findings, folder, seed):
    """A file of the case; what was found is told with it."""
    path = folder / f"found_{seed}.json"
    path.write_text(json.dumps(case.as_json(), indent=1) + "\n")
    print(f"found in {path}: {case}", *findings, sep="\n  ", flush=True)


def run_lane(number, args, counts, is_over):
    """Cases of seeds number, number + lanes, … from the first."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(pathlib.Path(folder) / "proxy")
        deadline = time.monotonic() + args.seconds
        seeds = range(args.seed + number, 1 << 62, args.lanes)
        found = session.first_finding(
            seeds, [vector.data for vector in vectors.table()],
            lambda: time.monotonic() < deadline and not is_over.is_set())
        counts[number] = session.n_cases
        if found:
            is_over.set()
            seed = seeds[session.n_cases - 1]
            case = session.reduced(found[0])
            keep(case, session.findings_of(case) or found[1], args.found, seed)
        session.close()
    sys.exit(1 if found else 0)


def main():
    args = options()
    if args.seed is None:
        args.seed = random.randrange(1 << 40)
    print(f"desync: seed {args.seed}, {args.lanes} lanes, {args.seconds:.0f} s", flush=True)
    counts, is_over = multiprocessing.Array("q", args.lanes), multiprocessing.Event()
    lanes = [multiprocessing.Process(target=run_lane, args=(i, args, counts, is_over))
             for i in range(args.lanes)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    n_found = sum(lane.exitcode != 0 for lane in lanes)
    print(f"runs={sum(counts)} found={n_found}")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
