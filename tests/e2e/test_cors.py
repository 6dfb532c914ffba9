"""Pages of other origins: preflights are answered here, uncharged, and never reach the server."""

import pytest

from harness import program
from harness.upstream import answer

APP = "https://app.example.com"
POLICY = """
upstreams: {{api: {{servers: ['{url}']}}}}
limits:
  few: {{key: client.ip, rate: 2/hour}}
defaults: {{limits: [few]}}
routes:
  - match: {{path: /api/**, method: [POST, DELETE]}}
    cors: {{origins: [https://app.example.com, 'http://localhost:3000'], headers: [Content-Type, X-Api-Key],
           expose: [X-Total], credentials: true, max_age: 5m}}
    upstream: api
  - match: {{path: /open/**}}
    cors: {{origins: ['*']}}
    upstream: api
  - match: {{path: /asks/**, header: {{x-api-key: true}}}}
    cors: {{origins: ['*'], methods: [PUT]}}
    upstream: api
  - match: {{path: /asks/**}}
    cors: {{origins: ['*'], methods: [GET]}}
    upstream: api
  - match: {{path: /own}}
    cors: {{origins: [https://app.example.com]}}
    respond: {{status: 200, body: own}}
  - {{match: {{path: /**}}, upstream: api}}
"""


@pytest.fixture(name="api")
def an_upstream_with_cors_fields_of_its_own(start_upstream):
    fields = [("Access-Control-Allow-Origin", APP), ("Access-Control-Expose-Headers", "X-Total"), ("Vary", "Accept")]
    return start_upstream(lambda peer, request: peer.send(answer(body=b"theirs", fields=fields)))


@pytest.fixture(name="proxy")
def a_proxy_with_cors(start, api):
    return start(POLICY.format(url=api.url))


def preflight(proxy, path, method="POST", origin=APP, fields=()):
    return proxy.ask("OPTIONS", path, [("Origin", origin), ("Access-Control-Request-Method", method), *fields])


def cors_of(response):
    return {name: value for name, value in response.fields if name.startswith("Access-Control-")}


