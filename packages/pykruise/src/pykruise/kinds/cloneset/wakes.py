"""CloneSets that must be reconciled after a change of a pod: the owner, and CloneSets whose selector matches the pod.

old view + new view + lifecycle ──▶ is_relevant() ──▶ enqueue the owner, or ignore the event
change ──▶ follow_overlaps() ──▶ CloneSets whose selector now matches pods of one more or one fewer owner

Pure, except for what `around` reads and stores. Every change of a pod enqueues the CloneSet that controls the pod. If
the gate CloneSetEventHandlerOptimization is on, a change that affects no decision enqueues nothing. To find out whether
a change affects a decision, this module compares everything that a plan reads from a pod, except fields that are used
only in messages.
"""

from collections.abc import Collection, Iterator
from typing import Any

from pykruise.kinds.cloneset.selector_overlap import OverlapMemory
from pykruise.kinds.cloneset.snapshot import ANY_POD, BY_SELECTOR, CLONE_SET_VIEWS, CloneSetSettings
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import selects
from pykruise.runtime.read import Around


def is_relevant(old: PodView | None, new: PodView | None, lifecycle: Lifecycle | None) -> bool:
    """Whether the owner must be reconciled after the change from `old` to `new`; None means that the pod does not
    exist.
    """
    if old is None or new is None or old.uid != new.uid:
        return True
    if new.may_be_updating or old.may_be_updating:
        return True  # the plan waits until the pod's containers are updated
    hooks = _list_hook_finalizers(lifecycle)
    return _list_facts(old, hooks) != _list_facts(new, hooks)


def _list_facts(pod: PodView, hooks: Collection[str]) -> tuple[Any, ...]:
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
        [status.waiting for status in pod.container_statuses],
        [status.waiting for status in pod.init_statuses],
    )


def _list_hook_finalizers(lifecycle: Lifecycle | None) -> frozenset[str]:
    """Return the finalizers of all hooks, also of preNormal."""
    if lifecycle is None:
        return frozenset()
    hooks = (lifecycle.pre_delete, lifecycle.in_place_update, lifecycle.pre_normal)
    return frozenset(name for hook in hooks if hook is not None for name in hook.finalizers_handler or ())


def follow_overlaps(change: Change[PodView], around: Around[CloneSetSettings]) -> Iterator[Key]:
    """Find CloneSets whose selector matches this pod of another owner, if it is the first such pod of this owner, or
    was the last.

    Changes of the other owner's further pods enqueue nothing. So an owner with many pods enqueues a CloneSet only when
    its first pod matches, and when its last pod no longer matches.
    """
    if _list_overlap_facts(change.old) == _list_overlap_facts(change.new):
        return
    pods = [pod for pod in (change.old, change.new) if pod is not None]
    owners = {pod.controller.uid for pod in pods if pod.controller is not None}
    labels = dict.fromkeys(label for pod in pods for label in pod.labels.items())
    for label in (ANY_POD, *labels):
        for cloneset in around.list_by_index(CLONE_SET_VIEWS, BY_SELECTOR, (change.key.namespace, *label)):
            if owners != {cloneset.uid} and any(selects(cloneset.selector, pod) for pod in pods):
                known = around.memories.find_memory(cloneset.key, cloneset.uid, OverlapMemory)
                if known.follow(change, cloneset, cloneset.selector):
                    yield cloneset.key


def _list_overlap_facts(pod: PodView | None) -> tuple[Any, ...] | None:
    """Return the pod's controller and labels; None if the pod is not active or has no controller, so it cannot
    overlap.
    """
    if pod is None or pod.controller is None or not pod.is_active:
        return None
    return (pod.controller, pod.labels)
