"""Long bodies of known length, which go through pipes of the kernel: no byte more, less or elsewhere."""

import hashlib
import os
import threading

import pytest

from harness.upstream import OK
from harness.wait import until

MIB = 1 << 20
LONG = 8 * MIB
BODY = os.urandom(LONG)
PIPES_MAX = 16


def policy(upstream):
    return f"workers: 1\nupstream: {upstream.url}\n"


def request(length=LONG):
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length


def response(length=LONG):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length


def sha(data):
    return hashlib.sha256(data).hexdigest()


def pipes_of(proxy):
    """Those of which both ends are the program's."""
    folder = f"/proc/{proxy.process.pid}/fd"
    ends = []
    for number in os.listdir(folder):
        try:
            ends.append(os.readlink(f"{folder}/{number}"))
        except FileNotFoundError:
            pass  # closed meanwhile
    return {end for end in ends if end.startswith("pipe:") and ends.count(end) == 2}


class Pipes:
    """How many more it has than when it had not moved any body."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.before = pipes_of(proxy)

    def count(self):
        return len(pipes_of(self.proxy) - self.before)


def send_all(client, data):
    thread = threading.Thread(target=client.send, args=(data,), daemon=True)
    thread.start()
    return thread


def test_a_long_upload_goes_through_a_pipe_and_what_follows_is_the_next_request(
        start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    pipes = Pipes(proxy)
    with proxy.connect() as client:
        send_all(client, (request() + BODY) * 2 + b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.read().status for _ in range(3)] == [200] * 3
    assert [sha(asked.body) for asked in upstream.requests] == [sha(BODY), sha(BODY), sha(b"")]
    assert upstream.requests[2].target == "/next"
    assert [line["in"] for line in proxy.log_lines(3)] == [str(LONG), str(LONG), "0"]
    # What comes slowly is read: on a machine that is in the mood all of it may.
    until(lambda: pipes.count() or not proxy.ask("POST", body=BODY), "a pipe to be used")
    assert pipes.count() == 1, "one after another needs no second"


def test_a_long_download_goes_through_a_pipe_and_the_connections_go_on(start, start_upstream):
    upstream = start_upstream(lambda peer, _: peer.send(response() + BODY))
    proxy = start(policy(upstream))
    pipes = Pipes(proxy)
    with proxy.connect() as client:
        assert [sha(client.ask().body) for _ in range(3)] == [sha(BODY)] * 3
    assert upstream.n_connections == 1
    assert [line["out"] for line in proxy.log_lines(3)] == [str(LONG)] * 3
    until(lambda: pipes.count() or not proxy.ask(), "a pipe to be used")
    assert pipes.count() == 1


def test_what_comes_behind_a_long_answer_is_nobodys(start, start_upstream):
    upstream = start_upstream(lambda peer, _: peer.send(response() + BODY + OK))
    proxy = start(policy(upstream))
    with proxy.connect() as client:
        assert [sha(client.ask().body) for _ in range(2)] == [sha(BODY)] * 2
    assert upstream.n_connections == 2


def test_an_urgent_byte_is_no_byte_of_a_long_body(start, start_upstream):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    with proxy.send(request() + BODY[:LONG // 2]) as client:
        client.sock.send(b"!", 1)  # MSG_OOB
        client.send(BODY[LONG // 2:])
        assert client.read().status == 200
    assert sha(upstream.requests[0].body) == sha(BODY)


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_long_upload_that_is_cut_short_is_never_whole(start, start_upstream, how):
    upstream = start_upstream()
    proxy = start(policy(upstream))
    client = proxy.send(request() + BODY[:-1])
    getattr(client, how)()
    until(lambda: upstream.cut_bodies, "the upstream's connection to be cut")
    assert not upstream.requests and BODY.startswith(upstream.cut_bodies[0])
    assert proxy.log_lines(1)[0]["fault"] == "the client left"
    assert proxy.ask().status == 200


def test_a_long_answer_that_is_cut_short_is_never_whole(start, start_upstream):
    def behave(peer, _):
        peer.send(response() + BODY[:-1])
        peer.close()

    proxy = start(policy(start_upstream(behave)))
    with proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        client.reader.head()
        rest = client.reader.take_rest()
    assert len(rest) < LONG and BODY.startswith(rest)
    assert "upstream" in proxy.log_lines(1)[0]["fault"]


def test_an_upload_that_nobody_takes_any_more_is_answered_and_its_pipe_is_empty_for_the_next(
        start, start_upstream):
    """The answer comes while bytes are in the pipe: they are nobody's."""
    may_answer = threading.Event()

    def behave(peer, asked):
        if asked.get("Content-Length") is None:
            peer.send(OK)
        elif not may_answer.is_set():
            may_answer.wait(60)
            peer.send(OK)
        else:
            assert sha(peer.read_body(asked)) == sha(BODY)
            peer.send(OK)

    upstream = start_upstream(behave, reads_body=False)
    proxy = start(policy(upstream))
    with proxy.send(request(1024 * MIB)) as client:
        client.sock.settimeout(1)
        with pytest.raises(TimeoutError):  # the upstream does not read, so that the proxy does not
            for _ in range(1024):
                client.send(BODY[:MIB])
        client.sock.settimeout(60)
        may_answer.set()
        assert client.read().status == 200
    with proxy.connect() as client:
        send_all(client, request() + BODY)
        assert client.read().status == 200


def test_who_stops_reading_holds_a_pipe_of_few_and_others_are_served_without(start, start_upstream):
    long = BODY * 4
    upstream = start_upstream(lambda peer, _: peer.send(response(len(long))) or peer.send(long))
    proxy = start(policy(upstream))
    pipes = Pipes(proxy)
    n_slow = 2 * PIPES_MAX
    slow = [proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(n_slow)]
    for client in slow:
        client.reader.take(MIB, "the start of the body")
    assert pipes.count() <= PIPES_MAX
    with proxy.connect() as client:
        assert sha(client.ask().body) == sha(long)
    for client in slow:
        client.close()
    until(lambda: len(proxy.all_log_lines()) == n_slow + 1, "all to be told")
    assert pipes.count() <= PIPES_MAX
    assert sha(proxy.ask().body) == sha(long)
