"""What was measured: the files of bench/results, and those of them that are published."""

import json

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
DENIED, DENIED_SLACK = {"mixed": 0.5, "deny": 1}, 0.02


def _is_complete(figures):
    return "processor" in figures.get("machine", {})


def _is_its_job(row):
    meant = DENIED.get(row["group"], 0)
    return abs(row["denied_per_second"] / row["requests_per_second"] - meant) <= DENIED_SLACK


def _drop_other_jobs(figures, say):
    """Of bench/run: what was denied more or less than the others of its group cannot stand beside them."""
    dropped = [row["title"] for row in figures["rows"] if not _is_its_job(row)]
    figures["rows"] = [row for row in figures["rows"] if _is_its_job(row)]
    if dropped:
        say(f"run: left out, as another part of them was denied than is meant: {', '.join(dropped)}")


def take(results, published, say):
    """Copies the results into the folder @published, and tells of each that there is none, or an old one."""
    published.mkdir(parents=True, exist_ok=True)
    for name, command in COMMANDS.items():
        source = results / f"{name}.json"
        if not source.exists():
            say(f"{name}: no result here; what is published of {command} stays as it is")
            continue
        figures = json.loads(source.read_text())
        if not _is_complete(figures):
            say(f"{name}: the result does not tell what made it, and where: run {command} again")
            continue
        figures.setdefault("command", command)
        figures.pop(UNPUBLISHED, None)
        if name == "run":
            _drop_other_jobs(figures, say)
        (published / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
        say(f"{name}: {figures['command']}")


def read(published):
    """Figures by the name of their file."""
    files = (published / f"{name}.json" for name in COMMANDS)
    return {file.stem: json.loads(file.read_text()) for file in files if file.exists()}
