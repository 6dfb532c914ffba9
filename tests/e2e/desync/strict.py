"""HTTP/1.1 messages as RFC 9110 (S) and RFC 9112 (M) define them, read in one piece.

It shares nothing with what it watches over. What sluice writes is read with SENT: as a sender has to
write it. What it is given is read with TAKEN: what docs/http.md says that it takes and refuses.
"""

import ipaddress
import re
from dataclasses import dataclass, field, replace

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
TORN = re.compile(rb"[\0\r\n]")
TARGET = re.compile(rb'[\x21\x22\x24-\x7e]+')
VERSION = re.compile(rb"HTTP/([0-9])\.([0-9])")
CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]+")
EXTENSION = re.compile(rb"[ \t]*;[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z][\t\x20-\x7e\x80-\xff]*")
ABSOLUTE = re.compile(rb"https?://([^/?]+)([^?]*)(\?.*)?", re.IGNORECASE | re.DOTALL)
HOST_LABEL = re.compile(rb"[A-Za-z0-9\-_~]+")
URI_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
NUMBER = re.compile(rb"[0-9]+")
NUMBER_MAX = (1 << 63) - 1
CODING_RULE = "M6.1, M6.3, M7.1: Transfer-Encoding is chunked, once"
LENGTH_RULE = "S8.6, M6.3: Content-Length is a number"

# Each of these with "_" for "-" is another way to write it to some server (rule 20).
KNOWN = {name.lower() for name in (
    b"Content-Length", b"Transfer-Encoding", b"Keep-Alive", b"Proxy-Connection",
    b"Proxy-Authenticate", b"Proxy-Authorization", b"Max-Forwards", b"X-Forwarded-For",
    b"X-Forwarded-Proto", b"X-Forwarded-Host", b"X-Real-IP", b"X-Request-ID",
    b"RateLimit-Policy", b"Retry-After")}
OF_A_CONNECTION = {name.lower() for name in (
    b"Connection", b"HTTP2-Settings", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authenticate",
    b"Proxy-Authorization", b"TE", b"Transfer-Encoding", b"Upgrade", b"Trailer")}
# No trailer may change how its message is framed, routed or authorised (S6.5.1).
NEVER_A_TRAILER = OF_A_CONNECTION | {
    b"host", b"content-length", b"authorization", b"cookie", b"set-cookie", b"expect",
    b"max-forwards", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto",
    b"x-real-ip", b"content-encoding", b"content-type", b"content-range"}


class Bad(Exception):
    """The bytes break a rule. `message` is what was read of the message, None where that is no whole
    head."""

    def __init__(self, rule, message=None):
        super().__init__(rule)
        self.rule = rule
        self.message = message


class Partial(Exception):
    """The bytes end in the middle of a message."""

    def __init__(self, message=None):
        super().__init__("the bytes end in the middle of a message")
        self.message = message


@dataclass(frozen=True)
class Rules:
    """What a reader takes beside what a sender has to write, and how much of it."""
    empty_lines: int = 0
    minors: bytes = b"1"
    has_extensions: bool = False
    is_whole_grammar: bool = True  # what nobody takes from others, though some may send it
    has_ours: bool = True  # what sluice refuses though the RFCs would let it pass
    head_bytes: int = 1 << 20
    fields: int = 1000
    target_bytes: int = 1 << 20
    method_bytes: int = 1000


SENT = Rules()
SENT_BY_OTHERS = Rules(has_ours=False)
TAKEN = Rules(empty_lines=4, minors=b"0123456789", has_extensions=True, is_whole_grammar=False,
              head_bytes=16 * 1024, fields=100, target_bytes=8 * 1024, method_bytes=32)
CHUNK_LINE_BYTES, EXTENSION_BYTES, TRAILER_BYTES = 256, 4096, 8192


