"""Inbox: events that are read immediately, events that wait, and their order."""

import asyncio
from typing import Any

from pykruise.kube.cache.event_batching import Inbox, Pace

PACE = Pace(burst=3, per_s=10.0, wait_s=0.025)


class Reader:
    """Records the events that the inbox delivers, and when."""

    def __init__(self, pace: Pace | None = PACE) -> None:
        self.inbox = Inbox(pace)
        self.read: list[Any] = []
        self.at: list[float] = []

    def put(self, *what: Any) -> None:
        for item in what:
            self.inbox.put(self.note, item)

    def note(self, what: Any) -> None:
        self.read.append(what)
        self.at.append(asyncio.get_running_loop().time())


async def test_an_inbox_without_a_pace_reads_everything_immediately() -> None:
    # given
    reader = Reader(None)
    # when
    reader.put(*range(1000))
    # then
    assert reader.read == list(range(1000))
    assert not reader.inbox.waiting


async def test_the_first_of_many_events_are_read_immediately_and_the_rest_together_later() -> None:
    # given
    reader = Reader()
    began = asyncio.get_running_loop().time()
    # when
    reader.put(*range(10))
    # then
    assert reader.read == [0, 1, 2]
    await asyncio.sleep(0.03)
    assert reader.read == list(range(10))
    assert {round(at - began, 6) for at in reader.at[3:]} == {0.025}


async def test_a_reader_does_not_wait_and_nothing_is_read_twice() -> None:
    # given
    reader = Reader()
    reader.put(*range(5))
    # when
    reader.inbox.process_events()
    # then
    assert reader.read == list(range(5))
    await asyncio.sleep(0.1)
    assert reader.read == list(range(5))


async def test_rare_events_are_never_delayed() -> None:
    # given
    reader = Reader()
    reader.put(*range(3))
    # when, at the rate that the pace allows
    for number in range(3, 20):
        await asyncio.sleep(0.101)
        reader.put(number)
        # then
        assert reader.read[-1] == number


async def test_an_event_with_a_free_slot_does_not_overtake_waiting_ones() -> None:
    # given
    reader = Reader(Pace(burst=1, per_s=100.0, wait_s=0.025))
    reader.put(0, 1)
    # when the loop has a turn again
    await asyncio.sleep(0.02)
    reader.put(2)
    # then
    assert reader.read == [0]
    await asyncio.sleep(0.01)
    assert reader.read == [0, 1, 2]


async def test_a_flood_is_read_in_portions_without_waiting_for_the_moment_to_end() -> None:
    # given
    reader = Reader()
    # when
    reader.put(*range(1000))
    # then
    assert len(reader.read) > 800
    assert len(reader.inbox.waiting) < 128
    await asyncio.sleep(0.03)
    assert reader.read == list(range(1000))


async def test_an_event_added_during_a_step_is_read_after_the_waiting_ones() -> None:
    # given
    reader = Reader(Pace(burst=1, per_s=1.0, wait_s=0.025))
    reader.put("first")

    def both(what: str) -> None:
        reader.note(what)
        reader.put(f"{what}'s")
        reader.inbox.process_events()

    # when
    reader.inbox.put(both, "second")
    reader.put("third")
    reader.inbox.process_events()
    # then
    assert reader.read == ["first", "second", "third", "second's"]
