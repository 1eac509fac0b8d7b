"""The workloads of subsets: their kinds, and the view of one workload.

bytes of a StatefulSet, Advanced StatefulSet, CloneSet or Deployment ──▶ project_workload() ──▶ SubsetWorkload

Pure. The view keeps the spec only of workloads with a subset label. For all others it keeps only the owner.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, STATEFUL_SETS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import CLONE_SETS, STATEFUL_SETS_OF_KRUISE
from pykruise.pods.reasons import REPEATED, Code
from pykruise.pods.view.pod_view import ControllerView
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import READY
from pykruise.runtime.reasons import Reason
from pykruise.runtime.views import BY_CONTROLLER, ORPHANS, Views

SUBSET_LABEL: Final = "apps.kruise.io/subset-name"
"""Label of a workload and its pods: name of the subset."""

REVISION_LABEL: Final = "apps.kruise.io/controller-revision-hash"
"""Label of a workload and its pods: name of the revision of the UnitedDeployment."""

PATCH_ANNOTATION: Final = "apps.kruise.io/subset-patch"
"""Annotation of a workload: the patch of its subset, as JSON; empty when there is no patch."""

RESERVED_LABEL: Final = "apps.kruise.io/united-deployment-reserved-pod"
"""Label of a pod in the mode RESERVE (schedulability.py): `true` while the pod is reserved, which means that other
subsets replace it; otherwise `false`.
"""

STATEFUL_SET: Final = "statefulSetTemplate"
ADVANCED_STATEFUL_SET: Final = "advancedStatefulSetTemplate"
CLONE_SET: Final = "cloneSetTemplate"
DEPLOYMENT: Final = "deploymentTemplate"

TEMPLATES: Final[Mapping[str, Resource]] = {
    STATEFUL_SET: STATEFUL_SETS,
    ADVANCED_STATEFUL_SET: STATEFUL_SETS_OF_KRUISE,
    CLONE_SET: CLONE_SETS,
    DEPLOYMENT: DEPLOYMENTS,
}
"""Field of `spec.template` → kind of the workload."""

TEMPLATE_OF: Final[Mapping[GroupKind, str]] = {
    GroupKind(resource.group, resource.kind): name for name, resource in TEMPLATES.items()
}

DEFAULT_UNAVAILABLE: Final[Mapping[str, Any]] = {
    STATEFUL_SET: None,
    ADVANCED_STATEFUL_SET: 1,
    CLONE_SET: "20%",
    DEPLOYMENT: "25%",
}
"""Default of maxUnavailable by template: the default of each kind."""


class SubsetWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload of a subset. Its counts are numbers of pods, from the workload's spec and status."""

    template: str
    """Field of `spec.template` that creates workloads of this kind."""
    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    observed_generation: int = 0
    created_at: Instant = 0.0
    is_deleting: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owners: tuple[Document, ...] = ()
    """`metadata.ownerReferences`."""
    controller: ControllerView | None = None
    spec: Document = {}
    replicas: int = 1
    status_replicas: int = 0
    ready: int = 0
    waits: Reason | None = None
    """Reason why the workload waits for a person, from its own condition."""
    status_revisions: tuple[str, str] = ("", "")
    """`status.currentRevision` and `status.updateRevision`."""

    @property
    def key(self) -> Key:
        """Namespace and name of the workload."""
        return Key(self.namespace, self.name)

    @property
    def resource(self) -> Resource:
        """Resource of the workload."""
        return TEMPLATES[self.template]

    @property
    def subset(self) -> str:
        """Name of its subset; empty: it has no subset label."""
        return self.labels.get(SUBSET_LABEL, "")

    @property
    def revision(self) -> str:
        """Name of the revision from which it was created or last updated."""
        return self.labels.get(REVISION_LABEL, "")

    @property
    def is_observed(self) -> bool:
        """Whether its status reflects its current spec."""
        return self.observed_generation >= self.generation


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: msgspec.Raw = msgspec.Raw(b"[]")
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct):
    replicas: int | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    conditions: tuple[_Condition, ...] | None = None
    observed_generation: int | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None


class _Workload(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Workload).decode
_decode_owners = msgspec.json.Decoder(list[Document] | None).decode
_decode_spec = msgspec.json.Decoder(_Spec | None).decode


def project_workload(raw: bytes | msgspec.Raw, template: str) -> SubsetWorkload:
    """Return the view of a workload of this template's kind. Raises msgspec.DecodeError for other documents."""
    workload = _decode(raw)
    meta, status = workload.metadata, workload.status or _Status()
    owners = tuple(_decode_owners(workload.metadata.owner_references) or ())
    replicas = (_decode_spec(workload.spec) or _Spec()).replicas
    labels = meta.labels or {}
    keeps = bool(labels.get(SUBSET_LABEL))
    return SubsetWorkload(
        template=template,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        observed_generation=status.observed_generation or 0,
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        is_deleting=meta.deletion_timestamp is not None,
        labels=labels,
        annotations=(meta.annotations or {}) if keeps else {},
        owners=owners,
        controller=_find_controller(owners),
        spec=decode(workload.spec) if keeps else {},
        replicas=1 if replicas is None else replicas,
        status_replicas=status.replicas or 0,
        ready=status.ready_replicas or 0,
        waits=_find_wait(status.conditions or (), meta.name),
        status_revisions=(status.current_revision or "", status.update_revision or ""),
    )


def _find_wait(conditions: tuple[_Condition, ...], name: str) -> Reason | None:
    """Find a reason to wait in a workload's conditions. The condition ReplicaFailure of a Deployment reports that pods
    could not be created. If the workload's condition Ready is True, its other conditions are ignored: they may report
    terminating pods that do not end, but the successors of these pods serve.
    """
    if any(condition.type == READY and condition.status == "True" for condition in conditions):
        return None
    for condition in conditions:
        if condition.status == "True" and condition.type == WAITING and condition.reason in REPEATED:
            return Reason(condition.reason, f"{name}: {condition.message or ''}", _SEE)
        if condition.status == "True" and condition.type == "ReplicaFailure":
            return Reason(Code.WRITE_FAILED, f"{name}: {condition.message or ''}", _SEE)
    return None


_SEE: Final = "correct the cause that the workload reports"


def _find_controller(owners: tuple[Document, ...]) -> ControllerView | None:
    for entry in owners:
        owner = msgspec.convert(entry, _Owner)
        if owner.controller:
            group = owner.api_version.rpartition("/")[0]
            return ControllerView(group=group, kind=owner.kind, name=owner.name, uid=owner.uid)
    return None


def _build_views(template: str, resource: Resource) -> Views[SubsetWorkload]:
    """Build views with a separate cache. The workload's own controller may have another cache of the same objects."""
    return Views[SubsetWorkload](
        resource=resource,
        projector=lambda: lambda raw: project_workload(raw, template),
        indexes={
            BY_CONTROLLER: lambda workload: (workload.controller.uid,) if workload.controller else (),
            ORPHANS: lambda workload: (
                (workload.namespace,) if workload.controller is None and workload.subset else ()
            ),
        },
        is_apart=True,
    )


WORKLOAD_VIEWS: Final[Mapping[str, Views[SubsetWorkload]]] = {
    template: _build_views(template, resource) for template, resource in TEMPLATES.items()
}
"""Views of all workloads of a kind, with any owner, by field of `spec.template`."""


def type_of(template: str) -> str:
    """Name of the kind for people, because two kinds are called StatefulSet."""
    return "AdvancedStatefulSet" if template == ADVANCED_STATEFUL_SET else TEMPLATES[template].kind
