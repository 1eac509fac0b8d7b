"""Bring pods into service: readiness conditions, lifecycle states, and updates in place that have started.

CloneSetWorkingSet ──▶ plan_refresh() ──▶ PlanPhase

Pure. Every plan runs this phase, also while paused and under OnDelete, because pods may wait for a condition or a
state. One patch sets a new pod's readiness conditions and state, once it has a node. The same holds for a pod whose
update in place is complete. The patch also adds labels that older versions did not set.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.status import resize_refused_since
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
    """Plan the writes for each pod whose conditions or state are behind.

    `chosen`: names of the pods that are to be updated; None: this plan does not know. `except_for`: pods to which
    another phase already writes.
    """
    hash_label = keys.TEMPLATE_HASH_LABEL
    # One comprehension without calls: in most plans most pods need nothing.
    open_ones = [
        pod
        for pod in ws.pods
        if pod.state != _NORMAL or pod.open_gates or pod.may_be_updating or hash_label not in pod.labels
    ]
    if except_for:
        open_ones = [pod for pod in open_ones if pod.name not in except_for]
    waiting = _find_pods_without_node(ws, open_ones)
    refused = resize_refused_since(ws)
    phase = refresh_phase(
        [pod for pod in open_ones if pod.name not in waiting] if waiting else open_ones,
        steps_of=lambda pod, progress: _build_steps(ws, pod, progress, chosen),
        instead_of=lambda pod, progress: recreation_instead(
            pod,
            progress,
            policy=ws.spec.policy,
            refused_since=refused,
            settings=ws.settings.in_place,
            now=ws.now,
        ),
        why_waiting=lambda pod: why_waiting(pod, ws.spec.lifecycle),
        now=ws.now,
        settings=ws.settings.in_place,
        recall=ws.recall,
    )
    return msgspec.structs.replace(phase, skipped={**waiting, **phase.skipped}) if waiting else phase


def _find_pods_without_node(ws: CloneSetWorkingSet, pods: Sequence[PodView]) -> dict[str, Reason]:
    """New pods that need no write until they have a node. There are thousands after a large scale-out."""
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


def _build_steps(
    ws: CloneSetWorkingSet, pod: PodView, progress: InPlaceProgress, chosen: Collection[str] | None
) -> tuple[Step, ...]:
    """Build one patch with everything that the pod needs; empty when it needs nothing."""
    # A pod that prepares for an update that no longer happens (paused, or the partition was raised) returns to
    # service like a pod that was rolled back. Otherwise it would stay out of service as long as the update is held. A
    # pod of the update revision may be chosen too: it returns to the current revision.
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
