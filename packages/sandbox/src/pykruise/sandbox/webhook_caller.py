"""HTTPS client of the sandbox's API server for webhooks. It verifies their certificates with the configured CA bundle.

Target, body ──▶ WebhookCaller.call() ──▶ status and body, or CallFailedError with Go's message

There is no network between pods here, so `services` has the real address of a webhook that is a service, by its
namespace, name and port. Its certificate is checked against `name.namespace.svc`, as in a real API server.

The caller owns a pool of connections, so it must be closed.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp
from yarl import URL

from pykruise.kube.http.trust import make_client_context
from pykruise.sandbox.apiserver.webhooks import CallFailedError, CallTarget

_LARGEST: Final = 8 * 1024 * 1024
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}


class WebhookCaller:
    """A Caller over HTTPS. `services` maps (namespace, name, port) to the real host and port."""

    def __init__(self, services: Mapping[tuple[str, str, int], tuple[str, int]] | None = None) -> None:
        self._services = services if services is not None else {}
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def call(self, target: CallTarget, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """Return HTTP status and body of the response. Raises CallFailedError."""
        url, server_name = self._resolve(target)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.post(
                    url.update_query(timeout=f"{timeout_s:g}s"),
                    data=body,
                    headers=_HEADERS,
                    ssl=self._make_tls_context(target.ca_bundle),
                    server_hostname=server_name,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                answer = await _read(response)
                is_readable = response.status == 200 or response.content_type.startswith("text/")
                return response.status, answer if is_readable else b""
        except TimeoutError as err:
            raise CallFailedError("context deadline exceeded") from err
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as err:
            raise CallFailedError(_explain(err, url)) from err

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _resolve(self, target: CallTarget) -> tuple[URL, str | None]:
        """Return the URL to connect to, and the name for the certificate if it differs from the URL's host."""
        try:
            url = URL(target.url)
        except ValueError as err:
            raise CallFailedError(f"parse {target.url!r}: {err}") from err
        if target.service is None:
            return url, None
        result = self._services.get(target.service)
        if result is None:
            raise CallFailedError(f'service "{target.service[1]}" not found')
        host, port = result
        return url.with_host(host).with_port(port), url.host

    def _make_tls_context(self, bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            context = make_client_context(bundle.decode() if bundle else None)
            self._contexts[bundle] = context
        return context


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _LARGEST:
            raise CallFailedError("the response is too large")
        chunks.append(chunk)
    return b"".join(chunks)


def _explain(err: Exception, url: URL) -> str:
    match err:
        case aiohttp.ClientConnectorCertificateError():
            return f"tls: failed to verify certificate: x509: {_describe_certificate_problem(str(err))}"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return f"dial tcp {url.host}:{url.port}: connect: connection refused"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case _:
            return str(err) or type(err).__name__


def _describe_certificate_problem(text: str) -> str:
    if "Hostname mismatch" in text or "IP address mismatch" in text:
        return "certificate is not valid for the name it was called by"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return "certificate signed by unknown authority"
