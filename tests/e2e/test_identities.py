"""One identity is one bucket: whatever value of a header, cookie or parameter a server behind reads, a
limit by that value is charged for it, or the request is refused."""

import base64
import http.cookies
import random
import re
import urllib.parse

import pytest

from harness.wait import until

RATE = "algorithm: fixed_window, align: first, rate: 1000000/day"
POLICY = f"""
    limits:
      token: {{key: header.authorization, {RATE}}}
      header: {{key: header.x-api-key, {RATE}}}
      each: {{key: header.x-api-key, duplicates: each, {RATE}}}
      binary: {{key: header.x-token-bin, {RATE}}}
      each-binary: {{key: header.x-token-bin, duplicates: each, {RATE}}}
      cookie: {{key: cookie.sid, {RATE}}}
      strict: {{key: cookie.sid, duplicates: refuse, {RATE}}}
      named: {{key: cookie.user_id, {RATE}}}
      query: {{key: query.k, {RATE}}}
      named-query: {{key: query.user_id, {RATE}}}
      two: {{key: [cookie.sid, cookie.user_id], {RATE}}}
      or-client: {{key: cookie.sid | client.ip, {RATE}}}
      demanded: {{key: cookie.sid, missing: deny, {RATE}}}
    routes:
      - {{match: {{path: /token}}, limits: [token], respond: {{status: 204}}}}
      - {{match: {{path: /header}}, limits: [header], respond: {{status: 204}}}}
      - {{match: {{path: /each}}, limits: [each], respond: {{status: 204}}}}
      - {{match: {{path: /binary}}, limits: [binary], respond: {{status: 204}}}}
      - {{match: {{path: /each-binary}}, limits: [each-binary], respond: {{status: 204}}}}
      - {{match: {{path: /cookie}}, limits: [cookie], respond: {{status: 204}}}}
      - {{match: {{path: /strict}}, limits: [strict], respond: {{status: 204}}}}
      - {{match: {{path: /named}}, limits: [named], respond: {{status: 204}}}}
      - {{match: {{path: /query}}, limits: [query], respond: {{status: 204}}}}
      - {{match: {{path: /named-query}}, limits: [named-query], respond: {{status: 204}}}}
      - {{match: {{path: /two}}, limits: [two], respond: {{status: 204}}}}
      - {{match: {{path: /or-client}}, limits: [or-client], respond: {{status: 204}}}}
      - {{match: {{path: /demanded}}, limits: [demanded], respond: {{status: 204}}}}
"""


@pytest.fixture(scope="module", name="proxy")
def proxy_with_a_limit_for_each_kind_of_value(start_shared):
    return start_shared(POLICY)


def left(response):
    """What the field says is left of each limit."""
    found = re.findall(r'"([\w-]+)";r=(\d+)', response.get("RateLimit") or "")
    assert len(dict(found)) == len(found), "a limit is told twice"
    return {name: int(number) for name, number in found}


class Buckets:
    """What was charged where: asks with the plain spelling before and after."""

    def __init__(self, proxy, path, plain):
        self.proxy, self.path, self.plain = proxy, path, plain

    def ask(self, *fields, query=""):
        return self.proxy.ask("GET", self.path + query, fields)

    def left(self):
        fields, query = self.plain
        response = self.ask(*fields, query=query)
        assert response.status == 204
        return next(iter(left(response).values()))

    def is_charged(self, *fields, query=""):
        """None: refused."""
        before = self.left()
        response = self.ask(*fields, query=query)
        if response.status == 400:
            return None
        assert response.status == 204
        return before - self.left() == 2


@pytest.mark.parametrize("value", [
    "bearer tok", "Bearer  tok", "BEARER tok", "bEaReR\ttok", "Bearer \t tok", "Bearer tok\xa0",
    "Bearer\x85tok", "bearer\xa0tok", "Token tok", "Any tok", "tok", 'Token token="tok"'])
def test_the_scheme_and_the_space_behind_it_have_many_spellings_and_one_bucket(proxy, value):
    buckets = Buckets(proxy, "/token", ([("Authorization", "Bearer tok")], ""))
    assert buckets.is_charged(("Authorization", value))
    assert not buckets.is_charged(("Authorization", "Bearer TOK"))


@pytest.mark.parametrize("value", [
    "Bearer tok x", "Bearer tok,x", "Bearer tok;x", 'Bearer "tok"', 'Token token="tok", n="1"', "0Bearer tok", "toBearer k"])
