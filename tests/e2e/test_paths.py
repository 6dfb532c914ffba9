"""Paths that cannot be dodged: whatever a server behind takes for a limited path counts as that, or
is a 400. The numbers are those of docs/http.md."""

import itertools
import random
import shutil

import pytest

from harness import message, program, servers
from harness.nginx import Nginx
from harness.upstream import answer

N_RANDOM = 6000
BATCH = 200
WINDOW = "algorithm: fixed_window, align: first, rate: 1000000/day"

LOGIN = "/v1/login"
EXPORT = "/v1/export"  # and all below
ACTION = "/v1/items:all@me"  # with characters that servers read escaped and raw alike

# Each is one way to write a segment, or what stands between two; their products are the spellings.
SLASHES = ["/", "//", "/./", "/%2e/", "/.//", "/%2f", "/%5c", "\\", "/\\", "%2f", "/%252f", "/;a/",
           ";a/", ";a=b;c/", "/x/../", "/x/%2e%2e/", "/x/.%2E/", "/x/..;/", "/x//../", "/%c0%af",
           "/%00/", "/x%2f..%2f", "/../v1/", "/..%2fv1/"]
FIRST = ["v1", "%76%31", "v%31", "%2576%31", "v1;p"]
LAST = ["login", "l%6Fgin", "%6c%6f%67%69%6e", "log%2569n", "log%252569n", "login;a=b", "login;",
        "login;/", "login/.", "login/x/..", "login/..;/login", "login?a=/../x", "login?", "login%00",
        "login%3b", "login/", "login//", "LOGIN", "Log%49n", "login%2f", "login/%2e", "login\\",
        "log%zzin", "login%", "log%u0069n"]


def spellings():
    for slash in SLASHES:
        yield f"/v1{slash}login"
        yield f"{slash if slash.startswith('/') else '/' + slash}v1/login"
    for first in FIRST:
        for last in LAST:
            yield f"/{first}/{last}"
    for colon, at in itertools.product((":", "%3a", "%3A", "%253A"), ("@", "%40", "%2540")):
        yield f"/v1/items{colon}all{at}me"
        yield f"/v1/x/../%69tems{colon}all{at}me;p"


def policy(rest="respond: {status: 200}", limited="respond: {status: 204}", rules=""):
    return f"""
        workers: 1
        max: {{headers: 10}}
        limits: {{few: {{key: global, {WINDOW}}}}}
        routes:
          - {{match: {{path: {LOGIN}/**, ignore_case: true}}, limits: [few], {limited}}}
          - {{match: {{path: {EXPORT}/**, ignore_case: true}}, limits: [few], {limited}}}
          - {{match: {{path: "{ACTION}/**", ignore_case: true}}, limits: [few], {limited}}}
          - {{match: {{path: /**{rules}}}, limits: [], {rest}}}
    """


def request(path, host="a.test"):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")


def ask_all(proxy, paths):
    """The response to each, many at a time on one connection."""
    paths = list(paths)
    client = proxy.connect()
    responses = []
    for start in range(0, len(paths), BATCH):
        batch = paths[start:start + BATCH]
        client.send(b"".join(request(path) for path in batch))
        responses += [client.read() for _ in batch]
    return list(zip(paths, responses))


def is_counted(response):
    return response.get("RateLimit") is not None


def is_limited_path(path):
    return path is not None and path.rstrip("/") in (LOGIN, ACTION) or (
        path or "").startswith(EXPORT + "/") or path == EXPORT


def servers_that_take(path):
    """Names of those that serve it as a limited one."""
    raw = path.split("?")[0]
    return [read.__name__ for read in servers.ALL if is_limited_path(read(raw))]


def test_rule_70_every_spelling_of_a_limited_path_is_counted_or_refused(start):
    proxy = start(policy())
    all_responses = ask_all(proxy, dict.fromkeys(spellings()))
    taken = [(path, response) for path, response in all_responses if servers_that_take(path)]
    for path, response in taken:
        assert response.status == 400 or is_counted(response), (path, servers_that_take(path))
    n_counted = sum(map(is_counted, (response for _, response in taken)))
    assert len(taken) > 120 and n_counted > 40, (len(taken), n_counted)
    assert {response.status for _, response in all_responses} == {200, 204, 400}


