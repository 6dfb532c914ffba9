"""The PROXY protocol: a trusted proxy says who the client is, before the first request."""

import socket
import struct
import time

import pytest

from harness.message import Cut, request
from harness.wait import holds_unless_it_stalls, until

POLICY = """
listen:
  - {address: 127.0.0.1:0, proxy_protocol: true}
  - 127.0.0.1:0
workers: 1
timeouts: {head: %s}
trusted_proxies: [127.0.0.1, 10.0.0.0/8]
limits: {once: {key: client.ip, rate: 1/day}}
routes:
  - {match: {path: /free/**}, respond: {status: 200, body: ok}}
  - {limits: [once], respond: {status: 204}}
"""

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ASK = request("GET", "/")


def v1(source, destination="198.51.100.1"):
    family = "TCP6" if ":" in source else "TCP4"
    return f"PROXY {family} {source} {destination} 56324 443\r\n".encode()


def v2(source=None, command=1, tlvs=b""):
    if source is None:
        return SIGNATURE + struct.pack("!BBH", 0x20 | command, 0, len(tlvs)) + tlvs
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    address = socket.inet_pton(family, source)
    rest = address + address + struct.pack("!HH", 56324, 443) + tlvs
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, 0x21 if ":" in source else 0x11,
                                   len(rest)) + rest


def tlv(kind, value):
    return struct.pack("!BH", kind, len(value)) + value


@pytest.fixture(name="proxy", scope="module")
def shared_proxy(start_shared):
    return start_shared(POLICY % "10s")


next_host = iter(range(1, 250))


@pytest.fixture(name="source")
def a_source_of_its_own():
    return f"192.0.2.{next(next_host)}"


def ask(proxy, header, data=ASK):
    with proxy.send(header + data) as client:
        return client.read()


@pytest.mark.parametrize("version", [v1, v2])
def test_the_client_is_who_the_header_names(proxy, source, version):
    assert ask(proxy, version(source)).status == 204
    assert ask(proxy, version(source)).status == 429
    assert ask(proxy, version(source), request("GET", f"/free/{source}")).status == 200
    assert proxy.lines_of(f"/free/{source}", 1)[0]["client"] == source


def test_both_versions_and_all_spellings_name_one_client(proxy, source):
    assert ask(proxy, v1(source)).status == 204
    for header in (v2(source), v1("::ffff:" + source, "::1"), v2("64:ff9b::" + source),
                   v2(source, tlvs=tlv(4, b"") + tlv(0xee, b"x" * 1000))):
        assert ask(proxy, header).status == 429


def test_an_ipv6_client_counts_by_its_64(proxy):
    assert ask(proxy, v1("2001:db8:5::1", "::1")).status == 204
    assert ask(proxy, v2("2001:db8:5::ffff")).status == 429
    assert ask(proxy, v2("2001:db8:5:1::1")).status == 204


