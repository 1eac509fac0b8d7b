"""If a node stops renewing its Lease, its conditions become Unknown, it gets taints, and its pods are evicted. The pods
of a deleted node are deleted.

Lease of a node, renewed ──▶ node-lifecycle: Ready=Unknown, taints ──▶ pods not ready
Node's NoExecute taints  ──▶ taint-eviction: pods that do not tolerate them (any more) are deleted
Node deleted             ──▶ pod-collector:  its pods are deleted without a grace period

Same rules as Kubernetes' node lifecycle, taint eviction and pod garbage collection controllers. A node without a
Lease is ignored, because the component that runs nodes without heartbeats knows their state.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import LEASES, NODES, PODS
from pykruise.runtime.actions import Patch
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Chain, Plan, Stage, Step, Subject
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Later, Wake
from pykruise.sandbox.controllers.pods import BY_NODE, NODE_VIEWS, POD_VIEWS, make_document_views
from pykruise.sandbox.controllers.steps import delete_pod, make_normal_note, patch_pod, run_each, run_in_order
from pykruise.sandbox.nodes.specs import LEASE_NAMESPACE, SandboxNodeView, Taint
from pykruise.sandbox.pod_view import SandboxPodView, instant_of
from pykruise.sandbox.scheduling.filters import tolerates

GRACE_S: Final = 50.0
"""Seconds without a renewal of its Lease after which a node is treated as dead. This is the rule of
`--node-monitor-grace-period`.
"""
_QUARANTINE_S: Final = 40.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_OURS: Final = (UNREACHABLE, NOT_READY, "node.kubernetes.io/unschedulable")


# ── nodes that do not renew their Lease ──────────────────────────────────────

LEASE_VIEWS: Final = make_document_views(LEASES)


class Renewals:
    """Time at which the last renewal of each node's Lease was observed.

    The time in the Lease is not used: clocks differ, and after a restart of this cluster all Leases are old.
    """

    def __init__(self) -> None:
        self.seen_at: dict[str, Instant] = {}


class NodeLifecycleWatched(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one node's life needs."""

    node: SandboxNodeView
    left_s: float | None
    """Seconds until the node is treated as dead; None if it has no Lease."""
    conditions: Sequence[Document]
    """The stored conditions of the node, if they must become Unknown."""
    pods: Sequence[SandboxPodView]
    """Pods on the node, if it is not ready."""
    now: Instant

    @property
    def is_lost(self) -> bool:
        """Whether the conditions of the node must become Unknown."""
        return self.left_s is not None and self.left_s <= 0 and self.node.ready != "Unknown"


async def read_watched(node: SandboxNodeView, read: Read[Any]) -> NodeLifecycleWatched | None:
    """Read a snapshot. Conditions are read from the API server, because the cached nodes do not have all fields."""
    if node.is_deleting:
        return None
    now = read.now()
    seen_at = read.memory_of_kind(Renewals, Renewals).seen_at.get(node.name)
    seen = NodeLifecycleWatched(
        node=node,
        left_s=None if seen_at is None else seen_at + GRACE_S - now,
        conditions=(),
        pods=read.list_by_index(POD_VIEWS, BY_NODE, node.name) if node.ready != "True" else (),
        now=now,
    )
    if not seen.is_lost:
        return seen
    try:
        result = decode(await read.live.get(NODES, "", node.name))
    except NotFoundError:
        return None
    return msgspec.structs.replace(seen, conditions=(result.get("status") or {}).get("conditions") or ())


def plan_life(seen: NodeLifecycleWatched) -> Plan:
    """Set the conditions of a lost node to Unknown. For any other node, write the taints for its conditions; if it is
    not ready, its pods become not ready.
    """
    node = seen.node
    if seen.is_lost:
        return Plan(stages=run_in_order("mark the node", [_build_unknown_step(seen)]), requeue_after_s=0.0)
    wanted = compute_taints(node)
    tainted = [_build_taint_step(node, wanted, seen.now)] if wanted != node.taints else []
    unready = [(pod.name, _build_unready_step(pod, seen.now)) for pod in seen.pods if pod.is_ready]
    return Plan(
        stages=(*run_in_order("taint the node", tainted), *run_each("mark its pods", unready)),
        requeue_after_s=seen.left_s if node.ready == "True" else None,
    )


