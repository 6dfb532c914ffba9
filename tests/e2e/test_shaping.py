"""leaky_bucket with max_wait: requests are held rather than refused, and leave in order."""

import os
import re
import time

import pytest

from harness import message
from harness.admin import Admin, addresses
from harness.upstream import answer
from harness.wait import Stalls, until

CLOCKS_S = 0.002  # the store's clock and ours are not the same one
STALL_S = 3.0  # of one thread


class Arrivals:
    """An upstream's behaviour that notes when each request came."""

    def __init__(self):
        self.at = {}

    def __call__(self, peer, request):
        self.at[request.target] = time.monotonic()
        peer.send(answer())


def shaping(upstream, rate="10/s", max_wait="2s", rest="", top="", more=""):
    return f"""{top}
admin: 127.0.0.1:0
upstreams: {{api: {{servers: "{upstream.url}"{more}}}}}
limits: {{queue: {{key: global, algorithm: leaky_bucket, rate: {rate}, max_wait: {max_wait}}}}}
routes: [{{limits: [queue], upstream: api{rest}}}]
"""


def await_held(proxy, n):
    """So many are held: a request that was sent may not have been read."""
    operator = Admin(addresses(proxy)[0])

    def n_held():
        page = operator.ask(path="/metrics").body.decode()
        return int(re.search(r"^sluice_held_requests (\d+)$", page, re.MULTILINE).group(1))

    until(lambda: n_held() == n, f"{n} to be held")


def send_in_turn(proxies, n):
    """n requests /0, /1 …, each on a connection of its own, taken by the proxies in turn."""
    clients = []
    for i in range(n):
        clients.append(proxies[i % len(proxies)].send(message.request("GET", f"/{i}")))
        time.sleep(0.02)  # a worker judges them in this order, two do it where none of them stalls
    return clients


def assert_kept_apart(arrivals, n, started, gap_s, stalls):
    """All came, none before its departure, and the last not long after. A server that stalled notes them in
    any order."""
    assert sorted(arrivals.at) == sorted(f"/{i}" for i in range(n))
    for i, at in enumerate(sorted(arrivals.at.values())):
        assert at >= started + i * gap_s - CLOCKS_S, f"number {i} was early"
    assert max(arrivals.at.values()) < started + n * gap_s + STALL_S + stalls.total_s


@pytest.mark.takes(4)
def test_held_requests_leave_in_order_and_never_early(start_in_store, start_upstream):
    """One connection, which who left first has first, shows the order. A reply of the store that comes later
    than others by a gap would change it."""
    arrivals = Arrivals()
    upstream = start_upstream(arrivals)
    proxy = start_in_store(shaping(upstream, rate="2/4s", max_wait="10s",
                                   more=", max_connections: 1, queue: {wait: 1m}"), workers=1)
    with Stalls() as stalls:
        started = time.monotonic()
        clients = send_in_turn([proxy], 3)
        responses = [client.read() for client in clients]
    assert [response.status for response in responses] == [200] * 3
    assert_kept_apart(arrivals, 3, started, 2, stalls)
    assert [request.target for request in upstream.requests] == ["/0", "/1", "/2"]
    assert responses[0].get("RateLimit-Policy") == '"queue";q=2;w=4'
    assert "held_us" not in proxy.lines_of("/0", 1)[0]


def test_two_proxies_keep_the_gaps_together(start_sharing, start_upstream):
    arrivals = Arrivals()
    policy = shaping(start_upstream(arrivals))
    proxies = [start_sharing(policy) for _ in range(2)]
    with Stalls() as stalls:
        started = time.monotonic()
        clients = send_in_turn(proxies, 10)
        assert [client.read().status for client in clients] == [200] * 10
    assert_kept_apart(arrivals, 10, started, 0.1, stalls)


def test_the_gap_after_a_request_is_by_its_cost(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rest=", cost: 3"))
    with Stalls() as stalls:
        started = time.monotonic()
        clients = send_in_turn([proxy], 4)
        assert [client.read().status for client in clients] == [200] * 4
    assert_kept_apart(arrivals, 4, started, 0.3, stalls)


