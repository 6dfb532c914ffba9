"""The admin API over TLS: curl and `sluice ctl`, another certificate by a reload, and what fails."""

import re
import socket
import ssl
import subprocess

import pytest

from harness import program
from harness.certificates import Authority, make_crl
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
