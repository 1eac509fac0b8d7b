"""Next steps of a pod's in-place update to another revision: wait for its hook, or begin.

pod + UpdateSpec + hook ──▶ update_turn() ──▶ steps, or the reason to wait

Pure; serves every kind with the inPlaceUpdate hook. The kind decides which pods are updated, how many, and in which
order.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.in_place import begin_steps
from pykruise.plans.phases import pod_patch
from pykruise.pods.in_place import InPlaceSettings, UpdateSpec, start
from pykruise.pods.lifecycle.readiness import PRE_UPDATE_HOOK, hold_back
from pykruise.pods.lifecycle.states import (
    LifecycleHook,
    LifecycleState,
    is_hooked,
    state_metadata,
    update_wait,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Step
from pykruise.runtime.reasons import Reason


class TurnTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Target of the updates."""

    revision: str
    """Name of the revision for messages."""
    labels: Mapping[str, str]
    """Labels with which the kind marks a pod's revision."""
    hook: LifecycleHook | None
    """The inPlaceUpdate hook."""
    now: Instant
    settings: InPlaceSettings


def waits_for(pod: PodView, hook: LifecycleHook | None) -> Reason | None:
    """Return the reason why the pod must wait before any write to it; None: it need not. `hook` is inPlaceUpdate."""
    if pod.state == LifecycleState.PREPARING_UPDATE and is_hooked(hook, pod):
        return update_wait(hook, pod)
    if pod.state == LifecycleState.UPDATED and hook is None:
        return Reason(Code.UPDATING_IN_PLACE, "its last update in place is about to end")
    return None


def update_turn(pod: PodView, spec: UpdateSpec, target: TurnTarget) -> tuple[tuple[Step, ...], Reason | None]:
    """Return the writes of the pod's next step, or none and the reason to wait.

    The pod enters PreparingUpdate if the hook must approve, otherwise the update begins. A pod that is still Updated
    gets the hook again, so that it must be released once more.
    """
    hook = target.hook
    if waits := waits_for(pod, hook):
        return (), waits
    if hook is not None and pod.state == LifecycleState.UPDATED:
        return (_prepare(pod, hook, target, with_hook=True),), None
    has_been_asked = pod.state in (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING)
    if hook is not None and is_hooked(hook, pod) and not has_been_asked:
        return (_prepare(pod, hook, target, with_hook=False),), None
    writes = start(
        pod,
        spec,
        labels=target.labels,
        metadata=state_metadata(LifecycleState.UPDATING, now=target.now),
        now=target.now,
        settings=target.settings,
    )
    return begin_steps(pod, writes, revision=target.revision), None


def _prepare(pod: PodView, hook: LifecycleHook, target: TurnTarget, *, with_hook: bool) -> Step:
    metadata: dict[str, Any] = state_metadata(LifecycleState.PREPARING_UPDATE, now=target.now)
    if with_hook:
        metadata["labels"] |= hook.labels_handler or {}
        if hook.finalizers_handler:
            metadata["finalizers"] = list(hook.finalizers_handler)
    conditions = hold_back(pod, PRE_UPDATE_HOOK, now=target.now) if hook.mark_pod_not_ready else []
    body: Document = {"metadata": metadata}
    if conditions:
        body["status"] = {"conditions": conditions}
    return Step(
        action=pod_patch(
            pod,
            body,
            subresource="status" if conditions else "",
            # If a pod that does not serve became ready meanwhile, its update would need a place in the budget.
            unchanged=bool(conditions) or not pod.is_serving,
        ),
        because=f"to be updated in place to {target.revision}; the inPlaceUpdate hook holds it",
    )
