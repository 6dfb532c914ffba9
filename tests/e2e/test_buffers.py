"""The start of a request's body is kept until a server is chosen, so that a slow client holds none."""

import contextlib
import os
import random
import re
import threading
import time

import pytest

from harness import program
from harness.admin import Admin, addresses
from harness.client import Client
from harness.reload import reload
from harness.upstream import OK
from harness.wait import Stalls, until

BLOCK = 8 * 1024
SHARE = 64 * 1024  # an eighth of the least max.buffered
ALL_BLOCKS = [8] * 7 + [4, 2, 1, 1]  # of the least max.buffered, as many as each client may have in turn
BODY = os.urandom(100_000)
PROMPT_S = 10.0  # on a machine that does much else; every wait that must not end is longer


def policy(*servers, buffer="", route="", limits="", top="", name="api"):
    urls = ", ".join(f'"{server.url}"' for server in servers)
    return f"""
        {top}
        admin: 127.0.0.1:0
        max: {{buffered: 512KiB, body: 1MiB}}
        upstreams: {{{name}: {{servers: [{urls}]{buffer and ", buffer: " + buffer}}}}}
        limits: {{{limits}}}
        defaults: {{limits: [{limits.partition(":")[0]}]}}
        routes:
        - {{match: {{path: /patient}}, upstream: {name}, buffer: {{wait: 1m}}}}
        - {{upstream: {name}{route and ", " + route}}}
    """


def head(length=None, more="", path="/"):
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n{more}\r\n".encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def metric(proxy, name):
    place = addresses(proxy)[0]
    page = Admin(place).ask("GET", "/metrics").body.decode()
    found = re.search(rf"^sluice_{re.escape(name)} (\d+)$", page, re.MULTILINE)
    return int(found[1]) if found else None


def is_left_alone(upstream, client):
    """No server is asked, though the client waits."""
    assert client.is_quiet(0.2)
    return upstream.n_connections == 0


def answer_at_head(peer, request):
    """A server that tells that it has the head, then reads the body."""
    peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
    peer.read_body(request)
    peer.send(OK)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("n_first", [0, 1, 20_000, BLOCK, 3 * BLOCK])
def test_a_server_is_chosen_when_the_body_is_whole(start, start_upstream, is_chunked, n_first):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}"))
    body = BODY[:40_000]
    frame = chunk if is_chunked else bytes
    with proxy.send(head(None if is_chunked else len(body)) +
                    (frame(body[:n_first]) if n_first else b"")) as client:
        assert is_left_alone(upstream, client)
        until(lambda: metric(proxy, "buffering_requests") == 1, "the body to be awaited")
        client.send(frame(body[n_first:]))
        if is_chunked:
            assert is_left_alone(upstream, client)
            client.send(b"0\r\n\r\n")
        assert client.read().status == 200
        assert client.ask().status == 200
    assert upstream.requests[0].body == body
    line = proxy.lines_of("/", 2)[0]
    assert int(line["buffered_us"]) > 150_000 and line["in"] == "40000"
    assert metric(proxy, "buffering_requests") == metric(proxy, "buffered_bytes") == 0


def test_a_server_is_chosen_after_the_wait(start, start_upstream):
    upstream = start_upstream(answer_at_head, reads_body=False)
    proxy = start(policy(upstream, buffer="{wait: 300ms, min_upload: off}"))
    for first in (b"", BODY[:1000]):
        with proxy.send(head(2000) + first) as client:
            assert client.read().status == 103
            client.send(BODY[len(first):2000])
            assert client.read().status == 200
        assert upstream.last.body == BODY[:2000]


