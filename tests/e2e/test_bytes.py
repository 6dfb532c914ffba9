"""Every byte value in every place of a request: one well-formed line in the log, well-formed commands
to Redis, or a clean 400; and no secret in either."""

import re

import pytest

from harness import message
from harness.recorder import Recorder
from harness.wait import until

SECRET = b"hush"
HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"

# Where a byte may stand: <> is it, <x> its two digits.
PLACES = {
    "method": b"G<>T / HTTP/1.1\r\nHost: a\r\n\r\n",
    "path": b"GET /a<>b/c HTTP/1.1\r\nHost: a\r\n\r\n",
    "escape in the path": b"GET /a%<x>b/c HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute target": b"GET http://a<>b/c HTTP/1.1\r\nHost: a\r\n\r\n",
    "query": b"GET /?q=hush<>hush HTTP/1.1\r\nHost: a\r\n\r\n",
    "escape in the query": b"GET /?q=hush%<x>hush HTTP/1.1\r\nHost: a\r\n\r\n",
    "password": b"GET http://u:hush@a<>/ HTTP/1.1\r\nHost: u:hush<>hush@a\r\n\r\n",
    "fragment": b"GET /<>#hush HTTP/1.1\r\nHost: a\r\n\r\n",
    "version": b"GET / HTTP/1<>1\r\nHost: a\r\n\r\n",
    "host": b"GET / HTTP/1.1\r\nHost: a<>b\r\n\r\n",
    "header name": HEAD + b"X-A<>b: c\r\n\r\n",
    "header value": HEAD + b"X-Key: hush<>hush\r\n\r\n",
    "cookie": HEAD + b"Cookie: a=b; c=hush<>hush; d=e\r\n\r\n",
    "cookie name": HEAD + b"Cookie: c<>=hush\r\n\r\n",
    "request id": HEAD + b"X-Request-ID: id<>id\r\n\r\n",
    "forwarded for": HEAD + b"X-Forwarded-For: 192.0.2.1<>, 10.0.0.1\r\n\r\n",
}
FINE, REFUSED = "204", "400"
# What a key of Redis is made of, as docs/policy.md and docs/redis.md say.
KEY = re.compile(rb"[A-Za-z0-9._~/:%@+{}#=,-]+")
ALL_KEYS = ["method", "path", "path.1", "host", "query.q", "header.x-key", "cookie.c", "client.ip"]


def requests_of(place):
    return [PLACES[place].replace(b"<>", bytes([byte])).replace(b"<x>", b"%02x" % byte)
            for byte in range(256)]


def ask_each(proxy, requests):
    """The status of each, one after the other, on as few connections as the answers allow."""
    statuses = []
    client = proxy.connect()
    for request in requests:
        client.send(request)
        response = client.read("HEAD" if request.startswith(b"HEAD") else "GET")
        statuses.append(str(response.status))
        if response.get("Connection") == "close":
            assert client.has_ended()
            client.close()
            client = proxy.connect()
    return statuses


@pytest.fixture(name="start_recorded")
def start_with_a_recorder(start, start_redis):
    recorders = []

    def make(log_format):
        recorders.append(Recorder(start_redis()))
        proxy = start(f"""
            workers: 1
            log: {{format: {log_format}, denied_lines: 1000000}}
            trusted_proxies: [127.0.0.1, 10.0.0.0/8]
            store: {{redis: '{recorders[0].url}', deadline: 10s, on_failure: deny}}
            limits:
              all: {{key: [{", ".join(ALL_KEYS)}], rate: 1000000/day}}
            routes: [{{limits: [all], respond: {{status: 204}}}}]
        """, log_format=log_format)
        until(lambda: 'msg="link up"' in proxy.stderr(), "Redis")
        return proxy, recorders[0]

    yield make
    for recorder in recorders:
        recorder.stop()


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_every_byte_everywhere_leaves_one_line_and_whole_commands(start_recorded, log_format):
    proxy, recorder = start_recorded(log_format)
    statuses = {place: ask_each(proxy, requests_of(place)) for place in PLACES}
    told = [status for place in PLACES for status in statuses[place]]
    assert set(told) == {FINE, REFUSED}

    lines = proxy.log_lines(len(told))
    assert [line["status"] for line in lines] == told
    scripts = [words for words in recorder.commands() if words[0] in (b"EVALSHA", b"EVAL")]
    assert len(scripts) >= told.count(FINE)
    for words in scripts:
        n_keys = int(words[2])
        assert n_keys > 0 and all(KEY.fullmatch(key) for key in words[3:3 + n_keys]), words

    assert SECRET not in b"".join(bytes(sent) for sent in recorder.sent)
    assert not [line for line in proxy.stdout().splitlines() if SECRET in line]
    assert SECRET.decode() not in proxy.stderr()


def test_bytes_that_differ_are_counted_apart(start_recorded):
    proxy, recorder = start_recorded("logfmt")
    for place in ("path", "header value", "cookie", "escape in the query"):
        before = recorder.mark()
        n_fine = ask_each(proxy, requests_of(place)).count(FINE)
        keys = {words[3] for words in recorder.commands(before) if words[0] == b"EVALSHA"}
        # In a path letters stand for escapes of themselves alone; "?" and ";" end what is counted.
        assert len(keys) in (n_fine, n_fine - 1) and n_fine > 80, place


def test_a_response_of_any_byte_is_whole_or_502(start, start_upstream):
    answers = [b"HTTP/1.1 200 O%sK\r\nX-A: b%sc\r\nContent-Length: 0\r\n\r\n".replace(
        b"%s", bytes([byte])) for byte in range(256)]
    upstream = start_upstream(lambda peer, request: peer.send(answers[int(request.target[1:])]))
    proxy = start(f"workers: 1\nupstream: {upstream.url}\n")
    with proxy.connect() as client:
        statuses = [str(client.ask(path=f"/{byte}").status) for byte in range(256)]
    assert [line["status"] for line in proxy.log_lines(256)] == statuses
    bad = {byte for byte in range(256) if statuses[byte] == "502"}
    assert bad == {byte for byte in (*range(32), 127) if byte != 9}
    assert message.Response(answers[65]).status == 200
