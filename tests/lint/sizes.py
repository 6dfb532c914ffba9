"""A file that outgrows one idea is looked at again."""

import tree

MAX_SOURCE_LINES = 500
MAX_HEADER_LINES = 200

# Path, and why it may be longer.
EXEMPT = {}


def findings():
    for path in tree.files(".c", ".h", ".py", ".lua", ".sh"):
        most = MAX_HEADER_LINES if path.endswith(".h") else MAX_SOURCE_LINES
        n_lines = tree.text(path).count("\n")
        if n_lines > most and path not in EXEMPT:
            yield f"{path}: {n_lines} lines, more than {most}: part it, or exempt it with a reason"
    for path in EXEMPT:
        if not tree.exists(path):
            yield f"{path}: is exempt and does not exist"


tree.finish(list(findings()))
