"""How a method, a field, a cookie, a parameter and a token can be written in another way, and fields by which a
server could be told another path or method. As in path_rules, a rule gives all that it makes of a spelling."""

from urllib.parse import quote

from limited import units

JUNK = "junk"
CONTROLS = [chr(byte) for byte in (0x00, 0x01, 0x09, 0x0b, 0x0c, 0x0d, 0x1f, 0x7f, 0x85, 0xa0, 0xff)]


def _index(spelling, name):
    """Where the first field of the name stands."""
    return next((i for i, (other, _) in enumerate(spelling.fields) if other.lower() == name.lower()), None)


def _replace(spelling, rule, i, *fields):
    return spelling.edit(rule, fields=(*spelling.fields[:i], *fields, *spelling.fields[i + 1:]))


def _add(spelling, rule, *fields):
    return spelling.edit(rule, fields=(*spelling.fields, *fields))


# --- every request ---


def method(spelling, name):
    old = spelling.method
    others = {old.lower(), old.title(), old.swapcase(), old[0].lower() + old[1:], old[:-1] + old[-1].lower(), "HEAD",
              "GET", "POST", "PUT", "OPTIONS", "PROPFIND", "QUERY", " " + old, old + " ", "\t" + old, old + "\t",
              "\r\n" + old, old + "\0", "X" + old, old + "X", "G%45T", "\"" + old + "\"", "M-" + old, "head"}
    for other in sorted(others - {old}):
        yield spelling.edit(name, method=other)


def method_override(spelling, name):
    for other in ("GET", "POST", "PUT"):
        if other == spelling.method:
            continue
        for field in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method", "Request-Method",
                      "REQUEST_METHOD"):
            yield _add(spelling, name, (field, " " + spelling.method)).edit(name, method=other)
        yield spelling.edit(name, method=other, body="_method=" + spelling.method, fields=(
            *spelling.fields, ("Content-Type", " application/x-www-form-urlencoded")))


def path_field(spelling, name):
    """The path in a field, another one in the target."""
    path = spelling.target
    for field in ("X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Forwarded-Path", "X-Forwarded-Uri",
                  "Path-Info", "PATH_INFO", "Path_Info", "REQUEST_URI", "Request-Uri", "SCRIPT_URL",
                  "Script_Filename", "Redirect_Url", "Orig_Path_Info", "UNENCODED_URL", "RAW_URI",
                  "X-Envoy-Original-Path", "Base-Url", "Content-Location"):
        yield _add(spelling, name, (field, " " + path)).edit(name, target="/other")
    for field in ("X-Forwarded-Prefix", "X-Script-Name", "SCRIPT_NAME", "Script_Name", "Script-Name", "script_name",
                  "SCRIPT-NAME", "Script_name", "SCRIPT_NAME "):
        yield _add(spelling, name, (field, " /other")).edit(name, target="/other" + path)
        yield _add(spelling, name, (field, " /other")).edit(name, target="/x/other" + path)
        yield _add(spelling, name, (field, " o")).edit(name, target="/o" + path)


def host(spelling, name):
    for value in ("a.test:80", "A.TEST", "a.test.", "b.test", "", "a.test/x", "a.test, b", "[::1]"):
        i = _index(spelling, "Host")
        if i is not None:
            yield _replace(spelling, name, i, ("Host", " " + value))


def version(spelling, name):
    for value in ("HTTP/1.0", "HTTP/1.2", "HTTP/0.9", "http/1.1", "HTTP/2.0", "HTTP/1.1 ", "HTTP/01.1"):
        yield spelling.edit(name, version=value)


FIELD_RULES = [(rule.__name__.replace("_", "-"), rule) for rule in (
    method, method_override, path_field, host, version)]


# --- what is counted: a field ---


