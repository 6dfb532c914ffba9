"""What the scripts beside the sources do that is not in the README."""

import pathlib
import random
import signal
import subprocess
import time

from harness.wait import until

LIB = pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"
N_SIGNALS, APART_S = 20, 0.0004
TRIES = 150  # of which some four, where a signal can slip in between

STARTS_ONE = f"""
set -euo pipefail
say() {{ echo "$@"; }}
source {LIB}/children.sh
setsid sleep 1000 >/dev/null &
children+=($!)
echo ${{children[0]}}
wait ${{children[0]}}
"""


def _is_there(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return "State:\tZ" not in status


def test_children_are_stopped_however_many_signals_a_script_is_sent():
    seed = random.Random(1)
    for _ in range(TRIES):
        with subprocess.Popen(["bash", "-c", STARTS_ONE], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as script:
            child = int(script.stdout.readline())
            for _ in range(N_SIGNALS):
                script.send_signal(signal.SIGTERM)
                time.sleep(seed.random() * APART_S)
            assert script.stdout.readline() == "stopping\n"
            script.stdout.read()
            assert script.wait(timeout=60) == 0
        until(lambda: not _is_there(child), "the child to be gone")