@pytest.mark.takes(6)
def test_what_would_wait_too_long_is_refused_until_it_would_not(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rate="1/3s", max_wait="3s"), workers=1)
    clients = send_in_turn([proxy], 2)
    denied = proxy.ask(path="/2")
    wait_s = int(denied.get("Retry-After"))
    assert denied.status == 429 and 1 <= wait_s <= 3
    assert denied.json()["violated-policies"] == ["queue"]
    assert denied.get("RateLimit") == f'"queue";r=0;t={wait_s}'
    time.sleep(wait_s)
    assert proxy.ask(path="/3").status == 200
    assert [client.read().status for client in clients] == [200] * 2
    assert sorted(arrivals.at) == ["/0", "/1", "/3"]


def test_an_answer_of_our_own_is_held_too(start_in_store):
    proxy = start_in_store("""
        limits: {queue: {key: global, algorithm: leaky_bucket, rate: 2/s, max_wait: 1s}}
        routes: [{limits: [queue], respond: {status: 204}}]
    """)
    started = time.monotonic()
    assert [proxy.ask().status for _ in range(3)] == [204] * 3
    assert time.monotonic() - started >= 1 - CLOCKS_S


def test_pipelined_requests_are_held_one_after_another(start, start_upstream):
    arrivals = Arrivals()
    proxy = start(shaping(start_upstream(arrivals)))
    with Stalls() as stalls:
        started = time.monotonic()
        client = proxy.send(b"".join(message.request("GET", f"/{i}") for i in range(4)))
        assert [client.read().status for _ in range(4)] == [200] * 4
    assert_kept_apart(arrivals, 4, started, 0.1, stalls)


@pytest.mark.takes(4)
def test_waiting_for_a_departure_is_not_idling(start, start_upstream):
    proxy = start(shaping(start_upstream(), rate="1/4s", max_wait="4s",
                          top="timeouts: {head: 2s, idle: 2s}"))
    clients = send_in_turn([proxy], 2)
    assert [client.read().status for client in clients] == [200, 200]


# --- bodies ---

BEGUN = {"length": {"Content-Length": "1"}, "chunked": {"Transfer-Encoding": "chunked"},
         "expect": {"Content-Length": "1", "Expect": "100-continue"},
         "expect_chunked": {"Transfer-Encoding": "chunked", "Expect": "100-continue"},
         "expect_long": {"Content-Length": "65537", "Expect": "100-continue"}}
REST = {"length": b"x", "chunked": b"1\r\nx\r\n0\r\n\r\n", "expect": b"x",
        "expect_chunked": b"1\r\nx\r\n0\r\n\r\n", "expect_long": b"x" * 65537}


def metric(proxy, name):
    page = Admin(addresses(proxy)[0]).ask(path="/metrics").body.decode()
    return int(re.search(rf"^sluice_{name} (\d+)$", page, re.MULTILINE).group(1))


@pytest.mark.parametrize("body", BEGUN)
def test_bodies_that_come_late_all_at_once_leave_apart(start_in_store, start_upstream, body):
    """The departure is granted when the body has come: one that is missed could be made up for."""
    arrivals = Arrivals()
    upstream = start_upstream(arrivals)
    proxy = start_in_store(shaping(upstream, rest=", buffer: {wait: 1m}"))
    clients = [proxy.send(message.request("POST", f"/{i}", BEGUN[body], None)) for i in range(10)]
    until(lambda: metric(proxy, "buffering_requests") == 10, "all of them to be awaited")
    time.sleep(1)  # as long as they would be held
    with Stalls() as stalls:
        started = time.monotonic()
        for client in clients:
            client.send(REST[body])
        responses = [client.read() for client in clients]
        if "Expect" in BEGUN[body]:
            assert {response.status for response in responses} == {100}
            responses = [client.read() for client in clients]
    assert [response.status for response in responses] == [200] * 10
    assert_kept_apart(arrivals, 10, started, 0.1, stalls)
    assert all(request.get("Expect") is None for request in upstream.requests)


