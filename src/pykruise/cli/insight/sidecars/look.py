"""Reading what belongs to one SidecarSet, once: the pods it selects, the other SidecarSets, revisions, namespaces.

Client ──get, list──▶ look_at() ──▶ SidecarSight ──the kind's build_snapshot()──▶ the snapshot that its manager
                                                                                   would plan from

Reads only.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from pykruise.cli.insight.webhooks import events_about, reviews_pods
from pykruise.kinds.sidecarset.managed import ManagedPod
from pykruise.kinds.sidecarset.readers import project_namespace
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.snapshot import Settings as SidecarSetSettings
from pykruise.kinds.sidecarset.snapshot import Snapshot, build_snapshot
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.resources import CONTROLLER_REVISIONS, NAMESPACES, PODS
from pykruise.manager.settings import Settings
from pykruise.pods.revisions import RevisionView, project_revision
from pykruise.pods.views import PodProjector, PodView

__all__ = ["EVENTS_IN", "SidecarSight", "look_at", "sight_of"]

EVENTS_IN = "default"
"""Where events about objects without a namespace are."""


class SidecarSight(msgspec.Struct, frozen=True, kw_only=True):
    """One SidecarSet as it is now, or would be."""

    document: Document
    snapshot: Snapshot
    pods: Mapping[str, Document]
    """Active pods that its selector means, in whichever namespace, by `namespace/name`."""
    views: Mapping[str, PodView]
    """The same, as managers see them."""
    sets: Sequence[SidecarSetView] = ()
    """All SidecarSets, this one too."""
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Labels of namespaces, by name."""
    revisions: Sequence[RevisionView] = ()
    """Stored ones that carry its name."""
    events: Sequence[Document] = ()
    """About it, oldest first; empty also when they may not be read."""
    are_reviewed: bool | None = None
    """Whether API servers show new pods to webhooks; None: that may not be read."""
    own_namespace: str = ""
    """Of the manager: its pods are not shown to webhooks."""

    @property
    def view(self) -> SidecarSetView:
        """The SidecarSet itself."""
        return self.snapshot.sidecarset

    @property
    def managed(self) -> Sequence[ManagedPod]:
        """Pods that have its sidecars."""
        return self.snapshot.pods

    def selects_namespace(self, name: str) -> bool:
        """Whether its pods of this namespace are meant."""
        return self.view.selects_namespace(name, self.namespaces.get(name))


async def look_at(
    client: Client, name: str, *, now: Instant, settings: Settings | None = None
) -> SidecarSight:
    """Read it. Raises NotFoundError when it is not there, and the error of what may not be read."""
    return await sight_of(
        client, decode(await client.get(SIDECAR_SETS, "", name)), now=now, settings=settings
    )


async def sight_of(
    client: Client, document: Document, *, now: Instant, settings: Settings | None = None
) -> SidecarSight:
    """The same of a document that may not be stored, with what is there around it."""
    settings = settings or Settings()
    view = project_sidecarset(encode(document))
    pods, sets, namespaces, revisions, events, are_reviewed = await asyncio.gather(
        _pods(client, view),
        client.list(SIDECAR_SETS),
        client.list(NAMESPACES),
        client.list(
            CONTROLLER_REVISIONS,
            settings.revision_namespace,
            label_selector=f"{SET_LABEL}={view.name}",
        ),
        events_about(client, EVENTS_IN, view.uid),
        reviews_pods(client),
    )
    labels = {one.name: one.labels for one in map(project_namespace, namespaces.items)}
    views = {label: one for label, (_, one) in pods.items()}
    stored = [project_revision(one) for one in revisions.items]
    return SidecarSight(
        document=document,
        snapshot=build_snapshot(
            view,
            pods=list(views.values()),
            namespaces=labels,
            revisions=stored,
            now=now,
            settings=SidecarSetSettings(namespace=settings.revision_namespace),
        ),
        pods={label: doc for label, (doc, _) in pods.items()},
        views=views,
        sets=[project_sidecarset(one) for one in sets.items],
        namespaces=labels,
        revisions=stored,
        events=events,
        are_reviewed=are_reviewed,
        own_namespace=settings.own_namespace,
    )


async def _pods(client: Client, view: SidecarSetView) -> dict[str, tuple[Document, PodView]]:
    if view.selector is None:
        return {}
    project = PodProjector()
    listed = await client.list(PODS, label_selector=str(view.selector))
    found = [(decode(raw), project(bytes(raw))) for raw in listed.items]
    return {f"{one.namespace}/{one.name}": (doc, one) for doc, one in found if one.is_active}
