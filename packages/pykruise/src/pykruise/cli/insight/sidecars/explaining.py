"""The state of a SidecarSet in words: pods with its sidecars, pods that wait and the reason, and pods without its
sidecars.

SidecarSight + Plan ──▶ explain_sidecars() ──▶ Explanation

Pure. The plan, which the manager makes from the same snapshot, names the reason why a pod is not upgraded. The pod
itself shows why it is not available after its upgrade.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.causes import WaitCause, cause_of
from pykruise.cli.insight.explaining import find_unobserved_changes, next_of, phase_of, verdict_of
from pykruise.cli.insight.explanations import Explanation, Wait, make_budget_wait, rank_waits, wait_of
from pykruise.cli.insight.harmless_remedies import put_causes_first
from pykruise.cli.insight.refused_writes import make_refusal_wait
from pykruise.cli.insight.sidecars.differences import list_forcing_fields, revision_of
from pykruise.cli.insight.sidecars.look import SidecarSight
from pykruise.cli.insight.sidecars.refused_workloads import explain_refused
from pykruise.cli.insight.way_back import find_revision_before, find_way_back
from pykruise.cli.insight.webhooks import list_fresh_warnings, make_unreviewed_wait
from pykruise.kinds.sidecarset.conflicts import find_conflict_errors
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.matching import choose_contents
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.sidecar_contents import list_sidecar_names
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.uninjected import find_pods_without
from pykruise.kinds.sidecarset.view import has_contents
from pykruise.kube.values.counts import format_count
from pykruise.pods.corrections import OF_THE_WORKLOAD, join_remedies
from pykruise.pods.reasons import NOT_WRITTEN, Code, remedy_of
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Plan
from pykruise.runtime.reasons import Reason


def explain_sidecars(sight: SidecarSight) -> Explanation:
    """Explanation of the SidecarSet."""
    plan = plan_sidecarset(sight.snapshot)
    document, view = sight.document, sight.view
    waits = put_causes_first(rank_waits(_find_waits(sight, plan)))
    return Explanation(
        kind=str(document["kind"]),
        namespace="",
        name=view.name,
        verdict=verdict_of(waits, plan, document),
        phase=phase_of(document, waits),
        headline=_describe_state(sight),
        done=tuple(_describe_finished(sight)),
        waits=waits,
        next=tuple(next_of(plan, waits)),
        rollback_to=_find_rollback_revision(sight),
    )


def _describe_state(sight: SidecarSight) -> str:
    managed, meant = sight.managed, _select_pods_by_namespace(sight)
    updated = sum(pod.is_updated for pod in managed)
    selected = format_count(len(meant), "pod that it selects has", "pods that it selects have")
    return (
        f"{len(managed)} of {selected} its sidecars ({updated} with the current version, "
        f"{sum(_is_serving(pod) for pod in managed)} ready)"
    )


def _select_pods_by_namespace(sight: SidecarSight) -> dict[str, PodView]:
    return {label: pod for label, pod in sight.views.items() if sight.selects_namespace(pod.namespace)}


def _is_serving(pod: ManagedPod) -> bool:
    return pod.is_consistent and pod.is_ready


def _describe_finished(sight: SidecarSight) -> Iterator[str]:
    updated = [pod for pod in sight.managed if pod.is_updated]
    if updated:
        name = sight.view.contents.revision if sight.view.contents is not None else ""
        have = format_count(len(updated), "pod has", "pods have")
        ready = format_count(sum(map(_is_serving, updated)), "of them is", "of them are")
        yield f"{have} the sidecars of {name}, and {ready} ready"


# ── the SidecarSet itself ────────────────────────────────────────────────────


def _find_waits(sight: SidecarSight, plan: Plan) -> Iterator[Wait]:
    meta = sight.document["metadata"]
    if "deletionTimestamp" in meta:
        words = "the SidecarSet is being deleted; pods keep their sidecars"
        yield Wait(code=Code.TERMINATING_OBJECT, words=words, since=meta["deletionTimestamp"])
        return
    yield from find_unobserved_changes(sight.document)
    refusals = [note.message for note in plan.notes if note.warning and note.reason == Code.INVALID_SPEC]
    for message in refusals:
        remedy = "correct the field that the message names; the manager changes nothing until then"
        yield Wait(code=Code.REFUSED, words=message, remedy=remedy)
    if not refusals:
        yield from _waits_of_object(sight, plan)
    busy = list_busy(sight)
    for pod in sight.managed:
        if pod.is_updated:
            yield from _explain_not_serving(pod, sight)
        elif pod.label in plan.skipped and not refusals:
            yield explain_skipped(pod, plan.skipped[pod.label], sight, busy=busy)
    yield from _without_sidecars(sight)


def _waits_of_object(sight: SidecarSight, plan: Plan) -> Iterator[Wait]:
    view = sight.view
    if view.spec is None:
        return
    given = sight.document.get("spec") or {}
    for error in find_conflict_errors(given, view.spec, sight.sets, name=view.name, base=view.base):
        remedy = (
            "recreate one of the two SidecarSets with another name for the container, volume or annotation, "
            "or change their selectors so that no pod matches both: a pod gets only one of the two"
        )
        yield Wait(code=Code.CONFLICT, words=f"{error.field}: {error.message}", remedy=remedy)
    yield from _waits_of_injection(sight)
    yield from _list_recent_failures(sight, plan)
    if sight.refused:
        yield from (explain_refused(workload, view) for workload in sight.refused)
    elif not sight.views:
        words = (
            "no pod matches spec.selector" if view.selector is not None else "spec.selector selects nothing"
        )
        yield Wait(code=Code.NO_PODS, words=words, remedy="correct spec.selector, or the labels of the pods")
    elif not _select_pods_by_namespace(sight):
        names = ", ".join(sorted({pod.namespace for pod in sight.views.values()})[:5])
        match = format_count(len(sight.views), "pod matches", "pods match")
        words = f"{match} spec.selector, but the SidecarSet does not select their namespaces ({names})"
        remedy = "correct spec.namespaceSelector, or the labels of the namespaces"
        yield Wait(code=Code.NO_PODS, words=words, remedy=remedy)


def _waits_of_injection(sight: SidecarSight) -> Iterator[Wait]:
    """Yield why new pods get other sidecars than the present ones, or are rejected."""
    view = sight.view
    if not has_contents(view):
        return
    if view.is_injection_paused:
        words = "injectionStrategy.paused is true: new pods get no sidecars"
        yield Wait(
            code=Code.INJECTION_PAUSED, words=words, remedy="set spec.injectionStrategy.paused to false"
        )
        return
    try:
        choose_contents(view, labels={}, revisions=sight.revisions, draw=lambda: 1.0)
    except InjectionError as error:
        remedy = "correct spec.injectionStrategy.revision: until then new pods are rejected"
        yield Wait(code=Code.INJECTION_FAILS, words=str(error), remedy=remedy)


_WARNINGS: Final = {
    "FailedInjection": (
        Code.INJECTION_FAILS,
        "correct what the message names: until then the webhook rejects new pods",
    ),
    "FailedUpgradeSidecar": (Code.WRITE_FAILED, "find out what rejects the write; the manager retries"),
    "ResetContainerFailed": (Code.WRITE_FAILED, "find out what rejects the write; the manager retries"),
    "FailedCreateRevision": (Code.WRITE_FAILED, "find out what rejects the write; the manager retries"),
}
"""Reasons of events, with code and remedy."""


def _list_recent_failures(sight: SidecarSight, plan: Plan) -> Iterator[Wait]:
    """Yield a wait for each failure that recent events report and that perhaps still exists."""
    for warning in list_fresh_warnings(sight.events, _WARNINGS, now=sight.snapshot.now):
        code, remedy = _WARNINGS[warning.reason]
        if code == Code.WRITE_FAILED and not plan.stages:
            continue
        if code == Code.WRITE_FAILED and warning.code in NOT_WRITTEN - {Code.WRITE_FAILED}:
            yield make_refusal_wait(Code(warning.code), warning.message, namespace="")
        else:
            yield Wait(code=code, words=warning.message, remedy=remedy)


# ── pods with sidecars ───────────────────────────────────────────────────────


def list_busy(sight: SidecarSight) -> list[str]:
    """Return the pods that use up maxUnavailable: updated pods that do not serve."""
    return [pod.label for pod in sight.managed if pod.is_updated and not _is_serving(pod)]


def explain_skipped(pod: ManagedPod, reason: Reason, sight: SidecarSight, *, busy: Sequence[str]) -> Wait:
    """Return the plan's reason for skipping a pod, with more details. `busy`: the result of `list_busy`."""
    words = reason.message
    if reason.code == Code.NOT_IN_PLACE and (fields := _format_changed_fields(pod, sight)):
        words = f"{words} ({fields})"
    elif reason.code == Code.BUDGET:
        return make_budget_wait(reason, pod.label, busy=busy)
    return Wait(code=reason.code, words=words, pods=(pod.label,), remedy=remedy_of(reason))


