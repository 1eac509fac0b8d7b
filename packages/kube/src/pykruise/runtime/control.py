"""How objects of one kind are reconciled: a value from which a controller is made.

Control ──▶ assemble.py ──▶ caches, wakes, a queue, a Reconciler

Pure values and functions: what waits or writes is in reconcile.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from pykruise.kube.cache.store import Projected
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.runtime.execute import Failure
from pykruise.runtime.kstatus import Standing
from pykruise.runtime.named_kinds import FurtherReads
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake

__all__ = ["Control", "ObjectView", "Snapshot", "is_same_object"]


class ObjectView(Projected, Protocol):
    """Fields that each kind's view of its own object has."""

    @property
    def is_deleting(self) -> bool: ...


class Snapshot(Protocol):
    """Fields that each kind's snapshot has."""

    @property
    def now(self) -> Instant: ...


def _no_status(snapshot: Any, plan: Plan, failure: Failure) -> Document | None:
    """The status has no place for a failed write; its event tells it."""
    return None


def _own_generation(planned: Any, now: Any) -> bool:
    """Whether an object is still the one that was planned for, with the same spec."""
    return bool(
        now.uid == planned.uid
        and now.generation == planned.generation
        and now.is_deleting == planned.is_deleting
    )


def is_same_object(planned: Any, now: Any) -> bool:
    """For what has no spec of its own to go by."""
    return bool(now.uid == planned.uid)


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """How objects of a kind are reconciled."""

    name: str
    """Name in the flag `--<name>-workers`, in logs and metrics."""
    component: str
    """Name in events and in the original's metrics: `cloneset-controller`."""
    objects: Views[Any]
    """The kind's own objects."""
    reads: Callable[[Any], Sequence[Views[Any]]] = lambda _: ()
    """Further views that snapshots and wakes read, under these settings."""
    further: FurtherReads | None = None
    """Further resources that are read once a white list names them."""
    wakes: Callable[[Any], Sequence[Wake]]
    """Which events enqueue which keys, under these settings."""
    at_start: Sequence[Key] = ()
    """Keys to enqueue when the controller starts: objects that must exist although nothing requests them."""
    absent: Callable[[Key], Any] | None = None
    """The view of an object that is not there, without a uid: for kinds whose objects are also made because others ask
    for them. Its snapshot is taken whenever its name is enqueued. None: what is not there is forgotten."""
    snapshot: Callable[[Any, Read[Any]], Awaitable[Any | None]]
    """Everything that a decision about one object needs. The manager, explain, plan, simulate and tests call it.
    None: there is nothing to decide."""
    object_of: Callable[[Any], Any]
    """The object's view in a snapshot."""
    plan: Callable[[Any], Plan]
    """Decide: same snapshot, same plan."""
    failed: Callable[[Any, Plan, Failure], Document | None] = _no_status
    """The status when the plan ended with a fault (never a stale one); None: what the plan says."""
    unreported: frozenset[str] = frozenset()
    """Purposes of stages whose failure holds nothing back: they are tried again with every plan, and the status says
    nothing of it unless `failed` does."""
    learn: Callable[[Read[Any], Any, Sequence[Failure]], None] | None = None
    """Notes failed writes in the object's memory, from which the next snapshot, made at once, knows them. For kinds
    that say in their plan what becomes of each: when it is tried again, and what the status shows. Else a failed
    write ends the reconcile with an error, and the object comes back with a backoff."""
    remember: Callable[[Read[Any], Any, Plan], None] | None = None
    """Notes what was planned in the object's memory."""
    is_current: Callable[[Any, Any], bool] = _own_generation
    """Whether the object (second) is still what was planned for (first)."""
    standing: Callable[[Document, Reason | None], Standing] | None = None
    """Standing for Ready, Reconciling and Stalled, from the status to be written and the plan's wait. None: it has no
    such conditions."""
    has_waits_beside_status: bool = False
    """Whether its plan skips subjects whose waits the standing knows nothing of; without a standing that is so."""
    is_generation_in_conditions: bool = False
    """Whether its schema has a place for observedGeneration in conditions; Ready, Reconciling and Stalled say it then.
    OpenKruise's schemas have none; kstatus and kubectl read that of the status."""
    own_conditions: frozenset[str] = frozenset()
    """Types of conditions that clients of the kind do not know: a status that differs in nothing else is written a
    minute later, or with the next one. A client that reads an object and updates it gets no conflict from them."""
    urgent_conditions: frozenset[str] = frozenset()
    """Conditions that are written at once when their reason changes, since people act on them. Other words can wait."""
    is_status_shared: bool = False
    """The status is written only if the object is still as it was seen: others write it too, or a write that arrives
    late would undo what must stay."""

    def wakes_always(self, wake: Wake) -> bool:
        """Whether a wake can enqueue something although the kind has no object: its own objects, which come, and those
        that are made because others ask for them. Any other enqueues objects that are there alone."""
        return wake.on is self.objects or (self.absent is not None and wake.wakes_absent)
