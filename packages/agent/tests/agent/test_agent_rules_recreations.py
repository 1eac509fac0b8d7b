"""The agent's steps for a ContainerRecreateRequest, turn by turn."""

from typing import Any

import msgspec
import pytest

from pykruise.agent.rules.recreations import (
    OnNode,
    advance,
    compute_grace_left_s,
    order_of,
    project_request,
    record_failed_stop,
)
from pykruise.kube.clock import format_time, parse_time

NOW = parse_time("2026-05-01T12:00:00Z")


def request(
    *names: str, states: list[Any] | None = None, ready: tuple[str, ...] = (), **strategy: Any
) -> Any:
    return {
        "metadata": {"name": "again"},
        "spec": {
            "strategy": {"failurePolicy": "Fail", **strategy},
            "containers": [
                {"name": name, "statusContext": {"containerID": f"old-{name}", "restartCount": 0}}
                for name in names
            ],
        },
        "status": {
            "phase": "Recreating",
            "containerRecreateStates": states or [],
            "containerStatusSnapshot": [
                {"name": text, "containerID": f"new-{text}", "ready": True, "restartCount": 1}
                for text in ready
            ],
        },
    }


def test_a_request_is_kept_without_the_fields_that_users_can_make_large() -> None:
    # given
    document = request("app")
    meta = {
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-05-01T12:00:00Z",
    }
    labels = {"crr.apps.kruise.io/pod-uid": "p", **{f"label-{number}": "x" for number in range(1000)}}
    large = {"annotations": {"x": "y" * 1000}, "managedFields": [{"manager": "z" * 1000}]}
    document["metadata"] |= {**meta, **large, "labels": labels}
    # when
    view = project_request(msgspec.json.encode(document))
    # then
    kept = {"name": "again", **meta, "labels": {"crr.apps.kruise.io/pod-uid": "p"}}
    assert view.document == {**document, "metadata": kept}


def old(name: str) -> OnNode:
    return OnNode(id=f"old-{name}", restart_count=0, is_running=True, started_at=NOW - 100)


def new(name: str, *, age_s: float = 10.0) -> OnNode:
    return OnNode(id=f"new-{name}", restart_count=1, is_running=True, started_at=NOW - age_s)


def state(name: str, phase: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "phase": phase, **more}


def test_states_are_written_before_anything_is_stopped() -> None:
    turn = advance(request("a"), {"a": old("a")}, NOW)
    assert (turn.stop, turn.states) == ("", [state("a", "Pending")])
    turn = advance(request("a", states=[state("a", "Pending")]), {"a": old("a")}, NOW)
    assert (turn.stop, turn.states) == ("a", [state("a", "Recreating", isKilled=True)])


def test_the_next_is_stopped_once_the_one_before_is_recreating_case_10() -> None:
    states = [state("a", "Recreating", isKilled=True), state("b", "Pending")]
    both = {"a": new("a"), "b": old("b")}
    assert advance(request("a", "b", states=states), both, NOW).stop == "b"
    # and in order, the next container is stopped only when this one is done (containers case 11)
    assert advance(request("a", "b", states=states, orderedRecreate=True), both, NOW).stop == ""


def test_a_failure_ends_the_request_or_is_passed_over_case_12() -> None:
    states = [state("a", "Failed"), state("b", "Pending")]
    both = {"a": old("a"), "b": old("b")}
    assert advance(request("a", "b", states=states), both, NOW).is_over
    assert advance(request("a", "b", states=states, failurePolicy="Ignore"), both, NOW).stop == "b"


def test_a_recreated_container_succeeds_after_min_started_seconds_and_ready_case_13() -> None:
    states = [state("a", "Recreating", isKilled=True)]
    asked = request("a", states=states, ready=("a",), minStartedSeconds=5)
    turn = advance(asked, {"a": new("a", age_s=5.0)}, NOW)
    assert (turn.states, turn.again_s) == (states, 5.0)
    turn = advance(asked, {"a": new("a", age_s=5.1)}, NOW)
    assert turn.states == [state("a", "Succeeded", isKilled=True)]
    unready = request("a", states=states)
    assert advance(unready, {"a": new("a")}, NOW).states == states


def test_a_ready_container_succeeds_immediately_without_min_started_seconds() -> None:
    states = [state("a", "Recreating", isKilled=True)]
    asked = request("a", states=states, ready=("a",))
    assert advance(asked, {"a": new("a", age_s=0.0)}, NOW).states == [state("a", "Succeeded", isKilled=True)]


