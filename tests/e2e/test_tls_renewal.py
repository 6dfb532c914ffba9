"""A certificate and its key are replaced while clients come and go: nobody is refused, no request is lost.

SLUICE_RENEWALS and SLUICE_RENEWAL_CLIENTS say how many, of each way and at once, for a run by hand."""

import hashlib
import os
import pathlib
import re
import shutil
import ssl
import statistics
import subprocess
import tempfile
import threading
import time

import pytest

from harness import message
from harness.certificates import Authority, dated
from harness.client import Client
from harness.program import Sluice
from harness.wait import soon, until

MANUAL = pathlib.Path(__file__).parents[2] / "docs" / "tls.md"
RENEWALS = int(os.environ.get("SLUICE_RENEWALS", "2"))
CLIENTS = int(os.environ.get("SLUICE_RENEWAL_CLIENTS", "8"))
SERVED_WITHIN_S = 2.0
PAUSE_S = 0.0025 * CLIENTS  # between two requests of a client: 400 a second of all

POLICY = """
    listen: {address: 127.0.0.1:0, tls: {cert: live/tls.crt, key: live/tls.key}}
    watch: true
    workers: 2
    max: {handshakes: 4000}
    routes: [{respond: {status: 200, body: ok}}]
"""


class Pairs:
    """Two pairs for one name, of which each takes the place of the other: (certificate, key) in PEM."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        self.pairs = [tuple(file.read_text() for file in self.authority.sign(f"pair-{i}", "DNS:one.test"))
                      for i in range(2)]

    def context(self):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
        return context


def fingerprint(certificate):
    der = certificate if isinstance(certificate, bytes) else ssl.PEM_cert_to_DER_cert(certificate)
    return hashlib.sha256(der).hexdigest()


class SecureClient(Client):
    def __init__(self, proxy, context):
        super().__init__(proxy.address)
        proxy.clients.append(self)
        self.sock = context.wrap_socket(self.sock, server_hostname="one.test", suppress_ragged_eofs=False)
        self.reader = message.Reader(self.sock)
        self.fingerprint = fingerprint(self.sock.getpeercert(True))


def served(proxy, context):
    """The certificate that a new connection is shown."""
    with SecureClient(proxy, context) as client:
        assert client.ask(host="one.test").body == b"ok"
        return client.fingerprint


class Load:
    """Clients until the end of `with`, each in a thread: half keep their connection, half make new ones."""

    def __init__(self, proxy, context):
        self.proxy, self.context = proxy, context
        self.failures, self.n_requests, self.n_handshakes = [], [0] * CLIENTS, [0] * CLIENTS
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(CLIENTS)]

    def _run(self, i):
        client = None
        try:
            while not self.is_over.is_set():
                if client is None:
                    client = SecureClient(self.proxy, self.context)
                    self.n_handshakes[i] += 1
                response = client.ask(host="one.test")
                assert (response.status, response.body) == (200, b"ok")
                self.n_requests[i] += 1
                if i % 2:
                    client.close()
                    self.proxy.clients.remove(client)
                    client = None
                self.is_over.wait(PAUSE_S)
        except Exception as failure:  # pylint: disable=broad-exception-caught
            self.failures.append(f"client {i}: {failure!r}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


# --- the ways to replace a pair: each is given the folder, the pair and a number that is new ---


def put(path, text):
    """By a rename, so that nobody reads half of it."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def link(path, target):
    new = path.with_name(path.name + ".new")
    os.symlink(target, new)
    os.replace(new, path)


def by_rename(live, pair, _):
    for name, text in zip(("tls.crt", "tls.key"), pair):
        put(live / name, text)


def apart(live, pair, pause_s):
    for name, text in zip(("tls.crt", "tls.key"), pair):
        time.sleep(pause_s if name == "tls.key" else 0)
        (live / name).write_text(text)


def half_a_second_apart(live, pair, _):
    apart(live, pair, 0.5)


def a_second_apart(live, pair, _):
    """As long as the program waits for more changes: it may try the new certificate with the old key, and keep both."""
    apart(live, pair, 1.0)


def by_a_folder(live, pair, number):
    """As Kubernetes mounts a secret: the files lead through ..data, which leads to a folder of this issue."""
    folder = live / f"..{number}"
    folder.mkdir()
    for name, text in zip(("tls.crt", "tls.key"), pair):
        (folder / name).write_text(text)
    link(live / "..data", folder.name)
    for name in ("tls.crt", "tls.key"):
        if not (live / name).is_symlink():
            link(live / name, f"..data/{name}")


def by_links(live, pair, number):
    """As certbot does: live/ has links to files of this issue in archive/."""
    archive = live.parent / "archive"
    archive.mkdir(exist_ok=True)
    for name, text in zip(("tls.crt", "tls.key"), pair):
        (archive / f"{number}.{name}").write_text(text)
        link(live / name, f"../archive/{number}.{name}")


@pytest.fixture(name="pairs", scope="module")
def two_pairs(tmp_path_factory):
    return Pairs(tmp_path_factory.mktemp("renewal") / "pairs")


@pytest.fixture(name="running")
def a_proxy_with_the_first(start, tmp_path, pairs):
    """The proxy, and the folder of its pair."""
    live = tmp_path / "live"
    live.mkdir()
    by_rename(live, pairs.pairs[0], 0)
    return start(POLICY.replace("live/", f"{live}/")), live