@pytest.mark.parametrize("version", [v1, v2])
def test_header_and_request_come_in_any_pieces(proxy, source, version):
    data = version(source) + request("GET", "/free") + request("GET", "/free")
    for at in range(1, len(data), 7):
        with proxy.send(data[:at]) as client:
            client.send(data[at:])
            assert [client.read().status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("version", [v1, v2])
def test_header_and_request_come_byte_by_byte(proxy, source, version):
    with proxy.connect() as client:
        for byte in version(source) + request("GET", "/free"):
            client.send(bytes([byte]))
        assert client.read().status == 200
        assert client.ask(path="/free").status == 200


def test_the_header_stands_for_all_requests_of_its_connection(proxy, source):
    with proxy.send(v2(source)) as client:
        assert [client.ask().status for _ in range(2)] == [204, 429]


@pytest.mark.parametrize("header", [
    b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN some words\r\n", v2(command=0), v2(command=1),
    v2("192.0.2.251", command=0), v2(command=0, tlvs=tlv(4, b"abc"))],
    ids=["unknown", "unknown_with_words", "local", "unspecified", "local_with_an_address",
         "local_with_tlvs"])
def test_a_header_without_an_address_leaves_the_peer(proxy, source, header):
    assert ask(proxy, header, request("GET", f"/free/{source}")).status == 200
    assert proxy.lines_of(f"/free/{source}", 1)[0]["client"] == "127.0.0.1"


def test_x_forwarded_for_of_who_the_header_names_is_believed_if_that_is_a_proxy(proxy, source):
    forwarded = request("GET", "/", [("X-Forwarded-For", source)])
    assert ask(proxy, v1("10.1.2.3"), forwarded).status == 204
    assert ask(proxy, v1(source)).status == 429
    assert ask(proxy, v1("203.0.113.1"), forwarded).status == 204
    assert ask(proxy, v1("203.0.113.1"), forwarded).status == 429


@pytest.mark.parametrize("header", [
    b"", v1("192.0.2.256"), v1("192.0.2.252").replace(b"\r\n", b"\n"), b"PROXY TCP9 a b c d\r\n",
    b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n", b"\0" * 16, SIGNATURE + b"\x31\x11\0\0",
    SIGNATURE + b"\x21\x11\0\x04abcd", SIGNATURE + b"\x21\x11\xff\xff",
    v2("192.0.2.252", tlvs=b"\xee\xff\xff"), v2("192.0.2.252", tlvs=tlv(3, b"\0\0\0\0"))],
    ids=["none", "no_address", "bare_lf", "no_family", "too_long_a_line", "zeroes",
         "version_3", "too_short", "too_long", "tlv_beyond_the_end", "wrong_sum"])
def test_what_is_no_header_closes_the_connection_without_an_answer(proxy, header):
    with proxy.send(header + ASK) as client:
        assert client.has_ended()


def test_a_header_that_is_cut_short_closes_the_connection(proxy):
    with proxy.send(v2("192.0.2.252")[:20]) as client:
        client.end()
        assert client.has_ended()


def test_who_is_not_trusted_is_refused_and_told_of_in_the_log_not_in_each_case(proxy):
    for _ in range(20):
        with proxy.connect("127.0.0.2") as client:
            try:
                client.send(v1("192.0.2.253") + ASK)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert client.has_ended()
    told = until(lambda: [line for line in proxy.stderr().splitlines() if '"no trusted proxy"' in line], "the line")
    assert 1 <= len(told) < 20 and "client=127.0.0.2" in told[0]


def test_a_listener_without_it_takes_no_header(proxy):
    with proxy.connect(address=proxy.addresses[1]) as client:
        client.send(v1("192.0.2.254") + ASK)
        assert client.read().status == 400


def test_a_header_that_does_not_come_in_time_closes_the_connection(start):
    proxy = start(POLICY % "300ms")
    started = time.monotonic()
    with proxy.connect() as silent, proxy.send(b"PROXY TCP4 ") as slow:
        assert silent.has_ended() and slow.has_ended()
    assert time.monotonic() - started >= 0.25


@pytest.mark.parametrize("begin", [b"", b"PROXY TCP4 "], ids=["silent", "half"])
def test_connections_without_a_whole_header_lock_nobody_out(start, begin):
    proxy = start("max: {connections: 4}\n" + POLICY % "1h")
    waiting = [proxy.send(begin) for _ in range(4)]
    until(lambda: ask(proxy, v1("192.0.2.2"), request("GET", "/free/")).status == 200, "a place for another client", 10)
    assert waiting[0].has_ended()
    for client in waiting:
        client.close()


def test_a_header_that_is_late_is_still_taken_while_there_is_room(start):
    proxy = start("max: {connections: 4}\n" + POLICY % "1h")
    with proxy.send(v1("192.0.2.1")[:10]) as client:
        time.sleep(1.1)
        client.send(v1("192.0.2.1")[10:] + ASK)
        assert client.read().status == 204


def test_the_time_of_a_header_does_not_begin_anew_with_each_byte(start):
    proxy = start(POLICY % "500ms")
    started = time.monotonic()
    with proxy.send(SIGNATURE + b"\x21\x00\x0f\x00") as client:
        while client.is_quiet(0.05):
            client.send(b"x")
            assert time.monotonic() - started < 10
        assert client.has_ended()


def test_a_stop_does_not_wait_for_who_sends_a_header_and_no_more(start):
    proxy = start(POLICY % "10s")
    with proxy.send(v1("192.0.2.1")[:10]) as client:
        proxy.signal()
        until(lambda: "msg=draining" in proxy.stderr(), "the proxy to drain")
        client.send(v1("192.0.2.1")[10:])
        assert client.has_ended()
    assert proxy.wait() == 0 and "drain timed out" not in proxy.stderr()


def test_a_stop_waits_for_a_header_that_is_on_its_way(start):
    """For a second, which a machine that stalls may take."""
    def is_served():
        proxy = start(POLICY % "10s")
        with proxy.send(v1("192.0.2.1")[:10]) as client:
            proxy.signal()
            until(lambda: "msg=draining" in proxy.stderr(), "the proxy to drain")
            client.send(v1("192.0.2.1")[10:] + ASK)
            try:
                answer = client.read()
            except Cut:
                answer = None
            assert client.has_ended()
        assert proxy.wait() == 0
        return answer is not None and answer.status == 204

    holds_unless_it_stalls(is_served, allowed_s=0.5)
