"""Claim templates that admission accepts while claims grow with them. Case numbers are the specification's."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.statefulset.admission import build_validating_review
from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus, ServerUnavailableError
from support.statefulset_builder import claim_template
from support.statefulset_reviews import document, fields


def growing(*templates: Document) -> Document:
    return document(
        volumeClaimTemplates=list(templates) or [claim_template()],
        volumeClaimUpdateStrategy={"type": "OnPodRollingUpdate"},
    )


def storage_class(
    name: str, *, expandable: bool | None, created: str = "", default: bool = False
) -> Document:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    result: Document = {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}
    return result if expandable is None else {**result, "allowVolumeExpansion": expandable}


def claim_fields(new: Document, old: Document, *classes: Document, fails: bool = False) -> list[str]:
    async def look_up() -> Sequence[Document]:
        if fails:
            raise ServerUnavailableError(ErrorStatus(code=503, message="not now"))
        return classes

    return fields(new, old=old, reviewer=build_validating_review(resizes_claims=True, classes=look_up))


def test_claim_templates_keep_their_names_number_and_shape_while_claims_follow_them() -> None:
    """statefulset case 74"""
    old = growing(claim_template())
    path = "spec.volumeClaimTemplates"
    assert claim_fields(growing(claim_template("logs")), old) == [f"{path}[logs].name"]
    assert claim_fields(growing(claim_template(), claim_template("logs")), old) == [path]
    modes = growing(claim_template(accessModes=["ReadWriteMany"]))
    assert claim_fields(modes, old) == [f"{path}[data]"]
    fast, slow = (growing(claim_template(storageClassName=name)) for name in ("fast", "slow"))
    assert claim_fields(slow, fast) == [f"{path}[data]"]
    assert claim_fields(fast, old) == []


def test_claims_need_not_be_able_to_follow_while_the_gate_is_off_or_in_a_new_set() -> None:
    """statefulset case 74"""
    new, old = growing(claim_template("logs")), growing(claim_template())
    assert fields(new, old=old, reviewer=build_validating_review(resizes_claims=False)) == []
    assert fields(new, reviewer=build_validating_review(resizes_claims=True)) == []


@pytest.mark.parametrize("strategy", [None, {"type": "OnDelete"}])
def test_claim_templates_may_change_freely_under_on_delete(strategy: dict[str, Any] | None) -> None:
    """statefulset case 74"""
    old = document(volumeClaimTemplates=[claim_template()])
    new = document(
        volumeClaimTemplates=[claim_template("logs", storageClassName="x")],
        volumeClaimUpdateStrategy=strategy,
    )
    assert claim_fields(new, old) == []


def test_a_set_without_claims_may_be_to_let_them_grow() -> None:
    without = document(volumeClaimUpdateStrategy={"type": "OnPodRollingUpdate"})
    assert claim_fields(without, without) == []
    assert claim_fields(growing(), without) == claim_fields(without, growing())
    assert claim_fields(growing(), without) == ["spec.volumeClaimTemplates"]


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}])
def test_a_claim_template_may_be_empty(spec: Document) -> None:
    bare = growing({"metadata": {"name": "data"}, **spec})
    assert claim_fields(bare, bare) == []


@pytest.mark.parametrize(("expandable", "accepted"), [(True, True), (None, True), (False, False)])
@pytest.mark.parametrize("size", ["2Gi", "500Mi"])
def test_another_size_takes_a_class_that_does_not_rule_it_out(
    size: str, expandable: bool | None, accepted: bool
) -> None:
    """statefulset case 71 and 72: a smaller size is accepted too; existing claims stay as they are"""
    old = growing(claim_template(storageClassName="fast"))
    new = growing(claim_template(size=size, storageClassName="fast"))
    expected = [] if accepted else ["spec.volumeClaimTemplates[data].spec.resources.requests.storage"]
    assert claim_fields(new, old, storage_class("fast", expandable=expandable)) == expected


def test_the_newest_default_class_decides_for_a_claim_without_a_class() -> None:
    old, new = growing(), growing(claim_template(size="2Gi"))
    classes = [
        storage_class("older", expandable=True, created="2026-01-01T00:00:00Z", default=True),
        storage_class("newer", expandable=False, created="2026-01-02T00:00:00Z", default=True),
        storage_class("newest", expandable=True, created="2026-01-03T00:00:00Z"),
    ]
    assert len(claim_fields(new, old, *classes)) == 1
    del classes[0]["metadata"]["creationTimestamp"]
    assert len(claim_fields(new, old, *classes)) == 1
    assert claim_fields(new, old, *classes[:1]) == []
    assert claim_fields(new, old) == []


def test_a_claim_without_any_class_keeps_its_size() -> None:
    """No class has an empty name, and the default class does not apply to such a claim."""
    old = growing(claim_template(storageClassName=""))
    new = growing(claim_template(size="2Gi", storageClassName=""))
    classes = [storage_class("fast", expandable=True, default=True)]
    assert claim_fields(new, old, *classes) == ["spec.volumeClaimTemplates[data].spec.storageClassName"]
    assert claim_fields(old, old, *classes) == []


def test_a_missing_or_unreadable_storage_class_is_an_error() -> None:
    old = growing(claim_template(storageClassName="fast"))
    new = growing(claim_template(size="2Gi", storageClassName="fast"))
    assert claim_fields(new, old) == ["spec.volumeClaimTemplates[data].spec.storageClassName"]
    assert claim_fields(new, old, fails=True) == ["spec.volumeClaimTemplates"]
    # but no class is read while claims keep their size, or without a reader
    assert claim_fields(old, old, fails=True) == []
    assert fields(new, old=old, reviewer=build_validating_review(resizes_claims=True, classes=None)) == []
