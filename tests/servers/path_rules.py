"""How a path can be written in another way. A rule gives, of a spelling, all that it can make of it."""

import unicodedata

from urllib.parse import unquote_to_bytes

from limited import units

HOSTS = ("http://a.test", "HTTP://A.TEST", "http://a.test:80", "http://b.test", "https://a.test", "http://a.test.",
         "http://[::1]", "http://u@a.test", "http://a.test:", "ftp://a.test", "http:", "http://", "a.test",
         "http:///a.test", "http://a.test\\x", "http:/", "//a.test", "http://a.test//x")


def _each(spelling, name, make):
    """One unit at a time replaced by what make(byte) gives."""
    parts = list(units(spelling.target))
    for i, (_, byte) in enumerate(parts[1:], 1):
        for text in make(byte):
            target = "".join(t for t, _ in parts[:i]) + text + "".join(t for t, _ in parts[i + 1:])
            yield spelling.edit(name, target=target)


def escape(spelling, name):
    return _each(spelling, name, lambda byte: sorted({f"%{byte:02X}", f"%{byte:02x}"}))


def escape_many(spelling, name):
    parts = list(units(spelling.target))
    for chosen in (lambda c: c != "/", str.isalpha, lambda c: not c.isalnum() and c != "/", lambda c: True):
        yield spelling.edit(name, target="".join(text for text, _ in parts[:1]) + "".join(
            f"%{byte:02X}" if chosen(text) and len(text) == 1 else text for text, byte in parts[1:]))


def escape_twice(spelling, name):
    return _each(spelling, name, lambda byte: (f"%25{byte:02X}", f"%2525{byte:02x}", f"%%{byte:02x}",
                                               f"%25%{ord(f'{byte:02x}'[0]):02x}{byte:02x}"[:9]))


def unescape(spelling, name):
    for text, byte in units(spelling.target):
        if len(text) == 3:
            for other in (text.lower(), text.upper(), chr(byte), "+" if byte == 0x20 else text):
                yield spelling.edit(name, target=spelling.target.replace(text, other))


def overlong(spelling, name):
    return _each(spelling, name, lambda byte: () if byte > 0x7f else (
        f"%{0xc0 | byte >> 6:02X}%{0x80 | byte & 63:02X}", f"%E0%{0x80 | byte >> 6:02X}%{0x80 | byte & 63:02X}",
        f"%F0%80%{0x80 | byte >> 6:02X}%{0x80 | byte & 63:02X}", f"%u00{byte:02x}", f"%U{byte:04X}"))


def look_alike(spelling, name):
    """Letters that some normalisation takes for another."""
    def make(byte):
        found = {"s": ["%C5%BF"], "S": ["%C5%BF"], "k": ["%E2%84%AA"], "i": ["%C4%B1", "%C4%B0"], "/": [
            "%E2%88%95", "%EF%BC%8F", "%E2%81%84"], ".": ["%EF%BC%8E", "%E3%80%82"]}.get(chr(byte), [])
        if 0x21 <= byte <= 0x7e:
            wide = chr(byte + 0xfee0).encode()
            found = [*found, "".join(f"%{one:02X}" for one in wide)]
        return found

    yield from _each(spelling, name, make)
    decoded = unquote_to_bytes(spelling.target.encode("latin-1"))
    try:
        text = decoded.decode()
    except UnicodeDecodeError:
        return
    for form in ("NFD", "NFKD", "latin-1"):
        try:
            data = text.encode("latin-1") if form == "latin-1" else unicodedata.normalize(form, text).encode()
        except UnicodeEncodeError:
            continue
        if data != decoded:
            yield spelling.edit(name, target="".join(
                chr(one) if one < 0x80 and chr(one) not in " %" else f"%{one:02X}" for one in data))


def case(spelling, name):
    target = spelling.target
    for i, letter in enumerate(target):
        if letter.isalpha() and letter.isascii() and target[max(0, i - 2):i].find("%") < 0:
            yield spelling.edit(name, target=target[:i] + letter.swapcase() + target[i + 1:])
    for other in (target.upper(), target.lower(), target.title()):
        if other != target:
            yield spelling.edit(name, target=other)


def _between(spelling, name, texts):
    """Each of the texts in the place of one slash."""
    target = spelling.target
    for i, letter in enumerate(target):
        if letter == "/":
            for text in texts:
                yield spelling.edit(name, target=target[:i] + text + target[i + 1:])


def dots(spelling, name):
    yield from _between(spelling, name, ("/./", "/%2e/", "/%2E/", "/.//", "//./", "/././"))
    for end in ("/.", "/%2e", "/./", "/x/..", "/x/../", "/x/%2e%2e", "/..", "/.."):
        yield spelling.edit(name, target=spelling.target + end)


