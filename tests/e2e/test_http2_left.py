"""Requests by HTTP/2 that their clients leave, to servers that work on for them (`max_streams` of the upstream),
or that end a connection for resets."""

import time

import pytest
from hyperframe.frame import GoAwayFrame, SettingsFrame, WindowUpdateFrame

from harness.http2 import NAMES
from harness.wait import until

WORKER, LEAVER, OTHER = 8, 9, 1


def policy(server, more=", max_streams: 16", limit="rate: 10000/s"):
    return f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        workers: 1
        trusted_proxies: [127.0.0.1]
        upstreams: {{api: {{servers: ["{server.url}"]{more}}}}}
        limits: {{a: {{key: client.ip, {limit}}}}}
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


def is_of_leaver(request):
    return request.get("x-forwarded-for").startswith(of(LEAVER)[0][1])


def length(n_bytes):
    """Of a body that may share a connection."""
    return [("content-length", str(n_bytes))]


def connection_of(server, client, **request):
    """That of one more request, which is answered."""
    more = of(OTHER) + length(len(request["body"])) if "body" in request else of(OTHER)
    assert client.ask(more=more, **request).status == 200
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
def test_without_max_streams_a_connection_takes_64_requests_that_are_left(start, server, connect, more):
    """Most servers end their handlers, but Netty a connection of which 200 are reset within 30 s."""
    proxy = start(policy(server, more))
    client, other = connect(proxy), connect(proxy)
    stream, request = work(server, other)
    assert {left.peer.number for left in leave(server, client, 63)} == {1}
    assert connection_of(server, other) == 1
    assert leave(server, client)[0].peer.number == 1
    assert connection_of(server, other) == 2
    assert {left.peer.number for left in leave(server, client, 64)} == {2}
    assert connection_of(server, other) == 3
    request.peer.answer(request.stream, b"the last")
    assert other.answer(stream).body == b"the last"


def fill(server, connect, start, **options):
    """Six requests at a server of max_connections: 6, of which five are left: those. Then five more are sent."""
    proxy = start(policy(server, ", max_streams: 16, max_connections: 6, queue: {wait: 1m}", **options))
    client, other = connect(proxy), connect(proxy)
    work(server, other)
    left = leave_at_once(server, client, 5)
    for i in range(5):
        other.begin(path="/work", more=of(20 + i))
    return left, other


def test_a_request_that_was_left_is_none_of_max_connections_whether_the_server_is_told_or_not(
        start, server, connect):
    left, _ = fill(server, connect, start)
    server.wait_for(11)
    until(lambda: left[0].reset, "the first to be reset")
    left[0].peer.await_read()
    assert [request.reset for request in left].count(None) == 3


def test_a_request_that_was_left_is_one_of_max_connections_while_it_holds_a_slot(start, server, connect):
    left, other = fill(server, connect, start, limit="algorithm: concurrency, rate: 9")
    other.pong()
    assert len(server.requests) == 6
    for request in left:
        request.peer.answer(request.stream)
    server.wait_for(11)


# --- servers that end a connection for what is reset on it ---

def count_as_tomcat(server):
    counts = {}

    def count(peer, units):
        counts[peer] = counts.get(peer, -100 + 3 * 10) + units
        if counts[peer] > 0:
            end_with(peer, "ENHANCE_YOUR_CALM")

    server.on_head = lambda peer, _request: count(peer, -20)
    server.on_reset = lambda peer, _frame: count(peer, 50)


@pytest.mark.parametrize("n_others, n_left", [(1, 4), (1, 15), (6, 10), (13, 3)])
def test_requests_that_are_left_at_once_end_none_of_others(start, server, connect, n_others, n_left):
    """Only some of them are reset. The answers to the others are dropped."""
    count_as_tomcat(server)
    proxy = start(policy(server))
    client, other = connect(proxy), connect(proxy)
    streams = [work(server, other, i)[0] for i in range(20, 20 + n_others)]
    shared = server.last.peer
    left = leave_at_once(server, client, n_left)
    assert {request.peer for request in left} == {shared}
    until(lambda: left[0].reset, "the first to be reset")
    assert connection_of(server, client) == 2
    shared.await_read()
    for request in left:
        if request.reset is None:
            shared.head(request.stream)
            for _ in range(5):
                shared.data(request.stream, b"x" * 13000)
    for stream in streams:
        shared.answer(stream, b"y" * 49152)
        assert len(other.answer(stream).body) == 49152
    until(lambda: shared.is_closed, "the first connection to be closed")
    assert shared.goaway == "NO_ERROR"


