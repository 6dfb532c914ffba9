"""Requests of several clients share a connection to a server of HTTP/2: what one of them sends harms no other."""

import time

import pytest
from hpack import Decoder
from hyperframe.frame import GoAwayFrame, HeadersFrame, SettingsFrame, WindowUpdateFrame

from harness.admin import n_server_http2_connections
from harness.client import Client
from harness.http2 import NAMES
from harness.reload import reload
from harness.wait import until

BEHIND = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\nworkers: 1\ntrusted_proxies: [127.0.0.1]\n"


def policy(*servers, more="", routes="[{upstream: api}]", **sections):
    urls = ", ".join(f'"{server.url}"' for server in servers)
    extra = "".join(f"{key}: {value}\n" for key, value in sections.items())
    return f"{BEHIND}{extra}upstreams: {{api: {{servers: [{urls}]{more}}}}}\nroutes: {routes}\n"


def of(address, *more):
    return [("x-forwarded-for", f"198.51.100.{address}"), *more]


def never(_peer, _request):
    """No answer."""


def end_with(peer, code, last=2**31 - 1):
    if code is not None:
        peer.send(GoAwayFrame(0, last_stream_id=last, error_code=NAMES.index(code)))
    peer.close()


def fall_over(code):
    """`/bad` ends its connection with GOAWAY (None: without a word), `/slow` is not answered, the rest is."""
    def on_head(peer, request):
        if request.path == "/bad":
            end_with(peer, code)

    def behave(peer, request):
        if request.path.startswith("/quick"):
            peer.answer(request.stream)

    return {"behave": behave, "on_head": on_head}


def wait_until_old(server, n):
    """The first @n requests are no longer among those of the last second."""
    server.wait_for(n)
    begun = time.monotonic()
    until(lambda: time.monotonic() - begun > 1.2, "the requests to be old")


EJECT = ", eject: {failures: 1, for: 1m}, retries: 1"
DOWN = "server is down"


def begin_slow(client, n=3, first=1):
    return [client.begin(path="/slow", method="POST", more=of(i)) for i in range(first, first + n)]


def statuses(client, streams):
    return [client.answer(stream).status for stream in streams]


@pytest.mark.parametrize("code", ["ENHANCE_YOUR_CALM", "PROTOCOL_ERROR", "INTERNAL_ERROR"])
def test_who_ends_a_shared_connection_gets_one_of_its_own(start, start_http2_server, connect, code):
    server = start_http2_server(**fall_over(code))
    proxy = start(policy(server))
    client = connect(proxy)
    others = begin_slow(client)
    wait_until_old(server, 3)
    assert client.answer(client.begin(path="/bad", method="POST", more=of(9))).status == 502
    assert statuses(client, others) == [502] * 3
    others = begin_slow(client)
    shared = server.wait_for(7).peer
    for _ in range(3):
        assert client.answer(client.begin(path="/bad", method="POST", more=of(9))).status == 502
    assert all(request.peer is shared for request in server.requests[4:7])
    for request in server.requests[4:7]:
        shared.answer(request.stream)
    assert statuses(client, others) == [200] * 3
    # what it sends is answered, on a connection that nobody else uses
    assert client.ask(path="/quick", more=of(9)).status == client.ask(path="/quick", more=of(1)).status == 200
    assert server.requests[-2].peer is not shared and server.requests[-1].peer is shared


def test_a_body_in_small_pieces_ends_no_connection_of_others(start, start_http2_server, connect):
    """As Tomcat does where DATA comes in pieces of a byte."""
    server = start_http2_server(never)
    server.on_data = lambda peer, frame: len(frame.data) == 1 and end_with(peer, "ENHANCE_YOUR_CALM")
    client = connect(start(policy(server, more=", buffer: {wait: 300ms}")))
    others = begin_slow(client)
    shared = server.wait_for(3).peer
    stream = client.begin(path="/up", method="POST", more=[*of(9), ("content-length", "2")], ends=False)
    client.data(stream, b"x")
    assert client.answer(stream).status == 502
    for request in server.requests[:3]:
        shared.answer(request.stream)
    assert statuses(client, others) == [200] * 3