def _field(counted):
    """Rules for the lines of the field @counted."""

    def field_name(spelling, name):
        i = _index(spelling, counted)
        if i is None:
            return
        value = spelling.fields[i][1]
        for other in (counted.upper(), counted.lower(), counted.replace("-", "_"), counted.replace("-", "_", 1),
                      counted.replace("-", "_").upper(), counted.replace("-", "_").lower(), counted + " ",
                      counted + "\t", " " + counted, counted.replace("-", "--"), counted.replace("-", "."),
                      counted.replace("-", ""), counted + "\0", counted.replace("-", " "), "HTTP_" + counted,
                      counted + "_", "_" + counted, counted.replace("-", "%2d"), "\"" + counted + "\""):
            if other != counted:
                yield _replace(spelling, name, i, (other, value))

    def field_lines(spelling, name):
        i = _index(spelling, counted)
        if i is None:
            return
        line = spelling.fields[i]
        folded = (counted.replace("-", "_"), line[1])
        for junk in ((counted, " " + JUNK), (counted, ""), (counted, " "), (counted.lower(), " " + JUNK), line,
                     (counted.replace("-", "_"), " " + JUNK), (counted.replace("-", "_"), "")):
            yield _replace(spelling, name, i, junk, line)
            yield _replace(spelling, name, i, line, junk)
            yield _replace(spelling, name, i, folded, junk)
            yield _replace(spelling, name, i, junk, folded)
        yield _replace(spelling, name, i, line, ("X", " y"), line)

    def field_value(spelling, name):
        i = _index(spelling, counted)
        if i is None:
            return
        line, value = spelling.fields[i], spelling.fields[i][1].strip()
        for other in ("\t" + value, "  " + value + "  ", value, " " + value + "\t", ' "' + value + '"', " " + value + ",",
                      " ," + value, " " + value + ", " + JUNK, " " + JUNK + ", " + value, " " + value + ";", " " + quote(
                      value, safe=""), " \r\n " + value, " " + value + "\r\n ", " " + value + "\r\n\t", "\r\n\t" + value,
                      " '" + value + "'", " " + value.upper(), " " + value.title(), " =?utf-8?q?" + value + "?=",
                      " " + value + "\n", " " + value + "; a=b", " " + value + " (comment)", "\x0b" + value,
                      "\xa0" + value, " " + value + "\xa0", " \ufeff".encode().decode("latin-1") + value):
            if other != line[1]:
                yield _replace(spelling, name, i, (line[0], other))
        for control in CONTROLS:
            yield _replace(spelling, name, i, (line[0], " " + value + control))
            yield _replace(spelling, name, i, (line[0], " " + control + value))

    def connection(spelling, name):
        i = _index(spelling, counted)
        if i is None:
            return
        written = spelling.fields[i][0].strip()
        for options in (written, counted.lower(), counted.upper(), "close, " + counted, counted + ", keep-alive",
                        counted.replace("-", "_"), "keep-alive,," + counted, counted + " ", "\"" + counted + "\"",
                        "host", "X-Other, " + counted.lower()):
            yield _add(spelling, name, ("Connection", " " + options))
            yield spelling.edit(name, fields=(("Connection", " " + options), *spelling.fields))
        yield _add(spelling, name, ("Connection", " close"), ("Connection", " " + counted))
        yield _add(spelling, name, ("Proxy-Connection", " " + counted))
        yield _add(spelling, name, ("Keep-Alive", " " + counted))

    def trailer(spelling, name):
        i = _index(spelling, counted)
        if i is None or spelling.body is not None or spelling.tail:
            return
        line = spelling.fields[i]
        yield _replace(spelling, name, i, ("Transfer-Encoding", " chunked"), ("Trailer", " " + counted)).edit(
            "body", tail=f"0\r\n{line[0]}:{line[1]}\r\n\r\n")

    return [(rule.__name__.replace("_", "-"), rule) for rule in (
        field_name, field_lines, field_value, connection, trailer)]


# --- a cookie ---


def _escapes(value):
    """Of one value: single bytes, and all."""
    for i, letter in enumerate(value):
        yield value[:i] + f"%{ord(letter):02x}" + value[i + 1:]
        yield value[:i] + f"%{ord(letter):02X}" + value[i + 1:]
    yield "".join(f"%{ord(letter):02x}" for letter in value)


def _cookie_value(spelling):
    i = _index(spelling, "Cookie")
    if i is None or "sid=" not in spelling.fields[i][1]:
        return None, None, None
    before, _, rest = spelling.fields[i][1].partition("sid=")
    return i, before, rest


