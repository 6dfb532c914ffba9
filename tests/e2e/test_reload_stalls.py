"""Reloads while a part of the process is slow, and what a reload leaves behind."""

import contextlib
import os
import re
import signal
import subprocess

import pytest

from harness import program
from harness.client import Client
from harness.halt import halted, threads_of
from harness.ports import free_port
from harness.reload import n_reloads, reload, wait_for, write
from harness.wait import until


def respond(word, top="workers: 2"):
    return f"{top}\nroutes: [{{respond: {{status: 200, body: {word}}}}}]\n"


def worker_of(proxy, client):
    """The thread that serves it: which gives up its processor far more often than others, when it is asked."""
    def n_switches():
        numbers = {}
        for thread in threads_of(proxy.process.pid):
            with open(f"/proc/{proxy.process.pid}/task/{thread}/status", encoding="ascii") as status:
                numbers[thread] = sum(map(int, re.findall(r"_ctxt_switches:\s+(\d+)", status.read())))
        return numbers

    before = n_switches()

    def find():
        for _ in range(50):
            client.ask()
        grown = sorted((n - before.get(thread, 0), thread) for thread, n in n_switches().items())
        return grown[-1][1] if grown[-1][0] > 20 + 2 * grown[-2][0] else None

    return until(find, "a thread that serves")


def test_a_worker_that_stalls_makes_a_reload_late_and_nothing_else(start):
    proxy = start(respond("one"))
    client = proxy.connect()
    assert client.ask().body == b"one"
    with halted(worker_of(proxy, client)):
        write(proxy, respond("two"))
        proxy.signal(signal.SIGHUP)
        until(lambda: "a worker does not answer" in proxy.stderr(), "the warning", within=30)
        assert n_reloads(proxy) == 0, "no worker is under a policy that another is not under"
        write(proxy, respond("three"))
        proxy.signal(signal.SIGHUP)
    wait_for(proxy, 2)
    for _ in range(10):
        assert proxy.ask().body == b"three"
    reload(proxy, respond("four"))
    for _ in range(10):
        assert proxy.ask().body == b"four"


def n_unread(proxy):
    """What has been told to threads of the process that none has taken note of."""
    folder = f"/proc/{proxy.process.pid}/fdinfo"
    n = 0
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError), open(f"{folder}/{name}", encoding="ascii") as file:
            n += sum(int(line.split()[1], 16) for line in file if line.startswith("eventfd-count"))
    return n


def test_a_reload_leaves_nothing_unread_that_would_make_a_thread_spin(start):
    proxy = start(respond("one", "workers: 8"))
    for i in range(30):
        reload(proxy, respond(f"n{i}", "workers: 8"))
        until(lambda: n_unread(proxy) == 0, f"quiet after reload {i}")


# --- from the first moment on ---

@pytest.fixture(name="just_begun")
def process_whose_number_has_just_come_to_be_known(tmp_path):
    """The process, its policy's path, and where it will listen."""
    path, pid_path, port = tmp_path / "policy.yaml", tmp_path / "pid", free_port()
    path.write_text(f"listen: 127.0.0.1:{port}\n" + respond("one"))
    with open(tmp_path / "stderr", "wb") as err, subprocess.Popen(
            [program.PROGRAM, "run", "--watch", "--pid-file", str(pid_path), str(path)],
            stdout=subprocess.DEVNULL, stderr=err, stdin=subprocess.DEVNULL,
            env=program.environment()) as process:
        while not (pid_path.exists() and pid_path.read_text()):
            assert process.poll() is None
        yield process, path, ("127.0.0.1", port)
        process.terminate()
        assert process.wait(program.STOP_WITHIN_S) == 0
    assert not program.SANITIZER.search((tmp_path / "stderr").read_text())


def serves(address, body):
    with contextlib.suppress(OSError), Client(address) as client:
        return client.ask().body == body
    return False


def test_a_signal_at_the_first_moment_is_heeded_and_does_not_kill(just_begun):
    process, _, address = just_begun
    process.send_signal(signal.SIGHUP)
    until(lambda: process.poll() is not None or serves(address, b"one"), "an answer", within=30)
    assert process.poll() is None


def test_an_edit_between_the_reading_and_the_watching_is_seen(just_begun):
    _, path, address = just_begun
    new = path.with_name("new")
    new.write_text(path.read_text().replace("one", "two"))
    os.replace(new, path)
    until(lambda: serves(address, b"two"), "the other policy", within=30)