@pytest.mark.parametrize("n_first", [1024, 5000, 20_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_server_is_chosen_at_the_size(start, start_upstream, n_first, is_chunked):
    upstream = start_upstream(answer_at_head, reads_body=False)
    proxy = start(policy(upstream, buffer="{size: 1KiB, wait: 1m, min_upload: off}"))
    frame = chunk if is_chunked else bytes
    with proxy.send(head(None if is_chunked else len(BODY)) + frame(BODY[:n_first])) as client:
        assert client.read().status == 103
        client.send(frame(BODY[n_first:]) + (b"0\r\n\r\n" if is_chunked else b""))
        assert client.read().status == 200
    assert upstream.last.body == BODY


@pytest.mark.parametrize("buffer, route, is_off", [
    ("off", "", True),
    ("off", "buffer: 64KiB", False),
    ("{wait: 1m}", "buffer: off", True),
    ("", "buffer: {wait: 1m}", False)])
def test_the_policy_says_where_there_is_no_buffer(start, start_upstream, buffer, route, is_off):
    upstream = start_upstream(answer_at_head, reads_body=False)
    proxy = start(policy(upstream, buffer=buffer, route=route))
    with proxy.send(head(2000, "Content-Type: application/grpc\r\nUpgrade: websocket\r\n"
                               "Connection: upgrade\r\n") + b"x") as client:
        if is_off:
            assert client.read().status == 103
        else:
            assert is_left_alone(upstream, client)


# --- Expect ---

EXPECT = "Expect: 100-continue\r\n"


def test_a_body_that_fits_gets_our_100(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}"))
    with proxy.send(head(SHARE, EXPECT)) as client:
        assert client.read().status == 100
        assert is_left_alone(upstream, client)
        client.send(BODY[:SHARE])
        assert client.read().status == 200
    assert upstream.last.get("Expect") is None and upstream.last.body == BODY[:SHARE]


def test_a_client_that_is_silent_after_our_100_holds_no_server(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 200ms}"))
    for more in (EXPECT, ""):
        with proxy.send(head(SHARE, more)) as client:
            if more:
                assert client.read().status == 100
            assert client.read().status == 408
    assert upstream.n_connections == 0


@pytest.mark.parametrize("length", [SHARE + 1, None])
def test_any_other_body_gets_the_100_of_the_server(start, start_upstream, length):
    def go_on(peer, request):
        assert request.get("Expect") == "100-continue"
        peer.send(b"HTTP/1.1 100 Continue\r\nX-Is: server\r\n\r\n")
        peer.read_body(request)
        peer.send(OK)

    upstream = start_upstream(go_on, reads_body=False)
    proxy = start(policy(upstream, buffer="{wait: 1m}"))
    body = BODY[:SHARE + 1]
    with proxy.send(head(length, EXPECT)) as client:
        interim = client.read()
        assert interim.status == 100 and interim.get("X-Is") == "server"
        client.send(body if length else chunk(body) + b"0\r\n\r\n")
        assert client.read().status == 200


def test_a_body_without_a_length_that_fits_gets_our_100(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}", route=f"max_body: 64KiB"))
    with proxy.send(head(None, EXPECT)) as client:
        assert client.read().status == 100
        assert is_left_alone(upstream, client)
        client.send(chunk(BODY[:SHARE]) + b"0\r\n\r\n")
        assert client.read().status == 200
    assert upstream.last.get("Expect") is None and upstream.last.body == BODY[:SHARE]


@pytest.mark.parametrize("data, fault", [
    (b"", "the request's body did not begin in time"),
    (b"x", "the request's body came too slowly for a server to wait for it")])
def test_who_asked_for_a_100_begins_in_time(start, start_upstream, data, fault):
    def go_on(peer, request):
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.read_body(request)

    upstream = start_upstream(go_on, reads_body=False)
    proxy = start(policy(upstream, top="timeouts: {head: 30s}"))
    with proxy.send(head(SHARE + 1, EXPECT)) as client:
        assert client.read().status == 100
        began = time.monotonic()
        client.send(data)
        assert client.read().status == 408
        assert time.monotonic() - began < PROMPT_S
    assert proxy.lines_of("/", 1)[0]["fault"] == fault
    assert metric(proxy, "slow_uploads_total") == 1


def begin_late(proxy, after_s, source="127.0.0.1"):
    """The status for a body that begins so long after the 100."""
    with Client(proxy.address, source=source) as client:
        client.send(head(SHARE + 1, EXPECT))
        assert client.read().status == 100
        time.sleep(after_s)
        with contextlib.suppress(ConnectionError):
            client.send(BODY[:SHARE + 1])
        return client.read().status


@pytest.mark.takes(9)
def test_a_client_begins_late_a_few_times_a_minute(start, start_upstream):
    """Its server waits meanwhile: 4 such requests a second, of 100 bytes each, would stop 4 workers of gunicorn."""
    def go_on(peer, request):
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        with contextlib.suppress(Exception):
            peer.read_body(request)
            peer.send(OK)

    proxy = start(policy(start_upstream(go_on, reads_body=False), top="timeouts: {head: 30s}"))
    for address in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):  # on a machine that halts for longer: once more
        with Stalls() as stalls:
            statuses = [begin_late(proxy, 0.55, address) for _ in range(12)]
            last = begin_late(proxy, 0.1, address), begin_late(proxy, 0.55, "127.0.0.5")
        if stalls.total_s == 0:
            break
    assert statuses.index(408) in (7, 8), statuses  # 0.7 s of 5 s each, and what has come back
    assert set(statuses[9:]) == {408} and last == (200, 200)


@pytest.mark.takes(4)
def test_a_server_that_does_not_know_the_expectation_gets_the_body(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, top="timeouts: {idle: 1m, head: 30s}"))
    began = time.monotonic()
    with proxy.send(head(SHARE + 1, EXPECT)) as client:
        assert client.read().status == 100
        assert time.monotonic() - began > 0.9  # it may say what it wants
        client.send(BODY[:SHARE + 1])
        assert client.read().status == 200
    assert upstream.last.body == BODY[:SHARE + 1] and upstream.last.get("Expect") == "100-continue"
    with proxy.send(head(SHARE + 1, EXPECT)) as client:
        assert [client.read().status, client.read().status] == [100, 408]


