"""A short run: some hundred invalid objects of all kinds, without the webhooks and through them."""

import asyncio
from collections import Counter

import pytest

from fuzz.hunt import hunt
from fuzz.mutants import mutants
from pykruise.kinds import list_kinds
from pykruise.kube.ids import Key
from support.busy_keys import busy_cluster

BATCH = 60


@pytest.mark.parametrize("reviewed", [False, True], ids=["past the webhooks", "through the webhooks"])
async def test_the_manager_settles_with_any_stored_objects(reviewed: bool) -> None:
    findings = await hunt(list(mutants(BATCH, seed=1)), reviewed=reviewed)
    assert findings.problems == []
    assert findings.stored > BATCH / 6


def test_every_kind_is_fuzzed() -> None:
    count = Counter(mutant.resource.kind for mutant in mutants(BATCH, seed=1))
    assert {kind.resource.kind for kind in list_kinds() if kind.versions} == set(count)


def test_the_same_seed_gives_the_same_objects() -> None:
    assert list(mutants(BATCH, seed=7)) == list(mutants(BATCH, seed=7))
    assert list(mutants(BATCH, seed=7)) != list(mutants(BATCH, seed=8))


async def test_the_hunt_detects_an_object_that_is_never_at_rest() -> None:
    """The hunt reports such an object. If it never did, the tests above would always pass."""
    async with busy_cluster(reviewed=False) as place:
        await asyncio.sleep(5)
        queue = next(
            controller.queue for controller in place.manager.controllers if controller.name == "nodeimage"
        )

        async def prod() -> None:
            while True:
                queue.add(Key("", "node-1"))
                await asyncio.sleep(0.1)

        prodding = asyncio.create_task(prod())
        busy = await place.busy_over(60)
        prodding.cancel()
        # then
        assert list(busy.above(per_s=1)) == ["NodeImage node-1"]
