"""The limited requests, some fifty, and the policies that limit them."""

import dataclasses
import json
import pathlib
import re

from urllib.parse import quote

HANDLERS = json.loads((pathlib.Path(__file__).resolve().parent / "handlers.json").read_text("utf-8"))
STANDS_RAW = "".join(chr(byte) for byte in range(0x21, 0x7f) if chr(byte) not in "#%/;?\\") + "/"
KEYED = ("header", "cookie", "query", "token", "plan")
BY_FIELD = {"dry": ", header: {x-dry-run: false}"}  # their routes have those without the field
MANY = 100000
HEX = set("0123456789abcdefABCDEF")


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A request as it is written. Text is Latin-1: one character a byte. `rules` made it."""

    number: int  # of the limited request
    method: str
    target: str  # the path
    query: str | None = None
    fields: tuple = ()  # (name, what stands behind the colon)
    authority: str = ""  # of the absolute form, with its scheme
    version: str = "HTTP/1.1"
    body: str | None = None
    tail: str = ""  # what stands behind the head, as it is
    rules: tuple = ()

    def edit(self, rule, **changes):
        """A changed copy. Made millions of times, and dataclasses.replace() takes five times as long."""
        assert changes.keys() <= self.__dict__.keys(), changes
        edited = object.__new__(Spelling)
        edited.__dict__.update(self.__dict__, rules=(*self.rules, rule), **changes)
        return edited

    def raw(self):
        target = self.authority + self.target + ("" if self.query is None else "?" + self.query)
        lines = [f"{self.method} {target} {self.version}"]
        lines += [f"{name}:{value}" for name, value in self.fields]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n" + (self.body or "") + self.tail).encode("latin-1")


@dataclasses.dataclass(frozen=True)
class Limited:
    """A request that is limited. Its bucket is its route's, or that of `identity` in its route's."""

    number: int
    handler: str
    kind: str  # path, name, header, cookie, query, token or plan
    method: str
    target: str
    query: str | None = None
    fields: tuple = ()
    identity: str | None = None

    def plain(self):
        return Spelling(self.number, self.method, self.target, self.query, (("Host", " a.test"), *self.fields))

    def is_reached_by(self, reading):
        """Whether @reading, what a server read of a request, is this handler with this identity."""
        if reading is None or reading["handler"] != self.handler:
            return False
        return self.kind == "path" or reading[self.kind] == self.identity


def units(text):
    """(unit, byte): @text in escapes and single characters."""
    at = 0
    while at < len(text):
        is_escape = text[at] == "%" and len(text) >= at + 3 and set(text[at + 1:at + 3]) <= HEX
        unit = text[at:at + 3] if is_escape else text[at]
        yield unit, int(unit[1:], 16) if is_escape else ord(unit)
        at += len(unit)


def _all():
    static = [one for one in HANDLERS if one["name"] not in KEYED]
    for one in static:
        yield one["name"], "path", one["method"], quote(one["path"], safe=STANDS_RAW), {}
    yield "report", "path", "GET", "/v1/report", {}
    yield "files", "path", "GET", "/f/a/b.txt", {}
    for name in ("ann", "a+b@x.org", "jürgen", "O'Neil"):
        yield "user", "name", "GET", "/u/" + quote(name, safe=STANDS_RAW), {"identity": name}
    for value in ("real", "a b", "x/y+z=="):
        yield "header", "header", "GET", "/h", {
            "fields": (("X-Api-Key", " " + value),), "identity": value}
    for value in ("real", "a+b@x.org", "YWJj/ZA=="):
        yield "cookie", "cookie", "GET", "/c", {
            "fields": (("Cookie", " sid=" + value),), "identity": value}
    for value in ("real", "a b", "jürgen", "a+b@x.org"):
        yield "query", "query", "GET", "/q", {"query": "k=" + quote(value, safe=""), "identity": value}
    for value in ("real", "eyJh.bGci-_"):
        yield "token", "token", "GET", "/t", {
            "fields": (("Authorization", " Bearer " + value),), "identity": value}
    yield "plan", "plan", "GET", "/p", {"fields": (("X-Plan", " free"),), "identity": "free"}


LIMITED = tuple(Limited(number, *parts, **rest) for number, (*parts, rest) in enumerate(_all()))


# --- policies ---

ROUTE = "  - {{name: {name}, match: {{path: {path}{rest}}}, limits: [{limits}], upstream: api{cost}}}"
WINDOW = "algorithm: fixed_window, align: first, rate: "
KEYS = {"header": "header.x-api-key", "cookie": "cookie.sid", "query": "query.k",
        "token": "header.authorization"}
REST = "  - {name: rest, limits: [many], upstream: api}"
LENIENT_REST = "  - {name: rest, match: {path: /**, encoded_slash: allow}, limits: [many], upstream: api}"
PRIMING = "PUT"  # takes all that a key has; it reaches no handler of those


def _pattern(path, is_careful):
    """The path as a pattern: a star of its own is escaped."""
    pattern = quote(path, safe=STANDS_RAW).replace("*", "%2A").replace("{", "%7B").replace("}", "%7D")
    if is_careful and path != "/":
        pattern = re.sub(r"/$", "", pattern) + "/**"
    return json.dumps(pattern.replace("$", "$$"))


def _routes(is_careful):
    ignore = ", ignore_case: true" if is_careful else ""
    for one in HANDLERS:
        name = one["name"]
        if name in KEYED:
            continue
        method = f", method: {one['method']}" if one["method"] != "GET" or name == "mixed" else ""
        method += BY_FIELD.get(name, "")
        yield ROUTE.format(name=name, path=_pattern(one["path"], is_careful), rest=method + ignore,
                           limits="once", cost="")
    yield ROUTE.format(name="report", path=_pattern("/v1/report", is_careful), rest=ignore, limits="report",
                       cost="")
    if is_careful:
        yield ROUTE.format(name="report-as", path="/v1/report.*/**", rest=ignore, limits="report", cost="")
    yield ROUTE.format(name="files", path="/f/**", rest=ignore, limits="once", cost="")
    cost = f", cost: {{{PRIMING}: {MANY}, default: 1}}"
    rest = "/**" if is_careful else ""
    yield ROUTE.format(name="user", path='"/u/{name}%s"' % rest, rest=ignore, limits="name", cost=cost)
    for name in KEYS:
        path = {"header": "/h", "cookie": "/c", "query": "/q", "token": "/t"}[name]
        yield ROUTE.format(name=name, path=path + rest, rest=ignore, limits=name, cost=cost)
    yield ROUTE.format(name="plan", path="/p" + rest, rest=ignore + ', header: {x-plan: free}',
                       limits="once", cost="")


def policy(url, is_careful=False, is_closed=False, is_lenient=False, is_open=False):
    """A policy before the server at @url. Careful: with the lines of docs/policy.md for servers that do
    not count a trailing slash or case. Closed: what matches no route is 404. Lenient: encoded slashes pass where no
    limited route is. Open: no limits at all."""
    lines = ["workers: 1", "log: off", "timeouts: {idle: 600s}", f"upstreams: {{api: {{servers: '{url}', "
             "eject: off, retries: 0, timeout: {response: 10s}}}"]
    lines += ["limits:", f"  many: {{key: client.ip, {WINDOW}100000000/day}}",
              f"  once: {{key: [client.ip, route], {WINDOW}1/day}}",
              f"  report: {{key: client.ip, {WINDOW}1/day}}",
              f"  name: {{key: path.name, {WINDOW}{MANY}/day}}"]
    lines += [f"  {name}: {{key: {key}, {WINDOW}{MANY}/day}}" for name, key in KEYS.items()]
    routes = [] if is_open else [*_routes(is_careful)]
    rest = [] if is_closed else [LENIENT_REST if is_lenient else REST]
    return "\n".join([*lines, "routes:", *routes, *rest]) + "\n"


def priming():
    """Requests after which nothing is left in the bucket of any limited request."""
    for one in LIMITED:
        plain = one.plain()
        is_keyed = one.kind not in ("path", "plan")
        yield dataclasses.replace(plain, method=PRIMING) if is_keyed else plain
