"""Exploration of small worlds: correct operators are explored in full, and planted bugs are found with their path."""

from typing import Any

import pytest
from test_testing_simulation import (
    RIGHT,
    SITES,
    no_page_is_left_behind,
    no_port_is_given_twice,
    pages_without_an_owner,
    ports_from_a_stale_read,
    simulation_of,
    site,
    twice_after_a_lost_answer,
)

from pykruise.operators import Desired, Observed, operator
from pykruise.runtime.operator import Work
from pykruise.testing.exploration import (
    EXPLORED_FAULTS,
    ExplorationFailure,
    SmallWorld,
    check_all,
    explore,
    replay,
)
from pykruise.testing.simulation import Simulation, create

pytestmark = pytest.mark.timeout(300)


def world_of(
    work: Work, *actions: str, faults: tuple[str, ...] = (), moment_s: float = 0.0, **more: Any
) -> SmallWorld:
    simulation = simulation_of(work, nodes=0, **more)
    return SmallWorld(simulation=simulation, actions=actions, faults=faults, moment_s=moment_s)


def failure_of(world: SmallWorld) -> ExplorationFailure:
    """The failure; a replay of its path must break the same rule."""
    failure = explore(world).failure
    assert failure is not None
    violation = replay(world, failure.path)
    assert violation is not None
    assert violation.rule == failure.rule
    return failure


def test_every_order_of_events_of_a_right_operator_is_tried() -> None:
    result = check_all(world_of(RIGHT, "create", "write"))
    assert result.is_complete
    assert result.states > 30
    assert result.rests > 0
    assert str(result).startswith(f"{result.states} states")


def test_a_world_is_explored_identically_each_time() -> None:
    world = world_of(RIGHT, "create")
    assert check_all(world, processes=1) == check_all(world, processes=2)


@pytest.fixture(scope="module")
def states_without_faults() -> int:
    """Number of states of the world of a created site in which nothing fails."""
    return check_all(world_of(RIGHT, "create")).states


@pytest.mark.parametrize("fault", EXPLORED_FAULTS)
def test_a_right_operator_survives_each_fault_at_every_moment(fault: str, states_without_faults: int) -> None:
    """The test runs for every kind of fault, so a new kind is included."""
    result = check_all(world_of(RIGHT, "create", faults=(fault,)))
    assert result.states > states_without_faults


# ── planted bugs ─────────────────────────────────────────────────────────────


def test_exploration_finds_a_duplicate_creation_and_its_path() -> None:
    failure = failure_of(
        world_of(twice_after_a_lost_answer(), "create", faults=("answer lost",), moment_s=1.0)
    )
    assert failure.rule == "a_site_has_one_page"
    assert failure.path[0] == "a user: create"
    assert any(label.endswith("configmaps, answer lost") for label in failure.path)


def test_a_decision_from_a_stale_read_is_found_without_any_fault() -> None:
    actions = {name: create(site(name)) for name in ("a", "b")}
    work = ports_from_a_stale_read()
    world = world_of(work, "a", "b", actions=actions, always=[no_port_is_given_twice], at_rest=[])
    assert failure_of(world).rule == "no_port_is_given_twice"


def test_a_leak_at_deletion_is_found_and_a_finalizer_ends_it() -> None:
    rules: dict[str, Any] = {"always": [], "at_rest": [no_page_is_left_behind]}
    failure = failure_of(world_of(pages_without_an_owner(), "create", "delete", **rules))
    assert failure.rule == "no_page_is_left_behind"
    check_all(world_of(pages_without_an_owner(forgets=False), "create", "delete", **rules))


def test_exploration_finds_an_operator_that_never_settles() -> None:
    def flip(observed: Observed) -> Desired:
        return Desired(status={"at": observed.now})

    failure = explore(world_of(operator(SITES, flip), "create", always=[], at_rest=[])).failure
    assert failure is not None
    assert failure.rule == "rest"


# ── worlds that cannot be explored ───────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actions": ["dance"]}, "no action 'dance'"),
        ({"actions": []}, "give at least one"),
        ({"faults": ["flood"]}, "'flood' is not one of"),
        ({"simulation": Simulation(actions={"create": create(site())})}, "needs an operator"),
    ],
)
def test_a_world_that_cannot_be_explored_is_refused(change: dict[str, Any], words: str) -> None:
    given = {"simulation": simulation_of(RIGHT), "actions": ["create"], **change}
    with pytest.raises(ValueError, match=words):
        explore(SmallWorld(**given))


def test_a_bound_that_is_too_small_is_an_error_and_no_success() -> None:
    with pytest.raises(AssertionError, match="some cases were not tried"):
        check_all(world_of(RIGHT, "create", "write"), most_states=10)