# Written out: what is one bucket, and what is not.
ONE_BUCKET = [
    "/v1/login", "//v1/login", "/v1//login", "/v1///login", "/v1/./login", "/./v1/login",
    "/v1/%2e/login", "/v1/l%6Fgin", "/v1/%6c%6f%67%69%6e", "/%76%31/login", "/v1;x/login",
    "/v1/login;a=b", "/v1/login;", "/v1/login;a;b=c", "/v1/login?", "/v1/login?next=/../x",
    "/v1/items:all@me", "/v1/items%3Aall%40me", "/v1/items%3aall@me/", "/V1/ITEMS%3AALL%40ME",
    "/V1/LOGIN", "/v1/LOG%49N", "/%561/login", "/v1/login/", "/v1/login//",
    "/v1/login/../login", "/v1/login/x/../../login", "HTTP://b.test/v1/login",
    "http://b.test:80//v1/login"]
REFUSED = [
    "/x/../v1/login", "/v1/x/../login", "/v1/x/%2e%2e/login", "/v1/.%2E/v1/login",
    "/v1/x/..;/login", "/v1/..;a=b/v1/login", "/v1/.;/login", "/;a/v1/login", "/v1/;/login",
    "/v1/x//../login", "//../v1/login", "/v1%2flogin", "/v1%2Flogin", "/v1%5clogin", "/v1\\login",
    "/v1/x%2f..%2flogin", "/v1/%2e%2e%2fv1/login", "/v1%252flogin", "/v1/log%2569n",
    "/v1/log%252569n", "/v1/%252e/login", "/v1/x/%252e%252e/login", "/v1%255clogin",
    "/v1/items%253Aall@me", "/v1/items:all%2540me",
    "/v1/login%00", "/v1/login%2500", "/v1/login%zz", "/v1/login%", "/v1/log%u0069n",
    "/v1%c0%aflogin", "/v1/%c0%ae/login", "/v1/login#a", "/v1/lo\x01gin", "/v1/log\xe9n",
    "//x/v1/login", "///x/v1/login", "//x:80//v1/login", "http://b.test//x/v1/login",
    "/v1/login%0a", "/v1/log%09in", "/v1/login%7f",
    "http://u@b.test/v1/login", "ftp://b.test/v1/login", "v1/login", "/v1/login/..;/x",
    "/v1/login/.", "/v1/login/x/..", "/v1/login/%2e"]


@pytest.fixture(scope="module", name="counting")
def proxy_that_counts(start_shared):
    return start_shared(policy("respond: {status: 404}"))


@pytest.mark.parametrize("path", ONE_BUCKET)
def test_rule_72_one_path_is_one_bucket(counting, path):
    def left():
        response = counting.ask(path=LOGIN)
        return int(response.get("RateLimit").split(";r=")[1].split(";")[0])

    before = left()
    assert counting.ask(path=path).status == 204
    assert left() == before - 2


@pytest.mark.parametrize("path", REFUSED)
def test_rule_69_what_servers_read_differently_is_400(counting, path):
    response = counting.ask(path=path)
    assert response.status == 400 and not is_counted(response)


def random_path(rng):
    pieces = ["v1", "login", "export", "LOGIN", "l%6fgin", "x", ".", "..", "%2e", "%2E%2e", ".%2e",
              "..;a", ".;", "", "", ";a", "v1;p", "%2f", "%5c", "\\", "%252f", "%252e%252e",
              "%c0%ae%c0%ae", "log%2569n", "login;p", "items:all@me", "items%3aall%40me", "items%253aall@me", "a%2fb", "a%2f..", "%76%31"]
    path = "/".join(rng.choice(pieces) for _ in range(rng.randrange(1, 7)))
    return "/" + path.replace("/x", rng.choice(["%2f", "\\", "/x", "/x"]))


@pytest.mark.parametrize("rules", ["", ", encoded_slash: allow"])
def test_rule_67_no_random_path_leads_a_server_around_a_limit(start, seed, rules):
    """Where encoded slashes are allowed the server is one that does not take them for slashes, or
    would find itself on a route before."""
    rng = random.Random(seed)
    proxy = start(policy(rules=rules))
    paths = [rng.choice(["", "/v1", "/v1/login", "/v1/export"]) + random_path(rng)
             for _ in range(N_RANDOM)]
    for path, response in ask_all(proxy, paths):
        if response.status != 400 and not is_counted(response):
            assert not servers_that_take(path), (path, servers_that_take(path))


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_rule_67_nginx_serves_no_limited_path_that_was_not_counted(start, tmp_path, seed):
    nginx = Nginx(tmp_path / "nginx", f"""
        keepalive_requests 100000;
        location = {LOGIN} {{ return 200 "limited"; }}
        location ^~ {EXPORT}/ {{ return 200 "limited"; }}
        location = {ACTION} {{ return 200 "limited"; }}
        location / {{ return 200 "other"; }}
    """)
    try:
        proxy = start("upstreams: {api: {servers: '%s'}}" % nginx.url +
                      policy("upstream: api", "upstream: api").replace("\n        ", "\n"))
        rng = random.Random(seed)
        paths = [*spellings(), *(random_path(rng) for _ in range(1000))]
        served = [(path, response) for path, response in ask_all(proxy, paths)
                  if response.body == b"limited"]
        assert len(served) > 20
        assert not [path for path, response in served if not is_counted(response)]
    finally:
        nginx.stop()


