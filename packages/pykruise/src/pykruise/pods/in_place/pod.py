"""Facts about a pod that in-place updates need, and the writes that in-place updates return.

A kind passes its own view of a pod: any object with these attributes is accepted.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec

from pykruise.kube.documents import Document
from pykruise.pods.in_place.update_spec import WHOLE_POD
from pykruise.pods.settings import FromFlag, FromManager, OnGate
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts, Resources
from pykruise.pods.view.pod_view import ConditionView

STATE_ANNOTATIONS = (keys.IN_PLACE_STATE_ANNOTATION, keys.LEGACY_IN_PLACE_STATE_ANNOTATION)
GRACE_ANNOTATIONS = (keys.IN_PLACE_GRACE_ANNOTATION, keys.LEGACY_IN_PLACE_GRACE_ANNOTATION)
"""The current key, and the old key, which is still read."""

RUNTIME_META_ANNOTATION = keys.RUNTIME_META_ANNOTATION
"""Annotation that the agent on the pod's node writes."""


class UpdatablePod(Protocol):
    """A pod, as an in-place update sees it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """All labels."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """At least the annotations of this engine (state, grace, runtime meta) and the ones that containers read."""

    @property
    def readiness_gates(self) -> Sequence[str]:
        """Types of conditions that must be True."""

    @property
    def conditions(self) -> Sequence[ConditionView]:
        """All conditions."""

    @property
    def containers(self) -> Sequence[ContainerFacts]:
        """Regular containers, in the order of the spec."""

    @property
    def resources(self) -> Resources | None:
        """Resources of the pod as a whole from its spec; None if the spec has none."""

    @property
    def resources_in_force(self) -> Resources | None:
        """Resources of the pod as a whole that its node reports; None if the node reports none."""

    @property
    def container_statuses(self) -> Sequence[ContainerStatusFacts]:
        """Statuses of regular containers, in any order."""

    @property
    def sidecars(self) -> Sequence[ContainerFacts]:
        """Init containers with `restartPolicy: Always`, in the order of the spec."""

    @property
    def init_statuses(self) -> Sequence[ContainerStatusFacts]:
        """Statuses of init containers, in any order."""


RESIZE_PATIENCE_S: Final = 120.0


class InPlaceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates and abilities of the cluster. Defaults are OpenKruise's gates on a current cluster."""

    env_from_metadata: bool = True
    """Gate InPlaceUpdateEnvFromMetadata. Needs an agent on the nodes, which restarts the containers."""
    vertical_scaling: bool = False
    """Gate InPlaceWorkloadVerticalScaling: cpu and memory can change in place."""
    resizes_pods: bool = False
    """Whether resources of a pod as a whole can change too. API servers support it since Kubernetes 1.36."""
    resize_patience_s: float = RESIZE_PATIENCE_S
    """Seconds after which a pod with an infeasible resize is recreated, if it may be recreated."""
    compare_claims: bool = False
    """Gate RecreatePodWhenChangeVCTInCloneSetGate: a change of volume claim templates recreates the pod."""
    uses_resize: bool = True
    """Whether resources are changed through `pods/resize` (see `has_resize`)."""

    @property
    def can_resize_pods(self) -> bool:
        """Whether resources of a pod as a whole can change in place."""
        return self.vertical_scaling and self.resizes_pods and self.uses_resize


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a kind that concern in-place updates."""

    in_place_env_from_metadata: Annotated[bool, OnGate("InPlaceUpdateEnvFromMetadata")] = True
    """Restart containers whose environment reads changed labels or annotations. This needs the agent on the nodes.
    Without an agent, set this to False; otherwise such an update waits for the agent.
    """
    in_place_vertical_scaling: Annotated[bool, OnGate("InPlaceWorkloadVerticalScaling")] = False
    """cpu and memory can change in place."""
    uses_resize: Annotated[bool, FromManager("uses_resize")] = True
    """Whether the API server has `pods/resize` (since Kubernetes 1.32)."""

    resizes_pods: Annotated[bool, FromManager("resizes_pods")] = False
    """Whether the API server changes resources of a pod as a whole (since Kubernetes 1.36)."""

    resize_patience_s: Annotated[
        float,
        FromFlag(
            "inplace-resize-timeout",
            "Time after which a pod is recreated if its resize cannot be carried out (InPlaceIfPossible).",
        ),
    ] = RESIZE_PATIENCE_S

    @property
    def in_place(self) -> InPlaceSettings:
        """Settings for the engine of in-place updates."""
        return InPlaceSettings(
            env_from_metadata=self.in_place_env_from_metadata,
            vertical_scaling=self.in_place_vertical_scaling,
            uses_resize=self.uses_resize,
            resizes_pods=self.resizes_pods,
            resize_patience_s=self.resize_patience_s,
        )


class PodPatch(msgspec.Struct, frozen=True, kw_only=True):
    """One strategic merge patch of a pod.

    The caller adds the pod's uid to `body`. `checked`: the decision depends on the pod as it was read, so the caller
    also adds the resourceVersion of that pod. All other patches are correct even if the pod has changed since.
    """

    body: Document
    because: str
    subresource: Literal["", "status", "resize"] = ""
    checked: bool = False
    is_dry_run: bool = False
    """Whether the patch is sent as a dry run, because a rejection after the pod has left service would be too late."""


def list_running_containers(pod: UpdatablePod) -> list[ContainerFacts]:
    """All containers whose image can change while the pod runs. Names are unique among them."""
    return [*pod.containers, *pod.sidecars]


def list_resizable(pod: UpdatablePod) -> dict[str, ContainerFacts]:
    """Everything with resources that can change, by name: the containers and, under WHOLE_POD, the pod itself."""
    parts = {container.name: container for container in list_running_containers(pod)}
    if pod.resources is not None:
        parts[WHOLE_POD] = ContainerFacts(name=WHOLE_POD, resources=pod.resources)
    return parts


def list_running_statuses(pod: UpdatablePod) -> dict[str, ContainerStatusFacts]:
    """Statuses of these containers by name."""
    return {status.name: status for status in (*pod.container_statuses, *pod.init_statuses)}


def read_annotation(pod: UpdatablePod, spellings: Sequence[str]) -> str | None:
    """Value of the first of the keys that the pod has; None if the pod has none of them."""
    return next((pod.annotations[key] for key in spellings if key in pod.annotations), None)


def add_ready_gates(pod_spec: Mapping[str, Any]) -> Document:
    """The spec of a pod that can be updated in place, with the gates InPlaceUpdateReady and KruisePodReady.

    A pod that is created without KruisePodReady needs the pod webhook, which adds this gate.
    """
    gates = list(pod_spec.get("readinessGates") or ())
    known = {gate.get("conditionType") for gate in gates}
    gates += [
        {"conditionType": literal}
        for literal in (keys.IN_PLACE_READY, keys.KRUISE_POD_READY)
        if literal not in known
    ]
    return {**pod_spec, "readinessGates": gates}
