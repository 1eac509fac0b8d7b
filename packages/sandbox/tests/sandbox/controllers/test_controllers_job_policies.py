"""Limits per index, failure policies and success policies of Jobs on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import JOBS, PODS
from pykruise.sandbox.nodes.faults import Rule
from support.sandbox import Object, Place, small_cluster

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def indexed(name: str = "sum", **spec: Any) -> Object:
    """An indexed Job of three completions."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
            },
            **spec,
        },
    }


def on_code(action: str, *codes: int) -> Object:
    """A failure policy with one rule about exit codes."""
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}]}


async def ended(place: Place, kind: str, name: str = "sum") -> Object:
    """The condition of this type; empty if the Job has none."""
    status = (await place.get(JOBS, name)).get("status", {})
    return next((condition for condition in status.get("conditions", ()) if condition["type"] == kind), {})


async def pods_of(place: Place, index: int) -> list[Object]:
    """The pods of an index, in the order of their creation."""
    docs = [await place.get(PODS, name) for name in await place.names(PODS)]
    mine = [doc for doc in docs if doc["metadata"]["name"].startswith(f"sum-{index}-")]
    return sorted(mine, key=lambda doc: str(doc["metadata"]["creationTimestamp"]))


async def test_an_index_fails_alone_and_the_other_indexes_continue() -> None:
    rules = [Rule(pod="sum-1-*", exit_code=1)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, indexed(backoffLimitPerIndex=2))
        took_s = await place.until(lambda: ended(place, "Failed"), within_s=300)
        # then index 1 was tried three times, 10 s and 20 s apart
        assert 30 <= took_s < 60
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
        assert (status["succeeded"], status["failed"]) == (2, 3)
        assert [
            (condition["type"], condition["reason"], condition["message"])
            for condition in status["conditions"]
        ] == [
            ("FailureTarget", "FailedIndexes", "Job has failed indexes"),
            ("Failed", "FailedIndexes", "Job has failed indexes"),
        ]
        tried = await pods_of(place, 1)
        assert [pod["metadata"]["annotations"][FAILURES] for pod in tried] == ["0", "1", "2"]
        assert not any(pod["metadata"].get("finalizers") for pod in tried)


async def test_a_failed_pod_is_counted_when_its_replacement_carries_the_count() -> None:
    rules = [Rule(pod="sum-0-*", exit_code=1, first_runs=1)]
    async with small_cluster(rules=rules) as place:
        # given
        await place.create(JOBS, indexed(backoffLimitPerIndex=1))
        await asyncio.sleep(5)
        # then the failed pod is not counted while the index waits for its next try
        (waiting,) = await pods_of(place, 0)
        assert waiting["status"]["phase"] == "Failed"
        assert waiting["metadata"]["finalizers"]
        assert "failed" not in (await place.get(JOBS, "sum"))["status"]
        # and after the next try has begun
        await asyncio.sleep(15)
        first, second = await pods_of(place, 0)
        assert not first["metadata"].get("finalizers")
        assert second["metadata"]["annotations"][FAILURES] == "1"
        assert (await place.get(JOBS, "sum"))["status"]["failed"] >= 1


async def test_no_index_is_retried_after_too_many_have_failed() -> None:
    rules = [Rule(pod="sum-2-*", exit_code=0, after_s=1000), Rule(image="busybox", exit_code=1)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, indexed(backoffLimitPerIndex=0, maxFailedIndexes=1))
        await place.until(lambda: ended(place, "Failed"), within_s=100)
        # then the running pod was terminated, and counts as failed
        shown = await ended(place, "Failed")
        assert shown["reason"] == "MaxFailedIndexesExceeded"
        assert shown["message"] == "Job has exceeded the specified maximal number of failed indexes"
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["failedIndexes"], status["failed"]) == ("0,1", 3)
        assert await pods_of(place, 2) == []


async def test_a_failure_that_the_policy_ignores_does_not_count_for_its_index() -> None:
    rules = [Rule(pod="sum-0-*", exit_code=7)]
    async with small_cluster(rules=rules) as place:
        # when
        job = indexed(backoffLimitPerIndex=0, podFailurePolicy=on_code("Ignore", 7))
        await place.create(JOBS, job)
        await asyncio.sleep(60)
        # then it is tried again, after longer and longer waits
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["failedIndexes"], status.get("failed", 0)) == ("", 0)
        annotations = [pod["metadata"]["annotations"] for pod in await pods_of(place, 0)]
        assert [each[FAILURES] for each in annotations] == ["0", "0", "0"]
        assert [each.get(IGNORED) for each in annotations] == [None, "1", "2"]


async def test_the_pod_failure_policy_fails_an_index_immediately() -> None:
    rules = [Rule(pod="sum-0-*", exit_code=42)]
    async with small_cluster(rules=rules) as place:
        # when
        job = indexed(backoffLimitPerIndex=5, podFailurePolicy=on_code("FailIndex", 42))
        await place.create(JOBS, job)
        await place.until(lambda: ended(place, "Failed"), within_s=100)
        # then
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["completedIndexes"], status["failedIndexes"]) == ("1,2", "0")
        assert len(await pods_of(place, 0)) == 1


async def test_a_disrupted_pod_is_known_by_its_condition() -> None:
    rules = [Rule(image="busybox", exit_code=0, after_s=1000)]
    async with small_cluster(rules=rules) as place:
        # given
        policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
        await place.create(JOBS, indexed(podFailurePolicy=policy))
        await asyncio.sleep(5)
        (name, *_) = await place.names(PODS)
        # when
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "Test"}
        status = {"status": {"phase": "Failed", "conditions": [condition]}}
        await place.client.patch(
            PODS, "default", name, status, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        await place.until(lambda: ended(place, "Failed"), within_s=100)
        # then
        shown = await ended(place, "Failed")
        assert shown["reason"] == "PodFailurePolicy"
        wanted = f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
        assert shown["message"] == wanted


async def test_enough_succeeded_indexes_complete_a_job_and_end_the_rest_without_failures() -> None:
    rules = [Rule(pod="sum-2-*", exit_code=0, after_s=1000)]
    async with small_cluster(rules=rules) as place:
        # when
        policy = {"rules": [{"succeededIndexes": "2"}, {"succeededIndexes": "0-2", "succeededCount": 2}]}
        await place.create(JOBS, indexed(successPolicy=policy))
        await place.until(lambda: ended(place, "Complete"), within_s=100)
        # then
        status = (await place.get(JOBS, "sum"))["status"]
        assert [
            (condition["type"], condition["reason"], condition["message"])
            for condition in status["conditions"]
        ] == [
            ("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 1"),
            ("Complete", "SuccessPolicy", "Matched rules at index 1"),
        ]
        assert (status["succeeded"], status.get("failed", 0)) == (2, 0)
        assert await pods_of(place, 2) == []


async def test_a_success_policy_that_counts_any_indexes() -> None:
    rules = [Rule(pod="sum-0-*", exit_code=0, after_s=1000)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, indexed(successPolicy={"rules": [{"succeededCount": 1}]}))
        await place.until(lambda: ended(place, "Complete"), within_s=100)
        # then
        assert (await ended(place, "SuccessCriteriaMet"))["message"] == "Matched rules at index 0"


async def test_a_job_managed_by_another_controller_is_not_changed() -> None:
    async with small_cluster() as place:
        # when
        await place.create(JOBS, indexed(managedBy="example.com/mine"))
        await asyncio.sleep(30)
        # then
        assert await place.names(PODS) == []
        assert (await place.get(JOBS, "sum"))["status"] == {}
