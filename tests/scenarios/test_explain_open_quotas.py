"""`explain` of pods that a quota rejected does not ask for a change of the quota that has already happened."""

from pykruise.kinds.cloneset.kind import KIND
from pykruise.pods.reasons import Code
from support.scenario import Stage
from support.situations.documents import cloneset
from support.situations.world import World


async def test_pods_that_the_quota_allows_now_need_no_action(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    # given an update whose additional pod the quota has rejected for so long that the next attempt is far away
    await world.quota(pods="3")
    await world.put(cloneset(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}))
    await world.wait(40)
    await world.set_image("cloneset/web", "nginx:2")
    await world.wait(100)
    refused = await world.explained(KIND, "web")
    assert refused.cause == Code.QUOTA
    assert refused.waits[0].remedy.endswith(
        "or free resources that it counts; or set spec.updateStrategy.rollingUpdate.maxSurge to 0 and"
        " spec.updateStrategy.rollingUpdate.maxUnavailable to 1: one pod at a time is out of service"
    )
    assert refused.next[0].startswith("create pods: 1 pod is missing")
    # when
    await world.change("resourcequota/team", {"spec": {"hard": {"pods": "4"}}})
    await world.wait(1)
    # then
    allowed = await world.explained(KIND, "web")
    assert allowed.cause == Code.QUOTA
    assert allowed.waits[0].remedy == "no action is needed: the write is tried again"
    assert "ResourceQuota team has room for this now" in await world.text(allowed)
    # and at the next attempt the pod is created
    await stage.until(lambda: has_new_pod(world), what="a pod has the new image")


async def has_new_pod(world: World) -> bool:
    pods = await world.list("pod")
    return any(pod["spec"]["containers"][0]["image"] == "nginx:2" for pod in pods)
