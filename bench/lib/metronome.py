"""How long this machine lets somebody wait who wanted to run: what no program can answer for."""

import bisect
import json
import subprocess
import sys

TICK_S = 0.001
STALL_S = 0.001  # what is shorter is nobody's excuse
PRIORITY = 60

BEAT = f"""
import json, signal, time
is_over = []
signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: its parent ends it
signal.signal(signal.SIGTERM, lambda *_: is_over.append(True))
print(flush=True)
stalls = []
while not is_over:
    started = time.monotonic()
    time.sleep({TICK_S})
    late = time.monotonic() - started - {TICK_S}
    if late >= {STALL_S}:
        ended = time.time()
        stalls.append((ended - late, ended))
print(json.dumps(stalls))
"""


class Metronome:
    """A context: a process that wants to run each TICK_S, with a priority above what is measured. Once it is
    left, its @stalls are known: (begin, end) in s since the epoch, one after the other."""

    def __init__(self, is_realtime):
        argv = ["chrt", "-f", str(PRIORITY)] if is_realtime else []
        self.argv = [*argv, sys.executable, "-c", BEAT]
        self.stalls = []

    def __enter__(self):
        self.child = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        self.child.stdout.readline()
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.stalls = json.loads(self.child.stdout.read())
        self.child.wait()

    def worst_s(self):
        return max((end - begin for begin, end in self.stalls), default=0.0)

    def stalled_s(self, begin, end):
        """How much of this time the machine stood still."""
        first = bisect.bisect_right(self.stalls, begin, key=lambda stall: stall[1])
        last = bisect.bisect_left(self.stalls, end, key=lambda stall: stall[0])
        return sum(min(end, stall[1]) - max(begin, stall[0]) for stall in self.stalls[first:last])
