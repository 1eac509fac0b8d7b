"""Metrics of rollouts: their durations, and the reasons for which objects wait now.

each reconcile's Standing ──▶ RolloutMeter.note() ──▶ durations by result, reason for which each object waits
      kinds without a Standing ──▶ note_causes() ──▶ reasons for which each object waits
      kinds with children ──▶ note_children() ──▶ children of each object, whose reasons count too

A rollout begins when an object is not ready after its spec changed, and ends when it is ready. An object that is no
longer ready although its spec did not change (a pod fails) waits, but this is not a rollout.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.histogram import Histogram, HistogramStats
from pykruise.runtime.kstatus import Standing

__all__ = ["BOUNDS_S", "ChildAtWork", "ChildrenOf", "Result", "RolloutMeter"]

BOUNDS_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)


class ChildAtWork(msgspec.Struct, frozen=True):
    """A child for which its parent waits."""

    resource: Resource
    key: Key
    reason: str = ""
    """Code of the reason for which the child waits, if the parent's snapshot contains it. It is needed for children
    that no manager reconciles. Empty: the snapshot does not contain it.
    """


ChildrenOf = Callable[[Any], Iterable[ChildAtWork]]
"""Returns the children in a snapshot for which the parent waits."""

Result = Literal["complete", "held", "stalled", "superseded"]
"""Results of a rollout: it completed; it went as far as a pause or a partition allows; it cannot continue without
help; the spec changed again.
"""


Item = TypeVar("Item")


class _Rollout(msgspec.Struct):
    generation: int
    begun_at: Instant
    is_stalled: bool = False


class RolloutMeter:
    """Measures rollouts of the objects of one kind."""

    def __init__(self) -> None:
        self._durations: dict[Result, Histogram] = {}
        self._under_way: dict[Key, _Rollout] = {}
        self._ready: dict[Key, int] = {}
        """Generation at which each object was last ready."""
        self._waiting: dict[Key, str] = {}
        self._causes: dict[Key, Sequence[str]] = {}
        self._children: dict[Key, Sequence[ChildAtWork]] = {}

    @property
    def durations(self) -> Mapping[str, HistogramStats]:
        """Durations in seconds, by result."""
        return {result: duration.take_snapshot() for result, duration in self._durations.items()}

    @property
    def waiting(self) -> Mapping[Key, str]:
        """Reason, in one word, of each object that is not ready."""
        return self._waiting

    @property
    def causes(self) -> Mapping[Key, Sequence[str]]:
        """Reasons for which objects, their pods or their nodes wait, where no Standing contains them."""
        return self._causes

    @property
    def children(self) -> Mapping[Key, Sequence[ChildAtWork]]:
        """Children for which each object waits now, by object."""
        return self._children

    def note(
        self, key: Key, generation: int, standing: Standing, *, since: Instant | None, now: Instant
    ) -> None:
        """Note the Standing of an object at `now`. `since`: time since which it has not been ready, from its status."""
        rollout = self._under_way.get(key)
        if standing.is_ready:
            if rollout is not None and not rollout.is_stalled:
                self._observe("held" if standing.is_held else "complete", rollout, now)
            self._under_way.pop(key, None)
            self._waiting.pop(key, None)
            self._ready[key] = generation
            return
        self._waiting[key] = standing.reason
        if rollout is None or rollout.generation != generation:
            if rollout is not None and not rollout.is_stalled:
                self._observe("superseded", rollout, now)
            elif rollout is None and self._ready.get(key) == generation:
                return
            begun_at = now if rollout is not None or since is None or key in self._ready else since
            rollout = self._under_way[key] = _Rollout(generation, begun_at)
        if standing.is_stalled and not rollout.is_stalled:
            self._observe("stalled", rollout, now)
            rollout.is_stalled = True

    def note_causes(self, key: Key, causes: Sequence[str]) -> None:
        """Note the reasons for which an object waits and which no Standing contains, each in one word; its own reason
        is first.
        """
        _keep(self._causes, key, causes)

    def note_children(self, key: Key, children: Iterable[ChildAtWork]) -> None:
        """Note the children for which an object waits now."""
        _keep(self._children, key, tuple(children))

    def forget(self, key: Key) -> None:
        """Forget a deleted object."""
        for known in self._list_known():
            known.pop(key, None)

    def clear(self) -> None:
        """Forget all objects: another manager reconciles them from now on."""
        for known in self._list_known():
            known.clear()

    def _list_known(self) -> tuple[dict[Key, Any], ...]:
        return (self._under_way, self._ready, self._waiting, self._causes, self._children)

    def _observe(self, result: Result, rollout: _Rollout, now: Instant) -> None:
        histogram = self._durations.setdefault(result, Histogram(BOUNDS_S))
        histogram.observe(max(now - rollout.begun_at, 0.0))


def _keep(known: dict[Key, Sequence[Item]], key: Key, items: Sequence[Item]) -> None:
    if items:
        known[key] = items
    else:
        known.pop(key, None)
