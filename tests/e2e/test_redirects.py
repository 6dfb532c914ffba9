"""Routes that redirect: to https with the host, path and query of the request, or to a fixed place."""

import pytest

from harness import program

POLICY = """
trusted_proxies: [127.0.0.1]
routes:
  - match: {host: ["*.a.test", "[::1]"], header: {X-Forwarded-Proto: http}}
    respond: {redirect: https}
  - {match: {path: /old/**}, respond: {redirect: /new}}
  - {match: {path: /query}, respond: {redirect: {to: "/new?a=b", status: 307}}}
  - {match: {path: /shop}, respond: {redirect: {to: "https://shop.test", status: 301}, body: moved}}
  - {match: {host: b.test}, respond: {redirect: {to: https, status: 302}}}
limits: {few: {key: client.ip, rate: 2/hour}}
"""


@pytest.fixture(name="proxy")
def a_proxy_with_redirects(start):
    return start(POLICY)


@pytest.mark.parametrize("host, target, location", [
    ("www.a.test", "/", "https://www.a.test/"),
    ("WWW.A.test.:8080", "/a/../b%20c//d?x=1&y=%0d%0a", "https://www.a.test/a/../b%20c//d?x=1&y=%0d%0a"),
    ("www.a.test", "//evil.test/", "https://www.a.test//evil.test/"),
    ("www.a.test", "/@evil.test?", "https://www.a.test/@evil.test?"),
    ("[::1]:80", "/a", "https://[::1]/a"),
    ("evil.test", "http://www.a.test:81?q", "https://www.a.test/?q"),
])
def test_https_keeps_host_path_and_query_without_the_port(proxy, host, target, location):
    response = proxy.ask("GET", target, [("Host", host), ("X-Forwarded-Proto", "http")])
    assert (response.status, response.get("Location")) == (308, location)
    assert b"Location" in response.body


@pytest.mark.parametrize("host", ["evil.test", "a.test", "www.a.test.evil.test"])
def test_a_host_that_the_route_does_not_name_gets_no_redirect(proxy, host):
    response = proxy.ask("GET", "/", [("Host", host), ("X-Forwarded-Proto", "http")])
    assert (response.status, response.get("Location")) == (404, None)


@pytest.mark.parametrize("target, status, location", [
    ("/old/a", 308, "/new"), ("/old/a?b=c", 308, "/new?b=c"), ("/old?", 308, "/new?"),
    ("/query?c=d", 307, "/new?a=b"), ("/shop?c=d", 301, "https://shop.test?c=d"),
])
def test_a_fixed_place_gets_the_query_unless_it_has_one(proxy, target, status, location):
    for method in ["GET", "HEAD", "POST"]:
        response = proxy.ask(method, target)
        assert (response.status, response.get("Location")) == (status, location)


def test_the_body_can_be_said_and_a_status_stands_beside_https(proxy):
    assert proxy.ask("GET", "/shop").body == b"moved"
    response = proxy.ask("GET", "/", [("Host", "b.test")])
    assert (response.status, response.get("Location")) == (302, "https://b.test/")


def test_options_of_the_server_as_a_whole(proxy):
    response = proxy.ask("OPTIONS", "*", [("Host", "b.test")])
    assert (response.status, response.get("Location")) == (302, "https://b.test/")


def test_the_largest_target_fits(start):
    fields = ", ".join(f"X-Field-{i}: {'v' * 1000}" for i in range(8))
    proxy = start("routes:\n  - {match: {host: b.test}, "
                  f"respond: {{redirect: https, set: {{{fields}}}}}}}\n")
    query = "q" * 8_190
    response = proxy.ask("GET", f"/?{query}", [("Host", "b.test")])
    assert (response.status, response.get("Location")) == (308, f"https://b.test/?{query}")
    assert response.get("X-Field-7") == "v" * 1000


def test_limits_apply_first(start):
    proxy = start("limits: {few: {key: client.ip, rate: 2/hour}}\n"
                  "routes: [{limits: [few], respond: {redirect: /new}}]\n")
    assert [proxy.ask().status for _ in range(3)] == [308, 308, 429]


def test_explain_says_the_status(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\n" + POLICY)
    told = program.command("explain", str(path), "GET", "http://b.test/old/x")
    assert "308" in told.stdout, told.stdout + told.stderr
