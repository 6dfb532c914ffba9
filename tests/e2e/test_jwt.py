"""Keys from tokens: what is verified, what is refused, and the keys of an issuer that change."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from harness import program, tokens
from harness.admin import Admin, addresses
from harness.certificates import Authority
from harness.reload import reload
from harness.tokens import Es256Key, Issuer, base64url, bearer, claims, hs256
from harness.upstream import answer
from harness.wait import soon, until

SECRET = f"jwt: {{main: {{secret: {tokens.SECRET}, issuer: 'https://id.test', audience: api}}}}\n"
OK = "respond: {status: 200, body: ok}"
INVALID = 'Bearer error="invalid_token"'


def policy(routes, limits="per-user: {key: jwt.sub, rate: 3/hour}", jwt=SECRET, more="workers: 1\n"):
    return f"{more}{jwt}limits:\n  {limits}\nroutes:\n{routes}"


@pytest.fixture(name="issuer")
def an_issuer(tmp_path):
    issuer = Issuer(Authority(tmp_path / "tls"))
    yield issuer
    issuer.stop()


def of_issuer(issuer, tmp_path, more=""):
    return (f"jwt: {{main: {{keys: '{issuer.url}', ca: '{tmp_path}/tls/ca.pem', algorithms: [ES256], "
            f"issuer: 'https://id.test'{more}}}}}\n")


# --- limits ---


def test_each_user_has_a_counter(start):
    proxy = start(policy(f"  - {{limits: [per-user], jwt: {{required: true}}, {OK}}}\n"))
    for sub in ("alice", "bob"):
        assert [proxy.ask(fields=bearer(hs256(claims(sub, jti=i)))).status for i in range(4)] == [200, 200, 200, 429]
    assert proxy.ask(fields=bearer(hs256(claims(12345)))).status == 200
    assert "alice" not in proxy.stdout().decode()


def test_a_user_without_a_token_counts_by_the_next_alternative(start):
    proxy = start(policy(f"  - {{limits: [a], {OK}}}\n", "a: {key: jwt.sub | client.ip, rate: 1/hour}"))
    assert [proxy.ask().status for _ in range(2)] == [200, 429]
    assert proxy.ask(fields=[("Authorization", "Basic YTpi")]).status == 429
    assert proxy.ask(fields=bearer(hs256(claims()))).status == 200


@pytest.mark.parametrize("place, fields, path", [
    ("header.x-token", lambda token: [("X-Token", token)], "/"),
    ("header.x-token", lambda token: [("x-token", f"bearer  {token}")], "/"),
    ("header.authorization", lambda token: [("authorization", f"BEARER {token}")], "/"),
    ("cookie.session", lambda token: [("Cookie", f"a=b; session={token}")], "/"),
    ("query.access_token", lambda token: [], "/?access_token="),
])
def test_a_token_is_found_where_the_policy_says(start, place, fields, path):
    jwt = f"jwt: {{main: {{secret: {tokens.SECRET}, issuer: 'https://id.test', from: [header.other, {place}]}}}}\n"
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=jwt))
    token = hs256(claims())
    assert proxy.ask(path=path + token if "=" in path else path, fields=fields(token)).status == 200
    assert proxy.ask().status == 401


# --- refusals ---


def test_what_clients_are_told(start):
    proxy = start(policy(f"  - {{limits: [per-user], jwt: {{required: true}}, {OK}}}\n"))
    missing = proxy.ask()
    assert (missing.status, missing.get("WWW-Authenticate")) == (401, "Bearer")
    good = hs256(claims())
    for token, why in [
            ("x", "three parts"), (good[:-2] + "AA", "signature is wrong"), (good + "AAA", "length"),
            (hs256(claims(life_s=-3600)), "expired"), (hs256(claims(nbf=1e11)), "not valid yet"),
            (hs256({**claims(), "iss": "https://evil.test"}), "iss"), (hs256({**claims(), "aud": "x"}), "aud"),
            (hs256(claims(), header={"alg": "none"}), "alg"),
            (hs256(claims(), header={"alg": "HS256", "crit": ["exp"]}), "crit"),
            (hs256(b'{"exp":9999999999,"sub":"a","sub":"b"}'), "twice"),
            (hs256(claims(), "f" * 32), "signature is wrong"), ("A" * 9000, "8 KiB")]:
        refused = proxy.ask(fields=bearer(token))
        assert (refused.status, refused.get("WWW-Authenticate")) == (401, INVALID)
        assert why in json.loads(refused.body)["detail"]
    assert proxy.ask(fields=bearer(good) + bearer(hs256(claims("bob")))).status == 401
    assert proxy.ask(fields=bearer(good) + bearer(good)).status == 200


def test_an_invalid_token_may_count_as_none(start):
    jwt = SECRET.replace("api}", "api, on_invalid: missing}")
    proxy = start(policy(f"  - {{match: {{path: /must}}, jwt: {{required: true}}, {OK}}}\n"
                         f"  - {{limits: [per-user], {OK}}}\n",
                         "per-user: {key: jwt.sub, rate: 3/hour, missing: skip}", jwt=jwt))
    assert proxy.ask(fields=bearer("x.y.z")).status == 200
    refused = proxy.ask(path="/must", fields=bearer("x.y.z"))
    assert (refused.status, refused.get("WWW-Authenticate")) == (401, "Bearer")


def test_a_refused_token_is_charged_to_limits_without_a_claim_alone(start):
    proxy = start(policy(f"  - {{limits: [user, client], jwt: {{required: true}}, {OK}}}\n",
                         "user: {key: jwt.sub, rate: 2/hour, missing: shared_counter}\n"
                         "  client: {key: client.ip, rate: 4/hour}"))
    assert [proxy.ask(fields=bearer(f"bad{i}")).status for i in range(3)] == [401, 401, 401]
    good = bearer(hs256(claims()))
    assert [proxy.ask(fields=good).status, proxy.ask(fields=good).status] == [200, 429]
    assert proxy.ask(fields=bearer("bad")).status == 429


@pytest.mark.parametrize("shared", ["rate: 3/hour", "algorithm: sliding_window, rate: 3/hour, charge_denied: true"])
@pytest.mark.parametrize("fields", [[], bearer("bad")], ids=["without", "bad"])
def test_refused_tokens_use_up_no_limit_that_all_share(start, shared, fields):
    proxy = start(policy(f"  - {{limits: [user, all], jwt: {{required: true}}, {OK}}}\n",
                         f"user: {{key: jwt.sub | client.ip, rate: 2/hour}}\n  all: {{key: global, {shared}}}"))
    assert [proxy.ask(fields=fields).status for _ in range(20)] == [401] * 20
    assert proxy.ask(fields=bearer(hs256(claims()))).status == 200


def test_refused_tokens_use_up_no_counter_that_all_share_of_a_limit_by_alternatives(start):
    proxy = start(policy(f"  - {{limits: [all], jwt: {{required: true}}, {OK}}}\n",
                         "all: {key: host | client.ip, rate: 3/hour}"))
    assert [proxy.ask(fields=bearer("bad")).status for _ in range(20)] == [401] * 20
    assert proxy.ask(fields=bearer(hs256(claims()))).status == 200


def test_wrong_signatures_slow_their_address_down_and_a_neighbour_gets_in(start):
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n"))
    good, later = (bearer(hs256(claims(sub))) for sub in ("good", "later"))
    with proxy.connect() as client:
        assert client.ask(fields=good).status == 200
        answers = [client.ask(fields=bearer(hs256(claims(str(i)), "f" * 32))) for i in range(400)]
        statuses = [response.status for response in answers]
        assert set(statuses) == {401, 429} and statuses[:100] == [401] * 100
        assert statuses.count(429) > 200
        assert {response.get("Retry-After") for response in answers if response.status == 429} == {"1"}
        assert client.ask(fields=good).status == 200
        until(lambda: client.ask(fields=later).status == 200, "a new token of this address to be verified")
    assert proxy.ask(fields=bearer(hs256(claims("other"), "f" * 32)), source="127.0.0.2").status == 401


def test_routes_are_shown_with_their_tokens(start):
    proxy = start(policy(f"  - {{match: {{path: /a, jwt: {{role: a}}}}, {OK}}}\n  - {{jwt: {{required: true}}, {OK}}}\n"
                         f"  - {{match: {{path: /b}}, {OK}}}\n", more="workers: 1\nadmin: 127.0.0.1:0\n"))
    routes = json.loads(Admin(addresses(proxy)[0]).ask("GET", "/v1/routes").body)["routes"]
    assert [route.get("jwt") for route in routes] == [{"provider": "main", "required": False},
                                                      {"provider": "main", "required": True}, None]
    assert routes[0]["match"]["jwt"] == ["role"]


def test_refused_tokens_are_counted(start):
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", more="workers: 1\nadmin: 127.0.0.1:0\n"))
    for fields in [[], bearer("x"), bearer("y"), bearer(hs256(claims()))]:
        proxy.ask(fields=fields)
    page = Admin(addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    for reason, n in [("missing", 1), ("invalid", 2), ("no_keys", 0), ("too_many", 0)]:
        assert f'sluice_tokens_refused_total{{reason="{reason}"}} {n}\n' in page


# --- spellings ---

ODD_CREDENTIALS = [
    "Bearer\xa0{}", "Bearer\x85{}", "\xa0Bearer {}", "Bearer {}\xa0", "Bearer  {}", "bEARER\t{}", "\x85bearer {}", # counted
    "Basic x, Bearer {}", ",Bearer {}", "x Bearer {}", "Basic x Bearer {}", "{}", "Token {}", "Basic {}", "x,{}",
    "Bearer{}", "Bearer {},", "Bearer {} x", "Bearer {}, Basic x", 'Bearer "{}"', "Bearer Bearer {}", "Bearer {}=",
    "JWT {}", "bearer={}", "Bearer x {}"]


@pytest.mark.parametrize("on_invalid", ["deny", "missing"])
def test_no_spelling_of_a_token_leaves_the_bucket_of_its_user(start, on_invalid):
    jwt = SECRET.replace("api}", f"api, on_invalid: {on_invalid}}}")
    proxy = start(policy(f"  - {{limits: [per-user], {OK}}}\n", "per-user: {key: jwt.sub, rate: 1/day, missing: skip}", jwt=jwt))
    token = hs256(claims())
    assert [proxy.ask(fields=bearer(token)).status for _ in range(2)] == [200, 429]
    for spelling in ODD_CREDENTIALS:
        asked = proxy.ask(fields=[("Authorization", spelling.format(token))])
        assert asked.status in (401, 429), spelling
    for fields in [bearer(token) + [("Authorization", f"x Bearer {token}")], [("Authorization", "x Bearer y")]]:
        assert proxy.ask(fields=fields).status == 401
    for other in ["Basic YTpi", 'Digest username="a", uri="/a.b.c", realm="api.eu.example.com"', "Token abc"]:
        assert proxy.ask(fields=[("Authorization", other)]).status == 200, other


@pytest.mark.parametrize("place, spellings", [
    ("cookie.t", ['t="{}"', "t=%65{tail}", "t={head}%2e{rest}", 't="%65{tail}"', "t={}%20", "t= {}"]),
    ("query.t", ["t=%65{tail}", "t={head}%2E{rest}", "t={}%20", "t=+{}", "t={}%00"]),
    ("header.x-token", ["\xa0{}", "{}\xa0", "{},", "Bearer {},", "{} x"]),
])
def test_no_spelling_of_a_token_elsewhere_leaves_it_either(start, place, spellings):
    jwt = f"jwt: {{main: {{secret: {tokens.SECRET}, issuer: 'https://id.test', on_invalid: missing, from: [{place}]}}}}\n"
    proxy = start(policy(f"  - {{limits: [per-user], {OK}}}\n", "per-user: {key: jwt.sub, rate: 1/day, missing: skip}", jwt=jwt))
    token = hs256(claims())
    head, rest = token.split(".", 1)

    def ask(text):
        if place.startswith("query"):
            return proxy.ask(path=f"/?{text}").status
        return proxy.ask(fields=[("Cookie" if place.startswith("cookie") else "X-Token", text)]).status

    assert [ask(token if place.startswith("header") else f"t={token}") for _ in range(2)] == [200, 429]
    for spelling in spellings:
        assert ask(spelling.format(token, tail=token[1:], head=head, rest=rest)) in (401, 429), spelling
    for opaque in ["opaque", "a+b/c~d=", "v1.%41"]:
        assert ask(opaque if place.startswith("header") else f"t={opaque}") == 200, opaque


PER_USER = "per-user: {key: jwt.sub, rate: 1/day, missing: skip}"
UNREAD_VALUES = [r'"\ud800"', "1e999", "[" * 2100 + "]" * 2100, '"\xff"', '{"a":1,"a":2}', f'"{"x" * 6500}"']
READ_VALUES = [r'"a\u0000b"', "9223372036854775808", "-0", '{"__proto__":1}']


@pytest.mark.parametrize("on_invalid", ["deny", "missing"])
def test_no_claim_that_a_user_writes_leaves_the_bucket_of_his_others(start, on_invalid):
    jwt = SECRET.replace("api}", f"api, on_invalid: {on_invalid}}}")
    proxy = start(policy(f"  - {{limits: [per-user], {OK}}}\n", PER_USER, jwt=jwt))

    def ask(sub, nickname):
        written = json.dumps(claims(sub))[:-1] + f', "nickname": {nickname}}}'
        return proxy.ask(fields=bearer(hs256(written.encode("latin-1")))).status

    for sub in ("alice", 12345):
        assert [ask(sub, '"bob"') for _ in range(2)] == [200, 429]
        assert [ask(sub, value) for value in READ_VALUES] == [429] * len(READ_VALUES)
        assert [ask(sub, value) for value in UNREAD_VALUES] == [401] * len(UNREAD_VALUES)
    assert ask("ali\0ce", "1") == 401


@pytest.mark.parametrize("on_invalid, limit, warns", [
    ("missing", "key: jwt.sub | client.ip", True), ("missing", "key: jwt.sub, missing: skip", True),
    ("missing", "key: jwt.sub, missing: deny", False), ("missing", "key: client.ip", False),
    ("missing", "key: jwt.sub | client.ip, shadow: true", False), ("deny", "key: jwt.sub | client.ip", False)])
def test_check_warns_where_an_invalid_token_takes_a_limit_away(tmp_path, on_invalid, limit, warns):
    path = tmp_path / "policy.yaml"
    jwt = SECRET.replace("api}", f"api, on_invalid: {on_invalid}}}")
    written = policy("  - {limits: [l], jwt: main, respond: {status: 200}}\n", f"l: {{{limit}, rate: 1/s}}", jwt)
    path.write_text("listen: 127.0.0.1:0\n" + written)
    checked = program.command("check", str(path))
    assert (checked.returncode, "[ignored-token]" in checked.stderr) == (0, warns), checked.stderr


def test_no_digits_that_count_for_nothing_leave_it_either(start):
    jwt = SECRET.replace("api}", "api, on_invalid: missing}")
    proxy = start(policy(f"  - {{limits: [per-user], {OK}}}\n", PER_USER, jwt=jwt))
    token = hs256(claims())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(token[-1]) + 1]  # its last two bits are no part of the signature
    assert [proxy.ask(fields=bearer(token)).status for _ in range(2)] == [200, 429]
    for spelling in (token[:-1] + last, token + "A", token + "AA"):
        assert proxy.ask(fields=bearer(spelling)).status == 401, spelling
    for other in ("x.y.z", "v4.public.AAAA", "eyJhbGciOiJkaXIifQ..AAAA.AAAA.AAAA"):
        assert proxy.ask(fields=bearer(other)).status == 200, other


@pytest.mark.parametrize("on_invalid", ["deny", "missing"])
def test_a_token_that_cannot_be_judged_passes_no_route_by_claims(start, on_invalid):
    jwt = SECRET.replace("api}", f"api, on_invalid: {on_invalid}}}")
    proxy = start(policy(f"  - {{match: {{path: /a, jwt: {{plan: free}}}}, limits: [free], {OK}}}\n"
                         "  - {limits: [], respond: {status: 202}}\n", "free: {key: jwt.sub, rate: 2/day}", jwt=jwt))
    with proxy.connect() as client:
        free = [bearer(hs256(claims(plan="free", jti=i))) for i in range(50)]
        assert [client.ask(path="/a", fields=free[i]).status for i in range(3)] == [200, 200, 429]
        assert client.ask(path="/a", fields=bearer(hs256(claims(plan="paid")))).status == 202
        assert client.ask(path="/a").status == 202
        for spelling in ("Bearer {},", "x Bearer {}"):
            token = hs256(claims(plan="free"))
            assert client.ask(path="/a", fields=[("Authorization", spelling.format(token))]).status == 401
        wrong = client.ask(path="/a", fields=bearer(hs256(claims(plan="free"), "f" * 32)))
        assert wrong.status == (401 if on_invalid == "deny" else 202)
        for i in range(110):
            client.ask(path="/a", fields=bearer(hs256(claims(plan="free", jti=i), "f" * 32)))
        for i in range(3, 30):
            for j in range(12):
                client.ask(path="/a", fields=bearer(hs256(claims(plan="free", jti=f"{i} {j}"), "f" * 32)))
            assert client.ask(path="/a", fields=free[i]).status == 429


@pytest.mark.parametrize("rule, statuses", [
    ("charge_on: [401]", [401] * 5 + [429] * 3),
    ("charge_on: [4xx]", [401] * 5 + [429] * 3),
    ("charge_on: [2xx]", [401] * 8),
    ("refund_on: [2xx]", [401] * 5 + [429] * 3),
    ("refund_on: [401]", [401] * 8),
    ("charge_on: [401], ban: {after: 3/minute, for: 1h}", [401] * 3 + [429] * 5),
])
def test_a_refused_token_is_an_answer_of_401(start, rule, statuses):
    """Guessing tokens is limited like guessing passwords."""
    wrong, expired = hs256(claims(), "f" * 32), hs256(claims(exp=1))
    for token in (wrong, expired, "x.y.z", None):
        proxy = start(policy(f"  - {{limits: [a], jwt: {{required: true}}, {OK}}}\n",
                             f"a: {{key: client.ip, algorithm: fixed_window, rate: 5/day, {rule}}}"))
        fields = bearer(token) if token else []
        with proxy.connect() as client:
            assert [client.ask(fields=fields).status for _ in statuses] == statuses, token
        proxy.stop()


# --- routes ---


def test_a_route_is_chosen_by_claims(start):
    proxy = start(policy(
        "  - {match: {path: /a, jwt: {role: [admin, root]}}, respond: {status: 200, body: admin}}\n"
        "  - {match: {path: /a, jwt: {scope: write}}, respond: {status: 200, body: writer}}\n"
        "  - {match: {path: /a, jwt: {verified: true, 'realm.\"a.b\"': x}}, respond: {status: 200, body: odd}}\n"
        "  - {match: {path: /a}, jwt: {required: true}, respond: {status: 403}}\n"))
    for more, body in [({"role": "admin"}, b"admin"), ({"role": ["user", "root"]}, b"admin"),
                       ({"role": "admin root"}, None), ({"role": {"admin": 1}}, None),
                       ({"scope": "read write"}, b"writer"), ({"scope": "readwrite"}, None),
                       ({"scope": ["write"]}, b"writer"), ({"verified": True, "realm": {"a.b": "x"}}, b"odd"),
                       ({"verified": False, "realm": {"a.b": "x"}}, None), ({}, None)]:
        response = proxy.ask(path="/a", fields=bearer(hs256(claims(**more))))
        assert (response.status, response.body) == ((200, body) if body else (403, b"")), more
    assert proxy.ask(path="/a", fields=bearer(hs256(claims(role="admin"), "f" * 32))).status == 401


def test_each_route_reads_the_tokens_of_its_own_provider(start):
    jwt = (f"jwt:\n  one: {{secret: {tokens.SECRET}, issuer: one}}\n"
           f"  two: {{secret: {'t' * 32}, issuer: two, from: header.x-two}}\n")
    proxy = start(policy(f"  - {{match: {{path: /1, jwt: {{role: a}}}}, jwt: one, {OK}}}\n"
                         f"  - {{match: {{path: /1}}, jwt: {{provider: two, required: true}}, limits: [per-user], {OK}}}\n"
                         f"  - {{respond: {{status: 404}}}}\n", jwt=jwt))
    one = bearer(hs256({**claims(role="a"), "iss": "one"}))
    two = [("X-Two", hs256({**claims(), "iss": "two"}, "t" * 32))]
    assert [proxy.ask(path="/1", fields=fields).status for fields in (one, two, one + two, [])] == [200, 200, 200, 401]
    assert proxy.ask(path="/1", fields=[("X-Two", one[0][1])]).status == 401


def test_a_server_is_told_the_claim_and_never_what_the_client_sent(start, start_upstream):
    upstream = start_upstream(answer=answer())
    proxy = start(policy("  - {match: {path: /open}, upstream: u}\n"
                         "  - upstream: u\n    request: {set: {X-User: {from: jwt.sub}, X-Zone: eu, "
                         "X-Plan: {from: jwt.plan}}}\n",
                         more=f"workers: 1\nupstreams: {{u: {{servers: '{upstream.url}'}}}}\n"))
    forged = [("X-User", "root"), ("x-user", "root"), ("X-Plan", "gold")]
    token = hs256(claims("alice\u00e9"))
    assert proxy.ask(fields=bearer(token) + forged).status == 200
    assert upstream.last.all("X-User") == ["alice\u00c3\u00a9"]
    assert (upstream.last.get("X-Zone"), upstream.last.get("X-Plan")) == ("eu", None)
    assert upstream.last.get("Authorization") == f"Bearer {token}"
    for sub in ("a\r\nX-Plan: gold", "a\x00b", "a\x7f", "alice ", " alice", "alice\t", ["a"], {"a": 1}, True, 2**53):
        assert proxy.ask(fields=bearer(hs256(claims(sub))) + forged).status in (200, 401)
        assert upstream.last.get("X-User") is None and upstream.last.get("X-Plan") is None
    for path in ("/", "/open"):
        assert proxy.ask(path=path, fields=forged + [("X_User", "root"), ("X-Zones", "us")]).status == 200
        assert [upstream.last.get(name) for name in ("X-User", "X_User", "X-Plan", "X-Zones")] == [None] * 3 + ["us"]


def test_requests_of_one_user_go_to_one_server(start, start_upstream):
    upstreams = [start_upstream(answer=answer()) for _ in range(3)]
    urls = ", ".join(upstream.url for upstream in upstreams)
    proxy = start(policy("  - {upstream: u, jwt: {required: true}}\n",
                         more=f"workers: 1\nupstreams: {{u: {{servers: [{urls}], balance: hash(jwt.sub)}}}}\n"))
    for sub in ("alice", "bob", "carol"):
        counts = [len(upstream.requests) for upstream in upstreams]
        for i in range(6):
            assert proxy.ask(fields=bearer(hs256(claims(sub, jti=i)))).status == 200
        assert sorted(len(u.requests) - n for u, n in zip(upstreams, counts)) == [0, 0, 6]


# --- keys ---


def test_keys_of_a_file_are_read_again_at_a_reload(start, tmp_path):
    one, two = (Es256Key(tmp_path, name) for name in ("one", "two"))
    (tmp_path / "keys").write_text(one.pem)
    text = policy(f"  - {{jwt: {{required: true}}, {OK}}}\n",
                  jwt=f"jwt: {{main: {{keys: '{tmp_path}/keys', algorithms: ES256, issuer: 'https://id.test'}}}}\n")
    proxy = start(text)
    fields = [bearer(key.sign(claims())) for key in (one, two)]
    assert [proxy.ask(fields=each).status for each in fields] == [200, 401]
    (tmp_path / "keys").write_text(json.dumps({"keys": [two.jwk]}))
    reload(proxy, text)
    assert [proxy.ask(fields=each).status for each in fields] == [401, 200]
    (tmp_path / "keys").write_text("{}")
    assert "is no JWK set" in reload(proxy, text)
    assert [proxy.ask(fields=each).status for each in fields] == [401, 200]


def test_an_hmac_with_the_public_key_is_no_signature(start, tmp_path):
    key = Es256Key(tmp_path, "one")
    (tmp_path / "keys").write_text(key.pem)
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n",
                         jwt=f"jwt: {{main: {{keys: '{tmp_path}/keys', algorithms: ES256}}}}\n"))
    for header in ({"alg": "HS256"}, {"alg": "ES256"}):
        assert proxy.ask(fields=bearer(hs256(claims(), key.pem, header))).status == 401
    assert proxy.ask(fields=bearer(key.sign(claims()))).status == 200


def test_start_up_does_not_wait_for_keys(start, issuer, tmp_path):
    issuer.keys = [Es256Key(tmp_path, "one")]
    issuer.held.clear()
    proxy = start(policy(f"  - {{match: {{path: /open}}, {OK}}}\n  - {{limits: [per-user], {OK}}}\n",
                         "per-user: {key: jwt.sub, rate: 3/hour, missing: skip}", jwt=of_issuer(issuer, tmp_path)))
    fields = bearer(issuer.keys[0].sign(claims()))
    waiting = proxy.ask(fields=fields)
    assert (waiting.status, waiting.get("Retry-After")) == (503, "1")
    assert [proxy.ask(path="/open").status, proxy.ask().status] == [200, 200]
    issuer.held.set()
    until(lambda: proxy.ask(fields=fields).status == 200, "keys")


@pytest.mark.takes(10)
def test_a_withdrawn_key_stops_remembered_tokens(start, issuer, tmp_path):
    old, new = (Es256Key(tmp_path, name) for name in ("old", "new"))
    issuer.keys = [old]
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path),
                         more="workers: 2\n"))
    of_old, of_new = (bearer(key.sign(claims())) for key in (old, new))
    until(lambda: proxy.ask(fields=of_old).status == 200, "keys")
    assert [proxy.ask(fields=of_old).status for _ in range(8)] == [200] * 8
    issuer.keys = [new]
    # A token of an unknown key has the keys fetched again, ten seconds after the last time.
    until(lambda: proxy.ask(fields=of_new).status == 200, "the new key")
    assert [proxy.ask(fields=of_old).status for _ in range(8)] == [401] * 8
    assert issuer.n_asked == 2
    for _ in range(20):
        assert proxy.ask(fields=bearer(old.sign(claims()))).status == 401
    assert issuer.n_asked == 2


@pytest.mark.takes(10)
def test_keys_are_rotated_under_load(start, issuer, tmp_path):
    old, new = (Es256Key(tmp_path, name) for name in ("old", "new"))
    issuer.keys = [old]
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path),
                         more="workers: 2\n"))
    fields, of_new = (bearer(key.sign(claims())) for key in (old, new))
    until(lambda: proxy.ask(fields=fields).status == 200, "keys")
    statuses, stop = [], threading.Event()

    def ask_on():
        with proxy.connect() as client:
            while not stop.wait(0.005):
                statuses.append(client.ask(fields=fields).status)

    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        issuer.keys = [old, new]
        until(lambda: proxy.ask(fields=of_new).status == 200, "the new key")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) == {200} and len(statuses) > 100


@pytest.mark.takes(20)
@pytest.mark.parametrize("body", [
    b'{"keys": []}', b'{"keys": [{"kty": "EC", "crv": "P-521", "x": "AQAB", "y": "AQAB"}]}'])
def test_an_issuer_withdraws_its_last_key(start, issuer, tmp_path, body):
    key, other = (Es256Key(tmp_path, name) for name in ("one", "other"))
    issuer.keys = [key]
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path),
                         more="workers: 1\nadmin: 127.0.0.1:0\n"))
    fields = bearer(key.sign(claims()))
    until(lambda: proxy.ask(fields=fields).status == 200, "keys")
    issuer.body = body
    of_other = bearer(other.sign(claims()))
    until(lambda: proxy.ask(fields=of_other).status and issuer.n_asked == 2, "the next fetch")
    until(lambda: proxy.ask(fields=fields).status == 401, "the refusal")
    refused = proxy.ask(fields=bearer(key.sign(claims("bob"))))
    assert (refused.status, refused.get("WWW-Authenticate")) == (401, INVALID)
    assert "no key of the issuer" in json.loads(refused.body)["detail"]
    assert counter(proxy, 'tokens_refused_total{reason="no_keys"}') >= 2
    log = proxy.await_said("the issuer has no key")
    lines = [line for line in log.splitlines() if "the issuer has no key" in line]
    assert len(lines) == 1 and "level=error" in lines[0], lines
    assert "keys cannot be fetched" not in log
    issuer.body = None  # a refused token has the keys fetched again
    until(lambda: proxy.ask(fields=fields).status == 200, "the key is back")


def test_a_file_without_a_usable_key_leaves_the_keys_before_in_force(start, tmp_path):
    key = Es256Key(tmp_path, "one")
    (tmp_path / "keys").write_text(json.dumps({"keys": [key.jwk]}))
    text = policy(f"  - {{jwt: {{required: true}}, {OK}}}\n",
                  jwt=f"jwt: {{main: {{keys: '{tmp_path}/keys', algorithms: ES256}}}}\n")
    proxy = start(text)
    (tmp_path / "keys").write_text('{"keys": []}')
    proxy.signal(signal.SIGHUP)
    until(lambda: "no key that can verify a token" in proxy.stderr(), "the refusal in the log")
    assert proxy.ask(fields=bearer(key.sign(claims()))).status == 200


@pytest.mark.parametrize("wrong", [
    {"status": 500}, {"status": 302, "fields": [("Location", "https://127.0.0.1/")]},
    {"body": b"<html>"}, {"body": b'{"keys": []'}, {"body": b'{"keys": {}}'}, {"body": b" " * (1024 * 1024 + 1)},
    {"body": b'{"keys": [' + b",".join([b"{}"] * 65) + b"]}"}])
def test_a_wrong_answer_is_no_key_set(start, issuer, tmp_path, wrong):
    key = Es256Key(tmp_path, "one")
    for name, value in wrong.items():
        setattr(issuer, name, value)
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path)))
    until(lambda: "keys cannot be fetched" in proxy.stderr(), "the failure in the log")
    assert proxy.ask(fields=bearer(key.sign(claims()))).status == 503
    assert proxy.stderr().count("keys cannot be fetched") == 1


def test_a_server_that_is_away_or_not_the_one(start, issuer, tmp_path):
    key = Es256Key(tmp_path, "one")
    issuer.keys = [key]
    of_other = of_issuer(issuer, tmp_path).replace(f"ca: '{tmp_path}/tls/ca.pem', ", "")
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_other))
    until(lambda: "keys cannot be fetched" in proxy.stderr(), "the failure in the log")
    assert proxy.ask(fields=bearer(key.sign(claims()))).status == 503
    assert issuer.n_asked == 0
    reload(proxy, policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path)))
    until(lambda: proxy.ask(fields=bearer(key.sign(claims()))).status == 200, "keys")
    issuer.stop()  # the keys hold while it is away
    reload(proxy, policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path)))
    assert proxy.ask(fields=bearer(key.sign(claims()))).status == 200


@pytest.mark.takes(21)
def test_issuers_that_hang_hold_no_other_back(start, issuer, tmp_path):
    good = Issuer(Authority(tmp_path / "good"))
    good.keys = [Es256Key(tmp_path, "one")]
    issuer.held.clear()
    # Of keys that are due at once the last ones of the policy are fetched first.
    entries = [("good", good.url, "good/ca.pem"), *((f"hung{i}", f"{issuer.url}?{i}", "tls/ca.pem") for i in range(15))]
    jwt = "".join(f"  {name}: {{keys: '{url}', ca: '{tmp_path}/{ca}', algorithms: [ES256]}}\n"
                  for name, url, ca in entries)
    proxy = start(policy(f"  - {{jwt: {{provider: good, required: true}}, {OK}}}\n", jwt=f"jwt:\n{jwt}"))
    try:
        fields = bearer(good.keys[0].sign(claims()))
        soon(lambda: proxy.ask(fields=fields).status == 200, "the keys of the issuer that answers", within=5)
        soon(lambda: issuer.n_asked == 15, "all fetches at the same time", within=5)
        until(lambda: proxy.stderr().count("keys cannot be fetched") == 15, "each fetch to time out")
        issuer.keys = good.keys
        issuer.held.set()
        until(lambda: proxy.stderr().count("keys were fetched") == 16, "the keys of all")
    finally:
        good.stop()


def test_a_stop_breaks_a_fetch_off(start, issuer, tmp_path):
    issuer.held.clear()
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n", jwt=of_issuer(issuer, tmp_path)))
    until(lambda: issuer.n_asked == 1, "the fetch")
    proxy.signal()
    soon(lambda: not proxy.is_running(), "the end", within=5)


# --- tools ---


STORY = policy("  - {match: {path: /admin, jwt: {role: admin}}, limits: [per-user], respond: {status: 200}}\n"
               "  - {name: api, jwt: {required: true}, limits: [per-user], respond: {status: 204}}\n",
               more="listen: 127.0.0.1:8080\n")


def test_policy_tests_give_claims(tmp_path):
    (tmp_path / "policy.yaml").write_text(STORY)
    (tmp_path / "good.yaml").write_text("""
