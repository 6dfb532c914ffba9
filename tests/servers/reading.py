"""Imitations of the servers, in Python's standard library: what each reads of a request, by the rules of its parsers.
A reading is a dictionary of handler, name, header, plan, cookie, query and token, as the real servers answer it, or
None where no handler is reached. tests/servers/run holds the imitations against the real servers.

Text is Latin-1, one character a byte, where it comes from a request, and Unicode where a server has decoded it."""

import http.cookies
import re
import urllib.parse

from limited import HANDLERS, units

STATIC = {(one["method"], one["path"]): one["name"] for one in HANDLERS}
BLANKS = " \t"
HOST_HAS_NO = set("\0\t\n\r #/:<>?@[\\]^|%")
TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
OF_JS = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200b)))
MOST_PARAMETERS = 1000
MOST_LINE_BYTES = 4094  # of gunicorn


def latin1(text):
    return text.encode("latin-1")


def unescape(text, plus=False):
    """Bytes; what is no escape stands for itself."""
    return urllib.parse.unquote_to_bytes(latin1(text.replace("+", " ") if plus else text))


def lines_of(fields, name):
    return [value for other, value in fields if other.lower() == name]


def method_of(method):
    return "GET" if method == "HEAD" else method


def cut_query(target):
    path, found, query = target.partition("?")
    return path, query if found else ""


def read(find, request_line, values):
    """A reading, of the handler that @find has for (method, path)."""
    found = find(*request_line)
    return found and {"handler": found[0], "name": found[1], **values}


def find_plain(method, path, suffix=r"/v1/report(\.\w+)?", files=r"/f/(.+)", end=r"\Z"):
    """By exact paths and regular expressions, as most do."""
    name = STATIC.get((method_of(method), path))
    if name is not None:
        return name, None
    if method_of(method) != "GET":
        return None
    if re.match(suffix + end, path):
        return "report", None
    for handler, pattern in (("user", r"/u/([^/]+)"), ("files", files)):
        match = re.match(pattern + end, path)
        if match:
            return handler, match.group(1)
    return None


# --- gunicorn: what it hands to Flask and Django ---


class Gunicorn:
    """The environment of WSGI, Latin-1 as it is there."""

    def __init__(self, method, target, fields):
        self.method = method.upper()
        if len(f"{method} {target} HTTP/1.1") > MOST_LINE_BYTES:
            raise ValueError(target)
        start = "." if target.startswith("//") else ""
        parts = urllib.parse.urlsplit(start + target)
        path = parts.path[len(start):]
        self.query = parts.query
        self.fields = {}
        for name, value in fields:
            if name.upper() == "SCRIPT_NAME":
                path = path.split(value, 1)[1] if value else path
            name = name.upper().replace("-", "_")
            self.fields[name] = f"{self.fields[name]},{value}" if name in self.fields else value
        self.path = unescape(path).decode("latin-1")

    def text(self, name):
        return self.fields.get(name)


COOKIE = re.compile(rb'([^=;]*)(?:\s*=\s*("(?:[^\\"]|\\.)*"|(?:.*?)))?\s*;', re.DOTALL)


def unquote_cookie(value):
    """A quoted string with octal escapes and backslashes."""
    if len(value) < 2 or value[:1] != b'"' or value[-1:] != b'"':
        return value
    return re.sub(rb"\\(?:([0-3][0-7][0-7])|(.))", lambda match: bytes(
        [int(match.group(1), 8)]) if match.group(1) else match.group(2), value[1:-1], flags=re.DOTALL)


def cookie_of_flask(line):
    data = latin1(line) + b";"
    at = 0
    while at < len(data) - 1:
        match = COOKIE.match(data, at)
        if match is None:
            return None
        at = match.end()
        if match.group(1).strip() == b"sid":
            return unquote_cookie(match.group(2) or b"").decode("utf-8", "replace")
    return None


def pairs_of_form(query, plus_in_names=True):
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            yield (unescape(name, plus_in_names).decode("utf-8", "replace"),
                   unescape(value, True).decode("utf-8", "replace"))


