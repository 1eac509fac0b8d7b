"""The SidecarSet kind in its older version, v1alpha1: the differences from the hub version.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.sidecarset.types import SIDECAR_SETS, CommonSpec, SidecarSetStatus
from pykruise.kube.schemas.types import ApiObject


class SidecarSetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the SidecarSet."""

    namespace: str = ""
    """The only namespace of the pods. Stored as a namespaceSelector."""


class SidecarSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """SidecarSet injects containers into matching pods and upgrades them independently of the pods' workloads."""

    api_version: str = f"{SIDECAR_SETS.group}/v1alpha1"
    kind: str = SIDECAR_SETS.kind
    spec: SidecarSetSpecV1Alpha1 | None = None
    status: SidecarSetStatus | None = None
