"""Bans that limits set by themselves: each time longer, over proxies and restarts, and never for the innocent."""

import json
import re
import textwrap

import pytest

from harness import message, program
from harness.admin import ctl
from harness.bans import LOCAL, Proxy, at
from harness.client import Client
from harness.wait import until

POLICY = """
    workers: 2
    admin: unix:{folder}/admin.sock
    trusted_proxies: [127.0.0.1]
    store: {{{store}}}
    max: {{bans_per_minute: 5}}
    limits:
      per-client: {{key: client.ip, rate: 1000000/hour}}
      login: {{key: client.ip, rate: 2/hour, ban: {{after: 6/hour, for: 1s, factor: 300}}}}
      failures: {{key: client.ip, rate: 2/hour, charge_on: [401], ban: {{after: 4/hour, for: 10m}}}}
      low: {{key: header.x-user, rate: 1/hour, burst: 1, ban: {{after: 4/hour, for: 10m}}}}
      tried: {{key: client.ip, rate: 1/hour, burst: 1, ban: {{after: 3/hour, for: 10m, shadow: true}}}}
      shared: {{key: header.x-user, rate: 1/hour, burst: 1, missing: shared_counter, ban: {{after: 2/hour}}}}
    routes:
      - {{match: {{path: /login}}, limits: [login], respond: {{status: 204}}}}
      - {{match: {{path: /failures}}, limits: [failures], respond: {{status: 401}}}}
      - {{match: {{path: /low}}, limits: [low], respond: {{status: 204}}}}
      - {{match: {{path: /tried}}, limits: [tried], respond: {{status: 204}}}}
      - {{match: {{path: /shared}}, limits: [shared], respond: {{status: 204}}}}
      - {{limits: [per-client], respond: {{status: 204}}}}
"""


@pytest.fixture
def start_proxy(start, tmp_path):
    count = iter(range(9))
    return lambda store: Proxy(start, tmp_path, next(count), store, POLICY)


def ask(proxy, path, client="192.0.2.1", fields=()):
    return proxy.sluice.ask(path=path, fields=[("X-Forwarded-For", client), *fields]).status


def is_banned(answer):
    return answer.status == 429 and b"abnormal-usage-detected" in answer.body


def await_bans(proxy, n=1):
    return until(lambda: len(proxy.bans()) == n and proxy.bans(), f"{n} bans")


def counted(proxy, result):
    page = proxy.admin.ask("GET", "/metrics").body.decode()
    return int(re.search(rf'sluice_bans_by_policy_total{{result="{result}"}} (\d+)', page)[1])


# --- growth ---


@pytest.mark.parametrize("in_redis", [False, True])
def test_a_key_that_is_denied_again_and_again_is_banned_and_longer_the_next_time(start_proxy, start_redis, in_redis):
    proxy = start_proxy(at(start_redis()) if in_redis else LOCAL)
    assert [ask(proxy, "/login") for _ in range(7)] == [204, 204] + 5 * [429]
    assert proxy.bans() == [], "not yet"
    ask(proxy, "/login")
    ban, = await_bans(proxy)
    assert (ban["by"], ban["reason"]) == ("policy", "6 denials within 1h, strike 1")
    assert (ban["key"], ban["limit"], ban["kind"]) == ("client.ip=192.0.2.1", "login", "ban")
    assert ban["left_ms"] <= 1000
    assert ask(proxy, "/login", client="192.0.2.2") == 204, "another client"
    until(lambda: proxy.bans() == [], "its end")
    until(lambda: ask(proxy, "/login") and proxy.bans(), "the next one")
    ban, = proxy.bans()
    assert ban["reason"] == "6 denials within 1h, strike 2"
    assert 200_000 < ban["left_ms"] <= 300_000
    assert is_banned(proxy.sluice.ask(path="/login", fields=[("X-Forwarded-For", "192.0.2.1")]))
    line = until(lambda: [line for line in proxy.sluice.all_log_lines() if line.get("source") == "ban"], "its line")[0]
    assert (line["limit"], line["ban"]) == ("login", "limit")
    assert counted(proxy, "set") == 2
    log = proxy.sluice.stderr()
    assert re.search(r'msg="a key is banned" limit=login key="?client.ip=192.0.2.1"? until=\S+ '
                     r'reason="6 denials within 1h, strike 2"', log)


def test_answers_that_are_charged_count_too(start_proxy):
    proxy = start_proxy(LOCAL)
    assert [ask(proxy, "/failures") for _ in range(4)] == [401, 401, 429, 429]
    ban, = await_bans(proxy)
    assert ban["reason"] == "4 denials or charged answers within 1h, strike 1"


