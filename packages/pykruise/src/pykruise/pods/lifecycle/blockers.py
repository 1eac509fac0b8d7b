"""Obstacles that keep a pod from being available, and their remedies.

PodView + lifecycle ──▶ blocker_of() ──▶ Reason: code, message, remedy

Pure; serves every kind. A condition of the owner and `explain` show the obstacle. An obstacle without a remedy
disappears automatically. Most obstacles with a remedy stay until a person acts.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.values.counts import format_count
from pykruise.pods.corrections import (
    CREATE_WHAT_IS_MISSING,
    IN_TEMPLATE,
    Correction,
    correct_container,
    correct_template_of,
    correct_volumes,
    describe_holders,
    end_by_force,
    open_gate,
    read_events,
    read_log,
    release_pod,
)
from pykruise.pods.injection_records import find_injecting_set
from pykruise.pods.lifecycle.availability import find_next_late_time
from pykruise.pods.lifecycle.scheduling_messages import describe_obstacles, describe_remedy
from pykruise.pods.lifecycle.states import UPDATE_UNDER_WAY, Lifecycle, LifecycleState, explain_waiting
from pykruise.pods.mounts import CREATED_IN_S, ENDED_IN_S, SCHEDULED_IN_S
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import (
    END_VARIABLE,
    IGNORE_END_VARIABLE,
    IMAGE_FAILURES,
    ContainerStatusFacts,
)
from pykruise.pods.view.ephemeral import EphemeralState, EphemeralView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

LOOKED_AT: Final = 200
"""Maximum number of one workload's pods that are examined for obstacles."""

MARKED_IN_S: Final = 60.0
"""Seconds after which a pod with ready containers is ready, too, if its node reports."""

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
        "remove the hook of spec.lifecycle from the pod",
    ),
    LifecycleState.UPDATED: (Code.IN_PLACE_UPDATE_HOOK, "add the hook of spec.lifecycle to the pod again"),
    LifecycleState.PREPARING_DELETE: (Code.PRE_DELETE_HOOK, "remove the hook of spec.lifecycle from the pod"),
}


def blocker_of(
    pod: PodView,
    lifecycle: Lifecycle | None,
    *,
    min_ready_seconds: int = 0,
    now: Instant,
    correction: Correction = IN_TEMPLATE,
    names_node: bool = True,
) -> Reason | None:
    """The most important obstacle of a pod; None if the pod is available. `correction`: correction of its owner;
    `names_node`: whether the message names the only node that the pod may run on.
    """
    correction = correct_template_of(pod.name, correction, has_workload=pod.controller is not None)
    return (
        _find_container_obstacle(pod, correction)
        or _find_scheduling_obstacle(pod, now, correction, names_node=names_node)
        or _find_resize_obstacle(pod, correction)
        or _find_lifecycle_obstacle(pod, lifecycle)
        or _find_readiness_obstacle(pod, min_ready_seconds=min_ready_seconds, now=now, correction=correction)
    )


def blockers_of(
    pods: Iterable[PodView],
    lifecycle: Lifecycle | None,
    *,
    min_ready_seconds: int = 0,
    now: Instant,
    correction: Correction = IN_TEMPLATE,
) -> list[tuple[PodView, Reason]]:
    """Obstacles of unavailable pods, sorted by pod name. Only LOOKED_AT pods are examined: most share an obstacle."""
    result = (
        (
            pod,
            blocker_of(pod, lifecycle, min_ready_seconds=min_ready_seconds, now=now, correction=correction),
        )
        for pod in islice(pods, LOOKED_AT)
    )
    known = [(pod, _add_placing_objects(pod, obstacle)) for pod, obstacle in result if obstacle is not None]
    return sorted(known, key=lambda pair: pair[0].name)


