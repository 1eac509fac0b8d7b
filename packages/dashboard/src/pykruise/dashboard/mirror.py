"""A Transport that answers reads from the caches, so that explain, plan and `kubectl kruise` send no requests to the
API server.

Client ──GET of one object, or of a list──▶ MirrorTransport ──▶ cache, if it is synced
                                                          └──▶ the API server: everything else

Lists with a field selector (events of one object) are requested from the API server, and the response is cached for a
short time. So a page that ten people watch causes one request.
"""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

import orjson

from pykruise.dashboard.objects import DashboardObject
from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import parse_label_selector
from pykruise.runtime.views import BY_NAMESPACE

KEPT_S: Final = 3.0
"""Seconds for which a response of the API server is reused."""
_MOST_KEPT: Final = 256

_JSON: Final = {"content-type": "application/json"}


class MirrorTransport(WrappedTransport):
    """`caches`: the mirrored resources. `clock`: monotonic seconds."""

    def __init__(
        self,
        inner: Transport,
        caches: Mapping[Resource, Cache[DashboardObject]],
        *,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(inner)
        self._roots = {
            (resource.root, resource.plural): (resource, cache) for resource, cache in caches.items()
        }
        self._clock = clock
        self._kept: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, Response]] = {}

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        if request.method != "GET":
            return await self._inner.request(request)
        asked = self._find_asked(request.path)
        if asked is not None and "fieldSelector" not in request.query:
            resource, cache, namespace, name = asked
            if name:
                return _build_object_response(cache, resource, Key(namespace, name))
            return _list(cache, namespace, request.query.get("labelSelector", ""))
        return await self._request_with_memory(request)

    def _find_asked(self, path: str) -> tuple[Resource, Cache[DashboardObject], str, str] | None:
        """Return the object or the list that a path requests from a synced cache; None for any other path."""
        parts = path.lstrip("/").split("/")
        size = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:size]), [unquote(part) for part in parts[size:]]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if not rest or len(rest) > 2:
            return None
        result = self._roots.get((root, rest[0]))
        if result is None or not result[1].synced:
            return None
        return *result, namespace, rest[1] if len(rest) == 2 else ""

    async def _request_with_memory(self, request: Request) -> Response:
        key = (request.path, tuple(sorted(request.query.items())))
        now = self._clock()
        known = self._kept.get(key)
        if known is not None and now - known[0] < KEPT_S:
            return known[1]
        answer = await self._inner.request(request)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (now, answer)
        return answer


def _build_object_response(cache: Cache[DashboardObject], resource: Resource, key: Key) -> Response:
    view = cache.get(key)
    if view is not None:
        return Response(200, _JSON, view.raw)
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": f'{resource} "{key.name}" not found',
        "details": {"name": key.name, "group": resource.group, "kind": resource.plural},
    }
    return Response(404, _JSON, orjson.dumps(status))


def _list(cache: Cache[DashboardObject], namespace: str, selector: str) -> Response:
    views = cache.list_by_index(BY_NAMESPACE, namespace) if namespace else cache.values()
    if selector:
        wanted = parse_label_selector(selector)
        views = [view for view in views if wanted.matches(view.labels)]
    items = b",".join(view.raw for view in views)
    body = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[' + items + b"]}"
    return Response(200, _JSON, body)
