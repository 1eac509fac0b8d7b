"""WorkloadSpreads in caches; the replicas of a workload, and the version of its new pods."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.workloadspread.snapshot import find_latest_version
from pykruise.kinds.workloadspread.targets import PathError, read_value_at, replicas_of
from pykruise.kinds.workloadspread.versions import parse_versioned_kinds, version_of
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS
from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import DEPLOYMENT, REPLICA_SET, TargetView, project_target
from support.spreads import STATEFUL_SET, spread, subset, view

CLONE_SET = GroupKind("apps.kruise.io", "CloneSet")
JOB = GroupKind("batch", "Job")


def test_an_unreadable_workloadspread_has_no_target_and_no_subsets() -> None:
    result = view({**spread(subset("a")), "spec": {"targetRef": 3}})
    assert result.problem
    assert (result.target, result.subsets, result.replicas_paths, result.reschedule_after_s) == (
        None,
        [],
        [],
        0,
    )
    assert (result.is_plain, result.goes_by_ordinal, result.find_subset("a"), result.list_entries("v")) == (
        *(False, False),
        *(None, []),
    )


def test_one_subset_without_a_limit_needs_no_counting() -> None:
    for subsets, is_plain in (
        ([subset("a")], True),
        ([subset("a", 5)], False),
        ([subset("a"), subset("b")], False),
        ([subset("a", 5), subset("b")], False),
        ([], False),
    ):
        assert view(spread(*subsets)).is_plain is is_plain


def test_pods_of_statefulsets_are_assigned_by_ordinal() -> None:
    assert view(spread(subset("a"), target=STATEFUL_SET)).goes_by_ordinal
    assert not view(spread(subset("a"))).goes_by_ordinal


@pytest.mark.parametrize(
    ("target_filter", "paths"),
    [(None, []), ({}, []), ({"replicasPathList": None}, []), ({"replicasPathList": ["spec.x"]}, ["spec.x"])],
)
def test_a_filter_may_have_paths_of_the_replicas(target_filter: Any, paths: list[str]) -> None:
    assert view(spread(subset("a"), targetFilter=target_filter)).replicas_paths == paths


@pytest.mark.parametrize(
    ("strategy", "seconds"),
    [
        (None, 0),
        ({"type": "Adaptive"}, 0),
        ({"type": "Adaptive", "adaptive": {}}, 0),
        ({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 1}}, 1),
        ({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": -5}}, 0),
        ({"type": "Fixed", "adaptive": {"rescheduleCriticalSeconds": 30}}, 0),
        ({"adaptive": {"rescheduleCriticalSeconds": 30}}, 0),
    ],
)
def test_unschedulable_pods_are_rescheduled_only_under_the_adaptive_strategy(
    strategy: Any, seconds: int
) -> None:
    assert view(spread(subset("a"), scheduleStrategy=strategy)).reschedule_after_s == seconds


def test_a_workload_spread_is_indexed_by_its_target_unless_terminating_or_without_one() -> None:
    def keys(document: Document) -> Any:
        return SPREAD_VIEWS.indexes["target"](view(document))

    going = spread(subset("a"))
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert keys(spread(subset("a"))) == (("shop", CLONE_SET, "web"),)
    assert keys(going) == ()
    assert keys(spread(subset("a"), target=("apps/v1", "Deployment", ""))) == ()


# ── replicas of a workload ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        (CLONE_SET, {"replicas": 3, "parallelism": 9}, 3),
        (CLONE_SET, {"replicas": 0}, 0),
        (GroupKind("", "ReplicationController"), {"replicas": 3}, 3),
        (JOB, {"parallelism": 3, "replicas": 9}, 3),
        (GroupKind("batch.volcano.sh", "Job"), {"parallelism": 3, "replicas": 9}, None),
        *((kind, spec, 1) for kind in (CLONE_SET, JOB) for spec in (None, {})),
        *((CLONE_SET, {"replicas": odd}, 1) for odd in (None, "3", False)),
        (GroupKind("argoproj.io", "Rollout"), {"replicas": 3}, None),
    ],
)
def test_the_replicas_of_a_workload_are_those_of_its_spec_or_one(
    kind: GroupKind, spec: Any, replicas: int | None
) -> None:
    assert replicas_of({"spec": spec}, kind) == replicas


def test_replica_paths_are_added_up_and_precede_the_path_of_the_white_list() -> None:
    doc = {"spec": {"replicas": 9, "a": 1, "b": 2}}
    assert replicas_of(doc, CLONE_SET, paths=["spec.a", "spec.b"], listed_path="spec.none") == 3
    assert replicas_of(doc, CLONE_SET, listed_path="spec.b") == 2


@pytest.mark.parametrize(
    "path",
    [
        "spec.is",
        "spec.number.0",
        "spec.text.0",
        "spec.groups.x",
        "spec.groups.\u0661",
        "spec.groups.0000000001",
        "spec.groups",
        "spec",
        ".spec",
    ],
)
def test_a_path_that_ends_at_no_whole_number_leads_nowhere(path: str) -> None:
    with pytest.raises(PathError):
        read_value_at({"spec": {"is": True, "number": 4, "text": "4", "groups": [3, 4]}}, path)


def test_an_index_may_have_nine_digits() -> None:
    assert read_value_at({"spec": [3, 4]}, "spec.000000001") == 4


# ── versions ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        ([" Deployment ", "", " "], {"deployment", "replicaset"}),
        (["CloneSet"], {"cloneset"}),
        ([], set()),
    ],
)
def test_kinds_with_versions_are_those_of_the_flag(names: list[str], kinds: set[str]) -> None:
    assert parse_versioned_kinds(names) == kinds


def test_a_pod_without_a_controller_has_no_version() -> None:
    labels = {"pod-template-hash": "h1"}
    assert (
        version_of(labels, owner_kind="", versioned=parse_versioned_kinds(["", "deployment"]))
        == "versionIgnored"
    )
    assert (
        version_of(labels, owner_kind="ReplicaSet", versioned=parse_versioned_kinds(["deployment"])) == "h1"
    )


def target(**fields: Any) -> TargetView:
    target = project_target(orjson.dumps({"metadata": {"name": "web"}}))
    return msgspec.structs.replace(target, **fields)


ALL = parse_versioned_kinds(["deployment", "cloneset"])


@pytest.mark.parametrize(
    ("kind", "value", "version"),
    [
        (REPLICA_SET, target(template_hash="h1"), "h1"),
        (REPLICA_SET, target(), "versionIgnored"),
        (REPLICA_SET, None, ""),
        (CLONE_SET, target(update_revision="web-5d"), "5d"),
        (CLONE_SET, target(update_revision=""), None),
        (CLONE_SET, target(update_revision="web-5d", generation=2, observed_generation=2), "5d"),
        (CLONE_SET, target(update_revision="web-5d", generation=2, observed_generation=1), None),
        (GroupKind("apps", "StatefulSet"), target(update_revision="web-5d"), "versionIgnored"),
        (DEPLOYMENT, target(template_digest="d"), None),
    ],
)
def test_the_newest_version_is_that_of_the_template(
    kind: GroupKind, value: TargetView | None, version: str | None
) -> None:
    assert find_latest_version(kind, value, versioned=ALL) == version


def test_the_newest_version_of_a_deployment_is_that_of_its_replica_set_that_stays() -> None:
    old = target(template_digest="old", template_hash="h1")
    going = target(template_digest="new", template_hash="h2", is_deleting=True)
    new = target(template_digest="new", template_hash="h3")
    deployment = target(template_digest="new")
    assert find_latest_version(DEPLOYMENT, deployment, replica_sets=[old, going, new], versioned=ALL) == "h3"
    assert find_latest_version(DEPLOYMENT, deployment, replica_sets=[old, going], versioned=ALL) is None
