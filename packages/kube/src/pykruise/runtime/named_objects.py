"""Objects that another object names by key and uid, where more than one manager writes such names.

names ──▶ look_up() ──▶ Named: those that are there, as the cache shows them
                              └── one that the cache has never shown: the API server is asked

Which of two watches shows first what another manager has written is chance: a name may be known before its object. An
object that the cache has shown before, and shows no more, is gone.
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
"""When objects that the cache does not show yet are looked for again."""


class Named(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The existing objects among those that were asked for."""

    views: Mapping[str, T]
    """Views by UID."""
    is_behind: bool
    """Whether the cache does not show all of them yet. Should one go before it does, nothing is heard of it: look again
    after BEHIND_S."""


class _Shown:
    """uids of named objects that the cache has shown; a kind asks about one resource."""

    def __init__(self) -> None:
        self.uids: frozenset[str] = frozenset()


async def look_up(read: Read[Any], views: Views[T], names: Iterable[tuple[Key, str]]) -> Named[T]:
    """The objects with these keys and uids; those that are gone are left out. Raises KubeError."""
    memory = read.memory(_Shown)
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
