"""Two managers on one cluster: one works, and whatever happens to it, the other goes on where it was."""

import asyncio

import pytest

from pykruise.kube.ids import Key
from pykruise.kube.resources import EVENTS, LEASES
from pykruise.manager.manager import Manager
from support.faults import Delay, FaultyTransport, Refuse, TimeOut, requests, workload_writes, writes
from support.scenario import PodWatch, Stage, cloneset, rolling
from support.silenced import SilencedTransport

REPLICAS = 12
UNAVAILABLE = 2
LEASE_S = 15.0


async def two_managers(stage: Stage) -> tuple[Manager, Manager]:
    """A manager that leads and a manager that waits, both with synchronized caches."""
    first = await stage.start_manager(identity="first")
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(identity="second")
    await second.wait_synced()
    return first, second


async def rollout_under_way(stage: Stage, seen: PodWatch) -> None:
    strategy = rolling(maxUnavailable=UNAVAILABLE)
    await stage.create(cloneset(replicas=REPLICAS, updateStrategy=strategy))
    await stage.settled(replicas=REPLICAS)
    seen.watch_from_now()
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: seen.created > REPLICAS + UNAVAILABLE)


def nothing_lost_and_nothing_twice(seen: PodWatch) -> None:
    assert seen.created == 2 * REPLICAS
    assert seen.most <= REPLICAS
    assert seen.fewest_available is not None
    assert seen.fewest_available >= REPLICAS - UNAVAILABLE


def keeps_no_queue(manager: Manager) -> bool:
    """Whether no queue of the manager has a key that waits or is delayed."""
    return not any(queue.depth or queue.delayed for queue in manager.read_stats().queues.values())


def reconciled_names(manager: Manager) -> set[str]:
    """Names of the CloneSets that the manager reconciles from now on."""
    controller = next(item for item in manager.controllers if item.name == "cloneset")
    names, reconcile = set[str](), controller._reconcile

    async def noted(key: Key) -> float | None:
        names.add(key.name)
        return await reconcile(key)

    controller._reconcile = noted
    return names


async def is_gone(stage: Stage, name: str) -> bool:
    return not await stage.exists(name)


async def test_a_standby_keeps_no_queue_and_begins_with_all_objects_when_it_leads(stage: Stage) -> None:
    # given a standby that has seen objects come, change and go
    first, second = await two_managers(stage)
    for name in ("web", "db", "gone"):
        await stage.create(cloneset(name, replicas=2))
        await stage.settled(name, replicas=2)
    await stage.delete("gone")
    await stage.until(lambda: is_gone(stage, "gone"))
    assert keeps_no_queue(second)
    names = reconciled_names(second)
    # when an object changes while nobody leads, and the standby then takes over
    await stage.kill_manager(first)
    await stage.scale("web", 3)
    await stage.until(lambda: second.is_leading)
    await stage.settled("web", replicas=3)
    # then it reconciles all objects of its caches, and no deleted object
    await stage.until(lambda: {"web", "db"} <= names)
    assert "gone" not in names


async def test_a_manager_that_loses_its_lease_empties_its_queues(stage: Stage) -> None:
    # given a leader with a delayed key: writes of pods fail
    faulty = FaultyTransport(stage.manager_transport())
    first = await stage.start_manager(faulty, identity="first")
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(identity="second")
    faulty.on(workload_writes("/pods"), lambda _: Refuse())
    await stage.create(cloneset(replicas=2))
    await stage.until(lambda: not keeps_no_queue(first))
    # when
    faulty.on(requests(path="/leases"), lambda _: Refuse())
    await stage.until(lambda: second.is_leading)
    await stage.settled(replicas=2)
    # then
    assert keeps_no_queue(first)


async def test_only_the_leader_reconciles_and_both_managers_are_synced(stage: Stage) -> None:
    """operations case 13"""
    first, second = await two_managers(stage)
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    assert (first.is_leading, second.is_leading) == (True, False)
    assert second.read_stats().synced
    assert second.read_stats().controllers["cloneset"].reconciles == 0
    assert second.read_stats().controllers["cloneset"].workers > 0


async def test_a_stopped_leader_hands_over_within_seconds(stage: Stage, seen: PodWatch) -> None:
    # given
    first, second = await two_managers(stage)
    await rollout_under_way(stage, seen)
    # when
    loop = asyncio.get_running_loop()
    await stage.stop_manager(first)
    stopped_at = loop.time()
    await stage.until(lambda: second.is_leading)
    # then
    assert loop.time() - stopped_at < 3.0
    await stage.settled(replicas=REPLICAS)
    nothing_lost_and_nothing_twice(seen)


async def test_a_stopped_leader_hands_over_before_it_writes_its_last_events(
    stage: Stage, seen: PodWatch
) -> None:
    # given a leader whose events take seconds to write
    faulty = FaultyTransport(stage.manager_transport())
    first = await stage.start_manager(faulty, identity="first")
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(identity="second")
    await second.wait_synced()
    faulty.on(writes("/events"), lambda _: Delay(4.0))
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    # when
    loop = asyncio.get_running_loop()
    stopped_at = loop.time()
    stopping = asyncio.create_task(stage.stop_manager(first))
    await stage.until(lambda: second.is_leading)
    # then
    assert loop.time() - stopped_at < 3.0
    assert not stopping.done()
    await stopping
    events = await stage.stored(EVENTS)
    assert "SuccessfulCreate" in {event["reason"] for event in events}


