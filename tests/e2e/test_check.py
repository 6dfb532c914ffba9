"""`sluice check`: warnings, and docs/check.md, each of whose examples tells what stands there."""

import json
import os
import re
import subprocess

import pytest

from harness import certificates, program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = re.compile(r"^### ([a-z-]+)\n(.*?)```yaml\n(.*?)```\n\n```\n(.*?)```", re.DOTALL | re.MULTILINE)
HEAD = "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
SPARE = HEAD + "limits: {a: {key: client.ip, rate: 1/s}}\nroutes: [{upstream: u}]\n"


def manual():
    with open(os.path.join(ROOT, "docs/check.md"), encoding="utf-8") as file:
        return file.read()


def kinds():
    result = program.command("check", "--list")
    assert (result.returncode, result.stderr) == (0, "")
    return [line.split(" ", 1)[0] for line in result.stdout.splitlines()]


@pytest.fixture(name="policy_file")
def file_of_a_policy(tmp_path, monkeypatch):
    """It is called as in the manual: policy.yaml, here."""
    def write(text, name="policy.yaml"):
        (tmp_path / name).write_text(text)
        return name
    monkeypatch.chdir(tmp_path)
    return write


@pytest.fixture(autouse=True)
def the_program_from_anywhere(monkeypatch):
    monkeypatch.setattr(program, "PROGRAM", os.path.abspath(program.PROGRAM))


@pytest.fixture(name="tls_files", scope="module")
def files_of_the_manual(tmp_path_factory):
    """The folder tls of the manual's examples."""
    folder = tmp_path_factory.mktemp("manual") / "tls"
    authority = certificates.Authority(folder, days=365)
    authority.sign("leaf", "DNS:api.example.com",
                   "authorityInfoAccess=caIssuers;URI:http://ca.example.com/ca.der\n")
    (folder / "chain.pem").write_bytes((folder / "leaf.pem").read_bytes() + authority.certificate.read_bytes())
    partner = certificates.Authority(folder / "partner", days=365, name="partner")
    (folder / "clients.pem").write_bytes(authority.certificate.read_bytes() + partner.certificate.read_bytes())
    certificates.dated(folder, "expired", "DNS:api.example.com", "20200101000000Z", "20200201000000Z")
    for name in ("api", "open"):
        made = program.command("cert", "self-signed", "api.example.com", "--out-cert", str(folder / f"{name}.pem"),
                               "--out-key", str(folder / f"{name}.key"))
        assert made.returncode == 0, made.stderr
    for key in folder.glob("*.key"):
        key.chmod(0o644 if key.name == "open.key" else 0o600)
    (folder / "api.ocsp").write_text("none\n")
    certificates.make_crl(folder / "one.crl", authority.certificate, authority.key)
    return folder


# --- the manual ---


def test_the_manual_has_each_kind_once():
    assert sorted(re.findall(r"^### (.*)$", manual(), re.MULTILINE)) == sorted(kinds())
    assert len(EXAMPLE.findall(manual())) == len(kinds())


@pytest.mark.parametrize("kind, yaml, told", [(kind, yaml, told)
                                              for kind, _, yaml, told in EXAMPLE.findall(manual())])
def test_an_example_is_told_what_the_manual_says(policy_file, tls_files, tmp_path, kind, yaml, told):
    (tmp_path / "tls").symlink_to(tls_files)
    result = program.command("check", policy_file(yaml))
    assert (result.returncode, result.stderr) == (0, told)
    assert f" [{kind}]\n" in told
    allowed = program.command("check", "--strict", "--allow", kind, "policy.yaml")
    assert f"[{kind}]" not in allowed.stderr