@dataclass
class Message:
    minor: int = 1
    method: bytes = b""
    target: bytes = b""
    status: int = 0
    fields: list = field(default_factory=list)  # (name, value)
    framing: str = "none"  # length, chunked, close
    length: int = 0
    body: bytes = b""
    trailers: list = field(default_factory=list)
    keep_alive: bool = True
    is_head: bool = False  # of a response: it answers a HEAD
    body_at: int = 0  # where it starts

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    def has_member(self, name, member):
        return any(member in members(value.lower()) for value in self.all(name))

    def named(self):
        """The fields that Connection names, and those that belong to a connection by nature."""
        return OF_A_CONNECTION | {option.lower() for value in self.all(b"connection")
                                  for option in members(value)}

    @property
    def host(self):
        """What the request is for: the authority of its target before its Host (M3.2.2)."""
        absolute = ABSOLUTE.fullmatch(self.target) if self.target[:1] not in b"/*" else None
        return absolute.group(1) if absolute else (self.all(b"host") or [b""])[0]

    @property
    def origin(self):
        """The target as a server gets it (M3.2.1, M3.2.4)."""
        if self.target[:1] in (b"/", b"*"):
            return self.target
        _, path, query = ABSOLUTE.fullmatch(self.target).groups()
        if not path and not query and self.method == b"OPTIONS":
            return b"*"
        return (path or b"/") + (query or b"")


def members(value):
    """Of a list (S5.6.1), without empty ones; commas in quoted strings part nothing."""
    parts, start, quoted, skip = [], 0, False, False
    for i, byte in enumerate(value):
        if skip:
            skip = False
        elif quoted and byte == 0x5C:
            skip = True
        elif byte == 0x22:
            quoted = not quoted
        elif byte == 0x2C and not quoted:
            parts.append(value[start:i])
            start = i + 1
    parts.append(value[start:])
    return [part.strip(b" \t") for part in parts if part.strip(b" \t")]


def _line(data, at):
    end = data.find(b"\n", at)
    if end < 0:
        raise Partial()
    if end == at or data[end - 1] != 0x0D:
        raise Bad("M2.2: a line ends in CR LF")
    line = bytes(data[at:end - 1])
    if b"\r" in line:
        raise Bad("M2.2: no CR stands alone")
    return line, end + 1


def _field(line, rules):
    if line[:1] in (b" ", b"\t"):
        raise Bad("M5.2: no line is folded")
    name, colon, value = line.partition(b":")
    if colon and TOKEN.fullmatch(name.rstrip(b" \t")) and not TOKEN.fullmatch(name):
        raise Bad("M5.1: no white space stands before a colon")
    if not colon or not TOKEN.fullmatch(name):
        raise Bad("M5, S5.6.2: a field has a token and a colon right behind it")
    if TORN.search(value):
        raise Bad("S5.5: no CR, LF or NUL stands in a value")
    if not VALUE.fullmatch(value):
        if name.lower() == b"transfer-encoding":
            raise Bad(CODING_RULE)
        if name.lower() == b"content-length":
            raise Bad(LENGTH_RULE)
        if rules.has_ours:
            raise Bad("S5.5, ours: no control byte stands in a value")
    if not rules.is_whole_grammar and name.lower() == b"content-length" and value.endswith(b"\t"):
        raise Bad("ours: white space behind Content-Length is spaces")
    return name, value.strip(b" \t")


def _head(data, at, rules):
    """The start line, the fields, and where the head ends."""
    for _ in range(rules.empty_lines):
        if data[at:at + 2] == b"\r\n":
            at += 2
    start = at
    if at < len(data) and data[at] in b"\r\n":
        raise Bad("M2.2, ours: a few empty lines may come before a request, each CR LF")
    if at < len(data) and not TOKEN.fullmatch(bytes(data[at:at + 1])):
        raise Bad("M3, M4: a start line starts with a token")
    start_line, at = _line(data, at)
    if not VALUE.fullmatch(start_line):
        raise Bad("M3, M4: no control byte stands in a start line")
    fields = []
    while True:
        line, at = _line(data, at)
        if at - start > rules.head_bytes:
            raise Bad("S5.4: the head is too large")
        if not line:
            break
        fields.append(_field(line, rules))
    if len(fields) > rules.fields:
        raise Bad("S5.4: the head has too many fields")
    return start_line, fields, at


def _version(word, rules):
    version = VERSION.fullmatch(word)
    if not version or version.group(1) != b"1":
        raise Bad("M2.3: the version is HTTP/1.1")
    if version.group(2) not in [bytes([minor]) for minor in rules.minors]:
        raise Bad("M2.3: a proxy sends its own version")
    return 0 if version.group(2) == b"0" else 1


