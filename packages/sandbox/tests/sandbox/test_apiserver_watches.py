"""Watches: order, selectors, resumption, bookmarks, ends, and clients that do not read."""

import asyncio

import orjson
import pytest

from pykruise.sandbox.apiserver.objects.storage import MemoryStorage
from support.api import CONFIG_MAPS, PODS, Api, Document, config_map, pod, ready


def names_in(events: list[tuple[str, Document]]) -> list[tuple[str, str]]:
    return [(kind, seen["metadata"].get("name", "")) for kind, seen in events]


async def test_a_watch_sends_every_change_in_order() -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    # when
    made = await api.post(CONFIG_MAPS, config_map("x"))
    changed = await api.patch(f"{CONFIG_MAPS}/x", {"data": {"a": "b"}})
    await api.delete(f"{CONFIG_MAPS}/x")
    events = await ready(stream)
    await stream.aclose()
    # then
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0][1] == made.doc
    assert events[1][1] == changed.doc


async def test_a_deletion_shows_the_last_state_with_the_revision_of_the_deletion() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x", data={"last": "state"}))
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    # when
    await api.delete(f"{CONFIG_MAPS}/x")
    [(kind, seen)] = await ready(stream)
    await stream.aclose()
    # then
    assert (kind, seen["data"]) == ("DELETED", {"last": "state"})
    assert seen["metadata"]["resourceVersion"] == api.now()


async def test_a_deletion_is_shown_correctly_also_when_a_reference_holds_the_same_revision() -> None:
    # given an Event whose involvedObject has the resource version that the Event's deletion gets
    api = Api.fresh()
    path = "/api/v1/namespaces/default/events"
    revision = str(int(api.now()) + 1)
    await api.post(
        path,
        {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "resourceVersion": revision}},
    )
    # when
    await api.delete(f"{path}/e")
    [_, (kind, seen)] = await api.changes_since(path, "5")
    # then
    assert kind == "DELETED"
    assert seen["metadata"]["resourceVersion"] == api.now()
    assert seen["involvedObject"]["resourceVersion"] == revision


async def test_a_watch_without_a_revision_begins_with_the_present_objects() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("old"))
    for query in ({}, {"resourceVersion": "0"}):
        stream = await api.watch(CONFIG_MAPS, **query)
        # when
        await api.post(CONFIG_MAPS, config_map("new"))
        events = await ready(stream)
        await stream.aclose()
        await api.delete(f"{CONFIG_MAPS}/new")
        # then
        assert names_in(events) == [("ADDED", "old"), ("ADDED", "new")]


async def test_a_watch_resumes_where_another_ended() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("a"))
    seen = api.now()
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.delete(f"{CONFIG_MAPS}/a")
    # when
    events = await api.changes_since(CONFIG_MAPS, seen)
    # then
    assert names_in(events) == [("ADDED", "b"), ("DELETED", "a")]


async def test_a_revision_that_is_too_old_is_an_error_in_the_stream() -> None:
    # given
    api = Api.fresh(storage=MemoryStorage(history_events=2))
    begin = api.now()
    for name in "abcd":
        await api.post(CONFIG_MAPS, config_map(name))
    # when
    stream = await api.watch(CONFIG_MAPS, resourceVersion=begin)
    lines = [orjson.loads(line) async for line in stream]
    # then
    [line] = lines
    assert line["type"] == "ERROR"
    assert line["object"]["kind"] == "Status"
    assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")
    assert line["object"]["message"] == f"too old resource version: {begin} ({int(begin) + 2})"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"resourceVersion": "abc"}, 500, "invalid syntax"),
        ({"fieldSelector": "a=b"}, 400, "not a known field selector"),
        ({"labelSelector": "a in ("}, 400, "unable to parse requirement"),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            422,
            "is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            {"sendInitialEvents": "true"},
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        ({"timeoutSeconds": "soon"}, 400, "invalid syntax"),
    ],
)
async def test_a_watch_that_makes_no_sense_is_refused(query: dict[str, str], status: int, text: str) -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.refused_watch(CONFIG_MAPS, **query)
    # then
    assert reply.status == status
    assert text in reply.message


