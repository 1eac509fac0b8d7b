"""Writes of a kubelet to a pod: its status, as the smallest patch.

SandboxPodView + SimulatedPodState + now ──▶ status_of() ──▶ PodStatus ──▶ patch_for() ──▶ strategic merge patch

Pure. Only fields that a kubelet owns are written: phase, addresses, start time, resources, container statuses, and the
conditions in OWNED and of resizes. Other conditions (readiness gates; PodScheduled, if it exists) are read and never
changed. A condition keeps its lastTransitionTime while its status stays the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.sandbox.nodes.images import expand_name
from pykruise.sandbox.nodes.pod_life import is_final, is_ready
from pykruise.sandbox.nodes.pod_state import (
    ContainerRun,
    NodeWorld,
    Role,
    RunState,
    SimulatedPodState,
    list_container_roles,
)
from pykruise.sandbox.pod_view import (
    NO_STATE,
    ContainerState,
    ContainerWaiting,
    PodCondition,
    PodContainer,
    PodContainerStatus,
    PodStatus,
    Running,
    SandboxPodView,
    Terminated,
)

OWNED: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that a kubelet writes."""

_RESIZE: Final = ("PodResizePending", "PodResizeInProgress")
"""Conditions that exist only while they are true."""

_CONTAINERS_NOT_READY: Final = "ContainersNotReady"


class _Container(msgspec.Struct, frozen=True, gc=False):
    """One container with its spec, role, run and readiness."""

    spec: PodContainer
    role: Role
    run: ContainerRun
    ready: bool


def status_of(
    pod: SandboxPodView, state: SimulatedPodState, world: NodeWorld, now: Instant, *, host_ip: str
) -> PodStatus:
    """Build the current status."""
    containers = [
        _Container(spec, role, run, _counts_as_ready(run, spec, role, pod, world, now))
        for (spec, role), run in zip(list_container_roles(pod), state.runs, strict=True)
    ]
    ephemeral = [container for container in containers if container.role is Role.EPHEMERAL]
    containers = [container for container in containers if container.role is not Role.EPHEMERAL]
    init_statuses = tuple(
        _build_container_status(container, pod, world, now)
        for container in containers
        if container.role is not Role.MAIN
    )
    statuses = tuple(
        _build_container_status(container, pod, world, now)
        for container in containers
        if container.role is Role.MAIN
    )
    phase = _compute_phase(containers, pod)
    has_sandbox = bool(pod.status.pod_ip) or any(map(_has_sandbox, containers))
    generation = (pod.generation or None) if world.settings.observed_generation else None
    return PodStatus(
        phase=phase,
        conditions=tuple(
            _with_transition_time(condition, pod, now, generation, accepted_at=state.accepted_at)
            for condition in (
                *_build_owned_conditions(containers, pod, phase, has_sandbox=has_sandbox),
                *_resize_conditions(state),
            )
        ),
        init_containers=init_statuses,
        containers=statuses,
        ephemeral_containers=tuple(
            _build_container_status(container, pod, world, now) for container in ephemeral
        ),
        host_ip=host_ip,
        pod_ip=(host_ip if pod.host_network else state.ip) if has_sandbox else "",
        start_time=pod.status.start_time or format_time(state.accepted_at),
        observed_generation=generation,
        resources=_choose_pod_resources(pod, state, is_running=phase == "Running"),
        resize=_resize_word(pod, state),
    )


def _choose_pod_resources(
    pod: SandboxPodView, state: SimulatedPodState, *, is_running: bool
) -> Mapping[str, Any] | None:
    """Actual resources of the whole pod: the old resources while a change waits or is in progress."""
    if pod.resources is None or not is_running:
        return None
    is_open = state.resize_refused is not None or state.resizing_since is not None
    return pod.status.resources if is_open and pod.status.resources is not None else pod.allotment


def _resize_word(pod: SandboxPodView, state: SimulatedPodState) -> str:
    """New value of `status.resize`. API servers before 1.33 set it; the kubelet only changes a value that is set."""
    if not pod.status.resize:
        return ""
    if state.resize_refused is not None:
        return state.resize_refused.reason
    return "InProgress" if state.resizing_since is not None else ""