def _add_placing_objects(pod: PodView, obstacle: Reason) -> Reason:
    """Return the obstacle. If other objects have limited the nodes of a pod without a node, the remedy names them."""
    if obstacle.code != Code.UNSCHEDULABLE:
        return obstacle
    state = pod.annotations.get(keys.INJECTED_STATE_ANNOTATION)
    objects = [
        *(["its subset of a WorkloadSpread"] if keys.MATCHED_SPREAD_ANNOTATION in pod.annotations else ()),
        *([f"PersistentPodState {state}"] if state else ()),
    ]
    if not objects:
        return obstacle
    remedy = (
        f"{obstacle.remedy}, or correct what {' and '.join(objects)} added to the pod, then delete the pod"
    )
    return Reason(obstacle.code, obstacle.message, remedy, obstacle.container)


def find_next_blocker_time(pods: Iterable[PodView], *, now: Instant) -> Instant | None:
    """Earliest time at which `blocker_of` returns another value for one of the pods without an event; None if there is
    no such time.
    """
    unready = list(islice((pod for pod in pods if not pod.is_ready or pod.is_deleting), LOOKED_AT))
    running = (pod for pod in unready if not pod.is_deleting)
    marked = (time for pod in running if (time := marked_at(pod)) is not None and time > now)
    late = find_next_late_time(unready, now=now)
    return min((*marked, *(() if late is None else (late,))), default=None)


def has_new_obstacle(old: PodView, new: PodView) -> bool:
    """Whether a pod's obstacle changed in a detail that messages name: an image, a container, a node."""
    return old is not new and _list_obstacle_facts(old) != _list_obstacle_facts(new)


def _list_obstacle_facts(pod: PodView) -> tuple[object, ...]:
    """Facts that identify a pod's obstacles. Kubelets report one image failure with two alternating words, which
    count as equal.
    """
    failing = tuple(
        (status.name, status.waiting in IMAGE_FAILURES)
        for status in (*pod.init_statuses, *pod.container_statuses)
        if status.waiting in IMAGE_FAILURES or status.waiting in _START_FAILURES
    )
    scheduled = pod.find_condition("PodScheduled")
    unscheduled = scheduled.reason if scheduled is not None and scheduled.status == "False" else ""
    return failing, unscheduled, pod.creating is not None and bool(pod.creating.mounts)


def explain_failure(pod: PodView) -> Reason:
    """Reason for the failure of a pod that runs to completion: its container with an exit code, and its node. A pod
    that still restarts is explained by the previous run of its container.
    """
    where = f" on node {pod.node_name}" if pod.node_name else ""
    statuses = (*pod.init_statuses, *pod.container_statuses)
    now = next((status for status in statuses if status.exit_code), None)
    ended = now or next((status for status in statuses if status.last_exit_code), None)
    code = None if ended is None else ended.exit_code or ended.last_exit_code
    how = f"container {ended.name} ended with exit code {code}" if ended is not None else "it failed"
    container = ended.name if ended is not None else ""
    injecting = find_injecting_set(pod.annotations, container)
    correct = f"correct SidecarSet {injecting}" if injecting else "correct its cause"
    log = read_log(pod.namespace, pod.name, container, previous=now is not ended)
    return Reason(Code.POD_FAILED, f"{how}{where}", f"{log}, and {correct}", container)


def is_never_restarted(pod: PodView, exit_code: int | None) -> bool:
    """Whether the kubelet never restarts a container of the pod after this exit code; False if the code is None,
    because the container has not ended. Init containers that run as sidecars are always restarted.
    """
    if exit_code is None or pod.restart_policy == "Always":
        return False
    return pod.restart_policy == "Never" or exit_code == 0


