"""A resource as decisions see it: how views are made of its objects, and the indexes by which they are looked up.

a resource's JSON text ──▶ Views.projector() ──▶ view ──▶ caches (sources.py), lists made once (listed.py)

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
    """A resource as decisions see it. Two kinds that mean the same cache use the same value."""

    resource: Resource
    projector: Callable[[], Callable[[bytes | msgspec.Raw], T]]
    """Makes the function that makes a view of an object's JSON text; one for each cache."""
    indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] = {}
    is_apart: bool = False
    """Kept beside the cache of the resource's own kind, which sees it otherwise. Nothing waits for it: the resource
    need not be served."""
    is_metadata_only: bool = False
    """Only metadata is listed and watched (objects are of kind PartialObjectMetadata); what own writes return is
    whole. For resources whose contents are large, or secret."""

    def project(self, raw: bytes | msgspec.Raw) -> T:
        """One view on its own."""
        return self.projector()(raw)


BY_CONTROLLER: Final = "controller"
"""Index: uid of the managing owner."""

ORPHANS: Final = "orphans"
"""Index: namespace of objects without a managing owner."""

BY_NAMESPACE: Final = "namespace"

BY_NAME: Final = "name"
"""Index: the name, in whichever namespace."""
