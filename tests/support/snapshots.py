"""Snapshots of simulated objects, from the kinds' own snapshot functions.

objects by their views ──▶ read_of() ──▶ Read ──a kind's snapshot(view, read)──▶ snapshot_of()

Only data that the kind declares for these settings exists: a snapshot that reads anything else fails.
"""

import random
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.kind import Kind
from pykruise.runtime.assemble import views_of
from pykruise.runtime.control import Control
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Memories, Read
from pykruise.runtime.views import Views

S = TypeVar("S")

OnPaper = Mapping[Views[Any], Iterable[Any] | None]
"""Objects by their views; None: the API server does not serve the resource."""


class Seed(random.Random):
    """Draws the same number every time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed

    def getrandbits(self, k: int, /) -> int:
        return self._seed


def control_of(kind: Kind) -> Control:
    """The declaration of how objects of the kind are reconciled."""
    assert kind.control is not None, f"{kind.name} has no controller"
    return kind.control


def listed(views: Iterable[Views[Any]], objects: OnPaper) -> dict[Views[Any], Listed[Any]]:
    """Objects that can be looked up: those of these views, and empty lists of all others."""
    result = {view: objects.get(view, ()) for view in views}
    return {views: Listed(views, some or (), synced=some is not None) for views, some in result.items()}


def read_of(
    kind: Kind,
    view: Any,
    objects: OnPaper,
    *,
    settings: Any,
    now: Instant,
    seed: int = 1,
    memories: Memories | None = None,
    live: Any = None,
) -> Read[Any]:
    """The reads of the object's snapshot: these objects, as far as the kind declares that it reads them; and
    `live` instead of an API server."""
    control = control_of(kind)
    return Read(
        listed(views_of(control, settings), {control.objects: [view], **objects}),
        key=Key(view.namespace, view.name),
        uid=view.uid,
        now=lambda: now,
        rng=Seed(seed),
        settings=settings,
        live=live,
        memories=memories,
    )


def taken(snapshot: Coroutine[Any, Any, S]) -> S:
    """Run the snapshot function. It must not wait, because all its objects are given."""
    try:
        snapshot.send(None)
    except StopIteration as stop:
        s: S = stop.value
        return s
    raise AssertionError("a snapshot of objects on paper asked an API server")


def snapshot_of(kind: Kind, view: Any, objects: OnPaper, **more: Any) -> Any:
    """The kind's snapshot of the object; `more` as of `read_of()`."""
    return taken(control_of(kind).snapshot(view, read_of(kind, view, objects, **more)))
