"""The table of requests that servers are known to read in different ways: vectors.txt says how it is
written."""

import pathlib
import re
from dataclasses import dataclass

from desync import judge
from desync.lane import length_answer

TABLE = pathlib.Path(__file__).with_name("vectors.txt")
AFTER = b"GET /after HTTP/1.1\r\nHost: a.test\r\n\r\n"
REPEATED = re.compile(rb"<([0-9]+)\*([^>]+)>")


@dataclass(frozen=True)
class Vector:
    line: int  # of the table
    wanted: tuple
    data: bytes  # with what comes behind it


def _bytes(text):
    raw = text.replace("¶", "\r\n").encode("latin-1")
    raw = re.sub(rb"\\(x[0-9A-Fa-f]{2}|[nrt0\\])",
                 lambda escape: escape[0].decode("unicode_escape").encode("latin-1"), raw)
    return REPEATED.sub(lambda match: match[2] * int(match[1]), raw)


def table():
    template = "$"
    for number, line in enumerate(TABLE.read_text().split("\n"), 1):
        if line.startswith("@ "):
            template = line[2:]
        elif line and not line.startswith("#"):
            wanted, _, text = line.partition("| ")
            yield Vector(number, tuple(wanted.split()), _bytes(template.replace("$", text)) + AFTER)


def run(session, vector):
    """What became of it in the words of the table, and what is wrong by the other rules."""
    session.lane.answer = lambda seen: (length_answer(seen), False)
    return became(vector, session.lane.run(session.proxy.address, [vector.data]))


def became(vector, observation):
    findings, statuses = judge.judge_requests(vector.data, observation)
    forwarded = {seen.number for seen in observation.requests}
    words = []
    for status in statuses:
        seen = observation.requests[sum(word in ("ok", "after") for word in words):][:1]
        if status != 200 or not seen:
            words.append(str(status))
        else:
            message = seen[0].message
            words.append("after" if (message.method, message.target) == (b"GET", b"/after") else "ok")
    if len(forwarded) != sum(word in ("ok", "after") for word in words):
        findings.append(f"{len(forwarded)} requests reached the upstream")
    return tuple(words), findings
