"""Clients that are slow, or want too much: each has a time and a maximum."""

import time

from harness.wait import until


def policy(more):
    return f"""
        workers: 1
        {more}
        routes:
          - {{match: {{path: /ok}}, respond: {{status: 200, body: ok}}}}
    """


def test_rule_66_a_head_that_takes_too_long_is_408(start):
    proxy = start(policy("timeouts: {head: 300ms, idle: 10s}"))
    with proxy.send(b"GET /ok HTTP/1.1\r\nHost: a\r\n") as client:
        response = client.read()
        assert response.status == 408 and response.get("Connection") == "close"
        assert client.has_ended()


def test_the_time_of_a_head_does_not_begin_anew_with_each_byte(start):
    proxy = start(policy("timeouts: {head: 500ms, idle: 10s}"))
    started = time.monotonic()
    with proxy.connect() as client:
        for byte in b"GET /ok HTTP/1.1\r\nX-Slow: " + b"a" * 1000:
            client.send(bytes([byte]))
            if not client.is_quiet(0.05):
                break
        assert client.read().status == 408
    assert time.monotonic() - started < 5


def test_rule_66_an_idle_connection_is_closed_without_a_word(start):
    proxy = start(policy("timeouts: {idle: 200ms}"))
    with proxy.connect() as fresh, proxy.connect() as used:
        assert used.ask(path="/ok").status == 200
        assert fresh.has_ended() and used.has_ended()


def test_a_body_that_stands_still_is_408(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"timeouts: {{idle: 300ms}}\nupstream: {upstream.url}\n")
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello") as client:
        response = client.read()
        assert response.status == 408 and client.has_ended()
    until(lambda: upstream.cut_bodies, "the upstream's connection to be cut")


def test_a_slow_body_that_moves_is_not_cut(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"timeouts: {{idle: 400ms}}\nupstream: {upstream.url}\n")
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n") as client:
        for byte in b"abcdefgh":
            assert client.is_quiet(0.1)
            client.send(bytes([byte]))
        assert client.read().status == 200
    assert upstream.last.body == b"abcdefgh"


def test_a_client_that_does_not_read_is_cut(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            peer.send(b"x" * 1000000)

    upstream = start_upstream(behave)
    proxy = start(f"timeouts: {{idle: 400ms}}\nupstream: {upstream.url}\n")
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"):
        assert proxy.log_lines(1)[0]["fault"] == "the client does not read"
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")


def test_too_many_connections_are_503_and_a_place_is_free_again(start):
    proxy = start(policy("max: {connections: 2}"))
    first, second = proxy.connect(), proxy.connect()
    assert [client.ask(path="/ok").status for client in (first, second)] == [200, 200]
    with proxy.connect() as third:
        response = third.read()
        assert response.status == 503 and response.get("Retry-After") == "1"
        assert response.get("Connection") == "close" and third.has_ended()
    first.close()

    def is_served():
        with proxy.connect() as client:
            client.send(b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n")
            return client.read().status == 200

    until(is_served, "a free place")
    assert second.ask(path="/ok").status == 200


def test_a_head_beyond_the_maximum_is_431(start):
    proxy = start(policy("max: {head: 1KiB}"))
    assert proxy.ask(path="/ok", fields={"X-A": "a" * 900}).status == 200
    assert proxy.ask(path="/ok", fields={"X-A": "a" * 1100}).status == 431


def test_rule_19_fields_beyond_the_maximum_are_431(start):
    proxy = start(policy("max: {headers: 10}"))
    assert proxy.ask(path="/ok", fields=[("X-A", "1")] * 9).status == 200
    assert proxy.ask(path="/ok", fields=[("X-A", "1")] * 10).status == 431


def test_rule_08_a_target_beyond_the_maximum_is_414(start):
    proxy = start(policy(""))
    assert proxy.ask(path="/ok?" + "a" * 8000).status == 200
    assert proxy.ask(path="/ok?" + "a" * 8300).status == 414


def test_an_abandoned_connection_leaves_no_line_in_the_log(start):
    proxy = start(policy(""))
    proxy.connect().close()
    assert proxy.ask(path="/ok").status == 200
    assert proxy.log_lines(1)[0]["path"] == "/ok"
