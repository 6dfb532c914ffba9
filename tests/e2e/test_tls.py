"""TLS to Redis: with the tunnel of docs/redis.md everywhere, and by itself where the build has it."""

import pathlib
import re
import shutil
import subprocess

import pytest

from harness import program
from harness.certificates import Authority
from harness.ports import free_port
from harness.wait import until

MANUAL = (pathlib.Path(__file__).parents[2] / "docs" / "redis.md").read_text()


def policy(url, on_failure="deny", deadline="10s"):
    return f"""
        workers: 2
        store: {{redis: '{url}', deadline: {deadline}, on_failure: {on_failure}}}
        limits: {{shared: {{key: global, rate: 100/day}}}}
        routes: [{{limits: [shared], respond: {{status: 204}}}}]
    """


def start_linked(start, authority, text):
    """A proxy of two workers whose links are both up."""
    proxy = start(text, env={"SSL_CERT_FILE": str(authority.certificate)})
    until(lambda: proxy.stderr().count('msg="link up"') == 2, "both links")
    return proxy


def check(folder, url):
    file = folder / "checked.yaml"
    file.write_text(f"listen: 127.0.0.1:8080\nupstream: http://127.0.0.1:1\nstore: {{redis: '{url}'}}\n")
    return program.command("check", str(file))


@pytest.fixture
def has_tls(tmp_path):
    return check(tmp_path, "rediss://127.0.0.1").returncode == 0


@pytest.fixture
def needs_tls(has_tls):
    if not has_tls:
        pytest.skip("this build has no TLS to Redis")


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def start_tls_redis(start_redis, authority):
    """start_tls_redis(names): a Redis whose certificate is for these; its TLS port."""
    def make(alternatives):
        certificate, key = authority.sign("redis", alternatives)
        port = free_port()
        redis = start_redis("--tls-port", str(port), "--tls-cert-file", str(certificate),
                            "--tls-key-file", str(key), "--tls-auth-clients", "no",
                            "--tls-ca-cert-file", str(authority.certificate))
        return redis, port

    return make


def test_a_build_without_tls_says_so_and_shows_the_way(has_tls, tmp_path):
    if has_tls:
        pytest.skip("this build has TLS to Redis")
    told = check(tmp_path, "rediss://127.0.0.1").stderr
    assert ":3:16: error: redis: this build has no TLS to Redis" in told
    assert "TLS tunnel on this host, as docs/redis.md shows" in told
    assert "## TLS" in MANUAL


def test_sentinels_are_never_spoken_to_in_tls(tmp_path):
    told = check(tmp_path, "rediss+sentinel://127.0.0.1/mymaster").stderr
    assert ":3:16: error: redis: there is no TLS to sentinels" in told


# --- by itself ---


@pytest.mark.parametrize("host, alternatives", [
    ("127.0.0.1", "IP:127.0.0.1"),
    ("localhost", "DNS:localhost"),
    ("localhost", "DNS:other.example,DNS:localhost"),
])
def test_a_redis_with_a_certificate_of_its_name_is_trusted(
        needs_tls, start, start_tls_redis, authority, host, alternatives):
    redis, port = start_tls_redis(alternatives)
    proxy = start_linked(start, authority, policy(f"rediss://{host}:{port}"))
    assert [proxy.ask().status for _ in range(101)] == [204] * 100 + [429]
    assert redis.keys()


@pytest.mark.parametrize("host, alternatives, is_known", [
    ("127.0.0.1", "IP:127.0.0.2", True),
    ("127.0.0.1", "DNS:127.0.0.1", True),
    ("localhost", "DNS:localhost.example", True),
    ("localhost", "IP:127.0.0.1", True),
    ("127.0.0.1", "IP:127.0.0.1", False),
], ids=["another_address", "an_address_as_a_name", "another_name", "an_address_alone",
        "an_unknown_authority"])
