"""The page of the admin API in Chromium: what it shows is what the proxy counts, and its buttons do what they say."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from harness import reload
from harness.admin import JSON, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer
from harness.browser import Browser, Chromium, have
from harness.wait import until
from test_metrics import Metrics

POLICY = """
admin: {{listen: 127.0.0.1:{port}, token: 0123456789abcdef0123456789abcdef, read_token: fedcba9876543210fedcba9876543210}}
{more}
limits:
  per-client: {{key: client.ip, rate: 60/hour, burst: 5}}
  per-key: {{key: [header.x-api-key, method], rate: [10/hour, 100/day]}}
  per-name: {{key: query.name, rate: 1/hour, shadow: true}}
routes:
  - {{name: items, match: {{path: "/a/{{id}}/**", method: [GET]}}, limits: [per-client, per-key, per-name],
     respond: {{status: 200}}}}
  - {{name: rest, respond: {{status: 204}}}}
"""
HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'><svg/onload=alert(1)>", "a\u202eb", "{{7*7}}"]
WIDTHS = (360, 800, 1600)
pytestmark = pytest.mark.takes(1.5)


@pytest.fixture(scope="module", name="chromium")
def a_chromium():
    """One for all tests of a file: it takes longer to start than most of them."""
    program = Chromium()
    yield program
    program.stop()


@pytest.fixture
def browser(chromium):
    windows = []

    def start(**how):
        windows.append(Browser(chromium=chromium, **how))
        return windows[-1]

    yield start
    for window in reversed(windows):
        window.stop()


def run(start, more="", port=0):
    proxy = start(POLICY.format(port=port, more=more))
    address = addresses(proxy)[0]
    return proxy, Admin(address), f"http://{address[0]}:{address[1]}/ui/"


def sign_in(page, token=TOKEN):
    page.click("#token")
    page.type("#token-text", token)
    page.click("#token-use")
    page.wait_text("#token", "may change" if token == TOKEN else "may read")


def is_quiet(page):
    said = [message for message in page.console()]
    assert said == [], said


def reload_by_signal(proxy):
    """Put the policy's file in force as it is now, or not if it has errors."""
    n = reload.n_reloads(proxy)
    proxy.signal(signal.SIGHUP)
    reload.wait_for(proxy, n + 1)


def totals(page):
    """The numbers since the start that the page shows, by their names."""
    return page.run("return Object.fromEntries([...document.querySelectorAll('[data-total]')]"
                    ".map((one) => [one.dataset.total, Number(one.textContent.replaceAll(',', ''))]))")


@pytest.mark.takes(2)
def test_numbers_are_those_of_the_metrics_within_two_seconds(start, browser):
    proxy, admin, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    for i in range(9):
        proxy.ask(path="/a/1/?name=x", fields=[("X-Api-Key", f"k{i % 2}")])
    proxy.ask(path="/other")
    page.wait(lambda: totals(page).get("all requests") == 10, "the requests on the page", within=5)
    shown = totals(page)
    metrics = Metrics(admin.ask(path="/metrics").body.decode())
    assert shown["route items requests"] == metrics.sum("sluice_requests_total", route="items") == 9
    assert shown["route items denied"] == metrics.sum("sluice_requests_total", route="items", verdict="denied")
    for limit in ("per-client", "per-key.1h"):
        for name in ("allowed", "denied"):
            assert shown[f"limit {limit} {name}"] == metrics.sum(
                "sluice_decisions_total", limit=limit, verdict=name), (limit, name)
    # The first second of a route is in the sums of the time that is shown, too.
    cells = "return [...document.querySelectorAll('#view-now table')[0].tBodies[0].rows[0].cells].map((one) => one.textContent)"
    page.wait(lambda: page.run(cells)[:1] + page.run(cells)[2:3] == ["items", "9"], "the sums of the route", within=5)
    # A route alone, and all again.
    page.click("#view-now .name", "items")
    page.wait_text("#view-now", "Of the route items alone.")
    page.click("#view-now button", "All routes and limits")
    page.wait(lambda: "alone." not in page.text("#view-now"), "all routes again")
    is_quiet(page)


