"""A pod as decisions see it: a small frozen value.

bytes of a watch event ──▶ pod_decoding.py ──▶ PodView ──▶ availability, ordering, lifecycle, every kind's plan

What plans ask again and again (is it active, is it serving, who goes first) is worked out once per event.
Nothing keeps the document: writes are narrow patches, so fields that are not here survive.
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
"""Phases of pods whose containers do not run any more and will not be started again."""

SERVING_STATES: Final = ("", "Normal")
"""Lifecycle states in which a pod takes part; one without the label was never under management."""


class ConditionView(msgspec.Struct, frozen=True, gc=False):
    """One condition of the pod, without its times. Null and absent are empty."""

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


class PodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One pod. Times are seconds since the epoch; empty text and None mean absent."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Annotations in `pod_decoding.NEEDED_ANNOTATIONS`, or all of a pod with sidecars of a SidecarSet. A pod that was
    updated in place keeps two more kinds: what the agent on its node says of its containers, and what their environment
    is fed from."""
    finalizers: tuple[str, ...] = ()
    controller: ControllerView | None = None
    created_at: Instant | None = None
    is_deleting: bool = False
    ends_at: Instant | None = None
    """End of the grace period of a deleted pod."""

    node_name: str = ""
    wanted_node: str = ""
    """The only node that the node affinity of a pod without a node names."""
    containers: tuple[ContainerFacts, ...] = ()
    sidecars: tuple[ContainerFacts, ...] = ()
    """Init containers that keep running beside the regular ones (`restartPolicy: Always`): name and image."""
    readiness_gates: tuple[str, ...] = ()
    restart_policy: str = "Always"
    resources: Resources | None = None
    """Resources of the pod as a whole (`spec.resources`); None: only its containers ask."""
    resources_in_force: Resources | None = None
    """The same as its node gives it; None: the node does not say."""
    claim_volumes: tuple[tuple[str, str], ...] = ()
    """Volumes of a pod of an Advanced StatefulSet that are claims, as volume and claim name."""
    asks_of_nodes: NodeRequirements | None = None
    """Requirements on nodes, for a pod of a BroadcastJob."""

    phase: str = ""
    ip: str = ""
    conditions: tuple[ConditionView, ...] = ()
    ready_since: Instant | None = None
    """When the Ready condition last changed (also when it is False)."""
    container_statuses: tuple[ContainerStatusFacts, ...] = ()
    init_statuses: tuple[ContainerStatusFacts, ...] = ()
    """Statuses of all init containers, sidecars among them."""
    creating: CreatingView | None = None
    """Needs of a pod with a node whose containers are not created yet."""
    pull_secrets: tuple[str, ...] = ()
    """Names of spec.imagePullSecrets, kept only while an image of the pod cannot be pulled."""
    image_volumes: tuple[tuple[str, str], ...] = ()
    """Volumes that are images, as volume and image, kept for as long."""
    ephemeral: tuple[EphemeralView, ...] = ()
    """Ephemeral containers, which few pods have."""

    # Worked out once per event:
    state: str = ""
    """Lifecycle state: a `LifecycleState`, a text unknown to this version, or empty."""
    revision: RevisionHash = RevisionHash("")
    """Hash part of the revision label, so that the full name and the short form are the same."""
    instance_id: str = ""
    is_active: bool = True
    """Neither finished nor terminating."""
    is_ready: bool = False
    """Running, Ready, and not held back by an in-place update."""
    is_serving: bool = False
    """Ready and in a lifecycle state that takes part. One that is not may go without asking a budget."""
    is_specified_delete: bool = False
    """Marked for deletion by the label."""
    is_in_grace: bool = False
    """Out of service for an update in place that begins when its grace period is over."""
    open_gates: tuple[str, ...] = ()
    """Readiness gates of this project whose condition has still to be set to True."""
    may_be_updating: bool = False
    """Unless this is set, an update in place has certainly nothing more to do for the pod. The rule is that of
    `in_place.is_at_rest`, worked out here because it is asked of every pod in every plan."""
    deletion_cost: int = 0
    rank: Rank = Rank()
    """Sorts pods into the base order of updates; see `pods/lifecycle/sort_keys.py`."""

    @property
    def target_node(self) -> str:
        """The node that it is on or, until then, the only one that it may go to; empty: any."""
        return self.node_name or self.wanted_node

    @property
    def has_ready_condition(self) -> bool:
        """Whether the Ready condition itself is True, whatever phase and readiness gates say."""
        return self.rank.is_ready

    def condition(self, kind: str) -> ConditionView | None:
        """The condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


def is_active(pod: Mapping[str, Any]) -> bool:
    """`PodView.is_active` of a pod as admission gets it: neither on its way out nor finished."""
    phase = (pod.get("status") or {}).get("phase")
    return not (pod.get("metadata") or {}).get("deletionTimestamp") and phase not in FINISHED
