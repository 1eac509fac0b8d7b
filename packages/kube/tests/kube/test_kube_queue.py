"""WorkQueue: a key waits once, has one worker at a time, is due at its time, and rests by its cost."""

import asyncio
import itertools
import random

import pytest

from pykruise.kube.control.queue import QueueClosedError, WorkQueue


def elapsed() -> float:
    return asyncio.get_running_loop().time()


async def waiting_keys(queue: WorkQueue[str]) -> list[str]:
    """Take and finish all keys that wait now."""
    keys = []
    while queue.read_stats().depth:
        key = await queue.get()
        queue.mark_done(key)
        keys.append(key)
    return keys


async def wait_after_failure(queue: WorkQueue[str], key: str = "a") -> float:
    """Report a failure of the key, and take the key when it is due again; return the wait."""
    begin = elapsed()
    delay_s = queue.add_rate_limited(key)
    queue.mark_done(await queue.get())
    assert elapsed() - begin == pytest.approx(delay_s)
    return delay_s


async def test_keys_are_handed_out_once_and_in_the_order_of_their_addition() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert await waiting_keys(queue) == ["a", "b", "c"]


async def test_a_key_in_flight_is_not_handed_out_again_until_it_is_done_and_then_once() -> None:
    # given
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    # when it is added twice before it is done
    queue.add("a")
    queue.add("a")
    assert queue.read_stats().depth == 0
    queue.mark_done(key)
    # then
    assert await waiting_keys(queue) == ["a"]
    assert await waiting_keys(queue) == []


async def test_a_key_added_while_busy_is_queued_behind_waiting_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("busy")
    key = await queue.get()
    queue.add("busy")
    queue.add("other")
    queue.mark_done(key)
    assert await waiting_keys(queue) == ["other", "busy"]


async def test_each_added_key_wakes_one_waiting_worker() -> None:
    # given three workers
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    # when
    queue.add("a")
    queue.add("b")
    done, waiting = await asyncio.wait(workers, timeout=1)
    # then
    assert {worker.result() for worker in done} == {"a", "b"}
    assert len(waiting) == 1
    queue.add("c")
    assert await waiting.pop() == "c"


async def test_a_key_is_not_lost_with_the_worker_it_woke() -> None:
    # given two workers, the first of which is cancelled when its key has arrived
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    # then
    assert await second == "a"
    assert first.cancelled()


async def test_a_cancelled_worker_that_nothing_woke_leaves_no_trace() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.wait([first])
    queue.add("a")
    assert await queue.get() == "a"


async def test_a_delayed_key_is_handed_out_at_its_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    queue.add_after("late", 60)
    queue.add_after("soon", 5)
    assert queue.read_stats().delayed == 2
    assert (await queue.get(), elapsed() - begin) == ("soon", pytest.approx(5))
    assert (await queue.get(), elapsed() - begin) == ("late", pytest.approx(60))


async def test_the_earliest_of_several_delays_of_a_key_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    for seconds in (30, 10, 20):
        queue.add_after("a", seconds)
    key = await queue.get()
    assert elapsed() - begin == pytest.approx(10)
    queue.mark_done(key)
    # and the later ones are void
    await asyncio.sleep(60)
    assert queue.read_stats().depth == 0


async def test_an_add_now_makes_a_later_time_void() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10)
    queue.add("a")
    assert await waiting_keys(queue) == ["a"]
    await asyncio.sleep(60)
    assert await waiting_keys(queue) == []


async def test_a_time_in_the_past_is_now() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert await waiting_keys(queue) == ["a", "b"]


async def test_a_delay_that_ends_while_the_key_is_in_flight_is_kept() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add_after("a", 5)
    await asyncio.sleep(6)
    assert queue.read_stats().depth == 0
    queue.mark_done(key)
    assert await waiting_keys(queue) == ["a"]


async def test_failures_double_the_delay_up_to_the_limit_and_success_resets_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waits = [await wait_after_failure(queue) for _ in range(100)]
    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert max(waits) == waits[-1] == 300
    assert queue.add_rate_limited("b") == pytest.approx(0.005)
    assert queue.count_failures("a") == 100
    # when
    queue.forget("a")
    # then
    assert queue.add_rate_limited("a") == pytest.approx(0.005)
    assert queue.read_stats().retries == 102


async def test_a_key_woken_during_its_backoff_keeps_its_retry_time_when_it_fails() -> None:
    # given a key that failed and waits
    queue: WorkQueue[str] = WorkQueue(base_delay_s=1.0)
    begin = elapsed()
    queue.add_rate_limited("a")
    # when it is woken during the wait, and fails again and again
    for number in range(1, 4):
        await asyncio.sleep(0.2)
        queue.add("a")
        queue.mark_done(await queue.get())
        assert queue.add_rate_limited("a") == pytest.approx(1.0 - 0.2 * number)
    # then it is due at the time of the first failure
    queue.mark_done(await queue.get())
    assert elapsed() - begin == pytest.approx(1.0)
    assert queue.count_failures("a") == 4
    # and waits twice as long if it fails again
    assert queue.add_rate_limited("a") == pytest.approx(2.0)