def test_credentials_that_servers_part_otherwise_are_refused(proxy, value):
    assert proxy.ask("GET", "/token", [("Authorization", value)]).status == 400


TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
SESSION = ".eJyrVipKzUlNLlGyUkoqLUlVqgUANbQF2A.ZwAAAA.kYNjRMfPL9a1ccVDs5F3Ry6wD2E"
SPELLINGS_OF_A_SIGNATURE = [lambda text: text[:-5] + "!!!!" + text[-5:], lambda text: text + "~~~~",
                            lambda text: text + "==", lambda text: text[:-1] + chr(ord(text[-1]) + 1),
                            lambda text: text[:-9] + ":" + text[-9:]]


def sent(path, value):
    """The fields and the query in which @value is the identity at @path."""
    fields = {"/token": [("Authorization", f"Bearer {value}")], "/header": [("X-Api-Key", value)],
              "/cookie": [("Cookie", f"sid={value}")]}
    return fields.get(path, []), "?k=" + urllib.parse.quote(value) if path == "/query" else ""


@pytest.mark.parametrize("path", ["/token", "/header", "/cookie", "/query"])
@pytest.mark.parametrize("plain", [TOKEN, SESSION], ids=["jwt", "session"])
def test_every_spelling_of_a_signature_is_one_bucket(proxy, path, plain):
    buckets = Buckets(proxy, path, sent(path, plain))
    for spell_it in SPELLINGS_OF_A_SIGNATURE:
        fields, query = sent(path, spell_it(plain))
        assert buckets.is_charged(*fields, query=query), fields or query
    fields, query = sent(path, plain[:-2] + "zQ")
    assert buckets.is_charged(*fields, query=query) is False
    fields, query = sent(path, plain.replace(".ey", ".fy").replace(".Zw", ".Yw"))
    assert buckets.is_charged(*fields, query=query) is False


@pytest.mark.parametrize("path", ["/token", "/header", "/cookie", "/query"])
@pytest.mark.parametrize("behind", ["=AAAA", " x", ", x"])
def test_a_signature_whose_end_servers_disagree_on_is_refused(proxy, path, behind):
    fields, query = sent(path, TOKEN + behind)
    assert proxy.ask("GET", path + query, fields).status == 400


def wire(text):
    """The text in UTF-8, as the client takes fields."""
    return text.encode().decode("latin-1")


# They differ in bytes of letters that are blanks of Latin-1.
@pytest.mark.parametrize("path", ["/token", "/header", "/cookie", "/query"])
@pytest.mark.parametrize("one, other", [("Nicol\u00e0", "Nicol\u00c5"), ("\u738b\u5145", "\u738b\u5805"),
                                        ("\uae40\uc745", "\uae40\uc760")])
def test_names_that_differ_in_their_last_letter_have_a_bucket_each(proxy, path, one, other):
    spell = {"/query": str, "/cookie": urllib.parse.quote}.get(path, wire)  # Go drops a cookie with raw letters
    one, other = spell(one), spell(other)
    buckets = Buckets(proxy, path, sent(path, one))
    fields, query = sent(path, other)
    assert buckets.is_charged(*fields, query=query) is False


def test_credentials_without_a_scheme_keep_their_last_letter(proxy):
    buckets = Buckets(proxy, "/token", ([("Authorization", wire("\u738b\u5145"))], ""))
    assert buckets.is_charged(("Authorization", wire("\u738b\u5805"))) is False
    assert buckets.is_charged(("Authorization", wire("Any \u738b\u5145")))
    assert buckets.is_charged(("Authorization", wire("\u738b\u5145") + "\x85\xa0"))
    assert buckets.is_charged(("Authorization", wire("Any \u738b\u5145") + "\x85x")) is None


def test_a_header_of_differing_lines_is_refused_and_equal_lines_are_one(proxy):
    buckets = Buckets(proxy, "/header", ([("X-Api-Key", "real")], ""))
    assert buckets.is_charged(("X-Api-Key", "real"), ("x-api-key", "real"))
    assert buckets.is_charged(("X-Api-Key", "\x85real\xa0"))
    for other in ("junk", "", "Real"):
        assert buckets.is_charged(("X-Api-Key", other), ("X-Api-Key", "real")) is None
        assert buckets.is_charged(("X-Api-Key", "real"), ("X-Api-Key", other)) is None