# --- a route that gives more to one path ---

HEALTHZ = ["/healthz;x", "/healthz;", "/./healthz", "/%2e/healthz", "/h%65althz", "//healthz", "/.//healthz",
           "/healthz%3bx", "/healthz/", "/x/../healthz"]


@pytest.mark.parametrize("limits, is_laxer", [("", True), ("plenty", True), ("one", False)])
def test_rule_78_a_path_that_servers_read_as_another_has_no_laxer_limits(start, start_upstream, limits, is_laxer):
    """Servers whose catch-all handler acts by the query."""
    proxy = start(f"""
        upstreams: {{api: {{servers: "{start_upstream().url}"}}, rest: {{servers: "http://127.0.0.1:1"}}}}
        limits:
          few: {{key: client.ip, rate: 100/day}}
          one: {{key: client.ip, rate: 50/day}}
          plenty: {{key: client.ip, rate: 1000000/day}}
        routes:
          - {{match: {{path: /healthz}}, limits: [{limits}], upstream: api}}
          - {{match: {{path: /**}}, limits: [few], upstream: rest}}
    """)
    assert proxy.ask(path="/healthz?action=export").status == 200
    answers = [proxy.ask(path=path + "?action=export") for path in HEALTHZ]
    assert {answer.status for answer in answers[:5]} == {400 if is_laxer else 200}
    assert {answer.status for answer in answers[5:]} <= ({400, 502} if is_laxer else {400, 502, 200})
    assert b"stricter route as it is written" in answers[0].body or not is_laxer


# --- hosts ---


HOSTS = ["api.test", "API.test", "api.test.", "api.test:80", "api.test:", "ApI.TeSt.:8080"]
BAD_HOSTS = ["api.test..", "api..test", "u@api.test", "api%2etest", "api.test:80:80", "api.test, b",
             "api.test/", "api.test:x", "api.test#", ".api.test", "api.test\\"]


@pytest.fixture(scope="module", name="hosted")
def proxy_that_knows_a_host(start_shared):
    return start_shared("""
        limits: {few: {key: [host, path], algorithm: fixed_window, align: first, rate: 1000000/day}}
        routes:
          - {match: {host: api.test, path: /**}, limits: [few], respond: {status: 204}}
          - {match: {host: "[2001:db8::1]"}, limits: [few], respond: {status: 204}}
          - {respond: {status: 200}}
    """)


def left_of(response):
    return int(response.get("RateLimit").split(";r=")[1].split(";")[0])


@pytest.mark.parametrize("host", HOSTS)
def test_rule_73_every_spelling_of_a_host_is_one_bucket(hosted, host):
    before = left_of(hosted.ask(path="/a", host="api.test"))
    assert left_of(hosted.ask(path="/a", host=host)) == before - 1
    assert left_of(hosted.ask(path=f"http://{host}/a", host="other.test")) == before - 2
    assert left_of(hosted.ask(path=f"HTTPS://{host}/./a", host="api.test")) == before - 3


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_rule_73_what_is_no_host_is_400(hosted, host):
    assert hosted.ask(path="/a", host=host).status == 400


@pytest.mark.parametrize("host, sent", [
    ("STATIC.test", "static.test"), ("static.test.", "static.test"), ("static.test:80", "static.test"),
    ("Static.Test.:", "static.test"), ("STATIC.test.:9", "static.test"),
    ("STATIC.test.:8080", "static.test:8080"), ("A.ports.test:08443", "a.ports.test:8443"),
    ("a.ports.test:8080", "a.ports.test"), ("OTHER.test", "other.test"), ("OTHER.test:9", "other.test:9")])
