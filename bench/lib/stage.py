"""The stage of a measurement: a folder of its own, free ports, processes that end with it."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_SECONDS = 10
STOP_SECONDS = 10
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class StageError(Exception):
    """Something on the stage is not as it must be; the text says what and where."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def render(template, **values):
    """The text of a template with each @name@ replaced; a name without a value is an error."""
    return re.sub(r"@(\w+)@", lambda match: str(values[match.group(1)]), template.read_text())


def _own_session(cores):
    def prepare():
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if cores:
            os.sched_setaffinity(0, cores)

    return prepare


class Process:
    """A started program: its name, pid, port, and the file its output goes to."""

    def __init__(self, name, child, port, output):
        self.name = name
        self.child = child
        self.pid = child.pid
        self.port = port
        self.output = output

    def require_running(self):
        if self.child.poll() is not None:
            raise StageError(f"{self.name} ended with {self.child.returncode}:\n{self.said()}")

    def await_listening(self, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.require_running()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise StageError(f"{self.name} does not listen on port {self.port}:\n{self.said()}")

    def said(self):
        return self.output.read_text(errors="replace")[-2000:]

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
                self.child.wait(STOP_SECONDS)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


class Stage:
    """A context: what is started in it is stopped when it is left, however it is left."""

    def __init__(self):
        in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-bench-", dir=in_memory))
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def start(self, name, argv, port, output=None, cores=None, environment=None,
              start_seconds=START_SECONDS):
        """Runs @argv, its output appended to @output, and waits until @port takes connections."""
        output = output or self.dir / f"{name}.out"
        with open(output, "ab") as sink:
            child = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self.dir,
                env=environment,
                preexec_fn=_own_session(cores),
            )
        process = Process(name, child, port, output)
        self.processes.append(process)
        process.await_listening(start_seconds)
        return process


def stop_on_signals():
    """SIGTERM and SIGHUP end the program as Ctrl-C does: through the stage's way out."""

    def on_signal(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, on_signal)
