"""All decisions about an ImagePullJob, as one plan.

ImagePullJobSnapshot ──▶ targets_of() ──▶ decide_fan_out() ──▶ Plan: copies of secrets, requests to nodes, the status;
after the end of the job: releases of secrets

Pure. An entry in a NodeImage requests a pull from a node, and the node reports the result in the status of the
NodeImage. When a job ends, the plan first records the end in the status. Some seconds later, a plan releases the copied
secrets, and then removes the job's finalizer.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds.imagepulljob.defaults import FINALIZER
from pykruise.kinds.imagepulljob.empty_selection import explain_empty_selection
from pykruise.kinds.imagepulljob.node_image_entries import (
    build_entry_patch,
    build_secrets_patch,
    lacks_secrets,
)
from pykruise.kinds.imagepulljob.secrets import SecretSync, sync_of
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot, ReadableImagePullJob, is_readable
from pykruise.kinds.imagepulljob.status import compute_status, finish_status
from pykruise.kinds.imagepulljob.targets import targets_of
from pykruise.kube.clock import parse_optional_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.image_references import ImageName
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.images.api import ImagePullJobSpec, ImagePullJobStatus
from pykruise.pods.images.obstacles import (
    IMAGE_REMEDY,
    find_first_obstacle,
    find_next_late_time,
    obstacle_of,
    remedy_of_limit,
)
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.images.pull_rules import parallelism_of
from pykruise.pods.jobs.fan_out import (
    OTHERS_ARE_FIRST,
    WAITS_FOR_ITS_TURN,
    FanOutDecision,
    FanOutTarget,
    JobPolicy,
    JobRun,
    TargetHold,
    TargetState,
    decide_fan_out,
)
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.waiting import find_pod_wait
from pykruise.runtime.actions import delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason

NAMESPACE_AGAIN_S: Final = 10.0
"""Seconds until a missing namespace is looked up again."""

COPIES_KEPT_S: Final = 10.0
"""Seconds for which copies of secrets are kept after the end of their job, so that a client that reads them every
second can see them even if nodes pull fast. When a job is deleted, its copies are released immediately.
"""

_WARN_AGAIN_S: Final = 600.0

_HOLDS: Final = {
    TargetHold.ZERO: limit_is_zero("spec.parallelism", "no node pulls the image"),
    TargetHold.PARALLELISM: WAITS_FOR_ITS_TURN,
    TargetHold.TURN: OTHERS_ARE_FIRST,
    TargetHold.OVER: Reason(Code.JOB_OVER, "the job has ended"),
}


def plan_imagepulljob(snapshot: ImagePullJobSnapshot) -> Plan:
    """Plan all writes that this job needs now, its status, and when it is reconciled again."""
    job = snapshot.job
    if job.is_deleting:
        return _plan_after_end(snapshot)
    if not is_readable(snapshot) or job.image is None:
        return make_refused_plan(snapshot.refused or [job.problem])
    if job.is_finished:
        return _plan_after_end(snapshot)
    try:
        policy = policy_of(snapshot.job.spec)
    except ValueError as error:
        return make_refused_plan([f"spec.parallelism: {error}"])
    targets = targets_of(snapshot, job.image)
    decision = decide_fan_out(targets, policy, _build_run(snapshot), now=snapshot.now)
    if decision.finish is not None:
        return Plan(status=_to_document(finish_status(snapshot, targets, decision, decision.finish)))
    return _plan_run(snapshot, job.image, targets, decision)


def policy_of(spec: ImagePullJobSpec) -> JobPolicy:
    """Build the policy of the whole job from its spec. Raises ValueError for an invalid parallelism."""
    done = spec.completion_policy
    return JobPolicy(
        parallelism=parallelism_of(spec.parallelism),
        ends=done.type != "Never",
        completes_empty=True,
        completes_late=True,
        deadline_s=done.active_deadline_seconds,
        ttl_s=done.ttl_seconds_after_finished,
    )


def _build_run(snapshot: ImagePullJobSnapshot) -> JobRun:
    started_at = parse_optional_time(snapshot.job.status.start_time)
    return JobRun(started_at=snapshot.now if started_at is None else started_at)


# ── running ──────────────────────────────────────────────────────────────────


def _plan_run(
    snapshot: ReadableImagePullJob,
    image: ImageName,
    targets: Sequence[FanOutTarget],
    decision: FanOutDecision,
) -> Plan:
    job = snapshot.job
    status = _to_document(compute_status(snapshot, targets, decision.counts))
    if not snapshot.has_shared_namespace:
        return _wait_for_namespace(snapshot, status)
    secrets = sync_of(
        job,
        copies=snapshot.copies,
        sources=snapshot.sources,
        namespace=snapshot.settings.secrets_namespace,
    )
    now = decision.start[:MOST_AT_ONCE]
    skipped = dict(_list_skipped(snapshot, image, targets, decision))
    late_at = find_next_late_time(((node, image) for node in snapshot.nodes), now=snapshot.now)
    stuck_at = find_next_blocker_time(snapshot.homeless, now=snapshot.now)
    again_s = [
        decision.requeue_after_s,
        *(compute_seconds_until(time, now=snapshot.now) for time in (late_at, stuck_at)),
    ]
    stages = (
        *_build_stage(
            Purpose.HOLD_JOB, [] if FINALIZER in job.finalizers else [_patch_finalizers(job, held=True)]
        ),
        *_build_stage(Purpose.COPY_SECRETS, secrets.writes),
        *_build_stage(
            Purpose.ASK_NODES,
            list(_request_pulls(snapshot, image, targets, now, secrets)),
            is_independent=True,
        ),
        *_build_stage(Purpose.RELEASE_SECRETS, secrets.releases),
    )
    return Plan(
        stages=stages,
        status=status,
        requeue_after_s=0.0 if len(now) < len(decision.start) else find_soonest(again_s),
        waiting=find_first_obstacle(
            {name: reason for name, reason in skipped.items() if name not in decision.waiting}
        )
        or _explain_wait(snapshot, decision),
        skipped_nodes=skipped,
        notes=tuple(_list_notes(secrets, job.namespace)),
    )


def _request_pulls(
    snapshot: ReadableImagePullJob,
    image: ImageName,
    targets: Sequence[FanOutTarget],
    starting: Sequence[str],
    secrets: SecretSync,
) -> Iterator[Chain]:
    start = frozenset(starting)
    for node, target in zip(snapshot.nodes, targets, strict=True):
        if node.name in start:
            yield build_entry_patch(node, snapshot, image, secrets.references)
        elif _needs_secrets(target, snapshot.job) and lacks_secrets(node, image, secrets.references):
            yield build_secrets_patch(node, image, secrets.references)


def _needs_secrets(target: FanOutTarget, job: PullJobView) -> bool:
    """Whether the node can use a further secret: it is pulling, or will pull again because the job's type is Never."""
    return target.state is TargetState.ACTIVE or (not job.ends and target.state is not TargetState.PENDING)


