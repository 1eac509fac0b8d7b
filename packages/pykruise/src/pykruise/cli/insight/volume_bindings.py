"""Volumes of unschedulable pods, if only some nodes can mount them.

names of pods ──pods, PVCs, volumes, nodes, storage classes──▶ list_volume_bindings() ──▶ VolumeBinding of each pod

This module only reads. Objects that the user may not read are ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import find_claim_problems, list_claim_names
from pykruise.cli.insight.node_terms import describe_term
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.cli.insight.refusing_nodes import judge_nodes
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.field_rules import selects
from pykruise.kube.pod_rules.nodes import matches_term
from pykruise.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from pykruise.kube.values.counts import format_first
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.corrections import OF_THE_WORKLOAD, Correction
from pykruise.pods.view.nodes import NodeView, project_node

MOST: Final = 10
"""Maximum number of pods that are examined."""

_NAMED: Final = 3
"""Maximum number of nodes that a text names."""


class VolumeBinding(msgspec.Struct, frozen=True, kw_only=True):
    """Restriction of a pod by the volume of one of its PVCs."""

    words: str
    remedy: str


async def list_volume_bindings(
    client: Client, pods: Iterable[Key], correction: Correction = OF_THE_WORKLOAD
) -> dict[Key, VolumeBinding]:
    """Return the binding of each pod that has one. Only the first MOST pods are examined. `correction`: correction of
    the pods' template.
    """
    claims = [
        (pod, document, claim)
        for pod in list(pods)[:MOST]
        if (document := await read_optional(client, PODS, pod)) is not None
        for claim in await _list_claims(client, pod.namespace, document)
    ]
    nodes = await list_nodes(client) if claims else None
    result: dict[Key, VolumeBinding] = {}
    for pod, document, claim in claims:
        binding = await _find_binding(client, claim, nodes, document, correction)
        if binding is not None:
            result.setdefault(pod, binding)
    return result


async def _list_claims(client: Client, namespace: str, pod: Document) -> list[Document]:
    claims = [
        await read_optional(client, PERSISTENT_VOLUME_CLAIMS, Key(namespace, name))
        for name in list_claim_names(pod)
    ]
    return [claim for claim in claims if claim is not None]


async def describe_claims(client: Client, pod: Key) -> tuple[str, str]:
    """Return the PVCs of a pod that have no volume, each with its problem, and the first known remedy; empty if there
    are no such PVCs.
    """
    names = await _read_claim_names(client, pod)
    problems = await find_claim_problems(client, pod.namespace, names)
    texts = "; ".join(f"PVC {name} {problem.words}" for name, problem in problems.items())
    return texts, next((problem.remedy for problem in problems.values() if problem.remedy), "")


async def _read_claim_names(client: Client, pod: Key) -> list[str]:
    document = await read_optional(client, PODS, pod)
    return [] if document is None else list_claim_names(document)


async def _find_binding(
    client: Client, claim: Document, nodes: Sequence[NodeView] | None, pod: Document, correction: Correction
) -> VolumeBinding | None:
    """Return the binding of a PVC of a pod. `nodes`: all nodes of the cluster; None if the nodes are unknown."""
    name = claim["metadata"]["name"]
    volume_name = get_path(claim, "spec", "volumeName")
    if not volume_name:
        return await _find_binding_of_class(client, claim, nodes)
    volume = await read_optional(client, PERSISTENT_VOLUMES, Key("", str(volume_name)))
    terms = _list_node_terms(volume or {})
    if not terms or nodes is None:
        return None
    able = [node for node in nodes if any(_matches(term, node) for term in terms)]
    what = f"volume {volume_name} of PVC {name}"
    lost = f"if you do not need the data of PVC {name}, delete the PVC, then the pod"
    if await _is_made_by_hand(client, claim):
        wanted = get_path(claim, "spec", "storageClassName")
        lost += f" (first create a PersistentVolume of storage class {wanted} if none is free)"
    if not able:
        labels = " or ".join(filter(None, map(describe_term, terms)))
        return VolumeBinding(
            words=f"no node can mount {what}, which needs a node with {labels}",
            remedy=f"add a node with {labels}; or {lost}",
        )
    nodes_are = f"node{'' if len(able) == 1 else 's'} {format_first([node.name for node in able], _NAMED)}"
    state = judge_nodes(able, pod, correction=correction)
    words = f"only {nodes_are} can mount {what}; {state.words}"
    if state.is_pinned:  # pods on other nodes may use this PVC: the remedy must not delete it
        return VolumeBinding(words=words, remedy=state.remedy)
    return VolumeBinding(words=words, remedy=f"{state.remedy}; or {lost}")


async def _is_made_by_hand(client: Client, claim: Document) -> bool:
    """Whether only a person creates volumes of the storage class of a PVC."""
    wanted = get_path(claim, "spec", "storageClassName")
    storage_class = await read_optional(client, STORAGE_CLASSES, Key("", str(wanted))) if wanted else None
    return storage_class is not None and storage_class.get("provisioner") == _NO_PROVISIONER


async def _find_binding_of_class(
    client: Client, claim: Document, nodes: Sequence[NodeView] | None
) -> VolumeBinding | None:
    """Return the binding of a PVC without a volume, when only a person creates volumes of its storage class, or when
    no node fits the class.
    """
    name, wanted = claim["metadata"]["name"], get_path(claim, "spec", "storageClassName")
    storage_class = await read_optional(client, STORAGE_CLASSES, Key("", str(wanted))) if wanted else None
    if storage_class is None:
        return None
    if storage_class.get("provisioner") != _NO_PROVISIONER:
        return None if nodes is None else _find_binding_of_topologies(name, storage_class, nodes)
    volumes = await _list_volumes(client)
    if volumes is None or any(_is_usable(volume, claim, nodes) for volume in volumes):
        return None
    return VolumeBinding(
        words=f"PVC {name} has no volume: no volume of storage class {wanted} fits, and only a person can create one",
        remedy=f"create a PersistentVolume of storage class {wanted} for a node that can run the pod",
    )


async def _list_volumes(client: Client) -> list[Document] | None:
    """List all volumes; None when the user may not list them."""
    try:
        return list(map(decode, (await client.list(PERSISTENT_VOLUMES)).items))
    except ApiError:
        return None


def _is_usable(volume: Document, claim: Document, nodes: Sequence[NodeView] | None) -> bool:
    """Whether the PVC can be bound to the volume, and a node can mount it. `nodes`: None if they are unknown. The rules
    are those of Kubernetes' `FindMatchingVolume`.
    """
    offered, wanted = volume.get("spec") or {}, claim.get("spec") or {}
    owner = offered.get("claimRef")
    if owner is not None:
        named = (owner.get("namespace"), owner.get("name"))
        return named == (get_path(claim, "metadata", "namespace"), claim["metadata"]["name"])
    if get_path(volume, "status", "phase") not in (None, "Available"):
        return False
    terms = _list_node_terms(volume)
    return (
        offered.get("storageClassName") == wanted.get("storageClassName")
        and (offered.get("volumeMode") or _FILESYSTEM) == (wanted.get("volumeMode") or _FILESYSTEM)
        and set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ())
        and _read_storage(wanted, "resources", "requests") <= _read_storage(offered, "capacity")
        and selects(wanted.get("selector") or {}, get_path(volume, "metadata", "labels"))
        and (not terms or nodes is None or any(_matches(term, node) for term in terms for node in nodes))
    )


def _list_node_terms(volume: Document) -> list[Mapping[str, Any]]:
    return list(get_path(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms") or ())


def _read_storage(spec: Document, *path: str) -> Fraction:
    return parse_quantity(get_path(spec, *path, "storage") or 0)


def _find_binding_of_topologies(
    claim: str, storage_class: Document, nodes: Sequence[NodeView]
) -> VolumeBinding | None:
    """Return the binding of a PVC whose storage class creates volumes only for labels that no node has."""
    terms = [
        {
            "matchExpressions": [
                {**item, "operator": "In"} for item in topology.get("matchLabelExpressions") or ()
            ]
        }
        for topology in storage_class.get("allowedTopologies") or ()
    ]
    if not terms or any(_matches(term, node) for term in terms for node in nodes):
        return None
    name, labels = storage_class["metadata"]["name"], " or ".join(filter(None, map(describe_term, terms)))
    return VolumeBinding(
        words=f"PVC {claim} has no volume: allowedTopologies of storage class {name} need a node with {labels},"
        " and there is none",
        remedy=f"correct allowedTopologies of storage class {name}; or label a node with {labels}",
    )


_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

_FILESYSTEM: Final = "Filesystem"


def _matches(term: Mapping[str, Any], node: NodeView) -> bool:
    return matches_term(term, labels=node.labels, name=node.name)


async def list_nodes(client: Client) -> list[NodeView] | None:
    """List the nodes; None if they cannot be read, for example because the user may not read them."""
    try:
        return [project_node(raw) for raw in (await client.list(NODES)).items]
    except ApiError:
        return None
