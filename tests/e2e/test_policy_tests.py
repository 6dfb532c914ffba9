"""`sluice test`: policies under a clock of their own, what is told of them, and the mistakes in a file."""

import glob
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from harness import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

POLICY = """
listen: 127.0.0.1:1
trusted_proxies: [10.0.0.0/8]
max: {bans_per_minute: 2}
upstreams: {api: {servers: [http://127.0.0.1:2]}}
limits:
  bucket: {key: client.ip, rate: 10/minute, burst: 3}
  daily: {key: client.ip, algorithm: fixed_window, rate: 5/day, timezone: Europe/Berlin}
  monthly: {key: global, algorithm: fixed_window, rate: 2/month}
  slots: {key: client.ip, algorithm: concurrency, rate: 2, lease: 10s}
  shaped: {key: global, algorithm: leaky_bucket, rate: 2/s, burst: 3, max_wait: 1s}
  paced: {key: cookie.sid, algorithm: leaky_bucket, rate: 2/s, max_wait: 1m}
  failures: {key: client.ip, algorithm: fixed_window, rate: 2/hour, charge_on: [401]}
  tokens: {key: client.ip, rate: 100/hour}
  idea: {key: client.ip, rate: 1/hour, shadow: true}
  must: {key: header.x-key, rate: 5/s, missing: deny, deny: {status: 418}}
  known: {key: header.x-key, rate: 5/s, missing: {status: 401, body: "{limit}", set: {WWW-Authenticate: Key}}}
  bans: {key: client.ip, rate: 1/hour, ban: {after: 3/minute, for: 1m, factor: 4, max: 5m, forget: 10m}}
  quiet: {key: client.ip, rate: 1/hour, ban: {after: 3/minute, for: 1m, shadow: true}}
  guesses: {key: client.ip, rate: 2/hour, charge_on: [401], ban: {after: 3/minute, for: 1m}}
routes:
  - {name: bans, match: {path: /bans}, limits: [bans], upstream: api}
  - {name: quiet, match: {path: /quiet}, limits: [quiet], upstream: api}
  - {name: guesses, match: {path: /guesses}, limits: [guesses], upstream: api}
  - {name: bucket, match: {path: /bucket}, limits: [bucket], upstream: api}
  - {name: daily, match: {path: /daily}, limits: [daily], upstream: api}
  - {name: monthly, match: {path: /monthly}, limits: [monthly], upstream: api}
  - {name: slots, match: {path: /slots}, limits: [slots], upstream: api}
  - {name: shaped, match: {path: /shaped}, limits: [shaped], upstream: api}
  - {name: paced, match: {path: /paced}, limits: [paced, tokens], upstream: api}
  - {name: login, match: {path: /login, method: [POST]}, limits: [failures], upstream: api}
  - name: tokens
    match: {path: /tokens}
    limits: [tokens]
    upstream: api
    cost: {from: response.header.x-tokens, estimate: 10, max: 100}
  - {name: idea, match: {path: /idea}, limits: [idea, tokens], respond: {status: 204}}
  - {name: must, match: {path: /must}, limits: [must], upstream: api}
  - {name: known, match: {path: /known}, limits: [known], upstream: api}
  - {name: closed, match: {path: /closed}, respond: {status: 503, set: {Retry-After: "60"}}}
"""


@pytest.fixture(name="run")
def run_of_tests(tmp_path):
    """run(tests): the file of these tests, of the policy above, is run."""
    (tmp_path / "policy.yaml").write_text(POLICY)

    def run(tests, *options, head="policy: policy.yaml\n"):
        (tmp_path / "tests.yaml").write_text(head + tests)
        return program.command("test", *options, str(tmp_path / "tests.yaml"))

    return run


def steps(*lines):
    return "tests:\n- name: it holds\n  steps:\n" + "".join(f"  - {line}\n" for line in lines)


