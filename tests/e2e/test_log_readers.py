"""Readers of the logs that stand still, or go away: requests are served, signals are heeded, no line is torn, and
what was lost is told."""

import os
import re
import signal
import subprocess
import time

import pytest

from harness import log, program
from harness.admin import Admin
from harness.client import Client
from harness.log_stream import KINDS, Stream
from harness.message import request
from harness.wait import soon, until

STREAMS = ("stdout", "stderr", "both")
LONG_PATH = "/" + "p" * 1000
OVERFLOW_REQUESTS = 16000  # some 1,200 bytes a line: more than the kernel and the queue of the log hold
PROGRAM_LINE = re.compile(rb"time=\S+ level=\w+ mod=\S+ msg=")
LOST = re.compile(rb'level=warn mod=log msg="lines lost" log=(\w+) lines=(\d+) err="([^"]+)"$')


class Run:
    """sluice run with `stream` as its stdout, its stderr or both; the rest goes to files. It listens where the
    test knows without being told."""

    def __init__(self, folder, stream, which, more="workers: 2\n"):
        self.folder = folder
        self.address = str(folder / "s.sock")
        self.admin = Admin(str(folder / "admin.sock"))
        self.more = more
        self.write_policy(204)
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen(
                [program.PROGRAM, "run", str(folder / "policy.yaml")], stdin=subprocess.DEVNULL,
                stdout=out if which == "stderr" else stream.write_fd,
                stderr=err if which == "stdout" else stream.write_fd, env=program.environment())
        stream.hand_over()
        until(self.is_serving, "the proxy to serve")

    def write_policy(self, status):
        (self.folder / "policy.yaml").write_text(
            f'listen: "unix:{self.address}"\nadmin: "unix:{self.folder}/admin.sock"\n{self.more}'
            f"routes: [{{respond: {{status: {status}}}}}]\n")

    def is_serving(self):
        assert self.process.poll() is None
        try:
            with Client(self.address):
                return True
        except OSError:
            return False

    def ask_many(self, n, path=LONG_PATH, n_at_once=50):
        """n requests on one connection, n_at_once of them together."""
        with Client(self.address) as client:
            for _ in range(n // n_at_once):
                client.send(request("GET", path) * n_at_once)
                assert {client.read().status for _ in range(n_at_once)} == {204}

    def terminate(self):
        """It ends by itself, and waits for nobody."""
        self.process.send_signal(signal.SIGTERM)
        soon(lambda: self.process.poll() is not None, "the program to end", within=10)
        assert self.process.returncode == 0

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert not program.SANITIZER.search((self.folder / "stderr").read_text(errors="replace"))


@pytest.fixture(name="start_run")
def runs_and_streams(tmp_path):
    things = []

    def start(kind, which, is_full=False, more="workers: 2\n"):
        stream = Stream(kind)
        things.append(stream)
        if is_full:
            stream.fill()
        run = Run(tmp_path, stream, which, more)
        things.append(run)
        return run, stream

    yield start
    for thing in reversed(things):
        thing.stop()


def longest_s(run, n):
    """The time of the slowest of n requests, one after another."""
    with Client(run.address) as client:
        longest = 0
        for _ in range(n):
            started = time.monotonic()
            assert client.ask().status == 204
            longest = max(longest, time.monotonic() - started)
        return longest


@pytest.mark.parametrize("which", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_stands_still_from_the_start_stops_nothing(start_run, kind, which):
    run, _ = start_run(kind, which, is_full=True)
    run.ask_many(2000)
    soon(lambda: longest_s(run, 100) < 0.5, "requests that wait for nothing", within=5)
    run.write_policy(200)
    run.process.send_signal(signal.SIGUSR1)
    run.process.send_signal(signal.SIGHUP)
    with Client(run.address) as client:
        until(lambda: client.ask().status == 200, "the reload")
    run.terminate()


def losses(lines, kind=b"access"):
    """How many lines of that log were lost, as was told."""
    return sum(int(match[2]) for match in map(LOST.search, lines) if match and match[1] == kind)


def parts(lines):
    """The lines of the access log, and those of the program's; each is whole."""
    told = [line for line in lines if PROGRAM_LINE.match(line)]
    access = [line for line in lines if not PROGRAM_LINE.match(line)]
    assert all(line.count(b"time=") == 1 and b" path=" not in line for line in told)
    assert all("path" in log.parse(line, "logfmt") for line in access)
    return access, told


@pytest.mark.takes(4)
@pytest.mark.parametrize("which", ["stdout", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_when_the_reader_reads_again_lines_go_on_and_the_lost_ones_are_told(start_run, kind, which):
    run, stream = start_run(kind, which)
    run.ask_many(OVERFLOW_REQUESTS)
    stream.read_on()

    def n_accounted_for(lines):
        """Those that came, and those that are said to be lost."""
        access, told = parts(lines)
        if which == "stdout":
            assert not told
            told = (run.folder / "stderr").read_bytes().splitlines()
        return len(access) + losses(told)

    # Until the rest of them is written there may be no room for others.
    until(lambda: n_accounted_for(stream.lines()) == OVERFLOW_REQUESTS, "each line to come, or to be told as lost")
    run.ask_many(100, "/again")
    until(lambda: sum(b"path=/again" in line for line in stream.lines()) == 100, "lines to go on")
    run.terminate()
    lines = stream.lines_to_the_end()
    assert n_accounted_for(lines) == OVERFLOW_REQUESTS + 100
    assert len(parts(lines)[0]) < OVERFLOW_REQUESTS + 100


def lost_lines_of(run):
    return losses((run.folder / "stderr").read_bytes().splitlines())


def test_metrics_count_the_lost_lines(start_run):
    run, stream = start_run("pipe", "stdout")
    run.ask_many(OVERFLOW_REQUESTS)

    def lost(kind):
        page = run.admin.ask("GET", "/metrics").body.decode()
        return int(re.search(rf'^sluice_log_lines_lost_total{{log="{kind}"}} (\d+)$', page, re.MULTILINE)[1])

    until(lambda: lost("access") > 0, "lines to be lost")
    stream.read_on()
    until(lambda: lost("access") == lost_lines_of(run), "all lost lines to be told")
    assert lost("program") == 0
    run.terminate()


@pytest.mark.parametrize("which", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_goes_away_stops_nothing(start_run, kind, which):
    run, stream = start_run(kind, which)
    run.ask_many(200)
    stream.close()
    run.ask_many(2000)
    run.terminate()
    if which == "stdout":
        assert lost_lines_of(run) > 0


def test_a_second_signal_stops_at_once(start_run):
    run, _ = start_run("pipe", "both", is_full=True)
    with Client(run.address) as client:
        client.send(b"GET / HTTP/1.1\r\n")
        run.process.send_signal(signal.SIGTERM)
        until(lambda: not os.path.exists(run.address), "the drain to begin")
        run.process.send_signal(signal.SIGTERM)
        soon(lambda: run.process.poll() is not None, "the program to end", within=10)


def test_errors_of_the_policy_do_not_wait_for_a_reader(tmp_path):
    (tmp_path / "policy.yaml").write_text("nonsense: 1\n")
    stream = Stream("pipe")
    stream.fill()
    process = subprocess.Popen([program.PROGRAM, "run", str(tmp_path / "policy.yaml")],
                               stdin=subprocess.DEVNULL, stdout=stream.write_fd,
                               stderr=stream.write_fd, env=program.environment())
    assert process.wait(program.STOP_WITHIN_S) == 1
    stream.stop()
