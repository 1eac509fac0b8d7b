"""What one WorkloadSpread is planned from: its workload, the pods, their nodes, from caches where there are some.

caches, TargetReader ──▶ Gatherer.snapshot() ──▶ Snapshot ──▶ plan.py
a client alone       ──▶ look_once()         ──▶ Snapshot (for who looks once and has no caches)

Workloads of the built-in kinds are mirrored; those of the white list are read each time. Pods that were there
before their WorkloadSpread are read whole, once, to find their subset.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.injection import read_matched
from pykruise.kinds.workloadspread.readers import CLONE_SETS, STATEFUL_SETS_OF_KRUISE, TargetReader
from pykruise.kinds.workloadspread.snapshot import Snapshot, TargetView, latest_version, project_target
from pykruise.kinds.workloadspread.targets import (
    BUILT_IN,
    GroupKind,
    PathError,
    WhiteListError,
    replicas_of,
)
from pykruise.kinds.workloadspread.versions import version_of, versioned_kinds
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.cache import Cache
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from pykruise.kube.selectors import SelectorError, parse_label_selector
from pykruise.plans.sources import BY_CONTROLLER, Sources
from pykruise.pods.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.views import PodView

__all__ = ["DEPLOYMENT", "REPLICA_SET", "GatherError", "Gatherer", "Targets", "look_once"]

POLL_S: Final = 10.0
"""How often a workload of the white list is looked at."""

READS_AT_ONCE: Final = 16
MOST_READ: Final = 200
"""Pods that are read whole in one turn."""

LOOK_S: Final = 30.0
"""So long who looks once waits for what is to be read."""

NOT_SERVED: Final = 404
_NO_RIGHT: Final = (401, 403)

_OF_OTHERS: Final = (CLONE_SETS, STATEFUL_SETS_OF_KRUISE)
_KUBERNETES: Final = (DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS)

DEPLOYMENT: Final = GroupKind("apps", "Deployment")
REPLICA_SET: Final = GroupKind("apps", "ReplicaSet")


class GatherError(KubeError):
    """What the WorkloadSpread, or the white list, says cannot be followed."""


class Targets:
    """Mirrors of workloads of the built-in kinds."""

    def __init__(self, sources: Sources) -> None:
        indexes: Any = {BY_CONTROLLER: lambda one: (one.controller_uid,) if one.controller_uid else ()}
        self.caches: Mapping[GroupKind, Cache[TargetView]] = {
            **{_kind(one): sources.add(one, project_target, indexes=indexes) for one in _KUBERNETES},
            # Their own controllers mirror these too, as something else.
            **{_kind(one): sources.beside(one, project_target, indexes=indexes) for one in _OF_OTHERS},
        }

    async def get(self, kind: GroupKind, key: Key) -> TargetView | None:
        """The workload; None: it, or its kind, is not there."""
        cache = self.caches[kind]
        if not cache.synced:
            if cache.stats().last_code == NOT_SERVED:
                return None
            await cache.wait_synced()
        return cache.get(key)

    def replica_sets(self, deployment: TargetView) -> list[TargetView]:
        """Those that a Deployment controls."""
        return list(self.caches[REPLICA_SET].by_index(BY_CONTROLLER, deployment.uid))

    def deployment_of(self, namespace: str, replica_set: str) -> str:
        """The name of the Deployment that controls a ReplicaSet; empty: none does."""
        found = self.caches[REPLICA_SET].get(Key(namespace, replica_set))
        if found is None or not found.controller_uid:
            return ""
        # Its name begins with the Deployment's; the uid says whether it is that one.
        name = replica_set.rpartition("-")[0]
        above = self.caches[DEPLOYMENT].get(Key(namespace, name))
        return name if above is not None and above.uid == found.controller_uid else ""


def _kind(resource: Resource) -> GroupKind:
    return GroupKind(resource.group, resource.kind)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn has found out about the workload of a WorkloadSpread."""

    is_there: bool = True
    replicas: int | None = 0
    """None: nobody knows."""
    owners: tuple[str, ...] = ()
    """uids of those that control its pods."""
    pods: tuple[PodView, ...] = ()
    """Pods that nobody of the owners controls, but that its scale selects."""
    latest: str | None = ""
    latest_is_coming: bool = False
    documents: Mapping[str, Document] = {}
    has_more: bool = False
    polls_after: float | None = None


