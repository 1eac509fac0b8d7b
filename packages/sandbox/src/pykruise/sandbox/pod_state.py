"""What a pod's containers do on their node, on paper: start, become ready, restart, end, stop.

PodView + PodState (before) + now ──▶ advance() ──▶ PodState (now), when to look again ──▶ pod_status.py

Pure: no I/O, no clock, no randomness (delays differ from pod to pod by a fraction made of seed, uid and run).
A PodState is what a container runtime would know. It holds only facts; when something is due follows from
them, the settings and the rules, so that rules can change while a pod runs. After a restart of this program
`recover()` makes it anew of the status that was written.

One container (a `Run`):

    BLOCKED ──earlier init containers are done──▶ STARTING ──start_s──▶ RUNNING ──a rule, init_s──▶ EXITED
                                                   │  ▲                    │ image changed            │
                                           no image│  │backoff             └────────▶ EXITED ─────────┤
                                                   ▼  │                                               │
                                                PULL_FAILED          STARTING ◀── restart policy ─────┘
"""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from hashlib import sha256
from typing import Any, assert_never
from zlib import crc32

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.node_agent.image_pulls import PullFailure
from pykruise.sandbox.faults import Behaviour, Rule, behaviour_of
from pykruise.sandbox.images import ImageTable, full_name
from pykruise.sandbox.pod_view import Container, ContainerStatus, PodView, Terminated, instant_of

__all__ = [
    "KubeletSettings",
    "PodState",
    "Refused",
    "Role",
    "Run",
    "RunState",
    "World",
    "advance",
    "awaited_keys",
    "begin",
    "container_roles",
    "is_final",
    "is_ready",
    "recover",
    "removal_due",
    "wants_resize",
    "will_restart",
    "with_added",
    "with_stopped",
]

NEVER: Instant = math.inf
NOTHING_MISSING: Mapping[str, str] = {}
NONE_HELD: frozenset[str] = frozenset()
_HALF_DELETED_S = 1.0  # so long a pod that has no time of grace left may still be there
_DEFERRED_S = 10.0  # a change of resources that has to wait is tried again
_MISSING_S = 1.0  # a container whose environment is not complete is tried again
_KILLED = 137  # exit code of a process that was killed
_LOST = 255  # what the runtime says of a process that is not there any more
_SETTLED_S = 600.0  # a container that ran this long starts its backoff anew


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take on a node, and what a kubelet writes. Times are in seconds."""

    start_s: float = 0.5
    """A container starts after this much time ..."""
    start_jitter: float = 1.0
    """... plus up to this fraction of it."""
    pull_s: float = 0.0
    """How long the image of a container is pulled before that, where the node does not have it."""
    ready_s: float = 0.0
    """From running to ready, on top of the readiness probe's initial delay."""
    init_s: float = 0.0
    """How long an init container runs."""
    job_s: float | None = 1.0
    """How long the containers of a Job's pod, and ephemeral ones, run before they complete; None: until something ends
    them."""
    stop_s: float = 1.0
    """How long a pod takes to stop, after its preStop hooks, if its grace period allows."""
    resize_s: float = 0.0
    """How long a change of resources takes; 0: it is in force when it is first seen, with one write."""
    reports_resources: bool = True
    """Whether resources in force are reported, and changed (kubelets of Kubernetes 1.33 and later do)."""
    pull_error_s: float = 1.0
    """How long ErrImagePull is shown before ImagePullBackOff."""
    backoff_s: float = 10.0
    """First wait after a failed pull or a second crash; doubles each time."""
    backoff_cap_s: float = 300.0
    report_pending_after_s: float = 2.0
    """A pod whose containers take longer to start is reported as Pending first; else that write is saved."""
    report_stopped: bool = False
    """Whether the end of the containers is written to a deleted pod before it is removed."""
    observed_generation: bool = False
    """Whether `observedGeneration` is written (kubelets of Kubernetes 1.33 and later do)."""
    lease_s: float | None = 20.0
    """How often a node's Lease is renewed; None: there are none."""
    heartbeat_s: float = 300.0
    """How often a node's status is written although nothing changed."""
    pulls_ahead: bool = False
    """Whether nodes pull the images that their NodeImages ask for, as OpenKruise's daemon does."""
    pulls_at_once: int = 0
    """Images that a node pulls ahead at the same time; 0: no limit."""
    recreates: bool = False
    """Whether nodes recreate the containers that ContainerRecreateRequests name, as OpenKruise's daemon does."""
    probes: bool = False
    """Whether nodes make the checks that their NodePodProbes ask for, as OpenKruise's daemon does."""
    reports_containers: bool = False
    """Whether nodes report the containers of pods of OpenKruise's workloads in an annotation, and restart those whose
    environment is old, as OpenKruise's daemon does."""
    workers: int = 64
    """Pods written to at the same time."""


