"""Obstacles that keep a pod from being available, and their remedies.

PodView + lifecycle ──▶ blocker_of() ──▶ Reason: code, message, what unblocks it

Pure; serves every kind. A condition of the owner and `explain` show it. An obstacle with a remedy stays until a
person does something; one without passes by itself.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from pykruise.kube.clock import Instant, format_time
from pykruise.pods.lifecycle.states import UPDATE_UNDER_WAY, Lifecycle, LifecycleState, why_waiting
from pykruise.pods.mounts import CREATED_IN_S
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import IMAGE_FAILURES
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

LOOKED_AT: Final = 200
"""Pods of one workload whose obstacles are looked for."""

_START_FAILURES: Final = frozenset(
    {
        "ContainerCannotRun",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
_RESIZES: Final = {"Infeasible": Code.RESIZE_INFEASIBLE, "Deferred": Code.RESIZE_DEFERRED}
_HOOK_OF: Final = {
    LifecycleState.PREPARING_UPDATE: (
        Code.IN_PLACE_UPDATE_HOOK,
        "take the hook of spec.lifecycle off the pod",
    ),
    LifecycleState.UPDATED: (Code.IN_PLACE_UPDATE_HOOK, "put the hook of spec.lifecycle back on the pod"),
    LifecycleState.PREPARING_DELETE: (Code.PRE_DELETE_HOOK, "take the hook of spec.lifecycle off the pod"),
}


def blocker_of(
    pod: PodView, lifecycle: Lifecycle | None, *, min_ready_seconds: int = 0, now: Instant
) -> Reason | None:
    """The first obstacle that a person would look at; None: the pod is available."""
    return (
        _of_containers(pod)
        or _of_placing(pod)
        or _of_resizing(pod)
        or _of_lifecycle(pod, lifecycle)
        or _of_readiness(pod, min_ready_seconds=min_ready_seconds, now=now)
    )


def blockers_of(
    pods: Iterable[PodView], lifecycle: Lifecycle | None, *, min_ready_seconds: int = 0, now: Instant
) -> list[tuple[PodView, Reason]]:
    """Obstacles of these unavailable pods, by pod name. They mostly share it, so no more than LOOKED_AT of them are
    looked at.
    """
    result = (
        (pod, blocker_of(pod, lifecycle, min_ready_seconds=min_ready_seconds, now=now))
        for pod in islice(pods, LOOKED_AT)
    )
    known = [(pod, obstacle) for pod, obstacle in result if obstacle is not None]
    return sorted(known, key=lambda pair: pair[0].name)


def held_by_finalizers(pod: PodView) -> Reason | None:
    """Finalizers that keep a deleted pod; None: none, and the deletion ends without help."""
    names = [name for name in pod.finalizers if name != "foregroundDeletion"]
    if not pod.is_deleting or not names:
        return None
    text = ", ".join(names)
    return Reason(
        Code.FINALIZER,
        f"terminates, but finalizer {text} holds it",
        f"the controller that set {text} has to take it off",
    )


def _of_containers(pod: PodView) -> Reason | None:
    for status in (*pod.init_statuses, *pod.container_statuses):
        if status.waiting in IMAGE_FAILURES:
            # The status may still name the image that ran before; the spec says which one is wanted.
            specs = (*pod.containers, *pod.sidecars)
            image = next((spec.image for spec in specs if spec.name == status.name), status.image)
            secrets = f", with pull secrets {', '.join(pod.pull_secrets)}" if pod.pull_secrets else ""
            return Reason(
                Code.IMAGE_PULL,
                f"image {image} of container {status.name} cannot be pulled{secrets} ({status.waiting})",
                "correct the image or its pull secret in spec.template, or make it available",
                status.name,
            )
        if status.lacks:
            return Reason(
                Code.CONTAINER_FAILS,
                f"container {status.name} cannot be made ({status.waiting}): {status.lacks}",
                "create what is missing, or correct the reference in spec.template",
                status.name,
            )
        if status.waiting in _START_FAILURES:
            return Reason(
                Code.CONTAINER_FAILS,
                f"container {status.name} does not start ({status.waiting}, {status.restart_count} restarts)",
                "read the pod's events and logs, and correct spec.template or what it refers to",
                status.name,
            )
    return None


def _of_placing(pod: PodView) -> Reason | None:
    if pod.node_name:
        return None
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return Reason(Code.SCHEDULING, "waits for the scheduler")
    said = scheduled.message or scheduled.reason or "no reason given"
    if scheduled.reason == "SchedulingGated":
        return Reason(
            Code.SCHEDULING_GATED,
            f"is not to be scheduled yet: {said}",
            "have its scheduling gates removed by the controller that set them",
        )
    if "persistentvolumeclaim" in said.lower():
        return Reason(
            Code.UNBOUND_CLAIMS,
            f"cannot be scheduled: {said}",
            "provide a volume or a storage class for its claims",
        )
    return Reason(
        Code.UNSCHEDULABLE,
        f"cannot be scheduled: {said}",
        "add nodes or capacity, or change the requests, selectors or tolerations of spec.template",
    )


def _of_mounts(pod: PodView, now: Instant) -> Reason | None:
    creating = pod.creating
    if creating is None or now - creating.since < CREATED_IN_S:
        return None
    return Reason(
        Code.STARTING,
        f"its containers are not created since {format_time(creating.since)}; its volumes need"
        f" {', '.join(creating.mounts)}",
        "create what is missing of these, or correct the volume in spec.template",
    )


def _of_resizing(pod: PodView) -> Reason | None:
    """The kubelet's answer to a change of cpu or memory that it cannot (yet) carry out."""
    pending = pod.condition("PodResizePending")
    if pending is None or pending.status != "True" or pod.state != LifecycleState.UPDATING:
        return None
    return Reason(
        _RESIZES.get(pending.reason or "", Code.RESIZE_PENDING),
        f"its node cannot give it the new resources ({pending.reason}): {pending.message}",
        "lower the resources in spec.template, or delete the pod so that it goes to another node",
    )


