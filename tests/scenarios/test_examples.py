"""Every manifest that a user is shown works: those under examples/, and the complete ones in the docs."""

from pathlib import Path
from typing import Any

import pytest

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import read_canary_base
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import annotations_of, decode, get_path
from pykruise.kube.errors import AlreadyExistsError, InvalidError
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, STORAGE_CLASSES, Resource
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.sandbox.cluster import ClusterSettings
from support.distributions import DISTRIBUTING
from support.pages import read_page
from support.pulls import PULLING, with_agents
from support.scenario import Stage
from support.yaml_documents import yaml_documents

ROOT = Path(__file__).parents[2]
RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        *(ADVANCED_CRON_JOBS, BROADCAST_JOBS, CLONE_SETS, DAEMON_SETS, ADVANCED_STATEFUL_SETS),
        *(DEPLOYMENTS, SIDECAR_SETS, WORKLOAD_SPREADS, POD_UNAVAILABLE_BUDGETS, EPHEMERAL_JOBS),
        UNITED_DEPLOYMENTS,
    )
}
PULLED = {resource.kind: resource for resource in (IMAGE_PULL_JOBS, IMAGE_LIST_PULL_JOBS)}
BESIDE = {STORAGE_CLASSES.kind: STORAGE_CLASSES}
"""Objects that workloads may use."""


def manifests() -> list[Any]:
    """Each object with the place it is from."""
    files = sorted(path for path in (ROOT / "examples").rglob("*.yaml") if path.parent.name != "operator")
    texts = [(path.name, path.read_text()) for path in files]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = [  # a file for commands may contain errors on purpose
            block.text
            for block in read_page(page).blocks
            if block.language == "yaml" and "file" not in block.notes
        ]
        texts += [(page.name, block) for block in blocks if block.startswith("apiVersion:")]
    manifests = []
    for place, text in texts:
        for doc in yaml_documents(text):
            if doc["apiVersion"].partition("/")[0].endswith(".fluxcd.io"):
                continue  # a resource of Flux, which the page describes
            name = f"{place}:{doc['kind']}/{doc['metadata']['name']}"
            manifests.append(pytest.param(doc, id=name))
    return manifests


def workloads() -> list[Any]:
    """Manifests that create pods and need no feature gate. A group of pods needs one: the test of its page plays it."""
    making_pods = RESOURCES.keys() - {SIDECAR_SETS.kind}
    shown = [manifest for manifest in manifests() if manifest.values[0]["kind"] in making_pods]
    return [
        manifest for manifest in shown if GANG_MIN_COUNT.annotation not in annotations_of(manifest.values[0])
    ]


def of_kind(kind: str) -> list[Any]:
    """All manifests of one kind."""
    return [manifest for manifest in manifests() if manifest.values[0]["kind"] == kind]


def sidecarsets() -> list[Any]:
    """All manifests of SidecarSets."""
    return [manifest for manifest in manifests() if manifest.values[0]["kind"] == SIDECAR_SETS.kind]


@pytest.mark.parametrize("doc", workloads())
async def test_workloads_of_the_shown_manifests_become_available(stage: Stage, doc: dict[str, Any]) -> None:
    # given the ConfigMaps that its containers need, which the pages show beside it
    await stage.start_manager()
    for container in get_path(doc, "spec", "template", "spec", "containers", default=()):
        for source in container.get("envFrom") or ():
            name = source["configMapRef"]["name"]
            await stage.create({"metadata": {"name": name}, "data": {"LEVEL": "info"}}, resource=CONFIG_MAPS)
    # when
    created = await stage.create(doc, resource=RESOURCES[doc["kind"]])

    # then
    async def all_available() -> bool:
        result = await stage.get(created["metadata"]["name"], resource=RESOURCES[doc["kind"]])
        status = result.get("status") or {}
        if doc["kind"] == DAEMON_SETS.kind:
            wanted = status.get("desiredNumberScheduled", 0)
            return wanted > 0 and status.get("numberAvailable") == wanted
        if doc["kind"] == WORKLOAD_SPREADS.kind:
            return [item["name"] for item in status.get("subsetStatuses") or ()] == [
                subset["name"] for subset in result["spec"]["subsets"]
            ]
        if doc["kind"] == ADVANCED_CRON_JOBS.kind:
            (made,) = doc["spec"]["template"]
            return made.lower() == f"{status.get('type', '')}Template".lower()
        if doc["kind"] == BROADCAST_JOBS.kind:
            return bool(status.get("phase") == "completed" and status["succeeded"] == status["desired"] > 0)
        if doc["kind"] == EPHEMERAL_JOBS.kind:
            return "MatchedEmpty" in {condition["type"] for condition in status.get("conditions") or ()}
        if doc["kind"] == POD_UNAVAILABLE_BUDGETS.kind:
            observed: int = status.get("observedGeneration", 0)
            return observed == result["metadata"]["generation"]
        wanted = result["spec"]["replicas"]
        if doc["kind"] == UNITED_DEPLOYMENTS.kind:
            return wanted > 0 and status.get("readyReplicas") == wanted
        return wanted > 0 and status.get("availableReplicas") == wanted

    await stage.until(all_available)


