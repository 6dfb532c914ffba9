"""TLS to clients: handshakes, names, client certificates, tickets, and what ends them."""

import base64
import re
import select
import signal
import socket
import ssl
import subprocess

import pytest

from harness import message
from harness.certificates import Authority, make_crl
from harness.client import Client
from harness.http2 import Http2Client
from harness.message import Cut, request
from harness.openssl import CONTENT, HANDSHAKE, TLS_1_2, TLS_1_3, RecordClient
from harness.reload import reload
from harness.secure_client import SecureClient, context_of, pair
from harness.upstream import answer
from harness.wait import until

ECHO = 'routes: [{respond: {status: 200, body: "%s"}}]\n'


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("one", "DNS:one.test,IP:127.0.0.1")
    authority.sign("two", "DNS:two.test,DNS:*.two.test")
    authority.sign("client", "DNS:client.test,URI:spiffe://test/client")
    return authority


def listening(authority, more="", top="", listener=""):
    """A listener with the certificates `one` and `two`."""
    return (f"listen: {{address: 127.0.0.1:0{listener}, tls: {{certificates: "
            f"[{{{pair(authority, 'one')}}}, {{{pair(authority, 'two')}{more}}}]{top}}}}}\n")


def http2_client(proxy, authority, name):
    context = context_of(authority)
    context.set_alpn_protocols(["h2"])
    sock = context.wrap_socket(socket.create_connection(proxy.address, timeout=30), server_hostname=name)
    return Http2Client(None, sock=sock)


def failures(proxy):
    """The reasons of handshakes that failed, as the log has them."""
    return re.findall(r'msg="TLS handshake failed" \S+ reason=(\w+)', proxy.stderr())


# --- who is served ---


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_served_and_logged(start, authority, version):
    proxy = start(listening(authority) + ECHO % "ok")
    with SecureClient(proxy, authority, context=context_of(authority, version=version)) as client:
        for _ in range(3):
            assert client.ask(host="one.test").body == b"ok"
    for line in proxy.log_lines(3):
        assert line["tls"] == version.name[-3:].replace("_", ".")
        assert line["sni"] == "one.test" and "alpn" not in line and "resumed" not in line


def test_curl_is_served(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    for words in ([], ["--tls-max", "1.2"], ["--http1.0"], ["--tlsv1.3", "--tls-max", "1.3"]):
        run = subprocess.run(["curl", "-sS", "--cacert", authority.certificate, *words,
                              f"https://127.0.0.1:{proxy.port}/"], capture_output=True, text=True, check=False)
        assert (run.stdout, run.stderr) == ("ok", "")


def test_a_version_below_1_2_is_refused(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-tls1_1",
                          "-cipher", "ALL:@SECLEVEL=0"], input=b"", capture_output=True, check=False)
    assert run.returncode != 0 and b"protocol version" in run.stderr
    until(lambda: failures(proxy) == ["version"], "the failure in the log")


