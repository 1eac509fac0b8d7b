"""The order in which pods are deleted or updated."""

import math
import random
from typing import Any

import msgspec
import pytest

from pykruise.kube.clock import format_time
from pykruise.kube.schemas.types import LabelSelector
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.api import OrderPriorityTerm, PriorityStrategy, WeightPriorityTerm
from pykruise.pods.lifecycle.ordering import (
    MOST_SCATTERED,
    MOST_WEIGHTS,
    OrderTerm,
    compute_spread_ranks,
    put_first,
    scatter,
    sort_by_ordered_keys,
    sort_by_priority,
    sort_by_weight,
    sort_for_deletion,
    update_order,
)
from pykruise.pods.lifecycle.sort_keys import parse_deletion_cost
from pykruise.pods.view.pod_view import PodView
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset

LN_3, LN_4 = math.log(3), math.log(4)


def order_of(pods: list[PodView]) -> str:
    return " ".join(pod.name.removeprefix("web-") for pod in pods)


def victims(builder: CloneSetBuilder, *, unavailable: str = "", **arguments: Any) -> str:
    """The deletion order of the builder's pods, in whatever order they are listed."""
    pods = builder.pod_views()
    random.Random(1).shuffle(pods)
    down = {f"web-{name}" for name in unavailable.split()}
    return order_of(
        sort_for_deletion(
            pods,
            available=lambda pod: pod.is_serving and pod.name not in down,
            node_labels=builder.node_labels,
            **arguments,
        )
    )


def test_pods_are_deleted_in_order_of_assignment_phase_and_readiness() -> None:
    builder = cloneset(6).unscheduled("f").phase("Pending", "e").phase("Unknown", "d").not_ready("c")
    assert victims(builder) == "f e d c a b"


def test_a_phase_that_is_not_known_counts_as_pending() -> None:
    assert victims(cloneset(3).phase("SomethingNew", "c").phase("Unknown", "b")) == "c b a"
    assert victims(cloneset(2).phase("SomethingNew", "b").phase("Pending", "a")) == "a b"


def test_unavailable_pods_are_deleted_before_available_ones_even_when_ready() -> None:
    assert victims(cloneset(3), unavailable="b") == "b a c"


def test_pods_with_a_lower_deletion_cost_are_deleted_first() -> None:
    """cloneset case 30"""
    builder = cloneset(5).cost("10", "a").cost("100", "b").cost("-1", "c").cost("+5", "d")
    assert victims(builder) == "c d e a b"


def test_availability_weighs_more_than_cost() -> None:
    assert victims(cloneset(2).cost("-100", "a"), unavailable="b") == "b a"


def test_node_phase_and_readiness_weigh_more_than_cost() -> None:
    """cloneset 6.6"""
    builder = cloneset(4).unscheduled("d").phase("Pending", "c").not_ready("b", "c")
    builder.set_condition("a", "Ready", "True", lastTransitionTime=None)
    builder.cost("9", "d").cost("8", "c").cost("7", "b")
    assert victims(builder, unavailable="a b c d") == "d c b a"


def test_pods_that_share_a_node_are_deleted_before_those_alone_on_theirs() -> None:
    """cloneset case 29"""
    builder = cloneset(4).on_node("n1", "b", "c", "d")
    assert victims(builder) == "b c a d"


def test_the_most_recently_ready_pod_is_deleted_first_after_one_without_a_time() -> None:
    builder = cloneset(3).ready_for(100, "a").ready_for(10, "b")
    builder.set_condition("c", "Ready", "True", lastTransitionTime=None)
    assert victims(builder) == "c b a"


def test_the_transition_time_of_unready_pods_does_not_count() -> None:
    builder = cloneset(2)
    for name, since in {"a": NOW - 600, "b": NOW - 5}.items():
        builder.set_condition(name, "Ready", "False", lastTransitionTime=format_time(since))
    assert victims(builder) == "a b"
    assert order_of(update_order(builder.pod_views())) == "a b"


