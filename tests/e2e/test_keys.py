"""What requests are counted by."""

import pytest

RATE = "rate: 1/day"

# name of the limit: key
KEYS = {
    "header": "header.x-api-key",
    "cookie": "cookie.session",
    "query": "query.token",
    "path": "path",
    "segment": "path.2",
    "capture": "path.tenant",
    "method": "method",
    "host": "host",
    "address": "client.ip",
    "all": "global",
    "composite": "[header.x-a, header.x-b]",
    "either": "header.x-api-key | cookie.session | client.ip",
}


@pytest.fixture(scope="module", name="proxy")
def proxy_with_a_route_for_each_key(start_shared):
    lines = ["limits:"]
    lines += [f"  {name}: {{key: {key}, {RATE}}}" for name, key in KEYS.items()]
    lines += ["routes:"]
    lines += [f"  - {{match: {{path: \"/{name}/{{tenant}}/**\"}}, limits: [{name}], "
              "respond: {status: 204}}" for name in KEYS]
    return start_shared("\n".join(lines) + "\n")


def ask(proxy, method, path, fields=(), host="a.test"):
    return proxy.ask(method, path, fields, host=host).status


# name, a request, one that is counted apart, one that is counted with the first
@pytest.mark.parametrize("one, other, same", [
    (("GET", "/header/1/", {"X-Api-Key": "a"}),
     ("GET", "/header/1/", {"X-Api-Key": "b"}),
     ("POST", "/header/2/", {"x-api-key": "a"})),
    (("GET", "/cookie/1/", {"Cookie": "x=1; session=a; y=2"}),
     ("GET", "/cookie/1/", {"Cookie": "x=1; session=b; y=2"}),
     ("GET", "/cookie/1/", {"Cookie": "session=a"})),
    (("GET", "/query/1/?token=a&x=1"), ("GET", "/query/1/?token=b&x=1"),
     ("GET", "/query/1/?x=2&token=%61")),
    (("GET", "/path/1/a"), ("GET", "/path/1/b"), ("GET", "/path/./1//%61?x=1")),
    (("GET", "/segment/1/x"), ("GET", "/segment/2/x"), ("GET", "/segment/1/y")),
    (("GET", "/capture/1/x"), ("GET", "/capture/2/x"), ("GET", "/capture/1/y")),
    (("GET", "/method/1/"), ("PUT", "/method/1/"), ("GET", "/method/2/")),
    (("GET", "/host/1/", {}, "one.test"), ("GET", "/host/1/", {}, "two.test"),
     ("GET", "/host/1/", {}, "ONE.test.:80")),
    (("GET", "/composite/1/", {"X-A": "1", "X-B": "2"}),
     ("GET", "/composite/1/", {"X-A": "1", "X-B": "3"}),
     ("GET", "/composite/1/", {"X-B": "2", "X-A": "1"})),
    (("GET", "/composite/1/", {"X-A": "a|b", "X-B": "c"}),
     ("GET", "/composite/1/", {"X-A": "a", "X-B": "b|c"}),
     ("GET", "/composite/1/", {"X-A": "a|b", "X-B": "c"})),
    (("GET", "/either/1/", {"X-Api-Key": "a", "Cookie": "session=s"}),
     ("GET", "/either/1/", {"Cookie": "session=s"}),
     ("GET", "/either/1/", {"X-Api-Key": "a"})),
    (("GET", "/either/1/", {"X-Api-Key": "q"}), ("GET", "/either/1/", {"Cookie": "session=q"}),
     ("GET", "/either/1/", {"X-Api-Key": "q"})),
], ids=["header", "cookie", "query", "path", "segment", "capture", "method", "host", "composite",
        "parts_that_look_alike_when_joined", "the_first_alternative_that_is_present",
        "alternatives_of_equal_value"])
def test_requests_with_the_same_key_are_counted_together_and_others_apart(proxy, one, other, same):
    assert ask(proxy, *one) == 204
    assert ask(proxy, *other) == 204
    assert ask(proxy, *same) == 429


def test_addresses_are_counted_apart(proxy):
    assert proxy.ask(path="/address/1/", source="127.0.0.2").status == 204
    assert proxy.ask(path="/address/1/", source="127.0.0.3").status == 204
    assert proxy.ask(path="/address/2/", source="127.0.0.2").status == 429


def test_global_is_one_counter_for_all(proxy):
    assert proxy.ask("GET", "/all/1/", source="127.0.0.2").status == 204
    assert proxy.ask("POST", "/all/2/", source="127.0.0.3", host="b.test").status == 429


def test_a_limit_of_several_routes_is_shared_by_them(start):
    proxy = start("""
        limits: {once: {key: client.ip, rate: 1/day}}
        defaults: {limits: [once]}
        routes:
          - {match: {path: /a}, respond: {status: 204}}
          - {match: {path: /b}, respond: {status: 204}}
    """)
    assert proxy.ask(path="/a").status == 204
    assert proxy.ask(path="/b").status == 429


def test_route_in_a_key_splits_the_limit(start):
    proxy = start("""
        limits: {once: {key: [client.ip, route], rate: 1/day}}
        defaults: {limits: [once]}
        routes:
          - {name: a, match: {path: /a}, respond: {status: 204}}
          - {name: b, match: {path: /b}, respond: {status: 204}}
    """)
    assert [proxy.ask(path=path).status for path in ("/a", "/b", "/a", "/b")] == [
        204, 204, 429, 429]


def test_long_keys_that_differ_at_their_end_are_counted_apart(proxy):
    for end in "ab":
        assert proxy.ask(path="/header/1/", fields={"X-Api-Key": "k" * 3000 + end}).status == 204
    assert proxy.ask(path="/header/1/", fields={"X-Api-Key": "k" * 3000 + "a"}).status == 429
