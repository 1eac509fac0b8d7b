"""Queue of plans, which use a processor: few at the same time, and one of each user.

user, plan ──▶ PlanQueue.run() ──waits for the user's previous plan, then for a place──▶ result of the plan

A plan simulates a rollout in a thread, which nothing can stop. So the plan of a user whose browser disconnects
continues, and keeps its place until its end. Otherwise a user who disconnects repeatedly would start threads without
limit.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class PlanQueue:
    """`at_once`: maximum number of plans at the same time."""

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._of_user: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of the users whose plans are computed or wait."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, user: str, plan: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Compute the plan when there is a place. Return its result, or raise its error. A plan that waits is dropped
        when its caller is cancelled.
        """
        own = self._of_user.setdefault(user, asyncio.Lock())
        await own.acquire()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            own.release()
            raise
        task = asyncio.create_task(plan())
        self._tasks.add(task)

        def end(done: asyncio.Task[T]) -> None:
            self._tasks.discard(done)
            self._places.release()
            own.release()
            if not done.cancelled():
                done.exception()  # otherwise asyncio logs the error of a plan without a caller

        task.add_done_callback(end)
        return await asyncio.shield(task)
