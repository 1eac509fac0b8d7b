"""Pods that wait for volumes or for room: the same in the sandbox and on the real control plane."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import (
    EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from support.scenario import Stage

Object = dict[str, Any]

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
SELECTED = "volume.kubernetes.io/selected-node"


def pod(name: str, *, claim: str = "", cpu: str = "", **spec: Any) -> Object:
    """A pod that stops at once, with the claim as its volume."""
    container: Object = {"name": "main", "image": "web:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def claim(name: str, storage_class: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
        },
    }


def volume(name: str, storage_class: str, *, node: str) -> Object:
    """A volume that can be used on one node only."""
    is_there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": storage_class,
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_there]}]}},
        },
    }


@asynccontextmanager
async def made(stage: Stage, resource: Resource, doc: Object) -> AsyncIterator[str]:
    """Create a cluster-scoped object while the block runs; yields its name."""
    name = doc["metadata"]["name"]
    await stage.client.create(resource, "", doc)
    try:
        yield name
    finally:
        await stage.client.delete(resource, "", name)


def storage_class(stage: Stage, mode: str, provisioner: str = "kubernetes.io/no-provisioner") -> Object:
    # No provisioner creates volumes for classes with this prefix of the name.
    name = f"unprovisioned-{stage.namespace}"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


async def create(stage: Stage, resource: Resource, doc: Object) -> Object:
    return decode(await stage.client.create(resource, stage.namespace, doc))


async def has_node(stage: Stage, name: str) -> bool:
    return bool((await stage.get(name, resource=PODS))["spec"].get("nodeName"))


async def why_it_waits(stage: Stage, name: str, beginning: str) -> str:
    """Wait until the reasons in the message of PodScheduled begin with this text; returns the reasons."""
    waits: list[str] = []

    async def says() -> bool:
        doc = await stage.get(name, resource=PODS)
        conditions = get_path(doc, "status", "conditions", default=[])
        scheduled = next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})
        waits[:] = [str(scheduled.get("message", "")).partition(" nodes are available: ")[2]]
        return (
            scheduled.get("status") == "False"
            and scheduled["reason"] == "Unschedulable"
            and waits[0].startswith(beginning)
        )

    await stage.until(says)
    return waits[0]


async def events(stage: Stage, name: str) -> list[tuple[str, str]]:
    listed = await stage.client.list(EVENTS, stage.namespace)
    docs = [doc for doc in map(decode, listed.items) if doc["involvedObject"]["name"] == name]
    return [(doc["reason"], doc["message"]) for doc in docs]


async def test_a_pod_waits_for_a_missing_claim_and_is_scheduled_when_it_exists(stage: Stage) -> None:
    # given
    async with made(stage, STORAGE_CLASSES, storage_class(stage, "WaitForFirstConsumer")) as name:
        await create(stage, PODS, pod("web", claim="data"))
        await why_it_waits(stage, "web", 'persistentvolumeclaim "data" not found.')
        # when the claim comes, and a volume that can be used on one node
        await create(stage, PERSISTENT_VOLUME_CLAIMS, claim("data", name))
        nodes = len((await stage.client.list(NODES)).items)
        why = await why_it_waits(
            stage, "web", f"{nodes} node(s) didn't find available persistent volumes to bind. "
        )
        # The messages of Kubernetes 1.34 to 1.36 contain a part about device claims in between.
        assert " preemption: " in why

        async def is_reported() -> bool:
            return ("WaitForPodScheduled", "waiting for pod web to be scheduled") in await events(
                stage, "data"
            )

        await stage.until(is_reported)
        async with made(stage, PERSISTENT_VOLUMES, volume(f"pv-{stage.namespace}", name, node="node-2")):
            # then
            await stage.until(lambda: has_node(stage, "web"))
            assert (await stage.get("web", resource=PODS))["spec"]["nodeName"] == "node-2"
            bound = await stage.get("data", resource=PERSISTENT_VOLUME_CLAIMS)
            assert bound["spec"]["volumeName"] == f"pv-{stage.namespace}"
            assert SELECTED not in (bound["metadata"].get("annotations") or {})


async def test_a_pod_waits_for_a_claim_that_should_be_bound_already(stage: Stage) -> None:
    # given a claim of no class, for which there is no volume
    await create(stage, PERSISTENT_VOLUME_CLAIMS, claim("data", f"unprovisioned-{stage.namespace}"))
    await create(stage, PODS, pod("web", claim="data"))
    # then
    await why_it_waits(stage, "web", "pod has unbound immediate PersistentVolumeClaims.")
    # when there is one, it goes where that can be used
    pv = volume(f"pv-{stage.namespace}", f"unprovisioned-{stage.namespace}", node="node-1")
    async with made(stage, PERSISTENT_VOLUMES, pv):
        await stage.until(lambda: has_node(stage, "web"))
        assert (await stage.get("web", resource=PODS))["spec"]["nodeName"] == "node-1"


async def test_a_pod_whose_volume_is_on_another_node_is_not_scheduled(stage: Stage) -> None:
    # given
    name = f"unprovisioned-{stage.namespace}"
    async with made(stage, PERSISTENT_VOLUMES, volume(f"pv-{stage.namespace}", name, node="elsewhere")):
        await create(stage, PERSISTENT_VOLUME_CLAIMS, claim("data", name))
        # when
        await create(stage, PODS, pod("web", claim="data"))
        # then (Kubernetes 1.35 changed the words)
        nodes = len((await stage.client.list(NODES)).items)
        said = await why_it_waits(stage, "web", f"{nodes} node(s) ")
        assert "node affinity" in said
        assert said.endswith(f"{nodes} Preemption is not helpful for scheduling.")


async def test_a_provisioner_gets_the_node_for_which_it_creates_a_volume(stage: Stage) -> None:
    # given a class whose provisioner is none of the cluster's
    doc = storage_class(stage, "WaitForFirstConsumer", "example.com/none")
    async with made(stage, STORAGE_CLASSES, doc) as name:
        await create(stage, PERSISTENT_VOLUME_CLAIMS, claim("data", name))
        first = ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")

        async def waits_for_a_pod() -> bool:
            return first in await events(stage, "data")

        await stage.until(waits_for_a_pod)
        # when
        await create(stage, PODS, pod("web", claim="data"))

        async def is_annotated() -> bool:
            result = await stage.get("data", resource=PERSISTENT_VOLUME_CLAIMS)
            return SELECTED in (result["metadata"].get("annotations") or {})

        await stage.until(is_annotated)
        selected = (await stage.get("data", resource=PERSISTENT_VOLUME_CLAIMS))["metadata"]["annotations"][
            SELECTED
        ]
        assert not await has_node(stage, "web")
        # when it makes one
        pv = volume(f"pv-{stage.namespace}", name, node=selected)
        pv["spec"]["claimRef"] = {"namespace": stage.namespace, "name": "data"}
        async with made(stage, PERSISTENT_VOLUMES, pv):
            # then
            await stage.until(lambda: has_node(stage, "web"))
            assert (await stage.get("web", resource=PODS))["spec"]["nodeName"] == selected


# ── preemption ───────────────────────────────────────────────────────────────

HERE = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}


@asynccontextmanager
async def priority(stage: Stage, name: str, value: int, **more: Any) -> AsyncIterator[str]:
    doc = {"metadata": {"name": f"{name}-{stage.namespace}"}, "value": value, **more}
    async with made(stage, PRIORITY_CLASSES, doc) as made_name:
        yield made_name


async def is_gone(stage: Stage, name: str) -> bool:
    try:
        await stage.get(name, resource=PODS)
    except NotFoundError:
        return True
    return False


async def test_a_pod_of_higher_priority_preempts_one_of_lower_priority(stage: Stage) -> None:
    async with priority(stage, "low", 10) as low, priority(stage, "high", 20) as high:
        # given a node that is full of one pod
        await create(stage, PODS, pod("small", cpu="20", priorityClassName=low, **HERE))
        await stage.until(lambda: has_node(stage, "small"))
        # when
        stored = await create(stage, PODS, pod("great", cpu="20", priorityClassName=high, **HERE))
        assert stored["spec"]["priority"] == 20
        await stage.until(lambda: is_gone(stage, "small"))
        # then
        await stage.until(lambda: has_node(stage, "great"))

        async def is_reported() -> bool:
            message = f"Preempted by pod {stored['metadata']['uid']} on node node-1"
            return ("Preempted", message) in await events(stage, "small")

        await stage.until(is_reported)


async def test_a_pod_that_is_not_to_preempt_waits(stage: Stage) -> None:
    async with (
        priority(stage, "low", 10) as low,
        priority(stage, "polite", 20, preemptionPolicy="Never") as polite,
    ):
        # given
        await create(stage, PODS, pod("small", cpu="20", priorityClassName=low, **HERE))
        await stage.until(lambda: has_node(stage, "small"))
        # when
        await create(stage, PODS, pod("great", cpu="20", priorityClassName=polite, **HERE))
        # then
        said = await why_it_waits(stage, "great", "")
        assert said.endswith(" preemption: not eligible due to preemptionPolicy=Never.")
        assert await has_node(stage, "small")


@pytest.mark.parametrize("guarded", ["one", "two"])
async def test_pods_are_preempted_whose_budget_allows_it(stage: Stage, guarded: str) -> None:
    async with priority(stage, "low", 10) as low, priority(stage, "high", 20) as high:
        # given two pods, one of which a budget protects
        budget = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0}}
        budget["spec"]["selector"] = {"matchLabels": {"app": guarded}}
        await create(stage, POD_DISRUPTION_BUDGETS, budget)
        for name in ("one", "two"):
            await create(stage, PODS, pod(name, cpu="12", priorityClassName=low, **HERE))
            await stage.until(lambda name=name: has_node(stage, name))  # type: ignore[misc]
        # when
        await create(stage, PODS, pod("great", cpu="12", priorityClassName=high, **HERE))
        await stage.until(lambda: has_node(stage, "great"))
        # then
        assert not await is_gone(stage, guarded)
        assert await is_gone(stage, "two" if guarded == "one" else "one")