@pytest.mark.parametrize("lasts_s", [0.1, 5.0, 40.0])
async def test_a_key_is_retried_within_about_the_duration_of_an_outage(lasts_s: float) -> None:
    """After an outage, events wake a key dozens of times, and each attempt fails."""
    # given a key that fails for a while, and that is woken a hundred times at the beginning
    queue: WorkQueue[str] = WorkQueue(rng=random.Random(1))
    loop, begin = asyncio.get_running_loop(), elapsed()
    for number in range(100):
        loop.call_later(number * lasts_s / 1000, queue.add, "a")
    # when
    queue.mark_done(await queue.get())
    while elapsed() - begin < lasts_s:
        queue.add_rate_limited("a")
        queue.mark_done(await queue.get())
    # then
    assert elapsed() - begin <= 2.5 * lasts_s


async def test_keys_that_failed_together_are_retried_at_different_times() -> None:
    queue: WorkQueue[int] = WorkQueue(rng=random.Random(1))
    waits = {queue.add_rate_limited(key) for key in range(100)}
    assert len(waits) == 100
    assert all(0.004 <= wait <= 0.005 for wait in waits)


async def test_a_failure_waits_at_least_as_long_as_the_server_requests() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    assert queue.add_rate_limited("a", at_least_s=7) == 7
    await queue.get()
    assert elapsed() - begin == pytest.approx(7)


async def test_an_expensive_key_rests_as_long_as_it_cost() -> None:
    # given a key whose planning took 100 ms
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    queue.add("dear")
    queue.mark_done(await queue.get(), cost_s=0.1)
    # when it is added again, before another key
    queue.add("dear")
    queue.add("cheap")
    # then other keys go first, and the key comes after its rest
    assert await queue.get() == "cheap"
    assert await queue.get() == "dear"
    assert elapsed() - begin == pytest.approx(0.1)


async def test_a_key_added_constantly_takes_no_more_than_its_share_of_time() -> None:
    queue: WorkQueue[str] = WorkQueue(cost_factor=3.0)
    turns: list[float] = []
    queue.add("a")
    for _ in range(10):
        key = await queue.get()
        turns.append(elapsed())
        queue.add(key)
        await asyncio.sleep(0.1)
        queue.add(key)
        queue.mark_done(key, cost_s=0.1)
    assert [later - earlier for earlier, later in itertools.pairwise(turns)] == pytest.approx([0.4] * 9)


async def test_cheap_work_needs_no_rest() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.mark_done(await queue.get(), cost_s=0.0019)
    queue.add("a")
    assert queue.read_stats().depth == 1


async def test_a_forced_add_ends_the_rest() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for force_in_flight in (False, True):
        queue.add("a")
        key = await queue.get()
        if force_in_flight:
            queue.add("a")
            queue.add("a", force=True)
            queue.add("a")
        queue.mark_done(key, cost_s=100.0)
        if not force_in_flight:
            queue.add("a")
            assert queue.read_stats().depth == 0
            queue.add("a", force=True)
        assert await waiting_keys(queue) == ["a"]


async def test_delayed_adds_and_failures_during_a_rest_wait_for_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    queue.add("a")
    queue.mark_done(await queue.get(), cost_s=2.0)
    queue.add_after("a", 1)
    queue.add_rate_limited("a")
    await queue.get()
    assert elapsed() - begin == pytest.approx(2)


async def test_a_delayed_add_in_flight_that_falls_into_the_rest_waits_for_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begin = elapsed()
    queue.add("a")
    key = await queue.get()
    queue.add_after("a", 1)
    queue.mark_done(key, cost_s=2.0)
    await queue.get()
    assert elapsed() - begin == pytest.approx(2)


async def test_expired_rests_of_keys_are_not_kept() -> None:
    queue: WorkQueue[int] = WorkQueue()
    for key in range(5000):
        queue.add(key)
        queue.mark_done(await queue.get(), cost_s=0.01)
        await asyncio.sleep(0.01)
    assert len(queue._rest_until) < 200


async def test_repeated_earlier_delays_of_a_key_keep_the_schedule_small() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for seconds in range(5000, 0, -1):
        queue.add_after("a", seconds)
    assert len(queue._schedule) < 200
    begin = elapsed()
    await queue.get()
    assert elapsed() - begin == pytest.approx(1)


