"""Files of TLS to servers that are replaced while the proxy runs: authorities, and its own certificate."""

import os
import re
import ssl
import subprocess
import threading

import pytest

from harness import admin, secure_upstream
from harness.certificates import Authority
from harness.client import Client
from harness.reload import n_reloads, reload, wait_for
from harness.secure_upstream import PATIENT, files_of, policy
from harness.upstream import answer
from harness.wait import until


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "ca")
    authority.sign("server", "IP:127.0.0.1")
    authority.sign("other", "DNS:other.test")
    authority.sign("proxy", "DNS:proxy.test")
    return authority


@pytest.fixture(name="start_secure")
def a_secure_upstream(authority):
    with secure_upstream.starter(authority) as start:
        yield start


class Load:
    """Clients until the end of `with`; what went wrong is in `failures`."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.failures = []
        self.n_requests = 0
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run) for _ in range(4)]

    def _run(self):
        with Client(self.proxy.address) as client:
            while not self.is_over.is_set():
                response = client.ask()
                self.n_requests += 1
                if response.status != 200:
                    self.failures.append(response.body)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def goes_on(self):
        """Until every client has asked anew."""
        n_before = self.n_requests
        until(lambda: self.n_requests >= n_before + 50, "more requests")


def replace(path, content):
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    os.replace(new, path)


def closing(peer, _request):
    """Every second answer ends its connection, so that there are handshakes."""
    peer.send(answer(fields=[("Connection", "close")] if peer.n_requests == 2 else []))


class Trusted:
    """Authorities in a file of the policy, in the system's file, or in the system's folder."""

    def __init__(self, kind, folder):
        self.file = None if kind == "folder" else folder / "trusted.pem"
        self.folder = folder / "trusted"
        self.folder.mkdir()
        self.rule = f"ca: {self.file}" if kind == "ca" else "ca: system"
        self.env = {} if kind == "ca" else {"SSL_CERT_FILE": str(self.file or "/dev/null"),
                                            "SSL_CERT_DIR": str(self.folder)}

    def be(self, *certificates):
        if self.file is not None:
            replace(self.file, b"".join(path.read_bytes() for path in certificates))
            return
        kept = set()
        for i, path in enumerate(certificates):
            run = subprocess.run(["openssl", "x509", "-noout", "-subject_hash", "-in", path], check=True,
                                 capture_output=True, text=True)
            kept.add(self.folder / f"{run.stdout.strip()}.{i}")
            replace(self.folder / f"{run.stdout.strip()}.{i}", path.read_bytes())
        for path in set(self.folder.iterdir()) - kept:
            path.unlink()


@pytest.mark.parametrize("watch", [True, False], ids=["watched", "reloaded"])
@pytest.mark.parametrize("kind", ["ca", "file", "folder"])
def test_a_renewed_authority_loses_no_request(start, start_secure, authority, tmp_path, kind, watch):
    """As it is done: the new one beside the old, then the server's certificate, then the new one alone."""
    renewed = Authority(tmp_path / "renewed")
    pair = renewed.sign("server", "IP:127.0.0.1")
    trusted = Trusted(kind, tmp_path)
    trusted.be(authority.certificate)
    upstream = start_secure(closing)
    of_new = start_secure(closing, pair=pair).context
    of_old = upstream.context
    rules = policy(upstream.url, authority, trusted.rule, PATIENT) + f"watch: {str(watch).lower()}\nworkers: 2\n"
    proxy = start(rules, env=trusted.env)

    def renew(*certificates):
        before = n_reloads(proxy)
        trusted.be(*certificates)
        if watch:
            wait_for(proxy, before + 1)
        else:
            reload(proxy, rules)
        load.goes_on()

    with Load(proxy) as load:
        load.goes_on()
        renew(authority.certificate, renewed.certificate)
        upstream.context = of_new
        load.goes_on()
        renew(renewed.certificate)
    assert not load.failures, load.failures[:3]
    upstream.context = of_old
    statuses = {proxy.ask().status for _ in range(20)}  # each connection serves two
    assert 502 in statuses


@pytest.mark.parametrize("file, make, words", [
    ("ca", lambda _: b"garbage", "trusted.pem"),
    ("ca", lambda _: None, "trusted.pem"),
    ("ca", lambda authority: authority.certificate.read_bytes()[:300], "trusted.pem"),
    ("key", lambda authority: files_of(authority, "other")[1].read_bytes(), "own.key"),
    ("cert", lambda authority: files_of(authority, "other")[0].read_bytes(), "own.pem"),
], ids=["garbage", "missing", "half", "another key", "another certificate"])
def test_a_failed_reload_keeps_the_old_files(start, start_secure, authority, tmp_path, file, make, words):
    def demand(context):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)

    paths = {name: tmp_path / end for name, end in (("ca", "trusted.pem"), ("cert", "own.pem"), ("key", "own.key"))}
    certificate, key = files_of(authority, "proxy")
    for name, source in (("ca", authority.certificate), ("cert", certificate), ("key", key)):
        paths[name].write_bytes(source.read_bytes())
    upstream = start_secure(closing, prepare=demand)
    tls = ", ".join(f"{name}: {path}" for name, path in paths.items())
    rules = policy(upstream.url, authority, tls, PATIENT)
    proxy = start(rules)
    with Load(proxy) as load:
        load.goes_on()
        content = make(authority)
        if content is None:
            paths[file].unlink()
        else:
            replace(paths[file], content)
        said = reload(proxy, rules)
        load.goes_on()
    assert "not reloaded" in said and words in said
    assert not load.failures, load.failures[:3]
    page = admin.Admin(admin.addresses(proxy)[0]).ask(path="/metrics").body.decode()
    assert re.search(r"^sluice_last_reload_successful 0$", page, re.MULTILINE)
