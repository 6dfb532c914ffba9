"""Proxies that are wrong on purpose, each in one way that some proxy was: what watches over sluice has to
find every one of them.

They read by the strict reader what a fault has made of the bytes, and forward as sluice does.
"""

import contextlib
import re
import socket
import threading
from dataclasses import replace

from desync import paths, strict
from desync.judge import MAX_BODY, edited, stripped

BAD_GATEWAY = (b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/problem+json\r\n"
               b"Content-Length: 0\r\n\r\n")
BAD_REQUEST = BAD_GATEWAY.replace(b"502 Bad Gateway", b"400 Bad Request")
# A head with two framings, in any order; a reader of one of them does not see the other.
LENGTH_LINE = re.compile(rb"Content-Length:[^\r\n]*\r\n", re.IGNORECASE)
CODING_LINE = re.compile(rb"Transfer-Encoding:[^\r\n]*\r\n", re.IGNORECASE)


class Planted:
    """Listens at `address`. What a fault does differently it overrides."""

    def __init__(self, folder, policy):
        self.upstream = re.search(r"http://([0-9.]+):([0-9]+)", policy).groups()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                self.serve(sock)

    # --- what faults override ---

    def given(self, data):
        """What it takes the client's bytes for."""
        return data

    def kept(self, message):
        """The request as it is passed on."""
        return message

    def written(self, message):
        """Its bytes."""
        dropped = message.named() | {b"host", b"content-length", b"expect"}
        fields = [(name, value) for name, value in message.fields if name.lower() not in dropped]
        is_edited, target = stripped(message.origin)
        if is_edited:
            fields = edited(fields)
        lines = [b"%s %s HTTP/1.1" % (message.method, target), b"Host: " + message.host]
        lines += [name + b": " + value for name, value in fields]
        if message.framing != "none":
            lines.append(b"Content-Length: %d" % len(message.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + message.body

    def answer(self, response):
        """The bytes of an answer."""
        dropped = response.named() | {b"content-length"}
        lines = [b"HTTP/1.1 %d " % response.status]
        lines += [name + b": " + value for name, value in response.fields if name.lower() not in dropped]
        if response.status not in (204, 304) and response.status >= 200:
            length = response.length if response.is_head else len(response.body)
            lines.append(b"Content-Length: %d" % length)
        return b"\r\n".join(lines) + b"\r\n\r\n" + response.body

    # --- a proxy ---

    def serve(self, sock):
        data = self.given(_all(sock)[0])
        at, goes_on = 0, True
        try:
            while at < len(data) and goes_on:
                message, at = strict.read_request(data, at, strict.TAKEN)
                goes_on = message.keep_alive
                sock.sendall(_with_connection(message, self.respond(message)))
        except strict.Bad:
            sock.sendall(_with_connection(strict.Message(keep_alive=False), BAD_REQUEST))
        except (strict.Partial, OSError):
            pass

    def respond(self, message):
        if paths.is_refused(message.origin.partition(b"?")[0]) or len(message.body) > MAX_BODY or (
                stripped(message.origin)[1] is None):
            return BAD_REQUEST
        try:
            return self.answered(message, *self.ask(self.kept(message)))
        except (strict.Bad, strict.Partial):
            return BAD_GATEWAY

    def ask(self, message):
        """What the upstream answers, and whether it reset the connection then."""
        with socket.create_connection(self.upstream) as server:
            server.sendall(self.written(message))
            with contextlib.suppress(OSError):  # it has answered and closed already
                server.shutdown(socket.SHUT_WR)
            return _all(server)

    def answered(self, message, data, is_reset):
        """The bytes for the client. Bad, Partial."""
        interims, at = b"", 0
        while True:
            start = at
            response, at = strict.read_response(data, at, message.method, strict.TAKEN)
            if response.framing == "close" and is_reset:
                raise strict.Partial(response)
            if response.status >= 200:
                return interims * message.minor + self.answer(response)
            if response.status == 101 or interims.count(b"HTTP/1.1 1") == 16:
                raise strict.Bad("an interim response too many")
            head = data[start:at]
            interims += re.sub(rb"(?i)(content-length|transfer-encoding):[^\r]*\r\n", b"", head)


def _all(sock):
    """What comes until the end, and whether that was a reset."""
    data = b""
    try:
        while piece := sock.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        return data, True
    return data, False


def _with_connection(message, answer):
    """`answer`, whose last head says whether the connection lasts."""
    if message.keep_alive and message.minor == 1:
        return answer
    word = b"keep-alive" if message.keep_alive else b"close"
    at = 0
    while re.match(rb"HTTP/1.1 1", answer[at:]):
        at = answer.index(b"\r\n\r\n", at) + 4
    end = answer.index(b"\r\n\r\n", at)
    return answer[:end] + b"\r\nConnection: " + word + answer[end:]


def _reading(change):
    return type("Reading", (Planted,), {"given": lambda self, data: change(data)})


def _passing(change):
    return type("Passing", (Planted,), {"kept": lambda self, message: change(message)})


def _writing(change):
    return type("Writing", (Planted,), {
        "written": lambda self, message: change(message, Planted.written(self, message))})


def _one_framing(line):
    """Of two framings it drops one."""
    def change(data):
        head, end, rest = data.partition(b"\r\n\r\n")
        if LENGTH_LINE.search(head + b"\r\n") and CODING_LINE.search(head + b"\r\n"):
            head = line.sub(b"", head + b"\r\n").removesuffix(b"\r\n")
        return head + end + rest
    return change


def _first_length(data):
    head, end, rest = data.partition(b"\r\n\r\n")
    lines = LENGTH_LINE.findall(head + b"\r\n")
    for line in lines[1:]:
        head = (head + b"\r\n").replace(line, b"", 1).removesuffix(b"\r\n")
    return head + end + rest


def _leaking(message, written):
    named = [(name, value) for name, value in message.fields
             if name.lower() in message.named() - strict.OF_A_CONNECTION - {b"host", b"content-length"}]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in named)
    return written.replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n", 1)


def _merging_trailers(message, written):
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in message.trailers)
    return written.replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n", 1)


