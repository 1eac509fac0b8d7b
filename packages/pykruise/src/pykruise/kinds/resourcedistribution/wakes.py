"""Events that enqueue a ResourceDistribution.

distribution: new generation · namespace: created, deleted, new labels · Secret or ConfigMap with the distributed name

Pure, except for the caches that `around` reads. Events of thousands of namespaces become one key, which is enqueued
once.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from pykruise.kinds.resourcedistribution.targets import is_target
from pykruise.kinds.resourcedistribution.view import (
    BY_RESOURCE,
    COPY_VIEWS,
    DISTRIBUTION_VIEWS,
    CopyView,
    DistributionView,
)
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import NAMESPACE_VIEWS, NamespaceView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake


def list_wakes(settings: object) -> Sequence[Wake]:
    """Return the wakes, which are the same for all settings."""
    return (
        Wake(on=DISTRIBUTION_VIEWS, keys=_find_keys_of_distribution),
        Wake(on=NAMESPACE_VIEWS, keys=_find_keys_of_namespace),
        *(Wake(on=views, keys=partial(_find_keys_of_copy, kind)) for kind, views in COPY_VIEWS.items()),
    )


def _find_keys_of_distribution(change: Change[DistributionView], _: Around[object]) -> Iterator[Key]:
    """Key of the distribution, unless only its status changed. An event in which nothing changed is a request to
    reconcile.
    """
    old, new = change.old, change.new
    if (
        old is None
        or new is None
        or old is new
        or (old.generation, old.is_deleting) != (new.generation, new.is_deleting)
    ):
        yield change.key


def _find_keys_of_namespace(change: Change[NamespaceView], around: Around[object]) -> Iterator[Key]:
    """Keys of the distributions that target the namespace before or after the change."""
    old, new = change.old, change.new
    if old is not None and new is not None and _is_target_as(old, new):
        return
    for view in around.list_all(DISTRIBUTION_VIEWS):
        if any(
            namespace is not None and is_target(view, namespace.name, namespace.labels)
            for namespace in (old, new)
        ):
            yield Key("", view.name)


def _is_target_as(old: NamespaceView, new: NamespaceView) -> bool:
    return old.labels == new.labels and old.is_deleting == new.is_deleting


def _find_keys_of_copy(kind: str, change: Change[CopyView], around: Around[object]) -> Iterator[Key]:
    """Keys of the distributions whose copies have this kind and name: the object is a copy, or prevents the creation of
    a copy with this name.
    """
    for view in around.list_by_index(DISTRIBUTION_VIEWS, BY_RESOURCE, (kind, change.key.name)):
        yield Key("", view.name)