def test_pods_with_more_restarts_are_deleted_first_and_then_the_newest() -> None:
    builder = cloneset(4).restarts(5, "d").born(10, "c").born(20, "b")
    assert victims(builder) == "d c b a"


def test_a_topology_with_more_pods_gives_one_up_first() -> None:
    """cloneset case 31"""
    # given three pods in one zone, one in another, one on a node without the label
    builder = cloneset(5).on_node("n1", "b", zone="z1").on_node("n2", "c", zone="z1")
    builder.on_node("n3", "d", zone="z1").on_node("n4", "e", zone="z2").on_node("n5", "a", other="x")
    # then a pod of the zone with most pods is deleted first, the pod without the label last
    assert victims(builder, topology_keys=["zone"]) == "b c d e a"


def test_ranks_of_several_topologies_add_up() -> None:
    # given pods of which most share a zone, and two of these share a host, too
    builder = cloneset(4).on_node("n1", "c", "d").on_node("n2", "b").on_node("n3", "a")
    for node, zone in {"n1": "z1", "n2": "z1", "n3": "z2"}.items():
        builder.node_labels[node] = {"zone": zone, "kubernetes.io/hostname": node}
    # then the first pod of the shared host and zone, the next of the zone, and the last two by name
    assert victims(builder, topology_keys=["zone", "kubernetes.io/hostname"]) == "c b a d"


@pytest.mark.parametrize(
    ("topology_keys", "expected"),
    [
        ([], {"c": 1}),
        (["zone"], {"c": 3 * LN_4, "a": 2 * LN_4, "d": LN_4, "b": LN_4}),
        (["zone", "zone"], {"c": 6 * LN_4, "a": 4 * LN_4, "d": 2 * LN_4, "b": 2 * LN_4}),
        (["rack"], {"a": LN_3}),
        (["kubernetes.io/hostname"], {"a": LN_4, "b": 3 * LN_4, "c": 2 * LN_4, "d": LN_4}),
        (["zone", "rack", "disk"], {"c": 3 * LN_4, "a": 2 * LN_4 + LN_3, "d": LN_4, "b": LN_4}),
    ],
)
def test_a_rank_is_the_position_in_the_group_times_the_logarithm_of_its_values(
    topology_keys: list[str], expected: dict[str, float]
) -> None:
    """cloneset case 31 and 6.6; pods without a node have no rank"""
    # given two nodes with the same hostname, the second of them with two pods, and two pods without a node
    builder = cloneset(6).on_node("n2", "b").on_node("n3", "c", "d").on_node("n1", "a").unscheduled("e", "f")
    builder.node_labels = {
        "n1": {"zone": "z1", "rack": "r1", "kubernetes.io/hostname": "h1"},
        "n2": {"zone": "z2", "kubernetes.io/hostname": "h2"},
        "n3": {"zone": "z1", "kubernetes.io/hostname": "h2"},
    }
    # then
    result = compute_spread_ranks(
        builder.pod_views(), topology_keys=topology_keys, node_labels=builder.node_labels
    )
    assert {name.removeprefix("web-"): rank for name, rank in result.items() if rank} == pytest.approx(
        expected
    )


def test_constraints_spread_nothing_while_no_node_is_known() -> None:
    assert (
        order_of(
            sort_for_deletion(
                cloneset(2).cost("-1", "b").pod_views(), available=lambda _: True, topology_keys=["zone"]
            )
        )
        == "b a"
    )


def test_a_pod_without_a_creation_time_is_deleted_before_the_newest() -> None:
    builder = cloneset(3).born(1, "b")
    del builder.pods["c"]["metadata"]["creationTimestamp"]
    assert victims(builder) == "c b a"
    assert order_of(update_order(builder.pod_views())) == "c b a"


def test_updates_take_the_least_felt_loss_first_and_ignore_cost_and_spread() -> None:
    builder = cloneset(6).cost("-100", "a").on_node("n", "a", "b").not_ready("f").unscheduled("e")
    builder.ready_for(5, "d").restarts(3, "c")
    assert order_of(update_order(builder.pod_views())) == "e f d c a b"


