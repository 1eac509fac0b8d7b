"""DELETE: preconditions, grace periods, finalizers, propagation, and responses."""

import asyncio
from typing import Any

import pytest

from support.api import CONFIG_MAPS, PODS, Api, config_map, pod

X = f"{CONFIG_MAPS}/x"
A = f"{PODS}/a"


async def with_config_map(**metadata: Any) -> Api:
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x", **metadata))
    return api


async def with_pod(**options: Any) -> Api:
    api = Api.fresh()
    await api.post(PODS, pod("a", **options))
    return api


async def test_a_deletion_of_most_kinds_is_immediate_with_a_status_as_the_answer() -> None:
    # given
    api = await with_config_map()
    uid = (await api.get(X)).meta["uid"]
    # when
    reply = await api.delete(X)
    # then
    assert reply.doc == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "x", "kind": "configmaps", "uid": uid},
    }
    assert (await api.get(X)).status == 404
    assert (await api.delete(X)).message == 'configmaps "x" not found'


@pytest.mark.parametrize(
    ("preconditions", "message"),
    [
        (
            {"uid": "other"},
            'Operation cannot be fulfilled on ConfigMap "x": the UID in the precondition (other) '
            "does not match the UID in record ({uid}). The object might have been deleted and then recreated",
        ),
        (
            {"resourceVersion": "1"},
            'Operation cannot be fulfilled on ConfigMap "x": the ResourceVersion in the precondition '
            "(1) does not match the ResourceVersion in record ({rv}). The object might have been modified",
        ),
    ],
)
async def test_preconditions_must_hold(preconditions: dict[str, str], message: str) -> None:
    # given
    api = await with_config_map()
    result = await api.get(X)
    # when
    reply = await api.delete(X, {"preconditions": preconditions})
    # then
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.message == message.format(uid=result.meta["uid"], rv=result.revision)
    assert (await api.get(X)).status == 200


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({"propagationPolicy": "Sideways"}, 422, "propagationPolicy: Unsupported value"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"dryRun": ["Some"]}, 422, 'dryRun: Unsupported value: []string{"Some"}'),
        ({"gracePeriodSeconds": "soon"}, 400, "gracePeriodSeconds"),
        ({"preconditions": []}, 400, "preconditions"),
        ({"kind": "Foo", "apiVersion": "v1"}, 500, 'no kind "Foo" is registered'),
        (b"{", 400, "unexpected end of JSON input"),
    ],
)
async def test_options_that_cannot_be_read_delete_nothing(options: Any, status: int, text: str) -> None:
    # given
    api = await with_config_map()
    # when
    reply = await api.delete(X, options)
    # then
    assert reply.status == status
    assert text in reply.message
    assert (await api.get(X)).status == 200


async def test_dry_run_deletes_nothing() -> None:
    # given
    api = await with_config_map()
    before = api.now()
    # when
    replies = [await api.delete(X, dryRun="All"), await api.delete(X, {"dryRun": ["All"]})]
    # then
    assert [reply.doc["status"] for reply in replies] == ["Success", "Success"]
    assert (await api.get(X)).status == 200
    assert api.now() == before


async def test_a_finalizer_keeps_an_object_until_its_removal() -> None:
    # given
    api = await with_config_map(finalizers=["a.b/c"])
    # when
    marked = await api.delete(X)
    again = await api.delete(X)
    released = await api.patch(X, {"metadata": {"finalizers": None}})
    # then
    assert marked.meta["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert marked.meta["deletionGracePeriodSeconds"] == 0
    assert again.raw == marked.raw
    assert "finalizers" not in released.meta
    assert (await api.get(X)).status == 404


async def test_the_removal_by_the_last_finalizer_shows_the_previous_object() -> None:
    # given
    api = await with_config_map(finalizers=["a.b/c"])
    begin = (await api.delete(X)).revision
    # when
    await api.patch(X, {"metadata": {"finalizers": []}})
    # then
    [(kind, seen)] = await api.changes_since(CONFIG_MAPS, begin)
    assert kind == "DELETED"
    assert seen["metadata"]["finalizers"] == ["a.b/c"]
    assert seen["metadata"]["resourceVersion"] == api.now()


async def test_a_terminating_object_accepts_no_new_finalizer_and_keeps_its_deletion_time() -> None:
    # given
    api = await with_config_map(finalizers=["a.b/c"])
    marked = await api.delete(X)
    # when
    added = await api.patch(X, {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})
    unset = await api.patch(X, {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}})
    # then
    assert added.message == (
        'ConfigMap "x" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added '
        "if the object is "
        'being deleted, found new finalizers []string{"d.e/f"}'
    )
    assert unset.raw == marked.raw


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
async def test_propagation_leaves_a_finalizer_for_the_garbage_collector(
    options: dict[str, Any], finalizers: list[str]
) -> None:
    # given
    api = await with_config_map()
    # when
    reply = await api.delete(X, options)
    # then
    assert reply.meta["finalizers"] == finalizers
    assert reply.meta["deletionTimestamp"]
    # and a background deletion removes the garbage collector's finalizer
    await api.delete(X, {"propagationPolicy": "Background"})
    assert (await api.get(X)).status == 404


async def test_jobs_orphan_their_pods_by_default_with_a_warning() -> None:
    # given
    api = Api.fresh()
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name in "ab":
        await api.post(jobs, {"metadata": {"name": name}, "spec": {"template": template}})
    # when
    plain = await api.delete(f"{jobs}/a")
    background = await api.delete(f"{jobs}/b", {"propagationPolicy": "Background"})
    # then
    assert plain.meta["finalizers"] == ["orphan"]
    assert "child pods are preserved by default" in plain.headers["warning"]
    assert background.doc["status"] == "Success"


