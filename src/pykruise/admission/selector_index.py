"""Which pods are selected by what is stored: by SidecarSets, WorkloadSpreads and PersistentPodStates.

caches of webhooks ──▶ SelectorIndex.known()   without a request, perhaps a moment old
API server         ──▶ SelectorIndex.read()    as it is now
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pykruise.kinds.persistentpodstate.readers import CachedStates
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import StateView, project_state
from pykruise.kinds.sidecarset.readers import CachedSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kinds.workloadspread.readers import CachedSpreads
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SpreadView, project_spread
from pykruise.kube.cache import Change
from pykruise.kube.cel import Interests, Meant
from pykruise.kube.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import EVERYTHING

__all__ = ["SelectorIndex", "list_selectors"]


class SelectorIndex:
    """Both ways to know. Without `spreads` pods of WorkloadSpreads do not count."""

    def __init__(
        self, client: Client, sidecars: CachedSidecars, spreads: CachedSpreads | None, states: CachedStates
    ) -> None:
        self._client = client
        self._sidecars, self._spreads, self._states = sidecars, spreads, states

    def known(self) -> Interests | None:
        """None: something has not been read yet."""
        sets = self._sidecars.known()
        spreads: Sequence[SpreadView] | None = () if self._spreads is None else self._spreads.known()
        states = self._states.known()
        if sets is None or spreads is None or states is None:
            return None
        return _index(sets, spreads, states)

    async def read(self) -> Interests:
        """Raises KubeError."""
        return await list_selectors(self._client, with_spreads=self._spreads is not None)

    def subscribe(self, handler: Callable[[], None]) -> None:
        """`handler` is called when something selects other pods than before, or none any more."""

        def changed(change: Change[SidecarSetView]) -> None:
            if (change.old and change.old.meant) != (change.new and change.new.meant):
                handler()

        def came_or_went(change: Change[SpreadView] | Change[StateView]) -> None:
            if change.old is None or change.new is None:
                handler()

        self._sidecars.sets.subscribe(changed)
        self._states.cache.subscribe(came_or_went)
        if self._spreads is not None:
            self._spreads.cache.subscribe(came_or_went)


async def list_selectors(client: Client, *, with_spreads: bool) -> Interests:
    """By a list of each kind. Raises KubeError."""
    sets = [project_sidecarset(raw) for raw in await _listed(client, SIDECAR_SETS)]
    spreads = await _listed(client, WORKLOAD_SPREADS) if with_spreads else ()
    states = await _listed(client, PERSISTENT_POD_STATES)
    return _index(sets, [project_spread(raw) for raw in spreads], [project_state(raw) for raw in states])


async def _listed(client: Client, resource: Resource) -> Sequence[bytes | msgspec.Raw]:
    try:
        return (await client.list(resource)).items
    except NotFoundError:
        return ()  # the kind is not installed


def _index(
    sets: Iterable[SidecarSetView], spreads: Iterable[SpreadView], states: Iterable[StateView]
) -> Interests:
    return {
        SIDECAR_SETS.kind: [one.meant for one in sets],
        WORKLOAD_SPREADS.kind: _in_namespaces(spreads),
        PERSISTENT_POD_STATES.kind: _in_namespaces(states),
    }


def _in_namespaces(objects: Iterable[SpreadView | StateView]) -> list[Meant]:
    """All pods where there is an object."""
    places = sorted({one.namespace for one in objects})
    return [Meant(selector=EVERYTHING, namespaces=(place,)) for place in places]
