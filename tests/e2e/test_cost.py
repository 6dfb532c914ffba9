"""What a request takes of its limits: said before, or learnt from its answer and settled then."""

import re
import threading
import time

import pytest

from harness import message
from harness.http2_server import Http2Server
from harness.upstream import answer
from harness.wait import rest_of_window, until


def left(response):
    """What is left of each limit."""
    return {name: int(r)
            for name, r in re.findall(r'"([^"]+)";r=(\d+)', response.get("RateLimit"))}


def budget(upstream=None, cost="1", limit="rate: 100/day", top="", look_status=204, response="1m"):
    """A limit `budget` of 100 a day. /look says what is left of it."""
    action = "respond: {status: 204}"
    if upstream is not None:
        top += f"\nupstreams: {{api: {{servers: '{upstream.url}', timeout: {{response: {response}}}}}}}"
        action = "upstream: api"
    return f"""{top}
limits: {{budget: {{key: header.x-id, {limit}}}}}
defaults: {{limits: [budget]}}
routes:
  - {{match: {{path: /look}}, respond: {{status: {look_status}}}}}
  - {{cost: {cost}, {action}}}
"""


def wait_for_left(proxy, wanted, who="a"):
    """Wait until so much is left. Settlements are on their way when the answer is; each look takes
    one itself, so that they are less and less frequent."""
    seen = []

    def is_there():
        time.sleep(min(1, 0.005 * 2 ** len(seen)))
        response = proxy.ask(path="/look", fields={"X-Id": who})
        seen.append(left(response)["budget"] + 1 + len(seen))
        return seen[-1] == wanted

    try:
        until(is_there, f"{wanted} left")
    except AssertionError:
        raise AssertionError(f"{wanted} should be left, not {seen[0]}, then {seen[-1]}") from None


# --- said by the policy or the request ---


def test_a_limit_of_a_route_may_have_a_cost_of_its_own(start_in_store):
    proxy = start_in_store("""
limits:
  requests: {key: header.x-id, rate: 100/day}
  quota: {key: header.x-id, rate: 20/day}
routes:
  - {match: {path: /heavy}, cost: {POST: 3, default: 2}, limits: [requests, {name: quota, cost: 7}],
     respond: {status: 204}}
  - {limits: [requests, quota], respond: {status: 204}}
""")

    def ask(method, path):
        response = proxy.ask(method, path, fields={"X-Id": "a"})
        return response.status, left(response)
    assert ask("GET", "/heavy") == (204, {"requests": 98, "quota": 13})
    assert ask("POST", "/heavy") == (204, {"requests": 95, "quota": 6})
    assert ask("GET", "/heavy") == (429, {"requests": 95, "quota": 6}), "7 do not fit in"
    assert ask("GET", "/light") == (204, {"requests": 94, "quota": 5})


def test_what_the_response_says_leaves_a_cost_of_its_own_as_it_is(start_in_store, start_upstream):
    upstream = start_upstream(say_tokens)
    proxy = start_in_store(f"""
upstreams: {{api: {{servers: '{upstream.url}'}}}}
limits:
  budget: {{key: header.x-id, rate: 100/day}}
  requests: {{key: header.x-id, rate: 50/day}}
defaults: {{limits: [budget, {{name: requests, cost: 1}}]}}
routes:
  - {{match: {{path: /look}}, respond: {{status: 204}}}}
  - {{cost: {{from: response.header.x-tokens, estimate: 5}}, upstream: api}}
""")
    assert left(proxy.ask(fields={"X-Id": "a", "X-Say": "30"})) == {"budget": 95, "requests": 49}
    wait_for_left(proxy, 70)
    seen = left(proxy.ask(path="/look", fields={"X-Id": "a"}))
    assert 70 - seen["budget"] == 49 - seen["requests"], "each look takes one of both"


