"""The dashboard in a browser, beside `pykruise up` or a real control plane: each page live, login, rights, keys.

Colours too, and what a checker of accessibility finds.

The pictures in docs/dashboard.md are made here: PYKRUISE_PICTURES=docs/dashboard (make screenshots), and those of all
other pages, which are only looked at: PYKRUISE_OTHER_PICTURES.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from pykruise.dashboard.objects import ROLLOUTS
from pykruise.fixtures.server import KruiseServer
from pykruise.kinds import build_crds
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import DEPLOYMENTS, EVENTS, NODES, PODS
from pykruise.testing.http import HttpSandbox
from support.browser import Browser, browsing
from support.dashboard_browser import (
    LISTS,
    ask_about,
    page_of,
    press,
    press_key,
    row_of,
    workload_address,
)
from support.dashboard_process import Hand, Served, free_port, serving
from support.rollouts_crd import ROLLOUTS_CRD
from support.scenario import cloneset, rolling
from support.situations.documents import pulljob
from support.sources import ROOT
from support.up import running_real, running_up

pytestmark = [pytest.mark.browser, pytest.mark.real_time, pytest.mark.timeout(300)]

PICTURES = os.environ.get("PYKRUISE_PICTURES", "")
OTHER_PICTURES = os.environ.get("PYKRUISE_OTHER_PICTURES", "")


def image_of(image: str) -> dict[str, Any]:
    """A patch with another image of the container main."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


UNSCHEDULABLE = {"spec": {"template": {"spec": {"nodeSelector": {"there-is": "no-such-node"}}}}}
ANYWHERE = {"spec": {"template": {"spec": {"nodeSelector": {"there-is": None}}}}}


@pytest.fixture(scope="module")
def hand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    """A cluster with a manager at work."""
    if request.config.getoption("--cluster") == "real":
        with running_real(request.getfixturevalue("plane"), nodes=3) as kubectl:
            yield Hand(kubectl.kubeconfig)
    else:
        with running_up(tmp_path_factory.mktemp("up"), "--rbac") as up:
            yield Hand(up.kubeconfig)


@pytest.fixture(scope="module")
def served(hand: Hand) -> Iterator[Served]:
    """A dashboard with buttons, on a laptop."""
    with serving(hand.kubeconfig, "--actions") as served:
        yield served


@pytest.fixture(scope="module")
def inside(served: Served) -> Iterator[Browser]:
    """A browser that opened the link."""
    with browsing() as browser:
        browser.open(served.link)
        browser.until(lambda: browser.all("header nav a"))
        yield browser


@pytest.fixture(scope="module")
def outside() -> Iterator[Browser]:
    """A browser for tests that have a dashboard of their own."""
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    """A cluster without nodes and without a manager: its objects have the status that a test writes."""
    path = tmp_path_factory.mktemp("bare") / "kubeconfig"
    with HttpSandbox(path, nodes=0, manifests=[*build_crds(), ROLLOUTS_CRD]), Hand(path).connected() as hand:
        yield hand


@pytest.fixture(scope="module")
def served_bare(bare: Hand, outside: Browser) -> Iterator[Served]:
    """Start a dashboard in which `outside` is logged in. Its cookie belongs to the path /bare, so it stays when the
    browser logs in to another dashboard."""
    with serving(bare.kubeconfig, "--base-path", "/bare") as served:
        outside.open(served.link)
        outside.until(lambda: outside.all("header nav a"))
        yield served


