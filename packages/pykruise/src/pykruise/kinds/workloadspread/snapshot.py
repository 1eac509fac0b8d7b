"""Everything that a decision about one WorkloadSpread needs, as one value.

views + data read for this reconcile ──▶ SpreadSnapshot ──▶ plan.py

Pure. The snapshot contains time and settings, so the same snapshot always gives the same plan.
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
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import PodView


class SpreadSnapshot(Judged, frozen=True, kw_only=True):
    """The state of the world for one WorkloadSpread at one instant."""

    spread: SpreadView
    is_there: bool = True
    """Whether the workload exists and is not terminating."""
    replicas: int = 0
    """Desired number of pods of the workload."""
    pods: Sequence[PodView] = ()
    """Pods of the workload that the filter selects, including finished and terminating pods."""
    latest: str | None = UNVERSIONED
    """Version of the workload's template; None: the version is not known yet."""
    latest_is_coming: bool = False
    """Whether the unknown version will soon be known without an action by a user."""
    nodes: Mapping[str, NodeView] = {}
    """Nodes of pods without a subset, by name."""
    documents: Mapping[str, Document] = {}
    """Pods without a subset that have a node, by uid, as stored documents."""
    patch_errors: Sequence[tuple[str, Cause]] = ()
    """Errors that pods of the workload's current template have with the patches of the subsets, each with the name of
    its subset.
    """
    has_more: bool = False
    """Whether more pods must be read for `documents`. The next reconcile reads them."""
    versioned: frozenset[str] = DEFAULT_VERSIONED
    now: Instant
    polls_after: float | None = None
    """Seconds after which the workload must be read again, because no watch reports its changes."""


def find_latest_version(
    kind: GroupKind,
    target: TargetView | None,
    *,
    replica_sets: Sequence[TargetView] = (),
    versioned: frozenset[str] = DEFAULT_VERSIONED,
) -> str | None:
    """Return the version of the pods that the workload creates now; None: the version is not known yet; empty: the
    workload does not exist.

    `replica_sets`: ReplicaSets that a Deployment controls.
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
    return shorten_hash(target.update_revision) or None
