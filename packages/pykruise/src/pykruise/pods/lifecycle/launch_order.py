"""Launch order of a pod's containers: names that the webhook, the controller and updates share.

Each container refers to a key of the ConfigMap `<pod>-barrier`, which the kubelet waits for. A controller adds the
keys, highest priority first. Pure, without imports from this project. This is the rule of OpenKruise's container launch
priority.
"""

from typing import Final

BARRIER_VARIABLE: Final = "KRUISE_CONTAINER_BARRIER"
"""Environment variable of a container; its ConfigMap key (`p_<number>`) is the container's launch priority."""

COMPLETED_ANNOTATION: Final = "apps.kruise.io/container-launch-priority-completed"
"""`true` on a pod with all barriers open."""

_PREFIX: Final = "p_"


def format_barrier_name(pod: str) -> str:
    """Name of the pod's ConfigMap."""
    return f"{pod}-barrier"


def format_barrier_key(priority: int) -> str:
    """ConfigMap key that containers of this priority wait for."""
    return f"{_PREFIX}{priority}"


def priority_of_key(key: str) -> int:
    """Launch priority of a ConfigMap key. A key that is not `p_<number>` has priority 0, so that it is added too."""
    try:
        return int(key.removeprefix(_PREFIX))
    except ValueError:
        return 0
