"""The row of a pod, as `kubectl get pods` shows it.

a pod, now ──▶ print_pod() ──▶ cells

Pure. This is the rule of Kubernetes' printPod.
"""

from typing import Any

from pykruise.kube.clock import Instant
from pykruise.sandbox.apiserver.printing.cells import (
    NONE,
    Doc,
    age_of,
    format_since,
    is_ending,
    is_true,
    name_of,
    spec_of,
    status_of,
)


def print_pod(pod: Doc, now: Instant) -> list[Any]:
    """Name, ready containers, state, restarts, age; wide: address, nodes, readiness gates."""
    spec, status = spec_of(pod), status_of(pod)
    ready, total, reason, restarts, last_restart = _compute_pod_state(pod)
    shown = str(restarts)
    if restarts and last_restart:
        shown = f"{restarts} ({format_since(last_restart, now)} ago)"
    ips = status.get("podIPs") or ()
    return [
        name_of(pod),
        f"{ready}/{total}",
        reason,
        shown,
        age_of(pod, now),
        (ips[0].get("ip") if ips else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _format_readiness_gates(pod),
    ]


def _compute_pod_state(pod: Doc) -> tuple[int, int, str, int, str]:
    """Number of ready and of all containers, the reason shown as status, restarts, and the time of the last restart."""
    spec, status = spec_of(pod), status_of(pod)
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    conditions = status.get("conditions") or ()
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions
    ):
        reason = "SchedulingGated"
    total = len(spec.get("containers") or ()) + len(_list_sidecar_names(spec))
    init = _compute_init_state(spec, status, reason)
    ready, reason, restarts, last = init.ready, init.reason, init.restarts, init.last
    if not init.unfinished or is_true(conditions, "Initialized"):
        restarts, last = init.sidecar_restarts, init.sidecar_last
        running = False
        for container in reversed(status.get("containerStatuses") or ()):
            restarts += container.get("restartCount") or 0
            last = max(last, _find_last_end(container))
            state = container.get("state") or {}
            waiting, ended = state.get("waiting"), state.get("terminated")
            if waiting is not None and waiting.get("reason"):
                reason = waiting["reason"]
            elif ended is not None:
                reason = _format_end_reason(ended)
            elif container.get("ready") and state.get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed" and running:
            reason = "Running" if is_true(conditions, "Ready") else "NotReady"
    if is_ending(pod):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            reason = "Terminating"
    return ready, total, reason, restarts, last


class _InitState:
    """Part of a pod's row that its init containers determine."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self.last = ""
        self.sidecar_restarts = 0
        self.sidecar_last = ""
        self.unfinished = False


def _compute_init_state(spec: Doc, status: Doc, reason: str) -> _InitState:
    result = _InitState(reason)
    sidecars = _list_sidecar_names(spec)
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        count, last = container.get("restartCount") or 0, _find_last_end(container)
        result.restarts += count
        result.last = max(result.last, last)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            result.sidecar_restarts += count
            result.sidecar_last = max(result.sidecar_last, last)
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            result.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            result.reason = f"Init:{_format_end_reason(ended)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            result.reason = f"Init:{waiting['reason']}"
        else:
            result.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        result.unfinished = True
        break
    return result


def _list_sidecar_names(spec: Doc) -> set[Any]:
    return {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }


def _find_last_end(container: Doc) -> str:
    """Time at which the container's previous run ended. Timestamps are all UTC in one format, so they sort as text."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    return str(ended.get("finishedAt") or "")


def _format_end_reason(ended: Doc) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"


def _format_readiness_gates(pod: Doc) -> str:
    gates = spec_of(pod).get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = status_of(pod).get("conditions") or ()
    return f"{sum(is_true(conditions, gate.get('conditionType') or '') for gate in gates)}/{len(gates)}"
