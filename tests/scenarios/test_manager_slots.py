"""Several managers that share the work: one manager works on each key, even if managers come, go or lag behind."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from pykruise.kube.clock import format_micro_time
from pykruise.kube.documents import decode
from pykruise.kube.election.key_slots import AT_ONCE, SLOTS
from pykruise.kube.election.membership import MembershipStats
from pykruise.kube.resources import LEASES
from pykruise.manager.manager import Manager
from support.faults import Delay, FaultyTransport, Refuse, requests, workload_writes
from support.scenario import PodWatch, Stage, cloneset, pod_watch, rolling
from support.silenced import SilencedTransport

SETS = 6
REPLICAS = 4
LEASE_S = 15.0


def stats_of(manager: Manager) -> MembershipStats:
    assert manager.membership is not None
    return manager.membership.read_stats()


def are_shared(managers: Sequence[Manager]) -> bool:
    """Whether all slots are held, and each manager holds its share."""
    held = [stats_of(manager).held for manager in managers]
    share = -(-SLOTS // len(managers))
    return sum(map(len, held)) == SLOTS == len(frozenset().union(*held)) and max(map(len, held)) <= share


async def members(stage: Stage, count: int) -> list[Manager]:
    """Start this number of managers, and wait until each has its share."""
    managers = [
        await stage.start_manager(identity=f"manager-{number}", members=count) for number in range(count)
    ]
    await stage.until(lambda: are_shared(managers))
    return managers


async def sets_under_way(stage: Stage) -> None:
    """CloneSets in several slots, with a rollout that has begun."""
    strategy = rolling(maxUnavailable=1)
    for number in range(SETS):
        await stage.create(cloneset(f"set-{number}", replicas=REPLICAS, updateStrategy=strategy))
    await all_settled(stage)
    for number in range(SETS):
        await stage.set_image(f"set-{number}", "nginx:2")


async def all_settled(stage: Stage, *, replicas: int = REPLICAS) -> None:
    for number in range(SETS):
        await stage.settled(f"set-{number}", replicas=replicas)


@asynccontextmanager
async def pod_watches(stage: Stage) -> AsyncIterator[list[PodWatch]]:
    """A watch of the pods of each CloneSet."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(pod_watch(stage, app=f"set-{item}")) for item in range(SETS)]


def nothing_twice(seen: Sequence[PodWatch], *, most: int = REPLICAS, created: int = 2 * REPLICAS) -> None:
    assert [pod_watch.created for pod_watch in seen] == [created] * SETS
    assert max(pod_watch.most for pod_watch in seen) <= most


def leader_of(managers: Sequence[Manager]) -> Manager:
    return next(manager for manager in managers if manager.is_leading)


def other_of(managers: Sequence[Manager]) -> Manager:
    return next(manager for manager in managers if not manager.is_leading)


async def test_every_manager_works_and_every_object_has_one(stage: Stage) -> None:
    managers = await members(stage, 4)
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        await all_settled(stage)
    nothing_twice(seen)
    assert sum(manager.read_stats().controllers["cloneset"].reconciles > 0 for manager in managers) > 1


@pytest.mark.parametrize("is_leader", [True, False])
async def test_a_stopped_member_hands_its_slots_over_within_seconds(stage: Stage, is_leader: bool) -> None:
    managers = await members(stage, 4)
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        gone = leader_of(managers) if is_leader else other_of(managers)
        stopped_at = asyncio.get_running_loop().time()
        await stage.stop_manager(gone)
        left = [manager for manager in managers if manager is not gone]
        await stage.until(lambda: are_shared(left))
        assert asyncio.get_running_loop().time() - stopped_at < 5.0
        await all_settled(stage)
    nothing_twice(seen)


@pytest.mark.long_on_real
@pytest.mark.parametrize("is_leader", [True, False])
async def test_a_member_that_is_killed_is_followed_within_the_lease_time(
    stage: Stage, is_leader: bool
) -> None:
    managers = await members(stage, 4)
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        gone = leader_of(managers) if is_leader else other_of(managers)
        killed_at = asyncio.get_running_loop().time()
        await stage.kill_manager(gone)
        left = [manager for manager in managers if manager is not gone]
        await stage.until(lambda: are_shared(left))
        assert asyncio.get_running_loop().time() - killed_at < LEASE_S + 10.0
        await all_settled(stage)
    nothing_twice(seen)


