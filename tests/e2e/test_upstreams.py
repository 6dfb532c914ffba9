"""Upstreams of several servers: who gets which request, and where a request goes that a server could not
serve."""

import collections
import queue
import socket
import threading

import pytest

from harness.upstream import answer
from harness.wait import until

A, B, C = b"a", b"b", b"c"
FIN_WAIT1 = 4


def policy(servers, more="", workers=1):
    listed = ", ".join(server if isinstance(server, str) else server.url for server in servers)
    return f"""
        workers: {workers}
        upstreams: {{api: {{servers: [{listed}], timeout: {{connect: 5s}}{more}}}}}
        routes: [{{upstream: api}}]
    """


@pytest.fixture(name="start_servers")
def start_named_servers(start_upstream):
    """start_servers(3): servers whose answers are their names, a, b, c."""
    def make(n):
        return [start_upstream(answer=answer(body=bytes([ord("a") + i]))) for i in range(n)]

    return make


def weighted(server, weight):
    return f"{{url: \"{server.url}\", weight: {weight}}}"


# --- balance ---


def test_weights_are_shares_of_the_turns(start, start_servers):
    one, two = start_servers(2)
    proxy = start(policy([weighted(one, 3), weighted(two, 1)]))
    with proxy.connect() as client:
        got = collections.Counter(client.ask().body for _ in range(20))
    assert got == {A: 15, B: 5}


def test_a_route_may_name_its_server_by_url(start, start_servers):
    one, two = start_servers(2)
    proxy = start(f"""
        upstreams: {{api: {{servers: [{two.url}]}}}}
        routes:
          - {{match: {{path: /api}}, upstream: api}}
          - {{match: {{path: /url}}, upstream: "{one.url}"}}
          - {{upstream: {one.url}}}
    """)
    assert [proxy.ask("GET", path).body for path in ("/api", "/url", "/")] == [B, A, A]


class Gate:
    """A behaviour that answers when it is opened."""

    def __init__(self):
        self.is_open = threading.Event()

    def __call__(self, peer, _):
        self.is_open.wait()
        peer.send(answer())


def test_least_requests_leaves_a_busy_server_alone(start, start_upstream):
    """What is under way counts whichever worker it is with."""
    gates = [Gate(), Gate()]
    busy, idle = [start_upstream(gate) for gate in gates]
    proxy = start(policy([busy, idle], ", balance: least_requests", workers=4))
    clients = []
    for n in range(1, 9):
        clients.append(proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        until(lambda: len(busy.requests) + len(idle.requests) == n, "the request")
    assert len(busy.requests) == len(idle.requests) == 4
    gates[1].is_open.set()
    until(lambda: len(proxy.all_log_lines()) == 4, "the answers of one server")
    assert [proxy.ask().status for _ in range(20)] == [200] * 20
    assert len(busy.requests) == 4
    gates[0].is_open.set()
    assert [client.read().status for client in clients] == [200] * 8


def test_equal_keys_go_to_one_server_and_different_ones_to_all(start, start_servers):
    proxy = start(policy(start_servers(3), ", balance: hash(header.x-tenant)", workers=2))
    servers = {}
    for _ in range(3):
        for tenant in range(60):
            body = proxy.ask(fields=[("X-Tenant", str(tenant))]).body
            assert servers.setdefault(tenant, body) == body
    assert set(servers.values()) == {A, B, C}
    without = {proxy.ask().body for _ in range(12)}
    assert without == {A, B, C}, "who lacks the key takes turns"


def test_the_key_may_be_of_several_parts_and_of_the_path(start, start_servers):
    proxy = start(policy(start_servers(2), ", balance: \"hash(path.2, header.x-a | method)\""))
    with proxy.connect() as client:
        got = {user: {client.ask(path=f"/users/{user}").body for _ in range(4)}
               for user in range(50)}
    assert all(len(bodies) == 1 for bodies in got.values())
    assert set().union(*got.values()) == {A, B}


def test_a_server_that_goes_away_moves_only_its_own_keys(start, start_servers):
    servers = start_servers(3)
    proxy = start(policy(servers, ", balance: hash(header.x-tenant)"))
    client = proxy.connect()

    def ask_all():  # where a key goes depends on the servers' ports
        return {tenant: client.ask(fields=[("X-Tenant", str(tenant))]).body for tenant in range(150)}

    before = ask_all()
    servers[1].stop()
    after = ask_all()
    assert all(after[tenant] == body for tenant, body in before.items() if body != B)
    moved = {after[tenant] for tenant, body in before.items() if body == B}
    assert moved == {A, C}, "its keys are spread over all others"


# --- retries ---


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "OPTIONS"])
def test_a_request_that_a_server_dies_under_goes_to_another(start, start_upstream, method, how):
    dying = start_upstream(lambda peer, _: getattr(peer, how)())
    good = start_upstream()
    proxy = start(policy([dying, good]))
    assert [proxy.ask(method).status for _ in range(4)] == [200] * 4
    assert len(dying.requests) == 2 and len(good.requests) == 4


