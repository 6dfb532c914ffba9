"""Tunnels: a protocol is switched when both sides want that, and then bytes pass as they are."""

import hashlib
import os
import threading

import pytest

from harness import message
from harness.tunnel import (ASK, SWITCH, Switch, is_quiet, is_reset, open_tunnel, policy, slots_taken,
                            wait_for_slots_taken)
from harness.upstream import answer
from harness.wait import until

MIB = 1 << 20
# ASan keeps freed memory aside; what is gathered would still be far above this.
GROWTH_BYTES_MAX = 24 * MIB


@pytest.fixture(name="switch")
def switch_that_is_over_at_the_end():
    switch = Switch()
    yield switch
    switch.is_over.set()


# --- how it is asked for, and answered ---


def test_an_upgrade_is_passed_on_with_exactly_its_fields(start, start_upstream, switch):
    upstream = start_upstream(switch)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/chat", {
        **ASK, "Connection": "keep-alive, X-Mine, upgrade", "X-Mine": "1", "Keep-Alive": "5"}))
    response = client.read()
    request = upstream.wait_for(1)
    assert request.get("Connection") == "Upgrade" and request.get("Upgrade") == "websocket"
    assert request.get("Sec-WebSocket-Version") == "13" and request.get("X-Mine") is None
    assert request.get("Keep-Alive") is None
    assert response.status == 101 and response.get("Connection") == "Upgrade"
    assert response.get("Upgrade") == "websocket" and response.get("Sec-WebSocket-Accept") == "y"
    assert response.get("Transfer-Encoding") is None and response.get("Content-Length") is None


def test_bytes_pass_both_ways_as_they_are(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch)))
    client, peer = open_tunnel(proxy, switch)
    anything = bytes(range(256)) * 3 + b"GET / HTTP/1.1\r\n\r\n"
    client.send(anything)
    assert peer.reader.take(len(anything), "the tunnel") == anything
    peer.send(anything)
    assert client.reader.take(len(anything), "the tunnel") == anything


def test_what_comes_with_the_101_follows_it(start, start_upstream):
    switch = Switch(SWITCH + b"hello")
    proxy = start(policy(start_upstream(switch)))
    client, _ = open_tunnel(proxy, switch)
    assert client.reader.take(5, "the tunnel") == b"hello"
    switch.is_over.set()


def test_no_byte_of_the_client_passes_before_the_101(start, start_upstream):
    seen = []

    def behave(peer, _):
        seen.append(is_quiet(peer, 0.2))
        peer.send(SWITCH)
        seen.append(peer.reader.take(5, "the tunnel"))

    proxy = start(policy(start_upstream(behave)))
    client = proxy.send(message.request("GET", "/", ASK) + b"early")
    assert client.read().status == 101
    until(lambda: len(seen) == 2, "the upstream")
    assert seen == [True, b"early"]


def test_what_comes_early_waits_outside_the_proxy(start, start_upstream):
    early = os.urandom(MIB) * 32
    may_switch = threading.Event()
    digests = []

    def behave(peer, _):
        may_switch.wait(20)
        peer.send(SWITCH)
        digests.append(hashlib.sha256(peer.reader.take(len(early), "the tunnel")).digest())

    proxy = start(policy(start_upstream(behave)))
    before = proxy.memory_bytes()
    client = proxy.send(message.request("GET", "/", ASK))
    sender = threading.Thread(target=client.send, args=(early,), daemon=True)
    sender.start()
    sender.join(0.5)
    assert sender.is_alive(), "the kernel's buffers take no more"
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
    may_switch.set()
    assert client.read().status == 101
    until(lambda: digests, "all of it", within=30)
    assert digests == [hashlib.sha256(early).digest()]


