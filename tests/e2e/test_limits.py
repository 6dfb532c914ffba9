"""What limits tell a client: 200s with what is left, 429s with when to come back."""

import json
import time

import pytest

from harness import program
from harness.admin import Admin, addresses, ctl
from harness.wait import rest_of_window

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


def limited(limits, routes="- {limits: [%s], respond: {status: 204}}"):
    """A policy of `limits` (name: body) whose only route has all of them."""
    lines = "\n".join(f"  {name}: {body}" for name, body in limits.items())
    return f"limits:\n{lines}\nroutes:\n  {routes % ', '.join(limits)}\n"


def waits(denied, at_most_s):
    """How long it has to, on a machine that may have stalled since the limit was full."""
    wait_s = int(denied.get("Retry-After"))
    assert at_most_s - 30 <= wait_s <= at_most_s
    return wait_s


# --- the short form ---


def test_the_short_form_counts_down_denies_and_lets_in_again_after_retry_after(
        start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"upstream: {upstream.url}\nlimit: 100/minute\n")
    answers = []
    started = time.monotonic()
    with proxy.connect() as client:
        while not answers or answers[-1].status == 200:
            answers.append(client.ask())
    n_refilled = int((time.monotonic() - started) / 0.6)
    denied = answers.pop()
    assert 100 <= len(answers) <= 100 + n_refilled
    assert answers[0].get("RateLimit-Policy") == '"per-client";q=100;w=60'
    assert answers[0].get("RateLimit") == '"per-client";r=99;t=1'
    left = [int(answer.get("RateLimit").split("r=")[1].split(";")[0]) for answer in answers]
    # By one each time, but for what was filled again: no more than made n_refilled answers more.
    assert all(after >= before - 1 for before, after in zip(left, left[1:])) and left[-1] == 0
    assert (denied.status, denied.get("Retry-After")) == (429, "1")
    time.sleep(1)
    assert proxy.ask().status == 200
    assert len(upstream.requests) == len(answers) + 1


def test_rule_76_a_denial_says_what_was_exceeded_and_is_not_stored(start):
    proxy = start(limited({"per-client": "{key: client.ip, rate: 1/hour}"}))
    assert proxy.ask().status == 204
    denied = proxy.ask()
    assert (denied.status, denied.reason) == (429, "Too Many Requests")
    assert denied.get("Cache-Control") == "no-store"
    assert denied.get("Content-Type") == "application/problem+json"
    wait_s = waits(denied, 3600)
    assert denied.get("RateLimit-Policy") == '"per-client";q=1;w=3600'
    assert denied.get("RateLimit") == f'"per-client";r=0;t={wait_s}'
    assert denied.get("Date") is not None
    assert denied.json() == {"type": QUOTA_EXCEEDED, "title": "Quota exceeded", "status": 429,
                             "violated-policies": ["per-client"], "retry-after": wait_s}


def test_rule_76_no_error_is_stored(start):
    """A cache in front would give one client's 431 to all."""
    proxy = start("upstreams: {none: {servers: [http://127.0.0.1:9]}}\n"
                  "routes: [{match: {host: a}, upstream: none}]\n")
    answers = [proxy.ask(path="/%zz", host="a"), proxy.ask(host="b"), proxy.ask(host="a"),
               proxy.ask(host="a", fields=[("X", "x" * 20000)]), proxy.ask(host="a", fields=[("Expect", "y")])]
    assert [answer.status for answer in answers] == [400, 404, 502, 431, 417]
    assert [answer.get("Cache-Control") for answer in answers] == ["no-store"] * 5


@pytest.mark.parametrize("more, stored", [
    ("", "no-store"), ("response: {set: {Cache-Control: max-age=60}}, ", "max-age=60")])
def test_rule_76_an_answer_of_a_route_is_not_stored_unless_the_policy_says_so(start, more, stored):
    """A cache in front knows nothing of the header that the route asks for, and keeps a 404."""
    proxy = start(f"routes: [{{match: {{header: {{sec-purpose: true}}}}, {more}respond: {{status: 404}}}},\n"
                  f"         {{respond: {{status: 200, body: ok, set: {{Cache-Control: max-age=9}}}}}}]\n")
    assert proxy.ask(fields=[("Sec-Purpose", "prefetch")]).get("Cache-Control") == stored
    assert proxy.ask().get("Cache-Control") == "max-age=9"


