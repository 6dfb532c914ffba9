"""Every test that tests/unit/limit/README.md names is there, and every mistake that is tested stands in it."""

import re

import tree

INDEX = "tests/unit/limit/README.md"
FOLDER = "tests/unit/limit"
ALL_INDEXED = ("tests/unit/limit/test_mistakes.c", "tests/unit/limit/test_peers.c")


def tests_of(path):
    return set(re.findall(r"START_TEST\((\w+)\)", tree.text(path)))


def findings():
    named = set(re.findall(r"`([a-z0-9_]{20,})`", tree.text(INDEX)))
    there = set().union(*(tests_of(path) for path in tree.files(".c", folders=(FOLDER,))))
    for name in sorted(named - there):
        yield f"{INDEX}: there is no test {name}"
    for path in ALL_INDEXED:
        for name in sorted(tests_of(path) - named):
            yield f"{INDEX}: {name} of {path} is not in it"


tree.finish(list(findings()))
