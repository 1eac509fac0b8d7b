"""Owners of pods, and owner references to pods: rules for all kinds.

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.kube.values.owners import build_owner_reference, controller_of
from pykruise.pods.view.pod_view import PodView

KRUISE_APPS: Final = "apps.kruise.io"
"""API group of OpenKruise's workloads."""

OF_KRUISE_WORKLOAD: Final = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
    'has(o.controller) && o.controller == true && o.apiVersion.startsWith("apps.kruise.io/"))'
)
"""CEL expression: the controller of the pod is in that group."""


def is_of_kruise_workload(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's controller is in group apps.kruise.io, in any version."""
    owner = controller_of(pod)
    return (
        owner is not None and owner.api_version.partition("/")[0] == KRUISE_APPS and "/" in owner.api_version
    )


def build_pod_reference(pod: PodView) -> Document:
    """Owner reference to the pod for an object that is deleted with the pod but not managed by it."""
    return build_owner_reference(
        api_version=PODS.api_version,
        kind=PODS.kind,
        name=pod.name,
        uid=pod.uid,
        controller=False,
        block_owner_deletion=False,
    )
