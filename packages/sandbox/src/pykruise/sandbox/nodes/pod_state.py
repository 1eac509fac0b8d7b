"""Simulated containers of a pod on their node: how they begin, and how they are restored.

SandboxPodView ──▶ begin(), recover() ──▶ SimulatedPodState ──▶ pod_life.py (what becomes of it) ──▶ pod_status.py

Pure: no I/O, no clock, no randomness.
A SimulatedPodState is what a container runtime would know. It holds only facts; when something is due follows from
them, the settings and the rules, so that rules can change while a pod runs. After a restart of this program
`recover()` makes it anew of the status that was written.

One container (a `ContainerRun`):

    BLOCKED ──earlier init containers are done──▶ STARTING ──start_s──▶ RUNNING ──a rule, init_s──▶ EXITED
                                                   │  ▲                    │ image changed            │
                                           no image│  │backoff             └────────▶ EXITED ─────────┤
                                                   ▼  │                                               │
                                                PULL_FAILED          STARTING ◀── restart policy ─────┘
"""

import math
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from typing import Any
from zlib import crc32

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.values.image_pulls import PullFailure
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable, full_name
from pykruise.sandbox.pod_view import PodContainer, PodContainerStatus, SandboxPodView, Terminated, instant_of

NEVER: Instant = math.inf
NOTHING_MISSING: Mapping[str, str] = {}
NONE_HELD: frozenset[str] = frozenset()
_KILLED = 137  # exit code of a process that was killed
_LOST = 255  # what the runtime says of a process that is not there any more


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
    """Role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Put into a running pod; it starts once, and nothing about the pod depends on it."""


class ContainerRun(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container of a pod: its current run and the end of the one before."""

    name: str
    state: RunState = RunState.BLOCKED
    since: Instant = 0.0
    """When it came into this state."""
    number: int = 0
    """Runs so far, the current one included; `restartCount` is one less."""
    image: str = ""
    """Image of the latest run."""
    image_id: str = ""
    container_id: str = ""
    failure: PullFailure | None = None
    """PULL_FAILED only: why."""
    tried: str = ""
    """PULL_FAILED only: the image that could not be pulled."""
    pull_failures: int = 0
    crashes: int = 0
    """Ends in a row that were not asked for: the backoff grows with them."""
    last: Terminated | None = None
    """How the latest run ended: the current one when EXITED, else the one before."""
    previous: Terminated | None = None
    """EXITED only: how the run before the latest ended."""
    resources: Mapping[str, Any] | None = None
    """Requests and limits in force; None: nothing is known or reported."""
    missing: str = ""
    """BLOCKED only: what its environment refers to, and is not there."""


class SimulatedPodState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod on its node."""

    uid: str
    unmounted: str = ""
    """Obstacle that keeps its volumes from being mounted; empty: none. No container starts before."""
    ip: str
    accepted_at: Instant
    runs: tuple[ContainerRun, ...]
    """Init containers first, then the main ones, then the ephemeral ones, in the order of the spec."""
    stopping_since: Instant | None = None
    resizing_since: Instant | None = None
    """A change of resources is being carried out."""
    resize_refused: Refused | None = None
    """A change of resources waits."""


class NodeWorld(msgspec.Struct, frozen=True, kw_only=True):
    """Other facts that decide about pods."""

    settings: KubeletSettings = KubeletSettings()
    images: ImageTable = msgspec.field(default_factory=ImageTable)
    rules: tuple[Rule, ...] = ()
    seed: int = 0

    def fraction(self, *parts: object) -> float:
        """A number from 0 to 1 (excluded) that depends on nothing but the seed and `parts`."""
        return crc32(":".join(map(str, (self.seed, *parts))).encode()) / 2**32


def container_roles(pod: SandboxPodView) -> Iterator[tuple[PodContainer, Role]]:
    """All containers in the order of `SimulatedPodState.runs`."""
    for container in pod.init_containers.items:
        yield container, Role.SIDECAR if container.is_sidecar else Role.INIT
    for container in pod.containers.items:
        yield container, Role.MAIN
    for container in pod.ephemeral_containers:
        yield container, Role.EPHEMERAL


# ── beginnings ───────────────────────────────────────────────────────────────


def begin(pod: SandboxPodView, *, ip: str, now: Instant) -> SimulatedPodState:
    """A pod that has just come to its node."""
    return SimulatedPodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=now,
        runs=tuple(ContainerRun(name=container.name) for container, _ in container_roles(pod)),
    )


def with_added(state: SimulatedPodState, pod: SandboxPodView) -> SimulatedPodState:
    """The state with the ephemeral containers that the pod has got since; a patch puts them before those there are."""
    names = [container.name for container, _ in container_roles(pod)]
    if len(names) == len(state.runs):
        return state
    known = {run.name: run for run in state.runs}
    return msgspec.structs.replace(
        state, runs=tuple(known.get(name) or ContainerRun(name=name) for name in names)
    )


def with_stopped(state: SimulatedPodState, pod: SandboxPodView, name: str, now: Instant) -> SimulatedPodState:
    """The state once something beside the kubelet has stopped a running container. It is started again without a wait,
    unless the pod never restarts anything."""
    return _with_ended(state, pod, {name}, now, code=_KILLED)


def with_power_lost(state: SimulatedPodState, pod: SandboxPodView, now: Instant) -> SimulatedPodState:
    """The state once the pod's node is there again. Its containers ended with it, with an unknown exit, and are started
    again as after `with_stopped`."""
    return _with_ended(state, pod, {run.name for run in state.runs}, now, code=_LOST, reason="Unknown")


def _with_ended(
    state: SimulatedPodState,
    pod: SandboxPodView,
    names: Set[str],
    now: Instant,
    *,
    code: int,
    reason: str = "Error",
) -> SimulatedPodState:
    crashes = 1 if pod.restart_policy == "Never" else 0
    runs = tuple(
        ended(run, now, code=code, crashes=crashes, reason=reason)
        if run.name in names and run.state is RunState.RUNNING
        else run
        for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def recover(pod: SandboxPodView, *, ip: str, now: Instant) -> SimulatedPodState:
    """The state that the pod's status tells, for a program that has just started.

    What is not in it (how often a pull failed) begins anew.
    """
    known = pod.status
    result = (*known.init_containers, *known.containers, *known.ephemeral_containers)
    statuses = {status.name: status for status in result}
    runs = []
    for container, _ in container_roles(pod):
        status = statuses.get(container.name)
        runs.append(
            ContainerRun(name=container.name) if status is None else _recovered(status, now, container.image)
        )
    return SimulatedPodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=instant_of(pod.status.start_time, default=now),
        runs=tuple(runs),
    )


def _recovered(status: PodContainerStatus, now: Instant, wanted: str) -> ContainerRun:
    """`wanted`: the container's image, which a status names in full."""
    image = wanted if full_name(status.image) == full_name(wanted) else status.image
    known = status.container_id if isinstance(status.container_id, str) else ""
    before = status.last_state.terminated
    if status.state.running is not None:
        return ContainerRun(
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
        return ContainerRun(
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
    return ContainerRun(
        name=status.name,
        number=status.restart_count + 1 if before else 0,
        image=image if before else "",
        image_id=status.image_id if before else "",
        container_id=known if before else "",
        last=before,
    )


# ── the course of time ───────────────────────────────────────────────────────


def ended(
    run: ContainerRun, at: Instant, *, code: int, crashes: int = 0, reason: str = "Error"
) -> ContainerRun:
    """The run after its process has ended."""
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
