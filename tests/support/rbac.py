"""RBAC as an API server applies it, around a transport: it denies what the generated roles do not allow.

build_roles() ──▶ Authorizer.allows() ──▶ AuthorizingTransport ──▶ 403 with Kubernetes' message, or the inner transport

A scenario that uses it and passes shows that the generated roles are sufficient.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.errors import parse_error

USER = "system:serviceaccount:kruise-system:kruise-manager"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Authorizer:
    """Decides whether the subject of all bindings in `documents` may send a request."""

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        self._wide: list[Mapping[str, Any]] = []
        self._own: list[tuple[str, Mapping[str, Any]]] = []
        for doc in documents:
            if doc["kind"] == "ClusterRole":
                self._wide += doc["rules"]
            elif doc["kind"] == "Role":
                self._own += [(doc["metadata"]["namespace"], rule) for rule in doc["rules"]]
        self._known: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}

    def allows(self, verb: str, group: str, resource: str, *, namespace: str = "", name: str = "") -> bool:
        """Whether one of the rules allows it."""
        asked = (verb, group, resource, namespace)
        if (rules := self._known.get(asked)) is None:
            rules = self._known[asked] = list(self._rules(*asked))
        return any("resourceNames" not in rule or name in rule["resourceNames"] for rule in rules)

    def _rules(self, verb: str, group: str, resource: str, namespace: str) -> Iterator[Mapping[str, Any]]:
        """Rules for this resource, also rules that are limited to some names."""
        wild = f"*/{resource.partition('/')[2]}"  # the subresource of any resource
        for rule in [*self._wide, *(rule for where, rule in self._own if where == namespace)]:
            is_of_group = group in rule["apiGroups"] or "*" in rule["apiGroups"]
            if verb in rule["verbs"] and is_of_group and {resource, wild, "*"} & set(rule["resources"]):
                yield rule


class AuthorizingTransport(WrappedTransport):
    """Denies what `authorizer` does not allow. `refused` lists the denied requests."""

    def __init__(self, inner: Transport, authorizer: Authorizer) -> None:
        super().__init__(inner)
        self._authorizer = authorizer
        self.refused: list[str] = []

    async def request(self, request: Request, /) -> Response:
        if (answer := self._refusal(request)) is not None:
            return answer
        return await self._inner.request(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if (answer := self._refusal(msgspec.structs.replace(request, method="WATCH"))) is not None:
            raise parse_error(answer.status, answer.body, answer.headers)
        async with self._inner.stream(request) as lines:
            yield lines

    def _refusal(self, request: Request) -> Response | None:
        method, query = request.method, request.query
        parts = request.path.strip("/").split("/")
        if parts[0] not in ("api", "apis") or len(parts) < 3:
            return None  # discovery, /version: every user may
        group = "" if parts[0] == "api" else parts[1]
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if not rest:
            return None  # discovery of a group
        namespace = ""
        if not rest:
            return None  # discovery, which every user may read
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = rest[0] + (f"/{rest[2]}" if len(rest) > 2 else "")
        name = rest[1] if len(rest) > 1 else _name_of(query)
        verb = _VERBS.get(method) or ("watch" if method == "WATCH" else "get" if len(rest) > 1 else "list")
        if self._authorizer.allows(verb, group, resource, namespace=namespace, name=name):
            return None
        what = f'User "{USER}" cannot {verb} resource "{resource}" in API group "{group}"'
        self.refused.append(f"{verb} {resource}.{group} {namespace}/{name}")
        message = f"{resource} is forbidden: {what}"
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        return Response(403, {"content-type": "application/json"}, json.dumps(status).encode())


def _name_of(query: Mapping[str, str]) -> str:
    """Name of the request's object; a list or watch with a field selector for one name has this name."""
    selector = query.get("fieldSelector", "")
    return selector.removeprefix("metadata.name=") if selector.startswith("metadata.name=") else ""
