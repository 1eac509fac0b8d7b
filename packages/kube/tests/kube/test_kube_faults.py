"""The fault-injecting transport that other tests rely on: each fault does what it says, and no more."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import ConnectionLostError, GoneError, RequestTimeoutError, UnreachableError
from support.faults import (
    Answer,
    CutAfter,
    Delay,
    DropAnswer,
    DropRequest,
    Duplicate,
    EndAfter,
    FaultyTransport,
    GarbageAfter,
    GoneAfter,
    Refuse,
    StallAfter,
    StreamFault,
    Swap,
    TakeEffectLate,
    TimeOut,
    Together,
    conflict,
    deletes,
    patches,
    posts,
    reads,
    requests,
    too_many,
    watches,
    writes,
)
from support.scripted import ScriptedTransport, answer

OK = answer(200, b"ok")


def over(*streams: Any) -> tuple[FaultyTransport, ScriptedTransport]:
    inner = ScriptedTransport(OK, streams=streams, repeat_last=True)
    return FaultyTransport(inner), inner


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("fault", "error", "arrives"),
    [
        (Refuse(), UnreachableError, 0),
        (DropRequest(), ConnectionLostError, 0),
        (DropAnswer(), ConnectionLostError, 1),
        (TimeOut(), RequestTimeoutError, 0),
        (TimeOut(takes_effect=True), RequestTimeoutError, 1),
    ],
    ids=str,
)
async def test_an_injected_fault_raises_its_error_before_or_after_the_request_arrives(
    fault: Any, error: type[Exception], arrives: int
) -> None:
    # given
    faulty, inner = over()
    faulty.on(posts("/pods"), fault)
    # when
    with pytest.raises(error):
        await faulty.request(Request("POST", "/pods", body=b"{}"))
    # then only the first matching request is hit
    assert len(inner.asked) == arrives
    assert await faulty.request(Request("POST", "/pods", body=b"{}")) == OK
    assert (faulty.faults_done, len(faulty.log)) == (1, 2)


@pytest.mark.parametrize(
    ("fault", "status", "retry_after", "arrives"),
    [
        (Answer(500), 500, None, 0),
        (Answer(504, takes_effect=True), 504, None, 1),
        (conflict(), 409, None, 0),
        (too_many(3), 429, "3", 0),
    ],
    ids=str,
)
async def test_faults_with_an_answer_return_their_status_and_retry_after(
    fault: Any, status: int, retry_after: str | None, arrives: int
) -> None:
    # given
    faulty, inner = over()
    faulty.on(writes(), fault)
    # when
    response = await faulty.request(Request("PATCH", "/pods/a", body=b"{}"))
    # then
    assert (response.status, response.headers.get("retry-after")) == (status, retry_after)
    assert len(inner.asked) == arrives


async def test_a_write_can_take_effect_after_the_client_has_given_up() -> None:
    # given
    faulty, inner = over()
    faulty.on(posts(), TakeEffectLate(5))
    # when
    with pytest.raises(ConnectionLostError):
        await faulty.request(Request("POST", "/pods"))
    # then
    assert inner.asked == []
    await asyncio.sleep(6)
    assert len(inner.asked) == 1
    await faulty.close()


@pytest.mark.parametrize(("back", "arrives_after"), [(False, 5), (True, 0)])
async def test_a_delay_applies_before_or_after_the_request(back: bool, arrives_after: float) -> None:
    # given
    faulty, inner = over()
    faulty.on(reads(), Delay(5, on_the_way_back=back))
    began = now()
    # when
    assert await faulty.request(Request("GET", "/pods")) == OK
    # then
    assert inner.asked[0].at - began == pytest.approx(arrives_after)
    assert now() - began == pytest.approx(5)


async def test_rules_apply_in_order_and_a_none_fault_passes_the_request() -> None:
    # given
    faulty, _ = over()
    faulty.on(patches("/a"), None, Answer(500))
    faulty.on(requests("PATCH"), Answer(503))
    # when
    statuses = [(await faulty.request(Request("PATCH", path))).status for path in ("/a", "/a", "/b", "/a")]
    # then
    assert statuses == [200, 500, 503, 200]


async def test_a_function_decides_for_every_request_until_the_rules_are_cleared() -> None:
    # given
    faulty, _ = over()
    faulty.on(deletes(), lambda request: Answer(500) if request.number % 2 else None)
    # when
    statuses = [(await faulty.request(Request("DELETE", "/a"))).status for _ in range(4)]
    faulty.clear()
    statuses += [(await faulty.request(Request("DELETE", "/a"))).status for _ in range(2)]
    # then
    assert statuses == [200, 500, 200, 500, 200, 200]


LINES = [b"0", b"1", b"2", b"3"]


async def read_all(faulty: FaultyTransport, into: list[bytes], idle_timeout_s: float | None = None) -> None:
    async with faulty.stream(Request("GET", "/pods", timeout_s=idle_timeout_s)) as lines:
        async for line in lines:
            into.append(line)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (EndAfter(2), [b"0", b"1"]),
        (EndAfter(9), LINES),
        (Duplicate(1), [b"0", b"1", b"1", b"2", b"3"]),
        (Swap(1), [b"0", b"2", b"1", b"3"]),
        (Swap(3), LINES),
        (GarbageAfter(1), [b"0", b'{"type":"ADDED","object":{"metada', b"1", b"2", b"3"]),
        (Together([Swap(0), Duplicate(0), EndAfter(3)]), [b"1", b"1", b"0"]),
    ],
    ids=str,
)
async def test_faults_of_streams_change_lines(fault: StreamFault, expected: list[bytes]) -> None:
    # given
    faulty, inner = over(LINES, LINES)
    faulty.on(watches(), fault)
    # when
    seen: list[bytes] = []
    await read_all(faulty, seen)
    # then
    assert seen == expected
    assert inner.open_streams == 0
    # and the next stream is whole
    again: list[bytes] = []
    await read_all(faulty, again)
    assert again == LINES


async def test_a_cut_breaks_the_connection_after_n_lines() -> None:
    # given
    faulty, inner = over(LINES)
    faulty.on(watches(), CutAfter(3))
    seen: list[bytes] = []
    # when, then
    with pytest.raises(ConnectionLostError):
        await read_all(faulty, seen)
    assert seen == LINES[:3]
    assert inner.open_streams == 0


async def test_a_stall_lasts_until_the_idle_timeout() -> None:
    # given
    faulty, _ = over(LINES, LINES)
    faulty.on(watches(), StallAfter(1), StallAfter(0))
    began = now()
    seen: list[bytes] = []
    # when, then
    with pytest.raises(ConnectionLostError):
        await read_all(faulty, seen, idle_timeout_s=90)
    assert seen == [b"0"]
    assert now() - began == pytest.approx(90)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_all(faulty, seen), 86400)


async def test_a_410_is_raised_on_opening_or_in_mid_stream() -> None:
    # given
    faulty, _ = over(LINES)
    faulty.on(watches(), Answer(410), GoneAfter(1))
    seen: list[bytes] = []
    # when, then
    with pytest.raises(GoneError):
        await read_all(faulty, seen)
    await read_all(faulty, seen)
    assert (seen[0], seen[1][:15]) == (b"0", b'{"type":"ERROR"')


async def test_opening_a_stream_can_be_refused_or_delayed() -> None:
    # given
    faulty, _ = over(LINES)
    faulty.on(watches(), Refuse(), Delay(5))
    began = now()
    seen: list[bytes] = []
    # when, then
    with pytest.raises(UnreachableError):
        await read_all(faulty, seen)
    await read_all(faulty, seen)
    assert (seen, now() - began) == (LINES, pytest.approx(5))
