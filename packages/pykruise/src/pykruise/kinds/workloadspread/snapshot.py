"""Everything a decision about one WorkloadSpread needs, as one value.

views + what was read for this turn ──▶ Snapshot ──▶ plan.py

Pure. The snapshot carries time and settings, so that the same snapshot always gives the same plan.
"""

from collections.abc import Mapping, Sequence

from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED, UNVERSIONED
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.stored_values import Judged
from pykruise.plans.targets import TargetView
from pykruise.plans.views import NodeView
from pykruise.pods.view.names import short_hash
from pykruise.pods.view.pod_view import PodView


class SpreadSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one WorkloadSpread at one instant."""

    spread: SpreadView
    is_there: bool = True
    """Whether the workload is, and is not on its way out."""
    replicas: int = 0
    """Pods that the workload wants."""
    pods: Sequence[PodView] = ()
    """Pods of the workload, selected by the filter; finished and terminating ones too."""
    latest: str | None = UNVERSIONED
    """Version of the workload's template; None: not known now."""
    latest_is_coming: bool = False
    """It will be known soon by itself."""
    nodes: Mapping[str, NodeView] = {}
    """Nodes of pods without a subset, by name."""
    documents: Mapping[str, Document] = {}
    """Pods without a subset that are on a node, by uid, as they are stored."""
    patch_errors: Sequence[tuple[str, Cause]] = ()
    """Errors of pods that subsets' patches make of the workload as it is now, each after the name of the subset."""
    has_more: bool = False
    """There are further such pods, for the next plan."""
    versioned: frozenset[str] = DEFAULT_VERSIONED
    now: Instant
    polls_after: float | None = None
    """Seconds after which the workload must be read again, since no watch says when it changes."""


def latest_version(
    kind: GroupKind,
    target: TargetView | None,
    *,
    replica_sets: Sequence[TargetView] = (),
    versioned: frozenset[str] = DEFAULT_VERSIONED,
) -> str | None:
    """The version of pods that the workload makes now; None: not known, empty: there is no workload.

    `replica_sets`: those that a Deployment controls.
    """
    if kind.kind.lower() not in versioned:
        return UNVERSIONED
    if target is None:
        return ""
    match kind.kind:
        case "ReplicaSet":
            return target.template_hash or UNVERSIONED
        case "Deployment":
            for item in replica_sets:
                if not item.is_deleting and item.template_digest == target.template_digest:
                    return item.template_hash
            return None
    if target.generation > target.observed_generation:
        return None
    return short_hash(target.update_revision) or None
