"""The readiness gate KruisePodReady, given to pods whose readiness this project may want to hold back.

Pure. Rule: OpenKruise gives it to pods of its own workloads, or with a feature gate to every pod.
"""

from typing import Final

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.kube.values.cel import ALWAYS, Interests, both
from pykruise.pods.view.keys import KRUISE_POD_READY
from pykruise.pods.view.owners import is_of_kruise_workload

__all__ = ["OF_KRUISE_WORKLOAD", "ReadinessGate", "with_readiness_gate"]

OF_KRUISE_WORKLOAD: Final = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
    'has(o.controller) && o.controller == true && o.apiVersion.startsWith("apps.kruise.io/"))'
)
"""CEL: the pod's controller is of group apps.kruise.io."""

_LACKS_IT: Final = (
    "!(has(object.spec.readinessGates) && object.spec.readinessGates.exists(g, "
    f'g.conditionType == "{KRUISE_POD_READY}"))'
)
"""CEL: it does not come with the gate already, as pods do whose workload updates them in place."""


def with_readiness_gate(pod: Document) -> Document | None:
    """The pod with the gate at the end of its gates, or None when it has it."""
    spec = pod.get("spec") or {}
    gates = spec.get("readinessGates") or []
    if any(gate.get("conditionType") == KRUISE_POD_READY for gate in gates):
        return None
    return {**pod, "spec": {**spec, "readinessGates": [*gates, {"conditionType": KRUISE_POD_READY}]}}


class ReadinessGate:
    """The step. `for_all`: gate KruisePodReadinessGate."""

    name = "readiness-gate"

    def __init__(self, *, for_all: bool) -> None:
        self._for_all = for_all

    def wanted(self, interests: Interests) -> str:
        """Pods of OpenKruise's workloads, or all, that do not come with it."""
        return both(ALWAYS if self._for_all else OF_KRUISE_WORKLOAD, _LACKS_IT)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if not self._for_all and not is_of_kruise_workload(pod):
            return None
        return with_readiness_gate(pod)
