"""`headers:` chooses the fields that tell a client of its limits."""

import pytest

from harness.upstream import answer

DRAFT = {"RateLimit-Policy", "RateLimit"}
LEGACY = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}


def policy(style, upstream=None, limits="few: {key: client.ip, rate: 2/day}", names="few"):
    upstreams = f"upstreams: {{api: {{servers: '{upstream.url}'}}}}" if upstream else ""
    action = "upstream: api" if upstream else "respond: {status: 204}"
    return f"""{f"headers: {style}" if style else ""}
{upstreams}
limits:
  {limits}
routes: [{{limits: [{names}], {action}}}]
"""


def told(response):
    return {name for name, _ in response.fields if "ratelimit" in name.lower()}


@pytest.mark.parametrize("style, wanted", [
    (None, DRAFT), ("ratelimit", DRAFT), ("ratelimit_next", DRAFT),
    ("x_ratelimit", LEGACY), ("ratelimit_and_x_ratelimit", DRAFT | LEGACY),
    ("none", set())])
def test_the_policy_says_which_fields_tell_of_limits(start, start_upstream, style, wanted):
    for proxy in (start(policy(style)), start(policy(style, start_upstream()))):
        responses = [proxy.ask() for _ in range(3)]
        assert [response.status for response in responses][2] == 429
        for response in responses:
            assert told(response) == wanted
        assert int(responses[2].get("Retry-After")) > 43140, "it stays"


def test_the_coming_draft_has_other_names_and_tells_the_cost(start_in_store):
    proxy = start_in_store(policy("ratelimit_next").replace(
        "respond:", "cost: 2, respond:"))
    admitted, denied = proxy.ask(), proxy.ask()
    assert admitted.get("RateLimit-Policy") == '"few";q=2;w=86400'
    assert admitted.get("RateLimit") == '"few";a=0;w=43200;c=2'
    assert denied.get("RateLimit").startswith('"few";a=0;w=') and denied.status == 429


def test_older_fields_count_down_to_the_reset(start_in_store):
    proxy = start_in_store(policy("x_ratelimit"))
    for n_left, reset_s in ((1, 43200), (0, 86400), (0, 86400)):
        response = proxy.ask()
        assert response.get("X-RateLimit-Limit") == "2"
        assert response.get("X-RateLimit-Remaining") == str(n_left)
        assert reset_s - 60 <= int(response.get("X-RateLimit-Reset")) <= reset_s


def test_older_fields_tell_of_the_limit_that_is_nearest_to_its_end(start):
    proxy = start(policy("x_ratelimit", names="wide, few, shadow", limits="""
  wide: {key: client.ip, rate: 100/day}
  few: {key: header.x-id, rate: 4/day}
  shadow: {key: client.ip, rate: 1/day, shadow: true}"""))
    limits = [proxy.ask(fields={"X-Id": who}).get("X-RateLimit-Limit") for who in "abcdab"]
    assert limits == ["4"] * 6
    for i in range(60):
        proxy.ask(fields={"X-Id": f"one of many {i}"})
    response = proxy.ask(fields={"X-Id": "new"})
    assert response.get("X-RateLimit-Limit") == "100"
    assert response.get("X-RateLimit-Remaining") == "33"


def test_both_kinds_fit_a_denial_by_many_limits_beside_what_the_upstream_says(
        start, start_upstream):
    upstream = start_upstream(answer=answer(fields=[("RateLimit", '"theirs";r=1')]))
    names = [f"limit-{i:02}-{'x' * 50}" for i in range(16)]
    proxy = start(policy("ratelimit_and_x_ratelimit", upstream, names=", ".join(names), limits="\n  ".join(
        f"{name}: {{key: client.ip, rate: 1/day}}" for name in names)))
    admitted, denied = proxy.ask(), proxy.ask()
    assert admitted.all("RateLimit")[0] == '"theirs";r=1' and told(admitted) == DRAFT | LEGACY
    assert denied.status == 429 and told(denied) == DRAFT | LEGACY
    assert denied.get("RateLimit").count(";r=0;t=") == 16
    assert denied.json()["violated-policies"] == names
