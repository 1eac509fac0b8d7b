"""Times at which an AdvancedCronJob creates children: the numbered cases of its specification, without a cluster."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from pykruise.pods.reasons import Code
from support.cron_world import NAME, START, UID, CronWorld

TICK = int(START)


def test_a_child_is_created_at_its_time_and_named_after_it_case_50() -> None:
    world = CronWorld().sync()
    assert world.made == []
    assert world.plan().requeue_after_s == pytest.approx(30)

    world.at("2026-01-31T10:01:00Z")

    assert world.made == [f"{NAME}-{TICK + 60}"]
    (child,) = world.children.values()
    assert child["kind"] == "BroadcastJob"
    assert child["metadata"]["annotations"] == {"apps.kruise.io/scheduled-at": "2026-01-31T10:01:00Z"}
    assert child["metadata"]["ownerReferences"][0]["uid"] == UID
    assert world.status["lastScheduleTime"] == "2026-01-31T10:01:00Z"
    assert world.status["type"] == "BroadcastJob"
    assert world.active == [f"{NAME}-{TICK + 60}"]


@pytest.mark.parametrize("writes", [1, 2])
def test_a_killed_manager_makes_nothing_twice_case_51(writes: int) -> None:
    world = CronWorld()
    world.now = START + 61
    world.carry_out(world.plan(), writes=writes)

    world.sync().run(30)

    assert world.ticks == ["2026-01-31T10:01:00Z"]
    assert world.status["lastScheduleTime"] == "2026-01-31T10:01:00Z"


def test_a_child_deleted_before_the_status_has_its_time_is_not_recreated() -> None:
    # given
    world = CronWorld()
    world.now = START + 61
    world.carry_out(world.plan(), writes=1)
    world.plan()
    # when
    world.children.clear()
    world.sync()
    # then
    assert world.ticks == ["2026-01-31T10:01:00Z"]
    assert world.status["lastScheduleTime"] == "2026-01-31T10:01:00Z"


def test_forbid_serves_the_latest_time_when_the_child_has_ended_case_52() -> None:
    world = CronWorld(concurrencyPolicy="Forbid").at("2026-01-31T10:01:00Z").run(200)
    assert len(world.made) == 1
    waiting = world.plan().waiting
    assert waiting is not None
    assert waiting.code is Code.CHILD_ACTIVE

    world.end().sync()

    assert world.ticks == ["2026-01-31T10:01:00Z", "2026-01-31T10:04:00Z"]
    assert world.events.count("JobAlreadyActive") == 3


def test_replace_deletes_what_runs_case_53() -> None:
    world = CronWorld(concurrencyPolicy="Replace").at("2026-01-31T10:01:00Z").at("2026-01-31T10:02:00Z")

    assert world.ticks == ["2026-01-31T10:01:00Z", "2026-01-31T10:02:00Z"]
    assert list(world.children) == [f"{NAME}-{TICK + 120}"]


def test_replace_that_cannot_delete_makes_nothing_case_53() -> None:
    world = CronWorld(concurrencyPolicy="Replace").at("2026-01-31T10:01:00Z")
    world.now = START + 120

    stages = [stage.purpose.name for stage in world.plan().stages]

    assert stages == ["REPLACE_JOBS", "CREATE_JOBS", "REPORT_STATUS"]


def test_allow_runs_both_jobs_case_54() -> None:
    world = CronWorld().at("2026-01-31T10:01:00Z").at("2026-01-31T10:02:00Z")

    assert len(world.active) == 2


@pytest.mark.parametrize("spec", [{}, {"startingDeadlineSeconds": 5}])
@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        pytest.param(
            {"paused": True}, {"paused": False}, "2026-01-31T10:12:00Z", id="resumed, advancedcronjob case 55"
        ),
        pytest.param(
            {"schedule": "@yearly"}, {"schedule": "* * * * *"}, "2026-01-31T10:12:00Z", id="schedule"
        ),
        pytest.param(
            {"schedule": "@yearly"}, {"schedule": "@every 1m"}, "2026-01-31T10:12:20Z", id="interval"
        ),
        pytest.param(
            {"schedule": "0 12 * * *", "timeZone": "Etc/UTC"},
            {"timeZone": "Europe/Moscow", "schedule": "0 13 * * *"},
            "2026-02-01T10:00:00Z",
            id="zone",
        ),
    ],
)
def test_times_before_a_change_are_not_judged_by_the_changed_spec(
    spec: dict[str, Any], before: dict[str, Any], after: dict[str, Any], first: str
) -> None:
    # given a CronJob that has created no child yet
    world = CronWorld(**{**spec, **before}).at("2026-01-31T10:11:20Z")
    assert world.made == []
    # when
    world.spec(**after).sync()
    # then no child is created for a time before the change, and no such time counts as missed
    assert world.made == []
    assert "MissSchedule" not in world.events
    # and the first child is created at the first time after the change
    world.at(first)
    assert world.ticks == [first]


def test_a_missed_run_is_not_started_when_the_deadline_is_raised() -> None:
    # given a time that was missed
    world = CronWorld("@hourly", startingDeadlineSeconds=60).at("2026-01-31T11:10:00Z")
    assert (world.made, "MissSchedule" in world.events) == ([], True)
    # when
    world.spec(startingDeadlineSeconds=3600).sync()
    # then
    assert world.made == []
    assert world.at("2026-01-31T12:00:00Z").ticks == ["2026-01-31T12:00:00Z"]


def test_only_the_latest_run_missed_in_three_days_is_started_case_56() -> None:
    world = CronWorld("@hourly").at("2026-02-03T10:30:00Z")

    assert world.ticks == ["2026-02-03T10:00:00Z"]


@pytest.mark.parametrize("minutes", [101, 10_000])
def test_any_number_of_missed_times_creates_one_child_and_one_warning_case_57(minutes: int) -> None:
    world = CronWorld()
    world.now = START + 60 * minutes + 60
    world.sync()
    assert len(world.made) == 1
    assert world.events.count("TooManyMissedTimes") == 1

    world.run(60)

    assert len(world.made) == 2


def test_a_run_whose_child_is_deleted_is_not_started_again_case_58() -> None:
    world = CronWorld(successfulJobsHistoryLimit=0).at("2026-01-31T10:01:00Z").end().run(40)

    assert world.children == {}
    assert world.ticks == ["2026-01-31T10:01:00Z"]


def test_two_hundred_runs_are_two_hundred_children_case_59() -> None:
    world = CronWorld()
    for _ in range(200):
        world.run(60, step_s=20)
        world.end()
        world.children.clear()  # their time to live has passed

    assert len(world.made) == len(set(world.made)) == 200


def test_a_child_deleted_by_a_user_is_not_recreated_case_60() -> None:
    world = CronWorld().at("2026-01-31T10:01:00Z")
    world.children.clear()

    world.run(40)

    assert len(world.made) == 1
    assert world.status["lastScheduleTime"] == "2026-01-31T10:01:00Z"


@pytest.mark.parametrize("paused", [False, True])
def test_the_oldest_finished_children_are_deleted_case_61(paused: bool) -> None:
    world = CronWorld(successfulJobsHistoryLimit=9, failedJobsHistoryLimit=9)
    for number in range(8):
        world.run(60, step_s=60)
        world.end(kind="Failed" if number < 3 else "Complete")

    world.spec(successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1, paused=paused).sync()

    kept = [number for number, name in enumerate(world.made) if name in world.children]
    assert kept == [2, 5, 6, 7]


def test_a_finished_child_is_no_longer_active_case_62() -> None:
    world = CronWorld(template="jobTemplate").at("2026-01-31T10:01:00Z")
    assert world.active

    world.end().sync()

    assert world.active == []
    (child,) = world.children.values()
    assert child["metadata"]["labels"] == {"a": "b"}
    assert child["apiVersion"] == "batch/v1"


def test_no_run_starts_before_an_object_created_in_the_future_case_63() -> None:
    world = CronWorld(created="2026-01-31T12:00:00Z")
    world.now = START + 600

    world.run(300)

    assert world.made == []
    assert world.plan().requeue_after_s is not None


def test_a_schedule_that_is_never_due_is_not_requeued_case_64() -> None:
    world = CronWorld("0 0 31 2 *").run(600)

    assert world.made == []
    assert world.plan().requeue_after_s is None


def test_an_interval_continues_from_its_last_run_case_67() -> None:
    world = CronWorld("@every 90s", created="2026-01-31T10:00:00Z").run(200, step_s=5)

    assert world.ticks == ["2026-01-31T10:01:30Z", "2026-01-31T10:03:00Z"]


def test_an_interval_longer_than_the_starting_deadline_still_runs() -> None:
    world = CronWorld("@every 1h", created="2026-01-31T10:00:00Z", startingDeadlineSeconds=100)

    world.run(2 * 3600 + 60, step_s=30)

    assert world.ticks == ["2026-01-31T11:00:00Z", "2026-01-31T12:00:00Z"]


def test_children_of_a_namesake_do_not_count_case_68() -> None:
    old = CronWorld().at("2026-01-31T10:01:00Z").end()
    world = CronWorld(created="2026-01-31T10:01:30Z", successfulJobsHistoryLimit=0)
    world.children = old.children
    for child in world.children.values():
        child["metadata"]["ownerReferences"][0]["uid"] = "the one before"

    world.sync()

    assert len(world.children) == 1
    assert world.active == []
    assert "lastScheduleTime" not in world.status


def test_an_object_that_is_being_deleted_makes_nothing_case_69() -> None:
    world = CronWorld()
    world.document["metadata"]["deletionTimestamp"] = "2026-01-31T10:00:40Z"

    assert world.at("2026-01-31T10:05:00Z").made == []


def test_a_name_that_is_taken_skips_that_time_alone_case_70() -> None:
    world = CronWorld()
    foreign = {"kind": "BroadcastJob", "metadata": {"name": f"{NAME}-{TICK + 60}", "namespace": "shop"}}
    world.children[f"{NAME}-{TICK + 60}"] = foreign

    world.run(100)

    assert world.ticks == ["2026-01-31T10:02:00Z"]
    assert world.events.count("FailedCreate") == 1


def test_a_refused_child_is_retried_until_the_next_run_is_due_case_71() -> None:
    world = CronWorld()
    world.now = START + 60
    (create,) = [step for stage in world.plan().stages for chain in stage.chains for step in chain.steps][:1]
    assert create.failed is not None
    assert create.failed.reason == "FailedCreate"

    world.carry_out(world.plan(), writes=0)
    world.now = START + 130
    world.sync()

    assert world.ticks == ["2026-01-31T10:02:00Z"]


@pytest.mark.parametrize(("late_s", "count"), [(120, 0), (80, 1)])
def test_a_starting_deadline_decides_what_is_too_late_case_72(late_s: int, count: int) -> None:
    world = CronWorld("0 * * * *", startingDeadlineSeconds=100)
    world.now = START + 3600 + late_s

    world.sync()

    assert len(world.made) == count
    assert world.events.count("MissSchedule") == 1 - count


def test_a_child_with_a_garbled_time_still_counts_case_73() -> None:
    world = CronWorld().at("2026-01-31T10:01:00Z")
    (child,) = world.children.values()
    child["metadata"]["annotations"]["apps.kruise.io/scheduled-at"] = "yesterday"

    world.sync()

    assert len(world.active) == 1
    assert len(world.made) == 1


@pytest.mark.parametrize(("succeeded", "is_kept"), [(2, True), (1, False)])
def test_a_pull_that_missed_a_node_has_failed_case_75(succeeded: int, is_kept: bool) -> None:
    world = CronWorld(
        template="imageListPullJobTemplate", concurrencyPolicy="Forbid", failedJobsHistoryLimit=0
    ).at("2026-01-31T10:01:00Z")
    (child,) = world.children.values()
    child["status"] = {"completionTime": "2026-01-31T10:01:10Z", "desired": 2, "succeeded": succeeded}

    world.sync()

    assert bool(world.children) is is_kept


def test_the_managers_zone_counts_without_a_zone_case_77() -> None:
    world = CronWorld("0 10 * * *").at("2026-02-01T10:00:00Z")

    assert world.ticks == ["2026-02-01T10:00:00Z"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "60 * * * *"}, "UnparseableSchedule"),
        ({"timeZone": "Mars/Base"}, "UnknownTimeZone"),
    ],
)
def test_an_unreadable_schedule_or_time_zone_starts_no_run(spec: dict[str, Any], reason: str) -> None:
    world = CronWorld().spec(**spec).at("2026-01-31T10:05:00Z")

    assert world.made == []
    assert world.events == [reason]


def test_zones_and_both_clock_changes_case_66() -> None:
    spring = CronWorld("30 2 * * *", created="2026-03-07T12:00:00Z", timeZone="America/New_York")
    autumn = CronWorld("30 1 * * *", created="2026-10-31T12:00:00Z", timeZone="America/New_York")

    spring.run(2 * 86400, step_s=600)
    autumn.run(86400, step_s=600)

    assert spring.ticks == ["2026-03-09T06:30:00Z"]
    assert autumn.ticks == ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]


def test_clocks_that_jump_make_nothing_twice() -> None:
    world = CronWorld()
    for jump in (60, 3600, -3600, -120, 7200, -86400, 86400):
        world.now += jump
        world.run(120, step_s=20)

    assert len(world.made) == len(set(world.made))


def test_a_cron_job_taken_over_continues_where_openkruise_stopped() -> None:
    """Take-over: OpenKruise's status and children, with owners of the older version."""
    world = CronWorld().at("2026-01-31T10:01:00Z")
    for child in world.children.values():
        child["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1alpha1"
    world.document["status"] = {"type": "BroadcastJob", "lastScheduleTime": "2026-01-31T10:01:00Z"}

    world.run(40).at("2026-01-31T10:02:00Z")

    assert world.ticks == ["2026-01-31T10:01:00Z", "2026-01-31T10:02:00Z"]


def test_a_month_of_minutes_is_played_without_a_miss() -> None:
    world = CronWorld("0 * * * *", successfulJobsHistoryLimit=1)
    for _ in range(31 * 24):
        world.now = (world.now // 3600 + 1) * 3600
        world.sync().end()

    assert len(world.made) == 31 * 24
    assert len(world.children) <= 2


@pytest.mark.parametrize(
    ("schedule", "is_on"),
    [
        ("0 0 13 * 5", lambda day: day.day == 13 or day.isoweekday() == 5),
        ("0 0 */2 * 5", lambda day: day.day % 2 == 1 or day.isoweekday() == 5),
        ("0 0 ? * 5", lambda day: day.isoweekday() == 5),
    ],
)
def test_either_day_field_matches_unless_one_is_a_wildcard_case_65(
    schedule: str, is_on: Callable[[date], bool]
) -> None:
    world = CronWorld(schedule, created="2026-02-01T12:00:00Z", successfulJobsHistoryLimit=0)
    days = [date(2026, 2, 1) + timedelta(days=number) for number in range(1, 90)]
    for day in days:
        world.at(f"{day}T00:00:30Z").end().sync()

    assert world.ticks == [f"{day}T00:00:00Z" for day in days if is_on(day)]


@pytest.mark.parametrize(
    ("waiting", "code"), [("ImagePullBackOff", Code.IMAGE_PULL), ("ContainerCreating", None), (None, None)]
)
def test_a_job_whose_pods_cannot_start_is_skipped_with_their_obstacle(
    waiting: str | None, code: Code | None
) -> None:
    # given a Job under way, whose pod waits
    world = CronWorld(template="jobTemplate", concurrencyPolicy="Forbid").at("2026-01-31T10:01:00Z")
    (job,) = world.children.values()
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    world.pods = [
        {
            "metadata": {
                "name": "p",
                "namespace": job["metadata"]["namespace"],
                "uid": "p",
                "resourceVersion": "1",
                "ownerReferences": [
                    {**owner, "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
                ],
            },
            "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "job:1"}]},
            "status": {
                "phase": "Pending" if waiting else "Running",
                "containerStatuses": [{"name": "main", "image": "job:1", "imageID": "", "state": state}],
            },
        }
    ]
    # when
    skipped = world.plan().skipped
    # then
    assert {name: reason.code for name, reason in skipped.items()} == (
        {job["metadata"]["name"]: code} if code else {}
    )
