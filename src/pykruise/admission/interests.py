"""What is stored that decides which pods are asked about: what SidecarSets and WorkloadSpreads mean.

caches of webhooks ──▶ StoredInterests.known()   without a request, perhaps a moment old
API server         ──▶ StoredInterests.read()    as it is now
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

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

__all__ = ["StoredInterests", "live_interests"]


class StoredInterests:
    """Both ways to know. Without `spreads` nobody asks about WorkloadSpreads' pods."""

    def __init__(self, client: Client, sidecars: CachedSidecars, spreads: CachedSpreads | None) -> None:
        self._client = client
        self._sidecars, self._spreads = sidecars, spreads

    def known(self) -> Interests | None:
        """None: something has not been read yet."""
        sets = self._sidecars.known()
        spreads: Sequence[SpreadView] | None = () if self._spreads is None else self._spreads.known()
        return None if sets is None or spreads is None else _interests(sets, spreads)

    async def read(self) -> Interests:
        """Raises KubeError."""
        return await live_interests(self._client, with_spreads=self._spreads is not None)

    def subscribe(self, hear: Callable[[], None]) -> None:
        """`hear` is called when something means other pods than before, or nothing any more."""

        def changed(change: Change[SidecarSetView]) -> None:
            if (change.old and change.old.meant) != (change.new and change.new.meant):
                hear()

        def came_or_went(change: Change[SpreadView]) -> None:
            if change.old is None or change.new is None:
                hear()

        self._sidecars.sets.subscribe(changed)
        if self._spreads is not None:
            self._spreads.cache.subscribe(came_or_went)


async def live_interests(client: Client, *, with_spreads: bool) -> Interests:
    """By a list of each kind. Raises KubeError."""
    sets = [project_sidecarset(raw) for raw in await _listed(client, SIDECAR_SETS)]
    spreads = await _listed(client, WORKLOAD_SPREADS) if with_spreads else ()
    return _interests(sets, [project_spread(raw) for raw in spreads])


async def _listed(client: Client, resource: Resource) -> Sequence[bytes | msgspec.Raw]:
    try:
        return (await client.list(resource)).items
    except NotFoundError:
        return ()  # the kind is not installed


def _interests(sets: Iterable[SidecarSetView], spreads: Iterable[SpreadView]) -> Interests:
    places = sorted({one.namespace for one in spreads})
    return {
        SIDECAR_SETS.kind: [one.meant for one in sets],
        WORKLOAD_SPREADS.kind: [Meant(selector=EVERYTHING, namespaces=(place,)) for place in places],
    }