def test_what_is_not_buffered_leaves_at_its_departure(start, start_upstream):
    def at_head(peer, request):
        arrivals(peer, request)
        peer.read_body(request)

    arrivals = Arrivals()
    upstream = start_upstream(at_head, reads_body=False)
    proxy = start(shaping(upstream, rest=", buffer: off"))
    with Stalls() as stalls:
        started = time.monotonic()
        clients = [proxy.send(message.request("POST", f"/{i}", BEGUN["length"], None)) for i in range(5)]
        assert [client.read().status for client in clients] == [200] * 5
    assert_kept_apart(arrivals, 5, started, 0.1, stalls)


def test_a_body_that_never_comes_takes_no_departure_and_no_quota(start_in_store, start_upstream):
    proxy = start_in_store("""
        admin: 127.0.0.1:0
        upstreams: {api: {servers: "%s", buffer: {wait: 200ms}}}
        limits:
          queue: {key: global, algorithm: leaky_bucket, rate: 1/10m, max_wait: 1h}
          day: {key: client.ip, algorithm: fixed_window, rate: 10/day}
        routes: [{limits: [queue, day], upstream: api}]
    """ % start_upstream().url)
    late = proxy.send(message.request("POST", "/late", BEGUN["length"], None))
    assert late.read().status == 408
    gone = proxy.send(message.request("POST", "/gone", BEGUN["length"], None))
    until(lambda: metric(proxy, "buffering_requests") == 1, "it to be awaited")
    gone.close()
    assert [proxy.lines_of(path, 1)[0]["verdict"] for path in ("/late", "/gone")] == ["none", "none"]
    served = proxy.ask()
    assert served.status == 200 and '"day";r=9' in served.get("RateLimit")


def test_what_is_denied_is_denied_when_its_body_has_come(start, start_upstream):
    upstream = start_upstream()
    proxy = start(shaping(upstream, rate="1/10m", max_wait="1s"))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("POST", "/denied", BEGUN["length"], None))
    assert client.is_quiet(0.2)
    client.send(b"x")
    assert client.read().status == 429
    assert client.ask(path="/next").status == 429, "the connection goes on"
    assert len(upstream.requests) == 1 and metric(proxy, "buffered_bytes") == 0


# --- several values ---


def cookies(upstream, max_wait):
    return f"""
        admin: 127.0.0.1:0
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        limits:
          queue: {{key: cookie.sid, algorithm: leaky_bucket, rate: 10/s, max_wait: {max_wait}}}
          day: {{key: client.ip, algorithm: fixed_window, rate: 100/day}}
        routes: [{{limits: [queue, day], upstream: api}}]
    """


