"""Pipelines of requests, and answers: right ones, ones that lie about where they end, and bytes.

All is drawn from one random.Random, so a seed is a case.
"""

METHODS = [b"GET"] * 6 + [b"POST"] * 6 + [
    b"HEAD", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"PURGE", b"M-SEARCH",
    b"get", b"CONNECT", b"PRI", b"!#$%&'*+-.^_`|~", b"A" * 32, b"A" * 33]
TARGETS = [b"/"] * 6 + [
    b"/a", b"/a/b?c=d", b"//a", b"/a/../b", b"/a/./b", b"/a;x=1/b", b"/..;/a", b"/%2e%2e/a", b"/a%2fb",
    b"/a%5cb", b"/a\\b", b"/a%00", b"/a%zz", b"/%", b"/%252f", b"/?a=%zz", b"/?%00", b"/a#b", b"*",
    b"http://a.test", b"http://a.test/x?y", b"HTTP://b.test:80/", b"http://a.test?q", b"http:///a",
    b"http://u@a.test/", b"ftp://a.test/", b"a.test:80", b"a", b"", b"/a b", b"/\x80", b"/\x7f",
    b"/\x00", b"/\t", b"/" + b"a" * 300, b"/" + b"a/" * 20, b"/" + b"x" * 9000, b"http://[::1]:80/",
    b"/p", b"/p/", b"/p/a?b", b"/p//a", b"/p/../a", b"/%70/a", b"/p;x/a", b"/p/%2e%2e/a", b"/x/../p/a", b"/pp", b"/P/a",
    b"//p/a", b"/p/../../p/a", b"/p/./a", b"/p/a/../..", b"/p/..;/b", b"/p/.", b"/p?a", b"http://a.test/p/b?c",
    b"https://a.test/", b"/a HTTP/1.1\r\nX: y", b"?a", b"/[]{}|^`\"<>"]
VERSIONS = [b"HTTP/1.1"] * 16 + [b"HTTP/1.0"] * 4 + [
    b"HTTP/1.2", b"HTTP/1.9", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b"HTTP/11", b"http/1.1", b"HTTP/1.",
    b"HTTP/ 1.1", b"HTTP/1,1", b"", b"HTTP/1.1 ", b"HTTP/01.1", b"HTTP/1.1\t", b"HTTP/1.\xb2", b"XTTP/1.1"]
HOSTS = [b"a.test"] * 8 + [
    b"", b"A.Test.:80", b"[::1]", b"[::1]:80", b"[::g]", b"a.test:", b"a.test:99999", b"a.test:0080",
    b"a b", b"a,b", b"u@a", b"a/b", b"a..b", b".a", b".", b"a_b", b"a%41", b"\xff", b"a:b", b"[1.2.3.4]",
    b"[::1", b"1.2.3.4", b"a.test?", b"a#b", b"a\tb", b"[::ffff:1.2.3.4]", b"[fe80::1%25eth0]"]
NAMES = [
    b"X", b"X-A", b"Cookie", b"X-Set", b"Accept", b"X_Y", b"Via", b"Date", b"User-Agent", b"X-Forwarded-For",
    b"Forwarded", b"X-Real-IP", b"X-Request-ID", b"Trailer", b"Upgrade", b"TE", b"Keep-Alive",
    b"Proxy-Connection", b"Proxy-Authorization", b"Set-Cookie", b"Content-Type", b"Expect",
    b"Max-Forwards", b"HTTP2-Settings", b"Content_Length", b"X-Forwarded_For", b"", b"X Y", b"X\x00",
    b"X\xe9", b"(X)", b"X/1", b":path", b"Authorization", b"RateLimit", b"Content-Encoding", b"Range"]
VALUES = [b"1", b"a, b", b"", b"a\tb", b"  a  ", b'"a, b"', b"\xe9", b"a\x00b", b"a\x0bb", b"a\rb", b"a\nb",
          b"\x7f", b"close", b"chunked", b"100-continue", b"websocket", b"trailers", b"x" * 200, b"a\r\n b",
          b"10.0.0.1", b"for=10.0.0.1", b"0", b"100-Continue, x", b"h2c", b"a;b=c", b"\\"]