class Gatherer:
    """Reads what the planner needs, from caches where there are some."""

    def __init__(
        self,
        client: Client,
        sources: Sources,
        targets: Targets,
        reader: TargetReader,
        *,
        versioned: frozenset[str],
        clock: Clock,
    ) -> None:
        self._versioned = versioned
        self._sources = sources
        self._clock = clock
        self._client = client
        self._targets = targets
        self._reader = reader
        self._documents: dict[Key, dict[str, Document]] = {}

    async def snapshot(self, key: Key, shown: Callable[[], SpreadView | None]) -> Snapshot | None:
        """The world of one WorkloadSpread; None: it is gone. `shown` gives it as it is known at that moment.

        Raises GatherError, and KubeError for what cannot be read.
        """
        spread = shown()
        if spread is None:
            self._documents.pop(key, None)
            return None
        if spread.is_deleting or spread.target is None:
            return Snapshot(spread=spread, now=self._clock())
        try:
            facts = await self._facts(spread, spread.target)
        except (PathError, WhiteListError) as error:
            raise GatherError(f"WorkloadSpread {key}: {error}") from error
        documents, has_more = await self._whole(spread, facts)
        # The caches may have moved on meanwhile: what is planned from is what they show now.
        spread = shown()
        if spread is None:
            return None
        pods = [
            pod for pod in self._pods(facts) if spread.selector is None or spread.selector.matches(pod.labels)
        ]
        replicas = facts.replicas
        nodes = {
            name: node
            for name in {pod.node_name for pod in pods if pod.uid in documents}
            if (node := self._sources.nodes.get(Key("", name))) is not None
        }
        return Snapshot(
            spread=spread,
            replicas=sum(pod.is_active for pod in pods) if replicas is None else replicas,
            pods=pods,
            is_there=facts.is_there,
            latest=facts.latest,
            latest_is_coming=facts.latest_is_coming,
            nodes=nodes,
            documents=documents,
            has_more=has_more,
            versioned=self._versioned,
            now=self._clock(),
            polls_after=facts.polls_after,
        )

    # ── the workload ─────────────────────────────────────────────────────────

    async def _facts(self, spread: SpreadView, target: tuple[GroupKind, str]) -> Facts:
        kind, name = target
        if kind not in BUILT_IN:
            return await self._custom(spread, kind)
        found = await self._targets.get(kind, Key(spread.namespace, name))
        if found is None or found.is_deleting:
            return Facts(is_there=False)
        replicas = found.replicas
        if spread.replicas_paths:
            document = await self._reader.target(spread)
            paths = spread.replicas_paths
            replicas = replicas_of(document, kind, paths=paths) or 0 if document is not None else 0
        sets = self._targets.replica_sets(found) if kind == DEPLOYMENT else []
        owners = [one.uid for one in sets if not one.is_deleting and found.selector.matches(one.labels)]
        return Facts(
            replicas=replicas,
            owners=tuple(owners or [found.uid]),
            latest=latest_version(kind, found, replica_sets=sets, versioned=self._versioned),
            latest_is_coming=not found.is_paused,
        )

    async def _custom(self, spread: SpreadView, kind: GroupKind) -> Facts:
        document = await self._reader.target(spread)
        if document is None or get_path(document, "metadata", "deletionTimestamp"):
            return Facts(is_there=False, polls_after=POLL_S)
        listed = (await self._reader.white_list()).find(kind)
        path = listed.replicas_path if listed is not None else ""
        replicas = replicas_of(document, kind, paths=spread.replicas_paths, listed_path=path)
        uid = get_path(document, "metadata", "uid") or ""
        pods: Sequence[PodView] = ()
        if replicas is None or not self._sources.pods.by_index(BY_CONTROLLER, uid):
            scale = await self._reader.scale(spread)
            if replicas is None:
                replicas = get_path(scale, "spec", "replicas")
            selector = get_path(scale, "status", "selector")
            if isinstance(selector, str) and selector:
                pods = self._selected(spread.namespace, selector)
        return Facts(
            replicas=replicas,
            owners=(uid,),
            pods=tuple(pods),
            latest=latest_version(kind, None, versioned=self._versioned),
            polls_after=POLL_S,
        )

    def _selected(self, namespace: str, text: str) -> list[PodView]:
        try:
            selector = parse_label_selector(text)
        except SelectorError:
            return []
        return [
            pod
            for pod in self._sources.pods.values()
            if pod.namespace == namespace and selector.matches(pod.labels)
        ]

    def _pods(self, facts: Facts) -> list[PodView]:
        """As the caches show them now."""
        found = [pod for uid in facts.owners for pod in self._sources.pods.by_index(BY_CONTROLLER, uid)]
        if found or not facts.pods:
            return found
        return [pod for one in facts.pods if (pod := self._sources.pods.get(Key(one.namespace, one.name)))]

    # ── pods that were there before ──────────────────────────────────────────

    async def _whole(self, spread: SpreadView, facts: Facts) -> tuple[Mapping[str, Document], bool]:
        """Pods without a note that are on a node, whole; and whether there are more than one turn reads."""
        pods = [
            pod for pod in self._pods(facts) if spread.selector is None or spread.selector.matches(pod.labels)
        ]
        full = self._full_versions(spread, pods)
        wanted = [
            pod
            for pod in pods
            if pod.node_name and not _is_noted(pod, spread.name) and self._version(pod) not in full
        ]
        known = self._documents.get(spread.key, {})
        found = {pod.uid: known[pod.uid] for pod in wanted if pod.uid in known}
        missing = [pod for pod in wanted if pod.uid not in known]
        places = asyncio.Semaphore(READS_AT_ONCE)

        async def read(pod: PodView) -> None:
            async with places:
                try:
                    found[pod.uid] = decode(await self._client.get(PODS, pod.namespace, pod.name))
                except NotFoundError:
                    return

        await asyncio.gather(*(read(pod) for pod in missing[:MOST_READ]))
        if found:
            self._documents[spread.key] = found
        else:
            self._documents.pop(spread.key, None)
        return found, len(missing) > MOST_READ

    def _full_versions(self, spread: SpreadView, pods: Iterable[PodView]) -> frozenset[str]:
        """Versions of which no subset has room, as the stored status says: their other pods need not be read.

        Not while it counts pods that have no note yet: those are adopted next.
        """
        noted = Counter(self._version(pod) for pod in pods if pod.is_active and _is_noted(pod, spread.name))
        return frozenset(
            version
            for version, entries in (spread.status.versioned_subset_statuses or {}).items()
            if all(entry.missing_replicas == 0 for entry in entries)
            if sum(entry.replicas for entry in entries) <= noted[version]
        )

    def _version(self, pod: PodView) -> str:
        kind = pod.controller.kind if pod.controller is not None else ""
        return version_of(pod.labels, owner_kind=kind, versioned=self._versioned)


