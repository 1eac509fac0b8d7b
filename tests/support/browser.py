"""Chromium, used as a person uses it, and the texts and behaviour of a page.

Browser ──▶ open(), text(), until(); problems(): findings of axe-core; longest_task_ms(); console()

It uses the driver of the distribution, so nothing is downloaded.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

__all__ = ["Browser", "browsing"]

IN_TIME_S: Final = 40.0
PHONE: Final = 500
"""Pixels: a narrower window is a phone, whose scroll bars take no room."""
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
    "--force-device-scale-factor=1",
    "--disable-background-networking",
)


class Browser:
    """One browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open the address."""
        self.driver.get(url)

    def go(self, address: str) -> None:
        """Show another page of the dashboard, as a click on its link does: nothing is loaded again."""
        script = "history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))"
        self.run(script, address)

    def text(self) -> str:
        """The visible text of the main part."""
        return self.text_of("main")

    def text_of(self, selector: str) -> str:
        """The visible text of the first matching element, by one script: WebElement.text examines each node in turn."""
        text: str = self.run("return document.querySelector(arguments[0]).innerText", selector)
        return text

    def find(self, selector: str) -> WebElement:
        """The first element that the selector matches."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> Sequence[WebElement]:
        """All elements that the selector matches."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements that the selector matches."""
        texts: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector
        )
        return texts

    def count_visible(self, selector: str) -> int:
        """Number of visible elements that the selector matches, by one script: the page may replace them meanwhile."""
        script = "return [...document.querySelectorAll(arguments[0])].filter((item) => item.checkVisibility()).length"
        count: int = self.run(script, selector)
        return count

    def run(self, script: str, *arguments: Any) -> Any:
        """A script in the page."""
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: Any) -> Any:
        """A script that calls its last argument with the result."""
        return self.driver.execute_async_script(script, *arguments)

    def until(self, is_so: Callable[[], object], *, within_s: float = IN_TIME_S) -> None:
        """Repeat the check until it is true."""
        end = time.monotonic() + within_s
        while True:
            try:
                if is_so():
                    return
            except StaleElementReferenceException:
                pass
            assert time.monotonic() < end, f"it never was so; the page says:\n{self.text()}\n{self.console()}"
            time.sleep(0.1)

    def until_says(self, *words: str, within_s: float = IN_TIME_S) -> None:
        """Wait until the page contains all these texts."""
        self.until(lambda: all(word in self.text() for word in words), within_s=within_s)

    def colours(self, scheme: str) -> None:
        """The system's colours: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def problems(self, *rules: str) -> list[str]:
        """Findings of axe-core of any impact, one line each. `rules`: only these."""
        if not self.run("return Boolean(window.axe)"):
            self.run((resources.files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        result = self.run_async(
            "const [rules, done] = arguments;"
            "const only = rules.length ? {runOnly: rules} : {};"
            "axe.run(document, {resultTypes: ['violations'], ...only}).then((found) => done(found.violations))",
            list(rules),
        )
        return [
            f"{item['impact']}: {item['id']}: {item['help']}: {item['nodes'][0]['html'][:200]}"
            for item in result
        ]

    def problems_in_both_schemes(self) -> list[str]:
        """Findings of axe-core in light and in dark colours. Few of its rules depend on colours."""
        result = []
        for scheme, rules in (("dark", ("color-contrast", "link-in-text-block")), ("light", ())):
            self.colours(scheme)
            result += [f"{scheme}: {problem}" for problem in self.problems(*rules)]
        return result

    def console(self) -> list[str]:
        """Errors in the browser's console since the last call."""
        return [f"{item['level']}: {item['message']}" for item in self.driver.get_log("browser")]

    def hosts(self) -> set[str]:
        """Hosts that got a request from the page."""
        script = "return performance.getEntriesByType('resource').map((one) => one.name)"
        return {
            re.sub(r"^\w+://([^/]+).*", r"\1", item)
            for item in self.run(script)
            if not item.startswith("data:")
        }

    def watch_tasks(self) -> None:
        """Note from now on how long the page is busy at a time."""
        self.run(
            "window.longTasks = [];"
            "new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration)))"
            ".observe({type: 'longtask', buffered: true})"
        )

    def long_tasks_ms(self) -> list[float]:
        """Tasks of more than 50 ms since then."""
        result: list[float] = self.run("return window.longTasks")
        return result

    def picture(self, path: Path, *, height: int = 900, width: int = 1100) -> None:
        """A screenshot of the visible part, of this size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser with its own profile."""
    options = Options()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver") or "chromedriver")
    )
    driver.set_script_timeout(60)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
