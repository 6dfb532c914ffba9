"""A server learns at once that a client has left whose body had to wait for it."""

import threading
import time

import pytest

from harness import message
from harness.http2_server import Http2Server
from harness.wait import soon, until


@pytest.mark.parametrize("length", [2_000_000, 2_300_000, 4_400_000])
def test_a_server_learns_that_a_client_has_left_whose_body_had_to_wait(start, start_upstream, length):
    """The body is longer than the sockets take until the server begins to read."""
    bodies = []

    def work(peer, request):
        until(lambda: started.is_set(), "the body to stand still")
        bodies.append(peer.read_body(request))
        peer.hang()

    started = threading.Event()
    upstream = start_upstream(work, reads_body=False)
    proxy = start(f"upstreams: {{api: {{servers: '{upstream.url}', buffer: off}}}}\nroutes: [{{upstream: api}}]\n")
    client = proxy.connect()
    head = message.request("POST", "/work", {"Content-Length": str(length)})
    sending = threading.Thread(target=client.send, args=(head + bytes(length),))
    sending.start()
    upstream.wait_for(1)
    time.sleep(0.3)  # nothing tells when the sockets are full
    started.set()
    sending.join()
    until(lambda: bodies == [bytes(length)], "the body at the server")
    client.reset()
    soon(lambda: not upstream.open_peers(), "the end of the connection", within=10)


@pytest.fixture(name="http2_server")
def start_http2_server():
    server = Http2Server(behave=lambda peer, request: None, on_head=lambda peer, request: None)
    yield server
    server.stop()
    assert not server.failures, server.failures


@pytest.mark.parametrize("length", [100, 30_000, 100_000])
def test_a_server_of_http2_learns_that_a_client_has_left_behind_a_body(start, http2_server, length):
    proxy = start(f"upstreams: {{api: {{servers: '{http2_server.url}'}}}}\nroutes: [{{upstream: api}}]\n")
    with proxy.send(message.request("POST", "/work", {"Content-Length": str(length)}) + bytes(length)) as client:
        request = http2_server.wait_for(1)
        until(lambda: len(request.body) == length, "the body")
        client.reset()
    soon(lambda: request.reset, "the stream to be reset", within=10)
