"""A default that a definition or a webhook writes makes no other revision: a template means the same without it.

Objects may have been stored by another release, whose definitions and webhooks write other defaults, or with the gate
TemplateNoDefaults. Each example of a kind that has revisions is stored once past admission, and once through it.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pykruise.kinds import list_kinds
from pykruise.kube.documents import encode
from pykruise.plans.kind import Kind
from pykruise.testing.contents import documents_of as read_manifests
from support.scenario import Object, Stage
from support.uniteddeployments import ALL_TEMPLATES, united_document

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def read_examples() -> tuple[Object, ...]:
    """All documents of the examples."""
    return tuple(read_manifests(sorted(EXAMPLES.glob("*.yaml"))))


def kinds_with_revisions() -> Iterator[Kind]:
    """Kinds whose objects are stored as revisions."""
    for kind in list_kinds():
        if kind.control is None or not kind.versions:
            continue
        project = kind.control.objects.projector()
        for document in documents_of(kind):
            metadata = {**document["metadata"], "uid": "u", "resourceVersion": "1"}
            if getattr(project(encode({**document, "metadata": metadata})), "candidate", None) is not None:
                yield kind
                break


def documents_of(kind: Kind) -> Iterator[Object]:
    yield from (document for document in read_examples() if document["kind"] == kind.resource.kind)
    if kind.resource.kind == "UnitedDeployment":
        for template in ALL_TEMPLATES:
            yield united_document(template, [{"name": "a"}])


BY_BYTES = {"SidecarSet": "pods carry the hash of its stored bytes, which is OpenKruise's"}
"""Kinds for which an explicit default makes another revision → the reason."""

KINDS = {kind.resource.kind: kind for kind in kinds_with_revisions() if kind.resource.kind not in BY_BYTES}


def test_every_workload_with_revisions_is_here() -> None:
    assert {"CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment"} <= KINDS.keys()
    assert all(list(documents_of(kind)) for kind in KINDS.values())


@pytest.mark.needs_admission
@pytest.mark.parametrize("name", KINDS)
async def test_an_object_and_the_same_with_all_defaults_have_one_revision(stage: Stage, name: str) -> None:
    kind = KINDS[name]
    assert kind.control is not None
    project = kind.control.objects.projector()
    for number, document in enumerate(documents_of(kind)):
        metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        with stage.past_admission():
            bare = await stage.create(
                {**document, "metadata": {**metadata, "name": f"bare-{number}"}}, resource=kind.resource
            )
        await stage.delete(f"bare-{number}", resource=kind.resource)
        full = await stage.create(
            {**document, "metadata": {**metadata, "name": f"full-{number}"}}, resource=kind.resource
        )
        before, after = (project(encode(entry)).candidate for entry in (bare, full))
        assert before is not None, document
        assert before.meaning == after.meaning
