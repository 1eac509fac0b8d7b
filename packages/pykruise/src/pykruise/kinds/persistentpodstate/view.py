"""PersistentPodStates, and the workloads whose pods they record, as stored in caches.

JSON of a PersistentPodState ──▶ project_state() ──▶ StateView
JSON of a workload ──▶ project_workload() ──▶ RecordedWorkload: replicas, ordinals, requests in annotations

Pure. Kinds of workloads are compared by group and kind. The version is ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES, PersistentPodStateSpec, PodState
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import STATEFUL_SETS, Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.plans.targets import STATEFUL_SETS_OF_KRUISE
from pykruise.pods.workload.ordinals import Reserved, reserved_of
from pykruise.runtime.views import BY_NAMESPACE, Views

BUILT_IN: Final = GroupKind(STATEFUL_SETS.group, STATEFUL_SETS.kind)
ADVANCED: Final = GroupKind(STATEFUL_SETS_OF_KRUISE.group, STATEFUL_SETS_OF_KRUISE.kind)

BY_NODE: Final = "node"
"""Index of PersistentPodStates by the names of recorded nodes."""

BY_TARGET: Final = "target"
"""Index of PersistentPodStates by namespace, kind and name of the workload."""

AUTO_GENERATE: Final = "kruise.io/auto-generate-persistent-pod-state"
REQUIRED: Final = "kruise.io/required-persistent-topology"
PREFERRED: Final = "kruise.io/preferred-persistent-topology"
ANNOTATIONS: Final = "kruise.io/persistent-pod-annotations"

GENERATED: Final = "pykruise.io/generated"
"""Annotation of each PersistentPodState that annotations of its workload requested."""

Target = tuple[GroupKind, str]
"""Kind and name of a workload."""


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


# ── PersistentPodStates ──────────────────────────────────────────────────────


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """A PersistentPodState. If the uid is empty, it does not exist."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    generation: int = 0
    created_at: Instant = 0.0
    is_deleting: bool = False
    controller_uid: str = ""
    is_generated: bool = False
    """Whether the object is marked: annotations of its workload requested it."""
    stored_spec: Document = {}
    stored_status: Document = {}
    spec: PersistentPodStateSpec | None = None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    problem: str = ""
    records: Mapping[str, PodState] = {}
    """Name of each recorded pod → its record."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def target(self) -> Target | None:
        """Kind and name of the workload; None if the reference is invalid."""
        if self.spec is None:
            return None
        ref = self.spec.target_ref
        kind = group_kind(ref.api_version, ref.kind)
        return (kind, ref.name) if kind is not None and ref.name else None

    @property
    def required_keys(self) -> Sequence[str]:
        """Keys of node labels whose values must be the same as on the node of the previous pod."""
        topology_keys = self.spec.required_persistent_topology if self.spec is not None else None
        return topology_keys.keys if topology_keys is not None else ()

    @property
    def node_keys(self) -> frozenset[str]:
        """Keys of the node labels to record."""
        preferred = (self.spec.preferred_persistent_topology if self.spec is not None else None) or ()
        return frozenset(
            [
                *self.required_keys,
                *(key for preferred_topology in preferred for key in preferred_topology.preference.keys),
            ]
        )

    @property
    def annotation_keys(self) -> frozenset[str]:
        """Keys of the pod annotations to record."""
        keys = (self.spec.persistent_pod_annotations if self.spec is not None else None) or ()
        return frozenset(annotation_key.key for annotation_key in keys)


class _State(msgspec.Struct):
    metadata: _Meta
    spec: Document | None = None
    status: Document | None = None


_decode_state = msgspec.json.Decoder(_State).decode


def read_spec(doc: Mapping[str, Any]) -> tuple[PersistentPodStateSpec | None, str]:
    """Return the typed spec, or None and the problem."""
    return read(doc, PersistentPodStateSpec, path="spec")


def project_state(raw: bytes | msgspec.Raw) -> StateView:
    """Decode a PersistentPodState into its view. Raises msgspec.DecodeError if the bytes are not a Kubernetes
    object.
    """
    state = _decode_state(raw)
    meta = state.metadata
    spec, problem = read_spec(state.spec or {})
    return StateView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        is_deleting=meta.deletion_timestamp is not None,
        controller_uid=next(
            (reference.uid for reference in meta.owner_references or () if reference.controller), ""
        ),
        is_generated=(meta.annotations or {}).get(GENERATED) == "true",
        stored_spec=state.spec or {},
        stored_status=state.status or {},
        spec=spec,
        problem=problem,
        records=_read_records((state.status or {}).get("podStates")),
    )


def _read_records(stored: Any) -> Mapping[str, PodState]:
    records, _ = read({"podStates": stored}, _Records, path="status")
    return (records.pod_states if records is not None else None) or {}


class _Records(msgspec.Struct, rename="camel"):
    pod_states: dict[str, PodState] | None = None


def make_absent_view(key: Key) -> StateView:
    """Return a view for a PersistentPodState that does not exist, but perhaps must be created."""
    return StateView(namespace=key.namespace, name=key.name)


def choose_state(states: Sequence[StateView]) -> StateView | None:
    """Choose the PersistentPodState that applies, if several have the same workload: the oldest, or else the first by
    name. Terminating objects are ignored.
    """
    there = [state for state in states if not state.is_deleting]
    return min(there, key=lambda state: (state.created_at, state.name), default=None)


def _index_by_target(view: StateView) -> tuple[tuple[str, GroupKind, str], ...]:
    target = view.target
    return ((view.namespace, *target),) if target is not None else ()


STATE_VIEWS: Final = Views[StateView](
    resource=PERSISTENT_POD_STATES,
    projector=lambda: project_state,
    indexes={
        BY_NAMESPACE: lambda state: (state.namespace,),
        BY_NODE: lambda state: {record.node_name for record in state.records.values()},
        BY_TARGET: _index_by_target,
    },
)


# ── workloads ────────────────────────────────────────────────────────────────


class RecordedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload whose pods have stable names."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    api_version: str = ""
    kind: str = ""
    is_deleting: bool = False
    replicas: int = 0
    start: int = 0
    """The value of `spec.ordinals.start`."""
    reserved: Reserved = Reserved()
    is_generating: bool = False
    """Whether the workload's annotation requests a PersistentPodState."""
    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()

    @property
    def has_topology(self) -> bool:
        """Whether the workload's annotations request a topology."""
        return bool(self.required or self.preferred)

    @property
    def is_requesting(self) -> bool:
        """Whether the workload's annotations request a PersistentPodState, with a topology."""
        return self.is_generating and self.has_topology and not self.is_deleting

    def is_same_request(self, other: "RecordedWorkload") -> bool:
        """Whether all fields that a PersistentPodState depends on are equal."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in (
                *("uid", "is_deleting", "replicas", "start", "reserved"),
                *("is_generating", "required", "preferred", "pod_annotations"),
            )
        )


INCOMPLETE: Final = (
    f"annotation {AUTO_GENERATE} has no effect, because no annotation names a key of node labels"
)
"""Problem of a workload that requests a PersistentPodState without a topology."""

COMPLETE: Final = f"set annotation {REQUIRED} or {PREFERRED}, for example to kubernetes.io/hostname"
"""Remedy for this problem."""


def is_incomplete(workload: RecordedWorkload) -> bool:
    """Whether the workload requests a PersistentPodState, but no topology, so that nothing is recorded."""
    return workload.is_generating and not workload.has_topology and not workload.is_deleting


class _Workload(msgspec.Struct, rename="camel"):
    metadata: _Meta
    api_version: str = ""
    kind: str = ""
    spec: Document | None = None


def workload_of(document: Mapping[str, Any]) -> RecordedWorkload:
    """Decode a workload of any kind. Raises msgspec.ValidationError if the document is not a Kubernetes object."""
    workload = msgspec.convert(document, _Workload)
    meta, spec = workload.metadata, workload.spec or {}
    annotations = meta.annotations or {}
    ordinals = spec.get("ordinals")
    return RecordedWorkload(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        api_version=workload.api_version,
        kind=workload.kind,
        is_deleting=meta.deletion_timestamp is not None,
        replicas=_to_whole(spec.get("replicas")),
        start=_to_whole(ordinals.get("start")) if isinstance(ordinals, Mapping) else 0,
        reserved=reserved_of(_filter_ordinals(spec.get("reserveOrdinals"))),
        is_generating=annotations.get(AUTO_GENERATE) == "true",
        required=_split_list(annotations.get(REQUIRED)),
        preferred=_split_list(annotations.get(PREFERRED)),
        pod_annotations=_split_list(annotations.get(ANNOTATIONS)),
    )


def project_workload(resource: Resource) -> Any:
    """Return a projector for one resource. The views have the apiVersion and kind of the resource."""

    def project(raw: bytes | msgspec.Raw) -> RecordedWorkload:
        workload = workload_of(decode(raw))
        return msgspec.structs.replace(workload, api_version=resource.api_version, kind=resource.kind)

    return project


def _to_whole(value: Any) -> int:
    """Return the value if it is an integer, and otherwise 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _filter_ordinals(value: Any) -> list[int | str]:
    return [item for item in value if isinstance(item, int | str)] if isinstance(value, list) else []


def _split_list(text: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list: `a, b,` gives a and b."""
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _make_workload_views(resource: Resource) -> Views[RecordedWorkload]:
    # Other kinds cache these objects too, but with other fields.
    return Views[RecordedWorkload](
        resource=resource, projector=lambda: project_workload(resource), is_apart=True
    )


def make_further_views(resource: Resource) -> Views[RecordedWorkload]:
    """Return the views of workloads of a kind on the white list."""
    return _make_workload_views(resource)


WORKLOAD_VIEWS: Final[Mapping[GroupKind, Views[RecordedWorkload]]] = {
    ADVANCED: _make_workload_views(STATEFUL_SETS_OF_KRUISE),
    BUILT_IN: _make_workload_views(STATEFUL_SETS),
}
"""Views of workloads of the kinds that need no white list."""