class RunState(Enum):
    """Where a container is in its life; see the module's text."""

    BLOCKED = "blocked"
    STARTING = "starting"
    PULL_FAILED = "pull failed"
    RUNNING = "running"
    EXITED = "exited"


class Refused(msgspec.Struct, frozen=True):
    """The node cannot give a pod the resources that it asks for now."""

    reason: str
    """`Infeasible` (never on this node) or `Deferred` (not while the others are there)."""
    message: str


class Role(Enum):
    """What a container is in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Put into a running pod; it starts once, and nothing about the pod depends on it."""


class Run(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container of a pod: its current run and the end of the one before."""

    name: str
    state: RunState = RunState.BLOCKED
    since: Instant = 0.0
    """When it came into this state."""
    number: int = 0
    """Runs so far, the current one included; `restartCount` is one less."""
    image: str = ""
    """What the latest run was started with."""
    image_id: str = ""
    container_id: str = ""
    failure: PullFailure | None = None
    """PULL_FAILED only: why."""
    tried: str = ""
    """PULL_FAILED only: the image that could not be pulled."""
    pull_failures: int = 0
    crashes: int = 0
    """Ends in a row that nobody asked for: the backoff grows with them."""
    last: Terminated | None = None
    """How the latest run ended: the current one when EXITED, else the one before."""
    previous: Terminated | None = None
    """EXITED only: how the run before the latest ended."""
    resources: Mapping[str, Any] | None = None
    """Requests and limits in force; None: nothing is known or reported."""
    missing: str = ""
    """BLOCKED only: what its environment refers to, and is not there."""


class PodState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod on its node."""

    uid: str
    ip: str
    accepted_at: Instant
    runs: tuple[Run, ...]
    """Init containers first, then the main ones, then the ephemeral ones, in the order of the spec."""
    stopping_since: Instant | None = None
    resizing_since: Instant | None = None
    """A change of resources is being carried out."""
    resize_refused: Refused | None = None
    """A change of resources waits."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about pods besides themselves."""

    settings: KubeletSettings = KubeletSettings()
    images: ImageTable = msgspec.field(default_factory=ImageTable)
    rules: tuple[Rule, ...] = ()
    seed: int = 0

    def fraction(self, *parts: object) -> float:
        """A number from 0 to 1 (excluded) that depends on nothing but the seed and `parts`."""
        return crc32(":".join(map(str, (self.seed, *parts))).encode()) / 2**32


def container_roles(pod: PodView) -> Iterator[tuple[Container, Role]]:
    """All containers in the order of `PodState.runs`."""
    for container in pod.init_containers.items:
        yield container, Role.SIDECAR if container.is_sidecar else Role.INIT
    for container in pod.containers.items:
        yield container, Role.MAIN
    for container in pod.ephemeral_containers:
        yield container, Role.EPHEMERAL


# ── beginnings ───────────────────────────────────────────────────────────────


def begin(pod: PodView, *, ip: str, now: Instant) -> PodState:
    """A pod that has just come to its node."""
    return PodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=now,
        runs=tuple(Run(name=container.name) for container, _ in container_roles(pod)),
    )


