"""Objects of a kind whose feature gate is off cannot be created; existing ones can be finished and deleted."""

from typing import Any

import msgspec
import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.admission import AdmissionAnswer, ReviewRule
from pykruise.kube.resources import Resource
from support.reviews import at_once, request

NO_DAEMON = {"KruiseDaemon": False}
NO_BUDGETS = {"PodUnavailableBudgetDeleteGate": False, "PodUnavailableBudgetUpdateGate": False}

CASES: list[tuple[str, str, dict[str, bool], str, int]] = [
    ("nodeimage", "v", NO_DAEMON, "feature-gate KruiseDaemon is not enabled", 403),
    ("imagepulljob", "v", {}, "feature-gate ImagePullJobGate is not enabled", 403),
    ("imagepulljob", "v", NO_DAEMON, "feature-gate KruiseDaemon is not enabled", 403),
    ("imagelistpulljob", "v", {}, "feature-gate ImagePullJobGate is not enabled", 403),
    ("imagelistpulljob", "v", NO_DAEMON, "feature-gate KruiseDaemon is not enabled", 403),
    ("containerrecreaterequest", "m", NO_DAEMON, "feature-gate KruiseDaemon is not enabled", 403),
    (
        "podprobemarker",
        "v",
        {"PodProbeMarkerGate": False},
        "feature-gate PodProbeMarkerGate is not enabled",
        403,
    ),
    ("resourcedistribution", "v", {}, "feature-gate ResourceDistributionGate is not enabled", 403),
    (
        "podunavailablebudget",
        "v",
        NO_BUDGETS,
        "feature PodUnavailableBudget is invalid, please open via"
        " feature-gate(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)",
        400,
    ),
]
"""Kind, webhook, feature gates, message and code of the refusal."""

ALL_ON = {
    "ImagePullJobGate": True,
    "ResourceDistributionGate": True,
    "PodUnavailableBudgetUpdateGate": True,
}


def rule_of(kind: str, side: str, **gates: bool) -> ReviewRule:
    settings = make_admission_settings(Gates.of(**gates))
    return next(
        rule
        for rule in build_reviewers(settings)
        if any(path.endswith(f"kruise-io-{kind}") for path in rule.paths) and rule.mutating is (side == "m")
    )


def resource_of(rule: ReviewRule, kind: str) -> Resource:
    (only,) = rule.rules
    return Resource(only.groups[0], only.versions[-1], only.resources[0], kind)


def asked(
    rule: ReviewRule, kind: str, doc: dict[str, Any], old: dict[str, Any] | None = None
) -> AdmissionAnswer:
    return at_once(rule.reviewer, request(resource_of(rule, kind), doc, old=old))


def test_no_object_of_a_kind_with_a_disabled_controller_can_be_created() -> None:
    """Without a running controller an object is rejected, because a warning is easily missed."""
    looked_at = set()
    for kind in list_kinds():
        gates = dict.fromkeys((*kind.gates, *kind.any_gate), False)
        if not kind.versions or not gates or kind.name == "nodepodprobe":  # the manager creates these
            continue
        assert not kind.is_enabled(Gates.of(**gates).__getitem__)
        looked_at.add(kind.name)
        rules = [
            rule
            for rule in build_reviewers(make_admission_settings(Gates.of(**gates)))
            if any(path.endswith(f"kruise-io-{kind.name}") for path in rule.paths)
        ]
        doc: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}}
        answers = [asked(rule, kind.name, doc) for rule in rules]
        assert any(answer.refusal is not None for answer in answers), kind.name
    assert {case[0] for case in CASES} <= looked_at


@pytest.mark.parametrize(("kind", "side", "gates", "message", "code"), CASES)
def test_objects_of_a_kind_with_a_disabled_gate_cannot_be_created_or_changed(
    kind: str, side: str, gates: dict[str, bool], message: str, code: int
) -> None:
    """admission case 45, containers case 8, images case 34, operations case 5; admission 3.5"""
    rule = rule_of(kind, side, **gates)
    doc: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"a": 1}}
    for answer in (asked(rule, kind, doc), asked(rule, kind, {**doc, "spec": {"a": 2}}, old=doc)):
        assert answer.refusal is not None
        assert (answer.refusal.message, answer.refusal.code) == (message, code)


