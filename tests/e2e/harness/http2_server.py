"""A server of HTTP/2 that does what a test says, frame by frame, and remembers what it was sent."""

import os
import socket
import ssl
import threading

import hpack
from hyperframe.frame import (ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)

from harness.http2 import NAMES, PREFACE
from harness.ports import end_accepting, free_port
from harness.upstream import Recorder
from harness.wait import until

WINDOW = 1 << 30


class Request:
    """What came on a stream."""

    def __init__(self, peer, stream, fields):
        self.peer, self.stream, self.fields = peer, stream, fields
        self.body = b""
        self.trailers = None
        self.is_whole = False
        self.reset = None  # the name of the error code

    def get(self, name):
        return dict(self.fields).get(name)

    @property
    def path(self):
        return self.get(":path")


class Peer:
    """One connection. What it sends may be sent from any thread."""

    def __init__(self, server, sock, number):
        self.server, self.sock, self.number = server, sock, number
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.lock = threading.Lock()
        self.requests = {}
        self.frames = []  # all that came
        self.has_frame = threading.Event()
        self.block = None
        self.goaway = None
        self.unsent = {}  # by stream: bytes of answers that wait for windows, or were cut
        self.is_closed = False  # by the other side

    def send_raw(self, data):
        with self.lock:
            self.sock.sendall(data)

    def send(self, *frames):
        self.send_raw(b"".join(frame.serialize() for frame in frames))

    def head(self, stream, status=200, fields=(), ends=False, more=()):
        """Send a head; `more` instead of the pseudo-field."""
        with self.lock:
            lines = list(more) or [(":status", str(status)), *fields]
            data = self.encoder.encode(lines)
            frames = [HeadersFrame(stream, data[:16384], flags=["END_STREAM"] if ends else [])]
            frames += [ContinuationFrame(stream, data[at:at + 16384]) for at in range(16384, len(data), 16384)]
            frames[-1].flags.add("END_HEADERS")
            self.sock.sendall(b"".join(frame.serialize() for frame in frames))

    def data(self, stream, data=b"", ends=False):
        self.send(DataFrame(stream, data, flags=["END_STREAM"] if ends else []))

    def answer(self, stream, body=b"ok\n", status=200, fields=(), trailers=None):
        self.head(stream, status, fields)
        pieces = [body[at:at + 16384] for at in range(0, len(body), 16384)] or [b""]
        for i, piece in enumerate(pieces):
            self.data(stream, piece, ends=trailers is None and i + 1 == len(pieces))
        if trailers is not None:
            self.head(stream, more=trailers, ends=True)

    def window(self, stream):
        """How much may be sent on a stream, if nothing was."""
        return 65535 + sum(frame.window_increment for frame in list(self.frames)
                           if isinstance(frame, WindowUpdateFrame) and frame.stream_id == stream)

    def answer_in_time(self, stream, body):
        """In a thread of its own, as the stream's window allows, until it is reset."""
        def run():
            n_sent = 0
            while n_sent < len(body) and self.requests[stream].reset is None:
                n = min(16384, self.window(stream) - n_sent, len(body) - n_sent)
                if n > 0:
                    self.data(stream, body[n_sent:n_sent + n], ends=n_sent + n == len(body))
                    n_sent += n
                    self.unsent[stream] = len(body) - n_sent
                else:
                    self.has_frame.wait(0.1)
                    self.has_frame.clear()
            if self.requests[stream].reset is None:
                del self.unsent[stream]

        self.unsent[stream] = len(body)
        self.head(stream)
        threading.Thread(target=run, daemon=True).start()

    def reset(self, stream, code):
        self.send(RstStreamFrame(stream, error_code=NAMES.index(code)))

    def await_read(self):
        """Until the other side has read what was sent: it answers a PING that follows, or has closed."""
        content = os.urandom(8)

        def is_answered():
            return self.is_closed or any(isinstance(frame, PingFrame) and frame.opaque_data == content
                                         for frame in list(self.frames))

        try:
            self.send(PingFrame(0, opaque_data=content))
        except OSError:
            return
        until(is_answered, "the answer to a PING")

    def await_ping(self, n):
        """Until the other side has the answer to its PING number @n."""
        until(lambda: sum(isinstance(frame, PingFrame) and "ACK" not in frame.flags for frame in list(self.frames)) >= n,
              f"PING {n}")
        self.await_read()

    def end(self):
        """Nothing more is sent."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close_in_order(self):
        """Until the other side has read the end of what was sent, and has closed too."""
        self.end()
        until(lambda: self.is_closed, "the other side to close")
        self.close()

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    # --- what comes ---

    def _read_exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def serve(self):
        try:
            assert self._read_exactly(len(PREFACE)) == PREFACE
            if self.server.greets:
                self.send(SettingsFrame(0, settings=self.server.settings))
                if self.server.grants:
                    self.send(WindowUpdateFrame(0, window_increment=WINDOW))
            while True:
                frame, length = Frame.parse_frame_header(memoryview(self._read_exactly(9)))
                frame.parse_body(memoryview(self._read_exactly(length)))
                self.frames.append(frame)
                self.has_frame.set()
                self._take(frame)
        except (EOFError, OSError):
            self.is_closed = True

    def _take(self, frame):
        if isinstance(frame, HeadersFrame):
            self.block = [frame.stream_id, frame.data, "END_STREAM" in frame.flags]
        elif isinstance(frame, ContinuationFrame):
            self.block[1] += frame.data
        if isinstance(frame, (HeadersFrame, ContinuationFrame)) and "END_HEADERS" in frame.flags:
            self._take_head(*self.block)
        elif isinstance(frame, DataFrame):
            request = self.requests[frame.stream_id]
            request.body += frame.data
            if self.server.on_data is not None:
                self.server.on_data(self, frame)
            self._end(request, "END_STREAM" in frame.flags)
        elif isinstance(frame, RstStreamFrame):
            self.requests[frame.stream_id].reset = NAMES[frame.error_code]
            if self.server.on_reset is not None:
                self.server.on_reset(self, frame)
        elif isinstance(frame, GoAwayFrame):
            self.goaway = NAMES[frame.error_code]
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags and self.server.answers_pings:
            self.send(PingFrame(0, opaque_data=frame.opaque_data, flags=["ACK"]))

    def _take_head(self, stream, data, ends):
        fields = self.decoder.decode(data)
        if stream in self.requests:
            self.requests[stream].trailers = fields
        else:
            self.requests[stream] = Request(self, stream, fields)
            self.server.requests.append(self.requests[stream])
        if self.server.on_head is not None and self.requests[stream].trailers is None:
            self.server.on_head(self, self.requests[stream])
        self._end(self.requests[stream], ends)

    def _end(self, request, ends):
        if ends:
            request.is_whole = True
            self.server.behave(self, request)


class Http2Server(Recorder):
    """Listens at 127.0.0.1:port. `behave(peer, request)` is called with each whole request, `on_head` with each
    head; the answer is "ok" unless they say otherwise. With a TLS `context` ALPN may choose: connections that do not
    agree on HTTP/2 are closed."""

    def __init__(self, behave=None, on_head=None, settings=None, greets=True, answers_pings=True, context=None,
                 grants=True):
        self.behave = behave or (lambda peer, request: peer.answer(request.stream))
        self.on_head, self.greets, self.answers_pings, self.context = on_head, greets, answers_pings, context
        self.settings = settings if settings is not None else {SettingsFrame.INITIAL_WINDOW_SIZE: WINDOW}
        self.grants = grants  # the window of the connection is wide
        self.on_data = None  # called with the peer and each DATA
        self.on_reset = None  # the same, each RST_STREAM
        self.requests = []
        self.peers = []
        self.n_turned_away = 0
        self.failures = []
        self._is_stopping = False
        self._listener = socket.create_server(("127.0.0.1", free_port()), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"{'h2c' if context is None else 'https'}://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._is_stopping:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            if self.context is not None:
                sock = self.context.wrap_socket(sock, server_side=True)
        except (OSError, ssl.SSLError):
            return
        if self.context is not None and sock.selected_alpn_protocol() != "h2":
            self.n_turned_away += 1
            sock.close()
            return
        peer = Peer(self, sock, len(self.peers) + 1)
        self.peers.append(peer)
        try:
            peer.serve()
        except Exception as failure:
            self.failures.append(failure)
            raise

    def stop(self):
        self._is_stopping = True
        end_accepting(self._listener, self._accepting)
        for peer in self.peers:
            peer.close()