def flask(method, target, fields):
    try:
        environ = Gunicorn(method, target, fields)
    except (ValueError, IndexError):
        return None
    path = "/" + latin1(environ.path).decode("utf-8", "replace").lstrip("/")
    if "//" in path and not re.match("/f/[^/]", path):
        return None  # it redirects to the path with single slashes
    scheme, _, token = (environ.text("AUTHORIZATION") or "").partition(" ")
    return read(lambda *line: find_plain(*line, suffix=r"/v1/report(\.[^/]+)?"), (environ.method, path), {
        "header": environ.text("X_API_KEY"), "plan": environ.text("X_PLAN"),
        "cookie": cookie_of_flask(environ.text("COOKIE") or ""),
        "query": next((value for name, value in pairs_of_form(environ.query) if name == "k"), None),
        "token": token.strip() if scheme.lower() == "bearer" else None})


HOST_OF_DJANGO = re.compile(r"([a-z0-9.-]+|\[[a-f0-9]*:[a-f0-9.:]+\])(:[0-9]+)?", re.IGNORECASE)


def cookie_of_django(line):
    found = None
    for chunk in latin1(line).decode("utf-8", "replace").split(";"):
        name, is_pair, value = chunk.partition("=")
        if is_pair and name.strip() == "sid":
            found = http.cookies._unquote(value.strip())
    return found


def django(method, target, fields):
    try:
        environ = Gunicorn(method, target, fields)
        path = latin1(environ.path or "/").decode("utf-8", "surrogateescape")
    except (ValueError, IndexError):
        return None
    if not HOST_OF_DJANGO.fullmatch(environ.text("HOST") or ""):
        return None
    values = urllib.parse.parse_qsl(environ.query, keep_blank_values=True)
    if len(values) > MOST_PARAMETERS:
        return None
    words = (environ.text("AUTHORIZATION") or "").split()
    return read(find_plain, (environ.method, path), {
        "header": environ.text("X_API_KEY"), "plan": (environ.text("X_PLAN") or "").strip(),
        "cookie": cookie_of_django(environ.text("COOKIE") or ""),
        "query": next((value for name, value in reversed(values) if name == "k"), None),
        "token": words[1] if len(words) == 2 and words[0].lower() == "bearer" else None})


# --- Go's net/http ---


def clean(path):
    """As path.Clean does, with the slash at the end."""
    kept = []
    for segment in path.split("/"):
        if segment == "..":
            kept = kept[:-1]
        elif segment not in ("", "."):
            kept.append(segment)
    cleaned = "/" + "/".join(kept)
    return cleaned + "/" if path.endswith("/") and cleaned != "/" else cleaned


def is_escaped_well(text):
    return all(len(unit) == 3 or unit != "%" for unit, _ in units(text))


def cookie_of_go(lines):
    for line in lines:
        for part in line.strip(BLANKS).split(";"):
            name, _, value = part.strip(BLANKS).partition("=")
            if name != "sid":
                continue
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            if all(" " <= one < "\x7f" and one not in '";\\' for one in value):
                return value
    return None


def query_of_go(query):
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if ";" in part or not (is_escaped_well(name) and is_escaped_well(value)):
            continue
        if unescape(name, True) == b"k":
            return unescape(value, True).decode("utf-8", "replace")
    return None


def go(method, target, fields):
    path, query = cut_query(target)
    if not is_escaped_well(path):
        return None
    path = unescape(path).decode("utf-8", "replace")
    if clean(path) != path:
        return None  # it redirects
    scheme, is_there, token = (lines_of(fields, "authorization") or [""])[0].partition(" ")

    def first(name):
        return (lines_of(fields, name) or [None])[0] or None

    def find(method, path):
        if path.startswith("/u/") and path.count("/") == 2 and path != "/u/":
            return ("user", path[3:]) if method_of(method) == "GET" else None
        return find_plain(method, path, suffix=r"/v1/report(\.json|\.csv)?", files="/f/((?s:.+))")

    return read(find, (method, path), {
        "header": first("x-api-key"), "plan": first("x-plan"),
        "cookie": cookie_of_go(lines_of(fields, "cookie")), "query": query_of_go(query),
        "token": token.strip(BLANKS) if is_there and scheme.lower() == "bearer" else None})


# --- Node ---


