"""Enhanced liveness: admission moves the liveness probes of a pod into an annotation, so the kubelet does not run them.

Pure. This is the rule of OpenKruise's gate EnhancedLivenessProbe: only pods of OpenKruise's workloads with an
annotation that requests this are changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.values.cel import Interests, join_terms
from pykruise.plans.pod_steps import PodSteps, StepContext
from pykruise.pods.view.owners import OF_KRUISE_WORKLOAD, is_of_kruise_workload

USES_ANNOTATION: Final = "apps.kruise.io/using-enhanced-liveness"
PROBES_ANNOTATION: Final = "apps.kruise.io/container-probe-context"

_ASKS_FOR_IT: Final = (
    f'has(object.metadata.annotations) && "{USES_ANNOTATION}" in object.metadata.annotations && '
    f'object.metadata.annotations["{USES_ANNOTATION}"] == "true"'
)
"""CEL expression: the pod has the annotation that requests enhanced liveness."""


def move_probes(pod: Document) -> Document | None:
    """Return the pod with its liveness probes in the annotation; None if the pod has no liveness probes."""
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
    """The step of the webhook `/mutate-pod`."""

    def __init__(self, _: StepContext) -> None:
        """Ignore the context: only the pod is read."""

    def build_match_condition(self, interests: Interests) -> str:
        """Return a CEL expression that matches pods of OpenKruise's workloads that request enhanced liveness."""
        return join_terms(OF_KRUISE_WORKLOAD, _ASKS_FOR_IT)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if annotations_of(pod).get(USES_ANNOTATION) != "true" or not is_of_kruise_workload(pod):
            return None
        return move_probes(pod)


STEPS: Final = PodSteps(name="enhanced-liveness", order=70, mutate=EnhancedLiveness)
