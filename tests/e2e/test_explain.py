"""`sluice explain`: what it tells of a request is what the proxy then does with it."""

import json
import random
import re
import time

import pytest

from harness import message, program, tokens
from harness.wait import until

POLICY = """
listen: 127.0.0.1:0
trusted_proxies: [10.0.0.0/8, 127.0.0.1]
upstreams:
  api: {servers: [http://10.0.1.5:9000, http://10.0.1.6:9000]}
limits:
  login: {key: [client.ip, path], algorithm: fixed_window, rate: 5/minute, charge_on: [401]}
  per-client: {key: client.ip, rate: [10/s, 1000/day], except: {client: 203.0.113.0/24}}
  per-key: {key: header.x-api-key, rate: 3/s, missing: skip, shadow: true}
  strict: {key: header.x-tenant, rate: 3/s, missing: deny}
routes:
  - {name: health, match: {path: /healthz}, respond: {status: 204}}
  - {name: admin, match: {host: admin.example.com, path: /**}, upstream: api}
  - {name: beta, match: {header: {x-beta: "s3cret"}, path: /**}, upstream: api}
  - {name: inside, match: {client: 192.0.2.0/24, path: /**}, upstream: api}
  - name: login
    match: {path: /api/login, method: [POST, PUT]}
    limits: [login, per-client, per-key]
    upstream: api
    max_body: 1KiB
    strip_prefix: /api
    request: {set: {Authorization: "Bearer s3cret"}, remove: [X-Original-URL, X-Real-IP]}
    response: {remove: [X-Powered-By]}
  - {name: tenants, match: {path: "/t/{id}"}, limits: [strict], upstream: api}
"""


@pytest.fixture(name="policy_file")
def file_of_a_policy(tmp_path):
    def write(text):
        (tmp_path / "policy.yaml").write_text(text)
        return str(tmp_path / "policy.yaml")
    return write


def explain(path, *arguments, status=0):
    result = program.command("explain", path, *arguments)
    assert (result.returncode, result.stderr) == (status, ""), result
    return result.stdout


def explain_json(path, *arguments, status=0):
    return json.loads(explain(path, *arguments, "--json", status=status))


def test_it_reads_like_this(policy_file):
    assert explain(policy_file(POLICY), "POST", "http://api.example.com//api/login", "-H",
                   "X-Forwarded-For: 1.1.1.1, 198.51.100.7, 10.0.0.9", status=3) == """\
request    POST //api/login, host api.example.com
path       /api/login  (normalised: this is what routes and keys see)
client     198.51.100.7
           127.0.0.1     connected, one of trusted_proxies: X-Forwarded-For is read from its end
           10.0.0.9      one of trusted_proxies: the next to the left is looked at
           198.51.100.7  not one of trusted_proxies: the client
           1 more to the left: not looked at
route      login
            1 health  no: the path is not /healthz
            2 admin   no: the host is not admin.example.com
            3 beta    no: the field x-beta does not have the value that it asks for
            4 inside  no: the client is in none of its prefixes
            5 login   yes
limits     3, all of which must allow it
  login: 5 per 1m, fixed_window
    key    client.ip=198.51.100.7,path=/api/login
    hash   ab2701a3a3a4a7e4a7ce13904d687003
    cost   1
    charge only some ends are charged, and any that the client causes: others give back what was taken
  per-client.1s: 10 per 1s, token_bucket, burst 10
    key    client.ip=198.51.100.7
    hash   4bd57029c5f2568ee3240140176f54a5
    cost   1
  per-client.1d: 1000 per 1d, token_bucket, burst 1000
    cost   1
  per-key: does not judge it: a part of its key is missing
upstream   api: http://10.0.1.5:9000, http://10.0.1.6:9000
           the Host is the client's
           the request sets Authorization
           the request removes X-Real-IP, X-Original-URL
           the response removes X-Powered-By
answer     400: the prefix of the path, which is stripped here, is spelled in another way
"""


def test_what_a_policy_keeps_secret_is_not_told(policy_file):
    path = policy_file(POLICY)
    for url in ("/api/login", "/x"):
        assert "s3cret" not in explain(path, "POST", url, status=0 if url != "/x" else 3)


@pytest.mark.parametrize("peer, ignored", [
    ("198.51.100.7", ["X-Forwarded-For", "Forwarded", "X-Forwarded-Proto", "X-Request-ID"]), ("127.0.0.1", [])])
