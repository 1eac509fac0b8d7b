"""Plans of a ResourceDistribution: its writes and its status. Cases: specification of admission, 8 and 11."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.resourcedistribution.plan import READ_AGAIN_S, plan_distribution
from pykruise.kinds.resourcedistribution.snapshot import DistributionSnapshot, FailedWrite
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.resourcedistribution.view import (
    CopyView,
    DistributionView,
    content_of,
    project_copy,
    project_distribution,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.patches.types import PatchType
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import NamespaceView
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan

NOW = parse_time("2026-01-31T12:00:00Z")
TOKEN: Document = {"token": "MQ=="}


def secret(**fields: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "data": TOKEN, **fields}


def named(*names: str) -> Document:
    return {"list": [{"name": name} for name in names]}


def distribution(
    resource: Document | None = None, *, status: Document | None = None, **targets: Any
) -> DistributionView:
    metadata = {"name": "pull", "uid": "d1", "resourceVersion": "7", "generation": 3}
    spec = {"resource": resource or secret(), "targets": targets or {"allNamespaces": True}}
    return project_distribution(encode({"metadata": metadata, "spec": spec, "status": status or {}}))


def copy(
    namespace: str, resource: Document | None = None, *, owner: str = "d1", metadata_only: bool = False
) -> CopyView:
    reference = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ResourceDistribution",
        "name": "pull",
        "uid": owner,
        "controller": True,
    }
    result = resource or secret()
    metadata = {
        "name": "pull",
        "namespace": namespace,
        "uid": f"c-{namespace}",
        "resourceVersion": "9",
        "ownerReferences": [reference] if owner else [],
    }
    kind = {"kind": "PartialObjectMetadata"} if metadata_only else {}
    return project_copy(encode({**result, **kind, "metadata": metadata}))


def planned(
    view: DistributionView,
    *names: str,
    copies: tuple[CopyView, ...] = (),
    labels: dict[str, dict[str, str]] | None = None,
    deleting: frozenset[str] = frozenset(),
    **more: Any,
) -> Plan:
    namespaces = {
        name: NamespaceView(
            name=name,
            uid=f"n-{name}",
            resource_version=1,
            labels=(labels or {}).get(name, {}),
            is_deleting=name in deleting,
        )
        for name in names
    }
    return plan_distribution(
        DistributionSnapshot(
            distribution=view,
            namespaces=namespaces,
            copies={copy.namespace: copy for copy in copies},
            now=NOW,
            **more,
        )
    )


def written(plan: Plan) -> list[str]:
    return [f"{type(step.action).__name__} {step.action.key.namespace}" for step in plan.steps]


def counts(plan: Plan) -> tuple[int, int, int]:
    assert plan.status is not None
    return plan.status["desired"], plan.status["succeeded"], plan.status["failed"]


def failed_in(plan: Plan) -> dict[str, list[str]]:
    assert plan.status is not None
    return {
        condition["type"]: condition["failedNamespaces"]
        for condition in plan.status["conditions"]
        if condition["status"] == "True"
    }


def reasons(plan: Plan) -> dict[str, str]:
    assert plan.status is not None
    return {condition["type"]: condition["reason"] for condition in plan.status["conditions"]}


# ── which namespaces ─────────────────────────────────────────────────────────


def test_all_namespaces_but_the_systems_and_those_excluded() -> None:
    """8.3 step 2; admission cases 51 and 55: copies in other namespaces are deleted"""
    plan = planned(
        distribution(allNamespaces=True, excludedNamespaces=named("b")),
        *("a", "b", "kube-system", "kube-public"),
        copies=(copy("b"), copy("kube-system")),
    )
    assert written(plan) == ["Create a", "Delete b", "Delete kube-system"]
    assert counts(plan) == (1, 0, 0)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ({"includedNamespaces": named("b", "a")}, ["a", "b"]),
        ({"includedNamespaces": named("a", "kube-system")}, ["a"]),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, ["b"]),
        ({"namespaceSelector": {}}, []),
        ({"includedNamespaces": named("a"), "namespaceSelector": {"matchLabels": {"team": "x"}}}, ["a", "b"]),
        ({"includedNamespaces": named("a", "b"), "excludedNamespaces": named("a")}, ["b"]),
        ({"allNamespaces": True, "includedNamespaces": named("late")}, ["a", "b", "c"]),
    ],
)
def test_targets_are_named_or_selected_and_never_excluded(targets: Document, expected: list[str]) -> None:
    """8.3 step 2; an empty selector selects nothing"""
    plan = planned(distribution(**targets), "a", "b", "c", labels={"b": {"team": "x"}})
    assert written(plan) == [f"Create {name}" for name in expected]
    assert counts(plan) == (len(expected), 0, 0)


def test_a_missing_included_namespace_counts_as_failed() -> None:
    """admission case 50"""
    plan = planned(distribution(includedNamespaces=named("a", "late")), "a", copies=(copy("a"),))
    assert (counts(plan), failed_in(plan)) == ((2, 1, 1), {"NamespaceNotExists": ["late"]})
    assert plan.requeue_after_s is None, "its creation is an event"


def test_a_terminating_namespace_gets_nothing_and_is_not_cleaned() -> None:
    """8.3 steps 3a and 4"""
    view = distribution(includedNamespaces=named("a"))
    plan = planned(view, "a", "b", copies=(copy("b"),), deleting=frozenset("ab"))
    assert (written(plan), failed_in(plan)) == ([], {"NamespaceNotExists": ["a"]})


def test_a_manager_of_one_namespace_counts_no_other() -> None:
    plan = planned(distribution(includedNamespaces=named("a", "b")), "a", only_namespace="a")
    assert (written(plan), counts(plan)) == (["Create a"], (1, 0, 0))
    # when its own namespace does not exist
    plan = planned(distribution(includedNamespaces=named("a", "b")), only_namespace="a")
    # then
    assert (counts(plan), failed_in(plan)) == ((1, 0, 1), {"NamespaceNotExists": ["a"]})


def test_a_copy_in_an_unknown_namespace_is_kept() -> None:
    plan = planned(distribution(includedNamespaces=named("a")), "a", copies=(copy("a"), copy("new")))
    assert (written(plan), counts(plan)) == ([], (1, 1, 0))


def test_a_copy_that_is_being_deleted_is_not_deleted_again() -> None:
    going = msgspec.structs.replace(copy("b"), is_deleting=True)
    assert written(planned(distribution(includedNamespaces=named()), "b", copies=(going,))) == []


@pytest.mark.parametrize(
    ("names", "condition"), [(("b",), "CreateResourceFailed"), ((), "DeleteResourceFailed")]
)
def test_a_finalizer_that_holds_a_deleted_copy_is_a_failure(names: tuple[str, ...], condition: str) -> None:
    going = msgspec.structs.replace(copy("b"), is_deleting=True, finalizers=("example.com/hold",))
    plan = planned(distribution(includedNamespaces=named(*names)), "b", copies=(going,))
    assert (written(plan), failed_in(plan)) == ([], {condition: ["b"]})
    assert plan.skipped["b"].code == Code.FINALIZER
    assert plan.skipped["b"].remedy.endswith("must remove it from Secret b/pull")


# ── writes ───────────────────────────────────────────────────────────────────


def test_a_new_copy_is_the_resource_with_its_owner() -> None:
    """8.5; admission case 48"""
    metadata = {"name": "pull", "namespace": "foo", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    resource = secret(metadata=metadata, type="x/y", status={"phase": "?"})
    (step,) = planned(distribution(resource), "a").steps
    assert isinstance(step.action, Create)
    body = step.action.body
    assert "status" not in body
    assert (body["data"], body["type"], body["metadata"]["labels"]) == (TOKEN, "x/y", {"a": "b"})
    assert (body["metadata"]["namespace"], body["metadata"]["name"]) == ("a", "pull")
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["uid"]) == (RESOURCE_DISTRIBUTIONS.api_version, "d1")
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert body["metadata"]["annotations"]["kruise.io/resourcedistribution.resource.from"] == "pull"
    assert body["metadata"]["annotations"]["c"] == "d"


def test_a_copy_that_differs_becomes_what_is_wanted_and_keeps_its_metadata() -> None:
    """admission cases 52 and 8.5: the patch replaces the content of the copy, and merges the rest"""
    (step,) = planned(distribution(), "a", copies=(copy("a", secret(data={"other": "eA=="})),)).steps
    assert isinstance(step.action, Patch)
    assert step.action.patch_type is PatchType.STRATEGIC
    assert (step.action.uid, step.action.resource_version) == ("c-a", "9")
    assert step.action.body["data"] == {**TOKEN, "$patch": "replace"}
    assert step.action.body["immutable"] is None
    assert "labels" not in step.action.body["metadata"]


def test_an_equal_copy_costs_nothing() -> None:
    """8.3 step 3e: labels and annotations alone are no difference"""
    plan = planned(
        distribution(secret(metadata={"name": "pull", "labels": {"new": "1"}})), "a", copies=(copy("a"),)
    )
    assert (plan.stages, counts(plan)) == ((), (1, 1, 0))


@pytest.mark.parametrize(
    ("written_as", "stored_as"),
    [
        ({"data": None, "stringData": {"token": "1"}}, {"data": TOKEN, "type": "Opaque"}),
        ({"data": {}, "immutable": False}, {"type": "Opaque"}),
        ({"data": {"a": None}}, {"data": {"a": ""}}),
        ({"data": {"a": "MQ==\n"}}, {"data": {"a": "MQ=="}}),
    ],
)
def test_contents_are_compared_as_an_api_server_stores_them(
    written_as: Document, stored_as: Document
) -> None:
    assert content_of("Secret", {**secret(), **written_as}) == content_of(
        "Secret", {**secret(data=None), **stored_as}
    )


def test_resources_of_other_owners_are_never_written() -> None:
    """admission case 49: neither in a target namespace nor in another one, and without a retry"""
    view = distribution(includedNamespaces=named("a"))
    plan = planned(view, "a", "b", copies=(copy("a", owner="other"), copy("b", owner="")))
    assert (written(plan), failed_in(plan), plan.requeue_after_s) == ([], {"ConflictOccurred": ["a"]}, None)
    assert plan.skipped["a"].code is Code.NAME_TAKEN


def test_a_copy_is_recognized_by_the_owners_uid_in_any_version() -> None:
    """pitfall 16; 8.3 step 3d: without a uid, kind and name decide"""
    view = distribution()
    controller = copy("a").controller
    assert controller is not None
    assert view.owns(controller)
    assert view.owns(msgspec.structs.replace(controller, uid=""))
    assert not view.owns(msgspec.structs.replace(controller, uid="", name="other"))
    assert not view.owns(msgspec.structs.replace(controller, uid="", kind="CloneSet"))
    assert msgspec.structs.replace(view, uid="").owns(controller)


def test_a_distribution_that_is_deleted_writes_nothing() -> None:
    """admission case 56: garbage collection takes the copies"""
    assert planned(msgspec.structs.replace(distribution(), is_deleting=True), "a") == Plan()


def test_a_resource_that_cannot_be_read_writes_nothing() -> None:
    """8.3 step 1: an event reports it, as a warning"""
    plan = planned(distribution(secret(kind="Deployment")), "a", copies=(copy("a"),))
    assert (written(plan), plan.status, plan.requeue_after_s) == ([], None, None)
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    (note,) = plan.notes
    assert (note.warning, note.message) == (True, plan.waiting.message)


# ── failures ─────────────────────────────────────────────────────────────────


def test_namespaces_do_not_wait_for_each_other() -> None:
    """8.3 step 3: all are written to, in batches that double, whatever fails"""
    view = distribution(includedNamespaces=named("a", "b"))
    old = secret(data={"token": "Mg=="})
    plan = planned(view, "a", "b", "c", copies=(copy("b", old), copy("c")))
    assert written(plan) == ["Create a", "Patch b", "Delete c"]
    assert [stage.purpose for stage in plan.stages] == [Purpose.DISTRIBUTE, Purpose.DELETE_COPIES]
    for stage in plan.stages:
        assert (stage.ramp, stage.is_independent, stage.regardless) == (True, True, True)


def test_a_refused_write_is_a_warning_event() -> None:
    old = secret(data={"token": "Mg=="})
    view = distribution(includedNamespaces=named("a", "b"))
    told = [step.failed for step in planned(view, "a", "b", "c", copies=(copy("b", old), copy("c"))).steps]
    assert [(note.reason, note.warning) for note in told if note is not None] == [
        ("CreateResourceFailed", True),
        ("UpdateResourceFailed", True),
        ("DeleteResourceFailed", True),
    ]


def test_a_copy_that_cannot_be_read_is_not_written_to() -> None:
    """8.3 step 3b"""
    unknown = copy("a", metadata_only=True)
    plan = planned(distribution(), "a", copies=(unknown,), unread={"a": "no right"})
    assert (written(plan), failed_in(plan)) == ([], {"GetResourceFailed": ["a"]})
    assert plan.requeue_after_s == READ_AGAIN_S


def test_a_copy_of_which_only_metadata_is_known_is_waited_for() -> None:
    plan = planned(distribution(), "a", copies=(copy("a", metadata_only=True),))
    assert (written(plan), counts(plan)) == ([], (1, 0, 0))
    assert plan.requeue_after_s == READ_AGAIN_S, "should its event get lost"


def failed_write(name: str, *, retry_in_s: float, condition: str = "CreateResourceFailed") -> FailedWrite:
    return FailedWrite(
        condition=condition, message="no", retry_at=NOW + retry_in_s, tries=1, namespace_uid=f"n-{name}"
    )


def test_a_failed_write_is_reported_and_tried_again_only_after_its_backoff() -> None:
    """8.3 step 6"""
    failed = {"a": failed_write("a", retry_in_s=4), "b": failed_write("b", retry_in_s=0)}
    plan = planned(distribution(), "a", "b", "c", failed=failed)
    assert written(plan) == ["Create b", "Create c"]
    assert (counts(plan), failed_in(plan)) == ((3, 0, 2), {"CreateResourceFailed": ["a", "b"]})
    assert plan.requeue_after_s == 4


def test_the_requeue_is_for_the_next_retry_of_several_failed_writes() -> None:
    failed = {
        name: failed_write(name, retry_in_s=after_s) for name, after_s in zip("abc", (9, 4, 6), strict=True)
    }
    assert planned(distribution(), "a", "b", "c", failed=failed).requeue_after_s == 4


def test_a_failed_deletion_is_reported_without_a_failed_target() -> None:
    """8.3 step 4"""
    failed = {"b": failed_write("b", retry_in_s=5, condition="DeleteResourceFailed")}
    view = distribution(includedNamespaces=named("a"))
    plan = planned(view, "a", "b", copies=(copy("a"), copy("b")), failed=failed)
    assert (counts(plan), failed_in(plan)) == ((1, 1, 0), {"DeleteResourceFailed": ["b"]})


def test_a_write_that_failed_holds_back_no_other() -> None:
    """An immutable copy cannot be updated; it can be deleted immediately, and created again after a user deleted it"""
    failed = {name: failed_write(name, retry_in_s=300, condition="UpdateResourceFailed") for name in "ab"}
    view = distribution(includedNamespaces=named("a"))
    plan = planned(view, "a", "b", copies=(copy("b"),), failed=failed)
    assert written(plan) == ["Create a", "Delete b"]
    assert (counts(plan), failed_in(plan)) == ((1, 0, 0), {})


def test_a_failure_of_another_manager_stays_in_the_status_until_the_write_succeeds() -> None:
    """A manager that has just started knows failures only from the status"""
    condition = {
        "type": "UpdateResourceFailed",
        "status": "True",
        "reason": "immutable",
        "failedNamespaces": ["a"],
    }
    stored = {"observedGeneration": 3, "conditions": [condition]}
    old = secret(data={"token": "Mg=="})
    # when
    plan = planned(distribution(status=stored), "a", "b", copies=(copy("a", old), copy("b", old)))
    # then
    assert written(plan) == ["Patch a", "Patch b"]
    assert (counts(plan), failed_in(plan)) == ((2, 0, 1), {"UpdateResourceFailed": ["a"]})
    assert reasons(plan)["UpdateResourceFailed"] == "immutable"
    # when the spec has changed since then
    plan = planned(distribution(status={**stored, "observedGeneration": 2}), "a", copies=(copy("a", old),))
    # then
    assert failed_in(plan) == {}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (None, {}),
        ([None], {}),
        ([{"type": "UpdateResourceFailed", "status": "False", "failedNamespaces": None}], {}),
        ([{"type": "CreateResourceFailed", "status": "True", "failedNamespaces": ["a"]}], {}),
        (
            [{"type": "UpdateResourceFailed", "status": "True", "reason": None, "failedNamespaces": ["a"]}],
            {"UpdateResourceFailed": ["a"]},
        ),
    ],
    ids=["none", "null", "no namespaces", "another write", "no reason"],
)
def test_a_stored_status_reports_only_failures_of_the_same_write(
    conditions: Any, expected: dict[str, list[str]]
) -> None:
    stored = {"observedGeneration": 3, "conditions": conditions}
    copies = (copy("a", secret(data={"token": "Mg=="})),)
    plan = planned(distribution(status=stored), "a", copies=copies)
    assert (written(plan), failed_in(plan)) == (["Patch a"], expected)
    assert reasons(plan)["UpdateResourceFailed"] == ("" if expected else "Succeeded")


# ── status ───────────────────────────────────────────────────────────────────


def test_the_six_conditions_are_ordered_and_times_change_only_with_the_status() -> None:
    """8.4; pitfall 15: conditions are found by type, however many are stored"""
    then = format_time(NOW - 100)
    stored = {
        "conditions": [
            {"type": "NamespaceNotExists", "status": "True", "lastTransitionTime": then, "reason": "?"},
            {
                "type": "ConflictOccurred",
                "status": "False",
                "lastTransitionTime": then,
                "reason": "Succeeded",
            },
        ]
    }
    plan = planned(distribution(status=stored, includedNamespaces=named("late")))
    assert plan.status is not None
    conditions = {
        condition["type"]: (condition["status"], condition["lastTransitionTime"])
        for condition in plan.status["conditions"]
    }
    assert list(conditions) == [
        *("GetResourceFailed", "CreateResourceFailed", "UpdateResourceFailed", "DeleteResourceFailed"),
        *("ConflictOccurred", "NamespaceNotExists"),
    ]
    assert conditions["NamespaceNotExists"] == ("True", then)
    assert conditions["ConflictOccurred"] == ("False", then)
    assert conditions["GetResourceFailed"] == ("False", format_time(NOW))
    assert plan.status["observedGeneration"] == 3
    # when the namespace exists
    plan = planned(distribution(status=stored, includedNamespaces=named("late")), "late")
    # then
    assert plan.status is not None
    conditions = {
        condition["type"]: (condition["status"], condition["lastTransitionTime"])
        for condition in plan.status["conditions"]
    }
    assert conditions["NamespaceNotExists"] == ("False", format_time(NOW))


def test_a_condition_names_all_namespaces_sorted_and_the_last_reason() -> None:
    """8.4"""
    failed = {
        name: failed_write(name, retry_in_s=4, condition=value)
        for name, value in (("a", "UpdateResourceFailed"), ("b", "CreateResourceFailed"))
    }
    failed["c"] = msgspec.structs.replace(failed_write("c", retry_in_s=4), message="quota")
    plan = planned(distribution(), "b", "a", "c", "d", copies=(copy("a", secret(data={})),), failed=failed)
    assert failed_in(plan) == {"CreateResourceFailed": ["b", "c"], "UpdateResourceFailed": ["a"]}
    assert reasons(plan) == {
        "GetResourceFailed": "Succeeded",
        "CreateResourceFailed": "quota",
        "UpdateResourceFailed": "no",
        "DeleteResourceFailed": "Succeeded",
        "ConflictOccurred": "Succeeded",
        "NamespaceNotExists": "Succeeded",
    }
    assert plan.status is not None
    assert [
        condition["type"] for condition in plan.status["conditions"] if "failedNamespaces" in condition
    ] == list(failed_in(plan))


def test_a_delete_carries_the_uid() -> None:
    (step,) = planned(distribution(includedNamespaces=named()), "a", copies=(copy("a"),)).steps
    assert isinstance(step.action, Delete)
    assert step.action.uid == "c-a"
