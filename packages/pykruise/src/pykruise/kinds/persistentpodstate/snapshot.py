"""Everything a decision about one PersistentPodState needs, as one value.

StateView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py

One name stands for two things: a PersistentPodState, and the workloads of that name that may ask for one. So there is a
snapshot also where no PersistentPodState is yet. StatefulSets are mirrored, and workloads of the white list as soon as
it names them; where these may not be watched they are read each time, and so are the annotations of pods that are
recorded (once for each version of a pod).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeGuard

import msgspec

from pykruise.kinds.persistentpodstate.readers import KindReader
from pykruise.kinds.persistentpodstate.types import PersistentPodStateSpec
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    RecordedWorkload,
    StateView,
)
from pykruise.kube.clock import Instant
from pykruise.kube.documents import annotations_of, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, NodeView
from pykruise.pods.settings import FromManager, OnGate
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.allowed_workloads import WhiteListError
from pykruise.runtime.read import Read

READS_AT_ONCE: Final = 16

POLL_S: Final = 10.0
"""How often a workload of the white list is looked at."""


class StateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about PersistentPodStates."""

    start_ordinal: Annotated[bool, OnGate("StatefulSetStartOrdinal")] = False
    """Whether Advanced StatefulSets begin at spec.ordinals.start; built-in ones always do."""
    namespace: Annotated[str, FromManager("own_namespace")] = "kruise-system"
    """The manager's own, where the white list is."""


class StateGatherError(KubeError):
    """The white list cannot be read, or does not have the kind of the workload."""


class StateSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one PersistentPodState at one instant."""

    state: StateView
    """Without a uid: it is not there."""
    workload: RecordedWorkload | None = None
    """The one that it remembers; None: it is not there."""
    start: int = 0
    """First ordinal of the workload."""
    namesakes: Sequence[RecordedWorkload] = ()
    """Workloads of its own name: one of them may have asked for it."""
    pods: Sequence[PodView] = ()
    """Pods of the workload that are neither finished nor terminating."""
    nodes: Mapping[str, NodeView] = {}
    annotations: Mapping[str, Mapping[str, str]] = {}
    """All those of a pod, by uid; only where some are recorded."""
    unread: Sequence[str] = ()
    """Names of pods whose annotations could not be read."""
    polls_after: float | None = None
    """Seconds after which the workload must be looked at, since no event says when it changes."""
    now: Instant


class ReadableStateView(StateView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: PersistentPodStateSpec


class ReadablePersistentPodState(StateSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    state: ReadableStateView


def is_readable(snapshot: StateSnapshot) -> TypeGuard[ReadablePersistentPodState]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.state.spec is not None and not snapshot.refused


class KnownAnnotations(msgspec.Struct):
    """Annotations of pods, by uid, and the version at which they were read."""

    annotations: dict[str, tuple[int, Mapping[str, str]]] = {}


async def snapshot(view: StateView, read: Read[StateSettings]) -> StateSnapshot | None:
    """The world of one name; None: there is nothing to look after. Raises StateGatherError, KubeError."""
    namesakes = [
        result
        for views in WORKLOAD_VIEWS.values()
        if await read.wait_served(views) and (result := read.get(views, view.key)) is not None
    ]
    namesakes += [
        result
        for views in read.further.values()
        if read.is_read(views) and (result := read.get(views, view.key)) is not None
    ]
    if view.uid == "":
        is_wanted = any(namesake.is_generating and not namesake.is_deleting for namesake in namesakes)
        return StateSnapshot(state=view, namesakes=namesakes, now=read.now()) if is_wanted else None
    workload, polls_after = await _workload(view, read)
    pods: list[PodView] = []
    if workload is not None and not workload.is_deleting and workload.replicas > 0:
        pods = [pod for pod in read.owned(POD_VIEWS, workload.uid) if pod.is_active]
    unread = await _read_annotations(view, pods, read) if view.annotation_keys else ()
    # The caches may have moved on meanwhile.
    state = read.get(STATE_VIEWS, view.key)
    if state is None:
        return None
    names = {pod.node_name for pod in pods}
    nodes = {name: node for name in names if (node := read.get(NODE_VIEWS, Key("", name))) is not None}
    known = read.memory(KnownAnnotations).annotations
    return StateSnapshot(
        state=state,
        workload=workload,
        start=_start(view, workload, read.settings),
        namesakes=namesakes,
        pods=pods,
        nodes=nodes,
        annotations={pod.uid: known[pod.uid][1] for pod in pods if pod.uid in known},
        unread=unread,
        polls_after=polls_after,
        now=read.now(),
    )


def _start(view: StateView, workload: RecordedWorkload | None, settings: StateSettings) -> int:
    is_gated = view.target is not None and view.target[0] == ADVANCED
    return 0 if workload is None or (is_gated and not settings.start_ordinal) else workload.start


async def _workload(
    view: StateView, read: Read[StateSettings]
) -> tuple[RecordedWorkload | None, float | None]:
    """The workload, and when to look at it again though nothing is heard of it."""
    target = view.target
    if target is None:
        return None, None
    kind, name = target
    views = WORKLOAD_VIEWS.get(kind)
    if views is not None:
        served = await read.wait_served(views)
        return (read.get(views, Key(view.namespace, name)) if served else None), None
    further = read.further.get(kind)
    if further is not None and read.is_read(further):
        return read.get(further, Key(view.namespace, name)), None
    reader = read.memory_of_kind(
        KindReader,
        lambda: KindReader(lambda: read.live, namespace=read.settings.namespace, clock=read.now),
    )
    try:
        is_supported = await reader.is_supported(kind)
    except WhiteListError as error:
        raise StateGatherError(
            f"PersistentPodState {view.key}: the white list cannot be read: {error}"
        ) from error
    if not is_supported:  # what is recorded must not be lost when a list is edited
        raise StateGatherError(f"PersistentPodState {view.key}: {kind.kind} is not on the white list")
    assert view.spec is not None
    api_version = view.spec.target_ref.api_version
    return await reader.workload(api_version, kind.kind, view.namespace, name), POLL_S


async def _read_annotations(
    view: StateView, pods: Iterable[PodView], read: Read[StateSettings]
) -> Sequence[str]:
    """Read those of Ready pods that are not known at their present version. Returns names of pods where that failed."""
    memory = read.memory(KnownAnnotations)
    ready = [pod for pod in pods if pod.is_ready and pod.node_name]
    memory.annotations = {
        pod.uid: memory.annotations[pod.uid] for pod in ready if pod.uid in memory.annotations
    }
    missing = [
        pod
        for pod in ready
        if pod.uid not in memory.annotations or memory.annotations[pod.uid][0] < pod.resource_version
    ]
    places = asyncio.Semaphore(READS_AT_ONCE)

    async def read_one(pod: PodView) -> str:
        async with places:
            try:
                result = decode(await read.live.get(PODS, pod.namespace, pod.name))
            except KubeError:
                return pod.name
        # One that is gone leaves what is recorded of it: the pod that comes in its place is to find it.
        if result["metadata"]["uid"] != pod.uid:
            return pod.name
        version = int(result["metadata"]["resourceVersion"])
        memory.annotations[pod.uid] = (version, dict(annotations_of(result)))
        return ""

    failed = await asyncio.gather(*(read_one(pod) for pod in missing))
    return [name for name in failed if name]
