"""`plan` and `explain` against a cluster, the sandbox or a real one: before, during and after a rollout."""

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.cli.insight.gates import parse_settings
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.plans.kind import Kind
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from support.daemonsets import Pool
from support.scenario import Stage, cloneset, rolling
from support.statefulsets import Sets, in_place, statefulset


async def test_a_change_is_planned_made_and_explained(stage: Stage) -> None:
    # given a CloneSet at rest
    strategy = rolling(maxUnavailable=1, partition=1, podUpdatePolicy="InPlaceIfPossible")
    await stage.start_manager()
    await stage.create(cloneset(replicas=3, updateStrategy=strategy))
    await stage.settled(replicas=3)
    names = {pod.name for pod in await stage.pods()}

    # when a change is planned
    changed = cloneset(replicas=3, image="nginx:2", updateStrategy=strategy)
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())

    # then it names two of the pods, one after the other, and nothing has happened
    fates = [fate for batch in said.batches for fate in batch.fates]
    assert [fate.do for fate in fates] == ["update in place"] * 2
    assert {fate.pod for fate in fates} < names
    assert list(said.ways.values()) == ["in place"]
    assert said.lowest_available == 2
    assert (await stage.status())["updatedReplicas"] == 3

    # and when it is made, just these are updated
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=3, updated=2)
    target = (await stage.status())["updateRevision"].rpartition("-")[2]
    assert {pod.name for pod in await stage.pods() if pod.revision == target} == {fate.pod for fate in fates}

    # and what is left is explained
    async def is_done() -> Explanation | None:
        key = Key(stage.namespace, "web")
        result = await read_and_explain(stage.client, key, now=stage.clock(), kind=CLONE_SET)
        return result if result.verdict == "done" else None

    explanation: Explanation = await stage.until(is_done, what="explain says done")
    assert explanation.cause == "Partition"
    assert set(explanation.waits[0].pods) == names - {fate.pod for fate in fates}


async def test_a_plan_names_the_budget_that_blocks_each_pod_and_the_manager_follows_it(stage: Stage) -> None:
    # given a CloneSet whose pods a PodUnavailableBudget protects, which lets none go
    settings = parse_settings("PodUnavailableBudgetUpdateGate=true")
    strategy = rolling(maxUnavailable=2, podUpdatePolicy="InPlaceIfPossible")
    await stage.start_manager(settings=settings)
    await stage.create(cloneset(replicas=3, image="nginx:1", updateStrategy=strategy))
    await stage.settled(replicas=3)
    budget = {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": "guard"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    await stage.create(budget, resource=POD_UNAVAILABLE_BUDGETS)

    async def is_kept(allowed: int) -> bool:
        stored = decode(await stage.client.get(POD_UNAVAILABLE_BUDGETS, stage.namespace, "guard"))
        status = stored.get("status") or {}
        return (status.get("totalReplicas"), status.get("unavailableAllowed")) == (3, allowed)

    async def said() -> Forecast:
        changed = cloneset(replicas=3, image="nginx:2", updateStrategy=strategy)
        return await forecast(
            stage.client, changed, namespace=stage.namespace, now=stage.clock(), settings=settings
        )

    await stage.until(lambda: is_kept(0), what="the budget is kept")

    # when a change is planned as that manager would carry it out, the budget holds all
    held = ", ".join(sorted(pod.name for pod in await stage.pods()))
    none = await said()
    assert not none.batches
    assert (
        f"waits for its turn: PodUnavailableBudget guard allows no more unavailable pods: {held}"
        in none.holds
    )

    # and with room for one, they go one after the other, whatever maxUnavailable says
    await stage.merge("guard", {"spec": {"maxUnavailable": 1}}, resource=POD_UNAVAILABLE_BUDGETS)
    await stage.until(lambda: is_kept(1), what="the budget lets one go")
    item = await said()
    assert [len(batch.fates) for batch in item.batches] == [1, 1, 1]
    assert item.lowest_available == 2

    # and when it is made while none may be disrupted, explain says what holds it, until one may
    await stage.merge("guard", {"spec": {"maxUnavailable": 0}}, resource=POD_UNAVAILABLE_BUDGETS)
    await stage.until(lambda: is_kept(0), what="the budget lets none go")
    await stage.set_image("web", "nginx:2")

    async def is_held() -> Explanation | None:
        key = Key(stage.namespace, "web")
        result = await read_and_explain(
            stage.client, key, now=stage.clock(), kind=CLONE_SET, settings=settings
        )
        return result if result.cause == "DisruptionBudget" else None

    explanation: Explanation = await stage.until(is_held, what="explain names the budget")
    assert ", ".join(sorted(explanation.waits[0].pods)) == held
    await stage.merge("guard", {"spec": {"maxUnavailable": 1}}, resource=POD_UNAVAILABLE_BUDGETS)
    await stage.settled(replicas=3, updated=3)


async def test_a_statefulset_is_planned_made_and_explained(stage: Stage) -> None:
    # given three pods at rest, of which one is to stay
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=3, updateStrategy=in_place(partition=1))
    await sets.settled(replicas=3)
    # when a change is planned
    changed = statefulset(replicas=3, image="nginx:2", updateStrategy=in_place(partition=1))
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    # then it names two of the pods, the highest first
    fates = [(fate.do, fate.pod) for batch in said.batches for fate in batch.fates]
    assert fates == [("update in place", "web-2"), ("update in place", "web-1")]
    # and when it is made, just these are updated, and what is left is explained
    await sets.set_image("nginx:2")
    await sets.settled(replicas=3, updated=2)
    assert await sets.images() == {0: "nginx:1", 1: "nginx:2", 2: "nginx:2"}
    result = await stage.until(lambda: done(stage, STATEFUL_SET), what="explain says done")
    assert (result.cause, result.waits[0].pods) == ("Partition", ("web-0",))


async def test_a_daemonset_is_planned_made_and_explained(stage: Stage, pool: Pool) -> None:
    # given a pod on each node, of which one is to stay
    strategy = rolling(rollingUpdateType="Standard", partition=1)
    await stage.start_manager()
    await pool.create(updateStrategy=strategy)
    await pool.settled()
    # when a change is planned
    changed = pool.daemonset(image="nginx:2", updateStrategy=strategy)
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    # then it names all pods but one, and what keeps that
    gone = [fate.pod for batch in said.batches for fate in batch.fates if fate.do == "delete"]
    assert len(gone) == len(pool.nodes) - 1
    (why,) = said.stays
    assert why.startswith("the partition allows no more")
    # and when it is made, just these are replaced
    await pool.set_image("nginx:2")
    await pool.settled(updated=len(pool.nodes) - 1)
    assert {pod.name for pod in await stage.pods()} & {*gone, *said.stays[why]} == set(said.stays[why])
    result = await stage.until(lambda: done(stage, DAEMON_SET), what="explain says done")
    assert result.cause == "Partition"


async def done(stage: Stage, workload: Kind) -> Explanation | None:
    """The explanation of `web` if its verdict is `done`; None: not yet."""
    key = Key(stage.namespace, "web")
    explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=workload)
    return explanation if explanation.verdict == "done" else None
