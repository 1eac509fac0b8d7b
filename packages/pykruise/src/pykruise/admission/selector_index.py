"""Index of stored objects that select pods: by kind, their label selectors and the namespaces of the selected pods.

It covers the enabled kinds whose steps of pod admission depend on such objects (`PodSteps.selects`).

caches of webhooks ──▶ SelectorIndex.find_known()   without a request, possibly out of date
API server         ──▶ SelectorIndex.read()         the current state
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pykruise.admission.pods.chain import list_participants
from pykruise.admission.settings import AdmissionSettings
from pykruise.kube.cache.cache import Change
from pykruise.kube.client.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests, LabelSelection
from pykruise.plans.pod_steps import PodSelection
from pykruise.runtime.object_reader import CachedObjects


class SelectingKind(NamedTuple):
    """A kind whose objects select pods."""

    name: str
    resource: Resource
    selection: PodSelection


def list_selecting_kinds(settings: AdmissionSettings) -> tuple[SelectingKind, ...]:
    """Return the kinds whose objects select pods for pod admission, if these settings enable the kind; none without the
    webhooks of pods.
    """
    if not settings.pod_webhook:
        return ()
    return tuple(
        SelectingKind(kind.name, kind.resource, steps.selects)
        for kind, steps in list_participants(settings.gates.__getitem__)
        if steps.selects is not None
    )


class SelectorIndex:
    """Index from caches or from the API server. `objects`: name of each kind → its cached objects."""

    def __init__(
        self, client: Client, kinds: Sequence[SelectingKind], objects: Mapping[str, CachedObjects[Any]]
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._objects = objects

    def find_known(self) -> Interests | None:
        """Return the index from caches; None if a cache is not synced yet."""
        interests: dict[str, Sequence[LabelSelection]] = {}
        for kind in self._kinds:
            views = self._objects[kind.name].find_known()
            if views is None:
                return None
            interests[kind.resource.kind] = kind.selection.pods(views)
        return interests

    async def read(self) -> Interests:
        """Read the index from the API server. Raises KubeError."""
        return await list_selectors(self._client, self._kinds)

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call `handler` when an object is created or deleted, or selects other pods than before."""
        for kind in self._kinds:
            self._objects[kind.name].cache.subscribe(_on_change(kind.selection, handler))


def _on_change(selection: PodSelection, handler: Callable[[], None]) -> Callable[[Change[Any]], None]:
    def on_change(change: Change[Any]) -> None:
        old, new = (
            selection.decides(view) if view is not None else None for view in (change.old, change.new)
        )
        if old != new:
            handler()

    return on_change


async def list_selectors(client: Client, kinds: Sequence[SelectingKind]) -> Interests:
    """List the objects of each kind from the API server, and return their selectors. Raises KubeError."""
    interests: dict[str, Sequence[LabelSelection]] = {}
    for kind in kinds:
        project = kind.selection.views.projector()
        interests[kind.resource.kind] = kind.selection.pods(
            [project(raw) for raw in await _list_objects(client, kind.resource)]
        )
    return interests


async def _list_objects(client: Client, resource: Resource) -> Sequence[Any]:
    try:
        return (await client.list(resource)).items
    except NotFoundError:
        return ()  # the kind is not installed
