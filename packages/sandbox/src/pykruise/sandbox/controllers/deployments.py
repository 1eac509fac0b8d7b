"""Deployments: replica sets that replace each other.

Deployment + ReplicaSets ──▶ rollouts.decide_next_step() ──▶ replica sets to create, scale, delete
                         └──▶ compute_deployment_status() ──▶ the status (conditions, counts)

Same rules as Kubernetes' deployment controller, and the same texts of conditions and events.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, REPLICA_SETS
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Failure
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import Note, Plan, Step
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake, is_controller, wake_adopters, wake_itself, wake_owner
from pykruise.sandbox.controllers import rollouts
from pykruise.sandbox.controllers.pods import POD_VIEWS, is_selected, make_document_views, selector_of
from pykruise.sandbox.controllers.replica_sets import REPLICA_SET_VIEWS
from pykruise.sandbox.controllers.rollouts import (
    REVISION,
    Sets,
    build_size_annotations,
    decide_next_step,
    format_replica_set_name,
    group,
    is_complete,
    read_progress_since,
    replicas_of,
    resolve_surge_and_unavailable,
)
from pykruise.sandbox.controllers.steps import (
    create_object,
    delete_object,
    make_normal_note,
    merge_object,
    run_in_order,
)
from pykruise.sandbox.pod_view import SandboxPodView

_ROLL_OUT: Final = "roll out"

_NO_DEADLINE: Final = 2**31 - 1


def compute_deployment_status(
    deployment: DocumentView, sets: Sets, *, now: Instant, failure: str = ""
) -> tuple[Document, Instant | None]:
    """Return the status, and the rollout's deadline (None if there is no deadline, or if it does not apply now).

    `failure`: the reason why the new replica set could not be created.
    """
    old = deployment.status
    replicas = sum(document.count("status", "replicas") for document in sets.all)
    available = sum(document.count("status", "availableReplicas") for document in sets.all)
    counts = {
        "observedGeneration": deployment.generation,
        "replicas": replicas,
        "updatedReplicas": sets.new.count("status", "replicas") if sets.new else 0,
        "readyReplicas": sum(document.count("status", "readyReplicas") for document in sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(replicas_of, sets.all)) - available),
    }
    status: Document = {name: count for name, count in counts.items() if count}
    if old.get("collisionCount"):
        status["collisionCount"] = old["collisionCount"]
    conditions = [dict(condition) for condition in old.get("conditions") or ()]
    _set_condition(conditions, _build_available_condition(deployment, available), now)
    deadline = _update_progress(deployment, sets, old, status, conditions, now, failure)
    failures = [
        condition
        for view in sets.all
        for condition in view.status.get("conditions") or ()
        if condition.get("type") == "ReplicaFailure"
    ]
    conditions = [condition for condition in conditions if condition["type"] != "ReplicaFailure"]
    if failures:
        shown = {name: failures[0].get(name, "") for name in ("reason", "message")}
        _set_condition(conditions, {"type": "ReplicaFailure", "status": "True", **shown}, now)
    if conditions:
        status["conditions"] = conditions
    return status, deadline


def _build_available_condition(deployment: DocumentView, available: int) -> Document:
    _, unavailable = resolve_surge_and_unavailable(deployment)
    if available >= replicas_of(deployment) - unavailable:
        return _build_condition(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    text = "Deployment does not have minimum availability."
    return _build_condition("Available", "False", "MinimumReplicasUnavailable", text)


def _update_progress(
    deployment: DocumentView,
    sets: Sets,
    old: Document,
    status: Document,
    conditions: list[Document],
    now: Instant,
    failure: str,
) -> Instant | None:
    """Update the condition Progressing. Return the deadline; None if it does not apply now."""
    limit_s = deployment.spec.get("progressDeadlineSeconds")
    if limit_s is None or limit_s >= _NO_DEADLINE:
        conditions[:] = [condition for condition in conditions if condition["type"] != "Progressing"]
        return None
    known = next((condition for condition in conditions if condition["type"] == "Progressing"), None)
    reason = known["reason"] if known else ""
    if failure:
        _set_condition(
            conditions, _build_condition("Progressing", "False", "ReplicaSetCreateError", failure), now
        )
        return None
    if deployment.spec.get("paused"):
        if reason != "DeploymentPaused" and reason != "ProgressDeadlineExceeded":
            paused = _build_condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
            _set_condition(conditions, paused, now)
        return None
    if reason == "DeploymentPaused":
        resumed = _build_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
        _set_condition(conditions, resumed, now)
        known = next(condition for condition in conditions if condition["type"] == "Progressing")
    if known is None and sets.new is not None:
        text = f'Created new replica set "{sets.new.name}"'
        _set_condition(conditions, _build_condition("Progressing", "True", "NewReplicaSetCreated", text), now)
        known = conditions[-1]
    name = f'ReplicaSet "{sets.new.name}"' if sets.new else f'Deployment "{deployment.name}"'
    if status.get("replicas", 0) == status.get("updatedReplicas", 0) and reason == "NewReplicaSetAvailable":
        return None
    if is_complete(deployment, status):
        text = f"{name} has successfully progressed."
        _set_condition(
            conditions, _build_condition("Progressing", "True", "NewReplicaSetAvailable", text), now
        )
        return None
    if _has_progressed(old, status):
        made = _build_condition("Progressing", "True", "ReplicaSetUpdated", f"{name} is progressing.")
        at = format_time(now)
        since = known["lastTransitionTime"] if known and known["status"] == "True" else at
        conditions[:] = [condition for condition in conditions if condition["type"] != "Progressing"]
        conditions.append({**made, "lastUpdateTime": at, "lastTransitionTime": since})
        return now + float(limit_s)
    if known is None or known["reason"] == "NewReplicaSetAvailable":
        return None
    due = read_progress_since(known) + float(limit_s)
    if due < now and known["reason"] != "ProgressDeadlineExceeded":
        text = f"{name} has timed out progressing."
        _set_condition(
            conditions, _build_condition("Progressing", "False", "ProgressDeadlineExceeded", text), now
        )
        return None
    return due if due >= now else None


def _has_progressed(old: Document, new: Document) -> bool:
    def left(status: Document) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return left(new) < left(old) or any(
        new.get(name, 0) > old.get(name, 0)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _build_condition(kind: str, status: str, reason: str, message: str) -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _set_condition(conditions: list[Document], new: Document, now: Instant) -> None:
    """Set a condition. An existing condition with the same status and reason stays unchanged."""
    known = next((condition for condition in conditions if condition["type"] == new["type"]), None)
    at = format_time(now)
    if known is None:
        conditions.append({**new, "lastUpdateTime": at, "lastTransitionTime": at})
        return
    if (known["status"], known["reason"]) == (new["status"], new["reason"]):
        return
    since = known["lastTransitionTime"] if known["status"] == new["status"] else at
    conditions.remove(known)
    conditions.append({**new, "lastUpdateTime": at, "lastTransitionTime": since})


class DeploymentSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one Deployment needs."""

    deployment: DocumentView
    owned: Sequence[DocumentView]
    """The replica sets that the Deployment owns."""
    sets: Sets
    """The owned replica sets: the new one and the old ones."""
    orphans: Sequence[DocumentView]
    """Replica sets in the Deployment's namespace that have no owner."""
    busy: frozenset[str]
    """uids of the Deployment's old replica sets whose pods have not all ended."""
    namesake: DocumentView | None
    """An existing object with the name of the new replica set."""
    now: Instant


