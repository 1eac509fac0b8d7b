"""Conversion of NodeImages between v1alpha1 and v1beta1. The nodes' agents read NodeImages by the same rules."""

from pykruise.agent.rules.versions import NODE_IMAGE_VERSIONS as CONVERSION

__all__ = ["CONVERSION"]