def test_who_leaves_after_the_head_of_a_charged_answer_is_banned_too(start, start_upstream, tmp_path):
    def answer_slowly(peer, _):
        peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nwr")
        peer.hang()

    proxy = Proxy(start, tmp_path, 0, LOCAL, f"""
    admin: unix:{{folder}}/admin.sock
    store: {{{{{{store}}}}}}
    limits: {{{{login: {{{{key: client.ip, rate: 60/hour, burst: 60, charge_on: [401], ban: {{{{after: 4/hour, for: 1h}}}}}}}}}}}}
    upstreams: {{{{app: {{{{servers: "{start_upstream(answer_slowly).url}"}}}}}}}}
    routes: [{{{{limits: [login], upstream: app}}}}]
""")
    for i in range(4):
        assert proxy.bans() == []
        with Client(proxy.sluice.address) as client:
            client.send(message.request("GET", "/"))
            assert b" 401 " in client.reader.head()
            client.reset()
        until(lambda: len(proxy.sluice.all_log_lines()) == i + 1, "its end")
    ban, = await_bans(proxy)
    assert ban["reason"] == "4 denials or charged answers within 1h, strike 1"


def test_strikes_are_shared_by_proxies_and_outlive_a_restart(start_proxy, start_redis):
    redis = start_redis()
    first, second = start_proxy(at(redis)), start_proxy(at(redis))
    for _ in range(8):
        ask(first, "/login")
    assert [ban["reason"][-8:] for ban in await_bans(second)] == ["strike 1"]
    until(lambda: second.bans() == [], "its end")
    until(lambda: ask(second, "/login") and first.bans(), "the next one, by the other proxy")
    ban, = first.bans()
    assert ban["reason"] == "6 denials within 1h, strike 2" and ban["left_ms"] > 200_000
    assert is_banned(first.sluice.ask(path="/login", fields=[("X-Forwarded-For", "192.0.2.1")]))
    for proxy in first, second:
        proxy.sluice.stop()
    third = start_proxy(at(redis))
    assert await_bans(third)[0]["reason"] == ban["reason"]
    field, = [key for key in redis.call("HKEYS", "sluice:bans") if key.startswith(b"login:")]
    value = redis.call("HGET", "sluice:bans", field).split(b" ")
    value[1] = value[2]  # it has ended
    redis.call("HSET", "sluice:bans", field, b" ".join(value))
    until(lambda: third.bans() == [], "its end", within=30)
    until(lambda: ask(third, "/login") and third.bans(), "the third")
    assert third.bans()[0]["reason"] == "6 denials within 1h, strike 3"
    assert third.bans()[0]["left_ms"] > 86_000_000, "at most max"


@pytest.mark.parametrize("in_redis", [False, True])
def test_who_is_lifted_starts_anew(start_proxy, start_redis, in_redis):
    proxy = start_proxy(at(start_redis()) if in_redis else LOCAL)
    for _ in range(4):
        ask(proxy, "/failures")
    await_bans(proxy)
    assert "strike 1" in ctl(proxy.place, "bans").stdout
    assert ctl(proxy.place, "unban", "failures", "192.0.2.1").returncode == 0
    until(lambda: proxy.bans() == [], "it to be lifted")
    until(lambda: ask(proxy, "/failures") and proxy.bans(), "the next one")
    assert proxy.bans()[0]["reason"].endswith("strike 1")


@pytest.mark.parametrize("in_redis", [False, True])
def test_lifting_forgets_strikes_of_a_ban_that_has_ended_too(start_proxy, start_redis, in_redis):
    proxy = start_proxy(at(start_redis()) if in_redis else LOCAL)
    for _ in range(8):
        ask(proxy, "/login")
    await_bans(proxy)
    until(lambda: proxy.bans() == [], "its end")
    ctl(proxy.place, "unban", "login", "192.0.2.1")  # it may say that there is no ban
    until(lambda: ask(proxy, "/login") and proxy.bans(), "the next one")
    assert proxy.bans()[0]["reason"].endswith("strike 1")


def test_a_ban_in_shadow_is_logged_and_counted_alone(start_proxy):
    proxy = start_proxy(LOCAL)
    for _ in range(4):
        ask(proxy, "/tried")
    until(lambda: counted(proxy, "shadow") == 1, "it to be counted")
    assert proxy.bans() == []
    proxy.sluice.await_said('msg="a key would be banned" limit=tried')


def test_nothing_is_set_while_redis_is_away(start_proxy, start_redis):
    redis = start_redis()
    proxy = start_proxy(at(redis))
    redis.stop()
    for _ in range(8):
        ask(proxy, "/failures")
    until(lambda: counted(proxy, "failed") >= 1, "it to fail")
    proxy.sluice.await_said('msg="a key cannot be banned" limit=failures')
    assert proxy.bans() == []


