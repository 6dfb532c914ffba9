"""TLS to servers: which of them are trusted, what a failure leads to, and what connections carry."""

import itertools
import os
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness import admin, message, secure_upstream, websocket
from harness.certificates import Authority, dated
from harness.client import Client
from harness.openssl import RenegotiatingServer, TicketServer
from harness.ports import free_port
from harness.program import command
from harness.reload import reload
from harness.secure_upstream import PATIENT, files_of, policy
from harness.upstream import answer
from harness.wait import until

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("server", "DNS:localhost,DNS:api.test,IP:127.0.0.1")
    authority.sign("other", "DNS:other.test,IP:192.0.2.1")
    authority.sign("proxy", "DNS:proxy.test")
    return authority


@pytest.fixture(name="start_secure")
def a_secure_upstream(authority):
    with secure_upstream.starter(authority) as start:
        yield start


def failed_handshakes(proxy):
    return re.findall(r'msg="TLS handshake failed" upstream=api server=\S+ err="([^"]*)"', proxy.stderr())


def check_refused(proxy, *words):
    """The proxy answers 502, and says why in the answer, the access log and the log."""
    response = proxy.ask()
    assert response.status == 502
    detail = response.json()["detail"]
    line = proxy.log_lines(1)[0]
    for word in words:
        assert word in detail and word in line["fault"], detail
    assert detail.startswith("no TLS with the upstream: ")
    until(lambda: any(all(word in said for word in words) for said in failed_handshakes(proxy)), "the log line")


# --- trust ---


@pytest.mark.parametrize("version", VERSIONS)
def test_servers_are_asked_over_tls(start, start_secure, authority, version):
    upstream = start_secure(version=version)
    proxy = start(policy(upstream.url, authority))
    with proxy.connect() as client:
        for _ in range(3):
            assert client.ask().body == b"ok\n"
    assert upstream.n_connections == 1  # kept
    assert upstream.names == [None]  # an address is no name
    assert upstream.handshakes[0][0] == version.name.replace("_", ".")


def test_a_host_is_named_and_the_host_field_has_no_default_port(start, start_secure, authority):
    upstream = start_secure()
    proxy = start(policy(f"https://localhost:{upstream.port}", authority, more=", host: server"))
    assert proxy.ask().status == 200
    assert upstream.names == ["localhost"]
    assert upstream.last.get("Host") == f"localhost:{upstream.port}"


@pytest.mark.parametrize("tls, more", [("name: api.test", ""), ("name: host", ", host: 'api.test:8443'")])
def test_another_name_is_asked_for_and_verified(start, start_secure, authority, tls, more):
    upstream = start_secure()
    proxy = start(policy(upstream.url, authority, tls, more))
    assert proxy.ask().status == 200
    assert upstream.names == ["api.test"]


def test_a_wrong_name_is_refused(start, start_secure, authority):
    upstream = start_secure(pair=files_of(authority, "other"))
    proxy = start(policy(upstream.url, authority, "name: localhost"))
    check_refused(proxy, "is not for localhost but for other.test, 192.0.2.1")
    assert not upstream.requests


def test_an_expired_certificate_is_refused(start, start_secure, authority, tmp_path):
    pair = dated(tmp_path, "old", "IP:127.0.0.1", "20200101000000Z", "20210101000000Z")
    upstream = start_secure(pair=pair)
    proxy = start(policy(upstream.url, authority, f"ca: {pair[0]}"))
    check_refused(proxy, "expired on 2021-01-01T00:00:00Z")


def test_an_unknown_authority_is_refused(start, start_secure, authority, tmp_path):
    other = Authority(tmp_path / "other")
    other.sign("server", "IP:127.0.0.1")
    upstream = start_secure(pair=files_of(other, "server"))
    check_refused(start(policy(upstream.url, authority)), "has an issuer that is neither among ca nor sent")