STORIES = {
    "a key is banned each time longer, up to the most, until its bans are forgotten": [
        "{request: GET /bans, repeat: 4, expect: {allowed: 1, denied: 3, banned: 0}}",
        "{request: GET /bans, expect: {verdict: banned, status: 429, limit: bans, retry_after: 1m, "
        "headers: {Retry-After: '60', RateLimit: absent, Cache-Control: no-store}}}",
        "{request: GET /bans, repeat: 3, expect: denied}",
        "{request: GET /bans, from: 192.0.2.7, expect: allowed}",
        "{at: 59s, request: GET /bans, expect: {banned: 1, retry_after: 1s}}",
        "{at: 1m, request: GET /bans, repeat: 3, expect: {denied: 3, banned: 0}}",
        "{request: GET /bans, expect: {verdict: banned, retry_after: 4m}}",
        "{at: 5m, request: GET /bans, repeat: 3, expect: {denied: 3, banned: 0}}",
        "{request: GET /bans, expect: {verdict: banned, retry_after: 5m}}",
        "{at: 20m, request: GET /bans, repeat: 3, expect: {denied: 3, banned: 0}}",
        "{request: GET /bans, expect: {verdict: banned, retry_after: 1m}}",
    ],
    "a ban in shadow refuses nothing": [
        "{request: GET /quiet, repeat: 20, expect: {allowed: 1, denied: 19, banned: 0}}",
    ],
    "no more bans are set in a minute than may be": [
        "{request: GET /bans, clients: 3, repeat: 15, expect: {allowed: 3, denied: 12, banned: 2}}",
        "{at: 1m, request: GET /bans, from: 192.0.2.3, repeat: 4, expect: {banned: 1}}",
    ],
    "an answer counts for a ban when it comes": [
        "{request: GET /guesses, repeat: 2, answer: 401, takes: 10s, expect: allowed}",
        "{at: 9s, request: GET /guesses, expect: {denied: 1, banned: 0}}",
        "{at: 11s, request: GET /guesses, expect: {verdict: banned, retry_after: 59s}}",
    ],
    "a trusted proxy that names no client is not banned": [
        "{request: GET /bans, from: 10.0.0.1, repeat: 20, expect: {denied: 19, banned: 0}}",
        "{request: GET /bans, from: 10.0.0.1, headers: {X-Forwarded-For: 192.0.2.9}, repeat: 20, expect: {banned: 16}}",
    ],
    "clients take turns": [
        "{request: GET /bucket, from: 192.0.2.255, clients: 2, repeat: 8, expect: {allowed: 6, denied: 2}}",
        "{request: GET /bucket, from: 192.0.3.0, expect: denied}",
        "{request: GET /bucket, from: '2001:db8::1', clients: 3, repeat: 9, expect: allowed}",
        "{request: GET /bucket, from: '2001:db8:0:2::2', expect: denied}",
    ],
    "a bucket fills again as time passes": [
        "{request: GET /bucket, repeat: 5, expect: {allowed: 3, denied: 2, retry_after: 6s}}",
        "{at: 6s, request: GET /bucket, expect: {verdict: allowed, remaining: 0}}",
        "{at: 6s, request: GET /bucket, expect: {verdict: denied, status: 429, limit: bucket}}",
    ],
    "requests that repeat come one after another": [
        "{request: GET /bucket, repeat: 100, every: 6s, expect: allowed}",
        "{after: 0s, request: GET /bucket, repeat: 3, expect: {allowed: 2, denied: 1}}",
    ],
    "the client is found as the proxy finds it": [
        "{request: GET /bucket, from: 10.0.0.1, headers: {X-Forwarded-For: 192.0.2.9}, repeat: 3}",
        "{request: GET /bucket, from: 192.0.2.9, expect: denied}",
        "{request: GET /bucket, from: 192.0.2.8, expect: allowed}",
    ],
    "slots are given back when requests end": [
        "{request: GET /slots, takes: 5s, repeat: 3, expect: {allowed: 2, denied: 1}}",
        "{at: 4999ms, request: GET /slots, expect: {verdict: denied, retry_after: none}}",
        "{at: 5s, request: GET /slots, expect: allowed}",
    ],
    "slots of a request that lasts longer than its lease are kept": [
        "{request: GET /slots, takes: 10m, repeat: 2, expect: allowed}",
        "{at: 9m, request: GET /slots, expect: denied}",
        "{at: 10m, request: GET /slots, expect: allowed}",
    ],
    "shaped requests are held, and refused where they would wait too long": [
        "{request: GET /shaped, expect: {verdict: allowed, held: 0s}}",
        "{request: GET /shaped, expect: {held: 500ms}}",
        "{request: GET /shaped, expect: {held: 1s}}",
        "{request: GET /shaped, expect: {verdict: denied, limit: shaped}}",
    ],
    "of two departures the later one is waited for, unless they are apart": [
        "{request: GET /paced, headers: {Cookie: sid=b}, expect: {held: 0s}}",
        "{request: GET /paced, headers: {Cookie: sid=a; sid=b}, expect: {verdict: allowed, held: 500ms}}",
        "{request: GET /paced, headers: {Cookie: sid=a; sid=b}, expect: {verdict: allowed, held: 1s}}",
        "{request: GET /paced, headers: {Cookie: sid=b}, expect: {held: 1500ms}}",
        "{request: GET /paced, headers: {Cookie: sid=a; sid=b}, expect: {verdict: refused, status: 400}}",
        "{request: GET /tokens, expect: {remaining: 85}}",  # it counts the one that is refused
    ],
    "answers that do not count are given back when they are known": [
        "{request: POST /login, answer: 200, repeat: 9, expect: allowed}",
        "{request: POST /login, answer: 401, repeat: 2, expect: allowed}",
        "{request: POST /login, answer: 200, expect: {verdict: denied, limit: failures}}",
    ],
    "an answer that is under way is reserved for": [
        "{request: POST /login, answer: 200, takes: 2s, repeat: 3, expect: {allowed: 2, denied: 1}}",
        "{at: 2s, request: POST /login, answer: client_left, repeat: 3, "
        "expect: {allowed: 2, denied: 1}}",
    ],
    "a client that leaves is charged, and what a server does not answer": [
        "{request: POST /login, answer: server_failed, expect: allowed}",
        "{request: POST /login, answer: client_left, expect: allowed}",
        "{request: POST /login, answer: 200, expect: {verdict: denied, limit: failures}}",
    ],
    "a cost that the response tells replaces the estimate": [
        "{request: GET /tokens, answer_headers: {X-Tokens: '70'}, expect: {remaining: 90}}",
        "{request: GET /tokens, expect: {remaining_of: {tokens: 20}}}",
    ],
    "shadows deny nobody and are told": [
        "{request: GET /idea, expect: {shadow: [], status: 204}}",
        "{request: GET /idea, expect: {verdict: allowed, shadow: [idea], route: idea}}",
    ],
    "what is refused before limits says why": [
        "{request: GET /nowhere, expect: {verdict: refused, status: 404}}",
        "{request: GET /must, expect: {verdict: denied, status: 403, limit: must}}",
        "{request: GET /must, headers: {X-Key: k}, repeat: 6, expect: {allowed: 5, denied: 1}}",
        "{request: GET /must, headers: {X-Key: k}, expect: {status: 418}}",
        "{request: GET /known, expect: {verdict: denied, status: 401, limit: known}}",
        "{request: GET /closed, expect: {status: 503, headers: {Retry-After: '60', Cache-Control: no-store}}}",
        "{request: 'GET /bucket%2F..%2Fmust', expect: {verdict: refused, status: 400}}",
        "{request: GET /bucket, headers: {Transfer-Encoding: gzip}, expect: {verdict: refused}}",
    ],
    "fields are as the proxy writes them": [
        "{request: GET /bucket, expect: {headers: {RateLimit: '\"bucket\";r=2;t=6', "
        "RateLimit-Policy: '\"bucket\";q=10;w=60', Retry-After: absent}}}",
        "{request: GET /bucket, repeat: 3, expect: {headers: {retry-after: '6', "
        "Cache-Control: no-store}}}",
    ],
}


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_what_holds_passes(run, story):
    result = run(steps(*STORIES[story]))
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "\nok    it holds (" in result.stdout and "1 test, 0 failed" in result.stdout