def test_an_hour_is_there_when_it_opens(start, browser):
    proxy, _, url = run(start)
    for _ in range(6):
        proxy.ask(path="/a/1/")
    page = browser()
    page.open(url)
    page.wait(lambda: totals(page).get("all requests") == 6, "the requests on the page")
    sums = "return [...document.querySelectorAll('#view-now table')][0].tBodies[0].rows[0].cells[2].textContent"
    assert page.run(sums) == "6"  # of the last two minutes: nothing was shown of them when they came
    is_quiet(page)


def test_views_are_reached_by_keyboard_and_by_address(start, browser):
    _, _, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    page.run("document.getElementById('tab-now').focus()")
    shown = "return [...document.querySelectorAll('[role=tabpanel]')].filter((one) => !one.hidden).map((one) => one.id)"
    for view in ("who", "why", "whatif", "policy", "now"):
        page.keys("ARROW_RIGHT")
        assert page.run(shown) == [f"view-{view}"]
        assert page.run("return document.activeElement.id") == f"tab-{view}"
    page.keys("END")
    assert page.run(shown) == ["view-policy"]
    page.open(url + "#why")
    page.wait(lambda: page.run(shown) == ["view-why"], "the view that the address names")
    # A form by the keyboard alone.
    page.run("document.getElementById('why-url').focus()")
    page.keys("a/7/x", "ENTER")
    page.wait_text("#view-why", "It is answered with")


def test_hostile_names_are_text(start, browser):
    proxy, _, url = run(start)
    for name in HOSTILE:
        for _ in range(3):
            proxy.ask(path="/a/1/?name=" + "".join(f"%{byte:02x}" for byte in name.encode()),
                      fields=[("X-Api-Key", name.encode("utf-8").decode("latin-1"))])
    page = browser()
    page.open(url + "#who")
    page.wait_text("#view-who", "query#")  # values are shown as hashes
    page.type("#who-key", "<img src=x onerror=alert(1)>")
    page.click("#view-who button", "Look up")
    page.wait_text("#view-who", "<img src=x onerror=alert(1)>")
    assert page.all("#view-who img") == [] and page.all("main script") == []
    page.open(url + "#why")
    page.type("#why-url", "/<script>alert(1)</script>?a=<b>")
    page.click("#view-why button", "Explain")
    page.wait(lambda: "alert(1)" in page.text("#view-why") or page.text("#view-why .problem"), "an answer")
    assert page.all("#view-why script") == [] and page.all("#view-why b") == []
    assert page.run("return document.querySelectorAll('iframe, object, embed').length") == 0


def test_who_is_banned_exempt_and_reset_as_the_buttons_say(start, browser):
    proxy, admin, url = run(start)
    for _ in range(7):
        proxy.ask(path="/a/1/")
    page = browser()
    page.open(url + "#who")
    page.wait_text("#view-who", "client.ip=127.0.0.1")
    page.click("#view-who [data-key]", "client.ip=127.0.0.1")
    page.wait_text("#view-who", "would be denied")
    assert not page.all("#view-who .actions button")  # without a token
    sign_in(page, READ_TOKEN)
    assert not page.all("#view-who .actions button")
    sign_in(page)
    page.wait(lambda: page.all("#view-who .actions button"), "the buttons")

    def do(verb, **values):
        page.click("#view-who .actions button", verb)
        for selector, text in values.items():
            page.type(f"#ask-{selector}", text)
        page.click("#ask-do")

    do("Reset")
    page.wait_text("#view-who", "What was counted is forgotten.")
    page.wait_text("#view-who", "would pass")
    assert proxy.ask(path="/a/1/").status == 200
    do("Ban …", **{"for": "1h", "reason": "scrapes <b>all</b>"})
    page.wait_text("#view-who", "scrapes <b>all</b>")
    assert proxy.ask(path="/a/1/").status == 429
    do("Lift")
    page.wait_text("#view-who", "There are none.")
    assert proxy.ask(path="/a/1/").status == 200
    do("Exempt …", **{"for": "1h"})
    page.wait_text("#view-who", "exempt until")
    assert [proxy.ask(path="/a/1/", fields=[("X-Api-Key", "k")]).status for _ in range(9)] == [200] * 9
    lines = audit(proxy, 4)
    assert [path for path in ("/ban ", "/exempt ") if not any(path in line and "by=token" in line for line in lines)] == []
    # Asked, and not agreed to: nothing happens.
    n = len(audit(proxy, 4))
    page.click("#view-who .actions button", "Lift")
    page.click("#ask-cancel")
    assert len(audit(proxy, n)) == n
    is_quiet(page)