async def test_entering_and_leaving_a_selection_are_addition_and_deletion() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x"))
    stream = await api.watch(CONFIG_MAPS, labelSelector="in=yes", resourceVersion=api.now())
    # when
    entered = await api.patch(f"{CONFIG_MAPS}/x", {"metadata": {"labels": {"in": "yes"}}})
    inside = await api.patch(f"{CONFIG_MAPS}/x", {"data": {"a": "b"}})
    left = await api.patch(f"{CONFIG_MAPS}/x", {"metadata": {"labels": {"in": "no"}}})
    await api.patch(f"{CONFIG_MAPS}/x", {"data": {"a": "c"}})
    await api.delete(f"{CONFIG_MAPS}/x")
    events = await ready(stream)
    await stream.aclose()
    # then
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [seen["metadata"]["resourceVersion"] for _, seen in events] == [
        entered.revision,
        inside.revision,
        left.revision,
    ]
    assert events[2][1]["metadata"]["labels"] == {"in": "yes"}, "as it last was inside the selection"


async def test_a_kubelet_sees_the_pods_of_its_node_from_their_binding() -> None:
    # given
    api = Api.fresh()
    streams = {
        node: await api.watch(
            "/api/v1/pods", fieldSelector=f"spec.nodeName={node}", resourceVersion=api.now()
        )
        for node in ("n1", "n2", "")
    }
    # when
    await api.post(PODS, pod("a"))
    await api.post(f"{PODS}/a/binding", {"target": {"kind": "Node", "name": "n1"}})
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    events = {node: [kind for kind, _ in await ready(stream)] for node, stream in streams.items()}
    for stream in streams.values():
        await stream.aclose()
    # then
    assert events == {"n1": ["ADDED", "MODIFIED"], "n2": [], "": ["ADDED", "DELETED"]}


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        (CONFIG_MAPS, {}, ["a", "b"]),
        ("/api/v1/configmaps", {}, ["a", "b", "a"]),
        (CONFIG_MAPS, {"fieldSelector": "metadata.name=a"}, ["a"]),
        ("/api/v1/configmaps", {"fieldSelector": "metadata.name=a"}, ["a", "a"]),
        ("/api/v1/configmaps", {"fieldSelector": "metadata.namespace=kube-public"}, ["a"]),
        (f"{CONFIG_MAPS}/b", {}, ["b"]),
        ("/api/v1/watch/namespaces/default/configmaps", {}, ["a", "b"]),
        ("/api/v1/watch/namespaces/default/configmaps/a", {}, ["a"]),
        ("/api/v1/watch/configmaps", {}, ["a", "b", "a"]),
    ],
)
async def test_a_watch_delivers_what_its_path_and_selectors_match(
    path: str, query: dict[str, str], names: list[str]
) -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(path, resourceVersion=api.now(), **query)
    # when
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.post("/api/v1/namespaces/kube-public/configmaps", config_map("a"))
    events = await ready(stream)
    await stream.aclose()
    # then
    assert [name for _, name in names_in(events)] == names


async def test_all_watchers_share_the_bytes_of_an_event() -> None:
    # given
    api = Api.fresh()
    streams = [await api.watch(CONFIG_MAPS, resourceVersion=api.now()) for _ in range(3)]
    # when
    await api.post(CONFIG_MAPS, config_map("x"))
    lines = [await anext(stream) for stream in streams]
    for stream in streams:
        await stream.aclose()
    # then
    assert lines[0] is lines[1] is lines[2]


async def test_the_first_watch_gets_an_event_first() -> None:
    # given
    api = Api.fresh()
    heard: list[int] = []

    async def listen(number: int) -> None:
        stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
        await anext(stream)
        heard.append(number)
        await stream.aclose()

    listening = [asyncio.create_task(listen(number)) for number in range(30)]
    while api.server.read_stats().watchers < 30:
        await asyncio.sleep(0)
    # when
    await api.post(CONFIG_MAPS, config_map("x"))
    await asyncio.gather(*listening)
    # then
    assert heard == list(range(30))


async def test_bookmarks_are_sent_every_minute_and_at_the_end() -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(
        CONFIG_MAPS, resourceVersion=api.now(), allowWatchBookmarks="true", timeoutSeconds="150"
    )
    loop = asyncio.get_running_loop()
    begin = loop.time()
    seen: list[tuple[float, str, str]] = []
    # when
    async for line in stream:
        event = orjson.loads(line)
        seen.append((loop.time() - begin, event["type"], event["object"]["metadata"]["resourceVersion"]))
        await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"generateName": "s-"}})
    # then
    assert [(round(at), kind) for at, kind, _ in seen] == [
        (60, "BOOKMARK"),
        (120, "BOOKMARK"),
        (150, "BOOKMARK"),
    ]
    revisions = [int(revision) for _, _, revision in seen]
    assert revisions == [revisions[0], revisions[0] + 1, revisions[0] + 2], "writes elsewhere count"


