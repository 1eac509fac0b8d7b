"""NodeImages between v1alpha1 and v1beta1: the rules are those of the agents, which read them too."""

from pykruise.agent.rules.versions import NODE_IMAGE_VERSIONS as CONVERSION

__all__ = ["CONVERSION"]
