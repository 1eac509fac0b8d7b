"""The deletion of a namespace, on the API server."""

import asyncio

import pytest

from pykruise.kube.errors import ForbiddenError
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, PODS
from support.sandbox import Place, config_map, pod, small_cluster


async def team(place: Place) -> None:
    """Create a namespace `team` with pods and ConfigMaps."""
    await place.create(NAMESPACES, {"metadata": {"name": "team"}})
    for number in range(3):
        await place.create(PODS, pod(f"web-{number}"), namespace="team")
        await place.create(CONFIG_MAPS, config_map(f"conf-{number}"), namespace="team")


async def test_a_deleted_namespace_is_removed_with_its_contents() -> None:
    # given
    async with small_cluster() as place:
        await team(place)
        await place.create(CONFIG_MAPS, config_map("elsewhere"))
        await asyncio.sleep(3)
        # when
        await place.client.delete(NAMESPACES, "", "team")
        # then pods have their grace period
        assert (await place.get(NAMESPACES, "team"))["status"]["phase"] == "Terminating"
        took_s = await place.until(lambda: _is_gone(place, "team"), within_s=10.0)
        assert took_s >= 1.0
        assert await place.names(PODS, namespace="team") == []
        assert await place.names(CONFIG_MAPS, namespace="team") == []
        assert "elsewhere" in await place.names(CONFIG_MAPS)


async def test_an_empty_namespace_is_deleted_immediately() -> None:
    # given
    async with small_cluster() as place:
        await place.create(NAMESPACES, {"metadata": {"name": "team"}})
        # when
        await place.client.delete(NAMESPACES, "", "team")
        # then
        await place.until(lambda: _is_gone(place, "team"), within_s=0.5)


async def test_a_terminating_namespace_reports_what_blocks_it() -> None:
    # given
    async with small_cluster() as place:
        await team(place)
        held = config_map("held", finalizers=["example.com/hold"])
        await place.create(CONFIG_MAPS, held, namespace="team")
        # when
        await place.client.delete(NAMESPACES, "", "team")
        await asyncio.sleep(60)
        # then
        conditions = {
            condition["type"]: condition
            for condition in (await place.get(NAMESPACES, "team"))["status"]["conditions"]
        }
        remaining = conditions["NamespaceContentRemaining"]
        assert remaining["status"] == "True"
        assert remaining["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
        assert (
            "example.com/hold in 1 resource instances"
            in conditions["NamespaceFinalizersRemaining"]["message"]
        )
        # and when the finalizer is removed
        await place.merge(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace="team")
        await place.until(lambda: _is_gone(place, "team"), within_s=10.0)


async def test_nothing_is_created_in_a_terminating_namespace() -> None:
    # given
    async with small_cluster() as place:
        await team(place)
        await place.client.delete(NAMESPACES, "", "team")
        # then
        with pytest.raises(ForbiddenError):
            await place.create(CONFIG_MAPS, config_map("late"), namespace="team")


async def test_a_recreated_namespace_stays() -> None:
    # given
    async with small_cluster() as place:
        await team(place)
        await place.client.delete(NAMESPACES, "", "team")
        await place.until(lambda: _is_gone(place, "team"), within_s=10.0)
        # when
        await place.create(NAMESPACES, {"metadata": {"name": "team"}})
        await place.create(CONFIG_MAPS, config_map("new"), namespace="team")
        await asyncio.sleep(60)
        # then
        assert "new" in await place.names(CONFIG_MAPS, namespace="team")


async def _is_gone(place: Place, name: str) -> bool:
    return not await place.exists(NAMESPACES, name)
