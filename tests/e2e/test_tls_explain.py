"""`sluice explain` of requests over TLS: which certificate serves, what the handshake and the request become."""

import json
import os
import re

import pytest

from harness import program
from harness.certificates import Authority

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

POLICY = """
listen:
  - 127.0.0.1:0
  - address: 127.0.0.1:443
    tls:
      unknown_name: refuse
      certificates:
        - {cert: %(ca)s/api.pem, key: %(ca)s/api.key}
        - {cert: %(ca)s/int.pem, key: %(ca)s/int.key, client: optional, client_ca: %(ca)s/ca.pem}
        - {cert: %(ca)s/must.pem, key: %(ca)s/must.key, client: require, client_ca: %(ca)s/ca.pem}
limits:
  per-service: {key: client.cert.uri | client.cert.dns | client.ip, rate: 5/s}
routes:
  - {name: billing, match: {client_cert: {dns: billing.test}}, limits: [per-service], respond: {status: 204}}
  - {name: https, match: {scheme: https}, limits: [per-service], respond: {status: 204}}
  - {name: http, match: {scheme: http}, respond: {status: 204}}
"""


@pytest.fixture(name="files", scope="module")
def files_of_an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("explain") / "ca", days=90)
    for name, alternatives in (("api", "DNS:api.test,DNS:*.api.test"), ("int", "DNS:int.test"),
                               ("must", "DNS:must.test"), ("billing", "DNS:Billing.test"),
                               ("other", "URI:spiffe://test/other")):
        authority.sign(name, alternatives)
    (authority.folder / "policy.yaml").write_text(POLICY % {"ca": authority.folder})
    return authority.folder


def explain(files, url, *options, status=0):
    result = program.command("explain", str(files / "policy.yaml"), "GET", url, *options)
    assert (result.returncode, result.stderr) == (status, ""), result
    return result.stdout


def explain_json(files, url, *options, status=0):
    return json.loads(explain(files, url, *options, "--json", status=status))


def test_it_reads_like_this(files):
    told = explain(files, "https://int.test/", "--client-cert", str(files / "billing.pem"))
    start, _, rest = told.partition("the client shows the certificate ")
    assert start == f"""\
connection TLS to 127.0.0.1:443, SNI int.test
           served with {files}/int.pem, for int.test
           """
    assert rest[64:].startswith("""
request    GET /, host int.test
path       /
client     127.0.0.1
route      billing
            1 billing  yes
limits     1
  per-service: 5 per 1s, token_bucket, burst 5
    key    client.cert.dns=billing.test
""")


@pytest.mark.parametrize("url, options, served, route, status", [
    ("/", [], None, "http", 0),
    ("http://api.test/", [], None, "http", 0),
    ("https://api.test/", ["--scheme", "http"], None, "http", 0),
    ("https://API.test.:443/", [], "api", "https", 0),
    ("https://x.api.test/", [], "api", "https", 0),
    ("/", ["--scheme", "https", "-H", "Host: int.test"], "int", "https", 0),
    ("https://127.0.0.1/", [], "api", "https", 0),
    ("https://int.test/", ["--sni", "int.test"], "int", "https", 0),
    ("https://int.test/", ["--sni", "api.test"], "api", None, 3),
    ("https://int.test/", ["--sni", ""], "api", None, 3),
    ("https://api.test/", ["--client-cert", "billing"], "api", "https", 0),  # it is not asked for
    ("https://int.test/", ["--client-cert", "other"], "int", "https", 0),
    ("https://int.test/", ["--client-cert", "billing"], "int", "billing", 0),
    ("https://must.test/", ["--client-cert", "billing"], "must", "billing", 0),
])
def test_the_name_and_the_certificate_choose(files, url, options, served, route, status):
    options = [str(files / f"{word}.pem") if word in ("billing", "other") else word for word in options]
    told = explain_json(files, url, *options, status=status)
    assert (told["tls"] and told["tls"]["certificates"]) == (served and [f"{files}/{served}.pem"])
    assert told["route"] == route
    assert told["answer"]["status"] == (421 if status == 3 else 204)


