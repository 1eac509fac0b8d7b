"""Reading the objects around one WorkloadSpread once: its workload, the pods with their nodes, events.

Client ──get, list──▶ look_at() ──the kind's snapshot()──▶ SpreadSight, with the snapshot that the manager would
                                                            plan from

This module only reads.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from pykruise.cli.insight.cluster_reading import look_at as look_at_document
from pykruise.cli.insight.webhooks import has_pod_reviews, read_events_about
from pykruise.kinds.workloadspread.kind import KIND
from pykruise.kinds.workloadspread.readers import TargetReader
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.snapshot_reads import SpreadGatherError
from pykruise.kinds.workloadspread.targets import BUILT_IN
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS, SpreadView
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.workload.allowed_workloads import WhiteListError


class SpreadSight(msgspec.Struct, frozen=True, kw_only=True):
    """One WorkloadSpread as it is now, or as it would be after a change."""

    document: Document
    view: SpreadView
    snapshot: SpreadSnapshot
    """Snapshot as the manager builds it; without pods when they could not be read (`problem` names the reason)."""
    problem: str = ""
    target: Document | None = None
    """The workload; None if the workload does not exist or cannot be read."""
    pods: Mapping[str, Document] = {}
    """All pods of the WorkloadSpread's namespace, by name."""
    nodes: Mapping[str, NodeView] = {}
    """All nodes of the cluster by name; empty when the user may not read them."""
    events: Sequence[Document] = ()
    """Events about the WorkloadSpread, oldest first; empty also when the user may not read them."""
    refused: Mapping[str, str] = {}
    """Messages with which the API server rejects patched pods, by the field of the patch."""
    are_reviewed: bool | None = None
    """Whether API servers send new pods to webhooks; None if the user may not read the configuration."""


async def look_at(
    client: Client, key: Key, *, now: Instant, settings: ManagerSettings | None = None
) -> SpreadSight:
    """Read one WorkloadSpread. Raises NotFoundError when it does not exist, and the error of a read that is denied."""
    document = decode(await client.get(WORKLOAD_SPREADS, key.namespace, key.name))
    return await sight_of(client, document, now=now, settings=settings)


async def sight_of(
    client: Client, document: Document, *, now: Instant, settings: ManagerSettings | None = None
) -> SpreadSight:
    """Build the SpreadSight of a document, which need not be stored, with the objects around it."""
    settings = settings or ManagerSettings()
    view = SPREAD_VIEWS.project(encode(document))
    reader = TargetReader(lambda: client, namespace=settings.own_namespace)
    nodes: Mapping[str, NodeView] = {}
    snapshot, problem = SpreadSnapshot(spread=view, now=now), await _explain_unsupported(reader, view)
    if not problem and view.target is not None:
        try:
            sight = await look_at_document(client, KIND, document, now=now, settings=settings)
            snapshot, nodes = sight.snapshot, sight.nodes
        except SpreadGatherError as error:
            problem = str(error)
    pods, target, events, are_reviewed = await asyncio.gather(
        client.list(PODS, view.namespace),
        reader.read_target(view),
        read_events_about(client, view.namespace, view.uid),
        has_pod_reviews(client),
    )
    return SpreadSight(
        document=document,
        view=view,
        snapshot=snapshot,
        problem=problem,
        target=target,
        pods={doc["metadata"]["name"]: doc for doc in map(decode, pods.items)},
        nodes=nodes,
        events=events,
        are_reviewed=are_reviewed,
    )


async def _explain_unsupported(reader: TargetReader, view: SpreadView) -> str:
    """Return why the manager ignores a target of a kind that is not built in; empty if the kind is supported."""
    if view.target is None or view.target[0] in BUILT_IN:
        return ""
    kind = view.target[0]
    try:
        listed = await reader.read_white_list()
    except (WhiteListError, KubeError) as error:
        return f"the white list of kinds cannot be read: {error}"
    return "" if listed.find(kind) else f"{kind.kind} ({kind.group}) is not on the white list of kinds"
