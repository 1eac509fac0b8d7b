"""Bringing pods into service: readiness conditions, lifecycle states, updates in place under way.

CloneSetWorkingSet ──▶ plan_refresh() ──▶ Phase

Pure. Runs in every plan, also while paused and under OnDelete: what waits for a condition or a state waits
for this. A new pod gets its readiness conditions and its state in one write, once it has a node; so does one
whose update in place is complete. Labels that older versions lack come with it.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.plans.failed_resizes import recreation_instead
from pykruise.plans.in_place import InPlaceProgress
from pykruise.plans.lifecycle_refresh import (
    because_of,
    due_conditions,
    refresh_phase,
    released_after_update,
    service_step,
)
from pykruise.plans.phases import PlanPhase, skip
from pykruise.pods.lifecycle.states import (
    WAITS_FOR_A_NODE,
    LifecycleState,
    next_state,
    state_metadata,
    why_waiting,
)
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Step
from pykruise.runtime.reasons import Reason

_NEW: Final = LifecycleState.PREPARING_NORMAL.value
_NORMAL: Final = LifecycleState.NORMAL.value


def plan_refresh(
    ws: CloneSetWorkingSet, *, chosen: Collection[str] | None, except_for: Collection[str]
) -> PlanPhase:
    """The writes for each pod that is not as far as it could be.

    `chosen`: names of the pods whose update is to come; None: this plan does not tell. `except_for`: pods that
    are written to anyway.
    """
    hash_label = keys.TEMPLATE_HASH_LABEL
    # One comprehension without calls: most pods of most plans are settled.
    open_ones = [
        pod
        for pod in ws.pods
        if pod.state != _NORMAL or pod.open_gates or pod.may_be_updating or hash_label not in pod.labels
    ]
    if except_for:
        open_ones = [pod for pod in open_ones if pod.name not in except_for]
    waiting = _waiting_for_a_node(ws, open_ones)
    phase = refresh_phase(
        [pod for pod in open_ones if pod.name not in waiting] if waiting else open_ones,
        steps_of=lambda pod, progress: _steps(ws, pod, progress, chosen),
        why_waiting=lambda pod: why_waiting(pod, ws.spec.lifecycle),
        now=ws.now,
        settings=ws.settings.in_place,
        recall=ws.recall,
    )
    return msgspec.structs.replace(phase, skipped={**waiting, **phase.skipped}) if waiting else phase


def _waiting_for_a_node(ws: CloneSetWorkingSet, pods: Sequence[PodView]) -> dict[str, Reason]:
    """New pods to which nothing is due before they have a node: thousands, after a large set was scaled up."""
    hook = ws.spec.hooks.pre_normal
    if hook is not None and hook.has_handlers:
        return {}
    return skip(
        (
            pod
            for pod in pods
            if not pod.node_name
            and pod.state == _NEW
            and not pod.may_be_updating
            and keys.TEMPLATE_HASH_LABEL in pod.labels
        ),
        WAITS_FOR_A_NODE,
    )


def _steps(
    ws: CloneSetWorkingSet, pod: PodView, progress: InPlaceProgress, chosen: Collection[str] | None
) -> tuple[Step, ...]:
    """Everything that is due to the pod, in one patch; empty: nothing is."""
    recreation = recreation_instead(
        pod, progress, policy=ws.spec.policy, settings=ws.settings.in_place, now=ws.now
    )
    if recreation:
        return recreation
    # One that prepares for an update which does not come any more (paused, partition raised) goes back like one
    # that was rolled back: it would be out of service for as long. One of the update revision may be chosen too, to go
    # back to the current one.
    is_done_with = pod.revision == ws.update.hash if chosen is None else pod.name not in chosen
    state = next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=is_done_with,
        is_update_complete=progress.is_complete,
    )
    metadata: Document = state_metadata(state, now=ws.now) if state else {}
    if pod.revision and keys.TEMPLATE_HASH_LABEL not in pod.labels:
        metadata.setdefault("labels", {})[keys.TEMPLATE_HASH_LABEL] = pod.revision
    conditions = due_conditions(
        pod, progress, released=released_after_update(pod, state, now=ws.now), now=ws.now
    )
    because = because_of(conditions, state) or "it lacks the label with its template's hash"
    return service_step(pod, progress, conditions=conditions, metadata=metadata, because=because)
