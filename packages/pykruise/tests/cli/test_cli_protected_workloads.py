"""Workloads with a label that protects their UnitedDeployment from deletion."""

from typing import Any

import pytest

from pykruise.admission.protection import LABEL
from pykruise.cli.insight.united.protected_workloads import find_protected_workloads
from pykruise.kinds.gates import Gates
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET, SUBSET_LABEL, SubsetWorkload
from pykruise.manager.settings import ManagerSettings

DELETED = {
    "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]},
}


def make_workload(name: str, **fields: Any) -> SubsetWorkload:
    given = {"labels": {LABEL: "Always"}, **fields}
    return SubsetWorkload(
        template=CLONE_SET, namespace="shop", name=name, uid=name, resource_version=1, **given
    )


def test_the_remedy_removes_the_label_from_all_protected_workloads() -> None:
    workloads = [make_workload("b"), make_workload("a"), make_workload("c", labels={})]

    (wait,) = find_protected_workloads(DELETED, workloads, None)

    assert wait.words.startswith(f"label {LABEL}=Always protects CloneSets a, b: ")
    assert f"(kubectl label clonesets.apps.kruise.io -n shop a b {LABEL}-)" in wait.remedy


@pytest.mark.parametrize(
    ("document", "workload"),
    [
        pytest.param({"metadata": {}}, make_workload("a"), id="the UnitedDeployment stays"),
        pytest.param(DELETED, make_workload("a", is_deleting=True), id="the workload is being deleted"),
        pytest.param(
            DELETED,
            make_workload("a", labels={LABEL: "Cascading"}, replicas=0),
            id="the workload has no pods",
        ),
    ],
)
def test_other_workloads_are_not_reported(document: dict[str, Any], workload: SubsetWorkload) -> None:
    assert list(find_protected_workloads(document, [workload], None)) == []


@pytest.mark.parametrize("is_on", [True, False])
def test_the_label_has_no_effect_without_the_feature_gate(is_on: bool) -> None:
    settings = ManagerSettings(gates=Gates.of(ResourcesDeletionProtection=is_on), is_known=True)

    waits = list(find_protected_workloads(DELETED, [make_workload("a")], settings))

    assert bool(waits) is is_on


def test_protected_workloads_of_subsets_that_the_spec_no_longer_has_are_reported() -> None:
    document = {
        "metadata": {"name": "web"},
        "spec": {"topology": {"subsets": [{"name": "one"}]}},
    }
    workloads = [
        make_workload(name, labels={LABEL: "Always", SUBSET_LABEL: subset})
        for name, subset in (("a", "one"), ("b", "two"))
    ]

    (wait,) = find_protected_workloads(document, workloads, None)

    assert "protects CloneSet b: " in wait.words
    assert wait.remedy.endswith("; or add their subsets to spec.topology.subsets again")
