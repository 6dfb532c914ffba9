"""HTTP/2 to servers: many requests on a connection, from clients of either version."""

import socket
import threading
import time

import pytest
from hyperframe.frame import (DataFrame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame,
                              WindowUpdateFrame)

from harness import message
from harness.client import Client
from harness.message import Cut
from harness.ports import free_port
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\nworkers: 1\n"
MIB = 1 << 20


def policy(*servers, more="", **sections):
    urls = ", ".join(f'"{server if isinstance(server, str) else server.url}"' for server in servers)
    extra = "".join(f"{key}: {value}\n" for key, value in sections.items())
    return f"{LISTEN}{extra}upstreams: {{api: {{servers: [{urls}]{more}}}}}\nroutes: [{{upstream: api}}]\n"


PASSES = ", request_trailers: true"
DROPS = ", request_trailers: false"


def never(_peer, _request):
    """No answer."""


def test_a_request_by_http_1_1_comes_as_fields(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    answer = proxy.ask("POST", "/a?b", [("X-Name", "Value  x"), ("TE", "trailers"), ("Connection", "x-hop"),
                                       ("X-Hop", "1"), ("Cookie", "a=b")], b"body")
    assert (answer.status, answer.body) == (200, b"ok\n")
    fields = dict(server.last.fields)
    assert [fields[name] for name in (":method", ":scheme", ":path")] == ["POST", "http", "/a?b"]
    assert fields[":authority"] == f"127.0.0.1:{proxy.port}" or fields[":authority"]
    assert (fields["x-name"], fields["te"], fields["content-length"]) == ("Value  x", "trailers", "4")
    assert not {"x-hop", "connection", "host", "transfer-encoding"} & set(fields)
    assert fields["via"].startswith("1.1 sluice-") and server.last.body == b"body"
    assert [name for name, _ in server.last.fields][:3] == [":method", ":scheme", ":path"]
    assert all(name == name.lower() for name, _ in server.last.fields)


def test_the_same_request_by_either_version_comes_the_same(start, start_http2_server, connect):
    server = start_http2_server()
    proxy = start(policy(server))
    more = [("accept", "x/y"), ("x-a", "b, c"), ("user-agent", "t")]
    assert proxy.ask("PUT", "/p?q=%20", [("Host", "a.test"), *more], b"12345").status == 200
    assert connect(proxy).ask(method="PUT", path="/p?q=%20", authority="a.test",
                              more=[*more, ("content-length", "5")], body=b"12345").status == 200
    first, second = ({name: value for name, value in request.fields if name not in ("x-request-id", "via")}
                     for request in server.requests)
    assert first == second and server.requests[0].body == server.requests[1].body


def test_requests_at_a_time_share_a_connection(start, start_http2_server, connect):
    server = start_http2_server(behave=never)
    proxy = start(policy(server))
    client = connect(proxy)
    streams = [client.begin(path=f"/{i}") for i in range(30)]
    server.wait_for(30)
    for request in reversed(server.requests):
        request.peer.answer(request.stream, request.path.encode())
    for i, stream in enumerate(streams):
        assert client.answer(stream).body == b"/%d" % i
    assert len(server.peers) == 1
    assert all((line["upstream"], line["server_http"]) == (server.url, "2") for line in proxy.log_lines(30))


@pytest.mark.parametrize("granted, more", [(2, ""), (2, ", max_streams: 50"), (50, ", max_streams: 2")])
def test_a_connection_has_no_more_streams_than_the_server_grants_and_max_streams(start, start_http2_server, connect,
                                                                                 granted, more):
    server = start_http2_server(behave=never, settings={SettingsFrame.MAX_CONCURRENT_STREAMS: granted})
    proxy = start(policy(server, more=more))
    client = connect(proxy)
    first = client.begin()
    server.wait_for(1).peer.answer(1)  # its SETTINGS have come
    assert client.answer(first).status == 200
    streams = [client.begin() for _ in range(5)]
    server.wait_for(6)
    assert sorted(sum(1 for r in server.requests[1:] if r.peer is peer) for peer in server.peers) == [1, 2, 2]
    for request in server.requests[1:]:
        request.peer.answer(request.stream)
    assert all(client.answer(stream).status == 200 for stream in streams)


def test_a_stream_above_goaway_is_asked_again_whatever_its_method(start, start_http2_server, connect):
    server = start_http2_server(behave=never)
    proxy = start(policy(server))
    client = connect(proxy)
    kept, lost = client.begin(method="POST"), None
    peer = server.wait_for(1).peer
    lost = client.begin(method="POST", path="/again")
    server.wait_for(2)
    peer.send(GoAwayFrame(0, last_stream_id=1))
    again = server.wait_for(3)
    assert again.path == "/again" and again.peer is not peer
    again.peer.answer(again.stream, b"second")
    assert client.answer(lost).body == b"second"
    peer.answer(1, b"first")
    assert client.answer(kept).body == b"first"
    until(lambda: peer.is_closed, "the first connection to end")


def test_a_refused_stream_is_asked_again_on_another_connection(start, start_http2_server):
    def behave(peer, request):
        if peer.number == 1 and request.path == "/again":
            peer.reset(request.stream, "REFUSED_STREAM")
        else:
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server))
    assert proxy.ask().status == 200
    assert proxy.ask("DELETE", "/again").status == 200
    assert proxy.ask("POST", "/again", [("Content-Length", "0")]).status == 200