def test_routes_and_limits_need_connections_that_a_listener_has(policy_file, tls_files, tmp_path):
    (tmp_path / "tls").symlink_to(tls_files)
    policy = """listen: {address: 127.0.0.1:0, tls: {certificates: [{cert: tls/api.pem, key: tls/api.key%s}]}}
limits: {a: {key: client.cert, rate: 1/s}}
routes:
  - {name: http, match: {scheme: http}, respond: {status: 204}}
  - {name: cert, match: {client_cert: {dns: a.test}}, limits: [a], respond: {status: 204}}
  - {name: https, match: {scheme: https}, respond: {status: 204}}
"""
    lines = program.command("check", policy_file(policy % "")).stderr.splitlines()
    assert [line for line in lines if "[unreachable-route]" in line or "[no-effect]" in line] == [
        'policy.yaml:2:13: warning: limit "a" counts by certificates of clients, and no certificate of a listener '
        "asks clients for theirs: each request lacks its key [no-effect]",
        'policy.yaml:4:5: warning: route "http" can never match: each listener has "tls" [unreachable-route]',
        'policy.yaml:5:5: warning: route "cert" can never match: no certificate of a listener asks clients for '
        "theirs; write client: optional or require beside it, with client_ca [unreachable-route]"]
    asking = (policy % ", client: optional, client_ca: tls/ca.pem").replace("listen: ", "listen: [127.0.0.1:1, ", 1)
    result = program.command("check", policy_file(asking.replace("}]}}\n", "}]}}]\n", 1)))
    assert (result.returncode, result.stderr) == (0, "")


ONE, OTHER, BOTH = ("client: require, client_ca: tls/" + file for file in ("ca.pem", "partner/ca.pem", "clients.pem"))
NAMED = "limits: [named], respond: {status: 204}"
OF_ONE, OF_OTHER = (f"match: {{host: {host}.test, scheme: https}}, {NAMED}" for host in ("one", "other"))


@pytest.mark.parametrize("one, other, key, routes, n_told", [
    (ONE, ONE, "client.cert.dns", (NAMED,), 0),
    (BOTH, BOTH, "client.cert.dns", (NAMED,), 1),
    (BOTH, BOTH, "client.cert.cn | client.cert", (NAMED,), 1),
    (BOTH, BOTH, "client.cert", (NAMED,), 0),
    (BOTH, BOTH, "[client.cert.dns, client.cert]", (NAMED,), 0),
    (BOTH, BOTH, "[client.cert.dns, host]", (NAMED,), 1),
    (ONE + ", client_crl: tls/one.crl", ONE, "client.cert.uri", (NAMED,), 0),
    (ONE.replace("ca.pem", "chain.pem"), ONE, "client.cert.uri", (NAMED,), 0),  # below the other
    (ONE, OTHER, "client.cert.uri", (NAMED,), 1),
    (ONE, OTHER, "client.cert.uri", (OF_ONE, OF_OTHER), 1),  # both hosts have one counter
    (ONE, OTHER, "client.cert.uri", (OF_ONE,), 0),
    (ONE, OTHER, "[client.cert.uri, host]", (OF_ONE, OF_OTHER), 0),
    (ONE, OTHER, "client.cert.uri", (OF_OTHER.replace("other.test", "unknown.test"),), 0),  # the first one's rules
    ("client: off", OTHER, "client.cert.uri", (OF_OTHER.replace("other.test", '"*.test"'),), 0),
    (ONE, OTHER, "client.cert.uri", (OF_ONE.replace("one.test", '"*.test"'),), 1),
    (ONE, OTHER, "client.cert", ("match: {client_cert: {dns: a.test}}, " + NAMED,), 1),
    (ONE, OTHER, "client.cert", ("match: {client_cert: {uri: 'spiffe://a'}, host: one.test}, " + NAMED,), 0),
    (ONE, BOTH, "client.cert", ("match: {client_cert: {uri: 'spiffe://a'}, host: other.test}, " + NAMED,), 1),
    (BOTH, BOTH, "client.cert", (f"match: {{client_cert: {{dns: a.test, fingerprint: '{'0' * 64}'}}}}, {NAMED}",), 0),
])
def test_a_name_of_several_authorities_is_told(policy_file, tls_files, tmp_path, one, other, key, routes, n_told):
    (tmp_path / "tls").symlink_to(tls_files)
    entries = ", ".join(f"{{cert: tls/api.pem, key: tls/api.key, names: {name}.test, {client}}}"
                        for name, client in (("one", one), ("other", other)))
    lines = "".join(f"  - {{{route}}}\n" for route in routes)
    result = program.command("check", policy_file(
        f"listen: {{address: 127.0.0.1:0, tls: {{certificates: [{entries}]}}}}\n"
        f"limits: {{named: {{key: {key}, rate: 1/s}}}}\nroutes:\n{lines}"))
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("[any-authority]") == n_told, result.stderr


