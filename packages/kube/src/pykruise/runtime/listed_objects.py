"""Objects that were listed once, as input of a kind's snapshot: commands and tests use them instead of caches.

client ──list_once(views, …)──▶ Listed, one for each resource ──▶ Read ──▶ a kind's snapshot
"""

import asyncio
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from pykruise.kube.cache.cache import Projected
from pykruise.kube.client.client import Client
from pykruise.kube.client.remembered_lists import RememberedLists
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ForbiddenError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, STORAGE_CLASSES
from pykruise.runtime.views import BY_CONTROLLER, Views

__all__ = ["Listed", "Only", "list_once"]

T = TypeVar("T", bound=Projected)


_MAY_BE_UNSEEN = (NODES, STORAGE_CLASSES)
"""Resources that the owner of a namespace often has no permission to read."""


class Only(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the objects of a resource that must be listed; the others are not needed."""

    namespace: str = ""
    label_selector: str = ""


class Listed(Generic[T]):
    """A `runtime.read.Mirror` of objects that do not change. `raws`: the stored objects in the same order.
    `synced=False`: they could not be read, which is harmless. `error`: they could not be read, and each lookup raises
    it.
    """

    def __init__(
        self,
        views: Views[T],
        value: Iterable[T],
        *,
        raws: Sequence[bytes] = (),
        synced: bool = True,
        error: KubeError | None = None,
    ) -> None:
        self._found = {Key(item.namespace, item.name): item for item in value}
        self._error = error
        self._raws = dict(zip(self._found, raws, strict=False))
        self._views = views
        self._indexes: dict[str, dict[Hashable, list[T]]] = {}
        self.synced = synced

    async def wait_served(self) -> bool:
        """Return immediately: the objects were listed before."""
        return self.synced

    @property
    def _by_key(self) -> Mapping[Key, T]:
        if self._error is not None:
            raise self._error
        return self._found

    def get(self, key: Key) -> T | None:
        """Return one object."""
        return self._by_key.get(key)

    def values(self) -> Sequence[T]:
        """Return all objects."""
        return tuple(self._by_key.values())

    def list_by_index(self, index: str, value: Hashable) -> Sequence[T]:
        """Return the objects with this index value. Raises KeyError for an index that the views do not have."""
        known = self._indexes.get(index)
        if known is None:
            known = self._indexes[index] = {}
            values_of = self._views.indexes[index]
            for item in self._by_key.values():
                for each in values_of(item):
                    known.setdefault(each, []).append(item)
        return tuple(known.get(value, ()))

    def count(self, index: str, value: Hashable) -> int:
        """Count the objects with this index value. Raises KeyError for an index that the views do not have."""
        return len(self.list_by_index(index, value))

    def list_owned(self, uid: str) -> Sequence[T]:
        """Return the objects whose managing owner has this UID."""
        return self.list_by_index(BY_CONTROLLER, uid)

    def list_documents(self) -> list[Document]:
        """All objects as they are stored."""
        return [decode(self._raws[key]) for key in self._by_key]

    def get_document(self, key: Key) -> Document | None:
        """Return one object as it is stored; None if it is not listed."""
        return decode(self._raws[key]) if key in self._by_key else None

    def list_owned_documents(self, uid: str) -> list[Document]:
        """Stored documents of the objects whose managing owner has this UID."""
        return [decode(self._raws[Key(item.namespace, item.name)]) for item in self.list_owned(uid)]


async def list_once(
    client: Client,
    needed: Iterable[Views[Any]],
    *,
    namespace: str,
    only: Mapping[Views[Any], Only] | None = None,
) -> dict[Views[Any], Listed[Any]]:
    """List everything that a snapshot of an object of this namespace reads (empty: of a cluster-scoped object), one
    request per resource.

    A resource that is not served is treated as empty, and so are nodes and storage classes that the user has no
    permission to list. For any other resource without permission, only a lookup raises ForbiddenError, because not
    every snapshot needs every resource. Other errors are raised immediately.
    """
    views = list(dict.fromkeys(needed))
    wanted = [(only or {}).get(view) or Only(namespace=namespace) for view in views]
    listeds = await asyncio.gather(
        *(_remember_views(client, *item) for item in zip(views, wanted, strict=True))
    )
    return dict(zip(views, listeds, strict=True))


async def _remember_views(client: Client, views: Views[Any], wanted: Only) -> Listed[Any]:
    if isinstance(client, RememberedLists) and not wanted.label_selector:
        namespace = wanted.namespace if views.resource.namespaced else ""
        return await client.remember((views, namespace), lambda: _list_views(client, views, wanted))
    return await _list_views(client, views, wanted)


async def _list_views(client: Client, views: Views[Any], wanted: Only) -> Listed[Any]:
    resource, project = views.resource, views.projector()
    namespace = wanted.namespace if resource.namespaced else ""
    try:
        result = await client.list(
            resource,
            namespace,
            label_selector=wanted.label_selector,
            metadata_only=views.is_metadata_only,
        )
    except NotFoundError:
        return Listed(views, (), synced=False)
    except ForbiddenError as error:
        is_harmless = resource in _MAY_BE_UNSEEN
        return Listed(views, (), synced=not is_harmless, error=None if is_harmless else error)
    raws = [bytes(raw) for raw in result.items]
    return Listed(views, map(project, raws), raws=raws)
