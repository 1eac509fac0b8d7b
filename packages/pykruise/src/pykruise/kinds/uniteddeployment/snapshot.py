"""Everything that a decision about one UnitedDeployment needs, as one value.

bytes of a UnitedDeployment ──▶ UNITED_VIEWS ──▶ UnitedView (stored in the cache)
UnitedView + Read ──▶ read_snapshot() ──▶ UnitedSnapshot ──▶ plan.py

This module chooses the name of a missing workload. The name is the same in each reconcile, so a workload that was
created but is not in the cache yet is not created twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from pykruise.kinds.uniteddeployment.conversion import is_newer_dialect
from pykruise.kinds.uniteddeployment.revisions import candidate_of, convert_revision
from pykruise.kinds.uniteddeployment.types import (
    UNITED_DEPLOYMENTS,
    Subset,
    UnitedDeploymentSpec,
    UnitedDeploymentStatus,
)
from pykruise.kinds.uniteddeployment.workload_documents import format_workload_name
from pykruise.kinds.uniteddeployment.workloads import (
    DEPLOYMENT,
    TEMPLATES,
    WORKLOAD_VIEWS,
    SubsetWorkload,
)
from pykruise.kube.client.stored_versions import stored_version_of
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.plans.stored_values import Judged
from pykruise.plans.targets import REPLICA_SET, TARGET_VIEWS
from pykruise.plans.views import POD_VIEWS
from pykruise.plans.workloads import list_revisions_around
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import CLAIMS, POD_TEMPLATE, Parts
from pykruise.pods.template.typed_parts import read_spec as read_open
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import Candidate, RevisionView
from pykruise.pods.workload.views import OwnRevisions, Projector, WorkloadView, sort_out
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views

_RAW: Final = frozenset({"template", "patch"})
"""Fields that are kept as untyped JSON, including nulls."""

PARTS: Final[Parts] = {
    f"template.{name}.{field}": kind
    for name in TEMPLATES
    for field, kind in (
        ("metadata", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("spec.template", POD_TEMPLATE),
        ("spec.volumeClaimTemplates", CLAIMS),
    )
}
"""Parts of the templates that are parsed as Kubernetes types."""

REPLICA_SET_VIEWS: Final = TARGET_VIEWS[REPLICA_SET]


class UnitedSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Feature gates that change the reviews of UnitedDeployments. No gate changes decisions about them."""


class UnitedView(WorkloadView, frozen=True, kw_only=True):
    """A UnitedDeployment as stored in the cache."""

    spec: UnitedDeploymentSpec | None
    """None: the spec cannot be read, and `problem` contains the reason."""
    status: UnitedDeploymentStatus = UnitedDeploymentStatus()

    @property
    def data_version(self) -> str:
        """API version in which the object's revisions are written: for the newer dialect the hub version, otherwise the
        stored version.
        """
        stored = stored_version_of(self.annotations, hub=UNITED_DEPLOYMENTS.version)
        return UNITED_DEPLOYMENTS.version if is_newer_dialect(self.annotations) else stored

    @property
    def template(self) -> str:
        """Field of `spec.template` that is set; empty: no field, or more than one."""
        given = list_given_templates(self.spec) if self.spec is not None else {}
        return next(iter(given)) if len(given) == 1 else ""


def list_given_templates(spec: UnitedDeploymentSpec) -> dict[str, Document]:
    """Return the templates that are set, by field."""
    given = msgspec.to_builtins(spec.template) if spec.template is not None else {}
    return {name: given[name] for name in TEMPLATES if given.get(name) is not None}


def read_spec(spec: Mapping[str, Any]) -> tuple[UnitedDeploymentSpec | None, str]:
    """Parse the spec, or return None and `<path>: <problem>`. A null field counts as absent."""
    given = spec.get("template")
    if isinstance(given, Mapping):
        spec = {**spec, "template": {name: _replace_null_spec(value) for name, value in given.items()}}
    return read_open(spec, UnitedDeploymentSpec, raw=_RAW, parts=PARTS)


def _replace_null_spec(template: Any) -> Any:
    """Replace a null spec of the workload with an empty spec: the code accepts nulls only inside of the spec."""
    if isinstance(template, Mapping) and "spec" in template and template["spec"] is None:
        return {**template, "spec": {}}
    return template


UNITED_VIEWS: Final = Views[UnitedView](
    resource=UNITED_DEPLOYMENTS,
    projector=lambda: Projector(
        UnitedView,
        read_spec=read_spec,
        status=UnitedDeploymentStatus,
        candidate_of=lambda spec: candidate_of(list_given_templates(spec)),
    ),
    indexes={BY_NAMESPACE: lambda united: (united.namespace,)},
)