def test_the_upstream_is_told_https(start, start_upstream, authority):
    upstream = start_upstream()
    proxy = start(listening(authority) + f"upstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        client.ask(host="one.test")
    told = upstream.requests[0]
    assert told.get("X-Forwarded-Proto") == "https"
    assert told.get("Forwarded").endswith(";proto=https")


def test_plain_http_gets_a_400_in_plain_text(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    response = proxy.ask()
    assert response.status == 400 and b"https" in response.body
    until(lambda: failures(proxy) == ["plain_text"], "the failure in the log")


# --- names ---


def test_the_name_chooses_the_certificate(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    for name, wanted in (("one.test", "one.test"), ("two.test", "two.test"), ("a.two.test", "two.test")):
        with SecureClient(proxy, authority, name) as client:
            assert client.leaf_names()[0] == wanted
    unchecked = context_of(authority)
    unchecked.check_hostname = False
    for name in ("other.test", "a.b.two.test", None):
        with SecureClient(proxy, authority, name, context=unchecked) as client:
            assert client.leaf_names()[0] == "one.test"


@pytest.mark.parametrize("unknown", ["default", "refuse"])
def test_an_address_as_the_name_is_no_name(start, authority, unknown):
    """RFC 6066 has names alone, but some clients send the host of their URL whatever it is."""
    proxy = start(listening(authority, top=f", unknown_name: {unknown}") + ECHO % "ok")
    for options in ([], ["-groups", "P-384:X25519"], ["-tls1_2"]):
        ended = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "127.0.0.1",
                                "-CAfile", authority.certificate, "-verify_return_error", *options],
                               input="", capture_output=True, text=True, timeout=20, check=False)
        assert ended.returncode == 0 and "Verify return code: 0 (ok)" in ended.stdout, ended.stderr


def test_an_unknown_name_can_be_refused(start, authority):
    proxy = start(listening(authority, top=", unknown_name: refuse") + ECHO % "ok")
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        SecureClient(proxy, authority, "other.test")
    with SecureClient(proxy, authority, "two.test") as client:
        assert client.ask(host="two.test").status == 200


# --- client certificates ---

REQUIRE = ", client: require, client_ca: %s"


def test_a_certificate_can_be_required_of_clients(start, authority, tmp_path):
    proxy = start(listening(authority, REQUIRE % authority.certificate) + ECHO % "ok")
    with SecureClient(proxy, authority, "two.test", context=context_of(authority, "client")) as client:
        assert client.ask(host="two.test").status == 200
    with SecureClient(proxy, authority, "one.test") as client:
        assert client.ask(host="one.test").status == 200
        # The name of a connection without a certificate gives no way to a host that requires one.
        for host in ("two.test", "TWO.test.", "two.test:443", "a.two.test"):
            with SecureClient(proxy, authority, "one.test") as other:
                assert other.ask(host=host).status == 421, host
        assert client.ask(host="unknown.test").status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test") as client:
            client.ask(host="two.test")
    stranger = Authority(tmp_path / "stranger")
    stranger.sign("client", "DNS:client.test")
    context = context_of(authority)
    context.load_cert_chain(stranger.folder / "client.pem", stranger.folder / "client.key")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test", context=context) as client:
            client.ask(host="two.test")
    found = [line for line in proxy.stderr().splitlines() if "TLS handshake failed" in line]
    assert "reason=no_certificate" in found[0]


def test_a_certificate_that_fits_into_no_ticket_is_no_alert_of_the_client(start, authority):
    authority.sign("large", ",".join(f"DNS:host-number-{i:06d}.example.test" for i in range(2000)))
    proxy = start(listening(authority, REQUIRE % authority.certificate) + ECHO % "ok")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test", context=context_of(authority, "large")) as client:
            client.ask(host="two.test")
    until(lambda: failures(proxy) == ["protocol_error"], "the failure in the log")


def test_a_revoked_certificate_is_refused(start, authority, tmp_path):
    authority.sign("revoked", "DNS:client.test")
    make_crl(tmp_path / "ca.crl", authority.certificate, authority.folder / "ca.key",
             [authority.folder / "revoked.pem"])
    crl = f", client_crl: {tmp_path}/ca.crl"
    proxy = start(listening(authority, REQUIRE % authority.certificate + crl) + ECHO % "ok")
    with SecureClient(proxy, authority, "two.test", context=context_of(authority, "client")) as client:
        assert client.ask(host="two.test").status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test", context=context_of(authority, "revoked")) as client:
            client.ask(host="two.test")
    until(lambda: failures(proxy) == ["bad_certificate"], "the failure in the log")
    assert 'err="certificate revoked"' in proxy.stderr()


def test_a_revoked_authority_is_refused_with_all_that_it_issued(start, authority, tmp_path):
    """Its list alone is required: that of the root counts where there is one."""
    authority.sign("middle", "DNS:middle.test", "basicConstraints=critical,CA:true\nkeyUsage=keyCertSign,cRLSign\n")
    (tmp_path / "middle").mkdir()
    middle = authority.below("middle", tmp_path / "middle")
    middle.sign("client", "DNS:client.test")
    authorities, lists = tmp_path / "cas.pem", tmp_path / "lists.pem"
    authorities.write_bytes(authority.certificate.read_bytes() + middle.certificate.read_bytes())
    of_root, of_middle = tmp_path / "root.crl", tmp_path / "middle.crl"
    make_crl(of_middle, middle.certificate, middle.key)
    context = context_of(authority)
    context.load_cert_chain(middle.folder / "client.pem", middle.folder / "client.key")

    def is_taken():
        try:
            with SecureClient(proxy, authority, "two.test", context=context) as client:
                return client.ask(host="two.test").status == 200
        except (ssl.SSLError, ConnectionError):
            return False

    for revoked in (None, [], [middle.certificate]):
        if revoked is not None:
            make_crl(of_root, authority.certificate, authority.folder / "ca.key", revoked)
        lists.write_bytes(of_middle.read_bytes() + (of_root.read_bytes() if revoked is not None else b""))
        proxy = start(listening(authority, REQUIRE % authorities + f", client_crl: {lists}") + ECHO % "ok")
        assert is_taken() == (not revoked), revoked


OPTIONAL = ", client: optional, client_ca: %s"


def test_a_certificate_that_does_not_verify_is_refused_where_none_is_required(start, authority, tmp_path):
    proxy = start(listening(authority, OPTIONAL % authority.certificate) + ECHO % "ok")
    with SecureClient(proxy, authority, "two.test") as client:
        assert client.ask(host="two.test").status == 200
    context = context_of(authority)
    context.load_cert_chain(*Authority(tmp_path / "stranger").sign("client", "DNS:client.test"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with SecureClient(proxy, authority, "two.test", context=context) as client:
            client.ask(host="two.test")
    until(lambda: failures(proxy) == ["bad_certificate"], "the failure in the log")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_chain_is_refused_by_its_length_before_it_is_read(start, authority, tmp_path, version):
    """A hundred certificates cost more than all else of a handshake."""
    proxy = start(listening(authority, OPTIONAL % authority.certificate) + ECHO % "ok")
    one = authority.certificate.read_text()
    for n, passes in ((10, True), (16 * 1024 // len(ssl.PEM_cert_to_DER_cert(one)) + 1, False)):
        chain = tmp_path / "chain.pem"
        chain.write_text((authority.folder / "client.pem").read_text() + n * one)
        context = context_of(authority)
        context.maximum_version = version
        context.load_cert_chain(chain, authority.folder / "client.key")
        if passes:
            with SecureClient(proxy, authority, "two.test", context=context) as client:
                assert client.ask(host="two.test").status == 200
            continue
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with SecureClient(proxy, authority, "two.test", context=context) as client:
                client.ask(host="two.test")
    until(lambda: "excessive message size" in proxy.stderr(), "the failure in the log")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_limits_count_by_facts_of_the_certificate(start, start_upstream, authority, version):
    """Each source has a counter of its own for each client; a resumed session has the same client."""
    upstream = start_upstream()
    for source in ("client.cert", "client.cert.dns", "client.cert.uri", "client.cert.cn"):
        proxy = start(listening(authority, OPTIONAL % authority.certificate) +
                      f"limits: {{a: {{key: {source}, rate: 2/hour, algorithm: fixed_window, missing: deny}}}}\n"
                      f"routes: [{{limits: a, upstream: http://127.0.0.1:{upstream.port}}}]\n")
        for name in ("client", "one"):
            wanted = 403 if name == "one" and source == "client.cert.uri" else 200  # it has no such name
            context = context_of(authority, name, version)
            session = None
            for status in [wanted, wanted, 403 if wanted == 403 else 429]:
                with SecureClient(proxy, authority, "two.test", context=context, session=session) as client:
                    assert client.sock.session_reused == (session is not None)
                    assert client.ask(host="two.test").status == status, (source, name)
                    session = client.sock.session
        with SecureClient(proxy, authority, "two.test") as client:
            assert client.ask(host="two.test").status == 403
        resumed = [line for line in proxy.log_lines(7) if line.get("resumed") == "yes"]
        assert len(resumed) == 4, source


def test_routes_match_the_scheme_and_the_certificate(start, authority):
    fingerprint = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", authority.folder / "two.pem"],
        capture_output=True, text=True, check=True).stdout.strip().partition("=")[2]
    listen = listening(authority, OPTIONAL % authority.certificate).replace(
        "listen: ", "listen: [127.0.0.1:0, ").rstrip() + "]\n"
    routes = (("uri", "client_cert: {uri: spiffe://test/client, dns: ['*.test']}"),
              ("other-uri", "client_cert: {uri: spiffe://test/clienT}"),
              ("fingerprint", "client_cert: {fingerprint: '%s'}" % fingerprint),
              ("dns", "client_cert: {dns: [ONE.test, '*.one.test']}"),
              ("certificate", "client_cert: true"), ("https", "scheme: https"), ("http", "scheme: http"))
    proxy = start(listen + "routes:\n" + "".join(
        "  - {name: %s, match: {%s}, respond: {status: 200, body: %s}}\n" % (name, match, name)
        for name, match in routes))
    assert Client(proxy.addresses[0]).ask().body == b"http"
    proxy.address = proxy.addresses[1]
    authority.sign("nobody", "IP:127.0.0.1")
    for name, wanted in (("client", b"uri"), ("two", b"fingerprint"), ("one", b"dns"), ("nobody", b"certificate"),
                         (None, b"https")):
        with SecureClient(proxy, authority, "two.test", context=context_of(authority, name)) as client:
            assert client.ask(host="two.test").body == wanted


ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def element(der, at):
    """The tag, the content and the end of the element of DER at @at."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7f
        length = int.from_bytes(der[at + 2:start], "big")
    return der[at], der[start:start + length], start + length


def encoded(tag, content):
    length = len(content).to_bytes(2, "big").lstrip(b"\0")
    return bytes([tag]) + (b"" if len(content) < 128 else bytes([0x80 | len(length)])) + length + content


def with_other_signature(pem):
    """A certificate that ECDSA signed, with n - s for s: the signature holds, and needs no key."""
    der = ssl.PEM_cert_to_DER_cert(pem)
    content = element(der, 0)[1]
    algorithm = element(content, element(content, 0)[2])
    bits = element(content, algorithm[2])
    numbers = element(bits[1], 1)[1]
    r = element(numbers, 0)
    s = ORDER - int.from_bytes(element(numbers, r[2])[1], "big")
    number = s.to_bytes(33, "big").lstrip(b"\0")
    number = b"\0" * (number[0] >> 7) + number
    signature = encoded(0x30, numbers[:r[2]] + encoded(2, number))
    return ssl.DER_cert_to_PEM_cert(encoded(0x30, content[:algorithm[2]] + encoded(3, b"\0" + signature)))


def test_a_certificate_with_the_other_signature_of_ecdsa_is_the_same_one(start, authority, tmp_path):
    def openssl(*words):
        return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, text=True).stdout
    key, ca, ours, theirs = (tmp_path / name for name in ("a.key", "ca.pem", "ours.pem", "theirs.pem"))
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    openssl("req", "-x509", "-new", "-key", key, "-days", 2, "-subj", "/CN=ca", "-out", ca)
    openssl("req", "-new", "-key", key, "-subj", "/CN=bob", "-out", tmp_path / "a.csr")
    openssl("x509", "-req", "-in", tmp_path / "a.csr", "-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", 2,
            "-out", ours)
    theirs.write_text(with_other_signature(ours.read_text()))
    listed = openssl("x509", "-noout", "-fingerprint", "-sha256", "-in", ours).strip().partition("=")[2]
    other = openssl("x509", "-noout", "-fingerprint", "-sha256", "-in", theirs).strip().partition("=")[2]
    assert listed != other
    proxy = start(listening(authority, f", client: require, client_ca: {ca}") +
                  "limits: {few: {key: client.cert, rate: 2/day, algorithm: fixed_window, align: first}}\nroutes:\n" +
                  "".join(f"  - {{match: {{path: {path}, client_cert: {{fingerprint: '{fingerprint}'}}}}, "
                          "respond: {status: 403}}\n" for path, fingerprint in (("/listed", listed), ("/other", other))) +
                  "  - {limits: few, respond: {status: 200}}\n")
    statuses = []
    for certificate in (ours, theirs, ours, theirs):
        context = context_of(authority)
        context.load_cert_chain(certificate, key)
        with SecureClient(proxy, authority, "two.test", context=context) as client:
            assert [client.ask(path=path, host="two.test").status for path in ("/listed", "/other")] == [403, 403]
            statuses.append(client.ask(host="two.test").status)
    assert statuses == [200, 200, 429, 429]


FORGED = [("Client-Cert", ":Zm9yZ2Vk:"), ("client-cert-chain", ":Zm9yZ2Vk:"), ("Early-Data", "1"), ("X-Kept", "1")]


def test_the_upstream_gets_the_certificate_and_no_forged_one(start, start_upstream, authority):
    upstream = start_upstream()
    proxy = start(listening(authority, OPTIONAL % authority.certificate) + "trusted_proxies: [127.0.0.1]\n"
                  f"upstream: http://127.0.0.1:{upstream.port}\n")
    pem = (authority.folder / "client.pem").read_text(encoding="ascii")
    der = base64.b64encode(ssl.PEM_cert_to_DER_cert(pem[:pem.index("-----END") + 26].strip() + "\n")).decode()
    for name, wanted in (("client", f":{der}:"), (None, None)):
        context = context_of(authority, name)
        with SecureClient(proxy, authority, "two.test", context=context) as client:
            assert client.ask(fields=FORGED, host="two.test").status == 200
            assert client.ask(fields=[("Client_Cert", ":Zm9yZ2Vk:")], host="two.test").status == 400
        told = upstream.requests[-1]
        assert told.get("Client-Cert") == wanted
        assert told.get("Client-Cert-Chain") is None and told.get("Early-Data") is None
        assert told.get("X-Kept") == "1"


def test_plain_http_brings_no_certificate(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"listen: 127.0.0.1:0\nupstream: http://127.0.0.1:{upstream.port}\n")
    assert proxy.ask(fields=FORGED).status == 200
    told = upstream.requests[0]
    assert [told.get(name) for name, _ in FORGED] == [None, None, None, "1"]


def test_an_unknown_host_is_no_way_around_the_first_entry(start, authority):
    """It serves clients that name nobody, or an unknown server; here it asks them for a certificate."""
    rule = REQUIRE % authority.certificate
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{certificates: [{{{pair(authority, 'one')}{rule}}}, "
                  f"{{{pair(authority, 'two')}}}]}}}}\n" + ECHO % "ok")
    with SecureClient(proxy, authority, "two.test") as client:
        assert client.ask(host="a.two.test").status == 200
    for host in ("one.test", "unknown.test", "127.0.0.1"):
        with SecureClient(proxy, authority, "two.test") as client:
            assert client.ask(host="two.test").status == 200
            assert client.ask(host=host).status == 421, host  # also as a second request
    with SecureClient(proxy, authority, "two.test") as client:
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert client.read().status == 421
    with http2_client(proxy, authority, "two.test") as client:
        assert client.ask(scheme="https", authority="two.test").status == 200
        for host in ("one.test", "unknown.test", "127.0.0.1"):
            assert client.ask(scheme="https", authority=host).status == 421, host
        assert client.ask(scheme="https", authority="a.two.test").status == 200  # the connection lives
    with SecureClient(proxy, authority, "two.test") as client:
        client.send(b"GET http://unknown.test/ HTTP/1.1\r\nHost: two.test\r\n\r\n")
        assert client.read().status == 421
    with SecureClient(proxy, authority, context=context_of(authority, "client")) as client:
        assert client.ask(host="unknown.test").status == 200


# --- what follows the handshake ---


def test_long_bodies_pass_whole_in_both_directions(start, start_upstream, authority):
    big = bytes(range(256)) * 40000

    def echo(peer, asked):
        peer.send(answer(body=asked.body))

    upstream = start_upstream(echo)
    proxy = start(listening(authority) + f"max: {{body: 64MiB}}\nupstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        for body in (b"", b"x", big, big[:100000]):
            assert client.ask("POST", body=body, host="one.test").body == body


def test_a_reader_that_is_slow_gets_everything(start, start_upstream, authority):
    big = bytes(range(256)) * 10000
    upstream = start_upstream(lambda peer, asked: peer.send(answer(body=big)))
    proxy = start(listening(authority) + f"upstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.send(request("GET", "/", host="one.test"))
        seen = b""
        while not seen.endswith(big[-1000:]) or len(seen) < len(big):
            seen += client.sock.recv(7000)
        assert seen.endswith(big)


def test_pipelined_requests_and_small_pieces_are_served(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    with SecureClient(proxy, authority) as client:
        client.send(request("GET", "/", host="one.test") * 5)
        for _ in range(5):
            assert client.read().body == b"ok"
        for byte in request("GET", "/", host="one.test"):
            client.send(bytes([byte]))
        assert client.read().body == b"ok"


def test_an_answer_that_is_cut_ends_without_close_notify(start, start_upstream, authority):
    def cut(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
        peer.close()

    upstream = start_upstream(cut)
    proxy = start(listening(authority) + f"upstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        client.send(request("GET", "/", host="one.test"))
        with pytest.raises((ssl.SSLEOFError, ConnectionError, Cut)):
            client.read()


def test_an_answer_until_close_ends_by_close_notify(start, start_upstream, authority):
    def until_close(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole")
        peer.close()

    upstream = start_upstream(until_close)
    proxy = start(listening(authority) + f"upstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        client.send(request("GET", "/", host="one.test", version="HTTP/1.0"))
        assert client.read().body == b"whole"  # an end without close_notify raises SSLEOFError


def test_a_tunnel_passes_bytes(start, start_upstream, authority):
    def switch(peer, _):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        peer.send(b"first" + peer.reader.length_body(4))

    upstream = start_upstream(switch)
    proxy = start(listening(authority) + f"upstream: http://127.0.0.1:{upstream.port}\n")
    with SecureClient(proxy, authority) as client:
        client.send(request("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "websocket")], host="one.test"))
        assert client.read().status == 101
        client.send(b"ping")
        seen = b""
        while len(seen) < 9:
            seen += client.sock.recv(100)
        assert seen == b"firstping"


# --- behind a proxy ---


def test_a_proxy_header_comes_before_tls(start, authority):
    proxy = start(listening(authority, listener=", proxy_protocol: true") +
                        "trusted_proxies: [127.0.0.1]\n" + ECHO % "ok")
    header = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"
    with SecureClient(proxy, authority, before=header) as client:
        assert client.ask(host="one.test").status == 200
    # The header and the first message of TLS in one segment.
    hello = ssl.MemoryBIO()
    answers = ssl.MemoryBIO()
    inner = context_of(authority).wrap_bio(answers, hello, server_hostname="one.test")
    with pytest.raises(ssl.SSLWantReadError):
        inner.do_handshake()
    with proxy.connect() as client:
        client.send(header + hello.read())
        while True:
            try:
                inner.do_handshake()
                break
            except ssl.SSLWantReadError:
                answers.write(client.sock.recv(65536))
        inner.write(request("GET", "/", host="one.test"))
        client.send(hello.read())
        answers.write(client.sock.recv(65536))
    lines = proxy.log_lines(2) if len(proxy.stdout().split(b"\n")) > 2 else proxy.lines_of("/", 2)
    assert {line["client"] for line in lines} == {"192.0.2.7"}


# --- resumption ---


def test_sessions_are_resumed_also_after_a_reload(start, authority):
    proxy = start("workers: 1\n" + listening(authority) + ECHO % "before")  # whose lines are in order
    context = context_of(authority)
    with SecureClient(proxy, authority, context=context) as client:
        assert client.ask(host="one.test").status == 200  # tickets come with it
        session = client.sock.session
    with SecureClient(proxy, authority, context=context, session=session) as client:
        assert client.sock.session_reused
        client.ask(host="one.test")
    reload(proxy, ECHO % "after", listening(authority)[len("listen: "):])
    with SecureClient(proxy, authority, context=context, session=session) as client:
        assert client.sock.session_reused
        assert client.ask(host="one.test").body == b"after"
    with SecureClient(proxy, authority, "two.test", context=context, session=session) as client:
        assert not client.sock.session_reused
        client.ask(host="two.test")
    assert sorted(line.get("resumed", "no") for line in proxy.log_lines(4)) == ["no", "no", "yes", "yes"]


def test_tickets_can_be_off(start, authority):
    proxy = start(listening(authority, top=", tickets: off") + ECHO % "ok")
    with SecureClient(proxy, authority) as client:
        client.ask(host="one.test")
        session = client.sock.session
    assert session is None or not session.has_ticket


# --- clients that do harm ---


def test_a_silent_client_has_timeouts_handshake(start, authority):
    proxy = start("timeouts: {handshake: 200ms}\n" + listening(authority) + ECHO % "ok")
    with proxy.connect() as client:
        client.send(b"\x16\x03\x01")
        assert client.sock.recv(1) == b""
    until(lambda: failures(proxy) == ["timeout"], "the failure in the log")


def begin_handshake(proxy, authority, before=b"", source=None):
    out, into = ssl.MemoryBIO(), ssl.MemoryBIO()
    inner = context_of(authority).wrap_bio(into, out, server_hostname="one.test")
    with pytest.raises(ssl.SSLWantReadError):
        inner.do_handshake()
    client = proxy.connect(source)
    client.send(before + out.read())
    return client


def test_handshakes_of_one_ipv6_network_are_those_of_one_client(start, authority):
    """They have a quarter together, and the older one gives way to the other."""
    proxy = start("timeouts: {handshake: 60s}\nmax: {handshakes: 4}\ntrusted_proxies: [127.0.0.1]\n" +
                  listening(authority, listener=", proxy_protocol: true") + ECHO % "ok")
    header = b"PROXY TCP6 2001:db8::%d 2001:db8::ff 1000 443\r\n"
    first = begin_handshake(proxy, authority, header % 1)
    assert first.sock.recv(1) == b"\x16"

    def is_served():
        try:
            with SecureClient(proxy, authority, before=header % 2) as client:
                return client.ask(host="one.test").status == 200
        except (ssl.SSLError, ConnectionError):
            return False

    assert not is_served()
    until(is_served, "a handshake once the first takes long")


def test_a_trusted_proxy_may_have_all_handshakes(start, authority):
    """It brings those of many clients."""
    proxy = start("max: {handshakes: 4}\ntrusted_proxies: [127.0.0.1]\n" + listening(authority) + ECHO % "ok")
    for client in [begin_handshake(proxy, authority) for _ in range(4)]:
        assert client.sock.recv(1) == b"\x16"
    assert begin_handshake(proxy, authority).sock.recv(1) == b""


def test_handshakes_under_way_are_bounded(start, authority):
    """One client has a quarter: of two handshakes that stand still, one is closed. The older one gives way once it
    takes long, so that a client is served although another connection of its address stands still."""
    proxy = start("max: {handshakes: 4}\n" + listening(authority) + ECHO % "ok")
    first = begin_handshake(proxy, authority)
    assert first.sock.recv(1) == b"\x16"  # the server's first flight
    begin_handshake(proxy, authority)
    until(lambda: "reason=refused" in proxy.stderr(), "the failure in the log")

    def is_served():
        try:
            with SecureClient(proxy, authority) as client:
                return client.ask(host="one.test").status == 200
        except (ssl.SSLError, ConnectionError):
            return False

    until(is_served, "a handshake once the first takes long")
    while first.sock.recv(4096) != b"":
        pass


def test_the_client_with_the_most_handshakes_gives_way(start, authority):
    """Four addresses fill max.handshakes at once; others are served all the same, and those with few keep theirs."""
    proxy = start("workers: 1\nmax: {handshakes: 16}\n" + listening(authority) + ECHO % "ok")
    few = begin_handshake(proxy, authority, source="127.0.0.9")
    assert few.sock.recv(1) == b"\x16"
    many = [begin_handshake(proxy, authority, source=f"127.0.1.{1 + i % 4}") for i in range(15)]
    assert all(client.sock.recv(1) == b"\x16" for client in many)
    for source in ("127.0.0.2", "127.0.0.3"):
        inner = proxy.connect(source).sock
        with context_of(authority).wrap_socket(inner, server_hostname="one.test") as client:
            assert client.version() == "TLSv1.3"
    again = [begin_handshake(proxy, authority, source="127.0.0.2") for _ in range(3)]
    assert all(client.sock.recv(1) == b"\x16" for client in again), "each has fewer than the others"
    while many[0].sock.recv(4096) != b"":
        pass
    assert few.sock.recv(4096) != b""


def test_many_handshakes_of_one_client_are_behind_those_of_others(start, tmp_path):
    """Its messages, which cost it nothing, have the proxy sign for half a second."""
    slow = Authority(tmp_path / "rsa", kind=("rsa:3072",))
    slow.sign("one", "DNS:one.test")
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{{pair(slow, 'one')}}}}}\nworkers: 1\n" + ECHO % "ok")
    proxy.signal(signal.SIGSTOP)  # so that it finds all of them
    many = [begin_handshake(proxy, slow, source="127.0.0.7") for _ in range(240)]
    other = begin_handshake(proxy, slow, source="127.0.0.8")
    proxy.signal(signal.SIGCONT)
    assert other.sock.recv(1) == b"\x16"
    n_answered = len(select.select([client.sock for client in many], [], [], 0)[0])
    assert n_answered < 200
    assert all(client.sock.recv(1) == b"\x16" for client in many)


def test_renegotiation_is_refused(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    with subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-tls1_2"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        seen = b""
        while b"Verify return code" not in seen:
            seen += run.stdout.read1()
        run.stdin.write(b"R\n")
        run.stdin.flush()
        seen = run.stdout.read()
        run.stdin.close()
        assert b"no renegotiation" in seen or b"handshake failure" in seen


def test_a_flood_of_renegotiations_is_cut(start, authority):
    """Each attempt is declined by an alert, and the connection goes on: unless there are more than a hundred a second."""
    proxy = start(listening(authority) + ECHO % "ok")
    attempt = b"\1\0\0\x2b\3\3" + b"r" * 32 + b"\0\0\2\xc0\x2f\1\0\0\0"  # the beginning of a ClientHello
    with RecordClient(socket.create_connection(proxy.address, timeout=30), "one.test", TLS_1_2) as client:
        sealer = client.handshake().sealer()
        for _ in range(2):
            client.sock.sendall(sealer.record(HANDSHAKE, attempt))
            assert client.sock.recv(4096)[:1] == b"\x15"
            client.sock.sendall(sealer.record(CONTENT, request("GET", "/", (), None, host="one.test")))
            assert client.sock.recv(4096)[:1] == b"\x17"
        flood = b"".join(sealer.record(HANDSHAKE, attempt) for _ in range(300))
        with pytest.raises(ConnectionError):
            client.sock.sendall(flood)
            while client.sock.recv(4096):
                pass
            client.sock.sendall(flood)
            client.sock.recv(1)
            raise ConnectionError  # closed in order: it had read everything


def test_a_flood_of_key_updates_is_cut(start, authority):
    """A hundred a second are followed."""
    proxy = start(listening(authority) + ECHO % "ok")
    asked = request("GET", "/", host="one.test")
    with RecordClient(socket.create_connection(proxy.address, timeout=30), "one.test", TLS_1_3) as client:
        client.handshake()
        for _ in range(50):
            client.update_key(True)
            client.write(asked)
            client.sock.sendall(client.records())
            assert client.read().endswith(b"ok")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                for _ in range(50):
                    client.update_key(False)
                client.sock.sendall(client.records())
            while client.sock.recv(4096):
                pass
            raise ConnectionError  # closed in order: it had read everything
    with SecureClient(proxy, authority) as other:
        assert other.ask(host="one.test").status == 200


def test_connections_that_drain_end_in_order(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    with SecureClient(proxy, authority) as idle:
        assert idle.ask(host="one.test").status == 200
        proxy.process.send_signal(signal.SIGTERM)
        assert idle.sock.recv(1) == b""  # close_notify: an end without it raises SSLEOFError
    assert proxy.process.wait(timeout=20) == 0


def test_bytes_that_are_no_tls_are_counted_and_close(start, authority):
    proxy = start(listening(authority) + ECHO % "ok")
    for data in (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", b"\x15\x03\x03\x00\x02\x02\x28", b"\x80\x2e\x01\x00\x02"):
        with proxy.send(data) as client:
            assert client.sock.recv(4096) == b"\x15\x03\x03\0\x02\x02\x32"  # the alert decode_error
            assert client.sock.recv(4096) == b""
    assert proxy.process.poll() is None
    with SecureClient(proxy, authority) as client:
        assert client.ask(host="one.test").status == 200
