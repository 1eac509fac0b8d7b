"""The manager's webhooks in a simulation: replicas with their own caches, and networks with the manager's faults.

request ──▶ API server ──▶ build_reviewers() ──▶ one of the replicas ──Wire──▶ API server

The API server calls them in process, like the sandbox; their own reads and writes use the simulated network.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.gates import Gates
from pykruise.kinds.persistentpodstate.readers import CachedStates
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.podunavailablebudget.readers import CachedBudgets
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.sidecarset.readers import CachedSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.readers import CachedSpreads
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport, WrappedTransport
from pykruise.kube.clock import Clock
from pykruise.kube.resources import PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import StepReport
from pykruise.plans.review import Lookups, make_live_lookups
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.pods.settings import build_settings
from simulation.budget_rules import REVIEW, Review

__all__ = ["Webhooks"]

NAMESPACE = "kruise-system"


class _Later(WrappedTransport):
    """A transport that is known only after the cluster exists."""

    def __init__(self) -> None:
        """Create it without a transport; `connect()` sets the transport later."""

    def connect(self, inner: Transport) -> None:
        """Set the transport."""
        self._inner = inner


class Webhooks:
    """Two replicas: each spreads pods, injects sidecars, checks budgets, or returns pods to their nodes. A random
    replica gets each request.

    `kind`: the plural of WorkloadSpreads, SidecarSets, PodUnavailableBudgets or PersistentPodStates.
    `wire(name, transport)` creates the connection to the API server; `versioned`: see the flag
    --ws-enabled-versioned-status. `revision()`: the current stored revision; `report` gets the reports of pod steps.
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
        report: Callable[[str, StepReport], None],
    ) -> None:
        self._kind = kind
        self._gates = gates if kind == POD_UNAVAILABLE_BUDGETS.plural else Gates()
        self._revision = revision
        self._report = report
        self._versioned = tuple(versioned)
        self._budgets: list[CachedBudgets] = []
        self._wires: list[Any] = []
        self._laters: dict[str, _Later] = {}
        self._rng = branch()
        self._clients: list[Client] = []
        self._spreads: list[CachedSpreads] = []
        self._sidecars: list[CachedSidecars] = []
        self._states: list[CachedStates] = []
        for number in (1, 2):
            name = f"webhook-{number}"
            later = self._laters[name] = _Later()
            self._wires.append(wire(name, later))
            client = Client(self._wires[-1], clock=clock, rng=branch())
            self._clients.append(client)
            common: dict[str, Any] = {"namespace": NAMESPACE, "clock": clock}
            self._spreads.append(CachedSpreads(client, **common, rng=branch()))
            self._sidecars.append(CachedSidecars(client, **common, rng=branch()))
            if kind == PERSISTENT_POD_STATES.plural:
                self._states.append(CachedStates(client, **common, rng=branch()))
            if kind == POD_UNAVAILABLE_BUDGETS.plural:
                self._budgets.append(CachedBudgets(client, clock=clock, rng=branch()))
        self._clock = clock

    def rules(self) -> tuple[ReviewRule, ...]:
        """Rules by which the API server selects the requests that it sends."""
        if self._kind == WORKLOAD_SPREADS.plural:
            return self._of_any(
                [self._rules(workloadspread=spread) for spread in self._spreads], self._any_of
            )
        if self._kind == POD_UNAVAILABLE_BUDGETS.plural:
            replicas = [self._rules(podunavailablebudget=budget) for budget in self._budgets]
            return self._of_any(replicas, self._any_noted)
        if self._kind == PERSISTENT_POD_STATES.plural:
            return self._rules(persistentpodstate=_AnyStates(self._rng, self._states))
        if self._kind == POD_PROBE_MARKERS.plural:
            return self._rules()
        if self._kind == CONTAINER_RECREATE_REQUESTS.plural:
            asked = make_live_lookups(lambda: self._rng.choice(self._clients), namespace=NAMESPACE)
            return self._reviewers(msgspec.structs.replace(asked, clock=self._clock))
        return self._rules(sidecarset=_AnySidecars(self._rng, self._sidecars))

    def _rules(self, **readers: Any) -> tuple[ReviewRule, ...]:
        return self._reviewers(Lookups(readers=readers, clock=self._clock))

    def _reviewers(self, lookups: Lookups) -> tuple[ReviewRule, ...]:
        context = ReviewContext(
            kind_settings=self._settings_of, lookups=lookups, report=self._report, rng=self._rng
        )
        return build_reviewers(make_admission_settings(self._gates), context)

    def _settings_of(self, kind: Kind) -> Any:
        return build_settings(
            kind.settings,
            gates=self._gates.__getitem__,
            flags={"ws-enabled-versioned-status": self._versioned},
        )

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
        tasks = [asyncio.get_running_loop().create_task(cache.run()) for cache in caches]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    def _of_any(
        self,
        replicas: Sequence[tuple[ReviewRule, ...]],
        any_of: Callable[[Sequence[Reviewer]], Reviewer],
    ) -> tuple[ReviewRule, ...]:
        """One of the replicas reviews each request."""
        return tuple(
            msgspec.structs.replace(same[0], reviewer=any_of([rule.reviewer for rule in same]))
            for same in zip(*replicas, strict=True)
        )

    def _any_of(self, replicas: Sequence[Reviewer]) -> Reviewer:
        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            return await self._rng.choice(replicas)(request)

        return review

    def _any_noted(self, replicas: Sequence[Reviewer]) -> Reviewer:
        """The same, and the knowledge of the replica is recorded."""

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            number = self._rng.randrange(len(replicas))
            if request.resource == PODS:
                operation = "EVICT" if request.subresource == "eviction" else request.operation
                REVIEW.set(Review(operation, request.name, self._revision(), self._known(number)))
            return await replicas[number](request)

        return review

    def _known(self, number: int) -> int:
        """The API server's revision of budgets that a replica's cache shows."""
        held = [
            version - 1
            for path, version in self._wires[number].held.items()
            if path.endswith(POD_UNAVAILABLE_BUDGETS.plural)
        ]
        return min([self._budgets[number].cache.read_stats().position, *held])


class _AnySidecars:
    """SidecarSets as the chosen replica knows them."""

    def __init__(self, rng: random.Random, all_of_them: Sequence[CachedSidecars]) -> None:
        self._rng = rng
        self._all = all_of_them

    async def list_sidecar_sets(self) -> Sequence[Any]:
        return await self._rng.choice(self._all).list_sidecar_sets()

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return await self._rng.choice(self._all).read_namespace_labels(name)

    async def list_revisions(self, name: str) -> Sequence[Any]:
        return await self._rng.choice(self._all).list_revisions(name)

    async def read_whitelist(self) -> str | None:
        return await self._rng.choice(self._all).read_whitelist()


class _AnyStates:
    """PersistentPodStates as the chosen replica knows them."""

    def __init__(self, rng: random.Random, all_of_them: Sequence[CachedStates]) -> None:
        self._rng = rng
        self._all = all_of_them

    async def list_states(self, namespace: str) -> Sequence[Any]:
        return await self._rng.choice(self._all).list_states(namespace)

    async def is_supported(self, kind: GroupKind | None) -> bool:
        return await self._rng.choice(self._all).is_supported(kind)
