"""Objects that are refused, with the field. Cases are those of the specification of PersistentPodState."""

from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.admission import build_validating_review
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import ADVANCED, BUILT_IN, StateView, project_state
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.documents import Document, deep_copy, encode
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.allowed_workloads import WhiteListError
from support.reviews import at_once, request

TARGET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}


def state(name: str = "web", **spec: Any) -> Document:
    result: Document = {"targetRef": TARGET, "requiredPersistentTopology": {"keys": ["zone"]}, **spec}
    return {
        "apiVersion": PERSISTENT_POD_STATES.api_version,
        "kind": PERSISTENT_POD_STATES.kind,
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "1"},
        "spec": {key: value for key, value in result.items() if value is not None},
    }


class Reader:
    def __init__(
        self, *others: Document, listed: tuple[GroupKind, ...] = (), is_broken: bool = False
    ) -> None:
        self._others = [project_state(encode(entry)) for entry in others]
        self._listed, self._is_broken = listed, is_broken

    async def list_states(self, namespace: str) -> list[StateView]:
        return self._others

    async def is_supported(self, kind: GroupKind | None) -> bool:
        if self._is_broken:
            raise WhiteListError("no JSON")
        return kind in (ADVANCED, BUILT_IN, *self._listed)


def review(doc: Document, *, old: Document | None = None, reader: Reader | None = None) -> AdmissionAnswer:
    return at_once(build_validating_review(reader or Reader()), request(PERSISTENT_POD_STATES, doc, old=old))


def errors(doc: Document, **options: Any) -> list[str]:
    """The errors, each as `Reason @ field`."""
    refused = review(doc, **options).refusal
    if refused is None:
        return []
    assert refused.code == 400
    assert refused.details is not None
    assert refused.details.causes
    return [f"{cause.reason} @ {cause.field}" for cause in refused.details.causes]


INVALID = "FieldValueInvalid"


def test_a_valid_persistentpodstate_is_allowed() -> None:
    assert errors(state()) == []


def test_kinds_are_those_of_stateful_sets_and_of_the_white_list() -> None:
    """persistentpodstate case 52"""
    deployment = state(targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
    assert errors(deployment) == [f"{INVALID} @ spec.targetRef"]
    assert errors(deployment, reader=Reader(listed=(GroupKind("apps", "Deployment"),))) == []


def test_a_persistent_pod_state_needs_a_required_or_preferred_topology() -> None:
    """persistentpodstate case 53"""
    assert errors(state(requiredPersistentTopology=None)) == [f"{INVALID} @ spec"]
    for weight in (1, 100):
        preferred = [{"weight": weight, "preference": {"keys": ["host"]}}]
        assert errors(state(requiredPersistentTopology=None, preferredPersistentTopology=preferred)) == []


def test_a_second_persistentpodstate_for_a_workload_is_refused() -> None:
    """persistentpodstate case 54"""
    built_in = {**TARGET, "apiVersion": "apps/v1"}
    older = {**TARGET, "apiVersion": "apps.kruise.io/v1alpha1"}
    assert errors(state("b"), reader=Reader(state("a", targetRef=older))) == [f"{INVALID} @ spec.targetRef"]
    assert errors(state("b"), reader=Reader(state("a", targetRef=built_in), state("b"))) == []
    # and of several other objects, only the first by name is named
    refused = review(state("x"), reader=Reader(state("c"), state("b"))).refusal
    assert refused is not None
    assert refused.message.count("names the same workload") == 1
    assert "PersistentPodState b names" in refused.message


def test_the_target_reference_is_immutable() -> None:
    """persistentpodstate case 55: even if only its version differs"""
    changed = state(targetRef={**TARGET, "apiVersion": "apps.kruise.io/v1alpha1"})
    assert errors(changed, old=state()) == ["FieldValueForbidden @ spec.targetRef"]


def test_keys_policy_and_metadata_may_change() -> None:
    """persistentpodstate case 56; 9.1: also of an object that names the same workload as itself"""
    changed = state(
        requiredPersistentTopology={"keys": ["host"]}, persistentPodStateRetentionPolicy="WhenDeleted"
    )
    changed["metadata"]["labels"] = {"a": "b"}
    assert errors(changed, old=state(), reader=Reader(state())) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        *(
            ({"preferredPersistentTopology": [{"weight": weight, "preference": {"keys": ["host"]}}]}, path)
            for weight in (0, 101)
            for path in ("spec.preferredPersistentTopology[0].weight",)
        ),
        ({"requiredPersistentTopology": {"keys": []}}, "spec.requiredPersistentTopology.keys"),
        ({"requiredPersistentTopology": {"keys": ["a", "b c"]}}, "spec.requiredPersistentTopology.keys[1]"),
        ({"persistentPodAnnotations": [{"key": "-"}]}, "spec.persistentPodAnnotations[0].key"),
        (
            {"preferredPersistentTopology": [{"weight": 1, "preference": {"keys": [""]}}]},
            "spec.preferredPersistentTopology[0].preference.keys[0]",
        ),
    ],
)
def test_an_unworkable_topology_is_refused(spec: Document, field: str) -> None:
    """persistentpodstate case 58; LIFT-1"""
    assert f"{INVALID} @ {field}" in errors(state(**spec))


