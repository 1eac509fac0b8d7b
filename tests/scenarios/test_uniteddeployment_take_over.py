"""A UnitedDeployment that OpenKruise's manager has made is taken over: nothing is created again, and no pod is touched.

The objects are as that manager stores them. Revisions of CloneSet templates have only the label of their hash, and
revisions of other kinds have the template's labels; all have the number 1. Nulls and empty objects, which a typed Go
client adds, are there too.
"""

import asyncio
from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.revisions import candidate_of
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    PATCH_ANNOTATION,
    REVISION_LABEL,
    STATEFUL_SET,
    SUBSET_LABEL,
    TEMPLATES,
)
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.pods.workload.revisions import hash_revision
from support.daemonsets import Pool
from support.scenario import Object, Stage
from support.uniteddeployments import ALL_TEMPLATES, NAME, United

PATCH = {"spec": {"terminationGracePeriodSeconds": 5}}


@pytest.fixture
async def united(stage: Stage, pool: Pool, request: pytest.FixtureRequest) -> United:
    united = United(stage, pool, request.param)
    await united.label_nodes()
    return united


class Original:
    """Objects that OpenKruise's manager stores for a UnitedDeployment with subsets a (patched) and b, two pods each."""

    def __init__(self, united: United, stored: Object) -> None:
        self._united = united
        self._stored = stored
        self._template: Object = stored["spec"]["template"][united.template]
        self.revision = self._revision()

    @property
    def _owner(self) -> Object:
        return build_owner_reference(
            api_version="apps.kruise.io/v1beta1",
            kind="UnitedDeployment",
            name=NAME,
            uid=self._stored["metadata"]["uid"],
        )

    def _revision(self) -> Object:
        kind, template = self._united.template, self._template
        data = {"spec": {"template": {"$patch": "replace", kind: as_go_writes(kind, template)}}}
        hash_ = hash_revision(candidate_of({kind: template}).data, 0)
        labels = {} if kind == CLONE_SET else dict(template["metadata"]["labels"])
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{NAME}-{hash_}",
                "labels": {**labels, "controller.kubernetes.io/hash": hash_},
                "ownerReferences": [self._owner],
            },
            "revision": 1,
            "data": data,
        }

    def workload(self, subset: str, suffix: str) -> Object:
        """The workload of a subset, with this suffix of its name."""
        kind = self._united.template
        resource, name = TEMPLATES[kind], self.revision["metadata"]["name"]
        spec: Object = {**self._template["spec"], "replicas": 2}
        spec["selector"] = {"matchLabels": {"app": NAME, SUBSET_LABEL: subset}}
        term = {"matchExpressions": [{"key": self._united.label, "operator": "In", "values": [subset]}]}
        nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod = {**spec["template"]["spec"], "affinity": {"nodeAffinity": nodes}}
        labels = {"app": NAME, SUBSET_LABEL: subset, REVISION_LABEL: name}
        patch = ""
        if subset == "a":
            pod |= PATCH["spec"]
            patch = '{"spec":{"terminationGracePeriodSeconds":5}}'
        spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
        if kind == CLONE_SET:
            spec["updateStrategy"] = {"rollingUpdate": {"partition": 0}}
        elif kind == STATEFUL_SET:
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        elif kind == ADVANCED_STATEFUL_SET:
            spec["updateStrategy"] = {"rollingUpdate": {"partition": 0}}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "generateName": f"{NAME}-{subset}-",
                "name": f"{NAME}-{subset}-{suffix}",
                "labels": labels,
                "annotations": {PATCH_ANNOTATION: patch},
                "ownerReferences": [self._owner],
            },
            "spec": spec,
        }

    def status(self) -> Object:
        name = self.revision["metadata"]["name"]
        entries = [{"name": text, "replicas": 2, "readyReplicas": 2} for text in "ab"]
        return {
            "observedGeneration": 1,
            "replicas": 4,
            "readyReplicas": 4,
            "updatedReplicas": 4,
            "updatedReadyReplicas": 4,
            "currentRevision": name,
            "updatedRevision": name,
            "labelSelector": f"app={NAME}",
            "subsetStatuses": entries,
        }


def as_go_writes(kind: str, template: Object) -> Object:
    """The template with the fields that a typed client adds."""
    spec: Object = {**template["spec"], "template": with_null_time(template["spec"]["template"])}
    if kind in (STATEFUL_SET, ADVANCED_STATEFUL_SET, CLONE_SET):
        spec.setdefault("updateStrategy", {})
    if kind == DEPLOYMENT:
        spec.setdefault("strategy", {})
    if kind == CLONE_SET:
        spec.setdefault("scaleStrategy", {})
    return {"metadata": {"creationTimestamp": None, **template["metadata"]}, "spec": spec}


def with_null_time(template: Object) -> Object:
    pod = {**template["spec"]}
    pod["containers"] = [{**container, "resources": {}} for container in pod["containers"]]
    return {"metadata": {"creationTimestamp": None, **template["metadata"]}, "spec": pod}


