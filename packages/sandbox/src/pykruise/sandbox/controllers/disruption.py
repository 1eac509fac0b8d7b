"""PodDisruptionBudgets: how many of their pods may be evicted.

PodDisruptionBudget + the pods it selects + the sizes of their owners ──▶ compute_budget_status() ──▶ its status

The API server enforces the status when it handles evictions. Same rules as Kubernetes' disruption controller. The
size of a StatefulSet, a ReplicaSet or a Deployment is its `spec.replicas`; a ReplicaSet of a Deployment has the size of
the Deployment. The size of an owner of another kind is read from its scale subresource. One rule differs: an owner
without a size counts as 0 pods; Kubernetes allows no disruption while a pod has such an owner.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError
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
    status["conditions"] = _build_conditions(budget, allowed > 0, now)
    return status, next_s


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


def _build_conditions(budget: DocumentView, is_allowed: bool, now: Instant) -> list[Document]:
    known = [dict(condition) for condition in budget.status.get("conditions") or ()]
    wanted = ("True", "SufficientPods") if is_allowed else ("False", "InsufficientPods")
    there = next((entry for entry in known if entry["type"] == "DisruptionAllowed"), None)
    if there is not None and (there["status"], there["reason"]) == wanted:
        return known
    made = {
        "type": "DisruptionAllowed",
        "status": wanted[0],
        "reason": wanted[1],
        "message": "",
        "observedGeneration": budget.generation,
        "lastTransitionTime": format_time(now),
    }
    return [*(entry for entry in known if entry is not there), made]


# ── sizes ────────────────────────────────────────────────────────────────────

BUDGET_VIEWS: Final = make_document_views(POD_DISRUPTION_BUDGETS)
_SIZED: Final = {
    resource.kind: make_document_views(resource) for resource in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)
}


async def _count_expected_pods(read: Read[Any], namespace: str, pods: Iterable[SandboxPodView]) -> int:
    """Sum of the pods that the owners want."""
    owners = {owner.uid: owner for pod in pods if (owner := pod.controller) is not None and owner.uid}
    tops: dict[str, int] = {}
    for owner in owners.values():
        uid, size = await _read_owner_size(read, namespace, owner)
        tops[uid] = size
    return sum(tops.values())


async def _read_owner_size(read: Read[Any], namespace: str, owner: OwnerRef) -> tuple[str, int]:
    """Return uid and size of the topmost owner, which decides the number of pods."""
    views = _SIZED.get(owner.kind) if owner.group == "apps" else None
    if views is None:
        return owner.uid, await _read_scale(read, namespace, owner)
    document = read.get(views, Key(namespace, owner.name))
    if document is None or document.uid != owner.uid:
        return owner.uid, 0
    if owner.kind == REPLICA_SETS.kind and (top := document.controller) is not None:
        deployment = read.get(_SIZED[DEPLOYMENTS.kind], Key(namespace, top.name))
        if deployment is not None and deployment.uid == top.uid:
            return deployment.uid, deployment.count("spec", "replicas", default=1)
    return document.uid, document.count("spec", "replicas", default=1)


async def _read_scale(read: Read[Any], namespace: str, owner: OwnerRef) -> int:
    inventory = await discover(read.live)
    resource = inventory.find(api_version=owner.api_version, kind=owner.kind)
    if resource is None:
        return 0
    try:
        scale = decode(await read.live.get(resource, namespace, owner.name, subresource="scale"))
    except ApiError:
        return 0  # an owner whose kind has no scale counts as 0 pods; Kubernetes then allows no disruption at all
    return int(get_path(scale, "spec", "replicas", default=0))


# ── control ──────────────────────────────────────────────────────────────────


class DisruptionBudgetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one budget needs."""

    budget: DocumentView
    pods: Sequence[SandboxPodView]
    """Selected pods that have not ended."""
    expected: int
    """Number of pods that the owners of the selected pods want."""
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
    expected = await _count_expected_pods(read, budget.namespace, pods)
    return DisruptionBudgetSnapshot(budget=budget, pods=pods, expected=expected, now=read.now())


def plan_budget(snapshot: DisruptionBudgetSnapshot) -> Plan:
    """Write the status."""
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
