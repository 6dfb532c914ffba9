"""HTTP/2 to clients: requests and answers as by HTTP/1.1, many at a time on one connection."""

import contextlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from harness import message
from harness.admin import Admin, addresses
from harness.http2 import Closed, Http2Client
from harness.upstream import OK, answer
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\n"
MIB = 1 << 20


def curl(proxy, *arguments):
    return subprocess.run(["curl", "--silent", "--http2-prior-knowledge", *arguments,
                           f"http://127.0.0.1:{proxy.port}/"], capture_output=True, check=True, timeout=60).stdout


def test_curl_is_served_and_the_log_names_the_version(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    assert curl(proxy, "--write-out", "%{http_version} %{http_code}") == b"ok\n2 200"
    assert proxy.log_lines(1)[0]["version"] == "2"
    assert upstream.last.get("Via").startswith("2.0 sluice-")
    assert upstream.last.get("Host") == f"127.0.0.1:{proxy.port}"


def test_http_1_1_is_served_on_the_same_port(start, start_upstream):
    proxy = start(f"{LISTEN}upstream: {start_upstream().url}")
    for head in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"):
        with proxy.send(head[:1]) as client:  # P begins the preface too
            client.send(head[1:])
            assert client.read().status == 200
    assert all("version" not in line for line in proxy.log_lines(2))


def test_the_preface_may_come_byte_by_byte(start, start_upstream, connect):
    proxy = start(f"{LISTEN}upstream: {start_upstream().url}")
    client = connect(proxy, is_greeted=False)
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
        client.send_raw(bytes([byte]))
    client.send_raw(b"\0\0\0\4\0\0\0\0\0")
    assert client.ask().status == 200


def test_without_the_version_the_preface_is_refused(start, start_upstream):
    proxy = start(f"upstream: {start_upstream().url}")
    with proxy.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") as client:
        assert client.read().status == 505


def test_a_listener_of_http_2_alone_refuses_http_1_1(start, start_upstream, connect):
    proxy = start(f"listen: {{address: 127.0.0.1:0, http: 2}}\nupstream: {start_upstream().url}")
    assert connect(proxy).ask().status == 200
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert b"HTTP/1.1" not in client.sock.recv(999)


def test_streams_are_requests_of_their_own_and_none_waits_for_another(start, start_upstream, connect):
    def behave(peer, request):
        if request.target == "/slow":
            peer.hang()
        peer.send(answer(body=request.target.encode()))

    proxy = start(f"{LISTEN}upstream: {start_upstream(behave).url}")
    client = connect(proxy)
    slow = client.begin(path="/slow")
    for path in ("/a", "/b", "/c"):
        assert client.ask(path=path).body == path.encode()
    client.reset(slow)
    client.pong()
    assert [line["path"] for line in proxy.log_lines(4)][-1] == "/slow"


def test_each_stream_is_charged(start, start_upstream, connect):
    proxy = start(f"{LISTEN}limit: 3/hour\nupstream: {start_upstream().url}")
    client = connect(proxy)
    streams = [client.begin() for _ in range(5)]
    statuses = sorted(client.answer(stream).status for stream in streams)
    assert statuses == [200, 200, 200, 429, 429]
    denied = client.ask()
    assert denied.fields["ratelimit"].startswith('"default";r=0') or "r=0" in denied.fields["ratelimit"]
    assert int(denied.fields["retry-after"]) > 1000
    assert denied.fields["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc+proto", "application/grpc;x=y"])
def test_a_denied_grpc_call_says_how_long_to_wait(start, start_upstream, connect, kind):
    proxy = start(f"{LISTEN}limit: 1/hour\nupstream: {start_upstream().url}")
    client = connect(proxy)
    call = {"method": "POST", "more": [("content-type", kind), ("te", "trailers")]}
    assert client.ask(body=b"", **call).status == 200
    denied = client.ask(body=b"", **call)
    assert denied.status == 200 and denied.body == b"" and denied.is_ended
    assert denied.fields["grpc-status"] == "8"
    assert denied.fields["content-type"] == "application/grpc"
    wait_s = int(denied.fields["grpc-retry-pushback-ms"]) / 1000
    assert wait_s > 1000 and 0 <= int(denied.fields["retry-after"]) - wait_s < 1
    assert "ratelimit" in denied.fields and "content-length" not in denied.fields
    line = proxy.log_lines(2)[-1]
    assert (line["status"], line["out"]) == ("429", "0")


