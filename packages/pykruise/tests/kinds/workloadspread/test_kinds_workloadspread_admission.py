"""Refused and admitted WorkloadSpreads. Numbers are cases of the specification."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.gates import Gates
from pykruise.kinds.workloadspread.admission import build_validating_review
from pykruise.kinds.workloadspread.injection import combine_required_terms
from pykruise.kinds.workloadspread.targets import PathError, read_value_at
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.workload.allowed_workloads import WhiteListError, read_white_list
from support.reviews import at_once, request
from support.spreads import (
    CLONE_SET,
    DEPLOYMENT,
    STATEFUL_SET,
    SpreadServer,
    spread,
    subset,
    workload,
)

KRUISE_STATEFUL_SET = ("apps.kruise.io/v1beta1", "StatefulSet", "web")
ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
NO_IMAGE = {"spec": {"containers": [{"name": "extra"}]}}


def answer(
    doc: Document, *, old: Document | None = None, server: SpreadServer | None = None
) -> AdmissionAnswer:
    reader = (server or SpreadServer()).replica()
    return at_once(build_validating_review(reader), request(WORKLOAD_SPREADS, doc, old=old))


def fields(doc: Document, **given: Any) -> list[str]:
    """Fields with errors; empty: the WorkloadSpread is admitted."""
    refused = answer(doc, **given).refusal
    if refused is None:
        return []
    assert refused.code == 422
    assert refused.details is not None
    return [cause.field for cause in refused.details.causes]


def limits(*most: int | str | None, target: Any = CLONE_SET, **more: Any) -> Document:
    return spread(*(subset(f"s{i}", value) for i, value in enumerate(most)), target=target, **more)


def adaptive(seconds: int | None, *most: int | None, kind: str = "Adaptive") -> Document:
    block = {} if seconds is None else {"rescheduleCriticalSeconds": seconds}
    return limits(*most, scheduleStrategy={"type": kind, "adaptive": block})


def target(owner: Any, *, claims: Sequence[str] = (), mounts: str = "data", **pod: Any) -> Document:
    container = {"name": "main", "image": "nginx", "volumeMounts": [{"name": mounts, "mountPath": "/data"}]}
    result: dict[str, Any] = {"template": {"spec": {"containers": [container], **pod}}}
    if claims:
        result["volumeClaimTemplates"] = [{"metadata": {"name": name}} for name in claims]
    return workload(owner, **result)


ANNOTATED = subset("a", patch={"metadata": {"annotations": {"zone": "a"}}})


@pytest.mark.parametrize("old", [None, spread(subset("a", 5))], ids=["created", "changed"])
def test_no_workload_spread_can_be_created_or_changed_with_the_gate_off_case_36(old: Document | None) -> None:
    settings = AdmissionSettings(gates=Gates.of(WorkloadSpread=False))
    rule = next(
        reviewer for reviewer in build_reviewers(settings) if reviewer.name == "vworkloadspread.kb.io"
    )
    answer = at_once(rule.reviewer, request(WORKLOAD_SPREADS, spread(subset("a", 3)), old=old))
    assert answer.refusal is not None
    assert (answer.refusal.code, answer.refusal.message) == (
        403,
        "feature-gate WorkloadSpread is not enabled",
    )


def test_pods_are_not_reviewed_with_the_gate_off() -> None:
    on = {rule.name for rule in build_reviewers()}
    others = Gates.of(WorkloadSpread=False, PodUnavailableBudgetDeleteGate=False)
    off = {rule.name for rule in build_reviewers(AdmissionSettings(gates=others))}
    assert {"vworkloadspread.kb.io", "vpod.kb.io", "vpodeviction.kb.io"} <= on
    assert "vworkloadspread.kb.io" in off
    assert "vpod.kb.io" not in off


def test_a_workloadspread_without_subsets_is_refused_case_37() -> None:
    assert fields(spread()) == ["spec.subsets"]


@pytest.mark.parametrize(
    ("most", "wrong"),
    [
        (("40%", "70%"), ["spec.subsets[1].maxReplicas"]),  # workloadspread case 38
        (("40%", "20%", "20%"), ["spec.subsets[0].maxReplicas"]),  # workloadspread case 39
        (("40%", "20%", None), []),
        (("40%", "60%"), []),
        ((3, "20%"), ["spec.subsets[1].maxReplicas"]),  # workloadspread case 40
        (("0.2%",), ["spec.subsets[0].maxReplicas"]),
        ((-1,), ["spec.subsets[0].maxReplicas"]),
        (("-1%",), ["spec.subsets[0].maxReplicas"]),
        (("101%",), ["spec.subsets[0].maxReplicas"]),
        (("5",), ["spec.subsets[0].maxReplicas"]),
        ((0, 1_000_000), []),
    ],
)
def test_limits_are_numbers_or_shares_that_add_up_cases_38_39_40(most: Any, wrong: list[str]) -> None:
    assert fields(limits(*most)) == wrong


@pytest.mark.parametrize("owner", [STATEFUL_SET, KRUISE_STATEFUL_SET])
def test_a_share_of_a_statefulset_is_refused_case_41(owner: Any) -> None:
    assert fields(limits("40%", None, target=owner)) == ["spec.subsets[0].maxReplicas"]
    assert fields(limits(4, None, target=owner)) == []


@pytest.mark.parametrize(
    ("doc", "wrong"),
    [
        (adaptive(147, 1, 1, None), []),  # workloadspread case 42
        (adaptive(148, 1, 1, None), ["spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"]),
        (adaptive(-1, 1, None), ["spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"]),
        (adaptive(2**31 - 1, None), []),
        (adaptive(30, 1, None, kind="Fixed"), ["spec.scheduleStrategy.type"]),  # workloadspread case 43
        (adaptive(None, 1, 2), ["spec.scheduleStrategy.adaptive"]),  # workloadspread case 44
        (limits(1, 2, scheduleStrategy={"type": "Adaptive"}), []),
        (limits(1, scheduleStrategy={"type": "Strict"}), ["spec.scheduleStrategy.type"]),
    ],
)
def test_rescheduling_has_its_bounds_cases_42_43_44(doc: Document, wrong: list[str]) -> None:
    assert fields(doc) == wrong


def test_a_workload_is_spread_once_case_45() -> None:
    other = spread(subset("x"), name="other", target=("apps.kruise.io/v1alpha1", "CloneSet", "web"))
    assert fields(limits(1), server=SpreadServer(other)) == ["spec.targetRef"]
    elsewhere = spread(subset("x"), name="other", target=("apps/v1", "Deployment", "web"))
    assert fields(limits(1), server=SpreadServer(elsewhere)) == []


def test_the_target_stays_and_its_version_may_change_case_46() -> None:
    old = limits(1, target=("apps.kruise.io/v1alpha1", "CloneSet", "web"))
    assert fields(limits(1), old=old) == []
    assert fields(limits(1, target=(CLONE_SET[0], "CloneSet", "another")), old=old) == ["spec.targetRef"]


@pytest.mark.parametrize("owner", [CLONE_SET, STATEFUL_SET, KRUISE_STATEFUL_SET])
def test_volumes_of_claim_templates_count_as_there_case_47(owner: Any) -> None:
    doc = spread(ANNOTATED, target=owner)
    mounted = target(owner, claims=["data"])
    assert fields(doc, server=SpreadServer(owners=[mounted])) == []
    other = target(owner, claims=["other"])
    assert fields(doc, server=SpreadServer(owners=[other])) == [
        "spec.subsets[0].patch.containers[0].volumeMounts[0].name"
    ]


def test_a_claim_template_replaces_a_volume_of_its_name_lift_4() -> None:
    both = target(CLONE_SET, claims=["data"], volumes=[{"name": "data", "emptyDir": {}}])
    assert fields(spread(ANNOTATED), server=SpreadServer(owners=[both])) == []


def test_a_patch_is_tested_on_an_existing_target_case_48() -> None:
    doc = spread(subset("a", patch=NO_IMAGE))
    there = target(CLONE_SET, claims=["data"])
    assert fields(doc, server=SpreadServer(owners=[there])) == ["spec.subsets[0].patch.containers[0].image"]
    last = spread(subset("a", patch={"spec": {"containers": [{"name": "main"}, {"name": "extra"}]}}))
    assert fields(last, server=SpreadServer(owners=[there])) == ["spec.subsets[0].patch.containers[1].image"]
    assert fields(doc) == []


def test_a_patch_that_cannot_be_merged_gives_one_error_lift_5() -> None:
    doc = spread(subset("a", patch={"spec": {"containers": 3}}), subset("b", patch=NO_IMAGE))
    server = SpreadServer(owners=[target(CLONE_SET, claims=["data"])])
    assert fields(doc, server=server) == [
        "spec.subsets[0].patch",
        "spec.subsets[1].patch.containers[0].image",
    ]


@pytest.mark.parametrize("patch", ["spec: {}", 3, True, ["spec"]])
def test_a_patch_that_is_not_an_object_is_a_field_error(patch: Any) -> None:
    doc = spread(subset("a", 1), subset("a", patch=patch))
    assert fields(doc) == ["spec.subsets[1].name", "spec.subsets[1].patch"]
    # but labels of a stored WorkloadSpread with that error can be changed
    labelled = deep_copy(doc)
    labelled["metadata"]["labels"] = {"team": "shop"}
    assert fields(labelled, old=doc) == []


def test_other_kinds_must_be_in_the_white_list_case_49() -> None:
    server = SpreadServer()
    assert fields(limits(1, target=ROLLOUT), server=server) == ["spec.targetRef"]
    server.white_list = read_white_list(
        '{"workloads": [{"group": "argoproj.io", "Kind": "Rollout", "replicasPath": "spec.replicas"}]}'
    )
    assert fields(limits(1, target=ROLLOUT), server=server) == []


def test_a_foreign_job_in_the_white_list_is_a_further_kind_lift_2() -> None:
    foreign = ("batch.volcano.sh/v1alpha1", "Job", "web")
    server = SpreadServer()
    assert fields(limits(1, target=foreign), server=server) == ["spec.targetRef"]
    server.white_list = read_white_list('{"workloads": [{"Group": "batch.volcano.sh", "Kind": "Job"}]}')
    assert fields(limits(1, target=foreign), server=server) == []


def test_a_reference_must_be_whole() -> None:
    doc = limits(1)
    del doc["spec"]["targetRef"]
    assert fields(doc) == ["spec.targetRef"]
    assert fields(limits(1, target=("apps/v1", "Deployment", ""))) == ["spec.targetRef"]
    assert fields(limits(1, target=("a/b/c", "Deployment", "web"))) == ["spec.targetRef"]
    assert fields(limits(1, target=DEPLOYMENT)) == []


def test_names_terms_and_tolerations_are_checked_together() -> None:
    wrong = spread(
        subset("", requiredNodeSelector={"matchExpressions": [{"key": "zone", "operator": "In"}]}),
        subset("b", preferredNodeSelector=[{"weight": 0, "preference": {}}]),
        subset("b", tolerations=[{"key": "x", "operator": "Exists", "value": "y"}, {"effect": "Never"}]),
        targetFilter={"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
    )
    assert fields(wrong) == [
        "spec.subsets[0].name",
        "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values",
        "spec.subsets[1].preferredNodeSelector[0].weight",
        "spec.subsets[2].name",
        "spec.subsets[2].tolerations[0].operator",
        "spec.subsets[2].tolerations[1].operator",
        "spec.subsets[2].tolerations[1].effect",
        "spec.targetFilter",
    ]


def test_a_stored_invalid_spec_does_not_prevent_a_change_of_labels() -> None:
    old = limits(-1)
    new = deep_copy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert fields(new, old=old) == []


# ── the white list, paths of replicas ────────────────────────────────────────


def test_an_invalid_stored_patch_does_not_block_changes_of_other_fields() -> None:
    """A rule for pods may be newer than the WorkloadSpread."""
    profile = {"seccompProfile": {"type": "RuntimDefault"}}
    bad = {"patch": {"spec": {"securityContext": profile}}}
    server = SpreadServer(owners=[target(CLONE_SET, claims=["data"])])
    old = spread(subset("a", 1, **bad), subset("b"))
    path = "patch.securityContext.seccompProfile.type"
    # then the patch is rejected where it is new
    assert fields(old, server=server) == [f"spec.subsets[0].{path}"]
    more = spread(subset("a", 1, **bad), subset("b", **bad))
    assert fields(more, old=old, server=server) == [f"spec.subsets[1].{path}"]
    # and accepted where it is stored, also at another place
    assert fields(spread(subset("a", 2, **bad), subset("b")), old=old, server=server) == []
    assert fields(spread(subset("b", 2), subset("a", **bad)), old=old, server=server) == []


def test_keys_of_the_white_list_are_case_insensitive() -> None:
    """operations cases 27 and 28, of this key"""
    white_list = read_white_list(
        '{"Workloads":[{"group":"g","VERSION":"v1","kind":"K","ReplicasPath":"spec.n",'
        '"SubResources":[{"Group":"g","Kind":"Part"}]}]}'
    )
    [listed] = white_list.workloads
    assert (listed.target, listed.version, listed.replicas_path) == (GroupKind("g", "K"), "v1", "spec.n")
    assert listed.owners == (GroupKind("g", "Part"),)
    assert read_white_list(None).workloads == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"workloads": {}}', '{"workloads": [{"Kind": 3}]}'])
def test_a_malformed_white_list_is_an_error(text: str) -> None:
    with pytest.raises(WhiteListError):
        read_white_list(text)


def test_a_path_leads_through_members_and_indexes() -> None:
    doc = {"spec": {"groups": [{"replicas": 1}, {"replicas": 4}], "text": "4"}}
    assert read_value_at(doc, "spec.groups.1.replicas") == 4
    assert read_value_at(doc, "") == 0
    for path in (
        "spec.groups.2.replicas",
        "spec.groups.-1.replicas",
        "spec.none",
        "spec.text",
        "spec.text.x",
    ):
        with pytest.raises(PathError):
            read_value_at(doc, path)


def test_very_many_subsets_are_refused_unless_they_are_stored_already() -> None:
    # given
    doc = spread(*(subset(f"s{number}") for number in range(257)))
    labelled = deep_copy(doc)
    labelled["spec"]["targetFilter"] = {"selector": {"matchLabels": {"a": "b"}}}
    # then
    assert fields(doc) == ["spec.subsets"]
    assert fields(labelled, old=doc) == []


@pytest.mark.parametrize("most", ["9" * 5_000 + "%", "-" + "9" * 5_000 + "%"])
def test_a_limit_with_very_many_digits_is_a_field_error(most: str) -> None:
    """Python refuses to read numbers of more than 4,300 digits, which once led to an answer 500."""
    assert fields(limits(most)) == ["spec.subsets[0].maxReplicas"]


def test_a_node_selector_is_not_multiplied_without_end() -> None:
    """Each node selector term of a pod gets all requirements of the subset."""
    # given
    terms = [{"matchExpressions": [{"key": f"k{number}", "operator": "Exists"}]} for number in range(251)]
    wanted = {"matchExpressions": [{"key": "zone", "operator": "Exists"}] * 200}
    view = SPREAD_VIEWS.project(orjson.dumps(spread(subset("a", requiredNodeSelector=wanted))))
    # then
    assert len(combine_required_terms(terms[:250], view.subsets[0])) == 250
    with pytest.raises(PlacementError, match="at most 50000 are allowed"):
        combine_required_terms(terms, view.subsets[0])


def test_a_path_to_replicas_with_very_many_digits_leads_nowhere() -> None:
    with pytest.raises(PathError):
        read_value_at({"spec": [1]}, f"spec.{'9' * 5_000}")
