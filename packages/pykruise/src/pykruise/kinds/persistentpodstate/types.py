"""The PersistentPodState kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ PersistentPodState ──▶ injection, controller; and by the same types ──▶ crd.py
"""

from typing import Annotated, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import integer, schema
from pykruise.kube.schemas.types import ApiObject, Int64, Status, TargetReference, Typed

PERSISTENT_POD_STATES: Final = Resource(
    "apps.kruise.io", "v1beta1", "persistentpodstates", "PersistentPodState"
)


class AnnotationKey(Typed, frozen=True, kw_only=True):
    """An annotation that is recorded."""

    key: str
    """Key of the annotation."""


class TopologyKeys(Typed, frozen=True, kw_only=True):
    """Labels of nodes that pods come back to."""

    keys: list[str]
    """Keys of the labels."""


class PreferredTopology(Typed, frozen=True, kw_only=True):
    """Labels of nodes that pods come back to if they can."""

    preference: TopologyKeys
    weight: Annotated[int, integer("int32", minimum=0)]
    """From 1 to 100; how much it counts when a node is chosen."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions share."""

    persistent_pod_annotations: list[AnnotationKey] | None = None
    """Annotations of pods that are recorded. They are not written into new pods."""
    target_ref: TargetReference
    """The workload whose pods are meant. Cannot be changed."""


class PersistentPodStateSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state: which workload, and which topology its pods keep."""

    persistent_pod_state_retention_policy: Annotated[str, schema(enum=("WhenScaled", "WhenDeleted"))] = ""
    """When a record goes: WhenScaled (the default), as soon as the workload no longer has the pod, or
    WhenDeleted, with the workload."""
    preferred_persistent_topology: list[PreferredTopology] | None = None
    """Labels of nodes that pods come back to if they can."""
    required_persistent_topology: TopologyKeys | None = None
    """Labels of nodes that pods must come back to."""


class PodState(Typed, frozen=True, kw_only=True):
    """Record of one pod."""

    annotations: dict[str, str] | None = None
    """Its annotations, of those that are wanted."""
    node_name: str = ""
    """The node it was on."""
    node_topology_labels: dict[str, str] | None = None
    """Labels of that node, of those that are wanted."""


class PersistentPodStateStatus(Status, frozen=True, kw_only=True):
    """Observed state: the recorded pods."""

    observed_generation: Int64
    """The metadata.generation that this status is about."""
    pod_states: dict[str, PodState] | None = None
    """Records by pod name."""


class PersistentPodState(ApiObject, frozen=True, kw_only=True):
    """Remembers where the pods of a workload were, and brings new ones of the same name back there."""

    api_version: str = PERSISTENT_POD_STATES.api_version
    kind: str = PERSISTENT_POD_STATES.kind
    spec: PersistentPodStateSpec | None = None
    status: PersistentPodStateStatus | None = None