def test_fields_of_a_peer_that_is_not_trusted_are_named_to_programs_too(policy_file, peer, ignored):
    path = policy_file("""
listen: 127.0.0.1:0
trusted_proxies: [127.0.0.1]
limits: {l: {key: header.x-request-id, rate: 1/s, shadow: true}}
routes:
  - {match: {path: /a, header: {X-Forwarded-Proto: https}}, respond: {status: 204}}
  - {limits: [l], respond: {status: 204}}
""")
    names = ["X-Forwarded-For", "X-Forwarded-For", "Forwarded", "X-Forwarded-Proto", "X-Forwarded-Port",
             "X-Request-ID", "X-Other"]
    fields = [part for name in names for part in ("-H", f"{name}: 1.2.3.4")]
    told = explain_json(path, "GET", "/", "--from", peer, *fields)["client"]
    assert told["ignored"] == ignored
    text = explain(path, "GET", "/", "--from", peer, *fields)
    assert ("X-Forwarded-For, Forwarded, X-Forwarded-Proto, X-Request-ID are ignored" in text) == bool(ignored)


OWN_NAME = "sluice-0123456789ab"


# a request; what is told of it, and of the answer
@pytest.mark.parametrize("request_, status, told", [
    (["GET", "/none"], 404, "no route matches"),
    (["GET", "/api/login"], 404, "the method is not POST nor PUT"),
    (["GET", "/%2e%2e%2fx"], 400, "encoded slash"),
    (["post", "/api/login"], 400, "methods are case-sensitive: the request's is POST in another case"),
    (["Get", "/none"], 400, "methods are case-sensitive: the request's is GET in another case"),
    (["GET", "no-slash"], 400, "is not one that can be read"),
    (["GET", "/x", "-H", "Bad Name: 1"], 400, "is not one that can be read"),
    (["POST", "/api/login", "-H", "Content-Length: 2000"], 413, "body is too large"),
    (["GET", "/t/7"], 403, "strict: DENIES it"),
    (["GET", "/t/7", "-H", "X-Tenant: a"], None, "header#"),
    (["POST", "/api/login", "--from", "203.0.113.7"], None, "does not judge it: the client is in except"),
    (["POST", "/api/login", "--from", "198.51.100.7", "-H", "X-Forwarded-For: 1.2.3.4"], None,
     "X-Forwarded-For is ignored: 198.51.100.7 is not one of trusted_proxies; it may be a client"),
    (["POST", "/api/login", "-H", "X-Forwarded-For: x"], None, "is no address"),
    (["POST", "/api/login"], None, "no field says for whom"),
    (["POST", "/api/login", "-H", "X-Forwarded-For: 10.1.1.1"], None, "all are trusted"),
    (["POST", "/api/login", "-H", "X-Forwarded-For: 1.2.3.4", "-H", "Forwarded: for=2.2.2.2"], None,
     "Forwarded is not read"),
    (["POST", "/api/login", "--from", "unix"], None, "client     unix"),
    (["POST", "/api/login?x=1"], None, "the path there is /login (strip_prefix)"),
    (["GET", "/healthz"], 204, "204, by the route itself"),
    (["OPTIONS", "/t/7", "-H", "X-Tenant: a", "-H", "Max-Forwards: 0"], 200,
     "200, by its Max-Forwards it ends here, if its limits allow it"),
    (["OPTIONS", "/healthz", "-H", "Max-Forwards: 0"], 204, "204, by the route itself"),
    (["TRACE", "/t/7", "-H", "X-Tenant: a", "-H", "Max-Forwards: 0"], 501,
     "501: TRACE ends here, by its Max-Forwards, and is not served, if its limits allow it"),
    (["TRACE", "/t/7", "-H", "X-Tenant: a", "-H", "Max-Forwards: 1"], None, "the upstream's, if its limits"),
    (["TRACE", "/t/7", "-H", "Max-Forwards: 0"], 403, "strict: DENIES it"),
    (["GET", "/t/7", "--via", OWN_NAME, "-H", f"Via: 1.0 a, 1.1 {OWN_NAME}"], 508, "has passed here before"),
    (["GET", "/healthz", "--via", OWN_NAME, "-H", f"Via: 1.1 {OWN_NAME}"], 204, "by the route itself"),
    (["POST", "/api/login", "-H", f"Via: 1.1 {OWN_NAME}"], None, "the upstream's, if its limits"),
])
def test_it_says_what_becomes_of_a_request_and_why(policy_file, request_, status, told):
    path = policy_file(POLICY)
    refused = 3 if status in (400, 403, 404, 413, 501, 508) else 0
    assert told in explain(path, *request_, status=refused)
    answer = explain_json(path, *request_, status=refused)["answer"]
    assert (answer["status"], answer["passes"]) == (status, refused == 0)


