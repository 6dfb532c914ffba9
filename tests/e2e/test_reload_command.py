"""`sluice reload`: it waits for the outcome and ends with it, with `run --control` and no admin in the policy."""

import os
import re
import signal
import stat
import time

import pytest

from harness import program
from harness.admin import addresses, ctl
from harness.wait import until

ROUTE = "routes: [{{respond: {{status: 200, body: {}}}}}]\n"


@pytest.fixture(name="control")
def _control(tmp_path):
    return str(tmp_path / "control.sock")


@pytest.fixture(name="proxy")
def _proxy(start, control):
    proxy = start(ROUTE.format("one"), options=["--control", control])
    addresses(proxy)
    return proxy


def reload(control, *options):
    return program.command("reload", "--socket", control, *options)


def write(proxy, text):
    (proxy.folder / "policy.yaml").write_text("listen: 127.0.0.1:0\n" + text)


def failed(result, *reasons):
    assert result.returncode == 1 and result.stdout == "", (result.stdout, result.stderr)
    for reason in reasons:
        assert reason in result.stderr, result.stderr


def test_a_good_policy_is_in_force_when_it_returns(proxy, control):
    write(proxy, ROUTE.format("two"))
    result = reload(control)
    assert (result.returncode, result.stdout, result.stderr) == (0, "reloaded: generation 2 is in force\n", "")
    assert proxy.ask().body == b"two"


def test_a_bad_policy_fails_with_its_errors_and_the_one_before_goes_on(proxy, control):
    write(proxy, ROUTE.format("two") + "limit: 5/minit\n")
    path = proxy.folder / "policy.yaml"
    failed(reload(control), f'{path}:3:8: error: ', 'did you mean "minute"?', "not reloaded")
    assert proxy.ask().body == b"one"


def test_a_policy_that_cannot_be_served_fails(proxy, control):
    host, port = proxy.address
    write(proxy, f"admin: {host}:{port}\n" + ROUTE.format("two"))
    failed(reload(control), "error: ", "not reloaded")
    write(proxy, ROUTE.format("two") + "log: {to: /no/such/folder/access.log}\n")
    failed(reload(control), "error: ", "not reloaded")
    assert proxy.ask().body == b"one"


def test_a_policy_that_cannot_be_read_fails(proxy, control):
    path = proxy.folder / "policy.yaml"
    path.unlink()
    failed(reload(control), f"{path}: error: cannot be read: No such file", "not reloaded")
    path.mkdir()
    failed(reload(control), f"{path}: error: ", "not reloaded")
    assert proxy.ask().body == b"one"


def test_without_a_process_it_fails(proxy, control):
    proxy.kill()
    failed(reload(control), f"{control}: Connection refused")  # the file was left behind
    os.unlink(control)
    failed(reload(control), f"{control}: No such file or directory")


def test_a_process_that_hangs_is_waited_for_so_long_and_no_longer(proxy, control):
    proxy.signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        failed(reload(control, "--timeout", "1s"), f"{control}: no answer in time", "is not known")
    finally:
        proxy.signal(signal.SIGCONT)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("text", ["0s", "soon", "5"])
def test_a_timeout_is_a_time(proxy, control, text):
    failed(reload(control, "--timeout", text), "--timeout")


# --- the socket ---


def test_the_socket_is_for_its_owner_alone_and_goes_with_its_process(proxy, control):
    assert stat.S_IMODE(os.stat(control).st_mode) == 0o600
    proxy.stop()
    assert not os.path.exists(control)


def test_the_start_and_the_status_name_it(proxy, control):
    until(lambda: re.search(rf" msg=started .* admin=\S* control=unix:{control} store=", proxy.stderr()), "the line")
    status = program.command("ctl", "status", "--socket", control)
    assert re.search(rf"^control +unix:{control}$", status.stdout, re.MULTILINE), status.stdout + status.stderr


def test_a_second_process_does_not_take_it(proxy, control):
    second = program.command("run", "--control", control, str(proxy.folder / "policy.yaml"))
    assert second.returncode == 1 and "another process listens there" in second.stderr
    assert reload(control).returncode == 0


def test_a_socket_that_was_left_behind_is_replaced(start, proxy, control):
    proxy.kill()
    addresses(start(ROUTE.format("one"), options=["--control", control]))
    assert reload(control).returncode == 0


def test_a_path_that_is_too_long_is_refused(tmp_path):
    result = program.command("run", "--control", "/tmp/" + 120 * "x", str(tmp_path / "policy.yaml"))
    assert result.returncode == 2 and "--control" in result.stderr


def test_a_path_that_the_policy_has_for_admin_is_refused(control, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"listen: 127.0.0.1:0\nadmin: ['unix:{tmp_path}/admin.sock', 'unix:{control}']\n" + ROUTE.format("one"))
    result = program.command("run", "--control", control, str(policy))
    assert result.returncode == 1 and f"{control} is also an address of admin" in result.stderr
    assert "another process" not in result.stderr and not os.path.exists(control)


def test_all_of_ctl_is_there_and_outlives_the_admin_of_policies(proxy, control, tmp_path):
    place = str(tmp_path / "admin.sock")
    assert "generation 1" in ctl(control, "status").stdout
    write(proxy, f"admin: unix:{place}\n" + ROUTE.format("two"))
    assert reload(control).returncode == 0
    assert ctl(place, "ready").returncode == 0  # without a restart
    write(proxy, ROUTE.format("three"))
    assert reload(control).returncode == 0
    assert not os.path.exists(place)
    assert "generation 3" in ctl(control, "status").stdout
