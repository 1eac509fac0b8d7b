"""PodDisruptionBudgets: how many of their pods may be evicted.

PodDisruptionBudget + the pods it selects + the sizes of their owners ──▶ compute_budget_status() ──▶ its status

The API server enforces the status when it handles evictions. Same rules as Kubernetes' disruption controller. The
size of a StatefulSet, a ReplicaSet or a Deployment is its `spec.replicas`; a ReplicaSet of a Deployment has the size of
the Deployment. The size of an owner of another kind is read from its scale subresource. If an owner has no size, a
budget that needs it allows no disruption, and its condition and an event give the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REPLICA_SETS, STATEFUL_SETS
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve
from pykruise.kube.values.selectors import parse_selector
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Around, Read
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, wake_itself
from pykruise.sandbox.controllers.pods import POD_VIEWS, make_document_views
from pykruise.sandbox.controllers.steps import make_warning_note
from pykruise.sandbox.inventory import discover
from pykruise.sandbox.pod_view import OwnerRef, SandboxPodView, instant_of

_GIVEN_UP_S: Final = 120.0
"""Seconds after which an allowed eviction that has not deleted its pod is no longer counted."""


def compute_budget_status(
    budget: DocumentView, pods: Sequence[SandboxPodView], *, expected: int, now: Instant
) -> tuple[Document, float | None]:
    """Return the status, and the seconds until the first allowed eviction expires (None if there is none).

    `expected`: number of pods that all owners want.
    """
    spec = budget.spec
    if spec.get("maxUnavailable") is not None:
        limit = resolve(spec["maxUnavailable"], of=expected, rounding=Rounding.UP)
        desired = max(0, expected - limit)
    else:
        least = spec.get("minAvailable", 1)
        expected = expected if is_percent(least) else len(pods)
        desired = resolve(least, of=expected, rounding=Rounding.UP)
    waiting, next_s = _list_pending_evictions(budget, pods, now)
    healthy = sum(pod.is_ready and not pod.is_deleting and pod.name not in waiting for pod in pods)
    allowed = max(0, healthy - desired) if expected else 0
    status: Document = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": budget.generation,
    }
    if waiting:
        status["disruptedPods"] = waiting
    wanted = ("True", "SufficientPods", "") if allowed > 0 else ("False", "InsufficientPods", "")
    status["conditions"] = _build_conditions(budget, wanted, now, observed=budget.generation)
    return status, next_s


def build_failed_status(budget: DocumentView, reason: str, now: Instant) -> Document:
    """Return the status of a budget whose numbers cannot be computed: it allows nothing, and keeps its other numbers.
    Its observedGeneration also stays, so that API servers do not trust the numbers.
    """
    observed = budget.status.get("observedGeneration") or 0
    return {
        **budget.status,
        "disruptionsAllowed": 0,
        "conditions": _build_conditions(budget, ("False", "SyncFailed", reason), now, observed=observed),
    }


def needs_sizes(budget: DocumentView) -> bool:
    """Whether the sizes of the pods' owners determine how many pods the budget needs."""
    return budget.spec.get("maxUnavailable") is not None or is_percent(budget.spec.get("minAvailable", 1))


def _list_pending_evictions(
    budget: DocumentView, pods: Sequence[SandboxPodView], now: Instant
) -> tuple[dict[str, str], float | None]:
    """Allowed evictions whose pods are not being deleted yet, and the seconds until the first of them expires."""
    alive = {pod.name for pod in pods if not pod.is_deleting}
    left: dict[str, str] = {}
    due: list[float] = []
    for name, at in (budget.status.get("disruptedPods") or {}).items():
        seconds = instant_of(at, default=now) + _GIVEN_UP_S - now
        if name in alive and seconds > 0:
            left[name] = at
            due.append(seconds)
    return left, min(due, default=None)


def _build_conditions(
    budget: DocumentView, wanted: tuple[str, str, str], now: Instant, *, observed: int
) -> list[Document]:
    """The conditions, with the `wanted` status, reason and message of DisruptionAllowed."""
    known = [dict(condition) for condition in budget.status.get("conditions") or ()]
    there = next((entry for entry in known if entry["type"] == "DisruptionAllowed"), None)
    if there is not None and (there["status"], there["reason"], there.get("message") or "") == wanted:
        return known
    made: Document = {
        "type": "DisruptionAllowed",
        "status": wanted[0],
        "reason": wanted[1],
        "message": wanted[2],
    }
    if observed:
        made["observedGeneration"] = observed
    made["lastTransitionTime"] = format_time(now)
    return [*(entry for entry in known if entry is not there), made]


# ── sizes ────────────────────────────────────────────────────────────────────

BUDGET_VIEWS: Final = make_document_views(POD_DISRUPTION_BUDGETS)
_SIZED: Final = {
    resource.kind: make_document_views(resource) for resource in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)
}


async def _count_expected_pods(
    read: Read[Any], namespace: str, pods: Iterable[SandboxPodView]
) -> tuple[int, str]:
    """Sum of the pods that the owners want, or why it is not known."""
    owners = {owner.uid: (owner, pod) for pod in pods if (owner := pod.controller) is not None and owner.uid}
    tops: dict[str, int] = {}
    for owner, pod in owners.values():
        try:
            top = await _read_owner_size(read, namespace, owner)
        except _UnknownSizeError as error:
            return 0, str(error)
        if top is None:
            return 0, f'found no controllers for pod "{pod.name}"'
        uid, size = top
        tops[uid] = size
    return sum(tops.values()), ""


