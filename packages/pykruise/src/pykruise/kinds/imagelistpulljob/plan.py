"""The decision for an ImageListPullJob: one ImagePullJob for each image.

Snapshot ──▶ an image's ImagePullJob, by image ──▶ fan_out() ──▶ Plan: jobs that come, jobs that go, the status

Pure. An ImagePullJob made from another template is replaced; which template it was, its spec says, whatever a label
says of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.imagelistpulljob.snapshot import (
    ImageListPullJobSnapshot,
    ListJobView,
    ReadableImageListPullJob,
    is_readable,
    template_of,
)
from pykruise.kinds.imagelistpulljob.types import (
    IMAGE_LIST_PULL_JOBS,
    FailedImageStatus,
    ImageListPullJobSpec,
    ImageListPullJobStatus,
)
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document, same
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import counted
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import refused_plan
from pykruise.pods.images.node_images import instant_of
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.images.pull_rules import parallelism_of
from pykruise.pods.jobs.fan_out import FanOutDecision, FanOutTarget, JobPolicy, JobRun, TargetState, fan_out
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

LONGEST_PREFIX: Final = 58
"""Characters of a name that is generated, without its random end."""

_WARN_AGAIN_S: Final = 600.0

_OVER: Final = Reason(Code.JOB_OVER, "the job is over")


def plan_imagelistpulljob(snapshot: ImageListPullJobSnapshot) -> Plan:
    """Everything to be written for this job now, its status, and when to look again."""
    job = snapshot.job
    if job.is_deleting:  # its ImagePullJobs go with it
        return Plan()
    if not is_readable(snapshot):
        return refused_plan(snapshot.refused or [snapshot.job.problem])
    spec = snapshot.job.spec
    own, surplus = _sorted_out(snapshot, spec)
    targets = [
        FanOutTarget(name=image, state=state_of(own.get(image))) for image in dict.fromkeys(spec.images)
    ]
    decision = fan_out(targets, _policy_of(spec), _run_of(snapshot), now=snapshot.now)
    if job.status.completion_time:
        return _after_end(job, decision)
    stages = (
        *_stage(Purpose.LABEL_JOB, _label(job)),
        *_stage(Purpose.CREATE_JOBS, _creations(snapshot, decision.start), ramp=True),
        *_stage(Purpose.DELETE_JOBS, [_deletion(child) for child in surplus]),
    )
    status = _status(snapshot, own, targets, decision)
    return Plan(
        stages=stages,
        status=status.document(),
        requeue_after_s=decision.requeue_after_s,
        waiting=_waiting(decision, spec),
        skipped=dict(_skipped(own, targets)),
    )


def _policy_of(spec: ImageListPullJobSpec) -> JobPolicy:
    """The deadline is that of each ImagePullJob."""
    done = spec.completion_policy
    return JobPolicy(ends=done.type != "Never", ttl_s=done.ttl_seconds_after_finished)


def _run_of(snapshot: ReadableImageListPullJob) -> JobRun:
    """Since when it runs is asked for a deadline only, which it has not."""
    ended = snapshot.job.status.completion_time
    finished_at = instant_of(ended)
    if ended and finished_at is None:
        finished_at = snapshot.now
    return JobRun(started_at=snapshot.now, finished_at=finished_at)


# ── whose is which ───────────────────────────────────────────────────────────


def _sorted_out(
    snapshot: ReadableImageListPullJob, spec: ImageListPullJobSpec
) -> tuple[Mapping[str, PullJobView], Sequence[PullJobView]]:
    """The ImagePullJob of each image, and those that are to go: of other images, of another template, or a second."""
    own: dict[str, PullJobView] = {}
    surplus: list[PullJobView] = []
    listed = frozenset(spec.images)
    for child in snapshot.children:
        if child.is_deleting:
            continue
        made = child.spec
        if (
            made is not None
            and made.image in listed
            and made.image not in own
            and same(template_of(made), snapshot.job.template)
        ):
            own[made.image] = child
        else:
            surplus.append(child)
    return own, surplus


def state_of(child: PullJobView | None) -> TargetState:
    """How far an image is."""
    if child is None:
        return TargetState.PENDING
    status = child.status
    if not status.start_time or status.desired != status.failed + status.succeeded:
        return TargetState.ACTIVE
    return TargetState.SUCCEEDED if status.desired == status.succeeded else TargetState.FAILED


# ── writes ───────────────────────────────────────────────────────────────────


def _stage(purpose: Purpose, chains: Iterable[Chain], *, ramp: bool = False) -> list[Stage]:
    result = tuple(chains)
    return [Stage(purpose=purpose, chains=result, ramp=ramp)] if result else []


def _label(job: ListJobView) -> Iterator[Chain]:
    if job.labels.get(keys.REVISION_LABEL) != job.template_hash:
        action = patch_object(
            IMAGE_LIST_PULL_JOBS, job, {"metadata": {"labels": {keys.REVISION_LABEL: job.template_hash}}}
        )
        yield Chain(
            subject=job.name, steps=(Step(action=action, because="the label says which template it has"),)
        )


def _creations(snapshot: ReadableImageListPullJob, images: Sequence[str]) -> Iterator[Chain]:
    job = snapshot.job
    prefix = f"{job.name}-"[:LONGEST_PREFIX]
    used = {child.name[len(prefix) :] for child in snapshot.children}
    # Chosen here and not by the API server, so that a creation whose answer was lost can be repeated.
    for image, fresh in zip(images, snapshot.ids.fresh_ids(len(images), used=used), strict=True):
        name = f"{prefix}{fresh}"
        body: Document = {
            "apiVersion": IMAGE_PULL_JOBS.api_version,
            "kind": IMAGE_PULL_JOBS.kind,
            "metadata": {
                "name": name,
                "generateName": prefix,
                "namespace": job.namespace,
                "labels": {keys.REVISION_LABEL: job.template_hash},
                "ownerReferences": [job.reference_as(IMAGE_LIST_PULL_JOBS)],
            },
            "spec": {**job.template, "image": image},
        }
        step = Step(
            action=Create(resource=IMAGE_PULL_JOBS, key=Key(job.namespace, name), body=body),
            because=f"image {image} has no ImagePullJob",
            done=Note(
                reason="Successful create ImagePullJob",
                message=f"created ImagePullJob {name} for image {image}",
            ),
            failed=Note(
                reason="FailedCreate",
                message=f"failed to create an ImagePullJob for image {image}",
                warning=True,
            ),
        )
        yield Chain(subject=name, steps=(step,), has_random_name=True)


def _deletion(child: PullJobView) -> Chain:
    step = Step(
        action=delete_object(IMAGE_PULL_JOBS, child),
        because="its image is not listed any more, or it was made from another template",
        done=Note(reason="Successful delete ImagePullJob", message=f"deleted ImagePullJob {child.name}"),
        failed=Note(
            reason="FailedDelete", message=f"failed to delete ImagePullJob {child.name}", warning=True
        ),
    )
    return Chain(subject=child.name, steps=(step,))


def _after_end(job: ListJobView, decision: FanOutDecision) -> Plan:
    """At its time the job is deleted."""
    stages: list[Stage] = []
    if decision.delete:
        step = Step(
            action=delete_object(IMAGE_LIST_PULL_JOBS, job),
            because="ttlSecondsAfterFinished has passed",
        )
        stages = _stage(Purpose.DELETE_JOB, [Chain(subject=job.name, steps=(step,))])
    return Plan(
        stages=tuple(stages),
        requeue_after_s=decision.requeue_after_s,
        waiting=_OVER if decision.requeue_after_s is not None else None,
    )


# ── what is said ─────────────────────────────────────────────────────────────


def _status(
    snapshot: ReadableImageListPullJob,
    own: Mapping[str, PullJobView],
    targets: Sequence[FanOutTarget],
    decision: FanOutDecision,
) -> ImageListPullJobStatus:
    counts = decision.counts
    started = snapshot.job.status.start_time or format_time(snapshot.now)
    image_list_pull_job_status = ImageListPullJobStatus(
        start_time=started,
        desired=len(targets),
        active=sum(child.status.active > 0 for child in own.values()),
        completed=counts.succeeded + counts.failed,
        succeeded=counts.succeeded,
        failed_image_statuses=[
            FailedImageStatus(
                image_pull_job=own[target.name].name,
                name=target.name,
                message="it could not be pulled everywhere: see status.failedNodes of the ImagePullJob",
            )
            for target in targets
            if target.name in own and own[target.name].status.failed > 0
        ]
        or None,
    )
    if decision.finish is None:
        return image_list_pull_job_status
    return msgspec.structs.replace(image_list_pull_job_status, completion_time=format_time(snapshot.now))


def _waiting(decision: FanOutDecision, spec: ImageListPullJobSpec) -> Reason | None:
    left = decision.counts.wanted - decision.counts.succeeded - decision.counts.failed
    if left == 0:
        return None
    if _allows_none(spec):
        return limit_is_zero("spec.parallelism", "no node is asked")
    images = counted(left, "image is", "images are")
    return Reason(Code.IMAGE_PULLING, f"{images} not everywhere yet")


def _allows_none(spec: ImageListPullJobSpec) -> bool:
    try:
        return parallelism_of(spec.parallelism) == 0
    except ValueError:  # its ImagePullJobs say so
        return False


def _skipped(own: Mapping[str, PullJobView], targets: Sequence[FanOutTarget]) -> Iterator[tuple[str, Reason]]:
    """Which images wait for what."""
    for target in targets:
        child = own.get(target.name)
        if child is None or target.state is TargetState.SUCCEEDED:
            continue
        code = Code.IMAGE_PULL if target.state is TargetState.FAILED else Code.IMAGE_PULLING
        said = child.status.message or "not started"
        yield target.name, Reason(code, f"ImagePullJob {child.name}: {said}")
