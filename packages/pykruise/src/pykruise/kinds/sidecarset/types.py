"""The SidecarSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ SidecarSet ──▶ injection, plan
            the same types ──▶ kind.py (its schema)

Names, optional fields and defaults are those of the API. Sidecars and volumes are kept as untyped JSON. A sidecar is a
`core/v1 Container` with additional fields, which `SidecarFields` reads.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merge_like, schema, shaped_like
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
    """Method of changing the sidecar's image in running pods."""

    hot_upgrade_empty_image: str = ""
    """Image that the idle container of a hot upgrade runs."""
    upgrade_type: str = ""
    """ColdUpgrade (the default): the container is restarted. HotUpgrade: a second container starts with the new image
    and replaces the first one. Immutable.
    """


class SharePolicy(Typed, frozen=True, kw_only=True):
    """Whether the sidecar shares the mounts of the pod's own containers."""

    type: str = ""
    """enabled or disabled (the default)."""


class TransferEnvSource(Typed, frozen=True, kw_only=True):
    """Source of a container's name."""

    field_ref: Annotated[ObjectFieldSelector, schema(map_type="atomic")] | None = None
    """Field of the pod that contains the name."""


class TransferEnv(Typed, frozen=True, kw_only=True):
    """Environment variables that are copied from another container of the pod."""

    env_name: str = ""
    """Name of one variable."""
    env_names: list[str] | None = None
    """Names of several variables."""
    source_container_name: str = ""
    """Name of the other container."""
    source_container_name_from: TransferEnvSource | None = None


class ResourceAmounts(Typed, frozen=True, kw_only=True):
    """Expressions for cpu and memory."""

    cpu: str = ""
    """Expression for cpu, such as max(cpu*50%, 100m)."""
    memory: str = ""
    """Expression for memory, such as max(memory*50%, 100Mi)."""


class ResourceExpressions(Typed, frozen=True, kw_only=True):
    """Resources of the sidecar, computed from the resources of the pod's own containers."""

    limits: ResourceAmounts | None = None
    """Limits of the sidecar."""
    requests: ResourceAmounts | None = None
    """Requests of the sidecar."""


class ResourcesPolicy(Typed, frozen=True, kw_only=True):
    """CPU and memory of the sidecar, computed at injection."""

    resources_expr: ResourceExpressions
    target_containers_mode: Annotated[str, schema(enum=("sum", "max"))]
    """Meaning of cpu and memory in expressions: the sum over the pod's own containers, or the maximum."""
    target_containers_name_regex: Annotated[str, schema(default=".*")] = ".*"
    """Regular expression for the names of the pod's own containers whose resources are used. Defaults to all
    containers.
    """


class SidecarFields(Typed, frozen=True, kw_only=True):
    """A core/v1 Container that is injected into pods, with additional settings."""

    pod_inject_policy: str = ""
    """Position relative to the pod's own containers: BeforeAppContainer or AfterAppContainer."""
    resources_policy: ResourcesPolicy | None = None
    share_volume_device_policy: SharePolicy | None = None
    """Whether the sidecar shares the volume devices of the pod's own containers."""
    share_volume_policy: SharePolicy | None = None
    """Whether the sidecar shares the volume mounts of the pod's own containers."""
    transfer_env: list[TransferEnv] | None = None
    """Environment variables that are copied from other containers."""
    upgrade_strategy: UpgradeStrategy | None = None