def test_a_grpc_client_that_waits_as_told_is_admitted(start, start_upstream, connect):
    proxy = start(f"{LISTEN}limit: {{rate: 4/second, burst: 1}}\nupstream: {start_upstream().url}")
    client = connect(proxy)
    call = {"method": "POST", "more": [("content-type", "application/grpc")]}
    assert "grpc-status" not in client.ask(body=b"", **call).fields
    for _ in range(3):
        denied = client.ask(body=b"", **call)
        assert denied.fields["grpc-status"] == "8"
        time.sleep(int(denied.fields["grpc-retry-pushback-ms"]) / 1000)
        assert "grpc-status" not in client.ask(body=b"", **call).fields


@pytest.mark.parametrize("kind", ["application/grpc-web", "application/grpcx", "text/plain"])
def test_what_is_not_grpc_is_denied_by_http(start, start_upstream, connect, kind):
    proxy = start(f"{LISTEN}limit: 1/hour\nupstream: {start_upstream().url}")
    client = connect(proxy)
    client.ask()
    assert client.ask(body=b"", method="POST", more=[("content-type", kind)]).status == 429


def test_errors_of_the_proxy_have_a_grpc_status(start, connect):
    proxy = start(f"{LISTEN}upstream: http://127.0.0.1:1")
    answer_ = connect(proxy).ask(body=b"", method="POST", more=[("content-type", "application/grpc")])
    assert (answer_.status, answer_.fields["grpc-status"]) == (200, "14")
    assert "grpc-retry-pushback-ms" not in answer_.fields


def test_what_a_client_resets_stays_charged(start, start_upstream, connect):
    """Rapid reset is no way around a limit."""
    reached = []

    def behave(peer, request):
        reached.append(request)
        peer.hang()

    proxy = start(f"{LISTEN}limit: 3/hour\nupstream: {start_upstream(behave).url}")
    client = connect(proxy)
    for _ in range(8):
        client.reset(client.begin())
    client.pong()
    assert client.ask().status == 429
    assert len(reached) <= 3


def test_what_is_reset_at_once_is_charged_and_reaches_no_server(start, start_upstream, connect):
    """Head and reset come in one write: there is nobody to ask a server for."""
    upstream = start_upstream()
    proxy = start(f"{LISTEN}limit: 5/hour\nupstream: {upstream.url}")
    client = connect(proxy)
    block = client.encoder.encode(client.fields())
    client.send(*(frame for stream in (1, 3, 5) for frame in (
        HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]), RstStreamFrame(stream, error_code=8))))
    client.next_id = 7
    client.pong()
    assert [client.ask().status for _ in range(3)] == [200, 200, 429]
    assert len(upstream.requests) == 2
    left = [line for line in proxy.log_lines(6) if line["status"] == "0"]
    assert [line["fault"] for line in left] == ["the client left"] * 3


@pytest.mark.parametrize("size", [0, 1, 16384, 65535, 65536, 3 * MIB])
def test_bodies_pass_both_ways_byte_for_byte(start, start_upstream, tmp_path, size):
    upstream = start_upstream(lambda peer, request: peer.send(answer(body=request.body)))
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    sent = bytes(i * 7 % 251 for i in range(size))
    (tmp_path / "body").write_bytes(sent)
    assert curl(proxy, "--data-binary", f"@{tmp_path / 'body'}") == sent
    assert upstream.last.get("Content-Length" if size else "Host") is not None


def test_a_body_of_unknown_length_is_chunked_upstream(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, request: peer.send(answer(body=request.body)))
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    client = connect(proxy)
    stream = client.begin(method="POST", ends=False)
    for piece in (b"one ", b"two ", b""):
        client.data(stream, piece)
    client.data(stream, b"three", ends=True)
    assert client.answer(stream).body == b"one two three"
    assert upstream.last.is_chunked()


