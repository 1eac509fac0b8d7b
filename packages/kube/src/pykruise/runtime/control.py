"""Control: a value that defines how objects of one kind are reconciled, and from which its controller is built.

Control ──▶ assemble.py ──▶ caches, wakes, a queue, a Reconciler

Pure values and functions: the code that waits or writes is in reconcile.py.
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
    """Fields that every view of a kind's own object has."""

    @property
    def is_deleting(self) -> bool: ...


class Snapshot(Protocol):
    """Fields that every snapshot has."""

    @property
    def now(self) -> Instant: ...


def _omit_status(snapshot: Any, plan: Plan, failure: Failure) -> Document | None:
    """Return None: the status does not show a failed write; an event reports it."""
    return None


def _own_generation(planned: Any, now: Any) -> bool:
    """Whether an object is still the one that was planned, with the same spec."""
    return bool(
        now.uid == planned.uid
        and now.generation == planned.generation
        and now.is_deleting == planned.is_deleting
    )


def is_same_object(planned: Any, now: Any) -> bool:
    """Whether an object is still the one that was planned, for kinds without a spec of their own."""
    return bool(now.uid == planned.uid)


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of how objects of a kind are reconciled."""

    name: str
    """Name in the flag `--<name>-workers`, in logs and metrics."""
    component: str
    """Name in events and in OpenKruise's metrics: `cloneset-controller`."""
    objects: Views[Any]
    """The kind's own objects."""
    reads: Callable[[Any], Sequence[Views[Any]]] = lambda _: ()
    """Returns further views that snapshots and wakes read. The argument: the settings of the kind."""
    further: FurtherReads | None = None
    """Further resources, which are read as soon as a list in a ConfigMap names them."""
    wakes: Callable[[Any], Sequence[Wake]]
    """Returns the wakes of the kind: which events enqueue which keys. The argument: the settings of the kind."""
    at_start: Sequence[Key] = ()
    """Keys to enqueue when the controller starts: objects that must exist although nothing requests them."""
    absent: Callable[[Key], Any] | None = None
    """Returns the view of an object that does not exist, without a uid. For kinds whose objects are also created
    because other objects request them: a snapshot is taken whenever the name is enqueued. None: a missing object is
    forgotten.
    """
    snapshot: Callable[[Any, Read[Any]], Awaitable[Any | None]]
    """Takes the snapshot: everything that a decision about one object needs. The manager, explain, plan, simulate and
    tests call it. Returns None when there is nothing to decide.
    """
    object_of: Callable[[Any], Any]
    """Returns the object's view in a snapshot."""
    plan: Callable[[Any], Plan]
    """Decides. The same snapshot gives the same plan."""
    failed: Callable[[Any, Plan, Failure], Document | None] = _omit_status
    """Returns the status to report after a failed write; None: the plan's status. It is not called for a write that
    failed only because the cluster had changed since the snapshot (`Failure.is_stale`).
    """
    unreported: frozenset[str] = frozenset()
    """Purposes of stages whose failure delays nothing else: every plan tries them again, and the status does not show
    the failure unless `failed` adds it.
    """
    learn: Callable[[Read[Any], Any, Sequence[Failure]], None] | None = None
    """Stores failed writes for the next snapshot of the object (`Read.find_memory`), which is taken immediately. Use
    it for kinds whose plan decides after each failure when to try again, and what the status shows. Without this
    function, a failed write ends the reconcile with an error, and the object is requeued with backoff.
    """
    remember: Callable[[Read[Any], Any, Plan], None] | None = None
    """Stores facts of a plan for the next snapshots of the object (`Read.find_memory`)."""
    is_current: Callable[[Any, Any], bool] = _own_generation
    """Whether the current object (second) is still the one that was planned (first)."""
    standing: Callable[[Document, Reason | None], Standing] | None = None
    """Computes the Standing (kstatus.py) for Ready, Reconciling and Stalled from the status to be written and
    the reason for which the object waits. None: the kind has no such conditions.
    """
    has_waits_beside_status: bool = False
    """Whether plans skip pods or nodes for reasons that the Standing does not contain. Metrics count these reasons
    separately.
    """
    is_generation_in_conditions: bool = False
    """Whether the kind's schema has observedGeneration in conditions; Ready, Reconciling and Stalled then have it.
    OpenKruise's schemas do not have it; kstatus and kubectl read the status' own observedGeneration.
    """
    own_conditions: frozenset[str] = frozenset()
    """Types of conditions that the kind's other clients do not know. A status that differs only in them is written a
    minute later, or together with the next other change. Otherwise its writes would cause conflicts for a client that
    reads the object and then updates it.
    """
    urgent_conditions: frozenset[str] = frozenset()
    """Types of conditions that are written immediately when their status or reason changes, since people act on
    them. A change of their message alone can wait.
    """
    is_status_shared: bool = False
    """Whether the status is written only if the object's resourceVersion has not changed: other clients write the
    status too, or a late write would undo something that must stay.
    """

    def wakes_always(self, wake: Wake) -> bool:
        """Whether a wake can enqueue keys while the kind has no object. This holds for events of the kind's own
        objects. If the kind has the function `absent`, it also holds for wakes with `wakes_absent`. Any other wake
        enqueues existing objects only.
        """
        return wake.on is self.objects or (self.absent is not None and wake.wakes_absent)