# --- options ---


def test_warnings_are_counted_and_do_no_harm(policy_file):
    result = program.command("check", policy_file(SPARE))
    assert result.returncode == 0
    assert result.stdout == "policy.yaml: ok: 1 routes, 1 limits, 1 upstreams, 2 warnings\n"


def test_strict_makes_warnings_a_failure(policy_file):
    result = program.command("check", "--strict", policy_file(SPARE))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith("policy.yaml: not ok: 2 warnings, and --strict\n")


def test_what_is_allowed_is_no_failure(policy_file):
    arguments = ["check", "--allow", "unused-limit", policy_file(SPARE), "--strict"]
    assert program.command(*arguments).returncode == 1
    result = program.command(*arguments, "--allow", "unlimited-route")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "policy.yaml: ok: 1 routes, 1 limits, 1 upstreams\n"


def test_json_is_one_array_of_all_files(policy_file):
    bad = policy_file(HEAD + "routes: [{upstream: v}]\n", "b\u00e4d.yaml")
    result = program.command("check", "--json", policy_file(SPARE), bad, "none.yaml")
    assert (result.returncode, result.stderr) == (1, "")
    told = json.loads(result.stdout)
    assert [(one["file"], one["severity"], one.get("kind")) for one in told] == [
        ("policy.yaml", "warning", "unused-limit"), ("policy.yaml", "warning", "unlimited-route"),
        (bad, "error", None), ("none.yaml", "error", None)]
    assert (told[0]["line"], told[0]["column"]) == (3, 10)
    assert told[0]["text"] == 'limit "a" is used by no route'
    assert told[3]["line"] == 0
    assert json.loads(program.command("check", "--json", policy_file(SPARE), "--allow", "unused-limit",
                                      "--allow", "unlimited-route").stdout) == []


@pytest.mark.parametrize("arguments", [["--strict"], ["--allow"], ["--allow", "nothing", "policy.yaml"],
                                       ["--json"], ["--list", "policy.yaml", "--allow"]])
def test_wrong_usage_ends_with_2(policy_file, arguments):
    policy_file(SPARE)
    result = program.command("check", *arguments)
    assert (result.returncode, result.stdout) == (2, "") and "sluice check" in result.stderr


@pytest.mark.parametrize("arguments", [["--stirct", "policy.yaml"], ["-x"]])
def test_an_option_that_is_not_known_is_no_file(arguments):
    result = program.command("check", *arguments)
    assert result.returncode == 2 and "usage: sluice check" in result.stderr


