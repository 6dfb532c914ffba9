"""clang accepts each C file that the build knows, with the build's own warnings: the fuzz preset is built by
it, everything else by gcc. Called with the root and the build's folder."""

import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys

import tree

AT_ONCE = 2  # as CMakeLists.txt says to ctest
FOLDERS = ("src", "tests", "bench")
SKIPPED = 77
# Files that no target has, each with the options it is checked with.
ALONE = {"tests/peers/evhttp.c": ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]}
# What says where the object goes, and what instruments it: neither changes what is accepted.
OPTIONS_WITH_A_VALUE = ("-o", "-MF", "-MT")
OTHER_OPTIONS = ("-c", "-MD", "-MMD", "--coverage")
OTHER_BEGINNINGS = ("-fsanitize", "-fno-sanitize")


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


def check(clang, folder, options):
    result = subprocess.run([clang, "-fsyntax-only", *options], cwd=folder, capture_output=True, text=True,
                            check=False)
    return result.stderr if result.returncode != 0 else ""


def findings(clang, build):
    known = commands(build)
    for path in tree.files(".c", folders=FOLDERS):
        if path not in known:
            yield f"{path}: no target of the build has it"
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for said in pool.map(lambda of: check(clang, *of), known.values()):
            if said:
                yield said


def main():
    clang = shutil.which("clang")
    if clang is None:
        print("clang is not installed")
        sys.exit(SKIPPED)
    tree.finish(list(findings(clang, sys.argv[2])))


main()
