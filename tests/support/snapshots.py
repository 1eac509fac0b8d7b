"""Snapshots of objects on paper, by the kinds' own snapshot functions.

objects by their views ──▶ read_of() ──▶ Read ──a kind's snapshot(view, read)──▶ taken()
"""

import random
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.listed import Listed
from pykruise.plans.read import Memories, Read
from pykruise.plans.views import Views

S = TypeVar("S")


class Seed(random.Random):
    """Draws the same number every time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed

    def getrandbits(self, k: int, /) -> int:
        return self._seed


def read_of(
    view: Any,
    objects: Mapping[Views[Any], Iterable[Any]],
    *,
    settings: Any,
    now: Instant,
    seed: int = 1,
    memories: Memories | None = None,
) -> Read[Any]:
    """What a snapshot of the object reads: these objects, and no API server."""
    return Read(
        {views: Listed(views, found) for views, found in objects.items()},
        key=Key(view.namespace, view.name),
        uid=view.uid,
        now=lambda: now,
        rng=Seed(seed),
        settings=settings,
        live=None,
        memories=memories,
    )


def taken(snapshot: Coroutine[Any, Any, S]) -> S:
    """The snapshot, which must not wait for anything on paper."""
    try:
        snapshot.send(None)
    except StopIteration as stop:
        found: S = stop.value
        return found
    raise AssertionError("a snapshot of objects on paper asked an API server")
