"""What RFC 9113 and RFC 7541 ask of a server, section by section, by raw frames against the whole program: in plain
text and over TLS. The cases are those of the public conformance suite (generic, http2, hpack), which accepts any close
for a connection error; here GOAWAY has to bear the code."""

import itertools
import socket
import ssl
import subprocess

import hpack
import pytest
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from harness.http2 import PREFACE, TIMEOUT_S, Closed, Http2Client
from harness.upstream import answer
from harness.wait import until

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
EXTENSION = 0x16
ACK, END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
TABLE_SIZE, PUSH, STREAMS, WINDOW, FRAME_SIZE, LIST_SIZE = range(1, 7)  # settings
FRAME_BYTES = 16384
CANCEL = 8
BODY = b"0123456789"
ANSWER = "the answer"  # a step: wait for the end of stream 1
ACKED = "the settings"  # a step: wait until the proxy has taken them
SOME_DATA = "some data"  # a step: wait for DATA


# --- what is sent ---

def frame(kind, stream, payload=b"", flags=0, length=None):
    length = len(payload) if length is None else length
    return length.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def block(fields):
    return hpack.Encoder().encode(fields)  # refers to nothing that came before


def request(method="GET", path="/", scheme="http", authority="a.test", more=()):
    """Its fields, without the pseudo-fields that are None."""
    pseudo = ((":method", method), (":scheme", scheme), (":path", path), (":authority", authority))
    return [field for field in pseudo if field[1] is not None] + list(more)


def head(fields=None, stream=1, flags=END_HEADERS | END_STREAM, behind=b"", before=b""):
    return frame(HEADERS, stream, before + block(request() if fields is None else fields) + behind, flags)


def settings(*pairs):
    return frame(SETTINGS, 0, b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs))


def data(payload=b"test", stream=1, flags=END_STREAM):
    return frame(DATA, stream, payload, flags)


def priority(stream, on=0, weight=255):
    return frame(PRIORITY, stream, on.to_bytes(4, "big") + bytes([weight]))


def reset(stream=1, code=CANCEL):
    return frame(RST_STREAM, stream, code.to_bytes(4, "big"))


def window(increment, stream=0):
    return frame(WINDOW_UPDATE, stream, increment.to_bytes(4, "big"))


def ping(payload=b"12345678", stream=0, flags=0):
    return frame(PING, stream, payload, flags)


def goes_on(stream=1, flags=END_HEADERS, fields=(("x-dummy", "x" * 4000),)):
    return frame(CONTINUATION, stream, block(list(fields)), flags)


GET = head()
POST = head(request("POST"), flags=END_HEADERS)
OPEN = head(flags=0)  # its block goes on
BLOCK = block(request())


# --- what comes ---

def dies(*codes):
    """A connection error."""
    def check(client):
        assert client.read_goaway() in codes
    check.__name__ = f"dies of {' or '.join(codes)}"
    return check


def resets(*codes, may_die=True):
    """A stream error, behind which the connection goes on; or a connection error, which may stand in its place."""
    def check(client):
        found = client.answer_of(1)
        try:
            client.read_until(lambda: found.reset not in (None, "NO_ERROR") or client.goaway)
        except Closed:
            pass
        if client.goaway:
            assert may_die and client.goaway[1] in codes
            return
        assert found.reset in codes
        client.pong()
        assert client.ask(path="/next").status == 200
    return check


def answers(status=200):
    def check(client):
        assert client.answer(1).status == status
        assert client.ask(path="/next").status == 200
    return check


def pongs(client):
    client.read_until(lambda: client.frames and client.frames[-1].type == PING and "ACK" in client.frames[-1].flags)
    assert client.frames[-1].opaque_data == b"12345678"
    assert [each.type for each in client.frames].count(PING) == 1
    client.pong()


def pongs_or_dies(client):
    try:
        pongs(client)
    except Closed:
        pass


