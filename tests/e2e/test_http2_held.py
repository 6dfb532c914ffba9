"""Clients that do not read their answers, and the others on their connection to a server of HTTP/2."""

import textwrap
import time

import pytest

from hyperframe.frame import WindowUpdateFrame

from harness.http2_server import Http2Server
from harness.reload import reload
from harness.wait import until

BIG = 200_000  # bytes of an answer
MEMORY = 1_000_000  # of a connection, as Node's maxSessionMemory
REJECTED_MAX = 100  # requests in a row, as Node's maxSessionRejectedStreams
HOLDER = 9
LISTEN = "{address: 127.0.0.1:0, http: [2, 1.1]}"


class Node(Http2Server):
    """Behaves as Node's `http2` does: it holds what it cannot send, up to MEMORY of a connection, and then resets each
    new request there; too many in a row end the connection. What is left of an answer that is cut counts until then.
    `/big` is answered with BIG bytes, `/wait` never."""

    def __init__(self):
        super().__init__(self._answer, self._admit)
        self.rejected = []
        self.full = []  # connections on which no memory is left, whatever they hold
        self._n_in_a_row = {}

    def _admit(self, peer, request):
        if peer not in self.full and sum(peer.unsent.copy().values()) <= MEMORY:
            self._n_in_a_row[peer] = 0
            return
        self.rejected.append(request)
        self._n_in_a_row[peer] += 1
        if self._n_in_a_row[peer] > REJECTED_MAX:
            peer.close()
        else:
            peer.reset(request.stream, "ENHANCE_YOUR_CALM")

    def _answer(self, peer, request):
        if request in self.rejected:
            return
        if request.path == "/wait":
            return
        if request.path == "/big":
            peer.answer_in_time(request.stream, b"x" * BIG)
        else:
            peer.answer(request.stream)


@pytest.fixture(name="serve")
def a_server():
    servers = []

    def begin(server):
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.stop()
        assert not server.failures, server.failures


@pytest.fixture(name="node")
def a_node(serve):
    return serve(Node())


def rules(*servers, more=""):
    urls = ", ".join(f'"{server.url}"' for server in servers)
    return f"""
        workers: 1
        trusted_proxies: [127.0.0.1]
        upstreams: {{api: {{servers: [{urls}], min_download: off{more}}}}}
        limits: {{a: {{key: client.ip, algorithm: fixed_window, rate: 100/d, refund_on: [server_failed, 5xx]}}}}
        routes: [{{upstream: api, limits: [a]}}]
        """


def policy(*servers):
    return f"listen: {LISTEN}\n" + textwrap.dedent(rules(*servers))


def change_upstream(proxy, server):
    """The one before is another one then, which is freed with its last answer."""
    reload(proxy, rules(server, more=", timeout: {response: 19s}"), listen=LISTEN)


@pytest.fixture(name="proxy")
def a_proxy(start, node):
    return start(policy(node))


def of(address):
    return [("x-forwarded-for", f"198.51.100.{address}")]


def hold(connect, proxy, n=1, address=HOLDER, path="/big"):
    """Asks for big answers, and reads none: the client."""
    client = connect(proxy, settings={})  # windows of 64 KiB
    for _ in range(n):
        client.begin(path=path, more=of(address))
    return client


def wait_until_held(server, n, for_s=0.6):
    """The server waits, for so long, with the answers to @n requests: nothing more of them is taken."""
    server.wait_for(n)
    until(lambda: all(n_bytes < BIG for peer in server.peers for n_bytes in peer.unsent.copy().values()),
          "the answers to have begun")
    seen, since = None, 0.0

    def is_still():
        nonlocal seen, since
        unsent = [peer.unsent.copy() for peer in server.peers]
        if unsent != seen:
            seen, since = unsent, time.monotonic()
        return time.monotonic() - since > for_s

    until(is_still, "the answers to stand still")


def wait(for_s):
    begun = time.monotonic()
    until(lambda: time.monotonic() - begun > for_s, "the time to have passed")


def remaining(answer):
    return int(answer.fields["ratelimit"].split("r=")[1].split(";")[0])


def test_a_client_that_does_not_read_takes_nothing_from_others(node, proxy, connect):
    holder = hold(connect, proxy)
    wait_until_held(node, 1)
    while sum(node.peers[0].unsent.values()) <= MEMORY:
        n = len(node.requests)
        holder.begin(path="/big", more=of(HOLDER))
        wait_until_held(node, n + 1, for_s=0.1)
    other = connect(proxy)
    n_rejected = len(node.rejected)
    for i in range(20):
        for method in ("GET", "POST"):
            assert other.ask(method=method, path=f"/{method}{i}", more=of(i % 5)).status == 200
    assert len(node.rejected) == n_rejected


def test_others_share_another_connection(node, proxy, connect):
    hold(connect, proxy, 3)
    wait_until_held(node, 3)
    other = connect(proxy)
    for i in range(5):
        assert other.ask(path=f"/{i}", more=of(i)).status == 200
    assert [request.peer.number for request in node.requests] == [1] * 3 + [2] * 5


def test_a_client_that_does_not_read_stays_on_its_connection(node, proxy, connect):
    """Else each of its answers would take a connection from all."""
    hold(connect, proxy)
    hold(connect, proxy, address=8)
    wait_until_held(node, 2)
    for i in range(3):  # two clients are on the first connection: it is that of neither
        hold(connect, proxy)
        wait_until_held(node, 3 + i)
    assert connect(proxy).ask(more=of(1)).status == 200
    assert [request.peer.number for request in node.requests] == [1, 1, 2, 2, 2, 3]