@pytest.mark.parametrize("code", ["CANCEL", "INTERNAL_ERROR", "PROTOCOL_ERROR", "NO_ERROR", "HTTP_1_1_REQUIRED"])
def test_a_reset_before_the_head_is_502(start, start_http2_server, code):
    server = start_http2_server(lambda peer, request: peer.reset(request.stream, code))
    proxy = start(policy(server))
    assert proxy.ask("POST", "/", [("Content-Length", "0")]).status == 502
    assert proxy.ask("POST", "/", [("Content-Length", "0")]).status == 502
    assert len(server.peers) == 1


def test_a_reset_within_the_body_cuts_the_answer(start, start_http2_server, connect):
    def behave(peer, request):
        peer.head(request.stream)
        peer.data(request.stream, b"half")
        peer.reset(request.stream, "INTERNAL_ERROR")

    proxy = start(policy(start_http2_server(behave)))
    client = connect(proxy)
    answer = client.answer(client.begin())
    assert answer.reset == "INTERNAL_ERROR" and not answer.is_ended
    with pytest.raises(Cut):
        proxy.ask()


def test_small_frames_of_an_answer_that_come_together_are_one_chunk(start, start_http2_server):
    """One that comes alone passes at once, and none overtakes a long one."""
    go_on = threading.Event()
    pieces = [*[b"ab"] * 500, b"c" * 5000, *[b"d"] * 20]

    def behave(peer, request):
        peer.head(request.stream)
        peer.data(request.stream, b"x")
        go_on.wait(30)
        peer.send(*(DataFrame(request.stream, piece) for piece in pieces))
        peer.data(request.stream, ends=True)

    proxy = start(policy(start_http2_server(behave)))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert message.Response(client.reader.head()).status == 200
        assert client.reader.chunk() == b"x"
        go_on.set()
        chunks = []
        while chunk := client.reader.chunk():
            chunks.append(chunk)
    assert b"".join(chunks) == b"".join(pieces)
    assert len(chunks) <= 10  # a few for each read of the connection


def test_small_frames_are_not_lost_where_the_stream_ends_behind_them(start, start_http2_server, connect):
    """With trailers or by a reset, in the same read. The head has passed by then: a reset overtakes what waits."""
    has_head = threading.Event()

    def behave(peer, request):
        peer.head(request.stream)
        if request.path == "/whole":
            end = HeadersFrame(request.stream, peer.encoder.encode([("x-sum", "7")]), flags=["END_HEADERS", "END_STREAM"])
        else:
            has_head.wait(30)
            end = RstStreamFrame(request.stream, error_code=2)
        peer.send(*(DataFrame(request.stream, piece) for piece in (b"a", b"b", b"c")), end)

    proxy = start(policy(start_http2_server(behave)))
    client = connect(proxy)
    whole = client.answer(client.begin(path="/whole", more=[("te", "trailers")]))
    assert (whole.body, whole.trailers, whole.is_ended) == (b"abc", [("x-sum", "7")], True)
    stream = client.begin(path="/cut")
    client.read_until(lambda: client.answer_of(stream).heads)
    has_head.set()
    cut = client.answer(stream)
    assert (cut.status, cut.reset, cut.is_ended) == (200, "INTERNAL_ERROR", False)
    assert proxy.ask("GET", "/whole").body == b"abc"
    with pytest.raises(message.Cut) as error:
        proxy.ask("GET", "/cut")
    assert error.value.partial == b"abc"


