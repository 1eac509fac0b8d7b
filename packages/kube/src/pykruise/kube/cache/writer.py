"""Writes whose responses reach the caches before a controller can plan again.

executor, controllers ──▶ Writer ──▶ Client ──▶ API server
                          └── the response ──▶ the cache of that resource (read your own writes)

A controller that plans from its caches must see its latest writes, or it would repeat them. So every response goes into
the matching cache immediately; responses for a resource without a cache are only returned. The cache decides whether an
object belongs to it (namespace, selectors) and whether it knows a newer version.

Errors of the client are passed on. A write that ended without a definite response changes no cache; the sender reads
the object with `read()` or repeats the write (runtime/execute.py).
"""

from collections.abc import Mapping
from typing import Protocol, Unpack

import msgspec

from pykruise.kube.client.client import Body, Client, DeleteOptions, WriteOptions
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource

__all__ = ["WriteObserver", "Writer"]


class WriteObserver(Protocol):
    """The interface through which a cache is notified of the writes of this program."""

    def observe_written(self, raw: bytes) -> None:
        """Put the object that a write or a read returned into the cache."""
        ...

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        """Apply the response to a DELETE of the object `uid` (empty: any); b"": the server has no such object."""
        ...


class _Answer(msgspec.Struct, frozen=True):
    kind: str = ""


_decode_answer = msgspec.json.Decoder(_Answer).decode


class Writer:
    """Writes of a `Client` whose results are put into `caches`. The options are those of `Client`.

    A cache is notified of:
    - the object that a write returned; after a write to a subresource, only if that is the object itself (`status`,
      `resize`), not a Scale, a Binding or an Eviction;
    - the response to a DELETE: the object that now terminates, the deleted object, or a Status;
    - after NotFound, the deletion of the `uid` that the caller named. Without a uid, NotFound says nothing about the
      cached object, which may be a successor created a moment later. The Status must name this very object: a 404 for
      a resource that is not served, or from a proxy, proves nothing.

    Dry runs, AlreadyExists and Conflict change no cache. The cache gets the object from the watch, or from `read()`.
    """

    def __init__(self, client: Client, caches: Mapping[Resource, WriteObserver]) -> None:
        self._client = client
        self._caches = caches

    async def read(self, resource: Resource, key: Key, *, uid: str = "", priority: int = 0) -> bytes:
        """Read the stored object and put it into the cache, for example if the result of a write is unknown.

        If the object is not found, the cache deletes the object `uid`. Raises NotFoundError.
        """
        try:
            raw = await self._client.get(resource, key.namespace, key.name, priority=priority)
        except NotFoundError as err:
            self._notice_absence(resource, key, uid, err)
            raise
        self._observe_written(resource, raw)
        return raw

    async def create(
        self,
        resource: Resource,
        namespace: str,
        body: Body,
        *,
        name: str = "",
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """`Client.create`."""
        raw = await self._client.create(resource, namespace, body, name=name, **options)
        self._observe_answer(resource, raw, options)
        return raw

    async def update(
        self, resource: Resource, key: Key, body: Body, *, uid: str = "", **options: Unpack[WriteOptions]
    ) -> bytes:
        """`Client.update`; `uid` is the UID of the object to write (the caller also puts it into the body)."""
        try:
            raw = await self._client.update(resource, key.namespace, key.name, body, **options)
        except NotFoundError as err:
            self._notice_absence(resource, key, uid, err)
            raise
        self._observe_answer(resource, raw, options)
        return raw

    async def patch(
        self,
        resource: Resource,
        key: Key,
        body: Body,
        *,
        patch_type: PatchType,
        uid: str = "",
        force: bool = False,
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """`Client.patch`; `uid` is the UID of the object to write (the caller also puts it into the body)."""
        try:
            raw = await self._client.patch(
                resource, key.namespace, key.name, body, patch_type=patch_type, force=force, **options
            )
        except NotFoundError as err:
            self._notice_absence(resource, key, uid, err)
            raise
        self._observe_answer(resource, raw, options)
        return raw

    async def patch_status(
        self,
        resource: Resource,
        key: Key,
        body: Body,
        *,
        uid: str,
        patch_type: PatchType = PatchType.MERGE,
    ) -> bool:
        """Patch a status, with `uid` as in `patch`. Return whether the object exists; a deleted object needs no
        status.
        """
        try:
            await self.patch(resource, key, body, patch_type=patch_type, subresource="status", uid=uid)
        except NotFoundError:
            return False
        return True

    async def delete(
        self, resource: Resource, key: Key, *, uid: str = "", **options: Unpack[DeleteOptions]
    ) -> bytes:
        """`Client.delete`; `uid` is a precondition."""
        try:
            raw = await self._client.delete(resource, key.namespace, key.name, uid=uid, **options)
        except NotFoundError as err:
            self._notice_absence(resource, key, uid, err)
            raise
        cache = self._caches.get(resource)
        if cache is not None and not options.get("dry_run"):
            cache.observe_deleted(key, uid, raw)
        return raw

    def _observe_answer(self, resource: Resource, raw: bytes, options: WriteOptions) -> None:
        if not options.get("dry_run"):
            self._observe_written(resource, raw, options.get("subresource", ""))

    def _observe_written(self, resource: Resource, raw: bytes, subresource: str = "") -> None:
        cache = self._caches.get(resource)
        if cache is None:
            return
        if subresource not in ("", "status") and _decode_answer(raw).kind != resource.kind:
            return
        cache.observe_written(raw)

    def _notice_absence(self, resource: Resource, key: Key, uid: str, err: NotFoundError) -> None:
        cache = self._caches.get(resource)
        details = err.status.details
        if cache is not None and uid and details is not None and details.name == key.name:
            cache.observe_deleted(key, uid, b"")