def test_a_missing_intermediate_is_refused(start, start_secure, authority, tmp_path):
    between, key = authority.sign("between", "DNS:between.test", "basicConstraints=critical,CA:TRUE\n")
    middle = Authority(tmp_path / "middle")
    middle.certificate.write_bytes(between.read_bytes())
    (middle.folder / "ca.key").write_bytes(key.read_bytes())
    leaf, leaf_key = middle.sign("leaf", "IP:127.0.0.1")
    upstream = start_secure(pair=(leaf, leaf_key))
    check_refused(start(policy(upstream.url, authority)), "has an issuer that is neither among ca nor sent",
                  "/CN=between")
    chain = tmp_path / "chain.pem"
    chain.write_bytes(leaf.read_bytes() + between.read_bytes())
    whole = start_secure(pair=(chain, leaf_key))
    assert start(policy(whole.url, authority)).ask().status == 200


def test_a_self_signed_certificate_is_refused_unless_nothing_is_verified(start, start_secure, authority, tmp_path):
    pair = dated(tmp_path, "own", "IP:127.0.0.9", "20200101000000Z", "20400101000000Z")
    upstream = start_secure(pair=pair)
    check_refused(start(policy(upstream.url, authority)), "is self-signed, and not among ca")
    assert start(policy(upstream.url, authority, "verify: false")).ask().status == 200
    assert start(policy(upstream.url, authority, f"ca: {pair[0]}, name: 127.0.0.9")).ask().status == 200


def test_the_authorities_of_the_system_are_trusted_by_default(start, start_secure, authority):
    upstream = start_secure()
    lines = f"upstream: {upstream.url}\n"
    assert start(lines, env={"SSL_CERT_FILE": str(authority.certificate)}).ask().status == 200
    check = start(lines, env={"SSL_CERT_FILE": "/dev/null", "SSL_CERT_DIR": "/nonexistent"})
    assert check.ask().status == 502


def test_a_server_of_another_version_is_refused(start, start_secure, authority):
    upstream = start_secure(version=ssl.TLSVersion.TLSv1_2)
    check_refused(start(policy(upstream.url, authority, "min_version: 1.3")), "version")


def test_a_server_without_tls_is_never_asked_without(start, authority):
    received = []

    def refuse():
        peer, _ = listener.accept()
        received.append(peer.recv(65536))
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse)
        thread.start()
        proxy = start(policy(f"https://127.0.0.1:{listener.getsockname()[1]}", authority))
        check_refused(proxy, "the server speaks no TLS there")
        thread.join()
    assert len(received) == 1 and received[0][:2] == b"\x16\x03"  # a record of a handshake


def test_a_server_that_demands_a_certificate_gets_it(start, start_secure, authority):
    def demand(context):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)

    certificate, key = files_of(authority, "proxy")
    for version in VERSIONS:
        upstream = start_secure(version=version, prepare=demand)
        proxy = start(policy(upstream.url, authority, f"cert: {certificate}, key: {key}"))
        assert proxy.ask().status == 200
        assert ("DNS", "proxy.test") in upstream.handshakes[0][2]["subjectAltName"]
        without = start(policy(upstream.url, authority))
        response = without.ask()
        assert response.status == 502
        until(lambda said=without: failed_handshakes(said), "the failure in the log")
        assert upstream.requests == [upstream.requests[0]]


# --- what a failure leads to ---


def test_a_failed_handshake_goes_to_another_server_and_ejects(start, start_secure, authority):
    bad, good = start_secure(pair=files_of(authority, "other")), start_secure()
    proxy = start(policy(f"[{bad.url}, {good.url}]", authority, more=", eject: {failures: 2, for: 1m}"))
    for _ in range(8):
        assert proxy.ask().status == 200
    until(lambda: 'msg="server is down"' in proxy.stderr(), "the ejection")
    assert f"server={bad.url} why=\"TLS handshakes with it fail\"" in proxy.stderr()
    until(lambda: len(bad.refusals) == 2, "both handshakes to fail at the server")
    assert len(good.requests) == 8
    place = admin.addresses(proxy)[0]
    page = admin.Admin(place).ask(path="/metrics").body.decode()
    assert re.search(r'server_failures_total\{[^}]*reason="tls"[^}]*\} 2', page)
    assert bad.url in admin.ctl(place, "upstreams").stdout