def test_days_begin_at_midnight_of_their_zone_also_when_the_clock_is_changed(run):
    # In Berlin the day of 2026-03-29 has 23 hours: it ends at 22:00 UTC.
    result = run(steps(
        "{request: GET /daily, repeat: 6, expect: {allowed: 5, denied: 1, retry_after: 82800s}}",
        "{at: 22h59m59s, request: GET /daily, expect: denied}",
        "{at: 23h, request: GET /daily, repeat: 5, expect: allowed}",
        "{at: 46h59m59s, request: GET /daily, expect: denied}",
        "{at: 47h, request: GET /daily, expect: allowed}"),
        head="policy: policy.yaml\nstart: 2026-03-29T00:00:00+01:00\n")
    assert result.returncode == 0, result.stdout


def test_a_time_long_ago_has_its_calendar(run):
    result = run(steps(
        "{request: GET /monthly, repeat: 3, expect: {allowed: 2, denied: 1, retry_after: 1s}}",
        "{after: 1s, request: GET /monthly, repeat: 2, expect: allowed}",
        "{after: 29d, request: GET /monthly, expect: denied}",
        "{after: 1h, request: GET /monthly, expect: allowed}"),
        head="policy: policy.yaml\nstart: 1996-01-31T23:59:59Z\n")
    assert result.returncode == 1  # 1996 is a leap year: 29 days after February 1st it is March
    assert "- verdict: denied\n  + verdict: allowed" in result.stdout