def with_added(state: PodState, pod: PodView) -> PodState:
    """The state with the ephemeral containers that the pod has got since."""
    names = [container.name for container, _ in container_roles(pod)]
    added = tuple(Run(name=name) for name in names[len(state.runs) :])
    return msgspec.structs.replace(state, runs=state.runs + added) if added else state


def with_stopped(state: PodState, pod: PodView, name: str, now: Instant) -> PodState:
    """The state once somebody beside the kubelet has stopped a running container. It is started again without a wait,
    unless the pod never restarts anything."""
    return _with_ended(state, pod, {name}, now, code=_KILLED)


def with_power_lost(state: PodState, pod: PodView, now: Instant) -> PodState:
    """The state once the pod's node is there again. Its containers ended with it, nobody knows how, and are started
    again as after `with_stopped`."""
    return _with_ended(state, pod, {run.name for run in state.runs}, now, code=_LOST, reason="Unknown")


def _with_ended(
    state: PodState, pod: PodView, names: Set[str], now: Instant, *, code: int, reason: str = "Error"
) -> PodState:
    crashes = 1 if pod.restart_policy == "Never" else 0
    runs = tuple(
        _ended(run, now, code=code, crashes=crashes, reason=reason)
        if run.name in names and run.state is RunState.RUNNING
        else run
        for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def recover(pod: PodView, *, ip: str, now: Instant) -> PodState:
    """The state that the pod's status tells, for a program that has just started.

    What is not in it (how often a pull failed) begins anew.
    """
    known = pod.status
    found = (*known.init_containers, *known.containers, *known.ephemeral_containers)
    statuses = {status.name: status for status in found}
    runs = []
    for container, _ in container_roles(pod):
        status = statuses.get(container.name)
        runs.append(Run(name=container.name) if status is None else _recovered(status, now, container.image))
    return PodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=instant_of(pod.status.start_time, default=now),
        runs=tuple(runs),
    )


def _recovered(status: ContainerStatus, now: Instant, wanted: str) -> Run:
    """`wanted`: the container's image, which a status names in full."""
    image = wanted if full_name(status.image) == full_name(wanted) else status.image
    known = status.container_id if isinstance(status.container_id, str) else ""
    before = status.last_state.terminated
    if status.state.running is not None:
        return Run(
            name=status.name,
            state=RunState.RUNNING,
            since=instant_of(status.state.running.started_at, default=now),
            number=status.restart_count + 1,
            image=image,
            image_id=status.image_id,
            container_id=known,
            last=before,
            resources=status.resources if isinstance(status.resources, dict) else None,
        )
    if (ended := status.state.terminated) is not None:
        return Run(
            name=status.name,
            state=RunState.EXITED,
            since=instant_of(ended.finished_at, default=now),
            number=status.restart_count + 1,
            image=image,
            image_id=status.image_id,
            container_id=known,
            crashes=1,
            last=ended,
            previous=before,
        )
    return Run(
        name=status.name,
        number=status.restart_count + 1 if before else 0,
        image=image if before else "",
        image_id=status.image_id if before else "",
        container_id=known if before else "",
        last=before,
    )


# ── the course of time ───────────────────────────────────────────────────────


