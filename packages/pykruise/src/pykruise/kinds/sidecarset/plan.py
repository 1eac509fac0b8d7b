"""Decisions about sidecars of existing pods: the sequence of steps.

SidecarSetSnapshot ──▶ plan_sidecarset() ──▶ Plan ──▶ runtime/execute.py
                       store the revision ▶ finish completed hot upgrades, otherwise upgrade pods
                       ▶ report pods that cannot be upgraded ▶ delete old revisions; and the status

Pure: the same snapshot gives the same plan. No plan waits for the caches to catch up, because the snapshot contains
this controller's own writes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.conditions import build_condition_patch
from pykruise.kinds.sidecarset.history import StoredRevision, ensure_revision, truncate_history
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.metadata_rollout import (
    build_request,
    find_request_time,
    find_restarts,
    record_restarts,
    rolls_on_metadata,
)
from pykruise.kinds.sidecarset.pod_annotations import MetadataPatchError
from pykruise.kinds.sidecarset.refusals import LAST_RETRY_S
from pykruise.kinds.sidecarset.sidecar_contents import list_sidecar_names
from pykruise.kinds.sidecarset.snapshot import (
    ReadableSidecarSet,
    SidecarSetSnapshot,
    UpgradeRefusal,
    is_readable,
)
from pykruise.kinds.sidecarset.status import status_of
from pykruise.kinds.sidecarset.uninjected import find_pods_without
from pykruise.kinds.sidecarset.upgrade import can_be_reset, reset_patch, upgrade_patch
from pykruise.kinds.sidecarset.upgrade_choice import ChosenPods, choose
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.pod_writes import make_pod_key, pod_patch, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.reasons import AT_REST, NEEDS_A_PERSON, REPEATED, Code, rank_of
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import find_pod_wait
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, Subject, compute_seconds_until
from pykruise.runtime.reasons import Reason

NOT_UPDATE: Final = Reason(
    Code.NOT_UPDATE,
    "updateStrategy.type is NotUpdate: pods keep the sidecars that were injected when they were created",
)
PAUSED: Final = Reason(
    Code.PAUSED,
    "updateStrategy.paused is true: no pod is upgraded",
    "set spec.updateStrategy.paused to false",
)
HOT_UPGRADES_FIRST: Final = Reason(Code.HOT_UPGRADE, "waits until hot upgrades of other pods have ended")
RESTARTING: Final = Reason(
    Code.UPDATING_IN_PLACE,
    "waits for the restart of the containers that use the pod's new annotations in environment variables",
)
BROKEN_ANNOTATION: Final = "correct the annotation, or recreate the pod"

AGAIN_S: Final = 300.0
"""Seconds after which an event is recorded again if its cause still exists."""


def plan_sidecarset(snapshot: SidecarSetSnapshot) -> Plan:
    """Plan all writes for this SidecarSet now, and its status."""
    sidecar_set = snapshot.sidecarset
    if sidecar_set.is_deleting:
        return Plan()  # pods keep their sidecars, and garbage collection deletes the revisions
    if not is_readable(snapshot):
        problems = snapshot.refused or [sidecar_set.problem]
        return make_refused_plan(problems, pods=[pod.label for pod in snapshot.pods])
    revision = ensure_revision(snapshot)
    if snapshot.refusal is not None:
        return _plan_hold(snapshot, snapshot.refusal, revision)
    stages, skipped, notes = _decide_upgrades(snapshot, revision)
    status = status_of(snapshot, revision)
    unready = [pod for pod in snapshot.pods if pod.is_updated and not pod.pod.is_ready]
    late_at = find_next_blocker_time((pod.pod for pod in unready), now=snapshot.now)
    restarts, again_at = _request_restarts(snapshot)
    look_at = min((at for at in (late_at, again_at) if at is not None), default=None)
    obstacles = blockers_of((pod.pod for pod in unready), None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    return Plan(
        stages=(*revision.stages, *(stages or restarts), *truncate_history(snapshot, revision)),
        status=None if status == sidecar_set.stored_status else status,
        requeue_after_s=0.0 if _is_partial(stages) else compute_seconds_until(look_at, now=snapshot.now),
        waiting=_find_failing_sidecar(snapshot, obstacles) or _find_waiting_reason(snapshot.pods, skipped),
        skipped={
            **{
                f"{pod.namespace}/{pod.name}": reason for pod, reason in obstacles if reason.code in _REPORTED
            },
            **_skip_pods([pod for pod in snapshot.pods if pod.is_updated and pod.restarting], RESTARTING),
            **skipped,
            **find_pods_without(snapshot),
        },
        notes=notes,
    )


def _plan_hold(snapshot: ReadableSidecarSet, refusal: UpgradeRefusal, revision: StoredRevision) -> Plan:
    """Plan no writes to pods until the rejected write is retried. All retries use the same event."""
    reason, status = refusal.reason, status_of(snapshot, revision)
    is_known = reason.code != Code.WRITE_FAILED and bool(reason.remedy)
    then = reason.remedy if is_known else f"the manager retries within {LAST_RETRY_S:g} s"
    note = Note(
        reason="FailedUpgradeSidecar",
        message=f"{refusal.about}: {reason.message}; {then}",
        code=reason.code if is_known else "",
        warning=True,
        again_after_s=AGAIN_S,
        same_as=reason.code,
    )
    return Plan(
        status=None if status == snapshot.sidecarset.stored_status else status,
        requeue_after_s=refusal.again_at - snapshot.now,
        waiting=reason,
        skipped=_skip_pods([pod for pod in snapshot.pods if not pod.is_updated], reason),
        notes=(note,),
    )


def _skip_pods(pods: Iterable[ManagedPod], reason: Reason) -> dict[str, Reason]:
    return dict.fromkeys((pod.label for pod in pods), reason)


_REPORTED: Final = REPEATED | {Code.NOT_READY}
"""Codes that are reported for updated pods: these pods do not serve, and other pods may wait for them."""


def _find_failing_sidecar(
    snapshot: ReadableSidecarSet, obstacles: Sequence[tuple[PodView, Reason]]
) -> Reason | None:
    """Reason when a sidecar does not run in an updated pod: the pod counts as unavailable, so others may wait."""
    names = frozenset(list_sidecar_names(snapshot.sidecarset.contents.containers))
    return find_pod_wait(
        [pair for pair in obstacles if pair[1].code in NEEDS_A_PERSON and pair[1].container in names]
    )


def _find_waiting_reason(pods: Sequence[ManagedPod], skipped: Mapping[str, Reason]) -> Reason | None:
    """Reason why the upgrade waits or is on hold; None: all pods run their new sidecars.

    A pod whose sidecars run is ignored, even if its own containers are not ready.
    """
    old = [pod for pod in pods if not pod.is_updated]
    held = [(pod, reason) for pod in old if (reason := skipped.get(pod.label)) is not None]
    stuck = [(pod, reason) for pod, reason in held if reason.code not in AT_REST]
    count = f"{len(old)} of {format_count(len(pods), 'pod has', 'pods have')} older sidecars"
    if stuck:
        pod, reason = min(stuck, key=lambda pair: (rank_of(pair[1].code), pair[0].label))
        return Reason(reason.code, f"{count}; pod {pod.label}: {reason.message}", reason.remedy)
    if len(held) < len(old):
        return Reason(Code.UPDATING, f"{count} and are being upgraded")
    restarting = sum(pod.is_updated and not pod.is_consistent for pod in pods)
    if restarting:
        return Reason(
            Code.UPDATING_IN_PLACE, f"sidecars of {format_count(restarting, 'pod')} are being restarted"
        )
    if held:
        reason = min((reason for _, reason in held), key=lambda reason: rank_of(reason.code))
        return Reason(reason.code, f"{count}: {reason.message}", reason.remedy)
    return None


def _is_partial(stages: Sequence[Stage]) -> bool:
    """Whether more writes may follow in the next plan. Optional stages always contain all of their writes."""
    return any(len(stage.chains) >= MOST_AT_ONCE and not stage.is_optional for stage in stages)


_Decided = tuple[list[Stage], dict[str, Reason], tuple[Note, ...]]


def _decide_upgrades(snapshot: ReadableSidecarSet, revision: StoredRevision) -> _Decided:
    sidecar_set, pods = snapshot.sidecarset, snapshot.pods
    waiting = [pod for pod in pods if not pod.is_updated]
    if sidecar_set.is_only_injected:
        return [], _skip_pods(waiting, NOT_UPDATE), ()
    if sidecar_set.spec.update_strategy is not None and sidecar_set.spec.update_strategy.paused:
        return [], _skip_pods(waiting, PAUSED), ()
    over = [pod for pod in pods if can_be_reset(pod, sidecar_set)]
    if over:
        skipped = _skip_pods(waiting, HOT_UPGRADES_FIRST)
        return (
            [_make_reset_stage(snapshot, over), *_make_condition_stage(snapshot, (), except_for=over)],
            skipped,
            (),
        )
    try:
        chosen = choose(sidecar_set, pods)
    except ValueError as error:
        problem = f"spec.updateStrategy: {error}"
        note = Note(reason="InvalidSpec", message=problem, warning=True, again_after_s=AGAIN_S)
        return [], _skip_pods(waiting, Reason(Code.INVALID_SPEC, problem)), (note,)
    return _upgrade_pods(snapshot, revision, chosen)


def _make_reset_stage(snapshot: ReadableSidecarSet, pods: Sequence[ManagedPod]) -> Stage:
    chains = []
    for pod in pods[:MOST_AT_ONCE]:
        subject = Subject(resource=PODS, key=make_pod_key(pod.pod), uid=pod.pod.uid)
        what = ", ".join(pairs.other for pairs in pod.pairs if not pairs.is_idle)
        step = Step(
            action=_make_patch(pod, reset_patch(pod, snapshot.sidecarset, now=snapshot.now)),
            because=f"the hot upgrade has ended: {what} becomes idle",
            done=Note(reason="ResetContainerSucceed", message=f"{what} is idle again", about=subject),
            failed=Note(
                reason="ResetContainerFailed",
                message=f"failed to make {what} idle",
                warning=True,
                about=subject,
            ),
        )
        chains.append(Chain(subject=pod.label, steps=(step,)))
    return Stage(purpose=Purpose.END_HOT_UPGRADES, chains=tuple(chains))


def _upgrade_pods(snapshot: ReadableSidecarSet, revision: StoredRevision, chosen: ChosenPods) -> _Decided:
    sidecar_set = snapshot.sidecarset
    chains: list[Chain] = []
    skipped = dict(chosen.skipped)
    notes: list[Note] = []
    rolls = rolls_on_metadata(sidecar_set.annotations)
    for pod in chosen.pods[:MOST_AT_ONCE]:
        try:
            body = upgrade_patch(pod, sidecar_set, revision=revision.name, now=snapshot.now)
        except MetadataPatchError as error:
            skipped[pod.label] = Reason(Code.BROKEN_UPDATE, str(error), BROKEN_ANNOTATION)
            notes += _make_failure_notes(pod, str(error))
            continue
        restarts: Mapping[str, str] = {}
        if rolls:
            new = find_restarts(pod.pod, body, sidecar_set.contents.patch_pod_metadata)
            restarts = {**pod.restarting, **new}
            body = record_restarts(pod.pod, body, restarts, sidecarset=sidecar_set.name, now=snapshot.now)
        step = Step(
            action=_make_patch(pod, body),
            because=f"sidecars upgraded to revision {revision.name}"
            + ("" if pod.is_ready else "; the pod is not ready, so it does not wait for maxUnavailable"),
        )
        chains.append(Chain(subject=pod.label, steps=(step, *_make_request_steps(pod, snapshot, restarts))))
    if chosen.stuck:
        message = (
            f"SidecarSet in-place update detected {len(chosen.stuck)} not upgradable pod(s) in this round, "
            "will skip them."
        )
        notes.append(Note(reason="NotUpgradablePods", message=message, again_after_s=AGAIN_S))
    said = _make_condition_stage(snapshot, chosen.stuck, except_for=chosen.pods)
    return [*stage_of(Purpose.UPGRADE_SIDECARS, chains), *said], skipped, tuple(notes)


def _make_request_steps(
    pod: ManagedPod, snapshot: ReadableSidecarSet, restarts: Mapping[str, str]
) -> Iterator[Step]:
    if not restarts:
        return
    names = ", ".join(sorted(restarts))
    subject = Subject(resource=PODS, key=make_pod_key(pod.pod), uid=pod.pod.uid)
    yield Step(
        action=build_request(pod.pod, sorted(restarts), sidecarset=snapshot.sidecarset.name),
        because=f"containers {names} restart in place: their environment variables read a changed annotation",
        done=Note(
            reason="RestartForMetadata",
            message=f"containers {names} restart in place: their environment variables read an annotation that "
            f"SidecarSet {snapshot.sidecarset.name} changed",
            about=subject,
        ),
    )


def _request_restarts(snapshot: ReadableSidecarSet) -> tuple[tuple[Stage, ...], Instant | None]:
    """Repeat the requests for restarts that have not happened, and return the time of the next check. The plan uses
    these stages only if it contains no other writes to pods: each write requires the pod as it was read.
    """
    name = snapshot.sidecarset.name
    chains: list[Chain] = []
    times: list[Instant] = []
    for pod in snapshot.pods:
        if not (pod.is_updated and pod.restarting):
            continue
        at = find_request_time(pod.pod, name)
        if at > snapshot.now:
            times.append(at)
            continue
        body = record_restarts(pod.pod, {"metadata": {}}, pod.restarting, sidecarset=name, now=snapshot.now)
        step = Step(action=_make_patch(pod, body), because="the requested restart has not happened")
        chains.append(
            Chain(subject=pod.label, steps=(step, *_make_request_steps(pod, snapshot, pod.restarting)))
        )
    return stage_of(Purpose.RESTART_FOR_METADATA, chains[:MOST_AT_ONCE]), min(times, default=None)


def _make_failure_notes(pod: ManagedPod, problem: str) -> Iterator[Note]:
    """Record the event twice: on the SidecarSet, and on the pod with the invalid annotation."""
    reason, subject = (
        "FailedUpgradeSidecar",
        Subject(resource=PODS, key=make_pod_key(pod.pod), uid=pod.pod.uid),
    )
    yield Note(reason=reason, message=f"{pod.label}: {problem}", warning=True, again_after_s=AGAIN_S)
    yield Note(reason=reason, message=problem, warning=True, again_after_s=AGAIN_S, about=subject)


def _make_patch(pod: ManagedPod, body: Document, *, subresource: str = "") -> Patch:
    """Build the patch of a pod. It was computed from the pod as read, so it applies only if the pod has not changed
    since.
    """
    return pod_patch(pod.pod, body, subresource=subresource, unchanged=True)


def _make_condition_stage(
    snapshot: ReadableSidecarSet, stuck: Sequence[ManagedPod], *, except_for: Sequence[ManagedPod]
) -> tuple[Stage, ...]:
    """Build patches of the pods' condition. Pods that this plan upgrades are left out: their new state is not known
    yet.
    """
    name, cannot = snapshot.sidecarset.name, {pod.label for pod in stuck}
    written = {pod.label for pod in except_for}
    chains: list[Chain] = []
    for pod in snapshot.pods:
        if pod.label in written:
            continue
        is_stuck = pod.label in cannot
        body: Any = build_condition_patch(pod, name, is_stuck=is_stuck, now=snapshot.now)
        if body is not None:
            because = "it cannot be upgraded in place" if is_stuck else "its sidecars are up to date"
            step = Step(action=_make_patch(pod, body, subresource="status"), because=because)
            chains.append(Chain(subject=pod.label, steps=(step,)))
    return stage_of(Purpose.SET_CONDITIONS, chains, is_optional=True, regardless=True)
