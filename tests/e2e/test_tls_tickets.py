"""Sessions of TLS that are resumed: by several proxies with the same secrets, for as long as a ticket lives, and never
where other rules hold. The clocks of the proxies are set by the test."""

import ssl
import subprocess
import time

import pytest

from harness import program
from harness.certificates import Authority, dated, make_crl
from harness.client import Client
from harness.http2 import Http2Client
from harness.message import Reader
from harness.reload import reload
from harness.secure_client import SecureClient
from harness.wait import until
from harness.wall_clock import WallClock

HOUR_S = 3600
ECHO = "routes: [{respond: {status: 204}}]\n"


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tickets") / "ca")
    for name in ("one", "two", "client"):
        authority.sign(name, f"DNS:{name}.test")
    return authority


@pytest.fixture(name="clock")
def a_clock(tmp_path):
    return WallClock(tmp_path)


@pytest.fixture(name="secret")
def a_secret_file(tmp_path):
    def make(name, *secrets):
        path = tmp_path / name
        path.write_text("".join(secrets))
        path.chmod(0o600)
        return path
    return make


def new_secret():
    return program.command("secret").stdout


def listener(authority, more="", tickets="shared"):
    entries = ", ".join(f"{{cert: {authority.folder}/{name}.pem, key: {authority.folder}/{name}.key{rule}}}"
                        for name, rule in (("one", ""), ("two", more)))
    return f"{{address: 127.0.0.1:0, tls: {{tickets: {tickets}, certificates: [{entries}]}}}}"


def with_secrets(path):
    return f"tls_tickets: {{secret_file: {path}}}\n" + ECHO