def test_an_unknown_retention_policy_is_refused_in_every_version() -> None:
    """LIFT-1"""
    result = errors(state(persistentPodStateRetentionPolicy="Never"))
    assert result == ["FieldValueNotSupported @ spec.persistentPodStateRetentionPolicy"]


@pytest.mark.parametrize(
    "stored",
    [
        state(preferredPersistentTopology=[{"weight": 0, "preference": {"keys": ["host"]}}]),
        state(requiredPersistentTopology=None),
        state(targetRef={**TARGET, "kind": "Deployment"}),
    ],
    ids=["weight", "no topology", "a kind that is not remembered"],
)
def test_a_stored_invalid_object_may_be_labelled(stored: Document) -> None:
    """LIFT-1: an update of another field is allowed"""
    labelled = deep_copy(stored)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert errors(stored) != []
    assert errors(labelled, old=stored) == []


def test_a_fault_that_is_stored_keeps_no_other_field_from_being_changed() -> None:
    """LIFT-1: OpenKruise accepts a weight of 0, invalid keys and, in v1alpha1, any policy"""
    # given
    faults = {
        "requiredPersistentTopology": {"keys": ["b c"]},
        "preferredPersistentTopology": [{"weight": 0, "preference": {"keys": ["host"]}}],
        "persistentPodStateRetentionPolicy": "Never",
    }
    stored = state(**faults)
    assert len(errors(stored)) == 3
    # when another annotation should be recorded
    changed = state(**faults, persistentPodAnnotations=[{"key": "ip"}])
    # then
    assert errors(changed, old=stored) == []
    # but a new invalid value is an error
    changed = state(**faults, persistentPodAnnotations=[{"key": "-"}])
    assert errors(changed, old=stored) == [f"{INVALID} @ spec.persistentPodAnnotations[0].key"]


def test_a_target_reference_must_have_all_fields() -> None:
    """persistentpodstate case 59"""
    assert errors(state(targetRef={**TARGET, "name": ""})) == [f"{INVALID} @ spec.targetRef"]
    assert errors(state(targetRef={**TARGET, "apiVersion": "a/b/c"})) == [f"{INVALID} @ spec.targetRef"]
    # and without a known kind there is a second error
    for reference in (None, {**TARGET, "apiVersion": ""}, {**TARGET, "kind": ""}):
        assert errors(state(targetRef=reference)) == [f"{INVALID} @ spec.targetRef"] * 2


def test_a_missing_spec_reports_all_required_fields() -> None:
    doc = state()
    for spec in (None, {}):
        assert errors({**doc, "spec": spec}) == [*[f"{INVALID} @ spec.targetRef"] * 2, f"{INVALID} @ spec"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (3, "spec: Expected `object`, got `int`"),
        ({**state()["spec"], "targetRef": 3}, "spec.targetRef: Expected `object`, got `int`"),
    ],
)
def test_an_unreadable_object_is_refused_with_its_field(spec: Any, problem: str) -> None:
    refused = review({**state(), "spec": spec}).refusal
    assert refused is not None
    assert (refused.code, refused.message) == (400, problem)


def test_a_review_without_an_object_is_refused() -> None:
    refused = at_once(
        build_validating_review(Reader()), request(PERSISTENT_POD_STATES, operation="CREATE")
    ).refusal
    assert refused is not None
    assert refused.code == 400


def test_the_object_is_validated_alone_without_a_reader() -> None:
    deployment = state(targetRef={**TARGET, "kind": "Deployment"})
    assert at_once(build_validating_review(None), request(PERSISTENT_POD_STATES, deployment)).refusal is None
    nothing = at_once(
        build_validating_review(None), request(PERSISTENT_POD_STATES, state(requiredPersistentTopology=None))
    )
    assert nothing.refusal is not None


def test_a_white_list_that_cannot_be_read_is_an_internal_error() -> None:
    """persistentpodstate case 39; rule P1"""
    assert errors(state(requiredPersistentTopology=None), reader=Reader(is_broken=True)) == [
        "InternalError @ <nil>"
    ]


def test_a_deletion_is_not_validated() -> None:
    answer = at_once(
        build_validating_review(Reader(is_broken=True)), request(PERSISTENT_POD_STATES, old=state())
    )
    assert answer.refusal is None