def test_an_answer_other_than_101_is_an_answer_and_no_upgrade(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    client = proxy.send(message.request("GET", "/one", ASK) + message.request("GET", "/two"))
    assert [client.read().status for _ in range(2)] == [200, 200]
    assert [request.target for request in upstream.requests] == ["/one", "/two"]
    assert [line["path"] for line in proxy.log_lines(2)] == ["/one", "/two"]


NOT_ASKED = {
    "nothing": ({}, SWITCH),
    "without_connection": ({"Upgrade": "websocket"}, SWITCH),
    "another": (ASK, SWITCH.replace(b"websocket", b"h2c")),
    "two": (ASK, SWITCH.replace(b"websocket", b"websocket, h2c")),
    "two_lines": (ASK, SWITCH.replace(b"\r\nSec", b"\r\nUpgrade: websocket\r\nSec")),
    "no_name": (ASK, b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\n\r\n"),
    "no_connection": (ASK, b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n"),
    "version_1_0": (ASK, SWITCH.replace(b"HTTP/1.1", b"HTTP/1.0")),
    "not_passed_on": ({**ASK, "Upgrade": "h2c"}, SWITCH.replace(b"websocket", b"h2c")),
}


@pytest.mark.takes(2)
@pytest.mark.parametrize("fields, switched", NOT_ASKED.values(), ids=NOT_ASKED.keys())
def test_rule_65_a_101_that_was_not_asked_for_is_502(start, start_upstream, fields, switched):
    def behave(peer, _):
        peer.send(switched + b"not HTTP")
        peer.hang()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, upstream_rest=", timeout: {response: 2s}"))
    client = proxy.send(message.request("GET", "/", fields) + b"\x81\x05early")
    assert client.read().status == 502
    assert slots_taken(proxy) == 1, "the server may work on"
    until(lambda: not upstream.open_peers(), "the upstream's connection to be closed")
    wait_for_slots_taken(proxy, 0)


@pytest.mark.takes(5)
def test_rule_65_a_101_before_the_end_of_the_request_is_502(start, start_upstream):
    def behave(peer, _):
        peer.send(SWITCH)
        peer.hang()

    proxy = start(policy(start_upstream(behave, reads_body=False)))
    client = proxy.send(message.request("POST", "/", {**ASK, "Content-Length": "9"}) + b"part")
    assert client.read().status == 502


@pytest.mark.parametrize("rule", ["charge_on: [2xx, 4xx]", "refund_on: [server_failed]"])
def test_a_101_before_the_end_of_the_request_stays_charged(start, start_upstream, rule):
    def behave(peer, _):
        peer.send(SWITCH)
        peer.hang()

    upstream = start_upstream(behave, reads_body=False)
    proxy = start(policy(upstream, limits=f"c: {{key: client.ip, rate: 1/day, {rule}}}", applied="c"))
    part = message.request("POST", "/", {**ASK, "Content-Length": "100000"}) + b"x" * 66000
    assert proxy.send(part).read().status == 502
    assert proxy.send(part).read().status == 429


def test_a_request_with_a_body_may_switch_after_it(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch)))
    for n, fields, body in [(1, {"Content-Length": "4"}, b"body"),
                            (2, {"Transfer-Encoding": "chunked"}, message.chunked(b"body"))]:
        client = proxy.send(message.request("POST", "/", {**ASK, **fields}) + body + b"early")
        assert client.read().status == 101
        peer = switch.peer(n)
        assert peer.reader.take(5, "the tunnel") == b"early"
        client.send(b"late")
        assert peer.reader.take(4, "the tunnel") == b"late"


NOT_PASSED = {
    "h2c": message.request("GET", "/", {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c",
                                        "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"}),
    "tls": message.request("GET", "/", {"Connection": "Upgrade", "Upgrade": "TLS/1.0"}),
    "version_1_0": message.request("GET", "/", ASK, version="HTTP/1.0"),
    "not_named": message.request("GET", "/", {**ASK, "Connection": "keep-alive"}),
}


@pytest.mark.parametrize("request_bytes", NOT_PASSED.values(), ids=NOT_PASSED.keys())
def test_other_upgrades_are_not_passed_on(start, start_upstream, request_bytes):
    upstream = start_upstream()
    assert start(policy(upstream)).send(request_bytes).read().status == 200
    assert upstream.last.get("Upgrade") is None and upstream.last.get("Connection") is None
    assert upstream.last.get("HTTP2-Settings") is None


def test_of_several_protocols_those_that_may_pass_do(start, start_upstream, switch):
    upstream = start_upstream(switch)
    proxy = start(policy(upstream, route=", upgrade: [WebSocket, chat/2]"))
    open_tunnel(proxy, switch, [*{**ASK, "Upgrade": "h2c, websocket"}.items(),
                                ("Upgrade", "chat/1, Chat/2")])
    assert upstream.last.get("Upgrade") == "websocket, Chat/2"


@pytest.mark.parametrize("protocol, n_connections", [("websocket", 4), ("unknown", 1)])
def test_a_connection_whose_upgrade_was_declined_is_not_kept(start, start_upstream, protocol, n_connections):
    """Node's handlers of upgrades have the connection for themselves, and it reads no more requests there."""
    upstream = start_upstream(answer=answer("401 Unauthorized", body=b""))
    proxy = start(policy(upstream))
    fields = list({**ASK, "Upgrade": protocol}.items())
    for _ in range(3):
        assert proxy.ask(path="/chat", fields=fields).status == 401
    assert proxy.ask(path="/victim").status == 401
    assert upstream.n_connections == n_connections


def test_a_route_may_let_no_protocol_pass(start, start_upstream):
    upstream = start_upstream()
    assert start(policy(upstream, route=", upgrade: []")).ask(fields=ASK).status == 200
    assert upstream.last.get("Upgrade") is None


