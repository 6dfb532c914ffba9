"""Slots: so many requests at a time, given back however a request ends."""

import re
import threading
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.halt import threads_of
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


def metric(proxy, name):
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    return int(re.search(rf"^sluice_{re.escape(name)} (\d+)$", page, re.MULTILINE)[1])


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


@pytest.mark.takes(4)
@pytest.mark.parametrize("lose", ["lost", "outlived"])
def test_slots_that_redis_has_forgotten_are_taken_again(start_sharing, start_upstream, scene, lose):
    upstream = start_upstream(scene)
    proxy = start_sharing(slots(upstream.url, lease="3s"))
    redis = start_sharing.redis[0]
    clients = [proxy.send(message.request("GET", "/stream")) for _ in range(2)]
    upstream.wait_for(2)
    if lose == "lost":
        redis.call("FLUSHALL")
    else:
        redis.pause()
        time.sleep(4)
        redis.resume()
    time.sleep(2)  # a third of the lease, and some
    until(lambda: proxy.ask(path="/look").status != 503, "Redis")
    assert proxy.ask(path="/ok").status == 429
    scene.opens.set()
    assert [client.read().status for client in clients] == [200] * 2
    wait_for_free(proxy, 2)


def test_a_slot_is_one_whatever_the_request_costs_otherwise(start_in_store, start_upstream):
    policy = slots(start_upstream().url, rest=", budget",
                   limits="budget: {key: global, rate: 100/day}")
    proxy = start_in_store(policy.replace("max_body:", "cost: 40, max_body:"))
    assert [proxy.ask().status for _ in range(3)] == [200, 200, 429]
    wait_for_free(proxy, 2)


# --- giving back ---


TIMED_OUT = pytest.mark.takes(5)


@pytest.mark.parametrize("path, status", [
    ("ok", 200), ("refuse", 502), ("cut", None), pytest.param("garbage", 502, marks=TIMED_OUT),
    pytest.param("switch", 502, marks=TIMED_OUT), pytest.param("hang", 504, marks=TIMED_OUT)])
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
    "slow_body": pytest.param(message.request("POST", "/ok", {"Content-Length": "99"}) + b"a part", 408,
                              marks=pytest.mark.takes(7)),
}


@pytest.mark.parametrize("request_bytes, status", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_slot_comes_back_from_a_request_that_is_refused_on_its_way(
        start_in_store, start_upstream, scene, request_bytes, status):
    proxy = start_in_store(slots(start_upstream(scene).url, top=IMPATIENT, response="3s"))
    for _ in range(2):
        with proxy.send(request_bytes) as client:
            assert client.read().status == status
    wait_for_free(proxy, 2)


@pytest.mark.takes(2)
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


# A gateway's own answers, while the application's handler works on.
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Gateway:
    """Answers by itself when the head has come, or when the body breaks off."""

    def __init__(self):
        self.n = 0

    def __call__(self, peer, request):
        self.n += 1
        if request.target == "/lost":
            peer.send(BAD_GATEWAY)
        elif request.target == "/large":
            peer.send(TOO_LARGE)
        else:
            peer.sock.settimeout(10)
            while peer.sock.recv(65536):
                pass
            peer.send(BAD_GATEWAY)


@pytest.mark.takes(3)
@pytest.mark.parametrize("path, status, sent", [("lost", 502, None), ("large", 413, b"a part"),
                                                ("cut", None, b"a part")])
def test_a_gateways_own_answer_does_not_free_a_slot_of_its_application(
        start_in_store, start_upstream, path, status, sent):
    gateway = Gateway()
    proxy = start_in_store(slots(start_upstream(gateway, reads_body=False).url, response="3s"))
    head = (message.request("GET", f"/{path}") if sent is None else
            message.request("POST", f"/{path}", {"Content-Length": "99"}) + sent)
    for n in (1, 2):
        with proxy.send(head) as client:
            if status is not None:
                assert client.read().status == status
            else:
                until(lambda n=n: gateway.n == n, "the gateway to be asked")
                client.reset()
    time.sleep(0.5)
    assert free(proxy) == 0
    assert proxy.ask(path=f"/{path}").status == 429
    wait_for_free(proxy, 2)


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


@pytest.mark.takes(3)
def test_a_slot_comes_back_from_a_client_that_does_not_read(start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(upstream.url, n=1, top=IMPATIENT))
    proxy.send(message.request("GET", "/flood"))
    upstream.wait_for(1)  # it has its slot: nobody may ask before that
    wait_for_free(proxy, 1)


def test_a_slot_comes_back_from_a_client_that_is_held_no_longer(start_in_store, start_upstream):
    proxy = start_in_store(slots(
        start_upstream().url, n=3, rest=", queue", top="admin: 127.0.0.1:0\nmax: {held: 1}",
        limits="queue: {key: global, algorithm: leaky_bucket, rate: 2/h, max_wait: 1h}"), workers=1)
    assert proxy.ask(path="/first").status == 200
    wait_for_free(proxy, 3)
    held = proxy.send(message.request("GET", "/held"))
    until(lambda: metric(proxy, "held_requests") == 1, "the request to be held")
    wait_for_free(proxy, 3)
    assert proxy.ask(path="/full").status == 503
    held.reset()
    until(lambda: metric(proxy, "held_requests") == 0, "the request to be gone")
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


@pytest.mark.takes(4)
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


def n_wakeups(proxy, seconds):
    """How often threads of it gave up a processor to wait, in so many seconds."""
    def read():
        n = 0
        for thread in threads_of(proxy.process.pid):
            with open(f"/proc/{proxy.process.pid}/task/{thread}/status", encoding="ascii") as status:
                n += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)[1])
        return n

    before = read()
    time.sleep(seconds)
    return read() - before


