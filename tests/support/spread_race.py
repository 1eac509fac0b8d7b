"""Many concurrent pods through several webhook replicas: for the race test and the bench.

race(pods=500, at_once=64, replicas=2) ──▶ Race: the nodes of the pods, writes of the status, CPU
"""

import asyncio
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from itertools import cycle
from typing import Any

import msgspec

from pykruise.admission.reviewers import ReviewContext, build_reviewers, steps_of_pods
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import build_crds
from pykruise.kinds.workloadspread.readers import CachedSpreads
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from pykruise.plans.review import Lookups
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.spreads import note, pod, spread

NAMESPACE = "default"


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a race."""

    pods: Counter[str]
    """Pods by subset; the empty name has those without a subset."""
    missing: dict[str, int]
    """Free slots by subset, from the status."""
    writes: int
    """Status writes that were sent, conflicts among them."""
    conflicts: int
    repeated: int
    """Creations that were rejected because of conflicts and retried."""
    cpu_s: float
    """CPU time of the whole process: API server, webhooks and client."""


def alternating(tables: list[tuple[ReviewRule, ...]]) -> list[ReviewRule]:
    """Rules that send the reviews to the replicas alternately."""

    def in_turn(asked: list[Reviewer]) -> Reviewer:
        turn = cycle(asked)

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            return await next(turn)(request)

        return review

    return [
        msgspec.structs.replace(rules[0], reviewer=in_turn([rule.reviewer for rule in rules]))
        for rules in zip(*tables, strict=True)
    ]


async def race(
    *subsets: dict[str, Any],
    pods: int,
    at_once: int,
    clock: Clock,
    replicas: int = 2,
    seed: int = 1,
) -> Race:
    """Create `pods` pods, `at_once` in parallel. Without subsets there is no WorkloadSpread."""
    rng = random.Random(seed)
    clients: list[Client] = []
    readers = [
        CachedSpreads(_Late(clients), namespace=NAMESPACE, clock=clock, rng=rng)  # type: ignore[arg-type]
        for _ in range(replicas)
    ]
    contexts = [
        ReviewContext(
            lookups=Lookups(readers={"workloadspread": reader}, clock=clock), rng=random.Random(number)
        )
        for number, reader in enumerate(readers)
    ]
    chains = [steps_of_pods(AdmissionSettings(), context) for context in contexts]
    rules = alternating(
        [
            build_reviewers(context=context, pods=chain)
            for context, chain in zip(contexts, chains, strict=True)
        ]
    )
    settings = ClusterSettings(nodes=1, collected=())  # the owner of the pods does not exist
    async with Cluster(settings, clock=clock, rng=rng, reviewers=rules) as cluster, AsyncExitStack() as stack:
        # A client of its own: the client that creates pods waits for its webhooks, which use this one.
        clients.append(cluster.make_client("webhooks"))
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        running = [asyncio.create_task(reader.run()) for reader in readers]
        stack.callback(lambda: [task.cancel() for task in running])
        if subsets:
            document = spread(*subsets)
            document["metadata"] = {"name": "ws"}
            await cluster.client.create(WORKLOAD_SPREADS, NAMESPACE, document)
        for reader in readers:
            await reader.objects.cache.wait_synced()
        places = asyncio.Semaphore(at_once)
        repeated = 0

        async def create(number: int) -> str:
            nonlocal repeated
            body = pod(f"p{number}", schedulingGates=[{"name": "example.com/wait"}])
            del body["metadata"]["namespace"]
            async with places:
                while True:
                    try:
                        matched = note(decode(await cluster.client.create(PODS, NAMESPACE, body)))
                        return matched.subset if matched is not None else ""
                    except ApiError as error:
                        if error.code != 500:
                            raise
                        repeated += 1  # as the workload's controller does

        before = time.process_time()
        placed = await asyncio.gather(*(create(number) for number in range(pods)))
        cpu_s = time.process_time() - before
        stats = [chain.shared["workloadspread"].allocator.read_stats() for chain in chains]
        return Race(
            pods=Counter(placed),
            missing=await _missing(cluster.client) if subsets else {},
            writes=sum(stat.writes for stat in stats),
            conflicts=sum(stat.conflicts for stat in stats),
            repeated=repeated,
            cpu_s=cpu_s,
        )


async def _missing(client: Client) -> dict[str, int]:
    result = decode(await client.get(WORKLOAD_SPREADS, NAMESPACE, "ws"))
    lists = (result.get("status") or {}).get("versionedSubsetStatuses") or {}
    return {entry["name"]: entry["missingReplicas"] for entries in lists.values() for entry in entries}


class _Late:
    """The cluster's client, which exists only after the reviewers."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients[0], name)
