"""The memory of a manager follows the objects that exist, not the number of objects of the past."""

import random

import pytest

from bench.soak.__main__ import example_documents
from bench.soak.virtual import GATES, START
from pykruise.agent.simulated import make_simulated_agents
from pykruise.cli.playground import PlaygroundContents, start_playground
from pykruise.kinds import list_kinds
from pykruise.kube.cache import remembering
from pykruise.kube.clock import make_loop_clock
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage
from pykruise.sandbox.cluster import ClusterSettings
from support.past_objects import Counts, Generations, count_memory, find_growth

WARM = 2
"""Number of first generations, which load modules and fill tables, so that their memory does not count."""
COUNTED = 3
EVENTS_S = 3_700.0
"""Virtual seconds until the API server has deleted the events of a generation, and the manager has forgotten them."""


@pytest.mark.timeout(600)
async def test_nothing_in_memory_grows_with_the_number_of_past_objects_of_any_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a manager in a cluster with nodes, agents and webhooks
    monkeypatch.setattr(remembering, "_LEAST_SHARED", 8)
    documents = example_documents()
    kinds = {document["kind"] for document in documents}
    made_by_the_manager = {"NodeImage", "NodePodProbe", "PersistentPodState", "Pod"}
    assert {kind.resource.kind for kind in list_kinds()} - made_by_the_manager <= kinds
    counts: list[Counts] = []
    async with start_playground(
        ClusterSettings(nodes=6, agents=make_simulated_agents()),
        manager_settings=ManagerSettings(gates=GATES),
        clock=make_loop_clock(start=START),
        rng=random.Random(1),
        contents=PlaygroundContents(storage=MemoryStorage(history_events=1)),
        is_repeatable=True,
    ) as running:
        generations = Generations(running.client, documents, work_s=60.0, rest_s=EVENTS_S)
        # when generations of objects follow each other, each with names of its own
        for number in range(WARM + COUNTED):
            await generations.pass_one()
            running.cluster.raise_failure()
            if number >= WARM:
                counts.append(count_memory())
    # then
    growth = "".join(f"{name}: {values}\n" for name, values in find_growth(counts).items())
    assert growth == ""
