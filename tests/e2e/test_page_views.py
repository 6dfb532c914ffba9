"""What each view of the page shows, in Chromium, by the mouse and by the keyboard alone."""

import datetime
import ssl
import socket

import pytest

from harness.admin import READ_TOKEN, Admin, addresses, audit
from harness.certificates import Authority
from harness.upstream import Upstream
from test_page_browser import a_chromium, browser, is_quiet, run, sign_in  # noqa: F401: browser is a fixture

CELLS = """return [...document.querySelectorAll(arguments[0] + ' table')].filter((one) => one.caption.textContent === arguments[1])
    .flatMap((one) => [...one.tBodies[0].rows]).map((row) => [...row.cells].map((cell) => cell.innerText))"""


def rows(page, view, caption):
    """The cells of the table of that caption."""
    return page.run(CELLS, f"#view-{view}", caption)


def focus(page, selector, text=None):
    """Give the focus to an element, as a person does who has pressed TAB until it is there."""
    assert page.run("""
        const found = [...document.querySelectorAll(arguments[0])]
            .find((one) => arguments[1] === null || one.textContent.trim() === arguments[1]);
        found?.focus();
        return found !== undefined && document.activeElement === found;
    """, selector, text), (selector, text)


# --- Now ---

@pytest.mark.takes(17)
def test_the_range_is_chosen_from_a_minute_to_an_hour(start, browser):
    proxy, _, url = run(start)
    proxy.ask(path="/other")
    page = browser()
    page.open(url)
    page.wait_text("#connection", "ready")
    assert page.run("return [...document.querySelectorAll('#range option')].map((one) => one.textContent)") == \
        ["1 minute", "2 minutes", "10 minutes", "1 hour"]
    focus(page, "#range")
    page.keys("HOME")
    labels = "return Chart.getChart(document.querySelector('#view-now canvas')).data.labels"
    page.wait(lambda: len(page.run(labels)) > 2, "some seconds")

    def gaps():
        times = [datetime.datetime.strptime(text.replace("\u202f", " "), "%I:%M:%S %p") for text in page.run(labels)]
        return {(after - before).seconds for before, after in zip(times, times[1:])}

    assert gaps() == {1}
    page.keys("END")
    assert page.run("return document.querySelector('#range').value") == "3600"
    page.wait(lambda: len(page.run(labels)) >= 2 and gaps() == {10}, "steps of ten seconds", within=40)
    assert len(page.run("return [...document.querySelectorAll('#view-now canvas')]"
                        ".filter((one) => one.getAttribute('aria-label'))")) == 2
    is_quiet(page)


@pytest.mark.takes(7)
def test_upstreams_handshakes_and_certificates_are_shown(start, browser, tmp_path):
    authority = Authority(tmp_path / "ca", days=9)
    certificate, key = authority.sign("one", "DNS:a.test")
    upstream = Upstream()
    proxy = start(f"""
admin: {{listen: 127.0.0.1:0}}
listen: {{address: 127.0.0.1:0, tls: {{cert: {certificate}, key: {key}}}}}
upstreams: {{api: {{servers: ['{upstream.url}'], health: {{path: /, interval: 1s}}}}}}
routes: [{{upstream: api}}]
""")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with socket.create_connection(proxy.address) as sock, context.wrap_socket(sock, server_hostname="a.test") as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/")
    page.wait_text("#view-now", "TLS handshakes: 1 full, 0 resumed, 0 failed.")
    page.wait(lambda: [row[:2] + row[3:4] for row in rows(page, "now", "Upstreams")] == [["api", upstream.url, "up"]],
              f"the server, not {rows(page, 'now', 'Upstreams')}")
    (listener, names, days, until, file), = page.wait(lambda: rows(page, "now", "Certificates"), "the certificate")
    assert names == "a.test" and days in ("8", "9") and file == str(certificate) and listener and until
    assert page.run("return document.querySelectorAll('#view-now td .bad').length") == 1  # nine days are few
    upstream.stop()
    page.wait(lambda: [row[3] for row in rows(page, "now", "Upstreams")] == ["fails checks"], "the server to be down")
    is_quiet(page)


