"""Every action of every kind, in a browser: the question says what would change; before its answer nothing is written.

list_watched_resources() ──▶ an object of each kind that has actions
    ──▶ each button: dialog, diff, plan, typed name ──▶ done
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pykruise.dashboard.actions import ActionField, DashboardAction, actions_of
from pykruise.dashboard.asking import NAMED_ABOVE
from pykruise.dashboard.objects import ROLLOUTS, list_watched_resources
from pykruise.dashboard.verdicts import find_explained_kind
from pykruise.fixtures.server import KruiseServer
from pykruise.kinds import find_shown
from pykruise.kube.documents import Document
from pykruise.kube.resources import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS, Resource
from support.browser import Browser, browsing
from support.dashboard_browser import workload_address
from support.dashboard_process import Hand, Served, serving
from support.rollouts_crd import ROLLOUTS_CRD
from support.scenario import cloneset
from support.sources import ROOT
from support.yaml_documents import yaml_documents

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox_only,
    pytest.mark.real_time,
    pytest.mark.timeout(300),
]

NAME = "shop"
PODS = NAMED_ABOVE + 1
"""Number of pods of workloads, and of nodes: so many that a question asks for the name."""
NATIVE = {DEPLOYMENTS: ("selector", "template", "replicas"), DAEMON_SETS: ("selector", "template")}
NATIVE[STATEFUL_SETS] = NATIVE[DEPLOYMENTS]


REFUSED = {("daemonsets", "maxsurge"): "maxSurge"}
"""Actions that admission refuses for the objects of this test, and a word of its message: a DaemonSet may surge only if
no pod may be unavailable."""


def _has_actions(resource: Resource) -> bool:
    """Whether the resource has a button for a verb of kubectl kruise."""
    shown = find_shown(resource.group, resource.kind)
    if shown is None or resource.plural == "replicasets":
        return False
    return bool(shown.fields or shown.verbs.restart or shown.verbs.history)


def document_of(resource: Resource) -> Document:
    """An object of the resource, with PODS replicas if its kind has replicas."""
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
    documents = yaml_documents(path.read_text("utf-8"))
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
    """A value that differs from the field's; empty: the first revision that is offered."""
    if field.is_revision:
        return ""
    if field.name == "image":
        return f"{field.value}-next"
    number = int(re.sub(r"\D", "", field.value) or 0)
    return str(number + 1)


UNTIL = """
const until = (look) => new Promise((resolve, reject) => {
  const found = look();
  if (found) return resolve(found);
  const watch = new MutationObserver(() => {
    const found = look();
    if (found) end(() => resolve(found));
  });
  const late = setTimeout(() => end(() => reject(new Error(`it never was so: ${look}`))), 40_000);
  const end = (done) => (clearTimeout(late), watch.disconnect(), done());
  watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
});
const find = (selector) => document.querySelector(selector);
const type = (field, text) => {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
};
"""
"""Steps of a person within the page: one script per question takes a tenth of the time of a driver that polls.
test_dashboard_pages.py has the same dialog with real clicks and keys."""

ASK = f"""
{UNTIL}
const [title, values, act, done] = arguments;
const ask = async () => {{
  const isOf = (button) => button.innerText.startsWith(title);
  (await until(() => [...document.querySelectorAll("#actions button")].find(isOf))).click();
  for (const field of document.querySelectorAll("dialog [data-field]")) {{
    const offered = () => [...(field.options || [])].map((item) => item.value).find(Boolean);
    type(field, await until(() => values[field.name] || offered()));
  }}
  find("dialog form button[type=submit]").click();
  await until(() => find("dialog .answer, dialog .error"));
  const headers = {{ "x-pykruise-dashboard": "1", "content-type": "application/json" }};
  const answer = act ? await fetch("api/act", {{ method: "POST", headers, body: JSON.stringify(act) }}) : null;
  return {{
    error: find("dialog .error") ? find("dialog .error").innerText : "",
    diff: [...document.querySelectorAll("dialog .diff code")].map((line) => line.innerText),
    said: find("dialog .answer").innerText,
    command: find("dialog .command code").innerText,
    canAct: Boolean(find("dialog .confirm")),
    asksForName: Boolean(find("dialog [name=typed]")),
    isEnabled: Boolean(find("dialog .confirm button:enabled")),
    withoutTicket: answer ? answer.status : 0,
  }};
}};
ask().then(done, (error) => done({{ failure: String(error) }}));
"""
CLOSE = f"""
{UNTIL}
const [name, done] = arguments;
const act = async () => {{
  if (name) {{
    const field = find("dialog [name=typed]");
    if (field) type(field, name);
    (await until(() => find("dialog .confirm button:enabled"))).click();
    await until(() => !find("dialog .confirm"));
  }}
  find("dialog button[type=button]").click();
  await until(() => !find("dialog"));
  return {{}};
}};
act().then(done, (error) => done({{ failure: String(error) }}));
"""


def run(browser: Browser, script: str, *arguments: Any) -> dict[str, Any]:
    """Run a script in the page, which must not fail. Return its answer."""
    answer: dict[str, Any] = browser.driver.execute_async_script(script, *arguments)
    assert "failure" not in answer, f"{answer['failure']}; the page says:\n{browser.text()}"
    return answer


@pytest.mark.parametrize("resource", WITH_ACTIONS, ids=str)
def test_every_action_shows_its_diff_and_writes_only_after_confirmation(
    browser: Browser, served: Served, hand: Hand, resource: Resource
) -> None:
    namespace = hand.namespace(f"of-{resource.plural}-{len(resource.group)}") if resource.namespaced else ""
    document = document_of(resource)
    hand.create(resource, namespace, document)
    if "status" in document:
        hand.patch(resource, namespace, NAME, {"status": document["status"]}, subresource="status")
    browser.go(workload_address(namespace, NAME, kind=str(resource)))
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
    hand.delete(resource, namespace, NAME)  # its pods would keep manager and dashboard busy


def be_refused(
    browser: Browser, hand: Hand, resource: Resource, namespace: str, action: DashboardAction
) -> None:
    """The question shows admission's message, and has no button to confirm."""
    before = hand.get(resource, namespace, NAME)["spec"]
    values = {field.name: another(field) for field in action.fields}
    question = run(browser, ASK, action.title, values, None)
    assert REFUSED[resource.plural, action.id] in question["error"]
    assert not question["canAct"]
    run(browser, CLOSE, "")
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
        browser.until(lambda: browser.run("return document.querySelectorAll('#history details').length") > 1)
    values = {field.name: another(field) for field in action.fields}
    # without the ticket of a question, the server does not do it
    object_of = {"kind": str(resource), "namespace": namespace, "name": NAME}
    about = {**object_of, "action": action.id, "values": values}
    question = run(browser, ASK, action.title, values, about)
    # the question says what would change, and what the controllers would do; nothing is written
    assert question["diff"], where
    if find_explained_kind(resource) is not None and action.id.startswith(("image", "restart")):
        assert "What would happen" in question["said"], where
    assert question["command"].startswith("kubectl kruise "), where
    assert question["withoutTicket"] == 422, where
    assert seen() == before, where
    assert question["canAct"], f"{where}: {question}"
    # a name is typed before many pods are changed
    has_pods = isinstance(before["spec"].get("replicas"), int)
    assert question["asksForName"] or not has_pods, f"{where}: {PODS} pods, and no name is asked for"
    assert question["isEnabled"] is not question["asksForName"], where
    run(browser, CLOSE, NAME)
    browser.until(lambda: seen() != before)