def advance(
    state: PodState,
    pod: PodView,
    world: World,
    now: Instant,
    *,
    refused: Refused | None = None,
    missing: Mapping[str, str] = NOTHING_MISSING,
    held: Set[str] = NONE_HELD,
) -> tuple[PodState, Instant]:
    """Everything that has become due until `now`, and when the next thing will be (NEVER: infinity).

    `refused`: the node has no room for a change of resources that is wanted. `missing`: by container, what keeps
    one that never ran from starting. `held`: full names of the images that the node has.
    """
    if pod.is_deleting:
        if state.stopping_since is None:
            state = msgspec.structs.replace(state, stopping_since=now)
        return state, removal_due(state, pod, world)
    roles = list(container_roles(pod))
    if _is_over(state.runs, roles, pod):
        return state, NEVER
    state, look_at = _resized(state, pod, world, now, refused)
    opens_at = state.accepted_at  # when what comes next may start
    runs: list[Run] = []
    for (container, role), run in zip(roles, state.runs, strict=True):
        life = _Life(container, role, pod, world, held)
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
            opens_at = max(opens_at, life.opens_at(run))
        runs.append(run)
    if _is_over(runs, roles, pod):
        runs = [_ended(run, now, code=0) if run.state is RunState.RUNNING else run for run in runs]
        look_at = NEVER
    changed = tuple(runs)
    return (state if changed == state.runs else msgspec.structs.replace(state, runs=changed)), look_at


def awaited_keys(state: PodState, pod: PodView) -> dict[str, list[tuple[str, str]]]:
    """By container that never ran: ConfigMaps, with a key of each, that it needs to start."""
    return {
        container.name: keys
        for (container, _), run in zip(container_roles(pod), state.runs, strict=True)
        if run.state is RunState.BLOCKED and (keys := container.config_keys)
    }


def wants_resize(state: PodState, pod: PodView) -> bool:
    """Whether a running container has other resources than its spec says."""
    return any(
        _is_outgrown(container, run)
        for (container, _), run in zip(container_roles(pod), state.runs, strict=True)
    )


def _is_outgrown(container: Container, run: Run) -> bool:
    in_force = run.resources
    return run.state is RunState.RUNNING and in_force is not None and in_force != container.allotment


def _resized(
    state: PodState, pod: PodView, world: World, now: Instant, refused: Refused | None
) -> tuple[PodState, Instant]:
    """Carry out a change of resources: at once, after `resize_s`, or not while the node refuses."""
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
        for (container, _), run in zip(container_roles(pod), state.runs, strict=True)
    )
    return msgspec.structs.replace(state, runs=runs, resizing_since=None, resize_refused=None), NEVER


def _with_allotment(container: Container, run: Run, now: Instant) -> Run:
    before, after = run.resources or {}, container.allotment
    bounds = ("requests", "limits")
    names = {name for bound in bounds for name in {**before.get(bound, {}), **after.get(bound, {})}}
    changed = {
        name
        for name in names
        if any(before.get(bound, {}).get(name) != after.get(bound, {}).get(name) for bound in bounds)
    }
    if container.restarts_for(changed):
        return _ended(run, now, code=0)
    return msgspec.structs.replace(run, resources=after)


def removal_due(state: PodState, pod: PodView, world: World) -> Instant:
    """When a pod that is being deleted is to be removed; NEVER when its kubelet has nothing (more) to do."""
    if state.stopping_since is None:
        return NEVER
    if pod.grace_s == 0:
        # With finalizers it waits for others. Without, it goes by itself, unless its API server was held up between
        # the two writes of a deletion (takes the grace period, removes): another DELETE has it finish.
        return NEVER if pod.finalizers else state.stopping_since + _HALF_DELETED_S
    if not any(run.state is RunState.RUNNING for run in state.runs):
        return state.stopping_since
    asked = [
        behaviour.stop_s
        for (container, _), run in zip(container_roles(pod), state.runs, strict=True)
        if (behaviour := _behaviour(world, pod, container, run.number)).stop_s is not None
    ]
    hooks_s = max(
        container.pre_stop_s
        for (container, _), run in zip(container_roles(pod), state.runs, strict=True)
        if run.state is RunState.RUNNING
    )
    delay_s = max(asked) if asked else min(hooks_s + world.settings.stop_s, float(pod.grace_s))
    return state.stopping_since + delay_s