def test_a_browser_with_two_cookies_of_one_name_is_held_as_others(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(cookies(start_upstream(arrivals), "5s"), workers=1)
    with Stalls() as stalls:
        started = time.monotonic()
        clients = []
        for i in range(6):
            clients.append(proxy.send(message.request("GET", f"/{i}", {"Cookie": "sid=a; sid=b"})))
            time.sleep(0.02)
        assert [client.read().status for client in clients] == [200] * 6
    assert_kept_apart(arrivals, 6, started, 0.1, stalls)


def test_two_values_whose_departures_are_apart_are_refused(start_in_store, start_upstream):
    """Held until the later departure, those of the other value would leave together."""
    upstream = start_upstream()
    proxy = start_in_store(cookies(upstream, "1h"), workers=1)
    held = [proxy.send(message.request("GET", "/b", {"Cookie": "sid=b"})) for _ in range(40)]
    until(lambda: metric(proxy, "held_requests") + len(upstream.requests) == 40, "all to be held")
    refused = [proxy.ask(path="/torn", fields={"Cookie": "sid=a; sid=b"}) for _ in range(3)]
    assert [answer.status for answer in refused] == [400] * 3
    assert "differing" in refused[0].json()["detail"]
    line = proxy.lines_of("/torn", 3)[0]
    assert "differing" in line["fault"] and "held_us" not in line
    alone = proxy.ask(fields={"Cookie": "sid=c"})
    assert alone.status == 200 and '"day";r=56' in alone.get("RateLimit"), "other limits count it"
    for client in held:
        client.close()


PAID = ["charge_on: [2xx]", "refund_on: [400, 503]", "refund_on: [4xx, 5xx]", "refund_on: [client_left, server_failed]"]


@pytest.mark.parametrize("own", ["", *PAID])
@pytest.mark.parametrize("value", ["", "a"], ids=["missing", "of another"])
def test_places_by_two_values_are_paid_by_a_limit_of_the_clients_own(start_in_store, start_upstream, own, value):
    """A request that is refused for departures that are apart keeps its place in the queue of each value."""
    proxy = start_in_store(cookies(start_upstream(), "100s").replace("rate: 10/s", "rate: 1/10s").replace(
        "algorithm: fixed_window, rate: 100/day", f"rate: 3/day, {own}"), workers=1)
    _waiting = [send_from(proxy, f"127.0.1.{i}", "/", {"Cookie": f"sid={value}"}) for i in range(4)]
    until(lambda: metric(proxy, "held_requests") == 3, "all but one to be held")
    torn = [send_from(proxy, "127.0.0.9", "/torn", {"Cookie": f"sid={value}; sid={i}"}).read() for i in range(12)]
    assert [answer.status for answer in torn] == [400] * 3 + [429] * 9
    assert {line["limit"] for line in proxy.lines_of("/torn", 12)[3:]} == {"day"}
    _other = send_from(proxy, "127.0.0.8", "/", {"Cookie": f"sid={value}"})
    until(lambda: metric(proxy, "held_requests") == 4, "there is a place for another client")


def test_behind_its_departure_a_request_without_a_server_is_given_back(start_in_store, tmp_path):
    """Held or not: an outage is not the client's."""
    proxy = start_in_store(f"""
        upstreams: {{api: {{servers: "unix:{tmp_path}/nobody", eject: off}}}}
        limits:
          own: {{key: client.ip, algorithm: fixed_window, rate: 10/day, refund_on: [502, 503]}}
          queue: {{key: global, algorithm: leaky_bucket, rate: 5/s, max_wait: 4s}}
        routes: [{{limits: [own, queue], upstream: api}}]
        """, workers=1)
    answers = [proxy.ask(path=f"/{i}") for i in range(4)]
    assert [(answer.status, '"own";r=9' in answer.get("RateLimit")) for answer in answers] == [(502, True)] * 4
    assert "held_us" in proxy.lines_of("/3", 1)[0]


# --- who does not wait for it ---

LONG = {"rate": "1/10m", "max_wait": "1h"}


@pytest.mark.parametrize("leave", ["close", "reset", "end"])
@pytest.mark.parametrize("request_bytes", [
    message.request("GET", "/held"),
    message.request("POST", "/held", body=b"all of it"),
    message.request("POST", "/held", {"Content-Length": "99"}) + b"a part",
    message.request("GET", "/held") + message.request("GET", "/next"),
], ids=["get", "post", "part_of_a_body", "pipelined"])
def test_a_client_that_leaves_is_held_no_longer(start, start_upstream, leave, request_bytes):
    upstream = start_upstream()
    proxy = start(shaping(upstream, **LONG, rest=", buffer: off"))
    assert proxy.ask().status == 200
    client = proxy.send(request_bytes)
    await_held(proxy, 1)
    getattr(client, leave)()
    line = proxy.lines_of("/held", 1)[0]
    assert (line["status"], line["fault"]) == ("0", "the client left")
    assert int(line["held_us"]) < 60e6
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("leave", ["close", "reset", "end"])
def test_a_client_that_leaves_behind_bytes_that_nobody_reads_is_held_no_longer(
        start, start_upstream, leave):
    upstream = start_upstream()
    proxy = start(shaping(upstream, **LONG, rest=", buffer: off"))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("POST", "/held", {"Content-Length": "99"}))
    await_held(proxy, 1)
    for _ in range(2):
        assert client.is_quiet(0.05)
        client.send(b"a part")
    assert client.is_quiet(0.05)
    getattr(client, leave)()
    assert proxy.lines_of("/held", 1)[0]["fault"] == "the client left"
    assert len(upstream.requests) == 1


