"""Reading one workload from a cluster, once: everything its plan needs, and what a person asks about.

Client ──get, list──▶ look() ──▶ Around ──the kind's snapshot()──▶ Sight: the document, its pods as stored,
                                                                    the snapshot, lost nodes

Reads only. The snapshot is made by the kind's own functions, so what is decided of it is what the manager decides.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.cli.insight.workloads import Around, Snapshot, Workload
from pykruise.kube.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.manager.settings import Settings
from pykruise.plans.plan import Plan
from pykruise.plans.sources import NodeView, project_node
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS, project_budget
from pykruise.pods.claims import ClaimView, project_claim
from pykruise.pods.revisions import project_revision
from pykruise.pods.views import PodProjector

__all__ = ["Sight", "look", "nodes_of", "own_pods"]


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One workload as it is now."""

    workload: Workload
    document: Document
    pods: Mapping[str, Document]
    """Its pods by name, terminating and finished ones too."""
    snapshot: Snapshot
    lost_nodes: frozenset[str] = frozenset()
    """Nodes that do not answer, or are gone."""
    claims: Sequence[ClaimView] = ()
    """Those that it controls."""
    nodes: Mapping[str, NodeView] = {}
    """All of the cluster, by name; none when they may not be read."""
    budgets: Sequence[Document] = ()
    """PodUnavailableBudgets of its namespace; none when its manager does not ask them."""

    def plan(self) -> Plan:
        """What its manager would do now."""
        return self.workload.plan(self.snapshot)


async def look(
    client: Client,
    workload: Workload,
    key: Key,
    *,
    now: Instant,
    settings: Settings | None = None,
    seed: int = 1,
) -> Sight:
    """Read it. Raises NotFoundError when it is not there, and the error of what may not be read."""
    raw = await client.get(workload.resource, key.namespace, key.name)
    document = decode(raw)
    uid = document["metadata"]["uid"]
    settings = settings or Settings()
    pods, revisions, claims, nodes, budgets = await asyncio.gather(
        client.list(PODS, key.namespace),
        client.list(CONTROLLER_REVISIONS, key.namespace),
        client.list(PERSISTENT_VOLUME_CLAIMS, key.namespace),
        _nodes(client),
        _budgets(client, key.namespace) if workload.asks_budgets(settings) else _none(),
    )
    project = PodProjector()
    views = [project(bytes(one)) for one in pods.items]
    own = own_pods(map(decode, pods.items), uid)
    around = Around(
        raw=bytes(raw),
        uid=uid,
        pods=[pod for pod in views if pod.name in own],
        others=[pod for pod in views if pod.name not in own],
        revisions=[project_revision(one) for one in revisions.items],
        claims=[project_claim(one) for one in claims.items],
        nodes=[view for view, _ in nodes.values()],
        budgets=[project_budget(one) for one in budgets],
        now=now,
        seed=seed,
        settings=settings,
    )
    return Sight(
        workload=workload,
        document=document,
        pods=own,
        snapshot=workload.snapshot(around),
        lost_nodes=_lost(own, nodes) if nodes else frozenset(),
        claims=[one for one in around.claims if one.controller_uid == uid],
        nodes={name: view for name, (view, _) in nodes.items()},
        budgets=list(map(decode, budgets)),
    )


def own_pods(documents: Any, uid: str) -> dict[str, Document]:
    """Those that the object with this uid controls, by name."""
    return {
        doc["metadata"]["name"]: doc
        for doc in documents
        if any(
            ref.get("controller") and ref.get("uid") == uid
            for ref in doc["metadata"].get("ownerReferences") or ()
        )
    }


async def nodes_of(client: Client) -> dict[str, NodeView]:
    """Every node; none when they may not be read."""
    return {name: view for name, (view, _) in (await _nodes(client)).items()}


async def _nodes(client: Client) -> dict[str, tuple[NodeView, bool]]:
    """View and readiness of every node; none when nodes may not be read."""
    try:
        listed = await client.list(NODES)
    except ForbiddenError:
        return {}
    return {(view := project_node(raw)).name: (view, _is_ready(decode(raw))) for raw in listed.items}


def _is_ready(node: Document) -> bool:
    conditions = get_path(node, "status", "conditions", default=[])
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


def _lost(pods: Mapping[str, Document], nodes: Mapping[str, tuple[NodeView, bool]]) -> frozenset[str]:
    used = {pod["spec"].get("nodeName") or "" for pod in pods.values()} - {""}
    return frozenset(name for name in used if name not in nodes or not nodes[name][1])


async def _budgets(client: Client, namespace: str) -> Sequence[msgspec.Raw]:
    """None also where nobody has defined the kind. Who may not read them gets the error: a plan that passes over
    budgets would promise too much."""
    try:
        return (await client.list(POD_UNAVAILABLE_BUDGETS, namespace)).items
    except NotFoundError:
        return ()


async def _none() -> Sequence[msgspec.Raw]:
    return ()