class _UnknownSizeError(Exception):
    """The size of an owner cannot be read; the message says why."""


async def _read_owner_size(read: Read[Any], namespace: str, owner: OwnerRef) -> tuple[str, int] | None:
    """Return uid and size of the topmost owner, which decides the number of pods. None: the owner does not exist.
    Raises _UnknownSizeError.
    """
    views = _SIZED.get(owner.kind) if owner.group == "apps" else None
    if views is None:
        size = await _read_scale(read, namespace, owner)
        return None if size is None else (owner.uid, size)
    document = read.get(views, Key(namespace, owner.name))
    if document is None or document.uid != owner.uid:
        return None
    if owner.kind == REPLICA_SETS.kind and (top := document.controller) is not None:
        deployment = read.get(_SIZED[DEPLOYMENTS.kind], Key(namespace, top.name))
        if deployment is not None and deployment.uid == top.uid:
            return deployment.uid, deployment.count("spec", "replicas", default=1)
    return document.uid, document.count("spec", "replicas", default=1)


async def _read_scale(read: Read[Any], namespace: str, owner: OwnerRef) -> int | None:
    """Return the size of an owner of any kind. None: the owner does not exist. Raises _UnknownSizeError."""
    inventory = await discover(read.live)
    resource = inventory.find(api_version=owner.api_version, kind=owner.kind)
    if resource is None:
        raise _UnknownSizeError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
    try:
        scale = decode(await read.live.get(resource, namespace, owner.name, subresource="scale"))
    except NotFoundError as error:
        if resource not in inventory.scaled:
            raise _UnknownSizeError(f"{resource} does not implement the scale subresource") from error
        return None
    except ApiError as error:
        raise _UnknownSizeError(str(error)) from error
    if get_path(scale, "metadata", "uid", default="") != owner.uid:
        return None
    return int(get_path(scale, "spec", "replicas", default=0))


# ── control ──────────────────────────────────────────────────────────────────


class DisruptionBudgetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one budget needs."""

    budget: DocumentView
    pods: Sequence[SandboxPodView]
    """Selected pods that have not ended."""
    expected: int
    """Number of pods that the owners of the selected pods want; 0 if the budget does not need it."""
    unknown: str = ""
    """Why this number cannot be read; empty: it is known, or not needed."""
    now: Instant


async def read_snapshot(budget: DocumentView, read: Read[Any]) -> DisruptionBudgetSnapshot | None:
    """Read a snapshot. Sizes of kinds without a cache are read from the API server."""
    if budget.is_deleting:
        return None
    selector = parse_selector(budget.spec.get("selector"))
    pods = [
        pod
        for pod in read.list_by_index(POD_VIEWS, BY_NAMESPACE, budget.namespace)
        if selector.matches(pod.labels) and not pod.is_over
    ]
    expected, unknown = 0, ""
    if needs_sizes(budget):
        expected, unknown = await _count_expected_pods(read, budget.namespace, pods)
    return DisruptionBudgetSnapshot(
        budget=budget, pods=pods, expected=expected, unknown=unknown, now=read.now()
    )


def plan_budget(snapshot: DisruptionBudgetSnapshot) -> Plan:
    """Write the status."""
    if snapshot.unknown:
        status = build_failed_status(snapshot.budget, snapshot.unknown, snapshot.now)
        text = f"Failed to calculate the number of expected pods: {snapshot.unknown}"
        note = make_warning_note("CalculateExpectedPodCountFailed", text)
        return Plan(status=status, notes=() if status == snapshot.budget.status else (note,))
    status, next_s = compute_budget_status(
        snapshot.budget, snapshot.pods, expected=snapshot.expected, now=snapshot.now
    )
    return Plan(status=status, requeue_after_s=next_s)


def _enqueue_budgets_of_pod(change: Change[SandboxPodView], around: Around[Any]) -> Iterator[Key]:
    for budget in around.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, change.key.namespace):
        selector = parse_selector(budget.spec.get("selector"))
        if any(pod is not None and selector.matches(pod.labels) for pod in (change.old, change.new)):
            yield budget.key


def _enqueue_budgets_of_resized(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.spec.get("replicas") != new.spec.get("replicas"):
        for budget in around.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, change.key.namespace):
            yield budget.key


WORK: Final = Work(
    resource=POD_DISRUPTION_BUDGETS,
    control=Control(
        name="disruption",
        component="controllermanager",
        objects=BUDGET_VIEWS,
        reads=lambda _: (POD_VIEWS, *_SIZED.values()),
        wakes=lambda _: (
            wake_itself(BUDGET_VIEWS),
            Wake(on=POD_VIEWS, keys=_enqueue_budgets_of_pod),
            *(Wake(on=views, keys=_enqueue_budgets_of_resized) for views in _SIZED.values()),
        ),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.budget,
        plan=plan_budget,
        # The API server also writes this status: each eviction that it allows lowers disruptionsAllowed. The controller
        # must not overwrite this with an older number.
        is_status_shared=True,
    ),
)
