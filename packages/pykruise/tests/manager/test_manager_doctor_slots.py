"""Findings of doctor about slots, from Leases without a cluster."""

from typing import Any

from pykruise.kube.clock import format_micro_time
from pykruise.kube.election.key_slots import SLOTS, LeaderRecord
from pykruise.kube.election.membership import RECORD
from pykruise.manager.doctor.findings import FindingLevel
from pykruise.manager.doctor.slots import find_slot_findings, is_shared

NOW = 1_000_000.0


def lease(holder: str, *, age_s: float = 1.0, **annotations: str) -> dict[str, Any]:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": format_micro_time(NOW - age_s),
    }
    return {"metadata": {"annotations": annotations}, "spec": spec}


def held(*, but: tuple[int, ...] = (), **odd: Any) -> dict[int, Any]:
    result: dict[int, Any] = {slot: lease(f"pod-{slot % 2}_uuid") for slot in range(SLOTS)}
    return {**result, **dict.fromkeys(but, odd.get("as_"))}


def test_the_slots_are_listed_by_manager() -> None:
    (finding,) = find_slot_findings(held(), now=NOW)
    assert finding.level is FindingLevel.OK
    assert finding.what == "pod-0: 0, 2, 4, 6, 8, 10, 12, 14; pod-1: 1, 3, 5, 7, 9, 11, 13, 15"


def test_slots_without_a_holder_or_not_renewed_are_named() -> None:
    for unheld in (None, lease(""), lease("pod-1_uuid", age_s=17.0)):
        _, finding = find_slot_findings(held(but=(3, 5), as_=unheld), now=NOW)
        assert finding.level is FindingLevel.WARNING
        assert "3, 5" in finding.what
    _, finding = find_slot_findings(held(but=(3, 5, 7)), now=NOW)
    assert finding.level is FindingLevel.FAULT


def test_managers_that_hold_nothing_at_all_are_a_fault() -> None:
    (finding,) = find_slot_findings(dict.fromkeys(range(SLOTS)), now=NOW)
    assert finding.level is FindingLevel.FAULT


def test_work_is_shared_while_the_leaders_own_record_declares_it() -> None:
    text = LeaderRecord(leader="a", epoch="1", keying="object").to_text()
    assert is_shared(lease("a", **{RECORD: text}))
    assert not is_shared(lease("go", **{RECORD: text}))
    assert not is_shared(lease("a"))
    assert not is_shared(None)