class UnitedSnapshot(Judged, frozen=True, kw_only=True):
    """The state of the world for one UnitedDeployment at one instant."""

    united: UnitedView
    workloads: Sequence[SubsetWorkload]
    """All workloads that the UnitedDeployment controls, of every kind, oldest first."""
    orphans: Sequence[SubsetWorkload] = ()
    """Orphans of the template's kind that name a subset, oldest first."""
    subset_pods: Mapping[str, Sequence[PodView]] = {}
    """Pods by the UID of their workload, including finished and terminating pods, sorted by name."""
    revisions: OwnRevisions
    names: Mapping[str, str] = {}
    """Name of the future workload of each subset that has no workload."""
    is_served: bool = True
    """Whether the API server serves the kind of the template's workloads."""
    now: Instant
    settings: UnitedSettings = UnitedSettings()


class ReadableUnitedView(UnitedView, frozen=True, kw_only=True):
    """A UnitedView with a readable spec. Only a type: no object is created from this class."""

    spec: UnitedDeploymentSpec
    candidate: Candidate


class ReadableUnitedDeployment(UnitedSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    united: ReadableUnitedView


def is_readable(snapshot: UnitedSnapshot) -> TypeGuard[ReadableUnitedDeployment]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.united.spec is not None and not snapshot.refused


async def read_snapshot(view: UnitedView, read: Read[UnitedSettings]) -> UnitedSnapshot:
    """Read the UnitedDeployment with its workloads and their pods from the caches. Waits for the first lists of the
    workloads' kinds.
    """
    served = {name for name, views in WORKLOAD_VIEWS.items() if await read.wait_served(views)}
    workloads = _sort_by_age(
        workload for name in served for workload in read.list_owned(WORKLOAD_VIEWS[name], view.uid)
    )
    own = view.template
    orphans = read.list_orphans(WORKLOAD_VIEWS[own], view.namespace) if own in served else ()
    return UnitedSnapshot(
        united=view,
        workloads=workloads,
        orphans=_sort_by_age(iter(orphans)),
        subset_pods={workload.uid: tuple(_list_pods_of_workload(workload, read)) for workload in workloads},
        revisions=await _read_revisions(view, read),
        names=dict(_choose_names(view, view.spec.subsets, workloads, read))
        if view.spec and own in served
        else {},
        is_served=own in served,
        now=read.now(),
        settings=read.settings,
    )


def _sort_by_age(workloads: Iterator[SubsetWorkload]) -> list[SubsetWorkload]:
    return sorted(workloads, key=lambda workload: (workload.created_at, workload.name, workload.template))


def _list_pods_of_workload(workload: SubsetWorkload, read: Read[UnitedSettings]) -> Iterator[PodView]:
    """Return the pods that the workload owns. This controller does not adopt or release pods."""
    owners = [workload.uid]
    if workload.template == DEPLOYMENT:
        owners = [target.uid for target in read.list_owned(REPLICA_SET_VIEWS, workload.uid)]
    pods = [pod for uid in owners for pod in read.list_owned(POD_VIEWS, uid)]
    return iter(sorted(pods, key=lambda pod: pod.name))


async def _read_revisions(view: UnitedView, read: Read[UnitedSettings]) -> OwnRevisions:
    """Return the revisions that the UnitedDeployment owns. Labels cannot select them: OpenKruise stores revisions of
    CloneSet templates without labels.
    """
    around = sort_out(await list_revisions_around(view, read), view, selector=None)

    def own(revisions: Sequence[RevisionView]) -> list[RevisionView]:
        return [convert_revision(revision) for revision in revisions]

    return OwnRevisions(
        own=own(around.own),
        free=[],
        others={name: convert_revision(revision) for name, revision in around.others.items()},
    )


def _choose_names(
    view: UnitedView,
    subsets: Iterable[Subset],
    workloads: Sequence[SubsetWorkload],
    read: Read[UnitedSettings],
) -> Iterator[tuple[str, str]]:
    views = WORKLOAD_VIEWS[view.template]
    present = {workload.subset for workload in workloads if workload.template == view.template}
    for subset in subsets:
        if subset.name in present:
            continue
        for attempt in range(100):
            name = format_workload_name(view.name, subset.name, uid=view.uid, attempt=attempt)
            if read.get(views, Key(view.namespace, name)) is None:
                yield subset.name, name
                break
