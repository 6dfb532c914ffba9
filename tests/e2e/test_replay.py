"""`sluice replay`: logs through policies under their own clock, held against a model, the proxy and
`sluice test`; what is reported where a log lacks something; the page."""

import fcntl
import html.parser
import json
import os
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from harness import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START = 1795420800  # 2026-11-23T08:00:00Z
HEAD = "listen: 127.0.0.1:1\nupstreams: {api: {servers: [http://127.0.0.1:2]}}\n"
ONE = HEAD + """
limits: {per-client: {key: client.ip, algorithm: fixed_window, rate: 3/minute}}
defaults: {limits: [per-client]}
routes: [{name: api, match: {path: /**}, upstream: api}]
"""


def combined(moment, client="192.0.2.1", request="GET /a HTTP/1.1", status=200):
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(moment))
    return f'{client} - - [{stamp}] "{request}" {status} 17 "-" "curl/7.88"'


@pytest.fixture(name="replay")
def replay_of_lines(tmp_path):
    """replay(policy, lines, *options): the report as JSON."""
    def run(policy, lines, *options, code=0, raw=False):
        (tmp_path / "policy.yaml").write_text(policy)
        (tmp_path / "access.log").write_bytes("".join(line + "\n" for line in lines).encode())
        result = program.command("replay", *options, *([] if raw else ["--json"]),
                                 str(tmp_path / "policy.yaml"), str(tmp_path / "access.log"))
        assert result.returncode == code, result.stderr
        return result if raw or code != 0 else json.loads(result.stdout)

    return run


def limit(report, name, side="policy"):
    return next(one for one in report[side]["limits"] if one["name"] == name)


PLANS = HEAD + """
limits:
  per-client:
    key: client.ip
    algorithm: fixed_window
    rate: [6/minute, 100/hour]
    plan: header.user-agent
    plans: {gold.eu: [3/minute, 100/hour]}
defaults: {limits: [per-client]}
routes: [{name: api, match: {path: /**}, upstream: api}]
"""


def test_numbers_are_changed_together_those_of_plans_too(replay):
    def denied(*changes):
        report = replay(PLANS, lines, *(f"--set={change}" for change in changes))
        assert report["policy"]["denied"] == 7 and report["against"]["policy"] == "changed"
        return report["against"]["denied"], report["changes"]["newly_denied"]

    lines = [combined(START + i).replace("curl/7.88", "gold.eu") for i in range(10)]
    assert denied("per-client.rate.1=1/minute") == (7, 0)  # of who has no plan
    assert denied("per-client.plans.gold.eu.rate.1=2/minute") == (8, 1)
    assert denied("per-client.plans.gold.eu.rate.1=9/minute", "per-client.plans.gold.eu.rate.2=4/hour") == (6, 0)
    assert denied("per-client.shadow=true") == (0, 0)


def test_a_number_that_cannot_be_set_is_an_error(replay):
    for changes, words in (("none.rate=1/s",), "--set none.rate=1/s: the policy has no such limit"), \
                          (("per-client.rate=fast",), '--set: rate "fast"'), \
                          (("per-client.rate.2=1/s",), "no such rate"):
        result = replay(ONE, [combined(START)], *(f"--set={change}" for change in changes), code=1)
        assert words in result.stderr and "/proc/" not in result.stderr
    result = replay(ONE, [combined(START)], "--set=per-client.rate=1/s", "--against=x", code=2)
    assert "exclude each other" in result.stderr


# --- it is right ---


def test_windows_are_counted_as_a_model_counts_them(replay, seed):
    chance = random.Random(seed)
    moment, lines, expected, taken = START, [], {}, {}
    for _ in range(3000):
        moment += chance.choice((0, 0, 0, 1, 1, 7))
        client = f"192.0.2.{chance.randrange(1, 9)}"
        lines.append(combined(moment, client))
        window = client, moment // 60
        taken[window] = taken.get(window, 0) + 1
        expected[client] = expected.get(client, 0) + (taken[window] > 3)
    report = replay(ONE, lines)
    assert {one["client"]: one["denied"] for one in report["clients"]} == {
        client: n for client, n in expected.items() if n > 0}
    assert report["policy"]["denied"] == sum(expected.values()) == limit(report, "per-client")["denied"]
    assert report["policy"]["allowed"] == 3000 - sum(expected.values())
    assert sum(span["denied"] for span in report["over_time"]) == report["policy"]["denied"]
    assert sum(span["requests"] for span in report["over_time"]) == 3000


def test_a_trace_goes_as_it_goes_in_a_policys_test(replay, tmp_path, seed):
    policy = HEAD + """
limits:
  bucket: {key: client.ip, rate: 20/minute, burst: 5}
  window: {key: client.ip, algorithm: sliding_window, rate: 30/hour}
routes: [{name: api, match: {path: /**}, limits: [bucket, window], upstream: api}]
"""
    chance = random.Random(seed)
    moments = sorted(START + chance.randrange(600) for _ in range(150))
    report = replay(policy, [combined(moment) for moment in moments])
    steps = "".join(f"    - {{at: {moment - START}s, request: GET /a, expect: denied}}\n"
                    for moment in moments)
    (tmp_path / "t.yaml").write_text("policy: policy.yaml\nstart: 2026-11-23T08:00:00Z\n"
                                     f"tests:\n  - name: trace\n    steps:\n{steps}")
    told = json.loads(program.command("test", "--json", str(tmp_path / "t.yaml")).stdout)
    assert report["policy"]["allowed"] == told["files"][0]["tests"][0]["failed"]


