"""What it costs to find a request's route, and to load all of them: bench/match and a topic of bench/scale."""

import json_lines
from columns import bound

PROGRAM = "bench_match"
MATCH_NS = 500
LOAD_MS = 200


def measure(program):
    return json_lines.measure([program], "{differ_in}, {routes} routes")


def bounds(lines):
    most = max(line["routes"] for line in lines)
    largest = [line for line in lines if line["routes"] == most]
    return [bound(f"to match among {most:,} routes, ns", max(line["match_ns"] for line in lines),
                  MATCH_NS),
            bound(f"to load {most:,} routes, ms", max(line["load_ms"] for line in largest), LOAD_MS)]


def table(lines):
    text = ["To find a request's route, and to load all of them",
            f"{'differ in':<20}{'routes':>8}{'match ns':>10}{'load ms':>10}"]
    for line in lines:
        text.append("{differ_in:<20}{routes:>8}{match_ns:>10.0f}{load_ms:>10.2f}".format(**line))
    return "\n".join(text)
