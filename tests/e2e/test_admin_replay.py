"""POST /v1/replay: an access log, run through the policy in force by a child process."""

import json
import pathlib
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from harness import program
from harness.admin import JSON, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer, is_problem
from harness.client import Client
from harness.wait import holds_unless_it_stalls, until

MAKE_LOG = pathlib.Path(__file__).parents[1] / "support" / "make_log"
BYTES = ("Content-Type", "application/octet-stream")
BYTES_MAX = 64 * 1024 * 1024
HEALTH_S = 0.05
N_LINES = 50000  # of a log that the child is at for a while: with AddressSanitizer, on a busy machine, for many seconds

POLICY = """
workers: 1
admin:
  listen: ["unix:{folder}/admin.sock", 127.0.0.1:0]
  token: 0123456789abcdef0123456789abcdef
  read_token: fedcba9876543210fedcba9876543210
limits:
  per-client: {{key: client.ip, rate: 60/minute, burst: 20}}
  per-key: {{key: header.x-api-key, algorithm: sliding_window, rate: 1000/hour}}
  login: {{key: client.ip, algorithm: fixed_window, rate: 5/minute, charge_on: [401, 403]}}
  stricter: {{key: client.ip, rate: 30/minute, burst: 10, shadow: true}}
routes:
  - {{name: login, match: {{path: "/v1/login*/**"}}, limits: [login, per-client], respond: {{status: 200}}}}
  - {{name: api, match: {{path: "/v1/**"}}, limits: [per-client, per-key, stricter], respond: {{status: 200}}}}
  - {{name: rest, limits: [], respond: {{status: 204}}}}
"""


def make_log(folder, n_lines):
    path = folder / f"{n_lines}.log"
    with open(path, "wb") as file:
        subprocess.run([sys.executable, MAKE_LOG, str(n_lines), "--rate", "40"], stdout=file, check=True)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return make_log(tmp_path_factory.mktemp("logs"), 2000)


@pytest.fixture(scope="module")
def proxy(start_shared, tmp_path_factory):
    return start_shared(POLICY.format(folder=tmp_path_factory.mktemp("replay")))


@pytest.fixture(scope="module")
def admin(proxy):
    return Admin(addresses(proxy, 2)[0])


def target(**parameters):
    return "/v1/replay?" + urllib.parse.urlencode(parameters, doseq=True)


def ask(admin, log, path="/v1/replay", fields=(BYTES,)):
    return admin.ask("POST", path, fields, log.read_bytes() if isinstance(log, pathlib.Path) else log)


