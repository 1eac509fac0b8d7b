"""Shares keys among several managers: the slot of a key, and the assignment of slots to managers.

kind, key ──▶ slot_of()        ──▶ one of SLOTS slots           (each has a Lease: its holder works on its keys)
members, holders ──▶ assign() ──▶ the assignment of slots       (the leader writes it on its Lease: LeaderRecord)

Pure. The slot of a key follows only from its kind and name, which never change, and not from values that a cache could
show late. So two managers never compute different slots, and a key is in exactly one slot, even if a cache is stale. An
owner reference would not work: owners adopt and release objects, and until all managers had seen that, two of them
would work on one object.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.kube.ids import Key

__all__ = [
    "AT_ONCE",
    "KEYINGS",
    "SLOTS",
    "Keying",
    "LeaderRecord",
    "Seat",
    "assign",
    "assign_rendezvous",
    "hash_fnv1a",
    "read_record",
    "slot_of",
]

SLOTS: Final = 16
"""Number of slots: the same in all managers of all versions."""

AT_ONCE: Final = 2
"""Maximum number of slots that move from one living member to another at the same time."""

Seat = int
"""Number of a member, below SLOTS: the member holds the Lease with this number."""

Keying = Literal["object", "namespace"]
"""Unit of sharing: each object separately, or all objects of a namespace together."""

KEYINGS: Final[tuple[Keying, ...]] = get_args(Keying)

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def hash_fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of the UTF-8 text, by which API servers shard lists (KEP-5866)."""
    value = _OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


@remember(entries=1 << 14, longest=400)
def slot_of(kind: str, key: Key, *, keying: Keying = "object") -> int:
    """Return the slot of an object; `kind` names its reconciler. Objects without a namespace are always shared
    separately.
    """
    if keying == "namespace" and key.namespace:
        return _spread(hash_fnv1a(key.namespace)) % SLOTS
    return _spread(hash_fnv1a(f"{kind}/{key.namespace}/{key.name}")) % SLOTS


def _spread(value: int) -> int:
    """Mix the bits of a hash: the low bits of FNV-1a are similar for names that differ in their last digit."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    return value ^ (value >> 33)


def assign_rendezvous(seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Return, by slot, the seat that should hold the slot if no slot were held. Raises ValueError without seats.

    Each pair of slot and seat has a weight; the heaviest pairs are assigned first, and no seat gets more than its
    share. So a seat that joins or leaves changes few other slots.
    """
    if not seats:
        raise ValueError("there is no member that could hold a slot")
    most = -(-SLOTS // len(seats))
    pairs = ((_spread(hash_fnv1a(f"{slot}@{seat}")), slot, seat) for slot in range(SLOTS) for seat in seats)
    result: dict[int, Seat] = {}
    room = dict.fromkeys(seats, most)
    for _, slot, seat in sorted(pairs, reverse=True):
        if slot not in result and room[seat]:
            result[slot] = seat
            room[seat] -= 1
    return tuple(result[slot] for slot in range(SLOTS))


def assign(
    before: Mapping[int, Seat],
    held: Mapping[int, Seat],
    *,
    seats: Sequence[Seat],
    settled: frozenset[Seat],
) -> dict[int, Seat]:
    """Return the new assignment of slots; empty without seats.

    `before`: the assignment so far. `held`: the current holders. `seats`: living members. `settled`: members that have
    lived for some time. A slot of a member that has left is assigned to another member immediately. A held slot moves
    only to a settled member, and only AT_ONCE slots move at the same time, because no manager works on their keys
    during the move.
    """
    if not seats:
        return {}
    wanted = assign_rendezvous(seats)
    stays = {slot: seat for slot, seat in before.items() if seat in seats}
    assign = {slot: stays.get(slot, wanted[slot]) for slot in range(SLOTS)}
    moving = sum(held.get(slot) != seat for slot, seat in assign.items())
    for slot, seat in stays.items():
        if moving >= AT_ONCE:
            break
        if seat != wanted[slot] and wanted[slot] in settled and held.get(slot) == seat:
            assign[slot] = wanted[slot]
            moving += 1
    return assign


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Record of the leader on its Lease. It is valid as long as its `leader` holds the Lease."""

    leader: str
    epoch: str
    """Epoch of an unbroken succession of leaders that share slots; records of another epoch are not trusted."""
    keying: Keying
    slots: dict[int, Seat] = {}
    """The seat that should hold each slot, by slot; empty: no slots are assigned for now."""

    def list_slots(self, seat: Seat | None) -> frozenset[int]:
        """Return the slots that a member should hold."""
        return frozenset(slot for slot, holder in self.slots.items() if holder == seat)

    def to_text(self) -> str:
        """Return the text of the annotation."""
        return msgspec.json.encode(self).decode()


_decode = msgspec.json.Decoder(LeaderRecord).decode


def read_record(text: str | None, *, holder: str) -> LeaderRecord | None:
    """Return the record of the Lease's holder; None: the holder has written no record, so it does not share slots."""
    try:
        record = _decode(text or "")
    except msgspec.DecodeError:
        return None
    return record if record.leader == holder and holder else None