def test_with_each_every_line_of_a_header_is_charged_up_to_four(proxy):
    buckets = Buckets(proxy, "/each", ([("X-Api-Key", "real")], ""))
    lines = [("X-Api-Key", value) for value in ("a", "b", "real", "c")]
    assert buckets.is_charged(*lines)
    assert buckets.is_charged(*lines, *lines)
    assert buckets.is_charged(*lines, ("X-Api-Key", "d")) is None


@pytest.mark.parametrize("value", ["cmVhbA==", ",cmVhbA", "cmVhbA,", " , cmVhbA ,\t,", "cmVhbA==,cmVhbA", "cmVhbA, cmVhbA=="])
def test_a_binary_field_counts_by_the_members_of_its_list(proxy, value):
    """As servers of gRPC get them: docs/http2.md."""
    buckets = Buckets(proxy, "/binary", ([("X-Token-Bin", "cmVhbA")], ""))
    assert buckets.is_charged(("X-Token-Bin", value))
    assert buckets.is_charged(("X-Token-Bin", value), ("x-token-bin", "cmVhbA"))


def test_a_binary_field_of_differing_members_is_refused_or_each_is_charged(proxy):
    buckets = Buckets(proxy, "/binary", ([("X-Token-Bin", "cmVhbA")], ""))
    for other in ("cmVhbB", "cmVhbA=", "cmVhbA===", "CmVhbA"):
        assert not buckets.is_charged(("X-Token-Bin", other))
        assert buckets.is_charged(("X-Token-Bin", f"cmVhbA,{other}")) is None
    each = Buckets(proxy, "/each-binary", ([("X-Token-Bin", "cmVhbA")], ""))
    assert each.is_charged(("X-Token-Bin", "anVuaw, cmVhbA=="))
    assert each.is_charged(("X-Token-Bin", "YQ,Yg,Yw,YQ,ZA,ZQ")) is None
    assert proxy.ask("GET", "/binary", [("X-Token-Bin", ",")]).status == \
        proxy.ask("GET", "/binary", [("X-Token-Bin", "")]).status


# As some server reads "re/al:1" from it.
COOKIES = [
    "sid=junk; sid=re/al:1", "sid=re/al:1; sid=junk", "a=b;sid=re/al:1", "a=b ;\tsid = re/al:1 ;c",
    'sid="re/al:1"', r'sid="re\/al\:1"', r'sid="re\057al\0721"', r'sid="\162e/al:1"',
    "sid=re%2Fal%3a1", "sid=%72e/al:1", 'sid="re%2Fal:1"', "sid=junk; sid=%72e/al:1",
    "a=b sid=re/al:1", "a=b, sid=re/al:1", "sid=re/al:1 a=b", "sid=re/al:1, a=b",
    'a="x; sid=re/al:1', '%73id=re/al:1', "sid=junk;sid=junk;sid=re/al:1", "sid=; sid=re/al:1",
    "sid=re/al:1\xa0", "\xa0sid=re/al:1", 'sid="re/al:1x',
]

# Some servers find no sid in them.
DOUBTFUL_COOKIES = [
    "a=b ;\tsid = re/al:1 ;c", r'sid="re\/al\:1"', r'sid="re\057al\0721"', r'sid="\162e/al:1"', "a=b sid=re/al:1",
    "a=b, sid=re/al:1", "%73id=re/al:1", "sid=; sid=re/al:1", "sid=re/al:1\xa0", "\xa0sid=re/al:1", 'sid="re/al:1x',
]


@pytest.mark.parametrize("path", ["/cookie", "/or-client", "/demanded"])
@pytest.mark.parametrize("line", COOKIES)
def test_a_cookie_is_charged_to_what_a_server_may_read(proxy, path, line):
    buckets = Buckets(proxy, path, ([("Cookie", "sid=re/al:1")], ""))
    if path == "/demanded" and line in DOUBTFUL_COOKIES:
        assert proxy.ask("GET", path, [("Cookie", line)]).status == 403
    else:
        assert buckets.is_charged(("Cookie", line))


def test_an_encoded_word_is_refused_where_the_policy_reads_it(proxy):
    word = "=?utf-8?q?re/al:1?="
    assert proxy.ask("GET", "/cookie", [("Cookie", f"other={word}; sid=x"), ("X-Other", word)]).status == 204


SESSION = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("rest", ["&x", "%26x", "%3Bx&y=z", "==&x"])
def test_a_session_with_more_members_is_charged_to_it(proxy, rest):
    """Perl makes a list of the value."""
    session = SESSION + "=" * rest.count("==") * 2
    buckets = Buckets(proxy, "/cookie", ([("Cookie", f"sid={session}")], ""))
    assert buckets.is_charged(("Cookie", f"sid={SESSION}{rest}"))


