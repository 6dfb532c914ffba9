"""The manual page and the shells' completions know every command, word and option that the program knows."""

import pathlib
import re
import subprocess

import pytest

from harness.program import PROGRAM

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
COMPLETIONS = [PACKAGING / "completion" / name for name in ("sluice.bash", "_sluice")]


def said(*words):
    ended = subprocess.run([PROGRAM, *words, "--help"], capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def commands():
    return re.findall(r"^  sluice ([a-z]+)", said(), re.MULTILINE)


def options():
    """Of each command, and all together where they are told apart from it."""
    return sorted(set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", said() + said("ctl") + said("replay"))))


def ctl_words():
    return re.findall(r"^  ([a-z]+) ", said("ctl"), re.MULTILINE)


def known(path):
    return re.sub(r"\\f[BIR]", " ", path.read_text().replace("\\-", "-"))


def test_there_is_something_to_know():
    assert {"run", "check", "ctl"} <= set(commands())
    assert {"--strict", "--from", "-H", "--socket"} <= set(options())
    assert {"health", "key"} <= set(ctl_words())


@pytest.mark.parametrize("path", [PACKAGING / "sluice.1", *COMPLETIONS], ids=lambda path: path.name)
def test_every_command_word_and_option_is_known(path):
    text = known(path)
    for word in commands() + ctl_words() + options():
        assert re.search(rf"(?<![\w-]){word}(?![\w-])", text), f"{word} is not in {path.name}"


def test_the_manual_page_is_well_formed():
    ended = subprocess.run(["man", "--warnings", "-l", PACKAGING / "sluice.1"], capture_output=True, text=True,
                           env={"MANROFFOPT": "-ww", "LC_ALL": "C", "MAN_KEEP_STDERR": "1", "PATH": "/usr/bin:/bin"},
                           check=True)
    assert ended.stderr == "" and "SIGUSR1" in ended.stdout


def test_bash_completes_commands_and_words():
    script = f"""
        source {COMPLETIONS[0]}
        ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; echo "${{COMPREPLY[*]}}"; }}
        ask sluice ex
        ask sluice ctl unb
        ask sluice check --st
    """
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[:3] == ["explain", "unban", "--strict"]
