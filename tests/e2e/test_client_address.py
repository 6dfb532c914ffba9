"""Whose address a request is counted by: the peer's, unless a trusted proxy says otherwise."""

import socket

import pytest

from harness import program
from harness.admin import Admin, addresses
from harness.message import request
from harness.wait import until

POLICY = """
trusted_proxies: [127.0.0.1, 10.0.0.0/8, "2001:db8:ffff::/48"]
limits: {once: {key: client.ip, rate: 1/day}}
routes: [{limits: [once], respond: {status: 204}}]
"""

has_ipv6_loopback = True
try:
    socket.create_server(("::1", 0), family=socket.AF_INET6).close()
except OSError:
    has_ipv6_loopback = False


def forwarded_for(*lines):
    return [("X-Forwarded-For", line) for line in lines]


@pytest.fixture(name="proxy")
def proxy_behind_a_trusted_one(start):
    return start(POLICY)


def test_an_untrusted_peer_cannot_choose_its_address(proxy):
    ask = lambda fields: proxy.ask(source="127.0.0.2", fields=fields).status
    assert ask([]) == 204
    assert ask(forwarded_for("192.0.2.1")) == 429
    assert ask([("Forwarded", "for=192.0.2.2")]) == 429
    assert ask([("X-Real-IP", "192.0.2.3")]) == 429


def test_nobody_is_trusted_unless_the_policy_says_so(start):
    proxy = start(POLICY.replace("trusted_proxies", "# trusted_proxies"))
    assert proxy.ask(fields=forwarded_for("192.0.2.1")).status == 204
    assert proxy.ask(fields=forwarded_for("192.0.2.2")).status == 429


@pytest.mark.parametrize("first, same", [
    (["192.0.2.1"], ["198.51.100.1, 192.0.2.1"]),
    (["192.0.2.1"], ["garbage, 192.0.2.1"]),
    (["192.0.2.1"], ["198.51.100.1", "192.0.2.1"]),
    (["192.0.2.1"], ["192.0.2.1, 10.1.2.3, 127.0.0.1"]),
    (["192.0.2.1"], ["192.0.2.1", "10.1.2.3,", ", 127.0.0.1"]),
    (["192.0.2.1"], ["::ffff:192.0.2.1"]),
    (["192.0.2.1"], ["[::ffff:c000:201]:4711"]),
    (["192.0.2.1"], ["192.0.2.1:4711"]),
    (["2001:db8::1"], ["2001:db8:0:0:ffff::2"]),
    (["2001:db8::1"], ["2001:db8::7, 2001:db8:ffff::9"]),
], ids=["left_of_it", "garbage_left_of_it", "several_lines", "trusted_to_the_right",
        "empty_members", "mapped_ipv4", "mapped_ipv4_in_hex_with_a_port", "with_a_port",
        "ipv6_by_64", "ipv6_behind_a_trusted_one"])
def test_the_right_most_untrusted_address_counts(proxy, first, same):
    assert proxy.ask(fields=forwarded_for(*first)).status == 204
    assert proxy.ask(fields=forwarded_for(*same)).status == 429
    assert proxy.ask(fields=forwarded_for("203.0.113.9")).status == 204
    assert proxy.ask(fields=forwarded_for("2001:db8:0:1::1")).status == 204


@pytest.mark.parametrize("lines", [
    ["nonsense"], ["192.0.2.7, nonsense"], ["192.0.2.7, unknown, 10.0.0.1"],
    [", ".join(["10.0.0.1"] * 40)], ["192.0.2.300"], ["192.0.2.7\", 1"]],
    ids=["alone", "right_of_an_address", "between", "too_many_hops", "no_address", "a_quote"])
def test_what_is_not_an_address_makes_the_peer_count(proxy, lines):
    assert proxy.ask().status == 204
    assert proxy.ask(fields=forwarded_for(*lines)).status == 429


