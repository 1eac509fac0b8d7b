"""Annotations of pods that a SidecarSet may patch, and errors of its entries."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kube.documents import Document
from support.sidecarsets import container, problems, sidecarset

OOM = {"annotations": {"oom-score": "1"}}
FIELD = "spec.patchPodMetadata"
MOST_BYTES = 256 * 1024


def annotating(*entries: Document, **spec: Any) -> Document:
    return sidecarset("s", container("a"), patchPodMetadata=list(entries), **spec)


def errors(doc: Document, **facts: Any) -> list[tuple[str, str]]:
    """Reason and field of every error, of a document with its defaults."""
    causes = problems(add_defaults(doc), **facts)
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


def whitelist(*rules: Document) -> str:
    return orjson.dumps({"rules": list(rules)}).decode()


def test_the_gate_decides_without_a_whitelist() -> None:
    """sidecarset case 17"""
    assert errors(annotating(OOM)) == [("Required", FIELD)]
    assert errors(annotating(OOM), allows_any_annotation=True) == []
    assert errors(annotating()) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"rules":[]}',
        '{"rules":null}',
        "{}",
        '{"rules":[{"allowedAnnotationKeyExprs":null}]}',
        '{"rules":[{"allowedAnnotationKeyExprs":[]}]}',
    ],
)
def test_a_whitelist_without_rules_allows_nothing(text: str) -> None:
    """section 5.5, step 4"""
    assert errors(annotating(OOM), whitelist=text) == [("Required", FIELD)]
    assert errors(annotating(OOM), whitelist=text, allows_any_annotation=True) == []


def test_a_rule_is_for_sidecarsets_with_its_labels_even_with_the_gate() -> None:
    """sidecarset case 18"""
    text = whitelist(
        {"selector": {"matchLabels": {"sidecar": "log"}}, "allowedAnnotationKeyExprs": ["^oom-score$"]},
        {"selector": {}, "allowedAnnotationKeyExprs": ["^other$"]},
    )
    labelled = annotating(OOM, metadata={"labels": {"sidecar": "log"}})
    assert errors(annotating(OOM), whitelist=text, allows_any_annotation=True) == [("Required", FIELD)]
    assert errors(labelled, whitelist=text) == []


@pytest.mark.parametrize("written", [str, str.upper, str.lower])
def test_the_members_of_a_whitelist_count_in_upper_and_lower_case(written: Callable[[str], str]) -> None:
    """section 5.5"""
    # given
    expression = {written("key"): "tier", written("operator"): "In", written("values"): ["Gold"]}
    selector = {written("matchLabels"): {"App": "x"}, written("matchExpressions"): [expression]}
    rule = {written("selector"): selector, written("allowedAnnotationKeyExprs"): ["^oom-score$"]}
    text = orjson.dumps({written("rules"): [rule]}).decode()
    # then
    labels = {"App": "x", "tier": "Gold"}
    assert errors(annotating(OOM, metadata={"labels": labels}), whitelist=text) == []
    assert errors(annotating(OOM, metadata={"labels": {**labels, "tier": "gold"}}), whitelist=text) != []
    assert errors(annotating(OOM, metadata={"labels": {"app": "x", "tier": "Gold"}}), whitelist=text) != []


def test_each_key_must_be_allowed_and_is_named_once() -> None:
    # given
    text = whitelist({"allowedAnnotationKeyExprs": ["^oom", "^log$"]})
    entries = ({"annotations": {"a": "1", "log": "1"}}, {"annotations": {"oom-score": "1", "b": "1"}})
    # when
    causes = problems(add_defaults(annotating(*entries)), whitelist=text)
    # then
    where = "ConfigMap kruise-configuration, key SidecarSet_PatchPodMetadata_WhiteList"
    assert [cause.message for cause in causes] == [
        f"Required value: annotation {key} is not allowed by the whitelist ({where})" for key in ("a", "b")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        '{"rules":1}',
        '{"rules":[1]}',
        '{"rules":[{"selector":1}]}',
        '{"rules":[{"selector":{"matchExpressions":1}}]}',
        "[]",
        '{"rules":[{"allowedAnnotationKeyExprs":["["]}]}',
        '{"rules":[{"selector":{"matchExpressions":[{"key":"a","operator":"Nope"}]}}]}',
    ],
)
def test_a_whitelist_that_cannot_be_read_allows_nothing(text: str) -> None:
    assert errors(annotating(OOM), whitelist=text, allows_any_annotation=True) == [("Required", FIELD)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"annotations": {}}, [("Required", "annotations")]),
        ({"annotations": None}, [("Required", "annotations")]),
        ({"annotations": {"not a key": "x"}}, [("Invalid", "annotations")]),
        ({"annotations": {"Example.com/Key": "x"}}, []),
        ({**OOM, "patchPolicy": "Guess"}, [("NotSupported", "patchPolicy")]),
        ({**OOM, "patchPolicy": "Overwrite"}, []),
        # all keys and values together, in bytes
        ({"annotations": {"a": "x" * (MOST_BYTES - 4), "b": "é"}}, []),
        ({"annotations": {"a": "x" * (MOST_BYTES - 3), "b": "é"}}, [("Invalid", "annotations")]),
    ],
)
def test_an_entry_has_annotations_that_an_object_may_have_and_a_policy(
    entry: Document, expected: list[tuple[str, str]]
) -> None:
    """section 5.5"""
    result = errors(annotating(OOM | {"annotations": {"first": "1"}}, entry), allows_any_annotation=True)
    assert result == [(reason, f"{FIELD}[1].{field}") for reason, field in expected]


def test_each_annotation_is_patched_once() -> None:
    """sidecarset case 19"""
    result = errors(annotating(OOM, OOM), allows_any_annotation=True)
    assert result == [("Required", f"{FIELD}[1].annotations")]


@pytest.mark.parametrize("policy", [{}, {"patchPolicy": ""}])
def test_a_patch_policy_is_required_without_defaults(policy: Document) -> None:
    """section 5.5"""
    causes = problems(annotating({**OOM, **policy}), allows_any_annotation=True)
    assert ("FieldValueRequired", f"{FIELD}[0].patchPolicy") in [
        (cause.reason, cause.field) for cause in causes
    ]
