"""The SidecarSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ SidecarSet ──▶ injection, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. Sidecars stay documents: a `core/v1 Container` with
some fields of our own, which `SidecarFields` reads. Volumes stay documents too.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merged_like, schema, shaped_like
from pykruise.kube.schemas.types import (
    ApiObject,
    Condition,
    Count,
    Int32,
    Int64,
    IntOrString,
    LocalObjectReference,
    ObjectFieldSelector,
    Selector,
    Status,
    Typed,
)
from pykruise.pods.api import PriorityStrategy, ScatterTerm

SIDECAR_SETS: Final = Resource("apps.kruise.io", "v1beta1", "sidecarsets", "SidecarSet", namespaced=False)


class UpgradeStrategy(Typed, frozen=True, kw_only=True):
    """How the sidecar gets another image."""

    hot_upgrade_empty_image: str = ""
    """Image of the idle one of the two containers of a hot upgrade."""
    upgrade_type: str = ""
    """ColdUpgrade (the default): the container is restarted. HotUpgrade: a second container takes over. Cannot
    be changed."""


class SharePolicy(Typed, frozen=True, kw_only=True):
    """Whether the sidecar gets what the pod's own containers mount."""

    type: str = ""
    """enabled, or disabled (the default)."""


class TransferEnvSource(Typed, frozen=True, kw_only=True):
    """Where the name of a container stands."""

    field_ref: Annotated[ObjectFieldSelector, schema(map_type="atomic")] | None = None
    """A field of the pod."""


class TransferEnv(Typed, frozen=True, kw_only=True):
    """Environment variables that the sidecar gets from another container of the pod."""

    env_name: str = ""
    """Name of one variable."""
    env_names: list[str] | None = None
    """Names of several variables."""
    source_container_name: str = ""
    """Name of the other container."""
    source_container_name_from: TransferEnvSource | None = None


class ResourceAmounts(Typed, frozen=True, kw_only=True):
    """Expressions that give amounts."""

    cpu: str = ""
    """Expression of the cpu, such as max(cpu*50%, 100m)."""
    memory: str = ""
    """Expression of the memory, such as max(memory*50%, 100Mi)."""


class ResourceExpressions(Typed, frozen=True, kw_only=True):
    """Resources of the sidecar, computed from those of the pod's own containers."""

    limits: ResourceAmounts | None = None
    """Limits of the sidecar."""
    requests: ResourceAmounts | None = None
    """Requests of the sidecar."""


class ResourcesPolicy(Typed, frozen=True, kw_only=True):
    """Compute resources of the sidecar, reckoned when it is injected."""

    resources_expr: ResourceExpressions
    target_containers_mode: Annotated[str, schema(enum=("sum", "max"))]
    """Whether cpu and memory in expressions are the sum over the pod's own containers, or the greatest."""
    target_containers_name_regex: Annotated[str, schema(default=".*")] = ".*"
    """Which of the pod's own containers count; all by default."""


class SidecarFields(Typed, frozen=True, kw_only=True):
    """A core/v1 Container that is put into pods, with settings of its own."""

    pod_inject_policy: str = ""
    """BeforeAppContainer or AfterAppContainer: its place among the pod's containers."""
    resources_policy: ResourcesPolicy | None = None
    share_volume_device_policy: SharePolicy | None = None
    """Whether the sidecar gets the volume devices of the pod's own containers."""
    share_volume_policy: SharePolicy | None = None
    """Whether the sidecar gets the volume mounts of the pod's own containers."""
    transfer_env: list[TransferEnv] | None = None
    """Environment variables from other containers."""
    upgrade_strategy: UpgradeStrategy | None = None


