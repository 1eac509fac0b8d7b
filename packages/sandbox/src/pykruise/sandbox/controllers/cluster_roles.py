"""ClusterRoles that are made of others: `view` has the rules of all that are labelled for it.

ClusterRole with an aggregationRule + all ClusterRoles ──▶ aggregated() ──▶ PATCH of its rules

Rule: Kubernetes' clusterrole-aggregation controller.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.kube.cache import Change
from pykruise.kube.documents import Document
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CLUSTER_ROLES
from pykruise.kube.selectors import selector_from
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.base import Loop, Shared

__all__ = ["AggregatedRoles", "aggregated"]


class AggregatedRoles(Loop):
    """Keeps the rules of aggregated ClusterRoles."""

    name = "clusterrole-aggregation"
    component = "clusterrole-aggregation-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(CLUSTER_ROLES)
        self.cache.subscribe(self._on_role)

    def _on_role(self, change: Change[DocumentView]) -> None:
        """Any role may be a part of any other."""
        for role in self.cache.values():
            if "aggregationRule" in role.doc:
                self.queue.add(role.key)

    async def sync(self, key: Key) -> float | None:
        role = self.cache.get(key)
        if role is None or "aggregationRule" not in role.doc:
            return None
        rules = aggregated(role, self.cache.values())
        if rules != (role.doc.get("rules") or []):
            try:
                await self.writer.patch(CLUSTER_ROLES, role.key, {"rules": rules}, patch_type=PatchType.MERGE)
            except NotFoundError:
                return None  # gone meanwhile
        return None


def aggregated(role: DocumentView, roles: Iterable[DocumentView]) -> list[Document]:
    """The rules of all other roles that the role selects, in the order of their names, each once."""
    said: Mapping[str, Any] = role.doc["aggregationRule"]
    selectors = [selector_from(each) for each in said.get("clusterRoleSelectors") or ()]
    found: list[Document] = []
    for other in sorted(roles, key=lambda each: each.name):
        if other.name != role.name and any(selector.matches(other.labels) for selector in selectors):
            found += [rule for rule in other.doc.get("rules") or () if rule not in found]
    return found
