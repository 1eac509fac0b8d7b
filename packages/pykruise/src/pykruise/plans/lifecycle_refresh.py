"""Writes that bring pods into service: they set conditions and continue in-place updates. The same for every kind.

pods of a kind + the decision for each ──▶ refresh_phase() ──▶ PlanPhase
state + released conditions ──▶ bring_into_service() ──▶ one write to the pod

Pure. A kind selects the pods that possibly need writes, and adds lifecycle states and labels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.failed_resizes import plan_recreation_instead
from pykruise.plans.in_place import InPlaceProgress, Recall, summary_of
from pykruise.plans.phases import MOST_AT_ONCE, ChangePod, DecidedStage, Decision, PlanPhase, UpdatePod
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.lifecycle.readiness import PRE_UPDATE_HOOK, list_missing_conditions, remove_hold
from pykruise.pods.lifecycle.states import LifecycleState, build_state_metadata
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

_NOT_UPDATING: Final = InPlaceProgress()
_DURING_UPDATE: Final = (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING, LifecycleState.UPDATED)


def refresh_phase(
    pods: Iterable[PodView],
    *,
    decide: Callable[[PodView, InPlaceProgress], ChangePod | Reason | None],
    policy: str = "",
    refused_since: Instant | None = None,
    now: Instant,
    settings: InPlaceSettings,
    recall: Recall | None = None,
) -> PlanPhase:
    """Return the writes that these pods need.

    `decide` is called for a pod whose in-place update needs no write now; it returns the decision of the kind, or the
    reason why the pod waits. `policy`: the update policy; it may allow recreation. `refused_since`: since when the API
    server has rejected resizes. `recall`: results of the last plan for the same owner.
    """
    recall = recall or Recall()
    decisions: list[Decision] = []
    late: list[Decision] = []
    skipped: dict[str, Reason] = {}
    broken: dict[str, Reason] = {}
    times: list[Instant] = []
    is_partial = False
    for pod in pods:
        if len(decisions) + len(late) == MOST_AT_ONCE:
            is_partial = True
            break
        progress = (
            recall.find_progress(pod, now=now, settings=settings) if pod.may_be_updating else _NOT_UPDATING
        )
        if progress.look_at is not None:
            times.append(progress.look_at)
        if progress.is_broken and progress.waits is not None:
            broken[pod.name] = progress.waits
        decision = (
            plan_recreation_instead(
                pod, progress, policy=policy, refused_since=refused_since, settings=settings, now=now
            )
            or progress.decision
            or decide(pod, progress)
        )
        if isinstance(decision, UpdatePod) and decision.is_resize:
            late.append(decision)
        elif decision is not None and not isinstance(decision, Reason):
            decisions.append(decision)
        elif reason := progress.waits or decision:
            skipped[pod.name] = reason
    if not is_partial:
        recall.forget_others()
    return PlanPhase(
        decided=(
            DecidedStage(purpose=Purpose.REFRESH_PODS, decisions=decisions, is_independent=True),
            DecidedStage(purpose=Purpose.REFRESH_PODS, decisions=late, is_last=True),
        ),
        skipped=skipped,
        failure=summary_of(broken, Code.BROKEN_UPDATE_STATE),
        look_at=min(times, default=None),
        is_partial=is_partial,
    )


def bring_into_service(
    pod: PodView,
    progress: InPlaceProgress,
    *,
    state: LifecycleState | None = None,
    released: Sequence[Document] = (),
    because: str = "",
    labels: Mapping[str, str] = {},
    because_of_labels: str = "",
    now: Instant,
) -> ChangePod | None:
    """Return one write with everything that the pod needs now; None if it needs nothing.

    It contains conditions that the update or the hook has set to False, the conditions in `released`, and missing
    conditions. Missing conditions are added only after the pod has a node, because a pod without a node cannot become
    ready. `state`: new lifecycle state. `because`: reason for the state; if empty, a general reason. `labels`: further
    labels. `because_of_labels`: the reason for them, if nothing else changes.
    """
    is_over = state in (LifecycleState.NORMAL, LifecycleState.UPDATED) and pod.state in _DURING_UPDATE
    own_hook = remove_hold(pod, PRE_UPDATE_HOOK, now=now) if is_over else ()
    due = [*progress.conditions, *own_hook, *released]
    own = {condition["type"] for condition in due}
    missing = list_missing_conditions(pod, now=now) if pod.node_name else []
    conditions = [*due, *(entry for entry in missing if entry["type"] not in own)]
    metadata: Document = build_state_metadata(state, now=now) if state else {}
    if labels:
        metadata["labels"] = {**metadata.get("labels", {}), **labels}
    if not metadata and not conditions:
        return None
    parts = [f"no reason is left for condition {condition['type']} to be False" for condition in conditions]
    if state:
        parts.append(because or f"its state can change to {state}")
    return ChangePod(
        pod=pod,
        metadata=metadata,
        conditions=conditions,
        because=", and ".join(parts) or because_of_labels,
        # A write that changes a condition or ends an update must fail if the pod has changed: another update may have
        # begun. A write that only adds missing conditions is safe without this check, and new pods change too often for
        # it.
        unchanged=progress.is_complete
        or any(pod.find_condition(condition["type"]) is not None for condition in conditions),
    )
