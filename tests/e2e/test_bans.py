"""Bans, exemptions and resets: obeyed by every proxy, whatever becomes of Redis meanwhile."""

import hashlib
import json
import time

from harness.wait import until

POLICY = """
    workers: 2
    store: {{redis: "{url}", deadline: 10s, on_failure: allow}}
    limits:
      per-client: {{key: client.ip, rate: 1000/hour, burst: 1000}}
      login: {{key: header.x-user, rate: 1/hour, burst: 1}}
    routes:
      - {{match: {{path: /login}}, limits: [login], respond: {{status: 204}}}}
      - {{match: {{path: /free}}, limits: [], respond: {{status: 204}}}}
      - {{limits: [per-client], respond: {{status: 204}}}}
"""
CLIENT = "{client.ip:9=127.0.0.1}"


def field(limit, identity):
    digest = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    return f"{limit}:{digest}"


def put(redis, limit, identity, kind="ban", for_s=60, known=True):
    """As a proxy sets it."""
    now = int(time.time() * 1000)
    value = f"{kind} {now + int(for_s * 1000)} {now} alice {identity if known else '-'} a test"
    redis.call("HSET", "sluice:bans", field(limit, identity), value)
    redis.call("PEXPIRE", "sluice:bans", 600_000)
    redis.call("PUBLISH", "sluice:changes", "ban " + field(limit, identity))


def lift(redis, limit, identity):
    redis.call("HDEL", "sluice:bans", field(limit, identity))
    redis.call("PUBLISH", "sluice:changes", "ban " + field(limit, identity))


def start_two(start, redis):
    return [start(POLICY.format(url=redis.url)) for _ in range(2)]


def statuses(proxies, path="/", n=4, **how):
    """Of some requests to each: more than one worker answers them."""
    return {proxy.ask(path=path, **how).status for proxy in proxies for _ in range(n)}


def await_statuses(proxies, wanted, path="/", **how):
    until(lambda: statuses(proxies, path, **how) == wanted, f"{wanted} at {path}")


def test_a_banned_client_is_refused_by_every_proxy_until_it_is_lifted(start, start_redis):
    redis = start_redis()
    proxies = start_two(start, redis)
    await_statuses(proxies, {204})
    put(redis, "per-client", CLIENT)
    await_statuses(proxies, {429})
    answer = proxies[0].ask()
    assert answer.get("Content-Type") == "application/problem+json"
    assert answer.get("Cache-Control") == "no-store"
    assert answer.get("RateLimit") is None
    retry_after = int(answer.get("Retry-After"))
    assert 30 < retry_after <= 60
    assert json.loads(answer.body) == {
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal usage detected", "status": 429, "violated-policies": ["per-client"],
        "retry-after": retry_after}
    assert statuses(proxies, "/free") == {204}, "a route without the limit"
    lift(redis, "per-client", CLIENT)
    await_statuses(proxies, {204})
    line = until(lambda: [line for line in proxies[0].all_log_lines()
                          if line.get("source") == "ban"], "its line in the log")[0]
    assert (line["verdict"], line["limit"], int(line["status"])) == ("denied", "per-client", 429)
