"""The plan for an ImageListPullJob: one ImagePullJob for each image.

ImageListPullJobSnapshot ──▶ the ImagePullJob of each image ──▶ decide_fan_out() ──▶ Plan: jobs to create,
                                                                                           jobs to delete, the status

Pure. If an ImagePullJob was created from another template, it is replaced. An ImagePullJob was created from the present
template if its label has the hash of this template. Another implementation computes other hashes, so the ImagePullJob
is also kept if its spec equals the template, or if the spec of the ImageListPullJob has never changed.
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
from pykruise.kube.clock import format_time, parse_optional_time
from pykruise.kube.documents import Document, is_same
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count, format_first
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.images.api import ImagePullJobSpec
from pykruise.pods.images.obstacles import IMAGE_REMEDY
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.images.pull_rules import parallelism_of
from pykruise.pods.jobs.fan_out import (
    FanOutDecision,
    FanOutTarget,
    JobPolicy,
    JobRun,
    TargetState,
    decide_fan_out,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

LONGEST_PREFIX: Final = 58
"""Maximum length of the prefix of a generated name, before its random suffix."""

MOST_NAMED: Final = 10
"""Maximum number of nodes that the message about a failed image names."""

_WARN_AGAIN_S: Final = 600.0

_OVER: Final = Reason(Code.JOB_OVER, "the job has ended")


def plan_imagelistpulljob(snapshot: ImageListPullJobSnapshot) -> Plan:
    """Plan all writes that this job needs now, its status, and when it is reconciled again."""
    job = snapshot.job
    if job.is_deleting:  # the garbage collector deletes its ImagePullJobs
        return Plan()
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.job.problem])
    spec = snapshot.job.spec
    own, surplus = _match_jobs(snapshot, spec)
    targets = [
        FanOutTarget(name=image, state=state_of(own.get(image))) for image in dict.fromkeys(spec.images)
    ]
    decision = decide_fan_out(targets, _build_policy(spec), _build_run(snapshot), now=snapshot.now)
    if job.status.completion_time:
        return _plan_after_end(job, own, decision)
    stages = (
        *_build_stage(Purpose.LABEL_JOB, _label_job(job)),
        *_build_stage(Purpose.CREATE_JOBS, _create_jobs(snapshot, decision.start), ramp=True),
        *_build_stage(Purpose.DELETE_JOBS, [_delete_job(child) for child in surplus]),
    )
    status = _build_status(snapshot, own, targets, decision)
    return Plan(
        stages=stages,
        status=status.to_document(),
        requeue_after_s=decision.requeue_after_s,
        waiting=_explain_wait(decision, spec),
        skipped=dict(_list_skipped(own, targets, pulls=not _allows_none(spec))),
    )


def _build_policy(spec: ImageListPullJobSpec) -> JobPolicy:
    """Return the policy for the list of images. It has no deadline, because each ImagePullJob has the deadline."""
    done = spec.completion_policy
    return JobPolicy(ends=done.type != "Never", ttl_s=done.ttl_seconds_after_finished)


def _build_run(snapshot: ReadableImageListPullJob) -> JobRun:
    """Return the times of the job. Any start time is right: only a deadline depends on it, and the list has none."""
    ended = snapshot.job.status.completion_time
    finished_at = parse_optional_time(ended)
    if ended and finished_at is None:
        finished_at = snapshot.now
    return JobRun(started_at=snapshot.now, finished_at=finished_at)


# ── ImagePullJobs ────────────────────────────────────────────────────────────


def _match_jobs(
    snapshot: ReadableImageListPullJob, spec: ImageListPullJobSpec
) -> tuple[Mapping[str, PullJobView], Sequence[PullJobView]]:
    """Return the ImagePullJob of each image, and the ImagePullJobs to delete. An ImagePullJob is deleted if its image
    is not listed, if it was created from another template, or if it is a duplicate.
    """
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
            and _is_from_template(child, made, snapshot.job)
        ):
            own[made.image] = child
        else:
            surplus.append(child)
    return own, surplus


def _is_from_template(child: PullJobView, made: ImagePullJobSpec, job: ListJobView) -> bool:
    """Whether the ImagePullJob with the spec `made` was created from the present template. Its label decides, because a
    user or a policy may have changed its spec.
    """
    label = child.labels.get(keys.REVISION_LABEL)
    if label == job.template_hash:
        return True
    # Another hash is either OpenKruise's hash of the present template, or the hash of an earlier template. If the spec
    # of the list has never changed (generation 1), there is no earlier template. If it has changed, nothing shows
    # which of the two it is, so the specs are compared, and an ImagePullJob whose spec was changed is replaced. An
    # image that is pulled twice is less harm than an image that is never pulled after a change of the list.
    if label and job.generation == 1:
        return True
    return is_same(template_of(made), job.template)


def state_of(child: PullJobView | None) -> TargetState:
    """Return the state of an image, from its ImagePullJob."""
    if child is None:
        return TargetState.PENDING
    status = child.status
    if not status.start_time or status.desired != status.failed + status.succeeded:
        return TargetState.ACTIVE
    if not status.desired:  # the ImagePullJob has selected no node
        return TargetState.FAILED if status.completion_time else TargetState.ACTIVE
    return TargetState.SUCCEEDED if status.desired == status.succeeded else TargetState.FAILED


# ── writes ───────────────────────────────────────────────────────────────────


def _build_stage(purpose: Purpose, chains: Iterable[Chain], *, ramp: bool = False) -> list[Stage]:
    result = tuple(chains)
    return [Stage(purpose=purpose, chains=result, ramp=ramp)] if result else []


def _label_job(job: ListJobView) -> Iterator[Chain]:
    if job.labels.get(keys.REVISION_LABEL) != job.template_hash:
        action = patch_object(
            IMAGE_LIST_PULL_JOBS, job, {"metadata": {"labels": {keys.REVISION_LABEL: job.template_hash}}}
        )
        yield Chain(
            subject=job.name,
            steps=(Step(action=action, because="the label must have the hash of its template"),),
        )


def _create_jobs(snapshot: ReadableImageListPullJob, images: Sequence[str]) -> Iterator[Chain]:
    job = snapshot.job
    prefix = f"{job.name}-"[:LONGEST_PREFIX]
    used = {child.name[len(prefix) :] for child in snapshot.children}
    # The manager chooses the names, so that it can repeat a creation if the API server's response was lost.
    for image, fresh in zip(images, snapshot.ids.draw_ids(len(images), used=used), strict=True):
        name = f"{prefix}{fresh}"
        body: Document = {
            "apiVersion": IMAGE_PULL_JOBS.api_version,
            "kind": IMAGE_PULL_JOBS.kind,
            "metadata": {
                "name": name,
                "generateName": prefix,
                "namespace": job.namespace,
                "labels": {keys.REVISION_LABEL: job.template_hash},
                "ownerReferences": [job.build_reference(IMAGE_LIST_PULL_JOBS)],
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


def _delete_job(child: PullJobView) -> Chain:
    step = Step(
        action=delete_object(IMAGE_PULL_JOBS, child),
        because="its image is no longer listed, or the job was created from another template",
        done=Note(reason="Successful delete ImagePullJob", message=f"deleted ImagePullJob {child.name}"),
        failed=Note(
            reason="FailedDelete", message=f"failed to delete ImagePullJob {child.name}", warning=True
        ),
    )
    return Chain(subject=child.name, steps=(step,))


def _plan_after_end(job: ListJobView, own: Mapping[str, PullJobView], decision: FanOutDecision) -> Plan:
    """Plan to delete the job when its time to live has passed."""
    stages: list[Stage] = []
    if decision.delete:
        step = Step(
            action=delete_object(IMAGE_LIST_PULL_JOBS, job),
            because="ttlSecondsAfterFinished has passed",
        )
        stages = _build_stage(Purpose.DELETE_JOB, [Chain(subject=job.name, steps=(step,))])
    return Plan(
        stages=tuple(stages),
        requeue_after_s=decision.requeue_after_s,
        waiting=_OVER if decision.requeue_after_s is not None else None,
        skipped=dict(_list_failed(job, own)),
    )


def _list_failed(job: ListJobView, own: Mapping[str, PullJobView]) -> Iterator[tuple[str, Reason]]:
    """Yield the failed images of an ImageListPullJob that has ended, if their ImagePullJobs were deleted. Existing
    ImagePullJobs report the reason themselves.
    """
    for entry in job.status.failed_image_statuses or ():
        if entry.name in own:
            continue
        yield entry.name, Reason(Code.IMAGE_PULL, entry.message, IMAGE_REMEDY)


# ── status ───────────────────────────────────────────────────────────────────


def _build_status(
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
                message=_describe_failure(own[target.name]),
            )
            for target in targets
            if target.name in own
            and (own[target.name].status.failed > 0 or target.state is TargetState.FAILED)
        ]
        or None,
    )
    if decision.finish is None:
        return image_list_pull_job_status
    return msgspec.structs.replace(image_list_pull_job_status, completion_time=format_time(snapshot.now))


def _describe_failure(child: PullJobView) -> str:
    """Return why an image failed. The message names nodes, because the ImagePullJob may be deleted before the
    ImageListPullJob.
    """
    if not child.status.failed:
        return "its ImagePullJob ended, and no node was selected"
    nodes = format_first(child.status.failed_nodes or (), MOST_NAMED)
    where = f"on {nodes}" if nodes else "on some nodes"
    return f"it could not be pulled {where}"


def _explain_wait(decision: FanOutDecision, spec: ImageListPullJobSpec) -> Reason | None:
    left = decision.counts.wanted - decision.counts.succeeded - decision.counts.failed
    if left == 0:
        return None
    if _allows_none(spec):
        return limit_is_zero("spec.parallelism", "no image is pulled")
    if not decision.counts.active:
        jobs = format_count(left, "ImagePullJob is", "ImagePullJobs are")
        return Reason(Code.CREATING, f"{jobs} being created")
    images = format_count(decision.counts.active, "image is", "images are")
    return Reason(Code.IMAGE_PULLING, f"{images} not on all nodes yet")


def _allows_none(spec: ImageListPullJobSpec) -> bool:
    try:
        return parallelism_of(spec.parallelism) == 0
    except ValueError:  # the ImagePullJobs report the invalid value
        return False


def _list_skipped(
    own: Mapping[str, PullJobView], targets: Sequence[FanOutTarget], *, pulls: bool
) -> Iterator[tuple[str, Reason]]:
    """Yield the images that wait or failed, each with the reason. `pulls`: whether parallelism lets any node pull; if
    not, only failed images are yielded.
    """
    for target in targets:
        child = own.get(target.name)
        if child is None or target.state is TargetState.SUCCEEDED:
            continue
        code = Code.IMAGE_PULL if target.state is TargetState.FAILED else Code.IMAGE_PULLING
        if code == Code.IMAGE_PULLING and not pulls:
            continue
        said = child.status.message or "not started"
        yield target.name, Reason(code, f"ImagePullJob {child.name}: {said}")