def children_of(proxy):
    tasks = pathlib.Path(f"/proc/{proxy.process.pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def begin(admin, length):
    """A client that has sent the head of a log, which the child is waiting for."""
    client = Client(admin.address)
    client.send(b"POST /v1/replay HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                b"Content-Length: %d\r\n\r\n" % length)
    return client


def of_command(*arguments):
    result = program.command("replay", "--json", *map(str, arguments))
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    for side in {"policy", "against"} & set(report):
        del report[side]["policy"]
    return report


def of_answer(answer, names=("in force", "changed")):
    assert answer.status == 200, (answer.start_line, answer.body)
    report = answer.json()
    for side, name in zip(("policy", "against"), names):
        if side in report:
            assert report[side].pop("policy") == name
    return report


def is_free(admin, log):
    return until(lambda: ask(admin, log).status == 200, "the place to be free")


def test_the_numbers_are_those_of_the_command(proxy, admin, log):
    expected = of_command(proxy.folder / "policy.yaml", log)
    assert expected["policy"]["denied"] > 10
    assert of_answer(ask(admin, log)) == expected


def test_changed_numbers_are_compared_with_those_in_force(proxy, admin, log, tmp_path):
    changed = tmp_path / "changed.yaml"
    policy = (proxy.folder / "policy.yaml").read_text()
    changed.write_text(policy.replace("60/minute, burst: 20", "30/minute, burst: 10").replace("shadow: true", "shadow: false"))
    path = target(set=["per-client.rate=30/minute", "per-client.burst=10", "stricter.shadow=false"])
    expected = of_command(proxy.folder / "policy.yaml", log, "--against", changed)
    assert expected["changes"]["newly_denied"] > 0
    assert of_answer(ask(admin, log, path)) == expected
    words = ("per-client.rate=30/minute", "per-client.burst=10", "stricter.shadow=false")
    assert of_command(*(f"--set={word}" for word in words), proxy.folder / "policy.yaml", log) == expected


@pytest.mark.parametrize("parameters, words", [
    ({"set": "none.rate=1/s"}, "no such limit"),
    ({"set": "per-client.key=global"}, "what can be set"),
    ({"set": "per-client.rate"}, "LIMIT.KEY=VALUE"),
    ({"set": ["per-client.rate=1/s", "none.burst=1"]}, "--set none.burst=1: the policy has no such limit"),
    ({"set": ["per-client.rate=1/s"] * 65}, "too many"),
    ({"set": "per-client.rate=fast"}, 'rate "fast"'),
    ({"set": "per-client.burst=0"}, "must be at least 1"),
    ({"set": "per-key.burst=5"}, "burst"),
    ({"format": "none"}, "--format none"),
    ({"host": "\nx"}, "end of a line"),
    ({"host": "a b"}, "--host"),
    ({"field": "a"}, "WHAT=NAME"),
    ({"html": "/tmp/x"}, "the parameters are"),
    ({"set": "x" * 2000}, "too long"),
])
def test_a_wish_that_cannot_be_met_is_a_400_with_the_reason(admin, log, parameters, words):
    answer = ask(admin, log, target(**parameters))
    assert words in is_problem(answer, 400)
    assert b"/proc/" not in answer.body and b"usage" not in answer.body


def test_no_value_is_an_option(admin, log):
    assert ask(admin, log, target(host="--help")).status == 200
    assert "--help" in is_problem(ask(admin, log, target(format="--help")), 400)


def test_a_log_that_is_none_is_a_400(admin):
    assert "first lines" in is_problem(ask(admin, b"\0\xff<script>\n" * 1000), 400)
    assert "empty" in is_problem(ask(admin, b""), 400)


def test_who_may_not_change_may_not_replay(proxy, admin, log):
    far = Admin(addresses(proxy, 2)[1])
    assert ask(far, log).status == 401
    assert is_problem(ask(far, log, fields=[BYTES, bearer(READ_TOKEN)]), 403)
    assert ask(far, log, fields=[BYTES, bearer(TOKEN)]).status == 200
    assert is_problem(ask(admin, log, fields=[("Content-Type", "text/plain")]), 415)
    assert is_problem(ask(admin, log, fields=[JSON]), 415)


def test_a_chunked_body_is_the_same(proxy, admin, log):
    with Client(admin.address) as client:
        client.send(b"POST /v1/replay HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
        content = log.read_bytes()
        for start in range(0, len(content), 7001):
            piece = content[start:start + 7001]
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        client.send(b"0\r\n\r\n")
        assert of_answer(client.read("POST")) == of_command(proxy.folder / "policy.yaml", log)
        assert client.ask("GET", "/healthz", host="localhost").status == 200  # the connection is kept


def test_one_at_a_time(proxy, admin, log):
    with begin(admin, log.stat().st_size) as client:
        until(lambda: children_of(proxy), "a child")
        assert "one at a time" in is_problem(ask(admin, log), 409)
        client.send(log.read_bytes())
        assert client.read("POST").status == 200
    assert ask(admin, log).status == 200


def test_a_client_that_leaves_takes_its_child_with_it(proxy, admin, log):
    client = begin(admin, log.stat().st_size)
    client.send(log.read_bytes()[:1000])
    until(lambda: children_of(proxy), "a child")
    client.close()
    until(lambda: not children_of(proxy), "the child to be gone")
    is_free(admin, log)


def test_a_client_that_leaves_after_its_log_does_so_too(proxy, admin, tmp_path):
    long = make_log(tmp_path, N_LINES)
    client = begin(admin, long.stat().st_size)
    client.send(long.read_bytes())
    client.close()
    until(lambda: not children_of(proxy), "the child to be gone", within=60)
    is_free(admin, b'127.0.0.1 - - [20/Nov/2026:23:58:22 +0000] "GET / HTTP/1.1" 200 1\n')


def test_a_body_beyond_64_mib_is_a_413(proxy, admin, log):
    with begin(admin, BYTES_MAX + 1) as client:
        assert is_problem(client.read("POST"), 413)
    assert not children_of(proxy)


def test_chunks_beyond_64_mib_are_a_413(proxy, admin, log):
    line = b'127.0.0.1 - - [20/Nov/2026:23:58:22 +0000] "GET /%s HTTP/1.1" 200 1\n' % (b"x" * 7000)
    lines = line * (1024 * 1024 // len(line))
    chunk = b"%x\r\n%s\r\n" % (len(lines), lines)
    with Client(admin.address) as client:
        client.send(b"POST /v1/replay HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(BYTES_MAX // len(lines) + 2):
                client.send(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has answered, and reads no more
        else:
            assert is_problem(client.read("POST"), 413)
    until(lambda: not children_of(proxy), "the child to be gone")
    is_free(admin, log)


def test_a_reload_meanwhile_changes_nothing_of_it(start, tmp_path, log):
    proxy = start(POLICY.format(folder=tmp_path))
    admin = Admin(addresses(proxy, 2)[0])
    file = proxy.folder / "policy.yaml"
    expected = of_command(file, log)
    content = log.read_bytes()
    with begin(admin, len(content)) as client:
        client.send(content[:5000])
        until(lambda: children_of(proxy), "a child")
        file.write_text(file.read_text().replace("60/minute", "1/minute"))
        admin.change("POST", "/v1/reload")
        client.send(content[5000:])
        assert of_answer(client.read("POST")) == expected
    assert of_answer(ask(admin, log)) == of_command(file, log) != expected


def test_a_stop_ends_it(start, tmp_path, log):
    proxy = start(POLICY.format(folder=tmp_path))
    admin = Admin(addresses(proxy, 2)[0])
    with begin(admin, log.stat().st_size):
        children = until(lambda: children_of(proxy), "a child")
        proxy.stop()
    assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)


def test_it_is_audited(start, tmp_path, log):
    proxy = start(POLICY.format(folder=tmp_path))
    admin = Admin(addresses(proxy, 2)[0])
    assert ask(admin, log, target(set="per-client.burst=3")).status == 200
    assert ask(admin, log, target(set="per-client.burst=x")).status == 400
    done, failed = audit(proxy, 2)
    assert "msg=changed" in done and "path=/v1/replay" in done and 'outcome="changes=1"' in done
    assert 'msg="not changed"' in failed and "burst" in failed


def test_health_is_answered_meanwhile(proxy, admin, tmp_path):
    """Of a long log; the same numbers as those of the command, and a probe of health every few ms."""
    long = make_log(tmp_path, N_LINES)
    path = target(set="per-client.rate=30/minute")
    expected = of_command(proxy.folder / "policy.yaml", long)

    def trial():
        times_s = []
        is_over = threading.Event()

        def probe():
            with admin.connect() as client:
                while not is_over.wait(0.005):
                    begun_s = time.monotonic()
                    assert client.ask("GET", "/healthz", host="localhost").status == 200
                    times_s.append(time.monotonic() - begun_s)

        prober = threading.Thread(target=probe)
        prober.start()
        try:
            report = of_answer(ask(admin, long, path))
        finally:
            is_over.set()
            prober.join()
        for part in ("log", "policy"):
            assert report[part] == expected[part]
        assert len(times_s) > 20
        return sorted(times_s)[len(times_s) * 99 // 100] <= HEALTH_S

    holds_unless_it_stalls(trial, HEALTH_S)