def test_keys_are_those_of_the_certificate(files):
    def key(name):
        limits = explain_json(files, "https://int.test/", "--client-cert", str(files / f"{name}.pem"))["limits"]
        return limits[0]["key"]
    assert key("other") == "client.cert.uri=spiffe://test/other"
    assert key("billing") == "client.cert.dns=billing.test"
    assert explain_json(files, "https://int.test/")["limits"][0]["key"] == "client.ip=127.0.0.1"


@pytest.mark.parametrize("url, reason", [
    ("https://none.test/", "no certificate serves the name, and unknown_name is refuse"),
    ("https://must.test/", "the client sends no certificate, and client is require"),
])
def test_a_handshake_that_fails_is_the_answer(files, url, reason):
    assert explain(files, url, status=3).splitlines()[-1] == f"answer     none, as the handshake fails: {reason}"
    told = explain_json(files, url, status=3)
    assert told["tls"]["fault"] == reason and told["answer"] == {"passes": False, "status": None}


@pytest.mark.parametrize("options, words", [
    (["--scheme", "ftp"], "--scheme is http or https"),
    (["--scheme", "http", "--sni", "a"], "--sni, --ja4 and --client-cert are of https"),
    (["--scheme", "http", "--ja4", "t"], "--sni, --ja4 and --client-cert are of https"),
    (["--sni", "a b"], "--sni wants a host name"),
    (["--client-cert", "/dev/null"], "--client-cert wants a certificate in PEM"),
])
def test_wrong_options_are_usage_errors(files, options, words):
    for command in ("explain", "script"):
        result = program.command(command, str(files / "policy.yaml"), "GET", "/", *options)
        assert result.returncode == 2 and words in result.stderr


def test_a_policy_without_tls_takes_no_connection_over_it(tmp_path):
    (tmp_path / "plain.yaml").write_text("listen: 127.0.0.1:0\nroutes: [{respond: {status: 204}}]\n")
    result = program.command("explain", str(tmp_path / "plain.yaml"), "GET", "https://a.test/")
    assert result.returncode == 0 and "connection" not in result.stdout  # something before it ends TLS
    result = program.command("explain", str(tmp_path / "plain.yaml"), "GET", "/", "--scheme", "https")
    assert (result.returncode, result.stderr) == (2, "sluice explain: no listener of the policy has tls\n")


def test_files_that_cannot_be_read_are_an_error(files, tmp_path):
    policy = (POLICY % {"ca": files}).replace(f"{files}/api.key", f"{tmp_path}/none.key")
    (tmp_path / "policy.yaml").write_text(policy)
    result = program.command("explain", str(tmp_path / "policy.yaml"), "GET", "https://api.test/")
    assert result.returncode == 1 and "none.key" in result.stderr


def test_the_manuals_example_is_told_what_it_shows(tmp_path, monkeypatch):
    with open(f"{ROOT}/docs/explain.md", encoding="utf-8") as file:
        yaml, command, told = re.search(r"```yaml\n(.*?)```\n\n```text\n\$ sluice (.*?)\n(.*?)```", file.read(),
                                        re.S).groups()
    monkeypatch.setattr(program, "PROGRAM", os.path.abspath(program.PROGRAM))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tls").mkdir()
    for pair, name in (("api", "api.example.com"), ("int", "*.int.example.com"), ("clients", "clients.example.com")):
        assert program.command("cert", "self-signed", name, "--out-cert", f"tls/{pair}.pem", "--out-key",
                               f"tls/{pair}.key").returncode == 0
    (tmp_path / "tls.yaml").write_text(yaml)
    result = program.command(*command.split())
    assert (result.returncode, result.stdout) == (3, told)
