"""headers: which fields tell a client of its limits."""

import pytest

POLICY = """
    {headers}
    limits:
        wide: {{key: client.ip, rate: 100/hour}}
        near: {{key: client.ip, rate: 3/hour, algorithm: sliding_log}}
        tried: {{key: client.ip, rate: 1/hour, shadow: true}}
    routes: [{{limits: [wide, near, tried], respond: {{status: 204}}}}]
"""

DRAFT = ("RateLimit", "RateLimit-Policy")
LEGACY = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


@pytest.mark.parametrize("said, draft, legacy", [
    ("", True, False), ("headers: draft11", True, False), ("headers: legacy", False, True),
    ("headers: both", True, True), ("headers: none", False, False)])
def test_the_policy_says_which_fields_there_are(start, said, draft, legacy):
    reply = start(POLICY.format(headers=said)).ask()
    assert [reply.get(name) is not None for name in DRAFT] == [draft] * 2
    assert [reply.get(name) is not None for name in LEGACY] == [legacy] * 3


def test_the_older_fields_tell_of_the_enforced_limit_nearest_to_its_end(start):
    proxy = start(POLICY.format(headers="headers: legacy"))
    left = []
    for _ in range(3):
        reply = proxy.ask()
        assert reply.status == 204 and reply.get("X-RateLimit-Limit") == "3"
        assert reply.get("X-RateLimit-Reset") == "3600"
        left.append(reply.get("X-RateLimit-Remaining"))
    assert left == ["2", "1", "0"]
    denied = proxy.ask()
    assert denied.status == 429 and denied.get("X-RateLimit-Remaining") == "0"
    assert 3590 <= int(denied.get("Retry-After")) <= 3600


def test_a_denial_says_when_to_come_back_even_without_them(start):
    proxy = start(POLICY.format(headers="headers: none"))
    assert [proxy.ask().status for _ in range(4)] == [204, 204, 204, 429]
    assert proxy.ask().get("Retry-After") is not None