def find_ephemeral_blocker(pod: PodView, ephemeral: EphemeralView, image: str) -> Reason | None:
    """Obstacle of an ephemeral container of a pod; None if the container runs, starts, or has succeeded. `image`: the
    container's image.
    """
    if ephemeral.state is EphemeralState.FAILED:
        ended = f"exit code {ephemeral.exit_code}" if ephemeral.exit_code else ephemeral.reason
        why = f" ({ephemeral.reason})" if ephemeral.exit_code and ephemeral.reason else ""
        return Reason(
            Code.CONTAINER_FAILED,
            f"container {ephemeral.name} has failed: {ended}{why}",
            f"{read_log(pod.namespace, pod.name, ephemeral.name)}; then create the job again with a corrected "
            "container: an ephemeral container cannot be changed",
            ephemeral.name,
        )
    if ephemeral.reason in IMAGE_FAILURES:
        return Reason(
            Code.IMAGE_PULL,
            f"image {image} of container {ephemeral.name} cannot be pulled ({ephemeral.reason})",
            "make the image available: an ephemeral container keeps its image until its pod is replaced",
            ephemeral.name,
        )
    if ephemeral.reason in _START_FAILURES:
        return Reason(
            Code.CONTAINER_FAILS,
            f"container {ephemeral.name} does not start ({ephemeral.reason})"
            f"{f': {ephemeral.lacks}' if ephemeral.lacks else ''}",
            f"{CREATE_WHAT_IS_MISSING}; or create the job again with another container name: an ephemeral container"
            " cannot be changed, so the new job must have a correct reference or securityContext",
            ephemeral.name,
        )
    return None


def find_end_blocker(pod: PodView, *, now: Instant) -> Reason | None:
    """Obstacle that keeps a deleted pod from terminating: its finalizers or its node; None if nothing keeps it."""
    return _find_open_finalizers(pod) or _find_lost_node(pod, now)


def is_overdue(ends_at: Instant, *, now: Instant) -> bool:
    """Whether the pod's node should have terminated the pod long ago."""
    return now >= ends_at + ENDED_IN_S


def _find_lost_node(pod: PodView, now: Instant) -> Reason | None:
    if pod.ends_at is None or not pod.node_name or not is_overdue(pod.ends_at, now=now):
        return None
    return Reason(
        Code.NODE_LOST,
        f"terminates, but its node {pod.node_name} does not stop it",
        f"bring {pod.node_name} back, or {end_by_force(pod.namespace, pod.name)}",
    )


def _find_open_finalizers(pod: PodView) -> Reason | None:
    names = [name for name in pod.finalizers if name != "foregroundDeletion"]
    if not pod.is_deleting or not names:
        return None
    return Reason(
        Code.FINALIZER,
        f"terminates, but {describe_holders(names)} it",
        release_pod(names, pod.namespace, pod.name),
    )


def _find_held_containers(pod: PodView) -> frozenset[str]:
    """Names of the containers that cannot start yet, because a container with a higher launch priority is not ready."""
    unready = {status.name for status in pod.container_statuses if not status.ready}
    priorities = {
        container.name: container.launch_priority
        for container in pod.containers
        if container.launch_priority is not None and container.name in unready
    }
    if not priorities:
        return frozenset()
    first = max(priorities.values())
    return frozenset(name for name, priority in priorities.items() if priority < first)


def _find_container_obstacle(pod: PodView, correction: Correction) -> Reason | None:
    later = _find_held_containers(pod)
    for status in (*pod.init_statuses, *pod.container_statuses):
        if status.name in later:
            continue
        if status.waiting in IMAGE_FAILURES:
            # The status may still name the previous image; the spec names the desired one.
            specs = (*pod.containers, *pod.sidecars)
            image = next((spec.image for spec in specs if spec.name == status.name), status.image)
            secrets = f", with pull secrets {', '.join(pod.pull_secrets)}" if pod.pull_secrets else ""
            # Kubelets report an image volume that cannot be pulled as a container without an image.
            volumes = "".join(f", or image {image} of volume {name}" for name, image in pod.image_volumes)
            where = correct_container(pod.annotations, status.name, correction)
            return Reason(
                Code.IMAGE_PULL,
                f"image {image} of container {status.name}{volumes} cannot be pulled{secrets} ({status.waiting})",
                f"{where.describe_for('the image or its pull secret')}, or make the image available",
                status.name,
            )
        if status.lacks:
            where = correct_container(pod.annotations, status.name, correction, is_in_place=False)
            return Reason(
                Code.CONTAINER_FAILS,
                f"container {status.name} cannot be created ({status.waiting}): {status.lacks}",
                f"{CREATE_WHAT_IS_MISSING}, or {where.describe_for('the reference or securityContext')}",
                status.name,
            )
        if status.waiting in _START_FAILURES:
            return _explain_start_failure(pod, status, correction)
    return None


