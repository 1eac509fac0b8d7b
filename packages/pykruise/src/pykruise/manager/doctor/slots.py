"""Check of shared work: which manager holds each slot, and whether a slot has no manager.

the leader's Lease, the Lease of each slot ──▶ check_slots() ──▶ findings

Pure, except for the requests in `check_slots`.
"""

import asyncio
from collections.abc import Mapping, Sequence

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, annotations_of, get_path
from pykruise.kube.election.key_slots import SLOTS, read_record
from pykruise.kube.election.membership import RECORD, format_slot_lease
from pykruise.kube.resources import LEASES
from pykruise.manager.doctor.findings import Finding, make_fault, make_fine, make_warning
from pykruise.manager.doctor.live import Live

GRACE_S = 1.0
"""Tolerance: the API server's time has whole seconds."""


async def check_slots(live: Live) -> Sequence[Finding]:
    """Check that every slot has a manager."""
    key = await live.find_lease()
    lease = await live.get(LEASES, key.namespace, key.name) if key is not None else None
    if key is None or not is_shared(lease):
        return [make_fine("slots", "one manager works on all objects")]
    slots = await asyncio.gather(
        *(live.get(LEASES, key.namespace, format_slot_lease(key.name, slot)) for slot in range(SLOTS))
    )
    return find_slot_findings(dict(enumerate(slots)), now=await live.read_server_time())


def is_shared(lease: Document | None) -> bool:
    """Whether the holder of the leader's Lease shares the work with other managers. Pure."""
    holder = str(get_path(lease or {}, "spec", "holderIdentity", default="") or "")
    return lease is not None and read_record(annotations_of(lease).get(RECORD), holder=holder) is not None


def find_slot_findings(leases: Mapping[int, Document | None], *, now: Instant | None) -> list[Finding]:
    """Return findings: the slots of each manager, and the slots without a manager. Pure."""
    by_holder: dict[str, list[int]] = {}
    for slot, lease in leases.items():
        by_holder.setdefault(_find_holder(lease, now), []).append(slot)
    free = by_holder.pop("", [])
    shown = "; ".join(f"{holder}: {_join_slots(slots)}" for holder, slots in sorted(by_holder.items()))
    if not by_holder:
        return [make_fault("slots", "no slot has a manager: no controller runs", "read the managers' logs")]
    findings = [make_fine("slots", shown)]
    if free:
        what = f"slots without a manager: {_join_slots(free)}; no manager works on their objects"
        fix = "managers take free slots within 20 s; if they stay free, read the log of the leader"
        findings.append(
            make_warning("slots", what, fix) if len(free) <= 2 else make_fault("slots", what, fix)
        )
    return findings


def _find_holder(lease: Document | None, now: Instant | None) -> str:
    """Return the holder of a Lease that has not expired; empty: the Lease has no holder or has expired."""
    spec = (lease or {}).get("spec") or {}
    renewed = parse_time(spec["renewTime"]) if spec.get("renewTime") else None
    length_s = (spec.get("leaseDurationSeconds") or 0) + GRACE_S
    if now is not None and renewed is not None and now - renewed > length_s:
        return ""
    return str(spec.get("holderIdentity") or "").partition("_")[0]


def _join_slots(slots: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(slots)))
