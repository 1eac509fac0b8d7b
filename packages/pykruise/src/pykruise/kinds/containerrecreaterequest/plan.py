"""All decisions of the manager about a ContainerRecreateRequest, as one plan.

RecreationSnapshot ──▶ plan_request() ──▶ Plan: take the pod out of service and back, copy the statuses of its
                                          containers, end a request that is not carried out, delete a finished one

Pure. The agent on the pod's node stops the containers and reports the progress of each container. Agent and manager
both write the status, so every status write contains the resourceVersion of the status that it was computed from.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.containerrecreaterequest.conversion import PRE_RECREATE_GRACE
from pykruise.kinds.containerrecreaterequest.long_waits import find_long_wait
from pykruise.kinds.containerrecreaterequest.results import RequestEnding, explain_result
from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerTarget,
)
from pykruise.kinds.containerrecreaterequest.view import (
    ACTIVE_LABEL,
    TURN_ANNOTATION,
    WAITS,
    ReadableContainerRecreateRequest,
    ReadableRequestView,
    RecreationSnapshot,
    RequestView,
    is_readable,
)
from pykruise.kube.clock import Instant, format_time, parse_optional_time
from pykruise.kube.documents import Document
from pykruise.plans.pod_writes import pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.lifecycle.blockers import blockers_of, is_never_restarted
from pykruise.pods.lifecycle.readiness_messages import Message, add_message, remove_message, update_probe_time
from pykruise.pods.reasons import NEEDS_A_PERSON, Code
from pykruise.pods.view.containers import ContainerStatusFacts
from pykruise.pods.view.keys import KRUISE_POD_READY
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import find_pod_wait
from pykruise.runtime.actions import Patch, delete_object, patch_object
from pykruise.runtime.plan import Chain, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

FINALIZER: Final = "crr.apps.kruise.io/unready-acquired"
"""Finalizer of a request that takes its pod out of service. It is removed after the pod is back in service."""

RESPONSE_S: Final = 60.0
"""Seconds within which an agent must start to carry out a request; otherwise the request fails."""
BEGINS_IN_S: Final = 20.0
"""Seconds within which a healthy agent normally starts to carry out a request."""
LOOK_S: Final = 3.0
"""Seconds between two reconciles while containers are recreated: a postStart hook can run for long without an event."""

_RECREATING: Final = "Recreating"


def plan_request(snapshot: RecreationSnapshot) -> Plan:
    """Plan all writes that this request needs now, and when it is reconciled again."""
    request = snapshot.request
    if request.is_deleting or request.is_over:
        return _plan_after_end(snapshot)
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.request.problem])
    pod = snapshot.pod
    if pod is None or pod.is_deleting:
        return _plan_end(snapshot, RequestEnding.POD_GONE)
    looks = dict(_list_times_left(snapshot))
    for message, left in looks.items():
        if left <= 0:
            return _plan_end(snapshot, message)
    again_s = min(looks.values(), default=None)
    if request.status.phase != _RECREATING:
        stages = () if snapshot.is_turn_noted else (_note_turn(snapshot),)
        return Plan(stages=stages, requeue_after_s=again_s, waiting=_explain_not_started(snapshot, pod))
    return _plan_recreation(snapshot, pod, again_s)


def _list_times_left(snapshot: ReadableContainerRecreateRequest) -> Iterator[tuple[str, float]]:
    """Yield the message of each reason for which the request would end by timeout, with the seconds until then."""
    request, now = snapshot.request, snapshot.now
    if request.status.phase != _RECREATING and not _is_behind_another(snapshot):
        began = max([snapshot.turn_at, *(_read_end_time(request) for request in snapshot.others)])
        yield RequestEnding.NO_RESPONSE, began + RESPONSE_S - now
    if (limit := request.spec.active_deadline_seconds) is not None:
        yield RequestEnding.TOO_LATE, request.created_at + limit - now


def _note_turn(snapshot: RecreationSnapshot) -> Stage:
    """Record in an annotation that the request waits for another request, or the time at which its wait ended. The time
    is rounded up to whole seconds, so it is never too early.
    """
    since = WAITS if _is_behind_another(snapshot) else format_time(math.ceil(snapshot.turn_at))
    patch = _build_request_patch(snapshot.request, {"metadata": {"annotations": {TURN_ANNOTATION: since}}})
    return _build_stage(Purpose.MARK_REQUEST, snapshot.request, patch)


def _is_behind_another(snapshot: RecreationSnapshot) -> bool:
    """Whether another request for the pod is being carried out."""
    return snapshot.turn_at == math.inf


def _read_end_time(request: RequestView) -> Instant:
    return parse_optional_time(request.status.completion_time) or 0.0


def _explain_not_started(snapshot: ReadableContainerRecreateRequest, pod: PodView) -> Reason:
    if _is_behind_another(snapshot):
        return _explain_request_ahead(snapshot, pod)
    since = snapshot.now - max([snapshot.turn_at, *(_read_end_time(request) for request in snapshot.others)])
    if since < BEGINS_IN_S:
        return Reason(Code.PODS_ACTIVE, f"the agent of node {pod.node_name} has not begun the recreation yet")
    what = f"the agent of node {pod.node_name} has not begun the recreation"
    return Reason(Code.NO_AGENT, what, f"start the agent on node {pod.node_name}, or bring the node back")


def _explain_request_ahead(snapshot: ReadableContainerRecreateRequest, pod: PodView) -> Reason:
    """Return the reason why the request waits: another request is carried out first. If the other request waits for
    something that a person can correct, the reason contains the cause of that wait and its remedy.
    """
    first = next((request for request in snapshot.others if request.is_carried_out), None)
    if first is None:
        return Reason(
            Code.PARALLELISM, "another request for the pod is carried out first", "wait until it has ended"
        )
    where = f"{first.name} -n {first.namespace}"
    words = f"ContainerRecreateRequest {first.name} for the same pod is carried out first"
    delete = f"if nothing needs request {first.name}, delete it (kubectl delete crr {where})"
    obstacle = _find_obstacle(first, pod, now=snapshot.now)
    if obstacle is None and (long := find_long_wait(first)) is not None:
        return Reason(
            Code.PARALLELISM,
            f"{words}, and waits: {long.message}{_describe_end(snapshot.request)}",
            long.remedy,
        )
    if obstacle is None:
        see = f"see what it waits for (kubectl kruise explain crr/{where})"
        return Reason(Code.PARALLELISM, f"{words}{_describe_end(snapshot.request)}", f"{see}; {delete}")
    limit = first.spec.active_deadline_seconds if first.spec is not None else None
    endless = (
        "" if limit is not None else f"; request {first.name} has no spec.activeDeadlineSeconds that ends it"
    )
    return Reason(
        obstacle.code,
        f"{words}, and waits: {obstacle.message}{endless}{_describe_end(snapshot.request)}",
        f"{obstacle.remedy}; or {delete}" if obstacle.remedy else delete,
        obstacle.container,
    )


def _describe_end(request: ReadableRequestView) -> str:
    """Describe when the request fails at the latest; empty if it has no deadline."""
    limit = request.spec.active_deadline_seconds
    if limit is None:
        return ""
    return f"; this request fails at {format_time(request.created_at + limit)} (spec.activeDeadlineSeconds)"


# While the agent works


def _plan_recreation(snapshot: ReadableContainerRecreateRequest, pod: PodView, again_s: float | None) -> Plan:
    request = snapshot.request
    stages = _take_out_of_service(snapshot, pod)
    status = dict(request.stored_status)
    if result := _copy_statuses(request, pod):
        status["containerStatusSnapshot"] = result
    if stages and stages[-1].purpose == Purpose.REPORT_STATUS:
        return Plan(stages=stages, requeue_after_s=0.0)
    return Plan(
        stages=stages,
        status=None if status == request.stored_status else status,
        requeue_after_s=LOOK_S if again_s is None else min(again_s, LOOK_S),
        waiting=_find_obstacle(request, pod, now=snapshot.now) or _explain_unfinished(request),
    )


def _find_obstacle(request: RequestView, pod: PodView, *, now: Instant) -> Reason | None:
    """Return why the pod or a requested container does not run, if the reason needs a person; otherwise None."""
    if (ended := _find_ended_container(request, pod)) is not None:
        return ended
    obstacles = blockers_of([pod], None, now=now, correction=OF_THE_WORKLOAD)
    return find_pod_wait([(pod, reason) for pod, reason in obstacles if _is_obstacle(request, reason)])


def _list_requested(request: RequestView) -> set[str]:
    """Names of the requested containers; empty if the spec is unreadable."""
    return {container.name for container in request.spec.containers} if request.spec is not None else set()


def _find_ended_container(request: RequestView, pod: PodView) -> Reason | None:
    """Return the reason if a requested container has ended and its pod's restartPolicy forbids that it starts again;
    otherwise None. SidecarTerminator ends containers in such pods on purpose.
    """
    if pod.find_condition("SidecarTerminated") is not None:
        return None
    requested = _list_requested(request)
    ended = next(
        (
            status
            for status in pod.container_statuses
            if status.name in requested and is_never_restarted(pod, status.exit_code)
        ),
        None,
    )
    if ended is None:
        return None
    words = (
        f"container {ended.name} has ended with exit code {ended.exit_code}, and the kubelet does not start it again:"
        f" restartPolicy of pod {pod.name} is {pod.restart_policy}"
    )
    if pod.controller is not None:
        again = (
            f"delete pod {pod.name}, so that {pod.controller.kind} {pod.controller.name} creates another one"
        )
        command = f"kubectl delete pod -n {pod.namespace} {pod.name}"
    else:
        again, command = f"create pod {pod.name} again", "kubectl replace --force -f FILE"
    remedy = (
        f"{again} ({command}), and delete this request, which cannot start the container (kubectl delete crr -n"
        f" {request.namespace} {request.name})"
    )
    return Reason(Code.CONTAINER_FAILS, words, remedy, ended.name)


def _is_obstacle(request: RequestView, reason: Reason) -> bool:
    if reason.code == Code.NOT_READY:
        return _is_recreating(request, reason.container)
    return reason.code in _OBSTACLES and reason.container in {"", *_list_requested(request)}


def _is_recreating(request: RequestView, container: str) -> bool:
    """Whether the agent has restarted this container and waits until it is ready."""
    states = request.status.container_recreate_states or ()
    return any(state.name == container and state.phase == _RECREATING for state in states)


_OBSTACLES: Final = NEEDS_A_PERSON - {Code.READINESS_GATE}
"""Codes of reasons that need a person, except READINESS_GATE: the request itself sets a readiness gate to False."""


def _copy_statuses(request: ReadableRequestView, pod: PodView) -> list[Document]:
    """Return the kubelet's statuses of the containers that have started since the request was created. If the result is
    empty, the stored statuses are kept.
    """
    statuses = {status.name: status for status in (*pod.container_statuses, *pod.init_statuses)}
    return [
        {
            "name": container.name,
            "ready": known.ready,
            "restartCount": known.restart_count,
            "containerID": known.container_id,
        }
        for container in request.spec.containers
        if (known := statuses.get(container.name)) is not None and _is_new(container, known)
    ]


def _is_new(target: ContainerTarget, known: ContainerStatusFacts) -> bool:
    """Whether the container runs, and was started after the request was created."""
    before = target.status_context
    runs = bool(known.container_id) and not known.waiting and known.exit_code is None
    is_other = (
        before is None
        or known.container_id != before.container_id
        or known.restart_count > before.restart_count
    )
    return runs and is_other


def _explain_unfinished(request: ReadableRequestView) -> Reason:
    if (long := find_long_wait(request)) is not None:
        return long
    states = {state.name: state for state in request.status.container_recreate_states or ()}
    for container in request.spec.containers:
        state = states.get(container.name)
        if state is None or state.phase not in ("Succeeded", "Failed"):
            what = (
                f"{state.phase}: {state.message}"
                if state and state.message
                else state.phase
                if state
                else "waits"
            )
            return Reason(
                Code.PODS_ACTIVE, f"container {container.name}: {what}{_describe_grace(request, states)}"
            )
    return Reason(Code.PODS_ACTIVE, "the agent has not reported the end of the recreation yet")


def _describe_grace(request: ReadableRequestView, states: Mapping[str, Any]) -> str:
    """Describe the grace period in which the pod is out of service but its containers still run; empty if there is
    none.
    """
    grace_s = request.strategy.unready_grace_period_seconds
    if not grace_s or states or request.grace_condition is None:
        return ""
    return f" until the pod has been out of service for {grace_s} s (unreadyGracePeriodSeconds)"


def _take_out_of_service(snapshot: ReadableContainerRecreateRequest, pod: PodView) -> tuple[Stage, ...]:
    """Return the writes that take the pod out of service, if this was not done before. The last write is a condition of
    the request: its transition time is the start of the grace period.
    """
    request = snapshot.request
    if request.strategy.unready_grace_period_seconds is None or request.grace_condition is not None:
        return ()
    stages: list[Stage] = []
    if KRUISE_POD_READY in pod.readiness_gates:
        if FINALIZER not in request.finalizers:
            stages.append(
                _build_stage(
                    Purpose.SET_READINESS,
                    request,
                    _build_finalizers_patch(request, (*request.finalizers, FINALIZER)),
                )
            )
            return tuple(stages)  # the following writes need the resourceVersion after this write
        if conditions := add_message(pod, _build_message(request), now=snapshot.now):
            stages.append(_build_stage(Purpose.SET_READINESS, request, _build_pod_patch(pod, conditions)))
    condition = {
        "type": PRE_RECREATE_GRACE,
        "status": "True",
        "reason": PRE_RECREATE_GRACE,
        "lastTransitionTime": format_time(snapshot.now),
        "message": "the pod is kept out of service; its containers are stopped after the grace period",
    }
    others = [
        condition
        for condition in request.stored_status.get("conditions") or ()
        if condition.get("type") != PRE_RECREATE_GRACE
    ]
    stages.append(
        _build_stage(
            Purpose.REPORT_STATUS, request, _build_status_patch(request, {"conditions": [*others, condition]})
        )
    )
    return tuple(stages)


def _build_message(request: RequestView) -> Message:
    return Message("ContainerRecreateRequest", f"{request.namespace}/{request.name}")


# End of a request


def _plan_end(snapshot: RecreationSnapshot, message: str) -> Plan:
    """Return a plan that ends the request, although not all its containers were recreated."""
    request = snapshot.request
    status = {"phase": "Completed", "completionTime": format_time(snapshot.now), "message": message}
    return Plan(stages=(_build_stage(Purpose.REPORT_STATUS, request, _build_status_patch(request, status)),))


def _plan_after_end(snapshot: RecreationSnapshot) -> Plan:
    """Return the pod to service, and then remove the label that agents select. Delete the request when its time to live
    has passed.
    """
    request, pod = snapshot.request, snapshot.pod
    stages = []
    metadata: dict[str, Any] = {}
    if pod is not None and not pod.is_deleting:
        conditions = remove_message(pod, _build_message(request), now=snapshot.now)
        if not conditions and FINALIZER in request.finalizers:
            # A write that takes the pod out of service may still arrive, from this manager or from another manager.
            conditions = update_probe_time(pod, now=snapshot.now)
        if conditions:
            stages.append(_build_stage(Purpose.SET_READINESS, request, _build_pod_patch(pod, conditions)))
    if FINALIZER in request.finalizers:
        metadata["finalizers"] = [
            finalizer for finalizer in request.finalizers if finalizer != FINALIZER
        ] or None
    if not request.is_deleting and ACTIVE_LABEL in request.labels:
        metadata["labels"] = {ACTIVE_LABEL: None}
    if metadata:
        stages.append(
            _build_stage(Purpose.TIDY_UP, request, _build_request_patch(request, {"metadata": metadata}))
        )
    if request.is_deleting or stages:
        return Plan(stages=tuple(stages))
    over = explain_result(snapshot)
    ttl_s = request.spec.ttl_seconds_after_finished if request.spec else None
    if ttl_s is None:
        return Plan(waiting=over)
    left = (parse_optional_time(request.status.completion_time) or snapshot.now) + ttl_s - snapshot.now
    if left > 0:
        return Plan(requeue_after_s=left, waiting=over)
    action = delete_object(CONTAINER_RECREATE_REQUESTS, request)
    step = Step(action=action, because="ttlSecondsAfterFinished has passed")
    return Plan(
        stages=(Stage(purpose=Purpose.DELETE_JOB, chains=(Chain(subject=request.name, steps=(step,)),)),)
    )


# Writes


def _build_stage(purpose: Purpose, request: RequestView, action: Patch) -> Stage:
    step = Step(action=action, because=f"ContainerRecreateRequest {request.name}")
    return Stage(purpose=purpose, chains=(Chain(subject=request.name, steps=(step,)),))


def _build_finalizers_patch(request: RequestView, wanted: tuple[str, ...]) -> Patch:
    return _build_request_patch(request, {"metadata": {"finalizers": list(wanted)}})


def _build_request_patch(request: RequestView, body: Document) -> Patch:
    return patch_object(CONTAINER_RECREATE_REQUESTS, request, body, unchanged=True)


def _build_status_patch(request: RequestView, status: Document) -> Patch:
    return patch_object(
        CONTAINER_RECREATE_REQUESTS, request, {"status": status}, subresource="status", unchanged=True
    )


def _build_pod_patch(pod: PodView, conditions: list[Document]) -> Patch:
    return pod_patch(pod, {"status": {"conditions": conditions}}, subresource="status", unchanged=True)
