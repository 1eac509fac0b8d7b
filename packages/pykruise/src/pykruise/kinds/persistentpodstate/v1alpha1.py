"""The PersistentPodState kind in its older version, v1alpha1. Some fields have other names, and fewer values are
rejected.

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
    """Desired state: the workload, and the topology in which its pods are created again."""

    persistent_pod_state_retention_policy: str = ""
    """When the record of a pod is removed. WhenScaled (the default): when the workload no longer has a pod of this
    name, for example after a scale-in. WhenDeleted: when the workload is deleted.
    """
    preferred_persistent_topology: list[PreferredTopologyV1Alpha1] | None = None
    """Node labels whose values should preferably be the same as on the node of the previous pod."""
    required_persistent_topology: TopologyKeysV1Alpha1 | None = None
    """Node labels whose values must be the same as on the node of the previous pod."""


class PersistentPodStateV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Records the nodes of a workload's pods. A new pod with the same name is placed on the same node or in the same
    topology.
    """

    api_version: str = f"{PERSISTENT_POD_STATES.group}/v1alpha1"
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpecV1Alpha1 | None = None
    status: PersistentPodStateStatus | None = None
