"""Answers that come while the request still does: they reach the client, and what it goes on sending is
thrown away within bounds."""

import os
import threading

import pytest

from harness import message
from harness.upstream import answer
from harness.wait import until

MIB = 1 << 20
PIECE = os.urandom(MIB)
UPLOAD = 50 * MIB
# ASan keeps freed memory aside; what is gathered would still be far above this.
GROWTH_BYTES_MAX = 24 * MIB


def length(n):
    return {"Content-Length": str(n)}


CHUNKED = {"Transfer-Encoding": "chunked"}


def policy(upstream):
    return f"""
workers: 1
upstreams: {{api: {{servers: "{upstream.url}", buffer: off}}}}
limits:
  few: {{key: global, rate: 1/day}}
routes:
  - {{match: {{path: /denied}}, limits: [few], upstream: api}}
  - {{match: {{path: /small}}, limits: [], upstream: api, max_body: 16KiB}}
  - {{match: {{path: /own}}, limits: [], respond: {{status: 403, body: enough}}}}
  - {{match: {{path: /early}}, limits: [], upstream: api}}
"""


def early_answer(peer, request):
    """The server answers /early from its head alone, and reads on for as long as it is let."""
    if request.target == "/early":
        peer.send(answer("403 No", body=b"enough"))
        peer.reader.take_rest()
    else:
        peer.read_body(request)
        peer.send(answer())


def upload(client, fields, pause_s=0.0):
    """Send all of it, and look at nothing meanwhile, as simple clients do."""
    for _ in range(UPLOAD // MIB):
        client.send(message.chunked(PIECE)[:-5] if fields is CHUNKED else PIECE)
        if pause_s:
            threading.Event().wait(pause_s)


CASES = {
    "429_length": ("/denied", length(UPLOAD), 429),
    "429_chunked": ("/denied", CHUNKED, 429),
    "413_length": ("/small", length(UPLOAD), 413),
    "413_chunked": ("/small", CHUNKED, 413),
    "own": ("/own", length(UPLOAD), 403),
    "of_the_upstream_length": ("/early", length(UPLOAD), 403),
    "of_the_upstream_chunked": ("/early", CHUNKED, 403),
    "400": ("/early", {**CHUNKED, "Content-Length": "1"}, 400),
    "404": ("/nowhere", length(UPLOAD), 404),
}


# A slow client takes longer for its upload than the proxy waits for one that pauses.
SLOW = ["429_length", "413_chunked", "of_the_upstream_length"]


@pytest.mark.parametrize("case, pause_s", [(case, 0) for case in CASES] +
                         [(case, 0.12) for case in SLOW])
def test_an_early_answer_reaches_a_client_that_sends_50_mib_first(
        start, start_upstream, case, pause_s):
    path, fields, status = CASES[case]
    proxy = start(policy(start_upstream(early_answer, reads_body=False)))
    if path == "/denied":
        assert proxy.ask(path=path).status == 200
    before = proxy.memory_bytes()
    client = proxy.send(message.request("POST", path, fields))
    upload(client, fields, pause_s)
    response = client.read()
    assert response.status == status and response.get("Connection") == "close"
    assert client.has_ended()
    assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX


def open_sockets(proxy):
    """Of other files it may open some after it has said that it listens."""
    found = []
    for entry in os.scandir(f"/proc/{proxy.process.pid}/fd"):
        try:
            found.append(os.readlink(entry.path))
        except FileNotFoundError:
            pass  # closed meanwhile
    return sum(name.startswith("socket:") for name in found)


def test_a_client_that_sends_without_end_is_cut(start, start_upstream):
    proxy = start(policy(start_upstream(early_answer, reads_body=False)))
    client = proxy.send(message.request("POST", "/own", length(1 << 40)))
    n_sent = 0
    with pytest.raises(ConnectionError):
        while n_sent < 4096 * MIB:
            n_sent += client.sock.send(PIECE)
    assert UPLOAD < n_sent < 256 * MIB


def test_a_client_that_stays_and_sends_nothing_is_closed(start, start_upstream):
    proxy = start(policy(start_upstream(early_answer, reads_body=False)))
    before = open_sockets(proxy)
    client = proxy.send(message.request("POST", "/own", length(UPLOAD)) + PIECE)
    assert client.read().status == 403 and client.has_ended()
    assert open_sockets(proxy) == before + 1
    until(lambda: open_sockets(proxy) == before, "the connection to be closed")


def test_the_upstream_of_an_early_answer_is_not_used_again(start, start_upstream):
    upstream = start_upstream(early_answer, reads_body=False)
    proxy = start(policy(upstream))
    client = proxy.send(message.request("POST", "/early", length(UPLOAD)) + PIECE)
    assert client.read().status == 403
    assert proxy.ask(path="/small").status == 200
    assert upstream.n_connections == 2
    until(lambda: len(upstream.open_peers()) == 1, "the first connection to be closed")


def test_the_answer_is_there_at_once_and_not_at_the_end_of_the_upload(start, start_upstream):
    proxy = start(policy(start_upstream(early_answer, reads_body=False)))
    client = proxy.send(message.request("POST", "/early", length(UPLOAD)) + b"a part")
    response = client.read()
    assert (response.status, response.body) == (403, b"enough")
    client.send(PIECE)  # it has not looked yet: no reset


def test_a_long_early_answer_and_its_upload_pass_at_the_same_time(start, start_upstream):
    def echo(peer, request):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(8):
            peer.send(b"%x\r\n%s\r\n" % (MIB, peer.reader.take(MIB, "the body")))
        peer.send(b"0\r\n\r\n")

    proxy = start(policy(start_upstream(echo, reads_body=False)))
    client = proxy.send(message.request("POST", "/early", length(8 * MIB)))
    assert message.Response(client.reader.head()).is_chunked()
    sender = threading.Thread(target=client.send, args=(PIECE * 8,), daemon=True)
    sender.start()
    assert client.reader.chunked_body() == PIECE * 8
    assert client.has_ended()  # when the answer began, the request's end was not in sight
