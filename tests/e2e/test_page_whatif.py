"""What if, in Chromium: several numbers at once, recordings of the proxy's own requests, long logs."""

import json

import pytest

from harness import program
from harness.admin import JSON, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer
from harness.client import Client
from harness.wait import until
from test_page_browser import a_chromium, browser, is_quiet, reload_by_signal, sign_in  # noqa: F401: browser is a fixture

BYTES = ("Content-Type", "application/octet-stream")
POLICY = """
admin: {listen: 127.0.0.1:0, token: 0123456789abcdef0123456789abcdef, read_token: fedcba9876543210fedcba9876543210}
log: off
limits:
  per-client: {key: client.ip, algorithm: fixed_window, align: first, rate: 60/hour}
  per-key: {key: header.x-api-key, rate: [{rate: 10/hour, burst: 8}, 100/day], missing: skip}
  tenants:
    key: client.ip
    algorithm: fixed_window
    align: first
    rate: 100/hour
    plan: header.user-agent
    plans: {gold: 50/hour, silver.eu: 20/hour}
  at-once: {key: client.ip, algorithm: concurrency, rate: 5}
routes:
  - {name: items, match: {path: /a/**}, limits: [per-client, per-key, tenants, at-once], respond: {status: 200}}
"""


def line_of(i, client=0, agent="gold"):
    return (f'192.0.2.{client} - - [28/Nov/2026:{i // 36000 % 24:02}:{i // 600 % 60:02}:{i // 10 % 60:02} +0000] '
            f'"GET /a/{i % 9} HTTP/1.1" 200 5 "-" "{agent}"\n')


def record(admin, seconds):
    assert admin.ask("POST", "/v1/recording", [JSON, bearer()], json.dumps({"seconds": seconds}).encode()).status == 200


def open_page(start, browser, token=None, log=None, policy=POLICY):
    proxy = start(policy)
    address = addresses(proxy)[0]
    page = browser()
    page.open(f"http://{address[0]}:{address[1]}/ui/#whatif")
    page.wait_text("#connection", "ready")
    sign_in(page, *([token] if token else []))
    page.wait_text("#view-whatif", "No number is changed")
    if log is not None:
        page.one("#whatif-file").send_keys(str(log))
    return proxy, Admin(address), page


def choose(page, selector, text):
    """Choose the option of a list that begins with @text; as a person does, so that the page hears of it."""
    found = page.run("""
        const list = document.querySelector(arguments[0]);
        const option = [...list.options].find((one) => one.textContent.startsWith(arguments[1]));
        if (option) { list.value = option.value; list.dispatchEvent(new Event("change", {bubbles: true})); }
        return option !== undefined;
    """, selector, text)
    assert found, (selector, text, page.text(selector))


def change(page, limit, number, value):
    choose(page, "#whatif-limit", limit)
    choose(page, "#whatif-what", number)
    page.type("#whatif-value", value)
    page.click("#view-whatif button", "Change")


def changes(page):
    """The rows of what is changed: limit, number, was, is."""
    return page.run("return [...document.querySelectorAll('#view-whatif table')].filter((one) => one.caption.textContent ==="
                    " 'Numbers that are changed').flatMap((one) => [...one.tBodies[0].rows])"
                    ".map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))")


def cards(page):
    """The numbers of the report, by their names."""
    return page.run("return Object.fromEntries([...document.querySelectorAll('#view-whatif .card')].map((card) =>"
                    " [card.querySelector('span').firstChild.textContent, Number(card.querySelector('b').textContent.replaceAll(',', ''))]))")


def of_command(proxy, log, *sets):
    result = program.command("replay", "--json", *(f"--set={one}" for one in sets), str(proxy.folder / "policy.yaml"), str(log))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.takes(12)
