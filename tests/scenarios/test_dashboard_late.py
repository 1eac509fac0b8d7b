"""The dashboard beside an API server that answers late: no page says that there is nothing before it has looked."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pykruise.kinds import build_crds
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from support.browser import Browser, browsing
from support.dashboard_browser import LISTS, workload_address
from support.dashboard_process import Hand, serving
from support.late_sandbox import LateSandbox
from support.scenario import cloneset
from support.sources import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox_only,
    pytest.mark.real_time,
    pytest.mark.timeout(200),
]

WORKLOAD = workload_address("default", "shop")
PROGRESS = "\nProgress\n"
"""The heading, with line breaks, so that the chip Progressing does not match."""
NODE = "?page=node&name=node-1"
SEEN = {
    "?page=rollouts": "/shop",
    "?page=pods": "0 pods wait",
    "?page=jobs": "/tune",
    "?page=others": "/keep",
    "?page=health": "Findings of pykruise doctor",
    WORKLOAD: PROGRESS,
    NODE: "kubectl describe node node-1",
}
"""Text of each page when it has been read."""
CLAIMS = (
    "here is no",
    "here are no",
    "here is nothing",
    "waits for nothing",
    "Nothing needs",
    "No pod waits",
    "No pod of",
    "0 pods wait",
    "0 faults",
    "may not",
    "is gone",
)
"""Words with which a page says that something is not there."""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LateSandbox]:
    with LateSandbox(tmp_path / "kubeconfig", nodes=1, manifests=build_crds()) as sandbox:
        hand = Hand(tmp_path / "kubeconfig")
        hand.create(CLONE_SETS, "default", cloneset("shop", replicas=1))
        job = yaml.safe_load((ROOT / "examples" / "broadcastjob.yaml").read_text("utf-8"))
        hand.create(BROADCAST_JOBS, "default", {**job, "metadata": {"name": "tune"}})
        budget = {
            "metadata": {"name": "keep"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {}}},
        }
        kind = {"apiVersion": POD_UNAVAILABLE_BUDGETS.api_version, "kind": POD_UNAVAILABLE_BUDGETS.kind}
        hand.create(POD_UNAVAILABLE_BUDGETS, "default", {**kind, **budget})
        yield sandbox
        sandbox.let_go()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


def claims_of(browser: Browser) -> list[str]:
    """Words about missing things that a page shows while it is still loading; it is read several times."""
    browser.until_says("Loading …")
    claims = []
    for _ in range(8):
        text = browser.text()
        claims += [f"{word}: {text}" for word in CLAIMS if word in text]
        time.sleep(0.1)
    return claims


def test_each_page_shows_loading_until_the_cluster_is_read(browser: Browser, sandbox: LateSandbox) -> None:
    assert set(SEEN) >= set(LISTS)
    sandbox.hold()
    with serving(Path(sandbox.kubeconfig)) as served:
        browser.open(served.link)
        browser.until(lambda: browser.all("header nav a"))
        for page in SEEN:
            browser.open(f"{served.url}{page}")
            assert claims_of(browser) == [], page
        # when the API server answers, the page that is open goes on as it is
        sandbox.let_go()
        browser.until_says(SEEN[NODE])
        for page, words in SEEN.items():
            browser.open(f"{served.url}{page}")
            browser.until_says(words)
            browser.until(lambda: "Loading" not in browser.text())


@pytest.mark.parametrize(
    ("page", "late"), [(WORKLOAD, "/events"), ("?page=health", "/customresourcedefinitions")]
)
def test_a_page_with_a_late_part_shows_loading(
    browser: Browser, sandbox: LateSandbox, page: str, late: str
) -> None:
    sandbox.hold(late)
    with serving(Path(sandbox.kubeconfig)) as served:
        browser.open(served.link)
        browser.until_says("/shop")
        browser.open(f"{served.url}{page}")
        assert claims_of(browser) == []
        assert page != WORKLOAD or PROGRESS in browser.text()  # data from the caches is shown at once
        sandbox.let_go()
        browser.until_says(SEEN[page])
        browser.open(f"{served.url}{workload_address('default', 'no-such')}")
        browser.until_says("There is no CloneSet default/no-such")


def test_events_that_cannot_be_read_are_not_reported_as_a_missing_right(
    browser: Browser, sandbox: LateSandbox
) -> None:
    sandbox.hold("/events")
    with serving(Path(sandbox.kubeconfig)) as served:
        browser.open(served.link)
        browser.until_says("/shop")
        browser.open(f"{served.url}{WORKLOAD}")
        browser.until_says(PROGRESS, "The events could not be read: the API server did not respond in time")
        assert "you may not list them" not in browser.text()
