"""POST /v1/explain: what becomes of a request under the policy in force, told by a child process."""

import json
import os
import pathlib
import signal

import pytest

from harness import program
from harness.admin import JSON, POLICY, READ_TOKEN, TOKEN, Admin, addresses, bearer, is_problem
from harness.certificates import Authority
from harness.client import Client
from harness.wait import is_readable, until


@pytest.fixture(scope="module")
def proxy(start_shared, tmp_path_factory):
    return start_shared(POLICY.format(folder=tmp_path_factory.mktemp("explain")))


@pytest.fixture(scope="module")
def admin(proxy):
    return Admin(addresses(proxy, 2)[0])


def explain(admin, status=200, **request):
    answer = admin.ask("POST", "/v1/explain", [JSON], json.dumps(request).encode())
    assert answer.status == status, (answer.start_line, answer.body)
    return answer.json()


def send_explain(admin):
    """A client that has asked and reads no answer yet."""
    client = Client(admin.address)
    body = b'{"url": "/a/1"}'
    client.send(b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    return client


def children_of(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]


def test_the_answer_is_that_of_the_command(proxy, admin):
    told = explain(admin, method="GET", url="http://a.example/a/7", headers={"X-API-Key": "k"},
                   **{"from": "192.0.2.7"})
    command = program.command("explain", "--json", "--from", "192.0.2.7", "-H", "X-API-Key: k",
                              str(proxy.folder / "policy.yaml"), "GET", "http://a.example/a/7")
    assert command.returncode == 0, command.stderr
    assert told == json.loads(command.stdout)
    assert told["route"] == "a" and told["client"]["address"] == "192.0.2.7"
    assert [limit["name"] for limit in told["limits"]] == ["per-client", "per-key.1h", "per-key.1d"]


def test_its_hashes_are_those_of_the_process(admin):
    told = explain(admin, url="http://a.example/a/7", headers={"X-API-Key": "k"})
    hashes = [limit["key_hash"] for limit in told["limits"]]
    for hash_, key in zip(hashes, ("per-client/keys/client.ip=127.0.0.1", "per-key/keys/header.x-api-key=k,method=GET")):
        assert admin.read(f"/v1/limits/{key}")["hash"] == hash_


def test_a_request_that_would_be_refused_is_an_answer(admin):
    told = explain(admin, method="GET", url="http://a.example/a/%00")
    assert told["answer"]["passes"] is False and told["answer"]["status"] == 400


@pytest.mark.parametrize("request_, words", [
    ({"url": "http://a/", "from": "nowhere"}, "--from wants an address"),
    ({"url": "http://a/", "scheme": "ftp"}, "--scheme is http or https"),
    ({"url": "http://a/", "headers": {"A": "1\r\nB: 2"}}, "end of a line"),
    ({"url": "http://a/", "claims": {"a": None}}, "claims"),
    ({"url": "http://a/", "client_cert": "/etc/passwd"}, "the members are"),
    ({"url": "http://a/", "http2": True}, "listen.http"),
    ({}, "must be strings"),
])
def test_a_request_that_cannot_be_read_is_a_400_with_the_reason(admin, request_, words):
    problem = explain(admin, 400, **request_)
    assert words in problem["detail"], problem
    assert "usage" not in json.dumps(problem) and "/proc/" not in json.dumps(problem)


def test_no_value_is_an_option(admin):
    assert explain(admin, method="--help", url="--help")["answer"]["passes"] is False
    assert "address" in explain(admin, 400, url="/", **{"from": "--live"})["detail"]


def test_a_body_is_bounded(admin):
    assert is_problem(admin.ask("POST", "/v1/explain", [JSON], b"{" + b" " * 16384 + b"}"), 413)


def test_a_read_token_may_ask_and_a_form_may_not(proxy, admin):
    body = b'{"url": "/a/1"}'
    far = Admin(addresses(proxy, 2)[1])
    answer = far.ask("POST", "/v1/explain", [JSON, bearer(READ_TOKEN)], body)
    assert answer.status == 200
    assert is_problem(admin.ask("POST", "/v1/explain", [("Content-Type", "text/plain")], body), 415)


def test_who_may_change_something_has_a_place_that_readers_leave(proxy, admin):
    halted = []
    for _ in range(2):
        halted.append(send_and_halt(proxy, admin, [child for _, child in halted]))
    reader = Admin(addresses(proxy, 2)[1])
    assert is_problem(reader.ask("POST", "/v1/explain", [JSON, bearer(READ_TOKEN)], b'{"url": "/a/1"}'), 503)
    assert admin.ask("POST", "/v1/explain", [JSON], b'{"url": "/a/1"}').status == 200
    for client, child in halted:
        os.kill(int(child), signal.SIGCONT)
        assert client.read().status == 200
        client.close()


def test_a_few_are_answered_at_once_and_all_are_reaped(proxy, admin):
    clients = [send_explain(admin) for _ in range(12)]
    answers = [client.read() for client in clients]
    for client in clients:
        client.close()
    statuses = [answer.status for answer in answers]
    assert 2 <= statuses.count(200) and set(statuses) <= {200, 503}, statuses
    for answer in answers:
        if answer.status == 503:
            assert answer.get("Retry-After") == "1"
    leavers = [send_explain(admin) for _ in range(2)]
    for client in leavers:
        client.close()
    until(lambda: admin.ask("POST", "/v1/explain", [JSON], b'{"url": "/a/1"}').status == 200, "a place to be free")
    until(lambda: not children_of(proxy.process.pid), "no child to be left")


def halt_a_child(proxy, others):
    """The child that runs the command, none of @others, halted before it ends; None: it has ended."""
    for child in children_of(proxy.process.pid):
        try:
            if child not in others and b"explain" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGSTOP)
                return child
        except (FileNotFoundError, ProcessLookupError):
            pass
    return None


