"""Servers of HTTP/2 such as Tomcat and Jetty have a thread for each stream that waits for its body. So a body is awaited
before a server is chosen, and has to keep min_upload then, whatever its client says of itself."""

import pytest

from harness.http2 import Http2Client
from harness.message import request
from harness.wait import until

CALL = {"method": "POST", "path": "/p.S/Up", "more": [("content-type", "application/grpc"), ("te", "trailers")]}
MESSAGE = b"\0\0\0\0\1x"
LONG = {"Content-Length": "9000"}


def policy(server, match="path: /**"):
    return f"""
listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
upstreams: {{api: {{servers: "{server.url}", buffer: {{wait: 300ms}}}}}}
routes: [{{match: {{path: /slow}}, upstream: api}}, {{match: {{{match}}}, upstream: api}}]
"""


def never(_peer, _request):
    """No answer."""


def test_a_body_that_does_not_begin_reaches_no_server(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    with proxy.send(request("POST", "/", LONG)) as client:
        assert client.read().status == 408
    assert not server.requests


@pytest.mark.parametrize("length", [9000, 3000])
def test_a_body_that_stands_still_soon_leaves_its_server(start, start_http2_server, length):
    server = start_http2_server(never)
    proxy = start(policy(server))
    with proxy.send(request("POST", "/", {"Content-Length": str(length)}) + bytes(2000)) as client:
        answer = client.read()
    assert answer.status == 408 and b"too slowly for a server to wait for it" in answer.body  # by min_upload
    until(lambda: server.requests and server.requests[0].reset == "CANCEL", "the server to be told")


def test_a_body_in_time_goes_out_at_once(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    with proxy.send(request("POST", "/", LONG) + bytes(8000)) as client:
        client.send(bytes(1000))
        assert client.read().status == 200
    assert len(server.requests[0].body) == 9000


@pytest.mark.parametrize("buffer", ["off", "{wait: 300ms, min_upload: off}"])
def test_the_policy_may_say_that_bodies_are_sent_slowly(start, start_http2_server, buffer):
    server = start_http2_server()
    proxy = start(policy(server).replace("{wait: 300ms}", buffer))
    with proxy.send(request("POST", "/", LONG) + bytes(2000)) as client:
        until(lambda: server.requests and len(server.requests[0].body) == 2000, "what has come")
        client.send(bytes(7000))
        assert client.read().status == 200


def begin_call(client):
    stream = client.begin(ends=False, **CALL)
    client.data(stream, MESSAGE)
    return stream


def test_the_content_type_of_a_call_does_not_hold_a_server_of_another_kind(start, start_http2_server, connect):
    """Neither does an answer that has the type which its request names, as of a file."""
    def behave(peer, asked):
        peer.answer(asked.stream, MESSAGE, fields=[("content-type", "application/grpc")])

    server = start_http2_server(behave)
    client = connect(start(policy(server)))
    assert client.ask(MESSAGE, **CALL).status == 200
    begin_call(client)
    until(lambda: len(server.requests) == 2 and server.requests[1].reset == "CANCEL", "the server to be told")


@pytest.mark.parametrize("match", ["grpc: true", "path: /**"])
def test_a_call_may_be_silent_at_a_server_of_grpc(start, start_http2_server, match):
    """The policy says what it is, or the server has shown it."""
    def behave(peer, asked):
        peer.answer(asked.stream, MESSAGE, fields=[("content-type", "application/grpc")], trailers=[("grpc-status", "0")])

    server = start_http2_server(behave)
    proxy = start(policy(server, match))
    with Http2Client(proxy.address) as client:
        if match != "grpc: true":
            assert client.ask(MESSAGE, **CALL).status == 200
        stream = begin_call(client)
        slow = client.begin(ends=False, method="POST", path="/slow", more=[("content-length", "9000")])
        client.data(slow, bytes(2000))
        assert client.answer(slow).status == 408  # so much time is over
        client.data(stream, MESSAGE, ends=True)
        assert client.answer(stream).body == MESSAGE  # with a status of 200 calls fail as well
