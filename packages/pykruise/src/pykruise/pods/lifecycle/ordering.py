"""Order of pods for deletion and for updates (base, priority, scatter).

PodViews with their precomputed ranks ──▶ sort_for_deletion() ──▶ pods whose loss costs least first
                                      ──▶ update_order() ▶ sort_by_priority() ▶ scatter()

Pure; serves every kind. Every order is total (the name decides last) and every later step is stable, so the same pods
always get the same order, whatever the order of the input.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, Final, TypeVar

import msgspec

from pykruise.kube.values.selectors import Selector, SelectorError, parse_selector
from pykruise.pods.api import PriorityStrategy, WeightPriorityTerm
from pykruise.pods.view.pod_view import PodView

HOSTNAME: Final = "kubernetes.io/hostname"
_INT64_MAX: Final = 2**63 - 1

MOST_WEIGHTS: Final = 256
"""Maximum number of weightPriority terms that are used: each is matched against every pod."""

MOST_SCATTERED: Final = 256
"""Maximum number of effective scatter terms that are used: each iterates over all pods."""

P = TypeVar("P")


class OrderTerm(msgspec.Struct, frozen=True):
    """A label that scatters pods."""

    key: str
    value: str


# Deletion


def sort_for_deletion(
    pods: Sequence[PodView],
    *,
    available: Callable[[PodView], bool],
    topology_keys: Sequence[str] = (),
    node_labels: Mapping[str, Mapping[str, str]] | None = None,
) -> list[PodView]:
    """Sort pods for deletion, victims first. `topology_keys` are the ones of the template's
    topologySpreadConstraints.

    The first difference decides: no node; Pending, Unknown, Running; not available, then not Ready; lower cost;
    higher spread rank; most recently ready; more restarts; newest.
    """
    spread = compute_spread_ranks(pods, topology_keys=topology_keys, node_labels=node_labels or {})
    return _sort_by_rank(pods, spread, available=available)


def compute_spread_ranks(
    pods: Sequence[PodView], *, topology_keys: Sequence[str], node_labels: Mapping[str, Mapping[str, str]]
) -> dict[str, float]:
    """Name of a pod → gain in spread when the pod is deleted (0 when absent).

    With constraints all topologies count, weighted by the logarithm of the number of their values. Without
    constraints, pods that share a node rank above pods that are alone on their node.
    """
    same_node = _compute_same_node_ranks(pods)
    if not topology_keys:
        return same_node
    ranks: defaultdict[str, float] = defaultdict(float)
    known = {key for labels in node_labels.values() for key in labels}
    for topology_key, times in Counter(topology_keys).items():
        if topology_key not in known:
            continue
        groups: defaultdict[str, list[PodView]] = defaultdict(list)
        for pod in pods:
            value = node_labels.get(pod.node_name, {}).get(topology_key)
            if value is not None:
                groups[value].append(pod)
        weight = times * log(len(groups) + 2)
        inner: Mapping[str, float] = {} if topology_key == HOSTNAME else same_node
        for group in groups.values():
            for position, pod in enumerate(_sort_by_rank(group, inner)):
                ranks[pod.name] += (len(group) - position) * weight
    return ranks


def _compute_same_node_ranks(pods: Sequence[PodView]) -> dict[str, float]:
    nodes: defaultdict[str, list[PodView]] = defaultdict(list)
    for pod in _sort_by_rank(pods, {}):
        if pod.node_name:
            nodes[pod.node_name].append(pod)
    return {
        pod.name: float(len(group) - 1 - position)
        for group in nodes.values()
        if len(group) > 1
        for position, pod in enumerate(group)
    }


def _sort_by_rank(
    pods: Sequence[PodView],
    spread: Mapping[str, float],
    *,
    available: Callable[[PodView], bool] = lambda _: True,
) -> list[PodView]:
    """Sort pods by rank and spread. One comprehension builds the sort keys without helper functions, because scaling
    down a large set sorts all its pods.
    """
    spread_of = spread.get
    sort_keys: list[tuple[Any, ...]] = [
        (
            rank.has_node,
            rank.phase,
            available(pod),
            rank.is_ready,
            pod.deletion_cost,
            -spread_of(pod.name, 0.0),
            rank.has_ready_time,
            rank.minus_ready_since,
            rank.minus_restarts,
            rank.has_creation_time,
            rank.minus_created_at,
            rank.name,
        )
        for pod in pods
        for rank in (pod.rank,)
    ]
    return [pods[index] for index in sorted(range(len(pods)), key=sort_keys.__getitem__)]


# Updates


def update_order(pods: Iterable[PodView]) -> list[PodView]:
    """Sort pods in the base order: pods whose loss costs least first. The deletion cost and the spread are ignored."""
    return sorted(pods, key=lambda pod: pod.rank)


def sort_by_priority(
    pods: Sequence[PodView], strategy: PriorityStrategy | None, *, is_strict: bool = False
) -> Sequence[PodView]:
    """Stable sort by the weights of a priorityStrategy, otherwise by its labels.

    An invalid selector (admission was bypassed) matches nothing. `is_strict`: raises SelectorError for an invalid
    selector.
    """
    if strategy is None:
        return pods
    if strategy.weight_priority:
        return sort_by_weight(pods, list(_parse_weights(strategy.weight_priority, is_strict=is_strict)))
    return sort_by_ordered_keys(pods, [term.ordered_key for term in strategy.order_priority or ()])


def _parse_weights(terms: Iterable[WeightPriorityTerm], *, is_strict: bool) -> Iterator[tuple[Selector, int]]:
    for term in terms:
        try:
            yield parse_selector(msgspec.to_builtins(term.match_selector)), term.weight
        except SelectorError:
            if is_strict:
                raise


def sort_by_weight(pods: Sequence[PodView], terms: Sequence[tuple[Selector, int]]) -> list[PodView]:
    """Stable sort by the sum of the weights of all matching selectors, the greatest first.

    Only the first MOST_WEIGHTS terms count. Admission rejects more terms, unless an update leaves the list unchanged.
    """
    used = terms[:MOST_WEIGHTS]
    return sorted(
        pods, key=lambda pod: -sum(weight for selector, weight in used if selector.matches(pod.labels))
    )


def sort_by_ordered_keys(pods: Sequence[PodView], ordered_keys: Sequence[str]) -> list[PodView]:
    """Stable sort: pods without any of the labels first, then by the first label that a pod has, higher number first.

    The number is the end of the label's value: `sts-10` gives 10. A missing number, or a number beyond 63 bits, gives
    0.
    """
    levels: dict[str, int] = {}
    for level, key in enumerate(ordered_keys):
        levels.setdefault(key, level)
    return sorted(pods, key=lambda pod: _compute_level(pod, levels))


def _compute_level(pod: PodView, levels: Mapping[str, int]) -> tuple[int, int]:
    level, key = min(((levels[key], key) for key in pod.labels if key in levels), default=(-1, ""))
    return level, -_parse_trailing_number(pod.labels.get(key, ""))


def _parse_trailing_number(text: str) -> int:
    digits = text[len(text.rstrip("0123456789")) :].lstrip("0")
    number = int(digits or "0")
    return number if number <= _INT64_MAX else 0


def put_first(pods: Sequence[P], chosen: Callable[[P], bool]) -> list[P]:
    """Stable partition: the chosen pods before the others."""
    ahead = [pod for pod in pods if chosen(pod)]
    return [*ahead, *(pod for pod in pods if not chosen(pod))] if ahead else list(pods)


def scatter(
    candidates: Sequence[PodView], everyone: Sequence[PodView], terms: Sequence[OrderTerm]
) -> list[PodView]:
    """Spread candidates with a label evenly over the rollout; `everyone` are all active pods.

    Several terms are applied sequentially, starting with the one that matches most candidates. Of the terms that have
    an effect, only the first MOST_SCATTERED are applied.
    """
    if not terms or len(candidates) <= 1:
        return list(candidates)
    carried = Counter(label for pod in candidates for label in pod.labels.items())
    listed = Counter(terms)
    matches = {term: carried[term.key, term.value] for term in listed}
    used = [term for term in listed if 1 < matches[term] < len(candidates) - 1]
    used.sort(key=lambda term: -matches[term] * listed[term])
    ordered = list(candidates)
    for term in used[:MOST_SCATTERED]:
        ordered = _scatter_one(ordered, everyone, term)
    return ordered


def _has_label(pod: PodView, term: OrderTerm) -> bool:
    return pod.labels.get(term.key) == term.value


def _scatter_one(
    candidates: Sequence[PodView], everyone: Sequence[PodView], term: OrderTerm
) -> list[PodView]:
    """Scatter by one term. At least two candidates must have the label, and at least two must lack it."""
    matched = [pod for pod in candidates if _has_label(pod, term)]
    others = [pod for pod in candidates if not _has_label(pod, term)]
    last = matched.pop()
    all_matched = sum(_has_label(pod, term) for pod in everyone)
    all_others = len(everyone) - all_matched
    all_matched -= 1
    rest = 0
    if _to_float32(all_others / all_matched) >= _to_float32(len(others) / len(matched)):
        size, other_size = _compute_group_sizes(len(matched), len(others))
        groups = min(len(matched), len(others))
    else:
        size, other_size = _compute_group_sizes(all_matched, all_others)
        groups = min(len(matched) // size, len(others) // other_size)
        rest = len(others) - groups * other_size
    result, others = others[:rest], others[rest:]
    for number in range(groups):
        result += matched[number * size : (number + 1) * size]
        result += others[number * other_size : (number + 1) * other_size]
    return [*result, *matched[groups * size :], *others[groups * other_size :], last]


def _compute_group_sizes(first_count: int, second_count: int) -> tuple[int, int]:
    """Sizes of the two parts of one group, half rounded away from zero."""
    smaller = min(first_count, second_count)
    return (2 * first_count + smaller) // (2 * smaller), (2 * second_count + smaller) // (2 * smaller)


def _to_float32(value: float) -> float:
    """Round to single precision, in which OpenKruise compares the ratios."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)
