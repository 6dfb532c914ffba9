"""`sluice check`: warnings, and docs/check.md, each of whose examples tells what stands there."""

import json
import os
import re
import subprocess

import pytest

from harness import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = re.compile(r"^### ([a-z-]+)\n(.*?)```yaml\n(.*?)```\n\n```\n(.*?)```", re.DOTALL | re.MULTILINE)
HEAD = "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
SPARE = HEAD + "limits: {a: {key: client.ip, rate: 1/s}}\nroutes: [{upstream: u}]\n"


def manual():
    with open(os.path.join(ROOT, "docs/check.md"), encoding="utf-8") as file:
        return file.read()


def kinds():
    result = program.command("check", "--list")
    assert (result.returncode, result.stderr) == (0, "")
    return [line.split(" ", 1)[0] for line in result.stdout.splitlines()]


@pytest.fixture(name="policy_file")
def file_of_a_policy(tmp_path, monkeypatch):
    """It is called as in the manual: policy.yaml, here."""
    def write(text, name="policy.yaml"):
        (tmp_path / name).write_text(text)
        return name
    monkeypatch.chdir(tmp_path)
    return write


@pytest.fixture(autouse=True)
def the_program_from_anywhere(monkeypatch):
    monkeypatch.setattr(program, "PROGRAM", os.path.abspath(program.PROGRAM))


# --- the manual ---


def test_the_manual_has_each_kind_once():
    assert sorted(re.findall(r"^### (.*)$", manual(), re.MULTILINE)) == sorted(kinds())
    assert len(EXAMPLE.findall(manual())) == len(kinds())


@pytest.mark.parametrize("kind, yaml, told", [(kind, yaml, told)
                                              for kind, _, yaml, told in EXAMPLE.findall(manual())])
def test_an_example_is_told_what_the_manual_says(policy_file, kind, yaml, told):
    result = program.command("check", policy_file(yaml))
    assert (result.returncode, result.stderr) == (0, told)
    assert f" [{kind}]\n" in told
    allowed = program.command("check", "--strict", "--allow", kind, "policy.yaml")
    assert f"[{kind}]" not in allowed.stderr


# --- options ---


def test_warnings_are_counted_and_do_no_harm(policy_file):
    result = program.command("check", policy_file(SPARE))
    assert result.returncode == 0
    assert result.stdout == "policy.yaml: ok: 1 routes, 1 limits, 1 upstreams, 2 warnings\n"


def test_strict_makes_warnings_a_failure(policy_file):
    result = program.command("check", "--strict", policy_file(SPARE))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith("policy.yaml: not ok: 2 warnings, and --strict\n")


def test_what_is_allowed_is_no_failure(policy_file):
    arguments = ["check", "--allow", "unused-limit", policy_file(SPARE), "--strict"]
    assert program.command(*arguments).returncode == 1
    result = program.command(*arguments, "--allow", "unlimited-route")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "policy.yaml: ok: 1 routes, 1 limits, 1 upstreams\n"


def test_json_is_one_array_of_all_files(policy_file):
    bad = policy_file(HEAD + "routes: [{upstream: v}]\n", "b\u00e4d.yaml")
    result = program.command("check", "--json", policy_file(SPARE), bad, "none.yaml")
    assert (result.returncode, result.stderr) == (1, "")
    told = json.loads(result.stdout)
    assert [(one["file"], one["severity"], one.get("kind")) for one in told] == [
        ("policy.yaml", "warning", "unused-limit"), ("policy.yaml", "warning", "unlimited-route"),
        (bad, "error", None), ("none.yaml", "error", None)]
    assert (told[0]["line"], told[0]["column"]) == (3, 10)
    assert told[0]["text"] == 'limit "a" is used by no route'
    assert told[3]["line"] == 0
    assert json.loads(program.command("check", "--json", policy_file(SPARE), "--allow", "unused-limit",
                                      "--allow", "unlimited-route").stdout) == []


@pytest.mark.parametrize("arguments", [["--strict"], ["--allow"], ["--allow", "nothing", "policy.yaml"],
                                       ["--json"], ["--list", "policy.yaml", "--allow"]])