@pytest.mark.parametrize("url, line", [
    ("http://a.test?x=1/2", "GET /?x=1/2, host a.test"), ("https://a.test:8443?", "GET /?, host a.test"),
    ("http://a.test", "GET /, host a.test"), ("http://a.test#x/y", "GET /, host a.test"),
    ("http://a.test/b?c#d", "GET /b?c, host a.test"), ("/b?c", "GET /b?c, host localhost"),
])
def test_a_url_is_read_as_clients_read_it(policy_file, url, line):
    assert explain(policy_file(POLICY), "GET", url, status=3).startswith(f"request    {line}\n")


def test_of_many_routes_those_are_told_that_come_near(policy_file):
    routes = "".join(f"  - {{match: {{path: /r{i}}}, respond: {{status: 204}}}}\n" for i in range(300))
    told = explain(policy_file("listen: 127.0.0.1:0\nroutes:\n" + routes +
                               "  - {name: other, match: {path: /x, method: PUT}, respond: {status: 204}}\n"
                               "  - {name: it, match: {path: /x}, respond: {status: 204}}\n"), "GET", "/x")
    assert "300 others: their path is another" in told and "301 other  no: the method" in told
    assert "302 it     yes" in told and len(told.splitlines()) < 12


@pytest.mark.parametrize("arguments", [
    [], ["GET"], ["GET", "/", "--from"], ["GET", "/", "--from", "nobody"], ["GET", "/", "-X", "1"]])
def test_wrong_usage_ends_with_2(policy_file, arguments):
    result = program.command("explain", policy_file(POLICY), *arguments)
    assert result.returncode == 2 and result.stdout == "" and "sluice explain" in result.stderr


def test_bytes_of_a_request_cannot_move_the_terminal(policy_file):
    told = explain(policy_file(POLICY), "POST", "/api/login", "-H", "X-Forwarded-For: \x9b31m\xff")
    assert "\x9b" not in told and "is no address" in told


# --- with the store ---

LIVE = """
listen: 127.0.0.1:0
workers: 1
store: {redis: "REDIS", deadline: 5s}
limits:
  bucket: {key: client.ip, rate: 5/hour}
  queue: {key: path, algorithm: leaky_bucket, rate: 1/minute, max_wait: 10m}
  slots: {key: client.ip, algorithm: concurrency, rate: 2}
routes:
  - {match: {path: /q}, limits: [queue], respond: {status: 204}}
  - {match: {path: /**}, limits: [bucket, slots], respond: {status: 204}}
"""


def limits_of(told):
    return {limit["name"]: limit.get("state") for limit in told["limits"]}


def start_live(start, text, n_links=1):
    """A proxy whose one worker asks Redis from its first request on."""
    proxy = start(text)
    until(lambda: proxy.stderr().count('msg="link up"') >= n_links, "Redis")
    return proxy


def is_left(told_s, of_s, started, rounded_up_s=0):
    """What is left of a time that did not begin before `started`."""
    return of_s - (time.monotonic() - started) <= told_s <= of_s + rounded_up_s


def test_the_state_is_told_and_nothing_is_charged(start, start_redis, policy_file):
    redis = start_redis()
    text = LIVE.replace("REDIS", redis.url)
    proxy, path = start_live(start, text), policy_file(text)
    ask = ["GET", "/x", "--live"]
    started = time.monotonic()
    for left in (5, 4, 3, 2, 1):
        for _ in range(2):
            told = explain_json(path, *ask)
            state = limits_of(told)["bucket"]
            assert (told["state"], state["allowed"], state["remaining"]) == ("known", True, left)
        assert proxy.ask("GET", "/x").status == 204
    told = explain_json(path, *ask, status=3)
    assert told["answer"]["limit"] == "bucket" and told["answer"]["status"] == 429
    assert is_left(told["answer"]["retry_after"], 720, started)
    answer = proxy.ask("GET", "/x")
    assert answer.status == 429 and is_left(int(answer.get("Retry-After")), 720, started)
    line = next(line for line in proxy.lines_of("/x", 6) if line["verdict"] == "denied")
    assert (line["limit"], line["key"]) == ("bucket", told["limits"][0]["key_hash"])
    text = explain(path, *ask, status=3)
    assert re.search(r"state  0 of 5 left: DENIES it, again in 1[012]m", text)
    said = re.search(r"answer     429: limit bucket denies it; Retry-After: (\d+)", text)
    assert is_left(int(said.group(1)), 720, started)