def test_an_answer_before_the_end_of_the_request_is_whole(start, start_http2_server, connect):
    """The server has heard enough: it resets the stream without an error."""
    def on_head(peer, request):
        peer.answer(request.stream, b"enough", status=413)
        peer.reset(request.stream, "NO_ERROR")

    server = start_http2_server(behave=never, on_head=on_head)
    proxy = start(policy(server, more=", buffer: off"))
    client = connect(proxy)
    stream = client.begin(method="POST", ends=False)
    answer = client.answer(stream)
    assert (answer.status, answer.body) == (413, b"enough")


HEAD = [(":status", "200")]
BAD = {
    "no status": [("a", "b")],
    "two": [*HEAD, *HEAD],
    "a status of two digits": [(":status", "20")],
    "a status of letters": [(":status", "2xx")],
    "101": [(":status", "101")],
    "upper case": [*HEAD, ("A", "b")],
    "a line in a value": [*HEAD, ("a", "b\r\nc: d")],
    "a NUL": [*HEAD, ("a", "b\0")],
    "an empty name": [*HEAD, ("", "b")],
    "white space around a value": [*HEAD, ("a", " b")],
    "Connection": [*HEAD, ("connection", "close")],
    "Transfer-Encoding": [*HEAD, ("transfer-encoding", "chunked")],
    "a pseudo-field of requests": [*HEAD, (":path", "/")],
    "late": [("a", "b"), *HEAD],
    "two lengths": [*HEAD, ("content-length", "3"), ("content-length", "3")],
    "a length of letters": [*HEAD, ("content-length", "x")],
}


@pytest.mark.parametrize("lines", BAD.values(), ids=BAD.keys())
def test_a_malformed_head_is_502_and_the_connection_goes_on(start, start_http2_server, lines):
    def behave(peer, request):
        if request.path == "/bad":
            peer.head(request.stream, more=lines)
        else:
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server))
    assert proxy.ask(path="/bad").status == 502
    assert proxy.ask().status == 200
    assert len(server.peers) == 1
    until(lambda: server.requests[0].reset is not None, "the stream to be reset")


@pytest.mark.parametrize("length, body", [("5", b"abc"), ("2", b"abc"), ("3", b"")])
def test_a_body_that_is_not_its_length_never_looks_whole(start, start_http2_server, connect, length, body):
    def behave(peer, request):
        peer.head(request.stream, fields=[("content-length", length)])
        peer.data(request.stream, body, ends=True)

    proxy = start(policy(start_http2_server(behave)))
    client = connect(proxy)
    answer = client.answer(client.begin())
    assert answer.reset or answer.status == 502


def upload(client, n_bytes):
    try:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % n_bytes + bytes(n_bytes))
    except OSError:
        pass  # it is answered early


@pytest.mark.parametrize("frames", [
    b"\0\0\1\0\0\0\0\0\1x",  # DATA before the head
    b"\0\0\0\4\0\0\0\0\1",  # SETTINGS on a stream
    b"\0\0\4\3\0\0\0\0\7\0\0\0\0",  # RST_STREAM on a stream that is idle
    b"\0\0\1\1\4\0\0\0\1\xff",  # a block that is no HPACK
    b"HTTP/1.1 200 OK\r\n\r\n",
], ids=["data", "settings", "idle", "hpack", "http/1.1"])
def test_frames_that_break_a_rule_are_502(start, start_http2_server, frames):
    proxy = start(policy(start_http2_server(lambda peer, request: peer.send_raw(frames))))
    assert proxy.ask("POST", "/", [("Content-Length", "0")]).status == 502


