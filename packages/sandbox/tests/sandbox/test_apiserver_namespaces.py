"""Namespaces: objects that may be created in them, and their deletion."""

import pytest

from support.api import CONFIG_MAPS, Api, config_map

NAMESPACES = "/api/v1/namespaces"
TEAM = "/api/v1/namespaces/team"


async def with_team(**metadata: object) -> Api:
    api = Api.fresh()
    await api.post(NAMESPACES, {"metadata": {"name": "team", **metadata}})
    return api


async def test_a_server_starts_with_the_namespaces_every_cluster_has() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(NAMESPACES)
    # then
    assert reply.names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert all(item["status"] == {"phase": "Active"} for item in reply.doc["items"])


async def test_a_new_namespace_is_active_labelled_and_held_by_kubernetes() -> None:
    # given
    api = await with_team()
    # when
    reply = await api.get(TEAM)
    # then
    assert reply.meta["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert reply.doc["spec"] == {"finalizers": ["kubernetes"]}
    assert reply.doc["status"] == {"phase": "Active"}


async def test_nothing_is_created_in_a_missing_namespace() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.post("/api/v1/namespaces/nope/configmaps", config_map())
    # then
    assert (reply.status, reply.reason, reply.message) == (404, "NotFound", 'namespaces "nope" not found')


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_cannot_be_deleted(name: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.delete(f"{NAMESPACES}/{name}")
    # then
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_a_deleted_namespace_terminates_until_it_is_finalized() -> None:
    # given
    api = await with_team()
    # when
    marked = await api.delete(TEAM)
    again = await api.delete(TEAM)
    # then
    assert marked.doc["status"] == {"phase": "Terminating"}
    assert marked.meta["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in marked.meta
    assert again.raw == marked.raw


async def test_a_terminating_namespace_accepts_updates_but_no_new_objects() -> None:
    # given
    api = await with_team()
    await api.post(f"{TEAM}/configmaps", config_map("old"))
    await api.delete(TEAM)
    # when
    named = await api.post(f"{TEAM}/configmaps", config_map("x"))
    unnamed = await api.post(f"{TEAM}/configmaps", {"metadata": {"generateName": "g-"}})
    changed = await api.patch(f"{TEAM}/configmaps/old", {"data": {"a": "b"}})
    # then
    why = "is forbidden: unable to create new content in namespace team because it is being terminated"
    assert (named.status, named.message) == (403, f'configmaps "x" {why}')
    assert named.causes == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]
    assert unnamed.message == f'configmaps "g-" {why}'
    assert changed.status == 200


async def test_finalizing_a_terminating_namespace_removes_it() -> None:
    # given
    api = await with_team()
    await api.delete(TEAM)
    # when
    reply = await api.put(f"{TEAM}/finalize", {"metadata": {"name": "team"}, "spec": {"finalizers": []}})
    # then
    assert reply.status == 200
    assert reply.doc["status"] == {"phase": "Terminating"}
    assert (await api.get(TEAM)).status == 404


async def test_finalizing_does_not_remove_what_is_not_deleted_or_still_held() -> None:
    # given
    api = await with_team(finalizers=["a.b/c"])
    body = {"metadata": {"name": "team", "finalizers": ["a.b/c"]}, "spec": {}}
    # when
    await api.put(f"{TEAM}/finalize", body)
    alive = await api.get(TEAM)
    await api.delete(TEAM)
    held = await api.delete(TEAM)
    # then
    assert alive.doc["status"] == {"phase": "Active"}
    assert held.meta["finalizers"] == ["a.b/c"]
    await api.patch(TEAM, {"metadata": {"finalizers": None}})
    assert (await api.get(TEAM)).status == 404


async def test_an_update_does_not_change_the_finalizers_of_the_spec() -> None:
    # given
    api = await with_team()
    # when
    reply = await api.patch(TEAM, {"spec": {"finalizers": []}, "status": {"phase": "Terminating"}})
    # then
    assert reply.doc["spec"] == {"finalizers": ["kubernetes"]}
    assert reply.doc["status"] == {"phase": "Active"}


async def test_objects_of_a_namespace_are_listed_apart() -> None:
    # given
    api = await with_team()
    await api.post(f"{TEAM}/configmaps", config_map("x"))
    await api.post(CONFIG_MAPS, config_map("x"))
    # when
    reply = await api.get(f"{TEAM}/configmaps")
    everywhere = await api.get("/api/v1/configmaps", fieldSelector="metadata.namespace!=kube-system")
    # then
    assert [item["metadata"]["namespace"] for item in reply.doc["items"]] == ["team"]
    assert [item["metadata"]["namespace"] for item in everywhere.doc["items"]] == ["default", "team"]
