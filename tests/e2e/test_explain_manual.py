"""docs/explain.md: every command there tells what stands there."""

import os
import re
import shlex
import subprocess

import pytest

from harness import program
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"```sh\n(sluice .*?)\n```\n\n```\n(.*?)```", re.DOTALL)
STATE = re.compile(r"^    state  \d+ of (\d+) left: .*$", re.MULTILINE)


def blocks():
    with open(os.path.join(ROOT, "docs/explain.md"), encoding="utf-8") as file:
        return BLOCK.findall(file.read())


def run(command, **environment):
    words = shlex.split(command)
    assert words[0] == "sluice"
    return subprocess.run([program.PROGRAM, *words[1:]], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False, env=program.environment(environment)).stdout


def test_there_are_three():
    assert len(blocks()) == 3


@pytest.mark.parametrize("command, told", [block for block in blocks() if "--live" not in block[0]])
def test_a_command_tells_what_the_manual_says(command, told):
    assert run(command) == told


def without_state(text):
    """What does not change while a bucket fills."""
    return STATE.sub(r"state of \1", text).rsplit("answer", 1)[0]


def test_the_state_is_told_as_the_manual_says(start, start_redis):
    command, told = next(block for block in blocks() if "--live" in block[0])
    redis = start_redis()
    with open(os.path.join(ROOT, "config/redis.yaml"), encoding="utf-8") as file:
        policy = re.sub(r"deadline: \w+", "deadline: 5s", file.read())
    assert "workers:" not in policy
    proxy = start("workers: 1\n" + policy, env={"REDIS_URL": redis.url, "LISTEN": "127.0.0.1:0",
                                                "BACKEND": "http://127.0.0.1:1"})
    until(lambda: 'msg="link up"' in proxy.stderr(), "Redis")
    with proxy.connect() as client:
        statuses = [client.ask(fields={"X-API-Key": "k-1"}).status for _ in range(20)]
    assert statuses == [502] * 20
    said = run(command, REDIS_URL=redis.url)
    assert without_state(said) == without_state(told)
    assert re.search(r"state  48\d of 500 left: allows it; untouched in ", said)
    assert "state  480 of 500 left: allows it; untouched in 1m" in told
