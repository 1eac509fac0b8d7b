"""ResourceDistribution: rejections with their field paths, and the dry run on an API server."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kinds.resourcedistribution.admission import Trial, build_validating_review
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.resourcedistribution.validation import errors_of
from pykruise.kinds.resourcedistribution.view import read_spec
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.documents import Document
from pykruise.kube.errors import UnreachableError, parse_error
from support.reviews import at_once, request
from support.scripted import refusal

SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "pull"},
    "data": {"password": "c2VjcmV0"},
}


def distribution(resource: Any = SECRET, **targets: Any) -> Document:
    return {
        "apiVersion": RESOURCE_DISTRIBUTIONS.api_version,
        "kind": "ResourceDistribution",
        "metadata": {"name": "pull"},
        "spec": {"resource": resource, "targets": targets or {"allNamespaces": True}},
    }


def named(*names: str) -> dict[str, Any]:
    return {"list": [{"name": name} for name in names]}


def errors(doc: Document, *, old: Document | None = None, trial: Trial | None = None) -> list[str]:
    answer = at_once(build_validating_review(trial), request(RESOURCE_DISTRIBUTIONS, doc, old=old))
    return causes_of(answer)


def causes_of(answer: AdmissionAnswer) -> list[str]:
    if answer.refusal is None:
        return []
    assert answer.refusal.code == 422
    assert answer.refusal.details is not None
    return [f"{cause.field}: {cause.message}" for cause in answer.refusal.details.causes]


def test_a_secret_for_all_namespaces_is_accepted() -> None:
    assert errors(distribution()) == []
    assert errors(distribution(), old=distribution()) == []


def test_a_namespace_in_the_resource_is_ignored() -> None:
    """admission case 48"""
    resource = {**SECRET, "metadata": {"name": "pull", "namespace": "foo"}}
    assert errors(distribution(resource)) == []


@pytest.mark.parametrize(
    ("doc", "wanted"),
    [
        # rule 2
        (distribution({}), ['spec.resource: Invalid value: "": empty resource is not allowed']),
        # rule 3
        (
            distribution({"kind": "Secret"}),
            ["spec.resource: Internal error: apiVersion and kind are required"],
        ),
        (
            distribution({**SECRET, "kind": ""}),
            ["spec.resource: Internal error: apiVersion and kind are required"],
        ),
        # rule 4, admission case 46
        (
            distribution({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}),
            [
                'spec.resource: Invalid value: "apps/v1 Deployment web": only a Secret or a ConfigMap (v1)'
                " can be distributed"
            ],
        ),
        # rule 8
        (
            distribution(includedNamespaces=named("a", "b"), excludedNamespaces=named("b")),
            ['spec.targets: Invalid value: "b": a namespace cannot be both included and excluded'],
        ),
    ],
)
def test_wrong_fields_are_refused_by_name(doc: Document, wanted: list[str]) -> None:
    assert errors(doc) == wanted


@pytest.mark.parametrize("field", ["includedNamespaces", "excludedNamespaces"])
@pytest.mark.parametrize("name", ["", "With.Dots", "UPPER", "x" * 64])
def test_names_must_be_those_of_namespaces(field: str, name: str) -> None:
    """rule 7"""
    (error,) = errors(distribution(**{field: named("fine", name)}))
    assert error.startswith(f"spec.targets.{field}: Invalid value: ")


def test_a_selector_that_cannot_be_read_is_refused() -> None:
    """rule 9"""
    selector = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    (error,) = errors(distribution(namespaceSelector=selector))
    assert error.startswith("spec.targets.namespaceSelector: Invalid value: ")
    assert "Near" in error


def test_all_errors_are_reported_together() -> None:
    doc = distribution(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        includedNamespaces=named("A", "b"),
        excludedNamespaces=named("b"),
    )
    doc["metadata"]["name"] = "Not_A_Name"
    assert [error.partition(":")[0] for error in errors(doc)] == [
        "metadata.name",
        "spec.resource",
        "spec.targets.includedNamespaces",
        "spec.targets",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "other"}},
        {"kind": "ConfigMap"},
    ],
)
def test_the_distributed_resources_identity_is_immutable(change: dict[str, Any]) -> None:
    """rule 5, admission case 47"""
    (error,) = errors(distribution({**SECRET, **change}), old=distribution())
    assert error.startswith("spec.resource: Invalid value: ")
    assert "immutable" in error
    assert "v1 Secret pull" in error


@pytest.mark.parametrize("stored", [None, "Secret", {}, {"kind": "Secret"}, {**SECRET, "apiVersion": ""}])
def test_a_stored_resource_that_cannot_be_read_cannot_be_changed(stored: Any) -> None:
    """rule 5"""
    assert errors(distribution(), old=distribution(stored)) == [
        "spec.resource: Internal error: the stored resource cannot be read"
    ]


def test_the_data_of_the_resource_may_change() -> None:
    assert errors(distribution({**SECRET, "data": {"password": "bmV3"}}), old=distribution()) == []


def test_no_message_shows_what_a_secret_holds() -> None:
    """pitfall 17"""
    for doc, old in (
        (distribution({**SECRET, "kind": "Secrets"}), None),
        (distribution({**SECRET, "metadata": {"name": "other"}}), distribution()),
    ):
        assert "c2VjcmV0" not in "".join(errors(doc, old=old))


@pytest.mark.parametrize("spec", [{"resource": [], "targets": {}}, {"resource": {}, "targets": 1}, 3])
def test_an_unreadable_spec_is_a_bad_request(spec: Any) -> None:
    doc = {**distribution(), "spec": spec}
    answer = at_once(build_validating_review(), request(RESOURCE_DISTRIBUTIONS, doc))
    assert answer.refusal is not None
    assert answer.refusal.code == 400


def test_a_document_without_metadata_has_no_name() -> None:
    doc = distribution()
    spec, _ = read_spec(doc["spec"])
    assert spec is not None
    for metadata in ({}, {"metadata": None}):
        causes = errors_of({"spec": doc["spec"], **metadata}, spec)
        assert [cause.field for cause in causes] == ["metadata.name"]


def test_another_version_is_a_bad_request() -> None:
    """Conversion comes first: hub_version.py"""
    resource = msgspec.structs.replace(RESOURCE_DISTRIBUTIONS, version="v1alpha1")
    answer = at_once(build_validating_review(), request(resource, distribution()))
    assert answer.refusal is not None
    assert answer.refusal.code == 400


# ── the answer of an API server ──────────────────────────────────────────────


class Asked:
    """A dry run with this error; it records its documents."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.docs: list[Document] = []

    async def __call__(self, doc: Document) -> None:
        self.docs.append(doc)
        if self.error is not None:
            raise self.error


