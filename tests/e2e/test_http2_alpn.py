"""HTTP/2 over TLS to servers: what ALPN agrees on, and checks of health by either version."""

import socket
import ssl
import threading

import pytest

from harness import message
from harness.certificates import Authority
from harness.http2 import Http2Client
from harness.http2_server import Http2Server
from harness.ports import end_accepting, free_port
from harness.upstream import Upstream
from harness.wait import until

LISTEN = "listen: {address: 127.0.0.1:0, http: [2, 1.1]}\nworkers: 1\n"


class SecureUpstream(Upstream):
    """A server of HTTP/1.1 behind TLS; it ends connections of HTTP/2."""

    def __init__(self, context, behave=None):
        self.context = context
        super().__init__(behave)
        self.url = f"https://{self.address}"

    def _serve(self, peer):
        peer.sock = self.context.wrap_socket(peer.sock, server_side=True)
        if peer.sock.selected_alpn_protocol() == "h2":
            peer.close()
            return
        peer.reader = message.Reader(peer.sock)
        super()._serve(peer)


@pytest.fixture(name="pair", scope="module")
def a_pair(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    return authority.certificate, *authority.sign("server", "IP:127.0.0.1")


@pytest.fixture(name="start_secure")
def a_secure_server(pair):
    servers = []

    def begin(*protocols, **options):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair[1:])
        if protocols:
            context.set_alpn_protocols(protocols)
        is_http2 = protocols and protocols[0] == "h2"
        servers.append(Http2Server(context=context, **options) if is_http2 else SecureUpstream(context))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()
        assert not server.failures, server.failures


def policy(pair, server, protocol, more=""):
    return (f"{LISTEN}upstreams: {{api: {{servers: ['{server.url}'], protocol: {protocol}, "
            f"tls: {{ca: {pair[0]}}}, timeout: {{connect: 20s}}{more}}}}}\nroutes: [{{upstream: api}}]\n")


@pytest.mark.parametrize("protocol", ["2", "auto"])
def test_http_2_where_the_server_agrees(start, start_secure, pair, protocol):
    server = start_secure("h2", "http/1.1")
    proxy = start(policy(pair, server, protocol))
    assert [proxy.ask().status for _ in range(3)] == [200] * 3
    assert len(server.peers) == 1 and server.last.get(":scheme") == "https"


def test_requests_wait_for_the_same_handshake(start, start_secure, pair):
    server = start_secure("h2")
    proxy = start(policy(pair, server, "2"))
    with Http2Client(proxy.address) as client:
        streams = [client.begin() for _ in range(20)]
        assert [client.answer(stream).status for stream in streams] == [200] * 20
    assert len(server.peers) == 1


@pytest.mark.parametrize("protocols", [("http/1.1",), ()], ids=["agreed", "no ALPN"])
def test_auto_falls_back_to_http_1_1(start, start_secure, pair, protocols):
    server = start_secure(*protocols)
    proxy = start(policy(pair, server, "auto"))
    with Http2Client(proxy.address) as client:
        streams = [client.begin() for _ in range(10)]
        assert [client.answer(stream).status for stream in streams] == [200] * 10
    n = server.n_connections
    assert 1 <= n <= 10
    assert proxy.ask("POST", "/", (), b"body").status == 200
    assert server.last.body == b"body" and server.n_connections == n


def test_2_needs_the_server_to_agree(start, start_secure, pair):
    proxy = start(policy(pair, start_secure("http/1.1"), "2"))
    assert proxy.ask().status == 502
    until(lambda: "did not agree" in proxy.stderr(), "the reason in the log")


def test_1_1_is_not_asked_for_2(start, start_secure, pair):
    server = start_secure("http/1.1", "h2")
    proxy = start(policy(pair, server, "1.1"))
    assert proxy.ask().status == 200


def test_a_server_that_is_verified_by_another_authority_is_502(start, start_secure, pair, tmp_path):
    other = Authority(tmp_path / "other")
    proxy = start(policy((other.certificate,), start_secure("h2"), "auto"))
    assert proxy.ask().status == 502


