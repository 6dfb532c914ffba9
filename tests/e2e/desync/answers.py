"""The other direction: what an upstream may answer, right or wrong, and what the client has to see of it."""

from dataclasses import dataclass, replace

from desync import grammar, strict
from desync.judge import end_to_end

STATUSES = [b"200"] * 10 + [b"204", b"304", b"404", b"500", b"201", b"206", b"301", b"100", b"103", b"101",
                            b"099", b"600", b"20", b"2000", b"abc", b"", b"2 0", b"+20", b"\xb2\xb2\xb2", b"199"]
REASONS = [b" OK"] * 6 + [b" ", b"", b" a b", b" \xe9", b"\t", b" a\x00b", b" a\rb", b" HTTP/1.1 200 OK", b"OK"]
INTERIMS = [b"100 Continue", b"103 Early Hints", b"102 Processing", b"199 ", b"101 Switching Protocols"]
BODIES = [b"", b"a", b"body", b"0\r\n\r\n", b"x" * 200, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ninner\n",
          b"\r\n", b"\0\xff\r\n", b"z" * 70000]
METHODS = [b"GET", b"GET", b"GET", b"HEAD", b"POST", b"DELETE"]
ENDS = ["open", "open", "open", "close", "reset"]
INTERIMS_MAX = 16
ONE_WRITE_BYTES = 40_000  # less than this arrives together


@dataclass(frozen=True)
class Script:
    """What the upstream answers to one request."""
    method: bytes
    minor: int  # of the client's request
    data: bytes
    end: str  # what the upstream does then: open, close, reset
    takes_trailers: bool = False  # the client, as it says


@dataclass
class Outcome:
    """What a client has to see of it."""
    kind: str  # whole, bad: nothing of it, cut: perhaps a part, which looks like one
    interims: list
    response: strict.Message = None
    end: int = 0  # where it ends in the script, if it is whole


def _head(rng, is_odd):
    pick = lambda choices: rng.choice(choices) if is_odd and rng.random() < .3 else choices[0]
    version = pick([b"HTTP/1.1"] * 4 + [b"HTTP/1.0"] * 3 + grammar.VERSIONS[20:])
    lines = [version + pick([b" "] * 8 + [b"  ", b"\t", b""]) + pick(STATUSES) + pick(REASONS)]
    for _ in range(rng.choice([0, 1, 1, 3])):
        lines.append((rng.choice(grammar.NAMES) if is_odd else rng.choice(grammar.NAMES[:10])) +
                     pick([b": "] * 4 + [b":", b" : "]) +
                     (rng.choice(grammar.VALUES) if is_odd else rng.choice(grammar.VALUES[:5])))
    if rng.random() < .2:
        lines.append(b"Connection: " + (rng.choice(grammar.CONNECTIONS) if is_odd
                                        else rng.choice(grammar.CONNECTIONS[:3])))
    return lines


def _final(rng, is_odd):
    lines, body = _head(rng, is_odd), rng.choice(BODIES)
    if rng.random() < .85:
        fields, body = grammar.framed(rng, body, is_odd and rng.random() < .6)
        for line in fields:
            lines.insert(rng.randint(1, len(lines)), line)
    ends = [rng.choice(grammar.ENDS) if is_odd and rng.random() < .02 else b"\r\n" for _ in lines]
    return b"".join(a + b for a, b in zip(lines, ends)) + b"\r\n" + body


def _interim(rng, is_odd):
    status = rng.choice(INTERIMS) if is_odd else rng.choice(INTERIMS[:2])
    fields = b"".join(b"Link: </a>\r\n" for _ in range(rng.randint(0, 2)))
    if is_odd and rng.random() < .2:
        fields += rng.choice([b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b" x\r\n"])
    return b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n"


