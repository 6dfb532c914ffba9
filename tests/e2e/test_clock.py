"""A wall clock that is set while the proxy runs: windows that start at its times follow, all else keeps its own time."""

import re

import pytest

from harness.wait import until
from harness.wall_clock import DAY_S, WallClock

HOUR_S = 3600
FOLLOWS_WITHIN_S = 10  # it looks each second; the rest is for a busy machine

LIMITS = """
    limits:
      daily: {key: client.ip, algorithm: fixed_window, rate: 3/day}
      local-daily: {key: client.ip, algorithm: fixed_window, rate: 3/day, timezone: Pacific/Auckland}
      bucket: {key: client.ip, rate: 3/day}
      gcra: {key: client.ip, algorithm: gcra, rate: 3/day}
      sliding: {key: client.ip, algorithm: sliding_window, rate: 3/day}
      sliding-log: {key: client.ip, algorithm: sliding_log, rate: 3/day}
      first: {key: client.ip, algorithm: fixed_window, align: first, rate: 3/day}
    routes:
"""
BY_THE_CLOCK = ("daily", "local-daily")
BY_TIME_PASSED = ("bucket", "gcra", "sliding", "sliding-log", "first")
POLICY = LIMITS + "".join(
    f"      - {{match: {{path: /{name}}}, limits: [{name}], respond: {{status: 204}}}}\n"
    for name in BY_THE_CLOCK + BY_TIME_PASSED)


@pytest.fixture
def wall_clock(tmp_path):
    return WallClock(tmp_path)


@pytest.fixture(params=["embedded", "fallback"])
def start_with(request, start, wall_clock):
    """start_with(): a proxy that decides by itself, because it has no Redis, or because that is away."""
    def make():
        wall_clock.step_to_before_midnight(left_s=60)
        if request.param == "embedded":
            return start(POLICY, env=wall_clock.env)
        store = "store: {redis: redis://127.0.0.1:1, on_failure: local}"
        return start(f"    {store}\n{POLICY}", env=wall_clock.env)

    return make


def ask(proxy, name):
    return proxy.ask(path=f"/{name}")


def exhaust(proxy, name):
    assert [ask(proxy, name).status for _ in range(4)] == [204, 204, 204, 429], name


def steps_logged(proxy):
    return [float(by_s) for by_s in
            re.findall(r'msg="the wall clock was set[^"]*" by_s=(\S+)', proxy.stderr())]


def wait_until_followed(proxy, n_steps):
    """The store looks at the clock when it is asked."""
    def is_followed():
        ask(proxy, "first")
        return len(steps_logged(proxy)) >= n_steps

    until(is_followed, "a line about the step", within=FOLLOWS_WITHIN_S)


def test_a_window_of_the_clock_ends_when_the_clock_is_set_past_its_end(start_with, wall_clock):
    proxy = start_with()
    exhaust(proxy, "daily")
    assert int(ask(proxy, "daily").get("Retry-After")) <= 60

    wall_clock.step(26 * HOUR_S)
    wait_until_followed(proxy, 1)
    exhaust(proxy, "daily")
    left_s = DAY_S - wall_clock.now() % DAY_S
    denied = ask(proxy, "daily")
    assert left_s <= int(denied.get("Retry-After")) <= left_s + 10
    assert re.search(r";t=(\d+)", denied.get("RateLimit"))[1] == denied.get("Retry-After")
    assert steps_logged(proxy) == [pytest.approx(26 * HOUR_S, abs=1)]


def test_a_window_of_a_time_zone_follows_a_clock_that_is_set_by_weeks(start_with, wall_clock):
    proxy = start_with()
    exhaust(proxy, "local-daily")
    for n_steps, by_s in enumerate((26 * HOUR_S, 20 * DAY_S), start=1):
        wall_clock.step(by_s)
        wait_until_followed(proxy, n_steps)
        exhaust(proxy, "local-daily")
    assert steps_logged(proxy) == [pytest.approx(26 * HOUR_S, abs=1), pytest.approx(20 * DAY_S, abs=1)]


def test_what_was_taken_counts_in_the_window_to_which_the_clock_is_set_back(start_with, wall_clock):
    proxy = start_with()
    exhaust(proxy, "daily")

    wall_clock.step(-26 * HOUR_S)
    wait_until_followed(proxy, 1)
    left_s = DAY_S - wall_clock.now() % DAY_S
    denied = ask(proxy, "daily")
    assert denied.status == 429
    assert left_s <= int(denied.get("Retry-After")) <= left_s + 10
    assert steps_logged(proxy) == [pytest.approx(-26 * HOUR_S, abs=1)]

    wall_clock.step(4 * HOUR_S)  # to the day that the first requests came in
    wait_until_followed(proxy, 2)
    exhaust(proxy, "daily")


def test_a_step_gives_nothing_back_where_time_that_passed_counts(start_with, wall_clock):
    proxy = start_with()
    for name in BY_TIME_PASSED:
        exhaust(proxy, name)
    before = {name: int(ask(proxy, name).get("Retry-After")) for name in BY_TIME_PASSED}

    for n_steps, by_s in enumerate((26 * HOUR_S, -52 * HOUR_S), start=1):
        wall_clock.step(by_s)
        wait_until_followed(proxy, n_steps)
        for name in BY_TIME_PASSED:
            denied = ask(proxy, name)
            assert denied.status == 429, name
            assert before[name] - 30 <= int(denied.get("Retry-After")) <= before[name], name


@pytest.mark.parametrize("by_s, fault", [
    (23 * HOUR_S, None), (-23 * HOUR_S, None), (2 * DAY_S, "clock"), (-2 * DAY_S, "clock"),
])
def test_windows_of_a_time_zone_bear_a_day_between_the_clocks_of_redis_and_the_proxy(
        start_sharing, wall_clock, by_s, fault):
    wall_clock.step(by_s)
    proxy = start_sharing(POLICY, env=wall_clock.env)
    statuses = [ask(proxy, "local-daily").status for _ in range(4)]
    if fault is None:
        assert statuses == [204, 204, 204, 429]
        return
    assert statuses == [503] * 4
    assert {line["failure"] for line in proxy.log_lines(4)} == {fault}
    assert ('err="CLOCK the clocks of Redis and of the proxy differ by more than one window of the '
            'calendar"') in proxy.stderr()
    exhaust(proxy, "daily")  # one that needs no calendar


def test_a_small_step_is_logged_once_and_a_clock_that_stands_never(start, wall_clock):
    proxy = start(POLICY, env=wall_clock.env)
    wall_clock.step(0.5)
    wait_until_followed(proxy, 1)
    wall_clock.step(-0.01)  # below what is logged
    wall_clock.step(7)
    wait_until_followed(proxy, 2)
    assert steps_logged(proxy) == [pytest.approx(0.5, abs=0.1), pytest.approx(7, abs=0.1)]