def test_a_handshake_that_stalls_ends_with_the_connect_timeout(start, authority):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        proxy = start(policy(url, authority, more=", timeout: {connect: 100ms}"))
        response = proxy.ask()
        assert response.status == 504
        assert response.json()["detail"] == "the TLS handshake with the upstream was not complete in time"
        until(lambda: failed_handshakes(proxy) == ["it was not complete in timeout.connect"], "the log line")


def an_expired_pair(_authority, folder):
    return dated(folder, "old", "IP:127.0.0.1", "20200101000000Z", "20210101000000Z")


def a_pair_that_is_not_valid_yet(_authority, folder):
    return dated(folder, "new", "IP:127.0.0.1", "20900101000000Z", "20910101000000Z")


def a_pair_of_nobody(_authority, folder):
    return Authority(folder / "nobody").sign("server", "IP:127.0.0.1")


def a_pair_without_its_intermediate(authority, folder):
    certificate, key = authority.sign("unsent", "DNS:unsent.test", "basicConstraints=critical,CA:TRUE\n")
    unsent = Authority(folder / "unsent")
    os.replace(certificate, unsent.certificate)
    os.replace(key, unsent.folder / "ca.key")
    return unsent.sign("leaf", "IP:127.0.0.1")


def test_a_path_that_a_server_wants_a_certificate_for_ejects_nobody(start, start_secure, authority):
    """By TLS 1.2 it asks behind the handshake, and ends the connection by an alert: for that path, whoever asks."""
    servers = [RenegotiatingServer(*files_of(authority, "server")) for _ in range(2)]
    try:
        urls = ", ".join(server.url for server in servers)
        proxy = start(policy(f"[{urls}]", authority, more=", eject: {failures: 2, for: 1m}, retries: 0")
                      + "workers: 1\n")  # they serve one connection at a time
        for _ in range(8):
            response = proxy.ask(path="/private")
            assert response.status == 502
            assert response.json()["detail"].startswith("the upstream refused TLS: ")
        for _ in range(4):
            assert proxy.ask().body == b"ok\n"
        assert 'msg="server is down"' not in proxy.stderr()
        assert all(server.n_requests > 0 for server in servers)
    finally:
        for server in servers:
            server.stop()


@pytest.mark.parametrize("make, words", [
    (lambda authority, _: files_of(authority, "other"), "is not for 127.0.0.1 but for other.test, 192.0.2.1"),
    (an_expired_pair, "expired on 2021-01-01T00:00:00Z"),
    (a_pair_that_is_not_valid_yet, "is not valid before 2090-01-01T00:00:00Z"),
    (a_pair_of_nobody, "has an issuer that is neither among ca nor sent"),
    (a_pair_without_its_intermediate, "has an issuer that is neither among ca nor sent by the server: /CN=unsent"),
], ids=["wrong name", "expired", "not valid yet", "unknown authority", "missing intermediate"])
def test_each_certificate_that_is_refused_counts_for_ejection(start, start_secure, authority, tmp_path, make, words):
    pair = make(authority, tmp_path)
    trusted = tmp_path / "trusted.pem"
    is_of_its_own = make in (an_expired_pair, a_pair_that_is_not_valid_yet)
    trusted.write_bytes(authority.certificate.read_bytes() + (pair[0].read_bytes() if is_of_its_own else b""))
    bad, good = start_secure(pair=pair), start_secure()
    proxy = start(policy(f"[{bad.url}, {good.url}]", authority, f"ca: {trusted}", ", eject: {failures: 2, for: 1m}"))
    for _ in range(8):
        assert proxy.ask().status == 200
    until(lambda: f"server={bad.url} why=\"TLS handshakes with it fail\"" in proxy.stderr(), "the ejection")
    until(lambda: len(bad.refusals) == 2, "both handshakes to fail at the server")
    assert not bad.requests
    assert words in failed_handshakes(proxy)[0]


