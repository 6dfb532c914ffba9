"""Unix sockets, towards clients and towards servers."""

import os
import socket
import stat

import pytest

from harness import program
from harness.client import Client
from harness.message import request
from harness.upstream import Upstream
from harness.wait import until


@pytest.fixture(name="path")
def a_path_for_a_socket(tmp_path):
    return str(tmp_path / "s.sock")


def policy(path, more="", limit="100/day"):
    return f"""
        listen: {{address: "unix:{path}", mode: 0600}}
        limits: {{per-client: {{key: client.ip, rate: {limit}}}}}
        routes: [{{limits: [per-client], respond: {{status: 200, body: ok}}}}]
        {more}
    """


# --- towards clients ---


def test_clients_are_served_by_all_workers_of_one_socket(start, path):
    proxy = start(policy(path, "workers: 4"))
    assert proxy.address == path
    clients = [proxy.connect() for _ in range(40)]
    for _ in range(2):
        assert [client.ask().status for client in clients] == [200] * 40


def test_the_file_has_its_mode_and_goes_at_a_clean_stop(start, path):
    proxy = start(policy(path))
    assert stat.S_ISSOCK(os.stat(path).st_mode) and os.stat(path).st_mode & 0o777 == 0o600
    proxy.stop()
    assert not os.path.exists(path)


def test_the_mode_is_0660_unless_said(start, path):
    start(f'listen: "unix:{path}"\nroutes: [{{respond: {{status: 204}}}}]\n')
    assert os.stat(path).st_mode & 0o777 == 0o660


def test_a_stop_answers_what_has_come_and_takes_no_more(start, start_upstream, path):
    upstream = start_upstream(lambda peer, request: peer.hang())
    proxy = start(f'listen: "unix:{path}"\nupstream: {upstream.url}\n')
    with proxy.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: upstream.requests, "the request at the upstream")
        proxy.signal()
        until(lambda: not os.path.exists(path), "the file to go")
        with pytest.raises(OSError):
            Client(path)
        for peer in upstream.open_peers():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        assert client.read().body == b"ok"
    assert proxy.wait() == 0


def test_a_file_that_a_dead_process_has_left_is_replaced(start, path):
    first = start(policy(path))
    first.kill()
    assert os.path.exists(path)
    assert start(policy(path)).ask().status == 200


def run_in_vain(tmp_path, text):
    file = tmp_path / "in-vain.yaml"
    file.write_text(text)
    result = program.command("run", str(file))
    assert result.returncode == 1
    return result.stderr


def test_a_socket_on_which_somebody_listens_is_left_alone(start, tmp_path, path):
    proxy = start(policy(path))
    assert "another process listens there" in run_in_vain(tmp_path, f"""
listen: "unix:{path}"
routes: [{{respond: {{status: 204}}}}]
""")
    assert proxy.ask().status == 200


def test_a_file_that_is_no_socket_is_left_alone(tmp_path, path):
    with open(path, "w", encoding="ascii") as file:
        file.write("precious")
    assert "is no socket" in run_in_vain(tmp_path, f"""
listen: [127.0.0.1:0, "unix:{path}"]
routes: [{{respond: {{status: 204}}}}]
""")
    with open(path, encoding="ascii") as file:
        assert file.read() == "precious"


def test_clients_there_have_no_address_and_are_one(start, path):
    proxy = start(policy(path, limit="1/day"))
    assert [proxy.ask().status for _ in range(2)] == [200, 429]
    assert proxy.log_lines(2)[0]["client"] == "unix"


def test_they_are_believed_where_unix_is_trusted_and_only_there(start, path, tmp_path):
    ask = lambda proxy, client: proxy.ask(fields={"X-Forwarded-For": client}).status
    trusting = start(policy(path, "trusted_proxies: [unix]", "1/day"))
    assert [ask(trusting, f"192.0.2.{i}") for i in (1, 2, 1)] == [200, 200, 429]
    wary = start(policy(tmp_path / "w.sock", "trusted_proxies: [127.0.0.0/8]", "1/day"))
    assert [ask(wary, f"192.0.2.{i}") for i in (1, 2)] == [200, 429]


def test_a_route_can_be_theirs_alone(start, path):
    proxy = start(f"""
        listen: ["unix:{path}", 127.0.0.1:0]
        routes:
          - {{match: {{client: unix}}, respond: {{status: 200}}}}
          - {{respond: {{status: 404}}}}
    """)
    assert [proxy.ask().status, proxy.connect(address=proxy.addresses[1]).ask().status] == [200, 404]


