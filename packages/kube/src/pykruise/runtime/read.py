"""Reads of a kind's snapshot: the same for a manager with caches and for a command that lists once.

Sources (caches)  ─┐
Listed (one list) ─┴─▶ Read ──▶ a kind's `snapshot(view, read)` ──▶ Snapshot ──▶ plan

Reading a view costs no request. `live` is a client for objects that no cache has. The reconciler owns the `Memories`.
When an object is deleted, the reconciler deletes the memory of this object.
"""

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from pykruise.kube.cache.cache import Projected
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.runtime.views import BY_CONTROLLER, ORPHANS, Views

__all__ = ["Around", "Memories", "Mirror", "Mirrors", "Read"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", bound=Projected)
M = TypeVar("M")
C = TypeVar("C")


class Mirror(Protocol[T_co]):
    """Objects of one resource in their last known state."""

    @property
    def synced(self) -> bool:
        """Whether the objects have been read."""
        ...

    async def wait_served(self) -> bool:
        """Wait until the objects have been read; False: the API server does not serve the resource."""
        ...

    def get(self, key: Key) -> T_co | None: ...

    def values(self) -> Sequence[T_co]: ...

    def list_by_index(self, index: str, value: Hashable) -> Sequence[T_co]: ...

    def count(self, index: str, value: Hashable) -> int: ...


class Mirrors:
    """Lookups in a cluster, only of views that the kind declares in its reads. Raises KeyError for other views."""

    def __init__(
        self,
        mirrors: Mapping[Views[Any], Mirror[Any]],
        *,
        further: Mapping[GroupKind, Views[Any]] | None = None,
    ) -> None:
        self._mirrors = mirrors
        self.further: Mapping[GroupKind, Views[Any]] = {} if further is None else further
        """Views of the further kinds that a list in a ConfigMap names (runtime/named_kinds.py)."""

    def find_mirror(self, views: Views[T]) -> Mirror[T]:
        """Return the mirror of one resource."""
        return self._mirrors[views]

    def is_read(self, views: Views[Any]) -> bool:
        """Whether the kind reads this resource under the manager's settings, and its objects have been read."""
        mirror = self._mirrors.get(views)
        return mirror is not None and mirror.synced

    async def wait_served(self, views: Views[Any]) -> bool:
        """Wait until the resource has been read; False: the API server does not serve it."""
        return await self.find_mirror(views).wait_served()

    def get(self, views: Views[T], key: Key) -> T | None:
        """Return one object; None: it does not exist."""
        return self.find_mirror(views).get(key)

    def list_all(self, views: Views[T]) -> Sequence[T]:
        """Return all objects."""
        return self.find_mirror(views).values()

    def list_by_index(self, views: Views[T], index: str, value: Hashable) -> Sequence[T]:
        """Return the objects with this value under an index of the views."""
        return self.find_mirror(views).list_by_index(index, value)

    def count(self, views: Views[Any], index: str, value: Hashable) -> int:
        """Count the objects with this value under an index of the views."""
        return self.find_mirror(views).count(index, value)

    def list_owned(self, views: Views[T], uid: str) -> Sequence[T]:
        """Return the objects whose managing owner has this UID."""
        return self.list_by_index(views, BY_CONTROLLER, uid)

    def list_orphans(self, views: Views[T], namespace: str) -> Sequence[T]:
        """Return the objects of a namespace without a managing owner."""
        return self.list_by_index(views, ORPHANS, namespace)


class Memories:
    """Memory of a kind between reconciles: values by object and type. It saves work or requests. A new process starts
    without it.
    """

    def __init__(self) -> None:
        self._of_objects: dict[Key, tuple[str, dict[type, Any]]] = {}
        self._of_kind: dict[type, Any] = {}

    def find_memory(self, key: Key, uid: str, type_: type[M]) -> M:
        """Return the memory of this type for an object. The first call creates it with `type_()`, also for a new
        object of the same name.
        """
        known = self._of_objects.get(key)
        if known is None or known[0] != uid:
            known = self._of_objects[key] = (uid, {})
        result = known[1].get(type_)
        if result is None:
            result = known[1][type_] = type_()
        return cast(M, result)

    def keep(self, key: Key, uid: str, value: object) -> None:
        """Remember a value for an object, in place of the previous value of its type."""
        self.find_memory(key, uid, type(value))
        self._of_objects[key][1][type(value)] = value

    def find_kind_memory(self, type_: type[M], make: Callable[[], M]) -> M:
        """Return the memory of this type that all objects of the kind share."""
        if type_ not in self._of_kind:
            self._of_kind[type_] = make()
        return cast(M, self._of_kind[type_])

    def keys(self) -> Sequence[Key]:
        """Keys of the objects that have memories."""
        return tuple(self._of_objects)

    def forget(self, key: Key) -> None:
        """Forget a deleted object."""
        self._of_objects.pop(key, None)

    def clear(self) -> None:
        """Forget everything, as a new process does."""
        self._of_objects.clear()
        self._of_kind.clear()


class Read(Mirrors, Generic[C]):
    """Inputs of one snapshot of one object. `settings` are the kind's."""

    def __init__(
        self,
        mirrors: Mapping[Views[Any], Mirror[Any]],
        *,
        key: Key,
        uid: str,
        now: Callable[[], Instant],
        rng: random.Random,
        settings: C,
        live: Client | None,
        memories: Memories | None = None,
        further: Mapping[GroupKind, Views[Any]] | None = None,
    ) -> None:
        super().__init__(mirrors, further=further)
        self.settings = settings
        self.now = now
        """The clock. A snapshot that waits for requests must read it after them."""
        self._rng = rng
        self._live = live
        self._key, self._uid = key, uid
        self._memories = memories or Memories()

    @property
    def live(self) -> Client:
        """Client for requests to the API server. Raises RuntimeError where there is none (a simulated plan)."""
        if self._live is None:
            raise RuntimeError("a simulated plan cannot send requests to an API server")
        return self._live

    def draw_seed(self) -> int:
        """Return a random seed for names and ids of new objects; each call returns another one."""
        return self._rng.getrandbits(64)

    def find_memory(self, type_: type[M]) -> M:
        """Return the memory of this object; the first call creates it with `type_()`."""
        return self._memories.find_memory(self._key, self._uid, type_)

    def keep(self, value: object) -> None:
        """Remember a value for the next snapshot of this object, which gets it with `find_memory(type)`."""
        self._memories.keep(self._key, self._uid, value)

    def memory_of_kind(self, type_: type[M], make: Callable[[], M]) -> M:
        """Return the memory that all objects of the kind share."""
        return self._memories.find_kind_memory(type_, make)


class Around(Mirrors, Generic[C]):
    """Lookups that a wake (the rule that finds the keys which an event enqueues) may make, besides the event."""

    def __init__(
        self,
        mirrors: Mapping[Views[Any], Mirror[Any]],
        *,
        settings: C,
        memories: Memories,
        is_making: Callable[[Resource, Key], bool],
        now: Callable[[], Instant],
    ) -> None:
        super().__init__(mirrors)
        self.settings = settings
        self.now = now
        """The clock."""
        self.memories = memories
        self.is_making = is_making
        """Whether a creation of this object is in progress."""
