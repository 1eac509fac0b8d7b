"""The garbage collector on the API server's core."""

import asyncio
from typing import Any

from pykruise.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    SECRETS,
    Resource,
)
from support.sandbox import Place, config_map, owned_by, pod, small_cluster

Object = dict[str, Any]

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def secret(name: str, *, owners: tuple[Object, ...] = ()) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "ownerReferences": list(owners)}}


async def family(place: Place, *, blocks: bool = False) -> Object:
    """Create `parent`, which owns `child`, which owns `grandchild`; return `parent`."""
    parent = await place.create(CONFIG_MAPS, config_map("parent"))
    child = await place.create(CONFIG_MAPS, config_map("child", owners=[owned_by(parent, blocks=blocks)]))
    await place.create(SECRETS, secret("grandchild", owners=(owned_by(child, blocks=blocks),)))
    return parent


# ── background ───────────────────────────────────────────────────────────────


async def test_dependents_are_deleted_recursively_in_the_background() -> None:
    # given
    async with small_cluster() as place:
        await family(place)
        await asyncio.sleep(1)
        assert place.cluster.collector.read_stats().deletions == 0
        # when
        await place.client.delete(CONFIG_MAPS, "default", "parent", propagation="Background")
        # then the owner is deleted immediately, the others soon
        assert not await place.exists(CONFIG_MAPS, "parent")
        await place.until(lambda: _is_gone(place, SECRETS, "grandchild"), within_s=2.0)
        assert not await place.exists(CONFIG_MAPS, "child")


async def test_a_pod_with_a_deleted_owner_terminates_gracefully() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        await place.create(PODS, pod("web", owners=[owned_by(owner)]))
        await place.until(lambda: place.is_ready("web"))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "owner")
        await asyncio.sleep(0.2)
        # then
        assert (await place.get(PODS, "web"))["metadata"]["deletionGracePeriodSeconds"] == 30
        await place.until(lambda: _is_gone(place, PODS, "web"), within_s=5.0)


async def test_an_object_that_names_an_owner_that_never_was_is_collected() -> None:
    # given
    async with small_cluster() as place:
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such-uid"}
        # when
        await place.create(SECRETS, secret("orphan", owners=(ghost,)))
        # then
        await place.until(lambda: _is_gone(place, SECRETS, "orphan"), within_s=2.0)


async def test_a_successor_of_the_same_name_is_not_the_owner() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        await place.create(SECRETS, secret("kept", owners=(owned_by(owner),)))
        await place.create(SECRETS, secret("stale", owners=(owned_by(owner, uid="an-earlier-uid"),)))
        # when
        await asyncio.sleep(2)
        # then
        assert await place.exists(SECRETS, "kept")
        assert not await place.exists(SECRETS, "stale")


async def test_an_owner_in_another_namespace_counts_as_absent() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"), namespace="kube-system")
        # when
        await place.create(SECRETS, secret("stray", owners=(owned_by(owner),)))
        # then
        await place.until(lambda: _is_gone(place, SECRETS, "stray"), within_s=2.0)
        assert await place.exists(CONFIG_MAPS, "owner", namespace="kube-system")


async def test_a_cluster_scoped_owner_is_found_from_any_namespace() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(NAMESPACES, {"metadata": {"name": "team"}})
        owner |= {"apiVersion": "v1", "kind": "Namespace"}
        await place.create(SECRETS, secret("token", owners=(owned_by(owner),)))
        await asyncio.sleep(2)
        assert await place.exists(SECRETS, "token")
        # when
        await place.client.delete(NAMESPACES, "", "team")
        # then
        await place.until(lambda: _is_gone(place, SECRETS, "token"), within_s=5.0)


async def test_an_owner_of_an_unserved_kind_causes_no_deletion() -> None:
    # given
    async with small_cluster() as place:
        unknown = {"apiVersion": "nowhere.test/v1", "kind": "Thing", "name": "x", "uid": "u"}
        await place.create(SECRETS, secret("kept", owners=(unknown,)))
        # when
        await asyncio.sleep(120)
        # then
        assert await place.exists(SECRETS, "kept")


async def test_an_object_with_another_owner_left_only_loses_the_reference() -> None:
    # given
    async with small_cluster() as place:
        entry = await place.create(CONFIG_MAPS, config_map("one"))
        other = await place.create(CONFIG_MAPS, config_map("other"))
        await place.create(SECRETS, secret("shared", owners=(owned_by(entry), owned_by(other))))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "one")
        await asyncio.sleep(2)
        # then
        assert await _owners(place, SECRETS, "shared") == ["other"]


# ── foreground ───────────────────────────────────────────────────────────────


async def test_foreground_deletion_deletes_the_owner_last() -> None:
    # given a dependent that terminates slowly
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        await place.create(PODS, pod("web", owners=[owned_by(owner, blocks=True)]))
        await place.create(SECRETS, secret("loose", owners=(owned_by(owner),)))
        await place.until(lambda: place.is_ready("web"))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await asyncio.sleep(0.5)
        # then
        metadata = (await place.get(CONFIG_MAPS, "owner"))["metadata"]
        assert metadata["finalizers"] == ["foregroundDeletion"]
        assert "deletionTimestamp" in (await place.get(PODS, "web"))["metadata"]
        assert not await place.exists(SECRETS, "loose")
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "owner"), within_s=5.0)
        assert not await place.exists(PODS, "web")


