"""GET /v1/policy/check: the policy's file as it is now, beside the policy in force."""

import json

import pytest
import yaml

from harness import program
from harness.admin import READ_TOKEN, TOKEN, Admin, addresses, bearer
from harness.certificates import Authority

POLICY = """
admin:
  listen: ["unix:{folder}/admin.sock", 127.0.0.1:0]
  token: 0123456789abcdef0123456789abcdef
  read_token: fedcba9876543210fedcba9876543210
limits:
  per-client: {{key: client.ip, rate: 60/hour, burst: 5}}
routes:
  - {{name: a, match: {{path: "/a/**"}}, limits: [per-client], respond: {{status: 200}}}}
  - {{name: rest, limits: [], respond: {{status: 204}}}}
"""


@pytest.fixture(name="proxy")
def a_proxy(start, tmp_path):
    return start(POLICY.format(folder=tmp_path))


def check(proxy):
    return Admin(addresses(proxy, 2)[0]).read("/v1/policy/check")


def change(proxy, before, after):
    file = proxy.folder / "policy.yaml"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def test_a_file_that_is_in_force_does_not_differ(proxy):
    told = check(proxy)
    assert told["file"] == str(proxy.folder / "policy.yaml")
    assert told["differs"] is False and told["errors"] == []
    assert told["in_file"] == told["in_force"]
    assert yaml.safe_load(told["in_force"])["limits"]["per-client"]["rate"] == ["60/hour"]


def test_warnings_are_those_of_the_command(proxy):
    change(proxy, "limits: []", "limits: [], upstream: u")
    change(proxy, ", respond: {status: 204}", "")
    change(proxy, "routes:", "upstreams: {u: {servers: [http://127.0.0.1:1]}, spare: {servers: [http://127.0.0.1:2]}}\nroutes:")
    told = check(proxy)
    command = program.command("check", "--json", str(proxy.folder / "policy.yaml"))
    assert told["warnings"] == json.loads(command.stdout) != []
    assert told["errors"] == [] and told["differs"] is True


def test_a_change_of_the_file_is_a_difference_until_it_is_loaded(proxy):
    change(proxy, "60/hour", "70/hour")
    told = check(proxy)
    assert told["differs"] is True
    before, after = told["in_force"].splitlines(), told["in_file"].splitlines()
    assert [line.strip() for line in set(after) - set(before)] == ["- 70/hour"]
    assert [line.strip() for line in set(before) - set(after)] == ["- 60/hour"]
    Admin(addresses(proxy, 2)[0]).change("POST", "/v1/reload")
    assert check(proxy)["differs"] is False


def test_comments_are_no_difference(proxy):
    change(proxy, "limits:\n", "# more\nlimits:\n")
    assert check(proxy)["differs"] is False


def test_errors_are_told_with_their_places(proxy):
    change(proxy, "60/hour", "fast")
    told = check(proxy)
    assert told["in_file"] is None and told["differs"] is True
    assert "60/hour" in told["in_force"]
    [error] = told["errors"]
    assert error["file"] == told["file"] and error["line"] > 1 and "fast" in error["text"]


def test_a_file_that_is_gone_is_an_error(proxy):
    (proxy.folder / "policy.yaml").unlink()
    told = check(proxy)
    assert told["in_file"] is None and told["differs"] is True and len(told["errors"]) == 1


def test_no_secret_is_told(proxy):
    text = json.dumps(check(proxy))
    assert TOKEN not in text and READ_TOKEN not in text and "REDACTED_1" in text


def test_included_files_and_certificates_are_found(start, tmp_path):
    Authority(tmp_path / "ca").sign("api", "DNS:localhost")
    (tmp_path / "more.yaml").write_text("limits: {included: {key: global, rate: 1/s}}\n")
    proxy = start(f"""
        include: ../more.yaml
        listen: {{address: 127.0.0.1:0, tls: {{cert: ../ca/api.pem, key: ../ca/api.key}}}}
        admin: ["unix:{tmp_path}/admin.sock", "127.0.0.1:0"]
        routes: [{{limits: [included], respond: {{status: 200}}}}]
        """)
    told = check(proxy)
    assert told["errors"] == [] and told["differs"] is False and "included" in told["in_file"]
    (tmp_path / "more.yaml").write_text("limits: {included: {key: global, rate: 2/s}}\n")
    assert check(proxy)["differs"] is True
    (tmp_path / "ca" / "api.key").unlink()
    assert any("api.key" in error["text"] for error in check(proxy)["errors"])


def test_a_read_token_may_ask(proxy):
    far = Admin(addresses(proxy, 2)[1])
    assert far.ask("GET", "/v1/policy/check", [bearer(READ_TOKEN)]).status == 200


def test_the_command_prints_what_loads(proxy, tmp_path):
    path = str(proxy.folder / "policy.yaml")
    printed = program.command("check", "--print", path)
    assert printed.returncode == 0 and printed.stdout == check(proxy)["in_force"]
    again = tmp_path / "again.yaml"
    again.write_text(printed.stdout)
    secrets = {"REDACTED_1": TOKEN, "REDACTED_2": READ_TOKEN}
    assert program.command("check", str(again), env=secrets).returncode == 0
    assert program.command("check", "--print", str(tmp_path / "none.yaml")).returncode == 1
