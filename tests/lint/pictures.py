"""Each picture in docs/images is shown by a page of the manual, and made by a program: what a program of bench/pictures
draws, the .svg, is what it draws today, and docs/algorithms.md shows all of it: the pictures cannot say what the algorithms
do not. The .png are photographs of pages in Chromium, which tests/browser/pictures takes; they are small.

Arguments: the project's root, the program, a folder to draw into."""

import os
import re
import shutil
import subprocess
import sys

import tree

KEPT = "docs/images"
MANUAL = "docs/algorithms.md"
PHOTOGRAPHER = "tests/browser/pictures"
PHOTOGRAPH_BYTES_MAX = 200 * 1024


def drawn(program, folder):
    """Contents of the pictures as the program draws them, by name."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    subprocess.run([program, folder], check=True)
    return read_all(folder)


def read_all(folder):
    contents = {}
    for name in filter(lambda name: name.endswith(".svg"), os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            contents[name] = file.read()
    return contents


def drawing_findings(program, folder):
    now, kept = drawn(program, folder), read_all(os.path.join(tree.root(), KEPT))
    shown = set(re.findall(r"\]\(images/([^)]+\.svg)\)", tree.text(MANUAL)))
    for name in sorted(now.keys() | kept.keys()):
        if name not in now:
            yield f"{KEPT}/{name}: nothing draws it: remove it"
        elif kept.get(name) != now[name]:
            yield f"{KEPT}/{name}: is not what is drawn today: build/release/pictures {KEPT}"
    for name in sorted(now.keys() ^ shown):
        yield f"{MANUAL}: {name} is {'not shown' if name in now else 'shown and not drawn'}"


def photograph_findings():
    taken = set(re.findall(r'^    "([^"]+\.png)": ', tree.text(PHOTOGRAPHER), re.MULTILINE))
    kept = {name for name in os.listdir(os.path.join(tree.root(), KEPT)) if not name.endswith(".svg")}
    for name in sorted(taken ^ kept):
        yield f"{KEPT}/{name}: {'is not there' if name in taken else 'nothing makes it'}: see {PHOTOGRAPHER}"
    for name in sorted(kept):
        n_bytes = os.path.getsize(os.path.join(tree.root(), KEPT, name))
        if n_bytes > PHOTOGRAPH_BYTES_MAX:
            yield f"{KEPT}/{name}: {n_bytes} bytes, more than {PHOTOGRAPH_BYTES_MAX}: show less of the page"


def page_findings():
    """Of pages of the manual that show what is not there, and of pictures that none shows."""
    pages = {"README.md": "docs/images/", **{path: "images/" for path in tree.files(".md", folders=("docs",))}}
    kept = set(os.listdir(os.path.join(tree.root(), KEPT)))
    shown = set()
    for page, folder in pages.items():
        names = set(re.findall(r"\]\(" + folder + r"([^)/]+)\)", tree.text(page)))
        shown |= names
        for name in sorted(names - kept):
            yield f"{page}: {name} is not in {KEPT}"
    for name in sorted(kept - shown):
        yield f"{KEPT}/{name}: no page of the manual shows it"


tree.finish([*drawing_findings(*sys.argv[2:4]), *photograph_findings(), *page_findings()])
