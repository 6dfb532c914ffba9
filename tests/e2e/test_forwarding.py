"""What the upstream gets of a request, and the client of a response."""

import re

import pytest

from harness.upstream import answer

OUR_VIA = re.compile("1.1 sluice-[0-9a-f]{12}")
# Fields that we add to every request, or write anew.
OURS = {"host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip",
        "forwarded", "x-request-id", "via"}


def simple(upstream, more=""):
    """One worker, so that its connections to the upstream can be counted."""
    return f"workers: 1\n{more}upstream: {upstream.url}\n"


@pytest.fixture(name="upstream")
def upstream_that_answers(start_upstream):
    return start_upstream()


@pytest.fixture(name="proxy")
def proxy_before_it(start, upstream):
    return start(simple(upstream))


def passed_on(request):
    return [(name, value) for name, value in request.fields if name.lower() not in OURS]


# --- request fields ---


def test_rule_46_fields_that_belong_to_a_connection_are_not_passed_on(proxy, upstream):
    proxy.ask(fields=[
        ("Connection", "keep-alive, X-Nominated"), ("Keep-Alive", "timeout=5"),
        ("x-nominated", "1"), ("Proxy-Connection", "keep-alive"), ("TE", "gzip"),
        ("Upgrade", "h2c"), ("Trailer", "X-T"), ("X-Kept", "1"), ("connection", "x-second"),
        ("X-Second", "2"), ("Proxy-Authorization", "Basic eA=="), ("HTTP2-Settings", "AAMAAABk")])
    assert passed_on(upstream.last) == [("X-Kept", "1")]


def test_rule_47_fields_that_we_write_cannot_be_nominated_away(proxy, upstream):
    proxy.ask(fields=[("Connection", "X-Forwarded-For, Via, X-Request-ID, X-Real-IP")])
    assert upstream.last.get("X-Forwarded-For") == "127.0.0.1"
    assert upstream.last.get("X-Real-IP") == "127.0.0.1"
    assert OUR_VIA.fullmatch(upstream.last.get("Via"))
    assert upstream.last.get("X-Request-ID")


@pytest.mark.parametrize("nominated", ["Host", "Content-Length"])
def test_fields_that_make_the_message_cannot_be_nominated_away(proxy, upstream, nominated):
    assert proxy.ask("POST", fields={"Connection": nominated}, body=b"x").status == 400
    assert not upstream.requests


def test_rule_53_other_fields_are_passed_on_as_they_came_in_their_order(proxy, upstream):
    fields = [("X-One", "1"), ("x-TWO", "a  b\tc"), ("X-One", "2"), ("Authorization", "Bearer q"),
              ("Cookie", "a=1"), ("X-One", "3"), ("X-Empty", ""), ("Cookie", "b=2"),
              ("X-Latin", "caf\xe9")]
    proxy.ask(fields=fields)
    assert passed_on(upstream.last) == fields


def test_an_untrusted_peers_forwarding_fields_are_replaced(proxy, upstream):
    proxy.ask(host="api.test:8080", fields=[
        ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.test"), ("X-Real-IP", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.2")])
    assert upstream.last.get("X-Forwarded-For") == "127.0.0.1"
    assert upstream.last.get("X-Forwarded-Proto") == "http"
    assert upstream.last.get("X-Forwarded-Host") == "api.test:8080"
    assert upstream.last.get("X-Real-IP") == "127.0.0.1"
    assert upstream.last.get("Forwarded") == 'for=127.0.0.1;host="api.test:8080";proto=http'
    assert upstream.last.get("Host") == "api.test:8080"