def test_the_proxys_own_log_says_what_the_proxy_said(start, start_upstream, tmp_path):
    policy = f"""
upstreams: {{api: {{servers: [{start_upstream().url}]}}}}
limits:
  client: {{key: client.ip, rate: 5/day}}
  path: {{key: path, algorithm: fixed_window, rate: 3/week}}
routes:
  - {{name: a, match: {{path: /a/**}}, limits: [client, path], upstream: api}}
  - {{name: b, match: {{path: /b}}, limits: [path], respond: {{status: 204}}}}
"""
    for log_format in ("logfmt", "json"):
        proxy = start(f"workers: 1\nlog: {{format: {log_format}}}\n{policy}", log_format=log_format)
        paths = ["/a/1"] * 4 + ["/a/2"] * 4 + ["/b"] * 5 + ["/none"]
        for path in paths:
            proxy.ask("GET", path)
        lines = proxy.log_lines(len(paths))
        result = program.command("replay", "--json", str(proxy.folder / "policy.yaml"),
                                 str(proxy.folder / "stdout"))
        report = json.loads(result.stdout)
        said = [line["verdict"] for line in lines]
        assert report["policy"]["denied"] == said.count("denied") > 0
        assert report["policy"]["no_route"] == 1 and report["log"]["logged_429"] == said.count("denied")


def test_answers_that_do_not_count_and_slots_are_judged_by_what_the_log_tells(replay):
    policy = HEAD + """
limits:
  failures: {key: client.ip, algorithm: fixed_window, rate: 2/hour, charge_on: [401]}
  slots: {key: client.ip, algorithm: concurrency, rate: 2}
routes:
  - {name: login, match: {path: /login}, limits: [failures], upstream: api}
  - {name: slow, match: {path: /slow}, limits: [slots], upstream: api}
"""
    def line(end, path, status, took):
        return json.dumps({"time": end, "remote_addr": "192.0.2.1", "request_method": "GET",
                           "request_uri": path, "status": status, "request_time": took})

    # The slow ones begin at 0, 1, 2 and 11 and are logged as they end.
    slow = [line(START + 12, "/slow", 200, 10.0), line(START + 10, "/slow", 200, 10.0),
            line(START + 11, "/slow", 200, 10.0), line(START + 11, "/slow", 200, 0.0)]
    login = [line(START + 20 + i, "/login", status, 0.5)
             for i, status in enumerate([200, 401, 200, 401, 200])]
    report = replay(policy, slow + login)
    assert limit(report, "slots")["denied"] == 1 and limit(report, "failures")["denied"] == 1
    assert report["policy"]["notes"] == []


def test_a_call_of_grpc_is_judged_by_its_own_status(replay):
    policy = HEAD + """
limits: {failures: {key: client.ip, algorithm: fixed_window, rate: 2/hour, charge_on: [401]}}
routes: [{name: login, match: {path: /s/login, grpc: true}, limits: [failures], upstream: api}]
"""
    calls = [json.dumps({"time": START + i, "remote_addr": "192.0.2.1", "request_method": "POST",
                         "request_uri": "/s/login", "status": 200, "grpc": status, "request_time": 0.5})
             for i, status in enumerate(["0", "16", "5", "16", "0", "0"])]
    assert limit(replay(policy, calls), "failures")["denied"] == 2


def test_what_a_proxy_has_closed_without_an_answer_stays_charged(replay):
    policy = HEAD + """
limits: {failures: {key: client.ip, algorithm: fixed_window, rate: 2/hour, charge_on: [401, client_left], refund_on: [4xx]}}
routes: [{name: login, match: {path: /login}, limits: [failures], upstream: api}]
"""
    lines = [json.dumps({"time": START + i, "remote_addr": "192.0.2.1", "request_method": "GET",
                         "request_uri": "/login", "status": status, "request_time": 0.5})
             for i, status in enumerate([404, 444, 444, 200, 200])]
    assert limit(replay(policy, lines), "failures")["denied"] == 2


def bans(top="", limit_has="", ban_has="", rate="2/hour", after="3/minute"):
    """A policy whose limit bans."""
    ban = f"{{after: {after}, for: 1m, factor: 4, max: 10m, forget: 1h, {ban_has}}}"
    return HEAD + f"""
{top}
limits: {{login: {{key: client.ip, rate: {rate}, {limit_has} ban: {ban}}}}}
defaults: {{limits: [login]}}
routes: [{{name: api, match: {{path: /**}}, upstream: api}}]
"""


def bans_of(report):
    return {name: n for name, n in report["policy"]["bans"][0].items() if name not in ("limit", "shadow", "first")
            and n > 0}


def seconds(n, client="192.0.2.1", start=START):
    return [combined(start + i, client) for i in range(n)]


