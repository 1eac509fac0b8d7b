"""Lifecycle states of a pod, and the hooks that let other controllers take part in its transitions.

pod + hooks of its owner ──▶ find_next_state() ──▶ the state it should have now, or None: it waits
hook + pod               ──▶ is_hooked(), is_all_hooked()
state                    ──▶ build_state_metadata() ──▶ labels and annotations of the patch that sets it

Pure; serves every kind that has `spec.lifecycle`. A label publishes the state. Another controller (a registry, a load
balancer) watches it, does its part, and sets or removes the hook's labels and finalizers.
"""

from enum import StrEnum
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

WAITS_FOR_A_NODE: Final = Reason(Code.SCHEDULING, "waits for a node")


class LifecycleState(StrEnum):
    """Values of the state label. A pod without the label counts as Normal."""

    PREPARING_NORMAL = "PreparingNormal"
    """The pod has been created and waits for the preNormal hook or for a node."""
    NORMAL = "Normal"
    """The pod is in service."""
    PREPARING_UPDATE = "PreparingUpdate"
    """The pod was selected for an in-place update and waits until the hook is removed."""
    UPDATING = "Updating"
    """The update is in progress."""
    UPDATED = "Updated"
    """The update is complete, and the pod waits until the hook is set again."""
    PREPARING_DELETE = "PreparingDelete"
    """The pod was selected for deletion and waits until the hook is removed."""


