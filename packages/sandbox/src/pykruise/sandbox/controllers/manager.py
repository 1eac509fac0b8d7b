"""Runs all built-in controllers of a cluster: an Operator (runtime/operator.py) like any other.

client, pods, nodes ──▶ Controllers ──▶ Operator ──▶ caches, event recorders, a controller for each Work
"""

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import unmeasured
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
"""Statuses are written as often as they change, as Kubernetes' own controllers do."""


class Controllers:
    """All built-in controllers, or those of these `names`. Component: `run()` until `stop()`.

    `pods` (of POD_VIEWS) and `nodes` (of NODE_VIEWS) are caches that the cluster runs.
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
        known = {work.control.name: work for work in (_known() if names is None or names else ())}
        if unknown := set(names or ()) - known.keys():
            raise ValueError(f"no such controllers: {', '.join(sorted(unknown))}")
        self.client = client
        """Client of all controllers."""
        works = [work for name, work in known.items() if names is None or name in names]
        self._operator = Operator(
            client,
            works,
            # All wait for all caches: one that began earlier would see half of what there is.
            shared=[views for work in works for views in views_of(work.control, None)],
            borrowed={POD_VIEWS: pods, NODE_VIEWS: nodes},
            tuning=Tuning(status_per_s=_STATUS_PER_S),
            reports_ready=False,
            clock=clock,
            rng=rng,
            # Resting by measured CPU time is off: runs with equal seeds must be equal.
            cpu_time=unmeasured,
        )

    def mirror(self, resource: Resource) -> Cache[DocumentView] | None:
        """The mirror of a resource that one of them keeps, for others to read; it runs with them."""
        return self._operator.sources.by_resource.get(resource)

    async def run(self) -> None:
        """Work until `stop()` or until cancelled."""
        if not self._operator.is_stopping:  # it may have been stopped before its first step
            await self._operator.run()

    async def wait_synced(self) -> None:
        """Return when everything there is has been seen."""
        await self._operator.sources.wait_synced()

    async def stop(self) -> None:
        """Finish the writes under way; `run()` returns."""
        self._operator.stop()


def _known() -> "Sequence[Work]":
    """Loaded when a cluster runs one of them."""
    from pykruise.sandbox.controllers.known import WORK

    return WORK
