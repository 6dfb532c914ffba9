"""A file that outgrows one idea is looked at again, and a line that outgrows its page is broken."""

import re

import tree

MAX_SOURCE_LINES = 800
MAX_HEADER_LINES = 200
MAX_COLUMNS = 100
MAX_PROSE_COLUMNS = 120
MAX_README_LINES = 200

# Path, and why it may be longer.
EXEMPT = {}

# A row of a table, a heading or a picture is one line; code is as it is.
ONE_LINE = re.compile(r"^\s*[|#!]")
CODE = re.compile(r"^\s*```.*?^\s*```$", re.MULTILINE | re.DOTALL)
UNBROKEN = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)")

GENERATED = ("docs/performance.md",)

# What cannot be broken: an address, or a string that is alone on its line.
WHOLE = re.compile(r'https?://|^\s*"(?:\\.|[^"\\])*"[,;)}]*$')


def length_findings():
    for path in tree.files(".c", ".h", ".py", ".lua", ".sh"):
        most = MAX_HEADER_LINES if path.endswith(".h") else MAX_SOURCE_LINES
        n_lines = tree.text(path).count("\n")
        if n_lines > most and path not in EXEMPT:
            yield f"{path}: {n_lines} lines, more than {most}: part it, or exempt it with a reason"
    for path in EXEMPT:
        if not tree.exists(path):
            yield f"{path}: is exempt and does not exist"


def readme_findings():
    n_lines = tree.text("README.md").count("\n")
    if n_lines > MAX_README_LINES:
        yield f"README.md: {n_lines} lines, more than {MAX_README_LINES}: docs/ has room for detail"


def width_findings():
    for path in tree.files(".c", ".h", ".lua"):
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if len(line) > MAX_COLUMNS and not WHOLE.search(line):
                yield f"{path}:{number}: {len(line)} columns, more than {MAX_COLUMNS}: break it"


def prose_findings():
    """A paragraph is broken where it may be: not within code or a link."""
    for path in tree.files(".md", folders=("docs",)):
        if path in GENERATED:
            continue
        text = CODE.sub(lambda code: "\n" * code.group(0).count("\n"), tree.text(path))
        for number, line in enumerate(text.split("\n"), 1):
            parts = UNBROKEN.sub("x", line).split()
            if len(line) > MAX_PROSE_COLUMNS and len(parts) > 1 and not ONE_LINE.match(line):
                yield f"{path}:{number}: {len(line)} columns, more than {MAX_PROSE_COLUMNS}: break it"


tree.finish(list(prose_findings()) + list(length_findings()) + list(readme_findings()) + list(width_findings()))
