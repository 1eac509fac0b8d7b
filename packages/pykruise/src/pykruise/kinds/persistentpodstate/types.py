"""The PersistentPodState kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ PersistentPodState ──▶ injection, controller
                    the same types ──▶ kind.py (its schema)
"""

from typing import Annotated, Final

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

    keys: list[str]
    """Keys of the node labels."""


class PreferredTopology(Typed, frozen=True, kw_only=True):
    """Preferred node labels with a weight."""

    preference: TopologyKeys
    weight: Annotated[int, integer("int32", minimum=0)]
    """Weight of this preference in scheduling, from 1 to 100."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    persistent_pod_annotations: list[AnnotationKey] | None = None
    """Annotations of pods that are recorded. They are not written into new pods."""
    target_ref: TargetReference
    """The workload whose pods are recorded. Immutable."""


class PersistentPodStateSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state: the workload, and the topology that its pods keep."""

    persistent_pod_state_retention_policy: Annotated[str, schema(enum=("WhenScaled", "WhenDeleted"))] = ""
    """Time at which a record is removed: WhenScaled (the default), as soon as the workload no longer has the pod, or
    WhenDeleted, together with the workload.
    """
    preferred_persistent_topology: list[PreferredTopology] | None = None
    """Node labels that a new pod prefers to share with its predecessor's node."""
    required_persistent_topology: TopologyKeys | None = None
    """Node labels that a new pod must share with its predecessor's node."""


class PodState(Typed, frozen=True, kw_only=True):
    """Record of one pod."""

    annotations: dict[str, str] | None = None
    """Recorded annotations of the pod."""
    node_name: str = ""
    """Node of the pod."""
    node_topology_labels: dict[str, str] | None = None
    """Recorded labels of that node."""


class PersistentPodStateStatus(Status, frozen=True, kw_only=True):
    """Observed state: the recorded pods."""

    observed_generation: Int64
    """The metadata.generation that this status describes."""
    pod_states: dict[str, PodState] | None = None
    """Records by pod name."""


class PersistentPodState(ApiObject, frozen=True, kw_only=True):
    """PersistentPodState records the nodes of a workload's pods and returns new pods of the same name to them."""

    api_version: str = PERSISTENT_POD_STATES.api_version
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpec | None = None
    status: PersistentPodStateStatus | None = None
