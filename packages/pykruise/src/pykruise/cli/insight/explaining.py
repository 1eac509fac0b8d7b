"""The state of a rollout in words: finished work, waits, next steps, and remedies for a person.

Sight + Plan ──▶ explain() ──▶ Explanation (explanations.py) ──▶ explanation_text.py for people, JSON for programs

Pure, for every kind. Reasons come from two places: the plan names the reason for each pod and node that it skips, and
the pods show why they are not available. The first wait is the cause. Waits that only follow from it (a budget that
is used up, a pod's turn) come later.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.at_work import name_those_at_work
from pykruise.cli.insight.causes import WaitCause, cause_of
from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.ended_jobs import explain_older_spec
from pykruise.cli.insight.explanation_text import format_age
from pykruise.cli.insight.explanations import (
    Explanation,
    Wait,
    drop_repeats,
    make_budget_wait,
    rank_waits,
    wait_of,
)
from pykruise.cli.insight.harmless_remedies import (
    OF_THE_TEMPLATE,
    drop_harmful_remedies,
    find_rollback_number,
    is_paused,
)
from pykruise.cli.insight.host_ports import MOST_EXAMINED, explain_own_ports
from pykruise.cli.insight.known_kinds import correction_of, find_workload_insight, is_per_node
from pykruise.cli.insight.named_nodes import (
    explain_matching_nodes,
    explain_named_nodes,
    explain_unready_nodes,
)
from pykruise.cli.insight.refused_writes import make_refusal_wait
from pykruise.cli.insight.surges import explain_surge, offer_no_surge
from pykruise.kinds import shown_of
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import Selector
from pykruise.plans.config_content import CONFIG_MISSING
from pykruise.plans.insight import JobInsight, WorkloadInsight
from pykruise.plans.progress import Phase, add_waits
from pykruise.plans.purposes import Purpose
from pykruise.pods.corrections import (
    IN_TEMPLATE,
    KEEPS_OLD_ONE,
    Correction,
    describe_holders,
    release_object,
)
from pykruise.pods.lifecycle.blockers import is_overdue
from pykruise.pods.reasons import (
    AT_REST,
    CODES,
    HELD,
    NEVER_OBSERVED,
    NOT_WRITTEN,
    REPLACED_WITH_ITS_POD,
    RESUME,
    Code,
    add_room,
    remedy_of,
)
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.kstatus import find_overdue
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import RECONCILING
from pykruise.runtime.plan import Plan
from pykruise.runtime.reasons import Reason
from pykruise.runtime.refusals import cut_remedy

_FAILED: Final = frozenset({"FailedScale", "FailedUpdate", "FailedCreatePod", "FailedUpdatePod"})
"""Types of conditions by which kinds report a failed operation."""


def explain(
    sight: Sight, plan: Plan, *, way_back: str | None = None, correction: Correction | None = None
) -> Explanation:
    """Return the explanation of the workload that `plan` was made for, from the same snapshot. `way_back`: remedy that
    rolls the workload back when another object owns it; None selects the workload's own remedy. `correction`:
    instruction for correcting the template when another object contains it.
    """
    now = sight.snapshot.now
    meta = sight.document["metadata"]
    status: Mapping[str, Any] = plan.status if plan.status is not None else sight.document.get("status") or {}
    all_waits = drop_repeats(
        rank_waits(_find_waits(sight, plan, status, now, correction or _build_correction(sight)))
    )
    is_over = bool(status.get("completionTime"))
    all_waits = explain_named_nodes(all_waits, sight.nodes, is_over=is_over)
    all_waits = explain_matching_nodes(all_waits, sight.nodes, _find_selector(sight), is_over=is_over)
    all_waits = explain_unready_nodes(all_waits, sight, is_over=is_over)
    all_waits = name_those_at_work(all_waits, sight)
    if (older := explain_older_spec(sight)) is not None:
        all_waits = (*all_waits, older)
    if isinstance(sight.kind.insight, WorkloadInsight):
        wanted = sight.kind.insight.counts(sight.document, status, plan).wanted
        all_waits = offer_no_surge(all_waits, sight, wanted=wanted, correction=correction or IN_TEMPLATE)
    waits = drop_harmful_remedies(all_waits, sight, plan, status, way_back=way_back)
    # A workload shows in its status what it waits for, until its deletion begins.
    is_shown = isinstance(sight.kind.insight, WorkloadInsight) and "deletionTimestamp" not in meta
    phase = phase_of(sight.document, () if is_shown else waits)
    return Explanation(
        kind=str(sight.document["kind"]),
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        verdict=verdict_of(waits, plan, sight.document, phase),
        phase=phase,
        headline=_describe_state(sight, plan, status),
        condition=_describe_waiting_condition(sight.document.get("status") or {}),
        done=tuple(_describe_finished(sight, plan, status)),
        waits=waits,
        next=tuple(next_of(plan, waits, is_over=is_over, are_names_known=_are_names_known(sight))),
        rollback_to=find_rollback_number(sight, plan, status),
    )


def _find_selector(sight: Sight) -> Selector | None:
    """Return the selector by which the object chooses nodes; None if it chooses no nodes by their labels."""
    find = sight.kind.insight.selector_of_nodes if sight.kind.insight is not None else None
    return None if find is None else find(sight.snapshot)


def _describe_state(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    insight = sight.kind.insight
    if insight is not None and insight.headline is not None:
        return insight.headline(status)
    if not isinstance(insight, WorkloadInsight):
        return (
            f"{format_count(len(list(plan.steps)), 'write is', 'writes are')} due, "
            f"and {format_count(len(plan.skipped), 'object waits', 'objects wait')}"
        )
    counts = find_workload_insight(sight.kind).counts(sight.document, status, plan)
    if not counts.wanted and plan.waiting is not None and plan.waiting.code == Code.NO_NODES:
        return "no node is eligible for a pod, so no pod is wanted"
    goal = (
        f"{counts.to_be_updated} of {counts.wanted}"
        if counts.to_be_updated != counts.wanted and counts.updated < counts.wanted
        else f"all {counts.wanted}"
    )
    available = f"{counts.available} of {counts.wanted} available"
    if counts.available > counts.wanted:
        available = f"{counts.available} available, {counts.available - counts.wanted} more than wanted"
    return f"{_format_pods(counts.updated, counts.revision)} (wanted: {goal}), {available}"


def _describe_waiting_condition(status: Mapping[str, Any]) -> str:
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
        return "waiting"  # the next write is rejected, or is not tried at all
    if any(stage.purpose != Purpose.TIDY_UP for stage in plan.stages):
        return "moving"
    if codes - AT_REST and phase is not Phase.COMPLETED:
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


def _describe_finished(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return
    counts = sight.kind.insight.counts(sight.document, status, plan)
    revision = counts.revision
    target = revision.rpartition("-")[2]
    new = [pod for pod in sight.snapshot.pods if pod.is_active and pod.revision == target and target]
    serving = [pod for pod in new if pod.is_serving]
    if not new:
        return
    words = f"{_format_pods(len(new), revision)}, and {format_count(len(serving), 'of them serves', 'of them serve')}"
    surplus = len(new) - counts.wanted
    if is_per_node(sight.kind) and surplus > 0:
        words += (
            f"; {surplus} of them are on nodes that should have no pod, and the count above leaves them out"
        )
    yield words


# Waits


def _find_waits(
    sight: Sight, plan: Plan, status: Mapping[str, Any], now: Instant, correction: Correction
) -> Iterator[Wait]:
    yield from _waits_of_object(sight, plan, status)
    pods: Sequence[PodView] = getattr(sight.snapshot, "pods", ())
    causes = _find_causes(sight, plan, status, now, correction)
    written = {chain.subject for stage in plan.stages for chain in stage.chains}
    for name, cause in causes.items():
        if not (name in written and cause.code in (Code.STARTING, Code.SCHEDULING)):
            yield wait_of(cause, name)
    down = [
        pod.name
        for pod in pods
        if pod.is_active and pod.name in sight.pods and (pod.name in causes or not pod.is_serving)
    ]
    for name, reason in plan.skipped.items():
        wait = _wait_of_skipped(name, reason, down)
        if not _is_explained_by(wait, causes.get(name)):
            yield wait
    ending = {pod.node_name for pod in pods if pod.is_deleting and pod.name in causes}
    yield from _waits_of_nodes(sight, plan, status, ending)


def _waits_of_nodes(
    sight: Sight, plan: Plan, status: Mapping[str, Any], ending: Collection[str]
) -> Iterator[Wait]:
    """Yield a wait for each node that has no pod. `ending`: nodes whose pod terminates and has a wait of its own."""
    insight = sight.kind.insight
    has_pods = insight is None or bool(insight.containers)
    no_pod = "it got no pod" if status.get("completionTime") else "no pod yet"
    for node, reason in plan.skipped_nodes.items():
        is_explained = reason.code == Code.DEPARTING and node in ending
        if reason.code not in _HIDDEN_ON_NODES and not is_explained:
            words = f"{no_pod}: {reason.message}" if has_pods else reason.message
            yield Wait(code=reason.code, words=words, pods=(node,), remedy=remedy_of(reason))


def _find_causes(
    sight: Sight, plan: Plan, status: Mapping[str, Any], now: Instant, correction: Correction
) -> dict[str, WaitCause]:
    """Return the cause of each pod of the object that is not available, by the name of the pod."""
    insight = sight.kind.insight
    strategy = insight.strategy(sight.document["spec"])[0] if isinstance(insight, WorkloadInsight) else None
    pods: Sequence[PodView] = getattr(sight.snapshot, "pods", ())
    unplaced = sum(bool(pod.wanted_node) and pod.is_active for pod in pods)
    departing = {node for node, reason in plan.skipped_nodes.items() if reason.code == Code.DEPARTING}
    stays = {pod.node_name for pod in pods if pod.is_active} if is_per_node(sight.kind) else set[str]()
    returns_to = departing | stays
    stored = get_path(sight.document, "spec", "template", "metadata", "finalizers")
    finalizers = [name for name in stored if isinstance(name, str)] if isinstance(stored, list) else []
    keeping_old = msgspec.structs.replace(correction, then=KEEPS_OLD_ONE)
    target = _find_target_hash(sight, plan, status)
    place = _make_placer(sight, plan, status, correction)
    causes: dict[str, WaitCause] = {}
    for pod in pods:
        # A pod without a document belongs to another owner.
        if (document := sight.pods.get(pod.name)) is None or not (pod.is_active or pod.is_deleting):
            continue
        held = plan.skipped.get(pod.name)
        if held is not None and held.code == Code.POD_FAILED:
            continue
        is_kept = held is not None and held.code == Code.OLDER_REVISION
        cause = cause_of(
            document,
            pod,
            now=now,
            lifecycle=strategy.lifecycle if strategy else None,
            min_ready_s=strategy.min_ready_s if strategy else 0,
            lost_nodes=sight.lost_nodes,
            claims=sight.claim_problems,
            gates=sight.gate_problems,
            correction=keeping_old if is_kept else correction,
            names_node=unplaced <= _NAMED,
            returns_to=returns_to,
            template_finalizers=finalizers,
        )
        if cause is not None:
            causes[pod.name] = place(_add_held_reason(cause, pod, held, target), pod, document)
    return causes


def _make_placer(
    sight: Sight, plan: Plan, status: Mapping[str, Any], correction: Correction
) -> Callable[[WaitCause, PodView, Document], WaitCause]:
    """Return a function that adds to the cause of an unschedulable pod: the pod surges, or others hold its ports."""
    insight = sight.kind.insight
    if not isinstance(insight, WorkloadInsight):
        return lambda cause, pod, document: cause
    wanted = insight.counts(sight.document, status, plan).wanted
    known: dict[tuple[str, str, str], WaitCause] = {}
    """Results of searches for other pods that keep an unschedulable pod from nodes, by the words of the cause, the
    pod's revision and its wanted node. Pods with the same key share one search, and the number of searches is limited.
    """

    def place(cause: WaitCause, pod: PodView, document: Document) -> WaitCause:
        if cause.code != Code.UNSCHEDULABLE:
            return cause
        alike = (cause.words, pod.revision, pod.wanted_node)
        if alike not in known:
            if len(known) >= MOST_EXAMINED:
                return cause
            known[alike] = explain_surge(cause, document, sight, wanted=wanted, correction=correction)
            if known[alike] is cause:
                known[alike] = explain_own_ports(cause, document, sight, correction=correction)
        return msgspec.structs.replace(known[alike], since=cause.since)

    return place


def _find_target_hash(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    """Return the hash of the newest revision; empty if the object has no revision."""
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return ""
    return sight.kind.insight.counts(sight.document, status, plan).revision.rpartition("-")[2]


def _add_held_reason(cause: WaitCause, pod: PodView, held: Reason | None, target: str) -> WaitCause:
    """Return the cause of a pod. If the user's settings prevent the update of a pod with an older template, the remedy
    removes the obstacle, because the newest template may be correct already.
    """
    is_old = bool(target) and pod.revision != target
    if not is_old or held is None:
        return cause
    if held.code == Code.OLDER_REVISION and cause.code in REPLACED_WITH_ITS_POD:
        remedy = add_room(cause.code, cause.remedy, held.remedy)
        return msgspec.structs.replace(cause, words=f"{cause.words}; {held.message}", remedy=remedy)
    if held.code not in HELD or cause.code not in OF_THE_TEMPLATE:
        return cause
    words = f"{cause.words}; the pod was created from an older template, and {held.message}"
    return msgspec.structs.replace(cause, words=words, remedy=remedy_of(held))


def _waits_of_object(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> Iterator[Wait]:
    meta = sight.document["metadata"]
    if "deletionTimestamp" in meta:
        finalizers = meta.get("finalizers") or ()
        held = [name for name in finalizers if name != "foregroundDeletion"]
        words = "it is being deleted"
        if "foregroundDeletion" in finalizers:
            words += ", after the objects that it created (foregroundDeletion)"
        if isinstance(sight.kind.insight, WorkloadInsight | JobInsight):
            words += f"; {format_count(len(sight.pods), 'pod is', 'pods are')} left"
        words += f"; {describe_holders(held)} it" if held else ""
        since = meta["deletionTimestamp"]
        foreign = [name for name in held if not _is_of_kruise(name)]
        if not foreign or not is_overdue(parse_time(since), now=sight.snapshot.now):
            yield Wait(code=Code.TERMINATING_OBJECT, words=words, since=since)
            return
        place = f" -n {meta['namespace']}" if meta.get("namespace") else ""
        remedy = release_object(
            foreign,
            f"{sight.kind.resource}{place} {meta['name']}",
            kept=[name for name in finalizers if name not in foreign],
        )
        yield Wait(code=Code.FINALIZER, words=words, since=since, remedy=remedy)
        return
    is_refused = any(note.warning and note.reason in _REFUSING for note in plan.notes) or (
        plan.waiting is not None and plan.waiting.code in NEVER_OBSERVED
    )
    if not is_refused and (sight.kind.insight is None or sight.kind.insight.has_observed_generation):
        yield from find_unobserved_changes(
            sight.document
        )  # the manager never observes the generation of a rejected spec
    is_zero = plan.waiting is not None and plan.waiting.code == Code.LIMIT_IS_ZERO
    if plan.waiting is not None and _is_own_wait(plan.waiting, sight):
        yield Wait(code=plan.waiting.code, words=plan.waiting.message, remedy=remedy_of(plan.waiting))
    namespace = meta.get("namespace", "")
    yield from _waits_of_conditions(status, namespace)
    if (overdue := find_overdue(status, plan.waiting)) is not None:
        yield Wait(
            code=Code.DEADLINE,
            words=f"no progress within progressDeadlineSeconds: {overdue.get('message') or ''}",
            since=overdue.get("lastUpdateTime") or overdue.get("lastTransitionTime") or "",
            remedy=CODES[Code.DEADLINE].helps,
        )
    yield from _list_failed_writes(sight.document.get("status") or {}, plan, status, namespace)
    for note in plan.notes:
        if note.reason == "ScaleUpLimited" and not is_zero:
            yield Wait(
                code=Code.SCALE_UP_LIMITED,
                words=note.message,
                remedy=CODES[Code.SCALE_UP_LIMITED].helps,
            )
        elif note.warning and note.reason in _REFUSING:
            yield Wait(code=Code.REFUSED, words=note.message, remedy=_CORRECT)


def _is_of_kruise(finalizer: str) -> bool:
    """Whether a controller of pykruise or OpenKruise sets the finalizer, and removes it itself."""
    domain = finalizer.partition("/")[0]
    return domain == "kruise.io" or domain.endswith(".kruise.io")


def _is_own_wait(waiting: Reason, sight: Sight) -> bool:
    """Whether the plan's reason for waiting becomes a separate wait. The pods of a workload usually explain the wait
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
            words=f"no manager has processed the latest change yet (generation {generation}, "
            f"observed {observed})",
            remedy="if this lasts, check that the manager runs and is the leader (pykruise doctor)",
        )


