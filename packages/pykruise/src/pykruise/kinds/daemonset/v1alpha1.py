"""The DaemonSet in its older version, v1alpha1: what differs from the hub version, for its schema.

types.py + this ──▶ crd.py (schema), conversion.py
"""

from pykruise.kinds.daemonset.types import DAEMON_SETS, CommonSpec, CommonStatus
from pykruise.kube.schemas.types import ApiObject


class DaemonSetStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the DaemonSet. Counts are nodes."""

    daemon_set_hash: str = ""
    """Hash of the newest revision, as pods carry it."""


class DaemonSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Runs one pod on every node that fits, and updates them in place, with surge, or node after node."""

    api_version: str = f"{DAEMON_SETS.group}/v1alpha1"
    kind: str = DAEMON_SETS.kind
    spec: CommonSpec
    status: DaemonSetStatusV1Alpha1 | None = None