def sends(n_bytes):
    """DATA of that size next."""
    def check(client):
        n = len(client.frames)
        client.read_until(lambda: any(isinstance(each, DataFrame) for each in client.frames[n:]))
        assert len(client.frames[-1].data) == n_bytes
        client.pong()  # and no more
        assert not [each for each in client.frames[n:-1] if isinstance(each, DataFrame)][1:]
    return check


def closes(client):
    assert client.read_to_end() in (None, "NO_ERROR")


def is_no_http_2(client):
    """In plain text it may be HTTP/1.1, and is answered so."""
    assert client.read_to_end() in (None, "PROTOCOL_ERROR")


def acks(client):
    _await_settings(client)
    client.pong()


def refuses_the_last(client):
    client.read_until(lambda: any(each.reset for each in client.answers.values()))
    assert {stream: each.reset for stream, each in client.answers.items() if each.reset} == {201: "REFUSED_STREAM"}


def _await_settings(client):
    n = client.n_acks
    client.n_acks += 1
    client.read_until(lambda: [each for each in client.frames
                               if isinstance(each, SettingsFrame) and "ACK" in each.flags][n:])


PROTOCOL, CLOSED, SIZE = dies("PROTOCOL_ERROR"), dies("STREAM_CLOSED"), dies("FRAME_SIZE_ERROR")
COMPRESSION, FLOW = dies("COMPRESSION_ERROR"), dies("FLOW_CONTROL_ERROR")
MALFORMED = resets("PROTOCOL_ERROR", may_die=False)


def with_fields(*more):
    return (head(request(more=more)),)


def without(name):
    return (head([field for field in request() if field[0] != name]),)


LITERALS = [  # user-agent: h2spec and x-test: h2spec, as text and by Huffman's code
    ("an indexed field", "ba"),
    *((f"a literal {kind}, {what}", f"{first}{rest}")
      for kind, first in (("that is indexed", "40"), ("without indexing", "00"), ("never indexed", "10"))
      for what, rest in (("user-agent", "0a757365722d6167656e7406683273706563"),
                         ("user-agent by Huffman", "87b505b161cc5a93849c48aca4"),
                         ("x-test", "06782d7465737406683273706563"),
                         ("x-test by Huffman", "85f2b24a84ff849c48aca4"))),
]

