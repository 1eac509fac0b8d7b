"""Routes: the collection, object, or subresource of a served resource that a path names.

/apis/apps/v1/namespaces/default/deployments/web/scale ──▶ route() ──▶ Route, or None

Pure.
"""

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Meaning of a path. `watch`: the path is of the old form with `/watch/`.

    Whether the subresource exists is not checked.
    """

    entry: CatalogEntry
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


def route(catalog: Catalog, path: str) -> Route | None:
    """Return the route of a percent-encoded path below /api/v1 or /apis/group/version; None when there is no such
    resource.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if "%" in path or "" in rest:
        try:
            rest = [unquote(part, errors="strict") for part in rest]
        except UnicodeDecodeError:
            return None
        if any(not part or "/" in part or "\0" in part for part in rest):
            return None
    watch = rest[0] == "watch" and len(rest) > 1
    return _find_route(catalog, group, version, rest[1:] if watch else rest, watch=watch)


def _find_route(
    catalog: Catalog, group: str, version: str, parts: Sequence[str], *, watch: bool
) -> Route | None:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        below = catalog.find_entry(group, version, parts[2])
        if below is not None and below.resource.namespaced:
            namespace, parts = parts[1], parts[2:]
    entry = catalog.find_entry(group, version, parts[0])
    if entry is None or len(parts) > 3:
        return None
    if entry.resource.namespaced and not namespace and len(parts) > 1:
        return None
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    return Route(entry=entry, namespace=namespace, name=name, subresource=subresource, watch=watch)