# --- Who ---

def test_a_client_is_looked_up_in_every_limit_by_the_keyboard(start, browser):
    proxy, _, url = run(start)
    for _ in range(8):
        proxy.ask(path="/a/1/", fields=[("X-Api-Key", "k")])
    page = browser()
    page.open(url + "#who")
    page.wait_text("#view-who", "client.ip=127.0.0.1")
    key, _, denied, _, share, wait, _, last = next(
        row for row in rows(page, "who", "Keys that are denied most") if row[1] == "per-client")
    assert (key, denied) == ("client.ip=127.0.0.1", "3")
    assert share.endswith("%") and wait.endswith("s") and last
    focus(page, "#who-key")
    page.keys("127.0.0.1", "ENTER")
    page.wait_text("#view-who", "State of 127.0.0.1")
    state, = rows(page, "who", "State of 127.0.0.1")
    assert state[:4] == ["per-client", "would be denied", "per-client", "0 of 5"]
    assert "Denied last by per-client at " in page.text("#view-who") and "; 3 times within the hour." in page.text("#view-who")
    # From the list, by the keyboard; and a limit alone.
    focus(page, "#view-who [data-key]", "client.ip=127.0.0.1")
    page.keys("ENTER")
    page.wait_text("#view-who", "State of client.ip=127.0.0.1")
    focus(page, "#who-limit")
    page.keys("per-k")
    page.wait_text("#view-who", "No key was denied within 10m")
    is_quiet(page)


def test_a_ban_is_set_and_left_by_the_keyboard(start, browser):
    proxy, _, url = run(start)
    proxy.ask(path="/a/1/")
    page = browser()
    page.open(url + "#who")
    page.wait_text("#connection", "ready")
    focus(page, "#token")
    page.keys("ENTER")
    page.keys("0123456789abcdef0123456789abcdef", "ENTER")
    page.wait_text("#token", "may change")
    focus(page, "#who-key")
    page.keys("127.0.0.1", "ENTER")
    page.wait_text("#view-who", "State of 127.0.0.1")
    page.wait(lambda: page.all("#view-who .actions button"), "the buttons")
    focus(page, "#view-who .actions button", "Ban …")
    page.keys("ENTER")
    assert page.run("return document.getElementById('ask-dialog').open")
    page.keys("ESCAPE")
    assert not page.run("return document.getElementById('ask-dialog').open")
    assert page.run("return document.activeElement.textContent") == "Ban …"
    assert proxy.ask(path="/a/1/").status == 200
    page.keys("ENTER", "TAB", "by hand", "ENTER")  # the time stays as it is offered, then the reason
    page.wait_text("#view-who", "banned until")
    assert proxy.ask(path="/a/1/").status == 429
    assert any("/ban " in line and "by=token" in line for line in audit(proxy, 1))
    assert "by hand" in page.text("#view-who")


def test_times_are_those_of_the_viewers_zone(start, browser):
    proxy, admin, url = run(start)
    for _ in range(6):
        proxy.ask(path="/a/1/")
    shown = {}
    last = admin.read("/v1/top?n=1")["top"][0]["last_denied"]
    for zone in ("Asia/Kathmandu", "America/St_Johns"):
        page = browser()
        page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
        page.open(url + "#who")
        page.wait_text("#view-who", "client.ip=127.0.0.1")
        shown[zone] = rows(page, "who", "Keys that are denied most")[0][7].replace("\u202f", " ")
    utc = datetime.datetime.fromisoformat(last[:19])
    for zone, minutes in (("Asia/Kathmandu", 345), ("America/St_Johns", -210)):
        there = datetime.datetime.strptime(shown[zone], "%b %d, %Y, %I:%M:%S %p")
        assert abs((there - utc).total_seconds() / 60 - minutes) < 1, (zone, shown[zone], last)