def begin_late(server, client, n, addresses=(LEAVER,)):
    """Requests that time out a second before others do that are sent from now on: their streams, and the server's."""
    n_before = len(server.requests)
    streams = [client.begin(path="/work", more=of(addresses[i % len(addresses)])) for i in range(n)]
    server.wait_for(n_before + n)
    await_age()
    return streams, server.requests[n_before:]


def begin_answers(server, client, addresses):
    """Requests that are not safe to try again, and whose answers have begun: their streams, and the server's."""
    n_before = len(server.requests)
    streams = [client.begin(path="/work", method="POST", more=of(address)) for address in addresses]
    server.wait_for(n_before + len(streams))
    requests = server.requests[n_before:]
    for request in requests:
        request.peer.head(request.stream)
    return streams, requests


def time_out(client, streams):
    assert {client.answer(stream).status for stream in streams} <= {502, 504}


def end_answers(client, streams, requests):
    for stream, request in zip(streams, requests):
        request.peer.data(request.stream, b"z" * 9000, ends=True)
        assert len(client.answer(stream).body) == 9000


@pytest.mark.parametrize("n_others, n_late", [(1, 4), (1, 15), (5, 10)])
def test_requests_that_time_out_at_once_end_none_of_others(start, server, connect, n_others, n_late):
    """Only some of them are reset, and their client is no suspect."""
    count_as_tomcat(server)
    proxy = start(policy(server, ", max_streams: 16, timeout: {response: 3s}"))
    client, other = connect(proxy), connect(proxy)
    for _ in range(2):
        late, late_requests = begin_late(server, client, n_late)
        streams, requests = begin_answers(server, other, range(20, 20 + n_others))
        shared = requests[0].peer
        assert {request.peer for request in late_requests} == {shared}
        time_out(client, late)
        assert connection_of(server, other) != shared.number
        end_answers(other, streams, requests)
        until(lambda: shared.is_closed, "the connection to be closed")
        assert shared.goaway == "NO_ERROR"


def test_who_leaves_more_at_once_than_the_server_is_told_has_connections_of_its_own(start, server, connect):
    proxy = start(policy(server))
    client, other = connect(proxy), connect(proxy)
    work(server, other)
    leave_at_once(server, client, 6)
    assert connection_of(server, other) == 2
    assert work(server, client, LEAVER)[1].peer.number == 3


def test_all_requests_are_reset_that_are_left_where_nobody_elses_are(start, server, connect):
    proxy = start(policy(server))
    client = connect(proxy)
    work(server, client, LEAVER)
    left = leave_at_once(server, client, 14)
    until(lambda: all(request.reset == "CANCEL" for request in left), "all to be reset")


def ask_twelve(server, client):
    """Requests of as many clients: their streams, and the server's."""
    n_before = len(server.requests)
    streams = [client.begin(path="/work", method="POST", more=of(address)) for address in range(20, 32)]
    server.wait_for(n_before + len(streams))
    return streams, server.requests[n_before:]


@pytest.mark.parametrize("more, n_told", [("", 12), (", max_streams: 50", 4)])
def test_a_server_that_is_too_slow_is_told_so_and_nobody_is_suspect(start, server, connect, more, n_told):
    """Of those that it is not told of, it is by the end of the connection."""
    proxy = start(policy(server, f"{more}, timeout: {{response: 1s}}"))
    other = connect(proxy)
    streams, requests = ask_twelve(server, other)
    assert [other.answer(stream).status for stream in streams] == [504] * 12
    shared = requests[0].peer
    until(lambda: n_told == 12 or shared.is_closed, "the connection to be closed")
    until(lambda: [request.reset for request in requests].count("CANCEL") >= n_told, "it to be told")
    assert len({request.peer for request in ask_twelve(server, other)[1]}) == 1


