"""Sockets of container runtimes that an agent tries, below the folder that is mounted for it."""

from typing import Final

__all__ = ["SOCKETS"]

SOCKETS: Final = (
    "containerd.sock",
    "containerd/containerd.sock",
    "crio.sock",
    "crio/crio.sock",
    "cri-dockerd.sock",
    "cri-dockerd/cri-dockerd.sock",
)
"""Socket paths, tried in this order. OpenKruise's agent tries them in the same order."""