def _explain_start_failure(pod: PodView, status: ContainerStatusFacts, correction: Correction) -> Reason:
    """Obstacle of a container that terminates again and again, or that its node cannot start."""
    restarts = format_count(status.restart_count, "restart")
    where = correct_container(pod.annotations, status.name, correction)
    if status.last_exit_code is None:
        message = f"container {status.name} does not start ({status.waiting}, {restarts})"
        events = read_events(pod.namespace, pod.name)
        remedy = f"{events}, and {where.whole}, or the object that the container refers to"
        return Reason(Code.CONTAINER_FAILS, message, remedy, status.name)
    message = f"container {status.name} terminates repeatedly: exit code {status.last_exit_code}, {restarts}"
    log = read_log(pod.namespace, pod.name, status.name, previous=True)
    return Reason(Code.CONTAINER_FAILS, message, f"{log}, and {where.whole}", status.name)


def _find_scheduling_obstacle(
    pod: PodView, now: Instant, correction: Correction, *, names_node: bool
) -> Reason | None:
    if pod.node_name:
        return None
    scheduled = pod.find_condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        if scheduled is not None or pod.created_at is None or now < pod.created_at + SCHEDULED_IN_S:
            return Reason(Code.SCHEDULING, "waits for the scheduler")
        return Reason(
            Code.NO_SCHEDULER,
            "no scheduler has processed it",
            f"{correction.describe_for('schedulerName')}, or start a scheduler of that name",
        )
    said = scheduled.message or scheduled.reason or "no reason given"
    if scheduled.reason == "SchedulingGated":
        return _explain_scheduling_gates(pod, correction)
    if "persistentvolumeclaim" in said.lower():
        return Reason(
            Code.UNBOUND_CLAIMS,
            f"cannot be scheduled: {said}",
            "create the claims that are missing, or provide a volume or a storage class for them",
        )
    node = (f"node {pod.wanted_node}" if names_node else "its node") if pod.wanted_node else ""
    what = f"cannot be scheduled: {said}"
    if node and (obstacles := describe_obstacles(said, node)):
        what = f"must run on {node}, which cannot take it: {obstacles}"
    return Reason(Code.UNSCHEDULABLE, what, describe_remedy(said, node, correction))


def _explain_scheduling_gates(pod: PodView, correction: Correction) -> Reason:
    names = ", ".join(pod.scheduling_gates) or "the scheduling gates"
    is_one = len(pod.scheduling_gates) == 1
    gates = f"scheduling gate{'' if is_one else 's'} {', '.join(pod.scheduling_gates)}".rstrip()
    removal = """'[{"op":"remove","path":"/spec/schedulingGates"}]'"""
    command = f"kubectl patch pod -n {pod.namespace} {pod.name} --type=json -p {removal}"
    return Reason(
        Code.SCHEDULING_GATED,
        f"{gates} hold{'s' if is_one else ''} it",
        f"the controller that handles {names} must remove {'it' if is_one else 'them'}; or remove"
        f" {'it' if is_one else 'them'} from each pod ({command}); or"
        f" {correction.change('schedulingGates')}, if the template sets any",
    )


