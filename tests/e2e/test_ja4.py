"""Limits by the JA4 fingerprint of a client's handshake."""

import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from harness.certificates import Authority
from harness.ja4 import ja4
from harness.message import request
from harness.program import command

LIMITS = """
limits:
  program: {key: client.ja4, rate: 100/day, missing: deny}
  both: {key: [client.ja4, client.ip], rate: 100/day}
"""
ROUTES = "routes: [{limits: [program, both], respond: {status: 200, body: ok}}]\n"
NODE = """
const https = require('https');
https.get({host: '127.0.0.1', port: process.argv[1], path: '/', servername: 'one.test', rejectUnauthorized: false},
          answer => { answer.resume(); answer.on('end', () => console.log(answer.statusCode)); });
"""


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("one", "DNS:one.test,IP:127.0.0.1")
    return authority


def policy(authority, redis, limits=LIMITS, routes=ROUTES):
    folder = authority.folder
    return (f"listen: [{{address: 127.0.0.1:0, tls: {{cert: {folder}/one.pem, key: {folder}/one.key}}}}, "
            f"127.0.0.1:0]\nstore: {{redis: '{redis.url}'}}\n{limits}{routes}")


class Recorder:
    """A relay of connections, one after the other, that keeps what each client sends."""

    def __init__(self, address):
        self.address, self.sent = address, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.address, timeout=30)
            self.sent.append(b"")
            for source, sink, number in ((client, server, len(self.sent) - 1), (server, client, None)):
                thread = threading.Thread(target=self._relay, args=(source, sink, number), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _relay(self, source, sink, number):
        try:
            while data := source.recv(65536):
                if number is not None:
                    self.sent[number] += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)


def ask_by_curl(port, _):
    return subprocess.run(["curl", "-sSk", "--resolve", f"one.test:{port}:127.0.0.1", f"https://one.test:{port}/"],
                          capture_output=True, text=True, check=True).stdout


def ask_by_curl_without_a_name(port, _):
    return subprocess.run(["curl", "-sSk", "--http1.1", "--tls-max", "1.2", f"https://127.0.0.1:{port}/"],
                          capture_output=True, text=True, check=True).stdout


def ask_by_openssl(port, _):
    run = subprocess.run(["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}", "-alpn", "http/1.1,xy"],
                         input=request("GET", "/", {"Host": "one.test", "Connection": "close"}).decode(),
                         capture_output=True, text=True, check=False)
    return run.stdout.split("\n\n")[-1]


def ask_by_python(port, context):
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30),
                             server_hostname="one.test") as sock:
        sock.sendall(request("GET", "/", {"Host": "one.test", "Connection": "close"}))
        answer = b""
        while data := sock.recv(4096):
            answer += data
    return answer.decode().split("\r\n\r\n")[-1]


def ask_by_node(port, _):
    run = subprocess.run(["node", "-e", NODE, str(port)], capture_output=True, text=True, check=True, timeout=60)
    return "ok" if run.stdout == "200\n" else run.stdout + run.stderr


CLIENTS = [ask_by_curl, ask_by_curl_without_a_name, ask_by_openssl, ask_by_python,
           pytest.param(ask_by_node, marks=pytest.mark.skipif(shutil.which("node") is None, reason="no node"))]


def context_of(authority):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
    return context


def counted(redis):
    """The fingerprints that limits have counted."""
    return {key.decode().split("client.ja4:36=")[1][:36] for key in redis.call("KEYS", "*client.ja4:36=*")}


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_client_is_counted_by_the_fingerprint_of_its_bytes(start, start_redis, authority, ask):
    redis = start_redis()
    proxy = start(policy(authority, redis))
    with Recorder(proxy.address) as recorder:
        assert ask(recorder.port, context_of(authority)) == "ok"
        wanted = ja4(recorder.sent[0])
    print(wanted)
    assert counted(redis) == {wanted}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_each_handshake_has_its_own(start, start_redis, authority, version):
    """A client that resumes a session may send other extensions: each handshake is read."""
    redis = start_redis()
    proxy = start(policy(authority, redis))
    context = context_of(authority)
    context.minimum_version = context.maximum_version = version
    session = None
    with Recorder(proxy.address) as recorder:
        for is_resumed in (False, True):
            with context.wrap_socket(socket.create_connection(("127.0.0.1", recorder.port), timeout=30),
                                     server_hostname="one.test", session=session) as sock:
                for _ in range(2):
                    sock.sendall(request("GET", "/", {"Host": "one.test"}))
                    assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
                session = sock.session
                assert sock.session_reused == is_resumed
        wanted = {ja4(sent) for sent in recorder.sent}
    assert counted(redis) == wanted
    assert len(wanted) == 2  # the second has an extension more


def test_plain_http_has_none(start, start_redis, authority):
    proxy = start(policy(authority, start_redis()))
    with proxy.connect(address=proxy.addresses[1]) as client:
        assert client.ask().status == 403


def test_check_and_tests_of_policies_know_it(authority, start_redis, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(policy(authority, start_redis()))
    said = command("check", str(path)).stderr
    assert said.count("[lone-fingerprint]") == 1 and 'limit "program" counts by client.ja4 alone' in said
    assert "give the route a limit by client.ip too" in said
    said = command("explain", "--ja4", "t13d1516h2_8daaf6152771_e5627efa2ab1", str(path), "GET", "https://one.test/")
    assert "client.ja4=t13d1516h2_8daaf6152771_e5627efa2ab1" in said.stdout
    tests = tmp_path / "tests.yaml"
    tests.write_text(f"""
policy: {path}
tests:
  - name: by program
    steps:
      - {{request: GET https://a.test/, ja4: t13d1516h2_8daaf6152771_e5627efa2ab1, repeat: 100, expect: allowed}}
      - {{request: GET https://a.test/, ja4: t13d1516h2_8daaf6152771_e5627efa2ab1, expect: denied}}
      - {{request: GET https://a.test/, ja4: t13d1516h2_8daaf6152771_02713d6af862, expect: allowed}}
      - {{request: GET http://a.test/, expect: denied}}
""")
    result = command("test", str(tests))
    assert result.returncode == 0, result.stdout + result.stderr
