"""docs/tutorial.md, from its first step to its last: what it says to save is saved, what it says to run is
run, and the answers are those that it shows."""

import os
import re
import subprocess

from harness import program
from harness.ports import free_port
from harness.wait import until

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "tutorial.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^(\w+):.*\n(?:[ #].*\n|\n)*", re.MULTILINE)
NAMED_PORTS = ("8080", "9000", "9900")
SHORT_FORM = ("upstream", "limit")
IN_FORCE = 'msg="the policy is in force"'


def sections_of(policy):
    return {found.group(1): found.group(0).rstrip("\n") + "\n" for found in SECTION.finditer(policy)}


def merged(policy, block):
    """Each section of the block replaces the one of its name; named sections replace the short form."""
    policy = {**policy, **sections_of(block)}
    return {name: text for name, text in policy.items() if "routes" not in policy or name not in SHORT_FORM}


class Walk:
    """Somebody who follows the page, in a folder of his own and with ports that are free here."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {port: str(free_port()) for port in NAMED_PORTS}
        self.policy = {}
        self.processes = []
        (folder / "bin").mkdir()
        (folder / "bin" / "sluice").symlink_to(program.PROGRAM)
        self.environment = program.environment({"PATH": f"{folder}/bin:{os.environ['PATH']}",
                                                "SLUICE_SECRET": "of a test"})

    def here(self, text):
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: self.ports.get(port.group(), port.group()), text)

    def log(self):
        return (self.folder / "run.log").read_text()

    def start(self, command):
        """A command that goes on until the end."""
        with open(self.folder / f"{command.split()[1]}.log", "wb") as out:
            self.processes.append(subprocess.Popen(self.here(command).split(), cwd=self.folder, stdout=out,
                                                   stderr=out, env=self.environment))
        until((self.folder / f"{command.split()[1]}.log").read_text, "a first line")

    def save(self, block):
        if block.startswith("policy:"):
            (self.folder / "api.test.yaml").write_text(block)
            return
        self.policy = merged(self.policy, block)
        n_before = self.log().count(IN_FORCE) if self.processes[1:] else 0
        (self.folder / "new.yaml").write_text(self.here("".join(self.policy.values())))
        os.rename(self.folder / "new.yaml", self.folder / "api.yaml")
        assert self.run("sluice check api.yaml 2>&1 >/dev/null") == ""
        if self.processes[1:]:
            until(lambda: self.log().count(IN_FORCE) > n_before, "the reload")

    def run(self, command):
        return subprocess.run(["bash", "-c", self.here(command)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False, env=self.environment).stdout

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(program.STOP_WITHIN_S)


def assert_is_as_shown(printed, shown):
    """But for what the page leaves out, and blanks."""
    printed, shown = (" ".join(text.split()) for text in (printed, shown))
    pattern = re.escape(shown).replace("…", ".*")
    assert re.fullmatch(pattern, printed), f"printed: {printed}"


def test_each_step_shows_what_happens(tmp_path):
    with open(PAGE, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    walk = Walk(tmp_path)
    printed = None
    n_shown = 0
    try:
        for language, block in blocks:
            if language == "yaml":
                walk.save(block)
            elif re.match(r"sluice (echo|run) ", block):
                walk.start(block)
            elif language == "sh":
                printed = walk.run(block)
            else:
                assert_is_as_shown(printed, block)
                n_shown += 1
    finally:
        walk.stop()
    assert n_shown >= 10
    assert not program.SANITIZER.search(walk.log()), walk.log()
