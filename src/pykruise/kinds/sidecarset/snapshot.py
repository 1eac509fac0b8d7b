"""Everything a decision about the sidecars of existing pods needs, as one value.

views from caches + now ──▶ build_snapshot() ──▶ Snapshot ──▶ plan.py

Pure. Which pods are managed is decided here, so that every later stage means the same ones.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from pykruise.kinds.sidecarset.managed import Crowd, ManagedPod
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.clock import Instant
from pykruise.pods.revisions import RevisionView, sorted_revisions
from pykruise.pods.views import PodView

__all__ = ["Settings", "Snapshot", "build_snapshot"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that change decisions about SidecarSets."""

    namespace: str = "kruise-system"
    """The manager's own: revisions are kept there."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one SidecarSet at one instant."""

    sidecarset: SidecarSetView
    pods: Sequence[ManagedPod] = ()
    """Those that it manages, by namespace and name."""
    revisions: Sequence[RevisionView] = ()
    """Its own, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Further revisions whose names could be in the way, by name."""
    now: Instant
    settings: Settings = Settings()


def build_snapshot(
    sidecarset: SidecarSetView,
    *,
    pods: Collection[PodView],
    namespaces: Mapping[str, Mapping[str, str]],
    revisions: Iterable[RevisionView],
    now: Instant,
    settings: Settings | None = None,
    crowd: Crowd | None = None,
) -> Snapshot:
    """`pods`: at least those that list the SidecarSet. `namespaces`: labels by name; an absent one is unknown.

    `revisions`: those whose names begin with the SidecarSet's. `crowd`: what is known of the pods already.
    """
    own: list[RevisionView] = []
    others: dict[str, RevisionView] = {}
    for revision in revisions:
        is_own = revision.labels.get(SET_LABEL) == sidecarset.name
        if is_own and revision.controller_uid in ("", sidecarset.uid):
            own.append(revision)
        else:
            others[revision.name] = revision
    selected = {
        namespace: sidecarset.selects_namespace(namespace, namespaces.get(namespace))
        for namespace in {pod.namespace for pod in pods}
    }
    managed = [one for one in (crowd or Crowd()).of(pods, sidecarset) if selected[one.pod.namespace]]
    return Snapshot(
        sidecarset=sidecarset,
        pods=sorted(managed, key=lambda one: (one.pod.namespace, one.pod.name)),
        revisions=sorted_revisions(own),
        other_revisions=others,
        now=now,
        settings=settings or Settings(),
    )
