"""The Advanced DaemonSet in its hub version, v1beta1: every field, typed; and what v1alpha1 has instead.

JSON of the API server ──▶ DaemonSet ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. A default here is what the absence of the field
means to the controller; what admission writes into new objects is in defaults.py. The template stays a
document, so that fields of a newer Kubernetes survive.
"""

from enum import StrEnum
from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import (
    ApiObject,
    Count,
    Int32,
    Int64,
    IntOrString,
    PlainCondition,
    Selector,
    Status,
    Typed,
)
from pykruise.pods.api import PodTemplate
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.workload.spec import RollingSpec

DAEMON_SETS: Final = Resource("apps.kruise.io", "v1beta1", "daemonsets", "DaemonSet")

DEFAULT_BURST: Final = 250


class RollingUpdateType(StrEnum):
    """How a pod gets to another revision."""

    STANDARD = "Standard"
    """Recreated: before the new one, or with maxSurge after it."""
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"


SURGING: Final = "Surging"
"""Type of v1alpha1: Standard with maxSurge 1."""


class ScaleStrategy(Typed, frozen=True, kw_only=True):
    """How pods come to nodes."""

    partitioned_scaling: bool = False
    """Creation on new nodes is limited by the partition too."""


class RollingUpdate(Typed, frozen=True, kw_only=True):
    """How a rolling update goes."""

    max_surge: IntOrString | None = None
    """Nodes that may have a new pod beside their old one; percentages, of the nodes that run a pod, round up."""
    max_unavailable: IntOrString | None = None
    """Nodes whose pod may be out of service for the update; percentages round up. 1 when maxSurge is absent too."""
    partition: IntOrString | None = None
    """Nodes that stay on older revisions; percentages round down."""
    paused: bool = False
    """Stops updating. Pods still come to and go from nodes."""
    rolling_update_type: str = ""
    """Standard (recreate) or InPlaceIfPossible."""
    selector: Selector | None = None
    """Over labels of nodes: only these are updated."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """When and how pods are updated."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: a pod is updated when it is deleted by hand."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    burst_replicas: IntOrString | None = None
    """Pods created, deleted and updated in place at once, each counted apart; 250 by default."""
    lifecycle: Lifecycle | None = None
    """Only preDelete has an effect."""
    min_ready_seconds: Int32 = 0
    """Seconds for which a pod is ready before it counts as available."""
    revision_history_limit: Int32 = 10
    """Older revisions that are kept; 10 by default."""
    selector: Selector
    """Labels of the pods. Cannot be changed, and must match the labels of the template."""
    template: PodTemplate
    """The pod of each node, as a core/v1 PodTemplateSpec."""
    update_strategy: UpdateStrategy | None = None
    """When and how pods are updated."""


class DaemonSetSpec(CommonSpec, RollingSpec[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the DaemonSet."""

    scale_strategy: ScaleStrategy | None = None

    @property
    def policy(self) -> str:
        """A `RollingUpdateType`; empty: Standard."""
        return self.rolling_update.rolling_update_type if self.rolling_update else ""

    @property
    def is_in_place(self) -> bool:
        """Whether pods are changed rather than recreated where that can be."""
        return self.policy == RollingUpdateType.IN_PLACE_IF_POSSIBLE

    @property
    def scales_partitioned(self) -> bool:
        """Whether the partition limits creation too."""
        return self.scale_strategy is not None and self.scale_strategy.partitioned_scaling


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have. Counts are nodes."""

    collision_count: Int32 | None = None
    """How often a revision's name was taken by something else."""
    conditions: list[PlainCondition] | None = None
    """SelectorMismatch: spec.selector was changed past admission, and nothing is done. Waiting: what keeps nodes
    from being as the spec wants them, and what would change that."""
    current_number_scheduled: Count = 0
    """Nodes that are to run a pod and have one."""
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


class DaemonSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the DaemonSet. Counts are nodes."""

    update_revision: str = ""
    """Hash of the newest revision, as pods carry it."""


class DaemonSet(ApiObject, frozen=True, kw_only=True):
    """Runs one pod on every node that fits, and updates them in place, with surge, or node after node."""

    api_version: str = DAEMON_SETS.api_version
    kind: str = DAEMON_SETS.kind
    spec: DaemonSetSpec
    status: DaemonSetStatus | None = None
