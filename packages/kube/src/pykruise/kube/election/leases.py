"""Leader election among equal replicas through a Lease, compatible with Go clients.

LeaderElector.run(): candidate ──takes the Lease──▶ leader ──renews──▶ … ──release()──▶ the Lease is free
                                                      └── cannot renew in time ──▶ LeaseLostError
Term.holds() ──▶ FencedTransport: a write of a leader whose time is over does not leave the process

No clock is compared with another machine's. A candidate measures with its own how long the Lease has not
changed, and takes it when that is longer than the Lease itself says. A leader counts its time from before it
asked for the renewal, so it always ends first: `lease_s` minus `renew_s` is what is left for writes under way,
and every write is given no longer than that.

What no program can exclude: a machine that stands still as a whole (a suspended virtual machine) does not see
that time passes. A write that had left it before may arrive late; `resourceVersion` and uid preconditions, which
all writes of plans/ carry where a decision depends on them, make it fail then.

Who releases a Lease leaves a note on it: up to which versions of the cluster its writes go, by resource. Its successor
finds them in `inherited` (kube/election/takeover.py). Or it names its successor, and the Lease is never free.

A candidate knows, too, until when the holder it sees may act (`other_term`): others may act in its name
(membership.py). Where a watch tells it of renewals (`see`), it takes a Lease as soon as that has run out.

Format and rules: Lease of coordination.k8s.io/v1 as client-go's leader election reads and writes it.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.clock import Clock, format_micro_time
from pykruise.kube.documents import Document, annotations_of, decode
from pykruise.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError, UnreachableError
from pykruise.kube.resources import LEASES

__all__ = [
    "ElectorStats",
    "Fence",
    "FencedTransport",
    "LeaderElector",
    "LeaseLostError",
    "LeaseTerm",
    "NotLeadingError",
]

_log = logging.getLogger(__name__)

WRITTEN = "pykruise.io/written"
"""An annotation of a released Lease: when it was released, and the highest version written of each resource."""

_JITTER = 0.2
"""Waits are up to this much longer, so that candidates do not come at the same moment."""


class LeaseLostError(KubeError):
    """The Lease could not be renewed in time, or another holder has it. The leader must end."""


class NotLeadingError(UnreachableError):
    """A write that was not sent: this program does not lead, or does not know any more that it does."""


class Fence(Protocol):
    """Permission of a write to leave the process."""

    def holds(self) -> bool:
        """Whether it may now."""
        ...

    def write_time_s(self) -> float:
        """How long a write that begins now may take."""
        ...


class LeaseTerm:
    """The time for which a leader may act. `now` must run on while the program sleeps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = float("-inf")
        self._taken_at = float("-inf")

    def holds(self) -> bool:
        """Whether what a leader does may be done now."""
        return self._now() < self._until

    def write_time_s(self) -> float:
        """How long a write that begins now may take: until another could lead."""
        return self._taken_at - self._now()

    def extend(self, *, until: float, taken_at: float) -> None:
        """Renewed: lead until `until`; no other can before `taken_at`."""
        self._until, self._taken_at = until, taken_at

    def end(self) -> None:
        """Act no more."""
        self._until = self._taken_at = float("-inf")


