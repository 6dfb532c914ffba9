"""Bans, exemptions and resets: obeyed by every proxy, whatever becomes of Redis meanwhile."""

import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse

import pytest

from harness import program
from harness.admin import JSON, audit, ctl, is_problem
from harness.bans import BOB, CLIENT, KEYS, LOCAL, USER, Proxy, at, await_statuses, body, statuses
from harness.wait import holds_unless_it_stalls, until

DOCS = pathlib.Path(__file__).parents[2] / "docs"


# --- bans ---


def test_a_banned_client_is_refused_by_every_proxy_until_it_is_lifted(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})
    told = proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m", "reason": "test"}))
    assert told["kind"] == "ban" and told["key"] == "client.ip=127.0.0.1" and told["enforced"]
    assert proxies[0].statuses() == {429}, "at once where it was set"
    await_statuses(proxies, {429})
    answer = proxies[1].sluice.ask()
    assert answer.get("Content-Type") == "application/problem+json"
    assert answer.get("Cache-Control") == "no-store"
    assert answer.get("RateLimit") is None
    retry_after = int(answer.get("Retry-After"))
    assert 500 < retry_after <= 600
    assert answer.json() == {
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal usage detected", "status": 429, "violated-policies": ["per-client"],
        "retry-after": retry_after}
    assert statuses(proxies, "/free") == {204}, "a route without the limit"
    proxies[1].admin.change("DELETE", CLIENT + "/ban")
    await_statuses(proxies, {204})
    line = until(lambda: [line for line in proxies[1].sluice.all_log_lines()
                          if line.get("source") == "ban"], "its line in the log")[0]
    assert (line["verdict"], line["limit"], int(line["status"])) == ("denied", "per-client", 429)
    assert line["ban"] == "operator"


def test_nothing_is_charged_for_who_is_banned(start_proxies, start_redis):
    proxy, = start_proxies(at(start_redis()), 1)
    proxy.sluice.ask()
    until(lambda: proxy.admin.read(CLIENT)["source"] == "redis", "Redis")
    before = proxy.admin.read(CLIENT)["rates"][0]["remaining"]
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    assert proxy.statuses(n=10) == {429}
    told = proxy.admin.read(CLIENT)
    assert told["rates"][0]["remaining"] >= before
    assert told["allowed"] is False and told["ban"]["kind"] == "ban"


def test_a_ban_ends_by_itself(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})

    def is_banned_for_a_while():
        ends = time.monotonic() + 3
        proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "3s"}))
        while 429 not in proxies[1].statuses():
            if time.monotonic() > ends:
                return False  # it may have ended before the other proxy heard of it
        return True

    holds_unless_it_stalls(is_banned_for_a_while, 1)
    await_statuses(proxies, {204})
    until(lambda: [proxy.bans() for proxy in proxies] == [[], []], "nothing to be listed")


def test_a_ban_holds_while_redis_is_away_and_is_read_again_when_it_is_back(
        start_proxies, start_redis):
    redis = start_redis("--appendonly", "yes", "--appendfsync", "always")
    proxies = start_proxies(at(redis))
    await_statuses(proxies, {204})
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})
    redis.kill()
    until(lambda: all("link lost" in proxy.sluice.stderr() for proxy in proxies), "no Redis")
    assert statuses(proxies) == {429}
    detail = is_problem(proxies[0].admin.ask("DELETE", CLIENT + "/ban"), 503)
    assert "nothing was changed" in detail
    assert statuses(proxies) == {429}
    redis.start()
    until(lambda: b"\nloading:0" in redis.call("INFO", "persistence"), "its data")
    fields = redis.call("HKEYS", "sluice:bans")
    redis.call("HDEL", "sluice:bans", *(field for field in fields if b":" in field))  # untold
    until(lambda: statuses(proxies) == {204}, "all to be read again", within=30)
    until(lambda: proxies[0].admin.ask("POST", CLIENT + "/ban", [JSON],
                                       body(**{"for": "10m"})).status == 200, "Redis")
    await_statuses(proxies, {429})


