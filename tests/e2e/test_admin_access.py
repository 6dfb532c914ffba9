"""Who may ask the admin API for what."""

import os
import stat

import pytest

from harness.admin import (JSON, POLICY, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer,
                           is_problem)


@pytest.fixture(scope="module")
def proxy(start_shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("admin")
    return start_shared(POLICY.format(folder=folder))


@pytest.fixture(scope="module")
def places(proxy):
    return addresses(proxy, 2)


@pytest.fixture(scope="module")
def unix(places):
    return Admin(places[0])


@pytest.fixture(scope="module")
def tcp(places):
    return Admin(places[1])


def test_the_socket_is_for_its_owner_and_group(places):
    assert stat.S_IMODE(os.stat(places[0]).st_mode) == 0o660


def test_this_machine_may_read_and_not_change(tcp):
    assert tcp.ask("GET", "/v1/limits").status == 200
    for method in ("POST", "DELETE", "PUT", "PATCH", "OPTIONS", "NONSENSE"):
        answer = tcp.ask(method, "/v1/limits/per-client/keys/1.2.3.4", [JSON])
        assert answer.status == 401
        assert answer.get("WWW-Authenticate") == 'Bearer realm="sluice"'
        assert answer.json() == {"type": "about:blank", "title": "Unauthorized", "status": 401}


def test_without_a_right_token_nothing_is_said(tcp):
    for fields in ([bearer("wrong" * 8)], [bearer(TOKEN[:-1])], [bearer(TOKEN + "0")],
                   [("Authorization", f"Basic {TOKEN}")], [("Authorization", "Bearer")],
                   [bearer(), bearer()], [("X-Forwarded-For", "192.0.2.1")],
                   [("Via", "1.1 proxy")], [("Forwarded", "for=192.0.2.1")]):
        for path in ("/", "/healthz", "/nothing", "/v1/limits/none"):
            answer = tcp.ask("GET", path, fields)
            assert (answer.status, set(answer.json())) == (401, {"type", "title", "status"}), fields


def test_a_target_that_is_too_long_is_told_to_who_is_let_in(tcp):
    path = "/" + "x" * 5000
    assert "longer" in is_problem(tcp.ask("GET", path), 414)
    answer = tcp.ask("GET", path, [("Via", "1.1 proxy")])
    assert (answer.status, set(answer.json())) == (401, {"type", "title", "status"})
    assert tcp.ask("DELETE", path).status == 401
    is_problem(tcp.ask("GET", path, host="evil.example"), 421)


def test_the_token_may_change_and_the_other_may_read(tcp):
    assert tcp.ask("POST", "/v1/limits", [JSON, bearer()], b"{}").status == 405
    assert tcp.ask("GET", "/v1/limits", [bearer(READ_TOKEN)]).status == 200
    answer = tcp.ask("POST", "/v1/limits", [JSON, bearer(READ_TOKEN)], b"{}")
    assert "may read" in is_problem(answer, 403)


BROWSERS = [
    [("Origin", "https://evil.example")],
    [("Origin", "null")],
    [("Origin", "http://127.0.0.1:9900")],  # of another address than Host
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")],
    [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors")],
    [("Sec-Fetch-Site", "same-origin"), ("Origin", "http://127.0.0.1:9900")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"),
     ("Sec-Fetch-Dest", "document"), ("Sec-Fetch-User", "?1")],
    [("Sec-Fetch-Dest", "image")],
    [("Sec-Fetch-Mode", "websocket")],
]


@pytest.mark.parametrize("fields", BROWSERS, ids=range(len(BROWSERS)))
def test_what_a_page_makes_a_browser_send_is_refused(tcp, unix, fields):
    """Whatever the browser may do by itself: read from this machine, or be given the token."""
    is_problem(tcp.ask("GET", "/v1/limits", fields), 403)
    is_problem(tcp.ask("DELETE", "/v1/limits", fields + [bearer()]), 403)
    is_problem(unix.ask("POST", "/v1/limits", fields + [JSON], b"{}"), 403)


def test_a_form_cannot_change_anything(unix):
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                 "text/plain", "text/plain;application/json", ""):
        fields = [("Content-Type", kind)] if kind else []
        is_problem(unix.ask("POST", "/v1/limits", fields, b"{}"), 415)


def test_a_browser_that_asks_first_is_given_no_leave(tcp):
    answer = tcp.ask("OPTIONS", "/v1/limits", [("Origin", "https://evil.example"),
                                               ("Access-Control-Request-Method", "DELETE")])
    assert answer.status == 401
    assert not [name for name, _ in answer.fields if name.lower().startswith("access-control")]


def test_a_name_that_is_not_ours_is_misdirected(tcp):
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a", ""):
        is_problem(tcp.ask("GET", "/", host=host), 421)
    for host in ("localhost:1", "127.0.0.1", "[::1]:9900", "SLUICE.example.", "192.0.2.1:80"):
        assert tcp.ask("GET", "/", host=host).status == 200
    is_problem(tcp.ask("GET", "http://evil.example/", host="localhost"), 421)


def test_the_address_that_a_person_types_can_be_read(tcp):
    assert tcp.ask("GET", "/v1/limits", [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"),
                                         ("Sec-Fetch-Dest", "document")]).status == 200


def test_changes_and_refusals_are_told_in_the_log(start, tmp_path):
    proxy = start(POLICY.format(folder=tmp_path))
    unix, tcp = (Admin(place) for place in addresses(proxy, 2))
    assert unix.ask("PUT", "/v1/limits/hush", [JSON], b"{}").status == 405
    assert tcp.ask("PUT", '/v1/x%0a"hush"?token=hush', [JSON, bearer()], b"{}").status == 404
    assert tcp.ask("GET", "/", [bearer("hush" * 5)]).status == 401
    lines = audit(proxy, 3)
    assert f"by=socket uid={os.getuid()} pid={os.getpid()} method=PUT path=/v1/limits/{{limit}} " \
           "status=405" in lines[0]
    assert "by=token peer=127.0.0.1 method=PUT path=- status=404" in lines[1]
    assert "level=warn" in lines[2] and "msg=refused by=unauthenticated peer=127.0.0.1" in lines[2]
    assert "hush" not in proxy.stderr()