async def test_a_closed_queue_returns_and_accepts_no_keys() -> None:
    # given a worker that waits, a key in flight, one that waits, and one that is delayed
    queue: WorkQueue[str] = WorkQueue()
    queue.add("in flight")
    key = await queue.get()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add_after("delayed", 5)
    # when
    queue.close()
    queue.add("late")
    # then
    with pytest.raises(QueueClosedError):
        await worker
    with pytest.raises(QueueClosedError):
        await queue.get()
    queue.add(key)
    queue.mark_done(key)
    await asyncio.sleep(10)
    stats = queue.read_stats()
    assert (stats.depth, stats.in_flight, stats.delayed) == (0, 0, 0)


async def test_a_cleared_queue_has_no_keys_but_accepts_new_ones() -> None:
    # given keys that wait, are delayed, have failed, rest, and are in flight
    queue: WorkQueue[str] = WorkQueue()
    queue.add("in flight")
    queue.add("rests")
    assert [await queue.get(), await queue.get()] == ["in flight", "rests"]
    queue.mark_done("rests", cost_s=5.0)
    queue.add("in flight")
    queue.add("waits")
    queue.add_after("delayed", 1.0)
    queue.add_rate_limited("failed")
    # when
    queue.clear()
    queue.mark_done("in flight")
    await asyncio.sleep(10.0)
    # then
    stats = queue.read_stats()
    assert (stats.depth, stats.delayed, stats.in_flight) == (0, 0, 0)
    assert queue.count_failures("failed") == 0
    # and
    queue.add("new")
    assert await queue.get() == "new"


async def test_done_is_for_keys_in_flight() -> None:
    queue: WorkQueue[str] = WorkQueue()
    with pytest.raises(KeyError):
        queue.mark_done("a")


async def test_the_stats_of_a_queue_count_its_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)
        await asyncio.sleep(1)
    await queue.get()
    queue.add_after("d", 10)
    stats = queue.read_stats()
    assert (stats.depth, stats.in_flight, stats.delayed, stats.adds) == (2, 1, 1, 3)
    assert stats.oldest_s == pytest.approx(2)
    await queue.get()
    await queue.get()
    assert queue.read_stats().oldest_s == 0


@pytest.mark.parametrize("seed", range(20))
async def test_no_added_key_is_lost_in_any_order_of_events(seed: int) -> None:
    """After its last add, a key is worked on once more, and never by two workers at a time."""
    # given
    rng = random.Random(seed)
    queue: WorkQueue[int] = WorkQueue(rng=rng)
    added: dict[int, float] = {}
    begun: dict[int, float] = {}
    in_flight: set[int] = set()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in in_flight
            in_flight.add(key)
            begun[key] = elapsed()
            cost_s = rng.choice((0.0, 0.001, 0.3))
            await asyncio.sleep(cost_s)
            in_flight.discard(key)
            if rng.random() < 0.2:
                queue.add_rate_limited(key)
            queue.mark_done(key, cost_s=cost_s)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    # when
    for _ in range(300):
        key = rng.randrange(6)
        await asyncio.sleep(rng.choice((0.0, 0.01, 0.4)))
        added[key] = elapsed()
        match rng.randrange(4):
            case 0:
                queue.add_after(key, rng.uniform(0, 2))
            case 1:
                queue.add(key, force=True)
            case _:
                queue.add(key)
        if rng.random() < 0.05:
            # a worker dies while it waits for a key, and another one takes its place
            idle = [worker for worker in workers if not in_flight]
            if idle:
                idle[0].cancel()
                workers.remove(idle[0])
                workers.append(asyncio.create_task(work()))
    await asyncio.sleep(600)
    # then
    assert all(begun[key] >= added[key] for key in added)
    stats = queue.read_stats()
    assert (stats.depth, stats.in_flight, stats.delayed) == (0, 0, 0)
    for worker in workers:
        worker.cancel()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


async def test_failures_of_a_key_double_its_wait_and_success_resets_it() -> None:
    """operations case 25"""
    queue: WorkQueue[str] = WorkQueue(base_delay_s=0.005, max_delay_s=1000.0)
    waits = [await wait_after_failure(queue) for _ in range(25)]
    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert waits[-1] == 1000.0
    queue.forget("a")
    assert queue.add_rate_limited("a") == 0.005


async def test_retries_of_all_keys_together_follow_a_rate_after_a_burst() -> None:
    """operations case 26"""
    # given
    queue: WorkQueue[int] = WorkQueue(base_delay_s=0.005, retries_per_s=10.0, retry_burst=100)
    # when a thousand keys fail at the same time
    waits = [queue.add_rate_limited(key) for key in range(1000)]
    # then
    assert waits[:100] == [0.005] * 100
    assert waits[100:] == pytest.approx([number / 10 for number in range(1, 901)])
    # and tokens come back with time
    await asyncio.sleep(100.0)
    assert queue.add_rate_limited(5000) == 0.005
