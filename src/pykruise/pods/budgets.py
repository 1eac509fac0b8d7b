"""PodUnavailableBudgets as a workload asks them before it takes a pod out of service by itself.

stored budget ──▶ BudgetView (what a cache keeps)
budget + pod + operation ──▶ ask() ──▶ free, to be spent, or refused ──▶ spend_patch(): one write for all pods

Pure; the decision is that of the pod webhook. What is spent is written to the budget's status with its
resourceVersion as precondition, so two who spend at once cannot both succeed.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.pods import keys
from pykruise.pods.in_place import Settings, pod_verdict
from pykruise.pods.in_place.images import image_name
from pykruise.pods.views import PodView

__all__ = [
    "POD_UNAVAILABLE_BUDGETS",
    "Answer",
    "BudgetView",
    "Operation",
    "ask",
    "budget_name_of",
    "project_budget",
    "spend_patch",
]

POD_UNAVAILABLE_BUDGETS: Final = Resource(
    "policy.kruise.io", "v1beta1", "podunavailablebudgets", "PodUnavailableBudget"
)

MOST_UNCONFIRMED: Final = 2000
"""Pods that a budget may have on its lists before its controller has confirmed them."""

_UNAVAILABLE_LABEL: Final = "unavailable-pod.kruise.io/"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class Operation(StrEnum):
    """What is to be done to a pod."""

    DELETE = "DELETE"
    UPDATE = "UPDATE"
    EVICT = "EVICT"
    RESIZE = "RESIZE"


_PROTECTED_BY_DEFAULT: Final = (Operation.DELETE, Operation.UPDATE, Operation.EVICT)


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """One PodUnavailableBudget."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    operations: frozenset[str] = frozenset()
    """Protected operations; empty: the default."""
    ignored: Selector | None = None
    """Pods that it does not protect."""
    ignored_problem: str = ""
    """Why `spec.ignoredPodSelector` cannot be read."""
    desired_available: int = 0
    unavailable_allowed: int = 0
    unconfirmed: frozenset[str] = frozenset()
    """Names of pods that have been let go or updated already."""


class Answer(msgspec.Struct, frozen=True):
    """`refusal` says why not; `spends` that it costs one of the budget."""

    spends: bool = False
    refusal: str = ""


FREE: Final = Answer()


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    protect_operations: list[str] | None = None
    ignored_pod_selector: dict[str, Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    desired_available: int = 0
    unavailable_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None
    unavailable_pods: dict[str, Any] | None = None


class _Budget(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Budget).decode


def project_budget(raw: bytes | msgspec.Raw) -> BudgetView:
    """The view of a budget's JSON text (v1beta1). Raises msgspec.DecodeError for what is none."""
    budget = _decode(raw)
    meta, spec, status = budget.metadata, budget.spec or _Spec(), budget.status or _Status()
    annotated = (meta.annotations or {}).get(keys.PROTECT_OPERATIONS_ANNOTATION, "")
    ignored, problem = _ignored(spec.ignored_pod_selector)
    listed = spec.protect_operations or [part.strip() for part in annotated.split(",") if part.strip()]
    return BudgetView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        operations=frozenset(listed),
        ignored=ignored,
        ignored_problem=problem,
        desired_available=status.desired_available,
        unavailable_allowed=status.unavailable_allowed,
        unconfirmed=frozenset({*(status.disrupted_pods or ()), *(status.unavailable_pods or ())}),
    )


def _ignored(given: Mapping[str, Any] | None) -> tuple[Selector | None, str]:
    """The selector, or why it cannot be read."""
    try:
        return (selector_from(given) if given is not None else None), ""
    except SelectorError as error:
        return None, str(error)


def budget_name_of(pod: PodView) -> str:
    """Name of the budget that protects the pod; empty: none does."""
    found = pod.annotations.get(keys.RELATED_PUB_ANNOTATION)
    return found or pod.annotations.get(keys.LEGACY_RELATED_PUB_ANNOTATION, "")


def ask(
    budget: BudgetView | None,
    pod: PodView,
    operation: Operation,
    *,
    spent: int,
    now: Instant,
    settings: Settings,
) -> Answer:
    """Whether the pod may be taken out of service. `spent`: what this plan has taken from the budget already.

    A pod that does not serve, or whose update is still under way, costs nothing; neither does one that the
    budget has let go before. A selector that cannot be read refuses rather than to guess.
    """
    if budget is None or pod.annotations.get(keys.NO_PROTECT_ANNOTATION) in _TRUE:
        return FREE
    if not _is_ready(pod) or not _is_consistent(pod, now=now, settings=settings):
        return FREE
    if budget.ignored_problem:
        problem = f"spec.ignoredPodSelector: {budget.ignored_problem}"
        return Answer(refusal=f"PodUnavailableBudget {budget.name}: {problem}")
    if budget.ignored is not None and budget.ignored.matches(pod.labels):
        return FREE
    if budget.desired_available == 0 or operation not in (budget.operations or _PROTECTED_BY_DEFAULT):
        return FREE
    if pod.name in budget.unconfirmed:
        return FREE
    if budget.unavailable_allowed - spent <= 0:
        return Answer(refusal=f"PodUnavailableBudget {budget.name} allows no more unavailable pods")
    if len(budget.unconfirmed) + spent > MOST_UNCONFIRMED:
        return Answer(refusal=f"PodUnavailableBudget {budget.name} has too many pods to confirm")
    return Answer(spends=True)


def spend_patch(budget: BudgetView, pods: Iterable[PodView], *, now: Instant) -> Document:
    """Merge patch of the budget's status for updates of these pods; needs its resourceVersion as precondition."""
    names = sorted(pod.name for pod in pods)
    return {
        "status": {
            "unavailableAllowed": budget.unavailable_allowed - len(names),
            "unavailablePods": dict.fromkeys(names, format_time(now)),
        }
    }


def _is_ready(pod: PodView) -> bool:
    return (
        pod.phase == "Running"
        and pod.has_ready_condition
        and not pod.is_deleting
        and not any(label.startswith(_UNAVAILABLE_LABEL) for label in pod.labels)
    )


def _is_consistent(pod: PodView, *, now: Instant, settings: Settings) -> bool:
    """Whether the pod runs what its spec says: by digest where images have one, else by its last update in place."""
    digests = {one.name: image_name(one.image).digest for one in pod.containers}
    ids = {one.name: one.image_id for one in pod.container_statuses}
    named: Sequence[tuple[str, str]] = [(name, digest) for name, digest in digests.items() if digest]
    if any(not ids.get(name, "").endswith(digest) for name, digest in named):
        return False
    if digests and len(named) == len(digests):
        return True
    return pod_verdict(pod, now=now, settings=settings).is_complete