def test_small_frames_that_come_together_are_one_chunk_upstream(start, start_upstream, connect):
    """A chunk for each would cost the proxy a write, and the server an event, for each byte of a client's."""
    chunks = []

    def behave(peer, _request):
        while chunk := peer.reader.chunk():
            chunks.append(chunk)
        peer.send(OK)

    upstream = start_upstream(behave, reads_body=False)
    proxy = start(f"{LISTEN}upstreams: {{api: {{servers: '{upstream.url}', buffer: off}}}}\nroutes: [{{upstream: api}}]")
    client = connect(proxy)
    stream = client.begin(method="POST", ends=False)
    client.data(stream, b"x")
    until(lambda: chunks == [b"x"], "a piece alone, at once")
    body = bytes(range(48, 120)) * 40
    client.send(*(DataFrame(stream, body[at:at + 1]) for at in range(len(body))))
    client.data(stream, b"", ends=True)
    assert client.answer(stream).status == 200
    assert b"".join(chunks[1:]) == body
    assert len(chunks) <= 10  # one for each read of the connection


class Uploads:
    """Streams that send as much as the windows let them, but for what is less than a frame."""

    def __init__(self, client, *streams):
        self.client = client
        self.n_sent = dict.fromkeys(streams, 0)
        self.windows = {0: 65535, **dict.fromkeys(streams, 16384)}  # 0: that of the connection

    def read(self):
        self.client.pong()
        for frame in self.client.frames:
            if type(frame).__name__ == "WindowUpdateFrame" and frame.stream_id in self.windows:
                self.windows[frame.stream_id] += frame.window_increment
        self.client.frames.clear()

    def fill(self):
        """False: nothing could be sent."""
        n_before = sum(self.n_sent.values())
        self.read()
        while open_streams := [stream for stream in self.n_sent
                               if min(self.windows[0], self.windows[stream]) >= 10000]:
            stream = min(open_streams, key=self.n_sent.get)
            self.client.data(stream, b"x" * 8192)
            self.n_sent[stream] += 8192
            self.windows[0] -= 8192
            self.windows[stream] -= 8192
            assert sum(self.n_sent.values()) < 80 * MIB, "the windows never closed"
            self.read()
        return sum(self.n_sent.values()) > n_before

    def send(self, stream, size):
        """A whole body of `size`, as its windows let it."""
        while self.n_sent[stream] < size:
            self.read()
            n = min(self.windows[0], self.windows[stream], size - self.n_sent[stream], 16384)
            if n <= 0:
                time.sleep(0.005)
                continue
            self.n_sent[stream] += n
            self.windows[0] -= n
            self.windows[stream] -= n
            self.client.data(stream, b"y" * n, ends=self.n_sent[stream] == size)

    def fill_for_good(self):
        """Until the server has taken all that it may."""
        while self.fill():
            time.sleep(0.2)


def test_a_slow_upstream_holds_the_client_back_and_nothing_is_lost(start, start_upstream, connect):
    """What waits here is bounded by the window, which opens as the server takes the bytes."""
    go_on = threading.Event()

    def behave(peer, request):
        go_on.wait(30)
        peer.read_body(request)
        peer.send(answer(body=str(len(request.body)).encode()))

    upstream = start_upstream(behave, reads_body=False)
    proxy = start(f"{LISTEN}max: {{http2_buffer: 64KiB}}\nupstreams: {{api: {{servers: '{upstream.url}', buffer: off}}}}\n"
                  "routes: [{upstream: api}]")
    client = connect(proxy)
    stream = client.begin(method="POST", ends=False)
    upload = Uploads(client, stream)
    upload.fill_for_good()
    go_on.set()
    client.data(stream, b"", ends=True)
    assert client.answer(stream).body == str(upload.n_sent[stream]).encode()