def test_the_limits_are_charged_at_the_upgrade(start, start_upstream, switch):
    upstream = start_upstream(switch)
    proxy = start(f"""
        workers: 1
        upstream: {upstream.url}
        limit: 2/day
        """)
    for n in (1, 2):
        client = proxy.send(message.request("GET", "/chat", ASK))
        assert client.read().get("RateLimit").startswith(f'"per-client";r={2 - n}')
    denied = proxy.ask(fields=ASK)
    assert denied.status == 429 and len(upstream.requests) == 2


def test_what_the_answer_decides_is_settled_at_the_upgrade(start, start_upstream, switch):
    proxy = start(f"""
        workers: 1
        upstreams: {{api: {{servers: "{start_upstream(switch).url}"}}}}
        limits:
          failures: {{key: client.ip, rate: 1/day, charge_on: [401]}}
        routes: [{{limits: [failures], upstream: api}}]
        """)
    open_tunnel(proxy, switch)
    open_tunnel(proxy, switch, n=2)


def test_the_log_has_one_line_a_tunnel_with_its_bytes(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch)))
    client, peer = open_tunnel(proxy, switch)
    client.send(b"x" * 1000)
    peer.reader.take(1000, "the tunnel")
    peer.send(b"y" * 500)
    client.reader.take(500, "the tunnel")
    assert not proxy.all_log_lines()
    client.end()
    peer.close()
    line = proxy.lines_of("/chat", 1)[0]
    assert (line["status"], line["in"], line["out"]) == ("101", "1000", "500")
    assert "fault" not in line


# --- how it ends ---


def test_an_end_of_either_side_is_passed_on_and_the_other_goes_on(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch)))
    client, peer = open_tunnel(proxy, switch)
    client.send(b"last words")
    client.end()
    assert peer.reader.take_rest() == b"last words"
    peer.send(b"an answer" * 100000)
    assert client.reader.take(900000, "the tunnel") == b"an answer" * 100000
    peer.close()
    assert client.has_ended()
    wait_for_slots_taken(proxy, 0)

    client, peer = open_tunnel(proxy, switch, n=2)
    peer.sock.shutdown(1)
    assert client.has_ended()
    client.send(b"an answer" * 100000)
    assert peer.reader.take(900000, "the tunnel") == b"an answer" * 100000
    assert slots_taken(proxy) == 1
    client.end()
    assert peer.reader.has_ended()
    wait_for_slots_taken(proxy, 0)
    assert all("fault" not in line for line in proxy.lines_of("/chat", 2))


def test_a_client_that_has_ended_its_side_before_the_101_gets_its_tunnel(
        start, start_upstream):
    ended = threading.Event()
    said = []

    def behave(peer, _):
        ended.wait(10)
        peer.send(SWITCH + b"hello")
        said.append(peer.reader.take_rest())

    proxy = start(policy(start_upstream(behave)))
    client = proxy.send(message.request("GET", "/", ASK) + b"all I say")
    client.end()
    until(lambda: proxy.ask(path="/look").status == 204, "the proxy to have seen that")
    ended.set()
    assert client.read().status == 101
    assert client.reader.take_rest() == b"hello"
    assert said == [b"all I say"]


@pytest.mark.parametrize("who", ["client", "upstream"])
def test_a_reset_of_one_side_resets_the_other(start, start_upstream, switch, who):
    proxy = start(policy(start_upstream(switch)))
    client, peer = open_tunnel(proxy, switch)
    first, other = (client, peer.sock) if who == "client" else (peer, client.sock)
    first.reset()
    with pytest.raises(ConnectionResetError):
        other.recv(1)
    wait_for_slots_taken(proxy, 0)
    assert "fault" in proxy.lines_of("/chat", 1)[0]


def test_a_tunnel_in_which_nothing_moves_is_reset(start, start_upstream, switch):
    """A server that keeps its half when it is told an end would keep its handler, too."""
    proxy = start(policy(start_upstream(switch), top="timeouts: {tunnel: 300ms, idle: 1h}"))
    for end in open_tunnel(proxy, switch):
        with pytest.raises(ConnectionResetError):
            end.sock.recv(1)
    wait_for_slots_taken(proxy, 0)
    assert "nothing moved" in proxy.lines_of("/chat", 1)[0]["fault"]


@pytest.mark.takes(5)
def test_a_tunnel_in_which_one_side_speaks_is_not_ended(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch), top="timeouts: {tunnel: 4s, idle: 2s}"))
    tunnels = [open_tunnel(proxy, switch, n=n) for n in (1, 2)]
    ways = [(tunnels[0][0], tunnels[0][1].reader), (tunnels[1][1], tunnels[1][0].reader)]
    for _ in range(25):
        for speaker, reader in ways:
            speaker.send(b"x")
            reader.take(1, "the tunnel")
        threading.Event().wait(0.2)
    assert slots_taken(proxy) == 2