def decode_component(text):
    """As decodeURIComponent; ValueError where that throws."""
    if not is_escaped_well(text):
        raise ValueError(text)
    return "".join(_decode_runs(text))


def _decode_runs(text):
    for run in re.split("((?:%[0-9A-Fa-f]{2})+)", text):
        yield unescape(run).decode("utf-8") if run.startswith("%") else run


def field_of_node(fields, name):
    values = lines_of(fields, name)
    if not values:
        return None
    return values[0] if name == "authorization" else ("; " if name == "cookie" else ", ").join(values)


def cookie_of_express(line):
    at = 0
    while at < len(line):
        equals, end = line.find("=", at), line.find(";", at)
        if equals < 0:
            return None
        if 0 <= end < equals:
            at = line.rfind(";", 0, equals) + 1
            continue
        end = len(line) if end < 0 else end
        if line[at:equals].strip(OF_JS) == "sid":
            value = line[equals + 1:end].strip(OF_JS)
            value = value[1:-1] if value.startswith('"') else value
            try:
                return decode_component(value)
            except ValueError:
                return value
        at = end + 1
    return None


def query_of_express(query):
    """As qs does, of the parameter k: what its arrays and objects are as text."""
    found = {}  # by name: an empty text beside other names adds nothing
    for part in query.split("&")[:MOST_PARAMETERS]:
        at = part.find("]=") + 1 or part.find("=")
        name, value = (part, "") if at < 0 else (part[:at], part[at + 1:])
        name, value = (_decoded_as_qs(one) for one in (name, value))
        parent, bracket, rest = name.partition("[")
        if bracket and "]" not in rest:
            continue
        if parent == "k" and (not bracket or re.fullmatch(r"(\d*\](\[\d*\])*)[^\[]*", rest)):
            found.setdefault(name, []).append(value)
        elif bracket and not parent and rest.startswith("k]") and re.fullmatch(
                r"\d*", "".join(re.findall(r"\[([^\[\]]*)\]", rest[2:]))):
            found.setdefault(name, []).append(value)
        elif parent == "k":
            found.setdefault(name, []).append("[object Object]")
    first, *others = found.values() or [None]
    return first and ",".join([*first, *(value for values in others if values != [""] for value in values)])


def _decoded_as_qs(text):
    text = text.replace("+", " ")
    try:
        return decode_component(text)
    except ValueError:
        return text


