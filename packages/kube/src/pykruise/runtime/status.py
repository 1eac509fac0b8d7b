"""Writing an object's status: only when it differs, and not more often than anyone can read.

plan.status + stored status ──▶ status_patch() ──▶ one merge patch of what differs
key ──▶ StatusPace.wait_s() ──▶ now, or in how many seconds

A rollout changes its counters with every pod. Writing each would cost as much as the pods themselves, so while there
is something else to write the status is written now and then; the status of an object that only waits, or is done,
at once. Conditions that clients of the kind do not know are written beside something else, or a minute later
(can_wait()): what nobody waits for must not make another one's update conflict.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.excerpts import fitting_status
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
    "can_wait",
    "differs_in_words_alone",
    "status_patch",
]

BURST = 4
"""Writes that an object may make without waiting."""

PER_SECOND = 4.0
"""Writes a second of an object to which nothing else is due, and that changes all the same."""

PER_SECOND_BUSY = 1.5
"""Writes a second of an object while its pods are written to: less than a tenth of what they take of the slowest of
API servers (20 updates a second)."""

A_MOMENT_S = 0.05
"""How long a status waits for the writes of its own plan, which change it again: they mostly take less."""

WORDS_S = 60.0
"""How long a failure whose status differs in words alone from the stored one is not written again. Each write wakes the
object, which tries again at once: a refusal that has another id or time in it each time would make a loop of that."""

OWN_CONDITIONS_S = 60.0
"""How long a status waits for a further reason to be written when only conditions differ that no client knows."""


def can_wait(
    stored: dict[str, Any], wanted: dict[str, Any], *, own: Collection[str], urgent: Collection[str]
) -> bool:
    """Whether the two differ in nothing but conditions of the types `own`; of those that are `urgent` too, in nothing
    but words."""

    def essence(status: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        rest = {name: value for name, value in status.items() if name != "conditions"}
        conditions = status.get("conditions") or ()
        kept = [condition for condition in conditions if condition.get("type") not in own]
        alarms = [_alarm(condition) for condition in conditions if condition.get("type") in urgent]
        return rest, [*kept, *alarms]

    return bool(own) and essence(stored) == essence(wanted)


def differs_in_words_alone(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the two say the same with other messages: all else is equal, codes of conditions included."""
    return stored != wanted and _without_words(stored) == _without_words(wanted)


_WORDS = frozenset({"message", "lastUpdateTime"})


def _without_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_words(item) for name, item in value.items() if name not in _WORDS}
    if isinstance(value, list | tuple):
        return [_without_words(item) for item in value]
    return value


def _alarm(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return condition.get("type"), condition.get("status"), condition.get("reason")


def status_patch(
    resource: Resource,
    key: Key,
    *,
    uid: str,
    stored: dict[str, Any],
    wanted: dict[str, Any],
    resource_version: str = "",
) -> Patch | None:
    """The narrowest merge patch of the status that makes `stored` show `wanted`; None: it does already.

    Messages are excerpts of what the plan says, and lists of names have so many as fit (kube/excerpts.py).

    `resource_version`: of a status that others write too, the one that `wanted` was worked out from.
    """
    difference = diff_merge(stored, wanted)
    if difference and (fitting := fitting_status(wanted)) is not wanted:
        # What does not fit into etcd is never stored, and each try is an event.
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


_WHOLE = 1 - 1e-6  # a caller that waited as long as it had to must not wait again for a rounding error


class _Bucket(msgspec.Struct):
    tokens: float
    filled_at: float


class StatusPace:
    """A token bucket per object: `BURST` writes at once, then `PER_SECOND`."""

    def __init__(self, *, burst: int = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._buckets: dict[Hashable, _Bucket] = {}

    def wait_s(self, key: Hashable, *, now: float) -> float:
        """Seconds until the next write of `key` is due; 0 takes the place of one write."""
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
        """Drop what is known of a deleted object."""
        self._buckets.pop(key, None)


SUSPECTED_S = 10.0
"""How long a field that was missing once is left out."""

FORGET_S = 600.0
"""How long a field that an API server did not keep is left out of statuses: its definition may be replaced."""

_Path = tuple[str, ...]
"""Names of fields from the status down; items of a list have the name of the list."""


class UnkeptFields:
    """Fields of a kind's status that API servers drop, since the installed definition has no place for them.

    A definition of another release may lack fields that this program writes. Each plan would find the difference again
    and write it again, so a field that was written and is not there afterwards is left out of what is compared: for a
    moment at first, since another manager may have written in between, and for long when it is not there again.
    """

    def __init__(self) -> None:
        self._until: dict[_Path, float] = {}
        self._suspected: dict[_Path, float] = {}
        """Fields that were missing once, and when."""

    def without(self, wanted: dict[str, Any], *, now: float) -> dict[str, Any]:
        """The status without the fields that are not kept. `now`: seconds of the event loop."""
        self._until = {path: until for path, until in self._until.items() if until > now}
        return _without(wanted, frozenset(self._until), ()) if self._until else wanted

    def learn(self, written: Mapping[str, Any], stored: Mapping[str, Any], *, now: float) -> float | None:
        """`stored`: the status after the patch `written` was applied. Returns in how many seconds a field that is
        missing for the first time is to be written again."""
        self._suspected = {path: at for path, at in self._suspected.items() if now - at < FORGET_S}
        is_new = False
        for path in _missing(written, stored, ()):
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


def _missing(wanted: Any, stored: Any, path: _Path) -> Iterator[_Path]:
    """Fields of `wanted` that `stored` has nowhere. Lists of equal length are compared item by item."""
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        for name, item in wanted.items():
            if item is None:
                continue
            if name not in stored:
                yield (*path, name)
            else:
                yield from _missing(item, stored[name], (*path, name))
    elif isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        for item, kept in zip(wanted, stored, strict=True):
            yield from _missing(item, kept, path)
