"""Reads from an API server's discovery the resources whose objects can be listed, watched and deleted.

client ──▶ discover() ──▶ Inventory: one Resource for each group and plural ──▶ garbage collector, namespaces

A resource that is served in several versions appears in the group's preferred version.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import Resource

_NEEDED = frozenset({"delete", "list", "watch"})
_AT_ONCE = 8


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Served resources.

    `failed`: group versions whose resources could not be read (`v1`, `apps/v1`). `kinds`: apiVersion and kind of each
    served kind, preferred versions first. `scaled`: resources with a scale subresource.
    """

    resources: tuple[Resource, ...]
    failed: tuple[str, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    scaled: frozenset[Resource] = frozenset()

    def versions_of(self, kind: str) -> list[str]:
        """The apiVersions of all groups that serve kinds of this name."""
        return [api_version for api_version, name in self.kinds if name == kind]

    def find(self, *, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind in the group, in any version; None when the kind is unknown."""
        group = api_version.rpartition("/")[0]
        for resource in self.resources:
            if resource.kind == kind and resource.group == group:
                return resource
        return None


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] = ()


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    versions: tuple[_GroupVersion, ...] = ()
    preferred_version: _GroupVersion = _GroupVersion()


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


class _Served(msgspec.Struct, frozen=True):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ServedList(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


async def discover(client: Client) -> Inventory:
    """Read discovery. A group version whose request the server rejects is listed in `failed`; the others are used.

    Raises KubeError when the list of groups cannot be read, or when a request gets no response.
    """
    core = msgspec.json.decode(await client.get_path("/api"), type=_Versions)
    groups = msgspec.json.decode(await client.get_path("/apis"), type=_Groups)
    group_versions = [*core.versions, *_list_versions_in_order(groups.groups)]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def served(group_version: str) -> tuple[_Served, ...] | None:
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        async with gate:
            try:
                body = await client.get_path(root)
            except ApiError:
                return None
        return msgspec.json.decode(body, type=_ServedList).resources

    answers = await asyncio.gather(*map(served, group_versions))
    result = {
        (resource.group, resource.plural): resource
        # The preferred version is first, so in reversed order it replaces the others.
        for group_version, answer in reversed(list(zip(group_versions, answers, strict=True)))
        for resource in _list_deletable_resources(group_version, answer or ())
    }
    failed = [name for name, answer in zip(group_versions, answers, strict=True) if answer is None]
    ordered = sorted(result.values(), key=lambda resource: (resource.group, resource.plural))
    kinds = tuple(
        (group_version, resource.kind)
        for group_version, answer in zip(group_versions, answers, strict=True)
        for resource in _list_deletable_resources(group_version, answer or ())
    )
    scales = {
        (group_version, item.name.removesuffix("/scale"))
        for group_version, answer in zip(group_versions, answers, strict=True)
        for item in answer or ()
        if item.name.endswith("/scale")
    }
    scaled = frozenset(each for each in ordered if (each.api_version, each.plural) in scales)
    return Inventory(resources=tuple(ordered), failed=tuple(failed), kinds=kinds, scaled=scaled)


def _list_versions_in_order(groups: Iterable[_Group]) -> Iterator[str]:
    for group in groups:
        preferred = group.preferred_version.group_version
        if preferred:
            yield preferred
        yield from (version.group_version for version in group.versions if version.group_version != preferred)


def _list_deletable_resources(group_version: str, served: Iterable[_Served]) -> Iterator[Resource]:
    group, _, version = group_version.rpartition("/")
    for item in served:
        if "/" not in item.name and _NEEDED.issubset(item.verbs):
            yield Resource(group, version, item.name, item.kind, item.namespaced)