def test_a_request_that_would_be_held_is_told_for_how_long(start, start_redis, policy_file):
    redis = start_redis()
    text = LIVE.replace("REDIS", redis.url)
    proxy, path = start_live(start, text), policy_file(text)
    assert proxy.ask("GET", "/q").status == 204
    told = explain(path, "GET", "/q", "--live")
    assert re.search(r"held for (1m|[1-5]\d)", told)


def test_two_departures_that_are_apart_are_told_as_the_refusal_that_they_are(start, start_redis, policy_file):
    redis = start_redis()
    text = LIVE.replace("REDIS", redis.url).replace("key: path", "key: cookie.sid")
    proxy, path = start_live(start, text), policy_file(text)
    ask = ["GET", "/q", "-H", "Cookie: sid=a; sid=b", "--live"]
    assert proxy.ask("GET", "/q", {"Cookie": "sid=b"}).status == 204
    assert explain_json(path, *ask)["answer"]["passes"], "they are no more than a gap apart"
    held = proxy.send(message.request("GET", "/q", {"Cookie": "sid=b"}, None))
    until(lambda: json.loads(program.command("explain", path, *ask, "--json").stdout)["answer"]["status"] == 400,
          "the second one to be held")
    assert "differing" in explain_json(path, *ask, status=3)["answer"]["reason"]
    held.close()


def test_a_cluster_and_a_master_behind_sentinels_are_asked_too(start, start_cluster, start_watched,
                                                               policy_file):
    for url, n_links in ((start_cluster(3, 0).url, 3), (start_watched().url, 1)):
        text = LIVE.replace("REDIS", url).replace("key: path", "key: method")
        text = text.replace("[bucket, slots]", "[bucket, slots, queue]").replace("1/minute", "100/minute")
        proxy, path = start_live(start, text, n_links), policy_file(text)
        until(lambda: proxy.ask("GET", "/q").status == 204 and
              any(line.get("source") == "redis" for line in proxy.all_log_lines()), "Redis to decide")
        ask = ["explain", path, "GET", "/x", "--live", "--json"]  # of the slots it is warned
        before = json.loads(program.command(*ask).stdout)
        assert before["state"] == "known" and before["limits"][0]["state"]["remaining"] == 5
        assert proxy.ask("GET", "/x").status == 204

        def slot_is_given_back():  # after the answer
            state = limits_of(json.loads(program.command(*ask).stdout))
            return state if state["slots"]["remaining"] == 2 else None

        after = until(slot_is_given_back, "the slot to be free")
        assert after["bucket"]["remaining"] == 4


def set_ban(redis, kind, told, left_s):
    """As an operator does, for the first limit that is told."""
    now_ms = int(time.time() * 1000)
    field = f"{told['name']}:{told['key_hash']}"
    redis.call("HSET", "sluice:bans", field, f"{kind} {now_ms + left_s * 1000} {now_ms} me - why not")
    redis.call("PEXPIRE", "sluice:bans", left_s * 1000)
    redis.call("PUBLISH", "sluice:changes", f"ban {field}")


def test_a_ban_is_told_and_what_it_does(start, start_redis, policy_file):
    redis = start_redis()
    text = LIVE.replace("REDIS", redis.url)
    proxy, path = start_live(start, text), policy_file(text)
    told = explain_json(path, "GET", "/x", "--live")
    assert "ban" not in told["limits"][0] and told["answer"]["passes"]
    started = time.monotonic()
    set_ban(redis, "ban", told["limits"][0], 600)
    told = explain_json(path, "GET", "/x", "--live", status=3)
    assert told["limits"][0]["ban"]["kind"] == "ban" and "state" not in told["limits"][1]
    assert (told["answer"]["status"], told["answer"]["limit"]) == (429, "bucket")
    assert is_left(told["answer"]["retry_after"], 600, started)
    text = explain(path, "GET", "/x", "--live", status=3)
    assert "    ban    DENIED, by an operator, for another " in text
    assert "answer     429: limit bucket bans its key; Retry-After: " in text

    def is_banned():  # an empty bucket would deny for longer
        answer = proxy.ask("GET", "/x")
        return answer.status == 429 and int(answer.get("Retry-After")) <= 600

    until(is_banned, "the proxy to obey")