CONNECTIONS = [b"close", b"keep-alive", b"Close", b"keep-alive, close", b"x, close", b"upgrade", b"te",
               b"X-A", b"x-a, X", b"host", b"Content-Length", b"transfer-encoding", b"cookie", b"", b",", b"a b",
               b'"close"', b"close\t", b"x-forwarded-for", b"via", b"TE, close", b"upgrade, HTTP2-Settings"]
LENGTHS = [b"+%d", b"-%d", b" %d", b"%d ", b"%d\t", b"0%d", b"0x%x", b"%d,", b",%d", b"%d, %d", b"%d,%d", b"%d.0",
           b"%de0", b"%d%%", b"\"%d\"", b"%d\x0b", b"%d;x", b"\x00%d", b"%d_0", b"1%d", b"", b"9223372036854775807",
           b"9223372036854775808", b"18446744073709551616", b"184467440737095516%d", b"\xc2\xb2%d",
           b"%d\r\n %d", b"a%d", b"%d a", b"%d0", b"4294967296", b"-0", b"-1", b"000000000000000000000%d"]
CODINGS = [b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked", b"\x0bchunked", b"chunked\x0b", b"chunked\x00",
           b"xchunked", b"chunked, chunked", b"chunked,", b",chunked", b"identity", b"identity, chunked",
           b"chunked, identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked;q=1", b"\"chunked\"",
           b"'chunked'", b"chunk", b"chunke", b"chunkedd", b"chunked\xa0", b"\xa0chunked", b"", b"x",
           b"cow, chunked", b"chunked\r\n , x", b"\r\n chunked", b"c\thunked", b"chunked\r", b"trailers",
           b"deflate, chunked", b"compress", b"chunked, cow", b"x,chunked", b"chunked; a=b"]
CODING_NAMES = [b"transfer-encoding", b"TRANSFER-ENCODING", b"Transfer_Encoding", b"Transfer-Encoding ",
                b" Transfer-Encoding", b"Transfer-Encoding\t", b"Transfer-Encoding\x0b", b"Transfer Encoding",
                b"\x00Transfer-Encoding", b"Transfer-Encoding\x00", b"X: y\nTransfer-Encoding", b"Transfer-Encodin",
                b"X:\rTransfer-Encoding", b"Transfer-Encoding:", b"\tTransfer-Encoding", b"Transfer\xadEncoding",
                b"TE", b"Content-Encoding", b"Transfer-Encoding\r\n", b"X-Transfer-Encoding"]
LENGTH_NAMES = [b"content-length", b"CONTENT-LENGTH", b"Content_Length", b"Content-Length ", b" Content-Length",
                b"Content-Length\x00", b"Content-Lengt\xcc", b"X: y\nContent-Length", b"Content Length",
                b"\tContent-Length", b"Content-Length:", b"Content-Length\x0b", b"Content--Length"]
SIZES = [b"0%x", b"%X", b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%xg", b"1%x", b"%x0", b"", b"%x,", b"%x;",
         b"%x;a", b"%x;a=b", b"%x ;a=b", b"%x; a", b"%x;a=\"b\"", b"%x;\r", b"%x;a\nb", b"%x;a=\x00", b"%x\n", b"%x\r",
         b"00000000000000000%x", b"8000000000000000", b"7fffffffffffffff", b"fffffffffffffffff%x", b"%x;=b", b"%x;;",
         b"%x;" + b"a" * 100, b"%x;" + b"a" * 300, b"%x\x00", b"%x\x0b", b"\xb2%x", b"%x.0", b"%x\xa0", b"1_%x"]
