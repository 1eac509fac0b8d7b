"""Common base of the parts of simulated agents: watched objects, a queue of keys, and a reconcile for each key.

a cache of objects ──▶ queue ──▶ _sync(key), by workers ──▶ writes

If the API server does not serve these objects, the cache stays empty and nothing is done.
"""

import random
from abc import ABC, abstractmethod
from typing import Any

from pykruise.kube.cache.cache import Cache
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.ids import Key
from pykruise.kube.program.process import run_beside


class AgentPart(ABC):
    """A task of the agents of all simulated nodes. It works from `run()` until `stop()`."""

    def __init__(
        self, name: str, cache: Cache[Any], *, clock: Clock, rng: random.Random, workers: int = 32
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=rng)
        self._controller = Controller(
            name, self._sync, queue=self._queue, workers=workers, clock=clock, cpu_time=skip_measuring
        )

    async def run(self) -> None:
        """Work until `stop()` or until cancelled."""
        await run_beside(self._controller.run(), self._cache.run())

    async def stop(self) -> None:
        """Finish the writes in flight; then `run()` returns."""
        self._queue.close()
        await self._controller.stop()

    def wake_node(self, name: str) -> None:
        """Reconcile a node that is new, or has power again. Does nothing in a part whose keys are not nodes."""
        return

    def wake_all(self) -> None:
        """Enqueue all keys, because the scripted failures have changed."""
        return

    def note_containers(self, key: Key, uid: str) -> None:
        """Notice that containers of the pod were started or have ended."""
        return

    @abstractmethod
    async def _sync(self, key: Key) -> float | None:
        """Do all work that is due for the key. Return the seconds until more work is due; None if no work is left."""