def test_what_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        result = subprocess.run([program.PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, text=True,
                                check=False, timeout=60)
    assert result.returncode == 1 and "standard output: No space" in result.stderr


def test_secrets_are_not_told(policy_file):
    result = program.command("check", policy_file(
        HEAD + "store: {redis: 'redis://:hunter2@127.0.0.1', secret: hunter2}\n"
        "routes: [{request: {set: {Authorization: hunter2}}, upstream: u}]\n"))
    assert result.stderr.count("[plain-secret]") == 3 and "hunter2" not in result.stderr


@pytest.mark.parametrize("server, told", [
    ("http://bob:hunter2@127.0.0.1:80", '"http://***@127.0.0.1:80": '),
    ("http://hunter2/@hunter2@127.0.0.1:80/x", '"http://***@127.0.0.1:80/x": '),
    ("http://" + "hunter2" * 20 + "@a.test", '"http://***@a.test": '),
    ("ftp://127.0.0.1", '"ftp://127.0.0.1": '), ("://hunter", '"://hunter": '),
])
def test_users_and_passwords_of_urls_are_not_told(policy_file, server, told):
    result = program.command("check", policy_file(
        f"listen: 127.0.0.1:0\nupstreams: {{u: {{servers: '{server}'}}}}\nroutes: [{{upstream: u}}]\n"))
    assert result.returncode == 1
    assert f"servers {told}" in result.stderr and "hunter2" not in result.stderr


def test_values_of_the_environment_are_not_told(policy_file):
    policy = policy_file(HEAD + "limits: {a: {key: header.x-a, rate: 1/s}}\nroutes:\n"
                         "  - {name: '${NAME}', limits: [a], upstream: u}\n"
                         "  - {name: 'x${NAME}', match: {method: GET}, upstream: u}\n")
    result = program.command("check", policy, env={"NAME": "hunter2"})
    assert result.returncode == 0 and "hunter2" not in result.stderr
    assert 'route "x${NAME}" can never match: route "${NAME}" before it' in result.stderr


def test_many_routes_are_checked_in_no_time(policy_file):
    routes = "".join(f"  - {{match: {{path: /v1/tenants/t{i}/**, method: [GET, POST]}}, upstream: u}}\n"
                     for i in range(19999))
    result = program.command("check", policy_file(
        HEAD + "routes:\n" + routes + "  - {match: {path: /v1/tenants/t77/x, method: GET}, upstream: u}\n"))
    assert result.returncode == 0 and 'route "route-78" before it' in result.stderr


def test_a_file_of_many_routes_takes_little_memory(policy_file):
    """What is read is bounded while it is read: 300,000 routes took 528 MB, and more with sanitizers."""
    policy_file("listen: 127.0.0.1:0\nroutes:\n" + "- {respond: {status: 204}}\n" * 300000)
    with subprocess.Popen([program.PROGRAM, "check", "policy.yaml"], stderr=subprocess.PIPE, text=True) as process:
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1
    assert told == "policy.yaml:20003:3: error: more than 20000 routes\n"
    assert usage.ru_maxrss < 250 * 1024


@pytest.mark.parametrize("policy", ["config/bans.yaml", "config/full.yaml", "config/jwt.yaml", "config/quickstart.yaml", "config/redis.yaml",
                                    "docker/sluice/policy.yaml", "packaging/policy.yaml"])
def test_policies_that_come_with_the_program_are_clean(policy):
    result = program.command("check", "--strict", os.path.join(ROOT, policy))
    assert (result.returncode, result.stderr) == (0, "")


# --- TLS ---


def tls_policy(tls, more=""):
    return f"listen: {{address: 127.0.0.1:0, tls: {tls}}}\nroutes: [{{respond: {{status: 204}}}}]\n{more}"


SHORT = "{cert: tls/api.pem, key: tls/api.key}"


@pytest.mark.parametrize("tls, told", [
    ("{}", '1:37: error: tls must have "cert" and "key", or certificates'),
    ("{cert: tls/api.pem}", '1:37: error: "key" is missing in tls'),
    ("{cert: tls/api.pem, key: tls/open.key}",
     "1:62: error: tls/open.key: this key is not the certificate's in tls/api.pem: both must be of one issue"),
    ("{cert: tls/none.pem, key: tls/api.key}",
     "1:44: error: tls/none.pem: cannot be opened: No such file or directory"),
    ("{cert: tls/api.ocsp, key: tls/api.key}", "1:44: error: tls/api.ocsp: has no certificate in PEM"),
    ("{cert: tls, key: tls/api.key}", "1:44: error: tls: is no regular file"),
    ('{cert: "${HOME}", key: tls/api.key}', "1:44: error: ${HOME}: is no regular file"),
    ("{cert: [tls/api.pem, tls/open.pem], key: [tls/api.key, tls/open.key]}",
     "1:58: error: of two certificates of an entry one must be RSA and the other one not"),
    ("{cert: tls/api.pem, key: tls/api.key, min_version: 1.1}",
     '1:88: error: min_version "1.1": must be 1.2 or 1.3; did you mean "1.2"?'),
    ("{cert: tls/api.pem, key: tls/api.key, tickets: shared}",
     '1:84: error: tickets "shared" needs "tls_tickets: {secret_file: FILE}" at the top level'),
    ("{certificates: [{cert: tls/api.pem, key: tls/api.key, client: require}]}",
     '1:99: error: client "require" needs "client_ca": the authorities of clients\' certificates'),
    ("{certificates: [{cert: tls/api.pem, key: tls/api.key, client_ca: tls/ca.pem}]}",
     '1:102: error: "client_ca" does nothing without "client: require" or "client: optional" beside it'),
    ("{certificates: [{cert: tls/api.pem, key: tls/api.key, client: off, client_crl: tls/ca.pem}]}",
     '1:116: error: "client_crl" needs "client_ca", whose certificates it revokes'),
    ("{certificates: [{cert: tls/api.pem, key: tls/api.key, client: optional, client_ca: tls/ca.pem, "
     "client_crl: tls/ca.pem}]}",
     "1:144: error: tls/ca.pem: has no certificate revocation list (X509 CRL) in PEM"),
    ("{certificates: [{cert: tls/api.pem, key: tls/api.key}, {cert: tls/leaf.pem, key: tls/leaf.key}]}",
     "1:99: error: the name api.example.com belongs to two certificates, this one and the one of line 1: "
     'say with "names" which one serves it'),
    ('{certificates: [{cert: tls/api.pem, key: tls/api.key, names: ["a.*.example.com"]}]}',
     '1:99: error: names "a.*.example.com": must be a host, or "*." and a host for all beneath it'),
    ('{certificates: [{cert: tls/api.pem, key: tls/api.key, names: ["1.2.3.4"]}]}',
     '1:99: error: names "1.2.3.4": must be the name of a host, no address'),
])
def test_what_is_wrong_with_tls_is_told_where_it_stands(policy_file, tls_files, tmp_path, tls, told):
    (tmp_path / "tls").symlink_to(tls_files)
    result = program.command("check", policy_file(tls_policy(tls)), env={"HOME": str(tmp_path)})
    errors = [line for line in result.stderr.splitlines() if " error: " in line]
    assert (result.returncode, errors) == (1, [f"policy.yaml:{told}"])


def test_files_are_found_from_the_folder_of_the_policy(policy_file, tls_files, tmp_path, monkeypatch):
    (tmp_path / "tls").symlink_to(tls_files)
    path = tmp_path / policy_file(tls_policy(SHORT))
    monkeypatch.chdir("/")
    result = program.command("check", "--strict", str(path))
    assert (result.returncode, result.stderr) == (0, "")


def test_secrets_of_tickets_are_checked(policy_file, tmp_path, tls_files):
    (tmp_path / "tls").symlink_to(tls_files)
    path = policy_file(tls_policy("{cert: tls/api.pem, key: tls/api.key, tickets: shared}",
                                  "tls_tickets: {secret_file: tickets}\n"))
    secrets = tmp_path / "tickets"
    secrets.write_text("# ours\n" + program.command("secret").stdout + "00ff\n")
    secrets.chmod(0o600)
    told = "policy.yaml:3:28: error: tickets: line 3 is not 64 hexadecimal digits, as openssl rand -hex 32 gives\n"
    assert program.command("check", path).stderr == told
    secrets.write_text(program.command("secret").stdout)
    assert program.command("check", "--strict", path).stderr == ""
    secrets.chmod(0o644)
    assert program.command("check", path).stderr.endswith("chmod o-r [readable-secret]\n")


def test_shared_tickets_are_not_for_those_who_ask_for_certificates(policy_file, tmp_path, tls_files):
    (tmp_path / "tls").symlink_to(tls_files)
    secrets = tmp_path / "tickets"
    secrets.write_text(program.command("secret").stdout)
    secrets.chmod(0o600)
    path = policy_file(tls_policy("{tickets: shared, certificates: [{cert: tls/api.pem, key: tls/api.key, "
                                  "client: require, client_ca: tls/ca.pem}]}", "tls_tickets: {secret_file: tickets}\n"))
    result = program.command("check", path)
    assert result.returncode == 1
    assert 'client "require" does not go with "tickets: shared"' in result.stderr


def test_other_commands_need_no_keys(policy_file):
    result = program.command("explain", policy_file(tls_policy(SHORT)), "GET", "http://a/")
    assert (result.returncode, result.stderr) == (0, "")
