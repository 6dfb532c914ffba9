"""Too few file descriptors: nothing spins, what is there goes on, the rest waits or is told so."""

import resource
import socket
import threading
import time

import pytest

from harness.http2 import Http2Client
from harness.upstream import OK
from harness.wait import until

N = 64  # descriptors of the proxy


def policy(upstream):
    return f"""
        workers: 1
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes:
          - {{match: {{path: /own}}, respond: {{status: 200, body: ok}}}}
          - {{upstream: api}}
    """


def test_the_soft_limit_is_raised_and_one_that_is_too_low_is_warned_of(start, start_upstream):
    proxy = start(policy(start_upstream()), descriptors=(N, 500))
    with open(f"/proc/{proxy.process.pid}/limits", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("Max open files"))
    assert line.split()[3:5] == ["500", "500"]
    warning = next(line for line in proxy.stderr().splitlines() if "few file descriptors" in line)
    assert "limit=500 wanted=20000" in warning and "max.connections" in warning


def test_enough_of_them_are_not_spoken_of(start, start_upstream):
    proxy = start("max: {connections: 100}\n" + policy(start_upstream()).replace("\n        ", "\n"),
                  descriptors=(N, 500))
    assert "few file descriptors" not in proxy.stderr()


@pytest.mark.parametrize("descriptors, more, http, wanted", [
    (500, "streams: 50, streams_per_client: 251", "[2, 1.1]", 251), (500, "streams: 251, streams_per_client: 1", "2", 251),
    (500, "streams: 50, streams_per_client: 250", "[2, 1.1]", None),
    (500, "streams: 50, streams_per_client: 251", "1.1", None)])
def test_too_few_for_the_requests_of_a_client_by_http_2_are_warned_of(start, start_upstream, descriptors, more, http,
                                                                       wanted):
    text = f"listen: {{address: 127.0.0.1:0, http: {http}}}\nmax: {{connections: 100, {more}}}\n"
    proxy = start(text + policy(start_upstream()).replace("\n        ", "\n"), descriptors=(N, descriptors))
    warnings = [line for line in proxy.stderr().splitlines() if "few file descriptors" in line]
    assert len(warnings) == (wanted is not None)
    assert wanted is None or f"limit=500 for_servers=250 wanted={wanted} " in warnings[0]


def test_servers_that_speak_http_2_need_no_connection_for_each_request(start, start_upstream):
    text = "listen: {address: 127.0.0.1:0, http: 2}\nmax: {connections: 100}\n"
    proxy = start(text + policy(start_upstream()).replace("\n        ", "\n").replace("http://", "h2c://"),
                  descriptors=(N, 500))
    assert "few file descriptors" not in proxy.stderr()


