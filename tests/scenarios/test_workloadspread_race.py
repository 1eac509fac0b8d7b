"""However many pods come at once, through however many webhooks: no subset gets more than its maximum."""

import asyncio
from collections import Counter

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.resources import PODS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.daemonsets import Pool
from support.scenario import Stage
from support.spread_race import race
from support.spread_stage import Spread, noted_in
from support.spreads import NOW, subset


@pytest.mark.sandbox_only
@pytest.mark.parametrize("replicas", [1, 2, 3])
async def test_500_simultaneous_pods_fill_each_subset_exactly(replicas: int) -> None:
    # when
    result = await race(
        subset("a", 120),
        subset("b", 200),
        subset("c"),
        pods=500,
        at_once=64,
        replicas=replicas,
        clock=make_loop_clock(start=NOW),
    )
    # then
    assert result.pods == {"a": 120, "b": 200, "c": 180}
    assert result.missing == {"a": 0, "b": 0, "c": -1}
    # and places were noted many at once
    assert result.writes <= 0.2 * 500


async def test_while_a_workload_grows_and_shrinks_no_subset_has_too_many(stage: Stage, pool: Pool) -> None:
    # given
    spread = Spread(stage, pool)
    await spread.label_nodes()
    await stage.start_manager()
    await spread.create(CLONE_SETS, spread.subset("a", 8), spread.subset("b", 6), spread.subset("b2"))
    most: Counter[str] = Counter()

    def active() -> list[PodView]:
        return [pod for pod in cache.values() if pod.is_active]

    def watch(_: Change[PodView]) -> None:
        for name, count in Counter(noted_in(pod) for pod in active()).items():
            most[name] = max(most[name], count)

    cache = Cache(
        stage.client, PODS, project=project_pod, namespace=stage.namespace, clock=stage.clock, rng=stage.rng
    )
    cache.subscribe(watch)
    running = asyncio.create_task(cache.run())
    try:
        # when
        await spread.run(CLONE_SETS, 14)
        await stage.until(lambda: len(active()) == 14)
        for replicas in (3, 12, 5, 14):
            await spread.scale(CLONE_SETS, replicas)
            await stage.until(lambda wanted=replicas: len(active()) == wanted)  # type: ignore[misc]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # then
    assert most["a"] <= 8
    assert most["b"] <= 6