# --- a body that holds a server's connection ---


def test_who_fills_the_buffer_and_goes_on_slowly_is_408(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    with proxy.send(head(len(BODY)) + BODY[:SHARE]) as client:
        began = time.monotonic()
        while client.is_quiet(0.1) and time.monotonic() - began < PROMPT_S:
            client.send(b"x" * 110)
        response = client.read()
        assert response.status == 408 and response.get("Connection") == "close"
    line = proxy.lines_of("/", 1)[0]
    assert line["fault"] == "the request's body came too slowly for a server to wait for it"
    until(lambda: upstream.cut_bodies, "the server's connection to be cut")
    assert metric(proxy, "slow_uploads_total") == 1 and metric(proxy, "buffered_bytes") == 0


def test_a_fast_body_may_pause(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    body = os.urandom(600_000)
    with proxy.send(head(len(body)) + body[:400_000]) as client:
        assert client.is_quiet(1.5)
        client.send(body[400_000:])
        assert client.read().status == 200
    assert upstream.last.body == body


def test_a_body_may_pause_for_a_moment_when_a_server_has_been_chosen(start, start_upstream):
    """As after a lost packet. On a machine that halts for longer: once more."""
    proxy = start(policy(start_upstream()))
    for _ in range(10):
        with Stalls() as stalls, proxy.send(head(len(BODY)) + BODY[:SHARE]) as client:
            is_quiet = client.is_quiet(0.2)
            client.send(BODY[SHARE:])
            is_whole = is_quiet and client.read().status == 200
        if is_whole or stalls.total_s == 0:
            break
    assert is_whole


@pytest.mark.takes(4)
def test_the_time_of_a_server_that_does_not_read_is_not_the_clients(start, start_upstream):
    def read_late(peer, request):
        time.sleep(3)
        peer.read_body(request)
        peer.send(OK)

    body = bytes(64 << 20)
    upstream = start_upstream(read_late, reads_body=False)
    proxy = start(f"upstream: {upstream.url}\n")
    with proxy.connect() as client:
        assert client.ask("POST", body=body).status == 200


def test_what_comes_while_a_server_does_not_take_the_buffer_keeps_its_place(start, start_upstream):
    """The wait ends, and the server takes a part of what is buffered: more of the body stays behind the rest."""
    may_read = threading.Event()

    def read_late(peer, request):
        peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        may_read.wait(30)
        peer.read_body(request)
        peer.send(OK)

    body = random.Random(1).randbytes(24 << 20)  # more than the sockets take
    upstream = start_upstream(read_late, reads_body=False)
    proxy = start(f"""
        max: {{buffered: 512MiB, body: 32MiB}}
        upstreams: {{api: {{servers: "{upstream.url}", buffer: {{size: 32MiB, wait: 1s, min_upload: off}}}}}}
        routes: [{{upstream: api}}]
    """)
    with proxy.send(head(len(body)) + body[:20 << 20]) as client:
        assert client.read().status == 103
        client.send(body[20 << 20:][:1000])
        assert client.is_quiet(0.2)  # it was read, or would have been
        may_read.set()
        client.send(body[20 << 20:][1000:])
        assert client.read().status == 200
    assert upstream.last.body == body


def test_a_slow_upload_frees_its_server_and_its_slot(start, start_upstream):
    """The server's connection is kept for the slot, and learns that no more of the body comes. One that closes without
    an answer may work on: then the slot is free behind timeout.response."""
    ends = []

    def read_all(peer, request):
        if request.get("Content-Length") == str(len(BODY)):
            while peer.sock.recv(65536):
                pass
            ends.append(time.monotonic())
        else:
            peer.read_body(request)
            peer.send(OK)

    upstream = start_upstream(read_all, reads_body=False)
    proxy = start(policy(upstream, buffer="64KiB, timeout: {response: 2s}",
                         limits="slots: {key: global, algorithm: concurrency, rate: 1}"))
    with proxy.send(head(len(BODY)) + BODY[:SHARE]) as client:
        assert client.read().status == 408
        until(lambda: ends, "the server to see the end of the body")
        until(lambda: proxy.ask("POST", body=b"x").status == 200, "the slot to be free", within=10)


# --- the memory of all buffers ---


def fill(proxy, n, source):
    """n requests of a client, each with one byte of its body."""
    clients = [proxy.connect(source) for _ in range(n)]
    before = metric(proxy, "buffered_bytes")
    for client in clients:
        client.send(head(1000, path="/patient") + b"x")
    until(lambda: metric(proxy, "buffered_bytes") == before + n * BLOCK, "the bodies to be buffered")
    return clients


def finish(client):
    client.send(bytes(999))
    assert client.read().status == 200


def test_a_client_has_an_eighth_of_the_memory(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, route="buffer: {wait: 2s}", top="workers: 2"))
    clients = fill(proxy, 8, "127.0.0.2")
    with proxy.connect("127.0.0.2") as late, proxy.connect("127.0.0.2") as later:
        late.send(head(1000, path="/patient") + bytes(999))
        assert late.is_quiet(0.3)
        with proxy.connect("127.0.0.3") as other:
            other.send(head(1000) + bytes(500))
            assert other.is_quiet(0.1)
            other.send(bytes(500))
            assert other.read().status == 200
        finish(clients[0])
        late.send(b"x")
        assert late.read().status == 200  # it has got the place of the first
        clients += fill(proxy, 1, "127.0.0.2")
        later.send(head(1000, EXPECT))
        response = later.read()
        assert response.status == 503 and int(response.get("Retry-After")) >= 1
        assert response.json()["detail"] == "too many request bodies of this client are buffered already"
    assert metric(proxy, 'buffer_refused_total{reason="client"}') == 1


def test_the_addresses_of_a_48_are_one_client(start, start_upstream):
    proxy = start(policy(start_upstream(), top="trusted_proxies: [127.0.0.0/8]\n        workers: 1"))

    def begin(address):
        client = proxy.connect()
        client.send(head(1000, f"X-Forwarded-For: {address}\r\n", "/patient") + b"x")
        return client

    clients = [begin(f"2001:db8:1:{i}::1") for i in range(8)]
    until(lambda: metric(proxy, "buffered_bytes") == SHARE, "the share of a client to be used up")
    late, other = begin("2001:db8:1:8::1"), begin("2001:db8:2::1")
    until(lambda: metric(proxy, "buffered_bytes") == SHARE + BLOCK, "the body of another client to be buffered")
    finish(other)
    until(lambda: metric(proxy, "buffered_bytes") == SHARE, "the memory of that one to come back, for none of the others")
    assert metric(proxy, "buffering_requests") == 9
    finish(clients[0])
    until(lambda: metric(proxy, "buffered_bytes") == SHARE, "the next of them to have room")
    finish(late)


@pytest.mark.parametrize("size", [10_000, 60_000])
def test_a_body_that_has_a_block_goes_to_its_server_with_that(start, start_upstream, size):
    """Bodies that each have a part of the memory would wait for one another, and all be refused."""
    upstream = start_upstream(answer_at_head, reads_body=False)
    proxy = start(policy(upstream, route="buffer: {wait: 500ms, min_upload: off}"))
    clients = fill(proxy, 7, "127.0.0.2")
    with proxy.connect("127.0.0.2") as late:
        late.send(head(size) + BODY[:size - 1])
        assert late.read().status == 103
        late.send(BODY[size - 1:size])
        assert late.read().status == 200
    assert upstream.last.body == BODY[:size]
    until(lambda: metric(proxy, "buffered_bytes") == 7 * BLOCK, "its block to come back")
    assert metric(proxy, 'buffer_refused_total{reason="client"}') == 0
    for client in clients:
        client.close()


def test_when_the_memory_is_full_bodies_wait_and_others_do_not(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, route="buffer: {wait: 1m}"))
    clients = [client for i, n in enumerate(ALL_BLOCKS) for client in fill(proxy, n, f"127.0.0.{2 + i}")]
    assert metric(proxy, "buffered_bytes") == 512 * 1024
    with proxy.connect("127.0.0.99") as late:
        late.send(head(1000) + bytes(999))
        assert late.is_quiet(0.3)
        assert proxy.ask().status == 200
        assert proxy.ask("POST", body=b"whole with its head").status == 200
        finish(clients[0])
        late.send(b"x")
        assert late.read().status == 200
    for client in clients[1:]:
        client.close()
    until(lambda: metric(proxy, "buffered_bytes") == 0, "the memory to come back")
    assert metric(proxy, "buffering_requests") == 0


