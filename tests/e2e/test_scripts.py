"""What the scripts beside the sources do that is not in the README."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

from harness.wait import until

LIB = pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"
N_SIGNALS, APART_S = 20, 0.0004
TRIES = 150  # of which some four, where a signal can slip in between

BEGIN = f"""
set -euo pipefail
say() {{ echo "$@"; }}
source {LIB}/children.sh
setsid sleep 1000 >/dev/null &
echo $!
"""
KNOWS_IT = "children+=($!)\n"
WAITS = "wait $!\n"


def _is_there(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return "State:\tZ" not in status


def _ends_with_its_child(lines, n_signals, apart_s):
    """A script of @lines behind BEGIN, which is sent signals once it has started its child."""
    with subprocess.Popen(["bash", "-c", BEGIN + lines], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as script:
        child = int(script.stdout.readline())
        try:
            for _ in range(n_signals):
                script.send_signal(signal.SIGTERM)
                time.sleep(apart_s())
            assert script.wait(timeout=60) == 0
            assert script.stdout.read() == "stopping\n"
            until(lambda: not _is_there(child), "the child to be gone")
        finally:
            script.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_children_are_stopped_however_many_signals_a_script_is_sent():
    seed = random.Random(1)
    for _ in range(TRIES):
        _ends_with_its_child(KNOWS_IT + WAITS, N_SIGNALS, lambda: seed.random() * APART_S)


def test_a_child_that_has_only_just_begun_is_stopped_too():
    _ends_with_its_child("kill -TERM $$\n" + KNOWS_IT + WAITS, 0, float)
