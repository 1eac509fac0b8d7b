"""The two admission reviews of SidecarSets: their reads and their answers."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.sidecarset.admission import build_validating_review, mutate_sidecarset
from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus, KubeError
from pykruise.pods.workload.revisions import RevisionView
from support.reviews import at_once, request
from support.sidecarsets import container, sidecarset, view

PATCHING = [{"annotations": {"oom-score": "1"}}]
ASKING = {"revision": {"revisionName": "s-1"}}


class Reader:
    """A reader of these SidecarSets that records its reads; `broken` names a read that fails."""

    def __init__(self, *sets: Document, broken: str = "") -> None:
        self.sets = [view(entry) for entry in sets]
        self.broken = broken
        self.asked: list[str] = []

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if question == self.broken:
            raise KubeError("the API server is away")

    async def list_sidecar_sets(self) -> Sequence[Any]:
        self._ask("sets")
        return self.sets

    async def read_namespace_labels(self, name: str) -> None:
        self._ask("namespace")

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        self._ask("revisions")
        return ()

    async def read_whitelist(self) -> str | None:
        self._ask("whitelist")
        return None


def refusal(
    reader: Reader | None, doc: Document, *, allows_any_annotation: bool = False
) -> ErrorStatus | None:
    reviewer = build_validating_review(reader, allows_any_annotation=allows_any_annotation)
    return at_once(reviewer, request(SIDECAR_SETS, doc)).refusal


def refused(reader: Reader | None, doc: Document, **gates: bool) -> ErrorStatus:
    status = refusal(reader, doc, **gates)
    assert status is not None
    return status


def test_all_errors_are_returned_together_with_422() -> None:
    status = refused(Reader(), sidecarset("a.b", container("A"), selector={}))
    assert status.code == 422
    assert status.details is not None
    assert len(status.details.causes) >= 3


@pytest.mark.parametrize(
    ("doc", "place"),
    [
        ({**sidecarset("s"), "spec": "text"}, "spec: "),
        (sidecarset("s", container("a", env="text")), "spec.containers[0]: json: cannot unmarshal string"),
        (sidecarset("s", "text"), "spec.containers"),  # type: ignore[arg-type]
        (sidecarset("s", container("a"), updateStrategy={"paused": "yes"}), "spec.updateStrategy.paused"),
    ],
)
def test_an_unreadable_object_is_refused_with_400_and_its_path(doc: Document, place: str) -> None:
    for reviewer in (mutate_sidecarset, build_validating_review(Reader(), allows_any_annotation=True)):
        status = at_once(reviewer, request(SIDECAR_SETS, doc)).refusal
        assert status is not None
        assert status.code == 400
        assert status.message.startswith(place)


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({}, ["sets"]),
        ({"patchPodMetadata": PATCHING}, ["whitelist", "sets"]),
        ({"injectionStrategy": ASKING}, ["sets", "revisions"]),
    ],
)
def test_only_what_a_sidecarset_needs_is_read(spec: Document, asked: list[str]) -> None:
    reader = Reader()
    refusal(reader, add_defaults(sidecarset("s", container("a"), **spec)))
    assert reader.asked == asked


def test_a_whitelist_that_cannot_be_read_refuses_those_that_need_it() -> None:
    """section 5.5"""
    doc = add_defaults(sidecarset("s", container("a"), patchPodMetadata=PATCHING))
    status = refused(Reader(broken="whitelist"), doc, allows_any_annotation=True)
    assert "the whitelist cannot be read: the API server is away" in status.message
    assert refusal(Reader(broken="whitelist"), add_defaults(sidecarset("s", container("a")))) is None


@pytest.mark.parametrize("broken", ["sets", "revisions"])
def test_unreadable_objects_to_compare_with_fail_the_review(broken: str) -> None:
    doc = add_defaults(sidecarset("s", container("a"), injectionStrategy=ASKING))
    assert refused(Reader(broken=broken), doc).code == 500


def test_a_sidecarset_is_validated_alone_without_a_reader() -> None:
    """A file is validated so before it is applied."""
    assert refusal(None, add_defaults(sidecarset("s", container("a")))) is None
    assert refused(None, add_defaults(sidecarset("s", container("A")))).code == 422
    patching = add_defaults(sidecarset("s", container("a"), patchPodMetadata=PATCHING))
    assert refusal(None, patching, allows_any_annotation=True) is None
    assert refused(None, patching).code == 422


def test_a_sidecarset_is_compared_with_the_others() -> None:
    doc = add_defaults(sidecarset("s", container("a")))
    assert refusal(Reader(doc, sidecarset("t", container("b"))), doc) is None
    assert "already exist in t" in refused(Reader(sidecarset("t", container("a"))), doc).message