def test_a_question_behind_one_that_was_declined_is_asked(start, browser):
    """The browser tells that a dialog was closed after what else it has to do: the next one may be open by then."""
    proxy, admin, url = run(start)
    proxy.ask(path="/a/1/")
    page = browser()
    page.open(url + "#who")
    page.wait_text("#connection", "ready")
    sign_in(page)
    page.type("#who-key", "127.0.0.1")
    page.click("#view-who button", "Look up")
    page.wait_text("#view-who", "4 of 5")
    page.run("""
        const reset = [...document.querySelectorAll("#view-who .actions button")].find((one) => one.textContent === "Reset");
        for (const answer of ["ask-cancel", "ask-cancel", "ask-do"]) {
          reset.click();
          document.getElementById(answer).click();
        }
        reset.click();""")
    page.wait_text("#view-who", "What was counted is forgotten.")
    page.wait_text("#view-who", "5 of 5")
    page.click("#ask-cancel")
    assert len(audit(proxy, 1)) == 1
    is_quiet(page)


HELD = """
    const asked = window.fetch;
    const held = new Promise((resolve) => { window.letGo = resolve; });
    window.fetch = async (path, how) => { await (String(path) === "/v1/limits" ? held : null); return asked(path, how); };
"""


def test_who_is_looked_up_before_the_limits_are_known_is_told_when_they_are(start, browser):
    proxy, _, url = run(start)
    for _ in range(7):
        proxy.ask(path="/a/1/")
    page = browser()
    page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HELD})
    page.open(url + "#who")
    page.wait_text("#connection", "ready")
    page.type("#who-key", "127.0.0.1")
    page.click("#view-who button", "Look up")
    page.run("window.letGo()")
    page.wait_text("#view-who", "would be denied")
    is_quiet(page)


TENANTS = """
admin: {{listen: 127.0.0.1:0, token: 0123456789abcdef0123456789abcdef}}
store: {{redis: redis://127.0.0.1:{port}}}
limits:
  per-tenant: {{key: header.x-api-key, rate: 2/hour, plan: tenant, plans: {{gold: 5/hour}}}}
routes: [{{limits: [per-tenant], respond: {{status: 200}}}}]
"""


def test_a_plan_is_set_and_taken_back(start, start_redis, browser):
    proxy = start(TENANTS.format(port=start_redis().port))
    address = addresses(proxy)[0]
    key = [("X-Api-Key", "k")]
    until(lambda: proxy.ask(fields=key).status == 429, "the rate of who has no plan")
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#who")
    page.wait_text("#connection", "ready")
    sign_in(page)
    page.type("#who-key", "header.x-api-key=k")
    page.click("#view-who button", "Look up")
    page.click("#view-who .actions button", "Plan …")
    page.click("#ask-do")
    page.wait_text("#view-who", "The plan is gold.")
    until(lambda: proxy.ask(fields=key).status == 200, "the plan to hold")
    page.click("#view-who .actions button", "No plan")
    page.click("#ask-do")
    page.wait_text("#view-who", "It has no plan any more.")
    assert any("path=/v1/tenants " in line and "by=token" in line for line in audit(proxy, 2))
    is_quiet(page)