@pytest.mark.parametrize("code", ["PROTOCOL_ERROR", None])
@pytest.mark.parametrize("own", [9, 1])
def test_who_ends_a_connection_by_announced_trailers_is_alone_on_it(start, start_http2_server, connect, code, own):
    """nginx ends a connection on which trailers come. Also the client's own other requests go on."""
    def behave(peer, request):
        if request.trailers is not None:
            end_with(peer, code)
        elif request.path != "/slow":
            peer.answer(request.stream)

    server = start_http2_server(behave)
    proxy = start(policy(server, more="" if code is None else EJECT))
    client = connect(proxy)
    others = begin_slow(client)
    server.wait_for(3)
    for _ in range(3):
        stream = client.begin(path="/up", method="POST", more=of(own, ("trailer", "x-sum")), ends=False)
        client.data(stream, b"abc")
        client.send(HeadersFrame(stream, client.encoder.encode([("x-sum", "1")]), flags=["END_HEADERS", "END_STREAM"]))
        assert client.answer(stream).status == 502
    for request in server.requests[:3]:
        request.peer.answer(request.stream)
    assert statuses(client, others) == [200] * 3
    assert client.ask(path="/quick", more=of(own)).status == client.ask(path="/quick", more=of(2)).status == 200
    assert code is None or DOWN not in proxy.log_at_end()


def test_a_request_of_the_last_second_is_tried_again_on_a_connection_of_its_own(start, start_http2_server, connect):
    """It may have been the cause."""
    server = start_http2_server(lambda peer, request: peer.number == 1 or peer.answer(request.stream))
    client = connect(start(policy(server)))
    streams = [client.begin(path=f"/{i}", more=of(i)) for i in range(3)]
    server.wait_for(3)
    end_with(server.peers[0], "ENHANCE_YOUR_CALM")
    assert statuses(client, streams) == [200] * 3
    assert len({request.peer for request in server.requests}) == 4


def test_who_ends_a_connection_that_is_its_own_is_not_tried_again(start, start_http2_server):
    servers = [start_http2_server(**fall_over("ENHANCE_YOUR_CALM")) for _ in range(3)]
    proxy = start(policy(*servers))
    assert proxy.ask("GET", "/bad", of(9)).status == 502
    assert sum(len(server.requests) for server in servers) == 1


@pytest.mark.takes(5)
def test_the_end_of_a_connection_is_one_failure(start, start_http2_server, connect):
    servers = [start_http2_server(behave=never) for _ in range(2)]
    proxy = start(policy(*servers, more=", eject: {failures: 2, for: 1m}"))
    client = connect(proxy)
    for first in (1, 11):
        before = [len(server.requests) for server in servers]
        assert DOWN not in proxy.stderr()
        streams = begin_slow(client, 8, first)
        for server, n in zip(servers, before):
            wait_until_old(server, n + 4)
        servers[0].peers[-1].close()
        for request in servers[1].requests[before[1]:]:
            request.peer.answer(request.stream)
        assert sorted(statuses(client, streams)) == [200] * 4 + [502] * 4
    until(lambda: DOWN in proxy.stderr(), "the second failure to be counted")


LIMITED = {"routes": "[{upstream: api, limits: [a]}]",
           "limits": "{a: {key: client.ip, algorithm: fixed_window, rate: 3/d, refund_on: [server_failed, 5xx]}}"}


def test_what_a_request_does_to_its_connection_is_charged_and_no_failure(start, start_http2_server):
    servers = [start_http2_server(**fall_over("ENHANCE_YOUR_CALM")) for _ in range(2)]
    proxy = start(policy(*servers, more=EJECT, **LIMITED))
    assert [proxy.ask("POST", "/bad", of(9)).status for _ in range(4)] == [502, 502, 502, 429]
    assert DOWN not in proxy.log_at_end()


LONG = ("x-long", "x" * 5000)  # on a connection of its client's own