def _of_lifecycle(pod: PodView, lifecycle: Lifecycle | None) -> Reason | None:
    if pod.is_in_grace:
        return Reason(Code.GRACE_PERIOD, "is in the grace period before its update in place")
    match pod.state, why_waiting(pod, lifecycle):
        case LifecycleState.PREPARING_NORMAL, Reason(code=Code.PRE_NORMAL_HOOK, message=message):
            return Reason(Code.PRE_NORMAL_HOOK, message, "put the hook of spec.lifecycle on the pod")
        case LifecycleState.UPDATING, _:
            return UPDATE_UNDER_WAY
        case (
            LifecycleState.PREPARING_UPDATE | LifecycleState.UPDATED | LifecycleState.PREPARING_DELETE,
            Reason(message=message),
        ):
            code, remedy = _HOOK_OF[LifecycleState(pod.state)]
            return Reason(code, message, remedy)
    return None


def _of_readiness(pod: PodView, *, min_ready_seconds: int, now: Instant) -> Reason | None:
    if pod.is_ready:
        until = (pod.ready_since or now) + min_ready_seconds
        if until > now:
            because = f"has to be ready for {min_ready_seconds} s (until {format_time(until)})"
            return Reason(Code.MIN_READY_SECONDS, because)
        return None if pod.is_serving else Reason(Code.LIFECYCLE, f"is in state {pod.state}")
    starting = next((status.waiting for status in pod.container_statuses if status.waiting), "")
    if starting or pod.phase in ("", "Pending"):
        return _of_mounts(pod, now) or Reason(
            Code.STARTING, f"its containers start ({starting or 'Pending'})"
        )
    for gate in pod.readiness_gates:
        condition = pod.condition(gate)
        if condition is None or condition.status != "True":
            if gate in pod.open_gates:
                continue  # set in this very plan
            if gate == keys.IN_PLACE_READY:
                return Reason(Code.UPDATING_IN_PLACE, "is being updated in place")
            said = f" ({condition.message or condition.reason})" if condition else ""
            return Reason(
                Code.READINESS_GATE,
                f"its readiness gate {gate} is not True{said}",
                f"have the condition {gate} set by the controller that is responsible for it",
            )
    since = f" (since {format_time(pod.ready_since)})" if pod.ready_since is not None else ""
    return Reason(
        Code.NOT_READY,
        f"the containers are not ready{since}",
        "if that lasts, read the pod's events and logs, and correct what its readiness probe finds",
    )