policy: policy.yaml
tests:
  - name: users count apart
    steps:
      - {request: GET /, jwt: {sub: alice}, repeat: 4, expect: {allowed: 3, denied: 1}}
      - {request: GET /, jwt: {sub: bob}, expect: {verdict: allowed, status: 204, route: api}}
      - {request: GET /admin, jwt: {sub: carol, role: [user, admin]}, expect: {status: 200, route: route-1}}
      - {request: GET /admin, jwt: {sub: carol, role: user}, expect: {route: api}}
      - {request: GET /, expect: {verdict: refused, status: 401}}
""")
    assert program.command("test", tmp_path / "good.yaml").stdout.endswith("1 test, 0 failed, 8 requests\n")
    (tmp_path / "bad.yaml").write_text("policy: policy.yaml\ntests:\n  - name: a\n    steps:\n"
                                       "      - {request: GET /, jwt: {subject: alice}}\n")
    refused = program.command("test", tmp_path / "bad.yaml")
    assert refused.returncode == 1 and "the policy does not read jwt.subject" in refused.stderr


def test_explain_takes_claims(tmp_path):
    (tmp_path / "policy.yaml").write_text(STORY)

    def explain(*more):
        return program.command("explain", tmp_path / "policy.yaml", "GET", "/admin", *more).stdout

    assert "route      route-1" in explain("--claim", "sub=alice", "--claim", "role=user", "--claim", "role=admin")
    of_user = explain("--claim", "sub=alice", "--claim", "role=user")
    assert "route      api" in of_user and "no token with the claims" in of_user
    without = explain()
    assert "no token with the claims" in without and "the request has no token" in without
    assert "wants NAME=VALUE" in program.command("explain", tmp_path / "policy.yaml", "GET", "/", "--claim", "x").stderr


def test_random_bytes_are_no_token(start, seed):
    rng = random.Random(seed)
    proxy = start(policy(f"  - {{jwt: {{required: true}}, {OK}}}\n"))
    good = hs256(claims())
    with proxy.connect() as client:
        for _ in range(300):
            at = rng.randrange(len(good))
            token = good[:at] + rng.choice("ABCxyz019-_.=+/~") + good[at + 1:]
            status = client.ask(fields=bearer(token)).status
            assert status == (200 if token == good else status) and status in (200, 401, 429)
            assert (status == 200) == (token == good)
        parts = [base64url(bytes(rng.randrange(256) for _ in range(rng.randrange(40)))) for _ in range(60)]
        for i in range(0, 57):
            assert client.ask(fields=bearer(".".join(parts[i:i + 3]))).status in (401, 429)


# --- limits before signatures ---

def counter(proxy, name):
    page = Admin(addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    return int(re.search(rf"^sluice_{re.escape(name)} (\d+)$", page, re.MULTILINE).group(1))


def forged(n):
    return [bearer(hs256(claims(str(i)), "f" * 32)) for i in range(n)]


ADDRESS = "client: {key: client.ip, rate: 5/hour}"
MORE = "workers: 1\nadmin: 127.0.0.1:0\n"


def test_no_signature_is_computed_for_whom_a_limit_denies_anyway(start):
    proxy = start(policy(f"  - {{limits: [user, client, plan], jwt: {{required: true}}, {OK}}}\n",
                         f"user: {{key: jwt.sub, rate: 1/hour}}\n  {ADDRESS}\n"
                         "  plan: {key: client.ip, rate: 90/hour, plans: {more: 100/hour}, plan: jwt.plan}", more=MORE))
    with proxy.connect() as client:
        good = bearer(hs256(claims(plan="more")))
        answers = [client.ask(fields=good)] + [client.ask(fields=fields) for fields in forged(50)]
        assert [answer.status for answer in answers] == [200] + [401] * 4 + [429] * 46
        assert answers[-1].get("Retry-After") not in (None, "1") and b'"client"' in answers[-1].body
        assert counter(proxy, "token_signatures_total") == 5
        assert client.ask(fields=good).status == 429, "a token that is remembered is denied alike"
        assert client.ask(fields=bearer(hs256(claims("bob", plan="more")))).status == 429
        assert counter(proxy, "token_signatures_total") == 5
    bob = bearer(hs256(claims("bob", plan="more")))
    assert proxy.ask(fields=bob, source="127.0.0.2").status == 200, "what was denied is not charged"


def test_a_limit_that_a_token_may_lift_is_judged_behind_it(start):
    proxy = start(policy(f"  - {{limits: [plan], jwt: {{required: true}}, {OK}}}\n",
                         "plan: {key: client.ip, rate: 1/hour, plans: {more: 100/hour}, plan: jwt.plan}", more=MORE))
    good = [bearer(hs256(claims(str(i), plan="more"))) for i in range(5)]
    assert [proxy.ask(fields=fields).status for fields in [*forged(3), *good]] == [401, 429, 429] + [200] * 5
    assert counter(proxy, "token_signatures_total") == 8


def test_with_redis_denials_that_are_remembered_spare_signatures(start, start_redis):
    redis = start_redis()
    proxy = start(policy(f"  - {{limits: [client], jwt: {{required: true}}, {OK}}}\n", ADDRESS,
                         more=f"{MORE}store: {{redis: 'redis://127.0.0.1:{redis.port}'}}\n"))
    # It is ready without Redis too, and local denials spare no signature.
    until(lambda: Admin(addresses(proxy)[0]).read("/readyz")["store"]["state"] == "ok", "Redis")
    began = time.monotonic()
    with proxy.connect() as client:
        statuses = [client.ask(fields=fields).status for fields in forged(60)]
    assert statuses == [401] * 5 + [429] * 55
    assert counter(proxy, "token_signatures_total") <= 5 + 1 + (time.monotonic() - began) / 0.5


# Runs in namespaces of its own: a name server that answers nothing. Once it is asked, the program is
# told to stop; prints its status and the seconds until its end.
SILENT_NAMES = """
import socket, subprocess, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.settimeout(30)
process = subprocess.Popen([sys.argv[1], "run", sys.argv[2]])
server.recv(512)
began = time.monotonic()
process.terminate()
print(process.wait(60), time.monotonic() - began)
"""


def in_namespaces(script, *arguments):
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-ec", script, "sh",
                           *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env=program.environment())


def test_a_process_ends_at_once_though_the_names_of_key_servers_are_not_answered(tmp_path):
    names, policy_file = tmp_path / "resolv.conf", tmp_path / "policy.yaml"
    names.write_text("nameserver 127.0.0.1\n")
    network = f"ip link set lo up; mount --bind {names} /etc/resolv.conf"
    if shutil.which("unshare") is None or in_namespaces(network).returncode != 0:
        pytest.skip("no namespaces here")
    policy_file.write_text("listen: 127.0.0.1:0\njwt: {main: {keys: 'https://id.test/keys', algorithms: [ES256]}}\n"
                           f"routes:\n  - {{jwt: main, {OK}}}\n")
    done = in_namespaces(f'{network}; exec "$@"', sys.executable, "-c", SILENT_NAMES, program.PROGRAM, policy_file)
    assert done.returncode == 0, done.stderr
    status, seconds = done.stdout.split()[-2:]
    assert status == "0" and float(seconds) < 4, done.stderr