def test_rule_75_retry_after_is_the_whole_wait_and_no_more(start):
    period_s = 6
    proxy = start(limited({"slow": f"{{key: client.ip, rate: 1/{period_s}s}}"}))
    asked_at = time.monotonic()
    assert proxy.ask().status == 204
    full_at = time.monotonic()
    for _ in range(2):
        sent_at = time.monotonic()
        denied = proxy.ask()
        assert denied.status == 429
        left_s = asked_at + period_s - time.monotonic(), full_at + period_s - sent_at
        assert left_s[0] <= int(denied.get("Retry-After")) < left_s[1] + 1
        time.sleep(1)
    time.sleep(max(0, full_at + period_s - time.monotonic()))
    assert proxy.ask().status == 204


def test_a_denied_client_keeps_its_connection(start):
    proxy = start(limited({"once": "{key: client.ip, rate: 1/hour}"}))
    with proxy.connect() as client:
        assert [client.ask().status for _ in range(3)] == [204, 429, 429]


def test_rule_77_a_denied_head_request_has_no_body(start):
    proxy = start(limited({"once": "{key: client.ip, rate: 1/hour}"}))
    with proxy.connect() as client:
        assert client.ask("HEAD").status == 204
        denied = client.ask("HEAD")
        assert denied.status == 429 and int(denied.get("Content-Length")) > 0
        # Were there a body, it would be read as the start of this answer.
        assert client.ask("GET").status == 429


# --- rates and algorithms ---


def test_several_rates_of_a_limit_have_each_a_name(start):
    proxy = start(limited({"api": "{key: client.ip, rate: [2/hour, 5/day, 100/week]}"}))
    answer = proxy.ask()
    assert answer.get("RateLimit-Policy") == (
        '"api.1h";q=2;w=3600, "api.1d";q=5;w=86400, "api.1w";q=100;w=604800')
    assert answer.get("RateLimit") == (
        '"api.1h";r=1;t=1800, "api.1d";r=4;t=17280, "api.1w";r=99;t=6048')
    proxy.ask()
    denied = proxy.ask()
    assert denied.json()["violated-policies"] == ["api.1h"]
    waits(denied, 1800)


def test_a_denial_by_several_limits_names_all_and_tells_the_longest_wait(start):
    proxy = start(limited({"a": "{key: client.ip, rate: 1/hour}", "b": "{key: global, rate: 1/day}",
                           "c": "{key: client.ip, rate: 9/day}"}))
    proxy.ask()
    denied = proxy.ask()
    assert denied.json()["violated-policies"] == ["a", "b"]
    waits(denied, 86400)


def test_a_burst_is_what_passes_at_once(start):
    proxy = start(limited({"bursty": "{key: client.ip, rate: 100/hour, burst: 3}"}))
    answers = [proxy.ask() for _ in range(4)]
    assert [answer.status for answer in answers] == [204, 204, 204, 429]
    assert answers[0].get("RateLimit-Policy") == '"bursty";q=100;w=3600'
    assert answers[0].get("RateLimit") == '"bursty";r=2;t=36'


@pytest.mark.parametrize("period", ["500ms", "1500ms"])
def test_a_period_that_is_not_whole_seconds_has_no_window_in_the_policy_field(start, period):
    proxy = start(limited({"fast": f"{{key: client.ip, rate: 5/{period}}}"}))
    assert proxy.ask().get("RateLimit-Policy") == '"fast";q=5'


def test_a_fixed_window_opens_again_at_its_end(start):
    proxy = start(limited({"window": "{key: client.ip, algorithm: fixed_window, rate: 2/5s}"}))
    rest_of_window(5, at_least_s=3)
    asked_at = time.time()
    end_of_window = asked_at // 5 * 5 + 5
    answers = [proxy.ask() for _ in range(3)]
    answered_at = time.time()
    assert [answer.status for answer in answers] == [204, 204, 429]
    assert answers[0].get("RateLimit-Policy") == '"window";q=2;w=5'
    wait_s = int(answers[2].get("Retry-After"))
    assert 1 <= wait_s <= 5
    assert answered_at + wait_s >= end_of_window - 0.01 and asked_at + wait_s < end_of_window + 1
    time.sleep(wait_s)
    assert proxy.ask().status == 204


