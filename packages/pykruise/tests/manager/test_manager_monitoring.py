"""Alerts and the board: what each alert fires for, and stops at; that people find what it means."""

import json
from pathlib import Path

import pytest

from pykruise.manager.monitoring import (
    ALERTS,
    PANELS,
    RUNBOOK,
    Alert,
    board,
    board_config_map,
    prometheus_rule,
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
"""What is wrong, and what is right, by alert."""

GROWING: dict[str, str] = {
    "KruiseReconcileErrors": series("controller_runtime_reconcile_errors_total", 0, controller="cloneset"),
    "KruiseMissingRights": series("pykruise_missing_rights_total", 0, method="PATCH", resource="pods"),
    "KruiseWebhookErrors": series(
        "controller_runtime_webhook_requests_total", 0, webhook="/mutate-pod", code="500"
    ),
}
"""Of alerts that go by how fast a counter grows: that counter, at 0."""


def by_name(name: str) -> Alert:
    return next(alert for alert in ALERTS if alert.name == name)


def test_each_alert_has_a_situation_here() -> None:
    assert {alert.name for alert in ALERTS} == {*WRONG, *GROWING}


@pytest.mark.parametrize("name", WRONG)
def test_an_alert_fires_when_its_time_has_come_and_stops_when_all_is_well(name: str) -> None:
    # given
    alert, scrapes = by_name(name), Scrapes()
    alarm = Alarm(alert.expr, alert.for_s)
    now = 0.0
    wrong, right = WRONG[name]
    # when it is wrong, not at once
    while now < alert.for_s:
        scrapes.add(now, wrong)
        assert alarm.at(now, scrapes) == []
        now += EVERY_S
    # then after its time
    scrapes.add(now, wrong)
    assert len(alarm.at(now, scrapes)) == 1
    # when it is right again
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
    # when it grows no more
    for _ in range(80):
        scrapes.add(now, f"{sample} {count}")
        fires = alarm.at(now, scrapes)
        now += EVERY_S
    # then
    assert fires == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda item: item.name)
def test_each_alert_has_its_section_that_says_what_it_means_and_what_to_do(alert: Alert) -> None:
    text = PAGE.read_text()
    assert f"### {alert.name}\n" in text
    section = text.split(f"### {alert.name}\n", 1)[1].split("\n#", 1)[0]
    assert len(section.split()) > 12
    rule = next(
        rule
        for rule in prometheus_rule(namespace="x")["spec"]["groups"][0]["rules"]
        if rule["alert"] == alert.name
    )
    assert rule["annotations"]["runbook"] == f"{RUNBOOK}{alert.name.lower()}"


def test_each_alert_says_whether_it_needs_state_metrics() -> None:
    for alert in ALERTS:
        asks = any(
            (name.startswith("kruise_") and name != LEADER) or name == "pykruise_rollout_waiting"
            for name in names_in(alert.expr)
        )
        assert alert.needs_state == asks, alert.name


def test_panels_of_the_board_lie_beside_each_other_within_its_width() -> None:
    taken: set[tuple[int, int]] = set()
    panels = board()["panels"]
    assert [panel["title"] for panel in panels] == [panel.title for panel in PANELS]
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


def test_the_config_map_is_found_by_grafanas_sidecar_and_has_the_board() -> None:
    result = board_config_map(namespace="x")
    assert result["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(result["data"]["kruise.json"]) == board()
