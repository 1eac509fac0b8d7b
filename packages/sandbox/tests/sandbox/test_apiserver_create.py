"""POST: identity, names, namespaces, and refusals in the words of a real API server."""

import re
from typing import Any

import pytest

from support.api import CONFIG_MAPS, PODS, Api, config_map, pod

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


async def test_a_new_object_gets_an_identity_and_the_next_revision() -> None:
    # given
    api = Api.fresh()
    before = int(api.now())
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x", data={"a": "b"}))
    # then
    assert reply.status == 201
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", reply.meta["uid"]
    )
    assert reply.meta["namespace"] == "default"
    assert reply.meta["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert int(reply.revision) == before + 1 == int(api.now())
    assert (await api.get(f"{CONFIG_MAPS}/x")).raw == reply.raw


async def test_the_same_seed_gives_the_same_ids_and_names() -> None:
    # given
    bodies = [config_map("x"), {"metadata": {"generateName": "g-"}}]
    # when
    first, second = [
        [(await api.post(CONFIG_MAPS, body)).raw for body in bodies]
        for api in (Api.fresh(seed=7), Api.fresh(seed=7))
    ]
    # then
    assert first == second


async def test_server_owned_metadata_of_a_creator_is_ignored() -> None:
    # given
    api = Api.fresh()
    claims: dict[str, Any] = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 3,
        "selfLink": "/me",
    }
    # when
    meta = (await api.post(CONFIG_MAPS, config_map("x", **claims))).meta
    # then
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"].startswith("2023-")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & meta.keys()


async def test_generation_starts_at_one_for_kinds_that_count_it() -> None:
    # given
    api = Api.fresh()
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "generation": 9},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        },
    }
    # when
    counted = await api.post("/apis/batch/v1/namespaces/default/jobs", job)
    not_counted = await api.post(CONFIG_MAPS, config_map())
    # then
    assert counted.meta["generation"] == 1
    assert "generation" not in not_counted.meta


async def test_a_generated_name_is_the_base_and_five_characters_that_spell_nothing() -> None:
    # given
    api = Api.fresh()
    # when
    short = (await api.post(CONFIG_MAPS, {"metadata": {"generateName": "web-"}})).meta["name"]
    long = (await api.post(CONFIG_MAPS, {"metadata": {"generateName": "a" * 80}})).meta["name"]
    # then
    assert re.fullmatch(rf"web-[{ALPHABET}]{{5}}", short)
    assert re.fullmatch(rf"a{{58}}[{ALPHABET}]{{5}}", long)


async def test_a_generated_name_that_is_taken_is_generated_again() -> None:
    # given a server whose next generated name is taken already
    taken = (await Api.fresh(seed=3).post(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})).meta["name"]
    api = Api.fresh(seed=3)
    state = api.server._core.rng.getstate()
    await api.post(CONFIG_MAPS, config_map(taken))
    api.server._core.rng.setstate(state)
    # when
    reply = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})
    # then
    assert reply.status == 201
    assert reply.meta["name"] != taken


async def test_a_name_can_be_had_once() -> None:
    # given
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    # when
    reply = await api.post(PODS, pod("a"))
    # then
    assert (reply.status, reply.reason) == (409, "AlreadyExists")
    assert reply.message == 'pods "a" already exists'
    assert reply.doc["details"] == {"name": "a", "kind": "pods"}


@pytest.mark.parametrize(
    ("body", "status", "reason", "message"),
    [
        (
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            config_map("x", namespace="other"),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            config_map("x", resourceVersion="4"),
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        (
            {**config_map(), "apiVersion": "v2"},
            400,
            "BadRequest",
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is '
            'registered for version "v2" in scheme "pkg/runtime/scheme.go:100"',
        ),
        (
            {**config_map(), "kind": "Pod"},
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to '
            "(core.ConfigMap): unknown conversion",
        ),
        (
            {**config_map(), "data": {"a": 1}},
            400,
            "BadRequest",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            b'{"a":',
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get "
            'version/kind; json parse error: unexpected end of JSON input ({"a":)',
        ),
        (
            b"",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get "
            "version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            config_map("x", finalizers=["unqualified"]),
            422,
            "Invalid",
            'ConfigMap "x" is invalid: metadata.finalizers[0]: Invalid value: "unqualified": name is '
            "neither a standard finalizer name nor is it fully qualified",
        ),
    ],
)
async def test_a_body_that_cannot_be_created_is_refused_in_the_words_of_a_real_server(
    body: Any, status: int, reason: str, message: str
) -> None:
    # given
    api = Api.fresh()
    before = api.now()
    # when
    reply = await api.post(CONFIG_MAPS, body)
    # then
    assert (reply.status, reply.reason, reply.message) == (status, reason, message)
    assert reply.doc["kind"] == "Status"
    assert reply.doc["code"] == status
    assert api.now() == before


async def test_all_metadata_errors_are_reported_together() -> None:
    # given
    api = Api.fresh()
    owners = [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]
    body = config_map("Bad_Name", labels={"a b": "c d"}, annotations={"-x": ""}, ownerReferences=owners)
    # when
    reply = await api.post(CONFIG_MAPS, body)
    # then
    assert reply.status == 422
    assert [cause["field"] for cause in reply.causes] == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences.apiVersion",
        "metadata.ownerReferences.kind",
        "metadata.ownerReferences.name",
        "metadata.ownerReferences.uid",
    ]
    assert {cause["reason"] for cause in reply.causes} == {"FieldValueInvalid"}
    assert reply.message.startswith(
        'ConfigMap "Bad_Name" is invalid: [metadata.name: Invalid value: "Bad_Name": a '
    )


