"""Runs all built-in controllers of a cluster in one Operator (runtime/operator.py).

client, pods, nodes ──▶ Controllers ──▶ Operator ──▶ caches, event recorders, a controller for each Work
"""

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.resources import Resource
from pykruise.runtime.assemble import Tuning, views_of
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Operator
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import SandboxPodView

if TYPE_CHECKING:
    from pykruise.runtime.operator import Work


_STATUS_PER_S = 1e9
"""Practically no limit: statuses are written at every change, as by Kubernetes' own controllers."""


class Controllers:
    """All built-in controllers, or those with these `names`. They work from `run()` until `stop()`.

    `pods` (with POD_VIEWS) and `nodes` (with NODE_VIEWS) are caches that the cluster runs.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pods: Cache[SandboxPodView],
        nodes: Cache[SandboxNodeView],
        names: Collection[str] | None = None,
    ) -> None:
        known = {work.control.name: work for work in (_load_works() if names is None or names else ())}
        if unknown := set(names or ()) - known.keys():
            raise ValueError(f"no such controllers: {', '.join(sorted(unknown))}")
        self.client = client
        """Client of all controllers."""
        works = [work for name, work in known.items() if names is None or name in names]
        self._operator = Operator(
            client,
            works,
            # Every controller waits for all caches: a controller that starts earlier would see only some objects.
            shared=[views for work in works for views in views_of(work.control, None)],
            borrowed={POD_VIEWS: pods, NODE_VIEWS: nodes},
            tuning=Tuning(status_per_s=_STATUS_PER_S),
            reports_ready=False,
            clock=clock,
            rng=rng,
            # The limit on measured CPU time is off, because runs with equal seeds must be equal.
            cpu_time=skip_measuring,
        )

    def mirror(self, resource: Resource) -> Cache[DocumentView] | None:
        """The controllers' cache of this resource, for other readers; None if no controller uses the resource."""
        return self._operator.sources.by_resource.get(resource)

    async def run(self) -> None:
        """Run until `stop()` or cancellation."""
        if not self._operator.is_stopping:  # stop() may have been called before the first step
            await self._operator.run()

    async def wait_synced(self) -> None:
        """Return when all caches are synced."""
        await self._operator.sources.wait_synced()

    async def stop(self) -> None:
        """Finish the writes in progress; then `run()` returns."""
        self._operator.stop()


def _load_works() -> "Sequence[Work]":
    """Import the controllers when a cluster runs one of them."""
    from pykruise.sandbox.controllers.known import WORK

    return WORK
