"""Interface between the API server and the network: one POST to a webhook.

clientConfig ──▶ target_of() ──▶ CallTarget ──▶ Caller.call() ──▶ status and body, or CallFailedError

The core of the API server has no sockets; `sandbox/webhook_caller.py` has them. Without a caller, a webhook fails like
an unreachable webhook.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

_ANY: Final = 443


class CallTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a webhook."""

    url: str
    """URL of the target. The URL of a service has the service's name in the cluster (`https://web.ns.svc:443/path`)."""
    service: tuple[str, str, int] | None = None
    """Namespace, name and port, if the webhook is a service."""
    ca_bundle: bytes = b""
    """CA certificates in PEM; empty means the CAs of the system."""


class CallFailedError(Exception):
    """There is no response. The message gives the reason, as Go's HTTP client does."""


class Caller(Protocol):
    """Client that posts to webhooks."""

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """Post the body. Return the HTTP status and the body of the response; the body is empty for an error whose body
        is not plain text.

        Raises CallFailedError.
        """
        ...


class NoCaller:
    """Caller of a server without a network."""

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """Call nothing; raises CallFailedError."""
        raise CallFailedError("this API server calls no webhooks")


def target_of(config: Mapping[str, Any]) -> CallTarget:
    """Return the target of a `clientConfig`, which must be valid."""
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
