#!/usr/bin/python3 -B
"""The table of spellings, table.yaml, and what docs/ shows of it.

    tests/servers/table.py [--write]    compares the tables in docs/ with it, or writes them anew
"""

import functools
import pathlib
import posixpath
import re
import sys

from urllib.parse import unquote

import yaml

from limited import LIMITED

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = {"flask": "Flask", "django": "Django", "go": "Go", "express": "Express", "node": "Node", "php": "PHP",
         "rack": "Rack 2"}
DOCUMENTS = {"docs/http.md": ("path", "method"), "docs/policy.md": ("header", "cookie", "parameter", "token")}
TITLES = {"path": "path", "method": "method, and fields that say another", "header": "header field",
          "cookie": "cookie", "parameter": "parameter", "token": "token"}
MARKS = "<!-- tests/servers/table.yaml: begin -->\n", "<!-- tests/servers/table.yaml: end -->"
LEFT = "left"


@functools.cache
def rows():
    return yaml.load((HERE / "table.yaml").read_text("utf-8"), yaml.CSafeLoader)["rows"]


def raw(row):
    """The bytes of the request of a row."""
    fields = ["Host: a.test", *row.get("fields", [])]
    return "\r\n".join([f"{row['request']} HTTP/1.1", *fields, "", ""]).encode("latin-1")


def limited_of(row):
    """The limited request that it is a spelling of."""
    handler, *identity = row["of"]
    return next(one for one in LIMITED if one.handler == handler and identity in ([], [one.identity]))


# --- what is left ---


def left():
    return [row for row in rows() if row["sluice"] == LEFT]


def _resolved(target):
    """The path that most servers see: decoded, without parameters, dots and repeated slashes."""
    path = "/".join(segment.partition(";")[0] for segment in unquote(target).split("/"))
    resolved = re.sub("^//", "/", posixpath.normpath(path))
    return resolved + "/" if re.search(r"/\.?\.?$", path) and resolved != "/" else resolved


def _is_in_another_case(path, known):
    return path.lower().rstrip("/") == known.lower().rstrip("/") and path.rstrip("/") != known.rstrip("/")


def _is_of(row, spelling):
    path = _resolved(spelling.target)
    if row["pattern"] == "case":
        return _is_in_another_case(path, _resolved(LIMITED[spelling.number].target))
    return re.search(row["pattern"], f"{spelling.method} {path}?{unquote(spelling.query or '')}") is not None


def find_left(found, server, is_careful, spelling):
    """The row of @found that says that this way is left to @server: with a careful policy, only what no line closes."""
    for row in found:
        is_open = not (is_careful and row.get("is_closed", True))
        if is_open and server in row["same_to"] and _is_of(row, spelling):
            return row
    return None


# --- the rows against what is seen ---


def faults_of_server(server, readings):
    """Where @server makes something else of the requests of the rows."""
    for row, reading in zip(rows(), readings):
        is_same = limited_of(row).is_reached_by(reading)
        if is_same != (server in row["same_to"]):
            yield f"{row['request']} {row.get('fields', '')}: {'' if is_same else 'not '}the same to {server}"


def faults_of_sluice(server, is_careful, responses):
    """The same of sluice before @server, where the buckets of all limited requests are empty: @responses has, of each
    row, its status and whether the limited handler was reached."""
    for row, (status, is_reached) in zip(rows(), responses):
        wanted = row["sluice"]
        if wanted == LEFT and is_careful and row.get("is_closed", True):
            wanted = "closed"
        holds = {
            "counted": status == 429, 400: status == 400, "closed": status in (400, 429),
            "passes": status not in (400, 429) and not is_reached,
            LEFT: status not in (400, 429) and is_reached == (server in row["same_to"])}[wanted]
        if not holds:
            yield f"{row['request']} {row.get('fields', '')}: {status}, reached: {is_reached}, and not: {wanted}"


# --- the documents ---


def _code(text):
    text = "".join(one if " " <= one <= "~" else f"\\x{ord(one):02x}" for one in text).replace("|", "\\|")
    return f"`{text}`"


def _shown(row):
    """The request without what all of its kind have."""
    if "shown" in row:
        return row["shown"]
    if row["kind"] == "parameter":
        return _code("?" + row["request"].partition("?")[2])
    if row["kind"] in ("header", "cookie", "token"):
        return ", ".join(map(_code, row["fields"]))
    return ", ".join(map(_code, [row["request"], *row.get("fields", [])]))


def _servers(row):
    if len(row["same_to"]) == len(NAMES):
        return "all"
    return ", ".join(NAMES[name] for name in row["same_to"]) or "none of them"


def _sluice(row):
    if row["sluice"] == LEFT:
        verb = "closed" if row.get("is_closed", True) else "bounded"
        return f"left, {row['why']}; {verb} by {_code(row['policy'])}"
    text = {"counted": "counted as that request", "passes": "another request"}.get(row["sluice"], str(row["sluice"]))
    return ", ".join([text, *filter(None, [row.get("why")])])


def text_for(kinds):
    """The tables of these kinds in Markdown."""
    lines = []
    for kind in kinds:
        lines += [f"| {TITLES[kind]} | the same request to | sluice |", "| --- | --- | --- |"]
        lines += [f"| {_shown(row)} | {_servers(row)} | {_sluice(row)} |" for row in rows() if row["kind"] == kind]
        lines.append("")
    return "\n".join(lines)


def main():
    is_written, n_wrong = "--write" in sys.argv[1:], 0
    for name, kinds in DOCUMENTS.items():
        path = ROOT / name
        text = path.read_text("utf-8")
        if MARKS[0] not in text:
            print(f"{name}: there is no line {MARKS[0].strip()}")
            n_wrong += 1
            continue
        before, rest = text.split(MARKS[0], 1)
        wanted = before + MARKS[0] + text_for(kinds) + MARKS[1] + rest.split(MARKS[1], 1)[1]
        if is_written:
            path.write_text(wanted, "utf-8")
        elif wanted != text:
            print(f"{name}: not what tests/servers/table.yaml says; tests/servers/table.py --write makes it so")
            n_wrong += 1
    return n_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