def test_who_waits_in_vain_for_memory_gets_503(start, start_upstream):
    proxy = start(policy(start_upstream(), route="buffer: {size: 64KiB, wait: 1s}", top="workers: 1"))
    for i, n in enumerate(ALL_BLOCKS):
        fill(proxy, n, f"127.0.0.{2 + i}")
    late = proxy.connect("127.0.0.99")
    late.send(head(1000) + b"x")
    response = late.read()
    assert response.status == 503 and int(response.get("Retry-After")) >= 1
    assert proxy.lines_of("/", 1)[0]["fault"] == "too many request bodies are buffered already"
    assert metric(proxy, 'buffer_refused_total{reason="full"}') == 1


# --- who made a server close without an answer ---


@pytest.mark.parametrize("settles, is_slow, statuses", [
    ("charge_on: [2xx]", True, [502] * 2 + [429] * 2),
    ("refund_on: [5xx]", True, [502] * 2 + [429] * 2),
    ("refund_on: [5xx]", False, [502] * 4),
])
def test_a_slow_upload_that_a_server_does_not_answer_is_charged_and_ejects_nobody(
        start, start_upstream, settles, is_slow, statuses):
    """As Go does behind its WriteTimeout, which counts from the head: the whole body has been used."""
    def close(peer, request):
        peer.read_body(request)
        peer.close()

    upstream = start_upstream(close, reads_body=False)
    proxy = start(policy(upstream, buffer="off, eject: {failures: 2, for: 1h, max: 1h}",
                         limits=f"few: {{key: global, algorithm: fixed_window, rate: 2/d, {settles}}}"))
    seen = []
    for n, _ in enumerate(statuses):
        with proxy.connect(f"127.0.0.{2 + n}") as client:
            client.send(head(1000) + bytes(500))
            if is_slow:
                time.sleep(1.2)  # a second is what counts
            client.send(bytes(500))
            seen.append(client.read().status)
    assert seen == statuses
    assert proxy.log_at_end().count('msg="server is down') == (not is_slow)


