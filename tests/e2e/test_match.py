"""Conditions of a match: several hosts, paths and values, what is absent, parameters of the query."""

import textwrap

import pytest

from harness import program

POLICY = """
    limits:
      per-user: {key: path.user, rate: 2/day}
      search: {key: client.ip, rate: 1/day}
    upstreams: {api: {servers: ["http://%s"]}}
    routes:
      - name: users
        match: {host: [a.test, "*.b.test"], path: ["/users/{user}", "/v2/{team}/{user}/**"]}
        limits: [per-user]
        upstream: api
      - name: anonymous
        match: {path: /secret, header: {authorization: false}}
        respond: {status: 401}
      - {name: search, match: {path: /search, query: {format: [csv, "x y"], preview: false}},
         limits: [search], upstream: api}
      - {match: {path: [/search, /secret]}, upstream: api}
"""


@pytest.fixture(name="proxy")
def proxy_before_an_upstream(start, start_upstream):
    return start(POLICY % start_upstream().address)


def ask(proxy, target, *fields, host="a.test"):
    return proxy.ask("GET", target, [("Host", host), *fields])


def test_one_bucket_holds_for_all_paths_and_hosts_of_a_route(proxy):
    assert ask(proxy, "/users/7").status == 200
    assert ask(proxy, "/v2/x/7/posts", host="c.b.test").status == 200
    assert ask(proxy, "/users/7", host="x.b.test").status == 429
    assert ask(proxy, "/v2/y/7").status == 429
    assert ask(proxy, "/v2/7/8").status == 200, "the team is not the user"
    assert ask(proxy, "/users/7", host="b.test").status == 404
    assert ask(proxy, "/v3/x/7").status == 404


def test_a_field_that_must_be_absent(proxy):
    assert ask(proxy, "/secret").status == 401
    assert ask(proxy, "/secret", ("Authorization", "x")).status == 200
    hidden = ask(proxy, "/secret", ("Authorization", "x"), ("Connection", "authorization"))
    assert (hidden.status, b"Connection" in hidden.body) == (400, True), "the server would not see it"


@pytest.mark.parametrize("query", ["format=csv", "format=x+y", "form%61t=x%20y&a=1",
                                   "format=csv&a=%zz;&b]=]="])
def test_a_parameter_with_one_of_the_values(proxy, query):
    assert ask(proxy, f"/search?{query}").status == 200
    assert ask(proxy, f"/search?{query}").status == 429


@pytest.mark.parametrize("query", ["", "format=html", "Format=csv", "format=%2563sv", "format=",
                                   "format=a&format=b", "format=csv&preview", "preview=1&format=csv",
                                   "format=csv&preview=false"])
def test_a_request_without_it_takes_the_next_route(proxy, query):
    for _ in range(2):
        assert ask(proxy, f"/search?{query}").status == 200


@pytest.mark.parametrize("query", ["format=csv&format=html", "format=html&format=csv",
                                   "format[]=csv", "format%5B0%5D=csv", "a=1;format=csv",
                                   "format=html;format=csv", "format%00=csv",
                                   "format=csv&preview[]=1", "format=csv&a=1;preview=1",
                                   "format=csv&format=x%20y", "format=csv&format=csv",
                                   "format=csv&preview=%zz", "format=csv&preview=1;x",
                                   "format=csv&preview=]=1", "format=csv&preview=x%5d=1",
                                   "format=csv" + 1000 * "&a" + "&preview=1",
                                   "a" + 1000 * "&" + "format=csv"])
def test_what_servers_read_in_different_ways_avoids_no_limit(proxy, query):
    answer = ask(proxy, f"/search?{query}")
    assert (answer.status, b"parameter" in answer.body) == (400, True)
    assert ask(proxy, f"/secret?{query}").status == 401, "where no route asks for it"


FORM = ("Content-Type", "application/x-www-form-urlencoded")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_parameter_in_the_body_is_not_seen_and_max_body_keeps_it_out(start, start_upstream, method):
    upstream = start_upstream()
    open_policy = POLICY % upstream.address
    closed = open_policy.replace("[/search, /secret]}", "[/search, /secret]}, max_body: 0B")
    for policy, status in [(open_policy, 200), (closed, 413)]:
        proxy = start(policy)
        assert {proxy.ask(method, "/search", [FORM], b"format=csv").status for _ in range(3)} == {status}
        assert [proxy.ask(method, f"/search{query}").status for query in ("", "?format=csv", "?format=csv")] == [200, 200, 429]
    assert {request.body for request in upstream.requests[5:]} == {b""}


def test_explain_names_what_does_not_match(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("listen: 127.0.0.1:0" + textwrap.dedent(POLICY % "127.0.0.1:9"))

    def explain(*arguments):
        return program.command("explain", str(policy), "GET", *arguments).stdout
    told = explain("http://c.test/search?format=pdf&preview=1")
    assert "the path is not /users/{user} nor /v2/{team}/{user}/**" in told
    assert "the parameter format does not have the value that it asks for" in told
    told = explain("http://c.test/users/7")
    assert "the host is not a.test nor *.b.test" in told
    told = explain("http://c.test/search?format=csv&preview=1")
    assert "the parameter preview is there" in told
    told = explain("http://c.test/secret", "-H", "Authorization: x")
    assert "the field authorization is there" in told
    told = explain("http://c.test/search?format=csv&format=pdf")
    assert "400" in told and "different ways" in told