def _is_uri_host(host):
    """M3.2, S7.2, U3.2.2: uri-host [":" port]."""
    match = URI_HOST.fullmatch(host)
    try:
        return bool(match) and (match.group(1) is None or
                                bool(ipaddress.IPv6Address(match.group(1).decode())))
    except ValueError:
        return False


def _check_host(host, rules):
    if not _is_uri_host(host):
        raise Bad("M3.2: Host is a host")
    if rules.has_ours and not is_host(host):
        raise Bad("ours: a host has no empty label, nothing escaped, 255 bytes, and a port below 65536")


def is_host(host):
    """What of that is taken; or nothing."""
    if not host:
        return True
    literal = re.fullmatch(rb"\[([0-9A-Fa-f:.]+)\](?::([0-9]*))?", host)
    if literal:
        name, port = None, literal.group(2)
        try:
            ipaddress.IPv6Address(literal.group(1).decode())
        except ValueError:
            return False
    else:
        name, _, port = host.partition(b":")
        labels = (name[:-1] if name[-1:] == b"." else name).split(b".")
        if len(name) > 255 or not all(HOST_LABEL.fullmatch(label) for label in labels):
            return False
    return not port or bool(NUMBER.fullmatch(port)) and int(port) <= 65535


def _target(method, target, rules):
    if len(target) > rules.target_bytes:
        raise Bad("M3: the target is too long")
    if not TARGET.fullmatch(target):
        raise Bad("M3.2: no white space, control, byte beyond ASCII or # stands in a target")
    if target == b"*":
        if method != b"OPTIONS":
            raise Bad("M3.2.4: * is for OPTIONS")
    elif target[:1] != b"/":
        absolute = ABSOLUTE.fullmatch(target)
        if not absolute or not is_host(absolute.group(1)):
            raise Bad("M3.2: the target is a path or an http URI")
        if rules.is_whole_grammar and rules.has_ours:
            raise Bad("M3.2.1: what is sent to a server is a path")


def _framing(message):
    """M6.1 to M6.3, without what the status and the method say."""
    lengths, codings = message.all(b"content-length"), message.all(b"transfer-encoding")
    if codings:
        if message.minor == 0:
            raise Bad("M6.1: HTTP/1.0 has no Transfer-Encoding")
        if lengths:
            raise Bad("M6.1: Content-Length stands beside Transfer-Encoding")
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            raise Bad(CODING_RULE)
        message.framing = "chunked"
    elif lengths:
        if len(lengths) > 1:
            raise Bad("S8.6: Content-Length stands there twice")
        if not NUMBER.fullmatch(lengths[0]) or int(lengths[0]) > NUMBER_MAX:
            raise Bad(LENGTH_RULE)
        message.length = int(lengths[0])
        message.framing = "length" if message.length > 0 else "none"


def _connection(message, rules):
    options = [option.lower() for value in message.all(b"connection") for option in members(value)]
    if not all(TOKEN.fullmatch(option) for option in options):
        raise Bad("S7.6.1: Connection is a list of tokens")
    if rules.has_ours and (len(options) > 32 or {b"host", b"content-length"} & set(options)):
        raise Bad("S7.6.1, ours: Connection names what frames or routes")
    message.keep_alive = b"close" not in options and (
        message.minor == 1 or b"keep-alive" in options)


def _request_fields(message, rules):
    hosts = message.all(b"host")
    if len(hosts) > 1 or not hosts and message.minor == 1:
        raise Bad("M3.2: a request has one Host")
    if hosts:
        _check_host(hosts[0], rules)
    for name, _ in message.fields:
        if rules.has_ours and b"_" in name and name.lower().replace(b"_", b"-") in KNOWN:
            raise Bad("ours: a known field is written with _ for -")
    _framing(message)
    _connection(message, rules)
    expected = [member.lower() for value in message.all(b"expect") for member in members(value)]
    if rules.has_ours and message.minor == 1 and any(member != b"100-continue" for member in expected):
        raise Bad("S10.1.1: another expectation than 100-continue")


