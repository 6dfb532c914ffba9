"""The other commands: what they print and how they end."""

import glob
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import program
from harness.client import Client
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOOD = "listen: 127.0.0.1:0\nupstream: http://127.0.0.1:1\nlimit: 5/minute\n"


@pytest.fixture(name="policy_file")
def file_of_a_policy(tmp_path):
    def write(text, name="policy.yaml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)
    return write


# --- the program ---


def test_help_is_the_same_however_it_is_asked_for():
    result = program.command("--help")
    assert result.returncode == 0 and result.stderr == "" and "  check " in result.stdout
    for words in (["help"], ["-h"], ["help", "help"]):
        assert program.command(*words).stdout == result.stdout


def test_version_names_the_version_alone_on_the_first_line_and_then_the_licence():
    result = program.command("--version")
    assert result.returncode == 0
    assert re.fullmatch(r"sluice \d+\.\d+\.\d+\S*\nCopyright \(c\) \d{4} The sluice authors\. "
                        r"Licence: MIT\. .*\n", result.stdout)
    assert program.command("version").stdout == result.stdout


@pytest.mark.parametrize("arguments", [
    [], ["walk"], ["run"], ["run", "a", "b"], ["check"], ["script"], ["script", "a", "GET"],
    ["explain", "a", "GET"], ["schema", "a"], ["test"], ["check", "--list", "a"],
    ["echo", "nonsense"], ["echo", "127.0.0.1:1", "more"]])
def test_wrong_usage_ends_with_2_and_says_how_to_do_it(arguments):
    result = program.command(*arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert "sluice" in result.stderr


@pytest.mark.parametrize("arguments, line", [
    (["chek", "a"], 'sluice: unknown command "chek"; did you mean "check"?'),
    (["versoin"], 'sluice: unknown command "versoin"; did you mean "version"?'),
    (["walk"], 'sluice: unknown command "walk"; see sluice --help'),
    (["ctl", "walk"], 'sluice ctl: unknown word "walk"; see sluice ctl --help'),
    (["check", "--strcit", "a"], "sluice check: --strcit: no such option; did you mean --strict?"),
    (["check", "--colour=1", "a"], "sluice check: --colour=1: no such option"),
    (["check", "--strict=1", "a"], "sluice check: --strict=1: this option takes no value"),
    (["check", "-q", "a"], "sluice check: -q: no such option"),
    (["check", "a", "--allow"], "sluice check: --allow: its value is missing"),
    (["explain", "a", "GET", "/", "-H"], "sluice explain: -H: its value is missing")])
def test_a_word_that_is_not_known_is_answered_with_the_nearest(arguments, line):
    result = program.command(*arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.splitlines()[0] == line


# --- check ---


def test_check_accepts_a_good_policy(policy_file):
    path = policy_file(GOOD)
    result = program.command("check", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{path}: ok: 1 routes, 1 limits, 1 upstreams\n"


def test_check_tells_every_error_with_its_place(policy_file):
    bad = policy_file(GOOD.replace("minute", "minit") + "lmit: 1\n")
    good = policy_file(GOOD, "good.yaml")
    result = program.command("check", bad, good)
    assert result.returncode == 1
    assert f'{bad}:3:8: error: ' in result.stderr and 'did you mean "minute"?' in result.stderr
    assert f'{bad}:4:1: error: unknown key "lmit"' in result.stderr
    assert f"{good}: ok" in result.stdout


def test_check_of_a_file_that_is_not_there_fails(tmp_path):
    result = program.command("check", str(tmp_path / "none.yaml"))
    assert result.returncode == 1 and "none.yaml" in result.stderr


def test_run_with_a_bad_policy_fails_with_the_same_words(policy_file):
    bad = policy_file("listen: 127.0.0.1:0\nlimit: 5/minit\n")
    checked, run = program.command("check", bad), program.command("run", bad)
    assert run.returncode == 1 and run.stderr.startswith(checked.stderr)


@pytest.mark.parametrize("path", sorted(glob.glob(f"{ROOT}/config/*.yaml")), ids=os.path.basename)
def test_the_policies_in_config_are_good(path):
    result = program.command("check", path)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_variable_of_the_environment_is_expanded_and_never_shown(policy_file):
    path = policy_file(GOOD + "log: {to: '${LOG_FILE}'}\nworkers: ${WORKERS:-1}\n")
    assert program.command("check", path, env={"LOG_FILE": "/tmp/x"}).returncode == 0
    unset = program.command("check", path)
    assert unset.returncode == 1 and "LOG_FILE" in unset.stderr
    bad = program.command("check", path, env={"LOG_FILE": "/tmp/x", "WORKERS": "s3cret"})
    assert bad.returncode == 1 and "s3cret" not in bad.stderr


# --- script ---

LIMITS = """
listen: 127.0.0.1:0
store: {redis: "REDIS"}
limits:
  bucket: {key: [header.x-api-key | client.ip, path], rate: [2/hour, 100/day]}
  window: {key: method, algorithm: fixed_window, rate: 50/day}
routes:
  - {match: {path: /free}, limits: [], respond: {status: 204}}
  - {match: {path: /v1/**}, limits: [bucket, window], max_body: 1KiB, respond: {status: 204}}
  - {match: {path: /api/**}, limits: [window], strip_prefix: /api, upstream: api}
upstreams: {api: {servers: [http://127.0.0.1:1]}}
"""


def run_in_shell(text, folder):
    result = subprocess.run(["sh"], input=text, capture_output=True, text=True, cwd=folder,
                            timeout=30, check=True)
    assert result.stderr == ""
    return [int(line.split(" ")[-1]) for line in result.stdout.splitlines()]


def test_what_script_prints_runs_in_a_shell_and_decides(start_redis, policy_file, tmp_path):
    if shutil.which("redis-cli") is None:
        pytest.fail("redis-cli is not installed: see scripts/install-packages")
    redis = start_redis()
    path = policy_file(LIMITS.replace("REDIS", redis.url))
    request = ["GET", "http://a.test/v1/it's?x=1", "-H", "X-Api-Key: q'; echo 'x"]
    result = program.command("script", path, *request)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "folder"
    folder.mkdir()
    assert [run_in_shell(result.stdout, folder)[0] > 0 for _ in range(3)] == [True, True, False]
    assert len(redis.keys()) == 3
    assert not list(folder.iterdir())  # nothing is written where it runs


def test_script_writes_the_lua_where_it_is_told_to(start_redis, policy_file, tmp_path):
    path = policy_file(LIMITS.replace("REDIS", start_redis().url))
    lua = tmp_path / "it's.lua"
    result = program.command("script", path, "GET", "/v1/x", "-o", str(lua))
    assert (result.returncode, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    assert "redis.call" in lua.read_text()
    assert run_in_shell(result.stdout, tmp_path)[0] > 0
    result = program.command("script", path, "GET", "/v1/x", "-o", str(tmp_path / "none" / "lua"))
    assert result.returncode == 1 and "No such file" in result.stderr


def test_script_and_proxy_count_in_the_same_keys(start, start_redis, policy_file, tmp_path):
    redis = start_redis()
    text = LIMITS.replace("REDIS", redis.url)
    proxy = start("workers: 2\n" + text.replace('"}', '", deadline: 10s}', 1))
    until(lambda: proxy.stderr().count('msg="link up"') == 2, "the workers to reach Redis")
    assert [proxy.ask("GET", "/v1/x").status for _ in range(2)] == [204, 204]
    result = program.command("script", policy_file(text), "GET", "/v1/x", "--from", "127.0.0.1")
    assert run_in_shell(result.stdout, tmp_path)[0] < 0
    assert len([key for key in redis.keys() if b"{" in key]) == 3


@pytest.mark.parametrize("url, field, told", [
    ("/none", None, "404: no route matches"), ("/free", None, "no limit"), ("/v1/%2f", None, "400: the path"),
    ("/v1/x", "Content-Length: 1025", "413: the request's body is too large"),
    ("//api/x", None, "400: the prefix of the path"), ("/v1/x", "A B: c", "400: "),
])
def test_script_says_when_nothing_would_be_asked(policy_file, url, field, told):
    path = policy_file(LIMITS.replace("REDIS", "redis://127.0.0.1:1"))
    result = program.command("script", path, "GET", url, *(["-H", field] if field else []))
    assert result.returncode == 1 and result.stdout == "" and told in result.stderr


# --- echo ---


@pytest.fixture(name="echo")
def echo_server(tmp_path):
    with open(tmp_path / "echo", "wb") as out:
        process = subprocess.Popen([program.PROGRAM, "echo", "127.0.0.1:0"], stdout=out, stderr=out,
                                   env=program.environment())

    def port():
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", (tmp_path / "echo").read_text())
        return found and int(found.group(1))

    yield ("127.0.0.1", until(port, "echo to listen"))
    process.terminate()
    assert process.wait(20) == 0, (tmp_path / "echo").read_text()


def test_echo_answers_with_what_it_received(echo):
    with Client(echo) as client:
        for body in (b"hello", b"\"quoted\""):
            answer = client.ask("POST", "/x?y=z", [("X-A", "1"), ("X-A", "2")], body=body)
            assert answer.status == 200 and answer.get("Content-Type") == "application/json"
            told = answer.json()
            assert (told["method"], told["target"]) == ("POST", "/x?y=z")
            assert told["body"] == body.decode() and told["body_bytes"] == len(body)
            assert [value for name, value in told["headers"] if name == "X-A"] == ["1", "2"]


def test_echo_tells_what_it_received_as_json_whatever_that_is(echo):
    with Client(echo) as client:
        answer = client.ask("PATCH", "/%ff?x=\"", [("X-A", "\x01\xff")], body=b"\xff\x00" + b"x" * 100000)
        told = answer.json()
        assert (told["method"], told["target"], told["version"]) == ("PATCH", "/%ff?x=\"", "1.1")
        assert dict(told["headers"])["X-A"] == "\x01\ufffd"
        assert told["body"] == "\ufffd\x00" + "x" * 4094 and told["body_bytes"] == 100002
        assert client.ask("HEAD", "/").body == b""
        assert client.ask(path="/", fields=[("Connection", "close")]).status == 200
        assert client.has_ended()


def test_echo_sends_as_many_bytes_as_it_is_asked_for(echo):
    with Client(echo) as client:
        for n in (0, 100, 5000000):
            assert client.ask(path=f"/?bytes={n}").body == b"x" * n
        assert client.ask(path="/?bytes=none").json()["target"] == "/?bytes=none"


def test_the_demonstration_works_from_end_to_end(start, echo):
    proxy = start(f"upstream: http://127.0.0.1:{echo[1]}\nlimit: 3/hour\n")
    answers = [proxy.ask(path="/hello", fields={"X-Mine": "1"}) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    told = json.loads(answers[0].body)
    for field in (["X-Mine", "1"], ["X-Forwarded-For", "127.0.0.1"]):
        assert field in told["headers"]