def test_the_proxy_protocol_works_there_too(start, path):
    proxy = start(f"""
        listen: {{address: "unix:{path}", proxy_protocol: true}}
        trusted_proxies: unix
        routes: [{{respond: {{status: 200}}}}]
    """)
    with proxy.send(b"PROXY TCP4 192.0.2.9 192.0.2.8 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n") as c:
        assert c.read().status == 200
    assert proxy.log_lines(1)[0]["client"] == "192.0.2.9"


@pytest.mark.parametrize("trusted, sent, told", [
    ("[127.0.0.1]", None, "unknown"), ("[127.0.0.1]", "192.0.2.1", "unknown"),
    ("[unix]", None, "unknown"), ("[unix]", "192.0.2.1", "192.0.2.1"),
], ids=["untrusted", "untrusted_with_a_word", "trusted", "trusted_with_a_word"])
def test_what_upstreams_are_told_of_such_a_client(start, start_upstream, path, trusted, sent, told):
    upstream = start_upstream()
    proxy = start(f'listen: "unix:{path}"\ntrusted_proxies: {trusted}\nupstream: {upstream.url}\n')
    proxy.ask(fields={"X-Forwarded-For": sent} if sent else {})
    assert upstream.last.get("X-Forwarded-For") == told
    assert upstream.last.get("X-Real-IP") == told
    assert upstream.last.get("Forwarded") == f'for={told};host="a.test";proto=http'


# --- towards servers ---


def test_a_server_on_a_unix_socket_is_asked_and_kept(start, start_upstream, path):
    upstream = start_upstream(address=path)
    proxy = start(f'workers: 1\nupstream: "{upstream.url}"\n')
    with proxy.connect() as client:
        assert [client.ask(body=b"x" * 100000).status for _ in range(3)] == [200] * 3
    assert upstream.n_connections == 1
    assert upstream.last.get("Host") == "a.test"
    assert proxy.log_lines(3)[0]["upstream"] == upstream.url


@pytest.mark.parametrize("rule, host", [("server", "localhost"), ("app.test", "app.test")])
def test_the_host_that_it_sees_is_localhost_or_as_said(start, start_upstream, path, rule, host):
    upstream = start_upstream(address=path)
    start(f"""
        upstreams: {{app: {{servers: "{upstream.url}", host: {rule}}}}}
        routes: [{{upstream: app}}]
    """).ask()
    assert upstream.last.get("Host") == host


def test_one_that_is_away_is_502_and_another_takes_its_place(start, start_upstream, path, tmp_path):
    upstream = start_upstream(address=path)
    away = tmp_path / "away.sock"
    proxy = start(f"""
        upstreams:
          both: {{servers: ["unix:{away}", "{upstream.url}"]}}
          away: {{servers: "unix:{away}"}}
        routes:
          - {{match: {{path: /away}}, upstream: away}}
          - {{upstream: both}}
    """)
    assert [proxy.ask().status for _ in range(4)] == [200] * 4
    assert proxy.ask(path="/away").status == 502
    late = Upstream(address=str(away))
    try:
        assert proxy.ask(path="/away").status == 200
    finally:
        late.stop()


@pytest.fixture(name="full")
def a_listener_whose_queue_is_full(path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.connect(path)
        yield listener


def test_one_whose_queue_is_full_is_waited_for(start, full, path):
    """As with TCP, where the kernel tries again: a burst of requests is no failure of the server."""
    proxy = start(f"""
        workers: 1
        upstreams: {{app: {{servers: "unix:{path}", eject: {{failures: 2, for: 1m}}, timeout: {{connect: 20s}}}}}}
        routes: [{{match: {{path: /up}}, respond: {{status: 204}}}}, {{upstream: app}}]
    """)
    clients = [proxy.connect() for _ in range(12)]
    for client in clients:
        client.send(request("GET", "/"))
    with proxy.connect() as other:  # by then the worker has them
        assert other.ask(path="/up").status == 204
    full.settimeout(20)
    full.accept()[0].close()  # that which was there before
    for _ in clients:
        with full.accept()[0] as peer:
            assert peer.recv(65536).startswith(b"GET / ")
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    assert [client.read().status for client in clients] == [200] * 12


def test_one_whose_queue_stays_full_times_out(start, full, path):
    proxy = start(f"""
        upstreams: {{app: {{servers: "unix:{path}", timeout: {{connect: 100ms}}}}}}
        routes: [{{upstream: app}}]
    """)
    assert proxy.ask().status == 504
