"""Admission of UnitedDeployments, its changes and its refusals: the numbered cases of the specification."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykruise.admission.protection import Protection
from pykruise.kinds.uniteddeployment.admission import build_mutating_review, validate_united
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    STATEFUL_SET,
)
from pykruise.kube.admission import AdmissionAnswer, Reviewer
from pykruise.kube.documents import deep_copy
from pykruise.pods.template.defaults import DefaultingSettings
from support.reviews import request
from support.uniteddeployments import ALL_TEMPLATES, template_of, united_document

Document = dict[str, Any]
SUBSETS = "spec.topology.subsets"
ADAPTIVE = {"type": "Adaptive"}


def united(*subsets: Document, kind: str = CLONE_SET, **spec: Any) -> Document:
    return united_document(kind, list(subsets), **spec)


def subset(name: str = "a", **fields: Any) -> Document:
    return {"name": name, **fields}


def adaptive(*subsets: Document, **fields: Any) -> Document:
    return {"subsets": list(subsets), "scheduleStrategy": {**ADAPTIVE, "adaptive": fields}}


def reviewed(reviewer: Reviewer, document: Document, old: Document | None) -> AdmissionAnswer:
    async def review() -> AdmissionAnswer:
        return await reviewer(request(UNITED_DEPLOYMENTS, document, old=old))

    return asyncio.run(review())


def mutated(document: Document, old: Document | None = None, *, bare: bool = False) -> Document:
    answer = reviewed(build_mutating_review(DefaultingSettings(template_no_defaults=bare)), document, old)
    return answer.object or document


def fields(document: Document, old: Document | None = None) -> list[str]:
    refusal = reviewed(validate_united, mutated(document, old), old).refusal
    if refusal is None:
        return []
    assert refusal.code == 422
    assert refusal.details is not None
    return [cause.field for cause in refusal.details.causes]


def warnings(document: Document) -> list[str]:
    answer = reviewed(validate_united, mutated(document), None)
    assert answer.refusal is None, answer.refusal
    return list(answer.warnings)


def changed(document: Document, change: Callable[[Document], Any]) -> Document:
    result = deep_copy(document)
    change(result["spec"])
    return dict(result)


# ── defaults ─────────────────────────────────────────────────────────────


def test_missing_fields_get_defaults() -> None:
    """uniteddeployment case 1"""
    spec = mutated(united(subset()))["spec"]
    assert spec["replicas"] == 1
    assert spec["revisionHistoryLimit"] == 10
    assert spec["updateStrategy"] == {"type": "Manual", "manualUpdate": {}}
    assert "scheduleStrategy" not in spec["topology"]


def sized_by_subsets(*replicas: int | None, **spec: Any) -> Document:
    """A UnitedDeployment without replicas, whose subsets have these replicas."""
    subsets = [subset(name, replicas=size) for name, size in zip("abc", replicas, strict=False)]
    return united(*subsets, **spec)


def test_stored_subsets_keep_their_sum_when_something_else_changes() -> None:
    stored = sized_by_subsets(2, 3)
    assert fields(stored) == [SUBSETS] * 2, "a new object gets the default"
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}
    assert fields(labelled, stored) == []
    assert "replicas" not in mutated(labelled, stored)["spec"]
    scaled = sized_by_subsets(2, 4, revisionHistoryLimit=5)
    assert fields(scaled, stored) == []
    assert "replicas" not in mutated(scaled, stored)["spec"]


def test_replicas_are_not_left_to_subsets_without_replicas() -> None:
    stored = sized_by_subsets(2, 3)
    assert mutated(sized_by_subsets(2, None), stored)["spec"]["replicas"] == 1
    before = changed(stored, lambda spec: spec.update(replicas=5))
    assert mutated(stored, before)["spec"]["replicas"] == 1


def test_minimums_are_spelled_out_where_there_are_bounds() -> None:
    """uniteddeployment case 2"""
    given = united(subset("a", maxReplicas=4), subset("b"))
    entries = mutated(given)["spec"]["topology"]["subsets"]
    assert [entry["minReplicas"] for entry in entries] == [0, 0]

    mixed = united(subset("a", maxReplicas=4), subset("b"), subset("c", replicas=1))
    assert all("minReplicas" not in subset for subset in mutated(mixed)["spec"]["topology"]["subsets"])
    assert fields(mixed) == [SUBSETS]


def test_only_a_new_template_of_a_built_in_stateful_set_gets_pod_defaults() -> None:
    """uniteddeployment case 3"""

    def grace(document: Document, kind: str) -> Any:
        pod = document["spec"]["template"][kind]["spec"]["template"]["spec"]
        return pod.get("terminationGracePeriodSeconds")

    given = united(subset(), kind=STATEFUL_SET)
    assert grace(mutated(given), STATEFUL_SET) == 30
    assert grace(mutated(given, bare=True), STATEFUL_SET) is None
    assert grace(mutated(changed(given, lambda spec: spec.update(replicas=3)), given), STATEFUL_SET) is None
    for kind in (CLONE_SET, ADVANCED_STATEFUL_SET, DEPLOYMENT):
        assert grace(mutated(united(subset(), kind=kind)), kind) is None
    assert grace(given, STATEFUL_SET) is None, "what came in is not changed"


def test_claim_templates_of_a_built_in_stateful_set_get_defaults() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}
    template = template_of(STATEFUL_SET, volumeClaimTemplates=[claim])
    result = mutated(united(subset(), template=template))["spec"]["template"][STATEFUL_SET]["spec"]
    assert result["volumeClaimTemplates"][0]["status"] == {"phase": "Pending"}


def test_an_object_with_all_defaults_is_not_changed() -> None:
    once = mutated(united(subset("a", minReplicas=1), subset("b")))
    assert reviewed(build_mutating_review(DefaultingSettings()), once, None).object is None


# ── the template ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ALL_TEMPLATES)
def test_each_of_the_templates_is_taken(kind: str) -> None:
    document = united(subset("a"), subset("b"), kind=kind)
    assert fields(document) == []
    assert warnings(document) == []


def test_exactly_one_template_must_be_given() -> None:
    """uniteddeployment case 4"""
    both = {**template_of(CLONE_SET), **template_of(DEPLOYMENT)}
    assert fields(united(subset(), template=both)) == ["spec.template"]
    assert fields(united(subset(), template={})) == ["spec.template"]
    assert fields(united(subset(), template=None)) == ["spec.template"]


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET])
def test_stateful_sets_have_no_pods_in_reserve(kind: str) -> None:
    """uniteddeployment case 5"""
    topology = adaptive(subset(), reserveUnschedulablePods=True)
    assert fields(united(kind=kind, topology=topology)) == ["spec.topology.scheduleStrategy"]
    topology["scheduleStrategy"]["type"] = "Fixed"
    assert fields(united(kind=kind, topology=topology)) == []


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET, DEPLOYMENT])
def test_labels_of_the_workload_must_match_and_the_path_is_the_real_one(kind: str) -> None:
    template = template_of(kind)
    template[kind]["metadata"]["labels"] = {"app": "other"}
    assert fields(united(subset(), template=template)) == [f"spec.template.{kind}.metadata.labels"]


def test_labels_of_a_clone_set_template_are_not_checked() -> None:
    template = template_of(CLONE_SET)
    del template[CLONE_SET]["metadata"]
    assert fields(united(subset(), template=template)) == []


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET, DEPLOYMENT])
def test_replicas_in_a_template_are_refused_except_for_a_cloneset(kind: str) -> None:
    assert fields(united(subset(), template=template_of(kind, replicas=2))) == [
        f"spec.template.{kind}.spec.replicas"
    ]
    assert fields(united(subset(), template=template_of(CLONE_SET, replicas=2))) == []


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET])
def test_a_partition_in_a_template_is_refused(kind: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    template = template_of(kind, updateStrategy=strategy)
    path = f"spec.template.{kind}.spec.updateStrategy.rollingUpdate.partition"
    assert fields(united(subset(), template=template)) == [path]


@pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT])
def test_pods_must_run_for_ever(kind: str) -> None:
    pod = {"restartPolicy": "Never", "activeDeadlineSeconds": 5}
    path = f"spec.template.{kind}.spec.template.spec"
    assert fields(united(subset(), template=template_of(kind, pod=pod))) == [
        f"{path}.restartPolicy",
        f"{path}.activeDeadlineSeconds",
    ]


@pytest.mark.parametrize("kind", ALL_TEMPLATES)
def test_a_template_of_invalid_pods_gets_a_warning(kind: str) -> None:
    template = template_of(kind, image="")
    (text,) = warnings(united(subset(), template=template))
    assert text.startswith(f"spec.template.{kind}.spec.template.spec.containers[0].image: ")


def test_a_template_of_the_wrong_shape_cannot_be_read() -> None:
    template = template_of(CLONE_SET)
    template[CLONE_SET]["spec"]["template"]["spec"]["containers"] = 3
    refusal = reviewed(validate_united, united(subset(), template=template), None).refusal
    assert refusal is not None
    assert refusal.code == 400


# ── a subset's patch, as it is applied later ─────────────────────────────


def test_a_patch_that_makes_no_pod_is_a_warning_and_names_the_subset() -> None:
    bad = {"spec": {"containers": [{"name": "side", "image": ""}]}}
    result = warnings(united(subset("a"), subset("b", patch=bad)))
    assert result
    assert all(text.startswith(f"{SUBSETS}[1].patch") for text in result)


def test_a_patch_that_cannot_be_merged_is_a_warning() -> None:
    (text,) = warnings(united(subset(patch={"spec": {"$patch": "unheard-of"}})))
    assert text.startswith(f"{SUBSETS}[0].patch: failed to merge patch")


def test_a_good_patch_gets_no_warning() -> None:
    patch = {"metadata": {"labels": {"tier": "x"}}, "spec": {"tolerations": [{"operator": "Exists"}]}}
    assert warnings(united(subset(patch=patch))) == []


# ── sizes ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sizes", "is_taken"), [((2, 2), False), ((2, 3), True), ((2, None), True), ((4, 3), False)]
)
def test_replicas_of_the_subsets_must_fit(sizes: tuple[int | None, ...], is_taken: bool) -> None:
    """uniteddeployment case 6"""
    subsets = [subset(name, replicas=size) for name, size in zip("ab", sizes, strict=True)]
    replicas = fields(united(*subsets, replicas=5))
    assert set(replicas) == (set() if is_taken else {SUBSETS})


def test_percentages_are_rounded_before_they_are_added_up() -> None:
    """uniteddeployment case 7"""
    halves = [subset("a", replicas="50%"), subset("b", replicas="50%")]
    assert set(fields(united(*halves, replicas=3))) == {SUBSETS}
    assert fields(united(*halves, replicas=4)) == []


@pytest.mark.parametrize("value", ["101%", "-1", "1.5%", "3", -1])
@pytest.mark.parametrize("field", ["replicas", "minReplicas", "maxReplicas"])
def test_an_invalid_subset_size_is_refused(field: str, value: Any) -> None:
    """uniteddeployment case 8"""
    result = fields(united(subset("a", **{field: value}), subset("b"), replicas=3))
    assert result == [f"{SUBSETS}[0].{field}"]


def test_one_subset_must_be_unbounded_and_minimums_below_maximums() -> None:
    """uniteddeployment case 9"""
    all_bounded = united(subset("a", maxReplicas=1), subset("b", maxReplicas=1))
    assert fields(all_bounded) == [SUBSETS]
    crossed = united(subset("a", minReplicas=3, maxReplicas=2), subset("b"), replicas=4)
    assert fields(crossed) == [f"{SUBSETS}[0].minReplicas"]


def test_subsets_of_the_adaptive_strategy_have_bounds_only() -> None:
    """uniteddeployment case 10"""
    topology = adaptive(subset("a", replicas=1), subset("b"))
    assert fields(united(topology=topology)) == [f"{SUBSETS}[0].replicas"]


def test_no_subsets_are_taken() -> None:
    assert fields(united(replicas=3)) == []


def test_negative_replicas_are_refused() -> None:
    assert "spec.replicas" in fields(united(subset(), replicas=-1))


@pytest.mark.parametrize(
    "selector", [None, {}, {"matchLabels": {}}, {"matchExpressions": [{"key": "a", "operator": "Near"}]}]
)
def test_a_selector_must_select_something(selector: Any) -> None:
    document = united(subset(), selector=selector)
    assert fields(document) == ["spec.selector"]


# ── subsets, and partitions ──────────────────────────────────────────────


def test_partitions_are_of_subsets() -> None:
    """uniteddeployment case 11"""
    strategy = {"type": "Manual", "manualUpdate": {"partitions": {"x": 1, "a": -1}}}
    assert fields(united(subset(), updateStrategy=strategy)) == [
        "spec.updateStrategy.manualUpdate.partitions"
    ]


def test_another_update_strategy_type_is_refused() -> None:
    assert fields(united(subset(), updateStrategy={"type": "Auto"})) == ["spec.updateStrategy.type"]


@pytest.mark.parametrize("name", ["A_b", "a" * 64, "a.b", "-a"])
def test_a_subsets_name_is_a_dns_label(name: str) -> None:
    """uniteddeployment case 17"""
    assert fields(united(subset(name))) == [f"{SUBSETS}[0].name"]


def test_names_are_given_and_differ() -> None:
    assert fields(united(subset("a"), subset("a"))) == [f"{SUBSETS}[1].name"]
    assert set(fields(united(subset("")))) == {f"{SUBSETS}[0].name"}


def test_nodes_are_selected_by_rules_but_values_may_be_anything() -> None:
    bad = {"matchExpressions": [{"key": "zone", "operator": "Near"}]}
    odd = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["no label value!"]}]}
    path = f"{SUBSETS}[0].nodeSelectorTerm.matchExpressions[0].operator"
    assert fields(united(subset(nodeSelectorTerm=bad))) == [path]
    assert fields(united(subset(nodeSelectorTerm=odd))) == []
    tolerations = [{"key": "a", "operator": "Maybe"}]
    assert fields(united(subset(tolerations=tolerations))) == [f"{SUBSETS}[0].tolerations[0].operator"]


# ── updates ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSelectorTerm", {"matchExpressions": [{"key": "x", "operator": "Exists"}]}),
        ("tolerations", [{"operator": "Exists"}]),
    ],
)
def test_the_placement_of_a_subset_is_immutable(field: str, value: Any) -> None:
    """uniteddeployment case 12"""
    old = united(subset("b"), subset("a"))
    assert fields(united(subset("a", **{field: value})), old) == [f"{SUBSETS}[0].{field}"]
    assert fields(united(subset("a2", **{field: value})), old) == []
    assert fields(united(subset("a"), subset("b")), old) == []


@pytest.mark.parametrize(
    ("kind", "change", "is_taken"),
    [
        (STATEFUL_SET, {"serviceName": "other"}, False),
        (STATEFUL_SET, {"podManagementPolicy": "OrderedReady"}, False),
        (STATEFUL_SET, {"ordinals": {"start": 3}}, True),
        (STATEFUL_SET, {"minReadySeconds": 3}, True),
        (ADVANCED_STATEFUL_SET, {"reserveOrdinals": [1]}, False),
        (ADVANCED_STATEFUL_SET, {"updateStrategy": {"type": "OnDelete"}}, True),
        (DEPLOYMENT, {"progressDeadlineSeconds": 30}, True),
        (CLONE_SET, {"minReadySeconds": 3}, True),
    ],
)
def test_a_template_change_that_the_workload_forbids_is_refused(
    kind: str, change: Document, is_taken: bool
) -> None:
    """uniteddeployment cases 13 and 14"""
    old = united(subset(), kind=kind)
    new = united(subset(), template=template_of(kind, **change))
    assert fields(new, old) == ([] if is_taken else [f"spec.template.{kind}.spec"])


def test_an_explicit_default_is_not_a_change() -> None:
    old = united(subset(), template=template_of(STATEFUL_SET, podManagementPolicy=None))
    new = united(subset(), template=template_of(STATEFUL_SET, podManagementPolicy="OrderedReady"))
    assert fields(new, old) == []


def test_the_kind_of_template_may_change() -> None:
    """uniteddeployment case 15"""
    assert fields(united(subset()), united(subset(), kind=STATEFUL_SET)) == []


@pytest.mark.parametrize(("replicas", "is_on", "code"), [(1, True, 403), (0, True, None), (1, False, None)])
def test_an_object_with_pods_is_protected_from_deletion(replicas: int, is_on: bool, code: int | None) -> None:
    """uniteddeployment case 16"""
    old = united(subset(), replicas=replicas)
    old["metadata"]["labels"] = {"policy.kruise.io/delete-protection": "Cascading"}

    async def review() -> AdmissionAnswer:
        return await Protection(is_on=is_on).review(request(UNITED_DEPLOYMENTS, None, old=old))

    refusal = asyncio.run(review()).refusal
    assert (refusal.code if refusal is not None else None) == code
