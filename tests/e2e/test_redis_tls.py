"""TLS to Redis: one server, sentinels and a cluster, with decisions, bans and subscriptions. The faults of
a Redis are those of test_faults.py and others, which scripts/test-long runs over TLS too."""

import socket
import textwrap

import pytest

from harness import program
from harness.certificates import Authority
from harness.ports import free_port
from harness.reload import reload
from harness.wait import until


def policy(url, store="", on_failure="deny", deadline="10s"):
    return f"""
        workers: 2
        store: {{redis: '{url}', deadline: {deadline}, on_failure: {on_failure}{store}}}
        limits: {{shared: {{key: global, rate: 100/day}}}}
        routes: [{{limits: [shared], respond: {{status: 204}}}}]
    """


def start_linked(start, text, env=None):
    """A proxy of two workers whose links are both up."""
    proxy = start(text, env=env)
    until(lambda: proxy.stderr().count('msg="link up"') == 2, "both links")
    return proxy


def statuses(proxy, n):
    return [proxy.ask().status for _ in range(n)]


def check(folder, store, redis="rediss://127.0.0.1"):
    file = folder / "checked.yaml"
    file.write_text(f"listen: 127.0.0.1:8080\nupstream: http://127.0.0.1:1\n"
                    f"store: {{redis: '{redis}', {store}}}\n")
    return program.command("check", str(file))


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


def options(authority, alternatives="IP:127.0.0.1", clients="no"):
    """What a Redis with a certificate for these is started with, besides its port."""
    certificate, key = authority.sign("redis", alternatives)
    return ["--tls-cert-file", str(certificate), "--tls-key-file", str(key),
            "--tls-auth-clients", clients, "--tls-ca-cert-file", str(authority.certificate)]


@pytest.fixture
def start_tls_redis(start_redis, authority):
    """start_tls_redis(…): a Redis whose certificate is as options() has it."""
    def make(*args, **kwargs):
        return start_redis("--tls-port", str(free_port()), *options(authority, *args, **kwargs))

    return make


def ca(authority, more=""):
    return f", tls: {{ca: {authority.certificate}{more}}}"


def test_a_link_over_tls_decides_and_subscribes(start, start_tls_redis, authority):
    redis = start_tls_redis()
    proxy = start_linked(start, policy(f"rediss://127.0.0.1:{redis.tls_port}", ca(authority)))
    assert statuses(proxy, 101) == [204] * 100 + [429]
    assert redis.keys()
    until(lambda: redis.call("PUBSUB", "CHANNELS"), "the subscription")


@pytest.mark.parametrize("host, alternatives", [
    ("127.0.0.1", "IP:127.0.0.1"),
    ("localhost", "DNS:localhost"),
    ("localhost", "DNS:other.example,DNS:localhost"),
])
def test_authorities_of_the_system_are_trusted(start, start_tls_redis, authority, host, alternatives):
    redis = start_tls_redis(alternatives)
    proxy = start_linked(start, policy(f"rediss://{host}:{redis.tls_port}"),
                         env={"SSL_CERT_FILE": str(authority.certificate)})
    assert proxy.ask().status == 204


@pytest.mark.parametrize("host, alternatives, is_known, reason", [
    ("127.0.0.1", "IP:127.0.0.2", True, "not for 127.0.0.1 but for 127.0.0.2"),
    ("127.0.0.1", "DNS:127.0.0.1", True, "not for 127.0.0.1"),
    ("localhost", "DNS:localhost.example", True, "not for localhost but for localhost.example"),
    ("localhost", "IP:127.0.0.1", True, "not for localhost but for 127.0.0.1"),
    ("127.0.0.1", "IP:127.0.0.1", False, "has an issuer that is neither among ca nor sent"),
], ids=["another_address", "an_address_as_a_name", "another_name", "an_address_alone",
        "an_unknown_authority"])
def test_another_certificate_is_refused_with_the_reason(
        start, start_tls_redis, authority, tmp_path, host, alternatives, is_known, reason):
    redis = start_tls_redis(alternatives)
    known = authority if is_known else Authority(tmp_path / "another")
    proxy = start(policy(f"rediss://{host}:{redis.tls_port}", ca(known)))
    until(lambda: reason in proxy.stderr(), "the reason in the log")
    assert 'msg="no link" err="TLS: ' in proxy.stderr()
    assert proxy.ask().status == 503
    assert not redis.keys()


