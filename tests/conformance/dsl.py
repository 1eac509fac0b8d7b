"""The form of a case: a title and the requests of one conversation with an API server, in order.

    case(
        "a merge patch removes what it sets to null",
        create("configmaps", config_map("a", x="1", y="2")),
        patch("configmaps/a", {"data": {"x": None}}, MERGE),
        get("configmaps/a"),
    )

Each case has its own namespace, which is created before its first request. Paths are short: `pods/a/status` is read
in that namespace, `deployments` knows its group, `widgets@v1/w` is a custom resource in version v1 of the
case's own group, `$ns.example.com` (`widgets!@v1/w` if it is cluster-scoped), and a path that begins with a
slash is used unchanged.

In every string of a path, query, header or body, `$ns` is the case's namespace, `$hook` the URL of the webhooks of
hooks.py, `$bundle` their CA, and `${2.metadata.uid}` a value of the response to the second request (steps count from
1); if a string contains nothing else, the value keeps its type. `based_on` of a `put` names the response that it
changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE",
    "STRATEGIC",
    "BasedOn",
    "Case",
    "Define",
    "Forget",
    "Pause",
    "Request",
    "Step",
    "Watch",
    "apply",
    "based_on",
    "case",
    "create",
    "define",
    "delete",
    "forget",
    "get",
    "owned",
    "patch",
    "pause",
    "post_text",
    "put",
    "raw",
    "table",
    "watch",
]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class BasedOn:
    """The body is the response to a step, changed by a merge patch."""

    step: int
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """One request with one response. `only`: the parts of the response that are compared, as dotted paths."""

    method: str
    path: str
    body: Any = None  # a document, a BasedOn, or text, which is sent unchanged
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    managed_fields: bool = False  # whether managedFields are compared

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.method} {self.path}{'?' + query if query else ''}"


@dataclass(frozen=True)
class Watch:
    """A watch of one second. `during`: requests that are sent while it is open, whose responses are not compared.

    The result is the list of its events.
    """

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    during: Sequence[Request] = ()

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"WATCH {self.path}{'?' + query if query else ''}"


@dataclass(frozen=True)
class Define:
    """Create a CRD and wait until its first served version can be listed; the result is the CRD at that time."""

    crd: Mapping[str, Any]

    def __str__(self) -> str:
        return f"DEFINE {self.crd['spec']['names']['plural']}"


@dataclass(frozen=True)
class Pause:
    """Wait until a configuration takes effect: a real server reads it from a watch. Nothing is compared."""

    seconds: float = 1.0

    def __str__(self) -> str:
        return f"PAUSE {self.seconds:g} s"


@dataclass(frozen=True)
class Forget:
    """Make the server compact its history up to now, as every server does after some minutes."""

    def __str__(self) -> str:
        return "FORGET"


Step = Request | Watch | Define | Pause | Forget


@dataclass(frozen=True)
class Case:
    """A conversation. Its title is a sentence, from which `name` and its namespace are derived."""

    title: str
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """The title for paths, test ids and file names."""
        words = "".join(c if c.isalnum() else " " for c in self.title.lower()).split()
        return "-".join(words)

    @property
    def namespace(self) -> str:
        """The name, cut to leave room for suffixes in the name of a namespace."""
        return self.name[:48].strip("-")


def case(title: str, *steps: Step) -> Case:
    """A case; see the module's docstring."""
    return Case(title, steps)


def get(path: str, *, only: Sequence[str] = (), accept: str = "", **query: str) -> Request:
    """GET. Query parameters that are no Python names: `get(path, **{"continue": token})`."""
    return Request("GET", path, query=query, headers=_accept(accept), only=tuple(only))


def table(path: str, **query: str) -> Request:
    """GET, asking for a table as kubectl does."""
    return Request("GET", path, query=query, headers={"accept": _TABLE})


def create(path: str, body: Any, *, only: Sequence[str] = (), **query: str) -> Request:
    """POST of a document."""
    return Request("POST", path, body, query=query, only=tuple(only))


def post_text(path: str, text: str, *, content_type: str = "application/json", **query: str) -> Request:
    """POST of text that may be no document."""
    return Request("POST", path, text, query=query, headers={"content-type": content_type})


def put(path: str, body: Any, **query: str) -> Request:
    """PUT of a document, or of an answer with changes."""
    return Request("PUT", path, body, query=query)


def patch(path: str, body: Any, kind: str = STRATEGIC, *, only: Sequence[str] = (), **query: str) -> Request:
    """PATCH of a kind."""
    return Request("PATCH", path, body, query=query, headers={"content-type": kind}, only=tuple(only))


def owned(request: Request) -> Request:
    """The request; the managedFields of its response are compared, too."""
    return replace(request, managed_fields=True)


def apply(path: str, body: Any, *, manager: str = "tester", force: bool = False, **query: str) -> Request:
    """Server-side apply."""
    query = {"fieldManager": manager, **({"force": "true"} if force else {}), **query}
    return Request("PATCH", path, body, query=query, headers={"content-type": APPLY}, managed_fields=True)


def delete(path: str, options: Any = None, **query: str) -> Request:
    """DELETE, with DeleteOptions in the body when they are given."""
    return Request("DELETE", path, options, query=query)


def raw(
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    managed_fields: bool = False,
    **query: str,
) -> Request:
    """Any request."""
    return Request(method, path, body, query=query, headers=headers or {}, managed_fields=managed_fields)


def watch(path: str, *during: Request, accept: str = "", **query: str) -> Watch:
    """A watch of one second."""
    return Watch(path, query=query, headers=_accept(accept), during=during)


def define(crd: Mapping[str, Any]) -> Define:
    """Create a CRD, and wait until it is served."""
    return Define(crd)


def pause(seconds: float = 1.0) -> Pause:
    """Wait, for caches of a real server."""
    return Pause(seconds)


def forget() -> Forget:
    """Compact the history of the server."""
    return Forget()


def based_on(step: int, changes: Mapping[str, Any] | None = None) -> BasedOn:
    """The response to a step (from 1), changed by a merge patch."""
    return BasedOn(step, changes or {})


def _accept(value: str) -> dict[str, str]:
    return {"accept": value} if value else {}