def test_a_broken_rule_is_502_at_once_where_the_server_reads_nothing(start, start_http2_server):
    """So that the GOAWAY cannot be written."""
    is_over = threading.Event()

    def on_head(peer, _request):
        time.sleep(0.5)  # until the socket takes no more
        peer.send_raw(b"\0\0\1\6\0\0\0\0\0x")
        is_over.wait(10)

    proxy = start(policy(start_http2_server(never, on_head), more=", timeout: {response: 5s}"))
    with Client(proxy.address) as client:
        uploading = threading.Thread(target=upload, args=(client, 30_000_000), daemon=True)
        uploading.start()
        assert client.read().status == 502
    is_over.set()
    uploading.join()


def test_a_server_of_http_1_1_is_502(start):
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        proxy = start(policy(f"h2c://127.0.0.1:{listener.getsockname()[1]}"))
        with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
            server, _ = listener.accept()
            server.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            assert client.read().status == 502
            server.close()


def test_interim_heads_and_trailers_pass(start, start_http2_server, connect):
    def behave(peer, request):
        peer.head(request.stream, 103, [("link", "</a>")])
        peer.answer(request.stream, b"body", trailers=[("x-sum", "1"), ("grpc-status", "0")])

    proxy = start(policy(start_http2_server(behave)))
    client = connect(proxy)
    answer = client.answer(client.begin(more=[("te", "trailers")]))
    assert [dict(head)[":status"] for head in answer.heads] == ["103", "200"]
    assert answer.body == b"body" and dict(answer.trailers) == {"x-sum": "1", "grpc-status": "0"}
    answer = client.answer(client.begin())
    assert answer.body == b"body" and answer.trailers is None


def test_an_answer_to_head_and_answers_without_a_body(start, start_http2_server, connect):
    def behave(peer, request):
        if request.path == "/204":
            peer.head(request.stream, 204, ends=True)
        elif request.path == "/empty":
            peer.head(request.stream, 200, ends=True)
        else:
            peer.head(request.stream, 200, [("content-length", "1000")], ends=True)

    proxy = start(policy(start_http2_server(behave)))
    client = connect(proxy)
    assert client.ask(method="HEAD").fields["content-length"] == "1000"
    assert client.ask(path="/204").status == 204
    assert (client.ask(path="/empty").body, proxy.ask(path="/empty").body) == (b"", b"")
    assert proxy.ask("HEAD").status == 200
    assert proxy.ask(path="/204").status == 204


def test_long_heads_pass_up_to_max_head(start, start_http2_server):
    def behave(peer, request):
        peer.answer(request.stream, fields=[(f"x-{i}", "y" * 1000) for i in range(int(request.path[1:]))])

    server = start_http2_server(behave)
    proxy = start(policy(server))
    answer = proxy.ask(path="/50")
    assert answer.status == 200 and answer.get("x-49") == "y" * 1000
    assert proxy.ask(path="/70").status == 502
    assert proxy.ask(path="/1").status == 200


def test_a_client_that_leaves_cancels_its_stream_alone(start, start_http2_server, connect):
    server = start_http2_server(behave=never)
    proxy = start(policy(server))
    client = connect(proxy)
    gone, stays = client.begin(), client.begin()
    server.wait_for(2)
    client.reset(gone)
    until(lambda: server.requests[0].reset == "CANCEL", "the stream to be reset")
    server.requests[1].peer.answer(server.requests[1].stream)
    assert client.answer(stays).status == 200
    assert len(server.peers) == 1


def test_a_slow_reader_holds_back_its_stream_alone(start, start_http2_server, connect):
    body = bytes(range(256)) * 4096

    def behave(peer, request):
        if request.path == "/quick":
            peer.answer(request.stream)
        else:
            peer.answer_in_time(request.stream, body)

    server = start_http2_server(behave)
    proxy = start(policy(server))
    client = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10})
    slow = client.begin(path="/slow")
    client.read_until(lambda: len(client.answer_of(slow).body) == 10)
    other = connect(proxy)
    for _ in range(20):
        assert other.ask(path="/quick").status == 200
    assert server.peers[0].window(1) <= 2 * 65535  # what it may have sent: the proxy holds no more
    client.send(WindowUpdateFrame(slow, window_increment=len(body)))
    assert client.answer(slow).body == body
    assert len(server.peers) == 1


def test_long_bodies_pass_both_ways(start, start_http2_server, connect):
    body = bytes(range(256)) * 4096 * 3
    server = start_http2_server(lambda peer, request: peer.answer_in_time(request.stream, request.body))
    proxy = start(policy(server, max="{body: 1GiB}"))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(proxy.ask("POST", "/", (), body).body))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [body] * 4