def test_rule_73_servers_get_the_host_that_was_compared(start, start_upstream, host, sent):
    upstream = start_upstream()
    proxy = start(f"""
        upstreams: {{api: {{servers: '{upstream.url}'}}}}
        limits: {{few: {{key: client.ip, rate: 100/day}}}}
        routes:
          - {{match: {{host: "static.test:8080"}}, limits: [], upstream: api}}
          - {{match: {{host: "*.ports.test:8443"}}, limits: [], upstream: api}}
          - {{limits: [few], upstream: api}}
    """)
    for path, field in (("/a", host), (f"http://{host}/a", "other.test")):
        assert proxy.ask(path=path, host=field).status == 200
        assert upstream.last.get("Host") == sent
        assert upstream.last.get("X-Forwarded-Host") == sent
        assert upstream.last.get("Forwarded") == f'for=127.0.0.1;host="{sent}";proto=http'
    assert {line["host"] for line in proxy.log_lines(2)} == {host}


def test_rule_73_a_host_that_no_route_compares_is_passed_on_as_it_came(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"upstream: {upstream.url}")
    proxy.ask(host="STATIC.test.:80")
    assert upstream.last.get("Host") == upstream.last.get("X-Forwarded-Host") == "STATIC.test.:80"


def test_rule_73_every_notation_of_an_address_is_one_host(hosted):
    before = left_of(hosted.ask(host="[2001:db8::1]"))
    for n, host in enumerate(["[2001:DB8::1]:80", "[2001:db8:0:0:0:0:0:1]", "[2001:0db8::0001]"]):
        assert left_of(hosted.ask(host=host)) == before - 1 - n


# --- one spelling of each byte ---


BYTES = [octet for octet in range(0x21, 0x7f) if chr(octet) not in "#%/;?\\"]


def test_rule_68_a_byte_is_one_bucket_raw_and_escaped(start):
    proxy = start(f"""
        limits: {{by-path: {{key: path, {WINDOW}}}}}
        routes: [{{match: {{path: /**}}, limits: [by-path], respond: {{status: 204}}}}]
    """)
    left = 1000000
    for octet in BYTES:
        spellings_of = [f"/x{chr(octet)}y", f"/x%{octet:02x}y", f"/x%{octet:02X}y"]
        responses = ask_all(proxy, spellings_of)
        assert [left_of(one) for _, one in responses] == [left - 1, left - 2, left - 3], octet
    wide = [chr(code).encode() for code in range(0x80, 0x100)]
    for octets in (b"\x20", b"\x23", b"\x25", b"\x3b", b"\x3f", *wide):
        escapes = "".join(f"%{octet:02x}" for octet in octets)
        responses = ask_all(proxy, [f"/x{escapes}y", f"/x{escapes.upper()}y"])
        assert [left_of(one) for _, one in responses] == [left - 1, left - 2], octets
    for octet in (*range(0x20), 0x7f, *range(0x80, 0x100)):
        assert proxy.ask(path=f"/x%{octet:02x}y").status == 400, octet


def test_rule_68_one_address_in_a_path_is_one_bucket(start):
    proxy = start(f"""
        limits: {{by-path: {{key: path.user, {WINDOW}}}}}
        routes:
          - {{match: {{path: "/users/{{user}}"}}, limits: [by-path], respond: {{status: 204}}}}
    """)
    paths = ["/users/a+b@x.org", "/users/a%2Bb@x.org", "/users/a+b%40x.org", "/users/a%2bb%40x.org"]
    assert [left_of(one) for _, one in ask_all(proxy, paths)] == [999999, 999998, 999997, 999996]
    assert left_of(proxy.ask(path="/users/a%20b@x.org")) == 999999


def test_rule_68_a_pattern_holds_its_wildcards_as_escapes(start):
    proxy = start("""
        routes:
          - {match: {path: "/a/%2A"}, respond: {status: 201}}
          - {match: {path: "/a/%7Bid%7D"}, respond: {status: 202}}
          - {match: {path: "/a/items%3Aexport"}, respond: {status: 203}}
          - {respond: {status: 404}}
    """)
    asked = ask_all(proxy, ["/a/*", "/a/%2a", "/a/x", "/a/{id}", "/a/%7bid%7d", "/a/items:export",
                            "/a/items%3aexport"])
    assert [response.status for _, response in asked] == [201, 201, 404, 202, 202, 203, 203]


# --- the words of a route ---


