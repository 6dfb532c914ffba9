"""What the proxy had to make of a case, and whether it did."""

import re
from dataclasses import dataclass

from desync import paths, strict

MAX_BODY = 64 * 1024  # of the policy that is watched: see policy()
EDITED = b"/p"  # of the route that changes what passes
# Fields that sluice writes itself, or appends to.
OURS = {name.lower() for name in (
    b"Host", b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Forwarded-Host", b"X-Real-IP", b"Forwarded",
    b"X-Request-ID", b"Via", b"Date", b"Server", b"RateLimit", b"RateLimit-Policy", b"Max-Forwards",
    b"Content-Length", b"Expect")}


def policy(url):
    return f"""
workers: 1
max: {{body: {MAX_BODY // 1024}KiB}}
upstreams: {{recorder: {{servers: '{url}'}}}}
routes:
  - match: {{path: {EDITED.decode()}/**}}
    strip_prefix: {EDITED.decode()}
    request: {{set: {{X-Set: ours}}, remove: [Cookie]}}
    upstream: recorder
  - upstream: recorder
"""


def _is_edited(segments):
    return segments[:1] == [EDITED[1:]]


def stripped(origin):
    """(whether the first route takes the target, what the upstream gets of it; None: it is refused)."""
    path, mark, query = origin.partition(b"?")
    if not path.startswith(b"/"):
        return False, origin
    written = paths.segments_of(path)
    if _is_edited(written) != _is_edited(paths.followed(written)):
        return False, None  # another route than it leads to as it is written
    if not _is_edited(written):
        return False, origin
    rest = path[len(EDITED):]
    if not path.startswith(EDITED) or rest[:1] not in (b"", b"/"):
        return True, None  # the prefix is spelled in another way
    for end in range(len(written)):
        if not _is_edited(paths.followed(written[:end + 1])):
            return True, None  # it climbs above the prefix
    return True, (re.sub(rb"^/+", b"/", rest) or b"/") + mark + query


@dataclass
class Wanted:
    """One request that stands in what the client sent."""
    message: strict.Message  # None: no whole head
    kind: str  # forwarded; answered: by sluice, the connection may go on; ended: refused, or cut
    why: str = ""


def wanted_of(data):
    """What has to become of these bytes: all requests up to the one after which nothing counts."""
    wanted, at = [], 0
    while at < len(data):
        try:
            message, at = strict.read_request(data, at, strict.TAKEN)
        except (strict.Bad, strict.Partial) as fault:
            wanted.append(Wanted(fault.message, "ended", str(fault)))
            break
        wanted.append(_what_becomes_of(message))
        if not message.keep_alive:
            break
    return wanted


# Of the IANA HTTP Method Registry those that the grammar writes.
REGISTERED = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"PRI"))


def _what_becomes_of(message):
    if message.method not in REGISTERED and message.method.upper() in REGISTERED:
        return Wanted(message, "answered", "the method is a registered one in another case")
    path = message.origin.partition(b"?")[0]
    if paths.is_refused(path):
        return Wanted(message, "answered", "the path")
    if stripped(message.origin)[1] is None:
        return Wanted(message, "answered", "the path")
    if message.length > MAX_BODY or len(message.body) > MAX_BODY:
        return Wanted(message, "answered", "the body is too large")
    if message.method in (b"TRACE", b"OPTIONS") and message.all(b"max-forwards"):
        return Wanted(message, "answered", "Max-Forwards")
    return Wanted(message, "forwarded")


def end_to_end(message):
    """The fields that pass as they are, in their order."""
    dropped = message.named() | OURS
    return [(name, value) for name, value in message.fields if name.lower() not in dropped]


def asked_of_the_connection(given):
    """The fields of its own connection that the proxy may write for `given`: what it asks for itself."""
    options = {option.lower() for value in given.all(b"connection") for option in strict.members(value)}
    asked = set()
    for option, name, member in ((b"upgrade", b"upgrade", b"websocket"), (b"te", b"te", b"trailers")):
        values = {value.lower() for line in given.all(name) for value in strict.members(line)}
        if given.minor > 0 and (option in options or option == b"te") and member in values:
            asked |= {(b"connection", option.title() if option != b"te" else b"TE")}
            asked |= {(name, value) for line in given.all(name) for value in strict.members(line)
                      if value.lower() == member}
    return asked


def edited(fields):
    """As the first route changes them."""
    return [(name, value) for name, value in fields
            if name.lower() not in (b"cookie", b"x-set")] + [(b"X-Set", b"ours")]