def cookie_value(spelling, name):
    i, before, value = _cookie_value(spelling)
    if i is None:
        return
    octal = "".join(f"\\{ord(letter):03o}" for letter in value)
    quoted = {f'"{value}"', f'"{octal}"', f'"\\{value}"', f'"{octal[:4]}{value[1:]}"', f'"{value}', f'{value}"',
              f"'{value}'", f'"{value}"x', f'""{value}', octal, "\\" + value, f'"{value[:1]}\\{value[1:]}"', f' "{value}"',
              f'"{value}" ', f'"{value};"', f'"{value} "', f'" {value}"'}
    quoted |= {f'"{one}"' for one in _escapes(value)}
    for other in sorted({*quoted, *_escapes(value)}):
        yield _replace(spelling, name, i, ("Cookie", before + "sid=" + other))
    for end in (" ", "\t", ";", "; ", ",", ", junk", ",junk", "; Path=/", ";a", ";;", "&junk", " junk", "=", "%00",
                "%20", "+", "%0a", "\x0b", "\xa0"):
        yield _replace(spelling, name, i, ("Cookie", before + "sid=" + value + end))
    for start in (" ", "\t", "=", "%20", "\xa0", "+"):
        yield _replace(spelling, name, i, ("Cookie", before + "sid=" + start + value))


def cookie_name(spelling, name):
    i, before, value = _cookie_value(spelling)
    if i is None:
        return
    for other in ("SID=", "Sid=", "%73id=", "sid =", "sid\t=", "\tsid=", "  sid=", "sid[]=", "sid.=", " sid==", "\"sid\"=",
                  "$sid=", "sid%00=", "sid%20=", "__Host-sid=", "__Secure-sid=", "sid[0]=", "sid[=", ".sid=", "sid:",
                  "\xa0sid=", "sid\xa0=", "\x0bsid=", "+sid=", "%20sid=", "=sid=", "sid"):
        yield _replace(spelling, name, i, ("Cookie", before + other + value))


def cookie_pairs(spelling, name):
    i, _, value = _cookie_value(spelling)
    if i is None:
        return
    real = "sid=" + value
    for line in (
            "sid=junk; " + real, real + "; sid=junk", real + "; " + real, "sid=; " + real, real + "; sid=", "sid; " + real,
            "sid=junk;" + real, "a=b;" + real, "a=b; " + real, "a=b;  " + real, "a=b,sid=junk; " + real, "a=b, " + real,
            "a=b," + real, '$Version=1; ' + real + '; $Path=/', '$Version="1"; sid="' + value + '"', ";;; " + real,
            "; " + real, ";" + real, 'x="; ' + real, 'x="a; ' + real + '; b"', 'x="a\\"; ' + real, 'x="a\\"; ' + real + '"',
            'sid="junk; ' + real, 'sid="a; ' + real + '"', "x; " + real, "=x; " + real, "sid=junk, " + real,
            "sid=junk&" + real, "sid=junk\t; " + real, "sid=junk ;" + real, "SID=junk; " + real, real + "; SID=junk",
            "sid=%6aunk; " + real, 'sid="junk"; ' + real, "sid =junk; " + real, real + "; sid =junk", "sid[]=junk; " + real,
            real + ";sid=a;sid=b;sid=c", "sid=a;sid=b;sid=c;" + real, "sid=a;sid=b;sid=c;sid=d;sid=e;" + real,
            "a=b\t;\t" + real, "[]=x; " + real, "{=x; " + real, "a=\xe9; " + real, "a b=c; " + real, "a=b c; " + real,
            'a="b c"; ' + real, "a=b\\; " + real, "a=b%3b " + real, "a=b%3b%20" + real, "(=x; " + real):
        yield _replace(spelling, name, i, ("Cookie", " " + line))
        if line.startswith(("sid=junk; ", "sid=; ", "a=b; ")) or line.endswith("; sid=junk"):
            first, _, second = line.partition("; ")
            yield _replace(spelling, name, i, ("Cookie", " " + first), ("Cookie", " " + second))
            yield _replace(spelling, name, i, ("Cookie", " " + first), ("cookie", " " + second))
    yield _replace(spelling, name, i, ("Set-Cookie", " " + real))
    yield _replace(spelling, name, i, ("Cookie2", " " + real))
    yield _replace(spelling, name, i, ("Cookie_", " " + real))