def build_stopped_status(pod: SandboxPodView, state: SimulatedPodState, now: Instant) -> PodStatus:
    """The last status of a deleted pod: running containers are shown as completed, failed containers as failed."""
    statuses = {
        run.name: Terminated(
            exit_code=0,
            reason="Completed",
            started_at=format_time(run.since),
            finished_at=format_time(now),
            container_id=run.container_id,
        )
        for run in state.runs
        if run.state is RunState.RUNNING
    }

    def ended(known: Iterable[PodContainerStatus]) -> tuple[PodContainerStatus, ...]:
        return tuple(
            msgspec.structs.replace(
                status, ready=False, started=False, state=ContainerState(terminated=statuses[status.name])
            )
            if status.name in statuses
            else status
            for status in known
        )

    has_failed = any(run.name not in statuses and run.last and run.last.exit_code for run in state.runs)
    reason = "PodFailed" if has_failed else "PodCompleted"
    conditions = [
        PodCondition("PodReadyToStartContainers", "False"),
        PodCondition("Initialized", "True", None if has_failed else reason),
        PodCondition("Ready", "False", reason),
        PodCondition("ContainersReady", "False", reason),
    ]
    return msgspec.structs.replace(
        pod.status,
        phase="Failed" if has_failed else "Succeeded",
        conditions=tuple(
            _with_transition_time(condition, pod, now, None, accepted_at=state.accepted_at)
            for condition in conditions
        ),
        init_containers=ended(pod.status.init_containers),
        containers=ended(pod.status.containers),
        ephemeral_containers=ended(pod.status.ephemeral_containers),
    )


def is_worth_reporting(
    pod: SandboxPodView, state: SimulatedPodState, world: NodeWorld, now: Instant, *, look_at: Instant
) -> bool:
    """Whether to write the status now: always, except for a short time before the first start.

    A real kubelet also writes in this short time, but its next write a second later has the same information.
    """
    if pod.status.start_time is not None:
        return True
    if state.unmounted:
        return True
    if any(run.state not in (RunState.BLOCKED, RunState.STARTING) or run.missing for run in state.runs):
        return True
    return look_at - state.accepted_at > world.settings.report_pending_after_s


def patch_for(pod: SandboxPodView, wanted: PodStatus) -> dict[str, Any] | None:
    """Build the strategic merge patch of the status subresource, with the pod's uid; None when nothing differs."""
    known = pod.status
    status: dict[str, Any] = {}
    if conditions := [
        _build_condition_patch(condition, known.find_condition(condition.type))
        for condition in wanted.conditions
        if condition != known.find_condition(condition.type)
    ]:
        status["conditions"] = conditions
    wanted_types = {condition.type for condition in wanted.conditions}
    if over := [
        kind for kind in _RESIZE if known.find_condition(kind) is not None and kind not in wanted_types
    ]:
        status.setdefault("conditions", []).extend({"$patch": "delete", "type": kind} for kind in over)
    if wanted.resources is not None and wanted.resources != known.resources:
        status["resources"] = wanted.resources
    if known.resize and wanted.resize != known.resize:
        status["resize"] = wanted.resize or None
    if wanted.phase != known.phase:
        status["phase"] = wanted.phase
    if wanted.host_ip and wanted.host_ip != known.host_ip:
        status |= {"hostIP": wanted.host_ip, "hostIPs": [{"ip": wanted.host_ip}]}
    if wanted.pod_ip and wanted.pod_ip != known.pod_ip:
        ips: list[dict[str, str]] = [{"ip": wanted.pod_ip}]
        if known.pod_ip:
            ips.append({"$patch": "delete", "ip": known.pod_ip})
        status |= {"podIP": wanted.pod_ip, "podIPs": ips}
    if wanted.start_time != known.start_time:
        status["startTime"] = wanted.start_time
    if wanted.init_containers != known.init_containers:
        status["initContainerStatuses"] = msgspec.to_builtins(wanted.init_containers)
    if wanted.containers != known.containers:
        status["containerStatuses"] = msgspec.to_builtins(wanted.containers)
    if wanted.ephemeral_containers != known.ephemeral_containers:
        status["ephemeralContainerStatuses"] = msgspec.to_builtins(wanted.ephemeral_containers)
    if wanted.observed_generation is not None and wanted.observed_generation != known.observed_generation:
        status["observedGeneration"] = wanted.observed_generation
    return {"metadata": {"uid": pod.uid}, "status": status} if status else None


# ── phase ────────────────────────────────────────────────────────────────────


