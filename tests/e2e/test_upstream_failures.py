"""An upstream that is away, slow or wrong: what the client gets, and what the other servers do."""

import socket
import textwrap
import threading

import pytest

from harness.name_server import NameServer
from harness.upstream import Upstream, answer
from harness.wait import until


@pytest.fixture(name="closed_port")
def port_where_nobody_listens():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(name="dns")
def name_server_that_knows_nobody():
    server = NameServer()
    yield server
    server.stop()


def policy(*servers, more="timeout: {connect: 1m, response: 1m}"):
    servers = ", ".join(f'"{server}"' for server in servers)
    return f"""
        workers: 1
        upstreams: {{api: {{servers: [{servers}], {more}}}}}
        routes: [{{upstream: api}}]
    """


FULL = "timeout: {connect: 300ms, response: 1m}"
STALLING = "timeout: {connect: 1m, response: 3s}"


def assert_problem(response, status, detail):
    assert response.status == status
    assert response.get("Content-Type") == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status and detail in problem["detail"]


def test_an_upstream_that_refuses_connections_is_502(start, closed_port):
    proxy = start(policy(f"http://127.0.0.1:{closed_port}"))
    with proxy.connect() as client:
        assert_problem(client.ask(), 502, "cannot be reached")
        assert_problem(client.ask("POST", body=b"small"), 502, "cannot be reached")
    line = proxy.log_lines(2)[0]
    assert line["status"] == "502" and "cannot be reached" in line["fault"]


def test_an_upstream_that_does_not_accept_is_504(start):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = []
        for _ in range(4):  # as many as the kernel takes: then it drops what comes
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            waiting.append(one)
        proxy = start(policy(f"http://127.0.0.1:{address[1]}", more=FULL))
        assert_problem(proxy.ask(), 504, "did not accept")
        for one in waiting:
            one.close()


def test_an_upstream_that_says_nothing_is_504(start, start_upstream):
    upstream = start_upstream(lambda peer, _: peer.hang())
    proxy = start(policy(upstream.url, more="timeout: {connect: 1m, response: 500ms}"))
    with proxy.connect() as client:
        assert_problem(client.ask(), 504, "in time")
        assert_problem(client.ask("POST", body=b"x"), 504, "in time")
    until(lambda: not upstream.open_peers(), "the slow connections to be closed")


def test_an_upstream_that_stops_in_mid_response_is_cut(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        peer.hang()

    proxy = start(policy(start_upstream(behave).url, more=STALLING))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        client.reader.head()
        assert client.reader.take_rest() == b"hello"


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_upstream_that_closes_instead_of_answering_is_502(start, start_upstream, how):
    upstream = start_upstream(lambda peer, _: getattr(peer, how)())
    proxy = start(policy(upstream.url))
    assert_problem(proxy.ask(), 502, "closed the connection")
    assert len(upstream.requests) == 1, "a fresh connection is not tried again"


def test_a_server_that_is_down_is_passed_over(start, start_upstream, closed_port):
    upstream = start_upstream()
    proxy = start(policy(f"http://127.0.0.1:{closed_port}", upstream.url))
    for _ in range(6):
        assert proxy.ask().status == 200
        assert proxy.ask("POST", body=b"x").status == 200


def test_servers_take_turns(start, start_upstream):
    servers = [start_upstream(answer=answer(body=name)) for name in (b"a", b"b", b"c")]
    proxy = start(policy(*[server.url for server in servers]))
    bodies = [proxy.ask().body for _ in range(9)]
    assert all(bodies.count(name) == 3 for name in (b"a", b"b", b"c"))


def test_an_upstream_that_was_down_is_used_as_soon_as_it_is_up(start):
    first = Upstream()
    proxy = start(policy(first.url))
    assert proxy.ask().status == 200
    first.stop()
    until(lambda: proxy.ask().status == 502, "the upstream to be away")
    second = Upstream(address=("127.0.0.1", first.port))
    try:
        assert proxy.ask().status == 200
    finally:
        second.stop()


def test_a_server_may_be_a_name(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(f"http://localhost:{upstream.port}"))
    until(lambda: proxy.ask().status == 200, "the name to be resolved")
    assert upstream.last.get("Host") == "a.test"


def test_a_name_that_nobody_knows_is_502_and_does_not_keep_the_others_from_serving(
        start, start_upstream, dns):
    upstream = start_upstream()
    resolver = f"resolver: {{servers: '{dns.address}'}}\n"
    proxy = start(resolver + textwrap.dedent(policy("http://name.invalid:80")))
    assert_problem(proxy.ask(), 502, "no address")
    proxy = start(resolver + textwrap.dedent(policy("http://name.invalid:80", upstream.url)))
    assert [proxy.ask().status for _ in range(4)] == [200] * 4


# --- connections that are kept ---


def closing_the_second_request(how):
    """Answers the first request of a connection, and ends it as `how` says when a second comes."""
    def behave(peer, _):
        if peer.n_requests == 2:
            getattr(peer, how)()
        else:
            peer.send(answer())
    return behave


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "OPTIONS"])
def test_a_kept_connection_that_dies_under_a_request_is_invisible(
        start, start_upstream, method, how):
    upstream = start_upstream(closing_the_second_request(how))
    proxy = start(policy(upstream.url))
    assert [proxy.ask().status, proxy.ask(method).status] == [200, 200]
    assert [request.connection for request in upstream.requests] == [1, 1, 2]


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("method, body", [("POST", b"x"), ("POST", None), ("PUT", b"x"),
                                          ("PATCH", None)])