def test_an_upload_waits_for_the_window_of_the_server(start, start_http2_server):
    server = start_http2_server(settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10})
    proxy = start(policy(server))
    assert proxy.ask().status == 200  # its SETTINGS have come
    with Client(proxy.address) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000\r\n\r\n" + b"x" * 8000)
        request = server.wait_for(2)
        until(lambda: len(request.body) == 10, "what the window allows")
        request.peer.send(WindowUpdateFrame(request.stream, window_increment=20000))
        assert client.read().status == 200
    assert request.body == b"x" * 8000


def test_a_chunked_body_is_passed_as_it_comes(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    with Client(proxy.address) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        request = server.wait_for(1)
        until(lambda: request.body == b"abc", "the first piece")
        client.send(b"2\r\nde\r\n0\r\n\r\n")
        assert client.read().status == 200
    assert request.body == b"abcde" and request.get("content-length") is None


def test_a_connection_without_streams_ends_after_its_timeout(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server, more=", timeout: {idle: 100ms}"))
    assert proxy.ask().status == 200
    until(lambda: server.peers[0].is_closed, "the connection to end")
    assert server.peers[0].goaway == "NO_ERROR"
    assert proxy.ask().status == 200
    assert len(server.peers) == 2


def count_pings(peer):
    return sum(isinstance(frame, PingFrame) and "ACK" not in frame.flags for frame in peer.frames)


def test_a_silent_server_is_asked_for_a_sign_of_life(start, start_http2_server):
    """Once: servers of gRPC end connections for more."""
    server = start_http2_server(behave=never)
    proxy = start(policy(server, timeouts="{ping: 200ms}"))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        peer = server.wait_for(1).peer
        until(lambda: count_pings(peer) == 1, "a PING")
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > 0.7, "more of them to be due")
        assert count_pings(peer) == 1
        peer.head(1, 103)
        until(lambda: count_pings(peer) == 2, "a PING, since it was heard meanwhile")
        peer.answer(1)
        assert [client.read().status for _ in range(2)] == [103, 200]


def test_a_server_that_does_not_answer_pings_is_gone(start, start_http2_server):
    server = start_http2_server(behave=never, answers_pings=False)
    proxy = start(policy(server, timeouts="{ping: 100ms}"))
    answer = proxy.ask("POST", "/", [("Content-Length", "0")])
    assert answer.status == 502 and b"the upstream did not answer a PING in time" in answer.body
    until(lambda: server.peers and server.peers[0].is_closed, "the connection to end")


def test_a_server_that_stalls_is_504_and_its_connection_lives(start, start_http2_server):
    def behave(peer, request):
        if request.path != "/stall":
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server, more=", timeout: {response: 2s}"))
    assert proxy.ask(path="/stall").status == 504
    until(lambda: server.requests[0].reset == "CANCEL", "the stream to be reset")
    server.peers[0].await_ping(1)  # it reads on
    assert proxy.ask().status == 200
    assert len(server.peers) == 1


def test_max_connections_counts_streams(start, start_http2_server, connect):
    server = start_http2_server(behave=never)
    proxy = start(policy(server, more=", max_connections: 2"))
    client = connect(proxy)
    streams = [client.begin(path=f"/{i}") for i in range(3)]
    server.wait_for(2)
    client.pong()
    assert len(server.requests) == 2 and len(server.peers) == 1
    server.requests[0].peer.answer(server.requests[0].stream)
    assert client.answer(streams[0]).status == 200
    third = server.wait_for(3)
    assert third.path == "/2" and third.peer is server.peers[0]
    for request in server.requests[1:]:
        request.peer.answer(request.stream)
    assert all(client.answer(stream).status == 200 for stream in streams[1:])


def test_a_server_that_is_gone_is_passed_over(start, start_http2_server):
    gone, server = start_http2_server(), start_http2_server()
    gone.stop()
    proxy = start(policy(gone, server))
    assert [proxy.ask().status for _ in range(4)] == [200] * 4


