"""The caches that all kinds share, and what the writer needs to keep them true to one's own writes.

API server ──▶ Sources.pods, .revisions, .claims, .nodes, and one cache per kind ──▶ snapshots
Writer     ──▶ Sources.by_resource (the answer of a write goes into the matching cache at once)

A pod is mirrored once, however many kinds look at it.
"""

import asyncio
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Never, TypeVar

import msgspec

from pykruise.kube.cache import Cache, Projected
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.event_batching import Pace
from pykruise.kube.node_rules import Taint
from pykruise.kube.resources import CONTROLLER_REVISIONS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from pykruise.pods.claims import ClaimView, project_claim
from pykruise.pods.image_pull_jobs import IMAGE_PULL_JOBS, PullJobView, project_pull_job
from pykruise.pods.revisions import RevisionView, project_revision
from pykruise.pods.sidecars import injected_sets
from pykruise.pods.views import PodProjector, PodView

T = TypeVar("T", bound=Projected)

BY_CONTROLLER = "controller"
"""Index: uid of the managing owner."""

BY_NAME_PREFIX = "name-prefix"
"""Index of revisions: (namespace, name without its hash): which owner they may belong to."""

BY_SIDECARSET = "sidecarset"
"""Index of pods: names of the SidecarSets that they list."""

ORPHANS = "orphans"
"""Index: namespace of objects that nobody manages."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as decisions see it."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()

    def is_placed_as(self, other: "NodeView") -> bool:
        """Whether pods are placed on both alike: nothing that placement reads is different."""
        return (
            self.name == other.name
            and self.uid == other.uid
            and self.labels == other.labels
            and self.taints == other.taints
        )


class _NodeMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] | None = None


class _NodeSpec(msgspec.Struct):
    taints: tuple[Taint, ...] | None = None


class _Node(msgspec.Struct):
    metadata: _NodeMeta
    spec: _NodeSpec | None = None


_decode_node = msgspec.json.Decoder(_Node).decode


def project_node(raw: bytes | msgspec.Raw) -> NodeView:
    """A Node's view. Raises msgspec.DecodeError for what is not an object."""
    node = _decode_node(raw)
    meta = node.metadata
    return NodeView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        labels=meta.labels or {},
        taints=(node.spec.taints if node.spec else None) or (),
    )


class Sources:
    """All caches of one manager. Kinds add their own resource with `add()` before `run()`.

    `namespace`: only objects of this one (cluster-scoped ones all the same); empty: of all. `pace`: how what is
    heard of pods in a crowd is read; None: all of it at once.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        namespace: str = "",
        pace: Pace | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._rng = rng
        # Of pods only: who makes a claim hears of it while it is being made (`Executor.is_making`).
        self._paces = {PODS: pace}
        self._caches: dict[Resource, Cache[Any]] = {}
        self._beside: list[Cache[Any]] = []
        self.pods: Cache[PodView] = self.add(
            PODS,
            PodProjector(),
            indexes={
                BY_CONTROLLER: _pod_controller,
                ORPHANS: lambda pod: () if pod.controller else (pod.namespace,),
                BY_SIDECARSET: lambda pod: injected_sets(pod.annotations) if pod.annotations else (),
            },
        )
        self.revisions: Cache[RevisionView] = self.add(
            CONTROLLER_REVISIONS,
            project_revision,
            indexes={
                BY_CONTROLLER: lambda revision: (revision.controller_uid,),
                BY_NAME_PREFIX: lambda revision: ((revision.namespace, owner_name(revision)),),
                ORPHANS: lambda revision: () if revision.controller_uid else (revision.namespace,),
            },
        )
        # All of them: those of a StatefulSet carry no label that all of its kind have.
        self.claims: Cache[ClaimView] = self.add(
            PERSISTENT_VOLUME_CLAIMS,
            project_claim,
            indexes={BY_CONTROLLER: lambda claim: (claim.controller_uid,) if claim.controller_uid else ()},
        )
        self.nodes: Cache[NodeView] = self.add(NODES, project_node)

    def pull_jobs(self) -> Cache[PullJobView]:
        """ImagePullJobs: mirrored from the first time that a kind asks, once for all kinds."""
        known: Cache[PullJobView] | None = self._caches.get(IMAGE_PULL_JOBS)
        if known is not None:
            return known
        indexes = {BY_CONTROLLER: lambda job: (job.controller_uid,)}
        return self.add(IMAGE_PULL_JOBS, project_pull_job, indexes=indexes)

    def add(
        self,
        resource: Resource,
        project: Callable[[bytes | msgspec.Raw], T],
        *,
        indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
        label_selector: str = "",
    ) -> Cache[T]:
        """A cache of one more resource, run and kept true with the others.

        A resource that another kind has asked for already gives the same cache: both ask for the same view.
        """
        if resource in self._caches:
            return self._caches[resource]
        cache = self._cache(resource, project, indexes=indexes, label_selector=label_selector)
        self._caches[resource] = cache
        return cache

    def beside(
        self,
        resource: Resource,
        project: Callable[[bytes | msgspec.Raw], T],
        *,
        indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
    ) -> Cache[T]:
        """A cache of a resource that another kind mirrors as something else; or does not, where it is not served.

        It does not hear of own writes, and nobody waits for it but who asks it.
        """
        cache = self._cache(resource, project, indexes=indexes)
        self._beside.append(cache)
        return cache

    def _cache(
        self,
        resource: Resource,
        project: Callable[[bytes | msgspec.Raw], T],
        *,
        indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None,
        label_selector: str = "",
    ) -> Cache[T]:
        return Cache(
            self._client,
            resource,
            project=project,
            indexes=indexes or {},
            namespace=self._namespace if resource.namespaced else "",
            label_selector=label_selector,
            clock=self._clock,
            rng=self._rng,
            pace=self._paces.get(resource),
        )

    @property
    def by_resource(self) -> Mapping[Resource, Cache[Any]]:
        """Every cache under the resource it mirrors."""
        return self._caches

    @property
    def synced(self) -> bool:
        """True once every cache has taken its first list over."""
        return all(cache.synced for cache in self._caches.values())

    async def wait_synced(self, resources: Iterable[Resource] | None = None) -> None:
        """Return when every cache (of `resources`, where given) has taken its first list over."""
        for resource in tuple(self._caches) if resources is None else resources:
            await self._caches[resource].wait_synced()

    async def redeliver(self, *, every_s: float) -> Never:
        """Tell every object again to who has subscribed, about every `every_s` seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s * self._rng.uniform(0.9, 1.1))
            for cache in (*self._caches.values(), *self._beside):
                await cache.redeliver()

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource, cache in self._caches.items():
                tasks.create_task(cache.run(), name=f"cache-{resource}")
            for cache in self._beside:
                tasks.create_task(cache.run(), name=f"cache-beside-{cache.resource}")


def _pod_controller(pod: PodView) -> tuple[Hashable, ...]:
    return (pod.controller.uid,) if pod.controller else ()


def owner_name(revision: RevisionView) -> str:
    """The name of the owner that a revision was named after (its first 223 characters)."""
    return revision.name.rpartition("-")[0]
