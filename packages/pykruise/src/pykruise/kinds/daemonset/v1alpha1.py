"""The DaemonSet in its older version, v1alpha1: the fields that differ from the hub version, for its schema.

types.py + this module ──▶ kind.py (schema), conversion.py
"""

from pykruise.kinds.daemonset.types import DAEMON_SETS, CommonSpec, CommonStatus
from pykruise.kube.schemas.types import ApiObject


class DaemonSetStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the DaemonSet. All counts are numbers of nodes."""

    daemon_set_hash: str = ""
    """Hash of the newest revision, as in the labels of the pods."""


class DaemonSetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Runs one pod on every matching node. Pods are updated in place, or recreated, with or without surge."""

    api_version: str = f"{DAEMON_SETS.group}/v1alpha1"
    kind: str = DAEMON_SETS.kind
    spec: CommonSpec
    status: DaemonSetStatusV1Alpha1 | None = None