@pytest.mark.parametrize(("kind", "side", "gates", "message", "code"), CASES)
def test_existing_objects_of_a_disabled_kind_can_be_labelled_finished_and_deleted(
    kind: str, side: str, gates: dict[str, bool], message: str, code: int
) -> None:
    """admission 3.5: deletes are never refused; pitfall 14"""
    rule = rule_of(kind, side, **gates)
    doc: dict[str, Any] = {"metadata": {"name": "x", "finalizers": ["a/b"]}, "spec": {"a": 1}}
    bare = {**doc, "metadata": {"name": "x", "labels": {"seen": "yes"}}}
    if kind != "resourcedistribution":  # its own rules check the remaining fields
        assert asked(rule, kind, bare, old=doc).refusal is None
    going = {**doc, "metadata": {**doc["metadata"], "deletionTimestamp": "2026-01-31T12:00:00Z"}}
    gone = {**going, "metadata": {**going["metadata"], "finalizers": []}}
    assert asked(rule, kind, gone, old=going).refusal is None
    assert not rule.wants(resource_of(rule, kind), "", "DELETE")
    assert not rule.wants(resource_of(rule, kind), "status", "UPDATE")


@pytest.mark.parametrize(("kind", "side"), [(kind, side) for kind, side, gates, *_ in CASES if gates])
def test_only_the_rules_of_the_kind_apply_with_the_gates_on(kind: str, side: str) -> None:
    rule = rule_of(kind, side, **ALL_ON)
    refusal = asked(rule, kind, {"metadata": {"name": "x"}, "spec": {"a": 1}}).refusal
    assert refusal is None or (refusal.code == 422 and "gate" not in refusal.message)


def test_a_disabled_kind_is_refused_in_the_older_version_too() -> None:
    rule = rule_of("imagepulljob", "v")
    resource = msgspec.structs.replace(resource_of(rule, "ImagePullJob"), version="v1alpha1")
    doc = {"apiVersion": resource.api_version, "kind": "ImagePullJob", "metadata": {"name": "x"}, "spec": {}}
    answer = at_once(rule.reviewer, request(resource, doc))
    assert answer.refusal is not None
    assert answer.refusal.message == "feature-gate ImagePullJobGate is not enabled"


def test_a_distribution_of_v1alpha1_has_its_own_names() -> None:
    """admission case 57, as far as errors go"""
    rule = rule_of("resourcedistribution", "v", ResourceDistributionGate=True)
    resource = msgspec.structs.replace(resource_of(rule, "ResourceDistribution"), version="v1alpha1")
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    doc = {
        "apiVersion": resource.api_version,
        "kind": "ResourceDistribution",
        "metadata": {"name": "x"},
        "spec": {"resource": secret, "targets": {"namespaceLabelSelector": selector}},
    }
    answer = at_once(rule.reviewer, request(resource, doc))
    assert answer.refusal is not None
    assert answer.refusal.details is not None
    (cause,) = answer.refusal.details.causes
    assert cause.field == "spec.targets.namespaceLabelSelector"


def test_names_and_paths_are_the_originals() -> None:
    """admission 3.1 and 3.2, with the older spelling of paths"""
    originals = {rule.name: rule for rule in build_reviewers()}
    for name, path, alias in (
        ("mcontainerrecreaterequest.kb.io", "/mutate-apps-kruise-io-containerrecreaterequest", True),
        ("vnodeimage.kb.io", "/validate-apps-kruise-io-nodeimage", True),
        ("vimagepulljob-v1beta1.kb.io", "/validate-apps-kruise-io-imagepulljob", True),
        ("vimagelistpulljob-v1beta1.kb.io", "/validate-apps-kruise-io-imagelistpulljob", True),
        ("vpodprobemarker.kb.io", "/validate-apps-kruise-io-podprobemarker", False),
        ("vworkloadspread.kb.io", "/validate-apps-kruise-io-workloadspread", True),
        ("vresourcedistribution.kb.io", "/validate-apps-kruise-io-resourcedistribution", True),
        ("vpodunavailablebudget.kb.io", "/validate-policy-kruise-io-podunavailablebudget", False),
    ):
        assert originals[name].path == path
        if alias:
            assert path.replace("kruise-io-", "kruise-io-v1alpha1-") in originals[name].paths