def test_a_cost_by_method_is_taken_for_each_method(start_in_store):
    proxy = start_in_store(budget(cost="{POST: 30, GET: 10, default: 2}"))
    for method, taken in (("POST", 30), ("GET", 40), ("DELETE", 42), ("LIST", 44), ("POST", 74)):
        response = proxy.ask(method, fields={"X-Id": "a"})
        assert (response.status, left(response)) == (204, {"budget": 100 - taken})
    assert proxy.ask("POST", fields={"X-Id": "a"}).status == 429
    assert proxy.ask("GET", fields={"X-Id": "a"}).status == 204


@pytest.mark.parametrize("words", [
    "token_bucket", "leaky_bucket", "gcra", "fixed_window", "fixed_window, align: first",
    "sliding_window", "sliding_log"])
def test_a_cost_is_taken_whole_or_not_at_all(start_in_store, words):
    proxy = start_in_store(budget(cost="40", limit=f"algorithm: {words}, rate: 100/day"))
    rest_of_window(86400 / 10, at_least_s=10)
    responses = [proxy.ask(fields={"X-Id": "a"}) for _ in range(4)]
    assert [response.status for response in responses] == [204, 204, 429, 429]
    assert [left(response)["budget"] for response in responses] == [60, 20, 20, 20]
    wait_for_left(proxy, 20)


@pytest.mark.parametrize("said, taken", [
    (["1"], 1), (["7"], 7), (["007"], 7), (["20"], 20), (["21"], 20),
    (["99999999999999999999999999"], 20), (["0"], 20), (["-1"], 20), (["+5"], 20), (["5.0"], 20),
    (["5 5"], 20), (["0x5"], 20), (["five"], 20), ([""], 20), (["5, 5"], 20),
    ([], 20)])
def test_a_cost_that_anybody_may_say_is_bounded_and_the_most_where_it_makes_no_sense(
        start, said, taken):
    proxy = start(budget(cost="{from: header.x-cost, max: 20, trust: any}"))
    fields = [("X-Id", "a")] + [("X-Cost", value) for value in said]
    assert left(proxy.ask(fields=fields)) == {"budget": 100 - taken}


def test_a_cost_on_two_lines_is_refused_since_servers_may_join_them(start):
    proxy = start(budget(cost="{from: header.x-cost, max: 20, trust: any}"))
    for said in ("5", "6"):
        fields = [("X-Id", "a"), ("X-Cost", "5"), ("X-Cost", said)]
        assert proxy.ask(fields=fields).status == 400


def test_a_cost_is_believed_of_trusted_proxies_alone(start):
    proxy = start(budget(cost="{from: header.x-cost, max: 20}",
                         top="trusted_proxies: [127.0.0.2]"))
    fields = {"X-Id": "a", "X-Cost": "3"}
    assert left(proxy.ask(fields=fields, source="127.0.0.2")) == {"budget": 97}
    assert left(proxy.ask(fields=fields)) == {"budget": 77}
    fields["X-Forwarded-For"] = "127.0.0.2"
    assert left(proxy.ask(fields=fields)) == {"budget": 57}, "its word is not its address"


# --- said by the response ---

TOKENS = "{from: response.header.x-tokens, estimate: 30, max: 50%s}"


def say_tokens(peer, request):
    """Answer with the X-Tokens that the request asks for."""
    peer.send(answer(fields=[("X-Tokens", value) for value in request.all("X-Say")]))


GET_A = b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nX-Say: %s\r\n\r\n"


def test_a_client_that_leaves_pays_what_the_response_says(start_in_store, start_upstream):
    released = threading.Event()

    def behave(peer, request):
        assert released.wait(60)
        say_tokens(peer, request)

    upstream = start_upstream(behave)
    proxy = start_in_store(budget(upstream, TOKENS % ""))
    for n, say in enumerate([b"12", b"3"]):
        client = proxy.send(GET_A % say)
        upstream.wait_for(n + 1)
        client.reset()
        until(lambda n=n: len(proxy.all_log_lines()) > n, "the client to be gone")
    released.set()
    wait_for_left(proxy, 85)


