"""Objects with unreadable metadata are refused before a kind's review gets them."""

from typing import Any

import pytest

from pykruise.admission.readable import check_metadata
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from support.reviews import at_once, request

SEEN = AdmissionAnswer(warnings=("seen",))
WRONG = {"metadata": {"labels": {"a": 1}}}


async def review(_: AdmissionRequest) -> AdmissionAnswer:
    return SEEN


def answer(doc: Any, old: Any = None, *, operation: str) -> AdmissionAnswer:
    return at_once(check_metadata(review), request(CLONE_SETS, doc, old=old, operation=operation))


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        (WRONG, "not a CloneSet: metadata.labels[...]: Expected `str`, got `int`"),
        ({"metadata": 3}, "not a CloneSet: metadata: Expected `object | null`, got `int`"),
        ({"spec": []}, "not a CloneSet: spec: Expected `object | null`, got `array`"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_place(doc: Any, message: str) -> None:
    for admission_answer in (answer(doc, operation="CREATE"), answer({}, doc, operation="UPDATE")):
        assert admission_answer.refusal is not None
        assert (admission_answer.refusal.code, admission_answer.refusal.message) == (400, message)


@pytest.mark.parametrize("doc", [None, {}, {"metadata": {"labels": None, "name": "web"}, "spec": {"any": 1}}])
def test_a_readable_object_reaches_the_reviewer(doc: Any) -> None:
    assert answer(doc, operation="CREATE") == SEEN
    assert answer(doc, doc, operation="UPDATE") == SEEN


def test_a_deletion_reaches_the_reviewer_with_any_object() -> None:
    assert answer(None, WRONG, operation="DELETE") == SEEN
    assert SEEN != ALLOWED