def is_ready(run: Run, container: Container, pod: PodView, world: World, now: Instant) -> bool:
    """Whether it counts as ready: it runs, its probe had time to say so, and no rule forbids it."""
    if run.state is not RunState.RUNNING:
        return False
    ready_at, unready_at = _readiness(run, container, pod, world)
    return ready_at <= now < unready_at


def will_restart(run: Run, role: Role, pod: PodView) -> bool:
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


def is_final(run: Run, role: Role, pod: PodView) -> bool:
    """Whether a container has ended and stays so. One that was stopped to be replaced does not."""
    was_replaced = run.crashes == 0 and role is not Role.INIT
    return run.state is RunState.EXITED and not was_replaced and not will_restart(run, role, pod)


def backoff_s(failures: int, settings: KubeletSettings) -> float:
    """The wait after so many failures in a row (from 1)."""
    return min(settings.backoff_cap_s, settings.backoff_s * 2.0 ** min(failures - 1, 30))


def _is_over(runs: Sequence[Run], roles: list[tuple[Container, Role]], pod: PodView) -> bool:
    """Whether every main container has ended for good (then sidecars are stopped too)."""
    mains = [run for run, (_, role) in zip(runs, roles, strict=True) if role is Role.MAIN]
    return bool(mains) and all(is_final(run, Role.MAIN, pod) for run in mains)