def test_each_test_begins_with_nothing_taken_at_its_own_time(run):
    one = "- name: {}\n  start: {}\n  steps: [{{request: GET /monthly, repeat: 2, expect: allowed}}]\n"
    result = run("tests:\n" + one.format("one", "2030-01-01T00:00:00Z") +
                 one.format("two", "2027-06-01T00:00:00Z"))
    assert result.returncode == 0 and "2 tests, 0 failed, 4 requests" in result.stdout


def test_a_failure_reads_like_a_difference_with_its_place(run, tmp_path):
    result = run(steps("{request: GET /bucket, repeat: 3}",
                       "{after: 2s, request: GET /bucket, "
                       "expect: {verdict: allowed, status: 200, route: bucket}}"))
    assert result.returncode == 1
    assert result.stdout.endswith(f"""
FAIL  it holds (4 requests in 2s)
{tmp_path}/tests.yaml:6:5: not as expected (- expected, + got)
  GET /bucket, 2s after the first
  - verdict: allowed
  + verdict: denied
  - status: 200
  + status: 429
    route: bucket
    limit: bucket
    retry_after: 4s
    remaining: 0
1 test, 1 failed, 4 requests
""")


def test_many_failures_are_counted_and_the_first_are_told(run):
    result = run(steps("{request: GET /bucket, repeat: 1000, expect: denied}"))
    assert result.stdout.count("+ verdict: allowed") == 3
    result = run(steps("{request: GET /bucket, repeat: 1003, expect: allowed}"))
    assert result.stdout.count("+ verdict: denied") == 20
    assert "and 980 more that went wrong in this test" in result.stdout


def test_json_and_junit_tell_the_same(run):
    tests = steps("{request: GET /bucket, expect: {verdict: denied, headers: {RateLimit: '<&\">'}}}")
    told = json.loads(run(tests, "--json").stdout)
    failure = told["files"][0]["tests"][0]["failures"][0]
    assert (told["failed"], failure["line"], failure["column"]) == (1, 5, 5)
    assert {"name": "verdict", "expected": "denied", "got": "allowed"} in failure["facts"]
    suites = xml.etree.ElementTree.fromstring(run(tests, "--junit").stdout)
    case = suites.find("testsuite/testcase")
    assert case.get("name") == "it holds" and '- RateLimit: <&">' in case.find("failure").text


def test_a_long_value_is_whole_in_junit(run):
    value = "a" * 4097
    tests = steps(f"{{request: GET /bucket, expect: {{headers: {{RateLimit: {value}}}}}}}")
    suites = xml.etree.ElementTree.fromstring(run(tests, "--junit").stdout)
    assert f"- RateLimit: {value}\n" in suites.find("testsuite/testcase/failure").text