async def test_a_watch_without_bookmarks_ends_silently_at_its_timeout() -> None:
    # given
    api = Api.fresh()
    begin = asyncio.get_running_loop().time()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now(), timeoutSeconds="90")
    # when
    lines = [line async for line in stream]
    # then
    assert lines == []
    assert asyncio.get_running_loop().time() - begin == pytest.approx(90)


async def test_a_watch_without_a_wish_lasts_half_an_hour_to_an_hour() -> None:
    # given
    api = Api.fresh()
    begin = asyncio.get_running_loop().time()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    # when
    async for _ in stream:
        raise AssertionError("nothing happens")
    # then
    assert 1_800 <= asyncio.get_running_loop().time() - begin <= 3_600


async def test_initial_events_end_with_an_annotated_bookmark() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x"))
    # when
    stream = await api.watch(
        CONFIG_MAPS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    await api.post(CONFIG_MAPS, config_map("y"))
    events = await ready(stream)
    await stream.aclose()
    # then
    assert names_in(events) == [("ADDED", "x"), ("BOOKMARK", ""), ("ADDED", "y")]
    assert events[1][1]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    assert events[1][1]["metadata"]["resourceVersion"] == str(int(api.now()) - 1)


async def test_a_reader_that_does_not_read_is_cut_off_and_slows_no_other() -> None:
    # given
    api = Api.fresh(watch_buffer=5)
    lazy = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    busy = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    seen = []
    # when
    for index in range(20):
        await api.post(CONFIG_MAPS, config_map(f"x{index}"))
        seen += await ready(busy)
    rest = [line async for line in lazy]
    # then
    assert len(seen) == 20
    assert rest == []
    assert lazy.overrun
    assert not busy.overrun
    assert (api.server.read_stats().watchers, api.server.read_stats().dropped) == (1, 1)
    await busy.aclose()


async def test_a_reader_that_waits_is_released_by_closing() -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    waiting = asyncio.create_task(stream.read_batch())
    await asyncio.sleep(0)
    # when
    await stream.aclose()
    await stream.aclose()
    # then
    assert await waiting == []
    assert api.server.read_stats().watchers == 0


async def test_closing_the_server_ends_watches_after_what_is_buffered() -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    await api.post(CONFIG_MAPS, config_map("x"))
    # when
    api.server.close()
    lines = [line async for line in stream]
    # then
    assert len(lines) == 1


async def test_a_batch_is_what_is_ready_up_to_its_limit() -> None:
    # given
    api = Api.fresh()
    stream = await api.watch(CONFIG_MAPS, resourceVersion=api.now())
    for index in range(5):
        await api.post(CONFIG_MAPS, config_map(f"x{index}"))
    # when
    sizes = [len(await stream.read_batch(most=3)), len(await stream.read_batch(most=3))]
    await stream.aclose()
    # then
    assert sizes == [3, 2]


async def test_a_thousand_watches_of_single_objects_cost_a_write_nothing() -> None:
    # given
    api = Api.fresh()
    streams = [
        await api.watch(CONFIG_MAPS, fieldSelector=f"metadata.name=x{index}", resourceVersion=api.now())
        for index in range(1_000)
    ]
    offered: list[object] = []
    for stream in streams:
        stream.offer = offered.append  # type: ignore[method-assign, assignment]  # counts who is asked
    # when
    await api.post(CONFIG_MAPS, config_map("x7"))
    # then
    assert len(offered) == 1
    for stream in streams:
        await stream.aclose()


async def test_a_watch_sent_as_a_single_request_is_refused() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.get(CONFIG_MAPS, watch="true")
    # then
    assert reply.status == 400
    assert api.server.is_stream("GET", CONFIG_MAPS, {"watch": "1"})
    assert api.server.is_stream("GET", "/api/v1/watch/pods", {})
    assert not api.server.is_stream("GET", CONFIG_MAPS, {"watch": "false"})
    assert not api.server.is_stream("POST", CONFIG_MAPS, {"watch": "true"})
