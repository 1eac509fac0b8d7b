"""Defaults and validation of DaemonSets. Rule numbers are those of the specification's table."""

import copy
from typing import Any

import pytest

from pykruise.kinds.daemonset.admission import build_validating_review, mutate_daemonset, validate_daemonset
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.errors import Cause
from pykruise.kube.resources import Resource
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from support.daemonset_builder import daemonset, template
from support.reviews import recorded

V1ALPHA1 = Resource("apps.kruise.io", "v1alpha1", "daemonsets", "DaemonSet")
BLOCK = "spec.updateStrategy.rollingUpdate"


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def document(**spec: Any) -> dict[str, Any]:
    """A valid DaemonSet with these fields of the spec."""
    document = copy.deepcopy(daemonset(1).document)
    document["spec"] |= {**rolling(maxUnavailable=1), **spec}
    return document


def old_document(**spec: Any) -> dict[str, Any]:
    """A valid v1alpha1 DaemonSet with these fields of the spec."""
    return {**document(**spec), "apiVersion": V1ALPHA1.api_version}


def review(
    reviewer: Reviewer,
    doc: dict[str, Any] | None,
    *,
    old: dict[str, Any] | None = None,
    resource: Resource = DAEMON_SETS,
    operation: str = "",
    subresource: str = "",
) -> AdmissionAnswer:
    """The answer of a review. Fails if the review waits."""
    asked = reviewer(
        AdmissionRequest(
            uid="r",
            operation=operation or ("UPDATE" if old else "CREATE"),
            resource=resource,
            subresource=subresource,
            namespace="shop",
            name="web",
            object=doc,
            old_object=old,
        )
    )
    try:
        asked.__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as done:
        answer: AdmissionAnswer = done.value
        return answer
    raise AssertionError("the review waits")


REVIEW = build_validating_review(recorded({"matchLabels": {"app": "web"}}))
"""The validating review for an owner whose pods are managed by that selector."""


def causes(doc: dict[str, Any], **how: Any) -> tuple[Cause, ...]:
    answer = review(REVIEW, doc, **how)
    if answer.refusal is None:
        return ()
    assert (answer.refusal.code, answer.refusal.reason) == (422, "Invalid")
    assert answer.refusal.details is not None
    return answer.refusal.details.causes


def fields(doc: dict[str, Any], **how: Any) -> list[tuple[str, str]]:
    """Field and reason of every error."""
    return [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in causes(doc, **how)]


def defaulted(doc: dict[str, Any], **how: Any) -> dict[str, Any]:
    answer = review(mutate_daemonset, doc, **how)
    assert answer.refusal is None
    return doc if answer.object is None else answer.object


# Defaults