ENDS = [b"\n", b"\r", b"", b"\r\r\n", b"\n\r", b"\r\n\r\n", b" \r\n", b"\0\r\n", b"\x0b\r\n", b"\xc2\x85"]
PIECES = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"\x0b", b"\x0c", b"\x7f", b"\x80", b"\xff",
          b"\xc2\xa0", b"_", b"0", b"1", b"0\r\n\r\n", b"\r\n\r\n", b"chunked", b"Content-Length: 3\r\n",
          b"Transfer-Encoding: chunked\r\n", b"GET /inner HTTP/1.1\r\nHost: a.test\r\n\r\n", b"Host: b.test\r\n",
          b" HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"-", b"+", b"x", b"\"", b"\\", b"%00",
          b"Connection: close\r\n", b"POST", b"/", b"http://"]
BODIES = [b"", b"a", b"abc", b"0\r\n\r\n", b"GET /inner HTTP/1.1\r\nHost: a.test\r\n\r\n", b"x" * 100, b"\r\n",
          b"5\r\nhello\r\n0\r\n\r\n", b"y" * 5000, b"\0\xff\n\r", b"z" * 70000]
TRAILERS = [b"X-T: 1", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Host: b", b"X T: 1", b" X: 1", b"X",
            b"Authorization: a", b"X: \x00", b"X: a\rb", b"X-T: " + b"t" * 500, b"Connection: x", b"Cookie: a=b"]


def filled(pattern, number):
    """`pattern` with the number in each of its places."""
    n = pattern.count(b"%d") + pattern.count(b"%x") + pattern.count(b"%X")
    return pattern % ((number,) * n) if n else pattern.replace(b"%%", b"%")


def chunked(rng, body, is_odd):
    """A chunked body; an odd one has something wrong, or unusual, somewhere."""
    pieces, at = [], 0
    while at < len(body):
        n = rng.randint(1, max(1, len(body) - at))
        pieces.append(body[at:at + n])
        at += n
    pieces.append(b"")
    odd = rng.randrange(len(pieces)) if is_odd else -1
    out = bytearray()
    for i, piece in enumerate(pieces):
        is_last = i == len(pieces) - 1
        size = filled(rng.choice(SIZES) if i == odd and rng.random() < .6 else b"%x", len(piece))
        out += size + (rng.choice(ENDS) if i == odd and rng.random() < .3 else b"\r\n") + piece
        if not is_last:
            out += rng.choice(ENDS) if i == odd and rng.random() < .3 else b"\r\n"
    if rng.random() < (.4 if is_odd else .1):
        out += b"".join(rng.choice(TRAILERS) + b"\r\n" for _ in range(rng.randint(1, 3)))
    return bytes(out) + (rng.choice(ENDS) if is_odd and rng.random() < .2 else b"\r\n")


def _odd_length(rng, body):
    number = rng.choice([len(body)] * 4 + [len(body) + 1, max(len(body) - 1, 0), 0])
    if rng.random() < .3:
        return rng.choice(LENGTH_NAMES) + b": %d" % number
    return b"Content-Length: " + filled(rng.choice(LENGTHS), number)


def _odd_coding(rng):
    if rng.random() < .4:
        return rng.choice(CODING_NAMES) + b": chunked"
    return b"Transfer-Encoding: " + rng.choice(CODINGS)


def framed(rng, body, is_odd):
    """The fields that frame `body`, and its bytes. An odd framing has one thing wrong, or unusual: in
    a field, between two of them, or in the chunks."""
    coding, length = b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(body)
    if not is_odd:
        return rng.choice([([coding], chunked(rng, body, False)), ([length], body)])
    kind = rng.randrange(8)
    if kind == 0:
        return [_odd_length(rng, body)], body
    if kind == 1:
        return [_odd_coding(rng)], chunked(rng, body, False)
    if kind <= 4:
        return [coding], chunked(rng, body, True)
    if kind == 5:
        return rng.choice([[length, length], [length, _odd_length(rng, body)], [_odd_length(rng, body), length],
                           [length, b"Content-Length: 0"], []]), body
    if kind == 6:
        return rng.choice([[coding, coding], [coding, _odd_coding(rng)], [_odd_coding(rng), coding],
                           [_odd_coding(rng), _odd_coding(rng)]]), chunked(rng, body, False)
    chunks = chunked(rng, body, rng.random() < .2)
    lengths = [length, b"Content-Length: %d" % len(chunks), b"Content-Length: 0", b"Content-Length: 4",
               _odd_length(rng, body)]
    fields = [rng.choice([coding, _odd_coding(rng)]), rng.choice(lengths)]
    rng.shuffle(fields)
    return fields, rng.choice([chunks, chunks, body])


