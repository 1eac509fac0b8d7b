"""Readiness gate KruisePodReady: admission adds it to pods that pykruise may have to make unready.

Pure. OpenKruise does the same: it adds the gate to pods of its own workloads, or with a feature gate to every pod.
"""

from typing import Annotated, Final

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.kube.values.cel import ALWAYS, Interests, join_terms
from pykruise.plans.pod_steps import PodSteps, StepContext
from pykruise.pods.settings import OnGate
from pykruise.pods.view.keys import KRUISE_POD_READY
from pykruise.pods.view.owners import OF_KRUISE_WORKLOAD, is_of_kruise_workload

_LACKS_IT: Final = (
    "!(has(object.spec.readinessGates) && object.spec.readinessGates.exists(g, "
    f'g.conditionType == "{KRUISE_POD_READY}"))'
)
"""CEL: the pod lacks the gate. Workloads that update pods in place create their pods with the gate."""


def add_readiness_gate(pod: Document) -> Document | None:
    """Return the pod with the gate at the end of its readiness gates; None: it has the gate already."""
    spec = pod.get("spec") or {}
    gates = spec.get("readinessGates") or []
    if any(gate.get("conditionType") == KRUISE_POD_READY for gate in gates):
        return None
    return {**pod, "spec": {**spec, "readinessGates": [*gates, {"conditionType": KRUISE_POD_READY}]}}


class PodReadinessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that change which pods get the readiness gate."""

    for_all: Annotated[bool, OnGate("KruisePodReadinessGate")] = False
    """Whether all pods get the readiness gate."""


class ReadinessGate:
    """The step of `/mutate-pod`."""

    def __init__(self, context: StepContext) -> None:
        settings: PodReadinessSettings = context.settings
        self._for_all = settings.for_all

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that matches pods without the gate: those of OpenKruise's workloads, or all pods."""
        return join_terms(ALWAYS if self._for_all else OF_KRUISE_WORKLOAD, _LACKS_IT)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if not self._for_all and not is_of_kruise_workload(pod):
            return None
        return add_readiness_gate(pod)


STEPS: Final = PodSteps(
    name="readiness-gate", order=10, mutate=ReadinessGate, serves_template=lambda template: True
)