def test_a_client_that_leaves_a_server_of_http2_pays_what_the_response_says(start_in_store):
    server = Http2Server(behave=lambda peer, request: None)
    proxy = start_in_store(budget(server, TOKENS % ""))
    client = proxy.send(GET_A % b"12")
    server.wait_for(1)
    client.reset()
    until(proxy.all_log_lines, "the client to be gone")
    request = server.last
    assert request.reset is None
    request.peer.head(request.stream, fields=[("x-tokens", "12")])
    wait_for_left(proxy, 88)
    until(lambda: request.reset == "CANCEL", "the stream to be reset")  # there is no slot to be held
    server.stop()


def test_a_slow_client_of_a_server_of_http2_that_closes_pays_the_most(start_in_store):
    """As by HTTP/1.1: no response says what it costs."""
    server = Http2Server(behave=lambda peer, request: None, on_head=lambda peer, request: None)
    proxy = start_in_store(budget(server, TOKENS % "").replace("response: 1m}", "response: 1m}, buffer: off"))
    client = proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nContent-Length: 9\r\n\r\nx")
    request = server.wait_for(1)
    time.sleep(1.5)  # the client is waited for
    request.peer.close()
    assert client.read().status == 408
    wait_for_left(proxy, 50)
    server.stop()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("method, code, taken", [
    ("POST", "PROTOCOL_ERROR", 50), ("POST", "INTERNAL_ERROR", 50), ("GET", "INTERNAL_ERROR", 50),
    ("POST", "REFUSED_STREAM", 30)])
def test_a_request_whose_stream_its_server_resets_pays_the_most(start, left, method, code, taken):
    """Its handler may work on, and no response says what that costs."""
    gate = threading.Event()

    def behave(peer, request):
        assert gate.wait(60)
        peer.reset(request.stream, code)

    server = Http2Server(behave=behave)
    proxy = start(budget(server, TOKENS % ""))
    client = proxy.send(message.request(method, "/", {"X-Id": "a", "Content-Length": "0"}))
    server.wait_for(1)
    if left:
        client.reset()
        until(proxy.all_log_lines, "the client to be gone")
    gate.set()
    if not left:
        assert client.read().status == 502
    wait_for_left(proxy, 50 if left else 100 - taken)
    server.stop()


@pytest.mark.parametrize("end", ["close", "hang", "garbage", "long", "gateway"])
def test_where_the_response_never_says_it_the_most_is_charged(start_in_store, start_upstream, end):
    """It is the client's doing that nothing can be read."""
    left_behind = threading.Event()

    def behave(peer, request):
        if end == "long":
            peer.send(answer(fields=[("X-Long", request.get("X-Say") * 100)] * 100))
            return
        if end == "gateway":
            peer.send(answer("502 Bad Gateway"))
            return
        assert left_behind.wait(60)
        if end == "garbage":
            peer.send(b"HTTP/1.1 200 OK\r\nX\r\n\r\n")
        elif end == "hang":
            peer.hang()
        peer.close()

    upstream = start_upstream(behave)
    proxy = start_in_store(budget(upstream, TOKENS % "", response="1s"))
    client = proxy.send(GET_A % (b"x" * 100))
    upstream.wait_for(1)
    if end in ("long", "gateway"):
        assert client.read().status == 502
    else:
        client.reset()
        until(proxy.all_log_lines, "the client to be gone")
    left_behind.set()
    wait_for_left(proxy, 50)


