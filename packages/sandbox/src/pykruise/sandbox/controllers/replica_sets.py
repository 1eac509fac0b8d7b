"""ReplicaSets: as many pods of a template as are asked for.

ReplicaSet + its pods ──▶ how many to create, which to delete, status ──▶ POST, DELETE, PATCH status

Rules: Kubernetes' replica set controller. The decisions are pure functions; the loop carries them out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log10
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError, ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, REPLICA_SETS
from pykruise.runtime.objects import DocumentView, owner_reference_to, project_document
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import (
    Loop,
    Shared,
    at_once,
    claim,
    slow_start,
)
from pykruise.sandbox.controllers.pods import available_at, pod_from
from pykruise.sandbox.pod_view import PodView, instant_of

__all__ = ["ReplicaSets", "is_active", "replica_set_status", "victims"]

BURST: Final = 500
"""Pods created or deleted in one go."""


def is_active(pod: PodView) -> bool:
    """Whether it counts as one of the wanted pods."""
    return not pod.is_over and not pod.is_deleting


def victims(
    pods: Sequence[PodView], related: Sequence[PodView], *, count: int, now: Instant
) -> list[PodView]:
    """The `count` pods to delete first. `related`: pods of all replica sets of the same owner.

    Rule: `ActivePodsWithRanks`: unassigned, pending, not ready, cheap, crowded on a node, newly ready (to a
    power of ten), often restarted, new ones first.
    """
    crowd = Counter(pod.node_name for pod in related if is_active(pod))

    def rank(pod: PodView) -> tuple[Any, ...]:
        ready = pod.status.condition("Ready")
        is_ready = ready is not None and ready.status == "True"
        ready_s = now - instant_of(ready.last_transition_time, default=now) if ready and is_ready else 0.0
        restarts = max((status.restart_count for status in pod.status.containers), default=0)
        return (
            pod.node_name != "",
            _PHASES.get(pod.status.phase, 1),
            is_ready,
            pod.deletion_cost,
            -crowd[pod.node_name],
            _magnitude(ready_s),
            -restarts,
            _magnitude(now - instant_of(pod.created_at, default=now)),
            pod.uid,
        )

    return sorted(pods, key=rank)[:count]


_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def _magnitude(seconds: float) -> int:
    return int(log10(seconds)) + 1 if seconds >= 1 else 0


def replica_set_status(
    owner: DocumentView, pods: Sequence[PodView], *, now: Instant, failure: tuple[str, str] | None = None
) -> tuple[Document, Instant | None]:
    """The status for these active pods, and when the next of them becomes available.

    `failure`: reason and message of what went wrong with creating or deleting pods, if anything did.
    """
    labels = (owner.spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    min_ready_s = owner.count("spec", "minReadySeconds")
    moments = [available_at(pod, min_ready_s=min_ready_s) for pod in pods]
    ready = [moment for moment in moments if moment is not None]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(moment <= now for moment in ready),
        "observedGeneration": owner.generation,
    }
    status: Document = {"replicas": len(pods)} | {name: count for name, count in counts.items() if count}
    conditions = [one for one in owner.status.get("conditions") or () if one.get("type") != "ReplicaFailure"]
    if failure is not None:
        known = next(
            (one for one in owner.status.get("conditions") or () if one.get("type") == "ReplicaFailure"), None
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


class ReplicaSets(Loop):
    """Keeps the pods of every ReplicaSet."""

    name = "replicasets"
    component = "replicaset-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(REPLICA_SETS)
        self.watch_pods_of(self.cache)

    async def sync(self, key: Key) -> float | None:
        owner = self.cache.get(key)
        if owner is None:
            return None
        pods = self.shared.pods
        mine = await claim(
            self.shared,
            REPLICA_SETS,
            owner,
            PODS,
            pods.by_index(BY_CONTROLLER, owner.uid),
            pods.by_index("orphans", owner.namespace),
        )
        active = [pod for pod in mine if is_active(pod)]
        failure: tuple[str, str] | None = None
        error: ApiError | None = None
        if not owner.is_deleting:
            try:
                await self._scale(owner, active)
            except ApiError as err:
                error = err
                failure = (
                    "FailedCreate"
                    if len(active) < owner.count("spec", "replicas", default=1)
                    else "FailedDelete",
                    str(err),
                )
        active = [pod for pod in pods.by_index(BY_CONTROLLER, owner.uid) if is_active(pod)]
        now = self.clock()
        owner = self.cache.get(key) or owner
        status, next_at = replica_set_status(owner, active, now=now, failure=failure)
        try:
            await self.shared.patch_status(REPLICA_SETS, owner, status)
        except NotFoundError:
            return None
        if error is not None:
            raise error
        return None if next_at is None else next_at - now

    async def _scale(self, owner: DocumentView, active: Sequence[PodView]) -> None:
        missing = owner.count("spec", "replicas", default=1) - len(active)
        if missing > 0:
            await slow_start([lambda: self._create(owner)] * min(missing, BURST))
        elif missing < 0:
            leaving = victims(active, self._related(owner), count=min(-missing, BURST), now=self.clock())
            await at_once(self._delete(owner, pod) for pod in leaving)

    def _related(self, owner: DocumentView) -> list[PodView]:
        """Pods of all replica sets with the same owner."""
        siblings = self.cache.by_index(BY_CONTROLLER, owner.owner_uid) if owner.owner_uid else (owner,)
        return [pod for one in siblings for pod in self.shared.pods.by_index(BY_CONTROLLER, one.uid)]

    async def _create(self, owner: DocumentView) -> None:
        pod = pod_from(
            owner.spec.get("template") or {},
            owner=owner_reference_to(REPLICA_SETS, owner),
            prefix=f"{owner.name}-",
        )
        try:
            made = project_document(await self.writer.create(PODS, owner.namespace, pod))
        except ApiError as err:
            self.tell(REPLICA_SETS, owner, "FailedCreate", f"Error creating: {err}", warning=True)
            raise
        self.tell(REPLICA_SETS, owner, "SuccessfulCreate", f"Created pod: {made.name}")

    async def _delete(self, owner: DocumentView, pod: PodView) -> None:
        try:
            await self.writer.delete(PODS, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return
        except ApiError as err:
            self.tell(REPLICA_SETS, owner, "FailedDelete", f"Error deleting: {err}", warning=True)
            raise
        self.tell(REPLICA_SETS, owner, "SuccessfulDelete", f"Deleted pod: {pod.name}")