def test_bans_that_redis_loses_are_set_again(start_proxies, start_redis):
    redis = start_redis()  # keeps nothing
    proxies = start_proxies(at(redis))
    await_statuses(proxies, {204})
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    proxies[0].admin.change("POST", BOB + "/ban", body(**{"for": "10m"}))
    until(lambda: len(proxies[1].bans()) == 2, "the other to know both")
    await_statuses(proxies, {429})
    proxies[0].admin.change("DELETE", BOB + "/ban")
    until(lambda: len(proxies[1].bans()) == 1, "one to be lifted")
    redis.kill()
    redis.start()
    until(lambda: redis.call("HLEN", "sluice:bans") == 3, "the ban, the id and the version", within=30)
    assert statuses(proxies) == {429}
    until(lambda: any("Redis has lost bans" in proxy.sluice.stderr() for proxy in proxies), "the log to tell")
    assert [len(proxy.bans()) for proxy in proxies] == [1, 1]


def test_a_proxy_that_starts_later_obeys(start_proxies, start_redis, start, tmp_path):
    redis = start_redis()
    proxies = start_proxies(at(redis), 1)
    await_statuses(proxies, {204})
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    later = Proxy(start, tmp_path, 7, at(redis))
    await_statuses([later], {429})
    proxies[0].admin.change("DELETE", CLIENT + "/ban")
    await_statuses([later], {204})


def test_the_hash_of_a_key_bans_it_too(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})
    digest = proxies[0].admin.read(CLIENT)["hash"]
    path = KEYS.format("per-client", digest)
    assert "key" not in proxies[0].admin.change("POST", path + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})
    assert proxies[1].bans()[0]["hash"] == digest
    proxies[1].admin.change("DELETE", CLIENT + "/ban")
    await_statuses(proxies, {204})


def test_without_redis_bans_live_in_the_process(start_proxies):
    one, other = start_proxies(LOCAL)
    one.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    assert one.statuses() == {429} and other.statuses() == {204}
    one.admin.change("DELETE", CLIENT + "/ban")
    assert one.statuses() == {204}
    until_s = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600))
    told = one.admin.change("POST", CLIENT + "/ban", body(until=until_s))
    assert told["until"] == until_s
    assert 500 < int(one.sluice.ask().get("Retry-After")) <= 600


@pytest.mark.parametrize("shared", [False, True], ids=["memory", "redis"])
def test_bans_outlive_a_reload(start_proxies, start_redis, shared):
    redis = start_redis() if shared else None
    proxy, = start_proxies(at(redis) if shared else LOCAL, 1)
    until(lambda: proxy.admin.ask("POST", CLIENT + "/ban", [JSON],
                                  body(**{"for": "10m"})).status == 200, "the store")
    assert proxy.statuses() == {429}
    path = proxy.sluice.folder / "policy.yaml"
    path.write_text(path.read_text().replace("rate: 1000000/hour, burst: 1000000", "rate: 2000000/hour"))
    proxy.sluice.signal(signal.SIGHUP)
    until(lambda: "the policy is in force" in proxy.sluice.stderr(), "the reload")
    assert proxy.statuses() == {429}
    until(lambda: proxy.admin.read(CLIENT)["source"] in ("memory", "redis"), "the admin's new link")
    proxy.admin.change("DELETE", CLIENT + "/ban")
    await_statuses([proxy], {204})
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses([proxy], {429})


def test_a_change_waits_as_long_as_decisions_may_for_a_redis_that_is_slow(start_proxies, start_redis):
    redis = start_redis()
    proxy, = start_proxies(at(redis), 1)
    redis.pause()
    resume = threading.Timer(1.5, redis.resume)
    resume.start()
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    resume.join()
    assert proxy.statuses() == {429}


