"""AdvancedCronJobs on a cluster: Jobs and BroadcastJobs by the clock, whatever happens to the manager."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.errors import ForbiddenError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import JOBS, Resource
from pykruise.sandbox.nodes.faults import Rule
from support.common_faults import WRITE_FAULTS, changes_of, the_writes
from support.faults import Answer, FaultyTransport, conflict, posts, workload_writes, writes
from support.kills import Kill
from support.scenario import Object, Stage

NAME = "often"
POD = {
    "metadata": {"labels": {"app": NAME}},
    "spec": {"containers": [{"name": "main", "image": "busybox:1"}], "restartPolicy": "Never"},
}
BROADCAST = {"broadcastJobTemplate": {"metadata": {"labels": {"of": NAME}}, "spec": {"template": POD}}}
JOB = {"jobTemplate": {"metadata": {"labels": {"of": NAME}}, "spec": {"template": POD}}}
PULLS = {
    "imageListPullJobTemplate": {"spec": {"images": ["busybox:1"], "completionPolicy": {"type": "Always"}}}
}


def cron(template: Object, schedule: str = "@every 5s", **spec: Any) -> Object:
    return {
        "apiVersion": ADVANCED_CRON_JOBS.api_version,
        "kind": ADVANCED_CRON_JOBS.kind,
        "metadata": {"name": NAME},
        "spec": {"schedule": schedule, "template": template, **spec},
    }


async def status(stage: Stage) -> Object:
    status: Object = (await stage.get(NAME, resource=ADVANCED_CRON_JOBS)).get("status") or {}
    return status


async def children(stage: Stage, resource: Resource) -> list[Object]:
    return sorted(await stage.stored(resource), key=lambda child: str(child["metadata"]["name"]))


@pytest.mark.parametrize(("template", "resource"), [(JOB, JOBS), (BROADCAST, BROADCAST_JOBS)])
async def test_children_are_created_on_schedule_and_run_to_their_end(
    stage: Stage, template: Object, resource: Resource
) -> None:
    """advancedcronjob cases 41, 50, 61, 62"""
    await stage.start_manager()
    await stage.create(cron(template, successfulJobsHistoryLimit=2), resource=ADVANCED_CRON_JOBS)
    made: set[str] = set()

    async def has_made_five() -> bool:
        made.update(child["metadata"]["name"] for child in await children(stage, resource))
        return len(made) >= 5

    await stage.until(has_made_five)

    result = await children(stage, resource)
    assert len(result) <= 4
    assert all(child["metadata"]["labels"]["of"] == NAME for child in result)
    times = sorted(int(name.rpartition("-")[2]) for name in made)
    assert [later - time for time, later in itertools.pairwise(times)] == [5] * (len(times) - 1)
    assert (await status(stage))["type"] == resource.kind
    await stage.until(lambda: stage.events("SuccessfulCreate"))


@pytest.mark.sandbox_only
@pytest.mark.parametrize("spec", [{"successfulJobsHistoryLimit": 1}, {"concurrencyPolicy": "Replace"}])
async def test_a_schedule_of_ten_seconds_is_never_slowed_down(stage: Stage, spec: Object) -> None:
    """Each run deletes a child that the schedule created less than 30 s ago. That is no churn."""
    # given runs that last for a second, or for longer than the time until the next one
    lasts_s = 1 if "concurrencyPolicy" not in spec else 1e6
    stage.kubelets.set_rules([Rule(image="busybox:1", exit_code=0, after_s=lasts_s)])
    await stage.start_manager()
    # when
    await stage.create(cron(JOB, "@every 10s", **spec), resource=ADVANCED_CRON_JOBS)
    made: set[str] = set()

    async def has_made_twenty() -> bool:
        made.update(child["metadata"]["name"] for child in await children(stage, JOBS))
        return len(made) >= 20

    await stage.until(has_made_twenty, within_s=260)
    # then
    times = sorted(int(name.rpartition("-")[2]) for name in made)
    assert [later - time for time, later in itertools.pairwise(times)] == [10] * (len(times) - 1)
    last = (await children(stage, JOBS))[-1]
    assert parse_time(last["metadata"]["creationTimestamp"]) - times[-1] < 3
    assert await stage.events("Churning") == []


async def test_an_image_list_pull_child_is_created_and_readable_in_both_versions(stage: Stage) -> None:
    """advancedcronjob case 74"""
    await stage.start_manager()
    await stage.create(cron(PULLS), resource=ADVANCED_CRON_JOBS)
    (child, *_) = await stage.until(lambda: children(stage, IMAGE_LIST_PULL_JOBS))
    assert child["spec"]["images"] == ["busybox:1"]

    older = msgspec.structs.replace(ADVANCED_CRON_JOBS, version="v1alpha1")
    await stage.merge(NAME, {"spec": {"paused": True}}, resource=older)

    stored = await stage.get(NAME, resource=ADVANCED_CRON_JOBS)
    assert stored["spec"]["template"]["imageListPullJobTemplate"]["spec"]["images"] == ["busybox:1"]


async def test_an_unworkable_cron_job_is_refused(stage: Stage) -> None:
    """advancedcronjob cases 44, 45, 48"""
    with pytest.raises(InvalidError, match=r"spec\.schedule"):
        await stage.create(cron(JOB, "60 * * * *"), resource=ADVANCED_CRON_JOBS)
    with pytest.raises((InvalidError, ForbiddenError), match=r"spec\.template"):
        await stage.create(cron({**JOB, **BROADCAST}), resource=ADVANCED_CRON_JOBS)
    await stage.create(cron(BROADCAST), resource=ADVANCED_CRON_JOBS)
    with pytest.raises((InvalidError, ForbiddenError), match="forbidden"):
        await stage.merge(
            NAME,
            {"spec": {"template": {"broadcastJobTemplate": {"spec": {"parallelism": 1}}}}},
            resource=ADVANCED_CRON_JOBS,
        )


async def test_replaced_jobs_delete_their_pods(stage: Stage) -> None:
    """advancedcronjob case 53: Jobs of batch/v1 would leave them behind"""
    endless: Object = {
        "jobTemplate": {"spec": {"template": {**POD, "metadata": {"labels": {"app": NAME, "slow": "yes"}}}}}
    }
    stage.kubelets.set_rules([Rule(labels="slow=yes", exit_code=0, after_s=1e6)])
    await stage.start_manager()
    await stage.create(cron(endless, concurrencyPolicy="Replace"), resource=ADVANCED_CRON_JOBS)
    made: set[str] = set()

    async def has_replaced() -> bool:
        result = await children(stage, JOBS)
        made.update(child["metadata"]["name"] for child in result)
        return len(made) >= 3

    await stage.until(has_replaced)
    await stage.merge(NAME, {"spec": {"paused": True}}, resource=ADVANCED_CRON_JOBS)

    async def has_one_pod() -> bool:
        return len(await stage.pods(NAME)) == 1

    await stage.until(has_one_pod)
    assert len(await children(stage, JOBS)) == 1


async def test_a_refused_child_is_reported_and_a_later_one_made(stage: Stage) -> None:
    """advancedcronjob case 71"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/broadcastjobs"), lambda _: Answer(403, reason="Forbidden", message="exceeded quota"))
    await stage.start_manager(faulty)
    await stage.create(cron(BROADCAST), resource=ADVANCED_CRON_JOBS)

    events = await stage.until(lambda: stage.events("FailedCreate"))
    assert "exceeded quota" in events[0]["message"]
    faulty.clear()

    await stage.until(lambda: children(stage, BROADCAST_JOBS))


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(5))
async def test_a_manager_is_killed_at_any_write(stage: Stage, at: int, takes_effect: bool) -> None:
    """advancedcronjob case 51: each time is served once, or made up for"""
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes("/apis"), kill)
    await stage.start_manager(faulty)
    await stage.create(
        cron(BROADCAST, "@every 30s", successfulJobsHistoryLimit=9), resource=ADVANCED_CRON_JOBS
    )
    await stage.until(lambda: kill.reached, within_s=180)
    await stage.kill_manager()
    before = {child["metadata"]["uid"] for child in await children(stage, BROADCAST_JOBS)}
    await stage.start_manager()

    async def goes_on() -> bool:
        outcome = await children(stage, BROADCAST_JOBS)
        return len({child["metadata"]["uid"] for child in outcome} - before) >= 1

    await stage.until(goes_on)

    result = await children(stage, BROADCAST_JOBS)
    assert before <= {child["metadata"]["uid"] for child in result}, "nothing is recreated"
    times = [int(child["metadata"]["name"].rpartition("-")[2]) for child in result]
    assert all((later - time) % 30 == 0 for time, later in itertools.pairwise(times))


