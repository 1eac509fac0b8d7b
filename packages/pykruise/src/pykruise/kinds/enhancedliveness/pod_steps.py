"""Enhanced liveness: probes are taken from the kubelet and kept in an annotation.

Pure. Rule: OpenKruise's gate EnhancedLivenessProbe, for pods of its own workloads that ask for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.values.cel import Interests, both
from pykruise.plans.pod_steps import PodSteps, StepContext
from pykruise.pods.view.owners import OF_KRUISE_WORKLOAD, is_of_kruise_workload

USES_ANNOTATION: Final = "apps.kruise.io/using-enhanced-liveness"
PROBES_ANNOTATION: Final = "apps.kruise.io/container-probe-context"

_ASKS_FOR_IT: Final = (
    f'has(object.metadata.annotations) && "{USES_ANNOTATION}" in object.metadata.annotations && '
    f'object.metadata.annotations["{USES_ANNOTATION}"] == "true"'
)
"""CEL: the pod's annotation says so."""


def with_probes_moved(pod: Document) -> Document | None:
    """The pod without liveness probes, and with all of them in the annotation; None when it has none."""
    spec = pod.get("spec") or {}
    containers: Sequence[Mapping[str, Any]] = spec.get("containers") or []
    probes = [
        {"name": container.get("name", ""), "livenessProbe": container["livenessProbe"]}
        for container in containers
        if container.get("livenessProbe")
    ]
    if not probes:
        return None
    metadata = pod.get("metadata") or {}
    annotations = {**annotations_of(pod), PROBES_ANNOTATION: orjson.dumps(probes).decode()}
    bare = [
        {key: value for key, value in container.items() if key != "livenessProbe"} for container in containers
    ]
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, "containers": bare}}


class EnhancedLiveness:
    """The step of `/mutate-pod`."""

    def __init__(self, _: StepContext) -> None:
        """The pod alone decides."""

    def wanted(self, interests: Interests) -> str:
        """Pods of OpenKruise's workloads that ask for it."""
        return both(OF_KRUISE_WORKLOAD, _ASKS_FOR_IT)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if annotations_of(pod).get(USES_ANNOTATION) != "true" or not is_of_kruise_workload(pod):
            return None
        return with_probes_moved(pod)


STEPS: Final = PodSteps(name="enhanced-liveness", order=70, mutate=EnhancedLiveness)