# --- Why ---

@pytest.mark.takes(6)
def test_a_request_is_explained_with_how_full_its_limits_are(start, browser):
    proxy, _, url = run(start)
    for _ in range(6):
        proxy.ask(path="/a/1/")
    page = browser()
    page.open(url + "#why")
    page.wait_text("#connection", "ready")
    page.type("#why-url", "/a/1/x?name=shoes")
    page.type("#why-headers", "X-Api-Key: k")
    page.click("#view-why button", "Explain")
    page.wait_text("#view-why", "It is answered with 200 by the route, if its limits allow it.")
    table = {row[0]: row for row in rows(page, "why", "Limits")}
    assert table["per-client"][1:3] == ["judges it", "client.ip=127.0.0.1"]
    assert table["per-client"][5:7] == ["0 of 5", "would be denied"]
    assert table["per-key.1h"][5:7] == ["10 of 10", "would pass"] and "per-name (shadow)" in table
    assert "Route items" in page.text("#view-why")
    page.type("#why-from", "nowhere")
    page.click("#view-why button", "Explain")
    page.wait_text("#view-why .problem", "--from wants an address")


def test_what_is_counted_is_not_shown_under_another_plan(start, browser):
    proxy = start("admin: {listen: 127.0.0.1:0}\ntrusted_proxies: [127.0.0.1]\n"
                  "limits:\n  per-key: {key: header.x-api-key, rate: 10/hour, plan: header.x-plan, plans: {gold: 90/hour}}\n"
                  "routes: [{limits: [per-key], respond: {status: 204}}]\n")
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#why")
    page.wait_text("#connection", "ready")
    page.type("#why-headers", "X-Api-Key: k")
    page.click("#view-why button", "Explain")
    page.wait_text("#view-why", "10 of 10")
    page.type("#why-headers", "X-Api-Key: k\nX-Plan: gold")
    page.click("#view-why button", "Explain")
    page.wait(lambda: [row[3:6] for row in rows(page, "why", "Limits")] == [["gold", "1", "–"]], "the plan, and no other's numbers")


# --- The policy ---

def test_warnings_and_errors_of_the_policy_are_shown(start, browser):
    proxy = start("admin: {listen: 127.0.0.1:0, read_token: fedcba9876543210fedcba9876543210}\n"
                  "limits:\n  per-client: {key: client.ip, rate: 60/hour}\n  idle: {key: global, rate: 1/hour}\n"
                  "routes: [{limits: [per-client], respond: {status: 204}}]\n")
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#policy")
    page.wait_text("#view-policy", "Warnings")
    assert '"idle"' in page.text("#view-policy") and "policy.yaml:4" in page.text("#view-policy")
    sign_in(page, READ_TOKEN)
    assert page.run("return [...document.querySelectorAll('#view-policy button')].find((one) => one.textContent === 'Reload …').hidden")
    path = proxy.folder / "policy.yaml"
    path.write_text(path.read_text().replace("60/hour", "often"))
    focus(page, "#view-policy button", "Read the file again")
    page.keys("ENTER")
    page.wait_text("#view-policy", "1 errors; it would not be put in force")
    assert 'rate "often"' in page.text("#view-policy")


# --- the mouse ---

def test_all_views_are_reached_by_the_mouse(start, browser):
    proxy, _, url = run(start)
    proxy.ask(path="/a/1/")
    page = browser()
    page.open(url)
    page.wait_text("#view-now", "items")
    for view in ("who", "why", "whatif", "policy", "now"):
        page.one(f"#tab-{view}").click()  # where it is drawn, so that nothing may lie over it
        page.wait(lambda: page.run("return [...document.querySelectorAll('[role=tabpanel]')].filter((one) => !one.hidden)"
                                   ".map((one) => one.id)") == [f"view-{view}"], view)
    page.one("#token").click()
    page.one("#token-cancel").click()
    assert not page.run("return document.getElementById('token-dialog').open")
    is_quiet(page)
