"""The limiter: turns, priorities, and a limit that follows what the server can take."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from pykruise.kube.client.limiter import Limiter
from pykruise.kube.errors import (
    ApiError,
    Cause,
    ConflictError,
    ConnectionLostError,
    ErrorStatus,
    HeldBackError,
    KubeError,
    RequestTimeoutError,
    ServerTimeoutError,
    ServerUnavailableError,
    StatusDetails,
    TooManyRequestsError,
    UnreachableError,
)


async def request(
    limiter: Limiter,
    *,
    seconds: float = 0.01,
    error: Exception | None = None,
    priority: int = 0,
    is_write: bool = False,
) -> None:
    """A request that takes `seconds` and ends with `error`, which is caught here."""
    try:
        async with limiter.acquire_slot(priority=priority, is_write=is_write):
            await asyncio.sleep(seconds)
            if error is not None:
                raise error
    except KubeError:
        pass


async def keep_busy(
    limiter: Limiter, answer: Callable[[], Awaitable[None]], *, workers: int, rounds: int
) -> None:
    """`workers` clients, each sending `rounds` requests one after another."""

    async def work() -> None:
        for _ in range(rounds):
            async with limiter.acquire_slot():
                await answer()

    await asyncio.gather(*(work() for _ in range(workers)))


def too_many(retry_after_s: float | None = None) -> TooManyRequestsError:
    return TooManyRequestsError(ErrorStatus(code=429), retry_after_s=retry_after_s)


def now() -> float:
    return asyncio.get_running_loop().time()


# ── turns ────────────────────────────────────────────────────────────────────


async def test_no_more_requests_than_the_limit_run_and_the_rest_wait_in_order() -> None:
    # given
    limiter = Limiter(start=4, minimum=4, maximum=4)
    under_way, most, order = 0, 0, []

    async def work(number: int) -> None:
        nonlocal under_way, most
        async with limiter.acquire_slot():
            order.append(number)
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(1)
            under_way -= 1

    # when
    await asyncio.gather(*(work(number) for number in range(20)))
    # then
    assert most == 4
    assert order == list(range(20))
    assert limiter.read_stats().in_flight == limiter.read_stats().waiting == 0
    assert limiter.read_stats().started == 20


async def test_later_writes_of_a_pod_precede_first_writes_of_another() -> None:
    # given one place that is taken, and a queue of both kinds
    limiter = Limiter(start=1, minimum=1, maximum=1)
    order: list[str] = []

    async def work(name: str, priority: int) -> None:
        async with limiter.acquire_slot(priority=priority):
            order.append(name)
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(work("running", 0))]
    await asyncio.sleep(0.1)
    tasks += [asyncio.create_task(work(name, 0)) for name in ("first-a", "first-b")]
    tasks += [asyncio.create_task(work(name, 1)) for name in ("later-a", "later-b")]
    await asyncio.sleep(0.1)
    assert (limiter.read_stats().waiting, limiter.read_stats().waiting_priority) == (4, 2)
    # when
    await asyncio.gather(*tasks)
    # then
    assert order == ["running", "later-a", "later-b", "first-a", "first-b"]


async def test_the_first_lane_cannot_starve_the_second_lane() -> None:
    # given one place, and more later writes than ever end
    limiter = Limiter(start=1, minimum=1, maximum=1)
    waited = asyncio.Event()
    later = 0

    async def endless() -> None:
        nonlocal later
        while not waited.is_set():
            async with limiter.acquire_slot(priority=1):
                later += 1
                await asyncio.sleep(1)

    async def patient() -> None:
        async with limiter.acquire_slot():
            waited.set()

    # when
    await asyncio.gather(endless(), endless(), endless(), patient())
    # then
    assert later <= 12


async def test_a_cancelled_wait_leaves_no_gap() -> None:
    # given one place that is taken, and three in the queue
    limiter = Limiter(start=1, minimum=1, maximum=1)
    holder = asyncio.create_task(request(limiter, seconds=10))
    await asyncio.sleep(0)
    first, second, third = (asyncio.create_task(request(limiter, seconds=1)) for _ in range(3))
    await asyncio.sleep(1)
    # when
    first.cancel()
    third.cancel()
    await asyncio.gather(holder, second)
    # then
    assert limiter.read_stats().in_flight == limiter.read_stats().waiting == 0
    assert limiter.read_stats().started == 2


async def test_a_slot_granted_to_a_cancelled_waiter_is_passed_on() -> None:
    # given one place; the holder ends and the next in line is cancelled in the same step of the loop
    limiter = Limiter(start=1, minimum=1, maximum=1)
    release = asyncio.Event()

    async def hold() -> None:
        async with limiter.acquire_slot():
            await release.wait()
            # the slot is handed over when this block ends; the cancellation arrives after that
            asyncio.get_running_loop().call_soon(first.cancel)

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    first = asyncio.create_task(request(limiter))
    second = asyncio.create_task(request(limiter))
    await asyncio.sleep(0)
    # when
    release.set()
    await asyncio.gather(holder, second)
    await asyncio.sleep(1)
    # then
    assert first.done()
    assert limiter.read_stats().in_flight == 0


async def test_a_cancelled_request_frees_its_slot() -> None:
    # given
    limiter = Limiter(start=1, minimum=1, maximum=1)
    task = asyncio.create_task(request(limiter, seconds=3600))
    await asyncio.sleep(1)
    # when
    task.cancel()
    # then
    await asyncio.wait_for(request(limiter), 1)
    assert limiter.read_stats().cuts == 0


# ── the limit ────────────────────────────────────────────────────────────────


async def test_the_limit_grows_slowly_while_it_is_in_use_and_answers_stay_fast() -> None:
    # given
    limiter = Limiter(start=16, minimum=4, maximum=64)
    # when
    await keep_busy(limiter, lambda: asyncio.sleep(0.01), workers=100, rounds=3)
    after_some = limiter.read_stats().limit
    await keep_busy(limiter, lambda: asyncio.sleep(0.01), workers=100, rounds=100)
    # then about one more per round of requests, up to the maximum
    assert 20 < after_some < 32
    assert limiter.read_stats().limit == 64


async def test_a_limit_that_is_not_in_use_does_not_grow() -> None:
    # given
    limiter = Limiter(start=16)
    # when
    await keep_busy(limiter, lambda: asyncio.sleep(0.01), workers=5, rounds=500)
    # then
    assert limiter.read_stats().limit == 16


async def test_the_limit_stops_growing_when_more_requests_only_make_answers_slower() -> None:
    # given a server that answers 100 requests a second, however many it gets at a time
    limiter = Limiter(start=4, minimum=4, maximum=64)
    free_at = 0.0

    async def answer() -> None:
        nonlocal free_at
        free_at = max(free_at, now()) + 0.01
        await asyncio.sleep(free_at - now())

    # when
    await keep_busy(limiter, answer, workers=100, rounds=100)
    # then
    assert limiter.read_stats().limit <= 8


async def test_the_limit_recovers_after_a_cut_even_with_slow_answers() -> None:
    # given a server that was fast, and is slow after an overload
    limiter = Limiter(start=16, minimum=4, maximum=64)
    await request(limiter, seconds=0.01)
    for _ in range(3):
        await request(limiter, error=too_many())
    # when
    await keep_busy(limiter, lambda: asyncio.sleep(1), workers=50, rounds=10)
    # then to where it started, not above
    assert limiter.read_stats().limit == 16


@pytest.mark.parametrize(
    "error",
    [
        too_many(),
        ServerUnavailableError(ErrorStatus(code=503)),
        ServerTimeoutError(ErrorStatus(code=504)),
        RequestTimeoutError("late"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_overloaded_server_halves_the_limit(error: Exception) -> None:
    # given
    limiter = Limiter(start=16)
    # when
    await request(limiter, error=error)
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (8, 1)


@pytest.mark.parametrize(
    "error",
    [
        ConflictError(ErrorStatus(code=409)),
        UnreachableError("refused"),
        ConnectionLostError("lost"),
        TooManyRequestsError(
            ErrorStatus(code=429, details=StatusDetails(causes=(Cause(reason="DisruptionBudget"),))),
            retry_after_s=10,
        ),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_unrelated_to_load_do_not_change_the_limit(error: Exception) -> None:
    # given
    limiter = Limiter(start=16)
    # when
    await request(limiter, error=error)
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts, limiter.read_stats().held_s) == (16, 0, {})


@pytest.mark.parametrize(
    "kind_and_code",
    [(TooManyRequestsError, 429), (ServerUnavailableError, 503)],
    ids=["429", "503"],
)
async def test_an_object_that_is_rejected_with_a_status_does_not_change_the_limit(
    kind_and_code: tuple[type[ApiError], int],
) -> None:
    # given the answer of an admission webhook of one tenant
    kind, code = kind_and_code
    error = kind(ErrorStatus(status="Failure", code=code), retry_after_s=2)
    limiter = Limiter(start=16)
    # when
    with suppress(KubeError):
        async with limiter.acquire_slot(scope=PODS_OF_A, is_write=True):
            raise error
    # then only the requests of this scope wait
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (16, 0)
    assert limiter.read_stats().held_s == {PODS_OF_A: pytest.approx(2, abs=0.01)}


LATE = [ServerTimeoutError(ErrorStatus(status="Failure", code=504)), RequestTimeoutError("late")]
"""Errors of a write whose webhooks are slow, and of any request to an overloaded server."""


@pytest.mark.parametrize("error", LATE, ids=lambda error: type(error).__name__)
async def test_late_writes_of_one_object_do_not_change_the_limit_while_other_writes_are_fast(
    error: Exception,
) -> None:
    # given other writes at usual speed
    limiter = Limiter(start=16)
    late = asyncio.create_task(request(limiter, seconds=30, error=error, is_write=True))
    for _ in range(30):
        await request(limiter, is_write=True)
        await asyncio.sleep(1)
    # when
    await late
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (16, 0)


@pytest.mark.parametrize("error", LATE, ids=lambda error: type(error).__name__)
async def test_late_writes_halve_the_limit_if_other_writes_are_slow_too(error: Exception) -> None:
    # given a server that was fast
    limiter = Limiter(start=16)
    for _ in range(30):
        await request(limiter, is_write=True)
    # when writes become slow while reads stay fast
    late = asyncio.create_task(request(limiter, seconds=30, error=error, is_write=True))
    for _ in range(30):
        await asyncio.gather(request(limiter, seconds=1, is_write=True), request(limiter))
    await late
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (8, 1)


@pytest.mark.parametrize("error", LATE, ids=lambda error: type(error).__name__)
async def test_a_late_read_halves_the_limit(error: Exception) -> None:
    # given
    limiter = Limiter(start=16)
    await request(limiter, is_write=True)
    # when
    await request(limiter, error=error)
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (8, 1)


async def test_one_overload_seen_by_many_requests_cuts_the_limit_once() -> None:
    # given
    limiter = Limiter(start=16)
    # when
    await asyncio.gather(*(request(limiter, error=too_many()) for _ in range(16)))
    # then
    assert (limiter.read_stats().limit, limiter.read_stats().cuts) == (8, 1)


async def test_the_limit_never_falls_below_the_minimum_and_recovers() -> None:
    # given
    limiter = Limiter(start=16, minimum=4)
    for _ in range(10):
        await request(limiter, error=too_many())
    assert limiter.read_stats().limit == 4
    # when
    await keep_busy(limiter, lambda: asyncio.sleep(0.01), workers=50, rounds=20)
    # then
    assert limiter.read_stats().limit > 16


PODS_OF_A = "writes of /api/v1/namespaces/a/pods"
PODS_OF_B = "writes of /api/v1/namespaces/b/pods"


async def hold(limiter: Limiter, scope: str, seconds: float) -> None:
    """Send a request whose answer has a Retry-After of `seconds`."""
    with suppress(KubeError):
        async with limiter.acquire_slot(scope=scope):
            await asyncio.sleep(0)
            raise too_many(seconds)


async def test_retry_after_holds_back_its_own_scope_alone() -> None:
    # given
    limiter = Limiter(start=16)
    began = now()
    await hold(limiter, PODS_OF_A, 2)
    assert limiter.read_stats().held_s == {PODS_OF_A: pytest.approx(2, abs=0.01)}
    # when
    async with limiter.acquire_slot(scope=PODS_OF_B):
        assert now() - began < 0.01
    async with limiter.acquire_slot(scope=PODS_OF_A):
        # then
        assert now() - began == pytest.approx(2, abs=0.01)
    assert limiter.read_stats().held_s == {}


async def test_a_request_of_a_scope_held_for_long_fails_immediately(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given
    limiter = Limiter(start=16)
    await hold(limiter, PODS_OF_A, 20)
    began = now()
    # when
    with pytest.raises(HeldBackError) as caught:
        async with limiter.acquire_slot(scope=PODS_OF_A):
            raise AssertionError("it was not held back")
    # then
    assert (now() - began, caught.value.retry_after_s) == (0, pytest.approx(20, abs=0.01))
    assert f"{PODS_OF_A}: no requests are sent for 20 s" in caplog.text
    # and an error before the request was sent says nothing about the server
    assert (limiter.read_stats().cuts, limiter.read_stats().holds, limiter.read_stats().in_flight) == (
        1,
        1,
        0,
    )


async def test_a_longer_retry_after_extends_the_hold_and_a_shorter_one_does_not_cut_it() -> None:
    # given
    limiter = Limiter(start=4, minimum=4, maximum=4)
    await asyncio.gather(
        hold(limiter, PODS_OF_A, 2), hold(limiter, PODS_OF_A, 3), hold(limiter, PODS_OF_A, 1)
    )
    began = now()
    # when
    async with limiter.acquire_slot(scope=PODS_OF_A):
        # then
        assert now() - began == pytest.approx(3, abs=0.1)


async def test_expired_holds_take_no_memory() -> None:
    limiter = Limiter()
    for number in range(100):
        await hold(limiter, f"writes of {number}", 1)
        await asyncio.sleep(0.5)
    assert len(limiter._held_until) <= 3


def test_impossible_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="minimum <= start <= maximum"):
        Limiter(start=100, maximum=64)


def test_statistics_can_be_read_outside_of_the_loop() -> None:
    assert Limiter().read_stats().limit == 16
