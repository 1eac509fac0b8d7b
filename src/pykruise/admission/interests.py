"""What is stored that decides which pods are asked about: what SidecarSets and WorkloadSpreads mean.

caches of webhooks ──▶ StoredInterests.known()   without a request, perhaps a moment old
API server         ──▶ StoredInterests.read()    as it is now
"""

from collections.abc import Callable, Iterable, Sequence

from pykruise.kinds.sidecarset.readers import CachedSidecars, LiveSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kinds.workloadspread.readers import CachedSpreads, LiveSpreads
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.cache import Change
from pykruise.kube.cel import Interests, Meant
from pykruise.kube.selectors import EVERYTHING

__all__ = ["StoredInterests"]


class StoredInterests:
    """Both ways to know. Without `spreads` nobody asks about WorkloadSpreads' pods."""

    def __init__(
        self,
        sidecars: CachedSidecars,
        spreads: CachedSpreads | None,
        *,
        live_sidecars: LiveSidecars,
        live_spreads: LiveSpreads,
    ) -> None:
        self._sidecars, self._spreads = sidecars, spreads
        self._live_sidecars, self._live_spreads = live_sidecars, live_spreads

    def known(self) -> Interests | None:
        """None: something has not been read yet."""
        sets = self._sidecars.known()
        spreads: Sequence[SpreadView] | None = () if self._spreads is None else self._spreads.known()
        return None if sets is None or spreads is None else _interests(sets, spreads)

    async def read(self) -> Interests:
        """Raises KubeError."""
        sets = await self._live_sidecars.sidecar_sets()
        return _interests(sets, () if self._spreads is None else await self._live_spreads.spreads(""))

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


def _interests(sets: Iterable[SidecarSetView], spreads: Iterable[SpreadView]) -> Interests:
    places = sorted({one.namespace for one in spreads})
    return {
        SIDECAR_SETS.kind: [one.meant for one in sets],
        WORKLOAD_SPREADS.kind: [Meant(selector=EVERYTHING, namespaces=(place,)) for place in places],
    }
