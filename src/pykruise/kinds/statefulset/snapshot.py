"""Everything a decision about one StatefulSet needs, as one value.

bytes of a StatefulSet ──▶ project_statefulset() ──▶ StatefulSetView (what a cache keeps)
views from caches + now ──▶ build_snapshot() ──▶ Snapshot ──▶ plan.py

Pure. Claims are looked up by name: a StatefulSet's claims carry neither an id nor a managing owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds.statefulset.limits import limits_of
from pykruise.kinds.statefulset.ordinals import NO_ORDINAL, reserved_of, split_name, wanted_ordinals
from pykruise.kinds.statefulset.types import StatefulSetSpec, StatefulSetStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import decode
from pykruise.kube.selectors import Selector
from pykruise.kube.typed_documents import read
from pykruise.pods.claims import ClaimView, claim_name
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.revisions import RevisionView, candidate
from pykruise.pods.views import PodView
from pykruise.pods.workloads import WorkloadView, selector_of, sort_out, workload_fields

__all__ = [
    "Settings",
    "Snapshot",
    "StatefulSetView",
    "StorageClassView",
    "build_snapshot",
    "claim_names_of",
    "project_statefulset",
    "project_storage_class",
    "read_spec",
    "start_of",
]

_RAW = frozenset({"template", "volumeClaimTemplates"})
"""Fields that stay documents."""


class Settings(GateSettings, frozen=True, kw_only=True):
    """Feature gates that change decisions about StatefulSets; defaults are the original's."""

    auto_delete_claims: bool = True
    """Gate StatefulSetAutoDeletePVC: persistentVolumeClaimRetentionPolicy is heeded."""
    start_ordinal: bool = False
    """Gate StatefulSetStartOrdinal: ordinals.start is heeded."""
    auto_resize_claims: bool = False
    """Gate StatefulSetAutoResizePVCGate: claims grow with their templates."""
    pod_index_label: bool = True
    """Gate PodIndexLabel."""
    preparing_update_as_update: bool = False
    """Gate PreparingUpdateAsUpdate: pods in PreparingUpdate count as updated in the choice of others."""
    pre_download: bool = False
    """Gates PreDownloadImageForInPlaceUpdate and KruiseDaemon: new images are pulled ahead of an update."""


class StatefulSetView(WorkloadView, frozen=True, kw_only=True):
    """One StatefulSet as the cache keeps it."""

    spec: StatefulSetSpec | None
    """None: it cannot be read; `problem` says why."""
    selector: Selector | None = None
    """None: it cannot be read."""
    status: StatefulSetStatus = StatefulSetStatus()

    def may_own(self, pod: PodView) -> bool:
        """Whether labels and name are those of a pod of this set."""
        selector = self.selector
        return (
            selector is not None
            and not selector.is_empty
            and selector.matches(pod.labels)
            and split_name(pod.name)[0] == self.name
        )


def project_statefulset(raw: bytes | msgspec.Raw) -> StatefulSetView:
    """The view of a StatefulSet's JSON text (v1beta1).

    A spec that does not fit the types gives a view with `problem`, so that its owner is told and the watch
    goes on. Raises ValueError only for something that is no Kubernetes object.
    """
    document = decode(raw)
    spec, problem = read_spec(document.get("spec") or {})
    status, _ = read(document.get("status") or {}, StatefulSetStatus, path="status")
    return StatefulSetView(
        **workload_fields(document),
        spec=spec,
        problem=problem,
        selector=selector_of(spec.selector) if spec else None,
        status=status or StatefulSetStatus(),
        candidate=candidate(spec.template) if spec else None,
    )