def _has_sandbox(container: _Container) -> bool:
    """Whether the container shows that the pod has its sandbox and its address: it has run, or its start has failed."""
    run = container.run
    return bool(run.number or run.missing or run.state is RunState.PULL_FAILED)


def _counts_as_ready(
    run: ContainerRun, spec: PodContainer, role: Role, pod: SandboxPodView, world: NodeWorld, now: Instant
) -> bool:
    if role is Role.INIT:
        return _is_done(run)
    if role is Role.EPHEMERAL:
        return False
    return is_ready(run, spec, pod, world, now)


def _is_done(run: ContainerRun) -> bool:
    return run.state is RunState.EXITED and run.last is not None and run.last.exit_code == 0


def _is_initialized(container: _Container) -> bool:
    return _is_done(container.run) if container.role is Role.INIT else container.run.number > 0


def _compute_phase(containers: Sequence[_Container], pod: SandboxPodView) -> str:
    """Pending, Running, Succeeded or Failed. This is the rule of the kubelet's `getPhase`."""
    inits = [container for container in containers if container.role is not Role.MAIN]
    if any(is_final(init.run, init.role, pod) and not _is_done(init.run) for init in inits):
        return "Failed"
    if not all(map(_is_initialized, inits)):
        return "Pending"
    mains = [container.run for container in containers if container.role is Role.MAIN]
    if any(run.number == 0 for run in mains):
        return "Pending"
    if not all(is_final(run, Role.MAIN, pod) for run in mains):
        return "Running"
    return "Succeeded" if all(map(_is_done, mains)) else "Failed"


# ── containers ───────────────────────────────────────────────────────────────


def _build_container_status(
    container: _Container, pod: SandboxPodView, world: NodeWorld, now: Instant
) -> PodContainerStatus:
    run = container.run
    return PodContainerStatus(
        name=run.name,
        image=expand_name(run.image) if run.image else container.spec.image,
        image_id=run.image_id,
        container_id=run.container_id or msgspec.UNSET,
        ready=container.ready,
        started=run.state is RunState.RUNNING,
        restart_count=max(0, run.number - 1),
        state=_build_container_state(container, pod, world, now),
        last_state=_build_last_state(container, pod),
        **_build_resources(container),
    )


def _build_resources(container: _Container) -> dict[str, Any]:
    """Resources of the container; empty when this kubelet does not report them."""
    in_force = container.run.resources
    if in_force is None or container.run.state is not RunState.RUNNING:
        return {}
    resources: dict[str, Any] = {"resources": dict(in_force)}
    if requests := in_force.get("requests"):
        resources["allocated_resources"] = dict(requests)
    return resources


def _build_container_state(
    container: _Container, pod: SandboxPodView, world: NodeWorld, now: Instant
) -> ContainerState:
    run = container.run
    if run.state is RunState.RUNNING:
        return ContainerState(running=Running(format_time(run.since)))
    if run.state is RunState.EXITED:
        if _backs_off(container, pod):
            return ContainerState(
                waiting=ContainerWaiting("CrashLoopBackOff", _format_back_off(container, pod))
            )
        return ContainerState(terminated=run.last)
    if run.state is RunState.PULL_FAILED and run.failure is not None:
        if run.failure.reason == "ErrImagePull" and now >= run.since + world.settings.pull_error_s:
            text = f'Back-off pulling image "{run.tried}": ErrImagePull: {run.failure.message}'
            return ContainerState(waiting=ContainerWaiting("ImagePullBackOff", text))
        return ContainerState(waiting=ContainerWaiting(run.failure.reason, run.failure.message))
    if run.missing:
        return ContainerState(waiting=ContainerWaiting("CreateContainerConfigError", run.missing))
    has_init = bool(pod.init_containers.items)
    return ContainerState(waiting=ContainerWaiting("PodInitializing" if has_init else "ContainerCreating"))


def _build_last_state(container: _Container, pod: SandboxPodView) -> ContainerState:
    run = container.run
    end = run.previous if run.state is RunState.EXITED and not _backs_off(container, pod) else run.last
    return ContainerState(terminated=end) if end else NO_STATE


def _backs_off(container: _Container, pod: SandboxPodView) -> bool:
    return container.run.crashes > 1 and not is_final(container.run, container.role, pod)


def _format_back_off(container: _Container, pod: SandboxPodView) -> str:
    return (
        f"back-off restarting failed container={container.run.name} pod={pod.name}_{pod.namespace}({pod.uid})"
    )


