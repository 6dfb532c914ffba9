"""A client of HTTP/2 that sends what it is told, frame by frame, and keeps the windows open unless told not to."""

import socket
import ssl

import hpack
from hyperframe.frame import (ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TIMEOUT_S = 30
WINDOW = 1 << 30
NAMES = ("NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
         "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR",
         "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED")


class Closed(Exception):
    """The proxy has closed the connection."""


class Answer:
    """What came on a stream."""

    def __init__(self):
        self.heads = []  # interim ones first
        self.body = b""
        self.trailers = None
        self.reset = None  # the name of the error code
        self.is_ended = False

    @property
    def fields(self):
        return dict(self.heads[-1])

    @property
    def status(self):
        return int(self.fields[":status"])


class Http2Client:
    def __init__(self, address, sock=None, settings=None, is_greeted=True):
        self.sock = sock or socket.create_connection(address, timeout=TIMEOUT_S)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.answers, self.frames = {}, []
        self.pongs = True  # PINGs are answered,
        self.acknowledges = True  # and SETTINGS
        self.goaway = None  # (last stream, error, data)
        self.next_id = 1
        self.block = None  # (stream, bytes so far, whether the stream ends) of a head that goes on
        self.buffer = b""
        if is_greeted:
            self.greet(settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def greet(self, settings=None):
        frame = SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: WINDOW} if settings is None else settings)
        self.send_raw(PREFACE + frame.serialize() + WindowUpdateFrame(0, window_increment=WINDOW).serialize())

    # --- what is sent ---

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, *frames):
        self.send_raw(b"".join(frame.serialize() for frame in frames))

    def fields(self, method="GET", path="/", scheme="http", authority="a.test", more=()):
        return [(":method", method), (":scheme", scheme), (":path", path), (":authority", authority), *more]

    def begin(self, fields=None, ends=True, stream=None, **request):
        """Send a head; its stream."""
        if stream is None:
            stream, self.next_id = self.next_id, self.next_id + 2
        frame = HeadersFrame(stream, self.encoder.encode(fields if fields is not None else self.fields(**request)))
        frame.flags.add("END_HEADERS")
        if ends:
            frame.flags.add("END_STREAM")
        self.send(frame)
        return stream

    def data(self, stream, data=b"", ends=False):
        self.send(DataFrame(stream, data, flags=["END_STREAM"] if ends else []))

    def reset(self, stream, code=8):
        self.send(RstStreamFrame(stream, error_code=code))

    def ping(self, content=b"12345678"):
        self.send(PingFrame(0, opaque_data=content))

    # --- what comes ---

    def _read_exactly(self, n):
        while len(self.buffer) < n:
            try:
                more = self.sock.recv(65536)
            except (ConnectionError, ssl.SSLEOFError):
                more = b""
            if not more:
                raise Closed()
            self.buffer += more
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def read_frame(self):
        frame, length = Frame.parse_frame_header(memoryview(self._read_exactly(9)))
        frame.parse_body(memoryview(self._read_exactly(length)))
        self.frames.append(frame)
        self._take(frame)
        return frame

    def answer_of(self, stream):
        return self.answers.setdefault(stream, Answer())

    def _take(self, frame):
        if isinstance(frame, HeadersFrame):
            self.block = [frame.stream_id, frame.data, "END_STREAM" in frame.flags]
        elif isinstance(frame, ContinuationFrame):
            self.block[1] += frame.data
        if isinstance(frame, (HeadersFrame, ContinuationFrame)) and "END_HEADERS" in frame.flags:
            answer = self.answer_of(self.block[0])
            fields = self.decoder.decode(self.block[1])
            if answer.heads and answer.status >= 200:
                answer.trailers = fields
            else:
                answer.heads.append(fields)
            answer.is_ended = self.block[2]
        elif isinstance(frame, DataFrame):
            answer = self.answer_of(frame.stream_id)
            answer.body += frame.data
            answer.is_ended = "END_STREAM" in frame.flags
        elif isinstance(frame, RstStreamFrame):
            self.answer_of(frame.stream_id).reset = NAMES[frame.error_code]
        elif isinstance(frame, GoAwayFrame):
            self.goaway = (frame.last_stream_id, NAMES[frame.error_code], frame.additional_data)
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags and self.acknowledges:
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags and self.pongs:
            self.send(PingFrame(0, opaque_data=frame.opaque_data, flags=["ACK"]))

    def read_until(self, is_true):
        while not is_true():
            self.read_frame()

    def answer(self, stream):
        """Of a stream: whole, or reset."""
        answer = self.answer_of(stream)
        self.read_until(lambda: answer.is_ended or answer.reset)
        return answer

    def ask(self, body=None, **request):
        stream = self.begin(ends=body is None, **request)
        if body is not None:
            self.data(stream, body, ends=True)
        return self.answer(stream)

    def pong(self):
        """All that was sent before was processed, and what was sent for it was read."""
        n_before = len(self.frames)
        self.ping()
        self.read_until(lambda: any(isinstance(frame, PingFrame) and "ACK" in frame.flags
                                    for frame in self.frames[n_before:]))

    def read_goaway(self):
        """The error of GOAWAY, or None where the connection closes without one. After an error it closes a second later."""
        try:
            self.read_until(lambda: self.goaway)
        except Closed:
            pass
        return self.goaway and self.goaway[1]

    def read_to_end(self):
        """Everything up to the close; the error of GOAWAY, None if none came."""
        try:
            while True:
                self.read_frame()
        except Closed:
            return self.goaway and self.goaway[1]
