"""The state of a rollout in words: finished work, waits, next steps, and remedies for a person.

Sight + Plan ──▶ explain() ──▶ Explanation ──▶ format_explanation() for people, JSON for programs

Pure, for every kind. Reasons come from two places: the plan names the reason for each pod and node that it skips, and
the pods show why they are not available. The first wait is the cause. Waits that only follow from it (a budget that
is used up, a pod's turn) come later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import WaitCause, cause_of
from pykruise.cli.insight.cluster_reading import Sight, list_claim_names
from pykruise.cli.insight.known_kinds import correction_of, find_workload_insight, is_per_node
from pykruise.cli.insight.surges import explain_surge
from pykruise.cli.insight.way_back import find_revision_before
from pykruise.cli.insight.way_back import find_way_back as way_back_to
from pykruise.kinds import shown_of
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.plans.config_content import CONFIG_MISSING
from pykruise.plans.insight import WorkloadInsight
from pykruise.plans.progress import Phase, add_waits
from pykruise.plans.purposes import Purpose
from pykruise.pods.corrections import Correction
from pykruise.pods.reasons import (
    AT_REST,
    CODES,
    HELD,
    NOT_WRITTEN,
    REPLACED_WITH_ITS_POD,
    RESUME,
    Code,
    rank_of,
    remedy_of,
)
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import RECONCILING
from pykruise.runtime.plan import Plan
from pykruise.runtime.reasons import Reason


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, for all pods that share it. Without pods, the reason is about the whole workload."""

    code: str
    words: str
    pods: tuple[str, ...] = ()
    """Names of the pods, or of other objects that the words are about: nodes, images, namespaces."""
    since: str = ""
    tried: str = ""
    """Time of the last attempt of a rejected write; empty: unknown."""
    again: str = ""
    """Estimated time of the next attempt; empty: unknown."""
    remedy: str = ""
    origin: str = ""
    """Object that defines the failing container instead of the pods' owner: `SidecarSet mesh`; empty: the owner."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `pykruise explain` shows."""

    kind: str
    namespace: str
    name: str
    verdict: str
    """State of the work: done, moving, waiting, paused, refused, failed or terminating."""
    headline: str
    phase: Phase = Phase.PROGRESSING
    """Phase as the dashboard, Argo CD and the metrics show it too (plans/progress.py)."""
    condition: str = ""
    """The object's condition Waiting: reason and message."""
    done: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    """Waits; the cause is the first."""
    next: tuple[str, ...] = ()
    rollback_to: int = 0
    """Number of the revision that a rollback restores: the newest one with serving pods; 0: there is no such
    revision.
    """

    @property
    def cause(self) -> str:
        """Code of the first wait; empty: the object waits for nothing."""
        return self.waits[0].code if self.waits else ""


_FAILED: Final = frozenset({"FailedScale", "FailedUpdate", "FailedCreatePod", "FailedUpdatePod"})
"""Types of conditions by which kinds report a failed operation."""


def explain(
    sight: Sight, plan: Plan, *, way_back: str | None = None, correction: Correction | None = None
) -> Explanation:
    """Return the explanation of the workload that `plan` was made for, from the same snapshot. `way_back`: remedy that
    rolls the workload back when another object owns it; None: the remedy of the workload itself. `correction`:
    instruction for correcting the template when another object contains it.
    """
    now = sight.snapshot.now
    meta = sight.document["metadata"]
    status: Mapping[str, Any] = plan.status if plan.status is not None else sight.document.get("status") or {}
    all_waits = drop_repeats(
        rank_waits(_find_waits(sight, plan, status, now, correction or _correction_in(sight)))
    )
    waits = drop_harmful_remedies(all_waits, sight, plan, status, way_back=way_back)
    # The status of a workload shows what it waits for, until it is deleted.
    is_shown = isinstance(sight.kind.insight, WorkloadInsight) and "deletionTimestamp" not in meta
    phase = phase_of(sight.document, () if is_shown else waits)
    return Explanation(
        kind=str(sight.document["kind"]),
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        verdict=verdict_of(waits, plan, sight.document, phase),
        phase=phase,
        headline=_describe_state(sight, plan, status),
        condition=_condition_of(sight.document.get("status") or {}),
        done=tuple(_finished_lines(sight, plan, status)),
        waits=waits,
        next=tuple(next_of(plan, waits)),
        rollback_to=_rollback_to(sight, plan, status),
    )