CONNECTIONS = """
listen: 127.0.0.1:1
limits: {service: {key: client.cert.dns, algorithm: fixed_window, rate: 1/hour, missing: deny}}
routes:
  - {name: billing, match: {client_cert: {uri: "spiffe://test/billing"}}, respond: {status: 204}}
  - {name: service, match: {client_cert: true}, limits: [service], respond: {status: 204}}
  - {name: https, match: {scheme: https}, respond: {status: 204}}
  - {name: http, respond: {status: 204}}
"""


def test_the_connection_of_a_request_can_be_said(run, tmp_path):
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    tests = steps("{request: GET /, expect: {route: http}}",
                  "{request: GET https://a.test/, expect: {route: https}}",
                  "{request: GET http://a.test, expect: {route: http}}",
                  "{request: GET /, client_cert: {dns: A.test}, expect: {route: service, status: 204}}",
                  "{request: GET /, client_cert: {dns: a.test}, expect: {route: service, status: 429}}",
                  "{request: GET /, client_cert: {dns: b.test}, expect: {status: 204}}",
                  "{request: GET /, client_cert: {}, expect: {route: service, status: 403}}",
                  "{request: GET https://a.test/, client_cert: {uri: 'spiffe://test/billing'}, expect: {route: billing}}")
    head = "policy: connections.yaml\n"
    told = run(tests, head=head)
    assert (told.returncode, told.stderr) == (0, ""), told.stdout
    told = run(steps("{request: GET /, expect: {route: https}}", "{request: GET http://a.test/, expect: {route: http}}"),
               head=head + "defaults: {scheme: https}\n")
    assert (told.returncode, told.stderr) == (0, ""), told.stdout


MISTAKES = [
    (steps("{request: GET http://a.test/, client_cert: {}}"),
     ":5:48: error: no client shows a certificate over plain http"),
    (steps("{request: GET}"), ":5:15: error: request \"GET\": must be a method and a path"),
    (steps("{request: get /}"), "case counts in methods; did you mean \"GET\"?"),
    (steps("{request: GET x}"), ":5:15: error: request \"GET x\": "),
    (steps("{requst: GET /}"), ":5:6: error: unknown key \"requst\" in tests.1.steps.1; "
                               "did you mean \"request\"?"),
    (steps("{request: GET /, expect: alowed}"), "did you mean \"allowed\"?"),
    (steps("{request: GET /, expect: {limit: buckt}}"),
     ":5:38: error: the policy has no limit \"buckt\"; did you mean \"bucket\"?"),
    (steps("{request: GET /, expect: {route: x, shadow: [y], remaining_of: {z: 1}}}"),
     "the policy has no route \"x\""),
    (steps("{request: GET /, expect: {headers: {Content-Type: absent}}}"),
     ":5:41: error: no answer is made with the field \"Content-Type\" here; a test can expect "),
    (steps("{at: 5, request: GET /}"), "needs a unit"),
    (steps("{request: GET /, at: 2s}", "{request: GET /, at: 1s}"),
     ":6:26: error: at \"1s\": the step before is later"),
    (steps("{request: GET /, at: 2s, after: 1s}"), "\"at\" or \"after\", not both"),
    (steps("{request: GET /, repeat: 0}"), "must be at least 1"),
    (steps("{request: GET /, repeat: 2, expect: {allowed: 2, denied: 1}}"),
     "more requests are expected than the step has"),
    (steps("{request: GET /, repeat: 2, expect: {banned: 3}}"), "more requests are expected than the step has"),
    (steps("{request: GET /, repeat: 2, expect: {denied: 1, banned: 2}}"), "that a ban denies count as denied"),
    (steps("{request: GET /, from: 255.255.255.254, clients: 3}"), "not so many addresses"),
    (steps("{request: GET /, every: 3650d, repeat: 1000}"), "until after the year 2111"),
    (steps("{request: GET /, from: x}"), "must be an address"),
    (steps("{request: GET /, answer: 99}"), ", client_left or server_failed"),
    (steps("{request: GET /, expect: {retry_after: 1500ms}}"), "whole seconds"),
    ("tests: []\n", ":2:8: error: tests must have at least one test"),
    ("tests:\n- {name: empty, steps: []}\n", ":3:24: error: steps must have at least one request"),
    ("tests: 7\n", "tests must be a list"),
    ("start: yesterday\n" + steps("{request: GET /}"), "must be a time such as"),
    ("- a\n", "not YAML"),
]


