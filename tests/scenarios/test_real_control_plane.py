"""Faults that only a real control plane has: it dies for a moment, or forgets a token. The manager survives them."""

import asyncio

import pytest

from pykruise.kube.resources import Resource
from support.scenario import PodWatch, Stage, cloneset, rolling
from testbed.control_plane import API_SERVER, ETCD, ControlPlane

pytestmark = pytest.mark.real

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")

REPLICAS = 12
UNAVAILABLE = 2
OUTAGE_S = 2.0


@pytest.fixture(params=[API_SERVER, ETCD])
def victim(request: pytest.FixtureRequest) -> str:
    """A component without which nothing can be read or written."""
    component: str = request.param
    return component


async def test_a_rollout_continues_after_a_crash_of_the_control_plane(
    stage: Stage, seen: PodWatch, plane: ControlPlane, victim: str
) -> None:
    # given a rollout under way
    await stage.start_manager()
    strategy = rolling(maxUnavailable=UNAVAILABLE)
    await stage.create(cloneset(replicas=REPLICAS, updateStrategy=strategy))
    await stage.settled(replicas=REPLICAS)
    seen.watch_from_now()
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: seen.created > REPLICAS + UNAVAILABLE)
    # when
    await die_and_rise(plane, victim)
    # then
    await stage.settled(replicas=REPLICAS)
    assert seen.created == 2 * REPLICAS
    assert seen.most <= REPLICAS
    assert seen.fewest_available is not None
    assert seen.fewest_available >= REPLICAS - UNAVAILABLE


async def test_no_pod_is_created_twice_when_the_control_plane_dies_during_creations(
    stage: Stage, seen: PodWatch, plane: ControlPlane, victim: str
) -> None:
    # given many creations under way
    replicas = 80
    await stage.start_manager()
    await stage.create(cloneset(replicas=replicas))
    await stage.until(lambda: seen.created > replicas // 8)
    # when
    await die_and_rise(plane, victim)
    # then
    await stage.settled(replicas=replicas)
    assert seen.most == seen.created == replicas


async def test_a_manager_whose_token_is_refused_waits_until_it_is_accepted_again(
    stage: Stage, seen: PodWatch, plane: ControlPlane
) -> None:
    # given a manager at work
    manager = await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    # when its token is no longer known, and there is something to do
    await plane.accept_tokens(of_manager=False)
    try:
        await stage.scale("web", 4)
        await asyncio.sleep(OUTAGE_S)
        # then it does nothing, and says why
        assert len(await stage.pods()) == 2
        errors = {cache.last_error for cache in manager.read_stats().caches.values()}
        assert any("Unauthorized" in error for error in errors)
    finally:
        await plane.accept_tokens(of_manager=True)
    # and goes on once it is accepted again
    await stage.settled(replicas=4)
    assert seen.created == 4


async def test_a_used_up_quota_is_reported_and_waited_for(stage: Stage, seen: PodWatch) -> None:
    # given a namespace in which two pods may be
    quota = {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}}
    await stage.create(quota, resource=RESOURCE_QUOTAS)

    async def quota_is_watched() -> bool:
        return bool((await stage.get("two", resource=RESOURCE_QUOTAS)).get("status", {}).get("used"))

    await stage.until(quota_is_watched)
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=3))

    # then
    async def reported() -> str:
        conditions = (await stage.status()).get("conditions") or []
        return "".join(condition["message"] for condition in conditions if condition["type"] == "FailedScale")

    assert "exceeded quota: two" in await stage.until(reported)
    assert await stage.until(lambda: stage.events("FailedCreate"))
    # when there is room
    await stage.merge("two", {"spec": {"hard": {"pods": "5"}}}, resource=RESOURCE_QUOTAS)
    # then
    await stage.settled(replicas=3)
    assert seen.created == 3


@pytest.fixture(autouse=True)
def _new_servers_know_no_roles(stage: Stage) -> None:
    """Tolerate refused requests: an API server that has just started has not read the roles yet."""
    stage.is_refused_at_times = True


async def die_and_rise(plane: ControlPlane, component: str) -> None:
    """Kill the component with kill -9, wait, and start it again on the same port and data."""
    await plane.kill(component)
    await asyncio.sleep(OUTAGE_S)
    await plane.restart(component)
