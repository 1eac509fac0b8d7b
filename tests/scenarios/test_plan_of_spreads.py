"""`pykruise plan` of WorkloadSpreads: the manager and admission do exactly what it has said."""

from pathlib import Path

import pytest

from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.plan import compute_exit_code, describe_forecast, plan_document
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document
from pykruise.kube.resources import DEPLOYMENTS, STATEFUL_SETS, Resource
from support.daemonsets import Pool
from support.faults import FaultyTransport
from support.golden import same_as
from support.scenario import Stage
from support.spread_stage import Spread, noted_in

GOLDEN = Path(__file__).parent / "golden" / "plan" / "workloadspread"


@pytest.fixture
async def spread(stage: Stage, pool: Pool) -> Spread:
    """A spread over two zones of nodes."""
    spread = Spread(stage, pool)
    await spread.label_nodes()
    return spread


async def plan(stage: Stage, doc: Document) -> Outlook:
    plan = await plan_document(stage.client, doc, namespace=stage.namespace, now=stage.clock())
    assert isinstance(plan, Outlook)
    return plan


def text_of(outlook: Outlook) -> str:
    return "\n".join(describe_forecast(outlook)) + "\n"


def golden(request: pytest.FixtureRequest, name: str, outlook: Outlook) -> None:
    """Compare the plan with its golden file, in the sandbox only, where all names are fixed."""
    if request.config.getoption("--cluster") == "sandbox":
        same_as(GOLDEN / f"{name}.txt", text_of(outlook))


async def run(spread: Spread, resource: Resource, replicas: int) -> None:
    """Start a manager, create a workload, and wait until its pods are ready: readiness decides which goes first."""
    await spread.stage.start_manager()
    await spread.run(resource, replicas)

    async def are_ready() -> bool:
        return sum(pod.is_ready for pod in await spread.running()) == replicas

    await spread.stage.until(are_ready)


@pytest.mark.parametrize("resource", [CLONE_SETS, DEPLOYMENTS], ids=lambda item: item.kind)
async def test_pods_are_adopted_as_planned(
    spread: Spread, stage: Stage, request: pytest.FixtureRequest, resource: Resource
) -> None:
    # given limits that allow all pods to stay on the nodes that a scheduler chose
    await run(spread, resource, 4)
    room = max(2, (await spread.where())["a"])
    doc = spread.spread(resource, spread.subset("a", room), spread.subset("b"))
    # when
    outlook = await plan(stage, doc)
    assert not await stage.exists("ws", resource=WORKLOAD_SPREADS)
    await stage.create(doc, resource=WORKLOAD_SPREADS)

    async def are_adopted() -> bool:
        return all(noted_in(pod) and pod.deletion_cost for pod in await stage.pods())

    await stage.until(are_adopted)
    # then
    golden(request, f"created-{resource.kind}", outlook)
    fates = {(fate.pod, fate.do) for batch in outlook.batches for fate in batch.fates}
    done = {(pod.name, f"adopt into subset {noted_in(pod)}") for pod in await stage.pods()}
    done |= {(pod.name, f"deletion cost none → {pod.deletion_cost}") for pod in await stage.pods()}
    assert fates == done
    assert (outlook.change, compute_exit_code([outlook])) == ("created", 2)


async def test_changed_limits_move_no_pods_and_change_costs(
    spread: Spread, stage: Stage, request: pytest.FixtureRequest
) -> None:
    # given
    await stage.start_manager()
    await spread.create(CLONE_SETS, spread.subset("a", 3), spread.subset("b"))
    await spread.run(CLONE_SETS, 4)
    await spread.settled(a=3, b=1)

    async def have_costs() -> bool:
        return all(pod.deletion_cost for pod in await stage.pods())

    await stage.until(have_costs)
    # when
    doc = spread.spread(CLONE_SETS, spread.subset("a", 1), spread.subset("b"))
    outlook = await plan(stage, doc)
    # then
    golden(request, "limits", outlook)
    assert tuple(map(str, outlook.fields)) == ("spec.subsets[a].maxReplicas: 3 → 1",)
    assert {fate.do for batch in outlook.batches for fate in batch.fates} == {"deletion cost 200 → -100"}
    assert "subset a would have 2 pods too many: no pod is moved" in outlook.notes
    assert outlook.new_pods == ("the next 10 to subset b, and so on",)


async def test_the_plan_lists_the_subsets_of_the_next_pods(spread: Spread, stage: Stage) -> None:
    # given
    await run(spread, CLONE_SETS, 0)
    doc = spread.spread(CLONE_SETS, spread.subset("a", 2), spread.subset("b", 3))
    # when
    outlook = await plan(stage, doc)
    # then
    assert outlook.new_pods == (
        "the next 2 to subset a",
        "then 3 to subset b",
        "then 5 to no subset, because all are full: the scheduler may place them anywhere, and so on",
    )


async def test_ordinals_decide_the_subsets_of_a_statefulset(
    spread: Spread, stage: Stage, request: pytest.FixtureRequest
) -> None:
    await run(spread, STATEFUL_SETS, 2)
    doc = spread.spread(STATEFUL_SETS, spread.subset("a", 4), spread.subset("b", 3), {"name": "else"})
    outlook = await plan(stage, doc)
    golden(request, "statefulset", outlook)
    assert outlook.new_pods == (
        "the next 2 to subset a",
        "then 3 to subset b",
        "then 5 to subset else, and so on",
    )


async def test_a_plan_for_a_missing_workload_is_possible(spread: Spread, stage: Stage) -> None:
    outlook = await plan(stage, spread.spread(CLONE_SETS, spread.subset("a", 2)))
    assert "CloneSet web does not exist yet: its pods are placed when they are created" in outlook.notes


async def test_an_unchanged_workload_spread_has_an_empty_plan(spread: Spread, stage: Stage) -> None:
    await stage.start_manager()
    subsets = (spread.subset("a", 2), spread.subset("b"))
    await spread.create(CLONE_SETS, *subsets)
    await spread.run(CLONE_SETS, 3)
    await spread.settled(a=2, b=1)

    async def is_nothing() -> bool:
        outlook = await plan(stage, spread.spread(CLONE_SETS, *subsets))
        return text_of(outlook) == f"WorkloadSpread {stage.namespace}/ws: nothing would change\n"

    await stage.until(is_nothing)


async def test_all_errors_of_admission_are_listed(spread: Spread, stage: Stage) -> None:
    bad = spread.spread(CLONE_SETS, spread.subset("a", "50.2%"), spread.subset("a"))
    outlook = await plan(stage, bad)
    assert (outlook.change, compute_exit_code([outlook])) == ("refused", 1)
    places = [error.partition(":")[0] for error in outlook.errors]
    assert sorted(places) == ["spec.subsets[0].maxReplicas", "spec.subsets[1].name"]


async def test_planning_writes_nothing(spread: Spread, stage: Stage) -> None:
    writing = FaultyTransport(stage.client.transport)
    doc = spread.spread(CLONE_SETS, spread.subset("a", 2))
    await plan_document(
        stage.client.replace_transport(writing), doc, namespace=stage.namespace, now=stage.clock()
    )
    written = [request for request in writing.log if request.method not in ("GET", "STREAM")]
    assert [request.query.get("dryRun") for request in written] == ["All"]
