"""Bringing pods into service: readiness conditions, lifecycle states, updates in place under way.

WorkingSet ──▶ plan_refresh() ──▶ Phase

Pure. Runs in every plan, also while paused and under OnDelete: whoever waits for a condition or a state waits
for this. A new pod gets its readiness conditions and its state in one write, once it has a node; so does one
whose update in place is complete. Labels that older versions lack come with it.
"""

from collections.abc import Collection
from typing import Final

from pykruise.kinds.cloneset.working_set import WorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.plans.actions import Patch
from pykruise.plans.in_place import Progress, go_on, told_of
from pykruise.plans.phases import MOST_AT_ONCE, Phase, pod_chain, version
from pykruise.plans.plan import Chain, Stage, Step
from pykruise.pods import keys
from pykruise.pods.lifecycle import LifecycleState, next_state, state_metadata, why_waiting
from pykruise.pods.readiness import PRE_UPDATE_HOOK, let_go, missing_conditions
from pykruise.pods.views import PodView

__all__ = ["plan_refresh"]

_DURING_UPDATE = (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING, LifecycleState.UPDATED)


def plan_refresh(ws: WorkingSet, *, except_for: Collection[str]) -> Phase:
    """The writes for each pod that is not as far as it could be; `except_for` are pods written to anyway."""
    normal = LifecycleState.NORMAL.value
    in_place = ws.settings.in_place
    chains: list[Chain] = []
    left: dict[str, str] = {}
    broken: dict[str, str] = {}
    times: list[Instant] = []
    is_partial = False
    for pod in ws.pods:
        if (
            pod.state == normal
            and not pod.open_gates
            and not pod.may_be_updating
            and keys.TEMPLATE_HASH_LABEL in pod.labels
        ):
            continue
        if pod.name in except_for:
            continue
        if len(chains) == MOST_AT_ONCE:
            is_partial = True
            break
        progress = go_on(pod, now=ws.now, settings=in_place) if pod.may_be_updating else _NOT_UPDATING
        steps = progress.steps or _steps(ws, pod, progress)
        if progress.look_at is not None:
            times.append(progress.look_at)
        if progress.is_broken:
            broken[pod.name] = progress.waits
        if steps:
            chains.append(pod_chain(pod, *steps))
        elif reason := progress.waits or why_waiting(pod, ws.spec.lifecycle):
            left[pod.name] = reason
    stages = (Stage(name="refresh pods", chains=tuple(chains)),) if chains else ()
    return Phase(
        stages=stages,
        left=left,
        failure=told_of(broken),
        failure_reason="BrokenUpdateState",
        look_at=min(times, default=None),
        is_partial=is_partial,
    )


_NOT_UPDATING: Final = Progress()


def _steps(ws: WorkingSet, pod: PodView, progress: Progress) -> tuple[Step, ...]:
    """Everything that is due to the pod, in one patch; empty: nothing is."""
    state = next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=pod.revision == ws.update.hash,
        is_update_complete=progress.is_complete,
    )
    metadata: Document = state_metadata(state, now=ws.now) if state else {}
    if pod.revision and keys.TEMPLATE_HASH_LABEL not in pod.labels:
        metadata.setdefault("labels", {})[keys.TEMPLATE_HASH_LABEL] = pod.revision
    # Without a node nothing can become ready; with one, conditions and state are one write.
    missing = missing_conditions(pod, now=ws.now) if pod.node_name else []
    own = {condition["type"] for condition in progress.conditions}
    conditions = [*progress.conditions, *(one for one in missing if one["type"] not in own)]
    if state in (LifecycleState.NORMAL, LifecycleState.UPDATED) and pod.state in _DURING_UPDATE:
        conditions += let_go(pod, PRE_UPDATE_HOOK, now=ws.now)
    if not metadata and not conditions:
        return ()
    body: Document = {}
    if metadata:
        body["metadata"] = metadata
    if conditions:
        body["status"] = {"conditions": conditions}
    # A condition that is turned, and the end of an update, must be of the pod that was looked at: another
    # update may just have begun. A condition that is missing cannot be taken for another, and new pods
    # change too often to insist.
    replaced = any(pod.condition(condition["type"]) is not None for condition in conditions)
    step = Step(
        action=Patch(
            resource=PODS,
            key=ws.key(pod),
            patch_type=PatchType.STRATEGIC,
            body=body,
            subresource="status" if conditions else "",
            uid=pod.uid,
            resource_version=version(pod, unchanged=replaced or progress.is_complete),
        ),
        because=_because(state, conditions),
    )
    return (step,)


def _because(state: LifecycleState | None, conditions: list[Document]) -> str:
    parts = [f"nothing holds {condition['type']} back" for condition in conditions]
    if state:
        parts.append(f"it may go to {state}")
    return ", and ".join(parts) or "it lacks the label with its template's hash"
