"""Long periods that the spec of a ContainerRecreateRequest sets, and for which the request waits.

RequestView ──▶ find_long_wait() ──▶ Reason with the end of the period, and what ends it earlier

Pure.
"""

from typing import Final

from pykruise.kinds.containerrecreaterequest.types import RecreateState
from pykruise.kinds.containerrecreaterequest.view import RequestView, find_begin
from pykruise.kube.clock import Instant, format_time, parse_optional_time
from pykruise.pods.reasons import Code
from pykruise.pods.template.defaults import USUAL_GRACE_S
from pykruise.runtime.reasons import Reason

_PENDING: Final = "Pending"


def find_long_wait(request: RequestView) -> Reason | None:
    """Return the reason if the request waits for a long period that its spec sets: the pod is out of service first, or
    a container is being stopped. Otherwise return None.
    """
    states = {state.name: state for state in request.status.container_recreate_states or ()}
    for container in request.spec.containers if request.spec is not None else ():
        state = states.get(container.name)
        if not states:
            return _explain_grace(request, container.name)
        if state is None or state.phase not in ("Succeeded", "Failed"):
            return _explain_stopping(request, container.name, state) if state is not None else None
    return None


def _explain_grace(request: RequestView, container: str) -> Reason | None:
    """Return the reason if the pod is out of service for a long period before the container is stopped; otherwise
    None.
    """
    grace_s, since = request.strategy.unready_grace_period_seconds or 0, _find_grace_begin(request)
    if grace_s <= USUAL_GRACE_S or since is None:
        return None
    delete = f"kubectl delete crr -n {request.namespace} {request.name}"
    return Reason(
        Code.PODS_ACTIVE,
        f"container {container} waits until {format_time(since + grace_s)}: the pod is out of service for {grace_s} s"
        " first (spec.strategy.unreadyGracePeriodSeconds)",
        f"if that is too long, delete request {request.name} ({delete}), which returns the pod to service, and create"
        " it again with a lower spec.strategy.unreadyGracePeriodSeconds",
    )


def _explain_stopping(request: RequestView, container: str, state: RecreateState) -> Reason | None:
    """Return the reason if the container is being stopped and has a long grace period; otherwise None."""
    spec, strategy = request.spec, request.strategy
    grace_s = strategy.termination_grace_period_seconds or 0
    if spec is None or state.phase != _PENDING or state.message or grace_s <= USUAL_GRACE_S:
        return None
    held_s = strategy.unready_grace_period_seconds or 0
    began = (_find_grace_begin(request) or find_begin(request)) + held_s
    delete = f"kubectl delete pod -n {request.namespace} {spec.pod_name} --grace-period={USUAL_GRACE_S}"
    return Reason(
        Code.PODS_ACTIVE,
        f"container {container} is being stopped: its process, and its preStop hook if it has one, have up to"
        f" {grace_s} s, until about {format_time(began + grace_s)} (spec.strategy.terminationGracePeriodSeconds)",
        "wait until it has stopped; for later requests, set a lower spec.strategy.terminationGracePeriodSeconds"
        " (its default is that of the pod), or shorten the preStop hook; to wait less now, delete the pod if a"
        f" workload replaces it ({delete})",
    )


def _find_grace_begin(request: RequestView) -> Instant | None:
    """Return since when the pod is out of service for the request; None if it is not."""
    condition = request.grace_condition
    return None if condition is None else parse_optional_time(condition.last_transition_time)
