"""The dashboard in a browser, beside `pykruise up` or a real control plane: each page live, login, rights, keys.

Colours too, and what a checker of accessibility finds.

The pictures in docs/dashboard.md are made here: PYKRUISE_PICTURES=docs/dashboard (make screenshots).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pykruise.kinds import crds
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.resources import DEPLOYMENTS, EVENTS
from pykruise.testing.http import HttpSandbox
from support.browser import Browser, browsing
from support.dashboard_process import Hand, Served, free_port, serving
from support.scenario import cloneset, rolling
from support.sources import ROOT
from support.up import running_real, running_up

pytestmark = [pytest.mark.browser, pytest.mark.real_time, pytest.mark.timeout(300)]

PICTURES = os.environ.get("PYKRUISE_PICTURES", "")

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


@pytest.fixture
def browser(inside: Browser) -> Iterator[Browser]:
    inside.console()
    yield inside
    assert [text for text in inside.console() if "SEVERE" in text] == []


@pytest.fixture
def namespace(hand: Hand, request: pytest.FixtureRequest) -> str:
    """Of this test alone."""
    return hand.namespace(f"t{abs(hash(request.node.name)) % 10**8}")


def page_of(served: Served, namespace: str, name: str) -> str:
    return f"{served.url}?page=workload&kind=clonesets.apps.kruise.io&namespace={namespace}&name={name}"


def row_of(browser: Browser, name: str) -> str:
    """What the row of an object says; empty: there is none."""
    return next((text for text in browser.texts("tbody tr") if f"/ {name}" in text), "")


# ── each page, live ──────────────────────────────────────────────────────────


def test_a_rollout_is_seen_as_it_goes_without_loading_the_page_again(
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
    browser.until(lambda: "1 need action" in browser.text())
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


def test_the_page_of_a_workload_says_why_it_waits_and_what_helps(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=3, updateStrategy=rolling(maxUnavailable=1)))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says("3 of 3 updated, 3 ready", "Revision 1", "created pod")
    hand.patch(CLONE_SETS, namespace, "shop", UNSCHEDULABLE)
    browser.until_says("Waiting for", "Unschedulable", "Revision 2", "nodeSelector", "Roll back")
    pods = browser.find("#pods")
    pods.find_element(By.TAG_NAME, "summary").click()
    hand.patch(CLONE_SETS, namespace, "shop", ANYWHERE)
    browser.until_says("3 of 3 updated, 3 ready")
    browser.until(lambda: "Unschedulable" not in browser.find("#pods").text)


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


def test_a_job_is_seen_until_it_is_done(browser: Browser, served: Served, hand: Hand, namespace: str) -> None:
    browser.open(f"{served.url}?page=jobs&namespace={namespace}")
    job = yaml.safe_load((ROOT / "examples" / "broadcastjob.yaml").read_text("utf-8"))
    job["metadata"] = {"name": "tune"}
    hand.create(BROADCAST_JOBS, namespace, job)
    browser.until(lambda: "/ tune" in browser.text())
    browser.until(lambda: "Completed" in row_of(browser, "tune"))
    browser.until(lambda: browser.all("table"))
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
    for scheme in ("dark", "light"):
        browser.colours(scheme)
        assert browser.problems() == [], scheme
    next(web_element for web_element in browser.all("tbody a") if web_element.text == "keep").click()
    browser.until_says(f"PodUnavailableBudget {namespace}/keep")
    browser.driver.back()
    hand.delete(POD_UNAVAILABLE_BUDGETS, namespace, "keep")
    browser.until(lambda: not row_of(browser, "keep"))


def test_health_is_what_doctor_finds(browser: Browser, served: Served) -> None:
    browser.open(f"{served.url}?page=health")
    browser.until_says("What pykruise doctor finds", "crds", "pykruise doctor")


# ── what if, and doing it ────────────────────────────────────────────────────


def test_what_if_shows_the_plan_and_a_chart_and_changes_nothing(
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
    assert "would change" in browser.find("#what-if").text
    assert browser.find("#what-if input[name='image=main']").get_attribute("value") == "nginx:2"


def test_a_button_does_what_its_command_says(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    browser.open(page_of(served, namespace, "shop"))
    browser.until_says(f"kubectl kruise rollout pause clonesets.apps.kruise.io/shop -n {namespace}")
    browser.until(lambda: browser.all("#commands form"))
    next(
        web_element for web_element in browser.all("#commands button") if web_element.text == "Pause"
    ).click()
    browser.until_says("paused", "rollout resume")
    assert (
        hand.get(CLONE_SETS, namespace, "shop")["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
    )


# ── users ────────────────────────────────────────────────────────────────────


def test_a_user_of_one_namespace_logs_in_and_sees_that_namespace_alone(hand: Hand, namespace: str) -> None:
    other = hand.namespace(f"{namespace}-other")
    for place in (namespace, other):
        hand.create(CLONE_SETS, place, cloneset(f"in-{place}", replicas=1))
    token = hand.token(namespace, "reader", "*")
    with serving(hand.kubeconfig, "--shared") as served, browsing() as browser:
        browser.open(f"{served.url}?page=rollouts")
        browser.until_says("Log in")
        browser.find("input[name=token]").send_keys("nonsense" + Keys.ENTER)
        browser.until_says("does not accept this token")
        for scheme in ("dark", "light"):
            browser.colours(scheme)
            assert browser.problems() == [], scheme
        browser.find("input[name=token]").send_keys(token + Keys.ENTER)
        browser.until(lambda: f"/ in-{namespace}" in browser.text())
        hand.patch(CLONE_SETS, other, f"in-{other}", {"spec": {"replicas": 2}})
        hand.patch(CLONE_SETS, namespace, f"in-{namespace}", {"spec": {"replicas": 2}})
        browser.until(lambda: "2 of 2 updated, 2 ready" in row_of(browser, f"in-{namespace}"))
        assert other not in browser.driver.page_source
        browser.open(page_of(served, other, f"in-{other}"))
        browser.until_says("There is nothing of that name that you may see")
        browser.open(f"{served.url}?page=health")
        browser.until(lambda: browser.all("table"))
        next(
            web_element for web_element in browser.all("header button") if web_element.text == "Log out"
        ).click()
        browser.until_says("You are logged out")


def test_after_a_new_start_one_logs_in_again_and_goes_on_where_one_was(hand: Hand, namespace: str) -> None:
    hand.create(CLONE_SETS, namespace, cloneset("shop", replicas=1))
    port = str(free_port())
    with browsing() as browser:
        with serving(hand.kubeconfig, "--port", port) as first:
            browser.open(first.link)
            browser.until(lambda: browser.all("header nav a"))
            browser.open(f"{first.url}?namespace={namespace}&q=shop")
            browser.until(lambda: row_of(browser, "shop"))
        browser.until_says("The connection is lost")
        assert row_of(browser, "shop")  # what was known stays
        with serving(hand.kubeconfig, "--port", port) as second:
            browser.until_says("Your login is over")
            assert f"namespace={namespace}" in browser.driver.current_url
            browser.find("input[name=token]").send_keys(second.link.partition("#token=")[2] + Keys.ENTER)
            browser.until(lambda: row_of(browser, "shop"))
            hand.patch(CLONE_SETS, namespace, "shop", {"spec": {"replicas": 3}})
            browser.until(lambda: "3 of 3 updated, 3 ready" in row_of(browser, "shop"))


# ── how one gets around ──────────────────────────────────────────────────────


def test_all_state_is_in_the_address(browser: Browser, served: Served, hand: Hand, namespace: str) -> None:
    for name in ("one", "two"):
        hand.create(CLONE_SETS, namespace, cloneset(name, replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: row_of(browser, "one") and row_of(browser, "two"))
    browser.find("#find").send_keys("!two")
    browser.until(lambda: row_of(browser, "one") and not row_of(browser, "two"))
    assert "q=%21two" in browser.driver.current_url
    next(web_element for web_element in browser.all("thead button") if web_element.text == "Kind").click()
    browser.until(lambda: browser.all("th[aria-sort=ascending]"))
    browser.driver.refresh()
    browser.until(lambda: row_of(browser, "one") and not row_of(browser, "two"))
    assert browser.all("th[aria-sort=ascending]")
    browser.driver.back()
    browser.until(lambda: not browser.all("th[aria-sort]"))


def test_it_is_used_by_keyboard_and_the_focus_stays_while_rows_move(
    browser: Browser, served: Served, hand: Hand, namespace: str
) -> None:
    for name in ("first", "second"):
        hand.create(CLONE_SETS, namespace, cloneset(name, replicas=1))
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until(lambda: row_of(browser, "first") and row_of(browser, "second"))
    body = browser.find("body")
    body.send_keys("/")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "find"
    link = next(web_element for web_element in browser.all("tbody a") if web_element.text == "second")
    browser.run("arguments[0].focus()", link)
    hand.patch(CLONE_SETS, namespace, "second", UNSCHEDULABLE)
    browser.until(
        lambda: "second" in browser.texts("tbody tr")[0] and "Degraded" in row_of(browser, "second")
    )
    assert browser.driver.switch_to.active_element.text == "second"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until_says(f"CloneSet {namespace}/second")
    assert browser.driver.switch_to.active_element.tag_name == "main"


def test_colours_are_the_systems_unless_a_button_says_otherwise(browser: Browser, served: Served) -> None:
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


def test_a_hidden_tab_is_sent_nothing_and_has_it_all_when_it_is_seen(
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_accessibility_checker_finds_nothing_serious(
    browser: Browser, served: Served, hand: Hand, namespace: str, scheme: str
) -> None:
    stuck = cloneset("stuck", replicas=2)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"there-is": "no-such-node"}
    hand.create(CLONE_SETS, namespace, stuck)
    browser.colours(scheme)
    result = []
    for page in ("?page=rollouts", "?page=pods", "?page=jobs", "?page=health", ""):
        browser.open(f"{served.url}{page}" if page else page_of(served, namespace, "stuck"))
        browser.until(lambda: "Loading" not in browser.text())
        browser.until(lambda: browser.all("table"))
        result += [f"{page}: {problem}" for problem in browser.problems()]
    browser.colours("light")
    assert result == []


def test_no_other_host_is_asked_for_anything(browser: Browser, served: Served) -> None:
    browser.open(f"{served.url}?page=rollouts")
    browser.until(lambda: browser.all("header nav a"))
    assert {f"http://{host}/" for host in browser.hosts()} == {served.url}


# ── hostile contents ─────────────────────────────────────────────────────────


def test_whatever_objects_say_is_text(tmp_path: Path) -> None:
    markup = '<img src=x onerror="window.isBroken=1"><script>window.isBroken=1</script>'
    hidden = "a\u202egnp.exe\u0000\u001b[31m\u200bz"
    with HttpSandbox(tmp_path / "kubeconfig", nodes=1, manifests=crds()), browsing() as browser:
        hand = Hand(tmp_path / "kubeconfig")
        document = cloneset("web", image=f"{markup}:1")
        document["metadata"]["annotations"] = {"kubernetes.io/change-cause": markup}
        hand.create(CLONE_SETS, "default", document)
        conditions = [
            {"type": "Waiting", "status": "True", "reason": "ImagePull", "message": f"{markup} {hidden}"},
            {"type": "Failed", "status": "True", "reason": markup, "message": "x" * 1_000_000},
        ]
        counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas")
        status = {"conditions": conditions, **dict.fromkeys(counts, 0)}
        hand.patch(CLONE_SETS, "default", "web", {"status": status}, subresource="status")
        uid = hand.get(CLONE_SETS, "default", "web")["metadata"]["uid"]
        event: dict[str, Any] = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "CloneSet", "name": "web", "namespace": "default", "uid": uid},
            "reason": "Odd",
            "message": f"{markup} {hidden}"[:1000],
            "type": "Warning",
        }
        hand.create(EVENTS, "default", event)
        with serving(hand.kubeconfig, "--base-path", "/tools/kruise") as served:
            assert served.url.endswith("/tools/kruise/")
            browser.open(served.link)
            browser.until(lambda: "<script>" in row_of(browser, "web"))
            assert "⟨U+202E⟩" in row_of(browser, "web")
            browser.open(page_of(served, "default", "web"))
            browser.until_says("<script>", "⟨U+0000⟩", "Odd")
            browser.until(lambda: browser.all("#what-if"))
            assert browser.run("return window.isBroken") is None
            assert browser.all("main script, main img") == []
            assert [text for text in browser.console() if "SEVERE" in text] == []


# ── pictures ─────────────────────────────────────────────────────────────────


@pytest.mark.exhaustive
@pytest.mark.sandbox_only
@pytest.mark.parametrize("scheme", ["light", "dark"] if PICTURES else ["light"])
def test_pictures_of_the_pages(
    browser: Browser, served: Served, hand: Hand, scheme: str, tmp_path: Path
) -> None:
    folder = Path(PICTURES) if PICTURES else tmp_path
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
    browser.colours(scheme)
    browser.open(f"{served.url}?namespace={namespace}")
    browser.until_says("0 need action, 0 move, 3 are still")
    for name, change in (("cart", None), ("search", None), ("web", UNSCHEDULABLE)):
        image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"{name}:1.5"}]}}}}
        hand.patch(CLONE_SETS, namespace, name, change or image)
    browser.until_says("1 need action, 0 move, 2 are still")
    browser.picture(folder / f"rollouts-{scheme}.png", height=470, width=1200)
    browser.open(page_of(served, namespace, "web"))
    browser.until_says("Waiting for", "Revision 2")
    browser.picture(folder / f"workload-{scheme}.png", height=760)
    if scheme == "light":
        browser.open(f"{served.url}?page=pods&namespace={namespace}")
        browser.until_says("Unschedulable")
        browser.picture(folder / "pods.png", height=330)
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