def refused(code: int, reason: str, message: str) -> Exception:
    response = refusal(code, reason, message)
    return parse_error(code, response.body)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (None, ""),
        (refused(422, "Invalid", "data[x y]: bad key"), 'spec.resource: Invalid value: "Secret": '),
        (refused(400, "BadRequest", "illegal base64"), 'spec.resource: Invalid value: "Secret": '),
        (refused(403, "Forbidden", "exceeded quota"), "spec.resource: Forbidden: "),
        (refused(500, "InternalError", "oops"), "spec.resource: Internal error: "),
        (UnreachableError("no API server"), "spec.resource: Internal error: "),
    ],
)
def test_an_api_server_judges_whether_the_resource_could_be_created(
    error: Exception | None, wanted: str
) -> None:
    """rule 6"""
    trial = Asked(error)
    result = errors(distribution(), trial=trial)
    assert trial.docs == [SECRET]
    if error is None:
        assert result == []
        return
    (only,) = result
    assert only.startswith(wanted)
    assert only.endswith(str(error))


def test_an_invalid_resource_is_not_sent_to_the_api_server_for_a_dry_run() -> None:
    """rules 4 and 5 suppress rule 6, the others do not"""
    trial = Asked()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    assert len(errors(distribution(pod), trial=trial)) == 1
    other = distribution({**SECRET, "metadata": {"name": "other"}})
    assert len(errors(other, old=distribution(), trial=trial)) == 1
    assert trial.docs == []
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    assert len(errors(distribution(namespaceSelector=selector), trial=trial)) == 1
    assert trial.docs == [SECRET]


def test_a_missing_resource_is_refused_without_a_dry_run() -> None:
    doc = distribution()
    del doc["spec"]["resource"]
    trial = Asked()
    assert errors(doc, trial=trial) == ['spec.resource: Invalid value: "": empty resource is not allowed']
    assert trial.docs == []


def test_an_unchanged_spec_or_resource_is_not_checked_again() -> None:
    trial = Asked(UnreachableError("no API server"))
    stored = distribution({**SECRET, "kind": "Pod"}, includedNamespaces=named("A_b"))
    assert len(errors(stored)) == 2
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}
    assert errors(labelled, old=stored, trial=trial) == []
    assert errors(distribution(includedNamespaces=named("shop")), old=distribution(), trial=trial) == []
    assert trial.docs == []
    changed = {**SECRET, "data": {"password": "bmV3"}}
    assert len(errors(distribution(changed), old=distribution(), trial=trial)) == 1
    assert trial.docs == [changed]


async def test_a_terminating_distribution_is_allowed_without_a_dry_run() -> None:
    doc = distribution()
    doc["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    trial = Asked(UnreachableError("no API server"))
    async with asyncio.timeout(1):
        answer = await build_validating_review(trial)(request(RESOURCE_DISTRIBUTIONS, doc, old=doc))
    assert answer.refusal is None
    assert trial.docs == []