ASPECTS = ["method", "target", "version", "host", "hosts", "fields", "connection", "framing", "framing",
           "framing", "ends", "order", "spaces", "colon"]


def request(rng, is_odd):
    """One request. An odd one is unusual, or wrong, in an aspect or a few."""
    odd = rng.sample(ASPECTS, rng.choice([1, 1, 1, 2, 3])) if is_odd else []

    def pick(aspect, choices):
        return rng.choice(choices) if aspect in odd else choices[0]

    method = pick("method", METHODS) if rng.random() < .3 else rng.choice(
        [b"GET", b"GET", b"POST", b"HEAD", b"PUT"])
    lines = [pick("spaces", [b" ", b"  ", b"\t", b"\x0b", b""]).join(
        [method, pick("target", TARGETS), pick("version", VERSIONS)])]
    lines.append(b"Host: " + pick("host", HOSTS))
    if "hosts" in odd:
        lines.append(b"Host: " + rng.choice(HOSTS))
    for _ in range(rng.choice([0, 1, 2, 5])):
        lines.append(rng.choice(NAMES if "fields" in odd else NAMES[:10]) +
                     pick("colon", [b": ", b":", b" : ", b":\t", b""]) +
                     rng.choice(VALUES if "fields" in odd else VALUES[:5]))
    if "connection" in odd or rng.random() < .1:
        lines.append(b"Connection: " + rng.choice(CONNECTIONS if "connection" in odd else CONNECTIONS[1:2]))
    body = b""
    if method not in (b"GET", b"HEAD") or "framing" in odd or rng.random() < .1:
        fields, body = framed(rng, rng.choice(BODIES), "framing" in odd)
        for line in fields:
            lines.insert(rng.randint(1, len(lines)), line)
    if "order" in odd:
        rng.shuffle(lines)
    ends = [b"\r\n"] * len(lines)
    if "ends" in odd:
        ends[rng.randrange(len(ends))] = rng.choice(ENDS)
    end = rng.choice(ENDS) if "ends" in odd and rng.random() < .2 else b"\r\n"
    return b"".join(a + b for a, b in zip(lines, ends)) + end + body


def mutated(rng, data):
    """`data` with a few bytes or runs of bytes changed."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        at, until = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        what = rng.randrange(8)
        if what <= 2:
            data[at:at] = rng.choice(PIECES)
        elif what == 3:
            data[at:at + rng.randint(1, 4)] = rng.choice(PIECES)
        elif what == 4:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif what == 5:
            del data[at:at + rng.randint(1, 8)]
        elif what == 6:
            data[at:at] = data[at:until][:2000]
        elif rng.random() < .3:
            del data[until:]
    return bytes(data)


def pipeline(rng, seeds):
    """What a client sends on one connection. `seeds`: bytes to begin with, now and then."""
    if seeds and rng.random() < .2:
        return mutated(rng, rng.choice(seeds)) + request(rng, False)
    n = rng.choice([1, 1, 2, 2, 3, 5])
    is_odd = rng.random() < .8
    data = b"".join(rng.choice([b""] * 30 + [b"\r\n", b"\n", b"\r\n" * 5]) * is_odd +
                    request(rng, is_odd and rng.random() < .5) for _ in range(n))
    return mutated(rng, data) if rng.random() < .3 else data


def pieces(rng, data):
    """`data` as a client may send it: mostly whole, sometimes cut anywhere."""
    n = rng.choice([1] * 7 + [2, 2, 4])
    cuts = sorted(rng.randint(0, len(data)) for _ in range(n - 1))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)]) if a < b] or [b"\r\n"]
