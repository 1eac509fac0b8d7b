"""How keys are shared among several managers: which slot a key is in, and who should hold which slot.

kind, key ──▶ Keying.slot_of() ──▶ one of SLOTS slots           (each has a Lease: who holds it works on its keys)
members, who holds what ──▶ assign() ──▶ who should hold what   (the leader says so on its Lease: Record)

Pure. The slot of a key follows from its kind and its own name, which never change, and from nothing that a cache could
know late: two managers can never mean different slots, so a key is in exactly one, whichever of them lags. An owner
reference would not do: it is adopted and released, and until all had heard of it two managers would work on one object.
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
    "fnv1a",
    "read_record",
    "rendezvous",
    "slot_of",
]

SLOTS: Final = 16
"""How many slots there are: the same in all managers of all versions."""

AT_ONCE: Final = 2
"""So many slots may be on their way from one living member to another."""

Seat = int
"""The number by which a member is known: its Lease is one of SLOTS."""

Keying = Literal["object", "namespace"]
"""Unit of sharing: each object separately, or all objects of a namespace together."""

KEYINGS: Final[tuple[Keying, ...]] = get_args(Keying)

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def fnv1a(text: str) -> int:
    """FNV-1a of 64 bits over UTF-8, which API servers shard lists by (KEP-5866)."""
    value = _OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


@remember(entries=1 << 14, longest=400)
def slot_of(kind: str, key: Key, *, keying: Keying = "object") -> int:
    """The slot of an object; `kind` names what reconciles it. What is in no namespace is always by itself."""
    if keying == "namespace" and key.namespace:
        return _spread(fnv1a(key.namespace)) % SLOTS
    return _spread(fnv1a(f"{kind}/{key.namespace}/{key.name}")) % SLOTS


def _spread(value: int) -> int:
    """All bits of a hash count: the low ones of FNV-1a are alike for names that differ in their last digit."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    return value ^ (value >> 33)


def rendezvous(seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Slot to the seat that should hold it, if no slot were held. Raises ValueError without seats.

    Each pair of slot and seat has a weight; the heaviest pairs come first, and no seat gets more than its share. So a
    seat that comes or goes changes little beyond its own slots.
    """
    if not seats:
        raise ValueError("no member to hold a slot")
    most = -(-SLOTS // len(seats))
    pairs = ((_spread(fnv1a(f"{slot}@{seat}")), slot, seat) for slot in range(SLOTS) for seat in seats)
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
    """Assignment of slots from now on; empty without seats.

    `before`: who should have until now; `held`: who has. `seats`: members that live; `settled`: of these, who have been
    there for a while. A slot whose member is gone gets another at once. One that is held moves to a settled member
    only, and only AT_ONCE at a time: work on its keys stands still meanwhile.
    """
    if not seats:
        return {}
    wanted = rendezvous(seats)
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
    """Record of the leader on its Lease. It counts as long as its `leader` holds that."""

    leader: str
    epoch: str
    """Epoch of an unbroken succession of leaders that share; records of another epoch are not trusted."""
    keying: Keying
    slots: dict[int, Seat] = {}
    """Slot to the seat that should hold it; empty: no assignment for now."""

    def of(self, seat: Seat | None) -> frozenset[int]:
        """The slots that a member should hold."""
        return frozenset(slot for slot, holder in self.slots.items() if holder == seat)

    def text(self) -> str:
        """As it stands in an annotation."""
        return msgspec.json.encode(self).decode()


_decode = msgspec.json.Decoder(LeaderRecord).decode


def read_record(text: str | None, *, holder: str) -> LeaderRecord | None:
    """The record of this holder of the Lease; None: it has left none, so it does not share."""
    try:
        record = _decode(text or "")
    except msgspec.DecodeError:
        return None
    return record if record.leader == holder and holder else None
