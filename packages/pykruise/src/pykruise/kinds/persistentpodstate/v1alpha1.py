"""The PersistentPodState kind in its older version, v1alpha1: other field names, and less strict.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.persistentpodstate.types import (
    PERSISTENT_POD_STATES,
    CommonSpec,
    PersistentPodStateStatus,
)
from pykruise.kube.schemas.types import ApiObject, Int32, Typed


class TopologyKeysV1Alpha1(Typed, frozen=True, kw_only=True):
    """Node labels that identify the place of a pod."""

    node_topology_keys: list[str]
    """Keys of the node labels."""


class PreferredTopologyV1Alpha1(Typed, frozen=True, kw_only=True):
    """Preferred node labels with a weight."""

    preference: TopologyKeysV1Alpha1
    weight: Int32
    """Weight of this preference in scheduling, from 1 to 100."""


class PersistentPodStateSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state: the workload, and the topology that its pods keep."""

    persistent_pod_state_retention_policy: str = ""
    """Time at which a record is removed: WhenScaled (the default), as soon as the workload no longer has the pod, or
    WhenDeleted, together with the workload.
    """
    preferred_persistent_topology: list[PreferredTopologyV1Alpha1] | None = None
    """Node labels that a new pod prefers to share with its predecessor's node."""
    required_persistent_topology: TopologyKeysV1Alpha1 | None = None
    """Node labels that a new pod must share with its predecessor's node."""


class PersistentPodStateV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """PersistentPodState records the nodes of a workload's pods and returns new pods of the same name to them."""

    api_version: str = f"{PERSISTENT_POD_STATES.group}/v1alpha1"
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpecV1Alpha1 | None = None
    status: PersistentPodStateStatus | None = None
