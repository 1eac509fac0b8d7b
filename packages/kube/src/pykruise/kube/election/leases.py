"""Leader election among equal replicas through a Lease, compatible with Go clients.

LeaderElector.run(): candidate ──takes the Lease──▶ leader ──renews──▶ … ──release()──▶ the Lease is free
                                                    └── cannot renew in time ──▶ LeaseLostError
LeaseTerm.holds() ──▶ FencedTransport: a write of a leader whose term has ended does not leave the process

Clocks of different machines are never compared. A candidate measures with its own clock how long the Lease has not
changed. It takes the Lease when that time is longer than the duration in the Lease. The term of a leader begins when it
sends the renewal, which is before a candidate can see the renewal. So the term always ends first. A write must end
before another program can take the Lease, `lease_s` after the renewal. A write that begins at the end of the term still
has `lease_s` minus `renew_s`.

One case cannot be excluded: a machine that is suspended as a whole (a virtual machine) does not notice that time
passes. A write that left the machine before the suspension may arrive late. Its preconditions on `resourceVersion` and
uid then make it fail; every write of a plan has these preconditions if its decision depends on the object's state.

A leader that releases the Lease leaves a note on it: the highest version that it wrote of each resource. Its successor
reads the versions from `inherited` (kube/election/takeover.py). A leader can also name its successor on the Lease;
the Lease is then never free.

When managers share the work, all of them (the members, see membership.py) work while one of them leads. So a candidate
also records until when the current holder may act (`other_term`). If a watch shows the renewals to the candidate
(`see`), the candidate takes the Lease as soon as the Lease expires.

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
"""Annotation of a released Lease: the time of the release, and the highest version written of each resource."""

_JITTER = 0.2
"""Waits are extended by up to this fraction, so that candidates do not try at the same moment."""


class LeaseLostError(KubeError):
    """The Lease could not be renewed in time, or another holder has it. The leader must end."""


class NotLeadingError(UnreachableError):
    """A write that was not sent: this program does not lead, or no longer knows that it leads."""


class Fence(Protocol):
    """Decides whether a write may leave the process."""

    def holds(self) -> bool:
        """Whether a write may leave the process now."""
        ...

    def write_time_s(self) -> float:
        """Return the seconds that a write which begins now may take."""
        ...


class LeaseTerm:
    """The time for which a leader may act. The clock `now` must not stop while the machine sleeps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = float("-inf")
        self._taken_at = float("-inf")

    def holds(self) -> bool:
        """Whether the leader may act now."""
        return self._now() < self._until

    def write_time_s(self) -> float:
        """Return the seconds that a write which begins now may take: it must end before another program can lead."""
        return self._taken_at - self._now()

    def extend(self, *, until: float, taken_at: float) -> None:
        """Extend the term to `until` after a renewal; no other program can lead before `taken_at`."""
        self._until, self._taken_at = until, taken_at

    def end(self) -> None:
        """End the term."""
        self._until = self._taken_at = float("-inf")


