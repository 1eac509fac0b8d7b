"""Jobs: pods that run to completion. Finished jobs are deleted after their TTL.

Job + pods ──▶ read_snapshot() ──▶ plan_job(): job_plans.count_recorded(), count_pods(), decide_next_step()
           ──▶ status (pods recorded) ──▶ finalizers removed ──▶ pods to delete and to create

The next plan counts the recorded pods without a finalizer. A job whose `managedBy` names another controller is ignored.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import JOBS, PODS
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.operator import Work
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import CREATED_NAME, REPORT_STATUS, Note, Plan
from pykruise.runtime.plan import Step as Write
from pykruise.runtime.read import Around, Read
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.runtime.wakes import Wake, wake_itself
from pykruise.sandbox.controllers.job_plans import (
    JobStep,
    JobTally,
    build_job_status,
    count_pods,
    count_recorded,
    decide_next_step,
    find_true_condition,
    is_finished,
    is_indexed,
    to_release,
)
from pykruise.sandbox.controllers.job_policies import (
    FAILURES,
    FINALIZER,
    IGNORED_FAILURES,
    INDEX,
    count_failures_after,
    is_counted_per_index,
)
from pykruise.sandbox.controllers.pods import POD_VIEWS, build_pod, make_document_views, pods_of, selector_of
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_object,
    delete_pod,
    make_normal_note,
    make_warning_note,
    patch_pod,
    run_each,
    run_in_order,
    write_status,
)
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

_OWN: Final = (None, "kubernetes.io/job-controller")
_RELEASE: Final = "remove finalizers"

JOB_VIEWS: Final = make_document_views(JOBS)


class JobSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one Job needs."""

    job: DocumentView
    pods: Sequence[SandboxPodView]
    """Pods that the Job owns."""
    orphans: Sequence[SandboxPodView]
    """Pods in the Job's namespace that have no owner."""
    now: Instant


async def read_snapshot(job: DocumentView, read: Read[Any]) -> JobSnapshot | None:
    """Read a snapshot from caches, without requests."""
    if job.is_deleting or job.spec.get("managedBy") not in _OWN:
        return None
    return JobSnapshot(
        job=job,
        pods=read.list_owned(POD_VIEWS, job.uid),
        orphans=read.list_orphans(POD_VIEWS, job.namespace),
        now=read.now(),
    )


def plan_job(snapshot: JobSnapshot) -> Plan:
    """Adopt and release pods. Then record ended pods before they can disappear. Then delete and create pods."""
    job, pods, now = snapshot.job, snapshot.pods, snapshot.now
    if is_finished(job):
        return _expire(job, now)
    ownership = ownership_of(job, selector_of(job), pods, snapshot.orphans)
    if not ownership.is_settled:
        return Plan(stages=plan_ownership(job, JOBS, PODS, ownership))
    # First count the pods that an earlier plan has recorded, if their finalizer is removed. Then look for pods that
    # have ended since.
    now_counted = _with_status(job, count_recorded(job, pods))
    seen = count_pods(now_counted, pods)
    step = decide_next_step(now_counted, pods, seen, now=now)
    status = build_job_status(now_counted, seen, step, pods, now=now)
    released = to_release(pods, seen, step, status)
    notes = _build_notes(job, status)
    writes = (
        *run_each(_RELEASE, [(pod.name, _release_pod(pod)) for pod in released]),
        *run_each(DELETE, [(pod.name, _delete_pod(pod)) for pod in step.delete]),
        *run_each(CREATE, [("", _create_pod(job, index, seen)) for index in step.create], ramp=True),
    )
    if not (released or notes or _is_ending(step)):
        return Plan(stages=writes, status=status, requeue_after_s=step.look_in)
    because = "the status records the pods that have ended, and the Job's result"
    noted = write_status(JOBS, job, status, because=because, notes=notes)
    return Plan(stages=(*run_in_order(REPORT_STATUS, [noted]), *writes), requeue_after_s=step.look_in)


def _is_ending(step: JobStep) -> bool:
    return step.failing is not None or step.succeeding is not None


def _with_status(job: DocumentView, status: Document) -> DocumentView:
    return msgspec.structs.replace(job, doc={**job.doc, "status": status})


def _expire(job: DocumentView, now: Instant) -> Plan:
    """Delete a finished job when its TTL has passed. This is the rule of `ttlSecondsAfterFinished`."""
    ttl_s = job.spec.get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return Plan()
    done = find_true_condition(job, "Complete") or find_true_condition(job, "Failed")
    left_s = instant_of((done or {}).get("lastTransitionTime"), default=now) + float(ttl_s) - now
    if left_s > 0:
        return Plan(requeue_after_s=left_s)
    step = delete_object(JOBS, job, because="ttlSecondsAfterFinished has passed", propagation="Foreground")
    return Plan(stages=run_in_order(DELETE, [step]))