_NAMED: Final = 3
"""Maximum number of pods without a node that are reported separately, each with the only node that it may run on."""

_REFUSING: Final = frozenset({Code.INVALID_SPEC, Code.SELECTING_ALL, SELECTOR_MISMATCH})
_CORRECT: Final = CODES[Code.REFUSED].helps

_REPORTED_BY_PODS: Final = frozenset({Code.CANNOT_UPDATE, Code.BROKEN_UPDATE_STATE, Code.CLAIM_CANNOT_FOLLOW})
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

_KEPT: Final = frozenset({Code.PARTITION, Code.NODE_SELECTOR, Code.NO_NODES, Code.CLAIMS, Code.ORPHAN})


_SELECTOR_OVERLAP: Final = "SelectorOverlap"
"""Type of the condition by which a kind reports that its selector matches other owners' pods."""


def _waits_of_conditions(status: Mapping[str, Any], namespace: str) -> Iterator[Wait]:
    for condition in status.get("conditions") or ():
        message, since = str(condition.get("message") or ""), condition.get("lastTransitionTime") or ""
        reason = condition.get("reason")
        if condition.get("type") in _FAILED and condition.get("status") == "True":
            if reason not in _REPORTED_BY_PODS:
                yield _explain_failed_write(reason, message, since, namespace)
        elif condition.get("type") == _SELECTOR_OVERLAP and condition.get("status") == "True":
            remedy = CODES[Code.OTHER_OWNERS].helps
            words = f"{_SELECTOR_OVERLAP}: {cut_remedy(message, remedy)}"
            yield Wait(code=Code.OTHER_OWNERS, words=words, since=since, remedy=remedy)


