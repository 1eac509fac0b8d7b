"""A manager that shares the work with others: it has a seat, and holds the slots that the leader assigns to it.

the leader's Lease ──LeaderRecord──▶ slots that this member should hold ──▶ a LeaderElector each ──▶ serve(HeldSlot)
a Lease per seat   ──▶ living members ──┐
a Lease per slot   ──▶ holders         ─┴─▶ assign() (key_slots.py), when this member leads ──▶ LeaderRecord

The leader's assignment alone permits nothing: a member may work on the keys of a slot only while it holds the slot's
Lease, and only while some member holds the leader's Lease. So when another program takes the leader's Lease, no member
works. A member learns of a renewal from a watch or a read of the Lease. Its previous read still showed the old state,
so that read began before the renewal. The member may act for a part of the Lease's duration (`renew_s` of `lease_s`
seconds), counted from the start of that previous read. So it stops before another program can take the Lease.

A slot moves in this order: the leader assigns it to another member; the present member stops work on its keys and
releases the slot's Lease with a note of the written versions; the next member takes the Lease and waits until its
caches have those versions (takeover.py).

A leader that leaves names its successor on its Lease, so that members continue. When several members leave at the same
moment, a leader may name a successor that also leaves. Each member that leaves releases its seat before it reads the
leader's Lease, and a leader checks the successor's seat after it has named the successor. So the leader or its
successor notices that the successor leaves, and names a third member.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.control.retried_task import run_in_own_task
from pykruise.kube.documents import Document, annotations_of, decode
from pykruise.kube.election.key_slots import SLOTS, Keying, LeaderRecord, Seat, assign, read_record
from pykruise.kube.election.leases import Fence, LeaderElector, LeaseLostError
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import LEASES

__all__ = ["RECORD", "HeldSlot", "Membership", "MembershipStats", "format_member_lease", "format_slot_lease"]

_log = logging.getLogger(__name__)

RECORD: Final = "pykruise.io/slots"
"""Annotation of the leader's Lease with the assignment of slots (key_slots.LeaderRecord)."""

LOOK_S: Final = 1.0
"""Seconds between checks of the Leases even if none has changed, because a Lease may have expired."""

LAST_LOOK_S: Final = 4.0
LAST_LOOKS: Final = 2
"""Number of attempts of a leaving member to read which members have a seat."""

SETTLED_S: Final = 10.0
"""Seconds that a member must live before held slots move to it."""


def format_slot_lease(name: str, slot: int) -> str:
    """Return the name of a slot's Lease; `name` is that of the leader's Lease."""
    return f"{name}-slot-{slot}"


def format_member_lease(name: str, seat: Seat) -> str:
    """Return the name of a seat's Lease."""
    return f"{name}-member-{seat}"


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a Lease that members read."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    spec: Document
    annotations: Mapping[str, str]

    @property
    def holder(self) -> str:
        """Identity of the member that holds it; empty: none."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def length_s(self) -> float:
        """Seconds from a renewal to the expiry of the Lease."""
        return float(self.spec.get("leaseDurationSeconds") or 0)

    @property
    def to_document(self) -> Document:
        """The Lease in the form that an elector reads."""
        metadata = {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": str(self.resource_version),
            "annotations": self.annotations,
        }
        return {"metadata": metadata, "spec": self.spec}


def _project_lease(raw: bytes | msgspec.Raw) -> LeaseView:
    document = decode(raw)
    meta = document["metadata"]
    return LeaseView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        spec=document.get("spec") or {},
        annotations=annotations_of(document),
    )


class _Both:
    """A fence that permits writes while both of its fences permit them."""

    def __init__(self, first: Fence, second: Fence) -> None:
        self._first, self._second = first, second

    def holds(self) -> bool:
        return self._first.holds() and self._second.holds()

    def write_time_s(self) -> float:
        return min(self._first.write_time_s(), self._second.write_time_s())


class _MemberTerm:
    """A fence that permits writes while the leader is a member that shares slots in the same way."""

    def __init__(self, leader: LeaderElector, record: Callable[[], LeaderRecord | None]) -> None:
        self._leader, self._record = leader, record

    @property
    def _term(self) -> Fence:
        return self._leader.term if self._leader.is_leading else self._leader.other_term

    def holds(self) -> bool:
        return self._record() is not None and self._term.holds()

    def write_time_s(self) -> float:
        return self._term.write_time_s()


class HeldSlot:
    """A slot whose Lease this member holds. `serve` must end soon after `leaving` is set."""

    def __init__(self, number: int, elector: LeaderElector, fence: Fence, epoch: str) -> None:
        self.number = number
        self.elector = elector
        self.fence = fence
        """A write for the slot's keys leaves the process only while this fence permits it."""
        self.epoch = epoch
        self.leaving = asyncio.Event()


