"""Owners of pods."""

from typing import Any

import pytest

from pykruise.pods.view.owners import build_pod_reference, is_of_kruise_workload
from support.cloneset_builder import cloneset


def owned_by(api_version: str, **fields: Any) -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": "CloneSet", "name": "web", "uid": "u", "controller": True}
    return {"metadata": {"ownerReferences": [{**owner, **fields}]}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (owned_by("apps.kruise.io/v1beta1"), True),
        (owned_by("apps.kruise.io/v1alpha1"), True),
        (owned_by("apps.kruise.io/v1beta1", controller=False), False),
        (owned_by("apps/v1"), False),
        (owned_by("policy.kruise.io/v1alpha1"), False),
        (owned_by("apps.kruise.io"), False),
        ({"metadata": {}}, False),
    ],
)
def test_a_pod_of_a_workload_of_this_project_is_known_by_its_controllers_group(
    pod: dict[str, Any], expected: bool
) -> None:
    assert is_of_kruise_workload(pod) is expected


def test_dependents_of_a_pod_get_a_reference_without_controller() -> None:
    assert build_pod_reference(cloneset(1).pod_views()[0]) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web-a",
        "uid": "uid-a",
    }
