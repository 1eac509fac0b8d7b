"""Recreation of a CloneSet's pods for an update.

pods to update + why they cannot be updated in place ──▶ recreate() ──▶ decisions, or the reason why a pod waits

Pure. To recreate a pod, this module marks it as specified for deletion, and the scale phase replaces it by its rules.
If the scale phase would delete the pod immediately, this module deletes it instead, which saves one write per pod.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykruise.kinds.cloneset.deletions import delete_within_budget
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet, compute_numbers_if_deleted
from pykruise.plans.phases import (
    MOST_AT_ONCE,
    Decision,
    DeletePod,
    SpecifyPod,
    skip,
)
from pykruise.pods.lifecycle.states import is_hooked
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason


def recreate(
    ws: CloneSetWorkingSet, pods: Sequence[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> tuple[list[Decision], dict[str, Reason]]:
    """Delete the pods that the scale phase would delete next, and mark the other pods. If pods are already marked, only
    the scale phase reports why they wait.

    `reasons`: name of a pod → why it is not updated in place; only if the policy prefers in-place updates. Return the
    decisions, and the reasons why further pods are recreated by a later plan.
    """
    if not pods:
        return [], {}
    marked = {pod.name for pod in ws.to_delete}
    fresh = [pod for pod in pods if pod.name not in marked]
    later = fresh[MOST_AT_ONCE:]
    fresh = fresh[:MOST_AT_ONCE]
    all_groups = _group_by_reason(fresh, target, reasons)
    notes = {pod.name: _make_recreation_notes(pod, target) for pod in fresh}
    decisions: list[Decision] = []
    numbers = compute_numbers_if_deleted(ws, {pod.name for pod in fresh})
    if numbers.create_now == 0:
        free = [pod for pod in fresh if not is_hooked(ws.spec.hooks.pre_delete, pod)]
        groups = _group_by_reason(free, target, reasons)
        budget = numbers.ready_budget
        for why, group in groups.items():
            deletions = delete_within_budget(ws, group, ready_budget=budget, why=why)
            budget = deletions.ready_budget
            decisions += (
                msgspec.structs.replace(decision, also=notes[decision.subject])
                for decision in deletions.decisions
                if isinstance(decision, DeletePod)  # always true: `free` pods have no hook
            )
    at_once = {decision.subject for decision in decisions}
    for why, group in all_groups.items():
        for pod in group:
            if pod.name not in at_once:
                done, failed = notes[pod.name]
                because = f"{why}, as soon as it can be deleted"
                decisions.append(SpecifyPod(pod=pod, because=because, done=done, failed=failed))
    turn = Reason(Code.TURN, f"{_describe_recreation(target)}; other pods are recreated first")
    return decisions, skip(later, turn)


def _make_recreation_notes(pod: PodView, target: RevisionView) -> tuple[Note, Note]:
    """Return the events for a pod that is recreated for an update: for success and for failure. Reasons and messages
    are those of OpenKruise, because alerts search for them. A pod that is deleted without a mark gets the same events.
    """
    revision = f"for update(revision {target.name})"
    return (
        Note(
            reason="SuccessfulUpdatePodReCreate",
            message=f"successfully patch pod {pod.name} specified-delete {revision}",
        ),
        Note(
            reason="FailedUpdatePodReCreate",
            message=f"failed to patch pod specified-delete {pod.name} {revision}",
            warning=True,
        ),
    )


def _group_by_reason(
    pods: Iterable[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> dict[str, list[PodView]]:
    groups: dict[str, list[PodView]] = {}
    for pod in pods:
        groups.setdefault(_describe_recreation(target, reasons.get(pod.name, "")), []).append(pod)
    return groups


def _describe_recreation(target: RevisionView, reason: str = "") -> str:
    return f"recreated for revision {target.name}" + (f" ({reason})" if reason else "")
