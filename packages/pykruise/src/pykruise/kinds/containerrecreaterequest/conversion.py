"""Conversion of ContainerRecreateRequests between v1alpha1 and v1beta1. The rules are in agent/rules/versions.py,
because agents use them too.
"""

from pykruise.agent.rules.versions import (
    CONTAINER_RECREATE_REQUEST_VERSIONS as CONVERSION,
)
from pykruise.agent.rules.versions import PRE_RECREATE_GRACE, SNAPSHOT, UNREADY_SINCE

__all__ = ["CONVERSION", "PRE_RECREATE_GRACE", "SNAPSHOT", "UNREADY_SINCE"]
