"""PUT and PATCH: optimistic concurrency, allowed changes, and writes that change nothing."""

from typing import Any

import pytest

from support.api import (
    CONFIG_MAPS,
    JSON,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    Api,
    Reply,
    config_map,
    pod,
)

X = f"{CONFIG_MAPS}/x"
OTHER_UID = "11111111-1111-1111-1111-111111111111"
MODIFIED = (
    'Operation cannot be fulfilled on configmaps "x": the object has been modified; please '
    "apply your changes to the "
    "latest version and try again"
)


async def with_config_map(**data: str) -> tuple[Api, Reply]:
    api = Api.fresh()
    return api, await api.post(CONFIG_MAPS, config_map("x", data=data or {"a": "1"}))


async def test_an_update_replaces_everything_except_the_identity() -> None:
    # given
    api, made = await with_config_map(a="1")
    # when
    reply = await api.put(X, config_map("x", data={"b": "2"}, labels={"l": "v"}))
    # then
    assert reply.status == 200
    assert reply.doc["data"] == {"b": "2"}
    assert reply.meta["uid"] == made.meta["uid"]
    assert reply.meta["creationTimestamp"] == made.meta["creationTimestamp"]
    assert int(reply.revision) == int(made.revision) + 1


async def test_a_write_without_a_change_keeps_the_revision_and_sends_no_event() -> None:
    # given
    api, made = await with_config_map(a="1")
    # when
    put = await api.put(X, config_map("x", data={"a": "1"}))
    patched = await api.patch(X, {"data": {"a": "1"}})
    # then
    assert put.raw == patched.raw == made.raw
    assert await api.changes_since(CONFIG_MAPS, made.revision) == []