def _lenient_sizes(data):
    head, end, rest = data.partition(b"\r\n\r\n")
    size = rb"(?i)(^|\r\n)[ \t+\x0b]*(?:0x)?0*([0-9a-f]+)[^\r\n]*(?=\r\n)"
    return head + end + (re.sub(size, rb"\1\2", rest) if CODING_LINE.search(head + b"\r\n") else rest)


class Completing(Planted):
    """A body that was cut is passed on as if it were whole."""

    def serve(self, sock):
        try:
            strict.read_request(_all(sock)[0], 0, strict.TAKEN)
        except strict.Partial as partial:
            if partial.message is not None:
                self.ask(partial.message)
        except strict.Bad:
            pass


class Relaying(Planted):
    """Passes bytes, whatever they are."""

    def serve(self, sock):
        data, _ = _all(sock)
        with socket.create_connection(self.upstream) as server:
            try:
                server.sendall(data)
                server.shutdown(socket.SHUT_WR)
                sock.sendall(_all(server)[0])
            except OSError:
                pass


class Asking(Planted):
    """Asks twice, to be sure."""

    def ask(self, message):
        super().ask(message)
        return super().ask(message)


class Answering(Planted):
    """The answer to HEAD has the body that the answer to GET would have."""

    def answer(self, response):
        return super().answer(response) + (b"x" * response.length if response.is_head else b"")


class Believing(Planted):
    """An answer that was cut is passed on as if it were whole."""

    def answered(self, message, data, is_reset):
        try:
            return super().answered(message, data, is_reset)
        except strict.Partial as partial:
            if partial.message is None:
                raise
            return self.answer(partial.message)


class Remembering(Planted):
    """Bytes behind an answer are the next answer."""

    rest = b""

    def ask(self, message):
        return (self.rest, False) if self.rest else super().ask(message)

    def answered(self, message, data, is_reset):
        self.rest = data[strict.read_response(data, 0, message.method, strict.TAKEN)[1]:]
        return super().answered(message, data, is_reset)


FAULTS = {
    "takes a bare LF for the end of a line": _reading(lambda data: re.sub(rb"(?<!\r)\n", b"\r\n", data)),
    "takes a bare CR for the end of a line": _reading(lambda data: re.sub(rb"\r(?!\n)", b"\r\n", data)),
    "unfolds a folded line": _reading(lambda data: re.sub(rb"\r\n[ \t]+", b" ", data)),
    "drops white space before a colon": _reading(lambda data: re.sub(rb"(?m)^([A-Za-z-]+)[ \t]+:", rb"\1:", data)),
    "drops NUL": _reading(lambda data: data.replace(b"\0", b"")),
    "reads chunks beside a length": _reading(_one_framing(LENGTH_LINE)),
    "reads a length beside chunks": _reading(_one_framing(CODING_LINE)),
    "takes the first of two lengths": _reading(_first_length),
    "reads _ as -": _reading(lambda data: re.sub(rb"(?m)^([A-Za-z-]+)_([A-Za-z]+ ?:)", rb"\1-\2", data)),
    "reads a length as atoi() does": _reading(
        lambda data: re.sub(rb"(?i)(content-length:)[ \t+\"\x0b]*([0-9]+)[^\r\n]*", rb"\1\2", data)),
    "reads a chunk's size as strtol() does": _reading(_lenient_sizes),
    "passes on no body with GET": _passing(
        lambda message: replace(message, body=b"", framing="none") if message.method == b"GET" else message),
    "loses the last byte of a body": _passing(lambda message: replace(message, body=message.body[:-1])),
    "normalises the path": _passing(
        lambda message: replace(message, target=re.sub(rb"^//", b"/", message.target))),
    "passes on what Connection names": _writing(_leaking),
    "makes fields of trailers": _writing(_merging_trailers),
    "leaves Transfer-Encoding beside a length": _writing(
        lambda message, written: written.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n", 1)
        if message.framing == "chunked" else written),
    "completes a body that was cut": Completing,
    "passes bytes as they come": Relaying,
    "asks twice": Asking,
    "sends a body with an answer to HEAD": Answering,
    "completes an answer that was cut": Believing,
    "takes what is behind an answer for the next": Remembering,
}
