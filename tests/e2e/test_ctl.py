"""`sluice ctl`: the admin API at a prompt."""

import json
import re
import signal
import socket
import subprocess
import threading

import pytest

from harness import program
from harness.admin import READ_TOKEN, TOKEN, addresses, ctl
from harness.upstream import answer
from harness.wait import until

POLICY = """
workers: 2
admin:
  listen: ["unix:{folder}/admin.sock", 127.0.0.1:0]
  token_file: {folder}/token
  read_token: {read_token}
limits:
  per-client: {{key: client.ip, rate: 60/hour, burst: 5}}
  per-key: {{key: [header.x-api-key, method], rate: [10/s, 100/day], algorithm: sliding_window}}
  slots: {{key: global, rate: 3, algorithm: concurrency, shadow: true}}
routes:
  - {{name: login, match: {{path: /login, method: [POST]}}, limits: [per-client, per-key],
     respond: {{status: 200}}}}
  - {{limits: [slots], respond: {{status: 204}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ctl")
    (path / "token").write_text(TOKEN + "\n")
    (path / "token").chmod(0o600)
    (path / "wrong").write_text("x" * 32 + "\n")
    return path


@pytest.fixture(scope="module")
def proxy(start_shared, folder):
    return start_shared(POLICY.format(folder=folder, read_token=READ_TOKEN))


@pytest.fixture(scope="module")
def places(proxy):
    return addresses(proxy, 2)


def told(result, status=0):
    assert result.returncode == status, (result.stdout, result.stderr)
    return result.stdout.splitlines()


def failed(result, status=1):
    assert result.returncode == status and result.stdout == "", (result.stdout, result.stderr)
    assert result.stderr.startswith(("sluice ctl: ", "usage: sluice ctl"))
    return result.stderr


def test_health_and_readiness_are_a_line(places):
    until(lambda: told(ctl(places[0], "health"))[0].startswith("alive: 2 workers"), "both loops to turn")
    assert told(ctl(places[1], "ready")) == ["ready; store: memory, ok"]


def test_status_tells_the_process_at_a_glance(start, tmp_path):
    proxy = start(f"""
        workers: 2
        admin: "unix:{tmp_path}/a.sock"
        limits: {{per-client: {{key: client.ip, rate: 2/hour}}}}
        routes:
          - {{match: {{path: /free}}, limits: [], respond: {{status: 204}}}}
          - {{limits: [per-client], respond: {{status: 204}}}}
        """)
    place = addresses(proxy)[0]
    for path in ("/free", "/", "/", "/"):
        proxy.ask(path=path)
    policy = str(proxy.folder / "policy.yaml")
    until(lambda: json.loads(ctl(place, "status", "--json").stdout)["requests"]["all"] == 4, "all to be counted")
    lines = told(ctl(place, "status"))
    version = program.command("version").stdout.split()[1]
    assert re.fullmatch(rf"sluice {version}, pid {proxy.process.pid}, up for \d+(ms|s|m\d+s)", lines[0])
    assert re.fullmatch(rf"policy +{policy}, generation 1, loaded 2\S+Z", lines[1])
    assert lines[2:] == ["listen       127.0.0.1:0", f"admin        unix:{tmp_path}/a.sock",
                         "state        ready; store: memory, ok", "servers      0 of 0 are up",
                         "connections  0 open",
                         "requests     4: 2 allowed, 1 denied, 0 undecided, 1 without limits"]
    (proxy.folder / "policy.yaml").write_text("listen: nowhere\n")
    assert ctl(place, "reload").returncode == 1
    assert "generation 1" in (line := told(ctl(place, "status"))[1]) and line.endswith("; the latest reload failed")


def test_keys_are_those_of_one_limit_that_are_denied(proxy, places):
    assert told(ctl(places[0], "keys", "slots"))[0] == "no key of it was denied within the last hour"
    for _ in range(7):
        proxy.ask("POST", "/login", [("x-api-key", "k")], source="127.0.0.9")
    lines = told(ctl(places[0], "keys", "per-client", "1"))
    assert lines[1].split() == ["DENIED", "ALLOWED", "LAST", "DENIED", "KEY"] and len(lines) == 3
    key = lines[2].split()[-1]
    assert key.startswith("client.ip=127.0.0.")
    assert told(ctl(places[0], "key", "per-client", key), 3)[0].endswith("would be denied")
    assert failed(ctl(places[0], "keys", "none")) == (
        "sluice ctl: 404: there is no such limit; sluice ctl limits lists them\n")


def test_limits_are_a_table(places):
    assert told(ctl(places[0], "limits")) == [
        "LIMIT       KEY                       ALGORITHM       RATE       BURST  ON_FAILURE  ROUTES",
        "per-client  client.ip                 token_bucket    60/h       5      local       login",
        "per-key     header.x-api-key, method  sliding_window  10/s       -      local       login",
        "                                                      100/d      -      local",
        "slots       global                    concurrency     3 at once  -      shadow      route-2",
    ]


def test_routes_are_a_table(places):
    assert told(ctl(places[0], "routes")) == [
        "ROUTE    MATCH        LIMITS               TO",
        "login    POST /login  per-client, per-key  responds 200",
        "route-2  everything   slots                responds 204",
    ]


def test_the_policy_is_told_as_a_file_is_written(places):
    lines = told(ctl(places[0], "policy"))
    assert "  read_token: ${REDACTED_1}" in lines and "workers: 2" in lines
    assert "    key:" in lines and "      - client.ip" in lines
    assert "timeouts:" not in lines and "  drain: 30s" in told(ctl(places[0], "policy", "defaults"))
    assert "with: must be defaults" in failed(ctl(places[0], "policy", "all"))


def test_what_is_told_of_the_policy_runs_as_the_same_policy(start, places, tmp_path):
    for words in ([], ["defaults"]):
        policy = "\n".join(told(ctl(places[0], "policy", *words)))
        (tmp_path / "policy.yaml").write_text(policy)
        lacking = program.command("check", str(tmp_path / "policy.yaml"))
        assert lacking.returncode == 1 and "the environment has no REDACTED_1" in lacking.stdout + lacking.stderr
        policy = policy.replace("admin.sock", "other.sock")
        other = start(policy, env={"REDACTED_1": READ_TOKEN})
        place = addresses(other, 2)[0]
        assert "\n".join(told(ctl(place, "policy", *words))) == policy
        assert told(ctl(place, "limits")) == told(ctl(places[0], "limits"))
        assert told(ctl(place, "routes")) == told(ctl(places[0], "routes"))
        other.stop()


def test_a_key_tells_whether_it_would_be_denied(proxy, places):
    lines = told(ctl(places[0], "key", "per-client", "127.0.0.3"))
    assert lines[0].endswith("would be allowed") and lines[2].split()[:4] == [
        "per-client", "allowed", "5", "5"]
    for _ in range(6):
        proxy.ask("POST", "/login", [("x-api-key", "k")], source="127.0.0.3")
    lines = told(ctl(places[0], "key", "per-client", "client.ip=127.0.0.3"), 3)
    assert lines[0].endswith("would be denied")
    assert lines[2].split()[:4] == ["per-client", "denied", "5", "0"]


def test_json_is_passed_on_as_it_came(places):
    told_key = json.loads("\n".join(told(ctl(places[0], "--json", "key", "per-client", "192.0.2.1"))))
    assert told_key["key"] == "client.ip=192.0.2.1" and told_key["allowed"] is True
    problem = ctl(places[0], "key", "none", "x", "--json")
    assert problem.returncode == 1 and json.loads(problem.stdout)["status"] == 404


def test_what_fails_says_why(places, folder):
    assert "no such limit" in failed(ctl(places[0], "key", "none", "x"))
    assert "client.ip=VALUE" in failed(ctl(places[0], "key", "per-client", "%?/#"))
    assert "No such file" in failed(ctl("/nowhere/at/all", "health"))
    assert "not that long" in failed(ctl("/" + "x" * 300, "health"))
    assert "Connection refused" in failed(ctl(("127.0.0.1", 1), "health"))
    wrong = failed(ctl(places[1], "--token-file", str(folder / "wrong"), "health"))
    assert "sluice ctl: 401: the proxy does not accept the token that was sent" in wrong
    assert "no token" in failed(ctl(places[1], "--token-file", "/dev/null", "health"))
    assert failed(ctl(places[1], "--token-file", "/nowhere", "health")) == (
        "sluice ctl: --token-file /nowhere: No such file or directory\n")


def test_what_is_called_wrongly_exits_2(places):
    assert failed(ctl(places[0], "helth"), 2) == 'sluice ctl: unknown word "helth"; did you mean "health"?\n'
    assert "ctl key [OPTION]... LIMIT KEY" in failed(ctl(places[0], "key", "per-client"), 2)
    assert "ctl key [OPTION]... LIMIT KEY" in failed(ctl(places[0], "key", "a", "b", "c"), 2)
    assert "--colour" in failed(ctl(places[0], "--colour", "health"), 2)
    assert "usage" in failed(program.command("ctl"), 2)
    assert "usage" in told(program.command("ctl", "--help"))[0]


def test_the_proxy_is_found_by_its_policy(proxy, folder):
    policy = str(proxy.folder / "policy.yaml")
    assert told(program.command("ctl", "--policy", policy, "ready"))[0].startswith("ready")
    for url in ("nonsense", "ftp://a", "http://", "http://a:b", "http://a/b", "http://[::1",
                "http://user@a", "http://a?b"):
        assert "must be a URL" in failed(program.command("ctl", "--url", url, "ready"))
    broken = folder / "broken.yaml"
    broken.write_text("listen: x\n")
    assert "--socket" in failed(program.command("ctl", "--policy", str(broken), "ready"))
    broken.write_text("listen: 127.0.0.1:0\nroutes: [{respond: {status: 204}}]\n")
    said = failed(program.command("ctl", "--policy", str(broken), "ready"))
    assert "no admin API" in said and 'add the line "admin: 127.0.0.1:9900"' in said


def test_the_environment_may_say_where(places):
    assert told(program.command("ctl", "ready", env={"SLUICE_SOCKET": places[0]}))
    url = f"http://{places[1][0]}:{places[1][1]}"
    assert told(program.command("ctl", "ready", env={"SLUICE_URL": url, "SLUICE_TOKEN": TOKEN}))
    assert failed(program.command("ctl", "ready", env={"SLUICE_URL": url, "SLUICE_TOKEN": "x"}))


@pytest.mark.parametrize("answered, told_of", [
    (b"+OK\r\n", "no HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "no HTTP"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", "no HTTP"),
    (b"HTTP/1.1 200 OK\r\n" + 100 * (b"A: " + 8000 * b"a" + b"\r\n"), "no HTTP"),
    (b"", "closed without an answer"),
], ids=("another protocol", "cut short", "no chunk", "a long head", "nothing"))
def test_who_listens_there_and_is_no_sluice_is_told(start_upstream, answered, told_of):
    def answer_nonsense(peer, _request):
        peer.send(answered)
        peer.close()

    upstream = start_upstream(answer_nonsense)
    assert told_of in failed(ctl(("127.0.0.1", upstream.port), "health"))


def test_it_goes_where_it_is_told_and_nowhere_else(start_upstream):
    def answer_redirect(peer, _request):
        peer.send(answer("302 Found", [("Location", "http://127.0.0.1:1/")]))
        peer.close()

    upstream = start_upstream(answer_redirect)
    nowhere = {name: "http://127.0.0.1:1" for name in ("http_proxy", "ALL_PROXY")}
    result = program.command("ctl", "--url", upstream.url, "policy", env=nowhere)
    assert (result.stdout, result.stderr) == ("ok\n", "")
    assert upstream.last.target == "/v1/policy?with="


def is_stopped_now(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def waits_to_connect(process):
    """Until it tries again: asleep in clock_nanosleep(), whose number is of x86-64 and of AArch64."""
    try:
        with open(f"/proc/{process.pid}/syscall", encoding="ascii") as file:
            return file.read().split()[0] in ("230", "115")
    except PermissionError:
        return pytest.skip("nobody may look at another process here")


def begin_ctl(*arguments):
    return subprocess.Popen([program.PROGRAM, "ctl", *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=program.environment())


def interrupt(process):
    """Its system call ends with EINTR."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        process.send_signal(number)
        until(lambda n=number: is_stopped_now(process) == (n == signal.SIGSTOP), "the signal")