@pytest.mark.parametrize("first", ["v1", f"id={SESSION}"])
def test_what_many_clients_begin_with_is_no_identity(proxy, first):
    buckets = Buckets(proxy, "/cookie", ([("Cookie", f"sid={first}&alice")], ""))
    assert buckets.is_charged(("Cookie", f"sid={first}&bob")) is False


@pytest.mark.parametrize("line", ["sid=other", "asid=re/al:1", "sid_=re/al:1", "a=sid=re/al:1",
                                  "SID=re/al:1", "sid=re/al:1x", "sid=re/al:1&x"])
def test_another_cookie_is_not_charged_to_it(proxy, line):
    buckets = Buckets(proxy, "/cookie", ([("Cookie", "sid=re/al:1")], ""))
    assert buckets.is_charged(("Cookie", line)) is False


def test_cookies_in_several_lines_count_like_those_in_one(proxy):
    buckets = Buckets(proxy, "/cookie", ([("Cookie", "sid=real")], ""))
    assert buckets.is_charged(("Cookie", "sid=a"), ("Cookie", "x=y; sid=real"))
    assert buckets.is_charged(("Cookie", "sid=a; sid=b; sid=c; sid=real"))
    assert buckets.is_charged(("Cookie", "sid=a; sid=b"), ("Cookie", "sid=c; sid=d; sid=real")) is None


def test_a_limit_by_the_whole_field_refuses_a_second_line_of_cookies(start):
    proxy = start("""
        limits:
          one-line: {key: header.cookie, rate: 1000000/s, missing: skip}
          sid: {key: cookie.sid, rate: 9/day}
        routes: [{limits: [one-line, sid], respond: {status: 204}}]
        """)
    assert proxy.ask().status == 204
    assert proxy.ask(fields=[("Cookie", r'sid="\141,b"; x=1')]).status == 204
    assert proxy.ask(fields=[("Cookie", r'sid="\141'), ("Cookie", 'b"')]).status == 400


@pytest.mark.parametrize("line", ['sid=j:"real"', "sid=j:%22real%22", 'sid="j:1"'])
def test_a_cookie_that_express_reads_as_json_is_refused(proxy, line):
    assert proxy.ask("GET", "/cookie", [("Cookie", line)]).status == 400


def test_duplicates_refuse_refuses_cookies_that_differ(proxy):
    def status(line):
        return proxy.ask("GET", "/strict", [("Cookie", line)]).status
    assert status("sid=a; sid=a; other=b") == 204
    assert status("sid=a; sid=b") == 400


@pytest.mark.parametrize("path, field", [("/named", "Cookie"), ("/named-query", None)])
@pytest.mark.parametrize("name", ["user.id", "user_id", "user[id", "%75ser_id", "user%2eid"])
def test_names_are_folded_as_php_does(proxy, path, field, name):
    plain = ([(field, "user_id=real")], "") if field else ([], "?user_id=real")
    buckets = Buckets(proxy, path, plain)
    if field:
        assert buckets.is_charged((field, f"{name}=real"))
    else:  # others find no user_id in it
        assert buckets.is_charged(query=f"?{name}=real") is (True if name in ("user_id", "%75ser_id") else None)


@pytest.mark.parametrize("query", [
    "?k=real&k=real", "?k=re%61l", "?%6b=real", "?a=b;k=real", "?x&k=real",
    "?k=real%20", "?k=+real", "?k=real%09%0A", "?k=%C2%A0real", "?k=real%E2%80%8B", "?k=%EF%BB%BFreal", "?k=real%00"])
def test_a_parameter_is_charged_to_what_a_server_may_read(proxy, query):
    assert Buckets(proxy, "/query", ([], "?k=real")).is_charged(query=query)


@pytest.mark.parametrize("query", [
    "?k=junk&k=real", "?k=real&k=junk", "?k=&k=real", "?k&k=real", "?k=junk;k=real", "?k=real;x",
    "?%6b=junk&k=real", "?k=re%61l%zz", "?k=junk&+k=real", "?+k=real", "?k%00x=real", "?[k]=real", "?k]=real",
    "?]k=real", "?[[k=real", "?%5B%5Dk]]=real",
    "?k=real%zz", "?k=%", "?k=]=1", "?k=x%5D=1", "?k=real&k=]=", "?" + 999 * "&" + "k=real", "?" + 999 * "a;" + "k=real"])