def test_a_denied_request_takes_nothing_from_the_other_limits(start):
    proxy = start("""
        limits:
          wide: {key: client.ip, rate: 10/day}
          narrow: {key: client.ip, rate: 1/day}
        routes:
          - {match: {path: /both}, limits: [wide, narrow], respond: {status: 204}}
          - {match: {path: /wide}, limits: [wide], respond: {status: 204}}
    """)
    assert proxy.ask(path="/both").get("RateLimit") == '"wide";r=9;t=8640, "narrow";r=0;t=86400'
    denied = [proxy.ask(path="/both") for _ in range(3)]
    assert [answer.status for answer in denied] == [429] * 3
    assert denied[-1].get("RateLimit").startswith('"wide";r=9;')
    assert proxy.ask(path="/wide").get("RateLimit").startswith('"wide";r=8;')


def test_a_route_may_cost_more_than_one(start):
    proxy = start("""
        limits: {budget: {key: client.ip, rate: 10/day}}
        defaults: {limits: [budget]}
        routes:
          - {match: {path: /dear}, cost: 4, respond: {status: 204}}
          - {respond: {status: 204}}
    """)
    statuses = [proxy.ask(path="/dear").status for _ in range(3)]
    assert statuses == [204, 204, 429]
    assert [proxy.ask(path="/cheap").status for _ in range(3)] == [204, 204, 429]


# --- routes ---


def test_what_no_route_matches_is_404_and_never_forwarded(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"""
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{match: {{path: /v1/**}}, upstream: api}}]
    """)
    answer = proxy.ask(path="/v2/users")
    assert answer.status == 404 and answer.get("Content-Type") == "application/problem+json"
    assert answer.json()["status"] == 404
    assert proxy.ask(path="/v1/users").status == 200
    assert [request.target for request in upstream.requests] == ["/v1/users"]


def test_the_first_route_that_matches_counts(start):
    proxy = start("""
        routes:
          - {match: {path: /a/*, method: [POST, PUT]}, respond: {status: 201}}
          - {match: {path: /a/*, header: {x-beta: "on"}}, respond: {status: 202}}
          - {match: {path: "/a/{id}/parts"}, respond: {status: 203}}
          - {match: {path: /a/**, host: "*.example.com"}, respond: {status: 206}}
          - {match: {path: /a/**, client: 127.0.0.2}, respond: {status: 210}}
          - {respond: {status: 299}}
    """)
    assert proxy.ask("PUT", "/a/1").status == 201
    assert proxy.ask("GET", "/a/1", {"X-Beta": "on"}).status == 202
    assert proxy.ask("GET", "/a/1", {"X-Beta": "off"}).status == 299
    assert proxy.ask("GET", "/a/1/parts").status == 203
    assert proxy.ask("GET", "/a/1/2/3", host="API.Example.com:80").status == 206
    assert proxy.ask("GET", "/a", source="127.0.0.2").status == 210
    assert proxy.ask("GET", "/b").status == 299


def test_a_route_that_answers_by_itself_is_limited_too(start):
    proxy = start("""
        limits: {once: {key: client.ip, rate: 1/day}}
        routes: [{limits: [once], respond: {status: 200, body: "hi", content_type: text/x}}]
    """)
    answer = proxy.ask()
    assert (answer.status, answer.body, answer.get("Content-Type")) == (200, b"hi", "text/x")
    assert answer.get("RateLimit") == '"once";r=0;t=86400'
    assert proxy.ask().status == 429


def test_a_route_without_limits_has_no_ratelimit_fields(start):
    proxy = start("""
        limits: {once: {key: client.ip, rate: 1/day}}
        defaults: {limits: [once]}
        routes:
          - {match: {path: /free}, limits: [], respond: {status: 204}}
          - {respond: {status: 204}}
    """)
    for _ in range(3):
        answer = proxy.ask(path="/free")
        assert answer.status == 204 and answer.get("RateLimit") is None
        assert answer.get("RateLimit-Policy") is None
    assert [proxy.ask().status for _ in range(2)] == [204, 429]


# --- what a limit may say ---


def test_excepted_clients_are_never_judged(start):
    proxy = start(limited({"once": "{key: global, rate: 1/day, except: {client: 127.0.0.2/31}}"}))
    assert proxy.ask().status == 204
    assert proxy.ask().status == 429
    for source in ("127.0.0.2", "127.0.0.3"):
        answer = proxy.ask(source=source)
        assert answer.status == 204 and answer.get("RateLimit") is None
    assert proxy.ask(source="127.0.0.4").status == 429