def test_clients_leave_the_last_descriptors_to_upstreams(start, start_upstream):
    proxy = start(policy(start_upstream()), descriptors=(N, N))
    with proxy.connect() as first:
        assert first.ask(path="/own").status == 200
        idle = [proxy.connect("127.0.0.2") for _ in range(N)]
        until(lambda: "connection evicted for a new one" in proxy.stderr(), "silent ones to give way")
        assert [first.ask().status for _ in range(3)] == [200] * 3, "there is one for the upstream"
        until(lambda: sum(not client.is_quiet(0) for client in idle) >= N // 4, "more than a few to give way")
        ended = [client for client in idle if not client.is_quiet(0) and client.has_ended()]
        refused = [client for client in idle if client not in ended and not client.is_quiet(0)]
        assert len(ended) > len(refused), "most newcomers find a place"
        assert all(client.read().status == 503 for client in refused), "and the others are told"
    for client in idle:
        client.close()
    until(lambda: proxy.ask(path="/own").status == 200, "room for new clients")


def hanging(released):
    """Answers at once, but for /slow."""
    def behave(peer, request):
        assert not request.target.startswith("/slow") or released.wait(60)
        peer.send(OK)
    return behave


def test_requests_leave_descriptors_to_accept_clients_with(start, start_upstream):
    released = threading.Event()
    upstream = start_upstream(hanging(released))
    proxy = start(policy(upstream), descriptors=(N, N))
    first, *others = [proxy.connect() for _ in range(N * 3 // 4 - proxy.n_descriptors())]
    assert all(client.ask(path="/own").status == 200 for client in [first, *others])
    for client in others:  # each takes one more, while there are any
        client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")

    def n_refused():
        return sum(line["status"] == "503" for line in proxy.all_log_lines())

    until(lambda: len(upstream.requests) + n_refused() == len(others), "each to wait for the server or be refused")
    with proxy.connect() as new:  # one that waits for its client gives way
        assert new.ask(path="/own").status == 200
    released.set()
    statuses = [client.read().status for client in others]
    assert statuses.count(200) == len(upstream.requests) >= N // 16 and statuses.count(503) == n_refused() > 0
    fault = next(line["fault"] for line in proxy.all_log_lines() if line["status"] == "503")
    assert fault == "no file descriptor is left for a connection to the upstream"
    assert "cannot accept" not in proxy.log_at_end()


def http2_policy(upstream, more=""):
    return f"listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}\nmax: {{streams: 50}}\n{policy(upstream)}{more}".replace(
        "\n        ", "\n")


def test_requests_of_one_client_leave_descriptors_to_those_of_others(start, start_upstream):
    released = threading.Event()
    upstream = start_upstream(hanging(released))
    proxy = start(http2_policy(upstream), descriptors=(4 * N, 4 * N))
    sources = [socket.create_connection(proxy.address, 30, source_address=("127.0.0.2", 0)) for _ in range(4)]
    clients = [Http2Client(None, sock=sock) for sock in sources]
    streams = [(client, [client.begin(path="/slow") for _ in range(50)]) for client in clients]
    for client in clients:
        client.pong()
    with Http2Client(proxy.address) as another:
        assert another.ask().status == 200
    released.set()
    answers = [client.answer(stream) for client, begun in streams for stream in begun]
    n_refused = sum(answer.reset == "REFUSED_STREAM" for answer in answers)
    assert N - 4 <= len(answers) - n_refused <= N + 4, "half of what servers may have"
    assert all(answer.reset or answer.status == 200 for answer in answers)
    assert "cannot accept" not in proxy.log_at_end()


def test_an_idle_connection_to_a_server_gives_way_to_one_to_another(start, start_upstream):
    released = threading.Event()
    one, other = start_upstream(hanging(released)), start_upstream()
    more = f"  - {{match: {{path: /other}}, upstream: {other.url}}}\n"
    proxy = start(http2_policy(one).replace("  - {upstream: api}\n", more + "  - {upstream: api}\n"), descriptors=(N, N))
    with Http2Client(proxy.address) as client:
        streams = [client.begin(path="/slow") for _ in range(50)]
        client.pong()
        released.set()
        answers = [client.answer(stream) for stream in streams]
        statuses = [answer.status for answer in answers]
        assert statuses.count(200) == N // 2 and statuses.count(503) == 50 - N // 2
        assert [client.ask(path="/other").status for _ in range(3)] == [200] * 3
    assert other.n_connections == 1


def limit(proxy, n):
    hard = resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (n, hard))


def test_out_of_descriptors_nothing_spins_and_what_is_there_goes_on(start, start_upstream):
    proxy = start(policy(start_upstream()), descriptors=(N, N))
    first = proxy.connect()
    assert first.ask(path="/own").status == 200
    limit(proxy, proxy.n_descriptors())
    waiting = [proxy.connect() for _ in range(20)]
    until(lambda: "cannot accept" in proxy.stderr(), "accepting to pause")

    cpu_before, started = proxy.cpu_s(), time.monotonic()
    while time.monotonic() - started < 1.5:
        assert first.ask(path="/own").status == 200
        time.sleep(0.05)
    share = (proxy.cpu_s() - cpu_before) / (time.monotonic() - started)
    assert share < 0.3, f"{share:.0%} of a processor"

    limit(proxy, N)
    assert [client.ask(path="/own").status for client in waiting] == [200] * 20
