"""Which pods are deleted or updated first."""

import random
from typing import Any

import pytest

from pykruise.kube.selectors import selector_from
from pykruise.pods.ordering import (
    Term,
    by_ordered_keys,
    by_weight,
    deletion_order,
    first,
    scatter,
    update_order,
)
from pykruise.pods.ranks import deletion_cost
from pykruise.pods.views import PodView
from support.cloneset_builder import CloneSetBuilder, cloneset


def order_of(pods: list[PodView]) -> str:
    return " ".join(pod.name.removeprefix("web-") for pod in pods)


def victims(builder: CloneSetBuilder, *, unavailable: str = "", **arguments: Any) -> str:
    """The deletion order of the builder's pods, whatever order they come in."""
    pods = builder.pod_views()
    random.Random(1).shuffle(pods)
    down = {f"web-{name}" for name in unavailable.split()}
    return order_of(
        deletion_order(
            pods,
            available=lambda pod: pod.is_serving and pod.name not in down,
            node_labels=builder.node_labels,
            **arguments,
        )
    )


def test_pods_without_a_node_go_first_then_by_phase_then_by_readiness() -> None:
    builder = cloneset(6).unscheduled("f").phase("Pending", "e").phase("Unknown", "d").not_ready("c")
    assert victims(builder) == "f e d c a b"


def test_a_phase_that_is_not_known_counts_as_pending() -> None:
    assert victims(cloneset(3).phase("SomethingNew", "c").phase("Unknown", "b")) == "c b a"


def test_unavailable_pods_go_before_available_ones_even_when_ready() -> None:
    assert victims(cloneset(3), unavailable="b") == "b a c"


def test_a_lower_deletion_cost_goes_first() -> None:
    """cloneset case 30"""
    builder = cloneset(5).cost("10", "a").cost("100", "b").cost("-1", "c").cost("+5", "d")
    assert victims(builder) == "c d e a b"


def test_availability_weighs_more_than_cost() -> None:
    assert victims(cloneset(2).cost("-100", "a"), unavailable="b") == "b a"


def test_pods_that_share_a_node_go_before_those_that_have_one_alone() -> None:
    """cloneset case 29"""
    builder = cloneset(4).on_node("n1", "b", "c", "d")
    assert victims(builder) == "b c a d"


def test_the_most_recently_ready_goes_first_and_one_without_a_time_before_it() -> None:
    builder = cloneset(3).ready_for(100, "a").ready_for(10, "b")
    builder.set_condition("c", "Ready", "True", lastTransitionTime=None)
    assert victims(builder) == "c b a"


def test_more_restarts_go_first_then_the_newest() -> None:
    builder = cloneset(4).restarts(5, "d").born(10, "c").born(20, "b")
    assert victims(builder) == "d c b a"


def test_a_topology_with_more_pods_gives_one_up_first() -> None:
    """cloneset case 31"""
    # given three pods in one zone, one in another, one on a node without the label
    builder = cloneset(5).on_node("n1", "b", zone="z1").on_node("n2", "c", zone="z1")
    builder.on_node("n3", "d", zone="z1").on_node("n4", "e", zone="z2").on_node("n5", "a", other="x")
    # then one of the zone with most pods goes first, the unlabelled last
    assert victims(builder, topology_keys=["zone"]) == "b c d e a"


def test_ranks_of_several_topologies_add_up() -> None:
    # given pods of which most share a zone, and two of those a host too
    builder = cloneset(4).on_node("n1", "c", "d").on_node("n2", "b").on_node("n3", "a")
    for node, zone in {"n1": "z1", "n2": "z1", "n3": "z2"}.items():
        builder.node_labels[node] = {"zone": zone, "kubernetes.io/hostname": node}
    # then the first of the shared host and zone, the next of the zone, and a tie by name
    assert victims(builder, topology_keys=["zone", "kubernetes.io/hostname"]) == "c b a d"


def test_updates_take_the_least_felt_loss_first_and_ignore_cost_and_spread() -> None:
    builder = cloneset(6).cost("-100", "a").on_node("n", "a", "b").not_ready("f").unscheduled("e")
    builder.ready_for(5, "d").restarts(3, "c")
    assert order_of(update_order(builder.pod_views())) == "e f d c a b"