@pytest.mark.parametrize("other", range(1, 4))
async def test_the_leadership_is_passed_to_no_member_that_stops_simultaneously(
    stage: Stage, other: int
) -> None:
    # given a leader that is slow to name its successor
    slow = FaultyTransport(stage.manager_transport())
    leader = await stage.start_manager(slow, identity="manager-0", members=4)
    await stage.until(lambda: leader.is_leading)
    others = [await stage.start_manager(identity=f"manager-{number}", members=4) for number in range(1, 4)]
    await stage.until(lambda: are_shared([leader, *others]))
    slow.on(
        lambda request: request.method == "PUT" and request.path.endswith("/kruise-manager"),
        lambda _: Delay(0.5),
    )
    # when another goes meanwhile
    gone = others.pop(other - 1)
    stopped_at = asyncio.get_running_loop().time()
    going = asyncio.create_task(stage.stop_manager(leader))
    await asyncio.sleep(0.1)
    await stage.stop_manager(gone)
    await going
    # then one that stays leads, and the slots are held
    await stage.until(lambda: are_shared(others))
    assert asyncio.get_running_loop().time() - stopped_at < 5.0


@pytest.mark.long_on_real
async def test_a_member_that_is_cut_off_writes_nothing_more_and_takes_part_again(stage: Stage) -> None:
    # given
    faulty = FaultyTransport(stage.manager_transport())
    first = await stage.start_manager(identity="manager-0", members=2)
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(faulty, identity="manager-1", members=2)
    await stage.until(lambda: are_shared([first, second]))
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        # when
        faulty.on(requests(), lambda _: Refuse())
        await stage.until(lambda: len(stats_of(first).held) == SLOTS)
        # then
        assert not stats_of(second).held
        count = len(faulty.log)
        faulty.clear()
        await all_settled(stage)
        nothing_twice(seen)
        # and
        await stage.until(lambda: are_shared([first, second]))
        assert [request for request in faulty.log[count:] if workload_writes("pods")(request)] == []


@pytest.mark.long_on_real
@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_member_whose_watch_of_pods_is_silent_makes_no_pod_twice(
    stage: Stage, is_killed: bool
) -> None:
    # given a member that gets no more events of pods
    first = await stage.start_manager(identity="manager-0", members=2)
    await stage.until(lambda: first.is_leading)
    lagging = SilencedTransport(stage.manager_transport(), "/pods")
    second = await stage.start_manager(lagging, identity="manager-1", members=2)
    await stage.until(lambda: are_shared([first, second]))
    for number in range(SETS):
        await stage.create(cloneset(f"set-{number}", replicas=1))
    await all_settled(stage, replicas=1)
    async with pod_watches(stage) as seen:
        lagging.silence()
        # when it gets slots of the other in the middle of a scale-up
        for number in range(SETS):
            await stage.scale(f"set-{number}", 3 * REPLICAS)
        await stage.until(lambda: sum(pod_watch.created for pod_watch in seen) >= SETS * REPLICAS)
        await (stage.kill_manager if is_killed else stage.stop_manager)(first)
        await stage.until(lambda: len(stats_of(second).held) == SLOTS)
        # then
        await all_settled(stage, replicas=3 * REPLICAS)
    nothing_twice(seen, most=3 * REPLICAS, created=3 * REPLICAS)