def test_pods_with_higher_weights_are_first_and_ties_keep_their_order() -> None:
    """cloneset case 71, inplace-update case 64"""
    builder = cloneset(5).labelled({"foo": "x"}, "d").labelled({"bar": "x"}, "b")
    builder.labelled({"foo": "x", "bar": "x"}, "e")
    terms = [
        (parse_selector({"matchLabels": {"foo": "x"}}), 20),
        (parse_selector({"matchLabels": {"bar": "x"}}), 10),
    ]
    assert order_of(sort_by_weight(update_order(builder.pod_views()), terms)) == "e d b a c"


def test_ordered_keys_take_pods_without_any_first_then_higher_numbers() -> None:
    """cloneset case 72, inplace-update case 65"""
    builder = cloneset(4).labelled({"k1": "o-5"}, "a").labelled({"k1": "o-10"}, "b")
    builder.labelled({"k2": "o-20"}, "c")
    assert order_of(sort_by_ordered_keys(builder.pod_views(), ["k1", "k2"])) == "d b a c"


def test_only_a_limited_number_of_weights_counts() -> None:
    # given one term too many; only the last term matches a pod
    builder = cloneset(2).labelled({"last": "x"}, "b")
    no_pod = parse_selector({"matchLabels": {"no": "pod"}}), 1
    last = parse_selector({"matchLabels": {"last": "x"}}), 1
    # then
    assert order_of(sort_by_weight(builder.pod_views(), [*[no_pod] * MOST_WEIGHTS, last])) == "a b"
    assert order_of(sort_by_weight(builder.pod_views(), [*[no_pod] * (MOST_WEIGHTS - 1), last])) == "b a"


def weight(weight: int, **selector: Any) -> WeightPriorityTerm:
    return WeightPriorityTerm(weight=weight, match_selector=msgspec.convert(selector, LabelSelector))


WEIGHTS = [weight(20, matchLabels={"foo": "x"}), weight(10, matchLabels={"bar": "x"})]
ORDER = [OrderPriorityTerm(ordered_key="k")]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, "a b c"),
        (PriorityStrategy(), "a b c"),
        (PriorityStrategy(weight_priority=WEIGHTS), "c b a"),
        (PriorityStrategy(weight_priority=[], order_priority=ORDER), "a c b"),
        (PriorityStrategy(weight_priority=WEIGHTS, order_priority=ORDER), "c b a"),
    ],
)
def test_a_priority_strategy_sorts_by_weights_or_else_by_labels(
    strategy: PriorityStrategy | None, expected: str
) -> None:
    """inplace-update 6.10"""
    builder = cloneset(3).labelled({"foo": "x", "k": "2"}, "c").labelled({"bar": "x", "k": "1"}, "b")
    assert order_of(list(sort_by_priority(builder.pod_views(), strategy))) == expected


def test_a_weight_whose_selector_cannot_be_read_counts_for_no_pod_or_is_refused() -> None:
    builder = cloneset(2).labelled({"bar": "x"}, "b")
    broken = weight(99, matchExpressions=[{"key": "bar", "operator": "Like"}])
    strategy = PriorityStrategy(weight_priority=[broken, *WEIGHTS])
    assert order_of(list(sort_by_priority(builder.pod_views(), strategy))) == "b a"
    with pytest.raises(SelectorError):
        sort_by_priority(builder.pod_views(), strategy, is_strict=True)


def test_the_first_ordered_key_of_a_pod_decides() -> None:
    """cloneset case 72: only the first position of a repeated key counts"""
    builder = cloneset(3).labelled({"k1": "1", "k2": "1"}, "c").labelled({"k1": "2"}, "b")
    builder.labelled({"k2": "5"}, "a")
    assert order_of(sort_by_ordered_keys(builder.pod_views(), ["k1", "k2", "k1"])) == "b c a"