def test_higher_weights_go_first_and_ties_keep_their_order() -> None:
    """cloneset case 71, inplace-update case 64"""
    builder = cloneset(5).labelled({"foo": "x"}, "d").labelled({"bar": "x"}, "b")
    builder.labelled({"foo": "x", "bar": "x"}, "e")
    terms = [
        (selector_from({"matchLabels": {"foo": "x"}}), 20),
        (selector_from({"matchLabels": {"bar": "x"}}), 10),
    ]
    assert order_of(by_weight(update_order(builder.pod_views()), terms)) == "e d b a c"


def test_ordered_keys_take_pods_without_any_first_then_higher_numbers() -> None:
    """cloneset case 72, inplace-update case 65"""
    builder = cloneset(4).labelled({"k1": "o-5"}, "a").labelled({"k1": "o-10"}, "b")
    builder.labelled({"k2": "o-20"}, "c")
    assert order_of(by_ordered_keys(builder.pod_views(), ["k1", "k2"])) == "d b a c"


@pytest.mark.parametrize(
    ("value", "before"), [("7", True), ("6", False), ("abc", False), ("", False), ("9" * 20, False)]
)
def test_the_number_of_an_ordered_key_is_what_its_value_ends_with(value: str, before: bool) -> None:
    builder = cloneset(2).labelled({"k": value}, "b").labelled({"k": "sts-6"}, "a")
    assert order_of(by_ordered_keys(builder.pod_views(), ["k"])) == ("b a" if before else "a b")


def test_first_is_stable() -> None:
    assert first([3, 1, 4, 1, 5], lambda number: number == 1) == [1, 1, 3, 4, 5]


def scattered(count: int, positions: dict[str, set[int]], *, candidates: int | None = None) -> str:
    builder = cloneset(count)
    letters = list(builder.pods)
    for label, where in positions.items():
        builder.labelled({label: "v"}, *(letters[position] for position in where))
    pods = builder.pod_views()
    terms = [Term(label, "v") for label in positions]
    chosen = scatter(pods[:candidates], pods, terms)
    return " ".join(str(letters.index(pod.name.removeprefix("web-"))) for pod in chosen)


@pytest.mark.parametrize(
    ("count", "positions", "expected"),
    [
        (6, {4, 5}, "4 0 1 2 3 5"),
        (6, {3, 4, 5}, "3 0 1 4 2 5"),
        (9, {6, 7, 8}, "6 0 1 2 7 3 4 5 8"),
        (6, {2, 3, 4, 5}, "2 3 0 4 1 5"),
        (7, {3, 6}, "3 0 1 2 4 5 6"),
        (10, {7, 8, 9}, "7 0 1 2 3 8 4 5 6 9"),
        (6, {5}, "0 1 2 3 4 5"),
        (6, {0, 1, 2, 3, 4}, "0 1 2 3 4 5"),
    ],
)
def test_scattered_pods_are_spread_over_the_rollout(count: int, positions: set[int], expected: str) -> None:
    """cloneset case 73 (three of ten are the 1st, 6th and 10th), inplace-update cases 66, 67"""
    assert scattered(count, {"k": positions}) == expected


def test_several_terms_are_applied_one_after_another() -> None:
    assert scattered(6, {"A": {4, 5}, "B": {0, 1}}) == "0 4 2 3 5 1"


def test_pods_that_are_updated_already_count_for_the_ratio() -> None:
    assert scattered(7, {"k": {4, 5, 6}}, candidates=6) == "0 1 4 2 3 5"


def test_a_term_that_no_candidate_has_changes_nothing() -> None:
    assert scattered(4, {"A": {3}, "B": set()}) == "0 1 2 3"


def test_a_deletion_cost_of_very_many_digits_is_none() -> None:
    """Such an annotation made its pod unreadable, and so invisible."""
    assert deletion_cost("9" * 5_000) == 0
    assert deletion_cost("2147483647") == 2147483647