@pytest.mark.parametrize("trickles", [False, True], ids=["silent", "a byte at a time"])
def test_a_server_that_stalls_in_the_handshake_counts_for_ejection(start, start_secure, authority, trickles):
    asked = []

    def stall():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            asked.append(peer)
            try:
                for byte in itertools.cycle(b"\x16\x03\x03\x40\x00" + bytes(100)):
                    if trickles:
                        peer.sendall(bytes([byte]))
                        time.sleep(0.005)  # a record of it would take more than a minute
                    elif not peer.recv(4096):
                        break
            except OSError:
                pass  # the proxy has given up

    good = start_secure()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=stall, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        more = ", timeout: {connect: 1s}, eject: {failures: 2, for: 1m}"
        proxy = start(policy(f"[{url}, {good.url}]", authority, more=more))
        for _ in range(8):
            assert proxy.ask().status in (200, 504)
        until(lambda: f'server={url} why="TLS handshakes with it fail"' in proxy.stderr(), "the ejection")
        assert len(asked) in (2, 3)  # without an ejection half of the requests; one may be under way when it comes
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for peer in asked:
        peer.close()


def test_http_and_https_servers_may_be_mixed(start, start_upstream, start_secure, authority):
    secure, plain = start_secure(), start_upstream()
    proxy = start(policy(f"[{secure.url}, {plain.url}]", authority))
    for _ in range(4):
        assert proxy.ask().status == 200
    assert len(secure.requests) == len(plain.requests) == 2


def test_health_checks_speak_tls(start, start_secure, authority):
    checks = ", health: {path: /healthz, interval: 50ms, fall: 1, rise: 1}"
    upstream, bad = start_secure(), start_secure(pair=files_of(authority, "other"))
    proxy = start(policy(f"[{upstream.url}, {bad.url}]", authority, more=checks))
    assert upstream.wait_for(2).get("Host") == upstream.address
    until(lambda: re.search(r'server is down.* server=%s why="a check\'s TLS handshake: the server\'s certificate '
                            r'is not for 127.0.0.1' % bad.url, proxy.stderr()), "the wrong server to be down")
    assert upstream.url not in "".join(line for line in proxy.log_at_end().splitlines() if "is down" in line)


# --- what connections carry ---


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_are_resumed_but_not_under_other_rules(start, start_secure, authority, version):
    upstream = start_secure(lambda peer, _: peer.send(answer(fields=[("Connection", "close")])), version=version)
    rules = policy(upstream.url, authority, more=", timeout: {idle: 1s}") + "workers: 1\n"
    proxy = start(rules)
    for _ in range(3):
        assert proxy.ask().status == 200
    assert [resumed for _, resumed, _ in upstream.handshakes] == [False, True, True]
    reload(proxy, rules.replace("tls: {", "tls: {name: api.test, "))
    assert proxy.ask().status == 200
    assert not upstream.handshakes[-1][1]


def test_a_kept_connection_is_not_used_under_other_rules(start, start_secure, authority, tmp_path):
    upstream = start_secure()
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(authority.certificate.read_bytes())
    rules = policy(upstream.url, authority, f"ca: {authorities}") + "workers: 1\n"
    proxy = start(rules)
    assert proxy.ask().status == 200
    reload(proxy, rules)
    assert proxy.ask().status == 200
    assert upstream.n_connections == 1  # the same rules
    authorities.write_bytes(Authority(tmp_path / "ca").certificate.read_bytes())
    reload(proxy, rules)  # the same text with another file
    assert proxy.ask().status == 502
    assert len(upstream.requests) == 2


