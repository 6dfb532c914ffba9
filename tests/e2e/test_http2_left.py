"""Requests by HTTP/2 that their clients leave, to servers that work on for them: `max_streams` of the upstream."""

import pytest

from harness.wait import until

WORKER, LEAVER, OTHER = 8, 9, 1


def policy(server, more=", max_streams: 16"):
    return f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        workers: 1
        trusted_proxies: [127.0.0.1]
        upstreams: {{api: {{servers: ["{server.url}"]{more}}}}}
        limits: {{a: {{key: client.ip, rate: 10000/s}}}}
        routes: [{{upstream: api, limits: [a]}}]
        """


def behave(peer, request):
    if request.path != "/work":
        peer.answer(request.stream)


@pytest.fixture(name="server")
def a_server(start_http2_server):
    return start_http2_server(behave)


def of(address):
    return [("x-forwarded-for", f"198.51.100.{address}")]


def work(server, client, address=WORKER):
    """Sends a request that is not answered: its stream, and what the server has."""
    n_before = len(server.requests)
    stream = client.begin(path="/work", more=of(address))
    return stream, server.wait_for(n_before + 1)


def leave(server, client, n=1):
    """Sends @n requests that the server works on for ever, and leaves each: the server's."""
    requests = []
    for _ in range(n):
        stream, request = work(server, client, LEAVER)
        requests.append(request)
        client.reset(stream)
        until(lambda: requests[-1].reset or requests[-1].peer.is_closed, "the server to be told")
    return requests


def connection_of(server, client, **request):
    """That of one more request, which is answered."""
    assert client.ask(more=of(OTHER), **request).status == 200
    return server.last.peer.number


def test_a_connection_on_which_a_request_was_left_takes_no_more(start, server, connect):
    proxy = start(policy(server))
    client, other = connect(proxy), connect(proxy)
    stream, request = work(server, other)
    assert leave(server, client)[0].peer is request.peer
    assert connection_of(server, other) == 2
    assert connection_of(server, other, method="POST") == 2
    assert connection_of(server, client) == 2
    request.peer.answer(request.stream, b"the last")
    assert other.answer(stream).body == b"the last"
    until(lambda: request.peer.is_closed, "it to be closed")
    assert request.peer.goaway == "NO_ERROR"


def test_a_connection_of_nothing_but_left_requests_ends(start, server, connect):
    proxy = start(policy(server))
    requests = leave(server, connect(proxy), 5)
    assert [request.peer.number for request in requests] == [1, 2, 3, 4, 5]
    until(lambda: all(request.peer.is_closed for request in requests), "all to be closed")
    assert {request.peer.goaway for request in requests} == {"NO_ERROR"}
    assert connection_of(server, connect(proxy)) == 6


def test_others_share_no_connection_with_requests_that_were_left(start, server, connect):
    proxy = start(policy(server))
    client, other = connect(proxy), connect(proxy)
    for _ in range(10):
        left = [request.peer for request in leave(server, client, 7)]
        connection_of(server, other)
        assert server.last.peer not in left


def test_requests_that_are_answered_end_no_connection(start, server, connect):
    other = connect(start(policy(server)))
    assert {connection_of(server, other) for _ in range(20)} == {1}
    assert {connection_of(server, other, method="POST", body=b"x" * 5000) for _ in range(20)} == {1}


def test_a_request_that_the_server_resets_ends_no_connection(start, start_http2_server, connect):
    server = start_http2_server(lambda peer, request: peer.reset(request.stream, "INTERNAL_ERROR")
                                if request.path == "/reset" else peer.answer(request.stream))
    other = connect(start(policy(server)))
    for _ in range(10):
        assert other.ask(path="/reset", method="POST", more=of(OTHER)).status == 502
    assert connection_of(server, other) == 1


@pytest.mark.parametrize("more", ["", ", max_streams: 100"])
def test_without_max_streams_a_request_that_is_left_ends_no_connection(start, server, connect, more):
    """Most servers end its handler."""
    proxy = start(policy(server, more))
    leave(server, connect(proxy), 110)
    assert connection_of(server, connect(proxy)) == 1