def send_and_halt(proxy, admin, others=()):
    """A client that waits for an answer, and the child that would give it, which is halted."""
    while True:  # a child may answer before it can be halted
        client, child = send_explain(admin), None
        while child is None and not is_readable(client.sock, 0):
            child = halt_a_child(proxy, others)
        if child is not None:
            return client, child
        client.close()


def test_a_client_that_leaves_takes_its_child_with_it(proxy, admin):
    client, child = send_and_halt(proxy, admin)
    client.close()
    until(lambda: child not in children_of(proxy.process.pid), "the child to be gone", within=10)


def test_a_plan_of_the_table_of_tenants_is_taken_for_granted(start, tmp_path):
    proxy = start(f"""
        admin: {{listen: "unix:{tmp_path}/admin.sock", token: 0123456789abcdef0123456789abcdef}}
        limits: {{per-tenant: {{key: client.ip, rate: 1/hour, plan: tenant, plans: {{gold: 5/hour}}}}}}
        routes: [{{limits: [per-tenant], respond: {{status: 200}}}}]
        """)
    admin = Admin(addresses(proxy)[0])
    assert explain(admin, url="/")["limits"][0]["plan"] is None
    for plan, known in (("gold", True), ("9/hour", True), ("silver", False)):
        told = explain(admin, url="/", tenant=plan)["limits"][0]["plan"]
        assert (told["name"], told["by"], told["known"]) == (plan, "tenant", known)


def test_files_and_secrets_of_the_policy_are_found(start, tmp_path):
    """Certificates are named relative to the policy's file, and a secret stands in it in clear."""
    Authority(tmp_path / "ca").sign("api", "DNS:localhost")
    proxy = start(f"""
        listen: {{address: 127.0.0.1:0, tls: {{cert: ../ca/api.pem, key: ../ca/api.key}}}}
        admin: {{listen: "unix:{tmp_path}/admin.sock", token: 0123456789abcdef0123456789abcdef}}
        routes: [{{name: all, respond: {{status: 200}}}}]
        """)
    told = explain(Admin(addresses(proxy)[0]), url="https://localhost/")
    assert told["tls"] is not None and told["route"] == "all"
    assert TOKEN not in json.dumps(told)
