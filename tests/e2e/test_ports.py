"""The proxy's own ports to a server: closing connections takes few of them, and a lack of them is not the server's."""

import json
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

from harness import program
from harness.admin import Admin, addresses
from harness.certificates import Authority
from harness.message import request
from harness.secure_upstream import policy as secure_policy, starter
from harness.tunnel import ASK, SWITCH
from harness.upstream import OK
from harness.wait import until

N = 50  # requests, each of which ends its connection
N_UPGRADES = 5
CLOSINGS_MAX = 2048  # in order, within a minute
CLIENT_MAX = CLOSINGS_MAX // 8  # of these, of one client
CLIENTS = [f"127.0.0.{i}" for i in range(2, 10)]  # so many have all
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
FIN_WAIT_2, TIME_WAIT = "05", "06"  # in /proc/net/tcp; the first where the other side has not closed yet


def n_in_time_wait(port):
    """Ports of clients of that one which wait: those of who closed first."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file.readlines()[1:]]
    return len({line[1] for line in lines  # once each: while others change it, the table may tell one twice
                if line[3] in (FIN_WAIT_2, TIME_WAIT) and line[2].endswith(f":{port:04X}")})


def policy(upstream, more="", route="", top=""):
    return (f"workers: 1\n{top}upstreams: {{api: {{servers: '{upstream.url}'{more}}}}}\n"
            f"routes: [{{upstream: api{route}}}]\n")


def reads_on(data):
    """Send an answer, and wait for the other side to close."""
    def behave(peer, _request):
        peer.send(data)
        peer.hang()

    return behave


def end_of(peer):
    """What the proxy does next: b"" is the end in order, None a reset."""
    try:
        return peer.sock.recv(1)
    except ConnectionResetError:
        return None


def await_ends(upstream, n):
    """The proxy has closed all of the n connections."""
    until(lambda: upstream.n_connections == n and not upstream.open_peers(), "all connections to be closed")


@pytest.mark.parametrize("method, fields, route, data", [
    ("HEAD", [], "", HEAD),
    ("HEAD", [], "", b"HTTP/1.1 200 OK\r\nX-No: length\r\n\r\n"),
    ("GET", [], "", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n"),
    ("GET", [], "", b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n"),
    ("GET", [], "", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"),
    ("GET", [], "", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n"),
])
def test_a_connection_that_is_not_kept_behind_its_answer_takes_no_port(start, start_upstream, method, fields, route,
                                                                       data):
    upstream = start_upstream(reads_on(data))
    proxy = start(policy(upstream, route=route))
    with proxy.connect() as client:
        for _ in range(N):
            assert client.ask(method, fields=fields).status in (200, 204, 304)
    await_ends(upstream, N)
    assert n_in_time_wait(upstream.port) == 0


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_server_that_is_offered_a_switch_is_never_reset(start, ends, leaves):
    """Node has no listener of errors on such a socket, and would end."""
    seen = queue.Queue()

    def serve(sock):
        try:
            while b"\r\n\r\n" not in sock.recv(65536):
                pass
            if leaves:
                seen.put("asked")
            else:
                sock.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            if ends:
                sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
            seen.put("end")
        except ConnectionError as error:
            seen.put(repr(error))

    def accept():
        for _ in range(N_UPGRADES):
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        proxy = start(f"""
            listen: 127.0.0.1:0
            upstreams: {{u: {{servers: "http://127.0.0.1:{listener.getsockname()[1]}"}}}}
            routes: [{{upstream: u, limits: [], upgrade: websocket}}]
            """)
        for _ in range(N_UPGRADES):
            with proxy.connect() as client:
                client.send(request("GET", "/", [("Connection", "Upgrade"), ("Upgrade", "websocket")]))
                if leaves:
                    assert seen.get(timeout=30) == "asked"
                    client.reset()
                else:
                    assert client.read().status == 401
            assert seen.get(timeout=30) == "end"


def test_clients_that_leave_before_the_connection_is_made_take_no_ports(start, start_upstream):
    """The kernel has made it where the proxy has not looked yet."""
    upstream = start_upstream(lambda peer, _request: peer.hang())
    proxy = start(policy(upstream))
    for _ in range(12 * CLIENT_MAX):
        proxy.send(request("GET", "/")).reset()
    until(lambda: not upstream.open_peers(), "all connections to be closed")
    assert n_in_time_wait(upstream.port) <= CLIENT_MAX


def test_a_head_that_holds_a_slot_takes_no_port_where_the_server_keeps_it_open(start, start_upstream):
    upstream = start_upstream(reads_on(HEAD))
    proxy = start(policy(upstream, ", timeout: {response: 200ms}", ", limits: [slots]",
                         "limits: {slots: {key: client.ip, algorithm: concurrency, rate: 100}}\n"))
    with proxy.connect() as client:
        for _ in range(N):
            assert client.ask("HEAD").status == 200
    await_ends(upstream, N)
    assert n_in_time_wait(upstream.port) == 0


def test_tls_sessions_are_resumed_behind_connections_that_were_reset(start, tmp_path):
    authority = Authority(tmp_path / "authority")
    authority.sign("server", "IP:127.0.0.1")
    with starter(authority) as start_secure:
        upstream = start_secure(reads_on(HEAD))
        proxy = start(secure_policy(upstream.url, authority) + "workers: 1\n")
        with proxy.connect() as client:
            for _ in range(N):
                assert client.ask("HEAD").status == 200
        await_ends(upstream, N)
        assert n_in_time_wait(upstream.port) == 0
        assert [resumed for _, resumed, _ in upstream.handshakes] == [False] + [True] * (N - 1)


def check_ends(upstream, ask, clients=CLIENTS):
    """What one client has beyond its share is reset, others end all that is left in order, and then all are reset.
    `ask` has a connection to the server ended by a client at that address, and tells how."""
    n_before = n_in_time_wait(upstream.port)  # the number may have been another test's
    begun = time.monotonic()
    seen = [ask(source) for source in [clients[0]] * (CLIENT_MAX + N)]
    seen += [ask(source) for source in clients[1:] for _ in range(CLIENT_MAX)]
    seen += [ask("127.0.0.20") for _ in range(N)]
    if time.monotonic() - begun < 60:  # else a new period has begun
        last = None if clients == CLIENTS else b""
        assert seen == [b""] * CLIENT_MAX + [None] * N + [b""] * CLIENT_MAX * (len(clients) - 1) + [last] * N
        assert n_in_time_wait(upstream.port) <= n_before + CLOSINGS_MAX


@pytest.mark.takes(6)
def test_exchanges_that_are_given_up_take_few_ports(start, start_upstream):
    """A server may be told of them in order: what has come there can be read. But clients can cause any number."""
    ends = queue.Queue()

    def behave(peer, _request):
        peer.send(b"HTTP/1.1 200 OK\r\nX-Bad: \1\r\n\r\n")
        ends.put(end_of(peer))
        peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream))

    def ask(source):
        assert proxy.ask(source=source).status == 502
        return ends.get(timeout=30)

    check_ends(upstream, ask)


def test_requests_that_are_left_with_slots_take_few_ports_of_others(start, start_upstream):
    asked, left, ends = queue.Queue(), queue.Queue(), queue.Queue()

    def behave(peer, _request):
        asked.put(None)
        left.get(timeout=30)
        peer.send(OK)
        ends.put(end_of(peer))
        peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, "", ", limits: [slots]",
                         "admin: 127.0.0.1:0\nlimits: {slots: {key: client.ip, algorithm: concurrency, rate: 100}}\n"))
    admin = Admin(addresses(proxy)[0])

    def ask(source):
        with proxy.connect(source) as client:
            client.send(request("GET", "/"))
            asked.get(timeout=30)
            client.reset()
        until(lambda: b"\nsluice_abandoned_requests 1\n" in admin.ask(path="/metrics").body, "the client to have left")
        left.put(None)
        return ends.get(timeout=30)

    check_ends(upstream, ask, CLIENTS[:1])


@pytest.mark.takes(8)
def test_tunnels_that_clients_end_take_few_ports(start, start_upstream):
    """WebSockets are ended by the server, which answers a Close frame, but a client can end them first."""
    ends = queue.Queue()

    def behave(peer, _request):
        peer.send(SWITCH)
        ends.put(end_of(peer))
        peer.close()

    upstream = start_upstream(behave)
    proxy = start(policy(upstream, route=", upgrade: websocket"))

    def ask(source):
        with proxy.connect(source) as client:
            client.send(request("GET", "/", ASK))
            assert client.read().status == 101
            client.end()
            return ends.get(timeout=30)

    check_ends(upstream, ask)


@pytest.mark.takes(8)
def test_connections_of_http2_that_end_for_what_is_left_take_few_ports(start, start_http2_server):
    """With max_streams each request that its client leaves ends one."""
    server = start_http2_server(behave=lambda *_: None)
    port = int(server.url.rpartition(":")[2])
    n_before = n_in_time_wait(port)
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0}}
        workers: 1
        upstreams: {{api: {{servers: "{server.url}", max_streams: 16}}}}
        routes: [{{upstream: api}}]
        """)
    begun = time.monotonic()
    for i in range(CLOSINGS_MAX + N):
        with proxy.connect() as client:
            client.send(request("GET", "/"))
            server.wait_for(i + 1)
            client.reset()
    until(lambda: all(peer.is_closed for peer in server.peers), "all connections to be closed")
    n_minutes = 1 + int((time.monotonic() - begun) / 60)  # on a machine that does much else
    assert N < n_in_time_wait(port) <= n_before + CLOSINGS_MAX * n_minutes


