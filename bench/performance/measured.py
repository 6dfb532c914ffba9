"""What was measured: the files of bench/results, and those of them that are published."""

import json
import re

# File, and the command that makes it.
COMMANDS = {
    "run": "bench/run", "accuracy": "bench/accuracy", "outage": "bench/outage", "latency": "bench/latency",
    "scale": "bench/scale", "decisions": "bench/decisions",
    "bytes-per-key": "bench/bytes-per-key", "scrape": "bench/scrape", "budget": "bench/budget",
    "calls": "bench/calls",
}
# What each round gave is for whoever measures: its median and (min..max) are in the rows.
UNPUBLISHED = "rounds"
# What is denied in a row of such a group, and how far from it a row may lie and still be the same job.
DENIED_SLACK = 0.02
DENIED = {"mixed": 0.5, "deny": 1, "bare-deny": 1, "http2-deny": 1, "tls-full": 1, "tls-resumed": 1}


# As long as a command measures by itself; what was measured for less does not take the place of what is published.
FULL = {
    "run": {"--rounds": 5, "--seconds": 4}, "accuracy": {"--rounds": 2, "--requests": 20_000, "--edge-rate": 5000},
    "outage": {"--seconds": 10, "--rate": 3000}, "latency": {"--rounds": 12, "--seconds": 1.2},
    "scale": {"--rounds": 5, "--seconds": 3}, "bytes-per-key": {"--clients": 100_000},
    "scrape": {"--scrapes": 200, "--routes": 1000}, "calls": {"--seconds": 2},
}
PARTIAL = ("--only", "--store")  # options that leave out rows
NUMBER = re.compile(r"\d+(\.\d+)*")


def _parts(figures):
    """What was measured by itself: the topics of bench/scale, or all."""
    return list(figures["topics"].values()) if "topics" in figures else [figures]


def _n_rows(figures):
    return sum(len(part.get(rows, [])) for part in _parts(figures) for rows in ("rows", "edges"))


def _options(command):
    """Those of @command with their values, which are texts."""
    words = [half for word in command.split()[1:] for half in word.split("=", 1)]
    return dict(zip(words, words[1:]))


def _weaknesses(name, part, is_topic):
    """How @part was measured less than by the command alone: texts."""
    given = _options(part.get("command", ""))
    for option in () if is_topic else PARTIAL:
        if option in given:
            yield f"made with {option}"
    for option, full in FULL.get(name, {}).items():
        if option in given and float(given[option]) < full:
            yield f"made with {option} {given[option]}, where {full:g} is usual"


def _why_not(name, figures, now):
    """Why @figures do not take the place of @now, which may be None: texts."""
    for part in _parts(figures):
        yield from _weaknesses(name, part, part is not figures)
    if now and _n_rows(figures) < _n_rows(now):
        yield f"has {_n_rows(figures)} rows, where {_n_rows(now)} are published"
    if now and figures["at"] < now["at"]:
        yield "is older than what is published"


def _cleaned(figures):
    """As it is published."""
    for part in [figures, *_parts(figures)]:
        part.pop(UNPUBLISHED, None)
        if "kernel" in part.get("machine", {}):
            part["machine"]["kernel"] = NUMBER.match(part["machine"]["kernel"])[0]
    return figures


def _is_its_job(row):
    meant = DENIED.get(row["group"], 0)
    return abs(row["denied_per_second"] / row["requests_per_second"] - meant) <= DENIED_SLACK


def _drop_other_jobs(figures, say):
    """Of bench/run: what was denied more or less than the others of its group cannot stand beside them."""
    dropped = [row["title"] for row in figures["rows"] if not _is_its_job(row)]
    figures["rows"] = [row for row in figures["rows"] if _is_its_job(row)]
    if dropped:
        say(f"run: left out, as another part of them was denied than is meant: {', '.join(dropped)}")


def take(results, published, say, accepted=()):
    """Copies the results into the folder @published, and tells of each that there is none, or why it is not taken.
    @accepted: names of those that are taken even if they were measured for less than what is usual."""
    published.mkdir(parents=True, exist_ok=True)
    for name, command in COMMANDS.items():
        source = results / f"{name}.json"
        if not source.exists():
            say(f"{name}: no result here; what is published of {command} stays as it is")
            continue
        figures = _cleaned(json.loads(source.read_text()))
        if "processor" not in figures.get("machine", {}):
            say(f"{name}: the result does not tell what made it, and where: run {command} again")
            continue
        figures.setdefault("command", command)
        if name == "run":
            _drop_other_jobs(figures, say)
        target = published / f"{name}.json"
        why_not = sorted(set(_why_not(name, figures, json.loads(target.read_text()) if target.exists() else None)))
        if why_not and name not in accepted:
            say(f"{name}: not taken, what is published stays: the result {', '.join(why_not)};"
                f" run {command} again, or have it taken even so with --accept {name}")
            continue
        target.write_text(json.dumps(figures, indent=1) + "\n")
        say(f"{name}: {figures['command']}")


def read(published):
    """Figures by the name of their file."""
    files = (published / f"{name}.json" for name in COMMANDS)
    return {file.stem: json.loads(file.read_text()) for file in files if file.exists()}
