"""Turns for work that uses a processor: few at the same time, and one of each user.

user, work ──▶ Turns.run() ──waits for the user's turn, then for a place──▶ result of the work

A simulation runs in a thread, which nothing can stop. So the work of a user who goes away continues, and keeps its
place until its end. Otherwise a user who asks and goes away again and again would start threads without limit.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Turns:
    """`at_once`: maximum number of works at the same time."""

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._of_user: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of the users who work or wait."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, user: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do the work when it is its turn. Return its result, or raise its error. A cancelled caller that still waits
        leaves the queue.
        """
        own = self._of_user.setdefault(user, asyncio.Lock())
        await own.acquire()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            own.release()
            raise
        task = asyncio.create_task(work())
        self._tasks.add(task)

        def end(done: asyncio.Task[T]) -> None:
            self._tasks.discard(done)
            self._places.release()
            own.release()
            if not done.cancelled():
                done.exception()  # nobody may be left who reads it

        task.add_done_callback(end)
        return await asyncio.shield(task)
