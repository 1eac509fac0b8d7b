"""Whatever goes wrong between the manager and the API server, a DaemonSet ends up as wanted.

Every scenario creates a set on four nodes, updates it, and sends a node away, while something is broken. Then: it
converges, no node ever had more live pods than it may, never were more nodes without a serving pod than
maxUnavailable allows, and no pod was created that was not needed.
"""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from support.common_faults import WRITE_FAULTS, at_random, changes_of, the_writes
from support.daemonsets import Pool, Watcher, watching
from support.faults import (
    Answer,
    CutAfter,
    DropAnswer,
    Duplicate,
    FaultyTransport,
    GarbageAfter,
    GoneAfter,
    Request,
    Swap,
    TakeEffectLate,
    conflict,
    deletes,
    patches,
    posts,
    watches,
    workload_writes,
)
from support.kills import Kill
from support.scenario import Object, Stage, rolling

NODES = 4
STANDARD = rolling(maxUnavailable=1)
SURGE = rolling(maxUnavailable=0, maxSurge=1)
IN_PLACE = rolling(maxUnavailable=1, rollingUpdateType="InPlaceIfPossible")
KINDS = pytest.mark.parametrize(
    "strategy", [STANDARD, SURGE, IN_PLACE], ids=["standard", "surge", "in place"]
)

Prepare = Callable[[FaultyTransport], None]


def keeps_its_promises(seen: Watcher, strategy: Object) -> bool:
    """Whether no node had more than one pod (two with surge), and no more nodes were down than allowed."""
    block = strategy["rollingUpdate"]
    return seen.most_on_a_node <= 1 + block.get("maxSurge", 0) and seen.most_down <= block["maxUnavailable"]


async def live_through(stage: Stage, pool: Pool, prepare: Prepare, strategy: Object = STANDARD) -> set[str]:
    """Create and update the DaemonSet, and remove a node, with a manager whose transport has the faults of `prepare`;
    returns the uids of all pods."""
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty)
    async with watching(pool) as seen:
        await pool.create(updateStrategy=strategy)
        await pool.settled()
        assert len(seen.uids) == NODES
        made = set(seen.uids)
        seen.from_now()
        await pool.set_image("nginx:2")
        await pool.settled()
        assert keeps_its_promises(seen, strategy)
        made |= seen.uids
        await pool.taint(pool.nodes[0], "example.com/x:NoExecute")
        await pool.settled(nodes=NODES - 1)
        return made | seen.uids


@KINDS
async def test_nothing_is_broken_and_nothing_is_wasted(stage: Stage, pool: Pool, strategy: Object) -> None:
    """Without faults, the scenario creates no unnecessary pod: the other tests compare with this."""
    made = await live_through(stage, pool, lambda _faulty: None, strategy)
    assert len(made) == (NODES if strategy is IN_PLACE else 2 * NODES)


@pytest.mark.checkered
@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("after", [0, 1, 2, 5, 9, 13, 18])
@pytest.mark.parametrize("path", ["/pods", "/nodes", "/daemonsets", "/controllerrevisions"])
async def test_a_watch_is_cut_after_any_event(stage: Stage, pool: Pool, path: str, after: int) -> None:
    await live_through(stage, pool, lambda faulty: faulty.on(watches(path), CutAfter(after), CutAfter(after)))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after", [0, 5])
async def test_every_watch_is_cut_after_a_few_events(stage: Stage, pool: Pool, after: int) -> None:
    def cut(_request: Request) -> CutAfter:
        return CutAfter(after + 1)

    await live_through(stage, pool, lambda faulty: faulty.on(watches(), cut))


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("fault", [GoneAfter(3), GarbageAfter(3), Duplicate(4), Swap(4), Swap(9)], ids=repr)
async def test_a_faulty_pod_watch_does_not_disturb_the_rollout(
    stage: Stage, pool: Pool, fault: object
) -> None:
    await live_through(
        stage,
        pool,
        lambda faulty: faulty.on(watches("/pods"), fault),  # type: ignore[arg-type]  # it is a fault
    )


