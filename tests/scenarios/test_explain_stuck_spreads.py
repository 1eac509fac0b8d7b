"""`pykruise explain` names the true cause of WorkloadSpreads that are stuck, each staged on a cluster."""

from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.workloadspread.kind import KIND as WORKLOAD_SPREAD
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, Resource
from support.daemonsets import Pool
from support.faults import Answer, FaultyTransport, patches
from support.golden import same_as
from support.remedies import each_case, each_way, follow_way
from support.scenario import Object, Stage
from support.spread_stage import Spread
from support.stuck import Stuck, explain_until

GOLDEN = Path(__file__).parent / "golden" / "explain" / "workloadspread"
TRAINING = Resource("example.org", "v1", "trainings", "Training")


@pytest.fixture
async def spread(stage: Stage, pool: Pool) -> Spread:
    """A spread over two zones of nodes."""
    spread = Spread(stage, pool)
    await spread.label_nodes()
    return spread


def adaptive(seconds: int) -> Object:
    return {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}}


async def running(spread: Spread, *subsets: Object, replicas: int = 4, **spec: Any) -> None:
    """A manager, a WorkloadSpread and its CloneSet."""
    await spread.stage.start_manager()
    await spread.create(CLONE_SETS, *subsets, **spec)
    await spread.run(CLONE_SETS, replicas)


async def close_zone_a(spread: Spread) -> None:
    for node in spread.pool.nodes[:2]:
        await spread.pool.cordon(node)


async def a_strict_subset_has_no_room(spread: Spread) -> None:
    await close_zone_a(spread)
    await running(spread, spread.subset("a", 2), spread.subset("b"))


async def pods_are_about_to_move_on(spread: Spread) -> None:
    await close_zone_a(spread)
    await running(spread, spread.subset("a", 2), spread.subset("b"), scheduleStrategy=adaptive(200))


async def a_subset_is_passed_over(spread: Spread) -> None:
    await close_zone_a(spread)
    await running(spread, spread.subset("a", 2), spread.subset("b"), scheduleStrategy=adaptive(2))
    await spread.settled(b=4)


async def the_last_subset_has_no_room(spread: Spread) -> None:
    await close_zone_a(spread)
    await running(spread, spread.subset("b", 2), spread.subset("a"), scheduleStrategy=adaptive(2))


async def the_workload_is_not_there(spread: Spread) -> None:
    await spread.stage.start_manager()
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"))


async def the_kind_is_not_listed(spread: Spread) -> None:
    with spread.stage.past_admission():
        await spread.create(TRAINING, spread.subset("a", 2), spread.subset("b"))


async def a_path_leads_nowhere(spread: Spread) -> None:
    filtered = {"replicasPathList": ["spec.workers"]}
    await running(spread, spread.subset("a", "50%"), spread.subset("b"), targetFilter=filtered)


async def a_patch_makes_no_pod(spread: Spread) -> None:
    # given it was written before its workload, so no API server could try it
    patch = {"spec": {"containers": [{"name": "extra"}]}}
    await running(spread, spread.subset("a", 2, patch=patch), spread.subset("b"))


async def pods_are_beyond_the_limit(spread: Spread) -> None:
    await running(spread, spread.subset("a", 4), spread.subset("b"))
    await spread.settled(a=4)
    await spread.stage.merge(
        "ws", {"spec": {"subsets": [spread.subset("a", 1), spread.subset("b")]}}, resource=WORKLOAD_SPREADS
    )


async def a_subset_was_removed(spread: Spread) -> None:
    await running(spread, spread.subset("a", 2), spread.subset("b"))
    await spread.settled(a=2, b=2)
    await spread.stage.merge("ws", {"spec": {"subsets": [spread.subset("a", 2)]}}, resource=WORKLOAD_SPREADS)


async def a_node_fits_no_subset(spread: Spread) -> None:
    # given pods that were there before, and a subset of a zone that no node is of
    await spread.stage.start_manager()
    await spread.run(CLONE_SETS, 4)
    await spread.stage.settled(replicas=4)
    await spread.create(CLONE_SETS, spread.subset("c", 2))


async def a_pod_did_not_come(spread: Spread) -> None:
    # given the status notes a pod that is never created
    stage = spread.stage
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"))
    noted = {"creatingPods": {"web-lost": "2026-01-01T00:00:00Z"}}
    entries = [{"name": "a", "replicas": 0, "missingReplicas": 1, **noted}]
    entries.append({"name": "b", "replicas": 0, "missingReplicas": -1})
    status = {"status": {"versionedSubsetStatuses": {"versionIgnored": entries}}}
    await stage.merge("ws", status, resource=WORKLOAD_SPREADS, subresource="status")
    await spread.run(CLONE_SETS, 0)
    await stage.start_manager()


