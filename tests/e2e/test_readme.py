"""README's commands, as they stand there: each block is run here, or named with the reason why not."""

import itertools
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from harness.client import Client
from harness.ports import free_port
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What is not run here, and what holds it instead.
NOT_RUN = {
    "bench/run": "takes minutes, and tells nothing on a busy machine",
    "scripts/test": "runs this",
    "cmake --preset release && cmake --build --preset release": "scripts/run does it",
}


def _blocks():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return [block.strip() for block in re.findall(r"```sh\n(.*?)```", file.read(), re.DOTALL)]


def _block(word):
    found = [block for block in _blocks() if word in block]
    assert len(found) == 1, f"README has {len(found)} blocks with {word}"
    return found[0]


def _answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _bash(script, **environment):
    result = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True,
                            timeout=120, check=False, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(name="running", scope="module")
def what_scripts_run_starts():
    for port in (8080, 8443, 9000, 9900):
        if _answers(port):
            pytest.skip(f"port {port}, which README names, is in use here")
    with subprocess.Popen([_block("scripts/run")], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as program:
        said = []
        for line in program.stdout:
            said.append(line)
            if "Ctrl-C stops" in line:
                break
        else:
            pytest.fail("scripts/run ended: " + "".join(said))
        yield "".join(said)
        program.send_signal(signal.SIGTERM)
        program.stdout.read()
        program.wait(timeout=60)
    until(lambda: not any(map(_answers, (8080, 8443, 9000, 9900))), "both have stopped")


def test_every_block_is_known():
    known = ["scripts/run", "curl -i ", "for i in", "check config/full.yaml", "redis-server",
             "explain config/full.yaml"]
    for block in _blocks():
        assert block in NOT_RUN or any(word in block for word in known), block


def test_the_first_request_is_answered_and_says_what_is_left(running):
    assert "curl -i http://127.0.0.1:8080/hello" in running
    assert "curl -i --cacert build/quickstart/cert.pem https://127.0.0.1:8443/hello" in running
    answer = _bash(_block("curl -i "))
    assert answer.startswith("HTTP/1.1 200 OK")
    assert re.search(r'^RateLimit: "per-client";r=9;t=1\r?$', answer, re.MULTILINE)
    assert re.search(r"^HTTP/2 200", answer, re.MULTILINE) and '"https"' in answer  # the upstream is told how it came


def test_the_page_is_named_and_there(running):
    assert "http://127.0.0.1:9900/ui/" in running
    with Client(("127.0.0.1", 9900)) as client:
        page = client.ask(path="/ui/", host="127.0.0.1:9900")
    assert page.status == 200 and page.get("Content-Type") == "text/html; charset=utf-8"


def test_a_dozen_requests_empty_the_bucket(running):
    assert running
    told = []

    def is_empty():  # not by one dozen, where that takes longer than two seconds
        told.append(_bash(_block("for i in")).replace("\r", ""))
        return "HTTP/1.1 429 " in told[-1]

    until(is_empty, "the bucket to be empty")
    assert "HTTP/1.1 200 OK" in told[0]
    answers = told[-1]
    assert 'HTTP/1.1 429 Too Many Requests\nRetry-After: 1\nRateLimit: "per-client";r=0;t=1' in answers


def test_check_accepts_the_full_policy():
    program = os.environ["SLUICE"]
    told = _bash(_block("check config/full.yaml").replace("build/release/sluice", program))
    assert told.startswith("config/full.yaml: ok")


def test_explain_names_the_route_and_the_limits():
    program = os.environ["SLUICE"]
    told = _bash(_block("explain config/full.yaml").replace("build/release/sluice", program))
    assert "route      login\n" in told and "per-client: 100 per 1m" in told


def _left(port, path, key):
    """What per-client.1h says is left."""
    with Client(("127.0.0.1", port)) as client:
        told = client.ask(path=path, fields={"X-API-Key": key}).get("RateLimit") or ""
    return [int(n) for n in re.findall(r'per-client\.1h";r=(\d+)', told)]


def _source(log, path):
    lines = [line for line in log.read_text().splitlines() if f" path={path} " in line]
    return re.findall(r" source=(\w+)", lines[0]) if lines else None


def test_two_proxies_share_one_limit(tmp_path):
    """Its policy gives Redis 20 ms: what was decided without it is asked for once more, with another key."""
    redis, first, second, backend = (free_port() for _ in range(4))
    script = _block("redis-server")
    for old, new in (("build/release/sluice", os.environ["SLUICE"]), ("6379", str(redis)),
                     ("8081", str(first)), ("8082", str(second))):
        assert old in script
        script = script.replace(old, new)
    script = f"""
        trap 'kill $(jobs -p); wait' EXIT
        trap 'exit 0' TERM
        "$SLUICE" echo 127.0.0.1:{backend} &
        {script}
        wait"""
    log = tmp_path / "log"
    keys = itertools.count()

    def is_shared():
        key = f"readme-{next(keys)}"
        began = time.monotonic()
        left = [_left(port, f"/{key}-{i}", key) for i, port in enumerate((first, second, first))]
        took_s = time.monotonic() - began
        sources = [until(lambda i=i: _source(log, f"/{key}-{i}"), "its line") for i in range(3)]
        if sources != [["redis"]] * 3 or took_s > 3.5:  # when one more is left
            return False
        assert left == [[499], [498], [497]]
        return True

    environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{redis}/0",
                   "BACKEND": f"http://127.0.0.1:{backend}"}
    with open(log, "wb") as out, subprocess.Popen(["bash", "-c", script], cwd=ROOT, stdout=out,
                                                  stderr=subprocess.STDOUT, env=environment) as shell:
        try:
            until(lambda: all(map(_answers, (redis, first, second, backend))), "all to listen")
            until(is_shared, "three decisions by Redis")
        finally:
            shell.terminate()
