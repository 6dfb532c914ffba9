"""The admin API over TLS: curl and `sluice ctl`, another certificate by a reload, and what fails."""

import re
import signal
import socket
import ssl
import subprocess

import pytest

from harness import program
from harness.admin import TOKEN, bearer
from harness.certificates import RSA, Authority, make_crl
from harness.client import Client
from harness.message import Reader
from harness.ports import free_port
from harness.reload import reload
from harness.secure_client import context_of, pair
from harness.wait import until


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("one", "DNS:one.test,IP:127.0.0.1")
    authority.sign("two", "DNS:two.test,IP:127.0.0.1")
    return authority


def policy(authority, port, name="one"):
    return (f"admin: {{listen: {{address: 127.0.0.1:{port}, tls: {{cert: {authority.folder}/{name}.pem, "
            f"key: {authority.folder}/{name}.key}}}}}}\nroutes: [{{respond: {{status: 204}}}}]\n")


@pytest.fixture(name="port")
def a_port():
    return free_port()


def curl(authority, port, path="/healthz", scheme="https"):
    return subprocess.run(["curl", "-sS", "--cacert", authority.certificate, f"{scheme}://127.0.0.1:{port}{path}"],
                          capture_output=True, text=True, check=False)


def leaf_names(authority, port):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return re.findall(r"\w+\.test", str(_leaf(context, port)))


def _leaf(context, port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        with context.wrap_socket(sock, server_hostname="127.0.0.1") as secure:
            return secure.getpeercert()["subjectAltName"]


def test_operators_ask_over_tls(start, authority, port):
    start(policy(authority, port))
    assert curl(authority, port).stdout.count('"status": "alive"') == 1
    url = f"https://127.0.0.1:{port}"
    asked = program.command("ctl", "--url", url, "--ca", str(authority.certificate), "routes")
    assert (asked.returncode, asked.stderr) == (0, "") and "route" in asked.stdout
    unknown = program.command("ctl", "--url", url, "routes")
    assert unknown.returncode != 0 and "certificate" in unknown.stderr


def test_a_reload_brings_another_certificate(start, authority, port):
    proxy = start(policy(authority, port))
    assert leaf_names(authority, port) == ["one.test"]
    reload(proxy, policy(authority, port, "two"))
    until(lambda: leaf_names(authority, port) == ["two.test"], "the other certificate")


def test_the_connection_of_a_revoked_operator_ends_with_its_next_answer(start, authority, port, tmp_path):
    crl = tmp_path / "ca.crl"
    make_crl(crl, authority.certificate, authority.key)
    own = (f"admin: {{listen: [{{address: 127.0.0.1:{port}, tls: {{certificates: [{{{pair(authority, 'one')}, client: require, "
           f"client_ca: {authority.certificate}, client_crl: {crl}}}]}}}}]}}\nroutes: [{{respond: {{status: 204}}}}]\n")
    proxy = start(own)
    with Client(("127.0.0.1", port)) as client:
        client.sock = context_of(authority, "two").wrap_socket(client.sock, server_hostname="127.0.0.1")
        client.reader = Reader(client.sock)
        for _ in range(2):
            assert client.ask(path="/healthz", host=f"127.0.0.1:{port}").get("Connection") is None
        make_crl(crl, authority.certificate, authority.key, [authority.folder / "two.pem"])
        reload(proxy, own)
        until(lambda: client.ask(path="/healthz", host=f"127.0.0.1:{port}").get("Connection") == "close", "its last answer")
        assert client.has_ended()


def test_plain_text_and_strangers_are_closed(start, authority, port):
    proxy = start(policy(authority, port))
    assert curl(authority, port, scheme="http").returncode != 0
    until(lambda: re.search(r'mod=admin.tls msg="TLS handshake failed" reason=plain_text', proxy.stderr()),
          "the failure in the log")
    assert curl(authority, port).stdout.count('"status": "alive"') == 1


def hello_of(context):
    """The first message of a handshake, which may be sent again and again."""
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="one.test").do_handshake()
    return sent.read()


def test_a_newcomer_is_heard_in_a_flood_of_handshakes_of_many_addresses(start, port, tmp_path):
    authority = Authority(tmp_path / "ca", kind=RSA)  # a signature that takes long
    authority.sign("one", "DNS:one.test")
    proxy = start(f"admin: {{token: {TOKEN}, listen: {{address: 127.0.0.1:{port}, tls: {{{pair(authority, 'one')}}}}}}}\n"
                  "routes: [{respond: {status: 204}}]\n")
    context = context_of(authority)
    hello = hello_of(context)
    clients = []

    def flood(n_each):
        for i in range(64 * n_each):
            clients.append(socket.create_connection(("127.0.0.1", port), 30, (f"127.1.1.{1 + i % 64}", 0)))
            clients[-1].sendall(hello)

    proxy.signal(signal.SIGSTOP)  # so that all of them wait at the listener at once
    try:
        flood(2)
        with Client(("127.0.0.1", port), "127.0.0.2") as operator:
            secure = context.wrap_socket(operator.sock, server_hostname="one.test", do_handshake_on_connect=False)
            secure.setblocking(False)
            with pytest.raises(ssl.SSLWantReadError):
                secure.do_handshake()
            flood(6)
            proxy.signal(signal.SIGCONT)
            secure.settimeout(30)
            secure.do_handshake()
            operator.sock, operator.reader = secure, Reader(secure)
            assert operator.ask("GET", "/v1/routes", [bearer()], host="localhost").status == 200
    finally:
        proxy.signal(signal.SIGCONT)
        for client in clients:
            client.close()
