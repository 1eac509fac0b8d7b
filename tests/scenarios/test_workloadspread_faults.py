"""Whatever goes wrong between the manager and the API server: pods are spread in the end, and never too many."""

from collections.abc import Callable

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from support.daemonsets import Pool
from support.faults import (
    Answer,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    GoneAfter,
    TimeOut,
    conflict,
    patches,
    watches,
)
from support.scenario import Stage
from support.spread_stage import Spread

Prepare = Callable[[FaultyTransport], None]

STATUS = "/workloadspreads/ws/status"


def on_status(*faults: object) -> Prepare:
    return lambda faulty: faulty.on(patches(STATUS), *faults)  # type: ignore[arg-type]


def on_pods(*faults: object) -> Prepare:
    return lambda faulty: faulty.on(patches("/pods/"), *faults)  # type: ignore[arg-type]


FAULTS: dict[str, Prepare] = {
    "the status is changed by others": on_status(conflict(), conflict(), conflict()),
    "the status meets an error": on_status(Answer(500), Answer(503)),
    "the answer about the status is lost": on_status(DropAnswer(), DropAnswer()),
    "the status is not sent": on_status(DropRequest(), TimeOut()),
    "a cost meets an error": on_pods(Answer(500), Answer(500)),
    "the answer about a cost is lost": on_pods(DropAnswer(), DropAnswer()),
    "watches of pods expire": lambda faulty: faulty.on(watches("/pods"), GoneAfter(3), GoneAfter(5)),
    "watches of workloadspreads expire": lambda faulty: faulty.on(
        watches("/workloadspreads"), GoneAfter(1), GoneAfter(2)
    ),
}


@pytest.mark.few_on_real(4)
@pytest.mark.parametrize("prepare", FAULTS.values(), ids=FAULTS)
async def test_faults_delay_the_spread_and_do_not_change_it(
    stage: Stage, pool: Pool, prepare: Prepare
) -> None:
    # given
    spread = Spread(stage, pool)
    await spread.label_nodes()
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty)
    # when
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"))
    await spread.run(CLONE_SETS, 4)
    # then
    await spread.settled(a=2, b=2)

    async def have_costs() -> bool:
        return all(pod.deletion_cost for pod in await stage.pods())

    await stage.until(have_costs)
    await spread.scale(CLONE_SETS, 2)
    await spread.settled(a=2)
    assert faulty.faults_done


async def test_a_cost_that_cannot_be_written_is_reported(stage: Stage, pool: Pool) -> None:
    # given a manager that may not patch pods
    spread = Spread(stage, pool)
    await spread.label_nodes()
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(patches("/pods/"), lambda _: Answer(422, message="no"))
    await stage.start_manager(faulty)
    # when
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"))
    await spread.run(CLONE_SETS, 3)

    # then
    async def is_reported() -> bool:
        return bool(await stage.events("PatchPodDeletionCostFailed"))

    await stage.until(is_reported)

    # and the status goes on
    async def is_counted() -> bool:
        return await spread.status() == {"a": (2, 0), "b": (1, -1)}

    await stage.until(is_counted)
