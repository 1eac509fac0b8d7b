"""CronJobs on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.clock import format_time
from pykruise.kube.documents import decode
from pykruise.kube.resources import CRON_JOBS, EVENTS, JOBS, PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.paper import START
from support.sandbox import Object, Place, small_cluster

SLOW = ClusterSettings(nodes=1, kubelet=KubeletSettings(job_s=150.0))
QUIET = ClusterSettings(
    nodes=1,
    kubelet=KubeletSettings(lease_s=None, heartbeat_s=1e9),
    controllers=("cronjobs", "jobs", "tracked-pods"),
    collected=(CRON_JOBS, JOBS, PODS),
)
"""Settings for hours and days: other components, which would need most of the time, write and read little."""


def cron_job(schedule: str = "* * * * *", **spec: Any) -> Object:
    containers = [{"name": "main", "image": "busybox:1"}]
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}, "backoffLimit": 0}
    template = {"metadata": {"labels": {"app": "tick"}}, "spec": job}
    return {"metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}


def minute(number: int) -> float:
    """The instant of a full minute after the start."""
    return (START // 60 + number) * 60


async def jobs(place: Place) -> list[Object]:
    listed = await place.client.list(JOBS, "default")
    return sorted((decode(raw) for raw in listed.items), key=lambda doc: str(doc["metadata"]["name"]))


async def names(place: Place) -> list[str]:
    return [doc["metadata"]["name"] for doc in await jobs(place)]


async def reasons_of_events(place: Place) -> set[str]:
    docs = [await place.get(EVENTS, name) for name in await place.names(EVENTS)]
    return {doc["reason"] for doc in docs if doc["involvedObject"]["kind"] == "CronJob"}


async def test_a_job_is_created_at_each_time_and_old_ones_are_deleted() -> None:
    async with small_cluster() as place:
        # given
        await place.create(CRON_JOBS, cron_job())
        # when
        await asyncio.sleep(60 * 6 + 30)
        # then the last three Jobs that succeeded are kept
        result = await jobs(place)
        first = int(minute(0) // 60)
        assert [doc["metadata"]["name"] for doc in result] == [f"tick-{first + at}" for at in (4, 5, 6)]
        job = result[0]
        assert job["metadata"]["labels"]["app"] == "tick"
        owner = job["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
        assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == (
            format_time(minute(4))
        )
        status = (await place.get(CRON_JOBS, "tick"))["status"]
        assert status["lastScheduleTime"] == format_time(minute(6))
        assert status["lastSuccessfulTime"] > status["lastScheduleTime"]
        assert status.get("active", []) == []
        assert await reasons_of_events(place) == {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}


@pytest.mark.parametrize(("policy", "made"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
async def test_the_policy_decides_about_jobs_that_still_run(policy: str, made: int) -> None:
    async with small_cluster(SLOW) as place:
        # given jobs of two and a half minutes
        await place.create(CRON_JOBS, cron_job(concurrencyPolicy=policy))
        # when
        await asyncio.sleep(60 * 3 + minute(0) - START)
        await asyncio.sleep(20)
        # then
        running = [doc for doc in await jobs(place) if not doc["status"].get("completionTime")]
        assert len(running) == made
        newest = int(minute(0) // 60) + (1 if policy == "Forbid" else 3)
        assert running[-1]["metadata"]["name"] == f"tick-{newest}"
        status = (await place.get(CRON_JOBS, "tick"))["status"]
        assert len(status["active"]) == made
        assert ("JobAlreadyActive" in await reasons_of_events(place)) is (policy == "Forbid")


async def test_a_suspended_one_makes_nothing_and_makes_up_for_the_last_time_only() -> None:
    async with small_cluster() as place:
        # given
        await place.create(CRON_JOBS, cron_job(suspend=True))
        await asyncio.sleep(300)
        assert await names(place) == []
        # when
        await place.merge(CRON_JOBS, "tick", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        # then
        assert len(await names(place)) == 1


async def test_a_run_later_than_its_deadline_is_skipped() -> None:
    async with small_cluster(QUIET) as place:
        # given a CronJob that is suspended at its time
        await place.create(CRON_JOBS, cron_job("0 * * * *", suspend=True, startingDeadlineSeconds=30))
        await asyncio.sleep(3600 - START % 3600 + 60)
        # when it is resumed a minute after the hour
        await place.merge(CRON_JOBS, "tick", {"spec": {"suspend": False}})
        await asyncio.sleep(60)
        assert await names(place) == []
        # then the next run is made
        await asyncio.sleep(3600)
        assert len(await names(place)) == 1


async def test_failed_jobs_have_their_own_history_limit() -> None:
    async with small_cluster() as place:
        # given
        place.cluster.kubelets.set_rules([Rule(image="busybox:*", exit_code=1)])
        await place.create(CRON_JOBS, cron_job(failedJobsHistoryLimit=2))
        # when
        await asyncio.sleep(60 * 5 + 40)
        # then
        failed = [doc for doc in await jobs(place) if doc["status"].get("failed")]
        assert len(failed) == 2
        assert "lastSuccessfulTime" not in (await place.get(CRON_JOBS, "tick"))["status"]


async def test_the_time_zone_sets_the_clock_of_a_schedule() -> None:
    async with small_cluster(QUIET) as place:
        # given noon in a zone that is an hour ahead all year
        await place.create(CRON_JOBS, cron_job("0 12 * * *", timeZone="Africa/Lagos"))
        # when
        await asyncio.sleep(86_400)
        # then
        made = (await jobs(place))[0]["metadata"]["annotations"]
        at = made["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert at.endswith("T12:00:00+01:00")


async def test_jobs_are_deleted_with_their_cron_job() -> None:
    async with small_cluster() as place:
        # given
        await place.create(CRON_JOBS, cron_job())
        await asyncio.sleep(150)
        assert await names(place)
        # when
        await place.client.delete(CRON_JOBS, "default", "tick", propagation="Background")

        # then
        async def nothing_is_left() -> bool:
            return not await names(place)

        await place.until(nothing_is_left)
