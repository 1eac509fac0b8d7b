"""A pod as decisions see it: a small frozen value.

bytes of a watch event ──▶ decoding.py ──▶ PodView ──▶ availability, ordering, lifecycle, every kind's plan

Facts that plans need repeatedly (active, serving, rank) are computed once per event. The document itself is not kept:
writes are narrow patches, so fields that are not part of the view survive.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.pods.lifecycle.sort_keys import Rank
from pykruise.pods.mounts import CreatingView
from pykruise.pods.template.node_placement import NodeRequirements
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts, Resources
from pykruise.pods.view.ephemeral import EphemeralView
from pykruise.pods.view.names import RevisionHash

FINISHED: Final = ("Failed", "Succeeded")
"""Phases of pods whose containers have ended and will not be started again."""

SERVING_STATES: Final = ("", "Normal")
"""Lifecycle states of pods in service. The state is empty for a pod without lifecycle management."""


class ConditionView(msgspec.Struct, frozen=True, gc=False):
    """A condition of the pod without its times. Null and absent fields are empty."""

    type: str
    status: str = ""
    reason: str | None = ""
    message: str | None = ""


class ControllerView(msgspec.Struct, frozen=True, gc=False):
    """The owner that manages the pod."""

    group: str
    kind: str
    name: str
    uid: str

    @property
    def full_name(self) -> str:
        """Kind, name and API group: kinds of different groups can have the same name, such as StatefulSet."""
        return (
            f"{self.kind} {self.name} of API group {self.group}" if self.group else f"{self.kind} {self.name}"
        )

    @property
    def argument(self) -> str:
        """The kind as an argument of kubectl."""
        return f"{self.kind}.{self.group}".lower().rstrip(".")


class PodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod. Times are seconds since the epoch. Empty text and None mean absent."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Annotations in `decoding.NEEDED_ANNOTATIONS`, or all annotations of a pod with sidecars of a SidecarSet. For a
    pod that was updated in place, also the report of its node's agent, and annotations that its containers' environment
    reads.
    """
    finalizers: tuple[str, ...] = ()
    controller: ControllerView | None = None
    created_at: Instant | None = None
    is_deleting: bool = False
    ends_at: Instant | None = None
    """End of the grace period of a deleted pod."""

    node_name: str = ""
    wanted_node: str = ""
    """The only node in the node affinity of a pod that is not scheduled yet."""
    scheduling_gates: tuple[str, ...] = ()
    """Names of spec.schedulingGates, kept only while the pod has no node."""
    containers: tuple[ContainerFacts, ...] = ()
    sidecars: tuple[ContainerFacts, ...] = ()
    """Native sidecars (init containers with `restartPolicy: Always`): name, image and ports with names."""
    readiness_gates: tuple[str, ...] = ()
    restart_policy: str = "Always"
    resources: Resources | None = None
    """Resources of the pod as a whole (`spec.resources`); None if only its containers have resources."""
    resources_in_force: Resources | None = None
    """Resources of the pod as a whole that its node reports; None if the node reports none."""
    claim_volumes: tuple[tuple[str, str], ...] = ()
    """Claim volumes of an Advanced StatefulSet's pod, as volume name and claim name."""
    pod_group: str = ""
    """Name of the PodGroup in which the scheduler places the pod; empty if the scheduler places it alone."""
    asks_of_nodes: NodeRequirements | None = None
    """Requirements on nodes, for a pod of a BroadcastJob."""

    phase: str = ""
    ip: str = ""
    conditions: tuple[ConditionView, ...] = ()
    ready_since: Instant | None = None
    """Time of the last change of the Ready condition (also when it is False)."""
    container_statuses: tuple[ContainerStatusFacts, ...] = ()
    init_statuses: tuple[ContainerStatusFacts, ...] = ()
    """Statuses of all init containers, including native sidecars."""
    creating: CreatingView | None = None
    """State of a scheduled pod that waits for the objects of its volumes, or for its first report by the kubelet;
    None for other pods.
    """
    pull_secrets: tuple[str, ...] = ()
    """Names of spec.imagePullSecrets, kept only while an image of the pod cannot be pulled."""
    image_volumes: tuple[tuple[str, str], ...] = ()
    """Image volumes, as volume name and image, kept only while an image of the pod cannot be pulled."""
    ephemeral: tuple[EphemeralView, ...] = ()
    """Ephemeral containers; most pods have none."""

    # Computed once per event:
    state: str = ""
    """Lifecycle state: a `LifecycleState`, an unknown text, or empty."""
    revision: RevisionHash = RevisionHash("")
    """Hash part of the revision label, so that the full name and the short form compare as equal."""
    instance_id: str = ""
    is_active: bool = True
    """Whether the pod is neither finished nor terminating."""
    is_ready: bool = False
    """Whether the pod is Running, Ready, and not held back by an in-place update."""
    is_serving: bool = False
    """Whether the pod is ready, and its lifecycle state is one of the states in service. A pod that does not serve
    may be deleted even if no budget is left.
    """
    is_never_ready: bool = False
    """Whether the status proves that the pod has never been ready. False when that is unknown."""
    is_specified_delete: bool = False
    """Whether the specified-delete label marks the pod for deletion."""
    is_in_grace: bool = False
    """Whether the pod is out of service for an in-place update that starts after the grace period."""
    open_gates: tuple[str, ...] = ()
    """Readiness gates of this project whose condition must still be set to True."""
    may_be_updating: bool = False
    """Whether an in-place update may have something left to do for the pod. This is the rule of `in_place.is_at_rest`,
    computed once per event because every plan needs it for every pod.
    """
    deletion_cost: int = 0
    rank: Rank = Rank()
    """Sort key of the base order of updates; see `pods/lifecycle/sort_keys.py`."""

    @property
    def target_node(self) -> str:
        """The node of the pod or, before scheduling, the only node that it may run on; empty if the pod may run on any
        node.
        """
        return self.node_name or self.wanted_node

    @property
    def has_ready_condition(self) -> bool:
        """Whether the Ready condition itself is True, independent of the phase and the readiness gates."""
        return self.rank.is_ready

    def find_condition(self, kind: str) -> ConditionView | None:
        """The condition of this type; None if the pod has none."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


def is_active(pod: Mapping[str, Any]) -> bool:
    """`PodView.is_active` of a pod in an admission request: neither terminating nor finished."""
    phase = (pod.get("status") or {}).get("phase")
    return not (pod.get("metadata") or {}).get("deletionTimestamp") and phase not in FINISHED
