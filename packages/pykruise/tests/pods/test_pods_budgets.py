"""The rules of budgets: views of budgets, pods that count, answers, and writes. Numbers are cases of the
specification of PodUnavailableBudget."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.selectors import NOTHING, parse_selector
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import (
    BudgetAnswer,
    Operation,
    RefusalCode,
    ask,
    find_counting_time,
    is_admitted_again,
    is_counted_as_available,
    is_exempt,
    is_recorded,
    list_protected_operations,
    project_budget,
    read_related_budget,
    spend_patch,
)
from support.budgets import DEPLOYMENT, NOW, ago, allowed, budget, pod, pod_view, tied, view

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
SETTINGS = InPlaceSettings()


def with_spec(doc: Document, **spec: Any) -> Document:
    """The budget with this spec."""
    return {**doc, "spec": spec}


# ── views of budgets ─────────────────────────────────────────────────────────


def test_a_budget_with_the_least_that_can_be_stored() -> None:
    result = project_budget(orjson.dumps({"metadata": {"name": "pub"}}))
    assert msgspec.structs.asdict(result) == {
        "namespace": "",
        "name": "pub",
        "uid": "",
        "resource_version": 0,
        "generation": 0,
        "created_at": None,
        "is_deleting": False,
        "selector": NOTHING,
        "target": None,
        "target_version": "",
        "max_unavailable": None,
        "min_available": None,
        "total": None,
        "operations": frozenset(),
        "ignored": None,
        "ignored_problem": "",
        "problem": "",
        "stored_spec": {},
        "stored_status": {},
        "desired_available": 0,
        "current_available": 0,
        "unavailable_allowed": 0,
        "disrupted": {},
        "unavailable": {},
    }


def test_all_of_a_budget_is_read() -> None:
    status = {
        **allowed(3, desired=2),
        "disruptedPods": {"p1": ago(1), "p2": None},
        "unavailablePods": {"p3": ago(2)},
    }
    doc = budget(
        target=DEPLOYMENT,
        deleting=True,
        status=status,
        maxUnavailable="10%",
        minAvailable=1,
        protectTotalReplicas=7,
        protectOperations=["EVICT"],
        ignoredPodSelector={"matchLabels": {"job": "x"}},
    )
    result = view(doc)
    assert (result.key, result.uid, result.resource_version, result.generation) == (
        ("shop", "pub"),
        "uid-pub",
        1,
        1,
    )
    assert (result.created_at, result.is_deleting) == (NOW - 3600, True)
    assert (result.target, result.target_version) == ((GroupKind("apps", "Deployment"), "web"), "v1")
    assert (result.max_unavailable, result.min_available, result.total) == ("10%", 1, 7)
    assert (result.operations, result.stored_status) == ({"EVICT"}, status)
    assert result.ignored == parse_selector({"matchLabels": {"job": "x"}})
    assert (result.desired_available, result.current_available, result.unavailable_allowed) == (2, 5, 3)
    assert (result.disrupted, result.unavailable) == ({"p1": ago(1), "p2": ""}, {"p3": ago(2)})
    assert result.unconfirmed == 3


@pytest.mark.parametrize(
    "target",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "a/b/c", "kind": "Deployment", "name": "web"},
    ],
)
def test_an_incomplete_target_reference_is_none(target: Any) -> None:
    assert view(with_spec(budget(), targetRef=target)).target is None


@pytest.mark.parametrize(
    ("selector", "matches", "has_problem"),
    [
        (None, False, False),
        ({}, False, False),
        ({"matchLabels": {"app": "web"}}, True, False),
        ({"matchExpressions": [{"key": "app", "operator": "Is"}]}, False, True),
    ],
)
def test_an_empty_or_unreadable_selector_matches_no_pod_case_6(
    selector: Any, matches: bool, has_problem: bool
) -> None:
    result = view(with_spec(budget(), selector=selector))
    assert result.selector.matches({"app": "web"}) is matches
    assert bool(result.problem) is has_problem


@pytest.mark.parametrize(
    ("annotations", "spec", "operations", "total"),
    [
        ({}, {}, set(), None),
        ({keys.PROTECT_OPERATIONS_ANNOTATION: " EVICT,,UPDATE ,"}, {}, {"EVICT", "UPDATE"}, None),
        ({keys.PROTECT_OPERATIONS_ANNOTATION: "EVICT,BOGUS"}, {}, set(), None),
        ({keys.PROTECT_OPERATIONS_ANNOTATION: "EVICT"}, {"protectOperations": ["DELETE"]}, {"DELETE"}, None),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "9"}, {}, set(), 9),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "9"}, {"protectTotalReplicas": 8}, set(), 8),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "nine"}, {}, set(), None),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: ""}, {}, set(), None),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "-9"}, {}, set(), None),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "٩"}, {}, set(), None),
        ({keys.PROTECT_TOTAL_REPLICAS_ANNOTATION: "²"}, {}, set(), None),
    ],
)
def test_the_v1alpha1_annotation_counts_when_a_field_is_empty(
    annotations: Mapping[str, str], spec: Any, operations: set[str], total: int | None
) -> None:
    result = view(budget(annotations=annotations, **spec))
    assert (result.operations, result.total) == (operations, total)


# ── budgets and operations ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("annotations", "name"),
    [
        ({keys.RELATED_PUB_ANNOTATION: "new", keys.LEGACY_RELATED_PUB_ANNOTATION: "old"}, "new"),
        ({keys.RELATED_PUB_ANNOTATION: "", keys.LEGACY_RELATED_PUB_ANNOTATION: "old"}, "old"),
        ({}, ""),
    ],
)
def test_the_deprecated_annotation_counts_where_the_current_one_is_empty_case_57(
    annotations: Mapping[str, str], name: str
) -> None:
    assert read_related_budget(annotations) == name


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_a_pod_can_be_exempt_case_41(text: str) -> None:
    assert is_exempt({keys.NO_PROTECT_ANNOTATION: text})
    assert not is_exempt({keys.NO_PROTECT_ANNOTATION: f"{text}!"})
    assert not is_exempt({})


@pytest.mark.parametrize(
    ("listed", "without_gate", "with_gate"),
    [
        ([], "DELETE EVICT RESIZE UPDATE", "DELETE EVICT UPDATE"),
        (["UPDATE"], "RESIZE UPDATE", "UPDATE"),
        (["RESIZE"], "RESIZE", "RESIZE"),
        (["DELETE"], "DELETE", "DELETE"),
    ],
)
def test_a_resize_is_protected_according_to_the_gate_section_8(
    listed: list[str], without_gate: str, with_gate: str
) -> None:
    result = view(budget(protectOperations=listed))
    assert sorted(list_protected_operations(result)) == without_gate.split()
    assert sorted(list_protected_operations(result, is_resize_apart=True)) == with_gate.split()


# ── records ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("field", ["disruptedPods", "unavailablePods"])
@pytest.mark.parametrize(
    ("since", "created", "value"),
    [
        (ago(3600), ago(3600), True),
        (ago(3601), ago(3600), False),
        (ago(3599), ago(3600), True),
        (ago(9), None, True),
        ("no time", ago(3600), True),
    ],
)
def test_a_record_is_of_a_pod_that_is_not_younger(
    field: str, since: str, created: str | None, value: bool
) -> None:
    document = pod("p1")
    document["metadata"]["creationTimestamp"] = created
    known = view(budget(status={field: {"p1": since}}))
    assert is_recorded(known, pod_view(document)) is value
    document["metadata"]["name"] = "p2"
    assert not is_recorded(known, pod_view(document))


@pytest.mark.parametrize(
    ("status", "lets"),
    [
        ({"disruptedPods": {"p1": ago(9)}}, True),
        ({"disruptedPods": {"p1": ago(10)}}, False),
        ({"unavailablePods": {"p1": ago(4)}}, True),
        ({"unavailablePods": {"p1": ago(5)}}, False),
        # the younger of two records counts
        ({"disruptedPods": {"p1": ago(15)}, "unavailablePods": {"p1": ago(4)}}, True),
        ({"disruptedPods": {"p1": "no time"}}, False),
        # an older pod with the same name was recorded
        ({"disruptedPods": {"p1": ago(7)}}, None),
        ({}, False),
    ],
)
def test_a_record_allows_its_pod_again_for_half_of_its_lifetime_case_37(
    status: Any, lets: bool | None
) -> None:
    known = pod_view(pod("p1", created_s_ago=6 if lets is None else 3600))
    assert is_admitted_again(view(budget(status=status)), known, now=NOW) is bool(lets)


# ── answers ──────────────────────────────────────────────────────────────────


def answer_of(
    doc: Document | None, asked: Document, operation: Operation = Operation.DELETE, spent: int = 0
) -> BudgetAnswer:
    known = view(doc) if doc is not None else None
    return ask(known, pod_view(asked), operation, spent=spent, now=NOW, settings=SETTINGS)


@pytest.mark.parametrize(
    ("count", "spent", "expected"),
    [
        (1, 0, BudgetAnswer(spends=True)),
        (2, 1, BudgetAnswer(spends=True)),
        (0, 0, RefusalCode.EXHAUSTED),
        (-1, 0, RefusalCode.EXHAUSTED),
        (2, 2, RefusalCode.EXHAUSTED),
    ],
)
def test_a_pod_may_be_disrupted_while_the_budget_has_some_left_case_36(
    count: int, spent: int, expected: BudgetAnswer | RefusalCode
) -> None:
    answer = answer_of(budget(status=allowed(count)), tied("p1"), spent=spent)
    assert answer == expected or (answer.code == expected and answer.refusal and not answer.spends)


@pytest.mark.parametrize(
    ("disrupted", "updated", "spent", "is_refused"),
    [
        (2000, 0, 0, False),
        (1999, 1, 0, False),
        (2000, 1, 0, True),
        (1000, 1000, 1, True),
        (0, 0, 2000, False),
    ],
)
def test_too_many_unconfirmed_pods_refuse_further_ones_case_60(
    disrupted: int, updated: int, spent: int, is_refused: bool
) -> None:
    status = {
        **allowed(9999),
        "disruptedPods": {f"d{number}": ago(1) for number in range(disrupted)},
        "unavailablePods": {f"u{number}": ago(1) for number in range(updated)},
    }
    answer = answer_of(budget(status=status), tied("p1"), spent=spent)
    assert (answer.code == RefusalCode.UNCONFIRMED) is is_refused
    assert answer.spends is not is_refused


@pytest.mark.parametrize(
    ("doc", "asked", "operation"),
    [
        (None, tied("p1"), Operation.DELETE),
        (
            budget(status=allowed(0)),
            tied("p1", annotations={keys.NO_PROTECT_ANNOTATION: "1"}),
            Operation.DELETE,
        ),
        (budget(status=allowed(0)), tied("p1", ready=False), Operation.DELETE),
        (
            budget(status=allowed(0), ignoredPodSelector={"matchLabels": {"app": "web"}}),
            tied("p1"),
            Operation.DELETE,
        ),
        (budget(status=allowed(0, desired=0)), tied("p1"), Operation.DELETE),
        (budget(status=allowed(0), protectOperations=["EVICT"]), tied("p1"), Operation.DELETE),
        (budget(status=allowed(0, disruptedPods={"p1": ago(1)})), tied("p1"), Operation.EVICT),
    ],
)
def test_disruptions_that_cost_no_availability_are_always_allowed(
    doc: Document | None, asked: Document, operation: Operation
) -> None:
    assert answer_of(doc, asked, operation) == BudgetAnswer()


def test_an_unreadable_ignored_selector_refuses_ready_pods_only() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Is"}]}
    doc = budget(status=allowed(9), ignoredPodSelector=wrong)
    answer = answer_of(doc, tied("p1"))
    assert (answer.code, answer.spends, bool(answer.refusal)) == (RefusalCode.INVALID, False, True)
    assert answer_of(doc, tied("p1", ready=False)) == BudgetAnswer()
    # and a selector for other pods, or an empty one, changes nothing
    for selector in ({"matchLabels": {"app": "other"}}, {}, {"matchLabels": {}, "matchExpressions": []}):
        doc = budget(status=allowed(0), ignoredPodSelector=selector)
        assert answer_of(doc, tied("p1")).code == RefusalCode.EXHAUSTED


# ── writes ───────────────────────────────────────────────────────────────────


def test_a_spent_disruption_is_recorded_by_its_operation_pitfall_8() -> None:
    spent = {
        "u": Operation.UPDATE,
        "r": Operation.RESIZE,
        "e": Operation.EVICT,
        "d": Operation.DELETE,
    }
    assert spend_patch(view(budget(status=allowed(9, desired=2))), spent, now=NOW) == {
        "status": {
            "unavailableAllowed": 5,
            "currentAvailable": 7,
            "unavailablePods": {"r": ago(0), "u": ago(0)},
            "disruptedPods": {"d": ago(0), "e": ago(0)},
        }
    }


@pytest.mark.parametrize(
    ("operation", "field"), [(Operation.UPDATE, "unavailablePods"), (Operation.DELETE, "disruptedPods")]
)
def test_only_lists_that_change_are_written(operation: Operation, field: str) -> None:
    # given a status without lists, as a controller leaves it that ends between two writes
    known = view(budget(status={"unavailableAllowed": 1}))
    assert spend_patch(known, {"p1": operation}, now=NOW) == {
        "status": {"unavailableAllowed": 0, "currentAvailable": 0, field: {"p1": ago(0)}}
    }


# ── pods that count ──────────────────────────────────────────────────────────


def images(*given: tuple[str, str, str], annotations: Mapping[str, str] | None = None) -> Document:
    """A pod with these containers: name, image, and image id in the status (empty: no status)."""
    document = pod("p1", annotations=annotations)
    document["spec"]["containers"] = [{"name": name, "image": image} for name, image, _ in given]
    document["status"]["containerStatuses"] = [
        {"name": name, "image": image, "imageID": image_id, "ready": True}
        for name, image, image_id in given
        if image_id
    ]
    return document


def updated(**last: str) -> dict[str, str]:
    """Annotations of a pod whose sidecars were updated in place; previous image ids by container."""
    statuses = {name: {"imageID": image_id} for name, image_id in last.items()}
    return {
        keys.SIDECARSET_LIST_ANNOTATION: "log",
        keys.SIDECARSET_STATE_ANNOTATION: orjson.dumps({"log": {"lastContainerStatuses": statuses}}).decode(),
    }


def sidecar(image: str, running: str, image_id: str, annotations: Mapping[str, str]) -> Document:
    """A pod with a container of this image, which still runs another one."""
    document = images(("log", image, "x"), annotations=annotations)
    document["status"]["containerStatuses"][0] |= {"image": running, "imageID": image_id}
    return document


def beside_main(document: Document) -> Document:
    """The pod with another container, which was never updated."""
    document["spec"]["containers"].insert(0, {"name": "main", "image": "web:1"})
    status = {"name": "main", "image": "web:1", "imageID": "x", "ready": True}
    document["status"]["containerStatuses"].insert(0, status)
    return document


BEGUN = {
    keys.IN_PLACE_STATE_ANNOTATION: orjson.dumps(
        {"revision": "r2", "updateTimestamp": ago(1), "lastContainerStatuses": {"log": {"imageID": "old"}}}
    ).decode()
}


@pytest.mark.parametrize(
    ("document", "counts"),
    [
        (pod("p1"), True),
        (pod("p1", ready=False), False),
        (pod("p1", phase="Pending"), False),
        (pod("p1", deleting=True), False),
        (pod("p1", labels={"unavailable-pod.kruise.io/x": ""}), False),
        # by digest: the status has another digest, none, or that one
        (images(("main", f"web@{DIGEST}", f"docker.io/web@{OTHER}")), False),
        (images(("main", f"web@{DIGEST}", "")), False),
        (images(("main", f"web@{DIGEST}", f"docker.io/web@{DIGEST}")), True),
        (images(("main", f"web@{DIGEST}", f"mirror.example.com/other@{DIGEST}")), True),
        # all containers by digest: the record of an update in place does not matter
        (
            images(
                ("main", f"web@{DIGEST}", f"web@{DIGEST}"),
                annotations={keys.IN_PLACE_STATE_ANNOTATION: "no json"},
            ),
            True,
        ),
        # one by digest, one by tag: the record of an update decides about the second
        (images(("main", f"web@{DIGEST}", f"web@{DIGEST}"), ("log", "log:1", "x")), True),
        (
            images(
                ("main", f"web@{DIGEST}", f"web@{DIGEST}"),
                ("log", "log:1", "x"),
                annotations={keys.IN_PLACE_STATE_ANNOTATION: "no json"},
            ),
            False,
        ),
        (images(("main", f"web@{DIGEST}", f"web@{OTHER}"), ("log", "log:1", "x")), False),
        # an update in place, with the current or the old names of its annotations
        *(
            (pod("p1", annotations={name: text}), False)
            for name, text in (
                (keys.IN_PLACE_STATE_ANNOTATION, "no json"),
                (keys.LEGACY_IN_PLACE_STATE_ANNOTATION, "no json"),
                (keys.IN_PLACE_GRACE_ANNOTATION, "{}"),
                (keys.LEGACY_IN_PLACE_GRACE_ANNOTATION, "{}"),
            )
        ),
        (sidecar("log:2", "log:1", "old", BEGUN), False),
        (sidecar("log:2", "log:2", "new", BEGUN), True),
        (pod("p1", annotations={"other": "no json"}), True),
        # sidecars: the old image runs, the new one does, or the new image has the old id
        (sidecar("log:2", "log:1", "old", updated(log="old")), False),
        (sidecar("log:2", "log:2", "new", updated(log="old")), True),
        (sidecar("log:2", "log:2", "old", updated(log="old")), True),
        (sidecar("log:2", "log:1", "new", updated(log="old")), True),
        # one outdated container of two is enough
        (beside_main(sidecar("log:2", "log:1", "old", updated(log="old"))), False),
        # a container without an id, and without a record of a sidecar
        (sidecar("log:2", "log:1", "", updated(other="old")), True),
        # records without the list of SidecarSets are ignored; an unreadable record means that the pod waits
        (
            sidecar("log:2", "log:1", "old", {**updated(log="old"), keys.SIDECARSET_LIST_ANNOTATION: ""}),
            True,
        ),
        (sidecar("log:2", "log:2", "new", {**updated(), keys.SIDECARSET_STATE_ANNOTATION: "no json"}), False),
    ],
)
def test_a_pod_counts_as_available_while_ready_and_up_to_date_section_6_1(
    document: Document, counts: bool
) -> None:
    assert is_counted_as_available(pod_view(document), now=NOW, settings=SETTINGS) is counts


# ── changes by time alone ────────────────────────────────────────────────────

GRACE = {keys.IN_PLACE_GRACE_ANNOTATION: "{}"}


def test_a_pod_becomes_available_by_time_alone_only_after_an_update_with_a_grace_time() -> None:
    # given a new image that runs under another tag, which is accepted after ten seconds
    document = sidecar("log:2", "log:other", "new", BEGUN)
    assert find_counting_time(pod_view(document), now=NOW, settings=SETTINGS) == NOW + 9
    # and no time for pods that never were updated, that do not serve, or that still run the old image
    for other in (
        pod("p1"),
        pod("p1", annotations=GRACE),
        {**document, "status": {**document["status"], "phase": "Pending"}},
        sidecar("log:2", "log:1", "old", BEGUN),
    ):
        assert find_counting_time(pod_view(other), now=NOW, settings=SETTINGS) is None
