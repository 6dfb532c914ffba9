"""Heads of responses have bounds of their own, by upstream; what exceeds them says nothing about the
server's health."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.admin import Admin, addresses
from harness.http2_server import Http2Server
from harness.upstream import answer
from harness.wait import until

KIB = 1024
FIELD_BYTES = KIB  # each field of a server's head takes so many, CR LF included


class Handler(BaseHTTPRequestHandler):
    """Answers /?kib=N with a head of N KiB at least, in fields of 1 KiB; /?fields=N with N more fields;
    /?to=TEXT with that Location; /?why=TEXT with that reason phrase."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        wanted = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, encoding="latin-1").items()}
        self.send_response(200, wanted.get("why"))
        if "to" in wanted:
            self.send_header("Location", wanted["to"])
        for i in range(int(wanted.get("kib", 0))):
            name = f"X-Long-{i}"
            self.send_header(name, "v" * (FIELD_BYTES - len(name) - len(": \r\n")))
        for i in range(int(wanted.get("fields", 0))):
            self.send_header(f"X-Short-{i}", "v")
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(name="servers")
def two_real_servers():
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_address[1]}" for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


def policy(servers, more="", top=""):
    servers = ", ".join(f'"{server}"' for server in servers)
    return f"""
        workers: 1
        {top}
        admin: 127.0.0.1:0
        upstreams: {{api: {{servers: [{servers}], eject: {{failures: 1, for: 1h, max: 1h}}{more}}}}}
        routes: [{{upstream: api, limits: []}}]
    """


def assert_refused(response, detail):
    assert response.status == 502
    assert response.json()["detail"] == detail


BAD_VALUE = "the upstream's response head has a control byte in the value of a field"
TOO_LONG = "the upstream's response head is longer than its max_head"
TOO_MANY = "the upstream's response head has more fields than its max_headers"


def assert_no_ejection(proxy, n_refused, counted_as="large_head"):
    admin = Admin(addresses(proxy)[0])
    states = [server["state"] for server in admin.read("/v1/upstreams")["upstreams"][0]["servers"]]
    assert states == ["up", "up"]
    page = admin.ask("GET", "/metrics").body.decode()
    counted = {reason: sum(map(int, re.findall(
        rf'sluice_server_failures_total{{[^}}]*reason="{reason}"}} (\d+)', page)))
        for reason in ("large_head", "bad_value", "invalid")}
    assert counted == {"large_head": 0, "bad_value": 0, "invalid": 0, counted_as: n_refused}
    assert "server is down" not in proxy.log_at_end()


def test_a_response_head_up_to_64_kib_passes_by_default(start, servers):
    proxy = start(policy(servers))
    with proxy.connect() as client:
        for kib in (20, 60, 20, 0, 60):
            response = client.ask(path=f"/?kib={kib}")
            assert response.status == 200 and response.body == b"ok\n"
            assert len([name for name, _ in response.fields if name.startswith("X-Long-")]) == kib
            assert client.ask("HEAD", f"/?kib={kib}").status == 200


def test_a_longer_response_head_is_502_in_its_own_words_and_ejects_nobody(start, servers):
    proxy = start(policy(servers))
    with proxy.connect() as client:
        for kib in (70, 300, 70, 300):
            assert_refused(client.ask(path=f"/?kib={kib}"), TOO_LONG)
        assert client.ask(path="/?kib=20").status == 200
    assert [line.get("fault") for line in proxy.log_lines(5)] == [TOO_LONG] * 4 + [None]
    assert_no_ejection(proxy, 4)


def test_by_http2_the_refusal_says_likewise_which_bound_it_was(start):
    def behave(peer, request):
        n, n_bytes = map(int, request.path[1:].split("x"))
        peer.answer(request.stream, fields=[(f"x-{i}", "v" * n_bytes) for i in range(n)])

    server = Http2Server(behave)
    try:
        proxy = start(policy([server.url]))
        with proxy.connect() as client:
            assert_refused(client.ask(path="/18x4000"), TOO_LONG)
            assert_refused(client.ask(path="/260x1"), TOO_MANY)
    finally:
        server.stop()


def test_more_response_fields_than_max_headers_are_502_and_eject_nobody(start, servers):
    proxy = start(policy(servers))
    with proxy.connect() as client:
        assert client.ask(path="/?fields=250").status == 200
        for _ in range(3):
            assert_refused(client.ask(path="/?fields=260"), TOO_MANY)
    assert_no_ejection(proxy, 3)