def _build_notes(job: DocumentView, status: Document) -> list[Note]:
    """Events for the differences between the new and the previous status."""
    notes: list[Note] = []
    was, is_now = (_find_condition(entry, "Suspended") is not None for entry in (job.status, status))
    if is_now and not was:
        notes.append(make_normal_note("Suspended", "Job suspended"))
    elif was and not is_now:
        notes.append(make_normal_note("Resumed", "Job resumed"))
    if _find_condition(status, "Complete"):
        notes.append(make_normal_note("Completed", "Job completed"))
    elif (failed := _find_condition(status, "Failed")) is not None:
        notes.append(make_warning_note(failed["reason"], failed["message"]))
    return notes


def _find_condition(status: Document, kind: str) -> Document | None:
    """Return the condition of that type in a status if it is true."""
    return next(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] == kind and condition["status"] == "True"
        ),
        None,
    )


def _create_pod(job: DocumentView, index: int | None, seen: JobTally) -> Write:
    pod = build_pod(job.spec["template"], owner=build_owner_reference_to(JOBS, job), prefix=f"{job.name}-")
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), FINALIZER]
    if index is not None:
        _give_index(job, pod, index)
        if is_counted_per_index(job):
            counted_ones, ignored = count_failures_after(job, seen.held.get(index))
            metadata["annotations"][FAILURES] = str(counted_ones)
            if ignored:
                metadata["annotations"][IGNORED_FAILURES] = str(ignored)
    return create_object(
        PODS,
        job.namespace,
        pod,
        because="the job requires more active pods",
        done=make_normal_note("SuccessfulCreate", f"Created pod: {CREATED_NAME}"),
        failed=make_warning_note("FailedCreate", "Error creating"),
    )


def _delete_pod(pod: SandboxPodView) -> Write:
    done = make_normal_note("SuccessfulDelete", f"Deleted pod: {pod.name}")
    return delete_pod(pod, because="the job requires fewer active pods", done=done)


def _release_pod(pod: SandboxPodView) -> Write:
    """Remove the tracking finalizer of a pod."""
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    return patch_pod(
        pod, body, because="the status has recorded the end of the pod, or no job counts the pod"
    )


def _give_index(job: DocumentView, pod: Document, index: int) -> None:
    """Add the index to a pod of an indexed job. This is the rule of Kubernetes' indexed jobs."""
    assert is_indexed(job)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["generateName"] = f"{job.name}-{index}-"
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    metadata.setdefault("labels", {})[INDEX] = str(index)
    spec.setdefault("hostname", f"{job.name}-{index}")
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        if all(item["name"] != variable["name"] for item in container.get("env") or ()):
            container.setdefault("env", []).append(variable)


WORK: Final = Work(
    resource=JOBS,
    control=Control(
        name="jobs",
        component="job-controller",
        objects=JOB_VIEWS,
        reads=lambda _: (POD_VIEWS,),
        wakes=lambda _: (wake_itself(JOB_VIEWS), *pods_of(JOBS)),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.job,
        plan=plan_job,
    ),
)


# ── pods of deleted jobs ─────────────────────────────────────────────────────


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one tracked pod needs."""

    pod: SandboxPodView
    job: DocumentView | None
    now: Instant


async def read_tracked(pod: SandboxPodView, read: Read[Any]) -> Tracked | None:
    """Read a snapshot from caches, without requests."""
    if FINALIZER not in pod.finalizers:
        return None
    owner = pod.controller
    job = read.get(JOB_VIEWS, Key(pod.namespace, owner.name)) if owner is not None else None
    is_owner = job is not None and owner is not None and job.uid == owner.uid
    return Tracked(pod=pod, job=job if is_owner else None, now=read.now())


def plan_tracked(seen: Tracked) -> Plan:
    """Remove the finalizer of a pod that no job will count any more."""
    pod, job = seen.pod, seen.job
    if job is None or job.is_deleting or (is_finished(job) and pod.is_deleting):
        return Plan(stages=run_in_order(_RELEASE, [_release_pod(pod)]))
    return Plan()


def _on_pod(change: Change[SandboxPodView], _: Around[Any]) -> Iterator[Key]:
    if change.new is not None and FINALIZER in change.new.finalizers:
        yield change.key


def _on_job(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue the pods of a job that is deleted or being deleted, because the job no longer counts them."""
    job = change.new or change.old
    if job is not None and (change.new is None or job.is_deleting):
        for pod in around.list_by_index(POD_VIEWS, BY_CONTROLLER, job.uid):
            if FINALIZER in pod.finalizers:
                yield pod.key


TRACKED_PODS: Final = Work(
    resource=PODS,
    control=Control(
        name="tracked-pods",
        component="job-controller",
        objects=POD_VIEWS,
        reads=lambda _: (JOB_VIEWS,),
        wakes=lambda _: (Wake(on=POD_VIEWS, keys=_on_pod), Wake(on=JOB_VIEWS, keys=_on_job)),
        snapshot=read_tracked,
        object_of=lambda seen: seen.pod,
        plan=plan_tracked,
        is_current=is_same_object,
    ),
)
