"""The same request by HTTP/1.1 and by HTTP/2: what the second passes the first passes too, as the same bytes
upstream, with the same verdict and the same line in the log. And nothing that HTTP/1.1 refuses, or could not
carry, gets through HTTP/2.

HTTP2_CASES and HTTP2_SEED: how many random requests, and which (scripts/test-long http2).
"""

import os
import random
import re
from dataclasses import dataclass

import pytest
from hpack.struct import HeaderTuple

from desync import grammar, vectors
from desync.case import shown
from harness.client import Client
from harness.http2 import Closed, Http2Client
from harness.message import Cut
from harness.strict_upstream import StrictUpstream
from harness.wait import until

N_CASES = int(os.environ.get("HTTP2_CASES", "200"))
SEED = int(os.environ.get("HTTP2_SEED", "1"))
LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
POLICY = LISTEN + """
workers: 1
trusted_proxies: [127.0.0.0/8]
max: {body: 64KiB}
upstreams: {u: {servers: '%s'}}
limits:
  by-name: {key: [header.x-name, path.name], algorithm: fixed_window, rate: 3/hour}
  by-path: {key: path, algorithm: fixed_window, rate: 1000000/day}
routes:
  - {name: named, match: {path: "/n/{name}/**"}, limits: [by-name], upstream: u}
  - {name: queried, match: {query: {q: [a, b]}}, limits: [by-path], respond: {status: 204}}
  - {name: rest, match: {path: /**}, limits: [by-path], upstream: u}
"""
# What HTTP/2 refuses and HTTP/1.1 does not: these, white space around a value, an
# empty host, a URL as the target, and a target that holds a line of its own.
OF_A_CONNECTION = {b"connection", b"http2-settings", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te"}
NAMES = [name.lower() for name in grammar.NAMES if name != b"X-Request-ID"]
REFUSALS = (0, 400, 414, 431, 501, 505)  # 0: the stream was reset, or the connection closed
# Of the log: it differs between any two requests, or by the version.
OWN = {"time", "us", "upstream_us", "store_us", "queued_us", "buffered_us", "version", "key"}


@dataclass
class Case:
    method: bytes
    target: bytes
    host: bytes
    fields: list
    body: bytes

    def by_1_1(self):
        lines = [b"%s %s HTTP/1.1" % (self.method, self.target), b"host: " + self.host]
        lines += [name + b": " + value for name, value in self.fields]
        if self.body:
            lines.append(b"content-length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def by_2(self):
        fields = [(b":method", self.method), (b":scheme", b"http"), (b":path", self.target), (b":authority", self.host)]
        return fields + self.fields + ([(b"content-length", b"%d" % len(self.body))] if self.body else [])

    def is_odd_in_2(self):
        return not self.host or b"://" in self.target or b"\n" in self.target or any(name in OF_A_CONNECTION or value != value.strip(b" \t") for name, value in self.fields)


def case_of(seed):
    """Mostly right requests; some have a part from the table of odd ones."""
    rng = random.Random(seed)
    method = rng.choice([b"GET"] * 6 + [b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"HEAD"])
    target = rng.choice([b"/", b"/a", b"/a/b?c=d", b"/?q=a", b"/x?q=c&q=a", b"/n/1/x", b"/n/2", b"/n/%31/y", b"/a/../b", b"//a"])
    host = rng.choice([b"a.test", b"a.test:80", b"B.test", b"[::1]"])
    fields = [(b"x-request-id", b"id-%d" % seed)]
    for _ in range(rng.randrange(5)):
        fields.append((rng.choice([b"x-name", b"accept", b"cookie", b"user-agent", b"x-a", b"authorization", b"referer"]),
                       rng.choice([b"1", b"a, b", b'"q"', b"\xe9", b"x" * 200, b"a=b", b""])))
    body = rng.choice([b""] * 3 + [b"abc", b"x" * 5000, b"0\r\n\r\nGET /inner HTTP/1.1\r\nHost: a\r\n\r\n"]) \
        if method in (b"POST", b"PUT", b"PATCH") else b""
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        part = rng.randrange(5)
        if part == 0:
            method = rng.choice(grammar.METHODS)
        elif part == 1:
            target = rng.choice(grammar.TARGETS)
        elif part == 2:
            host = rng.choice(grammar.HOSTS)
        else:
            fields.append((rng.choice(NAMES), rng.choice(grammar.VALUES)))
    cookies = [field for field in fields if field[0] == b"cookie"]
    fields = [field for field in fields if field not in cookies[1:]]  # HTTP/2 joins several into one
    return Case(method, target, host, fields, body)


def raw(fields):
    return [HeaderTuple(name, value) for name, value in fields]


def ask_1_1(proxy, case):
    """The status, and the fields and body of the answer; 0: none."""
    with Client(proxy.address) as client:
        client.send(case.by_1_1())
        try:
            answer = client.read(case.method.decode("latin-1"))
        except Cut:
            return 0, b""
        return answer.status, answer.body


def ask_2(proxy, case):
    with Http2Client(proxy.address) as client:
        try:
            stream = client.begin(raw(case.by_2()), ends=not case.body)
            if case.body:
                client.data(stream, case.body, ends=True)
            answer = client.answer(stream)
        except (Closed, BrokenPipeError, ConnectionResetError):
            return 0, b""
        return (0, b"") if answer.reset and not answer.heads else (answer.status, answer.body)


@pytest.fixture(name="upstream")
def a_strict_upstream():
    upstream = StrictUpstream()
    yield upstream
    assert not upstream.faults
    upstream.close()


def seen(message):
    """What reached the upstream, without what names the version."""
    fields = [(name.lower(), re.sub(rb"^(1\.1|2\.0) sluice-[0-9a-f]+", b"", value) if name.lower() == b"via" else value)
              for name, value in message.fields]
    return message.method, message.target, fields, message.body


def line_of(line):
    """Without what differs; an id that is the proxy's own differs too."""
    return {name: value for name, value in line.items()
            if name not in OWN and (name != "id" or value.startswith("id-"))}


def test_the_same_request_by_either_version(start, upstream):
    """Each version asks a proxy of its own: both have the same counters at any time."""
    proxies = [start(POLICY % upstream.url) for _ in range(2)]
    logs = [Lines(proxy) for proxy in proxies]
    n_passed, n_refused = 0, 0
    for seed in range(SEED * 1_000_000, SEED * 1_000_000 + N_CASES):
        case = case_of(seed)
        before = len(upstream.requests)
        status_2, body_2 = ask_2(proxies[1], case)
        passed_2 = upstream.requests[before:]
        if case.is_odd_in_2() and status_2 in REFUSALS:
            assert not passed_2, f"seed {seed}: {case}"
            logs[1].next(status_2, f"seed {seed}")
            n_refused += 1
            continue
        status_1, body_1 = ask_1_1(proxies[0], case)
        passed_1 = upstream.requests[before + len(passed_2):]
        told = f"seed {seed}: {shown(case.by_1_1())} was {status_1}, by HTTP/2 {status_2}"
        lines = [log.next(status, told) for log, status in zip(logs, (status_1, status_2))]
        if status_2 in REFUSALS:
            assert status_1 in REFUSALS and not passed_1 and not passed_2, told
            n_refused += 1
            continue
        assert (status_1, [seen(message) for message in passed_1]) == (status_2, [seen(message) for message in passed_2]), told
        assert re.sub(rb"\d+", b"", body_1) == re.sub(rb"\d+", b"", body_2), told  # but for the time to wait
        assert line_of(lines[0]) == line_of(lines[1]) and lines[1]["version"] == "2", f"{told}: {lines}"
        n_passed += 1
    assert n_passed > N_CASES / 3 and n_refused > N_CASES / 20


class Lines:
    """The lines of a proxy's log as they come: one for each request that was answered."""

    def __init__(self, proxy):
        self.proxy, self.n = proxy, 0

    def next(self, status, told):
        lines = self.proxy.all_log_lines
        if status == 0:
            return None  # of a stream that was reset there is none
        until(lambda: len(lines()) > self.n, f"the line of {told}")
        self.n += 1
        assert len(lines()) == self.n, told
        return lines()[-1]


# --- the desync vectors ---

def translated(data):
    """The first request of a vector, as fields and DATA: each line is a field, nothing is left out or mended."""
    head, _, rest = data.partition(b"\r\n\r\n")
    start_line, *lines = head.split(b"\r\n")
    method, _, rest_of_line = start_line.partition(b" ")
    target, _, version = rest_of_line.rpartition(b" ")
    fields, authority = [], []
    for line in lines:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        (authority if name.lower() == b"host" else fields).append((name.lower(), value))
    pseudo = [(b":method", method), (b":scheme", b"http"), (b":path", target if version else rest_of_line)]
    pseudo += [(b":authority", value) for _, value in authority]
    return pseudo + fields, rest


def test_what_http_1_1_could_not_carry_is_refused_and_never_escaped(start, upstream):
    """Each of the vectors by HTTP/2: what gets through is one request that has no more than was said. Its body may
    have gone before more DATA came than its Content-Length says."""
    proxy = start(f"{LISTEN}workers: 1\ntrusted_proxies: [127.0.0.0/8]\nupstream: {upstream.url}")
    table = {b"v%d" % vector.line: vector for vector in vectors.table()}
    given, answered = {}, set()
    for name, vector in table.items():
        fields, body = translated(vector.data)
        given[name] = (fields, body)
        with Http2Client(proxy.address) as client:
            try:
                stream = client.begin(raw(fields + [(b"x-request-id", name)]), ends=False)
                for at in range(0, len(body), 16000):
                    client.data(stream, body[at:at + 16000])
                client.data(stream, b"", ends=True)
                answer = client.answer(stream)
                if answer.heads and answer.status == 200:
                    answered.add(name)
            except (Closed, BrokenPipeError, ConnectionResetError):
                pass
        assert not upstream.faults, f"vectors.txt:{vector.line}: {shown(vector.data)}"
    assert Client(proxy.address).ask(path="/last").status == 200
    passed = [message for message in upstream.requests if message.target != b"/last"]
    names = [message.all(b"x-request-id")[0] for message in passed]
    assert len(names) == len(set(names)) and answered <= set(names) and 20 < len(names) < len(table) / 2
    for name, message in zip(names, passed):
        fields, body = given[name]
        told = f"vectors.txt:{table[name].line}: {shown(table[name].data)} passed as {message}"
        assert (message.method, message.target) == (fields[0][1], fields[2][1]), told
        assert body == message.body or body[:int(dict(fields)[b"content-length"])] == message.body, told
        for field in message.fields:
            assert (field[0].lower(), field[1]) in fields or field[0].lower() in OURS, told


OURS = {b"host", b"via", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip", b"x-request-id",
        b"transfer-encoding", b"content-length", b"cookie", b"forwarded", b"max-forwards"}
