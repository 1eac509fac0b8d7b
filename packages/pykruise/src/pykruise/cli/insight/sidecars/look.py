"""Reading the objects around one SidecarSet once: selected pods, other SidecarSets, revisions, namespaces.

Client ──get, list──▶ look_at() ──the kind's snapshot()──▶ SidecarSight, with the snapshot that the manager would
                                                            plan from

This module only reads.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import look_at as look_at_document
from pykruise.cli.insight.sidecars.refused_workloads import RefusedWorkload, find_refused_workloads
from pykruise.cli.insight.webhooks import has_pod_reviews, read_events_about
from pykruise.kinds.sidecarset.kind import KIND
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS, SidecarSetSnapshot
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, encode
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.views import NAMESPACE_VIEWS, POD_VIEWS, REVISION_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.listed_objects import Only
from pykruise.runtime.views import Views

EVENTS_IN = "default"
"""Namespace of events about objects without a namespace."""


_NONE: Final = "a,!a"
"""A label selector that matches nothing."""


class SidecarSight(msgspec.Struct, frozen=True, kw_only=True):
    """One SidecarSet as it is now, or as it would be after a change."""

    document: Document
    snapshot: SidecarSetSnapshot
    pods: Mapping[str, Document]
    """Active pods that the SidecarSet selects, in all namespaces, by `namespace/name`."""
    views: Mapping[str, PodView]
    """The same pods as managers see them."""
    sets: Sequence[SidecarSetView] = ()
    """All SidecarSets, including this one."""
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Labels of namespaces, by name."""
    revisions: Sequence[RevisionView] = ()
    """Stored revisions whose label names the SidecarSet."""
    events: Sequence[Document] = ()
    """Events about the SidecarSet, oldest first; empty also when the user may not read them."""
    are_reviewed: bool | None = None
    """Whether API servers send new pods to webhooks; None if the user may not read the configuration."""
    refused: Sequence[RefusedWorkload] = ()
    """Workloads whose pods it would select, if the API server did not reject them; read only if it selects no pod."""
    own_namespace: str = ""
    """Namespace of the manager: webhooks do not review pods in it."""

    @property
    def view(self) -> SidecarSetView:
        """The SidecarSet itself."""
        return self.snapshot.sidecarset

    @property
    def managed(self) -> Sequence[ManagedPod]:
        """Pods that have sidecars of the SidecarSet."""
        return self.snapshot.pods

    def selects_namespace(self, name: str) -> bool:
        """Whether the SidecarSet selects pods of this namespace."""
        return self.view.selects_namespace(name, self.namespaces.get(name))


async def look_at(
    client: Client, name: str, *, now: Instant, settings: ManagerSettings | None = None
) -> SidecarSight:
    """Read one SidecarSet. Raises NotFoundError when it does not exist, and the error of a read that is denied."""
    document = decode(await client.get(SIDECAR_SETS, "", name))
    return await sight_of(client, document, now=now, settings=settings)


async def sight_of(
    client: Client, document: Document, *, now: Instant, settings: ManagerSettings | None = None
) -> SidecarSight:
    """Build the SidecarSight of a document, which need not be stored, with the objects around it."""
    settings = settings or ManagerSettings()
    view = project_sidecarset(encode(document))
    # Only pods that the selector matches are read, because large clusters have many others.
    selector = str(view.selector) if view.selector is not None else _NONE
    only: dict[Views[Any], Only] = {
        POD_VIEWS: Only(label_selector=selector),
        REVISION_VIEWS: Only(
            namespace=settings.revision_namespace, label_selector=f"{SET_LABEL}={view.name}"
        ),
    }
    sight, events, are_reviewed = await asyncio.gather(
        look_at_document(client, KIND, document, now=now, settings=settings, only=only),
        read_events_about(client, EVENTS_IN, view.uid),
        has_pod_reviews(client),
    )
    pods = sight.listed[POD_VIEWS]
    active = {f"{pod.namespace}/{pod.name}": pod for pod in pods.values() if pod.is_active}
    documents = {
        f"{doc['metadata']['namespace']}/{doc['metadata']['name']}": doc for doc in pods.list_documents()
    }
    namespaces = {item.name: item.labels for item in sight.listed[NAMESPACE_VIEWS].values()}
    refused = (
        ()
        if active
        else await find_refused_workloads(
            client, view, lambda name: view.selects_namespace(name, namespaces.get(name))
        )
    )
    return SidecarSight(
        document=document,
        snapshot=sight.snapshot,
        pods={label: documents[label] for label in active},
        views=active,
        sets=sight.listed[SIDECAR_SET_VIEWS].values(),
        namespaces=namespaces,
        refused=refused,
        revisions=sight.listed[REVISION_VIEWS].values(),
        events=events,
        are_reviewed=are_reviewed,
        own_namespace=settings.own_namespace,
    )
