"""Four proxies, one Redis, one hot key: together they admit what one would, to the unit."""

import pytest

from harness.rush import ask_all_at_once
from harness.wait import rest_of_window

N_PROXIES = 4
N_REQUESTS = 100_000
N_ADMITTED = 40_000


@pytest.mark.parametrize("words", [
    f"algorithm: token_bucket, rate: 1/day, burst: {N_ADMITTED}",
    f"algorithm: fixed_window, rate: {N_ADMITTED}/day",
], ids=["token_bucket", "fixed_window"])
def test_the_proxies_of_one_redis_admit_exactly_what_the_limit_says(start_sharing, words):
    proxies = [start_sharing(f"""
        log: off
        limits: {{hot: {{key: global, {words}, deny: {{status: 429}}}}}}
        routes: [{{limits: [hot], respond: {{status: 204}}}}]
    """) for _ in range(N_PROXIES)]
    rest_of_window(86400, at_least_s=200)
    statuses = ask_all_at_once(proxies, N_REQUESTS)
    assert statuses == {204: N_ADMITTED, 429: N_REQUESTS - N_ADMITTED}
    redis = start_sharing.redis[0]
    assert len(redis.call("KEYS", "*:hot:*")) == 1, "one limit, one key"