def test_parameters_that_differ_are_refused(proxy, query):
    assert proxy.ask("GET", "/query" + query).status == 400


@pytest.mark.parametrize("query", ["?k=a+b", "?k=a%20b"])
def test_a_space_in_a_parameter_has_two_spellings(proxy, query):
    assert Buckets(proxy, "/query", ([], "?k=a%20b")).is_charged(query=query)


def test_a_key_of_two_cookies_is_charged_for_each_pair(proxy):
    buckets = Buckets(proxy, "/two", ([("Cookie", "sid=a; user_id=b")], ""))
    assert buckets.is_charged(("Cookie", "sid=x; sid=a; user_id=y; user_id=b"))
    assert buckets.is_charged(("Cookie", "sid=x; sid=a; sid=z; user_id=y; user_id=b")) is None


def test_an_empty_cookie_beside_another_counts_as_missing_too(proxy):
    buckets = Buckets(proxy, "/or-client", ([], ""))  # by client.ip
    assert buckets.is_charged(("Cookie", "sid=; sid=junk"))
    assert buckets.is_charged(("Cookie", "sid=junk")) is False
    assert proxy.ask("GET", "/demanded", [("Cookie", "sid=; sid=a")]).status == 403


@pytest.mark.parametrize("line", [r"sid=x\y", 'sid=a"b', "sid=\xe9", 999 * "x=;" + " sid=a", "sid =a", "x=1, sid=a"])
def test_a_cookie_that_some_servers_drop_counts_as_missing_too(proxy, line):
    """Else each such cookie would be a new bucket of anonymous requests."""
    assert Buckets(proxy, "/or-client", ([], "")).is_charged(("Cookie", line))
    assert proxy.ask("GET", "/demanded", [("Cookie", line)]).status == 403


# --- random spellings, and servers that read as others do ---

def python_reads(line):
    """Django, Starlette: split at ";", names and values stripped, quotes as http.cookies has them."""
    cookies = {}
    for chunk in line.split(";"):
        key, _, value = chunk.partition("=")
        if _:
            cookies[key.strip()] = http.cookies._unquote(value.strip())
    return cookies.get("sid")


def php_reads(line):
    for chunk in line.split(";"):
        key, equals, value = chunk.lstrip(" \t").partition("=")
        if equals and key == "sid":
            return urllib.parse.unquote(value, "latin-1")
    return None


def npm_reads(line):
    for chunk in line.split(";"):
        key, equals, value = chunk.partition("=")
        if equals and key.strip(" \t") == "sid":
            value = value.strip(" \t")
            value = value[1:-1] if value.startswith('"') else value
            if re.search(r"%(?![0-9A-Fa-f]{2})", value):
                return value
            return urllib.parse.unquote(value, "latin-1")
    return None


def go_reads(line):
    for chunk in line.split(";"):
        key, equals, value = chunk.strip(" \t").partition("=")
        if equals and key == "sid":
            value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
            if not re.search(r'[";\\]', value):
                return value
    return None


def python_decodes(signature):
    """As PyJWT and itsdangerous do."""
    octets = signature.encode("latin-1")
    try:
        return base64.urlsafe_b64decode(octets + b"=" * (-len(octets) % 4))
    except ValueError:
        return None


def php_decodes(signature):
    """As base64_decode does: what is no letter is skipped, the padding too."""
    letters = re.sub("[^A-Za-z0-9+/]", "", signature.replace("-", "+").replace("_", "/"))
    return base64.b64decode(letters[:len(letters) - (len(letters) % 4 == 1)] + "==")


def test_no_random_spelling_of_a_signature_leads_a_server_around_the_limit(proxy, seed):
    random_ = random.Random(seed)
    buckets = Buckets(proxy, "/cookie", sent("/cookie", TOKEN))
    text, dot, signature = TOKEN.rpartition(".")
    n_read = 0
    for _ in range(400):
        letters = list(signature)
        for _ in range(random_.randrange(1, 4)):
            at = random_.choice([len(letters), len(letters) - 1, random_.randrange(len(letters))])
            letters[at:at + random_.randrange(2)] = random_.choice("=~!-+_/klmn# ")
        spelling = "".join(letters)
        readers = [decode.__name__ for decode in (python_decodes, php_decodes)
                   if decode(spelling) == python_decodes(signature)]
        if readers:
            n_read += 1
            assert buckets.is_charged(("Cookie", f"sid={text}{dot}{spelling}")) in (True, None), (
                spelling, readers)
    assert n_read > 30