Sidecar = Annotated[dict[str, Any], shaped_like(SidecarFields, is_open=True)]
Sidecars = Annotated[list[Sidecar], merge_like("io.k8s.api.core.v1.PodSpec", "containers")]
Volumes = Annotated[list[dict[str, Any]], merge_like("io.k8s.api.core.v1.PodSpec", "volumes")]


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for upgrading sidecars in existing pods."""

    max_unavailable: IntOrString | None = None
    """Maximum number of upgraded pods that are not ready, as a number or a percentage of matched pods, rounded up.
    Defaults to 1.
    """
    partition: IntOrString | None = None
    """Number or percentage of matched pods that stay at older revisions. Defaults to 0."""
    paused: bool = False
    """Whether upgrades are paused. New pods still get sidecars."""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None
    """Pods with one of these labels are spread evenly over the rollout, so that they are not upgraded one after
    another.
    """
    selector: Selector | None = None
    """Selects the pods that are upgraded. Must not be combined with a partition."""
    type: str = ""
    """RollingUpdate (the default), or NotUpdate: existing pods are not changed."""


class RevisionChoice(Typed, frozen=True, kw_only=True):
    """Revision that new pods get."""

    custom_version: str | None = None
    """Selects the revision by its customVersion."""
    policy: Annotated[str, schema(default="Always", enum=("Always", "Partial"))] = "Always"
    """Always: all new pods get the revision. Partial: only new pods that the update strategy would not upgrade get it.
    These are all pods while the strategy is paused, pods that its selector does not match, and a random share of the
    other pods, according to a percentage in partition.
    """
    revision_name: str | None = None
    """Name of the revision. Takes precedence over customVersion."""

    @property
    def names_revision(self) -> bool:
        """Whether it names a revision; False: both names are empty."""
        return bool(self.revision_name or self.custom_version)


class InjectionStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for injecting sidecars into new pods."""

    paused: bool = False
    """Whether injection is paused. Existing sidecars are still upgraded."""
    revision: RevisionChoice | None = None


class PatchPodMetadata(Typed, frozen=True, kw_only=True):
    """Annotations that pods get together with the sidecars."""

    annotations: dict[str, str] | None = None
    """The annotations."""
    patch_policy: str = ""
    """Policy for existing values: Retain (the default), Overwrite or MergePatchJson."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    containers: Sidecars | None = None
    """Sidecars. Their images can be changed in running pods."""
    image_pull_secrets: list[Annotated[LocalObjectReference, schema(map_type="atomic")]] | None = None
    """Pull secrets that pods get for the sidecars' images."""
    init_containers: Sidecars | None = None
    """Init containers that new pods get."""
    injection_strategy: InjectionStrategy | None = None
    namespace_selector: Selector | None = None
    """Selects the namespaces of the pods. Defaults to all namespaces."""
    patch_pod_metadata: list[PatchPodMetadata] | None = None
    """Annotations that pods get."""
    revision_history_limit: Int32 | None = None
    """Number of revisions to keep, at least 1. Defaults to 10."""
    selector: Selector | None = None
    """Selects the pods. Required; must not be empty."""
    update_strategy: UpdateStrategy | None = None
    volumes: Volumes | None = None
    """Volumes that the sidecars mount."""


class SidecarSetSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the SidecarSet."""

    custom_version: str = ""
    """User-defined name of this revision, which injectionStrategy can select later."""

    @property
    def update_type(self) -> str:
        """Type of the update strategy; empty: not given."""
        return self.update_strategy.type if self.update_strategy else ""

    @property
    def revision_choice(self) -> RevisionChoice | None:
        """The revision that new pods get; None: the revision of this spec."""
        return self.injection_strategy.revision if self.injection_strategy else None


class SidecarSetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the SidecarSet."""

    collision_count: Int32 | None = None
    """Number of times that the name of a new revision was already taken."""
    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Conditions Ready, Reconciling and Stalled. They report whether all pods that should be upgraded are upgraded."""
    latest_revision: str = ""
    """Name of the revision of this spec."""
    matched_pods: Count = 0
    """Number of pods that have sidecars of this set."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status describes."""
    ready_pods: Count = 0
    """Number of matched pods that are ready and whose sidecars run the images in the pod's spec."""
    updated_pods: Count = 0
    """Number of matched pods at the latest revision."""
    updated_ready_pods: Int32 = 0
    """Number of updated pods that are ready."""


class SidecarSet(ApiObject, frozen=True, kw_only=True):
    """SidecarSet injects containers into matching pods and upgrades them independently of the pods' workloads."""

    api_version: str = SIDECAR_SETS.api_version
    kind: str = SIDECAR_SETS.kind
    spec: SidecarSetSpec | None = None
    status: SidecarSetStatus | None = None