def _build_unknown_step(seen: NodeLifecycleWatched) -> Step:
    node, at = seen.node, format_time(seen.now)
    conditions = [
        {
            **condition,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": at,
        }
        for condition in seen.conditions
    ]
    action = Patch(
        resource=NODES,
        key=Key("", node.name),
        patch_type=PatchType.STRATEGIC,
        body={"status": {"conditions": conditions}},
        subresource="status",
        uid=node.uid,
    )
    done = make_normal_note("NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
    return Step(action=action, because="its Lease was not renewed in time", done=done)


def _build_taint_step(node: SandboxNodeView, wanted: tuple[Taint, ...], now: Instant) -> Step:
    shown: list[Document] = []
    for taint in wanted:
        entry: Document = {"key": taint.key, "effect": taint.effect}
        if taint.value:
            entry["value"] = taint.value
        since = taint.time_added or (format_time(now) if taint.effect == "NoExecute" else "")
        if since:
            entry["timeAdded"] = since
        shown.append(entry)
    action = Patch(
        resource=NODES,
        key=Key("", node.name),
        patch_type=PatchType.MERGE,
        body={"spec": {"taints": shown or None}},
        uid=node.uid,
        resource_version=str(node.resource_version),
    )
    return Step(action=action, because="its taints must match its conditions")


def _build_unready_step(pod: SandboxPodView, now: Instant) -> Step:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now)}
    body = {"status": {"conditions": [condition]}}
    return patch_pod(pod, body, because="its node is not ready", subresource="status")


def compute_taints(node: SandboxNodeView) -> tuple[Taint, ...]:
    """The taints that a node should have: the taints that others have set, and the taints for its conditions."""
    kept = tuple(taint for taint in node.taints if taint.key not in _OURS)
    wanted: list[tuple[str, str]] = []
    if node.unschedulable:
        wanted.append(("node.kubernetes.io/unschedulable", "NoSchedule"))
    if node.ready in ("Unknown", "False"):
        key = UNREACHABLE if node.ready == "Unknown" else NOT_READY
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    there = {(taint.key, taint.effect): taint for taint in node.taints}
    mine = {pair: there.get(pair) or Taint(*pair) for pair in wanted}
    # Existing taints keep their order, so that two lists with the same taints are equal.
    ordered = [taint for taint in node.taints if taint.key not in _OURS or (taint.key, taint.effect) in mine]
    return (*ordered, *(taint for pair, taint in mine.items() if pair not in there)) if kept or mine else ()


def _on_lease(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    """Record a renewal of a Lease. It usually enqueues nothing, because the next planned check reads the record."""
    if change.key.namespace != LEASE_NAMESPACE:
        return
    seen_at = around.memories.find_kind_memory(Renewals, Renewals).seen_at
    name = change.key.name
    if change.new is None:
        seen_at.pop(name, None)
        return
    seen_at[name] = around.now()
    node = around.get(NODE_VIEWS, Key("", name))
    if change.old is None or (node is not None and node.ready != "True"):
        yield Key("", name)


def _on_node(change: Change[SandboxNodeView], _: Around[Any]) -> Iterator[Key]:
    old, new = change.old, change.new
    if new is None:
        return
    if old is None or (old.ready, old.taints, old.unschedulable) != (
        new.ready,
        new.taints,
        new.unschedulable,
    ):
        yield change.key


LIFECYCLE: Final = Work(
    resource=NODES,
    control=Control(
        name="node-lifecycle",
        component="node-controller",
        objects=NODE_VIEWS,
        reads=lambda _: (LEASE_VIEWS, POD_VIEWS),
        wakes=lambda _: (Wake(on=LEASE_VIEWS, keys=_on_lease), Wake(on=NODE_VIEWS, keys=_on_node)),
        snapshot=read_watched,
        object_of=lambda seen: seen.node,
        plan=plan_life,
        is_current=is_same_object,
    ),
)


# ── pods that do not tolerate their node's taints ────────────────────────────


class Inhabited(msgspec.Struct, frozen=True, kw_only=True):
    """A node and its pods. The node has no uid when it is deleted."""

    node: SandboxNodeView
    pods: Sequence[SandboxPodView]
    now: Instant


async def read_inhabited(node: SandboxNodeView, read: Read[Any]) -> Inhabited | None:
    """Read a snapshot from caches, without requests."""
    if not any(taint.effect == "NoExecute" for taint in node.taints):
        return None
    return Inhabited(node=node, pods=read.list_by_index(POD_VIEWS, BY_NODE, node.name), now=read.now())


def plan_evictions(seen: Inhabited) -> Plan:
    """Delete pods that must not stay, and requeue when the next toleration expires."""
    chains: list[Chain] = []
    next_s: list[float] = []
    for pod in seen.pods:
        if not pod.is_active:
            continue
        left_s = compute_toleration_s(pod, seen.node.taints, seen.now)
        if left_s is None:
            continue
        if left_s > 0:
            next_s.append(left_s)
            continue
        chains.append(Chain(subject=pod.name, steps=_evict_steps(pod, seen.now)))
    stages = (Stage(purpose="evict", chains=tuple(chains), is_independent=True),) if chains else ()
    return Plan(stages=stages, requeue_after_s=min(next_s, default=None))


def compute_toleration_s(pod: SandboxPodView, taints: Iterable[Taint], now: Instant) -> float | None:
    """Seconds that a pod may stay on a node with these NoExecute taints; None means no limit."""
    left: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [toleration for toleration in pod.tolerations if tolerates((toleration,), taint)]
        if not matching:
            return 0.0
        seconds = [
            entry["tolerationSeconds"] for entry in matching if entry.get("tolerationSeconds") is not None
        ]
        if seconds:
            left.append(instant_of(taint.time_added, default=now) + min(seconds) - now)
    return max(0.0, min(left)) if left else None


def _evict_steps(pod: SandboxPodView, now: Instant) -> tuple[Step, ...]:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": format_time(now),
    }
    because = "it does not tolerate a taint of its node"
    note = make_normal_note("TaintManagerEviction", f"Marking for deletion Pod {pod.namespace}/{pod.name}")
    about = Subject(resource=PODS, key=pod.key, uid=pod.uid)
    return (
        patch_pod(pod, {"status": {"conditions": [condition]}}, because=because, subresource="status"),
        delete_pod(pod, because=because, done=msgspec.structs.replace(note, about=about)),
    )