# Runs in namespaces of its own, where the proxy has two ports: a server that is slow for /slow and has them taken,
# and requests on unix sockets. Prints the answers, and what the proxy said of them.
FEW_PORTS = """
import http.client, http.server, json, pathlib, socket, subprocess, sys, threading, time
released = threading.Event()

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/slow":
            released.wait(60)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

def begin(path):
    client = http.client.HTTPConnection("localhost", timeout=60)
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.connect(sys.argv[3])
    client.request("GET", path)
    return client

def is_listening():
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(sys.argv[3]) == 0

def finish(client):
    answer = client.getresponse()
    return answer.status, answer.read().decode()

process = subprocess.Popen([sys.argv[1], "run", sys.argv[2]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
while not is_listening():
    time.sleep(0.01)
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40001")
slow = [begin("/slow") for _ in range(2)]
while b" 40000 " not in (ports := subprocess.run(["ss", "-tnH"], capture_output=True).stdout.replace(
        b":", b" ")) or b" 40001 " not in ports:
    time.sleep(0.01)
lacking = [finish(begin("/")) for _ in range(8)]
released.set()
whole = [finish(client) for client in slow]
after = finish(begin("/"))
process.terminate()
out, err = process.communicate(timeout=60)
print(json.dumps({"lacking": lacking, "whole": whole, "after": after, "out": out.decode(), "err": err.decode()}))
"""