@pytest.mark.parametrize(
    ("metadata", "status", "reason", "message"),
    [
        ({"resourceVersion": "1"}, 409, "Conflict", MODIFIED),
        ({"resourceVersion": "abc"}, 500, "", 'strconv.ParseUint: parsing "abc": invalid syntax'),
        (
            {"name": "y"},
            400,
            "BadRequest",
            "the name of the object (y) does not match the name on the URL (x)",
        ),
        (
            {"name": ""},
            400,
            "BadRequest",
            "the name of the object (x based on URL) was undeterminable: name must be provided",
        ),
        (
            {"namespace": "other"},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_an_update_must_match_the_stored_object(
    metadata: dict[str, str], status: int, reason: str, message: str
) -> None:
    # given
    api, made = await with_config_map()
    # when
    reply = await api.put(X, {"metadata": {"name": "x", **metadata}})
    # then
    assert (reply.status, reply.reason, reply.message) == (status, reason, message)
    assert (await api.get(X)).raw == made.raw


async def test_the_uid_in_an_update_is_a_precondition() -> None:
    # given
    api, made = await with_config_map()
    # when
    reply = await api.put(X, config_map("x", uid=OTHER_UID))
    # then
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.message.endswith(
        f"Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: {made.meta['uid']}"
    )


async def test_the_uid_in_a_patch_is_immutable() -> None:
    """A real API server answers 422 here and 409 to a PUT; controllers that release a pod rely on the 422."""
    # given
    api, _ = await with_config_map()
    for kind in (MERGE, STRATEGIC):
        # when
        reply = await api.patch(X, {"metadata": {"uid": OTHER_UID}}, kind)
        # then
        assert (reply.status, reply.reason) == (422, "Invalid")
        assert reply.message == (
            f'ConfigMap "x" is invalid: metadata.uid: Invalid value: "{OTHER_UID}": field is immutable'
        )


async def test_the_resource_version_in_a_patch_is_a_precondition() -> None:
    # given
    api, made = await with_config_map()
    # when
    stale = await api.patch(X, {"metadata": {"resourceVersion": "1"}, "data": {"b": "2"}})
    fresh = await api.patch(X, {"metadata": {"resourceVersion": made.revision}, "data": {"b": "2"}})
    # then
    assert (stale.status, stale.message) == (409, MODIFIED)
    assert stale.doc["details"] == {"name": "x", "kind": "configmaps"}
    assert fresh.status == 200


async def test_only_some_kinds_are_created_by_an_update() -> None:
    # given
    api = Api.fresh()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    # when
    created = await api.put("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease)
    refused = await api.put(f"{CONFIG_MAPS}/nope", config_map("nope"))
    # then
    assert created.status == 201
    assert (refused.status, refused.message) == (404, 'configmaps "nope" not found')


async def test_only_some_kinds_accept_an_update_without_a_resource_version() -> None:
    # given
    api = Api.fresh()
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    lease = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 15}}
    made = await api.put(path, lease)
    # when
    blind = await api.put(path, lease)
    seeing = await api.put(path, {"metadata": {"name": "l", "resourceVersion": made.revision}})
    # then
    assert blind.status == 422
    assert blind.message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0x0: '
        "must be specified "
        "for an update"
    )
    assert seeing.status == 200


@pytest.mark.parametrize(
    ("kind", "patch", "after"),
    [
        (MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        (STRATEGIC, {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}],
            {"a": "1", "b": "2"},
        ),
    ],
)
async def test_each_patch_type_has_its_specified_effect(kind: str, patch: Any, after: dict[str, str]) -> None:
    # given
    api, _ = await with_config_map(a="1")
    # when
    reply = await api.patch(X, patch, kind)
    # then
    assert reply.status == 200
    assert reply.doc["data"] == after


@pytest.mark.parametrize(
    ("kind", "body", "status", "reason", "message"),
    [
        (MERGE, b'{"a"', 400, "BadRequest", "error decoding patch: unexpected end of JSON input"),
        (STRATEGIC, b'{"a"', 400, "BadRequest", "unexpected end of JSON input"),
        (
            JSON_PATCH,
            b"{}",
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp",
        ),
        (
            MERGE,
            b"[]",
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}",
        ),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "2"}],
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        (
            JSON_PATCH,
            [{"op": "remove", "path": "/data/nope"}],
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        (
            MERGE,
            {"metadata": {"name": "y"}},
            400,
            "BadRequest",
            "the name of the object (y) does not match the name on the URL (x)",
        ),
        (
            MERGE,
            {"metadata": {"namespace": "y"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            MERGE,
            {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
            422,
            "Invalid",
            'ConfigMap "x" is invalid: metadata.deletionTimestamp: Invalid value: 2020-01-01 '
            "00:00:00 +0000 UTC: field is immutable",
        ),
        (JSON, {"data": {}}, 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    ],
)
async def test_a_patch_that_does_not_fit_is_refused(
    kind: str, body: Any, status: int, reason: str, message: str
) -> None:
    # given
    api, made = await with_config_map(a="1")
    # when
    reply = await api.patch(X, body, kind)
    # then
    assert (reply.status, reply.reason, reply.message) == (status, reason, message)
    assert (await api.get(X)).raw == made.raw


async def test_a_patch_that_gives_a_value_of_a_wrong_type_shows_what_it_would_have_made() -> None:
    # given
    api, _ = await with_config_map(a="1")
    # when
    reply = await api.patch(X, {"data": {"a": 1}})
    # then
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message.startswith(' "" is invalid: patch: Invalid value: "{')
    assert reply.message.endswith(
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )


async def test_a_patch_cannot_make_another_kind_of_an_object() -> None:
    # given
    api, _ = await with_config_map()
    # when
    replies = [await api.patch(X, change) for change in ({"kind": "Secret"}, {"apiVersion": "v2"})]
    # then
    assert [reply.status for reply in replies] == [422, 422]


async def test_force_belongs_to_server_side_apply() -> None:
    # given
    api, _ = await with_config_map()
    # when
    reply = await api.patch(X, {}, force="true")
    # then
    assert reply.message == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )


async def test_a_strategic_patch_merges_containers_by_name() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a", image="nginx:1"))
    # when
    reply = await api.patch(
        f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}, STRATEGIC
    )
    # then
    assert reply.doc["spec"]["containers"][0]["image"] == "nginx:2"
    assert reply.doc["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


async def test_dry_run_of_an_update_keeps_the_stored_object() -> None:
    # given
    api, made = await with_config_map(a="1")
    # when
    reply = await api.patch(X, {"data": {"a": "2"}}, dryRun="All")
    # then
    assert reply.doc["data"] == {"a": "2"}
    assert reply.revision == made.revision
    assert (await api.get(X)).raw == made.raw


async def test_generation_counts_changes_of_the_spec_only() -> None:
    # given
    api = Api.fresh()
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.post(path, {"metadata": {"name": "d"}, "spec": spec})
    # when
    generations = [
        (await api.patch(f"{path}/d{endpoint}", change)).meta["generation"]
        for endpoint, change in (
            ("", {"metadata": {"labels": {"x": "y"}, "generation": 77}}),
            ("", {"spec": {"replicas": 3}}),
            ("/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}),
            ("", {"status": {"replicas": 4}}),
        )
    ]
    # then
    assert generations == [1, 2, 2, 2]
    reply = await api.get(f"{path}/d")
    assert (reply.doc["spec"]["replicas"], reply.doc["status"]["replicas"]) == (3, 3)


async def test_a_label_that_was_stored_before_is_not_checked_again() -> None:
    # given an object with a label that is invalid under a newer rule
    api, made = await with_config_map()
    core = api.server._core
    entry = core.catalog.find_entry("", "v1", "configmaps")
    assert entry is not None
    stored = core.get(entry, "default", "x")
    doc = made.doc
    doc["metadata"]["labels"] = {"a b": "c"}
    core.put(entry, stored, doc)
    # when
    untouched = await api.patch(X, {"data": {"z": "1"}})
    touched = await api.patch(X, {"metadata": {"labels": {"d": "e"}}})
    # then
    assert untouched.status == 200
    assert touched.status == 422
