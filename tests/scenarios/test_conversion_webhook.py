"""Conversion as a real API server asks for it: of the manager's webhooks, for every kind with two versions."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.documents import Document, annotations_of, decode, is_same
from pykruise.kube.errors import KubeError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.conversion import KEPT_PREFIX, convert
from support.scenario import Stage

pytestmark = pytest.mark.real

TWO = {crd["spec"]["names"]["kind"]: crd for crd in build_crds() if len(crd["spec"]["versions"]) == 2}

SELECTOR = {"matchLabels": {"app": "a"}}
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80}]}]},
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
IMAGES = {"images": ["nginx"], "completionPolicy": {}}

SPECS: dict[str, Document] = {
    "AdvancedCronJob": {
        "schedule": "0 * * * *",
        "template": {"imageListPullJobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": IMAGES}},
    },
    "BroadcastJob": {"template": TEMPLATE, "parallelism": "10%"},
    "CloneSet": {
        "selector": SELECTOR,
        "template": TEMPLATE,
        "replicas": 0,
        "scaleStrategy": {"enablePVCReuse": False, "excludePreparingDelete": True},
        "updateStrategy": {
            "type": "OnDelete",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": "50%"},
        },
    },
    "ContainerRecreateRequest": {"podName": "a", "containers": [{"name": "main"}], "strategy": {}},
    "DaemonSet": {
        "selector": SELECTOR,
        "template": TEMPLATE,
        "scaleStrategy": {"partitionedScaling": True},
        "updateStrategy": {"type": "OnDelete"},
    },
    "ImageListPullJob": {**IMAGES, "pullPolicy": {"backoffLimit": 1}},
    "ImagePullJob": {"image": "nginx", "completionPolicy": {"type": "Never"}},
    "NodeImage": {
        "images": {
            "nginx": {
                "pullSecrets": [
                    {"namespace": "a", "name": "b", "mode": "batch"},
                    {"namespace": "a", "name": "c"},
                ],
                "tags": [{"tag": "1"}],
            }
        }
    },
    "PersistentPodState": {
        "targetRef": TARGET,
        "requiredPersistentTopology": {"keys": ["zone"]},
        "preferredPersistentTopology": [{"weight": 5, "preference": {"keys": ["host"]}}],
    },
    "PodUnavailableBudget": {
        "selector": SELECTOR,
        "maxUnavailable": 1,
        "protectOperations": ["EVICT", "RESIZE"],
        "protectTotalReplicas": 9,
        "ignoredPodSelector": SELECTOR,
    },
    "ResourceDistribution": {
        "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        "targets": {"namespaceSelector": SELECTOR},
    },
    "SidecarSet": {
        "selector": SELECTOR,
        "namespaceSelector": SELECTOR,
        "containers": [{"name": "s", "image": "i"}],
        "customVersion": "v1",
    },
    "StatefulSet": {
        "selector": SELECTOR,
        "template": TEMPLATE,
        "replicas": 0,
        "podManagementPolicy": "Parallel",
        "reserveOrdinals": [1, "3-5"],
        "scaleStrategy": {"maxUnavailable": "10%"},
        "lifecycle": {"preDelete": {"finalizersHandler": ["a.b/c"]}},
    },
    "UnitedDeployment": {
        "selector": SELECTOR,
        "template": {
            "cloneSetTemplate": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "selector": SELECTOR,
                    "template": TEMPLATE,
                    "scaleStrategy": {"enablePVCReuse": False},
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxSurge": 1},
                    },
                },
            }
        },
    },
    "WorkloadSpread": {
        "targetRef": TARGET,
        "subsets": [
            {
                "name": "a",
                "requiredNodeSelector": TERM,
                "preferredNodeSelector": [{"weight": 1, "preference": TERM}],
                "patch": {"metadata": {"labels": {"a": None}}},
            }
        ],
    },
}
"""Kind → a spec with fields that v1alpha1 does not have, or has in another form."""


@pytest.fixture
async def converting(stage: Stage) -> AsyncIterator[Stage]:
    """The stage, as soon as the manager's webhooks convert every kind; they review nothing during the test.

    At first the CA bundle in the CRDs belongs to no server: the manager must write the right one.
    """
    with stage.past_admission():
        for kind in TWO:
            await stage.until(lambda kind=kind: converts(stage, kind))  # type: ignore[misc]
        yield stage


async def converts(stage: Stage, kind: str) -> bool:
    """Whether the API server knows the webhooks' authority, which it learns a moment after the manager."""
    hub = resource_of(kind)
    spoke = msgspec.structs.replace(hub, version="v1alpha1")
    namespace = stage.namespace if hub.namespaced else ""
    doc = {"apiVersion": hub.api_version, "kind": kind, "metadata": {"name": "x"}, "spec": SPECS[kind]}
    shown = {**convert(doc, spoke.api_version, list_conversions())}
    try:
        await stage.client.create(spoke, namespace, shown, dry_run=True)
    except KubeError as error:
        if "conversion webhook" in str(error):
            return False
        raise
    return True


