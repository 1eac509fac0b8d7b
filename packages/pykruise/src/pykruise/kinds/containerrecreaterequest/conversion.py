"""ContainerRecreateRequests between v1alpha1 and v1beta1: the rules are those of the agents, which read them too."""

from pykruise.agent.rules.versions import (
    CONTAINER_RECREATE_REQUEST_VERSIONS as CONVERSION,
)
from pykruise.agent.rules.versions import PRE_RECREATE_GRACE, SNAPSHOT, UNREADY_SINCE

__all__ = ["CONVERSION", "PRE_RECREATE_GRACE", "SNAPSHOT", "UNREADY_SINCE"]
