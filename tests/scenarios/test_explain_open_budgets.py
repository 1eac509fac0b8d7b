"""`explain` of a write that a budget rejected does not ask for a change of the budget that has already happened."""

from pykruise.kinds.statefulset.kind import KIND
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.scenario import Stage
from support.situations.documents import budget, statefulset
from support.situations.world import World


async def test_a_write_that_the_budget_allows_now_needs_no_action(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    # given a budget that has rejected a write for so long that the next attempt is far away
    await world.put(statefulset())
    await world.wait(40)
    await world.put(budget(maxUnavailable=0))
    await world.wait(5)
    await world.set_image("statefulset/web", "nginx:2")
    await world.wait(100)
    refused = await world.explained(KIND, "web")
    assert refused.cause == Code.DISRUPTION_REFUSED
    assert "raise maxUnavailable of PodUnavailableBudget web" in refused.waits[0].remedy
    # when
    await world.set("podunavailablebudget/web", maxUnavailable=2)
    await world.wait(1)
    # then
    allowed = await world.explained(KIND, "web")
    assert (allowed.cause, allowed.phase) == (Code.DISRUPTION_REFUSED, Phase.PROGRESSING)
    assert allowed.waits[0].remedy == "no action is needed: the manager tries the write again"
    assert "the budget allows disruptions now" in await world.text(allowed)
    # and at the next attempt the write succeeds
    await stage.until(lambda: has_changed(world), what="a pod has the new image")


async def has_changed(world: World) -> bool:
    pods = await world.list("pod")
    return any(pod["spec"]["containers"][0]["image"] == "nginx:2" for pod in pods)
