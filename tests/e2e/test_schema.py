"""`sluice schema`: what loads is accepted by it, what it has is documented, and unknown keys and values of
another kind are refused by both."""

import copy
import glob
import json
import os
import random
import re
import subprocess

import jsonschema
import pytest
import yaml

from harness import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FULL = os.path.join(ROOT, "config/full.yaml")


class Core(yaml.SafeLoader):
    """The core schema of YAML 1.2, which editors read by: `off` is a word there. But 0660 stays as it is
    written."""


Core.yaml_implicit_resolvers = {}
for tag, pattern, first in (
        ("null", r"^(~|null|Null|NULL|)$", [*"~nN", ""]),
        ("bool", r"^(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("int", r"^[-+]?(0|[1-9][0-9]*)$", list("-+0123456789")),
        ("float", r"^[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?$", list("-+.0123456789"))):
    Core.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), first)
Core.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))


def read(text):
    return yaml.load(text, Core)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def schema_of(*arguments):
    result = program.command("schema", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.fixture(name="schema", scope="module")
def schema_of_policies():
    schema = schema_of()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(name="check")
def check_of_trees(tmp_path):
    """Which of some policies, as trees, the loader accepts: one call for all."""
    def check(trees):
        paths = [str(tmp_path / f"{number}.yaml") for number in range(len(trees))]
        for path, tree in zip(paths, trees):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(tree, file, ensure_ascii=False)  # is YAML
        told = json.loads(program.command("check", "--json", *paths).stdout)
        refused = {one["file"] for one in told if one["severity"] == "error"}
        return [path not in refused for path in paths]
    return check


# --- what loads ---


def good_policies():
    paths = glob.glob(f"{ROOT}/config/*.yaml") + glob.glob(f"{ROOT}/docker/sluice/policy.yaml")
    found = {os.path.relpath(path, ROOT): text_of(path) for path in paths}
    for manual in ("docs/check.md", "docs/policy.md", "docs/schema.md", "README.md"):
        blocks = re.findall(r"```yaml\n(.*?)```", text_of(f"{ROOT}/{manual}"), re.DOTALL)
        found |= {f"{manual} {number}": block for number, block in enumerate(blocks)
                  if re.search("^listen:", block, re.MULTILINE)}
    found["routes"] = text_of(f"{ROOT}/tests/data/policies/match/routes.yaml")
    return found


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in good_policies().items()])
def test_what_loads_is_accepted(schema, text):
    schema.validate(read(text))


def test_no_policy_that_loads_is_refused(schema):
    """Those that are bad are told what is bad; of the others the schema has nothing to tell."""
    paths = sorted(glob.glob(f"{ROOT}/tests/data/policies/**/*.yaml", recursive=True))
    told = json.loads(program.command("check", "--json", *paths).stdout)
    refused = {one["file"] for one in told if one["severity"] == "error"}
    good = [path for path in paths if path not in refused]
    assert good
    for path in good:
        schema.validate(read(text_of(path)))


