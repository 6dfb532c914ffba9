"""Bodies that wait for the windows of a server of HTTP/2."""

import threading
import time

import pytest

from hyperframe.frame import DataFrame, SettingsFrame, WindowUpdateFrame

from harness.http2_server import Http2Server
from harness.message import request
from harness.wait import until

POLICY = """
workers: 1
upstreams: {{api: {{servers: "{url}", buffer: {{min_upload: off}}}}}}
routes:
  - {{match: {{path: /here}}, respond: {{status: 204}}}}
  - {{upstream: api}}
"""
HELD_S = 0.2


@pytest.fixture(name="serve")
def a_server():
    servers = []

    def begin(window):
        servers.append(Http2Server(settings={SettingsFrame.INITIAL_WINDOW_SIZE: window}))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()
        assert not server.failures, server.failures


def post(proxy, length, body=b""):
    return proxy.send(request("POST", "/", {"Content-Length": str(length)}) + body)


@pytest.mark.takes(5)
def test_a_window_that_opens_by_a_few_bytes_does_not_make_small_frames(start, serve):
    """Tomcat ends a connection for many of them."""
    window, more, step = 65535, 4000, 10
    server = serve(window)
    client = post(start(POLICY.format(url=server.url)), window + more, b"x" * (window + more))
    until(lambda: server.requests and len(server.requests[0].body) == window, "a window full")
    peer = server.peers[0]
    n_before = len(peer.frames)
    begun = time.monotonic()
    for _ in range(more // step):
        peer.send(WindowUpdateFrame(1, window_increment=step))
        time.sleep(0.005)  # an update of its own
    assert client.read().status == 200
    took_s = time.monotonic() - begun
    pieces = [len(frame.data) for frame in peer.frames[n_before:] if isinstance(frame, DataFrame)]
    assert sum(pieces) == more
    assert sum(piece < 1024 for piece in pieces[:-1]) <= took_s / HELD_S, pieces


@pytest.mark.takes(5)
def test_bytes_that_wait_do_not_wake_the_proxy_while_the_server_does_not_read(start, serve):
    window = 1 << 20
    server = serve(window)
    goes_on = threading.Event()
    goes_on.set()
    server.on_data = lambda *_: goes_on.wait(60)
    proxy = start(POLICY.format(url=server.url))
    first = post(proxy, window + 4000, b"x" * (window - 500))
    until(lambda: server.requests and len(server.requests[0].body) == window - 500, "all but 500 bytes of a window")
    goes_on.clear()
    first.send(b"x" * 4500)  # 500 have room
    assert proxy.ask(path="/here").status == 204  # and are read
    others = [post(proxy, window) for _ in range(20)]
    senders = [threading.Thread(target=other.send, args=(b"x" * window,)) for other in others]
    for sender in senders:
        sender.start()
    time.sleep(2 * HELD_S)
    before_s = proxy.cpu_s()
    time.sleep(1)
    assert proxy.cpu_s() - before_s < 0.3
    assert proxy.ask(path="/here").status == 204
    goes_on.set()
    for sender in senders:
        sender.join()
    assert [other.read().status for other in others] == [200] * 20
    server.peers[0].send(WindowUpdateFrame(1, window_increment=4000))
    assert first.read().status == 200