def _list_failed_writes(
    stored: Mapping[str, Any], plan: Plan, status: Mapping[str, Any], namespace: str
) -> Iterator[Wait]:
    """Yield a wait for each write that failed at the last attempt, as the stored conditions report. The plan repeats
    the write, so the status that the plan computes does not report the failure.
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
            since = condition.get("lastTransitionTime") or ""
            yield _explain_failed_write(condition.get("reason"), message, since, namespace)


def _explain_failed_write(reason: Any, message: str, since: str, namespace: str) -> Wait:
    """Return the wait for a failure in a condition. `namespace`: of the object."""
    if reason in NOT_WRITTEN:
        return make_refusal_wait(Code(reason), message, namespace=namespace, since=since)
    return Wait(code=Code.REFUSED, words=message, since=since, remedy=_CORRECT)


def _is_explained_by(skipped: Wait, cause: WaitCause | None) -> bool:
    """Whether the pod's own cause, such as a missing node or a hook, explains the wait better than the plan."""
    return cause is not None and (
        skipped.code == cause.code or (skipped.code in _VAGUE and cause.code != Code.STARTING)
    )


def _wait_of_skipped(name: str, reason: Reason, down: Sequence[str]) -> Wait:
    if reason.code == Code.BUDGET:
        return make_budget_wait(reason, name, busy=[text for text in down[:7] if text != name])
    return Wait(
        code=reason.code,
        words=reason.message,
        pods=(name,),
        remedy=remedy_of(reason),
        container=reason.container,
    )