async def test_at_most_one_owner_is_the_controller() -> None:
    # given
    api = Api.fresh()
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"
    ]
    # when
    reply = await api.post(CONFIG_MAPS, config_map(ownerReferences=owners))
    # then
    assert reply.status == 422
    assert reply.message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


@pytest.mark.parametrize(
    ("path", "kind", "name", "allowed"),
    [
        ("/api/v1/namespaces", "Namespace", "a.b", False),
        ("/api/v1/namespaces/default/services", "Service", "1a", False),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole", "system:a", True),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole", "a/b", False),
        (CONFIG_MAPS, "ConfigMap", "a.b", True),
        (CONFIG_MAPS, "ConfigMap", "a" * 254, False),
    ],
)
async def test_each_kind_has_its_rule_for_names(path: str, kind: str, name: str, allowed: bool) -> None:
    # given
    api = Api.fresh()
    body: dict[str, Any] = {"metadata": {"name": name}}
    if kind == "Service":
        body["spec"] = {"ports": [{"port": 80}]}
    # when
    reply = await api.post(path, body)
    # then
    if allowed:
        assert reply.status == 201
    else:
        assert reply.status == 422
        assert reply.causes[0]["field"] == "metadata.name"


async def test_dry_run_answers_as_if_and_stores_nothing() -> None:
    # given
    api = Api.fresh()
    before = api.now()
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"), dryRun="All")
    # then
    assert reply.status == 201
    assert reply.meta["uid"]
    assert "resourceVersion" not in reply.meta
    assert (await api.get(f"{CONFIG_MAPS}/x")).status == 404
    assert api.now() == before


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"dryRun": "Some"}, "dryRun"),
        ({"fieldValidation": "Maybe"}, "fieldValidation"),
        ({"fieldManager": "x" * 129}, "fieldManager"),
    ],
)
async def test_unknown_options_are_refused(query: dict[str, str], field: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.post(CONFIG_MAPS, config_map(), **query)
    # then
    assert reply.status == 422
    assert reply.message.startswith(f'CreateOptions.meta.k8s.io "" is invalid: {field}: ')


@pytest.mark.parametrize(
    ("mode", "status", "warning"),
    [("Ignore", 201, None), ("Warn", 201, '299 - "unknown field \\"foo\\""'), ("Strict", 400, None)],
)
async def test_unknown_fields_are_dropped_warned_of_or_refused(
    mode: str, status: int, warning: str | None
) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.post(CONFIG_MAPS, {**config_map(), "foo": 1}, fieldValidation=mode)
    # then
    assert reply.status == status
    assert reply.headers.get("warning") == warning
    assert "foo" not in reply.doc
    if mode == "Strict":
        assert reply.message.endswith(
            'cannot be handled as a ConfigMap: strict decoding error: unknown field "foo"'
        )


async def test_yaml_is_read_and_written() -> None:
    # given
    api = Api.fresh()
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: z\ndata:\n  day: 2024-01-01\n  m: '1'\n"
    # when
    reply = await api.call("POST", CONFIG_MAPS, body, content_type="application/yaml")
    shown = await api.get(f"{CONFIG_MAPS}/z", accept="application/yaml")
    # then
    assert reply.doc["data"] == {"day": "2024-01-01", "m": "1"}
    assert shown.headers["content-type"] == "application/yaml"
    assert b"name: z" in shown.raw


async def test_a_body_in_another_format_or_too_large_is_refused() -> None:
    # given
    api = Api.fresh()
    # when
    form = await api.call("POST", CONFIG_MAPS, b"a=b", content_type="application/x-www-form-urlencoded")
    large = await api.post(CONFIG_MAPS, b'"' + b"x" * (3 << 20) + b'"')
    # then
    assert (form.status, form.reason) == (415, "UnsupportedMediaType")
    assert (large.status, large.reason) == (413, "RequestEntityTooLarge")
    assert large.message == "Request entity too large: limit is 3145728"


async def test_a_collection_across_namespaces_takes_no_objects() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.post("/api/v1/configmaps", config_map())
    # then
    assert (reply.status, reply.reason) == (405, "MethodNotAllowed")


async def test_questions_are_answered_and_stored_nowhere() -> None:
    # given
    api = Api.fresh()
    before = api.now()
    question = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    # when
    may_i = await api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question)
    who_am_i = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    asked = await api.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    # then
    assert (may_i.status, may_i.doc["status"]["allowed"]) == (201, True)
    assert who_am_i.doc["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert asked.status == 405
    assert api.now() == before


async def test_only_one_priority_class_may_be_the_default() -> None:
    # given
    api, path = Api.fresh(), "/apis/scheduling.k8s.io/v1/priorityclasses"
    first = await api.post(path, {"metadata": {"name": "first"}, "value": 5, "globalDefault": True})
    # when another one is created as the default, or is made the default later
    second = await api.post(path, {"metadata": {"name": "second"}, "value": 6, "globalDefault": True})
    await api.post(path, {"metadata": {"name": "third"}, "value": 7})
    third = await api.patch(f"{path}/third", {"globalDefault": True})
    # then both are rejected
    assert (first.status, second.status, third.status) == (201, 403, 403)
    assert second.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    # and the default may be updated
    assert (await api.patch(f"{path}/first", {"description": "x"})).status == 200
