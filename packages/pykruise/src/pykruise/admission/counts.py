"""Counts of objects for deletion protection, read from the API server during a review.

The counts come from the API server and not from caches: a pod that started a second ago must be counted, and
deletions that need a count are rare. Lists are read in pages, and only the fields that the count needs are decoded.
"""

from collections.abc import Callable

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, Resource

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector with which the API server omits finished pods."""

TIMEOUT_S = 8.0
"""Timeout in seconds for one page. An API server does not wait longer for the response to the review."""


class _Meta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Claim(_Object):
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Object).decode
_decode_claim = msgspec.json.Decoder(_Claim).decode


class LiveCounts:
    """Counts objects with a client. `client` is called for each count, because at first the manager has no client."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def count_active_pods(self, namespace: str) -> int:
        result = await self._client().list(PODS, namespace, field_selector=UNFINISHED, timeout_s=TIMEOUT_S)
        return _count_active(result.items)

    async def count_bound_claims(self, namespace: str) -> int:
        result = await self._client().list(PERSISTENT_VOLUME_CLAIMS, namespace, timeout_s=TIMEOUT_S)
        try:
            claims = [_decode_claim(raw) for raw in result.items]
        except msgspec.DecodeError as error:
            raise KubeError(f"a PersistentVolumeClaim cannot be read: {error}") from error
        return sum(
            1
            for claim in claims
            if claim.metadata.deletion_timestamp is None and claim.status and claim.status.phase == "Bound"
        )

    async def count_custom_resources(self, resource: Resource) -> int:
        return _count_active((await self._client().list(resource, timeout_s=TIMEOUT_S)).items)


def _count_active(items: list[msgspec.Raw]) -> int:
    try:
        return sum(1 for raw in items if _decode(raw).metadata.deletion_timestamp is None)
    except msgspec.DecodeError as error:
        raise KubeError(f"an object cannot be read: {error}") from error