def test_wrong_usage_ends_with_2(policy_file, arguments):
    policy_file(SPARE)
    result = program.command("check", *arguments)
    assert (result.returncode, result.stdout) == (2, "") and "sluice check" in result.stderr


@pytest.mark.parametrize("arguments", [["--stirct", "policy.yaml"], ["-x"]])
def test_an_option_that_is_not_known_is_no_file(arguments):
    result = program.command("check", *arguments)
    assert result.returncode == 2 and "usage: sluice check" in result.stderr


def test_what_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        result = subprocess.run([program.PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, text=True,
                                check=False, timeout=60)
    assert result.returncode == 1 and "standard output: No space" in result.stderr


def test_secrets_are_not_told(policy_file):
    result = program.command("check", policy_file(
        HEAD + "store: {redis: 'redis://:hunter2@127.0.0.1', secret: hunter2}\n"
        "routes: [{request: {set: {Authorization: hunter2}}, upstream: u}]\n"))
    assert result.stderr.count("[plain-secret]") == 3 and "hunter2" not in result.stderr


@pytest.mark.parametrize("server, told", [
    ("http://bob:hunter2@127.0.0.1:80", '"http://***@127.0.0.1:80": '),
    ("http://hunter2/@hunter2@127.0.0.1:80/x", '"http://***@127.0.0.1:80/x": '),
    ("http://" + "hunter2" * 20 + "@a.test", '"http://***@a.test": '),
    ("ftp://127.0.0.1", '"ftp://127.0.0.1": '), ("://hunter", '"://hunter": '),
])
def test_users_and_passwords_of_urls_are_not_told(policy_file, server, told):
    result = program.command("check", policy_file(
        f"listen: 127.0.0.1:0\nupstreams: {{u: {{servers: '{server}'}}}}\nroutes: [{{upstream: u}}]\n"))
    assert result.returncode == 1
    assert f"servers {told}" in result.stderr and "hunter2" not in result.stderr


def test_values_of_the_environment_are_not_told(policy_file):
    policy = policy_file(HEAD + "limits: {a: {key: header.x-a, rate: 1/s}}\nroutes:\n"
                         "  - {name: '${NAME}', limits: [a], upstream: u}\n"
                         "  - {name: 'x${NAME}', match: {method: GET}, upstream: u}\n")
    result = program.command("check", policy, env={"NAME": "hunter2"})
    assert result.returncode == 0 and "hunter2" not in result.stderr
    assert 'route "x${NAME}" can never match: route "${NAME}" before it' in result.stderr


def test_many_routes_are_checked_in_no_time(policy_file):
    routes = "".join(f"  - {{match: {{path: /v1/tenants/t{i}/**, method: [GET, POST]}}, upstream: u}}\n"
                     for i in range(19999))
    result = program.command("check", policy_file(
        HEAD + "routes:\n" + routes + "  - {match: {path: /v1/tenants/t77/x, method: GET}, upstream: u}\n"))
    assert result.returncode == 0 and 'route "route-78" before it' in result.stderr


def test_a_file_of_many_routes_takes_little_memory(policy_file):
    """What is read is bounded while it is read: 300,000 routes took 528 MB, and more with sanitizers."""
    policy_file("listen: 127.0.0.1:0\nroutes:\n" + "- {respond: {status: 204}}\n" * 300000)
    with subprocess.Popen([program.PROGRAM, "check", "policy.yaml"], stderr=subprocess.PIPE, text=True) as process:
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1
    assert told == "policy.yaml:20003:3: error: more than 20000 routes\n"
    assert usage.ru_maxrss < 250 * 1024


@pytest.mark.parametrize("policy", ["config/full.yaml", "config/quickstart.yaml", "config/redis.yaml",
                                    "docker/sluice/policy.yaml", "packaging/policy.yaml"])
def test_policies_that_come_with_the_program_are_clean(policy):
    result = program.command("check", "--strict", os.path.join(ROOT, policy))
    assert (result.returncode, result.stderr) == (0, "")