async def test_a_member_that_joins_gets_its_share_a_few_slots_at_a_time(stage: Stage) -> None:
    first = await stage.start_manager(identity="manager-0", members=2)
    await stage.until(lambda: len(stats_of(first).held) == SLOTS)
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        second = await stage.start_manager(identity="manager-1", members=2)
        fewest = SLOTS
        while not are_shared([first, second]):
            fewest = min(fewest, len(stats_of(first).held | stats_of(second).held))
            await asyncio.sleep(0.005)
        assert fewest >= SLOTS - AT_ONCE
        await all_settled(stage)
    nothing_twice(seen)


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for leases to run out, as others here do that are")
async def test_a_surplus_member_stays_idle_as_a_standby(stage: Stage) -> None:
    managers = [await stage.start_manager(identity=f"manager-{item}", members=2) for item in range(3)]
    await stage.until(lambda: sorted(len(stats_of(manager).held) for manager in managers) == [0, 8, 8])
    idle = next(manager for manager in managers if not stats_of(manager).held)
    await stage.kill_manager(next(manager for manager in managers if manager is not idle))
    await stage.until(lambda: len(stats_of(idle).held) == SLOTS // 2)


@pytest.mark.long_on_real
async def test_when_another_program_takes_the_leaders_lease_no_manager_works(stage: Stage) -> None:
    # given
    transports = [FaultyTransport(stage.manager_transport()) for _ in range(2)]
    managers = [
        await stage.start_manager(transport, identity=f"manager-{number}", members=2)
        for number, transport in enumerate(transports)
    ]
    await stage.until(lambda: are_shared(managers))
    await sets_under_way(stage)
    # when a program that does not know slots gets the leader's Lease, which a person can cause
    lease = decode(await stage.client.get(LEASES, stage.namespace, "kruise-manager"))
    taken = {**lease["spec"], "holderIdentity": "go", "renewTime": format_micro_time(stage.clock())}
    await stage.client.update(LEASES, stage.namespace, "kruise-manager", {**lease, "spec": taken})
    await stage.until(lambda: not any(stats_of(manager).held for manager in managers))
    counts = [len(transport.log) for transport in transports]
    # then nothing is written until its time is over
    await asyncio.sleep(LEASE_S / 2)
    for faulty_transport, count in zip(transports, counts, strict=True):
        assert [request for request in faulty_transport.log[count:] if workload_writes("pods")(request)] == []
    await stage.until(lambda: are_shared(managers))
    await all_settled(stage)


async def test_a_single_leader_and_members_replace_each_other(stage: Stage) -> None:
    """A rolling update that changes `--shards` has this effect."""
    alone = await stage.start_manager(identity="alone")
    await stage.until(lambda: alone.is_leading)
    managers = [await stage.start_manager(identity=f"manager-{item}", members=2) for item in range(2)]
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        assert not any(stats_of(item).held for item in managers)
        await stage.stop_manager(alone)
        await stage.until(lambda: are_shared(managers))
        await all_settled(stage)
        nothing_twice(seen)
        alone = await stage.start_manager(identity="alone")
        for number in range(SETS):
            await stage.set_image(f"set-{number}", "nginx:3")
        for manager in managers:
            await stage.stop_manager(manager)
        await stage.until(lambda: alone.is_leading)
        await all_settled(stage)
    nothing_twice(seen, created=3 * REPLICAS)


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for leases to run out, as others here do that are")
async def test_members_with_another_keying_wait_until_the_previous_ones_have_stopped(stage: Stage) -> None:
    managers = await members(stage, 2)
    others = [
        await stage.start_manager(identity=f"other-{item}", members=2, keying="namespace")
        for item in range(2)
    ]
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        for manager in managers:
            await stage.stop_manager(manager)
            assert not any(stats_of(other).held and stats_of(manager).held for other in others)
        await stage.until(lambda: are_shared(others))
        await all_settled(stage)
    nothing_twice(seen)


@pytest.mark.long_on_real
async def test_a_rolling_update_of_four_managers_during_a_rollout_loses_and_doubles_nothing(
    stage: Stage,
) -> None:
    managers = await members(stage, 4)
    async with pod_watches(stage) as seen:
        await sets_under_way(stage)
        for number, old in enumerate(managers):
            new = await stage.start_manager(identity=f"new-{number}", members=4)
            await stage.until(lambda new=new: stats_of(new).seat is not None)
            await stage.stop_manager(old)
            managers[number] = new
        await stage.until(lambda: are_shared(managers))
        await all_settled(stage)
    nothing_twice(seen)
