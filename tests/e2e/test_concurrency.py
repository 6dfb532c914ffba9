"""Slots: so many requests at a time, given back however a request ends."""

import re
import threading
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.ports import free_port
from harness.upstream import answer
from harness.wait import until

IMPATIENT = "timeouts: {idle: 2s}"


class Scene:
    """An upstream that does what the path of a request says."""

    def __init__(self):
        self.opens = threading.Event()

    def __call__(self, peer, request):
        getattr(self, request.target[1:])(peer)

    def ok(self, peer):
        peer.send(answer())

    def gate(self, peer):
        self.opens.wait(20)
        peer.send(answer())

    def stream(self, peer):
        """A piece every now and then until the test opens the gate."""
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not self.opens.wait(0.05):
            peer.send(b"1\r\nx\r\n")
        peer.send(b"0\r\n\r\n")

    def flood(self, peer):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while True:
            peer.send(b"x" * 100000)

    def hang(self, peer):
        peer.hang()

    def refuse(self, peer):
        peer.close()

    def cut(self, peer):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        peer.reset()

    def garbage(self, peer):
        peer.send(b"this is not HTTP\r\n\r\n")

    def switch(self, peer):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        peer.hang()


@pytest.fixture(name="scene")
def scene_that_is_over_at_the_end():
    scene = Scene()
    yield scene
    scene.opens.set()


def slots(upstream_url, n=2, lease="1h", rest="", top="", limits="", response="1m"):
    """`n` slots for all requests. /look says how many are free, and holds one while it asks."""
    return f"""{top}
upstreams: {{api: {{servers: "{upstream_url}", buffer: off, timeout: {{response: {response}}}}}}}
limits:
  slots: {{key: global, algorithm: concurrency, rate: {n}, lease: {lease}}}
  {limits}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [slots{rest}], upstream: api, max_body: 1KiB}}
"""


def free(proxy):
    response = proxy.ask(path="/look")
    if response.status == 429:
        return 0
    return int(re.search(r'"slots";r=(\d+)', response.get("RateLimit"))[1]) + 1


def wait_for_free(proxy, n):
    until(lambda: free(proxy) == n, f"{n} free slots")


# --- taking ---


def test_as_many_as_there_are_slots_run_at_a_time(start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(upstream.url))
    clients = [proxy.send(message.request("GET", "/stream")) for _ in range(2)]
    upstream.wait_for(2)
    denied = proxy.ask(path="/ok")
    assert denied.status == 429 and denied.get("Retry-After") is None, "nobody knows when"
    assert denied.json()["violated-policies"] == ["slots"] and "retry-after" not in denied.json()
    assert denied.get("RateLimit-Policy") == '"slots";q=2;qu="concurrent-requests"'
    assert denied.get("RateLimit").startswith('"slots";r=0')
    scene.opens.set()
    assert [client.read().status for client in clients] == [200] * 2
    wait_for_free(proxy, 2)


def test_slots_are_of_all_proxies_together(start_sharing, start_upstream, scene):
    upstream = start_upstream(scene)
    proxies = [start_sharing(slots(upstream.url, n=3)) for _ in range(2)]
    clients = [proxies[i % 2].send(message.request("GET", "/stream")) for i in range(3)]
    upstream.wait_for(3)
    assert [proxy.ask(path="/ok").status for proxy in proxies] == [429] * 2
    scene.opens.set()
    assert [client.read().status for client in clients] == [200] * 3
    for proxy in proxies:
        wait_for_free(proxy, 3)


def test_a_slot_is_one_whatever_the_request_costs_otherwise(start_in_store, start_upstream):
    policy = slots(start_upstream().url, rest=", budget",
                   limits="budget: {key: global, rate: 100/day}")
    proxy = start_in_store(policy.replace("max_body:", "cost: 40, max_body:"))
    assert [proxy.ask().status for _ in range(3)] == [200, 200, 429]
    wait_for_free(proxy, 2)


# --- giving back ---


@pytest.mark.parametrize("path, status", [
    ("ok", 200), ("refuse", 502), ("cut", None), ("garbage", 502), ("switch", 502), ("hang", 504)])
def test_a_slot_comes_back_however_the_upstream_answers(
        start_in_store, start_upstream, scene, path, status):
    proxy = start_in_store(slots(start_upstream(scene).url, response="1500ms"))
    for _ in range(3):
        with proxy.send(message.request("GET", f"/{path}")) as client:
            try:
                assert client.read().status == status
            except message.Cut:
                assert status is None
        wait_for_free(proxy, 2)


def test_a_slot_comes_back_where_no_upstream_is(start_in_store):
    proxy = start_in_store(slots(f"http://127.0.0.1:{free_port()}"))
    assert [proxy.ask().status for _ in range(5)] == [502] * 5
    wait_for_free(proxy, 2)


BAD_REQUESTS = {
    "too_large": (message.request("POST", "/ok", {"Content-Length": "9999"}), 413),
    "too_large_in_pieces": (message.request("POST", "/ok", {"Transfer-Encoding": "chunked"}) +
                            message.chunked(b"x" * 600, b"x" * 600), 413),
    "bad_chunk": (message.request("POST", "/ok", {"Transfer-Encoding": "chunked"}) + b"zz\r\n",
                  400),
    "slow_body": (message.request("POST", "/ok", {"Content-Length": "99"}) + b"a part", 408),
}


