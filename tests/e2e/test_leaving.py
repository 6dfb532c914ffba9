"""Who ends a request decides what it costs: a client that leaves does not get back what it took."""

import pytest

from harness import message
from harness.upstream import answer
from harness.wait import until

ATTEMPTS = 8
LIMIT = 3


def policy(upstream, limit, top=""):
    return f"""
timeouts: {{body_rate: 1MiB/s, head: 1s}}
{top}
upstreams: {{api: {{servers: '{upstream.url}', buffer: off, timeout: {{response: 2s}}}}}}
limits: {{login: {{key: header.x-id, rate: {LIMIT}/day, {limit}}}}}
routes:
  - {{match: {{path: /look}}, limits: [login], respond: {{status: 401}}}}
  - {{limits: [login], max_body: 1KiB, upstream: api}}
"""


class Slow:
    """Says nothing, or only the beginning of an answer, to requests that it has seen."""

    def __init__(self, beginning=b""):
        self.beginning = beginning

    def __call__(self, peer, request):
        peer.send(self.beginning)
        peer.hang()


def head(fields):
    return (b"POST /login HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nContent-Type: application/json\r\n" +
            fields + b"\r\n")


GUESS = b'{"user":"a","password":"b"}'


def reset_before_the_answer(client, seen):
    client.send(head(b"Content-Length: %d\r\n" % len(GUESS)) + GUESS)
    seen()
    client.reset()


def close_with_half_an_answer(client, seen):
    reset_before_the_answer(client, lambda: (seen(), client.reader.head()))


def reset_in_the_body(client, seen):
    client.send(head(b"Content-Length: %d\r\n" % (len(GUESS) + 1)) + GUESS)
    seen()
    client.reset()


def end_in_the_body(client, seen):
    client.send(head(b"Content-Length: %d\r\n" % (len(GUESS) + 1)) + GUESS)
    seen()
    client.end()
    client.reader.take_rest()


def break_the_framing(client, seen):
    client.send(head(b"Transfer-Encoding: chunked\r\n") + b"%x\r\n%s\r\n" % (len(GUESS), GUESS))
    seen()
    client.send(b"nonsense\r\n\r\n")
    assert client.read().status == 400


def send_too_much(client, seen):
    client.send(head(b"Transfer-Encoding: chunked\r\n") + b"%x\r\n%s\r\n" % (len(GUESS), GUESS))
    seen()
    client.send(b"800\r\n" + bytes(0x800) + b"\r\n0\r\n\r\n")
    assert client.read().status == 413


def send_too_slowly(client, seen):
    client.send(head(b"Content-Length: %d\r\n" % (len(GUESS) + 1)) + GUESS)
    seen()
    assert client.read().status == 408


WAYS = [reset_before_the_answer, close_with_half_an_answer, reset_in_the_body, end_in_the_body,
        break_the_framing, send_too_much, send_too_slowly]


@pytest.mark.parametrize("limit", ["charge_on: [401, 403]", "refund_on: [4xx, 5xx, server_failed]",
                                   "charge_on: [401], refund_on: [server_failed, 2xx, 400, 408, 413]"])
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
def test_a_client_that_ends_its_request_pays_for_it(start_in_store, start_upstream, leave, limit):
    beginning = b""
    if leave is close_with_half_an_answer:
        beginning = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    upstream = start_upstream(Slow(beginning), reads_body=False)
    proxy = start_in_store(policy(upstream, limit))
    for number in range(LIMIT):
        with proxy.connect() as client:
            leave(client, lambda: upstream.wait_for(number + 1))
    assert len(upstream.requests) == LIMIT
    for _ in range(ATTEMPTS - LIMIT):
        response = proxy.ask("POST", "/login", {"X-Id": "a"}, GUESS)
        assert response.status == 429
    assert len(upstream.requests) == LIMIT


def close_at_once(client):
    client.close()


def send_no_body(client):
    assert client.read().status == 408


@pytest.mark.parametrize("leave", [close_at_once, send_no_body], ids=lambda way: way.__name__)
def test_what_no_server_was_sent_is_not_counted(start_in_store, start_upstream, leave):
    """Otherwise heads alone fill a limit that clients share, and that counts answers."""
    upstream = start_upstream(lambda peer, request: peer.send(answer("401 Unauthorized")))
    proxy = start_in_store(policy(upstream, "charge_on: [401]").replace("buffer: off", "buffer: {wait: 100ms}"))
    for number in range(ATTEMPTS):
        with proxy.connect() as client:
            client.send(head(b"Content-Length: 10\r\n"))
            leave(client)
            proxy.lines_of("/login", number + 1)
    assert not upstream.requests
    for _ in range(LIMIT):
        assert proxy.ask("POST", "/login", {"X-Id": "a"}, GUESS).status == 401
    assert proxy.ask("POST", "/login", {"X-Id": "a"}, GUESS).status == 429


