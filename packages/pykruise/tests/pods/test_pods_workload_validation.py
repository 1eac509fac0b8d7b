"""Errors of the parts that all workloads with pods have."""

from typing import Any

import msgspec
import pytest

from pykruise.kube.errors import Cause
from pykruise.pods.api import OrderPriorityTerm, PriorityStrategy, ScatterTerm, WeightPriorityTerm
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.validation import (
    find_amount_errors,
    find_immutable_errors,
    find_label_selector_errors,
    find_metadata_errors,
    find_pod_errors,
    find_priority_errors,
    find_selector_errors,
    scatter_errors,
)

ONE = {"name": "c", "image": "a:1"}
MOUNTING = {**ONE, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
DATA = {"metadata": {"name": "data"}}
WEB = {"matchLabels": {"app": "web"}}

Doc = dict[str, Any]


def template(*containers: Doc, **spec: Any) -> Doc:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": list(containers) or [ONE], **spec},
    }


def places(causes: Any) -> list[str]:
    places: list[Cause] = list(causes)
    return [cause.field for cause in places]


@pytest.mark.parametrize(
    ("metadata", "wrong"),
    [
        ({}, ["name"]),
        ({"name": None, "generateName": ""}, ["name"]),
        ({"generateName": "web-"}, []),
        ({"name": "web", "labels": None, "annotations": None}, []),
        ({"name": "Web"}, ["name"]),
        ({"name": "web", "labels": {"a b": "c"}}, ["labels"]),
        ({"name": "web", "annotations": {"A.b/C": "x", "a b": "y"}}, ["annotations"]),
    ],
)
def test_an_object_has_a_name_or_gets_one(metadata: Doc, wrong: list[str]) -> None:
    assert places(find_metadata_errors(metadata)) == [f"metadata.{text}" for text in wrong]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"selector": WEB, "template": template()}, []),
        ({"selector": WEB}, []),
        ({"template": template()}, ["spec.selector"]),
        ({"selector": {}, "template": template()}, ["spec.selector"]),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, ["spec.selector"]),
        ({"selector": WEB, "template": {"spec": {}}}, ["spec.template.metadata.labels"]),
    ],
)
def test_a_selector_selects_the_pods_of_the_template_and_not_all(spec: Doc, wrong: list[str]) -> None:
    assert places(find_selector_errors(spec, kind="cloneset")) == wrong


def test_an_empty_selector_is_refused_only_with_a_message() -> None:
    assert places(find_label_selector_errors({}, "s")) == []
    assert places(find_label_selector_errors({}, "s", empty="selects all")) == ["s"]
    assert places(find_label_selector_errors(WEB, "s", empty="selects all")) == []
    assert places(find_label_selector_errors({"matchExpressions": [{"key": "a"}]}, "s")) == ["s"]


@pytest.mark.parametrize(
    ("value", "is_wrong"),
    [(None, False), (0, False), (-1, True), ("0%", False), ("30%", False), ("3", True), ("-3%", True)],
)
def test_an_amount_is_a_number_or_a_share(value: int | str | None, is_wrong: bool) -> None:
    assert places(find_amount_errors(value, "f")) == ["f"] * is_wrong


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, ["spec.template"]),
        ({"template": None}, ["spec.template"]),
        ({"template": {"metadata": {"labels": {"app": "web"}}}}, ["spec.template.spec.containers"]),
        ({"template": template()}, []),
        ({"template": template(restartPolicy="Always")}, []),
        ({"template": template(restartPolicy="Never")}, ["spec.template.spec.restartPolicy"]),
        ({"template": template(activeDeadlineSeconds=5)}, ["spec.template.spec.activeDeadlineSeconds"]),
    ],
)
def test_pods_of_a_workload_are_always_to_run(spec: Doc, wrong: list[str]) -> None:
    assert places(find_pod_errors(spec, kind="cloneset")) == wrong


BAD = {"name": "NOT good", "image": "a:1"}


@pytest.mark.parametrize(
    ("stored", "new", "wrong"),
    [
        (None, [BAD], ["spec.template.spec.containers[0].name"]),
        ([BAD], [BAD], []),
        ([BAD], [{**BAD, "image": "a:2"}], []),
        ([ONE], [BAD], ["spec.template.spec.containers[0].name"]),
        ([BAD], [BAD, {**BAD, "name": "BAD too"}], ["spec.template.spec.containers[1].name"]),
    ],
    ids=["new", "unchanged", "changed elsewhere", "good before", "another one"],
)
def test_a_stored_invalid_template_does_not_block_other_changes(
    stored: list[Doc] | None, new: list[Doc], wrong: list[str]
) -> None:
    old = None if stored is None else {"spec": {"template": template(*stored)}}
    assert places(find_pod_errors({"template": template(*new)}, kind="cloneset", stored=old)) == wrong


@pytest.mark.parametrize(
    "stored",
    [{}, {"spec": None}, {"spec": {"template": None}}, {"spec": {"template": {}}}],
)
def test_a_stored_object_without_a_template_excuses_nothing(stored: Doc) -> None:
    causes = find_pod_errors({"template": template(BAD)}, kind="cloneset", stored=stored)
    assert places(causes) == ["spec.template.spec.containers[0].name"]