def dot_dots(spelling, name):
    yield from _between(spelling, name, (
        "/x/../", "/x/%2e%2e/", "/x/.%2E/", "/x/%2e./", "/../", "/%2e%2e/", "/x/y/../../", "/x//../", "/x/..//",
        "/x/../../", "/x%2f../", "/x/..%2f", "/x%2f..%2f", "/x/..%5c", "/x\\..\\", "/.../", "/x/%252e%252e/"))
    last = spelling.target.rpartition("/")[2]
    if last:
        yield spelling.edit(name, target=spelling.target + "/../" + last)
        yield spelling.edit(name, target=spelling.target + "/x/../../" + last)


def dots_with_parameters(spelling, name):
    return _between(spelling, name, ("/.;/", "/.;a=b/", "/x/..;/", "/x/..;a/", "/;/", "/;a=b/", "/x/%2e%2e;/",
                                     "/..;/", "/x/..%3b/", "/.%3B/"))


def slashes(spelling, name):
    yield from _between(spelling, name, (
        "//", "///", "%2f", "%2F", "/%2f", "%2f/", "/%2F/", "\\", "/\\", "\\/", "\\\\", "%5c", "%5C", "/%5c",
        "%252f", "%255c", "//%2f", "|", ":/", "/~/", "/*/", "%u2215", "%00/", "/%00/", "/%20/", "/%09/", "/%0a/"))


def first_slashes(spelling, name):
    """What stands behind `//` can be taken for an authority."""
    for start in ("//x", "//a.test", "//a.test:80", "//x:y", "//u@x", "///x", "//x/y", "/\\x", "/x/", "//.",
                  "//%78", "//x:", "//127.0.0.1", "//[::1]", "/x:", "//x/..", "//x?", "//x;y", "/%2fx", "/%5cx"):
        yield spelling.edit(name, target=start + spelling.target)
    yield spelling.edit(name, target=spelling.target[1:])


def parameters(spelling, name):
    segments = spelling.target.split("/")
    for i in range(1, len(segments)):
        for text in (";", ";a=b", ";a;b=c", "%3b", "%3Ba=b", ";%2f", ";/", ";jsessionid=1", ";a=b/..", ",a", "!a",
                     ";.json", ";%00"):
            yield spelling.edit(name, target="/".join([*segments[:i], segments[i] + text, *segments[i + 1:]]))


def ending(spelling, name):
    for end in ("/", "//", "///", "/./", "%2f", "%5c", "\\", ".", "..", "...", "%20", "+", "%0a", "%0d", "%0d%0a",
                "%09", "%00", "%a0", "%c2%a0", "%ef%bb%bf", "%e2%80%8b", "~", "%23", "%3f", "%3fa=b", "%26", "*",
                ":", ":80", "$", "^", "'", '"', "%22", "|", "%", "%%", "%2", "%zz", "/*", "/x", "/%20", "/%0a",
                "/%00", "%252f", "%2500", "/.;", "/;", "/;a=b", "/%2e%2e;", "/index.html", "/index.php", "#",
                "#a", "/#", "&a=b"):
        yield spelling.edit(name, target=spelling.target + end)


def suffix(spelling, name):
    for end in (".json", ".xml", ".html", ".php", ".JSON", ".json/", ".csv", ".", ".a.b", "%2ejson", ".%6ason",
                ".json;a", "..json", ".json.", "/.json", "._"):
        yield spelling.edit(name, target=spelling.target + end)


def start(spelling, name):
    for text in ("/.", "/x/..", "/%2e", "/;", "/;a=b", "/index.php", "/index.html", "/*", "/%20", "/%0a", "/%00",
                 "/cgi-bin/..", "/http://a.test", "/%2f", "/~", "/static/..", "/static/%2e%2e", "/.well-known/..",
                 "/f/..", "/f/%2e%2e", "/f/..%2f..", "/u/..", "/u/x/..%2f..", "/v1/..", "/V1/.."):
        yield spelling.edit(name, target=text + spelling.target)


def each_byte(spelling, name):
    """Every byte, raw and escaped, at the start, in the middle and at the end of the last segment."""
    target = spelling.target
    last = target.rfind("/") + 1
    middle = last + max(0, (len(target) - last) // 2)
    if "%" in target[middle - 2:middle]:
        middle = last
    for byte in range(256):
        texts = [f"%{byte:02x}"]
        if chr(byte) not in "\r\n /?":
            texts.append(chr(byte))
        for text in texts:
            for at in {last, middle, len(target)}:
                yield spelling.edit(name, target=target[:at] + text + target[at:])


def query(spelling, name):
    old = "" if spelling.query is None else "&" + spelling.query
    for text in ("", "a=b", "/../x", "?", "a=%2f..", "#", "%00", "%zz", "%", "_method=POST", "/", "\\", ";", "&", "="):
        yield spelling.edit(name, query=text + old)


def absolute(spelling, name):
    for authority in HOSTS:
        if not spelling.authority:
            yield spelling.edit(name, authority=authority)


PATH_RULES = [(rule.__name__.replace("_", "-"), rule) for rule in (
    escape, escape_many, escape_twice, unescape, overlong, look_alike, case, dots, dot_dots,
    dots_with_parameters, slashes, first_slashes, parameters, ending, suffix, start, each_byte, query,
    absolute)]
