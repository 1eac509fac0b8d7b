"""Bindings of unschedulable pods: the object that binds a pod to a node, and the node's state.

Explanation with unschedulable pods ──objects of kinds that bind pods (Insight.bindings)──▶ add_bindings()

This module only reads, and only when a pod cannot be scheduled. Objects that the user may not read add nothing.
"""

from collections.abc import Iterator, Mapping

import msgspec

from pykruise.cli.insight.explaining import Explanation, Wait
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.resources import NODES
from pykruise.plans.insight import Binding
from pykruise.pods.reasons import Code


async def add_bindings(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with the bindings of the pods that cannot be scheduled."""
    if not any(wait.code == Code.UNSCHEDULABLE and wait.pods for wait in explanation.waits):
        return explanation
    bound = {
        binding.pod: (owner, binding)
        for owner, binding in await _list_bindings(client, explanation.namespace)
    }
    waits = [item for wait in explanation.waits for item in _split_by_binding(wait, bound)]
    named = [await _with_binding(client, wait, bound) for wait in waits]
    return msgspec.structs.replace(explanation, waits=tuple(named))


async def _list_bindings(client: Client, namespace: str) -> list[tuple[str, Binding]]:
    """List the bindings of a namespace, each with the object that binds the pod."""
    bound: list[tuple[str, Binding]] = []
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


_Bound = Mapping[str, tuple[str, Binding]]


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


async def _with_binding(client: Client, wait: Wait, bound: _Bound) -> Wait:
    known = bound.get(wait.pods[0]) if len(wait.pods) == 1 else None
    if wait.code != Code.UNSCHEDULABLE or known is None:
        return wait
    owner, binding = known
    node = binding.node
    labels = ", ".join(f"{key}={value}" for key, value in sorted(binding.labels.items()))
    is_gone, how = await _describe_node(client, node)
    words = f"is bound to {labels} by {owner}, as it was on node {node}, which {how}; {wait.words}"
    room = (
        f"add a node with {labels}"
        if is_gone
        else f"make room on node {node} (kubectl uncordon {node} where it is cordoned),"
        " or on another one with its labels"
    )
    return msgspec.structs.replace(wait, words=words, remedy=f"{room}; or {binding.remedy}")


async def _describe_node(client: Client, name: str) -> tuple[bool, str]:
    """Return whether a node is deleted, and its state in words."""
    try:
        node = decode(await client.get(NODES, "", name))
    except NotFoundError:
        return True, "no longer exists"
    except ForbiddenError:
        return False, "takes no pods"
    if get_path(node, "spec", "unschedulable"):
        return False, "is cordoned"
    has_taints = get_path(node, "spec", "taints")
    return False, "has taints that it does not tolerate" if has_taints else "takes no more pods"