def test_a_name_of_the_policy_takes_the_place_of_the_host(start, start_tls_redis, authority):
    redis = start_tls_redis("DNS:redis.internal")
    proxy = start_linked(start, policy(f"rediss://127.0.0.1:{redis.tls_port}",
                                       ca(authority, ", name: redis.internal")))
    assert proxy.ask().status == 204


def test_without_verify_any_certificate_will_do_and_check_warns(
        start, start_tls_redis, tmp_path):
    redis = start_tls_redis("DNS:redis.internal")
    proxy = start_linked(start, policy(f"rediss://127.0.0.1:{redis.tls_port}",
                                       ", tls: {verify: false}"))
    assert proxy.ask().status == 204
    assert "[unverified-server]" in check(tmp_path, "tls: {verify: false}").stderr


def test_a_redis_that_asks_for_a_certificate_gets_it(start, start_tls_redis, authority):
    redis = start_tls_redis(clients="yes")
    certificate, key = authority.sign("proxy", "DNS:proxy.example")
    url = f"rediss://127.0.0.1:{redis.tls_port}"
    shown = start_linked(start, policy(url, ca(authority, f", cert: {certificate}, key: {key}")))
    assert shown.ask().status == 204
    hidden = start(policy(url, ca(authority)))
    until(lambda: "certificate required" in hidden.stderr()
          or "handshake failure" in hidden.stderr(), "the alert in the log")
    assert hidden.ask().status == 503


def test_a_redis_that_speaks_no_tls_is_a_fault(start, start_redis, authority):
    redis = start_redis()
    proxy = start(policy(f"rediss://127.0.0.1:{redis.port}", ca(authority)))
    until(lambda: 'msg="no link"' in proxy.stderr(), "the fault in the log")
    assert proxy.ask().status == 503
    assert not redis.keys()


def test_a_handshake_that_stalls_is_given_up(start, authority):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        proxy = start(policy(f"rediss://127.0.0.1:{port}", ca(authority), "allow", "100ms"))
        until(lambda: "no answer to the handshake" in proxy.stderr(), "the end of the attempt")
        assert proxy.ask().status == 204


def test_a_link_is_made_again_when_it_was_lost(start, start_tls_redis, authority):
    redis = start_tls_redis()
    proxy = start_linked(start, policy(f"rediss://127.0.0.1:{redis.tls_port}", ca(authority)))
    assert proxy.ask().status == 204
    for _ in range(3):
        redis.kill()
        until(lambda: proxy.ask().status == 503, "the loss")
        redis.start()
        until(lambda: proxy.ask().status == 204, "Redis")


def test_a_redis_that_stalls_is_left_alone_until_it_answers(start, start_tls_redis, authority):
    redis = start_tls_redis()
    proxy = start_linked(start, policy(f"rediss://127.0.0.1:{redis.tls_port}", ca(authority),
                                       deadline="50ms"))
    assert proxy.ask().status == 204
    redis.pause()
    until(lambda: proxy.ask().status == 503, "the deadline")
    redis.resume()
    until(lambda: proxy.ask().status == 204, "Redis")


def test_an_authority_is_renewed_by_a_reload(start, start_tls_redis, authority, tmp_path):
    """A file that is none keeps the old rules; another authority takes effect on the next link."""
    redis = start_tls_redis()
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate.read_bytes())
    text = policy(f"rediss://127.0.0.1:{redis.tls_port}", f", tls: {{ca: {file}}}")
    proxy = start_linked(start, text)
    assert proxy.ask().status == 204
    file.write_text("no certificate")
    assert str(file) in reload(proxy, text)
    assert proxy.ask().status == 204
    file.write_bytes(Authority(tmp_path / "another").certificate.read_bytes())
    assert "the policy is in force" in reload(proxy, text)
    until(lambda: proxy.ask().status == 503, "the new authority")
    file.write_bytes(authority.certificate.read_bytes())
    reload(proxy, text)
    until(lambda: proxy.ask().status == 204, "the old authority")


