"""What all built-in controllers stand on: mirrors of what they read, a writer, and a loop that works on keys.

Shared: client, pods and nodes (caches of the cluster) ──▶ cache(resource), writer, recorder(component)
Loop:   caches ──wake(key)──▶ queue ──▶ sync(key) ──▶ writes; woken again by what they changed

Everything is level-triggered: a sync looks at what is true now, makes the next step, and is woken by it. The
caches hold finished writes at once, so no step is made twice.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from pykruise.kube.cache import Cache, Change
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.controller import Controller, unmeasured
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.owners import adoption_patch, release_patch
from pykruise.kube.patches import diff_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.queue import WorkQueue
from pykruise.kube.recorder import EventRecorder
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.kube.selectors import Selector, selector_from
from pykruise.kube.writer import Writer
from pykruise.runtime.objects import INDEXES, DocumentView, owner_reference_to, project_document
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.nodes import NodeView
from pykruise.sandbox.pod_view import PodView, instant_of

__all__ = [
    "POD_INDEXES",
    "Loop",
    "Shared",
    "at_once",
    "claim",
    "pod_available_at",
    "pod_from",
    "selects",
    "slow_start",
]

AT_ONCE = 20
"""Writes of one sync that are under way at the same time."""

POD_INDEXES: Mapping[str, Callable[[PodView], Iterable[Hashable]]] = {
    BY_CONTROLLER: lambda pod: (pod.owner_uid,) if pod.owner_uid else (),
    "orphans": lambda pod: () if pod.owner_uid else (pod.namespace,),
    "namespace": lambda pod: (pod.namespace,),
    "node": lambda pod: (pod.node_name,) if pod.node_name else (),
    "claim": lambda pod: [(pod.namespace, name) for name in pod.claims],
}
"""How controllers find pods: by controlling owner, without one by namespace, by namespace, node, and claim."""


class Shared:
    """What the controllers of one cluster share. `pods` (indexed by POD_INDEXES) and `nodes` are run by others.

    Caches and recorders are made when a controller asks for them; who owns this runs them.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pods: Cache[PodView],
        nodes: Cache[NodeView],
    ) -> None:
        self.client = client
        self.clock = clock
        self.rng = rng
        self.pods = pods
        self.nodes = nodes
        self.owned: dict[Resource, Cache[DocumentView]] = {}
        self.recorders: dict[str, EventRecorder] = {}
        self._observers: dict[Resource, Cache[Any]] = {PODS: pods, NODES: nodes}
        self.writer = Writer(client, self._observers)

    def cache(self, resource: Resource) -> Cache[DocumentView]:
        """The mirror of a resource other than pods and nodes; the same one for all."""
        found = self.owned.get(resource)
        if found is None:
            found = Cache(
                self.client,
                resource,
                project=project_document,
                indexes=INDEXES,
                clock=self.clock,
                rng=random.Random(self.rng.getrandbits(64)),
            )
            self.owned[resource] = self._observers[resource] = found
        return found

    def recorder(self, component: str) -> EventRecorder:
        """Who writes the events of a component."""
        found = self.recorders.get(component)
        if found is None:
            found = self.recorders[component] = EventRecorder(
                self.client, component, clock=self.clock, rng=random.Random(self.rng.getrandbits(64))
            )
        return found

    async def patch_status(
        self, resource: Resource, view: DocumentView, status: Mapping[str, Any], *, guarded: bool = False
    ) -> bool:
        """Make `status` the object's status when it is not; whether something was written.

        `guarded`: only if the object is still what was seen (else ConflictError).
        """
        changes = diff_merge(view.status, dict(status))
        if not changes:
            return False
        metadata = {"uid": view.uid}
        if guarded:
            metadata["resourceVersion"] = str(view.resource_version)
        patch = {"metadata": metadata, "status": changes}
        await self.writer.patch(
            resource, view.key, patch, patch_type=PatchType.MERGE, subresource="status", uid=view.uid
        )
        return True

    async def merge(
        self, resource: Resource, view: DocumentView, patch: Document, *, guarded: bool = True
    ) -> None:
        """Merge-patch an object; when `guarded`, only if it is still what was seen (else ConflictError)."""
        metadata = {**(patch.get("metadata") or {}), "uid": view.uid}
        if guarded:
            metadata["resourceVersion"] = str(view.resource_version)
        await self.writer.patch(
            resource, view.key, {**patch, "metadata": metadata}, patch_type=PatchType.MERGE, uid=view.uid
        )