Sidecar = Annotated[dict[str, Any], shaped_like(SidecarFields, is_open=True)]
Sidecars = Annotated[list[Sidecar], merged_like("io.k8s.api.core.v1.PodSpec", "containers")]
Volumes = Annotated[list[dict[str, Any]], merged_like("io.k8s.api.core.v1.PodSpec", "volumes")]


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """How sidecars of existing pods are upgraded."""

    max_unavailable: IntOrString | None = None
    """Pods that may be upgraded and not ready, as a number or a share of the matched pods, rounded up; 1 by
    default."""
    partition: IntOrString | None = None
    """Pods that stay at older revisions, as a number or a share of the matched pods; 0 by default."""
    paused: bool = False
    """Whether upgrading is stopped; new pods still get sidecars."""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None
    """Pods that are spread over the rollout."""
    selector: Selector | None = None
    """Only pods with these labels are upgraded. Excludes a partition."""
    type: str = ""
    """RollingUpdate (the default), or NotUpdate: existing pods are left alone."""


class RevisionChoice(Typed, frozen=True, kw_only=True):
    """The revision that new pods get."""

    custom_version: str | None = None
    """The revision with this version of one's own."""
    policy: Annotated[str, schema(default="Always", enum=("Always", "Partial"))] = "Always"
    """Always: all new pods get the revision. Partial: only those that the update strategy leaves at it."""
    revision_name: str | None = None
    """The revision of this name; goes before customVersion."""


class InjectionStrategy(Typed, frozen=True, kw_only=True):
    """How new pods get sidecars."""

    paused: bool = False
    """Whether new pods get none; existing sidecars are still upgraded."""
    revision: RevisionChoice | None = None


class PatchPodMetadata(Typed, frozen=True, kw_only=True):
    """Annotations that pods get with the sidecars."""

    annotations: dict[str, str] | None = None
    """The annotations."""
    patch_policy: str = ""
    """Policy for an existing value: Retain (the default), Overwrite, or MergePatchJson."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    containers: Sidecars | None = None
    """Sidecars; their images can be changed in running pods."""
    image_pull_secrets: list[Annotated[LocalObjectReference, schema(map_type="atomic")]] | None = None
    """Secrets that pods get for pulling the images."""
    init_containers: Sidecars | None = None
    """Init containers, which new pods get."""
    injection_strategy: InjectionStrategy | None = None
    namespace_selector: Selector | None = None
    """Labels of the namespaces whose pods are meant; all namespaces by default."""
    patch_pod_metadata: list[PatchPodMetadata] | None = None
    """Annotations that pods get."""
    revision_history_limit: Int32 | None = None
    """Older revisions that are kept; 10 by default."""
    selector: Selector | None = None
    """Labels of the pods. Must be given, and select something."""
    update_strategy: UpdateStrategy | None = None
    volumes: Volumes | None = None
    """Volumes that sidecars mount, as a list of core/v1 Volume."""


class SidecarSetSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the SidecarSet."""

    custom_version: str = ""
    """A name of one's own for this revision, by which it can be chosen later."""

    @property
    def update_type(self) -> str:
        """Whether existing pods are upgraded; empty: it is not said."""
        return self.update_strategy.type if self.update_strategy else ""

    @property
    def revision_choice(self) -> RevisionChoice | None:
        """The revision that new pods get; None: the one of this spec."""
        return self.injection_strategy.revision if self.injection_strategy else None


class SidecarSetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the SidecarSet."""

    collision_count: Int32 | None = None
    """How often the name of a revision was already taken."""
    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Whether all pods that are to be upgraded are: Ready, Reconciling, Stalled."""
    latest_revision: str = ""
    """Revision of this spec."""
    matched_pods: Count = 0
    """Pods that have sidecars of this set."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    ready_pods: Count = 0
    """Matched pods that are ready and run the sidecars they are to run."""
    updated_pods: Count = 0
    """Matched pods at the latest revision."""
    updated_ready_pods: Int32 = 0
    """Updated pods that are ready."""


class SidecarSet(ApiObject, frozen=True, kw_only=True):
    """Containers that are put into every pod that matches, and upgraded apart from the pods' own workloads."""

    api_version: str = SIDECAR_SETS.api_version
    kind: str = SIDECAR_SETS.kind
    spec: SidecarSetSpec | None = None
    status: SidecarSetStatus | None = None