def test_an_exemption_is_told_and_what_it_does(start_redis, policy_file):
    redis = start_redis()
    path = policy_file(LIVE.replace("REDIS", redis.url))
    set_ban(redis, "exempt", explain_json(path, "GET", "/x")["limits"][0], 600)
    told = explain_json(path, "GET", "/x", "--live")
    assert told["limits"][0]["ban"]["kind"] == "exempt" and "state" not in told["limits"][0]
    assert told["limits"][1]["state"]["allowed"] and told["answer"]["passes"]
    assert "    exempt by an operator, so it does not judge, for another " in explain(path, "GET", "/x",
                                                                                    "--live")


def test_an_exemption_of_a_prefix_is_told_unless_the_key_has_a_ban(start, start_redis, policy_file,
                                                                   tmp_path):
    text = LIVE.replace("REDIS", start_redis().url) + f"admin: unix:{tmp_path}/admin.sock\n"
    start_live(start, text)
    path = policy_file(text)

    def told_after(kind, key, status=0):
        def is_set():
            return program.command("ctl", "--policy", path, kind, "bucket", key, "10m").returncode == 0

        until(is_set, "the operators' link to Redis")
        told = explain_json(path, "GET", "/x", "--from", "192.0.2.7", "--live", status=status)
        return told["limits"][0]["ban"]["kind"]

    assert told_after("ban", "192.0.0.0/9", status=3) == "ban"
    assert told_after("exempt", "192.0.2.0/24") == "exempt"
    assert told_after("ban", "192.0.2.7", status=3) == "ban"


def test_where_redis_is_away_it_says_what_the_limits_do(policy_file):
    path = policy_file(LIVE.replace("REDIS", "redis://127.0.0.1:1"))
    told = explain(path, "GET", "/x", "--live", status=1)
    assert "state  not known: 127.0.0.1:1: refused; on_failure: decided in the process, at its share" in told
    told = explain_json(path, "GET", "/x", "--live", status=1)
    assert (told["state"], told["fault"]) == ("unknown", "127.0.0.1:1: refused")
    assert told["answer"]["passes"] is None


@pytest.mark.parametrize("on_failure, status, passes", [("deny", 503, False), ("allow", 204, True)])
def test_where_redis_is_away_the_answer_is_that_of_on_failure(policy_file, on_failure, status, passes):
    path = policy_file("listen: 127.0.0.1:0\n"
                       f"store: {{redis: redis://127.0.0.1:1, on_failure: {on_failure}}}\n"
                       "limits: {l: {key: client.ip, rate: 1/s}}\n"
                       "routes: [{limits: [l], respond: {status: 204}}]\n")
    told = explain_json(path, "GET", "/x", "--live", status=1)["answer"]
    assert (told["status"], told["passes"]) == (status, passes)
    if on_failure == "deny":
        assert "answer     503: Redis cannot be asked" in explain(path, "GET", "/x", "--live", status=1)


def test_nobody_is_asked_about_a_request_that_is_refused_before(policy_file):
    path = policy_file(LIVE.replace("REDIS", "redis://127.0.0.1:1"))
    assert explain_json(path, "GET", "/%2f", "--live", status=3)["state"] == "not_asked"


def test_limits_are_asked_before_a_request_ends_here(start, start_redis, policy_file):
    text = ("listen: 127.0.0.1:0\nworkers: 1\n"
            f"store: {{redis: \"{start_redis().url}\", deadline: 5s}}\n"
            "limits: {l: {key: client.ip, rate: 1/hour}}\n"
            "routes: [{limits: [l], upstream: api}]\n"
            "upstreams: {api: {servers: [http://127.0.0.1:1]}}\n")
    last_hop, path = ["-H", "Max-Forwards: 0", "--live"], policy_file(text)
    assert explain_json(path, "OPTIONS", "/", *last_hop)["answer"] == {"passes": True, "status": 200}
    told = explain_json(path, "TRACE", "/", *last_hop, status=3)["answer"]
    answer = start_live(start, text).ask("TRACE", fields={"Max-Forwards": "0"})
    assert told == {"passes": False, "status": 501, "reason": answer.json()["detail"]}
    told = explain_json(path, "TRACE", "/", *last_hop, status=3)["answer"]
    assert answer.status == 501 and (told["status"], told["limit"]) == (429, "l")


