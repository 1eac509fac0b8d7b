"""Slots of subsets in the status: their allocation, their release, and the deletions that must be confirmed."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from pykruise.kinds.workloadspread.injection import Matched
from pykruise.kinds.workloadspread.slots import (
    allocate_slot,
    find_pending_creations,
    find_unconfirmed_deletions,
    make_fresh_entries,
    release_slot,
)
from pykruise.kinds.workloadspread.types import SubsetStatus
from pykruise.kube.clock import format_time
from pykruise.kube.schemas.types import Condition
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from support.spreads import NOW, pod, spread, subset, view

NOTED = format_time(NOW)


def schedulable(status: str) -> list[Condition]:
    return [Condition(type="Schedulable", status=status, reason="R", message="", last_transition_time=NOTED)]


def entry(name: str, missing: int, *deleting: str, **fields: Any) -> SubsetStatus:
    """The stored entry of a subset; `deleting`: pods whose deletion was admitted."""
    given: dict[str, Any] = {"replicas": 0, "deleting_pods": dict.fromkeys(deleting, NOTED) or None, **fields}
    return SubsetStatus(name=name, missing_replicas=missing, **given)


CLOSED: Mapping[str, Any] = {"conditions": schedulable("False")}
OPEN: Mapping[str, Any] = {"conditions": schedulable("True")}


# ── allocated ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([entry("a", 1, **OPEN), entry("b", -1)], "a"),
        ([entry("a", -1, **CLOSED), entry("b", -1, **OPEN)], "b"),
        ([entry("a", 0), entry("b", 0)], ""),
    ],
)
def test_the_first_subset_with_room_that_is_not_closed_gets_the_pod_case_12(
    entries: list[SubsetStatus], wanted: str
) -> None:
    assert allocate_slot(entries, pod_name="p1", fresh_id=str, now=NOTED).subset == wanted


@pytest.mark.parametrize("noted", [{"creating_pods": {"p1": NOTED}}, {"deleting_pods": {"p1": NOTED}}])
def test_a_pod_that_is_noted_gets_its_subset_again_and_nothing_is_stored_case_4(noted: Any) -> None:
    # given a pod whose creation or deletion was admitted to a full subset, and room in an earlier one
    entries = [entry("a", 2), entry("b", 0, **noted)]
    # when
    again = allocate_slot(entries, pod_name="p1", fresh_id=str, now=NOTED)
    # then
    assert (again.subset, again.key, again.entries) == ("b", "p1", None)


def test_fresh_entries_count_no_pods_and_have_all_slots() -> None:
    subsets = view(spread(subset("a", 3), subset("b", "50%"), subset("c"), subset("d", "some"))).subsets
    assert make_fresh_entries(subsets, replicas=5) == [
        entry("a", 3),
        entry("b", 3),
        entry("c", -1),
        entry("d", 0),
    ]


# ── released ─────────────────────────────────────────────────────────────────


def test_a_released_slot_changes_its_own_entry_only() -> None:
    # given
    entries = [entry("a", 1), entry("b", 0, replicas=2), entry("c", 4)]
    # when
    statuses = release_slot(entries, pod_name="p1", subset="b", now=NOTED)
    # then
    assert statuses == (entries[0], entry("b", 1, "p1", replicas=2), entries[2])


# ── deletions to confirm ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entries", "wanted", "going", "asked"),
    [
        # one slot is free in any case
        ([entry("a", 2, "p1")], 1, (), []),
        ([entry("a", 2, "p1")], 2, (), [(["p1"], 1)]),
        ([entry("a", 3, "p1", "p2")], 3, (), [(["p1", "p2"], 2)]),
        # one is terminating, or all are
        ([entry("a", 2, "p1", "p2")], 2, ("p1",), [(["p2"], 1)]),
        ([entry("a", 2, "p1", "p2")], 9, ("p1", "p2"), []),
        # no slot is free even when the pod terminates: other pods have the slots
        ([entry("a", 0, "p1")], 1, (), []),
        # more pods wait than the first subset has free slots
        ([entry("a", 1, "p1", "p2"), entry("b", 1, "p3")], 1, (), [(["p1", "p2"], 2), (["p3"], 1)]),
        # a closed subset
        ([entry("a", 1, "p1", **CLOSED), entry("b", 1, "p2")], 1, (), [(["p2"], 1)]),
        # a subset behind one with enough slots, or without a limit
        ([entry("a", 1), entry("b", 1, "p1", "p2")], 1, (), []),
        ([entry("a", 1), entry("b", 1, "p1")], 2, (), [(["p1"], 1)]),
        ([entry("a", -1), entry("b", 1, "p1")], 1, (), []),
    ],
)
def test_pods_are_read_only_when_their_deletion_decides_about_a_slot(
    entries: list[SubsetStatus], wanted: int, going: Sequence[str], asked: list[Any]
) -> None:
    assert list(find_unconfirmed_deletions(entries, wanted=wanted, going=going)) == asked


# ── pods to come ─────────────────────────────────────────────────────────────


def test_a_slot_is_kept_until_its_pod_is_seen_by_name_or_key() -> None:
    # given slots of two pods with names, and of two without
    noted = entry("a", 0, creating_pods=dict.fromkeys(("p1", "p2", "u-1", "u-2"), NOTED))
    notes = {"p1": Matched(name="ws", subset="a"), "web-x": Matched(name="ws", subset="a", uid="u-1")}
    pods = [
        project_pod(orjson.dumps(pod(name, annotations={MATCHED_SPREAD_ANNOTATION: note.to_text()})))
        for name, note in notes.items()
    ]
    # then
    assert list(find_pending_creations(noted, pods)) == [("p2", NOTED, NOW + 30), ("u-2", NOTED, NOW + 30)]
    assert list(find_pending_creations(None, pods)) == []
