"""Slows down objects whose reconciles undo their own work. Without the brake, they write as fast as the API server
responds.

writes that took effect ──▶ ChurnBrake.note() ──▶ how often a reconcile undid work of the same object
                            ChurnBrake.hold() ──▶ until when its writes are held back, and why

A reconcile undoes its own work when, without a change of the spec,
- it deletes an object that was created for the same owner and spec less than YOUNG_S ago, and at least half of the
  objects that the owner's reconciles created recently were deleted again in this way; or
- it sends a patch that was also sent less than AGAIN_S ago, and at least half of the owner's recent patches were such
  repetitions.
Both times are extended by the time during which the object was held back.

The third such reconcile and each later one hold the object's writes back, for 1 s, 2 s, 4 s, … up to LONGEST_S. Its
status is still written and shows the reason. A change of the spec ends the hold immediately. A period in which
nothing is undone resets the count.

Changes by other clients are not churn: a pod that a user deletes is created again immediately, and a label with the
result of a probe changes as often as the result does. The deletion of an object that has served its purpose
(Delete.is_due) is not churn either: a schedule that creates a child every few seconds, and keeps one, also deletes a
child every few seconds. Any other owner that creates and deletes the same number of objects makes no progress, whatever
the cause: its template, a webhook of another program that marks each new pod, or a fault in a plan.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

import msgspec
import orjson

from pykruise.kube.cache.remembering import register_limit
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.plan import Note, Plan
from pykruise.runtime.reasons import Reason, WriteFault

__all__ = ["CHURN_ENTRIES", "FREE_TURNS", "ChurnBrake", "ChurnHold", "hold_back"]

YOUNG_S: Final = 30.0
AGAIN_S: Final = 1.0
FREE_TURNS: Final = 2
"""Number of reconciles that may undo something before the first wait."""
LONGEST_S: Final = 300.0
TELL_AGAIN_S: Final = 600.0

CHURN_ENTRIES: Final = register_limit("recent writes, and their owners", entries=8_192, bytes_each=1_536)
"""Number of writes that are remembered over all objects. When there are more, the oldest are forgotten."""


class ChurnHold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason and the length of a hold on the writes of an object."""

    seconds: float
    """Remaining seconds."""
    wait_s: float
    """Full length of the wait in seconds."""
    message: str

    @property
    def reason(self) -> Reason:
        """The reason for which the object waits. Its message stays the same while this hold lasts."""
        remedy = (
            "find out what marks or changes the objects that the controller creates: their template, a webhook, "
            "another controller"
        )
        return Reason(WriteFault.CHURNING, self.message, remedy)

    @property
    def note(self) -> Note:
        """The event that reports the hold."""
        return Note(
            reason=WriteFault.CHURNING,
            message=f"{self.message}; the next writes are delayed for {self.wait_s:g} s",
            warning=True,
            again_after_s=TELL_AGAIN_S,
            same_as=WriteFault.CHURNING,
        )


class _Object(msgspec.Struct):
    """Facts about one object at one generation of its spec."""

    uid: str
    generation: int
    counted_since: float
    made: int = 0
    unmade: int = 0
    patched: int = 0
    repeated: int = 0
    strikes: int = 0
    struck_at: float = float("-inf")
    wait_s: float = 0.0
    is_unmaking: bool = False
    """Whether the latest strike (a reconcile that undid its own work) was for deletions; False: for repeated
    patches.
    """