@pytest.mark.virtual_time("requests time out, and it takes minutes")
@pytest.mark.checkered(4)
@pytest.mark.parametrize("number", [0, 1])
@WRITE_FAULTS
async def test_one_failing_write_does_not_disturb_the_schedule(
    stage: Stage, fault: object, number: int
) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(writes("cronjobs"), the_writes(number, fault=fault))
    await stage.start_manager(faulty)
    await stage.create(
        cron(BROADCAST, "@every 60s", successfulJobsHistoryLimit=9), resource=ADVANCED_CRON_JOBS
    )

    await asyncio.sleep(245)

    times = [
        int(child["metadata"]["name"].rpartition("-")[2]) for child in await children(stage, BROADCAST_JOBS)
    ]
    assert [later - time for time, later in itertools.pairwise(times)] == [60, 60, 60]


@pytest.mark.virtual_time("hours")
async def test_runs_missed_for_hours_without_a_manager_are_caught_up_once(stage: Stage) -> None:
    """advancedcronjob cases 56 and 57: more than the 100 missed times that the manager examines"""
    await stage.create(cron(BROADCAST, "*/1 * * * *"), resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(2 * 3600 + 20)

    await stage.start_manager()

    await stage.until(lambda: stage.events("TooManyMissedTimes"))
    await asyncio.sleep(10)
    assert len(await children(stage, BROADCAST_JOBS)) == 1


async def test_a_conflicting_status_is_written_after_all(stage: Stage) -> None:
    """advancedcronjob case 76"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(changes_of("/advancedcronjobs"), conflict(), None, conflict(), conflict())
    await stage.start_manager(faulty)
    await stage.create(cron(BROADCAST, successfulJobsHistoryLimit=9), resource=ADVANCED_CRON_JOBS)

    async def has_made_three() -> bool:
        return len(await children(stage, BROADCAST_JOBS)) >= 3

    await stage.until(has_made_three)

    async def says_the_last() -> bool:
        result = await children(stage, BROADCAST_JOBS)
        last = result[-1]["metadata"]["annotations"]["apps.kruise.io/scheduled-at"]
        return bool((await status(stage)).get("lastScheduleTime") == last)

    await stage.until(says_the_last)
    times = [
        int(child["metadata"]["name"].rpartition("-")[2]) for child in await children(stage, BROADCAST_JOBS)
    ]
    assert [later - time for time, later in itertools.pairwise(times)] == [5] * (len(times) - 1)


async def test_a_schedule_taken_over_from_another_manager_continues_without_repeated_runs(
    stage: Stage,
) -> None:
    """A take-over while a child runs: its owner reference has the older version, the status is OpenKruise's."""
    # given
    stage.kubelets.set_rules([Rule(labels=f"app={NAME}", exit_code=0, after_s=1e6)])
    made = await stage.create(
        cron(BROADCAST, "@every 20s", concurrencyPolicy="Forbid"), resource=ADVANCED_CRON_JOBS
    )
    tick = int(stage.clock())
    time = format_time(tick)
    owner = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "AdvancedCronJob",
        "name": NAME,
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    child = {
        "apiVersion": BROADCAST_JOBS.api_version,
        "kind": BROADCAST_JOBS.kind,
        "metadata": {
            "name": f"{NAME}-{tick}",
            "annotations": {"apps.kruise.io/scheduled-at": time},
            "ownerReferences": [owner],
        },
        "spec": BROADCAST["broadcastJobTemplate"]["spec"],
    }
    await stage.create(child, resource=BROADCAST_JOBS)
    body = {"status": {"type": "BroadcastJob", "lastScheduleTime": time}}
    await stage.client.patch(
        ADVANCED_CRON_JOBS, stage.namespace, NAME, body, patch_type=PatchType.MERGE, subresource="status"
    )
    # when
    await stage.start_manager()

    # then it counts as active, and what is due waits for it
    async def is_taken_over() -> bool:
        return [item["name"] for item in (await status(stage)).get("active") or ()] == [f"{NAME}-{tick}"]

    await stage.until(is_taken_over)
    await stage.until(lambda: stage.events("JobAlreadyActive"), within_s=60)
    assert len(await children(stage, BROADCAST_JOBS)) == 1
    # when it ends, the latest time is made up for
    stage.kubelets.set_rules([])

    async def goes_on() -> list[Object]:
        result = await children(stage, BROADCAST_JOBS)
        return result if len(result) == 2 else []

    (first, second) = await stage.until(goes_on)
    assert first["metadata"]["name"] == f"{NAME}-{tick}"
    assert (int(second["metadata"]["name"].rpartition("-")[2]) - tick) % 20 == 0


@pytest.mark.virtual_time("minutes of them")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_schedule_that_becomes_more_frequent_starts_at_its_first_time_after_the_change(
    stage: Stage, is_restarted: bool
) -> None:
    # given a job that is due once a year, ten minutes after it was made
    await stage.start_manager()
    await stage.create(cron(JOB, "@yearly"), resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(605)
    # when the schedule is changed, with a manager that sees it or one that starts later
    if is_restarted:
        await stage.kill_manager()
    await stage.merge(NAME, {"spec": {"schedule": "*/5 * * * *"}}, resource=ADVANCED_CRON_JOBS)
    changed_at = stage.clock()
    if is_restarted:
        await asyncio.sleep(10)
        await stage.start_manager()
    await asyncio.sleep(60)
    # then no time before the change is made up for
    assert await children(stage, JOBS) == []
    assert await stage.events("MissSchedule") == []
    # and the first one after it is served
    first = await stage.until(lambda: children(stage, JOBS))
    tick = int(first[0]["metadata"]["name"].rpartition("-")[2])
    assert changed_at < tick <= changed_at + 300