def _on_taints(change: Change[SandboxNodeView], _: Around[Any]) -> Iterator[Key]:
    old, new = change.old, change.new
    if new is not None and (old.taints if old else ()) != new.taints:
        yield change.key


def _on_placed_pod(change: Change[SandboxPodView], around: Around[Any]) -> Iterator[Key]:
    new = change.new
    if new is not None and new.node_name and (change.old is None or not change.old.node_name):
        node = around.get(NODE_VIEWS, Key("", new.node_name))
        if node is not None and node.taints:
            yield Key("", node.name)


EVICTION: Final = Work(
    resource=NODES,
    control=Control(
        name="taint-eviction",
        component="taint-eviction-controller",
        objects=NODE_VIEWS,
        reads=lambda _: (POD_VIEWS,),
        wakes=lambda _: (Wake(on=NODE_VIEWS, keys=_on_taints), Wake(on=POD_VIEWS, keys=_on_placed_pod)),
        snapshot=read_inhabited,
        object_of=lambda seen: seen.node,
        plan=plan_evictions,
        is_current=is_same_object,
    ),
)


# ── pods of deleted nodes ────────────────────────────────────────────────────


async def read_deserted(node: SandboxNodeView, read: Read[Any]) -> Inhabited | None:
    """Read the pods of a deleted node. The API server confirms the deletion, because the cache of nodes may be older
    than the cache of pods.
    """
    if node.uid:
        return None
    pods = read.list_by_index(POD_VIEWS, BY_NODE, node.name)
    if not pods:
        return None
    try:
        await read.live.get(NODES, "", node.name)
    except NotFoundError:
        return Inhabited(node=node, pods=pods, now=read.now())
    return None


def plan_collection(seen: Inhabited) -> Plan:
    """Set the pods to Failed, and delete them without a grace period."""
    chains = tuple(Chain(subject=pod.name, steps=tuple(_collect_steps(pod))) for pod in seen.pods)
    return Plan(stages=(Stage(purpose="collect", chains=chains, is_independent=True),))


def _collect_steps(pod: SandboxPodView) -> Iterator[Step]:
    because = "its node no longer exists"
    if not pod.is_over:
        yield patch_pod(pod, {"status": {"phase": "Failed"}}, because=because, subresource="status")
    yield delete_pod(pod, because=because, grace_period_s=0)


def _on_gone_node(change: Change[SandboxNodeView], _: Around[Any]) -> Iterator[Later]:
    if change.new is None:
        yield Later(change.key, _QUARANTINE_S)


def _on_stray_pod(change: Change[SandboxPodView], around: Around[Any]) -> Iterator[Later]:
    pod = change.new
    if pod is not None and pod.node_name and around.get(NODE_VIEWS, Key("", pod.node_name)) is None:
        yield Later(Key("", pod.node_name), _QUARANTINE_S)


POD_COLLECTION: Final = Work(
    resource=NODES,
    control=Control(
        name="pod-collector",
        component="pod-garbage-collector",
        objects=NODE_VIEWS,
        reads=lambda _: (POD_VIEWS,),
        wakes=lambda _: (Wake(on=NODE_VIEWS, keys=_on_gone_node), Wake(on=POD_VIEWS, keys=_on_stray_pod)),
        absent=lambda key: SandboxNodeView(name=key.name),
        snapshot=read_deserted,
        object_of=lambda seen: seen.node,
        plan=plan_collection,
        is_current=is_same_object,
    ),
)
