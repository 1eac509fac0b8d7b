"""ContainerRecreateRequests between v1alpha1 and v1beta1: the rules are those of the agents, which read them too."""

from pykruise.kube.node_agent.versions import (
    CONTAINER_RECREATE_REQUEST_VERSIONS as CONVERSION,
)
from pykruise.kube.node_agent.versions import PRE_RECREATE_GRACE, SNAPSHOT, UNREADY_SINCE

__all__ = ["CONVERSION", "PRE_RECREATE_GRACE", "SNAPSHOT", "UNREADY_SINCE"]
