"""Places for concurrent work, divided fairly between the plans that wait for one.

chain ──acquire(plan)──▶ FairPlaces ──▶ its writes ──release(plan)──▶ the next chain, perhaps of another plan

A plan alone can use all places. While chains of several plans wait, a free place goes to the plan that holds the fewest
places; plans that hold equally many take turns. So plans that wait soon hold equal numbers of places. If plans only
took turns, a plan with slow writes, for example because of a webhook, would soon hold almost all places, because it
keeps each one for longer.

A place that is in use is never taken back. So a plan that starts while all places are in use waits for the first chain
that ends.
"""

import asyncio
from collections import deque
from collections.abc import Hashable

__all__ = ["FairPlaces"]


class FairPlaces:
    """A number of places. Only one event loop may use them."""

    def __init__(self, count: int) -> None:
        self._free = count
        """Number of free places; 0 while a chain waits."""
        self._held: dict[Hashable, int] = {}
        """Plan -> number of its places."""
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """Plan -> its waiting chains, first come, first served. A plan that gets a place moves to the end."""

    async def acquire(self, plan: Hashable) -> None:
        """Wait for a place of the plan. Waiting can be cancelled."""
        if self._free:
            self._free -= 1
            self._held[plan] = self._held.get(plan, 0) + 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(plan, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the place was given and the chain was cancelled at the same time
                self.release(plan)
            raise

    def release(self, plan: Hashable) -> None:
        """Give back a place of the plan."""
        held = self._held.pop(plan) - 1
        if held:
            self._held[plan] = held
        while self._waiting:
            following = min(self._waiting, key=self._count_held)
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns
            if not turn.cancelled():
                self._held[following] = self._count_held(following) + 1
                turn.set_result(None)
                return
        self._free += 1

    def _count_held(self, plan: Hashable) -> int:
        return self._held.get(plan, 0)
