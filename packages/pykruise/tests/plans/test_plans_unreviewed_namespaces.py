"""Namespaces whose pods the webhooks do not review."""

from collections.abc import Mapping

import pytest

from pykruise.plans.unreviewed_namespaces import Unreviewed, find_unreviewed


@pytest.mark.parametrize(
    ("namespace", "labels", "expected"),
    [
        ("kube-system", {}, Unreviewed("kube-system", is_by_name=True)),
        ("kruise", {"control-plane": "openkruise"}, Unreviewed("kruise", is_by_name=True)),
        ("shop", {"control-plane": "openkruise"}, Unreviewed("shop", is_by_name=False)),
        ("shop", {"control-plane": "other"}, None),
        ("shop", {}, None),
    ],
)
def test_pods_of_excluded_namespaces_are_not_reviewed(
    namespace: str, labels: Mapping[str, str], expected: Unreviewed | None
) -> None:
    assert find_unreviewed(namespace, labels, own_namespace="kruise") == expected
