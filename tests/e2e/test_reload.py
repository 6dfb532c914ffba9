"""Another policy while requests are under way: SIGHUP, `watch`, and what stays."""

import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import message, program
from harness.admin import Admin, addresses, bearer
from harness.ports import free_port
from harness.reload import reload, text_of, write
from harness.upstream import answer
from harness.wait import holds_unless_it_stalls, until

IN_FORCE = 'msg="the policy is in force"'


def respond(word, top=""):
    return f"{top}\nroutes: [{{respond: {{status: 200, body: {word}}}}}]\n"


class Gate:
    """An upstream's behaviour that answers /slow when the test says so."""

    def __init__(self):
        self.opens = threading.Event()

    def __call__(self, peer, request):
        if request.target == "/slow":
            self.opens.wait()
        peer.send(answer(body=b"whole"))


@pytest.fixture(name="gate")
def gate_that_is_open_at_the_end():
    gate = Gate()
    yield gate
    gate.opens.set()


class Traffic:
    """Requests one after another on some connections that are kept, and each lost one."""

    def __init__(self, proxy, n=4, path="/"):
        self.proxy, self.path = proxy, path
        self.ends = threading.Event()
        self.n_answers, self.lost = 0, []
        self.threads = [threading.Thread(target=self._run) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        with self.proxy.connect() as client:
            while not self.ends.is_set():
                try:
                    response = client.ask(path=self.path)
                except (AssertionError, OSError, message.Cut) as error:
                    self.lost.append(repr(error))
                    return
                if response.status != 200:
                    self.lost.append((response.status, response.body))
                self.n_answers += 1

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        assert not self.lost, self.lost[:3]
        assert self.n_answers > 0


# --- the policy ---

def test_a_kept_connection_finds_the_new_policy_and_is_not_closed(start):
    proxy = start(respond("one"))
    client = proxy.connect()
    assert client.ask().body == b"one"
    reload(proxy, respond("two"))
    assert client.ask().body == b"two"


def test_a_broken_file_keeps_the_old_policy_and_all_errors_are_told(start):
    proxy = start(respond("one"))
    said = reload(proxy, "limits: {a: {key: x}}\ncolour: blue\n" + respond("two"))
    assert "line=2 column=" in said and "line=3 column=" in said, said
    assert 'msg="not reloaded: the policy stays as it is"' in said
    assert proxy.ask().body == b"one"
    assert IN_FORCE in reload(proxy, respond("two"))
    assert proxy.ask().body == b"two"


def test_a_request_under_way_ends_under_the_policy_it_began_with(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"""
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{upstream: api, response: {{set: {{X-Policy: one}}}}}}]
    """)
    slow = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    reload(proxy, respond("two"))
    assert proxy.ask().body == b"two"
    gate.opens.set()
    response = slow.read()
    assert (response.status, response.body, response.get("X-Policy")) == (200, b"whole", "one")
    assert slow.ask().body == b"two", "its connection goes on under the new one"


def test_a_pipelined_request_finds_the_policy_of_its_turn(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"upstream: {upstream.url}\n")
    client = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    reload(proxy, respond("two", "max: {headers: 50, head: 4KiB}"))
    gate.opens.set()
    assert client.read().body == b"whole"
    assert client.read().body == b"two"


# --- states ---

LIMITED = """
    limits:
      kept: {{key: global, rate: {rate}/1d, algorithm: {algorithm}}}
      {other}
    routes: [{{limits: [kept, {name}], respond: {{status: 200}}}}]
"""


def limited(rate, other, name, algorithm="fixed_window, align: first"):
    return LIMITED.format(rate=rate, other=other, name=name, algorithm=algorithm)


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_what_was_counted_is_kept_where_its_meaning_is_and_the_log_says_so(start, start_redis, store):
    top = "workers: 2\n"
    if store == "redis":
        top += f"store: {{redis: {start_redis().url}, deadline: 10s}}\n"
    proxy = start(top + program.textwrap.dedent(limited(5, "a: {key: global, rate: 100/1d}", "a")))
    if store == "redis":
        wait_for_links(proxy)
    for _ in range(3):
        assert proxy.ask().status == 200
    said = reload(proxy, top + program.textwrap.dedent(
        limited(4, "b: {key: global, rate: 100/1d}", "b")))
    assert 'msg="limit rescaled: what was taken counts" limit=kept rate=4 rate_before=5' in said
    assert 'msg="limit new: nothing is taken" limit=b' in said and 'msg="limit gone" limit=a' in said
    assert [proxy.ask().status for _ in range(2)] == [200, 429], "three were taken before"
    said = reload(proxy, top + program.textwrap.dedent(
        limited(4, "b: {key: global, rate: 100/1d}", "b")))
    assert 'msg="limit kept" limit=kept' in said and 'msg="limit kept" limit=b' in said
    assert proxy.ask().status == 429
    said = reload(proxy, top + program.textwrap.dedent(
        limited(4, "b: {key: global, rate: 100/1d}", "b", "sliding_window")))
    assert 'msg="limit new: nothing is taken" limit=kept because="its algorithm' in said
    assert proxy.ask().status == 200


def wait_for_links(proxy):
    until(lambda: proxy.stderr().count('msg="link up"') == 2, "each worker's link")


def wait_for_all_connections(redis):
    """The links, and those of the thread that watches bans."""
    def n_clients():
        lines = redis.call("CLIENT", "LIST").splitlines()
        return sum(b" cmd=client|list " not in line for line in lines)

    until(lambda: n_clients() == 2 + 2, "all connections")


def connections(redis):
    """Made to it so far, this question's own among them."""
    return int(redis.call("INFO", "stats").split(b"total_connections_received:")[1].split()[0])


def test_links_to_redis_stay_and_no_decision_is_late(start, start_redis):
    redis = start_redis()
    policy = f"""
        workers: 2
        store: {{redis: {redis.url}, on_failure: deny, deadline: 10s}}
        limits: {{a: {{key: global, rate: 1000000/s, algorithm: %s}}}}
        routes: [{{limits: [a], respond: {{status: 200}}}}]
    """
    proxy = start(policy % "token_bucket")
    wait_for_links(proxy)
    wait_for_all_connections(redis)
    connected = connections(redis)
    traffic = Traffic(proxy)
    for algorithm in ["gcra", "sliding_window", "fixed_window", "leaky_bucket", "token_bucket"]:
        reload(proxy, policy % algorithm)
        assert proxy.ask().status == 200
    traffic.end()
    assert connections(redis) == connected + 1, "no link was made anew"


def test_another_redis_is_connected_before_it_is_asked(start, start_redis):
    policy = """
        workers: 2
        store: {{redis: {url}, on_failure: deny, deadline: 10s}}
        limits: {{a: {{key: global, rate: 1000000/s}}}}
        routes: [{{limits: [a], respond: {{status: 200}}}}]
    """
    first, second = start_redis(), start_redis()

    def is_in_time():
        proxy = start(policy.format(url=first.url))
        wait_for_links(proxy)
        traffic = Traffic(proxy)
        reload(proxy, policy.format(url=second.url))
        until(second.keys, "a key in the other Redis")
        if "no answer to the handshake" not in proxy.stderr():
            traffic.end()
            return True
        traffic.ends.set()  # that is waited for for a second alone
        return False

    until(is_in_time, "a Redis that does not stall")


def test_slots_of_requests_from_before_are_held_to_their_end(start, start_upstream, gate):
    upstream = start_upstream(gate)
    policy = f"""
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        limits: {{slots: {{key: global, algorithm: concurrency, rate: 1, lease: 3s}}}}
        routes: [{{limits: [slots], upstream: api}}]
    """
    proxy = start(policy)
    slow = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    reload(proxy, policy)
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        assert proxy.ask().status == 429, "the lease is renewed"
        time.sleep(0.2)
    gate.opens.set()
    assert slow.read().status == 200
    until(lambda: proxy.ask().status == 200, "the slot")


SLOTS_IN_REDIS = """
    workers: 1
    store: {{redis: "{redis.url}", deadline: 10s, on_failure: deny}}
    limits: {{slots: {{key: global, algorithm: concurrency, rate: 1, lease: 1h}}}}
    upstreams: {{api: {{servers: "{upstream.url}"}}}}
    routes: [{{limits: [slots], upstream: api}}]
"""


def is_soon_served(proxy):
    """Bounded: a slot that is free after 3 s was given back within them."""
    ends = time.monotonic() + 3
    while proxy.ask().status != 200:
        if time.monotonic() > ends:
            return False
    return True


def is_given_back(start, redis, upstream, drains):
    """Whether the Redis of the policy before, redis[0], is told that the last request under that has ended."""
    proxy, other = [start(SLOTS_IN_REDIS.format(redis=redis[0], upstream=upstream)) for _ in range(2)]
    until(lambda: all('msg="link up"' in each.stderr() for each in (proxy, other)), "Redis")
    n_before = len(upstream.requests)
    slow = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(n_before + 1)
    assert other.ask().status == 429
    reload(proxy, SLOTS_IN_REDIS.format(redis=redis[1], upstream=upstream))
    redis[0].call("CLIENT", "PAUSE", 200, "WRITE")
    if drains:
        proxy.signal()
        until(lambda: "msg=draining" in proxy.stderr(), "the drain")
    upstream.behave.opens.set()
    assert slow.read().status == 200
    if drains:
        assert proxy.wait() == 0
    is_free = is_soon_served(other)
    redis[0].call("FLUSHALL")
    upstream.behave.opens.clear()
    return is_free


@pytest.mark.parametrize("drains", [False, True])
def test_what_became_of_the_last_requests_under_the_policy_before_is_told_to_its_redis(
        start, start_redis, start_upstream, gate, drains):
    redis, upstream = [start_redis(), start_redis()], start_upstream(gate)
    holds_unless_it_stalls(lambda: is_given_back(start, redis, upstream, drains), allowed_s=0.4)


# --- servers ---

def test_a_server_that_is_out_stays_out(start, start_upstream):
    good = start_upstream()
    dead = f"http://127.0.0.1:{free_port()}"
    policy = f"""
        upstreams:
          api: {{servers: ["{good.url}", "{dead}"], eject: {{failures: 1, for: 60s}}, retries: %d}}
        routes: [{{upstream: api}}]
    """
    proxy = start(policy % 2)
    until(lambda: proxy.ask().status == 200 and "server is down" in proxy.stderr(), "the ejection")
    reload(proxy, policy % 2)
    reload(proxy, policy % 3)
    for _ in range(8):
        assert proxy.ask().status == 200
    assert proxy.log_at_end().count("server is down") == 1


def test_connections_to_servers_are_kept_where_their_upstream_is_as_it_was(start, start_upstream):
    upstream = start_upstream()
    policy = f"workers: 1\nupstreams: {{api: {{servers: '{upstream.url}'}}}}\n" \
             "routes: [{upstream: api, response: {set: {X-Policy: '%s'}}}]\n"
    proxy = start(policy % "one")
    client = proxy.connect()
    assert client.ask().get("X-Policy") == "one"
    for word in ["two", "three"]:
        reload(proxy, policy % word)
        assert client.ask().get("X-Policy") == word
    assert upstream.last.connection == 1


def test_who_waits_for_a_connection_gets_it_under_a_policy_that_changes_the_upstream(
        start, start_upstream, gate):
    upstream = start_upstream(gate)
    policy = f"""
        workers: 1
        admin: 127.0.0.1:0
        upstreams: {{api: {{servers: "{upstream.url}", max_connections: 1, queue: {{requests: %d, wait: 1m}}}}}}
        routes: [{{upstream: api}}]
    """
    proxy = start(policy % 5)
    operator = Admin(addresses(proxy)[0])

    def await_one_that_waits():
        until(lambda: operator.read("/v1/upstreams")["upstreams"][0]["waiting"] == 1, "one in the queue")

    slow = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    waiting = proxy.send(b"GET /old HTTP/1.1\r\nHost: a\r\n\r\n")
    await_one_that_waits()
    reload(proxy, policy % 6)
    newer = proxy.send(b"GET /new HTTP/1.1\r\nHost: a\r\n\r\n")
    await_one_that_waits()
    gate.opens.set()
    assert [client.read().status for client in (slow, waiting, newer)] == [200, 200, 200]


# --- listeners ---

def test_listeners_come_and_go_without_dropping_a_connection(start):
    first, second = free_port(), free_port()
    proxy = start(f"listen: 127.0.0.1:{first}\n" + respond("one"))
    kept = proxy.connect()
    assert kept.ask().body == b"one"
    reload(proxy, respond("two"), listen=f"[127.0.0.1:{first}, 127.0.0.1:{second}]")
    assert proxy.connect(address=("127.0.0.1", second)).ask().body == b"two"
    queued = [proxy.connect() for _ in range(20)]
    reload(proxy, respond("three"), listen=f"127.0.0.1:{second}")
    for client in [kept, *queued]:
        assert client.ask().body == b"three"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", first), timeout=5)


def test_an_address_that_somebody_else_has_keeps_the_old_policy(start):
    proxy = start(respond("one"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = reload(proxy, respond("two"), listen=f"127.0.0.1:{other.getsockname()[1]}")
    assert "another process listens there" in said and "not reloaded" in said
    assert proxy.ask().body == b"one"


def test_unix_sockets_and_the_log_follow(start, tmp_path):
    path, log = tmp_path / "s", tmp_path / "log"
    proxy = start(f"listen: unix:{path}\n" + respond("one"))
    assert proxy.ask().body == b"one"
    reload(proxy, respond("two", f"log: {{to: {log}}}"), listen=f"[unix:{path}, 'unix:{path}2']")
    assert proxy.ask().body == b"two"
    assert proxy.connect(address=f"{path}2").ask().body == b"two"
    until(lambda: log.exists() and log.read_text().count("\n") == 2, "two lines in the other log")
    reload(proxy, respond("three"), listen=f"unix:{path}2")
    until(lambda: not path.exists(), "the file to go")


# --- watching ---

def test_each_way_to_change_the_file_is_seen(start):
    proxy = start(respond("one", "watch: true"))
    path = proxy.folder / "policy.yaml"


    def await_body(body):
        until(lambda: proxy.ask().body == body.encode(), f"the policy that says {body}")

    write(proxy, respond("two", "watch: true"))  # by a rename
    await_body("two")
    path.write_text(text_of(proxy, respond("three", "watch: true")))  # in place
    await_body("three")
    for i, word in enumerate(["four", "five"]):  # as Kubernetes mounts it
        data = proxy.folder / f"data{i}"
        data.mkdir()
        (data / "policy.yaml").write_text(text_of(proxy, respond(word, "watch: true")))
        os.symlink(data.name, proxy.folder / "..new")
        os.replace(proxy.folder / "..new", proxy.folder / "..data")
        if i == 0:
            os.symlink("..data/policy.yaml", proxy.folder / "link")
            os.replace(proxy.folder / "link", path)
        await_body(word)
    n_told = proxy.stderr().count("not reloaded")
    path.write_text("listen: [")
    until(lambda: proxy.stderr().count("not reloaded") > n_told, "the error to be told")
    assert proxy.ask().body == b"five"


def test_a_file_that_is_touched_all_the_time_does_not_hold_back_another(start, tmp_path):
    (touched := tmp_path / "touched.yaml").write_text("limits: {a: {key: client.ip, rate: 1/s}}\n")
    include = f"watch: true\ninclude: [{touched}]"
    proxy = start(respond("one", include))
    stop = threading.Event()

    def touch():
        while not stop.wait(0.005):
            touched.touch()

    (thread := threading.Thread(target=touch)).start()
    try:
        write(proxy, respond("two", include))
        until(lambda: proxy.ask().body == b"two", "the change to be read", within=20)
    finally:
        stop.set()
        thread.join()


def test_files_that_are_touched_and_say_the_same_are_no_reload(start, tmp_path):
    (included := tmp_path / "included.yaml").write_text("limits: {a: {key: client.ip, rate: 1/s}}\n")
    include = f"watch: true\ninclude: [{included}]\nadmin: unix:{tmp_path}/admin.sock"
    proxy = start(respond("one", include))
    path = proxy.folder / "policy.yaml"
    for _ in range(3):
        path.touch()
        included.touch()
        time.sleep(0.5)
        write(proxy, respond("one", include))  # by a rename
        time.sleep(0.5)
    assert IN_FORCE not in proxy.stderr() and "limit kept" not in proxy.stderr()
    assert Admin(str(tmp_path / "admin.sock")).read("/v1/reload")["attempts"] == 0
    proxy.signal(signal.SIGHUP)
    until(lambda: proxy.stderr().count(IN_FORCE) == 1, "the reload that was asked for")
    path.write_text("listen: [")
    until(lambda: "not reloaded" in proxy.stderr(), "the error to be told")
    write(proxy, respond("one", include))
    until(lambda: proxy.stderr().count(IN_FORCE) == 2, "what was right to be read after an error")
    included.write_text("limits: {a: {key: client.ip, rate: 2/s}}\n")
    until(lambda: "limit rescaled" in proxy.stderr(), "the change of the included file")


def test_a_touched_policy_is_read_where_it_names_the_file_of_a_token(start, tmp_path):
    (token := tmp_path / "token").write_text("0123456789abcdef\n")
    admin = f"admin: {{listen: 127.0.0.1:0, token_file: {token}}}"
    proxy = start(respond("one", f"watch: true\n{admin}"))
    operators = Admin(addresses(proxy)[0])
    token.write_text("fedcba9876543210\n")
    (proxy.folder / "policy.yaml").touch()
    until(lambda: operators.ask("GET", "/v1/routes", [bearer("fedcba9876543210")]).status == 200,
          "the other token")


MOUNTED = 'msg="an edit that replaces the policy\'s file will not be seen"'


def test_a_file_that_is_a_mount_of_its_own_is_told_of_at_the_start(start, tmp_path):
    (outside := tmp_path / "outside.yaml").write_text("listen: 127.0.0.1:0\n" + respond("one"))
    (inside := tmp_path / "inside.yaml").touch()
    script = 'mount --bind "$1" "$2" && exec "$0" run "$2"'
    with open(tmp_path / "stderr", "wb") as err, subprocess.Popen(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", script, program.PROGRAM, outside, inside],
            stdout=subprocess.DEVNULL, stderr=err, env=program.environment()) as process:
        def has_begun():
            told = (tmp_path / "stderr").read_text()
            if process.poll() is not None and "sluice" not in told and "level=" not in told:
                pytest.skip(f"no mount namespace can be made here: {told}")
            return "msg=listening" in told and told

        told = until(has_begun, "the proxy to listen")
        process.terminate()
        assert process.wait(program.STOP_WITHIN_S) == 0
    assert f"level=warn mod=app.run {MOUNTED} file={inside}" in told and "mount its folder" in told
    assert MOUNTED not in start(respond("one")).stderr()


# --- many ---

def test_fifty_at_once_lose_nothing_and_leave_nothing(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"upstream: {upstream.url}\nlimit: 1000000/s\n")
    traffic = Traffic(proxy)
    for i in range(50):
        write(proxy, f"upstream: {upstream.url}\nlimit: {1000000 + i}/s\n")
        proxy.signal(signal.SIGHUP)
        time.sleep(0.02)
    until(lambda: "rate=1000049" in proxy.stderr(), "the last of them")
    n_descriptors = proxy.n_descriptors()
    for i in range(10):
        write(proxy, f"upstream: {upstream.url}\nlimit: {2000000 + i}/s\n")
        proxy.signal(signal.SIGHUP)
        until(lambda i=i: f"rate={2000000 + i}" in proxy.stderr(), f"reload number {i}")
    traffic.end()
    until(lambda: proxy.n_descriptors() <= n_descriptors + 8, "what is left to be closed")


def test_a_drain_ends_what_began_under_an_earlier_policy(start, start_upstream, gate):
    upstream = start_upstream(gate)
    proxy = start(f"upstream: {upstream.url}\n")
    slow = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    upstream.wait_for(1)
    reload(proxy, respond("two"))
    proxy.signal()
    until(lambda: "msg=draining" in proxy.stderr(), "the drain")
    proxy.signal(signal.SIGHUP)
    until(lambda: "not heeded" in proxy.stderr(), "a word of the signal")
    gate.opens.set()
    assert slow.read().body == b"whole"
    assert proxy.wait() == 0


# --- the command ---

def test_the_command_tells_the_errors_and_its_status_tells(start, tmp_path):
    admin = tmp_path / "admin"
    top = f"admin: {{listen: 'unix:{admin}'}}"
    proxy = start(respond("one", top))
    path = proxy.folder / "policy.yaml"
    done = program.command("reload", "--socket", str(admin))
    assert (done.returncode, done.stdout) == (0, "reloaded: generation 2 is in force\n")
    write(proxy, "colour: blue\n" + respond("two", top))
    done = program.command("reload", "--socket", str(admin))
    assert done.returncode == 1 and "policy.yaml:2:1: error: unknown key" in done.stderr
    assert proxy.ask().body == b"one"
    done = program.command("reload", str(path))
    assert done.returncode == 1 and "no proxy was asked" in done.stderr
    write(proxy, respond("two", top))
    assert program.command("reload", str(path)).returncode == 0
    assert proxy.ask().body == b"two"


WARNED = "limits: {a: {key: header.x-a, rate: 1/s}}\nroutes: [{limits: [a], respond: {status: 204}}]\n"
WARNINGS = 'msg="the policy has warnings" file={} warnings=1 hint="sluice check {}"'


def test_the_number_of_warnings_is_logged_at_start_and_at_a_reload(start):
    proxy = start(WARNED)
    path = proxy.folder / "policy.yaml"
    told = WARNINGS.format(path, path)
    proxy.await_said(told)
    assert "client-chosen-key" in program.command("check", str(path)).stderr
    assert "has warnings" not in reload(proxy, WARNED.replace("header.x-a", "client.ip"))
    assert told in reload(proxy, WARNED)
    many = "".join(f"  - {{match: {{path: /{i}}}, limits: [a], respond: {{status: 204}}}}\n" for i in range(1001))
    assert "has warnings" not in reload(proxy, WARNED.splitlines()[0] + "\nroutes:\n" + many)
