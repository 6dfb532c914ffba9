"""Requests with a body that a server of HTTP/2 says it did nothing for: they go on another connection, whole, once."""

import collections
import hashlib
import random
import shutil
import threading
import time

import pytest
from hyperframe.frame import GoAwayFrame, HeadersFrame, SettingsFrame, WindowUpdateFrame

from harness import admin
from harness.client import Client
from harness.http2 import Http2Client
from harness.nginx import Nginx
from harness.ports import free_port
from harness.upstream import Upstream
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\nworkers: 1\nadmin: {listen: 127.0.0.1:0}\n"
SIZES = [0, 1, 10, 3000, 9000]
MORE_SIZES = [20_000, 60_000]  # than the window of a stream has
N_CLIENTS, N_EACH = 8, 25


def policy(*urls, more="", routes="[{upstream: api}]", **sections):
    servers = ", ".join(f'"{url}"' for url in urls)
    extra = "".join(f"{key}: {value}\n" for key, value in sections.items())
    return f"{LISTEN}{extra}upstreams: {{api: {{servers: [{servers}]{more}}}}}\nroutes: {routes}\n"


def buffered_bytes(proxy):
    page = admin.Admin(admin.addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    return int(next(line.split()[1] for line in page.splitlines() if line.startswith("sluice_buffered_bytes ")))


def digest(body):
    return hashlib.sha256(body).hexdigest().encode()


def ask_by_http2(client, path, body):
    stream = client.begin(path=path, method="POST", ends=False)
    for at in range(0, len(body), 2000):
        client.data(stream, body[at:at + 2000])
    client.data(stream, ends=True)
    return client.answer(stream)


def post_many(proxy, seed):
    """Clients at a time, every other one by HTTP/2. What each body was, and each answer, by the path."""
    bodies, answers = {}, {}

    def run(number):
        rng = random.Random(f"{seed} {number}")
        with (Http2Client if number % 2 else Client)(proxy.address) as client:
            for i in range(N_EACH):
                path = f"/{number}-{i}"
                bodies[path] = rng.randbytes(rng.choice(SIZES if number % 2 else SIZES + MORE_SIZES))
                answers[path] = (ask_by_http2(client, path, bodies[path]) if number % 2 else
                                 client.ask("POST", path, body=bodies[path]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(N_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == N_CLIENTS * N_EACH
    return bodies, answers


def assert_all_done_once(bodies, answers, done):
    assert {answer.status for answer in answers.values()} == {200}
    assert [path for path, answer in answers.items() if answer.body != digest(bodies[path])] == []
    assert done == dict.fromkeys(bodies, 1)


def test_no_request_is_lost_or_done_twice_at_goaway(start, start_http2_server, seed):
    """The server takes 20 requests of a connection and names the last at once, as nginx does."""
    done = collections.Counter()

    def on_head(peer, request):
        if len(peer.requests) == 20:
            peer.send(GoAwayFrame(0, last_stream_id=request.stream))

    def behave(peer, request):
        if sorted(peer.requests).index(request.stream) < 20:
            done[request.path] += 1
            time.sleep(0.001)
            peer.answer(request.stream, digest(request.body))

    server = start_http2_server(behave, on_head)
    proxy = start(policy(server.url))
    assert_all_done_once(*post_many(proxy, seed), done)
    assert len(server.peers) >= N_CLIENTS * N_EACH // 20 and len(server.requests) > N_CLIENTS * N_EACH
    assert buffered_bytes(proxy) == 0


NGINX = """
        listen 127.0.0.1:{port} http2;
        keepalive_requests 20;
        client_max_body_size 1m;
        location / {{ proxy_pass http://{backend}; proxy_request_buffering {buffering}; }}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize("buffering", ["on", "off"])
def test_no_request_is_lost_or_done_twice_at_goaway_of_nginx(start, start_upstream, tmp_path, seed, buffering):
    done = collections.Counter()

    def behave(peer, request):
        done[request.target] += 1
        body = digest(request.body or b"")
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    port = free_port()
    nginx = Nginx(tmp_path / "nginx", NGINX.format(
        port=port, backend=start_upstream(behave).address, buffering=buffering))
    try:
        proxy = start(policy(f"h2c://127.0.0.1:{port}"))
        assert_all_done_once(*post_many(proxy, seed), done)
        assert buffered_bytes(proxy) == 0
    finally:
        nginx.stop()


def decline_first(peer, request):
    """On the first connection nothing is done. Of others each whole request is answered."""
    if peer.number > 1:
        peer.answer(request.stream, digest(request.body))


def go_away(peer):
    peer.send(GoAwayFrame(0, last_stream_id=0))


def test_trailers_are_sent_again(start, start_http2_server):
    server = start_http2_server(decline_first)
    proxy = start(policy(server.url, more=", request_trailers: true"))
    with Http2Client(proxy.address) as client:
        stream = client.begin(method="POST", more=[("content-length", "10000")], ends=False)
        client.data(stream, b"a" * 9000)
        client.data(stream, b"b" * 1000)
        client.send(HeadersFrame(stream, client.encoder.encode([("x-sum", "1")]), flags=["END_HEADERS", "END_STREAM"]))
        until(lambda: server.requests and server.requests[0].is_whole, "the request")
        go_away(server.peers[0])
        assert client.answer(stream).body == digest(b"a" * 9000 + b"b" * 1000)
    first, second = server.requests
    assert first.trailers == second.trailers == [("x-sum", "1")] and first.body == second.body
    assert first.fields == second.fields and second.get("content-length") == "10000"


def test_a_request_that_is_sent_again_is_charged_once(start, start_http2_server):
    server = start_http2_server(lambda peer, request: request.path == "/first" and go_away(peer) if peer.number == 1 else
                          peer.answer(request.stream))
    proxy = start(policy(server.url, limits="{few: {key: client.ip, algorithm: fixed_window, rate: 10/day}}",
                         routes="[{limits: [few], upstream: api}]"))
    answer = proxy.ask("POST", "/first", body=b"abc")
    assert answer.status == 200 and answer.get("RateLimit").startswith('"few";r=9;')
    assert [request.body for request in server.requests] == [b"abc", b"abc"]
    line = proxy.log_lines(1)[0]
    assert (line["status"], line["in"]) == ("200", "3")


def test_a_slow_upload_goes_on_after_goaway(start, start_http2_server):
    server = start_http2_server(decline_first)
    proxy = start(policy(server.url, more=", buffer: {wait: 100ms, min_upload: off}"))
    with Client(proxy.address) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        until(lambda: server.requests and server.requests[0].body == b"abc", "the first piece")
        time.sleep(1.2)  # the server may have given up by then, but says that it has not begun
        go_away(server.peers[0])
        until(lambda: len(server.requests) == 2 and server.last.body == b"abc", "the piece again")
        client.send(b"def")
        until(lambda: server.last.body == b"abcdef", "the second piece")
        client.send(b"ghi")
        assert client.read().body == digest(b"abcdefghi")
    assert buffered_bytes(proxy) == 0


def test_a_long_upload_goes_on_after_goaway_while_its_first_window_is_open(start, start_http2_server):
    body = random.Random(1).randbytes(300_000)
    server = start_http2_server(decline_first, settings={})
    proxy = start(policy(server.url))
    with Client(proxy.address) as client:
        thread = threading.Thread(target=client.send, args=(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),))
        thread.start()
        until(lambda: server.requests and len(server.requests[0].body) == 65535, "the window to be full")
        assert buffered_bytes(proxy) == 65536
        server.on_data = lambda peer, frame: frame.data and peer.send(
            WindowUpdateFrame(frame.stream_id, window_increment=len(frame.data)))
        go_away(server.peers[0])
        assert client.read().body == digest(body)
        thread.join()
    assert buffered_bytes(proxy) == 0


@pytest.mark.parametrize("n_bytes", [100, 20_000, 65_536])
def test_a_body_that_was_buffered_for_either_version_is_sent_again(start, start_http2_server, n_bytes):
    body = random.Random(1).randbytes(n_bytes)
    server = start_http2_server(decline_first)
    proxy = start(policy(server.url, f"http://127.0.0.1:{free_port()}"))
    with Client(proxy.address) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (n_bytes, body[:50]))
        time.sleep(0.05)
        client.send(body[50:])
        until(lambda: server.requests and server.requests[0].is_whole, "the request")
        assert buffered_bytes(proxy) >= n_bytes
        go_away(server.peers[0])
        assert client.read().body == digest(body)
    assert [request.body == body for request in server.requests] == [True, True]
    assert buffered_bytes(proxy) == 0


def test_the_next_server_may_speak_http_1_1(start, start_http2_server):
    old = Upstream(lambda peer, request: peer.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + digest(request.body)))
    server = start_http2_server(lambda peer, _request: go_away(peer))
    proxy = start(policy(server.url, old.url))
    try:
        for _ in range(4):
            with Client(proxy.address) as client:
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
                time.sleep(0.05)
                client.send(b"def")
                assert client.read().body == digest(b"abcdef")
        assert server.requests and all(request.body == b"abcdef" for request in [*server.requests, *old.requests])
        assert len(old.requests) == 4
    finally:
        old.stop()
    assert buffered_bytes(proxy) == 0


@pytest.mark.parametrize("more", ["", ", buffer: off"])
def test_a_client_that_leaves_at_the_second_server_is_let_go(start, start_http2_server, more):
    server = start_http2_server(lambda peer, request: None)
    proxy = start(policy(server.url, routes="[{upstream: api%s}]" % more))
    with Http2Client(proxy.address) as client:
        stream = client.begin(method="POST", ends=False)
        client.data(stream, b"abc", ends=bool(more))
        until(lambda: server.requests and server.requests[0].body == b"abc", "the request")
        go_away(server.peers[0])
        until(lambda: len(server.requests) == 2 and server.last.body == b"abc", "the request again")
        client.reset(stream)
        until(lambda: server.last.reset == "CANCEL", "the second server to hear of it")
    assert buffered_bytes(proxy) == 0


def test_what_the_server_has_begun_with_is_not_sent_again(start, start_http2_server):
    """By a WINDOW_UPDATE, an interim head, or an end that is no refusal."""
    def behave(peer, request):
        if request.path == "/window":
            peer.send(WindowUpdateFrame(request.stream, window_increment=1))
            go_away(peer)
        elif request.path == "/interim":
            peer.head(request.stream, 103)
            go_away(peer)
        elif request.path == "/reset":
            peer.reset(request.stream, "INTERNAL_ERROR")
        else:
            peer.send(GoAwayFrame(0, last_stream_id=request.stream))
            peer.close()

    server = start_http2_server(behave)
    proxy = start(policy(server.url))
    for n, path in enumerate(["/window", "/interim", "/reset", "/close"], 1):
        with Client(proxy.address) as client:
            client.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc" % path.encode())
            server.wait_for(n)
            client.send(b"def")
            answer = client.read()
            assert (client.read() if answer.status == 103 else answer).status == 502, path
        assert len(server.requests) == n
    assert buffered_bytes(proxy) == 0


EJECT = ", eject: {failures: 1, for: 1m}, retries: 0"


def take(n, by="goaway"):
    """Of each connection the first @n requests are answered; the others are declined, each by itself until the proxy
    knows the server's SETTINGS, or all at once."""
    def behave_each(peer, request):
        knows = any(isinstance(frame, SettingsFrame) and "ACK" in frame.flags for frame in list(peer.frames))
        if knows or request.stream in sorted(peer.requests)[:n]:
            peer.answer(request.stream, b"done")
        else:
            peer.reset(request.stream, "REFUSED_STREAM")

    def behave(peer, request):
        last = sorted(peer.requests)[:n][-1] if n > 0 else 0
        if len(peer.requests) == max(n, 1):
            peer.send(GoAwayFrame(0, last_stream_id=last))
        if request.stream <= last:
            peer.answer(request.stream, b"done")

    return behave if by == "goaway" else behave_each


# How often a server may decline a request before that costs retries. A refusal may be untrue: once.
BY = pytest.mark.parametrize("method, by, n_free", [("POST", "goaway", 4), ("GET", "reset", 1)])


@BY
def test_a_decline_on_a_new_connection_is_no_failure_and_no_retry(start, start_http2_server, method, by, n_free):
    server = start_http2_server(lambda peer, request: take(0 if peer.number <= n_free else 100, by)(peer, request))
    proxy = start(policy(server.url, more=EJECT))
    assert proxy.ask(method, "/", body=b"abc").body == b"done"
    assert len(server.peers) == len(server.requests) == n_free + 1
    assert "server is down" not in proxy.log_at_end()


@pytest.mark.parametrize("n_refused, status, n_sent", [(1, 200, 2), (2, 502, 2)])
def test_a_refusal_allows_a_post_once(start, start_http2_server, n_refused, status, n_sent):
    """HAProxy says REFUSED_STREAM of a request that its server died of, too."""
    server = start_http2_server(
        lambda peer, request: take(0 if peer.number <= n_refused else 100, "reset")(peer, request))
    proxy = start(policy(server.url, more=EJECT))
    assert proxy.ask("POST", "/", body=b"abc").status == status
    assert len(server.requests) == n_sent
    assert "server is down" not in proxy.log_at_end()


def test_a_refusal_behind_a_sign_that_the_server_has_begun_is_a_reset(start, start_http2_server):
    def behave(peer, request):
        if request.path == "/work":
            peer.head(request.stream, 103)
            peer.reset(request.stream, "REFUSED_STREAM")
        else:
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server.url, routes="[{limits: [one], upstream: api}]", limits="""
  one: {key: global, algorithm: concurrency, rate: 1}"""))
    with Client(proxy.address) as client:
        client.send(b"POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert [client.read().status for _ in range(2)] == [103, 502]
    assert proxy.ask("GET", "/other").status == 429  # the handler may be at work
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_late_refusal_is_a_reset(start, start_http2_server, method):
    """HAProxy says REFUSED_STREAM when its own server has worked on the request and closed the connection."""
    def behave(peer, request):
        if request.path == "/slow":
            time.sleep(0.4)
            peer.reset(request.stream, "REFUSED_STREAM")
        else:
            peer.answer(request.stream)

    server = start_http2_server(behave)
    routes = "[{match: {path: /slow}, limits: [one, back], upstream: api}, {limits: [one], upstream: api}]"
    proxy = start(policy(server.url, more=", retries: 1", routes=routes, limits="""
  one: {key: global, algorithm: concurrency, rate: 1}
  back: {key: global, algorithm: fixed_window, rate: 10/day, refund_on: [5xx]}"""))
    assert proxy.ask("GET", "/other").status == 200
    assert proxy.ask(method, "/slow").status == 502
    assert len(server.requests) == 2  # its handler has worked, and the limits have counted one
    assert proxy.ask("GET", "/other").status == 429  # the handler may be at work


@pytest.mark.parametrize("by", ["goaway", "reset"])
def test_many_requests_on_new_connections_that_take_few_are_all_answered(start, start_http2_server, by):
    """Those that were sent before SETTINGS_MAX_CONCURRENT_STREAMS came are known to be too many."""
    few = {SettingsFrame.MAX_CONCURRENT_STREAMS: 8, SettingsFrame.INITIAL_WINDOW_SIZE: 1 << 30}
    server = start_http2_server(take(8, by), settings=few if by == "reset" else None)
    proxy = start(policy(server.url, more=EJECT))
    with Http2Client(proxy.address) as client:
        streams = [client.begin(path=f"/{i}", method="POST") for i in range(30)]
        assert [client.answer(stream).body for stream in streams] == [b"done"] * 30
    assert "server is down" not in proxy.log_at_end()


@BY
@pytest.mark.parametrize("retries", [0, 2])
def test_a_server_that_always_declines_is_given_up(start, start_http2_server, retries, method, by, n_free):
    """No failure of it either: it has done nothing, and says so."""
    server = start_http2_server(take(0, by))
    proxy = start(policy(server.url, more=EJECT.replace("retries: 0", f"retries: {retries}")))
    assert proxy.ask(method, "/", body=b"abc").status == 502
    assert len(server.peers) == len(server.requests) == 1 + n_free + retries
    assert "server is down" not in proxy.log_at_end()