def _find_creation_obstacle(pod: PodView, now: Instant, correction: Correction) -> Reason | None:
    creating = pod.creating
    if creating is None or now - creating.since < CREATED_IN_S:
        return None
    if creating.is_unseen:
        return Reason(
            Code.NODE_LOST,
            f"its node {pod.node_name} has not answered since it got the pod at {format_time(creating.since)}",
            f"bring {pod.node_name} back, or delete the node: its pods are then replaced",
        )
    where = correct_volumes(pod.annotations, correction)
    return Reason(
        Code.NOT_MOUNTED,
        f"its containers have not been created since {format_time(creating.since)}; its volumes need"
        f" {', '.join(creating.mounts)}",
        f"create the missing objects, or {where.describe_for('the volume')}",
    )


def _find_resize_obstacle(pod: PodView, correction: Correction) -> Reason | None:
    return resize_blocker(pod, correction) if pod.state == LifecycleState.UPDATING else None


def resize_blocker(pod: PodView, correction: Correction = IN_TEMPLATE) -> Reason | None:
    """The kubelet's report about a change of cpu or memory that it cannot make (yet); None if there is no such
    report.
    """
    pending = pod.find_condition("PodResizePending")
    if pending is None or pending.status != "True":
        return None
    return Reason(
        _RESIZES.get(pending.reason or "", Code.RESIZE_PENDING),
        f"its node cannot provide the new resources ({pending.reason}): {pending.message}",
        f"lower the resources in {correction.where}, or delete the pod so that it is scheduled on another node",
    )


def _find_lifecycle_obstacle(pod: PodView, lifecycle: Lifecycle | None) -> Reason | None:
    if pod.is_in_grace:
        return Reason(Code.GRACE_PERIOD, "is in the grace period before its in-place update")
    match pod.state, explain_waiting(pod, lifecycle):
        case LifecycleState.PREPARING_NORMAL, Reason(code=Code.PRE_NORMAL_HOOK, message=message):
            return Reason(Code.PRE_NORMAL_HOOK, message, "add the hook of spec.lifecycle to the pod")
        case LifecycleState.UPDATING, _:
            return UPDATE_UNDER_WAY
        case (
            LifecycleState.PREPARING_UPDATE | LifecycleState.UPDATED | LifecycleState.PREPARING_DELETE,
            Reason(message=message),
        ):
            code, remedy = _HOOK_OF[LifecycleState(pod.state)]
            return Reason(code, message, remedy)
    return None


def _find_readiness_obstacle(
    pod: PodView, *, min_ready_seconds: int, now: Instant, correction: Correction
) -> Reason | None:
    if pod.is_ready:
        until = (pod.ready_since or now) + min_ready_seconds
        if until > now:
            because = f"must be ready for {min_ready_seconds} s (until {format_time(until)})"
            return Reason(Code.MIN_READY_SECONDS, because)
        return None if pod.is_serving else Reason(Code.LIFECYCLE, f"is in state {pod.state}")
    later = _find_held_containers(pod)
    starting = next(
        (status.waiting for status in pod.container_statuses if status.waiting and status.name not in later),
        "",
    )
    if starting or (pod.phase in ("", "Pending") and not later):
        return _find_creation_obstacle(pod, now, correction) or Reason(
            Code.STARTING, f"its containers start ({starting or 'Pending'})"
        )
    gate = find_closed_gate(pod)
    if gate == keys.IN_PLACE_READY:
        return Reason(Code.UPDATING_IN_PLACE, "is being updated in place")
    if gate and pod.restart_policy != "Always":
        return None  # a pod of a job runs to its end even if it is never ready
    if gate:
        condition = pod.find_condition(gate)
        said = f" ({condition.message or condition.reason})" if condition else ""
        return Reason(
            Code.READINESS_GATE,
            f"its readiness gate {gate} is not True{said}",
            open_gate(gate, pod.namespace, pod.name),
        )
    since = f" (since {format_time(pod.ready_since)})" if pod.ready_since is not None else ""
    if (running := find_unended(pod)) is not None:
        return _explain_unended(pod, running, correction)
    unready = unready_containers(pod)
    if not unready and _is_marked_by_others(pod, now):
        return Reason(
            Code.NODE_LOST,
            f"its node {pod.node_name} does not answer{since}",
            f"bring {pod.node_name} back, or delete the node: its pods are then replaced",
        )
    what = f"{_format_containers(unready)} not ready" if unready else "the containers are not ready"
    container = unready[0] if unready else ""
    log = read_log(pod.namespace, pod.name, container)
    correct = f"{log}, and correct the problem that its readiness probe reports"
    delay_s = find_probe_delay(pod, container)
    if delay_s and pod.ready_since is not None and now < pod.ready_since + delay_s:
        probed = f"; its readiness is probed only {delay_s} s after its start (initialDelaySeconds)"
        return Reason(
            Code.NOT_READY,
            f"{what}{since}{probed}",
            f"wait until then; if that is not enough, {correct}",
            container,
        )
    return Reason(Code.NOT_READY, f"{what}{since}", f"if that lasts, {correct}", container)


