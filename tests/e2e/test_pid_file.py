"""`sluice run --pid-file`: who may read, lock and replace the file, and who may not."""

import fcntl
import os
import stat
import subprocess

import pytest

from harness import program
from harness.wait import until

POLICY = "listen: 127.0.0.1:0\nroutes: [{respond: {status: 200}}]\n"


@pytest.fixture
def start_with(tmp_path):
    """Start a proxy with a pid file; its standard error goes to a file."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    processes = []

    def start(pid_path):
        err_path = tmp_path / f"stderr-{len(processes)}"
        with open(err_path, "wb") as err:
            process = subprocess.Popen(
                [program.PROGRAM, "run", "--pid-file", str(pid_path), str(tmp_path / "policy.yaml")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, env=program.environment())
        process.err_path = err_path
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
            assert process.wait(60) == 0, process.err_path.read_text()


def await_listening(process):
    def is_listening():
        assert process.poll() is None, process.err_path.read_text()
        return "msg=listening" in process.err_path.read_text()

    until(is_listening, "the proxy to listen", within=30)


def assert_refused(process, reason):
    assert process.wait(30) != 0
    assert reason in process.err_path.read_text()


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_file_is_for_its_owner_alone(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    process = start_with(pid_path)
    await_listening(process)
    assert pid_path.read_text() == f"{process.pid}\n"
    assert mode_of(pid_path) == 0o600


def test_a_file_of_an_earlier_run_becomes_private(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    pid_path.write_text("123456789\n")
    pid_path.chmod(0o644)
    process = start_with(pid_path)
    await_listening(process)
    assert pid_path.read_text() == f"{process.pid}\n"
    assert mode_of(pid_path) == 0o600


@pytest.mark.parametrize("kind", [fcntl.LOCK_SH, fcntl.LOCK_EX])
def test_a_lock_that_a_reader_can_take_does_not_keep_the_proxy_from_starting(tmp_path, start_with, kind):
    pid_path = tmp_path / "pid"
    pid_path.write_text("")
    with open(pid_path, "rb") as reader:
        fcntl.flock(reader, kind | fcntl.LOCK_NB)
        await_listening(start_with(pid_path))


def test_a_symbolic_link_is_not_followed(tmp_path, start_with):
    target = tmp_path / "precious"
    target.write_text("precious\n")
    pid_path = tmp_path / "pid"
    pid_path.symlink_to(target)
    assert_refused(start_with(pid_path), "cannot write the pid file")
    assert target.read_text() == "precious\n"


def test_a_hard_link_is_not_written_to(tmp_path, start_with):
    target = tmp_path / "precious"
    target.write_text("precious\n")
    pid_path = tmp_path / "pid"
    os.link(target, pid_path)
    assert_refused(start_with(pid_path), "cannot write the pid file")
    assert target.read_text() == "precious\n"


def test_what_is_no_regular_file_is_refused(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    os.mkfifo(pid_path)
    assert_refused(start_with(pid_path), "cannot write the pid file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_file_of_another_user_is_refused(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    pid_path.write_text("")
    os.chown(pid_path, 65534, 65534)
    assert_refused(start_with(pid_path), "cannot write the pid file")


def test_a_second_process_with_the_same_file_is_refused(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    first = start_with(pid_path)
    await_listening(first)
    assert_refused(start_with(pid_path), "another process that runs has it")
    assert pid_path.read_text() == f"{first.pid}\n"


def test_the_file_goes_with_its_process(tmp_path, start_with):
    pid_path = tmp_path / "pid"
    process = start_with(pid_path)
    await_listening(process)
    process.terminate()
    assert process.wait(60) == 0
    assert not pid_path.exists()
