"""What a route changes on the way: strip_prefix, request and response."""

import random

import pytest

from harness import program, servers
from harness.upstream import answer

N_RANDOM = 2000


def policy(upstream, words, path="/**", more=""):
    """One route that leads to the upstream, with these words."""
    lines = "".join(f"    {line}\n" for line in words.strip().splitlines())
    return (f"workers: 1\n{more}upstreams: {{api: {{servers: '{upstream.url}'}}}}\n"
            f"routes:\n  - match: {{path: '{path}'}}\n    upstream: api\n{lines}"
            "  - {respond: {status: 404}}\n")


@pytest.fixture(name="upstream")
def upstream_that_answers(start_upstream):
    return start_upstream()


# --- names that servers fold ---


def test_no_spelling_of_a_name_avoids_what_a_route_changes(start, upstream):
    """gunicorn and PHP make one name of `-` and `_`, PHP of `.` too."""
    proxy = start(policy(upstream, "request: {set: {X-Tenant: a}, remove: [X-HTTP-Method-Override]}"))
    for fields in ([("X_Tenant", "b"), ("X_HTTP_Method_Override", "DELETE")],
                   [("x.tenant", "b"), ("X.HTTP-Method_Override", "DELETE")]):
        assert proxy.ask(fields=[*fields, ("X_Other", "c")]).status == 200
        names = [name.lower().replace("_", "-").replace(".", "-") for name, _ in upstream.last.fields]
        assert names.count("x-tenant") == 1 and upstream.last.get("X-Tenant") == "a"
        assert "x-http-method-override" not in names and upstream.last.get("X_Other") == "c"


# --- strip_prefix ---


def test_the_upstream_gets_the_path_without_its_prefix(start, upstream):
    proxy = start(policy(upstream, "strip_prefix: /api", "/api/**"))
    for path, passed in [("/api/users?x=/api", "/users?x=/api"), ("/api", "/"), ("/api?", "/?"),
                         ("/api/", "/"), ("/api//users", "/users"), ("/api//b.test/x", "/b.test/x"),
                         ("/api/%41;p/./b//c/", "/%41;p/./b//c/"), ("/api/api", "/api"),
                         ("http://b.test/api/x?y", "/x?y"), ("http://b.test/api", "/")]:
        assert proxy.ask(path=path).status == 200
        assert upstream.last.target == passed
    for path in ("/apis", "/API/x", "/"):
        assert proxy.ask(path=path).status == 404
    assert [line["path"] for line in proxy.log_lines(13)][:2] == ["/api/users", "/api"]


@pytest.mark.parametrize("path", [
    "/%61pi/x", "//api/x", "/./api/x", "/api;v=1/x", "/api;v=1", "/x/../api/y", "/api/../api/x",
    "/api/x/../../api/y", "/api/%2e%2e/api/x", "/api%2Fx", "/api/..%2Fx", "/api/..;/x"])
def test_a_prefix_in_another_spelling_is_400(start, upstream, path):
    proxy = start(policy(upstream, "strip_prefix: /api", "/api/**"))
    assert proxy.ask(path=path).status == 400
    assert not upstream.requests


def test_rule_54_no_spelling_shows_the_upstream_another_path(start, upstream, seed):
    """As servers read it: what they take the path for is what they took the whole for, without the
    prefix."""
    rng = random.Random(seed)
    proxy = start(policy(upstream, "strip_prefix: /a/b", "/a/b/**"))
    pieces = ["a", "b", "A", "c", "", ".", "..", "%2e%2e", "..;x", "a;p", ";", "%61", "%2f", "%252e"]
    paths = ["/a/b/" + "/".join(rng.choice(pieces) for _ in range(rng.randrange(5)))
             for _ in range(N_RANDOM)]
    with proxy.connect() as client:
        for path in paths:
            n_before = len(upstream.requests)
            response = client.ask(path=path)
            assert response.status in (200, 400)
            if response.status == 400:
                assert len(upstream.requests) == n_before
                continue
            for read in (servers.nginx, servers.tomcat, servers.go):
                assert "/a/b" + read(upstream.last.target).rstrip("/") == read(path).rstrip("/")
    assert len(upstream.requests) > 100


def test_a_redirect_is_left_as_it_is(start, start_upstream):
    upstream = start_upstream(answer=answer("302 Found", fields=[("Location", "/users/1")]))
    proxy = start(policy(upstream, "strip_prefix: /api", "/api/**"))
    assert proxy.ask(path="/api/users").get("Location") == "/users/1"


def test_limits_and_keys_see_the_whole_path(start, upstream):
    proxy = start(policy(upstream, "strip_prefix: /api\nlimits: [few]", "/api/**",
                         "limits: {few: {key: path.1, rate: 2/day}}\n"))
    assert [proxy.ask(path=path).status for path in ("/api/a", "/api/b", "/api/c")] == [
        200, 200, 429]


# --- fields ---


def names_of(message):
    return [name.lower() for name, _ in message.fields]


def test_request_fields_are_set_and_removed(start, upstream):
    proxy = start(policy(upstream, """
request:
  set: {X-Mine: "${WORD}", x-key: "quoted, \\"text\\"", X-Empty: ""}
  remove: [x-gone, Cookie]
"""), env={"WORD": "of the environment"})
    proxy.ask(fields=[("X-Mine", "1"), ("X-A", "1"), ("X-GONE", "1"), ("x-mine", "2"),
                      ("X-Gone-Not", "1"), ("Cookie", "a=1"), ("X-A", "2"), ("Cookie", "b=2")])
    passed = upstream.last
    assert passed.all("X-Mine") == ["of the environment"] and passed.get("X-Empty") == ""
    assert passed.get("X-Key") == 'quoted, "text"' and passed.all("X-A") == ["1", "2"]
    assert passed.get("X-Gone") is None and passed.get("Cookie") is None
    assert passed.get("X-Gone-Not") == "1"