def resource_of(kind: str) -> Resource:
    spec = TWO[kind]["spec"]
    is_namespaced = spec["scope"] == "Namespaced"
    return Resource(spec["group"], "v1beta1", spec["names"]["plural"], kind, namespaced=is_namespaced)


async def test_every_kind_survives_the_round_trip_through_v1alpha1(converting: Stage) -> None:
    stage = converting
    assert TWO.keys() == {kind for _, kind in list_conversions()} <= SPECS.keys()
    for kind in TWO:
        spec = SPECS[kind]
        # given
        hub = resource_of(kind)
        spoke = msgspec.structs.replace(hub, version="v1alpha1")
        namespace = stage.namespace if hub.namespaced else ""
        name = stage.namespace
        doc = {"apiVersion": hub.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        before = decode(await stage.client.create(hub, namespace, doc))
        # when a client of v1alpha1 reads it, writes all of it with a change, and reads the answer
        shown = decode(await stage.client.get(spoke, namespace, name))
        assert shown["apiVersion"] == spoke.api_version
        shown["metadata"].setdefault("labels", {})["changed"] = "yes"
        answer = decode(await stage.client.update(spoke, namespace, name, shown))
        # then
        after = decode(await stage.client.get(hub, namespace, name))
        assert is_same(after["spec"], before["spec"]), kind
        assert after["metadata"]["labels"]["changed"] == "yes"
        assert not [key for key in annotations_of(after) if key.startswith(KEPT_PREFIX)], kind
        assert is_same(answer["spec"], shown["spec"]), kind
        # and a list and a field selector in the old version work too
        listed = await stage.client.list(spoke, namespace, field_selector=f"metadata.name={name}")
        assert [decode(raw)["apiVersion"] for raw in listed.items] == [spoke.api_version]
        await stage.client.delete(hub, namespace, name)


async def test_meaningless_annotations_do_not_make_a_budget_unreadable(converting: Stage) -> None:
    """podunavailablebudget case 15: a review refuses them; what is stored all the same can be listed."""
    # given
    stage, hub = converting, resource_of("PodUnavailableBudget")
    spoke = msgspec.structs.replace(hub, version="v1alpha1")
    annotations = {"kruise.io/pub-protect-operations": "BOGUS"}
    doc: dict[str, Any] = {
        "apiVersion": spoke.api_version,
        "kind": spoke.kind,
        "metadata": {"name": "b", "annotations": annotations},
        "spec": {},
    }
    # when it is stored without a review
    await stage.client.create(spoke, stage.namespace, doc)
    # then
    for resource in (spoke, hub):
        (raw,) = (await stage.client.list(resource, stage.namespace)).items
        assert annotations.items() <= annotations_of(decode(raw)).items()
    await stage.client.delete(hub, stage.namespace, "b")


async def test_kubectl_style_apply_of_a_v1alpha1_manifest_keeps_what_v1beta1_added(converting: Stage) -> None:
    """Server-side apply: the manager of the old version owns its fields only."""
    # given
    stage = converting
    hub = resource_of("StatefulSet")
    spoke = msgspec.structs.replace(hub, version="v1alpha1")
    manifest = {
        "apiVersion": spoke.api_version,
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE},
    }

    async def apply(replicas: int) -> None:
        manifest["spec"]["replicas"] = replicas  # type: ignore[index]
        await stage.client.patch(
            spoke,
            stage.namespace,
            "web",
            json.loads(json.dumps(manifest)),
            patch_type=PatchType.APPLY,
            field_manager="old-client",
        )

    await apply(0)
    await stage.client.patch(
        hub,
        stage.namespace,
        "web",
        {"spec": {"reserveOrdinals": [2]}},
        patch_type=PatchType.MERGE,
        field_manager="new-client",
    )
    # when
    await apply(3)
    # then
    result = decode(await stage.client.get(hub, stage.namespace, "web"))
    assert (result["spec"]["replicas"], result["spec"]["reserveOrdinals"]) == (3, [2])
    await stage.client.delete(hub, stage.namespace, "web")


