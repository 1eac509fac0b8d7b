"""Annotations of SidecarSets on pods, read and written."""

from typing import Any, Final

import orjson
import pytest

from pykruise.pods.injection_records import (
    InjectionRecord,
    RecordError,
    UpgradeState,
    encode_records,
    encode_states,
    encode_working,
    join_sets,
    read_records,
    read_state,
    read_working,
)

STATE = "kruise.io/sidecarset-inplace-update-state"
WORKING = "kruise.io/sidecarset-working-hotupgrade-container"


def record(item: Any) -> InjectionRecord:
    """The record of the SidecarSet `log`."""
    return read_records({"key": orjson.dumps({"log": item}).decode()}, "key")["log"]


FULL = {
    "updateTimestamp": "2026-01-31T12:00:00Z",
    "hash": "h",
    "sidecarSetName": "log",
    "sidecarList": ["a", "b"],
    "controllerRevision": "log-1",
}


@pytest.mark.parametrize(
    "text",
    [
        '{"log":{"updateTimestamp":"2026-01-31T12:00:00Z","hash":"h","sidecarSetName":"log",'
        '"sidecarList":["a","b"],"controllerRevision":"log-1"}}',
        '{"log":{"updateTimestamp":null,"hash":"h","sidecarSetName":"log","sidecarList":null}}',
        '{"log":{"updateTimestamp":null,"hash":"h","sidecarSetName":"old-name","sidecarList":[]}}',
    ],
)
def test_injection_records_are_written_byte_for_byte_as_read(text: str) -> None:
    """section 3.3"""
    assert encode_records(read_records({"key": text}, "key")) == text


def test_the_older_form_is_read_and_becomes_the_newer() -> None:
    """section 3.3"""
    result = read_records({"key": '{"x":"h","log":"i"}'}, "key")
    assert all(record.is_legacy for record in result.values())
    assert encode_records(result) == (
        '{"log":{"updateTimestamp":null,"hash":"i","sidecarSetName":"log","sidecarList":null},'
        '"x":{"updateTimestamp":null,"hash":"h","sidecarSetName":"x","sidecarList":null}}'
    )


AS_READ: Final = InjectionRecord(
    hash="h", name="log", sidecars=("a", "b"), updated_at=FULL["updateTimestamp"], revision="log-1"
)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (FULL, AS_READ),
        ({}, InjectionRecord(hash="", name="log")),
        ({"hash": "h", "sidecarSetName": None}, InjectionRecord(hash="h", name="log")),
        ({"hash": "h", "sidecarList": "a"}, InjectionRecord(hash="h", name="log")),
        ({"hash": "h", "updateTimestamp": 7}, InjectionRecord(hash="h", name="log")),
        ({"hash": "h", "controllerRevision": None}, InjectionRecord(hash="h", name="log")),
    ],
)  # fmt: skip
def test_the_readable_fields_of_an_edited_record_are_used(item: Any, expected: InjectionRecord) -> None:
    assert record(item) == expected


@pytest.mark.parametrize("item", [7, None, ["h"], {"hash": 7}, {"hash": None}])
def test_a_record_without_a_hash_is_an_error(item: Any) -> None:
    """section 3.3"""
    with pytest.raises(RecordError, match="the entry of log is neither a hash nor an object with a hash"):
        record(item)


@pytest.mark.parametrize("text", ["text", "[]", "7", "null"])
def test_an_annotation_that_is_not_an_object_is_an_error(text: str) -> None:
    with pytest.raises(RecordError, match="annotation key is no"):
        read_records({"key": text}, "key")
    assert read_state({STATE: text}) is None
    assert read_working({WORKING: text}) == {}


@pytest.mark.parametrize("annotations", [{}, {STATE: "", WORKING: "", "key": ""}])
def test_a_missing_annotation_has_no_records(annotations: dict[str, str]) -> None:
    assert read_records(annotations, "key") == read_state(annotations) == read_working(annotations) == {}


# ── upgrades in place ────────────────────────────────────────────────────────


def test_the_state_of_upgrades_is_written_in_order_and_read_back() -> None:
    """section 3.4"""
    states = {
        "z": UpgradeState(),
        "log": UpgradeState(revision="h", updated_at="2026-01-31T12:00:00Z", image_ids={"b": "id", "a": ""}),
    }
    text = encode_states(states)
    assert text == (
        '{"log":{"revision":"h","updateTimestamp":"2026-01-31T12:00:00Z",'
        '"lastContainerStatuses":{"a":{},"b":{"imageID":"id"}}},'
        '"z":{"revision":"","updateTimestamp":null,"lastContainerStatuses":{}}}'
    )
    assert read_state({STATE: text}) == states


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({}, UpgradeState()),
        ({"revision": None, "updateTimestamp": None, "lastContainerStatuses": None}, UpgradeState()),
        ({"lastContainerStatuses": {"a": None, "b": {}}}, UpgradeState(image_ids={"a": "", "b": ""})),
        ({"lastContainerStatuses": {"a": {"imageID": None}}}, UpgradeState(image_ids={"a": ""})),
        (7, None),
        ({"lastContainerStatuses": [1]}, None),
        ({"lastContainerStatuses": {"a": "id"}}, None),
    ],
)  # fmt: skip
def test_missing_fields_of_an_upgrade_state_are_unknown(item: Any, expected: UpgradeState | None) -> None:
    """A state with an unreadable part is unreadable as a whole."""
    result = read_state({STATE: orjson.dumps({"log": item}).decode()})
    assert result == (None if expected is None else {"log": expected})


# ── hot upgrades, and the list ───────────────────────────────────────────────


def test_working_containers_are_written_in_order_and_invalid_names_are_ignored() -> None:
    working = {"mesh": "mesh-1", "log": "log-2"}
    assert encode_working(working) == '{"log":"log-2","mesh":"mesh-1"}'
    assert read_working({WORKING: encode_working(working)}) == working
    assert read_working({WORKING: '{"log":7,"mesh":"mesh-1"}'}) == {"mesh": "mesh-1"}


def test_sets_are_listed_in_order_and_once() -> None:
    """section 3.1"""
    names = [f"set-{number}" for number in range(9)]
    assert join_sets([*reversed(names), "set-4"]) == ",".join(names)
