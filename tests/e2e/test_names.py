"""Names of servers: asked of name servers, and again when their answers have had their time."""

import select
import socket
import time

import pytest

from harness.name_server import NO_ERROR, NO_SUCH_NAME, SERVER_FAILURE, NameServer
from harness.ports import free_port
from harness.upstream import Upstream, answer
from harness.wait import until


@pytest.fixture(name="dns")
def name_server():
    server = NameServer()
    yield server
    server.stop()


@pytest.fixture(name="port")
def port_of_all_servers():
    return free_port()


@pytest.fixture(name="start_at")
def servers_at_one_port(start_upstream, port):
    """start_at(address): an upstream there, that says where it is."""
    def start_at(address):
        return start_upstream(answer=answer(body=address.encode()), address=(address, port))

    return start_at


def policy(dns, port, name="api.test", more=""):
    return f"""
        workers: 1
        resolver: {{servers: "{dns.address}"}}
        upstreams: {{api: {{servers: "http://{name}:{port}"}}}}
        routes: [{{upstream: api}}]
        {more}
    """


def wait_for_answer(proxy, body):
    """Until the server that says `body` answers; requests before that may fail."""
    until(lambda: proxy.ask().body == body.encode(), f"an answer of {body}")


def test_a_name_is_asked_of_the_name_server_of_the_policy(start, dns, port, start_at):
    start_at("127.0.0.2")
    dns.names["api.test"] = ["127.0.0.2"]
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "127.0.0.2")
    assert proxy.ask(path="/told").status == 200
    assert proxy.lines_of("/told", 1)[0]["upstream"] == f"http://api.test:{port}"


def test_it_is_asked_again_when_its_time_to_live_ends(start, dns, port, start_at):
    first, second = start_at("127.0.0.2"), start_at("127.0.0.3")
    dns.names["api.test"], dns.ttl = ["127.0.0.2"], 1
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "127.0.0.2")
    dns.names["api.test"] = ["127.0.0.3"]
    with proxy.connect() as client:  # whose connection upstream is kept and could be used for ever
        until(lambda: client.ask().body == b"127.0.0.3", "the other server")
    until(lambda: not first.open_peers(), "connections to the first to be closed")
    assert first.n_connections == second.n_connections == 1


def test_a_request_under_way_ends_where_it_began_when_the_name_moves(start, dns, port,
                                                                     start_upstream, start_at):
    gone_on = []

    def behave(peer, request):
        if request.target == "/held":
            until(lambda: gone_on, "the name to have moved")
        peer.send(answer(body=b"first"))

    first = start_upstream(behave, address=("127.0.0.2", port))
    start_at("127.0.0.3")
    dns.names["api.test"], dns.ttl = ["127.0.0.2"], 1
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "first")
    with proxy.connect() as client:
        client.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: first.last.target == "/held", "the request")
        dns.names["api.test"] = ["127.0.0.3"]
        until(lambda: proxy.ask().body == b"127.0.0.3", "the other server")
        gone_on.append(True)
        assert client.read().body == b"first"
    until(lambda: not first.open_peers(), "the connection to the first to be closed")


def test_a_time_to_live_of_nothing_is_taken_as_a_second(start, dns, port, start_at):
    start_at("127.0.0.2")
    dns.names["api.test"], dns.ttl = ["127.0.0.2"], 0
    started = time.monotonic()
    start(policy(dns, port))
    until(lambda: dns.count("api.test") >= 4, "four questions")
    assert time.monotonic() - started > 2.5


def test_a_long_time_to_live_is_not_asked_again(start, dns, port, start_at):
    start_at("127.0.0.2")
    dns.names["api.test"], dns.ttl = ["127.0.0.2"], 2 ** 31 - 1
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "127.0.0.2")
    time.sleep(1.5)
    assert dns.count("api.test") == 1


@pytest.mark.parametrize("code", [SERVER_FAILURE, NO_SUCH_NAME], ids=["failure", "no_such_name"])
def test_while_there_is_no_answer_the_last_addresses_hold(start, dns, port, start_at, code):
    start_at("127.0.0.2")
    dns.names["api.test"], dns.ttl = ["127.0.0.2"], 1
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "127.0.0.2")
    dns.code = code
    until(lambda: "name not resolved" in proxy.stderr(), "the failure in the log")
    assert proxy.ask().body == b"127.0.0.2"
    dns.code, asked = NO_ERROR, dns.count("api.test")
    until(lambda: dns.count("api.test") > asked, "the next question")


def test_a_name_that_becomes_known_later_is_served_then(start, dns, port, start_at):
    start_at("127.0.0.2")
    proxy = start(policy(dns, port))
    until(lambda: dns.questions, "the first question")
    assert proxy.ask().status == 502
    dns.names["api.test"] = ["127.0.0.2"]
    wait_for_answer(proxy, "127.0.0.2")


def test_where_one_address_does_not_answer_the_next_is_tried(start, dns, port, start_at):
    start_at("127.0.0.3")
    dns.names["api.test"] = ["127.0.0.2", "127.0.0.3"]
    proxy = start(policy(dns, port))
    wait_for_answer(proxy, "127.0.0.3")
    assert [proxy.ask().status for _ in range(5)] == [200] * 5


def test_a_name_may_have_ipv6_addresses_alone(start, dns, port):
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with listener:
        dns.names["six.test"] = ["::1"]
        proxy = start(policy(dns, listener.getsockname()[1], "six.test"))
        until(lambda: dns.questions, "the question")
        with proxy.connect() as client:

            def is_asked():
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                comes, _, _ = select.select([listener, client.sock], [], [], 60)
                if listener in comes:
                    listener.accept()[0].close()
                    return True
                client.read()  # the name is not known yet
                return False

            until(is_asked, "a connection over IPv6")


def test_localhost_needs_no_name_server(start, dns, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(dns, upstream.port, "localhost"))
    wait_for_answer(proxy, "ok\n")
    assert not dns.questions


def test_a_silent_name_server_holds_up_no_other_traffic(start, dns, port, start_upstream):
    upstream = start_upstream()
    dns.code = None
    proxy = start(f"""
        workers: 1
        resolver: {{servers: "{dns.address}"}}
        upstreams:
          lost: {{servers: "http://api.test:{port}"}}
          here: {{servers: "{upstream.url}"}}
        routes:
          - {{match: {{path: /lost}}, upstream: lost}}
          - {{upstream: here}}
    """)
    until(lambda: dns.questions, "the question")
    assert [proxy.ask().status for _ in range(3)] == [200] * 3
    assert proxy.ask(path="/lost").status == 502


def test_redis_by_name_is_asked_of_it_too(start, dns, start_redis):
    redis = start_redis()
    dns.names["redis.test"] = ["127.0.0.1"]
    proxy = start(f"""
        workers: 1
        resolver: {{servers: "{dns.address}"}}
        store: {{redis: "redis://redis.test:{redis.port}", deadline: 10s}}
        limits: {{once: {{key: client.ip, rate: 1/day, on_failure: deny}}}}
        routes: [{{limits: [once], respond: {{status: 204}}}}]
    """)
    until(lambda: 'msg="link up"' in proxy.stderr(), "the link to Redis")
    assert [proxy.ask().status for _ in range(2)] == [204, 429]
    assert dns.count("redis.test") >= 1
