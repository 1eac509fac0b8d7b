"""Selection of the pods that get new sidecars now, with reasons for the other pods.

managed pods + update strategy ──▶ choose() ──▶ ChosenPods (pods in their order, other pods with reasons)
    waiting pods ▶ base order ▶ priority ▶ scatter ▶ partition ▶ updated-pods ▶ maxUnavailable

Pure. No order is stored: each reconcile computes it again from the pods that still wait.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.types import UpdateStrategy
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.kube.values.selectors import Selector, describe_labels
from pykruise.pods.lifecycle.ordering import OrderTerm, scatter, sort_by_priority
from pykruise.pods.reasons import ONE_AT_A_TIME, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.options import UPDATED_PODS
from pykruise.runtime.reasons import Reason

_STRATEGY: Final = "spec.updateStrategy"

NOT_SELECTED: Final = Reason(Code.NOT_SELECTED, "updateStrategy.selector does not match its labels")
NOT_IN_PLACE: Final = Reason(
    Code.NOT_IN_PLACE,
    "cannot be upgraded in place: fields other than images changed since the pod was injected",
    f"recreate the pods {ONE_AT_A_TIME}: new pods get the current sidecars",
)
UPGRADING: Final = Reason(
    Code.UPDATING_IN_PLACE, "waits until the previous upgrade of its containers has ended"
)
BY_PARTITION: Final = Reason(
    Code.PARTITION, "the partition keeps it at its revision", f"lower {_STRATEGY}.partition to continue"
)
BY_NUMBER: Final = Reason(
    Code.PARTITION,
    f"the annotation {UPDATED_PODS.annotation} keeps it at its revision",
    f"raise the number in {UPDATED_PODS.annotation}, or remove this annotation, to continue",
)
BY_BUDGET: Final = Reason(Code.BUDGET, "waits for its turn: maxUnavailable is used up")
BY_ZERO: Final = limit_is_zero(f"{_STRATEGY}.maxUnavailable", "it serves, and no serving pod is upgraded")

EVERY_VALUE: Final = "*"
ALL: Final = "100%"


class ChosenPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to upgrade in this reconcile."""

    pods: Sequence[ManagedPod] = ()
    stuck: Sequence[ManagedPod] = ()
    """Pods that cannot be upgraded in place, because other fields than images have changed since the injection."""
    skipped: Mapping[str, Reason] = {}
    """`namespace/name` → reason why the pod is not upgraded."""


def choose(sidecar_set: ReadableSidecarSetView, pods: Sequence[ManagedPod]) -> ChosenPods:
    """Choose the pods to upgrade now, in order. Raises ValueError for an invalid strategy."""
    strategy = sidecar_set.spec.update_strategy or UpdateStrategy()
    waiting: list[ManagedPod] = []
    stuck: list[ManagedPod] = []
    skipped: dict[str, Reason] = {}
    selector = sidecar_set.update_selector
    not_selected = _find_reason_of_others(selector, pods)
    for pod in pods:
        if pod.is_updated:
            continue
        if selector is not None and not selector.matches(pod.pod.labels):
            skipped[pod.label] = not_selected
        elif pod.upgradable == "no":
            stuck.append(pod)
            skipped[pod.label] = NOT_IN_PLACE
        elif pod.upgradable == "in flight":
            skipped[pod.label] = UPGRADING
        else:
            waiting.append(pod)
    ordered = _sort_pods(waiting, pods, strategy)
    keep = count_kept_back(strategy.partition, of=len(pods))
    going = max(len(ordered) - keep, 0)
    skipped |= dict.fromkeys((pod.label for pod in ordered[going:]), BY_PARTITION)
    most = UPDATED_PODS.read(sidecar_set.annotations)
    if most is not None:
        room = max(most - sum(pod.is_updated for pod in pods), 0)
        skipped |= dict.fromkeys((pod.label for pod in ordered[room:going]), BY_NUMBER)
        going = min(going, room)
    chosen, budgeted = _split_by_budget(ordered[:going], pods, strategy.max_unavailable)
    is_zero = count_most_unavailable(strategy.max_unavailable, of=len(pods)) <= 0
    skipped |= dict.fromkeys((pod.label for pod in budgeted), BY_ZERO if is_zero else BY_BUDGET)
    return ChosenPods(pods=chosen, stuck=stuck, skipped=skipped)