def test_a_request_that_comes_back_is_told_in_the_words_of_the_proxy(start, start_upstream, policy_file):
    upstream = start_upstream()
    text = f"workers: 1\nlisten: 127.0.0.1:0\nupstream: {upstream.url}\n"
    proxy, path = start(text), policy_file(text)
    assert proxy.ask().status == 200
    via = upstream.last.get("Via")
    answer = proxy.ask(fields={"Via": via})
    told = explain_json(path, "GET", "/", "--via", via.split(" ")[1], "-H", f"Via: {via}", status=3)["answer"]
    assert answer.status == 508 and told == {"passes": False, "status": 508, "reason": answer.json()["detail"]}


# --- with the process that runs ---

EMBEDDED = """
listen: 127.0.0.1:0
admin: "unix:SOCKET"
limits:
  bucket: {key: [client.ip, header.x-a], rate: [5/hour, 100/day]}
  idle: {key: client.ip, rate: 3/hour, shadow: true}
routes:
  - {match: {path: /dear}, limits: [bucket], cost: 4, respond: {status: 204}}
  - {match: {path: /**}, limits: [bucket, idle], respond: {status: 204}}
"""


def test_without_redis_the_process_that_runs_is_asked(start, policy_file, tmp_path):
    text = EMBEDDED.replace("SOCKET", str(tmp_path / "admin.sock"))
    proxy, path = start(text), policy_file(text)
    ask = ["GET", "/x", "--live", "-H", "X-A: it's/a,b"]
    started = time.monotonic()
    for left in (5, 4):
        told = limits_of(explain_json(path, *ask))
        assert (told["bucket.1h"]["remaining"], told["bucket.1h"]["allowed"]) == (left, True)
        assert proxy.ask("GET", "/x", {"X-A": "it's/a,b"}).status == 204
    dear = ["GET", "/dear", *ask[2:]]
    told = explain_json(path, *dear, status=3)["limits"][0]["state"]
    assert (told["remaining"], told["allowed"], told["retry_after_us"]) == (3, False, None)
    for _ in range(3):
        assert proxy.ask("GET", "/x", {"X-A": "it's/a,b"}).status == 204
    told = explain_json(path, *ask, status=3)
    assert told["answer"]["limit"] == "bucket.1h"
    assert is_left(told["answer"]["retry_after"], 720, started, rounded_up_s=1)
    assert not limits_of(told)["idle"]["allowed"]
    text = explain(path, *ask, status=3)
    assert "state  0 of 3 left: would deny it, " in text and "answer     429: limit bucket.1h denies" in text


EMBEDDED_PLANS = """
listen: 127.0.0.1:0
admin: "unix:SOCKET"
trusted_proxies: 127.0.0.1
jwt: {main: {secret: SECRET, issuer: "https://id.test", audience: api}}
limits:
  header:
    key: header.x-a
    rate: 10/day
    plans: {trial: 2/day, gold: 1000/day, free: none}
    plan: header.x-plan
  table:
    key: header.x-a
    rate: 10/day
    plans: {trial: 2/day, gold: 1000/day}
    plan: tenant | header.x-plan
  claim:
    key: header.x-a
    rate: 10/day
    plans: {trial: 2/day}
    plan: jwt.plan
routes:
  - {match: {path: /table}, limits: [table], respond: {status: 204}}
  - {match: {path: /claim}, limits: [claim], jwt: main, respond: {status: 204}}
  - {match: {path: /**}, limits: [header], respond: {status: 204}}
"""