class _Life:
    """The transitions of one container."""

    __slots__ = ("container", "held", "pod", "role", "settings", "world")

    def __init__(self, container: Container, role: Role, pod: PodView, world: World, held: Set[str]) -> None:
        self.held = held
        self.container = container
        self.role = role
        self.pod = pod
        self.world = world
        self.settings = world.settings

    def advance(self, run: Run, now: Instant) -> tuple[Run, Instant]:
        """All transitions due until `now`, and when to look again."""
        run = self._follow_image(run, now)
        while (due := self._due(run)) <= now:
            run = self._next(run, due)
        return run, min(due, self._next_report(run, now))

    def opens_at(self, run: Run) -> Instant:
        """When an init container let the ones after it start; NEVER while it has not."""
        match self.role:
            case Role.INIT:
                is_done = run.state is RunState.EXITED and run.last is not None and run.last.exit_code == 0
                return run.since if is_done else NEVER
            case Role.SIDECAR:
                # A sidecar that restarts later does not hold up what it has let start.
                return run.since if run.state is RunState.RUNNING else 0.0 if run.number else NEVER
            case Role.MAIN | Role.EPHEMERAL:
                return NEVER
            case _:
                assert_never(self.role)

    def _follow_image(self, run: Run, now: Instant) -> Run:
        """A container whose image was changed is replaced, whatever the restart policy."""
        image = self.container.image
        match run.state:
            case RunState.RUNNING if run.image != image:
                return _ended(run, now, code=0)
            case RunState.PULL_FAILED if run.tried != image:
                return msgspec.structs.replace(
                    run, state=RunState.STARTING, since=now, pull_failures=0, failure=None, tried=""
                )
            case RunState.EXITED if run.image != image and run.crashes and self._restarts(run):
                return msgspec.structs.replace(run, crashes=0)
            case _:
                return run

    def _due(self, run: Run) -> Instant:
        match run.state:
            case RunState.BLOCKED:
                return NEVER
            case RunState.STARTING:
                return run.since + self._pull_s(run) + self._start_s(run)
            case RunState.PULL_FAILED:
                is_final = run.failure is not None and run.failure.reason == "InvalidImageName"
                return NEVER if is_final else run.since + backoff_s(run.pull_failures, self.settings)
            case RunState.RUNNING:
                return self._end_due(run)
            case RunState.EXITED:
                return self._restart_due(run)
            case _:
                assert_never(run.state)

    def _next(self, run: Run, at: Instant) -> Run:
        match run.state:
            case RunState.STARTING | RunState.PULL_FAILED:
                return self._started(run, at)
            case RunState.RUNNING:
                code = self._behaviour(run.number).exit_code
                return _ended(run, at, code=code or 0, crashes=self._crashes(run, at))
            case RunState.EXITED:
                return self._started(run, at)
            case RunState.BLOCKED:
                return run
            case _:
                assert_never(run.state)

    def _started(self, run: Run, at: Instant) -> Run:
        image = self.container.image
        answer = self.world.images.pull(image)
        if self._behaviour(run.number + 1).image_pull_error:
            answer = PullFailure(
                "ErrImagePull", f'failed to pull image "{image}": the registry refuses it (scripted)'
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
            container_id=_container_id(self.pod.uid, run.name, number),
            failure=None,
            tried="",
            pull_failures=0,
            previous=None,
            resources=self.container.allotment if self.settings.reports_resources else None,
        )

    def _pull_s(self, run: Run) -> float:
        scripted = self._behaviour(run.number + 1).pull_s
        pull_s = self.settings.pull_s if scripted is None else scripted
        return pull_s if pull_s and full_name(self.container.image) not in self.held else 0.0

    def _start_s(self, run: Run) -> float:
        scripted = self._behaviour(run.number + 1).start_s
        if scripted is not None:
            return scripted + self.container.post_start_s
        # Not of the container's name: containers that start together are reported together, in one write.
        fraction = self.world.fraction(self.pod.uid, run.number) if self.settings.start_jitter else 0.0
        start_s = self.settings.start_s * (1.0 + self.settings.start_jitter * fraction)
        return start_s + self.container.post_start_s

    def _end_due(self, run: Run) -> Instant:
        behaviour = self._behaviour(run.number)
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

    def _restart_due(self, run: Run) -> Instant:
        if not self._restarts(run):
            return NEVER
        if run.crashes <= 1:
            return run.since + self._pull_s(run) + self._start_s(run)
        return run.since + backoff_s(run.crashes - 1, self.settings)

    def _restarts(self, run: Run) -> bool:
        return not is_final(run, self.role, self.pod)

    def _crashes(self, run: Run, at: Instant) -> int:
        return 1 if at - run.since >= _SETTLED_S else run.crashes + 1

    def _next_report(self, run: Run, now: Instant) -> Instant:
        """When the status changes although the state does not."""
        match run.state:
            case RunState.RUNNING:
                moments = _readiness(run, self.container, self.pod, self.world)
                return min((moment for moment in moments if moment > now), default=NEVER)
            case RunState.PULL_FAILED:
                shown_until = run.since + self.settings.pull_error_s
                return shown_until if shown_until > now else NEVER
            case _:
                return NEVER

    def _behaviour(self, number: int) -> Behaviour:
        return _behaviour(self.world, self.pod, self.container, number)


def _behaviour(world: World, pod: PodView, container: Container, number: int) -> Behaviour:
    return behaviour_of(world.rules, pod, container=container.name, image=container.image, run=max(1, number))


def _readiness(run: Run, container: Container, pod: PodView, world: World) -> tuple[Instant, Instant]:
    """From when and until when a running container is ready."""
    behaviour = _behaviour(world, pod, container, run.number)
    ready_s = world.settings.ready_s if behaviour.ready_s is None else behaviour.ready_s
    unready_at = NEVER if behaviour.unready_after_s is None else run.since + behaviour.unready_after_s
    return run.since + container.initial_delay_s + ready_s, unready_at


def _ended(run: Run, at: Instant, *, code: int, crashes: int = 0, reason: str = "Error") -> Run:
    end = Terminated(
        exit_code=code,
        reason=reason if code else "Completed",
        started_at=format_time(run.since),
        finished_at=format_time(at),
        container_id=run.container_id,
    )
    return msgspec.structs.replace(
        run, state=RunState.EXITED, since=at, last=end, previous=run.last, crashes=crashes
    )


def _container_id(uid: str, name: str, number: int) -> str:
    return f"containerd://{sha256(f'{uid}/{name}/{number}'.encode()).hexdigest()}"