async def test_a_manager_that_stops_takes_no_lease_while_it_writes_its_last_events(stage: Stage) -> None:
    # given a manager that has lost its Lease because of an outage, and has events that it could not write
    faulty = FaultyTransport(stage.manager_transport())
    manager = await stage.start_manager(faulty, identity="first")
    await stage.until(lambda: manager.is_leading)
    faulty.on(writes("/events"), lambda _: Refuse())
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    faulty.on(requests(path="/leases"), lambda _: Refuse())
    await stage.until(lambda: not manager.is_leading)
    await asyncio.sleep(LEASE_S / 2)
    (before,) = await stage.stored(LEASES)
    # when the outage ends while the manager stops, and its events take seconds to write
    faulty.clear()
    faulty.on(writes("/events"), lambda _: Delay(4.0))
    loop = asyncio.get_running_loop()
    stopped_at = loop.time()
    await stage.stop_manager(manager)
    # then
    assert loop.time() - stopped_at >= 4.0
    (after,) = await stage.stored(LEASES)
    assert after["spec"] == before["spec"]


async def test_a_stopped_leader_ends_in_time_if_the_api_server_does_not_respond(
    stage: Stage, seen: PodWatch
) -> None:
    # given a rollout under way
    faulty = FaultyTransport(stage.manager_transport())
    manager = await stage.start_manager(faulty, identity="first")
    await rollout_under_way(stage, seen)
    faulty.on(requests(), lambda _: TimeOut())
    # when
    loop = asyncio.get_running_loop()
    stopped_at = loop.time()
    await stage.stop_manager(manager)
    # then
    assert loop.time() - stopped_at < manager.settings.longest_stop_s


async def test_a_leader_killed_in_mid_rollout_is_followed_within_the_lease_time(
    stage: Stage, seen: PodWatch
) -> None:
    """operations case 14"""
    # given
    first, second = await two_managers(stage)
    await rollout_under_way(stage, seen)
    # when
    loop = asyncio.get_running_loop()
    await stage.kill_manager(first)
    killed_at = loop.time()
    await stage.until(lambda: second.is_leading)
    # then
    assert loop.time() - killed_at < LEASE_S + 5.0
    await stage.settled(replicas=REPLICAS)
    nothing_lost_and_nothing_twice(seen)


async def test_an_isolated_leader_stops_writing_and_competes_again(stage: Stage, seen: PodWatch) -> None:
    """operations case 14"""
    # given
    faulty = FaultyTransport(stage.manager_transport())
    first = await stage.start_manager(faulty, identity="first")
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(identity="second")
    await rollout_under_way(stage, seen)
    # when
    faulty.on(requests(), lambda _: Refuse())
    await stage.until(lambda: second.is_leading)
    # then it leads no more, and does nothing although it reaches the API server again
    assert not first.is_leading
    faulty.clear()
    count = len(faulty.log)
    await stage.settled(replicas=REPLICAS)
    assert [request for request in faulty.log[count:] if workload_writes()(request)] == []
    nothing_lost_and_nothing_twice(seen)
    # and when it has the Lease again, it goes on with what is true then
    await stage.stop_manager(second)
    await stage.until(lambda: first.is_leading)
    await stage.scale("web", REPLICAS + 3)
    await stage.settled(replicas=REPLICAS + 3)
    assert seen.most == REPLICAS + 3


async def test_an_outage_longer_than_the_lease_ends_with_one_leader(stage: Stage, seen: PodWatch) -> None:
    # given
    transports = [FaultyTransport(stage.manager_transport()) for _ in range(2)]
    first = await stage.start_manager(transports[0], identity="first")
    await stage.until(lambda: first.is_leading)
    second = await stage.start_manager(transports[1], identity="second")
    await rollout_under_way(stage, seen)
    # when neither reaches the API server
    for transport in transports:
        transport.on(requests(), lambda _: Refuse())
    await asyncio.sleep(LEASE_S)
    assert not first.is_leading
    for transport in transports:
        transport.clear()
    # then
    await stage.until(lambda: first.is_leading or second.is_leading)
    await stage.settled(replicas=REPLICAS)
    assert first.is_leading != second.is_leading
    nothing_lost_and_nothing_twice(seen)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_successor_whose_watch_of_pods_is_silent_makes_no_pod_twice(
    stage: Stage, seen: PodWatch, is_killed: bool
) -> None:
    # given a standby that gets no more events of pods
    first = await stage.start_manager(identity="first")
    await stage.until(lambda: first.is_leading)
    lagging = SilencedTransport(stage.manager_transport(), "/pods")
    second = await stage.start_manager(lagging, identity="second")
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    await second.wait_synced()
    lagging.silence()
    # when it takes over in the middle of a scale-up
    await stage.scale("web", REPLICAS)
    await stage.until(lambda: seen.created >= REPLICAS // 2)
    await (stage.kill_manager if is_killed else stage.stop_manager)(first)
    await stage.until(lambda: second.is_leading)
    # then
    await stage.settled(replicas=REPLICAS)
    assert seen.most == seen.created == REPLICAS


async def test_a_manager_without_an_election_works_immediately(stage: Stage) -> None:
    """operations case 15"""
    manager = await stage.start_manager()
    assert manager.is_leading
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