def limited(rule):
    return {"routes": "[{match: {path: /bad}, upstream: api}, {upstream: api, limits: [a]}]",
            "limits": f"{{a: {{key: client.ip, algorithm: fixed_window, rate: 3/d, {rule}}}}}"}


def begin_and_end(client, server, address, more=(LONG,), begins=False):
    """Three requests that are old when another of the same client ends their connection."""
    streams = [client.begin(path="/slow", method="POST", more=of(address, *more)) for _ in range(3)]
    wait_until_old(server, 3)
    if begins:
        for request in server.requests[:3]:
            request.peer.head(request.stream)
            request.peer.data(request.stream, b"all but its end")
        client.read_until(lambda: all(client.answer_of(stream).body for stream in streams))
    client.begin(path="/bad", method="POST", more=of(9, *more))
    return streams


@pytest.mark.parametrize("code, more, rule", [
    ("ENHANCE_YOUR_CALM", (LONG,), "refund_on: [server_failed, 5xx]"),
    ("ENHANCE_YOUR_CALM", (), "charge_on: [2xx]"),
    ("INTERNAL_ERROR", (LONG,), "charge_on: [2xx]"),
    (None, (), "refund_on: [server_failed, 5xx]"),
], ids=["own", "shared", "error", "silent"])
def test_who_ends_its_own_connection_is_charged_for_all_on_it(start, start_http2_server, connect, code, more, rule):
    """However old they are: the server has acted on them."""
    server = start_http2_server(**fall_over(code))
    client = connect(start(policy(server, **limited(rule))))
    streams = begin_and_end(client, server, 9, more)
    assert statuses(client, streams) == [502] * 3
    assert client.ask(path="/quick", more=of(9)).status == 429


def test_who_ends_its_own_connection_is_charged_for_answers_that_had_begun(start, start_http2_server, connect):
    server = start_http2_server(**fall_over("ENHANCE_YOUR_CALM"))
    client = connect(start(policy(server, **limited("refund_on: [server_failed]"))))
    streams = begin_and_end(client, server, 9, begins=True)
    client.read_until(lambda: all(client.answer_of(stream).reset for stream in streams))
    assert client.ask(path="/quick", more=of(9)).status == 429


@pytest.mark.parametrize("code", ["ENHANCE_YOUR_CALM", None])
def test_what_a_client_has_ended_with_its_connection_is_not_tried_again(start, start_http2_server, connect, code):
    server = start_http2_server(**fall_over(code))
    client = connect(start(policy(server, more=", retries: 3")))
    assert client.ask(path="/quick", more=of(9, LONG)).status == 200  # on a kept connection the same server is next
    stream = client.begin(path="/slow", more=of(9, LONG))
    wait_until_old(server, 2)
    client.begin(path="/bad", method="POST", more=of(9, LONG))
    assert client.answer(stream).status == 502
    assert [request.path for request in server.requests] == ["/quick", "/slow", "/bad"]


@pytest.mark.parametrize("address, code, more", [
    (1, "ENHANCE_YOUR_CALM", ()),  # another client
    (9, "NO_ERROR", (LONG,)),      # the server ends it in order
], ids=["another", "in_order"])
def test_who_did_not_end_a_connection_gets_back_what_is_old(start, start_http2_server, connect, address, code, more):
    server = start_http2_server(**fall_over(code))
    client = connect(start(policy(server, **limited("refund_on: [server_failed]"))))
    streams = begin_and_end(client, server, address, more)
    assert statuses(client, streams) == [502] * 3
    assert client.ask(path="/quick", more=of(address)).status == 200


NAMED = "named"      # a frame of the request's stream breaks a rule
UNNAMED = "unnamed"  # one of none does


def break_rule(peer, stream, kind):
    peer.send_raw(b"\0\0\1\0\0" + stream.to_bytes(4, "big") + b"x" if kind == NAMED else b"\0\0\1\6\0\0\0\0\0x")


