"""Selection of the keys that this manager reconciles if several managers run: all keys while it leads or, if managers
share the keys, the keys of the slots that it holds. It enqueues no other keys.

With a leader:
LedKeys.open(kind) ──▶ all its keys are enqueued, and from now on the keys of events    LedKeys.close() ──▶ none

With shared keys:
HeldSlot (election/membership.py) ──▶ SharedKeys.take() ──▶ Share ──open(kind)──▶ its keys are enqueued
wake, queue ──key──▶ is_open()? ──▶ reconcile, which writes with the slot's own executor      else: dropped

A dropped key is not lost: a manager that begins to lead enqueues all keys, and a manager that takes a slot enqueues all
keys of the slot. When a share closes, running reconciles may finish. Reconciles that do not finish are cancelled, and
the results of their writes are then unknown.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from pykruise.kube.cache.cache import Change
from pykruise.kube.cache.delivery import SLICE
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.control.timeout_scope import end_now
from pykruise.kube.election.key_slots import Keying, slot_of
from pykruise.kube.election.leases import Fence, NotLeadingError
from pykruise.kube.ids import Key
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Executor
from pykruise.runtime.read import Around, Mirror
from pykruise.runtime.wakes import Later, Wake

__all__ = ["KindKeys", "LedKeys", "Share", "SharedKeys"]

_log = logging.getLogger(__name__)

Turn = Callable[[Key], Awaitable[float | None]]


class Share:
    """A slot while this manager holds it."""

    def __init__(self, number: int, executor: Executor) -> None:
        self.number = number
        self.executor = executor
        """Executor that can write only while the slot is held."""
        self.open: set[str] = set()
        """Controllers that may reconcile the slot's keys."""
        self.is_clean = True
        """Whether no reconcile had to be cancelled."""
        self._turns: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, turn: Awaitable[float | None]) -> float | None:
        """Run one reconcile; returns None if `cut()` ends it."""
        scope = asyncio.timeout(None)
        self._turns.add(scope)
        self._idle.clear()
        try:
            async with scope:
                return await turn
        except TimeoutError:
            if not scope.expired():
                raise
            return None
        except asyncio.CancelledError:
            self.is_clean = False
            raise
        finally:
            self._turns.discard(scope)
            if not self._turns:
                self._idle.set()

    async def close(self, *, grace_s: float) -> None:
        """Start no more reconciles. Returns when the running ones have ended; after `grace_s` they are cancelled."""
        self.open.clear()
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            self.cut()
            await self._idle.wait()

    def cut(self) -> None:
        """Cancel all running reconciles."""
        self.open.clear()
        if self._turns:
            self.is_clean = False
            _log.warning("slot %d: %d reconciles are cancelled", self.number, len(self._turns))
        for scope in self._turns:
            end_now(scope)


class KindKeys:
    """Parts of a controller that are needed to enqueue all its keys.

    `wakes` returns the current wakes, and `mirror_of` the objects of their events; None: they are no longer read.
    `known`: keys with memories; `forget` deletes the memories of a key.
    """

    def __init__(
        self,
        control: Control,
        *,
        wakes: Callable[[], Sequence[Wake]],
        mirror_of: Callable[[Any], Mirror[Any] | None],
        around: Around[Any],
        queue: WorkQueue[Key],
        known: Callable[[], Iterable[Key]],
        forget: Callable[[Key], None],
    ) -> None:
        self._control = control
        self._wakes = wakes
        self._mirror_of = mirror_of
        self._around = around
        self._queue = queue
        self._known = known
        self._forget = forget

    def forget(self, is_mine: Callable[[Key], bool]) -> None:
        """Forget these keys: other managers have written meanwhile."""
        for key in [key for key in self._known() if is_mine(key)]:
            self._forget(key)

    async def enqueue_all(self, is_mine: Callable[[Key], bool]) -> None:
        """Enqueue all existing keys among these, as if each object had just appeared.

        Wakes for which `Control.wakes_always` is false enqueue existing objects only. They are skipped if a wake for
        events of these objects exists, because they would add no other keys.
        """
        for first in filter(is_mine, self._control.at_start):
            self._queue.add(first)
        wakes = self._wakes()
        has_own_wake = any(wake.on is self._control.objects for wake in wakes)
        count = 0
        for wake in wakes:
            mirror = self._mirror_of(wake.on)
            if mirror is None or (has_own_wake and not self._control.wakes_always(wake)):
                continue
            for view in mirror.values():
                count += 1
                if count % SLICE == 0:
                    await asyncio.sleep(0)
                change = Change(Key(view.namespace, view.name), None, view)
                for key in wake.keys(change, self._around):
                    plain = key.key if isinstance(key, Later) else key
                    if is_mine(plain):
                        self._queue.add(plain)

    def clear(self) -> None:
        """Empty the queue."""
        self._queue.clear()


