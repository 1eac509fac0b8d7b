"""Versions of AdvancedCronJobs, the children that wake them, and their latest time."""

from collections.abc import Sequence

import orjson
import pytest

from pykruise.kinds.advancedcronjob.children import CHILD_VIEWS, ChildView
from pykruise.kinds.advancedcronjob.kind import KIND
from pykruise.kinds.advancedcronjob.snapshot import (
    CRON_JOB_VIEWS,
    AdvancedCronJobSettings,
    AdvancedCronJobView,
    ServedTimes,
)
from support.cron_world import NAMESPACE, UID, CronWorld
from support.wakes import Woken

VIEWS = CHILD_VIEWS["BroadcastJob"]


def cron(name: str, uid: str) -> AdvancedCronJobView:
    document = CronWorld().document
    document["metadata"] |= {"name": name, "uid": uid}
    return CRON_JOB_VIEWS.project(orjson.dumps(document))


def child(owner: str = UID, *, at: float | None = None) -> ChildView:
    return ChildView(
        namespace=NAMESPACE,
        name="nightly-1",
        uid="c",
        resource_version=1,
        kind="BroadcastJob",
        controller_uid=owner,
        scheduled_at=at,
    )


@pytest.mark.parametrize("views", CHILD_VIEWS.values())
@pytest.mark.parametrize(("owner", "woken"), [(UID, ["nightly"]), ("another", []), ("", [])])
def test_an_event_of_a_child_enqueues_its_controller(views: object, owner: str, woken: list[str]) -> None:
    result = Woken(
        KIND,
        {CRON_JOB_VIEWS: [cron("nightly", UID), cron("daily", "uid-daily")]},
        settings=AdvancedCronJobSettings(),
    )
    item = child(owner)
    for old, new in ((None, item), (item, item), (item, None)):
        assert result.by(views, old, new) == woken  # type: ignore[arg-type]


def test_an_event_of_an_advanced_cron_job_enqueues_itself() -> None:
    advanced_cron_job = cron("nightly", UID)
    assert Woken(KIND, {CRON_JOB_VIEWS: [advanced_cron_job]}, settings=AdvancedCronJobSettings()).by(
        CRON_JOB_VIEWS, None, advanced_cron_job
    ) == ["nightly"]


def test_v1beta1_is_stored_and_specs_of_children_have_the_schemas_of_their_kinds() -> None:
    assert callable(KIND.versions)
    versions = KIND.versions(lambda kind: {"description": kind})
    assert [(item.name, item.storage) for item in versions] == [("v1alpha1", False), ("v1beta1", True)]
    for version in versions:
        assert version.embeds == {
            "spec.template.broadcastJobTemplate.spec": {"description": "BroadcastJob"},
            "spec.template.imageListPullJobTemplate.spec": {"description": "ImageListPullJob"},
        }


@pytest.mark.parametrize(
    ("looks", "latest"),
    [
        ([[]], None),
        ([[None]], None),
        ([[20.0, 10.0]], 20.0),
        ([[20.0], [10.0]], 20.0),
        ([[10.0], [20.0, None]], 20.0),
        ([[10.0], []], 10.0),
    ],
)
def test_the_latest_time_of_a_child_is_remembered_after_its_deletion(
    looks: Sequence[Sequence[float | None]], latest: float | None
) -> None:
    served = ServedTimes()
    for look in looks:
        result = served.find_latest([child(at=at) for at in look])
    assert result == latest


@pytest.mark.parametrize(
    ("stored", "due"), [("10:01:00", "10:03:00"), ("10:02:00", "10:03:00"), ("10:03:00", "")]
)
def test_the_later_of_stored_time_and_last_created_child_counts(stored: str, due: str) -> None:
    # given a CronJob that has created children for 10:01 and 10:02
    world = CronWorld().run(100)
    assert [tick[11:19] for tick in world.ticks] == ["10:01:00", "10:02:00"]
    world.document["status"]["lastScheduleTime"] = f"2026-01-31T{stored}Z"
    # when it is 10:03
    world.at("2026-01-31T10:03:05Z")
    # then
    assert [tick[11:19] for tick in world.ticks[2:]] == ([due] if due else [])