def test_who_leaves_the_queue_of_all_is_counted_by_a_limit_of_its_own(start, start_upstream):
    text = shaping(start_upstream(), **LONG).replace(
        "limits: {", "limits: {own: {key: client.ip, algorithm: fixed_window, rate: 3/day, charge_on: [401]}, "
    ).replace("limits: [queue]", "limits: [own, queue]")
    proxy = start(text)
    assert proxy.ask().status == 200, "which is given back"
    for _ in range(3):
        client = proxy.send(message.request("GET", "/held"))
        await_held(proxy, 1)
        client.close()
        await_held(proxy, 0)
    denied = proxy.ask()
    assert (denied.status, proxy.lines_of("/", 2)[1]["limit"]) == (429, "own")


@pytest.mark.parametrize("buffer", ["64KiB", "1KiB", "off"])
def test_what_a_held_client_sends_on_is_passed_on_after_its_departure(start, start_upstream, buffer):
    upstream = start_upstream()
    proxy = start(shaping(upstream, rate="2/s", rest=f", buffer: {buffer}"))
    assert proxy.ask().status == 200
    part = b"a part" * 256
    client = proxy.send(message.request("POST", "/held", {"Content-Length": str(2 * len(part))}))
    for _ in range(2):
        assert client.is_quiet(0.05)
        client.send(part)
    assert client.read().status == 200
    assert upstream.last.body == part * 2
    assert client.ask(path="/next").status == 200


def test_more_than_max_held_is_503_until_somebody_leaves(start, start_upstream):
    proxy = start(shaping(start_upstream(), **LONG, top="max: {held: 2}\nworkers: 1"))
    assert proxy.ask().status == 200
    held = [send_from(proxy, f"127.0.0.{2 + i}", f"/{i}") for i in range(2)]  # each client has its share
    await_held(proxy, 2)
    refused = proxy.ask(path="/refused")
    assert refused.status == 503 and refused.get("Content-Type") == "application/problem+json"
    assert refused.get("Retry-After") == "1"
    held[0].reset()
    proxy.lines_of("/0", 1)
    later = proxy.send(message.request("GET", "/3"))
    await_held(proxy, 2)
    assert later.is_quiet(0.2) and held[1].is_quiet(0)


LONGER = {"rate": "1/1m", "max_wait": "1h"}  # sixty have room, also those that are refused a place


def send_from(proxy, source, path="/held", fields=()):
    client = proxy.connect(source)
    client.send(message.request("GET", path, fields, None))
    return client


def n_served(clients):
    """How many have an answer: they were not held."""
    return sum(not client.is_quiet(0) for client in clients)


def test_a_few_clients_do_not_fill_max_held(start, start_upstream):
    n_max = 40
    proxy = start(shaping(start_upstream(), **LONGER, top=f"max: {{held: {n_max}}}\nworkers: 1"))
    assert proxy.ask().status == 200
    n_held = 0
    for source, share in (("127.0.0.2", 20), ("127.0.0.3", 10), ("127.0.0.4", 5), ("127.0.0.5", 3)):
        clients = [send_from(proxy, source) for _ in range(share + 2)]
        until(lambda clients=clients: n_served(clients) == 2, "its share to be held")
        answers = [client.read() for client in clients if not client.is_quiet(0)]
        assert {answer.status for answer in answers} == {503}
        n_held += share
        await_held(proxy, n_held)
    for source in ("127.0.0.6", "127.0.0.7"):
        assert send_from(proxy, source).is_quiet(0.2), "there is a place for another client"
    faults = {line.get("fault") for line in proxy.all_log_lines() if line["status"] == "503"}
    assert faults == {"too many requests of this client are held already"}


