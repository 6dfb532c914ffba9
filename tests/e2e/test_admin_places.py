"""Places at the admin API's door, and who takes them."""

import fcntl
import signal
import socket
import struct
import termios
import time

import pytest

from harness import message
from harness.admin import TOKEN, Admin, addresses, bearer, is_problem
from harness.client import Client
from harness.wait import until

PLACES = 64  # of one listener
EXPECTING = (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
             b"Content-Length: 1\r\n\r\nx")
READING = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def mute(place, requests):
    """A client that has sent requests and reads nothing, as far as the kernels let it."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(place)
    client.setblocking(False)
    try:
        client.send(requests)
    except BlockingIOError:
        pass
    return client


def unread(client):
    return struct.unpack("i", fcntl.ioctl(client, termios.FIONREAD, b"\0" * 4))[0]


def are_stuck(clients):
    """Each has an answer, and none gets more."""
    before = [unread(client) for client in clients]
    time.sleep(0.2)
    return all(before) and before == [unread(client) for client in clients]


@pytest.mark.parametrize("first, requests", [
    pytest.param(b"", EXPECTING * 1000, id="100"),
    pytest.param(b"GET /n HTTP/1.1\r\nHost: localhost\r\n\r\n", EXPECTING * 1000, id="100-later"),
    pytest.param(b"", READING * 1000, id="metrics"),
])
def test_who_does_not_read_locks_nobody_out(start, tmp_path, first, requests):
    proxy = start(f'admin: "unix:{tmp_path}/admin.sock"\nroutes: [{{respond: {{status: 204}}}}]\n')
    place = addresses(proxy)[0]
    held = [mute(place, first + requests) for _ in range(PLACES)]
    until(lambda: are_stuck(held), "all places to be taken")

    def is_alive():
        try:
            return Admin(place).ask("GET", "/healthz").status == 200
        except (OSError, message.Cut):
            return False

    try:
        until(is_alive, "a place at the door")
    finally:
        for client in held:
            client.close()


OF_PAGE = b"GET /ui/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
STRANGE = b"GET /v1/routes HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 x\r\n\r\n"
BEGUN = b"GET /v1/routes HTTP/1.1\r\n"


def flood(place, request, n=2 * PLACES):
    """Connections from 127.0.0.1 that send this much and wait."""
    clients = []
    for _ in range(n):
        client = socket.create_connection(place, timeout=30)
        clients.append(client)
        client.sendall(request)
    return clients


def open_at(start):
    """A TCP address for operators, who have a token."""
    return addresses(start(f"admin: {{listen: 127.0.0.1:0, token: {TOKEN}}}\n"
                           "routes: [{respond: {status: 204}}]\n"))[0]


@pytest.mark.parametrize("request_sent", [
    pytest.param(b"", id="silent"), pytest.param(BEGUN, id="half a head"),
    pytest.param(STRANGE, id="not let in"), pytest.param(OF_PAGE, id="page"),
    pytest.param(OF_PAGE * 200, id="page, not read"),
])
@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_an_operator_who_was_let_in_stays_in_a_flood(start, request_sent, source):
    place = open_at(start)
    with Client(place, source) as operator:
        assert operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
        clients = flood(place, request_sent)
        try:
            assert Admin(place).ask("GET", "/healthz").status == 200, "the flood is seen"
            assert operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
        finally:
            for client in clients:
                client.close()


def test_a_few_connections_that_need_no_token_stay_in_a_flood_of_strangers(start):
    place = open_at(start)
    with Client(place) as one, Client(place) as other:
        for client in (one, other):
            assert client.ask("GET", "/v1/routes", host="localhost").status == 200
        clients = flood(place, b"")
        try:
            assert all(client.ask("GET", "/v1/routes", host="localhost").status == 200 for client in (one, other))
        finally:
            for client in clients:
                client.close()


def test_who_has_only_seen_the_page_gives_way_to_strangers(start):
    place = open_at(start)
    with Client(place) as reader:
        reader.send(OF_PAGE)
        assert reader.read().status == 200
        clients = flood(place, b"")
        try:
            assert Admin(place).ask("GET", "/healthz").status == 200, "the flood is seen"
            reader.send(ALIVE)
            with pytest.raises((message.Cut, ConnectionError)):
                reader.read()
        finally:
            for client in clients:
                client.close()


ALIVE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ask_from(place, n, n_sources, request=ALIVE, n_read=1):
    """Connections of this machine that have asked for what needs no token."""
    clients = []
    for i in range(n):
        clients.append(Client(place, f"127.0.0.{1 + i % n_sources}"))
        clients[-1].send(request)
        if n_read > 0:
            assert clients[-1].read().status == 200
    return clients


@pytest.mark.parametrize("n_sources, request_sent, n_read", [
    pytest.param(1, ALIVE, 1, id="healthz"), pytest.param(2 * PLACES, ALIVE, 1, id="healthz, many addresses"),
    pytest.param(1, READING * 200, 0, id="metrics, not read")])
def test_a_newcomer_with_a_token_outlives_who_asks_in_a_loop_without_one(start, n_sources, request_sent, n_read):
    place = open_at(start)
    clients = ask_from(place, PLACES, n_sources, request_sent, n_read)
    try:
        with Client(place) as operator:
            clients += ask_from(place, PLACES // 2, n_sources, request_sent, n_read)
            assert operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
            clients += ask_from(place, 2 * PLACES, n_sources, request_sent, n_read)
            assert operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("request_sent", [
    pytest.param(b"", id="silent"), pytest.param(OF_PAGE * 200, id="page, not read")])
def test_a_newcomer_outlives_the_flood_of_another_address(start, request_sent):
    place = open_at(start)

    def is_let_in():
        """None: the flood took longer than a newcomer may take for its head, which is 5 s."""
        clients = flood(place, request_sent, PLACES)
        came_at = time.monotonic()
        try:
            with Client(place, "127.0.0.2") as operator:
                clients += flood(place, request_sent)
                return operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
        except message.Cut:
            return False if time.monotonic() - came_at < 4 else None
        finally:
            for client in clients:
                client.close()

    outcomes = []
    while len(outcomes) < 5 and not any(outcome is not None for outcome in outcomes):
        outcomes.append(is_let_in())
    assert outcomes[-1]


def test_a_newcomer_is_heard_in_a_flood_of_many_addresses(start):
    proxy = start(f"admin: {{listen: 127.0.0.1:0, token: {TOKEN}}}\nroutes: [{{respond: {{status: 204}}}}]\n")
    place = addresses(proxy)[0]

    def one_each(net):
        return [socket.create_connection(place, 30, (f"127.{net}.1.{i}", 0)) for i in range(1, 2 * PLACES)]

    proxy.signal(signal.SIGSTOP)  # so that all of them wait at the listener at once
    clients = one_each(1)
    try:
        with Client(place, "127.0.0.2") as operator:
            operator.send(message.request("GET", "/v1/routes", [bearer()], host="localhost"))
            clients += one_each(2)
            proxy.signal(signal.SIGCONT)
            assert operator.read().status == 200
    finally:
        proxy.signal(signal.SIGCONT)
        for client in clients:
            client.close()


def test_answers_that_nobody_reads_take_bounded_memory(start, tmp_path):
    long = "x" * 1000
    routes = "\n".join(f"  - {{name: r{i}, match: {{path: /{long}/{i}}}, respond: {{status: 204}}}}"
                       for i in range(1100))
    proxy = start(f'admin: "unix:{tmp_path}/admin.sock"\nroutes:\n{routes}\n')
    place = addresses(proxy)[0]
    answer = Admin(place).ask("GET", "/v1/routes")
    assert answer.status == 200
    n_kept = (64 << 20) // len(answer.body)
    assert n_kept < PLACES - 2, len(answer.body)
    held = [mute(place, READING.replace(b"/metrics", b"/v1/routes")) for _ in range(n_kept)]
    try:
        until(lambda: are_stuck(held), "answers that are not read")
        assert "read" in is_problem(Admin(place).ask("GET", "/v1/routes"), 503)
        assert Admin(place).ask("GET", "/healthz").status == 200
        held.pop().close()
        until(lambda: Admin(place).ask("GET", "/v1/routes").status == 200, "room")
    finally:
        for client in held:
            client.close()
