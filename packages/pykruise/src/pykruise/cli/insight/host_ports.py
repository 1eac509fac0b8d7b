"""Pods that hold the host ports which an unschedulable pod needs.

Sight + an unschedulable pod                     ──▶ explain_own_ports() ──▶ WaitCause
Explanation ──pods of the nodes that are eligible──▶ add_host_ports() ──▶ the Explanation with the pods of other owners

This module only reads. Without permission to list the pods of all namespaces, only pods of the object's namespace are
named.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import WaitCause
from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.cli.insight.volume_bindings import list_nodes
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, annotations_of, decode
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import PODS
from pykruise.kube.values.owners import OwnerReference, controller_of
from pykruise.pods.corrections import Correction, correct_container
from pykruise.pods.reasons import Code
from pykruise.pods.template.node_placement import requirements_of
from pykruise.pods.view.keys import TEMPLATE_HASH_LABEL
from pykruise.pods.view.nodes import NodeView

MOST_EXAMINED: Final = 10
"""Maximum number of waits for which a pod is examined."""

_MOST_NODES: Final = 3
"""Maximum number of nodes whose pods are examined for one wait."""


def list_host_ports(pod: Document) -> set[tuple[int, str]]:
    """Return the ports of its node that a pod needs, each with the protocol."""
    on_host = bool(pod["spec"].get("hostNetwork"))
    return {
        (int(number), str(port.get("protocol") or "TCP"))
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
        if (number := port.get("hostPort") or (port.get("containerPort") if on_host else None))
    }


# ── pods of the same workload ────────────────────────────────────────────────


def explain_own_ports(cause: WaitCause, pod: Document, sight: Sight, *, correction: Correction) -> WaitCause:
    """Return the cause of an unschedulable pod. If other pods of the workload hold its host ports on every eligible
    node, the cause names them: a node runs at most one pod of the workload.
    """
    ports = list_host_ports(pod)
    eligible = _select_eligible(pod, list(sight.nodes.values())) if ports else []
    holders = _map_holders(sight.pods.values(), ports)
    if not eligible or not all(node.name in holders for node in eligible):
        return cause
    held = _describe_holders([holders[node.name] for node in eligible], ports)
    words = f"{cause.words}; {held}: a node can run only one of these pods"
    for container in pod["spec"].get("containers") or ():
        if any(entry.get("hostPort") for entry in container.get("ports") or ()):
            correction = correct_container(
                annotations_of(pod), str(container.get("name")), correction, is_in_place=False
            )
    remedy = f"add nodes, or {correction.change('host ports')}"
    return msgspec.structs.replace(cause, words=words, remedy=remedy)


def _select_eligible(pod: Document, nodes: Sequence[NodeView]) -> list[NodeView]:
    """Return the nodes that could run the pod if its ports were free there."""
    asked = requirements_of(pod["spec"])
    return [node for node in nodes if asked.find_obstacle(node) is None]


def _map_holders(others: Iterable[Document], ports: set[tuple[int, str]]) -> dict[str, Document]:
    """Return a pod that holds one of the ports on its node, by name of the node."""
    return {
        str(other["spec"]["nodeName"]): other
        for other in others
        if other["spec"].get("nodeName")
        and (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and ports & list_host_ports(other)
    }


def _describe_holders(holders: Sequence[Document], ports: set[tuple[int, str]], namespace: str = "") -> str:
    """Describe the pods that hold the ports. The names of pods outside `namespace` contain their namespace; if
    `namespace` is empty, no name does.
    """
    first = holders[:_MOST_NODES]
    named = ", ".join(f"{_name_holder(each, ports, namespace)}" for each in first)
    return named + (f" and on {len(holders) - len(first)} more" if len(holders) > len(first) else "")


def _name_holder(holder: Document, ports: set[tuple[int, str]], namespace: str) -> str:
    meta, owner = holder["metadata"], controller_of(holder)
    where = f"{meta['namespace']}/" if namespace and meta["namespace"] != namespace else ""
    made_by = f" of {_name_creator(owner, meta)}" if owner is not None else ""
    port, _ = min(ports & list_host_ports(holder))
    return f"pod {where}{meta['name']}{made_by} holds host port {port} on {holder['spec']['nodeName']}"


def _name_creator(owner: OwnerReference, metadata: Mapping[str, Any]) -> str:
    """Return the owner of a pod in words; for a ReplicaSet of a Deployment, the Deployment, which users change."""
    suffix = f"-{(metadata.get('labels') or {}).get(TEMPLATE_HASH_LABEL)}"
    if owner.kind == "ReplicaSet" and owner.name.endswith(suffix):
        return f"Deployment {owner.name.removesuffix(suffix)}"
    return f"{owner.kind} {owner.name}"


# ── pods of other owners ─────────────────────────────────────────────────────


async def add_host_ports(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with the pods of other owners that hold host ports of pods that cannot be scheduled."""
    if not any(wait.code == Code.UNSCHEDULABLE and wait.pods for wait in explanation.waits):
        return explanation
    seen: dict[str, Sequence[Document]] = {}
    waits = [
        await _with_holders(client, wait, explanation.namespace, seen)
        if wait.code == Code.UNSCHEDULABLE and wait.pods and number < MOST_EXAMINED
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=rank_waits(waits))


async def _with_holders(
    client: Client, wait: Wait, namespace: str, seen: dict[str, Sequence[Document]]
) -> Wait:
    """Return the wait with the pods that hold ports. `seen`: pods of the nodes that were listed before."""
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None else await read_optional(client, PODS, key)
    ports = set() if pod is None else list_host_ports(pod)
    nodes = await list_nodes(client) if ports else None
    if pod is None or key is None or nodes is None:
        return wait
    owner = controller_of(pod)
    holders: list[Document] = []
    for node in _select_eligible(pod, nodes)[:_MOST_NODES]:
        if node.name not in seen:
            seen[node.name] = await _list_pods_on(client, node.name, key.namespace)
        holders += _map_holders(seen[node.name], ports).values()
    if all(owner is not None and controller_of(each) == owner for each in holders):
        return wait  # the cause of the wait already names pods of the same owner
    return msgspec.structs.replace(
        wait, words=f"{wait.words}; {_describe_holders(holders, ports, key.namespace)}"
    )


async def _list_pods_on(client: Client, node: str, namespace: str) -> Sequence[Document]:
    """Return the pods of a node: of all namespaces, or only of this one if not all can be listed."""
    for place in ("", namespace):
        try:
            listed = await client.list(PODS, place, field_selector=f"spec.nodeName={node}")
        except ApiError:
            continue
        return [decode(raw) for raw in listed.items]
    return ()
