"""Jobs on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.resources import JOBS, PODS
from pykruise.sandbox.controllers.job_policies import FINALIZER, index_text, indexes_of
from pykruise.sandbox.nodes.faults import Rule
from support.sandbox import Object, Place, small_cluster


def job(name: str = "sum", *, image: str = "busybox", restart: str = "Never", **spec: Any) -> Object:
    """A Job as a user writes it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": image}]},
            },
            **spec,
        },
    }


async def condition(place: Place, kind: str, name: str = "sum") -> Object:
    """A condition of the Job; empty if the Job has none."""
    status = (await place.get(JOBS, name)).get("status", {})
    return next((condition for condition in status.get("conditions", ()) if condition["type"] == kind), {})


async def test_a_job_runs_its_pod_to_the_end_and_is_complete() -> None:
    async with small_cluster() as place:
        # when
        await place.create(JOBS, job())
        await place.until(lambda: condition(place, "Complete"))
        # then
        status = (await place.get(JOBS, "sum"))["status"]
        assert status["succeeded"] == 1
        assert "active" not in status
        assert status["uncountedTerminatedPods"] == {}
        assert status["completionTime"] >= status["startTime"]
        assert [condition["type"] for condition in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["conditions"][1]["reason"] == "CompletionsReached"
        (name,) = await place.names(PODS)
        pod = await place.get(PODS, name)
        assert pod["status"]["phase"] == "Succeeded"
        assert not pod["metadata"].get("finalizers")
        assert [event["message"] for event in await place.events("Completed")] == ["Job completed"]


async def test_completions_are_reached_within_the_parallelism() -> None:
    async with small_cluster() as place:
        # when
        await place.create(JOBS, job(completions=7, parallelism=3))
        most = 0
        while not await condition(place, "Complete"):
            status = (await place.get(JOBS, "sum")).get("status", {})
            most = max(most, status.get("active", 0))
            await asyncio.sleep(0.05)
        # then
        assert most == 3
        assert (await place.get(JOBS, "sum"))["status"]["succeeded"] == 7
        assert len(await place.names(PODS)) == 7


async def test_an_indexed_job_gives_each_pod_its_number() -> None:
    async with small_cluster() as place:
        # when
        await place.create(JOBS, job(completions=4, parallelism=2, completionMode="Indexed"))
        await place.until(lambda: condition(place, "Complete"))
        # then
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["completedIndexes"], status["succeeded"]) == ("0-3", 4)
        names = sorted(await place.names(PODS))
        assert [name.rsplit("-", 1)[0] for name in names] == ["sum-0", "sum-1", "sum-2", "sum-3"]
        pod = await place.get(PODS, names[2])
        assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "2"
        assert pod["spec"]["hostname"] == "sum-2"
        assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


async def test_failures_beyond_the_backoff_limit_fail_the_job() -> None:
    rules = [Rule(image="busybox", exit_code=1)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, job(backoffLimit=2))
        took_s = await place.until(lambda: condition(place, "Failed"), within_s=300)
        # then it was tried three times, with waits of 10 s and 20 s between the tries
        assert 30 <= took_s < 60
        status = (await place.get(JOBS, "sum"))["status"]
        assert status["failed"] == 3
        shown = status["conditions"][-1]
        assert (shown["reason"], shown["message"]) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert [condition["type"] for condition in status["conditions"]] == ["FailureTarget", "Failed"]
        assert len(await place.names(PODS)) == 3


async def test_a_pod_that_recovers_in_place_lets_the_job_complete() -> None:
    rules = [Rule(image="busybox", exit_code=1, first_runs=1)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, job(restart="OnFailure"))
        await place.until(lambda: condition(place, "Complete"))
        # then
        (name,) = await place.names(PODS)
        (status,) = (await place.get(PODS, name))["status"]["containerStatuses"]
        assert status["restartCount"] == 1
        assert (await place.get(JOBS, "sum"))["status"].get("failed", 0) == 0


async def test_a_deadline_ends_a_job_that_takes_too_long() -> None:
    rules = [Rule(image="busybox", exit_code=0, after_s=1000)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(JOBS, job(activeDeadlineSeconds=30))
        await place.until(lambda: condition(place, "Failed"))
        # then
        assert (await condition(place, "Failed"))["reason"] == "DeadlineExceeded"
        assert await place.names(PODS) == []


async def test_the_failure_policy_fails_a_job_or_ignores_failures() -> None:
    rules = [Rule(image="busybox", exit_code=42), Rule(image="flaky", pod="flaky-*", exit_code=7)]
    async with small_cluster(rules=rules) as place:
        # given
        def policy(action: str, code: int) -> Object:
            codes = {"containerName": "main", "operator": "In", "values": [code]}
            return {"rules": [{"action": action, "onExitCodes": codes}]}

        # when
        await place.create(JOBS, job(podFailurePolicy=policy("FailJob", 42)))
        await place.create(
            JOBS, job("flaky", image="flaky", backoffLimit=1, podFailurePolicy=policy("Ignore", 7))
        )
        await place.until(lambda: condition(place, "Failed"))
        await asyncio.sleep(120)
        # then
        shown = await condition(place, "Failed")
        assert shown["reason"] == "PodFailurePolicy"
        assert "failed with exit code 42 matching FailJob rule at index 0" in shown["message"]
        assert not await condition(place, "Failed", "flaky")
        assert (await place.get(JOBS, "flaky"))["status"].get("failed", 0) == 0


async def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async with small_cluster() as place:
        # given
        await place.create(JOBS, job(suspend=True))
        await asyncio.sleep(5)
        assert await place.names(PODS) == []
        assert (await condition(place, "Suspended"))["status"] == "True"
        # when
        await place.merge(JOBS, "sum", {"spec": {"suspend": False}})
        await place.until(lambda: condition(place, "Complete"))
        # then
        assert (await condition(place, "Suspended"))["reason"] == "JobResumed"
        shown = [*await place.events("Suspended"), *await place.events("Resumed")]
        assert [event["message"] for event in shown] == ["Job suspended", "Job resumed"]


async def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    async with small_cluster() as place:
        # given
        await place.create(JOBS, job(ttlSecondsAfterFinished=20))
        await place.until(lambda: condition(place, "Complete"))
        await asyncio.sleep(10)
        assert await place.exists(JOBS, "sum")
        # when
        await asyncio.sleep(15)
        # then
        assert not await place.exists(JOBS, "sum")
        assert await place.names(PODS) == []


async def test_deleting_a_running_job_deletes_its_pods() -> None:
    rules = [Rule(image="busybox", exit_code=0, after_s=1000)]
    async with small_cluster(rules=rules) as place:
        # given
        await place.create(JOBS, job(parallelism=2, completions=2))
        await asyncio.sleep(5)
        (first, _) = await place.names(PODS)
        assert (await place.get(PODS, first))["metadata"]["finalizers"] == [FINALIZER]
        # when
        await place.client.delete(JOBS, "default", "sum", propagation="Background")

        # then
        async def is_empty() -> bool:
            return not await place.names(PODS)

        await place.until(is_empty)


def test_indexes_are_written_as_ranges() -> None:
    assert index_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7,8"
    assert list(indexes_of("0-2,5,7,8")) == [0, 1, 2, 5, 7, 8]
    assert index_text(()) == ""
