"""gRPC through the proxy, with grpcio as client and server: all kinds of calls, metadata, deadlines, cancels."""

import queue
import threading
import time
from concurrent import futures

import grpc
import pytest

from harness.ports import free_port
from harness.wait import until

POLICY = """
listen: {{address: 127.0.0.1:0, http: [2, 1.1]}}
timeouts: {{idle: 1s}}
upstreams: {{rpc: {{servers: ["h2c://127.0.0.1:{port}"], timeout: {{response: 1s}}}}}}
limits: {{few: {{rate: 2/hour, key: global}}}}
routes:
- {{match: {{path: /p.S/Limited}}, limits: [few], upstream: rpc}}
- {{upstream: rpc}}
"""
QUIET_S = 1.5  # longer than timeouts.idle and timeout.response


class Service(grpc.GenericRpcHandler):
    def __init__(self):
        self.ended = threading.Event()
        self.deadlines = []

    def service(self, details):
        name = details.method.rsplit("/", 1)[1]
        return getattr(self, f"handle_{name}", lambda: None)()

    def handle_Unary(self):
        def answer(message, context):
            context.send_initial_metadata((("x-initial", "1"),))
            context.set_trailing_metadata((("x-trailing", "2"), ("x-bytes-bin", b"\0\xff")))
            return message + dict(context.invocation_metadata())["x-more"].encode()
        return grpc.unary_unary_rpc_method_handler(answer)

    handle_Limited = handle_Unary

    def handle_Fail(self):
        def answer(message, context):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now é")
        return grpc.unary_unary_rpc_method_handler(answer)

    def handle_Stall(self):
        def answer(message, context):
            self.deadlines.append(context.time_remaining())
            context.add_callback(self.ended.set)
            self.ended.wait(20)
            return b""
        return grpc.unary_unary_rpc_method_handler(answer)

    def handle_Down(self):
        return grpc.unary_stream_rpc_method_handler(lambda message, context: (b"x" * 1000 for _ in range(int(message))))

    def handle_Up(self):
        return grpc.stream_unary_rpc_method_handler(lambda messages, context: str(sum(map(len, messages))).encode())

    def handle_Both(self):
        return grpc.stream_stream_rpc_method_handler(lambda messages, context: (m.upper() for m in messages))

    def handle_Quiet(self):
        def answer(message, context):
            yield b"first"
            time.sleep(QUIET_S)
            yield b"second"
        return grpc.unary_stream_rpc_method_handler(answer)


@pytest.fixture(name="service")
def a_service():
    return Service()


@pytest.fixture(name="channel")
def a_channel(start, service):
    server = grpc.server(futures.ThreadPoolExecutor(40))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    proxy = start(POLICY.format(port=port))
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        channel.proxy = proxy
        yield channel
    service.ended.set()
    server.stop(0)


def test_a_unary_call_with_metadata_both_ways(channel):
    answer, call = channel.unary_unary("/p.S/Unary").with_call(b"hello ", metadata=(("x-more", "world"),), timeout=20)
    assert answer == b"hello world" and call.code() == grpc.StatusCode.OK
    assert dict(call.initial_metadata())["x-initial"] == "1"
    trailing = dict(call.trailing_metadata())
    assert (trailing["x-trailing"], trailing["x-bytes-bin"]) == ("2", b"\0\xff")


def test_a_status_and_its_words_pass(channel):
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary("/p.S/Fail")(b"", timeout=20)
    assert failure.value.code() == grpc.StatusCode.FAILED_PRECONDITION and failure.value.details() == "not now é"
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary("/p.S/Missing")(b"", timeout=20)
    assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_streams_of_each_kind(channel):
    assert sum(map(len, channel.unary_stream("/p.S/Down")(b"3000", timeout=60))) == 3_000_000
    assert channel.stream_unary("/p.S/Up")(iter([b"y" * 10_000] * 300), timeout=60) == b"3000000"


def test_messages_both_ways_come_at_once_however_quiet_the_call_is(channel):
    messages = queue.Queue()
    answers = channel.stream_stream("/p.S/Both")(iter(messages.get, None), timeout=60)
    for text in (b"one", b"two"):
        messages.put(text)
        assert next(answers) == text.upper()
        time.sleep(QUIET_S)
    messages.put(None)
    assert list(answers) == [] and answers.code() == grpc.StatusCode.OK


def test_a_server_may_be_quiet_between_messages(channel):
    assert list(channel.unary_stream("/p.S/Quiet")(b"", timeout=60)) == [b"first", b"second"]


def test_many_calls_at_a_time(channel):
    call = channel.unary_unary("/p.S/Unary")
    metadata = (("x-more", "!"),)
    calls = [call.future(b"%d" % i, metadata=metadata, timeout=60) for i in range(300)]
    assert [one.result() for one in calls] == [b"%d!" % i for i in range(300)]


def test_a_deadline_reaches_the_server_and_ends_the_call_there(channel, service):
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary("/p.S/Stall")(b"", timeout=0.5)
    assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert service.ended.wait(10) and time.monotonic() - began < 8
    assert 0 < service.deadlines[0] < 0.51  # grpc-timeout is in whole units, rounded up


def test_a_cancel_reaches_the_server(channel, service):
    call = channel.unary_unary("/p.S/Stall").future(b"")
    until(lambda: service.deadlines, "the call at the server")
    call.cancel()
    assert service.ended.wait(10)


def test_a_server_that_does_not_answer_in_time_is_unavailable(channel):
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary("/p.S/Stall")(b"", timeout=20)
    assert failure.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_denied_call_is_exhausted(channel):
    call = channel.unary_unary("/p.S/Limited")
    metadata = (("x-more", ""),)
    assert [call(b"x", metadata=metadata, timeout=20) for _ in range(2)] == [b"x", b"x"]
    with pytest.raises(grpc.RpcError) as failure:
        call(b"x", metadata=metadata, timeout=20)
    assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_no_server_is_unavailable(start):
    proxy = start(POLICY.format(port=free_port()))
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/p.S/Unary")(b"", timeout=20)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
