"""The life of a StatefulSet: its pods come and go in order or at once, and are updated in every way there is."""

import pytest

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view import keys
from support.kstatus import other_conditions
from support.scenario import Stage, rolling
from support.statefulsets import Sets, claim_template, in_place, watching

pytestmark = pytest.mark.node


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


BOTH = pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])


@BOTH
async def test_a_set_grows_and_shrinks(stage: Stage, sets: Sets, parallel: bool) -> None:
    """statefulset case 1 and 2"""
    # given
    await stage.start_manager()
    async with watching(stage) as seen:
        # when
        await sets.create(replicas=3, parallel=parallel, volumeClaimTemplates=[claim_template()])
        shrinks = await sets.settled(replicas=3)
        # then its pods came in order, and the status says what there is
        assert parallel or seen.broken == []
        status = shrinks["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert status["labelSelector"] == "app=web"
        assert status["volumeClaims"] == [
            {"volumeClaimName": "data", "compatibleReplicas": 3, "compatibleReadyReplicas": 3}
        ]
        assert not other_conditions(status)
        # when it shrinks
        await sets.scale(1)
        await sets.settled(replicas=1)
        # then its claims stay, and the same ones are used again
        claims = {entry["metadata"]["uid"] for entry in await stage.stored(PERSISTENT_VOLUME_CLAIMS)}
        assert len(claims) == 3
        await sets.scale(3)
        await sets.settled(replicas=3)
        assert {entry["metadata"]["uid"] for entry in await stage.stored(PERSISTENT_VOLUME_CLAIMS)} == claims
        assert seen.ordinals == {0, 1, 2}


@BOTH
async def test_pods_are_recreated_from_the_highest_down(stage: Stage, sets: Sets, parallel: bool) -> None:
    # given
    await stage.start_manager()
    await sets.create(replicas=3, parallel=parallel)
    await sets.settled(replicas=3)
    before = await sets.uids()
    async with watching(stage) as seen:
        seen.from_now(0, 1, 2)
        # when
        await sets.set_image("nginx:2")
        await sets.settled(replicas=3)
        # then one at a time
        assert seen.restarted == [2, 1, 0]
        assert seen.most_down == 1
    assert not set(before.values()) & set((await sets.uids()).values())
    assert set((await sets.images()).values()) == {"nginx:2"}


@BOTH
async def test_pods_are_updated_in_place(stage: Stage, sets: Sets, parallel: bool) -> None:
    """statefulset case 46"""
    # given
    await stage.start_manager()
    await sets.create(replicas=3, parallel=parallel, updateStrategy=in_place())
    await sets.settled(replicas=3)
    before = await sets.uids()
    async with watching(stage) as seen:
        seen.from_now(0, 1, 2)
        # when
        await sets.set_image("nginx:2")
        result = await sets.settled(replicas=3)
        # then
        assert seen.restarted == [2, 1, 0]
        assert seen.most_down == 1
    pods = await sets.pods()
    assert {number: pod.uid for number, pod in pods.items()} == before
    assert {pod.containers[0].image for pod in pods.values()} == {"nginx:2"}
    assert {pod.labels[keys.REVISION_LABEL] for pod in pods.values()} == {result["status"]["updateRevision"]}
    assert result["status"]["currentRevision"] == result["status"]["updateRevision"]
    events = await stage.until(lambda: stage.events("SuccessfulUpdatePodInPlace"))
    assert sum(event["count"] for event in events) == 3


async def test_max_unavailable_limits_the_pods_updated_in_parallel(stage: Stage, sets: Sets) -> None:
    """statefulset case 37"""
    # given
    await stage.start_manager()
    await sets.create(replicas=6, parallel=True, updateStrategy=in_place(maxUnavailable=3, minReadySeconds=2))
    await sets.settled(replicas=6)
    async with watching(stage) as seen:
        seen.from_now(*range(6))
        # when
        await sets.set_image("nginx:2")
        await sets.settled(replicas=6)
        # then
        assert 1 < seen.most_down <= 3


async def test_a_partition_keeps_the_lowest_pods_and_a_lost_pod_is_recreated_at_its_revision(
    stage: Stage, sets: Sets
) -> None:
    """statefulset case 34"""
    # given
    await stage.start_manager()
    await sets.create(replicas=3, updateStrategy=rolling(partition=2))
    await sets.settled(replicas=3)
    # when
    await sets.set_image("nginx:2")
    await sets.settled(replicas=3, updated=1)
    # then
    assert await sets.images() == {0: "nginx:1", 1: "nginx:1", 2: "nginx:2"}
    # when two are deleted by hand
    uids = await sets.uids()
    for number in (0, 2):
        await stage.client.delete(PODS, stage.namespace, f"web-{number}")

    async def came_back() -> bool:
        now = await sets.uids()
        return all(now.get(number) not in (None, uids[number]) for number in (0, 2))

    await stage.until(came_back)
    await sets.settled(replicas=3, updated=1)
    # then
    assert await sets.images() == {0: "nginx:1", 1: "nginx:1", 2: "nginx:2"}
    # when the partition goes
    await sets.change(updateStrategy=rolling(partition=0))
    # then the rest follows
    await sets.settled(replicas=3)


async def test_on_delete_waits_for_a_deletion(stage: Stage, sets: Sets) -> None:
    """statefulset case 42"""
    # given
    await stage.start_manager()
    await sets.create(replicas=2, updateStrategy={"type": "OnDelete"})
    await sets.settled(replicas=2)
    # when
    await sets.set_image("nginx:2")
    await sets.settled(replicas=2, updated=0)

    # then it says what it waits for
    async def says_why() -> bool:
        result = await sets.condition("Waiting")
        return result is not None and result["reason"] == "OnDelete"

    await stage.until(says_why)
    # when one is deleted
    await stage.client.delete(PODS, stage.namespace, "web-1")
    # then
    await sets.settled(replicas=2, updated=1)
    assert await sets.images() == {0: "nginx:1", 1: "nginx:2"}


async def test_paused_updates_wait_and_new_pods_are_of_the_new_template(stage: Stage, sets: Sets) -> None:
    """statefulset case 41"""
    # given
    await stage.start_manager()
    await sets.create(replicas=2, parallel=True, updateStrategy=rolling(paused=True))
    await sets.settled(replicas=2)
    # when
    await sets.set_image("nginx:2", replicas=4)
    await sets.settled(replicas=4, updated=2)
    assert await sets.images() == {0: "nginx:1", 1: "nginx:1", 2: "nginx:2", 3: "nginx:2"}
    # when it goes on
    await sets.change(updateStrategy=rolling(paused=False))
    # then
    await sets.settled(replicas=4)


@BOTH
async def test_ordinals_are_reserved_and_released_during_a_rollout(
    stage: Stage, sets: Sets, parallel: bool
) -> None:
    """statefulset case 9, 12 and 36"""
    # given
    await stage.start_manager()
    await sets.create(replicas=4, parallel=parallel, updateStrategy=rolling(partition=1))
    await sets.settled(replicas=4)
    # when both happen at once
    await sets.set_image("nginx:2", reserveOrdinals=[1, "7-9"])
    await sets.settled(ordinals=[0, 2, 3, 4], updated=3)
    # then the partition counts ranks
    assert (await sets.images())[0] == "nginx:1"
    # when the number is released in the middle of the next rollout
    await sets.set_image("nginx:3", reserveOrdinals=None)
    await sets.settled(replicas=4, updated=3)
    # then
    assert await sets.images() == {0: "nginx:1", 1: "nginx:3", 2: "nginx:3", 3: "nginx:3"}


@BOTH
async def test_a_scale_down_and_a_rollout_run_together(stage: Stage, sets: Sets, parallel: bool) -> None:
    # given
    await stage.start_manager()
    await sets.create(replicas=5, parallel=parallel, updateStrategy=in_place())
    await sets.settled(replicas=5)
    before = await sets.uids()
    # when
    await sets.set_image("nginx:2", replicas=2)
    await sets.settled(replicas=2)
    # then
    assert await sets.images() == {0: "nginx:2", 1: "nginx:2"}
    assert await sets.uids() == {number: before[number] for number in (0, 1)}


async def test_a_pod_specified_for_deletion_is_recreated(stage: Stage, sets: Sets) -> None:
    """statefulset case 52"""
    # given
    await stage.start_manager()
    await sets.create(replicas=3, updateStrategy=rolling(partition=3))
    await sets.settled(replicas=3)
    await sets.set_image("nginx:2")
    before = await sets.uids()
    # when
    await sets.label("web-1", {keys.SPECIFIED_DELETE_LABEL: "true"})

    # then
    async def is_new() -> bool:
        return (await sets.uids()).get(1) not in (None, before[1])

    await stage.until(is_new)
    await sets.settled(replicas=3, updated=0)
    assert (await sets.images())[1] == "nginx:1"


async def test_priorities_decide_which_pod_is_updated_first(stage: Stage, sets: Sets) -> None:
    """statefulset case 43"""
    # given
    await stage.start_manager()
    weights = [
        {"weight": 80, "matchSelector": {"matchLabels": {"first": "1"}}},
        {"weight": 20, "matchSelector": {"matchLabels": {"second": "1"}}},
    ]
    strategy = rolling(unorderedUpdate={"priorityStrategy": {"weightPriority": weights}})
    await sets.create(replicas=4, parallel=True, updateStrategy=strategy)
    await sets.settled(replicas=4)
    await sets.label("web-0", {"first": "1"})
    await sets.label("web-1", {"second": "1"})
    async with watching(stage) as seen:
        seen.from_now(*range(4))
        # when
        await sets.set_image("nginx:2")
        await sets.settled(replicas=4)
        # then
        assert seen.restarted == [0, 1, 3, 2]


async def test_a_failed_pod_is_replaced_with_its_number(stage: Stage, sets: Sets) -> None:
    """statefulset case 18"""
    # given
    await stage.start_manager()
    await sets.create(replicas=2)
    await sets.settled(replicas=2)
    before = await sets.uids()
    # when
    await stage.merge("web-0", {"status": {"phase": "Failed"}}, resource=PODS, subresource="status")

    # then
    async def is_new() -> bool:
        return (await sets.uids()).get(0) not in (None, before[0])

    await stage.until(is_new)
    await sets.settled(replicas=2)
    assert (await sets.uids())[1] == before[1]


@pytest.mark.needs_admission
async def test_an_invalid_set_is_refused(sets: Sets) -> None:
    """statefulset case 77"""
    with pytest.raises(InvalidError) as refused:
        await sets.create(updateStrategy=rolling(maxUnavailable=2), reserveOrdinals=["5-2"])
    fields = {cause.field for cause in refused.value.causes}
    assert fields == {"spec.updateStrategy.rollingUpdate.maxUnavailable", "spec.reserveOrdinals[0]"}


async def test_deleting_the_set_takes_its_pods_and_leaves_its_claims(stage: Stage, sets: Sets) -> None:
    # given
    await stage.start_manager()
    await sets.create(replicas=2, volumeClaimTemplates=[claim_template()])
    await sets.settled(replicas=2)
    # when
    await sets.delete()

    # then
    async def is_gone() -> bool:
        there = await stage.exists("web", resource=ADVANCED_STATEFUL_SETS)
        return not there and not await stage.pods()

    await stage.until(is_gone)
    assert len(await stage.stored(PERSISTENT_VOLUME_CLAIMS)) == 2
