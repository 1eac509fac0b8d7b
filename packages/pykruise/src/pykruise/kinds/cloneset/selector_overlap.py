"""Pods of other owners that a CloneSet's selector matches. They are reported, but not changed.

pods of the namespace ──▶ OverlapMemory.look() ─┬─▶ CloneSetSnapshot.overlapping ──▶ overlap_of() ──▶ condition, event
change of a pod (wakes.py) ─────▶ .follow() ────┘

Pure. The CloneSet itself is not affected, because it counts pods by owner. But a client that counts pods by the
selector counts these pods too, for example an autoscaler that reads the scale subresource.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.cache.store import Change
from pykruise.kube.values.counts import format_first
from pykruise.kube.values.selectors import Selector
from pykruise.plans.selected_pods import select_pods
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.view.pod_view import ControllerView, PodView
from pykruise.pods.workload.views import WorkloadView, selects
from pykruise.runtime.plan import Note
from pykruise.runtime.read import Mirrors
from pykruise.runtime.reasons import Reason

SELECTOR_OVERLAP: Final = "SelectorOverlap"
"""Type of the condition, and reason of the event."""

REMEDY: Final = CODES[Code.OTHER_OWNERS].helps


class OverlapMemory:
    """Overlapping pods that are known. A full search reads all pods that the selector matches, so it runs only once per
    generation of the CloneSet. After a search, changes of single pods are applied.
    """

    def __init__(self) -> None:
        self._generation = -1
        self._found: dict[str, dict[str, PodView]] = {}
        """UID of the other owner → name of the pod → the pod."""

    def look(self, view: WorkloadView, selector: Selector | None, read: Mirrors) -> Sequence[PodView]:
        """Return the overlapping pods. They are searched again only if the generation of the CloneSet has changed."""
        if selector is None or selector.is_empty:
            return []
        if self._generation != view.generation:
            self._generation, self._found = view.generation, {}
            self._add_pods(find_overlapping_pods(select_pods(selector, view.namespace, read), view))
        return [pod for pods in self._found.values() for pod in pods.values()]

    def follow(self, change: Change[PodView], view: WorkloadView, selector: Selector | None) -> bool:
        """Apply the change of a pod. Return whether it added or removed an owner of overlapping pods. False before the
        first search.
        """
        if self._generation != view.generation:
            return False
        owners = set(self._found)
        if change.old is not None:
            self._remove_pod(change.old)
        if change.new is not None and selects(selector, change.new):
            self._add_pods(find_overlapping_pods([change.new], view))
        return owners != set(self._found)

    def _add_pods(self, pods: Iterable[PodView]) -> None:
        for pod in pods:
            self._found.setdefault(_read_owner_uid(pod), {})[pod.name] = pod

    def _remove_pod(self, pod: PodView) -> None:
        owner = _read_owner_uid(pod)
        pods = self._found.get(owner, {})
        pods.pop(pod.name, None)
        if not pods:
            self._found.pop(owner, None)


def _read_owner_uid(pod: PodView) -> str:
    return pod.controller.uid if pod.controller is not None else ""


def find_overlapping_pods(selected: Iterable[PodView], view: WorkloadView) -> list[PodView]:
    """Select active pods that another owner manages. Pods of an earlier CloneSet of this name do not overlap, because
    they are being deleted.
    """
    return [
        pod
        for pod in selected
        if pod.controller is not None
        and pod.controller.uid != view.uid
        and pod.is_active
        and not _is_cloneset_named(pod.controller, view.name)
    ]


def _is_cloneset_named(owner: ControllerView, name: str) -> bool:
    return (owner.group, owner.kind, owner.name) == (CLONE_SETS.group, CLONE_SETS.kind, name)


def overlap_of(pods: Sequence[PodView]) -> Reason | None:
    """Describe the owners of overlapping pods; None if no pods overlap. The message contains no numbers of pods,
    because these change too often.
    """
    owners = sorted({f"{pod.controller.kind} {pod.controller.name}" for pod in pods if pod.controller})
    if not owners:
        return None
    message = f"spec.selector matches pods of {format_first(owners, 5)} too"
    return Reason(Code.OTHER_OWNERS, message, REMEDY)


def make_overlap_note(overlap: Reason | None) -> tuple[Note, ...]:
    """Return a warning event for an overlap. It is recorded only once."""
    if overlap is None:
        return ()
    message = overlap.condition_message
    return (Note(reason=SELECTOR_OVERLAP, message=message, warning=True, again_after_s=math.inf),)
