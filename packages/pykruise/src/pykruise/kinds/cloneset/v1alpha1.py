"""The CloneSet kind in its older version, v1alpha1: what differs from the hub version.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only;
conversion.py goes between the two.
"""

import msgspec

from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetStatus, CommonSpec
from pykruise.kube.api import ApiObject, IntOrString, Typed
from pykruise.pods.api import InPlaceUpdateStrategy, PriorityStrategy, ScatterTerm

__all__ = ["CloneSetV1Alpha1"]


class ScaleStrategyV1Alpha1(Typed, frozen=True, kw_only=True):
    """How pods come and go."""

    disable_pvc_reuse: bool = msgspec.field(name="disablePVCReuse", default=False)
    """Whether a new pod gets claims of its own instead of those of a pod that was deleted by hand."""
    max_unavailable: IntOrString | None = None
    """How many pods may be unavailable while the set grows, as a number or a share of replicas; no limit by
    default."""
    pods_to_delete: list[str] | None = None
    """Names of pods to delete before any other. A name is taken off the list when its pod is gone."""


class UpdateStrategyV1Alpha1(Typed, frozen=True, kw_only=True):
    """When and how pods are updated."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_surge: IntOrString | None = None
    """Pods above replicas while updating, as a number or a share of replicas, rounded up; 0 by default."""
    max_unavailable: IntOrString | None = None
    """Pods that may be unavailable while updating, as a number or a share of replicas; 20% by default."""
    partition: IntOrString | None = None
    """Pods that stay at older revisions, as a number or a share of replicas; 0 by default."""
    paused: bool = False
    """Whether updating is stopped; scaling goes on."""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None
    """Pods that are spread over the rollout."""
    type: str = ""
    """ReCreate (the default), InPlaceIfPossible, InPlaceOnly, or OnDelete: pods change only when a user
    deletes them."""


class CloneSetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """What is wanted."""

    scale_strategy: ScaleStrategyV1Alpha1 | None = None
    update_strategy: UpdateStrategyV1Alpha1 | None = None


class CloneSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """A set of interchangeable pods: scaled with chosen victims, updated by recreation or in place."""

    api_version: str = f"{CLONE_SETS.group}/v1alpha1"
    kind: str = CLONE_SETS.kind
    spec: CloneSetSpecV1Alpha1
    status: CloneSetStatus | None = None
