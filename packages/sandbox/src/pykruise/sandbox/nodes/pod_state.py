"""Simulated containers of a pod on their node: how they begin, and how they are restored.

SandboxPodView ──▶ begin(), recover() ──▶ SimulatedPodState ──▶ pod_life.py (its transitions) ──▶ pod_status.py

Pure: no I/O, no clock, no randomness. A SimulatedPodState has the facts that a container runtime knows, and nothing
else. Due times follow from these facts, the settings and the rules, so that rules can change while a pod runs. After a
restart of this program, `recover()` builds the state again from the written status.

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
from pykruise.sandbox.nodes.images import ImageTable, expand_name
from pykruise.sandbox.pod_view import PodContainer, PodContainerStatus, SandboxPodView, Terminated, instant_of

NEVER: Instant = math.inf
NOTHING_MISSING: Mapping[str, str] = {}
NONE_HELD: frozenset[str] = frozenset()
_KILLED = 137  # exit code of a process that was killed
_LOST = 255  # exit code that the runtime reports for a lost process


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations on a node, and options of a kubelet's writes. Times are in seconds."""

    start_s: float = 0.5
    """Time that a container needs to start."""
    start_jitter: float = 1.0
    """Maximum fraction of `start_s` by which the start takes longer."""
    pull_s: float = 0.0
    """Time to pull a container's image before the start, if the node does not have it."""
    ready_s: float = 0.0
    """Time from running to ready, in addition to the readiness probe's initial delay."""
    init_s: float = 0.0
    """Time that an init container runs."""
    job_s: float | None = 1.0
    """Time that the containers of a Job's pod, and ephemeral containers, run before they complete; if it is None, they
    run until something stops them.
    """
    stop_s: float = 1.0
    """Time that a pod needs to stop after its preStop hooks, if its grace period allows."""
    resize_s: float = 0.0
    """Time that a change of resources needs; 0: the kubelet applies and reports the change in one write."""
    reports_resources: bool = True
    """Whether the kubelet reports the actual resources of containers (status.containerStatuses[].resources) and resizes
    them, as kubelets of Kubernetes 1.33 and later do.
    """
    pull_error_s: float = 1.0
    """Time that ErrImagePull is shown before ImagePullBackOff."""
    backoff_s: float = 10.0
    """First wait after a failed pull or a second crash; doubles each time."""
    backoff_cap_s: float = 300.0
    report_pending_after_s: float = 2.0
    """Pods whose containers take longer than this to start are first reported as Pending; other pods are not."""
    report_stopped: bool = False
    """Whether the end of the containers is written to a deleted pod before it is removed."""
    observed_generation: bool = False
    """Whether `observedGeneration` is written (as kubelets of Kubernetes 1.33 and later do)."""
    records_starts: bool = False
    """Whether an event is recorded for each container that starts (as kubelets do)."""
    lease_s: float | None = 20.0
    """Interval at which a node's Lease is renewed; None if there are no Leases."""
    heartbeat_s: float = 300.0
    """Interval at which a node's status is written although nothing has changed."""
    workers: int = 64
    """Number of pods that are written concurrently."""


class RunState(Enum):
    """State of a container; see the diagram of the module."""

    BLOCKED = "blocked"
    STARTING = "starting"
    PULL_FAILED = "pull failed"
    RUNNING = "running"
    EXITED = "exited"


class Refused(msgspec.Struct, frozen=True):
    """The node cannot give a pod the requested resources now."""

    reason: str
    """`Infeasible` (never on this node) or `Deferred` (not while the other pods are there)."""
    message: str


class Role(Enum):
    """Role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Added to a running pod; it starts once, and does not affect the pod's state."""