def breaking(kind):
    """For `/bad` the server breaks a rule of HTTP/2. Of its first connection it answers nothing."""
    def on_head(peer, request):
        if request.path == "/bad":
            break_rule(peer, request.stream, kind)

    def behave(peer, request):
        if request.path != "/bad" and peer.number > 1:
            peer.answer(request.stream)

    return {"behave": behave, "on_head": on_head}


@pytest.fixture
def start_breaking(start, start_http2_server):
    """A server, the proxy, and a spare server for what is tried again."""
    def run(kind=NAMED):
        server, spare = start_http2_server(**breaking(kind)), start_http2_server()
        servers = f'{{url: "{server.url}", weight: 1000}}, "{spare.url}"'
        return server, start(f"{BEHIND}upstreams: {{api: {{servers: [{servers}]}}}}\nroutes: [{{upstream: api}}]\n")

    return run


@pytest.mark.parametrize("kind", [NAMED, UNNAMED])
def test_a_server_that_breaks_a_rule_ends_no_request_that_is_safe_to_repeat(start_breaking, connect, kind):
    server, proxy = start_breaking(kind)
    client = connect(proxy)
    others = [client.begin(path="/slow", more=of(i)) for i in (1, 2, 3)]
    wait_until_old(server, 3)
    assert client.answer(client.begin(path="/bad", method="POST", more=of(9))).status == 502
    assert statuses(client, others) == [200] * 3
    # whose request it was has a connection of its own from then on
    assert client.ask(path="/quick", more=of(1)).status == client.ask(path="/quick", more=of(9)).status == 200
    others, own = server.requests[-2:]
    assert own.peer is not others.peer
    assert client.answer(client.begin(path="/bad", method="POST", more=of(9))).status == 502
    assert client.ask(path="/quick", more=of(1)).status == 200
    assert server.requests[-1].peer is others.peer and not others.peer.is_closed


def test_who_has_a_server_break_a_rule_pays_for_all_its_requests_there(start, start_http2_server, connect):
    """The server may work on them, and none says what it costs."""
    server = start_http2_server(**breaking(NAMED))
    client = connect(start(policy(
        server, limits="{tokens: {key: client.ip, algorithm: fixed_window, rate: 1000/day}}",
        routes="[{upstream: api, limits: [tokens], cost: {from: response.header.x-cost, estimate: 1, max: 100}}]")))
    streams = [client.begin(path="/slow", method="POST", more=of(9)) for _ in range(3)]
    server.wait_for(3)
    streams.append(client.begin(path="/bad", method="POST", more=of(9)))
    assert statuses(client, streams) == [502] * 4
    assert ";r=599;" in client.ask(path="/quick", more=of(9)).fields["ratelimit"]


def test_a_request_whose_answer_breaks_a_rule_is_suspect_however_old_it_is(start_breaking, connect):
    server, proxy = start_breaking()
    client = connect(proxy)
    streams = [client.begin(path="/slow", more=of(i)) for i in (1, 2, 9)]
    wait_until_old(server, 3)
    cause = next(request for request in server.requests if request.get("x-forwarded-for").startswith("198.51.100.9"))
    break_rule(cause.peer, cause.stream, NAMED)
    assert statuses(client, streams) == [200, 200, 502]
    for address in (1, 2, 9):
        assert client.ask(path="/quick", more=of(address)).status == 200
    first, second, own = server.requests[-3:]
    assert first.peer is second.peer and own.peer is not first.peer


@pytest.mark.parametrize("kind, n_down", [(NAMED, 1), (UNNAMED, 0)])
def test_a_rule_that_is_broken_is_one_failure(start, start_http2_server, connect, kind, n_down):
    """None where suspect requests may be why."""
    server = start_http2_server(**breaking(kind))
    proxy = start(policy(server, more=", eject: {failures: 2, for: 1m}, retries: 0"))
    client = connect(proxy)
    others = begin_slow(client, 4)
    server.wait_for(4)
    client.begin(path="/bad", method="POST", more=of(9))
    assert statuses(client, others) == [502] * 4
    assert DOWN not in proxy.stderr()
    for address in (8, 9) * n_down:
        assert client.answer(client.begin(path="/bad", method="POST", more=of(address))).status == 502
    assert proxy.log_at_end().count(DOWN) == n_down