@pytest.mark.parametrize("query", ["to=%01", "to=%00x", "to=x%7f", "to=x%0Dx", "to=x%0Ax", "why=No%01"])
def test_a_control_byte_that_a_server_repeats_is_502_and_ejects_nobody(start, servers, query):
    """As Go's http.Redirect() does with a parameter of the request, or PHP's header()."""
    proxy = start(policy(servers))
    with proxy.connect() as client:
        for _ in range(3):
            assert_refused(client.ask(path=f"/?{query}"), BAD_VALUE)
        assert client.ask(path="/?to=%E4%09x").get("Location") == "\xe4\tx"
    assert_no_ejection(proxy, 3, "bad_value")


@pytest.mark.parametrize("head", [
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", b"SSH-2.0-OpenSSH\x01\r\n", b"HTTP/1.1 200 OK\r\nX\x01: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\x01: a\r\n\r\n", b"\x16\x03\x01\x00", b"HTTP/1.1 2\r\n\r\n"])
def test_what_is_no_http_takes_a_server_down(start, start_upstream, head):
    proxy = start(policy([start_upstream(answer=head).url]))
    response = proxy.ask()
    assert_refused(response, "the upstream's answer is not valid HTTP")
    until(lambda: "server is down" in proxy.stderr(), "the ejection")


def test_the_bounds_are_the_upstreams_own(start, servers):
    wide, narrow = servers
    proxy = start(f"""
        workers: 1
        max: {{head: 2KiB, headers: 4}}
        upstreams:
          wide: {{servers: "{wide}", max_head: 512KiB, max_headers: 600}}
          narrow: {{servers: "{narrow}", max_head: 2KiB, max_headers: 5}}
        routes:
          - {{match: {{path: /wide}}, upstream: wide, limits: []}}
          - {{match: {{path: /narrow}}, upstream: narrow, limits: []}}
    """)
    with proxy.connect() as client:
        assert client.ask(path="/wide?kib=300&fields=290").status == 200
        assert client.ask(path="/narrow?fields=2").status == 200  # with Server, Date and Content-Length
        assert_refused(client.ask(path="/narrow?kib=2"), TOO_LONG)
        assert_refused(client.ask(path="/narrow?fields=3"), TOO_MANY)
        assert client.ask(path="/wide?kib=500").status == 200


def test_a_long_head_that_comes_in_pieces_behind_an_interim_response_passes(start, start_upstream):
    head = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(60))
    hints = b"HTTP/1.1 103 Early Hints\r\n" + b"".join(b"Link: <%s>\r\n" % (b"l" * 1000)
                                                       for _ in range(40)) + b"\r\n"
    body = b"b" * 200_000

    def behave(peer, _):
        whole = hints + head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        for start_at in range(0, len(whole), 9_000):
            peer.send(whole[start_at:start_at + 9_000])

    upstream = start_upstream(behave)
    proxy = start(policy([upstream.url]))
    with proxy.connect() as client:
        for _ in range(3):
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.read().status == 103
            response = client.read()
            assert response.status == 200 and response.body == body
    assert upstream.n_connections == 1


def test_a_long_head_of_a_switch_passes(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
                  b"".join(b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(40)) + b"\r\n")
        peer.send(peer.reader.take(5, "a tunnel"))
        peer.hang()

    upstream = start_upstream(behave)
    proxy = start(policy([upstream.url]))
    with proxy.connect() as client:
        assert client.ask(fields={"Connection": "Upgrade", "Upgrade": "websocket"}).status == 101
        client.send(b"hello")
        assert client.reader.take(5, "a tunnel") == b"hello"


def test_a_reload_changes_the_bounds(start, servers):
    proxy = start(policy(servers, top="watch: true"))
    file = proxy.folder / "policy.yaml"
    assert_refused(proxy.ask(path="/?kib=70"), TOO_LONG)
    file.write_text(file.read_text().replace("}}", "}, max_head: 80KiB}", 1))
    until(lambda: proxy.ask(path="/?kib=70").status == 200, "the new bound")


def test_a_short_answer_behind_long_ones_is_whole(start, start_upstream):
    sizes = iter([40, 1, 40, 1])
    upstream = start_upstream(lambda peer, _: peer.send(answer(
        fields=[(f"X-{i}", "v" * 1000) for i in range(next(sizes))], body=b"x" * 100)))
    proxy = start(policy([upstream.url]))
    with proxy.connect() as client:
        for n in (40, 1, 40, 1):
            response = client.ask()
            assert response.body == b"x" * 100
            assert len([name for name, _ in response.fields if name.startswith("X-")]) == n
