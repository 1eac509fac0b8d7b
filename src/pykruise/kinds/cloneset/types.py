"""The CloneSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ CloneSet ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. A default here is what the absence of the field
means to the controller; what admission writes into new objects is in defaults.py. Templates stay documents,
so that fields of a newer Kubernetes survive.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from pykruise.kube.crds import int_or_string, integer, schema
from pykruise.kube.resources import Resource
from pykruise.pods.lifecycle import Lifecycle

CLONE_SETS: Final = Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet")

NO_DEADLINE: Final = 2_147_483_647
"""`progressDeadlineSeconds` of an object that wants no deadline."""

DEFAULT_MAX_UNAVAILABLE: Final = "20%"

Int32 = Annotated[int, integer("int32")]
Int64 = Annotated[int, integer("int64")]
Count = Annotated[int, integer("int32", required=True)]
Time = Annotated[str, schema(format="date-time")]
IntOrString = Annotated[int | str, int_or_string()]
SchemaFalse = Annotated[bool, schema(default=False)]
"""False, and the API server writes that into the object."""
PodTemplate = Annotated[dict[str, Any], schema(any_object=True)]
ClaimTemplates = Annotated[list[dict[str, Any]], schema(any_object=True)]


class UpdateType(StrEnum):
    """When pods are updated."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class PodUpdatePolicy(StrEnum):
    """How a pod gets to another revision."""

    RECREATE = "ReCreate"
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"
    IN_PLACE_ONLY = "InPlaceOnly"


class _Typed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all: frozen, camelCase in JSON, absent fields stay absent."""


class LabelSelectorRequirement(_Typed, frozen=True, kw_only=True):
    """One expression of a label selector."""

    key: str
    operator: str
    values: Annotated[list[str], schema(list_type="atomic")] | None = None


class LabelSelector(_Typed, frozen=True, kw_only=True):
    """`meta/v1 LabelSelector`."""

    match_expressions: Annotated[list[LabelSelectorRequirement], schema(list_type="atomic")] | None = None
    match_labels: dict[str, str] | None = None


Selector = Annotated[LabelSelector, schema(map_type="atomic")]


class ScaleStrategy(_Typed, frozen=True, kw_only=True):
    """How pods come and go."""

    enable_pvc_reuse: SchemaFalse = msgspec.field(name="enablePVCReuse", default=False)
    exclude_preparing_delete: bool = False
    max_unavailable: IntOrString | None = None
    pods_to_delete: list[str] | None = None


class InPlaceUpdateStrategy(_Typed, frozen=True, kw_only=True):
    """Settings of updates in place."""

    grace_period_seconds: Int32 = 0
    image_pre_download_min_updated_ready_pods: Int32 | None = None
    image_pre_download_parallelism: IntOrString | None = None
    image_pre_download_timeout_seconds: Int32 | None = None


class OrderPriorityTerm(_Typed, frozen=True, kw_only=True):
    """Pods that carry the label go by the number at the end of its value."""

    ordered_key: str


class WeightPriorityTerm(_Typed, frozen=True, kw_only=True):
    """Pods that match weigh this much more."""

    match_selector: Selector
    weight: Int32


class PriorityStrategy(_Typed, frozen=True, kw_only=True):
    """Which pods are updated first. Only one of the lists may be used."""

    order_priority: list[OrderPriorityTerm] | None = None
    weight_priority: list[WeightPriorityTerm] | None = None


class ScatterTerm(_Typed, frozen=True, kw_only=True):
    """Pods with this label are spread over the rollout. Admission adds a missing value."""

    key: str
    value: Annotated[str, schema(required=True)] = ""


class RollingUpdate(_Typed, frozen=True, kw_only=True):
    """How a rolling update goes."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    partition: IntOrString | None = None
    paused: bool = False
    pod_update_policy: str = ""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None


class UpdateStrategy(_Typed, frozen=True, kw_only=True):
    """When and how pods are updated."""

    rolling_update: RollingUpdate | None = None
    type: str = ""


class CloneSetSpec(_Typed, frozen=True, kw_only=True):
    """What is wanted."""

    lifecycle: Lifecycle | None = None
    min_ready_seconds: Int32 = 0
    progress_deadline_seconds: Int32 | None = None
    replicas: Int32 = 1
    revision_history_limit: Int32 = 10
    scale_strategy: ScaleStrategy | None = None
    selector: Selector
    template: PodTemplate
    update_strategy: UpdateStrategy | None = None
    volume_claim_templates: ClaimTemplates | None = None

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The block, when there is one (also under OnDelete)."""
        return self.update_strategy.rolling_update if self.update_strategy else None

    @property
    def is_on_delete(self) -> bool:
        """Whether pods only change when somebody deletes them."""
        return self.update_strategy is not None and self.update_strategy.type == UpdateType.ON_DELETE

    @property
    def is_paused(self) -> bool:
        """Whether updating is stopped; scaling goes on."""
        return self.rolling_update is not None and self.rolling_update.paused

    @property
    def reuses_claims(self) -> bool:
        """Whether a new pod takes over the claims, and with them the id, of one that somebody deleted."""
        return self.scale_strategy is not None and self.scale_strategy.enable_pvc_reuse

    @property
    def policy(self) -> str:
        """A `PodUpdatePolicy`; ReCreate when not said."""
        block = self.rolling_update
        return (block.pod_update_policy if block else "") or PodUpdatePolicy.RECREATE


class CloneSetCondition(_Typed, frozen=True, kw_only=True):
    """One condition of the status."""

    type: str
    status: str
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str = ""
    reason: str = ""


class CloneSetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is. Counts are pods that are neither finished nor terminating."""

    available_replicas: Count = 0
    collision_count: Int32 | None = None
    conditions: list[CloneSetCondition] | None = None
    current_revision: str = ""
    expected_updated_replicas: Int32 = 0
    label_selector: str = ""
    observed_generation: Int64 = 0
    ready_replicas: Count = 0
    replicas: Count = 0
    update_revision: str = ""
    updated_available_replicas: Int32 = 0
    updated_ready_replicas: Count = 0
    updated_replicas: Count = 0

    def document(self) -> dict[str, Any]:
        """As it is written: the required counts always, the rest only when there is something to say."""
        doc: dict[str, Any] = msgspec.to_builtins(self)
        return {field: value for field, value in doc.items() if value or field in _ALWAYS_WRITTEN}

    def condition(self, kind: str) -> CloneSetCondition | None:
        """The condition of this type, or None."""
        return next((one for one in self.conditions or () if one.type == kind), None)


_ALWAYS_WRITTEN: Final = frozenset(
    {"availableReplicas", "readyReplicas", "replicas", "updatedReadyReplicas", "updatedReplicas"}
)


class ObjectMeta(_Typed, frozen=True, kw_only=True):
    """The part of the metadata that the controller reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class CloneSet(_Typed, frozen=True, kw_only=True):
    """One CloneSet as the API server stores it."""

    api_version: str = CLONE_SETS.api_version
    kind: str = CLONE_SETS.kind
    metadata: Annotated[ObjectMeta, schema(any_metadata=True)]
    spec: CloneSetSpec
    status: CloneSetStatus | None = None
