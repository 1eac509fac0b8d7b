"""Bindings of unschedulable pods: the object or volume that binds a pod to nodes, and the state of these nodes.

Explanation with unschedulable pods ──objects of kinds that bind pods (Insight.bindings)──▶ add_bindings()
                                    ──volume_bindings.py──▶

This module only reads, and only when a pod cannot be scheduled. Objects that the user may not read are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.cli.insight.refusing_nodes import judge_nodes
from pykruise.cli.insight.volume_bindings import (
    MOST,
    VolumeBinding,
    describe_claims,
    list_nodes,
    list_volume_bindings,
)
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.insight import Binding
from pykruise.pods.corrections import OF_THE_WORKLOAD, Correction
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView


async def add_bindings(
    client: Client, explanation: Explanation, correction: Correction = OF_THE_WORKLOAD
) -> Explanation:
    """Return the explanation with the bindings of the pods that cannot be scheduled. A volume has precedence over an
    object, because it binds its pod even without the object. `correction`: correction of the pods' template.
    """
    pods = [name for wait in explanation.waits if wait.code == Code.UNSCHEDULABLE for name in wait.pods]
    if not pods:
        return explanation
    keys = {name: key for name in pods if (key := find_pod_key(name, explanation.namespace)) is not None}
    by_volume = await list_volume_bindings(client, keys.values(), correction)
    bound: dict[str, tuple[str, Binding] | VolumeBinding] = {
        binding.pod: (owner, binding) for owner, binding in await list_bindings(client, explanation.namespace)
    }
    bound |= {name: by_volume[key] for name, key in keys.items() if key in by_volume}
    waits = [item for wait in explanation.waits for item in _split_by_binding(wait, bound)]
    nodes = await list_nodes(client) if bound else None
    named = [
        await _with_binding(client, wait, bound, keys=keys, nodes=nodes, correction=correction)
        for wait in waits
    ]
    return msgspec.structs.replace(explanation, waits=rank_waits(named))


async def add_claims(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation of an object whose pods have other owners, with the problems of the pods' PVCs. (When an
    owner of pods is explained, its waits already contain these problems.) Pods with different problems get separate
    waits.
    """
    waits: list[Wait] = []
    for wait in explanation.waits:
        if wait.code == Code.UNBOUND_CLAIMS and 0 < len(wait.pods) <= MOST:
            waits += await _split_by_claims(client, wait, explanation.namespace)
        else:
            waits.append(wait)
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _split_by_claims(client: Client, wait: Wait, namespace: str) -> list[Wait]:
    groups: dict[tuple[str, str], list[str]] = {}
    for name in wait.pods:
        key = find_pod_key(name, namespace)
        text = ("", "") if key is None else await describe_claims(client, key)
        groups.setdefault(text, []).append(name)
    return [
        msgspec.structs.replace(
            wait,
            pods=tuple(names),
            words="; ".join(filter(None, (wait.words, text))),
            remedy=remedy or wait.remedy,
        )
        for (text, remedy), names in groups.items()
    ]


async def list_bindings(client: Client, namespace: str) -> list[tuple[str, Binding]]:
    """List the bindings of a namespace, each with the object that binds the pod."""
    bound: list[tuple[str, Binding]] = []
    if not namespace:
        return bound
    for kind in list_known_kinds():
        if kind.insight is None or kind.insight.bindings is None:
            continue
        try:
            listed = await client.list(kind.resource, namespace)
        except (ForbiddenError, NotFoundError):
            continue
        for document in map(decode, listed.items):
            owner = f"{kind.resource.kind} {document['metadata']['name']}"
            bound += [(owner, binding) for binding in kind.insight.bindings(document)]
    return bound


_Bound = Mapping[str, tuple[str, Binding] | VolumeBinding]


def _split_by_binding(wait: Wait, bound: _Bound) -> Iterator[Wait]:
    """Split a wait: one wait for each bound pod, and one for all other pods."""
    if wait.code != Code.UNSCHEDULABLE:
        yield wait
        return
    for pod in wait.pods:
        if pod in bound:
            yield msgspec.structs.replace(wait, pods=(pod,))
    others = tuple(pod for pod in wait.pods if pod not in bound)
    if others or not wait.pods:
        yield msgspec.structs.replace(wait, pods=others)


async def _with_binding(
    client: Client,
    wait: Wait,
    bound: _Bound,
    *,
    keys: Mapping[str, Key],
    nodes: Sequence[NodeView] | None,
    correction: Correction,
) -> Wait:
    known = bound.get(wait.pods[0]) if len(wait.pods) == 1 else None
    if wait.code != Code.UNSCHEDULABLE or known is None:
        return wait
    if isinstance(known, VolumeBinding):
        return msgspec.structs.replace(wait, words=f"{known.words}; {wait.words}", remedy=known.remedy)
    owner, binding = known
    labels = ", ".join(f"{key}={value}" for key, value in sorted(binding.labels.items()))
    bound_by = (
        f"must run on a node with {labels}, because {owner} recorded that the pod ran on node {binding.node}"
    )
    key = keys.get(wait.pods[0])
    pod = None if key is None else await read_optional(client, PODS, key)
    if nodes is None or pod is None:
        room = f"make room on node {binding.node}, or on another node with these labels"
        return _add_binding(wait, bound_by, f"{room}; or {binding.remedy}")
    able = [
        node
        for node in nodes
        if all(node.labels.get(name) == value for name, value in binding.labels.items())
    ]
    if not able:
        is_gone = all(node.name != binding.node for node in nodes)
        lacks = "no longer exists" if is_gone else "no longer has these labels"
        return _add_binding(
            wait, f"{bound_by}, which {lacks}", f"add a node with {labels}; or {binding.remedy}"
        )
    state = judge_nodes(able, pod, bound_by=binding.labels, correction=correction)
    return _add_binding(wait, f"{bound_by}; {state.words}", f"{state.remedy}; or {binding.remedy}")


def _add_binding(wait: Wait, words: str, remedy: str) -> Wait:
    return msgspec.structs.replace(wait, words=f"{words}; {wait.words}", remedy=remedy)