def test_a_request_is_explained_under_a_plan(start, start_redis, browser):
    proxy = start(TENANTS.format(port=start_redis().port))
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#why")
    page.wait_text("#connection", "ready")
    sign_in(page)
    page.type("#why-headers", "X-Api-Key: k")
    page.type("#why-tenant", "gold")
    page.click("#view-why button", "Explain")
    page.wait_text("#view-why table", "gold")
    is_quiet(page)


@pytest.mark.takes(3)
def test_redis_that_goes_and_comes_is_seen(start, start_redis, browser):
    redis = start_redis()
    proxy, _, url = run(start, more=f"store: {{redis: redis://127.0.0.1:{redis.port}}}")
    page = browser()
    page.open(url)
    proxy.ask(path="/a/1/")
    page.wait_text("#connection", "ready")
    cells = f"return [...document.querySelectorAll('#view-now tr')].find((row) => row.textContent.startsWith('127.0.0.1:{redis.port}'))"
    row = lambda: page.run(cells + "?.innerText.split('\\t').map((one) => one.trim())")
    page.wait(lambda: row() and row()[-1].endswith(("µs", "ms")), "the round trip")
    assert row()[2] == "closed", row()
    redis.kill()
    proxy.ask(path="/a/1/")
    page.wait_text("#connection", "redis, away: local decisions")
    redis.start()
    # A breaker closes with the first decision that Redis makes again.
    page.wait(lambda: proxy.ask(path="/other") and proxy.ask(path="/a/1/") and page.text("#connection") == "ready",
              "Redis to be back")