# --- a parameter ---


def _parameter(spelling):
    before, found, value = (spelling.query or "").rpartition("k=")
    return (before, value) if found else (None, None)


def parameter_value(spelling, name):
    before, value = _parameter(spelling)
    if before is None:
        return
    others = {value.replace("%20", "+"), value.lower(), value.replace("%40", "@").replace("%2B", "+"), value + "#",
              value + "%00", value + "%20", value + "+", "%20" + value, "+" + value, '"' + value + '"', value + "%0a",
              value + "%", "%" + value, value + "\0", value.upper(), value + ",junk", "=" + value, value + "=",
              value + "%e2%80%8b", value + "%zz", value + "?", value + "%26", value + "&", value + ";", value + ";a",
              value + "&a", value + "%23", value + "]=", "]=" + value, value + "%5D=", "%5d=" + value}
    at = 0
    for unit, byte in units(value):
        raw = chr(byte) if chr(byte) not in " #&+%\0" else f"%{byte:02X}"
        for text in (f"%{byte:02x}", f"%{byte:02X}", f"%25{byte:02x}", f"%u{byte:04x}",
                     f"%c{byte >> 6:x}%{0x80 | byte & 63:02x}", raw):
            others.add(value[:at] + text + value[at + len(unit):])
        at += len(unit)
    for other in sorted(others - {value}):
        yield spelling.edit(name, query=before + "k=" + other)


def parameter_name(spelling, name):
    before, value = _parameter(spelling)
    if before is None:
        return
    for other in ("K=", "%6b=", "%6B=", "%4b=", "%256b=", "+k=", "%20k=", "k+=", "k%20=", "k[]=", "k%5b%5d=", "k[0]=",
                  "k[a]=", "[k]=", "k[=", "k%00=", "k%00x=", "k.=", ".k=", "_k=", "k%0a=", "%0ak=", "%09k=", "k\t=",
                  "%u006b=", "k==", "k%3d", "k", "%c1%ab=", "%ef%bd%8b=", "k[", "k%5b0=", "k[][]=", "%e2%84%aa=",
                  "k%5B%5D=", "k[1]=", "%00k=", "amp;k=", "%a0k=", "%0bk=", "k'=", '"k"=', "$k=", "k%5d=",
                  "%5Bk%5D=", "%5bk]=", "[%6b]=", "[k]a=", "[k]%00=", "[k][=", "[k]]=", "[k][]=", "[k][a]=", "[k", "[[k]]=",
                  "?[k]=", "+[k]=", "[+k]=", "[k+]=", "a[k]=", "]k[=", "k]=", "]k=", "[[k=",
                  "k]]=", "]k]x=", "[k%5D=", "k%5D=x&k%5d="):
        yield spelling.edit(name, query=before + other + value)


