"""Plans of an AdvancedCronJob at one instant: their waits and their writes."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.advancedcronjob.children import CHILD_VIEWS, ChildView
from pykruise.kinds.advancedcronjob.snapshot import CRON_JOB_VIEWS, AdvancedCronJobSettings, read_snapshot
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import CODES, Code
from pykruise.runtime.actions import Delete
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories, Read
from pykruise.runtime.views import Views
from support.cron_world import NAME, START, CronWorld
from support.snapshots import Seed, taken

TICK = int(START)
CORRECT = CODES[Code.INVALID_SPEC].helps


def purposes(plan: Plan) -> list[Purpose]:
    return [Purpose(stage.purpose) for stage in plan.stages]


def deleted(plan: Plan) -> list[str]:
    return [step.action.key.name for step in plan.steps if isinstance(step.action, Delete)]


def warnings(plan: Plan) -> list[tuple[str, bool]]:
    return [(note.reason, note.warning) for note in plan.notes]


def after_ticks(count: int, **spec: Any) -> CronWorld:
    """A CronJob with `count` children that still run, one created each minute."""
    return CronWorld(**spec).run(60 * count, step_s=30)


# Reasons to wait


@pytest.mark.parametrize(
    ("world", "code", "remedy"),
    [
        (CronWorld(), Code.NEXT_TICK, ""),
        (CronWorld(paused=True), Code.PAUSED, "set spec.paused to false"),
        (CronWorld("0 0 31 2 *"), Code.NO_TICK, ""),
        (CronWorld("60 * * * *"), Code.INVALID_SPEC, "correct the field"),
        (CronWorld(template="jobTemplate").spec(template={}), Code.INVALID_SPEC, CORRECT),
        (CronWorld(paused="maybe"), Code.INVALID_SPEC, CORRECT),
    ],
    ids=["its time", "a resume", "a day that never comes", "a schedule", "a template", "a spec"],
)
def test_the_plan_reports_its_waiting_reason_and_remedy(world: CronWorld, code: Code, remedy: str) -> None:
    waiting = world.plan().waiting
    assert waiting is not None
    assert (waiting.code, waiting.remedy) == (code, remedy)


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"template": {}}, "spec.template: exactly one of jobTemplate"), ({"paused": "maybe"}, "spec.paused")],
)
def test_a_spec_that_cannot_be_executed_is_a_warning_that_names_the_field(
    spec: dict[str, Any], field: str
) -> None:
    plan = CronWorld().spec(**spec).plan()
    assert not plan.stages
    assert warnings(plan) == [(Code.INVALID_SPEC, True)]
    assert plan.notes[0].message.startswith(field)


def test_a_null_template_counts_as_absent() -> None:
    world = CronWorld()
    world.document["spec"]["template"]["jobTemplate"] = None
    assert world.at("2026-01-31T10:01:00Z").status["type"] == "BroadcastJob"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedule": "60 * * * *"}, ("UnparseableSchedule", True)),
        ({"timeZone": "Mars/Base"}, ("UnknownTimeZone", True)),
    ],
)
def test_a_schedule_that_cannot_be_read_is_a_warning(
    spec: dict[str, Any], expected: tuple[str, bool]
) -> None:
    assert warnings(CronWorld().spec(**spec).plan()) == [expected]


def test_a_plan_for_which_all_is_as_it_should_be_writes_nothing() -> None:
    world = after_ticks(1)
    assert world.plan().is_settled
    assert world.spec(paused=True).plan().is_settled


# When something is due


@pytest.mark.parametrize(
    ("zone", "expected"), [(None, "2026-01-31T15:00:00Z"), ("UTC", "2026-02-01T00:00:00Z")]
)
def test_a_schedule_without_a_zone_is_in_that_of_the_manager(zone: str | None, expected: str) -> None:
    """jobs B6.3"""
    world = CronWorld("0 0 * * *", timeZone=zone)
    world.settings = AdvancedCronJobSettings(time_zone="Asia/Tokyo")
    world.run(86400, step_s=3600)
    assert world.ticks[0] == expected


@pytest.mark.parametrize(("missed", "is_said"), [(100, False), (101, True)])
def test_more_than_a_hundred_missed_times_cause_a_warning(missed: int, is_said: bool) -> None:
    """jobs B6.4"""
    world = CronWorld()
    world.now = START + 60 * missed
    assert warnings(world.plan()) == ([("TooManyMissedTimes", True)] if is_said else [])


@pytest.mark.parametrize(("late_s", "is_served"), [(99, True), (100, True), (101, False)])
def test_a_time_may_be_as_late_as_its_deadline(late_s: int, is_served: bool) -> None:
    """advancedcronjob case 72, to the second"""
    world = CronWorld("0 * * * *", startingDeadlineSeconds=100)
    world.now = START + 3600 + late_s
    plan = world.plan()
    assert (Purpose.CREATE_JOBS in purposes(plan)) == is_served
    assert warnings(plan) == ([] if is_served else [("MissSchedule", True)])


@pytest.mark.parametrize(
    ("schedule", "created", "now_s", "requeue_s"),
    [
        ("*/1 * * * *", "2026-01-31T10:00:30Z", 130, 50),
        ("*/1 * * * *", "2026-01-31T12:00:00Z", 130, 50),  # advancedcronjob case 63
        ("@every 90s", "2026-01-31T10:00:00Z", 10, 80),
        ("@every 90s", "2026-01-31T10:00:00Z", 190, 80),  # advancedcronjob case 67
        ("@every 90s", "2026-01-31T12:00:00Z", 7100, 190),  # advancedcronjob case 63
    ],
    ids=[
        "fields",
        "fields, in the future",
        "interval",
        "interval that was missed",
        "interval, in the future",
    ],
)
def test_a_cronjob_is_reconciled_again_at_its_next_time(
    schedule: str, created: str, now_s: int, requeue_s: int
) -> None:
    """jobs B6.4: the next time of an interval counts from its last time only"""
    world = CronWorld(schedule, created=created)
    world.now = START + now_s
    assert world.plan().requeue_after_s == requeue_s


def test_an_unreadable_last_schedule_time_counts_as_missing() -> None:
    world = CronWorld()
    world.document["status"] = {"lastScheduleTime": "yesterday"}
    assert world.at("2026-01-31T10:01:00Z").ticks == ["2026-01-31T10:01:00Z"]


# Children of other owners, and its own


@pytest.mark.parametrize(("namespace", "is_taken"), [("shop", True), ("elsewhere", False)])
def test_a_name_is_taken_in_its_own_namespace_only_case_70(namespace: str, is_taken: bool) -> None:
    world = CronWorld()
    foreign = {"kind": "BroadcastJob", "metadata": {"name": f"{NAME}-{TICK + 60}", "namespace": namespace}}
    world.children["foreign"] = foreign
    world.now = START + 60
    plan = world.plan()
    assert (Purpose.CREATE_JOBS not in purposes(plan)) == is_taken
    assert warnings(plan) == ([("FailedCreate", True)] if is_taken else [])


def test_a_child_with_an_unreadable_time_is_not_a_foreign_object_case_51() -> None:
    world = after_ticks(1)
    (child,) = world.children.values()
    child["metadata"]["annotations"]["apps.kruise.io/scheduled-at"] = "yesterday"
    del world.document["status"]["lastScheduleTime"]
    world.memories = Memories()
    # the plan creates the child again, and the API server refuses it, because the name exists
    assert Purpose.CREATE_JOBS in purposes(world.plan())


class Late(Listed[ChildView]):
    """A cache of children that is empty until a caller waits for it."""

    def __init__(self, views: Views[ChildView], children: list[ChildView]) -> None:
        super().__init__(views, ())
        self._late = children

    async def wait_served(self) -> bool:
        super().__init__(self._views, self._late)
        return True


def test_the_first_list_of_children_is_waited_for_case_51() -> None:
    """A manager that has just started creates no child that exists already."""
    world = after_ticks(1)
    view = CRON_JOB_VIEWS.project(orjson.dumps(world.document))
    views = CHILD_VIEWS["BroadcastJob"]
    project = views.projector()
    children = [project(orjson.dumps(child)) for child in world.children.values()]
    read = Read(
        {views: Late(views, children)},
        key=view.key,
        uid=view.uid,
        now=lambda: world.now,
        rng=Seed(1),
        settings=AdvancedCronJobSettings(),
        live=None,
        memories=None,
    )
    assert [child.name for child in taken(read_snapshot(view, read)).children] == world.made


def test_active_children_are_listed_by_name() -> None:
    """jobs B6.2, step 4"""
    world = after_ticks(3)
    world.children = dict(reversed(world.children.items()))
    assert world.sync().active == sorted(world.made)


# Writes


def test_a_child_that_cannot_be_created_is_a_warning_and_blocks_the_rest() -> None:
    world = after_ticks(1)
    world.now = START + 121
    plan = world.plan()
    assert purposes(plan) == [Purpose.CREATE_JOBS, Purpose.REPORT_STATUS]
    create = next(iter(plan.steps))
    assert create.failed is not None
    assert (create.failed.reason, create.failed.warning) == ("FailedCreate", True)


def test_replace_deletes_no_child_a_second_time_case_53() -> None:
    world = after_ticks(2).spec(concurrencyPolicy="Replace")
    world.children[world.made[0]]["metadata"]["deletionTimestamp"] = "2026-01-31T10:02:10Z"
    world.now = START + 181
    assert deleted(world.plan()) == world.made[1:]
    # and when none is left that could be deleted, only the new one is created
    world.children[world.made[1]]["metadata"]["deletionTimestamp"] = "2026-01-31T10:02:10Z"
    assert purposes(world.plan()) == [Purpose.CREATE_JOBS, Purpose.REPORT_STATUS]


def test_history_is_ordered_by_start_time_with_unknown_ones_first_case_61() -> None:
    world = after_ticks(4, successfulJobsHistoryLimit=9).end()
    first, second, third, fourth = world.made
    world.children[first]["status"]["startTime"] = "2026-01-31T11:00:00Z"
    del world.children[fourth]["status"]["startTime"]
    plan = world.spec(successfulJobsHistoryLimit=1).plan()
    assert deleted(plan) == [fourth, second, third]
    (stage,) = plan.stages
    assert stage.is_optional, "what cannot be deleted keeps nothing from being made"
    assert {step.action.resource.kind for step in plan.steps} == {"BroadcastJob"}


def test_a_terminating_child_does_not_count_as_history_case_61() -> None:
    world = after_ticks(3).end()
    world.children[world.made[0]]["metadata"]["deletionTimestamp"] = "2026-01-31T10:05:00Z"
    assert deleted(world.spec(successfulJobsHistoryLimit=1).plan()) == [world.made[1]]


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_cronjob_without_a_history_limit_keeps_all_jobs(kind: str) -> None:
    """jobs B6.2, step 5"""
    world = after_ticks(3, successfulJobsHistoryLimit=None, failedJobsHistoryLimit=None).end(kind=kind)
    assert deleted(world.plan()) == []
