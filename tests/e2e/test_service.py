"""Under systemd, played by the test: what it is told, the sockets it brings, and log files that are renamed."""

import os
import re
import signal
import socket
import subprocess

import pytest

from harness.client import Client
from harness.program import PROGRAM, environment
from harness.wait import until

ROUTES = "routes: [{respond: {status: 204}}]\n"


class Manager:
    """The socket that a service manager listens on."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(60)

    def next(self, *but):
        """What it is told next, other than that."""
        while True:
            told = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())
            if not told.keys() & set(but):
                return told


@pytest.fixture(name="manager")
def _manager(tmp_path):
    manager = Manager(tmp_path)
    yield manager
    manager.socket.close()


def test_the_service_manager_is_told_of_each_step(start, manager):
    proxy = start(ROUTES, env={"NOTIFY_SOCKET": manager.path})
    assert manager.next()["READY"] == "1"
    proxy.process.send_signal(signal.SIGHUP)
    reloading = manager.next()
    assert reloading["RELOADING"] == "1" and int(reloading["MONOTONIC_USEC"]) > 0
    assert manager.next()["READY"] == "1"
    proxy.stop()
    assert manager.next()["STOPPING"] == "1"


def test_a_reload_that_fails_ends_all_the_same(start, manager):
    proxy = start(ROUTES, env={"NOTIFY_SOCKET": manager.path})
    assert manager.next()["READY"] == "1"
    (proxy.folder / "policy.yaml").write_text("listen: nowhere\n")
    proxy.process.send_signal(signal.SIGHUP)
    assert manager.next()["RELOADING"] == "1"
    told = manager.next()
    assert told["READY"] == "1" and "reload failed" in told["STATUS"]
    assert proxy.ask().status == 204


def test_the_watchdog_is_told_while_the_loops_turn(start, manager):
    start("workers: 2\n" + ROUTES, env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "3000000"})
    assert manager.next()["READY"] == "1"
    for _ in range(3):
        assert manager.next()["WATCHDOG"] == "1"


def test_without_a_manager_nobody_is_told(start):
    assert start(ROUTES).ask().status == 204


# --- sockets that are given ---

def start_with_sockets(folder, policy, *sockets):
    """The program, with the sockets as descriptors from 3 on."""
    (folder / "policy.yaml").write_text(policy)

    def place():
        for number, given in enumerate(sockets, 3):
            os.dup2(given.fileno(), number, inheritable=True)

    script = f'LISTEN_PID=$$ LISTEN_FDS={len(sockets)} exec "$0" run "$1"'
    with open(folder / "stderr", "wb") as err:
        return subprocess.Popen(["sh", "-c", script, PROGRAM, folder / "policy.yaml"], stdout=subprocess.DEVNULL,
                                stderr=err, env=environment(), close_fds=False, preexec_fn=place)


def stop(process, folder):
    process.terminate()
    assert process.wait(60) == 0, (folder / "stderr").read_text()


@pytest.fixture(name="given")
def _given():
    with socket.create_server(("127.0.0.1", 0)) as given:
        yield given


def test_a_socket_that_is_given_serves_what_waited_for_it(tmp_path, given):
    host, port = given.getsockname()
    early = Client((host, port))  # nobody is there yet
    process = start_with_sockets(tmp_path, f"listen: {host}:{port}\nworkers: 2\n" + ROUTES, given)
    assert early.ask().status == 204
    with Client((host, port)) as client:
        assert client.ask().status == 204
    stop(process, tmp_path)
    with Client((host, port)) as late:  # it is not closed: the next process has it
        process = start_with_sockets(tmp_path, f"listen: {host}:{port}\n" + ROUTES, given)
        assert late.ask().status == 204
        stop(process, tmp_path)
    early.close()


def test_a_unix_socket_that_is_given_keeps_its_file(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as given:
        given.bind(path)
        given.listen()
        process = start_with_sockets(tmp_path, f"listen: unix:{path}\n" + ROUTES, given)
        with Client(path) as client:
            assert client.ask().status == 204
        stop(process, tmp_path)
        assert os.path.exists(path)


def test_who_waits_at_a_given_socket_is_served_when_the_policy_names_it_again(tmp_path, given):
    host, port = given.getsockname()
    both = f"listen: [127.0.0.1:0, {host}:{port}]\n" + ROUTES

    def turn_to(policy, generation):
        (tmp_path / "policy.yaml").write_text(policy)
        process.send_signal(signal.SIGHUP)
        in_force = '"the policy is in force"'
        until(lambda: (tmp_path / "stderr").read_text().count(in_force) == generation, "the reload")

    process = start_with_sockets(tmp_path, both, given)
    with Client((host, port)) as client:
        assert client.ask().status == 204
    turn_to("listen: 127.0.0.1:0\n" + ROUTES, 1)
    with Client((host, port)) as waiting:
        turn_to(both, 2)
        assert waiting.ask().status == 204
    stop(process, tmp_path)


def test_sockets_that_nobody_wants_are_told_of(tmp_path, given):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        process = start_with_sockets(tmp_path, "listen: 127.0.0.1:0\n" + ROUTES, given, other)
        log = until(lambda: (told := (tmp_path / "stderr").read_text()).count("msg=listening") and told, "it to listen")
        stop(process, tmp_path)
    assert re.search(r"level=warn mod=net.given_sockets .*sockets=1 hint=", log)
    assert "it does not listen for streams" in log


# --- log files ---

def test_a_log_file_that_was_renamed_is_opened_anew(start, tmp_path):
    path, renamed = tmp_path / "access.log", tmp_path / "access.log.1"
    proxy = start(f"workers: 2\nlog: {{to: {path}}}\n" + ROUTES)
    proxy.ask(path="/before")
    until(lambda: "/before" in path.read_text(), "its line")
    path.rename(renamed)
    proxy.ask(path="/between")
    until(lambda: "/between" in renamed.read_text(), "the line where lines went")
    proxy.process.send_signal(signal.SIGUSR1)
    until(lambda: '"the access log is opened anew"' in proxy.stderr(), "the file to be opened anew")
    for _ in range(8):
        proxy.ask(path="/after")
    until(lambda: path.read_text().count("/after") == 8, "all lines in the new file")
    assert "/after" not in renamed.read_text()
