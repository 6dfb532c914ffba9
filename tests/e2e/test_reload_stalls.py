"""Reloads while a part of the process is slow, and what a reload leaves behind."""

import contextlib
import os
import signal

from harness.halt import halted, threads_of
from harness.reload import n_reloads, reload, wait_for, write
from harness.wait import until


def respond(word, top="workers: 2"):
    return f"{top}\nroutes: [{{respond: {{status: 200, body: {word}}}}}]\n"


def test_a_worker_that_stalls_makes_a_reload_late_and_nothing_else(start):
    proxy = start(respond("one"))
    worker = threads_of(proxy.process.pid)[1]
    with halted(worker):
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
