"""Conditions that are reported as events, too."""

import pytest

from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.warning_events import make_warning_notes


def condition(
    reason: str, message: str = "why", *, kind: str = "Waiting", status: str = "True"
) -> PlainCondition:
    return PlainCondition(type=kind, status=status, reason=reason, message=message)


def test_a_new_reason_is_a_warning_with_the_message_of_its_condition() -> None:
    (note,) = make_warning_notes(None, [condition("UnboundClaims", "pod a has no volume")])
    assert (note.reason, note.message, note.warning) == ("UnboundClaims", "pod a has no volume", True)
    assert note.again_after_s > 0


@pytest.mark.parametrize("reason", ["Paused", "Partition", "OnDelete", "InPlaceUpdateHook", "Creating"])
def test_waits_that_the_spec_sets_or_that_end_automatically_are_no_warnings(reason: str) -> None:
    assert make_warning_notes([], [condition(reason)]) == ()


def test_a_false_condition_is_not_a_warning() -> None:
    assert make_warning_notes([], [condition("InvalidSpec", kind="FailedScale", status="False")]) == ()


def test_a_reason_in_the_stored_status_is_not_warned_of_again() -> None:
    stored = [condition("ImagePull"), condition("InvalidSpec", kind="FailedUpdate")]
    assert make_warning_notes(stored, stored) == ()


def test_waiting_for_another_pod_is_nothing_new_but_another_bad_field_is() -> None:
    stored = [condition("ImagePull", "pod a"), condition("InvalidSpec", "spec.a", kind="FailedUpdate")]
    now = [condition("ImagePull", "pod b"), condition("InvalidSpec", "spec.b", kind="FailedUpdate")]
    assert [note.message for note in make_warning_notes(stored, now)] == ["spec.b"]


def test_waiting_pods_share_one_event_and_invalid_fields_have_their_own() -> None:
    now = [condition("ImagePull", "pod a"), condition("InvalidSpec", "spec.a", kind="FailedUpdate")]
    assert [note.same_as for note in make_warning_notes([], now)] == ["ImagePull", ""]


def test_nothing_is_warned_of_without_conditions() -> None:
    assert make_warning_notes([condition("ImagePull")], None) == ()


def test_a_reason_that_is_back_is_a_warning_again() -> None:
    stored = [condition("InvalidSpec", kind="FailedUpdate", status="False")]
    assert len(make_warning_notes(stored, [condition("InvalidSpec", kind="FailedUpdate")])) == 1