def _request_findings(given, seen):
    """`seen` reached the upstream for `given`."""
    is_edited, target = stripped(given.origin)
    if (seen.method, seen.target) != (given.method, target):
        yield f"became {seen.method!r} {seen.target!r}"
    if seen.body != given.body:
        yield f"its body became {seen.body[:80]!r}"
    if seen.host != given.host:
        yield f"its host became {seen.host!r}"
    if end_to_end(seen) != (edited(end_to_end(given)) if is_edited else end_to_end(given)):
        yield f"its fields became {end_to_end(seen)!r}"
    asked = asked_of_the_connection(given)
    leaked = {name.lower() for name, value in seen.fields if (name.lower(), value) not in asked} & (
        given.named() - {b"transfer-encoding"} - OURS)
    if leaked:
        yield f"fields of the connection passed: {leaked}"
    if not set(seen.trailers) <= set(given.trailers):
        yield f"trailers that nobody sent: {seen.trailers!r}"
    if {name.lower() for name, _ in seen.trailers} & (strict.NEVER_A_TRAILER | given.named()):
        yield f"trailers that nobody may pass on: {seen.trailers!r}"


class Answers:
    """What the client read, one response after another."""

    def __init__(self, observation):
        self.data = observation.answers
        self.at = 0
        self.statuses = []  # final ones
        self.has_ended = False  # by what was said or seen

    def next(self, given, is_last_resort=False):
        """The final response to `given`, or None where there is none. Bad, Partial.
        `is_last_resort`: it may be what the proxy says of bytes that are no request."""
        method = given.method if given else b"GET"
        while self.at < len(self.data):
            try:
                response, self.at = strict.read_response(self.data, self.at, method)
            except strict.Partial:
                if not is_last_resort or method == b"HEAD":
                    raise
                method = b"HEAD"  # that may be what it took them for
                continue
            if response.status < 200 and given is not None and given.minor == 0:
                raise strict.Bad("S15.2: HTTP/1.0 knows no 1xx")
            if response.status >= 200:
                self.statuses.append(response.status)
                return response
        return None


def _is_ours(response):
    """Sluice says why in a problem document."""
    return not response.all(b"x-number") and response.status >= 400


def judge_requests(data, observation):
    """What is wrong with what came of `data`; and the statuses that the log has to tell."""
    findings = [f"the upstream was sent {sent[-300:]!r}: {rule}" for rule, sent in observation.faults]
    seen, answers = list(observation.requests), Answers(observation)
    if observation.is_reset:
        findings.append("the connection was reset")
    try:
        for number, wanted in enumerate(wanted_of(data), 1):
            for finding in _judge_one(wanted, seen, answers):
                findings.append(f"request {number} ({wanted.kind} {wanted.why}): {finding}")
            if answers.has_ended:
                break
        if answers.at < len(answers.data):
            findings.append(f"answers to nothing: {answers.data[answers.at:][:200]!r}")
    except (strict.Bad, strict.Partial) as fault:
        findings.append(f"the client was sent {answers.data[answers.at:][:300]!r}: {fault}")
    if seen:
        findings.append(f"the upstream got {len(seen)} requests more: {seen[0].message.method!r} "
                        f"{seen[0].message.target!r}")
    return findings, answers.statuses


def _judge_one(wanted, seen, answers):
    given = wanted.message
    response = answers.next(given, wanted.kind == "ended")
    if wanted.kind == "ended":
        answers.has_ended = True
        if response is not None and not _is_ours(response):
            yield f"answered with {response.status}"
        return
    if response is None:
        yield "not answered"
        answers.has_ended = True
        return
    answers.has_ended = not response.keep_alive
    if wanted.kind == "forwarded":
        if not seen:
            yield f"never reached the upstream, answered with {response.status}"
            return
        reached = seen.pop(0)
        yield from _request_findings(given, reached.message)
        if response.status != 200 or response.all(b"x-number") != [b"%d" % reached.number]:
            yield f"answered with {response.status}, of request {response.all(b'x-number')}"
        if given.method != b"HEAD" and response.body != b"answer %d\n" % reached.number:
            yield f"answered with {response.body[:80]!r}"
        if given.keep_alive and not response.keep_alive and given.minor > 0:
            yield "the connection ends"
        if given.minor == 0 and response.framing == "chunked":
            yield "HTTP/1.0 was sent chunks"
    elif wanted.why == "Max-Forwards" and seen and response.all(b"x-number"):
        seen.pop(0)
    elif not _is_ours(response) and wanted.why != "Max-Forwards":
        yield f"answered with {response.status}"