SPELLINGS = {
    "192.0.2.1": [
        ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", " 192.0.2.1 "),
        ("X-Forwarded-For", "192.0.2.1:1"), ("X-Forwarded-For", "192.0.2.1:65535"),
        ("X-Forwarded-For", "::ffff:192.0.2.1"), ("X-Forwarded-For", "::FFFF:192.0.2.1"),
        ("X-Forwarded-For", "::ffff:c000:201"), ("X-Forwarded-For", "::ffff:C000:0201"),
        ("X-Forwarded-For", "0:0:0:0:0:ffff:192.0.2.1"),
        ("X-Forwarded-For", "0000:0000:0000:0000:0000:ffff:c000:0201"),
        ("X-Forwarded-For", "[::ffff:192.0.2.1]"), ("X-Forwarded-For", "[::ffff:c000:201]:443"),
        ("X-Forwarded-For", "::ffff:192.0.2.1%eth0"), ("X-Forwarded-For", "64:ff9b::192.0.2.1"),
        ("X-Forwarded-For", "64:ff9b::c000:201"), ("X-Forwarded-For", "[64:FF9B::c000:201]:80"),
        ("X-Forwarded-For", "junk, 10.0.0.1,192.0.2.1,, 10.0.0.1"),
        ("X-Forwarded-For", '"unclosed, 192.0.2.1'), ("X-Forwarded-For", "9.9.9.9," * 50 + "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"), ("Forwarded", 'for="192.0.2.1"'),
        ("Forwarded", 'FOR="192.0.2.1:80"'), ("Forwarded", 'for="192.0.2.1:_hidden"'),
        ("Forwarded", 'for="[::ffff:192.0.2.1]:80"'), ("Forwarded", "by=_x;proto=http;for=192.0.2.1"),
        ("Forwarded", 'for="[2001:db8::1]", for=192.0.2.1;host=a, for=10.0.0.1'),
        ("Forwarded", 'host="a;for=6.6.6.6,";for=192.0.2.1'),
        ("Forwarded", 'for="unclosed, for=192.0.2.1'),
    ],
    "2001:db8:0:7::1": [
        ("X-Forwarded-For", "2001:db8:0:7::1"), ("X-Forwarded-For", "2001:DB8:0:7::1"),
        ("X-Forwarded-For", "2001:0db8:0000:0007:0000:0000:0000:0001"),
        ("X-Forwarded-For", "2001:db8:0:7:0:0:0:1"), ("X-Forwarded-For", "[2001:db8:0:7::1]"),
        ("X-Forwarded-For", "[2001:db8:0:7::1]:443"), ("X-Forwarded-For", "2001:db8:0:7::1%3"),
        ("X-Forwarded-For", "[2001:db8:0:7::1%25eth0]:1"),
        ("X-Forwarded-For", "2001:db8:0:7::0.0.0.1"), ("X-Forwarded-For", "2001:db8:0:7:ffff::"),
        ("Forwarded", 'for="[2001:db8:0:7::1]"'), ("Forwarded", 'for="[2001:DB8:0:7::1]:4711"'),
        ("Forwarded", 'for="[2001:db8:0:7::1]:_x"'), ("Forwarded", 'for="2001:db8:0:7::1"'),
    ],
}


@pytest.mark.parametrize("address", SPELLINGS)
def test_every_spelling_of_an_address_is_one_key(proxy, address):
    assert proxy.ask(fields=forwarded_for(address)).status == 204
    with proxy.connect() as client:
        wrong = [spelling for spelling in SPELLINGS[address]
                 if client.ask(fields=[spelling]).status != 429]
    assert not wrong


def test_what_a_client_sends_before_what_a_proxy_appends_never_makes_the_peer_count(proxy):
    """The peer may be exempt, or anybody's: who could choose it would escape the limit."""
    assert proxy.ask(fields=forwarded_for("192.0.2.1")).status == 204
    for line in ("x" * 3000, ",".join(["1.2.3.4"] * 1000), '"', '"\\', ",,,,", "unknown", "\xff", "'"):
        assert proxy.ask(fields=forwarded_for(f"{line}, 192.0.2.1")).status == 429
        assert proxy.ask(fields=forwarded_for(line, "192.0.2.1, 10.0.0.1")).status == 429
        assert proxy.ask(fields=[("Forwarded", f"for={line}, for=192.0.2.1")]).status == 429
    assert proxy.ask().status == 204, "the peer itself has asked nothing yet"


def test_forwarded_is_read_where_there_is_no_x_forwarded_for(proxy):
    ask = lambda value: proxy.ask(fields={"Forwarded": value}).status
    assert ask('for=198.51.100.1;proto=http, For="192.0.2.1:47";host=a') == 204
    assert ask('for=192.0.2.1') == 429
    assert ask('for="[2001:db8::1]:80";by=x') == 204
    assert ask('for="[2001:db8::2]"') == 429
    assert proxy.ask(fields=[("Forwarded", "for=203.0.113.1"),
                             ("X-Forwarded-For", "192.0.2.1")]).status == 429


def test_the_whole_ipv6_address_counts_where_the_key_says_so(start):
    proxy = start(POLICY.replace("client.ip", "client.ip/128"))
    for address, status in (("2001:db8::1", 204), ("2001:db8::2", 204), ("2001:db8::1", 429)):
        assert proxy.ask(fields=forwarded_for(address)).status == status