def script(rng):
    is_odd = rng.random() < .7
    data = b"".join(_interim(rng, is_odd) for _ in range(
        rng.choice([0] * 12 + [1, 1, 2, 17 if is_odd else 3]))) + _final(rng, is_odd)
    if is_odd and rng.random() < .4:
        data = grammar.mutated(rng, data)
    if is_odd and rng.random() < .1:
        data = data[:rng.randint(0, len(data))]
    if rng.random() < .1:
        data += rng.choice([b"x", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstray\n"])
    one = Script(rng.choice(METHODS), 1 if rng.random() < .9 else 0, data, rng.choice(ENDS),
                 rng.random() < .3)
    return ended(one)


def ended(one):
    """`one`, such that it ends: what is not whole with its connection."""
    outcome = outcome_of(one)
    if len(one.data) > ONE_WRITE_BYTES:
        # What comes behind the answer, and later, nobody can tell from an answer (M9.2). A reset
        # takes away what was sent before it and not read.
        one = replace(one, data=one.data[:outcome.end or len(one.data)],
                      end="close" if one.end == "reset" else one.end)
    return replace(one, end="close") if one.end == "open" and outcome.kind != "whole" else one


def outcome_of(one):
    """By the strict reader."""
    interims, at = [], 0
    try:
        while True:
            response, at = strict.read_response(one.data, at, one.method, strict.TAKEN)
            if response.status >= 200:
                break
            if response.status == 101 or len(interims) == INTERIMS_MAX:
                return Outcome("bad", interims)
            interims.append(response.status)
    except (strict.Bad, strict.Partial) as fault:
        return Outcome("bad" if fault.message is None else "cut", interims, fault.message)
    if response.framing == "close" and one.end != "close":
        return Outcome("cut", interims, response)
    return Outcome("whole", interims, response, at)


def requests_of(scripts):
    """The pipeline that asks for them all, and ends with the last."""
    out = b""
    for i, one in enumerate(scripts):
        out += b"%s /%d HTTP/1.%d\r\nHost: a.test\r\n" % (one.method, i, one.minor)
        if one.minor == 0:
            out += b"Connection: keep-alive\r\n"
        if one.takes_trailers:
            out += b"TE: trailers\r\nConnection: TE\r\n"
        out += b"Content-Length: 2\r\n\r\nhi" if one.method == b"POST" else b"\r\n"
    return out


def answerer(scripts):
    """For a Lane."""
    def answer(seen):
        one = scripts[int(seen.message.target[1:])]
        return one.data, {"open": False, "close": "close", "reset": "reset"}[one.end]
    return answer


class _Over(Exception):
    """The client's connection has to end here."""


def _read(data, at, one):
    """Interim statuses and the final response at `at`, and where it ends."""
    interims = []
    while True:
        response, at = strict.read_response(data, at, one.method)
        if response.status >= 200:
            return interims, response, at
        if one.minor == 0:
            raise strict.Bad("S15.2: HTTP/1.0 knows no 1xx")
        interims.append(response.status)


def _is_refusal(response):
    return response.status in (502, 504) and b"application/problem+json" in response.all(b"content-type")


def _is_closed(before):
    """The upstream ends the connection without having said so, and the next request may be on it by
    then: one that is not idempotent must not be sent again (S9.2.2)."""
    return before.end != "open"


def _judge_one(one, observation, at, may_be_lost):
    """Findings, where the next answer starts, and whether there may be one."""
    outcome, data = outcome_of(one), observation.answers
    try:
        interims, response, end = _read(data, at, one)
    except strict.Partial:
        if outcome.kind == "whole":
            return [f"is cut: {data[at:][:200]!r}"], len(data), False
        raise _Over() from None
    if _is_refusal(response) and (outcome.kind != "whole" or may_be_lost and one.method == b"POST"):
        return [], end, response.keep_alive
    if outcome.kind == "cut" and response.framing == "close" and observation.is_reset:
        raise _Over()
    if outcome.kind != "whole":
        return [f"is not whole and looks so: {data[at:end][:300]!r}"], end, False
    return list(_differences(one, outcome, interims, response)), end, response.keep_alive


def _differences(one, outcome, interims, response):
    wanted = outcome.response
    if one.minor == 1 and interims != outcome.interims:
        yield f"interim responses became {interims}"
    if response.status != wanted.status:
        yield f"its status became {response.status}"
    if response.body != wanted.body:
        yield f"its body of {len(wanted.body)} bytes became {len(response.body)}: {response.body[:80]!r}"
    if end_to_end(response) != end_to_end(wanted):
        yield f"its fields became {end_to_end(response)!r}"
    leaked = {name.lower() for name, _ in response.fields} & (
        wanted.named() - {b"transfer-encoding", b"connection", b"content-length", b"date"})
    if leaked:
        yield f"fields of the connection passed: {leaked}"
    if not set(response.trailers) <= set(wanted.trailers) or response.trailers and not one.takes_trailers:
        yield f"trailers that nobody sent, or nobody takes: {response.trailers!r}"
    if {name.lower() for name, _ in response.trailers} & (strict.NEVER_A_TRAILER | wanted.named()):
        yield f"trailers that nobody may pass on: {response.trailers!r}"


def judge(scripts, observation):
    """What is wrong with what the client saw of these answers."""
    findings = [f"the upstream was sent {sent[-300:]!r}: {rule}" for rule, sent in observation.faults]
    at, goes_on = 0, True
    try:
        for i, one in enumerate(scripts):
            if not goes_on:
                break
            found, at, goes_on = _judge_one(one, observation, at, i > 0 and _is_closed(scripts[i - 1]))
            findings += [f"answer {i}: {finding}" for finding in found]
        if at < len(observation.answers) and not findings:
            findings.append(f"answers to nothing: {observation.answers[at:][:300]!r}")
    except _Over:
        pass
    except strict.Bad as bad:
        findings.append(f"the client was sent {observation.answers[at:][:300]!r}: {bad.rule}")
    return findings + list(_repetitions(scripts, observation))


def _repetitions(scripts, observation):
    """Nobody asks twice, unless nothing came back and asking twice changes nothing (S9.2.2)."""
    targets = [seen.message.target for seen in observation.requests]
    for i, one in enumerate(scripts):
        n = targets.count(b"/%d" % i)
        if n > 1 and (one.data or one.method == b"POST"):
            yield f"request {i} was sent {n} times"
