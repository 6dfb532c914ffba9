"""The manual page and the shells' completions know every command, word and option, and no others."""

import pathlib
import re
import subprocess

import pytest

from harness import program

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
BASH = PACKAGING / "completion" / "sluice.bash"
ZSH = PACKAGING / "completion" / "_sluice"
OPTION = r"(?<![\w-])--?[A-Za-z][a-z0-9-]*"


def help_of(*words):
    ended = program.command("help", *words)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def options_of(command):
    return set(re.findall(r"^  (?:-h, )?(--?[A-Za-z][a-z0-9-]*)", help_of(command), re.MULTILINE))


WORDS_OF_HELP = {"help", "version"}
COMMANDS = sorted(re.findall(r"^  ([a-z]+) ", help_of(), re.MULTILINE))
TAKING_OPTIONS = [name for name in COMMANDS if name not in WORDS_OF_HELP]
CTL_WORDS = re.findall(r"^  (tenant [a-z]+|[a-z]+) ", help_of("ctl"), re.MULTILINE)
FIRST_WORDS = {word.split()[0] for word in CTL_WORDS}


def arguments_of(word):
    """Of a word of ctl: those in capitals are to be replaced, the others stand as they are."""
    usage = program.command("ctl", *word.split(), "--help").stdout.splitlines()[0]
    return usage.removeprefix(f"usage: sluice ctl {word} [OPTION]...").strip()


FIXED_ARGUMENTS = [(word, fixed) for word in CTL_WORDS for fixed in re.findall(r"\b[a-z]+\b", arguments_of(word))]


def test_there_is_something_to_know():
    assert {"run", "check", "ctl", "help", "version"} <= set(COMMANDS)
    assert {"--from", "-H", "--live"} <= options_of("explain")
    assert {"health", "key", "status"} <= set(CTL_WORDS)


# --- the program tells of itself ---


@pytest.mark.parametrize("word", sorted(WORDS_OF_HELP))
def test_help_and_version_have_help_too(word):
    ended = program.command(word, "--help")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, help_of(), "")


@pytest.mark.parametrize("command", TAKING_OPTIONS)
def test_a_command_tells_its_options(command):
    told = help_of(command)
    for spelling in ("--help", "-h"):
        ended = program.command(command, spelling)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, told, "")
    assert told.startswith(f"usage: sluice {command} [OPTION]...") and "--help" in told
    wrong = program.command(command, "--none-such")
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert "--none-such" in wrong.stderr and f"see sluice {command} --help" in wrong.stderr


@pytest.mark.parametrize("word", CTL_WORDS)
def test_a_word_of_ctl_tells_its_arguments(word):
    ended = program.command("ctl", *word.split(), "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: sluice ctl {word} [OPTION]...") and "--socket" in ended.stdout
    assert ended.stdout == help_of("ctl", *word.split())


def test_help_of_what_there_is_not_fails():
    for words in (["walk"], ["ctl", "walk"]):
        ended = program.command("help", *words)
        assert ended.returncode == 2 and '"walk"' in ended.stderr and ended.stdout == ""


# --- the manual page ---


def man_paragraphs():
    """The text on each command in the manual page."""
    text = (PACKAGING / "sluice.1").read_text().replace("\\-", "-")
    text = re.search(r"^\.SH COMMANDS\n(.*?)^\.SH ", text, re.MULTILINE | re.DOTALL).group(1)
    text = re.sub(r"\\f[BIR]", " ", text)
    return {re.match(r"\.BR? (\w+)", part).group(1): part for part in text.split(".TP\n") if part}


def test_the_manual_page_has_every_command():
    assert sorted(man_paragraphs()) == COMMANDS


@pytest.mark.parametrize("command", TAKING_OPTIONS)
def test_the_manual_page_has_every_option_and_no_other(command):
    found = set(re.findall(OPTION, man_paragraphs()[command]))
    assert found | {"--help"} == options_of(command)


def test_the_manual_page_has_every_word_of_ctl():
    text = man_paragraphs()["ctl"]
    for word in CTL_WORDS:
        shown = text.replace("tenant\\ ", "tenant ")
        assert re.search(rf"^\.BR? {word}\b", shown, re.MULTILINE), word


@pytest.mark.parametrize("word", CTL_WORDS)
def test_the_manual_page_has_the_arguments_of_a_word_of_ctl(word):
    text = re.sub(r'^\.[BIR]+ |[\\"\s]', "", man_paragraphs()["ctl"], flags=re.MULTILINE)
    shown = re.sub(r"\s", "", arguments_of(word))
    joined = word.replace(" ", "")
    assert re.search(rf"(?:,|are|and){joined}{re.escape(shown)}(?:[,;]|and)", text), text


def test_the_manual_page_is_well_formed():
    ended = subprocess.run(["man", "--warnings", "-l", PACKAGING / "sluice.1"], capture_output=True, text=True,
                           env={"MANROFFOPT": "-ww", "LC_ALL": "C", "MAN_KEEP_STDERR": "1", "PATH": "/usr/bin:/bin"},
                           check=True)
    assert ended.stderr == "" and "SIGUSR1" in ended.stdout


# --- completion ---


def complete_in_bash(*words):
    """What bash offers for the last word."""
    script = f"""
        source {BASH}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; echo "${{COMPREPLY[*]}}"
    """
    ended = subprocess.run(["bash", "-c", script, "bash", "sluice", *words], capture_output=True, text=True,
                           check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize("command", TAKING_OPTIONS)
def test_bash_completes_the_options_of_a_command(command):
    assert complete_in_bash(command, "-") == options_of(command)


def test_bash_completes_commands_and_words():
    assert complete_in_bash("") == {*COMMANDS, "--help", "--version"}
    assert complete_in_bash("help", "") == set(COMMANDS) - WORDS_OF_HELP
    assert {word for word in complete_in_bash("ctl", "") if not word.startswith("-")} == FIRST_WORDS
    assert {f"tenant {word}" for word in complete_in_bash("ctl", "tenant", "")} <= set(CTL_WORDS)
    assert complete_in_bash("ctl", "unb") == {"unban"}


@pytest.mark.parametrize("word, fixed", FIXED_ARGUMENTS)
def test_shells_complete_the_fixed_arguments_of_a_word_of_ctl(word, fixed):
    assert ("policy", "defaults") in FIXED_ARGUMENTS
    assert complete_in_bash("ctl", word, "") == {fixed}
    assert re.search(rf"== {word} \]\] && words=\({fixed}\)", zsh_branch("ctl"))


def zsh_branch(command):
    """What the completion of zsh says of a command."""
    found = re.search(rf"^    {command}\)(.*?);;", ZSH.read_text(), re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


@pytest.mark.parametrize("command", TAKING_OPTIONS)
def test_zsh_completes_the_options_of_a_command(command):
    found = set(re.findall(r"'(?:\([^)]*\))?\*?(--?[A-Za-z][a-z0-9-]*)\[", zsh_branch(command)))
    assert found | {"--help"} == options_of(command)


def test_zsh_completes_commands_and_words():
    text = ZSH.read_text()
    assert sorted(re.findall(r"^    '([a-z]+):", text, re.MULTILINE)) == COMMANDS
    words = re.search(r"^  words=\((.*?)\)$", text, re.MULTILINE | re.DOTALL).group(1)
    assert sorted(words.split()) == sorted(FIRST_WORDS)