def test_rule_54_the_upstream_gets_the_bytes_however_the_path_was_matched(start, start_upstream):
    upstream = start_upstream(answer=answer())
    proxy = start(f"""
        limits: {{by-path: {{key: path, algorithm: fixed_window, align: first, rate: 100/day}}}}
        defaults: {{limits: [by-path]}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes:
          - match: {{path: "/files/{{name}}", encoded_slash: allow, ignore_case: true}}
            upstream: api
          - {{match: {{path: /**}}, upstream: api}}
    """)
    for path, left in [("/Files/A%2fB", 99), ("/files//a%2Fb", 98), ("/FILES/%61%2Fb;v=1", 97),
                       ("/files/a%5Cb\\c", 99), ("/files/50%2541", 99), ("/Other//x;y/", 99)]:
        response = proxy.ask(path=path)
        assert (upstream.last.target, left_of(response)) == (path, left)
    for path in ("/other/a%2Fb", "/files/a%2F..%2Fb", "/files/a/b%2Fc", "/50%2541"):
        assert proxy.ask(path=path).status == 400, path
    assert len(upstream.requests) == 6


@pytest.mark.parametrize("path, what", [
    ("/files/a%2Fb", "an encoded slash or backslash"), ("/files/a%5Cb", "an encoded slash or backslash"),
    ("/files/a\\b", "a backslash"), ("/files/50%2541", "an escape of an escape")])
def test_a_path_that_encoded_slash_would_allow_is_refused_with_that_key(start, path, what):
    proxy = start("routes: [{match: {path: /files/*}, respond: {status: 200}}]")
    words = f"the path holds {what}, which only a route with encoded_slash: allow takes"
    response = proxy.ask(path=path)
    assert (response.status, response.json()["detail"]) == (400, words)
    assert proxy.log_lines(1)[0]["fault"] == words
    explained = program.command("explain", str(proxy.folder / "policy.yaml"), "GET", path)
    assert f"answer     400: {words}" in explained.stdout


def test_rule_72_case_counts_unless_the_route_says_otherwise(start):
    proxy = start("""
        limits: {few: {key: path, algorithm: fixed_window, align: first, rate: 100/day}}
        routes:
          - {match: {path: /Any, ignore_case: true}, limits: [few], respond: {status: 204}}
          - {match: {path: /Exact}, limits: [few], respond: {status: 204}}
          - {respond: {status: 200}}
    """)
    assert [left_of(proxy.ask(path=path)) for path in ("/Any", "/any", "/ANY", "/%41n%79")] == [
        99, 98, 97, 96]
    assert [proxy.ask(path=path).status for path in ("/Exact", "/exact", "/EXACT", "/Exact/")] == [
        204, 200, 200, 200]


def test_rule_74_an_invalid_escape_is_refused_in_a_path_and_kept_in_a_query(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"upstream: {upstream.url}\n")
    for path in ("/%", "/a%2", "/%zz", "/%%41"):
        assert proxy.ask(path=path).status == 400
    assert proxy.ask(path="/?%zz=%").status == 200
    assert [one.target for one in upstream.requests] == ["/?%zz=%"]


UUID = "0b0c0d0e-0000-4000-8000-00000000abcd"


def test_a_number_or_a_uuid_in_a_path_has_one_spelling_and_leads_past_no_limit(start):
    proxy = start("""
        limits: {object: {key: path.id, rate: 2/day, algorithm: fixed_window, align: first}}
        routes:
          - {match: {path: "/users/{id:int}/otp"}, limits: [object], respond: {status: 200}}
          - {match: {path: "/docs/{id:uuid}"}, limits: [object], respond: {status: 200}}
          - {match: {path: "/any/{id:uuid}", ignore_case: true}, limits: [object], respond: {status: 200}}
          - {respond: {status: 204}}
        """)

    def statuses(*paths):
        return [proxy.ask("GET", path).status for path in paths]
    other = UUID.replace("a", "b")
    assert statuses(*["/users/5/otp"] * 3, "/users/%35/otp") == [200, 200, 429, 429]
    assert statuses(*(f"/users/{one}/otp" for one in (
        "05", "0000005", "+5", "-5", "5.0", "%205", "5%20", "5x", "%D9%A5", "%EF%BC%95", "%235", "%23A", "%C2%A05x"))) == [400] * 13
    assert statuses("/users/6/otp", "/users/me/otp", "/users//otp") == [200, 204, 204]
    assert statuses(*["/docs/" + UUID] * 3) == [200, 200, 429]
    assert statuses(*("/docs/" + one for one in (
        UUID.upper(), UUID[:-1] + "D", UUID.replace("-", ""), f"%7B{UUID}%7D", "urn:uuid:" + UUID, "uuid:urn:" + UUID,
        UUID + "uuid:", UUID.replace("-", "urn:"), f"x{UUID}x", f"z{UUID}z", "0-0-0-0-1"))) == [400] * 11
    assert statuses("/docs/latest", "/docs/5") == [204, 204]
    assert statuses("/any/" + other, "/ANY/" + other.upper(), "/any/" + other) == [200, 200, 429]