def context_of(authority, name=None, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
    context.minimum_version = context.maximum_version = version
    if name is not None:
        context.load_cert_chain(authority.folder / f"{name}.pem", authority.folder / f"{name}.key")
    return context


def ask(proxy, context, session=None, name="one.test"):
    """Whether the session was resumed, and the one that the connection leaves."""
    with Client(proxy.address) as client:
        client.sock = context.wrap_socket(client.sock, server_hostname=name, session=session)
        client.reader = Reader(client.sock)
        assert client.ask(host=name).status == 204
        return client.sock.session_reused, client.sock.session


def test_proxies_with_the_same_secret_resume_for_two_hours(start, authority, clock, secret):
    path = secret("tickets", new_secret())
    policy = f"listen: {listener(authority)}\n" + with_secrets(path)
    clock.step((-clock.now() - 30) % HOUR_S)  # half a minute before the key changes
    first, second = (start(policy, env=clock.env) for _ in range(2))
    context = context_of(authority)
    resumed, session = ask(first, context)
    assert not resumed and session.has_ticket
    for step_s in (0, 60, HOUR_S, HOUR_S - 120):
        clock.step(step_s)
        for proxy in (second, first):
            assert ask(proxy, context, session)[0], (step_s, clock.offset_s)
    _, renewed = ask(second, context, session)
    clock.step(120)  # it is more than two hours old
    assert not ask(second, context, session)[0]
    assert ask(first, context, renewed)[0], "a resumed session has a ticket of its own"


def test_a_reload_and_a_renewal_keep_tickets(start, authority, clock, secret):
    path = secret("tickets", new_secret())
    policy = with_secrets(path)
    proxy = start(f"listen: {listener(authority)}\n" + policy, env=clock.env)
    context = context_of(authority)
    _, session = ask(proxy, context)
    reload(proxy, "max: {headers: 50}\n" + policy, listener(authority))
    assert ask(proxy, context, session)[0]
    authority.sign("one", "DNS:one.test")  # another key and another certificate
    reload(proxy, policy, listener(authority))
    assert ask(proxy, context)[0] is False
    assert ask(proxy, context, session)[0]
    proxy.stop()
    again = start(f"listen: {listener(authority)}\n" + policy, env=clock.env)
    assert ask(again, context, session)[0], "a restart keeps them too"


def test_the_first_secret_makes_tickets_and_all_open_them(start, authority, secret):
    old, new = new_secret(), new_secret()
    policies = [with_secrets(secret(name, *lines)) for name, lines in
                (("old", [old]), ("both", [new, old]), ("new", [new]))]
    with_old, with_both, with_new = (start(f"listen: {listener(authority)}\n" + policy) for policy in policies)
    context = context_of(authority)
    _, session = ask(with_old, context)
    assert ask(with_both, context, session)[0]
    assert not ask(with_new, context, session)[0], "another secret opens nothing"
    _, session = ask(with_both, context)
    assert ask(with_new, context, session)[0]
    assert not ask(with_old, context, session)[0]


def test_other_names_and_tls_1_2_share_nothing(start, authority, secret):
    proxy = start(f"listen: {listener(authority)}\n" + with_secrets(secret("tickets", new_secret())))
    context = context_of(authority)
    _, session = ask(proxy, context)
    assert ask(proxy, context, session)[0]
    assert not ask(proxy, context, session, "two.test")[0]
    context = context_of(authority, version=ssl.TLSVersion.TLSv1_2)
    _, session = ask(proxy, context)
    assert not ask(proxy, context, session)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_not_resumed_where_other_rules_for_clients_hold(start, authority, version):
    """CVE-2025-23419: a session of the open host would give a way to the one that asks for certificates."""
    rule = f", client: require, client_ca: {authority.certificate}"
    proxy = start(f"listen: {listener(authority, rule, 'process')}\n" + ECHO)
    known, stranger = context_of(authority, "client", version), context_of(authority, None, version)
    _, open_session = ask(proxy, known)
    assert ask(proxy, known, open_session)[0]
    assert not ask(proxy, known, open_session, "two.test")[0]
    _, session = ask(proxy, known, None, "two.test")
    assert ask(proxy, known, session, "two.test")[0]
    assert not ask(proxy, known, session, "one.test")[0]
    _, open_session = ask(proxy, stranger)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(proxy, stranger, open_session, "two.test")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_ends_with_the_certificate_of_its_client(start, authority, clock, tmp_path, version):
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(clock.now() + minutes * 60)) for minutes in (-60, 40))
    certificate, key = dated(tmp_path, "short", "DNS:short.test", begin, end)
    rule = f", client: require, client_ca: {certificate}"  # it is its own authority
    proxy = start(f"listen: {listener(authority, rule, 'process')}\n" + ECHO, env=clock.env)
    context = context_of(authority, None, version)
    context.load_cert_chain(certificate, key)
    _, session = ask(proxy, context, None, "two.test")
    clock.step(35 * 60)
    assert ask(proxy, context, session, "two.test")[0]
    clock.step(10 * 60)
    with pytest.raises((ssl.SSLError, ConnectionError)):  # a full handshake, whose certificate has expired
        ask(proxy, context, session, "two.test")
    until(lambda: 'err="certificate has expired"' in proxy.stderr(), "the reason in the log")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_ends_with_an_authority_of_its_client(start, authority, clock, tmp_path, version):
    """The certificate between that of the client and the one that is trusted, or the trusted one; tickets have neither."""
    short = Authority(tmp_path / "short", days=1)
    short.sign("client", "DNS:client.test")
    subprocess.run(["openssl", "x509", "-in", short.folder / "client.csr", "-req", "-CA", short.certificate, "-CAkey", short.key,
                    "-days", "9", "-out", short.folder / "client.pem"], check=True, capture_output=True)
    rule = f", client: require, client_ca: {short.certificate}"
    proxy = start(f"listen: {listener(authority, rule, 'process')}\n" + ECHO, env=clock.env)
    context = context_of(authority, None, version)
    context.load_cert_chain(short.folder / "client.pem", short.folder / "client.key")
    clock.step(23.5 * HOUR_S)
    _, session = ask(proxy, context, None, "two.test")
    resumed, renewed = ask(proxy, context, session, "two.test")
    assert resumed
    clock.step(HOUR_S)
    for kept in (session, renewed):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(proxy, context, kept, "two.test")


