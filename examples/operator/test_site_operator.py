"""Tests of the operator: its plans alone, and on a cluster in this process (pytest plugin of pykruise-sandbox)."""

from pathlib import Path

import pytest
from site_operator import DIGEST, WORK, DocumentView, Snapshot, deployment_of, page_of, plan_site

from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.operator import Operator

HERE = Path(__file__).parent

# ── plans without a cluster ──────────────────────────────────────────────────


def view(document, *, uid="u"):
    metadata = {"namespace": "default", "uid": uid, "resourceVersion": "1", **document["metadata"]}
    return DocumentView(
        namespace="default",
        name=metadata["name"],
        uid=uid,
        resource_version=1,
        doc={**document, "metadata": metadata},
    )


def site(html="<p>one</p>", **more):
    return view({"metadata": {"name": "hello", "generation": 1, **more}, "spec": {"html": html}}, uid="site")


def planned(item, *, page=None, deployment=None):
    return plan_site(Snapshot(site=item, page=page, deployment=deployment, now=0.0))


def test_a_new_site_gets_its_page_before_its_pods():
    actions = [step.action for step in planned(site()).steps]
    assert [(type(action), action.resource.kind) for action in actions] == [
        (Create, "ConfigMap"),
        (Create, "Deployment"),
    ]


def test_a_site_in_its_desired_state_is_not_written():
    item = site()
    plan = planned(item, page=view(page_of(item)), deployment=view(deployment_of(item)))
    assert list(plan.steps) == []
    assert plan.status == {"observedGeneration": 1, "ready": 0}


def test_another_page_is_written_and_rolled_out():
    old, new = site(), site("<p>two</p>")
    plan = planned(new, page=view(page_of(old)), deployment=view(deployment_of(old)))
    page, deployment = [step.action for step in plan.steps]
    assert isinstance(page, Patch)
    assert page.body["data"] == {"index.html": "<p>two</p>"}
    before = deployment_of(old)["spec"]["template"]["metadata"]["annotations"][DIGEST]
    assert deployment.body["spec"]["template"]["metadata"]["annotations"][DIGEST] != before


def test_a_config_map_that_the_site_does_not_own_is_not_changed():
    foreign = view({"metadata": {"name": "hello-page"}})
    plan = planned(site(), page=foreign)
    assert list(plan.steps) == []
    assert plan.waiting.code == "NameTaken"
    assert "ConfigMap hello-page exists, and the Site hello does not own it" in plan.status["problem"]


def test_a_terminating_site_gets_no_new_objects():
    assert planned(site(deletionTimestamp="2026-01-01T00:00:00Z")).is_settled


# ── the operator on a cluster ────────────────────────────────────────────────


@pytest.fixture
def operator(sandbox):
    sandbox.apply(HERE / "crd.yaml")
    sandbox.start(Operator(sandbox.client, [WORK]).run())
    return sandbox


def status(sandbox):
    return sandbox.get("sites", "hello").get("status", {})


def test_a_site_is_served_and_follows_its_page(operator):
    operator.apply(HERE / "site.yaml")
    operator.until(lambda: status(operator).get("ready") == 2)
    before = {pod["metadata"]["name"] for pod in operator.list("pods")}
    operator.patch("sites", "hello", {"spec": {"html": "<h1>Bye</h1>"}})
    operator.until(lambda: not before & {pod["metadata"]["name"] for pod in operator.list("pods")})
    operator.until(lambda: status(operator) == {"observedGeneration": 2, "ready": 2})
    assert operator.get("configmaps", "hello-page")["data"] == {"index.html": "<h1>Bye</h1>"}


def test_deleting_the_site_deletes_its_pods_and_deployment(operator):
    operator.apply(HERE / "site.yaml")
    operator.until(lambda: status(operator).get("ready") == 2)
    operator.delete("sites", "hello")
    operator.until(lambda: operator.list("pods") == [] and operator.list("deployments") == [])


def test_a_deleted_page_is_recreated(operator):
    operator.apply(HERE / "site.yaml")
    operator.until(lambda: status(operator).get("ready") == 2)
    before = operator.get("configmaps", "hello-page")["metadata"]["uid"]
    operator.delete("configmaps", "hello-page")
    operator.until(lambda: operator.list("configmaps", namespace="default") != [])
    operator.until(lambda: operator.get("configmaps", "hello-page")["metadata"]["uid"] != before)
