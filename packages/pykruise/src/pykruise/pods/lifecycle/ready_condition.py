"""The pod's Ready condition at the moment when one of its readiness gates changes.

pod + the gate's new condition ──▶ compute_ready_after() ──▶ the Ready entry to write together with it, or none

Pure. The kubelet would update Ready shortly afterwards, but taking a pod out of service must not wait for that.
"""

from collections.abc import Sequence
from typing import Protocol

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.view.pod_view import ConditionView


class Gated(Protocol):
    """The part of a pod that its readiness depends on."""

    @property
    def conditions(self) -> Sequence[ConditionView]:
        """All conditions."""

    @property
    def readiness_gates(self) -> Sequence[str]:
        """Types of conditions that must be True."""


def compute_ready_after(pod: Gated, changed: Document, *, now: Instant) -> list[Document]:
    """The Ready entry of a patch that also contains `changed`; empty when Ready does not change.

    Also empty while containers are not ready, or before the kubelet has reported conditions.
    """
    result = {condition.type: condition for condition in pod.conditions}
    ready, containers = result.get("Ready"), result.get("ContainersReady")
    if ready is None or containers is None or containers.status != "True":
        return []
    statuses = {kind: condition.status for kind, condition in result.items()}
    statuses[changed["type"]] = changed["status"]
    closed = [gate for gate in pod.readiness_gates if statuses.get(gate) != "True"]
    status = "False" if closed else "True"
    if ready.status == status:
        return []
    entry: Document = {"type": "Ready", "status": status, "lastTransitionTime": format_time(now)}
    if closed:
        reasons = ", ".join(_describe_closed_gate(gate, statuses.get(gate)) for gate in closed)
        return [{**entry, "reason": "ReadinessGatesNotReady", "message": reasons}]
    return [{**entry, "reason": None, "message": None}]


def _describe_closed_gate(gate: str, status: str | None) -> str:
    if status is None:
        return f"the condition of pod readiness gate {gate!r} does not exist"
    return f"the status of pod readiness gate {gate!r} is {status!r}, not 'True'"