def test_an_upload_goes_on_whatever_the_others_of_its_connection_wait_for(start, start_upstream, connect):
    """What one stream has filled is never what another needs to keep min_upload."""
    go_on = threading.Event()

    def behave(peer, request):
        if request.target == "/slow":
            go_on.wait(30)
        peer.read_body(request)
        peer.send(answer(body=str(len(request.body)).encode()))

    upstream = start_upstream(behave, reads_body=False)
    proxy = start(f"{LISTEN}max: {{http2_buffer: 64KiB, body: 1GiB}}\n"
                  f"upstreams: {{api: {{servers: '{upstream.url}', buffer: {{size: 64KiB, wait: 400ms}}}}}}\n"
                  "routes: [{upstream: api}]")
    client = connect(proxy)
    slow = [client.begin(method="POST", path="/slow", ends=False) for _ in range(4)]
    uploads = Uploads(client, *slow)
    uploads.fill_for_good()
    for size in (5000, 500_000):
        quick = client.begin(method="POST", path="/quick", ends=False, more=[("content-length", str(size))])
        upload = Uploads(client, quick)
        upload.windows[0] = 1 << 30  # tested in the first part: it has room for the windows of all streams
        upload.send(quick, size)
        assert client.answer(quick).body == str(size).encode()
    go_on.set()
    for stream in slow:
        client.data(stream, b"", ends=True)
        assert client.answer(stream).body == str(uploads.n_sent[stream]).encode()


def test_who_fills_the_windows_of_its_connection_gains_no_time(start, start_upstream, connect):
    go_on = threading.Event()
    upstream = start_upstream(lambda peer, request: request.target == "/slow" and go_on.wait(30), reads_body=False)
    proxy = start(f"{LISTEN}max: {{http2_buffer: 64KiB, body: 1GiB}}\n"
                  f"upstreams: {{api: {{servers: '{upstream.url}', buffer: {{size: 8KiB, wait: 400ms}}}}}}\n"
                  "routes: [{upstream: api}]")
    client = connect(proxy)
    still = client.begin(method="POST", path="/still", ends=False, more=[("content-length", "100000")])
    client.data(still, b"x" * 9000)
    slow = [client.begin(method="POST", path="/slow", ends=False) for _ in range(4)]
    uploads = Uploads(client, *slow)
    uploads.windows[0] -= 9000
    answer_of_still = client.answer_of(still)
    ends = time.monotonic() + 20
    while not answer_of_still.heads and time.monotonic() < ends:
        uploads.fill()
        time.sleep(0.05)
    go_on.set()
    assert answer_of_still.status == 408


def test_an_upload_is_too_slow_while_the_window_is_open(start, start_upstream, connect):
    upstream = start_upstream()
    proxy = start(f"{LISTEN}upstreams: {{api: {{servers: '{upstream.url}', buffer: {{size: 64KiB, wait: 20ms}}}}}}\n"
                  "routes: [{upstream: api}]")
    client = connect(proxy)
    stream = client.begin(method="POST", ends=False)
    client.data(stream, b"x")
    assert client.answer(stream).status == 408


def test_a_hundred_streams_pass_beside_servers_that_take_nothing(start, start_upstream, connect, tmp_path):
    """Uploads that stand still fill the windows of their own connection, and hold no other back."""
    go_on = threading.Event()
    slow = start_upstream(lambda *_: go_on.wait(60), reads_body=False)
    fast = start_upstream(lambda peer, request: peer.send(answer(body=request.body)))
    proxy = start(f"{LISTEN}max: {{streams: 100}}\n"
                  f"upstreams: {{slow: {{servers: '{slow.url}', buffer: off}}, "
                  f"fast: {{servers: '{fast.url}', buffer: {{min_upload: off}}}}}}\n"  # of fifty that share a connection
                  "routes: [{match: {path: /slow}, upstream: slow}, {upstream: fast}]")
    client = connect(proxy)
    for _ in range(20):
        client.data(client.begin(method="POST", path="/slow", ends=False), b"x" * 12000)
    slow.wait_for(20)
    (tmp_path / "body").write_bytes(bytes(range(256)) * 4096)
    told = subprocess.run(["h2load", "-n", "100", "-c", "2", "-m", "50", "-d", tmp_path / "body",
                           f"http://127.0.0.1:{proxy.port}/fast"], capture_output=True, text=True, check=True,
                          timeout=120).stdout
    assert "100 succeeded, 0 failed, 0 errored" in told, \
        [line for line in proxy.all_log_lines() if line["status"] != "200"]
    assert {len(request.body) for request in fast.requests} == {MIB} and len(fast.requests) == 100
    client.pong()
    go_on.set()


