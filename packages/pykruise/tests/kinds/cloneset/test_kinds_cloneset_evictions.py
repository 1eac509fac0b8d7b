"""Pods whose eviction waits for a successor: the option eviction-surge."""

import re

import orjson
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.clock import format_time
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.workload.evictions import WANTED_S
from pykruise.pods.workload.options import EVICTION_SURGE, POD_REPLACEMENT_POLICY
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset
from support.plan_views import condition, created, created_revisions_of_pods, deleted, left, pod_patches
from support.workload_builder import NOW


def surging(builder: CloneSetBuilder, surge: str = "2") -> CloneSetBuilder:
    builder.document["metadata"]["annotations"] = {EVICTION_SURGE.annotation: surge}
    return builder


def evicted(builder: CloneSetBuilder, *pods: str, ago_s: float = 5) -> CloneSetBuilder:
    return builder.annotated({keys.EVICTION_REQUESTED_ANNOTATION: format_time(NOW - ago_s)}, *pods)


def followed(builder: CloneSetBuilder, pod: str, by: str, *, old: bool = False) -> CloneSetBuilder:
    return builder.add(by, old=old).annotated({keys.SUCCESSOR_OF_ANNOTATION: f"uid-{pod}"}, by)


def successors(plan: Plan) -> list[str]:
    """Short names of the pods that get a successor, in order."""
    uids = (
        doc["metadata"]["annotations"].get(keys.SUCCESSOR_OF_ANNOTATION, "uid-?") for doc in created(plan)
    )
    return [uid.removeprefix("uid-") for uid in uids]


