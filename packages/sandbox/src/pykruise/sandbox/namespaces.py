"""Finalizes terminating namespaces: deletes their content, then removes their finalizer.

namespaces (cache) ──▶ queue ──▶ _sync: discovery ──▶ list every namespaced resource ──▶ DELETE each object
                                        └── nothing left ──▶ PUT namespaces/<name>/finalize
                                        └── something left ──▶ conditions list it; look again soon

This is the rule of Kubernetes' namespace controller. The lists are read from the server, not from a cache, so that a
namespace is removed only when it is certainly empty.
"""

import asyncio
import random

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, ConflictError, MethodNotAllowedError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import NAMESPACES, Resource
from pykruise.sandbox.inventory import discover

FINALIZER = "kubernetes"

_FIRST_LOOK_S = 0.2
_LAST_LOOK_S = 5.0
_AT_ONCE = 20


class NamespaceCondition(msgspec.Struct, frozen=True, gc=False):
    """An entry of a namespace's `status.conditions`."""

    type: str = ""
    status: str = ""
    message: str = ""


class EndingNamespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Fields of a namespace for its deletion. `namespace` is always empty."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: int = 0
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    """Finalizers in the namespace's spec."""
    conditions: tuple[NamespaceCondition, ...] = ()


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None


class _Spec(msgspec.Struct, frozen=True):
    finalizers: tuple[str, ...] | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[NamespaceCondition, ...] | None = None


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode = msgspec.json.Decoder(_Namespace).decode
_decode_item = msgspec.json.Decoder(_Item).decode


def project_namespace(raw: bytes | msgspec.Raw) -> EndingNamespace:
    """Project the bytes of a Namespace to its view. Raises msgspec.DecodeError."""
    namespace = _decode(raw)
    return EndingNamespace(
        name=namespace.metadata.name,
        uid=namespace.metadata.uid,
        resource_version=int(namespace.metadata.resource_version),
        is_deleting=namespace.metadata.deletion_timestamp is not None,
        finalizers=namespace.spec.finalizers or (),
        conditions=namespace.status.conditions or (),
    )


class _Content(msgspec.Struct):
    """Findings of one reconcile of a namespace."""

    counts: dict[str, int] = {}
    """Objects by resource (`pods.`, `clonesets.apps.kruise.io`)."""
    finalizers: dict[str, int] = {}
    """Objects by finalizer."""
    errors: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.counts and not self.errors