def read_spec(spec: Mapping[str, Any]) -> tuple[StatefulSetSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    return read(spec, StatefulSetSpec, path="spec", raw=_RAW)


class StorageClassView(msgspec.Struct, frozen=True, kw_only=True):
    """A StorageClass as far as growing claims hang on it."""

    namespace: str = ""
    name: str
    uid: str = ""
    resource_version: int = 0
    allows_expansion: bool = False


class _ClassMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""


class _Class(msgspec.Struct, rename="camel"):
    metadata: _ClassMeta
    allow_volume_expansion: bool | None = None


_decode_class = msgspec.json.Decoder(_Class).decode


def project_storage_class(raw: bytes | msgspec.Raw) -> StorageClassView:
    """A StorageClass's view. Raises msgspec.DecodeError for what is none."""
    found = _decode_class(raw)
    meta = found.metadata
    return StorageClassView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        allows_expansion=found.allow_volume_expansion is True,
    )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one StatefulSet at one instant."""

    statefulset: StatefulSetView
    pods: Sequence[PodView]
    """All pods controlled by it, in any order."""
    orphans: Sequence[PodView] = ()
    """Pods of the namespace that nobody controls, with labels and names of its pods."""
    revisions: Sequence[RevisionView]
    """Its own, oldest first."""
    orphaned_revisions: Sequence[RevisionView] = ()
    """Of nobody, with labels that match."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Further revisions whose names could be in the way, by name."""
    claims: Mapping[str, ClaimView] = {}
    """Claims that its pods mount or would mount, by name."""
    storage_classes: Mapping[str, StorageClassView] = {}
    """By name; looked at only to let claims grow."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs controlled by it; None: images are not pulled ahead here."""
    now: Instant
    settings: Settings = Settings()


def build_snapshot(
    statefulset: StatefulSetView,
    *,
    pods: Iterable[PodView],
    revisions: Iterable[RevisionView],
    now: Instant,
    claim: Callable[[str], ClaimView | None],
    orphans: Iterable[PodView] = (),
    storage_classes: Iterable[StorageClassView] = (),
    pull_jobs: Iterable[PullJobView] | None = None,
    settings: Settings | None = None,
) -> Snapshot:
    """`pods`: those whose controller is the set (by uid). `orphans`, `revisions`: all of its namespace.

    `claim` looks a claim of the namespace up by its name.
    """
    settings = settings or Settings()
    pods = tuple(pods)
    adoptable = [pod for pod in orphans if not pod.is_deleting and statefulset.may_own(pod)]
    around = sort_out(revisions, statefulset, selector=statefulset.selector)
    names = claim_names_of(statefulset, [*pods, *adoptable], settings=settings)
    return Snapshot(
        statefulset=statefulset,
        pods=pods,
        orphans=adoptable,
        revisions=around.own,
        orphaned_revisions=around.free,
        other_revisions=around.others,
        claims={name: found for name in names if (found := claim(name)) is not None},
        storage_classes={one.name: one for one in storage_classes},
        pull_jobs=None if pull_jobs is None else tuple(pull_jobs),
        now=now,
        settings=settings,
    )


def claim_names_of(
    statefulset: StatefulSetView, pods: Iterable[PodView], *, settings: Settings
) -> Iterator[str]:
    """Names of all claims of pods that are there or should be."""
    spec = statefulset.spec
    if spec is None or not spec.volume_claim_templates:
        return
    ordinals = {split_name(pod.name)[1] for pod in pods} - {NO_ORDINAL}
    ordinals |= set(
        wanted_ordinals(
            start=start_of(spec, settings=settings),
            replicas=limits_of(spec)[0].replicas,
            reserved=reserved_of(spec.reserve_ordinals or ()),
        )
    )
    for template in spec.claim_names:
        for ordinal in ordinals:
            yield claim_name(template, owner=statefulset.name, suffix=str(ordinal))


def start_of(spec: StatefulSetSpec, *, settings: Settings) -> int:
    """The first ordinal; 0 unless the gate StatefulSetStartOrdinal is on."""
    return max(spec.ordinals.start, 0) if settings.start_ordinal and spec.ordinals else 0
