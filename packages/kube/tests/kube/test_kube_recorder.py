"""The recorder: events whose failures never affect their caller."""

import asyncio
import json
import random
import re
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventMemory, EventRecorder
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Request, Response
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.resources import NODES, PODS
from support.faults import (
    Answer,
    Delay,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    Refuse,
    patches,
    posts,
    writes,
)
from support.scripted import answer, refusal

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Events:
    """A server that stores events and nothing else."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []

    async def request(self, request: Request, /) -> Response:
        method, path = request.method, request.path
        self.requests.append(method)
        await asyncio.sleep(0.01)
        document = json.loads(request.body or b"{}")
        if method == "POST":
            path = f"{path}/{document['metadata']['name']}"
            if path in self.stored:
                return refusal(409, "AlreadyExists")
            self.stored[path] = document
            return answer(201, document)
        if path not in self.stored:
            return refusal(404, "NotFound")
        self.stored[path].update(document)
        return answer(200, self.stored[path])

    def stream(self, request: Request, /) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    @property
    def all(self) -> list[dict[str, Any]]:
        return list(self.stored.values())


class Given:
    """A recorder, its server, and a transport with faults between the two."""

    def __init__(self, **options: Any) -> None:
        self.server = Events()
        self.faulty = FaultyTransport(self.server)
        client = Client(self.faulty, rng=random.Random(1), retry=RetryPolicy(writes=0))
        clock = make_loop_clock(start=START)
        self.recorder = EventRecorder(client, "pykruise", clock=clock, rng=random.Random(1), **options)

    def record(
        self, message: str = "created a", *, name: str = "web", reason: str = "Created", **options: Any
    ) -> None:
        self.recorder.record(
            PODS, namespace="ns", name=name, uid=f"u-{name}", reason=reason, message=message, **options
        )

    async def run_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# ── one event ────────────────────────────────────────────────────────────────


async def test_an_event_has_all_that_kubectl_describe_and_the_server_want() -> None:
    # given
    given = Given()
    # when
    given.record("created pod web-abcde", warning=True)
    await given.run_for(1)
    # then
    [(path, event)] = given.server.stored.items()
    name = event["metadata"]["name"]
    assert re.fullmatch(r"web\.[0-9a-f]{16}", name)
    # other programs read the time of the event from its name, in nanoseconds
    assert int(name.partition(".")[2], 16) // 10**9 == START
    assert path == f"/api/v1/namespaces/ns/events/{name}"
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "ns"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web",
            "uid": "u-web",
        },
        "reason": "Created",
        "message": "created pod web-abcde",
        "type": "Warning",
        "source": {"component": "pykruise"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "reportingComponent": "pykruise",
        "reportingInstance": "",
    }


async def test_an_event_of_an_agent_names_its_node() -> None:
    given = Given(host="node-1")
    given.record()
    await given.recorder.flush()
    [event] = given.server.all
    assert event["source"] == {"component": "pykruise", "host": "node-1"}
    assert event["reportingInstance"] == "node-1"


async def test_events_of_cluster_scoped_objects_are_stored_in_the_default_namespace() -> None:
    # given
    given = Given()
    # when
    given.recorder.record(NODES, namespace="", name="n1", uid="u-n1", reason="Tainted", message="m")
    await given.recorder.flush()
    # then
    [(path, event)] = given.server.stored.items()
    assert path.startswith("/api/v1/namespaces/default/events/n1.")
    assert "namespace" not in event["involvedObject"]


async def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    # given a refusal, whose cause is at its end
    given = Given()
    # when
    given.record("failed to create a pod: " + "x" * 5000 + " exceeded quota")
    await given.recorder.flush()
    # then
    stored = given.server.all[0]["message"]
    assert len(stored) <= 1024
    assert stored.startswith("failed to create a pod: ")
    assert stored.endswith(" exceeded quota")


async def test_names_stay_within_what_the_server_accepts() -> None:
    # given an object with the longest name there is, with a dot where it is cut
    given = Given()
    # when
    given.record(name="a" * 235 + "." + "b" * 17)
    await given.recorder.flush()
    # then
    name = given.server.all[0]["metadata"]["name"]
    assert len(name) <= 253
    assert re.fullmatch(r"a{235}\.[0-9a-f]{16}", name)


# ── repetition ───────────────────────────────────────────────────────────────


async def test_a_repeated_event_increases_the_count_of_the_stored_one() -> None:
    # given
    given = Given()
    # when it happens three times, a minute apart, and something else once
    for _ in range(3):
        given.record("cannot create pods", reason="FailedCreate")
        await given.run_for(60)
    given.record("another message", reason="FailedCreate")
    await given.run_for(1)
    # then
    assert given.server.requests == ["POST", "PATCH", "PATCH", "POST"]
    first, second = given.server.all
    assert (first["count"], second["count"]) == (3, 1)
    assert (first["firstTimestamp"], first["lastTimestamp"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:02:00Z",
    )


async def test_a_repeated_event_before_its_write_is_one_request() -> None:
    # given
    given = Given()
    # when
    for _ in range(100):
        given.record()
    await given.run_for(1)
    # then
    assert given.server.requests == ["POST"]
    assert given.server.all[0]["count"] == 100
    assert given.recorder.read_stats().recorded == 100


async def test_one_event_can_count_several_occurrences() -> None:
    # given
    given = Given()
    # when
    given.record(count=30)
    given.record(count=2)
    await given.run_for(1)
    given.record(count=3)
    await given.run_for(1)
    # then
    assert given.server.requests == ["POST", "PATCH"]
    assert given.server.all[0]["count"] == given.recorder.read_stats().recorded == 35


@pytest.mark.parametrize(
    "difference", [{"name": "other"}, {"reason": "Deleted"}, {"message": "created b"}, {"warning": True}]
)
async def test_events_that_differ_in_anything_are_different_events(difference: dict[str, Any]) -> None:
    # given
    given = Given()
    # when
    given.record()
    given.record(**difference)
    await given.recorder.flush()
    # then
    assert [event["count"] for event in given.server.all] == [1, 1]


async def test_after_the_window_a_repetition_is_a_new_event() -> None:
    # given
    given = Given(window_s=600)
    given.record()
    await given.run_for(500)
    given.record()  # each occurrence restarts the window
    await given.run_for(599)
    given.record()
    await given.run_for(601)
    # when
    given.record()
    await given.run_for(1)
    # then
    assert [event["count"] for event in given.server.all] == [3, 1]


async def test_an_event_deleted_on_the_server_is_created_again() -> None:
    # given
    given = Given()
    given.record()
    await given.run_for(1)
    given.server.stored.clear()
    # when
    given.record()
    await given.run_for(1)
    # then
    assert given.server.requests == ["POST", "PATCH", "POST"]
    assert [event["count"] for event in given.server.all] == [1]


# ── failures ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", [400, 403, 404, 422], ids=str)
async def test_events_that_the_server_refuses_are_given_up(code: int) -> None:
    # given a namespace that terminates (403), is gone (404), ...
    given = Given()
    given.faulty.on(posts(), Answer(code))
    # when
    given.record("refused")
    given.record("next")
    await given.run_for(10)
    # then
    assert [event["message"] for event in given.server.all] == ["next"]
    assert (given.recorder.read_stats().refused, given.recorder.read_stats().pending) == (1, 0)


@pytest.mark.parametrize("fault", [Refuse(), DropRequest(), Answer(500), Answer(503), Answer(429)], ids=str)
async def test_events_wait_until_the_server_is_back(fault: Any) -> None:
    # given
    given = Given()
    given.faulty.on(writes(), fault, fault, fault)
    # when
    given.record()
    await given.run_for(60)
    # then
    assert [event["count"] for event in given.server.all] == [1]
    assert given.recorder.read_stats().written == 1


async def test_a_lost_answer_makes_no_second_event() -> None:
    # given
    given = Given()
    given.faulty.on(posts(), DropAnswer())
    # when
    given.record()
    await given.run_for(60)
    given.record()
    await given.run_for(60)
    # then
    assert given.server.requests == ["POST", "POST", "PATCH"]
    assert [event["count"] for event in given.server.all] == [2]


async def test_a_failed_count_update_is_retried_together_with_later_occurrences() -> None:
    # given
    given = Given()
    given.record()
    await given.run_for(1)
    given.faulty.on(patches(), Refuse())
    # when
    given.record()
    await given.run_for(0.5)
    given.record()
    await given.run_for(60)
    # then
    assert [event["count"] for event in given.server.all] == [3]


async def test_an_event_that_the_server_keeps_refusing_is_dropped_after_five_requests() -> None:
    # given
    given = Given()
    given.faulty.on(writes(), lambda _: Refuse())
    # when
    given.record()
    await given.run_for(3600)
    # then
    assert (given.recorder.read_stats().pending, given.recorder.read_stats().refused) == (0, 1)
    assert len(given.faulty.log) == 5


# ── floods ───────────────────────────────────────────────────────────────────


async def test_a_full_buffer_loses_its_oldest_and_counts_them() -> None:
    # given
    given = Given(capacity=10, burst=100)
    # when
    given.record("m0")
    for number in range(15):
        given.record(f"m{number}")
    await given.recorder.flush()
    # then it has dropped both events m0, and m1 to m4
    assert [event["message"] for event in given.server.all] == [f"m{number}" for number in range(5, 15)]
    assert given.recorder.read_stats().overflowed == 6


async def test_one_object_cannot_flood_the_server_and_others_are_not_affected() -> None:
    # given
    given = Given(burst=25, refill_s=10)
    # when
    for number in range(100):
        given.record(f"m{number}", name="noisy")
    given.record("once", name="quiet")
    await given.run_for(100)
    for number in range(100):
        given.record(f"later {number}", name="noisy")
    await given.run_for(1)
    # then 25 immediately, and 10 more after 100 s
    assert len(given.server.all) == 25 + 1 + 10
    assert given.recorder.read_stats().limited == 75 + 90


async def test_recording_takes_no_time_and_needs_no_loop_running_it() -> None:
    # given a server that answers nothing
    given = Given()
    given.faulty.on(writes(), lambda _: Delay(3600))
    before = asyncio.get_running_loop().time()
    # when
    for number in range(20):
        given.record(f"m{number}")
    # then
    assert asyncio.get_running_loop().time() == before
    assert given.recorder.read_stats().pending == 20


# ── stopping ─────────────────────────────────────────────────────────────────


async def test_flush_writes_what_is_left() -> None:
    # given a recorder that was stopped in the middle of a request
    given = Given()
    given.faulty.on(posts(), Delay(10))
    given.record("m0")
    given.record("m1")
    await given.run_for(1)
    assert given.server.all == []
    # when
    await given.recorder.flush()
    # then
    assert sorted(event["message"] for event in given.server.all) == ["m0", "m1"]


async def test_flush_waits_for_the_write_in_progress() -> None:
    # given
    given = Given()
    given.faulty.on(posts(), Delay(3))
    given.record("m0")
    running = asyncio.create_task(given.recorder.run())
    await asyncio.sleep(1)
    # when
    await given.recorder.flush()
    running.cancel()
    # then
    assert [event["message"] for event in given.server.all] == ["m0"]


async def test_flush_does_not_wait_for_a_server_that_does_not_answer() -> None:
    # given
    given = Given()
    given.faulty.on(writes(), lambda _: Delay(3600))
    given.record()
    before = asyncio.get_running_loop().time()
    # when
    await given.recorder.flush(timeout_s=5)
    # then
    assert asyncio.get_running_loop().time() - before == pytest.approx(5)
    assert given.recorder.read_stats().pending == 1


async def test_flush_tries_each_event_once() -> None:
    # given
    given = Given()
    given.faulty.on(writes(), lambda _: Refuse())
    given.record("m0")
    given.record("m1")
    # when
    await given.recorder.flush()
    # then
    assert len(given.faulty.log) == 2


async def test_run_and_flush_together_write_everything_once() -> None:
    # given
    given = Given()
    for number in range(20):
        given.record(f"m{number}")
    # when
    await asyncio.gather(given.run_for(10), given.recorder.flush())
    # then
    assert sorted(event["message"] for event in given.server.all) == sorted(f"m{n}" for n in range(20))
    assert given.recorder.read_stats().written == 20


# ── one memory ───────────────────────────────────────────────────────────────


async def test_recorders_of_a_program_share_one_memory_that_is_bounded_by_number_and_by_age() -> None:
    memory = EventMemory(entries=10, window_s=600)
    recorders = [Given(memory=memory) for _ in range(3)]
    for number in range(20):
        for recorder in recorders:
            recorder.record("x" * 1000, name=f"web-{number}")
            await recorder.recorder.flush()
    assert len(memory) == 20  # 10 events, 10 objects
    # when time passes
    await asyncio.sleep(1_000)
    recorders[0].record()
    await recorders[0].recorder.flush()
    # then
    assert len(memory) == 2
    assert memory.pending == 0
