"""Resources of the API server, and the resource that a name matches: `deploy`, `clonesets`,
`statefulsets.apps.kruise.io`.

/api, /apis (aggregated: two requests) ──▶ all ServedResources ──▶ Mapper.find(word) ──▶ ServedResource
    several resources match: the first one, and a warning

kubectl does the same: a short name has precedence over a plural or singular name. Groups are in the API server's order,
versions in its order of preference.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kube.client.transport import Request, Transport
from pykruise.kube.errors import parse_error
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import quote_text

_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


class ServedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version, as the API server describes it."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


async def read_served(transport: Transport) -> tuple[ServedResource, ...]:
    """Read all resources, in the API server's order of groups, the preferred version of each group first."""
    answers = await asyncio.gather(_ask(transport, "/api"), _ask(transport, "/apis"))
    served: list[ServedResource] = []
    for path, answer in zip(("/api", "/apis"), answers, strict=True):
        if answer.get("kind") == "APIGroupDiscoveryList":
            served += _parse_aggregated(answer)
        else:
            served += await _read_each_version(transport, path, answer)
    return tuple(served)


async def _ask(transport: Transport, path: str) -> Mapping[str, Any]:
    response = await transport.request(Request("GET", path, headers={"accept": _AGGREGATED}))
    if response.status != 200:
        raise parse_error(response.status, response.body, response.headers)
    result: Mapping[str, Any] = orjson.loads(response.body)
    return result


def _parse_aggregated(answer: Mapping[str, Any]) -> Iterator[ServedResource]:
    for group in answer.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                kind = resource.get("responseKind") or {}
                yield ServedResource(
                    resource=Resource(
                        name,
                        version["version"],
                        resource["resource"],
                        kind.get("kind", ""),
                        namespaced=resource.get("scope") == "Namespaced",
                    ),
                    singular=resource.get("singularResource", ""),
                    short_names=tuple(resource.get("shortNames") or ()),
                    categories=tuple(resource.get("categories") or ()),
                    verbs=tuple(resource.get("verbs") or ()),
                    subresources=tuple(sub["subresource"] for sub in resource.get("subresources") or ()),
                )


async def _read_each_version(
    transport: Transport, path: str, answer: Mapping[str, Any]
) -> list[ServedResource]:
    """Read the resources of an API server without aggregated discovery: one request per group and version."""
    if path == "/api":
        versions = [("", version) for version in answer.get("versions") or ()]
    else:
        versions = [
            (group["name"], version["version"])
            for group in answer.get("groups") or ()
            for version in sorted(
                group["versions"],
                key=lambda item, group=group: item != group.get("preferredVersion"),  # type: ignore[misc]
            )
        ]
    roots = [f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in versions]
    answers = await asyncio.gather(*(_ask(transport, root) for root in roots))
    return [
        served
        for (group, version), listed in zip(versions, answers, strict=True)
        for served in _parse_list(group, version, listed.get("resources") or ())
    ]


def _parse_list(group: str, version: str, resources: Sequence[Mapping[str, Any]]) -> Iterator[ServedResource]:
    subresources: dict[str, list[str]] = {}
    for resource in resources:
        name, slash, subresource = resource["name"].partition("/")
        if slash:
            subresources.setdefault(name, []).append(subresource)
    for resource in resources:
        if "/" not in resource["name"]:
            yield ServedResource(
                resource=Resource(
                    group, version, resource["name"], resource["kind"], namespaced=resource["namespaced"]
                ),
                singular=resource.get("singularName", ""),
                short_names=tuple(resource.get("shortNames") or ()),
                categories=tuple(resource.get("categories") or ()),
                verbs=tuple(resource.get("verbs") or ()),
                subresources=tuple(subresources.get(resource["name"], ())),
            )


class Mapper:
    """Finds the resource for a name. Calls `warn` when a short name also matches resources of other groups."""

    def __init__(self, served: Sequence[ServedResource], *, warn: Callable[[str], None]) -> None:
        self._served = served
        self._warn = warn
        self._warned: set[str] = set()

    @property
    def served(self) -> Sequence[ServedResource]:
        """All resources, in order."""
        return self._served

    def find(self, word: str) -> ServedResource:
        """Find a resource by plural, singular or short name, also with `.group` or `.version.group`.

        Raises KubectlError when no resource matches.
        """
        name, _, rest = word.lower().partition(".")
        served = self._find_by_short_name(name, rest) or self._find_by_name(name, rest)
        if served is None:
            raise KubectlError(f"the server doesn't have a resource type {quote_text(word)}")
        return served

    def find_by_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Resource of a manifest, in the manifest's version."""
        result = (served for served in self._served if served.resource.api_version == api_version)
        return next((served for served in result if served.resource.kind == kind), None)

    def versions_of(self, kind: str) -> list[str]:
        """apiVersions in which the API server serves a kind of this name."""
        return [item.resource.api_version for item in self._served if item.resource.kind == kind]

    def find_in_group(self, group: str, kind: str) -> ServedResource | None:
        """Resource of a group and kind, in the version that the API server prefers."""
        result = (served for served in self._served if served.resource.group == group)
        return next((served for served in result if served.resource.kind == kind), None)

    def _find_by_short_name(self, name: str, rest: str) -> ServedResource | None:
        if rest:
            return next(
                (item for item in self._served if name in item.short_names and _is_in(item, rest)), None
            )
        served = [item for item in self._served if name in item.short_names]
        groups = list(dict.fromkeys(item.resource.group for item in served))
        if not served:
            return None
        for group in groups[1:]:
            other = next(item for item in served if item.resource.group == group)
            text = f'short name "{name}" could also match lower priority resource {other.resource}'
            if text not in self._warned:
                self._warned.add(text)
                self._warn(text)
        return served[0]

    def _find_by_name(self, name: str, rest: str) -> ServedResource | None:
        for served in self._served:
            if name in (served.resource.plural, served.singular or served.resource.kind.lower()) and (
                not rest or _is_in(served, rest)
            ):
                return served
        return None


def _is_in(served: ServedResource, rest: str) -> bool:
    version_and_group = (
        f"{served.resource.version}.{served.resource.group}"
        if served.resource.group
        else served.resource.version
    )
    return rest in (served.resource.group, version_and_group)