@pytest.mark.parametrize("kind", [NAMED, UNNAMED])
def test_a_client_whose_request_breaks_its_own_connection_is_charged_for_all_on_it(
        start, start_http2_server, connect, kind):
    server = start_http2_server(**breaking(kind))
    client = connect(start(policy(server, **limited("refund_on: [server_failed, 5xx]"))))
    streams = begin_and_end(client, server, 9)
    assert statuses(client, streams) == [502] * 3
    assert client.ask(path="/quick", more=of(9)).status == 429


@pytest.mark.parametrize("kind", [NAMED, UNNAMED])
def test_who_did_not_cause_a_broken_rule_gets_back_what_is_old(start, start_http2_server, connect, kind):
    server = start_http2_server(**breaking(kind))
    client = connect(start(policy(server, **limited("refund_on: [server_failed]"))))
    streams = begin_and_end(client, server, 1, ())
    assert statuses(client, streams) == [502] * 3
    assert client.ask(path="/quick", more=of(1)).status == 200


def test_clients_behind_a_proxy_that_names_none_are_not_one(start, start_http2_server, connect):
    server = start_http2_server(**fall_over("ENHANCE_YOUR_CALM"))
    client = connect(start(policy(server, **limited("refund_on: [server_failed]"))))
    streams = [client.begin(path="/slow", method="POST") for _ in range(3)]
    wait_until_old(server, 3)
    client.begin(path="/bad", method="POST")
    assert statuses(client, streams) == [502] * 3
    assert client.ask(path="/quick").status == 200


@pytest.mark.parametrize("code", ["PROTOCOL_ERROR", "COMPRESSION_ERROR", "ENHANCE_YOUR_CALM", "FRAME_SIZE_ERROR",
                                  "CANCEL", "HTTP_1_1_REQUIRED"])
def test_a_reset_for_what_a_request_says_is_its_answer(start, start_http2_server, code):
    servers = [start_http2_server(lambda peer, request: peer.reset(request.stream, code)) for _ in range(2)]
    proxy = start(policy(*servers, more=EJECT, **LIMITED))
    assert [proxy.ask("GET", "/", of(9)).status for _ in range(4)] == [502, 502, 502, 429]
    assert sum(len(server.requests) for server in servers) == 3
    assert DOWN not in proxy.log_at_end()


@pytest.mark.parametrize("code, is_charged", [("PROTOCOL_ERROR", True), ("INTERNAL_ERROR", False)])
def test_a_reset_for_what_a_request_says_is_charged_behind_the_head_too(
        start, start_http2_server, connect, code, is_charged):
    server = start_http2_server(lambda peer, request: peer.head(request.stream))
    client = connect(start(policy(server, **LIMITED)))
    for _ in range(3):
        answer = client.answer_of(client.begin(more=of(9)))
        client.read_until(lambda answer=answer: answer.heads)
        server.last.peer.reset(server.last.stream, code)
        client.read_until(lambda answer=answer: answer.reset)
    answer = client.answer_of(client.begin(more=of(9)))
    client.read_until(lambda: answer.heads)
    assert answer.status == (429 if is_charged else 200)


def test_a_control_byte_that_a_server_repeats_is_no_failure(start, start_http2_server):
    servers = [start_http2_server(lambda peer, request: peer.answer(request.stream, fields=[("x-echo", "a\x01")]))
               for _ in range(2)]
    proxy = start(policy(*servers, more=EJECT))
    assert [proxy.ask("GET", "/", of(9)).status for _ in range(4)] == [502] * 4
    assert DOWN not in proxy.log_at_end()


def test_a_long_head_goes_on_a_connection_of_its_client(start, start_http2_server, connect):
    """Servers end the whole connection for a head that is longer than they take."""
    server = start_http2_server()
    client = connect(start(policy(server)))
    long = ("x-long", "x" * 5000)
    assert [client.ask(more=of(*more)).status for more in ((1,), (1, long), (2, long), (1, long), (2,))] == [200] * 5
    peers = [request.peer.number for request in server.requests]
    assert peers == [1, 2, 3, 2, 1]