def _find_reason_of_others(selector: Selector | None, pods: Sequence[ManagedPod]) -> Reason:
    """Return the reason of pods that the selector of the update strategy does not match. If it matches no pod at all,
    the rollout never begins, and a person must perhaps correct it.
    """
    if selector is None or not pods or any(selector.matches(pod.pod.labels) for pod in pods):
        return NOT_SELECTED
    have = describe_labels(selector.requirements, (pod.pod.labels for pod in pods))
    field = f"{_STRATEGY}.selector"
    return Reason(
        Code.NOTHING_SELECTED,
        f"{field} ({selector}) matches no pod, so no pod is upgraded: the pods have {have}",
        f"change {field}, or the pod's labels",
    )


# Order


def _sort_pods(
    waiting: Sequence[ManagedPod], everyone: Sequence[ManagedPod], strategy: UpdateStrategy
) -> list[ManagedPod]:
    by_uid = {pod.pod.uid: pod for pod in waiting}
    order: Sequence[PodView] = sorted((pod.pod for pod in waiting), key=_compute_base_rank)
    order = sort_by_priority(order, strategy.priority_strategy, is_strict=True)
    if strategy.scatter_strategy:
        all_pods = [pod.pod for pod in everyone]
        given = [OrderTerm(term.key, term.value) for term in strategy.scatter_strategy]
        order = scatter(order, all_pods, _expand_terms(given, all_pods))
    return [by_uid[pod.uid] for pod in order]


def _compute_base_rank(pod: PodView) -> tuple[Any, ...]:
    """Rank in the base order of updates. It includes the namespace, because pods in different namespaces can have the
    same name.
    """
    return pod.rank._replace(name=""), pod.namespace, pod.name


def _expand_terms(terms: Sequence[OrderTerm], pods: Sequence[PodView]) -> list[OrderTerm]:
    """Expand `*` to every existing value of the label."""
    result: dict[OrderTerm, None] = {}
    values: dict[str, set[str]] = {}
    for pod in pods:
        for key, value in pod.labels.items():
            values.setdefault(key, set()).add(value)
    for term in dict.fromkeys(terms):
        if term.value != EVERY_VALUE:
            result[term] = None
            continue
        for value in sorted(values.get(term.key, ())):
            result[OrderTerm(term.key, value)] = None
    return list(result)


# Limits


def count_kept_back(partition: IntOrPercent | None, *, of: int) -> int:
    """Number of waiting pods that keep their revision. Raises ValueError.

    A percentage is rounded up. With more than one pod, a percentage below 100% never keeps all pods.
    """
    if partition is None:
        return 0
    number = resolve(partition, of=of, rounding=Rounding.UP)
    if isinstance(partition, str) and number == of and of > 1 and Fraction(partition[:-1]) != 100:
        number -= 1
    return min(max(number, 0), of)


def count_most_unavailable(value: IntOrPercent | None, *, of: int) -> int:
    """Number of upgraded pods that may be out of service together; a percentage is rounded up. Raises ValueError."""
    return 1 if value is None else resolve(value, of=of, rounding=Rounding.UP)


def _split_by_budget(
    ordered: Sequence[ManagedPod], everyone: Sequence[ManagedPod], value: IntOrPercent | None
) -> tuple[list[ManagedPod], list[ManagedPod]]:
    """Split the pods into pods to upgrade now and pods that wait.

    The first ready pod that would exceed the budget waits, and so do all later pods. Pods before it that are not ready
    are upgraded even if the budget is used up. Each of them then uses a unit of the budget, because it is out of
    service until its upgrade has ended. OpenKruise counts a pod that was not ready only from the next round on.
    """
    most = count_most_unavailable(value, of=len(everyone))
    busy = sum(item.is_updated and not (item.is_consistent and item.is_ready) for item in everyone)
    chosen: list[ManagedPod] = []
    for number, pod in enumerate(ordered):
        if pod.is_ready and busy >= most:
            return chosen, list(ordered[number:])
        busy += 1
        chosen.append(pod)
    return chosen, []
