"""How figures are kept: one file a command in bench/results, or where BENCH_RESULTS says, with what made them,
when and where."""

import json
import os
import pathlib
import sys
import time

import busy
import prepare

_USUAL = pathlib.Path(__file__).resolve().parent.parent / "results"
FOLDER = pathlib.Path(os.environ.get("BENCH_RESULTS", _USUAL))
UNTOLD = ("--sluice", "--program", "--load", "--to")  # options that only say where something lies


def command():
    """What was typed, without the path to it and to a program: anybody can type it again."""
    words = iter(sys.argv[1:])
    kept = []
    for word in words:
        if word in UNTOLD:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in UNTOLD)):
            kept.append(word)
    return " ".join([f"bench/{pathlib.Path(sys.argv[0]).name}", *kept])


class _Watched:
    """What else the machine does, since the program began or said that it measures."""

    watch = busy.Watch()


def begin():
    """From now on is measured; nothing that was started before runs on."""
    _Watched.watch = busy.Watch()


def _busy():
    found = _Watched.watch.told()
    if sum(found.values()) > busy.MUCH:
        prepare.say(f"THE MACHINE WAS BUSY: something else took {found['others']:.0%} of its processor time meanwhile, its"
                    f" host {found['stolen']:.0%}; times tell of that")
    return found


def head(sluice=None):
    """What stands before all figures. All that was started to take them has ended."""
    return {"busy": _busy(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "command": command(),
            "machine": prepare.machine(sluice)}


def path(name):
    """Of the file. What was measured with --only lies apart, where bench/report does not look: it must not take
    the place of all the rest."""
    is_part = any(word.split("=")[0] == "--only" for word in sys.argv[1:])
    return (FOLDER / "part" if is_part else FOLDER) / f"{name}.json"


def published(name):
    """The figures of an earlier run that stand in docs/performance; None: there are none."""
    file = prepare.ROOT / "docs" / "performance" / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def keep(name, figures, sluice=None, to=None):
    """Writes @figures, a dict, to @to, or else to path(@name); gives all that was written."""
    result = head(sluice) | figures
    to = to or path(name)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(result, indent=2) + "\n")
    return result