Serve = Callable[[HeldSlot], Awaitable[Mapping[str, int] | None]]
"""Works on a slot's keys until `leaving` is set, and returns the highest version written of each resource. None:
unknown.
"""


class MembershipStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a member."""

    seat: Seat | None
    held: frozenset[int]
    """Slots whose Lease the member holds."""
    assigned: Mapping[int, Seat]
    """Assignment of slots by the leader; empty: no leader shares slots."""


class Membership:
    """Takes part in sharing. `client` should not share a limiter with busy clients. Times are in seconds, as in
    LeaderElector.

    `members`: maximum number of members that hold slots at the same time: those that joined first. All others wait.
    `keying`: see key_slots.py; only members with the same keying share slots.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        members: int,
        keying: Keying = "object",
        lease_s: float = 15.0,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
        clock: Clock,
        rng: random.Random,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.identity = identity
        self.keying: Keying = keying
        self._client = client
        self._namespace = namespace
        self._name = name
        self._members = members
        self._lease_s, self._renew_s, self._retry_s = lease_s, renew_s, retry_s
        self._clock = clock
        self._rng = rng
        self._now = now or asyncio.get_running_loop().time
        self.leader = self._make_elector(name, retry_s=retry_s)
        """The election of the leader, which assigns slots."""
        self.term: Fence = _MemberTerm(self.leader, self.record)
        """Fence of all members: permits writes while members may act."""
        self._leases: Cache[LeaseView] = Cache(
            client,
            LEASES,
            project=_project_lease,
            namespace=namespace,
            clock=clock,
            rng=rng,
            idle_timeout_s=lease_s,  # some Lease is renewed every few seconds, so a silent watch is broken
        )
        self._leases.subscribe(self._on_lease)
        self._since: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._seat: Seat | None = None
        self._seat_elector: LeaderElector | None = None
        self._held: dict[int, HeldSlot] = {}
        self._holding: dict[int, asyncio.Task[None]] = {}
        self._alive_since: dict[str, float] = {}
        self._epoch = ""
        self._assigned: dict[int, Seat] = {}
        self._may_assign_at = float("inf")
        self._named: str | None = None
        self._is_standing = False
        self._is_leaving = False
        self._read: tuple[str | None, str, LeaderRecord | None] = (None, "", None)

    def read_stats(self) -> MembershipStats:
        """Return the current state."""
        record = self.record()
        return MembershipStats(
            seat=self._seat,
            held=frozenset(number for number, slot in self._held.items() if slot.elector.is_leading),
            assigned=record.slots if record is not None and self.term.holds() else {},
        )

    def record(self) -> LeaderRecord | None:
        """Return the leader's last known record; None: no member that shares slots in the same way holds the Lease."""
        lease = self.leader.lease
        if lease is None:
            return None
        text = annotations_of(lease).get(RECORD)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if self._read[:2] != (text, holder):
            self._read = text, holder, read_record(text, holder=holder)
        record = self._read[2]
        return record if record is not None and record.keying == self.keying else None

    async def run(self, serve: Serve) -> None:
        """Take part until `leave()` or cancellation. An error of `serve` ends it."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._leases.run(), name="leases")
            await self._leases.wait_synced()
            self._is_standing = not self._is_leaving
            tasks.create_task(self._run_election(), name="election")
            tasks.create_task(self._keep_seat(), name="seat")
            while not self._is_leaving or self._held:
                self._changed.clear()
                self._check_slots(tasks, serve)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._changed.wait()
            watching.cancel()

    def retire(self) -> None:
        """Do not take the leader's Lease any more when it is free or has expired, because this member will leave soon.
        Until it leaves, it keeps its slots, and a leader remains the leader.
        """
        self.leader.stands = False

    async def leave(self) -> None:
        """Release all Leases, so that others can take them immediately. Call it after all work on keys has stopped."""
        self.retire()
        self._is_leaving = True
        if not self._is_standing:
            return
        if self._seat_elector is not None:
            await self._seat_elector.release()
        await self._hand_leadership_on()
        for slot in self._held.values():
            slot.leaving.set()
        await asyncio.gather(*self._holding.values(), return_exceptions=True)
        self._changed.set()

    # ── observing Leases ─────────────────────────────────────────────────────

    def _on_lease(self, change: Change[LeaseView]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old.spec != new.spec):
            self._since[new.name] = self._now()
        if new is not None and new.name == self._name:
            self.leader.see(new.to_document)
        is_renewed = old is not None and new is not None and old.holder == new.holder
        if is_renewed and (change.key.name != self._name or _read_record_text(old) == _read_record_text(new)):
            return
        self._changed.set()
        if change.key.name == self._name and not self.leader.is_leading:
            self.leader.hurry()
        for slot in self._held.values():
            if change.key.name == format_slot_lease(self._name, slot.number) and not slot.elector.is_leading:
                slot.elector.hurry()

    def _find_lease(self, name: str) -> LeaseView | None:
        return next((lease for lease in self._leases.values() if lease.name == name), None)

    def _find_living(self) -> dict[Seat, LeaseView]:
        """Return the taken seats."""
        by_name = {lease.name: lease for lease in self._leases.values()}
        result = {}
        for seat in range(SLOTS):
            lease = by_name.get(format_member_lease(self._name, seat))
            if lease is not None and self._is_held(lease):
                result[seat] = lease
        return result

    def _is_held(self, lease: LeaseView) -> bool:
        # The store may have the Lease a moment before the change is delivered.
        since = self._since.setdefault(lease.name, self._now())
        return bool(lease.holder) and self._now() < since + lease.length_s

    # ── acting on Leases ─────────────────────────────────────────────────────

    def _check_slots(self, tasks: asyncio.TaskGroup, serve: Serve) -> None:
        living = self._find_living()
        self._note_living(living)
        if self.leader.is_leading and not self._is_leaving:
            self._assign_slots(living)
        record = self.record() if self.term.holds() else None
        wanted = (
            record.list_slots(self._seat) if record is not None and self._seat is not None else frozenset()
        )
        for number, slot in self._held.items():
            if number not in wanted or record is None or slot.epoch != record.epoch:
                slot.leaving.set()
        if record is None or self._is_leaving:
            return
        for number in sorted(wanted - self._held.keys()):
            slot = self._add_slot(number, record.epoch)
            self._holding[number] = tasks.create_task(self._hold_slot(slot, serve), name=f"slot-{number}")

    def _note_living(self, living: Mapping[Seat, LeaseView]) -> None:
        now = self._now()
        self._alive_since = {
            lease.holder: self._alive_since.get(lease.holder, now) for lease in living.values()
        }

    def _add_slot(self, number: int, epoch: str) -> HeldSlot:
        name = format_slot_lease(self._name, number)
        elector = self._make_elector(name, retry_s=max(self._retry_s, self._renew_s / 3))
        elector.epoch = epoch
        slot = self._held[number] = HeldSlot(number, elector, _Both(elector.term, self.term), epoch)
        return slot

    async def _hold_slot(self, slot: HeldSlot, serve: Serve) -> None:
        """Take the Lease, serve the slot while this member holds it, and release it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(slot.elector.run(), name=f"lease-of-slot-{slot.number}")
                await _wait_for_first(slot.elector.wait_leading(), slot.leaving.wait())
                written = await serve(slot) if slot.elector.is_leading else None
                await slot.elector.release(written)
        except* LeaseLostError as lost:
            _log.error("this member lost slot %d: %s", slot.number, lost.exceptions[0])
        finally:
            del self._held[slot.number], self._holding[slot.number]
            self._changed.set()

    # ── the seat ─────────────────────────────────────────────────────────────

    async def _keep_seat(self) -> None:
        """Hold a seat, the first free one, until this member leaves."""
        while not self._is_leaving:
            living = self._find_living()
            free = next((seat for seat in range(SLOTS) if seat not in living), None)
            if free is None:  # this member waits for a seat
                await asyncio.sleep(LOOK_S)
                continue
            await run_in_own_task(self._hold_seat(free))

    async def _hold_seat(self, free: Seat) -> None:
        """Hold a seat until it is lost; returns immediately when another member took it first."""
        elector = self._seat_elector = self._make_elector(
            format_member_lease(self._name, free), retry_s=max(self._retry_s, self._renew_s / 3)
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(elector.run(), name=f"seat-{free}")
                if await self._is_seated(elector, free):
                    self._seat = free
                    self._changed.set()
                else:
                    running.cancel()
        except* LeaseLostError as lost:
            _log.error("this member lost seat %d: %s", free, lost.exceptions[0])
        finally:
            self._seat = self._seat_elector = None

    async def _is_seated(self, elector: LeaderElector, seat: Seat) -> bool:
        """Wait for the seat; returns False when another member took it first."""
        while not self._is_leaving:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await elector.wait_leading()
                    return True
            taken = self._find_living().get(seat)
            if taken is not None and taken.holder != self.identity:
                return False
        return True  # `leave` releases the seat

    # ── leading ──────────────────────────────────────────────────────────────

    async def _run_election(self) -> None:
        """Take part in the election of the leader repeatedly."""
        self.leader.annotate = self._build_annotations
        while not self._is_leaving:
            try:
                await self.leader.run()
            except LeaseLostError as lost:
                _log.error("this member is no longer the leader: %s", lost)
            self._changed.set()

    def _build_annotations(self, lease: Document) -> dict[str, str]:
        """Return this member's record for the Lease that it holds or is about to take over.

        It continues the record of the previous leader if that leader had the same keying, else it starts a new record.
        Members with another keying may act until they notice the new leader, which takes at most the duration of the
        Lease. So the new leader assigns slots only after the duration of the Lease.
        """
        if self._named is not None:
            return {RECORD: text} if (text := self._build_last_record(lease)) else {}
        if not self.leader.is_leading:
            before = _record_on(lease)
            is_alike = before is not None and before.keying == self.keying
            self._may_assign_at = self._now() + (
                self._lease_s if before is not None and not is_alike else 0.0
            )
            if before is not None and is_alike:
                self._epoch, self._assigned = before.epoch, dict(before.slots)
            else:
                self._epoch, self._assigned = f"{self._rng.getrandbits(64):016x}", {}
            self._changed.set()
        said = LeaderRecord(leader=self.identity, epoch=self._epoch, keying=self.keying, slots=self._assigned)
        return {RECORD: said.to_text()}

    def _build_last_record(self, lease: Document) -> str:
        """Return the record that this member leaves on the Lease: the current assignment with the successor as leader,
        so that it stays valid; without a successor, an assignment of no slots. Empty: the Lease has no valid record.
        """
        before = _record_on(lease)
        if before is None:
            return ""
        slots = before.slots if self._named else {}
        return msgspec.structs.replace(before, leader=self._named or self.identity, slots=slots).to_text()

    def _assign_slots(self, living: Mapping[Seat, LeaseView]) -> None:
        """Compute the assignment of slots, and write it when it changes."""
        if self._now() < self._may_assign_at:
            return
        at_work = sorted(living, key=lambda seat: (str(living[seat].spec.get("acquireTime")), seat))
        seats = sorted(at_work[: self._members])
        by_identity = {living[seat].holder: seat for seat in seats}
        held = {}
        for number in range(SLOTS):
            lease = self._find_lease(format_slot_lease(self._name, number))
            if lease is not None and self._is_held(lease) and lease.holder in by_identity:
                held[number] = by_identity[lease.holder]
        settled_before = self._now() - SETTLED_S
        before = self._assigned
        self._assigned = assign(
            before,
            held,
            seats=seats,
            settled=frozenset(s for s in seats if self._alive_since[living[s].holder] <= settled_before),
        )
        if self._assigned != before:
            self.leader.hurry()

    async def _hand_leadership_on(self) -> None:
        """Hand the leadership to a member that stays, without freeing the Lease; free it when this is the last
        member.
        """
        if self.leader.is_leading:
            holder = self._named = await self._choose_successor()
            await self.leader.release(successor=holder)
        else:
            await self.leader.release()
            holder = self.identity  # another leaving member may have named this member
        for _ in range(SLOTS):
            successor = await self._choose_successor(instead_of=holder)
            if successor == holder:
                return
            self._named = successor
            if not await self.leader.pass_on(from_=holder, successor=successor):
                return
            holder = successor

    async def _choose_successor(self, *, instead_of: str = "") -> str:
        """Choose a successor among the members whose seats the API server shows now: `instead_of` if it is one of
        them, else the newest one.

        Empty: there is none. When the API server does not respond, the choice stays `instead_of`.
        """
        for _ in range(LAST_LOOKS):
            try:
                async with asyncio.timeout(LAST_LOOK_S):
                    listed = await self._client.list(LEASES, self._namespace)
                break
            except (KubeError, TimeoutError) as error:
                _log.warning("the successor of this member is unknown: %s", str(error) or "no response")
        else:
            return instead_of
        stored = {item.name: item for item in map(_project_lease, listed.items)}
        alive = {lease.holder for lease in self._find_living().values()}
        seats = [
            stored[name] for seat in range(SLOTS) if (name := format_member_lease(self._name, seat)) in stored
        ]
        others = [seat for seat in seats if seat.holder in alive and seat.holder != self.identity]
        if any(lease.holder == instead_of for lease in others):
            return instead_of
        newest = max(others, key=lambda lease: str(lease.spec.get("acquireTime")), default=None)
        return newest.holder if newest is not None else ""

    def _make_elector(self, name: str, *, retry_s: float) -> LeaderElector:
        elector = LeaderElector(
            self._client,
            namespace=self._namespace,
            name=name,
            identity=self.identity,
            lease_s=self._lease_s,
            renew_s=self._renew_s,
            retry_s=retry_s,
            clock=self._clock,
            rng=self._rng,
            now=self._now,
        )
        if name != self._name and (seen := self._find_lease(name)) is not None:
            since = self._since.setdefault(name, self._now())
            elector.adopt_lease({"metadata": {}, "spec": seen.spec}, since=since)
        return elector


def _read_record_text(lease: LeaseView | None) -> str | None:
    return lease.annotations.get(RECORD) if lease is not None else None


def _record_on(lease: Document | None) -> LeaderRecord | None:
    if lease is None:
        return None
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return read_record(annotations_of(lease).get(RECORD), holder=holder)


async def _wait_for_first(*waits: Awaitable[Any]) -> None:
    """Return when the first coroutine returns; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