async def test_events_ignore_the_propagation_policy() -> None:
    # given
    api = Api.fresh()
    path = "/api/v1/namespaces/default/events"
    await api.post(path, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}})
    # when
    reply = await api.delete(f"{path}/e", {"propagationPolicy": "Foreground"})
    # then
    assert reply.doc["status"] == "Success"
    assert (await api.get(f"{path}/e")).status == 404


async def test_deletion_counts_as_a_change_of_the_spec() -> None:
    # given
    api = Api.fresh()
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.post(path, {"metadata": {"name": "d"}, "spec": spec})
    # when
    reply = await api.delete(f"{path}/d", {"propagationPolicy": "Foreground"})
    # then
    assert reply.meta["generation"] == 2


# --- pods


async def test_a_running_pod_gets_its_grace() -> None:
    # given
    api = await with_pod(node="n1")
    # when
    reply = await api.delete(A)
    # then
    assert reply.status == 200
    assert reply.meta["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert reply.meta["deletionGracePeriodSeconds"] == 30


async def test_grace_can_only_be_shortened() -> None:
    # given
    api = await with_pod(node="n1")
    marked = await api.delete(A, {"gracePeriodSeconds": 60})
    await asyncio.sleep(5)
    # when
    longer = await api.delete(A, {"gracePeriodSeconds": 90})
    unsaid = await api.delete(A)
    shorter = await api.delete(A, {"gracePeriodSeconds": 10})
    # then
    assert longer.raw == unsaid.raw == marked.raw
    assert shorter.meta["deletionGracePeriodSeconds"] == 10
    assert shorter.meta["deletionTimestamp"] == "2023-11-14T22:13:30Z", "counted from when the deletion began"


@pytest.mark.parametrize(
    ("options", "prepare"),
    [({}, "unscheduled"), ({}, "Succeeded"), ({}, "Failed"), ({"gracePeriodSeconds": 0}, "Running")],
)
async def test_pods_without_a_grace_period_are_deleted_immediately(
    options: dict[str, Any], prepare: str
) -> None:
    # given
    api = await with_pod(node="" if prepare == "unscheduled" else "n1")
    if prepare != "unscheduled":
        await api.patch(f"{A}/status", {"status": {"phase": prepare}})
    begin = api.now()
    # when
    reply = await api.delete(A, options)
    # then
    assert reply.doc["kind"] == "Pod"
    assert (await api.get(A)).status == 404
    assert [kind for kind, _ in await api.changes_since(PODS, begin)] == ["MODIFIED", "DELETED"]


async def test_a_kubelet_removes_a_terminating_pod_with_no_grace_and_its_uid() -> None:
    # given
    api = await with_pod(node="n1")
    uid = (await api.delete(A)).meta["uid"]
    # when
    await api.delete(A, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    # then
    assert (await api.get(A)).status == 404


async def test_a_negative_grace_period_is_one_second() -> None:
    # given
    api = await with_pod(node="n1")
    # when
    reply = await api.delete(A, {"gracePeriodSeconds": -5})
    # then
    assert reply.meta["deletionGracePeriodSeconds"] == 1


async def test_a_pod_with_a_finalizer_stays_after_its_grace_period() -> None:
    # given
    api = await with_pod(node="n1", finalizers=["a.b/c"])
    await api.delete(A)
    # when
    ended = await api.delete(A, {"gracePeriodSeconds": 0})
    # then
    assert ended.meta["deletionGracePeriodSeconds"] == 0
    assert (await api.get(A)).status == 200
    await api.patch(A, {"metadata": {"finalizers": None}})
    assert (await api.get(A)).status == 404


async def test_losing_its_finalizers_does_not_cut_a_pods_grace_short() -> None:
    # given
    api = await with_pod(node="n1", finalizers=["a.b/c"])
    await api.delete(A)
    # when
    await api.patch(A, {"metadata": {"finalizers": None}})
    # then
    assert (await api.get(A)).meta["deletionGracePeriodSeconds"] == 30


# --- many


async def test_a_collection_is_deleted_by_selector_and_answered_with_what_was_there() -> None:
    # given
    api = Api.fresh()
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(CONFIG_MAPS, config_map(name, labels={"l": label}))
    # when
    reply = await api.delete(CONFIG_MAPS, labelSelector="l=x")
    # then
    assert reply.doc["kind"] == "ConfigMapList"
    assert reply.names == ["a", "c"]
    assert (await api.get(CONFIG_MAPS)).names == ["b"]


async def test_a_collection_of_running_pods_is_marked() -> None:
    # given
    api = Api.fresh()
    for name in "ab":
        await api.post(PODS, pod(name, node="n1"))
    # when
    await api.delete(PODS, {"gracePeriodSeconds": 7})
    # then
    result = (await api.get(PODS)).doc["items"]
    assert [item["metadata"]["deletionGracePeriodSeconds"] for item in result] == [7, 7]


async def test_namespaces_are_not_deleted_by_the_collection() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.delete("/api/v1/namespaces")
    # then
    assert reply.status == 405


# --- events


async def test_events_are_forgotten_an_hour_after_their_last_change() -> None:
    # given
    api = Api.fresh()
    path = "/api/v1/namespaces/default/events"

    async def happen(name: str) -> None:
        await api.post(path, {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}})

    await happen("old")
    await happen("renewed")
    await asyncio.sleep(1_800)
    await api.patch(f"{path}/renewed", {"count": 2})
    # when
    await asyncio.sleep(1_801)
    await happen("new")
    then = (await api.get(path)).names
    await asyncio.sleep(1_800)
    await happen("newer")
    # then
    assert then == ["new", "renewed"]
    assert (await api.get(path)).names == ["new", "newer"]
