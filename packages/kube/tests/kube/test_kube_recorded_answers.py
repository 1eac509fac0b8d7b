"""Functions with an exact counterpart in Kubernetes, against recorded results of Kubernetes (see data/)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.documents import deep_copy, is_same
from pykruise.kube.patches import apply_json_patch, apply_strategic_merge
from pykruise.kube.pod_rules.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_value,
)
from pykruise.kube.values.field_selectors import parse_field_selector
from pykruise.kube.values.quantities import Quantity
from pykruise.kube.values.selectors import parse_label_selector

Case = dict[str, Any]


def strategic_merge(case: Case) -> Any:
    return apply_strategic_merge(case["doc"], case["patch"], definition=case["definition"])


def json_patch(case: Case) -> Any:
    return apply_json_patch(case["doc"], case["patch"])


def quantity(case: Case) -> Any:
    parsed = Quantity.parse(case["text"])
    return [str(parsed), str(parsed.round_up_to_milli())]


def label_selector(case: Case) -> Any:
    return str(parse_label_selector(case["text"]))


def field_selector(case: Case) -> Any:
    return str(parse_field_selector(case["text"]))


def name(case: Case) -> Any:
    rules = (
        is_qualified_name,
        is_valid_label_value,
        is_dns1123_label,
        is_dns1123_subdomain,
        is_dns1035_label,
    )
    return [rule(case["text"]) for rule in rules]


@pytest.mark.parametrize(
    "answer", [strategic_merge, json_patch, quantity, label_selector, field_selector, name]
)
def test_the_answer_is_the_one_kubernetes_gives(answer: Callable[[Case], Any]) -> None:
    # given
    path = Path(__file__).parent / "data" / f"{answer.__name__}_cases.jsonl"
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(cases) >= 60
    for case in cases:
        before = deep_copy(case)
        # when
        try:
            given: Case = {"out": answer(case)}
        except ValueError as err:
            given = {"err": str(err)}
        # then
        wanted = {key: case[key] for key in ("out", "err") if key in case}
        assert is_same(given, wanted), f"{case}\n{given}"
        assert case == before, "the input was changed"