def test_a_custom_denial_is_sent_as_it_is_written(start):
    proxy = start(limited({
        "login": "{key: client.ip, rate: 1/hour, deny: {status: 403, body: 'Slow down.', "
                 "content_type: text/x-plain}}"}))
    proxy.ask()
    denied = proxy.ask()
    assert (denied.status, denied.body) == (403, b"Slow down.")
    assert denied.get("Content-Type") == "text/x-plain"
    assert waits(denied, 3600) and denied.get("Cache-Control") == "no-store"


def test_clients_without_the_key_share_one_counter(start):
    proxy = start(limited({"by-key": "{key: header.x-api-key, rate: 1/day}"}))
    assert proxy.ask(fields={"X-Api-Key": "a"}).status == 204
    assert proxy.ask().status == 204
    assert proxy.ask(source="127.0.0.2").status == 429
    assert proxy.ask(fields={"X-Api-Key": "b"}).status == 204


def test_missing_deny_is_a_denial_wherever_it_is_told(start):
    proxy = start("admin: 127.0.0.1:0\n" + limited({
        "by-key": "{key: header.x-api-key, rate: [5/s, 1/day], missing: deny}"}))
    assert [proxy.ask().status for _ in range(3)] == [403] * 3
    for line in proxy.log_lines(3):
        assert (line["verdict"], line["limit"], line["source"]) == ("denied", "by-key", "missing")
    place, = addresses(proxy)
    page = Admin(place).ask("GET", "/metrics").body.decode().splitlines()
    assert 'sluice_decisions_total{limit="by-key.1s",verdict="denied",source="missing"} 3' in page
    assert not [line for line in page if 'limit="by-key.1d",verdict="denied"' in line
                and not line.endswith(" 0")], "a request counts once"
    top = ctl(place, "top").stdout.splitlines()
    assert len(top) == 2 and top[1].split()[0] == "3" and top[1].split()[-2:] == ["by-key.1s", "none"]
    told = program.command("explain", str(proxy.folder / "policy.yaml"), "GET", "/")
    assert "by-key: DENIES it" in told.stdout
    asked = program.command("explain", str(proxy.folder / "policy.yaml"), "GET", "/", "--json")
    assert {limit["outcome"] for limit in json.loads(asked.stdout)["limits"]} == {"denied"}


def test_missing_deny_refuses_clients_without_the_key(start):
    proxy = start(limited({"by-key": "{key: header.x-api-key, rate: 1/day, missing: deny}"}))
    refused = proxy.ask()
    assert refused.status == 403 and refused.get("Content-Type") == "application/problem+json"
    assert refused.get("RateLimit") is None
    line, = proxy.log_lines(1)
    assert (line["verdict"], line["limit"], line["status"]) == ("denied", "by-key", "403")
    assert proxy.ask(fields={"X-Api-Key": "a"}).status == 204


def test_a_request_without_the_key_gets_the_answer_of_the_policy(start):
    proxy = start(limited({"by-key": "{key: header.x-api-key, rate: 1/day, missing: {status: 401, body: '"
                                     '{"limit": "{limit}", "wait": {wait}, "id": "{request_id}"}'
                                     "', content_type: application/json, "
                                     "set: {WWW-Authenticate: 'ApiKey realm=\"{limit}\"'}}}"}))
    lacking = proxy.ask()
    line, = proxy.log_lines(1)
    assert (lacking.status, lacking.get("Content-Type")) == (401, "application/json")
    assert lacking.all("WWW-Authenticate") == ['ApiKey realm="by-key"']
    assert lacking.get("Cache-Control") == "no-store" and lacking.get("RateLimit") is None
    assert json.loads(lacking.body) == {"limit": "by-key", "wait": None, "id": line["id"]}
    assert (line["verdict"], line["source"], line["status"]) == ("denied", "missing", "401")
    assert proxy.ask(fields={"X-Api-Key": "a"}).status == 204
    told = program.command("explain", str(proxy.folder / "policy.yaml"), "GET", "/")
    assert "401: the request lacks a value that it is counted by, such as an API key" in told.stdout


