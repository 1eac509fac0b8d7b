"""Attributes of a request for an authorizer: derived from method, path and query, even if the path is not served.

GET /api/v1/namespaces/shop/pods?watch=1 ──▶ attributes_of() ──▶ Attributes(verb="watch", resource="pods", …)

Pure. This is the rule of apiserver's `RequestInfo`.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.apiserver.requests.call import parse_flag

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACES: Final = ("status", "finalize")
"""Path segments after a namespace's name that are subresources of the namespace, not resources in it."""


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """A question for an authorizer. Without a `resource`, the question is about `path`."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """Resource with its subresource: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return the attributes that an authorizer checks for a request."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    verb = _VERBS.get(method, method.lower())
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(user=user, verb=method.lower(), path=path)
    if rest[0] in ("proxy", "watch") and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    if not name and verb == "get":
        verb = "watch" if parse_flag(query, "watch") else "list"
        name = _find_selected_name(query)
    elif not name and verb == "delete":
        verb, name = "deletecollection", _find_selected_name(query)
    elif name and verb == "get" and not subresource and parse_flag(query, "watch"):
        verb = "watch"
    return Attributes(
        user=user,
        verb=verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        path=path,
    )


def _find_selected_name(query: Mapping[str, str]) -> str:
    """Return the object's name when the field selector of a list selects a single object."""
    for term in query.get("fieldSelector", "").split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""
