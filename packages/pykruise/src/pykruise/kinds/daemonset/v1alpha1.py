"""The DaemonSet in its older version, v1alpha1: what differs from the hub version, for its schema.

types.py + this ──▶ crd.py (schema), conversion.py
"""

from pykruise.kinds.daemonset.types import DAEMON_SETS, CommonSpec
from pykruise.kube.api import ApiObject, Count, Int32, Int64, PlainCondition, Typed

__all__ = ["DaemonSetV1Alpha1"]


class DaemonSetStatusV1Alpha1(Typed, frozen=True, kw_only=True):
    """What is. Counts are nodes."""

    collision_count: Int32 | None = None
    """How often a revision's name was taken by something else."""
    conditions: list[PlainCondition] | None = None
    """SelectorMismatch: spec.selector was changed past admission, and nothing is done. Waiting: what keeps nodes
    from being as the spec wants them, and what would change that."""
    current_number_scheduled: Count = 0
    """Nodes that are to run a pod and have one."""
    daemon_set_hash: str = ""
    """Hash of the newest revision, as pods carry it."""
    desired_number_scheduled: Count = 0
    """Nodes that are to run a pod."""
    number_available: Int32 = 0
    """... whose pod has been ready for minReadySeconds."""
    number_misscheduled: Count = 0
    """Nodes that have a pod and are not to run one."""
    number_ready: Count = 0
    """Nodes that are to run a pod and whose pod is ready."""
    number_unavailable: Int32 = 0
    """Nodes that are to run a pod and have none that is available."""
    observed_generation: Int64 = 0
    """The metadata.generation that the numbers are about."""
    updated_number_scheduled: Count = 0
    """Nodes that are to run a pod and whose pod is of the newest revision."""


class DaemonSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Runs one pod on every node that fits, and updates them in place, with surge, or node after node."""

    api_version: str = f"{DAEMON_SETS.group}/v1alpha1"
    kind: str = DAEMON_SETS.kind
    spec: CommonSpec
    status: DaemonSetStatusV1Alpha1 | None = None