def test_a_slow_server_that_ends_its_connection_for_resets_makes_nobody_suspect(start, server, connect):
    """As many clients are waiting: none of them is who has sent too much."""
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, ", timeout: {response: 2s}"))
    other = connect(proxy)
    for _ in range(2):
        streams, requests = ask_twelve(server, other)
        assert len({request.peer for request in requests}) == 1
        for stream in streams:
            assert other.answer(stream).status in (502, 504)
        until(lambda: requests[0].peer.is_closed, "the connection to end")


@pytest.mark.parametrize("more", ["", ", max_streams: 50"])
def test_a_connection_that_is_lost_makes_nobody_suspect_whose_request_is_old(start, server, connect, more):
    proxy = start(policy(server, more))
    other = connect(proxy)
    streams, requests = ask_twelve(server, other)
    await_age()
    requests[0].peer.close()
    assert [other.answer(stream).status for stream in streams] == [502] * 12
    assert len({request.peer for request in ask_twelve(server, other)[1]}) == 1


def end_with(peer, code):
    if code is not None:
        peer.send(GoAwayFrame(0, last_stream_id=2**31 - 1, error_code=NAMES.index(code)))
    peer.close()


def answer_500_and_end(peer):
    """As hypercorn does where a handler of its own fails."""
    for stream, request in peer.requests.items():
        if request.path == "/work" and request.reset is None:
            peer.answer(stream, status=500)
    peer.end()


def count_resets(server, end, most=3):
    """It ends a connection behind the fourth RST_STREAM."""
    n_resets = {}

    def on_reset(peer, _frame):
        n_resets[peer] = n_resets.get(peer, 0) + 1
        if n_resets[peer] == most + 1:
            end(peer)

    server.on_reset = on_reset


def await_age():
    begun = time.monotonic()
    until(lambda: time.monotonic() - begun > 1.2, "the requests to be old")


def begin_old(server, client):
    """Requests of three clients that are not safe to try again, and older than the second in which they are suspect."""
    n_before = len(server.requests)
    streams = [client.begin(path="/work", method="POST", more=of(address)) for address in range(1, 4)]
    server.wait_for(n_before + len(streams))
    await_age()
    return streams, server.requests[n_before:]


def leave_at_once(server, client, n=4, addresses=(LEAVER,)):
    """The server's requests, of the clients with these @addresses in turn."""
    n_before = len(server.requests)
    streams = [client.begin(path="/work", more=of(addresses[i % len(addresses)])) for i in range(n)]
    server.wait_for(n_before + n)
    for stream in streams:
        client.reset(stream)
    return server.requests[n_before:]


@pytest.mark.parametrize("end, status", [(lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"), 502),
                                         (lambda peer: end_with(peer, None), 502),
                                         (answer_500_and_end, 500)])
def test_who_leaves_requests_before_a_connection_ends_gets_one_of_its_own(start, server, connect, end, status):
    """Tomcat and Netty take many resets for an attack."""
    count_resets(server, end)
    proxy = start(policy(server, more=""))
    client, other = connect(proxy), connect(proxy)
    streams, _ = begin_old(server, other)
    shared = leave_at_once(server, client)[0].peer
    assert [other.answer(stream).status for stream in streams] == [status] * 3
    until(lambda: shared.is_closed, "the connection to end")
    streams, requests = begin_old(server, other)
    assert {request.peer for request in requests}.isdisjoint({shared})
    left = leave_at_once(server, client)
    assert {request.peer for request in left}.isdisjoint(request.peer for request in requests)
    for request in requests:
        request.peer.answer(request.stream)
    assert [other.answer(stream).status for stream in streams] == [200] * 3


@pytest.mark.parametrize("n_clients", [2, 4])
def test_clients_that_leave_requests_in_turn_before_a_connection_ends_are_all_remembered(
        start, server, connect, n_clients):
    addresses = range(40, 40 + n_clients)
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, more=""))
    client, other = connect(proxy), connect(proxy)
    shared = leave_at_once(server, client, 4, addresses)[0].peer
    until(lambda: shared.is_closed, "the connection to end")
    _, request = work(server, other, OTHER)
    peers = [request.peer] + [work(server, client, address)[1].peer for address in addresses]
    assert len(set(peers)) == 1 + n_clients


