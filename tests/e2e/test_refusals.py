"""What is ambiguous is refused: a status, the end of the connection, and nothing reaches the
upstream. The numbers are those of docs/http.md."""

import pytest

from harness.upstream import answer
from harness.wait import until

GET = b"GET / HTTP/1.1\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def field(line):
    return GET + b"Host: a\r\n" + line + b"\r\n\r\n"


REFUSED = {
    "1_no_host": (400, GET + b"\r\n"),
    "2_two_hosts_that_agree": (400, GET + b"Host: a\r\nHost: a\r\n\r\n"),
    "3_host_with_userinfo": (400, GET + b"Host: u@a\r\n\r\n"),
    "3_host_with_a_path": (400, GET + b"Host: a/b\r\n\r\n"),
    "3_host_with_a_space": (400, GET + b"Host: a b\r\n\r\n"),
    "3_host_is_a_list": (400, GET + b"Host: a, b\r\n\r\n"),
    "3_host_with_a_bad_port": (400, GET + b"Host: a:99999\r\n\r\n"),
    "4_bad_host_beside_an_absolute_target": (
        400, b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "5_connect": (501, b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    "5_authority_form": (400, b"GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    "6_asterisk_with_get": (400, b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    "7_space_in_the_target": (400, b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "7_tab_in_the_target": (400, b"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"),
    "7_control_in_the_target": (400, b"GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "7_beyond_ascii_in_the_target": (400, b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "7_fragment": (400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "8_target_too_long": (414, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    "9_method_too_long": (501, b"M" * 40 + b" / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "9_method_is_no_token": (400, b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "10_version_2": (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    "10_version_malformed": (400, b"GET / HTTP/1.1x\r\nHost: a\r\n\r\n"),
    "10_version_in_lower_case": (400, b"GET / http/1.1\r\nHost: a\r\n\r\n"),
    "10_no_version": (400, b"GET /\r\nHost: a\r\n\r\n"),
    "11_only_empty_lines": (400, b"\r\n" * 200 + GET + b"Host: a\r\n\r\n"),
    "12_space_before_the_first_field": (400, GET + b" Host: a\r\nHost: a\r\n\r\n"),
    "13_bare_cr_in_a_value": (400, field(b"X-A: 1\r2")),
    "13_bare_cr_for_a_line_end": (400, GET + b"Host: a\rX-A: 1\r\n\r\n"),
    "14_bare_lf": (400, b"GET / HTTP/1.1\nHost: a\n\n"),
    "14_bare_lf_after_a_field": (400, GET + b"Host: a\nX-A: 1\r\n\r\n"),
    "15_space_before_the_colon": (400, field(b"X-A : 1")),
    "15_space_before_the_colon_of_a_length": (400, POST + b"Content-Length : 5\r\n\r\nhello"),
    "16_empty_name": (400, field(b": 1")),
    "16_no_colon": (400, field(b"X-A")),
    "16_name_is_no_token": (400, field(b"X(A: 1")),
    "17_nul_in_a_value": (400, field(b"X-A: 1\x002")),
    "17_control_in_a_value": (400, field(b"X-A: 1\x7f2")),
    "18_folded_line": (400, field(b"X-A: 1\r\n 2")),
    "18_folded_line_by_a_tab": (400, field(b"X-A: 1\r\n\t2")),
    "19_fields_too_large": (431, field(b"X-A: " + b"a" * 20000)),
    "19_too_many_fields": (431, field(b"\r\n".join([b"X-A: 1"] * 120))),
    "20_length_with_an_underscore": (400, POST + b"Content_Length: 5\r\n\r\n"),
    "20_trusted_field_with_an_underscore": (400, field(b"X_Forwarded_For: 192.0.2.1")),
    "21_length_and_coding": (
        400, POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "21_coding_and_length": (
        400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "22_last_coding_not_chunked": (400, POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n"),
    "22_only_another_coding": (400, POST + b"Transfer-Encoding: gzip\r\n\r\n"),
    "23_unknown_coding": (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "24_coding_in_http_1_0": (
        400, b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "25_chunked_twice": (400, POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "25_two_coding_lines": (
        400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "25_empty_coding": (400, POST + b"Transfer-Encoding: \r\n\r\n"),
    "25_empty_member": (400, POST + b"Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n"),
    "25_parameter": (400, POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    "25_vertical_tab": (400, POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "26_length_with_a_plus": (400, POST + b"Content-Length: +5\r\n\r\nhello"),
    "26_length_with_a_minus": (400, POST + b"Content-Length: -5\r\n\r\nhello"),
    "26_length_in_hex": (400, POST + b"Content-Length: 0x5\r\n\r\nhello"),
    "26_length_with_a_space": (400, POST + b"Content-Length: 5 5\r\n\r\nhello"),
    "26_empty_length": (400, POST + b"Content-Length: \r\n\r\nhello"),
    "26_length_with_a_comma": (400, POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    "27_two_lengths_that_differ": (
        400, POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "27_two_lengths_that_agree": (
        400, POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "28_length_of_2_to_the_63": (400, POST + b"Content-Length: 9223372036854775808\r\n\r\n"),
    "28_length_of_2_to_the_64_and_5": (
        400, POST + b"Content-Length: 18446744073709551621\r\n\r\nhello"),
}

# After a good head: the body is what breaks the rules.
REFUSED_BODIES = {
    "29_chunk_size_of_2_to_the_64_and_5": (400, b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "29_chunk_size_of_2_to_the_63": (400, b"8000000000000000\r\nhello\r\n0\r\n\r\n"),
    "29_chunk_size_with_a_sign": (400, b"+5\r\nhello\r\n0\r\n\r\n"),
    "29_chunk_size_with_0x": (400, b"0x5\r\nhello\r\n0\r\n\r\n"),
    "29_empty_chunk_size": (400, b"\r\nhello\r\n0\r\n\r\n"),
    "29_chunk_line_ended_by_lf": (400, b"5\nhello\r\n0\r\n\r\n"),
    "30_extension_too_long": (400, b"5;" + b"a" * 300 + b"\r\nhello\r\n0\r\n\r\n"),
    "30_extensions_too_many": (400, (b"1;" + b"a" * 200 + b"\r\nx\r\n") * 30 + b"0\r\n\r\n"),
    "30_extension_with_a_bare_lf": (400, b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "31_chunk_longer_than_it_says": (400, b"4\r\nhello\r\n0\r\n\r\n"),
    "31_chunk_ended_by_lf": (400, b"5\r\nhello\n0\r\n\r\n"),
    "32_trailer_malformed": (400, b"5\r\nhello\r\n0\r\nX-T\r\n\r\n"),
    "32_trailers_too_large": (431, b"5\r\nhello\r\n0\r\nX-T: " + b"a" * 9000 + b"\r\n\r\n"),
}


@pytest.fixture(scope="module", name="upstream")
def upstream_that_must_see_nothing(start_shared_upstream):
    return start_shared_upstream()


@pytest.fixture(scope="module", name="proxy")
def proxy_before_it(start_shared, upstream):
    return start_shared(f"upstream: {upstream.url}\n")


def assert_refused(proxy, upstream, status, request):
    """One answer, and the end: what stands behind the request is never read as another."""
    n_before = len(upstream.requests)
    with proxy.send(request + SMUGGLED) as client:
        response = client.read()
        assert response.status == status
        assert response.get("Connection") == "close"
        assert response.json()["status"] == status
        assert client.has_ended()
    assert proxy.ask(path="/afterwards").status == 200
    assert [one.target for one in upstream.requests[n_before:]] == ["/afterwards"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_head_that_breaks_a_rule_is_refused_and_reaches_nobody(proxy, upstream, name):
    assert_refused(proxy, upstream, *REFUSED[name])


@pytest.mark.parametrize("name", REFUSED_BODIES)
def test_a_body_that_breaks_a_rule_is_refused_and_never_whole_upstream(proxy, upstream, name):
    status, body = REFUSED_BODIES[name]
    assert_refused(proxy, upstream, status, CHUNKED + body)


def test_a_few_empty_lines_before_a_request_are_skipped(proxy):
    request = GET + b"Host: a\r\n\r\n"
    with proxy.send(b"\r\n\r\n" + request + b"\r\n" + request) as client:
        assert [client.read().status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "BREW"])
def test_rule_35_a_body_counts_with_every_method(proxy, upstream, method):
    """Rules 34 and 35."""
    with proxy.connect() as client:
        for _ in range(2):
            assert client.ask(method, body=SMUGGLED).status == 200
            assert upstream.last.body == SMUGGLED
            assert upstream.last.get("Content-Length") == str(len(SMUGGLED))


def test_rule_34_a_request_without_framing_has_no_body(proxy, upstream):
    """Rule 34."""
    with proxy.send(POST + b"\r\n" + b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert [client.read().status for _ in range(2)] == [200, 200]
    assert [one.method for one in upstream.requests[-2:]] == ["POST", "GET"]
    assert upstream.requests[-2].body == b""


# --- the answers of an upstream ---

BAD_ANSWERS = {
    "36_two_lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "36_length_and_coding": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "36_unknown_coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "36_negative_length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "37_folded_line": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    "43_status_of_two_digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "43_status_of_four_digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "43_two_status_lines": b"HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "bare_lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "nul_in_a_value": b"HTTP/1.1 200 OK\r\nX-A: \x00\r\nContent-Length: 0\r\n\r\n",
    "not_http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "version_2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "head_without_end": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 70000,
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_rule_36_an_answer_that_breaks_a_rule_is_502_and_ends_its_connection(
        start, start_upstream, name):
    upstream = start_upstream(answer=BAD_ANSWERS[name])
    proxy = start(f"workers: 1\nupstream: {upstream.url}\n")
    with proxy.connect() as client:
        for n in (1, 2):
            response = client.ask()
            assert response.status == 502
            assert response.get("Content-Type") == "application/problem+json"
            assert upstream.n_connections == n


def test_rule_40_bytes_behind_an_answer_are_not_taken_for_the_next(start, start_upstream):
    """Rule 40."""
    upstream = start_upstream(answer=answer() + answer("500 Smuggled", body=b"smuggled"))
    proxy = start(f"workers: 1\nupstream: {upstream.url}\n")
    with proxy.connect() as client:
        assert [client.ask().status for _ in range(3)] == [200, 200, 200]
    assert upstream.n_connections == 3


def test_rule_44_bytes_on_an_idle_connection_close_it(start, start_upstream):
    """Rule 44."""
    upstream = start_upstream()
    proxy = start(f"workers: 1\nupstream: {upstream.url}\n")
    assert proxy.ask().status == 200
    peer = upstream.open_peers()[0]
    peer.send(answer("500 Smuggled", body=b"smuggled"))
    until(lambda: not upstream.open_peers(), "the proxy to close the connection")
    assert proxy.ask().status == 200
    assert upstream.n_connections == 2
