"""The log of a simulated container."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.client.transport import Response
from pykruise.kube.clock import format_time
from pykruise.sandbox.apiserver import LineStream
from pykruise.sandbox.apiserver.requests.logs import LOG_EVERY
from support.api import PODS, START, STRATEGIC, Api, pod

STARTED = "2026-01-01T10:00:00Z"
ENDED = "2026-01-01T09:59:00Z"


async def with_pod(state: dict[str, Any], last: dict[str, Any] | None = None) -> Api:
    """A pod on a node whose container is in this state."""
    api = Api.fresh()
    await api.post(PODS, pod("a"))
    await api.post(f"{PODS}/a/binding", {"target": {"name": "node-1"}, "metadata": {"name": "a"}})
    status = {"name": "main", "image": "nginx:1", "imageID": "x", "ready": True, "restartCount": 1}
    reply = await api.patch(
        f"{PODS}/a/status",
        {"status": {"containerStatuses": [{**status, "state": state, "lastState": last or {}}]}},
        STRATEGIC,
    )
    assert reply.status == 200, reply.message
    return api


async def test_the_log_has_the_start_of_the_container() -> None:
    # given
    api = await with_pod({"running": {"startedAt": STARTED}})
    # when
    reply = await api.get(f"{PODS}/a/log")
    # then
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain")
    assert reply.raw == f"nginx:1 started (restarts: 1) at {STARTED}\n".encode()
    assert (await api.get(f"{PODS}/a/log", tailLines="0")).raw == b""
    assert (await api.get(f"{PODS}/a/log", timestamps="true")).raw.startswith(STARTED.encode())
    assert (await api.get(f"{PODS}/a/log", limitBytes="5")).raw == b"nginx"


async def test_the_log_of_the_previous_container_has_its_end() -> None:
    # given
    ended = {"exitCode": 1, "startedAt": ENDED, "finishedAt": STARTED}
    api = await with_pod({"running": {"startedAt": STARTED}}, {"terminated": ended})
    # then
    lines = (await api.get(f"{PODS}/a/log", previous="true")).raw.decode().splitlines()
    assert lines == [f"nginx:1 started (restarts: 0) at {ENDED}", f"ended with exit code 1 at {STARTED}"]


async def test_only_what_was_written_since_then_is_returned() -> None:
    # given
    ended = {"exitCode": 1, "startedAt": ENDED, "finishedAt": STARTED}
    api = await with_pod({"terminated": ended})
    # then
    since = (await api.get(f"{PODS}/a/log", sinceTime=STARTED)).raw
    assert since == f"ended with exit code 1 at {STARTED}\n".encode()
    assert (await api.get(f"{PODS}/a/log", sinceTime="2026-01-01T10:00:01Z")).raw == b""
    assert (await api.get(f"{PODS}/a/log", sinceSeconds="0")).status == 422
    assert (await api.get(f"{PODS}/a/log", sinceSeconds="1", sinceTime=STARTED)).status == 422
    assert (await api.get(f"{PODS}/a/log", sinceTime="yesterday")).status == 400


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ErrImagePull", "image can't be pulled"),
        ("ImagePullBackOff", "trying and failing to pull image"),
        ("CreateContainerConfigError", "CreateContainerConfigError"),
    ],
)
async def test_a_container_that_has_never_run_has_no_log(reason: str, shown: str) -> None:
    # given
    api = await with_pod({"waiting": {"reason": reason}})
    # when
    reply = await api.get(f"{PODS}/a/log")
    # then
    assert reply.status == 400
    assert reply.message == f'container "main" in pod "a" is waiting to start: {shown}'
    assert 'previous terminated container "main"' in (await api.get(f"{PODS}/a/log", previous="1")).message


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ImagePullBackOff", "ContainerCreating"])
async def test_the_log_of_a_container_that_waits_for_its_next_run_is_that_of_its_last_run(
    reason: str,
) -> None:
    # given
    ended = {"exitCode": 1, "startedAt": ENDED, "finishedAt": STARTED}
    api = await with_pod({"waiting": {"reason": reason}}, {"terminated": ended})
    lines = [f"nginx:1 started (restarts: 1) at {ENDED}", f"ended with exit code 1 at {STARTED}"]
    # then
    assert (await api.get(f"{PODS}/a/log")).raw.decode().splitlines() == lines
    assert (await api.get(f"{PODS}/a/log", previous="true")).raw.decode().splitlines() == lines
    # and a followed log ends after these lines
    assert await rest_of(await follow(api)) == lines


@pytest.mark.parametrize("query", [{"tailLines": "x"}, {"container": "none"}])
async def test_an_invalid_log_request_is_a_bad_request(query: dict[str, str]) -> None:
    api = await with_pod({"running": {"startedAt": STARTED}})
    assert (await api.get(f"{PODS}/a/log", **query)).status == 400


# ── followed ─────────────────────────────────────────────────────────────────

ANNOTATED = {"metadata": {"annotations": {LOG_EVERY: "10"}}}


async def follow(api: Api, **query: str) -> LineStream:
    opened = await api.server.stream(f"{PODS}/a/log", query={"follow": "true", **query})
    assert not isinstance(opened, Response), opened.body
    return opened


async def rest_of(stream: LineStream) -> list[str]:
    """All lines until the end of the stream."""
    rest: list[str] = []
    async with asyncio.timeout(3600):
        while lines := await stream.read_batch():
            rest += [line.decode() for line in lines]
    return rest


async def report_status(api: Api, **status: Any) -> None:
    """Write this container status as the kubelet does."""
    whole = {"name": "main", "image": "nginx:1", "imageID": "x", "ready": True, "restartCount": 1, **status}
    reply = await api.patch(f"{PODS}/a/status", {"status": {"containerStatuses": [whole]}}, STRATEGIC)
    assert reply.status == 200, reply.message


def ended(at: float, code: int = 0) -> dict[str, Any]:
    return {"exitCode": code, "startedAt": format_time(START), "finishedAt": format_time(START + at)}


async def running_since_start() -> Api:
    return await with_pod({"running": {"startedAt": format_time(START)}})


async def test_a_followed_log_continues_until_the_container_ends() -> None:
    # given
    api = await running_since_start()
    stream = await follow(api)
    reading = asyncio.create_task(rest_of(stream))
    # when nothing happens, the stream stays open
    await asyncio.sleep(600)
    assert not reading.done()
    # when
    await report_status(api, state={"terminated": ended(600, code=3)})
    # then
    assert await reading == [
        f"nginx:1 started (restarts: 1) at {format_time(START)}",
        f"ended with exit code 3 at {format_time(START + 600)}",
    ]


@pytest.mark.parametrize(
    "status",
    [
        {"restartCount": 2, "state": {"running": {"startedAt": format_time(START + 31)}}},
        {"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ],
    ids=["restarted", "backing off"],
)
async def test_a_followed_log_ends_with_its_run_of_the_container(status: dict[str, Any]) -> None:
    # given
    api = await running_since_start()
    reading = asyncio.create_task(rest_of(await follow(api, tailLines="0")))
    await asyncio.sleep(30)
    # when
    await report_status(api, lastState={"terminated": ended(30)}, **status)
    # then
    assert await reading == [f"ended with exit code 0 at {format_time(START + 30)}"]


async def test_a_followed_log_ends_with_the_pod() -> None:
    # given
    api = await running_since_start()
    reading = asyncio.create_task(rest_of(await follow(api)))
    await asyncio.sleep(1)
    # when
    await api.delete(f"{PODS}/a", gracePeriodSeconds="0")
    # then
    assert len(await reading) == 1


async def test_a_followed_log_of_a_finished_container_is_returned_immediately() -> None:
    api = await with_pod({"terminated": ended(5)})
    assert len(await rest_of(await follow(api))) == 2


async def test_containers_log_at_the_interval_of_the_annotation() -> None:
    # given
    api = await running_since_start()
    await api.patch(f"{PODS}/a", ANNOTATED)
    await asyncio.sleep(25)
    assert (await api.get(f"{PODS}/a/log")).raw.decode().splitlines() == [
        f"nginx:1 started (restarts: 1) at {format_time(START)}",
        f"running for 10 s at {format_time(START + 10)}",
        f"running for 20 s at {format_time(START + 20)}",
    ]
    # when
    reading = asyncio.create_task(rest_of(await follow(api, tailLines="1")))
    await asyncio.sleep(16)
    await report_status(api, state={"terminated": ended(41)})
    # then
    assert [line.partition(" at ")[0] for line in await reading] == [
        "running for 20 s",
        "running for 30 s",
        "running for 40 s",
        "ended with exit code 0",
    ]
    since = (await api.get(f"{PODS}/a/log", sinceSeconds="5")).raw.decode().splitlines()
    assert [line.partition(" at ")[0] for line in since] == ["running for 40 s", "ended with exit code 0"]


@pytest.mark.parametrize("every", ["often", "-1", "0", "nan", "inf"])
async def test_an_invalid_annotation_counts_as_missing(every: str) -> None:
    api = await running_since_start()
    await api.patch(f"{PODS}/a", {"metadata": {"annotations": {LOG_EVERY: every}}})
    await asyncio.sleep(60)
    assert len((await api.get(f"{PODS}/a/log")).raw.splitlines()) == 1


async def test_a_followed_log_ends_when_enough_bytes_were_read() -> None:
    # given
    api = await running_since_start()
    await api.patch(f"{PODS}/a", ANNOTATED)
    first = f"nginx:1 started (restarts: 1) at {format_time(START)}"
    # when
    reading = asyncio.create_task(rest_of(await follow(api, limitBytes=str(len(first) + 1 + 7))))
    await asyncio.sleep(30)
    # then
    assert await reading == [first, "running"]


async def test_a_log_that_cannot_be_followed_is_answered_like_one_that_cannot_be_read() -> None:
    # given
    api = await with_pod({"waiting": {"reason": "ImagePullBackOff"}})
    await api.post(PODS, pod("nowhere"))
    # then
    for name, status in (("a", 400), ("none", 404), ("nowhere", 204)):
        answer = await api.server.stream(f"{PODS}/{name}/log", query={"follow": "true"})
        assert isinstance(answer, Response)
        assert answer.status == status


async def test_a_client_that_closes_a_followed_log_is_released() -> None:
    # given
    api = await running_since_start()
    stream = await follow(api)
    await stream.read_batch()
    reading = asyncio.create_task(rest_of(stream))
    await asyncio.sleep(1)
    # when
    await stream.aclose()
    # then
    assert await reading == []
    assert api.server.read_stats().watchers == 0