@pytest.mark.parametrize("replace", [by_rename, by_a_folder, by_links, half_a_second_apart, a_second_apart])
def test_a_renewal_loses_nobody_and_is_served_soon(running, pairs, replace):
    proxy, live = running
    context = pairs.context()
    took_s = []  # until the new one was served
    with Load(proxy, context) as load:
        for number in range(1, RENEWALS + 1):
            pair = pairs.pairs[number % 2]
            replace(live, pair, number)
            began = time.monotonic()
            wanted = fingerprint(pair[0])
            soon(lambda wanted=wanted: served(proxy, context) == wanted, "the new certificate", SERVED_WITHIN_S)
            took_s.append(time.monotonic() - began)
    print(f"{replace.__name__}: {RENEWALS} renewals, {CLIENTS} clients, {sum(load.n_handshakes)} handshakes, "
          f"{sum(load.n_requests)} requests, {len(load.failures)} failures, served after {statistics.median(took_s):.2f} s, "
          f"at most {max(took_s):.2f} s")
    assert load.failures == []
    assert "TLS handshake failed" not in proxy.log_at_end()
    assert load.n_handshakes[::2] == [1] * len(load.n_handshakes[::2])  # a reload closes none that is kept
    assert min(load.n_requests) > RENEWALS


# --- certbot, and a service that is not root ---

SERVICE = (64123, 64124, 64125)  # user, group, and the group that may read the pair: none of them has a name


def issue(lineage, pair, number):
    """As certbot leaves it: files for root alone, and links to them."""
    archive = lineage.parent.parent / "archive"
    for folder in (archive, lineage):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in zip(("fullchain", "privkey"), pair):
        (archive / f"{name}{number}.pem").write_text(text)
        (archive / f"{name}{number}.pem").chmod(0o600)
        link(lineage / f"{name}.pem", archive / f"{name}{number}.pem")


def let_others_read_suppressions(monkeypatch, folder):
    """The checkout may lie where root alone reads, and ThreadSanitizer reads its file as the service."""
    options = os.environ.get("TSAN_OPTIONS", "")
    path = re.search(r"suppressions=(\S+)", options)
    if path:
        copy = shutil.copy(path.group(1), folder / "tsan.supp")
        monkeypatch.setenv("TSAN_OPTIONS", options.replace(path.group(1), str(copy)))


@pytest.mark.skipif(os.geteuid() != 0, reason="certbot is root, and the service is not")
def test_the_hook_of_the_manual_renews_for_a_service_that_is_not_root(pairs, monkeypatch):
    script = re.search(r"^#!/bin/sh\n# GROUP.*?(?=^```)", MANUAL.read_text(), re.MULTILINE | re.DOTALL).group()
    context = pairs.context()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # that of pytest is for root alone
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        let_others_read_suppressions(monkeypatch, folder)
        lineage, hook, live = folder / "letsencrypt" / "live" / "one.test", folder / "hook", folder / "tls"
        assert "/etc/sluice/tls" in script
        hook.write_text(script.replace("/etc/sluice/tls", str(live)))
        hook.chmod(0o755)

        def renew(number):
            issue(lineage, pairs.pairs[number % 2], number)
            subprocess.run([hook], check=True, env={**os.environ, "RENEWED_LINEAGE": str(lineage), "GROUP": str(SERVICE[2])})

        renew(0)
        assert (live / "api.key").stat().st_mode & 0o777 == 0o640
        proxy = Sluice(folder / "sluice", POLICY.replace("live/tls.crt", f"{live}/api.pem")
                       .replace("live/tls.key", f"{live}/api.key"), ids=SERVICE)
        try:
            assert served(proxy, context) == fingerprint(pairs.pairs[0][0])
            renew(1)
            soon(lambda: served(proxy, context) == fingerprint(pairs.pairs[1][0]), "the new certificate", SERVED_WITHIN_S)
            assert "not reloaded" not in proxy.stderr()
        finally:
            proxy.stop()


# --- what must not be served ---


def broken(_, pairs):
    return pairs.pairs[1][0][:200], pairs.pairs[1][1], "tls.crt: is broken PEM: "


def expired(folder, _):
    cert, key = dated(folder, "expired", "DNS:one.test", "20200101000000Z", "20210101000000Z")
    return cert.read_text(), key.read_text(), "tls.crt: the certificate has expired on 2021-01-01T00:00:00"


def key_of_another(_, pairs):
    return pairs.pairs[0][0], pairs.pairs[1][1], "tls.key: this key is not the certificate's in "


def without_a_key(_, pairs):
    return pairs.pairs[1][0], "", "tls.key: has no private key in PEM"


@pytest.mark.parametrize("make", [broken, expired, key_of_another, without_a_key])
def test_the_old_pair_stays_where_the_new_one_is_bad(running, pairs, tmp_path, make):
    proxy, live = running
    context = pairs.context()
    *bad, reason = make(tmp_path, pairs)
    with Load(proxy, context) as load:
        by_rename(live, bad, 1)
        until(lambda: 'msg="not reloaded' in proxy.stderr(), "the error to be told")
        assert str(live) in proxy.stderr() and reason in proxy.stderr()
        assert served(proxy, context) == fingerprint(pairs.pairs[0][0])
        by_rename(live, pairs.pairs[1], 2)  # the next change is another try
        until(lambda: served(proxy, context) == fingerprint(pairs.pairs[1][0]), "the good one")
    assert load.failures == []
