"""A kind is one value: all that the rest of the program asks of it stands on one page of its folder.

kinds/<kind>/kind.py ──▶ KIND ──▶ definitions, conversion, roles, flags, caches, controllers, admission, doctor,
                                  explain, plan, simulate: they loop over the kinds and name none

Pure values and functions. What a kind does not have (a definition, a controller, reviews) is None.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ, Right, on
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import Column, ScalePaths, Version, blank_of, definition, structural_schema
from pykruise.plans.insight import Insight
from pykruise.plans.pod_steps import PodSteps
from pykruise.plans.review import Reviews
from pykruise.plans.shown import Shown
from pykruise.plans.stored_values import StoredSpec
from pykruise.pods.settings import Gate, NoSettings
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.derived_names import DerivedName
from pykruise.runtime.control import Control

SpecSchema = Callable[[str], Document]
"""The structural schema of the spec of another kind, by its name (`CloneSet`), for kinds that embed it."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind, or something that is done to pods."""

    resource: Resource
    """Resource in its hub version. Of a controller without a kind of its own: what it looks at."""
    versions: tuple[Version, ...] | Callable[[SpecSchema], tuple[Version, ...]] = ()
    """As served, for the CustomResourceDefinition; none: another kind's, or built in."""
    released_in: str = "v1alpha1"
    """The version in which released versions of OpenKruise (up to 1.8) store it."""
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
    stored: StoredSpec | None = None
    """How its controller judges what is stored; None: it takes what its views can read."""
    amounts: tuple[Amount, ...] = ()
    """Its int-or-percent fields, and numbers that are used as such."""
    derived: tuple[DerivedName, ...] = ()
    """Names and label values that are made from its name, and that can be too long."""
    control: Control | None = None
    rights: tuple[Right, ...] = ()
    """Rights of its controller besides those of all controllers (manager/roles.py)."""
    lends: tuple[Right, ...] | None = None
    """Actions of the manager on behalf of the author of an object of a namespaced kind, which the author might not be
    allowed to do. Of Kubernetes' own roles those get to write the kind that have all of it (manager/roles.py); None:
    none does."""
    insight: Insight | None = None
    """Facts for explain, plan and simulate besides its plan."""
    shown: Shown | None = None
    """How it shows itself: kubectl kruise, Argo CD, state metrics and the dashboard loop over it."""
    pods: PodSteps | None = None
    """Its part in the admission of pods; None: it takes none."""

    @property
    def name(self) -> str:
        """The lower-case kind; of what has no kind of its own, the name of its controller or of its steps."""
        if not self.versions and self.control is not None:
            return self.control.name
        if not self.versions and self.pods is not None:
            return self.pods.name
        return self.resource.kind.lower()

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

    def blank_status(self, schema_of: SpecSchema) -> Document:
        """Status that satisfies the stored version's schema while nothing is known: zeros and empty texts."""
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        roots = [version.root for version in versions if version.storage]
        status = get_type_hints(roots[0], include_extras=True).get("status") if roots else None
        options = [
            arg for arg in get_args(status) or (status,) if isinstance(arg, type) and arg is not type(None)
        ]
        return blank_of(structural_schema(options[0])) if options else {}

    @property
    def spec_type(self) -> Any:
        """The type of `spec` in the hub version, for kinds that embed it."""
        assert not callable(self.versions), f"{self.resource.kind} embeds others itself"
        root = next(version.root for version in self.versions if version.storage)
        return get_type_hints(root, include_extras=True)["spec"]


AGE: Final = Column("AGE", "date", ".metadata.creationTimestamp")
"""The column that every list has."""

POD_TEMPLATE: Final = (
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
)
"""Columns of `-o wide` about the pods that are made."""


def two_versions(
    hub: Any, spoke: Any = None, *, columns: tuple[Column, ...] = (), scale: ScalePaths | None = None
) -> tuple[Version, ...]:
    """v1alpha1 and v1beta1, the latter stored. `hub`, `spoke`: types of the whole object; without `spoke` both have
    the same fields."""
    old = Version(name="v1alpha1", root=spoke or hub, columns=columns, scale=scale)
    return old, Version(name="v1beta1", root=hub, storage=True, columns=columns, scale=scale)


POD_OWNER_LENDS: Final = (on(PODS, "create", "delete", "patch"),)
"""Rights lent by a kind that creates pods as its objects describe them."""


def workload_rights(resource: Resource) -> tuple[Right, ...]:
    """Rights of a workload's controller for its own objects: read, report, and own others by them."""
    return (
        on(resource, *READ, why=f"{resource.kind}: to see them"),
        on(resource, "patch", subresource="status", why=f"{resource.kind}: to report their status"),
        # Owners with blockOwnerDeletion: OwnerReferencesPermissionEnforcement asks for it.
        on(resource, "update", subresource="finalizers", why=f"{resource.kind}: to own pods"),
    )
