"""Which CloneSets have to look at a change of a pod: its own, and others whose selector matches it too.

old view + new view + lifecycle ──▶ matters() ──▶ wake its CloneSet, or let the event pass
change ──▶ follow_overlaps() ──▶ others, whose selector overlaps with another owner now, or with one less

Pure, but for what `around` shows and remembers. A pod's own CloneSet is woken by every change, unless the gate
CloneSetEventHandlerOptimization is on. A change that is let pass then changes no decision: whatever a plan reads
of a pod is compared here, but for what only shows in words.
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
        [status.waiting for status in pod.container_statuses],
        [status.waiting for status in pod.init_statuses],
    )


def _hook_finalizers(lifecycle: Lifecycle | None) -> frozenset[str]:
    """Finalizers that some hook waits for, preNormal's too."""
    if lifecycle is None:
        return frozenset()
    hooks = (lifecycle.pre_delete, lifecycle.in_place_update, lifecycle.pre_normal)
    return frozenset(name for hook in hooks if hook is not None for name in hook.finalizers_handler or ())


def follow_overlaps(change: Change[PodView], around: Around[CloneSetSettings]) -> Iterator[Key]:
    """CloneSets whose selector matches this pod of another owner: when it is that owner's first, or was its last.

    Nothing else tells them. Of an owner with many pods a CloneSet hears twice, not once for each.
    """
    if _ways_to_overlap(change.old) == _ways_to_overlap(change.new):
        return
    pods = [pod for pod in (change.old, change.new) if pod is not None]
    owners = {pod.controller.uid for pod in pods if pod.controller is not None}
    labels = dict.fromkeys(label for pod in pods for label in pod.labels.items())
    for label in (ANY_POD, *labels):
        for cloneset in around.by_index(CLONE_SET_VIEWS, BY_SELECTOR, (change.key.namespace, *label)):
            if owners != {cloneset.uid} and any(selects(cloneset.selector, pod) for pod in pods):
                known = around.memories.of(cloneset.key, cloneset.uid, OverlapMemory)
                if known.follow(change, cloneset, cloneset.selector):
                    yield cloneset.key


def _ways_to_overlap(pod: PodView | None) -> tuple[Any, ...] | None:
    """Whose the pod is and what selectors go by; None: it overlaps with nothing."""
    if pod is None or pod.controller is None or not pod.is_active:
        return None
    return (pod.controller, pod.labels)