def test_a_request_is_tried_again_whose_client_was_not_the_only_one_to_leave_others(start, server, connect):
    """It has left the last, and has the only one that is under way."""
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    client = connect(start(policy(server, more="")))
    stream, _ = work(server, client, OTHER)
    time.sleep(0.5)  # longer than a request is on its way
    leave_at_once(server, client, 4, (LEAVER, LEAVER, LEAVER, OTHER))
    again = server.wait_for(6)
    again.peer.answer(again.stream)
    assert client.answer(stream).status == 200


def test_who_leaves_requests_before_a_connection_ends_in_order_shares_the_next(start, server, connect):
    count_resets(server, lambda peer: end_with(peer, "NO_ERROR"))
    proxy = start(policy(server, more=""))
    client, other = connect(proxy), connect(proxy)
    leave_at_once(server, client)
    until(lambda: connection_of(server, other) == 2, "the first connection to end")
    _, requests = begin_old(server, other)
    assert leave_at_once(server, client, 1)[0].peer is requests[0].peer


def test_a_request_beside_those_that_were_left_is_tried_again(start, server, connect):
    """Nobody else has one on the connection then, but its client is not who ended it."""
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, more=""))
    client, other = connect(proxy), connect(proxy)
    stream, _ = work(server, other, OTHER)
    time.sleep(0.5)  # longer than a request is on its way
    leave_at_once(server, client)
    again = server.wait_for(6)
    again.peer.answer(again.stream)
    assert other.answer(stream).status == 200


@pytest.mark.parametrize("n_others", [0, 1])
def test_a_counted_request_is_not_tried_again_that_a_server_ends_at_its_time_limit(start, server, connect, n_others):
    """Node does so after server.setTimeout: its handlers work on."""
    client = connect(start(policy(server, more=", retries: 3")))
    requests = [work(server, client, address) for address in (LEAVER, LEAVER, OTHER)[:2 + n_others]]
    time.sleep(0.5)  # longer than a request is on its way
    end_with(requests[0][1].peer, "NO_ERROR")
    assert [client.answer(stream).status for stream, _ in requests] == [502] * len(requests)
    assert len(server.requests) == len(requests)


def test_a_counted_request_is_not_tried_again_that_is_with_a_silent_server(start, start_http2_server):
    """Its handler may hold up the server's loop."""
    servers = [start_http2_server(behave=lambda *_: None, answers_pings=False) for _ in range(2)]
    proxy = start(policy(servers[0]).replace(f'"{servers[0].url}"', f'"{servers[0].url}", "{servers[1].url}"') +
                  "timeouts: {ping: 300ms}\n")
    assert proxy.ask().status == 502
    assert sum(len(server.requests) for server in servers) == 1


def assert_charged_and_not_tried_again(server, leaver, other, n_requests):
    """The streams of the leaver have all of its limit; that of the other goes on, as the last of @n_requests."""
    client, streams = leaver
    other_client, of_other = other
    again = server.wait_for(n_requests)
    again.peer.answer(again.stream)
    assert other_client.answer(of_other).status == 200
    assert [client.answer(stream).status for stream in streams] == [502] * 5
    assert client.ask(more=of(LEAVER)).status == 429, "all are charged"
    assert len(server.requests) == n_requests


def test_who_leaves_requests_has_no_others_tried_again(start, server, connect):
    """Their handlers would run twice for one charge, as often as a client ends the connection."""
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, more=", retries: 3", limit="algorithm: fixed_window, rate: 9/day, refund_on: 502"))
    client, other = connect(proxy), connect(proxy)
    streams = [work(server, client, LEAVER)[0] for _ in range(5)]
    of_other, _ = work(server, other, OTHER)
    time.sleep(0.5)  # longer than a request is on its way
    leave_at_once(server, client)
    assert_charged_and_not_tried_again(server, (client, streams), (other, of_other), 11)