def test_without_redis_the_state_is_that_of_the_plan_that_the_request_names(start, policy_file, tmp_path):
    text = EMBEDDED_PLANS.replace("SOCKET", str(tmp_path / "admin.sock")).replace("SECRET", tokens.SECRET)
    proxy, path = start(text), policy_file(text)

    def state(url, plan, *more, key="k", status=0):
        fields = ["-H", f"X-A: {key}", *(["-H", f"X-Plan: {plan}"] if plan else [])]
        told = explain_json(path, "GET", url, *fields, *more, "--live", status=status)
        assert told["answer"]["passes"] == (status == 0)
        return told["limits"][0].get("state")

    def left(*ask, **how):
        told = state(*ask, **how)
        return told["remaining"], told["limit"]

    def take(n, url, plan, key="k", fields=()):
        for _ in range(n):
            assert proxy.ask("GET", url, [("X-A", key), ("X-Plan", plan), *fields]).status == 204

    take(2, "/", "trial")
    assert left("/", "trial", status=3) == (0, 2) and left("/", "") == (8, 10)
    assert proxy.ask("GET", "/", {"X-A": "k", "X-Plan": "trial"}).status == 429
    take(11, "/", "gold", "g")
    assert left("/", "gold", key="g") == (989, 1000)
    assert left("/", "golden", key="g", status=3) == (0, 10), "unknown: the limit's own"
    assert state("/", "free", key="g") is None, "it is not judged"
    take(2, "/claim", "", fields=tokens.bearer(tokens.hs256(tokens.claims(plan="trial"))))
    assert left("/claim", "", "--claim", "plan=trial", status=3) == (0, 2)
    assert left("/claim", "", "--claim", "sub=a") == (8, 10)

    take(2, "/table", "trial")
    assert left("/table", "trial", status=3) == (0, 2)
    for plan, counted in (("gold", (998, 1000)), ("50/day:5", (3, 5))):
        result = program.command("ctl", "--policy", path, "tenant", "set", "header.x-a=k", plan)
        assert result.returncode == 0, result
        assert left("/table", "trial") == counted, "the table comes first"
    assert left("/table", "trial", "--tenant", "gold") == (998, 1000)
    assert left("/table", "", "--tenant", "golden") == (8, 10), "no limit has this plan, whatever the table says"
    result = program.command("explain", path, "GET", "/table", "-H", "X-A: k", "--tenant", "9/day", "--live")
    assert result.returncode == 1 and "a plan by its name alone" in result.stderr, result


def test_without_redis_a_ban_and_an_exemption_are_told(start, policy_file, tmp_path):
    text = EMBEDDED.replace("SOCKET", str(tmp_path / "admin.sock"))
    proxy, path = start(text), policy_file(text)
    ask = ["GET", "/x", "--live", "-H", "X-A: 1"]

    def order(word):
        key = explain_json(path, *ask[:2], *ask[3:])["limits"][0]["key"]
        result = program.command("ctl", "--policy", path, word, "bucket", key, "10m")
        assert result.returncode == 0, result.stderr

    started = time.monotonic()
    order("ban")
    told = explain_json(path, *ask, status=3)
    assert told["limits"][0]["ban"]["kind"] == "ban"
    assert (told["answer"]["limit"], told["answer"]["status"]) == ("bucket", 429)
    assert is_left(told["answer"]["retry_after"], 600, started)
    answer = proxy.ask("GET", "/x", {"X-A": "1"})
    assert answer.status == 429 and is_left(int(answer.get("Retry-After")), 600, started)
    order("exempt")
    told = explain_json(path, *ask)
    assert told["limits"][0]["ban"]["kind"] == "exempt" and told["answer"]["passes"]
    assert proxy.ask("GET", "/x", {"X-A": "1"}).status == 204


@pytest.mark.parametrize("text, told", [
    (EMBEDDED.replace("SOCKET", "/nowhere/admin.sock"), "/nowhere/admin.sock"),
    (EMBEDDED.replace('admin: "unix:SOCKET"', "log: off"), "admin")])
def test_where_nobody_can_be_asked_it_says_so(policy_file, text, told):
    result = program.command("explain", policy_file(text), "GET", "/x", "--live")
    assert result.returncode == 1 and "answer     204" in result.stdout
    assert "    state  not known: " in result.stdout and "on_failure" not in result.stdout
    assert "sluice explain: --live: " in result.stderr and told in result.stderr
    result = program.command("explain", policy_file(text), "GET", "/x", "--live", "--json")
    known = json.loads(result.stdout)
    assert result.returncode == 1
    assert known["state"] == "unknown" and told in known["fault"] and known["answer"]["passes"] is None


# --- explain and run cannot part ---

WORDS = "a", "b", "login"
METHODS = "GET", "POST", "DELETE"
KEYS = ("client.ip", "client.ip/48", "header.x-key", "cookie.id", "query.q", "path", "path.1", "path.2",
        "method", "host", "route", "global", "header.x-key | client.ip")


def random_pattern(rng):
    parts = [rng.choice([*WORDS, "*", "{one}"]) for _ in range(rng.randrange(4))]
    names = [part for part in parts if part == "{one}"]
    if len(names) > 1:
        parts = [part if part != "{one}" else "*" for part in parts]
    parts += rng.choice([[], ["**"], [""]])
    return "/" + "/".join(parts) if parts else "/"


