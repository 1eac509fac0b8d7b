"""What the API server serves, and which of it a word means: `deploy`, `clonesets`, `statefulsets.apps.kruise.io`.

/api, /apis (aggregated: two requests) ──▶ Served ──▶ Mapper.find(word) ──▶ Mapping; several: the first, and a warning

As kubectl: a short name goes before nothing else, groups in the API server's order, versions as it prefers them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kube.client.transport import Request, Transport
from pykruise.kube.errors import error_for
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import quoted

_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version, as the API server describes it."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


async def read_served(transport: Transport) -> tuple[Served, ...]:
    """All resources, in the API server's order of groups, the preferred version of each first."""
    answers = await asyncio.gather(_ask(transport, "/api"), _ask(transport, "/apis"))
    found: list[Served] = []
    for path, answer in zip(("/api", "/apis"), answers, strict=True):
        if answer.get("kind") == "APIGroupDiscoveryList":
            found += _of_aggregated(answer)
        else:
            found += await _of_plain(transport, path, answer)
    return tuple(found)


async def _ask(transport: Transport, path: str) -> Mapping[str, Any]:
    response = await transport.request(Request("GET", path, headers={"accept": _AGGREGATED}))
    if response.status != 200:
        raise error_for(response.status, response.body, response.headers)
    found: Mapping[str, Any] = orjson.loads(response.body)
    return found


def _of_aggregated(answer: Mapping[str, Any]) -> Iterator[Served]:
    for group in answer.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            for one in version.get("resources") or ():
                kind = one.get("responseKind") or {}
                yield Served(
                    resource=Resource(
                        name,
                        version["version"],
                        one["resource"],
                        kind.get("kind", ""),
                        namespaced=one.get("scope") == "Namespaced",
                    ),
                    singular=one.get("singularResource", ""),
                    short_names=tuple(one.get("shortNames") or ()),
                    categories=tuple(one.get("categories") or ()),
                    verbs=tuple(one.get("verbs") or ()),
                    subresources=tuple(sub["subresource"] for sub in one.get("subresources") or ()),
                )


async def _of_plain(transport: Transport, path: str, answer: Mapping[str, Any]) -> list[Served]:
    """From an API server that does not join its answers: one request for each group and version."""
    if path == "/api":
        versions = [("", one) for one in answer.get("versions") or ()]
    else:
        versions = [
            (group["name"], one["version"])
            for group in answer.get("groups") or ()
            for one in sorted(
                group["versions"],
                key=lambda one, group=group: one != group.get("preferredVersion"),  # type: ignore[misc]
            )
        ]
    roots = [f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in versions]
    answers = await asyncio.gather(*(_ask(transport, root) for root in roots))
    return [
        one
        for (group, version), listed in zip(versions, answers, strict=True)
        for one in _of_list(group, version, listed.get("resources") or ())
    ]


def _of_list(group: str, version: str, resources: Sequence[Mapping[str, Any]]) -> Iterator[Served]:
    subresources: dict[str, list[str]] = {}
    for one in resources:
        name, slash, subresource = one["name"].partition("/")
        if slash:
            subresources.setdefault(name, []).append(subresource)
    for one in resources:
        if "/" not in one["name"]:
            yield Served(
                resource=Resource(group, version, one["name"], one["kind"], namespaced=one["namespaced"]),
                singular=one.get("singularName", ""),
                short_names=tuple(one.get("shortNames") or ()),
                categories=tuple(one.get("categories") or ()),
                verbs=tuple(one.get("verbs") or ()),
                subresources=tuple(subresources.get(one["name"], ())),
            )


class Mapper:
    """Finds what a word means. `warn` is called when it could mean something else too."""

    def __init__(self, served: Sequence[Served], *, warn: Callable[[str], None]) -> None:
        self._served = served
        self._warn = warn
        self._warned: set[str] = set()

    @property
    def served(self) -> Sequence[Served]:
        """Everything, in order."""
        return self._served

    def find(self, word: str) -> Served:
        """The resource that `word` means: plural, singular or short name, also with `.group` or `.version.group`.

        Raises KubectlError when there is none.
        """
        name, _, rest = word.lower().partition(".")
        found = self._of_short(name, rest) or self._of_name(name, rest)
        if found is None:
            raise KubectlError(f"the server doesn't have a resource type {quoted(word)}")
        return found

    def of_kind(self, api_version: str, kind: str) -> Served | None:
        """The resource of a manifest, in its own version."""
        found = (one for one in self._served if one.resource.api_version == api_version)
        return next((one for one in found if one.resource.kind == kind), None)

    def in_group(self, group: str, kind: str) -> Served | None:
        """The resource of a group and kind, in the version that the API server prefers."""
        found = (one for one in self._served if one.resource.group == group)
        return next((one for one in found if one.resource.kind == kind), None)

    def _of_short(self, name: str, rest: str) -> Served | None:
        if rest:
            return next((one for one in self._served if name in one.short_names and _is_in(one, rest)), None)
        found = [one for one in self._served if name in one.short_names]
        groups = list(dict.fromkeys(one.resource.group for one in found))
        if not found:
            return None
        for group in groups[1:]:
            other = next(one for one in found if one.resource.group == group)
            text = f'short name "{name}" could also match lower priority resource {other.resource}'
            if text not in self._warned:
                self._warned.add(text)
                self._warn(text)
        return found[0]

    def _of_name(self, name: str, rest: str) -> Served | None:
        for one in self._served:
            if name in (one.resource.plural, one.singular or one.resource.kind.lower()) and (
                not rest or _is_in(one, rest)
            ):
                return one
        return None


def _is_in(one: Served, rest: str) -> bool:
    version_and_group = (
        f"{one.resource.version}.{one.resource.group}" if one.resource.group else one.resource.version
    )
    return rest in (one.resource.group, version_and_group)