def test_a_trusted_peers_forwarding_fields_are_appended_to(start, upstream):
    proxy = start(simple(upstream, "trusted_proxies: 127.0.0.1\n"))
    proxy.ask(host="api.test", fields=[
        ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "www.test"), ("X-Real-IP", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.2")])
    assert upstream.last.get("X-Forwarded-For") == "192.0.2.1, 192.0.2.2, 127.0.0.1"
    assert upstream.last.get("X-Forwarded-Proto") == "https"
    assert upstream.last.get("X-Forwarded-Host") == "www.test"
    assert upstream.last.get("X-Real-IP") == "192.0.2.2"
    assert upstream.last.get("Forwarded") == (
        'for=192.0.2.2;host="www.test";proto=https, for=127.0.0.1;host="api.test";proto=http')


@pytest.mark.parametrize("theirs, client", [("X-Forwarded-For: 198.51.100.7", "198.51.100.7"),
                                            ("X-Forwarded-For: garbage", "127.0.0.1"),
                                            ("Forwarded: for=198.51.100.7", "198.51.100.7")])
def test_the_client_that_is_counted_is_the_one_that_the_server_hears_of(start, upstream, theirs, client):
    proxy = start(simple(upstream, "trusted_proxies: 127.0.0.1\n"))
    other = [] if theirs.startswith("Forwarded") else [("Forwarded", "for=127.0.0.9;proto=https")]
    proxy.ask(host="api.test", fields=[tuple(theirs.split(": ")), ("X-Real-IP", "127.0.0.9"), *other])
    assert proxy.log_lines(1)[0]["client"] == client
    assert upstream.last.get("X-Real-IP") == client
    for name in ("X-Forwarded-For", "Forwarded"):
        assert client in upstream.last.get(name) and "127.0.0.9" not in upstream.last.get(name)


MADE_ID = re.compile("[0-9a-f]{32}")


def test_a_request_id_is_passed_on_of_trusted_proxies_alone(start, upstream):
    proxy = start(simple(upstream, "trusted_proxies: [127.0.0.2]\n"))
    given = {"X-Request-ID": "abc-123"}
    with proxy.connect("127.0.0.2") as trusted, proxy.connect("127.0.0.3") as other:
        trusted.ask(fields=given)
        assert upstream.last.get("X-Request-ID") == "abc-123"
        for bad in ("x" * 129, "a b", "<a>", "a;b"):
            trusted.ask(fields={"X-Request-ID": bad})
            assert MADE_ID.fullmatch(upstream.last.get("X-Request-ID"))
        other.ask(fields=given)
        made = upstream.last.get("X-Request-ID")
        assert MADE_ID.fullmatch(made)
    ids = [line["id"] for line in proxy.log_lines(6)]
    assert ids[0] == "abc-123" and ids[-1] == made


def test_request_ids_that_are_made_do_not_tell_one_another(proxy, upstream):
    made = []
    for _ in range(50):
        proxy.ask()
        made.append(upstream.last.get("X-Request-ID"))
    assert all(MADE_ID.fullmatch(one) for one in made)
    for start, end in ((0, 8), (8, 16), (16, 24), (24, 32)):  # two equal in 32 bits: once in 3,000,000 runs
        assert len({one[start:end] for one in made}) == len(made)


def test_rule_49_via_names_the_version_that_the_client_spoke_after_the_others(proxy, upstream):
    proxy.ask(fields={"Via": "1.0 fred"})
    first, ours = upstream.last.all("Via")
    assert first == "1.0 fred" and OUR_VIA.fullmatch(ours)
    with proxy.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n") as client:
        client.read()
    assert upstream.last.all("Via") == [ours.replace("1.1", "1.0")]
    assert upstream.last.version == "HTTP/1.1"


@pytest.mark.parametrize("rule, host", [("preserve", "shop.test:81"), ("server", None),
                                        ("inner.example", "inner.example")])
def test_the_upstream_sees_the_host_that_the_policy_says(start, upstream, rule, host):
    proxy = start(f"""
        upstreams: {{api: {{servers: "{upstream.url}", host: {rule}}}}}
        routes: [{{upstream: api}}]
    """)
    proxy.ask(host="shop.test:81")
    assert upstream.last.all("Host") == [host or upstream.address]


# --- the request line ---


@pytest.mark.parametrize("target", [
    "/", "/a/../b/./c", "//a///b", "/%41%7e%20", "/a;x=1/b;y", "/?",
    "/?a=1&b=%zz&&c=?/", "/a?../x//y", "/!$&'()*+,=:@~-._", "/a|b^c`{}\"<>"])
def test_rule_54_path_and_query_are_passed_on_byte_for_byte(proxy, upstream, target):
    assert proxy.ask(path=target).status == 200
    assert upstream.last.target == target


@pytest.mark.parametrize("target, passed", [
    ("http://b.test/x?y", "/x?y"), ("http://b.test", "/"), ("HTTP://b.test?q", "/?q"),
    ("http://b.test:8080//x", "//x")])
def test_rule_04_an_absolute_target_counts_before_host(proxy, upstream, target, passed):
    assert proxy.ask(path=target, host="a.test").status == 200
    assert upstream.last.target == passed
    assert upstream.last.get("Host").startswith("b.test")


def test_rule_09_methods_are_passed_on_as_they_are_written(proxy, upstream):
    for method in ("gets", "PURGE", "M-SEARCH", "OPTIONS"):
        proxy.ask(method)
        assert upstream.last.method == method
    proxy.ask("OPTIONS", "*")
    assert upstream.last.target == "*"


def test_rule_09_a_known_method_in_another_case_is_refused(start, start_upstream):
    """Flask and Django fold the case of a method: `post` would reach the handler of POST."""
    upstream = start_upstream()
    proxy = start(f"""
        limits: {{login: {{key: client.ip, algorithm: fixed_window, rate: 2/day}},
                  by-method: {{key: method, algorithm: fixed_window, align: first, rate: 100/day}}}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes:
          - {{match: {{path: /v1/login, method: [POST, Purge]}}, limits: [login], upstream: api}}
          - {{match: {{path: /**}}, limits: [by-method], cost: {{SWEEP: 2, default: 1}}, upstream: api}}
    """)
    for method, meant in (("post", "POST"), ("Post", "POST"), ("pOST", "POST"), ("purge", "Purge"),
                          ("PURGE", "Purge"), ("sweep", "SWEEP"), ("propfind", "PROPFIND")):
        response = proxy.ask(method, "/v1/login")
        assert response.status == 400
        assert b"case-sensitive" in response.body and meant.encode() in response.body
    assert not upstream.requests
    assert [proxy.ask(method, "/v1/login").status for method in ("POST", "Purge", "POST")] == [200, 200, 429]
    left = [proxy.ask(method, "/x").get("RateLimit").split(";r=")[1].split(";")[0]
            for method in ("FOO", "BAR", "foo", "GET", "PROPFIND", "SWEEP", "Purge", "BAZ")]
    assert left == ["99", "98", "97", "99", "99", "98", "99", "96"]


# --- responses ---


def test_rule_52_response_fields_keep_their_order_and_set_cookie_its_lines(start, start_upstream):
    fields = [("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2100 10:18:14 GMT"), ("X-A", "1"),
              ("Set-Cookie", "b=2"), ("x-a", "2"), ("Date", "Wed, 09 Jun 2021 10:18:14 GMT"),
              ("WWW-Authenticate", "Basic"), ("Server", "theirs")]
    upstream = start_upstream(answer=answer("401 No", fields=[
        *fields, ("Connection", "x-gone"), ("X-Gone", "1"), ("Keep-Alive", "timeout=1")]))
    response = start(simple(upstream)).ask()
    assert response.status == 401
    assert response.fields == [*fields, ("Content-Length", "3")]


def test_rule_45_date_is_added_where_it_is_missing(proxy):
    assert proxy.ask().get("Date").endswith(" GMT")


def test_rule_45_a_date_that_stays_on_its_hop_is_replaced(start, start_upstream):
    upstream = start_upstream(answer=answer(fields=[
        ("Date", "Wed, 09 Jun 2021 10:18:14 GMT"), ("Connection", "date")]))
    date = start(simple(upstream)).ask().get("Date")
    assert date.endswith(" GMT") and "2021" not in date


def test_a_response_to_head_has_its_fields_and_no_body(start, start_upstream):
    upstream = start_upstream(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(2):
            assert client.ask("HEAD").get("Content-Length") == "1000"
    assert upstream.n_connections == 2


@pytest.mark.parametrize("response, length, n_connections", [
    (b"HTTP/1.1 204 No Content\r\n\r\n", None, 1),
    (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", None, 1),
    (b"HTTP/1.1 304 Not Modified\r\n\r\n", None, 1),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", "77", 2),
    (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", None, 2)])
def test_rule_38_statuses_without_a_body_end_with_their_head(
        start, start_upstream, response, length, n_connections):
    upstream = start_upstream(answer=response)
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(2):
            got = client.ask()
            assert got.get("Content-Length") == length and not got.is_chunked()
    assert upstream.n_connections == n_connections


def test_rule_41_a_response_until_close_is_chunked_to_http_1_1(start, start_upstream):
    def behave(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello ")
        peer.send(b"world")
        peer.close()

    proxy = start(simple(start_upstream(behave)))
    with proxy.connect() as client:
        for _ in range(2):
            response = client.ask()
            assert response.is_chunked() and response.body == b"hello world"


@pytest.mark.parametrize("response", [
    b"HTTP/1.1 200 OK\r\n\r\nhello", b"HTTP/1.0 200 OK\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"])
def test_rule_41_a_response_of_unknown_length_ends_with_the_connection_to_http_1_0(
        start, start_upstream, response):
    def behave(peer, _):
        peer.send(response)
        peer.close()

    proxy = start(simple(start_upstream(behave)))
    with proxy.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") as client:
        got = client.read()
        assert got.version == "HTTP/1.1" and not got.is_chunked()
        assert got.get("Connection") == "close" and got.body == b"hello"


def test_a_chunked_response_loses_its_extensions_and_trailers(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        b"5;a=b\r\nhello\r\n1 ; c=\"d\"\r\n!\r\n000\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n"))
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(2):
            response = client.ask()
            assert response.body == b"hello!" and response.get("Trailer") is None
    assert upstream.n_connections == 1


def test_rule_32_a_chunked_request_loses_its_extensions_and_trailers(start, start_upstream):
    upstream = start_upstream()
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(2):
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                        b"Trailer: X-T\r\n\r\n5;a=b\r\nhello\r\n1;c\r\n!\r\n0\r\nX-T: 1\r\n"
                        b"Transfer-Encoding: x\r\n\r\n")
            assert client.read().status == 200
            assert upstream.last.body == b"hello!" and upstream.last.get("Trailer") is None
            assert upstream.last.get("Transfer-Encoding") == "chunked"


def test_an_http_1_0_response_is_understood(start, start_upstream):
    upstream = start_upstream(answer=answer(version="HTTP/1.0"))
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(2):
            response = client.ask()
            assert response.version == "HTTP/1.1" and response.body == b"ok\n"
    assert upstream.n_connections == 2, "HTTP/1.0 does not keep a connection unless it says so"


# --- connections ---


def test_connections_are_kept_on_both_sides(proxy, upstream):
    with proxy.connect() as client:
        for _ in range(20):
            assert client.ask().status == 200
    assert len(upstream.requests) == 20 and upstream.n_connections == 1
    assert proxy.ask().status == 200
    assert upstream.n_connections == 1, "another client uses the same connection"


def test_rule_57_a_client_that_says_close_is_closed(proxy):
    for value in ("close", "Keep-Alive, Close", "close, x-y"):
        with proxy.connect() as client:
            response = client.ask(fields={"Connection": value})
            assert response.get("Connection") == "close" and client.has_ended()


def test_rule_58_an_http_1_0_client_is_closed_unless_it_says_keep_alive(proxy):
    with proxy.send(b"GET / HTTP/1.0\r\n\r\n") as client:
        assert client.read().get("Connection") == "close" and client.has_ended()
    with proxy.connect() as client:
        for _ in range(2):
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            response = client.read()
            assert response.get("Connection") == "keep-alive" and response.body == b"ok\n"


def test_an_upstream_that_says_close_gets_no_second_request(start, start_upstream):
    upstream = start_upstream(answer=answer(fields=[("Connection", "close")]))
    proxy = start(simple(upstream))
    with proxy.connect() as client:
        for _ in range(3):
            assert client.ask().get("Connection") is None
    assert [request.connection for request in upstream.requests] == [1, 2, 3]


def test_rule_59_pipelined_requests_are_answered_in_order_and_each_is_counted(
        start, start_upstream):
    upstream = start_upstream(
        lambda peer, request: peer.send(answer(body=request.target.encode())))
    proxy = start(simple(upstream, "limit: 3/day\n"))
    with proxy.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
                    b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                    b"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    b"2\r\nde\r\n0\r\n\r\n"
                    b"GET /4 HTTP/1.1\r\nHost: a\r\n\r\n"
                    b"GET /5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                    b"GET /6 HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        answers = [client.read() for _ in range(5)]
        assert [one.status for one in answers] == [200, 200, 200, 429, 429]
        assert [one.body for one in answers[:3]] == [b"/1", b"/2", b"/3"]
        assert [one.get("RateLimit").split(";")[1] for one in answers] == [
            "r=2", "r=1", "r=0", "r=0", "r=0"]
        assert client.has_ended(), "nothing is read after close"
    assert [request.body for request in upstream.requests] == [b"", b"abc", b"de"]


def test_many_pipelined_requests_are_answered(proxy, upstream):
    with proxy.connect() as client:
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" * 500)
        assert [client.read().status for _ in range(500)] == [200] * 500
    assert upstream.n_connections == 1


def test_a_request_may_come_byte_by_byte(proxy, upstream):
    with proxy.connect() as client:
        for byte in b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" \
                    b"3\r\nabc\r\n0\r\n\r\n":
            client.send(bytes([byte]))
        assert client.read().status == 200
    assert upstream.last.body == b"abc"


def test_a_response_may_come_byte_by_byte(start, start_upstream):
    def behave(peer, _):
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":
            peer.send(bytes([byte]))

    assert start(simple(start_upstream(behave))).ask().body == b"abc"


def test_a_client_that_has_ended_its_side_still_gets_its_answer(start, start_upstream):
    def behave(peer, _):
        proxy_client.end()
        peer.send(answer())

    proxy = start(simple(start_upstream(behave)))
    with proxy.connect() as proxy_client:
        assert proxy_client.ask().status == 200
        assert proxy_client.has_ended()


# --- interim responses ---


def without_buffer(upstream):
    return (f'workers: 1\nupstreams: {{api: {{servers: "{upstream.url}", buffer: off}}}}\n'
            "routes: [{upstream: api}]\n")


def test_an_allowed_expectation_reaches_the_upstream_and_its_100_the_client(start, start_upstream):
    def behave(peer, request):
        assert request.get("Expect") == "100-continue"
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.read_body(request)
        peer.send(answer())

    upstream = start_upstream(behave, reads_body=False)
    with start(without_buffer(upstream)).connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    b"Content-Length: 5\r\n\r\n")
        assert client.read().status == 100
        client.send(b"hello")
        assert client.read().status == 200
    assert upstream.last.body == b"hello"


def test_an_expectation_that_the_upstream_refuses_is_answered_at_once(start, start_upstream):
    upstream = start_upstream(answer=answer("417 No"), reads_body=False)
    with start(without_buffer(upstream)).connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    b"Content-Length: 5\r\n\r\n")
        response = client.read()
        assert response.status == 417 and response.get("Connection") == "close"
        assert client.has_ended()


def test_rule_61_a_denied_expectation_is_answered_without_100(start, upstream):
    proxy = start(simple(upstream, "limit: 1/day\n"))
    proxy.ask()
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    b"Content-Length: 5\r\n\r\n") as client:
        response = client.read()
        assert response.status == 429 and response.get("Connection") == "close"
        assert client.has_ended()
    assert len(upstream.requests) == 1


def test_rule_64_an_unknown_expectation_is_417(proxy, upstream):
    assert proxy.ask(fields={"Expect": "tea"}).status == 417
    assert not upstream.requests


def test_rule_63_interim_responses_pass_in_their_order(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer()))
    with start(simple(upstream)).connect() as client:
        hints = client.ask()
        assert hints.status == 103 and hints.get("Link") == "</a>; rel=preload"
        assert client.read().status == 100
        assert client.read().status == 200
        assert client.ask().status == 103


def test_a_large_interim_response_leaves_the_answer_its_room(start, start_upstream):
    large = b"Link: <" + b"a" * 15000 + b">\r\n"
    upstream = start_upstream(answer=b"HTTP/1.1 103 Early Hints\r\n" + large + b"\r\n"
                              b"HTTP/1.1 200 OK\r\n" + large + b"Content-Length: 0\r\n\r\n")
    with start(simple(upstream)).connect() as client:
        assert client.ask().status == 103
        assert client.read().status == 200


@pytest.mark.parametrize("number, status", [(16, 200), (17, 502)])
def test_interim_responses_have_a_maximum(start, start_upstream, number, status):
    upstream = start_upstream(answer=b"HTTP/1.1 102 Processing\r\n\r\n" * number + answer())
    with start(simple(upstream)).connect() as client:
        assert client.ask().status == 102
        for _ in range(15):
            assert client.read().status == 102
        assert client.read().status == status


def test_rule_62_http_1_0_gets_no_interim_response(start, start_upstream):
    upstream = start_upstream(answer=b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer())
    with start(simple(upstream)).send(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\n"
                                      b"Content-Length: 1\r\n\r\nx") as client:
        assert client.read().status == 200
    assert upstream.last.get("Expect") is None


def test_rule_65_a_switch_of_protocols_that_nobody_asked_for_is_502(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"))
    proxy = start(simple(upstream))
    assert proxy.ask(fields=[("Connection", "upgrade"), ("Upgrade", "h2c")]).status == 502
    assert upstream.last.get("Upgrade") is None