def test_missing_fields_get_defaults_and_the_template_is_not_changed() -> None:
    """daemonset case 1"""
    doc = document()
    del doc["spec"]["updateStrategy"]
    before = copy.deepcopy(doc)
    spec = defaulted(doc)["spec"]
    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"rollingUpdateType": "Standard", "maxUnavailable": 1, "maxSurge": 0},
    }
    assert (spec["burstReplicas"], spec["revisionHistoryLimit"]) == (250, 10)
    assert spec["template"] == before["spec"]["template"]
    assert doc == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rollingUpdateType": "Surging"}, {"maxSurge": 1, "maxUnavailable": 0}),
        ({"rollingUpdateType": "Surging", "maxSurge": 3}, {"maxSurge": 3, "maxUnavailable": 0}),
        ({"rollingUpdateType": ""}, {"maxSurge": 0, "maxUnavailable": 1}),
    ],
)
def test_the_surging_type_is_stored_as_standard(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """daemonset case 2"""
    result = defaulted(old_document(**rolling(**given)), resource=V1ALPHA1)
    assert result["spec"]["updateStrategy"]["rollingUpdate"] == {"rollingUpdateType": "Standard", **expected}


def test_only_v1alpha1_has_surging() -> None:
    """daemonset rules 16 and 18: in v1beta1 it is neither defaulted nor accepted"""
    block = {"rollingUpdateType": "Surging", "maxSurge": 1}
    assert defaulted(document(**rolling(**block)))["spec"]["updateStrategy"]["rollingUpdate"] == block
    assert fields(document(**rolling(**block))) == [(f"{BLOCK}.rollingUpdateType", "NotSupported")]
    # and in v1alpha1, maxUnavailable is refused with it
    assert fields(old_document(**rolling(**block)), resource=V1ALPHA1) == []
    block = {"rollingUpdateType": "Surging", "maxUnavailable": 1}
    assert fields(document(**rolling(**block))) == [(f"{BLOCK}.rollingUpdateType", "NotSupported")]
    assert fields(old_document(**rolling(maxUnavailable=1)), resource=V1ALPHA1) == []
    result = fields(old_document(**rolling(**block)), resource=V1ALPHA1)
    assert result == [(f"{BLOCK}.maxUnavailable", "Required")]


@pytest.mark.parametrize("given", [{"maxSurge": 0}, {"maxUnavailable": 3}])
def test_one_given_limit_leaves_the_other_absent(given: dict[str, int]) -> None:
    block = defaulted(document(**rolling(**given)))["spec"]["updateStrategy"]["rollingUpdate"]
    assert block == {"rollingUpdateType": "Standard", **given}


def test_on_delete_gets_no_block() -> None:
    result = defaulted(document(updateStrategy={"type": "OnDelete"}))
    assert result["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_an_object_with_all_defaults_is_allowed_unchanged() -> None:
    assert review(mutate_daemonset, defaulted(document())) == ALLOWED


def test_a_terminating_object_is_not_changed() -> None:
    doc = document()
    doc["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert review(mutate_daemonset, doc, old=doc) == ALLOWED


# Validation


def test_a_plain_one_is_allowed() -> None:
    """daemonset case 9: also without a restartPolicy"""
    assert fields(document()) == []


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"maxSurge": 0}, [("maxUnavailable", "Required")]),  # admission case 3
        ({"maxSurge": 1, "maxUnavailable": 1}, [("maxSurge", "Invalid")]),  # admission case 4
        (
            {"rollingUpdateType": "InPlaceIfPossible", "maxSurge": "20%"},
            [("maxSurge", "Required")],
        ),  # admission case 5
        ({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1}, [("maxSurge", "Required")]),
        ({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 0, "maxUnavailable": 1}, []),
        ({"maxUnavailable": "101%"}, [("maxUnavailable", "Invalid")]),  # admission case 7
        ({"maxUnavailable": "100%"}, []),  # admission case 7
        ({"maxUnavailable": -1}, [("maxUnavailable", "Invalid")]),
        ({"maxUnavailable": "5"}, [("maxUnavailable", "Invalid")]),
        ({"maxUnavailable": "5%"}, []),
        ({"maxUnavailable": "0%", "maxSurge": "1%"}, []),
        ({"maxUnavailable": "00%", "maxSurge": 0}, [("maxUnavailable", "Required")]),
        ({"maxUnavailable": "9" * 5000}, [("maxUnavailable", "Invalid")]),
        ({"maxUnavailable": "٥"}, [("maxUnavailable", "Invalid"), ("maxUnavailable", "Required")]),
        ({"maxSurge": "101%"}, [("maxSurge", "Invalid")]),
        ({"maxSurge": 1, "maxUnavailable": "-5%"}, [("maxUnavailable", "Invalid")]),
        ({"maxSurge": "abc", "maxUnavailable": 1}, [("maxSurge", "Invalid")]),
        ({"maxUnavailable": 1, "rollingUpdateType": "Fast"}, [("rollingUpdateType", "NotSupported")]),
        ({"maxUnavailable": 1, "partition": -1}, [("partition", "Invalid")]),  # admission case 8
        ({"maxUnavailable": 1, "partition": "abc"}, [("partition", "Invalid")]),  # admission case 8
        ({"maxUnavailable": 1, "partition": "120%"}, [("partition", "Invalid")]),
        ({"maxUnavailable": 1, "partition": 1000}, []),  # admission case 8
        (
            {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            [("selector", "Invalid")],
        ),
    ],
)
def test_a_rolling_update_must_be_possible(block: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """daemonset cases 3 to 5, 7, 8; rules 11 to 19 and 22"""
    result = fields(document(**rolling(**block)))
    assert result == [(f"{BLOCK}.{field}", reason) for field, reason in expected]


def test_the_rolling_update_block_is_not_validated_under_on_delete() -> None:
    """daemonset case 6"""
    block = {"maxUnavailable": 0, "maxSurge": 0, "partition": "abc"}
    assert fields(document(updateStrategy={"type": "OnDelete", "rollingUpdate": block})) == []


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"selector": {}}, "spec.selector", "Invalid"),  # admission case 10
        ({"selector": None}, "spec.selector", "Required"),
        ({"selector": {"matchLabels": {"app": "x"}}}, "spec.template.metadata.labels", "Invalid"),
        ({"template": None}, "spec.template", "Required"),
        (
            {"template": template(restartPolicy="OnFailure")},  # admission case 9
            "spec.template.spec.restartPolicy",
            "NotSupported",
        ),
        (
            {"template": template(activeDeadlineSeconds=5)},
            "spec.template.spec.activeDeadlineSeconds",
            "Forbidden",
        ),
        ({"minReadySeconds": -1}, "spec.minReadySeconds", "Invalid"),
        ({"revisionHistoryLimit": -1}, "spec.revisionHistoryLimit", "Invalid"),
        ({"updateStrategy": {"type": "Sometimes"}}, "spec.updateStrategy", "NotSupported"),
        ({"updateStrategy": {"type": "RollingUpdate"}}, BLOCK, "Required"),
        (
            {"lifecycle": {"inPlaceUpdate": {}}},
            "spec.lifecycle.inPlaceUpdate",
            "Forbidden",
        ),  # admission case 11
        ({"burstReplicas": -1}, "spec.burstReplicas", "Invalid"),
        ({"burstReplicas": "many"}, "spec.burstReplicas", "Invalid"),
        ({"burstReplicas": "101%"}, "spec.burstReplicas", "Invalid"),
    ],
)
def test_every_other_rule_names_its_field(spec: dict[str, Any], field: str, reason: str) -> None:
    """daemonset cases 9 to 11; rules 1 to 10, 20, 21; lifecycle case 49: on creation and on update"""
    assert (field, reason) in fields(document(**spec))
    assert (field, reason) in fields(document(**spec), old=document())


