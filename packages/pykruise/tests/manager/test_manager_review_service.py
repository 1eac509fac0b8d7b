"""The reviews of a manager: for each kind that takes part in pod admission, its reader runs."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykruise.admission.pods.chain import list_participants, list_pod_kinds
from pykruise.kinds import build_crds
from pykruise.kinds.gates import Gates
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.manager.review_service import ReviewService
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhook_metrics import WebhookMetrics
from support.paper import START
from support.sandbox import small_cluster


@asynccontextmanager
async def service(gates: Gates) -> AsyncIterator[ReviewService]:
    """The reviews of a manager with these gates, while their readers run."""
    async with small_cluster(nodes=0) as place:
        for crd in build_crds():
            await place.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        made = ReviewService(
            place.client,
            ManagerSettings(gates=gates),
            WebhookMetrics(),
            clock=make_loop_clock(start=START),
            rng=random.Random(1),
            narrows=False,
            over=tuple,
        )
        tasks = [asyncio.create_task(part) for part in made.list_parts().values()]
        try:
            async with asyncio.timeout(30):
                while made.list_problems():
                    await asyncio.sleep(0.1)
            yield made
        finally:
            for task in tasks:
                task.cancel()


async def test_every_kind_with_a_reader_has_one_over_caches_that_is_read() -> None:
    async with service(Gates.of(EnablePodProbeMarkerOnServerless=True)) as reviews:
        assert set(reviews.readers) == {
            kind.name for kind, steps in list_pod_kinds() if steps.reads is not None
        }
        assert all(reader.objects.find_known() is not None for reader in reviews.readers.values())
        assert len(reviews.list_caches()) == len(reviews.readers)


async def test_a_kind_that_is_off_is_not_read() -> None:
    gates = Gates.of(WorkloadSpread=False)
    async with service(gates) as reviews:
        assert "workloadspread" not in reviews.readers
        assert "workloadspread" not in {part.kind.name for part in list_participants(gates.__getitem__)}
