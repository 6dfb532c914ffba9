"""Servers that are down: by requests that fail in a row, by checks, and back again."""

import itertools
import re
import socket
import threading
import time

import pytest

from harness.admin import Admin, addresses, ctl
from harness.name_server import NameServer
from harness.ports import free_port
from harness.upstream import Upstream, answer
from harness.wait import until

DOWN, UP = 'msg="server is down"', 'msg="server is up"'


def policy(servers, more, workers=1, response="10s"):
    listed = ", ".join(f"\"{server if isinstance(server, str) else server.url}\""
                       for server in servers)
    return f"""
        workers: {workers}
        upstreams:
          api: {{servers: [{listed}], timeout: {{connect: 5s, response: {response}}}, {more}}}
        routes: [{{upstream: api}}]
    """


class Moody:
    """A server that does as it is told, and counts requests but for checks."""

    def __init__(self, start_upstream, name):
        self.mood = "good"
        self.check = answer()
        self.name = name
        self.n = 0
        self.n_checks = 0
        self.upstream = start_upstream(self._behave)
        self.url = self.upstream.url

    def _behave(self, peer, request):
        if request.target == "/healthz":
            self.n_checks += 1
            peer.send(self.check)
            peer.close()
            return
        self.n += 1
        if self.mood == "good":
            peer.send(answer(body=self.name))
        elif self.mood == "hang":
            peer.hang()
        elif self.mood == "nonsense":
            peer.send(b"SSH-2.0\r\n\r\n")
        elif self.mood == "cut":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            peer.close()
        elif self.mood == "refuse":
            peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 10\r\n\r\nhello")
            peer.close()
        elif self.mood == "close":
            peer.close()
        else:
            peer.send(answer(f"{self.mood} No", body=b""))


@pytest.fixture(name="start_moody")
def start_moody_servers(start_upstream):
    return lambda n: [Moody(start_upstream, bytes([ord("a") + i])) for i in range(n)]


CLIENTS = itertools.cycle(f"127.0.0.{n}" for n in range(1, 100))


def ask(proxy, method="GET", client=None):
    """What becomes of one request, of another client each time; 0: its answer was cut."""
    try:
        return proxy.ask(method, body=b"x" if method == "POST" else None, source=client or next(CLIENTS)).status
    except Exception:  # whichever way it was cut
        return 0


def count(proxy, text):
    return proxy.stderr().count(text)


# --- ejection ---


@pytest.mark.parametrize("mood", ["502", "503", "504", "hang", "nonsense", "cut", "close"])
def test_a_server_that_fails_in_a_row_is_passed_over(start, start_moody, mood):
    bad, good = start_moody(2)
    bad.mood = mood
    proxy = start(policy([bad, good], "eject: {failures: 3, for: 1h, max: 1h}",
                         response="2500ms" if mood == "hang" else "10s"))
    until(lambda: ask(proxy, "POST") is not None and count(proxy, DOWN) == 1, "the server to be down")
    assert bad.n == 3
    assert [ask(proxy, "POST") for _ in range(10)] == [200] * 10
    assert bad.n == 3 and count(proxy, DOWN) == 1
    assert bad.url in proxy.stderr() and "why=" in proxy.stderr()


@pytest.mark.takes(5)
def test_requests_that_time_out_together_are_one_failure(start, start_moody):
    """One client can send many at once to a page that takes too long."""
    servers = start_moody(2)
    for server in servers:
        server.mood = "hang"
    proxy = start(policy(servers, "eject: {failures: 2, for: 1h, max: 1h}", response="1500ms"))
    clients = [proxy.connect(next(CLIENTS)) for _ in range(8)]
    for client in clients:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
    assert [client.read().status for client in clients] == [504] * 8
    assert count(proxy, DOWN) == 0
    assert [ask(proxy, "POST") for _ in range(2)] == [504] * 2
    until(lambda: count(proxy, DOWN) == 2, "both servers to be down")


ONE = "127.0.0.200"