@pytest.mark.parametrize("own", PAID)
def test_places_beyond_a_share_of_max_held_are_paid_by_a_limit_of_the_clients_own(start_in_store, start_upstream, own):
    """It is 503 behind the decision: its place in the queue of all is gone."""
    text = shaping(start_upstream(), **LONGER, top="max: {held: 4}").replace(
        "limits: {", f"limits: {{own: {{key: client.ip, rate: 9/day, {own}}}, ").replace("[queue]", "[own, queue]")
    proxy = start_in_store(text, workers=1)
    assert send_from(proxy, "127.0.0.2").read().status == 200
    clients = [send_from(proxy, "127.0.0.9") for _ in range(2)]
    await_held(proxy, 2)
    clients = [send_from(proxy, "127.0.0.9", "/beyond") for _ in range(9)]
    assert sorted(client.read().status for client in clients) == [429] * 2 + [503] * 7
    assert {line.get("limit") for line in proxy.lines_of("/beyond", 9) if line["status"] == "429"} == {"own"}


def test_a_share_is_free_again_when_its_requests_have_gone(start, start_upstream):
    proxy = start(shaping(start_upstream(), **LONGER, top="max: {held: 4}\nworkers: 1"))
    assert proxy.ask().status == 200
    for _ in range(3):
        held = [send_from(proxy, "127.0.0.2") for _ in range(2)]
        await_held(proxy, 2)
        assert send_from(proxy, "127.0.0.2").read().status == 503
        for client in held:
            client.reset()
        await_held(proxy, 0)


def test_a_48_of_ipv6_has_one_share_and_a_proxy_that_names_nobody_has_all(start, start_upstream):
    n_max = 20
    proxy = start(shaping(start_upstream(), **LONGER,
                          top=f"max: {{held: {n_max}}}\nworkers: 1\ntrusted_proxies: [127.0.0.1]"))
    assert proxy.ask().status == 200
    named = [send_from(proxy, "127.0.0.1", fields={"X-Forwarded-For": f"2001:db8:1:{i}::1"}) for i in range(n_max)]
    await_held(proxy, n_max // 2)
    unnamed = [send_from(proxy, "127.0.0.1") for _ in range(n_max // 2)]
    await_held(proxy, n_max)
    assert n_served(named) == n_max // 2 and n_served(unnamed) == 0


def test_a_held_request_costs_no_thread(start, start_upstream):
    proxy = start(shaping(start_upstream(), **LONG))
    assert proxy.ask().status == 200
    n_threads = []
    for n_before, n_held in ((0, 1), (1, 6)):
        for _ in range(n_before, n_held):
            proxy.send(message.request("GET", "/held"))
        await_held(proxy, n_held)
        n_threads.append(len(os.listdir(f"/proc/{proxy.process.pid}/task")))
    assert n_threads[0] == n_threads[1]


# --- the end of the proxy ---


def test_a_drain_waits_for_departures(start_in_store, start_upstream):
    arrivals = Arrivals()
    proxy = start_in_store(shaping(start_upstream(arrivals), rate="1/3s", max_wait="3s"), workers=1)
    clients = send_in_turn([proxy], 2)
    assert clients[0].read().status == 200
    proxy.signal()
    assert clients[1].read().status == 200
    assert clients[1].has_ended()
    assert proxy.wait() == 0
    assert arrivals.at["/1"] - arrivals.at["/0"] > 0.9


def test_a_drain_that_is_over_cuts_who_is_held(start_in_store, start_upstream):
    upstream = start_upstream()
    proxy = start_in_store(shaping(upstream, **LONG, top="timeouts: {drain: 200ms}"))
    assert proxy.ask().status == 200
    client = proxy.send(message.request("GET", "/held"))
    await_held(proxy, 1)
    proxy.signal()
    assert client.has_ended()
    assert proxy.wait() == 0
    until(lambda: proxy.lines_of("/held", 1), "the line of the one that was held")
    assert len(upstream.requests) == 1
