"""Which changes of a pod its CloneSet has to look at, with the gate CloneSetEventHandlerOptimization on.

old view + new view + lifecycle ──▶ matters() ──▶ wake the CloneSet, or let the event pass

Pure. Without the gate every change wakes. A change that is let pass changes no decision: whatever a plan reads
of a pod is compared here, but for what only shows in words.
"""

from collections.abc import Collection
from typing import Any

from pykruise.pods.lifecycle import Lifecycle
from pykruise.pods.views import PodView

__all__ = ["matters"]


def matters(old: PodView | None, new: PodView | None, lifecycle: Lifecycle | None) -> bool:
    """Whether the owner has to be woken for the change from `old` to `new`; None: there is no such pod."""
    if old is None or new is None or old.uid != new.uid:
        return True
    if new.may_be_updating or old.may_be_updating:
        return True  # its containers are what is waited for
    hooks = _hook_finalizers(lifecycle)
    return _facts(old, hooks) != _facts(new, hooks)


def _facts(pod: PodView, hooks: Collection[str]) -> tuple[Any, ...]:
    return (
        pod.controller,
        pod.labels,
        pod.annotations,
        pod.generation,
        pod.is_active,
        pod.is_deleting,
        pod.phase,
        pod.node_name,
        pod.is_ready,
        pod.has_ready_condition,
        pod.ready_since,
        pod.open_gates,
        [name for name in pod.finalizers if name in hooks],
        [one.waiting for one in pod.container_statuses],
        [one.waiting for one in pod.init_statuses],
    )


def _hook_finalizers(lifecycle: Lifecycle | None) -> frozenset[str]:
    """Finalizers that some hook waits for, preNormal's too."""
    if lifecycle is None:
        return frozenset()
    hooks = (lifecycle.pre_delete, lifecycle.in_place_update, lifecycle.pre_normal)
    return frozenset(name for hook in hooks if hook is not None for name in hook.finalizers_handler or ())
