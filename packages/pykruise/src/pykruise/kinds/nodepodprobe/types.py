"""The NodePodProbe kind, v1alpha1 (its only version). Its parts are shared: pods/probes/api.py.

JSON of the API server ──▶ NodePodProbe ──▶ its schema; for decisions see pods/probes/views.py
"""

from pykruise.kube.schemas.types import ApiObject
from pykruise.pods.probes.api import NODE_POD_PROBES, NodePodProbeSpec, NodePodProbeStatus

__all__ = ["NODE_POD_PROBES", "NodePodProbe"]


class NodePodProbe(ApiObject, frozen=True, kw_only=True):
    """Lists the probes that the agent on the node with the same name runs. It is written by the manager, not by
    users.
    """

    api_version: str = NODE_POD_PROBES.api_version
    kind: str = NODE_POD_PROBES.kind
    spec: NodePodProbeSpec | None = None
    status: NodePodProbeStatus | None = None