def test_few_connections_of_one_client_each_rest(start, start_http2_server, connect):
    server = start_http2_server()
    client = connect(start(policy(server)))
    for i in range(20):
        assert client.ask(more=of(i, ("x-long", "x" * 5000))).status == 200
    until(lambda: sum(peer.is_closed for peer in server.peers) == 4, "the further ones to end")


def test_a_client_keeps_few_connections_of_its_own(start, start_http2_server, connect):
    """Others have room for theirs, and for those that whoever sends a long body shares in turn."""
    server = start_http2_server(never)
    client = connect(start(policy(server)))

    def answer(n, address, *fields, body=b"x"):
        n_before = len(server.requests)
        streams = [client.begin(path="/up", method="POST", more=of(address, *fields), ends=False) for _ in range(n)]
        for stream in streams:
            client.data(stream, body, ends=True)
        server.wait_for(n_before + n)
        for request in server.requests[n_before:]:
            until(lambda request=request: request.is_whole, "the request")
            request.peer.answer(request.stream)
        assert statuses(client, streams) == [200] * n

    def n_ended():
        return sum(peer.is_closed for peer in server.peers)

    answer(18, 1, ("trailer", "x-sum"))
    until(lambda: n_ended() == 14, "the further ones to end")
    for i in range(3):
        answer(1, 10 + i, body=b"x" * 12_000)
        server.peers[18].await_ping(i + 1)
        server.peers[18].await_read()  # so the proxy knows that all of it was read
    assert len(server.peers) == 19 and n_ended() == 14


@pytest.mark.parametrize("value", ["***", "!", "YQ==,*", "YQ=", "YR", "Y", "YWJj=", "a b", "YQ==YQ=="])
def test_a_binary_field_that_is_no_base64_is_400(start, start_http2_server, value):
    """C core takes it for a fault of the connection."""
    servers = [start_http2_server() for _ in range(2)]
    proxy = start(policy(*servers, more=EJECT))
    for name in ("X-Bin", "grpc-tags-bin"):
        for method in ("GET", "POST"):
            assert proxy.ask(method, "/", [*of(1), (name, value)]).status == 400
    assert proxy.ask().status == 200 and DOWN not in proxy.log_at_end()
    assert sum(len(server.requests) for server in servers) == 1


def test_members_of_a_binary_field_are_fields(start, start_http2_server):
    server = start_http2_server()
    value = "YQ, YWI=,,YWJj,+/+/"
    assert start(policy(server)).ask("GET", "/", of(1, ("X-Bin", value), ("Y-Bin", ""))).status == 200
    fields = [field for field in server.last.fields if field[0].endswith("-bin")]
    assert fields == [("x-bin", "YQ"), ("x-bin", "YWI="), ("x-bin", "YWJj"), ("x-bin", "+/+/"), ("y-bin", "")]


SECRET = "[{upstream: api, request: {set: {X-Secret: s}}}]"