def parameter_pairs(spelling, name):
    before, value = _parameter(spelling)
    if before is None:
        return
    real = before + "k=" + value
    for other in (
            "k=junk&" + real, real + "&k=junk", "k=&" + real, real + "&k=", real + "&" + real, "k&" + real, real + "&k",
            "k=junk;" + real, real + ";k=junk", "a=b;" + real, "a;" + real, "a=b&" + real, "&" + real, "&&&" + real,
            "a=b&amp;" + real, "a=b%26" + real, "a=b?" + real, "?" + real, "a?" + real, "k[]=junk&" + real, real +
            "&k[]=junk", "k[]=junk&k[]=" + value, "k[]=" + value, "k%5b%5d=junk&" + real, "K=junk&" + real, real + "&K=junk",
            "%6b=junk&" + real, real + "&%6b=junk", "=&" + real, "=junk&" + real, "a=%&" + real, "a=%zz&" + real,
            "a=%zz;" + real, "a;b&" + real, "a;b=c&" + real, real + "&a;b", real + "#&k=junk", "a=#&" + real, "a=\xe9&" + real,
            "a=%00&" + real, "k%00=junk&" + real, "k%20=junk&" + real, real + "&k%00=junk", "k=%00&" + real,
            "/" + real, "a/" + real, "a=b|" + real, "a=b," + real, "&".join(f"a{i}=b" for i in range(70)) + "&" + real,
            "&".join(f"k=j{i}" for i in range(20)) + "&" + real, "&".join(f"a{i}" for i in range(1001)) + "&" + real,
            "&" * 998 + real, "&" * 999 + real, "&" * 1000 + real, "a]=&" + real, "k=]=&" + real, real + "&k=]=",
            "k[a]=junk&" + real, "k.a=junk&" + real, real + "&k[a]=junk", "k%5B=junk&" + real,
            "[k]=junk&" + real, real + "&[k]=junk", "%5Bk%5D=junk&" + real, "[k]=junk&[k]=" + value, "[k]a=junk&" + real,
            "k=junk&[k]=" + value, "[k]=" + value + "&k=junk", real + "&[k]=" + value):
        yield spelling.edit(name, query=other)


def parameter_body(spelling, name):
    """As a form in the body, beside or in place of the query."""
    before, value = _parameter(spelling)
    if before is None or spelling.body is not None:
        return
    form = ("Content-Type", " application/x-www-form-urlencoded")
    for query in (None, "k=junk", "a=b"):
        for verb in (spelling.method, "POST"):
            yield spelling.edit(name, query=query, body="k=" + value, method=verb, fields=(*spelling.fields, form))


# --- a token ---


def token_value(spelling, name):
    i = _index(spelling, "Authorization")
    if i is None:
        return
    scheme, found, value = spelling.fields[i][1].strip().partition(" ")
    if not found:
        return
    for other in (f"bearer {value}", f"BEARER {value}", f"bEARER {value}", f"Bearer  {value}", f"Bearer\t{value}",
                  f"Bearer \t {value}", f"Bearer {value} ", f"Bearer {value}\t", f'Bearer "{value}"', f"Bearer {value},",
                  f"Bearer {value}, Bearer junk", f"Bearer junk, Bearer {value}", f"Bearer {value} junk", value,
                  f"Token {value}", f"Bearer={value}", f"Bearer:{value}", f"Bearer{value}", f"Bearer token={value}",
                  f"\tBearer {value}", f"Bearer {value};a", f"Bearer {value} \t ", f"Bearer   {value}   ", f"bearer  {value}",
                  f"Bearer\xa0{value}", f"Bearer {value}\xa0", f"Bearer\x0b{value}", f"Bearer\x0c{value}", f"Be%61rer {value}",
                  f"Bearer {value.upper()}", f"Bearer {value}=", f"Bearer, {value}", f"Bearer ,{value}",
                  f"Basic {value}", f"Bearer\x1f{value}", f"Bearer\x1c{value}", f"Bearer\x85{value}", f"Bearer {value}\x1f",
                  f"Bearer {value}, a=b", f"Bearer \xa0{value}", f"Bearer \x85{value}", f"\xa0Bearer {value}"):
        yield _replace(spelling, name, i, ("Authorization", " " + other))
    for field in ("Proxy-Authorization", "X-Authorization", "Authorisation", "X-Forwarded-Authorization",
                  "HTTP_AUTHORIZATION", "Http-Authorization", "REDIRECT_HTTP_AUTHORIZATION", "Authorization_"):
        yield _replace(spelling, name, i, (field, spelling.fields[i][1]))
    yield spelling.edit(name, query="access_token=" + value)


def _named(*rules):
    return [(rule.__name__.replace("_", "-"), rule) for rule in rules]


RULES = {
    "path": [], "name": [],
    "header": _field("X-Api-Key"), "plan": _field("X-Plan"),
    "cookie": [*_named(cookie_value, cookie_name, cookie_pairs), *_field("Cookie")],
    "query": _named(parameter_value, parameter_name, parameter_pairs, parameter_body),
    "token": [*_named(token_value), *_field("Authorization")],
}


def rules_of(kind):
    return RULES[kind]
