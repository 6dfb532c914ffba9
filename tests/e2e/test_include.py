"""Files that a policy includes: what they mean, what is said of them, and how changes are seen."""

import json
import os
import subprocess

import pytest

from harness import program
from harness.admin import ctl
from harness.wait import until

TEAM = """
limits: {{{name}: {{key: client.ip, rate: {rate}/hour}}}}
routes:
  - {{name: {name}, match: {{path: /{name}}}, limits: [{name}], respond: {{status: 200, body: {word}}}}}
"""
POLICY = """
include: [{folder}/conf.d/*.yaml]
admin: unix:{folder}/admin.sock
watch: true
routes:
  - {{name: rest, respond: {{status: 404}}}}
"""


@pytest.fixture(name="folder")
def folder_with_a_team(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "more").mkdir()
    write(tmp_path / "conf.d/b.yaml", TEAM.format(name="b", rate=1000, word="one"))
    return tmp_path


def write(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def word_of(proxy, path="/b"):
    return proxy.ask("GET", path).body


def check(folder, text):
    path = folder / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\n" + text)
    return subprocess.run([program.PROGRAM, "check", "policy.yaml"], cwd=folder, timeout=20,
                          capture_output=True, text=True, check=False)


def test_routes_and_limits_of_included_files_serve_before_the_policys_own(start, folder):
    write(folder / "conf.d/a.yaml", TEAM.format(name="a", rate=1, word="first"))
    proxy = start(POLICY.format(folder=folder))
    assert word_of(proxy) == b"one" and word_of(proxy, "/a") == b"first"
    assert proxy.ask("GET", "/a").status == 429
    assert proxy.ask("GET", "/other").status == 404


def test_the_printed_policy_is_one_that_loads_and_means_the_same(start, folder):
    proxy = start(POLICY.format(folder=folder))
    printed = ctl(str(folder / "admin.sock"), "policy").stdout
    assert "include" not in printed
    path = folder / "printed.yaml"
    path.write_text(printed)
    told = [json.loads(program.command("explain", "--json", str(file), "GET", "/b").stdout)
            for file in (path, proxy.folder / "policy.yaml")]
    assert told[0] == told[1] and told[0]["route"] == "b"


def test_a_file_that_changes_comes_or_goes_is_a_change_of_the_policy(start, folder):
    proxy = start(POLICY.format(folder=folder))
    assert word_of(proxy) == b"one"
    write(folder / "conf.d/b.yaml", TEAM.format(name="b", rate=1000, word="two"))
    until(lambda: word_of(proxy) == b"two", "the changed file", within=30)
    write(folder / "conf.d/c.yaml", TEAM.format(name="c", rate=1000, word="three"))
    until(lambda: word_of(proxy, "/c") == b"three", "the new file", within=30)
    write(folder / "conf.d/c.yaml", "limits: {b: {key: client.ip, rate: 1/s}}")
    until(lambda: "conf.d/c.yaml line=1 column=10" in proxy.stderr(), "the error", within=30)
    assert word_of(proxy, "/c") == b"three", "the former policy stays"
    (folder / "conf.d/c.yaml").unlink()
    until(lambda: proxy.ask("GET", "/c").status == 404, "the file to be gone", within=30)
    assert word_of(proxy) == b"two"


@pytest.mark.parametrize("files, told", [
    ({"conf.d/b.yaml": "workers: 2"},
     'conf.d/b.yaml:1:1: error: "workers" does not stand in an included file'),
    ({"conf.d/b.yaml": "limits:\n  x: {key: client.ip, rate: 1/minit}"},
     'conf.d/b.yaml:2:29: error: rate "1/minit"'),
    ({"conf.d/a.yaml": TEAM.format(name="b", rate=1, word="x")},
     'conf.d/b.yaml:2:10: error: "b" stands twice; the first is at conf.d/a.yaml:2'),
    ({"conf.d/a.yaml": "routes: [{name: b, respond: {status: 204}}]"},
     'conf.d/b.yaml:4:12: error: two routes are called "b"; the first is at conf.d/a.yaml:1'),
    ({"conf.d/b.yaml": "include: ../policy.yaml"}, "conf.d/b.yaml:1:10: error: include \"../policy.yaml\": "
     "conf.d/../policy.yaml includes itself, by way of this line"),
    ({"conf.d/b.yaml": "include: [../more/a, ../more/*]", "more/a": "limits: {}"},
     "conf.d/b.yaml:1:22: error: include \"../more/*\": conf.d/../more/a is included twice"),
    ({"conf.d/b.yaml": "include: gone.yaml"},
     "conf.d/b.yaml:1:10: error: include \"gone.yaml\": conf.d/gone.yaml cannot be read: No such file"),
    ({"conf.d/b.yaml": "include: ${HOME}/x"}, "include takes no variables of the environment"),
    ({"conf.d/b.yaml": "include: {a: b}"}, "include must be a path or a pattern of files"),
    ({"conf.d/b.yaml": "routes: {}"}, "conf.d/b.yaml:1:9: error: routes must be a list, not a mapping"),
    ({"conf.d/b.yaml": "limits: ["}, "conf.d/b.yaml:2:1: error: not YAML"),
    ({f"conf.d/{i}.yaml": "limits: {}" for i in range(256)}, "is one file too many: a policy includes at most 256"),
    ({f"more/{i}": f"include: {i + 1}" for i in range(9)} | {"conf.d/b.yaml": "include: ../more/0"},
     "is too deep: files include files at most 8 deep"),
    ({f"conf.d/{c}.yaml": "#" * (9 << 20) + "\nlimits: {}" for c in "xy"}, "conf.d/y.yaml is too large"),
])
def test_what_is_wrong_is_said_with_its_file(folder, files, told):
    for name, text in files.items():
        write(folder / name, text)
    result = check(folder, "include: conf.d/*.yaml\nroutes: [{respond: {status: 404}}]\n")
    assert result.returncode == 1 and told in result.stderr, result.stderr


def test_only_regular_files_are_included_and_nothing_is_waited_for(folder):
    os.mkfifo(folder / "conf.d/fifo.yaml")
    os.symlink("loop.yaml", folder / "conf.d/loop.yaml")
    os.symlink("/dev/zero", folder / "conf.d/zero.yaml")
    result = check(folder, "include: conf.d/*.yaml\nroutes: [{respond: {status: 404}}]\n")
    assert result.returncode == 1
    for told in ("conf.d/fifo.yaml is no regular file", "conf.d/zero.yaml is no regular file",
                 "conf.d/loop.yaml cannot be read: Too many levels of symbolic links"):
        assert told in result.stderr, result.stderr


def test_a_pattern_may_name_no_file(folder):
    result = check(folder, "include: none.d/*.yaml\nroutes: [{respond: {status: 404}}]\n")
    assert result.returncode == 0, result.stderr


def check_part(folder, text):
    write(folder / "part.yaml", text)
    return subprocess.run([program.PROGRAM, "check", "part.yaml"], cwd=folder, timeout=20,
                          capture_output=True, text=True, check=False)


def test_an_included_file_is_checked_alone_but_for_names(folder):
    result = check_part(folder, TEAM.format(name="c", rate=1, word="c") +
                        "  - {match: {path: /d}, limits: [of-another-file], upstream: of-another-file}\n")
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    assert result.stdout == ("part.yaml: ok as an included file, for it has no listen; names are checked with "
                             "the policy that includes it\n")
    result = check_part(folder, "limits: {c: {key: client.ip, rate: 1/secnd}}\nroutes: [{mach: {path: /d}}]\n")
    assert result.returncode == 1 and "part.yaml:1:36: error: rate" in result.stderr
    assert 'part.yaml:2:11: error: unknown key "mach"' in result.stderr and "listen" not in result.stderr


def test_an_included_file_is_not_a_policy(folder):
    write(folder / "part.yaml", TEAM.format(name="c", rate=1, word="c"))
    result = program.command("run", str(folder / "part.yaml"))
    assert result.returncode == 1 and '"listen" is missing' in result.stderr


def test_tests_and_replays_see_included_files(folder):
    write(folder / "conf.d/a.yaml", TEAM.format(name="a", rate=1, word="first"))
    policy = folder / "policy.yaml"
    policy.write_text("listen: 127.0.0.1:0\n" + POLICY.format(folder=folder))
    (folder / "test.yaml").write_text(
        "policy: policy.yaml\ndefaults: {from: 192.0.2.1}\ntests:\n"
        "  - {name: one an hour, steps: [{request: GET /a, repeat: 3, expect: {allowed: 1, denied: 2}}]}\n")
    result = program.command("test", str(folder / "test.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    log = folder / "access.log"
    log.write_text('192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"\n' * 3)
    result = program.command("replay", "--json", str(policy), str(log))
    assert result.returncode == 0, result.stderr
    assert '"denied": 2' in result.stdout, result.stdout