def test_several_numbers_are_changed_together_and_put_back(start, browser, tmp_path):
    log = tmp_path / "access.log"
    log.write_text("".join(line_of(i, i % 3, ("gold", "silver.eu", "curl")[i % 3]) for i in range(240)))
    proxy, _, page = open_page(start, browser, log=log)
    offered = page.run("return [...document.querySelectorAll('#whatif-what option')].map((one) => one.textContent)")
    assert offered == ["rate: 60/hour", "shadow: false"]
    change(page, "per-client", "rate", "40/hour")
    change(page, "per-key", "burst 1", "3")
    change(page, "per-key", "rate 2", "50/day")
    change(page, "tenants", "plan gold, rate", "30/hour")
    change(page, "tenants", "plan silver.eu, rate", "10/hour")
    change(page, "at-once", "rate", "2")
    assert changes(page) == [
        ["per-client", "rate", "60/hour", "40/hour"],
        ["per-key", "burst 1", "8", "3"],
        ["per-key", "rate 2", "100/day", "50/day"],
        ["tenants", "plan gold, rate", "50/hour", "30/hour"],
        ["tenants", "plan silver.eu, rate", "20/hour", "10/hour"],
        ["at-once", "rate", "5", "2"],
    ]
    change(page, "per-client", "rate", "30/hour")  # another number for one that is changed
    change(page, "at-once", "rate", "5")  # what it was
    page.click("#view-whatif button[aria-label='Put back per-key, burst 1']")
    assert [row[:2] + row[3:] for row in changes(page)] == [
        ["per-client", "rate", "30/hour"], ["per-key", "rate 2", "50/day"], ["tenants", "plan gold, rate", "30/hour"],
        ["tenants", "plan silver.eu, rate", "10/hour"]]
    sets = ("per-client.rate=30/hour", "per-key.rate.2=50/day", "tenants.plans.gold.rate=30/hour",
            "tenants.plans.silver.eu.rate=10/hour")
    expected = of_command(proxy, log, *sets)
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "240 lines in", within=60)
    shown = cards(page)
    assert shown["denied by the first"] == expected["policy"]["denied"] > 0
    assert shown["denied by the second"] == expected["against"]["denied"]
    assert shown["newly denied"] == expected["changes"]["newly_denied"] > 0
    page.click("#view-whatif button", "Put all back")
    assert changes(page) == []
    page.click("#view-whatif button", "Replay")
    page.wait(lambda: cards(page).get("denied") == expected["policy"]["denied"], "the policy in force alone", within=60)
    is_quiet(page)


def test_numbers_are_changed_by_the_keyboard_alone(start, browser, tmp_path):
    log = tmp_path / "access.log"
    log.write_text("".join(line_of(i) for i in range(50)))
    _, _, page = open_page(start, browser, log=log)
    page.run("document.getElementById('whatif-limit').focus()")
    page.keys("per-c", "TAB", "TAB", "7/hour", "ENTER")
    assert changes(page) == [["per-client", "rate", "60/hour", "7/hour"]]
    page.keys("TAB", "TAB", "TAB", "ENTER")  # Change, the table, which may be scrolled, Put back
    assert changes(page) == []
    page.keys("9/hour", "ENTER")  # where the focus was put
    assert changes(page) == [["per-client", "rate", "60/hour", "9/hour"]]
    page.keys(*["TAB"] * 4, "ENTER")  # Replay
    page.wait_text("#view-whatif", "50 lines in", within=60)
    assert cards(page)["newly denied"] == 41


@pytest.mark.takes(7)
def test_a_number_that_is_none_is_refused_in_words(start, browser, tmp_path):
    log = tmp_path / "access.log"
    log.write_text(line_of(0))
    _, _, page = open_page(start, browser, log=log)
    change(page, "per-client", "rate", "fast")
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif .problem", 'rate "fast"')
    assert "/proc/" not in page.text("#view-whatif")


def test_numbers_follow_a_reload(start, browser):
    proxy, admin, page = open_page(start, browser)
    change(page, "per-client", "rate", "40/hour")
    change(page, "tenants", "plan gold, rate", "30/hour")
    path = proxy.folder / "policy.yaml"
    path.write_text(path.read_text().replace("60/hour", "70/hour").replace("gold: 50/hour, ", ""))
    assert admin.ask("POST", "/v1/reload", [JSON, bearer()], b"{}").status == 200
    page.wait(lambda: changes(page) == [["per-client", "rate", "70/hour", "40/hour"]], "the numbers of the new policy")