# Section of RFC 9113, or of RFC 7541 with an H; what is tried; what is sent; what follows.
CASES = [
    ("3.4 an invalid preface", (b"INVALID CONNECTION PREFACE\r\n\r\n",), is_no_http_2),

    ("4.1 a frame of an unknown type", (frame(EXTENSION, 0, bytes(8)), ping()), pongs),
    ("4.1 undefined flags", (ping(flags=EXTENSION),), pongs),
    ("4.1 the reserved bit", (ping(flags=EXTENSION, stream=1 << 31),), pongs),
    ("4.2 DATA of 2^14 bytes", (POST, data(bytes(FRAME_BYTES))), answers()),
    ("4.2 DATA of more", (POST, data(bytes(FRAME_BYTES + 1))), resets("FRAME_SIZE_ERROR")),
    ("4.2 HEADERS of more", with_fields(*((f"x-dummy{i}", "x" * 4000) for i in range(6))), SIZE),
    ("4.3 a block that cannot be read", (frame(HEADERS, 1, b"\x40", END_HEADERS | END_STREAM),), COMPRESSION),
    ("4.3 PRIORITY in a block", (OPEN, priority(1), goes_on()), PROTOCOL),
    ("4.3 HEADERS of another stream in a block", (OPEN, head(stream=3), goes_on()), PROTOCOL),

    ("5.1 idle: DATA", (data(),), PROTOCOL),
    ("5.1 idle: RST_STREAM", (reset(),), PROTOCOL),
    ("5.1 idle: WINDOW_UPDATE", (window(100, 1),), PROTOCOL),
    ("5.1 idle: CONTINUATION", (goes_on(fields=request()),), PROTOCOL),
    ("5.1 idle: PRIORITY", (priority(1), ping()), pongs),
    ("5.1 half-closed: DATA", (GET, data()), resets("STREAM_CLOSED")),
    ("5.1 half-closed: HEADERS", (GET, GET), resets("STREAM_CLOSED")),
    ("5.1 half-closed: CONTINUATION", (GET, goes_on(fields=request())), resets("STREAM_CLOSED", "PROTOCOL_ERROR")),
    ("5.1 half-closed: WINDOW_UPDATE", (settings((WINDOW, 0)), GET, window(1, 1)), sends(1)),
    ("5.1 half-closed: PRIORITY", (settings((WINDOW, 0)), GET, priority(1), window(1, 1)), sends(1)),
    ("5.1 half-closed: RST_STREAM", (GET, reset(), ping()), pongs_or_dies),
    ("5.1 reset: DATA", (POST, reset(), data()), resets("STREAM_CLOSED")),
    ("5.1 reset: HEADERS", (POST, reset(), GET), resets("STREAM_CLOSED")),
    ("5.1 reset: CONTINUATION", (POST, reset(), goes_on()), resets("STREAM_CLOSED", "PROTOCOL_ERROR")),
    ("5.1 closed: DATA", (GET, ANSWER, data()), CLOSED),
    ("5.1 closed: HEADERS", (GET, ANSWER, GET), CLOSED),
    ("5.1 closed: CONTINUATION", (GET, ANSWER, goes_on()), dies("STREAM_CLOSED", "PROTOCOL_ERROR")),
    ("5.1 closed: PRIORITY", (GET, ANSWER, priority(1), ping()), pongs),
    ("5.1.1 an even stream", (head(stream=2),), PROTOCOL),
    ("5.1.1 a stream below an earlier one", (head(stream=5), head(stream=3)), PROTOCOL),
    ("5.1.2 streams beyond the maximum",
     (settings((WINDOW, 0)), *(head(stream=1 + 2 * i) for i in range(101))), refuses_the_last),
    ("5.3.1 HEADERS that depend on themselves",
     (head(flags=END_HEADERS | END_STREAM | WITH_PRIORITY, before=b"\0\0\0\1\xff"),), resets("PROTOCOL_ERROR")),
    ("5.3.1 PRIORITY that depends on itself", (priority(1, on=1),), resets("PROTOCOL_ERROR")),
    ("5.4.1 GOAWAY and the close", (ping(stream=3),), PROTOCOL),
    ("5.5 an extension", (frame(EXTENSION, 0, bytes(8)), ping()), pongs),
    ("5.5 an extension in a block", (OPEN, frame(EXTENSION, 0, bytes(8))), PROTOCOL),

    ("6.1 DATA of one frame", (POST, data()), answers()),
    ("6.1 DATA of two frames", (POST, data(flags=0), data()), answers()),
    ("6.1 DATA with padding", (POST, data(b"\6testpadded", flags=END_STREAM | PADDED)), answers()),
    ("6.1 DATA of no stream", (data(stream=0),), PROTOCOL),
    ("6.1 DATA of a half-closed stream", (head(request("POST")), data()), resets("STREAM_CLOSED")),
    ("6.1 DATA with too much padding",
     (head(request("POST", more=[("content-length", "4")]), flags=END_HEADERS), data(b"\6Test", flags=9)), PROTOCOL),
    ("6.2 HEADERS with padding",
     (head(flags=END_HEADERS | END_STREAM | PADDED, before=b"\10", behind=bytes(8)),), answers()),
    ("6.2 HEADERS with a priority",
     (head(flags=END_HEADERS | END_STREAM | WITH_PRIORITY, before=b"\0\0\0\0\xff"),), answers()),
    ("6.2 HEADERS of no stream", (head(stream=0),), PROTOCOL),
    ("6.2 HEADERS with too much padding",
     (frame(HEADERS, 1, bytes([len(BLOCK) + 2]) + BLOCK, END_HEADERS | END_STREAM | PADDED),),
     resets("PROTOCOL_ERROR")),
    ("6.3 PRIORITY 1", (priority(1, weight=0), GET), answers()),
    ("6.3 PRIORITY 256", (priority(1, weight=255), GET), answers()),
    ("6.3 PRIORITY on a stream", (priority(3, on=1, weight=0), GET), answers()),
    ("6.3 PRIORITY that is exclusive", (priority(1, on=1 << 31, weight=0), GET), answers()),
    ("6.3 PRIORITY above the next HEADERS", (priority(3), GET), answers()),
    ("6.3 PRIORITY of no stream", (priority(0),), PROTOCOL),
    ("6.3 PRIORITY of 4 bytes", (GET, frame(PRIORITY, 1, b"\x80\0\0\1")), resets("FRAME_SIZE_ERROR")),
    ("6.4 RST_STREAM", (POST, reset(), ping()), pongs),
    ("6.4 RST_STREAM of no stream", (reset(0),), PROTOCOL),
    ("6.4 RST_STREAM of 3 bytes", (GET, frame(RST_STREAM, 1, bytes(3))), SIZE),
    ("6.5 SETTINGS", (settings((TABLE_SIZE, 4096), (PUSH, 1), (STREAMS, 100), (WINDOW, 65535),
                               (FRAME_SIZE, 16384), (LIST_SIZE, 100)),), acks),
    ("6.5 ACK with a payload", (frame(SETTINGS, 0, b"\0", ACK),), SIZE),
    ("6.5 SETTINGS of a stream", (frame(SETTINGS, 1, b"\0\3\0\0\0\x64"),), PROTOCOL),
    ("6.5 SETTINGS of 9 bytes, of which 8 come", (frame(SETTINGS, 0, b"\0\3\0\0\0\x64\0\2", length=9),), SIZE),
    ("6.5.2 push of 2", (settings((PUSH, 2)),), PROTOCOL),
    ("6.5.2 a window of 2^31", (settings((WINDOW, 1 << 31)),), FLOW),
    ("6.5.2 frames below 2^14", (settings((FRAME_SIZE, 16383)),), PROTOCOL),
    ("6.5.2 frames of 2^24", (settings((FRAME_SIZE, 1 << 24)),), PROTOCOL),
    ("6.5.2 an unknown setting", (settings((0xff, 1)), ping()), pongs),
    ("6.5.3 the last of two values counts", (settings((WINDOW, 100), (WINDOW, 1)), ACKED, GET), sends(1)),
    ("6.5.3 ACK at once", (settings((PUSH, 0)),), acks),
    ("6.7 PING", (ping(),), pongs),
    ("6.7 PING with ACK", (ping(b"invalid!", flags=ACK), ping()), pongs),
    ("6.7 PING of a stream", (ping(stream=1),), PROTOCOL),
    ("6.7 PING of 6 bytes", (ping(bytes(6)),), SIZE),
    ("6.7 PING of 6 bytes, of a stream", (ping(bytes(6), stream=1),), dies("FRAME_SIZE_ERROR", "PROTOCOL_ERROR")),
    ("6.8 GOAWAY", (frame(GOAWAY, 0, bytes(8) + b"debug"),), closes),
    ("6.8 GOAWAY of a stream", (frame(GOAWAY, 1, bytes(8)),), PROTOCOL),
    ("6.9 WINDOW_UPDATE of the connection", (window(1), ping()), pongs),
    ("6.9 WINDOW_UPDATE of a stream", (GET, window(1, 1)), answers()),
    ("6.9 WINDOW_UPDATE of 0", (window(0),), PROTOCOL),
    ("6.9 WINDOW_UPDATE of 0 on a stream", (POST, window(0, 1)), resets("PROTOCOL_ERROR")),
    ("6.9 WINDOW_UPDATE of 3 bytes", (frame(WINDOW_UPDATE, 0, b"\0\0\1"),), SIZE),
    ("6.9.1 a window of 1", (settings((WINDOW, 1)), ACKED, GET), sends(1)),
    ("6.9.1 the window above 2^31 - 1", (window(2**31 - 1), window(2**31 - 1)), FLOW),
    ("6.9.1 a stream's window above 2^31 - 1", (POST, window(2**31 - 1, 1), window(2**31 - 1, 1)),
     resets("FLOW_CONTROL_ERROR", may_die=False)),
    ("6.9.2 the window grows behind HEADERS", (settings((WINDOW, 0)), ACKED, GET, settings((WINDOW, 1))), sends(1)),
    ("6.9.2 the window is negative",
     (settings((WINDOW, 3)), ACKED, GET, SOME_DATA, settings((WINDOW, 2)), ACKED, window(2, 1)), sends(1)),
    ("6.9.2 a window of 2^31", (settings((WINDOW, 1 << 31)),), FLOW),
    ("6.10 CONTINUATION", (frame(HEADERS, 1, BLOCK[:5], END_STREAM), frame(CONTINUATION, 1, BLOCK[5:], END_HEADERS)),
     answers()),
    ("6.10 CONTINUATION twice", (frame(HEADERS, 1, BLOCK[:5], END_STREAM), frame(CONTINUATION, 1, BLOCK[5:10]),
                                 frame(CONTINUATION, 1, BLOCK[10:], END_HEADERS)), answers()),
    ("6.10 CONTINUATION of long fields", (head(flags=END_STREAM), goes_on(flags=0), goes_on()), answers()),
    ("6.10 DATA behind CONTINUATION", (OPEN, goes_on(flags=0), data()), PROTOCOL),
    ("6.10 CONTINUATION of no stream", (OPEN, goes_on(0)), PROTOCOL),
    ("6.10 CONTINUATION behind the end", (GET, goes_on()), PROTOCOL),
    ("6.10 CONTINUATION behind its end", (OPEN, goes_on(), goes_on()), PROTOCOL),
    ("6.10 CONTINUATION behind DATA", (OPEN, data(), goes_on(flags=0), goes_on(0)), PROTOCOL),

    ("7 GOAWAY with an unknown code", (frame(GOAWAY, 0, b"\0\0\0\0\0\0\0\xff"),), closes),
    ("7 RST_STREAM with an unknown code", (POST, reset(code=0xff), ping()), pongs),

    ("8.1 GET", (GET,), answers()),
    ("8.1 HEAD", (head(request("HEAD")),), answers()),
    ("8.1 POST", (POST, data()), answers()),
    ("8.1 POST with trailers",
     (head(request("POST", more=[("trailer", "x-test")]), flags=END_HEADERS), data(flags=0), head([("x-test", "ok")])),
     answers()),
    ("8.1 HEADERS again without an end", (POST, data(flags=0), head([("x-test", "ok")], flags=END_HEADERS)), MALFORMED),
    ("8.1.1 a body that is longer than its length",
     (head(request("POST", more=[("content-length", "1")]), flags=END_HEADERS), data()), MALFORMED),
    ("8.1.1 a body of two frames that is longer",
     (head(request("POST", more=[("content-length", "1")]), flags=END_HEADERS), data(flags=0), data()),
     resets("PROTOCOL_ERROR")),
    ("8.2.1 a name in upper case", with_fields(("X-TEST", "ok")), MALFORMED),
    ("8.2.2 Connection", with_fields(("connection", "keep-alive")), MALFORMED),
    ("8.2.2 TE", with_fields(("trailers", "test"), ("te", "trailers, deflate")), MALFORMED),
    ("8.3 an unknown pseudo-field", with_fields((":test", "ok")), MALFORMED),
    ("8.3 a pseudo-field of responses", with_fields((":status", "200")), MALFORMED),
    ("8.3 a pseudo-field in trailers",
     (POST, data(flags=0), head([(":method", "POST")])), MALFORMED),
    ("8.3 a pseudo-field behind others", (head([("x-test", "ok"), *request()]),), MALFORMED),
    ("8.3.1 an empty path", (head(request(path="")),), MALFORMED),
    ("8.3.1 no method", without(":method"), MALFORMED),
    ("8.3.1 no scheme", without(":scheme"), MALFORMED),
    ("8.3.1 no path", without(":path"), MALFORMED),
    ("8.3.1 two methods", with_fields((":method", "GET")), MALFORMED),
    ("8.3.1 two schemes", with_fields((":scheme", "http")), MALFORMED),
    ("8.3.1 two paths", with_fields((":path", "/")), MALFORMED),
    ("8.4 PUSH_PROMISE", (frame(PUSH_PROMISE, 1, b"\0\0\0\3" + BLOCK, END_HEADERS),), PROTOCOL),

    ("H2.3.3 an index beyond the tables", (head(behind=b"\xfe"),), COMPRESSION),
    ("H4.2 a size update at the end", (head(behind=b"\x21"),), COMPRESSION),
    ("H4.2 two size updates", (head(before=b"\x20\x3f\xe1\x1f"),), answers()),
    ("H5.2 padding above 7 bits", (head(behind=bytes.fromhex("0085f2b24a84ff8449509fff")),), COMPRESSION),
    ("H5.2 padding of zeros", (head(behind=bytes.fromhex("0085f2b24a84ff83495090")),), COMPRESSION),
    ("H5.2 the end of strings within", (head(behind=bytes.fromhex("0085f2b24a87fffffffd25427f")),), COMPRESSION),
    ("H6.1 index 0", (head(behind=b"\x80"),), COMPRESSION),
    *((f"H6.2 {name}", (head(request(more=[("x-before", "h2spec")]), behind=bytes.fromhex(rest)),), answers())
      for name, rest in LITERALS),
    ("H6.3 a size update", (head(before=b"\x20"),), answers()),
    ("H6.3 a size beyond the maximum", (head(before=b"\x3f\xe2\x1f"),), COMPRESSION),
]


