"""How containers of a pod start one level after the other: names that webhook, controller and updates share.

Each container refers to a key of the ConfigMap `<pod>-barrier`, which the kubelet waits for; a controller adds
the keys, highest priority first. Pure, a leaf. Rule: OpenKruise's container launch priority.
"""

from typing import Final

BARRIER_VARIABLE: Final = "KRUISE_CONTAINER_BARRIER"
"""Its ConfigMap key (`p_<number>`) is the container's launch priority."""

COMPLETED_ANNOTATION: Final = "apps.kruise.io/container-launch-priority-completed"
"""`true` on a pod whose last barrier is open."""

_PREFIX: Final = "p_"


def barrier_name(pod: str) -> str:
    """The ConfigMap of the pod of this name."""
    return f"{pod}-barrier"


def barrier_key(priority: int) -> str:
    """The key that containers of this priority wait for."""
    return f"{_PREFIX}{priority}"


def priority_of_key(key: str) -> int:
    """0 for a key that is not `p_<number>`: such a container still takes part."""
    try:
        return int(key.removeprefix(_PREFIX))
    except ValueError:
        return 0