def _describe_state(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    insight = sight.kind.insight
    if insight is not None and insight.headline is not None:
        return insight.headline(status)
    if not isinstance(insight, WorkloadInsight):
        return f"{format_count(len(list(plan.steps)), 'write')} to make, {len(plan.skipped)} waiting"
    counts = find_workload_insight(sight.kind).counts(sight.document, status, plan)
    goal = (
        f"{counts.to_be_updated} of {counts.wanted}"
        if counts.to_be_updated != counts.wanted and counts.updated < counts.wanted
        else f"all {counts.wanted}"
    )
    return (
        f"{_pods_are(counts.updated)} of {counts.revision or 'its first revision'} (wanted: {goal}), "
        f"{counts.available} of {counts.wanted} available"
    )


def _condition_of(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == WAITING and condition.get("status") == "True":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


def verdict_of(waits: Sequence[Wait], plan: Plan, document: Document, phase: Phase | None = None) -> str:
    """Return the state in one word; see `Explanation.verdict`."""
    if phase is Phase.FAILED and "deletionTimestamp" not in document["metadata"]:
        return "failed"
    codes = {wait.code for wait in waits}
    if "deletionTimestamp" in document["metadata"]:
        return "terminating"
    if phase is Phase.PAUSED and Code.PAUSED in codes:
        return "paused"
    if Code.REFUSED in codes:
        return "refused"
    if codes & NOT_WRITTEN:
        return "waiting"  # the next write is rejected or never tried
    if any(stage.purpose != Purpose.TIDY_UP for stage in plan.stages):
        return "moving"
    if codes - AT_REST:
        return "waiting"
    if Code.PAUSED in codes:
        return "paused"
    return "done"


def phase_of(document: Document, waits: Sequence[Wait]) -> Phase:
    """Return the phase that the object itself shows. `waits`: waits that its status does not show, such as those of
    other owners' pods.
    """
    shown = shown_of(document)
    if shown is None:
        return Phase.PROGRESSING
    return add_waits(shown.progress_of(document).phase, (wait.code for wait in waits))


def _finished_lines(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return
    counts = sight.kind.insight.counts(sight.document, status, plan)
    revision = counts.revision
    target = revision.rpartition("-")[2]
    new = [pod for pod in sight.snapshot.pods if pod.is_active and pod.revision == target and target]
    serving = [pod for pod in new if pod.is_serving]
    if not new:
        return
    words = f"{_pods_are(len(new))} of {revision}, {len(serving)} of them serving"
    surplus = len(new) - counts.wanted
    if is_per_node(sight.kind) and surplus > 0:
        words += f"; {surplus} of them on nodes that should have none, which the count above omits"
    yield words


# Waits


def _find_waits(
    sight: Sight, plan: Plan, status: Mapping[str, Any], now: Instant, correction: Correction
) -> Iterator[Wait]:
    yield from _waits_of_object(sight, plan, status)
    insight = sight.kind.insight
    strategy = insight.strategy(sight.document["spec"])[0] if isinstance(insight, WorkloadInsight) else None
    documents = sight.pods
    written = {chain.subject for stage in plan.stages for chain in stage.chains}
    target = _target_of(sight, plan, status)
    down: list[str] = []
    causes: dict[str, WaitCause] = {}
    for pod in getattr(sight.snapshot, "pods", ()):
        if (document := documents.get(pod.name)) is None:
            continue  # the kind selects pods of other owners
        cause = cause_of(
            document,
            pod,
            now=now,
            lifecycle=strategy.lifecycle if strategy else None,
            min_ready_s=strategy.min_ready_s if strategy else 0,
            lost_nodes=sight.lost_nodes,
            claims=sight.claim_problems,
            correction=correction,
        )
        has_failed = pod.name in plan.skipped and plan.skipped[pod.name].code == Code.POD_FAILED
        if cause is not None and (pod.is_active or pod.is_deleting) and not has_failed:
            cause = _held_as(cause, pod, plan.skipped.get(pod.name), target)
            if cause.code == Code.UNSCHEDULABLE and isinstance(insight, WorkloadInsight):
                wanted = insight.counts(sight.document, status, plan).wanted
                cause = explain_surge(cause, document, sight, wanted=wanted, correction=correction)
            causes[pod.name] = cause
            if pod.is_active:
                down.append(pod.name)
            if not (pod.name in written and cause.code in (Code.STARTING, Code.SCHEDULING)):
                yield wait_of(cause, pod.name)
        elif pod.is_active and not pod.is_serving:
            down.append(pod.name)
    for name, reason in plan.skipped.items():
        wait = _wait_of_skipped(name, reason, down)
        if not _is_explained_by(wait, causes.get(name)):
            yield wait
    for node, reason in plan.skipped_nodes.items():
        if reason.code not in _HIDDEN_ON_NODES:
            has_pods = insight is None or bool(insight.containers)
            words = f"no pod yet: {reason.message}" if has_pods else reason.message
            yield Wait(code=reason.code, words=words, pods=(node,), remedy=remedy_of(reason))


def _target_of(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    """Return the hash of the newest revision; empty: the kind has no revisions, or none yet."""
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return ""
    return sight.kind.insight.counts(sight.document, status, plan).revision.rpartition("-")[2]


def _held_as(cause: WaitCause, pod: PodView, held: Reason | None, target: str) -> WaitCause:
    """Return the cause of a pod. If a person holds the update of a pod with an older template, the remedy ends the
    hold, because the template may be correct already.
    """
    is_old = bool(target) and pod.revision != target
    if not is_old or held is None:
        return cause
    if held.code == Code.OLDER_REVISION and cause.code in REPLACED_WITH_ITS_POD:
        return msgspec.structs.replace(cause, words=f"{cause.words}; {held.message}", remedy=held.remedy)
    if held.code not in HELD or cause.code not in OF_THE_TEMPLATE:
        return cause
    words = f"{cause.words}; it is of an older template, and {held.message}"
    return msgspec.structs.replace(cause, words=words, remedy=remedy_of(held))


def _waits_of_object(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> Iterator[Wait]:
    meta = sight.document["metadata"]
    if "deletionTimestamp" in meta:
        held = [name for name in meta.get("finalizers") or () if name != "foregroundDeletion"]
        words = f"it is being deleted; {format_count(len(sight.pods), 'pod is', 'pods are')} left"
        words += f"; finalizer {', '.join(held)} holds it" if held else ""
        yield Wait(code=Code.TERMINATING_OBJECT, words=words, since=meta["deletionTimestamp"])
        return
    is_refused = any(note.warning and note.reason in _REFUSING for note in plan.notes)
    if not is_refused and (sight.kind.insight is None or sight.kind.insight.has_observed_generation):
        yield from find_unobserved_changes(
            sight.document
        )  # the manager never observes the generation of a rejected spec
    is_zero = plan.waiting is not None and plan.waiting.code == Code.LIMIT_IS_ZERO
    if plan.waiting is not None and _is_own_wait(plan.waiting, sight):
        yield Wait(code=plan.waiting.code, words=plan.waiting.message, remedy=remedy_of(plan.waiting))
    yield from _waits_of_conditions(status)
    yield from _failed_writes(sight.document.get("status") or {}, plan, status)
    for note in plan.notes:
        if note.reason == "ScaleUpLimited" and not is_zero:
            yield Wait(
                code=Code.SCALE_UP_LIMITED,
                words=note.message,
                remedy=CODES[Code.SCALE_UP_LIMITED].helps,
            )
        elif note.warning and note.reason in _REFUSING:
            yield Wait(code=Code.REFUSED, words=note.message, remedy=_CORRECT)


def _is_own_wait(waiting: Reason, sight: Sight) -> bool:
    """Whether the plan's reason for waiting becomes a separate wait. For a workload, its pods usually explain it
    better.
    """
    if waiting.code == Code.JOB_OVER:
        return False
    is_workload = isinstance(sight.kind.insight, WorkloadInsight)
    return not is_workload or waiting.code in (Code.LIMIT_IS_ZERO, Code.NO_NODES)


def find_unobserved_changes(document: Document) -> Iterator[Wait]:
    """Yield a wait when no manager has observed the latest generation."""
    generation = document["metadata"].get("generation", 0)
    observed = (document.get("status") or {}).get("observedGeneration", 0)
    if observed != generation:
        yield Wait(
            code=Code.NO_MANAGER,
            words=f"no manager has processed its latest change yet (generation {generation}, "
            f"observed {observed})",
            remedy="if this lasts, check that the manager runs and is the leader (pykruise doctor)",
        )


_REFUSING: Final = frozenset({Code.INVALID_SPEC, Code.SELECTING_ALL, SELECTOR_MISMATCH})
_CORRECT: Final = CODES[Code.REFUSED].helps

_REPORTED_BY_PODS: Final = frozenset({Code.CANNOT_UPDATE, Code.BROKEN_UPDATE_STATE})
"""Reasons of conditions that each affected pod reports itself."""

_VAGUE: Final = frozenset(
    {
        *(Code.SCHEDULING, Code.UPDATING_IN_PLACE, Code.GRACE_PERIOD, Code.DEPARTING, Code.NOT_READY),
        Code.OLDER_REVISION,
    }
)
_HIDDEN_ON_NODES: Final = frozenset({Code.NOT_PLACED, Code.INVALID_SPEC})
"""Codes of nodes that need no pod, or for which the object itself already shows the reason."""

_OVER: Final = frozenset({Code.JOB_OVER, Code.JOB_FAILED})
"""Codes of a job that has ended: only its deletion follows."""

_KEPT: Final = frozenset({Code.PARTITION, Code.NODE_SELECTOR, Code.CLAIMS, Code.ORPHAN})


_SELECTOR_OVERLAP: Final = "SelectorOverlap"
"""Type of the condition by which a kind reports that its selector matches other owners' pods."""


def _waits_of_conditions(status: Mapping[str, Any]) -> Iterator[Wait]:
    for condition in status.get("conditions") or ():
        message, since = str(condition.get("message") or ""), condition.get("lastTransitionTime") or ""
        reason = condition.get("reason")
        if condition.get("type") in _FAILED and condition.get("status") == "True":
            if reason not in _REPORTED_BY_PODS:
                yield _failure_of(reason, message, since)
        elif condition.get("type") == _SELECTOR_OVERLAP and condition.get("status") == "True":
            yield Wait(
                code=Code.OTHER_OWNERS,
                words=f"{_SELECTOR_OVERLAP}: {message}",
                since=since,
                remedy=CODES[Code.OTHER_OWNERS].helps,
            )
        elif reason == "ProgressDeadlineExceeded":
            words = f"no progress within progressDeadlineSeconds: {message}"
            yield Wait(code=Code.DEADLINE, words=words, since=condition.get("lastUpdateTime") or since)


def _failed_writes(stored: Mapping[str, Any], plan: Plan, status: Mapping[str, Any]) -> Iterator[Wait]:
    """Yield writes that failed at the last attempt and that the plan still contains. The plan repeats them, so its
    new status no longer shows the failure.
    """
    if not plan.stages:
        return
    known = {item.get("message") for item in status.get("conditions") or () if item.get("type") in _FAILED}
    for condition in stored.get("conditions") or ():
        is_failure = (
            condition.get("type") in {*_FAILED, WAITING, RECONCILING} and condition.get("status") == "True"
        )
        message = str(condition.get("message") or "")
        if is_failure and condition.get("reason") in NOT_WRITTEN and message not in known:
            yield _failure_of(condition.get("reason"), message, condition.get("lastTransitionTime") or "")


def _failure_of(reason: Any, message: str, since: str) -> Wait:
    """Return the wait for a failure in a condition."""
    if reason == Code.CLAIM_CANNOT_FOLLOW:
        remedy = "follow the message about the claim"
        return Wait(code=Code.CLAIMS, words=message, since=since, remedy=remedy)
    if reason in NOT_WRITTEN:  # the message ends with the remedy
        return Wait(code=Code(reason), words=message, since=since)
    return Wait(code=Code.REFUSED, words=message, since=since, remedy=_CORRECT)


def _is_explained_by(skipped: Wait, cause: WaitCause | None) -> bool:
    """Whether the pod's own cause, such as a missing node or a hook, explains the wait better than the plan."""
    return cause is not None and (
        skipped.code == cause.code or (skipped.code in _VAGUE and cause.code != Code.STARTING)
    )


def _wait_of_skipped(name: str, reason: Reason, down: Sequence[str]) -> Wait:
    words = reason.message
    others = [text for text in down if text != name]
    if reason.code == Code.BUDGET and others:
        words += f" by {', '.join(others[:5])}{' …' if len(others) > 5 else ''}"
    return Wait(code=reason.code, words=words, pods=(name,), remedy=remedy_of(reason))


_LIMITS: Final = frozenset(
    {
        *(Code.BUDGET, Code.MAX_UNAVAILABLE, Code.SCALE_UP_LIMITED, Code.UPDATE_HELD, Code.TURN),
        *(Code.PARALLELISM, Code.PODS_ACTIVE, Code.CHILD_ACTIVE),
    }
)
"""Codes of limits that unavailable pods use up."""

OF_THE_TEMPLATE: Final = frozenset(
    {
        *(Code.IMAGE_PULL, Code.CONTAINER_FAILS, Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS, Code.NOT_READY),
        *(Code.RESIZE_INFEASIBLE, Code.RESIZE_DEFERRED, Code.READINESS_GATE),
    }
)
"""Codes of obstacles that a new template may have caused, so that the old template would remove them."""

_IN_PLACE_ONLY: Final = frozenset({Code.NOT_IN_PLACE, Code.CANNOT_UPDATE})


def drop_harmful_remedies(
    waits: Sequence[Wait], sight: Sight, plan: Plan, status: Mapping[str, Any], *, way_back: str | None = None
) -> tuple[Wait, ...]:
    """Return the waits without remedies that would make things worse.

    Obstacles that the new template may have caused get the command that restores the old template. When pods may only
    be updated in place and an obstacle prevents that, the obstacle comes first and the limits are left out.
    """
    blocked = [wait for wait in waits if wait.code in _IN_PLACE_ONLY]
    if blocked:
        waits = [*blocked, *(wait for wait in waits if wait not in blocked and wait.code not in _LIMITS)]
    back = _rollback_command(sight, plan, status) if way_back is None else way_back
    harmless = put_causes_first(waits)
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return harmless
    replaces = sight.kind.insight.replaces_stuck(sight.document["spec"])
    namespace = sight.document["metadata"]["namespace"]
    return tuple(
        wait
        if _is_about_older_pods(wait, plan) or _is_about_claim_templates(wait, sight)
        else add_way_back(wait, back, replaces_stuck=replaces, namespace=namespace)
        for wait in harmless
    )


def _is_about_older_pods(wait: Wait, plan: Plan) -> bool:
    """Whether the plan skips all pods of the wait because they have an older revision."""
    reasons = [plan.skipped.get(pod) for pod in wait.pods]
    return bool(reasons) and all(
        reason is not None and reason.code == Code.OLDER_REVISION for reason in reasons
    )


def _is_about_claim_templates(wait: Wait, sight: Sight) -> bool:
    """Whether PVCs of claim templates hold the pods of the wait: no other pod template gives them a volume."""
    names = (name for pod in wait.pods if pod in sight.pods for name in list_claim_names(sight.pods[pod]))
    return wait.code == Code.UNBOUND_CLAIMS and any(
        name in sight.claim_problems and sight.claim_problems[name].is_of_template for name in names
    )


def add_way_back(wait: Wait, back: str, *, replaces_stuck: bool, namespace: str) -> Wait:
    """Return the wait with the command that restores the old template, when the template may have caused it.
    `replaces_stuck`: stuck pods are replaced automatically after the template changes; otherwise a person has to
    delete them.
    """
    if wait.code not in OF_THE_TEMPLATE or wait.origin:
        return wait
    then = "" if replaces_stuck else f"; then kubectl delete pod {' '.join(wait.pods)} -n {namespace}"
    # A pod that has passed its readiness gate serves; a new pod would wait for the gate again.
    first = "" if wait.code == Code.READINESS_GATE else then
    ways = [f"{text}{after}" for text, after in ((wait.remedy, first), (back, then)) if text]
    return msgspec.structs.replace(wait, remedy="; or ".join(ways))


def put_causes_first(waits: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the waits with a new remedy for limits that stuck pods use up: raising such a limit would lose more pods
    to the same cause.
    """
    if not any(wait.pods and rank_of(wait.code) < rank_of(Code.GRACE_PERIOD) for wait in waits):
        return tuple(waits)
    first = (
        "first fix the cause that blocks the pods above: a higher limit would make more pods unavailable for the same "
        "cause"
    )
    return tuple(
        msgspec.structs.replace(wait, remedy=first) if wait.code in _LIMITS else wait for wait in waits
    )


def _rollback_command(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    """Return the command that rolls a workload back; empty when no older revision is stored."""
    history = _history_of(sight, plan, status)
    if history is None:
        return ""
    meta = sight.document["metadata"]
    return way_back_to(
        sight.kind.resource,
        meta["name"],
        meta["namespace"],
        revisions=history.revisions,
        serving=history.serving,
        current=history.current,
        is_paused=_is_paused(sight),
    )


def _correction_in(sight: Sight) -> Correction:
    """Return the correction of the object's template. While updates are paused it reaches no pod."""
    correction = correction_of(sight.kind, sight.document)
    return msgspec.structs.replace(correction, then=f", then {RESUME}") if _is_paused(sight) else correction


def _is_paused(sight: Sight) -> bool:
    insight = sight.kind.insight
    strategy = insight.strategy(sight.document["spec"])[0] if isinstance(insight, WorkloadInsight) else None
    return strategy is not None and strategy.is_paused


def _rollback_to(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> int:
    history = _history_of(sight, plan, status)
    if history is None:
        return 0
    revision = find_revision_before(history.revisions, serving=history.serving, current=history.current)
    return 0 if revision is None else revision.number


class _History(msgspec.Struct, frozen=True):
    """Stored revisions, the names of those that have ready pods, and the name of the newest one."""

    revisions: Sequence[RevisionView]
    serving: frozenset[str]
    current: str


def _history_of(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> _History | None:
    revisions: Sequence[RevisionView] = getattr(sight.snapshot, "revisions", ())
    if not isinstance(sight.kind.insight, WorkloadInsight) or not revisions:
        return None
    counts = find_workload_insight(sight.kind).counts(sight.document, status, plan)
    active = [pod for pod in sight.snapshot.pods if pod.is_active]
    ready = {pod.revision for pod in active if pod.is_ready}
    current = counts.revision.rpartition("-")[2]
    if active and not ready and all(pod.revision != current for pod in active):
        return None  # the newest revision has not been tried, and no older one serves
    serving = frozenset(revision.name for revision in revisions if revision.hash in ready)
    return _History(revisions, serving, counts.revision)


def _pods_are(count: int) -> str:
    return format_count(count, "pod is", "pods are")


def wait_of(cause: WaitCause, pod: str) -> Wait:
    """Return the wait of a pod for a cause."""
    since = format_time(cause.since) if cause.since is not None else ""
    return Wait(
        code=cause.code,
        words=cause.words,
        pods=(pod,),
        since=since,
        remedy=cause.remedy,
        origin=cause.origin,
    )


def rank_waits(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Merge waits with the same reason and put the cause first."""
    return tuple(sorted(_merge(waits), key=lambda wait: rank_of(wait.code)))


def drop_repeats(waits: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the waits without those about the whole object that its pods or nodes explain in more detail."""
    said = {wait.code for wait in waits if wait.pods}
    return tuple(wait for wait in waits if wait.pods or wait.code not in said)


def _merge(waits: Iterable[Wait]) -> list[Wait]:
    """Merge waits with the same reason; `since` is the earliest time."""
    groups: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        groups.setdefault((wait.code, wait.words), []).append(wait)
    return [
        msgspec.structs.replace(
            group[0],
            pods=tuple(pod for wait in group for pod in wait.pods),
            since=min((wait.since for wait in group if wait.since), default=""),
        )
        for group in groups.values()
    ]


# Next steps


def next_of(plan: Plan, waits: Sequence[Wait]) -> Iterator[str]:
    """Next steps of the manager, one line each, and ConfigMaps and Secrets whose content cannot be followed."""
    yield from (note.message for note in plan.notes if note.reason == CONFIG_MISSING)
    for stage in plan.stages:
        reasons: dict[str, list[str]] = {}
        for chain in stage.chains:
            reasons.setdefault(chain.steps[-1].because, []).append(chain.subject)
        for because, subjects in reasons.items():
            yield f"{stage.purpose}: {_join_names([subject for subject in subjects if subject])}{because}"
    if plan.stages:
        return
    if plan.waiting is not None and plan.waiting.code in _OVER:
        return
    if plan.requeue_after_s is not None:
        yield f"the next reconcile is in {format_age(plan.requeue_after_s)}"
    elif any(wait.code not in _KEPT for wait in waits):
        yield "nothing happens until one of these changes"


def _join_names(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:8])
    return f"{shown}, and {len(names) - 8} more: " if len(names) > 8 else f"{shown}: "


# Text


def format_explanation(explanation: Explanation, *, now: Instant) -> str:
    """Return the explanation as text for people."""
    item = explanation
    where = f"{item.namespace}/{item.name}" if item.namespace else item.name
    lines = [f"{item.kind} {where}: {item.phase}. {_capitalize(item.headline)}."]
    if item.condition:
        lines += ["", f"Condition: {item.condition}"]
    if item.done:
        lines += ["", "Done", *(f"  {line}" for line in item.done)]
    lines += format_waits(item, now=now)
    if item.next:
        lines += ["", "Next", *(f"  {line}" for line in item.next)]
    return "\n".join(lines) + "\n"


def format_waits(explanation: Explanation, *, now: Instant) -> list[str]:
    """Return the lines about waits, or about parts that are on hold as configured; empty when there are no waits."""
    if not explanation.waits:
        return []
    title = "Waiting for" if explanation.verdict != "done" else "On hold, as configured"
    return ["", title, *(line for wait in explanation.waits for line in _wait_lines(wait, now))]


def _wait_lines(wait: Wait, now: Instant) -> list[str]:
    who = ""
    if wait.pods:
        shown = ", ".join(wait.pods[:6]) + (f", and {len(wait.pods) - 6} more" if len(wait.pods) > 6 else "")
        who = f"{shown}: "
    age = f" (for {format_age(max(now - parse_time(wait.since), 0))})" if wait.since else ""
    if wait.tried:
        age += f"; last tried {format_age(max(now - parse_time(wait.tried), 0))} ago"
    if wait.again:
        left = parse_time(wait.again) - now
        age += f", next try {f'in about {format_age(left)}' if left > 0 else 'now'}"
    lines = [f"  {wait.code}: {who}{wait.words}{age}"]
    if wait.remedy:
        lines.append(f"    → {wait.remedy}")
    return lines


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]


def format_age(seconds: float) -> str:
    """Format a duration: `45s`, `3m20s`, `2h5m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m"
