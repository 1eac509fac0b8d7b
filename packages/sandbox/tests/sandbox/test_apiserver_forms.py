"""Tables, metadata only, and YAML: responses for the Accept header."""

from typing import Any

import pytest

from support.api import CONFIG_MAPS, CRDS, PODS, WIDGETS, Api, config_map, pod, ready, widget, widget_crd

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


async def with_pods(*names: str) -> Api:
    api = Api.fresh()
    for name in names:
        await api.post(PODS, pod(name))
    return api


async def test_a_table_of_pods_has_their_columns_and_metadata() -> None:
    # given
    api = await with_pods("a", "b")
    # when
    reply = await api.get(PODS, accept=TABLE)
    # then
    assert (reply.doc["kind"], reply.doc["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert reply.meta == {"resourceVersion": api.now()}
    assert [column["name"] for column in reply.doc["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert [row["cells"][:3] for row in reply.doc["rows"]] == [
        ["a", "0/1", "Pending"],
        ["b", "0/1", "Pending"],
    ]
    assert reply.doc["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert reply.doc["rows"][0]["object"]["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("include", "check"),
    [
        ("None", lambda row: row["object"] is None),
        ("Metadata", lambda row: row["object"]["kind"] == "PartialObjectMetadata"),
        ("Object", lambda row: row["object"]["spec"]["containers"][0]["image"] == "nginx:1"),
    ],
)
async def test_a_table_row_includes_the_requested_object(include: str, check: Any) -> None:
    # given
    api = await with_pods("a")
    # when
    reply = await api.get(f"{PODS}/a", accept=TABLE, includeObject=include)
    # then
    assert check(reply.doc["rows"][0])


async def test_rows_cannot_carry_just_anything() -> None:
    # given
    api = await with_pods("a")
    # when
    reply = await api.get(f"{PODS}/a", accept=TABLE, includeObject="Everything")
    # then
    assert reply.status == 400
    assert 'includeObject: Invalid value: "Everything"' in reply.message


async def test_pages_of_a_table_continue() -> None:
    # given
    api = await with_pods("a", "b")
    # when
    first = await api.get(PODS, accept=TABLE, limit="1")
    second = await api.get(PODS, accept=TABLE, limit="1", **{"continue": first.meta["continue"]})
    # then
    assert first.meta["remainingItemCount"] == 1
    assert [row["cells"][0] for row in (*first.doc["rows"], *second.doc["rows"])] == ["a", "b"]


async def test_a_watch_can_be_a_table() -> None:
    # given
    api = await with_pods()
    stream = await api.watch(PODS, accept=TABLE, resourceVersion=api.now())
    # when
    await api.post(PODS, pod("a"))
    [(kind, seen)] = await ready(stream)
    await stream.aclose()
    # then
    assert kind == "ADDED"
    assert seen["kind"] == "Table"
    assert [row["cells"][0] for row in seen["rows"]] == ["a"]


async def test_custom_resources_have_the_columns_of_their_crd() -> None:
    # given
    api = Api.fresh()
    await api.post(CRDS, widget_crd())
    await api.post(WIDGETS, widget("w"))
    # when
    reply = await api.get(WIDGETS, accept=TABLE)
    # then
    assert [column["name"] for column in reply.doc["columnDefinitions"]] == ["Name", "Size"]
    assert [row["cells"] for row in reply.doc["rows"]] == [["w", "small"]]


async def test_metadata_alone_can_be_had_of_objects_lists_and_watches() -> None:
    # given
    api = Api.fresh()
    made = await api.post(CONFIG_MAPS, config_map("x", data={"big": "thing"}))
    # when
    reply = await api.get(f"{CONFIG_MAPS}/x", accept=PARTIAL)
    many = await api.get(CONFIG_MAPS, accept=PARTIAL_LIST)
    stream = await api.watch(CONFIG_MAPS, accept=PARTIAL)
    [(_, seen)] = await ready(stream)
    await stream.aclose()
    # then
    bare = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made.meta}
    assert reply.doc == seen == bare
    assert (many.doc["kind"], many.doc["items"]) == ("PartialObjectMetadataList", [bare])


async def test_errors_are_a_status_in_every_form() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(f"{PODS}/nope", accept=TABLE)
    # then
    assert (reply.status, reply.doc["kind"]) == (404, "Status")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "Pod"),
        ("application/*", "Pod"),
        ("text/html, application/json;q=0.5", "Pod"),
        ("application/vnd.kubernetes.protobuf,application/json", "Pod"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "Pod"),
        ("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9", "Table"),
        (";;;,application/json;q=x", "Pod"),
        ("text/html", None),
        ("application/vnd.kubernetes.protobuf", None),
    ],
)
async def test_the_best_supported_media_type_is_chosen(accept: str, kind: str | None) -> None:
    # given
    api = await with_pods("a")
    # when
    reply = await api.get(f"{PODS}/a", accept=accept)
    # then
    if kind is None:
        assert (reply.status, reply.reason) == (406, "NotAcceptable")
    else:
        assert reply.doc["kind"] == kind
