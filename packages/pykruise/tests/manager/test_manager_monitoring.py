"""Alerts and the dashboard: the causes of each alert, its end, and its section in the docs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from pykruise.kinds import find_shown
from pykruise.kube.clock import parse_time
from pykruise.manager.monitoring import (
    ALERTS,
    PANELS,
    RUNBOOK,
    VARIABLES,
    Alert,
    Panel,
    build_board,
    build_board_config_map,
    build_prometheus_rule,
)
from support.promql import Alarm, Scrapes, names_in

PAGE = Path(__file__).parents[4] / "docs" / "monitoring.md"
EVERY_S = 30.0


def series(metric: str, value: float, /, **labels: str) -> str:
    inner = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{metric}{{{inner}}} {value}"


def waiting(cause: str) -> str:
    return series("pykruise_rollout_waiting", 1, kind="CloneSet", namespace="a", name="web", cause=cause)


def generations(label: str, wanted: int, seen: int) -> str:
    place = {"namespace": "a", label: "web"}
    return "\n".join(
        [
            series(f"kruise_{label}_metadata_generation", wanted, **place),
            series(f"kruise_{label}_status_observed_generation", seen, **place),
        ]
    )


def replicas(label: str, wanted: int, there: int) -> str:
    place = {"namespace": "a", label: "web"}
    return "\n".join(
        [
            series(f"kruise_{label}_spec_replicas", wanted, **place),
            series(f"kruise_{label}_status_replicas_available", there, **place),
        ]
    )


def budget(allowed: int, pods: int) -> str:
    place = {"namespace": "a", "podunavailablebudget": "web"}
    return "\n".join(
        [
            series("kruise_podunavailablebudget_status_unavailable_allowed", allowed, **place),
            series("kruise_podunavailablebudget_status_total_replicas", pods, **place),
        ]
    )


def phase(kind: str, phase: str) -> str:
    return series("pykruise_phase", 1, kind=kind, namespace="a", name="web", phase=phase)


def next_run(at: float) -> str:
    return series("kruise_advancedcronjob_next_schedule_time", at, namespace="a", advancedcronjob="web")


LEADER = "kruise_manager_is_leader"
WRONG: dict[str, tuple[str, str]] = {
    "KruiseNoLeader": (series(LEADER, 0), series(LEADER, 1)),
    "KruiseSlotWithoutHolder": (
        series("pykruise_slot_held", 0, slot="3"),
        series("pykruise_slot_held", 1, slot="3"),
    ),
    "KruiseRolloutStalled": (waiting("InvalidSpec"), waiting("Updating")),
    "KruiseRolloutStuck": (waiting("Unschedulable"), ""),
    **{
        f"Kruise{kind}GenerationMismatch": (generations(kind.lower(), 3, 2), generations(kind.lower(), 3, 3))
        for kind in ("CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment", "SidecarSet")
    },
    **{
        f"Kruise{kind}ReplicasMismatch": (replicas(kind.lower(), 3, 2), replicas(kind.lower(), 3, 3))
        for kind in ("CloneSet", "StatefulSet")
    },
    "KruiseDaemonSetUnavailable": (
        series("kruise_daemonset_status_number_unavailable", 1, namespace="a", daemonset="web"),
        series("kruise_daemonset_status_number_unavailable", 0, namespace="a", daemonset="web"),
    ),
    "KruiseJobFailed": (phase("BroadcastJob", "Failed"), phase("BroadcastJob", "Completed")),
    "KruiseJobDegraded": (phase("ImagePullJob", "Degraded"), phase("CloneSet", "Degraded")),
    "KruiseScheduleMissed": (next_run(-400), next_run(1e6)),
    "KruisePodUnavailableBudgetAtZero": (budget(0, 3), budget(1, 3)),
    "KruiseWatchDown": (
        series("pykruise_cache_connected", 0, resource="pods"),
        series("pykruise_cache_connected", 1, resource="pods"),
    ),
    "KruiseCacheLag": (
        series("pykruise_cache_lag_seconds", 40, resource="pods"),
        series("pykruise_cache_lag_seconds", 0.1, resource="pods"),
    ),
}
"""A wrong and a right situation, by alert."""

GROWING: dict[str, str] = {
    "KruiseReconcileErrors": series("controller_runtime_reconcile_errors_total", 0, controller="cloneset"),
    "KruiseMissingRights": series("pykruise_missing_rights_total", 0, method="PATCH", resource="pods"),
    "KruiseWebhookErrors": series("pykruise_webhook_reviews_total", 0, webhook="/mutate-pod", code="500"),
}
"""The counter, at 0, of each alert about a growing counter."""


def by_name(name: str) -> Alert:
    return next(alert for alert in ALERTS if alert.name == name)


def test_each_alert_has_a_situation_here() -> None:
    assert {alert.name for alert in ALERTS} == {*WRONG, *GROWING}


@pytest.mark.parametrize("name", WRONG)
def test_an_alert_fires_after_its_duration_and_resolves_when_the_cause_ends(name: str) -> None:
    # given
    alert, scrapes = by_name(name), Scrapes()
    alarm = Alarm(alert.expr, alert.for_s)
    now = 0.0
    wrong, right = WRONG[name]
    # when the situation is wrong, then the alert does not fire immediately
    while now < alert.for_s:
        scrapes.add(now, wrong)
        assert alarm.at(now, scrapes) == []
        now += EVERY_S
    # then it fires after its time
    scrapes.add(now, wrong)
    assert len(alarm.at(now, scrapes)) == 1
    # when the situation is right again
    scrapes.add(now + EVERY_S, right)
    assert alarm.at(now + EVERY_S, scrapes) == []


@pytest.mark.parametrize("name", GROWING)
def test_an_alert_about_a_counter_fires_while_it_grows(name: str) -> None:
    # given
    alert, scrapes = by_name(name), Scrapes()
    alarm = Alarm(alert.expr, alert.for_s)
    sample = GROWING[name].rsplit(" ", 1)[0]
    now, count = 0.0, 0.0
    # when
    for _ in range(80):
        scrapes.add(now, f"{sample} {count}")
        fires = alarm.at(now, scrapes)
        now, count = now + EVERY_S, count + 15
    # then
    assert len(fires) == 1
    # when it no longer grows
    for _ in range(80):
        scrapes.add(now, f"{sample} {count}")
        fires = alarm.at(now, scrapes)
        now += EVERY_S
    # then
    assert fires == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_has_a_runbook_section_with_meaning_and_remedy(alert: Alert) -> None:
    text = PAGE.read_text()
    assert f"### {alert.name}\n" in text
    section = text.split(f"### {alert.name}\n", 1)[1].split("\n#", 1)[0]
    assert len(section.split()) > 12
    rule = next(
        rule
        for rule in build_prometheus_rule(namespace="x")["spec"]["groups"][0]["rules"]
        if rule["alert"] == alert.name
    )
    assert rule["annotations"]["runbook"] == f"{RUNBOOK}{alert.name.lower()}"
    address = "https://docs.example/monitoring/"
    linked = build_prometheus_rule(namespace="x", runbooks=address)["spec"]["groups"][0]["rules"]
    annotations = next(rule["annotations"] for rule in linked if rule["alert"] == alert.name)
    assert annotations["runbook_url"] == f"{address}#{alert.name.lower()}"
    assert "runbook" not in annotations


def test_each_alert_declares_whether_it_needs_state_metrics() -> None:
    for alert in ALERTS:
        asks = any(
            (name.startswith("kruise_") and name != LEADER)
            or name in ("pykruise_rollout_waiting", "pykruise_phase")
            for name in names_in(alert.expr)
        )
        assert alert.needs_state == asks, alert.name


def cron(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "nightly", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"schedule": "0 3 * * *", **spec},
        "status": {},
    }


@pytest.mark.parametrize(
    ("document", "time"),
    [
        (cron(), "2026-01-02T03:00:00Z"),
        ({**cron(), "status": {"lastScheduleTime": "2026-01-05T03:00:00Z"}}, "2026-01-06T03:00:00Z"),
        (cron(timeZone="Asia/Tokyo"), "2026-01-01T18:00:00Z"),
        (cron(schedule="@every 90m"), "2026-01-01T13:30:00Z"),
        (cron(paused=True), None),
        (cron(schedule="nonsense"), None),
        (cron(schedule="0 0 30 2 *"), None),
        (cron(timeZone="Nowhere"), None),
    ],
)
def test_the_next_time_of_a_schedule_follows_its_last(document: dict[str, Any], time: str | None) -> None:
    metrics = find_shown("apps.kruise.io", "AdvancedCronJob")
    assert metrics is not None
    assert metrics.metrics is not None
    next_time = metrics.metrics.times["next_schedule_time"](document, "UTC")
    assert next_time == (None if time is None else parse_time(time))


def test_a_schedule_that_has_become_another_counts_from_then() -> None:
    document = cron(schedule="0 9 * * *")
    document["metadata"]["annotations"] = {"pykruise.io/scheduled-since": "2026-03-01T10:00:00Z"}
    shown = find_shown("apps.kruise.io", "AdvancedCronJob")
    assert shown is not None
    assert shown.metrics is not None
    assert shown.metrics.times["next_schedule_time"](document, "UTC") == parse_time("2026-03-02T09:00:00Z")


@pytest.mark.parametrize(
    ("spec", "time"),
    [
        ({}, "2026-01-01T18:00:00Z"),
        ({"timeZone": "UTC"}, "2026-01-02T03:00:00Z"),
        ({"schedule": "TZ=UTC 0 3 * * *"}, "2026-01-02T03:00:00Z"),
    ],
)
def test_a_schedule_without_a_zone_has_its_next_time_in_the_managers_zone(
    spec: dict[str, Any], time: str
) -> None:
    shown = find_shown("apps.kruise.io", "AdvancedCronJob")
    assert shown is not None
    assert shown.metrics is not None
    assert shown.metrics.times["next_schedule_time"](cron(**spec), "Asia/Tokyo") == parse_time(time)


def test_panels_of_the_board_do_not_overlap_and_fit_its_width() -> None:
    taken: set[tuple[int, int]] = set()
    panels = build_board()["panels"]
    assert [panel["title"] for panel in panels if panel["type"] != "row"] == [panel.title for panel in PANELS]
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_board_begins_with_a_row_of_coloured_numbers() -> None:
    heading, *panels = build_board()["panels"]
    assert (heading["type"], heading["title"]) == ("row", "Now")
    first = panels[: next(place for place, panel in enumerate(panels) if panel["type"] == "row")]
    assert {panel["type"] for panel in first} == {"stat"}
    assert sum(panel["gridPos"]["w"] for panel in first) == 24
    steps = {panel["title"]: panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in first}
    assert [step["color"] for step in steps["Needs action"]] == ["green", "red"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_each_panel_has_a_description(panel: Panel) -> None:
    assert panel.about.endswith(".")
    assert panel.title == panel.title[:1].upper() + panel.title[1:]


def test_the_board_is_chosen_by_namespace_kind_and_name() -> None:
    made = build_board()
    names = [variable["name"] for variable in made["templating"]["list"]]
    assert names == ["datasource", *(name for name, _, _ in VARIABLES)]
    for name, _, query in VARIABLES:
        assert any(f"${name}" in expr for panel in PANELS for expr, _ in panel.lines)
        assert set(re.findall(r"\$(\w+)", query)) <= set(names[: names.index(name)])
    used = {name for panel in PANELS for expr, _ in panel.lines for name in re.findall(r"\$(\w+)", expr)}
    assert used - {"__rate_interval"} <= set(names)


def test_grafanas_own_types_read_the_board_and_leave_nothing_out() -> None:
    made = json.loads(json.dumps(build_board()))
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(made)))
    assert [panel["title"] for panel in read["panels"]] == [panel["title"] for panel in made["panels"]]
    for wanted, panel in zip(made["panels"], read["panels"], strict=True):
        assert panel["gridPos"] == wanted["gridPos"]
        if wanted["type"] != "row":
            assert [target["expr"] for target in panel["targets"]] == [
                target["expr"] for target in wanted["targets"]
            ]
    assert [variable["name"] for variable in read["templating"]["list"]] == [
        variable["name"] for variable in made["templating"]["list"]
    ]


def test_the_config_map_is_found_by_grafanas_sidecar_and_has_the_board() -> None:
    config_map = build_board_config_map(namespace="x")
    assert config_map["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(config_map["data"]["kruise.json"]) == build_board()