def _is_noted(pod: PodView, name: str) -> bool:
    found = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return found is not None and found.name == name and bool(found.subset)


async def look_once(
    client: Client,
    spread: SpreadView,
    *,
    namespace: str,
    versioned: Iterable[str],
    clock: Clock,
    rng: random.Random,
) -> Snapshot:
    """The snapshot that a manager would plan from, for who has no caches: its namespace is mirrored for a moment.

    `namespace` and `versioned`: as of the manager. Raises GatherError, and KubeError for what cannot be read in
    time.
    """
    sources = Sources(client, clock=clock, rng=rng, namespace=spread.namespace)
    targets = Targets(sources)
    reader = TargetReader(lambda: client, namespace=namespace)
    gatherer = Gatherer(
        client, sources, targets, reader, versioned=versioned_kinds(tuple(versioned)), clock=clock
    )
    mirroring = asyncio.create_task(sources.run())
    try:
        async with asyncio.timeout(LOOK_S):
            await _seen(sources.pods)
            for kind in (DEPLOYMENT, REPLICA_SET):
                await _seen(targets.caches[kind])
            await _seen(sources.nodes, is_needed=False)
            found = await gatherer.snapshot(spread.key, lambda: spread)
    except TimeoutError as error:
        raise KubeError(
            f"what belongs to WorkloadSpread {spread.key} was not read in {LOOK_S:g} s"
        ) from error
    finally:
        mirroring.cancel()
        await asyncio.gather(mirroring, return_exceptions=True)
    assert found is not None
    return found


async def _seen(cache: Cache[Any], *, is_needed: bool = True) -> None:
    """Return when the first list is in; or at once when it may not be read, and need not."""
    while not cache.synced:
        stats = cache.stats()
        if stats.last_code in _NO_RIGHT:
            if not is_needed:
                return
            raise KubeError(stats.last_error)
        await asyncio.sleep(0.01)
