"""Open connections of TLS clients when a reload changes certificates or the rules for clients."""

import ssl

import pytest

from harness.certificates import Authority, make_crl
from harness.http2 import Http2Client
from harness.reload import reload
from harness.secure_client import SecureClient, context_of, pair

ECHO = 'routes: [{respond: {status: 200, body: "%s"}}]\n'
REQUIRE = ", client: require, client_ca: %s"
OPTIONAL = ", client: optional, client_ca: %s"


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("one", "DNS:one.test,IP:127.0.0.1")
    authority.sign("two", "DNS:two.test,DNS:*.two.test")
    authority.sign("client", "DNS:client.test,URI:spiffe://test/client")
    return authority


def listening(authority, of_one, of_two):
    """The address of a listener with the certificates `one` and `two`, and the rules of each."""
    return (f"{{address: 127.0.0.1:0, tls: {{certificates: [{{{pair(authority, 'one')}{of_one}}}, "
            f"{{{pair(authority, 'two')}{of_two}}}]}}}}")


def test_a_reload_serves_new_certificates_and_keeps_connections(start, authority):
    def listen(name):
        return f"{{address: 127.0.0.1:0, tls: {{{pair(authority, name)}}}}}"

    unchecked = context_of(authority)
    unchecked.check_hostname = False
    proxy = start(f"listen: {listen('one')}\n" + ECHO % "one")
    with SecureClient(proxy, authority, context=unchecked) as old:
        assert old.ask(host="one.test").body == b"one"
        reload(proxy, ECHO % "two", listen("two"))
        assert old.ask(host="one.test").body == b"two"
        assert old.leaf_names() == ["one.test"]
        with SecureClient(proxy, authority, context=unchecked) as new:
            assert new.leaf_names()[0] == "two.test"
            assert new.ask(host="two.test").body == b"two"


def test_a_connection_leads_to_no_host_that_a_reload_protects(start, authority):
    """A host that was unknown when the connection began asks clients for certificates now."""
    one = f"{{{pair(authority, 'one')}}}"
    two = f"{{{pair(authority, 'two')}{REQUIRE % authority.certificate}}}"

    def listen(*entries):
        return f"{{address: 127.0.0.1:0, tls: {{certificates: [{', '.join(entries)}]}}}}"

    proxy = start(f"listen: {listen(one)}\n" + ECHO % "before")
    with SecureClient(proxy, authority) as old:
        assert old.ask(host="two.test").body == b"before"
        for _ in range(2):
            reload(proxy, ECHO % "after", listen(one, two))
        assert old.ask(host="one.test").body == b"after"
        assert old.ask(host="two.test").status == 421
    with SecureClient(proxy, authority, "two.test", context=context_of(authority, "client")) as old:
        assert old.ask(host="two.test").status == 200
        reload(proxy, ECHO % "open", listen(one))
        assert old.ask(host="two.test").body == b"open"  # it keeps what it has


