"""Deployments: replica sets that replace each other.

Deployment + ReplicaSets ──▶ rollouts.next_step() ──▶ POST, PATCH, DELETE replicasets ──▶ woken again
                         └──▶ deployment_status()  ──▶ PATCH status (conditions, counts)

Rules: Kubernetes' deployment controller, with the texts of its conditions and events.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kube.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, same
from pykruise.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, REPLICA_SETS
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Loop, Shared, claim, selects
from pykruise.sandbox.controllers.rollouts import (
    REVISION,
    Sets,
    Step,
    group,
    is_complete,
    next_step,
    progress_since,
    replicas_of,
    size_annotations,
    surge_and_unavailable,
)
from pykruise.sandbox.pod_view import PodView

__all__ = ["Deployments", "deployment_status"]

_NO_DEADLINE: Final = 2**31 - 1


def deployment_status(
    deployment: DocumentView, sets: Sets, *, now: Instant, failure: str = ""
) -> tuple[Document, Instant | None]:
    """The status, and when the rollout's deadline passes (None: it has none, or it is of no concern).

    `failure`: why the new replica set could not be created.
    """
    old = deployment.status
    replicas = sum(one.count("status", "replicas") for one in sets.all)
    available = sum(one.count("status", "availableReplicas") for one in sets.all)
    counts = {
        "observedGeneration": deployment.generation,
        "replicas": replicas,
        "updatedReplicas": sets.new.count("status", "replicas") if sets.new else 0,
        "readyReplicas": sum(one.count("status", "readyReplicas") for one in sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(replicas_of, sets.all)) - available),
    }
    status: Document = {name: count for name, count in counts.items() if count}
    if old.get("collisionCount"):
        status["collisionCount"] = old["collisionCount"]
    conditions = [dict(one) for one in old.get("conditions") or ()]
    _set(conditions, _available(deployment, available), now)
    deadline = _progress(deployment, sets, old, status, conditions, now, failure)
    failures = [
        one
        for view in sets.all
        for one in view.status.get("conditions") or ()
        if one.get("type") == "ReplicaFailure"
    ]
    conditions = [one for one in conditions if one["type"] != "ReplicaFailure"]
    if failures:
        told = {name: failures[0].get(name, "") for name in ("reason", "message")}
        _set(conditions, {"type": "ReplicaFailure", "status": "True", **told}, now)
    if conditions:
        status["conditions"] = conditions
    return status, deadline


def _available(deployment: DocumentView, available: int) -> Document:
    _, unavailable = surge_and_unavailable(deployment)
    if available >= replicas_of(deployment) - unavailable:
        return _condition(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    text = "Deployment does not have minimum availability."
    return _condition("Available", "False", "MinimumReplicasUnavailable", text)


def _progress(
    deployment: DocumentView,
    sets: Sets,
    old: Document,
    status: Document,
    conditions: list[Document],
    now: Instant,
    failure: str,
) -> Instant | None:
    """Bring the condition Progressing up to date; the moment of the deadline, while it counts."""
    limit_s = deployment.spec.get("progressDeadlineSeconds")
    if limit_s is None or limit_s >= _NO_DEADLINE:
        conditions[:] = [one for one in conditions if one["type"] != "Progressing"]
        return None
    known = next((one for one in conditions if one["type"] == "Progressing"), None)
    reason = known["reason"] if known else ""
    if failure:
        _set(conditions, _condition("Progressing", "False", "ReplicaSetCreateError", failure), now)
        return None
    if deployment.spec.get("paused"):
        if reason != "DeploymentPaused" and reason != "ProgressDeadlineExceeded":
            paused = _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
            _set(conditions, paused, now)
        return None
    if reason == "DeploymentPaused":
        resumed = _condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
        _set(conditions, resumed, now)
        known = next(one for one in conditions if one["type"] == "Progressing")
    if known is None and sets.new is not None:
        text = f'Created new replica set "{sets.new.name}"'
        _set(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", text), now)
        known = conditions[-1]
    name = f'ReplicaSet "{sets.new.name}"' if sets.new else f'Deployment "{deployment.name}"'
    if status.get("replicas", 0) == status.get("updatedReplicas", 0) and reason == "NewReplicaSetAvailable":
        return None
    if is_complete(deployment, status):
        text = f"{name} has successfully progressed."
        _set(conditions, _condition("Progressing", "True", "NewReplicaSetAvailable", text), now)
        return None
    if _has_progressed(old, status):
        made = _condition("Progressing", "True", "ReplicaSetUpdated", f"{name} is progressing.")
        at = format_time(now)
        since = known["lastTransitionTime"] if known and known["status"] == "True" else at
        conditions[:] = [one for one in conditions if one["type"] != "Progressing"]
        conditions.append({**made, "lastUpdateTime": at, "lastTransitionTime": since})
        return now + float(limit_s)
    if known is None or known["reason"] == "NewReplicaSetAvailable":
        return None
    due = progress_since(known) + float(limit_s)
    if due < now and known["reason"] != "ProgressDeadlineExceeded":
        text = f"{name} has timed out progressing."
        _set(conditions, _condition("Progressing", "False", "ProgressDeadlineExceeded", text), now)
        return None
    return due if due >= now else None


def _has_progressed(old: Document, new: Document) -> bool:
    def left(status: Document) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return left(new) < left(old) or any(
        new.get(name, 0) > old.get(name, 0)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _condition(kind: str, status: str, reason: str, message: str) -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _set(conditions: list[Document], new: Document, now: Instant) -> None:
    """Put a condition in; one of the same status and reason stays as it is."""
    known = next((one for one in conditions if one["type"] == new["type"]), None)
    at = format_time(now)
    if known is None:
        conditions.append({**new, "lastUpdateTime": at, "lastTransitionTime": at})
        return
    if (known["status"], known["reason"]) == (new["status"], new["reason"]):
        return
    since = known["lastTransitionTime"] if known["status"] == new["status"] else at
    conditions.remove(known)
    conditions.append({**new, "lastUpdateTime": at, "lastTransitionTime": since})


class Deployments(Loop):
    """Rolls out every Deployment."""

    name = "deployments"
    component = "deployment-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(DEPLOYMENTS)
        self.sets = shared.cache(REPLICA_SETS)
        self.sets.subscribe(self._on_set)
        shared.pods.subscribe(self._on_pod)

    def _on_set(self, change: Change[DocumentView]) -> None:
        for view in (change.old, change.new):
            if view is None:
                continue
            for owner in self.cache.by_index("uid", view.owner_uid):
                self.queue.add(owner.key)
            if not view.owner_uid and view is change.new:
                for owner in self.cache.by_index("namespace", view.namespace):
                    if selects(owner, view.labels):
                        self.queue.add(owner.key)

    def _on_pod(self, change: Change[PodView]) -> None:
        """Recreate waits for the last old pod to go."""
        if change.old is None or change.new is not None:
            return
        for view in self.sets.by_index("uid", change.old.owner_uid):
            for owner in self.cache.by_index("uid", view.owner_uid):
                if (owner.spec.get("strategy") or {}).get("type") == "Recreate":
                    self.queue.add(owner.key)

    async def sync(self, key: Key) -> float | None:
        deployment = self.cache.get(key)
        if deployment is None:
            return None
        mine = await claim(
            self.shared,
            DEPLOYMENTS,
            deployment,
            REPLICA_SETS,
            self.sets.by_index(BY_CONTROLLER, deployment.uid),
            self.sets.by_index("orphans", deployment.namespace),
        )
        sets = group(deployment, mine)
        busy = frozenset(one.uid for one in sets.old if self._has_pods(one))
        step = next_step(deployment, sets, busy=busy, now=self.clock())
        failure = ""
        try:
            await self._carry_out(deployment, sets, step)
        except AlreadyExistsError:
            await self._collided(deployment, step)
            return 0.0
        except ApiError as err:
            if step.create is None:
                raise
            failure = f'Failed to create new replica set "{step.create["metadata"]["name"]}": {err}'
        return await self._report(key, failure=failure)

    def _has_pods(self, view: DocumentView) -> bool:
        return any(not pod.is_over for pod in self.shared.pods.by_index(BY_CONTROLLER, view.uid))

    async def _carry_out(self, deployment: DocumentView, sets: Sets, step: Step) -> None:
        if step.revision and deployment.annotations.get(REVISION) != step.revision:
            # Through the status: an annotation set otherwise would count as a change of the spec.
            told: Document = {"metadata": {"uid": deployment.uid, "annotations": {REVISION: step.revision}}}
            await self.writer.patch(
                DEPLOYMENTS,
                deployment.key,
                told,
                patch_type=PatchType.MERGE,
                subresource="status",
                uid=deployment.uid,
            )
        if step.create is not None:
            await self.writer.create(REPLICA_SETS, deployment.namespace, step.create)
            self._tell_scaled(deployment, step.create["metadata"]["name"], 0, step.create["spec"]["replicas"])
        if step.annotate is not None:
            await self.shared.merge(REPLICA_SETS, *step.annotate)
        for view, size in step.scale:
            patch: Document = {
                "metadata": {"annotations": size_annotations(deployment)},
                "spec": {"replicas": size},
            }
            await self.shared.merge(REPLICA_SETS, view, patch)
            self._tell_scaled(deployment, view.name, replicas_of(view), size)
        for view in step.delete:
            await self._delete(view)

    def _tell_scaled(self, deployment: DocumentView, name: str, before: int, after: int) -> None:
        if before != after:
            way = "up" if after > before else "down"
            text = f"Scaled {way} replica set {name} from {before} to {after}"
            self.tell(DEPLOYMENTS, deployment, "ScalingReplicaSet", text)

    async def _delete(self, view: DocumentView) -> None:
        try:
            await self.writer.delete(REPLICA_SETS, view.key, uid=view.uid, propagation="Background")
        except NotFoundError:
            return

    async def _collided(self, deployment: DocumentView, step: Step) -> None:
        """Another object has the name that the hash gives: count the collision, so that the next differs."""
        assert step.create is not None
        name = step.create["metadata"]["name"]
        try:
            found = decode(await self.shared.client.get(REPLICA_SETS, deployment.namespace, name))
        except NotFoundError:
            return
        owners = found["metadata"].get("ownerReferences") or ()
        if any(ref.get("uid") == deployment.uid for ref in owners) and same(
            found["spec"]["template"], step.create["spec"]["template"]
        ):
            return  # its own, created a moment ago: the cache will tell
        status = {**deployment.status, "collisionCount": deployment.count("status", "collisionCount") + 1}
        await self.shared.patch_status(DEPLOYMENTS, deployment, status)

    async def _report(self, key: Key, *, failure: str) -> float | None:
        deployment = self.cache.get(key)
        if deployment is None:
            return None
        sets = group(deployment, self._owned(deployment))
        now = self.clock()
        status, deadline = deployment_status(deployment, sets, now=now, failure=failure)
        try:
            await self.shared.patch_status(DEPLOYMENTS, deployment, status)
        except NotFoundError:
            return None
        # One second later than due: the condition is only false once the deadline has passed.
        return None if deadline is None else max(1.0, deadline - now + 1.0)

    def _owned(self, deployment: DocumentView) -> Sequence[DocumentView]:
        return self.sets.by_index(BY_CONTROLLER, deployment.uid)
