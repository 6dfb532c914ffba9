"""docs/recipes.md: every command there tells of the policy of its section what stands there."""

import os
import re
import subprocess

import pytest

from harness import program
from harness.upstream import answer
from harness.wait import until

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
PAGE = os.path.join(ROOT, "docs", "recipes.md")
SECTION = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```sh\n(sluice .*?)\n```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes():
    """Of each section with commands: its files by name, and the commands with what they print."""
    with open(PAGE, encoding="utf-8") as file:
        sections = SECTION.findall(file.read())
    for title, text in sections:
        names = {"policy:": "policy.test.yaml", "listen:": "policy.yaml"}
        files = {names[block.split()[0]]: block for block in BLOCK.findall(text) if block.split()[0] in names}
        if SHOWN.search(text):
            yield pytest.param(files, SHOWN.findall(text), id=title)


def assert_is_as_shown(printed, shown):
    """But for what the page leaves out: lines of "…", and "…" at the end of a word."""
    pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n"
                      for line in shown.splitlines())
    assert re.fullmatch(pattern, printed), f"printed: {printed}"


def policy_of(title):
    return next(recipe.values[0]["policy.yaml"] for recipe in recipes() if recipe.id == title)


def serve_logins(peer, request):
    """Every password is wrong."""
    peer.send(answer("401 Unauthorized" if request.target == "/login" else "200 OK"))


def here(policy, upstream):
    """It, between other addresses."""
    policy = re.sub(r"^listen: .*$", "listen: 127.0.0.1:0", policy, flags=re.MULTILINE)
    return re.sub(r"http://[0-9.]+:9000", upstream.url, policy)


def test_who_guesses_on_is_banned_from_the_login_alone(start, start_upstream):
    proxy = start(here(policy_of("Login"), start_upstream(serve_logins)))
    assert [proxy.ask("POST", "/login").status for _ in range(80)] == [401] * 20 + [429] * 60
    until(lambda: 'msg="a key is banned"' in proxy.stderr(), "the ban")
    denied = proxy.ask("POST", "/login")
    assert denied.status == 429 and 540 <= int(denied.get("Retry-After")) <= 600
    assert proxy.ask("GET", "/").status == 200


def policy_of_wrong_passwords():
    """The recipe with the limit of its section "Wrong passwords alone"."""
    with open(PAGE, encoding="utf-8") as file:
        block = next(block for block in BLOCK.findall(file.read()) if block.startswith("limits:\n  guesses:\n"))
    policy = re.sub(r"^limits:\n  guesses:\n(?:    .*\n)+", lambda _: block, policy_of("Login"), flags=re.MULTILINE)
    assert policy.count("refund_on: [200]") == 1
    return policy


def test_right_passwords_are_free_and_any_other_end_counts(start, start_upstream):
    statuses = iter(["200 OK"] * 20 + ["401 Unauthorized", "406 Not Acceptable", "500 Internal Server Error",
                                       "302 Found", "304 Not Modified"])
    proxy = start(here(policy_of_wrong_passwords(), start_upstream(lambda peer, _: peer.send(answer(next(statuses))))))
    assert [proxy.ask("POST", "/login").status for _ in range(27)] == [200] * 20 + [401, 406, 500, 302, 304, 429, 429]


def with_other_ways_in(policy):
    """It, with the routes of "Links to the login" and "Other ways in" where the page says that they go."""
    with open(PAGE, encoding="utf-8") as file:
        section = next(text for title, text in SECTION.findall(file.read()) if title == "Login")
    more = [block.removeprefix("routes:\n") for block in BLOCK.findall(section) if block.startswith("routes:\n")]
    last = re.search(r"`(\{match: \{path: /\*\*, method: .*?\})`", section).group(1)
    policy = policy.replace("  - name: login\n", "".join(more) + "  - name: login\n")
    limits = re.search(r"there `rest` has\n`(limits: .*?)`", section).group(1)
    return re.sub(r"  - (\{name: rest, .*)limits: \[site\]", rf"  - {last}\n  - \1{limits}", policy)


@pytest.mark.parametrize("method, target, fields, length, answers", [
    ("POST", "/", [("Next-Action", "id")], 1, [401] * 5 + [429]),
    ("POST", "/nope", [("next-action", "id")], 1, [401] * 5 + [429]),
    ("GET", "/wp-json/wp/v2/users/me?_envelope", [], 0, [400] * 6),
    ("GET", "/?rest_route=/wp/v2/users/me&%5Fenvelope=1", [], 0, [400] * 6),
    ("GET", "/?rest_route=/wp/v2/users/me", [], 0, [401] * 5 + [429]),
    ("POST", "/", [], 27, [401] * 5 + [429]),
    ("POST", "/index.php/wp-json/batch/v1", [], 2, [404] * 6),
    ("POST", "/logout,login,login?batch=1", [], 2, [400] * 6),
    ("POST", "/graphql", [], 1024, [401] * 5 + [429]),
    ("POST", "/graphql", [], 1025, [413] * 6),
    ("POST", "/GraphQL/", [("Content-Encoding", "gzip")], 1, [415] * 6),
    ("POST", "/graphql?query=mutation", [], 2, [400] * 6),
    ("POST", "/graphql", [("Next-Action", "id")], 1025, [413] * 6),
    ("POST", "/graphql?rest_route=/", [], 1025, [413] * 6),
    ("POST", "/graphql", [("Authorization", "x"), ("Content-Encoding", "gzip")], 1, [415] * 6),
    ("POST", "/login,login?batch=1", [("Next-Action", "id"), ("Authorization", "x")], 2, [400] * 6),
    ("GET", "/_app/remote/16xokiy/login", [], 0, [401] * 5 + [429]),
    ("GET", "/v1/items", [("Authorization", "Basic Ym9iOnB3MQ==")], 0, [401] * 5 + [429]),
    ("GET", "/en/login", [], 0, [401] * 5 + [429]),
    ("GET", "/index.php/en/login", [], 0, [401] * 5 + [429]),
    ("GET", "/static/css/login.css", [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "style")], 0, [401] * 6),
    ("POST", "/index.php/login", [], 2, [401] * 5 + [429]),
    ("GET", "/login?_rsc=1", [("Sec-Fetch-Site", "same-origin"), ("Next-Router-Prefetch", "1")], 0, [404] * 6),
    ("GET", "/en/login", [("Sec-Fetch-Site", "same-origin"), ("Sec-Purpose", "prefetch;prerender")], 0, [404] * 6),
])
def test_other_ways_in_to_the_login_count_or_are_closed(method, target, fields, length, answers, start, start_upstream):
    policy = with_other_ways_in(policy_of_wrong_passwords())
    proxy = start(here(policy, start_upstream(lambda peer, _: peer.send(answer("401 Unauthorized")))))
    assert [proxy.ask(method, target, fields, b"a" * length).status for _ in range(6)] == answers


