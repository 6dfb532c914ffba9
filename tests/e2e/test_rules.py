"""Rules about forwarding that no other file is about. The numbers are those of docs/http.md."""

import pytest

from harness.ports import free_port
from harness.upstream import answer


@pytest.fixture(name="upstream")
def upstream_that_answers(start_upstream):
    return start_upstream()


@pytest.fixture(name="proxy")
def proxy_before_it(start, upstream):
    return start(f"workers: 1\nlimit: 1000/day\nupstream: {upstream.url}\n")


# --- loops ---


def proxy_at(start, port, upstream_port):
    return start(f"listen: 127.0.0.1:{port}\nupstream: http://127.0.0.1:{upstream_port}\n")


def test_rule_50_a_proxy_that_is_its_own_upstream_answers_508(start):
    port = free_port()
    proxy = proxy_at(start, port, port)
    for method in ("GET", "POST", "OPTIONS"):
        response = proxy.ask(method)
        assert response.status == 508
        assert response.json()["detail"].startswith("the request has passed here before")
    assert [line["status"] for line in proxy.log_lines(6)] == ["508"] * 6


def test_rule_50_a_ring_of_proxies_answers_508(start):
    ports = [free_port() for _ in range(3)]
    ring = [proxy_at(start, ports[i], ports[(i + 1) % 3]) for i in range(3)]
    assert ring[0].ask().status == 508
    assert [len(proxy.log_lines(n)) for proxy, n in zip(ring, (2, 1, 1))] == [2, 1, 1]


def test_rule_50_proxies_in_a_row_are_no_loop(start, upstream):
    ports = [free_port(), free_port(), upstream.port]
    row = [proxy_at(start, ports[i], ports[i + 1]) for i in range(2)]
    assert row[0].ask().status == 200
    assert len(set(upstream.last.all("Via"))) == 2


# --- how far ---


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE"])
def test_rule_51_each_hop_takes_one_of_max_forwards(proxy, upstream, method):
    for said, passed in (("1", "0"), ("70", "69"), ("9" * 30, str(2 ** 63 - 2))):
        assert proxy.ask(method, fields={"Max-Forwards": said}).status == 200
        assert upstream.last.get("Max-Forwards") == passed


def test_rule_51_the_last_hop_answers_by_itself_and_the_request_counts(proxy, upstream):
    with proxy.connect() as client:
        options = client.ask("OPTIONS", "*", {"Max-Forwards": "0"})
        assert (options.status, options.body) == (200, b"")
        assert options.get("RateLimit").startswith('"per-client";r=999')
        assert client.ask("TRACE", "/", {"Max-Forwards": "0"}).status == 501
        assert client.ask().get("RateLimit").startswith('"per-client";r=997')
    assert [request.method for request in upstream.requests] == ["GET"]


def test_rule_51_max_forwards_means_nothing_elsewhere(proxy, upstream):
    assert proxy.ask("GET", fields={"Max-Forwards": "0"}).status == 200
    assert upstream.last.get("Max-Forwards") == "0"
    assert proxy.ask("OPTIONS", fields={"Max-Forwards": "one"}).status == 400


# --- fields that are not ours to change ---


def test_rule_56_what_belongs_to_client_and_server_passes_untouched(start, start_upstream):
    theirs = [("WWW-Authenticate", 'Basic realm="a, b", charset="UTF-8"'),
              ("WWW-Authenticate", "Bearer"), ("Allow", "GET,  HEAD,POST"),
              ("Authentication-Info", "nextnonce=1"), ("Location", "http://10.0.0.1/x")]
    upstream = start_upstream(answer=answer("401 No", fields=theirs))
    proxy = start(f"upstream: {upstream.url}\n")
    response = proxy.ask(fields={"Authorization": 'Digest username="a",  uri="/"'})
    assert upstream.last.get("Authorization") == 'Digest username="a",  uri="/"'
    assert [field for field in response.fields if field[0] in dict(theirs)] == theirs


def test_rule_47_an_upstream_cannot_nominate_our_fields_away(start, start_upstream):
    upstream = start_upstream(answer=answer(fields=[
        ("Connection", "RateLimit, RateLimit-Policy, Date, X-Theirs"), ("X-Theirs", "1"),
        ("RateLimit", '"theirs";r=1')]))
    proxy = start(f"limit: 5/day\nupstream: {upstream.url}\n")
    response = proxy.ask()
    assert response.get("RateLimit").startswith('"per-client";r=4')
    assert response.get("RateLimit-Policy") == '"per-client";q=5;w=86400'
    assert response.get("X-Theirs") is None


def test_rule_39_an_interim_response_and_a_204_go_out_without_framing(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\nX-A: 1\r\n\r\n"
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"))
    proxy = start(f"upstream: {upstream.url}\n")
    with proxy.connect() as client:
        for status in (103, 204, 103, 204):
            response = client.ask() if status == 103 else client.read()
            assert response.status == status
            assert response.get("Content-Length") is None and not response.is_chunked()


# --- bodies across versions ---


def test_rule_42_an_http_1_0_client_never_sees_a_chunk(start, start_upstream):
    upstream = start_upstream(answer=(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n"))
    proxy = start(f"upstream: {upstream.url}\n")
    for fields in (b"", b"Connection: keep-alive\r\n"):
        with proxy.send(b"GET / HTTP/1.0\r\n" + fields + b"\r\n") as client:
            response = client.read()
            assert not response.is_chunked() and response.get("Trailer") is None
            assert response.get("Connection") == "close" and response.body == b"hello world"


def test_rule_35_a_length_is_sent_on_as_one_number_and_so_many_bytes(proxy, upstream):
    with proxy.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 005\r\n\r\nhello"
                    b"POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n") as client:
        assert [client.read().status for _ in range(2)] == [200, 200]
    first, second = upstream.requests
    assert (int(first.get("Content-Length")), first.body) == (5, b"hello")
    assert (second.target, second.get("Content-Length"), second.body) == ("/next", "0", b"")
