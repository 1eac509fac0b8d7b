"""The readiness gates that this project serves: `InPlaceUpdateReady` and `KruisePodReady`.

pod ──▶ missing_conditions() ──▶ conditions that let a pod become Ready
pod + who + why ──▶ hold_back() / let_go() ──▶ conditions for one patch of `pods/status`

Pure. What comes back are entries of `status.conditions` for a strategic merge patch (merged by type); an
empty list means nothing is to be written. A patch of `pods/status` may carry labels and annotations too: the
API server keeps spec, deletion time and owners of the stored pod and takes the rest. So a new pod needs one
write for its conditions and its lifecycle state together.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods import keys
from pykruise.pods.views import ConditionView, PodView

__all__ = ["PRE_DELETE_HOOK", "PRE_UPDATE_HOOK", "hold_back", "let_go", "missing_conditions"]

USER_AGENT: Final = "Lifecycle"
PRE_DELETE_HOOK: Final = "preDeleteHook"
PRE_UPDATE_HOOK: Final = "preUpdateHook"

_Writer = tuple[str, str]
"""Who holds a pod back, and why: user agent and key."""


def missing_conditions(pod: PodView, *, now: Instant) -> list[Document]:
    """The conditions that the pod's `open_gates` wait for."""
    return [_true(gate, pod.condition(gate), now=now) for gate in pod.open_gates]


def hold_back(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions that take the pod out of service because of `key`; none for a pod without the gate."""
    if keys.KRUISE_POD_READY not in pod.readiness_gates:
        return []
    condition = pod.condition(keys.KRUISE_POD_READY)
    writers = _writers(condition)
    entry = (USER_AGENT, key)
    if entry in writers and condition is not None and condition.status == "False":
        return []
    held = _kruise_ready(sorted({*writers, entry}), now=now)
    return [held, *_ready_after(pod, held, now=now)]


def let_go(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions that take `key` back; True when no other writer has one. Ready follows by the kubelet."""
    if keys.KRUISE_POD_READY not in pod.readiness_gates:
        return []
    writers = _writers(pod.condition(keys.KRUISE_POD_READY))
    entry = (USER_AGENT, key)
    if entry not in writers:
        return []
    return [_kruise_ready([one for one in writers if one != entry], now=now)]


def _true(kind: str, old: ConditionView | None, *, now: Instant) -> Document:
    found: Document = {"type": kind, "status": "True", "lastTransitionTime": format_time(now)}
    # Merged into the stored entry, so what must not stay is nulled.
    if old is not None and old.reason:
        found["reason"] = None
    if old is not None and old.message:
        found["message"] = None
    return found


def _writers(condition: ConditionView | None) -> list[_Writer]:
    """The reasons listed in the condition's message; an unreadable message lists none."""
    try:
        entries: Any = json.loads(condition.message or "[]") if condition else []
        return sorted((str(entry["userAgent"]), str(entry["key"])) for entry in entries)
    except (ValueError, TypeError, KeyError):
        return []


def _kruise_ready(writers: Sequence[_Writer], *, now: Instant) -> Document:
    entries = [{"userAgent": agent, "key": key} for agent, key in writers]
    return {
        "type": keys.KRUISE_POD_READY,
        "status": "False" if entries else "True",
        "message": json.dumps(entries, separators=(",", ":")),
        "lastTransitionTime": format_time(now),
    }


def _ready_after(pod: PodView, changed: Document, *, now: Instant) -> list[Document]:
    """The pod's own Ready condition, when the changed gate turns it; the kubelet would take a moment."""
    ready, containers = pod.condition("Ready"), pod.condition("ContainersReady")
    if ready is None or containers is None or containers.status != "True":
        return []
    statuses = {condition.type: condition.status for condition in pod.conditions}
    statuses[changed["type"]] = changed["status"]
    open_gates = [
        f"the status of pod readiness gate {gate!r} is {statuses[gate]!r}, not 'True'"
        if gate in statuses
        else f"the condition of pod readiness gate {gate!r} does not exist"
        for gate in pod.readiness_gates
        if statuses.get(gate) != "True"
    ]
    status = "False" if open_gates else "True"
    if ready.status == status:
        return []
    found: Document = {"type": "Ready", "status": status, "lastTransitionTime": format_time(now)}
    if open_gates:
        found |= {"reason": "ReadinessGatesNotReady", "message": ", ".join(open_gates)}
    else:
        found |= {"reason": None, "message": None}
    return [found]