@pytest.mark.takes(3)
def test_a_connection_that_could_not_begin_leaves_no_viewer_behind(start, browser):
    _, admin, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    page.run("""window.nCut = 0; window.isCut = true; const asked = window.fetch;
        window.fetch = (path, how) => (path === "/v1/access" && window.isCut && ++window.nCut
            ? Promise.reject(new TypeError("cut")) : asked(path, how));""")
    page.click("#token")
    page.type("#token-text", TOKEN)
    page.click("#token-use")  # which begins anew
    page.wait(lambda: page.run("return window.nCut") >= 4, "four attempts")
    with contextlib.ExitStack() as stack:  # the page has one of the eight places at most
        for _ in range(7):
            viewer = stack.enter_context(admin.connect())
            viewer.send(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert viewer.sock.recv(12) == b"HTTP/1.1 200"
    page.run("window.isCut = false")
    page.wait_text("#connection", "ready")


@pytest.mark.takes(5)
def test_tabs_that_are_not_seen_take_no_connection_from_those_that_are(start, browser):
    proxy, _, url = run(start)
    proxy.ask(path="/a/1/")
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    first = page.driver.current_window_handle
    for _ in range(7):  # a browser has six connections to a server
        page.driver.switch_to.new_window("tab")
        page.open(url + "#who")
        page.wait_text("#connection", "ready")
    page.type("#who-key", "127.0.0.1")
    page.click("#view-who button", "Look up")
    page.wait_text("#view-who", "State of 127.0.0.1")
    proxy.ask(path="/a/1/")
    page.driver.switch_to.window(first)  # and what came meanwhile is there
    page.wait_text("#connection", "ready")
    page.wait(lambda: totals(page).get("all requests") == 2, "the numbers of now")
    is_quiet(page)


def test_a_proxy_that_restarts_is_followed_again(start, browser):
    proxy, _, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    proxy.stop()
    page.wait_text("#connection", "disconnected")
    port = int(url.split(":")[2].split("/")[0])
    proxy, _, _ = run(start, port=port)
    proxy.ask(path="/other")
    page.wait_text("#connection", "ready")
    page.wait(lambda: totals(page).get("all requests") == 1, "the numbers of the new process")


def test_lines_that_waited_for_the_history_are_not_counted_twice(start, browser):
    proxy, _, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    port = int(url.split(":")[2].split("/")[0])
    # From now on it answers late, with seconds whose lines have come meanwhile.
    page.run("const fetch = window.fetch; window.fetch = async (path, how) => {"
             " if (path === '/v1/history') { window.isAsked = true; await new Promise((go) => setTimeout(go, 4000)); }"
             " return fetch(path, how); }")
    proxy.stop()
    page.wait_text("#connection", "disconnected")
    proxy, _, _ = run(start, port=port)
    page.wait(lambda: page.run("return window.isAsked === true"), "the history to be asked for", within=20)
    for _ in range(6):
        proxy.ask(path="/a/1/")
    page.wait(lambda: totals(page).get("all requests") == 6, "the requests on the page")
    sums = "return [...document.querySelectorAll('#view-now table')][0].tBodies[0].rows[0].cells[2].textContent"
    assert page.run(sums) == "6"


def test_a_table_stays_where_it_was_scrolled_to(start, browser):
    proxy, _, url = run(start)
    proxy.ask(path="/a/1/")
    page = browser(width=360)
    page.open(url)
    page.wait(lambda: totals(page).get("route items requests") == 1, "the request on the page")
    region = "document.querySelector('#view-now .wide')"
    page.run(f"{region}.focus(); {region}.scrollLeft = 50")
    assert page.run(f"return {region}.scrollLeft") == 50
    proxy.ask(path="/a/1/")
    page.wait(lambda: totals(page).get("route items requests") == 2, "the next request")
    assert page.run(f"return {region}.scrollLeft") == 50
    assert page.run(f"return document.activeElement === {region}")


@pytest.mark.takes(4)
def test_a_wrong_token_is_asked_for_again(start, browser):
    _, _, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    page.click("#token")
    page.type("#token-text", "not-the-token-0123456789abcdef012")
    page.click("#token-use")
    page.wait(lambda: page.run("return document.getElementById('token-dialog').open"), "the question for a token")
    page.wait_text("#connection", "the token is not right")
    # Who declines is not asked at each retry.
    page.run("document.getElementById('token-dialog').close('cancel')")
    tries = "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/v1/live')).length"
    before = page.run(tries)
    page.wait(lambda: page.run(tries) >= before + 2, "further tries")
    assert not page.run("return document.getElementById('token-dialog').open")
    page.click("#token")
    page.type("#token-text", TOKEN)
    page.click("#token-use")
    page.wait_text("#token", "may change")
    assert page.run("return localStorage.length") == 0


def test_the_policy_is_shown_with_what_its_file_changes(start, browser):
    proxy, _, url = run(start)
    page = browser()
    page.open(url + "#policy")
    page.wait_text("#view-policy", "it is in force")
    path = proxy.folder / "policy.yaml"
    path.write_text(path.read_text().replace("60/hour", "30/hour"))
    page.click("#view-policy button", "Read the file again")
    page.wait_text("#view-policy", "it differs from what is in force")
    assert "30/hour" in page.text("#view-policy .added") and "60/hour" in page.text("#view-policy .removed")
    sign_in(page)
    page.click("#view-policy button", "Reload …")
    page.click("#ask-do")
    page.wait_text("#view-policy", "Generation 2 is in force.")
    page.wait_text("#view-policy", "it is in force")


def test_what_a_reload_changed_is_shown_as_text(start, browser):
    proxy, _, url = run(start)
    page = browser()
    page.open(url)
    page.wait_text("#view-now", "0 of 0 reloads")
    path = proxy.folder / "policy.yaml"
    text = path.read_text()
    more = "".join(f"  l{i}: {{key: global, rate: {i + 1}/hour}}\n" for i in range(20))
    path.write_text(text.replace("60/hour", "30/hour").replace("{status: 204}", "{status: 404, body: \"<img src=x>\"}"))
    reload_by_signal(proxy)
    page.wait_text("#view-now", "1 of 1 reloads")
    shown = page.text("#view-now")
    assert "limits.per-client.rate: 60/hour → 30/hour" in shown, shown
    assert "routes.rest.respond.body: added <img src=x>" in shown and page.all("#view-now img") == []
    path.write_text(text.replace("routes:", f"{more}routes:"))
    reload_by_signal(proxy)
    page.wait_text("#view-now", "and 11 more")
    path.write_text(text + "colour: blue\n")
    reload_by_signal(proxy)
    page.wait_text("#view-now", "failed, and the policy stayed as it was")
    assert "colour" in page.text("#view-now")
    is_quiet(page)


def test_another_number_is_tried_on_a_log(start, browser, tmp_path):
    proxy, _, url = run(start)
    lines = [f'192.0.2.{i % 5} - - [28/Nov/2026:08:{i // 60 % 60:02}:{i % 60:02} +0000] "GET /a/1/x HTTP/1.1" 200 5 "-" "-"'
             for i in range(600)]
    log = tmp_path / "access.log"
    log.write_text("\n".join(lines) + "\n")
    page = browser()
    page.open(url + "#whatif")
    page.wait_text("#connection", "ready")
    sign_in(page)
    page.one("#whatif-file").send_keys(str(log))
    page.type("#whatif-value", "1/hour")
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "600 lines in", within=60)
    assert "newly denied" in page.text("#view-whatif .cards")
    assert page.run("return document.querySelectorAll('#view-whatif canvas').length") >= 2
    is_quiet(page)


