"""A kind is one value: all that the rest of the program asks of it stands on one page of its folder.

kinds/<kind>/kind.py ──▶ KIND ──▶ definitions, conversion, roles, flags, caches, controllers, admission, doctor,
                                  explain, plan, simulate: they loop over the kinds and name none

Pure values and functions. What a kind does not have (a definition, a controller, reviews) is None.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, get_type_hints

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.conversion import Conversion
from pykruise.kube.crds import Version, definition
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.rights import READ, Right, on
from pykruise.plans.execute import Failure
from pykruise.plans.further import FurtherReads
from pykruise.plans.insight import Insight
from pykruise.plans.plan import Plan
from pykruise.plans.read import Read
from pykruise.plans.review import Reviews
from pykruise.plans.views import Views
from pykruise.plans.wakes import Wake
from pykruise.pods.settings import Gate, NoSettings

__all__ = ["Control", "Kind", "ObjectView", "SpecSchema", "is_same_object", "workload_rights"]

SpecSchema = Callable[[str], Document]
"""The structural schema of the spec of another kind, by its name (`CloneSet`), for kinds that embed it."""


class ObjectView(Protocol):
    """What every kind's view of its own object has."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...
    @property
    def is_deleting(self) -> bool: ...


class Snapshot(Protocol):
    """What every kind's snapshot has."""

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
    """In its flag `--<name>-workers`, in logs and metrics."""
    component: str
    """In events and in the original's metrics: `cloneset-controller`."""
    objects: Views[Any]
    """The kind's own objects."""
    reads: Callable[[Any], Sequence[Views[Any]]] = lambda _: ()
    """What its snapshots and wakes look up besides, under these settings."""
    further: FurtherReads | None = None
    """What it looks at besides when a white list names it."""
    wakes: Callable[[Any], Sequence[Wake]]
    """Which events enqueue which keys, under these settings."""
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
    learn: Callable[[Read[Any], Any, Sequence[Failure]], None] | None = None
    """Notes failed writes in the object's memory, from which the next snapshot, made at once, knows them. For kinds
    that say in their plan what becomes of each: when it is tried again, and what the status shows. Else a failed
    write ends the reconcile with an error, and the object comes back with a backoff."""
    remember: Callable[[Read[Any], Any, Plan], None] | None = None
    """Notes what was planned in the object's memory."""
    is_current: Callable[[Any, Any], bool] = _own_generation
    """Whether the object (second) is still what was planned for (first)."""
    reports_ready: bool = False
    """Its status has Ready, Reconciling and Stalled (pods/kstatus.py), from what the plan waits for."""
    is_status_shared: bool = False
    """The status is written only if the object is still as it was seen: others write it too, or a write that arrives
    late would undo what must stay."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind, or something that is done to pods."""

    resource: Resource
    """In its hub version. Of a controller without a kind of its own: what it looks at."""
    versions: tuple[Version, ...] | Callable[[SpecSchema], tuple[Version, ...]] = ()
    """As served, for the CustomResourceDefinition; none: another kind's, or built in."""
    short_names: tuple[str, ...] = ()
    conversion: Conversion | None = None
    gates: tuple[str, ...] = ()
    """Feature gates that all must be on; else its objects are refused and no controller runs."""
    any_gate: tuple[str, ...] = ()
    """At least one of these must be on, where there are any."""
    own_gates: Mapping[str, Gate] = {}
    """Gates that OpenKruise does not have, by name (its own are in kinds/gates.py)."""
    settings: type[msgspec.Struct] = NoSettings
    """A frozen Struct; each field says where its value is from (pods/settings.py)."""
    reviews: Reviews = Reviews()
    control: Control | None = None
    rights: tuple[Right, ...] = ()
    """What its controller does to a cluster, beyond what all do (manager/roles.py)."""
    insight: Insight | None = None
    """What explain, plan and simulate know of it beyond its plan."""

    @property
    def name(self) -> str:
        """Its folder: the lower-case kind, or the controller's name."""
        if self.versions or self.control is None:
            return self.resource.kind.lower()
        return self.control.name

    def is_enabled(self, gates: Callable[[str], bool]) -> bool:
        """Whether its gates let it run."""
        return all(gates(name) for name in self.gates) and (
            not self.any_gate or any(gates(name) for name in self.any_gate)
        )

    def crd(self, schema_of: SpecSchema) -> Document | None:
        """The CustomResourceDefinition; None: it has none of its own."""
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        return (
            definition(self.resource, versions=versions, short_names=self.short_names) if versions else None
        )

    @property
    def spec_type(self) -> Any:
        """The type of `spec` in the hub version, for kinds that embed it."""
        assert not callable(self.versions), f"{self.resource.kind} embeds others itself"
        root = next(one.root for one in self.versions if one.storage)
        return get_type_hints(root, include_extras=True)["spec"]


def workload_rights(resource: Resource) -> tuple[Right, ...]:
    """What the controller of a workload does to its own objects: read, report, and own others by them."""
    return (
        on(resource, *READ, why=f"{resource.kind}: to see them"),
        on(resource, "patch", subresource="status", why=f"{resource.kind}: to report their status"),
        # Owners with blockOwnerDeletion: OwnerReferencesPermissionEnforcement asks for it.
        on(resource, "update", subresource="finalizers", why=f"{resource.kind}: to own pods"),
    )
