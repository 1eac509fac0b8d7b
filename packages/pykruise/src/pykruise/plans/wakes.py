"""The wake by the names of revisions; other wakes are in runtime/wakes.py. Pure, except for what `around` reads."""

from collections.abc import Iterable
from typing import Any

from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import read_owner_name
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.read import Around
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake


def wake_namesake(views: Views[RevisionView], objects: Views[Any]) -> Wake:
    """Return a wake: a change of a revision enqueues the object whose name the revision's name contains. Even if
    another object owns the revision, this object perhaps needs the name for its own revision.
    """

    def keys(change: Change[RevisionView], around: Around[Any]) -> Iterable[Key]:
        revision = change.latest
        key = Key(revision.namespace, read_owner_name(revision))
        return (key,) if around.get(objects, key) is not None else ()

    return Wake(on=views, keys=keys)
