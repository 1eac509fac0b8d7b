"""Status writes of an object: only when the status differs, and not more often than useful.

plan.status + stored status ──▶ build_status_patch() ──▶ one merge patch of the difference
key ──▶ StatusPace.wait_s() ──▶ now, or in how many seconds

A rollout changes its counters with every pod. Writing each change would cost as much as the pods themselves. So the
status is written from time to time while there are other writes, and immediately when an object only waits or is ready.
Conditions that no other client knows are written with another change, or a minute later (can_wait()), so that they
cause no conflict for another client's update.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.excerpts import fit_status
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.runtime.actions import Patch

__all__ = [
    "A_MOMENT_S",
    "BURST",
    "OWN_CONDITIONS_S",
    "PER_SECOND",
    "PER_SECOND_BUSY",
    "WORDS_S",
    "StatusPace",
    "UnkeptFields",
    "build_status_patch",
    "can_wait",
    "is_different_in_words_alone",
]

BURST = 4
"""Number of status writes of an object that need no wait."""

PER_SECOND = 4.0
"""Status writes per second of an object that keeps changing and has no other writes."""

PER_SECOND_BUSY = 1.5
"""Status writes per second of an object while its pods are written: less than a tenth of the writes that the slowest
API servers accept (20 per second).
"""

A_MOMENT_S = 0.05
"""Seconds that a status waits for the writes of its own plan, which change it again and usually take less time."""

WORDS_S = 60.0
"""If the status after a failure differs from the stored one only in messages, it is written at most once in this number
of seconds. Each write enqueues the object, and the manager retries immediately, so a rejection with a new id or time in
each message would cause a loop.
"""

OWN_CONDITIONS_S = 60.0
"""Seconds that a status waits for another change when it differs from the stored one only in conditions that no other
client knows.
"""


def can_wait(
    stored: dict[str, Any], wanted: dict[str, Any], *, own: Collection[str], urgent: Collection[str]
) -> bool:
    """Whether the statuses differ only in conditions of the types `own`. Those of them that are also `urgent` must have
    the same status and reason.
    """

    def essence(status: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        rest = {name: value for name, value in status.items() if name != "conditions"}
        conditions = status.get("conditions") or ()
        kept = [condition for condition in conditions if condition.get("type") not in own]
        alarms = [_read_alarm(condition) for condition in conditions if condition.get("type") in urgent]
        return rest, [*kept, *alarms]

    return bool(own) and essence(stored) == essence(wanted)


def is_different_in_words_alone(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the statuses differ only in messages and `lastUpdateTime`. The reasons of conditions are equal too."""
    return stored != wanted and _without_words(stored) == _without_words(wanted)


_WORDS = frozenset({"message", "lastUpdateTime"})


def _without_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_words(item) for name, item in value.items() if name not in _WORDS}
    if isinstance(value, list | tuple):
        return [_without_words(item) for item in value]
    return value


def _read_alarm(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return condition.get("type"), condition.get("status"), condition.get("reason")


def build_status_patch(
    resource: Resource,
    key: Key,
    *,
    uid: str,
    stored: dict[str, Any],
    wanted: dict[str, Any],
    resource_version: str = "",
) -> Patch | None:
    """Return the smallest merge patch that changes the status from `stored` to `wanted`; None: they are equal.

    Long messages are shortened, and lists of names are cut to the size that fits (kube/excerpts.py).

    `resource_version`: for a status that other clients write too, the version that `wanted` was computed from.
    """
    difference = diff_merge(stored, wanted)
    if difference and (fitting := fit_status(wanted)) is not wanted:
        # The API server rejects a status that exceeds etcd's limit, so each reconcile would fail.
        difference = diff_merge(stored, fitting)
    if not difference:
        return None
    return Patch(
        resource=resource,
        key=key,
        patch_type=PatchType.MERGE,
        body={"status": difference},
        subresource="status",
        uid=uid,
        resource_version=resource_version,
    )


_WHOLE = 1 - 1e-6  # tolerance: after the full wait, a rounding error must not cause another one


class _Bucket(msgspec.Struct):
    tokens: float
    filled_at: float


class StatusPace:
    """Token bucket per object: `BURST` writes without a wait, then `PER_SECOND`."""

    def __init__(self, *, burst: int = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._buckets: dict[Hashable, _Bucket] = {}

    def wait_s(self, key: Hashable, *, now: float) -> float:
        """Return the seconds until the next write of `key` is due; 0: it is due, and is counted as written."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(self._burst), now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        if bucket.tokens >= _WHOLE:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._per_second

    def forget(self, key: Hashable) -> None:
        """Forget a deleted object."""
        self._buckets.pop(key, None)


SUSPECTED_S = 10.0
"""Seconds that a field is left out of statuses after it was missing in the stored status for the first time."""

FORGET_S = 600.0
"""Seconds that a field is left out of statuses when it is missing again. Then it is written again, because the CRD may
have been replaced.
"""

_Path = tuple[str, ...]
"""Field names from the status downwards; items of a list have the name of the list."""


class UnkeptFields:
    """Fields of a kind's status that the API server drops, since the installed CRD does not have them.

    A CRD of another release may lack fields that this program writes. Each plan would find the same difference and
    write it again. So a field that was written but is not stored is left out of comparisons: for a short time at
    first, since another manager may have written meanwhile, and for long when it is missing again.
    """

    def __init__(self) -> None:
        self._until: dict[_Path, float] = {}
        self._suspected: dict[_Path, float] = {}
        """Fields that were missing once, and the time."""

    def without(self, wanted: dict[str, Any], *, now: float) -> dict[str, Any]:
        """Return the status without the fields that the API server drops. `now`: the event loop's time in seconds."""
        self._until = {path: until for path, until in self._until.items() if until > now}
        return _without(wanted, frozenset(self._until), ()) if self._until else wanted

    def learn(self, written: Mapping[str, Any], stored: Mapping[str, Any], *, now: float) -> float | None:
        """Compare the patch `written` with the status `stored` after it. Returns the seconds until a field that is
        missing for the first time must be written again; None: there is none.
        """
        self._suspected = {path: at for path, at in self._suspected.items() if now - at < FORGET_S}
        is_new = False
        for path in _find_missing(written, stored, ()):
            since = self._suspected.setdefault(path, now)
            is_sure = now - since >= SUSPECTED_S
            self._until[path] = now + (FORGET_S if is_sure else SUSPECTED_S)
            is_new |= not is_sure
        return SUSPECTED_S if is_new else None


def _without(value: Any, unkept: frozenset[_Path], path: _Path) -> Any:
    if isinstance(value, dict):
        return {
            name: _without(item, unkept, (*path, name))
            for name, item in value.items()
            if (*path, name) not in unkept
        }
    if isinstance(value, list):
        return [_without(item, unkept, path) for item in value]
    return value


def _find_missing(wanted: Any, stored: Any, path: _Path) -> Iterator[_Path]:
    """Yield the fields of `wanted` that `stored` does not have. Lists of equal length are compared item by item."""
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        for name, item in wanted.items():
            if item is None:
                continue
            if name not in stored:
                yield (*path, name)
            else:
                yield from _find_missing(item, stored[name], (*path, name))
    elif isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        for item, kept in zip(wanted, stored, strict=True):
            yield from _find_missing(item, kept, path)