class Namespaces:
    """Finalizes terminating namespaces. It works from `run()` until `stop()`."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random, workers: int = 5) -> None:
        self._client = client
        self._clock = clock
        self._cache = Cache(client, NAMESPACES, project=project_namespace, clock=clock, rng=rng)
        self._cache.subscribe(self._on_namespace)
        self._writer = Writer(client, {NAMESPACES: self._cache})
        self._passes: dict[str, int] = {}  # reconciles of the content of each namespace, by uid
        self._queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=rng)
        self._controller = Controller(
            "namespaces", self._sync, queue=self._queue, workers=workers, clock=clock, cpu_time=skip_measuring
        )

    async def run(self) -> None:
        """Run until `stop()` or cancellation."""
        await run_beside(self._controller.run(), self._cache.run())

    async def stop(self) -> None:
        """Finish the writes in progress; then `run()` returns."""
        self._queue.close()
        await self._controller.stop()

    def _on_namespace(self, change: Change[EndingNamespace]) -> None:
        if change.new is None:
            if change.old is not None:
                self._passes.pop(change.old.uid, None)
        elif change.new.is_deleting and FINALIZER in change.new.finalizers:
            was_known = change.old is not None and change.old.is_deleting
            if not was_known:  # otherwise the change is this controller's own write of conditions
                self._queue.add(change.key)

    async def _sync(self, key: Key) -> float | None:
        namespace = self._cache.get(key)
        if namespace is None or not namespace.is_deleting or FINALIZER not in namespace.finalizers:
            return None
        content = await self._clear_content(namespace.name)
        if content.is_empty:
            await self._finalize(namespace)
            return None
        looks = self._passes.get(namespace.uid, 0)
        self._passes[namespace.uid] = looks + 1
        if looks:  # content that disappears in a moment is not reported
            await self._report_content(namespace, content)
        return min(_LAST_LOOK_S, _FIRST_LOOK_S * 1.5**looks)

    # ── content ──────────────────────────────────────────────────────────────

    async def _clear_content(self, namespace: str) -> _Content:
        """Delete everything in the namespace. Return the objects that were in it."""
        content = _Content()
        inventory = await discover(self._client)
        content.errors += [f"{name}: its resources could not be read" for name in inventory.failed]
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for resource in inventory.resources:
                if resource.namespaced:
                    group.create_task(self._clear_resource(resource, namespace, content, gate))
        return content

    async def _clear_resource(
        self, resource: Resource, namespace: str, content: _Content, gate: asyncio.Semaphore
    ) -> None:
        try:
            async with gate:
                listed = await self._client.list(resource, namespace)
        except (NotFoundError, MethodNotAllowedError):
            return  # the resource is no longer served, so no objects are left
        except ApiError as err:
            content.errors.append(f"{resource}: {err}")
            return
        if not listed.items:
            return
        name = f"{resource.plural}.{resource.group}"
        content.counts[name] = len(listed.items)
        metas = [_decode_item(item).metadata for item in listed.items]
        for meta in metas:
            for finalizer in meta.finalizers or ():
                content.finalizers[finalizer] = content.finalizers.get(finalizer, 0) + 1

        async def delete(meta: _Meta) -> None:
            async with gate:
                try:
                    await self._client.delete(
                        resource, namespace, meta.name, uid=meta.uid, propagation="Background"
                    )
                except (NotFoundError, ConflictError):
                    return  # deleted or replaced meanwhile; the next reconcile handles it
                except ApiError as err:
                    content.errors.append(f"{resource} {meta.name}: {err}")

        async with asyncio.TaskGroup() as group:
            for meta in metas:
                if meta.deletion_timestamp is None:
                    group.create_task(delete(meta))

    # ── the namespace itself ─────────────────────────────────────────────────

    async def _finalize(self, namespace: EndingNamespace) -> None:
        try:
            result = decode(await self._client.get(NAMESPACES, "", namespace.name))
        except NotFoundError:
            return
        if result["metadata"]["uid"] != namespace.uid:
            return
        finalizers = result.get("spec", {}).get("finalizers") or []
        result["spec"] = {"finalizers": [finalizer for finalizer in finalizers if finalizer != FINALIZER]}
        try:
            await self._client.update(NAMESPACES, "", namespace.name, result, subresource="finalize")
        except NotFoundError:
            return

    async def _report_content(self, namespace: EndingNamespace, content: _Content) -> None:
        """Write the remaining content into the conditions when they change."""
        known = {condition.type: condition for condition in namespace.conditions}
        changes = []
        for condition in _build_conditions(content):
            before = known.get(condition["type"])
            if before is not None and (before.status, before.message) == (
                condition["status"],
                condition["message"],
            ):
                continue
            if before is None or before.status != condition["status"]:
                condition["lastTransitionTime"] = format_time(self._clock())
            changes.append(condition)
        if not changes:
            return
        patch = {"metadata": {"uid": namespace.uid}, "status": {"conditions": changes}}
        try:
            await self._writer.patch(
                NAMESPACES,
                Key("", namespace.name),
                patch,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
                uid=namespace.uid,
            )
        except NotFoundError:
            return


def _build_conditions(content: _Content) -> list[dict[str, str]]:
    """Return the conditions and texts that Kubernetes sets on a terminating namespace."""
    resources = [f"{name} has {count} resource instances" for name, count in sorted(content.counts.items())]
    finalizers = [
        f"{name} in {count} resource instances" for name, count in sorted(content.finalizers.items())
    ]
    return [
        _build_condition(
            "NamespaceDeletionContentFailure",
            bad=("ContentDeletionFailed", "; ".join(sorted(content.errors))) if content.errors else None,
            good=("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        _build_condition(
            "NamespaceContentRemaining",
            bad=("SomeResourcesRemain", f"Some resources are remaining: {', '.join(resources)}")
            if resources
            else None,
            good=("ContentRemoved", "All content successfully removed"),
        ),
        _build_condition(
            "NamespaceFinalizersRemaining",
            bad=(
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {', '.join(finalizers)}",
            )
            if finalizers
            else None,
            good=("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]


def _build_condition(kind: str, *, bad: tuple[str, str] | None, good: tuple[str, str]) -> dict[str, str]:
    reason, message = bad or good
    return {
        "type": kind,
        "status": "True" if bad else "False",
        "reason": reason,
        "message": message,
    }
