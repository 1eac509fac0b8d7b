"""`pykruise simulate` of jobs: a month of a schedule, and runs over nodes that join and leave."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from pykruise.cli.insight.simulating import NodeChange, Play, play
from pykruise.cli.insight.simulating.schedules import ClockPlay, TickFate, play_clock
from pykruise.cli.main import app
from pykruise.kinds.advancedcronjob.kind import KIND as CRON_JOB
from pykruise.kinds.advancedcronjob.plan import MANY
from pykruise.kube.clock import format_time, parse_time
from support.scenario import Object

POD = {
    "metadata": {"labels": {"app": "once"}},
    "spec": {"containers": [{"name": "main", "image": "busybox:1"}], "restartPolicy": "Never"},
}
DAY_S = 86_400.0
BEGIN = "2026-03-01T00:00:00Z"
UNIX = int(parse_time(BEGIN))


def cron(schedule: str, **spec: Any) -> Object:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "AdvancedCronJob",
        "metadata": {"name": "often"},
        "spec": {"schedule": schedule, "template": {"jobTemplate": {"spec": {"template": POD}}}, **spec},
    }


def broadcast(**spec: Any) -> Object:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "BroadcastJob",
        "metadata": {"name": "once"},
        "spec": {"template": POD, **spec},
    }


def simulated(path: Path, document: Object, *args: str) -> Result:
    (path / "job.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return CliRunner().invoke(app, ["simulate", "-f", str(path / "job.yaml"), *args])


def fates(path: Path, document: Object, *args: str) -> list[TickFate]:
    result = simulated(path, document, "--from", BEGIN, "-o", "json", *args)
    assert result.exit_code == 0, result.output
    return [msgspec.convert(fate, TickFate) for fate in json.loads(result.stdout)[0]["fates"]]


# A schedule


def test_a_month_of_hours_is_played_run_by_run(tmp_path: Path) -> None:
    result = fates(tmp_path, cron("0 * * * *"), "--takes", "10m")

    assert [fate.tick for fate in result] == [format_time(UNIX + 3600 * hour) for hour in range(1, 721)]
    assert {(fate.do, fate.ending) for fate in result} == {("start", "succeeded")}
    assert [fate.name for fate in result[:2]] == [f"often-{UNIX + 3600}", f"often-{UNIX + 7200}"]


def test_times_at_which_an_earlier_run_is_active_are_skipped_under_forbid(tmp_path: Path) -> None:
    result = fates(tmp_path, cron("0 * * * *", concurrencyPolicy="Forbid"), "--takes", "150m", "--for", "12h")

    # the run of 1:00 ends at 3:30; 2:00 is skipped; 3:00 is made up for at 3:30, and ends at 6:00
    assert [(fate.do, fate.late_s) for fate in result[:5]] == [
        ("start", 0.0),
        ("skip", 0.0),
        ("start", 1800.05),
        ("skip", 0.0),
        ("skip", 0.0),
    ]
    assert result[1].code == "JobAlreadyActive"
    assert (
        result[1].why
        == f"the previous run often-{UNIX + 3600} is still active, and concurrencyPolicy is Forbid"
    )


def test_replaced_runs_name_what_took_their_place(tmp_path: Path) -> None:
    first, second, *_ = fates(
        tmp_path, cron("0 * * * *", concurrencyPolicy="Replace"), "--takes", "90m", "--for", "5h"
    )

    assert (first.ending, first.ended) == ("replaced", format_time(UNIX + 7200))
    assert second.replaces == (first.name,)


def test_a_paused_schedule_reports_that_it_skips_all_runs(tmp_path: Path) -> None:
    result = simulated(tmp_path, cron("0 3 * * *", paused=True), "--from", BEGIN)

    assert "30 times, 0 start, 30 are skipped" in result.output
    assert "30 times: skipped: Paused" in result.output


def test_a_zero_starting_deadline_skips_all_runs(tmp_path: Path) -> None:
    runs = fates(tmp_path, cron("0 3 * * *", startingDeadlineSeconds=0))

    assert {(fate.do, fate.code) for fate in runs} == {("skip", "MissSchedule")}


@pytest.mark.parametrize(
    ("schedule", "begin", "times"),
    [
        ("30 2 * * *", "2026-03-07T12:00:00Z", ["2026-03-09T06:30:00Z"]),
        ("30 1 * * *", "2026-10-31T12:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]),
    ],
)
def test_clock_changes_are_played_in_the_zone_of_the_schedule(
    tmp_path: Path, schedule: str, begin: str, times: list[str]
) -> None:
    document = cron(schedule, timeZone="America/New_York")
    result = simulated(tmp_path, document, "--from", begin, "--for", "48h", "-o", "json")

    assert [fate["tick"] for fate in json.loads(result.output)[0]["fates"]][: len(times)] == times


def test_text_shows_equal_runs_together_by_the_clocks_of_the_zone(tmp_path: Path) -> None:
    document = cron("0 3 * * *", timeZone="Europe/Berlin")
    result = simulated(tmp_path, document, "--from", BEGIN, "--takes", "5m")

    assert result.output.splitlines()[2] == (
        "  2026-03-01T03:00:00+01:00 … 2026-03-30T03:00:00+02:00  30 times: start; succeeds"
    )


def test_the_same_seed_plays_the_same_month(tmp_path: Path) -> None:
    args = ("--takes", "10m..3h", "--fail-pod", "20%", "--seed", "5")
    document = cron("0 * * * *", concurrencyPolicy="Forbid")

    first, second = (fates(tmp_path, document, *args) for _ in range(2))

    assert first == second
    assert {fate.ending for fate in first if fate.do == "start"} >= {"succeeded", "failed"}


def test_a_job_that_admission_refuses_is_not_simulated(tmp_path: Path) -> None:
    result = simulated(tmp_path, cron("61 * * * *"))

    assert result.exit_code == 1
    assert "job.yaml is rejected: spec.schedule" in result.output


def test_an_older_manifest_is_played_with_its_defaults(tmp_path: Path) -> None:
    document = cron("0 * * * *") | {"apiVersion": "apps.kruise.io/v1alpha1"}
    result = simulated(tmp_path, document, "--from", BEGIN, "--takes", "1m")

    assert "716 deleted because of the history limits" in result.output  # three are kept, one runs


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--change", "x.yaml"), "--change and --svg cannot be used with a schedule"),
        (("--from", "tomorrow"), "--from 'tomorrow': expected a time"),
        (("--for", "long"), "--for 'long': expected a time"),
        (("advancedcronjobs/often",), "either -f FILE or a live object"),
    ],
)
def test_wrong_arguments_are_an_error(tmp_path: Path, args: tuple[str, ...], problem: str) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(cron("@daily")), "utf-8")
    args = tuple(str(tmp_path / word) if word == "x.yaml" else word for word in args)

    result = simulated(tmp_path, cron("@daily"), *args)

    assert (result.exit_code, problem in result.output) == (1, True), result.output


def test_runs_missed_before_the_simulation_are_caught_up_once() -> None:
    begin = parse_time(BEGIN)
    document = cron("* * * * *", concurrencyPolicy="Allow")
    document["metadata"] |= {
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": format_time(begin - DAY_S),
    }

    played = play_clock(ClockPlay(kind=CRON_JOB, document=document, start=begin, for_s=150.0))

    assert DAY_S / 60 > MANY
    assert [fate.tick for fate in played.fates] == [format_time(begin + 60 * number) for number in range(3)]


# A run over nodes


def test_nodes_that_join_are_run_and_nodes_that_leave_are_not_waited_for() -> None:
    played = play(
        Play(
            change=broadcast(),
            nodes=3,
            takes_s=(20.0, 20.0),
            node_changes=[NodeChange("node-9", 5.0, joins=True), NodeChange("node-2", 10.0, joins=False)],
        )
    )

    assert played.end is not None
    # the pod of the missing node is deleted in the end, and a deleted pod counts as failed
    assert "completed on 3 nodes: 3 succeeded, 1 failed, 0 active" in played.end.headline
    created = [action.node for action in played.actions if action.do == "create"]
    assert created == ["node-1", "node-2", "node-3", "node-9"]


def test_a_node_that_leaves_does_not_fail_the_job() -> None:
    """Kubernetes fails the pod of the node after a while, and deletes it."""
    played = play(
        Play(
            change=broadcast(),
            nodes=3,
            takes_s=(200.0, 200.0),
            node_changes=[NodeChange("node-2", 10.0, joins=False)],
        )
    )

    assert played.end is not None
    assert "completed on 2 nodes: 2 succeeded, 0 failed, 0 active" in played.end.headline


def test_never_more_than_parallelism_run_and_the_chart_shows_it(tmp_path: Path) -> None:
    result = simulated(tmp_path, broadcast(parallelism=2), "--nodes", "6", "--takes", "10s..30s")

    assert "completed on 6 nodes: 6 succeeded" in result.output
    assert "at the same time    2 at most" in result.output
    assert "6 created, 0 deleted, 6 succeeded, 0 failed" in result.output


def test_a_failing_run_stops_the_others_and_reports_that(tmp_path: Path) -> None:
    result = simulated(tmp_path, broadcast(), "--nodes", "4", "--takes", "10s..30s", "--fail-pod", "50%")

    assert "failed on 4 nodes" in result.output.splitlines()[0]


def test_a_deadline_ends_the_play_as_it_ends_the_job(tmp_path: Path) -> None:
    document = broadcast(completionPolicy={"type": "Always", "activeDeadlineSeconds": 300})
    result = simulated(tmp_path, document, "--takes", "1h")

    assert "failed on 3 nodes: 0 succeeded, 3 failed" in result.output.splitlines()[0]


def test_a_job_past_its_ttl_is_reported_as_deleted(tmp_path: Path) -> None:
    document = broadcast(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 120})
    result = simulated(tmp_path, document)

    assert "finished and deleted" in result.output.splitlines()[0]
    assert "3 created, 0 deleted, 3 succeeded, 0 failed" in result.output


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--join", "node-1@5s"), "node-1 already exists"),
        (("--leave", "node-7@5s"), "no node is named 'node-7'"),
        (("--join", "node-9"), "expected a node and a time"),
    ],
)
def test_node_arguments_must_name_existing_or_new_nodes(
    tmp_path: Path, args: tuple[str, ...], problem: str
) -> None:
    result = simulated(tmp_path, broadcast(), *args)

    assert (result.exit_code, problem in result.output) == (1, True), result.output