@pytest.mark.parametrize("end, status, n_sent", [("close", 502, 1), ("hang", 504, 1)])
def test_a_client_that_waits_for_what_never_comes_pays_the_most(start_in_store, start_upstream, end, status, n_sent):
    """A request that takes longer than its server allows has its work done, too."""
    def behave(peer, request):
        if end == "close":
            time.sleep(0.4)
        elif end == "hang":
            peer.hang()
        peer.close()

    upstreams = [start_upstream(behave), start_upstream(behave)]
    proxy = start_in_store(budget(upstreams[0], TOKENS % "", response="1s").replace(
        f"'{upstreams[0].url}'", f"['{upstreams[0].url}', '{upstreams[1].url}']"))
    assert proxy.ask(fields={"X-Id": "a"}).status == status
    wait_for_left(proxy, 50)
    assert sum(len(upstream.requests) for upstream in upstreams) == n_sent


def test_a_slow_upload_that_its_server_does_not_answer_pays_the_most(start_in_store, start_upstream):
    """The server works when all is there, and its time limit is over."""
    proxy = start_in_store(budget(start_upstream(lambda peer, _: peer.close()), TOKENS % "").replace(
        "response: 1m}", "response: 1m}, buffer: off"))
    client = proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nContent-Length: 9\r\n\r\nx")
    time.sleep(1.5)  # the client is waited for
    client.send(b"12345678")
    assert client.read().status == 502
    wait_for_left(proxy, 50)


def test_a_client_that_leaves_before_a_server_has_its_request_pays_the_estimate(start_in_store, start_upstream):
    upstream = start_upstream()
    proxy = start_in_store(budget(upstream, TOKENS % "").replace("response: 1m}", "response: 1m}, buffer: {wait: 1m}"))
    client = proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nContent-Length: 9\r\n\r\nx")
    assert client.is_quiet()
    client.reset()
    until(proxy.all_log_lines, "the client to be gone")
    wait_for_left(proxy, 70)
    assert not upstream.requests


@pytest.mark.parametrize("words", [
    "token_bucket", "leaky_bucket", "gcra", "fixed_window", "fixed_window, align: first",
    "sliding_window", "sliding_log"])
def test_what_the_response_says_replaces_the_estimate(start_in_store, start_upstream, words):
    upstream = start_upstream(say_tokens)
    proxy = start_in_store(budget(upstream, TOKENS % "", f"algorithm: {words}, rate: 100/day"))
    rest_of_window(86400 / 10, at_least_s=10)
    response = proxy.ask(fields={"X-Id": "a", "X-Say": "12"})
    assert response.status == 200 and left(response) == {"budget": 70}
    assert response.get("X-Tokens") == "12"
    wait_for_left(proxy, 88)
    proxy.ask(fields={"X-Id": "b", "X-Say": "41"})
    wait_for_left(proxy, 59, "b")
    proxy.ask(fields={"X-Id": "c", "X-Say": "0"})
    wait_for_left(proxy, 100, "c")


@pytest.mark.parametrize("said, taken", [
    (["50"], 50), (["51"], 50), (["999999999999999999999"], 50), ([], 30), (["-5"], 30),
    (["x"], 30), (["1.5"], 30), ([""], 30), (["4", "4"], 4), (["4", "5"], 30)])
def test_a_response_takes_its_most_at_most_and_its_estimate_where_it_makes_no_sense(
        start, start_upstream, said, taken):
    upstream = start_upstream(say_tokens)
    proxy = start(budget(upstream, TOKENS % ""))
    fields = [("X-Id", "a")] + [("X-Say", value) for value in said]
    assert proxy.ask(fields=fields).status == 200
    wait_for_left(proxy, 100 - taken)


def test_the_field_is_hidden_from_the_client_where_the_policy_says_so(start, start_upstream):
    upstream = start_upstream(say_tokens)
    proxy = start(budget(upstream, TOKENS % ", strip: true"))
    response = proxy.ask(fields=[("X-Id", "a"), ("X-Say", "5")])
    assert response.status == 200 and response.get("X-Tokens") is None
    response = proxy.ask(fields=[("X-Id", "a"), ("X-Say", "x"), ("X-Say", "y")])
    assert response.all("X-Tokens") == []
    wait_for_left(proxy, 65)