@pytest.mark.parametrize("request_bytes, status", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_slot_comes_back_from_a_request_that_is_refused_on_its_way(
        start_in_store, start_upstream, scene, request_bytes, status):
    proxy = start_in_store(slots(start_upstream(scene).url, top=IMPATIENT, response="3s"))
    for _ in range(2):
        with proxy.send(request_bytes) as client:
            assert client.read().status == status
    wait_for_free(proxy, 2)


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("request_bytes", [
    message.request("GET", "/gate"),
    message.request("GET", "/stream"),
    message.request("GET", "/flood"),
    message.request("POST", "/ok", {"Content-Length": "99"}) + b"a part",
    message.request("GET", "/gate") + message.request("GET", "/ok"),
], ids=["waiting", "streaming", "not_reading", "sending", "pipelining"])
def test_a_slot_comes_back_when_its_client_leaves(
        start_in_store, start_upstream, scene, request_bytes, leave):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(upstream.url, n=1, response="1500ms"))
    client = proxy.send(request_bytes)
    until(lambda: upstream.n_connections > 0, "the upstream to be asked")  # it has its slot
    assert free(proxy) == 0
    getattr(client, leave)()
    wait_for_free(proxy, 1)


def test_a_request_whose_client_has_left_is_counted_until_its_server_has_ended_it(
        start, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start(slots(upstream.url, n=1, top="admin: 127.0.0.1:0"))

    def n_abandoned():
        page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
        return int(re.search(r"^sluice_abandoned_requests (\d+)$", page, re.MULTILINE).group(1))

    client = proxy.send(message.request("GET", "/gate"))
    upstream.wait_for(1)
    assert n_abandoned() == 0
    client.reset()
    until(lambda: n_abandoned() == 1, "the request to be abandoned")
    scene.opens.set()
    until(lambda: n_abandoned() == 0, "the answer")
    wait_for_free(proxy, 1)


def test_a_slot_comes_back_from_a_client_that_does_not_read(start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(upstream.url, n=1, top=IMPATIENT))
    proxy.send(message.request("GET", "/flood"))
    upstream.wait_for(1)  # it has its slot: nobody may ask before that
    wait_for_free(proxy, 1)


def test_a_slot_comes_back_from_a_client_that_is_held_no_longer(start_in_store, start_upstream):
    proxy = start_in_store(slots(
        start_upstream().url, n=3, rest=", queue", top="max: {held: 1}",
        limits="queue: {key: global, algorithm: leaky_bucket, rate: 2/h, max_wait: 1h}"), workers=1)
    assert proxy.ask(path="/first").status == 200
    wait_for_free(proxy, 3)
    held = proxy.send(message.request("GET", "/held"))
    wait_for_free(proxy, 2)
    assert proxy.ask(path="/full").status == 503
    wait_for_free(proxy, 2)
    held.reset()
    wait_for_free(proxy, 3)


def test_a_request_that_another_limit_denies_holds_no_slot(start_in_store, start_upstream):
    proxy = start_in_store(slots(start_upstream().url, rest=", few",
                                 limits="few: {key: global, rate: 1/day}"))
    assert [proxy.ask().status for _ in range(5)] == [200] + [429] * 4
    wait_for_free(proxy, 2)


def test_a_slot_comes_back_from_a_client_that_left_while_redis_was_asked(
        start_sharing, start_upstream):
    proxy = start_sharing(slots(start_upstream().url, n=1))
    redis = start_sharing.redis[0]
    wait_for_free(proxy, 1)
    redis.pause()
    client = proxy.send(message.request("GET", "/left"))
    assert client.is_quiet(0.1)
    client.reset()
    proxy.lines_of("/left", 1)
    redis.resume()
    wait_for_free(proxy, 1)


def test_a_proxy_that_stops_gives_its_slots_back(start_sharing, start_upstream, scene):
    upstream = start_upstream(scene)
    policy = slots(upstream.url, top="timeouts: {drain: 200ms}")
    stopping, staying = start_sharing(policy), start_sharing(policy)
    clients = [stopping.send(message.request("GET", "/gate")) for _ in range(2)]
    upstream.wait_for(2)
    assert free(staying) == 0
    stopping.signal()
    assert all(client.has_ended() for client in clients)
    assert stopping.wait() == 0
    wait_for_free(staying, 2)


# --- leases ---


def test_a_response_that_runs_longer_than_its_lease_keeps_its_slot(
        start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(upstream.url, n=1, lease="2s"))
    client = proxy.send(message.request("GET", "/stream"))
    upstream.wait_for(1)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert free(proxy) == 0
    scene.opens.set()
    assert client.read().status == 200
    wait_for_free(proxy, 1)


def test_the_slots_of_a_proxy_that_died_come_back_with_their_lease(
        start_sharing, start_upstream, scene):
    upstream = start_upstream(scene)
    policy = slots(upstream.url, n=2, lease="4s")
    dying, living = start_sharing(policy), start_sharing(policy)
    for _ in range(2):
        dying.send(message.request("GET", "/stream"))
    upstream.wait_for(2)
    dying.kill()
    died = time.monotonic()
    assert free(living) == 0
    wait_for_free(living, 2)
    assert time.monotonic() - died < 20