def test_a_mounted_claim_template_cannot_be_removed() -> None:
    """No pod could be created from such a template, although the template itself does not change."""
    # given
    stored = {"spec": {"template": template(MOUNTING), "volumeClaimTemplates": [DATA]}}
    # when
    spec = {"template": template(MOUNTING)}
    causes = find_pod_errors(spec, kind="cloneset", stored=stored)
    # then
    assert places(causes) == ["spec.template.spec.containers[0].volumeMounts[0].name"]
    # while a claim that was missing before may still be missing
    assert places(find_pod_errors(spec, kind="cloneset", stored={"spec": spec | {"replicas": 1}})) == []
    with_data = spec | {"volumeClaimTemplates": [DATA]}
    assert places(find_pod_errors(with_data, kind="cloneset", further_volumes=["data"], stored=stored)) == []


def test_a_container_cannot_mount_a_volume_without_a_claim() -> None:
    stored = {"spec": {"template": template(ONE), "volumeClaimTemplates": [DATA]}}
    spec = {"template": template(MOUNTING), "volumeClaimTemplates": [DATA]}
    assert places(find_pod_errors(spec, kind="cloneset", further_volumes=["data"], stored=stored)) == []
    bare = {"template": template(MOUNTING)}
    stored = {"spec": {"template": template(ONE)}}
    brings = places(find_pod_errors(bare, kind="cloneset", stored=stored))
    assert brings == ["spec.template.spec.containers[0].volumeMounts[0].name"]


@pytest.mark.parametrize(
    ("new", "old", "is_wrong"),
    [
        ({"replicas": 1}, {"replicas": 2}, False),
        ({"size": 1}, {"size": 1}, False),
        ({"size": 1}, {"size": 2}, True),
        ({"size": 1}, {}, True),
        ({}, {"size": 1}, True),
        ({"size": None}, {}, False),
        ({}, None, False),
        ({"size": 1}, None, True),
        ({"selector": {**WEB, "matchExpressions": []}}, {"selector": WEB}, False),
        ({"selector": WEB}, {"selector": {"matchLabels": {"app": "db"}}}, True),
        ({"selector": "x"}, {"selector": WEB}, True),
        ({"labels": {"a": ""}}, {"labels": {}}, True),
    ],
)
def test_only_some_fields_may_change(new: Doc, old: Doc | None, is_wrong: bool) -> None:
    """Absent and null fields are equal, and so are empty ones in a selector."""
    causes = find_immutable_errors(new, {"spec": old}, kind="cloneset", mutable=["replicas"])
    assert places(causes) == ["spec"] * is_wrong


@pytest.mark.parametrize(
    ("selector", "status", "is_wrong"),
    [
        (WEB, "True", False),
        ({**WEB, "matchExpressions": []}, "True", False),
        ({"matchLabels": {"app": "third"}}, "True", True),
        ("x", "True", True),
        (None, "True", True),
        (WEB, "False", True),
    ],
)
def test_a_changed_selector_may_only_return_to_the_managed_one(
    selector: Any, status: str, is_wrong: bool
) -> None:
    # given a selector that was changed without a review, the controller's condition, and its record
    condition = {"type": SELECTOR_MISMATCH, "status": status, "message": "in any words"}
    stored = {"spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": {"conditions": [condition]}}
    # then
    causes = find_immutable_errors({"selector": selector}, stored, kind="cloneset", mutable=[], managed=WEB)
    assert places(causes) == ["spec"] * is_wrong


def weight(number: int, selector: Any = WEB) -> WeightPriorityTerm:
    return msgspec.convert({"weight": number, "matchSelector": selector}, WeightPriorityTerm)


@pytest.mark.parametrize(
    ("strategy", "count"),
    [
        (None, 0),
        (PriorityStrategy(), 0),
        (PriorityStrategy(weight_priority=[weight(0), weight(1), weight(100)]), 0),
        (PriorityStrategy(weight_priority=[weight(-1), weight(101)]), 2),
        (PriorityStrategy(weight_priority=[weight(1, {})]), 1),
        (
            PriorityStrategy(
                weight_priority=[weight(1, {"matchExpressions": [{"key": "a", "operator": "Like"}]})]
            ),
            1,
        ),
        (PriorityStrategy(order_priority=[OrderPriorityTerm(ordered_key="a")]), 0),
        (PriorityStrategy(order_priority=[OrderPriorityTerm(ordered_key="")]), 1),
        (
            PriorityStrategy(
                weight_priority=[weight(1)], order_priority=[OrderPriorityTerm(ordered_key="a")]
            ),
            1,
        ),
        (PriorityStrategy(weight_priority=[], order_priority=[]), 0),
    ],
)
def test_a_priority_strategy_has_one_list_of_valid_entries(
    strategy: PriorityStrategy | None, count: int
) -> None:
    assert places(find_priority_errors(strategy, "p")) == ["p"] * count


@pytest.mark.parametrize(
    ("pairs", "count"),
    [([], 0), (["a=1", "a=2", "b=1"], 0), (["=1"], 1), (["a=1", "b=1", "a=1", "a=1"], 2)],
)
def test_a_pair_is_scattered_once(pairs: list[str], count: int) -> None:
    terms = [ScatterTerm(key=key, value=value) for key, _, value in (pair.partition("=") for pair in pairs)]
    assert places(scatter_errors(terms, "s")) == ["s"] * count