def _wait_for_namespace(snapshot: ReadableImagePullJob, status: Document) -> Plan:
    """Return a plan that only waits: before its secrets are copied, the job does not request pulls from nodes."""
    name = snapshot.settings.secrets_namespace
    message = f"pull secrets cannot be copied to namespace {name}: the namespace {snapshot.home_problem}"
    return Plan(
        status=status,
        requeue_after_s=NAMESPACE_AGAIN_S,
        waiting=Reason(Code.NO_NAMESPACE, message, f"create the namespace (kubectl create namespace {name})"),
        notes=(Note(reason=Code.NO_NAMESPACE, message=message, warning=True, again_after_s=_WARN_AGAIN_S),),
    )


def _list_notes(secrets: SecretSync, namespace: str) -> Iterator[Note]:
    for name in secrets.missing:
        message = f"there is no secret {name} in namespace {namespace}: the image is pulled without it"
        yield Note(reason="PullSecretMissing", message=message, warning=True, again_after_s=_WARN_AGAIN_S)


# ── the end ──────────────────────────────────────────────────────────────────


def _plan_after_end(snapshot: ImagePullJobSnapshot) -> Plan:
    """Plan to release the copied secrets and to remove the finalizer some seconds after the end, and to delete the job
    when its time to live has passed.
    """
    job = snapshot.job
    stages: list[Stage] = []
    kept_s = None
    if FINALIZER in job.finalizers:
        releases = _release_copies(snapshot)
        kept_s = _compute_time_to_keep(snapshot) if releases else None
        if kept_s is None:
            stages += _build_stage(Purpose.RELEASE_SECRETS, releases)
            stages += _build_stage(Purpose.RELEASE_JOB, [_patch_finalizers(job, held=False)])
    if job.is_deleting:
        return Plan(stages=tuple(stages))
    left_s = _compute_time_to_live(snapshot)
    if left_s is not None and left_s <= 0:
        step = Step(
            action=delete_object(IMAGE_PULL_JOBS, job),
            because="ttlSecondsAfterFinished has passed",
        )
        stages += _build_stage(Purpose.DELETE_JOB, [Chain(subject=job.name, steps=(step,))])
        left_s = None
    return Plan(
        stages=tuple(stages),
        requeue_after_s=find_soonest([left_s, kept_s]),
        waiting=_explain_end(snapshot, will_be_deleted=left_s is not None),
        skipped_nodes=dict(_list_missing(snapshot)),
    )


