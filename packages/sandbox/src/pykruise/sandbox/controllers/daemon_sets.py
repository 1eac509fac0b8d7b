"""DaemonSets: one pod on every matching node.

DaemonSet + nodes + its pods ──▶ read_snapshot() ──▶ decide_next_step() ──▶ pods to create and to delete, status

Node affinity selects the pod's node, and the scheduler binds the pod, as in Kubernetes. Updates are OnDelete, or
rolling within maxUnavailable. With maxSurge, a second pod is created on the node; when it is available, the old pod is
deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.resources import DAEMON_SETS, PODS
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.operator import Work
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import CREATED_NAME, Plan
from pykruise.runtime.plan import Step as Write
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake, wake_itself
from pykruise.sandbox.controllers import revisions
from pykruise.sandbox.controllers.pods import (
    NODE_VIEWS,
    POD_VIEWS,
    build_pod,
    find_available_time,
    make_document_views,
    pods_of,
    selector_of,
)
from pykruise.sandbox.controllers.revisions import REVISION_LABEL, REVISION_VIEWS, History
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_pod,
    make_normal_note,
    make_warning_note,
    run_each,
)
from pykruise.sandbox.nodes.specs import SandboxNodeView, Taint
from pykruise.sandbox.pod_view import SandboxPodView
from pykruise.sandbox.scheduling.filters import matches_node, tolerates

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints that every daemon pod tolerates. This is the rule of Kubernetes' `AddOrUpdateDaemonPodTolerations`."""


class DaemonSetControllerStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next write."""

    create: tuple[str, ...] = ()
    """Nodes on which a pod must be created."""
    delete: tuple[SandboxPodView, ...] = ()


def node_of(pod: SandboxPodView) -> str:
    """The node of a daemon pod: the node to which it is assigned, or else the node in its affinity."""
    if pod.node_name:
        return pod.node_name
    affinity = (pod.placement.affinity if pod.placement else None) or {}
    terms = get_path(
        affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    for term in terms or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


def is_running_on(owner: DocumentView, node: SandboxNodeView, *, staying: bool) -> bool:
    """Whether the node should run a pod of the set. With `staying`: whether an existing pod may stay on the node."""
    spec = owner.spec["template"]["spec"]
    if not matches_node(spec, node):
        return False
    tolerations = [*(spec.get("tolerations") or ()), *_build_daemon_tolerations(spec)]
    effects = ("NoExecute",) if staying else ("NoSchedule", "NoExecute")
    taints = (*node.taints, *_cordon_taints(node))
    return all(tolerates(tolerations, taint) for taint in taints if taint.effect in effects)


def _cordon_taints(node: SandboxNodeView) -> Sequence[Taint]:
    return (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),) if node.unschedulable else ()


def _build_daemon_tolerations(spec: Document) -> list[Document]:
    keys = [*_TOLERATED]
    if spec.get("hostNetwork"):
        keys.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in keys]


def decide_next_step(
    owner: DocumentView,
    nodes: Sequence[SandboxNodeView],
    pods: Sequence[SandboxPodView],
    *,
    update: str,
    now: Instant,
) -> DaemonSetControllerStep:
    """Decide the next step. `update`: the hash label of the current template's revision."""
    if owner.is_deleting:
        return DaemonSetControllerStep()
    by_node = _group_by_node(pods)
    surges = _compute_surge_limit(owner, of=1) > 0
    create: list[str] = []
    delete: list[SandboxPodView] = []
    for node in nodes:
        there = by_node.get(node.name, [])
        alive = [pod for pod in there if not pod.is_deleting]
        if not is_running_on(owner, node, staying=bool(there)):
            delete += alive
            continue
        over = [pod for pod in alive if pod.is_over]
        delete += over
        running = sorted(
            (pod for pod in alive if not pod.is_over), key=lambda pod: (pod.node_name == "", pod.created_at)
        )
        delete += _select_surplus(owner, running, update=update, now=now) if surges else running[1:]
        if not there or (surges and not running and is_running_on(owner, node, staying=False)):
            create.append(node.name)
    known = {node.name for node in nodes}
    delete += [
        pod for name, there in by_node.items() if name not in known for pod in there if not pod.is_deleting
    ]
    if create or delete:
        return DaemonSetControllerStep(create=tuple(create), delete=tuple(delete))
    if (owner.spec.get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return DaemonSetControllerStep()
    if surges:
        return _plan_surge_step(owner, nodes, by_node, update=update, now=now)
    return DaemonSetControllerStep(delete=_select_outdated(owner, nodes, by_node, update=update, now=now))


def _compute_surge_limit(owner: DocumentView, *, of: int) -> int:
    """Number of nodes that may have a second pod during an update. This is the rule of Kubernetes: `maxSurge`, rounded
    up.
    """
    strategy = owner.spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    said: Any = get_path(strategy, "rollingUpdate", "maxSurge", default=0)
    return resolve(said, of=of, rounding=Rounding.UP)


def _is_available(owner: DocumentView, pod: SandboxPodView, now: Instant) -> bool:
    due = find_available_time(pod, min_ready_s=owner.count("spec", "minReadySeconds"))
    return due is not None and due <= now


def _select_surplus(
    owner: DocumentView, running: Sequence[SandboxPodView], *, update: str, now: Instant
) -> list[SandboxPodView]:
    """Select the pods to delete from one node during an update with maxSurge. One new and one old pod are kept.

    If the node has a new pod, the old pod is deleted when it is not ready, or when the new pod is available.
    """
    new = [pod for pod in running if pod.labels.get(REVISION_LABEL) == update]
    old = [pod for pod in running if pod.labels.get(REVISION_LABEL) != update]
    gone = [*new[1:], *old[1:]]
    if new and old:
        ready = find_available_time(old[0], min_ready_s=0) is not None
        if not ready or _is_available(owner, new[0], now):
            gone.append(old[0])
    return gone


def _plan_surge_step(
    owner: DocumentView,
    nodes: Sequence[SandboxNodeView],
    by_node: Mapping[str, list[SandboxPodView]],
    *,
    update: str,
    now: Instant,
) -> DaemonSetControllerStep:
    """Create second pods within the surge limit. If the old pod on a node is unavailable, the new pod on this
    node is created regardless of the limit.
    """
    desired = sum(is_running_on(owner, node, staying=False) for node in nodes)
    room = _compute_surge_limit(owner, of=desired)
    create: list[str] = []
    candidates: list[str] = []
    leaving: list[SandboxPodView] = []
    delete: list[SandboxPodView] = []
    available = 0
    for node in nodes:
        alive = [pod for pod in by_node.get(node.name, ()) if not pod.is_deleting]
        new = [pod for pod in alive if pod.labels.get(REVISION_LABEL) == update]
        old = [pod for pod in alive if pod.labels.get(REVISION_LABEL) != update]
        if len(new) > 1 or len(old) > 1:
            room -= 1
            continue
        serves = any(_is_available(owner, pod, now) for pod in (old or new))
        available += serves
        if not old:
            continue
        if new:
            room -= 1  # the new pod is not available yet: otherwise the old pod would be deleted
        elif is_running_on(owner, node, staying=False):
            (candidates if serves else create).append(node.name)
        else:
            (leaving if serves else delete).append(old[0])
    # An available pod on a node that no longer matches is deleted only when enough other pods are available.
    delete += leaving[: max(0, available - desired)]
    return DaemonSetControllerStep(create=(*create, *candidates[: max(0, room)]), delete=tuple(delete))


def _select_outdated(
    owner: DocumentView,
    nodes: Sequence[SandboxNodeView],
    by_node: Mapping[str, list[SandboxPodView]],
    *,
    update: str,
    now: Instant,
) -> tuple[SandboxPodView, ...]:
    """Select the old pods to replace now: the unavailable ones, and as many others as maxUnavailable allows."""
    strategy = owner.spec.get("updateStrategy") or {}
    wanted = [node for node in nodes if is_running_on(owner, node, staying=False)]
    rolling: Any = get_path(strategy, "rollingUpdate", "maxUnavailable", default=1)
    budget = max(1, resolve(rolling, of=len(wanted), rounding=Rounding.UP))
    idle: list[SandboxPodView] = []
    serving: list[SandboxPodView] = []
    for node in wanted:
        pods = by_node.get(node.name, [])
        alive = [pod for pod in pods if not pod.is_deleting]
        if not alive:
            budget -= 1
            continue
        pod = alive[0]
        is_available = _is_available(owner, pod, now)
        if pod.labels.get(REVISION_LABEL) == update:
            budget -= not is_available
        elif is_available:
            serving.append(pod)
        else:
            idle.append(pod)
            budget -= 1
    return (*idle, *serving[: max(0, budget)])


def _group_by_node(pods: Sequence[SandboxPodView]) -> dict[str, list[SandboxPodView]]:
    node: dict[str, list[SandboxPodView]] = {}
    for pod in pods:
        node.setdefault(node_of(pod), []).append(pod)
    return node


def compute_daemon_set_status(
    owner: DocumentView,
    nodes: Sequence[SandboxNodeView],
    pods: Sequence[SandboxPodView],
    *,
    update: str,
    now: Instant,
) -> tuple[Document, Instant | None]:
    """Return the status, and when the next pod becomes available."""
    by_node = _group_by_node([pod for pod in pods if not pod.is_deleting])
    counts = dict.fromkeys(("desired", "current", "misscheduled", "ready", "available", "updated"), 0)
    soon: list[Instant] = []
    for node in nodes:
        there = by_node.get(node.name, [])
        if not is_running_on(owner, node, staying=False):
            counts["misscheduled"] += bool(there)
            continue
        counts["desired"] += 1
        if not there:
            continue
        counts["current"] += 1
        pod = min(there, key=lambda pod: (pod.created_at, pod.labels.get(REVISION_LABEL) == update))
        counts["updated"] += pod.labels.get(REVISION_LABEL) == update
        due = find_available_time(pod, min_ready_s=owner.count("spec", "minReadySeconds"))
        if due is not None:
            counts["ready"] += 1
            counts["available"] += due <= now
            soon += [due] if due > now else []
    status: Document = {
        "currentNumberScheduled": counts["current"],
        "numberMisscheduled": counts["misscheduled"],
        "desiredNumberScheduled": counts["desired"],
        "numberReady": counts["ready"],
        "observedGeneration": owner.generation,
    }
    optional = {
        "updatedNumberScheduled": counts["updated"],
        "numberAvailable": counts["available"],
        "numberUnavailable": counts["desired"] - counts["available"],
        "collisionCount": owner.count("status", "collisionCount"),
    }
    status |= {name: count for name, count in optional.items() if count}
    if owner.status.get("conditions"):
        status["conditions"] = owner.status["conditions"]
    return status, min(soon, default=None)


class DaemonSetControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one DaemonSet needs."""

    owner: DocumentView
    nodes: Sequence[SandboxNodeView]
    """Nodes by name."""
    pods: Sequence[SandboxPodView]
    """Pods that the DaemonSet owns."""
    orphans: Sequence[SandboxPodView]
    """Pods in the DaemonSet's namespace that have no owner."""
    history: History
    now: Instant


async def read_snapshot(owner: DocumentView, read: Read[Any]) -> DaemonSetControllerSnapshot | None:
    """Read a snapshot from caches, without requests."""
    if owner.is_deleting:
        return None  # the set's revisions may be deleted or orphaned, so the revision of its pods is unknown
    return DaemonSetControllerSnapshot(
        owner=owner,
        nodes=sorted(read.list_all(NODE_VIEWS), key=lambda node: node.name),
        pods=read.list_owned(POD_VIEWS, owner.uid),
        orphans=read.list_orphans(POD_VIEWS, owner.namespace),
        history=revisions.history_of(owner, read),
        now=read.now(),
    )


def plan_daemon_set(snapshot: DaemonSetControllerSnapshot) -> Plan:
    """Adopt and release pods. Then store the template's revision, delete and create pods, and write the status."""
    owner, pods, history = snapshot.owner, snapshot.pods, snapshot.history
    ownership = ownership_of(owner, selector_of(owner), pods, snapshot.orphans)
    stages = plan_ownership(owner, DAEMON_SETS, PODS, ownership)
    stages += revisions.plan_adoptions(owner, DAEMON_SETS, history)
    if stages:
        return Plan(stages=stages)
    revision = revisions.choose_revision(owner, DAEMON_SETS, history)
    if revision.is_taken:
        return Plan(status={**owner.status, "collisionCount": owner.count("status", "collisionCount") + 1})
    update = revision.name.removeprefix(f"{owner.name}-")
    step = decide_next_step(owner, snapshot.nodes, pods, update=update, now=snapshot.now)
    status, next_at = compute_daemon_set_status(owner, snapshot.nodes, pods, update=update, now=snapshot.now)
    live = {revision.name, *(f"{owner.name}-{pod.labels.get(REVISION_LABEL, '')}" for pod in pods)}
    return Plan(
        stages=(
            *revision.stages,
            *run_each(DELETE, [(pod.name, _delete_pod(pod)) for pod in step.delete]),
            *run_each(CREATE, [(node, _create_pod(owner, node, update)) for node in step.create], ramp=True),
            *revisions.plan_truncations(owner, history, live),
        ),
        status=status,
        requeue_after_s=None if next_at is None else next_at - snapshot.now,
    )


def _create_pod(owner: DocumentView, node: str, update: str) -> Write:
    reference = build_owner_reference_to(DAEMON_SETS, owner)
    pod = build_pod(owner.spec["template"], owner=reference, prefix=f"{owner.name}-")
    pod["metadata"].setdefault("labels", {})[REVISION_LABEL] = update
    spec = pod["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_build_daemon_tolerations(spec)]
    _bind_to_node(spec, node)
    return create_object(
        PODS,
        owner.namespace,
        pod,
        because="the node needs a pod of the set",
        done=make_normal_note("SuccessfulCreate", f"Created pod: {CREATED_NAME}"),
        failed=make_warning_note("FailedCreate", "Error creating"),
    )


def _delete_pod(pod: SandboxPodView) -> Write:
    done = make_normal_note("SuccessfulDelete", f"Deleted pod: {pod.name}")
    return delete_pod(pod, because="another pod replaces it, or it must not run on its node", done=done)


def _bind_to_node(spec: Document, node: str) -> None:
    """Bind the pod to its node by affinity. The template's own node affinity has already been checked."""
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [only]}


DAEMON_SET_VIEWS: Final = make_document_views(DAEMON_SETS)


def _on_node(change: Change[SandboxNodeView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue all DaemonSets, because any of them may have a pod on the node. Heartbeats enqueue nothing."""
    old, new = change.old, change.new
    if old is None or new is None or not new.is_similar(old):
        yield from (owner.key for owner in around.list_all(DAEMON_SET_VIEWS))


WORK: Final = Work(
    resource=DAEMON_SETS,
    control=Control(
        name="daemonsets",
        component="daemonset-controller",
        objects=DAEMON_SET_VIEWS,
        reads=lambda _: (POD_VIEWS, NODE_VIEWS, REVISION_VIEWS),
        wakes=lambda _: (
            wake_itself(DAEMON_SET_VIEWS),
            *pods_of(DAEMON_SETS),
            Wake(on=NODE_VIEWS, keys=_on_node),
        ),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.owner,
        plan=plan_daemon_set,
    ),
)
