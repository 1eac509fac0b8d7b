"""Bringing pods into service: readiness conditions, lifecycle states, updates in place under way.

WorkingSet ──▶ plan_refresh() ──▶ Phase

Pure. Runs in every plan, also while paused and under OnDelete: what waits for a condition or a state waits
for this. A pod that was to be deleted and is wanted again comes back here.
"""

from collections.abc import Collection
from typing import Final

from pykruise.kinds.statefulset.in_place import Differences
from pykruise.kinds.statefulset.working_set import FINISHED, WorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.plans.in_place import Progress, go_on, summary_of
from pykruise.plans.phases import MOST_AT_ONCE, Phase, pod_chain, version
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle import LifecycleState, next_state, state_metadata, why_waiting
from pykruise.pods.readiness import PRE_DELETE_HOOK, PRE_UPDATE_HOOK, let_go, missing_conditions
from pykruise.pods.reasons import Code
from pykruise.pods.views import SERVING_STATES, PodView
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Chain, Stage, Step
from pykruise.runtime.reasons import Reason

__all__ = ["plan_refresh"]

_DURING_UPDATE = (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING, LifecycleState.UPDATED)
_NOT_UPDATING: Final = Progress()


def plan_refresh(
    ws: WorkingSet, differences: Differences, *, updating: Collection[str], except_for: Collection[str]
) -> Phase:
    """The writes for each pod that is not as far as it could be.

    `updating`: names of the candidates of an update that goes on. `except_for`: pods written to anyway.
    """
    normal = LifecycleState.NORMAL.value
    wanted = {pod.name for pod in ws.slot_pods}
    chains: list[Chain] = []
    skipped: dict[str, Reason] = {}
    broken: dict[str, Reason] = {}
    times: list[Instant] = []
    is_partial = False
    for pod in ws.counted:
        if pod.state == normal and not pod.open_gates and not pod.may_be_updating and pod.is_ready:
            continue
        if not pod.is_active or pod.name in except_for:
            continue
        if len(chains) == MOST_AT_ONCE:
            is_partial = True
            break
        progress = _progress(ws, pod)
        is_kept = pod.name in wanted and _is_wanted_again(ws, pod, differences, updating)
        # One that prepares for an update which is not to come any more goes back like one that was rolled back.
        is_updated = ws.is_updated(pod) or pod.name not in updating
        steps = progress.steps or _steps(ws, pod, progress, is_updated=is_updated, is_kept=is_kept)
        if progress.look_at is not None:
            times.append(progress.look_at)
        if progress.is_broken and progress.waits is not None:
            broken[pod.name] = progress.waits
        if steps:
            chains.append(pod_chain(pod, *steps))
        elif reason := progress.waits or why_waiting(pod, ws.spec.lifecycle):
            skipped[pod.name] = reason
    return Phase(
        stages=(Stage(purpose=Purpose.REFRESH_PODS, chains=tuple(chains)),) if chains else (),
        skipped=skipped,
        failure=summary_of(broken, Code.BROKEN_UPDATE_STATE),
        look_at=min(times, default=None),
        is_partial=is_partial,
    )


def _progress(ws: WorkingSet, pod: PodView) -> Progress:
    return go_on(pod, now=ws.now, settings=ws.settings.in_place) if pod.may_be_updating else _NOT_UPDATING


def _is_wanted_again(
    ws: WorkingSet, pod: PodView, differences: Differences, updating: Collection[str]
) -> bool:
    """Whether a pod in PreparingDelete has no reason left to go: neither a mark nor an update that
    would recreate it."""
    if pod.state != LifecycleState.PREPARING_DELETE or pod.is_specified_delete or pod.phase in FINISHED:
        return False
    return ws.is_updated(pod) or pod.name not in updating or not differences.recreates(pod)


def _steps(
    ws: WorkingSet, pod: PodView, progress: Progress, *, is_updated: bool, is_kept: bool
) -> tuple[Step, ...]:
    """Everything that is due to the pod, in one patch; empty: nothing is."""
    state = next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=is_updated,
        is_update_complete=not pod.may_be_updating or progress.is_complete,
    )
    conditions = list(progress.conditions)
    if is_kept:
        state = LifecycleState.NORMAL
        conditions += let_go(pod, PRE_DELETE_HOOK, now=ws.now)
    if state in (LifecycleState.NORMAL, LifecycleState.UPDATED) and pod.state in _DURING_UPDATE:
        conditions += let_go(pod, PRE_UPDATE_HOOK, now=ws.now)
    if pod.state in SERVING_STATES and not conditions:
        # What an interrupted turn has left behind would keep the pod out of service for ever.
        conditions += let_go(pod, PRE_DELETE_HOOK, now=ws.now) or let_go(pod, PRE_UPDATE_HOOK, now=ws.now)
    # Without a node nothing can become ready; with one, conditions and state are one write.
    own = {condition["type"] for condition in conditions}
    missing = missing_conditions(pod, now=ws.now) if pod.node_name else []
    conditions += [one for one in missing if one["type"] not in own]
    metadata: Document = state_metadata(state, now=ws.now) if state else {}
    if not metadata and not conditions:
        return ()
    body: Document = {}
    if metadata:
        body["metadata"] = metadata
    if conditions:
        body["status"] = {"conditions": conditions}
    # A condition that is turned, and the end of an update, must be of the pod that was looked at: another
    # update may just have begun. A condition that is missing cannot be taken for another.
    replaced = any(pod.condition(condition["type"]) is not None for condition in conditions)
    step = Step(
        action=Patch(
            resource=PODS,
            key=ws.key(pod.name),
            patch_type=PatchType.STRATEGIC,
            body=body,
            subresource="status" if conditions else "",
            uid=pod.uid,
            resource_version=version(pod, unchanged=replaced or progress.is_complete),
        ),
        because=_because(state, conditions, is_kept=is_kept),
    )
    return (step,)


def _because(state: LifecycleState | None, conditions: list[Document], *, is_kept: bool) -> str:
    parts = [f"nothing holds {condition['type']} back" for condition in conditions]
    if is_kept:
        parts.append("its deletion is no longer wanted")
    elif state:
        parts.append(f"it may go to {state}")
    return ", and ".join(parts)