def test_all_errors_are_reported_together() -> None:
    doc = document(minReadySeconds=-1, burstReplicas="x", **rolling(maxUnavailable="x", partition="x"))
    doc["metadata"]["name"] = "Web"
    assert [field for field, _ in fields(doc)] == [
        "metadata.name",
        "spec.minReadySeconds",
        f"{BLOCK}.maxUnavailable",
        f"{BLOCK}.maxUnavailable",
        f"{BLOCK}.partition",
        "spec.burstReplicas",
    ]


def test_an_empty_document_reports_its_missing_fields() -> None:
    missing = [
        ("metadata.name", "Required"),
        ("spec.selector", "Required"),
        ("spec.template", "Required"),
        ("spec.updateStrategy", "NotSupported"),
    ]
    assert fields({}) == missing
    assert fields({"metadata": None, "spec": None}) == missing
    assert fields({"spec": {}}, old={"spec": None, "metadata": {"name": "web"}}) == missing[:1]


@pytest.mark.parametrize("tolerated", [{"lifecycle": {"preNormal": {}}}, {"revisionHistoryLimit": 0}])
def test_fields_without_an_effect_are_accepted(tolerated: dict[str, Any]) -> None:
    assert fields(document(**tolerated)) == []


# Changes


def test_the_selector_cannot_be_changed() -> None:
    """daemonset case 12"""
    new = document(selector={"matchLabels": {"app": "web", "tier": "x"}})
    new["spec"]["template"]["metadata"]["labels"] = {"app": "web", "tier": "x"}
    assert fields(new, old=document()) == [("spec", "Forbidden")]


def test_annotations_of_a_daemonset_may_change() -> None:
    """daemonset case 13"""
    new = document()
    new["metadata"]["annotations"] = {"note": "x"}
    assert fields(new, old=document()) == []


def test_the_template_labels_must_still_match_the_selector() -> None:
    """daemonset case 14"""
    new = document(template={**template(), "metadata": {"labels": {"app": "x"}}})
    assert fields(new, old=document()) == [("spec.template.metadata.labels", "Invalid")]