def test_who_leaves_a_request_now_and_then_has_others_tried_again(start, server, connect):
    """As a browser does."""
    client = connect(start(policy(server, more="")))
    work(server, client, OTHER)
    stream, request = work(server, client, LEAVER)
    for _ in range(2):
        leave_at_once(server, client, 1)
        until(lambda: server.requests[-1].reset, "the server to be told")
        await_age()
    leave_at_once(server, client, 1)
    until(lambda: server.requests[-1].reset, "the server to be told")
    end_with(request.peer, "ENHANCE_YOUR_CALM")
    until(lambda: any(is_of_leaver(request) for request in server.requests[5:]), "the request to come again")
    again = next(request for request in server.requests[5:] if is_of_leaver(request))
    again.peer.answer(again.stream)
    assert client.answer(stream).status == 200


def test_who_ends_a_connection_by_a_body_that_windows_cut_has_no_others_tried_again(start, start_http2_server, connect):
    """A server that opens its windows byte by byte gets its DATA so, and may end the connection for that, as Tomcat."""
    server = start_http2_server(behave, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1})
    proxy = start(policy(server, more="", limit="algorithm: fixed_window, rate: 6/day, refund_on: 502"))
    client, other = connect(proxy), connect(proxy)
    streams = [work(server, client, LEAVER)[0] for _ in range(5)]
    of_other, shared = work(server, other, OTHER)
    pieces = []
    server.on_data = lambda peer, frame: pieces.append(frame)
    upload = client.begin(path="/work", method="POST", ends=False, more=of(LEAVER) + length(5000))
    client.data(upload, b"x" * 5000, ends=True)
    until(lambda: len(pieces) == 1, "the first byte to come")
    await_age()
    shared.peer.send(WindowUpdateFrame(pieces[0].stream_id, window_increment=1))
    until(lambda: len(pieces) == 2, "the second byte to come")
    end_with(shared.peer, "ENHANCE_YOUR_CALM")
    assert_charged_and_not_tried_again(server, (client, streams), (other, of_other), 8)


@pytest.mark.parametrize("n_clients", [1, 2])
def test_whose_requests_time_out_before_a_connection_ends_gets_one_of_its_own(start, server, connect, n_clients):
    """Where the policy has no max_streams, the server is told of all."""
    addresses = range(40, 40 + n_clients)
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, ", timeout: {response: 3s}"))
    client, other = connect(proxy), connect(proxy)
    late, late_requests = begin_late(server, client, 4, addresses)
    streams, requests = begin_answers(server, other, range(20, 23))
    assert {request.peer for request in late_requests} == {requests[0].peer}
    time_out(client, late)
    assert all(other.answer(stream).reset for stream in streams), "the proxy sees the end of the connection"
    late, late_requests = begin_late(server, client, 4 * n_clients, addresses)
    streams, requests = begin_answers(server, other, range(20, 23))
    assert {request.peer for request in late_requests}.isdisjoint(request.peer for request in requests)
    time_out(client, late)
    end_answers(other, streams, requests)


def test_whose_request_times_out_alone_shares_the_next_connection(start, server, connect):
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"), most=0)
    proxy = start(policy(server, ", timeout: {response: 1s}"))
    client, other = connect(proxy), connect(proxy)
    stream, late = work(server, client, LEAVER)
    time_out(client, [stream])
    until(lambda: late.peer.is_closed, "the connection to end")
    _, request = work(server, other, OTHER)
    assert work(server, client, LEAVER)[1].peer is request.peer


def test_a_request_beside_those_that_time_out_is_tried_again(start, server, connect):
    """Nobody else has one on the connection then, but its client is not who ended it."""
    count_resets(server, lambda peer: end_with(peer, "ENHANCE_YOUR_CALM"))
    proxy = start(policy(server, ", timeout: {response: 3s}"))
    client, other = connect(proxy), connect(proxy)
    begin_late(server, client, 4)
    stream, _ = work(server, other, OTHER)
    again = server.wait_for(6)
    again.peer.answer(again.stream)
    assert other.answer(stream).status == 200
