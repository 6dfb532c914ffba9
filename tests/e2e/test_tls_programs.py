"""Clients of TLS that people use, each with what it offers by itself: curl, openssl, Python, Node and Go."""

import os
import re
import shutil
import ssl
import subprocess
import urllib.request

import pytest

from harness.certificates import RSA, Authority
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODE = """
const https = require("https"), fs = require("fs");
const [port, ca] = process.argv.slice(1);
const agent = new https.Agent({ca: fs.readFileSync(ca), keepAlive: false, maxCachedSessions: 10});
function ask(left) {
  https.get({host: "127.0.0.1", port, servername: "one.test", headers: {Host: "one.test"}, agent}, answer => {
    let body = "";
    answer.on("data", data => { body += data; });
    answer.on("end", () => {
      console.log(answer.statusCode, body, answer.socket.getProtocol(), answer.socket.isSessionReused());
      if (left > 1) setTimeout(ask, 50, left - 1);
    });
  });
}
ask(2);
"""
GO = """package main

import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "os")

func main() {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(os.Args[2])
	pool.AppendCertsFromPEM(pem)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{RootCAs: pool, ServerName: "one.test", MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		for i := 0; i < 2; i++ {
			answer, err := client.Get("https://127.0.0.1:" + os.Args[1] + "/")
			if err != nil { fmt.Println(err); os.Exit(1) }
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			fmt.Println(answer.StatusCode, string(body), tls.VersionName(answer.TLS.Version), answer.TLS.DidResume)
		}
	}
}
"""


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("programs") / "ca", kind=RSA)
    authority.sign("one", "DNS:one.test,IP:127.0.0.1", "extendedKeyUsage=serverAuth\n")
    authority.sign("client", "DNS:client.test", "extendedKeyUsage=clientAuth\n")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:one.test", "-keyout",
                    authority.folder / "ec.key", "-out", authority.folder / "ec.pem"], check=True, capture_output=True)
    return authority


@pytest.fixture(name="proxy")
def a_proxy(start, authority):
    """One entry with an RSA and an ECDSA pair, which clients may show a certificate to."""
    files = authority.folder
    return start(f"listen: {{address: 127.0.0.1:0, tls: {{certificates: [{{cert: [{files}/one.pem, {files}/ec.pem], "
                 f"key: [{files}/one.key, {files}/ec.key], names: [one.test], client: optional, "
                 f"client_ca: {authority.certificate}}}]}}}}\n"
                 "routes:\n"
                 "  - {match: {client_cert: {dns: client.test}}, respond: {status: 200, body: known}}\n"
                 "  - {respond: {status: 200, body: ok}}\n")


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120,
                          **more)
    assert done.returncode == 0, done
    return done.stdout


def s_client(proxy, *options):
    return run("openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "one.test", "-ign_eof",
               *options, input="GET / HTTP/1.0\r\nHost: one.test\r\n\r\n")


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None,
                              reason=f"{program} is not installed: scripts/install-packages long")


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_shows_its_certificate(proxy, authority, version):
    files = authority.folder
    asked = ["curl", "-sSk", "--tls-max", version, "--connect-to", f"one.test:443:127.0.0.1:{proxy.port}",
             "https://one.test/"]
    assert run(*asked) == "ok"
    assert run(*asked, "--cert", files / "client.pem", "--key", files / "client.key") == "known"


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_openssl_resumes_and_speaks_http_1_1(proxy, authority, tmp_path, version):
    files = authority.folder
    first = s_client(proxy, f"-{version}", "-sess_out", tmp_path / "session", "-alpn", "h3,http/1.1", "-cert",
                     files / "client.pem", "-key", files / "client.key")
    assert "\nNew, TLSv1." in first and "\n\nknown" in first
    assert "ALPN protocol: http/1.1" in first
    assert version == "tls1_3" or "Secure Renegotiation IS" in first
    again = s_client(proxy, f"-{version}", "-sess_in", tmp_path / "session")
    assert "\nReused, TLSv1." in again and "\n\nknown" in again, "the certificate is the session's"


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
@pytest.mark.parametrize("algorithm, kind", [("ecdsa_secp256r1_sha256", "ECDSA"), ("rsa_pss_rsae_sha256", "RSA")])
def test_an_entry_has_a_key_for_each_kind_of_client(proxy, version, algorithm, kind):
    told = s_client(proxy, f"-{version}", "-sigalgs", algorithm)
    assert re.search(f"Peer signature type: {kind}", told, re.IGNORECASE)
    assert "\n\nok" in told


