"""Whatever goes wrong between the manager and the API server, a StatefulSet ends up as wanted.

Every scenario makes a set of three, updates it and shrinks it while something is broken. Then: it converges, no
pod was made out of order, never were more wanted pods down than maxUnavailable allows, and nothing was made twice.
"""

import asyncio
import random
from collections.abc import Callable

import pytest

from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from support.common_faults import refused_for_a_while
from support.faults import (
    Answer,
    CutAfter,
    Delay,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    GoneAfter,
    Refuse,
    Request,
    conflict,
    patches,
    posts,
    too_many,
    watches,
    workload_writes,
)
from support.kills import Kill
from support.scenario import Object, Stage, rolling
from support.statefulsets import Order, Sets, claim_template, in_place, watching

SIZE = 3
WAYS: list[Object] = [
    {"parallel": False, "updateStrategy": rolling()},
    {"parallel": True, "updateStrategy": rolling(maxUnavailable=2)},
    {"parallel": False, "updateStrategy": in_place()},
    {"parallel": True, "updateStrategy": in_place(maxUnavailable=2)},
]
NAMES = ["in order", "in parallel", "in order, in place", "in parallel, in place"]

Prepare = Callable[[FaultyTransport], None]


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


def keeps_its_promises(seen: Order, way: Object) -> bool:
    """Whether no more pods were down than maxUnavailable and, with ordered management, none was created out of turn."""
    most = way["updateStrategy"]["rollingUpdate"].get("maxUnavailable", 1)
    return seen.most_down <= most and (way["parallel"] or seen.broken == [])


async def live_through(stage: Stage, prepare: Prepare, way: Object) -> set[str]:
    """Create, update and scale in the StatefulSet, with a manager whose transport has the faults of `prepare`; returns
    the uids of all pods."""
    sets = Sets(stage)
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty)
    async with watching(stage) as seen:
        await sets.create(replicas=SIZE, volumeClaimTemplates=[claim_template()], **way)
        await sets.settled(replicas=SIZE)
        assert way["parallel"] or seen.broken == []
        made = set(seen.uids)
        assert len(made) == SIZE
        seen.from_now(*range(SIZE))
        await sets.set_image("nginx:2")
        await sets.settled(replicas=SIZE)
        assert keeps_its_promises(seen, way)
        made |= seen.uids
        await sets.scale(SIZE - 1)
        await sets.settled(replicas=SIZE - 1)
        assert len(await stage.stored(PERSISTENT_VOLUME_CLAIMS)) == SIZE
        return made | seen.uids


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
async def test_nothing_is_broken_and_nothing_is_wasted(stage: Stage, way: Object) -> None:
    """Without faults, the scenario creates no unnecessary pod: the other tests compare with this."""
    made = await live_through(stage, lambda _faulty: None, way)
    is_in_place = "podUpdatePolicy" in way["updateStrategy"]["rollingUpdate"]
    assert len(made) == (SIZE if is_in_place else 2 * SIZE)


@pytest.mark.virtual_time("writes are rejected for a minute")
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("seed", range(4))
async def test_limits_hold_while_writes_to_some_pods_are_rejected(
    stage: Stage, way: Object, seed: int
) -> None:
    # given a StatefulSet, and an API server that rejects writes from now on
    sets = Sets(stage)
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    async with watching(stage) as seen:
        await sets.create(replicas=SIZE, **way)
        await sets.settled(replicas=SIZE)
        faulty.on(workload_writes("/pods"), refused_for_a_while(seed=seed))
        seen.from_now(*range(SIZE))
        # when it is updated twice
        await sets.set_image("nginx:2")
        await asyncio.sleep(30)
        await sets.set_image("nginx:3")
        await asyncio.sleep(45)
        await sets.set_image("nginx:4")
        # then it reaches its spec, and the limits were never exceeded
        await sets.settled(replicas=SIZE)
        assert keeps_its_promises(seen, way)


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("after", [0, 5])
@pytest.mark.parametrize(
    "path", ["/pods", "/statefulsets", "/controllerrevisions", "/persistentvolumeclaims"]
)
async def test_a_watch_is_cut_after_any_event(stage: Stage, path: str, after: int) -> None:
    cuts = (CutAfter(after), CutAfter(after))
    await live_through(stage, lambda faulty: faulty.on(watches(path), *cuts), WAYS[after % 4])


