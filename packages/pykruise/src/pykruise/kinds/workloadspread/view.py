"""A WorkloadSpread as stored in caches: its typed spec and status, its target, and the pods that it selects.

bytes of a WorkloadSpread ──▶ SPREAD_VIEWS ──▶ SpreadView ──▶ admission of pods, snapshot of the controller

Pure. If an object cannot be read, `problem` contains the reason, and the object is ignored.
"""

from typing import Final

from pykruise.kinds.workloadspread.types import (
    WORKLOAD_SPREADS,
    Subset,
    SubsetStatus,
    WorkloadSpreadSpec,
    WorkloadSpreadStatus,
)
from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.kube.values.selectors import EVERYTHING, Selector
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader, selector_of
from pykruise.runtime.views import BY_NAMESPACE, Views

RAW: Final = frozenset({"patch"})
"""Fields that are kept as untyped JSON, including nulls: a null in a patch deletes a field."""

ADAPTIVE: Final = "Adaptive"
STATEFUL_SET: Final = "StatefulSet"
_WITH_COSTS: Final = frozenset({"CloneSet", "Deployment", "ReplicaSet"})

BY_TARGET: Final = "target"
"""Index of WorkloadSpreads: namespace, kind and name of the workload."""


def target_of(spec: WorkloadSpreadSpec) -> tuple[GroupKind, str] | None:
    """Return group, kind and name of the target; None: the reference has an invalid apiVersion or kind, or no name."""
    reference = spec.target_ref
    kind = group_kind(reference.api_version, reference.kind)
    return (kind, reference.name) if kind is not None and reference.name else None


class SpreadView(WorkloadView, frozen=True, kw_only=True):
    """A WorkloadSpread as stored in the cache."""

    spec: WorkloadSpreadSpec | None
    """None: the spec cannot be read, and `problem` contains the reason."""
    status: WorkloadSpreadStatus = WorkloadSpreadStatus()
    selector: Selector | None = EVERYTHING
    """Selector of the target's pods. None: the selector cannot be read, and matches no pod."""

    @property
    def target(self) -> tuple[GroupKind, str] | None:
        """Group, kind and name of the workload; None: the spec or its apiVersion cannot be read."""
        return target_of(self.spec) if self.spec is not None else None

    @property
    def subsets(self) -> list[Subset]:
        """Subsets in the order of the spec; empty when the spec cannot be read."""
        return self.spec.subsets if self.spec is not None else []

    @property
    def is_plain(self) -> bool:
        """Whether the spec has exactly one subset, without a limit: every pod belongs to this subset, and no pods are
        counted.
        """
        return [subset.max_replicas for subset in self.subsets] == [None]

    @property
    def goes_by_ordinal(self) -> bool:
        """Whether the ordinal of a pod determines its subset, as for StatefulSets."""
        target = self.target
        return target is not None and target[0].kind == STATEFUL_SET

    @property
    def has_deletion_costs(self) -> bool:
        """Whether the workload's controller reads deletion costs when it scales in."""
        target = self.target
        return target is not None and target[0].kind in _WITH_COSTS

    def is_older_than_it(self, pod: PodView) -> bool:
        """Whether the pod is older than the WorkloadSpread. Times are in whole seconds; a pod of the same second is not
        older.
        """
        return pod.created_at is not None and pod.created_at < self.created_at

    @property
    def replicas_paths(self) -> list[str]:
        """Paths of the workload's replicas in the filter; empty when there are none."""
        filtered = self.spec.target_filter if self.spec is not None else None
        return (filtered.replicas_path_list if filtered is not None else None) or []

    @property
    def reschedule_after_s(self) -> int:
        """Age in seconds at which a pod that finds no node is moved; 0: never."""
        strategy = self.spec.schedule_strategy if self.spec is not None else None
        if strategy is None or strategy.type != ADAPTIVE or strategy.adaptive is None:
            return 0
        return max(strategy.adaptive.reschedule_critical_seconds or 0, 0)

    def find_subset(self, name: str) -> Subset | None:
        """Return the subset of this name."""
        return next((subset for subset in self.subsets if subset.name == name), None)

    def list_entries(self, version: str) -> list[SubsetStatus]:
        """Return the stored entries of the subsets for pods of this version."""
        return (self.status.versioned_subset_statuses or {}).get(version) or []


read_spec: Final = make_spec_reader(WorkloadSpreadSpec, raw=RAW)


def _derive_selector(spec: WorkloadSpreadSpec, _: Document) -> dict[str, Selector | None]:
    wanted = spec.target_filter.selector if spec.target_filter is not None else None
    return {"selector": EVERYTHING if wanted is None else selector_of(wanted)}


def _index_by_target(spread: SpreadView) -> tuple[tuple[str, GroupKind, str], ...]:
    target = spread.target
    return ((spread.namespace, *target),) if target is not None and not spread.is_deleting else ()


SPREAD_VIEWS: Final = Views[SpreadView](
    resource=WORKLOAD_SPREADS,
    projector=lambda: Projector(
        SpreadView, read_spec=read_spec, status=WorkloadSpreadStatus, derived=_derive_selector
    ),
    indexes={BY_TARGET: _index_by_target, BY_NAMESPACE: lambda spread: (spread.namespace,)},
)
