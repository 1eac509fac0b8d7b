"""Worlds that every test run explores, and faults that the exploration must find.

`make explore KIND=cloneset PODS=3` explores more; docs/lab/simulation.md lists explored worlds.
"""

from collections.abc import Iterator

import pytest

from exploration.explorer import explore, follow
from exploration.pitfalls import PITFALLS, Pitfall
from exploration.scopes import scopes
from exploration.world import Scope
from pykruise.testing.exploration.graph import Graph
from simulation.mutating import mutated

pytestmark = pytest.mark.timeout(300)
MOST_STATES = 1_500
"""More states than any world of the suite has."""
SUITE = {
    "cloneset": ("in place, conflict", "in place, a watch breaks", "scaled, answer lost"),
    "statefulset": ("in order, hand-over", "parallel, image 1", "with preDelete scaled down, conflict"),
    "daemonset": ("recreated, conflict",),
    "sidecarset": ("conflict",),
    "broadcastjob": ("delete_pod 0", "answer lost", "hand-over", "a watch breaks"),
    "advancedcronjob": ("end_child 0 Complete", "conflict", "hand-over"),
    "resourcedistribution": ("delete_copy 0", "delete_namespace", "spec {'data': {'a': '1'}}", "hand-over"),
    "ephemeraljob": ("debug 0 look", "conflict", "a watch breaks", "delete_pod 0"),
    "imagepulljob": ("conflict", "a watch breaks"),
    "containerrecreaterequest": ("conflict", "answer lost", "withdraw again", "hand-over"),
    "podprobemarker": ("conflict", "a watch breaks", "delete_marker marker"),
}
"""Worlds by kind, with one pod, or with two nodes or namespaces."""

TWO = ("broadcastjob", "resourcedistribution")

LARGEST = {
    ("advancedcronjob", "hand-over"),
    ("daemonset", "recreated, conflict"),
    ("ephemeraljob", "debug 0 look"),
    ("sidecarset", "conflict"),
    ("broadcastjob", "a watch breaks"),
    ("broadcastjob", "delete_pod 0"),
    ("broadcastjob", "hand-over"),
    ("cloneset", "in place, conflict"),
    ("cloneset", "in place, a watch breaks"),
    ("statefulset", "with preDelete scaled down, conflict"),
    ("ephemeraljob", "delete_pod 0"),
    ("imagepulljob", "conflict"),
    ("imagepulljob", "a watch breaks"),
    ("containerrecreaterequest", "conflict"),
    ("containerrecreaterequest", "answer lost"),
    ("containerrecreaterequest", "withdraw again"),
    ("containerrecreaterequest", "hand-over"),
    ("podprobemarker", "a watch breaks"),
    ("podprobemarker", "delete_marker marker"),
}
"""Worlds with the most states, which run only with --exhaustive."""

MOST_OF_ONE_ORDER = 200
ORDERS = 8
"""Number of orders. One order finds in a dozen states what another finds in thousands, so each gets few states."""

EVENTS = ("conflict", "answer lost", "a watch breaks", "hand-over")
"""Faults and the hand-over between replicas, as worlds name them."""


def _worlds() -> Iterator[object]:
    for kind, names in SUITE.items():
        for name in names:
            marks = [pytest.mark.exhaustive] if (kind, name) in LARGEST else []
            yield pytest.param(kind, name, marks=marks)


def _scope(kind: str, name: str) -> Scope:
    pods = 2 if kind in TWO else 1
    return next(scope for scope in scopes(kind, pods=pods) if name in scope.name)


@pytest.mark.parametrize(("kind", "name"), list(_worlds()))
def test_every_order_of_events_settles_in_the_desired_state(kind: str, name: str) -> None:
    # given
    scope = _scope(kind, name)
    # when
    graph = Graph(explore(scope, most_states=MOST_STATES))
    # then everything was explored, and nothing was found
    assert not graph.left
    assert graph.rests
    assert not graph.broken, graph.broken[0].what
    assert not graph.stuck(), graph.path_to(min(graph.stuck()))


@pytest.mark.parametrize("event", EVENTS)
def test_every_run_explores_each_fault_in_some_kind(event: str) -> None:
    assert any(
        event in name and (kind, name) not in LARGEST for kind, names in SUITE.items() for name in names
    )


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.name)
def test_a_pitfall_of_the_original_is_found_when_its_remedy_is_removed(pitfall: Pitfall) -> None:
    # when
    with mutated(pitfall.changes):
        graph = next((graph for graph in _in_several_orders(pitfall) if graph.broken), None)
        # then the same path breaks the rule again
        assert graph is not None, "no order finds it"
        step = graph.broken[0]
        violation, _ = follow(pitfall.scope, step.path)
    assert violation is not None
    assert violation.rule == step.rule
    # ... but not without the mutation, if the path is possible there at all
    healthy, _ = follow(pitfall.scope, step.path)
    assert healthy is None


def _in_several_orders(pitfall: Pitfall) -> Iterator[Graph]:
    for seed in (pitfall.seed, *range(ORDERS)):
        steps = explore(pitfall.scope, most_states=MOST_OF_ONE_ORDER, until_broken=True, seed=seed)
        yield Graph(steps)
