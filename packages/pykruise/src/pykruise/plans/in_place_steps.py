"""The next turn of a pod on its way to another revision in place: ask its hook, or begin.

pod + UpdateSpec + hook ──▶ update_turn() ──▶ steps, or what the pod waits for

Pure; serves every kind with the inPlaceUpdate hook. Which pods, how many and in which order is the kind's.
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
    """Where pods go."""

    revision: str
    """Name of the revision, for words."""
    labels: Mapping[str, str]
    """Labels by which the kind says of which revision a pod is."""
    hook: LifecycleHook | None
    """The inPlaceUpdate hook."""
    now: Instant
    settings: InPlaceSettings


def waits_for(pod: PodView, hook: LifecycleHook | None) -> Reason | None:
    """Reason for which the pod must wait before anything is written to it; None: none. `hook` is inPlaceUpdate."""
    if pod.state == LifecycleState.PREPARING_UPDATE and is_hooked(hook, pod):
        return update_wait(hook, pod)
    if pod.state == LifecycleState.UPDATED and hook is None:
        return Reason(Code.UPDATING_IN_PLACE, "its last update in place is about to end")
    return None


def update_turn(pod: PodView, spec: UpdateSpec, target: TurnTarget) -> tuple[tuple[Step, ...], Reason | None]:
    """The writes of the pod's next turn, or none and what it waits for.

    Into PreparingUpdate when the hook is to be asked, else the update itself. A pod that is still Updated gets
    the hook again, so that it has to be released once more.
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
            # Had a pod that does not serve become ready meanwhile, it would cost a place in the budget.
            unchanged=bool(conditions) or not pod.is_serving,
        ),
        because=f"to be updated in place to {target.revision}; the inPlaceUpdate hook holds it",
    )
