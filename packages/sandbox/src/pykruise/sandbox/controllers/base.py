"""What all built-in controllers stand on: mirrors of what they read, a writer, and a loop that works on keys.

Shared: client, pods and nodes (caches of the cluster) ──▶ cache(resource), writer, recorder(component)
Loop:   caches ──wake(key)──▶ queue ──▶ sync(key) ──▶ writes; woken again by what they changed

Everything is level-triggered: a sync looks at what is true now, makes the next step, and is woken by it. The
caches hold finished writes at once, so no step is made twice.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from pykruise.kube.cache import Cache, Change
from pykruise.kube.controller import Controller, unmeasured
from pykruise.kube.documents import Document
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.owners import adoption_patch, release_patch
from pykruise.kube.patches import diff_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.queue import WorkQueue
from pykruise.kube.recorder import EventRecorder
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import Selector, selector_from
from pykruise.kube.writer import Writer
from pykruise.runtime.assemble import KindContext
from pykruise.runtime.objects import DocumentView, owner_reference_to, project_document
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS, documents
from pykruise.sandbox.pod_view import PodView

__all__ = [
    "Loop",
    "Shared",
    "at_once",
    "claim",
    "selects",
    "slow_start",
]

AT_ONCE = 20
"""Writes of one sync that are under way at the same time."""


class Shared:
    """What the controllers of one cluster share. `pods` (indexed by POD_INDEXES) and `nodes` are run by others.

    Caches and recorders are made when a controller asks for them; who owns this runs them.
    """

    def __init__(self, context: KindContext) -> None:
        self.context = context
        self.client = context.client
        self.clock = context.clock
        self.rng = context.rng
        self.pods = context.sources.of(POD_VIEWS)
        self.nodes = context.sources.of(NODE_VIEWS)
        self.recorders: dict[str, EventRecorder] = {}
        self.writer = Writer(context.client, context.sources.observers)

    def cache(self, resource: Resource) -> Cache[DocumentView]:
        """The mirror of a resource other than pods and nodes; the same one for all."""
        return self.context.sources.of(documents(resource))

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