class Loop:
    """One controller: subclasses give `name`, subscribe to caches in `__init__`, and bring keys into shape."""

    name: ClassVar[str]
    component: ClassVar[str]
    """What its events are written by."""

    def __init__(self, shared: Shared, *, workers: int = 5) -> None:
        self.shared = shared
        self.clock = shared.clock
        self.writer = shared.writer
        self.recorder = shared.recorder(self.component)
        # Resting by measured CPU time is off: runs with equal seeds must be equal.
        self.queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=random.Random(shared.rng.getrandbits(64)))
        self.controller = Controller(
            self.name, self.sync, queue=self.queue, workers=workers, clock=shared.clock, cpu_time=unmeasured
        )

    async def sync(self, key: Key) -> float | None:
        """Make the next step for an object; after how many seconds to look again (None: when woken)."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until `stop()`."""
        await self.controller.run()

    async def stop(self) -> None:
        """Finish what is under way; `run()` returns."""
        self.queue.close()
        await self.controller.stop()

    def watch(self, resource: Resource) -> Cache[DocumentView]:
        """The mirror of the kind this controller is about: every change wakes the object itself."""
        cache = self.shared.cache(resource)
        cache.subscribe(lambda change: self.queue.add(change.key))
        return cache

    def watch_pods_of(self, owners: Cache[DocumentView]) -> None:
        """Changes of pods wake the object of `owners` that controls them; orphans wake who selects them."""

        def on_pod(change: Change[PodView]) -> None:
            for pod in {id(pod): pod for pod in (change.old, change.new) if pod is not None}.values():
                if pod.owner_uid:
                    for owner in owners.by_index("uid", pod.owner_uid):
                        self.queue.add(owner.key)
                elif pod is change.new:
                    for owner in owners.by_index("namespace", pod.namespace):
                        if selects(owner, pod.labels):
                            self.queue.add(owner.key)

        self.shared.pods.subscribe(on_pod)

    def tell(
        self, resource: Resource, view: DocumentView, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Record an event about an object."""
        self.recorder.record(
            resource,
            namespace=view.namespace,
            name=view.name,
            uid=view.uid,
            reason=reason,
            message=message,
            warning=warning,
        )


# ── ownership ────────────────────────────────────────────────────────────────


class _Owned(Protocol):
    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def owner_uid(self) -> str: ...
    @property
    def is_deleting(self) -> bool: ...


O = TypeVar("O", bound=_Owned)  # noqa: E741 - an owned object


def selects(owner: DocumentView, labels: Mapping[str, str]) -> bool:
    """Whether the object's `spec.selector` matches the labels."""
    selector = owner_selector(owner)
    return not selector.is_empty and selector.matches(labels)


def owner_selector(owner: DocumentView) -> Selector:
    """`spec.selector` of a workload."""
    return selector_from(owner.spec.get("selector"))


async def claim(
    shared: Shared,
    resource: Resource,
    owner: DocumentView,
    of: Resource,
    known: Iterable[O],
    orphans: Iterable[O],
) -> list[O]:
    """What the owner controls: `known` that it still selects, and `orphans` that it does, which it adopts.

    What it controls and does not select any more is released. Rule: Kubernetes' controller reference manager.
    """
    selector = owner_selector(owner)
    kept: list[O] = []
    for each in known:
        if selector.matches(each.labels) or owner.is_deleting:
            kept.append(each)
        else:
            await _patch_owners(shared, of, each, release_patch(owner_uid=owner.uid, uid=each.uid))
    if owner.is_deleting:
        return kept
    wanted = [each for each in orphans if not each.is_deleting and selector.matches(each.labels)]
    if wanted and await _is_alive(shared, resource, owner):
        for each in wanted:
            patch = adoption_patch(owner_reference_to(resource, owner), uid=each.uid)
            if await _patch_owners(shared, of, each, patch):
                kept.append(each)
    return kept


async def _patch_owners(shared: Shared, of: Resource, each: _Owned, patch: Document) -> bool:
    try:
        await shared.writer.patch(of, each.key, patch, patch_type=PatchType.STRATEGIC, uid=each.uid)
    except NotFoundError:
        return False
    return True


async def _is_alive(shared: Shared, resource: Resource, owner: DocumentView) -> bool:
    """Whether the owner is there and not on its way out, asked live: what is adopted would else be deleted."""
    try:
        found = project_document(await shared.client.get(resource, owner.namespace, owner.name))
    except NotFoundError:
        return False
    return found.uid == owner.uid and not found.is_deleting


# ── pods ─────────────────────────────────────────────────────────────────────


def pod_from(template: Document, *, owner: Document, name: str = "", prefix: str = "") -> Document:
    """A pod of a template; named, or with a generated name."""
    metadata = {
        field: deep_copy(value)
        for field, value in (template.get("metadata") or {}).items()
        if field in ("labels", "annotations", "finalizers") and value
    }
    metadata |= {"name": name} if name else {"generateName": prefix}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": deep_copy(template.get("spec") or {}),
    }


def pod_available_at(pod: PodView, *, min_ready_s: int) -> Instant | None:
    """When a ready pod counts as available; None when it is not ready. Rule: Kubernetes' pod availability."""
    ready = pod.status.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    if min_ready_s == 0:
        return 0.0
    return instant_of(ready.last_transition_time, default=0.0) + min_ready_s


async def slow_start(items: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Do all of it, 1, 2, 4, ... at once. The first failure ends it, when those under way are done.

    So an API server that refuses all of a thousand pods is asked few times. Rule: Kubernetes' slow start.
    """
    done, batch = 0, 1
    while done < len(items):
        outcomes = await asyncio.gather(
            *(item() for item in items[done : done + batch]), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        done += batch
        batch = min(2 * batch, AT_ONCE)


async def at_once(items: Iterable[Awaitable[None]]) -> None:
    """Await all of it, and raise the first error when nothing is under way any more."""
    for outcome in await asyncio.gather(*items, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