class LedKeys:
    """The keys of an operator that works only while it leads."""

    def __init__(self) -> None:
        self._kinds: dict[str, KindKeys] = {}
        self._open: set[str] = set()

    def add(self, name: str, kind: KindKeys) -> None:
        """Register a controller."""
        self._kinds[name] = kind

    def is_open(self, name: str) -> bool:
        """Whether events enqueue keys of this controller."""
        return name in self._open

    async def open(self, name: str) -> None:
        """Enqueue all keys of a controller, because this operator leads. From the beginning of this call, events
        enqueue keys too, so that no change is lost.
        """
        self._open.add(name)
        await self._kinds[name].enqueue_all(lambda _: True)

    def close(self) -> None:
        """Empty all queues, because this operator no longer leads. Events enqueue no more keys."""
        self._open.clear()
        for kind in self._kinds.values():
            kind.clear()


class SharedKeys:
    """The slots of one operator. `executor_over` returns an executor that can write only while a fence holds."""

    def __init__(self, *, keying: Keying, executor_over: Callable[[Fence], Executor]) -> None:
        self._keying = keying
        self._executor_over = executor_over
        self._kinds: dict[str, KindKeys] = {}
        self._shares: dict[int, Share] = {}

    def add(self, name: str, kind: KindKeys) -> None:
        """Register a controller that works on shared keys."""
        self._kinds[name] = kind

    def slot_of(self, name: str, key: Key) -> int:
        """Return the slot of a controller's key."""
        return slot_of(name, key, keying=self._keying)

    def is_open(self, name: str, key: Key) -> bool:
        """Whether this controller may reconcile the key here now."""
        share = self._shares.get(self.slot_of(name, key))
        return share is not None and name in share.open

    def executor_of(self, name: str, key: Key) -> Executor:
        """Return the executor for the key. Raises NotLeadingError when its slot is no longer held."""
        share = self._shares.get(self.slot_of(name, key))
        if share is None:
            raise NotLeadingError(f"{name} {key}: this replica no longer holds its slot")
        return share.executor

    def guard_turn(self, name: str, turn: Turn) -> Turn:
        """Return a reconcile function that drops keys that are not open."""

        async def guarded(key: Key) -> float | None:
            share = self._shares.get(self.slot_of(name, key))
            if share is None or name not in share.open:
                return None
            return await share.run(turn(key))

        return guarded

    def take(self, number: int, fence: Fence) -> Share:
        """Register a slot that is held from now on. Its kinds are not open yet."""
        share = self._shares[number] = Share(number, self._executor_over(fence))
        return share

    async def open(self, share: Share, name: str) -> None:
        """Let a controller reconcile the keys of this slot from now on."""
        kind = self._kinds[name]

        def is_mine(key: Key) -> bool:
            return self.slot_of(name, key) == share.number

        kind.forget(is_mine)
        share.open.add(name)
        await kind.enqueue_all(is_mine)

    def drop(self, share: Share) -> None:
        """Unregister a slot that is no longer held."""
        share.cut()
        if self._shares.get(share.number) is share:
            del self._shares[share.number]
