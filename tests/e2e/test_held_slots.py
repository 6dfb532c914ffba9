"""With hold_slots: true the policy says that handlers work on: a request that failed at a server keeps its slot for the
time of an answer, whether its client stays or leaves."""

import re
import time

import pytest
from hyperframe.frame import GoAwayFrame

from harness import message
from harness.ports import free_port
from harness.wait import until

SLOTS = 2
POST = message.request("POST", "/work", body=b"a")


def policy(*servers, hold=True, more="", rate="1000/day", cost=""):
    return f"""
upstreams:
  api: {{servers: [{', '.join(f"'{url}'" for url in servers)}], timeout: {{response: 2s}}, hold_slots: {str(hold).lower()}{more}}}
limits:
  slots: {{key: global, algorithm: concurrency, rate: {SLOTS}}}
  charged: {{key: global, algorithm: fixed_window, rate: {rate}}}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [slots, charged], upstream: api{cost}}}
"""


def free(proxy):
    response = proxy.ask(path="/look")
    return 0 if response.status == 429 else int(re.search(r';r=(\d+)', response.get("RateLimit"))[1]) + 1


def wait_for_free(proxy, n):
    until(lambda: free(proxy) == n, f"{n} free slots")


def closing(peer, _):
    """As Node does at the time of its server.setTimeout(): its handler works on."""
    peer.close()


def end_in_order(peer, stream):
    """As Node's HTTP/2 does then."""
    peer.send(GoAwayFrame(0, last_stream_id=stream))
    peer.close()


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
def test_a_server_that_closes_without_an_answer(start, start_upstream, hold):
    upstream = start_upstream(closing)
    proxy = start(policy(upstream.url, hold=hold))
    answers = [proxy.ask("POST", "/work").status for _ in range(4)]
    assert answers == ([502] * SLOTS + [429] * 2 if hold else [502] * 4)
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
@pytest.mark.parametrize("left", [False, True], ids=["stays", "left"])
def test_a_server_of_http2_that_ends_its_connection_in_order(start, start_http2_server, hold, left):
    server = start_http2_server(lambda peer, request: None)
    proxy = start(policy(server.url, hold=hold))
    client = proxy.send(POST)
    request = server.wait_for(1)
    until(lambda: request.is_whole, "the request")
    if left:
        client.reset()
        proxy.lines_of("/work", 1)
    request.peer.send(GoAwayFrame(0, last_stream_id=request.stream))
    request.peer.await_read()
    request.peer.close_in_order()
    if not left:
        assert client.read().status == 502
    if hold or not left:
        assert free(proxy) == (SLOTS - 1 if hold else SLOTS)
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
def test_a_server_that_closed_before_another_was_tried_in_vain(start, start_upstream, hold):
    upstream = start_upstream(closing)
    proxy = start(policy(upstream.url, f"http://127.0.0.1:{free_port()}", hold=hold, more=", eject: off"))
    answers = [proxy.ask(path="/work").status for _ in range(4)]
    assert answers == ([502] * SLOTS + [429] * 2 if hold else [502] * 4)
    assert not hold or len(upstream.requests) == SLOTS
    wait_for_free(proxy, SLOTS)


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
def test_a_request_that_a_server_has_worked_on_is_sent_to_no_other(start, start_upstream, hold):
    def late(peer, _):
        time.sleep(0.6)
        peer.close()
    servers = [start_upstream(late), start_upstream(late)]
    proxy = start(policy(*(server.url for server in servers), hold=hold, more=", eject: off"))
    assert proxy.ask(path="/work").status == 502
    assert sum(len(server.requests) for server in servers) == 1


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
def test_a_server_that_does_not_answer_in_time(start, start_upstream, hold):
    upstream = start_upstream(lambda peer, _: time.sleep(5))
    proxy = start(policy(upstream.url, hold=hold))
    assert proxy.ask(path="/work").status == 504
    assert free(proxy) == (SLOTS - 1 if hold else SLOTS)
    wait_for_free(proxy, SLOTS)


def test_a_request_that_no_server_has_got_holds_no_slot(start):
    proxy = start(policy(f"http://127.0.0.1:{free_port()}"))
    assert [proxy.ask("POST", "/work").status for _ in range(4)] == [502] * 4


def test_a_request_that_its_server_says_it_has_not_begun_holds_no_slot(start, start_http2_server):
    server = start_http2_server(lambda peer, request: end_in_order(peer, 0))
    proxy = start(policy(server.url))
    assert [proxy.ask("POST", "/work").status for _ in range(4)] == [502] * 4


@pytest.mark.parametrize("hold", [True, False], ids=["held", "free"])
def test_what_a_failed_request_costs_that_may_be_worked_on(start, start_upstream, hold):
    upstream = start_upstream(closing)
    cost = ", cost: {from: response.header.x-cost, estimate: 1, max: 10}"
    proxy = start(policy(upstream.url, hold=hold, rate="10/day", cost=cost))
    assert proxy.ask("POST", "/work").status == 502
    wait_for_free(proxy, SLOTS)
    assert proxy.ask("POST", "/work").status == 429