def test_it_is_hidden_in_interim_responses_too(start, start_upstream):
    def behave(peer, request):
        peer.send(b"HTTP/1.1 103 Early Hints\r\nX-Tokens: 5\r\nLink: </a>\r\n\r\n")
        say_tokens(peer, request)

    proxy = start(budget(start_upstream(behave), TOKENS % ", strip: true"))
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\nX-Say: 5\r\n\r\n")
    interim = client.reader.head()
    assert b" 103 " in interim and b"Link" in interim and b"X-Tokens" not in interim
    assert client.read().get("X-Tokens") is None


class Gate:
    """An upstream that answers with X-Tokens when the test says so."""

    def __init__(self, response):
        self.response = response
        self.opens = threading.Event()

    def __call__(self, peer, request):
        self.opens.wait(20)
        peer.send(self.response)


def test_the_estimate_is_reserved_so_that_concurrent_requests_cannot_overspend(
        start_in_store, start_upstream):
    gate = Gate(answer(fields=[("X-Tokens", "2")]))
    upstream = start_upstream(gate)
    proxy = start_in_store(budget(upstream, TOKENS % ""))
    clients = [proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\n\r\n") for _ in range(3)]
    upstream.wait_for(3)
    assert proxy.ask(fields={"X-Id": "a"}).status == 429
    gate.opens.set()
    assert [client.read().status for client in clients] == [200] * 3
    wait_for_left(proxy, 94)


@pytest.mark.parametrize("a_day, tokens", [(60, 50), (50000, 50000)])  # 50,000 a day: a coarser unit of time
def test_costs_beyond_the_limit_have_to_be_earned_again(start_in_store, start_upstream, a_day, tokens):
    gate = Gate(answer(fields=[("X-Tokens", str(tokens))]))
    upstream = start_upstream(gate)
    cost = f"{{from: response.header.x-tokens, estimate: 30, max: {tokens}}}"
    proxy = start_in_store(budget(upstream, cost, f"rate: {a_day}/day"))
    clients = [proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\n\r\n") for _ in range(2)]
    upstream.wait_for(2)
    gate.opens.set()
    assert [client.read().status for client in clients] == [200] * 2

    def wait_s():
        return int(proxy.ask(path="/look", fields={"X-Id": "a"}).get("Retry-After"))

    overdrawn_s = (2 * tokens - a_day + 1) * 86400 // a_day
    until(lambda: overdrawn_s - 30 < wait_s() <= overdrawn_s, "both settlements")


ALGORITHMS = ["token_bucket", "leaky_bucket", "gcra", "fixed_window", "fixed_window, align: first",
              "sliding_window", "sliding_log"]


class Open:
    """An upstream whose answer says in its head that it costs 50, and ends when the test says so."""

    def __init__(self, status="200 OK", breaks_off=False):
        self.breaks_off = breaks_off
        self.head = f"HTTP/1.1 {status}\r\nX-Tokens: 50\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode()
        self.ends = threading.Event()

    def __call__(self, peer, request):
        peer.send(self.head)
        self.ends.wait(60)
        if self.breaks_off:
            peer.close()
        else:
            peer.send(b"0\r\n\r\n")


@pytest.mark.parametrize("words", ALGORITHMS)
def test_what_answers_say_counts_while_they_are_kept_open(start_in_store, start_upstream, words):
    behave = Open()
    upstream = start_upstream(behave)
    proxy = start_in_store(budget(upstream, "{from: response.header.x-tokens, estimate: 1, max: 50}",
                                  f"algorithm: {words}, rate: 100/day"), workers=1)  # one link to Redis
    rest_of_window(86400 / 10, at_least_s=20)
    clients = []
    for _ in range(2):
        clients.append(proxy.send(GET_A % b""))
        assert b" 200 " in clients[-1].reader.head()
    assert proxy.ask(fields={"X-Id": "a"}).status == 429, "nothing is left behind two heads"
    behave.ends.set()
    proxy.ask(fields={"X-Id": "b"})
    wait_for_left(proxy, 50, "b")
    assert proxy.ask(fields={"X-Id": "a"}).status == 429, "once, and for good"
    for client in clients:
        client.reset()


def open_answer(start_in_store, upstream, words, lists):
    """A proxy, and a client that asks for an answer which says its cost and does not end."""
    proxy = start_in_store(budget(upstream, "{from: response.header.x-tokens, estimate: 10, max: 50}",
                                  f"algorithm: {words}, rate: 100/day, {lists}"), workers=1)
    rest_of_window(86400 / 10, at_least_s=20)
    return proxy, proxy.send(GET_A % b"")


@pytest.mark.parametrize("given_back", ["charge_on: [2xx]", "refund_on: [404]"])
@pytest.mark.parametrize("words", ALGORITHMS)
def test_an_open_answer_that_is_given_back_has_its_estimate_alone(
        start_in_store, start_upstream, words, given_back):
    behave = Open("404 Not Found")
    proxy, client = open_answer(start_in_store, start_upstream(behave), words, given_back)
    assert b" 404 " in client.reader.head()
    assert left(proxy.ask(path="/look", fields={"X-Id": "a"})) == {"budget": 89}
    client.reset()  # who leaves it pays for it
    wait_for_left(proxy, 49)
    behave.ends.set()


@pytest.mark.parametrize("words", ALGORITHMS)
def test_an_answer_that_is_given_back_frees_no_charges_of_others(start_in_store, start_upstream, words):
    def say(peer, request):
        peer.send(answer(request.get("X-Status"), [("X-Tokens", request.get("X-Say"))]))
    upstream = start_upstream(say)
    proxy = start_in_store(budget(upstream, "{from: response.header.x-tokens, estimate: 1, max: 500}",
                                  f"algorithm: {words}, rate: 100/day, charge_on: [2xx]"), workers=1)
    rest_of_window(86400 / 10, at_least_s=20)
    fields = {"X-Id": "a", "X-Status": "200 OK", "X-Say": "90"}
    assert proxy.ask(fields=fields).status == 200
    wait_for_left(proxy, 10)
    fields.update({"X-Status": "400 Bad Request", "X-Say": "500"})
    for _ in range(2):
        assert proxy.ask(fields=fields).status in (400, 429)
        time.sleep(0.3)
    assert left(proxy.ask(path="/look", fields={"X-Id": "a"}))["budget"] < 10


@pytest.mark.parametrize("words", ALGORITHMS)
def test_what_an_open_answer_has_taken_is_given_back_whole_at_its_end(start_in_store, start_upstream, words):
    behave = Open(breaks_off=True)
    proxy, client = open_answer(start_in_store, start_upstream(behave), words, "refund_on: [server_failed]")
    assert b" 200 " in client.reader.head()
    assert left(proxy.ask(path="/look", fields={"X-Id": "a"})) == {"budget": 49}
    behave.ends.set()
    wait_for_left(proxy, 99)
    client.reset()


WINDOWS = {"fixed": "algorithm: fixed_window", "first": "algorithm: fixed_window, align: first",
           "sliding": "algorithm: sliding_window", "strict": "algorithm: sliding_window, strict: true",
           "log": "algorithm: sliding_log"}


@pytest.mark.takes(9)
def test_what_the_response_says_counts_when_it_says_it_though_the_window_of_the_request_is_over(
        start_in_store, start_upstream):
    period_s = 5
    gate = Gate(answer(fields=[("X-Tokens", "50")]))
    upstream = start_upstream(gate)
    limits = "".join(f"\n  {name}: {{key: header.x-id, {words}, rate: 100/{period_s}s}}"
                     for name, words in WINDOWS.items())
    proxy = start_in_store(f"""
upstreams: {{api: {{servers: '{upstream.url}'}}}}
limits:{limits}
defaults: {{limits: [{", ".join(WINDOWS)}]}}
routes:
  - {{match: {{path: /look}}, respond: {{status: 204}}}}
  - {{cost: {TOKENS % ""}, upstream: api}}
""")
    client = proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: a\r\n\r\n")
    upstream.wait_for(1)
    time.sleep(period_s * 1.2)  # nothing of the request counts any more
    rest_of_window(period_s, at_least_s=4)
    gate.opens.set()
    assert client.read().status == 200
    n_looks = 0

    def all_have_it():
        nonlocal n_looks
        n_looks += 1
        seen = left(proxy.ask(path="/look", fields={"X-Id": "a"}))
        return all(seen[name] == 100 - (50 - 30) - n_looks for name in WINDOWS)

    until(all_have_it, "all limits to have what the response said", within=4)  # its window


@pytest.mark.takes(10)
def test_answers_that_take_longer_than_the_window_keep_to_the_rate(start_in_store, start_upstream):
    """Each takes 1.2 s and says 20, of 10 in a second: whoever never had to wait would have 16 a second."""
    names = ["token_bucket", *WINDOWS]

    def behave(peer, request):
        time.sleep(1.2)
        peer.send(answer(fields=[("X-Tokens", "20")]))

    upstream = start_upstream(behave)
    limits = "".join(f"\n  {name}: {{key: client.ip, {WINDOWS.get(name, f'algorithm: {name}')}, rate: 10/1s}}"
                     for name in names)
    routes = "".join(f"\n  - {{match: {{path: /{name}}}, limits: [{name}], upstream: api,"
                     " cost: {from: response.header.x-tokens, estimate: 1, max: 20}}" for name in names)
    proxy = start_in_store(f"""
upstreams: {{api: {{servers: '{upstream.url}'}}}}
limits:{limits}
routes:{routes}
""")
    said = dict.fromkeys(names, 0)
    started = time.monotonic()
    over = {}

    def ask_on(name):
        while time.monotonic() - started < 9:
            said[name] += 20 * (proxy.ask(path=f"/{name}").status == 200)
            time.sleep(0.02)
        over[name] = time.monotonic()

    threads = [threading.Thread(target=ask_on, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        assert 0 < said[name] <= 10 * (over[name] - started) + 40, said


# --- answers that count, answers that are refunded ---


def say(peer, request):
    """Answer with the status that the path says, or do what it says instead."""
    word = request.target[1:]
    if word == "cut":
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        peer.close()
    elif word == "close":
        peer.close()
    elif word == "interim":
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.close()
    elif word == "half":
        peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Le")
        peer.close()
    elif word == "hang":
        peer.hang()
    elif word in ("cut500", "cut502"):
        peer.send(f"HTTP/1.1 {word[3:]} Said\r\nContent-Length: 10\r\n\r\nhalf".encode())
        peer.close()
    elif word == "control":
        peer.send(b"HTTP/1.1 200 OK\r\nX: \x01\r\nContent-Length: 0\r\n\r\n")
    else:
        peer.send(answer(f"{word} Said"))


HANGS = pytest.mark.takes(3)


@pytest.mark.parametrize("words, look_status, charged, free", [
    pytest.param("charge_on: [401, 403]", 401, ["401", "403", "406", "500", "cut500", "close", "hang"],
                 ["200", "304", "404", "cut"],
                 marks=HANGS),
    pytest.param("charge_on: [4xx, server_failed]", 404, ["404", "499", "501", "503", "close", "cut", "hang"],
                 ["200", "301"], marks=HANGS),
    ("charge_on: [401], refund_on: [406, 5xx]", 401, ["502", "401"], ["406", "500", "cut500"]),
    pytest.param("refund_on: [5xx, server_failed]", 204, ["200", "404", "502", "503", "504", "control"],
                 ["500", "501", "close", "cut", "hang"], marks=HANGS),
    ("refund_on: [502]", 204, ["200", "504", "503"], ["502", "control"]),
    pytest.param("charge_on: [2xx]", 204,
                 ["200", "406", "500", "505", "502", "503", "504", "control", "cut502", "close", "hang", "interim",
                  "half", "304"], ["404"], marks=HANGS),
    ("charge_on: [2xx], refund_on: [304]", 204, ["200", "206"], ["304", "404"]),
    pytest.param("charge_on: [2xx], refund_on: [server_failed]", 204, ["200", "502"], ["404", "close", "hang"],
                 marks=HANGS),
    ("charge_on: [2xx], refund_on: [502, 504]", 204, ["200", "500"], ["502", "504", "control"]),
    ("charge_on: [5xx]", 204, ["500", "501", "502"], ["200", "404", "406"]),
    ("refund_on: [4xx]", 204, ["200", "406", "413", "500"], ["400", "404"]),
    ("refund_on: [304, 404]", 204, ["200", "500", "close", "cut"], ["404"]),
    ("charge_on: [2xx, 5xx], refund_on: [503]", 204, ["200", "500", "close"], ["404", "503"]),
])
def test_answers_are_charged_and_given_back_as_the_limit_says(
        start_in_store, start_upstream, words, look_status, charged, free):
    upstream = start_upstream(say)
    proxy = start_in_store(budget(upstream, "5", f"rate: 100/day, {words}",
                                  look_status=look_status, response="3s"))
    for word in charged + free:
        with proxy.connect() as client:
            client.send(message.request("GET", f"/{word}", {"X-Id": word}))
            try:
                while (status := client.read().status) == 100:
                    pass
                assert status in (200, 502, 504) or word.isdigit()
            except message.Cut:
                assert word.startswith("cut")
    for word in charged + free:
        wait_for_left(proxy, 95 if word in charged else 100, word)


def test_attempts_are_reserved_while_they_are_under_way(start_in_store, start_upstream):
    gate = Gate(answer("200 OK"))
    upstream = start_upstream(gate)
    proxy = start_in_store(budget(upstream, limit="rate: 3/day, charge_on: [401, 403]"))
    clients = [proxy.send(message.request("POST", "/login", {"X-Id": "a"}, b""))
               for _ in range(3)]
    upstream.wait_for(3)
    assert proxy.ask("POST", "/login", {"X-Id": "a"}).status == 429, "three at once, no more"
    gate.opens.set()
    assert [client.read().status for client in clients] == [200] * 3
    until(lambda: proxy.ask("POST", "/login", {"X-Id": "a"}).status == 200, "the settlement")


def test_failed_logins_run_out_and_good_ones_do_not(start_in_store, start_upstream):
    upstream = start_upstream(say)
    proxy = start_in_store(budget(upstream, limit="algorithm: fixed_window, rate: 3/day, "
                                                  "charge_on: [401, 403]"))
    rest_of_window(86400, at_least_s=10)

    def attempt(word):
        return proxy.ask("POST", f"/{word}", {"X-Id": "a"}, b"").status

    for _ in range(2):
        for word in ("200", "200", "200", "401"):
            until(lambda: attempt(word) == int(word), f"{word} to be let in")
    until(lambda: attempt("403") == 403, "the last one")
    assert {attempt("200") for _ in range(5)} == {429}


def test_what_is_never_settled_stays_charged(start_sharing, start_upstream):
    gate = Gate(answer(fields=[("X-Tokens", "1")]))
    upstream = start_upstream(gate)
    policy = budget(upstream, TOKENS % "", "rate: 100/day, refund_on: [server_failed]")
    dying, living = start_sharing(policy), start_sharing(policy)
    dying.send(message.request("GET", "/", {"X-Id": "a"}))
    upstream.wait_for(1)
    dying.kill()
    gate.opens.set()
    wait_for_left(living, 70)
