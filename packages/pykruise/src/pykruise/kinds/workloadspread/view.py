"""A WorkloadSpread as caches keep it: its typed spec and status, whom it is about, and which pods it means.

bytes of a WorkloadSpread ──▶ SPREAD_VIEWS ──▶ SpreadView ──▶ admission of pods, snapshot of the controller

Pure. What cannot be read is said in `problem`; such an object takes part in nothing.
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
from pykruise.pods.workload.views import Projector, WorkloadView, selector_of, spec_reader
from pykruise.runtime.views import BY_NAMESPACE, Views

RAW: Final = frozenset({"patch"})
"""Fields that stay documents, nulls and all: in a patch a null deletes."""

ADAPTIVE: Final = "Adaptive"
STATEFUL_SET: Final = "StatefulSet"

BY_TARGET: Final = "target"
"""Index of WorkloadSpreads: namespace, kind and name of the workload."""


def target_of(spec: WorkloadSpreadSpec) -> tuple[GroupKind, str] | None:
    """Group, kind and name of the target; None: its reference names none."""
    reference = spec.target_ref
    kind = group_kind(reference.api_version, reference.kind)
    return (kind, reference.name) if kind is not None and reference.name else None


class SpreadView(WorkloadView, frozen=True, kw_only=True):
    """One WorkloadSpread."""

    spec: WorkloadSpreadSpec | None
    """None: it cannot be read; `problem` says why."""
    status: WorkloadSpreadStatus = WorkloadSpreadStatus()
    selector: Selector | None = EVERYTHING
    """Selector of the target's pods that count. None: it cannot be read, and no pod is meant."""

    @property
    def target(self) -> tuple[GroupKind, str] | None:
        """Group, kind and name of the workload; None: the spec or its apiVersion cannot be read."""
        return target_of(self.spec) if self.spec is not None else None

    @property
    def subsets(self) -> list[Subset]:
        """Subsets in their order; empty when the spec is unreadable."""
        return self.spec.subsets if self.spec is not None else []

    @property
    def is_plain(self) -> bool:
        """One subset without a limit: every pod goes there, and nothing has to be counted for it."""
        return [subset.max_replicas for subset in self.subsets] == [None]

    @property
    def goes_by_ordinal(self) -> bool:
        """Pods of StatefulSets have their places by their numbers."""
        target = self.target
        return target is not None and target[0].kind == STATEFUL_SET

    def is_older_than_it(self, pod: PodView) -> bool:
        """Whether the pod was there before the WorkloadSpread. Times are in whole seconds: in its own second, no."""
        return pod.created_at is not None and pod.created_at < self.created_at

    @property
    def replicas_paths(self) -> list[str]:
        """Where the workload's replicas are, if the filter says so."""
        filtered = self.spec.target_filter if self.spec is not None else None
        return (filtered.replicas_path_list if filtered is not None else None) or []

    @property
    def reschedule_after_s(self) -> int:
        """Age at which a pod that finds no node is to move on; 0: never."""
        strategy = self.spec.schedule_strategy if self.spec is not None else None
        if strategy is None or strategy.type != ADAPTIVE or strategy.adaptive is None:
            return 0
        return max(strategy.adaptive.reschedule_critical_seconds or 0, 0)

    def subset(self, name: str) -> Subset | None:
        """The subset of this name."""
        return next((subset for subset in self.subsets if subset.name == name), None)

    def entries(self, version: str) -> list[SubsetStatus]:
        """Stored entries of the subsets for pods of this version."""
        return (self.status.versioned_subset_statuses or {}).get(version) or []


read_spec: Final = spec_reader(WorkloadSpreadSpec, raw=RAW)


def _derived(spec: WorkloadSpreadSpec, _: Document) -> dict[str, Selector | None]:
    wanted = spec.target_filter.selector if spec.target_filter is not None else None
    return {"selector": EVERYTHING if wanted is None else selector_of(wanted)}


def _target_index(spread: SpreadView) -> tuple[tuple[str, GroupKind, str], ...]:
    target = spread.target
    return ((spread.namespace, *target),) if target is not None and not spread.is_deleting else ()


SPREAD_VIEWS: Final = Views[SpreadView](
    resource=WORKLOAD_SPREADS,
    projector=lambda: Projector(
        SpreadView, read_spec=read_spec, status=WorkloadSpreadStatus, derived=_derived
    ),
    indexes={BY_TARGET: _target_index, BY_NAMESPACE: lambda spread: (spread.namespace,)},
)