async def read_snapshot(deployment: DocumentView, read: Read[Any]) -> DeploymentSnapshot:
    """Read a snapshot from caches, without requests."""
    owned = read.list_owned(REPLICA_SET_VIEWS, deployment.uid)
    sets = group(deployment, owned)
    namesake = None
    if sets.new is None:
        key = Key(deployment.namespace, format_replica_set_name(deployment))
        namesake = read.get(REPLICA_SET_VIEWS, key)
    return DeploymentSnapshot(
        deployment=deployment,
        owned=owned,
        sets=sets,
        orphans=read.list_orphans(REPLICA_SET_VIEWS, deployment.namespace),
        busy=frozenset(
            document.uid for document in sets.old if _has_pods(read.list_owned(POD_VIEWS, document.uid))
        ),
        namesake=namesake,
        now=read.now(),
    )


def _has_pods(pods: Iterable[SandboxPodView]) -> bool:
    return any(not pod.is_over for pod in pods)


def plan_deployment(snapshot: DeploymentSnapshot) -> Plan:
    """Adopt and release replica sets, then execute one step of the rollout, then write the status."""
    deployment = snapshot.deployment
    ownership = ownership_of(deployment, selector_of(deployment), snapshot.owned, snapshot.orphans)
    if not ownership.is_settled:
        return Plan(stages=plan_ownership(deployment, DEPLOYMENTS, REPLICA_SETS, ownership))
    sets = snapshot.sets
    step = decide_next_step(deployment, sets, busy=snapshot.busy, now=snapshot.now)
    if step.create is not None and snapshot.namesake is not None:
        # Another object already has this name. A higher collisionCount changes the hash in the name.
        collisions = deployment.count("status", "collisionCount") + 1
        return Plan(status={**deployment.status, "collisionCount": collisions})
    status, deadline = compute_deployment_status(deployment, sets, now=snapshot.now)
    return Plan(
        stages=run_in_order(_ROLL_OUT, _plan_writes(deployment, step)),
        status=status,
        # One second after the deadline, because the condition becomes False only after the deadline.
        requeue_after_s=None if deadline is None else max(1.0, deadline - snapshot.now + 1.0),
    )