def test_a_connection_ends_when_the_rules_for_its_certificate_change(start, authority, tmp_path):
    """Its certificate may have been revoked: the client shows it anew."""
    crl, key = tmp_path / "ca.crl", authority.folder / "ca.key"
    make_crl(crl, authority.certificate, key)
    listen = (f"{{address: 127.0.0.1:0, tls: {{certificates: [{{{pair(authority, 'one')}}}, "
              f"{{{pair(authority, 'two')}{REQUIRE % authority.certificate}, client_crl: {crl}}}]}}}}")
    proxy = start(f"listen: {listen}\n" + ECHO % "ok")
    context = context_of(authority, "client")
    of_two = context_of(authority, "client")
    of_two.set_alpn_protocols(["h2"])
    with (SecureClient(proxy, authority, "two.test", context=context) as shown,
          SecureClient(proxy, authority, "one.test", context=context) as other,
          SecureClient(proxy, authority, "two.test", context=of_two) as secure):
        streams = Http2Client(None, sock=secure.sock)
        reload(proxy, ECHO % "ok", listen)
        for _ in range(2):  # nothing has changed
            assert shown.ask(host="two.test").get("Connection") is None
            assert other.ask(host="one.test").get("Connection") is None
            assert streams.ask(scheme="https", authority="two.test").status == 200 and streams.goaway is None
        make_crl(crl, authority.certificate, key, [authority.folder / "client.pem"])
        reload(proxy, ECHO % "ok", listen)
        last = shown.ask(host="two.test")
        assert last.status == 200 and last.get("Connection") == "close" and shown.has_ended()
        assert other.ask(host="one.test").get("Connection") is None
        streams.pongs = False  # a client cannot put off the end
        frames = []
        streams.send = frames.append
        served, late = (streams.begin(scheme="https", authority="two.test") for _ in range(2))
        streams.sock.sendall(b"".join(frame.serialize() for frame in frames))  # in one: the first ends the connection
        assert streams.read_to_end() == "NO_ERROR" and streams.goaway[0] == served
        assert streams.answers[served].status == 200
        assert streams.answers[late].reset == "REFUSED_STREAM"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test", context=context) as client:
            client.ask(host="two.test")


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
@pytest.mark.parametrize("way", ["moves", "comes back", "is gone", "speaks plain text"])
def test_a_connection_ends_when_its_address_leaves(start, authority, tmp_path, way, protocol):
    """Its certificate would be judged by no rules any more; what new ones say of it, nobody knows."""
    crl, key = tmp_path / "ca.crl", authority.folder / "ca.key"
    make_crl(crl, authority.certificate, key)
    rules = f"{REQUIRE % authority.certificate}, client_crl: {crl}"
    listen = listening(authority, "", rules)
    proxy = start(f"listen: {listen}\n" + ECHO % "ok")
    context = context_of(authority, "client")
    context.set_alpn_protocols([protocol])
    with (SecureClient(proxy, authority, "two.test", context=context) as shown,
          SecureClient(proxy, authority, "one.test") as other):
        streams = Http2Client(None, sock=shown.sock) if protocol == "h2" else None
        assert other.ask(host="one.test").status == 200
        make_crl(crl, authority.certificate, key, [authority.folder / "client.pem"])
        if way == "moves":
            reload(proxy, ECHO % "ok", listen.replace("127.0.0.1", "0.0.0.0"))
        else:
            reload(proxy, ECHO % "ok", "127.0.0.1:0" if way == "speaks plain text" else "127.0.0.2:0")
        if way == "comes back":
            reload(proxy, ECHO % "ok", listen)
        if protocol == "h2":
            assert streams.ask(scheme="https", authority="two.test").status == 200
            assert streams.read_to_end() == "NO_ERROR"
        else:
            last = shown.ask(host="two.test")
            assert last.status == 200 and last.get("Connection") == "close" and shown.has_ended()
        for _ in range(2):  # it has shown none
            assert other.ask(host="one.test").get("Connection") is None


@pytest.mark.parametrize("before", ["", OPTIONAL], ids=["off", "optional"])
def test_a_connection_without_certificate_ends_when_one_is_required(start, authority, before):
    rules = before and before % authority.certificate
    proxy = start(f"listen: {listening(authority, '', rules)}\n" + ECHO % "ok")
    of_two = context_of(authority)
    of_two.set_alpn_protocols(["h2"])
    with (SecureClient(proxy, authority, "two.test") as shown,
          SecureClient(proxy, authority, "one.test") as other,
          SecureClient(proxy, authority, "two.test", context=of_two) as secure):
        streams = Http2Client(None, sock=secure.sock)
        assert shown.ask(host="two.test").get("Connection") is None
        assert other.ask(host="one.test").get("Connection") is None
        assert streams.ask(scheme="https", authority="two.test").status == 200
        reload(proxy, ECHO % "ok", listening(authority, "", REQUIRE % authority.certificate))
        last = shown.ask(host="two.test")
        assert last.status == 200 and last.get("Connection") == "close" and shown.has_ended()
        assert streams.ask(scheme="https", authority="two.test").status == 200
        assert streams.read_to_end() == "NO_ERROR"
        assert other.ask(host="one.test").get("Connection") is None
        assert other.ask(host="two.test").status == 421


def test_a_connection_ends_though_another_name_keeps_the_rules_of_its_certificate(
        start, authority, tmp_path):
    other_authority = Authority(tmp_path / "other")
    old = REQUIRE % authority.certificate
    new = REQUIRE % other_authority.certificate
    proxy = start(f"listen: {listening(authority, old, old)}\n" + ECHO % "ok")
    context = context_of(authority, "client")
    with (SecureClient(proxy, authority, "two.test", context=context) as shown,
          SecureClient(proxy, authority, "one.test", context=context) as other):
        assert shown.ask(host="two.test").get("Connection") is None
        assert other.ask(host="two.test").get("Connection") is None
        reload(proxy, ECHO % "ok", listening(authority, old, new))
        last = shown.ask(host="two.test")
        assert last.status == 200 and last.get("Connection") == "close" and shown.has_ended()
        assert other.ask(host="one.test").get("Connection") is None
        assert other.ask(host="two.test").status == 421
