"""Everything a decision about one UnitedDeployment needs, as one value.

bytes of a UnitedDeployment ──▶ UNITED_VIEWS ──▶ UnitedView (what a cache keeps)
UnitedView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py

The name of a workload that is missing is chosen here, the same each time: what was made already, and is not seen yet,
is not made twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from pykruise.kinds.uniteddeployment.conversion import speaks_newer_dialect
from pykruise.kinds.uniteddeployment.revisions import as_own, candidate_of
from pykruise.kinds.uniteddeployment.types import (
    UNITED_DEPLOYMENTS,
    Subset,
    UnitedDeploymentSpec,
    UnitedDeploymentStatus,
)
from pykruise.kinds.uniteddeployment.workload_documents import workload_name
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
from pykruise.plans.workloads import revisions_around
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import CLAIMS, POD_TEMPLATE, Parts
from pykruise.pods.template.typed_parts import read_spec as read_open
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import Candidate, RevisionView
from pykruise.pods.workload.views import OwnRevisions, Projector, WorkloadView, sort_out
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views

_RAW: Final = frozenset({"template", "patch"})
"""Fields that stay documents, nulls and all."""

PARTS: Final[Parts] = {
    f"template.{name}.{field}": kind
    for name in TEMPLATES
    for field, kind in (
        ("metadata", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("spec.template", POD_TEMPLATE),
        ("spec.volumeClaimTemplates", CLAIMS),
    )
}
"""Parts of the templates that are read as what Kubernetes has there."""

REPLICA_SET_VIEWS: Final = TARGET_VIEWS[REPLICA_SET]


class UnitedSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Feature gates that change how UnitedDeployments are reviewed. None changes decisions about them."""


class UnitedView(WorkloadView, frozen=True, kw_only=True):
    """One UnitedDeployment as the cache keeps it."""

    spec: UnitedDeploymentSpec | None
    """None: it cannot be read; `problem` says why."""
    status: UnitedDeploymentStatus = UnitedDeploymentStatus()

    @property
    def data_version(self) -> str:
        """The version in which its revisions are written: the stored one, with a template of the released dialect."""
        stored = stored_version_of(self.annotations, hub=UNITED_DEPLOYMENTS.version)
        return UNITED_DEPLOYMENTS.version if speaks_newer_dialect(self.annotations) else stored

    @property
    def template(self) -> str:
        """The field of `spec.template` that is set; empty: none, or more than one."""
        given = given_templates(self.spec) if self.spec is not None else {}
        return next(iter(given)) if len(given) == 1 else ""


def given_templates(spec: UnitedDeploymentSpec) -> dict[str, Document]:
    """The templates that are set, by their field."""
    given = msgspec.to_builtins(spec.template) if spec.template is not None else {}
    return {name: given[name] for name in TEMPLATES if given.get(name) is not None}


def read_spec(spec: Mapping[str, Any]) -> tuple[UnitedDeploymentSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    given = spec.get("template")
    if isinstance(given, Mapping):
        spec = {**spec, "template": {name: _with_spec(value) for name, value in given.items()}}
    return read_open(spec, UnitedDeploymentSpec, raw=_RAW, parts=PARTS)


def _with_spec(template: Any) -> Any:
    """Null is an empty spec: its template is the only part of the object whose nulls are kept."""
    if isinstance(template, Mapping) and "spec" in template and template["spec"] is None:
        return {**template, "spec": {}}
    return template


UNITED_VIEWS: Final = Views[UnitedView](
    resource=UNITED_DEPLOYMENTS,
    projector=lambda: Projector(
        UnitedView,
        read_spec=read_spec,
        status=UnitedDeploymentStatus,
        candidate_of=lambda spec: candidate_of(given_templates(spec)),
    ),
    indexes={BY_NAMESPACE: lambda united: (united.namespace,)},
)


class UnitedSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one UnitedDeployment at one instant."""

    united: UnitedView
    workloads: Sequence[SubsetWorkload]
    """All that it controls, of every kind, oldest first."""
    orphans: Sequence[SubsetWorkload] = ()
    """Orphans of the template's kind that name a subset, oldest first."""
    subset_pods: Mapping[str, Sequence[PodView]] = {}
    """Pods by the UID of their workload, finished and terminating ones too, by name."""
    revisions: OwnRevisions
    names: Mapping[str, str] = {}
    """Subset without a workload to the name of its future workload."""
    is_served: bool = True
    """Whether the API server knows the kind of its workloads."""
    now: Instant
    settings: UnitedSettings = UnitedSettings()


class ReadableUnitedView(UnitedView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: UnitedDeploymentSpec
    candidate: Candidate


class ReadableUnitedDeployment(UnitedSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    united: ReadableUnitedView


def is_readable(snapshot: UnitedSnapshot) -> TypeGuard[ReadableUnitedDeployment]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.united.spec is not None and not snapshot.refused


async def snapshot(view: UnitedView, read: Read[UnitedSettings]) -> UnitedSnapshot:
    """The UnitedDeployment with its workloads and their pods, as they are known now. Waits for the first lists of the
    workloads' kinds."""
    served = {name for name, views in WORKLOAD_VIEWS.items() if await read.wait_served(views)}
    workloads = _oldest_first(
        workload for name in served for workload in read.owned(WORKLOAD_VIEWS[name], view.uid)
    )
    own = view.template
    orphans = read.orphans(WORKLOAD_VIEWS[own], view.namespace) if own in served else ()
    return UnitedSnapshot(
        united=view,
        workloads=workloads,
        orphans=_oldest_first(iter(orphans)),
        subset_pods={workload.uid: tuple(_pods_of(workload, read)) for workload in workloads},
        revisions=await _revisions(view, read),
        names=dict(_names(view, view.spec.subsets, workloads, read)) if view.spec and own in served else {},
        is_served=own in served,
        now=read.now(),
        settings=read.settings,
    )


def _oldest_first(workloads: Iterator[SubsetWorkload]) -> list[SubsetWorkload]:
    return sorted(workloads, key=lambda workload: (workload.created_at, workload.name, workload.template))


def _pods_of(workload: SubsetWorkload, read: Read[UnitedSettings]) -> Iterator[PodView]:
    """Pods by owner: no pod is adopted or released here."""
    owners = [workload.uid]
    if workload.template == DEPLOYMENT:
        owners = [target.uid for target in read.owned(REPLICA_SET_VIEWS, workload.uid)]
    pods = [pod for uid in owners for pod in read.owned(POD_VIEWS, uid)]
    return iter(sorted(pods, key=lambda pod: pod.name))


async def _revisions(view: UnitedView, read: Read[UnitedSettings]) -> OwnRevisions:
    """Its own by owner: those that OpenKruise stored for CloneSets have no labels to select them by."""
    around = sort_out(await revisions_around(view, read), view, selector=None)

    def own(revisions: Sequence[RevisionView]) -> list[RevisionView]:
        return [as_own(revision) for revision in revisions]

    return OwnRevisions(
        own=own(around.own),
        free=[],
        others={name: as_own(revision) for name, revision in around.others.items()},
    )


def _names(
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
            name = workload_name(view.name, subset.name, uid=view.uid, attempt=attempt)
            if read.get(views, Key(view.namespace, name)) is None:
                yield subset.name, name
                break
