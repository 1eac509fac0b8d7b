"""Conversion of NodeImages between v1alpha1 and v1beta1. The rules are shared with the node agents, which read
NodeImages in both versions.
"""

from pykruise.agent.rules.versions import NODE_IMAGE_VERSIONS as CONVERSION

__all__ = ["CONVERSION"]