def _format_pods(count: int, revision: str) -> str:
    named = f"revision {revision}" if revision else "the first revision"
    return f"{format_count(count, 'pod has', 'pods have')} {named}"


def _build_correction(sight: Sight) -> Correction:
    """Return how a user corrects the object's template. While updates are paused, a corrected template reaches no pod,
    so the result also says how to resume them.
    """
    correction = correction_of(sight.kind, sight.document)
    return msgspec.structs.replace(correction, then=f", then {RESUME}") if is_paused(sight) else correction


# Next steps


def _are_names_known(sight: Sight) -> bool:
    """Whether new pods get the names that are in the plan. The manager chooses random names for other pods."""
    insight = sight.kind.insight
    return not isinstance(insight, WorkloadInsight) or insight.has_known_names


def next_of(
    plan: Plan, waits: Sequence[Wait], *, is_over: bool = False, are_names_known: bool = True
) -> Iterator[str]:
    """Yield lines: problems with ConfigMaps and Secrets whose content a workload follows, and then the next steps of
    the manager. `is_over`: whether the object has ended, so that the manager does not continue. `are_names_known`:
    whether new pods get the names that are in the plan.
    """
    yield from (note.message for note in plan.notes if note.reason == CONFIG_MISSING)
    for stage in plan.stages:
        reasons: dict[str, list[str]] = {}
        for chain in stage.chains:
            reasons.setdefault(chain.steps[-1].because, []).append(chain.subject)
        is_unnamed = stage.purpose == Purpose.CREATE_PODS and not are_names_known
        what = stage.purpose
        if stage.instead_of:
            what += f" (if the API server rejects all writes of these steps: {', '.join(stage.instead_of)})"
        for because, subjects in reasons.items():
            if is_unnamed:
                yield f"{what}: {because}"
                continue
            yield f"{what}: {_join_names([subject for subject in subjects if subject])}{because}"
    if plan.stages:
        return
    if is_over or (plan.waiting is not None and plan.waiting.code in _OVER):
        return
    if plan.requeue_after_s is not None:
        yield f"the next reconcile is in {format_age(plan.requeue_after_s)}"
    elif any(wait.code not in _KEPT for wait in waits):
        yield CONTINUES_LATER


CONTINUES_LATER: Final = "the manager continues when a cause of the wait ends"


def _join_names(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:8])
    return f"{shown}, and {len(names) - 8} more: " if len(names) > 8 else f"{shown}: "