@pytest.mark.parametrize("in_redis", [False, True])
def test_explain_says_that_the_limit_has_banned(start_proxy, start_redis, tmp_path, in_redis):
    store = at(start_redis()) if in_redis else LOCAL
    proxy = start_proxy(store)
    for _ in range(4):
        ask(proxy, "/failures")
    await_bans(proxy)
    path = tmp_path / "explained.yaml"
    policy = textwrap.dedent(POLICY.format(folder=proxy.folder, store=store))
    path.write_text("listen: 127.0.0.1:0\n" + policy)
    words = [str(path), "GET", "/failures", "--from", "192.0.2.1", "--live"]
    told = program.command("explain", *words)
    assert "    ban    DENIED, by the limit itself, strike 1, for another " in told.stdout, told
    ban = json.loads(program.command("explain", *words, "--json").stdout)["limits"][0]["ban"]
    assert (ban["kind"], ban["strike"]) == ("ban", 1)


# --- the guards ---


def ask_of_all(proxy, n, times):
    return [ask(proxy, "/low", fields=[("X-User", f"user-{i}")]) for _ in range(times) for i in range(n)]


def test_a_limit_that_is_far_too_low_bans_nobody(start_proxy):
    """Among them an office whose one key asks more than all others."""
    proxy = start_proxy(LOCAL)
    assert set(ask_of_all(proxy, 100, 1)) == {204}
    ask_of_all(proxy, 100, 3)
    for _ in range(10):
        assert ask(proxy, "/low", fields=[("X-User", "user-7")]) == 429, "denials go on"
    until(lambda: counted(proxy, "limit_is_wrong") >= 1, "the guard")
    assert proxy.bans() == [] and counted(proxy, "set") == 0
    assert proxy.sluice.log_at_end().count("bans none: its rate is too low") == 1


def test_bans_of_a_minute_are_bounded(start_proxy):
    proxy = start_proxy(LOCAL)
    ask_of_all(proxy, 9, 5)
    until(lambda: counted(proxy, "too_many") >= 1, "the guard")
    assert len(proxy.bans()) == counted(proxy, "set") == 5
    proxy.sluice.await_said("more keys are to be banned than max.bans_per_minute says")


def ban_by_guessing(proxy, n):
    """The client number @n, and so many are banned then."""
    for _ in range(8):
        ask(proxy, "/login", client=f"192.0.2.{n}")
    until(lambda: counted(proxy, "set") == n, "its ban")


@pytest.mark.parametrize("in_redis", [False, True])
def test_limits_leave_a_quarter_of_the_room_to_operators(start, start_redis, tmp_path, in_redis):
    policy = POLICY.replace("bans_per_minute: 5", "bans: 4").replace("for: 1s", "for: 1h")
    proxy = Proxy(start, tmp_path, 0, at(start_redis()) if in_redis else LOCAL, policy)
    for i in range(4):
        for _ in range(8):
            ask(proxy, "/login", client=f"192.0.2.{i}")
        until(lambda: counted(proxy, "set") + counted(proxy, "failed") == i + 1, "its ban")
    assert (counted(proxy, "set"), counted(proxy, "failed")) == (3, 1)
    proxy.sluice.await_said("bans and exemptions take three quarters of max.bans")
    assert ctl(proxy.place, "ban", "login", "192.0.2.9", "10m").returncode == 0
    await_bans(proxy, 4)
    assert ctl(proxy.place, "ban", "login", "192.0.2.10", "10m").returncode != 0, "now it is full"


def test_ended_bans_make_room_in_a_full_table_a_few_hundred_looked_at_for_each(start, start_redis, tmp_path):
    redis = start_redis()
    policy = POLICY.replace("bans_per_minute: 5", "bans: 4000").replace("for: 1s", "for: 1h")
    proxy = Proxy(start, tmp_path, 0, at(redis), policy)
    ban_by_guessing(proxy, 1)
    key, = redis.keys("*bans*")
    record, = [value for value in redis.call("HVALS", key) if value.startswith(b"ban ")]
    over = record.replace(record.split()[1], b"1000")
    for i in range(2998):  # half of them have ended
        redis.call("HSET", key, f"login other-{i}", over if i % 2 else record)
    redis.call("HSET", key, "login one-more", record)
    redis.call("CONFIG", "RESETSTAT")
    ban_by_guessing(proxy, 2)
    n_left = redis.call("HLEN", key)
    assert 3000 - 600 < n_left < 3000
    assert b"cmdstat_hgetall" not in redis.call("INFO", "commandstats")


def test_nobody_is_banned_for_what_others_do(start_proxy):
    """Clients without the key share a counter; those of a trusted proxy that names none, its address."""
    proxy = start_proxy(LOCAL)
    for _ in range(9):
        ask(proxy, "/shared")
        proxy.sluice.ask(path="/login")
    for _ in range(3):
        ask(proxy, "/shared", fields=[("X-User", "bob")])
    ban, = await_bans(proxy)
    assert ban["limit"] == "shared" and ban["key"].startswith("header#")


def test_who_is_exempt_is_not_banned(start_proxy):
    proxy = start_proxy(LOCAL)
    assert ctl(proxy.place, "exempt", "login", "192.0.2.0/24", "10m").returncode == 0
    assert [ask(proxy, "/login") for _ in range(20)] == 20 * [204]
    assert [ban["kind"] for ban in proxy.bans()] == ["exempt"]