def test_a_denial_has_the_values_and_fields_of_the_policy(start):
    proxy = start("trusted_proxies: [127.0.0.1]\n" + limited({
        "login": "{key: client.ip, algorithm: fixed_window, rate: 1/hour, align: first, "
                 "deny: {status: 503, body: '{limit} {wait} { id } {request_id}', "
                 "set: {X-Wait: '{wait} s', X-Id: '{request_id}', X-Plain: a, Vary: x}}}"}))
    assert proxy.ask().status == 204
    denied = proxy.ask(fields={"X-Request-ID": "a/b=1"})
    wait = denied.get("Retry-After")
    assert denied.status == 503 and 3500 <= int(wait) <= 3600
    assert denied.body == f"login {wait} {{ id }} a/b=1".encode()
    assert denied.get("Content-Length") == str(len(denied.body))
    assert (denied.get("X-Wait"), denied.get("X-Id"), denied.get("X-Plain")) == (f"{wait} s", "a/b=1", "a")
    denied = proxy.ask("HEAD", fields={"X-Request-ID": 'a"b'})
    assert denied.body == b"" and denied.get("X-Id") != 'a"b'
    assert denied.get("X-Id") in {line["id"] for line in proxy.log_lines(3)}


def test_braces_of_a_fixed_answer_stay_as_they_are(start):
    proxy = start("routes: [{respond: {status: 503, body: '{wait}', set: {Retry-After: '5', X-A: '{limit}'}}}]")
    answer = proxy.ask()
    assert (answer.status, answer.body) == (503, b"{wait}")
    assert (answer.get("Retry-After"), answer.get("X-A")) == ("5", "{limit}")


def test_fields_of_an_answer_come_before_those_of_its_route(start):
    proxy = start("""
routes:
  - respond: {status: 200, body: hello, set: {X-A: answer, Cache-Control: 'max-age=60'}}
    response: {set: {X-A: route, X-B: route}}
""")
    answer = proxy.ask()
    assert answer.all("X-A") == ["answer"] and answer.all("X-B") == ["route"]
    assert answer.get("Cache-Control") == "max-age=60"


def test_an_answer_as_large_as_may_be_arrives_whole(start):
    names = [f"X-{i}" for i in range(8)]
    fields = ", ".join(f"{name}: '{'a' * 980}{{request_id}}{{limit}}'" for name in names)
    most = ", ".join(f"Y-{i}: '{'b' * 500}'" for i in range(16))
    proxy = start("trusted_proxies: [127.0.0.1]\nlimits: {%s: {key: client.ip, rate: 1/day, deny: {set: {%s}}}}\n"
                  "routes: [{limits: [%s], respond: {status: 204}, response: {set: {%s}}}]\n"
                  % ("l" * 64, fields, "l" * 64, most))
    assert proxy.ask().status == 204
    denied = proxy.ask(fields={"X-Request-ID": "i" * 128})
    assert denied.status == 429
    assert {denied.get(name) for name in names} == {"a" * 980 + "i" * 128 + "l" * 64}
    assert denied.get("Y-15") == "b" * 500


def test_missing_skip_lets_clients_without_the_key_pass(start):
    proxy = start(limited({"by-key": "{key: header.x-api-key, rate: 1/day, missing: skip}",
                           "by-ip": "{key: client.ip, rate: 3/day}"}))
    answer = proxy.ask()
    assert answer.status == 204 and answer.get("RateLimit-Policy") == '"by-ip";q=3;w=86400'
    assert proxy.ask(fields={"X-Api-Key": "a"}).get("RateLimit-Policy") == (
        '"by-key";q=1;w=86400, "by-ip";q=3;w=86400')
    assert [proxy.ask().status for _ in range(2)] == [204, 429]


def test_fields_of_the_same_name_from_the_upstream_are_kept(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 200 OK\r\nRateLimit: \"theirs\";r=1\r\nRateLimit-Policy: \"theirs\";q=5\r\n"
        b"Content-Length: 0\r\n\r\n"))
    proxy = start(f"upstream: {upstream.url}\nlimit: 10/day\n")
    answer = proxy.ask()
    assert answer.all("RateLimit") == ['"theirs";r=1', '"per-client";r=9;t=8640']
    assert answer.all("RateLimit-Policy") == ['"theirs";q=5', '"per-client";q=10;w=86400']


def test_the_embedded_store_counts_for_all_workers_together(start):
    proxy = start("workers: 4\n" + limited({"few": "{key: global, rate: 50/day}"}))
    statuses = [proxy.ask().status for _ in range(80)]
    assert statuses.count(204) == 50 and statuses.count(429) == 30
