"""Wakes: declarations of the keys that an event enqueues. The manager subscribes a kind's queue with them.

change of an object that a kind reads ──▶ Wake.keys(change, around) ──▶ keys that are enqueued

    wakes=(
        wake_itself(CLONE_SET_VIEWS),
        wake_owner(POD_VIEWS, CLONE_SETS),
        wake_adopters(POD_VIEWS, CLONE_SET_VIEWS, may_own=…),
    )

Pure, except for the lookups of `around`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from pykruise.kube.cache.cache import Change, Projected
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE, Views

__all__ = ["Later", "Wake", "is_controller", "split_by_owner", "wake_adopters", "wake_itself", "wake_owner"]

T = TypeVar("T", bound=Projected)


class WakeOwner(Protocol):
    """The managing owner of an object."""

    @property
    def group(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


class OwnedObject(Projected, Protocol):
    """A view of an object that may have a managing owner."""

    @property
    def controller(self) -> WakeOwner | None: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def is_deleting(self) -> bool: ...


P = TypeVar("P", bound=OwnedObject)


class Later(msgspec.Struct, frozen=True):
    """A key that is enqueued after a delay."""

    key: Key
    seconds: float


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one resource, and the kind's keys that each event enqueues."""

    on: Views[Any]
    keys: Callable[[Change[Any], Around[Any]], Iterable[Key | Later]]
    wakes_absent: bool = True
    """Whether the event is delivered while no object exists, for a kind that also acts on absent objects
    (`Control.absent`).
    """


def wake_itself(views: Views[T], *, when: Callable[[T], bool] | None = None) -> Wake:
    """Every event of an object enqueues the object; with `when`, only if its new state satisfies `when`."""
    if when is None:
        return Wake(on=views, keys=lambda change, _: (change.key,))
    wanted = when
    return Wake(
        on=views,
        keys=lambda change, _: (change.key,) if change.new is not None and wanted(change.new) else (),
    )


def wake_owner(
    views: Views[P],
    resource: Resource,
    *,
    when: Callable[[Change[P], Key, Around[Any]], bool] | None = None,
) -> Wake:
    """A change of an object enqueues its managing owners before and after the change, also cluster-scoped ones. `when`:
    selects the owners to enqueue.
    """
    if when is None:
        return Wake(on=views, keys=lambda change, _: _list_owners(change, resource))
    wanted = when
    return Wake(
        on=views,
        keys=lambda change, around: [
            key for key in _list_owners(change, resource) if wanted(change, key, around)
        ],
    )


def wake_adopters(views: Views[P], objects: Views[T], *, may_own: Callable[[T, P], bool]) -> Wake:
    """A pod that has become an orphan, or has other labels, enqueues the objects of its namespace that may adopt it.

    `objects` have the index BY_NAMESPACE.
    """

    def keys(change: Change[P], around: Around[Any]) -> Iterable[Key]:
        old, new = change.old, change.new
        if new is None or new.controller is not None or new.is_deleting:
            return ()
        if old is not None and old.controller is None and old.labels == new.labels:
            return ()
        return [
            Key(item.namespace, item.name)
            for item in around.list_by_index(objects, BY_NAMESPACE, new.namespace)
            if may_own(item, new)
        ]

    return Wake(on=views, keys=keys)


def is_controller(owner: WakeOwner, resource: Resource) -> bool:
    """Whether a controller reference is to this kind, in any version of the group, since objects keep references from
    before an upgrade.
    """
    return owner.kind == resource.kind and owner.group == resource.group


def split_by_owner(change: Change[P]) -> tuple[P, ...]:
    """Return the old and the new state of the object if its managing owner changed; otherwise the new state, or the
    last one of a deleted object.
    """
    old, new = change.old, change.new
    if old is not None and new is not None:
        is_same = old.controller is new.controller or old.controller == new.controller
        return (new,) if is_same else (old, new)
    return tuple(p for p in (old, new) if p is not None)


def _list_owners(change: Change[P], resource: Resource) -> list[Key]:
    """Return the keys of this kind's workloads that control the pod, or did before the change; each key once."""
    return [key for p in split_by_owner(change) for key in _find_owner(p, resource)]


def _find_owner(pod: OwnedObject, resource: Resource) -> tuple[Key, ...]:
    if pod.controller is None or not is_controller(pod.controller, resource):
        return ()
    namespace = pod.namespace if resource.namespaced else ""
    return (Key(namespace, pod.controller.name),)