def random_policy(rng, redis_url):
    lines = ["listen: 127.0.0.1:0", "workers: 1",
             f"store: {{redis: \"{redis_url}\", deadline: 5s, secret: abc}}"]
    if rng.random() < 0.7:
        lines.append("trusted_proxies: " + rng.choice(["[127.0.0.1]", "[127.0.0.0/8, 10.0.0.0/8]"]))
    lines.append("limits:")
    for i in range(4):
        parts = rng.sample(KEYS, rng.randrange(1, 4))
        how = [f"key: [{', '.join(parts)}]", "rate: " + rng.choice(["50/day", "[50/day, 40/12h]"]),
               "missing: " + rng.choice(["shared_counter", "shared_counter", "skip", "deny"])]
        if rng.random() < 0.3:
            how.append("except: {client: 127.0.0.2}")
        if rng.random() < 0.2:
            how.append("shadow: true")
        lines.append(f"  l{i}: {{{', '.join(how)}}}")
    lines.append("routes:")
    for i in range(rng.randrange(2, 8)):
        match = [f'path: "{random_pattern(rng)}"']
        if rng.random() < 0.3:
            match.append("method: [" + ", ".join(rng.sample(METHODS, 2)) + "]")
        if rng.random() < 0.2:
            match.append("host: " + rng.choice(["a.test", '"*.test"', "b.test"]))
        if rng.random() < 0.2:
            match.append("header: {x-key: " + rng.choice(["true", '"1"']) + "}")
        if rng.random() < 0.2:
            match.append("client: [127.0.0.2, 192.0.2.0/24]")
        if rng.random() < 0.3:
            match.append("ignore_case: true")
        if rng.random() < 0.3:
            match.append("encoded_slash: allow")
        limits = rng.sample([f"l{j}" for j in range(4)], rng.randrange(3))
        lines.append(f"  - {{name: r{i}, match: {{{', '.join(match)}}}, limits: [{', '.join(limits)}], "
                     "respond: {status: 204}}")
    return "\n".join(lines) + "\n"


def random_request(rng):
    path = "".join("/" + rng.choice([*WORDS, "A", "Login", "%61", "a%2fb", "..", ".", "", "a;v=1"])
                   for _ in range(rng.randrange(1, 4)))
    fields = [("Host", rng.choice(["a.test", "B.test:80", "x.a.test."]))]
    if rng.random() < 0.4:
        fields.append(("X-Key", rng.choice(["1", "2, 3", "a=b"])))
    if rng.random() < 0.3:
        fields.append(("Cookie", "x=1; id=" + rng.choice("ab")))
    for _ in range(rng.randrange(3)):
        fields.append((rng.choice(["X-Forwarded-For", "x-forwarded-for", "Forwarded"]),
                       rng.choice(["192.0.2.1", "1.1.1.1, 10.0.0.1", "for=192.0.2.7", "junk",
                                   "2001:db8:1:2:3::4, 127.0.0.9", ""])))
    return (rng.choice(METHODS), path + rng.choice(["", "?q=1", "?q=%31&q=2"]), fields,
            rng.choice(["127.0.0.1", "127.0.0.2", "127.9.9.9"]))


def ask_both(proxy, path, request):
    """The proxy's status, and what is explained."""
    method, target, fields, source = request
    with proxy.connect(source) as client:
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n"
                                                           for name, value in fields)
        client.send(head.encode() + b"\r\n")
        status = client.read(method).status
    arguments = [method, target, "--from", source]
    for name, value in fields:
        arguments += ["-H", f"{name}: {value}"]
    return status, json.loads(program.command("explain", path, *arguments, "--json").stdout)


def test_routes_clients_and_keys_are_those_of_the_proxy(start, start_redis, policy_file, seed):
    rng = random.Random(seed)
    redis = start_redis()
    for _ in range(4):
        redis.call("FLUSHALL")
        text = random_policy(rng, redis.url)
        path, proxy, keys = policy_file(text), start_live(start, text), set()
        told = []
        for _ in range(20):
            request = random_request(rng)
            status, one = ask_both(proxy, path, request)
            assert one["answer"]["status"] == status, (text, request, one)
            keys |= {limit["redis_key"] for limit in one["limits"] if "redis_key" in limit}
            told.append(one)
        lines = proxy.log_lines(len(told))
        assert [(line.get("route"), line["client"]) for line in lines] == [
            (one["route"], one["client"]["address"]) for one in told], text
        assert {key.decode() for key in redis.keys()} - {"sluice:instances"} == keys, text