# --- a recording of the proxy's own requests ---

def switches(page):
    """The buttons of the recording that are shown."""
    return page.run("return [...document.querySelectorAll('#view-whatif section:nth-of-type(2) button')]"
                    ".filter((one) => one.offsetParent !== null).map((one) => one.textContent)")


@pytest.mark.takes(7)
def test_a_recording_is_begun_stopped_and_replayed_with_another_number(start, browser, tmp_path):
    # The log has when requests began to the ms: it cannot say which of them were there at once.
    policy = POLICY.replace("log: off\n", "").replace(", at-once]", "]")
    proxy, admin, page = open_page(start, browser, policy=policy)
    proxy.ask(path="/a/before")
    page.wait_text("#view-whatif", "Nothing is recorded.")
    assert switches(page) == ["Record …"]
    page.click("#view-whatif button", "Record …")
    page.click("#ask-cancel")
    assert admin.read("/v1/recording")["state"] == "none"
    page.click("#view-whatif button", "Record …")
    assert page.run("return [...document.querySelectorAll('#ask-seconds option')].map((one) => one.value)")[-1] == "300"
    choose(page, "#ask-seconds", "300")
    page.click("#ask-do")
    page.wait_text("#view-whatif", "Recording: 0 requests, 0 KiB of 8 MiB at most, ")
    assert switches(page) == ["Stop"]
    for i in range(70):
        proxy.ask(path=f"/a/{i}")
    page.wait_text("#view-whatif", "Recording: 70 requests, ")
    assert "4m 5" in page.text("#view-whatif")  # the time that is left
    assert switches(page) == ["Stop", "Replay it"]
    page.click("#view-whatif button", "Stop")
    page.wait_text("#view-whatif", "Recorded: 70 requests, ")
    assert switches(page) == ["Record …", "Replay it", "Forget it"]
    proxy.ask(path="/a/after")
    change(page, "per-client", "rate", "20/hour")
    page.click("#view-whatif button", "Replay it")
    page.wait_text("#view-whatif", "70 lines in", within=60)
    log = tmp_path / "own.log"
    proxy.log_lines(72)
    log.write_bytes(b"".join(line for line in proxy.stdout().splitlines(keepends=True)
                             if b"/a/before" not in line and b"/a/after" not in line))
    expected = of_command(proxy, log, "per-client.rate=20/hour")
    assert expected["log"]["requests"] == 70 and expected["changes"]["newly_denied"] == 40
    shown = cards(page)
    for name, number in (("requests", 70), ("denied by the first", expected["policy"]["denied"]),
                         ("denied by the second", expected["against"]["denied"]), ("newly denied", 40)):
        assert shown[name] == number, name
    page.click("#view-whatif button", "Forget it")
    page.click("#ask-do")
    page.wait_text("#view-whatif", "Nothing is recorded.")
    told = audit(proxy, 4)
    for words in ("recorded for 300 s", "the recording is stopped", "changes=1", "the recording is forgotten"):
        assert any(words in line and "by=token" in line for line in told), words
    is_quiet(page)


@pytest.mark.takes(20)
def test_the_ends_of_a_recording_are_told(start, browser):
    proxy, admin, page = open_page(start, browser)
    record(admin, 5)
    page.wait_text("#view-whatif", "Recording: ")  # that another began
    page.wait_text("#view-whatif", "Recorded: 0 requests, 0 KiB.")  # its time is over
    assert switches(page) == ["Record …", "Forget it"]
    record(admin, 300)
    request = b"GET /a/%s HTTP/1.1\r\nHost: a.test\r\n\r\n" % (b"x" * 900)
    with proxy.connect() as client:
        while admin.read("/v1/recording")["state"] == "recording":
            client.send(request * 200)
            for _ in range(200):
                client.read()
    page.wait_text("#view-whatif", "It ended early: its 8 MiB are full.")
    assert switches(page) == ["Record …", "Replay it", "Forget it"]


