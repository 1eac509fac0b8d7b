"""The Waiting condition of a StatefulSet: its reason, and the remedy."""

from collections.abc import Callable

import pytest

from pykruise.kinds.statefulset.plan import plan_statefulset
from pykruise.pods.reasons import Code
from pykruise.runtime.reasons import Reason
from support.statefulset_builder import StatefulSetBuilder, claim_template, statefulset, updatable, waiting


def unschedulable(builder: StatefulSetBuilder, *ordinals: int) -> StatefulSetBuilder:
    for ordinal in ordinals:
        builder.pending(ordinal).set_condition(ordinal, "PodScheduled", "False", message="no node")
    return builder


def finalized(builder: StatefulSetBuilder, ordinal: int) -> StatefulSetBuilder:
    builder.pods[f"web-{ordinal}"]["metadata"]["finalizers"] = ["example.com/f"]
    return builder


def reason(builder: StatefulSetBuilder) -> Reason | None:
    return plan_statefulset(builder.snapshot()).waiting


# ── the first of several reasons ─────────────────────────────────────────────


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (lambda: unschedulable(statefulset(3, parallel=True), 0).without(1), Code.UNSCHEDULABLE),
        (lambda: statefulset(3, parallel=True).not_ready(0).without(1), Code.CREATING),
        (lambda: statefulset(3, parallel=True).phase("Failed", 1), Code.CREATING),
        (lambda: unschedulable(statefulset(2), 1).deleted(1), Code.TERMINATING),
        (lambda: statefulset(1).pod(1).not_ready(0), Code.NOT_READY),
    ],
    ids=[
        "what stays until a person does something",
        "what is missing, for it may be why others are not ready",
        "one that has ended is missing",
        "nothing keeps a pod that goes from being available",
        "surplus pods come last",
    ],
)
def test_the_waiting_reason_is_the_obstacle_that_a_person_would_check_first(
    builder: Callable[[], StatefulSetBuilder], expected: Code
) -> None:
    assert waiting(builder().plan()) == expected


def test_the_one_pod_of_many_that_is_not_ready_is_found() -> None:
    assert waiting(statefulset(201, parallel=True).not_ready(200).plan()) == Code.NOT_READY


# ── OrderedReady: an old pod in its own way ──────────────────────────────────


@pytest.mark.parametrize(
    ("builder", "is_in_its_own_way"),
    [
        (lambda: unschedulable(statefulset(2).all_old(), 1), True),
        (lambda: statefulset(2).all_old().not_ready(1), True),
        (lambda: statefulset(2, parallel=True).all_old().not_ready(1), False),
        (lambda: statefulset(2).not_ready(1), False),
        (lambda: statefulset(2).all_old().pod(0).not_ready(0, 1), False),
        (lambda: updatable(2).with_hook("inPlaceUpdate").all_old().state("Updated", 1), False),
    ],
    ids=["unschedulable", "not ready", "Parallel", "updated", "the first one is updated", "held by a hook"],
)
def test_a_failing_old_pod_under_ordered_management_must_be_deleted(
    builder: Callable[[], StatefulSetBuilder], is_in_its_own_way: bool
) -> None:
    result = reason(builder())
    assert result is not None
    assert ("kubectl delete pod web-1" in result.remedy) is is_in_its_own_way


# ── messages ─────────────────────────────────────────────────────────────────


def test_a_pod_that_terminates_is_named_with_what_keeps_it() -> None:
    message = "pod web-1: terminates; its successor is created afterwards"
    expected = Reason(Code.TERMINATING, message, "if that lasts, find out what blocks the deletion")
    assert reason(statefulset(2).deleted(1)) == expected
    for is_parallel in (False, True):
        result = reason(finalized(statefulset(4, parallel=is_parallel).without(2), 1).deleted(1))
        assert result is not None
        assert (result.code, "example.com/f" in result.message) == (Code.FINALIZER, True)


def test_an_unready_pod_precedes_the_pods_that_wait_for_it_as_the_reason() -> None:
    result = reason(statefulset(3).without(1, 2).not_ready(0))
    assert result is not None
    assert result.code == Code.NOT_READY
    # with parallel management, they are created in the meantime
    result = reason(statefulset(3, parallel=True).without(1, 2).not_ready(0))
    assert result is not None
    assert result.code == Code.CREATING


def test_surplus_pods_are_counted_and_the_next_one_is_named_with_its_obstacle() -> None:
    assert reason(statefulset(1).pod(1, 2)) == Reason(Code.DELETING, "2 pods are surplus")
    # given a terminating pod
    terminates, remedy = (
        "pod web-2: terminates; the next surplus pod is deleted afterwards",
        "if that lasts, find out what blocks the deletion",
    )
    builder = statefulset(1).pod(1, 2).deleted(2)
    assert reason(builder) == Reason(Code.DELETING, f"2 pods are surplus; {terminates}", remedy)
    held = reason(finalized(builder, 2))
    assert held is not None
    assert (held.code, "example.com/f" in held.message) == (Code.FINALIZER, True)
    # and a pod that only waits for its hook
    builder = finalized(statefulset(1).pod(1), 1).with_hook("preDelete").hooked(1)
    result = reason(builder.state("PreparingDelete", 1))
    assert result is not None
    assert "finalizers" not in result.message


# ── claims that grow ─────────────────────────────────────────────────────────


def grows(builder: StatefulSetBuilder, *ordinals: int) -> StatefulSetBuilder:
    """Let the claims of these pods request the size of their template, and not have it yet."""
    for ordinal in ordinals:
        claim = builder.claims[f"data-web-{ordinal}"]
        claim["status"]["capacity"]["storage"] = "1Gi"
    return builder


@pytest.mark.parametrize(
    ("ordinals", "pods"), [((1,), "pod web-1"), ((0, 2), "pod web-0 (and 1 more)")], ids=["one", "two"]
)
def test_pods_whose_claims_grow_are_named(ordinals: tuple[int, ...], pods: str) -> None:
    builder = statefulset(3).with_claims(claim_template(size="2Gi")).growing()
    message = f"claims of {pods} do not have the requested size yet"
    expected = Reason(Code.CLAIMS_GROW, message, "if that lasts, read the events of the claims")
    assert reason(grows(builder, *ordinals)) == expected


def test_nothing_waits_for_claims_that_do_not_follow_their_templates() -> None:
    builder = grows(statefulset(2, partition=2).with_claims(claim_template(size="2Gi")), 1)
    assert waiting(builder.plan()) == ""
    assert waiting(builder.all_old().plan()) == Code.PARTITION