def test_who_is_stopped_while_it_waits_gets_its_answer_all_the_same(start_upstream):
    is_stopped = threading.Event()

    def answer_later(peer, _request):
        is_stopped.wait(30)
        peer.send(answer(body=b'{"status": "ready", "store": {"kind": "memory", "state": "ok"}}',
                         fields=[("Content-Type", "application/json")]))
        peer.close()

    upstream = start_upstream(answer_later)
    with begin_ctl("--url", upstream.url, "ready") as process:
        upstream.wait_for(1)
        interrupt(process)
        is_stopped.set()
        told_of, complained = process.communicate(timeout=60)
    assert (process.returncode, complained) == (0, "") and told_of.startswith("ready")


def test_who_is_stopped_while_it_connects_to_a_unix_socket_gets_its_answer_all_the_same(tmp_path):
    path = str(tmp_path / "s")
    body = b'{"status": "ready", "store": {"kind": "memory", "state": "ok"}}'
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.settimeout(60)
        server.bind(path)
        server.listen(0)
        first.connect(path)  # the queue is full: who comes next waits
        with begin_ctl("--socket", path, "ready") as process:
            until(lambda: waits_to_connect(process), "the connect")
            interrupt(process)
            until(lambda: waits_to_connect(process), "another")
            server.accept()[0].close()
            with server.accept()[0] as peer:
                peer.settimeout(60)
                peer.recv(4096)
                peer.sendall(answer(body=body, fields=[("Content-Type", "application/json")]))
            told_of, complained = process.communicate(timeout=60)
    assert (process.returncode, complained) == (0, "") and told_of.startswith("ready")


RED = "\x1b[31mred\n"
SHOWN = {name: RED for name in (
    "detail status key limit source until kind by reason url state name method match path file".split())}


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("word", ["health", "ready", "limits", "routes", "upstreams", "certificates", "policy",
                                  "key a b", "reset a b", "reload", "bans", "top"])
def test_nothing_of_the_terminal_is_in_what_is_shown(start_upstream, word, status):
    def answer_escapes(peer, _request):
        one = {**SHOWN, "messages": [RED], "ban": SHOWN, "store": SHOWN, "rates": [SHOWN],
               "servers": [SHOWN], RED: [RED]}
        if status == 200:
            del one["detail"]
        body = json.dumps({**one, **{name: [one] for name in (
            "limits", "routes", "upstreams", "certificates", "bans", "top")}}).encode()
        peer.send(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (status, len(body), body))
        peer.close()

    upstream = start_upstream(answer_escapes)
    result = ctl(("127.0.0.1", upstream.port), *word.split())
    assert "\x1b" not in result.stdout + result.stderr
    assert "1b[31mred" in result.stdout + result.stderr
