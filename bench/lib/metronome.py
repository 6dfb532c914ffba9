"""How long this machine lets somebody wait who wanted to run: what no program can answer for."""

import subprocess
import sys

TICK_S = 0.001
PRIORITY = 60

BEAT = f"""
import signal, sys, time
is_over = []
signal.signal(signal.SIGTERM, lambda *_: is_over.append(True))
print(flush=True)
worst = 0.0
while not is_over:
    started = time.monotonic()
    time.sleep({TICK_S})
    worst = max(worst, time.monotonic() - started - {TICK_S})
print(worst)
"""


class Metronome:
    """A context: a process that wants to run each TICK_S, with the priority of what is measured."""

    def __init__(self, is_realtime):
        argv = ["chrt", "-f", str(PRIORITY)] if is_realtime else []
        self.argv = [*argv, sys.executable, "-c", BEAT]
        self.worst_ms = 0.0

    def __enter__(self):
        self.child = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        self.child.stdout.readline()
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.worst_ms = float(self.child.stdout.read()) * 1e3
        self.child.wait()