@pytest.mark.takes(3)
def test_requests_that_were_too_long_to_record_are_counted(start, browser):
    names = ["n" * 60 + str(i) for i in range(12)]
    proxy = start(f"admin: {{listen: 127.0.0.1:0, token: {TOKEN}}}\nlimits:\n" +
                  "".join(f"  l{i}: {{key: query.{name}, rate: 9/hour, missing: skip}}\n" for i, name in enumerate(names)) +
                  f"routes: [{{limits: [{', '.join(f'l{i}' for i in range(12))}], respond: {{status: 204}}}}]\n")
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#whatif")
    page.wait_text("#view-whatif", "Nothing is recorded.")
    assert Admin(address).ask("POST", "/v1/recording", [JSON, bearer()], b'{"seconds": 60}').status == 200
    page.wait_text("#view-whatif", "Recording: 0 requests")
    for _ in range(3):
        assert proxy.ask(path="/?" + "&".join(f"{name}=1" for name in names)).status == 204
    page.wait_text("#view-whatif", "3 requests were too long to record.")


@pytest.mark.takes(7)
def test_it_is_readable_at_three_widths_and_in_both_themes(start, browser):
    """With SCREENSHOTS=FOLDER pictures are made there."""
    proxy, _, url = run(start)
    for i in range(40):
        proxy.ask(path="/a/1/?name=x", fields=[("X-Api-Key", f"k{i % 3}")])
    folder = os.environ.get("SCREENSHOTS")
    for width in WIDTHS:
        page = browser(width=width, height=900)
        page.open(url)
        page.wait(lambda: totals(page).get("all requests") == 40, "the requests on the page")
        for is_dark in (False, True):
            page.prefer(is_dark)
            for view in ("now", "who", "why", "whatif", "policy"):
                page.click(f"#tab-{view}")
                page.wait(lambda: page.text(f"#view-{view} h2"), "the view")
                if view == "policy":
                    page.wait_text("#view-policy pre", "limits:")
                # What is wider than the window scrolls on its own.
                assert page.run("return document.documentElement.scrollWidth") <= width, (width, view)
                if folder:
                    page.shoot(pathlib.Path(folder) / f"{view}-{width}-{'dark' if is_dark else 'light'}.png")
        colours = page.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
        assert colours[0] != colours[1]


BEGIN = """
import sys
sys.path.insert(0, sys.argv[1])
from harness.browser import Chromium
chromium = Chromium()
print(chromium.profile.name, flush=True)
sys.stdin.read()
"""


def processes_at(home):
    """What has that home: all of a browser has its own."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


@pytest.mark.takes(2)
def test_a_browser_does_not_outlive_a_test_that_is_killed():
    have()
    test = subprocess.Popen([sys.executable, "-B", "-c", BEGIN, pathlib.Path(__file__).parent],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    home = test.stdout.readline().strip()
    assert len(processes_at(home)) > 3
    test.kill()
    test.communicate()
    until(lambda: not processes_at(home), "the browser to end")
    shutil.rmtree(home)