def in_namespaces(script, *arguments):
    return subprocess.run(["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", script, "sh", *arguments],
                          capture_output=True, text=True, timeout=120, check=False, env=program.environment())


def test_a_lack_of_ports_is_no_failure_of_the_server(tmp_path):
    network = "ip link set lo up; echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range; ss -tnH"
    if shutil.which("unshare") is None or in_namespaces(network).returncode != 0:
        pytest.skip("no namespaces here")
    policy_file, path = tmp_path / "policy.yaml", tmp_path / "socket"
    policy_file.write_text(f"workers: 1\nlisten: 'unix:{path}'\n"
                           "upstreams: {api: {servers: 'http://127.0.0.1:9000', eject: {failures: 1, for: 1m}}}\n"
                           "routes: [{upstream: api}]\n")
    done = in_namespaces('ip link set lo up; exec "$@"', sys.executable, "-c", FEW_PORTS, program.PROGRAM, policy_file,
                         path)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert [status for status, _ in seen["lacking"]] == [503] * 8
    assert all("no local port is left" in body for _, body in seen["lacking"])
    assert [status for status, _ in seen["whole"]] == [200, 200] and seen["after"][0] == 200
    assert seen["out"].count('fault="no local port is left for a connection to the upstream"') == 8
    assert "server is down" not in seen["err"]
    lines = [line for line in seen["err"].splitlines() if "no connection can be made" in line]
    assert lines and "level=warn mod=proxy.upstream" in lines[0] and "server=http://127.0.0.1:9000" in lines[0]