@pytest.mark.parametrize(
    "change",
    [
        {"template": template("nginx:2")},
        rolling(maxSurge="30%"),
        {"lifecycle": {"preDelete": {"finalizersHandler": ["x/y"]}}},
        {"burstReplicas": "20%"},
        {"minReadySeconds": 9},
        {"revisionHistoryLimit": 3},
        {"scaleStrategy": {"partitionedScaling": True}},
        rolling(maxUnavailable=1, selector={"matchLabels": {"canary": "1"}}),
    ],
)
def test_all_other_fields_may_change(change: dict[str, Any]) -> None:
    assert fields(document(**change), old=document()) == []
    assert fields(document(), old=document(**change)) == []


def test_a_stored_bad_value_does_not_prevent_another_change() -> None:
    """rules 11, 21 and 22 check only changed values"""
    bad_selector = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    bad = {"burstReplicas": -1, **rolling(maxUnavailable="x", maxSurge=1, selector=bad_selector)}
    assert fields(document(minReadySeconds=3, **bad), old=document(**bad)) == []


@pytest.mark.parametrize("amount", [-1, "101%"])
def test_an_amount_that_the_original_refuses_each_time_is_refused_each_time(amount: int | str) -> None:
    """rules 11 and 12"""
    bad = rolling(maxUnavailable=amount)
    result = fields(document(minReadySeconds=3, **bad), old=document(**bad))
    assert result == [(f"{BLOCK}.maxUnavailable", "Invalid")]


def test_an_unchanged_spec_is_not_validated() -> None:
    """daemonset case 68: finalizers can be removed from a set whose selector was changed past admission"""
    stored = document(selector={"matchLabels": {"app": "other"}})
    stored["metadata"]["finalizers"] = ["foregroundDeletion"]
    new = copy.deepcopy(stored)
    new["metadata"]["finalizers"] = []
    assert fields(new, old=stored) == []


def test_metadata_is_validated_even_with_an_unchanged_spec() -> None:
    new = document()
    new["metadata"]["annotations"] = {"no key": "x"}
    assert fields(new, old=document()) == [("metadata.annotations", "Invalid")]


def mismatched() -> dict[str, Any]:
    """A stored object whose selector was changed past admission, with the controller's condition."""
    stored = document(selector={"matchLabels": {"app": "web", "tier": "x"}})
    stored["status"] = {"conditions": [{"type": SELECTOR_MISMATCH, "status": "True", "message": "words"}]}
    return stored


def test_the_managed_selector_may_be_restored() -> None:
    """daemonset case 66"""
    assert fields(document(), old=mismatched()) == []


def test_a_third_selector_is_refused() -> None:
    """daemonset case 67"""
    third = document(selector={"matchLabels": {"app": "third"}})
    third["spec"]["template"]["metadata"]["labels"] = {"app": "third"}
    assert fields(third, old=mismatched()) == [("spec", "Forbidden")]


# Requests that are reviewed


@pytest.mark.parametrize("reviewer", [mutate_daemonset, validate_daemonset])
def test_an_unreadable_object_is_a_bad_request(reviewer: Reviewer) -> None:
    for doc in (document(minReadySeconds="ten"), {"metadata": {}, "spec": "x"}, None):
        answer = review(reviewer, doc)
        assert answer.refusal is not None
        assert (answer.refusal.code, answer.refusal.reason) == (400, "BadRequest")


@pytest.mark.parametrize("reviewer", [mutate_daemonset, validate_daemonset])
def test_another_version_is_a_bad_request(reviewer: Reviewer) -> None:
    other = Resource("apps.kruise.io", "v9", "daemonsets", "DaemonSet")
    answer = review(reviewer, document(), resource=other)
    assert answer.refusal is not None
    assert answer.refusal.code == 400


@pytest.mark.parametrize("reviewer", [mutate_daemonset, validate_daemonset])
def test_deletions_and_subresources_pass(reviewer: Reviewer) -> None:
    assert review(reviewer, None, old=document(), operation="DELETE") == ALLOWED
    bad = document(minReadySeconds=-1)
    assert review(reviewer, bad, old=document(), subresource="status") == ALLOWED
