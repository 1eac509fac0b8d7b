"""Finds the resource of a kind through the API server's discovery, for kinds that this program does not know.

group + kind (+ version) ──▶ Discovery.find_resource() ──▶ Resource, or None: it is not served

Found resources are remembered; a kind that was not found is requested again the next time.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.errors import InvalidNameError, MalformedAnswerError, NotFoundError
from pykruise.kube.resources import Resource, root_of

__all__ = ["Discovery"]

LARGEST: Final = 1000
"""Number of kinds that are remembered. When there are more, all are forgotten."""


class _Served(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = True


class _Resources(msgspec.Struct):
    resources: list[_Served] | None = None


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Version | None = None


_decode_resources = msgspec.json.Decoder(_Resources).decode
_decode_group = msgspec.json.Decoder(_Group).decode


class Discovery:
    """Finds resources by discovery. `client` returns the client for each request."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self._known: dict[tuple[str, str, str], Resource] = {}

    async def find_resource(self, group: str, kind: str, *, version: str = "") -> Resource | None:
        """Return the resource of a kind, or None when it is not served; without `version`, in the server's preferred
        version.

        Raises KubeError when discovery fails.
        """
        known = self._known.get((group, kind, version))
        if known is not None:
            return known
        resource = await self._discover(group, kind, version)
        if resource is not None:
            if len(self._known) >= LARGEST:
                self._known = {}
            self._known[group, kind, version] = resource
        return resource

    async def _discover(self, group: str, kind: str, version: str) -> Resource | None:
        client = self._client()
        try:
            if not version:
                version = await self._find_preferred_version(client, group)
            served = _decode_resources(await client.get_path(root_of(group, version))).resources or []
        except (NotFoundError, InvalidNameError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedAnswerError(f"discovery of {group or 'core'}: {error}") from error
        for item in served:
            if item.kind == kind and "/" not in item.name:
                return Resource(group, version, item.name, kind, namespaced=item.namespaced)
        return None

    async def _find_preferred_version(self, client: Client, group: str) -> str:
        if not group:
            return "v1"
        preferred = _decode_group(await client.get_path(root_of(group))).preferred_version
        return preferred.version if preferred is not None else "v1"
