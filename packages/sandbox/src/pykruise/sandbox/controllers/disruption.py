"""PodDisruptionBudgets: how many of their pods may go.

PodDisruptionBudget + the pods it selects + the sizes of their owners ──▶ budget_status() ──▶ PATCH status

Evictions read the status, and the API server enforces it. Rules: Kubernetes' disruption controller. The size
of an owner is its `spec.replicas` (of a ReplicaSet's Deployment, if it has one), for other kinds that of the
scale subresource.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from pykruise.kube.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.int_or_percent import Rounding, is_percent, resolve
from pykruise.kube.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REPLICA_SETS, STATEFUL_SETS
from pykruise.kube.selectors import selector_from
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.inventory import discover
from pykruise.sandbox.pod_view import OwnerRef, PodView, instant_of

__all__ = ["Budgets", "budget_status"]

_GIVEN_UP_S: Final = 120.0
"""An eviction that was allowed and did not delete its pod within this time does not count any more."""


def budget_status(
    budget: DocumentView, pods: Sequence[PodView], *, expected: int, now: Instant
) -> tuple[Document, float | None]:
    """The status, and in how many seconds an allowed eviction is given up. `expected`: pods of all owners."""
    spec = budget.spec
    if spec.get("maxUnavailable") is not None:
        limit = resolve(spec["maxUnavailable"], of=expected, rounding=Rounding.UP)
        desired = max(0, expected - limit)
    else:
        least = spec.get("minAvailable", 1)
        expected = expected if is_percent(least) else len(pods)
        desired = resolve(least, of=expected, rounding=Rounding.UP)
    waiting, next_s = _waiting(budget, pods, now)
    healthy = sum(_is_ready(pod) and not pod.is_deleting and pod.name not in waiting for pod in pods)
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
    status["conditions"] = _conditions(budget, allowed > 0, now)
    return status, next_s


def _waiting(
    budget: DocumentView, pods: Sequence[PodView], now: Instant
) -> tuple[dict[str, str], float | None]:
    """Evictions allowed whose pods are not being deleted yet."""
    alive = {pod.name for pod in pods if not pod.is_deleting}
    left: dict[str, str] = {}
    due: list[float] = []
    for name, at in (budget.status.get("disruptedPods") or {}).items():
        seconds = instant_of(at, default=now) + _GIVEN_UP_S - now
        if name in alive and seconds > 0:
            left[name] = at
            due.append(seconds)
    return left, min(due, default=None)


def _is_ready(pod: PodView) -> bool:
    ready = pod.status.condition("Ready")
    return ready is not None and ready.status == "True"


def _conditions(budget: DocumentView, is_allowed: bool, now: Instant) -> list[Document]:
    known = [dict(one) for one in budget.status.get("conditions") or ()]
    wanted = ("True", "SufficientPods") if is_allowed else ("False", "InsufficientPods")
    there = next((one for one in known if one["type"] == "DisruptionAllowed"), None)
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
    return [*(one for one in known if one is not there), made]


class Budgets(Loop):
    """Keeps the status of every PodDisruptionBudget."""

    name = "disruption"
    component = "controllermanager"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(POD_DISRUPTION_BUDGETS)
        self._sizes = {
            resource.kind: shared.cache(resource) for resource in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)
        }
        shared.pods.subscribe(self._on_pod)
        for sizes in self._sizes.values():
            sizes.subscribe(self._on_owner)

    def _on_pod(self, change: Change[PodView]) -> None:
        for budget in self.cache.by_index("namespace", change.key.namespace):
            selector = selector_from(budget.spec.get("selector"))
            if any(pod is not None and selector.matches(pod.labels) for pod in (change.old, change.new)):
                self.queue.add(budget.key)

    def _on_owner(self, change: Change[DocumentView]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.spec.get("replicas") != new.spec.get("replicas"):
            for budget in self.cache.by_index("namespace", change.key.namespace):
                self.queue.add(budget.key)

    async def sync(self, key: Key) -> float | None:
        budget = self.cache.get(key)
        if budget is None or budget.is_deleting:
            return None
        selector = selector_from(budget.spec.get("selector"))
        pods = [
            pod
            for pod in self.shared.pods.by_index("namespace", key.namespace)
            if selector.matches(pod.labels) and not pod.is_over
        ]
        expected = await self._expected(key.namespace, pods)
        status, next_s = budget_status(budget, pods, expected=expected, now=self.clock())
        # What an eviction has taken meanwhile must not be given back: only if nobody wrote in between.
        with suppress(NotFoundError):
            await self.shared.patch_status(POD_DISRUPTION_BUDGETS, budget, status, guarded=True)
        return next_s

    # ── sizes ────────────────────────────────────────────────────────────────

    async def _expected(self, namespace: str, pods: Iterable[PodView]) -> int:
        owners = {owner.uid: owner for pod in pods for owner in pod.owners if owner.controller and owner.uid}
        tops: dict[str, int] = {}
        for owner in owners.values():
            uid, size = await self._size(namespace, owner)
            tops[uid] = size
        return sum(tops.values())

    async def _size(self, namespace: str, owner: OwnerRef) -> tuple[str, int]:
        """The uid and the size of whoever decides how many pods there are."""
        sizes = self._sizes.get(owner.kind) if owner.api_version.startswith("apps/") else None
        if sizes is None:
            return owner.uid, await self._scale_of(namespace, owner)
        found = sizes.get(Key(namespace, owner.name))
        if found is None or found.uid != owner.uid:
            return owner.uid, 0
        if owner.kind == REPLICA_SETS.kind and found.owner_uid:
            for deployment in self._sizes[DEPLOYMENTS.kind].by_index("uid", found.owner_uid):
                return deployment.uid, deployment.count("spec", "replicas", default=1)
        return found.uid, found.count("spec", "replicas", default=1)

    async def _scale_of(self, namespace: str, owner: OwnerRef) -> int:
        inventory = await discover(self.shared.client)
        resource = inventory.find(api_version=owner.api_version, kind=owner.kind)
        if resource is None:
            return 0
        try:
            scale = decode(await self.shared.client.get(resource, namespace, owner.name, subresource="scale"))
        except ApiError:
            return 0  # a kind without a scale: its pods count for nothing, as in Kubernetes
        return int(get_path(scale, "spec", "replicas", default=0))