def _explain_end(snapshot: ImagePullJobSnapshot, *, will_be_deleted: bool) -> Reason | None:
    job = snapshot.job
    if job.is_deleting or not job.status.completion_time:
        return None
    if not job.status.desired:
        return explain_empty_selection(job, is_over=True, homeless=[pod.name for pod in snapshot.homeless])
    if job.status.failed:
        message = f"the job has failed on {job.status.failed} of {format_count(job.status.desired, 'node')}"
        return Reason(Code.JOB_FAILED, message)
    return Reason(Code.JOB_OVER, "the job has ended") if will_be_deleted else None


def _list_missing(snapshot: ImagePullJobSnapshot) -> Iterator[tuple[str, Reason]]:
    """Yield the nodes that do not have the image although the job has ended, each with the reason."""
    job, nodes = snapshot.job, {node.name: node for node in snapshot.nodes}
    for name in job.status.failed_nodes or ():
        known = nodes.get(name) if job.image is not None else None
        said = (
            obstacle_of(
                known, job.image, now=snapshot.now, secrets=job.secrets, missing=snapshot.absent_secrets
            )
            if known is not None and job.image
            else None
        )
        yield name, said or _explain_missing_image(snapshot)
    yield from _list_unknown(snapshot)


def _explain_missing_image(snapshot: ImagePullJobSnapshot) -> Reason:
    """Reason for a node of an ended job whose NodeImage no longer reports why the image is missing."""
    spec, status = snapshot.job.spec, snapshot.job.status
    image = f"image {spec.image}" if spec is not None else "the image"
    deadline_s = spec.completion_policy.active_deadline_seconds if spec is not None else None
    begun, ended = parse_optional_time(status.start_time), parse_optional_time(status.completion_time)
    if deadline_s and begun is not None and ended is not None and ended - begun >= deadline_s:
        field = "completionPolicy.activeDeadlineSeconds"
        words = f"{image} was not pulled within {field} ({deadline_s} s)"
        if (most := _find_used_up_parallelism(snapshot.job)) is None:
            return Reason(Code.IMAGE_PULL, words, remedy_of_limit(field))
        at_once = format_count(most, "node pulls", "nodes pull")
        return Reason(
            Code.IMAGE_PULL,
            f"{words}: at most {at_once} at the same time (spec.parallelism), and the others wait for their turn",
            f"create the job again with a higher spec.parallelism; or create the job again with a higher {field}",
        )
    return Reason(Code.IMAGE_PULL, f"{image} could not be pulled", IMAGE_REMEDY)


def _find_used_up_parallelism(job: PullJobView) -> int | None:
    """Return the parallelism of an ended job if nodes pulled one after another: some have the image, so the pull itself
    is shorter than the deadline. None if all nodes could pull at the same time, or none has the image.
    """
    spec, status = job.spec, job.status
    if spec is None or not status.succeeded:
        return None
    try:
        most = parallelism_of(spec.parallelism)
    except ValueError:
        return None
    return most if most < (status.desired or 0) else None


def _release_copies(snapshot: ImagePullJobSnapshot) -> tuple[Chain, ...]:
    if not snapshot.has_shared_namespace:
        return ()
    namespace = snapshot.settings.secrets_namespace
    return sync_of(snapshot.job, copies=snapshot.copies, sources={}, namespace=namespace).releases


