"""Which objects an event is about: declarations, from which the manager subscribes a kind's queue.

change of an object that a kind reads ──▶ Wake.keys(change, around) ──▶ keys that are enqueued

    wakes=(itself(CLONE_SET_VIEWS), by_owner(POD_VIEWS, CLONE_SETS), named_after(REVISION_VIEWS, CLONE_SET_VIEWS))

Pure, but for what `around` shows.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from pykruise.kube.cache import Change, Projected
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.read import Around
from pykruise.plans.views import BY_NAMESPACE, Views, owner_name
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import ControllerView, PodView

__all__ = ["Later", "Wake", "adoptable", "by_owner", "is_controller", "itself", "named_after"]

T = TypeVar("T", bound=Projected)


class Later(msgspec.Struct, frozen=True):
    """A key that is enqueued after a while."""

    key: Key
    seconds: float


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one resource, and the keys of the kind that each is about."""

    on: Views[Any]
    keys: Callable[[Change[Any], Around[Any]], Iterable[Key | Later]]


def itself(views: Views[T], *, when: Callable[[T], bool] | None = None) -> Wake:
    """Every event of an object wakes it; with `when`, only those after which that holds of it."""
    if when is None:
        return Wake(on=views, keys=lambda change, _: (change.key,))
    wanted = when
    return Wake(
        on=views,
        keys=lambda change, _: (change.key,) if change.new is not None and wanted(change.new) else (),
    )


def by_owner(
    views: Views[PodView],
    resource: Resource,
    *,
    when: Callable[[Change[PodView], Key, Around[Any]], bool] | None = None,
) -> Wake:
    """An object wakes its managing owner, before and after the change. `when`: of which owners it is worth it."""
    if when is None:
        return Wake(on=views, keys=lambda change, _: _owners_in(change, resource))
    wanted = when
    return Wake(
        on=views,
        keys=lambda change, around: [
            key for key in _owners_in(change, resource) if wanted(change, key, around)
        ],
    )


def named_after(views: Views[RevisionView], objects: Views[Any]) -> Wake:
    """A revision wakes the object that it is named after, whoever owns it: its name may be in the way."""

    def keys(change: Change[RevisionView], around: Around[Any]) -> Iterable[Key]:
        revision = change.new or change.old
        if revision is None:
            return ()
        key = Key(revision.namespace, owner_name(revision))
        return (key,) if around.get(objects, key) is not None else ()

    return Wake(on=views, keys=keys)


def adoptable(views: Views[PodView], objects: Views[T], *, may_own: Callable[[T, PodView], bool]) -> Wake:
    """A pod that has become an orphan, or has other labels, wakes the objects of its namespace that may adopt it.

    `objects` have the index BY_NAMESPACE.
    """

    def keys(change: Change[PodView], around: Around[Any]) -> Iterable[Key]:
        old, new = change.old, change.new
        if new is None or new.controller is not None or new.is_deleting:
            return ()
        if old is not None and old.controller is None and old.labels == new.labels:
            return ()
        return [
            Key(one.namespace, one.name)
            for one in around.by_index(objects, BY_NAMESPACE, new.namespace)
            if may_own(one, new)
        ]

    return Wake(on=views, keys=keys)


def is_controller(owner: ControllerView, resource: Resource) -> bool:
    """Whether a controller reference is to this kind; in any version of the group, so that what was made before
    an upgrade counts too."""
    return owner.kind == resource.kind and owner.group == resource.group


def _owners_in(change: Change[PodView], resource: Resource) -> tuple[Key, ...]:
    """The workloads of this kind that control the pod, or did before the change; each once."""
    old, new = change.old, change.new
    if (
        old is not None
        and new is not None
        and (old.controller is new.controller or old.controller == new.controller)
    ):
        return _owner_in(new, resource)
    return (*_owner_in(old, resource), *_owner_in(new, resource))


def _owner_in(pod: PodView | None, resource: Resource) -> tuple[Key, ...]:
    if pod is None or pod.controller is None or not is_controller(pod.controller, resource):
        return ()
    return (Key(pod.namespace, pod.controller.name),)
