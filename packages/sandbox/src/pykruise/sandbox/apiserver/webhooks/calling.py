"""The seam between the API server and the network: one POST to a webhook.

clientConfig ──▶ target_of() ──▶ Target ──▶ Caller.call() ──▶ status and body, or CallFailedError

The API server core knows no sockets; `sandbox/webhook_caller.py` has them. Without a caller a webhook fails as
one that cannot be reached.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

_ANY: Final = 443


class CallTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a webhook is."""

    url: str
    """URL of the target; for a service with its name in the cluster (`https://web.ns.svc:443/path`)."""
    service: tuple[str, str, int] | None = None
    """Namespace, name and port, for a webhook that is one."""
    ca_bundle: bytes = b""
    """PEM; empty: the system's authorities."""


class CallFailedError(Exception):
    """Nothing came back; the text says why, as Go's HTTP client does."""


class Caller(Protocol):
    """Client that posts to webhooks."""

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """HTTP status and body of the answer; of a failure the body only when it is plain text.

        Raises CallFailedError.
        """
        ...


class NoCaller:
    """For a server without a network."""

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """Fails."""
        raise CallFailedError("this API server calls no webhooks")


def target_of(config: Mapping[str, Any]) -> CallTarget:
    """The target of a `clientConfig` that was validated."""
    bundle = base64.b64decode(config.get("caBundle") or "")
    service = config.get("service")
    if service is None:
        return CallTarget(url=config.get("url") or "", ca_bundle=bundle)
    namespace, name, port = service["namespace"], service["name"], service.get("port") or _ANY
    path = (service.get("path") or "/").lstrip("/")
    return CallTarget(
        url=f"https://{name}.{namespace}.svc:{port}/{path}",
        service=(namespace, name, port),
        ca_bundle=bundle,
    )