async def taken_from(united: United) -> Original:
    """The objects of the original, with their pods, and no manager of UnitedDeployments at work."""
    stage = united.stage
    stored = await united.create(united.subset("a", patch=PATCH), united.subset("b"), replicas=4)
    original = Original(united, stored)
    await stage.create(original.revision, resource=CONTROLLER_REVISIONS)
    for subset, suffix in (("a", "x7k2p"), ("b", "qq4td")):
        await stage.create(original.workload(subset, suffix), resource=TEMPLATES[united.template])
    await stage.merge(NAME, {"status": original.status()}, resource=UNITED_DEPLOYMENTS, subresource="status")
    return original


@pytest.mark.parametrize("united", ALL_TEMPLATES, indirect=True)
async def test_workloads_created_by_openkruise_are_taken_over_without_a_write(
    stage: Stage, united: United
) -> None:
    original = await taken_from(united)
    seen = MeteredTransport(stage.manager_transport())
    await stage.start_manager(seen)

    await united.settled(a=2, b=2)
    await asyncio.sleep(2)

    names = {name: workload["metadata"]["name"] for name, workload in (await united.workloads()).items()}
    assert names == {"a": "web-a-x7k2p", "b": "web-b-qq4td"}
    revisions = [
        entry["metadata"]["name"]
        for entry in await stage.stored(CONTROLLER_REVISIONS)
        if entry["metadata"]["ownerReferences"][0]["kind"] == "UnitedDeployment"
    ]
    assert revisions == [original.revision["metadata"]["name"]]
    plural = TEMPLATES[united.template].plural
    written = {what for what in seen.requests if not what.startswith(("GET ", "WATCH "))}
    assert f"POST {plural}" not in written
    assert f"PATCH {plural}" not in written, "no workload is written to"
    assert f"DELETE {plural}" not in written


@pytest.mark.parametrize("united", [CLONE_SET, DEPLOYMENT], indirect=True)
async def test_a_taken_over_united_deployment_is_scaled_and_updated(stage: Stage, united: United) -> None:
    original = await taken_from(united)
    await stage.start_manager()
    await united.settled(a=2, b=2)

    await united.set_image("nginx:2", replicas=6)
    status = await united.settled(a=3, b=3)

    first = original.revision["metadata"]["name"]
    assert status["updatedRevision"] != first
    # and rolled back to the revision that the original stored
    await united.set_image("nginx:1")
    status = await united.settled(a=3, b=3)
    assert status["updatedRevision"] == first


def test_the_bytes_of_a_revision_are_those_of_a_typed_client() -> None:
    """The keys are sorted; the patch directive and the fields that such a client always writes are there."""
    template: dict[str, Any] = {
        CLONE_SET: {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "minReadySeconds": 0,
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
                },
            },
        }
    }
    assert candidate_of(template).data.decode() == (
        '{"spec":{"template":{"$patch":"replace","cloneSetTemplate":{"metadata":{"creationTimestamp":null,'
        '"labels":{"app":"web"}},"spec":{"scaleStrategy":{},"selector":{"matchLabels":{"app":"web"}},'
        '"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":'
        '[{"image":"nginx:1","name":"main","resources":{}}]}},"updateStrategy":{}}}}}}'
    )


def restorable(item: Object) -> Object:
    """The object as a backup tool restores it: without UID, owners and status."""
    kept = {key: item["metadata"].get(key) or {} for key in ("name", "labels", "annotations")}
    return {key: value for key, value in item.items() if key != "status"} | {"metadata": kept}


@pytest.mark.parametrize("united", ALL_TEMPLATES, indirect=True)
async def test_workloads_that_were_restored_before_their_united_deployment_are_adopted(
    stage: Stage, united: United
) -> None:
    """uniteddeployment case 25: docs/operations.md describes backups"""
    # given
    resource = TEMPLATES[united.template]
    await stage.start_manager()
    await united.create(replicas=5)
    await united.settled(a=2, b=3)
    workloads = {item["metadata"]["name"]: restorable(item) for item in await stage.stored(resource)}
    owner = restorable(await united.get())
    await stage.delete(NAME, resource=UNITED_DEPLOYMENTS)

    async def is_empty() -> bool:
        kinds = (UNITED_DEPLOYMENTS, resource, CONTROLLER_REVISIONS, PODS)
        return not any([await stage.stored(kind) for kind in kinds])

    await stage.until(is_empty)
    for workload in workloads.values():
        await stage.create(workload, resource=resource)
    await stage.until(lambda: _has_pods(united, 5))
    pods = {pod.uid for pod in await united.pods()}
    # when
    await stage.create(owner, resource=UNITED_DEPLOYMENTS)
    await united.settled(a=2, b=3)
    await asyncio.sleep(5)
    # then
    stored = await stage.stored(resource)
    assert {item["metadata"]["name"] for item in stored} == set(workloads)
    assert all(item["metadata"]["ownerReferences"][0]["name"] == NAME for item in stored)
    assert {pod.uid for pod in await united.pods()} == pods


async def _has_pods(united: United, count: int) -> bool:
    return len(await united.pods()) == count