def test_changes_that_wait_for_a_redis_that_hangs_leave_places_to_others(start_proxies, start_redis):
    redis = start_redis()
    proxy, = start_proxies(at(redis), 1)
    answers = []
    redis.pause()
    callers = [threading.Thread(target=lambda: answers.append(
        proxy.admin.ask("POST", CLIENT + "/ban", [JSON], body(**{"for": "10m"})))) for _ in range(20)]
    for caller in callers:
        caller.start()
    until(lambda: len(answers) >= 4, "those that are too many")
    assert all("nothing was changed" in is_problem(answer, 503) for answer in answers)
    assert proxy.admin.ask("GET", "/healthz").status == 200
    redis.resume()
    for caller in callers:
        caller.join()
    assert sorted(answer.status for answer in answers) == [200] * 16 + [503] * 4
    proxy.admin.change("DELETE", CLIENT + "/ban")


# --- who counts more ---


def test_an_exempt_key_is_not_judged_by_that_limit_alone(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})
    until(lambda: 429 in statuses(proxies, "/login", fields=USER), "the limit")
    proxies[0].admin.change("POST", BOB + "/exempt", body(**{"for": "10m"}))
    await_statuses(proxies, {204}, "/login", fields=USER)
    assert proxies[0].admin.read(BOB)["allowed"] is True
    proxies[1].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429}, "/both", fields=USER)
    assert statuses(proxies, "/login", fields=USER) == {204}
    proxies[1].admin.change("DELETE", BOB + "/exempt")
    await_statuses(proxies, {429}, "/login", fields=USER)


def test_a_prefix_is_of_every_address_in_it_that_has_no_ban_of_its_own(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})
    network = KEYS.format("per-client", "127.0.0.9%2F8")
    told = proxies[0].admin.change("POST", network + "/ban", body(**{"for": "10m"}))
    assert told["key"] == "client.ip=127.0.0.0/8"
    await_statuses(proxies, {429})
    assert proxies[1].admin.read(CLIENT)["ban"]["kind"] == "ban"
    proxies[1].admin.change("POST", CLIENT + "/exempt", body(**{"for": "10m"}))
    await_statuses(proxies, {204})
    proxies[1].admin.change("DELETE", CLIENT + "/exempt")
    await_statuses(proxies, {429})
    proxies[1].admin.change("POST", network + "/exempt", body(**{"for": "10m"}))
    await_statuses(proxies, {204})
    assert [ban["key"] for ban in proxies[0].bans()] == ["client.ip=127.0.0.0/8"]
    for ask in (("GET", network), ("DELETE", network)):
        assert "give an address" in is_problem(proxies[0].admin.ask(*ask), 400)
    proxies[0].admin.change("DELETE", network + "/exempt")
    until(lambda: [proxy.bans() for proxy in proxies] == [[], []], "nothing to be listed")


def test_what_is_set_later_takes_the_place_of_what_was_there(start_proxies):
    proxy, = start_proxies(LOCAL, 1)
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    proxy.admin.change("POST", CLIENT + "/exempt", body(**{"for": "10m"}))
    assert [ban["kind"] for ban in proxy.bans()] == ["exempt"]
    is_problem(proxy.admin.ask("DELETE", CLIENT + "/ban"), 404)
    proxy.admin.change("DELETE", CLIENT + "/exempt")
    is_problem(proxy.admin.ask("DELETE", CLIENT + "/exempt"), 404)
    assert proxy.bans() == []


def test_a_shadow_refuses_nobody_and_what_except_names_is_not_banned(start_proxies):
    proxy, = start_proxies(LOCAL, 1)
    quiet = KEYS.format("quiet", "127.0.0.1")
    office = KEYS.format("office", "127.0.0.1")
    told = proxy.admin.change("POST", quiet + "/ban", body(**{"for": "10m"}))
    assert told["enforced"] is False
    proxy.admin.change("POST", office + "/ban", body(**{"for": "10m"}))
    assert proxy.statuses("/quiet") == {204} and proxy.statuses("/office") == {204}
    assert {line["shadow"] for line in proxy.sluice.lines_of("/quiet", 4)} == {"quiet"}


