"""Snapshot of one WorkloadSpread: its workload, the pods, their nodes.

SpreadView + Read ──▶ read_snapshot() ──▶ SpreadSnapshot ──▶ plan.py

Workloads of the built-in kinds are cached. Workloads of the white list are read for each snapshot. Pods that have a
node but no annotation of the WorkloadSpread are read completely, once, to find their subset.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from pykruise.kinds.workloadspread.injection import read_noted_subset
from pykruise.kinds.workloadspread.patch_validation import find_errors_by_subset
from pykruise.kinds.workloadspread.readers import TargetReader
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot, find_latest_version
from pykruise.kinds.workloadspread.targets import BUILT_IN, PathError, replicas_of
from pykruise.kinds.workloadspread.versions import parse_versioned_kinds, version_of_pod
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS, SpreadView
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import Cause, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.selectors import SelectorError, parse_label_selector
from pykruise.plans.node_reads import read_nodes
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.targets import DEPLOYMENT, REPLICA_SET, TARGET_VIEWS, TargetView
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.settings import FromFlag, FromManager
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.allowed_workloads import WhiteListError
from pykruise.runtime.read import Read

POLL_S: Final = 10.0
"""Seconds between two reads of a workload of the white list."""

READS_AT_ONCE: Final = 16
MOST_READ: Final = 200
"""Maximum number of pods that one reconcile reads completely."""


class SpreadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that change decisions about WorkloadSpreads."""

    versioned_kinds: Annotated[
        tuple[str, ...], FromFlag("ws-enabled-versioned-status", "For WorkloadSpread.")
    ] = ("deployment", "replicaset")
    """Kinds whose pods are counted by version, as the flag names them."""
    namespace: Annotated[str, FromManager("own_namespace")] = "kruise-system"
    """The manager's own namespace, which contains the white list."""

    @property
    def versioned(self) -> frozenset[str]:
        """Kinds whose pods are counted by version, in lower case."""
        return parse_versioned_kinds(self.versioned_kinds)


class SpreadGatherError(KubeError):
    """Error of a WorkloadSpread, or of a white list, that cannot be used."""


class SpreadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the workload of a WorkloadSpread."""

    is_there: bool = True
    replicas: int | None = 0
    """Desired number of pods; None: the number is unknown."""
    owners: tuple[str, ...] = ()
    """UIDs of the objects that control its pods."""
    pods: tuple[PodView, ...] = ()
    """Pods that the workload's scale selects, although none of the owners controls them."""
    latest: str | None = ""
    latest_is_coming: bool = False
    polls_after: float | None = None


class WholePods:
    """Documents of pods that have a node but no annotation of the WorkloadSpread, by uid."""

    def __init__(self) -> None:
        self.documents: Mapping[str, Document] = {}


async def read_snapshot(view: SpreadView, read: Read[SpreadSettings]) -> SpreadSnapshot | None:
    """Read the state of one WorkloadSpread; None: it was deleted in the meantime.

    Raises SpreadGatherError, and KubeError when a read fails.
    """
    if view.is_deleting or view.target is None:
        return SpreadSnapshot(spread=view, now=read.now())
    try:
        facts = await _read_facts(view, view.target, read)
    except (PathError, WhiteListError) as error:
        raise SpreadGatherError(f"WorkloadSpread {view.key}: {error}") from error
    documents, has_more = await _read_whole_pods(view, facts, read)
    errors = await _find_patch_errors(view, view.target, read) if facts.is_there else ()
    # The caches may be newer now, and the plan must use their current content.
    spread = read.get(SPREAD_VIEWS, view.key)
    if spread is None:
        return None
    pods = _list_pods(spread, facts, read)
    nodes = read_nodes((pod.node_name for pod in pods if pod.uid in documents), read)
    replicas = facts.replicas
    return SpreadSnapshot(
        spread=spread,
        replicas=sum(pod.is_active for pod in pods) if replicas is None else replicas,
        pods=pods,
        is_there=facts.is_there,
        latest=facts.latest,
        latest_is_coming=facts.latest_is_coming,
        nodes=nodes,
        documents=documents,
        patch_errors=errors,
        has_more=has_more,
        versioned=read.settings.versioned,
        now=read.now(),
        polls_after=facts.polls_after,
    )


def _get_reader(read: Read[SpreadSettings]) -> TargetReader:
    """Return the reader, which caches the results of discovery."""
    return read.memory_of_kind(
        TargetReader, lambda: TargetReader(lambda: read.live, namespace=read.settings.namespace)
    )


async def _read_target(kind: GroupKind, key: Key, read: Read[SpreadSettings]) -> TargetView | None:
    """Return the workload; None: the workload or its kind does not exist."""
    views = TARGET_VIEWS[kind]
    return read.get(views, key) if await read.wait_served(views) else None


# ── the workload ─────────────────────────────────────────────────────────


async def _read_facts(
    spread: SpreadView, target: tuple[GroupKind, str], read: Read[SpreadSettings]
) -> SpreadFacts:
    kind, name = target
    if kind not in BUILT_IN:
        return await _read_custom(spread, kind, read)
    result = await _read_target(kind, Key(spread.namespace, name), read)
    if result is None or result.is_deleting:
        return SpreadFacts(is_there=False)
    replicas: int | None = result.replicas
    if spread.replicas_paths:
        document = await _get_reader(read).read_target(spread)
        paths = spread.replicas_paths
        replicas = replicas_of(document, kind, paths=paths) if document is not None else 0
    sets = read.list_owned(TARGET_VIEWS[REPLICA_SET], result.uid) if kind == DEPLOYMENT else []
    owners = [
        target.uid for target in sets if not target.is_deleting and result.selector.matches(target.labels)
    ]
    return SpreadFacts(
        replicas=replicas,
        owners=tuple(owners or [result.uid]),
        latest=find_latest_version(kind, result, replica_sets=sets, versioned=read.settings.versioned),
        latest_is_coming=not result.is_paused,
    )