def test_bans_of_limits_are_set_and_what_they_refuse_is_counted_apart(replay):
    report = replay(bans(), seconds(75) + [combined(START + 75, "192.0.2.2")])
    # 0, 1: allowed. 2, 3, 4: denied, a ban of 60 s from then on. 64, 65, 66: denied, and a ban of 240 s.
    policy = report["policy"]
    assert (policy["allowed"], policy["denied"], policy["banned"]) == (3, 73, 67)
    assert limit(report, "login")["denied"] == 6 and limit(report, "login")["judged"] == 9
    assert bans_of(report) == {"set": 2, "banned": 67}
    assert report["policy"]["bans"][0]["first"] == "2026-11-23T08:00:05Z"
    assert report["clients"] == [{"client": "192.0.2.1", "requests": 75, "denied": 73, "banned": 67}]
    shown = replay(bans(), seconds(75), raw=True).stdout
    assert re.search(r"  of them by a ban +67 +89\.3 %$", shown, re.M)
    assert re.search(r"^  bans by +set +banned\n  login +2 +67 +2026-11-23 08:00:05$", shown, re.M)
    assert re.search(r"^  client +requests +denied +banned\n  192\.0\.2\.1 +75 +73 +97\.3 % +67$", shown, re.M)


def test_bans_are_forgotten_and_have_a_longest(replay):
    def banned(moments):
        return replay(bans(), [combined(START + at) for at in moments])["policy"]["banned"]
    burst = [0] * 5
    again = [60, 60, 60, 300, 300, 300]  # 1 and 4 minutes
    assert banned(burst + [59]) == 1 and banned(burst + [60]) == 0
    assert banned(burst + again + [300 + 599]) == 1 and banned(burst + again + [300 + 600]) == 0
    # An hour after the first ban has ended the next one is the first again, a moment before it is the second.
    assert banned(burst + [3660] * 5 + [3660 + 60]) == 0 and banned(burst + [3659] * 5 + [3659 + 60]) == 1


def test_bans_in_shadow_refuse_nothing_and_are_counted(replay):
    report = replay(bans(ban_has="shadow: true"), seconds(75))
    assert (report["policy"]["banned"], report["policy"]["denied"]) == (0, 73)
    assert bans_of(report) == {"in_shadow": 24}
    report = replay(bans(limit_has="shadow: true,"), seconds(75))
    assert (report["policy"]["banned"], report["policy"]["denied"], report["policy"]["shadow"]) == (0, 0, 73)
    assert bans_of(report) == {"in_shadow": 24}
    assert report["policy"]["limits"][0]["denied"] == 73