def _compute_time_to_keep(snapshot: ImagePullJobSnapshot) -> float | None:
    """Return the seconds until the copies of a job that has ended are released; None if they are released now."""
    ended_at = parse_optional_time(snapshot.job.status.completion_time)
    if snapshot.job.is_deleting or ended_at is None:
        return None
    left_s = ended_at + COPIES_KEPT_S - snapshot.now
    return left_s if 0 < left_s <= COPIES_KEPT_S else None


def _compute_time_to_live(snapshot: ImagePullJobSnapshot) -> float | None:
    """Return the seconds until the job is deleted; None if it is kept."""
    job = snapshot.job
    ttl_s = job.spec.completion_policy.ttl_seconds_after_finished if job.spec else None
    ended_at = parse_optional_time(job.status.completion_time)
    return None if ttl_s is None or ended_at is None else ended_at + ttl_s - snapshot.now


# ── writes ───────────────────────────────────────────────────────────────────


def _build_stage(purpose: Purpose, chains: Sequence[Chain], *, is_independent: bool = False) -> list[Stage]:
    result = tuple(chains)
    return [Stage(purpose=purpose, chains=result, is_independent=is_independent)] if result else []


def _patch_finalizers(job: PullJobView, *, held: bool) -> Chain:
    """Return the patch that adds the finalizer if `held`, and otherwise removes it."""
    others = [finalizer for finalizer in job.finalizers if finalizer != FINALIZER]
    action = patch_object(
        IMAGE_PULL_JOBS,
        job,
        {"metadata": {"finalizers": [*others, FINALIZER] if held else others}},
        unchanged=True,
    )
    because = (
        "the finalizer delays the deletion of the job until its clean-up has ended"
        if held
        else "nothing is left to clean up, so the finalizer is removed"
    )
    return Chain(subject=job.name, steps=(Step(action=action, because=because),))


def _to_document(status: ImagePullJobStatus) -> Document:
    return status.to_document()


# ── reasons ──────────────────────────────────────────────────────────────────


def _explain_wait(snapshot: ReadableImagePullJob, decision: FanOutDecision) -> Reason | None:
    if decision.counts.wanted == 0:
        if snapshot.homeless:
            return _explain_homeless_pods(snapshot)
        return explain_empty_selection(snapshot.job, is_over=False)
    if decision.counts.active or decision.start:
        return Reason(Code.IMAGE_PULLING, _describe_pulls(decision.counts.active + len(decision.start)))
    if decision.waiting:
        return _HOLDS[next(iter(decision.waiting.values()))]
    return None


def _explain_homeless_pods(snapshot: ReadableImagePullJob) -> Reason:
    """Return why none of the selected pods has a node."""
    blockers = blockers_of(snapshot.homeless, None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    reason = find_pod_wait(blockers)
    return reason or Reason(Code.SCHEDULING, "the pods of spec.podSelector have no node yet")


def _describe_pulls(count: int) -> str:
    return format_count(count, "node pulls the image", "nodes pull the image")


def _list_skipped(
    snapshot: ReadableImagePullJob,
    image: ImageName,
    targets: Sequence[FanOutTarget],
    decision: FanOutDecision,
) -> Iterator[tuple[str, Reason]]:
    """Yield the nodes that wait or have a problem, each with the reason."""
    for node, target in zip(snapshot.nodes, targets, strict=True):
        hold = decision.waiting.get(target.name)
        if hold is not None:
            yield target.name, _HOLDS[hold]
        elif target.state in (TargetState.ACTIVE, TargetState.FAILED):
            obstacle = obstacle_of(
                node,
                image,
                now=snapshot.now,
                secrets=snapshot.job.secrets,
                missing=snapshot.absent_secrets,
            )
            if obstacle is not None:
                yield target.name, obstacle
    yield from _list_unknown(snapshot)


def _list_unknown(snapshot: ImagePullJobSnapshot) -> Iterator[tuple[str, Reason]]:
    for name in snapshot.unknown_nodes:
        yield name, Reason(Code.NO_NODE_IMAGE, f"node {name} has no NodeImage")