def test_an_answer_waits_for_the_window_of_the_client(start, start_upstream, connect):
    from hyperframe.frame import HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame
    body = bytes(range(256)) * 1024
    proxy = start(f"{LISTEN}upstream: {start_upstream(answer=answer(body=body)).url}")
    client = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10})
    stream = client.begin()
    client.read_until(lambda: len(client.answer_of(stream).body) == 10)
    client.pong()
    assert len(client.answer_of(stream).body) == 10
    client.send(WindowUpdateFrame(stream, window_increment=len(body)))
    assert client.answer(stream).body == body


def test_an_early_answer_ends_a_body_that_goes_on(start, start_upstream, connect):
    """A denied upload gets its 429, then its stream ends without an error, and the connection lives."""
    proxy = start(f"{LISTEN}limit: 1/hour\nupstream: {start_upstream().url}")
    client = connect(proxy)
    assert client.ask().status == 200
    stream = client.begin(method="POST", ends=False)
    answer_ = client.answer(stream)
    assert answer_.status == 429 and answer_.is_ended
    client.read_until(lambda: answer_.reset)
    assert answer_.reset == "NO_ERROR"
    client.data(stream, b"late")
    assert client.ask().status == 429


def test_a_head_request_and_statuses_without_a_body(start, start_upstream, connect):
    replies = {"/head": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
               "/304": b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"}
    proxy = start(f"{LISTEN}upstream: {start_upstream(lambda peer, request: peer.send(replies[request.target])).url}")
    client = connect(proxy)
    head = client.ask(method="HEAD", path="/head")
    assert head.status == 200 and head.fields["content-length"] == "5" and head.body == b""
    assert client.ask(path="/204").status == 204
    assert client.ask(path="/304").fields["etag"] == '"a"'


def test_interim_answers_and_trailers_pass(start, start_upstream, connect):
    reply = (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
             b"Trailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")
    upstream = start_upstream(answer=reply)
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    answer_ = connect(proxy).ask(more=[("te", "trailers")])
    assert [dict(head)[":status"] for head in answer_.heads] == ["103", "200"]
    assert answer_.body == b"ok" and dict(answer_.trailers) == {"x-sum": "7"}
    assert "transfer-encoding" not in answer_.fields


def test_an_answer_that_breaks_off_is_never_whole(start, start_upstream, connect):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        peer.close()

    proxy = start(f"{LISTEN}upstream: {start_upstream(behave).url}")
    client = connect(proxy)
    answer_ = client.answer(client.begin())
    assert not answer_.is_ended and answer_.reset == "INTERNAL_ERROR"
    assert client.ask(path="/").reset == "INTERNAL_ERROR"  # the connection lives


def test_a_client_that_leaves_ends_all_its_requests(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    client = connect(proxy)
    for _ in range(3):
        client.begin()
    upstream.wait_for(3)
    client.sock.close()
    assert [line["fault"] for line in proxy.log_lines(3)] == ["the client left"] * 3
    until(lambda: not upstream.open_peers(), "the upstream connections to end")


def test_a_drain_ends_the_streams_in_order(start, start_upstream, connect):
    go_on = threading.Event()

    def behave(peer, _):
        go_on.wait(30)
        peer.send(OK)

    upstream = start_upstream(behave)
    proxy = start(f"{LISTEN}upstream: {upstream.url}")
    client = connect(proxy)
    stream = client.begin()
    upstream.wait_for(1)
    proxy.process.send_signal(signal.SIGTERM)
    client.read_until(lambda: client.goaway and client.goaway[0] == stream)
    go_on.set()
    assert client.answer(stream).body == b"ok\n"
    assert client.read_to_end() == "NO_ERROR"
    assert proxy.wait() == 0


def test_a_connection_is_idle_for_a_time_and_ends_with_goaway(start, start_upstream, connect):
    proxy = start(f"{LISTEN}timeouts: {{idle: 2s}}\nupstream: {start_upstream().url}")
    client = connect(proxy)
    assert client.ask().status == 200
    assert client.read_to_end() == "NO_ERROR"


def test_a_client_that_answers_no_ping_is_gone(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}timeouts: {{ping: 200ms}}\nupstream: {upstream.url}")
    client = connect(proxy)
    client.begin()
    upstream.wait_for(1)
    assert proxy.log_lines(1)[0]["fault"] == "the client left"


def test_a_connection_ends_after_its_last_request(start, start_upstream, connect):
    proxy = start(f"{LISTEN}max: {{requests_per_connection: 3}}\nupstream: {start_upstream().url}")
    client = connect(proxy)
    for _ in range(3):
        assert client.ask().status == 200
    assert client.read_to_end() == "NO_ERROR"


def test_a_client_that_answers_no_ping_has_twice_the_maximum(start, start_upstream, connect):
    proxy = start(f"{LISTEN}max: {{requests_per_connection: 3}}\nupstream: {start_upstream().url}")
    client = connect(proxy)
    client.pongs = False
    for _ in range(6):
        assert client.ask().status == 200
    assert client.read_to_end() == "NO_ERROR"


def test_streams_beyond_the_maximum_are_refused_uncharged(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}max: {{streams: 2}}\nlimit: 100/hour\nupstream: {upstream.url}")
    client = connect(proxy)
    streams = [client.begin() for _ in range(3)]
    assert client.answer(streams[2]).reset == "REFUSED_STREAM"
    for stream in streams[:2]:
        client.reset(stream)
    assert {line["fault"] for line in proxy.log_lines(2)} == {"the client left"}


def test_a_client_has_so_many_requests_over_all_its_connections(start, start_upstream):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}workers: 2\nmax: {{streams: 3, streams_per_client: 4}}\n"
                  f"limit: 100/hour\nupstream: {upstream.url}")

    def come(source):
        return Http2Client(None, sock=socket.create_connection(proxy.address, timeout=30, source_address=(source, 0)))

    with come("127.0.0.2") as one, come("127.0.0.2") as other, come("127.0.0.3") as stranger:
        held = [one.begin() for _ in range(3)]
        one.pong()
        other.begin()
        other.pong()
        assert other.answer(other.begin()).reset == "REFUSED_STREAM"
        for _ in range(300):  # it costs no units of abuse: the client cannot know
            other.begin()
        other.pong()
        assert other.goaway is None
        one.reset(held[0])
        one.pong()
        other.begin()
        assert other.answer(other.begin()).reset == "REFUSED_STREAM"
        stranger.begin()
        stranger.pong()
        assert upstream.wait_for(6)
    proxy.await_said('msg="too many requests of a client at a time" client=127.0.0.2')
    until(lambda: len(proxy.all_log_lines()) == 6, "one line for each request that began")


