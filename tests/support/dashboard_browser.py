"""The dashboard in a browser: addresses of its pages, rows, buttons and keys, for all its tests."""

import re

from selenium.webdriver.common.action_chains import ActionChains

from support.browser import Browser
from support.dashboard_process import Served

__all__ = ["LISTS", "ask_about", "page_of", "press", "press_key", "row_of", "workload_address"]

LISTS = ("?page=rollouts", "?page=pods", "?page=jobs", "?page=others", "?page=health")


def workload_address(namespace: str, name: str, *, kind: str = "clonesets.apps.kruise.io") -> str:
    """Query of the page of an object."""
    return f"?page=workload&kind={kind}&namespace={namespace}&name={name}"


def page_of(served: Served, namespace: str, name: str, *, kind: str = "clonesets.apps.kruise.io") -> str:
    """Address of the page of an object."""
    return f"{served.url}{workload_address(namespace, name, kind=kind)}"


def row_of(browser: Browser, name: str) -> str:
    """Text of an object's row; empty if it has none."""
    texts = browser.texts("main .row, main .card")
    return next((text for text in texts if re.search(rf"/{re.escape(name)}(?![\w-])", text)), "")


def press(browser: Browser, title: str) -> None:
    """Press a button of the row of actions, which opens the dialog."""

    def is_pressed() -> bool:
        # `until` looks again when a redraw has replaced the buttons in between
        titles = browser.texts("#actions button")
        place = next((place for place, text in enumerate(titles) if text.startswith(title)), None)
        if place is not None:
            browser.all("#actions button")[place].click()
        return place is not None

    browser.until(is_pressed)
    browser.until(lambda: browser.all("dialog[open]"))


def ask_about(browser: Browser) -> None:
    """Show the effect of the action in the open dialog."""
    browser.find("dialog form button[type=submit]").click()
    browser.until(lambda: browser.all("dialog .answer, dialog .error"))
    assert browser.all("dialog .confirm"), browser.find("dialog").text


def press_key(browser: Browser, key: str) -> None:
    """Send the key to the focused element."""
    ActionChains(browser.driver).send_keys(key).perform()
