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
    assert time.monotonic() - started < 30


def test_rule_66_an_idle_connection_is_closed_without_a_word(start):
    proxy = start(policy("timeouts: {idle: 3s}"))
    with proxy.connect() as fresh, proxy.connect() as used:
        assert used.ask(path="/ok").status == 200
        assert fresh.has_ended() and used.has_ended()


def test_a_body_that_stands_still_is_408(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"timeouts: {{idle: 2s}}\nupstream: {upstream.url}\n")
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello") as client:
        response = client.read()
        assert response.status == 408 and client.has_ended()
    until(lambda: upstream.cut_bodies, "the upstream's connection to be cut")


def test_a_slow_body_that_moves_is_not_cut(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"""
        timeouts: {{idle: 4s, body_rate: off}}
        upstreams: {{api: {{servers: "{upstream.url}", buffer: off}}}}
        routes: [{{upstream: api}}]
    """)
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n") as client:
        for byte in b"abcdefgh":
            assert client.is_quiet(0.7)
            client.send(bytes([byte]))
        assert client.read().status == 200
    assert upstream.last.body == b"abcdefgh"


def test_a_client_that_does_not_read_is_cut(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            peer.send(b"x" * 1000000)

    upstream = start_upstream(behave)
    proxy = start(f"timeouts: {{idle: 2s}}\nupstream: {upstream.url}\n")
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


# --- connections of one client ---


def per_client(n, more=""):
    return policy(f"max: {{connections: 100, connections_per_client: {n}}}\n        {more}").replace(
        "workers: 1", "workers: 2")


def is_refused(client):
    response = client.read()
    return (response.status == 503 and response.get("Retry-After") == "1" and
            response.get("Connection") == "close" and client.has_ended())


def test_a_client_has_so_many_connections_over_all_workers_and_others_have_theirs(start):
    proxy = start(per_client(3))
    mine = [proxy.connect("127.0.0.2") for _ in range(3)]
    assert [client.ask(path="/ok").status for client in mine] == [200] * 3
    for _ in range(5):
        with proxy.connect("127.0.0.2") as more:
            assert is_refused(more)
    theirs = [proxy.connect("127.0.0.3") for _ in range(3)]
    assert [client.ask(path="/ok").status for client in theirs + mine] == [200] * 6
    told = until(lambda: [line for line in proxy.stderr().splitlines()
                          if '"too many connections of a client"' in line], "the log's word")
    assert "client=127.0.0.2" in told[0]


def test_a_connection_that_ends_makes_room_for_another_of_its_client(start):
    proxy = start(per_client(1))

    def is_served():
        with proxy.connect("127.0.0.2") as client:
            if client.ask(path="/ok").status != 200:
                return False
            with proxy.connect("127.0.0.2") as another:
                assert is_refused(another)
            return True

    for _ in range(3):
        until(is_served, "room for a connection")


def test_trusted_proxies_have_as_many_as_they_want(start):
    proxy = start(per_client(1, "trusted_proxies: [127.0.0.2]"))
    clients = [proxy.connect("127.0.0.2") for _ in range(20)]
    assert [client.ask(path="/ok").status for client in clients] == [200] * 20


def test_who_a_proxy_header_names_is_the_client_that_is_counted(start):
    proxy = start(per_client(2, """trusted_proxies: [127.0.0.1]
        listen: {address: 127.0.0.1:0, proxy_protocol: true}"""))

    def come(address):
        return proxy.send(f"PROXY TCP6 {address} ::1 1 2\r\n".encode())

    mine = [come("2001:db8::1"), come("2001:db8:0:ffff::1")]
    assert [client.ask(path="/ok").status for client in mine] == [200] * 2
    with come("2001:db8::3") as more:
        assert is_refused(more)
    with come("2001:db8:1::1") as other:
        assert other.ask(path="/ok").status == 200


# --- heads ---


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