@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("number", [1, 7])
@pytest.mark.parametrize(
    "fault",
    [
        too_many(),
        Answer(500, takes_effect=True),
        Answer(503),
        DropRequest(),
        DropAnswer(),
        Refuse(),
        Delay(5.0, on_the_way_back=True),
    ],
    ids=lambda fault: repr(fault)[:60],
)
async def test_one_failing_write_does_not_disturb_the_rollout(
    stage: Stage, fault: object, number: int
) -> None:
    """The write with this number, and the eleventh write after it, meet the fault; the strategy varies."""
    places = {number, number + 11}
    count = 0

    def choose(_request: Request) -> object | None:
        nonlocal count
        count += 1
        return fault if count - 1 in places else None

    def prepare(faulty: FaultyTransport) -> None:
        faulty.on(workload_writes(), choose)  # type: ignore[arg-type]  # they are faults

    await live_through(stage, prepare, WAYS[number % 4])


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("number", [0, 3, 6, 9])
async def test_any_patch_conflicts(stage: Stage, number: int) -> None:
    faults = [None] * number + [conflict()]
    await live_through(stage, lambda faulty: faulty.on(patches(""), *faults), WAYS[number % 4])


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("seed", range(4))
async def test_random_faults_do_not_disturb_the_rollout(stage: Stage, seed: int) -> None:
    rng = random.Random(seed)
    faults: list[Callable[[], object]] = [
        lambda: None,
        lambda: Answer(500),
        lambda: Answer(500, takes_effect=True),
        too_many,
        DropAnswer,
        DropRequest,
        lambda: Delay(rng.uniform(0, 2), on_the_way_back=True),
    ]
    streams = [lambda: CutAfter(rng.randrange(8)), lambda: GoneAfter(rng.randrange(8))]

    def sometimes(chance: float, choices: list[Callable[[], object]]) -> Callable[[Request], object]:
        return lambda _request: rng.choice(choices)() if rng.random() < chance else None

    def prepare(faulty: FaultyTransport) -> None:
        faulty.on(workload_writes(), sometimes(0.25, faults))  # type: ignore[arg-type]  # they are faults
        faulty.on(watches(), sometimes(0.5, streams))  # type: ignore[arg-type]

    await live_through(stage, prepare, WAYS[seed])


async def test_a_creation_that_is_refused_is_reported_and_tried_again(stage: Stage, sets: Sets) -> None:
    """statefulset case 32"""
    # given a quota that is used up
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/pods"), lambda _: Answer(403, reason="Forbidden", message="exceeded quota: q"))
    await stage.start_manager(faulty)
    await sets.create(replicas=2)

    # then
    async def is_reported() -> bool:
        result = await sets.condition("FailedCreatePod")
        return result is not None and "exceeded quota" in result["message"]

    await sets.until(is_reported)
    (event,) = await stage.until(lambda: stage.events("FailedCreate"))
    assert event["type"] == "Warning"
    # and when it is raised, the pods come and the condition goes
    faulty.clear()
    await sets.settled(replicas=2)
    assert await sets.condition("FailedCreatePod") is None


async def test_an_existing_pod_with_the_same_name_is_not_a_failure(stage: Stage, sets: Sets) -> None:
    """statefulset case 33: a pod of another owner has the name; the set waits, and goes on when it is free"""
    # given
    occupant = {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}}
    await stage.create(occupant, resource=PODS)
    await stage.start_manager()
    # when
    await sets.create(replicas=1)

    async def has_tried() -> bool:
        result = await sets.condition("Waiting")
        return result is not None and result["reason"] == "NameTaken"

    await sets.until(has_tried)
    # then nothing is reported as failed, and once it is gone the pod is made
    await stage.client.delete(PODS, stage.namespace, "web-0")
    await sets.settled(replicas=1)
    assert await stage.events("FailedCreate") == []


# ── the manager is killed ────────────────────────────────────────────────────


@pytest.mark.checkered(8)
@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(24))
async def test_a_manager_killed_at_any_write_is_succeeded_by_another(
    stage: Stage, sets: Sets, at: int, takes_effect: bool
) -> None:
    # given a manager that is killed at that write of a creation or a rollout
    way = WAYS[at // 3 % 4]
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), kill)
    await stage.start_manager(faulty)
    async with watching(stage) as seen:
        await sets.create(replicas=SIZE, volumeClaimTemplates=[claim_template()], **way)

        async def created() -> bool:
            return kill.reached or (await sets.status()).get("availableReplicas") == SIZE

        await stage.until(created)
        if not kill.reached:
            await sets.settled(replicas=SIZE)
            seen.from_now(*range(SIZE))
        await sets.set_image("nginx:2")

        async def is_over() -> bool:
            status = await sets.status()
            done = (status.get("updatedReplicas"), status.get("availableReplicas")) == (SIZE, SIZE)
            return done and set((await sets.images()).values()) == {"nginx:2"}

        async def killed() -> bool:
            return kill.reached or await is_over()

        await stage.until(killed, what="the kill")
        await stage.kill_manager()
        # when
        await stage.start_manager()
        # then
        await sets.settled(replicas=SIZE)
        assert keeps_its_promises(seen, way)
        assert len(await stage.stored(PERSISTENT_VOLUME_CLAIMS)) == SIZE


async def test_two_managers_at_the_same_time_do_not_harm_each_other(stage: Stage, sets: Sets) -> None:
    """Without leader election both act; names, uids and versions make the result correct in the end."""
    # given
    await stage.start_manager()
    await stage.start_manager()
    # when
    await sets.create(replicas=3)
    await sets.settled(replicas=3)
    await sets.set_image("nginx:2")
    # then
    await sets.settled(replicas=3)