class ContainerRun(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container of a pod: its current run and the end of the previous run."""

    name: str
    state: RunState = RunState.BLOCKED
    since: Instant = 0.0
    """Time at which the container entered this state."""
    number: int = 0
    """Runs so far, including the current one; `restartCount` is one less."""
    image: str = ""
    """Image of the latest run."""
    image_id: str = ""
    container_id: str = ""
    failure: PullFailure | None = None
    """Reason of PULL_FAILED."""
    tried: str = ""
    """Image that could not be pulled, when PULL_FAILED."""
    pull_failures: int = 0
    crashes: int = 0
    """Consecutive unexpected ends; the backoff grows with them."""
    last: Terminated | None = None
    """End of the latest run that has ended: the current run when EXITED, else the previous run."""
    previous: Terminated | None = None
    """End of the run before the latest, when EXITED."""
    resources: Mapping[str, Any] | None = None
    """Actual requests and limits; None if they are unknown or not reported."""
    missing: str = ""
    """Missing object that its environment refers to, when BLOCKED."""


class SimulatedPodState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod on its node."""

    uid: str
    unmounted: str = ""
    """Obstacle that prevents volumes from being mounted, and containers from starting; empty if there is none."""
    ip: str
    accepted_at: Instant
    runs: tuple[ContainerRun, ...]
    """First the init containers, then the main containers, then the ephemeral containers, in the order of the spec."""
    stopping_since: Instant | None = None
    resizing_since: Instant | None = None
    """Time since which a change of resources is in progress."""
    resize_refused: Refused | None = None
    """Why a change of resources waits; None if no change waits for the node."""


class NodeWorld(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the life of a pod depends on, besides the pod itself."""

    settings: KubeletSettings = KubeletSettings()
    images: ImageTable = msgspec.field(default_factory=ImageTable)
    rules: tuple[Rule, ...] = ()
    seed: int = 0

    def draw_fraction(self, *parts: object) -> float:
        """A number from 0 to 1 (excluded) that depends only on the seed and `parts`."""
        return crc32(":".join(map(str, (self.seed, *parts))).encode()) / 2**32


def list_container_roles(pod: SandboxPodView) -> Iterator[tuple[PodContainer, Role]]:
    """All containers in the order of `SimulatedPodState.runs`."""
    for container in pod.init_containers.items:
        yield container, Role.SIDECAR if container.is_sidecar else Role.INIT
    for container in pod.containers.items:
        yield container, Role.MAIN
    for container in pod.ephemeral_containers:
        yield container, Role.EPHEMERAL


# ── initial states ───────────────────────────────────────────────────────────


def begin(pod: SandboxPodView, *, ip: str, now: Instant) -> SimulatedPodState:
    """State of a pod that is new on its node."""
    return SimulatedPodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=now,
        runs=tuple(ContainerRun(name=container.name) for container, _ in list_container_roles(pod)),
    )


def add_ephemeral(state: SimulatedPodState, pod: SandboxPodView) -> SimulatedPodState:
    """Add runs for the pod's new ephemeral containers. A patch puts new containers before the existing containers."""
    names = [container.name for container, _ in list_container_roles(pod)]
    if len(names) == len(state.runs):
        return state
    known = {run.name: run for run in state.runs}
    return msgspec.structs.replace(
        state, runs=tuple(known.get(name) or ContainerRun(name=name) for name in names)
    )


def stop_container(
    state: SimulatedPodState, pod: SandboxPodView, name: str, now: Instant
) -> SimulatedPodState:
    """State after another program has stopped a running container. The container starts again immediately, unless the
    pod never restarts containers.
    """
    return _with_ended(state, pod, {name}, now, code=_KILLED)


def lose_power(state: SimulatedPodState, pod: SandboxPodView, now: Instant) -> SimulatedPodState:
    """State after the pod's node has power again. All containers ended with an unknown exit code when the power
    failed, and start again as after `stop_container`.
    """
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
        end_run(run, now, code=code, crashes=crashes, reason=reason)
        if run.name in names and run.state is RunState.RUNNING
        else run
        for run in state.runs
    )
    return msgspec.structs.replace(state, runs=runs)


def recover(pod: SandboxPodView, *, ip: str, now: Instant) -> SimulatedPodState:
    """Restore the state from the pod's status after a start of this program.

    Facts that the status does not have (such as the number of failed pulls) start from zero.
    """
    known = pod.status
    result = (*known.init_containers, *known.containers, *known.ephemeral_containers)
    statuses = {status.name: status for status in result}
    runs = []
    for container, _ in list_container_roles(pod):
        status = statuses.get(container.name)
        runs.append(
            ContainerRun(name=container.name)
            if status is None
            else _recover_run(status, now, container.image)
        )
    return SimulatedPodState(
        uid=pod.uid,
        ip=ip,
        accepted_at=instant_of(pod.status.start_time, default=now),
        runs=tuple(runs),
    )


def _recover_run(status: PodContainerStatus, now: Instant, wanted: str) -> ContainerRun:
    """Restore a run. `wanted`: the container's image in the spec; the status has its full name."""
    image = wanted if expand_name(status.image) == expand_name(wanted) else status.image
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


# ── end of a run ─────────────────────────────────────────────────────────────


def end_run(
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