@pytest.mark.parametrize("mood", ["502", "503", "504", "nonsense", "cut", "close"])
def test_requests_of_one_client_that_fail_eject_nobody(start, start_moody, mood):
    """They may ask for what the servers close on."""
    servers = start_moody(2)
    proxy = start(policy(servers, "eject: {failures: 3, for: 1h, max: 1h}, retries: 0"))
    for _ in range(3):
        for server in servers:
            server.mood = mood
        assert all(ask(proxy, client=ONE) != 200 for _ in range(10))
        for server in servers:
            server.mood = "good"
        assert [ask(proxy) for _ in range(4)] == [200] * 4
    assert DOWN not in proxy.log_at_end()


def test_requests_of_one_client_that_time_out_eject_nobody(start, start_moody):
    servers = start_moody(2)
    for server in servers:
        server.mood = "hang"
    proxy = start(policy(servers, "eject: {failures: 2, for: 1h, max: 1h}", response="300ms"))
    assert [ask(proxy, client=ONE) for _ in range(8)] == [504] * 8
    assert count(proxy, DOWN) == 0
    assert [ask(proxy) for _ in range(2)] == [504] * 2  # of two other clients, at one server each
    until(lambda: count(proxy, DOWN) == 2, "both servers to be down")


@pytest.mark.takes(5)
def test_the_only_client_has_a_server_ejected_that_serves_nothing_for_a_while(start, start_moody):
    bad, good = start_moody(2)
    bad.mood = "close"
    proxy = start(policy([bad, good], "eject: {failures: 3, for: 1h, max: 1h}"))
    begun = time.monotonic()
    until(lambda: ask(proxy, "POST", ONE) is not None and count(proxy, DOWN) == 1, "the server to be down")
    assert time.monotonic() - begun >= 5 and bad.n > 3


def test_a_server_that_is_down_is_out_and_nobody_learns_of_it(start, start_moody):
    good, = start_moody(1)
    proxy = start(policy([f"http://127.0.0.1:{free_port()}", good], "eject: {for: 1h, max: 1h}"))
    assert [ask(proxy, "POST") for _ in range(20)] == [200] * 20
    log = proxy.log_at_end()
    assert log.count(DOWN) == 1 and "cannot be reached" in log


@pytest.mark.parametrize("mood", ["500", "404", "501", "good"])
def test_what_is_no_failure_of_a_gateway_ejects_nobody(start, start_moody, mood):
    servers = start_moody(2)
    servers[0].mood = mood
    proxy = start(policy(servers, "eject: 2"))
    for _ in range(20):
        ask(proxy)
    assert servers[0].n == servers[1].n == 10 and DOWN not in proxy.log_at_end()


def test_a_client_that_leaves_is_no_failure(start, start_moody):
    servers = start_moody(2)
    servers[0].mood = "hang"
    proxy = start(policy(servers, "eject: 2, balance: hash(header.x-a)"))
    for number in range(20):
        before = servers[0].n + servers[1].n
        client = proxy.send(f"GET / HTTP/1.1\r\nHost: a\r\nX-A: {number}\r\n\r\n".encode())
        until(lambda: servers[0].n + servers[1].n > before, "the request")
        client.reset()
    until(lambda: len(proxy.all_log_lines()) == 20, "all of them to be over")
    assert servers[0].n >= 2 and DOWN not in proxy.log_at_end()


def test_a_refusal_that_is_cut_by_an_unread_body_is_no_failure(start, start_moody):
    """Servers refuse without reading the body, and their close then resets the connection."""
    server, good = start_moody(2)
    server.mood = "refuse"
    proxy = start(policy([server, good], "eject: 2"))
    for _ in range(10):
        ask(proxy, "POST")
    assert server.n == 5 and count(proxy, DOWN) == 0
    for _ in range(4):
        ask(proxy)  # has no body: the server breaks
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")