@pytest.mark.parametrize("doc", sidecarsets())
async def test_a_documented_sidecarset_is_injected_into_a_pod_that_it_selects(
    stage: Stage, doc: dict[str, Any]
) -> None:
    # given
    base = read_canary_base(annotations_of(doc))
    for item in (param.values[0] for param in sidecarsets()):
        if item["metadata"]["name"] == base:
            await stage.create(item, resource=SIDECAR_SETS)
    # when
    await stage.create(doc, resource=SIDECAR_SETS)
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}}
    pod = {
        "metadata": {"name": "x", "labels": doc["spec"]["selector"]["matchLabels"]},
        "spec": {"containers": [{"name": "main", "image": "main", "resources": resources}]},
    }

    # then
    async def is_injected() -> bool:
        result = await stage.create(pod, resource=PODS)
        images = {container["image"] for container in result["spec"]["containers"]}
        await stage.delete("x", resource=PODS, grace_period_s=0)
        return images >= {container["image"] for container in doc["spec"]["containers"]}

    async def is_injected_when_free() -> bool:
        try:
            return await is_injected()
        except AlreadyExistsError:  # the previous pod still terminates
            return False

    await stage.until(is_injected_when_free)
    with pytest.raises(InvalidError):  # the webhook reviewed it
        await stage.merge(doc["metadata"]["name"], {"spec": {"selector": None}}, resource=SIDECAR_SETS)


@pytest.mark.parametrize(
    "doc", [manifest for manifest in manifests() if manifest.values[0]["kind"] in BESIDE]
)
async def test_objects_used_by_workloads_in_the_manifests_are_accepted(
    stage: Stage, doc: dict[str, Any]
) -> None:
    created = await stage.create(doc, resource=BESIDE[doc["kind"]])
    await stage.delete(created["metadata"]["name"], resource=BESIDE[doc["kind"]])
    assert {**created, "metadata": doc["metadata"]}.items() >= doc.items()


def test_the_examples_have_manifests() -> None:
    assert len(manifests()) >= 2


@pytest.mark.parametrize("doc", of_kind(RESOURCE_DISTRIBUTIONS.kind))
async def test_a_documented_distribution_is_counted(stage: Stage, doc: dict[str, Any]) -> None:
    await stage.start_manager(settings=DISTRIBUTING)
    await stage.client.create(RESOURCE_DISTRIBUTIONS, "", doc)

    async def is_counted() -> bool:
        name = doc["metadata"]["name"]
        result = decode(await stage.client.get(RESOURCE_DISTRIBUTIONS, "", name))
        return (result.get("status") or {}).get("observedGeneration") == 1

    await stage.until(is_counted)


LOOKED_AFTER = {resource.kind: resource for resource in (PERSISTENT_POD_STATES, POD_PROBE_MARKERS)}
"""Kinds whose status records the observed generation."""


@pytest.mark.parametrize("doc", [item for kind in LOOKED_AFTER for item in of_kind(kind)])
async def test_objects_shown_beside_workloads_are_observed_by_the_manager(
    stage: Stage, doc: dict[str, Any]
) -> None:
    resource = LOOKED_AFTER[doc["kind"]]
    await stage.start_manager()
    await stage.create(doc, resource=resource)

    async def is_observed() -> bool:
        result = await stage.get(doc["metadata"]["name"], resource=resource)
        return (result.get("status") or {}).get("observedGeneration") == 1

    await stage.until(is_observed)


@pytest.mark.parametrize("doc", of_kind(CONTAINER_RECREATE_REQUESTS.kind))
async def test_a_documented_request_is_accepted_for_an_existing_pod(
    stage: Stage, doc: dict[str, Any]
) -> None:
    containers = [{"name": container["name"], "image": "app:1"} for container in doc["spec"]["containers"]]
    pod = {"metadata": {"name": doc["spec"]["podName"]}, "spec": {"containers": containers}}
    await stage.create(pod, resource=PODS)

    async def runs() -> bool:
        runs = await stage.get(doc["spec"]["podName"], resource=PODS)
        return bool(runs["status"].get("phase") == "Running")

    await stage.until(runs)
    stored = await stage.create(doc, resource=CONTAINER_RECREATE_REQUESTS)
    assert all("statusContext" in container for container in stored["spec"]["containers"])


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    """Nodes have agents that pull images, for tests with the mark `pulls_ahead`."""
    is_asked = request.node.get_closest_marker("pulls_ahead") is not None
    return with_agents(cluster_settings, pull_s=0.2) if is_asked else cluster_settings


@pytest.mark.pulls_ahead
@pytest.mark.parametrize("doc", [item for kind in PULLED for item in of_kind(kind)])
async def test_documented_images_are_pulled(stage: Stage, doc: dict[str, Any]) -> None:
    await stage.start_manager(settings=PULLING)

    async def has_node_images() -> bool:
        return bool((await stage.client.list(NODE_IMAGES)).items)

    await stage.until(has_node_images)
    await stage.create(doc, resource=PULLED[doc["kind"]])

    async def is_over() -> bool:
        result = await stage.get(doc["metadata"]["name"], resource=PULLED[doc["kind"]])
        status = result.get("status") or {}
        return bool(status.get("completionTime") and status["succeeded"] == status["desired"] > 0)

    await stage.until(is_over)