def test_trace_does_not_show_what_a_route_sets(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream, "request: {set: {Authorization: Bearer secret}}"))
    for method in ("TRACE", "TRACK", "Track"):
        assert proxy.ask(method).status == 501 and not upstream.requests
    proxy = start(policy(upstream, "request: {remove: [X-A]}"))
    assert proxy.ask("TRACE").status == proxy.ask("TRACK").status == 200


def test_rule_47_what_a_route_sets_cannot_be_nominated_away(start, start_upstream):
    upstream = start_upstream(answer=answer(fields=[
        ("Connection", "X-Ours, X-Theirs"), ("X-Ours", "1"), ("X-Theirs", "1")]))
    proxy = start(policy(upstream, "request: {set: {X-Ours: a}}\nresponse: {set: {X-Ours: b}}"))
    response = proxy.ask(fields=[("Connection", "x-ours"), ("X-Ours", "theirs")])
    assert upstream.last.all("X-Ours") == ["a"]
    assert response.all("X-Ours") == ["b"] and response.get("X-Theirs") is None


def test_fields_that_sluice_writes_can_be_removed_and_some_be_set(start, upstream):
    proxy = start(policy(upstream, """
request:
  set: {X-Forwarded-Proto: https}
  remove: [X-Forwarded-For, Forwarded, X-Real-IP, X-Forwarded-Host]
"""))
    proxy.ask(fields={"X-Forwarded-Proto": "gopher"})
    assert upstream.last.all("X-Forwarded-Proto") == ["https"]
    assert not set(names_of(upstream.last)) & {
        "x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host"}
    assert {"via", "x-request-id"} <= set(names_of(upstream.last))


def test_response_fields_are_set_and_removed_also_of_interim_ones(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Secret: 1\r\n\r\n" + answer(fields=[
            ("Server", "theirs/1.0"), ("X-SECRET", "2"), ("X-Frame-Options", "ALLOW"),
            ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])))
    proxy = start(policy(upstream, """
response:
  set: {X-Frame-Options: DENY, Strict-Transport-Security: max-age=1}
  remove: [server, X-Secret]
"""))
    with proxy.connect() as client:
        for _ in range(2):
            hints = client.ask()
            assert hints.fields == [("Link", "</a>")]
            response = client.read()
            assert names_of(response) == [
                "set-cookie", "set-cookie", "content-length", "date", "x-frame-options",
                "strict-transport-security"]
            assert response.get("X-Frame-Options") == "DENY" and response.body == b"ok\n"


def test_what_sluice_answers_by_itself_has_the_fields_too_but_keeps_its_own(start, upstream):
    proxy = start(policy(upstream, """
limits: [few]
response: {set: {Access-Control-Allow-Origin: "*", Content-Type: text/x, Cache-Control: public}}
""", more="limits: {few: {key: global, rate: 1/day}}\n"))
    allowed, denied = proxy.ask(), proxy.ask()
    assert allowed.get("Content-Type") == "text/x" and allowed.get("Cache-Control") == "public"
    assert (denied.status, denied.get("Access-Control-Allow-Origin")) == (429, "*")
    assert denied.get("Content-Type") == "application/problem+json"
    assert denied.get("Cache-Control") == "no-store"


def test_a_route_that_responds_may_set_fields(start):
    proxy = start("""
        routes:
          - respond: {status: 301}
            response: {set: {Location: "https://b.test/"}}
    """)
    response = proxy.ask()
    assert (response.status, response.get("Location")) == (301, "https://b.test/")


def test_as_much_as_may_be_set_fits_beside_the_largest_head(start, start_upstream):
    large = [("X-Theirs", "t" * 15_000)]
    upstream = start_upstream(answer=answer(fields=large))
    value = "v" * 498  # 16 lines of 512 bytes
    fields = ", ".join(f"X-Field-{i:02}: {value}" for i in range(16))
    limits = ", ".join(f"limit-{i:02}-{'n' * 50}: {{key: global, rate: 10/day}}" for i in range(16))
    names = ", ".join(f"limit-{i:02}-{'n' * 50}" for i in range(16))
    proxy = start(policy(upstream, f"request: {{set: {{{fields}}}}}\n"
                                   f"response: {{set: {{{fields}}}}}\nlimits: [{names}]",
                         more=f"headers: ratelimit_and_x_ratelimit\nlimits: {{{limits}}}\n"))
    response = proxy.ask(fields=large)
    assert response.status == 200 and response.get("X-Field-15") == value
    assert upstream.last.get("X-Field-15") == value and upstream.last.get("X-Theirs")


@pytest.mark.parametrize("value", ["a\r\nX-B: 1", "a\nb", "a\x7fb"])
def test_a_value_of_the_environment_cannot_break_a_line_and_is_not_shown(tmp_path, value):
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\nroutes:\n  - respond: {status: 204}\n"
                    "    response: {set: {X-A: \"secret-${WORD}\"}}\n")
    result = program.command("check", str(path), env={"WORD": value})
    assert result.returncode != 0 and value not in result.stderr + result.stdout
    assert "5:" in result.stderr + result.stdout or "4:" in result.stderr + result.stdout