class ChurnBrake:
    """Remembers writes for all reconcilers of a manager. `now` returns the event loop's time in seconds."""

    def __init__(self, *, now: Callable[[], float], entries: int = CHURN_ENTRIES) -> None:
        self._now = now
        self._entries = entries
        self._writes: OrderedDict[tuple[str, int, Resource, Key, int], float] = OrderedDict()
        """Time of each write, by the owner's UID and generation, the written object, and for a patch a hash of its
        content.
        """
        self._objects: OrderedDict[tuple[Resource, Key], _Object] = OrderedDict()

    def __len__(self) -> int:
        return len(self._writes) + len(self._objects)

    def hold(self, resource: Resource, key: Key, *, uid: str, generation: int) -> ChurnHold | None:
        """Return the hold on the writes of this object; None: they are not held back now."""
        known = self._objects.get((resource, key))
        if known is None or (known.uid, known.generation) != (uid, generation):
            return None
        left_s = known.struck_at + known.wait_s - self._now()
        if left_s <= 0:
            return None
        what = (
            "the controller deletes the objects that it creates"
            if known.is_unmaking
            else "the controller repeats its writes"
        )
        return ChurnHold(
            seconds=left_s, wait_s=known.wait_s, message=f"{what}, though the object's spec has not changed"
        )

    def note(
        self, resource: Resource, key: Key, *, uid: str, generation: int, done: Sequence[Action]
    ) -> float | None:
        """Record the writes of one reconcile of this object. Returns the seconds for which the object's writes are held
        back from now on; None: they are not held back."""
        if not done:
            return None
        now = self._now()
        known = self._find_or_add(resource, key, uid=uid, generation=generation, now=now)
        unmade, repeated = self._count_undone(known, done, now)
        self._forget_old(now)
        is_unmaking = unmade > 0 and 2 * known.unmade >= known.made
        if not is_unmaking and not (repeated > 0 and 2 * known.repeated >= known.patched):
            return None
        known.strikes += 1
        known.struck_at, known.is_unmaking = now, is_unmaking
        if known.strikes <= FREE_TURNS:
            return None
        known.wait_s = min(2.0 ** min(known.strikes - FREE_TURNS - 1, 64), LONGEST_S)
        return known.wait_s

    def forget(self, resource: Resource, key: Key) -> None:
        """Forget a deleted object."""
        self._objects.pop((resource, key), None)

    def clear(self) -> None:
        """Forget everything: another manager reconciles the objects from now on."""
        self._writes.clear()
        self._objects.clear()

    def _find_or_add(self, resource: Resource, key: Key, *, uid: str, generation: int, now: float) -> _Object:
        known = self._objects.get((resource, key))
        if known is None or (known.uid, known.generation) != (uid, generation):
            known = self._objects[resource, key] = _Object(uid, generation, counted_since=now)
        if now - known.struck_at > YOUNG_S + 2 * known.wait_s:
            known.strikes, known.wait_s = 0, 0.0
        if now - known.counted_since > YOUNG_S + known.wait_s:
            known.counted_since = now
            known.made = known.unmade = known.patched = known.repeated = 0
        self._objects.move_to_end((resource, key))
        return known

    def _count_undone(self, known: _Object, done: Sequence[Action], now: float) -> tuple[int, int]:
        """Count the creations that this reconcile has undone, and the patches that it has repeated."""
        unmade = repeated = 0
        # Approximately the sum of all waits so far, since each wait is twice the previous one.
        held_s = 2 * known.wait_s
        for action in done:
            match action:
                case Create():
                    known.made += 1
                    self._remember((known.uid, known.generation, action.resource, action.key, 0), now)
                case Delete() if not action.is_due:
                    entry = (known.uid, known.generation, action.resource, action.key, 0)
                    made_at = self._writes.pop(entry, None)
                    unmade += made_at is not None and now - made_at < YOUNG_S + held_s
                case Patch():
                    known.patched += 1
                    entry = (known.uid, known.generation, action.resource, action.key, _hash_of(action))
                    patched_at = self._writes.get(entry)
                    repeated += patched_at is not None and now - patched_at < AGAIN_S + held_s
                    self._remember(entry, now)
        known.unmade += unmade
        known.repeated += repeated
        return unmade, repeated

    def _remember(self, entry: tuple[str, int, Resource, Key, int], now: float) -> None:
        self._writes[entry] = now
        self._writes.move_to_end(entry)

    def _forget_old(self, now: float) -> None:
        """Remove the oldest entries; both maps are in the order of their latest writes."""
        while self._writes:
            entry, written_at = next(iter(self._writes.items()))
            if len(self._writes) <= self._entries and now - written_at <= YOUNG_S + 2 * LONGEST_S:
                break
            del self._writes[entry]
        while len(self._objects) > self._entries:
            self._objects.popitem(last=False)


def hold_back(plan: Plan, hold: ChurnHold) -> Plan:
    """Return the plan without its writes. Its status is still reported, with the hold as the reason to wait."""
    if not plan.stages:
        return plan
    return msgspec.structs.replace(
        plan, stages=(), waiting=hold.reason, requeue_after_s=hold.seconds, notes=(*plan.notes, hold.note)
    )


def _hash_of(action: Patch) -> int:
    """Hash of a patch's content; never 0, which marks a creation."""
    return crc32(action.subresource.encode() + orjson.dumps(action.body, option=orjson.OPT_SORT_KEYS)) + 1