def test_the_guards_of_bans_hold_and_are_told(replay):
    lines = sum((seconds(10, f"192.0.2.{i}") for i in range(1, 5)), [])
    lines.sort(key=lambda line: line.split("[")[1][:20])
    report = replay(bans(top="max: {bans_per_minute: 3}"), lines)
    assert bans_of(report) == {"set": 3, "banned": 15, "too_many": 2}
    # 120 clients, each served at first; all of them go on: the limit is wrong, and bans none.
    lines = [combined(START + i // 30, f"192.0.2.{1 + i % 120}") for i in range(120 * 6)]
    report = replay(bans(), lines)
    assert bans_of(report) == {"limit_is_wrong": 120}
    shown = replay(bans(), lines, raw=True).stdout
    assert re.search(r"bans by +set +banned\n  login +0 +0\n    120 not set: the limit would ban more than a fifth", shown)


def test_bans_are_the_same_in_every_run(replay):
    chance = random.Random(7)
    lines = [combined(START + i // 2000, f"10.{chance.randrange(3)}.{chance.randrange(256)}.{chance.randrange(256)}",
                      status=200) for i in range(60000)]
    policy = bans(rate="1/day", after="2/minute")
    reports = [replay(policy, lines)["policy"]["bans"] for _ in range(2)]
    assert reports[0] == reports[1]


def test_days_are_those_of_the_log_and_of_the_zone(replay):
    policy = HEAD + """
limits: {daily: {key: client.ip, algorithm: fixed_window, rate: 2/day, timezone: Europe/Berlin}}
routes: [{name: api, match: {path: /**}, limits: [daily], upstream: api}]
"""
    midnight = 983487600  # 2001-03-02T00:00 in Berlin
    moments = [midnight - 3, midnight - 2, midnight - 1, midnight, midnight + 1, midnight + 2]
    report = replay(policy, [combined(moment) for moment in moments])
    assert report["policy"]["denied"] == 2 and report["log"]["beyond_calendars"] == 0


# --- two policies ---


def test_what_changes_is_told_for_whom(replay, tmp_path):
    (tmp_path / "other.yaml").write_text(ONE.replace("3/minute", "1/minute"))
    lines = [combined(START + i // 4, f"192.0.2.{i % 2 + 1}") for i in range(8)]
    report = replay(ONE, lines, "--against", str(tmp_path / "other.yaml"))
    assert (report["policy"]["denied"], report["against"]["denied"]) == (2, 6)
    changes = report["changes"]
    assert (changes["newly_denied"], changes["newly_allowed"]) == (4, 0)
    assert [(one["client"], one["newly_denied"]) for one in changes["newly_denied_clients"]] == [
        ("192.0.2.1", 2), ("192.0.2.2", 2)]
    text = replay(ONE, lines, "--against", str(tmp_path / "other.yaml"), raw=True).stdout
    assert re.search(r"newly denied +4 +50\.0 %", text) and "newly allowed" not in text
    (tmp_path / "other.yaml").write_text(ONE)
    assert "  nothing\n" in replay(ONE, lines, "--against", str(tmp_path / "other.yaml"), raw=True).stdout


# --- reading ---


def as_json(moment, **more):
    return json.dumps({"ts": moment, "client_ip": "192.0.2.1", "method": "GET", "uri": "/a?x=1",
                       "host": "a.test", "status": 200, **more})


LINES_OF_FORMATS = {
    "common": [f'192.0.2.1 - - [23/Nov/2026:09:00:0{i} +0100] "GET /a HTTP/1.1" 200 5'
               for i in range(5)],
    "combined": [combined(START + i) for i in range(5)],
    "with the host": ["a.test:443 " + combined(START + i) for i in range(5)],
    "nginx main": [combined(START + i) + ' "-"' for i in range(5)],
    "json, epoch": [as_json(START + i) for i in range(5)],
    "json, ms": [as_json((START + i) * 1000) for i in range(5)],
    "json, text": [as_json(f"2026-11-23T08:00:0{i}.000Z") for i in range(5)],
    "json, common log time": [as_json(f"23/Nov/2026:08:00:0{i} +0000") for i in range(5)],
    "caddy": [json.dumps({"level": "info", "ts": START + i + 0.5, "request": {
        "remote_ip": "192.0.2.1", "method": "GET", "host": "a.test", "uri": "/a\u00e9\"",
        "headers": {"Accept": ["*/*", {"}": "]"}]}}, "duration": 0.5, "status": 200})
              .replace("a\\u00e9", "a") for i in range(5)],
    "logfmt": [f'time=2026-11-23T08:00:0{i}.250Z client=192.0.2.1 method=GET host="a \\"test" '
               f'path=/a status=200 us=250000' for i in range(5)],
}


@pytest.mark.parametrize("name", LINES_OF_FORMATS, ids=str)
def test_every_format_is_found_and_read(replay, name):
    report = replay(ONE, LINES_OF_FORMATS[name])
    assert report["log"]["unread"] == 0 and report["log"]["no_request"] == 0
    assert report["log"]["first"] == "2026-11-23T08:00:00Z"
    assert (report["policy"]["allowed"], report["policy"]["denied"]) == (3, 2)


def test_lines_that_are_late_are_put_in_their_place_and_counted(replay):
    moments = [START, START + 61, START + 1, START + 2, START + 62, START + 3]
    report = replay(ONE, [combined(moment) for moment in moments])
    assert report["log"]["out_of_order"] == 3 and report["log"]["too_late"] == 0
    assert report["policy"]["denied"] == 1


def test_lines_that_are_too_late_count_as_if_they_came_then(replay):
    lines = [combined(START + i // 1000, f"198.51.{i // 256 % 256}.{i % 256}") for i in range(5000)]
    report = replay(ONE, lines + [combined(START)] * 2 + [combined(START + 60)])
    assert report["log"]["too_late"] == 2 and report["log"]["requests"] == 5003
    assert 0 < report["log"]["too_late_us_max"] <= 5_000_000


def test_lines_that_cannot_be_read_are_counted_and_the_first_are_shown(replay):
    lines = [combined(START)] + [f"junk {i} \x1b[31m" for i in range(7)] + [combined(START + 1), ""]
    report = replay(ONE, lines)
    assert report["log"]["unread"] == 7 and report["log"]["requests"] == 2
    assert [one["line"] for one in report["log"]["unread_samples"]] == [2, 3, 4, 5, 6]
    text = replay(ONE, lines, raw=True).stdout
    assert "7 lines could not be read" in text and "access.log:2: junk 0 \\x1b[31m" in text


def test_a_method_in_another_case_is_refused_as_the_proxy_does(replay):
    lines = [combined(START + i, request=f"{method} /a HTTP/1.1") for i, method in enumerate(
        ["GET", "get", "Get", "FOO"])]
    report = replay(ONE, lines)
    assert (report["log"]["requests"], report["policy"]["refused"]) == (4, 2)


@pytest.mark.parametrize("request_line", ["-", "\\x16\\x03\\x01", "GET", "GET  HTTP/1.1",
                                          "GET /a b HTTP/1.1", "CONNECT a:1 HTTP/1.1"])
def test_what_is_no_request_is_told_apart(replay, request_line):
    report = replay(ONE, [combined(START), combined(START, request=request_line, status=400)])
    assert (report["log"]["no_request"], report["log"]["requests"]) == (1, 1)


def test_logs_are_merged_by_time_and_standard_input_is_one(tmp_path):
    lines = [combined(START + i, f"192.0.2.{i % 3 + 1}") for i in range(300)]
    (tmp_path / "policy.yaml").write_text(ONE)
    for name, part in (("all", lines), ("a", lines[::2]), ("b", lines[1::2])):
        (tmp_path / name).write_text("".join(line + "\r\n" for line in part))

    def run(*names, stdin=""):
        return json.loads(program.command("replay", "--json", str(tmp_path / "policy.yaml"),
                                          *(name if name == "-" else str(tmp_path / name)
                                            for name in names), stdin=stdin).stdout)

    assert run("all") == run("b", "a") == run("-", stdin="".join(line + "\n" for line in lines))


def test_one_time_far_ahead_does_not_make_its_log_wait(tmp_path):
    (tmp_path / "policy.yaml").write_text(ONE)
    logs = [[combined(START + i, f"192.0.2.{i % 7 + 1}") for i in range(part, 20000, 2)] for part in (0, 1)]
    logs[0].insert(100, combined(START + 10 * 365 * 86400, "198.51.100.1"))
    for name, lines in zip("ab", logs):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    result = program.command("replay", "--json", str(tmp_path / "policy.yaml"), str(tmp_path / "a"),
                             str(tmp_path / "b"))
    told = json.loads(result.stdout)["log"]
    assert told["too_late"] == 0 and told["requests"] == 20001


def test_one_time_long_ago_does_not_make_calendars_end_too_soon(replay):
    policy = ONE.replace("rate: 3/minute", "rate: 1/day, timezone: Europe/Berlin")
    report = replay(policy, [combined(START), combined(5), *[combined(START + i) for i in range(1, 9)]])
    assert report["policy"]["denied"] == 8 and report["log"]["requests"] >= 9


@pytest.mark.parametrize("content, told", [
    (b"", "the logs are empty"),
    (b"what is this\n" * 9, "none of its first lines reads as combined, json or logfmt"),
    (b"\x1f\x8b\x08\x00", "is compressed; zcat"),
])
def test_a_log_that_cannot_be_read_is_an_error_that_says_what_to_do(tmp_path, content, told):
    (tmp_path / "policy.yaml").write_text(ONE)
    (tmp_path / "log").write_bytes(content)
    result = program.command("replay", str(tmp_path / "policy.yaml"), str(tmp_path / "log"))
    assert result.returncode == 1 and told in result.stderr and result.stdout == ""


@pytest.mark.parametrize("options, code, told", [
    ([], 2, "usage: sluice replay"),
    (["policy.yaml"], 2, "usage: sluice replay"),
    (["--format", "xml", "policy.yaml", "log"], 2, "known are combined, json and logfmt"),
    (["--field", "a", "policy.yaml", "log"], 2, "must be WHAT=NAME"),
    (["--field", "who=x", "policy.yaml", "log"], 1, "known are time, client"),
    (["--memory", "5", "policy.yaml", "log"], 2, "needs a unit"),
    (["--host", "a b", "policy.yaml", "log"], 2, "this is no host"),
    (["policy.yaml", "none"], 1, "none: cannot be read: No such file"),
    (["none.yaml", "log"], 1, "none.yaml: error: cannot be read"),
    (["--html", "no/where.html", "policy.yaml", "log"], 1, "no/where.html cannot be written"),
])
def test_wrong_usage_says_what_is_wrong(tmp_path, options, code, told):
    (tmp_path / "policy.yaml").write_text(ONE)
    (tmp_path / "log").write_text(combined(START) + "\n")
    result = subprocess.run([os.path.abspath(program.PROGRAM), "replay", *options], cwd=tmp_path,
                            capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == code and told in result.stderr


# --- what a log lacks ---

GAPS = HEAD + """
limits:
  keyed: {key: header.x-api-key, rate: 1/day}
  either: {key: header.x-api-key | client.ip, rate: 1/day}
  slots: {key: client.ip, algorithm: concurrency, rate: 1}
routes:
  - {name: cost, match: {path: /cost}, limits: [either], cost: {from: header.x-cost, max: 1}, upstream: api}
  - {name: told, match: {host: a.test, path: /**}, limits: [keyed, either, slots], upstream: api}
  - {name: rest, match: {path: /**}, limits: [keyed, slots], upstream: api}
"""


def test_what_a_log_does_not_tell_is_left_out_and_said(replay):
    report = replay(GAPS, [combined(START)] * 3)
    assert report["policy"]["denied"] == 0 and limit(report, "keyed")["judged"] == 0
    assert sorted(report["policy"]["notes"]) == [
        'limit "either" is judged by client.ip alone: the log lacks header.x-api-key',
        'limit "keyed" is not judged: the log lacks header.x-api-key',
        'limit "slots" is not judged: the log lacks durations',
        'route "cost" takes each request to cost 1, the most: the log lacks header.x-cost',
        'route "told" takes no request: it matches by host, which the log lacks; --host sets it',
    ]


def test_a_header_that_is_named_is_told_though_it_stands_late(replay):
    lines = [as_json(START)] * 1500 + [as_json(START + 1, key="k1")] * 2
    policy = GAPS.replace("keyed: {", "keyed: {missing: skip, ")
    report = replay(policy, lines, "--field", "header.X-Api-Key=key")
    assert limit(report, "keyed")["judged"] == 2 and limit(report, "keyed")["denied"] == 1


def test_clients_of_ipv6_are_told_by_the_network_that_limits_count(replay):
    report = replay(ONE, [combined(START, f"2001:db8::{i}") for i in range(1, 9)])
    assert report["policy"]["denied"] == 5
    assert "2001:db8::/64" in json.dumps(report) and "2001:db8::1" not in json.dumps(report)


def test_what_fields_mean_can_be_said(replay):
    lines = [as_json(START, key=key, took=1.5) for key in ("k1", "k2", "k1")]
    report = replay(GAPS, lines, "--field", "header.X-Api-Key=key", "--field", "duration=took",
                    "--field", "header.X-Cost=x")
    assert limit(report, "keyed")["denied"] == 1 and limit(report, "slots")["judged"] == 3
    assert [note for note in report["policy"]["notes"] if "cost" not in note] == []
    report = replay(GAPS.replace("header.x-api-key, rate", "host, rate"), [combined(START)] * 2,
                    "--host", "a.test")
    assert [one["requests"] for one in report["policy"]["routes"]] == [0, 2, 0]
    assert limit(report, "keyed")["denied"] == 1


CONNECTIONS = HEAD + """
limits:
  service: {key: client.cert.dns, algorithm: fixed_window, rate: 1/day, missing: skip}
routes:
  - {name: service, match: {client_cert: true}, limits: [service], upstream: api}
  - {name: named, match: {client_cert: {uri: "spiffe://test/a"}}, upstream: api}
  - {name: https, match: {scheme: https}, upstream: api}
  - {name: http, match: {scheme: http}, upstream: api}
"""


def requests_of_routes(report):
    return [one["requests"] for one in report["policy"]["routes"]]


def test_the_scheme_and_the_certificate_are_those_of_the_log(replay):
    for more in ({"tls": "1.3"}, {"scheme": "https"}, {"ssl_protocol": "TLSv1.2"}, {"request": {"tls": {"version": 772}}}):
        plain = {"scheme": "http"} if "scheme" in more else {"ssl_protocol": "-"} if "ssl_protocol" in more else {}
        lines = [as_json(START, **more), as_json(START + 1, **plain)]
        assert requests_of_routes(replay(CONNECTIONS, lines)) == [0, 0, 1, 1], more
    lines = [as_json(START + i, san=san) for i, san in enumerate(["a.test", "a.test", "b.test", "-", ""])]
    report = replay(CONNECTIONS, lines, "--field", "client.cert.dns=san")
    assert requests_of_routes(report) == [3, 0, 0, 2]
    assert (limit(report, "service")["judged"], limit(report, "service")["denied"]) == (3, 1)
    lines = [as_json(START, print="ab" * 32)]
    report = replay(CONNECTIONS, lines, "--field", "client.cert=print")
    assert requests_of_routes(report) == [1, 0, 0, 0] and limit(report, "service")["judged"] == 0


def test_what_a_log_does_not_tell_of_connections_is_said(replay):
    report = replay(CONNECTIONS, [combined(START)])
    assert sorted(report["policy"]["notes"]) == [
        'limit "service" is not judged: the log lacks client.cert.dns',
        'route "http" takes requests of http and https: the log lacks the scheme',
        'route "https" takes no request: it matches https, and the log lacks the scheme',
        'route "named" takes no request: it matches by client_cert, which the log lacks',
        'route "service" takes no request: it matches by client_cert, which the log lacks']
    report = replay(CONNECTIONS, [as_json(START, san="a.test")], "--field", "client.cert.dns=san")
    assert report["policy"]["notes"] == [
        'route "named" takes no request: it matches by client_cert.uri, which the log lacks']


PLANNED = HEAD + """
jwt: {main: {secret: 0123456789abcdef0123456789abcdef, issuer: i}}
limits:
  header: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: header.x-plan}
  claim: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: jwt.plan}
  table: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: tenant}
  each: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: header.x-plan | jwt.plan | tenant}
  some: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: header.user-agent | header.x-plan | tenant}
  known: {key: client.ip, rate: 9/day, plans: {trial: 1/day}, plan: header.user-agent}
  keyed: {key: header.x-api-key, rate: 9/day, plans: {trial: 1/day}, plan: header.x-plan}
routes:
  - {name: all, match: {path: /**}, jwt: main, upstream: api, limits: [header, claim, table, each, some, known, keyed]}
"""
KEYED = 'limit "keyed" is not judged: the log lacks header.x-api-key'


def notes_of_plans(table):
    without = 'limit "{}" is judged by its rate without a plan: {}'.format
    return sorted([
        without("claim", "the log lacks jwt.plan"),
        without("each", f"the log lacks header.x-plan or jwt.plan, and {table}"),
        without("header", "the log lacks header.x-plan"), without("table", table),
        f'limit "some" is judged by the plans of header.user-agent alone: the log lacks header.x-plan, and {table}',
        KEYED])


def test_plans_that_a_log_does_not_tell_are_said(replay, tmp_path):
    report = replay(PLANNED, [combined(START)] * 3, "--set=header.plans.trial=2/day", "--set=table.plans.trial=2/day")
    for side in ("policy", "against"):
        assert sorted(report[side]["notes"]) == notes_of_plans("the table of tenants is in the process that runs"), side
    result = replay(PLANNED, [combined(START)], raw=True)
    assert '  note: limit "header" is judged by its rate without a plan: the log lacks header.x-plan\n' in result.stdout
    report = replay("store: {redis: redis://127.0.0.1:1}\n" + PLANNED, [combined(START)])
    assert sorted(report["policy"]["notes"]) == notes_of_plans("the table of tenants is in Redis")
    for text in (None, "192.0.2.1 golden\n"):
        if text is not None:
            (tmp_path / "plans.txt").write_text(text)
        report = replay("tenants: plans.txt\n" + PLANNED, [combined(START)])
        assert sorted(report["policy"]["notes"]) == notes_of_plans(
            "the file of tenants cannot be read or has errors: see sluice check")
    (tmp_path / "plans.txt").write_text("192.0.2.1 trial\n")
    report = replay("tenants: plans.txt\n" + PLANNED, [as_json(START, plan="trial", key="k")] * 2,
                    "--field", "header.X-Plan=plan", "--field", "header.X-Api-Key=key")
    assert sorted(report["policy"]["notes"]) == [
        'limit "claim" is judged by its rate without a plan: the log lacks jwt.plan',
        'limit "each" is judged by the plans of header.x-plan or the table of tenants alone: the log lacks jwt.plan',
        'limit "known" is judged by its rate without a plan: the log lacks header.user-agent',
        'limit "some" is judged by the plans of header.x-plan or the table of tenants alone: '
        'the log lacks header.user-agent']
    assert {name: limit(report, name)["denied"] for name in ("header", "table", "each", "claim", "keyed")} == {
        "header": 1, "table": 1, "each": 1, "claim": 0, "keyed": 1}


TABLE = HEAD + """
store: {secret: only-for-tests}
tenants: plans.txt
limits:
  table:
    key: client.ip
    algorithm: fixed_window
    rate: 60/day
    plans: {trial: 3/day, free: none}
    plan: tenant
defaults: {limits: [table]}
routes: [{name: api, match: {path: /**}, upstream: api}]
"""


def test_the_tenants_of_the_policys_file_have_their_plans_under_the_clock_of_the_log(
        replay, tmp_path, monkeypatch):
    (tmp_path / "policy.yaml").write_text(TABLE)
    (tmp_path / "plans.txt").write_text("")
    told = program.command("explain", str(tmp_path / "policy.yaml"), "GET", "/", "--from", "192.0.2.5", "--json")
    (tmp_path / "plans.txt").write_text(
        f"192.0.2.1 trial\n192.0.2.2 2/day\n192.0.2.3 trial {(START + 5) * 1000}\n"
        f"{json.loads(told.stdout)['limits'][0]['key_hash']} trial\n192.0.2.6 free\n")
    lines = [combined(START + i, f"192.0.2.{client}") for i in range(10) for client in range(1, 7)]
    lines += [combined(START + i, "192.0.2.6") for i in range(10, 70)]

    def denied(report, side):
        return {client["client"][-1]: client[side] for client in report["clients"] if client[side]}

    report = replay(TABLE, lines, "--set=table.plans.trial=1/day")
    assert report["policy"]["notes"] == report["against"]["notes"] == []
    assert denied(report, "denied") == {"1": 7, "2": 8, "3": 2, "5": 7}, "that of .3 ends after its fifth request"
    assert denied(report, "denied_against") == {"1": 9, "2": 8, "3": 4, "5": 9}
    monkeypatch.chdir(tmp_path)
    told = program.command("replay", "--json", "policy.yaml", "access.log", "--set=table.plans.trial=1/day")
    assert json.loads(told.stdout)["against"] == report["against"], "the file is found from a relative path too"
    (tmp_path / "new.yaml").write_text(TABLE.replace("plans.txt", "new.txt"))
    (tmp_path / "new.txt").write_text("192.0.2.4 trial\n")
    report = replay(TABLE, lines, "--against", str(tmp_path / "new.yaml"))
    newly = {client["client"][-1]: client["newly_denied"] for client in report["changes"]["newly_denied_clients"]}
    assert report["against"]["notes"] == [] and newly == {"4": 7, "6": 10}


# --- how it is shown ---


class Page(html.parser.HTMLParser):
    """Every tag and attribute, and the texts of scripts; what is open is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.scripts = set(), [], [], []
        self.feed(text)
        assert self.open == ["html", "body"], self.open  # whose ends may be left out

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)

    def report(self):
        return json.loads(self.scripts[-1])


STRANGE = ['<script>alert(1)</script> "\'&', "</script><!-- \u2028 <b>"]
SHOWN = [STRANGE[0], STRANGE[1].replace("\u2028", "\\xe2\\x80\\xa8")]


def test_the_page_needs_nothing_else_and_has_strangers_text_as_data(replay, tmp_path):
    page = tmp_path / "page.html"
    lines = [combined(START + i // 2) for i in range(600)] + STRANGE
    for options in ((), ("--against", str(tmp_path / "policy.yaml"))):
        report = replay(ONE, lines, "--html", str(page), *options)
        text = page.read_text()
        told = Page(text)
        assert told.report() == report
        assert [one["text"] for one in report["log"]["unread_samples"]] == SHOWN
        assert not told.tags & {"link", "img", "iframe", "object", "a", "base", "form"}
        assert not [name for name, _ in told.attributes if name in ("src", "href", "srcset") or name[:2] == "on"]
        assert ("content", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
                ) in told.attributes
        # A page's script, the charts', and the report, which nothing in it can end.
        assert len(told.scripts) == 3 and "<" not in told.scripts[2] and told.scripts[2].isascii()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|https?:", told.scripts[0])
        assert "prefers-color-scheme: dark" in text


def shown_by_browser(page, tmp_path):
    """What is in <main> once the script of the page has run."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium, which would show the page, is not installed")
    shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", str(page)],
                           capture_output=True, text=True, check=True, timeout=120).stdout
    return shown[shown.index("<main>"):shown.index("</main>")].replace(' class=""', "")


def test_a_browser_shows_bans(replay, tmp_path):
    page = tmp_path / "page.html"
    replay(bans(), seconds(75), "--html", str(page))
    shown = shown_by_browser(page, tmp_path)
    assert "<b>67</b><span>denied by a ban, <i>89.3&nbsp;%</i></span>" in shown
    assert re.search(r"<caption>Bans</caption>.*<span>login</span></td><td class=\"number\">2</td>"
                     r"<td class=\"number\">67</td><td>2026-11-23 08:00:05</td><td></td>", shown)
    assert re.search(r"<code>192\.0\.2\.1</code>.*<td class=\"number\">67</td></tr>", shown)


def test_a_browser_shows_the_page(replay, tmp_path):
    page = tmp_path / "page.html"
    replay(ONE, [combined(START + i // 2) for i in range(600)] + STRANGE, "--html", str(page))
    shown = shown_by_browser(page, tmp_path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \"'&amp;" in shown and "<script" not in shown
    assert "<h2>Denied over time</h2>" in shown and shown.count("<canvas") == 2
    assert "from 2026-11-23 08:00:00 to 2026-11-23 08:04:59 UTC (4m 59s)" in shown
    assert "<b>585</b><span>denied, <i>97.5&nbsp;%</i></span>" in shown
    assert "Each column is 3s; times are UTC." in shown
    assert re.search(r"<code>192\.0\.2\.1</code></td><td class=\"number\">600</td><td class=\"number\">585<", shown)


def test_a_terminal_gets_a_chart_of_its_width_and_progress(tmp_path):
    (tmp_path / "policy.yaml").write_text(ONE)
    (tmp_path / "log").write_text("".join(combined(START + i // 2) + "\n" for i in range(40000)))
    try:
        mine, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this system has no terminals: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen([program.PROGRAM, "replay", str(tmp_path / "policy.yaml"), str(tmp_path / "log")],
                          stdout=theirs, stderr=theirs, env={**os.environ, "LC_ALL": "C.UTF-8"}) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                data = os.read(mine, 65536)
            except OSError:
                break
            if not data:
                break
            said += data
        assert process.wait(60) == 0
    os.close(mine)
    text = said.decode()
    rows = [line for line in text.replace("\r", "").split("\n") if "│" in line]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in rows]
    assert len(rows) == 8 and "\x1b[31m" in rows[0] and max(map(len, plain)) <= 100
    assert max(map(len, plain)) > 60 and "lines, " in text and "a second" in text


def test_who_interrupts_it_is_not_left_with_half_a_word(tmp_path):
    (tmp_path / "policy.yaml").write_text(ONE)
    try:
        mine, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this system has no terminals: {error}")
    said = bytearray()

    def hear(words):
        while words not in said:
            said.extend(os.read(mine, 65536))

    with subprocess.Popen([program.PROGRAM, "replay", str(tmp_path / "policy.yaml"), "-"], stdin=subprocess.PIPE,
                          stdout=theirs, stderr=theirs, env=program.environment()) as process:
        process.stdin.write((combined(START) + "\n").encode() * 40000)  # and there may be more
        process.stdin.flush()
        hear(b"a second")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        hear(b"\r\x1b[Ksluice replay: interrupted\r\n")
    os.close(theirs)
    os.close(mine)
    assert said.endswith(b"interrupted\r\n")


def test_what_is_no_terminal_gets_plain_text(replay):
    result = replay(ONE, [combined(START + i // 9) for i in range(90)], raw=True)
    assert "\x1b" not in result.stdout and "\x1b" not in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert re.search(r"read 90 lines in .*, [\d,]+ a second\n$", result.stderr)


def test_the_manuals_commands_print_what_it_shows(tmp_path):
    with open(f"{ROOT}/docs/replay.md", encoding="utf-8") as file:
        manual = file.read()
    policies = re.findall(r"```yaml\n(.*?)```", manual, re.S)
    for name, policy in zip(("api.yaml", "new.yaml"), policies):
        (tmp_path / name).write_text(policy)
    shown = re.findall(r"```sh\n(.*?)```\n+```text\n(.*?)```", manual, re.S)
    assert len(policies) == len(shown) == 2
    for command, output in shown:
        for old, new in (("sluice ", f"{os.path.abspath(program.PROGRAM)} "),
                         ("tests/support/", f"/usr/bin/python3 {ROOT}/tests/support/")):
            command = command.replace(old, new)
        told = subprocess.run(["bash", "-ec", command], cwd=tmp_path, capture_output=True, text=True,
                              check=True, timeout=120, env={**os.environ, "LC_ALL": "C.UTF-8"})
        assert told.stdout == output
    assert (tmp_path / "page.html").exists()
