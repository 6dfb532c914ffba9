"""What the documents show is true: their policies load, and what they name exists."""

import glob
import os
import re
import subprocess

import pytest

from harness import program
from harness.certificates import make_crl
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(f"{ROOT}/docs/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


def name_of(page):
    return os.path.relpath(page, ROOT)


def blocks(page, language):
    return [block for found, block in BLOCK.findall(text(page)) if found == language]


def whole_policies():
    """Yaml blocks that stand for a file, not for a part of one; but for those that check warns of
    on purpose, which test_check.py looks at."""
    return [pytest.param(block, id=f"{os.path.basename(page)}-{i}") for page in PAGES
            for i, block in enumerate(blocks(page, "yaml"))
            if re.search(r"^listen:", block, re.M) and os.path.basename(page) != "check.md"]


def make_named_files(policy, folder):
    """The certificates and included files that a policy names."""
    for certificate in re.findall(r"tls/[\w-]+\.pem", policy):
        path = folder / certificate
        path.parent.mkdir(exist_ok=True)
        kind = ["rsa:2048"] if "-rsa" in certificate else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        name = "*.int.example.com" if "int" in certificate else f"{path.stem.removesuffix('-rsa')}.example.com"
        subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "365", "-subj", "/CN=x",
                        "-addext", f"subjectAltName=DNS:{name}", "-keyout", path.with_suffix(".key"), "-out", path],
                       check=True, capture_output=True)
    for crl in re.findall(r"tls/[\w-]+\.crl", policy):
        path = folder / crl
        make_crl(path, path.with_suffix(".pem"), path.with_suffix(".key"))
    for included in re.findall(r"^include: \[(.*)\]", policy, re.MULTILINE):
        for name in included.split(", "):
            if "*" not in name:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text("routes: [{match: {path: /api/**}, limits: [per-client], upstream: api}]\n")


@pytest.mark.parametrize("policy", whole_policies())
def test_every_whole_policy_that_is_shown_is_good(policy, tmp_path):
    make_named_files(policy, tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    result = program.command("check", str(path))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text(page)):
        if "://" not in target:
            assert os.path.exists(os.path.join(os.path.dirname(page), target)), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_table_is_whole(page):
    """A head, the line beneath it, and rows of as many cells, without a gap."""
    shown = re.sub(r"^```.*?^```$", "", text(page), flags=re.M | re.S)
    for table in re.findall(r"(?:^\|.*\n?)+", shown, re.M):
        cells = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()]
        assert re.fullmatch(r"[|: -]+", table.splitlines()[1]) and len(set(cells)) == 1, table[:200]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nothing_is_left_to_be_filled_in(page):
    assert not re.findall(r"@@\w*@@", text(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_is_shown_exists(page):
    known = program.command("--help").stdout
    for block in blocks(page, "sh"):
        for name in re.findall(r"\bsluice ([a-z]+)", block):
            assert f"\n  {name} " in known, name
        for path in re.findall(r"(?:^|\s)((?:scripts|bench|config)/[\w./-]+)", block):
            assert os.path.exists(os.path.join(ROOT, path)), path


def test_the_quickstart_policy_lets_ten_through_at_once(start, start_upstream):
    upstream = start_upstream()
    with open(f"{ROOT}/config/quickstart.yaml", encoding="utf-8") as file:
        policy = file.read()
    policy = re.sub(r"^listen: .*$", "listen: 127.0.0.1:0", policy, flags=re.MULTILINE)
    policy = policy.replace("http://127.0.0.1:9000", upstream.url)
    proxy = start(policy)
    answers = [proxy.ask() for _ in range(10)]
    assert [answer.status for answer in answers] == [200] * 10
    until(lambda: proxy.ask().status == 429, "somebody who asks more than once a second")
    assert answers[0].get("RateLimit-Policy") == '"per-client";q=10;w=10'
    assert answers[0].get("RateLimit") == '"per-client";r=9;t=1'


def test_the_policy_for_handlers_that_outlive_their_answers_passes_no_request_that_ends_early(start, start_upstream):
    upstream = start_upstream()
    [policy] = [block for block in blocks(f"{ROOT}/docs/policy.md", "yaml") if "whole-answers" in block]
    proxy = start(policy.replace("127.0.0.1:8080", "127.0.0.1:0").replace("http://127.0.0.1:9000", upstream.url))
    for path in ("/export", "/EXPORT/", "/export.csv"):
        assert [proxy.ask(method, path).status for method in ("HEAD", "POST", "GET")] == [405, 405, 200]
    conditions = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"]
    assert proxy.ask(path="/export", fields=dict.fromkeys(conditions, "x")).status == 200
    assert [upstream.last.get(name) for name in conditions] == [None] * len(conditions)
    assert [proxy.ask(method, "/other").status for method in ("HEAD", "POST")] == [200, 200]


def test_every_test_that_is_named_exists():
    sources = "".join(text(path) for path in glob.glob(f"{ROOT}/tests/e2e/test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text(f"{ROOT}/docs/building.md")))
    assert len(named) > 40
    assert not [name for name in named if f"def {name}(" not in sources]


def packages_for(task):
    """What scripts/install-packages would install for it on a machine that has nothing."""
    with open(f"{ROOT}/scripts/install-packages", encoding="utf-8") as file:
        script = file.read()
    build = re.search(r'^build="([^"]*)"', script, re.M).group(1)
    named = re.search(rf'^  \[{task}\]="([^"]*)"', script, re.M).group(1).replace("$build", build).split()
    return ["node-llhttp" if name == "llhttp" else name for name in named]


def test_building_tells_what_each_package_is_for():
    told = set(re.findall(r"`([^`]*)`", text(f"{ROOT}/docs/building.md")))
    assert not set(packages_for("test")) - told