# --- the rest of life ---


def test_a_client_that_leaves_is_charged_and_its_memory_comes_back(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}", limits="few: {key: client.ip, "
                         "algorithm: fixed_window, rate: 1/d, refund_on: [5xx]}"))
    with proxy.send(head(1000) + b"x") as client:
        until(lambda: metric(proxy, "buffered_bytes") == BLOCK, "its byte")
        client.reset()
    until(lambda: metric(proxy, "buffered_bytes") == 0, "the memory to come back")
    assert proxy.lines_of("/", 1)[0]["fault"] == "the client left"
    assert proxy.ask().status == 429 and upstream.n_connections == 0


@pytest.mark.parametrize("data, status", [
    (chunk(bytes(600)), None), (chunk(bytes(600)) * 2, 413), (b"zz\r\n", 400)])
def test_a_bad_body_reaches_no_server(start, start_upstream, data, status):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}", route="max_body: 1KiB"))
    with proxy.send(head() + chunk(b"x")) as client:
        assert is_left_alone(upstream, client)
        client.send(data)
        if status is None:
            assert is_left_alone(upstream, client)
        else:
            assert client.read().status == status and upstream.n_connections == 0
    until(lambda: metric(proxy, "buffered_bytes") == 0, "the memory to come back")


def test_a_buffered_body_goes_to_the_next_server(start, start_upstream):
    gone, upstream = start_upstream(), start_upstream()
    gone.stop()
    proxy = start(policy(gone, upstream))
    for _ in range(4):
        with proxy.send(head(2 * BLOCK)) as client:
            client.send(BODY[:2 * BLOCK])
            assert client.read().status == 200
    assert [request.body for request in upstream.requests] == [BODY[:2 * BLOCK]] * 4


