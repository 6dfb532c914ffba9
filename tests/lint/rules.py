"""The table of rules in docs/http.md has each of them once, in order, with exactly the tests that bear its
number."""

import re

import tree

MANUAL = "docs/http.md"
N_RULES = 78

ROW = re.compile(r"^\| (\d+) \|.*\| ([^|]*) \|$", re.MULTILINE)
TEST = re.compile(r"(?:START_TEST\(|^def test_)(rule_(\d\d)_\w+)", re.MULTILINE)


def tests():
    """Names of the tests, by the number of their rule."""
    found = {}
    for path in tree.files(".c", ".py", folders=("tests",)):
        for name, number in TEST.findall(tree.text(path)):
            found.setdefault(int(number), set()).add(name)
    return found


def rows():
    """(number, names of tests) of each row."""
    for number, cell in ROW.findall(tree.text(MANUAL)):
        yield int(number), set(re.findall(r"`(\w+)`", cell))


def findings():
    existing = tests()
    told = list(rows())
    if [number for number, _ in told] != list(range(1, N_RULES + 1)):
        yield f"{MANUAL}: the rows are not those of the rules 1 to {N_RULES}, once each and in order"
    for number, names in told:
        if not names:
            yield f"{MANUAL}: rule {number} names no test"
        for name in sorted(names - existing.get(number, set())):
            yield f"{MANUAL}: rule {number} names `{name}`, which is no test of it"
        for name in sorted(existing.get(number, set()) - names):
            yield f"{MANUAL}: rule {number} does not name its test `{name}`"
    for number in sorted(set(existing) - set(range(1, N_RULES + 1))):
        yield f"tests: there is no rule {number}: {', '.join(sorted(existing[number]))}"


tree.finish(list(findings()))
