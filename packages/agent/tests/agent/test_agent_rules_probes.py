"""Checks of probes: the period, the thresholds for consecutive results, and the reported state."""

from typing import Any

import msgspec
import pytest

from pykruise.agent.rules.probe_checks import (
    FAILED,
    SUCCEEDED,
    UNKNOWN,
    Check,
    SeenProbe,
    advance_check,
    compute_due_time,
    needs_probe,
    rules_of,
    status_of,
)
from pykruise.kube.clock import format_time
from pykruise.sandbox.nodes.faults import Rule, find_failed_probe
from pykruise.sandbox.pod_decoding import SandboxPodProjector

EXEC: dict[str, Any] = {"exec": {"command": ["/idle.sh"]}}


def seen(
    outcome: str = SUCCEEDED, *, message: str = "", id: str = "c://1", running: bool = True
) -> SeenProbe:
    """A container that has run since the time 0."""
    return SeenProbe(id=id, is_running=running, started_at=0.0, outcome=outcome, message=message)


def played(
    probe: dict[str, Any], *result: SeenProbe | None, begin: float = 10.0, every_s: float = 1.0
) -> list[Check]:
    """The checks after these results, one result per second."""
    checks: list[Check] = []
    for number, value in enumerate(result):
        before = checks[-1] if checks else None
        checks.append(advance_check(probe, before, value, begin + number * every_s))
    return checks


def states(checks: list[Check]) -> list[str]:
    return [check.state for check in checks]


def test_one_success_is_reported_immediately() -> None:
    assert states(played(EXEC, seen())) == [SUCCEEDED]


def test_two_failures_of_three_that_it_takes_change_nothing() -> None:
    """containers case 46"""
    probe = {**EXEC, "failureThreshold": 3}
    bad = seen(FAILED)
    assert states(played(probe, seen(), bad, bad, seen(), bad, bad, bad)) == [SUCCEEDED] * 6 + [FAILED]


def test_successes_are_counted_too() -> None:
    probe = {**EXEC, "successThreshold": 2}
    assert states(played(probe, seen(FAILED), seen(), seen())) == [FAILED, FAILED, SUCCEEDED]


def test_another_run_of_the_container_is_unknown_until_its_first_outcome() -> None:
    """containers case 47"""
    checks = played(EXEC, seen(), seen("", id="c://2"), seen(id="c://2"))
    assert states(checks) == [SUCCEEDED, UNKNOWN, SUCCEEDED]


def test_another_run_of_the_container_is_probed_immediately() -> None:
    probe = {**EXEC, "failureThreshold": 2}
    (before,) = played(probe, seen())
    assert needs_probe(probe, before, seen(id="c://2"), 11.0)
    bad = seen(FAILED, id="c://2")
    assert states(played(probe, seen(), seen(id="c://2"))) == [SUCCEEDED, SUCCEEDED]
    assert states(played(probe, seen(), bad, bad)) == [SUCCEEDED, UNKNOWN, FAILED]


def test_a_container_that_does_not_run_fails_without_being_checked() -> None:
    gone = seen(FAILED, message="Container(main) is Non-running", running=False)
    (check,) = played({**EXEC, "failureThreshold": 3}, gone)
    assert (check.state, check.message, check.count) == (FAILED, "Container(main) is Non-running", 0)


def test_a_probe_has_no_outcome_before_its_initial_delay() -> None:
    assert states(played({**EXEC, "initialDelaySeconds": 12}, None, seen(), seen())) == ["", "", SUCCEEDED]


def test_a_probe_runs_once_per_period_and_follows_a_changed_period() -> None:
    probe = {**EXEC, "periodSeconds": 5}
    first, second = played(probe, seen(), seen(FAILED))
    assert second is first
    assert compute_due_time(probe, first, 10.0) == 15.0
    assert compute_due_time(EXEC, first, 10.0) == 11.0
    assert advance_check(EXEC, first, seen(FAILED), 11.0).state == FAILED


def test_a_probe_runs_and_is_reported_after_the_clock_was_set_back() -> None:
    # given a check and its report, an hour ahead of the present time
    (before,) = played(EXEC, seen(), begin=3_700.0)
    # when
    assert compute_due_time(EXEC, before, 100.0) == 0.0
    assert needs_probe(EXEC, before, seen(), 100.0)
    check = advance_check(EXEC, before, seen(), 100.0)
    # then
    assert (check.made_at, check.said_at) == (100.0, 100.0)
    assert compute_due_time(EXEC, check, 100.0) == 101.0