SPELLINGS_POLICY = """
    workers: 2
    admin: unix:{folder}/admin.sock
    store: {{{store}}}
    limits:
      host: {{key: host, rate: 1000/hour}}
      path: {{key: path, rate: 1000/hour}}
      segment: {{key: path.2, rate: 1000/hour}}
      query: {{key: query.k, rate: 1000/hour}}
      folded: {{key: path, rate: 1000/hour}}
    routes:
      - {{match: {{path: /folded/**, ignore_case: true}}, limits: [folded], respond: {{status: 204}}}}
      - {{limits: [host, path, segment, query], respond: {{status: 204}}}}
"""


def test_a_ban_holds_in_whatever_spelling_its_key_is_given(start, tmp_path):
    proxy = Proxy(start, tmp_path, 0, LOCAL, SPELLINGS_POLICY)
    for limit, key, path, host in [
            ("host", "host=EX.Test.:8080", "/", "ex.test"),
            ("path", "path=/a//%62;x=1", "/a/b", "a.test"),
            ("path", "path=/x/../caf%c3%a9", "/caf%C3%A9", "a.test"),
            ("segment", "path.2=A%62", "/z/Ab", "a.test"),
            ("query", "query.k=%61b", "/?k=ab", "a.test"),
            ("folded", "path=/Folded/Up", "/folded/up", "a.test")]:
        place = KEYS.format(limit, urllib.parse.quote(key, safe=""))
        assert proxy.sluice.ask(path=path, host=host).status == 204
        proxy.admin.change("POST", place + "/ban", body(**{"for": "10m"}))
        assert proxy.sluice.ask(path=path, host=host).status == 429, key
        proxy.admin.change("DELETE", place + "/ban")
        assert proxy.sluice.ask(path=path, host=host).status == 204
    place = KEYS.format("path", urllib.parse.quote("path=/q?x=1", safe=""))
    asked = proxy.admin.ask("POST", place + "/ban", [JSON], body(**{"for": "10m"}))
    assert is_problem(asked, 400) == 'key: no request has such a path: write "/q"'


# --- resets ---


def test_a_reset_frees_a_denied_client_at_once_at_every_proxy(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    await_statuses(proxies, {204})
    for _ in range(3):
        until(lambda: statuses(proxies, "/login", fields=USER) == {429}, "the limit")
        until(lambda: all([line for line in proxy.sluice.all_log_lines()
                           if line.get("source") == "cache"] for proxy in proxies), "the caches")
        proxies[0].admin.change("DELETE", BOB)
        assert proxies[0].sluice.ask(path="/login", fields=USER).status == 204
        assert proxies[0].sluice.ask(path="/login", fields=USER).status == 429
        proxies[1].admin.change("DELETE", BOB)
        assert proxies[1].sluice.ask(path="/login", fields=USER).status == 204


def test_a_reset_while_redis_is_away_is_of_that_proxy_alone(start_proxies, start_redis):
    redis = start_redis()
    one, other = start_proxies(at(redis))
    await_statuses([one, other], {204})
    redis.kill()
    for proxy in (one, other):
        until(lambda proxy=proxy: "link lost" in proxy.sluice.stderr(), "no Redis")
        until(lambda proxy=proxy: proxy.sluice.ask(path="/login", fields=USER).status == 429,
              "the limit")
    assert "counted itself" in is_problem(one.admin.ask("DELETE", BOB), 503)
    assert one.sluice.ask(path="/login", fields=USER).status == 204
    assert other.sluice.ask(path="/login", fields=USER).status == 429


# --- the admin API ---


@pytest.mark.parametrize("value, reason", [
    (b"", "say for how long"),
    (b"{}", "say for how long"),
    (b"[]", "a JSON object"),
    (b"{", "no JSON"),
    (body(**{"for": "10m", "until": "2036-01-01T00:00:00Z"}), "say for how long"),
    (body(**{"for": 10}), "for must be a string"),
    (body(**{"for": "10"}), "for: "),
    (body(**{"for": "1us"}), "a millisecond at least"),
    (body(**{"for": "-1s"}), "for: "),
    (body(until="tomorrow"), "a moment such as"), (body(until="2999-01-01T00:00:00Z"), "ten years"),
    (body(until="2020-01-01T00:00:00Z"), "lies in the past"),
    (body(**{"for": "10m", "reason": "x" * 257}), "longer than 256"),
    (body(**{"for": "10m", "reason": "a\nb"}), "one line"),
    (body(**{"for": "10m", "reason": ["a"]}), "reason must be a string"),
    (body(**{"for": "10m", "why": "a"}), 'unknown member "why"'),
])
def test_a_body_that_makes_no_sense_is_refused_with_a_reason(start_proxies, value, reason):
    proxy, = start_proxies(LOCAL, 1)
    for word in ("ban", "exempt"):
        answer = proxy.admin.ask("POST", f"{CLIENT}/{word}", [JSON], value)
        assert reason in is_problem(answer, 400)
    assert proxy.bans() == []


def test_every_change_is_audited_and_listed(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()))
    proxies[0].admin.change("POST", BOB + "/ban", body(**{"for": "1h", "reason": "asks too often"}))
    line = audit(proxies[0].sluice, 1)[0]
    assert "changed" in line and "by=socket" in line and "asks too often" in line
    assert "bob" not in line, "a secret"
    until(proxies[1].bans, "the other to know")
    ban, = proxies[1].bans()
    assert ban["kind"] == "ban" and ban["limit"] == "login" and ban["reason"] == "asks too often"
    assert re.fullmatch(r"header#[0-9a-f]{32}", ban["key"]) and ban["by"].startswith("socket:uid=")
    assert 3_000_000 < ban["left_ms"] <= 3_600_000


