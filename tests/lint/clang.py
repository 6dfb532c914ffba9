"""clang accepts each C file that the build knows, with the build's own warnings: the fuzz preset is built by
it, everything else by gcc. Called with the root, the build's folder, and I/N for the I-th of N parts, from 1."""

import collections
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import tree

FOLDERS = ("src", "tests", "bench")
SKIPPED = 77
# Files that no target has, each with the options it is checked with.
ALONE = {"tests/peers/evhttp.c": ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]}
# What says where the object goes, and what instruments it: neither changes what is accepted.
OPTIONS_WITH_A_VALUE = ("-o", "-MF", "-MT")
OTHER_OPTIONS = ("-c", "-MD", "-MMD", "--coverage")
OTHER_BEGINNINGS = ("-fsanitize", "-fno-sanitize")
# So many files of the same options are checked by one process: to begin takes clang as long as a file does.
TOGETHER = 16


def options_of(command):
    """The arguments of a compiler's command line that matter to the syntax, and the file."""
    words = iter(shlex.split(command)[1:])
    for word in words:
        if word in OPTIONS_WITH_A_VALUE:
            next(words)
        elif word not in OTHER_OPTIONS and not word.startswith(OTHER_BEGINNINGS):
            yield word


def commands(build):
    """Of each of our files: the folder, the options. A file in several targets is one."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = os.path.relpath(entry["file"], tree.root())
        if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            found[path] = (entry["directory"], list(options_of(entry["command"])))
    for path, options in ALONE.items():
        found[path] = (tree.root(), [*options, path])
    return found


class Accepted:
    """What clang has accepted before, below the build's folder: of each C file the contents of all that it includes,
    and how it was checked. It is not checked again while all of that is the same."""

    def __init__(self, clang, build):
        self._folder = os.path.join(build, "clang-accepted")
        self._started_ns = time.time_ns()
        self._hashes = {}
        version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
        # Another header of the same name may come to be found first: of ours, or of the system's.
        places = [os.stat(path).st_mtime_ns for path in ("/usr/include", "/usr/local/include") if os.path.exists(path)]
        self._how = [self._hash(__file__), self._hash(clang), version, places, tree.files(".h"),
                     [os.environ.get(name) for name in ("CPATH", "C_INCLUDE_PATH")]]

    def _hash(self, path):
        """Of the contents; None if there is no such file."""
        if path not in self._hashes:
            try:
                with open(path, "rb") as file:
                    self._hashes[path] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                self._hashes[path] = None
        return self._hashes[path]

    def _state(self, folder, options, paths):
        files = [[path, self._hash(os.path.join(folder, path))] for path in paths]
        return hashlib.sha256(json.dumps([self._how, folder, options, files]).encode()).hexdigest()

    def _note(self, path):
        return os.path.join(self._folder, path.replace("/", "-") + ".json")

    def has(self, path, folder, options):
        try:
            with open(self._note(path), encoding="utf-8") as file:
                noted = json.load(file)
        except (OSError, ValueError):
            return False
        return noted["state"] == self._state(folder, options, noted["paths"])

    def add(self, path, folder, options, paths):
        if any(os.stat(os.path.join(folder, one)).st_mtime_ns >= self._started_ns for one in paths):
            return  # it may not be what clang has read
        os.makedirs(self._folder, exist_ok=True)
        note = self._note(path)
        with open(note + ".new", "w", encoding="utf-8") as file:
            json.dump({"state": self._state(folder, options, paths), "paths": paths}, file)
        os.replace(note + ".new", note)


def check(clang, accepted, path, folder, options):
    """What clang says of one file that it does not accept."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as rule:
        result = subprocess.run([clang, "-fsyntax-only", "-MD", "-MF", rule.name, *options], cwd=folder,
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            return result.stderr
        paths = shlex.split(rule.read().replace("\\\n", " "))[1:]  # behind the target
    accepted.add(path, folder, options, paths)
    return ""


def accept_together(clang, accepted, known, folder, options):
    """Whether clang accepts all of these (path, its name in @folder), which have these options. What each includes
    stands in one list: a file before each begins its part with a header that nothing else includes."""
    names = [name for _, name in known]
    drive = [clang, "-###", "-fsyntax-only", *options, names[0]]
    told = subprocess.run(drive, cwd=folder, capture_output=True, text=True, check=True).stderr
    *inner, last = shlex.split(told.splitlines()[-1])
    if "-cc1" not in inner or last != names[0]:
        return False
    with tempfile.TemporaryDirectory() as mine:
        header, mark, included = (os.path.join(mine, name) for name in ("mark.h", "mark.c", "included"))
        for name, text in ((header, "extern int mark;\n"), (mark, '#include "mark.h"\n')):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        files = [file for name in names for file in (mark, name)]
        result = subprocess.run([*inner, "-header-include-file", included, "-sys-header-deps", *files], cwd=folder,
                                capture_output=True, check=False)
        if result.returncode != 0:
            return False
        with open(included, encoding="utf-8") as file:
            parts = f"\n{file.read()}".split(f"\n{header}\n")[1:]
    if len(parts) != len(names):
        return False
    for (path, name), part in zip(known, parts):
        accepted.add(path, folder, [*options, name], [name, *dict.fromkeys(part.splitlines())])
    return True


def findings(clang, build, number, count):
    known = commands(build)
    for path in tree.files(".c", folders=FOLDERS):
        if path not in known:
            yield f"{path}: no target of the build has it"
    accepted = Accepted(clang, build)
    groups = collections.defaultdict(list)
    for path, (folder, (*options, file)) in sorted(known.items()):
        groups[folder, tuple(options)].append((path, file))
    batches = [(how, files[at:at + TOGETHER]) for how, files in groups.items() for at in range(0, len(files), TOGETHER)]
    batches.sort(key=lambda batch: -len(batch[1]))
    for (folder, options), files in batches[number - 1::count]:
        fresh = [(path, file) for path, file in files if not accepted.has(path, folder, [*options, file])]
        if len(fresh) > 1 and accept_together(clang, accepted, fresh, folder, options):
            continue
        for path, file in fresh:
            said = check(clang, accepted, path, folder, [*options, file])
            if said:
                yield said


def main():
    clang = shutil.which("clang")
    if clang is None:
        print("clang is not installed")
        sys.exit(SKIPPED)
    tree.finish(list(findings(clang, sys.argv[2], *map(int, sys.argv[3].split("/")))))


main()