def spell(random_, value):
    """@value, with escapes of one kind or another, as some server undoes them."""
    way = random_.randrange(5)
    if way == 0:
        return value
    if way == 1:
        return "".join(random_.choice([c, f"%{ord(c):02x}", f"%{ord(c):02X}"]) for c in value)
    if way == 2:
        octal = [random_.choice([c, f"\\{ord(c):03o}"] + ([f"\\{c}"] if not c.isdigit() else []))
                 for c in value]
        return '"' + "".join(octal) + '"'
    if way == 3:
        return '"' + spell(random_, value).strip('"') + '"'
    return "".join(random_.choice([c, f"%25{ord(c):02x}"]) for c in value)


def test_no_random_spelling_of_a_cookie_leads_a_server_around_the_limit(proxy, seed):
    random_ = random.Random(seed)
    buckets = Buckets(proxy, "/cookie", ([("Cookie", "sid=real")], ""))
    n_read = 0
    for _ in range(400):
        pairs = [random_.choice(["sid", "sid ", " sid", "sid", "x"]) + "=" +
                 random_.choice(["", " "]) + spell(random_, random_.choice(["real", "junk"]))
                 for _ in range(random_.randrange(1, 4))]
        line = random_.choice(["; ", ";", " ; "]).join(pairs)
        readers = [read.__name__ for read in (python_reads, php_reads, npm_reads, go_reads)
                   if read(line) == "real"]
        if readers:
            n_read += 1
            assert buckets.is_charged(("Cookie", line)) in (True, None), (line, readers)
    assert n_read > 50


# --- what is told ---

def test_a_denial_by_one_of_two_cookies_is_told_once(start):
    proxy = start("""
        workers: 1
        limits: {few: {key: cookie.sid, rate: 2/day}}
        routes: [{limits: [few], respond: {status: 204}}]
    """)
    for expected in (1, 0):
        response = proxy.ask(fields=[("Cookie", "sid=a")])
        assert left(response) == {"few": expected}
    response = proxy.ask(fields=[("Cookie", "sid=b; sid=a")])
    assert response.status == 429 and left(response) == {"few": 0}
    assert response.body.count(b'"few"') == 1
    assert left(proxy.ask(fields=[("Cookie", "sid=b")])) == {"few": 1}, "a denied request takes nothing"
    response = proxy.ask(fields=[("Cookie", "sid=c; sid=b")])
    assert response.status == 204 and left(response) == {"few": 0}
    lines = proxy.log_lines(5)
    assert [line["verdict"] for line in lines] == ["allowed", "allowed", "denied", "allowed", "allowed"]
    assert lines[2]["key"] != "" and lines[2]["limit"] == "few"


def test_what_two_cookies_took_is_given_back_to_both(start, start_upstream):
    upstream = start_upstream(lambda peer, request: peer.send(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"))
    proxy = start(f"""
        upstreams: {{u: {{servers: ["{upstream.url}"]}}}}
        limits: {{few: {{key: cookie.sid, rate: 5/day, refund_on: [503]}}}}
        routes: [{{limits: [few], upstream: u}}]
    """)
    assert left(proxy.ask(fields=[("Cookie", "sid=a; sid=b")])) == {"few": 4}
    for line in ("sid=a", "sid=b"):
        until(lambda line=line: left(proxy.ask(fields=[("Cookie", line)])) == {"few": 4},
              "the charges to be given back")


def test_two_cookies_are_one_decision_in_redis(start, start_redis):
    redis = start_redis()
    proxy = start(f"""
        store: {{redis: "{redis.url}", deadline: 2s, on_failure: deny}}
        limits:
          few: {{key: cookie.sid, rate: 2/day}}
          slots: {{key: cookie.sid, algorithm: concurrency, rate: 4}}
        routes: [{{limits: [few, slots], respond: {{status: 204}}}}]
    """)
    until(lambda: proxy.ask(fields=[("Cookie", "sid=warm")]).status == 204, "the link to Redis")
    assert left(proxy.ask(fields=[("Cookie", "sid=a; sid=b")]))["few"] == 1
    assert left(proxy.ask(fields=[("Cookie", "sid=a")]))["few"] == 0
    response = proxy.ask(fields=[("Cookie", "sid=a; sid=b")])
    assert response.status == 429
    assert left(proxy.ask(fields=[("Cookie", "sid=b")]))["few"] == 0