async def _read_custom(spread: SpreadView, kind: GroupKind, read: Read[SpreadSettings]) -> SpreadFacts:
    reader = _get_reader(read)
    document = await reader.read_target(spread)
    if document is None or get_path(document, "metadata", "deletionTimestamp"):
        return SpreadFacts(is_there=False, polls_after=POLL_S)
    listed = (await reader.read_white_list()).find(kind)
    path = listed.replicas_path if listed is not None else ""
    replicas = replicas_of(document, kind, paths=spread.replicas_paths, listed_path=path)
    uid = get_path(document, "metadata", "uid")
    pods: Sequence[PodView] = ()
    if replicas is None or not read.list_owned(POD_VIEWS, uid):
        scale = await reader.scale(spread)
        if replicas is None:
            replicas = get_path(scale, "spec", "replicas")
        selector = get_path(scale, "status", "selector")
        if isinstance(selector, str) and selector:
            pods = _select_pods(spread.namespace, selector, read)
    return SpreadFacts(
        replicas=replicas,
        owners=(uid,),
        pods=tuple(pods),
        latest=find_latest_version(kind, None, versioned=read.settings.versioned),
        polls_after=POLL_S,
    )


def _select_pods(namespace: str, text: str, read: Read[SpreadSettings]) -> list[PodView]:
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        return []
    return list(select_pods(selector, namespace, read))


def _list_pods(spread: SpreadView, facts: SpreadFacts, read: Read[SpreadSettings]) -> list[PodView]:
    """Return the selected pods that the cache contains now."""
    pods = [pod for uid in facts.owners for pod in read.list_owned(POD_VIEWS, uid)]
    if not pods:
        pods = [pod for item in facts.pods if (pod := read.get(POD_VIEWS, Key(item.namespace, item.name)))]
    return [pod for pod in pods if spread.selector is not None and spread.selector.matches(pod.labels)]


# ── patches ──────────────────────────────────────────────────────────────


class TriedPatches:
    """Errors of the patches of a WorkloadSpread, and the template and spec that they belong to."""

    def __init__(self) -> None:
        self.tried: tuple[str, str, int] | None = None
        """Uid of the workload, digest of its template, and generation of the WorkloadSpread."""
        self.errors: Sequence[tuple[str, Cause]] = ()


async def _find_patch_errors(
    spread: SpreadView, target: tuple[GroupKind, str], read: Read[SpreadSettings]
) -> Sequence[tuple[str, Cause]]:
    """Errors of pods with the patches. The whole workload is read only when its template or the patches have changed.
    For a kind that is not built in there are no errors, because its template is unknown.
    """
    kind, name = target
    if kind not in BUILT_IN or not any(subset.patch is not None for subset in spread.subsets):
        return ()
    known = await _read_target(kind, Key(spread.namespace, name), read)
    if known is None:
        return ()
    memory = read.find_memory(TriedPatches)
    tried = (known.uid, known.template_digest, spread.generation)
    if memory.tried != tried:
        document = await _get_reader(read).read_target(spread)
        memory.errors, memory.tried = tuple(find_errors_by_subset(spread.subsets, document)), tried
    return memory.errors


# ── pods without the annotation ──────────────────────────────────────────


async def _read_whole_pods(
    spread: SpreadView, facts: SpreadFacts, read: Read[SpreadSettings]
) -> tuple[Mapping[str, Document], bool]:
    """Read the documents of pods that have a node but no annotation. Also return whether more pods remain than one
    reconcile reads.
    """
    pods = _list_pods(spread, facts, read)
    versioned = read.settings.versioned
    full = _find_full_versions(spread, pods, versioned)
    wanted = [
        pod
        for pod in pods
        if pod.node_name
        and read_noted_subset(pod, spread.name) is None
        and (version_of_pod(pod, versioned) not in full or spread.is_older_than_it(pod))
    ]
    memory = read.find_memory(WholePods)
    known = memory.documents
    result = {pod.uid: known[pod.uid] for pod in wanted if pod.uid in known}
    missing = [pod for pod in wanted if pod.uid not in known]
    places = asyncio.Semaphore(READS_AT_ONCE)

    async def read_whole(pod: PodView) -> None:
        async with places:
            try:
                result[pod.uid] = decode(await read.live.get(PODS, pod.namespace, pod.name))
            except NotFoundError:
                return

    await asyncio.gather(*(read_whole(pod) for pod in missing[:MOST_READ]))
    memory.documents = result
    return result, len(missing) > MOST_READ


def _find_full_versions(
    spread: SpreadView, pods: Iterable[PodView], versioned: frozenset[str]
) -> frozenset[str]:
    """Versions whose subsets are all full according to the stored status. If a pod of such a version has no annotation,
    it must be read only if it is older than the WorkloadSpread.

    A version is left out while the status counts pods that do not have the annotation yet, because these pods are
    adopted next.
    """
    noted = Counter(
        version_of_pod(pod, versioned)
        for pod in pods
        if pod.is_active and read_noted_subset(pod, spread.name)
    )
    return frozenset(
        version
        for version, entries in (spread.status.versioned_subset_statuses or {}).items()
        if all(entry.missing_replicas == 0 for entry in entries)
        if sum(entry.replicas for entry in entries) <= noted[version]
    )