@pytest.fixture
def come():
    """A connection from `source` with 10 requests that begin; those that were not refused."""
    with contextlib.ExitStack() as stack:
        def connect_from(proxy, source):
            client = stack.enter_context(Http2Client(None, sock=socket.create_connection(
                proxy.address, timeout=30, source_address=(source, 0))))
            streams = [client.begin() for _ in range(10)]
            client.pong()
            return client, [stream for stream in streams if not client.answer_of(stream).reset]

        yield connect_from


def test_all_clients_have_so_many_requests_and_one_a_quarter_of_what_is_left(start, start_upstream, come):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}workers: 2\nmax: {{http2_requests: 10}}\nupstream: {upstream.url}")
    clients = [come(proxy, f"127.0.0.{i}") for i in range(2, 9)]
    assert [len(held) for _, held in clients] == [2, 2, 2, 1, 1, 1, 1]
    proxy.await_said('msg="a client has its share of the requests that are left" client=127.0.0.2 requests=2')
    log_text = proxy.await_said('msg="too many requests of all clients at a time" max=10')
    assert "too many requests of a client" not in log_text


def test_a_newcomer_takes_the_slot_of_the_client_with_the_most_requests(start, start_upstream, come):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}workers: 1\nadmin: 127.0.0.1:0\nmax: {{http2_requests: 10}}\nupstream: {upstream.url}")
    operator = Admin(addresses(proxy)[0])

    def metrics():
        page = operator.ask(path="/metrics").body.decode()
        return [int(re.search(rf"^sluice_http2_{name} (\d+)$", page, re.MULTILINE)[1])
                for name in ("active_requests", "evicted_total")]

    clients = [come(proxy, f"127.0.0.{i}") for i in range(2, 9)]
    assert metrics() == [10, 0]
    for i in range(9, 12):  # three have two
        assert len(come(proxy, f"127.0.0.{i}")[1]) == 1
    assert len(come(proxy, "127.0.0.12")[1]) == 0  # each has one
    assert metrics() == [10, 3]
    for client, held in clients[:3]:
        client.pong()
        assert [client.answer_of(stream).reset for stream in held] == ["ENHANCE_YOUR_CALM", None]
    proxy.await_said('msg="request evicted for one of another client" client=127.0.0.2 requests=2')
    assert {line["fault"] for line in proxy.log_lines(3)} == {
        "too many requests: it gave way to one of another client"}
    for client, _ in clients:
        client.sock.close()
    until(lambda: metrics() == [3, 3], "the requests of the newcomers alone")


