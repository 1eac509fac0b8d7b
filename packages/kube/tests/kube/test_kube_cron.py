"""Times at which schedules are due."""

import zoneinfo
from collections.abc import Iterator

import pytest

from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.values.cron import ScheduleError, parse_schedule


def times(text: str, after: str, count: int = 3, *, zone: str = "") -> list[str]:
    schedule = parse_schedule(text, zone=zone)
    times, moment = [], parse_time(after)
    for _ in range(count):
        following = schedule.next(moment)
        if following is None:
            break
        moment = following
        times.append(format_time(moment))
    return times


@pytest.mark.parametrize(
    ("text", "after", "wanted"),
    [
        ("*/15 * * * *", "2026-01-31T23:40:10Z", ["2026-01-31T23:45:00Z", "2026-02-01T00:00:00Z"]),
        ("5/20 * * * *", "2026-01-01T00:26:00Z", ["2026-01-01T00:45:00Z", "2026-01-01T01:05:00Z"]),
        ("0 9-10 * * mon-fri", "2026-01-02T10:00:00Z", ["2026-01-05T09:00:00Z", "2026-01-05T10:00:00Z"]),
        ("0 0 29 feb ?", "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z"]),
        ("0 0 13 * 5", "2026-02-01T00:00:00Z", ["2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z"]),
        ("@hourly", "2026-01-01T00:00:00Z", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
        ("@every 1h30m", "2026-01-01T00:00:07Z", ["2026-01-01T01:30:07Z", "2026-01-01T03:00:07Z"]),
        ("1,3 2 1 1 *", "2026-01-01T02:02:00Z", ["2026-01-01T02:03:00Z", "2027-01-01T02:01:00Z"]),
    ],
)
def test_schedules_are_due_at_crons_times(text: str, after: str, wanted: list[str]) -> None:
    assert times(text, after, len(wanted)) == wanted


def test_a_schedule_on_an_impossible_date_is_never_due() -> None:
    assert times("0 0 30 2 *", "2026-01-01T00:00:00Z") == []


def test_a_zone_moves_the_times_with_its_clocks() -> None:
    # given clocks in Berlin, which are set forward by an hour on 2026-03-29 at two
    assert times("30 2 * * *", "2026-03-28T00:00:00Z", 2, zone="Europe/Berlin") == [
        "2026-03-28T01:30:00Z",
        "2026-03-30T00:30:00Z",
    ]
    assert times("TZ=Europe/Berlin 0 12 * * *", "2026-07-01T00:00:00Z", 1) == ["2026-07-01T10:00:00Z"]


@pytest.fixture
def without_zones_of_the_machine() -> Iterator[None]:
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.parametrize(
    ("zone", "wanted"),
    [
        ("Europe/Berlin", "2026-07-01T10:00:00Z"),
        ("US/Pacific", "2026-07-01T19:00:00Z"),  # an old name, which Debian has in a package of its own
    ],
)
@pytest.mark.usefixtures("without_zones_of_the_machine")
def test_zones_are_known_on_a_machine_that_has_none(zone: str, wanted: str) -> None:
    assert times("0 12 * * *", "2026-07-01T00:00:00Z", 1, zone=zone) == [wanted]
    assert times(f"TZ={zone} 0 12 * * *", "2026-07-01T00:00:00Z", 1) == [wanted]


@pytest.mark.parametrize(
    "zone",
    ["Nowhere/Land", "America", "__init__.py", "zone.tab", "a.b/c", ".a/b", "../x", "local", "é", "\0"],
)
@pytest.mark.usefixtures("without_zones_of_the_machine")
def test_a_name_that_is_no_zone_of_the_package_is_an_error(zone: str) -> None:
    with pytest.raises(ScheduleError, match="unknown time zone"):
        parse_schedule("@daily", zone=zone)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4"),
        ("60 * * * *", "above maximum"),
        ("* * 0 * *", "below minimum"),
        ("* * * * 7", "above maximum"),
        ("*/0 * * * *", "positive number"),
        ("a * * * *", "failed to parse int"),
        ("5-3 * * * *", "beyond end"),
        ("@often", "unrecognized descriptor"),
        ("@every soon", "failed to parse duration"),
        ("TZ=Nowhere/Land * * * * *", "unknown time zone"),
    ],
)
def test_an_invalid_schedule_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        parse_schedule(text)
