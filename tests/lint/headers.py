"""Each header compiles alone, says first what it is, and is guarded by its name; each source includes
its own header first. Called with the root, the compiler and its flags."""

import os
import re
import subprocess
import sys

import tree


def guard_of(path):
    """include/base/span.h and include/base/utf8.h: SLUICE_BASE_SPAN_H, SLUICE_BASE_UTF8_H."""
    return "SLUICE_" + re.sub(r"[/.]", "_", path.split("/", 1)[1]).upper()


def name_of(path):
    """As it is included."""
    return path.split("/", 1)[1]


def header_findings(path):
    contents = tree.text(path)
    guard = guard_of(path)
    if not contents.startswith("/* "):
        yield f"{path}:1: the first line says what the header is"
    if f"\n#ifndef {guard}\n#define {guard}\n" not in contents:
        yield f"{path}: its guard is {guard}"
    command = sys.argv[2:] + ["-fsyntax-only", "-x", "c", "-include", name_of(path), os.devnull]
    result = subprocess.run(command, cwd=tree.root(), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield f"{path}: does not compile alone:\n{result.stderr}"


def source_findings(path):
    own = name_of(path)[:-2] + ".h"
    if not tree.exists(f"src/{own}"):
        own = f"{own.split('/')[0]}/{os.path.basename(own)}"
    first = next(tree.includes(path), None)
    has_own = tree.exists(f"include/{own}") or tree.exists(f"src/{own}")
    if has_own and (first is None or first[2] != own):
        yield f"{path}: includes \"{own}\" first"


def findings():
    for path in tree.files(".h", folders=("include", "src")):
        yield from header_findings(path)
    for path in tree.files(".c", folders=("src",)):
        yield from source_findings(path)


tree.finish(list(findings()))