def test_a_changed_handler_sets_the_state_to_unknown() -> None:
    (before,) = played(EXEC, seen())
    after = advance_check({"tcpSocket": {"port": 80}, "failureThreshold": 3}, before, seen(FAILED), 10.5)
    assert after.state == UNKNOWN


def test_another_container_sets_the_state_to_unknown_although_it_is_missing() -> None:
    here, there = (rules_of({"containerName": literal, "probe": EXEC}) for literal in ("main", "side"))
    (before,) = played(here, seen())
    assert before.state == SUCCEEDED
    assert advance_check(here, before, None, 20.0).state == SUCCEEDED
    assert advance_check(there, before, None, 10.5).state == UNKNOWN


def test_a_message_has_1024_characters_at_most() -> None:
    """containers case 56"""
    (check,) = played(EXEC, seen(FAILED, message="é" * 5000))
    assert check.message == "é" * 1024


def test_an_unchanged_state_is_reported_again_after_ten_minutes() -> None:
    """containers case 57"""
    checks = played(EXEC, *[seen()] * 3, every_s=300.0)
    assert [check.said_at for check in checks] == [10.0, 10.0, 610.0]


SPEC = {
    "podProbes": [
        {
            "name": "web-0",
            "namespace": "shop",
            "uid": "u",
            "IP": "10.0.0.1",
            "probes": [{"name": f"game#{name}", "containerName": "main", "probe": EXEC} for name in "ab"],
        }
    ]
}


def stored(*names: str, state: str = SUCCEEDED) -> dict[str, Any]:
    result = [
        {
            "name": f"game#{name}",
            "state": state,
            "lastProbeTime": format_time(1),
            "lastTransitionTime": format_time(1),
        }
        for name in names
    ]
    return {"podProbeStatuses": [{"name": "web-0", "namespace": "shop", "uid": "u", "probeStates": result}]}


def test_an_unchanged_probe_state_keeps_its_transition_time_and_position() -> None:
    said = Check(state=SUCCEEDED, said_at=700.0)
    status = status_of(SPEC, stored("b", "gone"), {("u", "game#a"): said, ("u", "game#b"): said}, 700.0)
    (pod,) = status["podProbeStatuses"]
    assert [
        (state["name"], state["lastProbeTime"], state["lastTransitionTime"]) for state in pod["probeStates"]
    ] == [
        ("game#b", format_time(700), format_time(1)),
        ("game#a", format_time(700), format_time(700)),
    ]


def test_an_agent_that_just_started_keeps_the_stored_states() -> None:
    assert status_of(SPEC, stored("a"), {("u", "game#a"): Check()}, 700.0) == stored("a")


@pytest.mark.parametrize(("started_at", "state"), [(0.5, SUCCEEDED), (1.5, SUCCEEDED), (2.0, UNKNOWN)])
def test_a_stored_state_of_an_earlier_container_becomes_unknown(started_at: float, state: str) -> None:
    # given a state that was stored in the second 1, and an agent that has no outcome yet
    check = Check(container_id="c://2", started_at=started_at)
    # when
    status = status_of(SPEC, stored("a"), {("u", "game#a"): check}, 700.5)
    # then
    (told,) = status["podProbeStatuses"][0]["probeStates"]
    assert told["state"] == state
    # and the written state does not change again
    assert status_of(SPEC, status, {("u", "game#a"): check}, 900.0) == status


def test_a_container_without_an_outcome_is_unknown() -> None:
    here, there = ("u", "game#a"), ("u", "game#b")
    status = status_of(SPEC, {}, {here: Check(container_id="c://1"), there: Check()}, 700.0)
    (told,) = status["podProbeStatuses"][0]["probeStates"]
    assert (told["name"], told["state"]) == ("game#a", UNKNOWN)


def test_pods_without_probes_have_no_state() -> None:
    assert status_of({}, stored("a"), {}, 700.0) == {}


POD = SandboxPodProjector()(
    msgspec.json.encode(
        {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u", "resourceVersion": "1"}}
    )
)


def test_a_rule_fails_probes_by_their_name_once_the_container_has_run_long_enough() -> None:
    rules = [Rule(pod="web-*", fails_probe="game#*", after_s=30, output="17 players")]

    def said(probe: str, running_s: float) -> str | None:
        return find_failed_probe(rules, POD, probe, container="main", image="a", run=1, running_s=running_s)

    assert [said("game#idle", 29), said("game#idle", 30), said("other#idle", 30)] == [
        None,
        "17 players",
        None,
    ]