@pytest.mark.parametrize("tests, told", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_nothing_is_run(run, tests, told):
    result = run(tests)
    assert result.returncode == 1 and told in result.stderr, result.stderr
    assert "ok " not in result.stdout and "FAIL" not in result.stdout


@pytest.mark.parametrize("tests, head", [
    (steps("{request: GET x}"), "policy: policy.yaml\n"),
    (steps("{request: GET /, expect: {limit: none}}"), "policy: policy.yaml\n"),
    (steps("{request: GET /}"), "policy: none.yaml\n"),
])
def test_a_file_that_cannot_be_run_is_an_error_in_the_report_too(run, tmp_path, tests, head):
    told = json.loads(run(tests, "--json", head=head).stdout)
    assert told["errors"] == 1 and told["files"][0]["file"] == str(tmp_path / "tests.yaml")
    assert told["files"][0]["error"] and told["files"][0]["tests"] == []
    suites = xml.etree.ElementTree.fromstring(run(tests, "--junit", head=head).stdout)
    case = suites.find("testsuite/testcase")
    assert case.get("name") == "the file can be run" and case.find("error").get("message")


def test_a_policy_that_cannot_be_loaded_is_named_where_it_stands(run, tmp_path):
    result = run(steps("{request: GET /}"), head="policy: none.yaml\n")
    assert result.returncode == 1
    assert f"{tmp_path}/tests.yaml:1:9: error: its policy {tmp_path}/none.yaml" in result.stderr


def test_a_file_that_is_not_there_and_wrong_usage_end_as_elsewhere(tmp_path):
    assert program.command("test", str(tmp_path / "none.yaml")).returncode == 1
    for arguments in ([], ["--json"], ["--xml", "a.yaml"]):
        result = program.command("test", *arguments)
        assert result.returncode == 2 and "usage: sluice test" in result.stderr


@pytest.mark.parametrize("path", sorted(glob.glob(f"{ROOT}/config/tests/*.yaml")), ids=os.path.basename)
def test_the_tests_in_config_pass(path):
    result = program.command("test", path)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_a_story_goes_for_the_proxy_as_it_goes_under_test(run, start, start_upstream):
    """The same requests through a proxy: status and fields are those that the test foretells."""
    upstream = start_upstream()
    proxy = start(POLICY.replace("listen: 127.0.0.1:1", "listen: 127.0.0.1:0").replace(
        "http://127.0.0.1:2", upstream.url).replace("10/minute", "10/day"))
    answers = [proxy.ask("GET", "/bucket") for _ in range(5)]
    expected = [f"{{request: GET /bucket, expect: {{status: {answer.status}, headers: "
                f"{{RateLimit-Policy: '{answer.get('RateLimit-Policy')}'}}, "
                f"remaining: {answer.get('RateLimit').split('r=')[1].split(';')[0]}}}}}"
                for answer in answers]
    result = run(steps(*(line.replace("w=86400", "w=60") for line in expected)))
    assert result.returncode == 0, result.stdout


def test_the_manuals_commands_print_what_it_shows(tmp_path):
    with open(f"{ROOT}/docs/testing-policies.md", encoding="utf-8") as file:
        manual = file.read()
    shutil.copytree(f"{ROOT}/config", tmp_path / "config")
    (tmp_path / "hello.yaml").write_text(re.search(r"```yaml\n(policy: .*?)```", manual, re.S).group(1))
    shown = re.findall(r"```sh\n(.*?)```\n+```text\n(.*?)```", manual, re.S)
    assert len(shown) == manual.count("```sh") == 2
    for command, output in shown:
        told = subprocess.run(["bash", "-c", command.replace("sluice ", os.path.abspath(program.PROGRAM) + " ")],
                              cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert told.stderr == "" and told.stdout == output
