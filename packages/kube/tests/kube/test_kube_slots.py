"""Slots: every key belongs to exactly one slot, and slots move rarely and only a few at a time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.election.key_slots import (
    AT_ONCE,
    SLOTS,
    LeaderRecord,
    assign,
    assign_rendezvous,
    hash_fnv1a,
    read_record,
    slot_of,
)
from pykruise.kube.ids import Key

seats = st.lists(st.integers(0, SLOTS - 1), min_size=1, unique=True)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=63)


@pytest.mark.parametrize(
    ("text", "value"), [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)]
)
def test_the_hash_is_fnv_1a_of_64_bits(text: str, value: int) -> None:
    assert hash_fnv1a(text) == value


@given(names, names, names)
def test_a_key_is_in_one_slot_and_with_its_namespace_when_they_are_shared(
    kind: str, namespace: str, name: str
) -> None:
    key = Key(namespace, name)
    assert slot_of(kind, key) == slot_of(kind, Key(namespace, name)) in range(SLOTS)
    by_namespace = slot_of(kind, key, keying="namespace")
    assert by_namespace == slot_of("another", Key(namespace, "other"), keying="namespace")
    assert slot_of(kind, Key("", name), keying="namespace") == slot_of(kind, Key("", name))


def test_keys_are_spread_evenly_also_where_names_differ_in_a_number() -> None:
    counts = Counter(slot_of("cloneset", Key("default", f"web-{number}")) for number in range(16_000))
    assert len(counts) == SLOTS
    assert max(counts.values()) < 1.2 * min(counts.values())


@given(seats)
def test_every_slot_has_one_member_and_no_member_more_than_its_share(members: list[int]) -> None:
    wanted = assign_rendezvous(members)
    assert len(wanted) == SLOTS
    assert set(wanted) <= set(members)
    assert max(Counter(wanted).values()) <= -(-SLOTS // len(members))


@given(st.permutations(range(8)), st.integers(2, 8))
def test_a_leaving_member_moves_few_slots_besides_its_own(order: list[int], count: int) -> None:
    members = order[:count]
    before, after = assign_rendezvous(members), assign_rendezvous(members[1:])
    moved = sum(a != b and a != members[0] for a, b in zip(before, after, strict=True))
    assert moved <= SLOTS // 2


def settle(before: dict[int, int], members: list[int]) -> tuple[dict[int, int], int, int]:
    """The final holder of each slot, the number of moves, and the most slots that moved at the same time."""
    held, moves, most = dict(before), 0, 0
    while True:
        said = assign(before, held, seats=members, settled=frozenset(members))
        moving = [slot for slot in said if held.get(slot) != said[slot]]
        if not moving:
            return said, moves, most
        voluntary = [slot for slot in moving if held.get(slot) in members]
        moves += moving[0] in voluntary
        most = max(most, len(voluntary))
        held = {**{slot: seat for slot, seat in held.items() if seat in members}, moving[0]: said[moving[0]]}
        before = said


@given(seats, seats)
def test_slots_move_to_their_members_at_most_two_at_a_time(first: list[int], second: list[int]) -> None:
    before, _, _ = settle({}, first)
    after, moves, most = settle(before, second)
    assert after == dict(enumerate(assign_rendezvous(second)))
    assert most <= AT_ONCE
    assert moves <= SLOTS


@given(seats, seats)
def test_a_slot_moves_from_a_live_member_only_to_a_settled_one(first: list[int], second: list[int]) -> None:
    before, _, _ = settle({}, first)
    said = assign(before, before, seats=second, settled=frozenset())
    assert all(said[slot] == seat for slot, seat in before.items() if seat in second)
    assert set(said.values()) <= set(second)


def test_no_slot_has_a_holder_without_members() -> None:
    assert assign({0: 1}, {0: 1}, seats=[], settled=frozenset()) == {}
    with pytest.raises(ValueError, match="no member"):
        assign_rendezvous([])


def test_a_record_counts_only_while_its_writer_holds_the_lease() -> None:
    record = LeaderRecord(leader="a", epoch="1", keying="object", slots={0: 3, 1: 4})
    assert read_record(record.to_text(), holder="a") == record
    assert record.list_slots(3) == {0}
    for text, holder in ((record.to_text(), "b"), (record.to_text(), ""), ("{", "a"), (None, "a")):
        assert read_record(text, holder=holder) is None