def find_probe_delay(pod: PodView, container: str) -> int:
    """Return the seconds between the start of a container and its first probe."""
    facts = (item for item in (*pod.containers, *pod.sidecars) if item.name == container)
    return next((item.probes_after_s for item in facts), 0)


def find_closed_gate(pod: PodView) -> str:
    """First readiness gate of the pod that is not True; empty: there is none, or the current plan sets it."""
    for gate in pod.readiness_gates:
        condition = pod.find_condition(gate)
        is_open = condition is not None and condition.status == "True"
        if not is_open and gate not in pod.open_gates:
            return gate
    return ""


def find_unended(pod: PodView) -> str | None:
    """First container that still runs after another container ended with success, in a pod that must end; None if there
    is no such container, or a container has another obstacle.
    """
    statuses = pod.container_statuses
    if pod.restart_policy == "Always" or not any(status.exit_code == 0 for status in statuses):
        return None
    if any(status.exit_code or (status.exit_code is None and not status.ready) for status in statuses):
        return None
    return next((status.name for status in statuses if status.exit_code is None), None)


def _explain_unended(pod: PodView, running: str, correction: Correction) -> Reason:
    ended = ", ".join(status.name for status in pod.container_statuses if status.exit_code == 0)
    where = correct_container(pod.annotations, running, correction, is_in_place=False)
    return Reason(
        Code.NOT_READY,
        f"container {ended} has ended with exit code 0, but container {running} still runs, so the pod does not end",
        f"wait until container {running} ends; if it never ends, enable the gate SidecarTerminator, and"
        f" {where.describe_for(f'its env ({END_VARIABLE} and {IGNORE_END_VARIABLE} must be true)')}",
        running,
    )


def unready_containers(pod: PodView) -> list[str]:
    """Names of the containers, native sidecars included, that keep the pod from being ready. Containers that start
    only after one of these are left out.
    """
    later, sidecars = _find_held_containers(pod), {sidecar.name for sidecar in pod.sidecars}
    statuses: list[ContainerStatusFacts] = [
        *(status for status in pod.init_statuses if status.name in sidecars),
        *pod.container_statuses,
    ]
    return [status.name for status in statuses if not status.ready and status.name not in later]


def _format_containers(containers: list[str]) -> str:
    names = ", ".join(containers)
    return "containers " + names + " are" if len(containers) > 1 else f"container {names} is"


def _is_marked_by_others(pod: PodView, now: Instant) -> bool:
    """Whether the control plane marked the pod as not ready, because its node does not report: all containers are
    ready in the node's last report. A node that reports does not leave a pod in this state for long.
    """
    at = marked_at(pod)
    return at is not None and now >= at


def marked_at(pod: PodView) -> Instant | None:
    """Time from which the node counts as lost, for a pod that is not ready although its containers are; None if there
    is no such time.
    """
    if pod.is_ready or not pod.container_statuses or pod.ready_since is None or unready_containers(pod):
        return None
    return pod.ready_since + MARKED_IN_S