class LifecycleHook(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Labels and finalizers with which another controller holds a pod back."""

    finalizers_handler: list[str] | None = None
    """Finalizers that hold the pod while it has any of the finalizers."""
    labels_handler: dict[str, str] | None = None
    """Labels (key and value) that hold the pod while it has any of the labels."""
    mark_pod_not_ready: bool = False
    """Whether a pod is taken out of service while the hook holds it. Has no effect on preNormal."""

    @property
    def has_handlers(self) -> bool:
        """Whether the hook has labels or finalizers to wait for."""
        return bool(self.finalizers_handler or self.labels_handler)


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Hooks that let another controller take part in the transitions of a pod's lifecycle."""

    in_place_update: LifecycleHook | None = None
    """Holds a pod before its in-place update. After the update, it holds the pod until the hook is set on the pod
    again.
    """
    pre_delete: LifecycleHook | None = None
    """Holds a pod before it is deleted."""
    pre_normal: LifecycleHook | None = None
    """Prevents a new pod from being counted as in service until the hook is set on the pod."""

    @property
    def marks_not_ready(self) -> bool:
        """Whether waiting for a deletion or an update takes the pod out of service."""
        hooks = (self.pre_delete, self.in_place_update)
        return any(hook is not None and hook.mark_pod_not_ready for hook in hooks)


def is_hooked(hook: LifecycleHook | None, pod: PodView) -> bool:
    """Whether the pod has at least one label (key and value) or finalizer of the hook."""
    if hook is None:
        return False
    labels, finalizers = hook.labels_handler or {}, hook.finalizers_handler or ()
    return any(name in pod.finalizers for name in finalizers) or any(
        pod.labels.get(key) == value for key, value in labels.items()
    )


def is_all_hooked(hook: LifecycleHook | None, pod: PodView) -> bool:
    """Whether the pod has every label and finalizer of the hook; False without a hook."""
    if hook is None:
        return False
    labels, finalizers = hook.labels_handler or {}, hook.finalizers_handler or ()
    return all(name in pod.finalizers for name in finalizers) and all(
        pod.labels.get(key) == value for key, value in labels.items()
    )


def find_next_state(
    pod: PodView, lifecycle: Lifecycle | None, *, is_updated: bool, is_update_complete: bool
) -> LifecycleState | None:
    """State that a pod changes to automatically now; None if the pod keeps its state.

    `is_updated`: the pod has the update revision. `is_update_complete`: the pod has no unfinished in-place update.
    Excludes transitions that a plan starts (an update, a deletion).
    """
    match pod.state:
        case LifecycleState.PREPARING_NORMAL:
            return LifecycleState.NORMAL if _may_become_normal(pod, lifecycle) else None
        case LifecycleState.PREPARING_UPDATE if is_updated:
            # The update was rolled back before the hook was removed.
            return _choose_state_after_update(pod, lifecycle)
        case LifecycleState.UPDATING if is_update_complete:
            return _choose_state_after_update(pod, lifecycle)
        case LifecycleState.UPDATED:
            hook = lifecycle.in_place_update if lifecycle else None
            return LifecycleState.NORMAL if hook is None or is_all_hooked(hook, pod) else None
    return None


def _may_become_normal(pod: PodView, lifecycle: Lifecycle | None) -> bool:
    hook = lifecycle.pre_normal if lifecycle else None
    if hook is None or not hook.has_handlers:
        # No label is written before the pod has a node, because the write could conflict with the scheduler.
        return bool(pod.node_name)
    return is_all_hooked(hook, pod)


def _choose_state_after_update(pod: PodView, lifecycle: Lifecycle | None) -> LifecycleState:
    if lifecycle is not None and not is_all_hooked(lifecycle.in_place_update, pod):
        return LifecycleState.UPDATED
    return LifecycleState.NORMAL


def explain_pre_delete(hook: LifecycleHook | None, pod: PodView) -> Reason:
    """Reason of a pod that the preDelete hook holds, with the labels and finalizers that hold it."""
    message = f"waits until the preDelete hook is removed from the pod{_list_holders(hook, pod)}"
    return Reason(Code.PRE_DELETE_HOOK, message)


def update_wait(hook: LifecycleHook | None, pod: PodView) -> Reason:
    """Reason of a pod that the inPlaceUpdate hook holds, with the labels and finalizers that hold it."""
    message = f"waits until the inPlaceUpdate hook is removed from the pod{_list_holders(hook, pod)}"
    return Reason(Code.IN_PLACE_UPDATE_HOOK, message)


def _list_holders(hook: LifecycleHook | None, pod: PodView) -> str:
    """Labels and finalizers of the hook that the pod has, as `: label hook=on, finalizer example.com/x`."""
    if hook is None:
        return ""
    labels = [
        f"label {key}={value}"
        for key, value in (hook.labels_handler or {}).items()
        if pod.labels.get(key) == value
    ]
    result = labels + [
        f"finalizer {name}" for name in hook.finalizers_handler or () if name in pod.finalizers
    ]
    return f": {', '.join(result)}" if result else ""


UPDATE_UNDER_WAY: Final = Reason(Code.UPDATING_IN_PLACE, "its in-place update is under way")


def explain_waiting(pod: PodView, lifecycle: Lifecycle | None) -> Reason | None:
    """Reason why a pod that is not Normal keeps its state; None if nothing holds the pod back."""
    match pod.state:
        case LifecycleState.PREPARING_NORMAL:
            hook = lifecycle.pre_normal if lifecycle else None
            if hook is not None and hook.has_handlers:
                message = f"waits for the preNormal hook: {_list_missing(hook, pod)}"
                return Reason(Code.PRE_NORMAL_HOOK, message)
            return WAITS_FOR_A_NODE
        case LifecycleState.PREPARING_UPDATE:
            return update_wait(lifecycle.in_place_update if lifecycle else None, pod)
        case LifecycleState.UPDATING:
            return UPDATE_UNDER_WAY
        case LifecycleState.UPDATED:
            hook = lifecycle.in_place_update if lifecycle else None
            if hook is None:
                return None
            message = f"waits for the inPlaceUpdate hook: {_list_missing(hook, pod)}"
            return Reason(Code.IN_PLACE_UPDATE_HOOK, message, "the hook's owner must add it to the pod again")
        case LifecycleState.PREPARING_DELETE:
            return explain_pre_delete(lifecycle.pre_delete if lifecycle else None, pod)
    return None


def _list_missing(hook: LifecycleHook, pod: PodView) -> str:
    labels = [
        f"label {key}={value}"
        for key, value in (hook.labels_handler or {}).items()
        if pod.labels.get(key) != value
    ]
    finalizers = [f"finalizer {name}" for name in hook.finalizers_handler or () if name not in pod.finalizers]
    return ", ".join(labels + finalizers)


def build_state_metadata(state: LifecycleState, *, now: Instant) -> Document:
    """`labels` and `annotations` that give a pod this state."""
    return {
        "labels": {keys.STATE_LABEL: str(state)},
        "annotations": {keys.STATE_TIME_ANNOTATION: format_time(now)},
    }