TABLE = """
5 2    | a b c d e                | nothing
5 2    | a* b c d e               | create a
5 2    | a* b* c* d e             | create a b
5 2    | a* b* c* d e s>a!        | create b
5 2    | a* b* c* d e s>a! t>b!   | nothing
5 2    | a* b* c* d e s>a t>b!    | delete a
5 2    | a* b* c* d e s>a         | create b, delete a
5 2    | a* b c d e s>a           | delete a
5 2    | a*! b c d e s>a          | delete a
5 2    | b c d e s>a!             | nothing
5 2    | b c d e s>a              | nothing
5 2    | a b c d e s>a!           | delete s
5 2    | a* b c d e s>a! t>a!     | delete s
5 2    | a* b c d e s>a t>a!      | delete a, delete t
5 1    | a* b* c d e              | create a
5 40%  | a* b* c* d e             | create a b
5 1%   | a* b* c d e              | create a
5 100% | a* b* c* d* e*           | create a b c d e
5 2    | a* b c d                 | create ? a
4 2    | a* b c d e               | delete a
4 2    | a* b* c d e              | create a
4 2    | a* b* c d e s>a!         | delete b
4 2    | a* b c d e s>a           | delete a b
0 2    | a*                       | delete a
5 2    | a* b c d e!              | create a
5 2    | a* b c d e! s>a          | delete a
"""
"""replicas eviction-surge | pods: * evicted, ! not available, s>a a successor of a | result"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_worked_numbers_of_evicted_pods(row: str) -> None:
    """cloneset cases 99 to 102: first a successor, a limited number at the same time, and no surplus pod remains"""
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    replicas, surge = setting.split()
    builder = surging(cloneset(int(replicas), pods=0, max_unavailable=0, max_surge=1), surge)
    for name, predecessor, is_evicted, is_down in re.findall(r"(\w)(?:>(\w))?(\*?)(!?)(?:\s|$)", pods):
        builder.add(name)
        if predecessor:
            builder.annotated({keys.SUCCESSOR_OF_ANNOTATION: f"uid-{predecessor}"}, name)
        if is_evicted:
            evicted(builder, name)
        if is_down:
            builder.not_ready(name)
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    wanted: dict[str, list[str]] = {"create": [], "delete": []}
    for verb, names in re.findall(r"(create|delete) ([^,]+)", expected):
        wanted[verb] += names.split()
    assert sorted(successors(plan)) == sorted(wanted["create"])
    assert deleted(plan) >= set(wanted["delete"])
    assert len(deleted(plan)) == len(wanted["delete"])


def test_the_wait_names_the_successor_and_what_keeps_it() -> None:
    # given a successor that has just been created
    builder = surging(followed(evicted(cloneset(3), "b"), "b", "s")).fresh("s")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert left(plan)["b"] == "must be evicted, and waits until its successor web-s is available"
    # and when it does not exist yet
    plan = plan_cloneset(surging(evicted(cloneset(3), "a", "b"), "1").snapshot())
    assert left(plan)["b"].endswith(
        "waits for a successor: pykruise.io/eviction-surge allows 1 successor at the same time"
    )
    assert plan.waiting is not None
    assert plan.waiting.code == Code.SPECIFIED
    assert plan.waiting.message.startswith("2 pods are waiting to be evicted; pod web-a: must be evicted")


@pytest.mark.parametrize(("pod", "is_old"), [("a", True), ("e", False)])
def test_the_successor_has_the_revision_of_the_evicted_pod(pod: str, is_old: bool) -> None:
    """cloneset case 103"""
    builder = surging(evicted(cloneset(5, old=2, partition=2), pod))
    plan = plan_cloneset(builder.snapshot())
    assert created_revisions_of_pods(plan) == [builder.old_revision if is_old else builder.update_revision]


def test_an_update_does_not_spend_the_successor() -> None:
    """cloneset case 104: with maxUnavailable 1 the update deletes one pod, even while a sixth pod exists"""
    builder = surging(followed(evicted(cloneset(5, old=5, max_unavailable=1), "e"), "e", "s", old=True))
    plan = plan_cloneset(builder.snapshot())
    assert "e" in deleted(plan), "its successor is available"
    assert len(deleted(plan) | set(pod_patches(plan))) == 2, "the evicted pod, and one pod for the update"


def test_an_evicted_pod_is_not_updated() -> None:
    # given
    builder = surging(followed(evicted(cloneset(1, old=1), "a"), "a", "s", old=True)).not_ready("s")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert not deleted(plan)
    assert "waits until its successor" in left(plan)["a"]


def test_a_successor_of_a_revision_that_is_no_longer_wanted_is_replaced() -> None:
    """cloneset case 103"""
    # given a successor of a template that was rolled back
    builder = surging(followed(evicted(cloneset(3), "a"), "a", "s", old=True)).not_ready("s")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert deleted(plan) == {"s"}
    # and when it no longer exists
    del builder.pods["s"]
    assert successors(plan_cloneset(builder.snapshot())) == ["a"]


def test_an_eviction_without_further_requests_is_forgotten() -> None:
    """cloneset case 102"""
    # given
    builder = surging(followed(evicted(cloneset(3), "a", ago_s=WANTED_S - 30), "a", "s")).not_ready("s")
    plan = plan_cloneset(builder.snapshot())
    assert plan.requeue_after_s is not None
    assert plan.requeue_after_s <= 30
    # when
    evicted(builder, "a", ago_s=WANTED_S)
    plan = plan_cloneset(builder.snapshot())
    # then the record is removed, and the successor is surplus
    assert pod_patches(plan)["a"].body["metadata"]["annotations"] == {
        keys.EVICTION_REQUESTED_ANNOTATION: None
    }
    assert deleted(plan) == {"s"}


def test_a_pod_in_a_pre_delete_hook_keeps_its_successor() -> None:
    # given
    builder = surging(followed(evicted(cloneset(3, max_unavailable=0, max_surge=1), "a"), "a", "s"))
    builder.with_hook("preDelete")
    builder.pods["a"]["metadata"]["finalizers"] = ["example.com/hook"]
    # when
    plan = plan_cloneset(builder.snapshot())
    assert pod_patches(plan)["a"].body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    # then the pod does not return to service, and no pod is surplus
    builder.in_state("PreparingDelete", "a")
    plan = plan_cloneset(builder.snapshot())
    assert not list(plan.steps)
    # but it returns when its successor is lost
    del builder.pods["s"]
    plan = plan_cloneset(builder.snapshot())
    assert pod_patches(plan)["a"].body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingNormal"}


def test_successors_wait_for_terminating_pods_that_take_up_a_place() -> None:
    # given
    builder = surging(evicted(cloneset(4, pods=5), "a", "b"), "1").deleted("e")
    builder.document["metadata"]["annotations"][POD_REPLACEMENT_POLICY.annotation] = "Failed"
    # then
    assert not created(plan_cloneset(builder.snapshot()))
    # when the terminating pod has ended
    del builder.pods["e"]
    assert successors(plan_cloneset(builder.snapshot())) == ["a"]


def test_a_pod_that_a_user_deletes_needs_no_successor_for_its_eviction() -> None:
    builder = surging(evicted(cloneset(3, max_unavailable=1), "a").marked("a"))
    plan = plan_cloneset(builder.snapshot())
    assert (successors(plan), deleted(plan)) == ([], {"a"})


@pytest.mark.parametrize("value", ["", "0", "-1", "0%", "101%", "1.5", "12.5%", "all", "12345678901"])
def test_a_stored_value_that_admission_refuses_changes_nothing(value: str) -> None:
    """cloneset case 105"""
    plan = plan_cloneset(surging(evicted(cloneset(5, pods=3), "a"), value).snapshot())
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
    assert f"metadata.annotations[{EVICTION_SURGE.annotation}]" in plan.waiting.message


def test_records_without_the_option_change_nothing() -> None:
    plain = plan_cloneset(cloneset(3, old=1).snapshot())
    recorded = plan_cloneset(followed(evicted(cloneset(3, pods=2, old=1), "a", "b"), "a", "c").snapshot())
    assert orjson.dumps(plain.status) == orjson.dumps(recorded.status)
    assert plain.skipped == recorded.skipped
    assert [step.because for step in plain.steps] == [step.because for step in recorded.steps]


def test_the_status_counts_all_pods() -> None:
    builder = surging(followed(evicted(cloneset(3), "a"), "a", "s")).not_ready("s")
    status = plan_cloneset(builder.snapshot()).status or {}
    assert (status["replicas"], status["availableReplicas"]) == (4, 3)
    assert condition(plan_cloneset(builder.snapshot()), "Waiting") is not None