@pytest.mark.takes(6)
def test_a_read_token_sees_a_recording_and_switches_nothing(start, browser):
    proxy, admin, page = open_page(start, browser, token=READ_TOKEN)
    record(admin, 300)
    proxy.ask(path="/a/1")
    page.wait_text("#view-whatif", "Recording: 1 requests, ")
    assert switches(page) == []
    assert "To record requests, give a token that may change something." in page.text("#view-whatif")
    assert page.run("return [...document.querySelectorAll('#view-whatif button')].find((one) => one.textContent === 'Replay').disabled")
    sign_in(page)
    page.wait(lambda: switches(page) == ["Stop", "Replay it"], "the switches of who may")


# --- long logs ---

def long_log(folder, n=200_000):
    path = folder / "long.log"
    path.write_text("".join(line_of(i, i * 7919 % 251) for i in range(n)))
    return path


def is_hidden(page, selector):
    return page.run("return document.querySelector(arguments[0]).hidden", selector)


@pytest.mark.takes(9)
def test_a_long_log_shows_how_far_it_is_and_is_cancelled(start, browser, tmp_path):
    _, admin, page = open_page(start, browser, log=long_log(tmp_path))
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "The log is being read: ")
    page.wait(lambda: page.run("return document.querySelector('#view-whatif progress').position") > 0, "a part of the log")
    assert not is_hidden(page, "#view-whatif progress")
    page.click("#view-whatif button", "Cancel")
    page.wait_text("#view-whatif .problem", "cancelled")
    assert is_hidden(page, "#view-whatif progress") and cards(page) == {}
    # It is over for the proxy, too: another one may begin.
    line = line_of(0).encode()
    until(lambda: admin.ask("POST", "/v1/replay", [BYTES, bearer()], line).status == 200, "the place to be free")
    is_quiet(page)


def test_a_replay_that_is_under_way_stays_so_when_the_stream_begins_anew(start, browser, tmp_path):
    proxy, _, page = open_page(start, browser, log=long_log(tmp_path, n=10))
    page.run("XMLHttpRequest.prototype.send = () => {};")  # it never ends
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "The log is being read: ")
    accesses = "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/v1/access')).length"
    before = page.run(accesses)
    reload_by_signal(proxy)
    page.wait(lambda: page.run(accesses) > before, "the next stream")
    page.wait_text("#connection", "ready")
    assert not is_hidden(page, "#view-whatif progress")


@pytest.mark.takes(6)
def test_a_second_replay_is_told_that_one_is_under_way(start, browser, tmp_path):
    _, admin, page = open_page(start, browser, log=long_log(tmp_path))
    line = line_of(0).encode()
    with Client(admin.address) as other:  # has sent a part of its log
        other.send(b"POST /v1/replay HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                   b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(line))
        until(lambda: admin.ask("POST", "/v1/replay", [BYTES, bearer()], line).status == 409, "the other replay")
        page.click("#view-whatif button", "Replay")
        page.wait_text("#view-whatif .problem", "a log is being replayed; one at a time")
        assert is_hidden(page, "#view-whatif progress")
        other.send(line)
        assert other.read("POST").status == 200
    page.one("#whatif-file").clear()
    page.type("#view-whatif textarea", line_of(1))
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "1 lines in", within=60)


def test_a_log_is_pasted_or_dropped(start, browser):
    _, _, page = open_page(start, browser)
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif .problem", "Choose a log first.")
    page.type("#view-whatif textarea", "".join(line_of(i) for i in range(3)))
    page.wait_text("#view-whatif", "the pasted lines, 1 KiB")
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "3 lines in", within=60)
    page.run("""
        const dropped = new DataTransfer();
        dropped.items.add(new File([arguments[0]], "dropped.log"));
        for (const name of ["dragenter", "dragover", "drop"]) {
          document.querySelector(".drop").dispatchEvent(
            new DragEvent(name, {dataTransfer: dropped, bubbles: true, cancelable: true}));
        }
    """, "".join(line_of(i) for i in range(5)))
    page.wait_text("#view-whatif", "dropped.log, 1 KiB")
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif", "5 lines in", within=60)
    page.type("#view-whatif textarea", "no line of a log")
    page.click("#view-whatif button", "Replay")
    page.wait_text("#view-whatif .problem", "first lines")
