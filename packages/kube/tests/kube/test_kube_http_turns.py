"""Work in small portions: a few items per turn of the loop, addresses in rotation."""

import asyncio

from pykruise.kube.http.turns import Turns


async def test_addresses_are_served_in_rotation_a_few_items_per_loop_iteration() -> None:
    # given one address with four items, and another with one
    served: list[str] = []
    turns = Turns[str](each=2, serve=lambda item: served.append(item) is None)
    for item in ("a1", "a2", "a3", "a4"):
        turns.add("a", item)
    turns.add("b", "b1")
    # when, then
    await asyncio.sleep(0)
    assert served == ["a1", "b1"]
    await asyncio.sleep(0)
    assert served == ["a1", "b1", "a2", "a3"]
    await asyncio.sleep(0)
    assert served[4:] == ["a4"]


async def test_items_that_cost_nothing_do_not_count() -> None:
    served: list[int] = []

    def serve(item: int) -> bool:
        served.append(item)
        return item == 9

    turns = Turns[int](each=1, serve=serve)
    for item in (1, 2, 9, 3):
        turns.add("a", item)
    await asyncio.sleep(0)
    assert served == [1, 2, 9]


async def test_cleared_items_are_not_served_and_later_items_are() -> None:
    served: list[str] = []
    turns = Turns[str](each=1, serve=lambda item: served.append(item) is None)
    turns.add("a", "old")
    turns.clear()
    turns.add("a", "new")
    await asyncio.sleep(0)
    assert served == ["new"]