@pytest.fixture(scope="module", name="upstream")
def the_upstream(start_shared_upstream):
    return start_shared_upstream(answer=answer(body=BODY))


@pytest.fixture(scope="module", name="places")
def the_places(start_shared, upstream, tmp_path_factory):
    """Where the proxy listens, by the name of the transport."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", folder / "k.pem", "-out", folder / "c.pem", "-days", "99", "-subj", "/CN=a",
                    "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    proxy = start_shared("listen:\n"
                         "  - {address: 127.0.0.1:0, http: [2, 1.1]}\n"
                         f"  - {{address: 127.0.0.1:0, tls: {{cert: {folder}/c.pem, key: {folder}/k.pem}}}}\n"
                         f"upstream: {upstream.url}")
    return dict(zip(("text", "tls"), until(lambda: proxy.find_addresses(2), "both addresses")))


@pytest.fixture(name="client")
def a_client(places, transport):
    sock = socket.create_connection(places[transport.partition(",")[0]], timeout=TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if transport == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        sock = context.wrap_socket(sock)
    client = Http2Client(None, sock=sock, is_greeted=False)
    client.n_acks = 0
    with client:
        yield client


def in_pieces(steps, transport):
    """The steps as they are, byte by byte, or with nothing between those that follow one another."""
    for are_bytes, group in itertools.groupby(steps, lambda step: isinstance(step, bytes)):
        group = list(group)
        if are_bytes and transport == "text, whole":
            yield b"".join(group)
        elif are_bytes and transport == "text, by bytes":
            yield from (bytes([byte]) for byte in b"".join(group))
        else:
            yield from group


def take_step(client, step):
    if step is ANSWER:
        client.read_until(lambda: client.answer_of(1).is_ended)
    elif step is ACKED:
        _await_settings(client)
    elif step is SOME_DATA:
        client.read_until(lambda: isinstance(client.frames[-1], DataFrame))
    else:
        client.send_raw(step)


@pytest.mark.parametrize("transport", ["text", "text, whole", "text, by bytes", "tls"])
@pytest.mark.parametrize("steps, check", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_section(client, transport, steps, check):
    if not steps[0].startswith(b"INVALID"):
        client.send_raw(PREFACE + settings())
        _await_settings(client)
        assert isinstance(client.frames[0], SettingsFrame) and "ACK" not in client.frames[0].flags  # section 3.4
    client.next_id = 203  # beyond those of the cases
    try:
        for step in in_pieces(steps, transport):
            take_step(client, step)
    except OSError:
        pass  # the proxy closed before the last one
    check(client)


MALFORMED_HEAD = "PROTOCOL_ERROR"

# What is tried; the fields; the code of RST_STREAM, the status, or the fields that the upstream finds.
HEADS = [
    ("CONNECT", request("CONNECT", None, None, "a.test:443"), 501),
    ("CONNECT with a path", request("CONNECT"), MALFORMED_HEAD),
    ("CONNECT without an authority", request("CONNECT", None, None, None), MALFORMED_HEAD),
    ("CONNECT with a protocol", [(":protocol", "websocket"), *request("CONNECT")], MALFORMED_HEAD),
    ("OPTIONS *", request("OPTIONS", "*"), {"": "OPTIONS *"}),
    ("GET *", request(path="*"), MALFORMED_HEAD),
    ("an absolute path", request(path="http://b.test/x"), MALFORMED_HEAD),
    ("a relative path", request(path="x"), MALFORMED_HEAD),
    ("a query alone", request(path="?a=b"), MALFORMED_HEAD),
    ("a fragment", request(path="/x#y"), 400),
    ("a space in the path", request(path="/a b"), 400),
    ("a space in the method", request("GE T"), 400),
    ("a known method in lower case", request("get"), 400),
    ("a path of two slashes", request(path="//x/y"), {"": "GET //x/y", "Host": "a.test"}),
    ("another scheme", request(scheme="ftp"), MALFORMED_HEAD),
    ("https", request(scheme="https"), {"Host": "a.test"}),
    ("Host alone", request(authority=None, more=[("host", "b.test")]), {"Host": "b.test"}),
    ("Host that is the authority", request(more=[("host", "A.Test")]), {"Host": "A.Test"}),
    ("Host that differs", request(more=[("host", "b.test")]), MALFORMED_HEAD),
    ("neither Host nor authority", request(authority=None), 400),
    ("Host twice", request(authority=None, more=[("host", "a.test"), ("host", "a.test")]), 400),
    ("a port", request(authority="a.test:80"), {"Host": "a.test:80"}),
    ("userinfo", request(authority="u@a.test"), 400),
    ("an empty authority", request(authority=""), MALFORMED_HEAD),
    ("TE: trailers", request(more=[("te", "trailers")]), {"TE": "trailers", "Connection": "TE"}),
    ("an empty TE", request(more=[("te", "")]), MALFORMED_HEAD),
    *((f"{name} of a connection", request(more=[(name, value)]), MALFORMED_HEAD)
      for name, value in (("transfer-encoding", "chunked"), ("upgrade", "h2c"), ("keep-alive", "timeout=1"),
                          ("proxy-connection", "close"))),
    *((f"{what} in a value", request(more=[("x", value)]), MALFORMED_HEAD)
      for what, value in (("CRLF", "a\r\nb: c"), ("LF", "a\nb"), ("NUL", "a\0b"), ("a space first", " a"))),
    *((f"the name {name!r}", request(more=[(name, "a")]), MALFORMED_HEAD) for name in ("", "x:y", "x y", "X", "x\r\ny")),
    ("crumbs of a cookie", request(more=[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]),
     {"Cookie": "a=1; b=2; c=3", "X": "y"}),
    ("crumbs between others, almost as long as a head may be",
     request(more=[("cookie", "x" * 8000), ("x", "y"), ("cookie", "b=2"), ("z", ""), ("cookie", "y" * 5000)]),
     {"Cookie": f"{'x' * 8000}; b=2; {'y' * 5000}", "X": "y", "Z": ""}),
    ("a length without a body", request(more=[("content-length", "5")]), MALFORMED_HEAD),
    ("a length of 0", request(more=[("content-length", "0")]), {"Content-Length": "0"}),
    ("two lengths", request(more=[("content-length", "0"), ("content-length", "0")]), 400),
    ("a length that is no number", request(more=[("content-length", "+1")]), 400),
    ("a head that is too long", request(more=[("x-a", "x" * 9000), ("x-b", "x" * 9000)]), 431),
    ("too many fields", request(more=[(f"x-{i}", "y") for i in range(300)]), 431),
]


@pytest.mark.parametrize("transport", ["text", "tls"])
@pytest.mark.parametrize("fields, expected", [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
def test_head(client, upstream, fields, expected):
    """The connection goes on in any case, with its table of fields."""
    client.greet()
    n = len(upstream.requests)
    found = client.answer(client.begin(fields))
    if isinstance(expected, dict):
        assert found.status == 200
        got = upstream.last
        assert {name: got.get(name) if name else f"{got.method} {got.target}" for name in expected} == expected
        n += 1
    else:
        assert (found.reset or found.status) == expected
    assert len(upstream.requests) == n
    assert client.ask(path="/next").status == 200
    assert upstream.last.target == "/next"


# --- heads that HPACK repeats ---


def ask_by_references(client, n, n_cookies, path="/"):
    """The statuses of requests whose path and cookies, of 3.7 KB each, take a byte each but in the first."""
    more = [("cookie", "sid=" + "a" * 3700)] * n_cookies
    statuses = []
    try:
        for _ in range(n // 20):
            streams = [client.begin(path=path, more=more) for _ in range(20)]
            statuses += [client.answer(stream).status for stream in streams]
    except (Closed, ConnectionError):
        pass
    return statuses


@pytest.mark.parametrize("rate, n_cookies, n_answered", [("2/day", 4, 200), ("2/day", 1, 400), ("1000/s", 4, 400)],
                         ids=["denied", "denied_short", "allowed"])
def test_long_heads_by_few_bytes_cost_a_denied_client_its_connection(start, start_upstream, connect, rate, n_cookies,
                                                                     n_answered):
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        upstream: {start_upstream().url}
        limit: {rate}
        """)
    client = connect(proxy)
    statuses = ask_by_references(client, 400, n_cookies)
    assert set(statuses[2:]) == {200 if rate == "1000/s" else 429}
    if n_answered == 400:
        assert len(statuses) == 400 and client.goaway is None
    else:
        assert 50 <= len(statuses) <= n_answered


def test_a_long_path_by_few_bytes_costs_more(start, start_upstream, connect):
    """It is read as several servers would."""
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        upstream: {start_upstream().url}
        limit: 2/day
        """)
    assert len(ask_by_references(connect(proxy), 400, 0, "/" + "%FF" * 165)) == 400
    assert 30 <= len(ask_by_references(connect(proxy), 400, 0, "/" + "%FF" * 1200)) <= 100


def test_a_trusted_proxy_may_repeat_heads_of_many_clients(start, start_upstream, connect):
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
        trusted_proxies: [127.0.0.1]
        upstream: {start_upstream().url}
        limit: 2/day
        """)
    client = connect(proxy)
    assert len(ask_by_references(client, 400, 4)) == 400 and client.goaway is None