class FencedTransport(WrappedTransport):
    """A transport that sends writes only while `term` holds, and ends them before another program can lead.

    Reads and watches are not affected.
    """

    def __init__(self, inner: Transport, term: Fence) -> None:
        super().__init__(inner)
        self._term = term

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`. Raises NotLeadingError for a write outside the term."""
        if request.method != "GET":
            if not self._term.holds():
                what = f"{request.method} {request.path}"
                raise NotLeadingError(
                    f"{what}: the request was not sent, because this manager does not hold the lease"
                )
            left_s = self._term.write_time_s()
            asked_s = request.timeout_s
            timeout_s = left_s if asked_s is None else min(asked_s, left_s)
            request = msgspec.structs.replace(request, timeout_s=timeout_s)
        return await self._inner.request(request)


class _Note(msgspec.Struct, frozen=True):
    """Note of a leader that released the Lease. Valid as long as the Lease has not been written since."""

    at: str
    """The Lease's renewTime when it was released."""
    versions: dict[str, int]
    epoch: str = ""
    """`LeaderElector.epoch` of that leader."""


_decode_note = msgspec.json.Decoder(_Note).decode


class ElectorStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of an elector."""

    leading: bool
    holder: str
    """The last known holder of the Lease; empty: none."""
    transitions: int
    """Number of times that the holder of the Lease has changed."""
    renewals: int
    slow_renewals: int
    """Number of renewals that had to read the Lease first, because another client had changed it."""
    errors: int
    last_error: str


class LeaderElector:
    """Takes part in one election. It has its own limiter: a Retry-After must not outlast the Lease.

    `identity` must be unique to this process. Seconds: `lease_s` > `renew_s` > `retry_s`. `now` measures time
    (default: the event loop's); pass a clock that continues while the machine sleeps.
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
                f"lease: lease_s > renew_s > retry_s > 0 must hold, not {lease_s}, {renew_s}, {retry_s}"
            )
        self.identity = identity
        self._client = client.replace_limiter(Limiter(longest_hold_s=retry_s / 2))
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
        """While another program holds the Lease: the time until which that program may act, as far as known."""
        self.annotate: Callable[[Document], Mapping[str, str]] = lambda _: {}
        """Return annotations to write with the Lease, computed from the previous Lease; called before each write."""
        self.stands = True
        """Whether this elector takes a Lease that is free or has expired. It always takes a Lease that names it."""
        self.epoch = ""
        """Id of an unbroken succession of leaders that share the work. A note with another epoch is ignored. Empty: a
        single leader does all work.
        """
        self.inherited: Mapping[str, int] | None = None
        """The highest version of each resource that previous leaders wrote. None: unknown."""

        self._lease: Document | None = None  # as last seen
        self._seen_at = 0.0  # when the Lease was first seen in this state
        self._version = 0  # resourceVersion as last seen
        self._looked_at = float("-inf")  # when the latest read of the Lease began
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
        """Become the leader and remain the leader until `release()`. Raises LeaseLostError when the Lease is lost;
        `run()` may then be called again.
        """
        self._released.clear()
        try:
            while not self._releasing.is_set():
                if await self._try_once(within_s=self._renew_s):
                    await self._lead()
                    break
                await self._wait_for_retry()
            await self._give_back()
        finally:
            self._end_term()
            self._released.set()

    async def release(self, written: Mapping[str, int] | None = None, *, successor: str = "") -> None:
        """Stop leading and free the Lease, so that others can lead immediately. The caller must stop all work of the
        leader before.

        `written`: the highest version written of each resource, for the successor; None: unknown. `successor`: the
        next holder of the Lease, which does not have to request it; empty: the Lease is free.
        """
        self._written, self._successor = written, successor
        self._releasing.set()
        self._hurry.set()
        await self._released.wait()

    def hurry(self) -> None:
        """Renew or read the Lease now. Call it when an annotation has changed, or when the Lease may be free."""
        self._hurry.set()

    def adopt_lease(self, lease: Document, *, since: float) -> None:
        """Adopt a state of the Lease that the caller first saw at `since` (a value of `now`). The duration of the Lease
        counts from then.
        """
        self._lease, self._seen_at = lease, since

    def see(self, lease: Document) -> None:
        """Adopt the state of the Lease in a watch. Late states, and this leader's own renewals, change nothing."""
        if self._leading.is_set() or _version_of(lease) <= self._version:
            return
        if _spec_of(lease) != _spec_of(self._lease):
            self._seen_at = self._now()
            self._note_other(lease)
        self._lease, self._version = lease, _version_of(lease)

    async def pass_on(self, *, from_: str, successor: str) -> bool:
        """Make the Lease name `successor` (empty: free it) if it names `from_`, a member that will not lead.

        Returns False when the Lease names another holder, or cannot be read. Returns True also if the write fails: the
        Lease then expires.
        """
        try:
            async with asyncio.timeout(self._renew_s / 2):
                lease = decode(await self._client.get(LEASES, self._namespace, self._name))
        except (KubeError, TimeoutError) as error:  # the Lease is not passed on: it expires
            _log.warning(
                "lease %s/%s cannot be read: %s", self._namespace, self._name, str(error) or "no response"
            )
            return False
        if _spec_of(lease).get("holderIdentity") != from_:
            return False
        self._successor = successor
        await self._hand_on(lease)
        return True

    @property
    def lease(self) -> Document | None:
        """The Lease as last seen."""
        return self._lease

    def read_stats(self) -> ElectorStats:
        """Return the current state."""
        spec = _spec_of(self._lease)
        return ElectorStats(
            leading=self.is_leading,
            holder=str(spec.get("holderIdentity") or ""),
            transitions=_to_int(spec.get("leaseTransitions")),
            renewals=self._renewals,
            slow_renewals=self._slow_renewals,
            errors=self._errors,
            last_error=self._last_error,
        )

    # ── leading ──────────────────────────────────────────────────────────────

    async def _lead(self) -> None:
        """Renew until released. Raises LeaseLostError."""
        _log.info("%s is the leader now and holds lease %s/%s", self.identity, self._namespace, self._name)
        self._leading.set()
        while True:
            await self._wait_for_retry()
            if self._releasing.is_set():
                return
            deadline = self._renewed_at + self._renew_s
            left_s = deadline - self._now()
            if left_s > 0 and await self._try_once(within_s=left_s):
                continue
            holder = _spec_of(self._lease).get("holderIdentity")
            if holder and holder != self.identity:
                self._end_term()
                raise LeaseLostError(f"lease {self._namespace}/{self._name} is held by {holder} now")
            if self._now() >= deadline:
                self._end_term()
                raise LeaseLostError(
                    f"lease {self._namespace}/{self._name} could not be renewed for {self._renew_s:g} s:"
                    f" {self._last_error or 'no response'}"
                )

    async def _wait_for_retry(self) -> None:
        wait_s = self._retry_s * self._rng.uniform(1.0, 1.0 + _JITTER)
        if self._leading.is_set():  # never sleep beyond the end of the term
            wait_s = min(wait_s, max(0.0, self._renewed_at + self._renew_s - self._now()))
        elif self._lease is not None:
            left_s = self._seen_at + self._read_length_s(self._lease) - self._now()
            if left_s > 0:  # nor beyond the expiry, at which all candidates try
                wait_s = min(wait_s, left_s + self._rng.uniform(0.0, _JITTER * self._retry_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._hurry.wait()
        if not self._releasing.is_set():
            self._hurry.clear()

    def _end_term(self) -> None:
        self.term.end()
        self._leading.clear()

    async def _give_back(self) -> None:
        """Free the Lease if this program holds it. A failure does no harm: the Lease expires."""
        was_leading = self._leading.is_set()
        self._end_term()
        if was_leading and self._lease is not None:
            await self._hand_on(self._lease)

    async def _hand_on(self, old: Document) -> None:
        """Write the Lease for the successor, or free it for the first candidate."""
        now = format_micro_time(self._clock())
        spec = {**_spec_of(old), "renewTime": now, "acquireTime": now}
        if self._successor:
            spec["holderIdentity"] = self._successor
            spec["leaseTransitions"] = _to_int(spec.get("leaseTransitions")) + 1
        else:
            spec["leaseDurationSeconds"] = 1
            spec.pop("holderIdentity", None)
        lease = {**old, "metadata": self._build_metadata_with_note(old, at=now), "spec": spec}
        try:
            async with asyncio.timeout(self._retry_s):
                await self._client.update(LEASES, self._namespace, self._name, lease)
        except (KubeError, TimeoutError) as error:
            _log.warning(
                "lease %s/%s could not be released (%s); it expires in %g s",
                self._namespace,
                self._name,
                str(error) or "no response",
                self._lease_s,
            )
        else:
            _log.info("lease %s/%s is released", self._namespace, self._name)

    def _build_metadata_with_note(self, lease: Document, *, at: str) -> Document:
        annotations = {name: text for name, text in annotations_of(lease).items() if name != WRITTEN}
        annotations |= self.annotate(lease)
        if self._written is not None:
            note = _Note(at=at, versions=dict(self._written), epoch=self.epoch)
            annotations[WRITTEN] = msgspec.json.encode(note).decode()
        return {**lease["metadata"], "annotations": annotations}

    # ── one attempt ──────────────────────────────────────────────────────────

    async def _try_once(self, *, within_s: float) -> bool:
        """Take or renew the Lease; returns whether this program holds it. Errors are counted and remembered."""
        # A request that hangs must not use up all the remaining time.
        timeout_s = min(within_s, max(self._retry_s, self._renew_s / 2))
        try:
            async with asyncio.timeout(timeout_s):
                taken = await self._take_or_renew()
        except ConflictError:
            self._forget_version()  # another client wrote it: read it before the next try
            return False
        except (KubeError, TimeoutError, ValueError) as error:  # ValueError: the response is not a Lease
            self._errors += 1
            before, self._last_error = self._last_error, str(error) or f"no response within {timeout_s:g} s"
            level = logging.DEBUG if before == self._last_error else logging.WARNING
            _log.log(
                level,
                "lease %s/%s cannot be taken or renewed: %s",
                self._namespace,
                self._name,
                self._last_error,
            )
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
            self._note_held(await self._write_lease(self._lease, is_mine=True), renewed_at=started)
            return True
        if self._leading.is_set():
            self._slow_renewals += 1
        try:
            raw = await self._client.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            if not self.stands:
                return False
            try:
                raw = await self._client.create(LEASES, self._namespace, self._build_lease())
            except AlreadyExistsError:
                return False
            self.inherited = None if self.epoch else {}  # there was no leader before
            self._note_held(decode(raw), renewed_at=started)
            return True
        lease = decode(raw)
        if self._lease is None or _spec_of(lease) != _spec_of(self._lease):
            self._seen_at = self._now()
            self._note_other(lease)
        self._lease, self._version, self._looked_at = lease, _version_of(lease), started
        holder = _spec_of(lease).get("holderIdentity")
        if holder and holder != self.identity:
            is_over = self._now() >= self._seen_at + self._read_length_s(lease)
            if self._leading.is_set() or not is_over:
                return False
        if holder != self.identity and not (self.stands or self._leading.is_set()):
            return False
        started = self._now()
        if not self._leading.is_set():
            self.inherited = _read_versions(lease, epoch=self.epoch)
        self._note_held(await self._write_lease(lease, is_mine=holder == self.identity), renewed_at=started)
        return True

    def _note_other(self, lease: Document) -> None:
        """Update the term of the other holder. The Lease changed since the latest read, so it was written after that
        read began.
        """
        length_s = self._read_length_s(lease)
        share = self._renew_s / self._lease_s
        self.other_term.extend(until=self._looked_at + length_s * share, taken_at=self._looked_at + length_s)

    def _read_length_s(self, lease: Document) -> float:
        """Return the duration of a Lease, as its holder wrote it; without a duration, `lease_s` of this elector."""
        return float(_to_int(_spec_of(lease).get("leaseDurationSeconds"))) or self._lease_s

    async def _write_lease(self, lease: Document, *, is_mine: bool) -> Document:
        """Store the Lease with this program as its holder. Unknown fields stay."""
        now = format_micro_time(self._clock())
        spec = _spec_of(lease)
        mine: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lease_s),
            "renewTime": now,
        }
        if not is_mine:
            mine["acquireTime"] = now
            mine["leaseTransitions"] = _to_int(spec.get("leaseTransitions")) + 1
        body = {**lease, "spec": {**spec, **mine}}
        if beside := self.annotate(lease):
            known = lease["metadata"].get("annotations") or {}
            body["metadata"] = {**lease["metadata"], "annotations": {**known, **beside}}
        return decode(await self._client.update(LEASES, self._namespace, self._name, body))

    def _build_lease(self) -> Document:
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

    def _note_held(self, lease: Document, *, renewed_at: float) -> None:
        """Note that this program holds the Lease. Its term begins at `renewed_at`, when the request was sent."""
        self._lease, self._version = lease, _version_of(lease)
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


def _spec_of(lease: Document | None) -> Mapping[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _version_of(lease: Document) -> int:
    return int(lease["metadata"].get("resourceVersion") or 0)


def _read_versions(lease: Document, *, epoch: str) -> Mapping[str, int] | None:
    """Return the versions that the previous holder left on a Lease, if no other holder has had it since; None:
    unknown.
    """
    spec = _spec_of(lease)
    try:
        note = _decode_note(annotations_of(lease)[WRITTEN])
    except (KeyError, msgspec.DecodeError):
        return None
    is_released = not spec.get("holderIdentity")
    is_known = note.at == spec.get("renewTime") and note.epoch == epoch
    return note.versions if is_released and is_known else None


def _to_int(value: object) -> int:
    return value if isinstance(value, int) else 0
