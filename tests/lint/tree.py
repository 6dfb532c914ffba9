"""The files of the project as the lint tests see them, and how a finding is told."""

import os
import re
import sys

FOLDERS = ("include", "src", "tests", "bench", "scripts", ".ci", "docker")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def root():
    """The project's folder: the first argument, or the one these tests lie in."""
    if len(sys.argv) > 1:
        return os.path.abspath(sys.argv[1])
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*endings, folders=FOLDERS):
    """Paths below the root, sorted, with one of the endings."""
    found = []
    for folder in folders:
        for path, subfolders, names in os.walk(os.path.join(root(), folder)):
            subfolders[:] = [name for name in subfolders if name != "__pycache__"]
            found += [os.path.join(path, name) for name in names if name.endswith(endings)]
    return sorted(os.path.relpath(path, root()) for path in found)


def text(path):
    with open(os.path.join(root(), path), encoding="utf-8") as file:
        return file.read()


def _blank(match):
    """What is cut out leaves its line ends behind, so that line numbers stay true."""
    return " " + "\n" * match.group(0).count("\n")


def code(path):
    """A C file without its comments and the contents of its strings."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, _blank, text(path), flags=re.DOTALL)


def line_at(contents, offset):
    return contents.count("\n", 0, offset) + 1


def includes(path):
    """(line, '<' or '"', header) of each include."""
    contents = text(path)
    for match in INCLUDE.finditer(contents):
        yield line_at(contents, match.start(1)), match.group(1), match.group(2)


def exists(path):
    return os.path.exists(os.path.join(root(), path))


def finish(findings):
    """Tell the findings and end: 1 if there are any."""
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)
