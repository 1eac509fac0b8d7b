"""What keeps a pod from being available, and what would change that.

PodView + lifecycle ──▶ obstacle_of() ──▶ Obstacle: reason, words, the deed that unblocks it

Pure; serves every kind. A condition of the owner, `explain` and people read it. An obstacle with a remedy
stays until somebody does something; one without goes by itself.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.pods import keys
from pykruise.pods.lifecycle import Lifecycle, LifecycleState, why_waiting
from pykruise.pods.views import PodView

__all__ = ["Obstacle", "obstacle_of", "obstacles_of"]


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a pod is not available."""

    reason: str
    """CamelCase, for a condition."""
    because: str
    """In words, without the pod's name."""
    remedy: str = ""
    """What somebody has to do; empty: it passes by itself."""

    @property
    def is_stuck(self) -> bool:
        """Whether it stays until somebody does something."""
        return bool(self.remedy)


LOOKED_AT: Final = 200
"""Pods of one workload whose obstacles are looked for."""

_IMAGE_TROUBLE: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_START_TROUBLE: Final = frozenset(
    {
        "ContainerCannotRun",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
_HOOK_OF: Final = {
    LifecycleState.PREPARING_UPDATE: ("InPlaceUpdateHook", "take the hook of spec.lifecycle off the pod"),
    LifecycleState.UPDATED: ("InPlaceUpdateHook", "put the hook of spec.lifecycle back on the pod"),
    LifecycleState.PREPARING_DELETE: ("PreDeleteHook", "take the hook of spec.lifecycle off the pod"),
}


def obstacle_of(
    pod: PodView, lifecycle: Lifecycle | None, *, min_ready_seconds: int = 0, now: Instant
) -> Obstacle | None:
    """The first obstacle that a person would look at; None: the pod is available."""
    return (
        _of_containers(pod)
        or _of_placing(pod)
        or _of_resizing(pod)
        or _of_lifecycle(pod, lifecycle)
        or _of_readiness(pod, min_ready_seconds=min_ready_seconds, now=now)
    )


def obstacles_of(
    pods: Iterable[PodView], lifecycle: Lifecycle | None, *, min_ready_seconds: int = 0, now: Instant
) -> list[tuple[PodView, Obstacle]]:
    """What is in the way of these pods, which are not available, by their names. They mostly share it, so no
    more than LOOKED_AT of them are looked at."""
    found = (
        (pod, obstacle_of(pod, lifecycle, min_ready_seconds=min_ready_seconds, now=now))
        for pod in islice(pods, LOOKED_AT)
    )
    told = [(pod, obstacle) for pod, obstacle in found if obstacle is not None]
    return sorted(told, key=lambda pair: pair[0].name)


def _of_containers(pod: PodView) -> Obstacle | None:
    for one in (*pod.init_statuses, *pod.container_statuses):
        if one.waiting in _IMAGE_TROUBLE:
            # The status may still name the image that ran before; the spec says which one is wanted.
            specs = (*pod.containers, *pod.sidecars)
            image = next((spec.image for spec in specs if spec.name == one.name), one.image)
            return Obstacle(
                reason="ImagePull",
                because=f"image {image} of container {one.name} cannot be pulled ({one.waiting})",
                remedy="correct the image or its pull secret in spec.template, or make it available",
            )
        if one.waiting in _START_TROUBLE:
            return Obstacle(
                reason="ContainerFails",
                because=f"container {one.name} does not start ({one.waiting}, {one.restart_count} restarts)",
                remedy="read the pod's events and logs, and correct spec.template or what it refers to",
            )
    return None


def _of_placing(pod: PodView) -> Obstacle | None:
    if pod.node_name:
        return None
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return Obstacle(reason="Scheduling", because="waits for the scheduler")
    said = scheduled.message or scheduled.reason or "no reason given"
    if scheduled.reason == "SchedulingGated":
        return Obstacle(
            reason="SchedulingGated",
            because=f"is not to be scheduled yet: {said}",
            remedy="have its scheduling gates removed by whoever set them",
        )
    if "persistentvolumeclaim" in said.lower():
        return Obstacle(
            reason="UnboundClaims",
            because=f"cannot be scheduled: {said}",
            remedy="provide a volume or a storage class for its claims",
        )
    return Obstacle(
        reason="Unschedulable",
        because=f"cannot be scheduled: {said}",
        remedy="add nodes or capacity, or change the requests, selectors or tolerations of spec.template",
    )


def _of_resizing(pod: PodView) -> Obstacle | None:
    """The kubelet's answer to a change of cpu or memory that it cannot (yet) carry out."""
    pending = pod.condition("PodResizePending")
    if pending is None or pending.status != "True" or pod.state != LifecycleState.UPDATING:
        return None
    return Obstacle(
        reason=f"Resize{pending.reason or 'Pending'}",
        because=f"its node cannot give it the new resources ({pending.reason}): {pending.message}",
        remedy="lower the resources in spec.template, or delete the pod so that it goes to another node",
    )


def _of_lifecycle(pod: PodView, lifecycle: Lifecycle | None) -> Obstacle | None:
    if pod.is_in_grace:
        return Obstacle(reason="GracePeriod", because="is in the grace period before its update in place")
    words = why_waiting(pod, lifecycle)
    match pod.state:
        case LifecycleState.PREPARING_NORMAL if words and pod.node_name:
            return Obstacle(
                reason="PreNormalHook", because=words, remedy="put the hook of spec.lifecycle on the pod"
            )
        case LifecycleState.UPDATING:
            return Obstacle(reason="UpdatingInPlace", because=words)
        case LifecycleState.PREPARING_UPDATE | LifecycleState.UPDATED | LifecycleState.PREPARING_DELETE if (
            words
        ):
            reason, remedy = _HOOK_OF[LifecycleState(pod.state)]
            return Obstacle(reason=reason, because=words, remedy=remedy)
    return None


def _of_readiness(pod: PodView, *, min_ready_seconds: int, now: Instant) -> Obstacle | None:
    if pod.is_ready:
        until = (pod.ready_since or now) + min_ready_seconds
        if until > now:
            because = f"has to be ready for {min_ready_seconds} s (until {format_time(until)})"
            return Obstacle(reason="MinReadySeconds", because=because)
        return None if pod.is_serving else Obstacle(reason="Lifecycle", because=f"is in state {pod.state}")
    starting = next((one.waiting for one in pod.container_statuses if one.waiting), "")
    if starting or pod.phase in ("", "Pending"):
        return Obstacle(reason="Starting", because=f"its containers start ({starting or 'Pending'})")
    for gate in pod.readiness_gates:
        condition = pod.condition(gate)
        if condition is None or condition.status != "True":
            if gate in pod.open_gates:
                continue  # set in this very plan
            if gate == keys.IN_PLACE_READY and condition is not None:
                return Obstacle(reason="UpdatingInPlace", because="is being updated in place")
            said = f" ({condition.message or condition.reason})" if condition else ""
            return Obstacle(
                reason="ReadinessGate",
                because=f"its readiness gate {gate} is not True{said}",
                remedy=f"have the condition {gate} set by whoever is responsible for it",
            )
    since = f" (since {format_time(pod.ready_since)})" if pod.ready_since is not None else ""
    return Obstacle(
        reason="NotReady",
        because=f"its containers are not ready{since}",
        remedy="if that lasts, read the pod's events and logs, and correct what its readiness probe finds",
    )