@pytest.mark.takes(5)
def test_a_proxy_sleeps_while_no_slot_is_held_and_renews_the_next_one(start, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start(slots(upstream.url, n=1, lease="1s", top="workers: 1"))
    assert n_wakeups(proxy, 1) < 25, "it looks for slots to renew 62 times a second while one is held"
    client = proxy.send(message.request("GET", "/gate"))
    upstream.wait_for(1)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert free(proxy) == 0
        time.sleep(0.05)
    scene.opens.set()
    assert client.read().status == 200
    wait_for_free(proxy, 1)
    assert n_wakeups(proxy, 1) < 25


@pytest.mark.takes(4)
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


# --- while a request waits ---


BODY_BYTES = 10
UPLOAD = message.request("POST", "/ok", {"Content-Length": str(BODY_BYTES)})


def awaiting(upstream_url, slots_key="global", wait="1m"):
    """Two slots, 10 requests a day, and bodies that are awaited before a server is chosen."""
    return f"""admin: 127.0.0.1:0
upstreams: {{api: {{servers: "{upstream_url}", buffer: {{wait: {wait}}}}}}}
limits:
  slots: {{key: {slots_key}, algorithm: concurrency, rate: 2}}
  few: {{key: global, algorithm: fixed_window, rate: 10/day}}
  tries: {{key: global, algorithm: fixed_window, rate: 100/day, charge_denied: true}}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{match: {{path: /left}}, limits: [few], respond: {{status: 204}}}}
  - {{match: {{path: /tried}}, limits: [tries], respond: {{status: 204}}}}
  - {{limits: [slots, few, tries], upstream: api}}
"""


def remaining(proxy, path, name):
    return int(re.search(rf'"{name}";r=(\d+)', proxy.ask(path=path).get("RateLimit"))[1])


def begin_uploads(proxy, n):
    """One after another: each has a slot until it is known that it waits."""
    clients = []
    for i in range(n):
        clients.append(proxy.send(UPLOAD))
        until(lambda: metric(proxy, "buffering_requests") == i + 1, "the body to be awaited")
    return clients


def test_a_request_whose_body_is_awaited_has_no_slot(start_in_store, start_upstream, scene):
    proxy = start_in_store(awaiting(start_upstream(scene).url))
    clients = begin_uploads(proxy, 8)
    wait_for_free(proxy, 2)
    assert [proxy.ask(path="/ok").status for _ in range(2)] == [200] * 2
    for client in clients[:4]:
        client.send(bytes(BODY_BYTES))
        assert client.read().status == 200
    for client in clients[4:]:
        client.reset()
    until(lambda: metric(proxy, "buffering_requests") == 0, "the clients to be gone")
    wait_for_free(proxy, 2)
    line = proxy.lines_of("/ok", 10)[-1]
    assert line["verdict"] == "allowed"


def test_a_body_takes_its_slot_when_it_has_come(start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(awaiting(upstream.url))
    [client] = begin_uploads(proxy, 1)
    client.send(bytes(1))
    wait_for_free(proxy, 2)
    client.send(bytes(BODY_BYTES - 1))
    assert client.read().status == 200
    client.send(message.request("POST", "/stream", {"Content-Length": "1"}))
    until(lambda: metric(proxy, "buffering_requests") == 1, "the body to be awaited")
    client.send(b"x")
    wait_for_free(proxy, 1)
    scene.opens.set()
    assert client.read().status == 200
    wait_for_free(proxy, 2)


def test_a_body_that_finds_no_slot_is_denied_and_costs_nothing(start_in_store, start_upstream,
                                                               scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(awaiting(upstream.url))
    clients = begin_uploads(proxy, 2)
    streams = [proxy.send(message.request("GET", "/stream")) for _ in range(2)]
    upstream.wait_for(2)
    before, tried = remaining(proxy, "/left", "few"), remaining(proxy, "/tried", "tries")
    for client in clients:
        client.send(bytes(BODY_BYTES))
        denied = client.read()
        assert denied.status == 429 and denied.json()["violated-policies"] == ["slots"]
        assert denied.get("Retry-After") is None
    assert remaining(proxy, "/left", "few") == before - 1 + 2
    assert remaining(proxy, "/tried", "tries") == tried - 1, "it charges what is denied"
    lines = proxy.lines_of("/ok", 2)
    assert [(line["verdict"], line["limit"]) for line in lines] == [("denied", "slots")] * 2
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    assert re.search(r'^sluice_decisions_total{limit="slots",verdict="denied",.*} 2$', page,
                     re.MULTILINE)
    assert len(upstream.requests) == 2
    scene.opens.set()
    assert [stream.read().status for stream in streams] == [200] * 2
    wait_for_free(proxy, 2)
    with clients[0] as client:
        assert client.ask(path="/ok").status == 200, "the connection goes on"


def test_a_body_that_does_not_come_in_time_takes_a_slot_with_its_server(
        start_in_store, start_upstream, scene):
    proxy = start_in_store(awaiting(start_upstream(scene, reads_body=False).url, wait="300ms"))
    with proxy.send(message.request("POST", "/stream", {"Content-Length": "9999"}) + bytes(9)):
        wait_for_free(proxy, 1)
    scene.opens.set()
    wait_for_free(proxy, 2)


def test_a_slot_of_a_client_alone_is_kept_while_its_body_is_awaited(start_in_store, start_upstream,
                                                                    scene):
    proxy = start_in_store(awaiting(start_upstream(scene).url, slots_key="client.ip"))
    clients = begin_uploads(proxy, 2)
    assert proxy.ask(path="/ok").status == 429
    for client in clients:
        client.send(bytes(BODY_BYTES))
        assert client.read().status == 200
    wait_for_free(proxy, 2)


@pytest.mark.takes(6)
def test_a_held_request_takes_its_slot_when_it_departs(start_in_store, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_in_store(slots(
        upstream.url, n=1, rest=", queue", top="admin: 127.0.0.1:0",
        limits="queue: {key: global, algorithm: leaky_bucket, rate: 30/m, max_wait: 1m}"), workers=1)
    assert proxy.ask(path="/ok").status == 200
    held = []
    for i in range(3):
        held.append(proxy.send(message.request("GET", "/stream")))
        until(lambda: metric(proxy, "held_requests") == i + 1, "the request to be held")
    wait_for_free(proxy, 1)
    upstream.wait_for(2)
    statuses = [client.read().status for client in held[1:]]
    assert statuses == [429] * 2, "the first of them has the slot"
    scene.opens.set()
    assert held[0].read().status == 200
    wait_for_free(proxy, 1)


def test_a_client_that_leaves_while_its_slot_is_asked_for_again_keeps_none(
        start_sharing, start_upstream, scene):
    proxy = start_sharing(awaiting(start_upstream(scene).url))
    redis = start_sharing.redis[0]
    [client] = begin_uploads(proxy, 1)
    before = remaining(proxy, "/left", "few")
    redis.pause()
    client.send(bytes(BODY_BYTES))
    assert client.is_quiet(0.1)
    client.reset()
    proxy.lines_of("/ok", 1)
    redis.resume()
    wait_for_free(proxy, 2)
    assert remaining(proxy, "/left", "few") == before - 1, "a request that was admitted"


def test_a_body_whose_slot_cannot_be_decided_is_refused(start_sharing, start_upstream, scene):
    upstream = start_upstream(scene)
    proxy = start_sharing(awaiting(upstream.url))
    [client] = begin_uploads(proxy, 1)
    start_sharing.redis[0].stop()
    client.send(bytes(BODY_BYTES))
    assert client.read().status == 503
    [line] = proxy.lines_of("/ok", 1)
    assert line["verdict"] == "undecided" and not upstream.requests