@pytest.mark.parametrize("options", [["-tls1_2", "-cipher", "AES128-SHA256"], ["-tls1_2", "-cipher", "ECDHE+AES+SHA1"],
                                     ["-groups", "P-521"]])
def test_weak_ciphers_and_other_groups_are_refused(proxy, options):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", *options], input="",
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and "handshake failure" in done.stderr


def test_a_response_of_ocsp_is_stapled(start, authority, tmp_path):
    files = authority.folder
    serial = run("openssl", "x509", "-noout", "-serial", "-in", files / "one.pem").strip().partition("=")[2]
    (tmp_path / "index").write_text(f"V\t491231235959Z\t\t{serial}\tunknown\t/CN=one\n")
    run("openssl", "ocsp", "-index", tmp_path / "index", "-CA", files / "ca.pem", "-rsigner", files / "ca.pem",
        "-rkey", files / "ca.key", "-issuer", files / "ca.pem", "-cert", files / "one.pem", "-ndays", 1,
        "-respout", tmp_path / "one.ocsp")
    (tmp_path / "chain.pem").write_text((files / "one.pem").read_text() + (files / "ca.pem").read_text())
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{certificates: [{{cert: {tmp_path}/chain.pem, "
                  f"key: {files}/one.key, ocsp: {tmp_path}/one.ocsp}}]}}}}\nroutes: [{{respond: {{status: 204}}}}]\n")
    for version in ("-tls1_2", "-tls1_3"):
        told = s_client(proxy, "-status", version)
        assert "OCSP Response Status: successful" in told and "Cert Status: good" in told
        assert "OCSP" not in s_client(proxy, version), "only for clients that ask for it"


def test_tls_1_3_can_be_the_least(start, authority):
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{min_version: '1.3', cert: {authority.folder}/one.pem, "
                  f"key: {authority.folder}/one.key}}}}\nroutes: [{{respond: {{status: 200, body: ok}}}}]\n")
    assert "\n\nok" in s_client(proxy)
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-tls1_2"], input="",
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and "protocol version" in done.stderr


@pytest.mark.parametrize("group", ["X25519", "P-256", "P-384"])
def test_each_group_is_taken(proxy, group):
    assert "\n\nok" in s_client(proxy, "-groups", group)


@pytest.mark.skipif(ssl.OPENSSL_VERSION_INFO < (3, 5), reason="OpenSSL has it since 3.5")
def test_x25519mlkem768_is_taken(proxy):
    told = s_client(proxy, "-tls1_3", "-groups", "X25519MLKEM768")
    assert "X25519MLKEM768" in told and "\n\nok" in told


def test_the_order_of_ciphers_is_the_servers(proxy):
    suites = ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
    taken = {re.search(r"Cipher is (\S+)", s_client(proxy, "-tls1_2", "-cipher", ":".join(offered))).group(1)
             for offered in (suites, suites[::-1])}
    assert len(taken) == 1 and taken <= set(suites)


def test_compression_is_none(proxy):
    for version in ("-tls1_2", "-tls1_3"):
        assert "Compression: NONE" in s_client(proxy, version, "-comp")


@pytest.mark.parametrize("n_between, is_taken", [(2, True), (3, False)])
def test_a_chain_of_a_client_has_four_certificates_at_most(proxy, authority, tmp_path, n_between, is_taken):
    """Its own, those between, and the authority's."""
    issuer, sent = authority, b""
    for i in range(n_between):
        certificate, key = issuer.sign(f"between-{n_between}-{i}", "DNS:a.test", "basicConstraints=critical,CA:TRUE\n")
        issuer = Authority(tmp_path / f"between-{i}")
        issuer.certificate.write_bytes(certificate.read_bytes())
        (issuer.folder / "ca.key").write_bytes(key.read_bytes())
        sent = certificate.read_bytes() + sent
    certificate, key = issuer.sign("client", "DNS:client.test", "extendedKeyUsage=clientAuth\n")
    chain = tmp_path / "chain.pem"
    chain.write_bytes(certificate.read_bytes() + sent)
    done = subprocess.run(["curl", "-sSk", "--connect-to", f"one.test:443:127.0.0.1:{proxy.port}", "https://one.test/",
                           "--cert", chain, "--key", key], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout == "known") == is_taken, done
    assert is_taken or done.returncode != 0


def test_a_client_of_other_protocols_gets_the_alert(proxy):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-alpn", "h3"], input="",
                          capture_output=True, text=True, check=False, timeout=60)
    assert "no application protocol" in done.stderr


def test_python_opens_the_url(proxy, authority):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
    context.set_ciphers("ECDHE+aRSA")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with urllib.request.urlopen(f"https://127.0.0.1:{proxy.port}/", context=context, timeout=30) as answer:
        assert (answer.status, answer.read()) == (200, b"ok")


@pytest.fixture(name="plain")
def a_proxy_of_one_pair(start, authority):
    return start(f"listen: {{address: 127.0.0.1:0, tls: {{cert: {authority.folder}/one.pem, "
                 f"key: {authority.folder}/one.key}}}}\nroutes: [{{respond: {{status: 200, body: ok}}}}]\n")


@needs("node")
def test_node_resumes(plain, authority):
    told = run("node", "-e", NODE, plain.port, authority.certificate).splitlines()
    assert told == ["200 ok TLSv1.3 false", "200 ok TLSv1.3 true"]


@needs("go")
def test_go_resumes(plain, authority, tmp_path):
    (tmp_path / "main.go").write_text(GO.replace("tls.VersionName(answer.TLS.Version)", "answer.TLS.Version"))
    told = run("go", "run", tmp_path / "main.go", plain.port, authority.certificate).splitlines()
    assert told == ["200 ok 771 false", "200 ok 771 true", "200 ok 772 false", "200 ok 772 true"]


def test_port_80_of_the_manual_passes_challenges_and_redirects(start, start_upstream, authority):
    with open(f"{ROOT}/docs/tls.md", encoding="utf-8") as file:
        policy = re.search(r"## Port 80\n.*?```yaml\n(.*?)```", file.read(), re.S)[1]
    certbot, api = start_upstream(), start_upstream()
    for shown, here in (("0.0.0.0:80", "127.0.0.1:0"), ("0.0.0.0:443", "127.0.0.1:0"),
                        ("tls/api.pem", f"{authority.folder}/one.pem"), ("tls/api.key", f"{authority.folder}/one.key"),
                        ("http://127.0.0.1:8888", certbot.url), ("http://127.0.0.1:9000", api.url)):
        assert shown in policy
        policy = policy.replace(shown, here)
    proxy = start(policy)
    challenge = "/.well-known/acme-challenge/token"
    plain, secure = (f"127.0.0.1:{address[1]}"
                     for address in until(lambda: proxy.find_addresses(2), "both addresses"))
    assert run("curl", "-sS", f"http://{plain}{challenge}", "-H", "Host: api.example.com") != ""
    assert [one.target for one in certbot.requests] == [challenge] and not api.requests
    told = run("curl", "-sSi", "--connect-to", f"::{plain}", "http://api.example.com/a?b=1")
    assert told.startswith("HTTP/1.1 308") and "Location: https://api.example.com/a?b=1\n" in told
    told = run("curl", "-sSi", "--connect-to", f"::{plain}", "http://elsewhere.test/")
    assert told.startswith("HTTP/1.1 404")
    assert run("curl", "-sSk", f"https://{secure}{challenge}") != ""
    assert [one.target for one in api.requests] == [challenge]