def test_max_connections_and_auto(start, start_secure, pair):
    """The slots of streams become those of connections."""
    server = start_secure("http/1.1")
    proxy = start(policy(pair, server, "auto", ", max_connections: 2"))
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(proxy.ask().status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8


@pytest.mark.parametrize("protocol", ["2", "auto"])
def test_checks_of_health_by_http_2(start, start_secure, pair, protocol):
    def behave(peer, request):
        peer.answer(request.stream, status=503 if request.path == "/well" and is_sick else 200)

    is_sick = []
    server = start_secure("h2", behave=behave)
    health = ", health: {path: /well, interval: 50ms, fall: 2, rise: 1, timeout: 10s}"
    proxy = start(policy(pair, server, protocol, health))
    until(lambda: any(r.path == "/well" for r in server.requests), "a check")
    check = next(r for r in server.requests if r.path == "/well")
    assert (check.get(":method"), check.get(":authority"), check.get("user-agent")) == (
        "GET", f"127.0.0.1:{server.port}", "sluice")
    is_sick.append(True)
    until(lambda: "server is down" in proxy.stderr(), "the server to be down")
    is_sick.clear()
    until(lambda: "server is up" in proxy.stderr(), "the server to be up")
    assert proxy.ask().status == 200


def test_an_upgrade_goes_by_http_1_1(start, pair):
    """The server would speak HTTP/2: for an upgrade it is not offered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair[1:])
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        proxy = start(f"{LISTEN}upstreams: {{api: {{servers: ['https://{address}'], protocol: auto, "
                      f"tls: {{ca: {pair[0]}}}, timeout: {{connect: 20s}}}}}}\n"
                      "routes: [{upstream: api, upgrade: [websocket]}]\n")
        with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") as client:
            sock, _ = listener.accept()
            with context.wrap_socket(sock, server_side=True) as server:
                assert server.selected_alpn_protocol() == "http/1.1"
                head = message.Reader(server).head()
                assert b"Upgrade: websocket" in head
                server.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi")
                assert client.read().status == 101


UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
           ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]


def upgrade_policy(pair, *servers, more=""):
    urls = ", ".join(f"'{server}'" for server in servers)
    return (f"{LISTEN}upstreams: {{api: {{servers: [{urls}], protocol: auto, tls: {{ca: {pair[0]}}}, "
            f"timeout: {{connect: 20s}}{more}}}}}\nroutes: [{{upstream: api, upgrade: [websocket]}}]\n")


def test_servers_of_http_2_alone_are_offered_no_more_upgrades(start, start_secure, pair):
    servers = [start_secure("h2") for _ in range(2)]
    proxy = start(upgrade_policy(pair, *(server.url for server in servers), more=", eject: {failures: 1, for: 1m}"))
    for _ in range(4):
        assert proxy.ask("GET", "/", UPGRADE).status == 200
        assert proxy.ask().status == 200
    assert sum(server.n_turned_away for server in servers) <= 2
    assert all(request.get("upgrade") is None for server in servers for request in server.requests)
    assert "server is down" not in proxy.log_at_end()


def switch_or_close(peer, request):
    """As servers of WebSockets do that know one path."""
    if request.target == "/ws":
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    else:
        peer.close()


def test_a_request_that_a_server_closes_takes_no_upgrade_from_others(start, pair):
    """The server has agreed on HTTP/1.1: it takes connections for an upgrade."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair[1:])
    context.set_alpn_protocols(["h2", "http/1.1"])
    server = SecureUpstream(context, switch_or_close)
    proxy = start(upgrade_policy(pair, server.url))
    assert proxy.ask("GET", "/none", UPGRADE).status == 502
    for _ in range(2):
        assert proxy.ask("GET", "/ws", UPGRADE).status == 101
    assert proxy.ask("GET", "/none").status == 502  # by HTTP/2, which it would have been for all
    server.stop()
    assert all(request.target != "/none" or request.get("Upgrade") for request in server.requests)


def test_a_connection_for_an_upgrade_is_not_kept(start, pair):
    """Other requests would go on it by HTTP/1.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair[1:])
    context.set_alpn_protocols(["h2", "http/1.1"])
    agreed = []

    def serve(listener):
        while True:
            try:
                sock, _ = listener.accept()
                server = context.wrap_socket(sock, server_side=True)
            except OSError:
                return
            agreed.append(server.selected_alpn_protocol())
            if agreed[-1] == "http/1.1":
                message.Reader(server).head()
                server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                held.append(server)
            else:
                server.close()

    held = []
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        proxy = start(upgrade_policy(pair, f"https://127.0.0.1:{listener.getsockname()[1]}"))
        assert proxy.ask("GET", "/", UPGRADE).status == 200
        assert proxy.ask().status == 502
        assert agreed[0] == "http/1.1" and set(agreed[1:]) == {"h2"}
        end_accepting(listener, thread)
    for server in held:
        server.close()