async def test_an_applier_that_switches_to_the_newer_version_leaves_nothing_behind(
    converting: Stage,
) -> None:
    """Another client owns the status, so the API server asks for conversions of incomplete objects."""
    stage = converting
    for kind in TWO:
        # given a manifest in v1alpha1 that was applied, and a status
        hub = resource_of(kind)
        spoke = msgspec.structs.replace(hub, version="v1alpha1")
        namespace, name = (stage.namespace if hub.namespaced else ""), f"{stage.namespace}-goes-over"
        metadata = {"name": name, "labels": {"tier": "web", "old": "yes"}}
        newer = {"apiVersion": hub.api_version, "kind": kind, "metadata": metadata, "spec": SPECS[kind]}
        older = convert(newer, spoke.api_version, list_conversions())
        await apply_as(stage, "gitops", spoke, namespace, older)
        await stage.client.patch(
            hub,
            namespace,
            name,
            {"status": least_status(kind)},
            patch_type=PatchType.MERGE,
            subresource="status",
            field_manager="controller",
        )
        before = decode(await stage.client.get(hub, namespace, name))
        # when another one applies another label's value, and the first one its manifest in v1beta1
        other = {**newer, "metadata": {"name": name, "labels": {"tier": "db"}}, "spec": {}}
        with pytest.raises(KubeError) as refused:
            await apply_as(stage, "other", hub, namespace, other)
        assert refused.value.code == 409, kind
        metadata["labels"] = {"tier": "web"}
        await apply_as(stage, "gitops", hub, namespace, newer)
        # then what it no longer names is gone, and all else is there
        after = decode(await stage.client.get(hub, namespace, name))
        assert after["metadata"]["labels"]["tier"] == "web", kind
        assert "old" not in after["metadata"]["labels"], kind
        assert is_same(after["spec"], before["spec"]), kind
        assert after.get("status") == before.get("status"), kind
        assert not [key for key in annotations_of(after) if key.startswith(KEPT_PREFIX)], kind
        await stage.client.delete(hub, namespace, name)


def least_status(kind: str) -> Document:
    """A status with only the fields that the kind's schema requires."""
    version = next(each for each in TWO[kind]["spec"]["versions"] if each["name"] == "v1beta1")
    schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    zeros: Document = {"integer": 0, "string": "", "object": {}, "array": [], "boolean": False}
    required = {
        field: (schema["properties"][field].get("enum") or [zeros[schema["properties"][field]["type"]]])[0]
        for field in schema.get("required", ())
    }
    return required or {"observedGeneration": 1}


async def apply_as(stage: Stage, manager: str, resource: Resource, namespace: str, doc: Document) -> None:
    manifest = json.loads(json.dumps(doc))
    await stage.client.patch(
        resource,
        namespace,
        doc["metadata"]["name"],
        manifest,
        patch_type=PatchType.APPLY,
        field_manager=manager,
    )
