"""Every action of every kind, in a browser: the question says what would change; before its answer nothing is written.

list_watched_resources() ──▶ an object of each kind that has actions
    ──▶ each button: dialog, diff, plan, typed name ──▶ done
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from pykruise.dashboard.actions import ActionField, DashboardAction, actions_of
from pykruise.dashboard.asking import NAMED_ABOVE
from pykruise.dashboard.objects import ROLLOUTS, list_watched_resources
from pykruise.dashboard.verdicts import find_explained_kind
from pykruise.fixtures.server import KruiseServer
from pykruise.kinds import find_shown
from pykruise.kube.documents import Document
from pykruise.kube.resources import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS, Resource
from support.browser import Browser, browsing
from support.dashboard_browser import ask_about, page_of, press, press_key
from support.dashboard_process import Hand, Served, serving
from support.rollouts_crd import ROLLOUTS_CRD
from support.scenario import cloneset
from support.sources import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox_only,
    pytest.mark.real_time,
    pytest.mark.timeout(300),
]

NAME = "shop"
PODS = NAMED_ABOVE + 1
"""Of workloads, and nodes: so many that names are typed."""
NATIVE = {DEPLOYMENTS: ("selector", "template", "replicas"), DAEMON_SETS: ("selector", "template")}
NATIVE[STATEFUL_SETS] = NATIVE[DEPLOYMENTS]


REFUSED = {("daemonsets", "maxsurge"): "maxSurge"}
"""Actions that admission refuses as the objects here are, and a word of what it says: pods of a DaemonSet surge only
where none may be unavailable."""


def _has_actions(resource: Resource) -> bool:
    """Whether kubectl kruise has a verb for it that is a button."""
    shown = find_shown(resource.group, resource.kind)
    if shown is None or resource.plural == "replicasets":
        return False
    return bool(shown.fields or shown.verbs.restart or shown.verbs.history)


def document_of(resource: Resource) -> Document:
    """An object of that kind with as many pods as its kind lets it ask for."""
    meta = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": NAME}}
    if resource == ROLLOUTS:
        ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "other"}
        status = {"canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused"}}
        steps = [{"replicas": "10%", "pause": {}}, {"replicas": "100%"}]
        spec = {"workloadRef": ref, "strategy": {"canary": {"steps": steps}}}
        return {**meta, "spec": spec, "status": status}
    if resource in NATIVE:
        spec = cloneset(NAME, replicas=PODS)["spec"]
        native = {key: spec[key] for key in NATIVE[resource]}
        if resource == STATEFUL_SETS:
            native["serviceName"] = NAME
        return {**meta, "spec": native}
    path = ROOT / "examples" / f"{resource.kind.lower()}.yaml"
    documents = yaml.safe_load_all(path.read_text("utf-8"))
    spec = next(item["spec"] for item in documents if item["kind"] == resource.kind)
    if resource.kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"  # with another one, maxUnavailable is 1
    return {**meta, "spec": {**spec, "replicas": PODS} if "replicas" in spec else spec}


WITH_ACTIONS = [
    resource
    for resource in list_watched_resources()
    if _has_actions(resource) and actions_of(resource, document_of(resource))
]


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    path = tmp_path_factory.mktemp("questions") / "kubeconfig"
    with KruiseServer(path, nodes=PODS, manifests=[ROLLOUTS_CRD]), Hand(path).connected() as hand:
        yield hand


@pytest.fixture(scope="module")
def served(hand: Hand) -> Iterator[Served]:
    with serving(hand.kubeconfig, "--actions") as served:
        yield served


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with browsing() as browser:
        browser.open(served.link)
        browser.until(lambda: browser.all("header nav a"))
        yield browser


def another(field: ActionField) -> str:
    """A value that the field does not have yet."""
    if field.name == "image":
        return f"{field.value}-next"
    number = int(re.sub(r"\D", "", field.value) or 0)
    return str(number + 1)


def fill(browser: Browser, action: DashboardAction) -> None:
    for field in action.fields:
        if field.is_revision:
            select = Select(browser.find("dialog select"))
            select.select_by_value(next(item for item in _values(select) if item))
            continue
        typed = browser.find(f"dialog [name={field.name}]")
        typed.clear()
        typed.send_keys(another(field))


def _values(select: Any) -> list[str]:
    return [str(option.get_attribute("value")) for option in select.options]


WITHOUT_TICKET = """
const done = arguments[arguments.length - 1];
const headers = {'x-pykruise-dashboard': '1', 'content-type': 'application/json'};
fetch('api/act', {method: 'POST', headers, body: JSON.stringify(arguments[0])}).then((answer) => done(answer.status));
"""


@pytest.mark.parametrize("resource", WITH_ACTIONS, ids=str)
def test_every_action_asks_with_its_diff_and_writes_only_after_the_answer(
    browser: Browser, served: Served, hand: Hand, resource: Resource
) -> None:
    namespace = hand.namespace(f"of-{resource.plural}-{len(resource.group)}") if resource.namespaced else ""
    document = document_of(resource)
    hand.create(resource, namespace, document)
    if "status" in document:
        hand.patch(resource, namespace, NAME, {"status": document["status"]}, subresource="status")
    browser.open(page_of(served, namespace, NAME, kind=str(resource)))
    pressed: list[str] = []

    def actions() -> dict[str, DashboardAction]:
        document = hand.get(resource, namespace, NAME)
        # an image first: a rollback needs a past
        listed = sorted(actions_of(resource, document), key=lambda item: not item.id.startswith("image"))
        return {action.id: action for action in listed}

    assert actions()
    while rest := [action for name, action in actions().items() if name not in pressed]:
        act = be_refused if (resource.plural, rest[0].id) in REFUSED else act_once
        act(browser, hand, resource, namespace, rest[0])
        pressed.append(rest[0].id)
    # a pause is followed by what ends it
    assert ("pause" in pressed) == ("resume" in pressed)
    hand.delete(resource, namespace, NAME)  # the manager and the dashboard need not look at its pods any more


def be_refused(
    browser: Browser, hand: Hand, resource: Resource, namespace: str, action: DashboardAction
) -> None:
    """The question says what admission says, and there is nothing to press."""
    before = hand.get(resource, namespace, NAME)["spec"]
    press(browser, action.title)
    fill(browser, action)
    browser.find("dialog form button[type=submit]").click()
    browser.until(lambda: browser.all("dialog .answer .error"))
    assert REFUSED[resource.plural, action.id] in browser.text_of("dialog .answer .error")
    assert not browser.all("dialog .confirm")
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
    assert hand.get(resource, namespace, NAME)["spec"] == before


def act_once(
    browser: Browser, hand: Hand, resource: Resource, namespace: str, action: DashboardAction
) -> None:
    where = f"{resource} {action.id}"

    def seen() -> Document:
        document = hand.get(resource, namespace, NAME)
        return {"spec": document["spec"], "canary": document.get("status", {}).get("canaryStatus")}

    before = seen()
    if any(field.is_revision for field in action.fields):
        browser.until(lambda: len(browser.all("#history details")) > 1)
    press(browser, action.title)
    fill(browser, action)
    ask_about(browser)
    # then it says what would change, and what the controllers would do; nothing is written
    assert browser.texts("dialog .diff code"), where
    if find_explained_kind(resource) is not None and action.id.startswith(("image", "restart")):
        assert "What would happen" in browser.text_of("dialog .answer"), where
    assert browser.text_of("dialog .command code").startswith("kubectl kruise "), where
    assert seen() == before, where
    # and the server does not do it without the question's ticket
    values = {field.name: another(field) for field in action.fields}
    about = {
        "kind": str(resource),
        "namespace": namespace,
        "name": NAME,
        "action": action.id,
        "values": values,
    }
    assert browser.driver.execute_async_script(WITHOUT_TICKET, about) == 422, where
    assert seen() == before, where
    button = browser.find("dialog .confirm button[type=submit]")
    if typed := browser.all("dialog [name=typed]"):
        assert not button.is_enabled(), where
        typed[0].send_keys(NAME)
    has_pods = isinstance(hand.get(resource, namespace, NAME)["spec"].get("replicas"), int)
    assert typed or not has_pods, f"{where}: {PODS} pods, and no name is asked for"
    browser.until(button.is_enabled)
    button.click()
    browser.until(lambda: not browser.all("dialog .confirm"))
    browser.until(lambda: seen() != before)
    press_key(browser, Keys.ESCAPE)
    browser.until(lambda: not browser.all("dialog"))
