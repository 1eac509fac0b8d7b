"""Admission rules that all jobs that pull images share."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from pykruise.kube.errors import Cause
from pykruise.pods.images.api import PullSpec
from pykruise.pods.images.pull_rules import add_pull_defaults, find_image_errors, parallelism_of, pull_errors

DEFAULTS = {
    "completionPolicy": {"type": "Always"},
    "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3},
}


def said(causes: Iterable[Cause]) -> list[tuple[str, str, str]]:
    return [(cause.reason, cause.field, cause.message) for cause in causes]


def problems(**spec: Any) -> list[tuple[str, str, str]]:
    given = {"completionPolicy": {}, **spec}
    return said(pull_errors(msgspec.convert(given, PullSpec), given))


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, {}),
        ({"completionPolicy": None, "pullPolicy": None}, {}),
        ({"image": "a", "parallelism": 3}, {"image": "a", "parallelism": 3}),
        (
            {"completionPolicy": {"type": "", "ttlSecondsAfterFinished": 5}},
            {"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 5}},
        ),
        ({"completionPolicy": {"type": "Never"}}, {"completionPolicy": {"type": "Never"}}),
        (
            {"pullPolicy": {"timeoutSeconds": 0, "backoffLimit": None}},
            {"pullPolicy": {"timeoutSeconds": 0, "backoffLimit": 3}},
        ),
        (
            {"pullPolicy": {"backoffLimit": 0, "timeoutSeconds": None}},
            {"pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 0}},
        ),
    ],
)
def test_missing_pull_fields_get_their_defaults(given: dict[str, Any], changed: dict[str, Any]) -> None:
    """images 5"""
    assert add_pull_defaults(given, pull_policy=False) == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("policy", "stored"), [(None, "IfNotPresent"), ("", "IfNotPresent"), ("Always", "Always")]
)
def test_an_existing_image_is_not_pulled_by_default(policy: str | None, stored: str) -> None:
    """images 5: only if the kind has this default"""
    given = {"imagePullPolicy": policy}
    assert add_pull_defaults(given, pull_policy=True)["imagePullPolicy"] == stored
    assert add_pull_defaults(given, pull_policy=False)["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("value", "nodes"),
    [
        (None, 1),
        (0, 0),
        (7, 7),
        ("7", 7),
        ("+7", 7),
        ("007", 7),
        ("2147483647", 2147483647),
        ("0000000001", 1),
    ],
)
def test_parallelism_is_parsed_as_a_number(value: int | str | None, nodes: int) -> None:
    """images cases 21 to 23"""
    assert parallelism_of(value) == nodes


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("30%", "percentages are not accepted"),
        ("abc", "a whole number"),
        ("", "a whole number"),
        ("1.5", "a whole number"),
        ("1_0", "a whole number"),
        ("٣", "a whole number"),
        (" 1", "a whole number"),
        ("2147483648", "a whole number"),
        ("-2147483648", "a whole number"),
        ("99999999999", "a whole number"),
        ("-1", "not be negative"),
        (-1, "not be negative"),
    ],
)
def test_anything_else_is_refused(value: int | str, why: str) -> None:
    """images case 23"""
    with pytest.raises(ValueError, match=why):
        parallelism_of(value)


@pytest.mark.parametrize(
    ("image", "reasons"),
    [("a:1", []), ("", ["FieldValueRequired"]), ("UPPER/case", ["FieldValueInvalid"])],
)
def test_an_image_is_named_and_can_be_read(image: str, reasons: list[str]) -> None:
    assert [reason for reason, _, _ in said(find_image_errors(image, "spec.image"))] == reasons


IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
LIKE = {"key": "zone", "operator": "Like"}


@pytest.mark.parametrize(
    "more",
    [{"matchLabels": {"a": "b"}}, {"matchExpressions": [IN_A]}, {"matchLabels": {"a": "b"}, "names": []}],
)
def test_names_exclude_labels_in_any_form(more: dict[str, Any]) -> None:
    """images case 30"""
    assert problems(selector=more) == []
    labels = problems(selector={**more, "names": ["n1"]})
    assert [(reason, field) for reason, field, _ in labels] == [("FieldValueInvalid", "spec.selector")]


def test_an_unreadable_selector_is_quoted_as_it_was_given() -> None:
    """The message does not contain absent fields."""
    ((_, field, message),) = problems(selector={"matchExpressions": [LIKE]})
    assert field == "spec.selector"
    assert "Like" in message
    assert "matchLabels" not in message
    ((_, field, message),) = problems(podSelector={"matchLabels": {"a": "b"}, "matchExpressions": [LIKE]})
    assert field == "spec.podSelector"
    assert "matchLabels" in message


def test_a_deadline_is_at_least_as_long_as_one_attempt() -> None:
    """images case 31"""

    def found(deadline_s: int, **policy: Any) -> list[str]:
        completion = {"type": "Always", "activeDeadlineSeconds": deadline_s}
        return [field for _, field, _ in problems(completionPolicy=completion, pullPolicy=policy or None)]

    path = "spec.completionPolicy.activeDeadlineSeconds"
    assert (found(599), found(600)) == ([path], [])
    assert (found(599, backoffLimit=1), found(600, backoffLimit=1)) == ([path], [])
    assert (found(4, timeoutSeconds=5), found(5, timeoutSeconds=5)) == ([path], [])
    assert found(0, timeoutSeconds=0) == []