def compute_status_after(snapshot: DeploymentSnapshot, plan: Plan, failure: Failure) -> Document | None:
    """Return the status after the new replica set could not be created."""
    action = failure.step.action
    if not isinstance(action, Create) or not isinstance(failure.error, ApiError):
        return None
    shown = f'Failed to create new replica set "{action.key.name}": {failure.error}'
    return compute_deployment_status(snapshot.deployment, snapshot.sets, now=snapshot.now, failure=shown)[0]


def _plan_writes(deployment: DocumentView, step: rollouts.DeploymentStep) -> Iterator[Step]:
    if step.revision and deployment.annotations.get(REVISION) != step.revision:
        yield _record_revision(deployment, step.revision)
    if step.create is not None:
        name, size = step.create["metadata"]["name"], step.create["spec"]["replicas"]
        yield create_object(
            REPLICA_SETS,
            deployment.namespace,
            step.create,
            because="the template has no replica set yet",
            done=_make_scale_note(name, 0, size),
        )
    if step.annotate is not None:
        view, patch = step.annotate
        yield merge_object(
            REPLICA_SETS, view, patch, because="its annotations must equal those of the Deployment"
        )
    for view, size in step.scale:
        body = {"metadata": {"annotations": build_size_annotations(deployment)}, "spec": {"replicas": size}}
        scaled = merge_object(REPLICA_SETS, view, body, because="the rollout scales it")
        yield msgspec.structs.replace(scaled, done=_make_scale_note(view.name, replicas_of(view), size))
    for view in step.delete:
        yield delete_object(
            REPLICA_SETS, view, because="revisionHistoryLimit is exceeded", propagation="Background"
        )


def _record_revision(deployment: DocumentView, revision: str) -> Step:
    """Write the annotation through the status subresource, so that this write does not increase the generation."""
    action = Patch(
        resource=DEPLOYMENTS,
        key=deployment.key,
        patch_type=PatchType.MERGE,
        body={"metadata": {"annotations": {REVISION: revision}}},
        subresource="status",
        uid=deployment.uid,
    )
    because = "its revision annotation must be the revision of its newest replica set"
    return Step(action=action, because=because)


def _make_scale_note(name: str, before: int, after: int) -> Note | None:
    if before == after:
        return None
    way = "up" if after > before else "down"
    return make_normal_note("ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {after}")


DEPLOYMENT_VIEWS: Final = make_document_views(DEPLOYMENTS)


def _enqueue_recreating_deployment(change: Change[SandboxPodView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue the deployment of a deleted pod: Recreate waits until the last old pod is deleted."""
    pod = change.old
    if pod is None or change.new is not None or pod.controller is None:
        return
    if not is_controller(pod.controller, REPLICA_SETS):
        return
    view = around.get(REPLICA_SET_VIEWS, Key(pod.namespace, pod.controller.name))
    if view is None or view.controller is None or not is_controller(view.controller, DEPLOYMENTS):
        return
    deployment = around.get(DEPLOYMENT_VIEWS, Key(pod.namespace, view.controller.name))
    if deployment is not None and (deployment.spec.get("strategy") or {}).get("type") == "Recreate":
        yield deployment.key


WORK: Final = Work(
    resource=DEPLOYMENTS,
    control=Control(
        name="deployments",
        component="deployment-controller",
        objects=DEPLOYMENT_VIEWS,
        reads=lambda _: (REPLICA_SET_VIEWS, POD_VIEWS),
        wakes=lambda _: (
            wake_itself(DEPLOYMENT_VIEWS),
            wake_owner(REPLICA_SET_VIEWS, DEPLOYMENTS),
            wake_adopters(
                REPLICA_SET_VIEWS,
                DEPLOYMENT_VIEWS,
                may_own=lambda owner, view: is_selected(owner, view.labels),
            ),
            Wake(on=POD_VIEWS, keys=_enqueue_recreating_deployment),
        ),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.deployment,
        plan=plan_deployment,
        failed=compute_status_after,
    ),
)
