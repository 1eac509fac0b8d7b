"""Results of ended ContainerRecreateRequests, and what a person does about a failure.

RecreationSnapshot of an ended request ──▶ explain_result() ──▶ Reason

Pure.
"""

import math
from enum import StrEnum
from typing import Final

from pykruise.kinds.containerrecreaterequest.view import RecreationSnapshot, RequestView, find_unfinished
from pykruise.kube.clock import parse_optional_time
from pykruise.pods.corrections import read_log
from pykruise.pods.reasons import Code
from pykruise.pods.template.defaults import USUAL_GRACE_S
from pykruise.runtime.reasons import Reason


class RequestEnding(StrEnum):
    """Reasons why a request ended without having been carried out, as messages of the status. The status has no other
    field for the reason; OpenKruise uses the same messages.
    """

    POD_GONE = "pod has gone"
    NO_RESPONSE = "daemon has not responded for a long time"
    TOO_LATE = "recreating has exceeded the activeDeadlineSeconds"


def explain_result(snapshot: RecreationSnapshot) -> Reason:
    """Return the result of the request: all containers were recreated, some failed, or the request ended early."""
    request = snapshot.request
    said = request.status.message or ""
    states = request.status.container_recreate_states or ()
    if failed := [state for state in states if state.phase == "Failed"]:
        words = "; ".join(
            f"container {recreate_state.name}: {recreate_state.message or 'the recreation failed'}"
            for recreate_state in failed
        )
        return Reason(Code.JOB_FAILED, words, _try_again(request, failed[0].name))
    wanted = len(request.spec.containers) if request.spec else 0
    if request.status.phase != "Failed" and sum(state.phase == "Succeeded" for state in states) >= wanted:
        return Reason(Code.JOB_OVER, said or "the request has ended")
    match said:
        case RequestEnding.POD_GONE:
            return Reason(Code.NO_TARGET, said, "create a request for an existing pod")
        case RequestEnding.NO_RESPONSE:
            return Reason(Code.NO_AGENT, "the agent of the pod's node has not begun the recreation", _AGENT)
        case RequestEnding.TOO_LATE:
            return _explain_deadline(snapshot)
        case _:
            words = said or "the pod ended before its containers were recreated"
            return Reason(Code.JOB_FAILED, words, _try_again(request, find_unfinished(request)))


def _explain_deadline(snapshot: RecreationSnapshot) -> Reason:
    """Return why a request failed at its deadline. The deadline is perhaps shorter than minStartedSeconds, or shorter
    than the time until the first probe.
    """
    request = snapshot.request
    container, run_s = find_unfinished(request), request.strategy.min_started_seconds
    words = f"container {container} was not recreated within spec.activeDeadlineSeconds"
    deadline_s = (request.spec.active_deadline_seconds if request.spec is not None else None) or 0
    probed_s = snapshot.probe_delay_s
    if run_s < deadline_s <= probed_s:
        why = (
            f"{words} ({deadline_s} s), and its readiness is probed only {probed_s} s after its start"
            " (initialDelaySeconds)"
        )
        return Reason(Code.JOB_FAILED, why, _with_more_time(request, probed_s))
    late_s = _find_delay(snapshot)
    if late_s is not None and 0 < late_s <= _LATE_S:
        ready_s = math.ceil((snapshot.ready_since or 0.0) - request.created_at)
        why = f"{words} ({deadline_s} s): its pod became ready {ready_s} s after the creation of the request"
        return Reason(Code.JOB_FAILED, why, _create_with_deadline(max(ready_s, run_s) + _START_S))
    was_ready = late_s is not None and late_s <= 0
    if deadline_s > run_s and not (was_ready and run_s):
        return Reason(Code.JOB_FAILED, words, _try_again(request, container))
    why = (
        f"{words} ({deadline_s} s), because the new container must run for {run_s} s first "
        "(spec.strategy.minStartedSeconds)"
    )
    if late_s is not None and was_ready:
        why += f"; at the deadline, its pod had been ready for {-late_s:.0f} s"
    return Reason(Code.JOB_FAILED, why, _with_more_time(request, max(run_s, deadline_s)))


def _find_delay(snapshot: RecreationSnapshot) -> float | None:
    """Return the seconds from the end of the request until its pod became ready with the new container; negative: the
    pod was ready at the end. None if it is not ready, or if it was ready before the request, with the old container.
    """
    request, ready_since = snapshot.request, snapshot.ready_since
    ended_at = parse_optional_time(request.status.completion_time)
    if ended_at is None or ready_since is None or ready_since < request.created_at:
        return None
    return ready_since - ended_at


def _with_more_time(request: RequestView, needed_s: int) -> str:
    """Return the remedy for a deadline that is too short. `needed_s`: seconds needed after the start of the new
    container. The old one must be stopped first, and the new one created.
    """
    strategy = request.strategy
    stop_s, held_s = strategy.termination_grace_period_seconds, strategy.unready_grace_period_seconds or 0
    enough_s = needed_s + (USUAL_GRACE_S if stop_s is None else stop_s) + held_s + _START_S
    return f"{_create_with_deadline(enough_s)}: the container must also be stopped and started in this time"


def _create_with_deadline(enough_s: int) -> str:
    return f"create the request again with spec.activeDeadlineSeconds {enough_s} or more"


_START_S: Final = 30
"""Seconds in which a container is normally created and becomes ready."""
_LATE_S: Final = 3600
"""If a pod becomes ready within this number of seconds after the deadline, it was probably only slow. If it becomes
ready later, a person has probably corrected it.
"""


def _try_again(request: RequestView, container: str) -> str:
    """Return the remedy for a request that ended before this container was recreated."""
    pod = request.spec.pod_name if request.spec is not None else ""
    log = read_log(request.namespace, pod, container)
    return (
        f"{log}, and correct what prevents the container from starting or becoming ready; then create the request "
        "again"
    )


_AGENT: Final = "start the agent on that node, or bring the node back; then create the request again"