def test_a_session_ends_with_the_list_of_revoked_certificates(start, authority, clock, tmp_path):
    crl = tmp_path / "ca.crl"
    make_crl(crl, authority.certificate, authority.key)
    rule = f", client: require, client_ca: {authority.certificate}, client_crl: {crl}"
    proxy = start(f"listen: {listener(authority, rule, 'process')}\n" + ECHO, env=clock.env)
    context = context_of(authority, "client")
    clock.step(23.5 * HOUR_S)
    _, session = ask(proxy, context, None, "two.test")
    assert ask(proxy, context, session, "two.test")[0]
    clock.step(HOUR_S)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(proxy, context, session, "two.test")


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_an_open_connection_ends_with_the_certificate_of_its_client(start, authority, clock, tmp_path, protocol, resumes):
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(clock.now() + minutes * 60)) for minutes in (-60, 40))
    certificate, key = dated(tmp_path, "short", "DNS:short.test", begin, end)
    rule = f", client: require, client_ca: {certificate}"
    proxy = start(f"listen: {listener(authority, rule, 'process')}\n" + ECHO, env=clock.env)
    context = context_of(authority)
    context.load_cert_chain(certificate, key)
    session = ask(proxy, context, None, "two.test")[1] if resumes else None
    context.set_alpn_protocols([protocol])
    with SecureClient(proxy, authority, "two.test", context=context, session=session) as client:
        assert client.sock.session_reused == resumes
        clock.step(35 * 60)
        if protocol == "h2":
            streams = Http2Client(None, sock=client.sock)
            assert streams.ask(scheme="https", authority="two.test").status == 204 and streams.goaway is None
            clock.step(10 * 60)
            assert streams.ask(scheme="https", authority="two.test").status == 204
            assert streams.read_to_end() == "NO_ERROR"
        else:
            assert client.ask(host="two.test").get("Connection") is None
            clock.step(10 * 60)
            last = client.ask(host="two.test")
            assert last.status == 204 and last.get("Connection") == "close" and client.has_ended()


def test_a_session_ends_with_the_rules_that_it_was_made_under(start, authority, tmp_path):
    """A reload with another authority for clients: the ticket of before leads nowhere."""
    other = Authority(tmp_path / "other")
    rules = [f", client: optional, client_ca: {one.certificate}" for one in (authority, other)]
    proxy = start(f"listen: {listener(authority, rules[0], 'process')}\n" + ECHO)
    context = context_of(authority, "client")
    _, session = ask(proxy, context, None, "two.test")
    assert ask(proxy, context, session, "two.test")[0]
    reload(proxy, ECHO, listener(authority, rules[1], "process"))
    with pytest.raises((ssl.SSLError, ConnectionError)):  # a full handshake, whose certificate does not verify
        ask(proxy, context, session, "two.test")


PSK_MODES_DHE = bytes.fromhex("002d00020101")  # psk_key_exchange_modes: psk_dhe_ke
PSK_MODES_ONLY = bytes.fromhex("002d00020100")  # psk_ke: without a new key exchange
SERVER_HELLO, PRE_SHARED_KEY = 2, 0x0029


def read_exactly(sock, n):
    data = b""
    while len(data) < n:
        data += sock.recv(n - len(data)) or pytest.fail("the proxy closed")
    return data


def server_hello(proxy, context, session, change):
    """The numbers of the extensions that answer a ClientHello with @session."""
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="one.test", session=session)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = sent.read()
    assert hello.count(PSK_MODES_DHE) == 1
    with Client(proxy.address) as raw:
        raw.sock.sendall(change(hello))
        kind, *_, high, low = read_exactly(raw.sock, 5)
        answer = read_exactly(raw.sock, high << 8 | low)
    assert (kind, answer[0]) == (22, SERVER_HELLO)
    at = 4 + 2 + 32 + 1 + answer[38] + 2 + 1  # behind the random, the session's id, cipher and compression
    end = at + 2 + int.from_bytes(answer[at:at + 2], "big")
    at, found = at + 2, []
    while at < end:
        found.append(int.from_bytes(answer[at:at + 2], "big"))
        at += 4 + int.from_bytes(answer[at + 2:at + 4], "big")
    return found


def test_a_session_is_never_resumed_without_a_new_key_exchange(start, authority, secret):
    """So a secret that is stolen later does not open what was said over resumed sessions."""
    proxy = start(f"listen: {listener(authority)}\n" + with_secrets(secret("tickets", new_secret())))
    context = context_of(authority)
    _, session = ask(proxy, context)
    assert PRE_SHARED_KEY in server_hello(proxy, context, session, lambda hello: hello)
    without = server_hello(proxy, context, session, lambda hello: hello.replace(PSK_MODES_DHE, PSK_MODES_ONLY))
    assert without and PRE_SHARED_KEY not in without
