"""The in-process transport fulfils the contract of Transport."""

import asyncio
import random

import orjson
import pytest

from pykruise.kube.client.transport import Request
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.errors import (
    BadRequestError,
    ConnectionLostError,
    NotFoundError,
    RequestTimeoutError,
    UnreachableError,
)
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from support.api import CONFIG_MAPS, PODS, START, config_map, pod

JSON = {"Content-Type": "application/json"}


def fresh() -> ApiServer:
    return ApiServer(clock=make_loop_clock(start=START), rng=random.Random(1))


async def post(transport: LocalTransport, name: str) -> int:
    answer = await transport.request(
        Request("POST", CONFIG_MAPS, headers=JSON, body=orjson.dumps(config_map(name)))
    )
    return answer.status


async def test_an_error_status_is_an_answer_not_an_exception() -> None:
    # given
    transport = LocalTransport(fresh())
    # when
    answer = await transport.request(Request("GET", f"{CONFIG_MAPS}/nope"))
    # then
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"


async def test_requests_of_a_local_transport_have_its_user() -> None:
    # given
    transport = LocalTransport(fresh(), username="jane")
    # when
    answer = await transport.request(
        Request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", headers=JSON, body=b"{}")
    )
    # then
    assert orjson.loads(answer.body)["status"]["userInfo"]["username"] == "jane"


async def test_a_client_in_a_loop_does_not_block_other_tasks() -> None:
    # given
    transport = LocalTransport(fresh())
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    # when
    for index in range(10):
        await post(transport, f"x{index}")
    task.cancel()
    # then
    assert turns >= 10


async def test_latency_is_time_that_passes() -> None:
    # given
    transport = LocalTransport(fresh(), latency_s=lambda: 2.0)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    # when
    await transport.request(Request("GET", CONFIG_MAPS))
    # then
    assert loop.time() - begin == pytest.approx(2.0)


async def test_an_answer_that_takes_too_long_is_a_timeout() -> None:
    # given
    transport = LocalTransport(fresh(), latency_s=lambda: 2.0)
    # when
    with pytest.raises(RequestTimeoutError, match="within 1 s") as caught:
        await transport.request(Request("GET", CONFIG_MAPS, timeout_s=1.0))
    # then
    assert caught.value.sent


async def test_a_stream_is_lines_without_ends() -> None:
    # given
    server = fresh()
    transport = LocalTransport(server)
    # when
    async with transport.stream(
        Request("GET", CONFIG_MAPS, query={"watch": "true", "resourceVersion": "5"})
    ) as lines:
        await post(transport, "x")
        line = await anext(lines)
    # then
    assert orjson.loads(line)["type"] == "ADDED"
    assert b"\n" not in line
    assert server.read_stats().watchers == 0


async def test_entering_a_refused_stream_raises_its_error() -> None:
    # given
    transport = LocalTransport(fresh())
    # when
    for path, query, error in (
        ("/api/v1/nope", {"watch": "true"}, NotFoundError),
        (CONFIG_MAPS, {"watch": "true", "fieldSelector": "a=b"}, BadRequestError),
    ):
        # then
        with pytest.raises(error):
            async with transport.stream(Request("GET", path, query=query)):
                raise AssertionError("never entered")


async def test_a_stream_ends_when_the_server_ends_it() -> None:
    # given
    transport = LocalTransport(fresh())
    # when
    query = {"watch": "true", "resourceVersion": "5", "timeoutSeconds": "30"}
    async with transport.stream(Request("GET", CONFIG_MAPS, query=query)) as lines:
        result = [line async for line in lines]
    # then
    assert result == []


async def test_a_stream_with_nothing_in_it_for_too_long_is_lost() -> None:
    # given
    transport = LocalTransport(fresh())
    # when
    query = {"watch": "true", "resourceVersion": "5"}
    async with transport.stream(Request("GET", CONFIG_MAPS, query=query, timeout_s=10)) as lines:
        # then
        with pytest.raises(ConnectionLostError, match="nothing arrived for 10 s"):
            await anext(lines)


async def test_bookmarks_keep_a_stream_alive() -> None:
    # given
    transport = LocalTransport(fresh())
    query = {"watch": "true", "resourceVersion": "5", "allowWatchBookmarks": "true", "timeoutSeconds": "200"}
    # when
    async with transport.stream(Request("GET", CONFIG_MAPS, query=query, timeout_s=90)) as lines:
        kinds = [orjson.loads(line)["type"] async for line in lines]
    # then
    assert kinds == ["BOOKMARK"] * 4


async def test_closing_breaks_streams_and_refuses_requests() -> None:
    # given
    server = fresh()
    transport = LocalTransport(server)
    async with transport.stream(
        Request("GET", CONFIG_MAPS, query={"watch": "true", "resourceVersion": "5"})
    ) as lines:
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        # when
        await transport.close()
        # then
        with pytest.raises(ConnectionLostError):
            await waiting
    with pytest.raises(UnreachableError):
        await transport.request(Request("GET", CONFIG_MAPS))
    with pytest.raises(UnreachableError):
        async with transport.stream(Request("GET", CONFIG_MAPS)):
            raise AssertionError("never entered")
    assert server.read_stats().watchers == 0


async def test_a_log_is_followed_like_a_watch() -> None:
    # given a running pod
    transport = LocalTransport(fresh())
    body = {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "node-1"}}
    assert (
        await transport.request(Request("POST", PODS, headers=JSON, body=orjson.dumps(body)))
    ).status == 201
    state = {"running": {"startedAt": "2026-01-01T10:00:00Z"}}
    status = {"name": "main", "image": "i", "imageID": "x", "ready": True, "restartCount": 0, "state": state}
    patch = orjson.dumps({"status": {"containerStatuses": [status]}})
    merge = {"Content-Type": "application/merge-patch+json"}
    answer = await transport.request(Request("PATCH", f"{PODS}/a/status", headers=merge, body=patch))
    assert answer.status == 200
    # when
    async with transport.stream(Request("GET", f"{PODS}/a/log", query={"follow": "true"})) as lines:
        first = await anext(lines)
        await transport.request(Request("DELETE", f"{PODS}/a", query={"gracePeriodSeconds": "0"}))
        rest = [line async for line in lines]
    # then
    assert first == b"i started (restarts: 0) at 2026-01-01T10:00:00Z"
    assert rest == []
    with pytest.raises(NotFoundError):
        async with transport.stream(Request("GET", f"{PODS}/none/log", query={"follow": "true"})):
            pass


async def test_a_steady_watch_is_silent_until_something_happens_and_does_not_end() -> None:
    # given a plain watch with bookmarks and a timeout of a minute, and a steady one with the same options
    server = fresh()
    asked = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "60"}

    heard: list[str] = []

    async def listen(transport: LocalTransport) -> None:
        async with transport.stream(Request("GET", CONFIG_MAPS, query=asked, timeout_s=30)) as lines:
            async for line in lines:
                heard.append(orjson.loads(line)["type"])

    plain = asyncio.create_task(listen(LocalTransport(server)))
    steady = LocalTransport(server, steady=True)
    silent = asyncio.create_task(listen(steady))
    # when ten days pass, an object is created, and the transport is closed
    await asyncio.sleep(10 * 24 * 3600.0)
    assert not silent.done()
    await post(steady, "late")
    await asyncio.sleep(1.0)
    await steady.close()
    # then
    assert heard == ["ADDED"]
    with pytest.raises(ConnectionLostError):
        await plain  # it fails after 30 s without a line
    with pytest.raises(ConnectionLostError, match="closed"):
        await silent
