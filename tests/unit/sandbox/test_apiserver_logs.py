"""The log of a container that runs on paper."""

from typing import Any

import pytest

from support.api import PODS, STRATEGIC, Api, pod

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


async def test_the_log_tells_when_the_container_started() -> None:
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


async def test_the_log_of_the_container_before_it_tells_how_that_ended() -> None:
    # given
    ended = {"exitCode": 1, "startedAt": ENDED, "finishedAt": STARTED}
    api = await with_pod({"running": {"startedAt": STARTED}}, {"terminated": ended})
    # then
    lines = (await api.get(f"{PODS}/a/log", previous="true")).raw.decode().splitlines()
    assert lines[1] == f"ended with exit code 1 at {STARTED}"


async def test_only_what_was_written_since_then_is_told() -> None:
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


async def test_a_container_that_waits_or_never_ended_before_has_no_log() -> None:
    # given
    api = await with_pod({"waiting": {"reason": "ImagePullBackOff"}})
    # then
    reply = await api.get(f"{PODS}/a/log")
    assert (reply.status, reply.message) == (
        400,
        'container "main" in pod "a" is waiting to start: ImagePullBackOff',
    )
    assert 'previous terminated container "main"' in (await api.get(f"{PODS}/a/log", previous="1")).message


@pytest.mark.parametrize("query", [{"tailLines": "x"}, {"container": "none"}])
async def test_what_cannot_be_asked_is_a_bad_request(query: dict[str, str]) -> None:
    api = await with_pod({"running": {"startedAt": STARTED}})
    assert (await api.get(f"{PODS}/a/log", **query)).status == 400