def read_request(data, at=0, rules=SENT):
    """The message at @at, and where it ends. Bad, Partial."""
    start_line, fields, at = _head(data, at, rules)
    words = start_line.split(b" ")
    if len(words) != 3 or not TOKEN.fullmatch(words[0]):
        raise Bad("M3: a request line is method, target and version")
    method, target, version = words
    if rules.has_ours and (len(method) > rules.method_bytes or method == b"CONNECT"):
        raise Bad("S9.1, ours: the method is not served")
    message = Message(_version(version, rules), method, target, fields=fields, body_at=at)
    _target(method, target, rules)
    _request_fields(message, rules)
    return message, _read_body(data, at, message, rules)


def read_response(data, at=0, method=b"GET", rules=SENT):
    """The response at @at to a request with @method, an interim one too, and where it ends; one that
    lasts until the close ends where the data does, and its `framing` says so. Bad, Partial."""
    start_line, fields, at = _head(data, at, replace(rules, empty_lines=0))
    match = re.fullmatch(rb"(\S+) ([1-5][0-9][0-9])( .*)?", start_line, re.DOTALL)
    if not match:
        raise Bad("M4: a status line is version, three digits and a reason")
    if rules.is_whole_grammar and match.group(3) is None:
        raise Bad("M4: there is a space before a reason, also before none")
    message = Message(_version(match.group(1), rules), status=int(match.group(2)), fields=fields,
                      is_head=method == b"HEAD", body_at=at)
    _framing(message)
    _connection(message, rules)
    is_bodiless = message.status < 200 or message.status in (204, 304)
    if rules.is_whole_grammar and (message.status < 200 or message.status == 204):
        if message.all(b"content-length") or message.all(b"transfer-encoding"):
            raise Bad("M6.1, S8.6: 1xx and 204 have no framing fields")
    if method == b"HEAD" or is_bodiless:
        message.framing = "none"
    elif not message.all(b"content-length") and not message.all(b"transfer-encoding"):
        message.framing, message.keep_alive = "close", False
    return message, _read_body(data, at, message, rules)


# --- bodies ---

def _read_body(data, at, message, rules):
    if message.framing == "length":
        message.body = bytes(data[at:at + message.length])
        if len(message.body) < message.length:
            raise Partial(message)
        return at + message.length
    if message.framing == "close":
        message.body = bytes(data[at:])
        return len(data)
    if message.framing == "chunked":
        try:
            return _read_chunks(data, at, message, rules)
        except Bad as bad:
            raise Bad(bad.rule, message) from None
        except Partial:
            raise Partial(message) from None
    return at


def _read_chunks(data, at, message, rules):
    n_extension_bytes = 0
    while True:
        start = at
        line, at = _line(data, at)
        digits = CHUNK_SIZE.match(line)
        if not digits or int(digits.group(), 16) > NUMBER_MAX:
            raise Bad("M7.1: a chunk starts with its size")
        if rules.has_ours and len(digits.group()) > 16:
            raise Bad("ours: a chunk size has 16 digits at most, else it is too long")
        extension = line[digits.end():]
        if extension and not (rules.has_extensions and EXTENSION.fullmatch(extension)):
            raise Bad("M7.1.1: an extension is malformed, or was passed on")
        n_extension_bytes += len(extension)
        if rules.has_ours and (
                at - start > CHUNK_LINE_BYTES or n_extension_bytes > EXTENSION_BYTES):
            raise Bad("M7.1.1: extensions are too long")
        size = int(digits.group(), 16)
        if size == 0:
            return _read_trailers(data, at, message, rules)
        message.body += bytes(data[at:at + size])
        if len(data) < at + size + 2:
            if not b"\r\n".startswith(data[at + size:]):
                raise Bad("M7.1: CR LF stands behind a chunk")
            raise Partial()
        if data[at + size:at + size + 2] != b"\r\n":
            raise Bad("M7.1: CR LF stands behind a chunk")
        at += size + 2


def _read_trailers(data, at, message, rules):
    start = at
    while True:
        line, at = _line(data, at)
        if rules.has_ours and at - start > TRAILER_BYTES:
            raise Bad("S5.4: the trailers are too large")
        if not line:
            return at
        message.trailers.append(_field(line, rules))
