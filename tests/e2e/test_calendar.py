"""Days, weeks and months: windows that end where a calendar says."""

import datetime
import time
import zoneinfo

import pytest

from harness.wait import rest_of_window


def next_edge(unit, zone):
    """Where the present day, week or month of `zone` ends."""
    now = datetime.datetime.now(zone)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit == "day":
        end = day.date() + datetime.timedelta(days=1)
    elif unit == "week":
        end = day.date() + datetime.timedelta(days=7 - day.weekday())
    else:
        end = (day.date().replace(day=1) + datetime.timedelta(days=32)).replace(day=1)
    return datetime.datetime.combine(end, datetime.time(), zone).timestamp()


@pytest.mark.parametrize("zone", [None, "Pacific/Auckland", "America/St_Johns"])
def test_windows_of_a_calendar_end_where_the_zone_says(start_in_store, zone):
    words = f", timezone: {zone}" if zone else ""
    rates = {"day": 86400, "week": 7 * 86400, "month": 30 * 86400}
    limits = "\n".join(f"  by-{unit}: {{key: client.ip, algorithm: fixed_window, "
                       f"rate: 1/{unit}{words}}}" for unit in rates)
    routes = "\n".join(f"  - {{match: {{path: /{unit}}}, limits: [by-{unit}], "
                       f"respond: {{status: 204}}}}" for unit in rates)
    proxy = start_in_store(f"limits:\n{limits}\nroutes:\n{routes}\n")
    rest_of_window(1800, at_least_s=10)  # zones differ by half hours
    for unit, seconds in rates.items():
        answers = [proxy.ask(path=f"/{unit}") for _ in range(2)]
        wait_s = next_edge(unit, zoneinfo.ZoneInfo(zone or "UTC")) - time.time()
        assert [answer.status for answer in answers] == [204, 429], unit
        assert answers[0].get("RateLimit-Policy") == f'"by-{unit}";q=1;w={seconds}'
        assert wait_s <= int(answers[1].get("Retry-After")) <= wait_s + 10, unit


def test_proxies_of_two_time_zones_keep_two_counts(start_sharing):
    proxies = [start_sharing(f"""
        limits:
          quota: {{key: client.ip, algorithm: fixed_window, rate: 5/day, timezone: {zone}}}
        routes: [{{limits: [quota], respond: {{status: 204}}}}]
    """) for zone in ("Asia/Tokyo", "America/Los_Angeles")]
    rest_of_window(1800, at_least_s=10)
    answers = [[proxy.ask().status for proxy in proxies] for _ in range(12)]
    assert [answer.count(204) for answer in zip(*answers)] == [5, 5]