class FencedTransport(WrappedTransport):
    """A transport whose writes leave only while `term` holds, and end before another can lead.

    Reads and watches pass.
    """

    def __init__(self, inner: Transport, term: Fence) -> None:
        super().__init__(inner)
        self._term = term

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`. Raises NotLeadingError for a write out of term."""
        if request.method != "GET":
            if not self._term.holds():
                what = f"{request.method} {request.path}"
                raise NotLeadingError(f"{what}: not sent, this manager does not hold the lease")
            left_s = self._term.write_time_s()
            asked_s = request.timeout_s
            timeout_s = left_s if asked_s is None else min(asked_s, left_s)
            request = msgspec.structs.replace(request, timeout_s=timeout_s)
        return await self._inner.request(request)


class _Note(msgspec.Struct, frozen=True):
    """Valid as long as the Lease has not been written since."""

    at: str
    """The Lease's renewTime when it was released."""
    versions: dict[str, int]
    epoch: str = ""
    """LeaderElector.epoch of who left it."""


_decode_note = msgspec.json.Decoder(_Note).decode


class ElectorStats(msgspec.Struct, frozen=True, kw_only=True):
    """How an elector is."""

    leading: bool
    holder: str
    """The holder of the Lease as far as is known; empty: none."""
    transitions: int
    """How often it has changed hands."""
    renewals: int
    slow_renewals: int
    """... of which had to read the Lease first, because it was not as this leader had left it."""
    errors: int
    last_error: str


class LeaderElector:
    """Takes part in one election. It has a limiter of its own: a Retry-After may not outlast the Lease.

    `identity` must be this process's alone. Seconds: `lease_s` > `renew_s` > `retry_s`. `now` measures time
    (default: the event loop's); give one that counts while the machine sleeps.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_s: float = 15.0,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
        clock: Clock,
        rng: random.Random,
        now: Callable[[], float] | None = None,
    ) -> None:
        if not lease_s > renew_s > retry_s > 0:
            raise ValueError(
                f"lease: want lease_s > renew_s > retry_s > 0, not {lease_s}, {renew_s}, {retry_s}"
            )
        self.identity = identity
        self._client = client.limited_by(Limiter(longest_hold_s=retry_s / 2))
        self._namespace = namespace
        self._name = name
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._retry_s = retry_s
        self._clock = clock
        self._rng = rng
        self._now = now or asyncio.get_running_loop().time
        self.term = LeaseTerm(self._now)
        self.other_term = LeaseTerm(self._now)
        """While another holds the Lease: until when it may act, as far as is known here."""
        self.annotate: Callable[[Document], Mapping[str, str]] = lambda _: {}
        """Annotations to write with the Lease, computed from the Lease before; asked at each write."""
        self.stands = True
        """Whether it takes a Lease that is free or has run out. It takes one that names it in any case."""
        self.epoch = ""
        """Only a note of the same epoch is relied on. Empty: Leases of the one who does all work."""
        self.inherited: Mapping[str, int] | None = None
        """Annotations of the previous leader: the highest version of each resource. None: it said nothing."""

        self._lease: Document | None = None  # as last seen
        self._seen_at = 0.0  # when it was first seen like that
        self._version = 0  # of what was last seen
        self._looked_at = float("-inf")  # when the latest look at it began
        self._renewed_at = float("-inf")
        self._leading = asyncio.Event()
        self._releasing = asyncio.Event()
        self._released = asyncio.Event()
        self._hurry = asyncio.Event()
        self._written: Mapping[str, int] | None = None
        self._successor = ""
        self._renewals = 0
        self._slow_renewals = 0
        self._errors = 0
        self._last_error = ""

    @property
    def is_leading(self) -> bool:
        """Whether this program leads now."""
        return self._leading.is_set() and self.term.holds()

    async def wait_leading(self) -> None:
        """Return when this program leads."""
        await self._leading.wait()

    async def run(self) -> None:
        """Become the leader and stay it until `release()`. Raises LeaseLostError when it cannot; it may stand again."""
        self._released.clear()
        try:
            while not self._releasing.is_set():
                if await self._attempt(within_s=self._renew_s):
                    await self._lead()
                    break
                await self._pause()
            await self._give_back()
        finally:
            self._resign()
            self._released.set()

    async def release(self, written: Mapping[str, int] | None = None, *, successor: str = "") -> None:
        """Lead no more and let others know at once; returns when they can. Stop what the leader does first.

        `written`: the highest version written of each resource, for the successor; None: unknown. `successor`: who
        holds the Lease from then on, without having asked for it; empty: it is free.
        """
        self._written, self._successor = written, successor
        self._releasing.set()
        self._hurry.set()
        await self._released.wait()

    def hurry(self) -> None:
        """Renew or look now: something has to be written on it, or it is said to be free."""
        self._hurry.set()

    def know(self, lease: Document, *, since: float) -> None:
        """The Lease has looked like this since then (`now`), as was seen elsewhere: it need not be waited for again."""
        self._lease, self._seen_at = lease, since

    def see(self, lease: Document) -> None:
        """A watch shows the Lease like this. What it shows late, or of this leader's own renewals, changes nothing."""
        if self._leading.is_set() or _version(lease) <= self._version:
            return
        if _spec(lease) != _spec(self._lease):
            self._seen_at = self._now()
            self._note_other(lease)
        self._lease, self._version = lease, _version(lease)

    async def pass_on(self, *, from_: str, successor: str) -> bool:
        """Where the Lease names `from_`, who will not use it, have it name `successor`; empty: it is free.

        False: it names another one, or cannot be asked for.
        """
        try:
            async with asyncio.timeout(self._renew_s / 2):
                lease = decode(await self._client.get(LEASES, self._namespace, self._name))
        except (KubeError, TimeoutError) as error:  # then it runs out
            _log.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer")
            return False
        if _spec(lease).get("holderIdentity") != from_:
            return False
        self._successor = successor
        await self._hand_on(lease)
        return True

    @property
    def lease(self) -> Document | None:
        """As it was last seen."""
        return self._lease

    def stats(self) -> ElectorStats:
        """How it is now."""
        spec = _spec(self._lease)
        return ElectorStats(
            leading=self.is_leading,
            holder=str(spec.get("holderIdentity") or ""),
            transitions=_whole(spec.get("leaseTransitions")),
            renewals=self._renewals,
            slow_renewals=self._slow_renewals,
            errors=self._errors,
            last_error=self._last_error,
        )

    # ── leading ──────────────────────────────────────────────────────────────

    async def _lead(self) -> None:
        """Renew until released. Raises LeaseLostError."""
        _log.info("leading: %s holds lease %s/%s", self.identity, self._namespace, self._name)
        self._leading.set()
        while True:
            await self._pause()
            if self._releasing.is_set():
                return
            deadline = self._renewed_at + self._renew_s
            left_s = deadline - self._now()
            if left_s > 0 and await self._attempt(within_s=left_s):
                continue
            holder = _spec(self._lease).get("holderIdentity")
            if holder and holder != self.identity:
                self._resign()
                raise LeaseLostError(f"lease {self._namespace}/{self._name} is held by {holder} now")
            if self._now() >= deadline:
                self._resign()
                raise LeaseLostError(
                    f"lease {self._namespace}/{self._name} could not be renewed for {self._renew_s:g} s:"
                    f" {self._last_error or 'no answer'}"
                )

    async def _pause(self) -> None:
        wait_s = self._retry_s * self._rng.uniform(1.0, 1.0 + _JITTER)
        if self._leading.is_set():  # never sleep over the end
            wait_s = min(wait_s, max(0.0, self._renewed_at + self._renew_s - self._now()))
        elif self._lease is not None:
            left_s = self._seen_at + self._length_s(self._lease) - self._now()
            if left_s > 0:  # nor over the moment in which it may be taken, at which all that stand come
                wait_s = min(wait_s, left_s + self._rng.uniform(0.0, _JITTER * self._retry_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._hurry.wait()
        if not self._releasing.is_set():
            self._hurry.clear()

    def _resign(self) -> None:
        self.term.end()
        self._leading.clear()

    async def _give_back(self) -> None:
        """Free the Lease if it is ours. Failing to is no harm: it runs out."""
        was_leading = self._leading.is_set()
        self._resign()
        if was_leading and self._lease is not None:
            await self._hand_on(self._lease)

    async def _hand_on(self, old: Document) -> None:
        """To the successor, or to the first that asks."""
        now = format_micro_time(self._clock())
        spec = {**_spec(old), "renewTime": now, "acquireTime": now}
        if self._successor:
            spec["holderIdentity"] = self._successor
            spec["leaseTransitions"] = _whole(spec.get("leaseTransitions")) + 1
        else:
            spec["leaseDurationSeconds"] = 1
            spec.pop("holderIdentity", None)
        lease = {**old, "metadata": self._noted(old, at=now), "spec": spec}
        try:
            async with asyncio.timeout(self._retry_s):
                await self._client.update(LEASES, self._namespace, self._name, lease)
        except (KubeError, TimeoutError) as error:
            _log.warning(
                "lease %s/%s could not be given back (%s); it runs out in %g s",
                self._namespace,
                self._name,
                str(error) or "no answer",
                self._lease_s,
            )
        else:
            _log.info("lease %s/%s is given back", self._namespace, self._name)

    def _noted(self, lease: Document, *, at: str) -> Document:
        annotations = {name: text for name, text in annotations_of(lease).items() if name != WRITTEN}
        annotations |= self.annotate(lease)
        if self._written is not None:
            note = _Note(at=at, versions=dict(self._written), epoch=self.epoch)
            annotations[WRITTEN] = msgspec.json.encode(note).decode()
        return {**lease["metadata"], "annotations": annotations}

    # ── one attempt ──────────────────────────────────────────────────────────

    async def _attempt(self, *, within_s: float) -> bool:
        """Take or renew the Lease; True: it is ours. Errors are counted and remembered."""
        # One request that hangs must not use up all the time there is.
        timeout_s = min(within_s, max(self._retry_s, self._renew_s / 2))
        try:
            async with asyncio.timeout(timeout_s):
                taken = await self._take_or_renew()
        except ConflictError:
            self._forget_version()  # another client wrote it: look before the next try
            return False
        except (KubeError, TimeoutError, ValueError) as error:  # ValueError: an answer that is no Lease
            self._errors += 1
            before, self._last_error = self._last_error, str(error) or f"no answer within {timeout_s:g} s"
            level = logging.DEBUG if before == self._last_error else logging.WARNING
            _log.log(level, "lease %s/%s: %s", self._namespace, self._name, self._last_error)
            return False
        self._last_error = ""
        return taken

    async def _take_or_renew(self) -> bool:
        started = self._now()
        if (
            self._leading.is_set()
            and self._lease is not None
            and "resourceVersion" in self._lease["metadata"]
        ):
            self._note(await self._write(self._lease, is_mine=True), renewed_at=started)
            return True
        if self._leading.is_set():
            self._slow_renewals += 1
        try:
            raw = await self._client.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            if not self.stands:
                return False
            try:
                raw = await self._client.create(LEASES, self._namespace, self._new())
            except AlreadyExistsError:
                return False
            self.inherited = None if self.epoch else {}  # there was no leader before
            self._note(decode(raw), renewed_at=started)
            return True
        lease = decode(raw)
        if self._lease is None or _spec(lease) != _spec(self._lease):
            self._seen_at = self._now()
            self._note_other(lease)
        self._lease, self._version, self._looked_at = lease, _version(lease), started
        holder = _spec(lease).get("holderIdentity")
        if holder and holder != self.identity:
            is_over = self._now() >= self._seen_at + self._length_s(lease)
            if self._leading.is_set() or not is_over:
                return False
        if holder != self.identity and not (self.stands or self._leading.is_set()):
            return False
        started = self._now()
        if not self._leading.is_set():
            self.inherited = _versions_in(lease, epoch=self.epoch)
        self._note(await self._write(lease, is_mine=holder == self.identity), renewed_at=started)
        return True

    def _note_other(self, lease: Document) -> None:
        """The Lease is another than at the latest look: it was written after that look began."""
        length_s = self._length_s(lease)
        share = self._renew_s / self._lease_s
        self.other_term.extend(until=self._looked_at + length_s * share, taken_at=self._looked_at + length_s)

    def _length_s(self, lease: Document) -> float:
        """How long a Lease lasts: its holder said so; without that, as long as one of ours."""
        return float(_whole(_spec(lease).get("leaseDurationSeconds"))) or self._lease_s

    async def _write(self, lease: Document, *, is_mine: bool) -> Document:
        """Store the Lease with us as its holder. Fields that are not known here stay."""
        now = format_micro_time(self._clock())
        spec = _spec(lease)
        mine: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lease_s),
            "renewTime": now,
        }
        if not is_mine:
            mine["acquireTime"] = now
            mine["leaseTransitions"] = _whole(spec.get("leaseTransitions")) + 1
        body = {**lease, "spec": {**spec, **mine}}
        if beside := self.annotate(lease):
            known = lease["metadata"].get("annotations") or {}
            body["metadata"] = {**lease["metadata"], "annotations": {**known, **beside}}
        return decode(await self._client.update(LEASES, self._namespace, self._name, body))

    def _new(self) -> Document:
        now = format_micro_time(self._clock())
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "namespace": self._namespace,
                "name": self._name,
                "annotations": dict(self.annotate({})),
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": math.ceil(self._lease_s),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _note(self, lease: Document, *, renewed_at: float) -> None:
        """The Lease is ours, counted from before the request that made it so."""
        self._lease, self._version = lease, _version(lease)
        self._seen_at = self._now()
        self._looked_at = renewed_at
        self._renewed_at = renewed_at
        self._renewals += 1
        self.term.extend(until=renewed_at + self._renew_s, taken_at=renewed_at + self._lease_s)

    def _forget_version(self) -> None:
        if self._lease is not None:
            metadata = {
                key: value for key, value in self._lease["metadata"].items() if key != "resourceVersion"
            }
            self._lease = {**self._lease, "metadata": metadata}


def _spec(lease: Document | None) -> Mapping[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _version(lease: Document) -> int:
    return int(lease["metadata"].get("resourceVersion") or 0)


def _versions_in(lease: Document, *, epoch: str) -> Mapping[str, int] | None:
    """Versions that the previous holder left on a Lease that no other holder has had since; None: none to trust."""
    spec = _spec(lease)
    try:
        note = _decode_note(annotations_of(lease)[WRITTEN])
    except (KeyError, msgspec.DecodeError):
        return None
    is_released = not spec.get("holderIdentity")
    is_known = note.at == spec.get("renewTime") and note.epoch == epoch
    return note.versions if is_released and is_known else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