def express(method, target, fields):
    path, query = cut_query(target)
    bare = path[:-1] if path.endswith("/") and len(path) > 1 else path

    def find(method, _):
        for one in HANDLERS:
            known = urllib.parse.quote(one["path"], safe="/:@!$&'()*+,;=~[]|^\"`-._")
            known = known[:-1] if known.endswith("/") and len(known) > 1 else known
            if one["method"] == method_of(method) and (
                    known.lower() == bare.lower() or one["path"].endswith("/") and known.lower() == path.lower()):
                return one["name"], None
        if method_of(method) != "GET":
            return None
        if re.fullmatch(r"/v1/report(\.[^/#?]+?)?", bare, re.IGNORECASE):
            return "report", None
        match = re.fullmatch(r"/u/([^/#?]+)|/f/(.+)", bare, re.IGNORECASE)
        try:
            return match and ("user" if match.group(1) else "files", decode_component(
                match.group(1) or match.group(2)))
        except ValueError:
            return None

    parts = (field_of_node(fields, "authorization") or "").split(" ")
    return read(find, (method, path), {
        "header": field_of_node(fields, "x-api-key"), "plan": field_of_node(fields, "x-plan"),
        "cookie": cookie_of_express(field_of_node(fields, "cookie") or ""), "query": query_of_express(query),
        "token": parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" else None})


def path_of_url(target):
    """The path that `new URL(target, base)` makes of a target; None where it throws."""
    path = cut_query(target)[0].replace("\\", "/")
    if path.startswith("//"):
        path = path.lstrip("/")
        host, _, rest = path.partition("/")
        host = host.rpartition("@")[2]
        name, _, port = host.partition(":") if not host.startswith("[") else (host, "", host.rpartition("]:")[2])
        name = unescape(name).decode("latin-1")
        if not name or set(name) & HOST_HAS_NO and not re.fullmatch(r"\[[0-9A-Fa-f:.]+\](:\d*)?", host):
            return None
        if not name.startswith("[") and not re.fullmatch(r"\d*", port):
            return None
        path = "/" + rest
    kept, segments = [], path.split("/")[1:]
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            kept = kept[:-1]
        if plain in (".", ".."):
            kept += [""] if is_last else []
        else:
            kept.append(segment)
    return "/" + "/".join(kept)


def node(method, target, fields):
    path = path_of_url(target)
    if path is None:
        return None
    try:
        path = decode_component(path)
    except ValueError:
        return None
    cookie = None
    for one in (field_of_node(fields, "cookie") or "").split(";"):
        name, *rest = one.strip(OF_JS).split("=")
        if name == "sid":
            cookie = "=".join(rest)
            break
    bearer = re.match("Bearer +(.+)$", field_of_node(fields, "authorization") or "", re.IGNORECASE)
    return read(lambda *line: find_plain(*line, files="/f/([^\n\r\u2028\u2029]+)"), (method, path), {
        "header": field_of_node(fields, "x-api-key"), "plan": field_of_node(fields, "x-plan"), "cookie": cookie,
        "query": next((value for name, value in pairs_of_form(cut_query(target)[1]) if name == "k"), None),
        "token": bearer and bearer.group(1).strip(OF_JS)})


# --- PHP ---


def field_of_php(fields, name):
    """$_SERVER: every other byte than a letter or a digit is `_`; of two names the last counts."""
    joined = {}
    for other, value in fields:
        key = other.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    found = None
    for key, value in joined.items():
        if re.sub("[^0-9a-z]", "_", key) == name:
            found = value
    return found


def path_of_php(target):
    """parse_url(…, PHP_URL_PATH)."""
    path = cut_query(target)[0]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        name, _, port = host.rpartition("@")[2].partition(":") if not host.startswith("[") else (host, "", "")
        if not host or not name or not re.fullmatch(r"\d{0,5}", port):
            return ""
        return slash + rest
    return "" if re.match(r"[^:?]*:\d{1,5}(/|$)", path) else path


def name_in_php(name):
    """Of a variable: what of it is kept, or None for an array."""
    name = name.partition("\0")[0].lstrip(" ")
    head, bracket, rest = name.partition("[")
    if bracket and "]" in rest:
        return None
    return re.sub(r"[ .\[]", "_", name)


def cookie_of_php(line):
    for part in line.split(";"):
        part = part.lstrip(" \t\n\v\f\r")
        name, is_pair, value = part.partition("=")
        if name.lstrip(" ").startswith("sid[") and name_in_php(name) is None:
            return None
        if is_pair and name_in_php(name) == "sid":
            return unescape(value).decode("utf-8", "replace")
    return None


def query_of_php(query):
    found = None
    for part in query.lstrip("?").split("&")[:MOST_PARAMETERS]:
        name, _, value = part.partition("=")
        name = unescape(name, True).decode("latin-1")
        if name_in_php(name) == "k":
            found = unescape(value, True).decode("utf-8", "replace")
        elif re.match(r"\0*k\[[^]]*\]", name.lstrip(" ")):
            found = None
    return found


def php(method, target, fields):
    path = unescape(path_of_php(target)).decode("utf-8", "replace")
    bearer = re.match(r"Bearer\s+(\S+)\s*$", field_of_php(fields, "authorization") or "", re.IGNORECASE | re.ASCII)
    return read(lambda *line: find_plain(*line, end=r"$" if path[:3] != "/f/" else r"\n?\Z"), (method, path), {
        "header": field_of_php(fields, "x_api_key"), "plan": field_of_php(fields, "x_plan"),
        "cookie": cookie_of_php(field_of_php(fields, "cookie") or ""), "query": query_of_php(cut_query(target)[1]),
        "token": bearer and bearer.group(1)})


ALL = {one.__name__: one for one in (flask, django, go, express, node, php)}


def all_readings(method, target, fields):
    """By name. The absolute form is the same to all."""
    target = re.sub("^https?://[^/?]*", "", target, flags=re.IGNORECASE)
    return {name: one(method, target, fields) for name, one in ALL.items()}
