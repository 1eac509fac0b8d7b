"""The Advanced StatefulSet kind in its older version, v1alpha1: the hub version without its newer fields.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version.
"""

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, CommonSpec, CommonStatus
from pykruise.kube.schemas.types import ApiObject


class StatefulSetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the StatefulSet."""


class StatefulSetStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the StatefulSet."""


class StatefulSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Pods with their own ordinals, names and claims. Updates can run in parallel, in place, or in an order that you
    choose.
    """

    api_version: str = f"{ADVANCED_STATEFUL_SETS.group}/v1alpha1"
    kind: str = ADVANCED_STATEFUL_SETS.kind
    spec: StatefulSetSpecV1Alpha1
    status: StatefulSetStatusV1Alpha1 | None = None
