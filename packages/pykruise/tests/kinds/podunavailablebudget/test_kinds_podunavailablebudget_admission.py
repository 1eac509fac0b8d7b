"""PodUnavailableBudgets that are refused, and allowed ones. Numbers are cases of the specification."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.admission import build_validating_review
from pykruise.kinds.podunavailablebudget.conversion import (
    CONVERSION,
    PROTECT_OPERATIONS,
    PROTECT_TOTAL_REPLICAS,
    operations_of,
    total_of,
)
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.podunavailablebudget.validation import may_overlap
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import parse_selector
from support.budgets import CLONE_SET, DEPLOYMENT, BudgetServer, budget
from support.reviews import at_once, request

SELECTOR_OR_TARGET = "spec.selector, targetRef"
HOW_MANY = "spec.maxUnavailable, minAvailable"
TOTAL = f"metadata.annotations[{PROTECT_TOTAL_REPLICAS}]"


def causes(
    doc: Document, *, old: Document | None = None, others: tuple[Document, ...] = ()
) -> Sequence[Cause]:
    """The errors; empty if the budget is allowed."""
    reader = BudgetServer(*others).replica()
    refused = at_once(build_validating_review(reader), request(POD_UNAVAILABLE_BUDGETS, doc, old=old)).refusal
    if refused is None:
        return []
    assert refused.code == 422
    assert refused.details is not None
    return refused.details.causes


def fields(doc: Document, *, old: Document | None = None, others: tuple[Document, ...] = ()) -> list[str]:
    """Fields with an error."""
    return [cause.field for cause in causes(doc, old=old, others=others)]


def without(doc: Document, *names: str) -> Document:
    result = deep_copy(doc)
    for name in names:
        del result["spec"][name]
    return dict(result)


def selecting(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def but_not(*values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": list(values)}]}


def among(*values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": list(values)}]}


TARGETED = budget(target=DEPLOYMENT, maxUnavailable=1)


@pytest.mark.parametrize(
    ("doc", "wrong"),
    [
        (without(budget(maxUnavailable=1), "selector"), [SELECTOR_OR_TARGET]),  # podunavailablebudget case 1
        (
            {**TARGETED, "spec": {**TARGETED["spec"], "selector": selecting(app="web")}},
            [SELECTOR_OR_TARGET],
        ),  # podunavailablebudget case 2
        (budget(target=("", "Deployment", "web"), maxUnavailable=1), ["spec.targetRef"]),
        (budget(target=("a/b/c", "Deployment", "web"), maxUnavailable=1), ["spec.targetRef"]),
        (budget(target=("apps/v1", "", "web"), maxUnavailable=1), ["spec.targetRef"]),
        (budget(target=("apps/v1", "Deployment", ""), maxUnavailable=1), ["spec.targetRef"]),
        (budget(target=("v1", "ReplicationController", "web"), maxUnavailable=1), []),
        (budget(selector={"matchExpressions": []}, maxUnavailable=1), ["spec.selector"]),
        ({**TARGETED, "spec": None}, [SELECTOR_OR_TARGET, HOW_MANY]),
        (
            budget(selector={"matchLabels": {}}, maxUnavailable=1),
            ["spec.selector"],
        ),  # podunavailablebudget case 6
        (budget(selector=selecting(**{"bad key": "x"}), maxUnavailable=1), ["spec.selector.matchLabels"]),
    ],
)
def test_a_budget_has_a_selector_or_a_target_and_not_both_cases_1_2_6(
    doc: Document, wrong: list[str]
) -> None:
    assert fields(doc) == wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, [HOW_MANY]),
        ({"maxUnavailable": 1, "minAvailable": 1}, [HOW_MANY]),
        ({"maxUnavailable": "5"}, ["spec.maxUnavailable"]),  # podunavailablebudget case 3
        ({"maxUnavailable": 5}, []),
        ({"maxUnavailable": "5%"}, []),
        ({"maxUnavailable": "101%"}, ["spec.maxUnavailable"]),  # podunavailablebudget case 4
        ({"maxUnavailable": "100%"}, []),
        ({"minAvailable": -1}, ["spec.minAvailable"]),  # podunavailablebudget case 5
        (
            {"maxUnavailable": 1, "ignoredPodSelector": {}},
            ["spec.ignoredPodSelector"],
        ),  # podunavailablebudget case 7
        ({"maxUnavailable": 1, "ignoredPodSelector": selecting(app="x")}, []),
        ({"maxUnavailable": 1, "ignoredPodSelector": among("x")}, []),
        ({"maxUnavailable": 1, "ignoredPodSelector": None}, []),
        (
            {"maxUnavailable": 1, "protectOperations": ["PATCH"]},
            ["spec.protectOperations[0]"],
        ),  # podunavailablebudget case 8
        ({"maxUnavailable": 1, "protectOperations": ["DELETE", "UPDATE", "EVICT", "RESIZE"]}, []),
    ],
)
def test_amounts_and_operations_are_of_their_kind_cases_3_to_8(spec: Any, wrong: list[str]) -> None:
    assert fields(budget(**spec)) == wrong


def test_a_workload_has_one_budget_in_any_version_case_9() -> None:
    other = budget("other", target=("apps/v1beta1", "Deployment", "web"), maxUnavailable=1)
    assert fields(TARGETED, others=(other,)) == ["spec.targetReference"]
    assert fields(budget(target=CLONE_SET, maxUnavailable=1), others=(other,)) == []


@pytest.mark.parametrize(
    ("item", "other", "wrong"),
    [
        (selecting(app="a"), selecting(app="b"), []),  # podunavailablebudget case 10
        (among("a", "b"), selecting(app="a"), ["spec.selector"]),
        (selecting(app="a"), selecting(app="a", tier="x"), []),  # podunavailablebudget case 11
        # every key must allow a common value
        (selecting(app="a", tier="x"), selecting(app="a", tier="x"), ["spec.selector"]),
        (selecting(app="a", tier="x"), selecting(app="a", tier="y"), []),
        (selecting(app="a", tier="x"), selecting(app="b", tier="x"), []),
        # a label precedes expressions of its key
        ({**selecting(app="a"), **among("b")}, selecting(app="b"), []),
        ({**selecting(app="a"), **among("b")}, selecting(app="a"), ["spec.selector"]),
        ({**selecting(app="a"), **but_not("c")}, selecting(app="b"), []),
        ({**selecting(app="a"), **but_not("c")}, selecting(app="a"), ["spec.selector"]),
        # some values remain, or none
        (among("a", "b"), but_not("a"), ["spec.selector"]),
        (among("a", "b"), but_not("a", "b", "c"), []),
        # a budget that was stored without a usable selector blocks no other budget
        (selecting(app="a"), {"matchLabels": {}}, []),
        (selecting(app="a"), {"matchExpressions": [{"key": "app", "operator": "Nope"}]}, []),
        ({"matchLabels": {}}, {"matchLabels": {}}, ["spec.selector"]),
    ],
)
def test_selectors_of_a_namespace_do_not_overlap_cases_10_11(item: Any, other: Any, wrong: list[str]) -> None:
    stored = budget("other", selector=other, maxUnavailable=1)
    assert fields(budget(selector=item, maxUnavailable=1), others=(stored,)) == wrong


def test_a_budget_conflicts_neither_with_itself_nor_with_the_other_form_case_12() -> None:
    doc = budget(maxUnavailable=1)
    assert fields(doc, others=(doc,)) == []
    assert fields(doc, others=(budget("other", target=DEPLOYMENT, maxUnavailable=1),)) == []
    # even if that budget was stored with both
    both = {**TARGETED["spec"], "selector": selecting(app="web")}
    assert fields(doc, others=({**budget("other"), "spec": both},)) == []


def test_errors_contain_the_value_and_the_other_budget() -> None:
    others = (budget("b", maxUnavailable=1), budget("a", maxUnavailable=1))
    (cause,) = causes(budget(maxUnavailable=1), others=others)
    assert cause.message.endswith("PodUnavailableBudget b covers the same pods")
    (cause,) = causes(TARGETED, others=(budget("other", target=DEPLOYMENT, maxUnavailable=1),))
    assert cause.message == (
        'Invalid value: "apps/v1 Deployment web": PodUnavailableBudget other covers the same pods'
    )
    (cause,) = causes(budget(target=("", "Deployment", "web"), maxUnavailable=1))
    assert cause.message == ('Invalid value: "Deployment web": apiVersion, kind and name must be given')
    (cause,) = causes(budget(target=("apps/v1", "", "web"), maxUnavailable=1))
    assert cause.message.endswith("apiVersion, kind and name must be given")
    (cause,) = causes(budget(target=("a/b/c", "Deployment", "web"), maxUnavailable=1))
    assert cause.message.endswith("apiVersion 'a/b/c' is not <group>/<version>")


@pytest.mark.parametrize("left", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("right", ["In", "NotIn", "Exists", "DoesNotExist"])
def test_the_overlap_table_is_symmetric_and_as_specified(left: str, right: str) -> None:
    def of(operator: str) -> Any:
        values = {"values": ["a"]} if operator in ("In", "NotIn") else {}
        return parse_selector({"matchExpressions": [{"key": "app", "operator": operator, **values}]})

    apart = {("In", "NotIn"), ("In", "DoesNotExist"), ("Exists", "DoesNotExist")}
    expected = (left, right) not in apart and (right, left) not in apart
    assert may_overlap(of(left), of(right)) is expected


def test_amounts_may_change_and_the_target_may_not_case_13() -> None:
    assert fields(budget(target=DEPLOYMENT, maxUnavailable=2), old=TARGETED) == []
    other = budget(target=("apps/v1", "Deployment", "other"), maxUnavailable=1)
    assert fields(other, old=TARGETED) == [SELECTOR_OR_TARGET]
    for nothing in (None, {}):
        assert fields(TARGETED, old={**TARGETED, "spec": nothing}) == [SELECTOR_OR_TARGET]


def annotated(annotations: Any, **spec: Any) -> Document:
    """A budget with these annotations, or with none at all."""
    doc = budget(**spec)
    return {**doc, "metadata": {**doc["metadata"], "annotations": annotations}}


NO_NUMBER = {PROTECT_TOTAL_REPLICAS: "many"}


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (annotated(NO_NUMBER), annotated(NO_NUMBER), []),
        (annotated({}), annotated(None), []),
        (annotated(None), {key: each for key, each in budget().items() if key != "metadata"}, []),
        (annotated({}), annotated(NO_NUMBER), [TOTAL, HOW_MANY]),
        (annotated(NO_NUMBER), annotated({}), [HOW_MANY]),
        (annotated(NO_NUMBER), annotated(NO_NUMBER, maxUnavailable=1), [TOTAL]),
    ],
)
def test_a_stored_invalid_budget_blocks_only_changes_of_the_invalid_fields(
    old: Document, new: Document, wrong: list[str]
) -> None:
    """The budget has neither an amount in its spec nor a total in its annotation."""
    assert [field for field in fields(new, old=old) if field != "metadata.name"] == wrong


def test_unreadable_other_budgets_are_reported_beside_the_budgets_own_errors() -> None:
    class Away:
        async def list_in_namespace(self, _: str) -> Any:
            raise KubeError("the API server is away")

    reader: Any = Away()
    refused = at_once(build_validating_review(reader), request(POD_UNAVAILABLE_BUDGETS, budget())).refusal
    assert refused is not None
    assert "the other PodUnavailableBudgets cannot be read: the API server is away" in refused.message
    assert "no maxUnavailable or minAvailable defined" in refused.message


def test_a_budget_is_validated_alone_without_a_reader() -> None:
    assert at_once(build_validating_review(None), request(POD_UNAVAILABLE_BUDGETS, TARGETED)).refusal is None


V1ALPHA1 = Resource("policy.kruise.io", "v1alpha1", "podunavailablebudgets", "PodUnavailableBudget")
OPERATIONS = f"metadata.annotations[{PROTECT_OPERATIONS}]"


def of_v1alpha1(**annotations: str) -> Document:
    """A budget as v1alpha1 writes it. `operations` and `total` stand for the names of these annotations."""
    names = {"operations": PROTECT_OPERATIONS, "total": PROTECT_TOTAL_REPLICAS}
    v1alpha1 = budget(maxUnavailable=1, annotations={names[key]: text for key, text in annotations.items()})
    v1alpha1["apiVersion"] = "policy.kruise.io/v1alpha1"
    return v1alpha1


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (None, {"operations": "EVICT, UPDATE"}, []),  # podunavailablebudget case 14
        (None, {"operations": "BOGUS"}, [OPERATIONS]),  # podunavailablebudget case 15
        (None, {"operations": "EVICT,BOGUS"}, [OPERATIONS]),
        (None, {"operations": " , "}, []),
        (None, {"operations": ""}, []),
        (None, {}, []),
        (None, {"total": "many"}, [TOTAL]),
        (None, {"total": "4294967296"}, [TOTAL]),
        (None, {"total": "9" * 5_000}, [TOTAL]),
        (None, {"total": "9"}, []),
        # a stored invalid value does not block other changes
        ({"operations": "BOGUS"}, {"operations": "BOGUS"}, []),
        ({"total": "many"}, {"total": "many"}, []),
        ({"operations": "BOGUS"}, {"operations": "OTHER"}, [OPERATIONS]),
        ({"operations": "BOGUS"}, {}, []),
        ({}, {"operations": "BOGUS"}, [OPERATIONS]),
    ],
)
def test_invalid_v1alpha1_annotations_are_refused_with_one_error_each_cases_14_15(
    old: Any, new: Any, wrong: list[str]
) -> None:
    rule = next(reviewer for reviewer in build_reviewers() if reviewer.name == "vpodunavailablebudget.kb.io")
    stored, written = of_v1alpha1(**old) if old is not None else None, of_v1alpha1(**new)
    written["metadata"]["labels"] = {"team": "shop"}
    refused = at_once(rule.reviewer, request(V1ALPHA1, written, old=stored)).refusal
    details = refused.details if refused is not None else None
    assert [cause.field for cause in (details.causes if details is not None else ())] == wrong


def test_operations_of_v1alpha1_are_trimmed_and_ignored_in_v1beta1_cases_14_15() -> None:
    stored = CONVERSION.to_hub(deep_copy(of_v1alpha1(operations="EVICT, UPDATE")))
    assert stored["spec"]["protectOperations"] == ["EVICT", "UPDATE"]
    assert fields(budget(maxUnavailable=1, annotations={PROTECT_OPERATIONS: "BOGUS"})) == []


def test_fields_become_annotations_in_v1alpha1_and_stale_ones_are_removed_cases_16_17() -> None:
    stale = {PROTECT_OPERATIONS: "EVICT"}
    doc = budget(maxUnavailable=1, annotations=stale)
    assert PROTECT_OPERATIONS not in CONVERSION.to_spoke(deep_copy(doc))["metadata"].get("annotations", {})
    doc = budget(maxUnavailable=1, protectOperations=["DELETE", "RESIZE"], protectTotalReplicas=9)
    annotations = CONVERSION.to_spoke(deep_copy(doc))["metadata"]["annotations"]
    assert annotations[PROTECT_OPERATIONS] == "DELETE,RESIZE"
    assert annotations[PROTECT_TOTAL_REPLICAS] == "9"


@pytest.mark.parametrize(
    "spec",
    [
        {"protectOperations": []},
        {"protectOperations": ["BOGUS"]},
        {"protectOperations": ["DELETE", "BOGUS"]},
        {"protectOperations": "DELETE"},
        {"protectTotalReplicas": True},
        {"protectTotalReplicas": "9"},
        {"protectTotalReplicas": None},
    ],
)
def test_empty_or_invalid_fields_become_no_annotations(spec: Document) -> None:
    """The budget was stored before it was validated"""
    annotations = CONVERSION.to_spoke(deep_copy(budget(maxUnavailable=1, **spec)))
    assert not annotations["metadata"].get("annotations")
    assert annotations["spec"].keys() == {"selector", "maxUnavailable"}


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": "text"}])
def test_a_budget_without_a_spec_can_be_converted(spec: Document) -> None:
    annotations = {PROTECT_OPERATIONS: "EVICT", PROTECT_TOTAL_REPLICAS: "9"}
    doc = {"metadata": {"name": "pub", "annotations": annotations}, **spec}
    assert CONVERSION.to_hub(deep_copy(doc)) == CONVERSION.to_spoke(deep_copy(doc)) == doc


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9", 9),
        ("+9", 9),
        ("-2147483648", -(2**31)),
        ("-2147483649", None),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("", None),
        ("9.0", None),
        ("٩", None),
        (9, None),
        (None, None),
    ],
)
def test_a_total_is_a_number_of_32_bits(text: object, number: int | None) -> None:
    """rule 1"""
    assert total_of(text) == number


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("EVICT, UPDATE", ["EVICT", "UPDATE"]),
        (" , ", None),
        ("", None),
        ("EVICT,X", None),
        (None, None),
        (7, None),
    ],
)
def test_protected_operations_are_parsed_or_absent(text: object, operations: list[str] | None) -> None:
    """podunavailablebudget case 14"""
    assert operations_of(text) == operations


def test_the_total_of_the_annotation_is_a_number_and_that_of_the_field() -> None:
    def doc(text: str, **spec: Any) -> Document:
        return budget(maxUnavailable=1, annotations={PROTECT_TOTAL_REPLICAS: text}, **spec)

    assert fields(doc("many")) == [TOTAL]
    assert fields(doc("9", protectTotalReplicas=8)) == [TOTAL]
    assert fields(doc("9", protectTotalReplicas=9)) == []
    # a client that changes the field need not know an older annotation (pitfall 14)
    assert fields(doc("9", protectTotalReplicas=8), old=doc("9", protectTotalReplicas=9)) == []
    # but a changed annotation must agree with the field
    assert fields(doc("9", protectTotalReplicas=8), old=doc("7", protectTotalReplicas=7)) == [TOTAL]
    # without the field, only the annotation counts
    assert fields(doc("9")) == []


def test_no_budget_can_be_created_with_both_gates_off_case_64() -> None:
    gates = Gates.of(PodUnavailableBudgetDeleteGate=False, PodUnavailableBudgetUpdateGate=False)
    rules = build_reviewers(make_admission_settings(gates))
    rule = next(rule for rule in rules if rule.name == "vpodunavailablebudget.kb.io")
    refused = at_once(rule.reviewer, request(POD_UNAVAILABLE_BUDGETS, budget(maxUnavailable=1))).refusal
    assert refused is not None
    assert (refused.code, refused.message) == (
        400,
        "feature PodUnavailableBudget is invalid, please open via feature-gate("
        "PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)",
    )
