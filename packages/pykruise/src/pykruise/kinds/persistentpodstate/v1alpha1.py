"""The PersistentPodState kind in its older version, v1alpha1: other names of keys, and less strict.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.persistentpodstate.types import (
    PERSISTENT_POD_STATES,
    CommonSpec,
    PersistentPodStateStatus,
)
from pykruise.kube.schemas.types import ApiObject, Int32, Typed


class TopologyKeysV1Alpha1(Typed, frozen=True, kw_only=True):
    """Labels of nodes that pods come back to."""

    node_topology_keys: list[str]
    """Keys of the labels."""


class PreferredTopologyV1Alpha1(Typed, frozen=True, kw_only=True):
    """Labels of nodes that pods come back to if they can."""

    preference: TopologyKeysV1Alpha1
    weight: Int32
    """From 1 to 100; how much it counts when a node is chosen."""


class PersistentPodStateSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state: which workload, and which topology its pods keep."""

    persistent_pod_state_retention_policy: str = ""
    """When a record goes: WhenScaled (the default), as soon as the workload no longer has the pod, or
    WhenDeleted, with the workload."""
    preferred_persistent_topology: list[PreferredTopologyV1Alpha1] | None = None
    """Labels of nodes that pods come back to if they can."""
    required_persistent_topology: TopologyKeysV1Alpha1 | None = None
    """Labels of nodes that pods must come back to."""


class PersistentPodStateV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Remembers where the pods of a workload were, and brings new ones of the same name back there."""

    api_version: str = f"{PERSISTENT_POD_STATES.group}/v1alpha1"
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpecV1Alpha1 | None = None
    status: PersistentPodStateStatus | None = None