def test_a_connection_that_dies_with_its_requests(start, start_http2_server, connect):
    """Those that may be repeated are, once each."""
    def behave(peer, request):
        if peer.number > 1:
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server))
    client = connect(proxy)
    streams = [client.begin(method=method) for method in ("GET", "POST", "GET")]
    server.wait_for(3)
    server.peers[0].close()
    statuses = [client.answer(stream).status for stream in streams]
    assert statuses[1] == 502 and set(statuses) <= {200, 502}


def test_an_upgrade_is_not_offered(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    answer = proxy.ask("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "websocket"),
                                    ("Sec-WebSocket-Key", "x"), ("Sec-WebSocket-Version", "13")])
    assert answer.status == 200 and server.last.get("upgrade") is None


def test_reload_and_stop_end_connections_in_order(start, start_http2_server):
    server = start_http2_server()
    proxy = start(policy(server))
    assert proxy.ask().status == 200
    proxy.stop()
    until(lambda: server.peers[0].is_closed, "the connection to end")
    assert server.peers[0].goaway == "NO_ERROR"


def trail(client, stream, lines):
    client.send(HeadersFrame(stream, client.encoder.encode(lines), flags=["END_HEADERS", "END_STREAM"]))


ANNOUNCED = [("trailer", "x-sum, Content-Type"), ("trailer", "X-More, x-y")]


def test_trailers_of_a_request_that_are_not_announced_are_dropped(start, start_http2_server, connect):
    """Some servers end the connection for them, and with it the requests of others. None of gRPC are: its calls
    have no trailers."""
    server = start_http2_server()
    proxy = start(policy(server))
    client = connect(proxy)
    for more in ((), [("content-type", "application/grpc"), ("te", "trailers")]):
        for body in (b"", b"\0\0\0\0\x01a"):
            length = ("content-length", str(len(body)))
            stream = client.begin(method="POST", more=[*more, length], ends=False)
            client.data(stream, body)
            trail(client, stream, [("x-sum", "1")])
            assert client.answer(stream).status == 200
            assert (server.last.body, server.last.trailers, server.last.get("trailer")) == (body, None, None)
    assert len(server.peers) == 1


def test_no_trailers_of_a_request_pass_where_the_policy_says_so(start, start_http2_server, connect):
    server = start_http2_server()
    client = connect(start(policy(server, more=DROPS)))
    assert client.ask().status == 200
    stream = client.begin(method="POST", more=[*ANNOUNCED, ("content-length", "1")], ends=False)
    client.data(stream, b"x")
    trail(client, stream, [("x-sum", "1")])
    assert client.answer(stream).status == 200
    assert (server.last.trailers, server.last.get("trailer")) == (None, None) and len(server.peers) == 1


def test_announced_trailers_of_a_request_pass_on_a_connection_of_its_own(start, start_http2_server, connect):
    server = start_http2_server(lambda peer, request: request.path == "/slow" or peer.answer(request.stream))
    proxy = start(policy(server))
    client = connect(proxy)
    slow = client.begin(path="/slow")
    server.wait_for(1)
    streams = [client.begin(method="POST", path=f"/{i}", more=ANNOUNCED, ends=False) for i in range(3)]
    for stream in streams:
        client.data(stream, b"abc")
    server.wait_for(4)
    assert client.ask(path="/other").status == 200
    for stream in streams:
        trail(client, stream, [("x-sum", "1"), ("x-other", "2"), ("x-more", "3"), ("content-type", "a/b")])
        assert client.answer(stream).status == 200
    for request in server.requests[1:4]:
        assert (request.get("trailer"), request.body) == ("x-sum, X-More, x-y", b"abc")
        assert request.trailers == [("x-sum", "1"), ("x-more", "3")]
    assert len({request.peer for request in server.requests[:4]}) == 4
    assert server.requests[4].peer is server.requests[0].peer
    # with nothing else on them, these connections take the next ones
    assert client.ask(method="POST", more=ANNOUNCED, body=b"abc").status == 200
    assert server.last.trailers is None and server.last.peer in [r.peer for r in server.requests[1:4]]
    # no body has no trailers
    assert client.ask(more=ANNOUNCED).status == 200 and server.last.peer is server.requests[0].peer
    server.requests[0].peer.answer(server.requests[0].stream)
    assert client.answer(slow).status == 200


CHUNKED = (b"POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x-hop\r\n"
           b"Trailer: X-Sum, x-hop, content-length\r\n\r\n")