def places(tree, path=()):
    """All places of a tree, itself not among them."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def value_at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def replaced(tree, path, value):
    tree = copy.deepcopy(tree)
    value_at(tree, path[:-1])[path[-1]] = value
    return tree


VALUES = [0, 1, 7, 250, 4294967296, -1, 1.5, True, False, "", "5", "10s", "1m30s", "500ms", "64KiB", "1KiB/s",
          "off", "auto", "true", "GET", "x", "a b", "100/minute", "5 / 1h30m", "client.ip", "header.x | path.1",
          "hash(path)", "2xx", "client_left", "server_failed", "127.0.0.1:80", "10.0.0.0/8", "http://127.0.0.1:1", "/a/{b}/**",
          "gcra", "deny", "0660", "per-client", "unix", "unix:/a", "redis://a,b:1", "response.header.x-a", [],
          ["x"], [1], {}, {"x": 1}, {"x": "y"}, None]


def test_whatever_the_loader_accepts_is_accepted(schema, check, seed):
    rng = random.Random(seed)
    full = read(text_of(FULL))
    changes = [(path, value) for path in places(full) for value in VALUES]
    trees = [replaced(full, *change) for change in rng.sample(changes, 150)]
    good = [tree for tree, is_good in zip(trees, check(trees)) if is_good]
    assert good
    assert [tree for tree in good if not schema.is_valid(tree)] == []


# --- what is refused ---


def mappings(schema, tree):
    """The places of mappings of known keys: of names there may be any."""
    named = {"upstreams", "limits", "plans", "header", "query", "set"}
    yield ()
    for path in places(tree):
        is_free = path[-1] in named and not (path[-1] == "limits" and len(path) > 1)
        is_free = is_free or path == ("jwt",) or path[-2:] == ("match", "jwt")
        if isinstance(value_at(tree, path), dict) and not is_free:
            yield path


def test_an_unknown_key_is_refused_by_both_wherever_it_stands(schema, check):
    full = read(text_of(FULL))
    trees = [replaced(full, (*path, "brust"), 1) for path in mappings(schema, full)]
    assert len(trees) > 40
    assert not any(check(trees))
    assert [tree for tree in trees if schema.is_valid(tree)] == []


def test_a_value_of_another_kind_is_refused_by_both(schema, check, seed):
    full = read(text_of(FULL))
    trees = [replaced(full, path, [["x"]]) for path in places(full)]
    trees += [replaced(full, path, {"brust": {"x": 1}}) for path in places(full)
              if not isinstance(value_at(full, path), dict)]
    trees = random.Random(seed).sample(trees, 50)
    assert not any(check(trees))
    assert [tree for tree in trees if schema.is_valid(tree)] == []


@pytest.mark.parametrize("path, value", [
    (("timeouts", "head"), 10), (("timeouts", "head"), "10 s"), (("timeouts", "head"), "1s1m"),
    (("max", "head"), "16kb"), (("max", "headers"), 0), (("max", "headers"), 257), (("workers",), "many"),
    (("limits", "per-client", "rate"), "100/minit"), (("limits", "per-client", "key"), "client"),
    (("limits", "per-client", "algorithm"), "token"), (("limits", "login", "charge_on"), ["6xx"]),
    (("store", "on_failure"), "open"), (("store", "redis"), "http://127.0.0.1"),
    (("trusted_proxies",), ["everybody"]), (("listen",), ["8080"]), (("headers",), "draft10"),
    (("upstreams", "api", "balance"), "hash"), (("upstreams", "api", "servers"), ["10.0.0.1:80"]),
    (("routes", 0, "cost"), "header")])
def test_a_text_of_another_form_is_refused_by_both(schema, check, path, value):
    tree = replaced(read(text_of(FULL)), path, value)
    assert check([tree]) == [False] and not schema.is_valid(tree)


def test_what_is_required_is_required_by_both(schema, check):
    for tree in ({}, {"listen": "127.0.0.1:1", "limits": {"a": {"rate": "1/s"}}},
                 {"listen": "127.0.0.1:1", "upstreams": {"a": {}}}):
        assert check([tree]) == [False] and not schema.is_valid(tree)


# --- the manual, and the example of all keys ---


def fields(schema, path=()):
    """(path, schema) of each key, however deep."""
    if isinstance(schema, list):
        for one in schema:
            yield from fields(one, path)
    elif isinstance(schema, dict):
        for key, one in schema.get("properties", {}).items():
            yield (*path, key), one
            yield from fields(one, (*path, key))
        for word in ("anyOf", "items", "additionalProperties", "patternProperties"):
            if word in schema and schema[word] is not False:
                yield from fields(schema[word], path)


def test_every_key_of_the_schema_has_its_row_and_its_default_in_the_manual(schema):
    rows = re.findall(r"^\| \[?`([a-z0-9_.]+)`(?:\]\([^)]*\))? \|(.*)$", text_of(f"{ROOT}/docs/policy.md"),
                      re.MULTILINE)
    told = list(fields(schema.schema))
    assert len(told) > 120
    for path, field in told:
        names = {".".join(path[start:]) for start in range(len(path))}
        default = field.get("default")
        wanted = json.dumps(default) if isinstance(default, (bool, int)) else default
        found = [row for name, row in rows if name in names]
        if path[-2:] == ("except", "client"):
            continue  # stands in the row of `except`
        if path[:2] == ("store", "sentinel_tls") and len(path) > 2:
            continue  # as those of `tls`
        assert found, path
        assert wanted is None or any(f"`{wanted}`" in row or (wanted == "" and "empty" in row)
                                     for row in found), (path, wanted)
        assert field["description"]


def test_defaults_are_what_they_may_be(schema):
    for path, field in fields(schema.schema):
        if "default" in field:
            one = jsonschema.Draft202012Validator({**field, "$defs": schema.schema["$defs"]})
            assert one.is_valid(field["default"]), path


# --- included files, tests of policies ---


def test_included_files_have_a_schema_too(schema):
    included = schema_of("--included")
    jsonschema.Draft202012Validator.check_schema(included)
    validator = jsonschema.Draft202012Validator(included)
    full = read(text_of(FULL))
    part = {key: full[key] for key in ("include", "upstreams", "limits", "routes") if key in full}
    assert set(included["properties"]) >= set(part) and len(part) >= 3
    validator.validate(part)
    assert not schema.is_valid(part)
    for wrong in ({**part, "listen": "127.0.0.1:1"}, {"limits": {"a": {"rate": "1/s"}}}):
        assert not validator.is_valid(wrong)


def test_tests_of_policies_have_a_schema_too():
    schema = schema_of("--tests")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    tests = [read(block) for block in re.findall(r"```yaml\n(.*?)```",
                                                 text_of(f"{ROOT}/docs/testing-policies.md"), re.DOTALL)]
    whole = [one for one in tests if isinstance(one, dict) and "tests" in one]
    assert whole
    for one in whole:
        validator.validate(one)
        assert not validator.is_valid({**one, "tset": []})


def test_the_commands_of_the_manual_work(tmp_path):
    manual = text_of(f"{ROOT}/docs/schema.md")
    commands = re.findall(r"```sh\n(.*?)\n```", manual, re.DOTALL)
    assert commands == ["sluice schema > sluice.schema.json"]
    (tmp_path / "sluice").symlink_to(os.path.abspath(program.PROGRAM))
    subprocess.run(["sh", "-c", commands[0]], cwd=tmp_path, check=True, timeout=60,
                   env=program.environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"}))
    assert json.loads(text_of(tmp_path / "sluice.schema.json")) == schema_of()
    assert "--tests" in manual and "sluice.schema.json" in re.search(r"\$schema=(\S+)", manual).group(1)


def test_wrong_usage_ends_with_2():
    result = program.command("schema", "FILE")
    assert (result.returncode, result.stdout) == (2, "") and "usage: sluice schema" in result.stderr


# Which do not go with the long ones: `upstreams` and `routes`, and `admin` that has more than its listen.
SHORT_FORMS = {("upstream",), ("limit",), ("limit", "rate"), ("limit", "burst"), ("admin", "address"), ("admin", "mode")}


def shown_keys(schema, tree, path=()):
    """The paths, as fields() gives them, of the keys that @tree has."""
    if isinstance(schema, list):
        return set().union(*(shown_keys(one, tree, path) for one in schema))
    found = set()
    if isinstance(tree, list) and "items" in schema:
        found |= set().union(*(shown_keys(schema["items"], one, path) for one in tree))
    for word in ("additionalProperties", "patternProperties"):
        if isinstance(tree, dict) and isinstance(schema.get(word), dict):
            known = schema.get("properties", {})
            inner = schema[word] if word == "additionalProperties" else list(schema[word].values())
            found |= set().union(*(shown_keys(inner, one, path) for name, one in tree.items() if name not in known))
    if "anyOf" in schema:
        found |= shown_keys(schema["anyOf"], tree, path)
    if isinstance(tree, dict):
        for key, one in schema.get("properties", {}).items():
            if key in tree:
                found |= {(*path, key)} | shown_keys(one, tree[key], (*path, key))
    return found


def with_what_is_commented_out(text):
    """The example, and each line `# key: value` in it, which stands for another spelling, as one more."""
    return re.sub(r"^( *)# (\w+: )", r"\1\2", text, flags=re.MULTILINE)


def test_the_example_of_all_keys_has_each_in_its_place(schema):
    full = read(with_what_is_commented_out(text_of(FULL)))
    wanted = {path for path, _ in fields(schema.schema) if path[:2] != ("admin", "tls")
              and path[:2] != ("store", "sentinel_tls")} - SHORT_FORMS
    assert len(wanted) > 120
    assert wanted - shown_keys(schema.schema, full) == set()
