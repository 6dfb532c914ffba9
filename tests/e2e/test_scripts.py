"""What the scripts beside the sources do that is not in the README."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

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


# --- packages ---

# What stands for Debian's tools: the packages are lines of a file, each with its unit.
TOOLS = {
    "dpkg-query": """
        case $1 in
          --show) sed "s/^/installed /" installed ;;
          --listfiles) shift; for name; do
              printf '/usr/bin/%s\\n/lib/systemd/system/%s.service\\n/etc/init.d/%s\\n' $name $name $name
            done ;;
        esac
        """,
    "systemctl": 'echo "systemctl $*" >>calls',
    "update-rc.d": 'echo "update-rc.d $*" >>calls',
    # What apt-get does: it asks the policy, and installs.
    "install": """
        policy=0
        ./policy-rc.d redis-server start || policy=$?
        echo "policy $policy" >>calls
        for name; do echo "$name" >>installed; done
        """,
}


@pytest.fixture(name="machine")
def _machine(tmp_path):
    (tmp_path / "bin").mkdir()
    for name, text in TOOLS.items():
        (tmp_path / "bin" / name).write_text("#!/bin/bash\nset -e\n" + text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "installed").write_text("redis-server\n")
    return tmp_path


def _heed_hangups():
    """A shell sets no trap for a signal that was ignored when it began, as nohup has it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _without_services(machine, *command):
    return subprocess.Popen([LIB / "without-services", *command], cwd=machine, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_hangups,
                            env={"PATH": f"{machine}/bin:{os.environ['PATH']}",
                                 "POLICY_RC_D": str(machine / "policy-rc.d")})


def _calls(machine):
    path = machine / "calls"
    return path.read_text().splitlines() if path.exists() else []


def _has_no_policy(machine):
    return not [path for path in machine.iterdir() if path.name.startswith("policy-rc.d")]


def test_services_of_new_packages_alone_are_neither_started_nor_enabled(machine):
    out, err = (process := _without_services(machine, "install", "nginx", "prometheus")).communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == ("installed: nginx prometheus\n"
                   "neither started nor enabled: nginx.service prometheus.service\n")
    assert _calls(machine) == [
        "policy 101", "update-rc.d nginx disable", "update-rc.d prometheus disable",
        "systemctl --quiet --no-reload disable nginx.service prometheus.service"]
    assert _has_no_policy(machine)


def test_where_nothing_is_new_nothing_is_disabled(machine):
    out, _ = (process := _without_services(machine, "true")).communicate(timeout=60)
    assert (process.returncode, out) == (0, "") and not _calls(machine) and _has_no_policy(machine)


def test_a_failure_is_passed_on_and_leaves_no_policy_behind(machine):
    out, _ = (process := _without_services(machine, "bash", "-c", "install nginx; exit 7")).communicate(timeout=60)
    assert process.returncode == 7 and "nginx" in out and _has_no_policy(machine)
    assert "update-rc.d nginx disable" in _calls(machine)


def test_a_policy_of_the_machine_is_there_again_afterwards(machine):
    policy = machine / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    for command in (["install", "nginx"], ["false"]):
        _without_services(machine, *command).communicate(timeout=60)
        assert policy.read_text() == "#!/bin/sh\nexit 104\n" and len(list(machine.glob("policy-rc.d*"))) == 1
    assert _calls(machine)[0] == "policy 101"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_policy(machine, number):
    process = _without_services(machine, "bash", "-c", "echo begun; read -r || true")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    process.communicate(timeout=60)  # which ends what it runs
    assert process.returncode == 128 + number and _has_no_policy(machine)


def test_what_a_killed_run_left_behind_is_mended_by_the_next(machine):
    policy = machine / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    process = _without_services(machine, "bash", "-c", "echo begun; read -r")
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate()
    assert "exit 101" in policy.read_text()
    _without_services(machine, "true").communicate(timeout=60)
    assert policy.read_text() == "#!/bin/sh\nexit 104\n" and len(list(machine.glob("policy-rc.d*"))) == 1


def _run_tests(tmp_path, tests):
    """What run_tests makes of @tests: names, and what they run."""
    lines = [f"""add_test({name} "/bin/sh" "-c" [[{command}]])\n""" for name, command in tests.items()]
    (tmp_path / "CTestTestfile.cmake").write_text("".join(lines), encoding="ascii")
    script = f"set -euo pipefail; say() {{ echo \"$@\"; }}; source {LIB}/tests.sh; run_tests {tmp_path} --parallel 4"
    return subprocess.run(["bash", "-c", script], text=True, capture_output=True, timeout=60, cwd=tmp_path)


ONCE = "[ -e again ] || { touch again; exit 1; }"


def test_a_test_that_fails_beside_others_has_to_hold_alone(tmp_path):
    result = _run_tests(tmp_path, {"holds": "echo >>ran", "once": ONCE})
    assert result.returncode == 0 and "again, one at a time" in result.stdout
    assert (tmp_path / "ran").read_text() == "\n"  # what held is not asked again


@pytest.mark.parametrize("tests", [
    pytest.param({"holds": "true", "fails": "exit 1"}, id="always"),
    pytest.param({"reports": "echo ERROR: AddressSanitizer: heap-use-after-free >&2; " + ONCE}, id="a-report"),
    pytest.param({f"once_{i}": ONCE.replace("again", f"again_{i}") for i in range(9)}, id="too-many"),
])
def test_a_fault_stays_one(tmp_path, tests):
    assert _run_tests(tmp_path, tests).returncode != 0


def test_tests_that_hold_run_once(tmp_path):
    result = _run_tests(tmp_path, {"holds": "echo >>ran"})
    assert result.returncode == 0 and "again" not in result.stdout
    assert (tmp_path / "ran").read_text() == "\n"


def test_no_tests_are_no_success_of_before(tmp_path):
    """What failed in an earlier run is forgotten."""
    _run_tests(tmp_path, {"fails": "exit 1"})
    (tmp_path / "CTestTestfile.cmake").write_text("what(is this", encoding="ascii")
    script = f"set -euo pipefail; say() {{ echo \"$@\"; }}; source {LIB}/tests.sh; run_tests {tmp_path}"
    assert subprocess.run(["bash", "-c", script], capture_output=True, timeout=60).returncode != 0
