"""Patches of subsets, tried on the current pod template of the workload."""

from typing import Any

import pytest

from pykruise.kinds.workloadspread.patch_validation import patch_errors, template_of
from pykruise.kube.documents import Document
from support.spreads import CLONE_SET, DEPLOYMENT, Owner, spread, subset, view, workload

ANNOTATED = {"metadata": {"annotations": {"zone": "a"}}}
MAIN = {"name": "main", "image": "nginx"}
MOUNTS = {**MAIN, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


def target(*containers: Document, owner: Owner = CLONE_SET, claims: Any = None, **pod: Any) -> Document:
    template = {"spec": {"containers": list(containers), **pod}}
    return workload(owner, template=template, volumeClaimTemplates=claims)


def wrong(patch: Document | None, value: Document | None) -> list[str]:
    """Fields with errors; their paths begin with the patch."""
    item = view(spread(subset("a", patch=patch))).subsets[0]
    return [error.field for error in patch_errors(item, value, path="patch")]


def test_nothing_is_checked_without_a_workload_of_a_kind_whose_template_is_known() -> None:
    odd = {"spec": {"containers": [{"name": "extra"}]}}
    assert wrong(odd, target(MAIN)) == ["patch.containers[0].image"]
    assert wrong(odd, None) == []
    assert wrong(odd, target(MAIN, owner=("argoproj.io/v1alpha1", "Rollout", "web"))) == []


@pytest.mark.parametrize(
    "template", [None, {}, {"spec": None}, {"spec": {"volumes": None}}, {"metadata": {"labels": {"a": "b"}}}]
)
def test_a_patch_on_a_template_without_containers_reports_the_missing_containers(template: Any) -> None:
    result = workload(DEPLOYMENT, template=template)
    assert wrong(ANNOTATED, result) == ["patch.containers"]
    assert wrong(ANNOTATED, {**result, "spec": None}) == ["patch.containers"]


def test_a_template_of_another_shape_is_not_tried() -> None:
    """The workload's own review refuses it; an API server stores it in a custom resource"""
    assert wrong(ANNOTATED, workload(CLONE_SET, template={"spec": {"containers": 3}})) == []


def test_a_patch_that_takes_the_spec_away_leaves_no_pod() -> None:
    assert wrong({"spec": None}, target(MAIN)) == ["patch.containers"]


def test_tolerations_of_a_patch_are_checked() -> None:
    patch = {"spec": {"tolerations": [{"key": "a", "operator": "Like"}]}}
    assert wrong(patch, target(MAIN)) == ["patch.tolerations[0].operator"]
    assert wrong({"spec": {"tolerations": None}}, target(MAIN)) == []


def test_claims_are_volumes_beside_those_of_the_template() -> None:
    # given
    claims = [{"metadata": {"name": "data"}}, {"metadata": None}]
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]
    # when
    result = template_of(target(MOUNTS, claims=claims, volumes=volumes))
    # then the claim replaces the volume of the same name
    assert result["spec"]["volumes"] == [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "", "persistentVolumeClaim": {"claimName": ""}},
    ]


def test_volumes_of_a_template_without_claims_stay() -> None:
    for claims in (None, []):
        assert (
            wrong(ANNOTATED, target(MOUNTS, claims=claims, volumes=[{"name": "data", "emptyDir": {}}])) == []
        )
        assert wrong(ANNOTATED, target(MOUNTS, claims=claims)) == ["patch.containers[0].volumeMounts[0].name"]
