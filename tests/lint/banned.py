"""Calls that nobody makes here: what overruns buffers, reads the clock where time is an argument, or
sleeps where an event can be awaited."""

import re

import tree

EVERYWHERE = "include", "src", "tests", "bench"
OURS = "include", "src"

# (what must not be called, where, which files not, what to do instead)
CALLS = (
    (r"strcpy|strcat|sprintf|vsprintf|stpcpy|gets", EVERYWHERE, (), "write through base/text.h"),
    (r"strncpy|strncat", EVERYWHERE, (), "copy a span"),
    (r"alloca", EVERYWHERE, (), "take it from an arena"),
    (r"atoi|atol|atoll|atof", EVERYWHERE, (), "span_to_u64() tells what is no number"),
    (r"strtok|sscanf", OURS, (), "span_split() and span_to_u64() tell what is wrong"),
    (r"localtime|gmtime|ctime|asctime|strerror_l", OURS, (), "the reentrant form"),
    (r"system|popen", OURS, (), "sluice starts no programs"),
    (r"rand|srand|random|drand48", OURS, (), "hash_random()"),
    (r"time|gettimeofday|clock_gettime|clock", OURS, ("src/base/clock.c",),
     "the time is an argument; base/clock.h reads it"),
    # A command that asks and ends has no loop to wait in.
    (r"u?sleep|nanosleep|clock_nanosleep|pause", ("src", "include", "tests"),
     ("src/app/ctl/ctl_client.c",), "await the event"),
)


def c_findings():
    for words, folders, exempt, instead in CALLS:
        pattern = re.compile(r"(?<![\w.>])(" + words + r")\s*\(")
        for path in tree.files(".c", ".h", folders=folders):
            if path in exempt:
                continue
            code = tree.code(path)
            for match in pattern.finditer(code):
                line = tree.line_at(code, match.start(1))
                yield f"{path}:{line}: {match.group(1)}(): {instead}"


def unfinished_findings():
    words = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))
    pattern = re.compile(r"\b(" + words + r")\b")
    for path in tree.files(".c", ".h", ".py", ".lua", ".sh", ".cmake", ".txt"):
        contents = tree.text(path)
        for match in pattern.finditer(contents):
            yield f"{path}:{tree.line_at(contents, match.start())}: unfinished: {match.group(1)}"


tree.finish(list(c_findings()) + list(unfinished_findings()))
