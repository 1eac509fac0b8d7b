"""Places for concurrent work: order, fairness and cancellation."""

import asyncio
from contextlib import suppress

from pykruise.runtime.fair_places import FairPlaces


class Board:
    """Chains of plans that share places. `order`: the plans in the order in which their chains got a place."""

    def __init__(self, places: int) -> None:
        self.places = FairPlaces(places)
        self.order: list[str] = []
        self.under_way = 0
        self.most_under_way = 0

    async def run_chain(self, plan: str, seconds: float = 1.0) -> None:
        await self.places.acquire(plan)
        try:
            self.order.append(plan)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            await asyncio.sleep(seconds)
        finally:
            self.under_way -= 1
            self.places.release(plan)

    def start(self, plans: str, seconds: float = 1.0) -> list[asyncio.Task[None]]:
        """Start one chain for each letter, which is the name of its plan."""
        return [asyncio.create_task(self.run_chain(plan, seconds)) for plan in plans]

    async def count_free(self) -> int:
        """Count the places that can be acquired immediately, as another plan."""
        count = 0
        with suppress(TimeoutError):
            while True:
                await asyncio.wait_for(self.places.acquire("counter"), 0.01)
                count += 1
        for _ in range(count):
            self.places.release("counter")
        return count


async def test_a_plan_alone_uses_all_places_in_order_of_arrival() -> None:
    board = Board(4)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*board.start("a" * 20))
    assert (board.most_under_way, len(board.order)) == (4, 20)
    assert asyncio.get_running_loop().time() - began == 5
    assert await board.count_free() == 4


async def test_waiting_plans_with_unequal_numbers_of_chains_take_turns() -> None:
    # given one place, and a plan whose chains all came first
    board = Board(1)
    # when
    await asyncio.gather(*board.start("aaaaaa" + "bb" + "c"))
    # then
    assert "".join(board.order) == "aabcabaaa"


async def test_the_plan_with_the_fewest_places_gets_the_next_one() -> None:
    # given plan a with three places and plan b with one; two chains of each wait, those of a for longer
    board = Board(4)
    tasks = [*board.start("a", 5), *board.start("a", 6), *board.start("ab", 100)]
    tasks += board.start("aabb", 100)
    # when the first chain of a ends
    await asyncio.sleep(5.5)
    # then b gets its place: b holds one, a two
    assert "".join(board.order) == "aaab" + "b"
    # when the second chain of a ends
    await asyncio.sleep(1)
    # then a gets the place: a holds one, b two
    assert "".join(board.order) == "aaab" + "ba"
    await asyncio.gather(*tasks)


async def test_a_plan_with_slow_chains_leaves_an_equal_number_of_places_to_others() -> None:
    # given a plan whose chains take ten seconds, and which holds all places
    board = Board(4)
    slow = board.start("s" * 40, 10)
    await asyncio.sleep(1)
    # when
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*board.start("f" * 100, 0.01))
    # then the other one waits once, and then has two places
    assert asyncio.get_running_loop().time() - began < 9 + 100 / 2 * 0.01 + 0.1
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert await board.count_free() == 4


async def test_a_cancelled_wait_takes_no_place() -> None:
    # given one place that is in use, and three chains that wait
    board = Board(1)
    holder, first, second, third = board.start("aabb")
    await asyncio.sleep(0.5)
    # when
    first.cancel()
    third.cancel()
    await asyncio.gather(holder, second)
    # then
    assert "".join(board.order) == "ab"
    assert await board.count_free() == 1


async def test_a_place_of_a_chain_that_is_cancelled_at_the_same_time_is_passed_on() -> None:
    # given one place; the holder ends, and in the same step of the loop the next chain is cancelled
    board = Board(1)
    release = asyncio.Event()

    async def hold() -> None:
        await board.places.acquire("a")
        await release.wait()
        board.places.release("a")
        first.cancel()

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    first, second = board.start("bc")
    await asyncio.sleep(0)
    # when
    release.set()
    await asyncio.gather(holder, second)
    # then
    assert first.cancelled()
    assert board.order == ["c"]
    assert await board.count_free() == 1


async def test_a_plan_that_has_ended_takes_no_memory() -> None:
    board = Board(2)
    tasks = board.start("abcdefgh" * 3)
    await asyncio.sleep(0)
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (board.places._held, board.places._waiting) == ({}, {})