def test_a_client_that_leaves_is_forgiven_where_the_limit_says_so(start_in_store, start_upstream):
    upstream = start_upstream(Slow(), reads_body=False)
    proxy = start_in_store(policy(upstream, "charge_on: [401], refund_on: [client_left]"))
    for number in range(ATTEMPTS):
        client = proxy.connect()
        reset_before_the_answer(client, lambda: upstream.wait_for(number + 1))
        proxy.lines_of("/login", number + 1)
    until(lambda: proxy.ask(path="/look", fields={"X-Id": "a"}).status == 401, "a refund")


def test_a_client_that_closes_in_order_before_a_short_answer_has_not_left(
        start_in_store, start_upstream):
    """It may still read: the answer is written to it, is whole, and its status decides."""
    upstream = start_upstream(lambda peer, request: peer.send(answer("401 Unauthorized")))
    proxy = start_in_store(policy(upstream, "refund_on: [client_left]"))
    for _ in range(LIMIT):
        with proxy.connect() as client:
            client.send(message.request("POST", "/login", {"X-Id": "a"}, GUESS))
            client.end()
            assert client.read().status == 401
    assert proxy.ask("POST", "/login", {"X-Id": "a"}, GUESS).status == 429


class Impatient:
    """Acts on what has come of the request, and closes when the client keeps it waiting."""

    ANSWER_BYTES = 64 << 20

    def __init__(self, n_body):
        self.n_body = n_body

    def __call__(self, peer, request):
        peer.reader.take(self.n_body, "the guess")
        peer.sock.settimeout(1.5)
        try:
            if self.n_body > 0:
                peer.reader.take(1, "the last byte")
            else:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self.ANSWER_BYTES)
                peer.send(bytes(self.ANSWER_BYTES))
        except OSError:
            pass  # it has waited long enough
        peer.reset()


def withhold_a_byte(client, upstream, number):
    client.send(head(b"Content-Length: %d\r\n" % (len(GUESS) + 1)) + GUESS)
    assert client.read().status == 408


def read_nothing(client, upstream, number):
    client.send(head(b""))
    upstream.wait_for(number)
    until(lambda: not upstream.open_peers(), "a server that gives up")
    with pytest.raises(message.Cut):
        client.read()


@pytest.mark.takes(5)
@pytest.mark.parametrize("keep_waiting, n_body, limit", [
    (withhold_a_byte, len(GUESS), "charge_on: [401, 403]"),
    (withhold_a_byte, len(GUESS), "refund_on: [server_failed, 502]"),
    (read_nothing, 0, "refund_on: [server_failed]"),
], ids=["a byte, count", "a byte, refund", "reading"])
def test_a_client_that_keeps_a_server_waiting_until_it_gives_up_pays_for_it(
        start_in_store, start_upstream, keep_waiting, n_body, limit):
    upstream = start_upstream(Impatient(n_body), reads_body=False)
    proxy = start_in_store(policy(upstream, limit).replace("body_rate: 1MiB/s, head: 1s", "idle: 60s"))
    for number in range(LIMIT):
        with proxy.connect() as client:
            keep_waiting(client, upstream, number + 1)
    assert proxy.ask("POST", "/login", {"X-Id": "a"}, GUESS).status == 429
    assert len(upstream.requests) == LIMIT


@pytest.mark.takes(11)
def test_a_client_that_keeps_servers_waiting_does_not_have_them_ejected(start, start_upstream):
    upstreams = [start_upstream(Impatient(1), reads_body=False) for _ in range(2)]
    proxy = start(f"upstreams: {{api: {{servers: {[one.url for one in upstreams]}, eject: 1}}}}\n"
                  "routes: [{upstream: api}]\n")
    for _ in upstreams:
        with proxy.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
            assert client.read().status == 408
    assert "server is down" not in proxy.log_at_end()


def echo(peer, request):
    origin = request.get("Origin")
    fields = 80 * [("Access-Control-Allow-Origin", origin)]  # beyond max_head, where the client's is long
    peer.send(answer("401 Unauthorized", fields))


def test_an_answer_that_a_client_makes_too_large_is_counted(start_in_store, start_upstream):
    """The server has acted and answered: that the status is not known is no reason to give back."""
    upstream = start_upstream(echo)
    proxy = start_in_store(policy(upstream, "charge_on: [401]", "max: {head: 1KiB}"))
    fields = {"X-Id": "a", "Origin": "a" * 900}
    for _ in range(LIMIT):
        assert proxy.ask("POST", "/login", fields, GUESS).status == 502
    assert proxy.ask("POST", "/login", fields, GUESS).status == 429


def test_answers_that_a_client_makes_too_large_do_not_eject_servers(start, start_upstream):
    upstreams = [start_upstream(echo) for _ in range(2)]
    proxy = start(f"upstreams: {{api: {{servers: {[one.url for one in upstreams]}, eject: 1}}}}\n"
                  "max: {head: 1KiB}\nroutes: [{upstream: api}]\n")
    for _ in upstreams:
        assert proxy.ask("GET", "/", {"Origin": "a" * 900}).status == 502
    assert "server is down" not in proxy.log_at_end()