@pytest.fixture
def of_bare(bare: Hand, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the bare cluster for this test alone. Its CloneSet shop is deleted at the end."""
    namespace = bare.namespace(f"t{abs(hash(request.node.name)) % 10**8}")
    yield namespace
    with suppress(NotFoundError):
        bare.delete(CLONE_SETS, namespace, "shop")


@pytest.fixture
def browser(inside: Browser) -> Iterator[Browser]:
    inside.console()
    yield inside
    assert [text for text in inside.console() if "SEVERE" in text] == []


@pytest.fixture
def namespace(hand: Hand, request: pytest.FixtureRequest) -> str:
    """A namespace for this test alone."""
    return hand.namespace(f"t{abs(hash(request.node.name)) % 10**8}")


def node_page(hand: Hand) -> str:
    """Address of the page of a node that the cluster has."""
    return f"?page=node&name={node_of(hand)}"


def node_of(hand: Hand) -> str:
    """A node that the cluster has."""
    names = sorted(
        decode(raw)["metadata"]["name"] for raw in hand.do(lambda client: client.list(NODES)).items
    )
    return str(names[0])


# ── each page, live ──────────────────────────────────────────────────────────


def test_a_rollout_is_updated_live_without_reloading_the_page(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    browser.open(f"{served.url}?namespace={namespace}")
    browser.run("window.isSame = true")
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    browser.until(lambda: "4 of 4 updated, 4 ready" in row_of(browser, "shop"))
    hand.patch(CLONE_SETS, namespace, "shop", UNSCHEDULABLE)
    browser.until(
        lambda: "Unschedulable" in row_of(browser, "shop") and "Degraded" in row_of(browser, "shop")
    )
    browser.until(lambda: "1 needs action" in browser.text())
    hand.patch(CLONE_SETS, namespace, "shop", ANYWHERE)
    browser.until(
        lambda: "Healthy" in row_of(browser, "shop") and "4 of 4 updated, 4 ready" in row_of(browser, "shop")
    )
    hand.delete(CLONE_SETS, namespace, "shop")
    browser.until(lambda: not row_of(browser, "shop"))
    assert browser.run("return window.isSame")


def test_a_deployment_shows_the_image_that_its_pods_still_have(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    spec = cloneset("shop", replicas=2)["spec"]
    web = {key: spec[key] for key in ("replicas", "selector", "template")}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": web}
    hand.create(DEPLOYMENTS, namespace, document)
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: "2 of 2 updated, 2 ready" in row_of(browser, "shop"))
    container = spec["template"]["spec"]["containers"][0]
    pods = {**UNSCHEDULABLE["spec"]["template"]["spec"], "containers": [{**container, "image": "nginx:2"}]}
    hand.patch(DEPLOYMENTS, namespace, "shop", {"spec": {"template": {"spec": pods}}})
    browser.until(lambda: "nginx:1 → nginx:2" in row_of(browser, "shop"))
    hand.patch(DEPLOYMENTS, namespace, "shop", ANYWHERE)
    browser.until(lambda: "2 of 2 updated, 2 ready" in row_of(browser, "shop"))
    browser.until(lambda: "nginx:1" not in row_of(browser, "shop"))


def test_the_page_of_a_workload_shows_its_waiting_reason_and_remedy(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=3, updateStrategy=rolling(maxUnavailable=1)))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("3 of 3 updated, 3 ready", "Revision 1", "created pod")
    hand.patch(CLONE_SETS, namespace, "shop", UNSCHEDULABLE)
    browser.until_says("Waiting for", "Unschedulable", "Revision 2", "nodeSelector", "Roll back", "Degraded")
    assert "rollout undo clonesets.apps.kruise.io/shop --to-revision=1" in browser.text_of("#why .command")
    browser.until(lambda: browser.all(".square.s-failing"))
    square = next(iter(browser.all(".square.s-failing")))
    browser.run("arguments[0].focus()", square)
    browser.until(lambda: "cannot be scheduled" in browser.text_of(".detail"))
    browser.find("#pods summary").click()
    browser.until_says("kubectl logs shop-", "kubectl exec -it shop-")
    hand.patch(CLONE_SETS, namespace, "shop", ANYWHERE)
    browser.until_says("3 of 3 updated, 3 ready")
    browser.until(lambda: "Unschedulable" not in browser.text_of("#pods"))


def test_pods_that_wait_are_grouped_by_what_they_wait_for(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    waiting = cloneset("stuck", replicas=2)
    waiting["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, waiting)
    browser.open(f"{served.url}?page=pods&namespace={namespace}")
    browser.until_says("2 pods wait, for 1 cause", "Unschedulable", "stuck")
    hand.patch(CLONE_SETS, namespace, "stuck", ANYWHERE)
    browser.until_says("0 pods wait")


def test_a_job_is_shown_until_it_is_done(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    browser.open(f"{served.url}?page=jobs&namespace={namespace}")
    job = yaml.safe_load((ROOT / "examples" / "broadcastjob.yaml").read_text("utf-8"))
    job["metadata"] = {"name": "tune"}
    hand.create(BROADCAST_JOBS, namespace, job)
    browser.until(lambda: "/tune" in browser.text())
    browser.until(lambda: "Completed" in row_of(browser, "tune"))
    hand.delete(BROADCAST_JOBS, namespace, "tune")
    browser.until(lambda: not row_of(browser, "tune"))


def test_an_object_without_a_rollout_is_listed_and_its_link_explains_it(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    browser.open(f"{served.url}?page=others&namespace={namespace}")
    budget = {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": "keep"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    hand.create(POD_UNAVAILABLE_BUDGETS, namespace, budget)
    browser.until(lambda: row_of(browser, "keep"))
    assert browser.problems_in_both_schemes() == []
    next(link for link in browser.all("a.main-link") if link.text.endswith("/keep")).click()
    browser.until_says(f"PodUnavailableBudget {namespace}/keep")
    browser.driver.back()
    hand.delete(POD_UNAVAILABLE_BUDGETS, namespace, "keep")
    browser.until(lambda: not row_of(browser, "keep"))


@pytest.mark.sandbox_only  # nodes of a real control plane have no NodeImages for some minutes
def test_a_node_shows_its_pods_its_images_and_whether_its_agent_answers(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("1 of 1 updated, 1 ready")
    browser.until(lambda: browser.all('#pods a[href*="page=node"]'))
    browser.find('#pods a[href*="page=node"]').click()
    browser.until(lambda: f"{namespace}/shop-" in browser.text())
    node = browser.text_of("h1").rpartition(" ")[2]
    browser.until_says("Ready", f"kubectl describe node {node}", "CloneSet shop", "Images: ")
    pull = yaml.safe_load((ROOT / "examples" / "imagepulljob.yaml").read_text("utf-8"))
    pull["metadata"] = {"name": "ahead"}
    pull["spec"]["image"] = f"registry.example.com/{namespace}:1"
    pull["spec"].pop("selector", None)
    hand.create(IMAGE_PULL_JOBS, namespace, pull)
    browser.until_says(f"registry.example.com/{namespace}:1")
    browser.until(lambda: "The agent" in browser.text_of("main .columns"))
    hand.delete(IMAGE_PULL_JOBS, namespace, "ahead")
    browser.open(f"{served.url}?page=node&name=there-is-none")
    browser.until_says("There is no node there-is-none")
    browser.open(f"{served.url}?page=jobs&kind=NodeImage&q=%22{node}%22")
    browser.until(lambda: browser.all(f'.row a[href="?page=node&name={node}"]'))


def test_health_is_what_doctor_finds(browser: Browser, served: Served) -> None:
    browser.open(f"{served.url}?page=health")
    browser.until_says("Findings of pykruise doctor", "crds", "pykruise doctor")


# ── what if, and doing it ────────────────────────────────────────────────────


def test_the_what_if_form_shows_the_plan_and_a_chart_and_changes_nothing(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("4 of 4 updated, 4 ready")
    browser.find("#what-if input[name='image=main']").send_keys("nginx:2")
    browser.find("#what-if button[type=submit]").click()
    browser.until_says("would change", "nginx:1 → nginx:2", "In the end: 4 → 4 pods")
    chart = browser.find("#what-if img")
    browser.until(lambda: browser.run("return arguments[0].naturalWidth", chart) > 100)
    assert "new" in (chart.get_attribute("alt") or "")
    before = hand.get(CLONE_SETS, namespace, "shop")
    assert before["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"
    # what was typed and answered stays while the page is live
    hand.patch(CLONE_SETS, namespace, "shop", {"spec": {"replicas": 5}})
    browser.until_says("5 of 5 updated, 5 ready")
    assert "would change" in browser.text_of("#what-if")
    assert browser.find("#what-if input[name='image=main']").get_attribute("value") == "nginx:2"


def look_and_do(browser: Browser) -> str:
    """Confirm the question; returns its text about the change and its effects."""
    ask_about(browser)
    said = str(browser.text_of("dialog .answer"))
    browser.find("dialog .confirm button[type=submit]").click()
    browser.until(lambda: not browser.all("dialog .confirm"))
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
    return said


def test_a_rollback_needs_confirmation_and_offers_the_serving_revision(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=3, updateStrategy=rolling(maxUnavailable=1)))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("3 of 3 updated, 3 ready")
    for value in ("no-such-node", "nor-this-one"):  # two bad revisions: the one before is bad too
        bad = {"spec": {"template": {"spec": {"nodeSelector": {"there-is": value}}}}}
        hand.patch(CLONE_SETS, namespace, "shop", bad)
        number = 2 if value == "no-such-node" else 3
        browser.until_says(f"Revision {number}", "Unschedulable")
    before = hand.get(CLONE_SETS, namespace, "shop")["metadata"]["generation"]
    press(browser, "Roll back")
    assert Select(browser.find("dialog select")).first_selected_option.text == "1: recommended"
    assert hand.get(CLONE_SETS, namespace, "shop")["metadata"]["generation"] == before
    said = look_and_do(browser)
    assert "spec.template.spec.nodeSelector" in said
    assert "What would happen (3 pods)" in said
    browser.until_says("3 of 3 updated, 3 ready", "Healthy")


ACTIONS = [
    ("Pause", "", "spec.updateStrategy.rollingUpdate.paused"),
    ("Restart", "", "RESTARTED_AT"),
    ("Scale", "2", "spec.replicas: 1 → 2"),
    ("Set partition", "1", "spec.updateStrategy.rollingUpdate.partition"),
    ("Set maxUnavailable", "2", "spec.updateStrategy.rollingUpdate.maxUnavailable"),
    ("Set maxSurge", "1", "spec.updateStrategy.rollingUpdate.maxSurge"),
    ("Set image of main", "nginx:2", "nginx:1 → nginx:2"),
]
"""Button, typed value, and a part of what it would change."""


def test_each_action_shows_its_change_for_confirmation_before_it_writes(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("1 of 1 updated, 1 ready")
    for title, value, change in ACTIONS:
        before = hand.get(CLONE_SETS, namespace, "shop")["metadata"]["generation"]
        press(browser, title)
        if value:
            field = browser.find("dialog input")
            field.clear()
            field.send_keys(value)
        ask_about(browser)
        assert change in browser.text_of("dialog .diff"), title
        assert hand.get(CLONE_SETS, namespace, "shop")["metadata"]["generation"] == before, title
        browser.find("dialog .confirm button[type=submit]").click()
        browser.until(
            lambda now=before: hand.get(CLONE_SETS, namespace, "shop")["metadata"]["generation"] > now
        )
        browser.until(lambda: not browser.all("dialog .confirm"))
        press_key(browser, Keys.ESCAPE)
        browser.until(lambda: not browser.all("dialog"))


def test_the_name_is_typed_before_many_pods_are_changed(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=11))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("11 of 11 updated, 11 ready")
    press(browser, "Pause")
    ask_about(browser)
    button = browser.find("dialog .confirm button[type=submit]")
    assert not button.is_enabled()
    browser.find("dialog [name=typed]").send_keys("shop")
    browser.until(button.is_enabled)
    button.click()
    browser.until_says("Resume")
    assert (
        hand.get(CLONE_SETS, namespace, "shop")["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
    )


# ── widths ───────────────────────────────────────────────────────────────────

WIDTHS = (390, 768, 1280, 1920)
OVERLAPS = """
const bad = [];
const isShown = (node) => node.offsetParent && !node.closest('svg, .unseen, header') && node.checkVisibility();
for (const node of [...document.querySelectorAll('main *')].filter(isShown)) {
  const box = node.getBoundingClientRect();
  const name = `${node.tagName}.${node.className}`;
  if (box.right > innerWidth + 1) bad.push(`over the edge: ${name}`);
  const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data.trim()).join('');
  if (text.length > 3 && box.width && box.width < 16) bad.push(`no width: ${name}: ${text}`);
  for (const child of node.closest('pre, select, option') ? [] : node.childNodes) {
    if (child.nodeType !== 3) continue;
    for (const { index, 0: word } of child.data.matchAll(/[A-Za-z]{3,}/g)) {
      const range = new Range();
      range.setStart(child, index);
      range.setEnd(child, index + word.length);
      if (range.getClientRects().length > 1) bad.push(`broken: ${word} in ${name}`);
    }
  }
  const hides = getComputedStyle(node).overflowX === 'hidden';
  if (hides && node.clientWidth && node.scrollWidth > node.clientWidth + 2) bad.push(`cut: ${name}: ${text}`);
}
return bad;
"""


@pytest.mark.sandbox_only  # the pages are the same; on a shared control plane its objects wait beside other tests
def test_nothing_is_cut_or_squeezed_at_any_width(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    name = "a-service-with-a-name-that-is-as-long-as-names-of-teams-become"
    stuck = cloneset(
        name, replicas=2, image=f"registry.example.com/team/of/many/people/{name}:2026.11.28-rc1"
    )
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, cloneset("held", replicas=2, updateStrategy=rolling(partition=1)))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: "2 of 2 updated" in row_of(browser, "held"))
    hand.patch(CLONE_SETS, namespace, "held", image_of("nginx:2"))
    browser.until(lambda: "1 kept by the partition" in row_of(browser, "held"))
    hand.create(CLONE_SETS, namespace, stuck)  # later: beside it, settled rows are folded
    browser.until(lambda: "Degraded" in row_of(browser, name))
    try:
        for page in (
            f"?namespace={namespace}",
            *LISTS,
            node_page(hand),
            workload_address(namespace, name),
            workload_address(namespace, "held"),
        ):
            browser.go(page)
            browser.until(lambda: "Loading" not in browser.text())
            browser.until(lambda: browser.all("main h2, main .panel, main .strip, main .filters + p"))
            for width in WIDTHS:
                metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
                browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                browser.run_async(NEXT_FRAME)  # a phone folds controls away when it is drawn again
                assert browser.run(OVERLAPS) == [], f"{page} at {width}"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


NEXT_FRAME = (
    "const done = arguments[arguments.length - 1];"
    "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))"
)


# ── rows kept up to date change by change ────────────────────────────────────

TABLE = """
const done = arguments[arguments.length - 1];
const names = performance.getEntriesByType('resource').map((entry) => entry.name);
const url = names.find((name) => /\\/table\\./.test(name));
import(url).then(({ Table }) => {
  let seed = 7;
  const random = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  const pick = (...values) => values[random(values.length)];
  const view = {
    key: '', of: (id) => id.replace('why/', ''), join: (rows, id) => ({ ...rows.get(id), why: rows.get(`why/${id}`) }),
    test: (row) => row.kind !== 'B', isListed: (row) => row.phase !== 'Paused',
    order: (a, b) => a.since - b.since,
  };
  const rowOf = (id) => ({
    id, name: id, namespace: pick('x', 'y', ''), kind: pick('A', 'B', 'C'), phase: pick('Paused', 'Healthy', 'Failed'),
    since: random(5), needs_action: !random(3), owner: pick('', '3', '4'), owner_kind: 'A', code: pick('', 'P'),
    ...(random(2) ? {} : { asked_by: [String(random(30))] }),
  });
  const seen = (table) => JSON.stringify([
    table.listed, [...table.counts].sort(), [...table.spaces].map(([key, tally]) => [key, [...tally].sort()]).sort(),
    Object.values(table.present).map((tally) => tally.names()), [...table.owners].sort(), [...table.byName].sort(),
    table.all.size, table.kept, [...table.needing.keys()].sort(), [...table.folded(() => true)].sort(),
  ]);
  const source = new Map();
  let folds = 0;
  const table = new Table(source, view);
  for (let turn = 0; turn < 500; turn += 1) {
    const news = new Set();
    for (let place = random(8); place >= 0; place -= 1) {
      const id = String(random(30));
      const key = pick(id, id, `why/${id}`);
      if (random(3)) source.set(key, key === id ? rowOf(id) : { turn, codes: ['P'], part_codes: ['P'] });
      else source.delete(key);
      news.add(key);
    }
    table.take(news);
    folds += table.folded(() => true).size;
    if (seen(table) !== seen(new Table(source, view))) return done(`differs at turn ${turn}`);
  }
  done(`same, ${table.listed.length > 0}, ${folds > 50}`);
}).catch((error) => done(String(error)));
"""


def test_incrementally_updated_rows_equal_freshly_read_rows(browser: Browser, served: Served) -> None:
    browser.open(served.url)
    browser.until(lambda: browser.all("header nav a"))
    assert browser.driver.execute_async_script(TABLE) == "same, true, true"


STEPS = """
const done = arguments[arguments.length - 1];
const names = performance.getEntriesByType('resource').map((entry) => entry.name);
import(names.find((name) => /\\/dom\\./.test(name))).then(({ h, lazy, patch }) => {
  const place = document.createElement('div');
  const items = (texts) => texts.map((text, key) => lazy(key, text, () => h('li', null, text)));
  const draw = (texts, most) => {
    const isWhole = patch(place, [h('ul', null, items(texts))], most);
    return [[...place.querySelectorAll('li')].map((item) => item.innerText).join(''), isWhole];
  };
  const [old, now] = [[...'abcde'], [...'ABCDEFG']];
  done([draw(old, 3), draw(old, 3), draw(now, 3), draw(now, 3), draw(now, 3), draw(now, 3)].map(String));
}).catch((error) => done(String(error)));
"""


def test_many_changes_are_drawn_in_turns(browser: Browser, served: Served) -> None:
    """Each turn draws some of the rows, new ones first; other rows stay as they are, or are not drawn yet."""
    browser.open(served.url)
    browser.until(lambda: browser.all("header nav a"))
    turns = ["abc,false", "abcde,true", "AbcdeFG,false", "ABCDeFG,false", "ABCDEFG,true", "ABCDEFG,true"]
    assert browser.run_async(STEPS) == turns


# ── users ────────────────────────────────────────────────────────────────────


def test_a_user_of_one_namespace_logs_in_and_sees_only_that_namespace(
    outside: Browser, hand: Hand, namespace: str
) -> None:
    browser = outside
    other = hand.namespace(f"{namespace}-other")
    for place in (namespace, other):
        hand.create(CLONE_SETS, place, cloneset(f"in-{place}", replicas=1))
    token = hand.token(namespace, "reader", "*")
    with serving(hand.kubeconfig, "--shared") as served:
        browser.open(f"{served.url}?page=rollouts")
        browser.until_says("Log in")
        browser.find("input[name=token]").send_keys("nonsense" + Keys.ENTER)
        browser.until_says("rejects this token")
        assert browser.problems_in_both_schemes() == []
        browser.find("input[name=token]").send_keys(token + Keys.ENTER)
        browser.until(lambda: f"/in-{namespace}" in browser.text())
        hand.patch(CLONE_SETS, other, f"in-{other}", {"spec": {"replicas": 2}})
        hand.patch(CLONE_SETS, namespace, f"in-{namespace}", {"spec": {"replicas": 2}})
        browser.until(lambda: "2 of 2 updated, 2 ready" in row_of(browser, f"in-{namespace}"))
        assert other not in browser.driver.page_source
        browser.open(page_of(served, other, f"in-{other}"))
        browser.until_says("There is no object with this name that you may see")
        browser.open(f"{served.url}?page=health")
        browser.until(lambda: browser.all("main h2, main .panel, main .strip, main .filters + p"))
        next(
            web_element for web_element in browser.all("header button") if web_element.text == "Log out"
        ).click()
        browser.until_says("You are logged out")


def test_the_page_continues_where_it_was_after_a_restart_of_the_server(
    outside: Browser, hand: Hand, namespace: str
) -> None:
    browser = outside
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    port = str(free_port())
    with serving(hand.kubeconfig, "--port", port) as first:
        browser.open(first.link)
        browser.until(lambda: browser.all("header nav a"))
        browser.go(f"?namespace={namespace}&q=shop")
        browser.until(lambda: row_of(browser, "shop"))
    browser.until_says("The connection is lost")
    assert row_of(browser, "shop")  # what was known stays
    with serving(hand.kubeconfig, "--port", port):
        hand.patch(CLONE_SETS, namespace, "shop", {"spec": {"replicas": 3}})
        browser.until(lambda: "3 of 3 updated, 3 ready" in row_of(browser, "shop"))
        assert f"namespace={namespace}" in browser.driver.current_url


# ── how one gets around ──────────────────────────────────────────────────────


def test_all_state_is_in_the_address(browser: Browser, served: Served, hand: Hand, namespace: str) -> None:
    for name in ("one", "two"):
        hand.create(CLONE_SETS, namespace, cloneset(name, replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: row_of(browser, "one") and row_of(browser, "two"))
    browser.find("#find").send_keys("!two")
    browser.until(lambda: row_of(browser, "one") and not row_of(browser, "two"))
    assert "q=%21two" in browser.driver.current_url
    choose(browser, "Sort by", "kind")
    choose(browser, "Group by", "namespace")
    assert "sort=kind" in browser.driver.current_url
    browser.until(lambda: namespace in browser.texts("main h2")[0])
    browser.driver.refresh()
    browser.until(lambda: row_of(browser, "one") and not row_of(browser, "two"))
    assert namespace in browser.texts("main h2")[0]
    browser.driver.back()
    browser.until(lambda: namespace not in browser.texts("main h2")[0])


def choose(browser: Browser, label: str, value: str) -> None:
    """Choose a value of a filter."""

    def is_chosen() -> bool:
        # `until` looks again when a redraw has replaced the filters in between
        field = next(item for item in browser.all("main label") if item.text.startswith(label))
        Select(field.find_element(By.TAG_NAME, "select")).select_by_value(value)
        return True

    browser.until(is_chosen)


def click(browser: Browser, selector: str, text: str) -> None:
    """Click the button with that text."""

    def is_clicked() -> bool:
        button = next((item for item in browser.all(selector) if item.text == text), None)
        if button is not None:
            button.click()
        return button is not None

    browser.until(is_clicked)


def test_a_filter_is_saved_by_name_and_opened_again(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    browser.open(f"{served.url}?namespace={namespace}&verdict=Healthy")
    browser.until(lambda: row_of(browser, "shop"))
    click(browser, "main button", "Save filter")
    prompt = browser.driver.switch_to.alert
    prompt.send_keys("mine")
    prompt.accept()
    browser.open(served.url)
    browser.until(lambda: any("Saved filters" in text for text in browser.texts("main label")))
    choose(browser, "Saved filters", "mine")
    browser.until(lambda: f"namespace={namespace}" in browser.driver.current_url)
    assert "verdict=Healthy" in browser.driver.current_url
    click(browser, "main button", "Forget filter")
    browser.until(lambda: not any("Saved filters" in text for text in browser.texts("main label")))


def test_the_dashboard_is_usable_by_keyboard_and_the_focus_stays_while_rows_move(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    for name in ("first", "second"):
        hand.create(CLONE_SETS, namespace, cloneset(name, replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    # rows keep their places once both are settled
    browser.until(lambda: all("Healthy" in row_of(browser, name) for name in ("first", "second")))
    body = browser.find("body")
    body.send_keys("/")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "find"
    browser.run("document.activeElement.blur()")
    press_key(browser, "j")
    assert browser.driver.switch_to.active_element.text.endswith("/first")
    press_key(browser, "j")
    assert browser.driver.switch_to.active_element.text.endswith("/second")
    press_key(browser, "k")
    assert browser.driver.switch_to.active_element.text.endswith("/first")
    press_key(browser, "?")
    browser.until(lambda: "go to the next or the previous object" in browser.text_of("dialog"))
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
    link = next(item for item in browser.all("a.main-link") if item.text.endswith("/second"))
    browser.run("arguments[0].focus()", link)
    hand.patch(CLONE_SETS, namespace, "second", UNSCHEDULABLE)
    browser.until(
        lambda: (
            "second" in browser.texts("main .card, main .row")[0] and "Degraded" in row_of(browser, "second")
        )
    )
    browser.until(lambda: browser.driver.switch_to.active_element.text.endswith("/second"))
    press_key(browser, Keys.ENTER)
    browser.until_says(f"CloneSet {namespace}/second")
    assert browser.driver.switch_to.active_element.tag_name == "main"


def test_colours_follow_the_system_until_a_button_overrides_them(browser: Browser, served: Served) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open(served.url)
    browser.until(lambda: browser.all("header button"))
    browser.colours("dark")
    dark = browser.run(ground)
    browser.colours("light")
    assert browser.run(ground) == "rgb(255, 255, 255)" != dark
    for expected in ("light", "dark"):
        next(
            web_element
            for web_element in browser.all("header button")
            if web_element.text.startswith("Colours")
        ).click()
        browser.until(lambda said=expected: f"Colours: {said}" in browser.texts("header button"))
    assert browser.run(ground) == dark
    browser.driver.refresh()
    browser.until(lambda: "Colours: dark" in browser.texts("header button"))
    assert browser.run(ground) == dark
    next(
        web_element for web_element in browser.all("header button") if web_element.text.startswith("Colours")
    ).click()
    browser.until(lambda: "Colours: system" in browser.texts("header button"))


HIDE = (
    "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    "document.dispatchEvent(new Event('visibilitychange'))"
)


def test_a_hidden_tab_receives_nothing_and_is_complete_when_it_is_shown(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: "1 of 1 updated, 1 ready" in row_of(browser, "shop"))
    browser.run(HIDE, True)
    hand.patch(CLONE_SETS, namespace, "shop", {"spec": {"replicas": 3}})
    browser.until(lambda: hand.get(CLONE_SETS, namespace, "shop")["status"]["readyReplicas"] == 3)
    assert "1 of 1 updated, 1 ready" in row_of(browser, "shop")
    browser.run(HIDE, False)
    browser.until(lambda: "3 of 3 updated, 3 ready" in row_of(browser, "shop"))


def test_an_accessibility_checker_finds_nothing(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    stuck = cloneset("stuck", replicas=2)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, stuck)
    hand.create(CLONE_SETS, namespace, cloneset("healthy", replicas=1))
    result = []
    browser.open(f"{served.url}{LISTS[0]}")
    for page in (*LISTS, node_page(hand), workload_address(namespace, "stuck")):
        browser.go(page)
        browser.until(lambda: "Loading" not in browser.text())
        browser.until(lambda: browser.all("main h2, main .panel, main .strip, main .filters + p"))
        result += [f"{page}: {problem}" for problem in browser.problems_in_both_schemes()]
    press(browser, "Pause")
    result += [f"the question: {problem}" for problem in browser.problems_in_both_schemes()]
    ask_about(browser)
    result += [f"the answer: {problem}" for problem in browser.problems_in_both_schemes()]
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
    press_key(browser, "?")
    browser.until(lambda: browser.all("dialog"))
    result += [f"the keys: {problem}" for problem in browser.problems_in_both_schemes()]
    press_key(browser, Keys.ESCAPE)
    assert result == []


def test_the_page_loads_nothing_from_another_host(browser: Browser, served: Served) -> None:
    browser.open(f"{served.url}?page=rollouts")
    browser.until(lambda: browser.all("header nav a"))
    assert {f"http://{host}/" for host in browser.hosts()} == {served.url}


def test_the_title_and_the_icon_show_whether_an_action_is_needed(
    outside: Browser, served_bare: Served, bare: Hand, of_bare: str
) -> None:
    bare.create(CLONE_SETS, of_bare, cloneset("shop"))
    outside.open(served_bare.url)
    outside.until(lambda: row_of(outside, "shop"))
    icon = "return document.getElementById('icon').href"
    outside.until(lambda: outside.driver.title.startswith("Rollouts"))
    assert "icon-alert" not in outside.run(icon)
    bare.patch(CLONE_SETS, of_bare, "shop", {"status": STALLED}, subresource="status")
    outside.until(lambda: outside.driver.title.startswith("(1) Rollouts"))
    assert "icon-alert" in outside.run(icon)
    bare.delete(CLONE_SETS, of_bare, "shop")
    outside.until(lambda: outside.driver.title.startswith("Rollouts"))
    assert "icon-alert" not in outside.run(icon)


STALLED = {
    "replicas": 3,
    "observedGeneration": 1,
    **dict.fromkeys(("updatedReplicas", "readyReplicas", "availableReplicas", "updatedReadyReplicas"), 0),
    "conditions": [
        {"type": "Waiting", "status": "True", "reason": "ImagePull", "message": "it cannot be pulled"}
    ],
}


def test_the_steps_of_a_canary_are_shown_beside_its_workload(
    outside: Browser, served_bare: Served, bare: Hand, of_bare: str
) -> None:
    ref = {"apiVersion": CLONE_SETS.api_version, "kind": "CloneSet", "name": "shop"}
    steps = [{"replicas": "10%", "traffic": "5%", "pause": {}}, {"replicas": "100%"}]
    canary = {
        "apiVersion": ROLLOUTS.api_version,
        "kind": ROLLOUTS.kind,
        "metadata": {"name": "careful"},
        "spec": {"workloadRef": ref, "strategy": {"canary": {"steps": steps}}},
        "status": {
            "phase": "Progressing",
            "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused"},
        },
    }
    bare.create(CLONE_SETS, of_bare, cloneset("shop", replicas=1))
    bare.create(ROLLOUTS, of_bare, canary)
    bare.patch(ROLLOUTS, of_bare, "careful", {"status": canary["status"]}, subresource="status")
    outside.open(page_of(served_bare, of_bare, "shop"))
    outside.until(lambda: outside.all(".steps [aria-current=step]"))
    here = outside.text_of(".steps [aria-current=step]")
    assert "10% of pods, 5% of requests, then a person approves: StepPaused" in here
    assert outside.problems() == []
    outside.find('#steps-of-rollout a[href*="careful"]').click()
    outside.until_says(
        f"Rollout {of_bare}/careful", "Steps of the canary", "A rollback of this workload ends the canary"
    )
    outside.find("#steps-of-rollout a.main-link").click()
    outside.until_says(f"CloneSet {of_bare}/shop")


COPIED = (
    "window.copied = '';"
    "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); };"
)


def test_a_page_is_copied_as_text(browser: Browser, served: Served, hand: Hand, namespace: str) -> None:
    stuck = cloneset("stuck", replicas=2)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, stuck)
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(
        lambda: "Degraded" in row_of(browser, "stuck") and "Unschedulable" in row_of(browser, "stuck")
    )
    browser.run(COPIED)
    copy = "return [...document.querySelectorAll('main .tools button')][0]"
    browser.run(f"{copy.removeprefix('return ')}.click()")
    browser.until(lambda: browser.run("return window.copied"))
    said = browser.run("return window.copied")
    assert said.startswith("Rollouts, ")
    assert f"▲ Degraded CloneSet {namespace}/stuck: Unschedulable: " in said
    assert browser.run(copy).text == "Copied"
    browser.open(page_of(served, namespace, "stuck"))
    browser.until(lambda: browser.all("main .tools button"))
    browser.run(COPIED)
    browser.find("main .tools button").click()
    browser.until(lambda: "Unschedulable" in browser.run("return window.copied"))


def test_a_wall_shows_what_needs_action_and_nothing_to_press(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    stuck = cloneset("stuck", replicas=2)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, stuck)
    hand.create(CLONE_SETS, namespace, cloneset("healthy", replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: "Degraded" in row_of(browser, "stuck") and browser.all("main .settled"))
    press_key(browser, "w")
    browser.until(lambda: "wall=1" in browser.driver.current_url)
    browser.until(lambda: not browser.find("header").is_displayed())
    assert browser.count_visible("main .card")
    assert not browser.count_visible("main button, main input, main .settled")
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: browser.find("header").is_displayed())


def test_the_last_lines_of_a_crashed_container_are_shown(
    outside: Browser, served_bare: Served, bare: Hand, of_bare: str
) -> None:
    bare.create(CLONE_SETS, of_bare, cloneset("shop", replicas=1))
    uid = bare.get(CLONE_SETS, of_bare, "shop")["metadata"]["uid"]
    owner = {
        "apiVersion": CLONE_SETS.api_version,
        "kind": CLONE_SETS.kind,
        "name": "shop",
        "uid": uid,
        "controller": True,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shop-x", "labels": {"app": "shop"}, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    bare.create(PODS, of_bare, pod)
    ended = {"exitCode": 7, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    container = {
        "name": "main",
        "image": "nginx:1",
        "imageID": "",
        "ready": False,
        "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {**ended, "message": "panic: no such table\nexit"}},
    }
    status = {"phase": "Running", "containerStatuses": [container]}
    bare.patch(PODS, of_bare, "shop-x", {"status": status}, subresource="status")
    outside.open(page_of(served_bare, of_bare, "shop"))
    outside.until_says("Container main ended: exit code 7, Error", "panic: no such table")
    outside.find("#pods summary").click()
    outside.until_says(f"kubectl logs shop-x -n {of_bare} -c main --previous")


# ── many pods ────────────────────────────────────────────────────────────────


def wait_for_counts(hand: Hand, name: str, *, within_s: float = 120.0, **counts: int) -> None:
    """Wait until the status of a CloneSet has these counts."""
    end = time.monotonic() + within_s
    while True:
        status = hand.get(CLONE_SETS, "default", name).get("status") or {}
        if all(status.get(field) == count for field, count in counts.items()):
            return
        assert time.monotonic() < end, status
        time.sleep(0.5)


@pytest.mark.sandbox_only
def test_a_thousand_pods_are_squares_of_one_element_with_their_states(
    outside: Browser, tmp_path: Path
) -> None:
    """A rollout of the manager, up to its partition; one node of twenty cannot pull the new image."""
    bad_node = {"image": "nginx:2", "node": "node-13", "image_pull_error": True}
    path = tmp_path / "kubeconfig"
    browser = outside
    with KruiseServer(path, nodes=20, failures=[bad_node]):
        hand = Hand(path)
        strategy = rolling(maxUnavailable=100, partition=600)
        hand.create(CLONE_SETS, "default", cloneset("shop", replicas=1000, updateStrategy=strategy))
        wait_for_counts(hand, "shop", readyReplicas=1000)
        hand.patch(CLONE_SETS, "default", "shop", image_of("nginx:2"))
        wait_for_counts(hand, "shop", replicas=1000, updatedReplicas=400)
        with serving(hand.kubeconfig) as served:
            browser.open(served.link)
            browser.until(lambda: row_of(browser, "shop"))
            browser.open(page_of(served, "default", "shop"))
            browser.until(lambda: browser.run("return document.querySelectorAll('.square').length") == 1000)
            browser.until(lambda: browser.all(".square.s-failing") and not browser.all(".square.s-starting"))
            browser.until_says("Waiting for", "ImagePull", "new: 400 pods", "old: 600 pods")
            browser.until(lambda: browser.texts("#why .cause b").count("ImagePull:") == 1)
            inner = "return document.querySelectorAll('.square *').length"
            assert browser.run(inner) == 0  # an element for each pod, and none in it
            first, second = browser.run(
                "return [...document.querySelectorAll('.square')].slice(0, 2).map((one) => one.dataset.pod)"
            )
            browser.run("document.querySelector('.square').focus()")
            assert f"{first}: " in browser.text_of(".detail")
            press_key(browser, Keys.ARROW_RIGHT)
            assert f"{second}: " in browser.text_of(".detail")
            assert browser.run("return document.querySelectorAll('#pods li').length") == 50
            if PICTURES:
                browser.run("document.activeElement.blur()")
                for width, height in ((1280, 900), (390, 1600)):
                    browser.picture(Path(PICTURES) / f"squares-{width}.png", width=width, height=height)


# ── hostile contents ─────────────────────────────────────────────────────────


def test_texts_of_objects_are_never_interpreted_as_markup(outside: Browser, bare: Hand, of_bare: str) -> None:
    markup = '<img src=x onerror="window.isBroken=1"><script>window.isBroken=1</script>'
    hidden = "a\u202egnp.exe\u0000\u001b[31m\u200bz"
    document = cloneset("shop", image=f"{markup}:1")
    document["metadata"]["annotations"] = {"kubernetes.io/change-cause": markup}
    bare.create(CLONE_SETS, of_bare, document)
    conditions = [
        {"type": "Waiting", "status": "True", "reason": "ImagePull", "message": f"{markup} {hidden}"},
        {"type": "Failed", "status": "True", "reason": markup, "message": "x" * 1_000_000},
    ]
    counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas")
    status = {"conditions": conditions, **dict.fromkeys(counts, 0)}
    bare.patch(CLONE_SETS, of_bare, "shop", {"status": status}, subresource="status")
    uid = bare.get(CLONE_SETS, of_bare, "shop")["metadata"]["uid"]
    event: dict[str, Any] = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "CloneSet", "name": "shop", "namespace": of_bare, "uid": uid},
        "reason": "Odd",
        "message": f"{markup} {hidden}"[:1000],
        "type": "Warning",
    }
    bare.create(EVENTS, of_bare, event)
    with serving(bare.kubeconfig, "--base-path", "/tools/kruise") as served:
        assert served.url.endswith("/tools/kruise/")
        outside.open(served.link)
        outside.console()  # the previous page may have lost its server
        outside.until(lambda: row_of(outside, "shop"))
        outside.open(page_of(served, of_bare, "shop"))
        outside.until_says("<script>", "⟨U+0000⟩", "⟨U+202E⟩", "Odd")
        outside.until(lambda: outside.all("#what-if"))
        assert outside.run("return window.isBroken") is None
        assert outside.all("main script, main img") == []
        assert [text for text in outside.console() if "SEVERE" in text] == []


# ── pictures ─────────────────────────────────────────────────────────────────


OF_THE_DOCS = ("jobs-1280-light.png", "jobs-390-dark.png")
"""Pictures of further pages that the docs show; all others are only for people who check the pages."""
HEIGHTS = {390: 1100, 768: 1000, 1280: 800, 1920: 800}


@pytest.mark.exhaustive
@pytest.mark.sandbox_only
@pytest.mark.parametrize("scheme", ["light", "dark"] if PICTURES else ["light"])
def test_pictures_of_the_pages(
    browser: Browser, served: Served, hand: Hand, scheme: str, tmp_path: Path
) -> None:
    folder = Path(PICTURES) if PICTURES else tmp_path
    others = Path(OTHER_PICTURES) if OTHER_PICTURES else tmp_path

    def picture(name: str, *widths: int) -> None:
        for width in widths:
            picture_name = f"{name}-{width}-{scheme}.png"
            is_shown = name in ("healthy", "trouble", "workload", "node") or picture_name in OF_THE_DOCS
            place = folder if is_shown else others
            browser.picture(place / picture_name, height=HEIGHTS[width], width=width)

    namespace = hand.namespace(f"shop-{scheme}")
    strategy = rolling(maxUnavailable=1, partition="50%")
    for name, replicas, more in (
        ("web", 5, {}),
        ("cart", 8, {"updateStrategy": strategy}),
        ("search", 3, {}),
    ):
        hand.create(CLONE_SETS, namespace, cloneset(name, replicas=replicas, image=f"{name}:1.4", **more))
    job = yaml.safe_load((ROOT / "examples" / "broadcastjob.yaml").read_text("utf-8"))
    hand.create(BROADCAST_JOBS, namespace, {**job, "metadata": {"name": "tune"}})
    hand.create(IMAGE_PULL_JOBS, namespace, pulljob("ahead", image="registry.example.com/shop/broken:1.5"))
    browser.colours(scheme)
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until_says("Nothing needs action; 0 progressing, 3 settled")
    picture("healthy", *WIDTHS)
    for name, change in (("cart", None), ("search", None), ("web", UNSCHEDULABLE)):
        hand.patch(CLONE_SETS, namespace, name, change or image_of(f"{name}:1.5"))
    browser.until_says("1 needs action; 0 progressing, 2 settled", "rollout undo")
    picture("trouble", *WIDTHS)
    browser.picture(folder / f"rollouts-{scheme}.png", height=740, width=1200)
    browser.open(page_of(served, namespace, "web"))
    browser.until_says("Waiting for", "Revision 2")
    picture("workload", *WIDTHS)
    browser.open(f"{served.url}{node_page(hand)}")
    browser.until_says("Pods of workloads: ", "Healthy")
    picture("node", *WIDTHS)
    browser.open(f"{served.url}?page=jobs")
    browser.until(lambda: "Same cause: 3 NodeImages" in row_of(browser, "ahead"))
    picture("jobs", *WIDTHS)
    for page, words in (
        ("pods", "Unschedulable"),
        ("others", "Settled"),
        ("health", "pykruise doctor finds"),
    ):
        browser.open(f"{served.url}?page={page}")
        browser.until_says(words)
        picture(page, *WIDTHS)
    browser.open(f"{served.url}?page=rollouts&group=owner")
    browser.until_says("Without an owner")
    picture("grouped", *WIDTHS)
    browser.open(f"{served.url}?page=rollouts&wall=1")
    browser.until_says("Needs action")
    picture("wall", *WIDTHS)
    if scheme == "light":
        browser.open(page_of(served, namespace, "web"))
        browser.until_says("Waiting for", "Revision 2")
        press(browser, "Roll back")
        ask_about(browser)
        browser.picture(folder / "question.png", height=860)
        press_key(browser, Keys.ESCAPE)
        browser.open(f"{served.url}?page=pods&namespace={namespace}")
        browser.until_says("Unschedulable")
        browser.picture(folder / "pods.png", height=560)
        browser.open(page_of(served, namespace, "search"))
        browser.until_says("3 of 3 updated, 3 ready")
        for name, value in (("image=main", "search:1.6"), ("maxUnavailable", "1")):
            browser.find(f"#what-if input[name='{name}']").send_keys(value)
        browser.find("#what-if button[type=submit]").click()
        browser.until_says("In the end")
        browser.run("document.getElementById('what-if').scrollIntoView()")
        browser.picture(folder / "what-if.png", height=1000)
    browser.colours("light")
    assert all(path.stat().st_size > 5_000 for path in folder.glob("*.png"))
