"""docs/images is what the program of bench/pictures draws today, and docs/algorithms.md shows all of it:
the pictures cannot say what the algorithms do not.

Arguments: the project's root, the program, a folder to draw into."""

import os
import re
import shutil
import subprocess
import sys

import tree

KEPT = "docs/images"
MANUAL = "docs/algorithms.md"


def drawn(program, folder):
    """Contents of the pictures as the program draws them, by name."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    subprocess.run([program, folder], check=True)
    return read_all(folder)


def read_all(folder):
    contents = {}
    for name in filter(lambda name: name.endswith(".svg"), os.listdir(folder)):  # others are photographs
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            contents[name] = file.read()
    return contents


def findings(program, folder):
    now, kept = drawn(program, folder), read_all(os.path.join(tree.root(), KEPT))
    shown = set(re.findall(r"\]\(images/([^)]+)\)", tree.text(MANUAL)))
    for name in sorted(now.keys() | kept.keys()):
        if name not in now:
            yield f"{KEPT}/{name}: nothing draws it: remove it"
        elif kept.get(name) != now[name]:
            yield f"{KEPT}/{name}: is not what is drawn today: build/release/pictures {KEPT}"
    for name in sorted(now.keys() ^ shown):
        yield f"{MANUAL}: {name} is {'not shown' if name in now else 'shown and not drawn'}"


tree.finish(list(findings(*sys.argv[2:4])))