# ── conditions ───────────────────────────────────────────────────────────────


def _build_owned_conditions(
    containers: Sequence[_Container], pod: SandboxPodView, phase: str, *, has_sandbox: bool
) -> list[PodCondition]:
    """The owned conditions. This is the rule of the kubelet's `Generate...Condition` functions."""
    # The condition PodScheduled is missing if no scheduler set the pod's node.
    scheduled = [] if pod.status.find_condition("PodScheduled") else [PodCondition("PodScheduled", "True")]
    return [
        *scheduled,
        PodCondition("PodReadyToStartContainers", "True" if has_sandbox and not _is_end(phase) else "False"),
        _build_initialized_condition(containers, phase),
        _build_ready_condition(containers, pod, phase),
        _build_containers_ready_condition(containers, phase),
    ]


def _resize_conditions(state: SimulatedPodState) -> Iterable[PodCondition]:
    """The conditions of an in-place resize. This is the rule of the kubelet since Kubernetes 1.33."""
    if state.resize_refused is not None:
        yield PodCondition(
            "PodResizePending", "True", state.resize_refused.reason, state.resize_refused.message
        )
    if state.resizing_since is not None:
        yield PodCondition("PodResizeInProgress", "True")


def _is_end(phase: str) -> bool:
    return phase in ("Succeeded", "Failed")


def _build_initialized_condition(containers: Sequence[_Container], phase: str) -> PodCondition:
    waiting = [
        container.run.name
        for container in containers
        if container.role is not Role.MAIN and not _is_initialized(container)
    ]
    if phase == "Succeeded":
        return PodCondition("Initialized", "True", "PodCompleted")
    if waiting:
        text = f"containers with incomplete status: [{' '.join(waiting)}]"
        return PodCondition("Initialized", "False", "ContainersNotInitialized", text)
    return PodCondition("Initialized", "True")


def _build_containers_ready_condition(containers: Sequence[_Container], phase: str) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition("ContainersReady", "False", "PodCompleted")
    if phase == "Failed":
        return PodCondition("ContainersReady", "False", "PodFailed")
    unready = [
        container.run.name
        for container in containers
        if container.role is not Role.INIT and not container.ready
    ]
    if unready:
        text = f"containers with unready status: [{' '.join(unready)}]"
        return PodCondition("ContainersReady", "False", _CONTAINERS_NOT_READY, text)
    return PodCondition("ContainersReady", "True")


def _build_ready_condition(containers: Sequence[_Container], pod: SandboxPodView, phase: str) -> PodCondition:
    """Condition Ready, from containers and readiness gates."""
    below = _build_containers_ready_condition(containers, phase)
    if below.status != "True":
        return msgspec.structs.replace(below, type="Ready")
    problems = []
    for gate in pod.readiness_gates:
        condition = pod.status.find_condition(gate)
        if condition is None:
            problems.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif condition.status != "True":
            problems.append(
                f'the status of pod readiness gate "{gate}" is not "True", but {condition.status}'
            )
    if problems:
        return PodCondition("Ready", "False", "ReadinessGatesNotReady", ", ".join(problems))
    return PodCondition("Ready", "True")


def _with_transition_time(
    condition: PodCondition,
    pod: SandboxPodView,
    now: Instant,
    generation: int | None,
    *,
    accepted_at: Instant,
) -> PodCondition:
    """The condition with the time of its last change of status. A new condition that is False has the time at which the
    kubelet accepted the pod, even if it is written later.
    """
    known = pod.status.find_condition(condition.type)
    if known is None:
        changed_at = format_time(accepted_at if condition.status == "False" else now)
    elif known.status == condition.status and known.last_transition_time:
        changed_at = known.last_transition_time
    else:
        changed_at = format_time(now)
    return msgspec.structs.replace(
        condition,
        last_transition_time=changed_at,
        observed_generation=generation if generation else known.observed_generation if known else None,
    )


def _build_condition_patch(condition: PodCondition, known: PodCondition | None) -> dict[str, Any]:
    patch: dict[str, Any] = msgspec.to_builtins(condition)
    # A merge keeps fields that the patch omits, so an old reason must be removed explicitly.
    if known is not None:
        if condition.reason is None and known.reason is not None:
            patch["reason"] = None
        if condition.message is None and known.message is not None:
            patch["message"] = None
    return patch
