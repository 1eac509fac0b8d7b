"""Maps of results: unused entries are dropped, and the limits are never exceeded."""

import gc
import weakref

import msgspec
import pytest

from pykruise.kube.cache.remembering import Recent, SharedValues, forget_unused, remember


def fill(known: "Recent[str, int | None]", keys: list[str], *, rounds: int) -> int:
    """Look up all keys in turn, and put missing ones. Returns how many were missing."""
    misses = 0
    for _ in range(rounds):
        for key in keys:
            if known.get(key, None) is None:
                known.put(key, len(key))
                misses += 1
    return misses


def test_entries_that_are_looked_up_stay_and_others_are_forgotten() -> None:
    # given entries of deleted objects, and of objects that exist
    known: Recent[str, int | None] = Recent(entries=100_000)
    fill(known, [f"past-{number}" for number in range(5_000)], rounds=1)
    present = [f"present-{number}" for number in range(100)]
    misses = 0
    # when only objects that exist are looked up
    for _ in range(10):
        misses += fill(known, present, rounds=1)
        forget_unused()
    # then each of them was computed once
    assert misses == len(present)
    assert len(known) == len(present)


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_map_does_not_grow_with_the_number_of_past_objects(rounds: int) -> None:
    # given a hundred objects at a time, each looked up some times before the next ones replace them
    known: Recent[str, int | None] = Recent(entries=100_000)
    # when
    for generation in range(100):
        fill(known, [f"{generation}-{number}" for number in range(100)], rounds=rounds)
        forget_unused()
        # then
        assert len(known) == 100


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_entries_and_size_never_exceed_their_limits(rounds: int) -> None:
    by_entries: Recent[str, int | None] = Recent(entries=10)
    by_size: Recent[str, int | None] = Recent(entries=1_000, size=100)
    for number in range(1_000):
        key = f"{number // rounds}"
        for known in (by_entries, by_size):
            if known.get(key, None) is None:
                known.put(key, number, size=9)
            known.get(f"{number // rounds - 1}", None)
        assert len(by_entries) <= 10
        assert len(by_size) <= 100 // 9


def test_a_result_may_be_none() -> None:
    calls: list[str] = []

    @remember(entries=10, longest=100)
    def read(text: str) -> None:
        calls.append(text)

    for _ in range(3):
        read("a")
    assert calls == ["a"]


def test_a_function_drops_results_of_arguments_that_are_no_longer_used() -> None:
    class Result:
        pass

    @remember(entries=10_000, longest=100)
    def read(text: str) -> Result:
        return Result()

    # given
    past = [weakref.ref(read(f"past-{number}")) for number in range(1_000)]
    assert all(result() is not None for result in past)
    # when
    for _ in range(2):
        forget_unused()
        read("present")
    # then
    assert all(result() is None for result in past)


class Part(msgspec.Struct, frozen=True, weakref=True):
    """A value that several views share."""

    name: str


def test_values_are_shared_while_objects_refer_to_them() -> None:
    # given
    table = SharedValues(entries=100_000)
    first = table.share(Part("a"), Part("a"))
    # when many others follow
    for number in range(5_000):
        table.share(Part(f"past-{number}"), Part(f"past-{number}"))
        table.trim()
    # then
    assert table.share(Part("a"), Part("a")) is first


@pytest.mark.parametrize("is_own_key", [True, False], ids=["a value is its key", "a value has another key"])
def test_values_that_no_object_uses_are_dropped(is_own_key: bool) -> None:
    # given
    table = SharedValues(entries=100_000)
    kept = []
    past: list[weakref.ref[Part]] = []
    for number in range(20_000):
        part = Part(f"part-{number}")
        value = table.share(part if is_own_key else f"key-{number}", part)
        if number % 100 == 0:
            kept.append(value)
        else:
            past.append(weakref.ref(value))
        del part, value
        table.trim()
        # then the table has at most twice the values that are in use, or its least size
        assert len(table) <= 1_024 + 2 * len(kept)
    gc.collect()
    assert sum(each() is not None for each in past) <= 1_024
    assert all(
        table.share(each if is_own_key else f"key-{100 * number}", None) is each
        for number, each in enumerate(kept)
    )


def test_a_table_of_values_in_use_is_emptied_at_its_limit() -> None:
    table = SharedValues(entries=10)
    kept = []
    for number in range(100):
        kept.append(table.share(Part(f"{number}"), Part(f"{number}")))
        table.trim()
        assert len(table) <= 11
    assert [part.name for part in kept] == [f"{number}" for number in range(100)]