def test_ctl_bans_and_lifts(start_proxies):
    proxy, = start_proxies(LOCAL, 1)

    def told(*words, status=0):
        result = ctl(proxy.place, *words)
        assert result.returncode == status, (result.stdout, result.stderr)
        return result.stdout

    assert "banned until 20" in told("ban", "per-client", "127.0.0.1", "10m", "asks too often")
    assert proxy.statuses() == {429}
    shown = told("bans").splitlines()
    assert shown[0].split() == ["KIND", "LIMIT", "KEY", "LEFT", "BY", "REASON"]
    assert re.match(r"ban +per-client +client.ip=127.0.0.1 +(9|10)m +socket:uid=\d+ +asks too often$",
                    shown[1])
    assert "banned until" in told("key", "per-client", "127.0.0.1", status=3)
    assert "banned no longer" in told("unban", "per-client", "client.ip=127.0.0.1")
    assert "no ban" in ctl(proxy.place, "unban", "per-client", "127.0.0.1").stderr
    assert "exempt until 2036-01-01" in told("exempt", "per-client", "127.0.0.1",
                                             "2036-01-01T00:00:00Z")
    assert "exempt no longer" in told("unexempt", "per-client", "127.0.0.1")
    assert "client.ip=127.0.0.0/24 of per-client: exempt until" in told(
        "exempt", "per-client", "127.0.0.0/24", "8h", "the office")
    assert "exempt until" in told("key", "per-client", "127.0.0.1")
    assert "exempt no longer" in told("unexempt", "per-client", "127.0.0.0/24")


def steady(text):
    """Without what differs from run to run."""
    return [re.sub(r"\d+[dhms]\b|\d{4}-\S+Z|uid=\d+|[0-9a-f]{32}| +", "~", line)
            for line in text.splitlines()]


def test_the_commands_of_the_manual_tell_what_stands_there(start_proxies):
    proxy, = start_proxies(LOCAL, 1)
    manual = (DOCS / "bans.md").read_text()
    commands, told = re.search(r"```sh\n(.*?)```\n\n```\n(.*?)```", manual, re.DOTALL).groups()
    script = f'sluice() {{ "{program.PROGRAM}" "$@"; }}\n{commands}'
    result = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False,
                            env=program.environment({"SLUICE_SOCKET": proxy.place}))
    assert result.returncode == 0, result.stderr
    assert sorted(steady(result.stdout)) == sorted(steady(told)), result.stdout
