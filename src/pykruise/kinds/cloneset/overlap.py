"""Pods of other owners that a CloneSet's selector matches too: left alone, but told of.

pods of the namespace ──▶ strangers_of() ──▶ Snapshot.strangers ──▶ overlap_of() ──▶ condition and event

Pure. Nothing of the CloneSet's own goes wrong: it counts by owner. But whoever goes by the selector, an
autoscaler through the scale subresource most of all, counts the others in.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pykruise.kinds.cloneset.status import Failure
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.selectors import Selector
from pykruise.plans.plan import Note
from pykruise.pods.views import ControllerView, PodView

__all__ = ["LOOK_AGAIN_S", "SELECTOR_OVERLAP", "overlap_note", "overlap_of", "strangers_of"]

SELECTOR_OVERLAP: Final = "SelectorOverlap"
"""Type of the condition, and reason of the event."""

LOOK_AGAIN_S: Final = 60.0
"""Others come and go without a word: how often it is looked for them."""

REMEDY: Final = "give one of them other labels and another selector"


def strangers_of(
    pods: Iterable[PodView], *, uid: str, namespace: str, name: str, selector: Selector
) -> list[PodView]:
    """Active pods of the namespace that match, and that another owner manages.

    `uid`, `name`: the CloneSet's. Pods of an earlier one of this name are no strangers: they are on their way out.
    """
    return [
        pod
        for pod in pods
        if pod.namespace == namespace
        and pod.controller is not None
        and pod.controller.uid != uid
        and pod.is_active
        and not _is_of(pod.controller, name)
        and selector.matches(pod.labels)
    ]


def _is_of(owner: ControllerView, name: str) -> bool:
    return (owner.group, owner.kind, owner.name) == (CLONE_SETS.group, CLONE_SETS.kind, name)


def overlap_of(strangers: Sequence[PodView]) -> Failure:
    """Whose they are; an empty message: there are none. Without numbers, which change all the time."""
    owners = Counter(f"{pod.controller.kind} {pod.controller.name}" for pod in strangers if pod.controller)
    if not owners:
        return Failure("Distinct", "")
    shown = ", ".join(sorted(owners)[:5]) + (", …" if len(owners) > 5 else "")
    return Failure("OtherOwners", f"spec.selector matches pods of {shown} too; {REMEDY}")


def overlap_note(overlap: Failure) -> tuple[Note, ...]:
    """A Warning, the first time that it comes up."""
    if not overlap.message:
        return ()
    return (Note(reason=SELECTOR_OVERLAP, message=overlap.message, warning=True, again_after_s=float("inf")),)
