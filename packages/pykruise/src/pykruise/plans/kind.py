"""Kind: one value with everything that the rest of the program needs to know about a kind.

kinds/<kind>/kind.py ──▶ KIND ──▶ CRDs, conversion, roles, flags, caches, controllers, admission, doctor, explain,
                                  plan, simulate: each of them iterates over all kinds

Pure values and functions. A part that a kind does not have (a CRD, a controller, reviews) is None.
"""

from collections.abc import Callable, Mapping
from functools import cache
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
"""Returns the structural schema of a spec, for kinds that embed it. The argument is the name of the embedded kind, such
as `CloneSet`.
"""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, or a feature for pods without a kind of its own."""

    resource: Resource
    """The resource in its hub version. For a feature without a kind of its own: the resource that it reads."""
    versions: tuple[Version, ...] | Callable[[SpecSchema], tuple[Version, ...]] = ()
    """Served versions, for the CustomResourceDefinition. Empty if there is no own CRD, because the resource is built in
    or another kind defines it.
    """
    released_in: str = "v1alpha1"
    """The version in which releases of OpenKruise (up to 1.8) store the objects."""
    short_names: tuple[str, ...] = ()
    conversion: Conversion | None = None
    gates: tuple[str, ...] = ()
    """Feature gates that must all be on. Otherwise new objects are rejected and the controller does not run."""
    any_gate: tuple[str, ...] = ()
    """Feature gates of which at least one must be on. If empty, no such gate is needed."""
    own_gates: Mapping[str, Gate] = {}
    """Name → feature gate that OpenKruise does not have (OpenKruise's gates are in kinds/gates.py)."""
    settings: type[msgspec.Struct] = NoSettings
    """Type of the settings: a frozen Struct, in which each field declares where its value comes from
    (pods/settings.py).
    """
    reviews: Reviews = Reviews()
    stored: StoredSpec | None = None
    """Validation of stored objects by the controller; None if it accepts every object that is readable."""
    amounts: tuple[Amount, ...] = ()
    """Fields that limit a number of pods or nodes, as a number or a percentage. With the value 0 they get a warning."""
    derived: tuple[DerivedName, ...] = ()
    """Names and label values that are derived from the object's name and can be too long."""
    control: Control | None = None
    rights: tuple[Right, ...] = ()
    """Permissions of the controller, in addition to the permissions of all controllers (manager/roles.py)."""
    rights_by_gate: Mapping[str, tuple[Right, ...]] = {}
    """Name of a feature gate → further permissions of the controller if the gate is on."""
    lends: tuple[Right, ...] | None = None
    """Permissions that the manager uses on behalf of the author of a namespaced object, even if the author does not
    have them. A default role of Kubernetes gets permission to write the kind only if it includes all these permissions
    (manager/roles.py). None if no default role gets it.
    """
    insight: Insight | None = None
    """Facts for the commands explain, plan and simulate, in addition to the plan."""
    shown: Shown | None = None
    """Presentation of the kind by kubectl kruise, Argo CD, state metrics and the dashboard."""
    pods: PodSteps | None = None
    """Steps of pod admission; None if the kind has none."""

    @property
    def name(self) -> str:
        """The kind in lower case. For a feature without a kind of its own: the name of its controller or of its
        steps.
        """
        if not self.versions and self.control is not None:
            return self.control.name
        if not self.versions and self.pods is not None:
            return self.pods.name
        return self.resource.kind.lower()

    def is_enabled(self, gates: Callable[[str], bool]) -> bool:
        """Whether these feature gates enable the kind."""
        return all(gates(name) for name in self.gates) and (
            not self.any_gate or any(gates(name) for name in self.any_gate)
        )

    def build_crd(self, schema_of: SpecSchema) -> Document | None:
        """Return the CustomResourceDefinition; None if the kind has no own CRD."""
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        return (
            build_definition(self.resource, versions=versions, short_names=self.short_names)
            if versions
            else None
        )

    def build_blank_status(self, schema_of: SpecSchema) -> Document:
        """Return the status of an object that no controller has reconciled yet. It contains only the required fields of
        the stored version, as zeros and empty strings.
        """
        versions = self.versions(schema_of) if callable(self.versions) else self.versions
        roots = [version.root for version in versions if version.storage]
        status = get_type_hints(roots[0], include_extras=True).get("status") if roots else None
        options = [
            arg for arg in get_args(status) or (status,) if isinstance(arg, type) and arg is not type(None)
        ]
        document: Document = msgspec.json.decode(_build_blank_object(options[0])) if options else {}
        return document

    @property
    def spec_type(self) -> Any:
        """Type of `spec` in the hub version, for kinds that embed this spec."""
        assert not callable(self.versions), f"{self.resource.kind} embeds other kinds itself"
        root = next(version.root for version in self.versions if version.storage)
        return get_type_hints(root, include_extras=True)["spec"]


@cache
def _build_blank_object(cls: type) -> bytes:
    """Return the smallest object of a type as JSON. Every caller decodes its own copy, which is cheap."""
    return msgspec.json.encode(blank_of(build_structural_schema(cls)))


AGE: Final = Column("AGE", "date", ".metadata.creationTimestamp")
"""The column AGE, which every list has."""

POD_TEMPLATE: Final = (
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
)
"""Columns of `-o wide` about the pod template."""


def make_two_versions(
    hub: Any, spoke: Any = None, *, columns: tuple[Column, ...] = (), scale: ScalePaths | None = None
) -> tuple[Version, ...]:
    """Return the versions v1alpha1 and v1beta1; v1beta1 is stored. `hub` and `spoke` are the types of the whole object
    in v1beta1 and v1alpha1. Without `spoke`, both versions have the same fields.
    """
    old = Version(name="v1alpha1", root=spoke or hub, columns=columns, scale=scale)
    return old, Version(name="v1beta1", root=hub, storage=True, columns=columns, scale=scale)


POD_OWNER_LENDS: Final = (make_right(PODS, "create", "delete", "patch"),)
"""Value of `Kind.lends` for kinds whose objects define pods."""


def list_workload_rights(resource: Resource) -> tuple[Right, ...]:
    """Return the permissions that the controller of a workload needs for its own objects: to read them, to write their
    status, and to set owner references to them.
    """
    return (
        make_right(resource, *READ, why=f"{resource.kind}: to watch its objects"),
        make_right(
            resource,
            "patch",
            subresource="status",
            why=f"{resource.kind}: to report the status of its objects",
        ),
        # The admission plugin OwnerReferencesPermissionEnforcement requires this permission for owner references with
        # blockOwnerDeletion.
        make_right(
            resource,
            "update",
            subresource="finalizers",
            why=f"{resource.kind}: to set owner references with blockOwnerDeletion",
        ),
    )
