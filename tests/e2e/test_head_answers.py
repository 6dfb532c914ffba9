"""Answers that have no body by the rules: what a server sends all the same does not become the next client's answer."""

import threading

import pytest

from harness.wait import until

BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
FRAMINGS = {
    "length": b"Content-Length: %d\r\n\r\n" % len(BODY),
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n",
    "none": b"Content-Type: text/csv\r\n\r\n",  # a view of Django that streams, on gunicorn
}
HEAD = ("HEAD", "200 OK")
ANSWERS = [(*HEAD, "length"), (*HEAD, "chunked"), (*HEAD, "none"),
           *(("GET", status, framing) for status in ("204 No Content", "304 Not Modified")
             for framing in ("length", "chunked"))]


def late_body(method, status, framing, seen):
    """Answer the first request with a head, and send the body when the next request has come on that connection."""
    def behave(peer, request):
        if request.target != "/bodyless":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
            return
        assert request.method == method
        peer.send(f"HTTP/1.1 {status}\r\n".encode() + FRAMINGS[framing])
        peer.sock.settimeout(2)
        try:
            seen.append(peer.sock.recv(65536))
        except ConnectionResetError:
            seen.append(b"")
        except TimeoutError:
            seen.append(None)
        if seen[-1]:
            peer.send(BODY)
        peer.close()

    return behave


def policy(upstream, more=""):
    return f"workers: 1\nupstreams: {{api: {{servers: '{upstream.url}'{more}}}}}\nroutes: [{{upstream: api}}]\n"


@pytest.mark.parametrize("method, status, framing", ANSWERS)
def test_rule_38_a_late_body_is_no_answer_to_the_next_request(start, start_upstream, method, status, framing):
    seen = []
    upstream = start_upstream(late_body(method, status, framing, seen))
    proxy = start(policy(upstream))
    with proxy.connect() as first, proxy.connect() as second:
        assert first.ask(method, "/bodyless").status == int(status[:3])
        assert second.ask("GET").body == b"ok\n"
    until(lambda: seen, "the server to see the end of the first connection")
    assert seen == [b""] and upstream.n_connections == 2


def test_a_late_body_is_the_next_answer_where_the_policy_says_reuse(start, start_upstream):
    """What the option is warned of: without this, nothing shows that the attack above is one."""
    seen = []
    upstream = start_upstream(late_body(*HEAD, "length", seen))
    proxy = start(policy(upstream, ", reuse_after_head: true"))
    with proxy.connect() as first, proxy.connect() as second:
        assert first.ask("HEAD", "/bodyless").status == 200
        assert second.ask("GET").body == b"forged"


def test_connections_without_a_doubt_are_used_before_others(start, start_upstream):
    """A 204 may be followed by a body that nothing announces: as much time as possible is left for it to come."""
    together = threading.Barrier(2)

    def behave(peer, request):
        if request.target == "/both":
            together.wait(10)
        peer.send(b"HTTP/1.1 204 No Content\r\n\r\n" if request.target == "/bodyless" else
                  b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % peer.number)

    proxy = start(policy(start_upstream(behave)))
    with proxy.connect() as first, proxy.connect() as second:
        for client in (first, second):
            client.send(b"GET /both HTTP/1.1\r\nHost: a\r\n\r\n")
        assert {client.read().body for client in (first, second)} == {b"1", b"2"}
        for _ in range(5):
            latest = first.ask("GET").body
            assert first.ask("GET", "/bodyless").status == 204
            assert second.ask("GET").body != latest


@pytest.mark.parametrize("more, head, n_connections", [
    ("", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 2),
    (", reuse_after_head: true", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 1),
    ("", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1),
    ("", b"HTTP/1.1 204 No Content\r\n\r\n", 1),
    ("", b"HTTP/1.1 200 OK\r\nX-No: length\r\n\r\n", 2),
    (", reuse_after_head: true", b"HTTP/1.1 200 OK\r\nX-No: length\r\n\r\n", 1),
    ("", b"HTTP/1.1 304 Not Modified\r\n\r\n", 1),
    ("", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 2),
    (", reuse_after_head: true", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 1),
    (", reuse_after_head: true", b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", 2),
    ("", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 1),
])
def test_a_connection_is_kept_after_head_where_no_body_is_announced_or_the_policy_says_so(
        start, start_upstream, more, head, n_connections):
    def behave(peer, request):
        peer.send(head if request.method == "HEAD" else b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, more))
    with proxy.connect() as client:
        assert client.ask("HEAD").status in (200, 204, 304)
        assert client.ask("GET").body == b"ok\n"
    assert upstream.n_connections == n_connections
