"""What bench/report publishes: whole figures, of what they claim to be, and nothing in their place."""

import copy
import importlib
import json
import os
import subprocess
import sys

import pytest

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                     "bench")
WORK_S = 0.5


def _module(folder, name):
    sys.path.insert(0, os.path.join(BENCH, folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def _row(name, group="pass", denied=0.0):
    return {"name": name, "title": name, "group": group, "requests_per_second": 1000.0,
            "denied_per_second": 1000.0 * denied}


WHOLE = {"at": "2026-01-02T00:00:00Z", "command": "bench/run",
         "machine": {"processor": "one", "cores": 2, "kernel": "6.1.0-18-amd64"},
         "rows": [_row("nginx"), _row("sluice"), _row("sluice-mixed", "mixed", 0.505)], "rounds": [{}]}


class Publisher:
    def __init__(self, folder):
        self.results, self.published = folder / "results", folder / "published"
        self.results.mkdir()

    def take(self, figures, accepted=()):
        """What is published then, and what was said of it."""
        (self.results / "run.json").write_text(json.dumps(figures))
        said = []
        _module("performance", "measured").take(self.results, self.published, said.append, accepted)
        [line] = [line for line in said if line.startswith("run: ") and "left out" not in line]
        return json.loads((self.published / "run.json").read_text()), line


@pytest.fixture(name="publisher")
def a_publisher_of_a_whole_run(tmp_path):
    publisher = Publisher(tmp_path)
    publisher.take(copy.deepcopy(WHOLE))
    return publisher


@pytest.mark.parametrize("changed, why", [
    ({"command": "bench/run --only sluice"}, "made with --only"),
    ({"command": "bench/run --rounds=1 --seconds 4"}, "made with --rounds 1, where 5 is usual"),
    ({"rows": WHOLE["rows"][:2]}, "has 2 rows, where 3 are published"),
    ({"at": "2026-01-01T23:59:59Z"}, "is older than what is published"),
    ({"machine": {}}, "does not tell what made it"),
])
def test_a_weaker_result_leaves_what_is_published_and_says_why(publisher, changed, why):
    published, said = publisher.take(WHOLE | {"at": "2026-01-03T00:00:00Z"} | changed)
    assert published["at"] == WHOLE["at"] and len(published["rows"]) == 3
    assert why in said


def test_a_weaker_result_is_published_where_that_is_asked_for(publisher):
    published, _ = publisher.take(WHOLE | {"command": "bench/run --rounds 1"}, accepted=["run"])
    assert published["command"] == "bench/run --rounds 1"


def test_longer_runs_are_published_without_rounds_and_what_a_kernel_is_called(publisher):
    published, _ = publisher.take(WHOLE | {"command": "bench/run --rounds 9 --pin --json"})
    assert published["command"] == "bench/run --rounds 9 --pin --json"
    assert published["machine"]["kernel"] == "6.1.0" and "rounds" not in published


def test_a_row_that_was_denied_another_part_than_its_group_is_not_published(publisher):
    rows = [*WHOLE["rows"], _row("other-mixed", "mixed", 0.41)]
    published, _ = publisher.take(WHOLE | {"rows": rows})
    assert [row["name"] for row in published["rows"]] == ["nginx", "sluice", "sluice-mixed"]


def test_what_a_program_starts_is_its_own_work_and_not_the_machines():
    busy = _module("lib", "busy")
    spin = f"import time\nwhile time.process_time() < {WORK_S}: pass"
    watch = busy.Watch()
    began_s = busy.own_s()
    subprocess.run([sys.executable, "-c", spin], check=True)
    assert busy.own_s() - began_s >= WORK_S
    assert 0 <= watch.told()["others"] <= 1