def _format_changed_fields(pod: ManagedPod, sight: SidecarSight) -> str:
    old = revision_of(pod, sight.revisions)
    return ", ".join(list_forcing_fields(old.template, sight.document["spec"])[:5]) if old is not None else ""


def _explain_not_serving(pod: ManagedPod, sight: SidecarSight) -> Iterator[Wait]:
    """Yield why a pod with the present sidecars does not count as ready and therefore delays upgrades of other pods."""
    if _is_serving(pod):
        return
    cause = cause_of(sight.pods[pod.label], pod.pod, now=sight.snapshot.now, correction=OF_THE_WORKLOAD)
    if cause is not None:
        wait = wait_of(cause, pod.label)
        yield msgspec.structs.replace(wait, remedy=_find_remedy(cause, sight))
        return
    busy = next((pairs for pairs in pod.pairs if not pairs.is_idle), None)
    if busy is not None:
        words = (
            f"hot upgrade: container {busy.working} takes over, and container {busy.other} is not idle yet"
        )
        yield Wait(code=Code.HOT_UPGRADE, words=words, pods=(pod.label,))
    elif pod.restarting:
        names = ", ".join(sorted(pod.restarting))
        words = (
            f"variables of containers {names} read an annotation that was changed; the agent has not restarted "
            "these containers yet"
        )
        yield Wait(code=Code.UPDATING_IN_PLACE, words=words, pods=(pod.label,))
    else:
        words = "its sidecars do not run their new images yet"
        yield Wait(code=Code.UPDATING_IN_PLACE, words=words, pods=(pod.label,))


