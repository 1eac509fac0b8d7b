"""The life of a pod on its node: the transitions of its containers.

SimulatedPodState + SandboxPodView + NodeWorld + now ──▶ advance() ──▶ SimulatedPodState, and when to look again

Pure: no I/O, no clock, no randomness (delays vary by a fraction that is computed from seed, uid and run).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any, assert_never

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.values.image_pulls import PullFailure
from pykruise.sandbox.nodes.faults import Behaviour, behaviour_of
from pykruise.sandbox.nodes.images import expand_name
from pykruise.sandbox.nodes.pod_state import (
    NEVER,
    NONE_HELD,
    NOTHING_MISSING,
    ContainerRun,
    KubeletSettings,
    NodeWorld,
    Refused,
    Role,
    RunState,
    SimulatedPodState,
    end_run,
    list_container_roles,
)
from pykruise.sandbox.nodes.references import Reference
from pykruise.sandbox.nodes.specs import NodeSpec
from pykruise.sandbox.pod_view import PodContainer, SandboxPodView, SecurityContext, parse_amounts

_HALF_DELETED_S = 1.0  # longest time that a pod without remaining grace period may still exist
_DEFERRED_S = 10.0  # interval of attempts for a deferred change of resources
UNMOUNTED = ""
"""Key of an entry for the whole pod in mappings from containers to problems: why its volumes cannot be mounted."""

LONG_PULL_S = 10.0
"""Shortest pull, in seconds, whose start the node reports: events about all pulls would slow large clusters."""

_MISSING_S = 1.0  # interval of attempts for a container with an incomplete environment
_SETTLED_S = 600.0  # after a run of this length, the backoff of a container starts again from its first value


def advance(
    state: SimulatedPodState,
    pod: SandboxPodView,
    world: NodeWorld,
    now: Instant,
    *,
    refused: Refused | None = None,
    missing: Mapping[str, str] = NOTHING_MISSING,
    held: Set[str] = NONE_HELD,
) -> tuple[SimulatedPodState, Instant]:
    """Execute all transitions that are due until `now`. Return the new state and the time of the next transition
    (NEVER if there is none).

    `refused`: why the node cannot apply a change of resources now. `missing`: for each container that never ran, what
    prevents its start. `held`: full names of the node's images.
    """
    if pod.is_deleting:
        if state.stopping_since is None:
            state = msgspec.structs.replace(state, stopping_since=now)
        return state, find_removal_time(state, pod, world)
    roles = list(list_container_roles(pod))
    if _is_over(state.runs, roles, pod):
        return state, NEVER
    state, look_at = _resize(state, pod, world, now, refused)
    opens_at = state.accepted_at  # time from which the next container may start
    if unmounted := missing.get(UNMOUNTED, ""):
        if state.unmounted != unmounted:
            state = msgspec.structs.replace(state, unmounted=unmounted)
        return state, min(look_at, now + _MISSING_S)
    if state.unmounted:
        state = msgspec.structs.replace(state, unmounted="", accepted_at=now)
        opens_at = now
    runs: list[ContainerRun] = []
    for (container, role), run in zip(roles, state.runs, strict=True):
        life = _Life(container, role, pod, world, held, is_refused=state.resize_refused is not None)
        if run.state is RunState.BLOCKED and opens_at <= now:
            if lacks := missing.get(run.name):
                run = msgspec.structs.replace(run, missing=lacks)
                look_at = min(look_at, now + _MISSING_S)
            else:
                since = now if run.missing or role is Role.EPHEMERAL else opens_at
                run = msgspec.structs.replace(run, state=RunState.STARTING, since=since, missing="")
        run, due = life.advance(run, now)
        look_at = min(look_at, due)
        if role in (Role.INIT, Role.SIDECAR):
            opens_at = max(opens_at, life.find_opening_time(run))
        runs.append(run)
    if _is_over(runs, roles, pod):
        runs = [end_run(run, now, code=0) if run.state is RunState.RUNNING else run for run in runs]
        look_at = NEVER
    changed = tuple(runs)
    return (state if changed == state.runs else msgspec.structs.replace(state, runs=changed)), look_at


def list_awaited_references(
    state: SimulatedPodState, pod: SandboxPodView
) -> dict[str, tuple[Reference, ...]]:
    """Objects that the environments of containers need, for each container that never ran. The key `UNMOUNTED` has the
    objects that the volumes need before any container starts.
    """
    waiting = {run.name for run in state.runs if run.state is RunState.BLOCKED}
    references = {
        container.name: needed
        for container, _ in list_container_roles(pod)
        if container.name in waiting and (needed := container.references)
    }
    if pod.mounted and all(run.state is RunState.BLOCKED for run in state.runs):
        references[UNMOUNTED] = pod.mounted
    return references


def list_root_users(state: SimulatedPodState, pod: SandboxPodView) -> Iterator[tuple[str, str]]:
    """Containers that never ran and would run as root although `runAsNonRoot` is set, with the kubelet's message. The
    container's securityContext has precedence over the pod's.
    """
    waiting = {run.name for run in state.runs if run.state is RunState.BLOCKED}
    for container, _ in list_container_roles(pod):
        given = container.security_context or SecurityContext()
        user = pod.security.run_as_user if given.run_as_user is None else given.run_as_user
        is_checked = pod.security.run_as_non_root if given.run_as_non_root is None else given.run_as_non_root
        if is_checked and user == 0 and container.name in waiting:
            name = f"{pod.name}_{pod.namespace}({pod.uid})"
            yield (
                container.name,
                f'container\'s runAsUser breaks non-root policy (pod: "{name}", container: {container.name})',
            )


def list_long_pulls(
    state: SimulatedPodState, pod: SandboxPodView, world: NodeWorld, held: Set[str]
) -> Iterator[str]:
    """Names of the containers that start, and whose image the node pulls for at least LONG_PULL_S seconds."""
    for (container, role), run in zip(list_container_roles(pod), state.runs, strict=True):
        life = _Life(container, role, pod, world, held)
        if run.state is RunState.STARTING and life.compute_pull_s(run) >= LONG_PULL_S:
            yield container.name


def wants_resize(state: SimulatedPodState, pod: SandboxPodView) -> bool:
    """Whether the resources of a container that has run, or of the whole pod, differ from the spec."""
    in_force = pod.status.resources
    if pod.resources is not None and in_force is not None and in_force != pod.allotment:
        return True
    return any(
        _is_outgrown(container, run)
        for (container, _), run in zip(list_container_roles(pod), state.runs, strict=True)
    )


def refusal_of(pod: SandboxPodView, node: NodeSpec, pods: Iterable[SandboxPodView]) -> Refused | None:
    """Why the node cannot give the pod the resources of its spec now; None when it can.

    `pods`: pods of all nodes; the pods on this node are selected. This is the rule of the kubelet's resize admission.
    """
    capacity = parse_amounts({"cpu": node.cpu, "memory": node.memory})
    wanted = pod.sum_requests()
    for name, most in capacity.items():
        if wanted.get(name, 0) > most:
            text = f"Node didn't have enough capacity: {name}, requested: {wanted[name]}, capacity: {most}"
            return Refused("Infeasible", text)
    others = [
        other
        for other in pods
        if other.node_name == pod.node_name and other.uid != pod.uid and not other.is_over
    ]
    for name, most in capacity.items():
        used = sum(other.sum_requests().get(name, 0) for other in others)
        if used + wanted.get(name, 0) > most:
            text = (
                f"Node didn't have enough resource: {name}, requested: {wanted.get(name, 0)}, "
                f"used: {used}, capacity: {most}"
            )
            return Refused("Deferred", text)
    return None


def _is_outgrown(container: PodContainer, run: ContainerRun) -> bool:
    return run.resources is not None and run.resources != container.allotment


def _resize(
    state: SimulatedPodState, pod: SandboxPodView, world: NodeWorld, now: Instant, refused: Refused | None
) -> tuple[SimulatedPodState, Instant]:
    """Change resources: immediately, after `resize_s`, or not while the node has no room."""
    if not wants_resize(state, pod):
        if state.resizing_since is not None or state.resize_refused is not None:
            state = msgspec.structs.replace(state, resizing_since=None, resize_refused=None)
        return state, NEVER
    if refused is not None:
        state = msgspec.structs.replace(state, resizing_since=None, resize_refused=refused)
        return state, NEVER if refused.reason == "Infeasible" else now + _DEFERRED_S
    since = now if state.resizing_since is None else state.resizing_since
    due = since + world.settings.resize_s
    if due > now:
        return msgspec.structs.replace(state, resizing_since=since, resize_refused=None), due
    runs = tuple(
        _with_allotment(container, run, now) if _is_outgrown(container, run) else run
        for (container, _), run in zip(list_container_roles(pod), state.runs, strict=True)
    )
    return msgspec.structs.replace(state, runs=runs, resizing_since=None, resize_refused=None), NEVER


def _with_allotment(container: PodContainer, run: ContainerRun, now: Instant) -> ContainerRun:
    before, after = run.resources or {}, container.allotment
    bounds = ("requests", "limits")
    names = {name for bound in bounds for name in {**before.get(bound, {}), **after.get(bound, {})}}
    changed = {
        name
        for name in names
        if any(before.get(bound, {}).get(name) != after.get(bound, {}).get(name) for bound in bounds)
    }
    granted = msgspec.structs.replace(run, resources=after)
    if run.state is RunState.RUNNING and container.is_restarted_by(changed):
        return end_run(granted, now, code=0)
    return granted


def find_removal_time(state: SimulatedPodState, pod: SandboxPodView, world: NodeWorld) -> Instant:
    """Time at which a terminating pod must be removed; NEVER when its kubelet has nothing to do (any more)."""
    if state.stopping_since is None:
        return NEVER
    if pod.grace_s == 0:
        # A pod with finalizers waits until others remove them. A pod without finalizers is removed automatically. But
        # if its API server stopped between the two writes of a deletion (setting the grace period, removing), another
        # DELETE finishes the deletion.
        return NEVER if pod.finalizers else state.stopping_since + _HALF_DELETED_S
    if not any(run.state is RunState.RUNNING for run in state.runs):
        return state.stopping_since
    asked = [
        behaviour.stop_s
        for (container, _), run in zip(list_container_roles(pod), state.runs, strict=True)
        if (behaviour := _find_behaviour(world, pod, container, run.number)).stop_s is not None
    ]
    hooks_s = max(
        container.pre_stop_s
        for (container, _), run in zip(list_container_roles(pod), state.runs, strict=True)
        if run.state is RunState.RUNNING
    )
    delay_s = max(asked) if asked else min(hooks_s + world.settings.stop_s, float(pod.grace_s))
    return state.stopping_since + delay_s


def is_ready(
    run: ContainerRun, container: PodContainer, pod: SandboxPodView, world: NodeWorld, now: Instant
) -> bool:
    """Whether the container is ready: it runs, its probe has had enough time, and no rule prevents it."""
    if run.state is not RunState.RUNNING:
        return False
    ready_at, unready_at = _compute_readiness(run, container, pod, world)
    return ready_at <= now < unready_at


def is_restarted(run: ContainerRun, role: Role, pod: SandboxPodView) -> bool:
    """Whether a container that has ended is started again."""
    code = run.last.exit_code if run.last else 0
    match role:
        case Role.SIDECAR:
            return True
        case Role.INIT:
            return code != 0 and pod.restart_policy != "Never"
        case Role.EPHEMERAL:
            return False
        case Role.MAIN:
            return pod.restart_policy == "Always" or (pod.restart_policy == "OnFailure" and code != 0)
        case _:
            assert_never(role)


def is_final(run: ContainerRun, role: Role, pod: SandboxPodView) -> bool:
    """Whether a container has ended and will not start again. A container that was stopped to be replaced starts
    again."""
    was_replaced = run.crashes == 0 and role is not Role.INIT
    return run.state is RunState.EXITED and not was_replaced and not is_restarted(run, role, pod)


def compute_backoff_s(failures: int, settings: KubeletSettings) -> float:
    """Return the seconds to wait after this number of consecutive failures (from 1)."""
    return min(settings.backoff_cap_s, settings.backoff_s * 2.0 ** min(failures - 1, 30))


def _is_over(
    runs: Sequence[ContainerRun], roles: list[tuple[PodContainer, Role]], pod: SandboxPodView
) -> bool:
    """Whether all main containers have ended and will not start again (then sidecars are stopped, too)."""
    mains = [run for run, (_, role) in zip(runs, roles, strict=True) if role is Role.MAIN]
    return bool(mains) and all(is_final(run, Role.MAIN, pod) for run in mains)


class _Life:
    """The transitions of one container."""

    __slots__ = ("container", "held", "is_refused", "pod", "role", "settings", "world")

    def __init__(
        self,
        container: PodContainer,
        role: Role,
        pod: SandboxPodView,
        world: NodeWorld,
        held: Set[str],
        *,
        is_refused: bool = False,
    ) -> None:
        self.held = held
        self.is_refused = is_refused
        self.container = container
        self.role = role
        self.pod = pod
        self.world = world
        self.settings = world.settings

    def advance(self, run: ContainerRun, now: Instant) -> tuple[ContainerRun, Instant]:
        """Execute all transitions that are due until `now`, and return when the next transition is due."""
        run = self._follow_image(run, now)
        while (due := self._compute_next_due(run)) <= now:
            run = self._compute_next_state(run, due)
        return run, min(due, self._compute_next_report(run, now))

    def find_opening_time(self, run: ContainerRun) -> Instant:
        """Time from which the next containers may start; NEVER before this init container allows it."""
        match self.role:
            case Role.INIT:
                is_done = run.state is RunState.EXITED and run.last is not None and run.last.exit_code == 0
                return run.since if is_done else NEVER
            case Role.SIDECAR:
                # A sidecar that restarts later does not delay containers that it has already let start.
                return run.since if run.state is RunState.RUNNING else 0.0 if run.number else NEVER
            case Role.MAIN | Role.EPHEMERAL:
                return NEVER
            case _:
                assert_never(self.role)

    def _follow_image(self, run: ContainerRun, now: Instant) -> ContainerRun:
        """Replace a container whose image has changed, regardless of the restart policy."""
        image = self.container.image
        match run.state:
            case RunState.RUNNING if run.image != image:
                return end_run(run, now, code=0)
            case RunState.PULL_FAILED if run.tried != image:
                return msgspec.structs.replace(
                    run, state=RunState.STARTING, since=now, pull_failures=0, failure=None, tried=""
                )
            case RunState.EXITED if run.image != image and run.crashes and self._will_restart(run):
                return msgspec.structs.replace(run, crashes=0)
            case _:
                return run

    def _compute_next_due(self, run: ContainerRun) -> Instant:
        match run.state:
            case RunState.BLOCKED:
                return NEVER
            case RunState.STARTING:
                return run.since + self.compute_pull_s(run) + self._compute_start_s(run)
            case RunState.PULL_FAILED:
                is_final = run.failure is not None and run.failure.reason == "InvalidImageName"
                return NEVER if is_final else run.since + compute_backoff_s(run.pull_failures, self.settings)
            case RunState.RUNNING:
                return self._compute_end_due(run)
            case RunState.EXITED:
                return self._restart_due(run)
            case _:
                assert_never(run.state)

    def _compute_next_state(self, run: ContainerRun, at: Instant) -> ContainerRun:
        match run.state:
            case RunState.STARTING | RunState.PULL_FAILED:
                return self._start(run, at)
            case RunState.RUNNING:
                code = self._find_behaviour(run.number).exit_code
                return end_run(run, at, code=code or 0, crashes=self._count_crashes(run, at))
            case RunState.EXITED:
                return self._start(run, at)
            case RunState.BLOCKED:
                return run
            case _:
                assert_never(run.state)

    def _start(self, run: ContainerRun, at: Instant) -> ContainerRun:
        image = self.container.image
        answer = self._find_volume_failure() or self.world.images.pull(image)
        if self._find_behaviour(run.number + 1).image_pull_error:
            answer = PullFailure(
                "ErrImagePull", f'failed to pull image "{image}": the registry denies the pull (scripted)'
            )
        if isinstance(answer, PullFailure):
            return msgspec.structs.replace(
                run,
                state=RunState.PULL_FAILED,
                since=at,
                tried=image,
                failure=answer,
                pull_failures=run.pull_failures + 1,
                previous=None,
            )
        number = run.number + 1
        return msgspec.structs.replace(
            run,
            state=RunState.RUNNING,
            since=at,
            number=number,
            image=image,
            image_id=answer.image_id,
            container_id=_build_container_id(self.pod.uid, run.name, number),
            failure=None,
            tried="",
            pull_failures=0,
            previous=None,
            resources=self._choose_resources(run),
        )

    def _choose_resources(self, run: ContainerRun) -> Mapping[str, Any] | None:
        """Resources of a container that starts: the resources in the spec or, while the node rejects these, the
        resources that it admitted before. Rule: the kubelet creates containers with the allocated resources."""
        if not self.settings.reports_resources:
            return None
        return run.resources if self.is_refused and run.resources is not None else self.container.allotment

    def _find_volume_failure(self) -> PullFailure | None:
        """Why an image volume of the container cannot be pulled. This is the rule of the kubelet, which pulls these
        images first, and reports a failure like one of the container's own image.
        """
        mounted = self.container.mounts
        answers = (self.world.images.pull(image) for name, image in self.pod.volume_images if name in mounted)
        return next((answer for answer in answers if isinstance(answer, PullFailure)), None)

    def compute_pull_s(self, run: ContainerRun) -> float:
        """Return the seconds for which the node pulls the image; 0 if the node has the image."""
        scripted = self._find_behaviour(run.number + 1).pull_s
        pull_s = self.settings.pull_s if scripted is None else scripted
        return pull_s if pull_s and expand_name(self.container.image) not in self.held else 0.0

    def _compute_start_s(self, run: ContainerRun) -> float:
        scripted = self._find_behaviour(run.number + 1).start_s
        if scripted is not None:
            return scripted + self.container.post_start_s
        # The container's name is not included, so that containers that start together are reported in one write.
        fraction = self.world.draw_fraction(self.pod.uid, run.number) if self.settings.start_jitter else 0.0
        start_s = self.settings.start_s * (1.0 + self.settings.start_jitter * fraction)
        return start_s + self.container.post_start_s

    def _compute_end_due(self, run: ContainerRun) -> Instant:
        behaviour = self._find_behaviour(run.number)
        if behaviour.exit_code is not None:
            return run.since + behaviour.exit_after_s
        match self.role:
            case Role.INIT:
                return run.since + self.settings.init_s
            case Role.MAIN if self.pod.is_for_a_job and self.settings.job_s is not None:
                return run.since + self.settings.job_s
            case Role.EPHEMERAL if not self.container.stdin and self.settings.job_s is not None:
                return run.since + self.settings.job_s
            case _:
                return NEVER

    def _restart_due(self, run: ContainerRun) -> Instant:
        if not self._will_restart(run):
            return NEVER
        if run.crashes <= 1:
            return run.since + self.compute_pull_s(run) + self._compute_start_s(run)
        return run.since + compute_backoff_s(run.crashes - 1, self.settings)

    def _will_restart(self, run: ContainerRun) -> bool:
        return not is_final(run, self.role, self.pod)

    def _count_crashes(self, run: ContainerRun, at: Instant) -> int:
        return 1 if at - run.since >= _SETTLED_S else run.crashes + 1

    def _compute_next_report(self, run: ContainerRun, now: Instant) -> Instant:
        """Time at which the status changes without a change of the state."""
        match run.state:
            case RunState.RUNNING:
                moments = _compute_readiness(run, self.container, self.pod, self.world)
                return min((moment for moment in moments if moment > now), default=NEVER)
            case RunState.PULL_FAILED:
                shown_until = run.since + self.settings.pull_error_s
                return shown_until if shown_until > now else NEVER
            case _:
                return NEVER

    def _find_behaviour(self, number: int) -> Behaviour:
        return _find_behaviour(self.world, self.pod, self.container, number)


def _find_behaviour(world: NodeWorld, pod: SandboxPodView, container: PodContainer, number: int) -> Behaviour:
    return behaviour_of(world.rules, pod, container=container.name, image=container.image, run=max(1, number))


def _compute_readiness(
    run: ContainerRun, container: PodContainer, pod: SandboxPodView, world: NodeWorld
) -> tuple[Instant, Instant]:
    """Times from which and until which a running container is ready."""
    behaviour = _find_behaviour(world, pod, container, run.number)
    ready_s = world.settings.ready_s if behaviour.ready_s is None else behaviour.ready_s
    unready_at = NEVER if behaviour.unready_after_s is None else run.since + behaviour.unready_after_s
    return run.since + container.initial_delay_s + ready_s, unready_at


def _build_container_id(uid: str, name: str, number: int) -> str:
    return f"containerd://{sha256(f'{uid}/{name}/{number}'.encode()).hexdigest()}"
