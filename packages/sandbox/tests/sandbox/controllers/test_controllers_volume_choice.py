"""Restrictions of a pod's claims on its node."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.documents import encode
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.sandbox.controllers.volume_choice import (
    NO_VOLUME,
    NODE_CONFLICT,
    NOTHING_TO_BIND,
    Hopeless,
    PodVolumes,
    VolumeChoiceWorld,
    volumes_of,
)
from pykruise.sandbox.controllers.volumes import PROVISIONER
from pykruise.sandbox.nodes.specs import NodeSpec, SandboxNodeView, build_node_document, project_node
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView
from support.paper import START
from support.sandbox import Object, pod, small_cluster

BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


class Mirror(dict[Key, DocumentView]):
    """Objects of one kind."""

    @classmethod
    def of(cls, *docs: Object) -> "Mirror":
        views = [project_document(encode(doc)) for doc in docs]
        return cls({view.key: view for view in views})


def meta(name: str, namespace: str = "", **more: Any) -> Object:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1", **more}


def claim(
    name: str, storage: str = "1Gi", *, status: str = "Pending", more: Any = None, **spec: Any
) -> Object:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return {"metadata": meta(name, "default", **(more or {})), "spec": wanted, "status": {"phase": status}}


def volume(name: str, storage: str = "1Gi", *, node: str = "", **spec: Any) -> Object:
    if node:
        is_there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_there]}]}}
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": storage},
        "storageClassName": "late",
        **spec,
    }
    return {"metadata": meta(name), "spec": whole}


LATE = {
    "metadata": meta("late"),
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def world(*docs: Object, classes: Any = (LATE,)) -> VolumeChoiceWorld:
    claims = [doc for doc in docs if "resources" in doc["spec"]]
    volumes = [doc for doc in docs if "capacity" in doc["spec"]]
    return VolumeChoiceWorld(Mirror.of(*claims), Mirror.of(*volumes), Mirror.of(*classes))


def node(name: str, **labels: str) -> SandboxNodeView:
    doc = build_node_document(NodeSpec(name=name), now=START)
    doc["metadata"] |= {"uid": name, "resourceVersion": "1"}
    doc["metadata"]["labels"] |= labels
    return project_node(encode(doc))


def using(*names: str) -> SandboxPodView:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    doc = pod("web", volumes=volumes)
    doc["metadata"] |= meta("web", "default")
    return SandboxPodProjector()(encode(doc))


def found(*docs: Object, names: tuple[str, ...] = ("data",), classes: Any = (LATE,)) -> PodVolumes:
    answer = volumes_of(using(*names), world(*docs, classes=classes))
    assert isinstance(answer, PodVolumes), answer
    return answer


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [claim("data", status="Lost", volumeName="v")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
        ),
        (
            [claim("data", more={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
        ),
        ([claim("data", storageClassName="")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", storageClassName="none")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("data", storageClassName="late", volumeName="v")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
    ids=["missing", "lost", "going", "no class", "an unknown class", "a volume of its own that is not bound"],
)
def test_claims_that_keep_a_pod_from_every_node(docs: list[Object], message: str) -> None:
    assert volumes_of(using("data"), world(*docs)) == Hopeless(message)


def test_a_bound_claim_keeps_to_the_nodes_of_its_volume() -> None:
    # given
    volumes = found(claim("data", volumeName="v", more=BOUND), volume("v", node="n1"))
    # then
    assert volumes.check(node("n1")) == []
    assert volumes.check(node("n2")) == [NODE_CONFLICT]
    assert found(claim("data", volumeName="gone", more=BOUND)).check(node("n1")) == (NO_VOLUME,)


def test_a_claim_that_waits_gets_the_smallest_volume_that_can_be_used_on_the_node() -> None:
    # given
    docs = [
        claim("data", storageClassName="late"),
        volume("large", "9Gi", node="n1"),
        volume("fits", "2Gi", node="n1"),
        volume("far", "1Gi", node="n2"),
        volume("taken", "1Gi", node="n1", claimRef={"namespace": "default", "name": "x", "uid": "u"}),
    ]
    volumes = found(*docs)
    # then
    chosen = volumes.plan_binding(node("n1"))
    assert chosen is not None
    assert [(document.name, given and given.name) for document, given in chosen] == [("data", "fits")]
    assert volumes.check(node("n3")) == [NOTHING_TO_BIND]


def test_a_large_claim_does_not_lose_its_only_volume_to_a_small_one() -> None:
    # given
    docs = [
        claim("a-large", "5Gi", storageClassName="late"),
        claim("b-small", "1Gi", storageClassName="late"),
        volume("five", "5Gi"),
        volume("one", "1Gi"),
    ]
    # when
    chosen = found(*docs, names=("a-large", "b-small")).plan_binding(node("n1"))
    # then
    assert chosen is not None
    assert {document.name: given and given.name for document, given in chosen} == {
        "a-large": "five",
        "b-small": "one",
    }
    # and no volume is chosen twice
    assert found(*docs[:3], names=("a-large", "b-small")).check(node("n1")) == [NOTHING_TO_BIND]


def test_a_volume_can_be_provisioned_where_the_storage_class_allows_it() -> None:
    # given
    there = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}
    made = {**LATE, "provisioner": "example.com/p", "allowedTopologies": [there]}
    volumes = found(claim("data", storageClassName="late"), classes=(made,))
    # then
    chosen = volumes.plan_binding(node("n1", zone="b"))
    assert chosen is not None
    assert [(document.name, given) for document, given in chosen] == [("data", None)]
    assert volumes.check(node("n2", zone="c")) == [NOTHING_TO_BIND]


def test_a_node_that_was_selected_stays_selected() -> None:
    # given
    more = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    made = {**LATE, "provisioner": "example.com/p"}
    volumes = found(claim("data", storageClassName="late", more=more), volume("v"), classes=(made,))
    # then
    assert volumes.check(node("n1")) == []
    assert volumes.check(node("n2")) == [NOTHING_TO_BIND]


# ── in a cluster ─────────────────────────────────────────────────────────────


async def test_a_volume_is_provisioned_in_the_zone_of_the_chosen_node() -> None:
    async with small_cluster(nodes=3) as place:
        # given
        key = "topology.kubernetes.io/zone"
        allowed = [{"matchLabelExpressions": [{"key": key, "values": ["z2"]}]}]
        await place.create(
            STORAGE_CLASSES,
            {
                "metadata": {"name": "late"},
                "provisioner": PROVISIONER,
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": allowed,
            },
        )
        doc = claim("data", storageClassName="late")
        await place.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": doc["spec"]})
        # when
        source = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await place.create(PODS, pod("web", volumes=source))
        await place.until(lambda: place.is_ready("web"))
        # then
        chosen = (await place.get(PODS, "web"))["spec"]["nodeName"]
        assert (await place.get(NODES, chosen))["metadata"]["labels"][key] == "z2"
        bound = await place.get(PERSISTENT_VOLUME_CLAIMS, "data")
        assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == chosen
        made = await place.get(PERSISTENT_VOLUMES, bound["spec"]["volumeName"])
        terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": key, "operator": "In", "values": ["z2"]}]}]


async def test_a_pod_releases_its_node_when_no_volume_is_provisioned() -> None:
    async with small_cluster(nodes=1) as place:
        # given
        doc = {
            "metadata": {"name": "ext"},
            "provisioner": "example.com/none",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await place.create(STORAGE_CLASSES, doc)
        spec = claim("data", storageClassName="ext")["spec"]
        await place.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": spec})
        source = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await place.create(PODS, pod("web", volumes=source))
        await asyncio.sleep(300)
        assert "conditions" not in (await place.get(PODS, "web")).get("status", {})
        # when
        await asyncio.sleep(305)
        # then
        condition = await place.condition("web", "PodScheduled")
        assert (condition["reason"], condition["message"]) == (
            "SchedulerError",
            'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
        )
        # when the claim is deleted in the meantime, the pod's condition names it
        await place.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await asyncio.sleep(700)
        said = (await place.condition("web", "PodScheduled"))["message"]
        assert 'persistentvolumeclaim "data" ' in said