def test_a_container_that_already_restarted_is_not_stopped_unless_forced_case_14() -> None:
    asked = request("a", ready=("a",))
    assert advance(asked, {"a": new("a")}, NOW).states == [state("a", "Succeeded")]
    forced = request("a", states=[state("a", "Pending")], ready=("a",), forceRecreate=True)
    assert advance(forced, {"a": new("a")}, NOW).stop == "a"
    # once
    killed = request("a", states=[state("a", "Recreating", isKilled=True)], ready=("a",), forceRecreate=True)
    assert advance(killed, {"a": new("a")}, NOW).states == [state("a", "Succeeded", isKilled=True)]


@pytest.mark.parametrize(
    ("on_node", "strategy", "stops"),
    [
        (old("a"), {}, "a"),
        (msgspec.structs.replace(old("a"), is_running=False), {}, ""),
        (new("a"), {}, ""),
        (new("a"), {"forceRecreate": True}, "a"),
    ],
    ids=["its hook was running", "it had ended", "it had restarted", "it had restarted, forced"],
)
def test_an_agent_that_takes_over_before_the_state_is_written_stops_only_what_still_runs(
    on_node: OnNode, strategy: dict[str, Any], stops: str
) -> None:
    """The previous agent was killed after it stopped the container, and before it wrote the state."""
    asked = request("a", states=[state("a", "Pending")], ready=("a",), **strategy)
    assert advance(asked, {"a": on_node}, NOW).stop == stops


def test_a_container_that_has_ended_is_not_stopped_case_15() -> None:
    ended = OnNode(id="old-a", restart_count=0, is_running=False, started_at=NOW)
    assert advance(request("a"), {"a": ended}, NOW).states == [state("a", "Recreating")]


def test_a_missing_container_is_reported_as_not_found() -> None:
    wanted = [state("a", "Pending", message="not found container on Node")]
    assert advance(request("a"), {}, NOW).states == wanted
    assert advance(request("a", states=wanted), {}, NOW).stop == ""


def test_a_request_is_complete_when_all_its_containers_are_done() -> None:
    assert advance(request("a", states=[state("a", "Succeeded")]), {"a": new("a")}, NOW).is_over


def test_the_grace_period_counts_from_the_condition() -> None:
    asked = request("a", unreadyGracePeriodSeconds=3)
    assert compute_grace_left_s(asked, NOW) is None
    condition = {"type": "PreRecreateGrace", "status": "True", "lastTransitionTime": format_time(NOW - 1)}
    asked["status"]["conditions"] = [condition]
    assert compute_grace_left_s(asked, NOW) == 2
    assert compute_grace_left_s(request("a"), NOW) == 0


def test_a_running_request_is_handled_before_older_ones() -> None:
    def one(name: str, phase: str, second: int) -> Any:
        stamp = f"2026-05-01T12:00:0{second}Z"
        return {"metadata": {"name": name, "creationTimestamp": stamp}, "status": {"phase": phase}}

    ones = sorted(
        [one("old", "", 1), one("pending", "Pending", 3), one("busy", "Recreating", 2)], key=order_of
    )
    assert [each["metadata"]["name"] for each in ones] == ["busy", "pending", "old"]


def test_a_container_that_cannot_be_stopped_fails_with_the_reason() -> None:
    turn = advance(request("a", states=[state("a", "Pending")]), {"a": old("a")}, NOW)
    failed = record_failed_stop(turn, "the runtime is gone")
    assert (failed.stop, failed.states) == ("", [state("a", "Failed", message="the runtime is gone")])


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("phase", ["Pending", "Recreating"])
@pytest.mark.parametrize(
    "container",
    [
        old("a"),
        new("a"),
        msgspec.structs.replace(old("a"), is_running=False),
        msgspec.structs.replace(new("a"), is_running=False),
    ],
    ids=["old", "new", "old and ended", "new and ended"],
)
@pytest.mark.parametrize("ready", [(), ("a",)], ids=["unready", "ready"])
@pytest.mark.parametrize("strategy", [{}, {"forceRecreate": True}, {"minStartedSeconds": 30}], ids=str)
def test_a_state_has_a_message_only_for_a_container_that_is_not_found_and_a_stop_that_failed(
    phase: str, is_killed: bool, container: OnNode, ready: tuple[str, ...], strategy: dict[str, Any]
) -> None:
    """OpenKruise's agent writes the same; clients compare whole states."""
    before = state("a", phase, **({"isKilled": True} if is_killed else {}))
    asked = request("a", states=[before], ready=ready, **strategy)
    assert all("message" not in state for state in advance(asked, {"a": container}, NOW).states)