@pytest.mark.parametrize("value", ["0", "000", "abc", "", "9" * 19, "9" * 60])
def test_an_order_label_without_a_63_bit_number_counts_as_zero(value: str) -> None:
    builder = cloneset(3).labelled({"k": value}, "a", "c").labelled({"k": "x-0"}, "b")
    assert order_of(sort_by_ordered_keys(builder.pod_views(), ["k"])) == "a b c"


@pytest.mark.parametrize(
    ("value", "before"),
    [("7", True), ("6", False), ("abc", False), ("", False), (str(2**63 - 1), True), (str(2**63), False)],
)
def test_the_number_of_an_ordered_key_is_what_its_value_ends_with(value: str, before: bool) -> None:
    builder = cloneset(2).labelled({"k": value}, "b").labelled({"k": "sts-6"}, "a")
    assert order_of(sort_by_ordered_keys(builder.pod_views(), ["k"])) == ("b a" if before else "a b")


def test_the_order_of_preferred_items_is_stable() -> None:
    assert put_first([3, 1, 4, 1, 5], lambda number: number == 1) == [1, 1, 3, 4, 5]


def scattered(
    count: int, positions: dict[str, set[int]], *, candidates: int | None = None, again: str = ""
) -> str:
    """The update order of scattered pods. `again`: a label that the strategy lists twice."""
    builder = cloneset(count)
    letters = list(builder.pods)
    for label, where in positions.items():
        builder.labelled({label: "v"}, *(letters[position] for position in where))
    pods = builder.pod_views()
    terms = [OrderTerm(label, "v") for label in (*again, *positions)]
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


def test_the_term_that_most_pods_have_is_applied_first_and_one_listed_twice_counts_twice() -> None:
    """inplace-update 6.11 step 2"""
    assert scattered(5, {"A": {1, 4}, "B": {1, 2, 3}}) == "1 0 2 3 4"
    assert scattered(5, {"A": {3, 4}, "B": {2, 3, 4}}, again="A") == "3 0 2 1 4"


def test_only_a_limited_number_of_scatter_terms_is_applied() -> None:
    # given terms that match most pods, and one that matches fewer pods and would change the order
    most = {f"t{number}": {1, 2, 3} for number in range(MOST_SCATTERED)}
    last = {"z": {1, 4}}
    one_less = dict(list(most.items())[1:])
    # then
    assert scattered(5, most | last) == scattered(5, most) != scattered(5, one_less | last)


@pytest.mark.parametrize(
    ("count", "positions", "candidates", "expected"),
    [
        (7, {4, 5, 6}, 6, "0 1 4 2 3 5"),
        (6, {1, 3, 4, 5}, 5, "0 1 3 2 4"),
        (11, {1, 3, 4, 6, 9}, 9, "0 1 2 5 3 7 8 4 6"),
    ],
)
def test_pods_that_are_updated_already_count_for_the_ratio(
    count: int, positions: set[int], candidates: int, expected: str
) -> None:
    """inplace-update 6.11 step 6"""
    assert scattered(count, {"k": positions}, candidates=candidates) == expected


def test_the_order_does_not_change_without_terms_and_for_one_pod() -> None:
    """inplace-update 6.11 step 1"""
    assert scattered(3, {}) == "0 1 2"
    assert scattered(1, {"k": {0}}) == "0"


def test_a_term_that_no_candidate_has_changes_nothing() -> None:
    assert scattered(4, {"A": {3}, "B": set()}) == "0 1 2 3"


def test_a_deletion_cost_with_too_many_digits_is_zero() -> None:
    """Such an annotation once made its pod unreadable, and so invisible."""
    assert parse_deletion_cost("9" * 5_000) == 0


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("-2147483649", 0),
        *(("0", 0), ("7", 7), ("-7", -7), ("+7", 0), ("007", 0), ("", 0), ("x", 0), (None, 0)),
    ],
)
def test_a_deletion_cost_is_a_32_bit_integer_or_zero(text: str | None, cost: int) -> None:
    """cloneset 6.6"""
    assert parse_deletion_cost(text) == cost
