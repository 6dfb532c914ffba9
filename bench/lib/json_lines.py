"""Programs that print a line of JSON for each thing they have measured."""

import json
import subprocess

import prepare
from stage import StageError


def measure(argv, words):
    """The lines of @argv; each is told as it comes, @words filled in from it."""
    lines = []
    with subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            lines.append(json.loads(line))
            prepare.say("  " + words.format(**lines[-1]))
    if child.returncode != 0 or not lines:
        raise StageError(f"{' '.join(map(str, argv))} measured nothing")
    return lines
