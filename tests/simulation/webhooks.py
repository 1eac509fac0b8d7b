"""The manager's webhooks in a simulation: replicas with caches of their own, over wires as bad as the manager's.

request ──▶ API server ──▶ reviewers() ──▶ one of the replicas ──Wire──▶ API server

They are asked in process, as the sandbox does it; what they read and write themselves goes over the wire.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pykruise.admission.reviewers import reviewers
from pykruise.kinds.sidecarset.readers import CachedSidecars
from pykruise.kinds.workloadspread.assignment import Assignment, Spreading
from pykruise.kinds.workloadspread.readers import CachedSpreads, SpreadReader
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import ReviewRule
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.quota import Quota
from pykruise.kube.transport import Transport, WrappedTransport
from pykruise.plans.review import Lookups

__all__ = ["Webhooks"]

NAMESPACE = "kruise-system"


class _Later(WrappedTransport):
    """A transport that is known only once the cluster is there."""

    def __init__(self) -> None:
        """Nothing to pass requests on to yet."""

    def connect(self, inner: Transport) -> None:
        """From now on there is."""
        self._inner = inner


class Webhooks:
    """Two replicas: each spreads pods and puts sidecars into them; any of them is asked, by chance.

    `kind` is what they are there for: the plural of WorkloadSpreads or of SidecarSets. `wire(name, transport)` makes
    the way to the API server; `versioned`: see the flag --ws-enabled-versioned-status.
    """

    def __init__(
        self,
        kind: str,
        wire: Callable[[str, Transport], Transport],
        *,
        clock: Clock,
        branch: Callable[[], random.Random],
        versioned: Collection[str],
    ) -> None:
        self._kind = kind
        self._laters: dict[str, _Later] = {}
        self._rng = branch()
        self._spreads: list[CachedSpreads] = []
        self._spreadings: list[Spreading] = []
        self._sidecars: list[CachedSidecars] = []
        for number in (1, 2):
            name = f"webhook-{number}"
            later = self._laters[name] = _Later()
            client = Client(wire(name, later), clock=clock, rng=branch())
            told: dict[str, Any] = {"namespace": NAMESPACE, "clock": clock}
            spreads = CachedSpreads(client, **told, rng=branch())
            self._spreads.append(spreads)
            self._spreadings.append(Spreading(spreads, clock=clock, rng=branch(), versioned=versioned))
            self._sidecars.append(CachedSidecars(client, **told, rng=branch()))
        self._clock = clock

    def rules(self) -> tuple[ReviewRule, ...]:
        """For the API server."""
        spreading: Any = _AnySpreading(self._rng, self._spreadings)
        sidecars: Any = _AnySidecars(self._rng, self._sidecars)
        if self._kind == WORKLOAD_SPREADS.plural:
            return reviewers(clock=self._clock, rng=self._rng, spreading=spreading)
        return reviewers(clock=self._clock, rng=self._rng, lookups=Lookups(readers={"sidecarset": sidecars}))

    @contextmanager
    def running(self, connect: Callable[[str], Transport]) -> Iterator[None]:
        """Keep caches while the block runs."""
        for name, later in self._laters.items():
            later.connect(connect(name))
        caches = self._spreads if self._kind == WORKLOAD_SPREADS.plural else self._sidecars
        tasks = [asyncio.get_running_loop().create_task(one.run()) for one in caches]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class _AnySpreading:
    """Spreading by whichever replica is asked."""

    def __init__(self, rng: random.Random, all_of_them: Sequence[Spreading]) -> None:
        self._rng = rng
        self._all = all_of_them

    @property
    def reader(self) -> SpreadReader:
        return self._rng.choice(self._all).reader

    @property
    def quota(self) -> Quota | None:
        return self._rng.choice(self._all).quota

    @property
    def assignment(self) -> Assignment:
        return self._rng.choice(self._all).assignment


class _AnySidecars:
    """SidecarSets as whichever replica is asked knows them."""

    def __init__(self, rng: random.Random, all_of_them: Sequence[CachedSidecars]) -> None:
        self._rng = rng
        self._all = all_of_them

    async def sidecar_sets(self) -> Sequence[Any]:
        return await self._rng.choice(self._all).sidecar_sets()

    async def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return await self._rng.choice(self._all).namespace_labels(name)

    async def revisions(self, name: str) -> Sequence[Any]:
        return await self._rng.choice(self._all).revisions(name)

    async def whitelist(self) -> str | None:
        return await self._rng.choice(self._all).whitelist()