def test_a_connection_whose_answers_are_read_is_shared_again(node, proxy, connect):
    client = hold(connect, proxy, 3)
    wait_until_held(node, 3)
    other = connect(proxy)
    assert other.ask(more=of(1)).status == 200
    client.send(*(WindowUpdateFrame(stream, window_increment=BIG) for stream in (0, 1, 3, 5) for _ in range(3)))
    assert [len(client.answer(stream).body) for stream in (1, 3, 5)] == [BIG] * 3
    node.peers[1].close()
    assert other.ask(path="/then", more=of(1)).status == 200
    assert [request.peer.number for request in node.requests] == [1, 1, 1, 2, 1]


def test_answers_that_are_read_share_a_connection(node, proxy, connect):
    reader, other = connect(proxy), connect(proxy)
    for _ in range(20):
        assert len(reader.ask(path="/big", more=of(8)).body) == BIG
        assert other.ask(more=of(1)).status == 200
    assert len(node.peers) == 1


def meet_full(node, proxy, connect, method):
    """A request that comes to a full connection: its answer."""
    hold(connect, proxy, path="/wait")
    node.wait_for(1)
    node.full.append(node.peers[0])
    answer = connect(proxy).ask(method=method, path="/other", more=of(1))
    assert [request.path for request in node.rejected] == ["/other"]
    return answer


def test_a_request_that_is_reset_beside_others_goes_on_a_connection_of_its_own(node, proxy, connect):
    answer = meet_full(node, proxy, connect, "GET")
    assert answer.status == 200 and remaining(answer) == 99
    other = connect(proxy)
    for i in range(3):
        assert other.ask(more=of(i)).status == 200
    assert len(node.rejected) == 1
    assert [request.peer.number for request in node.requests] == [1, 1, 2, 3, 3, 3]


def test_a_request_that_may_change_something_is_not_sent_twice(node, proxy, connect):
    assert meet_full(node, proxy, connect, "POST").status == 502
    answer = connect(proxy).ask(method="POST", path="/then", more=of(1))
    assert answer.status == 200 and remaining(answer) == 98
    assert len(node.requests) == 3


def test_a_client_that_fills_a_connection_has_its_own_then(node, proxy, connect):
    hold(connect, proxy)
    wait_until_held(node, 1)
    node.full.append(node.peers[0])
    client = connect(proxy)
    assert client.ask(more=of(HOLDER)).status == 200
    wait(0.3)
    assert [client.ask(more=of(address)).status for address in (HOLDER, 1, 2, HOLDER)] == [200] * 4
    assert [request.peer.number for request in node.requests] == [1, 1, 2, 2, 3, 3, 2]


def test_a_full_connection_is_left_when_nobody_else_uses_it(node, proxy, connect):
    other = connect(proxy)
    assert other.ask(more=of(1)).status == 200
    node.full.append(node.peers[0])
    assert [other.ask(more=of(1)).status for _ in range(3)] == [200] * 3
    assert [request.peer.number for request in node.requests] == [1, 1, 2, 3, 3]
    until(lambda: node.peers[0].is_closed, "the full one to end")


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_full_connection_ends_behind_a_reload(node, proxy, connect, is_cut):
    holder = hold(connect, proxy, path="/wait")
    node.wait_for(1)
    node.full.append(node.peers[0])
    assert connect(proxy).ask(more=of(1)).status == 200
    change_upstream(proxy, node)
    if is_cut:
        holder.reset(1)
    else:
        node.peers[0].answer(1)
        assert holder.answer(1).status == 200
    until(lambda: node.peers[0].is_closed, "the full one to end")
    assert connect(proxy).ask(more=of(1)).status == 200


def test_a_connection_of_several_that_do_not_read_ends_behind_a_reload(node, proxy, connect):
    holders = [hold(connect, proxy, address=address) for address in (7, 8)]
    wait_until_held(node, 2)
    assert connect(proxy).ask(more=of(1)).status == 200
    assert node.last.peer.number == 2
    change_upstream(proxy, node)
    for holder in holders:
        holder.reset(1)
    until(lambda: node.peers[0].is_closed, "their connection to end")
    assert connect(proxy).ask(more=of(1)).status == 200


def test_cut_answers_end_a_connection_once_one_was_full(node, proxy, connect):
    other = connect(proxy)
    holder = hold(connect, proxy, address=7)
    wait_until_held(node, 1, for_s=0)
    holder.reset(1)
    until(lambda: node.requests[0].reset == "CANCEL", "it to be cut")
    assert other.ask(more=of(1)).status == 200
    assert node.last.peer.number == 1
    node.full.append(node.peers[0])
    assert other.ask(more=of(1)).status == 200
    holder.begin(path="/big", more=of(7))
    wait_until_held(node, 5, for_s=0)
    assert node.last.peer.number == 3
    holder.reset(3)
    until(lambda: node.peers[2].is_closed, "its connection to end")
    assert other.ask(more=of(1)).status == 200


@pytest.mark.parametrize("n", [1, 2])
def test_a_request_that_is_reset_again_is_answered(start, serve, connect, n):
    servers = [serve(Http2Server(lambda peer, request: request.path == "/wait" or
                                 peer.reset(request.stream, "ENHANCE_YOUR_CALM"))) for _ in range(n)]
    client = connect(start(policy(*servers)))
    for _ in range(n):
        client.begin(path="/wait", more=of(8))
    until(lambda: all(server.requests for server in servers), "the others")
    answer = client.ask(more=of(1))
    assert answer.status == 502 and remaining(answer) == 99
    assert sum(len(server.requests) for server in servers) == n + 2