def test_trusted_proxies_have_as_many_requests_as_they_want(start, start_upstream, connect):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(f"{LISTEN}trusted_proxies: [127.0.0.1]\nmax: {{streams_per_client: 1}}\nupstream: {upstream.url}")
    client = connect(proxy)
    for _ in range(5):
        client.begin()
    upstream.wait_for(5)


def test_resets_of_one_client_behind_a_trusted_proxy_end_no_request_of_another(start, start_upstream, connect):
    goes_on = threading.Event()

    def behave(peer, request):
        if request.target == "/slow":
            goes_on.wait(30)
            return peer.send(answer(body=b"slow"))
        return peer.hang()

    upstream = start_upstream(behave)
    proxy = start(f"{LISTEN}workers: 1\ntrusted_proxies: [127.0.0.1]\nupstream: {upstream.url}")
    client = connect(proxy)
    slow = client.begin(path="/slow", more=[("x-forwarded-for", "198.51.100.1")])
    upstream.wait_for(1)
    for _ in range(125):
        client.reset(client.begin(more=[("x-forwarded-for", "198.51.100.2")]))
    streams = [client.begin(more=[("x-forwarded-for", "198.51.100.2")]) for _ in range(95)]
    client.send(*(RstStreamFrame(stream, error_code=8) for stream in streams))
    client.read_until(lambda: client.goaway)
    goes_on.set()
    assert client.answer(slow).body == b"slow"
    assert client.goaway[1] == "NO_ERROR"


def test_own_answers_that_wait_for_a_window_do_not_pile_up(start, connect):
    proxy = start(f"{LISTEN}routes: [{{match: {{path: /a}}, respond: {{status: 200, body: abc}}}}]")
    client = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    streams = [client.begin(path="/a") for _ in range(20)]
    assert [client.answer(stream).reset for stream in streams[16:]] == ["INTERNAL_ERROR"] * 4
    assert [client.answer_of(stream).reset for stream in streams[:16]] == [None] * 16
    client.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 100}))
    assert [client.answer(stream).body for stream in streams[:16]] == [b"abc"] * 16
    assert client.ask(path="/a").body == b"abc"


def test_a_slow_head_closes_the_connection(start, start_upstream, connect):
    from hyperframe.frame import HeadersFrame
    proxy = start(f"{LISTEN}timeouts: {{head: 2s}}\nupstream: {start_upstream().url}")
    client = connect(proxy)
    assert client.ask().status == 200
    client.send(HeadersFrame(3, client.encoder.encode(client.fields())))  # no END_HEADERS
    with pytest.raises(Closed):
        while True:
            client.read_frame()


def test_http_2_by_alpn_and_h2load(start, start_upstream, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", tmp_path / "k.pem", "-out", tmp_path / "c.pem", "-days", "9", "-subj", "/CN=a",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{cert: {tmp_path}/c.pem, key: {tmp_path}/k.pem}}}}\n"
                  f"upstream: {start_upstream().url}")
    told = subprocess.run(["h2load", "-n", "400", "-c", "4", "-m", "20", f"https://127.0.0.1:{proxy.port}/"],
                          capture_output=True, text=True, check=True, timeout=60).stdout
    assert "400 succeeded, 0 failed, 0 errored" in told and "Application protocol: h2" in told
    assert {line["alpn"] for line in proxy.log_lines(400)} == {"h2"}