@pytest.mark.parametrize("kind", ["ca", "system"])
def test_a_renewed_authority_is_taken_where_files_are_watched(start, start_tls_redis, authority, tmp_path, kind):
    """A file of the policy, and the one that stands for the system's."""
    redis = start_tls_redis()
    file, new = tmp_path / "ca.pem", tmp_path / "new.pem"

    def be(*authorities):
        new.write_bytes(b"".join(one.certificate.read_bytes() for one in authorities))
        new.replace(file)

    be(authority)
    text = policy(f"rediss://127.0.0.1:{redis.tls_port}", f", tls: {{ca: {file if kind == 'ca' else 'system'}}}")
    proxy = start_linked(start, "watch: true\n" + textwrap.dedent(text), env={"SSL_CERT_FILE": str(file)})
    assert proxy.ask().status == 204
    another = Authority(tmp_path / "another")
    be(another)
    until(lambda: proxy.ask().status == 503, "the new authority")
    be(another, authority)
    until(lambda: proxy.ask().status in (204, 429), "both authorities")
    assert "limit new" not in proxy.log_at_end(), "Redis has what was taken"


def test_many_decisions_at_once_need_more_than_one_record(start, start_tls_redis, authority):
    redis = start_tls_redis()
    names = [f"limit-{i}" for i in range(16)]
    limits = ", ".join(f"{name}: {{key: [header.x-id, path], rate: 1000/day}}" for name in names)
    proxy = start_linked(start, f"""
        workers: 2
        store: {{redis: 'rediss://127.0.0.1:{redis.tls_port}', deadline: 10s, on_failure: deny{ca(authority)}}}
        limits: {{{limits}}}
        routes: [{{limits: [{", ".join(names)}], respond: {{status: 204}}}}]
    """)
    clients = [proxy.connect() for _ in range(200)]
    for i, client in enumerate(clients):
        client.send(f"GET /{i} HTTP/1.1\r\nHost: a\r\nX-Id: {'x' * 60}\r\n\r\n".encode())
    assert {client.read().status for client in clients} == {204}
    assert len(redis.keys()) >= 200 * 16


def test_sentinels_and_the_master_they_name_are_spoken_to_over_tls(start, start_watched, authority):
    watched = start_watched(tls=options(authority))
    proxy = start_linked(start, policy(watched.url, ca(authority)))
    assert watched.url.startswith("rediss+sentinel://")
    assert proxy.ask().status == 204
    old = watched.master()
    old.kill()
    watched.wait_for_failover_from(old)
    until(lambda: proxy.ask().status == 204, "the new master")
    watched.wait_until_agreed()
    assert watched.master().keys()


def test_sentinels_have_rules_of_their_own(start, start_watched, authority, tmp_path):
    watched = start_watched(tls=options(authority), n_sentinels=1)
    other = Authority(tmp_path / "another")
    good = f", sentinel_tls: {{ca: {authority.certificate}}}"
    assert start_linked(start, policy(watched.url, ca(authority) + good)).ask().status == 204
    bad = f", sentinel_tls: {{ca: {other.certificate}}}"
    refused = start(policy(watched.url, ca(authority) + bad))
    until(lambda: 'err="a sentinel: TLS: ' in refused.stderr(), "the reason in the log")
    assert refused.ask().status == 503


def test_all_nodes_of_a_cluster_are_spoken_to_over_tls(start, start_cluster, authority):
    cluster = start_cluster(3, 0, tls=options(authority))
    proxy = start(f"""
        workers: 2
        store: {{redis: '{cluster.url}', deadline: 10s, on_failure: deny{ca(authority)}}}
        limits: {{each: {{key: header.x-id, rate: 2/day}}}}
        routes: [{{limits: [each], respond: {{status: 204}}}}]
    """)

    def ask(i):
        return proxy.ask(fields=[("X-Id", str(i))]).status

    until(lambda: ask(0) == 204, "the cluster")
    assert {ask(i) for i in range(1, 50)} == {204}
    assert all(node.call("DBSIZE") > 0 for node in cluster.masters)


@pytest.mark.parametrize("store, redis, told", [
    ("tls: {ca: missing.pem}", "rediss://127.0.0.1", "missing.pem"),
    ("tls: {cert: a.pem}", "rediss://127.0.0.1", '"key" is missing in tls'),
    ("tls: {}", "redis://127.0.0.1", "tls has no effect: redis is not rediss://"),
    ("sentinel_tls: {}", "rediss://127.0.0.1", "sentinel_tls has no effect"),
    ("sentinel_tls: {}", "redis+sentinel://127.0.0.1/m", "sentinel_tls has no effect"),
])
def test_check_says_what_is_wrong(tmp_path, store, redis, told):
    assert told in check(tmp_path, store, redis).stderr
