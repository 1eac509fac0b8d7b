"""Hooks take part in the turns of a StatefulSet's pods, in order and in parallel: nothing is stuck for good."""

import pytest

from pykruise.kube.resources import PODS
from pykruise.pods.view import keys
from support.scenario import Stage, rolling
from support.statefulsets import Sets, in_place, watching

HOOK = "example.com/hook"
BOTH = pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


def hook(turn: str, **fields: bool) -> dict[str, object]:
    return {turn: {"labelsHandler": {HOOK: "1"}, **fields}}


def hooked_template(image: str = "nginx:1") -> dict[str, object]:
    """A template whose pods are created with the hook's label."""
    return {
        "metadata": {"labels": {"app": "web", HOOK: "1"}},
        "spec": {
            "containers": [{"name": "main", "image": image}],
            "readinessGates": [{"conditionType": keys.IN_PLACE_READY}],
        },
    }


async def state_is(sets: Sets, number: int, state: str) -> None:
    async def is_there() -> bool:
        pod = (await sets.pods()).get(number)
        return pod is not None and pod.state == state

    await sets.until(is_there, what=f"pod {number} in {state}")


@pytest.mark.node
@BOTH
async def test_pods_are_held_before_and_after_their_update(stage: Stage, sets: Sets, parallel: bool) -> None:
    """statefulset case 59"""
    # given
    await stage.start_manager()
    await sets.create(
        replicas=2,
        parallel=parallel,
        lifecycle=hook("inPlaceUpdate"),
        template=hooked_template(),
        updateStrategy=in_place(),
    )
    await sets.settled(replicas=2)
    before = await sets.uids()
    async with watching(stage) as seen:
        seen.from_now(0, 1)
        # when
        await sets.change(template=hooked_template("nginx:2"))
        for number in (1, 0):
            # then each one waits for its hook to be taken off
            await state_is(sets, number, "PreparingUpdate")
            assert (await sets.images())[0] == "nginx:1"
            await sets.label(f"web-{number}", {HOOK: None})
            # and after the update for it to come back
            await state_is(sets, number, "Updated")
            await sets.label(f"web-{number}", {HOOK: "1"})
        await sets.settled(replicas=2)
        assert seen.most_down == 1
    assert await sets.uids() == before
    assert set((await sets.images()).values()) == {"nginx:2"}


@pytest.mark.node
@BOTH
async def test_a_pre_delete_hook_holds_pods_before_their_deletion(
    stage: Stage, sets: Sets, parallel: bool
) -> None:
    """statefulset case 56 and 58"""
    # given
    await stage.start_manager()
    await sets.create(replicas=3, parallel=parallel, lifecycle=hook("preDelete"), template=hooked_template())
    await sets.settled(replicas=3)
    # when
    await sets.scale(1)
    for number in (2, 1):
        # then each waits, in order
        await state_is(sets, number, "PreparingDelete")
        if not parallel:
            assert (await sets.pods())[1].state == ("Normal" if number == 2 else "PreparingDelete")
        await sets.label(f"web-{number}", {HOOK: None})
    await sets.settled(replicas=1)


@pytest.mark.node
@BOTH
async def test_a_pod_that_is_wanted_again_returns_to_normal(stage: Stage, sets: Sets, parallel: bool) -> None:
    """statefulset case 61"""
    # given a pod that waits for its deletion
    await stage.start_manager()
    await sets.create(replicas=2, parallel=parallel, lifecycle=hook("preDelete"), template=hooked_template())
    await sets.settled(replicas=2)
    before = await sets.uids()
    await sets.scale(1)
    await state_is(sets, 1, "PreparingDelete")
    # when
    await sets.scale(2)
    # then
    await state_is(sets, 1, "Normal")
    await sets.settled(replicas=2)
    assert await sets.uids() == before


@pytest.mark.node
@BOTH
async def test_new_pods_wait_for_their_hook(stage: Stage, sets: Sets, parallel: bool) -> None:
    """statefulset case 62"""
    # given
    await stage.start_manager()
    await sets.create(replicas=2, parallel=parallel, lifecycle=hook("preNormal"))
    await state_is(sets, 0, "PreparingNormal")
    # then the set says what it waits for

    async def says_why() -> bool:
        result = await sets.condition("Waiting")
        return result is not None and result["reason"] == "PreNormalHook"

    await sets.until(says_why)
    assert sorted(await sets.pods()) == ([0, 1] if parallel else [0])
    # when
    for number in (0, 1):
        await state_is(sets, number, "PreparingNormal")
        await sets.label(f"web-{number}", {HOOK: "1"})
    # then
    await sets.settled(replicas=2)


@pytest.mark.node
@BOTH
async def test_a_rollout_reverted_while_a_pod_prepares_returns_it_to_normal(
    stage: Stage, sets: Sets, parallel: bool
) -> None:
    """statefulset case 60"""
    # given
    await stage.start_manager()
    await sets.create(
        replicas=2,
        parallel=parallel,
        lifecycle=hook("inPlaceUpdate"),
        template=hooked_template(),
        updateStrategy=in_place(),
    )
    await sets.settled(replicas=2)
    before = await sets.uids()
    await sets.change(template=hooked_template("nginx:2"))
    await state_is(sets, 1, "PreparingUpdate")
    # when
    await sets.change(template=hooked_template("nginx:1"))
    # then
    await state_is(sets, 1, "Normal")
    await sets.settled(replicas=2)
    assert await sets.uids() == before


@pytest.mark.node
@BOTH
async def test_finalizers_hold_a_recreation(stage: Stage, sets: Sets, parallel: bool) -> None:
    # given pods with a finalizer that another program takes off when it has done its part
    finalizer = "example.com/drain"
    await stage.start_manager()
    template = hooked_template()
    template["metadata"] = {"labels": {"app": "web"}, "finalizers": [finalizer]}
    await sets.create(
        replicas=2,
        parallel=parallel,
        lifecycle={"preDelete": {"finalizersHandler": [finalizer]}},
        template=template,
        updateStrategy=rolling(partition=1),
    )
    await sets.settled(replicas=2)
    before = await sets.uids()
    # when
    await sets.set_image("nginx:2")
    await state_is(sets, 1, "PreparingDelete")
    await stage.merge("web-1", {"metadata": {"finalizers": None}}, resource=PODS)
    # then
    await sets.settled(replicas=2, updated=1)
    assert (await sets.uids())[0] == before[0]
    # so that the pods can be deleted at the end of the test
    for number in (0, 1):
        await stage.merge(f"web-{number}", {"metadata": {"finalizers": None}}, resource=PODS)