@pytest.mark.parametrize("headers", [20, 100, 256])
@pytest.mark.parametrize("lines", [("X-Bin",), ("X-Bin", "Y-Bin", "Z-Bin")])
def test_members_count_as_fields_and_leave_none_out(start, start_http2_server, lines, headers):
    """Else they would fill the room that a request has, and what sluice adds to it would be missing."""
    server = start_http2_server()
    proxy = start(policy(server, routes=SECRET, max=f"{{head: 64KiB, headers: {headers}}}"))
    assert proxy.ask("GET", "/", of(1)).status == 200
    others = sorted(name for name, _ in server.last.fields)
    allowed = headers - 2  # Host and X-Forwarded-For
    for n in (allowed - 1, allowed, allowed + 1, 300, 1010, *range(1013, 1026)):
        sizes = [n // len(lines)] * (len(lines) - 1)
        sizes.append(n - sum(sizes))
        more = [(name, ",".join(["AA"] * size)) for name, size in zip(lines, sizes)]
        before = len(server.requests)
        assert proxy.ask("GET", "/", of(1, *more)).status == (200 if n <= allowed else 431), n
        assert len(server.requests) - before == (n <= allowed)
        if n <= allowed:
            names = [name for name, _ in server.last.fields]
            assert sorted(name for name in names if not name.endswith("-bin")) == others
            assert len(names) - len(others) == n and "x-secret" in others


def test_a_head_above_what_the_server_takes_is_431(start, start_http2_server):
    server = start_http2_server(settings={SettingsFrame.MAX_HEADER_LIST_SIZE: 1500})
    proxy = start(policy(server, more=EJECT))
    assert proxy.ask("GET", "/", of(1)).status == 200  # its SETTINGS have come
    for body in (None, b"body"):
        assert proxy.ask("POST", "/", of(1, ("X-Long", "x" * 1500)), body).status == 431
    assert proxy.ask("GET", "/", of(1)).status == 200
    assert len(server.requests) == 2 and len(server.peers) == 1


@pytest.mark.parametrize("request_head", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \r\n\r\n"])
def test_a_request_without_a_host_names_the_server(start, start_http2_server, request_head):
    server = start_http2_server()
    proxy = start(policy(server))
    with proxy.send(request_head) as client:
        assert client.read().status == 200
    assert server.last.get(":authority") == f"127.0.0.1:{server.port}"


WINDOW = 65535  # of a connection, and of a stream


def hog(proxy, address, n_bytes=16000):
    """An upload that the server does not read, and that shares a connection."""
    client = Client(proxy.address)
    client.send(b"POST /hog HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.%d\r\nContent-Length: %d\r\n\r\n"
                % (address, n_bytes) + b"x" * n_bytes)
    return client


def read_at_once(server):
    """Like Go: each DATA of all but /hog is granted again at once, by small updates."""
    def run(peer, frame):
        request = peer.requests[frame.stream_id]
        if request.path != "/hog" and len(frame.data) > 0:
            for at in range(0, len(frame.data), 1000):
                n = min(1000, len(frame.data) - at)
                peer.send(WindowUpdateFrame(0, window_increment=n),
                          WindowUpdateFrame(frame.stream_id, window_increment=n))

    server.on_data = run
    return server


def test_uploads_that_are_not_read_leave_room_for_others(start, start_http2_server):
    server = read_at_once(start_http2_server(grants=False, settings={}))
    proxy = start(policy(server, more=", timeout: {response: 5s}"))
    for _ in range(4):
        assert proxy.ask("POST", "/", of(1), b"x" * 16000).status == 200
    hogs = [hog(proxy, i) for i in range(2, 8)]
    server.wait_for(10)
    until(lambda: sum(len(request.body) for request in server.requests[4:]) > WINDOW // 3, "what they may send")
    for _ in range(5):
        assert proxy.ask("POST", "/", of(9), b"x" * 5000).status == 200
    for client in hogs:
        client.close()


def test_a_connection_whose_window_stays_closed_takes_no_more_bodies(start, start_http2_server):
    server = start_http2_server(behave=lambda peer, request: request.path == "/hog" or peer.answer(request.stream),
                          grants=False, settings={})
    proxy = start(policy(server, more=EJECT + ", timeout: {response: 1s}"))
    client = hog(proxy, 2, WINDOW + 5000)
    until(lambda: server.requests and len(server.requests[0].body) == WINDOW, "the window to be closed")
    time.sleep(0.2)  # it is for a while
    assert proxy.ask("POST", "/", of(2), b"x" * 20000).status == 200
    assert [request.peer.number for request in server.requests] == [1, 2]
    client.close()


def test_no_head_depends_on_those_of_others(start, start_http2_server, connect):
    """A server that stops reading a head at what it refuses loses what that puts into the table of the connection, and
    would read the lines of other clients by its indexes: lighttpd does."""
    server = start_http2_server()
    proxy = start(f"listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}\nupstream: {server.url}")
    client = connect(proxy)
    for _ in range(4):
        client.ask(path="/a", more=[("x-api-key", "one"), ("user-agent", "same")])
    assert len(server.peers) == 1 and len(server.requests) == 4
    heads = [frame for frame in server.peers[0].frames if isinstance(frame, HeadersFrame)]
    for frame in heads:
        assert ("x-api-key", "one") in Decoder().decode(frame.data)


def end_in_order(peer):
    end_with(peer, "NO_ERROR")


def break_a_rule(peer):
    peer.send_raw(b"\0\0\0\0\1\0\0\0\0")  # DATA of stream 0


@pytest.mark.parametrize("end", [end_in_order, lambda peer: peer.close(), break_a_rule], ids=["goaway", "close", "fault"])
def test_an_answer_that_has_come_whole_outlives_its_connection(start, start_http2_server, connect, end):
    """Only its client has to take what waits here. nginx ends connections after some requests."""
    body = b"x" * 40_000  # less than the proxy takes for a slow client

    def behave(peer, request):
        if request.path == "/whole":
            peer.answer(request.stream, body)
        elif request.path == "/part":
            peer.head(request.stream)
            peer.data(request.stream, b"x")

    server = start_http2_server(behave)
    proxy = start(policy(server, admin="127.0.0.1:0"))
    slow = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1000})
    whole = slow.begin(path="/whole", more=of(1))
    part = slow.begin(path="/part", more=of(1))
    peer = server.wait_for(2).peer
    peer.await_read()
    end(peer)
    assert slow.answer(part).reset
    assert n_server_http2_connections(proxy) == 0
    slow.send(WindowUpdateFrame(whole, window_increment=len(body)))
    answer = slow.answer(whole)
    assert answer.body == body and not answer.reset


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("end", [None, end_in_order, lambda peer: peer.close()], ids=["goes on", "goaway", "close"])
@pytest.mark.parametrize("says_enough", [False, True])
def test_an_answer_that_has_come_whole_before_the_end_of_its_upload_is_not_cut(
        start, start_http2_server, connect, end, says_enough, goes_on):
    body = b"x" * 40_000

    def on_head(peer, request):
        peer.answer(request.stream, body, status=413)
        if says_enough:
            peer.reset(request.stream, "NO_ERROR")

    server = start_http2_server(never, on_head=on_head)
    proxy = start(policy(server, admin="127.0.0.1:0"))
    slow = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1000})
    stream = slow.begin(method="POST", ends=False)
    slow.data(stream, bytes(10_000))
    until(lambda: server.requests, "the upload to begin")
    peer = server.requests[0].peer
    peer.await_read()
    if end is not None:
        end(peer)
        until(lambda: n_server_http2_connections(proxy) == 0, "the proxy to know")
    if goes_on:
        slow.data(stream, bytes(10_000), ends=True)
        slow.pong()
    slow.send(WindowUpdateFrame(stream, window_increment=len(body)))
    answer = slow.answer(stream)
    assert (answer.status, answer.body, answer.is_ended) == (413, body, True)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_whole_answer_outlives_its_upstream(start, start_http2_server, connect, leaves):
    body = b"x" * 40_000
    server = start_http2_server(lambda peer, request: peer.answer(request.stream, body))
    other = start_http2_server()
    proxy = start(policy(server, admin="127.0.0.1:0"))
    slow = connect(proxy, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1000})
    whole = slow.begin(path="/whole", more=of(1))
    peer = server.wait_for(1).peer
    peer.await_read()
    end_in_order(peer)
    until(lambda: n_server_http2_connections(proxy) == 0, "the proxy to know")
    listen, others = policy(other, admin="127.0.0.1:0").replace("api", "other").split("\n", 1)
    reload(proxy, others, listen.removeprefix("listen: "))
    if leaves:
        slow.sock.close()
    else:
        slow.send(WindowUpdateFrame(whole, window_increment=len(body)))
        assert slow.answer(whole).body == body
    assert proxy.ask().body == b"ok\n"