def test_a_preflight_is_answered_uncharged_and_never_forwarded(proxy, api):
    for _ in range(5):
        response = preflight(proxy, "/api/items")
        assert response.status == 204 and response.get("RateLimit") is None
        assert cors_of(response) == {
            "Access-Control-Allow-Origin": APP, "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Methods": "POST, DELETE",
            "Access-Control-Allow-Headers": "Content-Type, X-Api-Key", "Access-Control-Max-Age": "300"}
        assert response.get("Vary") == "Origin"
    assert not api.requests
    assert [proxy.ask("POST", "/api/items").status for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("origin", ["https://app.example.com.evil.org", "https://app.example.co", "null",
                                    "http://app.example.com", "https://APP.example.com", "https://app.example.com:8443"])
def test_origins_are_compared_whole(proxy, api, origin):
    response = preflight(proxy, "/api/items", origin=origin)
    assert response.status == 204 and cors_of(response) == {} and response.get("Vary") == "Origin"
    assert not api.requests


def test_any_origin_may_be_allowed(proxy):
    response = preflight(proxy, "/open/x", "PUT", "https://elsewhere.example")
    assert cors_of(response)["Access-Control-Allow-Origin"] == "*" and response.get("Vary") is None
    assert "Access-Control-Allow-Credentials" not in cors_of(response)


def test_the_null_origin_is_never_allowed(proxy):
    response = preflight(proxy, "/open/x", "PUT", "null")
    assert response.status == 204 and cors_of(response) == {}
    for _ in range(2):
        assert proxy.ask(path="/open/x").status == 200
    denied = proxy.ask(path="/open/x", fields=[("Origin", "null")])
    assert denied.status == 429 and "Access-Control-Allow-Origin" not in cors_of(denied)


@pytest.mark.parametrize("fields, methods", [
    ([], "GET"), ([("Access-Control-Request-Headers", "x-api-key")], "GET"), ([("X-Api-Key", "1")], "PUT")])
def test_a_preflight_is_matched_with_the_fields_that_it_has_itself(proxy, fields, methods):
    response = preflight(proxy, "/asks/x", fields=fields)
    assert cors_of(response)["Access-Control-Allow-Methods"] == methods


def test_a_route_without_cors_forwards_options_and_charges_it(proxy, api):
    assert [preflight(proxy, "/other").status for _ in range(3)] == [200, 200, 429]
    assert [request.method for request in api.requests] == ["OPTIONS", "OPTIONS"]


@pytest.mark.parametrize("fields", [
    [("Origin", APP)], [("Access-Control-Request-Method", "PUT")],
    [("Origin", APP), ("Access-Control-Request-Method", "no method")],
    [("Origin", APP), ("Origin", APP), ("Access-Control-Request-Method", "PUT")]])
def test_what_is_no_preflight_is_charged(proxy, fields):
    assert [proxy.ask("OPTIONS", "/open/x", fields).status for _ in range(3)] == [200, 200, 429]


def test_a_page_may_read_why_it_was_denied(proxy):
    for _ in range(2):
        proxy.ask("POST", "/api/items")
    response = proxy.ask("POST", "/api/items", [("Origin", APP)])
    assert response.status == 429 and cors_of(response) == {
        "Access-Control-Allow-Origin": APP, "Access-Control-Allow-Credentials": "true",
        "Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After, X-Total"}
    assert response.get("Vary") == "Origin"
    assert cors_of(proxy.ask("POST", "/api/items")) == {}


def test_answers_of_the_route_itself_tell_it_too(proxy):
    assert cors_of(proxy.ask(path="/own", fields=[("Origin", APP)]))["Access-Control-Allow-Origin"] == APP


@pytest.mark.parametrize("vary, expected", [("'*'", ["*"]), ("Accept", ["Accept", "Origin"])])
@pytest.mark.parametrize("place", ["respond: {{status: 200, set: {{Vary: {}}}}}",
                                   "response: {{set: {{Vary: {}}}}}\n    respond: {{status: 200}}"])
def test_vary_gets_the_origin_unless_it_says_everything(start, vary, expected, place):
    proxy = start("routes:\n  - cors: {origins: [https://app.example.com]}\n    " + place.format(vary) + "\n")
    for fields in [[], [("Origin", APP)]]:
        response = proxy.ask(fields=fields)
        assert [value for name, value in response.fields if name == "Vary"] == expected


def test_the_servers_cors_fields_stay_and_names_are_appended(proxy):
    response = proxy.ask("POST", "/api/items", [("Origin", APP)])
    exposed = [value for name, value in response.fields if name == "Access-Control-Expose-Headers"]
    assert exposed == ["X-Total", "RateLimit, RateLimit-Policy, Retry-After"]
    assert [value for name, value in response.fields if name == "Access-Control-Allow-Origin"] == [APP]
    assert [value for name, value in response.fields if name == "Vary"] == ["Accept"]
    assert len([1 for name, _ in proxy.ask("POST", "/api/items").fields
                if name == "Access-Control-Expose-Headers"]) == 1


def test_the_defaults_hold_where_a_route_says_nothing(start):
    proxy = start("defaults: {cors: {origins: [https://app.example.com]}}\n"
                  "routes: [{respond: {status: 200}}]\n")
    response = preflight(proxy, "/", "PATCH")
    assert cors_of(response)["Access-Control-Allow-Methods"] == "GET, HEAD, POST, PUT, PATCH, DELETE"
    assert cors_of(response)["Access-Control-Max-Age"] == "600"


@pytest.mark.parametrize("cors, problem", [
    ("{origins: ['*'], credentials: true}", "credentials cannot be allowed to any origin"),
    ("{origins: ['null']}", "must be as browsers send it"),
    ("{origins: [app.example.com]}", "must be as browsers send it"),
    ("{origins: ['https://app.example.com/']}", "must be as browsers send it"),
    ("{origins: ['https://App.example.com']}", "must be as browsers send it"),
    ("{origins: ['https://*.example.com']}", "must be as browsers send it"),
    ("{methods: [GET]}", "origins")])
def test_what_can_never_hold_is_an_error(tmp_path, cors, problem):
    path = tmp_path / "policy.yaml"
    path.write_text(f"listen: 127.0.0.1:0\nroutes: [{{cors: {cors}, respond: {{status: 200}}}}]\n")
    result = program.command("check", str(path))
    assert result.returncode == 1 and problem in result.stderr


def test_explain_knows_a_preflight(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\n" + POLICY.format(url="http://127.0.0.1:9"))
    result = program.command("explain", str(path), "OPTIONS", "http://localhost/api/x", "-H", f"Origin: {APP}",
                             "-H", "Access-Control-Request-Method: POST")
    assert "answer     204, by its cors: a preflight" in result.stdout
    assert "\nlimits     none: a preflight takes nothing from them\n" in result.stdout
    assert "upstream " not in result.stdout and "DENIES" not in result.stdout
