"""Lookup of objects that another object references by key and uid, where several managers write such references.

names ──▶ look_up() ──▶ Named: the existing objects, as the cache shows them
                        └── an object that the cache has never shown is read from the API server

Two watches have no common order: this manager may see a reference before the referenced object, if another manager
wrote both. An object that the cache has shown before and does not show any more has been deleted.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.cache import Projected
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

__all__ = ["BEHIND_S", "Named", "look_up"]

T = TypeVar("T", bound=Projected)

BEHIND_S: Final = 3.0
"""Seconds until objects that the cache does not show yet are looked up again."""


class Named(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The existing objects among the requested ones."""

    views: Mapping[str, T]
    """Views by UID."""
    is_behind: bool
    """Whether the cache does not show all of them yet. If an object is deleted before the cache shows it, no event
    reports the deletion: look up again after BEHIND_S.
    """


class _Shown:
    """UIDs of referenced objects that the cache has shown; a kind looks up objects of one resource only."""

    def __init__(self) -> None:
        self.uids: frozenset[str] = frozenset()


async def look_up(read: Read[Any], views: Views[T], names: Iterable[tuple[Key, str]]) -> Named[T]:
    """Return the objects with these keys and uids, without the deleted ones. Raises KubeError."""
    memory = read.find_memory(_Shown)
    result: dict[str, T] = {}
    shown: set[str] = set()
    is_behind = False
    for key, uid in dict.fromkeys(names):
        view = read.get(views, key)
        if view is not None and view.uid == uid:
            result[uid] = view
            shown.add(uid)
        elif uid in memory.uids:
            shown.add(uid)
        elif (stored := await _ask(read, views, key)) is not None and stored.uid == uid:
            result[uid] = stored
            is_behind = True
    memory.uids = frozenset(shown)
    return Named(views=result, is_behind=is_behind)


async def _ask(read: Read[Any], views: Views[T], key: Key) -> T | None:
    try:
        return views.project(await read.live.get(views.resource, key.namespace, key.name))
    except NotFoundError:
        return None
