"""The PersistentPodState kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ PersistentPodState ──▶ injection, controller
                    the same types ──▶ kind.py (its schema)
"""

from typing import Annotated, Final

import msgspec

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import integer, schema
from pykruise.kube.schemas.types import ApiObject, Int64, Status, TargetReference, Typed

PERSISTENT_POD_STATES: Final = Resource(
    "apps.kruise.io", "v1beta1", "persistentpodstates", "PersistentPodState"
)


class AnnotationKey(Typed, frozen=True, kw_only=True):
    """Key of a recorded annotation."""

    key: str
    """Key of the annotation."""


class TopologyKeys(Typed, frozen=True, kw_only=True):
    """Node labels that identify the place of a pod."""

    # It can be absent in stored objects: OpenKruise converts an empty list to null, and the API server removes nulls.
    keys: Annotated[list[str], schema(required=True)] = msgspec.field(default_factory=list)
    """Keys of the node labels."""


class PreferredTopology(Typed, frozen=True, kw_only=True):
    """Preferred node labels with a weight."""

    preference: TopologyKeys
    weight: Annotated[int, integer("int32", minimum=0)]
    """Weight of this preference in scheduling, from 1 to 100."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    persistent_pod_annotations: list[AnnotationKey] | None = None
    """Annotations of pods to record. They are not written into new pods."""
    target_ref: TargetReference
    """The workload whose pods are recorded. The reference is immutable."""


class PersistentPodStateSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state: the workload, and the topology in which its pods are created again."""

    persistent_pod_state_retention_policy: Annotated[str, schema(enum=("WhenScaled", "WhenDeleted"))] = ""
    """When the record of a pod is removed. WhenScaled (the default): when the workload no longer has a pod of this
    name, for example after a scale-in. WhenDeleted: when the workload is deleted.
    """
    preferred_persistent_topology: list[PreferredTopology] | None = None
    """Node labels whose values should preferably be the same as on the node of the previous pod."""
    required_persistent_topology: TopologyKeys | None = None
    """Node labels whose values must be the same as on the node of the previous pod."""


class PodState(Typed, frozen=True, kw_only=True):
    """Record of one pod."""

    annotations: dict[str, str] | None = None
    """Recorded annotations of the pod."""
    node_name: str = ""
    """Node of the pod."""
    node_topology_labels: dict[str, str] | None = None
    """Recorded labels of the node."""


class PersistentPodStateStatus(Status, frozen=True, kw_only=True):
    """Observed state: the recorded pods."""

    observed_generation: Int64
    """The metadata.generation for which this status was computed."""
    pod_states: dict[str, PodState] | None = None
    """Name of each pod → its record."""


class PersistentPodState(ApiObject, frozen=True, kw_only=True):
    """Records the nodes of a workload's pods. A new pod with the same name is placed on the same node or in the same
    topology.
    """

    api_version: str = PERSISTENT_POD_STATES.api_version
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpec | None = None
    status: PersistentPodStateStatus | None = None
