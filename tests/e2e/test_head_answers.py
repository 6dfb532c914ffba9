"""Answers to HEAD: a body that a server sends against the rules does not become the next client's answer."""

import pytest

from harness.wait import until

BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
FRAMINGS = {
    "length": b"Content-Length: %d\r\n\r\n" % len(BODY),
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n",
}


def late_body(framing, seen):
    """Answer HEAD with a head, and send the body when the next request has come on that connection."""
    def behave(peer, request):
        if request.method != "HEAD":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
            return
        peer.send(b"HTTP/1.1 200 OK\r\n" + FRAMINGS[framing])
        peer.sock.settimeout(2)
        try:
            seen.append(peer.sock.recv(65536))
        except TimeoutError:
            seen.append(None)
        if seen[-1]:
            peer.send(BODY)
        peer.close()

    return behave


def policy(upstream, more=""):
    return f"workers: 1\nupstreams: {{api: {{servers: '{upstream.url}'{more}}}}}\nroutes: [{{upstream: api}}]\n"


@pytest.mark.parametrize("framing", FRAMINGS)
def test_rule_38_a_late_body_is_no_answer_to_the_next_request(start, start_upstream, framing):
    seen = []
    upstream = start_upstream(late_body(framing, seen))
    proxy = start(policy(upstream))
    with proxy.connect() as first, proxy.connect() as second:
        assert first.ask("HEAD").status == 200
        assert second.ask("GET").body == b"ok\n"
    until(lambda: seen, "the server to see the end of the first connection")
    assert seen == [b""] and upstream.n_connections == 2


def test_a_late_body_is_the_next_answer_where_the_policy_says_reuse(start, start_upstream):
    """What the option is warned of: without this, nothing shows that the attack above is one."""
    seen = []
    upstream = start_upstream(late_body("length", seen))
    proxy = start(policy(upstream, ", reuse_after_head: true"))
    with proxy.connect() as first, proxy.connect() as second:
        assert first.ask("HEAD").status == 200
        assert second.ask("GET").body == b"forged"


@pytest.mark.parametrize("more, head, n_connections", [
    ("", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 2),
    (", reuse_after_head: true", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 1),
    ("", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1),
    ("", b"HTTP/1.1 204 No Content\r\n\r\n", 1),
    ("", b"HTTP/1.1 200 OK\r\nX-No: length\r\n\r\n", 1),
])
def test_a_connection_is_kept_after_head_where_no_body_is_announced_or_the_policy_says_so(
        start, start_upstream, more, head, n_connections):
    def behave(peer, request):
        peer.send(head if request.method == "HEAD" else b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, more))
    with proxy.connect() as client:
        assert client.ask("HEAD").status in (200, 204)
        assert client.ask("GET").body == b"ok\n"
    assert upstream.n_connections == n_connections
