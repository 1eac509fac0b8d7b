"""Deletion protection, for each kind."""

import asyncio
from typing import Any

import pytest

from pykruise.admission.protection import (
    LABEL,
    Protection,
    RefusedDeletion,
    add_protection,
    find_crd_resource,
)
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from support.reviews import at_once, request

INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")


def kruise(plural: str, kind: str, version: str = "v1beta1") -> Resource:
    return Resource("apps.kruise.io", version, plural, kind)


WORKLOADS = [
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    kruise("clonesets", "CloneSet"),
    kruise("statefulsets", "StatefulSet"),
    kruise("uniteddeployments", "UnitedDeployment"),
    kruise("uniteddeployments", "UnitedDeployment", "v1alpha1"),
]


class Counts:
    """A cluster with this many objects; None: the request fails."""

    def __init__(self, pods: int | None = 0, claims: int | None = 0, objects: int | None = 0) -> None:
        self._pods, self._claims, self._objects = pods, claims, objects
        self.asked: list[str] = []

    def _answer(self, what: str, count: int | None) -> int:
        self.asked.append(what)
        if count is None:
            raise KubeError("connection refused")
        return count

    async def count_active_pods(self, namespace: str) -> int:
        return self._answer(f"pods of {namespace}", self._pods)

    async def count_bound_claims(self, namespace: str) -> int:
        return self._answer(f"claims of {namespace}", self._claims)

    async def count_custom_resources(self, resource: Resource) -> int:
        return self._answer(f"{resource} {resource.version}", self._objects)


def labelled(value: str | None, *, name: str = "x", deleting: bool = False, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if value is not None:
        metadata["labels"] = {LABEL: value}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    return {"metadata": metadata, "spec": spec}


def deleting(
    resource: Resource,
    doc: dict[str, Any] | None,
    *,
    counts: Counts | None = None,
    gate: bool = True,
    crd_gate: bool = True,
    refused: list[RefusedDeletion] | None = None,
    **asked: Any,
) -> AdmissionAnswer:
    protection = Protection(
        counts or Counts(),
        is_on=gate,
        crd_cascading=crd_gate,
        on_refused=refused.append if refused is not None else lambda _: None,
    )
    name = ((doc or {}).get("metadata") or {}).get("name", "")
    asked_for = request(resource, None, old=doc, **{"operation": "DELETE", "name": name, **asked})
    return at_once(protection.review, asked_for)


def message(answer: AdmissionAnswer) -> str:
    assert answer.refusal is not None
    assert (answer.refusal.code, answer.refusal.reason) == (403, "Forbidden")
    words = f"forbidden by ResourcesProtectionDeletion for {LABEL}="
    assert answer.refusal.message.startswith(words)
    return answer.refusal.message.removeprefix(words)


PROTECTED = [*WORKLOADS, SERVICES, INGRESSES, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS]


@pytest.mark.parametrize("resource", PROTECTED, ids=str)
def test_always_protects_every_kind_of_the_table(resource: Resource) -> None:
    """admission cases 42 and 43"""
    assert message(deleting(resource, labelled("Always"))) == "Always"


@pytest.mark.parametrize("resource", PROTECTED, ids=str)
@pytest.mark.parametrize("value", [None, "always", "", "cascading", "Alwayss"])
def test_no_label_and_other_values_protect_nothing(resource: Resource, value: str | None) -> None:
    """admission case 41"""
    counts = Counts(9, 9, 9)
    assert deleting(resource, labelled(value, replicas=3), counts=counts) == ALLOWED
    assert counts.asked == []


@pytest.mark.parametrize("resource", PROTECTED, ids=str)
def test_a_terminating_object_may_be_deleted_again(resource: Resource) -> None:
    """admission case 37"""
    assert deleting(resource, labelled("Always", deleting=True)) == ALLOWED


@pytest.mark.parametrize("resource", PROTECTED, ids=str)
def test_nothing_is_protected_without_the_gate(resource: Resource) -> None:
    assert deleting(resource, labelled("Always"), gate=False) == ALLOWED


def test_writes_that_are_no_deletion_of_a_known_object_are_allowed() -> None:
    """pitfall 18"""
    doc = labelled("Always")
    assert deleting(DEPLOYMENTS, None) == ALLOWED
    assert deleting(DEPLOYMENTS, doc, subresource="scale") == ALLOWED
    assert deleting(DEPLOYMENTS, doc, operation="UPDATE") == ALLOWED


@pytest.mark.parametrize("resource", WORKLOADS, ids=str)
def test_cascading_protects_workloads_that_want_replicas(resource: Resource) -> None:
    """admission case 40; cloneset case 19"""
    assert message(deleting(resource, labelled("Cascading", replicas=1))) == "Cascading and replicas 1>0"
    assert deleting(resource, labelled("Cascading", replicas=0)) == ALLOWED
    assert deleting(resource, labelled("Cascading")) == ALLOWED
    assert deleting(resource, {**labelled("Cascading"), "spec": None}) == ALLOWED


@pytest.mark.parametrize("resource", [SERVICES, INGRESSES], ids=str)
def test_cascading_has_no_effect_on_services_and_ingresses(resource: Resource) -> None:
    """admission case 42"""
    assert deleting(resource, labelled("Cascading", replicas=3)) == ALLOWED


@pytest.mark.parametrize("plural", ["daemonsets", "sidecarsets", "broadcastjobs"])
def test_other_kinds_of_kruise_are_not_protected(plural: str) -> None:
    """admission case 44"""
    assert deleting(kruise(plural, "X"), labelled("Always", replicas=3)) == ALLOWED


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(pods=3, claims=2), "Cascading and active pods 3>0"),
        (Counts(pods=0, claims=1), 'Cascading and "Bound" status pvc 1>0'),
        (Counts(pods=None), "Cascading, and pods cannot be counted: connection refused"),
        (Counts(claims=None), "Cascading, and claims cannot be counted: connection refused"),
    ],
)
def test_cascading_protects_a_namespace_with_something_in_it(counts: Counts, words: str) -> None:
    """admission case 36"""
    assert message(deleting(NAMESPACES, labelled("Cascading", name="shop"), counts=counts)) == words


