"""A sandbox with a manager, and counts of the reconciles and writes of each object, in virtual time.

async with busy_cluster(reviewed=False) as place:
    await place.create(CLONE_SETS, wild)
    quiet = await place.busy_over(60)   # number of reconciles and writes of each object in a virtual minute

Without reviews the server stores everything that the CRDs' schemas accept, like objects of an older version, or
objects that were written while no webhook responded.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.admission.pods.readers import make_live_readers
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.kinds import list_conversions
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.admission import ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.ids import Key
from pykruise.kube.resources import NAMESPACES
from pykruise.manager.manager import Manager
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE, ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import ReaderPlace
from pykruise.plans.review import make_live_lookups
from pykruise.sandbox.apiserver import ConversionFunctions
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.paper import START
from support.sandbox import Place
from support.stored_kinds import storage_with_kinds

__all__ = ["Busy", "BusyPlace", "busy_cluster"]

MANAGER = "system:serviceaccount:kruise-system:kruise-manager"
ALL_GATES = Gates.of(**dict.fromkeys(GATES, True))
STILL = KubeletSettings(lease_s=None, heartbeat_s=1e9)
AGENTS = make_simulated_agents(AgentTasks(pulls_ahead=True, recreates=True, probes=True))
"""Nodes that do the work of agents and, while nothing changes, write nothing."""


class Busy(msgspec.Struct, frozen=True):
    """Counts within a period."""

    seconds: float
    reconciles: Counter[tuple[str, Key]]
    """Number of reconciles by kind and object."""
    writes: Counter[str]
    """Number of writes by resource."""

    def above(self, per_s: float) -> dict[str, float]:
        """Objects that were reconciled more often, with their rates."""
        rates = {f"{kind} {key}": count / self.seconds for (kind, key), count in self.reconciles.items()}
        return {name: rate for name, rate in rates.items() if rate > per_s}


class _Counting:
    """Counts reconciles as a recorder of spans."""

    def __init__(self) -> None:
        self.reconciles = Counter[tuple[str, Key]]()
        self.writes = Counter[str]()

    @contextmanager
    def span(self, name: str, resource: Any, key: Any) -> Iterator[None]:
        """Count a reconcile or a write."""
        if name == "reconcile":
            self.reconciles[resource.kind, key] += 1
        elif name == "write":
            self.writes[f"{resource.kind} {key}"] += 1
        yield


class Tracebacks(logging.Handler):
    """Keeps log records that have a traceback, by its last line."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record if it has a traceback."""
        if record.exc_info:
            self.kept.append(f"{record.getMessage()}\n{logging.Formatter().formatException(record.exc_info)}")


class BusyPlace(Place):
    """A cluster with its manager."""

    def __init__(
        self, cluster: Cluster, manager: Manager, counting: _Counting, tracebacks: Tracebacks
    ) -> None:
        super().__init__(cluster)
        self.manager = manager
        self.tracebacks = tracebacks
        self._counting = counting

    async def busy_over(self, seconds: float) -> Busy:
        """Counts of the next seconds."""
        self._counting.reconciles.clear()
        self._counting.writes.clear()
        await asyncio.sleep(seconds)
        return Busy(seconds, self._counting.reconciles.copy(), self._counting.writes.copy())


@asynccontextmanager
async def busy_cluster(
    *,
    reviewed: bool,
    kinds: Sequence[Kind] | None = None,
    settings: ManagerSettings | None = None,
    seed: int = 1,
    nodes: int = 2,
    further: Sequence[ReviewRule] = (),
) -> AsyncIterator[BusyPlace]:
    """A running cluster and a manager of all kinds, or of `kinds`. `reviewed`: whether its webhooks are called;
    `further`: other webhooks."""
    clock, rng = make_loop_clock(start=START), random.Random(seed)
    cluster = Cluster(
        ClusterSettings(
            nodes=nodes,
            kubelet=STILL,
            agents=AGENTS,
            start_s=0.5,
            ready_s=0.5,
            stop_s=0.5,
            steady_watches=True,
        ),
        clock=clock,
        rng=rng,
        storage=await storage_with_kinds(START),
        reviewers=[*(_rules(lambda: cluster.review_client, clock, rng) if reviewed else ()), *further],
        conversions=ConversionFunctions(list_conversions()),
    )
    for name in (NAMESPACE, SECRETS_NAMESPACE):
        await cluster.client.create(NAMESPACES, "", {"metadata": {"name": name}})
    counting, tracebacks = _Counting(), Tracebacks()
    root = logging.getLogger("pykruise")
    root.addHandler(tracebacks)
    try:
        async with cluster:
            transport = MeteredTransport(cluster.make_transport(MANAGER))
            manager = Manager(
                Client(transport, clock=clock, rng=rng),
                settings=settings or ManagerSettings(gates=ALL_GATES),
                kinds=kinds,
                clock=clock,
                rng=rng,
                cpu_time=skip_measuring,
                oversees=False,
                span=counting.span,
            )
            running = asyncio.create_task(manager.run())
            try:
                yield BusyPlace(cluster, manager, counting, tracebacks)
            finally:
                manager.stop()
                await running
    finally:
        root.removeHandler(tracebacks)


def _rules(client: Callable[[], Client], clock: Any, rng: random.Random) -> list[ReviewRule]:
    """The manager's own webhooks."""
    place = ReaderPlace(client=client, namespace=NAMESPACE, clock=clock, rng=rng)
    readers = make_live_readers(list_pod_kinds(), place)
    return build_reviewers(
        AdmissionSettings(gates=ALL_GATES),
        ReviewContext(
            lookups=make_live_lookups(client, namespace=NAMESPACE, clock=clock, readers=readers), rng=rng
        ),
    )
