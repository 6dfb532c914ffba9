"""The commands that make certificates and secrets: other programs take what they make."""

import os
import re
import socket
import ssl
import subprocess
import threading

import pytest

from harness import program


def make(folder, *words):
    return subprocess.run([program.PROGRAM, "cert", *words], cwd=folder, capture_output=True, text=True, check=False)


def openssl(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=True).stdout


def test_a_pair_is_written_where_it_says_with_its_modes(tmp_path):
    made = make(tmp_path, "self-signed", "localhost")
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == f"wrote {tmp_path}/key.pem\nwrote {tmp_path}/cert.pem\n"
    assert sorted(os.listdir(tmp_path)) == ["cert.pem", "key.pem"]
    assert (tmp_path / "cert.pem").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600


def test_openssl_verifies_the_pair_and_its_names(tmp_path):
    cert, key = tmp_path / "a.pem", tmp_path / "a.key"
    made = make(tmp_path, "self-signed", "Api.test", "*.b.test", "192.0.2.1", "2001:db8::1", "--days", "7",
                "--out-cert", cert, "--out-key", key)
    assert made.returncode == 0, made.stderr
    for option, name in (("hostname", "api.test"), ("hostname", "x.b.test"), ("ip", "192.0.2.1"),
                         ("ip", "2001:db8::1")):
        openssl("verify", "-x509_strict", "-purpose", "sslserver", f"-verify_{option}", name, "-CAfile", cert, cert)
    assert openssl("x509", "-in", cert, "-noout", "-pubkey") == openssl("pkey", "-in", key, "-pubout")
    text = openssl("x509", "-in", cert, "-noout", "-text")
    assert re.search("CN ?= ?Api.test", text) and "prime256v1" in text
    openssl("x509", "-in", cert, "-noout", "-checkend", 7 * 86400 - 600)
    with pytest.raises(subprocess.CalledProcessError):
        openssl("x509", "-in", cert, "-noout", "-checkend", 7 * 86400 + 600)


def test_python_trusts_it_as_an_authority_for_its_names_alone(tmp_path):
    assert make(tmp_path, "self-signed", "localhost", "127.0.0.1").returncode == 0
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")

    def handshake(name):
        near, far = socket.socketpair()

        def serve():
            with far:
                try:
                    serving.wrap_socket(far, server_side=True).close()
                except OSError:
                    pass  # the client refuses, and says so itself

        server = threading.Thread(target=serve)
        server.start()
        try:
            with near, trusting.wrap_socket(near, server_hostname=name) as client:
                return client.version()
        finally:
            server.join()

    assert handshake("localhost") == handshake("127.0.0.1") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake("other.test")


@pytest.mark.parametrize("name", ["cert.pem", "key.pem"])
def test_a_file_that_is_there_is_replaced_by_force_alone(tmp_path, name):
    (tmp_path / name).write_text("precious")
    refused = make(tmp_path, "self-signed", "localhost")
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr == f"sluice cert: {name}: is there already; --force replaces it\n"
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "precious"
    assert make(tmp_path, "self-signed", "localhost", "--force").returncode == 0
    assert (tmp_path / name).read_text().startswith("-----BEGIN ")


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    refused = make(tmp_path, "self-signed", "localhost", "--out-cert", "none/cert.pem")
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr == "sluice cert: none/cert.pem: No such file or directory\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words, code, told", [
    (["self-signed", "a b"], 1, "a b: is neither a host name nor an IP address"),
    (["self-signed", "a.test", "a.test:443"], 1, "a.test:443: is neither"),
    (["self-signed", *["a.test"] * 101], 1, "more than 100 names"),
    (["self-signed", "a.test", "--days", "0"], 2, "--days is a number from 1 to 36500"),
    (["self-signed", "a.test", "--days", "1y"], 2, "--days is a number"),
    (["self-signed", "a.test", "--out-cert", "x", "--out-key", "x"], 2, "are one file"),
    (["self-signed"], 2, "usage: sluice cert"),
    (["signed", "a.test"], 2, "usage: sluice cert"),
])
def test_what_is_not_understood_writes_nothing(tmp_path, words, code, told):
    refused = make(tmp_path, *words)
    assert (refused.returncode, refused.stdout) == (code, "") and told in refused.stderr
    assert os.listdir(tmp_path) == []


def test_a_secret_is_64_digits_and_another_each_time():
    made = [program.command("secret") for _ in range(2)]
    assert all(re.fullmatch(r"[0-9a-f]{64}\n", one.stdout) and one.returncode == 0 for one in made)
    assert made[0].stdout != made[1].stdout
    assert program.command("secret", "more").returncode == 2
