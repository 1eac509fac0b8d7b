"""Which resource a kind is, as the API server says: for kinds that this program was not built with.

group + kind (+ version) ──▶ Discovery.resource() ──▶ Resource, or None: it is not served

What was found is remembered; what was not is asked for again.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.errors import InvalidNameError, MalformedAnswerError, NotFoundError
from pykruise.kube.resources import Resource, root_of

__all__ = ["Discovery"]

LARGEST: Final = 1000
"""Kinds that are remembered; beyond that it starts afresh."""


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
    """Asks over a client, which is looked up at each question."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self._known: dict[tuple[str, str, str], Resource] = {}

    async def resource(self, group: str, kind: str, *, version: str = "") -> Resource | None:
        """The resource of a kind; without `version` in the one that the API server prefers.

        Raises KubeError when the API server cannot be asked.
        """
        known = self._known.get((group, kind, version))
        if known is not None:
            return known
        resource = await self._asked(group, kind, version)
        if resource is not None:
            if len(self._known) >= LARGEST:
                self._known = {}
            self._known[group, kind, version] = resource
        return resource

    async def _asked(self, group: str, kind: str, version: str) -> Resource | None:
        client = self._client()
        try:
            if not version:
                version = await self._preferred(client, group)
            served = _decode_resources(await client.get_path(root_of(group, version))).resources or []
        except (NotFoundError, InvalidNameError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedAnswerError(f"discovery of {group or 'core'}: {error}") from error
        for item in served:
            if item.kind == kind and "/" not in item.name:
                return Resource(group, version, item.name, kind, namespaced=item.namespaced)
        return None

    async def _preferred(self, client: Client, group: str) -> str:
        if not group:
            return "v1"
        preferred = _decode_group(await client.get_path(root_of(group))).preferred_version
        return preferred.version if preferred is not None else "v1"
