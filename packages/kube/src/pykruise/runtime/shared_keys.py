"""Which keys are reconciled here when several managers share them: those of the slots that this one holds.

HeldSlot (election/membership.py) ──▶ SharedKeys.take() ──▶ Share ──open(kind)──▶ its keys are enqueued, and reconciled
wake, queue ──key──▶ is_open()? ──▶ turn, which writes through the slot's own executor        else: dropped

A key that is dropped is not lost: who takes its slot enqueues all keys of it. A share that ends lets turns under way
finish; those that do not are cancelled, and then it is not known for sure what was written.
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

__all__ = ["Share", "SharedKeys", "SharedKind"]

_log = logging.getLogger(__name__)

Turn = Callable[[Key], Awaitable[float | None]]


class Share:
    """One slot while it is held here."""

    def __init__(self, number: int, executor: Executor) -> None:
        self.number = number
        self.executor = executor
        """Its writes leave only while the slot is held."""
        self.open: set[str] = set()
        """Controllers that may work on its keys."""
        self.is_clean = True
        """Whether all turns have ended by themselves."""
        self._turns: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, turn: Awaitable[float | None]) -> float | None:
        """One turn, unless it is cut off."""
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
        """Begin no turn any more; return when those under way have ended, or were cut off after `grace_s`."""
        self.open.clear()
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            self.cut()
            await self._idle.wait()

    def cut(self) -> None:
        """End all turns now."""
        self.open.clear()
        if self._turns:
            self.is_clean = False
            _log.warning("slot %d: %d reconciles are cancelled", self.number, len(self._turns))
        for scope in self._turns:
            end_now(scope)


class SharedKind:
    """Parts of a controller that opening a share needs.

    `known`: keys of which something is remembered; `forget` drops that.
    """

    def __init__(
        self,
        control: Control,
        *,
        wakes: Sequence[Wake],
        mirror_of: Callable[[Any], Mirror[Any]],
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
        """Drop what is remembered of these keys: others have written meanwhile."""
        for key in [key for key in self._known() if is_mine(key)]:
            self._forget(key)

    async def enqueue_all(self, is_mine: Callable[[Key], bool]) -> None:
        """All keys that there are, of these; as if each object had just been seen.

        Wakes that only enqueue objects which are there (`Control.wakes_always`) add none to those.
        """
        for first in filter(is_mine, self._control.at_start):
            self._queue.add(first)
        count = 0
        for wake in self._wakes:
            if not self._control.wakes_always(wake):
                continue
            for view in self._mirror_of(wake.on).values():
                count += 1
                if count % SLICE == 0:
                    await asyncio.sleep(0)
                change = Change(Key(view.namespace, view.name), view, view)
                for key in wake.keys(change, self._around):
                    plain = key.key if isinstance(key, Later) else key
                    if is_mine(plain):
                        self._queue.add(plain)


class SharedKeys:
    """Belongs to one operator. `executor_over` makes an executor whose writes leave while a fence holds."""

    def __init__(self, *, keying: Keying, executor_over: Callable[[Fence], Executor]) -> None:
        self._keying = keying
        self._executor_over = executor_over
        self._kinds: dict[str, SharedKind] = {}
        self._shares: dict[int, Share] = {}

    def add(self, name: str, kind: SharedKind) -> None:
        """A controller that works on shared keys."""
        self._kinds[name] = kind

    def slot_of(self, name: str, key: Key) -> int:
        """The slot of a controller's key."""
        return slot_of(name, key, keying=self._keying)

    def is_open(self, name: str, key: Key) -> bool:
        """Whether this controller may work on the key here, now."""
        share = self._shares.get(self.slot_of(name, key))
        return share is not None and name in share.open

    def executor_of(self, name: str, key: Key) -> Executor:
        """Executor that writes for the key. Raises NotLeadingError when its slot is not held any more."""
        share = self._shares.get(self.slot_of(name, key))
        if share is None:
            raise NotLeadingError(f"{name} {key}: its slot is not held here any more")
        return share.executor

    def guarded(self, name: str, turn: Turn) -> Turn:
        """The turn, of keys that are open; others are dropped."""

        async def guarded(key: Key) -> float | None:
            share = self._shares.get(self.slot_of(name, key))
            if share is None or name not in share.open:
                return None
            return await share.run(turn(key))

        return guarded

    def take(self, number: int, fence: Fence) -> Share:
        """A slot is held from now on; its kinds are still to be opened."""
        share = self._shares[number] = Share(number, self._executor_over(fence))
        return share

    async def open(self, share: Share, name: str) -> None:
        """A controller works on the keys of this slot from now on."""
        kind = self._kinds[name]

        def is_mine(key: Key) -> bool:
            return self.slot_of(name, key) == share.number

        kind.forget(is_mine)
        share.open.add(name)
        await kind.enqueue_all(is_mine)

    def drop(self, share: Share) -> None:
        """The slot is not held any more."""
        share.cut()
        if self._shares.get(share.number) is share:
            del self._shares[share.number]
