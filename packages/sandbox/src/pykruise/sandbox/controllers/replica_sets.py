"""ReplicaSets: the requested number of pods from a template.

ReplicaSet + its pods ──▶ read_snapshot() ──▶ plan_replica_set() ──▶ pods to create or delete, status

Same rules as Kubernetes' replica set controller.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log10
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import PODS, REPLICA_SETS
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Failure
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.operator import Work
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import CREATED_NAME, Plan, Stage, Step
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself
from pykruise.sandbox.controllers.pods import (
    POD_VIEWS,
    build_pod,
    find_available_time,
    make_document_views,
    pods_of,
    selector_of,
)
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_pod,
    make_normal_note,
    make_warning_note,
    run_each,
)
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

BURST: Final = 500
"""Maximum number of pods that one plan creates or deletes."""


def select_victims(
    pods: Sequence[SandboxPodView], related: Sequence[SandboxPodView], *, count: int, now: Instant
) -> list[SandboxPodView]:
    """Select the `count` pods to delete first. `related`: pods of all replica sets of the same owner.

    This is the rule of `ActivePodsWithRanks`: first pods that are unassigned, pending, not ready, of low deletion cost,
    on nodes with many related pods, ready for a short time, often restarted, new. Durations of the same power of ten
    count as equal.
    """
    crowd = Counter(pod.node_name for pod in related if pod.is_active)

    def rank(pod: SandboxPodView) -> tuple[Any, ...]:
        ready = pod.status.find_condition("Ready")
        is_ready = ready is not None and ready.status == "True"
        ready_s = now - instant_of(ready.last_transition_time, default=now) if ready and is_ready else 0.0
        restarts = max((status.restart_count for status in pod.status.containers), default=0)
        return (
            pod.node_name != "",
            _PHASES.get(pod.status.phase, 1),
            is_ready,
            pod.deletion_cost,
            -crowd[pod.node_name],
            _count_decimal_digits(ready_s),
            -restarts,
            _count_decimal_digits(now - instant_of(pod.created_at, default=now)),
            pod.uid,
        )

    return sorted(pods, key=rank)[:count]


_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def _count_decimal_digits(seconds: float) -> int:
    return int(log10(seconds)) + 1 if seconds >= 1 else 0


def compute_replica_set_status(
    owner: DocumentView,
    pods: Sequence[SandboxPodView],
    *,
    now: Instant,
    failure: tuple[str, str] | None = None,
) -> tuple[Document, Instant | None]:
    """Return the status for these active pods, and when the next of them becomes available.

    `failure`: reason and message of a failed creation or deletion of pods, if there was one.
    """
    labels = (owner.spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    min_ready_s = owner.count("spec", "minReadySeconds")
    moments = [find_available_time(pod, min_ready_s=min_ready_s) for pod in pods]
    ready = [moment for moment in moments if moment is not None]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(moment <= now for moment in ready),
        "observedGeneration": owner.generation,
    }
    status: Document = {"replicas": len(pods)} | {name: count for name, count in counts.items() if count}
    conditions = [
        condition
        for condition in owner.status.get("conditions") or ()
        if condition.get("type") != "ReplicaFailure"
    ]
    if failure is not None:
        known = next(
            (
                condition
                for condition in owner.status.get("conditions") or ()
                if condition.get("type") == "ReplicaFailure"
            ),
            None,
        )
        conditions.append(
            known
            or {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": failure[0],
                "message": failure[1],
                "lastTransitionTime": format_time(now),
            }
        )
    if conditions:
        status["conditions"] = conditions
    return status, min((moment for moment in ready if moment > now), default=None)


class ReplicaSetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one ReplicaSet needs."""

    owner: DocumentView
    pods: Sequence[SandboxPodView]
    """Pods that the ReplicaSet owns."""
    orphans: Sequence[SandboxPodView]
    """Pods in the ReplicaSet's namespace that have no owner."""
    active: Sequence[SandboxPodView]
    """Pods of the ReplicaSet that are counted as replicas."""
    related: Sequence[SandboxPodView] = ()
    """Pods of all replica sets with the same owner, if this replica set has too many pods."""
    now: Instant