@pytest.mark.skipif(not has_ipv6_loopback, reason="this machine has no IPv6 loopback")
def test_it_listens_on_ipv6_and_knows_peers_there(start):
    proxy = start('listen: "[::1]:0"\n' + POLICY)
    assert proxy.address[0] == "::1"
    assert [proxy.ask().status for _ in range(2)] == [204, 429]
    assert proxy.log_lines(2)[0]["client"] == "::1"


def test_it_listens_at_several_addresses(start):
    proxy = start("listen: [127.0.0.1:0, 127.0.0.1:0]\n" + POLICY)
    assert len(proxy.addresses) == 2 and proxy.addresses[0] != proxy.addresses[1]
    for proxy.address, status in zip(proxy.addresses, (204, 429)):
        assert proxy.ask().status == status


# --- fields of peers that are not trusted ---


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded"])
def test_a_field_of_a_peer_that_is_not_trusted_is_told_once_a_minute(start, name):
    proxy = start("""
        workers: 2
        admin: 127.0.0.1:0
        trusted_proxies: [127.0.0.9]
        limits: {a: {key: client.ip, rate: 100/day}}
        routes: [{limits: [a], respond: {status: 204}}]
    """)
    value = "for=192.0.2.1" if name == "Forwarded" else "192.0.2.1"
    assert proxy.ask(fields={name: value}, source="127.0.0.9").status == 204
    assert proxy.ask().status == 204
    assert "forwarded field ignored" not in proxy.stderr()
    for _ in range(5):
        assert proxy.ask(fields={name: value}, source="127.0.0.3").status == 204
    until(lambda: "forwarded field ignored" in proxy.stderr(), "the log to tell")
    page = Admin(addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    assert "\nsluice_forwarded_ignored_total 5\n" in page
    line, = [line for line in proxy.stderr().splitlines() if "forwarded field ignored" in line]
    assert f"peer=127.0.0.3 field={name} " in line and "trusted_proxies" in line
    told = program.command("explain", str(proxy.folder / "policy.yaml"), "GET", "/", "-H",
                           f"{name}: {value}", "--from", "127.0.0.3").stdout
    assert f"{name} is ignored: 127.0.0.3 is not one of trusted_proxies" in told
    assert "a proxy of yours" in told


def test_strangers_do_not_keep_a_near_proxy_out_of_the_log(start):
    proxy = start("""
        listen: {address: 127.0.0.1:0, proxy_protocol: true}
        trusted_proxies: [127.0.0.1]
        routes: [{respond: {status: 204}}]
    """)

    def told():
        return [line for line in proxy.stderr().splitlines() if "forwarded field ignored" in line]

    for peer in ["203.0.113.5", "2001:db8::1", "172.32.0.1", "10.1.2.3", "192.168.1.1"]:
        header = f"PROXY TCP{6 if ':' in peer else 4} {peer} {peer} 5000 80\r\n".encode()
        with proxy.send(header + request("GET", "/", {"X-Forwarded-For": "192.0.2.1"})) as client:
            assert client.read().status == 204
    until(lambda: len(told()) == 2, "the log to tell of one of each")
    stranger, near = told()
    assert "peer=203.0.113.5 " in stranger and "a client sent it itself, or a proxy that is not in" in stranger
    assert "peer=10.1.2.3 " in near and "if it is a proxy of yours, name it in trusted_proxies" in near


@pytest.mark.parametrize("peer, is_near", [
    ("10.255.0.1", True), ("172.31.0.1", True), ("192.168.0.1", True), ("127.0.0.2", True), ("fd00::1", True),
    ("fe80::1", True), ("::1", True), ("11.0.0.1", False), ("172.15.0.1", False), ("192.169.0.1", False),
    ("fe00::1", False), ("fec0::1", False), ("::2", False)])
def test_private_and_loopback_addresses_are_near(start, peer, is_near):
    proxy = start("""
        listen: {address: 127.0.0.1:0, proxy_protocol: true}
        trusted_proxies: [127.0.0.1]
        routes: [{respond: {status: 204}}]
    """)
    header = f"PROXY TCP{6 if ':' in peer else 4} {peer} {peer} 5000 80\r\n".encode()
    with proxy.send(header + request("GET", "/", {"X-Forwarded-For": "192.0.2.1"})) as client:
        assert client.read().status == 204
    until(lambda: "forwarded field ignored" in proxy.stderr(), "the log to tell")
    assert ("if it is a proxy of yours" in proxy.stderr()) == is_near
