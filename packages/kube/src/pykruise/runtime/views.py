"""Views: a resource as decisions see it, with a projection of its objects and the indexes for lookups.

a resource's JSON text ──▶ Views.projector() ──▶ view ──▶ caches (sources.py), single lists (listed_objects.py)

Pure.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.cache import Projected
from pykruise.kube.resources import Resource

__all__ = ["BY_CONTROLLER", "BY_NAME", "BY_NAMESPACE", "ORPHANS", "Views"]

T = TypeVar("T", bound=Projected)


class Views(msgspec.Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """A resource as decisions see it. Kinds that share a cache use the same value."""

    resource: Resource
    projector: Callable[[], Callable[[bytes | msgspec.Raw], T]]
    """Returns a function that projects an object's JSON text to a view; each cache has its own."""
    indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] = {}
    is_apart: bool = False
    """Whether these views have their own cache, in addition to the cache with the main views of the resource. No
    controller waits until this cache is synced, because the API server may not serve the resource.
    """
    is_metadata_only: bool = False
    """Whether only metadata is listed and watched (objects are of kind PartialObjectMetadata); the responses to writes
    are complete. For resources with large or secret contents.
    """

    def project(self, raw: bytes | msgspec.Raw) -> T:
        """Return the view of one object."""
        return self.projector()(raw)


BY_CONTROLLER: Final = "controller"
"""Index: uid of the managing owner."""

ORPHANS: Final = "orphans"
"""Index: namespace of objects without a managing owner."""

BY_NAMESPACE: Final = "namespace"
"""Index: the namespace."""

BY_NAME: Final = "name"
"""Index: the name, in any namespace."""
