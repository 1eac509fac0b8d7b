"""Error messages of WorkloadSpreads, and the limits of allowed values."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.workloadspread.admission import build_validating_review
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause, UnreachableError
from pykruise.pods.workload.allowed_workloads import WhiteList, WhiteListError, read_white_list
from support.reviews import at_once, request
from support.spreads import CLONE_SET, SpreadServer, spread, subset, workload

ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
ALLOWED_ROLLOUT = read_white_list('{"workloads": [{"group": "argoproj.io", "kind": "Rollout"}]}')
SECONDS = "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"
PATCH = {"metadata": {"annotations": {"a": "b"}}}


def causes(doc: Document, *, old: Document | None = None, reader: Any = None) -> Sequence[Cause]:
    """All errors; empty: the WorkloadSpread is admitted."""
    asked = reader or SpreadServer().replica()
    refused = at_once(build_validating_review(asked), request(WORKLOAD_SPREADS, doc, old=old)).refusal
    if refused is None:
        return []
    assert (refused.code, refused.details is not None) == (422, True)
    assert refused.details is not None
    assert refused.details.causes
    return refused.details.causes


def fields(doc: Document, **given: Any) -> list[str]:
    return [cause.field for cause in causes(doc, **given)]


def only_error(doc: Document, **given: Any) -> str:
    """The only error, as text."""
    [cause] = causes(doc, **given)
    return f"{cause.reason} @ {cause.field}: {cause.message}"


def limits(*most: int | str | None, **more: Any) -> Document:
    return spread(*(subset(f"s{number}", value) for number, value in enumerate(most)), **more)


def referring(**changes: str) -> Document:
    doc = limits(1)
    doc["spec"]["targetRef"] |= changes
    return doc


def without_target() -> Document:
    doc = limits(1)
    del doc["spec"]["targetRef"]
    return doc


# ── targetRef ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("doc", "reason", "message"),
    [
        (without_target(), "FieldValueRequired", ""),
        (referring(apiVersion=""), "FieldValueInvalid", '"CloneSet web": apiVersion, kind and name must'),
        (referring(kind=""), "FieldValueInvalid", "apiVersion, kind and name must be given"),
        (referring(name=""), "FieldValueInvalid", '"apps.kruise.io/v1beta1 CloneSet": apiVersion, kind and'),
        (referring(apiVersion="a/b/c"), "FieldValueInvalid", "apiVersion 'a/b/c' is not <group>/<version>"),
        (
            referring(apiVersion="x/v1", kind="StatefulSet"),
            *(
                "FieldValueInvalid",
                "StatefulSet is permitted in group apps and apps.kruise.io; others must be on",
            ),
        ),
        (
            limits(1, target=ROLLOUT),
            *("FieldValueInvalid", "GroupKind is not permitted: others must be on the white list"),
        ),
    ],
)
def test_a_reference_that_names_no_workload_is_refused_with_what_is_missing(
    doc: Document, reason: str, message: str
) -> None:
    text = only_error(doc)
    assert text.startswith(f"{reason} @ spec.targetRef: ")
    assert message in text


def test_a_white_list_that_cannot_be_read_is_an_internal_error_for_kinds_that_would_be_on_it() -> None:
    """5.1 rule 5"""
    server = SpreadServer()
    server.white_list = WhiteListError("no JSON")
    text = only_error(limits(1, target=ROLLOUT), reader=server.replica())
    assert text.startswith("InternalError @ spec.targetRef: ")
    assert text.endswith("the white list cannot be read: no JSON")
    assert fields(limits(1), reader=server.replica()) == []


def test_an_unreadable_list_of_others_is_an_internal_error() -> None:
    """5.1 rule 7"""
    replica = SpreadServer().replica()

    async def unreachable(_: str) -> Sequence[SpreadView]:
        raise UnreachableError("no API server")

    replica.list_spreads = unreachable  # type: ignore[method-assign]
    assert only_error(limits(1), reader=replica).startswith("InternalError @ <nil>: ")


def test_a_workloadspread_conflicts_neither_with_itself_nor_with_one_without_a_target() -> None:
    nameless = spread(subset("a"), name="nameless", target=("apps/v1", "Deployment", ""))
    server = SpreadServer(limits(1), nameless)
    assert fields(limits(2), old=limits(1), reader=server.replica()) == []


def test_a_change_of_an_object_without_a_target_reports_it_once() -> None:
    assert only_error(without_target(), old=limits(1)).startswith("FieldValueRequired @ spec.targetRef")


def test_an_object_without_a_spec_reports_all_required_fields() -> None:
    for spec in (None, {}):
        doc = {**limits(1), "spec": spec}
        assert fields(doc) == ["spec.targetRef", "spec.subsets"]
        # and labels of a stored object without a spec can be changed; a new spec is reviewed in full
        assert fields({**doc, "metadata": {**doc["metadata"], "labels": {"a": "b"}}}, old=doc) == []
        assert fields(limits(-1), old=doc) == ["spec.subsets[0].maxReplicas", "spec.targetRef"]


def test_a_workloadspread_without_metadata_has_no_name() -> None:
    assert fields({**limits(1), "metadata": None}) == ["metadata.name"]


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"targetRef": 3}, "spec.targetRef"),
        ({"subsets": 3}, "spec.subsets"),
        ({"subsets": {"a": 1}}, "spec.subsets"),
        ({"subsets": [3]}, "spec.subsets[0]"),
    ],
)
def test_an_unreadable_object_is_refused_with_its_field(spec: Document, where: str) -> None:
    doc = limits(1)
    doc["spec"] |= spec
    refused = at_once(
        build_validating_review(SpreadServer().replica()), request(WORKLOAD_SPREADS, doc)
    ).refusal
    assert refused is not None
    assert refused.code == 400
    assert refused.message.startswith(f"{where}: Expected")


# ── reads ────────────────────────────────────────────────────────────────────


def test_the_object_is_validated_alone_without_a_reader() -> None:
    for doc, wrong in ((limits(1), True), (limits(-1), False)):
        admission_answer = at_once(build_validating_review(None), request(WORKLOAD_SPREADS, doc))
        assert (admission_answer.refusal is None) == wrong


def test_a_workload_is_read_for_a_patch_alone_and_only_where_its_template_is_known() -> None:
    # given
    replica = SpreadServer(owners=[workload(CLONE_SET)]).replica()
    asked: list[str] = []

    async def read(kind: Any, namespace: str, name: str, *, version: str = "") -> None:
        asked.append(f"{kind.kind} {name}")

    async def white_list() -> WhiteList:
        asked.append("white list")
        return ALLOWED_ROLLOUT

    replica.read, replica.read_white_list = read, white_list  # type: ignore[method-assign]
    # then
    for doc, requests in (
        (spread(subset("a")), []),
        (spread(subset("a"), subset("b", patch=PATCH)), ["CloneSet web"]),
        (spread(subset("a", patch=PATCH), target=ROLLOUT), ["white list"]),
    ):
        asked.clear()
        assert fields(doc, reader=replica) == []
        assert asked == requests


def test_a_template_that_is_wrong_itself_is_held_against_patches_alone() -> None:
    server = SpreadServer(owners=[workload(CLONE_SET, template={"spec": {"containers": []}})])
    doc = spread(subset("a"), subset("b", patch=PATCH))
    assert fields(doc, reader=server.replica()) == ["spec.subsets[1].patch.containers"]


# ── subsets ──────────────────────────────────────────────────────────────────


def test_256_subsets_are_allowed_and_more_are_not_even_if_there_are_more_already() -> None:
    def many(count: int) -> Document:
        return spread(*(subset(f"s{number}") for number in range(count)))

    assert fields(many(256)) == []
    assert fields(many(257), old=many(258)) == ["spec.subsets"]


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (("0%", None), ""),
        (("0%", "100%"), ""),
        (("40%", "59%"), 'subsets[0].maxReplicas: Invalid value: "40%": percentages add up to 99%'),
        ((None, "30%", "20%"), 'subsets[0].maxReplicas: Invalid value: "null": percentages add up to 50%'),
        (("-1%", None), 'subsets[0].maxReplicas: Invalid value: "-1%": must be greater than or equal to 0%'),
        (("-2%", "20%"), 'subsets[0].maxReplicas: Invalid value: "-2%": must be greater than or equal to 0%'),
        ((1, None, "5%"), "all maxReplicas must be numbers, or all percentages"),
    ],
)
def test_shares_are_whole_and_add_up(most: Any, message: str) -> None:
    result = causes(limits(*most))
    assert [cause.message for cause in result if message not in f"{cause.field}: {cause.message}"] == []
    assert len(result) == bool(message)


@pytest.mark.parametrize(
    ("seconds", "most", "wrong"),
    [
        (0, (1, None), []),
        (295, (1, None), []),
        (296, (1, None), [SECONDS]),
        (2**31 - 1, (5,), []),
        (None, (5,), []),
    ],
)
def test_a_pod_may_wait_until_it_is_tried_in_every_subset(seconds: Any, most: Any, wrong: list[str]) -> None:
    """5.4"""
    block = {} if seconds is None else {"rescheduleCriticalSeconds": seconds}
    assert fields(limits(*most, scheduleStrategy={"type": "Adaptive", "adaptive": block})) == wrong


@pytest.mark.parametrize("target_filter", [{"replicasPathList": ["spec.x"]}, {"selector": {}}, {}, None])
def test_a_target_filter_may_be_empty(target_filter: Any) -> None:
    assert fields(limits(1, targetFilter=target_filter)) == []
