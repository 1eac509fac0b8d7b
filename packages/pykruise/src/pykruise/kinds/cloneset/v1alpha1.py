"""The CloneSet kind in its older version, v1alpha1: the differences from the hub version.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version;
conversion.py converts between the two.
"""

import msgspec

from pykruise.kinds.cloneset.types import (
    CLONE_SETS,
    CloneSetStatus,
    CommonRollingUpdate,
    CommonScaleStrategy,
    CommonSpec,
)
from pykruise.kube.schemas.types import ApiObject


class ScaleStrategyV1Alpha1(CommonScaleStrategy, frozen=True, kw_only=True):
    """Strategy for creating and deleting pods."""

    disable_pvc_reuse: bool = msgspec.field(name="disablePVCReuse", default=False)
    """Whether a new pod gets new PersistentVolumeClaims instead of those of a pod that was deleted manually."""


class UpdateStrategyV1Alpha1(CommonRollingUpdate, frozen=True, kw_only=True):
    """Strategy for updating pods."""

    type: str = ""
    """ReCreate (the default), InPlaceIfPossible, InPlaceOnly, or OnDelete: a pod gets the new template only after it is
    deleted manually.
    """


class CloneSetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the CloneSet."""

    scale_strategy: ScaleStrategyV1Alpha1 | None = None
    update_strategy: UpdateStrategyV1Alpha1 | None = None


class CloneSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """A set of interchangeable pods. The user can choose which pods a scale-in deletes. Updates recreate pods or update
    them in place.
    """

    api_version: str = f"{CLONE_SETS.group}/v1alpha1"
    kind: str = CLONE_SETS.kind
    spec: CloneSetSpecV1Alpha1
    status: CloneSetStatus | None = None