def test_half_a_tunnel_is_given_the_time_of_an_idle_connection(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch), top="timeouts: {tunnel: 1h, idle: 2s}"))
    client, peer = open_tunnel(proxy, switch)
    peer.sock.shutdown(1)
    assert client.has_ended() and peer.reader.has_ended()
    wait_for_slots_taken(proxy, 0)


def test_a_server_that_goes_on_without_its_client_is_reset_when_that_time_is_over(
        start, start_upstream, switch):
    """It knows of the end of its client's side: a close in order would leave its handler and its socket."""
    proxy = start(policy(start_upstream(switch), top="timeouts: {tunnel: 1h, idle: 1s}"))
    client, peer = open_tunnel(proxy, switch)
    client.end()
    assert peer.reader.has_ended()
    with pytest.raises(ConnectionResetError):
        client.sock.recv(1)
    until(lambda: is_reset(peer), "its server to be reset")
    wait_for_slots_taken(proxy, 0)
    assert "nothing moved" in proxy.lines_of("/chat", 1)[0]["fault"]


@pytest.mark.parametrize("who", ["client", "upstream"])
def test_a_side_that_does_not_read_stops_the_other_and_is_cut(start, start_upstream, switch, who):
    proxy = start(policy(start_upstream(switch), top="timeouts: {tunnel: 1h, idle: 2s}"))
    before = proxy.memory_bytes()
    client, peer = open_tunnel(proxy, switch)
    sender = peer.sock if who == "client" else client.sock
    n_sent = 0
    piece = b"x" * MIB
    with pytest.raises(OSError):  # in the end it is reset
        while n_sent < 1024 * MIB:
            n_sent += sender.send(piece)
    assert n_sent < 64 * MIB
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
    wait_for_slots_taken(proxy, 0)
    assert "does not read" in proxy.lines_of("/chat", 1)[0]["fault"]


def test_a_client_that_does_not_read_gains_no_time_by_speaking(start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch),
                         top="timeouts: {tunnel: 1h, idle: 2s, body_rate: off}"))
    client, peer = open_tunnel(proxy, switch)
    is_over = threading.Event()

    def speak():
        try:
            while not is_over.wait(0.05):
                client.send(b"x")
        except OSError:
            pass  # it is cut

    def flood():
        while True:
            peer.sock.sendall(b"x" * MIB)

    peer.sock.settimeout(60)
    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        with pytest.raises(ConnectionError):  # not merely a time-out of this test
            flood()
    finally:
        is_over.set()
        speaker.join()
    assert "does not read" in proxy.lines_of("/chat", 1)[0]["fault"]


@pytest.mark.parametrize("who", ["client", "upstream"])
def test_a_slow_reader_gets_every_byte_and_the_proxy_does_not_grow(
        start, start_upstream, switch, who):
    proxy = start(policy(start_upstream(switch)))
    before = proxy.memory_bytes()
    client, peer = open_tunnel(proxy, switch)
    sender, reader = (peer, client.reader) if who == "client" else (client, peer.reader)
    data = os.urandom(MIB) * 48
    thread = threading.Thread(target=sender.send, args=(data,), daemon=True)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), "the other side does not read"
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX
    assert reader.take(len(data), "the tunnel") == data


@pytest.mark.takes(5)
def test_a_proxy_that_stops_lets_tunnels_end_and_cuts_those_that_do_not(
        start, start_upstream, switch):
    proxy = start(policy(start_upstream(switch), top="timeouts: {drain: 4s}"))
    ending, ending_peer = open_tunnel(proxy, switch)
    staying, staying_peer = open_tunnel(proxy, switch, n=2)
    proxy.signal()
    until(lambda: "msg=draining" in proxy.stderr(), "the drain to begin")
    ending.send(b"still here")
    assert ending_peer.reader.take(10, "the tunnel") == b"still here"
    ending.end()
    ending_peer.close()
    assert ending.has_ended()
    assert proxy.wait() == 0
    assert staying.has_ended() and staying_peer.reader.has_ended()


@pytest.mark.takes(6)
def test_a_slot_is_renewed_as_long_as_its_tunnel_lasts(start_in_store, start_upstream, switch):
    proxy = start_in_store(policy(start_upstream(switch)).replace("workers: 1", "").replace(
        "rate: 1000", "rate: 1000, lease: 3s"), workers=1)
    open_tunnel(proxy, switch)
    for _ in range(11):
        assert slots_taken(proxy) == 1
        threading.Event().wait(0.4)
    assert slots_taken(proxy) == 1
