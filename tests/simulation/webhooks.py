"""The manager's webhooks in a simulation: replicas with caches of their own, over wires as bad as the manager's.

request ──▶ API server ──▶ reviewers() ──▶ one of the replicas ──Wire──▶ API server

They are asked in process, as the sandbox does it; what they read and write themselves goes over the wire.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from pykruise.admission.pods.budget import OnPrevented
from pykruise.admission.reviewers import reviewers
from pykruise.admission.settings import admission_settings
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.gates import Gates
from pykruise.kinds.persistentpodstate.readers import CachedStates
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.podunavailablebudget.readers import CachedBudgets
from pykruise.kinds.podunavailablebudget.spending import Budgeting
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.sidecarset.readers import CachedSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.assignment import Assignment, Spreading
from pykruise.kinds.workloadspread.readers import CachedSpreads, SpreadReader
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport, WrappedTransport
from pykruise.kube.clock import Clock
from pykruise.kube.control.quota import Quota
from pykruise.kube.resources import PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.review import Lookups, live_lookups
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from simulation.budget_rules import REVIEW, Review

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
    """Two replicas: each spreads pods, puts sidecars into them, asks budgets, or has pods come back to where they were;
    any of them is asked, by chance.

    `kind` is what they are there for: the plural of WorkloadSpreads, SidecarSets, PodUnavailableBudgets or
    PersistentPodStates.
    `wire(name, transport)` makes the way to the API server; `versioned`: see the flag --ws-enabled-versioned-status.
    `revision()` is what is stored now; `on_prevented` is called for each pod that a budget kept.
    """

    def __init__(
        self,
        kind: str,
        wire: Callable[[str, Transport], Transport],
        *,
        clock: Clock,
        branch: Callable[[], random.Random],
        versioned: Collection[str],
        gates: Gates,
        revision: Callable[[], int],
        on_prevented: OnPrevented,
    ) -> None:
        self._kind = kind
        self._gates = gates
        self._revision = revision
        self._on_prevented = on_prevented
        self._budgets: list[CachedBudgets] = []
        self._wires: list[Any] = []
        self._laters: dict[str, _Later] = {}
        self._rng = branch()
        self._clients: list[Client] = []
        self._spreads: list[CachedSpreads] = []
        self._spreadings: list[Spreading] = []
        self._sidecars: list[CachedSidecars] = []
        self._states: list[CachedStates] = []
        for number in (1, 2):
            name = f"webhook-{number}"
            later = self._laters[name] = _Later()
            self._wires.append(wire(name, later))
            client = Client(self._wires[-1], clock=clock, rng=branch())
            self._clients.append(client)
            common: dict[str, Any] = {"namespace": NAMESPACE, "clock": clock}
            spreads = CachedSpreads(client, **common, rng=branch())
            self._spreads.append(spreads)
            self._spreadings.append(Spreading(spreads, clock=clock, rng=branch(), versioned=versioned))
            self._sidecars.append(CachedSidecars(client, **common, rng=branch()))
            if kind == PERSISTENT_POD_STATES.plural:
                self._states.append(CachedStates(client, **common, rng=branch()))
            if kind == POD_UNAVAILABLE_BUDGETS.plural:
                self._budgets.append(CachedBudgets(client, clock=clock, rng=branch()))
        self._clock = clock

    def rules(self) -> tuple[ReviewRule, ...]:
        """For the API server."""
        spreading: Any = _AnySpreading(self._rng, self._spreadings)
        sidecars: Any = _AnySidecars(self._rng, self._sidecars)
        if self._kind == WORKLOAD_SPREADS.plural:
            return reviewers(clock=self._clock, rng=self._rng, spreading=spreading)
        if self._kind == POD_UNAVAILABLE_BUDGETS.plural:
            return self._budget_rules()
        if self._kind == PERSISTENT_POD_STATES.plural:
            states: Any = _AnyStates(self._rng, self._states)
            readers = {"persistentpodstate": states}
            return reviewers(clock=self._clock, rng=self._rng, lookups=Lookups(readers=readers))
        if self._kind == POD_PROBE_MARKERS.plural:
            return reviewers(clock=self._clock, rng=self._rng)
        if self._kind == CONTAINER_RECREATE_REQUESTS.plural:
            asked = live_lookups(lambda: self._rng.choice(self._clients), namespace=NAMESPACE)
            return reviewers(clock=self._clock, rng=self._rng, lookups=asked)
        return reviewers(clock=self._clock, rng=self._rng, lookups=Lookups(readers={"sidecarset": sidecars}))

    @contextmanager
    def running(self, connect: Callable[[str], Transport]) -> Iterator[None]:
        """Keep caches while the block runs."""
        for name, later in self._laters.items():
            later.connect(connect(name))
        caches: Sequence[Any] = self._budgets or self._states
        if self._kind == WORKLOAD_SPREADS.plural:
            caches = self._spreads
        elif self._kind == SIDECAR_SETS.plural:
            caches = self._sidecars
        tasks = [asyncio.get_running_loop().create_task(one.run()) for one in caches]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    def _budget_rules(self) -> tuple[ReviewRule, ...]:
        """Each request is reviewed by one of the replicas; what that knew then is noted."""
        replicas = [
            reviewers(
                admission_settings(self._gates),
                clock=self._clock,
                rng=self._rng,
                budgeting=Budgeting(one, clock=self._clock, rng=self._rng),
                on_prevented=self._on_prevented,
            )
            for one in self._budgets
        ]
        return tuple(
            msgspec.structs.replace(same[0], reviewer=self._any_of([one.reviewer for one in same]))
            for same in zip(*replicas, strict=True)
        )

    def _any_of(self, replicas: Sequence[Reviewer]) -> Reviewer:
        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            number = self._rng.randrange(len(replicas))
            if request.resource == PODS:
                operation = "EVICT" if request.subresource == "eviction" else request.operation
                REVIEW.set(Review(operation, request.name, self._revision(), self._known(number)))
            return await replicas[number](request)

        return review

    def _known(self, number: int) -> int:
        """Which version of budgets a replica's cache shows."""
        held = [
            version - 1
            for path, version in self._wires[number].held.items()
            if path.endswith(POD_UNAVAILABLE_BUDGETS.plural)
        ]
        return min([self._budgets[number].cache.stats().position, *held])


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


class _AnyStates:
    """PersistentPodStates as whichever replica is asked knows them."""

    def __init__(self, rng: random.Random, all_of_them: Sequence[CachedStates]) -> None:
        self._rng = rng
        self._all = all_of_them

    async def states(self, namespace: str) -> Sequence[Any]:
        return await self._rng.choice(self._all).states(namespace)

    async def is_supported(self, kind: GroupKind | None) -> bool:
        return await self._rng.choice(self._all).is_supported(kind)