def test_a_redis_with_another_certificate_is_not(
        needs_tls, start, start_tls_redis, authority, tmp_path, host, alternatives, is_known):
    redis, port = start_tls_redis(alternatives)
    known = authority if is_known else Authority(tmp_path / "another")
    proxy = start(policy(f"rediss://{host}:{port}"),
                  env={"SSL_CERT_FILE": str(known.certificate)})
    reason = "certificate verify failed" if host == "127.0.0.1" else "no link"
    until(lambda: reason in proxy.stderr(), "the reason in the log")
    assert proxy.ask().status == 503
    assert not redis.keys()


def test_a_redis_that_speaks_no_tls_is_a_fault(needs_tls, start, start_redis):
    redis = start_redis()
    proxy = start(policy(f"rediss://127.0.0.1:{redis.port}"))
    until(lambda: 'msg="no link"' in proxy.stderr(), "the reason in the log")
    assert proxy.ask().status == 503


def test_a_link_in_tls_is_made_again_when_it_was_lost(
        needs_tls, start, start_tls_redis, authority):
    redis, port = start_tls_redis("IP:127.0.0.1")
    proxy = start_linked(start, authority, policy(f"rediss://127.0.0.1:{port}"))
    assert proxy.ask().status == 204
    for _ in range(3):
        redis.kill()
        until(lambda: proxy.ask().status == 503, "the loss")
        redis.start()
        until(lambda: proxy.ask().status == 204, "Redis")


def test_many_decisions_at_once_go_through_tls(needs_tls, start, start_tls_redis, authority):
    """More than a record of TLS holds, in both directions."""
    redis, port = start_tls_redis("IP:127.0.0.1")
    limits = ", ".join(f"limit-{i}: {{key: [header.x-id, path], rate: 1000/day}}" for i in range(16))
    proxy = start_linked(start, authority, f"""
        workers: 2
        store: {{redis: 'rediss://127.0.0.1:{port}', deadline: 10s, on_failure: deny}}
        limits: {{{limits}}}
        routes: [{{limits: [{", ".join(f"limit-{i}" for i in range(16))}], respond: {{status: 204}}}}]
    """)
    clients = [proxy.connect() for _ in range(200)]
    for i, client in enumerate(clients):
        client.send(f"GET /{i} HTTP/1.1\r\nHost: a\r\nX-Id: {'x' * 60}\r\n\r\n".encode())
    assert {client.read().status for client in clients} == {204}
    assert len(redis.keys()) >= 200 * 16


# --- through the tunnel of the manual ---


class Tunnel:
    """stunnel with the file of docs/redis.md, but for its addresses."""

    def __init__(self, folder, port, authority):
        self.port = free_port()
        file, = re.findall(r"```ini\n(.*?)```", MANUAL, re.DOTALL)
        for written, ours in (("127.0.0.1:6379", f"127.0.0.1:{self.port}"),
                              ("redis.example.com:6380", f"127.0.0.1:{port}"),
                              ("checkHost = redis.example.com", "checkIP = 127.0.0.1"),
                              ("/etc/ssl/certs/ca-certificates.crt", str(authority.certificate))):
            assert written in file, written
            file = file.replace(written, ours)
        (folder / "stunnel.conf").write_text("foreground = yes\npid =\n" + file)
        self.process = subprocess.Popen(["stunnel", str(folder / "stunnel.conf")],
                                        stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()


def test_the_tunnel_of_the_manual_leads_to_redis(start, start_tls_redis, authority, tmp_path):
    if shutil.which("stunnel") is None:
        pytest.fail("stunnel is not installed: see scripts/install-packages")
    redis, port = start_tls_redis("IP:127.0.0.1")
    tunnel = Tunnel(tmp_path, port, authority)
    try:
        proxy = start(policy(f"redis://127.0.0.1:{tunnel.port}"))
        until(lambda: proxy.ask().status == 204, "Redis")
        assert redis.keys()
    finally:
        tunnel.stop()
