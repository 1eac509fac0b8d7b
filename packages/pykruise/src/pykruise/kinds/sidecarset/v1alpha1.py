"""The SidecarSet kind in its older version, v1alpha1: what differs from the hub version.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.sidecarset.types import SIDECAR_SETS, CommonSpec, SidecarSetStatus
from pykruise.kube.schemas.types import ApiObject


class SidecarSetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the SidecarSet."""

    namespace: str = ""
    """The one namespace whose pods are meant; becomes a namespaceSelector when it is stored."""


class SidecarSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Containers that are put into every pod that matches, and upgraded apart from the pods' own workloads."""

    api_version: str = f"{SIDECAR_SETS.group}/v1alpha1"
    kind: str = SIDECAR_SETS.kind
    spec: SidecarSetSpecV1Alpha1 | None = None
    status: SidecarSetStatus | None = None