async def read_snapshot(owner: DocumentView, read: Read[Any]) -> ReplicaSetSnapshot:
    """Read a snapshot from caches, without requests."""
    pods = read.list_owned(POD_VIEWS, owner.uid)
    active = [pod for pod in pods if pod.is_active]
    related: Sequence[SandboxPodView] = ()
    if len(active) > _count_replicas(owner):
        siblings = read.list_owned(REPLICA_SET_VIEWS, owner.owner_uid) if owner.owner_uid else (owner,)
        related = [pod for sibling in siblings for pod in read.list_owned(POD_VIEWS, sibling.uid)]
    return ReplicaSetSnapshot(
        owner=owner,
        pods=pods,
        orphans=read.list_orphans(POD_VIEWS, owner.namespace),
        active=active,
        related=related,
        now=read.now(),
    )


def _count_replicas(owner: DocumentView) -> int:
    return owner.count("spec", "replicas", default=1)


def plan_replica_set(snapshot: ReplicaSetSnapshot) -> Plan:
    """Adopt and release pods, then create or delete pods, then write the status."""
    owner = snapshot.owner
    ownership = ownership_of(owner, selector_of(owner), snapshot.pods, snapshot.orphans)
    if not ownership.is_settled:
        return Plan(stages=plan_ownership(owner, REPLICA_SETS, PODS, ownership))
    stages = () if owner.is_deleting else _plan_scale_stages(snapshot)
    kept = _find_failure(owner) if stages else None
    status, next_at = compute_replica_set_status(owner, snapshot.active, now=snapshot.now, failure=kept)
    again_s = None if next_at is None else next_at - snapshot.now
    return Plan(stages=stages, status=status, requeue_after_s=again_s)


def compute_status_after(snapshot: ReplicaSetSnapshot, plan: Plan, failure: Failure) -> Document | None:
    """Return the status after pods could not be created or deleted."""
    if not isinstance(failure.error, ApiError) or failure.purpose not in (CREATE, DELETE):
        return None
    reason = "FailedCreate" if failure.purpose == CREATE else "FailedDelete"
    problem = (reason, str(failure.error))
    return compute_replica_set_status(snapshot.owner, snapshot.active, now=snapshot.now, failure=problem)[0]


def _find_failure(owner: DocumentView) -> tuple[str, str] | None:
    """The failed creation or deletion that the status shows. It stays there until no pod is missing or surplus."""
    for condition in owner.status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure":
            return condition.get("reason", ""), condition.get("message", "")
    return None


def _plan_scale_stages(snapshot: ReplicaSetSnapshot) -> tuple[Stage, ...]:
    owner, active = snapshot.owner, snapshot.active
    missing = _count_replicas(owner) - len(active)
    if missing == 0:
        return ()
    if missing > 0:
        return run_each(CREATE, [("", _create_pod(owner))] * min(missing, BURST), ramp=True)
    leaving = select_victims(active, snapshot.related, count=min(-missing, BURST), now=snapshot.now)
    return run_each(DELETE, [(pod.name, _delete_pod(pod)) for pod in leaving])


def _create_pod(owner: DocumentView) -> Step:
    template, reference = owner.spec.get("template") or {}, build_owner_reference_to(REPLICA_SETS, owner)
    return create_object(
        PODS,
        owner.namespace,
        build_pod(template, owner=reference, prefix=f"{owner.name}-"),
        because="there are fewer pods than replicas",
        done=make_normal_note("SuccessfulCreate", f"Created pod: {CREATED_NAME}"),
        failed=make_warning_note("FailedCreate", "Error creating"),
    )


def _delete_pod(pod: SandboxPodView) -> Step:
    return delete_pod(
        pod,
        because="there are more pods than replicas",
        done=make_normal_note("SuccessfulDelete", f"Deleted pod: {pod.name}"),
        failed=make_warning_note("FailedDelete", "Error deleting"),
    )


REPLICA_SET_VIEWS: Final = make_document_views(REPLICA_SETS)

WORK: Final = Work(
    resource=REPLICA_SETS,
    control=Control(
        name="replicasets",
        component="replicaset-controller",
        objects=REPLICA_SET_VIEWS,
        reads=lambda _: (POD_VIEWS,),
        wakes=lambda _: (wake_itself(REPLICA_SET_VIEWS), *pods_of(REPLICA_SETS)),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.owner,
        plan=plan_replica_set,
        failed=compute_status_after,
    ),
)