def test_an_upgrade_that_a_server_closes_is_no_failure(start, start_moody):
    """As servers of WebSockets do that do not know its path."""
    server, good = start_moody(2)
    server.mood = "close"
    proxy = start(policy([server, good], "eject: 2"))
    for _ in range(10):
        proxy.ask("POST", "/", [("Connection", "Upgrade"), ("Upgrade", "websocket")], source=next(CLIENTS))
    assert server.n == 5 and count(proxy, DOWN) == 0
    for _ in range(4):
        proxy.ask("POST", "/", [("Connection", "Upgrade"), ("Upgrade", "unknown")], source=next(CLIENTS))  # is not passed on
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")


def test_an_upgrade_that_a_server_does_not_answer_is_no_failure(start, start_moody):
    """As that of Node that has a handler of upgrades, for a path that this does not know."""
    server, good = start_moody(2)
    server.mood = "hang"
    proxy = start(policy([server, good], "eject: 2", response="300ms"))
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    statuses = [proxy.ask("GET", "/", upgrade, source=next(CLIENTS)).status for _ in range(8)]
    assert statuses.count(504) == server.n == 4 and count(proxy, DOWN) == 0
    for _ in range(4):
        proxy.ask("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "unknown")], source=next(CLIENTS))  # is not passed on
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")


def test_one_request_tries_an_ejected_server_and_brings_it_in(start, start_moody):
    bad, good = start_moody(2)
    bad.mood = "close"
    proxy = start(policy([bad, good], "eject: {failures: 1, for: 50ms, max: 50ms}"))
    assert [ask(proxy) for _ in range(4)] == [200] * 4, "retried where it can be"
    until(lambda: ask(proxy) == 200 and bad.n >= 3, "trials")
    bad.mood = "good"
    log = until(lambda: ask(proxy) == 200 and UP in proxy.stderr() and proxy.stderr(), "the server to be up")
    assert log.count(DOWN) == 1 and log.count(UP) == 1, "a probe that fails is no news"
    before = bad.n, good.n
    assert [ask(proxy) for _ in range(10)] == [200] * 10
    assert (bad.n - before[0], good.n - before[1]) == (5, 5)


def test_when_all_are_out_all_are_asked(start, start_moody):
    servers = start_moody(2)
    for server in servers:
        server.mood = "503"
    proxy = start(policy(servers, "eject: {failures: 2, for: 1h, max: 1h}, retries: 0"))
    assert [ask(proxy) for _ in range(10)] == [503] * 10
    assert servers[0].n == servers[1].n == 5
    proxy.await_said(DOWN, 2)
    for server in servers:
        server.mood = "good"
    assert [ask(proxy) for _ in range(10)] == [200] * 10
    log = proxy.log_at_end()
    assert log.count(DOWN) == 2 and log.count(UP) == 1, "the first that served; the other has its time"


def test_a_server_that_is_out_is_asked_when_the_others_cannot_serve(start, start_moody):
    """It is up again, which nobody knows; the last one that was in goes away."""
    first, second = start_moody(2)
    first.mood = "503"
    proxy = start(policy([first, second], "eject: {failures: 1, for: 1h, max: 1h}"))
    until(lambda: ask(proxy) is not None and count(proxy, DOWN) == 1, "the first to be out")
    first.mood = "good"
    second.upstream.stop()
    assert ask(proxy) == 200


def test_eject_off_is_never(start, start_moody):
    bad, good = start_moody(2)
    bad.mood = "503"
    proxy = start(policy([bad, good], "eject: off"))
    assert sorted(ask(proxy) for _ in range(40)) == [200] * 20 + [503] * 20
    assert DOWN not in proxy.log_at_end()


def test_what_one_worker_learns_all_know(start, start_moody):
    bad, good = start_moody(2)
    bad.mood = "503"
    proxy = start(policy([bad, good], "eject: {failures: 4, for: 1h, max: 1h}", workers=4))
    until(lambda: ask(proxy) is not None and count(proxy, DOWN) == 1, "the server to be down")
    assert [ask(proxy) for _ in range(40)] == [200] * 40
    assert bad.n == 4 and proxy.log_at_end().count(DOWN) == 1


# --- checks ---


def test_checks_put_a_server_out_and_in(start, start_moody):
    bad, good = start_moody(2)
    bad.check = answer("500 No")
    proxy = start(policy([bad, good], "health: {path: /healthz, interval: 20ms}", workers=2))
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")
    before = bad.n
    assert [ask(proxy) for _ in range(20)] == [200] * 20
    assert bad.n == before
    bad.check = answer("204 Fine", body=b"")
    until(lambda: count(proxy, UP) == 1, "the server to be up")
    until(lambda: ask(proxy) == 200 and bad.n > before, "requests to come to it")
    assert proxy.log_at_end().count(DOWN) == 1


def test_a_server_that_was_killed_and_started_is_found_again_by_checks(start, start_moody):
    """However long it had been ejected."""
    good, = start_moody(1)
    first = Upstream(address=("127.0.0.1", free_port()))
    proxy = start(policy([first, good], "health: {path: /healthz, interval: 20ms, status: 200}, "
                         "eject: {failures: 1, for: 1h, max: 1h}"))
    first.stop()
    until(lambda: ask(proxy) == 200 and "cannot reach it" in proxy.stderr() or
          "cannot be reached" in proxy.stderr(), "the server to be down")
    second = Upstream(address=("127.0.0.1", first.port))
    try:
        until(lambda: ask(proxy) == 200 and any(request.target == "/"
                                                for request in second.requests), "requests")
    finally:
        second.stop()


def test_checks_that_all_fail_take_nothing_away(start, start_moody):
    servers = start_moody(2)
    for server in servers:
        server.check = answer("404 No")
    proxy = start(policy(servers, "health: {path: /healthz, interval: 10ms}"))
    until(lambda: count(proxy, DOWN) == 2, "both to be out")
    assert [ask(proxy) for _ in range(10)] == [200] * 10
    assert servers[0].n == servers[1].n == 5


# --- what is told of servers that are asked though they are down ---


def told(proxy):
    """Of each server in order: its state, whether it is in use, and what the metric says."""
    admin = Admin(addresses(proxy)[0])
    servers = admin.read("/v1/upstreams")["upstreams"][0]["servers"]
    page = admin.ask("GET", "/metrics").body.decode()
    up = [re.search(rf'sluice_server_up{{upstream="api",server="{server["url"]}"}} (.)', page).group(1)
          for server in servers]
    return [(server["state"], server.get("in_use", False), n) for server, n in zip(servers, up)]


@pytest.mark.parametrize("more", ["", "max_connections: 5, "])
def test_a_single_server_that_is_dead_is_told_to_be_down(start, start_moody, more):
    server, = start_moody(1)
    proxy = start(policy([server], more + "eject: {failures: 3, for: 1h, max: 1h}, retries: 0}\n"
                                          "        admin: {listen: 127.0.0.1:0"))
    assert told(proxy) == [("up", False, "1")]
    server.mood = "close"
    assert [ask(proxy, "POST") for _ in range(6)] == [502] * 6
    assert told(proxy) == [("ejected", True, "0")]
    until(lambda: count(proxy, 'in_use="no server of the upstream is up"\n') == 1, "the log to tell")
    assert count(proxy, DOWN) == 1
    table = ctl(addresses(proxy)[0], "upstreams").stdout
    assert "ejected, in use" in table
    assert server.n == 6, "it is asked all the same"
    server.mood = "good"
    assert ask(proxy) == 200
    assert told(proxy) == [("up", False, "1")]
    until(lambda: count(proxy, UP) == 1, "the log to tell")


def test_of_several_servers_that_are_down_all_are_told_to_be_in_use(start, start_moody):
    servers = start_moody(2)
    servers[0].mood = "503"
    proxy = start(policy(servers, "eject: {failures: 2, for: 1h, max: 1h}, retries: 0}\n"
                                  "        admin: {listen: 127.0.0.1:0"))
    until(lambda: ask(proxy) and count(proxy, DOWN) == 1, "the first to be down")
    assert told(proxy) == [("ejected", False, "0"), ("up", False, "1")]
    assert "in_use" not in proxy.stderr()
    servers[1].mood = "503"
    until(lambda: ask(proxy) and count(proxy, DOWN) == 2, "the second to be down")
    assert told(proxy) == [("ejected", True, "0"), ("ejected", True, "0")]


def test_a_server_whose_name_nobody_knows_is_told_to_be_down(start):
    dns = NameServer()
    proxy = start(f"""
        resolver: {{servers: "{dns.address}"}}
        admin: 127.0.0.1:0
        upstreams: {{api: {{servers: http://nobody.invalid}}}}
        routes: [{{upstream: api}}]
    """)
    try:
        until(lambda: ask(proxy) == 502 and told(proxy) == [("ejected", True, "0")], "it to be told")
    finally:
        dns.stop()


def test_checks_of_one_server_are_for_the_log(start, start_moody):
    server, = start_moody(1)
    server.check = answer("500 No")
    proxy = start(policy([server], "health: {path: /healthz, interval: 10ms, fall: 1, rise: 1}"))
    until(lambda: count(proxy, DOWN) == 1, "the log to tell")
    assert ask(proxy) == 200
    server.check = answer()
    until(lambda: count(proxy, UP) == 1, "the log to tell")


def test_one_worker_makes_the_checks_and_they_are_not_logged(start, start_moody):
    server, = start_moody(1)
    begun = time.monotonic()
    proxy = start(policy([server], "health: {path: /healthz, interval: 100ms}", workers=4))
    until(lambda: server.n_checks >= 15, "checks")
    assert time.monotonic() - begun >= 14 * 0.09 - 0.2
    proxy.stop()
    assert proxy.stdout() == b""


def test_a_server_that_accepts_and_says_nothing_fails_its_checks(start, start_moody):
    good, = start_moody(1)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
        proxy = start(policy([f"http://127.0.0.1:{silent.getsockname()[1]}", good],
                             "health: {path: /healthz, interval: 10ms, timeout: 1500ms, fall: 2}"))
        assert "not answered in time" in proxy.await_said(DOWN)
        assert [ask(proxy, "POST") for _ in range(4)] == [200] * 4


# --- slow start ---


def test_the_share_of_a_server_that_came_back_grows(start, start_moody):
    bad, good = start_moody(2)
    bad.check = answer("500 No")
    proxy = start(policy([bad, good], "health: {path: /healthz, interval: 10ms}, slow_start: 1h"))
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")
    bad.check = answer()
    until(lambda: count(proxy, UP) == 1, "the server to be up")
    before = bad.n
    with proxy.connect() as client:
        for _ in range(300):
            assert client.ask().status == 200
    assert 1 <= bad.n - before <= 6, "a hundredth of the weight of the other"


def test_the_whole_share_is_there_when_slow_start_is_over(start, start_moody):
    bad, good = start_moody(2)
    bad.check = answer("500 No")
    proxy = start(policy([bad, good],
                         "health: {path: /healthz, interval: 10ms}, slow_start: 300ms"))
    until(lambda: count(proxy, DOWN) == 1, "the server to be down")
    bad.check = answer()

    def is_even():
        before = bad.n, good.n
        for _ in range(20):
            ask(proxy)
        return bad.n - before[0] == good.n - before[1] == 10

    until(is_even, "the server to have its half")


# --- all of it under traffic ---


def test_servers_that_come_and_go_under_traffic_are_invisible(start, start_moody):
    servers = start_moody(3)
    proxy = start(policy(servers, "eject: {failures: 1, for: 20ms, max: 20ms}", workers=2))
    is_over = threading.Event()
    failures = []

    def run():
        while not is_over.is_set():
            status = ask(proxy)
            if status != 200:
                failures.append(status)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        for server in servers:
            server.mood = "close"
            before = server.n
            until(lambda: server.n > before, "a request to fail")
            server.mood = "good"
            total = sum(server.n for server in servers)
            until(lambda: sum(server.n for server in servers) > total + 20, "traffic")
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failures
    until(lambda: ask(proxy) == 200 and count(proxy, DOWN) == count(proxy, UP), "all to be up")