@pytest.mark.checkered
@pytest.mark.few_on_real(6)
@pytest.mark.parametrize("number", range(0, 12, 2))
@WRITE_FAULTS
async def test_one_failing_write_does_not_disturb_the_rollout(
    stage: Stage, pool: Pool, fault: object, number: int
) -> None:
    """The write with this number, and the eleventh write after it, meet the fault; the type of update varies."""
    strategy = (STANDARD, SURGE, IN_PLACE)[number // 2 % 3]
    await live_through(
        stage,
        pool,
        lambda faulty: faulty.on(workload_writes(), the_writes(number, number + 11, fault=fault)),
        strategy,
    )


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", [0, 2, 4, 6, 8, 10])
async def test_any_patch_or_deletion_conflicts(stage: Stage, pool: Pool, number: int) -> None:
    """daemonset case 59: the status too"""
    faults = [None] * number + [conflict()]
    await live_through(stage, pool, lambda faulty: faulty.on(changes_of("/daemonsets"), *faults))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("kind", [posts, patches, deletes])
async def test_all_writes_of_a_kind_lose_their_first_answer(
    stage: Stage, pool: Pool, kind: Callable[[str], Callable[[Request], bool]]
) -> None:
    known: set[tuple[str, str, bytes | None]] = set()

    def once(request: Request) -> DropAnswer | None:
        what = (request.method, request.path, request.body)
        if what in known:
            return None
        known.add(what)
        return DropAnswer()

    await live_through(stage, pool, lambda faulty: faulty.on(kind("/pods"), once))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after_s", [0.05, 0.4])
async def test_a_creation_takes_effect_after_its_client_gave_up(
    stage: Stage, pool: Pool, after_s: float
) -> None:
    """daemonset case 57: whether an event comes late or never, what is stored decides"""
    await live_through(stage, pool, lambda faulty: faulty.on(posts("/pods"), None, TakeEffectLate(after_s)))


@pytest.mark.checkered
@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("seed", range(9))
async def test_random_faults_do_not_disturb_the_rollout(stage: Stage, pool: Pool, seed: int) -> None:
    await live_through(
        stage,
        pool,
        lambda faulty: at_random(faulty, random.Random(seed)),
        (STANDARD, SURGE, IN_PLACE)[seed % 3],
    )


async def test_refused_creations_do_not_block_deletions(stage: Stage, pool: Pool) -> None:
    """A quota is used up: pods that must be deleted are deleted nevertheless, and the failure is reported once."""
    # given a set that may create no more pods
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await pool.create()
    await pool.settled()
    faulty.on(posts("/pods"), lambda _: Answer(403, reason="Forbidden", message="exceeded quota"))
    # when a node joins, and another one has to be left
    await pool.join("late")
    await pool.taint(pool.nodes[0], "example.com/x:NoExecute")

    # then
    async def is_left() -> bool:
        return pool.nodes[0] not in await pool.by_node()

    await stage.until(is_left)
    (event,) = await stage.until(lambda: stage.events("FailedCreate"))
    assert "exceeded quota" in event["message"]
    # and once it may, the pod comes
    faulty.clear()
    await pool.settled(nodes=4)


@pytest.mark.virtual_time("it counts the tries of ten seconds")
async def test_a_template_that_is_refused_costs_one_request_a_try(stage: Stage, pool: Pool) -> None:
    """daemonset case 29: the other nodes are not tried, and tries come less and less often"""
    # given
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    tries: list[float] = []

    def refuse(_request: Request) -> Answer:
        tries.append(stage.clock())
        return Answer(403, reason="Forbidden", message="exceeded quota")

    faulty.on(posts("/pods"), refuse)
    # when
    await pool.create()
    await asyncio.sleep(10.0)
    # then each try is one request (the revision that the first has stored leads to one more at once)
    waits = [second - first for first, second in pairwise(tries)]
    assert sum(wait == 0 for wait in waits) <= 1
    # and a longer wait follows it
    assert len(tries) < 15
    assert waits[-1] > 1.0
    # and when it is let through, all get theirs
    faulty.clear()
    await pool.settled(within_s=60.0)


async def test_an_update_in_place_that_is_refused_is_reported_and_tried_again(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 47: the pod is not deleted"""
    # given
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await pool.create(updateStrategy=IN_PLACE)
    await pool.settled()
    before = {pod.uid for pod in await stage.pods()}

    def changes_images(request: Request) -> bool:
        return request.method == "PATCH" and "/pods/" in request.path and b"nginx:2" in (request.body or b"")

    faulty.on(changes_images, lambda _: Answer(403, reason="Forbidden", message="not now"))
    # when
    await pool.set_image("nginx:2")
    # then
    events = await stage.until(lambda: stage.events("FailedUpdatePodInPlace"))
    assert all("not now" in event["message"] and event["type"] == "Warning" for event in events)
    assert {pod.uid for pod in await stage.pods()} == before
    # when it is let through
    faulty.clear()
    # then
    await pool.settled()
    assert {pod.uid for pod in await stage.pods()} == before


# ── the manager is killed ────────────────────────────────────────────────────


@pytest.mark.checkered(8)
@pytest.mark.few_on_real(4)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(26))
async def test_a_manager_killed_at_any_write_is_succeeded_by_another(
    stage: Stage, pool: Pool, at: int, takes_effect: bool
) -> None:
    """daemonset case 58: never more nodes down than allowed"""
    # given a manager that is killed at that write of a creation or a rollout
    strategy = (STANDARD, SURGE, IN_PLACE)[at % 3]
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), kill)
    await stage.start_manager(faulty)
    async with watching(pool) as seen:
        await pool.create(updateStrategy=strategy)

        async def created() -> bool:
            return kill.reached or (await pool.status()).get("numberAvailable") == NODES

        await stage.until(created)
        if not kill.reached:
            await pool.settled()
            seen.from_now()
        await pool.set_image("nginx:2")
        is_over = _is_updated(pool)
        await stage.until(lambda: kill.reached or is_over(), what="the kill")
        await stage.kill_manager()
        # when
        await stage.start_manager()
        # then
        await pool.settled()
        assert keeps_its_promises(seen, strategy)


def _is_updated(pool: Pool) -> Callable[[], object]:
    """Whether the rollout is over: a short one has fewer writes than the kill waits for."""

    async def is_updated() -> bool:
        status = await pool.status()
        done = (status.get("updatedNumberScheduled"), status.get("numberAvailable")) == (NODES, NODES)
        return done and set((await pool.images()).values()) == {"nginx:2"}

    return is_updated


async def test_two_managers_at_the_same_time_do_not_harm_each_other(stage: Stage, pool: Pool) -> None:
    """Without leader election both act; uids and versions make the result correct in the end."""
    # given
    await stage.start_manager()
    await stage.start_manager()
    # when
    await pool.create()
    # then
    await pool.settled()
