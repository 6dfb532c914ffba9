"""Too few file descriptors: nothing spins, what is there goes on, the rest waits or is told so."""

import threading
import time

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


def test_clients_leave_the_last_descriptors_to_upstreams(start, start_upstream):
    proxy = start(policy(start_upstream()), descriptors=(N, N))
    with proxy.connect() as first:
        assert first.ask(path="/own").status == 200
        idle = [proxy.connect() for _ in range(N)]
        until(lambda: "connection evicted for a new one" in proxy.stderr(), "silent ones to give way")
        assert [first.ask().status for _ in range(3)] == [200] * 3, "there is one for the upstream"

        def evicted_ones():
            return [client for client in idle if not client.is_quiet(0)]

        until(lambda: len(evicted_ones()) >= N // 4, "more than a few to give way")
        assert all(client.has_ended() for client in evicted_ones())
    for client in idle:
        client.close()
    until(lambda: proxy.ask(path="/own").status == 200, "room for new clients")


def test_out_of_descriptors_nothing_spins_and_what_is_there_goes_on(start, start_upstream):
    released = threading.Event()

    def behave(peer, _):
        assert released.wait(30)
        peer.send(OK)

    proxy = start(policy(start_upstream(behave)), descriptors=(N, N))
    n_own = proxy.n_descriptors()
    first, *flood = [proxy.connect() for _ in range(N * 3 // 4 - n_own)]
    assert all(client.ask(path="/own").status == 200 for client in flood + [first])
    for client in flood:  # each takes one more, while there are any
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    until(lambda: proxy.n_descriptors() >= N, "all descriptors to be taken")
    waiting = [proxy.connect() for _ in range(20)]
    until(lambda: "cannot accept" in proxy.stderr(), "accepting to pause")

    cpu_before, started = proxy.cpu_s(), time.monotonic()
    while time.monotonic() - started < 1.5:
        assert first.ask(path="/own").status == 200
        time.sleep(0.05)
    share = (proxy.cpu_s() - cpu_before) / (time.monotonic() - started)
    assert share < 0.3, f"{share:.0%} of a processor"

    released.set()
    assert {client.read().status for client in flood} <= {200, 503}
    for client in flood:
        client.close()
    assert [client.ask(path="/own").status for client in waiting] == [200] * 20