def test_rule_55_a_request_that_may_have_had_an_effect_is_not_sent_twice(
        start, start_upstream, method, body, how):
    upstream = start_upstream(closing_the_second_request(how))
    proxy = start(policy(upstream.url))
    assert proxy.ask().status == 200
    assert_problem(proxy.ask(method, body=body), 502, "closed the connection")
    assert [request.method for request in upstream.requests] == ["GET", method]


def test_a_retry_is_tried_once(start, start_upstream):
    def behave(peer, _):
        if upstream.n_connections == 1 and peer.n_requests == 1:
            peer.send(answer())
        else:
            peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream.url))
    assert [proxy.ask().status, proxy.ask().status] == [200, 502]
    assert len(upstream.requests) == 3


def test_rule_55_nothing_is_sent_again_once_a_byte_of_the_answer_came(start, start_upstream):
    def behave(peer, _):
        if peer.n_requests == 1:
            peer.send(answer())
        else:
            peer.send(b"HTTP/1.1 200")
            peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream.url))
    assert [proxy.ask().status, proxy.ask().status] == [200, 502]
    assert len(upstream.requests) == 2


def test_a_kept_connection_that_the_upstream_closed_is_not_used(start, start_upstream):
    def behave(peer, _):
        peer.send(answer())
        peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream.url))
    for n in range(1, 6):
        assert proxy.ask("GET").status == 200
        assert upstream.n_connections == n


def test_rule_44_bytes_behind_an_answer_are_nobodys_answer(start, start_upstream):
    """The body is larger than what is read with a head, and a request waits for the connection."""
    body = b"y" * 30_000

    def behave(peer, request):
        stray = answer(body=b"stray") if request.target == "/first" else b""
        peer.send(answer(body=body if stray else b"mine") + stray)

    upstream = start_upstream(behave)
    proxy = start(policy(upstream.url))
    with proxy.connect() as client:
        client.send(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path
                             for path in (b"/first", b"/second")))
        assert client.read().body == body
        assert client.read().body == b"mine"
    assert upstream.n_connections == 2


def test_an_idle_upstream_connection_is_closed_in_time(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream.url, more="timeout: {idle: 200ms}"))
    assert proxy.ask().status == 200
    until(lambda: not upstream.open_peers(), "the idle connection to be closed")


def test_a_denied_request_does_not_touch_the_upstream(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"upstream: {upstream.url}\nlimit: 1/day\n")
    assert [proxy.ask().status for _ in range(5)] == [200, 429, 429, 429, 429]
    assert len(upstream.requests) == 1


def test_many_clients_at_once_are_all_served(start, start_upstream):
    upstream = start_upstream(lambda peer, request: peer.send(answer(body=request.body)))
    proxy = start(policy(upstream.url, more="timeout: {response: 1m}"))
    failures = []

    def run(number):
        with proxy.connect() as client:
            for i in range(20):
                body = f"{number}-{i}".encode() * 50
                if client.ask("POST", body=body).body != body:
                    failures.append((number, i))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(upstream.requests) == 640
    assert upstream.n_connections <= 32
