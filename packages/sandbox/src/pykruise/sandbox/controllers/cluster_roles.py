"""Aggregated ClusterRoles. For example, `view` has the rules of all ClusterRoles with the label for `view`.

ClusterRole with an aggregationRule + all ClusterRoles ──▶ aggregate_rules() ──▶ PATCH of its rules

This is the rule of Kubernetes' clusterrole-aggregation controller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import CLUSTER_ROLES
from pykruise.kube.values.selectors import parse_selector
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake
from pykruise.sandbox.controllers.pods import make_document_views
from pykruise.sandbox.controllers.steps import merge_object, run_in_order

ROLE_VIEWS: Final = make_document_views(CLUSTER_ROLES)


class ClusterRoleSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one aggregated role needs."""

    role: DocumentView
    roles: Sequence[DocumentView]
    now: Instant


async def read_snapshot(role: DocumentView, read: Read[Any]) -> ClusterRoleSnapshot | None:
    """Read a snapshot from caches, without requests."""
    if "aggregationRule" not in role.doc:
        return None
    return ClusterRoleSnapshot(role=role, roles=read.list_all(ROLE_VIEWS), now=read.now())


def plan_role(snapshot: ClusterRoleSnapshot) -> Plan:
    """Write the role's rules when they differ."""
    rules = aggregate_rules(snapshot.role, snapshot.roles)
    if rules == (snapshot.role.doc.get("rules") or []):
        return Plan()
    step = merge_object(
        CLUSTER_ROLES, snapshot.role, {"rules": rules}, because="the selected roles have changed"
    )
    return Plan(stages=run_in_order("aggregate", [step]))


def aggregate_rules(role: DocumentView, roles: Iterable[DocumentView]) -> list[Document]:
    """The rules of all other roles that the role selects, in the order of their names and without duplicates."""
    said: Mapping[str, Any] = role.doc["aggregationRule"]
    selectors = [parse_selector(each) for each in said.get("clusterRoleSelectors") or ()]
    result: list[Document] = []
    for other in sorted(roles, key=lambda each: each.name):
        if other.name != role.name and any(selector.matches(other.labels) for selector in selectors):
            result += [rule for rule in other.doc.get("rules") or () if rule not in result]
    return result


def _enqueue_aggregated_roles(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue all aggregated roles, because any role may be a part of any of them."""
    return (role.key for role in around.list_all(ROLE_VIEWS) if "aggregationRule" in role.doc)


WORK: Final = Work(
    resource=CLUSTER_ROLES,
    control=Control(
        name="clusterrole-aggregation",
        component="clusterrole-aggregation-controller",
        objects=ROLE_VIEWS,
        wakes=lambda _: (Wake(on=ROLE_VIEWS, keys=_enqueue_aggregated_roles),),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.role,
        plan=plan_role,
        is_current=is_same_object,
    ),
)
