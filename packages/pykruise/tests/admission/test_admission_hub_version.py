"""Writes in an older version: reviewed in the hub version, and by the additional rules of the older version."""

from typing import Any

import msgspec
import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.documents import Document
from support.reviews import request

OLD = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")
PARALLELISM = "apps.kruise.io/image-predownload-parallelism"


def flat(annotations: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": OLD.api_version,
        "kind": OLD.kind,
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations or {}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
            **spec,
        },
    }


async def reviewed(doc: Document, *, old: Document | None = None) -> AdmissionAnswer:
    """The answer of CloneSet's validating webhook after its mutating webhook."""
    rules = {rule.name: rule for rule in build_reviewers()}
    mutated = await rules["mcloneset.kb.io"].reviewer(request(OLD, doc, old=old))
    return await rules["vcloneset.kb.io"].reviewer(request(OLD, mutated.object or doc, old=old))


async def fields(doc: Document, **given: Any) -> list[str]:
    answer = await reviewed(doc, **given)
    if answer.refusal is None:
        return []
    assert (answer.refusal.code, answer.refusal.reason) == (422, "Invalid")
    assert answer.refusal.details is not None
    return [cause.field for cause in answer.refusal.details.causes]


async def test_an_update_type_unknown_to_conversion_is_refused_with_its_field() -> None:
    """cloneset rule 11a"""
    answer = await reviewed(flat(updateStrategy={"type": "Recreate"}))
    assert answer.refusal is not None
    assert answer.refusal.message == (
        'CloneSet.apps.kruise.io "web" is invalid: spec.updateStrategy.type: Invalid value: "Recreate": '
        "must be one of ReCreate, InPlaceIfPossible, InPlaceOnly, OnDelete"
    )


async def test_errors_of_both_versions_are_reported_together_with_the_fields_of_the_request() -> None:
    errors = await fields(
        flat(
            updateStrategy={"type": "Unknown", "partition": "5", "maxUnavailable": "abc"},
            scaleStrategy={"podsToDelete": ["p0"]},
            progressDeadlineSeconds=1,
            minReadySeconds=1,
        )
    )
    assert errors == [
        "spec.updateStrategy.partition",
        "spec.updateStrategy.maxUnavailable",
        "spec.scaleStrategy.podsToDelete",
        "spec.updateStrategy.type",
        "spec.progressDeadlineSeconds",
    ]


async def test_a_pod_that_is_listed_twice_is_refused_once() -> None:
    """cloneset case 9"""
    doc = flat(scaleStrategy={"podsToDelete": ["p0", "p0"]})
    assert await fields(doc) == ["spec.scaleStrategy.podsToDelete"]


@pytest.mark.parametrize("parallelism", ["20%", "-1"])
async def test_rules_of_the_hub_version_alone_do_not_count(parallelism: str) -> None:
    """cloneset rule 21"""
    doc = flat({PARALLELISM: parallelism}, updateStrategy={"type": "InPlaceOnly"})
    assert await fields(doc) == []


async def test_an_object_valid_in_both_versions_is_allowed() -> None:
    doc = flat(updateStrategy={"type": "OnDelete"}, progressDeadlineSeconds=60)
    assert await reviewed(doc) == AdmissionAnswer()
    assert await reviewed(doc, old=doc) == AdmissionAnswer()


async def test_an_object_that_cannot_be_read_is_a_bad_request_first() -> None:
    answer = await reviewed(flat(updateStrategy={"type": "Unknown"}, replicas="five"))
    assert answer.refusal is not None
    assert answer.refusal.code == 400