def test_a_buffered_body_outlives_a_reload_and_a_drain(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}", name="old"))
    changed = policy(upstream, name="new").replace("buffered: 512KiB", "buffered: 1MiB")
    with proxy.send(head(2000) + b"x" * 1000) as client:
        until(lambda: metric(proxy, "buffering_requests") == 1, "the body")
        assert "the policy is in force" in reload(proxy, changed)
        proxy.signal()
        assert client.is_quiet(0.3)
        client.send(b"x" * 1000)
        response = client.read()
        assert response.status == 200 and response.get("Connection") == "close"
    assert proxy.wait() == 0 and upstream.last.body == b"x" * 2000


def test_the_next_request_behind_a_buffered_body_is_found(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, buffer="{wait: 1m}"))
    with proxy.send(head() + chunk(b"abc")) as client:
        assert is_left_alone(upstream, client)
        client.send(b"0\r\n\r\n" + head(BLOCK) + BODY[:BLOCK] + b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.read().status for _ in range(3)] == [200] * 3
    assert [request.body for request in upstream.requests] == [b"abc", BODY[:BLOCK], b""]


@pytest.mark.parametrize("size, is_good", [("72KiB", True), ("73KiB", False), ("75KiB", False)])
def test_a_size_beyond_a_clients_share_in_whole_blocks_is_an_error(tmp_path, size, is_good):
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\nmax: {buffered: 600KiB}\n"
                    f"upstreams: {{api: {{servers: 'http://127.0.0.1:9', buffer: {{size: {size}}}}}}}\n"
                    "routes: [{upstream: api}]\n")
    result = program.command("check", str(path))
    assert (result.returncode == 0) == is_good
    assert is_good or "may have: 73728B" in result.stderr
