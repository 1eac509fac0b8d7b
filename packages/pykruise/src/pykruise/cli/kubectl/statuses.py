"""How far a rollout or a job is, in one line, and whether it is done: the rules of `rollout status`.

document ──▶ status_of(document, revision=…) ──▶ Progress(line, is_done); RolloutFailed: it never will be

Pure. The lines of built-in kinds are kubectl's, those of ours OpenKruise's. A generation that has not been observed is
never done, and a partition counts pods, also where it is a percentage.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import kind_of
from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quoted
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve

__all__ = ["Progress", "RolloutFailed", "partition_of", "status_of"]

Document = Mapping[str, Any]


class RolloutFailed(KubectlError):  # noqa: N818 - says what happened
    """It will not be done by waiting."""


class Progress(msgspec.Struct, frozen=True):
    """One line, and whether nothing more is to come."""

    line: str
    is_done: bool = False
    at_partition: bool = False
    """Whether all but the pods that the partition keeps are updated and ready."""


def status_of(document: Document, *, revision: int = 0) -> Progress:
    """How far it is. Raises RolloutFailed, and KubectlError for a kind without a rollout."""
    known = kind_of(document)
    if known is None or not known.status:
        raise KubectlError(f"no status viewer has been implemented for {document.get('kind')}")
    return _VIEWERS[known.status](document, revision)


def partition_of(value: Any, *, replicas: int) -> int:
    """Pods that a partition keeps: a percentage is rounded up, but keeps all only when it is 100%."""
    if value is None:
        return 0
    kept = resolve(value, of=replicas, rounding=Rounding.UP)
    if is_percent(value) and replicas > 1 and kept == replicas and value != "100%":
        kept = replicas - 1
    return min(max(kept, 0), replicas)


# ── built-in kinds ───────────────────────────────────────────────────────────


def _deployment(document: Document, revision: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    if revision:
        running = int(
            (document["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision", 0)
        )
        if running != revision:
            raise RolloutFailed(
                f"desired revision ({revision}) is different from the running revision ({running})"
            )
    if not _is_observed(document):
        return Progress("Waiting for deployment spec update to be observed...")
    _check_deadline(status, f"deployment {quoted(name)}")
    replicas, updated = document["spec"].get("replicas", 1), status.get("updatedReplicas", 0)
    waiting = f"Waiting for deployment {quoted(name)} rollout to finish: "
    if updated < replicas:
        return Progress(f"{waiting}{updated} out of {replicas} new replicas have been updated...")
    if (total := status.get("replicas", 0)) > updated:
        return Progress(f"{waiting}{total - updated} old replicas are pending termination...")
    if (available := status.get("availableReplicas", 0)) < updated:
        return Progress(f"{waiting}{available} of {updated} updated replicas are available...")
    return Progress(f"deployment {quoted(name)} successfully rolled out", is_done=True)


def _daemon_set(document: Document, _: int) -> Progress:
    _check_strategy(document)
    name, status = document["metadata"]["name"], _status(document)
    if not _is_observed(document):
        return Progress("Waiting for daemon set spec update to be observed...")
    desired = status.get("desiredNumberScheduled", 0)
    return _of_nodes(f"daemon set {quoted(name)}", status, target=desired)


def _stateful_set(document: Document, _: int) -> Progress:
    _check_strategy(document)
    status, spec = _status(document), document["spec"]
    if not status.get("observedGeneration") or not _is_observed(document):
        return Progress("Waiting for statefulset spec update to be observed...")
    replicas, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if ready < replicas:
        return Progress(f"Waiting for {replicas - ready} pods to be ready...")
    updated = status.get("updatedReplicas", 0)
    rolling = get_path(document, "spec", "updateStrategy", "rollingUpdate")
    if rolling is not None:
        target = replicas - (rolling.get("partition") or 0)
        if updated < target:
            return Progress(_partitioned(updated, target))
        return Progress(_complete(updated), is_done=True, at_partition=True)
    if status.get("updateRevision") != status.get("currentRevision"):
        revision = status.get("updateRevision", "")
        return Progress(
            f"waiting for statefulset rolling update to complete {updated} pods at revision {revision}..."
        )
    current = status.get("currentReplicas", 0)
    return Progress(
        f"statefulset rolling update complete {current} pods at revision {status.get('currentRevision', '')}...",
        is_done=True,
    )


# ── our kinds ────────────────────────────────────────────────────────────────


def _clone_set(document: Document, _: int) -> Progress:
    status, spec = _status(document), document["spec"]
    if not status.get("observedGeneration") or not _is_observed(document):
        return Progress("Waiting for CloneSet spec update to be observed...")
    _check_deadline(status, f"CloneSet {quoted(document['metadata']['name'])}")
    replicas = spec.get("replicas", 1)
    target = replicas - partition_of(_field(document, "partition"), replicas=replicas)
    updated, updated_ready = status.get("updatedReplicas", 0), status.get("updatedReadyReplicas", 0)
    if updated < target:
        return Progress(_partitioned(updated, target))
    if updated_ready < target:
        return Progress(f"Waiting for {target - updated_ready} updated pods to be ready...")
    if (ready := status.get("readyReplicas", 0)) < replicas:
        return Progress(f"Waiting for {replicas - ready} pods to be ready...", at_partition=True)
    return _rolled_out("CloneSet", status, updated, replicas, target)


def _advanced_stateful_set(document: Document, _: int) -> Progress:
    status, spec = _status(document), document["spec"]
    if not status.get("observedGeneration") or not _is_observed(document):
        return Progress("Waiting for Advanced StatefulSet spec update to be observed...")
    replicas = spec.get("replicas", 1)
    target = replicas - partition_of(_field(document, "partition"), replicas=replicas)
    updated = status.get("updatedReplicas", 0)
    if updated < target:
        return Progress(_partitioned(updated, target))
    if (ready := status.get("readyReplicas", 0)) < replicas:
        return Progress(f"Waiting for {replicas - ready} pods to be ready...")
    return _rolled_out("Advanced StatefulSet", status, updated, replicas, target)


def _rolled_out(kind: str, status: Document, updated: int, replicas: int, target: int) -> Progress:
    if target < replicas:
        return Progress(_complete(updated), is_done=True, at_partition=True)
    available, revision = status.get("availableReplicas", 0), status.get("updateRevision", "")
    return Progress(
        f"{kind} rolling update complete {available} pods at revision {revision}...",
        is_done=True,
        at_partition=True,
    )


def _advanced_daemon_set(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    if not _is_observed(document):
        return Progress("Waiting for Advanced DaemonSet spec update to be observed...")
    desired = status.get("desiredNumberScheduled", 0)
    target = desired - partition_of(_field(document, "partition"), replicas=desired)
    return _of_nodes(f"Advanced DaemonSet {quoted(name)}", status, target=target)


def _of_nodes(what: str, status: Document, *, target: int) -> Progress:
    desired, available = status.get("desiredNumberScheduled", 0), status.get("numberAvailable", 0)
    updated = status.get("updatedNumberScheduled", 0)
    waiting = f"Waiting for {what} rollout to finish: "
    if updated < target:
        return Progress(f"{waiting}{updated} out of {target} new pods have been updated...")
    if available < desired:
        return Progress(f"{waiting}{available} of {desired} updated pods are available...")
    return Progress(f"{what} successfully rolled out", is_done=True, at_partition=True)


def _updating(what: str, updated: int, ready: int, *, target: int, pods: str) -> Progress | None:
    """How far pods are updated and ready; None: as many as are to be."""
    waiting = f"Waiting for {what} rollout to finish: "
    if updated < target:
        return Progress(f"{waiting}{updated} out of {target} {pods} pods have been updated...")
    return Progress(f"{waiting}{ready} of {target} updated pods are ready...") if ready < target else None


def _sidecar_set(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    if not _is_observed(document):
        return Progress("Waiting for SidecarSet spec update to be observed...")
    matched, updated = status.get("matchedPods", 0), status.get("updatedPods", 0)
    ready = status.get("updatedReadyPods", 0)
    target = matched - partition_of(_field(document, "partition"), replicas=matched)
    what = f"SidecarSet {quoted(name)}"
    if behind := _updating(what, updated, ready, target=target, pods="matched"):
        return behind
    return Progress(
        f"SidecarSet {quoted(name)} successfully rolled out: {matched} matched, {updated} updated, {ready} ready",
        is_done=True,
        at_partition=True,
    )


def _united_deployment(document: Document, _: int) -> Progress:
    name, status, spec = document["metadata"]["name"], _status(document), document["spec"]
    if not _is_observed(document):
        return Progress("Waiting for UnitedDeployment spec update to be observed...")
    replicas = spec.get("replicas")
    wanted = replicas if replicas is not None else status.get("replicas", 0)
    partitions = get_path(document, "spec", "updateStrategy", "manualUpdate", "partitions", default={}) or {}
    target = wanted - min(sum(one for one in partitions.values() if isinstance(one, int)), wanted)
    updated, ready = status.get("updatedReplicas", 0), status.get("updatedReadyReplicas", 0)
    what = f"UnitedDeployment {quoted(name)}"
    if behind := _updating(what, updated, ready, target=target, pods="new"):
        return behind
    if (all_ready := status.get("readyReplicas", 0)) < wanted:
        return Progress(f"Waiting for {wanted - all_ready} pods to be ready...")
    return Progress(
        f"UnitedDeployment {quoted(name)} successfully rolled out", is_done=True, at_partition=True
    )


def _broadcast_job(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    desired, succeeded = status.get("desired", 0), status.get("succeeded", 0)
    failed, active = status.get("failed", 0), status.get("active", 0)
    if _has_condition(status, "Failed") or status.get("phase") == "failed":
        raise RolloutFailed(f"broadcastjob {quoted(name)} failed: {failed} of {desired} pods failed")
    if _has_condition(status, "Complete") or status.get("phase") == "completed":
        return Progress(
            f"broadcastjob {quoted(name)} complete: {succeeded} succeeded, {failed} failed", is_done=True
        )
    counts = f"{succeeded} of {desired} pods have succeeded, {active} are active, {failed} failed..."
    return Progress(f"Waiting for broadcastjob {quoted(name)} to complete: {counts}")


def _advanced_cron_job(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    active, last = len(status.get("active") or ()), status.get("lastScheduleTime") or "never"
    if active:
        return Progress(
            f"Waiting for advancedcronjob {quoted(name)}: {active} active, last scheduled {last}..."
        )
    return Progress(f"advancedcronjob {quoted(name)} has nothing active, last scheduled {last}", is_done=True)


def _image_pull_job(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    desired, failed = status.get("desired", 0), status.get("failed", 0)
    succeeded = status.get("succeeded", 0)
    if not status.get("completionTime"):
        return Progress(
            f"Waiting for imagepulljob {quoted(name)} to complete: {succeeded} of {desired} nodes have pulled,"
            f" {status.get('active', 0)} are pulling, {failed} failed..."
        )
    if failed:
        raise RolloutFailed(f"imagepulljob {quoted(name)} failed on {failed} of {desired} nodes")
    return Progress(
        f"imagepulljob {quoted(name)} complete: {succeeded} of {desired} nodes have pulled", is_done=True
    )


def _image_list_pull_job(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    desired, done = status.get("desired", 0), status.get("completed", 0)
    if not status.get("completionTime"):
        return Progress(
            f"Waiting for imagelistpulljob {quoted(name)} to complete: {done} of {desired} images are done..."
        )
    if bad := status.get("failedImageStatuses"):
        raise RolloutFailed(f"imagelistpulljob {quoted(name)} failed for {len(bad)} of {desired} images")
    return Progress(f"imagelistpulljob {quoted(name)} complete: {done} of {desired} images", is_done=True)


def _rollout(document: Document, _: int) -> Progress:
    name, status = document["metadata"]["name"], _status(document)
    phase = status.get("phase") or "Initial"
    if not _is_observed(document):
        return Progress("Waiting for Rollout spec update to be observed...")
    if phase in ("Healthy", "Disabled"):
        return Progress(f"rollout {quoted(name)} is {phase.lower()}", is_done=True, at_partition=True)
    part = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
    step = part.get("currentStepIndex", 0)
    where = f"step {step}, {part.get('currentStepState') or 'not begun'}" if part else phase
    text = f"Waiting for rollout {quoted(name)} to finish: {phase}, {where}..."
    if message := status.get("message"):
        text = f"{text} {message}"
    return Progress(text, at_partition=part.get("currentStepState") == "StepPaused")


_VIEWERS: Final[Mapping[str, Callable[[Document, int], Progress]]] = {
    "deployment": _deployment,
    "daemon_set": _daemon_set,
    "stateful_set": _stateful_set,
    "clone_set": _clone_set,
    "advanced_stateful_set": _advanced_stateful_set,
    "advanced_daemon_set": _advanced_daemon_set,
    "sidecar_set": _sidecar_set,
    "united_deployment": _united_deployment,
    "broadcast_job": _broadcast_job,
    "advanced_cron_job": _advanced_cron_job,
    "image_pull_job": _image_pull_job,
    "image_list_pull_job": _image_list_pull_job,
    "rollout": _rollout,
}


# ── what they share ──────────────────────────────────────────────────────────


def _status(document: Document) -> Document:
    found: Document = document.get("status") or {}
    return found


def _is_observed(document: Document) -> bool:
    generation: int = document["metadata"].get("generation", 0)
    return generation <= (_status(document).get("observedGeneration") or 0)


def _field(document: Document, name: str) -> Any:
    known = kind_of(document)
    field = getattr(known, name)
    return get_path(document, *field.at(document)) if field else None


def _check_strategy(document: Document) -> None:
    if get_path(document, "spec", "updateStrategy", "type") != "RollingUpdate":
        raise RolloutFailed("rollout status is only available for RollingUpdate strategy type")


def _check_deadline(status: Document, what: str) -> None:
    for one in status.get("conditions") or ():
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            raise RolloutFailed(f"{what} exceeded its progress deadline")


def _has_condition(status: Document, kind: str) -> bool:
    return any(
        one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def _partitioned(updated: int, target: int) -> str:
    return (
        f"Waiting for partitioned roll out to finish: {updated} out of {target} new pods have been updated..."
    )


def _complete(updated: int) -> str:
    return f"partitioned roll out complete: {updated} new pods have been updated..."
