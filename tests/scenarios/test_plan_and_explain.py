"""`plan` and `explain` against a cluster, the sandbox or a real one: before, during and after a rollout."""

from pykruise.cli.explain import explained
from pykruise.cli.insight.explaining import Explanation
from pykruise.cli.insight.forecasting import forecast
from pykruise.kube.ids import Key
from support.scenario import Stage, cloneset, rolling


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
        found = await explained(stage.client, Key(stage.namespace, "web"), now=stage.clock())
        return found if found.verdict == "done" else None

    found: Explanation = await stage.until(is_done, what="explain says done")
    assert found.cause == "Partition"
    assert set(found.waits[0].pods) == names - {fate.pod for fate in fates}