async def costs_are_refused(spread: Spread) -> None:
    faulty = FaultyTransport(spread.stage.manager_transport())
    faulty.on(patches("/pods/"), lambda _: Answer(422, message="no costs here"))
    await spread.stage.start_manager(faulty)
    await spread.create(DEPLOYMENTS, spread.subset("a", 2), spread.subset("b"))
    await spread.run(DEPLOYMENTS, 3)


async def no_manager_runs(spread: Spread) -> None:
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"))
    await spread.run(CLONE_SETS, 0)


CASES = (
    Stuck(a_strict_subset_has_no_room, "Unschedulable", "set scheduleStrategy.type to Adaptive", ways=3),
    Stuck(
        pods_are_about_to_move_on,
        "Unschedulable",
        "is deleted, so that its workload creates it again in another subset",
        ways=2,
    ),
    Stuck(a_subset_is_passed_over, "Closed", "subset a is tried again"),
    Stuck(
        the_last_subset_has_no_room, "Unschedulable", "a is the last subset, whose pods always wait", ways=2
    ),
    Stuck(the_workload_is_not_there, "NoTarget", "CloneSet web does not exist", ways=2),
    Stuck(the_kind_is_not_listed, "Refused", "Training (example.org) is not on the white list", "refused"),
    Stuck(a_path_leads_nowhere, "Refused", "spec.workers: does not exist", "refused"),
    Stuck(a_patch_makes_no_pod, "Patch", "spec.subsets[0].patch.containers[0].image: Required value"),
    Stuck(pods_are_beyond_the_limit, "Surplus", "subset a has 4 pods for 1 place", "done"),
    Stuck(a_subset_was_removed, "NoSubset", "its subset b no longer exists"),
    Stuck(a_node_fits_no_subset, "NoSubset", "fits no subset", ways=0),
    Stuck(a_pod_did_not_come, "WriteFailed", "web-lost was admitted, but was not created", ways=0),
    Stuck(costs_are_refused, "WriteFailed", "no costs here", ways=0),
    Stuck(no_manager_runs, "NoManager", "check that the manager runs"),
)


async def explanation_of(stage: Stage, case: Stuck) -> Explanation:
    """The explanation, once it names the cause of all its pods."""

    def names_it(result: Explanation) -> bool:
        is_cause = (result.cause, result.verdict) == (case.cause, case.verdict)
        return is_cause and case.says in format_explanation(result, now=stage.clock())

    return await explain_until(stage, WORKLOAD_SPREAD, Key(stage.namespace, "ws"), names_it, within_s=90.0)


@pytest.mark.parametrize("case", each_case(CASES))
async def test_explain_names_the_true_cause(
    spread: Spread, stage: Stage, case: Stuck, request: pytest.FixtureRequest
) -> None:
    # given
    await case.stage_it(spread)
    # when
    said = format_explanation(await explanation_of(stage, case), now=stage.clock())
    # then
    assert case.says in said
    if request.config.getoption("--cluster") == "sandbox":
        same_as(GOLDEN / f"{case.stage_it.__name__}.txt", said, with_ages=False)


async def test_a_healthy_workload_spread_waits_for_nothing(spread: Spread, stage: Stage) -> None:
    await running(spread, spread.subset("a", 2), spread.subset("b"))
    await spread.settled(a=2, b=2)
    key = Key(stage.namespace, "ws")

    async def is_done() -> Explanation | None:
        explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=WORKLOAD_SPREAD)
        return explanation if explanation.verdict == "done" else None

    result = await stage.until(is_done)
    assert (result.waits, result.next) == ((), ())
    assert result.headline == "CloneSet web wants 4 pods; a 2/2, b 2"


async def test_explain_only_reads(spread: Spread, stage: Stage) -> None:
    # given
    await a_strict_subset_has_no_room(spread)
    reading = FaultyTransport(stage.client.transport)
    # when
    key = Key(stage.namespace, "ws")
    await read_and_explain(
        stage.client.replace_transport(reading), key, now=stage.clock(), kind=WORKLOAD_SPREAD
    )
    # then
    assert {request.method for request in reading.log} <= {"GET", "STREAM"}


@pytest.mark.virtual_time("as many as there are remedies")
@pytest.mark.parametrize(("case", "number"), each_way(CASES))
async def test_no_remedy_makes_pods_unavailable(
    spread: Spread, stage: Stage, case: Stuck, number: int
) -> None:
    # given
    await case.stage_it(spread)
    explanation = await explanation_of(stage, case)
    same_as(
        GOLDEN / f"{case.stage_it.__name__}.txt",
        format_explanation(explanation, now=stage.clock()),
        with_ages=False,
    )
    # when, then
    await follow_way(stage, WORKLOAD_SPREAD, Key(stage.namespace, "ws"), case, number, explanation)
