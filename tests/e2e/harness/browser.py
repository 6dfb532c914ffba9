"""Chromium without a screen, driven by Selenium. A test that needs it is skipped where it is not installed."""

import os
import pathlib
import shutil
import tempfile

import pytest

from harness.wait import until

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "browser" / "driver"
PROGRAM = shutil.which("chromium")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
           "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US")
POLL_S = 0.03  # to ask the browser takes ten times what it takes to ask sluice
SCRIPT_S = 300  # at most, for a script that waits
# Until a text is shown: the page is looked at when it changes, and the answer is null, or what is shown when the time is over.
AWAIT_TEXT = """
    const [selector, text, within_ms, done] = arguments;
    const shown = () => [...document.querySelectorAll(selector)].map((one) => one.innerText).join("\\n");
    const finish = (answer) => { observer.disconnect(); clearTimeout(timer); done(answer); };
    const observer = new MutationObserver(() => { if (shown().includes(text)) { finish(null); } });
    const timer = setTimeout(() => finish(shown()), within_ms);
    observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
    if (shown().includes(text)) { finish(null); }
"""


def have():
    """Selenium; or skip the test."""
    selenium = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed")
    if not shutil.which("chromedriver") or not PROGRAM:
        pytest.skip("chromium and chromium-driver are not installed")
    return selenium


class Chromium:
    """A browser for one page after another."""

    def __init__(self):
        webdriver = have()
        self.profile = tempfile.TemporaryDirectory(prefix="browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = PROGRAM
        for option in (*OPTIONS, f"--user-data-dir={self.profile.name}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = __import__("selenium.webdriver.chrome.service", fromlist=["Service"]).Service(
            str(DRIVER), env={**os.environ, "HOME": self.profile.name, "TZ": "UTC"})
        try:
            self.driver = webdriver.Chrome(service=service, options=options)
        except BaseException:
            self.profile.cleanup()
            raise
        self.driver.set_script_timeout(SCRIPT_S)

    def stop(self):
        try:
            self.driver.quit()
        finally:
            self.profile.cleanup()


class Browser:
    """A page of its own, in a browser of its own unless it is told of one, with nothing left of earlier pages. It is a tab:
    a window takes twice the time. Texts are looked for in the elements that a CSS selector finds."""

    def __init__(self, width=1200, height=1000, is_dark=False, chromium=None):
        self.own = None if chromium else Chromium()
        self.driver = (chromium or self.own).driver
        self.before = self.driver.window_handles
        self.driver.switch_to.new_window("tab")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        self.console()  # of earlier pages
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.prefer(is_dark)

    def stop(self):
        if self.own:
            self.own.stop()
            return
        for handle in set(self.driver.window_handles) - set(self.before):  # and those that the test opened beside it
            self.driver.switch_to.window(handle)
            self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {
                "origin": self.run("return location.origin"), "storageTypes": "all"})
            self.driver.close()
        self.driver.switch_to.window(self.before[0])

    def prefer(self, is_dark):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]})

    def open(self, url):
        self.driver.get(url)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        found = self.all(selector)
        assert len(found) == 1, (selector, len(found))
        return found[0]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector="body"):
        """As it is shown. Read at once: the page replaces its elements."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')",
                        selector)

    def wait(self, what, text, within=30):
        return until(what, text, within=within, poll_s=POLL_S)

    def wait_text(self, selector, text, within=30):
        exceptions = __import__("selenium.common.exceptions", fromlist=["JavascriptException"])

        def is_shown():
            try:
                shown = self.driver.execute_async_script(AWAIT_TEXT, selector, text, within * 1000)
            except exceptions.JavascriptException:
                return False  # another page took its place
            assert shown is None, f"waited {within} s for {text!r} in {selector}, which has {shown!r}"
            return True

        until(is_shown, f"{text!r} in {selector}", within=within)

    def click(self, selector, text=None):
        """Click the first element that has that text, wherever the page has put it by now."""
        script = """
            const found = [...document.querySelectorAll(arguments[0])]
                .find((one) => arguments[1] === null || one.textContent.trim() === arguments[1]);
            found?.click();
            return found !== undefined;
        """
        self.wait(lambda: self.run(script, selector, text), f"{text or 'an element'} at {selector}")

    def type(self, selector, text):
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def keys(self, *names):
        """Press keys, wherever the focus is: the page may replace the element meanwhile."""
        keys = __import__("selenium.webdriver.common.keys", fromlist=["Keys"]).Keys
        chains = __import__("selenium.webdriver.common.action_chains", fromlist=["ActionChains"])
        for name in names:
            chains.ActionChains(self.driver).send_keys(getattr(keys, name, name)).perform()

    def console(self):
        """What was said on the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def shoot(self, path, height=4000):
        """The page as a picture, down to @height px at most."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"],
                                                    "height": min(size["height"], height), "scale": 1}})
        path.write_bytes(__import__("base64").b64decode(shot["data"]))