def _find_remedy(cause: WaitCause, sight: SidecarSight) -> str:
    """Return the remedy. For a sidecar, it contains the command that restores the SidecarSet's last good revision."""
    contents = sight.view.contents
    if contents is None or cause.container not in list_sidecar_names(contents.containers):
        return cause.remedy
    if cause.code not in _OF_A_SIDECAR:
        return cause.remedy
    back = find_way_back(
        SIDECAR_SETS,
        sight.view.name,
        revisions=sight.revisions,
        serving=_list_serving_revisions(sight),
        current=_find_newest_revision(sight),
        is_paused=_is_paused(sight),
    )
    return join_remedies(cause.remedy, back)


_OF_A_SIDECAR: Final = frozenset({Code.IMAGE_PULL, Code.CONTAINER_FAILS, Code.NOT_READY})
"""Codes of obstacles that a new revision of the SidecarSet may have caused."""


def _is_paused(sight: SidecarSight) -> bool:
    strategy = sight.view.spec.update_strategy if sight.view.spec is not None else None
    return strategy is not None and strategy.paused is True


def _list_serving_revisions(sight: SidecarSight) -> set[str]:
    of_pods = (revision_of(pod, sight.revisions) for pod in sight.managed if pod.pod.is_ready)
    return {revision.name for revision in of_pods if revision is not None}


def _find_newest_revision(sight: SidecarSight) -> str:
    return max(sight.revisions, key=lambda revision: revision.number).name if sight.revisions else ""


def _find_rollback_revision(sight: SidecarSight) -> int:
    revision = find_revision_before(
        sight.revisions, serving=_list_serving_revisions(sight), current=_find_newest_revision(sight)
    )
    return 0 if revision is None else revision.number


# ── pods without them ────────────────────────────────────────────────────────


def explain_missing(sight: SidecarSight) -> list[Wait]:
    """Return a wait for each reason why selected pods do not have the sidecars."""
    return [
        Wait(code=reason.code, words=reason.message, pods=(label,), remedy=reason.remedy)
        for label, reason in find_pods_without(sight.snapshot).items()
    ]


def _without_sidecars(sight: SidecarSight) -> Iterator[Wait]:
    missed = explain_missing(sight)
    yield from missed
    if sight.are_reviewed is False and any(wait.code == Code.NOT_INJECTED for wait in missed):
        yield make_unreviewed_wait()
