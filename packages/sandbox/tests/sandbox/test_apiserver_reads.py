"""GET: objects, lists that are snapshots, pages, selectors, and resource versions."""

import base64
from typing import Any

import orjson
import pytest

from support.api import CONFIG_MAPS, PODS, Api, config_map, pod


async def with_config_maps(*names: str) -> Api:
    api = Api.fresh()
    for name in names:
        await api.post(CONFIG_MAPS, config_map(name, data={"name": name}))
    return api


async def test_items_of_built_in_lists_do_not_repeat_their_kind() -> None:
    # given
    api = await with_config_maps("a")
    # when
    reply = await api.get(CONFIG_MAPS)
    # then
    assert reply.doc["kind"] == "ConfigMapList"
    assert reply.doc["apiVersion"] == "v1"
    assert reply.doc["metadata"] == {"resourceVersion": api.now()}
    assert reply.doc["items"][0].keys() == {"metadata", "data"}
    assert (await api.get(f"{CONFIG_MAPS}/a")).doc["kind"] == "ConfigMap"


async def test_pages_belong_to_the_snapshot_of_the_first() -> None:
    # given
    api = await with_config_maps("a", "b", "c", "d")
    first = await api.get(CONFIG_MAPS, limit="2")
    # when
    await api.delete(f"{CONFIG_MAPS}/c")
    await api.patch(f"{CONFIG_MAPS}/d", {"data": {"name": "changed"}})
    await api.post(CONFIG_MAPS, config_map("cc"))
    second = await api.get(CONFIG_MAPS, limit="2", **{"continue": first.meta["continue"]})
    # then
    assert first.names == ["a", "b"]
    assert first.meta["remainingItemCount"] == 2
    assert second.names == ["c", "d"]
    assert second.doc["items"][1]["data"] == {"name": "d"}
    assert second.meta == {"resourceVersion": first.revision}


async def test_a_continue_token_expires_with_its_snapshot_and_offers_an_inconsistent_rest() -> None:
    # given
    api = await with_config_maps("a", "b", "c")
    token = (await api.get(CONFIG_MAPS, limit="1")).meta["continue"]
    await api.post(CONFIG_MAPS, config_map("bb"))
    # when
    api.server.storage.compact(int(api.now()))
    expired = await api.get(CONFIG_MAPS, limit="2", **{"continue": token})
    rest = await api.get(CONFIG_MAPS, **{"continue": expired.meta["continue"]})
    # then
    assert (expired.status, expired.reason) == (410, "Expired")
    assert expired.message.startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    assert "inconsistent list" in expired.message
    assert rest.names == ["b", "bb", "c"]


@pytest.mark.parametrize(
    "token",
    [
        "abc",
        "*",
        base64.urlsafe_b64encode(orjson.dumps({"v": "v9", "rv": 1, "start": "x"})).decode(),
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": 0, "start": "x"})).decode(),
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": 3, "start": ""})).decode(),
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": 999, "start": "x"})).decode(),
        base64.urlsafe_b64encode(b"[]").decode(),
    ],
)
async def test_an_invalid_continue_token_is_refused(token: str) -> None:
    # given
    api = await with_config_maps("a")
    # when
    reply = await api.get(CONFIG_MAPS, limit="1", **{"continue": token})
    # then
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert "continue key is not valid" in reply.message


async def test_a_page_with_a_selector_is_full_and_has_no_remaining_count() -> None:
    # given
    api = Api.fresh()
    for index in range(10):
        await api.post(CONFIG_MAPS, config_map(f"x{index}", labels={"even": str(index % 2 == 0).lower()}))
    # when
    first = await api.get(CONFIG_MAPS, limit="3", labelSelector="even=true")
    second = await api.get(
        CONFIG_MAPS, limit="3", labelSelector="even=true", **{"continue": first.meta["continue"]}
    )
    # then
    assert first.names == ["x0", "x2", "x4"]
    assert "remainingItemCount" not in first.meta
    assert second.names == ["x6", "x8"]
    assert "continue" not in second.meta