def with_all_posts(policy):
    """It, with what the page says of ways in that nobody knows."""
    with open(PAGE, encoding="utf-8") as file:
        block = next(block for block in BLOCK.findall(file.read()) if block.startswith("limits:\n  posts:"))
    limit, routes = re.fullmatch(r"limits:\n(.*)routes:.*?\n(.*)", block, re.DOTALL).groups()
    policy = policy.replace("\nroutes:\n", f"\n{limit}routes:\n")
    return re.sub(r"  - \{name: rest, .*\n", routes, policy)


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "FOO"])
def test_passwords_count_at_paths_that_nobody_knows(start, start_upstream, method):
    policy = with_all_posts(policy_of("Login"))
    proxy = start(here(policy, start_upstream(lambda peer, _: peer.send(answer("401 Unauthorized")))))
    with proxy.connect() as client:
        assert [client.ask(method, f"/a/b{i}", body=b"p").status for i in range(121)] == [401] * 120 + [429]
        assert client.ask("GET", "/a").status == 401
        assert client.ask("GET", "/a?user=x&p%61ssword=y").status == 429


@pytest.mark.parametrize("more", [with_other_ways_in, with_all_posts])
def test_other_ways_in_are_checked_without_a_word(tmp_path, more):
    path = tmp_path / "policy.yaml"
    path.write_text(more(policy_of("Login")))
    result = subprocess.run([program.PROGRAM, "check", str(path)], capture_output=True, text=True, timeout=60,
                            check=False, env=program.environment({}))
    assert result.returncode == 0 and result.stderr == "" and "warning" not in result.stdout


def policies_with_logins():
    yield pytest.param(policy_of_wrong_passwords(), id="recipe")
    for name in ("docs/bans.md", "config/bans.yaml"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            text = file.read()
        yield pytest.param(BLOCK.search(text).group(1) if name.endswith(".md") else text, id=name)


OF_BROWSERS = [
    ("POST", [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")]),
    ("GET", [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]),
    # What Chromium sends for a WebSocket, and before it reports.
    ("GET", [("Origin", "https://b.example"), ("Upgrade", "websocket"), ("Connection", "Upgrade"),
             ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]),
    ("OPTIONS", [("Origin", "https://b.example"), ("Access-Control-Request-Method", "POST")]),
    # What a page of the site itself shows.
    ("GET", [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")]),
    ("GET", [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "font")]),
    ("GET", [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "iframe")]),
]
OF_LOGINS = [
    ("POST", [("Origin", "https://a.example"), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "document")]),
    ("POST", [("Origin", "https://a.example"), ("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Dest", "empty")]),
    ("OPTIONS", [("Origin", "https://a.example"), ("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Dest", "empty")]),
    ("POST", [("Origin", "http://a.example")]),  # by http, or of a browser from before 2023
    ("GET", [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]),
]


@pytest.mark.parametrize("policy", policies_with_logins())
def test_what_others_make_browsers_send_to_the_login_costs_them_nothing(policy, start, start_upstream):
    upstream = start_upstream(serve_logins)
    proxy = start(here(policy, upstream))
    for _ in range(100):
        proxy.ask("GET", "/", [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")])
    upstream.requests.clear()
    for method, fields in OF_BROWSERS:
        for path in ("/login?1", "/Login/", "/login.png"):
            assert {proxy.ask(method, path, fields).status for _ in range(25)} == {403}, (method, fields)
    assert [proxy.ask(method, "/login", fields).status for method, fields in OF_LOGINS] == [401] * 5
    assert proxy.ask("POST", "/login").status == 429
    assert len(upstream.requests) == 5


def test_there_are_four():
    assert {recipe.id for recipe in recipes()} == {"Login", "Plans", "Tokens", "Nearby"}


@pytest.mark.parametrize("files, shown", recipes())
def test_a_recipe_does_what_is_shown(files, shown, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "sluice").symlink_to(program.PROGRAM)
    environment = program.environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    for command, told in shown:
        result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                                check=False, env=environment)
        assert result.stderr == ""
        assert_is_as_shown(result.stdout, told)