@pytest.mark.parametrize("method, body", [("POST", b"x"), ("POST", None), ("PUT", b"x"),
                                          ("PATCH", None), ("MAKE", None)])
def test_what_may_have_had_an_effect_does_not(start, start_upstream, method, body):
    dying = start_upstream(lambda peer, _: peer.close())
    good = start_upstream()
    proxy = start(policy([dying, good]))
    statuses = [proxy.ask(method, body=body).status for _ in range(4)]
    assert sorted(statuses) == [200, 200, 502, 502]
    assert len(dying.requests) == 2 and len(good.requests) == 2


@pytest.mark.parametrize("retries, n_asked", [(0, 1), (1, 2), (2, 3), (10, 4)])
def test_a_request_that_kills_servers_does_not_kill_them_all(
        start, start_upstream, retries, n_asked):
    servers = [start_upstream(lambda peer, _: peer.close()) for _ in range(4)]
    proxy = start(policy(servers, f", retries: {retries}"))
    assert proxy.ask().status == 502
    counts = [len(server.requests) for server in servers]
    assert sum(counts) == n_asked and max(counts) == 1, "never twice to the same server"


@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
@pytest.mark.parametrize("limits, delay_s, n_sent, status", [
    ("[work]", 0.5, 1, 502), ("[]", 0.5, 2, 200), ("[shadow]", 0.5, 2, 200)])
def test_what_a_server_may_have_done_is_done_nowhere_else_where_a_limit_counts_it(
        start, start_upstream, kept, limits, delay_s, n_sent, status):
    """Servers close the connection behind a handler that was too slow for their own time limit."""
    worked = []

    def behave(peer, request):
        if request.target == "/work":
            worked.append(request)
            if len(worked) == 1:
                threading.Event().wait(delay_s)
                peer.close()
                return
        peer.send(answer())

    proxy = start(policy([start_upstream(behave), start_upstream(behave)]).replace(
        "routes: [{", "limits: {work: {key: client.ip, rate: 9/day}, shadow: {key: global, rate: 9/day, shadow: true}}\n"
        f"        routes: [{{limits: {limits}, "))
    if kept:
        assert [proxy.ask("GET", "/other").status for _ in range(2)] == [200, 200]
    assert proxy.ask("GET", "/work").status == status
    assert len(worked) == n_sent


def test_nothing_is_sent_again_once_a_byte_of_an_answer_came(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 2")
        peer.close()

    servers = [start_upstream(behave) for _ in range(2)]
    proxy = start(policy(servers))
    assert proxy.ask().status == 502
    assert sum(len(server.requests) for server in servers) == 1


def test_any_request_goes_on_from_a_server_that_cannot_be_reached(start, start_upstream):
    good = start_upstream()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        proxy = start(policy([f"http://127.0.0.1:{held.getsockname()[1]}", good]))
        with proxy.connect() as client:
            for _ in range(4):
                assert client.ask("POST", body=b"once").status == 200
    assert [request.body for request in good.requests] == [b"once"] * 4


def test_kept_connections_that_all_died_are_invisible(start, start_upstream):
    """All servers are restarted at once: the kept connection of each is dead, and each is up."""
    def behave(peer, _):
        if peer.n_requests == 2:
            peer.close()
        else:
            peer.send(answer())

    servers = [start_upstream(behave) for _ in range(2)]
    proxy = start(policy(servers, ", retries: 0"))
    assert [proxy.ask().status for _ in range(4)] == [200] * 4
    assert len(servers[0].requests) + len(servers[1].requests) > 4


def test_a_kept_connection_that_died_while_no_other_server_is_there_is_invisible(
        start, start_upstream):
    def behave(peer, _):
        if peer.n_requests == 2:
            peer.close()
        else:
            peer.send(answer())

    one, other = start_upstream(behave), start_upstream()
    proxy = start(policy([one, other]))
    while not one.requests:
        assert proxy.ask().status == 200
    other.stop()
    for _ in range(4):
        assert proxy.ask().status == 200


def test_a_post_does_not_meet_a_connection_that_its_server_had_closed(start, start_upstream):
    closed = queue.Queue()

    def behave(peer, _):
        peer.send(answer())
        peer.sock.shutdown(socket.SHUT_WR)
        until(lambda: peer.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != FIN_WAIT1,
              "the end to reach the proxy")
        closed.put(peer)

    proxy = start(policy([start_upstream(behave)]))
    with proxy.connect() as client:
        for _ in range(50):
            assert client.ask("POST", body=b"x").status == 200
            closed.get(timeout=20)
