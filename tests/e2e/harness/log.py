"""The access log, read by grammars that forgive nothing."""

import json
import re

WORD = r'[!#-<>-\[\]-~]+'  # printable ASCII without space, `"`, `=` and `\`
QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\]|\\x[0-9a-f]{2})*"'
PAIR = re.compile(rf'([a-z_]+)=({WORD}|{QUOTED})')
LINE = re.compile(rf'{PAIR.pattern}(?: {PAIR.pattern})*')
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ESCAPE = re.compile(r'\\(x[0-9a-f]{2}|["\\])')


def _unescape(match):
    code = match.group(1)
    return chr(int(code[1:], 16)) if code[0] == "x" else code


def _logfmt(line):
    assert LINE.fullmatch(line), f"not logfmt: {line!r}"
    pairs = [(key, value) for key, value in PAIR.findall(line)]
    return [(key, ESCAPE.sub(_unescape, value[1:-1]) if value[0] == '"' else value)
            for key, value in pairs]


def _json(line):
    return [(key, str(value)) for key, value in json.loads(line, object_pairs_hook=list)]


def parse(line, log_format):
    """The members of one line, as text. Fails on anything that is not exactly the format."""
    text = line.decode("utf-8")
    pairs = _json(text) if log_format == "json" else _logfmt(text)
    assert len({key for key, _ in pairs}) == len(pairs), f"a key stands there twice: {line!r}"
    assert pairs[0][0] == "time" and TIME.fullmatch(pairs[0][1]), f"no time: {line!r}"
    return dict(pairs)


class Tail:
    """An access log in logfmt that is being written: what has come since the last look."""

    def __init__(self, path):
        self.file = open(path, "rb")  # closed with the test
        self.rest = b""

    def read(self):
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        return [parse(line, "logfmt") for line in lines]