def test_an_empty_namespace_may_be_deleted() -> None:
    """admission case 35"""
    counts = Counts()
    assert deleting(NAMESPACES, labelled("Cascading", name="shop"), counts=counts) == ALLOWED
    assert counts.asked == ["pods of shop", "claims of shop"]


CRD: dict[str, Any] = {
    "metadata": {"name": "games.example.com", "labels": {LABEL: "Cascading"}},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "games", "kind": "Game"},
        "versions": [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}],
    },
}


def test_cascading_protects_a_crd_with_objects() -> None:
    """admission case 39"""
    counts = Counts(objects=4)
    assert (
        message(deleting(CUSTOM_RESOURCE_DEFINITIONS, CRD, counts=counts)) == "Cascading and active CRs 4>0"
    )
    assert counts.asked == ["games.example.com v2"], "in the storage version"
    assert deleting(CUSTOM_RESOURCE_DEFINITIONS, CRD, counts=Counts(objects=0)) == ALLOWED
    unknown = deleting(CUSTOM_RESOURCE_DEFINITIONS, CRD, counts=Counts(objects=None))
    assert "custom resources cannot be counted" in message(unknown)


def test_cascading_protection_of_a_crd_needs_its_own_gate() -> None:
    """admission case 38"""
    words = message(deleting(CUSTOM_RESOURCE_DEFINITIONS, CRD, crd_gate=False))
    assert "feature-gate DeletionProtectionForCRDCascadingGate is not enabled" in words


def test_the_resource_of_an_old_crd_is_found_by_its_only_version() -> None:
    old = {
        "spec": {"group": "g", "version": "v1", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}}
    }
    assert find_crd_resource(old) == Resource("g", "v1", "xs", "X", namespaced=False)
    assert find_crd_resource({"spec": {"group": "g"}}) is None


def test_refusals_are_reported_with_the_user() -> None:
    """admission case 34"""
    refused: list[RefusedDeletion] = []
    service = labelled("Always", name="web")
    service["metadata"]["namespace"] = "shop"
    deleting(NAMESPACES, labelled("Always", name="shop"), refused=refused, namespace="shop")
    deleting(SERVICES, service, refused=refused)
    deleting(DEPLOYMENTS, labelled("Cascading", replicas=0), refused=refused)
    assert refused == [
        RefusedDeletion(kind="Namespace", namespace="", name="shop", username="alice", is_counted=True),
        RefusedDeletion(kind="Service", namespace="shop", name="web", username="alice", is_counted=False),
    ]


def test_the_deletion_of_a_collection_is_reviewed_and_reported_with_the_name_of_each_object() -> None:
    """pitfall 13"""
    # given requests without a name, as API servers send them for each object of a collection
    refused: list[RefusedDeletion] = []
    counts = Counts(pods=1)
    doc = labelled("Always", name="web")
    doc["metadata"]["namespace"] = "shop"
    # when
    deleting(DEPLOYMENTS, doc, refused=refused, name="", namespace="shop")
    deleting(NAMESPACES, labelled("Cascading", name="other"), counts=counts, refused=refused, name="")
    # then
    assert [(each.namespace, each.name) for each in refused] == [("shop", "web"), ("", "other")]
    assert counts.asked == ["pods of other"]


def test_a_kinds_own_review_decides_about_everything_but_deletions() -> None:
    async def own(asked: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(warnings=(asked.operation,))

    review = add_protection(Protection(Counts(), is_on=True), own)
    resource = kruise("clonesets", "CloneSet")
    assert at_once(review, request(resource, {})).warnings == ("CREATE",)
    answer = at_once(review, request(resource, None, old=labelled("Always")))
    assert message(answer) == "Always"


def test_services_and_ingresses_have_no_webhook_without_the_gate() -> None:
    """admission case 9, as far as the table covers it"""

    def names(**settings: bool) -> set[str]:
        return {rule.name for rule in build_reviewers(AdmissionSettings(**settings))}

    assert names(deletion_protection=True) - names() == {"vservice.kb.io", "vingress.kb.io"}


def test_protection_works_without_pod_webhooks() -> None:
    """pitfall 6; operations case 9"""
    settings = AdmissionSettings(deletion_protection=True, pod_webhook=False)
    protection = Protection(Counts(pods=1), is_on=True)
    rules = {rule.name: rule for rule in build_reviewers(settings, ReviewContext(protection=protection))}
    assert "mpod.kb.io" not in rules
    asked = request(NAMESPACES, None, old=labelled("Cascading"), name="x")
    answer = asyncio.run(_ask(rules["vnamespace.kb.io"].reviewer, asked))
    assert message(answer) == "Cascading and active pods 1>0"


async def _ask(reviewer: Any, asked: AdmissionRequest) -> AdmissionAnswer:
    admission_answer: AdmissionAnswer = await reviewer(asked)
    return admission_answer
