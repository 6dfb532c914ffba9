"""Which paths sluice has to refuse because servers read them in different ways: docs/http.md, rules 67
to 72 and 74."""

import re

SEGMENTS_MAX = 100  # more than a case has, or it is refused for that
BAD = re.compile(rb"%(?![0-9A-F]{2})|%00|%2F|%5C|\\")
OVERLONG = re.compile(rb"%C[01]%[89AB]|%E0%[89]|%F0%8")
# Of a character that may stand raw, a separator or NUL.
ESCAPED_ESCAPE = re.compile(rb"%25(?:25)*(?:00|2[1246-9A-F]|3[0-9ACDE]|[4-6][0-9A-F]|7[0-9A-E])")
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def _decode_plain(path):
    def decoded(escape):
        octet = bytes([int(escape.group(1), 16)])
        return octet if octet not in b"#%/;?\\" and re.fullmatch(rb"[!-~]", octet) else escape.group(0)

    return ESCAPE.sub(decoded, path)


def _depends_on_merging(segments):
    """Whether ".." would take an empty segment where slashes are not merged."""
    kept = []
    for segment in segments[:-1] if segments[-1:] == [b""] else segments:
        if segment == b"..":
            if kept and kept[-1] == b"":
                return True
            kept = kept[:-1]
        elif segment != b".":
            kept.append(segment)
    return False


def is_refused(path):
    decoded = _decode_plain(path)
    upper = decoded.upper()
    if BAD.search(upper) or OVERLONG.search(upper) or ESCAPED_ESCAPE.search(upper):
        return True
    segments = [segment.split(b";", 1) for segment in decoded.split(b"/")[1:]]
    for i, (name, *parameters) in enumerate(segments):
        if parameters and (name in (b".", b"..") or name == b"" and i < len(segments) - 1):
            return True
    if segments and segments[-1][0] in (b".", b"..") and followed(segments_of(path)):
        return True
    return len(segments) > SEGMENTS_MAX or _depends_on_merging([name for name, *_ in segments])


def segments_of(path):
    """As a route sees them, dots not yet followed."""
    names = [segment.partition(b";")[0] for segment in _decode_plain(path).split(b"/")[1:]]
    return [name for name in names if name not in (b"", b".")]


def followed(segments):
    kept = []
    for segment in segments:
        if segment == b"..":
            del kept[-1:]
        else:
            kept.append(segment)
    return kept
