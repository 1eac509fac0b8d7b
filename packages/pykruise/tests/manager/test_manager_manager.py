"""The manager on the sandbox: its start, its watches, and its reports."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from pykruise.manager.manager import Manager
from pykruise.manager.settings import ManagerSettings
from pykruise.runtime.assemble import Tuning
from support.faults import Answer, FaultyTransport, reads, watches
from support.sandbox import Place, small_cluster
from support.scenario import cloneset

MANAGER = "system:serviceaccount:kruise-system:kruise-manager"


@asynccontextmanager
async def running(
    place: Place, *, settings: ManagerSettings | None = None, **options: Any
) -> AsyncIterator[Manager]:
    """A running manager on a cluster."""
    transport = options.pop("transport", None) or place.cluster.make_transport(MANAGER)
    rng = random.Random(1)
    client = Client(transport, clock=place.cluster.clock, rng=rng)
    manager = Manager(
        client, settings=settings, clock=place.cluster.clock, rng=rng, cpu_time=lambda: 0.0, **options
    )
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        await task


async def install(place: Place) -> None:
    for crd in build_crds():
        await place.create(CUSTOM_RESOURCE_DEFINITIONS, crd)


async def pods(place: Place, namespace: str = "default") -> int:
    return len(await place.names(PODS, namespace=namespace))


async def test_a_manager_waits_for_its_crds_with_one_message_and_starts_when_they_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """operations case 20; no restart is needed"""
    caplog.set_level(logging.INFO, logger="pykruise")
    async with small_cluster() as place, running(place) as manager:
        # given a cluster without CRDs
        await asyncio.sleep(600.0)
        # then it is ready, and logs once why nothing happens
        assert manager.list_problems() == ()
        warnings = [
            line for line in caplog.messages if "does not serve CloneSet (clonesets.apps.kruise.io)" in line
        ]
        assert len(warnings) == 1
        # the caches' own lines (CloneSet's, WorkloadSpread's and UnitedDeployment's), not one per try
        own = [line for line in caplog.messages if line.startswith("clonesets") and "NotFoundError" in line]
        assert len(own) <= 3 * 2
        # when the CRDs are created
        await install(place)
        await place.create(CLONE_SETS, cloneset(replicas=2))
        # then
        await place.until(lambda: _has(place, 2), within_s=60.0)
        await asyncio.sleep(5.0)
        assert any("clonesets.apps.kruise.io can be read now" in line for line in caplog.messages)


async def test_a_missing_right_is_one_log_line_and_an_unready_manager(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with small_cluster() as place:
        await install(place)
        # given a manager that may not list claims
        faulty = FaultyTransport(place.cluster.make_transport(MANAGER))
        faulty.on(reads("persistentvolumeclaims"), lambda _: Answer(403, message="claims is forbidden"))
        async with running(place, transport=faulty) as manager:
            await asyncio.sleep(600.0)
            # then
            wanted = (
                "this program cannot list and watch persistentvolumeclaims: its role lacks the permission"
            )
            assert sum(wanted in line for line in caplog.messages) == 1
            assert any(wanted in problem for problem in manager.list_problems())
            # when it may list claims
            faulty.clear()
            await place.create(CLONE_SETS, cloneset(replicas=1))
            # then
            await place.until(lambda: _has(place, 1), within_s=60.0)
            assert manager.list_problems() == ()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_manager_is_ready_before_the_api_server_can_convert_stored_objects(status: int) -> None:
    """The API server reaches the conversion webhook only through a manager that is ready."""
    async with small_cluster() as place:
        await install(place)
        # given CloneSets that are stored in an older version, and no ready manager
        faulty = FaultyTransport(place.cluster.make_transport(MANAGER))
        faulty.on(reads("clonesets"), lambda _: Answer(status, message="conversion webhook failed"))
        async with running(place, transport=faulty) as manager:
            # then
            await place.until(lambda: _is_ready(manager), within_s=60.0)
            # when its conversion webhook responds, the manager works
            faulty.clear()
            await place.create(CLONE_SETS, cloneset(replicas=1))
            await place.until(lambda: _has(place, 1), within_s=60.0)


async def test_a_manager_is_not_ready_before_it_can_list_pods() -> None:
    async with small_cluster() as place:
        await install(place)
        faulty = FaultyTransport(place.cluster.make_transport(MANAGER))
        faulty.on(reads("pods"), lambda _: Answer(500))
        async with running(place, transport=faulty) as manager:
            await asyncio.sleep(60.0)
            assert any("the cache of pods is not filled" in problem for problem in manager.list_problems())


async def test_a_right_that_one_controller_lacks_holds_only_that_controller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with small_cluster() as place:
        await install(place)
        # given a manager that ends sidecars of jobs, but may not list the ContainerRecreateRequests that it needs
        faulty = FaultyTransport(place.cluster.make_transport(MANAGER))
        faulty.on(reads("containerrecreaterequests"), lambda _: Answer(403, message="requests are forbidden"))
        settings = ManagerSettings(gates=Gates.of(SidecarTerminator=True))
        caplog.set_level(logging.INFO, logger="pykruise")
        async with running(place, transport=faulty, settings=settings) as manager:
            await place.create(CLONE_SETS, cloneset(replicas=2))
            # then the other controllers work, the log names the missing permission once, and the manager is ready
            await place.until(lambda: _has(place, 2), within_s=60.0)
            await asyncio.sleep(600.0)
            wanted = "cannot list and watch containerrecreaterequests"
            assert sum(wanted in line for line in caplog.messages) == 1
            assert manager.list_problems() == ()
            assert manager.read_stats().controllers["sidecarterminator"].reconciles == 0
            # when it may list them, that controller starts, too
            faulty.clear()
            await place.until(lambda: "sidecarterminator: caches are synced" in caplog.text, within_s=60.0)


async def test_a_manager_of_one_namespace_leaves_the_others_alone() -> None:
    """operations case 21"""
    async with small_cluster() as place:
        await install(place)
        await place.create(NAMESPACES, {"metadata": {"name": "foo"}})
        async with running(place, settings=ManagerSettings(watch_namespace="foo")):
            await place.create(CLONE_SETS, cloneset(replicas=1))
            await place.create(CLONE_SETS, cloneset(replicas=2), namespace="foo")
            await place.until(lambda: _has(place, 2, "foo"))
            await asyncio.sleep(600.0)
            assert await pods(place) == 0


async def test_every_object_is_reconciled_again_after_the_resync_period() -> None:
    """operations case 22"""
    async with small_cluster() as place:
        await install(place)
        async with running(place, settings=ManagerSettings(resync_s=600.0)) as manager:
            await place.create(CLONE_SETS, cloneset(replicas=1))
            await place.until(lambda: _has(place, 1))
            await asyncio.sleep(60.0)
            before = manager.read_stats()
            # when
            await asyncio.sleep(3600.0)
            # then the CloneSet, its pod and its revision woke it about six times, together or one by one
            after = manager.read_stats()
            wakes = after.queues["cloneset"].adds - before.queues["cloneset"].adds
            turns = after.controllers["cloneset"].reconciles - before.controllers["cloneset"].reconciles
            assert wakes >= 5 * 3
            assert 5 <= turns <= 7 * 3


async def test_nothing_happens_without_a_resync_period_while_nothing_changes() -> None:
    async with small_cluster() as place:
        await install(place)
        async with running(place) as manager:
            await place.create(CLONE_SETS, cloneset(replicas=1))
            await place.until(lambda: _has(place, 1))
            await asyncio.sleep(60.0)
            before = manager.read_stats().controllers["cloneset"].reconciles
            await asyncio.sleep(3600.0)
            assert manager.read_stats().controllers["cloneset"].reconciles == before


async def test_a_controller_has_as_many_workers_as_its_flag_sets() -> None:
    """operations case 24"""
    async with small_cluster() as place:
        await install(place)
        settings = ManagerSettings(tuning=Tuning(workers={"cloneset": 1}))
        async with running(place, settings=settings) as manager:
            await manager.wait_synced()
            for number in range(5):
                await place.create(CLONE_SETS, cloneset(f"web{number}", replicas=1))
            most = 0
            while await pods(place) < 5:
                most = max(most, manager.read_stats().controllers["cloneset"].in_flight)
                await asyncio.sleep(0.001)
            assert most == 1
            assert manager.read_stats().controllers["cloneset"].workers == 1


class Gate:
    """A component that has a problem until `found` is changed."""

    name = "gate"

    def __init__(self) -> None:
        self.found: Sequence[str] = ("closed",)
        self.retired = False
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        await self.stopped.wait()

    def retire(self) -> None:
        assert not self.stopped.is_set()
        self.retired = True

    async def stop(self) -> None:
        self.stopped.set()

    def list_problems(self) -> Sequence[str]:
        return self.found


async def test_controllers_wait_until_no_component_has_a_problem() -> None:
    """operations pitfall 9: the manager must not act on objects that were not defaulted"""
    async with small_cluster() as place:
        await install(place)
        gate = Gate()
        async with running(place, components=[gate]) as manager:
            await place.create(CLONE_SETS, cloneset(replicas=1))
            await asyncio.sleep(60.0)
            assert manager.list_problems() == ("gate: closed",)
            assert await pods(place) == 0
            # when
            gate.found = ()
            # then
            await place.until(lambda: _has(place, 1))
        assert gate.retired
        assert gate.stopped.is_set()


async def test_a_watch_that_stays_down_while_others_are_open_makes_the_manager_unready() -> None:
    async with small_cluster() as place:
        await install(place)
        faulty = FaultyTransport(place.cluster.make_transport(MANAGER))
        async with running(place, transport=faulty) as manager:
            await manager.wait_synced()
            assert manager.list_problems() == ()
            # when the watch of nodes cannot be opened any longer, and the open one ends
            faulty.on(watches("nodes"), lambda _: Answer(500))
            await asyncio.sleep(600.0)
            assert manager.list_problems() == ()
            await asyncio.sleep(400.0)
            # then
            assert any("the watch of nodes has been down" in problem for problem in manager.list_problems())


async def _is_ready(manager: Manager) -> bool:
    return not manager.list_problems()


async def _has(place: Place, count: int, namespace: str = "default") -> bool:
    return await pods(place, namespace) == count
