"""Which pods are selected by what is stored: by objects of the kinds that take part in admission of pods.

caches of webhooks ──▶ SelectorIndex.known()   without a request, perhaps a moment old
API server         ──▶ SelectorIndex.read()    as it is now
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import project_state
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests, Meant
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.pods.probes.views import POD_PROBE_MARKERS, MarkerView, marker_projector
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, BudgetView, project_budget

__all__ = ["Known", "SelectorIndex", "list_selectors", "selecting_kinds"]


class Known(msgspec.Struct, frozen=True):
    """Where the objects of one kind are known from."""

    objects: Callable[[], Sequence[Any] | None]
    """None: they have not been read yet."""
    cache: Cache[Any]


class _Selecting(msgspec.Struct, frozen=True):
    """How the objects of one kind select pods."""

    project: Callable[[Any], Any]
    meant: Callable[[Iterable[Any]], list[Meant]]
    decides: Callable[[Any], Any] = lambda _: True
    """What of an object decides; nothing but its existence, where the rest cannot be changed or does not count."""


def _in_namespaces(objects: Iterable[Any]) -> list[Meant]:
    """All pods where there is an object."""
    places = sorted({one.namespace for one in objects})
    return [Meant(selector=EVERYTHING, namespaces=(place,)) for place in places]


def _of_sidecarset(one: SidecarSetView) -> Meant:
    return one.meant


def _of_budget(one: BudgetView) -> Meant:
    """Of a workload's pods the labels are not known."""
    return Meant(selector=one.selector if one.target is None else EVERYTHING, namespaces=(one.namespace,))


def _of_markers(found: Iterable[MarkerView]) -> Iterable[Meant]:
    for one in found:
        if one.selector is not None:
            yield Meant(selector=one.selector, namespaces=(one.namespace,))


_KINDS: Final[Mapping[Resource, _Selecting]] = {
    SIDECAR_SETS: _Selecting(
        project_sidecarset, lambda found: [_of_sidecarset(one) for one in found], _of_sidecarset
    ),
    WORKLOAD_SPREADS: _Selecting(SPREAD_VIEWS.projector(), _in_namespaces),
    POD_UNAVAILABLE_BUDGETS: _Selecting(project_budget, lambda found: [_of_budget(one) for one in found]),
    PERSISTENT_POD_STATES: _Selecting(project_state, _in_namespaces),
    POD_PROBE_MARKERS: _Selecting(marker_projector(), lambda found: list(_of_markers(found))),
}


def selecting_kinds(settings: AdmissionSettings) -> tuple[Resource, ...]:
    """The kinds whose objects mean pods, under these settings."""
    off = {
        WORKLOAD_SPREADS: not (settings.pod_webhook and settings.workload_spread),
        POD_UNAVAILABLE_BUDGETS: not (settings.pod_webhook and settings.has_budgets),
        POD_PROBE_MARKERS: not (settings.pod_webhook and settings.probes_on_virtual_nodes),
    }
    return tuple(one for one in _KINDS if not off.get(one))


class SelectorIndex:
    """Both ways to know. `known`: the kinds that count."""

    def __init__(self, client: Client, known: Mapping[Resource, Known]) -> None:
        self._client = client
        self._known = known

    def known(self) -> Interests | None:
        """None: something has not been read yet."""
        found: dict[str, Sequence[Meant]] = {}
        for resource, known in self._known.items():
            objects = known.objects()
            if objects is None:
                return None
            found[resource.kind] = _KINDS[resource].meant(objects)
        return found

    async def read(self) -> Interests:
        """Raises KubeError."""
        return await list_selectors(self._client, tuple(self._known))

    def subscribe(self, handler: Callable[[], None]) -> None:
        """`handler` is called when something selects other pods than before, or none any more."""
        for resource, known in self._known.items():
            known.cache.subscribe(_on_change(_KINDS[resource], handler))


def _on_change(selecting: _Selecting, handler: Callable[[], None]) -> Callable[[Change[Any]], None]:
    def on_change(change: Change[Any]) -> None:
        old, new = (selecting.decides(one) if one is not None else None for one in (change.old, change.new))
        if old != new:
            handler()

    return on_change


async def list_selectors(client: Client, kinds: Sequence[Resource]) -> Interests:
    """By a list of each kind. Raises KubeError."""
    found: dict[str, Sequence[Meant]] = {}
    for resource in kinds:
        selecting = _KINDS[resource]
        found[resource.kind] = selecting.meant(
            [selecting.project(raw) for raw in await _listed(client, resource)]
        )
    return found


async def _listed(client: Client, resource: Resource) -> Sequence[bytes | msgspec.Raw]:
    try:
        return (await client.list(resource)).items
    except NotFoundError:
        return ()  # the kind is not installed