SECTION = b"0\r\nX-Sum:  7 \r\nX-Hop: 1\r\nContent-Length: 9\r\nX-Other: 2\r\n\r\n"


@pytest.mark.parametrize("more, trailers", [("", [("x-sum", "7")]), (PASSES, [("x-sum", "7"), ("x-other", "2")]),
                                            (DROPS, None)])
def test_trailers_of_a_request_by_http_1_1_pass_likewise(start, start_http2_server, more, trailers):
    server = start_http2_server()
    proxy = start(policy(server, more=more))
    with proxy.connect() as client:
        for body in (b"", b"5\r\nhello\r\n"):
            for pieces in ([CHUNKED + body + SECTION], [CHUNKED, body, SECTION[:9], SECTION[9:20], SECTION[20:]]):
                for piece in pieces:
                    client.send(piece)
                    time.sleep(0.02 * (len(pieces) > 1))
                assert client.read("POST").status == 200
                assert server.last.body == body[3:8] and server.last.trailers == trailers
                assert server.last.get("trailer") == ("X-Sum" if trailers is not None else None)
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
        assert client.read("POST").status == 200 and (server.last.body, server.last.trailers) == (b"ab", None)


def test_trailers_of_a_request_that_is_answered_before_they_come_go_nowhere(start, start_http2_server):
    server = start_http2_server(on_head=lambda peer, request: peer.answer(request.stream))
    server.behave = never
    proxy = start(policy(server))
    with proxy.connect() as client:
        client.send(CHUNKED + b"5\r\nhel")
        assert client.read("POST").status == 200
        client.send(b"lo\r\n" + SECTION)
        until(client.has_ended, "the connection to end")
    assert proxy.ask().status == 200


def test_trailers_of_a_request_pass_between_sides_of_http_2_where_the_policy_says_so(start, start_http2_server, connect):
    server = start_http2_server()
    proxy = start(policy(server, more=PASSES))
    client = connect(proxy)
    for body in (b"", b"abc"):
        stream = client.begin(method="POST", ends=False)
        client.data(stream, body)
        trail(client, stream, [("x-sum", "1"), ("content-type", "a/b"), ("x-forwarded-for", "1.2.3.4"), ("host", "b")])
        assert client.answer(stream).status == 200
        assert server.last.body == body and server.last.trailers == [("x-sum", "1")]


DROPPED = ["x-api-key", "x_api_key", "x.api.key", "x-mode", "x_mode", "x-user", "x_user", "x-gone", "cookie", "cookie2",
           "x-forwarded-port", "x_forwarded.foo", "x-real-ip", "proxy-x", "proxy_authorization", "content_type",
           "x-http-method-override", "x_http_method", "x-method-override", "x-original-url", "x.rewrite.url",
           "set_cookie", "authorization", "client-cert", "forwarded",
           # for which Go's server resets the stream
           "if-match", "if-foo", "if_none_match", "realm", "cache-control", "content-encoding", "content-range",
           "expect", "max-forwards", "pragma", "proxy-authenticate", "range", "trailer", "www-authenticate"]


def test_a_trailer_of_a_request_is_no_field_that_the_policy_or_a_proxy_says(start, start_http2_server, connect):
    server = start_http2_server()
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        trusted_proxies: [10.0.0.0/8]
        upstreams: {{api: {{servers: ["{server.url}"]{PASSES}}}}}
        limits: {{few: {{key: header.x-api-key, rate: 100000/s}}}}
        routes:
          - {{match: {{header: {{x-mode: a}}}}, limits: [few], upstream: api}}
          - {{limits: [few], upstream: api, request: {{set: {{X-User: u}}, remove: [x-gone]}}}}
        """)
    client = connect(proxy)
    for name in [*DROPPED, "x-sum", "x-forwarded", "proxied", "iffy", "realms"]:
        stream = client.begin(method="POST", more=[("x-api-key", "k")], ends=False)
        client.data(stream, b"a")
        client.send(HeadersFrame(stream, client.encoder.encode([(name, "1"), ("x-other", "2")]),
                                 flags=["END_HEADERS", "END_STREAM"]))
        assert client.answer(stream).status == 200
        wanted = [("x-other", "2")] if name in DROPPED else [(name, "1"), ("x-other", "2")]
        assert server.last.trailers == wanted, name
