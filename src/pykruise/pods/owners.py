"""Whose pod it is, as far as all kinds need to know.

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.owners import controller_of

__all__ = ["KRUISE_APPS", "is_of_kruise_workload"]

KRUISE_APPS: Final = "apps.kruise.io"
"""The API group of OpenKruise's workloads."""


def is_of_kruise_workload(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's controller is of group apps.kruise.io, in whichever version."""
    owner = controller_of(pod)
    return (
        owner is not None and owner.api_version.partition("/")[0] == KRUISE_APPS and "/" in owner.api_version
    )