async def test_a_list_can_be_had_as_of_a_revision_until_it_is_forgotten() -> None:
    # given
    api = await with_config_maps("a")
    then = api.now()
    await api.post(CONFIG_MAPS, config_map("b"))
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    # when
    past = await api.get(CONFIG_MAPS, **exact)
    at_least = await api.get(CONFIG_MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan")
    any_one = await api.get(CONFIG_MAPS, resourceVersion="0")
    api.server.storage.compact(int(api.now()))
    forgotten = await api.get(CONFIG_MAPS, **exact)
    # then
    assert (past.names, past.revision) == (["a"], then)
    assert at_least.names == any_one.names == ["a", "b"]
    assert (forgotten.status, forgotten.reason) == (410, "Expired")


async def test_a_limit_makes_a_plain_resource_version_exact() -> None:
    """This rule is older than resourceVersionMatch: such a request is the first page of a snapshot."""
    # given
    api = await with_config_maps("a")
    then = api.now()
    await api.post(CONFIG_MAPS, config_map("b"))
    # when
    reply = await api.get(CONFIG_MAPS, resourceVersion=then, limit="5")
    # then
    assert reply.names == ["a"]


async def test_a_future_resource_version_is_a_timeout_with_retry_after() -> None:
    # given
    api = await with_config_maps("a")
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/a"):
        # when
        reply = await api.get(path, resourceVersion="999999")
        # then
        assert (reply.status, reply.reason) == (504, "Timeout")
        assert reply.message == f"Timeout: Too large resource version: 999999, current: {api.now()}"
        assert reply.doc["details"]["retryAfterSeconds"] == 1
        assert reply.causes[0]["reason"] == "ResourceVersionTooLarge"
        assert reply.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"resourceVersion": "abc"}, 500, 'resourceVersion: Invalid value: "abc"'),
        ({"limit": "many"}, 400, 'strconv.ParseInt: parsing "many": invalid syntax'),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "1"}, 422, 'Unsupported value: "Roughly"'),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"labelSelector": "a in ("}, 400, "unable to parse requirement"),
        ({"fieldSelector": "x"}, 400, "invalid selector: 'x'; can't understand 'x'"),
        (
            {"fieldSelector": "data.a=b"},
            400,
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_list_options_that_make_no_sense_are_refused(
    query: dict[str, str], status: int, text: str
) -> None:
    # given
    api = await with_config_maps("a")
    # when
    reply = await api.get(CONFIG_MAPS, **query)
    # then
    assert reply.status == status
    assert text in reply.message


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PODS, "field label not supported: spec.foo"),
        ("/apis/batch/v1/jobs", 'field label "spec.foo" not supported for Job'),
        (
            "/apis/apps/v1/deployments",
            '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_each_kind_has_its_words_for_a_field_it_does_not_select_by(path: str, text: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(path, fieldSelector="spec.foo=x")
    # then
    assert (reply.status, reply.message) == (400, text)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b", "c"]),
        ("spec.nodeName=n1", ["a", "b"]),
        ("spec.nodeName=", ["c"]),
        ("spec.nodeName=n1,status.phase=Running", ["b"]),
        ("status.phase!=Running", ["a", "c"]),
        ("spec.restartPolicy=Always,spec.schedulerName=default-scheduler", ["a", "b", "c"]),
        ("spec.hostNetwork=false", ["a", "b", "c"]),
    ],
)
async def test_pods_are_selected_by_their_fields(selector: str, names: list[str]) -> None:
    # given
    api = Api.fresh()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "")):
        await api.post(PODS, pod(name, node=node))
    await api.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
    # when
    reply = await api.get(PODS, fieldSelector=selector)
    # then
    assert reply.names == names


async def test_secrets_namespaces_and_events_are_selected_by_theirs() -> None:
    # given
    api = Api.fresh()
    await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "type": "Custom"})
    event: dict[str, Any] = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u"},
        "reason": "Started",
        "type": "Normal",
        "source": {"component": "kubelet"},
    }
    await api.post("/api/v1/namespaces/default/events", event)
    # when
    result = [
        (await api.get(path, fieldSelector=selector)).names
        for path, selector in (
            ("/api/v1/secrets", "type=Custom"),
            ("/api/v1/secrets", "type=Other"),
            ("/api/v1/namespaces", "status.phase=Active,metadata.name=default"),
            (
                "/api/v1/events",
                "involvedObject.uid=u,involvedObject.kind=Pod,reason=Started,type=Normal,source=kubelet",
            ),
            ("/api/v1/events", "involvedObject.name=b"),
        )
    ]
    # then
    assert result == [["s"], [], ["default"], ["e"], []]


async def test_events_are_the_same_objects_in_both_of_their_groups() -> None:
    # given
    api = Api.fresh()
    old, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    await api.post(
        old,
        {"metadata": {"name": "e"}, "involvedObject": {"name": "a", "namespace": "default"}, "message": "m"},
    )
    # when
    converted = await api.get(f"{new}/e")
    listed = await api.get(new, fieldSelector="regarding.name=a")
    patched = await api.patch(f"{new}/e", {"note": "n"})
    events = await api.changes_since(new, converted.revision)
    # then
    assert converted.doc["apiVersion"] == "events.k8s.io/v1"
    assert converted.doc["regarding"]["name"] == "a"
    assert converted.doc["note"] == "m"
    assert listed.names == ["e"]
    assert patched.doc["note"] == "n"
    assert (await api.get(f"{old}/e")).doc["message"] == "n"
    assert [(kind, seen["note"]) for kind, seen in events] == [("MODIFIED", "n")]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/foos",
        "/apis/apps/v9/deployments",
        "/api/v1/namespaces/default/foos",
        "/api/v1/configmaps/x",
        "/api/v1/namespaces/default/configmaps/x/status",
        "/api/v1/namespaces/default/configmaps//status",
        "/api/v1/namespaces/default/pods/a/b/c/d",
    ],
)
async def test_a_path_that_leads_nowhere_in_a_served_group_is_a_404_status(path: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(path)
    # then
    assert (reply.status, reply.reason) == (404, "NotFound")
    assert reply.message == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/apis/foo.bar/v1/foos", "/nothing", "/", ""])
async def test_a_path_below_nothing_that_is_served_is_a_404_in_plain_text(path: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(path)
    # then
    assert (reply.status, reply.raw) == (404, b"404 page not found\n")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_health_is_a_word(path: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(path)
    # then
    assert (reply.status, reply.raw) == (200, b"ok")


async def test_objects_are_listed_and_selected_without_decoding_any(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    api = Api.fresh()
    for index in range(200):
        await api.post(CONFIG_MAPS, config_map(f"x{index}", labels={"l": str(index % 3)}))
    from pykruise.sandbox.apiserver import core
    from pykruise.sandbox.apiserver.requests import encoding

    def forbidden(_: bytes) -> None:
        raise AssertionError("a list must not decode")

    monkeypatch.setattr(core, "decode", forbidden)
    monkeypatch.setattr(encoding, "decode", forbidden)
    # when
    reply = await api.get(CONFIG_MAPS, labelSelector="l=1")
    # then
    assert len(reply.names) == 67
