"""Kind: one value with everything that the rest of the program needs to know of a kind.

kinds/<kind>/kind.py ──▶ KIND ──▶ CRDs, conversion, roles, flags, caches, controllers, admission, doctor, explain,
                                  plan, simulate: they iterate over the kinds and name none

Pure values and functions. Parts that a kind does not have (a CRD, a controller, reviews) are None.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import (
    Column,
    ScalePaths,
    Version,
    blank_of,
    build_definition,
    build_structural_schema,
)
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
"""Returns the structural schema of another kind's spec by the kind's name (`CloneSet`), for kinds that embed it."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, or a feature for pods."""

    resource: Resource
    """Resource in its hub version. For a controller without a kind of its own: the resource that it reads."""
    versions: tuple[Version, ...] | Callable[[SpecSchema], tuple[Version, ...]] = ()
    """Served versions for the CustomResourceDefinition; none: the CRD belongs to another kind, or the kind is built
    in.
    """
    released_in: str = "v1alpha1"
    """The version in which released versions of OpenKruise (up to 1.8) store its objects."""
    short_names: tuple[str, ...] = ()
    conversion: Conversion | None = None
    gates: tuple[str, ...] = ()
    """Feature gates that must all be on; otherwise its objects are rejected and no controller runs."""
    any_gate: tuple[str, ...] = ()
    """Feature gates of which at least one must be on, unless empty."""
    own_gates: Mapping[str, Gate] = {}
    """Gates that OpenKruise does not have, by name (OpenKruise's gates are in kinds/gates.py)."""
    settings: type[msgspec.Struct] = NoSettings
    """A frozen Struct; each field declares the source of its value (pods/settings.py)."""
    reviews: Reviews = Reviews()
    stored: StoredSpec | None = None
    """Validation of stored objects by its controller; None: it accepts all that its views can read."""
    amounts: tuple[Amount, ...] = ()
    """Fields with int-or-percent values, and numbers with the same use."""
    derived: tuple[DerivedName, ...] = ()
    """Names and label values that are derived from its name, and that can be too long."""
    control: Control | None = None
    rights: tuple[Right, ...] = ()
    """Permissions of its controller in addition to those of all controllers (manager/roles.py)."""
    rights_by_gate: Mapping[str, tuple[Right, ...]] = {}
    """Further permissions of its controller while a gate is on, by the gate's name."""
    lends: tuple[Right, ...] | None = None
    """Permissions that the manager uses for the author of a namespaced object, who may lack them. A default role of
    Kubernetes may write the kind only if it includes all of them (manager/roles.py); None: no default role may.
    """
    insight: Insight | None = None
    """Facts for explain, plan and simulate in addition to its plan."""
    shown: Shown | None = None
    """Presentation of the kind: kubectl kruise, Argo CD, state metrics and the dashboard iterate over it."""
    pods: PodSteps | None = None
    """Part of the kind in pod admission; None: it has none."""

    @property
    def name(self) -> str:
        """The lower-case kind; without a kind of its own, the name of its controller or of its steps."""
        if not self.versions and self.control is not None:
            return self.control.name
        if not self.versions and self.pods is not None:
            return self.pods.name
        return self.resource.kind.lower()

    def is_enabled(self, gates: Callable[[str], bool]) -> bool:
        """Whether these gates enable it."""
        return all(gates(name) for name in self.gates) and (
            not self.any_gate or any(gates(name) for name in self.any_gate)
        )

    def build_crd(self, schema_of: SpecSchema) -> Document | None:
        """Return the CustomResourceDefinition; None: it has none of its own."""
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        return (
            build_definition(self.resource, versions=versions, short_names=self.short_names)
            if versions
            else None
        )

    def build_blank_status(self, schema_of: SpecSchema) -> Document:
        """Return a status that satisfies the stored version's schema while nothing is known: zeros, empty strings."""
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        roots = [version.root for version in versions if version.storage]
        status = get_type_hints(roots[0], include_extras=True).get("status") if roots else None
        options = [
            arg for arg in get_args(status) or (status,) if isinstance(arg, type) and arg is not type(None)
        ]
        return blank_of(build_structural_schema(options[0])) if options else {}

    @property
    def spec_type(self) -> Any:
        """The type of `spec` in the hub version, for kinds that embed it."""
        assert not callable(self.versions), f"{self.resource.kind} embeds other kinds itself"
        root = next(version.root for version in self.versions if version.storage)
        return get_type_hints(root, include_extras=True)["spec"]


AGE: Final = Column("AGE", "date", ".metadata.creationTimestamp")
"""The AGE column, which every list has."""

POD_TEMPLATE: Final = (
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
)
"""Columns of `-o wide` about the created pods."""


def make_two_versions(
    hub: Any, spoke: Any = None, *, columns: tuple[Column, ...] = (), scale: ScalePaths | None = None
) -> tuple[Version, ...]:
    """Return v1alpha1 and v1beta1; the latter is stored. `hub`, `spoke`: types of the whole object; without `spoke`
    both versions have the same fields.
    """
    old = Version(name="v1alpha1", root=spoke or hub, columns=columns, scale=scale)
    return old, Version(name="v1beta1", root=hub, storage=True, columns=columns, scale=scale)


POD_OWNER_LENDS: Final = (make_right(PODS, "create", "delete", "patch"),)
"""Permissions that the manager uses for an object's author if the object defines pods (see `Kind.lends`)."""


def list_workload_rights(resource: Resource) -> tuple[Right, ...]:
    """Return the permissions of a workload's controller for its own objects: to read them, write their status, and own
    other objects.
    """
    return (
        make_right(resource, *READ, why=f"{resource.kind}: to watch its objects"),
        make_right(
            resource,
            "patch",
            subresource="status",
            why=f"{resource.kind}: to report the status of its objects",
        ),
        # Owner references with blockOwnerDeletion: the admission plugin OwnerReferencesPermissionEnforcement requires
        # it.
        make_right(resource, "update", subresource="finalizers", why=f"{resource.kind}: to own pods"),
    )