async def test_foreground_deletion_deletes_a_whole_family_from_the_bottom() -> None:
    # given a grandchild with a finalizer
    async with small_cluster() as place:
        await family(place, blocks=True)
        await place.merge(SECRETS, "grandchild", {"metadata": {"finalizers": ["example.com/hold"]}})
        # when
        await place.client.delete(CONFIG_MAPS, "default", "parent", propagation="Foreground")
        await asyncio.sleep(5)
        # then
        assert await place.exists(CONFIG_MAPS, "parent")
        assert await place.exists(CONFIG_MAPS, "child")
        # and when the finalizer is removed
        await place.merge(SECRETS, "grandchild", {"metadata": {"finalizers": None}})
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "parent"), within_s=5.0)
        assert not await place.exists(CONFIG_MAPS, "child")


async def test_objects_that_own_each_other_do_not_block_each_other_forever() -> None:
    # given
    async with small_cluster() as place:
        entry = await place.create(CONFIG_MAPS, config_map("one"))
        other = await place.create(CONFIG_MAPS, config_map("other", owners=[owned_by(entry, blocks=True)]))
        circle = {"metadata": {"ownerReferences": [owned_by(other, blocks=True)]}}
        await place.merge(CONFIG_MAPS, "one", circle)
        # when
        await place.client.delete(CONFIG_MAPS, "default", "one", propagation="Foreground")
        # then
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "one"), within_s=5.0)
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "other"), within_s=5.0)


async def test_an_owner_without_dependents_is_deleted_immediately_even_in_the_foreground() -> None:
    # given
    async with small_cluster() as place:
        await place.create(CONFIG_MAPS, config_map("alone"))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "alone", propagation="Foreground")
        # then
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "alone"), within_s=1.0)


async def test_a_dependent_created_while_its_owner_waits_is_deleted_too() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        held = config_map("held", owners=[owned_by(owner, blocks=True)], finalizers=["example.com/hold"])
        await place.create(CONFIG_MAPS, held)
        await place.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await asyncio.sleep(1)
        # when
        await place.create(SECRETS, secret("late", owners=(owned_by(owner, blocks=True),)))
        # then
        await place.until(lambda: _is_gone(place, SECRETS, "late"), within_s=2.0)


# ── orphan ───────────────────────────────────────────────────────────────────


async def test_orphans_lose_the_reference_and_stay() -> None:
    # given
    async with small_cluster() as place:
        parent = await family(place)
        other = await place.create(CONFIG_MAPS, config_map("other"))
        await place.create(PODS, pod("web", owners=[owned_by(parent, controller=True), owned_by(other)]))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "parent", propagation="Orphan")
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "parent"), within_s=2.0)
        await asyncio.sleep(5)
        # then
        assert await _owners(place, CONFIG_MAPS, "child") == []
        assert await _owners(place, PODS, "web") == ["other"]
        assert await _owners(place, SECRETS, "grandchild") == ["child"]


# ── custom resources ─────────────────────────────────────────────────────────


async def test_custom_resources_are_collected_and_own_others_once_they_are_served() -> None:
    # given
    async with small_cluster() as place:
        await place.create(CUSTOM_RESOURCE_DEFINITIONS, _widgets())
        await place.until(lambda: _is_watched(place), within_s=60.0)
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        widget = await place.create(WIDGETS, _widget("w", owners=[owned_by(owner)]))
        await place.create(SECRETS, secret("of-widget", owners=(owned_by(widget),)))
        await asyncio.sleep(2)
        assert await place.exists(SECRETS, "of-widget")
        # when
        await place.client.delete(CONFIG_MAPS, "default", "owner")
        # then
        await place.until(lambda: _is_gone(place, SECRETS, "of-widget"), within_s=5.0)
        assert not await place.exists(WIDGETS, "w")


async def test_orphaning_removes_references_from_custom_resources_too() -> None:
    # given: custom resources do not support strategic merge patches
    async with small_cluster() as place:
        await place.create(CUSTOM_RESOURCE_DEFINITIONS, _widgets())
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        other = await place.create(CONFIG_MAPS, config_map("other"))
        await place.create(WIDGETS, _widget("w", owners=[owned_by(owner), owned_by(other)]))
        await place.until(lambda: _is_watched(place), within_s=60.0)
        # when
        await place.client.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "owner"), within_s=5.0)
        # then
        assert await _owners(place, WIDGETS, "w") == ["other"]


async def test_a_resource_that_is_served_no_longer_is_forgotten() -> None:
    # given
    async with small_cluster() as place:
        await place.create(CUSTOM_RESOURCE_DEFINITIONS, _widgets())
        await place.until(lambda: _is_watched(place), within_s=60.0)
        before = place.cluster.collector.read_stats().resources
        # when
        await place.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(60)
        # then
        assert place.cluster.collector.read_stats().resources == before - 1


# ── many ─────────────────────────────────────────────────────────────────────


async def test_many_dependents_cost_no_read_of_their_owner_and_one_deletion_each() -> None:
    # given
    async with small_cluster() as place:
        owner = await place.create(CONFIG_MAPS, config_map("owner"))
        for number in range(300):
            await place.create(SECRETS, secret(f"s-{number}", owners=(owned_by(owner, blocks=True),)))
        # when
        await place.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await place.until(lambda: _is_gone(place, CONFIG_MAPS, "owner"), within_s=10.0)
        # then
        stats = place.cluster.collector.read_stats()
        assert stats.deletions == 300
        assert stats.live_reads == 0


async def _owners(place: Place, resource: Resource, name: str) -> list[str]:
    metadata = (await place.get(resource, name))["metadata"]
    return [ref["name"] for ref in metadata.get("ownerReferences") or ()]


async def _is_gone(place: Place, resource: Resource, name: str) -> bool:
    return not await place.exists(resource, name)


def _is_watched(place: Place) -> bool:
    return WIDGETS in place.cluster.collector.resources


def _widgets() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def _widget(name: str, *, owners: list[Object]) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "ownerReferences": owners},
    }
