"""Everything that a decision about one PersistentPodState needs, as one value.

StateView + Read ──▶ read_snapshot() ──▶ StateSnapshot ──▶ plan.py

A snapshot is for a name: a PersistentPodState has this name, or workloads with this name request a PersistentPodState
that does not exist yet. StatefulSets and workloads of kinds on the white list are cached. If the manager has no
permission to watch a kind, its workloads are read for each snapshot. Annotations of recorded pods are read once per
version of a pod.
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
from pykruise.plans.node_reads import read_nodes
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import POD_VIEWS, NodeView
from pykruise.pods.settings import FromManager, OnGate
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.allowed_workloads import WhiteListError
from pykruise.runtime.read import Read

READS_AT_ONCE: Final = 16

POLL_S: Final = 10.0
"""Seconds between two reads of a workload, if the manager has no permission to watch workloads of its kind."""


class StateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about PersistentPodStates."""

    start_ordinal: Annotated[bool, OnGate("StatefulSetStartOrdinal")] = False
    """Whether the ordinals of Advanced StatefulSets start at spec.ordinals.start, as those of built-in
    StatefulSets do.
    """
    namespace: Annotated[str, FromManager("own_namespace")] = "kruise-system"
    """The manager's namespace, which contains the white list."""


class StateGatherError(KubeError):
    """The white list cannot be read, or does not contain the workload's kind."""


class StateSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one PersistentPodState at one instant."""

    state: StateView
    """The PersistentPodState; if the uid is empty, it does not exist."""
    workload: RecordedWorkload | None = None
    """The workload whose pods are recorded; None if it does not exist."""
    start: int = 0
    """First ordinal of the workload."""
    namesakes: Sequence[RecordedWorkload] = ()
    """Workloads with the same name as the PersistentPodState. The annotations of one of them perhaps request it."""
    pods: Sequence[PodView] = ()
    """Pods of the workload that are neither finished nor terminating."""
    nodes: Mapping[str, NodeView] = {}
    annotations: Mapping[str, Mapping[str, str]] = {}
    """Uid of each pod → all its annotations. Empty if no annotations are recorded."""
    unread: Sequence[str] = ()
    """Names of pods whose annotations could not be read."""
    polls_after: float | None = None
    """Seconds until the workload must be read again; None if events report its changes."""
    now: Instant


class ReadableStateView(StateView, frozen=True, kw_only=True):
    """A StateView with a readable spec. Only a type: no object is created from this class."""

    spec: PersistentPodStateSpec


class ReadablePersistentPodState(StateSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    state: ReadableStateView


def is_readable(snapshot: StateSnapshot) -> TypeGuard[ReadablePersistentPodState]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.state.spec is not None and not snapshot.refused


class KnownAnnotations(msgspec.Struct):
    """Uid of each pod → the resourceVersion at which its annotations were read, and the annotations."""

    annotations: dict[str, tuple[int, Mapping[str, str]]] = {}


async def read_snapshot(view: StateView, read: Read[StateSettings]) -> StateSnapshot | None:
    """Return the snapshot for one name; None if there is nothing to reconcile. Raises StateGatherError, KubeError."""
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
    workload, polls_after = await _find_workload(view, read)
    pods: list[PodView] = []
    if workload is not None and not workload.is_deleting and workload.replicas > 0:
        pods = [pod for pod in read.list_owned(POD_VIEWS, workload.uid) if pod.is_active]
    unread = await _read_annotations(pods, read) if view.annotation_keys else ()
    # The caches may have changed during the reads.
    state = read.get(STATE_VIEWS, view.key)
    if state is None:
        return None
    nodes = read_nodes((pod.node_name for pod in pods), read)
    known = read.find_memory(KnownAnnotations).annotations
    return StateSnapshot(
        state=state,
        workload=workload,
        start=_choose_start_ordinal(view, workload, read.settings),
        namesakes=namesakes,
        pods=pods,
        nodes=nodes,
        annotations={pod.uid: known[pod.uid][1] for pod in pods if pod.uid in known},
        unread=unread,
        polls_after=polls_after,
        now=read.now(),
    )


def _choose_start_ordinal(view: StateView, workload: RecordedWorkload | None, settings: StateSettings) -> int:
    is_gated = view.target is not None and view.target[0] == ADVANCED
    return 0 if workload is None or (is_gated and not settings.start_ordinal) else workload.start


async def _find_workload(
    view: StateView, read: Read[StateSettings]
) -> tuple[RecordedWorkload | None, float | None]:
    """Return the workload, and the seconds until it must be read again; None if events report its changes."""
    target, spec = view.target, view.spec
    if target is None or spec is None:
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
    if not is_supported:  # if a kind was removed from the list, the records of its pods must not be lost
        raise StateGatherError(f"PersistentPodState {view.key}: {kind.kind} is not on the white list")
    api_version = spec.target_ref.api_version
    return await reader.read_workload(api_version, kind.kind, view.namespace, name), POLL_S


async def _read_annotations(pods: Iterable[PodView], read: Read[StateSettings]) -> Sequence[str]:
    """Read the annotations of Ready pods that have changed. Return the names of pods that could not be read."""
    memory = read.find_memory(KnownAnnotations)
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
        # Another uid: a new pod has this name. The record of the deleted pod is kept, because admission needs it for
        # the new pod.
        if result["metadata"]["uid"] != pod.uid:
            return pod.name
        version = int(result["metadata"]["resourceVersion"])
        memory.annotations[pod.uid] = (version, dict(annotations_of(result)))
        return ""

    failed = await asyncio.gather(*(read_one(pod) for pod in missing))
    return [name for name in failed if name]