def test_a_kept_connection_outlives_messages_of_tls(start, authority):
    """As tickets that come late, a change of keys makes a connection readable, and brings no bytes."""
    certificate, key = files_of(authority, "server")
    port = free_port()
    with subprocess.Popen(["openssl", "s_server", "-accept", str(port), "-cert", certificate, "-key", key, "-crlf"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            said = []
            reader = threading.Thread(target=lambda: said.extend(server.stdout), daemon=True)
            reader.start()
            until(lambda: b"ACCEPT\n" in said, "the server to listen")
            proxy = start(policy(f"https://127.0.0.1:{port}", authority, more=", timeout: {idle: 1m}") + "workers: 1\n")
            for number in range(1, 5):
                answers = []
                asking = threading.Thread(target=lambda found=answers: found.append(proxy.ask()))
                asking.start()
                until(lambda n=number: sum(line.startswith(b"GET ") for line in said) == n, "the request")
                server.stdin.write(b"HTTP/1.1 200 OK\nContent-Length: 4\n\nok\n")
                server.stdin.flush()
                asking.join()
                assert answers[0].body == b"ok\r\n"
                server.stdin.write(b"k\n")  # change the keys
                server.stdin.flush()
            assert sum(b"BEGIN SSL SESSION" in line for line in said) == 1  # one connection
        finally:
            server.kill()


def test_a_kept_connection_outlives_late_tickets(start, authority):
    """They make an idle connection readable, and are good for the next one."""
    server = TicketServer(*files_of(authority, "server"))
    try:
        proxy = start(policy(server.url, authority, more=", timeout: {idle: 1m}") + "workers: 1\n")
        for n_asked in range(1, 11):
            assert proxy.ask().body == b"ok\n"
            assert server.n_requests == n_asked
            server.give_ticket()
        assert server.resumed == [False]  # one connection
        assert proxy.ask().body == b"ok\n"
        server.end_connection()
        assert proxy.ask().body == b"ok\n"
        assert server.resumed == [False, True]
    finally:
        server.stop()


def test_a_websocket_is_echoed_over_tls(start, authority):
    echo = websocket.EchoServer([str(file) for file in files_of(authority, "server")])
    try:
        proxy = start(policy(echo.url, authority))
        messages = [os.urandom(size) for size in (0, 1, 125, 126, 4000, 65535, 65536, 300_000)]

        async def talk():
            async with websocket.connect(proxy) as sock:
                for text in messages * 5:
                    await sock.send(text)
                    assert await sock.recv() == text
            async with websocket.connect(proxy, "/greet") as sock:
                assert await sock.recv() == "welcome"

        websocket.run(talk())
    finally:
        echo.stop()
    assert {line["status"] for line in proxy.log_lines(2)} == {"101"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("head, end, is_whole", [
    (b"Content-Length: 9", b"some of i", True),
    (b"Content-Length: 9", b"some", False),
    (b"Transfer-Encoding: chunked", b"9\r\nsome of i\r\n0\r\n\r\n", True),
    (b"Transfer-Encoding: chunked", b"9\r\nsome of i\r\n", False),
    (b"Connection: close", b"some of i", False),
], ids=["length", "short", "chunked", "no last chunk", "until close"])
def test_no_close_notify_cuts_what_is_not_whole(start, start_secure, authority, version, head, end, is_whole):
    def say(peer, _request):
        peer.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + end)
        peer.close()

    upstream = start_secure(say, version=version)
    proxy = start(policy(upstream.url, authority))
    for _ in range(3):
        if is_whole:
            assert proxy.ask().body == b"some of i"
        else:
            with pytest.raises(message.Cut):
                proxy.ask()
    until(lambda: len(proxy.all_log_lines()) == 3, "the access log")
    assert all(("fault" in line) != is_whole for line in proxy.all_log_lines())


@pytest.mark.parametrize("version", VERSIONS)
def test_large_bodies_pass_both_ways(start, start_secure, authority, version):
    body = bytes(range(256)) * 20_000
    upstream = start_secure(lambda peer, request: peer.send(answer(body=request.body)), version=version)
    proxy = start(policy(upstream.url, authority))
    with proxy.connect() as client:
        for _ in range(2):
            assert client.ask("POST", body=body).body == body
    assert upstream.n_connections == 1


def test_a_body_until_close_without_close_notify_is_cut(start, start_secure, authority):
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

    def end(peer, request):
        peer.send(head + b"some of it")
        if request.raw.startswith(b"GET /whole"):
            peer.sock.unwrap()  # close_notify
        peer.close()

    upstream = start_secure(end, version=ssl.TLSVersion.TLSv1_2)
    proxy = start(policy(upstream.url, authority))
    assert proxy.ask(path="/whole").body == b"some of it"
    with pytest.raises(message.Cut):
        proxy.ask(path="/cut")
    until(lambda: any("before its answer was complete" in line.get("fault", "") for line in proxy.all_log_lines()),
          "the fault in the access log")


def test_waiting_requests_get_connections(start, start_secure, authority):
    """Of a server that has its max_connections, whatever worker has them."""
    upstream = start_secure()
    proxy = start(policy(upstream.url, authority, more=", max_connections: 2" + PATIENT) + "workers: 2\n")
    failures = []

    def ask():
        with Client(proxy.address) as client:
            for _ in range(10):
                if client.ask().status != 200:
                    failures.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(upstream.requests) == 80


# --- the policy ---


@pytest.mark.parametrize("servers, rules, expected", [
    ("https://a.test", "verify: false", "warning: \"verify: false\" lets anybody"),
    ("https://192.0.2.1", "ca: system", "say \"name: HOST\" in tls, or \"name: server\" if it is [server-by-address]"),
    ("'https://[2001:db8::1]:8443'", "ca: system", "the certificate of https://[2001:db8::1]:8443 must be for this"),
    ("http://a.test", "name: b.test", "warning: tls has no effect: no server of the upstream is https://"),
    ("https://a.test", "name: host", "error: name \"host\": needs \"host: server\" or \"host: NAME\""),
    ("https://a.test", "name: 'a b'", "must be server, host, or a host or address without a port"),
    ("https://a.test", "cert: none.pem", "error: \"key\" is missing in tls"),
    ("https://a.test", "ca: none.pem", "none.pem: "),
    ("https://a.test/path", "verify: true", "must end after host and port"),
])
def test_check_says_what_is_wrong(tmp_path, servers, rules, expected):
    path = tmp_path / "policy.yaml"
    path.write_text(f"listen: 127.0.0.1:0\nupstreams: {{api: {{servers: {servers}, tls: {{{rules}}}}}}}\n"
                    "limits: {all: {key: client.ip, rate: 1/s}}\nroutes: [{upstream: api, limits: all}]\n")
    run = command("check", path)
    assert expected in run.stdout + run.stderr


@pytest.mark.parametrize("servers, rules", [
    ("https://192.0.2.1", "name: server"), ("https://192.0.2.1", "name: a.test"), ("https://a.test", "ca: system"),
    ("https://192.0.2.1", "verify: false")])
def test_check_says_nothing_of_an_address_that_has_a_name(tmp_path, servers, rules):
    path = tmp_path / "policy.yaml"
    path.write_text(f"listen: 127.0.0.1:0\nupstreams: {{api: {{servers: {servers}, tls: {{{rules}}}}}}}\n"
                    "limits: {all: {key: client.ip, rate: 1/s}}\nroutes: [{upstream: api, limits: all}]\n")
    assert "server-by-address" not in command("check", path).stderr


def test_a_certificate_for_servers_alone_is_not_shown_to_servers(tmp_path, authority):
    certificate, key = authority.sign("serving", "DNS:a.test", "extendedKeyUsage=serverAuth\n")
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\nupstreams: {api: {servers: 'https://a.test', "
                    f"tls: {{cert: {certificate}, key: {key}}}}}}}\nroutes: [{{upstream: api}}]\n")
    assert "the certificate is not for clients" in command("check", path).stderr
